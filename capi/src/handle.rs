//! Handles: what the opaque pointers of the caller point to.

use crate::border::{Failure, Result};
use crate::types::*;

/// An opaque type of the header.
pub(crate) trait Opaque {
    /// What there is behind a pointer to it.
    type Inner;
    /// What it begins with, so that other memory is not taken for one.
    const MARK: u64;
    /// What an argument of the type is called.
    const NAME: &str;
    /// The function that makes one.
    const MAKER: &str;
}

#[repr(C)]
struct Marked<T> {
    mark: u64,
    inner: T,
}

/// A new handle, which belongs to the caller until [`free`].
pub(crate) fn new<H: Opaque>(inner: H::Inner) -> *mut H {
    Box::into_raw(Box::new(Marked { mark: H::MARK, inner })).cast()
}

/// What is behind a handle.
///
/// # Safety
/// Where not NULL, `handle` is as the header says, during `'a`.
pub(crate) unsafe fn inner<'a, H: Opaque>(handle: *const H) -> Result<&'a H::Inner> {
    let name = H::NAME;
    if handle.is_null() {
        return Err(Failure::new(TW_NULL, format!("{name} is NULL")));
    }
    let handle = handle.cast::<Marked<H::Inner>>();
    if !handle.is_aligned() {
        return Err(Failure::new(TW_MISALIGNED, format!("{name} is not aligned")));
    }
    // SAFETY: not NULL, aligned, and of the caller; only the mark is read before it is known to be one of ours.
    if unsafe { handle.cast::<u64>().read() } != H::MARK {
        return Err(Failure::new(TW_HANDLE, format!("{name} is not one that {} made", H::MAKER)));
    }
    // SAFETY: made by `new`, and nothing writes to it but what is behind locks.
    Ok(unsafe { &(*handle).inner })
}

/// Frees a handle; one that is NULL is none.
///
/// # Safety
/// As for [`inner`], and nothing uses the handle any more.
pub(crate) unsafe fn free<H: Opaque>(handle: *mut H) -> Result<()> {
    if handle.is_null() {
        return Ok(());
    }
    // SAFETY: passed on.
    unsafe { inner(handle) }?;
    let handle = handle.cast::<Marked<H::Inner>>();
    // SAFETY: made by `new`, and of this call alone.
    unsafe {
        retire(handle);
        drop(Box::from_raw(handle));
    }
    Ok(())
}

/// Makes a handle that is about to be freed one that is not known any more.
///
/// # Safety
/// `handle` is a valid one that nothing else uses.
unsafe fn retire<T>(handle: *mut Marked<T>) {
    // SAFETY: as above. Volatile, as the compiler may leave out a store to memory that is freed next.
    unsafe { (&raw mut (*handle).mark).write_volatile(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Number(());

    impl Opaque for Number {
        type Inner = i32;
        const MARK: u64 = 0x7477_5f74_6573_7431;
        const NAME: &str = "number";
        const MAKER: &str = "this test";
    }

    #[test]
    fn a_handle_that_is_retired_is_none() {
        let at = new::<Number>(7);
        // SAFETY: a handle of this test, which outlives its use.
        let known = || unsafe { inner(at) }.ok().copied();
        assert_eq!(known(), Some(7));
        // SAFETY: nothing else uses it.
        unsafe { retire(at.cast::<Marked<i32>>()) };
        assert_eq!(known(), None);
        // SAFETY: made by `new`, which `free` would not know any more.
        drop(unsafe { Box::from_raw(at.cast::<Marked<i32>>()) });
    }
}
