//! Cores: rectangles and sets of them, and the order in which they are taken.

use super::shard::{Buffers, check_dealt};
use crate::error::{Error, Result};

/// The most rectangles of one set. A device has fewer cores than that.
const MAX_RANGES: usize = 1024;

/// The order in which shards go to the cores or devices of a rectangle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Orientation {
    /// Along the rows first.
    RowMajor,
    /// Along the columns first.
    ColMajor,
}

impl Orientation {
    pub(crate) const NAMES: [(&'static str, Orientation); 2] =
        [("ROW_MAJOR", Orientation::RowMajor), ("COL_MAJOR", Orientation::ColMajor)];
}

/// A rectangle of cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CoreRange {
    /// Column of its first core.
    pub x: u64,
    /// Row of its first core.
    pub y: u64,
    /// Cores in each row.
    pub columns: u64,
    /// Cores in each column.
    pub rows: u64,
}

impl CoreRange {
    /// `columns` by `rows` cores, the first one in column `x` of row `y`.
    pub const fn new(x: u64, y: u64, columns: u64, rows: u64) -> CoreRange {
        CoreRange { x, y, columns, rows }
    }

    /// The rectangle between two cores, both of them included; `None` where `end` lies in front of `start`.
    pub fn between(start: [u64; 2], end: [u64; 2]) -> Option<CoreRange> {
        let size = |k: usize| end[k].checked_sub(start[k])?.checked_add(1);
        Some(CoreRange::new(start[0], start[1], size(0)?, size(1)?))
    }

    /// The last core, as (column, row).
    pub fn end(&self) -> [u64; 2] {
        [
            self.x.saturating_add(self.columns).saturating_sub(1),
            self.y.saturating_add(self.rows).saturating_sub(1),
        ]
    }

    /// Number of cores.
    pub fn cores(&self) -> u64 {
        self.columns.saturating_mul(self.rows)
    }

    /// Checks that it has a core, and that none lies beyond 2^63; `what` is the part of a descriptor that lists it.
    pub(super) fn check(&self, what: &str) -> Result<()> {
        let last = self.x.checked_add(self.columns).zip(self.y.checked_add(self.rows));
        if self.cores() == 0 || last.is_none_or(|(x, y)| x > i64::MAX as u64 || y > i64::MAX as u64) {
            let given = format!("{} rows by {} columns of cores", self.rows, self.columns);
            return Err(Error::value(what, given, "1 or more of each, below 2^63"));
        }
        Ok(())
    }

    fn overlaps(&self, other: &CoreRange) -> bool {
        let apart = |a: u64, n: u64, b: u64, m: u64| a.saturating_add(n) <= b || b.saturating_add(m) <= a;
        !apart(self.x, self.columns, other.x, other.columns) && !apart(self.y, self.rows, other.y, other.rows)
    }

    /// Core `k` of the rectangle as (row, column), counted along the rows or along the columns.
    fn core(&self, k: u64, orientation: Orientation) -> (u64, u64) {
        match orientation {
            Orientation::RowMajor => (self.y + k / self.columns, self.x + k % self.columns),
            Orientation::ColMajor => (self.y + k % self.rows, self.x + k / self.rows),
        }
    }
}

/// The cores that shards go to: rectangles that do not overlap, taken one after another.
///
/// ```
/// use tilewright::family::tenstorrent::cores::{CoreRange, CoreRangeSet};
///
/// let grid = CoreRangeSet::grid(2, 8);
/// let cores = CoreRangeSet::new([CoreRange::new(0, 0, 8, 1), CoreRange::new(0, 1, 4, 1)]);
/// assert_eq!((grid.cores(), cores.cores()), (16, 12));
/// assert_eq!(cores.to_string(), "{[0-0 - 7-0], [0-1 - 3-1]}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CoreRangeSet {
    ranges: Vec<CoreRange>,
}

impl CoreRangeSet {
    /// These rectangles in this order. What is wrong with them is found when the descriptor is validated.
    pub fn new(ranges: impl IntoIterator<Item = CoreRange>) -> CoreRangeSet {
        CoreRangeSet { ranges: ranges.into_iter().collect() }
    }

    /// The rectangle of `rows` by `columns` cores that begins at core (0, 0).
    pub fn grid(rows: u64, columns: u64) -> CoreRangeSet {
        CoreRangeSet::new([CoreRange::new(0, 0, columns, rows)])
    }

    /// The rectangles in order.
    pub fn ranges(&self) -> &[CoreRange] {
        &self.ranges
    }

    /// The rectangle, where there is only one.
    pub fn rectangle(&self) -> Option<CoreRange> {
        if let [one] = self.ranges[..] { Some(one) } else { None }
    }

    /// Number of cores.
    pub fn cores(&self) -> u64 {
        self.ranges.iter().fold(0, |n, r| n.saturating_add(r.cores()))
    }

    /// Checks that there is a core, that every rectangle has one, and that no two overlap.
    pub(crate) fn validate(&self) -> Result<()> {
        let wrong = |given: String, needed: &str| Err(Error::value("grid", given, needed));
        if self.ranges.is_empty() {
            return wrong("no cores".into(), "at least one");
        }
        if self.ranges.len() > MAX_RANGES {
            let given = format!("{} rectangles of cores", self.ranges.len());
            return wrong(given, &format!("at most {MAX_RANGES}"));
        }
        for (i, range) in self.ranges.iter().enumerate() {
            range.check("grid")?;
            if let Some(other) = self.ranges[..i].iter().find(|other| other.overlaps(range)) {
                return wrong(format!("{other} and {range}"), "rectangles of cores that do not overlap");
            }
        }
        Ok(())
    }

    /// The first `used` cores in the order in which they get shards, as buffers that are listed by row and column.
    ///
    /// # Errors
    /// Where they are too many to be listed out of order.
    pub(crate) fn buffers(&self, used: u64, orientation: Orientation) -> Result<Buffers> {
        if self.rectangle().is_some() && orientation == Orientation::RowMajor {
            return Ok(Buffers::InTurn(used));
        }
        check_dealt(used)?;
        let listed = self.listed(used, orientation);
        let mut order = vec![0; listed.len()];
        for (place, (_, core)) in (0..).zip(listed) {
            order[core] = place;
        }
        Ok(Buffers::At(order))
    }

    /// The core of a buffer of the first `used` cores, as [row, column].
    pub(crate) fn core(&self, used: u64, orientation: Orientation, buffer: u64) -> Option<[u64; 2]> {
        let (row, column) = match (self.rectangle(), orientation) {
            (Some(range), Orientation::RowMajor) => {
                Some(range.core(buffer, orientation)).filter(|_| buffer < used.min(range.cores()))
            }
            _ if check_dealt(used).is_err() => None,
            _ => self.listed(used, orientation).get(usize::try_from(buffer).ok()?).map(|c| c.0),
        }?;
        Some([row, column])
    }

    /// The first `used` cores by row and column, each with its number in the order in which they get shards.
    fn listed(&self, used: u64, orientation: Orientation) -> Vec<((u64, u64), usize)> {
        let all = self.ranges.iter().flat_map(|r| (0..r.cores()).map(|k| r.core(k, orientation)));
        let mut listed: Vec<_> = all.take(used as usize).zip(0..).collect();
        listed.sort_unstable();
        listed
    }
}
