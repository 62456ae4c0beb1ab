//! Conversions of elements that do not lie one after another along the same loop on both sides: transposes, views with
//! strides, reversed and repeated elements.
//!
//! A block of them at a time is brought together in L1 by the copies and transposes, converted there as one run, and put
//! where it belongs: of these three steps those that a window needs.

use std::mem::MaybeUninit;

use super::copy;
use crate::level::{Level, part};
use crate::memory::{
    Ahead, CACHE_LINE, LineAligned, Output, StridedCopy, Window, as_written, gather_rows, prefetch,
    prefetch_rows_l2, scatter_rows,
};

/// The most bytes of a block on either side.
const BLOCK: usize = 4096;

/// The most bytes of a block of a row of which lines are stored by themselves.
const STREAMED: usize = 2048;

/// Elements from which on a run is worth a call of its own: shorter ones are brought together.
const LONG: usize = 64;

/// Elements of a row of a face.
pub(crate) const FACE: usize = 16;

/// Elements of a stick of 128 bytes, of two bytes each.
pub(crate) const STICK: usize = 64;

/// Elements of a block before they are converted, and after: each made when it is first needed, for clearing it takes part of the time
/// that a block takes.
#[derive(Default)]
pub(crate) struct Scratch {
    before: Option<LineAligned<[u8; BLOCK]>>,
    after: Option<LineAligned<[u8; BLOCK]>>,
}

/// One side's bytes, where the window begins in them, and the size of an element.
pub(crate) struct Side<B> {
    pub(crate) bytes: B,
    pub(crate) at: usize,
    pub(crate) size: usize,
}

/// A window and the blocks in which it is converted: found once for all iterations of the loops around it, for that takes as
/// long as a few rows of a face.
#[derive(Clone, Copy)]
pub(crate) struct Blocks {
    window: Window,
    /// Rows and columns of a block.
    rows: usize,
    cols: usize,
    /// Whether blocks of a row follow one another.
    along_rows: bool,
    /// Whether elements of a row lie one after another in the source, and in the destination.
    near_runs: bool,
    far_runs: bool,
}

impl Blocks {
    /// The blocks of a window with elements of `from` bytes in the source, of `to` bytes in the destination. `streamed`: lines
    /// of the destination are stored by themselves, from L1.
    #[inline(always)]
    pub(crate) fn new(window: Window, from: usize, to: usize, streamed: bool) -> Blocks {
        let w = oriented(window, from, to);
        let (near_runs, far_runs) = (w.src_col == from as isize, w.dst_col == to as isize);
        let together = !near_runs || !far_runs || w.cols < LONG;
        let (rows, cols) = match (together, streamed) {
            (true, _) => block(&w, from, to),
            (false, true) => {
                let most = STREAMED / from.max(to);
                let cols = w.cols.min(most);
                ((most / cols).min(w.rows), cols)
            }
            (false, false) => (w.rows, w.cols),
        };
        Blocks { window: w, rows, cols, along_rows: !together, near_runs, far_runs }
    }
}

