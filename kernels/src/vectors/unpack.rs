//! Unpacking of tiles from block formats, written where the elements are wanted.

use std::mem::MaybeUninit;

use super::bfp_decode::{BfpDecode, DeviceDecode};
use super::decode::Decode;
use super::encode::MAX_GROUPS;
use super::lanes::{Bf16, F16, F32, Lane};
use super::mx::{FloatDecode, IntDecode, MxVector};
use crate::formats::{BlockCodec, Decoding, GROUP, MX_BLOCK, Number, Rule, TileShape};
use crate::memory::{CACHE_LINE, Destination, Output, assert_readable, assert_writable};

/// A row of packed tiles to unpack: which rectangle of each, and where it goes.
///
/// Tile t is at byte `src_at + t * src_tile` of the source. Of each tile the elements (`row0` + r, `col0` + c) with r < `rows` and
/// c < `cols` go to byte `dst_at + t * dst_tile + r * dst_row + c * dst_col` of the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnpackArgs {
    /// Number of tiles.
    pub tiles: usize,
    /// Byte of the first tile.
    pub src_at: usize,
    /// Bytes from a packed tile to the next.
    pub src_tile: usize,
    /// First row of the rectangle.
    pub row0: usize,
    /// First column of the rectangle.
    pub col0: usize,
    /// Rows of the rectangle.
    pub rows: usize,
    /// Columns of the rectangle.
    pub cols: usize,
    /// Byte where the first tile's rectangle begins.
    pub dst_at: usize,
    /// Bytes from a rectangle to the next.
    pub dst_tile: isize,
    /// Bytes from an element to the one in the next row.
    pub dst_row: isize,
    /// Bytes from an element to the one in the next column.
    pub dst_col: isize,
}

/// Tiles whose bytes [`Unpacking::new`] has found to lie inside both slices.
pub(crate) struct Unpacking<'a> {
    codec: &'a BlockCodec,
    to: Number,
    src: &'a [u8],
    args: UnpackArgs,
    dst: Output<'a>,
}

impl<'a> Unpacking<'a> {
    /// Unpacking of a rectangle of each tile. `None` when there is nothing to unpack.
    ///
    /// # Panics
    /// As [`Kernels::unpack`](crate::Kernels::unpack).
    pub(crate) fn new(
        codec: &'a BlockCodec,
        to: Number,
        src: &'a [u8],
        args: &UnpackArgs,
        dst: &'a mut Destination<'_>,
    ) -> Option<Unpacking<'a>> {
        let (a, tile) = (*args, codec.tile());
        let inside = |first: usize, count: usize, side: usize| first <= side && count <= side - first;
        assert!(
            inside(a.row0, a.rows, tile.rows()) && inside(a.col0, a.cols, tile.cols()),
            "the rectangle of {a:?} leaves a {tile} tile"
        );
        if a.tiles == 0 || a.rows == 0 || a.cols == 0 {
            return None;
        }
        let step = isize::try_from(a.src_tile).unwrap_or(isize::MAX);
        assert_readable(src.len(), a.src_at, codec.tile_bytes(), [(a.tiles, step)].into_iter());
        let elements = [(a.tiles, a.dst_tile), (a.rows, a.dst_row), (a.cols, a.dst_col)];
        assert_writable(dst.len(), a.dst_at, to.size(), elements.into_iter());
        // Rows that are lines, each at the beginning of one.
        let tall = |n: usize, step: isize| n == 1 || step.unsigned_abs().is_multiple_of(CACHE_LINE);
        let whole = (a.rows, a.cols) == (tile.rows(), tile.cols()) && a.dst_col == to.size() as isize;
        let lines = whole && (a.cols * to.size()).is_multiple_of(CACHE_LINE) && tall(a.tiles, a.dst_tile);
        let lines = lines && tall(a.rows, a.dst_row) && !codec.options().transposed;
        Some(Unpacking { codec, to, src, args: a, dst: dst.output(lines) })
    }

    #[inline(always)]
    fn tile(&self, t: usize) -> &'a [u8] {
        &self.src[self.args.src_at + t * self.args.src_tile..][..self.codec.tile_bytes()]
    }

    /// Where element (r, c) of the rectangle of tile `t` goes.
    #[inline(always)]
    fn place(&self, t: usize, r: usize, c: usize) -> usize {
        let a = &self.args;
        a.dst_at
            .wrapping_add_signed((t as isize).wrapping_mul(a.dst_tile))
            .wrapping_add_signed((r as isize).wrapping_mul(a.dst_row))
            .wrapping_add_signed((c as isize).wrapping_mul(a.dst_col))
    }
}

