//! Unpacking of tiles from block formats, written where the elements are wanted.

use std::mem::MaybeUninit;

use super::bfp_decode::{BfpDecode, DeviceDecode};
use super::decode::Decode;
use super::encode::MAX_GROUPS;
use super::lanes::{Bf16, F16, F32, Lane, Sen169};
use super::mx::{FloatDecode, IntDecode, MxVector};
use crate::formats::{BlockCodec, BlockOptions, Decoding, GROUP, MX_BLOCK, Number, Rule, TileShape};
use crate::level::{Level, part};
use crate::memory::{
    CACHE_LINE, Destination, LineAligned, Output, assert_readable, assert_writable, prefetch_l1,
};

/// A row of packed tiles to unpack: which rectangle of each, and where it goes.
///
/// Tile t is at byte `src_at + t * src_tile` of the source. Of each tile the elements (`row0` + r, `col0` + c) with r < `rows` and
/// c < `cols` go to byte `dst_at + t * dst_tile + r * dst_row + c * dst_col` of the destination, unless `faces` says otherwise.
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
    /// Where whole tiles go in faces, as they are stored: bytes from a face to the one below it, and to the one beside it.
    /// Rows and columns are `dst_row` and `dst_col` apart inside of a face then.
    pub faces: Option<[isize; 2]>,
    /// How many tiles ahead of the one being unpacked the source is fetched into L1, where lines are stored past the caches; no byte
    /// depends on it.
    pub prefetch_tiles: usize,
}

impl UnpackArgs {
    /// Whether tiles are unpacked to a format by vector code; to others, number by number.
    pub fn has_vector_code(to: Number) -> bool {
        matches!(to, Number::F32 | Number::Bf16 | Number::F16 | Number::Sen169)
    }

    /// The loops over the elements of the destination.
    #[inline(always)]
    fn dst_loops(&self, tile: TileShape) -> impl Iterator<Item = (usize, isize)> + Clone {
        let face = [tile.face_rows(), tile.face_cols()];
        let ([rows, cols], [down, across], [below, beside]) = match self.faces {
            Some(faces) => (face, [tile.rows() / face[0], tile.cols() / face[1]], faces),
            None => ([self.rows, self.cols], [1; 2], [0; 2]),
        };
        [
            (self.tiles, self.dst_tile),
            (down, below),
            (rows, self.dst_row),
            (across, beside),
            (cols, self.dst_col),
        ]
        .into_iter()
    }
}

/// Tiles whose bytes [`Unpacking::new`] has found to lie inside both slices.
pub(crate) struct Unpacking<'a> {
    codec: &'a BlockCodec,
    to: Number,
    src: &'a [u8],
    args: UnpackArgs,
    dst: Output<'a>,
    /// Bytes of a packed tile.
    tile_bytes: usize,
}

