//! Fetching what is read next while something else is read.

use super::cache::{CACHE_LINE, prefetch_l2};

/// A run of a source that is fetched two lines at a time, in the order in which it lies. However it is read later, memory is read in
/// one stream then: on Zen 3, lines that lie apart come at a third of the speed or less.
pub(crate) struct Ahead<'s> {
    src: &'s [u8],
    at: usize,
    /// Lines that are left.
    lines: usize,
}

impl<'s> Ahead<'s> {
    /// The run of so many bytes from byte `at` on; none if there are none.
    #[inline(always)]
    pub(crate) fn new(src: &'s [u8], at: usize, bytes: usize) -> Option<Ahead<'s>> {
        (bytes > 0).then(|| Ahead { src, at, lines: bytes.div_ceil(CACHE_LINE) })
    }

    /// Fetches two more lines, as far as there are some.
    #[inline(always)]
    pub(crate) fn fetch(&mut self) {
        if self.lines == 0 {
            return;
        }
        for at in [self.at, self.at.wrapping_add(CACHE_LINE)] {
            if let Some(byte) = self.src.get(at) {
                prefetch_l2(byte);
            }
        }
        self.at = self.at.wrapping_add(2 * CACHE_LINE);
        self.lines = self.lines.saturating_sub(2);
    }
}
