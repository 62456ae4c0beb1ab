//! Conversions of elements that do not lie one after another along the same loop on both sides: transposes, views with
//! strides, reversed and repeated elements.
//!
//! A block of them at a time is brought together in L1 by the copies and transposes, converted there as one run, and put
//! where it belongs: of these three steps those that a window needs.

use std::mem::MaybeUninit;

use super::copy;
use crate::memory::{CACHE_LINE, StridedCopy, Window, as_written, load_rows, prefetch_rows_l2};

/// The most bytes of a block on either side.
const BLOCK: usize = 4096;

/// Elements from which on a run is worth a call of its own: shorter ones are brought together.
const LONG: usize = 64;

/// Elements of a row of a face.
pub(crate) const FACE: usize = 16;

/// Elements of a stick of 128 bytes, of two bytes each.
pub(crate) const STICK: usize = 64;

/// What a block needs in L1: its elements before and after they are converted.
pub(crate) struct Scratch {
    before: [u8; BLOCK],
    after: [u8; BLOCK],
}

impl Scratch {
    #[inline(always)]
    pub(crate) fn zero() -> Scratch {
        Scratch { before: [0; BLOCK], after: [0; BLOCK] }
    }
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
    /// Whether elements of a row lie one after another in the source, and in the destination.
    near_runs: bool,
    far_runs: bool,
}

impl Blocks {
    /// The blocks of a window with elements of `from` bytes in the source, of `to` bytes in the destination.
    #[inline(always)]
    pub(crate) fn new(window: Window, from: usize, to: usize) -> Blocks {
        let w = oriented(window, from, to);
        let (near_runs, far_runs) = (w.src_col == from as isize, w.dst_col == to as isize);
        let together = !near_runs || !far_runs || w.cols < LONG;
        let (rows, cols) = if together { block(&w, from, to) } else { (w.rows, w.cols) };
        Blocks { window: w, rows, cols, near_runs, far_runs }
    }
}

/// Converts a window that was found to lie inside of both sides: `run` gets elements that follow one another, and as much
/// room. While elements are brought together, what lies `prefetch_distance` bytes further in the source is prefetched, unless
/// that is 0. The scratch is made when it is first needed: to clear it costs as much as to convert a block.
#[inline(always)]
pub(crate) fn convert(
    blocks: Blocks,
    src: Side<&[u8]>,
    dst: Side<&mut [MaybeUninit<u8>]>,
    prefetch_distance: isize,
    scratch: &mut Option<Scratch>,
    mut run: impl FnMut(&[u8], &mut [MaybeUninit<u8>]),
) {
    let Blocks { window: w, rows, cols, near_runs, far_runs } = blocks;
    // Plain loops: `step_by` divides first.
    let mut col = 0;
    while col < w.cols {
        let mut row = 0;
        while row < w.rows {
            let part = Window { rows: rows.min(w.rows - row), cols: cols.min(w.cols - col), ..w };
            let from = place(src.at, row, w.src_row, col, w.src_col);
            let to = place(dst.at, row, w.dst_row, col, w.dst_col);
            let (from_row, to_row) = ((part.cols * src.size) as isize, (part.cols * dst.size) as isize);
            // Rows that follow one another are one run.
            let near_run = near_runs && (part.rows == 1 || w.src_row == from_row);
            let far_run = far_runs && (part.rows == 1 || w.dst_row == to_row);
            let long = part.cols >= LONG;
            let gathers = !(near_run || near_runs && long);
            let scatters = !(far_run || far_runs && long);
            let (before, after): (&mut [u8], &mut [u8]) = if gathers || scatters {
                let Scratch { before, after } = scratch.get_or_insert_with(Scratch::zero);
                (before, after)
            } else {
                (&mut [], &mut [])
            };
            if gathers && near_runs && part.cols == FACE {
                faces(src.bytes, from, src.size, &part, before, prefetch_distance);
            } else if gathers {
                let packed = Window { dst_row: from_row, dst_col: src.size as isize, ..part };
                let room = as_written(before);
                if let Some(copy) = StridedCopy::new(src.size, src.bytes, from, room, 0, &packed, &[]) {
                    bring(copy.prefetching(prefetch_distance), near_runs);
                }
            }
            let joined = (gathers || near_run) && (scatters || far_run);
            let (runs, elements) = if joined { (1, part.rows * part.cols) } else { (part.rows, part.cols) };
            for r in 0..runs {
                let near = if gathers {
                    &before[place(0, r, from_row, 0, 0)..]
                } else {
                    let at = place(from, r, w.src_row, 0, 0);
                    if prefetch_distance != 0 {
                        prefetch_rows_l2::<1>(src.bytes, at.wrapping_add_signed(prefetch_distance), 0);
                    }
                    &src.bytes[at..]
                };
                let far = if scatters {
                    &mut as_written(after)[place(0, r, to_row, 0, 0)..]
                } else {
                    &mut dst.bytes[place(to, r, w.dst_row, 0, 0)..]
                };
                // The only call: what it is made of is inlined here, for every pair of formats.
                run(&near[..elements * src.size], &mut far[..elements * dst.size]);
            }
            if scatters {
                let packed = Window { src_row: to_row, src_col: dst.size as isize, ..part };
                if let Some(copy) = StridedCopy::new(dst.size, after, 0, dst.bytes, to, &packed, &[]) {
                    bring(copy, far_runs);
                }
            }
            row += rows;
        }
        col += cols;
    }
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
    let out = &mut out.as_chunks_mut::<N>().0[..w.rows];
    let (eights, rest) = out.as_chunks_mut::<8>();
    let mut at = at;
    for rows in eights {
        if prefetch_distance != 0 {
            for line in (0..N).step_by(CACHE_LINE) {
                let at = at.wrapping_add(line).wrapping_add_signed(prefetch_distance);
                prefetch_rows_l2::<8>(src, at, w.src_row);
            }
        }
        *rows = *load_rows::<N, 1, 8>(src, at, w.src_row).as_flattened().first_chunk().expect("eight rows");
        at = at.wrapping_add_signed(w.src_row.wrapping_mul(8));
    }
    for row in rest {
        [[*row]] = load_rows::<N, 1, 1>(src, at, w.src_row);
        at = at.wrapping_add_signed(w.src_row);
    }
}

/// Copies elements between a window and L1; `runs`: those of a row lie one after another on both sides.
#[inline(always)]
fn bring(copy: StridedCopy<'_>, runs: bool) {
    if runs { copy::rows(copy) } else { copy::elements(copy) }
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
