//! What a tensor file says of a tensor: the tensor specification of tt-metal.

use std::fmt;

use tilewright::dtype::{BlockFormat, DType, Format};
use tilewright::error::{Error, Result};
use tilewright::family::tenstorrent::cores::{CoreRange, CoreRangeSet, Orientation};
use tilewright::family::tenstorrent::memory::BufferType;
use tilewright::family::tenstorrent::ttnn::{Memory, PageLayout, Scheme, Sharded, Strategy, Ttnn};
use tilewright::family::{Descriptor, Placement, Tensor};
use tilewright::layout::Layout;

/// Element formats by their number in the file.
pub(super) const FORMATS: [(u8, Format); 9] = [
    (0, Format::Plain(DType::Bf16)),
    (1, Format::Plain(DType::F32)),
    (2, Format::Plain(DType::U32)),
    (3, Format::Block(BlockFormat::Bfp8B)),
    (4, Format::Block(BlockFormat::Bfp4B)),
    (5, Format::Plain(DType::U8)),
    (6, Format::Plain(DType::U16)),
    (7, Format::Plain(DType::I32)),
    (8, Format::Plain(DType::I8)),
];

/// One device's tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// Logical shape of what one device holds.
    pub shape: Vec<u64>,
    /// What the bytes hold.
    pub format: Format,
    /// Rows or tiles.
    pub pages: PageLayout,
    /// Where the runtime puts the tensor on the device. It does not change the bytes of the file.
    pub memory: MemoryConfig,
    /// To what the last dimensions are rounded up, in elements: the tile, or 1 for rows.
    pub alignment: Vec<u64>,
}

/// Where the runtime puts a tensor on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryConfig {
    /// How pages are spread.
    pub layout: MemoryLayout,
    /// Which memory.
    pub buffer: BufferType,
    /// The shards, where they have two dimensions.
    pub shard: Option<ShardSpec>,
    /// The shards as shards of any rank.
    pub nd_shard: Option<NdShardSpec>,
    /// Whether the user gave `nd_shard`, and `shard` follows from it.
    pub created_with_nd_shard_spec: bool,
    /// Whether each core allocates by itself.
    pub per_core_allocation: bool,
}

/// How pages are spread over a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryLayout {
    /// Pages dealt to all banks.
    Interleaved,
    /// All in one bank, which only old files say.
    SingleBank,
    /// Shards.
    Sharded(Scheme),
}

impl MemoryLayout {
    /// The layouts by their number in the file, with TTNN's names.
    pub(super) const ALL: [(u16, MemoryLayout, &'static str); 6] = [
        (0, MemoryLayout::Interleaved, "INTERLEAVED"),
        (1, MemoryLayout::SingleBank, "SINGLE_BANK"),
        (2, MemoryLayout::Sharded(Scheme::Height), "HEIGHT_SHARDED"),
        (3, MemoryLayout::Sharded(Scheme::Width), "WIDTH_SHARDED"),
        (4, MemoryLayout::Sharded(Scheme::Block), "BLOCK_SHARDED"),
        (5, MemoryLayout::Sharded(Scheme::Nd), "ND_SHARDED"),
    ];
}

/// The memories of a device by their number in the file, with TTNN's names.
pub(super) const BUFFERS: [(u16, BufferType, &str); 5] = [
    (0, BufferType::Dram, "DRAM"),
    (1, BufferType::L1, "L1"),
    (2, BufferType::SystemMemory, "SYSTEM_MEMORY"),
    (3, BufferType::L1Small, "L1_SMALL"),
    (4, BufferType::Trace, "TRACE"),
];

/// Shards of two dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardSpec {
    /// The cores.
    pub grid: CoreRangeSet,
    /// Rows and columns of a shard in elements.
    pub shape: [u64; 2],
    /// The order of the cores.
    pub orientation: Orientation,
}

/// Shards of any rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NdShardSpec {
    /// Shape of a shard in elements.
    pub shape: Vec<u64>,
    /// The cores.
    pub grid: CoreRangeSet,
    /// The order of the cores.
    pub orientation: Orientation,
    /// How shards are dealt to them.
    pub strategy: Strategy,
}

/// How shards are dealt to cores, by the number in the file, with TTNN's names.
pub(super) const STRATEGIES: [(u8, Strategy, &str); 3] = [
    (0, Strategy::RoundRobin1d, "ROUND_ROBIN_1D"),
    (1, Strategy::Grid2d, "GRID_2D"),
    (2, Strategy::Contiguous1d, "CONTIGUOUS_1D"),
];

impl MemoryConfig {
    /// Pages dealt to all banks of the main memory: what `from_torch` says where nobody asks for more.
    pub const DRAM_INTERLEAVED: MemoryConfig = MemoryConfig {
        layout: MemoryLayout::Interleaved,
        buffer: BufferType::Dram,
        shard: None,
        nd_shard: None,
        created_with_nd_shard_spec: false,
        per_core_allocation: false,
    };

