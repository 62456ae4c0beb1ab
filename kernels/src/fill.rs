//! Fills with a repeated pattern.

use std::mem::MaybeUninit;

use crate::Kernels;
use crate::mem::as_uninit;
use crate::window::lies_inside;

impl Kernels {
    /// Writes `rows` runs of `len` bytes, the first from byte `dst_at` of `dst`, each `dst_row` bytes after the one
    /// before. Every run is `pattern` repeated from the run's start and cut at its end.
    ///
    /// Without rows, or with runs of 0 bytes, does nothing.
    ///
    /// # Panics
    /// When the pattern is empty, a byte of a run lies outside `dst`, or `dst` is too small to hold the runs side by
    /// side; found in constant time, before anything is written.
    #[inline]
    pub fn fill(
        &self,
        pattern: &[u8],
        dst: &mut [MaybeUninit<u8>],
        dst_at: usize,
        rows: usize,
        dst_row: isize,
        len: usize,
    ) {
        assert!(!pattern.is_empty(), "a pattern of 0 bytes fills nothing");
        if rows == 0 || len == 0 {
            return;
        }
        assert!(
            lies_inside(dst.len(), dst_at, len, (rows, dst_row), (1, 0)),
            "{rows} runs of {len} bytes, {dst_row} apart, from byte {dst_at} leave a destination of {} bytes",
            dst.len()
        );
        assert!(
            rows.checked_mul(len).is_some_and(|bytes| bytes <= dst.len()),
            "{rows} runs of {len} bytes do not fit side by side in a destination of {} bytes",
            dst.len()
        );
        self.table.fill(pattern, Runs { dst, dst_at, rows, dst_row, len });
    }
}

/// Equal runs of at least one byte in a destination; [`Kernels::fill`] has checked that they lie inside.
pub(crate) struct Runs<'a> {
    dst: &'a mut [MaybeUninit<u8>],
    dst_at: usize,
    rows: usize,
    dst_row: isize,
    len: usize,
}

impl Runs<'_> {
    /// Calls `f` with each run.
    #[inline(always)]
    pub(crate) fn for_each(self, f: impl Fn(&mut [MaybeUninit<u8>])) {
        for r in 0..self.rows as isize {
            let at = self.dst_at.wrapping_add_signed(r * self.dst_row);
            f(&mut self.dst[at..][..self.len]);
        }
    }
}

/// Patterns that fit a cache line a whole number of times are stored line by line, one repeated byte by `memset`,
/// longer ones by doubling what is already written.
#[inline(always)]
pub(crate) fn body(pattern: &[u8], runs: Runs<'_>) {
    const LINE: usize = 64;
    // Runs that meet where a pattern ends are one run.
    let runs = if runs.dst_row == runs.len as isize && runs.len.is_multiple_of(pattern.len()) {
        Runs { len: runs.rows * runs.len, rows: 1, ..runs }
    } else {
        runs
    };
    if pattern.iter().all(|&byte| byte == pattern[0]) {
        runs.for_each(|run| run.fill(MaybeUninit::new(pattern[0])));
    } else if LINE.is_multiple_of(pattern.len()) {
        let mut line = [0; LINE];
        line.chunks_exact_mut(pattern.len()).for_each(|part| part.copy_from_slice(pattern));
        let line = as_uninit(&line);
        runs.for_each(|run| {
            let mut parts = run.chunks_exact_mut(LINE);
            parts.by_ref().for_each(|part| part.copy_from_slice(line));
            let rest = parts.into_remainder();
            rest.copy_from_slice(&line[..rest.len()]);
        });
    } else {
        runs.for_each(|run| {
            let mut done = pattern.len().min(run.len());
            run[..done].copy_from_slice(as_uninit(&pattern[..done]));
            while done < run.len() {
                let more = done.min(run.len() - done);
                run.copy_within(..more, done);
                done += more;
            }
        });
    }
}

#[cfg(test)]
pub(crate) mod sweep {
    use super::*;
    use crate::copy::sweep::sampled;
    use crate::mem::assume_written;

    /// Patterns of every path, and runs from nothing to past two lines, chained, apart, and going down.
    pub(crate) fn sweep(tested: &Kernels, rule: &Kernels) {
        for size in [1, 2, 3, 4, 7, 8, 16, 24, 32, 64, 65, 100, 128, 200] {
            let varied: Vec<u8> =
                (0..size as u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect();
            for pattern in [varied, vec![0xA5; size]] {
                for len in sampled(0, 200) {
                    for (rows, gap) in [(0, 0), (1, 0), (2, 0), (3, 0), (3, 5)] {
                        let up = (len + gap) as isize;
                        same(tested, rule, &pattern, rows, up, len);
                        same(tested, rule, &pattern, rows, -up, len);
                    }
                }
            }
        }
    }

    fn same(tested: &Kernels, rule: &Kernels, pattern: &[u8], rows: usize, dst_row: isize, len: usize) {
        const MARGIN: usize = 70;
        let reach = rows.saturating_sub(1) * dst_row.unsigned_abs();
        let at = MARGIN + if dst_row < 0 { reach } else { 0 };
        let run = |kernels: &Kernels, before: u8| {
            let mut dst = vec![MaybeUninit::new(before); reach + len + 2 * MARGIN];
            kernels.fill(pattern, &mut dst, at, rows, dst_row, len);
            assume_written(dst)
        };
        for before in [0x00, 0xFF] {
            let (got, want) = (run(tested, before), run(rule, before));
            let isa = tested.isa().name();
            assert!(got == want, "{isa} fill of {rows} runs of {len}, {dst_row} apart, with {pattern:?}");
        }
    }
}
