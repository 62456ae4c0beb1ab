//! Fetching what is read next while something else is read or written.

use super::cache::{CACHE_LINE, prefetch_l2};

/// Rows of a source that are fetched two lines at a time, in the order in which they lie. However they are read later, memory is read
/// in one stream then: on Zen 3, lines that lie apart come at a third of the speed or less.
#[derive(Debug)]
pub struct Ahead<'s> {
    src: &'s [u8],
    at: usize,
    /// Lines of a row, and how many of this one are left.
    row_lines: usize,
    lines: usize,
    /// Rows that are left behind this one, and how far each is from the end of the one before.
    rows: usize,
    gap: isize,
}

impl<'s> Ahead<'s> {
    /// The run of so many bytes from byte `at` on; none if there are none.
    #[inline(always)]
    pub(crate) fn new(src: &'s [u8], at: usize, bytes: usize) -> Option<Ahead<'s>> {
        Ahead::of_rows(src, at, bytes, 1, 0)
    }

    /// `rows` of `bytes` each, as far as `src` has them: the first from byte `at` on, each further one `step` bytes behind. None if
    /// there are none.
    #[inline(always)]
    pub fn of_rows(src: &'s [u8], at: usize, bytes: usize, rows: usize, step: isize) -> Option<Ahead<'s>> {
        let lines = bytes.div_ceil(CACHE_LINE);
        let gap = step.wrapping_sub_unsigned(lines.wrapping_mul(CACHE_LINE));
        (lines > 0 && rows > 0).then(|| Ahead { src, at, row_lines: lines, lines, rows: rows - 1, gap })
    }

    /// Fetches two more lines, as far as there are some.
    #[inline(always)]
    pub(crate) fn fetch(&mut self) {
        if self.lines == 0 {
            if self.rows == 0 {
                return;
            }
            self.rows -= 1;
            (self.at, self.lines) = (self.at.wrapping_add_signed(self.gap), self.row_lines);
        }
        for at in [self.at, self.at.wrapping_add(CACHE_LINE)] {
            if let Some(byte) = self.src.get(at) {
                prefetch_l2(byte);
            }
        }
        let lines = self.lines.min(2);
        self.at = self.at.wrapping_add(lines * CACHE_LINE);
        self.lines -= lines;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often it must be asked until nothing is left.
    fn times(mut ahead: Ahead<'_>) -> usize {
        let mut times = 0;
        while ahead.lines > 0 || ahead.rows > 0 {
            ahead.fetch();
            times += 1;
        }
        times
    }

    #[test]
    fn rows_are_fetched_two_lines_at_a_time() {
        let src = [0; 1000];
        let of = |bytes, rows, step| Ahead::of_rows(&src, 0, bytes, rows, step).map(times);
        assert_eq!((of(64, 1, 0), of(256, 3, 300), of(192, 3, -7)), (Some(1), Some(6), Some(6)));
        assert!(of(0, 3, 64).is_none() && of(64, 0, 64).is_none());
    }

    #[test]
    fn a_row_begins_a_step_behind_the_one_before() {
        let src = [0; 1000];
        let mut ahead = Ahead::of_rows(&src, 100, 200, 3, 300).unwrap();
        let begins: Vec<usize> = (0..6)
            .map(|_| {
                ahead.fetch();
                ahead.at
            })
            .collect();
        // Four lines of each row, two at a time.
        assert_eq!(begins, [228, 356, 528, 656, 828, 956]);
    }

    #[test]
    fn what_a_source_has_not_is_not_fetched() {
        for (at, step) in [(0, isize::MIN), (usize::MAX, isize::MAX), (99, -100), (usize::MAX - 64, 64)] {
            assert_eq!(Ahead::of_rows(&[0; 100], at, 128, 5, step).map(times), Some(5));
        }
    }
}
