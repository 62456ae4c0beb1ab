//! Tile shapes of Tenstorrent cores, and what a tile holds.

use crate::dtype::{DType, Format};

/// One of the twelve tile shapes: 32, 16, 8, 4, 2 or 1 rows by 32 or 16 columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TileShape {
    height: u8,
    width: u8,
}

impl TileShape {
    /// The usual tile.
    pub const T32X32: TileShape = TileShape { height: 32, width: 32 };

    /// The tile of `height` rows and `width` columns; `None` where there is no such tile.
    pub fn new(height: u64, width: u64) -> Option<TileShape> {
        let shape = TileShape { height: u8::try_from(height).ok()?, width: u8::try_from(width).ok()? };
        TileShape::all().find(|s| *s == shape)
    }

    /// All twelve.
    pub fn all() -> impl Iterator<Item = TileShape> {
        [32, 16, 8, 4, 2, 1].into_iter().flat_map(|height| [32, 16].map(|width| TileShape { height, width }))
    }

    /// Rows.
    pub fn height(self) -> u64 {
        self.height.into()
    }

    /// Columns.
    pub fn width(self) -> u64 {
        self.width.into()
    }

    /// Whether a tile of this shape can be stored transposed: it must have 16 or 32 rows.
    pub fn can_transpose(self) -> bool {
        self.height >= 16
    }
}

/// What a shard consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// Single elements.
    Scalar(DType),
    /// Tiles of elements or of a block float.
    Tile {
        /// Rows and columns of a tile.
        shape: TileShape,
        /// What the tile holds.
        format: Format,
    },
}
