//! `metal_layout` of tt-mlir, in its three forms: the affine one, its constructor, and the one of today.

use std::ops::Range;

use super::collapse;
use super::cut::{Cut, ceil_div, check_room, grid_times, home, in_elements, in_units};
use super::memory::{Fill, MemoryLayout, MemorySpace};
use super::tile::Element;
use crate::dtype::Format;
use crate::error::{Error, Result};
use crate::family::{
    Family, Placement, Tensor, check_count, check_positive, check_shape, check_sizes, entries, join,
};
use crate::layout::Layout;
use crate::layout::affine::{AffineExpr, AffineMap};

/// The form with an affine map:
/// `#ttcore.metal_layout<(d0, d1) -> (d0, d1), undef, <3x2>, memref<18x32xf32, #ttcore.memory_space<l1>>>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
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
    /// Sharded, as all are whose text says nothing, or interleaved, as of 2024-12.
    pub memory_layout: MemoryLayout,
}

impl MetalLayout {
    /// A layout with a memref of `shard` for each core of `grid`: no tensor, undefined padding, sharded in L1.
    ///
    /// ```
    /// use tilewright::family::{Family, Placement, Tensor};
    /// use tilewright::family::tenstorrent::metal::MetalLayout;
    /// use tilewright::family::tenstorrent::tile::{Element, TileShape};
    /// use tilewright::layout::affine::AffineMap;
    /// use tilewright::{DType, Format};
    ///
    /// let tensor = Tensor { shape: vec![53, 63], dtype: DType::F32 };
    /// let tiles = Element::Tile { shape: TileShape::T32X32, format: Format::Plain(DType::Bf16) };
    /// let metal = MetalLayout::new(AffineMap::identity(2), vec![3, 2], vec![1, 1], tiles);
    /// assert_eq!(metal.to_layout(&tensor, &Placement::default())?.buffers(), 6);
    /// # Ok::<(), tilewright::Error>(())
    /// ```
    pub fn new(map: AffineMap, grid: Vec<u64>, shard: Vec<u64>, element: Element) -> MetalLayout {
        MetalLayout {
            tensor: None,
            map,
            fill: Fill::Undef,
            grid,
            shard,
            element,
            memory: MemorySpace::L1,
            memory_layout: MemoryLayout::Sharded,
        }
    }

    /// The layout of a tensor, with the memref that follows from it.
    ///
    /// # Errors
    /// Those of [`Family::validate`]; a map of another rank than the tensor, or with values below 0; overflows.
    ///
    /// ```
    /// use tilewright::family::Tensor;
    /// use tilewright::family::tenstorrent::metal::MetalLayout;
    /// use tilewright::family::tenstorrent::tile::Element;
    /// use tilewright::layout::affine::AffineMap;
    /// use tilewright::DType;
    ///
    /// let tensor = Tensor { shape: vec![53, 63], dtype: DType::F32 };
    /// let element = Element::Scalar(DType::F32);
    /// let metal = MetalLayout::of(tensor, AffineMap::identity(2), vec![3, 2], element)?;
    /// assert_eq!(metal.shard, [18, 32]);
    /// # Ok::<(), tilewright::Error>(())
    /// ```
    pub fn of(tensor: Tensor, map: AffineMap, grid: Vec<u64>, element: Element) -> Result<MetalLayout> {
        check_count("map", map.dims(), tensor.shape.len(), "one for each dimension of the tensor")?;
        let shard = vec![0; grid.len()];
        let mut metal = MetalLayout { tensor: Some(tensor), ..MetalLayout::new(map, grid, shard, element) };
        metal.validate()?;
        let shape = metal.tensor.as_ref().map_or(&[][..], |t| &t.shape);
        let extents = collapse::extents(&metal.map, shape)?;
        metal.shard = in_units(&ceil_div(&extents, &metal.grid), element);
        Ok(metal)
    }
}

