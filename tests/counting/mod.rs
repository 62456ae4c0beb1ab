//! What a thread takes of memory: how many times it allocates, and how many bytes it holds at once; and what all threads hold.

use std::alloc::{GlobalAlloc, Layout as Place, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, which counts what each thread asks of it.
struct Counting;

thread_local! {
    pub(crate) static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

/// Bytes that the process holds, whichever thread took them.
static HELD_BY_ALL: AtomicUsize = AtomicUsize::new(0);

/// Counts bytes that come, and bytes that go. A thread that is ending no longer counts by itself.
fn count(come: usize, go: usize) {
    HELD_BY_ALL.fetch_add(come.wrapping_sub(go), Ordering::Relaxed);
    if come > 0 {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
    }
    let _ = HELD.try_with(|held| {
        held.set(held.get().saturating_add(come).saturating_sub(go));
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: each call is handed on to the system's allocator as it came; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, place: Place) -> *mut u8 {
        count(place.size(), 0);
        // SAFETY: the caller's promises are those that `System` wants.
        unsafe { System.alloc(place) }
    }

    unsafe fn alloc_zeroed(&self, place: Place) -> *mut u8 {
        count(place.size(), 0);
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(place) }
    }

    unsafe fn realloc(&self, at: *mut u8, place: Place, size: usize) -> *mut u8 {
        // Both may be there at once.
        count(size, 0);
        count(0, place.size());
        // SAFETY: as in `alloc`.
        unsafe { System.realloc(at, place, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, place: Place) {
        count(0, place.size());
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

/// The most bytes that this thread holds at once meanwhile, beside those that it held before.
#[allow(dead_code)]
pub(crate) fn most_held(work: impl FnOnce()) -> usize {
    let before = HELD.get();
    PEAK.set(before);
    work();
    PEAK.get() - before
}

/// Bytes that the process holds, whichever thread took them.
#[allow(dead_code)]
pub(crate) fn held_by_all() -> usize {
    HELD_BY_ALL.load(Ordering::Relaxed)
}
