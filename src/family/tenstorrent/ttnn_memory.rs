//! `memory_config` of tt-mlir: where a tensor of TTNN goes, which says nothing of what it holds.

use super::cores::{CoreRange, Orientation};
use super::cut::{Cut, ceil_div, grid_times, in_elements, in_units};
use super::memory::{BufferType, Fill};
use super::tile::{Element, TileShape};
use super::ttnn_layout::{ShardDistribution, TensorMemoryLayout, TtnnLayout, TtnnNdLayout};
use crate::dtype::Format;
use crate::error::{Error, Result};
use crate::family::{Family, Placement, Tensor, check_count, check_positive, join};
use crate::layout::Layout;
use crate::layout::affine::{AffineExpr, AffineMap};

/// Shards, and the cores that they go to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShardSpec {
    /// The cores, as rectangles that are taken one after another.
    pub cores: Vec<CoreRange>,
    /// Shape of a shard in elements: two dimensions, or those of the tensor where `distribution` says how such shards
    /// are handed out.
    pub shape: Vec<u64>,
    /// The order of the cores.
    pub orientation: Orientation,
    /// How shards of any rank are handed out; none for those of two dimensions.
    pub distribution: Option<ShardDistribution>,
}

/// `#ttnn.memory_config<#ttnn.buffer_type<l1>, <block_sharded>, #ttnn.shard_spec<..>>`.
///
/// Its layout of a tensor has tiles of 32x32 with the tensor's own element type, as TTNN has it unless a dtype and a
/// page layout are given.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TtnnMemoryConfig {
    /// The kind of memory.
    pub buffer_type: BufferType,
    /// How tensors are handed out; none in host memory.
    pub memory_layout: Option<TensorMemoryLayout>,
    /// The shards, where tensors are sharded.
    pub shards: Option<ShardSpec>,
}

impl TtnnMemoryConfig {
    /// A memory without shards.
    ///
    /// ```
    /// use tilewright::family::tenstorrent::memory::BufferType;
    /// use tilewright::family::tenstorrent::ttnn_layout::TensorMemoryLayout;
    /// use tilewright::family::tenstorrent::ttnn_memory::TtnnMemoryConfig;
    ///
    /// let dram = TtnnMemoryConfig::new(BufferType::Dram, Some(TensorMemoryLayout::Interleaved));
    /// assert_eq!(dram.to_string(), "#ttnn.memory_config<#ttnn.buffer_type<dram>, <interleaved>>");
    /// ```
    pub fn new(buffer_type: BufferType, memory_layout: Option<TensorMemoryLayout>) -> TtnnMemoryConfig {
        TtnnMemoryConfig { buffer_type, memory_layout, shards: None }
    }

    fn is_sharded(&self) -> bool {
        self.memory_layout.is_some_and(|l| l != TensorMemoryLayout::Interleaved)
    }

    /// The shards of a tensor whose leading dimensions are rows.
    fn sharded(
        &self,
        whole: TtnnLayout,
        spec: &ShardSpec,
        tensor: &Tensor,
        placement: &Placement<'_>,
    ) -> Result<Layout> {
        let nd = spec.nd(whole.element, self.memory_layout)?;
        if spec.distribution.is_some() {
            return nd.to_layout(tensor, placement);
        }
        let collapsed = in_elements(&whole.shard, whole.element)?;
        let full = match self.memory_layout {
            Some(TensorMemoryLayout::HeightSharded) => Some((1, "width")),
            Some(TensorMemoryLayout::WidthSharded) => Some((0, "height")),
            _ => None,
        };
        if let Some((r, name)) = full.filter(|f| spec.shape[f.0] != collapsed[f.0]) {
            let needed = format!("{}, the {name} of the collapsed tensor", collapsed[r]);
            return Err(Error::value(format!("shard {name}"), spec.shape[r], needed));
        }
        let counts = ceil_div(&collapsed, &spec.shape);
        let (shards, cores) = (counts.iter().product::<u64>(), nd.grid.iter().product::<u64>());
        if shards > cores {
            return Err(Error::value("number of shards", shards, format!("at most {cores}, the cores")));
        }
        let extents = grid_times(&counts, &spec.shape)?;
        let mut cut = Cut::new(whole.map, extents, &counts, spec.shape.clone(), whole.element);
        cut.home = nd.home(&counts, placement)?;
        cut.layout(tensor, placement, Fill::Undef)
    }
}

