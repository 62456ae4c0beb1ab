//! `ttnn_layout` of tt-mlir: the tensors of its TTNN dialect.
//!
//! The last two dimensions are rounded up to the tile, then the map collapses the tensor. What the memref counts of the
//! result depends on the memory layout; see [`TtnnLayout`].

use super::collapse;
use super::cores::{CoreRange, Orientation};
use super::cut::{self, Cut, Home, ceil_div, check_room, grid_times, in_elements, in_units};
use super::memory::{BufferType, Fill, MemorySpace};
use super::shard::check_dealt;
use super::tile::Element;
use crate::error::{Error, Result};
use crate::family::{
    Family, MAX_RANK, Placement, Tensor, check_count, check_positive, check_sizes, entries, join, volume,
};
use crate::layout::Layout;
use crate::layout::affine::{AffineExpr, AffineMap};
use crate::layout::index::index_of;

/// How a tensor is handed out to cores or banks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TensorMemoryLayout {
    /// Pages to banks in turn.
    Interleaved,
    /// Full rows, a part of them to each core.
    HeightSharded,
    /// Full columns, a part of them to each core.
    WidthSharded,
    /// Rows and columns, a block of them to each core of the grid.
    BlockSharded,
}

impl TensorMemoryLayout {
    pub(crate) const NAMES: [(&'static str, TensorMemoryLayout); 4] = [
        ("interleaved", TensorMemoryLayout::Interleaved),
        ("height_sharded", TensorMemoryLayout::HeightSharded),
        ("width_sharded", TensorMemoryLayout::WidthSharded),
        ("block_sharded", TensorMemoryLayout::BlockSharded),
    ];
}

/// `#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<dram>>, <interleaved>>`.
///
/// The memref is what the rules of the compiler make of the collapsed tensor, whose last two logical dimensions are
/// rounded up to the tile before the map applies:
/// - interleaved in DRAM and in host memory: all of it, on a grid of 1x1;
/// - interleaved in L1: one row of as many tiles (or elements) as each core of the grid gets;
/// - block sharded: its sizes divided by the grid, rounding up;
/// - height and width sharded: the same for a grid that has all of its cores in one column or one row.
///
/// Its element type is what is stored; that of the tensor is the logical one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TtnnLayout {
    /// The tensor of `tensor<64x128xbf16, ...>` around the layout, where there is one.
    pub tensor: Option<Tensor>,
    /// From the logical index to the collapsed index.
    pub map: AffineMap,
    /// Cores (or banks of DRAM, for shards there) in each dimension.
    pub grid: Vec<u64>,
    /// From the grid to (chip, y, x), as texts said from 2025-01 to 2026-04.
    pub grid_map: Option<AffineMap>,
    /// Shape of the memref in units of `element`.
    pub shard: Vec<u64>,
    /// What the memref consists of.
    pub element: Element,
    /// Where it lives.
    pub buffer_type: BufferType,
    /// How it is handed out; none in host memory.
    pub memory_layout: Option<TensorMemoryLayout>,
    /// The name of the mesh that the tensor lives on.
    pub mesh: Option<String>,
    /// The cores that shards go to, as texts say since 2026-05.
    pub core_ranges: Option<Vec<CoreRange>>,
    /// Whether the grid was chosen and must not be changed, as texts said from 2025-11 to 2026-05.
    pub exact_grid: Option<bool>,
    /// Whether the memref is a placeholder and the runtime chooses another one.
    pub ignore_physical_layout: bool,
}

impl TtnnLayout {
    /// A layout in DRAM, interleaved, with a memref of all of the collapsed tensor.
    ///
    /// # Errors
    /// Those of [`Family::validate`]; a map of another rank than the tensor; overflows.
    ///
    /// ```
    /// use tilewright::family::{Family, Placement, Tensor};
    /// use tilewright::family::tenstorrent::memory::BufferType;
    /// use tilewright::family::tenstorrent::tile::{Element, TileShape};
    /// use tilewright::family::tenstorrent::ttnn_layout::{TensorMemoryLayout, TtnnLayout};
    /// use tilewright::layout::affine::AffineMap;
    /// use tilewright::{DType, Format};
    ///
    /// let tensor = Tensor { shape: vec![64, 128], dtype: DType::Bf16 };
    /// let tiles = Element::Tile { shape: TileShape::T32X32, format: Format::Plain(DType::Bf16) };
    /// let dram = TtnnLayout::new(tensor.clone(), AffineMap::identity(2), tiles)?;
    /// assert_eq!(dram.shard, [2, 4]);
    /// let block = dram.with_shards(TensorMemoryLayout::BlockSharded, BufferType::L1, vec![2, 2])?;
    /// assert_eq!(block.shard, [1, 2]);
    /// assert_eq!(block.to_layout(&tensor, &Placement::default())?.buffers(), 4);
    /// # Ok::<(), tilewright::Error>(())
    /// ```
    pub fn new(tensor: Tensor, map: AffineMap, element: Element) -> Result<TtnnLayout> {
        let grid = vec![1; map.results().len().max(1)];
        let mut layout = TtnnLayout::unchecked(Some(tensor), map, grid, vec![], element);
        layout.memory_layout = Some(TensorMemoryLayout::Interleaved);
        layout.fit()?;
        Ok(layout)
    }