/// The constructor form:
/// `metal(shape=(2, 3, 64, 128), collapse=[(0, -1)], grid=(2, 4), tile=(32, 32), dtype=bfp_bf8, oob=undef, memory=l1)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
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
    /// All dimensions but the last collapsed to one, on a grid of cores, in L1 with undefined padding.
    ///
    /// ```
    /// use tilewright::family::{Family, Placement, Tensor};
    /// use tilewright::family::tenstorrent::metal::MetalConstructor;
    /// use tilewright::family::tenstorrent::tile::Element;
    /// use tilewright::DType;
    ///
    /// let metal = MetalConstructor::new(vec![2, 3, 64, 128], vec![2, 4], Element::Scalar(DType::F32));
    /// let tensor = Tensor { shape: vec![2, 3, 64, 128], dtype: DType::F32 };
    /// let layout = metal.to_layout(&tensor, &Placement::default())?;
    /// assert_eq!(layout.geometry().shard_shape, [192, 32]);
    /// # Ok::<(), tilewright::Error>(())
    /// ```
    pub fn new(shape: Vec<u64>, grid: Vec<u64>, element: Element) -> MetalConstructor {
        let collapse = vec![(0, -1)];
        MetalConstructor { shape, collapse, grid, element, fill: Fill::Undef, memory: MemorySpace::L1 }
    }

    /// From the logical index to the collapsed index, and the shape that collapsed indices lie in.
    ///
    /// # Errors
    /// Those of [`MetalConstructor::groups`]; overflows.
    pub fn physical(&self) -> Result<(AffineMap, Vec<u64>)> {
        collapsed(&self.groups()?, &self.shape, &vec![1; self.shape.len()])
    }

    /// The dimensions that form each collapsed dimension; a dimension in no interval is alone.
    ///
    /// # Errors
    /// [`Error::Value`] for an interval that is out of bounds, reversed, or overlaps the one before it.
    pub fn groups(&self) -> Result<Vec<Range<usize>>> {
        groups("collapse", &self.collapse, self.shape.len())
    }
}

/// The form of today:
/// `tensor<2x4x1x1x!ttcore.tile<32x32, bf16>, #ttcore.metal_layout<logical_shape = 33x128, ...>>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
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
    /// Sharded, as all are whose text says nothing, or interleaved.
    pub memory_layout: MemoryLayout,
    /// Content of the padding, which the text said until 2026-05.
    pub fill: Fill,
    /// From the index in grid and shard to the one in memory, where the tensor is a view, as of 2025-08 to 2026-02.
    pub index_map: Option<AffineMap>,
}

impl MetalCurrent {
    /// All dimensions but the last collapsed to one, the last two aligned to 32, sharded in L1.
    pub fn new(logical_shape: Vec<u64>, grid: Vec<u64>, shard: Vec<u64>, element: Element) -> MetalCurrent {
        let rank = logical_shape.len();
        MetalCurrent {
            shard,
            grid,
            element,
            dim_alignments: (0..rank).map(|d| if d + 2 < rank { 1 } else { 32 }).collect(),
            collapsed_intervals: if rank < 2 { vec![] } else { vec![(0, -1)] },
            logical_shape,
            memory: MemorySpace::L1,
            memory_layout: MemoryLayout::Sharded,
            fill: Fill::Undef,
            index_map: None,
        }
    }

    /// The same with the least shard that holds the tensor.
    ///
    /// # Errors
    /// Those of [`MetalCurrent::fitted`].
    ///
    /// ```
    /// use tilewright::family::tenstorrent::metal::MetalCurrent;
    /// use tilewright::family::tenstorrent::tile::{Element, TileShape};
    /// use tilewright::{DType, Format};
    ///
    /// let tiles = Element::Tile { shape: TileShape::T32X32, format: Format::Plain(DType::Bf16) };
    /// let mut metal = MetalCurrent::of(vec![3, 50, 128], vec![2, 4], tiles)?;
    /// assert_eq!(metal.shard, [3, 1]);
    /// metal.collapsed_intervals = vec![];
    /// metal.grid = vec![3, 2, 4];
    /// assert_eq!(metal.fitted()?.shard, [1, 1, 1]);
    /// # Ok::<(), tilewright::Error>(())
    /// ```
    pub fn of(logical_shape: Vec<u64>, grid: Vec<u64>, element: Element) -> Result<MetalCurrent> {
        MetalCurrent::new(logical_shape, grid, vec![], element).fitted()
    }

