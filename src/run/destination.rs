//! Memory of a destination: bytes that become initialised, and ranges that are handed to threads.
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
    // execution has run all of them over the whole range to its end and zeroed the bytes between units, so each byte is
    // initialised.
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
    taken: Marks,
    finished: Marks,
    borrow: PhantomData<&'a mut [MaybeUninit<u8>]>,
}

// SAFETY: `take` hands out each range at most once, whichever thread asks, so no two threads ever hold
// overlapping bytes; bytes may be written from any thread.
unsafe impl Sync for Split<'_> {}

impl<'a> Split<'a> {
    /// Splits into ranges of `range` bytes, at least one and at most [`MAX_TASKS`] of them.
    pub(super) fn new(bytes: &'a mut [MaybeUninit<u8>], range: usize) -> Split<'a> {
        let range = range.max(bytes.len().div_ceil(MAX_TASKS)).max(1);
        let (taken, finished) = (Marks::default(), Marks::default());
        Split { at: bytes.as_mut_ptr(), len: bytes.len(), range, taken, finished, borrow: PhantomData }
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
        if self.taken.set(task) {
            return None;
        }
        let begin = task * self.range;
        let len = self.range.min(self.len - begin);
        // SAFETY: `begin + len` is at most `self.len`, so the range lies inside of the borrowed slice. Ranges of
        // different tasks do not meet, and the mark above gives each task's range out once.
        Some((begin, unsafe { std::slice::from_raw_parts_mut(self.at.add(begin), len) }))
    }

    /// Notes that a range has been written; ranges that nobody has taken stay unwritten.
    pub(super) fn finish(&self, task: usize) {
        self.finished.set(task);
    }

    /// Whether every range has been written.
    pub(super) fn all_finished(&self) -> bool {
        self.finished.count() == self.tasks()
    }
}

/// A mark for each task.
#[derive(Default)]
struct Marks([AtomicU64; MAX_TASKS / 64]);

impl Marks {
    /// Sets a mark; whether it was set before.
    fn set(&self, task: usize) -> bool {
        let bit = 1 << (task % 64);
        self.0[task / 64].fetch_or(bit, Ordering::AcqRel) & bit != 0
    }

    fn count(&self) -> usize {
        self.0.iter().map(|marks| marks.load(Ordering::Acquire).count_ones() as usize).sum()
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
        assert!(split.take(1).is_none());
        split.finish(0);
        split.finish(2);
        assert!(!split.all_finished());
        split.finish(1);
        assert!(split.all_finished());
    }
}