    /// A layout in DRAM with these parts and no other.
    pub(crate) fn unchecked(
        tensor: Option<Tensor>,
        map: AffineMap,
        grid: Vec<u64>,
        shard: Vec<u64>,
        element: Element,
    ) -> TtnnLayout {
        TtnnLayout {
            tensor,
            map,
            grid,
            grid_map: None,
            shard,
            element,
            buffer_type: BufferType::Dram,
            memory_layout: None,
            mesh: None,
            core_ranges: None,
            exact_grid: None,
            ignore_physical_layout: false,
        }
    }

    /// The same on a grid of cores or banks, with the memref that follows.
    ///
    /// # Errors
    /// Those of [`TtnnLayout::new`], and a grid of another rank than the collapsed tensor.
    pub fn with_shards(
        mut self,
        layout: TensorMemoryLayout,
        buffer_type: BufferType,
        grid: Vec<u64>,
    ) -> Result<TtnnLayout> {
        (self.memory_layout, self.buffer_type, self.grid) = (Some(layout), buffer_type, grid);
        self.fit()?;
        Ok(self)
    }

    /// Takes the memref that follows from the tensor.
    fn fit(&mut self) -> Result<()> {
        self.shard = vec![0; self.grid.len()];
        self.validate()?;
        let shape = self.tensor.as_ref().map_or(&[][..], |t| &t.shape);
        let map = self.map_of(shape)?;
        let collapsed = self.collapsed(&map, shape)?;
        let [shard, ..] = self.derived(&collapsed)?.memrefs;
        self.shard = shard;
        Ok(())
    }

    /// The map for a tensor of this shape: one of fewer dimensions has leading ones, as the compiler adds them.
    fn map_of(&self, shape: &[u64]) -> Result<AffineMap> {
        let (dims, rank) = (self.map.dims(), shape.len());
        if rank > dims || (rank < dims && rank > 1) {
            return Err(Error::Derived {
                what: "dimensions of the map",
                given: dims.to_string(),
                derived: rank.to_string(),
                rule: format!("the tensor {}", join(shape)),
            });
        }
        let index: Vec<AffineExpr> = (0..dims)
            .map(|d| (d + rank).checked_sub(dims).map_or(AffineExpr::constant(0), AffineExpr::dim))
            .collect();
        let compose = |r: &AffineExpr| r.compose(&index, usize::MAX);
        let results: Option<Vec<AffineExpr>> = self.map.results().iter().map(compose).collect();
        results.and_then(|r| AffineMap::new(rank, r)).ok_or_else(|| Error::overflow("the map"))
    }

    /// The collapsed shape of a tensor whose last two dimensions are rounded up to the tile.
    fn collapsed(&self, map: &AffineMap, shape: &[u64]) -> Result<Vec<u64>> {
        let mut padded = shape.to_vec();
        if let Some(tile) = self.element.tile() {
            for (n, to) in padded.iter_mut().rev().zip([tile.cols, tile.rows]) {
                *n = n.checked_next_multiple_of(to).ok_or_else(|| Error::overflow("the padded shape"))?;
            }
        }
        collapse::extents(map, &padded)
    }

    /// The grid as shards are cut: of as many dimensions as the collapsed tensor, and with all cores in one of them
    /// for height and width shards.
    fn shard_grid(&self, rank: usize) -> Result<Vec<u64>> {
        let cores = volume("the grid", self.grid.iter().copied())?;
        let mut grid = vec![1; rank];
        match self.memory_layout {
            Some(TensorMemoryLayout::HeightSharded) if rank > 1 => grid[rank - 2] = cores,
            Some(TensorMemoryLayout::WidthSharded) => grid[rank - 1] = cores,
            _ if cores == 1 => {}
            _ if self.grid.len() == rank => grid.clone_from(&self.grid),
            _ => {
                return Err(Error::Derived {
                    what: "dimensions of the grid",
                    given: self.grid.len().to_string(),
                    derived: rank.to_string(),
                    rule: "the results of the map".into(),
                });
            }
        }
        Ok(grid)
    }