    /// The same with the least shard that holds the aligned tensor on the grid.
    ///
    /// # Errors
    /// Those of [`Family::validate`]; overflows.
    pub fn fitted(mut self) -> Result<MetalCurrent> {
        self.shard = vec![0; self.grid.len()];
        self.validate()?;
        let (_, physical) = self.physical()?;
        self.shard = in_units(&ceil_div(&physical, &self.grid), self.element);
        Ok(self)
    }

    /// From the logical index to the collapsed index, and the aligned shape that collapsed indices lie in.
    ///
    /// # Errors
    /// Those of [`MetalCurrent::groups`]; overflows.
    pub fn physical(&self) -> Result<(AffineMap, Vec<u64>)> {
        self.physical_with(&self.dim_alignments)
    }

    fn physical_with(&self, alignments: &[u64]) -> Result<(AffineMap, Vec<u64>)> {
        let (map, mut shape) = collapsed(&self.groups()?, &self.logical_shape, alignments)?;
        if map.dims() >= 2 {
            return Ok((map, shape));
        }
        let mut results = map.results().to_vec();
        while results.len() < 2 {
            results.insert(0, AffineExpr::constant(0));
            shape.insert(0, 32);
        }
        let map = AffineMap::new(map.dims(), results).ok_or_else(|| Error::overflow("the map"))?;
        Ok((map, shape))
    }

    /// The dimensions that form each collapsed dimension; a dimension in no interval is alone.
    ///
    /// # Errors
    /// [`Error::Value`] for an interval that is out of bounds, reversed, or overlaps the one before it.
    pub fn groups(&self) -> Result<Vec<Range<usize>>> {
        groups("collapsed_intervals", &self.collapsed_intervals, self.logical_shape.len())
    }
}

