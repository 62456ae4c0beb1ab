//! What a plan is made of: rectangular loop nests, each with one leaf and, once it is scheduled, the order and the
//! blocks in which its iterations run.
//!
//! Lowering makes `Nest`s, scheduling makes [`ScheduledNest`]s of them, and only the verifier makes
//! [`Verified`](super::verify::Verified) nests, which are the only ones that a [`Plan`](super::Plan) holds.

use kernels::{BlockCodec, Hints, MAX_OUTER_LOOPS, Number, OuterLoop, PackArgs, Window};

use crate::layout::axis::Addr;
use crate::layout::piecewise::Step;

/// The most loops of one nest: every dimension and split of a tensor of the greatest rank.
pub(crate) const MAX_LOOPS: usize = 64;

/// The greatest block, in bytes, that any tuning lets be assembled at once.
pub(crate) use crate::tuning::MAX_BLOCK;

/// The most segments of a block that is assembled: a segment has a cache line at the least.
pub(crate) const MAX_SEGMENTS: usize = MAX_BLOCK / LINE;

/// The most loops that one call of a kernel takes: those of a window, and those around it.
pub(crate) const MAX_LOOPS_OF_CALL: usize = MAX_OUTER_LOOPS + 2;

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// Source and destination address that advance together: unit, bytes and slot of each.
pub(crate) type AddressPair = Step<6>;

/// `n` iterations of everything further in, `step` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loop {
    pub(crate) n: u64,
    pub(crate) step: AddressPair,
}

impl Loop {
    pub(crate) fn src(&self) -> Addr {
        src(self.step)
    }

    pub(crate) fn dst(&self) -> Addr {
        dst(self.step)
    }
}

/// The source half.
pub(crate) fn src(pair: AddressPair) -> Addr {
    [pair[0], pair[1], pair[2]]
}

/// The destination half.
pub(crate) fn dst(pair: AddressPair) -> Addr {
    [pair[3], pair[4], pair[5]]
}

/// A rectangular loop nest with constant trip counts. `S` is `()` as it is lowered, and [`Schedule`] afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Nest<S = ()> {
    /// Where the first iteration of all loops begins.
    pub(crate) at: AddressPair,
    /// From the greatest destination step to the least.
    pub(crate) loops: Vec<Loop>,
    /// What one iteration of all loops does.
    pub(crate) leaf: Leaf,
    /// In which order and in which blocks the iterations run.
    pub(crate) schedule: S,
}

/// A nest that says how it runs.
pub(crate) type ScheduledNest = Nest<Schedule>;

impl Nest {
    pub(crate) fn new(at: AddressPair, loops: Vec<Loop>, leaf: Leaf) -> Nest {
        Nest { at, loops, leaf, schedule: () }
    }
}

/// What the innermost iteration of a nest does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Leaf {
    /// One element is copied or converted.
    Element,
    /// One element, or one tile of a block format, gets the fill.
    Fill,
    /// One tile of the destination is packed from the elements that its parts gather.
    Pack(Vec<Gather>),
}

impl ScheduledNest {
    /// Whether what is compacted is brought together as elements of the destination, and copied from there: unless it is assembled, and lies in
    /// several units, of which it is copied as it is.
    pub(crate) fn converts_first(&self) -> bool {
        let Schedule { assembled, blocks, .. } = &self.schedule;
        !assembled || self.loops.iter().zip(blocks).all(|(l, &n)| n == 1 || l.step[0] == 0)
    }
}

/// The elements that one rectangular part of a tile is gathered from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gather {
    /// Where the part's first element lies in the source, for the first iteration of the nest.
    pub(crate) src: Addr,
    /// How it moves with each loop of the nest.
    pub(crate) moves: Vec<Addr>,
    /// Its first slot in the tile.
    pub(crate) slot: i64,
    /// Loops inside of the tile; their destination steps count slots.
    pub(crate) loops: Vec<Loop>,
}

impl Gather {
    /// How many elements it gathers.
    pub(crate) fn elements(&self) -> u64 {
        self.loops.iter().fold(1, |n, l| n.saturating_mul(l.n))
    }

    /// Whether it is all of a tile of `codec` on either side, each element in the slot that it has in the tile where it lies.
    pub(crate) fn is_whole_tile(&self, codec: &BlockCodec) -> bool {
        let stays = |l: &Loop| l.step[..2] == [0; 2] && l.step[2] == l.step[5];
        (self.slot, self.src[2]) == (0, 0)
            && self.moves.iter().all(|step| step[2] == 0)
            && self.loops.iter().all(stays)
            && self.elements() == codec.tile().elements() as u64
    }
}

