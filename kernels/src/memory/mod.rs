//! Memory as kernels see it: which bytes a call may touch, and how they are loaded, stored and prefetched.
//!
//! Kernel bodies above are functions from fixed arrays to fixed arrays. This folder brings the bytes to them, and all of
//! the crate's loads and stores through raw pointers are here, each behind a check made once for each call.

mod ahead;
mod arrays;
mod bounds;
mod cache;
mod non_temporal;
mod panels;
mod rows;
mod squares;
mod strided;
mod strips;
mod tails;
mod whole_lines;
mod window;

use std::mem::MaybeUninit;

pub use ahead::Ahead;
pub(crate) use arrays::{ArrayOffsets, Arrays};
pub(crate) use bounds::{assert_readable, assert_writable, lies_inside};
pub use cache::prefetch;
pub(crate) use cache::{CACHE_LINE, InOnePage, LineAligned, prefetch_l1, prefetch_l2, prefetch_rows_l2};
pub use non_temporal::Destination;
pub(crate) use non_temporal::{FenceOnDrop, NonTemporal, Output, Stores};
pub(crate) use rows::{gather_rows, load_rows, scatter_rows, store_rows};
pub(crate) use squares::{Pair, REGISTER, Transpose};
pub use strided::Hints;
pub(crate) use strided::StridedCopy;
pub(crate) use window::{Elements, for_each_iteration};
pub use window::{MAX_OUTER_LOOPS, OuterLoop, Window};

/// Initialised bytes as bytes that may be uninitialised, to copy them where such are wanted.
#[inline(always)]
pub(crate) fn as_uninit(bytes: &[u8]) -> &[MaybeUninit<u8>] {
    // SAFETY: `MaybeUninit<u8>` has the layout of `u8`, and a shared borrow does not allow to uninitialise it.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}

/// Bytes as those that a kernel writes.
#[inline(always)]
pub(crate) fn as_written(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    let (at, len) = (bytes.as_mut_ptr().cast(), bytes.len());
    // SAFETY: the same memory under the same borrow; `MaybeUninit<u8>` has the layout of `u8`, and no kernel stores an
    // uninitialised byte.
    unsafe { std::slice::from_raw_parts_mut(at, len) }
}