/// Vector code where there is some, the rule for the rest.
#[inline(always)]
pub(crate) fn body(on: Unpacking<'_>) {
    let codec = on.codec;
    match codec.rule() {
        Rule::Bfp(_) if codec.options().compact => scalar(on),
        Rule::Bfp(bfp) if codec.options().decoding == Decoding::Device => to_any(on, DeviceDecode::new(bfp)),
        Rule::Bfp(bfp) => to_any(on, BfpDecode::new(bfp, codec.options().decoding == Decoding::Host)),
        Rule::Mx(element) if element.is_float() => {
            let vector = MxVector::new(element, codec.format());
            match vector.has_special() {
                true => to_any(on, FloatDecode::<true>(vector)),
                false => to_any(on, FloatDecode::<false>(vector)),
            }
        }
        Rule::Mx(element) => to_any(on, IntDecode(MxVector::new(element, codec.format()))),
    }
}

#[inline(always)]
fn to_any<D: Decode>(on: Unpacking<'_>, decode: D) {
    match on.to {
        Number::F32 => tiles::<D, F32, 4>(on, decode),
        Number::Bf16 => tiles::<D, Bf16, 2>(on, decode),
        Number::F16 => tiles::<D, F16, 2>(on, decode),
        _ => scalar(on),
    }
}

/// Blocks of an MX format as the OCP text has them, each a tile of its own.
#[inline(always)]
fn blocks<D: Decode, L: Lane<N>, const N: usize>(on: Unpacking<'_>, decode: D) {
    match on.codec.code_bits() {
        8 => blocks_of::<D, L, N, 32>(on, decode, 8),
        6 => blocks_of::<D, L, N, 24>(on, decode, 6),
        4 => blocks_of::<D, L, N, 16>(on, decode, 4),
        _ => blocks_of::<D, L, N, 8>(on, decode, 2),
    }
}

/// [`blocks`] whose codes have `bits` bits, and fill `M` bytes.
#[inline(always)]
fn blocks_of<D: Decode, L: Lane<N>, const N: usize, const M: usize>(
    on: Unpacking<'_>,
    decode: D,
    bits: usize,
) {
    let a = on.args;
    let whole = (a.cols, a.dst_col) == (MX_BLOCK, N as isize);
    let UnpackArgs { row0, col0, rows, cols, dst_row: row, dst_col: col, .. } = a;
    let rectangle = Rectangle { stored: on.codec.tile(), row0, col0, rows, cols, row, col };
    for t in 0..a.tiles {
        let block = &on.src[a.src_at + t * a.src_tile..][..1 + M];
        let (header, packed) = block.split_first_chunk::<1>().expect("a scale");
        let packed: &[u8; M] = packed.first_chunk().expect("the codes of a block");
        let mut bytes = [[0; GROUP]; MX_BLOCK / GROUP];
        let codes = spread(bits, packed, &mut bytes);
        let (scale, all_hold) = decode.scale(header[0]);
        let start = on.place(t, 0, 0);
        if whole && all_hold {
            let out = on.dst.bytes[start..][..MX_BLOCK * N].as_chunks_mut().0.as_chunks_mut().0;
            for (codes, out) in codes.iter().zip(out) {
                put::<D, L, N>(&decode.values(codes, scale), out);
            }
        } else {
            let tile = Tile { header, codes, scales: &[scale; 2], all_hold };
            rectangle.unpack_part::<D, L, N>(decode, tile, on.dst.bytes, start);
        }
    }
}

