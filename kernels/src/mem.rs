//! The one place where kernels load and store: drivers that walk a validated window.
//!
//! A kernel body is a function from fixed arrays to fixed arrays; the drivers here bring the bytes.

use std::mem::MaybeUninit;

use crate::Window;
use crate::window::lies_inside;

/// A [`Window`] together with the slices it lies in.
///
/// Fact M1, cited by the unsafe blocks below: for every r < `window.rows` and c < `window.cols`, the `elem` bytes
/// from `src_at + r * src_row + c * src_col` lie in `src`, and those from `dst_at + r * dst_row + c * dst_col` in
/// `dst`. [`Move::new`] establishes it, and the methods that return another `Move` keep the set of bytes.
pub(crate) struct Move<'a> {
    elem: usize,
    src: &'a [u8],
    src_at: usize,
    dst: &'a mut [MaybeUninit<u8>],
    dst_at: usize,
    window: Window,
}

impl<'a> Move<'a> {
    /// Checks the window against the slices, in constant time. `None` when there is nothing to move.
    ///
    /// # Panics
    /// When a byte of the window lies outside its slice, or the destination has no room for that many elements.
    pub(crate) fn new(
        elem: usize,
        src: &'a [u8],
        src_at: usize,
        dst: &'a mut [MaybeUninit<u8>],
        dst_at: usize,
        window: &Window,
    ) -> Option<Move<'a>> {
        let w = window;
        if w.is_empty(elem) {
            return None;
        }

        assert!(
            lies_inside(src.len(), src_at, elem, (w.rows, w.src_row), (w.cols, w.src_col)),
            "elements of {elem} bytes of {w:?} from byte {src_at} leave a source of {} bytes",
            src.len()
        );
        assert!(
            lies_inside(dst.len(), dst_at, elem, (w.rows, w.dst_row), (w.cols, w.dst_col)),
            "elements of {elem} bytes of {w:?} from byte {dst_at} leave a destination of {} bytes",
            dst.len()
        );
        // Elements that do not overlap fit; this also bounds the work by the destination when strides are 0.
        assert!(
            w.rows
                .checked_mul(w.cols)
                .and_then(|n| n.checked_mul(elem))
                .is_some_and(|bytes| bytes <= dst.len()),
            "elements of {elem} bytes of {w:?} do not fit side by side in a destination of {} bytes",
            dst.len()
        );
        Some(Move { elem, src, src_at, dst, dst_at, window: *w })
    }

    /// Bytes of an element.
    #[inline(always)]
    pub(crate) fn elem(&self) -> usize {
        self.elem
    }

    /// The window.
    #[inline(always)]
    pub(crate) fn window(&self) -> Window {
        self.window
    }

    /// The source and the offset of element (0, 0) in it; the same for the destination.
    pub(crate) fn into_slices(self) -> (&'a [u8], usize, &'a mut [MaybeUninit<u8>], usize) {
        (self.src, self.src_at, self.dst, self.dst_at)
    }

    /// The same move with the roles of rows and columns exchanged.
    #[inline(always)]
    pub(crate) fn swapped(self) -> Move<'a> {
        Move { window: self.window.swapped(), ..self }
    }

    /// Calls `f` with the places of each element, columns within rows.
    #[inline(always)]
    fn for_each(self, f: impl Fn(*const u8, *mut u8)) {
        let w = self.window;
        let (src, dst) = (self.src.as_ptr(), self.dst.as_mut_ptr().cast::<u8>());
        for r in 0..w.rows as isize {
            for c in 0..w.cols as isize {
                // SAFETY: M1: both places are inside their slices. No product or sum overflows, as each is the
                // distance of two places in one slice; `rows` and `cols` fit `isize`, as they fit `dst` side by side.
                unsafe {
                    f(
                        src.offset(self.src_at as isize + r * w.src_row + c * w.src_col),
                        dst.offset(self.dst_at as isize + r * w.dst_row + c * w.dst_col),
                    )
                }
            }
        }
    }

    /// Copies each element as a whole.
    #[inline(always)]
    pub(crate) fn each_any(self) {
        let elem = self.elem;
        // SAFETY: M1; source and destination are a shared and a unique borrow, so they do not overlap.
        self.for_each(|src, dst| unsafe { dst.copy_from_nonoverlapping(src, elem) });
    }
}
