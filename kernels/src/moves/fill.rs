//! Fills with a repeated pattern.

use std::mem::MaybeUninit;

use crate::level::Level;
use crate::memory::{CACHE_LINE, as_uninit, assert_writable};

/// Equal runs of at least one byte in a destination, which [`Runs::new`] has found to lie inside.
pub(crate) struct Runs<'a> {
    dst: &'a mut [MaybeUninit<u8>],
    dst_at: usize,
    rows: usize,
    dst_row: isize,
    len: usize,
}

impl<'a> Runs<'a> {
    /// `rows` runs of `len` bytes, the first from byte `dst_at`, each `dst_row` bytes after the one before. `None` when there
    /// is nothing to fill.
    ///
    /// # Panics
    /// When a run leaves the destination, or the runs do not fit into it side by side.
    pub(crate) fn new(
        dst: &'a mut [MaybeUninit<u8>],
        dst_at: usize,
        rows: usize,
        dst_row: isize,
        len: usize,
    ) -> Option<Runs<'a>> {
        if rows == 0 || len == 0 {
            return None;
        }
        assert_writable(dst.len(), dst_at, len, [(rows, dst_row)].into_iter());
        Some(Runs { dst, dst_at, rows, dst_row, len })
    }

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
pub(crate) fn body(_level: impl Level, pattern: &[u8], runs: Runs<'_>) {
    // Runs that meet where a pattern ends are one run.
    let runs = if runs.dst_row == runs.len as isize && runs.len.is_multiple_of(pattern.len()) {
        Runs { len: runs.rows * runs.len, rows: 1, ..runs }
    } else {
        runs
    };
    if pattern.iter().all(|&byte| byte == pattern[0]) {
        runs.for_each(|run| run.fill(MaybeUninit::new(pattern[0])));
    } else if CACHE_LINE.is_multiple_of(pattern.len()) {
        let mut line = [0; CACHE_LINE];
        line.chunks_exact_mut(pattern.len()).for_each(|part| part.copy_from_slice(pattern));
        let line = as_uninit(&line);
        runs.for_each(|run| {
            let mut parts = run.chunks_exact_mut(CACHE_LINE);
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

/// Byte i of every run is byte i of the pattern repeated without end.
pub(crate) fn scalar(pattern: &[u8], runs: Runs<'_>) {
    runs.for_each(|run| {
        for (i, byte) in run.iter_mut().enumerate() {
            byte.write(pattern[i % pattern.len()]);
        }
    });
}