/// Tile by tile, row by row as stored, a group at a time.
#[inline(always)]
fn tiles<D: Decode, L: Lane<N>, const N: usize>(mut on: Unpacking<'_>, decode: D) {
    if on.codec.options().compact {
        return blocks::<D, L, N>(on, decode);
    }
    let (codec, a) = (on.codec, on.args);
    let transposed = codec.tile().transposed().filter(|_| codec.options().transposed);
    let (row0, col0, rows, cols, row, col) = match transposed {
        Some(_) => (a.col0, a.row0, a.cols, a.rows, a.dst_col, a.dst_row),
        None => (a.row0, a.col0, a.rows, a.cols, a.dst_row, a.dst_col),
    };
    let stored = transposed.unwrap_or(codec.tile());
    let rectangle = Rectangle { stored, row0, col0, rows, cols, row, col };
    let whole = (rows, cols, col) == (stored.rows(), stored.cols(), N as isize);
    let mut bytes = [[0; GROUP]; MAX_GROUPS];
    let mut scales = [0.0; MAX_GROUPS];
    for t in 0..a.tiles {
        let (header, packed) = on.tile(t).split_at(codec.header_bytes());
        let codes = spread(codec.format().code_bits(), packed, &mut bytes);
        let header = &header[..stored.elements() / (GROUP * D::GROUPS_PER_SCALE)];
        let mut all_hold = true;
        for (scales, &shared) in scales.chunks_exact_mut(D::GROUPS_PER_SCALE).zip(header) {
            let (scale, holds) = decode.scale(shared);
            scales.fill(scale);
            all_hold &= holds;
        }
        let start = on.place(t, 0, 0);
        if whole && all_hold {
            rectangle.unpack_whole::<D, L, N>(decode, codes, &scales, &mut on.dst, start);
        } else {
            let tile = Tile { header, codes, scales: &scales, all_hold };
            rectangle.unpack_part::<D, L, N>(decode, tile, on.dst.bytes, start);
        }
    }
}

/// The rectangle of each tile that is wanted, in the rows and columns that are stored.
#[derive(Clone, Copy)]
struct Rectangle {
    stored: TileShape,
    row0: usize,
    col0: usize,
    rows: usize,
    cols: usize,
    /// Bytes of the destination from an element to the one in the next row, and in the next column.
    row: isize,
    col: isize,
}

/// One packed tile, partly decoded.
#[derive(Clone, Copy)]
struct Tile<'a> {
    header: &'a [u8],
    codes: &'a [[u8; GROUP]],
    scales: &'a [f32],
    /// Whether the arithmetic holds under every scale.
    all_hold: bool,
}

impl Rectangle {
    /// A whole tile with contiguous columns to byte `start` of the destination; the arithmetic holds under every scale.
    #[inline(always)]
    fn unpack_whole<D: Decode, L: Lane<N>, const N: usize>(
        self,
        decode: D,
        codes: &[[u8; GROUP]],
        scales: &[f32; MAX_GROUPS],
        dst: &mut Output<'_>,
        start: usize,
    ) {
        let Rectangle { stored, row, cols, .. } = self;
        let (tall, across, groups) = (stored.face_rows(), cols / GROUP, stored.elements() / GROUP);
        let mut at = start;
        let mut line = [[[MaybeUninit::new(0); N]; GROUP]; 2];
        let bands =
            codes[..groups].chunks_exact(tall * across).zip(scales[..groups].chunks_exact(tall * across));
        for (codes, scales) in bands {
            for r in 0..tall {
                let room = dst.room(&mut line.as_flattened_mut().as_flattened_mut()[..cols * N], at);
                let groups = room.as_chunks_mut::<N>().0.as_chunks_mut::<GROUP>().0;
                for (face, out) in groups.iter_mut().enumerate() {
                    let group = face * tall + r;
                    put::<D, L, N>(&decode.values(&codes[group], scales[group]), out);
                }
                dst.put(&line.as_flattened().as_flattened()[..cols * N], at);
                at = at.wrapping_add_signed(row);
            }
        }
    }

