//! Where the pages of a TTNN tensor go: TTNN's `MemoryConfig`, and what a device adds to it.

use crate::error::{Error, Result};
use crate::family::tenstorrent::cores::{CoreRange, CoreRangeSet, Orientation};
use crate::family::tenstorrent::shard::{Buffers, check_dealt};
use crate::family::{check_count, check_positive, join};

/// Where the pages go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Memory {
    /// One buffer, as on the host.
    Single,
    /// Pages in the banks of a memory in turn.
    Interleaved(Interleaved),
    /// Shards of the tensor on cores.
    Sharded(Sharded),
}

/// Page `p` in bank `p mod banks`, at `p div banks` times the page size rounded up to `alignment` bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Interleaved {
    /// Number of banks.
    pub banks: u64,
    /// Alignment of a page, in bytes.
    pub alignment: u64,
    /// For each bank, which of the buffers it is, counted from 0; `None` where bank `b` is buffer `b`.
    ///
    /// The banks of L1 are the cores in an order that belongs to one chip, one grid and one harvesting. With the number
    /// `y * columns + x` of each bank's core here, buffers are listed by row and column of the cores.
    pub bank_order: Option<Vec<u32>>,
}

impl Interleaved {
    /// So many banks in their own order; pages aligned to so many bytes.
    pub fn new(banks: u64, alignment: u64) -> Interleaved {
        Interleaved { banks, alignment, bank_order: None }
    }

    /// The same banks, bank `b` as buffer `order[b]`.
    pub fn with_bank_order(mut self, order: Vec<u32>) -> Interleaved {
        self.bank_order = Some(order);
        self
    }

    /// The buffers in the order in which they get pages.
    pub(super) fn buffers(&self) -> Buffers {
        self.bank_order.clone().map_or(Buffers::InTurn(self.banks), Buffers::At)
    }

    /// Checks that sizes are positive and that the order of the banks has each of them once.
    fn validate(&self) -> Result<()> {
        check_positive("banks", &[self.banks])?;
        check_positive("alignment", &[self.alignment])?;
        let Some(order) = &self.bank_order else { return Ok(()) };
        check_dealt(self.banks)?;
        let banks = self.banks as usize;
        check_count("bank_order", order.len(), banks, "one for each bank")?;
        let mut seen = vec![false; banks];
        for &bank in order {
            let needed = format!("each number from 0 to {} once", banks - 1);
            match seen.get_mut(bank as usize) {
                None => return Err(Error::value("bank_order", bank, needed)),
                Some(true) => return Err(Error::value("bank_order", format!("{bank} twice"), needed)),
                Some(seen) => *seen = true,
            }
        }
        Ok(())
    }
}

/// Shards of the tensor on cores, or on the banks of DRAM as one row of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Sharded {
    /// How shards are cut.
    pub scheme: Scheme,
    /// The cores.
    pub grid: CoreRangeSet,
    /// Shape of a shard in elements: two dimensions, any number for [`Scheme::Nd`].
    pub shard: Vec<u64>,
    /// Order of the cores.
    pub orientation: Orientation,
    /// How shards are handed to the cores.
    pub strategy: Strategy,
}

impl Sharded {
    /// Shards in the order of rows, handed out as the scheme does it.
    pub fn new(scheme: Scheme, grid: CoreRangeSet, shard: Vec<u64>) -> Sharded {
        Sharded { scheme, grid, shard, orientation: Orientation::RowMajor, strategy: scheme.strategy() }
    }

    /// The same with another order of the cores.
    pub fn with_orientation(mut self, orientation: Orientation) -> Sharded {
        self.orientation = orientation;
        self
    }

    /// The same with another way of handing out.
    pub fn with_strategy(mut self, strategy: Strategy) -> Sharded {
        self.strategy = strategy;
        self
    }

