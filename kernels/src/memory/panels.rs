//! Transposes by way of panels. A panel of the source is brought together first: so many bytes of each of the rows of which a longer
//! run of each row of the destination is made. Then rows of the destination are made of it, and go past the caches.
//!
//! So the source is read in runs of several lines, which come from L2 twice as fast as single lines where rows lie a power of two
//! apart: those share a set of L1, and on Zen 4 a set takes one line in eight cycles. While one panel is transposed, a later one
//! is fetched.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::cache::CACHE_LINE;
use super::non_temporal::Stores;
use super::strips::{Part, Rows, Stored};

/// Sizes in bytes of the runs of the destination that are made together, and of a panel; how many panels ahead the source is
/// fetched, 0 for not at all; and the most bytes of a panel that is fetched to L1, one ahead, where it lies together.
#[derive(Clone, Copy)]
pub(crate) struct Panels {
    pub(crate) run: usize,
    pub(crate) panel: usize,
    pub(crate) fetched: usize,
    pub(crate) near: usize,
}

/// The longest run of the destination.
const MAX_RUN: usize = 1024;

/// The largest panel.
const MAX_PANEL: usize = 1 << 20;

/// What a panel is made of.
pub(crate) trait Source {
    /// The fewest rows, and columns, that can be transposed.
    const LEAST: usize;

    /// Bytes of column `col` from row `row` on, of so many rows, which follow one another.
    fn bytes(&self, row: usize, col: usize, rows: usize) -> &[u8];

    /// The columns of a panel where they lie, and the bytes from one to the next, if they need not be brought together: they follow one
    /// another, and do not share sets of L1.
    fn together(&self, rows: Range<usize>, cols: Range<usize>) -> Option<(&[u8], usize)>;

    /// Fetches some rows of some columns of the window that is transposed `windows` later to L2, or to L1.
    fn fetch(&self, windows: usize, rows: Range<usize>, cols: Range<usize>, near: bool);

    /// Transposes columns of a panel to rows in a room. Each of both is followed by the bytes from one of them to the next.
    fn transpose(
        &self,
        panel: (&[u8], usize),
        rows_and_cols: [usize; 2],
        room: (&mut [MaybeUninit<u8>], usize),
    );
}

