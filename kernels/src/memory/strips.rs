//! Rows of a destination that are made a strip at a time: a few lines of each of some rows are put together in L1, and leave it
//! by non-temporal stores, each line whole.
//!
//! Rows may begin and end anywhere in a line. A strip of such rows is made a line wider than what is stored of it, so that
//! what is stored of each row can end where a line does; the next strip begins there.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::bounds::lies_inside;
use super::cache::{CACHE_LINE, LineAligned};
use super::non_temporal::{STORE_BYTES, Stores};

/// Lines of a strip of rows that begin where lines do.
const LINES: usize = 2;

/// Lines of a strip of other rows, one more of which is made.
const RAGGED: usize = 4;

/// The most bytes from a row to the next one in the scratch.
const PITCH: usize = (RAGGED + 1) * CACHE_LINE;

/// Bytes of a strip's part of some rows: 64 rows of elements of one byte, whose strips have no more than 2 lines, or half as
/// many others.
const SCRATCH: usize = 64 * (LINES + 1) * CACHE_LINE;

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

impl Rows<'_> {
    /// Whether all of them do.
    #[inline(always)]
    pub(super) fn begin_with_lines(&self) -> bool {
        let begin = self.dst.as_ptr().addr().wrapping_add(self.at);
        begin.is_multiple_of(CACHE_LINE) && self.step.unsigned_abs().is_multiple_of(CACHE_LINE)
    }
}

/// The rows that are made together: how many at first, how many of each further time, and the fewest that can be made.
#[derive(Clone, Copy)]
pub(crate) struct Together {
    pub(crate) first: usize,
    pub(crate) each: usize,
    pub(crate) least: usize,
}

/// What makes strips, and what brings what they are made of nearer.
///
/// # Safety
/// [`Source::make_square`] calls `drain` [`Source::DRAINS`] times, no more and no fewer.
pub(crate) unsafe trait Source {
    /// Bytes of an element.
    const ELEM: usize;

    /// Elements of a line, of which as many rows are made together.
    const LINE: usize = CACHE_LINE / Self::ELEM;

    /// Bytes from a row to the next one in the room.
    const PITCH: usize = if SCRATCH / Self::LINE < PITCH { SCRATCH / Self::LINE } else { PITCH };

    /// How often rows that were made before leave L1 while a line of others is made.
    const DRAINS: usize = 4;

    /// Puts some columns of some rows into `room`, the elements of a row one after another, rows [`Source::PITCH`] bytes apart. It
    /// may be asked for the same ones again.
    fn make(&self, rows: Range<usize>, cols: Range<usize>, room: &mut [MaybeUninit<u8>]);

    /// [`Source::make`] of [`Source::LINE`] rows and columns from these on. Calls `drain` [`Source::DRAINS`] times meanwhile.
    fn make_square(&self, row: usize, col: usize, room: &mut [MaybeUninit<u8>], drain: impl FnMut());

    /// Fetches what some columns of some rows are made of.
    fn fetch(&self, rows: Range<usize>, cols: Range<usize>);
}

/// How strips are made: `bytes` of each row at a time, of rows that begin anywhere twice as many, as far as there is room;
/// `together` says of which rows. While some rows are made, others are fetched for later, `fetched` rows at a time; none if
/// that is 0.
#[derive(Clone, Copy)]
pub(crate) struct Strips {
    pub(crate) bytes: usize,
    pub(crate) together: Together,
    pub(crate) fetched: usize,
}