/// How the iterations of a nest run: they are taken in blocks, and a kernel gets a block or a part of it in one call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Schedule {
    /// How a kernel reads the tile to be packed where it lies, if it can.
    pub(crate) in_place: Option<InPlace>,
    /// Whether blocks of elements are assembled in L1 before they are written. Only such blocks go from unit to unit of the
    /// destination: each unit of them is written by itself.
    pub(crate) assembled: bool,
    /// Whether what a block reads is brought together in L1 first: loops from unit to unit are then loops of a kernel as others are.
    /// [`ScheduledNest::converts_first`] says whether as it is or as elements of the destination. For elements of no block format that
    /// all fit. Of a tile that is packed, whether a block of such is brought together, whichever loops it has.
    pub(crate) compacted: bool,
    /// The loop that is the rows of a kernel's window, if any.
    pub(crate) rows: Option<usize>,
    /// The loop that is the columns of a kernel's window, if any.
    pub(crate) cols: Option<usize>,
    /// The loop from tile to tile of a block format that one kernel call takes, if any.
    pub(crate) tiles: Option<usize>,
    /// The order in which blocks run, outermost loop first.
    pub(crate) order: Vec<usize>,
    /// The order inside of a block.
    pub(crate) within: Vec<usize>,
    /// How many iterations of each loop a block has.
    pub(crate) blocks: Vec<u64>,
    /// How far apart these iterations are while they are assembled, in bytes.
    pub(crate) packed: Vec<i64>,
    /// The first loop of those that step inside of a segment, which is a run of bytes of the destination.
    pub(crate) segment: usize,
    /// How many iterations of the segment's loop a block has beyond its own, so that a segment can end where a line of
    /// the destination does; part of the source is then read twice, but no line written twice. A line's worth, or 0.
    pub(crate) overlap: u64,
    /// Bytes from what is read, or a tile that is packed where it lies, to what is fetched meanwhile; 0 for nothing, or for [`crate::run`] to say where elements
    /// go at once, or are compacted and not assembled. No byte depends on it: the kernels fetch only what lies inside of the source.
    pub(crate) prefetch_distance: i64,
    /// Whether that is the next block, which is fetched in the order in which it lies.
    pub(crate) in_order: bool,
    /// Whether tasks may have bands, the same range of each plane of the destination. A band is made in the order of the destination,
    /// and the next block is fetched in the order in which it lies.
    pub(crate) in_bands: bool,
}

impl Schedule {
    /// One iteration after the other, in the order of the destination.
    pub(crate) fn new(loops: &[Loop]) -> Schedule {
        let natural: Vec<usize> = (0..loops.len()).collect();
        Schedule::ordered(loops, natural.clone(), natural)
    }

    /// One iteration after the other, blocks in one order and what is inside of them in another.
    pub(crate) fn ordered(loops: &[Loop], order: Vec<usize>, within: Vec<usize>) -> Schedule {
        Schedule {
            blocks: vec![1; loops.len()],
            packed: loops.iter().map(|l| l.step[4]).collect(),
            segment: loops.len(),
            order,
            within,
            ..Schedule::default()
        }
    }
}

/// Whether runs of the destination, of elements of so many bytes, begin anywhere in a line behind one that begins with it.
pub(crate) fn runs_begin_anywhere(loops: &[Loop], block_bytes: usize) -> bool {
    let mut run = block_bytes as i64;
    loops.iter().rev().any(|l| {
        let follows = l.step[4] == run;
        run = if follows { run.saturating_mul(l.n as i64) } else { run };
        !follows && l.step[3] == 0 && l.step[4] % LINE as i64 != 0
    })
}

/// The one kernel call that does all of a plan, of those that need no more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WholeCall {
    /// Byte of the source, and of the destination, where the first element lies.
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) window: Window,
    /// The loops around the window are the last `taken` of these.
    pub(crate) outer: [OuterLoop; MAX_OUTER_LOOPS],
    pub(crate) taken: usize,
    pub(crate) hints: Hints,
}

/// A tile of the source that is read where it lies: the strides of its valid corner, in bytes. A whole tile may lie in faces; its
/// rows and columns are so far apart inside of a face then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InPlace {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) src_row: isize,
    pub(crate) src_col: isize,
    /// Bytes from a face to the one below it, and to the one beside it.
    pub(crate) faces: Option<[isize; 2]>,
}

impl InPlace {
    /// What a kernel that packs is asked for one such tile that begins at byte 0.
    pub(crate) fn args(self) -> PackArgs {
        let InPlace { rows, cols, src_row, src_col, faces } = self;
        PackArgs {
            tiles: 1,
            src_at: 0,
            src_tile: 0,
            src_row,
            src_col,
            faces,
            rows,
            cols,
            pad: 0.0,
            dst_tile: 0,
            prefetch_distance: 0,
        }
    }

    /// Whether the kernel reads such tiles, `src_tile` bytes apart, at full speed: numbers that it widens itself, in rows or in whole columns.
    pub(crate) fn is_fast(self, codec: &BlockCodec, number: Number, src_tile: isize) -> bool {
        let rows = self.cols == 1 || self.src_col == number.size() as isize;
        let args = PackArgs { src_tile, ..self.args() };
        rows && PackArgs::packs_rows_of(number) || args.packs_columns(codec, number)
    }
}