    /// How a collapsed tensor is cut, and the memrefs that say so.
    fn derived(&self, collapsed: &[u64]) -> Result<Derived> {
        let grid = self.shard_grid(collapsed.len())?;
        let cores: u64 = grid.iter().product();
        let memref = in_units(&ceil_div(collapsed, &grid), self.element);
        // Shards of TTNN end where tiles do.
        let shard = in_elements(&memref, self.element)?;
        let in_l1 = self.buffer_type.space() == MemorySpace::L1;
        if self.memory_layout != Some(TensorMemoryLayout::Interleaved) || !in_l1 {
            return Ok(Derived { grid, shard, memrefs: [memref.clone(), memref] });
        }
        let whole = in_units(collapsed, self.element);
        let units = volume("the collapsed tensor", whole.iter().copied())?;
        let mut row = vec![1; collapsed.len()];
        if let Some(last) = row.last_mut() {
            *last = units.div_ceil(cores);
        }
        // Until 2026, and on one core, the memref was the block of each core.
        let memrefs = if cores == 1 { [memref, row] } else { [row, memref] };
        Ok(Derived { grid: vec![1; collapsed.len()], shard: in_elements(&whole, self.element)?, memrefs })
    }

    /// Where shards or pages go.
    fn home(&self, grid: &[u64], placement: &Placement<'_>) -> Result<Home> {
        match self.memory_layout {
            Some(TensorMemoryLayout::Interleaved) if self.buffer_type.space() == MemorySpace::L1 => {
                // One bank for each core of the grid.
                Ok(Home::Banks(volume("the grid", self.grid.iter().copied())?))
            }
            Some(TensorMemoryLayout::Interleaved) => {
                Ok(cut::banks(self.buffer_type.space(), placement.device))
            }
            _ => {
                let order = self.order(volume("the grid", grid.iter().copied())?)?;
                Ok(order.map_or(Home::Shards, Home::At))
            }
        }
    }

    /// For each shard its place among the cores by row and column, where the text says on which cores they are.
    fn order(&self, shards: u64) -> Result<Option<Vec<u32>>> {
        let places = match (&self.core_ranges, &self.grid_map) {
            (Some(ranges), _) => {
                // Texts of tests name fewer cores than the grid has; then nothing is known of the others.
                if ranges.iter().fold(0, |n: u64, r| n.saturating_add(r.cores())) != shards {
                    return Ok(None);
                }
                check_dealt(shards)?;
                let cores = |r: &CoreRange| {
                    let (&CoreRange { x, y, .. }, [ex, ey]) = (r, r.end());
                    (y..=ey).flat_map(move |y| (x..=ex).map(move |x| [0, y as i64, x as i64]))
                };
                ranges.iter().flat_map(cores).map(Vec::from).collect::<Vec<Vec<i64>>>()
            }
            (None, Some(map)) => {
                check_dealt(shards)?;
                let place = |n| {
                    let core = index_of(n, &self.grid).iter().map(|&i| i as i64).collect::<Vec<_>>();
                    map.eval(&core)
                };
                let places: Option<Vec<Vec<i64>>> = (0..shards).map(place).collect();
                places.ok_or_else(|| Error::overflow("the map of the grid"))?
            }
            (None, None) => return Ok(None),
        };
        let mut by_place: Vec<(Vec<i64>, u32)> = places.into_iter().zip(0..).collect();
        by_place.sort_unstable();
        let mut order = vec![0; by_place.len()];
        for (place, (_, shard)) in (0..).zip(by_place) {
            order[shard as usize] = place;
        }
        Ok(Some(order))
    }
}

/// How a collapsed tensor is cut.
struct Derived {
    grid: Vec<u64>,
    shard: Vec<u64>,
    /// The memrefs that say so: today's, and one of an earlier rule.
    memrefs: [Vec<u64>; 2],
}

