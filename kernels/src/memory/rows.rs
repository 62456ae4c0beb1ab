//! A few equal rows at a fixed stride, loaded into arrays or stored from them after one check for all.

use std::mem::MaybeUninit;

use super::bounds::lies_inside;

/// `R` rows of `M` elements of `N` bytes: the first is at byte `at`, each further one `step` bytes on.
///
/// # Panics
/// When one leaves the slice.
#[inline(always)]
pub(crate) fn load_rows<const N: usize, const M: usize, const R: usize>(
    bytes: &[u8],
    at: usize,
    step: isize,
) -> [[[u8; N]; M]; R] {
    assert!(lies_inside(bytes.len(), at, N * M, [(R, step)]), "rows leave a slice of {} bytes", bytes.len());
    let mut rows = [[[0; N]; M]; R];
    for (r, row) in rows.iter_mut().enumerate() {
        // SAFETY: the row was found inside the slice; an array of bytes has no alignment.
        *row = unsafe { bytes.as_ptr().add(at).offset(r as isize * step).cast::<[[u8; N]; M]>().read() };
    }
    rows
}

/// Brings rows of `N` bytes together: the first is at byte `at`, each further one `step` bytes on.
///
/// # Panics
/// When one leaves the slice.
#[inline(always)]
pub(crate) fn gather_rows<const N: usize>(bytes: &[u8], at: usize, step: isize, rows: &mut [[u8; N]]) {
    assert!(
        lies_inside(bytes.len(), at, N, [(rows.len(), step)]),
        "rows leave a slice of {} bytes",
        bytes.len()
    );
    for (r, row) in rows.iter_mut().enumerate() {
        // SAFETY: the row was found inside the slice; an array of bytes has no alignment.
        *row = unsafe { bytes.as_ptr().add(at).offset(r as isize * step).cast::<[u8; N]>().read() };
    }
}

/// Puts rows where [`gather_rows`] would find them.
///
/// # Panics
/// When one leaves the slice.
#[inline(always)]
pub(crate) fn scatter_rows<const N: usize>(
    rows: &[[u8; N]],
    bytes: &mut [MaybeUninit<u8>],
    at: usize,
    step: isize,
) {
    assert!(
        lies_inside(bytes.len(), at, N, [(rows.len(), step)]),
        "rows leave a slice of {} bytes",
        bytes.len()
    );
    for (r, row) in rows.iter().enumerate() {
        // SAFETY: the row was found inside the slice; an array of bytes has no alignment.
        unsafe { bytes.as_mut_ptr().add(at).offset(r as isize * step).cast::<[u8; N]>().write(*row) };
    }
}

/// Stores rows where [`load_rows`] would find them.
///
/// # Panics
/// When one leaves the slice.
#[inline(always)]
pub(crate) fn store_rows<const N: usize, const M: usize, const R: usize>(
    rows: &[[[u8; N]; M]; R],
    bytes: &mut [MaybeUninit<u8>],
    at: usize,
    step: isize,
) {
    assert!(lies_inside(bytes.len(), at, N * M, [(R, step)]), "rows leave a slice of {} bytes", bytes.len());
    for (r, row) in rows.iter().enumerate() {
        // SAFETY: the row was found inside the slice; an array of bytes has no alignment.
        unsafe { bytes.as_mut_ptr().add(at).offset(r as isize * step).cast::<[[u8; N]; M]>().write(*row) };
    }
}
