//! Strided copies.

use std::mem::MaybeUninit;

use crate::mem::Move;
use crate::{Kernels, Window};

impl Kernels {
    /// Copies the `w.rows * w.cols` elements of `elem` bytes that the window names, from offsets counted from byte
    /// `src_at` of `src` to offsets counted from byte `dst_at` of `dst`. No other byte of `dst` is touched.
    ///
    /// Any `elem` works; a window without elements, or with elements of 0 bytes, does nothing. Fast are elements
    /// that lie one after another on both sides (runs), transposes of elements of 1, 2, 4 and 8 bytes (the source
    /// contiguous along one index, the destination along the other), and elements of up to 256 bytes at any stride.
    ///
    /// # Panics
    /// When a byte of the window lies outside `src` or `dst`, or `dst` is too small to hold the elements side by
    /// side; found in constant time, before anything is written.
    pub fn copy(
        &self,
        elem: usize,
        src: &[u8],
        src_at: usize,
        dst: &mut [MaybeUninit<u8>],
        dst_at: usize,
        w: &Window,
    ) {
        if let Some(on) = Move::new(elem, src, src_at, dst, dst_at, w) {
            self.table.copy(on);
        }
    }
}

#[inline(always)]
pub(crate) fn body(on: Move<'_>) {
    on.each_any();
}

#[cfg(test)]
pub(crate) mod sweep {
    use super::*;
    pub(crate) fn sweep(_tested: &Kernels, _rule: &Kernels) {}
}