impl Family for TtnnLayout {
    /// Checks sizes and ranks, and that core ranges have cores.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    fn validate(&self) -> Result<()> {
        check_positive("grid", &self.grid)?;
        check_sizes("memref", &self.shard)?;
        let results = self.map.results().len();
        if !(1..=MAX_RANK).contains(&results) {
            return Err(Error::value("map results", entries(results), format!("1 to {MAX_RANK}")));
        }
        if let Some(map) = &self.grid_map {
            check_count("grid map", map.dims(), self.grid.len(), "one for each grid dimension")?;
        }
        if let Some(tensor) = &self.tensor {
            check_sizes("tensor", &tensor.shape)?;
        }
        for range in self.core_ranges.iter().flatten() {
            range.check("core_ranges")?;
        }
        Ok(())
    }

    /// The layout of a tensor of this shape.
    ///
    /// Buffers are the cores of the grid, row-major; where `core_ranges` (or, earlier, the map of the grid) places as
    /// many cores as there are shards, they are listed by row and column of those. Interleaved pages (a tile, or a
    /// row of the collapsed tensor) go in turn to the banks of the device in DRAM (to one buffer where no device says
    /// how many banks there are), and to as many buffers as the grid has cores in L1. A map that sends two elements to
    /// one place, as in some tests of the compiler, gives a layout that is no destination.
    ///
    /// # Errors
    /// [`Error::Derived`] where the memref is not the one that follows, with both of them; [`Error::Value`] where the
    /// tensor is another; overflows.
    fn to_layout(&self, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout> {
        self.validate()?;
        super::check_tensor(self.tensor.as_ref(), tensor)?;
        let map = self.map_of(&tensor.shape)?;
        let collapsed = self.collapsed(&map, &tensor.shape)?;
        let Derived { grid, mut shard, memrefs } = self.derived(&collapsed)?;
        if !memrefs.contains(&self.shard) {
            if !placement.lenient || self.shard.len() != shard.len() {
                return Err(self.contradiction(&collapsed, &memrefs[0]));
            }
            shard = in_elements(&self.shard, self.element)?;
            check_room(&grid_times(&grid, &shard)?, &collapse::extents(&map, &tensor.shape)?)?;
        }
        let extents = grid_times(&grid, &shard)?;
        let mut cut = Cut::new(map, extents, &grid, shard, self.element);
        cut.home = self.home(&grid, placement)?;
        cut.layout(tensor, placement, Fill::Undef)
    }

    fn tensor(&self) -> Option<Tensor> {
        self.tensor.clone()
    }

    fn has_grid(&self) -> bool {
        true
    }
}

impl TtnnLayout {
    /// What the text says against what follows.
    fn contradiction(&self, collapsed: &[u64], derived: &[u64]) -> Error {
        let how = match self.memory_layout {
            None => "in one piece",
            Some(layout) => TensorMemoryLayout::NAMES.iter().find(|n| n.1 == layout).map_or("", |n| n.0),
        };
        let tiles = self.element.tile().map_or("".into(), |t| format!(", tiles {}x{}", t.rows, t.cols));
        let rule = format!(
            "the collapsed tensor {}, {how} on the grid {}{tiles}",
            join(collapsed),
            join(&self.grid)
        );
        Error::Derived { what: "memref shape", given: join(&self.shard), derived: join(derived), rule }
    }
}

/// How shards of any rank are handed to the cores of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShardDistribution {
    /// Shard after shard to the cores in turn.
    RoundRobin1d,
    /// Shard (i, j) to core (i, j).
    Grid2d,
}

impl ShardDistribution {
    pub(crate) const NAMES: [(&'static str, ShardDistribution); 2] =
        [("round_robin_1d", ShardDistribution::RoundRobin1d), ("grid_2d", ShardDistribution::Grid2d)];
}

/// `#ttnn.ttnn_nd_layout<<2x2>, memref<1x1x1x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<l1>>, <block_sharded>, <row_major>, <grid_2d>>`:
/// shards of any rank on a grid of cores.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TtnnNdLayout {
    /// The tensor of `tensor<1x32x32xbf16, ...>` around the layout, where there is one.
    pub tensor: Option<Tensor>,
    /// Rows and columns of cores.
    pub grid: Vec<u64>,
    /// Shape of a shard in units of `element`, one size for each dimension of the tensor.
    pub shard: Vec<u64>,
    /// What the memref consists of.
    pub element: Element,
    /// Where it lives.
    pub buffer_type: BufferType,
    /// Interleaved, or block sharded, as the compiler calls all others.
    pub memory_layout: TensorMemoryLayout,
    /// The order of the cores; along the rows where the text says nothing.
    pub orientation: Option<Orientation>,
    /// How shards are handed out; in turn where the text says nothing.
    pub distribution: Option<ShardDistribution>,
}

impl TtnnNdLayout {
    /// Shards in L1 that go to the cores in turn, along the rows.
    ///
    /// ```
    /// use tilewright::family::{Family, Placement, Tensor};
    /// use tilewright::family::tenstorrent::tile::{Element, TileShape};
    /// use tilewright::family::tenstorrent::ttnn_layout::TtnnNdLayout;
    /// use tilewright::{DType, Format};
    ///
    /// let tiles = Element::Tile { shape: TileShape::T32X32, format: Format::Plain(DType::Bf16) };
    /// let tensor = Tensor { shape: vec![3, 64, 64], dtype: DType::Bf16 };
    /// let layout = TtnnNdLayout::new(vec![2, 2], vec![1, 1, 2], tiles);
    /// assert_eq!(layout.to_layout(&tensor, &Placement::default())?.buffers(), 4);
    /// # Ok::<(), tilewright::Error>(())
    /// ```
    pub fn new(grid: Vec<u64>, shard: Vec<u64>, element: Element) -> TtnnNdLayout {
        TtnnNdLayout {
            tensor: None,
            grid,
            shard,
            element,
            buffer_type: BufferType::L1,
            memory_layout: TensorMemoryLayout::BlockSharded,
            orientation: None,
            distribution: None,
        }
    }

