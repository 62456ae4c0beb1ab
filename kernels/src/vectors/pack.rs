//! Packing of tiles into block formats: tiles are read where they lie, or gathered in a scratch tile first.

use std::mem::MaybeUninit;

use super::bfp_encode::BfpEncode;
use super::column_packer::ColumnPacker;
use super::encode::{Encode, MAX_GROUPS, Order};
use super::groups::GroupLane;
use super::lanes::{Bf16, E4M3, F16, F32, Lane, Sen169, SignMagnitude};
use super::mx::MxVector;
use super::scales::{GroupScales, Plain, Scales};
use super::tile_packer::TilePacker;
use crate::formats::{BlockCodec, BlockFormat, Decoding, GROUP, MX_BLOCK, Number, Rounding, Rule, TileShape};
use crate::level::{Level, part};
use crate::memory::{
    ArrayOffsets, Arrays, CACHE_LINE, Destination, InOnePage, LineAligned, Output, as_uninit, as_written,
    assert_readable, assert_writable, lies_inside,
};

/// A row of tiles to pack: where their elements come from and where the packed tiles go.
///
/// Element (r, c) of tile t is at byte `src_at + t * src_tile + r * src_row + c * src_col` of the source, unless `faces` says
/// otherwise. Only the first `rows` rows and `cols` columns of each tile are read (none if either is 0); the rest of the tile
/// is `pad`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PackArgs {
    /// Number of tiles.
    pub tiles: usize,
    /// Byte of the first tile's element (0, 0).
    pub src_at: usize,
    /// Bytes from a tile to the next.
    pub src_tile: isize,
    /// Bytes from an element to the one in the next row.
    pub src_row: isize,
    /// Bytes from an element to the one in the next column.
    pub src_col: isize,
    /// Where whole tiles lie in faces, as they are stored: bytes from a face to the one below it, and to the one beside it.
    /// Rows and columns are `src_row` and `src_col` apart inside of a face then.
    pub faces: Option<[isize; 2]>,
    /// Rows that have elements, at most those of the tile.
    pub rows: usize,
    /// Columns that have elements, at most those of the tile.
    pub cols: usize,
    /// What the rest of a tile holds; it is packed like data.
    pub pad: f32,
    /// Bytes from a packed tile to the next, at least those of a tile.
    pub dst_tile: usize,
    /// Bytes from a tile that is being packed to one that is fetched into L2 meanwhile, where tiles are read as they lie and that one lies in
    /// the source too; 0 for none. Of blocks of an MX format it is only asked whether it is 0: what is packed next but one is fetched. No
    /// byte depends on it.
    pub prefetch_distance: isize,
}

impl PackArgs {
    /// Whether there is vector code for rows of such numbers that lie side by side: no tile is gathered first.
    pub fn packs_rows_of(from: Number) -> bool {
        matches!(from, Number::F32 | Number::Bf16 | Number::F16 | Number::Sen169 | Number::E4M3)
    }

    /// Whether these are whole tiles, or blocks of an MX format one below the other, whose columns are runs of the source, and packed from there
    /// at full speed: none is gathered row by row first.
    pub fn packs_columns(&self, codec: &BlockCodec, from: Number) -> bool {
        let (stored, options) = (self.stored(codec), codec.options());
        let has_lane = matches!(from, Number::F32 | Number::Bf16 | Number::F16 | Number::E4M3);
        if options.compact {
            return stored.whole()
                && self.src_tile == from.size() as isize
                && self.faces.is_none()
                && has_lane;
        }
        stored.whole()
            && stored.row == from.size() as isize
            && stored.tile.face_rows() == GROUP
            && !(replaces_elements(codec) || options.search)
            && has_lane
    }

    /// Tiles as they are stored.
    #[inline(always)]
    fn stored(&self, codec: &BlockCodec) -> Stored {
        let tile = codec.tile();
        let PackArgs { rows, cols, src_row: row, src_col: col, faces, .. } = *self;
        match tile.transposed().filter(|_| codec.options().transposed) {
            Some(tile) => {
                let faces = faces.map(|[below, beside]| [beside, below]);
                Stored { tile, rows: cols, cols: rows, row: col, col: row, faces }
            }
            None => Stored { tile, rows, cols, row, col, faces },
        }
    }

    /// The loops over the elements of this many tiles of the source.
    #[inline(always)]
    fn src_loops(&self, tile: TileShape, tiles: usize) -> impl Iterator<Item = (usize, isize)> + Clone {
        let face = [tile.face_rows(), tile.face_cols()];
        let ([rows, cols], [down, across], [below, beside]) = match self.faces {
            Some(faces) => (face, [tile.rows() / face[0], tile.cols() / face[1]], faces),
            None => ([self.rows, self.cols], [1; 2], [0; 2]),
        };
        [(tiles, self.src_tile), (down, below), (rows, self.src_row), (across, beside), (cols, self.src_col)]
            .into_iter()
    }
}