    /// Checks what can be said without the tensor.
    fn validate(&self) -> Result<()> {
        self.grid.validate()?;
        check_positive("shard", &self.shard)?;
        if self.scheme != Scheme::Nd {
            check_count("shard", self.shard.len(), 2, "its rows and columns")?;
            if self.strategy != self.scheme.strategy() {
                let needed =
                    format!("{}, which {} is, or memory=ND_SHARDED", self.scheme.strategy(), self.scheme);
                return Err(Error::value("strategy", self.strategy, needed));
            }
        }
        if self.strategy == Strategy::Grid2d {
            if self.shard.len() != 2 {
                let given = format!("a shard of {} dimensions, {}", self.shard.len(), join(&self.shard));
                return Err(Error::value(
                    "shard",
                    given,
                    "two dimensions: GRID_2D is for two-dimensional shards only",
                ));
            }
            if self.grid.rectangle().is_none() {
                let given = format!("{} rectangles of cores", self.grid.ranges().len());
                return Err(Error::value(
                    "grid",
                    given,
                    "one: rows and columns of shards are rows and columns of cores",
                ));
            }
        }
        Ok(())
    }

    /// Checks that shards fit the physical shape and the cores; `shards` counts them along each dimension.
    pub(super) fn check_fit(&self, physical: &[u64], shards: &[u64]) -> Result<()> {
        let full = |r: usize, name: &str| {
            if self.shard[r] == physical[r] {
                return Ok(());
            }
            let needed = format!("{}, the physical {name} of the tensor", physical[r]);
            Err(Error::value(format!("shard {name}"), self.shard[r], needed))
        };
        let enough = |name: &str, given: u64, cores: u64, what: &str| {
            if given <= cores {
                return Ok(());
            }
            let grid = match self.grid.rectangle() {
                Some(one) if (one.x, one.y) == (0, 0) => join(&[one.rows, one.columns]),
                _ => self.grid.to_string(),
            };
            Err(Error::value(name, given, format!("at most {cores}, {what} of the grid {grid}")))
        };
        match self.scheme {
            Scheme::Height => {
                full(1, "width")?;
                enough("number of shards", shards[0], self.grid.cores(), "the cores")?;
            }
            Scheme::Width => {
                full(0, "height")?;
                enough("number of shards", shards[1], self.grid.cores(), "the cores")?;
            }
            Scheme::Block | Scheme::Nd => {}
        }
        match (self.strategy, self.grid.rectangle()) {
            (Strategy::Grid2d, Some(grid)) => {
                let (rows, columns) = ("the rows of cores", "the columns of cores");
                let [down, across] = match self.orientation {
                    Orientation::RowMajor => [(grid.rows, rows), (grid.columns, columns)],
                    Orientation::ColMajor => [(grid.columns, columns), (grid.rows, rows)],
                };
                enough("rows of shards", shards[0], down.0, down.1)?;
                enough("columns of shards", shards[1], across.0, across.1)
            }
            (Strategy::Contiguous1d, _) => {
                let (count, cores) = (shards.iter().product::<u64>(), self.grid.cores());
                if count.is_multiple_of(cores) {
                    return Ok(());
                }
                let needed = format!("a multiple of {cores}: CONTIGUOUS_1D gives every core as many shards");
                Err(Error::value("number of shards", count, needed))
            }
            _ => Ok(()),
        }
    }

    /// The buffers of the cores that hold a shard, in the order in which they get one.
    pub(super) fn buffers(&self, shards: &[u64]) -> Result<Buffers> {
        let (cores, used) = self.used(shards);
        cores.buffers(used, self.orientation)
    }

    /// The core, as [row, column], whose buffer is the `buffer`-th, for a tensor of so many shards along each
    /// dimension, as [`crate::layout::Geometry::grid`] tells them; `None` where there is no such buffer.
    pub fn core(&self, shards: &[u64], buffer: u64) -> Option<[u64; 2]> {
        let (cores, used) = self.used(shards);
        cores.core(used, self.orientation, buffer)
    }

    /// Cores, the first of which hold a shard, and how many do.
    fn used(&self, shards: &[u64]) -> (CoreRangeSet, u64) {
        let count = shards.iter().fold(1, |n: u64, s| n.saturating_mul(*s));
        match (self.strategy, self.grid.rectangle(), shards) {
            // The cores that get a shard are a rectangle, whose rows or columns are those of the shards.
            (Strategy::Grid2d, Some(grid), &[down, across]) => {
                let by_rows = self.orientation == Orientation::RowMajor;
                let [rows, columns] = if by_rows { [down, across] } else { [across, down] };
                (CoreRangeSet::new([CoreRange::new(grid.x, grid.y, columns, rows)]), count)
            }
            _ => (self.grid.clone(), count.min(self.grid.cores())),
        }
    }
}

