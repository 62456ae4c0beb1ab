//! Elements that go from source to destination at once, by non-temporal stores.

use super::blocks::{Segment, between, by_source, stays_in_unit, steps_within};
use crate::plan::conversion::{Conversion, Endpoint, Op};
use crate::plan::ir::{LINE, Loop, Schedule};

/// Bytes that one non-temporal store writes.
const STORE: i64 = 32;

/// Bytes of a row of the source of which a block has all where it would have half: rows of several heads of an attention become tiles at twice
/// the speed and more so.
const SHORT: u64 = 64 << 10;

/// Rows of a face that a kernel converts together, and elements of each.
const FACE: [u64; 2] = [8, 16];

/// Whether elements come in runs of whole stores at places that are multiples of stores; where they are converted, in runs of
/// whole lines, or in rows of faces that are such a run.
pub(super) fn applies(loops: &[Loop], src: &Endpoint, op: Op) -> bool {
    let (None, Some((run, outer))) = (src.codec, loops.split_last()) else { return false };
    let whole = |unit: i64, outer: &[Loop]| outer.iter().all(|l| l.step[3] != 0 || l.step[4] % unit == 0);
    let runs = |from: usize, to: usize| (run.step[1], run.step[4]) == (from as i64, to as i64);
    let converts = |from: usize, to: usize| {
        let (line, bytes) = (LINE as i64, run.n as i64 * to as i64);
        let face = outer.split_last().is_some_and(|(rows, outer)| {
            let [together, elements] = FACE;
            run.n == elements && rows.step[4] == bytes && rows.n % together == 0 && whole(line, outer)
        });
        // Short rows of bytes are faster assembled: from f8e4m3, tiles of f32 have two thirds of the speed otherwise.
        let suits = from > 1 || run.n as usize * from >= 2 * LINE;
        suits && runs(from, to) && (bytes % line == 0 && whole(line, outer) || face)
    };
    match op {
        Op::Copy(size) => {
            let bytes = run.n as i64 * size as i64;
            // Half a line from each of several units is brought together first.
            let half = bytes < LINE as i64
                && outer
                    .last()
                    .is_some_and(|rows| rows.step[4] == bytes && rows.step[0] != 0 && rows.step[3] == 0);
            runs(size, size) && bytes % STORE == 0 && whole(STORE, outer) && !half
        }
        Op::Convert(from, to) => converts(from.size(), to.size()),
        Op::Cast { cast, .. } => converts(cast.source_size(), cast.size()),
    }
}