/// What is packed.
#[derive(Clone, Copy)]
pub(crate) enum Elements<'a> {
    /// Numbers.
    Numbers(Number),
    /// Codes of a byte, and from the first one of a row to what its halves share, in bytes.
    Codes(&'a BlockCodec, [isize; 2]),
}

impl Elements<'_> {
    /// Bytes of an element.
    #[inline(always)]
    fn size(self) -> usize {
        match self {
            Elements::Numbers(number) => number.size(),
            Elements::Codes(..) => 1,
        }
    }

    /// The value of the element at byte `at`, in column `col` of a row that begins at byte `row`.
    #[inline(always)]
    fn load(self, src: &[u8], at: usize, (row, col): (usize, usize)) -> f32 {
        match self {
            Elements::Numbers(number) => {
                f32::from_bits(number.convert(Number::F32, number.load(src, at)) as u32)
            }
            Elements::Codes(codec, shared) => {
                codec.value(src[at], src[row.wrapping_add_signed(shared[col / GROUP])])
            }
        }
    }
}

/// Whether elements are replaced before anything else.
fn replaces_elements(codec: &BlockCodec) -> bool {
    codec.options().rounding == Rounding::DeviceOp || matches!(codec.rule(), Rule::Bfp(bfp) if bfp.narrow)
}

/// Whether rows of 32 codes of `from` are packed to `to` as they lie: blocks of `mxfp8_e4m3` to rows of tiles; these, and rows of tiles of it or of
/// `bfloat8_b`, to other blocks.
pub(crate) fn packs_codes(from: &BlockCodec, to: &BlockCodec) -> bool {
    let (of, options) = (from.options(), to.options());
    let known = match from.format() {
        BlockFormat::MxFp8E4M3 => true,
        BlockFormat::Bfp8B => options.compact && of.decoding == Decoding::Exact,
        _ => false,
    };
    let plain = !(of.transposed || options.transposed || options.search || replaces_elements(to));
    let rows = of.compact || options.compact;
    // What is of one format already may be copied.
    known && plain && rows && from != to && from.tile().cols() == MX_BLOCK && to.tile().cols() == MX_BLOCK
}

/// Tiles whose bytes [`Packing::new`] has found to lie inside both slices.
pub(crate) struct Packing<'a> {
    codec: &'a BlockCodec,
    from: Elements<'a>,
    src: &'a [u8],
    args: PackArgs,
    dst: Output<'a>,
    dst_at: usize,
    /// Bytes of a packed tile.
    tile_bytes: usize,
    /// Whether the level has instructions for [`f32::trunc`] and [`f32::mul_add`].
    fuses: bool,
}

