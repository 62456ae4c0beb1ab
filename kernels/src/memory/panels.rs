//! Transposes by way of L2. A panel of the source is brought there first: so many bytes of each of the rows of which a longer run
//! of each row of the destination is made. Then some rows of the destination at a time are put together in L1, and leave it by
//! non-temporal stores.
//!
//! So both sides are read and written in long runs, one after the other. Strips read shorter runs, and write two lines of each row.

use std::cell::Cell;
use std::mem::MaybeUninit;

use super::cache::CACHE_LINE;
use super::non_temporal::Stores;
use super::strips::{Part, Rows, Stored};

/// Sizes in bytes: of the runs of the destination that are made together, and of a panel.
#[derive(Clone, Copy)]
pub(crate) struct Panels {
    pub(crate) run: usize,
    pub(crate) panel: usize,
}

/// The longest run of the destination.
const MAX_RUN: usize = 1024;

/// The largest panel.
const MAX_PANEL: usize = 1 << 20;

/// Transposes what a panel is made of.
pub(crate) trait Source {
    /// The fewest rows, and columns, that can be transposed.
    const LEAST: usize;

    /// Bytes of column `col` from row `row` on, of so many rows, which follow one another.
    fn bytes(&self, row: usize, col: usize, rows: usize) -> &[u8];

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

/// Writes the rows by way of panels.
///
/// # Panics
/// When a row leaves the destination, an element is no part of a line, or there are fewer rows or columns than the least.
#[inline(always)]
pub(crate) fn write<const AVX: bool, S: Source>(
    stores: Stores<AVX>,
    on: Rows<'_>,
    panels: Panels,
    source: &S,
) {
    let aligned = on.begin_with_lines();
    let Rows { dst, at, step, rows, cols, elem } = on;
    let line = CACHE_LINE / elem;
    assert!(CACHE_LINE.is_multiple_of(elem) && S::LEAST <= line && S::LEAST <= rows && S::LEAST <= cols);
    let lines = (panels.run.min(MAX_RUN) / CACHE_LINE).max(1);
    // Of rows that begin anywhere in a line one line more is made than is stored, so that what is stored can end where a line does.
    let (run, behind) = (lines * line, if aligned { 0 } else { line });
    // What a panel has of each row of the source.
    let panel_lines = panels.panel.min(MAX_PANEL) / CACHE_LINE / (run + line);
    let panel_lines = panel_lines.clamp(1, (rows * elem).div_ceil(CACHE_LINE));
    let most = panel_lines * line;
    // An odd number of lines, so that what lies one above the other does not share sets of L1.
    let (panel_pitch, room_pitch) = ((panel_lines | 1) * CACHE_LINE, ((lines + 1) | 1) * CACHE_LINE);
    let (panel_size, made_size) = ((run + line) * panel_pitch, line * room_pitch);
    // Taken, and not borrowed in a closure: that would not be compiled for the level.
    let mut room = ROOM.take();
    room.resize(room.len().max(panel_size + made_size + CACHE_LINE), 0);
    let to_line = room.as_ptr().align_offset(CACHE_LINE).min(CACHE_LINE);
    let (panel, made) = room[to_line..].split_at_mut(panel_size);
    let made = &mut made[..made_size];
    let mut col = 0;
    loop {
        let left = cols - col;
        let is_last = left < run + line;
        let count = if is_last { left } else { run + behind };
        let stored = match (is_last, aligned) {
            (true, _) => Stored::Ends { to_line: col > 0, bytes: left * elem },
            (false, true) => Stored::Lines(lines),
            (false, false) => Stored::FromLine { lines, beginning: col == 0 },
        };
        let mut row = 0;
        while row < rows {
            let end = (row + most).min(rows);
            // What is less than can be transposed is made once more with what is before it.
            let first = row.min(end - S::LEAST);
            for (c, to) in panel.chunks_mut(panel_pitch).take(count).enumerate() {
                copy(source.bytes(first, col + c, end - first), to);
            }
            let mut some = first;
            while some < end {
                let begin = some.min(end - S::LEAST);
                let part = (begin + line).min(end) - begin;
                let from = (&panel[(begin - first) * elem..], panel_pitch);
                source.transpose(from, [part, count], (super::as_written(made), room_pitch));
                let to = at.wrapping_add_signed((begin as isize).wrapping_mul(step)).wrapping_add(col * elem);
                let part = Part::new(dst, to, step, part, stored, room_pitch, made.len());
                part.store_all(stores, super::as_uninit(made), dst);
                some = begin + line;
            }
            row = end;
        }
        if is_last {
            break;
        }
        col += run;
    }
    ROOM.set(room);
}

/// Copies bytes to the beginning of others, two lines at a time, in the order in which they lie.
#[inline(always)]
fn copy(from: &[u8], to: &mut [u8]) {
    const TWO: usize = 2 * CACHE_LINE;
    let to = &mut to[..from.len()];
    let ((from, rest), (to, room)) = (from.as_chunks::<TWO>(), to.as_chunks_mut::<TWO>());
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
    room.copy_from_slice(rest);
}