    /// Where so many shards along each dimension go.
    pub(super) fn home(&self, counts: &[u64], placement: &Placement<'_>) -> Result<Home> {
        if self.memory_layout == TensorMemoryLayout::Interleaved {
            return Ok(cut::banks(self.buffer_type.space(), placement.device));
        }
        let [rows, cols] = self.grid[..] else { return Ok(Home::Shards) };
        let column_major = self.orientation == Some(Orientation::ColMajor);
        if self.distribution == Some(ShardDistribution::Grid2d) {
            let Some(([i, j], leading)) = counts.split_last_chunk::<2>().map(|(l, last)| (*last, l)) else {
                return Err(Error::value("memref", join(&self.shard), "two dimensions, which <grid_2d> has"));
            };
            let (down, across) = if column_major { (j, i) } else { (i, j) };
            if leading.iter().any(|&n| n > 1) || down > rows || across > cols {
                let given = format!("{} shards", join(counts));
                let needed = format!("shards in two dimensions that fit the grid {}", join(&self.grid));
                return Err(Error::value("grid", given, needed));
            }
            if !column_major {
                return Ok(Home::Shards);
            }
            check_dealt(i * j)?;
            return Ok(Home::At((0..i * j).map(|s| (s % j * i + s / j) as u32).collect()));
        }
        let shards = volume("the number of shards", counts.iter().copied())?;
        let used = shards.min(volume("the grid", [rows, cols])?);
        if !column_major {
            return Ok(Home::Turn(used));
        }
        check_dealt(used)?;
        let mut by_place: Vec<(u64, u64, u32)> = (0..used).map(|k| (k % rows, k / rows, k as u32)).collect();
        by_place.sort_unstable();
        let mut order = vec![0; by_place.len()];
        for (place, (.., core)) in (0..).zip(by_place) {
            order[core as usize] = place;
        }
        Ok(Home::At(order))
    }
}

impl Family for TtnnNdLayout {
    /// Checks sizes and ranks.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    fn validate(&self) -> Result<()> {
        check_positive("grid", &self.grid)?;
        check_count("grid", self.grid.len(), 2, "its rows and columns")?;
        check_positive("memref", &self.shard)?;
        if let Some(tensor) = &self.tensor {
            check_sizes("tensor", &tensor.shape)?;
            check_count(
                "memref",
                self.shard.len(),
                tensor.shape.len(),
                "one for each dimension of the tensor",
            )?;
        }
        if self.element.tile().is_some() && self.shard.len() < 2 {
            return Err(Error::value("memref", join(&self.shard), "two dimensions, which tiles have"));
        }
        Ok(())
    }

    /// The layout of a tensor of this shape.
    ///
    /// The last two dimensions are rounded up to the tile and all of them are cut into shards, which are numbered
    /// row-major. Buffers are the cores that hold a shard, by row and column; all have room for as many shards as the
    /// fullest.
    ///
    /// # Errors
    /// [`Error::Value`] where the tensor is another or has no element, or where shards do not fit the grid; overflows.
    fn to_layout(&self, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout> {
        self.validate()?;
        super::check_tensor(self.tensor.as_ref(), tensor)?;
        check_positive("shape", &tensor.shape)?;
        check_count("memref", self.shard.len(), tensor.shape.len(), "one for each dimension of the tensor")?;
        let shard = in_elements(&self.shard, self.element)?;
        let counts = ceil_div(&tensor.shape, &shard);
        let map = AffineMap::identity(tensor.shape.len());
        let extents = grid_times(&counts, &shard)?;
        let mut cut = Cut::new(map, extents, &counts, shard, self.element);
        cut.home = self.home(&counts, placement)?;
        cut.layout(tensor, placement, Fill::Undef)
    }

    fn tensor(&self) -> Option<Tensor> {
        self.tensor.clone()
    }

    fn has_grid(&self) -> bool {
        true
    }
}
