//! TTNN tensors: element format, page layout and memory configuration.

mod memory;
mod physical;

pub use memory::{Interleaved, Memory, Scheme, Sharded, Strategy};

use super::memory::BufferType;
use super::tile::TileShape;
use crate::dtype::{DType, Format};
use crate::error::{Error, Result};
use crate::family::{Family, Placement, Tensor, check_sizes, join, volume};
use crate::layout::{Geometry, Layout, Parts, Space, Tile};
use physical::Physical;

/// TTNN's names of elements that stand alone.
pub(crate) const PLAIN_NAMES: [(&str, Format); 8] = [
    ("bfloat16", Format::Plain(DType::Bf16)),
    ("float32", Format::Plain(DType::F32)),
    ("uint8", Format::Plain(DType::U8)),
    ("uint16", Format::Plain(DType::U16)),
    ("uint32", Format::Plain(DType::U32)),
    ("int32", Format::Plain(DType::I32)),
    ("int8", Format::Plain(DType::I8)),
    ("fp8_e4m3", Format::TtE4M3),
];

/// `ttnn(dtype=bfloat8_b, layout=TILE, tile=(32, 32))`.
///
/// ```
/// use tilewright::dtype::{BlockFormat, Format};
/// use tilewright::family::tenstorrent::cores::CoreRangeSet;
/// use tilewright::family::tenstorrent::ttnn::{PageLayout, Scheme, Sharded, Ttnn};
///
/// let shards = Sharded::new(Scheme::Height, CoreRangeSet::grid(2, 4), vec![32, 64]);
/// let ttnn = Ttnn::new(Format::Block(BlockFormat::Bfp8B), PageLayout::TILE).with_shards(shards);
/// let text = "ttnn(dtype=bfloat8_b, layout=TILE, memory=HEIGHT_SHARDED, grid=(2, 4), shard=(32, 64))";
/// assert_eq!(tilewright::text::parse(text)?.descriptor, ttnn.into());
/// # Ok::<(), tilewright::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Ttnn {
    /// What the pages hold.
    pub dtype: Format,
    /// Rows or tiles.
    pub layout: PageLayout,
    /// Content of the padding; 0 where `None`.
    pub pad_value: Option<PadValue>,
    /// Where the pages go.
    pub memory: Memory,
    /// The kind of memory they go to, where it is known.
    pub buffer_type: Option<BufferType>,
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

impl PageLayout {
    /// The usual tile, 32 by 32.
    pub const TILE: PageLayout = PageLayout::Tile { shape: TileShape::T32X32, transpose: false };
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
    /// Pages of a format in one buffer, as on the host, padded with 0.
    pub fn new(dtype: Format, layout: PageLayout) -> Ttnn {
        Ttnn { dtype, layout, pad_value: None, memory: Memory::Single, buffer_type: None }
    }

    /// The same with another content of the padding.
    pub fn with_pad_value(mut self, value: f64) -> Ttnn {
        self.pad_value = Some(PadValue::new(value));
        self
    }

    /// The same in another memory.
    pub fn with_memory(mut self, memory: Memory) -> Ttnn {
        self.memory = memory;
        self
    }

    /// The same in the banks of a memory.
    pub fn with_banks(self, banks: Interleaved) -> Ttnn {
        self.with_memory(Memory::Interleaved(banks))
    }

    /// The same in shards.
    pub fn with_shards(self, shards: Sharded) -> Ttnn {
        self.with_memory(Memory::Sharded(shards))
    }

    /// The same with the kind of memory that holds it.
    pub fn with_buffer_type(mut self, buffer_type: BufferType) -> Ttnn {
        self.buffer_type = Some(buffer_type);
        self
    }

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

    /// The layout of a tensor without elements: no pages, so that no buffer holds a byte. Banks are listed as ever;
    /// no core holds a shard.
    fn empty(&self, tensor: &Tensor, fill: f64) -> Result<Layout> {
        let buffers = if let Memory::Interleaved(banks) = &self.memory { banks.banks } else { 1 };
        let tile = self.tile();
        Layout::new(Parts {
            shape: tensor.shape.clone(),
            format: self.dtype,
            tile: tile.filter(|_| matches!(self.dtype, Format::Block(_))),
            axes: vec![],
            replicas: vec![],
            offset: 0,
            space: Space::in_order(buffers, 0),
            fill,
            geometry: Geometry { physical_shape: vec![0; 2], tile, ..Geometry::default() },
        })
    }
}

impl Family for Ttnn {
    /// Checks that block floats are in tiles, that a transposed tile has 16 or 32 rows, and the sizes of the memory configuration.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    fn validate(&self) -> Result<()> {
        if !matches!(self.dtype, Format::Block(_)) && PLAIN_NAMES.iter().all(|n| n.1 != self.dtype) {
            return Err(Error::value("dtype", self.dtype, "a TTNN format"));
        }
        match (self.dtype, self.layout) {
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
        self.memory.validate()?;
        match &self.memory {
            Memory::Sharded(sharded) => self.check_whole_tiles(&sharded.shard),
            _ => Ok(()),
        }
    }

    /// The layout of a tensor of this shape.
    ///
    /// The last two dimensions are rounded up to tiles (the last one to the width of a shard, where pages are rows)
    /// before leading dimensions are multiplied in; rank 0 and 1 count as one row. Shards and pages are numbered
    /// row-major, and inside of a shard pages are row-major. All buffers have room for as many shards as the
    /// fullest; those of cores are listed row-major over the cores that hold a shard, banks by number or as
    /// `bank_order` says. A tensor without elements has no pages, and its buffers no bytes.
    ///
    /// # Errors
    /// [`Error::Value`] where the shards do not fit tensor or grid; overflows; [`Error::TooComplex`] for more than
    /// 65536 cores out of order.
    fn to_layout(&self, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout> {
        self.validate()?;
        check_sizes("shape", &tensor.shape)?;
        let elements = volume("the number of elements", tensor.shape.iter().copied())?;
        let fill = placement.pad_value.or(self.pad_value.map(PadValue::get)).unwrap_or(0.0);
        if elements == 0 {
            return self.empty(tensor, fill);
        }
        let physical = Physical::new(&self.memory, self.tile(), &tensor.shape)?;
        let (sharding, geometry) = physical.place(&self.memory, self.tile(), self.dtype)?;
        let axes = physical.axes(&tensor.shape, &sharding)?;
        sharding.layout(&tensor.shape, axes, fill, geometry)
    }
}
