//! TTNN tensors: element format, page layout and memory configuration.

use super::check_positive;
use super::tile::TileShape;
use crate::dtype::Format;
use crate::error::{Error, Result};

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
    /// Checks that block floats are in tiles, that a transposed tile has 16 or 32 rows, and the sizes of the memory configuration.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    pub fn validate(&self) -> Result<()> {
        match (self.dtype, self.layout) {
            (Format::Sen169, _) => return Err(Error::value("dtype", self.dtype, "a TTNN format")),
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
                    super::check_count("shard", shard.len(), 2, "its rows and columns")?;
                }
                self.check_whole_tiles(shard)
            }
        }
    }

    /// A shard of a tiled tensor ends at tile boundaries.
    fn check_whole_tiles(&self, shard: &[u64]) -> Result<()> {
        let PageLayout::Tile { shape, .. } = self.layout else { return Ok(()) };
        let width = shard.last().copied().unwrap_or(1);
        let height = shard.iter().rev().nth(1).copied().unwrap_or(shape.height());
        if height % shape.height() != 0 || width % shape.width() != 0 {
            return Err(Error::value(
                "shard",
                super::join(shard),
                format!("multiples of the tile, {}x{}", shape.height(), shape.width()),
            ));
        }
        Ok(())
    }
}
