//! Tile shapes of Tenstorrent cores, and what a tile holds.

use crate::dtype::{DType, Format};
use crate::layout::axis::Level;
use crate::layout::{Tile, element_bytes, tile_bytes};

/// One of the twelve tile shapes: 32, 16, 8, 4, 2 or 1 rows by 32 or 16 columns.
///
/// It is the shape that the kernels pack, with sizes counted as those of tensors are. How such a tile is stored is the
/// [`Tile`] of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TileShape(kernels::TileShape);

impl TileShape {
    /// The usual tile.
    pub const T32X32: TileShape = TileShape(kernels::TileShape::DEFAULT);

    /// The tile of `height` rows and `width` columns; `None` where there is no such tile.
    pub fn new(height: u64, width: u64) -> Option<TileShape> {
        let (rows, cols) = (usize::try_from(height).ok()?, usize::try_from(width).ok()?);
        kernels::TileShape::new(rows, cols).map(TileShape)
    }

    /// All twelve, largest first.
    pub fn all() -> impl Iterator<Item = TileShape> {
        kernels::TileShape::all().map(TileShape)
    }

    /// Rows.
    pub fn height(self) -> u64 {
        self.0.rows() as u64
    }

    /// Columns.
    pub fn width(self) -> u64 {
        self.0.cols() as u64
    }

    /// Whether a tile of this shape can be stored transposed: it must have 16 or 32 rows.
    pub fn can_transpose(self) -> bool {
        self.0.transposed().is_some()
    }

    /// The tile of this shape in a layout.
    pub(crate) fn tile(self, transposed: bool) -> Tile {
        Tile { rows: self.height(), cols: self.width(), transposed, compact: false }
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

impl Element {
    /// Bytes of one element, or of one tile.
    pub fn stored_bytes(self) -> u64 {
        match (self.format(), self.tile()) {
            (Format::Block(block), Some(tile)) => tile_bytes(block, tile),
            (format, tile) => tile.map_or(1, Tile::elements) * element_bytes(format),
        }
    }

    /// What its bytes hold.
    pub(crate) fn format(self) -> Format {
        match self {
            Element::Scalar(dtype) => Format::Plain(dtype),
            Element::Tile { format, .. } => format,
        }
    }

    /// The logical element type: that of a block float is bf16 (f16 where the exponent has 5 bits), as in tt-mlir;
    /// none for a format that has no such type.
    pub fn dtype(self) -> Option<DType> {
        use crate::dtype::BlockFormat as B;
        match self.format() {
            Format::Plain(dtype) => Some(dtype),
            Format::Block(B::Bfp8A | B::Bfp4A | B::Bfp2A) => Some(DType::F16),
            Format::Block(_) => Some(DType::Bf16),
            Format::Sen169 | Format::TtE4M3 => None,
        }
    }

    /// The tile, where there is one.
    pub(crate) fn tile(self) -> Option<Tile> {
        match self {
            Element::Scalar(_) => None,
            Element::Tile { shape, .. } => Some(shape.tile(false)),
        }
    }
}

/// Rows and columns of a face in elements; tiles of fewer rows have lower faces.
const FACE: u64 = 16;

/// The digits of a row and of a column inside of a tile.
///
/// Plain elements step in bytes: faces lie top-left, top-right, bottom-left, bottom-right, each row-major; a
/// transposed tile is stored as the tile of exchanged rows and columns. Elements of a block format step in
/// slots, row-major whatever the storage order, which is the codec's affair.
pub(crate) fn levels(tile: Tile, format: Format) -> [Vec<Level>; 2] {
    let Tile { rows, cols, transposed, .. } = tile;
    if let Format::Block(_) = format {
        let slots = |n, step: u64| vec![Level { n, step: [0, 0, step as i64] }];
        return [slots(rows, cols), slots(cols, 1)];
    }
    let (stored_rows, stored_cols) = if transposed { (cols, rows) } else { (rows, cols) };
    let face_rows = stored_rows.min(FACE);
    let bytes = |n, elements: u64| Level::bytes(n, (elements * element_bytes(format)) as i64);
    let face = face_rows * FACE;
    let row = vec![bytes(stored_rows / face_rows, stored_cols / FACE * face), bytes(face_rows, FACE)];
    let col = vec![bytes(stored_cols / FACE, face), bytes(FACE, 1)];
    if transposed { [col, row] } else { [row, col] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::axis::Axis;
    use crate::layout::piecewise::Piecewise;

    /// The address of each (row, column), row-major.
    fn addresses(tile: Tile, format: Format) -> Vec<[i64; 3]> {
        let axis = |cells: Vec<Level>| {
            let n = cells.iter().map(|c| c.n).product();
            Axis::new(vec![0], 0, Piecewise::run(n, [1]), cells).unwrap()
        };
        let [rows, cols] = levels(tile, format).map(axis);
        let at = |r, c| {
            let (row, col) = (rows.addresses.eval(r), cols.addresses.eval(c));
            std::array::from_fn(|k| row[k] + col[k])
        };
        (0..tile.rows).flat_map(|r| (0..tile.cols).map(move |c| (r, c))).map(|(r, c)| at(r, c)).collect()
    }

    #[test]
    fn elements_lie_where_the_kernels_say() {
        for shape in TileShape::all() {
            for transposed in [false, true] {
                if transposed && !shape.can_transpose() {
                    continue;
                }
                let (rows, cols) = (shape.height() as usize, shape.width() as usize);
                let stored = kernels::TileShape::new(rows, cols).unwrap();
                let slot = |r: usize, c: usize| match transposed {
                    true => stored.transposed().unwrap().slot(c, r),
                    false => stored.slot(r, c),
                };
                let seen = addresses(shape.tile(transposed), Format::Plain(DType::F32));
                for (i, at) in seen.iter().enumerate() {
                    let (r, c) = (i / cols, i % cols);
                    assert_eq!(*at, [0, 4 * slot(r, c) as i64, 0], "{shape:?} {transposed} ({r}, {c})");
                }
                let block = Format::Block(crate::dtype::BlockFormat::Bfp8B);
                let seen = addresses(shape.tile(transposed), block);
                assert!(seen.iter().enumerate().all(|(i, at)| *at == [0, 0, i as i64]));
            }
        }
    }
}
