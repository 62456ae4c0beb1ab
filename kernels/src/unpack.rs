//! Unpacking of tiles from block formats, written in place.
//!
//! The walk over tiles, groups and elements is here; what a family of formats does with a group is its [`Decode`].

use std::mem::MaybeUninit;

use crate::bfp::GROUP;
use crate::block::Rule;
use crate::convert::write;
use crate::lane::{Bf16, F16, F32, Lane};
use crate::mx::{FloatDecode, IntDecode};
use crate::window::turns_lie_inside;
use crate::{BlockCodec, Kernels, Number, TileShape};

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

impl Kernels {
    /// Unpacks the rectangle of each tile by [`BlockCodec::unpack_scalar`]'s rule; each value is then converted from f32 to format `to`.
    /// No other byte of `dst` is touched.
    ///
    /// Fast are f32, bf16 and f16; fastest where columns are contiguous and whole groups are wanted.
    ///
    /// # Panics
    /// When a tile lies outside `src`, a byte to write outside `dst`, the rectangle outside of the tile, or `dst` is too
    /// small to hold the elements side by side; found in constant time, before anything is written.
    pub fn unpack(
        &self,
        codec: &BlockCodec,
        to: Number,
        src: &[u8],
        args: &UnpackArgs,
        dst: &mut [MaybeUninit<u8>],
    ) {
        let (a, tile) = (*args, codec.tile());
        let inside = |first: usize, count: usize, side: usize| first <= side && count <= side - first;
        assert!(
            inside(a.row0, a.rows, tile.rows()) && inside(a.col0, a.cols, tile.cols()),
            "the rectangle of {a:?} leaves a {tile} tile"
        );
        if a.tiles == 0 || a.rows == 0 || a.cols == 0 {
            return;
        }
        let bytes = codec.tile_bytes();
        let end =
            (a.tiles - 1).checked_mul(a.src_tile).and_then(|n| n.checked_add(bytes)?.checked_add(a.src_at));
        assert!(
            end.is_some_and(|end| end <= src.len()),
            "tiles of {bytes} bytes of {a:?} leave a source of {} bytes",
            src.len()
        );
        let (tiles, row, col) = ([(a.tiles, a.dst_tile)], (a.rows, a.dst_row), (a.cols, a.dst_col));
        assert!(
            turns_lie_inside(dst.len(), a.dst_at, to.size(), row, col, tiles.into_iter()),
            "{} elements of {a:?} leave a destination of {} bytes",
            to.name(),
            dst.len()
        );
        assert!(
            a.tiles.checked_mul(a.rows * a.cols * to.size()).is_some_and(|bytes| bytes <= dst.len()),
            "{} elements of {a:?} do not fit side by side in a destination of {} bytes",
            to.name(),
            dst.len()
        );
        self.table.unpack(Unpacking { codec, to, src, args: a, dst });
    }
}

/// Tiles whose bytes [`Kernels::unpack`] has found to lie inside both slices.
pub(crate) struct Unpacking<'a> {
    codec: &'a BlockCodec,
    to: Number,
    src: &'a [u8],
    args: UnpackArgs,
    dst: &'a mut [MaybeUninit<u8>],
}

impl<'a> Unpacking<'a> {
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

/// What a family of formats does with a group of 16 codes.
pub(crate) trait Decode: Copy {
    /// Groups that share a byte: 1 or 2.
    const SHARING: usize;

    /// Whether each value is exact as bfloat16, or infinite.
    const EXACT: bool;

    /// The scale, and whether the arithmetic of [`Decode::values`] holds under it.
    fn scale(&self, shared: u8) -> (f32, bool);

    /// The values of a group, as binary32 bits. Bits above a code count for nothing. A NaN is `0x7FC00000`.
    fn values(&self, codes: &[u8; GROUP], scale: f32) -> [u32; GROUP];