    /// The memory of a layout text. Where it does not say which memory, one buffer and interleaved pages are in the
    /// main memory, and shards in that of the cores, as the runtime has it by default.
    fn of(memory: &Memory, buffer: Option<BufferType>) -> Result<MemoryConfig> {
        let Memory::Sharded(Sharded { scheme, grid, shard, orientation, strategy, .. }) = memory else {
            let buffer = buffer.unwrap_or(BufferType::Dram);
            return Ok(MemoryConfig { buffer, ..MemoryConfig::DRAM_INTERLEAVED });
        };
        if let Some(range) = grid.ranges().iter().find(|r| r.end().iter().any(|&n| i32::try_from(n).is_err()))
        {
            return Err(Error::value("grid", range, "rows and columns of cores below 2^31"));
        }
        let (scheme, orientation, strategy) = (*scheme, *orientation, *strategy);
        let (nd, two) = (scheme == Scheme::Nd, <[u64; 2]>::try_from(shard.as_slice()).ok());
        let of_two = |shape| ShardSpec { grid: grid.clone(), shape, orientation };
        Ok(MemoryConfig {
            layout: MemoryLayout::Sharded(scheme),
            buffer: buffer.unwrap_or(BufferType::L1),
            shard: two.filter(|_| !nd).map(of_two),
            nd_shard: Some(NdShardSpec { shape: shard.clone(), grid: grid.clone(), orientation, strategy }),
            created_with_nd_shard_spec: nd,
            per_core_allocation: false,
        })
    }
}

impl TensorSpec {
    /// One device's tensor of this shape in this layout.
    ///
    /// # Errors
    /// [`Error::Value`] where the file has no number for the cores.
    pub fn new(shape: &[u64], layout: &Ttnn) -> Result<TensorSpec> {
        let alignment = match (layout.layout, &layout.memory) {
            (PageLayout::Tile { shape, .. }, _) => vec![shape.height(), shape.width()],
            // Rows of a sharded tensor are rounded up to whole shards.
            (PageLayout::RowMajor, Memory::Sharded(Sharded { shard, .. })) => {
                vec![shard.last().copied().unwrap_or(1)]
            }
            (PageLayout::RowMajor, _) => vec![1],
        };
        Ok(TensorSpec {
            shape: shape.to_vec(),
            format: layout.dtype,
            pages: layout.layout,
            memory: MemoryConfig::of(&layout.memory, layout.buffer_type)?,
            alignment,
        })
    }

    /// The logical element type: that of the format, f32 for a block float.
    pub fn dtype(&self) -> DType {
        match self.format {
            Format::Plain(dtype) => dtype,
            _ => DType::F32,
        }
    }

    /// One device's tensor.
    pub fn tensor(&self) -> Tensor {
        Tensor { shape: self.shape.clone(), dtype: self.dtype() }
    }

    /// How a shard lies in the file: one buffer of tiles or rows, whatever the memory configuration.
    ///
    /// # Errors
    /// [`Error::Value`] for an alignment other than the tile, or a width of rows.
    pub fn stored(&self) -> Result<Descriptor> {
        let ones = |leading: &[u64]| leading.iter().all(|&n| n == 1);
        let memory = match (self.pages, self.alignment.as_slice()) {
            (PageLayout::Tile { shape, .. }, [leading @ .., height, width])
                if ones(leading) && [*height, *width] == [shape.height(), shape.width()] =>
            {
                Memory::Single
            }
            (PageLayout::RowMajor, leading) if ones(leading) => Memory::Single,
            (PageLayout::RowMajor, [leading @ .., width]) if ones(leading) && *width > 0 => {
                self.wide_rows(*width)?
            }
            _ => {
                let needed = "the tile, or for rows a number for the last dimension";
                return Err(Error::value("alignment", format!("{:?}", self.alignment), needed));
            }
        };
        let descriptor = Descriptor::Ttnn(Ttnn::new(self.format, self.pages).with_memory(memory));
        descriptor.validate()?;
        Ok(descriptor)
    }

    /// Rows that are rounded up to `width` elements: one shard that holds them all.
    fn wide_rows(&self, width: u64) -> Result<Memory> {
        let overflow = || Error::overflow("the padded shape");
        let (last, leading) = self.shape.split_last().unwrap_or((&1, &[]));
        let height = leading.iter().try_fold(1_u64, |n, &m| n.checked_mul(m)).ok_or_else(overflow)?;
        let width = last.checked_next_multiple_of(width).ok_or_else(overflow)?;
        Ok(Memory::Sharded(Sharded::new(Scheme::Height, CoreRangeSet::grid(1, 1), vec![height, width])))
    }

    /// The layout of a shard in the file.
    ///
    /// # Errors
    /// Those of [`TensorSpec::stored`], and of the layout of a tensor of this shape.
    pub fn layout(&self) -> Result<Layout> {
        self.stored()?.layout(&self.tensor(), &Placement::default())
    }
}

/// The name of a value in one of the tables above.
fn name_of<N, T: PartialEq>(all: &[(N, T, &'static str)], value: &T) -> &'static str {
    all.iter().find(|entry| entry.1 == *value).map_or("?", |entry| entry.2)
}

impl fmt::Display for MemoryConfig {
    /// For people, with the names that TTNN prints.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = name_of(&MemoryLayout::ALL, &self.layout);
        write!(f, "{layout} in {}", name_of(&BUFFERS, &self.buffer))?;
        let (shape, grid, orientation) = match (&self.shard, &self.nd_shard) {
            (Some(shard), _) => (shard.shape.to_vec(), &shard.grid, shard.orientation),
            (None, Some(shard)) => (shard.shape.clone(), &shard.grid, shard.orientation),
            (None, None) => return Ok(()),
        };
        write!(f, ", shard {shape:?}, cores")?;
        for range in grid.ranges() {
            let (CoreRange { x, y, .. }, [to_x, to_y]) = (range, range.end());
            write!(f, " ({x}, {y}) to ({to_x}, {to_y})")?;
        }
        write!(f, ", {orientation}")?;
        match &self.nd_shard {
            Some(shard) => write!(f, ", {}", name_of(&STRATEGIES, &shard.strategy)),
            None => Ok(()),
        }
    }
}