/// Writes the rows in strips. While some rows of a strip are made, line by line, those that were made before leave L1 row by
/// row, so that reading and writing overlap.
///
/// # Panics
/// When a row leaves the destination, an element is no part of a line, or there are fewer rows than the least.
#[inline(always)]
pub(crate) fn write<const AVX: bool, S: Source>(
    stores: Stores<AVX>,
    on: Rows<'_>,
    strips: Strips,
    source: &S,
) {
    // On Zen 5 copies by stores of whole lines have eight to nine tenths of the speed; strips have not been measured with them.
    let stores = stores.without_whole_lines();
    let aligned = on.begin_with_lines();
    let Rows { dst, at, step, rows, cols, elem } = on;
    let Strips { bytes, together: Together { first, each, least }, fetched } = strips;
    assert!(elem == S::ELEM && each == S::LINE && least <= rows && least <= each);
    let line = S::LINE;
    let (wanted, most) = if aligned { (1, LINES) } else { (2, RAGGED.min(S::PITCH / CACHE_LINE - 1)) };
    let lines = (bytes / CACHE_LINE * wanted).clamp(1, most);
    let (strip, behind) = (lines * line, if aligned { 0 } else { line });
    // Times that rows are made together until all of those are that are fetched together.
    let times = (fetched / each).min(rows.div_ceil(each));
    // Some rows of a strip that are being made, and those that were made before.
    let mut scratch = LineAligned([[MaybeUninit::uninit(); SCRATCH]; 2]);
    let LineAligned([making, made]) = &mut scratch;
    let (mut making, mut made) = (making, made);
    let mut before: Option<Part> = None;
    let mut col = 0;
    loop {
        let left = cols - col;
        let is_last = left < strip + line;
        let count = if is_last { left } else { strip + behind };
        let (mut row, mut next, mut time) = (0, if first < least { each } else { first.min(each) }, 0_usize);
        while row < rows {
            let end = (row + next).min(rows);
            let some = row.min(end.saturating_sub(least))..end;
            if let Some(block) = time.checked_div(times) {
                // Behind the rows that are fetched together come as many more, or the first of the next strip.
                let part = time - block * times;
                let behind = (block + 1) * times * each;
                let (rows_begin, cols_begin) = if behind < rows { (behind, col) } else { (0, col + strip) };
                let share = |part: usize| (cols_begin + strip * part / times).min(cols);
                source.fetch(rows_begin..(rows_begin + times * each).min(rows), share(part)..share(part + 1));
            }
            let is_regular = some.len() == each && count == LINES * line;
            match before {
                Some(before) if is_regular && before.is_regular(each) => {
                    let mut from = made.as_ptr().cast::<u8>();
                    let mut to = dst.as_mut_ptr().cast::<u8>().wrapping_add(before.to);
                    for piece in 0..LINES {
                        let room = &mut making[piece * CACHE_LINE..];
                        source.make_square(
                            some.start,
                            col + piece * line,
                            room,
                            #[inline(always)]
                            || {
                                for _ in 0..S::LINE / (LINES * S::DRAINS) {
                                    // SAFETY: M5; `Source` promises so many calls, which are all rows. They begin with a line.
                                    unsafe { stores.copy_two_lines(from, to) };
                                    from = from.wrapping_add(S::PITCH);
                                    to = to.wrapping_offset(step);
                                }
                            },
                        );
                    }
                }
                _ => {
                    let pieces = (count / line).max(1);
                    let mut stored = 0;
                    for piece in 0..pieces {
                        let end = if piece + 1 == pieces { count } else { (piece + 1) * line };
                        let cols = col + piece * line..col + end;
                        source.make(some.clone(), cols, &mut making[piece * CACHE_LINE..]);
                        if let Some(before) = before {
                            let end = before.rows * (piece + 1) / pieces;
                            before.store(stores, made, dst, stored..end);
                            stored = end;
                        }
                    }
                }
            }
            let to =
                at.wrapping_add_signed((some.start as isize).wrapping_mul(step)).wrapping_add(col * elem);
            let parts = match (is_last, aligned) {
                (true, _) => Stored::Ends { to_line: col > 0, bytes: left * elem },
                (false, true) => Stored::Lines(lines),
                (false, false) => Stored::FromLine { lines, beginning: col == 0 },
            };
            before = Some(Part::new(dst, to, step, some.len(), parts, S::PITCH, SCRATCH));
            (making, made) = (made, making);
            (row, next, time) = (end, each, time + 1);
        }
        if is_last {
            break;
        }
        col += strip;
    }
    if let Some(before) = before {
        before.store(stores, made, dst, 0..before.rows);
    }
}

/// What is stored of each row of a strip.
#[derive(Clone, Copy)]
pub(super) enum Stored {
    /// So many lines, with one of which the row begins.
    Lines(usize),
    /// So many lines from the first one that begins in the row on; what is before it too, if `beginning`.
    FromLine { lines: usize, beginning: bool },
    /// So many bytes to the end of the row; what is before the first line not, if `to_line`.
    Ends { to_line: bool, bytes: usize },
}

/// Rows of a strip: where the first one goes, how far apart they are there and in the scratch, and how many there are.
///
/// Fact M5, cited below: the bytes of each row that are stored lie inside of the destination, and of a scratch of `room` bytes, at
/// multiples of `pitch`, with as many bytes behind [`Stored::FromLine`]'s lines as a line less a byte has. [`Part::new`] establishes it.
#[derive(Clone, Copy)]
pub(super) struct Part {
    to: usize,
    step: isize,
    rows: usize,
    stored: Stored,
    pitch: usize,
    room: usize,
}

