//! Two-dimensional strided windows and the loops around them: which bytes a copy reads and writes.

use super::bounds::{assert_readable, assert_writable};

/// The most loops around a window that one call takes.
pub const MAX_OUTER_LOOPS: usize = 8;

/// A two-dimensional strided copy: `rows` x `cols` elements, each at its own place in the source and in the
/// destination. Element (r, c) goes from `r * src_row + c * src_col` to `r * dst_row + c * dst_col`.
///
/// Strides are in bytes and may be negative; on the source side also 0 (a broadcast). Destination elements must
/// not overlap: where they do, the bytes in the overlap are those of one of the elements, and which is unspecified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Iterations of the outer index.
    pub rows: usize,
    /// Iterations of the inner index.
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
/// Its iterations must not overlap in the destination, as the elements of a window must not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OuterLoop {
    /// Number of iterations.
    pub n: usize,
    /// Bytes from one iteration to the next in the source.
    pub src: isize,
    /// Bytes from one iteration to the next in the destination.
    pub dst: isize,
}

/// The elements of one side of a window: the bytes of the slice in which they lie, the byte of the first one, and the bytes of each.
#[derive(Clone, Copy)]
pub(crate) struct Elements {
    pub(crate) len: usize,
    pub(crate) at: usize,
    pub(crate) size: usize,
}

impl Window {
    /// The window with the roles of rows and columns exchanged: the same elements.
    #[inline(always)]
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

    /// Whether no element is left when this window runs inside of these loops.
    #[inline(always)]
    fn is_empty(&self, outer: &[OuterLoop]) -> bool {
        self.rows == 0 || self.cols == 0 || outer.iter().any(|l| l.n == 0)
    }

    /// Whether there is an element in some iteration of these loops, outermost first. Then all of them lie inside both slices, source and
    /// destination.
    ///
    /// # Panics
    /// When there are too many loops, an element lies outside of its slice in some iteration, or the destination has no room
    /// for that many elements.
    // A function of its own that is never inlined, and that makes nothing: what a kernel gets is made where the kernel is called. Made here,
    // it would be moved there by loads of other pieces than were stored, for which a processor waits.
    #[inline(never)]
    pub(crate) fn has_elements(&self, outer: &[OuterLoop], [src, dst]: &[Elements; 2]) -> bool {
        assert!(
            outer.len() <= MAX_OUTER_LOOPS,
            "{} loops around a window, at most {MAX_OUTER_LOOPS}",
            outer.len()
        );
        if self.is_empty(outer) {
            return false;
        }
        assert_readable(src.len, src.at, src.size, self.src_loops(outer));
        assert_writable(dst.len, dst.at, dst.size, self.dst_loops(outer));
        true
    }

    /// The bytes of its elements of `elem` bytes, where these are one row which follow one another on both sides, and there are no loops
    /// around it.
    #[inline(always)]
    pub(crate) fn run(&self, elem: usize, outer: &[OuterLoop]) -> Option<usize> {
        let follows = self.rows == 1 && self.cols > 0 && [self.src_col, self.dst_col] == [elem as isize; 2];
        if follows && outer.is_empty() { self.cols.checked_mul(elem) } else { None }
    }

    /// The loops over the source, outermost first, as (iterations, stride).
    #[inline(always)]
    fn src_loops(&self, outer: &[OuterLoop]) -> impl Iterator<Item = (usize, isize)> + Clone {
        outer.iter().map(|l| (l.n, l.src)).chain([(self.rows, self.src_row), (self.cols, self.src_col)])
    }

    /// The loops over the destination, outermost first, as (iterations, stride).
    #[inline(always)]
    pub(crate) fn dst_loops(&self, outer: &[OuterLoop]) -> impl Iterator<Item = (usize, isize)> + Clone {
        outer.iter().map(|l| (l.n, l.dst)).chain([(self.rows, self.dst_row), (self.cols, self.dst_col)])
    }
}

/// Calls `f` with how far each iteration of the outer loops lies from the first: in the source, and in the destination.
/// The last loop runs fastest. There are at most [`MAX_OUTER_LOOPS`].
#[inline(always)]
pub(crate) fn for_each_iteration<'a>(outer: &'a [OuterLoop], mut f: impl FnMut(isize, isize)) {
    // The two innermost loops are plain ones, for most of the time is spent there.
    let split = |loops: &'a [OuterLoop]| match loops.split_last() {
        Some((inner, outer)) => (*inner, outer),
        None => (OuterLoop { n: 1, src: 0, dst: 0 }, loops),
    };
    let (inner, outer) = split(outer);
    let (middle, outer) = split(outer);
    let mut iteration = [0; MAX_OUTER_LOOPS];
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
        let more = outer.iter().zip(&mut iteration).rev().any(|(l, iteration)| {
            *iteration += 1;
            let by = if *iteration < l.n { 1 } else { 1 - *iteration as isize };
            src = src.wrapping_add(l.src.wrapping_mul(by));
            dst = dst.wrapping_add(l.dst.wrapping_mul(by));
            *iteration = if *iteration < l.n { *iteration } else { 0 };
            by == 1
        });
        if !more {
            return;
        }
    }
}