/// The dimensions that form each collapsed dimension, in order; a dimension in no interval is alone.
fn groups(what: &str, intervals: &[(i64, i64)], rank: usize) -> Result<Vec<Range<usize>>> {
    let mut groups = Vec::new();
    let mut next = 0;
    for interval in normalise(what, intervals, rank)? {
        if interval.start < next {
            return Err(Error::value(
                what,
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

/// The map that collapses each group of dimensions, and the shape it leads to. The stride of a dimension is the
/// aligned size of what is inside of it.
fn collapsed(groups: &[Range<usize>], shape: &[u64], alignments: &[u64]) -> Result<(AffineMap, Vec<u64>)> {
    let overflow = || Error::overflow("the collapsed shape");
    let mut results = Vec::with_capacity(groups.len());
    let mut sizes = Vec::with_capacity(groups.len());
    for group in groups {
        let mut size = 1_u64;
        let mut terms = Vec::with_capacity(group.len());
        for d in group.clone().rev() {
            let stride = i64::try_from(size).map_err(|_| overflow())?;
            terms.push(if stride == 1 { Some(AffineExpr::dim(d)) } else { AffineExpr::dim(d).times(stride) });
            let product = size.checked_mul(shape[d]).ok_or_else(overflow)?;
            size = product.checked_next_multiple_of(alignments[d]).ok_or_else(overflow)?;
        }
        let sum = terms.into_iter().rev().reduce(|a, b| a?.plus(b?)).flatten();
        results.push(sum.ok_or_else(overflow)?);
        sizes.push(size);
    }
    let map = AffineMap::new(shape.len(), results).ok_or_else(overflow)?;
    Ok((map, sizes))
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

/// Tiles need two dimensions to lie in, and a format that tt-mlir has.
fn check_tileable(what: &str, element: Element, rank: usize) -> Result<()> {
    match element {
        Element::Tile { format: format @ (Format::Sen169 | Format::TtE4M3), .. } => {
            Err(Error::value(what, format!("tiles of {format}"), "a format that tt-mlir has"))
        }
        Element::Tile { .. } if rank < 2 => {
            Err(Error::value(what, entries(rank), "at least 2, since tiles have two dimensions"))
        }
        _ => Ok(()),
    }
}

impl Family for MetalLayout {
    /// Checks ranks and sizes: map results, grid and memref agree; the map has a dimension for each of the tensor's.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    fn validate(&self) -> Result<()> {
        check_positive("grid", &self.grid)?;
        check_count("map results", self.map.results().len(), self.grid.len(), "one for each grid dimension")?;
        check_sizes("memref", &self.shard)?;
        check_count("memref", self.shard.len(), self.grid.len(), "one for each grid dimension")?;
        if let Some(tensor) = &self.tensor {
            check_sizes("tensor", &tensor.shape)?;
            check_count("map", self.map.dims(), tensor.shape.len(), "one for each dimension of the tensor")?;
        }
        check_tileable("memref", self.element, self.shard.len())
    }

    /// The layout of a tensor of this shape.
    ///
    /// The extent of a result is its value at the last index + 1, divided by the grid and then by tiles, rounding
    /// up each time. Buffers are the cores of the grid, row-major, or as `placement.device` places them.
    ///
    /// # Errors
    /// [`Error::Derived`] where the memref is not the one that follows; [`Error::Collision`] where the map is not
    /// injective; [`Error::Value`] where the tensor is another or the device's grid too small; overflows.
    fn to_layout(&self, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout> {
        self.validate()?;
        super::check_tensor(self.tensor.as_ref(), tensor)?;
        let rank = tensor.shape.len();
        check_count("map", self.map.dims(), rank, "one for each dimension of the tensor")?;
        let extents = collapse::extents(&self.map, &tensor.shape)?;
        let mut shard = ceil_div(&extents, &self.grid);
        let derived = in_units(&shard, self.element);
        if derived != self.shard && placement.lenient {
            shard = in_elements(&self.shard, self.element)?;
            check_room(&grid_times(&self.grid, &shard)?, &extents)?;
        } else if derived != self.shard {
            let tiles = self.element.tile().map_or("".into(), |t| format!(", tiles {}x{}", t.rows, t.cols));
            return Err(Error::Derived {
                what: "memref shape",
                given: join(&self.shard),
                derived: join(&derived),
                rule: format!("the extent {} over the grid {}{tiles}", join(&extents), join(&self.grid)),
            });
        }
        let mut cut = Cut::new(self.map.clone(), extents, &self.grid, shard, self.element);
        cut.home = home(self.memory_layout, self.memory, &self.grid, placement.device)?;
        let layout = cut.layout(tensor, placement, self.fill)?;
        layout.check_destination()?;
        Ok(layout)
    }

    fn tensor(&self) -> Option<Tensor> {
        self.tensor.clone()
    }

    fn has_grid(&self) -> bool {
        true
    }
}

impl Family for MetalConstructor {
    /// Checks the intervals, and that the grid has one dimension for each group of collapsed dimensions.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    fn validate(&self) -> Result<()> {
        check_sizes("shape", &self.shape)?;
        let groups = self.groups()?;
        check_positive("grid", &self.grid)?;
        check_count("grid", self.grid.len(), groups.len(), "one for each collapsed dimension")?;
        check_tileable("grid", self.element, self.grid.len())
    }

    /// The layout of a tensor of this shape: dimensions of an interval are collapsed with natural strides, then as
    /// [`MetalLayout::to_layout`].
    ///
    /// # Errors
    /// [`Error::Value`] where the tensor has another shape, or the device's grid is too small; overflows.
    fn to_layout(&self, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout> {
        self.validate()?;
        check_shape("shape", &self.shape, tensor)?;
        let (map, extents) = self.physical()?;
        let shard = ceil_div(&extents, &self.grid);
        let mut cut = Cut::new(map, extents, &self.grid, shard, self.element);
        cut.home = home(MemoryLayout::Sharded, self.memory, &self.grid, placement.device)?;
        let layout = cut.layout(tensor, placement, self.fill)?;
        layout.check_destination()?;
        Ok(layout)
    }

    fn has_grid(&self) -> bool {
        true
    }
}

impl Family for MetalCurrent {
    /// Checks alignments, intervals and ranks, as the verifier of tt-mlir does.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    fn validate(&self) -> Result<()> {
        let rank = self.logical_shape.len();
        check_sizes("logical_shape", &self.logical_shape)?;
        check_count(
            "dim_alignments",
            self.dim_alignments.len(),
            rank,
            "one for each dimension of logical_shape",
        )?;
        check_sizes("dim_alignments", &self.dim_alignments)?;
        if self.dim_alignments.contains(&0) {
            return Err(Error::value(
                "dim_alignments",
                join(&self.dim_alignments),
                "alignments of 1 or more",
            ));
        }
        let groups = self.groups()?;
        check_positive("grid", &self.grid)?;
        check_sizes("shard", &self.shard)?;
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

    /// The layout of a tensor of this shape.
    ///
    /// Dimensions of an interval are rounded up to their alignment while they are multiplied, innermost first; a
    /// tensor of rank 1 is one row of a matrix of 32 rows, one of rank 0 a corner of a matrix of 32 x 32. Where grid times
    /// shard is more than that, the surplus is padding. Interleaved pages (a tile, or a row of a shard) go to the
    /// banks of the device in turn, and to one buffer where no device says how many banks there are.
    ///
    /// # Errors
    /// [`Error::Derived`] where grid times shard has no room for the shape that follows; [`Error::Value`] where the
    /// tensor has another shape, or the device's grid is too small; overflows.
    fn to_layout(&self, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout> {
        self.validate()?;
        check_shape("logical_shape", &self.logical_shape, tensor)?;
        let (mut map, physical) = self.physical()?;
        let shard = in_elements(&self.shard, self.element)?;
        let given = grid_times(&self.grid, &shard)?;
        // More is padding: the compiler makes shards that end at tiles.
        if placement.lenient {
            if check_room(&given, &collapse::extents(&map, &tensor.shape)?).is_err() {
                // What is written may be the tensor without any alignment.
                map = self.physical_with(&vec![1; self.logical_shape.len()])?.0;
                check_room(&given, &collapse::extents(&map, &tensor.shape)?)?;
            }
        } else if given.iter().zip(&physical).any(|(given, needed)| given < needed) {
            let (shape, alignments) = (join(&self.logical_shape), join(&self.dim_alignments));
            return Err(Error::Derived {
                what: "grid times shard",
                given: join(&given),
                derived: join(&physical),
                rule: format!("logical_shape {shape} with dim_alignments {alignments}"),
            });
        }
        let mut cut = Cut::new(map, given, &self.grid, shard, self.element);
        if let Some(view) = &self.index_map {
            cut = cut.behind("index_map", view)?;
        }
        cut.home = home(self.memory_layout, self.memory, &cut.grid, placement.device)?;
        let layout = cut.layout(tensor, placement, self.fill)?;
        layout.check_destination()?;
        Ok(layout)
    }

    fn tensor(&self) -> Option<Tensor> {
        Some(Tensor { shape: self.logical_shape.clone(), dtype: self.element.dtype()? })
    }

    fn has_grid(&self) -> bool {
        true
    }
}