impl<'a> Packing<'a> {
    /// Packing of a row of tiles; `fuses`: whether the level has instructions for [`f32::trunc`] and [`f32::mul_add`].
    /// `None` when there is nothing to pack.
    ///
    /// # Panics
    /// As [`Kernels::pack`](crate::Kernels::pack).
    #[inline(always)]
    pub(crate) fn new(
        codec: &'a BlockCodec,
        from: Elements<'a>,
        src: &'a [u8],
        args: &PackArgs,
        dst: &'a mut Destination<'_>,
        dst_at: usize,
        fuses: bool,
    ) -> Option<Packing<'a>> {
        let (a, tile, bytes) = (*args, codec.tile(), codec.tile_bytes());
        assert!(a.rows <= tile.rows() && a.cols <= tile.cols(), "{a:?} is larger than a {tile} tile");
        if a.tiles == 0 {
            return None;
        }
        let whole = (a.rows, a.cols) == (tile.rows(), tile.cols());
        assert!(a.faces.is_none() || whole, "{a:?} has faces of a part of a {tile} tile");
        if a.rows > 0 && a.cols > 0 {
            assert_readable(src.len(), a.src_at, from.size(), a.src_loops(tile, a.tiles));
        }
        if let Elements::Codes(_, shared) = from {
            assert!(whole && a.src_col == 1, "{a:?} are not rows of codes");
            for shared in shared {
                let rows = [(a.tiles, a.src_tile), (a.rows, a.src_row)];
                assert_readable(src.len(), a.src_at.wrapping_add_signed(shared), 1, rows.into_iter());
            }
        }
        assert!(a.tiles == 1 || a.dst_tile >= bytes, "{a:?} packs tiles of {bytes} bytes over each other");
        let step = isize::try_from(a.dst_tile).unwrap_or(isize::MAX);
        assert_writable(dst.len(), dst_at, bytes, [(a.tiles, step)].into_iter());
        // Blocks go by lines where they follow one another.
        let run = if a.dst_tile == bytes { bytes.saturating_mul(a.tiles) } else { bytes };
        let dst = dst.output(if codec.options().compact { run } else { bytes } >= CACHE_LINE);
        Some(Packing { codec, from, src, args: a, dst, dst_at, tile_bytes: bytes, fuses })
    }

    /// The same for a function that keeps it in registers.
    #[inline(always)]
    fn lend(&mut self) -> Packing<'_> {
        let Packing { codec, from, src, args, dst_at, tile_bytes, fuses, .. } = *self;
        Packing { codec, from, src, args, dst: self.dst.lend(), dst_at, tile_bytes, fuses }
    }

    /// Byte of element (0, 0) of tile `t`.
    #[inline(always)]
    fn at(&self, t: usize) -> usize {
        self.args.src_at.wrapping_add_signed((t as isize).wrapping_mul(self.args.src_tile))
    }

    /// Puts tile `t` in its place, or by way of L1 where its lines are stored past the caches.
    #[inline(always)]
    fn put(&mut self, t: usize, pack: impl FnOnce(&mut [MaybeUninit<u8>])) {
        let at = self.dst_at + t * self.args.dst_tile;
        let LineAligned(tile) = &mut LineAligned([MaybeUninit::uninit(); PACKED_TILE]);
        let tile = &mut tile[..self.tile_bytes];
        pack(self.dst.room(tile, at));
        self.dst.put(tile, at);
    }
}

/// Bytes of the largest packed tile.
const PACKED_TILE: usize = TileShape::MAX_ELEMENTS + MAX_GROUPS;

/// What [`PackArgs`] say of a tile, in the rows and columns that are stored, or that it has.
struct Stored {
    tile: TileShape,
    rows: usize,
    cols: usize,
    row: isize,
    col: isize,
    faces: Option<[isize; 2]>,
}

impl Stored {
    /// Bytes from a face to the one below it, and to the one beside it.
    #[inline(always)]
    fn faces(&self) -> [isize; 2] {
        let apart = |rows: usize, row: isize| (rows as isize).wrapping_mul(row);
        let Stored { tile, row, col, .. } = *self;
        self.faces.unwrap_or_else(|| [apart(tile.face_rows(), row), apart(tile.face_cols(), col)])
    }

    /// Bytes from a tile's first element to row `row` of the faces that are `face` from the left.
    #[inline(always)]
    fn row(&self, row: usize, face: usize) -> isize {
        let [below, beside] = self.faces();
        let (down, row) = (row / self.tile.face_rows(), row % self.tile.face_rows());
        let down = (down as isize).wrapping_mul(below).wrapping_add((row as isize).wrapping_mul(self.row));
        down.wrapping_add((face as isize).wrapping_mul(beside))
    }

    fn whole(&self) -> bool {
        self.rows == self.tile.rows() && self.cols == self.tile.cols()
    }
}

/// Vector code where there is some, the rule for the rest.
#[inline(always)]
pub(crate) fn body(level: impl Level, on: &mut Packing<'_>) {
    let options = on.codec.options();
    match on.codec.rule() {
        Rule::Mx(element) if options.compact => {
            let encode = MxVector::new(element, on.codec.format(), on.fuses);
            blocks(level, on, encode);
        }
        _ if options.compact => scalar(on),
        Rule::Bfp(bfp) if options.search => {
            let encode = BfpEncode::<true>::new(bfp, options, on.fuses);
            tiles(level, on, encode);
        }
        Rule::Bfp(bfp) => {
            let encode = BfpEncode::<false>::new(bfp, options, on.fuses);
            tiles(level, on, encode);
        }
        Rule::Mx(element) => {
            let encode = MxVector::new(element, on.codec.format(), on.fuses);
            tiles(level, on, encode);
        }
    }
}

