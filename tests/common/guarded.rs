//! Buffers between pages that may not be touched: what reads or writes one byte too far ends the test by a signal.

use std::ops::{Deref, DerefMut};

/// Which end of a buffer touches its guard page; the other one is at most a page away from its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    Front,
    Back,
}

impl Flush {
    pub(crate) fn other(self) -> Flush {
        if self == Flush::Front { Flush::Back } else { Flush::Front }
    }
}

/// Bytes with a guard page before and behind them.
#[cfg(all(unix, not(miri)))]
pub(crate) struct Guarded {
    map: *mut libc::c_void,
    room: usize,
    bytes: *mut u8,
    len: usize,
}

#[cfg(all(unix, not(miri)))]
impl Guarded {
    /// `len` bytes of a pattern.
    pub(crate) fn filled(len: usize, pattern: u8, flush: Flush) -> Guarded {
        use libc::{MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_NONE, PROT_READ, PROT_WRITE};
        // SAFETY: asks for a number only.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap();
        let inside = len.next_multiple_of(page);
        let room = inside + 2 * page;
        // SAFETY: a new mapping, at an address that the system chooses.
        let map =
            unsafe { libc::mmap(std::ptr::null_mut(), room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) };
        assert!(map != MAP_FAILED, "no memory for {room} bytes");
        // SAFETY: the pages between the first and the last of this mapping, which nobody else has yet.
        let allowed = unsafe { libc::mprotect(map.byte_add(page), inside, PROT_READ | PROT_WRITE) };
        assert!(inside == 0 || allowed == 0, "no access to {inside} bytes");
        let skipped = if flush == Flush::Front { 0 } else { inside - len };
        let bytes = map.cast::<u8>().wrapping_add(page + skipped);
        let mut guarded = Guarded { map, room, bytes, len };
        guarded.fill(pattern);
        guarded
    }
}

#[cfg(all(unix, not(miri)))]
impl Deref for Guarded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes of the pages that may be read and written, which live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.bytes, self.len) }
    }
}

#[cfg(all(unix, not(miri)))]
impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.bytes, self.len) }
    }
}

#[cfg(all(unix, not(miri)))]
impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, of which no borrow is left.
        unsafe { libc::munmap(self.map, self.room) };
    }
}

/// Bytes alone: here there are no guard pages, or Miri sees what they would.
#[cfg(not(all(unix, not(miri))))]
pub(crate) struct Guarded(Vec<u8>);

#[cfg(not(all(unix, not(miri))))]
impl Guarded {
    /// `len` bytes of a pattern.
    pub(crate) fn filled(len: usize, pattern: u8, _: Flush) -> Guarded {
        Guarded(vec![pattern; len])
    }
}

#[cfg(not(all(unix, not(miri))))]
impl Deref for Guarded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(not(all(unix, not(miri))))]
impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Guarded {
    /// A copy of some bytes.
    pub(crate) fn of(bytes: &[u8], flush: Flush) -> Guarded {
        let mut guarded = Guarded::filled(bytes.len(), 0, flush);
        guarded.copy_from_slice(bytes);
        guarded
    }
}
