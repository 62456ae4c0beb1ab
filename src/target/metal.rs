//! `metal_layout` of tt-mlir, in its three forms: the affine one, its constructor, and the one of today.

use std::ops::Range;

use super::tile::Element;
use super::{Tensor, check_count, check_positive, check_rank, entries, join};
use crate::error::{Error, Result};
use crate::layout::affine::AffineMap;

/// What fills the places of a shard that hold no element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fill {
    /// Not defined by the compiler; zero bytes here.
    Undef,
    /// The number 0.
    Zero,
    /// The number 1.
    One,
    /// Plus infinity.
    Inf,
    /// Minus infinity.
    NegInf,
}

impl Fill {
    pub(crate) const NAMES: [(&'static str, Fill); 5] = [
        ("undef", Fill::Undef),
        ("zero", Fill::Zero),
        ("one", Fill::One),
        ("inf", Fill::Inf),
        ("neginf", Fill::NegInf),
    ];
}

/// Where the shards live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemorySpace {
    /// Host memory that the device does not see.
    System,
    /// Host memory that the device sees.
    Mmio,
    /// DRAM of the device.
    Dram,
    /// SRAM of each core.
    L1,
    /// Destination registers of a core.
    Dst,
}

impl MemorySpace {
    pub(crate) const NAMES: [(&'static str, MemorySpace); 5] = [
        ("system", MemorySpace::System),
        ("mmio", MemorySpace::Mmio),
        ("dram", MemorySpace::Dram),
        ("l1", MemorySpace::L1),
        ("dst", MemorySpace::Dst),
    ];
}

/// Whether shards stay with their core or pages are dealt to banks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryLayout {
    /// Each core holds its shard.
    Sharded,
    /// Pages are dealt to the banks in turn.
    Interleaved,
}

impl MemoryLayout {
    pub(crate) const NAMES: [(&'static str, MemoryLayout); 2] =
        [("sharded", MemoryLayout::Sharded), ("interleaved", MemoryLayout::Interleaved)];
}

/// The form with an affine map:
/// `#ttcore.metal_layout<(d0, d1) -> (d0, d1), undef, <3x2>, memref<18x32xf32, #ttcore.memory_space<l1>>>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MetalLayout {
    /// The tensor of `tensor<53x63xf32, ...>` around the layout, where there is one.
    pub tensor: Option<Tensor>,
    /// From the logical index to the collapsed index; one result for each grid dimension.
    pub map: AffineMap,
    /// Content of the padding.
    pub fill: Fill,
    /// Cores in each dimension of the virtual grid.
    pub grid: Vec<u64>,
    /// Shape of the memref: the shard of one core, in units of `element`.
    pub shard: Vec<u64>,
    /// What the memref consists of.
    pub element: Element,
    /// Where the memref lives.
    pub memory: MemorySpace,
}

impl MetalLayout {
    /// Checks ranks and sizes: map results, grid and memref agree; the map has a dimension for each of the tensor's.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    pub fn validate(&self) -> Result<()> {
        check_positive("grid", &self.grid)?;
        check_count("map results", self.map.results().len(), self.grid.len(), "one for each grid dimension")?;
        check_count("memref", self.shard.len(), self.grid.len(), "one for each grid dimension")?;
        if let Some(tensor) = &self.tensor {
            check_rank("tensor", tensor.shape.len())?;
            check_count("map", self.map.dims(), tensor.shape.len(), "one for each dimension of the tensor")?;
        }
        check_tileable("memref", self.element, self.shard.len())
    }
}

/// The constructor form:
/// `metal(shape=(2, 3, 64, 128), collapse=[(0, -1)], grid=(2, 4), tile=(32, 32), dtype=bfp_bf8, oob=undef, memory=l1)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MetalConstructor {
    /// Logical shape.
    pub shape: Vec<u64>,
    /// Half-open ranges of dimensions to collapse, in order; a negative bound counts from the rank.
    pub collapse: Vec<(i64, i64)>,
    /// Cores in each dimension of the virtual grid.
    pub grid: Vec<u64>,
    /// What a shard consists of.
    pub element: Element,
    /// Content of the padding.
    pub fill: Fill,
    /// Where the shards live.
    pub memory: MemorySpace,
}

impl MetalConstructor {
    /// Checks the intervals, and that the grid has one dimension for each group of collapsed dimensions.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    pub fn validate(&self) -> Result<()> {
        check_rank("shape", self.shape.len())?;
        let groups = self.groups()?;
        check_positive("grid", &self.grid)?;
        check_count("grid", self.grid.len(), groups.len(), "one for each collapsed dimension")?;
        check_tileable("grid", self.element, self.grid.len())
    }

    /// The dimensions that form each collapsed dimension; a dimension in no interval is alone.
    ///
    /// # Errors
    /// [`Error::Value`] for an interval that is out of bounds, reversed, or overlaps the one before it.
    pub fn groups(&self) -> Result<Vec<Range<usize>>> {
        let rank = self.shape.len();
        let mut groups = Vec::new();
        let mut next = 0;
        for interval in normalise("collapse", &self.collapse, rank)? {
            if interval.start < next {
                return Err(Error::value(
                    "collapse",
                    format!("an interval that starts at {}", interval.start),
                    format!("a start of {next} or more, behind the interval before it"),
                ));
            }
            groups.extend((next..interval.start).map(|d| d..d + 1));
            next = interval.end.max(next);
            if !interval.is_empty() {
                groups.push(interval);
            }
        }
        groups.extend((next..rank).map(|d| d..d + 1));
        Ok(groups)
    }
}