#[inline(always)]
fn tiles<E: Encode>(level: impl Level, on: &mut Packing<'_>, encode: E) {
    let stored = on.args.stored(on.codec);
    let rows = stored.whole() && stored.col == on.from.size() as isize && !encode.replaces_elements();
    let from = match on.from {
        Elements::Numbers(from) => from,
        Elements::Codes(from, shared) if !E::SEARCHES => {
            return part!(level, tiles_of_codes(on.lend(), (from, shared), encode));
        }
        // [`packs_codes`] knows none that searches.
        Elements::Codes(..) => return,
    };
    let columns = on.args.packs_columns(on.codec, from);
    match from {
        Number::F32 if rows => part!(level, in_place_tiles::<E, F32, 4>(on.lend(), encode)),
        // What reads elements more than once prefers them widened.
        Number::Bf16 if rows && !E::SEARCHES => part!(level, in_place_tiles::<E, Bf16, 2>(on.lend(), encode)),
        Number::F16 if rows && !E::SEARCHES => part!(level, in_place_tiles::<E, F16, 2>(on.lend(), encode)),
        Number::Sen169 if rows && !E::SEARCHES => {
            part!(level, in_place_tiles::<E, Sen169, 2>(on.lend(), encode))
        }
        Number::E4M3 if rows && !E::SEARCHES => part!(level, in_place_tiles::<E, E4M3, 1>(on.lend(), encode)),
        Number::F32 if columns && !E::SEARCHES => {
            part!(level, tiles_of_columns::<E, F32, 4>(on.lend(), encode))
        }
        Number::Bf16 if columns && !E::SEARCHES => {
            part!(level, tiles_of_columns::<E, Bf16, 2>(on.lend(), encode))
        }
        Number::F16 if columns && !E::SEARCHES => {
            part!(level, tiles_of_columns::<E, F16, 2>(on.lend(), encode))
        }
        Number::E4M3 if columns && !E::SEARCHES => {
            part!(level, tiles_of_columns::<E, E4M3, 1>(on.lend(), encode))
        }
        _ => part!(level, gathered_tiles(on.lend(), encode)),
    }
}

