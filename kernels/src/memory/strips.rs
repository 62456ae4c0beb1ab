//! Rows of a destination that are made a strip at a time: a few lines of each of some rows are put together in L1, and leave it
//! by non-temporal stores, each line whole.
//!
//! Rows may begin and end anywhere in a line. A strip of such rows is made a line wider than what is stored of it, so that
//! what is stored of each row can end where a line does; the next strip begins there.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::bounds::lies_inside;
use super::cache::CACHE_LINE;
use super::non_temporal::{STORE_BYTES, Stores};

/// Bytes of a strip's part of some rows, and the most of them.
const SCRATCH: usize = 16 << 10;

/// Whole lines.
#[repr(align(64))]
struct Scratch([MaybeUninit<u8>; SCRATCH]);

/// The rows of a destination: `rows` runs of `cols` elements of `elem` bytes, the first at byte `at`, each further one `step`
/// bytes on.
pub(crate) struct Rows<'d> {
    pub(crate) dst: &'d mut [MaybeUninit<u8>],
    pub(crate) at: usize,
    pub(crate) step: isize,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) elem: usize,
}

/// The rows that are made together: how many at first, how many of each further time, and the fewest that can be made.
#[derive(Clone, Copy)]
pub(crate) struct Together {
    pub(crate) first: usize,
    pub(crate) each: usize,
    pub(crate) least: usize,
}

/// Writes the rows in strips of about `bytes` bytes. `make` gets some rows, some columns of them, room, and how far apart rows
/// are there, and puts their elements into the room, those of a row one after another; it may be asked for the same ones
/// again.
///
/// # Panics
/// When a row leaves the destination, an element is no part of a line, or there are fewer rows than the least.
#[inline(always)]
pub(crate) fn write<const AVX: bool>(
    stores: Stores<AVX>,
    on: Rows<'_>,
    together: Together,
    bytes: usize,
    mut make: impl FnMut(Range<usize>, Range<usize>, &mut [MaybeUninit<u8>], usize),
) {
    let Rows { dst, at, step, rows, cols, elem } = on;
    let Together { first, each, least } = together;
    assert!(
        CACHE_LINE.is_multiple_of(elem)
            && least <= rows
            && least <= each
            && each <= SCRATCH / (2 * CACHE_LINE)
    );
    let line = CACHE_LINE / elem;
    // What the rows of one strip have room for, with a line behind each.
    let most = SCRATCH / each / CACHE_LINE - 1;
    let lines = (bytes / CACHE_LINE).clamp(1, most);
    let (strip, pitch) = (lines * line, (lines + 1) * CACHE_LINE);
    let begin = dst.as_ptr().addr().wrapping_add(at);
    let aligned = begin.is_multiple_of(CACHE_LINE) && step.unsigned_abs().is_multiple_of(CACHE_LINE);
    let behind = if aligned { 0 } else { line };
    let mut scratch = Scratch([MaybeUninit::uninit(); SCRATCH]);
    let Scratch(scratch) = &mut scratch;
    let mut col = 0;
    loop {
        let left = cols - col;
        let is_last = left < strip + line;
        let made = if is_last { left } else { strip + behind };
        let (mut row, mut count) = (0, if first < least { each } else { first.min(each) });
        while row < rows {
            let end = (row + count).min(rows);
            let some = row.min(end.saturating_sub(least))..end;
            let to =
                at.wrapping_add_signed((some.start as isize).wrapping_mul(step)).wrapping_add(col * elem);
            let count_made = some.len();
            make(some, col..col + made, scratch, pitch);
            let part = Part { to, step, rows: count_made, pitch };
            if is_last {
                part.store_ends(stores, scratch, dst, if col == 0 { 0 } else { CACHE_LINE }, left * elem);
            } else {
                if col == 0 && !aligned {
                    part.store_beginnings(scratch, dst);
                }
                part.store_lines(stores, scratch, dst, lines, aligned);
            }
            (row, count) = (end, each);
        }
        if is_last {
            return;
        }
        col += strip;
    }
}

/// Rows of a strip: where the first one goes, how far apart they are there and in the scratch, and how many there are.
#[derive(Clone, Copy)]
struct Part {
    to: usize,
    step: isize,
    rows: usize,
    pitch: usize,
}

impl Part {
    /// Where a row goes, and how many bytes of it lie before its first line.
    #[inline(always)]
    fn row(&self, dst: &[MaybeUninit<u8>], row: usize) -> (usize, usize) {
        let to = self.to.wrapping_add_signed((row as isize).wrapping_mul(self.step));
        (to, dst.as_ptr().addr().wrapping_add(to).wrapping_neg() % CACHE_LINE)
    }

    /// Stores what each row has before its first line.
    #[inline(always)]
    fn store_beginnings(self, scratch: &[MaybeUninit<u8>], dst: &mut [MaybeUninit<u8>]) {
        for row in 0..self.rows {
            let (to, before) = self.row(dst, row);
            dst[to..][..before].copy_from_slice(&scratch[row * self.pitch..][..before]);
        }
    }

    /// Stores rows of `bytes` bytes to their ends, from their first byte, or from their first line where `before` is a line.
    #[inline(always)]
    fn store_ends<const AVX: bool>(
        self,
        stores: Stores<AVX>,
        scratch: &[MaybeUninit<u8>],
        dst: &mut [MaybeUninit<u8>],
        before: usize,
        bytes: usize,
    ) {
        for row in 0..self.rows {
            let (to, to_line) = self.row(dst, row);
            let from = to_line.min(before).min(bytes);
            stores.copy(&scratch[row * self.pitch..][from..bytes], &mut dst[to..][from..bytes]);
        }
    }

    /// Stores `lines` lines of each row, from its first one on; `aligned`: rows begin with one.
    #[inline(always)]
    fn store_lines<const AVX: bool>(
        self,
        stores: Stores<AVX>,
        scratch: &[MaybeUninit<u8>],
        dst: &mut [MaybeUninit<u8>],
        lines: usize,
        aligned: bool,
    ) {
        let Part { to, step, rows, pitch } = self;
        let behind = if aligned { 0 } else { CACHE_LINE - 1 };
        let bytes = lines * CACHE_LINE;
        assert!(
            lies_inside(dst.len(), to, bytes + behind, [(rows, step)])
                && lies_inside(scratch.len(), 0, bytes + behind, [(rows, pitch as isize)]),
            "{rows} rows of {bytes} bytes {step} bytes apart from byte {to} leave a destination of {} bytes",
            dst.len()
        );
        for row in 0..rows {
            let (to, before) = if aligned {
                (to.wrapping_add_signed((row as isize).wrapping_mul(step)), 0)
            } else {
                self.row(dst, row)
            };
            for at in (0..bytes).step_by(STORE_BYTES) {
                // SAFETY: less than a line from where a row was found to have so many bytes and a line less a byte behind
                // them, on both sides; there a line of the destination begins. Rows that are aligned begin with one.
                unsafe {
                    stores.copy_unit(
                        scratch.as_ptr().cast::<u8>().add(row * pitch + before + at),
                        dst.as_mut_ptr().cast::<u8>().add(to + before + at),
                    );
                }
            }
        }
    }
}
