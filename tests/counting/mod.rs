//! How many times a thread allocates.

use std::alloc::{GlobalAlloc, Layout as Place, System};
use std::cell::Cell;

/// The system's allocator, which counts what each thread asks of it.
struct Counting;

thread_local! {
    pub(crate) static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending no longer counts.
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: each call is handed on to the system's allocator as it came; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, place: Place) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are those that `System` wants.
        unsafe { System.alloc(place) }
    }

    unsafe fn alloc_zeroed(&self, place: Place) -> *mut u8 {
        count();
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(place) }
    }

    unsafe fn realloc(&self, at: *mut u8, place: Place, size: usize) -> *mut u8 {
        count();
        // SAFETY: as in `alloc`.
        unsafe { System.realloc(at, place, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, place: Place) {
        // SAFETY: as in `alloc`.
        unsafe { System.dealloc(at, place) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many times this thread allocates meanwhile.
pub(crate) fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}
