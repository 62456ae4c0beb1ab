//! TTNN tensors: element format, page layout and memory configuration.

use super::shard::{Buffers, Sharding};
use super::tile::TileShape;
use crate::dtype::{DType, Format};
use crate::error::{Error, Result};
use crate::family::{Family, Placement, Tensor, check_count, check_positive, check_sizes, join, volume};
use crate::layout::axis::Axis;
use crate::layout::piecewise::Piecewise;
use crate::layout::{Geometry, Layout, Tile};

/// TTNN's names of plain element types.
pub(crate) const PLAIN_NAMES: [(&str, DType); 6] = [
    ("bfloat16", DType::Bf16),
    ("float32", DType::F32),
    ("uint8", DType::U8),
    ("uint16", DType::U16),
    ("uint32", DType::U32),
    ("int32", DType::I32),
];

/// `ttnn(dtype=bfloat8_b, layout=TILE, tile=(32, 32))`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ttnn {
    /// What the pages hold.
    pub dtype: Format,
    /// Rows or tiles.
    pub layout: PageLayout,
    /// Content of the padding; 0 where `None`.
    pub pad_value: Option<PadValue>,
    /// Where the pages go.
    pub memory: Memory,
}

/// What a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PageLayout {
    /// A row, or the part of it in a shard.
    RowMajor,
    /// A tile.
    Tile {
        /// Its rows and columns.
        shape: TileShape,
        /// Whether the transposed tile is stored.
        transpose: bool,
    },
}

/// Where the pages go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Memory {
    /// One buffer, as on the host.
    Single,
    /// Page `p` in bank `p mod banks`, at `p div banks` times the page size rounded up to `alignment` bytes.
    Interleaved {
        /// Number of banks.
        banks: u64,
        /// Alignment of a page, in bytes.
        alignment: u64,
    },
    /// Shards of the tensor on the cores of a grid.
    Sharded {
        /// How shards are cut and dealt.
        scheme: Scheme,
        /// Rows and columns of cores.
        grid: [u64; 2],
        /// Shape of a shard in elements: two dimensions, any number for [`Scheme::Nd`].
        shard: Vec<u64>,
        /// Order of the cores.
        orientation: Orientation,
    },
}

/// How shards are cut and dealt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Full rows, dealt to the cores in turn.
    Height,
    /// Full columns, dealt to the cores in turn.
    Width,
    /// Shard (i, j) on core (i, j).
    Block,
    /// Shards of any rank, dealt to the cores in turn.
    Nd,
}

impl Scheme {
    pub(crate) const NAMES: [(&'static str, Scheme); 4] = [
        ("HEIGHT_SHARDED", Scheme::Height),
        ("WIDTH_SHARDED", Scheme::Width),
        ("BLOCK_SHARDED", Scheme::Block),
        ("ND_SHARDED", Scheme::Nd),
    ];
}

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

/// A number to pad with, compared bit by bit so that descriptors can be keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PadValue(u64);

impl PadValue {
    /// The number; every NaN is the same one.
    pub fn new(value: f64) -> PadValue {
        PadValue(if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() })
    }