/// The arrays of tile `t` and of the one that is packed next, and those that are fetched meanwhile.
#[inline(always)]
fn tiles_from<'a, const N: usize>(
    on: &Packing<'a>,
    offsets: &'a ArrayOffsets<N, GROUP>,
    t: usize,
) -> ([Arrays<'a, N, GROUP>; 2], Arrays<'a, N, GROUP>) {
    let next = (t + 1).min(on.args.tiles - 1);
    let tiles = [offsets.arrays(on.src, on.at(t)), offsets.arrays(on.src, on.at(next))];
    let later = offsets.inside(on.src, on.at(t).wrapping_add_signed(on.args.prefetch_distance));
    (tiles, later.unwrap_or(tiles[1]))
}

#[inline(always)]
fn in_place_tiles<E: Encode, L: GroupLane<N>, const N: usize>(on: Packing<'_>, encode: E) {
    tiles_in_place::<E, L, N, _>(
        on,
        encode,
        #[inline(always)]
        |_| Plain::<L>::NEW,
    );
}

/// Tiles whose rows are codes with a scale for each half.
#[inline(always)]
fn tiles_of_codes<E: Encode>(on: Packing<'_>, (codec, [left, right]): (&BlockCodec, [isize; 2]), encode: E) {
    let (src, step, tile) = (on.src, on.args.src_row, on.codec.tile());
    let tall = tile.face_rows();
    tiles_in_place::<E, E4M3, 1, _>(
        on,
        encode,
        #[inline(always)]
        |at| {
            let mut shared = [0; MAX_GROUPS];
            let faces = shared.chunks_mut(2 * tall).take(tile.rows() / tall);
            for (down, faces) in faces.enumerate() {
                for row in 0..tall {
                    let at = at.wrapping_add_signed(((down * tall + row) as isize).wrapping_mul(step));
                    faces[row] = src[at.wrapping_add_signed(left)];
                    faces[tall + row] = src[at.wrapping_add_signed(right)];
                }
            }
            GroupScales { codec, shared }
        },
    );
}

/// Tiles whose groups have scales: `scales` finds those of the tile whose first element is at some byte.
#[inline(always)]
fn tiles_in_place<E: Encode, L: GroupLane<N>, const N: usize, S: Scales<N>>(
    mut on: Packing<'_>,
    encode: E,
    scales: impl Fn(usize) -> S,
) {
    let (args, stored) = (on.args, on.args.stored(on.codec));
    let faces = stored.faces();
    let beside = stored.tile.face_rows() == GROUP
        && stored.tile.cols() == 2 * GROUP
        && faces[1] == (N * GROUP) as isize;
    let order = if beside { Order::Rows } else { Order::Stored };
    let offsets = array_offsets::<N>(stored.tile, stored.row, faces);
    let mut packer = TilePacker::<E, N>::new(encode, stored.tile, order);
    packer.start::<L>(offsets.arrays(on.src, on.at(0)));
    for t in 0..args.tiles {
        let (tiles, later) = tiles_from(&on, &offsets, t);
        let scales = scales(on.at(t));
        on.put(
            t,
            #[inline(always)]
            |out| packer.pack::<L>(tiles, later, scales, out),
        );
    }
}

/// Tiles whose columns are runs of the source.
#[inline(always)]
fn tiles_of_columns<E: Encode, L: GroupLane<N>, const N: usize>(mut on: Packing<'_>, encode: E) {
    let (args, stored) = (on.args, on.args.stored(on.codec));
    let offsets = array_offsets::<N>(stored.tile, stored.col, stored.faces());
    let mut packer = ColumnPacker::<E, L, N, GROUP>::new(encode, stored.tile.elements() / GROUP);
    packer.start(offsets.arrays(on.src, on.at(0)));
    for t in 0..args.tiles {
        let (tiles, later) = tiles_from(&on, &offsets, t);
        on.put(
            t,
            #[inline(always)]
            |out| packer.pack(tiles, later, out),
        );
    }
}

/// Blocks of an MX format as the OCP text has them, each a tile of its own: as many as the largest tile has are packed at a
/// time, and put behind their scales from there.
#[inline(always)]
fn blocks(level: impl Level, on: &mut Packing<'_>, encode: MxVector) {
    let from = match on.from {
        Elements::Numbers(from) => from,
        Elements::Codes(from, shared) => return blocks_of_codes(level, on, (from, shared), encode),
    };
    let runs = on.args.src_col == from.size() as isize;
    let whole = runs && on.args.rows == 1 && on.args.cols == MX_BLOCK;
    let columns = on.args.packs_columns(on.codec, from);
    match from {
        Number::F32 if whole => part!(level, in_place_blocks::<F32, 4>(on.lend(), encode)),
        Number::Bf16 if whole => part!(level, in_place_blocks::<Bf16, 2>(on.lend(), encode)),
        Number::F16 if whole => part!(level, in_place_blocks::<F16, 2>(on.lend(), encode)),
        Number::Sen169 if whole => part!(level, in_place_blocks::<Sen169, 2>(on.lend(), encode)),
        Number::E4M3 if whole => part!(level, in_place_blocks::<E4M3, 1>(on.lend(), encode)),
        Number::F32 if columns => part!(level, blocks_of_columns::<F32, 4>(on.lend(), encode)),
        Number::Bf16 if columns => part!(level, blocks_of_columns::<Bf16, 2>(on.lend(), encode)),
        Number::F16 if columns => part!(level, blocks_of_columns::<F16, 2>(on.lend(), encode)),
        Number::E4M3 if columns => part!(level, blocks_of_columns::<E4M3, 1>(on.lend(), encode)),
        _ => part!(level, gathered_blocks(on, encode, 0)),
    }
}

/// The most blocks that are packed at a time.
const BLOCKS: usize = TileShape::MAX_ELEMENTS / MX_BLOCK;

/// What a batch of blocks is packed to: all scales, then all codes.
type PackedBlocks = [u8; BLOCKS + TileShape::MAX_ELEMENTS];

/// Blocks of codes with a scale for each half.
#[inline(always)]
fn blocks_of_codes(
    level: impl Level,
    on: &mut Packing<'_>,
    (codec, shared): (&BlockCodec, [isize; 2]),
    encode: MxVector,
) {
    let (src, args) = (on.src, on.args);
    let scales = move |first: usize, count: usize| {
        let mut each = [0; MAX_GROUPS];
        for (i, halves) in each.as_chunks_mut::<2>().0.iter_mut().enumerate().take(count) {
            let at = args.src_at.wrapping_add_signed(((first + i) as isize).wrapping_mul(args.src_tile));
            *halves = shared.map(|shared| src[at.wrapping_add_signed(shared)]);
        }
        GroupScales { codec, shared: each }
    };
    match codec.rule() {
        Rule::Mx(_) => part!(level, blocks_in_place::<E4M3, 1, _>(on.lend(), encode, scales)),
        Rule::Bfp(_) => part!(level, blocks_in_place::<SignMagnitude, 1, _>(on.lend(), encode, scales)),
    }
}

#[inline(always)]
fn in_place_blocks<L: GroupLane<N>, const N: usize>(on: Packing<'_>, encode: MxVector) {
    blocks_in_place::<L, N, _>(
        on,
        encode,
        #[inline(always)]
        |_, _| Plain::<L>::NEW,
    );
}

/// Blocks whose groups have scales: `scales` finds those of so many blocks from one on.
#[inline(always)]
fn blocks_in_place<L: GroupLane<N>, const N: usize, S: Scales<N>>(
    mut on: Packing<'_>,
    encode: MxVector,
    scales: impl Fn(usize, usize) -> S,
) {
    let (src, args, step) = (on.src, on.args, on.args.src_tile);
    let [_, beside] = on.args.stored(on.codec).faces();
    // The call that comes next may be of the blocks behind these.
    let behind = args.tiles.saturating_add(2 * BLOCKS);
    let goes_on = args.prefetch_distance != 0
        && lies_inside(src.len(), args.src_at, N, args.src_loops(on.codec.tile(), behind));
    let LineAligned(packed): &mut LineAligned<PackedBlocks> = &mut LineAligned([0; _]);
    let mut first = 0;
    // Whole batches, and then what is left.
    for (batches, count) in [(args.tiles / BLOCKS, BLOCKS), (1, args.tiles % BLOCKS)] {
        if batches == 0 || count == 0 {
            continue;
        }
        let mut offsets = [0; MAX_GROUPS];
        for (block, pair) in offsets.as_chunks_mut::<2>().0.iter_mut().take(count).enumerate() {
            let at = (block as isize).wrapping_mul(step);
            *pair = [at, at.wrapping_add(beside)];
        }
        let offsets = ArrayOffsets::<N, GROUP>::new(offsets);
        let mut packer = TilePacker::<MxVector, N>::of_groups(encode, 2 * count);
        packer.start::<L>(offsets.arrays(src, on.at(first)));
        for batch in 0..batches {
            let last = batches - 1 - batch;
            let batch = |ahead: usize| offsets.arrays(src, on.at(first + ahead * count));
            let later = if goes_on { 2 } else { last.min(2) };
            let here = [batch(0), batch(last.min(1))];
            packer.pack::<L>(here, batch(later), scales(first, count), as_written(packed));
            put_blocks(&mut on, first, count, packed);
            first += count;
        }
    }
}

/// Blocks one below the other whose columns are runs of the source: as many as the largest tile has at a time.
#[inline(always)]
fn blocks_of_columns<L: GroupLane<N>, const N: usize>(mut on: Packing<'_>, encode: MxVector) {
    let args = on.args;
    let (below, beside) = ((GROUP * N) as isize, args.src_col);
    let mut offsets = [0; MAX_GROUPS];
    for (i, offset) in offsets.iter_mut().enumerate() {
        let [down, across] = [i / MX_BLOCK, i % MX_BLOCK].map(|i| i as isize);
        *offset = (down * below).wrapping_add(across.wrapping_mul(beside));
    }
    let offsets = ArrayOffsets::<N, GROUP>::new(offsets);
    let LineAligned(packed): &mut LineAligned<PackedBlocks> = &mut LineAligned([0; _]);
    let batches = args.tiles / BLOCKS;
    if batches > 0 {
        let mut packer = ColumnPacker::<MxVector, L, N, MX_BLOCK>::new(encode, MAX_GROUPS);
        packer.start(offsets.arrays(on.src, on.at(0)));
        for batch in 0..batches {
            let next = (batch + 1).min(batches - 1);
            let here = [batch, next].map(|batch| offsets.arrays(on.src, on.at(batch * BLOCKS)));
            let later = on.at(batch * BLOCKS).wrapping_add_signed(args.prefetch_distance);
            let later = offsets.inside(on.src, later).unwrap_or(here[1]);
            packer.pack(here, later, as_written(packed));
            put_blocks(&mut on, batch * BLOCKS, BLOCKS, packed);
        }
    }
    gathered_blocks(&mut on, encode, batches * BLOCKS);
}

/// Blocks from `begin` on, gathered as f32.
#[inline(always)]
fn gathered_blocks(on: &mut Packing<'_>, encode: MxVector, begin: usize) {
    let (args, stored) = (on.args, on.args.stored(on.codec));
    let mut offsets = [0; MAX_GROUPS];
    for (group, offset) in offsets.iter_mut().enumerate() {
        *offset = (group * GROUP * 4) as isize;
    }
    let offsets = ArrayOffsets::<4, GROUP>::new(offsets);
    let LineAligned(scratch) = &mut LineAligned([[0; 4]; TileShape::MAX_ELEMENTS]);
    let LineAligned(packed): &mut LineAligned<PackedBlocks> = &mut LineAligned([0; _]);
    for first in (begin..args.tiles).step_by(BLOCKS) {
        let count = BLOCKS.min(args.tiles - first);
        scratch.fill(args.pad.to_le_bytes());
        if args.rows > 0 {
            for (block, line) in scratch.as_chunks_mut::<MX_BLOCK>().0.iter_mut().take(count).enumerate() {
                gather_row(on, &stored, on.at(first + block), 0, &mut line[..args.cols]);
            }
        }
        let here = offsets.arrays(scratch.as_flattened(), 0);
        let mut packer = TilePacker::<MxVector, 4>::of_groups(encode, 2 * count);
        packer.start::<F32>(here);
        packer.pack::<F32>([here; 2], here, Plain::<F32>::NEW, as_written(packed));
        put_blocks(on, first, count, packed);
    }
}

/// Puts each block of a batch to its place: its scale, and its codes behind it.
#[inline(always)]
fn put_blocks(on: &mut Packing<'_>, first: usize, count: usize, packed: &PackedBlocks) {
    let (header, codes) = packed.split_at(count.next_multiple_of(16));
    let scales = &header[..count];
    match on.codec.code_bits() {
        8 => put_each::<32, 32>(on, first, scales, codes, |codes| *codes),
        // Codes fill the upper bits of their bytes.
        6 => put_each::<32, 24>(on, first, scales, codes, |codes| {
            let mut joined = [0; 24];
            for (to, from) in joined.as_chunks_mut::<3>().0.iter_mut().zip(codes.as_chunks::<4>().0) {
                let [a, b, c, d] = from.map(u32::from);
                let bytes = (a >> 2 | b << 4 | c << 10 | d << 16).to_le_bytes();
                *to = [bytes[0], bytes[1], bytes[2]];
            }
            joined
        }),
        4 => put_each::<16, 16>(on, first, scales, codes, |codes| *codes),
        _ => put_each::<8, 8>(on, first, scales, codes, |codes| *codes),
    }
}

/// [`put_blocks`] of blocks that have `N` bytes of codes, and `M` once they are joined.
#[inline(always)]
fn put_each<const N: usize, const M: usize>(
    on: &mut Packing<'_>,
    first: usize,
    scales: &[u8],
    codes: &[u8],
    join: impl Fn(&[u8; N]) -> [u8; M],
) {
    let step = on.args.dst_tile;
    let at = on.dst_at + first * step;
    let blocks = scales.iter().zip(codes.as_chunks::<N>().0);
    let put = |to: &mut [MaybeUninit<u8>], scale: u8, codes: &[u8; N]| {
        let (to_scale, to_codes) = to.split_at_mut(1);
        to_scale[0].write(scale);
        to_codes.copy_from_slice(as_uninit(&join(codes)));
    };
    if on.dst.is_streamed() {
        let InOnePage(run) = &mut InOnePage::new([MaybeUninit::uninit(); PACKED_TILE]);
        let run = &mut run[..scales.len() * (1 + M)];
        for (to, (scale, codes)) in run.chunks_exact_mut(1 + M).zip(blocks) {
            put(to, *scale, codes);
        }
        return on.dst.put(run, at);
    }
    for (i, (scale, codes)) in blocks.enumerate() {
        put(&mut on.dst.bytes[at + i * step..][..1 + M], *scale, codes);
    }
}

/// Each tile is gathered as f32, in the rows and columns that are stored, and packed from there.
#[inline(always)]
fn gathered_tiles<E: Encode>(mut on: Packing<'_>, encode: E) {
    let args = on.args;
    let stored = on.args.stored(on.codec);
    let Stored { tile, rows, cols, .. } = stored;
    let here = 4 * tile.cols() as isize;
    let within = [here.wrapping_mul(tile.face_rows() as isize), 4 * tile.face_cols() as isize];
    let offsets = array_offsets::<4>(tile, here, within);
    let LineAligned(scratch) = &mut LineAligned([[0; 4]; TileShape::MAX_ELEMENTS]);
    scratch.fill(args.pad.to_le_bytes());
    let mut packer = TilePacker::<E, 4>::new(encode, tile, Order::Stored);
    for t in 0..args.tiles {
        let at = on.at(t);
        for (r, line) in scratch.chunks_exact_mut(tile.cols()).take(rows).enumerate() {
            gather_row(&on, &stored, at, r, &mut line[..cols]);
        }
        if encode.replaces_elements() {
            for code in &mut *scratch {
                *code = encode.replacement(u32::from_le_bytes(*code)).to_le_bytes();
            }
        }
        let here = offsets.arrays(scratch.as_flattened(), 0);
        packer.start::<F32>(here);
        on.put(
            t,
            #[inline(always)]
            |out| packer.pack::<F32>([here; 2], here, Plain::<F32>::NEW, out),
        );
    }
}

/// Row `row` of the tile that begins at byte `at`, as f32.
#[inline(always)]
fn gather_row(on: &Packing<'_>, stored: &Stored, at: usize, row: usize, line: &mut [[u8; 4]]) {
    // What of a row lies side by side: that of a face, or all of it.
    let width = if stored.faces.is_some() { stored.tile.face_cols() } else { line.len().max(1) };
    for (face, line) in line.chunks_mut(width).enumerate() {
        gather_any(on, at.wrapping_add_signed(stored.row(row, face)), stored.col, line);
    }
}

/// Elements of the source `col` bytes apart, from byte `at`, as f32. Codes are never gathered.
#[inline(always)]
fn gather_any(on: &Packing<'_>, at: usize, col: isize, line: &mut [[u8; 4]]) {
    let Elements::Numbers(from) = on.from else { return };
    match from {
        Number::F32 => gather::<F32, 4>(on.src, at, col, line),
        Number::Bf16 => gather::<Bf16, 2>(on.src, at, col, line),
        Number::F16 => gather::<F16, 2>(on.src, at, col, line),
        Number::Sen169 => gather::<Sen169, 2>(on.src, at, col, line),
        Number::E4M3 => gather::<E4M3, 1>(on.src, at, col, line),
        _ => {
            for (c, to) in line.iter_mut().enumerate() {
                let at = at.wrapping_add_signed((c as isize).wrapping_mul(col));
                *to = on.from.load(on.src, at, (at, c)).to_le_bytes();
            }
        }
    }
}

/// The same of a format that has a lane.
#[inline(always)]
fn gather<L: Lane<N>, const N: usize>(src: &[u8], at: usize, col: isize, line: &mut [[u8; 4]]) {
    if col == N as isize {
        let run = src[at..][..N * line.len()].as_chunks().0;
        line.iter_mut().zip(run).for_each(|(to, from)| *to = L::widen(*from).to_le_bytes());
    } else if col == -(N as isize) && !line.is_empty() {
        let lowest = at - (line.len() - 1) * N;
        let run = src[lowest..][..N * line.len()].as_chunks().0;
        line.iter_mut().zip(run.iter().rev()).for_each(|(to, from)| *to = L::widen(*from).to_le_bytes());
    } else {
        for (c, to) in line.iter_mut().enumerate() {
            let at = at.wrapping_add_signed((c as isize).wrapping_mul(col));
            let element = src[at..].first_chunk().expect("an element of a checked window");
            *to = L::widen(*element).to_le_bytes();
        }
    }
}

/// Where arrays of 16 elements of `N` bytes begin, face by face, as many as a face has rows: `array` bytes apart in a face,
/// and faces as many as is said below and beside each other. What is beyond the last one repeats the first.
#[inline(always)]
fn array_offsets<const N: usize>(
    tile: TileShape,
    array: isize,
    [below, beside]: [isize; 2],
) -> ArrayOffsets<N, GROUP> {
    let mut offsets = [0; MAX_GROUPS];
    // Face by face: a kernel may be called for a tile or two.
    let across = tile.cols() / GROUP;
    for (face, offsets) in
        offsets.chunks_mut(tile.face_rows()).take(tile.elements() / GROUP / tile.face_rows()).enumerate()
    {
        let (down, across) = ((face / across) as isize, (face % across) as isize);
        let corner = down.wrapping_mul(below).wrapping_add(across.wrapping_mul(beside));
        for (i, offset) in offsets.iter_mut().enumerate() {
            *offset = (i as isize).wrapping_mul(array).wrapping_add(corner);
        }
    }
    ArrayOffsets::new(offsets)
}

/// Each tile is gathered row-major and packed by [`BlockCodec::pack_scalar`].
pub(crate) fn scalar(on: &mut Packing<'_>) {
    let (codec, args, tile) = (on.codec, on.args, on.codec.tile());
    let PackArgs { rows, cols, src_row: row, src_col: col, faces, .. } = args;
    let read = Stored { tile, rows, cols, row, col, faces };
    let mut packed = [0; 2048];
    let packed = &mut packed[..codec.tile_bytes()];
    let mut values = [args.pad; TileShape::MAX_ELEMENTS];
    let values = &mut values[..tile.elements()];
    for t in 0..args.tiles {
        for r in 0..args.rows {
            for c in 0..args.cols {
                let (face, within) = (c / tile.face_cols(), (c % tile.face_cols()) as isize);
                let begin = on.at(t).wrapping_add_signed(read.row(r, 0));
                let at = on.at(t).wrapping_add_signed(read.row(r, face));
                let at = at.wrapping_add_signed(within.wrapping_mul(col));
                values[r * tile.cols() + c] = on.from.load(on.src, at, (begin, c));
            }
        }
        codec.pack_scalar(values, packed);
        on.dst.bytes[on.dst_at + t * on.args.dst_tile..][..packed.len()].copy_from_slice(as_uninit(packed));
    }
}