impl<'a> Unpacking<'a> {
    /// Unpacking of a rectangle of each tile. `None` when there is nothing to unpack.
    ///
    /// # Panics
    /// As [`Kernels::unpack`](crate::Kernels::unpack).
    #[inline(always)]
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
        let whole = (a.rows, a.cols) == (tile.rows(), tile.cols());
        assert!(a.faces.is_none() || whole, "{a:?} has faces of a part of a {tile} tile");
        if a.tiles == 0 || a.rows == 0 || a.cols == 0 {
            return None;
        }
        let step = isize::try_from(a.src_tile).unwrap_or(isize::MAX);
        let tile_bytes = codec.tile_bytes();
        assert_readable(src.len(), a.src_at, tile_bytes, [(a.tiles, step)].into_iter());
        assert_writable(dst.len(), a.dst_at, to.size(), a.dst_loops(tile));
        let makes_runs = whole && a.dst_col == to.size() as isize && !codec.options().transposed;
        // Rows that lie apart leave parts of lines where they begin between two of them: on Zen 4 ordinary stores are 1.5 to 2.5 times as fast
        // then. Rows that follow one another fill each other's lines.
        let begins = dst.addr().wrapping_add(a.dst_at).is_multiple_of(CACHE_LINE) || a.faces.is_some();
        let lines = makes_runs && begins && !codec.options().compact && makes_lines(&a, tile, to.size());
        Some(Unpacking { codec, to, src, args: a, dst: dst.output(lines), tile_bytes })
    }

    /// The same for a function that keeps it in registers.
    #[inline(always)]
    fn lend(&mut self) -> Unpacking<'_> {
        let Unpacking { codec, to, src, args, tile_bytes, .. } = *self;
        Unpacking { codec, to, src, args, dst: self.dst.lend(), tile_bytes }
    }

    #[inline(always)]
    fn tile(&self, t: usize) -> &'a [u8] {
        &self.src[self.args.src_at + t * self.args.src_tile..][..self.tile_bytes]
    }

    /// Where the rectangle of tile `t` begins.
    #[inline(always)]
    fn start(&self, t: usize) -> usize {
        self.args.dst_at.wrapping_add_signed((t as isize).wrapping_mul(self.args.dst_tile))
    }

    /// The rectangle of each tile.
    #[inline(always)]
    fn rectangle(&self) -> Rectangle {
        let UnpackArgs { row0, col0, rows, cols, dst_row: row, dst_col: col, faces, .. } = self.args;
        Rectangle { tile: self.codec.tile(), row0, col0, rows, cols, row, col, faces }
    }
}

/// Whether the runs that whole tiles become are whole lines, if the first one is: rows, or those of a face that follow one another.
#[inline(always)]
fn makes_lines(a: &UnpackArgs, tile: TileShape, size: usize) -> bool {
    let lines = |bytes: usize| bytes.is_multiple_of(CACHE_LINE);
    let apart = |n: usize, step: isize| n == 1 || lines(step.unsigned_abs());
    let rows = match a.faces {
        None => lines(a.cols * size) && apart(a.rows, a.dst_row),
        Some([below, beside]) => {
            let run = GROUP * size;
            a.dst_row == run as isize
                && tile.face_rows().is_multiple_of(FACE_ROWS)
                && lines(FACE_ROWS * run)
                && apart(tile.rows() / tile.face_rows(), below)
                && apart(tile.cols() / GROUP, beside)
        }
    };
    rows && apart(a.tiles, a.dst_tile)
}

/// Calls `$loops` for the destination's format where it has a lane, each a part of its own; the rule for the rest.
macro_rules! to_any {
    ($level:expr, $on:expr, $loops:ident($decode:expr)) => {{
        let decode = $decode;
        match $on.to {
            Number::F32 => part!($level, $loops::<_, F32, 4>($on.lend(), decode)),
            Number::Bf16 => part!($level, $loops::<_, Bf16, 2>($on.lend(), decode)),
            Number::F16 => part!($level, $loops::<_, F16, 2>($on.lend(), decode)),
            Number::Sen169 => part!($level, $loops::<_, Sen169, 2>($on.lend(), decode)),
            _ => scalar($on),
        }
    }};
}