/// The schedule of such elements; splits a loop where a line of the destination needs only a part of it.
pub(super) fn schedule(loops: &mut Vec<Loop>, conversion: Conversion<'_>) -> Schedule {
    let Conversion { dst, op, tuning, .. } = conversion;
    let most = tuning.direct_segment as i64;
    let block_bytes = dst.block_bytes as i64;
    let chain = |most: i64| Segment::chain(loops, block_bytes, most, |i| stays_in_unit(&loops[i]));
    let mut segment = chain(most);
    // Copies are faster with shorter segments.
    if !matches!(op, Op::Copy(_)) && segment.halved(loops).is_some_and(|l| is_short(&l)) {
        segment = chain(2 * most);
    }
    let between = runs_between(loops, &segment, most);
    let run = loops.last().map_or(0, |run| run.n as i64 * run.step[4]);
    // Rows of faces are converted so many at a time.
    let together = if !matches!(op, Op::Copy(_)) && run < LINE as i64 { FACE[0] as i64 * run } else { 0 };
    let most = run.saturating_mul(tuning.direct_runs as i64);
    let pair = (tuning.direct_pair as i64).min(most).max(together).max(LINE as i64);
    let gathers = !between.is_empty() && run < LINE as i64;
    // Sticks are converted whole; rows of faces are not, which are converted several together, nor what becomes elements of 8
    // bytes, for which kernels have no loop but that by way of L1.
    let sticks = run >= 2 * LINE as i64 && block_bytes < 8;
    let suits = matches!(op, Op::Copy(_)) || matches!(op, Op::Convert(..)) && sticks;
    let read = loops.last().map_or(0, |run| run.n as i64 * run.step[1]);
    let fetched = tuning.blocks_fetched.max(tuning.bands_fetched) as i64;
    let source = tuning.direct_source as u64;
    let in_blocks = |segment: &Segment, between: &[usize]| {
        let suits = suits && !between.is_empty() && read < fetched;
        let schedule = suits.then(|| as_written(loops, segment, between, [source; 2]));
        schedule.filter(|schedule| is_run(loops, &schedule.blocks))
    };
    let as_segments = in_blocks(&segment, &between);
    let in_bands = as_segments.is_some();
    // A segment of several short rows has some of the rows whose runs lie between each other in the source, and so reads parts of lines.
    let as_rows = || {
        let row = row_segment(loops, block_bytes, tuning.direct_segment as i64).filter(|_| gathers)?;
        in_blocks(&row, &runs_between(loops, &row, tuning.direct_segment as i64))
    };
    let in_order = as_segments.or_else(as_rows).filter(|_| read < tuning.blocks_fetched as i64);
    let mut schedule = if let Some(schedule) = in_order {
        Schedule { in_order: true, ..schedule }
    } else if gathers && tuning.gathered_pair == 0 {
        as_written(loops, &segment, &between, [source, 2 * source])
    } else {
        let pair = if gathers { tuning.gathered_pair as i64 } else { pair };
        let line = split(loops, block_bytes, pair, tuning.direct_apart as i64);
        let sizes = [op.source_size() as i64, block_bytes];
        let schedule = as_read(loops, sizes, line, tuning.direct_run as i64);
        // One stream is fetched far ahead, several a little, unless they are so short that the next ones can be fetched.
        let next = next_rows(loops, &schedule.within, line);
        let next = next.filter(|next| next.abs() <= tuning.rows_fetched as i64);
        let next = next.map(|next| steps_within(next, tuning.fetched));
        let prefetch_distance = match (is_stream(loops), between.is_empty()) {
            (true, _) => tuning.fetched as i64,
            (_, true) => next.unwrap_or(tuning.direct_fetched as i64),
            (_, false) => tuning.gathered_fetched as i64,
        };
        Schedule { prefetch_distance, ..schedule }
    };
    let count = loops.len();
    schedule.in_bands = in_bands;
    schedule.cols = Some(count - 1);
    schedule.rows = count.checked_sub(2).map(|i| schedule.within[i]).filter(|&i| stays_in_unit(&loops[i]));
    schedule
}

/// Whether the source is read as it lies, whatever becomes of its runs (pages in banks).
fn is_stream(loops: &[Loop]) -> bool {
    loops.iter().all(|l| l.step[0] == 0)
        && loops.windows(2).all(|l| l[0].step[1] == l[1].step[1].saturating_mul(l[1].n as i64))
}

/// The loops between whose runs of the source those of a segment lie. What lies `most` bytes apart or further is a run of its own.
fn runs_between(loops: &[Loop], segment: &Segment, most: i64) -> Vec<usize> {
    let mut between = between(loops, segment.first, |l| if stays_in_unit(l) { l.step[1].abs() } else { 0 });
    between.retain(|&i| loops[i].step[1].abs() < most);
    between
}

/// The segment of a row of the destination, if it has four lines or more: of the loops whose runs do not lie between those of others.
fn row_segment(loops: &[Loop], block_bytes: i64, most: i64) -> Option<Segment> {
    let widest = |i: usize| loops[i + 1..].iter().map(|l| l.step[1].abs()).max().unwrap_or(0);
    let is_of_row = |i: usize| stays_in_unit(&loops[i]) && loops[i].step[1].abs() >= widest(i);
    Some(Segment::chain(loops, block_bytes, most, is_of_row)).filter(|row| row.bytes >= 4 * LINE as i64)
}

/// Lines whose runs come from all over the block (rows of faces): the destination's order, and the next block fetched
/// meanwhile. A block reads so many bytes of the source, or, where it has all of a short row of that then, the second number of them.
fn as_written(loops: &[Loop], segment: &Segment, between: &[usize], source: [u64; 2]) -> Schedule {
    let mut schedule = Schedule::ordered(loops, by_source(loops), (0..loops.len()).collect());
    segment.put(loops, &mut schedule);
    let mut bytes = segment.bytes as u64;
    for &i in between {
        let (n, [most, most_of_short]) = (loops[i].n, source.map(|source| (source / bytes).max(1)));
        schedule.blocks[i] = if n <= most_of_short && is_short(&loops[i]) { n } else { n.min(most) };
        bytes *= schedule.blocks[i];
    }
    schedule.prefetch_distance = next_block(loops, &schedule).unwrap_or(0);
    schedule
}