    /// The value of a code by the scalar rule.
    fn by_the_rule(&self, code: u8, shared: u8) -> f32;
}

/// Vector code where there is some, the rule for the rest.
#[inline(always)]
pub(crate) fn body(on: Unpacking<'_>) {
    if on.codec.options().compact {
        return scalar(on);
    }
    let codec = on.codec;
    match codec.rule() {
        Rule::Bfp(bfp) => to_any(on, bfp.decode(codec.options().compat_unpack)),
        Rule::Mx(element) if element.is_float() => to_any(on, FloatDecode(element.vector(codec.format()))),
        Rule::Mx(element) => to_any(on, IntDecode(element.vector(codec.format()))),
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

/// Most groups a tile can have.
const MAX_GROUPS: usize = TileShape::MAX_ELEMENTS / GROUP;

/// Row by row as stored, a group at a time.
#[inline(always)]
fn tiles<D: Decode, L: Lane<N>, const N: usize>(on: Unpacking<'_>, decode: D) {
    let (codec, a) = (on.codec, on.args);
    let transposed = codec.tile().transposed().filter(|_| codec.options().transposed);
    let (row0, col0, rows, cols, row, col) = match transposed {
        Some(_) => (a.col0, a.row0, a.cols, a.rows, a.dst_col, a.dst_row),
        None => (a.row0, a.col0, a.rows, a.cols, a.dst_row, a.dst_col),
    };
    let stored = transposed.unwrap_or(codec.tile());
    let whole = (rows, cols, col) == (stored.rows(), stored.cols(), N as isize);
    let mut bytes = [[0; GROUP]; MAX_GROUPS];
    let mut scales = [0.0; MAX_GROUPS];
    for t in 0..a.tiles {
        let (header, packed) = on.tile(t).split_at(codec.header_bytes());
        let codes = spread(codec.format().code_bits(), packed, &mut bytes);
        let shares = &header[..stored.elements() / (GROUP * D::SHARING)];
        let mut all_hold = true;
        for (scale, &shared) in scales.iter_mut().zip(shares) {
            let holds;
            (*scale, holds) = decode.scale(shared);
            all_hold &= holds;
        }
        let start = on.place(t, 0, 0);
        if whole && all_hold {
            for r in 0..rows {
                let (line, first) =
                    (start.wrapping_add_signed((r as isize).wrapping_mul(row)), stored.slot(r, 0) / GROUP);
                let line = &mut on.dst[line..][..N * cols];
                for (c, out) in line.as_chunks_mut::<N>().0.as_chunks_mut::<GROUP>().0.iter_mut().enumerate()
                {
                    let group = first + c * stored.face_rows();
                    let scale = scales[group / D::SHARING];
                    put::<D, L, N>(&decode.values(&codes[group], scale), out);
                }
            }
            continue;
        }
        for r in 0..rows {
            let start = start.wrapping_add_signed((r as isize).wrapping_mul(row));
            for left in (col0 / GROUP * GROUP..col0 + cols).step_by(GROUP) {
                let from = left.max(col0);
                let len = (left + GROUP).min(col0 + cols) - from;
                let at = start.wrapping_add_signed(((from - col0) as isize).wrapping_mul(col));
                let group = stored.slot(row0 + r, left) / GROUP;
                let (scale, codes) = (scales[group / D::SHARING], &codes[group]);
                let mut apart = [[MaybeUninit::new(0); N]; GROUP];
                let in_place = col == N as isize && len == GROUP;
                let out = match in_place {
                    true => on.dst[at..][..GROUP * N].as_chunks_mut().0.try_into().expect("a group"),
                    false => &mut apart,
                };
                let shared = header[group / D::SHARING];
                if all_hold || decode.scale(shared).1 {
                    put::<D, L, N>(&decode.values(codes, scale), out);
                } else {
                    by_the_rule::<D, L, N>(decode, codes, shared, out);
                }
                if !in_place {
                    for (i, element) in apart[from - left..][..len].iter().enumerate() {
                        let at = at.wrapping_add_signed((i as isize).wrapping_mul(col));
                        on.dst[at..][..N].copy_from_slice(element);
                    }
                }
            }
        }
    }
}

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

#[cold]
#[inline(never)]
fn by_the_rule<D: Decode, L: Lane<N>, const N: usize>(
    decode: D,
    codes: &[u8; GROUP],
    shared: u8,
    out: &mut [[MaybeUninit<u8>; N]; GROUP],
) {
    for (out, &code) in out.iter_mut().zip(codes) {
        *out = L::narrow(decode.by_the_rule(code, shared).to_bits()).map(MaybeUninit::new);
    }
}

/// The codes of a whole tile, a byte each; bits above a code are not cleared.
#[inline(always)]
fn spread<'a>(bits: usize, packed: &'a [u8], bytes: &'a mut [[u8; GROUP]; MAX_GROUPS]) -> &'a [[u8; GROUP]] {
    let spread = bytes.as_flattened_mut();
    match bits {
        8 => return packed.as_chunks().0,
        4 => {
            for (pair, &byte) in spread.as_chunks_mut::<2>().0.iter_mut().zip(packed) {
                *pair = (u16::from(byte) | u16::from(byte) << 4).to_le_bytes();
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
                write(on.to, on.dst, on.place(t, r, c), bits);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod sweep {
    use super::*;
    use crate::Rounding;
    use crate::mem::assume_written;
    use crate::pack::sweep::{Random, codecs};

    /// Every codec and destination format on random bytes, all exponents among them, through whole and partial rectangles and
    /// every arrangement that takes a path of its own.
    pub(crate) fn sweep(tested: &Kernels, rule: &Kernels) {
        let mut random = Random::new(7);
        let reading =
            |codec: &BlockCodec| codec.options().rounding == Rounding::Host && !codec.options().search;
        for codec in codecs().filter(reading) {
            let (tile, bytes) = (codec.tile(), codec.tile_bytes());
            let (rows, cols) = (tile.rows(), tile.cols());
            let src: Vec<u8> = (0..3 * bytes + 40).map(|_| random.next() as u8).collect();
            for to in Number::ALL {
                let size = to.size() as isize;
                for (row0, col0, rows, cols) in [
                    (0, 0, rows, cols),
                    (rows / 2, 3, rows - rows / 2, cols - 3),
                    (0, 1, 1, 1),
                    (0, 9, rows, 7),
                ] {
                    let (r, c) = (rows as isize, cols as isize);
                    for (dst_tile, dst_row, dst_col) in [
                        (c * size, 2 * c * size, size),
                        (r * c * size + 5, c * size, size),
                        (r * c * size, size, r * size),
                    ] {
                        let args = UnpackArgs {
                            tiles: 2,
                            src_at: 3,
                            src_tile: bytes + 20,
                            row0,
                            col0,
                            rows,
                            cols,
                            dst_at: 1,
                            dst_tile,
                            dst_row,
                            dst_col,
                        };
                        let run = |kernels: &Kernels| {
                            let mut dst = vec![MaybeUninit::new(0xEE); 2 * rows * cols * to.size() + 8];
                            kernels.unpack(&codec, to, &src, &args, &mut dst);
                            assume_written(dst)
                        };
                        let (got, want) = (run(tested), run(rule));
                        assert!(
                            got == want,
                            "{} unpack {codec:?} to {} by {args:?}, {random:?}",
                            tested.isa().name(),
                            to.name()
                        );
                    }
                }
            }
        }
    }
}
