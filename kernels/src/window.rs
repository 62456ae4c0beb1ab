//! Two-dimensional strided windows: which bytes a move reads and writes.

/// A two-dimensional strided move: `rows` x `cols` elements, each at its own place in the source and in the
/// destination. Element (r, c) goes from `r * src_row + c * src_col` to `r * dst_row + c * dst_col`.
///
/// Strides are in bytes and may be negative; on the source side also 0 (a broadcast). Destination elements must
/// not overlap: where they do, the bytes in the overlap are those of one of the elements, and which is unspecified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Trip count of the outer index.
    pub rows: usize,
    /// Trip count of the inner index.
    pub cols: usize,
    /// Bytes in the source from an element to the one in the next row.
    pub src_row: isize,
    /// Bytes in the source from an element to the one in the next column.
    pub src_col: isize,
    /// Bytes in the destination from an element to the one in the next row.
    pub dst_row: isize,
    /// Bytes in the destination from an element to the one in the next column.
    pub dst_col: isize,
}

/// A loop around a window: the whole window again, `n` times in all, each time further by these bytes.
///
/// Its turns must not overlap in the destination, as the elements of a window must not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// Trip count.
    pub n: usize,
    /// Bytes from a turn to the next in the source.
    pub src: isize,
    /// Bytes from a turn to the next in the destination.
    pub dst: isize,
}

impl Window {
    /// The window with the roles of rows and columns exchanged: the same elements.
    pub(crate) fn swapped(self) -> Window {
        Window {
            rows: self.cols,
            cols: self.rows,
            src_row: self.src_col,
            src_col: self.src_row,
            dst_row: self.dst_col,
            dst_col: self.dst_row,
        }
    }

    pub(crate) fn is_empty(&self, elem: usize) -> bool {
        self.rows == 0 || self.cols == 0 || elem == 0
    }
}

/// Whether elements of `elem` bytes (at least one) at `at + r * row.1 + c * col.1`, for all r < `row.0` and
/// c < `col.0` (at least one each), lie inside `0..len`.
///
/// Exact although it never leaves `isize`: a slice is at most `isize::MAX` bytes long, so a place that `isize`
/// cannot express is outside.
pub(crate) fn lies_inside(
    len: usize,
    at: usize,
    elem: usize,
    row: (usize, isize),
    col: (usize, isize),
) -> bool {
    let inside = || {
        let (mut first, mut last) = (isize::try_from(at).ok()?, isize::try_from(at).ok()?);
        for (count, stride) in [row, col] {
            let reach = isize::try_from(count - 1).ok()?.checked_mul(stride)?;
            first = first.checked_add(reach.min(0))?;
            last = last.checked_add(reach.max(0))?;
        }
        let end = usize::try_from(last).ok()?.checked_add(elem)?;
        Some(first >= 0 && end <= len)
    };
    inside().unwrap_or(false)
}

/// [`lies_inside`] for each of `tile.0` windows (at least one), each `tile.1` bytes after the one before.
pub(crate) fn tiles_lie_inside(
    len: usize,
    at: usize,
    elem: usize,
    tile: (usize, isize),
    row: (usize, isize),
    col: (usize, isize),
) -> bool {
    // Places grow or fall with the number of the window, so the first and the last bound the others.
    let last = || {
        let reach = isize::try_from(tile.0 - 1).ok()?.checked_mul(tile.1)?;
        at.checked_add_signed(reach)
    };
    lies_inside(len, at, elem, row, col) && last().is_some_and(|last| lies_inside(len, last, elem, row, col))
}
