//! Two-dimensional strided windows and the loops around them: which bytes a move reads and writes.

/// The most loops around a window that one call takes.
pub const MAX_AROUND: usize = 8;

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

/// How a copy treats the caches; no byte depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caching {
    /// Whether stores go past the caches, as [`Kernels::stream`](crate::Kernels::stream) does it; such stores need the
    /// same [`Kernels::fence`](crate::Kernels::fence). Only whole and aligned pieces of 32 bytes do, on x86-64 at levels
    /// above scalar; for anything else this is ignored.
    pub past: bool,
    /// Bytes from what is being read to what is fetched meanwhile, because it is read soon; 0 fetches nothing. Stores past
    /// the caches and transposes heed it.
    pub ahead: isize,
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

/// [`lies_inside`] in every turn of loops around, each (trip count, at least one; bytes from a turn to the next).
pub(crate) fn turns_lie_inside(
    len: usize,
    at: usize,
    elem: usize,
    row: (usize, isize),
    col: (usize, isize),
    around: impl Iterator<Item = (usize, isize)>,
) -> bool {
    // What lies inside moves as a whole, so it is inside in every turn if it is at both ends.
    let inside = || {
        let (mut first, mut last) = (isize::try_from(at).ok()?, isize::try_from(at).ok()?);
        for (count, step) in around {
            let reach = isize::try_from(count - 1).ok()?.checked_mul(step)?;
            first = first.checked_add(reach.min(0))?;
            last = last.checked_add(reach.max(0))?;
        }
        let (first, last) = (usize::try_from(first).ok()?, usize::try_from(last).ok()?);
        Some(lies_inside(len, first, elem, row, col) && lies_inside(len, last, elem, row, col))
    };
    inside().unwrap_or(false)
}

/// Calls `f` with how far each turn of loops around lies from the first: in the source, and in the destination. The last
/// loop runs fastest.
#[inline(always)]
pub(crate) fn turns<'a>(around: &'a [Around], mut f: impl FnMut(isize, isize)) {
    // The two innermost loops are plain ones, for most of the time is spent there.
    let split = |around: &'a [Around]| match around.split_last() {
        Some((inner, outer)) => (*inner, outer),
        None => (Around { n: 1, src: 0, dst: 0 }, around),
    };
    let (inner, outer) = split(around);
    let (middle, outer) = split(outer);
    let mut turn = [0; MAX_AROUND];
    let (mut src, mut dst) = (0_isize, 0_isize);
    loop {
        let (mut src_middle, mut dst_middle) = (src, dst);
        for _ in 0..middle.n {
            let (mut from, mut to) = (src_middle, dst_middle);
            for _ in 0..inner.n {
                f(from, to);
                (from, to) = (from.wrapping_add(inner.src), to.wrapping_add(inner.dst));
            }
            src_middle = src_middle.wrapping_add(middle.src);
            dst_middle = dst_middle.wrapping_add(middle.dst);
        }
        let more = outer.iter().zip(&mut turn).rev().any(|(a, turn)| {
            *turn += 1;
            let by = if *turn < a.n { 1 } else { 1 - *turn as isize };
            src = src.wrapping_add(a.src.wrapping_mul(by));
            dst = dst.wrapping_add(a.dst.wrapping_mul(by));
            *turn = if *turn < a.n { *turn } else { 0 };
            by == 1
        });
        if !more {
            return;
        }
    }
}
