//! One axis of a layout: a group of logical dimensions whose address is a map of one coordinate.

use super::gaps::gaps;
use super::inverse::Inverse;
use super::piecewise::{Piecewise, Region, Step, compose};
use crate::error::Result;

/// An address inside a layout: the unit, bytes from the unit's start, and the slot inside a block.
///
/// A *unit* is what a distribution moves as a whole (a page of an interleaved tensor, the shard of a core);
/// layouts without one have a single unit. The *slot* counts the elements of a tile row by row, whatever
/// the order in which its bytes store them; it is 0 for plain formats.
pub(crate) type Addr = Step<3>;

/// One digit of an axis: `n` values, each `step` further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) n: u64,
    pub(crate) step: Addr,
}

impl Level {
    /// `n` values, `bytes` apart in one unit.
    pub(crate) fn bytes(n: u64, bytes: i64) -> Level {
        Level { n, step: [0, bytes, 0] }
    }
}

/// A group of logical dimensions, the cells they fall on, and the cells they leave empty.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    /// The logical dimensions, ascending; the coordinate counts them row-major.
    pub(crate) dims: Vec<usize>,
    /// From coordinate to cell, starting at cell `first`.
    pub(crate) places: Piecewise<1>,
    /// The cell of the first element.
    pub(crate) first: i64,
    /// The digits of a cell, outermost first; cells without an element are padding.
    pub(crate) cells: Vec<Level>,
    /// From coordinate to address, starting at `start`.
    pub(crate) addresses: Piecewise<3>,
    /// The address of the first element.
    pub(crate) start: Addr,
}

impl Axis {
    /// An axis of at least one coordinate. Every coordinate must reach a cell.
    pub(crate) fn new(dims: Vec<usize>, first: i64, places: Piecewise<1>, cells: Vec<Level>) -> Result<Axis> {
        let loops: Vec<_> = cells.iter().map(|c| (c.n, c.step)).collect();
        let (start, addresses) = compose(&places, first, &Piecewise::nest(&loops))?;
        Ok(Axis { dims, places, first, cells, addresses, start })
    }

    /// The axis of one dimension of `len` on as many cells, `step` apart.
    pub(crate) fn line(dim: usize, len: u64, step: Addr) -> Result<Axis> {
        Axis::new(vec![dim], 0, Piecewise::run(len, [1]), vec![Level { n: len, step }])
    }

    /// How many cells there are.
    pub(crate) fn extent(&self) -> u64 {
        self.cells.iter().map(|c| c.n).product()
    }

    /// The cells without an element, as runs in which nothing else lies.
    ///
    /// # Errors
    /// [`crate::Error::Collision`] of two coordinates if they share a cell; where the cells break into too many runs.
    pub(crate) fn gaps(&self) -> Result<Vec<Region<1>>> {
        if let Piecewise::Run { len, step: [1] } = self.places {
            // One run of cells leaves what is in front of it and what is behind.
            let (end, extent) = (self.first + len as i64, self.extent() as i64);
            let run = |from: i64, to: i64| Region { at: [from], loops: vec![((to - from) as u64, [1])] };
            let runs = [(0, self.first), (end, extent)].into_iter().filter(|(from, to)| from < to);
            return Ok(runs.map(|(from, to)| run(from, to)).collect());
        }
        gaps(self.places.graph().regions([self.first, 0])?, self.extent() as i64)
    }

    /// From cell to coordinate, counted from cell `first` on.
    pub(crate) fn inverse(&self) -> Inverse {
        Inverse::new(&self.places)
    }
}

/// The addresses of a set of cells, of which `all` is the map.
pub(crate) fn addresses(cells: &[Region<1>], all: &Piecewise<3>) -> Result<Vec<Region<3>>> {
    let mut out = Vec::new();
    for region in cells {
        let (at, map) = compose(&Piecewise::nest(&region.loops), region.at[0], all)?;
        out.extend(map.regions(at)?);
    }
    Ok(out)
}