/// Whether a loop over the source is so short that one block has all of it rather than two a half.
fn is_short(l: &Loop) -> bool {
    l.step[1].saturating_mul(l.n as i64).unsigned_abs() <= SHORT
}

/// How far the rows of the source lie that are read next, where the loops inside of the one that leads there, and from `line` on, read all of
/// some rows.
fn next_rows(loops: &[Loop], within: &[usize], line: usize) -> Option<i64> {
    let mut end = 0_i64;
    for &i in within.iter().rev() {
        let Loop { n, step } = loops[i];
        if i < line && n > 1 && end > 0 && step[1].abs() >= end && stays_in_unit(&loops[i]) {
            return Some(step[1]);
        }
        end = end.max(step[1].abs().saturating_mul(n as i64));
    }
    None
}

/// Whether a block is one run of the source, but for less than a line between its parts.
fn is_run(loops: &[Loop], blocks: &[u64]) -> bool {
    let mut steps: Vec<(i64, i64)> = loops
        .iter()
        .zip(blocks)
        .filter(|(_, n)| **n > 1)
        .map(|(l, &n)| (l.step[1].abs(), n as i64))
        .collect();
    steps.sort_unstable();
    let mut bytes = 0_i64;
    steps.into_iter().all(|(step, n)| {
        let follows = step < bytes.saturating_add(LINE as i64);
        bytes = step.saturating_mul(n);
        follows
    })
}

/// How far the next block is in the source, if it is in the same unit.
fn next_block(loops: &[Loop], schedule: &Schedule) -> Option<i64> {
    let next = schedule.order.iter().rev().find(|&&i| loops[i].n > schedule.blocks[i]);
    let &next = next.filter(|&&i| stays_in_unit(&loops[i]))?;
    Some(loops[next].step[1].saturating_mul(schedule.blocks[next] as i64))
}

/// The source's order, but for the loops from `line` on, which fill a line and its neighbour. Blocks have runs of
/// `run` bytes on both sides, where elements have `sizes`.
fn as_read(loops: &[Loop], sizes: [i64; 2], line: usize, run: i64) -> Schedule {
    let order = by_source(loops);
    let outside = order.iter().copied().filter(|&i| i < line);
    let within = outside.chain(line..loops.len()).collect();
    let mut schedule = Schedule::ordered(loops, order, within);
    let mut chained: Vec<usize> = (0..loops.len()).filter(|&i| stays_in_unit(&loops[i])).collect();
    for (side, size) in [1, 4].into_iter().zip(sizes) {
        chained.sort_by_key(|&i| loops[i].step[side]);
        let mut extent = size;
        for &i in &chained {
            if loops[i].step[side] != extent || extent >= run {
                break;
            }
            schedule.blocks[i] = schedule.blocks[i].max(loops[i].n.min((run / extent).max(1) as u64));
            extent = extent.saturating_mul(loops[i].n as i64);
        }
    }
    schedule
}

/// Splits the loops so that the innermost of them make a run of at most `bytes` of the destination, of whole lines if they can, and returns
/// the first of these. Where none divides (43 sticks) each line is a run by itself: all of a row would be read from as many places by turns.
/// Of lines whose elements lie less than `apart` bytes from each other in the source each is a run by itself too.
fn split(loops: &mut Vec<Loop>, block_bytes: i64, bytes: i64, apart: i64) -> usize {
    let mut extent = block_bytes;
    for i in (0..loops.len()).rev() {
        let Loop { n, step } = loops[i];
        let is_near = extent % LINE as i64 == 0 && extent > block_bytes && step[1].abs() < apart;
        if step[4] != extent || extent >= bytes || is_near {
            return i + 1;
        }
        let most = (bytes / extent) as u64;
        if n > most {
            if extent == block_bytes {
                return i;
            }
            let lines = |n: &u64| extent.wrapping_mul(*n as i64) % LINE as i64 == 0;
            let divides = |iterations: &u64| n % iterations == 0 && lines(iterations);
            if let Some(iterations) = (2..=most).rev().find(divides) {
                loops[i] = Loop { n: n / iterations, step: step.map(|s| s * iterations as i64) };
                loops.insert(i + 1, Loop { n: iterations, step });
                return i + 1;
            }
            if lines(&1) {
                return i + 1;
            }
        }
        extent *= n as i64;
    }
    0
}