    /// The number.
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl Ttnn {
    /// A shard of a tiled tensor ends at tile boundaries.
    fn check_whole_tiles(&self, shard: &[u64]) -> Result<()> {
        let PageLayout::Tile { shape, .. } = self.layout else { return Ok(()) };
        let whole = |h: u64, w: u64| h.is_multiple_of(shape.height()) && w.is_multiple_of(shape.width());
        if !matches!(shard, [.., height, width] if whole(*height, *width)) {
            return Err(Error::value(
                "shard",
                join(shard),
                format!("multiples of the tile, {}x{}", shape.height(), shape.width()),
            ));
        }
        Ok(())
    }

    /// The tile, where pages are tiles.
    fn tile(&self) -> Option<Tile> {
        match self.layout {
            PageLayout::RowMajor => None,
            PageLayout::Tile { shape, transpose } => Some(shape.tile(transpose)),
        }
    }

    /// The padded tensor, as many dimensions as shards have: leading ones are multiplied into the first.
    fn physical(&self, shape: &[u64]) -> Result<Physical> {
        let missing = 2_usize.saturating_sub(shape.len());
        let mut padded = [vec![1; missing], shape.to_vec()].concat();
        let (rows, cols) = match (self.tile(), &self.memory) {
            (Some(tile), _) => (tile.rows, tile.cols),
            (None, Memory::Sharded { shard, .. }) => (1, shard.last().copied().unwrap_or(1)),
            (None, _) => (1, 1),
        };
        if let [.., height, width] = padded.as_mut_slice() {
            for (n, to) in [(height, rows), (width, cols)] {
                *n = n.checked_next_multiple_of(to).ok_or_else(|| Error::overflow("the padded shape"))?;
            }
        }
        let rank = match &self.memory {
            Memory::Sharded { shard, .. } if shard.len() > padded.len() => {
                let needed = format!("at most {} dimensions, as the tensor has", padded.len());
                return Err(Error::value("shard", join(shard), needed));
            }
            Memory::Sharded { shard, .. } => shard.len(),
            _ => 2,
        };
        let folded = padded.len() - rank + 1;
        let first = volume("the padded shape", padded[..folded].iter().copied())?;
        let shape = [&[first], &padded[folded..]].concat();
        Ok(Physical { shape, padded, folded, missing })
    }

    /// How a physical tensor is cut and dealt, and what to tell a person.
    fn place(&self, physical: &[u64]) -> Result<(Sharding, Geometry)> {
        let cut = |shard: &[u64]| -> Result<Sharding> {
            let grid = physical.iter().zip(shard).map(|(n, s)| n.div_ceil(*s)).collect();
            Sharding::new(grid, shard.to_vec(), self.dtype, self.tile())
        };
        let physical_shape = physical.to_vec();
        match &self.memory {
            Memory::Single => {
                let sharding = cut(physical)?;
                let geometry = Geometry { grid: vec![], ..sharding.geometry(physical_shape) };
                Ok((sharding, geometry))
            }
            Memory::Interleaved { banks, alignment } => {
                let page = self.tile().map_or([1, physical[1]], |t| [t.rows, t.cols]);
                let mut sharding = cut(&page)?;
                let pitch = sharding.bytes().checked_next_multiple_of(*alignment);
                let pitch = pitch.ok_or_else(|| Error::overflow("the aligned size of a page"))?;
                sharding.deal(Buffers::InTurn(*banks), pitch)?;
                let geometry = Geometry { grid: vec![], ..sharding.geometry(physical_shape) };
                Ok((sharding, geometry))
            }
            Memory::Sharded { scheme, grid, shard, orientation } => {
                let mut sharding = cut(shard)?;
                let geometry = sharding.geometry(physical_shape);
                check_fit(*scheme, *grid, shard, *orientation, physical, &geometry.grid)?;
                let pitch = sharding.bytes();
                sharding.deal(cores(*scheme, *grid, *orientation, &geometry.grid)?, pitch)?;
                Ok((sharding, geometry))
            }
        }
    }
}

/// A padded tensor.
struct Physical {
    /// The shape that shards are cut from.
    shape: Vec<u64>,
    /// The padded shape of the tensor, at least two dimensions.
    padded: Vec<u64>,
    /// How many dimensions of it are multiplied into the first of `shape`.
    folded: usize,
    /// How many dimensions of it the logical shape does not have.
    missing: usize,
}

impl Physical {
    /// One axis for each physical dimension.
    fn axes(&self, shape: &[u64], sharding: &Sharding) -> Result<Vec<Axis>> {
        let axis = |r: usize| {
            let of = if r == 0 { 0..self.folded } else { self.folded + r - 1..self.folded + r };
            let mut loops = Vec::new();
            let mut dims = Vec::new();
            let mut stride = 1;
            for d in of.rev() {
                if let Some(logical) = d.checked_sub(self.missing) {
                    loops.insert(0, (shape[logical], [stride]));
                    dims.insert(0, logical);
                }
                // Inside of the physical size, which was checked.
                stride *= self.padded[d] as i64;
            }
            sharding.axis(dims, 0, Piecewise::nest(&loops), r)
        };
        (0..self.shape.len()).map(axis).collect()
    }
}

/// Checks what each scheme asks of the physical shape and of the grid of cores; `shards` counts the shards along
/// each dimension.
fn check_fit(
    scheme: Scheme,
    grid: [u64; 2],
    shard: &[u64],
    orientation: Orientation,
    physical: &[u64],
    shards: &[u64],
) -> Result<()> {
    let full = |r: usize, name: &str| {
        if shard[r] == physical[r] {
            return Ok(());
        }
        let needed = format!("{}, the physical {name} of the tensor", physical[r]);
        Err(Error::value(format!("shard {name}"), shard[r], needed))
    };
    let enough = |name: &str, given: u64, cores: u64, what: &str| {
        if given <= cores {
            return Ok(());
        }
        let needed = format!("at most {cores}, {what} of the grid {}", join(&grid));
        Err(Error::value(name, given, needed))
    };
    let all = grid[0].saturating_mul(grid[1]);
    let (rows, cols) = ("the rows of cores", "the columns of cores");
    match (scheme, orientation) {
        (Scheme::Nd, _) => Ok(()),
        (Scheme::Height, _) => {
            full(1, "width")?;
            enough("number of shards", shards[0], all, "the cores")
        }
        (Scheme::Width, _) => {
            full(0, "height")?;
            enough("number of shards", shards[1], all, "the cores")
        }
        (Scheme::Block, Orientation::RowMajor) => {
            enough("rows of shards", shards[0], grid[0], rows)?;
            enough("columns of shards", shards[1], grid[1], cols)
        }
        (Scheme::Block, Orientation::ColMajor) => {
            enough("rows of shards", shards[0], grid[1], cols)?;
            enough("columns of shards", shards[1], grid[0], rows)
        }
    }
}

/// The buffers of the cores that hold a shard, in the order in which they get one.
fn cores(scheme: Scheme, grid: [u64; 2], orientation: Orientation, shards: &[u64]) -> Result<Buffers> {
    let count: u64 = shards.iter().product();
    let used = count.min(grid[0].saturating_mul(grid[1]));
    if orientation == Orientation::RowMajor {
        return Ok(Buffers::InTurn(used));
    }
    super::shard::check_dealt(used)?;
    // Down the columns: of the grid, or of the block that shards cover, whose rows they go along.
    let rows = if scheme == Scheme::Block { shards[1] } else { grid[0] };
    let mut by_place: Vec<(u64, u64, u32)> = (0..used).map(|k| (k % rows, k / rows, k as u32)).collect();
    by_place.sort_unstable();
    let mut order = vec![0; by_place.len()];
    for (place, (.., core)) in (0..).zip(by_place) {
        order[core as usize] = place;
    }
    Ok(Buffers::At(order))
}

impl Family for Ttnn {
    /// Checks that block floats are in tiles, that a transposed tile has 16 or 32 rows, and the sizes of the memory configuration.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    fn validate(&self) -> Result<()> {
        match (self.dtype, self.layout) {
            (Format::Sen169, _) => return Err(Error::value("dtype", self.dtype, "a TTNN format")),
            (Format::Plain(dtype), _) if PLAIN_NAMES.iter().all(|n| n.1 != dtype) => {
                return Err(Error::value("dtype", dtype, "a TTNN format"));
            }
            (Format::Block(block), PageLayout::RowMajor) => {
                return Err(Error::value(
                    "layout",
                    "ROW_MAJOR",
                    format!("TILE: Layout must be TILE for {}", block.name()),
                ));
            }
            (_, PageLayout::Tile { shape, transpose: true }) if !shape.can_transpose() => {
                return Err(Error::value(
                    "transpose_tile",
                    format!("a tile of {} rows", shape.height()),
                    "16 or 32 rows",
                ));
            }
            _ => {}
        }
        match &self.memory {
            Memory::Single => Ok(()),
            Memory::Interleaved { banks, alignment } => {
                check_positive("banks", &[*banks])?;
                check_positive("alignment", &[*alignment])
            }
            Memory::Sharded { scheme, grid, shard, .. } => {
                check_positive("grid", grid)?;
                check_positive("shard", shard)?;
                if *scheme != Scheme::Nd {
                    check_count("shard", shard.len(), 2, "its rows and columns")?;
                }
                self.check_whole_tiles(shard)
            }
        }
    }

    /// The layout of a tensor of this shape.
    ///
    /// The last two dimensions are rounded up to tiles (the last one to the width of a shard, where pages are rows)
    /// before leading dimensions are multiplied in; rank 0 and 1 count as one row. Shards and pages are numbered
    /// row-major, and inside of a shard pages are row-major. All buffers have room for as many shards as the
    /// fullest; those of cores are listed row-major over the cores that hold a shard, banks by number.
    ///
    /// # Errors
    /// [`Error::Value`] for a tensor without elements, and where the shards do not fit tensor or grid; overflows.
    fn to_layout(&self, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout> {
        self.validate()?;
        check_sizes("shape", &tensor.shape)?;
        if tensor.shape.contains(&0) {
            return Err(Error::value("shape", join(&tensor.shape), "sizes of 1 or more in every dimension"));
        }
        volume("the number of elements", tensor.shape.iter().copied())?;
        let physical = self.physical(&tensor.shape)?;
        let (sharding, geometry) = self.place(&physical.shape)?;
        let axes = physical.axes(&tensor.shape, &sharding)?;
        let fill = placement.pad_value.or(self.pad_value.map(PadValue::get)).unwrap_or(0.0);
        sharding.layout(&tensor.shape, axes, fill, geometry)
    }
}