impl Memory {
    /// Checks what can be said without the tensor.
    pub(super) fn validate(&self) -> Result<()> {
        match self {
            Memory::Single => Ok(()),
            Memory::Interleaved(interleaved) => interleaved.validate(),
            Memory::Sharded(sharded) => sharded.validate(),
        }
    }
}

/// How shards are cut: TTNN's `TensorMemoryLayout`, where it is a sharded one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Full rows, handed to the cores in turn.
    Height,
    /// Full columns, handed to the cores in turn.
    Width,
    /// Shard (i, j) on core (i, j).
    Block,
    /// Shards of any rank.
    Nd,
}

impl Scheme {
    pub(crate) const NAMES: [(&'static str, Scheme); 4] = [
        ("HEIGHT_SHARDED", Scheme::Height),
        ("WIDTH_SHARDED", Scheme::Width),
        ("BLOCK_SHARDED", Scheme::Block),
        ("ND_SHARDED", Scheme::Nd),
    ];

    /// How its shards are handed out where nothing else is said.
    pub fn strategy(self) -> Strategy {
        if self == Scheme::Block { Strategy::Grid2d } else { Strategy::RoundRobin1d }
    }
}

/// How shards are handed to the cores: TTNN's `ShardDistributionStrategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Shards, counted row-major, to the cores in turn.
    RoundRobin1d,
    /// Shard (i, j) of a two-dimensional tensor to core (x = j, y = i); by columns to core (x = i, y = j).
    Grid2d,
    /// With `n` shards for each core, shards `c * n` to `c * n + n - 1` to core `c`.
    Contiguous1d,
}

impl Strategy {
    pub(crate) const NAMES: [(&'static str, Strategy); 3] = [
        ("ROUND_ROBIN_1D", Strategy::RoundRobin1d),
        ("GRID_2D", Strategy::Grid2d),
        ("CONTIGUOUS_1D", Strategy::Contiguous1d),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_listed_by_row_and_column_of_their_cores() {
        for grid in [[3, 4], [4, 3], [1, 5], [5, 1]] {
            for orientation in [Orientation::RowMajor, Orientation::ColMajor] {
                for shards in 1..=grid[0] * grid[1] {
                    let mut cores: Vec<[u64; 2]> = (0..shards)
                        .map(|s| match orientation {
                            Orientation::RowMajor => [s / grid[1], s % grid[1]],
                            Orientation::ColMajor => [s % grid[0], s / grid[0]],
                        })
                        .collect();
                    cores.sort_unstable();
                    let set = CoreRangeSet::grid(grid[0], grid[1]);
                    let sharded = Sharded::new(Scheme::Height, set, vec![1, 1]).with_orientation(orientation);
                    let seen: Vec<_> = (0..=shards).map(|b| sharded.core(&[shards, 1], b)).collect();
                    let expected: Vec<_> = cores.into_iter().map(Some).chain([None]).collect();
                    assert_eq!(seen, expected, "{shards} shards on {grid:?}, {orientation:?}");
                }
            }
        }
        let block = Sharded::new(Scheme::Block, CoreRangeSet::grid(8, 8), vec![1, 1]);
        assert_eq!(block.core(&[2, 3], 4), Some([1, 1]));
        assert_eq!(block.with_orientation(Orientation::ColMajor).core(&[2, 3], 4), Some([2, 0]));
        // The core at (0, 0) comes first in the list, and second in the order of shards.
        let apart = CoreRangeSet::new([CoreRange::new(0, 1, 1, 1), CoreRange::new(0, 0, 1, 1)]);
        let sharded = Sharded::new(Scheme::Height, apart, vec![1, 1]);
        assert_eq!(sharded.core(&[2, 1], 0), Some([0, 0]));
        assert!(matches!(sharded.buffers(&[2, 1]).unwrap(), Buffers::At(order) if order == [1, 0]));
    }
}