/// The form of today:
/// `tensor<2x4x1x1x!ttcore.tile<32x32, bf16>, #ttcore.metal_layout<logical_shape = 33x128, ...>>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MetalCurrent {
    /// Cores in each dimension: the first half of the tensor's shape.
    pub grid: Vec<u64>,
    /// Shard of one core, in units of `element`: the second half of the tensor's shape.
    pub shard: Vec<u64>,
    /// What a shard consists of.
    pub element: Element,
    /// Logical shape.
    pub logical_shape: Vec<u64>,
    /// What each dimension is rounded up to while dimensions are multiplied; one for each dimension.
    pub dim_alignments: Vec<u64>,
    /// Half-open ranges of dimensions, each collapsed to one; a negative bound counts from the rank.
    pub collapsed_intervals: Vec<(i64, i64)>,
    /// Where the shards live.
    pub memory: MemorySpace,
    /// Sharded or interleaved.
    pub memory_layout: MemoryLayout,
}

impl MetalCurrent {
    /// Checks alignments, intervals and ranks, as the verifier of tt-mlir does, and that the intervals cover every dimension.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    pub fn validate(&self) -> Result<()> {
        let rank = self.logical_shape.len();
        check_rank("logical_shape", rank)?;
        check_count(
            "dim_alignments",
            self.dim_alignments.len(),
            rank,
            "one for each dimension of logical_shape",
        )?;
        if self.dim_alignments.contains(&0) {
            return Err(Error::value(
                "dim_alignments",
                join(&self.dim_alignments),
                "alignments of 1 or more",
            ));
        }
        let groups = self.groups()?;
        check_positive("grid", &self.grid)?;
        check_count("shard", self.shard.len(), self.grid.len(), "as many as the grid has")?;
        // A matrix at least: rank 0 and 1 get leading dimensions of 32 rows (and columns).
        let physical = match rank {
            0 => 2,
            1 => groups.len() + 1,
            _ => groups.len(),
        };
        check_count("grid", self.grid.len(), physical, "one for each collapsed dimension")?;
        check_tileable("tensor", self.element, self.shard.len())
    }

    /// The dimensions of each interval, bounds counted from 0.
    ///
    /// # Errors
    /// [`Error::Value`] for an interval that is out of bounds or reversed, or where a dimension is left out or taken twice.
    pub fn groups(&self) -> Result<Vec<Range<usize>>> {
        let rank = self.logical_shape.len();
        let groups = normalise("collapsed_intervals", &self.collapsed_intervals, rank)?;
        let mut next = 0;
        for group in &groups {
            if group.start != next || group.is_empty() {
                return Err(Error::value(
                    "collapsed_intervals",
                    format!("[{}, {}]", group.start, group.end),
                    format!("an interval from {next}, so that every dimension is in exactly one"),
                ));
            }
            next = group.end;
        }
        if next != rank {
            return Err(Error::value(
                "collapsed_intervals",
                format!("intervals that end at {next}"),
                format!("{rank}, so that every dimension is in exactly one"),
            ));
        }
        Ok(groups)
    }
}

/// Intervals with bounds counted from 0; each inside `0..rank`.
fn normalise(what: &str, intervals: &[(i64, i64)], rank: usize) -> Result<Vec<Range<usize>>> {
    if intervals.len() > rank {
        return Err(Error::value(what, entries(intervals.len()), format!("at most {rank}, the rank")));
    }
    let bound = |name: &str, bound: i64| {
        let from_zero = if bound < 0 { i128::from(bound) + rank as i128 } else { bound.into() };
        usize::try_from(from_zero).ok().filter(|b| *b <= rank).ok_or_else(|| {
            Error::value(
                what,
                format!("an interval whose {name} is {bound}"),
                format!("-{rank} to {rank}, the rank"),
            )
        })
    };
    let one = |&(start, end): &(i64, i64)| {
        let (start, end) = (bound("start", start)?, bound("end", end)?);
        if start > end {
            return Err(Error::value(
                what,
                format!("start ({start}) and end ({end})"),
                "a start that does not exceed the end",
            ));
        }
        Ok(start..end)
    };
    intervals.iter().map(one).collect()
}

/// Tiles need two dimensions to lie in.
fn check_tileable(what: &str, element: Element, rank: usize) -> Result<()> {
    if matches!(element, Element::Tile { .. }) && rank < 2 {
        return Err(Error::value(what, format!("{rank} dimension"), "at least 2, since tiles have two"));
    }
    Ok(())
}