thread_local! {
    /// The panel, and rows that are made of it. They are too large for the stacks of some threads.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// How rows of the destination are divided into panels: into strips of columns, and each strip into some rows at a time.
pub(super) struct Division {
    rows: usize,
    cols: usize,
    elem: usize,
    /// Columns of a strip but for the last one.
    run: usize,
    /// The most rows of a panel, and the fewest.
    pub(super) most: usize,
    least: usize,
    /// Panels ahead that are fetched, and the most bytes of those that are fetched to L1.
    fetched: usize,
    near: usize,
}

/// What a panel has: columns of rows.
pub(super) struct Panel {
    pub(super) rows: Range<usize>,
    pub(super) cols: Range<usize>,
    /// Whether no column follows.
    pub(super) is_last: bool,
}

impl Division {
    /// Of rows of the destination.
    ///
    /// # Panics
    /// When an element is no part of a line, or there are fewer rows or columns than the least.
    #[inline(always)]
    pub(super) fn new<S: Source>(on: &Rows<'_>, panels: Panels) -> Division {
        let &Rows { rows, cols, elem, .. } = on;
        let (line, least) = (CACHE_LINE / elem, S::LEAST);
        assert!(CACHE_LINE.is_multiple_of(elem) && least <= line && least <= rows && least <= cols);
        let run = (panels.run.min(MAX_RUN) / CACHE_LINE).max(1) * line;
        let lines = panels.panel.min(MAX_PANEL) / CACHE_LINE / run;
        let most = lines.clamp(1, (rows * elem).div_ceil(CACHE_LINE)) * line;
        let Panels { fetched, near, .. } = panels;
        Division { rows, cols, elem, run, most, least, fetched, near }
    }

    /// Lines of a row that are stored of a panel, unless it is one of the last.
    pub(super) fn lines(&self) -> usize {
        self.run * self.elem / CACHE_LINE
    }

    /// Bytes from a column of a panel to the next: an odd number of lines, so that what lies one above the other does not share
    /// sets of L1.
    #[inline(always)]
    pub(super) fn pitch(&self) -> usize {
        ((self.most * self.elem / CACHE_LINE) | 1) * CACHE_LINE
    }

    /// Bytes of the largest panel.
    #[inline(always)]
    pub(super) fn size(&self) -> usize {
        (self.run + CACHE_LINE / self.elem) * self.pitch()
    }

    /// Strips of columns.
    #[inline(always)]
    fn strips(&self) -> usize {
        1 + self.cols.saturating_sub(CACHE_LINE / self.elem) / self.run
    }

    /// Times that some rows are made until all are.
    #[inline(always)]
    fn parts(&self) -> usize {
        self.rows.div_ceil(self.most)
    }

    /// The panel of some rows of a strip, if there is such a strip.
    #[inline(always)]
    fn panel(&self, strip: usize, part: usize) -> Option<Panel> {
        let col = strip.checked_mul(self.run).filter(|&col| col < self.cols)?;
        let left = self.cols - col;
        // What is less than a line of a strip of its own goes with the strip before.
        let is_last = left < self.run + CACHE_LINE / self.elem;
        let end = if is_last { self.cols } else { col + self.run };
        let last_row = (part * self.most).saturating_add(self.most).min(self.rows);
        // What is less than can be transposed is made once more with what is before it.
        let rows = (part * self.most).min(last_row - self.least)..last_row;
        Some(Panel { rows, cols: col..end, is_last })
    }

    /// The panel of this number, where some rows have all of their strips before the next rows have any.
    #[inline(always)]
    pub(super) fn panel_of_rows(&self, number: usize) -> Option<Panel> {
        let (strip, part) = (number % self.strips(), number / self.strips());
        if part < self.parts() { self.panel(strip, part) } else { None }
    }

    /// The panel that is fetched while the one of this number is transposed, if any is: how many windows later it is, and its number there.
    /// `near`: whether it is fetched to L1, which has room for the next one.
    #[inline(always)]
    pub(super) fn later(&self, number: usize, near: bool) -> Option<(usize, usize)> {
        let fetched = if near { self.fetched.min(1) } else { self.fetched };
        let (later, count) = (number.saturating_add(fetched), self.strips() * self.parts());
        (fetched > 0).then_some((later / count, later % count))
    }

    /// Brings one panel after the other together in a room, and calls `each` with its bytes and how many lie from one
    /// column to the next, the panel, and what fetches a later one, which is to be asked `times(rows)` times for a panel of so many rows. A panel that
    /// the source has together is not brought.
    #[inline(always)]
    pub(super) fn each<S: Source>(
        &self,
        source: &S,
        room: &mut [u8],
        times: impl Fn(usize) -> usize,
        mut each: impl FnMut((&[u8], usize), Panel, &mut Fetch<'_, S>),
    ) {
        let (parts, pitch) = (self.parts(), self.pitch());
        for number in 0..self.strips() * parts {
            let Some(panel) = self.panel(number / parts, number % parts) else { return };
            let together = source.together(panel.rows.clone(), panel.cols.clone());
            let near = together.is_some_and(|(bytes, _)| bytes.len() <= self.near);
            let later = self.later(number, near);
            let later = later
                .map_or((0, None), |(windows, later)| (windows, self.panel(later / parts, later % parts)));
            let mut fetch = Fetch::new(source, later, near, times(panel.rows.len()));
            let columns = together.unwrap_or_else(
                #[inline(always)]
                || {
                    for (col, to) in panel.cols.clone().zip(room.chunks_mut(pitch)) {
                        copy(source.bytes(panel.rows.start, col, panel.rows.len()), to);
                    }
                    (&*room, pitch)
                },
            );
            each(columns, panel, &mut fetch);
        }
    }
}

/// Fetches what a panel will be made of, some columns at a time.
pub(super) struct Fetch<'s, S> {
    source: &'s S,
    windows: usize,
    rows: Range<usize>,
    cols: Range<usize>,
    near: bool,
    step: usize,
}

impl<'s, S: Source> Fetch<'s, S> {
    /// Of a panel, if there is one, so many windows later, in so many times; `near`: to L1.
    #[inline(always)]
    pub(super) fn new(
        source: &'s S,
        (windows, panel): (usize, Option<Panel>),
        near: bool,
        times: usize,
    ) -> Fetch<'s, S> {
        let (rows, cols) = panel.map_or((0..0, 0..0), |panel| (panel.rows, panel.cols));
        let step = cols.len().div_ceil(times.max(1));
        Fetch { source, windows, rows, cols, near, step }
    }

    /// Some more columns, as far as there are some.
    #[inline(always)]
    pub(super) fn some(&mut self) {
        let end = self.cols.end.min(self.cols.start.saturating_add(self.step));
        self.source.fetch(self.windows, self.rows.clone(), self.cols.start..end, self.near);
        self.cols.start = end;
    }
}