/// Vector code where there is some, the rule for the rest.
#[inline(always)]
pub(crate) fn body(level: impl Level, on: &mut Unpacking<'_>) {
    let codec = on.codec;
    let BlockOptions { compact, decoding, .. } = codec.options();
    let mx = |element| MxVector::new(element, codec.format(), false);
    match codec.rule() {
        Rule::Bfp(_) if compact => scalar(on),
        Rule::Bfp(bfp) if decoding == Decoding::Device => to_any!(level, on, tiles(DeviceDecode::new(bfp))),
        Rule::Bfp(bfp) => to_any!(level, on, tiles(BfpDecode::new(bfp, decoding == Decoding::Host))),
        Rule::Mx(element) => match (element.is_float(), compact) {
            (true, true) => to_any!(level, on, blocks(FloatDecode(mx(element)))),
            (true, false) => to_any!(level, on, tiles(FloatDecode(mx(element)))),
            (false, true) => to_any!(level, on, blocks(IntDecode(mx(element)))),
            (false, false) => to_any!(level, on, tiles(IntDecode(mx(element)))),
        },
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
    let (a, rectangle) = (on.args, on.rectangle());
    let whole = (a.cols, a.dst_col) == (MX_BLOCK, N as isize);
    let [_, beside] = rectangle.faces();
    let block = |t: usize| {
        let block = &on.src[a.src_at + t * a.src_tile..][..1 + M];
        let (header, packed) = block.split_first_chunk::<1>().expect("a scale");
        (header, packed.first_chunk::<M>().expect("the codes of a block"))
    };
    let LineAligned(together) = &mut LineAligned([[0; M]; ASKED_TOGETHER]);
    let LineAligned(bytes) = &mut LineAligned([[[0; GROUP]; MX_BLOCK / GROUP]; ASKED_TOGETHER]);
    for first in (0..a.tiles).step_by(ASKED_TOGETHER) {
        let blocks = first..a.tiles.min(first + ASKED_TOGETHER);
        let plain = whole && all_plain(decode, blocks.clone().map(block));
        if M < MX_BLOCK {
            // In one loop, for that over one block is too short for vectors.
            for (to, t) in together.iter_mut().zip(blocks.clone()) {
                *to = *block(t).1;
            }
            let packed = &together.as_flattened()[..blocks.len() * M];
            spread(bits, packed, bytes.as_flattened_mut());
        }
        for t in blocks {
            let (header, packed) = block(t);
            let codes = if M < MX_BLOCK { &bytes[t - first] } else { packed.as_chunks().0 };
            let (scale, start) = (decode.scale(header[0]), on.start(t));
            if plain {
                for (codes, at) in codes.iter().zip([start, start.wrapping_add_signed(beside)]) {
                    let out = on.dst.bytes[at..][..GROUP * N].as_chunks_mut().0.try_into().expect("a group");
                    put_exact::<L, N>(&decode.plain_values(codes, scale), out);
                }
            } else {
                let tile = Tile { header, codes, scales: &[scale; 2], all_hold: decode.holds(header[0]) };
                rectangle.unpack_part::<D, L, N>(decode, tile, on.dst.bytes, start);
            }
        }
    }
}

/// Blocks of which it is asked together whether all are plain: a vector of each is raised by the next one, and searched once.
const ASKED_TOGETHER: usize = 16;

/// Whether the arithmetic holds under the scales of all blocks, and [`Decode::plain_values`] takes their codes.
#[inline(always)]
fn all_plain<'a, D: Decode, const M: usize>(
    decode: D,
    blocks: impl Iterator<Item = (&'a [u8; 1], &'a [u8; M])>,
) -> bool {
    let (mut largest, mut all_hold) = ([0; M], true);
    for (header, codes) in blocks {
        all_hold &= decode.holds_exactly(header[0]);
        // Of fewer bits all codes are plain.
        if M == MX_BLOCK {
            for (largest, code) in largest.iter_mut().zip(codes) {
                *largest = (code & 0x7F).max(*largest);
            }
        }
    }
    all_hold && decode.special().is_none_or(|special| largest.iter().all(|&code| code < special))
}

/// Tile by tile, row by row as stored, a group at a time.
#[inline(always)]
fn tiles<D: Decode, L: Lane<N>, const N: usize>(mut on: Unpacking<'_>, decode: D) {
    let (codec, a, rectangle) = (on.codec, on.args, on.rectangle().as_stored(on.codec));
    let Rectangle { tile: stored, rows, cols, col, .. } = rectangle;
    let whole = (rows, cols, col) == (stored.rows(), stored.cols(), N as isize);
    let LineAligned(bytes) = &mut LineAligned([[0; GROUP]; MAX_GROUPS]);
    let LineAligned(scales) = &mut LineAligned([0.0; MAX_GROUPS]);
    let fetches = a.prefetch_tiles > 0 && on.dst.is_streamed();
    for t in 0..a.tiles {
        if fetches {
            let later =
                a.src_tile.saturating_mul(t.saturating_add(a.prefetch_tiles)).saturating_add(a.src_at);
            prefetch_l1(on.src, later, on.tile_bytes.next_multiple_of(CACHE_LINE));
        }
        let (header, packed) = on.tile(t).split_at(codec.header_bytes());
        let codes = spread(codec.format().code_bits(), packed, bytes);
        let header = &header[..stored.elements() / (GROUP * D::GROUPS_PER_SCALE)];
        let mut all_hold = true;
        for (scales, &shared) in scales.chunks_exact_mut(D::GROUPS_PER_SCALE).zip(header) {
            scales.fill(decode.scale(shared));
        }
        for &shared in header {
            all_hold &= decode.holds_exactly(shared);
        }
        let start = on.start(t);
        let used = &codes[..stored.elements() / GROUP];
        all_hold = all_hold || scale_zeros(decode, header, used, scales);
        if whole && all_hold && decode.is_plain(used) {
            let groups = (used, &*scales);
            rectangle.unpack_whole::<D, L, N>(decode, groups, &mut on.dst, start);
        } else {
            let tile = Tile { header, codes, scales, all_hold };
            rectangle.unpack_part::<D, L, N>(decode, tile, on.dst.bytes, start);
        }
    }
}

