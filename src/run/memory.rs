//! The unsafe facts of execution: initialised bytes, and destination ranges handed to threads.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

/// The same bytes, as a destination for kernels, which write initialised bytes only.
pub(super) fn writable(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    let (at, len) = (bytes.as_mut_ptr().cast(), bytes.len());
    // SAFETY: the same memory under the same borrow; `MaybeUninit<u8>` has the layout of `u8`. No code of
    // this crate or of the kernels stores an uninitialised byte.
    unsafe { std::slice::from_raw_parts_mut(at, len) }
}

/// The bytes of a destination, or of a chunk of it, that a plan has written.
pub(super) fn written(bytes: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    let (at, len) = (bytes.as_mut_ptr().cast(), bytes.len());
    // SAFETY: the same memory under the same borrow. V1: the plan's nests cover every byte of every unit, and
    // execution runs all of them over the whole range and zeroes the bytes between units, so each byte is initialised.
    unsafe { std::slice::from_raw_parts_mut(at, len) }
}

/// The most tasks one execution is split into.
pub(super) const MAX_TASKS: usize = 1024;

/// A destination split into ranges, each handed out once.
pub(super) struct Split<'a> {
    at: *mut MaybeUninit<u8>,
    len: usize,
    /// Bytes of each range but the last.
    range: usize,
    taken: [AtomicU64; MAX_TASKS / 64],
    borrow: PhantomData<&'a mut [MaybeUninit<u8>]>,
}

// SAFETY: `take` hands out each range at most once, whichever thread asks, so no two threads ever hold
// overlapping bytes; bytes may be written from any thread.
unsafe impl Sync for Split<'_> {}

impl<'a> Split<'a> {
    /// Splits into ranges of `range` bytes, at least one and at most [`MAX_TASKS`] of them.
    pub(super) fn new(bytes: &'a mut [MaybeUninit<u8>], range: usize) -> Split<'a> {
        let range = range.max(bytes.len().div_ceil(MAX_TASKS)).max(1);
        let taken = std::array::from_fn(|_| AtomicU64::new(0));
        Split { at: bytes.as_mut_ptr(), len: bytes.len(), range, taken, borrow: PhantomData }
    }

    /// How many ranges there are.
    pub(super) fn tasks(&self) -> usize {
        self.len.div_ceil(self.range)
    }

    /// The first byte of a range and the range itself; none if it was taken before, or there is none.
    #[allow(clippy::mut_from_ref)]
    pub(super) fn take(&self, task: usize) -> Option<(usize, &'a mut [MaybeUninit<u8>])> {
        if task >= self.tasks() {
            return None;
        }
        let bit = 1 << (task % 64);
        if self.taken[task / 64].fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return None;
        }
        let begin = task * self.range;
        let len = self.range.min(self.len - begin);
        // SAFETY: `begin + len` is at most `self.len`, so the range lies inside of the borrowed slice. Ranges of
        // different tasks do not meet, and the bit above gives each task's range out once.
        Some((begin, unsafe { std::slice::from_raw_parts_mut(self.at.add(begin), len) }))
    }

    /// Whether every range has been taken.
    pub(super) fn all_taken(&self) -> bool {
        let taken: u32 = self.taken.iter().map(|t| t.load(Ordering::Relaxed).count_ones()).sum();
        taken as usize == self.tasks()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_range_is_handed_out_once() {
        let mut bytes = [MaybeUninit::new(0_u8); 10];
        let split = Split::new(&mut bytes, 4);
        assert_eq!(split.tasks(), 3);
        let lens: Vec<_> = (0..4).map(|t| split.take(t).map(|(at, r)| (at, r.len()))).collect();
        assert_eq!(lens, [Some((0, 4)), Some((4, 4)), Some((8, 2)), None]);
        assert!(split.take(1).is_none() && split.all_taken());
    }
}
