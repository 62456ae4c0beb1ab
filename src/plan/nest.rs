//! The parts of a plan: rectangular loop nests, each with one leaf.

use crate::layout::axis::Addr;
use crate::layout::piecewise::Step;

use super::order::Walk;

/// Source and destination address that advance together: unit, bytes and slot of each.
pub(crate) type AddressPair = Step<6>;

/// `n` turns of everything further in, `step` apart.
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
pub(crate) fn src(both: AddressPair) -> Addr {
    [both[0], both[1], both[2]]
}

/// The destination half.
pub(crate) fn dst(both: AddressPair) -> Addr {
    [both[3], both[4], both[5]]
}

/// A rectangular loop nest with constant trip counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Nest {
    /// Where the first turn of all loops begins.
    pub(crate) at: AddressPair,
    /// From the greatest destination step to the least.
    pub(crate) loops: Vec<Loop>,
    /// What one turn of all loops does.
    pub(crate) leaf: Leaf,
    /// How it is walked when it runs.
    pub(crate) walk: Walk,
    /// How a kernel reads the tile to be packed in place, if it can.
    pub(crate) in_place: Option<InPlace>,
}

/// A tile of the source that is read where it lies: the strides of its valid corner, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InPlace {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) src_row: isize,
    pub(crate) src_col: isize,
}

/// What the innermost turn of a nest does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Leaf {
    /// One element is copied or converted.
    Element,
    /// One element, or one tile of a block format, gets the fill.
    Fill,
    /// One tile of the destination is packed from the elements that its parts gather.
    Pack(Vec<Gather>),
}

/// The elements that one rectangular part of a tile is gathered from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gather {
    /// Where the part's first element lies in the source, for the first turn of the nest.
    pub(crate) src: Addr,
    /// How it moves with each loop of the nest.
    pub(crate) moves: Vec<Addr>,
    /// Its first slot in the tile.
    pub(crate) slot: i64,
    /// Loops inside of the tile; their destination steps count slots.
    pub(crate) loops: Vec<Loop>,
}

impl Nest {
    pub(crate) fn new(at: AddressPair, loops: Vec<Loop>, leaf: Leaf) -> Nest {
        Nest { at, loops, leaf, walk: Walk::default(), in_place: None }
    }
}