/// Gives zeros under scales that are too small for [`Decode::plain_values`], as where memory was cleared, another scale; whether the arithmetic
/// is exact for all groups then.
#[cold]
#[inline(never)]
fn scale_zeros<D: Decode>(
    decode: D,
    header: &[u8],
    codes: &[[u8; GROUP]],
    scales: &mut [f32; MAX_GROUPS],
) -> bool {
    let groups = codes.chunks_exact(D::GROUPS_PER_SCALE).zip(scales.chunks_exact_mut(D::GROUPS_PER_SCALE));
    header.iter().zip(groups).fold(true, |all_hold, (&shared, (codes, scales))| {
        let magnitudes = codes.as_flattened().iter().fold(0, |bits, code| bits | code << 1);
        let is_exact = decode.holds_exactly(shared);
        let are_zeros = !is_exact && decode.holds(shared) && magnitudes == 0;
        if are_zeros {
            scales.fill(1.0);
        }
        all_hold & (is_exact | are_zeros)
    })
}

/// The rectangle of each tile that is wanted.
#[derive(Clone, Copy)]
struct Rectangle {
    tile: TileShape,
    row0: usize,
    col0: usize,
    rows: usize,
    cols: usize,
    /// Bytes of the destination from an element to the one in the next row, and in the next column.
    row: isize,
    col: isize,
    /// Where it goes in faces, bytes from a face to the one below it, and to the one beside it.
    faces: Option<[isize; 2]>,
}

/// One packed tile, partly decoded.
#[derive(Clone, Copy)]
struct Tile<'a> {
    header: &'a [u8],
    codes: &'a [[u8; GROUP]],
    scales: &'a [f32],
    /// Whether it is known that the arithmetic holds under every scale.
    all_hold: bool,
}

/// Rows that are put at a time where two faces lie side by side, and half of those of a single face: as few as make the loop around
/// them cheap.
const FACE_ROWS: usize = 4;

impl Rectangle {
    /// The same in the rows and columns that are stored: the columns and rows of a transposed tile.
    #[inline(always)]
    fn as_stored(self, codec: &BlockCodec) -> Rectangle {
        let Rectangle { row0, col0, rows, cols, row, col, faces, .. } = self;
        match self.tile.transposed().filter(|_| codec.options().transposed) {
            Some(tile) => {
                let faces = faces.map(|[below, beside]| [beside, below]);
                Rectangle { tile, row0: col0, col0: row0, rows: cols, cols: rows, row: col, col: row, faces }
            }
            None => self,
        }
    }

    /// Bytes from a face to the one below it, and to the one beside it.
    #[inline(always)]
    fn faces(&self) -> [isize; 2] {
        let apart = |n: usize, step: isize| (n as isize).wrapping_mul(step);
        self.faces.unwrap_or_else(|| [apart(self.tile.face_rows(), self.row), apart(GROUP, self.col)])
    }