/// Calls `work` with so many bytes of this thread's, the first where a line begins.
#[inline(always)]
pub(super) fn with_room(bytes: usize, work: impl FnOnce(&mut [u8])) {
    // Taken, and not borrowed in a closure: that would not be compiled for the level.
    let mut room = ROOM.take();
    room.resize(room.len().max(bytes + CACHE_LINE), 0);
    let to_line = room.as_ptr().align_offset(CACHE_LINE).min(CACHE_LINE);
    work(&mut room[to_line..][..bytes]);
    ROOM.set(room);
}

/// Writes rows that begin with lines by way of panels. Some rows of a panel at a time are put together in L1, and leave it by non-temporal stores
/// once the next ones are made: what was stored a moment ago cannot be loaded across the stores that made it.
///
/// # Panics
/// When a row leaves the destination or begins between two lines, an element is no part of a line, or there are fewer rows or columns than
/// the least.
#[inline(always)]
pub(crate) fn write<const AVX: bool, S: Source>(
    stores: Stores<AVX>,
    on: Rows<'_>,
    panels: Panels,
    source: &S,
) {
    assert!(on.begin_with_lines());
    let division = Division::new::<S>(&on, panels);
    let Rows { dst, at, step, elem, .. } = on;
    let (line, lines) = (CACHE_LINE / elem, division.lines());
    let made_pitch = ((lines + 1) | 1) * CACHE_LINE;
    let made_size = line * made_pitch;
    with_room(
        division.size() + 2 * made_size,
        #[inline(always)]
        |room| {
            let (room, made) = room.split_at_mut(division.size());
            let (mut making, mut made) = made.split_at_mut(made_size);
            let mut waiting: Option<Part> = None;
            division.each(
                source,
                room,
                |rows| rows.div_ceil(line),
                #[inline(always)]
                |(panel, pitch), Panel { rows, cols, is_last }, fetch| {
                    let stored = match is_last {
                        true => Stored::Ends { to_line: cols.start > 0, bytes: cols.len() * elem },
                        false => Stored::Lines(lines),
                    };
                    for some in rows.clone().step_by(line) {
                        fetch.some();
                        let begin = some.min(rows.end - S::LEAST);
                        let count = (begin + line).min(rows.end) - begin;
                        let from = (&panel[(begin - rows.start) * elem..], pitch);
                        source.transpose(from, [count, cols.len()], (super::as_written(making), made_pitch));
                        if let Some(part) = waiting {
                            part.store_all(stores, super::as_uninit(made), dst);
                        }
                        let to = at.wrapping_add_signed((begin as isize).wrapping_mul(step));
                        let to = to.wrapping_add(cols.start * elem);
                        waiting = Some(Part::new(dst, to, step, count, stored, made_pitch, made_size));
                        std::mem::swap(&mut making, &mut made);
                    }
                },
            );
            if let Some(part) = waiting {
                part.store_all(stores, super::as_uninit(made), dst);
            }
        },
    );
}

/// Copies bytes to the beginning of others, two lines at a time, in the order in which they lie.
#[inline(always)]
pub(super) fn copy(from: &[u8], to: &mut [u8]) {
    const TWO: usize = 2 * CACHE_LINE;
    let to = &mut to[..from.len()];
    let ((from, rest), (to, room)) = (from.as_chunks::<TWO>(), to.as_chunks_mut::<TWO>());
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
    room.copy_from_slice(rest);
}