impl Part {
    /// Rows of the destination from byte `to` on, `step` bytes apart, that lie `pitch` bytes apart in a scratch of `room` bytes.
    ///
    /// # Panics
    /// When a row leaves the destination or the scratch.
    #[inline(always)]
    pub(super) fn new(
        dst: &[MaybeUninit<u8>],
        to: usize,
        step: isize,
        rows: usize,
        stored: Stored,
        pitch: usize,
        room: usize,
    ) -> Part {
        let bytes = match stored {
            Stored::Lines(lines) => lines * CACHE_LINE,
            Stored::FromLine { lines, .. } => lines * CACHE_LINE + CACHE_LINE - 1,
            Stored::Ends { bytes, .. } => bytes,
        };
        assert!(
            lies_inside(dst.len(), to, bytes, [(rows, step)])
                && lies_inside(room, 0, bytes, [(rows, pitch as isize)]),
            "{rows} rows of {bytes} bytes {step} bytes apart from byte {to} leave a destination of {} bytes",
            dst.len()
        );
        Part { to, step, rows, stored, pitch, room }
    }

    /// Whether it is as many rows of [`LINES`] lines with which they begin.
    #[inline(always)]
    fn is_regular(&self, rows: usize) -> bool {
        self.rows == rows && matches!(self.stored, Stored::Lines(LINES))
    }

    /// Stores all rows.
    #[inline(always)]
    pub(super) fn store_all<const AVX: bool>(
        self,
        stores: Stores<AVX>,
        scratch: &[MaybeUninit<u8>],
        dst: &mut [MaybeUninit<u8>],
    ) {
        self.store(stores, scratch, dst, 0..self.rows);
    }

    /// Stores some of the rows.
    #[inline(always)]
    pub(super) fn store<const AVX: bool>(
        self,
        stores: Stores<AVX>,
        scratch: &[MaybeUninit<u8>],
        dst: &mut [MaybeUninit<u8>],
        rows: Range<usize>,
    ) {
        assert!(rows.end <= self.rows && scratch.len() == self.room);
        for row in rows {
            let to = self.to.wrapping_add_signed((row as isize).wrapping_mul(self.step));
            let from = row * self.pitch;
            let before = dst.as_ptr().addr().wrapping_add(to).wrapping_neg() % CACHE_LINE;
            match self.stored {
                Stored::Lines(lines) => {
                    // SAFETY: M5; these rows begin with a line.
                    unsafe { copy_lines(stores, scratch, from, dst, to, lines) };
                }
                Stored::FromLine { lines, beginning } => {
                    if beginning {
                        dst[to..][..before].copy_from_slice(&scratch[from..][..before]);
                    }
                    // SAFETY: M5; less than a line from where the row begins, a line of the destination does.
                    unsafe { copy_lines(stores, scratch, from + before, dst, to + before, lines) };
                }
                Stored::Ends { to_line, bytes } => {
                    let begin = if to_line { before.min(bytes) } else { 0 };
                    stores.copy(&scratch[from..][begin..bytes], &mut dst[to..][begin..bytes]);
                }
            }
        }
    }
}

/// Copies so many lines from byte `from` on to byte `to` on.
///
/// # Safety
/// They lie inside of both, and `to` is where a line of the destination begins.
#[inline(always)]
unsafe fn copy_lines<const AVX: bool>(
    stores: Stores<AVX>,
    scratch: &[MaybeUninit<u8>],
    from: usize,
    dst: &mut [MaybeUninit<u8>],
    to: usize,
    lines: usize,
) {
    let (src, dst) = (scratch.as_ptr().cast::<u8>(), dst.as_mut_ptr().cast::<u8>());
    // SAFETY: the caller's promise.
    unsafe {
        let (mut src, mut dst) = (src.add(from), dst.add(to));
        for _ in 0..lines / 2 {
            stores.copy_two_lines(src, dst);
            (src, dst) = (src.wrapping_add(2 * CACHE_LINE), dst.wrapping_add(2 * CACHE_LINE));
        }
        if lines % 2 == 1 {
            stores.copy_unit(src, dst);
            stores.copy_unit(src.add(STORE_BYTES), dst.add(STORE_BYTES));
        }
    }
}