    /// Bytes from the rectangle's first element to that of row `r` and column `c` of it.
    #[inline(always)]
    fn offset(&self, r: usize, c: usize) -> isize {
        let apart = |n: usize, step: isize| (n as isize).wrapping_mul(step);
        let inside = |r: usize, c: usize| apart(r, self.row).wrapping_add(apart(c, self.col));
        let Some([below, beside]) = self.faces else { return inside(r, c) };
        let tall = self.tile.face_rows();
        let face = apart(r / tall, below).wrapping_add(apart(c / GROUP, beside));
        face.wrapping_add(inside(r % tall, c % GROUP))
    }

    /// A whole tile with contiguous columns to byte `start` of the destination; the arithmetic holds under every scale.
    #[inline(always)]
    fn unpack_whole<D: Decode, L: Lane<N>, const N: usize>(
        self,
        decode: D,
        (codes, scales): (&[[u8; GROUP]], &[f32; MAX_GROUPS]),
        dst: &mut Output<'_>,
        start: usize,
    ) {
        let groups = (codes, &scales[..codes.len()]);
        let pairs = self.faces.is_none() && self.cols == 2 * GROUP;
        let rows = self.tile.face_rows();
        if pairs && rows.is_multiple_of(FACE_ROWS) {
            self.bands::<D, L, N, 2, FACE_ROWS>(decode, groups, dst, start);
        } else if rows.is_multiple_of(2 * FACE_ROWS) {
            self.bands::<D, L, N, 1, { 2 * FACE_ROWS }>(decode, groups, dst, start);
        } else {
            self.bands::<D, L, N, 1, 1>(decode, groups, dst, start);
        }
    }

