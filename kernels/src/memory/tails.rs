//! Transposes to rows that begin anywhere in a line, by way of panels. Some rows are made at a time, from their beginnings to their
//! ends: a panel of the source after the other is brought together, and what is made of it goes past the caches line by line. What of a
//! row is made and not stored, its *tail*, at most a line, is kept until the next panel is. So no line is stored in parts but
//! those with which rows begin and end, and panels of a row do not overlap.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::cache::CACHE_LINE;
use super::non_temporal::Stores;
use super::panels::{Division, Fetch, Panel, Panels, Source, copy, with_room};
use super::strips::{Part, Rows, Stored};
use super::{as_uninit, as_written};

/// Rows that were made and not stored: where, and of which rows of the panel.
struct Waiting {
    part: Part,
    rows: Range<usize>,
    /// Where the first byte of a row that is stored may be: behind its tail if it has none.
    from: usize,
    is_last: bool,
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
    let division = Division::new::<S>(&on, panels);
    let Rows { dst, at, step, elem, .. } = on;
    let (line, least, lines, pitch) = (CACHE_LINE / elem, S::LEAST, division.lines(), division.pitch());
    // Its tail, what is made of a panel, and up to a line more that is made of the last one; an odd number of lines.
    let made_pitch = ((lines + 2) | 1) * CACHE_LINE;
    let made_size = (line + least) * made_pitch;
    with_room(
        division.size() + 2 * made_size + division.most * CACHE_LINE,
        #[inline(always)]
        |room| {
            let (room, made) = room.split_at_mut(division.size());
            let (made, tails) = made.split_at_mut(2 * made_size);
            let tails = tails.as_chunks_mut::<CACHE_LINE>().0;
            let (mut making, mut made) = made.split_at_mut(made_size);
            let mut waiting: Option<Waiting> = None;
            let mut number = 0;
            while let Some(Panel { rows, cols, is_last }) = division.panel_of_rows(number) {
                for (col, to) in cols.clone().zip(room.chunks_mut(pitch)) {
                    copy(source.bytes(rows.start, col, rows.len()), to);
                }
                let later = division.later(number, false);
                let later =
                    later.map_or((0, None), |(windows, later)| (windows, division.panel_of_rows(later)));
                let mut fetch = Fetch::new(source, later, false, rows.len() / line);
                number += 1;
                let is_first = cols.start == 0;
                let mut begin = 0;
                while begin < rows.len() {
                    fetch.some();
                    // What is less than can be transposed goes with the rows before it.
                    let left = rows.len() - begin;
                    let count = if left < line + least { left } else { line };
                    let some = begin..begin + count;
                    if count == rows.len() {
                        // They were made of the panel before, and left their tails nowhere yet.
                        store(stores, waiting.take(), made, dst, tails, (lines, made_pitch));
                    }
                    if !is_first {
                        for (tail, to) in tails[some.clone()].iter().zip(making.chunks_mut(made_pitch)) {
                            to[..CACHE_LINE].copy_from_slice(tail);
                        }
                    }
                    let to = (&mut as_written(making)[CACHE_LINE..], made_pitch);
                    source.transpose((&room[begin * elem..], pitch), [count, cols.len()], to);
                    store(stores, waiting.take(), made, dst, tails, (lines, made_pitch));
                    let to = at.wrapping_add_signed(((rows.start + begin) as isize).wrapping_mul(step));
                    let to = to.wrapping_add(cols.start * elem);
                    // A row begins with its tail, or where it begins.
                    let (to, from) = if is_first { (to, CACHE_LINE) } else { (to - CACHE_LINE, 0) };
                    let stored = match is_last {
                        true => {
                            Stored::Ends { to_line: !is_first, bytes: CACHE_LINE - from + cols.len() * elem }
                        }
                        false => {
                            Stored::FromLine { lines: lines - usize::from(is_first), beginning: is_first }
                        }
                    };
                    let part = Part::new(dst, to, step, count, stored, made_pitch, made_size - from);
                    waiting = Some(Waiting { part, rows: some, from, is_last });
                    std::mem::swap(&mut making, &mut made);
                    begin += count;
                }
            }
            store(stores, waiting, made, dst, tails, (lines, made_pitch));
        },
    );
}

/// Stores rows that were made, `pitch` bytes apart and of so many lines each but for the last panel's, and keeps their tails.
#[inline(always)]
fn store<const AVX: bool>(
    stores: Stores<AVX>,
    waiting: Option<Waiting>,
    made: &[u8],
    dst: &mut [MaybeUninit<u8>],
    tails: &mut [[u8; CACHE_LINE]],
    (lines, pitch): (usize, usize),
) {
    let Some(Waiting { part, rows, from, is_last }) = waiting else { return };
    part.store_all(stores, as_uninit(&made[from..]), dst);
    if !is_last {
        for (tail, made) in tails[rows].iter_mut().zip(made.chunks(pitch)) {
            *tail = *made[lines * CACHE_LINE..].first_chunk().expect("a line behind those that are stored");
        }
    }
}
