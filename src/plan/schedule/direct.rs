//! Elements that go from source to destination at once, by non-temporal stores.

use super::blocks::{Segment, between, by_source, stays_in_unit};
use crate::plan::conversion::{Endpoint, Op};
use crate::plan::ir::{LINE, Loop, Schedule};
use crate::tuning::Tuning;

/// Bytes that one non-temporal store writes.
const STORE: i64 = 32;

/// Whether elements come in runs of whole stores at places that are multiples of stores.
pub(super) fn applies(loops: &[Loop], src: &Endpoint, op: Op) -> bool {
    let (Op::Copy(size), None, Some((run, outer))) = (op, src.codec, loops.split_last()) else {
        return false;
    };
    let whole = |bytes: i64| bytes % STORE == 0;
    let size = size as i64;
    run.step[1] == size
        && run.step[4] == size
        && whole(run.n as i64 * size)
        && outer.iter().all(|l| l.step[3] != 0 || whole(l.step[4]))
}

/// The schedule of such elements; splits a loop where a line of the destination needs only a part of it.
pub(super) fn schedule(loops: &mut Vec<Loop>, dst: &Endpoint, tuning: &Tuning) -> Schedule {
    let most = tuning.direct_segment as i64;
    let block_bytes = dst.block_bytes as i64;
    let segment = Segment::chain(loops, block_bytes, most, |i| stays_in_unit(&loops[i]));
    // What lies further apart is a run of its own.
    let mut between = between(loops, segment.first, |l| if stays_in_unit(l) { l.step[1].abs() } else { 0 });
    between.retain(|&i| loops[i].step[1].abs() < most);
    let run = loops.last().map_or(0, |run| run.n as i64 * run.step[4]);
    let mut schedule = if !between.is_empty() && run < LINE as i64 {
        as_written(loops, &segment, &between, tuning.direct_source as u64)
    } else {
        let line = match between.is_empty() {
            true => split(loops, block_bytes, tuning.direct_pair as i64),
            false => loops.len() - 1,
        };
        let schedule = as_read(loops, block_bytes, line, tuning.direct_run as i64);
        // A single stream is fetched by the processor itself.
        let prefetch_distance = if between.is_empty() { tuning.direct_fetched as i64 } else { 0 };
        Schedule { prefetch_distance, ..schedule }
    };
    let count = loops.len();
    schedule.cols = Some(count - 1);
    schedule.rows = count.checked_sub(2).map(|i| schedule.within[i]).filter(|&i| stays_in_unit(&loops[i]));
    schedule
}

/// Lines whose runs come from all over the block (rows of faces): the destination's order, and the next block fetched
/// meanwhile. A block reads `source` bytes.
fn as_written(loops: &[Loop], segment: &Segment, between: &[usize], source: u64) -> Schedule {
    let mut schedule = Schedule::ordered(loops, by_source(loops), (0..loops.len()).collect());
    segment.put(loops, &mut schedule);
    let mut bytes = segment.bytes as u64;
    for &i in between {
        schedule.blocks[i] = loops[i].n.min((source / bytes).max(1));
        bytes *= schedule.blocks[i];
    }
    let next = schedule.order.iter().rev().find(|&&i| loops[i].n > schedule.blocks[i]);
    if let Some(&next) = next.filter(|&&i| stays_in_unit(&loops[i])) {
        schedule.prefetch_distance = loops[next].step[1].saturating_mul(schedule.blocks[next] as i64);
    }
    schedule
}

/// The source's order, but for the loops from `line` on, which fill a line and its neighbour. Blocks have runs of
/// `run` bytes on both sides.
fn as_read(loops: &[Loop], block_bytes: i64, line: usize, run: i64) -> Schedule {
    let order = by_source(loops);
    let outside = order.iter().copied().filter(|&i| i < line);
    let within = outside.chain(line..loops.len()).collect();
    let mut schedule = Schedule::ordered(loops, order, within);
    let mut chained: Vec<usize> = (0..loops.len()).filter(|&i| stays_in_unit(&loops[i])).collect();
    for side in [1, 4] {
        chained.sort_by_key(|&i| loops[i].step[side]);
        let mut extent = block_bytes;
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

/// Splits the loops so that the innermost of them make a run of `bytes` of the destination, if they can, and returns the
/// first of these.
fn split(loops: &mut Vec<Loop>, block_bytes: i64, bytes: i64) -> usize {
    let mut extent = block_bytes;
    for i in (0..loops.len()).rev() {
        let Loop { n, step } = loops[i];
        if step[4] != extent || extent >= bytes {
            return i + 1;
        }
        let iterations = (bytes / extent) as u64;
        if bytes % extent == 0 && n > iterations && n % iterations == 0 {
            if extent == block_bytes {
                return i;
            }
            loops[i] = Loop { n: n / iterations, step: step.map(|s| s * iterations as i64) };
            loops.insert(i + 1, Loop { n: iterations, step });
            return i + 1;
        }
        extent *= n as i64;
    }
    0
}
