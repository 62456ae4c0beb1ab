//! Tile shapes and the order of elements inside a tile.

use std::fmt;

/// One of the twelve tile shapes: 32, 16, 8, 4, 2 or 1 rows by 32 or 16 columns (elements).
///
/// A tile is stored face by face: top-left, top-right, bottom-left, bottom-right, as many as there are; a face has
/// `min(16, rows)` rows of 16 elements and is row-major.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TileShape {
    rows: u8,
    cols: u8,
}

impl TileShape {
    /// The tile that everything uses unless told otherwise.
    pub const DEFAULT: TileShape = TileShape { rows: 32, cols: 32 };

    /// Most elements a tile can have.
    pub const MAX_ELEMENTS: usize = 1024;

    /// The shape of `rows` x `cols` elements, or `None` if it is not one of the twelve.
    pub const fn new(rows: usize, cols: usize) -> Option<TileShape> {
        if matches!(rows, 1 | 2 | 4 | 8 | 16 | 32) && matches!(cols, 16 | 32) {
            Some(TileShape { rows: rows as u8, cols: cols as u8 })
        } else {
            None
        }
    }

    /// Every shape, largest first.
    pub fn all() -> impl Iterator<Item = TileShape> {
        [32, 16, 8, 4, 2, 1].into_iter().flat_map(|rows| [32, 16].map(|cols| TileShape { rows, cols }))
    }

    /// Rows of elements.
    pub const fn rows(self) -> usize {
        self.rows as usize
    }

    /// Columns of elements.
    pub const fn cols(self) -> usize {
        self.cols as usize
    }

    /// Elements of the tile.
    pub const fn elements(self) -> usize {
        self.rows() * self.cols()
    }

    /// Rows of one face.
    pub const fn face_rows(self) -> usize {
        if self.rows < 16 { self.rows() } else { 16 }
    }

    /// Columns of one face.
    pub const fn face_cols(self) -> usize {
        16
    }

    /// Where element (`row`, `col`) is stored, in elements from the tile's first. A bijection of the tile onto
    /// `0..elements()`; meaningless outside of it.
    pub const fn slot(self, row: usize, col: usize) -> usize {
        let face = row / 16 * (self.cols() / 16) + col / 16;
        (face * self.face_rows() + row % 16) * 16 + col % 16
    }

    /// The shape with rows and columns exchanged, which is how a transposed tile is stored: element (r, c) lies at
    /// `transposed().slot(c, r)`. `None` unless the rows are 16 or 32.
    pub const fn transposed(self) -> Option<TileShape> {
        TileShape::new(self.cols(), self.rows())
    }
}

impl fmt::Display for TileShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.cols)
    }
}