/// Converts a window that was found to lie inside of both sides: `run` gets elements that follow one another, and as much
/// room. Meanwhile what is `ahead` is fetched; or, while elements are brought together, what lies `prefetch_distance` bytes further
/// in the source, unless that is 0.
#[inline(always)]
pub(crate) fn convert(
    level: impl Level,
    blocks: Blocks,
    src: Side<&[u8]>,
    dst: Side<&mut Output<'_>>,
    (prefetch_distance, ahead): (isize, &mut Option<Ahead<'_>>),
    scratch: &mut Scratch,
    mut run: impl FnMut(&[u8], &mut [MaybeUninit<u8>]),
) {
    let Blocks { window: w, rows, cols, along_rows, near_runs, far_runs } = blocks;
    let streamed = dst.bytes.is_streamed();
    let Scratch { before, after } = scratch;
    // On their way to non-temporal stores; nothing else reads them, so that they need not be cleared.
    let mut lines = LineAligned([MaybeUninit::uninit(); BLOCK]);
    // Counted by hand: `step_by` divides first.
    let (mut row, mut col) = (0, 0);
    loop {
        let part = Window { rows: rows.min(w.rows - row), cols: cols.min(w.cols - col), ..w };
        let from = place(src.at, row, w.src_row, col, w.src_col);
        let to = place(dst.at, row, w.dst_row, col, w.dst_col);
        if let Some(ahead) = ahead {
            for _ in 0..(part.rows * part.cols * src.size).div_ceil(2 * CACHE_LINE) {
                ahead.fetch();
            }
        }
        let (from_row, to_row) = ((part.cols * src.size) as isize, (part.cols * dst.size) as isize);
        // Rows that follow one another are one run.
        let near_run = near_runs && (part.rows == 1 || w.src_row == from_row);
        let far_run = far_runs && (part.rows == 1 || w.dst_row == to_row);
        let long = part.cols >= LONG;
        let gathers = !(near_run || near_runs && long);
        let scatters = !(streamed || far_run || far_runs && long);
        let cleared = || LineAligned([0; BLOCK]);
        let before: &mut [u8] = if gathers { &mut before.get_or_insert_with(cleared).0 } else { &mut [] };
        let after: &mut [u8] = if scatters { &mut after.get_or_insert_with(cleared).0 } else { &mut [] };
        if gathers && near_runs && part.cols == FACE {
            part!(level, faces(src.bytes, from, src.size, &part, before, prefetch_distance));
        } else if gathers {
            let packed = Window { dst_row: from_row, dst_col: src.size as isize, ..part };
            let room = as_written(before);
            bring(level, src.size, (src.bytes, from), (room, 0), &packed, prefetch_distance, near_runs);
        }
        let joined = (gathers || near_run) && (streamed || scatters || far_run);
        let (runs, elements) = if joined { (1, part.rows * part.cols) } else { (part.rows, part.cols) };
        for r in 0..runs {
            let near = if gathers {
                &before[place(0, r, from_row, 0, 0)..]
            } else {
                let at = place(from, r, w.src_row, 0, 0);
                if prefetch_distance != 0 {
                    prefetch(src.bytes, at.wrapping_add_signed(prefetch_distance), elements * src.size);
                }
                &src.bytes[at..]
            };
            let far = if streamed {
                &mut lines.0[place(0, r, to_row, 0, 0)..]
            } else if scatters {
                &mut as_written(after)[place(0, r, to_row, 0, 0)..]
            } else {
                &mut dst.bytes.bytes[place(to, r, w.dst_row, 0, 0)..]
            };
            // The only call: what it is made of is inlined here, for every pair of formats.
            run(&near[..elements * src.size], &mut far[..elements * dst.size]);
        }
        if streamed {
            put(dst.bytes, &lines.0[..part.rows * part.cols * dst.size], to, &part, far_run);
        } else if scatters && far_runs && part.cols == FACE {
            part!(level, to_faces(after, dst.size, &part, dst.bytes.bytes, to));
        } else if scatters && part.dst_col == -(dst.size as isize) {
            // From the last one on: copies know rows that lie backward in the source.
            let last = (part.cols - 1) * dst.size;
            let packed =
                Window { src_row: to_row, src_col: part.dst_col, dst_col: dst.size as isize, ..part };
            part!(level, {
                let to = to - last;
                if let Some(copy) = StridedCopy::new(dst.size, after, last, dst.bytes.bytes, to, &packed, &[])
                {
                    copy::backward(copy);
                }
            });
        } else if scatters {
            let packed = Window { src_row: to_row, src_col: dst.size as isize, ..part };
            bring(level, dst.size, (after, 0), (dst.bytes.bytes, to), &packed, 0, far_runs);
        }
        let more = if along_rows {
            next((&mut col, cols, w.cols), (&mut row, rows, w.rows))
        } else {
            next((&mut row, rows, w.rows), (&mut col, cols, w.cols))
        };
        if !more {
            return;
        }
    }
}

/// Goes on to the next block: along the inner loop, and from its end to the next iteration of the outer one. Each is where it
/// stands, its step and its length; whether there is a next one.
#[inline(always)]
fn next(inner: (&mut usize, usize, usize), outer: (&mut usize, usize, usize)) -> bool {
    let (at, step, len) = inner;
    *at += step;
    if *at < len {
        return true;
    }
    *at = 0;
    let (at, step, len) = outer;
    *at += step;
    *at < len
}

/// Stores rows of whole lines, or rows that follow one another, with non-temporal stores.
#[inline(always)]
fn put(out: &mut Output<'_>, made: &[MaybeUninit<u8>], to: usize, w: &Window, is_run: bool) {
    let mut at = to;
    for run in made.chunks_exact(if is_run { made.len() } else { made.len() / w.rows }) {
        out.put(run, at);
        at = at.wrapping_add_signed(w.dst_row);
    }
}

/// Puts rows of faces where they belong.
#[inline(always)]
fn to_faces(made: &[u8], size: usize, w: &Window, out: &mut [MaybeUninit<u8>], at: usize) {
    match size {
        1 => rows_to::<{ FACE }>(made, w, out, at),
        2 => rows_to::<{ 2 * FACE }>(made, w, out, at),
        4 => rows_to::<{ 4 * FACE }>(made, w, out, at),
        _ => rows_to::<{ 8 * FACE }>(made, w, out, at),
    }
}

/// Puts rows of `N` bytes.
#[inline(always)]
fn rows_to<const N: usize>(made: &[u8], w: &Window, out: &mut [MaybeUninit<u8>], at: usize) {
    scatter_rows(&made.as_chunks::<N>().0[..w.rows], out, at, w.dst_row);
}

/// Brings rows of faces together.
#[inline(always)]
fn faces(src: &[u8], at: usize, size: usize, w: &Window, out: &mut [u8], prefetch_distance: isize) {
    match size {
        1 => rows_of::<{ FACE }>(src, at, w, out, prefetch_distance),
        2 => rows_of::<{ 2 * FACE }>(src, at, w, out, prefetch_distance),
        4 => rows_of::<{ 4 * FACE }>(src, at, w, out, prefetch_distance),
        _ => rows_of::<{ 8 * FACE }>(src, at, w, out, prefetch_distance),
    }
}

/// Brings rows of `N` bytes together, eight of them after one check.
#[inline(always)]
fn rows_of<const N: usize>(src: &[u8], at: usize, w: &Window, out: &mut [u8], prefetch_distance: isize) {
    let mut at = at;
    for rows in out.as_chunks_mut::<N>().0[..w.rows].chunks_mut(8) {
        if prefetch_distance != 0 {
            for line in (0..N).step_by(CACHE_LINE) {
                let at = at.wrapping_add(line).wrapping_add_signed(prefetch_distance);
                prefetch_rows_l2::<8>(src, at, w.src_row);
            }
        }
        gather_rows(src, at, w.src_row, rows);
        at = at.wrapping_add_signed(w.src_row.wrapping_mul(8));
    }
}

/// Copies elements of `elem` bytes between a window and L1; `runs`: those of a row lie one after another on both sides.
#[inline(always)]
fn bring(
    level: impl Level,
    elem: usize,
    (src, src_at): (&[u8], usize),
    (dst, dst_at): (&mut [MaybeUninit<u8>], usize),
    window: &Window,
    prefetch_distance: isize,
    runs: bool,
) {
    // What is copied is made where it is used.
    let copy = |dst| StridedCopy::new(elem, src, src_at, dst, dst_at, window, &[]);
    if runs {
        part!(level, {
            if let Some(copy) = copy(dst) {
                copy::rows(copy.prefetching(prefetch_distance));
            }
        });
    } else {
        part!(level, {
            if let Some(copy) = copy(dst) {
                copy::elements(copy.prefetching(prefetch_distance));
            }
        });
    }
}

/// The window with its rows and columns as they suit best: runs along the columns where there are some, and what is narrower
/// is transposed.
#[inline(always)]
fn oriented(w: Window, from: usize, to: usize) -> Window {
    let runs = |w: &Window| (w.src_col == from as isize, w.dst_col == to as isize);
    let swapped = w.swapped();
    let better = match (runs(&w), runs(&swapped)) {
        ((true, true), _) => false,
        (_, (true, true)) => true,
        // A transpose: written in runs if the source is as narrow, else read in runs.
        ((false, true), (true, false)) => to < from,
        ((true, false), (false, true)) => to >= from,
        ((false, false), (false, false)) => swapped.src_col.unsigned_abs() < w.src_col.unsigned_abs(),
        (of_w, _) => of_w == (false, false),
    };
    if better { swapped } else { w }
}

/// Rows and columns of a block: a cache line along the rows of a transpose, and as many columns as there is room for.
#[inline(always)]
fn block(w: &Window, from: usize, to: usize) -> (usize, usize) {
    let capacity = BLOCK / from.max(to);
    let element = if w.dst_row == to as isize { to } else { from };
    let rows = w.rows.min((CACHE_LINE / element).clamp(8, 32));
    let cols = w.cols.min(capacity / rows);
    (w.rows.min(capacity / cols), cols)
}

/// Where the element of a row and a column lies.
#[inline(always)]
fn place(at: usize, row: usize, row_step: isize, col: usize, col_step: isize) -> usize {
    at.wrapping_add_signed((row as isize).wrapping_mul(row_step))
        .wrapping_add_signed((col as isize).wrapping_mul(col_step))
}