impl ShardSpec {
    /// The same as a layout of shards of any rank, in two dimensions for blocks.
    fn nd(&self, element: Element, layout: Option<TensorMemoryLayout>) -> Result<TtnnNdLayout> {
        let cores = self.cores.iter().fold(0, |n: u64, r| n.saturating_add(r.cores()));
        let is_block = self.distribution == Some(ShardDistribution::Grid2d)
            || (self.distribution.is_none() && layout == Some(TensorMemoryLayout::BlockSharded));
        let grid = match self.cores[..] {
            [one] => vec![one.rows, one.columns],
            _ if is_block => {
                let given = format!("{} rectangles of cores", self.cores.len());
                return Err(Error::value(
                    "core_range_set",
                    given,
                    "one, whose rows and columns are those of blocks",
                ));
            }
            _ => vec![1, cores],
        };
        let mut nd = TtnnNdLayout::new(grid, in_units(&self.shape, element), element);
        nd.orientation = Some(self.orientation);
        nd.distribution = is_block.then_some(ShardDistribution::Grid2d);
        Ok(nd)
    }
}

/// From the logical index to rows and columns: leading dimensions are rows, the last but one rounded up to the tile.
fn rows_and_columns(shape: &[u64], rows_of_tile: u64) -> Option<AffineMap> {
    let rank = shape.len();
    let mut rows = AffineExpr::constant(0);
    let mut stride = 1_i64;
    for d in (0..rank.saturating_sub(1)).rev() {
        rows = AffineExpr::dim(d).times(stride)?.plus(rows)?;
        let size = if d + 2 == rank { shape[d].checked_next_multiple_of(rows_of_tile)? } else { shape[d] };
        stride = stride.checked_mul(i64::try_from(size).ok()?)?;
    }
    let column = if rank == 0 { AffineExpr::constant(0) } else { AffineExpr::dim(rank - 1) };
    AffineMap::new(rank, vec![rows, column])
}

impl Family for TtnnMemoryConfig {
    /// Checks sizes, and that there are shards where the memory layout is sharded, and only there.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    fn validate(&self) -> Result<()> {
        let Some(spec) = &self.shards else { return Ok(()) };
        if !self.is_sharded() {
            return Err(Error::value("shard_spec", "one", "none, since the memory layout is not sharded"));
        }
        check_positive("shard", &spec.shape)?;
        if spec.distribution.is_none() {
            check_count("shard", spec.shape.len(), 2, "its rows and columns")?;
        }
        let whole = |n: &u64| n.is_multiple_of(TileShape::T32X32.height());
        if spec.shape.len() < 2 || !spec.shape.iter().rev().take(2).all(whole) {
            return Err(Error::value("shard", join(&spec.shape), "multiples of the tile, 32x32"));
        }
        if spec.cores.is_empty() {
            return Err(Error::value("core_range_set", "no core", "at least one"));
        }
        spec.cores.iter().try_for_each(|range| range.check("core_range_set"))
    }

    /// The layout of a tensor of this shape, in tiles of its own element type.
    ///
    /// # Errors
    /// [`Error::Value`] where shards are not said, or fit neither tensor nor cores; overflows.
    fn to_layout(&self, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout> {
        self.validate()?;
        check_positive("shape", &tensor.shape)?;
        let element = Element::Tile { shape: TileShape::T32X32, format: Format::Plain(tensor.dtype) };
        let map = rows_and_columns(&tensor.shape, TileShape::T32X32.height());
        let map = map.ok_or_else(|| Error::overflow("the collapsed shape"))?;
        let mut whole = TtnnLayout::new(tensor.clone(), map, element)?;
        (whole.buffer_type, whole.memory_layout) = (self.buffer_type, self.memory_layout);
        match &self.shards {
            Some(spec) => self.sharded(whole, spec, tensor, placement),
            None if self.is_sharded() => {
                let needed = "one: without it the runtime chooses the shards";
                Err(Error::value("shard_spec", "none", needed))
            }
            None => whole.to_layout(tensor, placement),
        }
    }

    fn has_grid(&self) -> bool {
        true
    }
}
