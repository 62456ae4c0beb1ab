//! Copies of several runs of bytes, as a block assembled in L1 leaves it.

use std::mem::MaybeUninit;

use crate::memory::{Destination, NonTemporal, as_uninit};

/// A run of bytes: where it begins in what is copied, and in the destination, counted from where all begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Byte of the source where it begins.
    pub from: usize,
    /// Byte of the destination where it begins.
    pub to: isize,
    /// Its number of bytes.
    pub len: usize,
}

/// Copies the segments with the stores that the destination has.
///
/// # Panics
/// When a segment leaves the source or the destination; those before it are written.
pub(crate) fn copy(src: &[u8], segments: &[Segment], dst: &mut Destination<'_>, dst_at: usize) {
    let (stores, pending, dst) = dst.parts();
    *pending |= stores.is_some();
    match stores {
        None => each(src, segments, dst, dst_at, |from, to| to.copy_from_slice(from)),
        Some(NonTemporal::Sse(stores)) => {
            each(src, segments, dst, dst_at, |from, to| stores.copy(from, to));
            stores.end();
        }
        Some(NonTemporal::Avx(stores)) => {
            each(src, segments, dst, dst_at, |from, to| stores.copy(from, to));
            stores.end();
        }
    }
}

/// Calls `copy` with the bytes of each segment and the bytes that they become.
#[inline(always)]
fn each(
    src: &[u8],
    segments: &[Segment],
    dst: &mut [MaybeUninit<u8>],
    dst_at: usize,
    copy: impl Fn(&[MaybeUninit<u8>], &mut [MaybeUninit<u8>]),
) {
    for segment @ &Segment { from, to, len } in segments {
        let (at, capacity) = (dst_at.wrapping_add_signed(to), dst.len());
        let from = src.get(from..).and_then(|src| src.get(..len));
        let to = dst.get_mut(at..).and_then(|dst| dst.get_mut(..len));
        let (Some(from), Some(to)) = (from, to) else {
            panic!(
                "{len} bytes from byte {at} leave a destination of {capacity} bytes, or {segment:?} its source"
            );
        };
        copy(as_uninit(from), to);
    }
}