    /// [`Rectangle::unpack_whole`] by `T` rows of `K` faces at a time.
    #[inline(always)]
    fn bands<D: Decode, L: Lane<N>, const N: usize, const K: usize, const T: usize>(
        self,
        decode: D,
        (codes, scales): (&[[u8; GROUP]], &[f32]),
        dst: &mut Output<'_>,
        start: usize,
    ) {
        let apart = |n: usize, step: isize| (n as isize).wrapping_mul(step);
        let tall = self.tile.face_rows();
        let [below, beside] = self.faces();
        // Faces whose rows lie side by side are stored together, and rows that follow one another as one run. What is stored past
        // the caches is put by few rows at a time, so that the processor makes the next ones meanwhile.
        let (wide, across) = match self.faces {
            Some(_) => (1, self.cols / GROUP),
            None => (if K > 1 { K } else { self.cols / GROUP }, 1),
        };
        let len = wide * GROUP * N;
        let (runs, run) = if self.row == len as isize { (1, T * len) } else { (T, len) };
        let streamed = dst.is_streamed();
        let mut lines = LineAligned([MaybeUninit::uninit(); LINES]);
        let (mut first, mut down) = (0, start);
        while first < codes.len() {
            for right in 0..across {
                let mut at = down.wrapping_add_signed(apart(right, beside));
                for first in (first..first + tall).step_by(T) {
                    for face in (0..wide).step_by(K) {
                        let first = first + face * tall;
                        let (to, at, row) = match streamed {
                            true => (&mut lines.0[..], 0, len as isize),
                            false => (&mut *dst.bytes, at, self.row),
                        };
                        let groups = (&codes[first..], &scales[first..]);
                        put_rows::<D, L, N, K, T>(decode, groups, tall, to, at + face * GROUP * N, row);
                    }
                    if streamed {
                        for i in 0..runs {
                            dst.put(&lines.0[i * run..][..run], at.wrapping_add_signed(apart(i, self.row)));
                        }
                    }
                    at = at.wrapping_add_signed(apart(T, self.row));
                }
                first += wide * tall;
            }
            down = down.wrapping_add_signed(below);
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
        let Rectangle { tile: stored, row0, col0, rows, cols, col, .. } = self;
        let Tile { header, codes, scales, all_hold } = tile;
        for r in 0..rows {
            for left in (col0 / GROUP * GROUP..col0 + cols).step_by(GROUP) {
                let from = left.max(col0);
                let len = (left + GROUP).min(col0 + cols) - from;
                let at = start.wrapping_add_signed(self.offset(r, from - col0));
                let group = stored.slot(row0 + r, left) / GROUP;
                let (scale, codes) = (scales[group], &codes[group]);
                let mut apart = [[MaybeUninit::new(0); N]; GROUP];
                let in_place = col == N as isize && len == GROUP;
                let out = match in_place {
                    true => dst[at..][..GROUP * N].as_chunks_mut().0.try_into().expect("a group"),
                    false => &mut apart,
                };
                let shared = header[group / D::GROUPS_PER_SCALE];
                if all_hold || decode.holds(shared) {
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

/// Bytes that rows of faces side by side become.
const LINES: usize = 2 * FACE_ROWS * GROUP * 4;

/// Puts `T` rows of `K` faces side by side, the first to byte `at`; a face has `tall` groups.
#[inline(always)]
fn put_rows<D: Decode, L: Lane<N>, const N: usize, const K: usize, const T: usize>(
    decode: D,
    (codes, scales): (&[[u8; GROUP]], &[f32]),
    tall: usize,
    dst: &mut [MaybeUninit<u8>],
    mut at: usize,
    row: isize,
) {
    let mut faces = [(&[[0; GROUP]; T], &[0.0; T]); K];
    for (i, (these, scale)) in faces.iter_mut().enumerate() {
        *these = codes[i * tall..].first_chunk().expect("rows of a face");
        *scale = scales[i * tall..].first_chunk().expect("as many scales");
    }
    for r in 0..T {
        let groups = dst[at..][..K * GROUP * N].as_chunks_mut::<N>().0.as_chunks_mut::<GROUP>().0;
        for (out, (codes, scales)) in groups.iter_mut().zip(faces) {
            put_exact::<L, N>(&decode.plain_values(&codes[r], scales[r]), out);
        }
        at = at.wrapping_add_signed(row);
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

/// The same of values that are exact as bfloat16, or infinite.
#[inline(always)]
fn put_exact<L: Lane<N>, const N: usize>(values: &[u32; GROUP], out: &mut [[MaybeUninit<u8>; N]; GROUP]) {
    for (out, bits) in out.iter_mut().zip(values) {
        *out = L::narrow_exact(*bits).map(MaybeUninit::new);
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

/// The codes of a whole tile or block, each in the upper bits of a byte.
#[inline(always)]
pub(super) fn spread<'a>(bits: usize, packed: &'a [u8], bytes: &'a mut [[u8; GROUP]]) -> &'a [[u8; GROUP]] {
    let spread = bytes.as_flattened_mut();
    match bits {
        8 => return packed.as_chunks().0,
        4 => {
            for (pair, &byte) in spread.as_chunks_mut::<2>().0.iter_mut().zip(packed) {
                let w = u16::from(byte);
                *pair = ((w << 4 | w << 8) & 0xF0F0).to_le_bytes();
            }
        }
        6 => {
            for (quad, three) in spread.as_chunks_mut::<4>().0.iter_mut().zip(packed.as_chunks::<3>().0) {
                let w = u32::from_le_bytes([three[0], three[1], three[2], 0]);
                *quad = [w << 2, w >> 4, w >> 10, w >> 16].map(|code| code as u8 & 0xFC);
            }
        }
        _ => {
            for (quad, &byte) in spread.as_chunks_mut::<4>().0.iter_mut().zip(packed) {
                let w = u32::from(byte);
                *quad = ((w << 6 | w << 12 | w << 18 | w << 24) & 0xC0C0_C0C0).to_le_bytes();
            }
        }
    }
    bytes
}

/// Each element is [`BlockCodec::decode_at`], converted.
pub(crate) fn scalar(on: &mut Unpacking<'_>) {
    let (a, rectangle) = (on.args, on.rectangle());
    for t in 0..a.tiles {
        for r in 0..a.rows {
            for c in 0..a.cols {
                let value = on.codec.decode_at(on.tile(t), a.row0 + r, a.col0 + c);
                let bits = Number::F32.convert(on.to, value.to_bits().into());
                on.to.store(on.dst.bytes, on.start(t).wrapping_add_signed(rectangle.offset(r, c)), bits);
            }
        }
    }
}
