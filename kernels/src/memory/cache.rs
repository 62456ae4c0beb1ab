//! Cache lines: their size, and requests for them before they are read (x86-64; nothing elsewhere).

/// Bytes of a cache line.
pub(crate) const CACHE_LINE: usize = 64;

/// What begins with a cache line, as scratch of vectors should. A vector that lies in two pages takes so long to store that f32 became tiles of
/// bfloat16 at a sixth of the speed on Zen 4, in one process of sixteen, as its stack happened to lie.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct LineAligned<T>(pub(crate) T);

const _: () = assert!(align_of::<LineAligned<u8>>() == CACHE_LINE);

/// What has up to [`InOnePage::MOST`] bytes, which lie in one page: scratch of stores that begin anywhere in a line. On Zen 4 a store that
/// lies in two pages takes as long as 33 others; bfloat16 became rows of MX blocks at seven tenths of the speed, in one process of four.
#[derive(Clone, Copy)]
#[repr(align(2048))]
pub(crate) struct InOnePage<T>(pub(crate) T);

impl<T> InOnePage<T> {
    /// Its alignment divides every size of pages.
    const MOST: usize = 2048;

    /// # Panics
    /// While it is compiled, for a value of more bytes.
    #[inline(always)]
    pub(crate) fn new(value: T) -> InOnePage<T> {
        const { assert!(size_of::<T>() <= Self::MOST && align_of::<Self>() == Self::MOST) };
        InOnePage(value)
    }
}

/// Asks L2 for the cache line in which a value begins. L1 could not keep lines that are a power of two apart.
#[inline(always)]
pub(crate) fn prefetch_l2<T>(value: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    safe_arch::prefetch_t1(value);
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = value;
}

/// Asks L2 for `len` bytes of a slice from byte `at` on, as far as it has them, where the processor takes such requests.
#[inline]
pub fn prefetch(bytes: &[u8], at: usize, len: usize) {
    let wanted = bytes.get(at..).unwrap_or_default();
    wanted[..len.min(wanted.len())].chunks(CACHE_LINE).for_each(|line| prefetch_l2(&line[0]));
}

/// Asks L1 for the lines of `len` bytes of a slice from byte `at` on, a multiple of a line, as far as it has them.
#[inline(always)]
pub(crate) fn prefetch_l1(bytes: &[u8], at: usize, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let Some(bytes) = bytes.get(at..) {
        let lines = &bytes[..len.min(bytes.len())].as_chunks::<CACHE_LINE>().0;
        lines.iter().for_each(safe_arch::prefetch_t0);
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (bytes, at, len);
}

/// Asks L2 for the cache lines in which rows begin, if they all lie in the slice. L1 could not keep them where rows are a
/// power of two apart.
#[inline(always)]
pub(crate) fn prefetch_rows_l2<const R: usize>(bytes: &[u8], at: usize, step: isize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if super::bounds::lies_inside(bytes.len(), at, 1, [(R, step)]) {
        for r in 0..R as isize {
            // SAFETY: the byte was found inside the slice.
            safe_arch::prefetch_t1(unsafe { &*bytes.as_ptr().add(at).offset(r * step) });
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (bytes, at, step);
}

/// Asks L2 for the lines of runs of `len` bytes, if they all lie in the slice.
#[inline(always)]
pub(crate) fn prefetch_runs_l2(bytes: &[u8], at: usize, len: usize, (runs, step): (usize, isize)) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if runs > 0 && len > 0 && super::bounds::lies_inside(bytes.len(), at, len, [(runs, step)]) {
        let mut run = bytes.as_ptr().wrapping_add(at);
        for _ in 0..runs {
            for line in (0..len).step_by(CACHE_LINE) {
                // SAFETY: the byte was found inside of the slice.
                safe_arch::prefetch_t1(unsafe { &*run.wrapping_add(line) });
            }
            // A run that begins between two lines ends in one more.
            if !run.addr().is_multiple_of(CACHE_LINE) {
                // SAFETY: as above.
                safe_arch::prefetch_t1(unsafe { &*run.wrapping_add(len - 1) });
            }
            run = run.wrapping_offset(step);
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (bytes, at, len, runs, step);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_slice_has_not_is_not_fetched() {
        for at in [0, 99, 100, 101, usize::MAX] {
            for len in [0, 1, 64, 65, 1000, usize::MAX] {
                prefetch(&[0; 100], at, len);
            }
        }
    }
}