    /// Any rectangle and strides: groups in place where they are whole and contiguous, others element by element.
    #[inline(always)]
    fn unpack_part<D: Decode, L: Lane<N>, const N: usize>(
        self,
        decode: D,
        tile: Tile<'_>,
        dst: &mut [MaybeUninit<u8>],
        start: usize,
    ) {
        let Rectangle { stored, row0, col0, rows, cols, row, col } = self;
        let Tile { header, codes, scales, all_hold } = tile;
        for r in 0..rows {
            let start = start.wrapping_add_signed((r as isize).wrapping_mul(row));
            for left in (col0 / GROUP * GROUP..col0 + cols).step_by(GROUP) {
                let from = left.max(col0);
                let len = (left + GROUP).min(col0 + cols) - from;
                let at = start.wrapping_add_signed(((from - col0) as isize).wrapping_mul(col));
                let group = stored.slot(row0 + r, left) / GROUP;
                let (scale, codes) = (scales[group], &codes[group]);
                let mut apart = [[MaybeUninit::new(0); N]; GROUP];
                let in_place = col == N as isize && len == GROUP;
                let out = match in_place {
                    true => dst[at..][..GROUP * N].as_chunks_mut().0.try_into().expect("a group"),
                    false => &mut apart,
                };
                let shared = header[group / D::GROUPS_PER_SCALE];
                if all_hold || decode.scale(shared).1 {
                    put::<D, L, N>(&decode.values(codes, scale), out);
                } else {
                    put_scalar::<D, L, N>(decode, codes, shared, out);
                }
                if !in_place {
                    for (i, element) in apart[from - left..][..len].iter().enumerate() {
                        let at = at.wrapping_add_signed((i as isize).wrapping_mul(col));
                        dst[at..][..N].copy_from_slice(element);
                    }
                }
            }
        }
    }
}

/// The values of a group in the destination's format.
#[inline(always)]
fn put<D: Decode, L: Lane<N>, const N: usize>(
    values: &[u32; GROUP],
    out: &mut [[MaybeUninit<u8>; N]; GROUP],
) {
    for (out, bits) in out.iter_mut().zip(values) {
        let code = if D::EXACT { L::narrow_exact(*bits) } else { L::narrow_quiet(*bits) };
        *out = code.map(MaybeUninit::new);
    }
}

/// A group by the scalar rule.
#[cold]
#[inline(never)]
fn put_scalar<D: Decode, L: Lane<N>, const N: usize>(
    decode: D,
    codes: &[u8; GROUP],
    shared: u8,
    out: &mut [[MaybeUninit<u8>; N]; GROUP],
) {
    for (out, &code) in out.iter_mut().zip(codes) {
        *out = L::narrow(decode.scalar(code, shared).to_bits()).map(MaybeUninit::new);
    }
}

/// The codes of a whole tile or block, a byte each; bits above a code are not cleared.
#[inline(always)]
fn spread<'a>(bits: usize, packed: &'a [u8], bytes: &'a mut [[u8; GROUP]]) -> &'a [[u8; GROUP]] {
    let spread = bytes.as_flattened_mut();
    match bits {
        8 => return packed.as_chunks().0,
        4 => {
            for (pair, &byte) in spread.as_chunks_mut::<2>().0.iter_mut().zip(packed) {
                *pair = (u16::from(byte) | u16::from(byte) << 4).to_le_bytes();
            }
        }
        6 => {
            // Each to the upper bits of its byte.
            for (quad, three) in spread.as_chunks_mut::<4>().0.iter_mut().zip(packed.as_chunks::<3>().0) {
                let w = u32::from_le_bytes([three[0], three[1], three[2], 0]);
                *quad = [w << 2, w >> 4, w >> 10, w >> 16].map(|code| code as u8 & 0xFC);
            }
        }
        _ => {
            for (quad, &byte) in spread.as_chunks_mut::<4>().0.iter_mut().zip(packed) {
                let w = u32::from(byte);
                *quad = (w | w << 6 | w << 12 | w << 18).to_le_bytes();
            }
        }
    }
    bytes
}

/// Each element is [`BlockCodec::decode_at`], converted.
pub(crate) fn scalar(on: Unpacking<'_>) {
    let a = on.args;
    for t in 0..a.tiles {
        for r in 0..a.rows {
            for c in 0..a.cols {
                let value = on.codec.decode_at(on.tile(t), a.row0 + r, a.col0 + c);
                let bits = Number::F32.convert(on.to, value.to_bits().into());
                on.to.store(on.dst.bytes, on.place(t, r, c), bits);
            }
        }
    }
}
