//! What all ways of choosing blocks share.

use crate::layout::axis::Addr;
use crate::plan::ir::{Loop, Schedule};

/// The loops by how far they step in the source, the longest way first: so the source is read in the order in which it
/// lies.
pub(super) fn by_source(loops: &[Loop]) -> Vec<usize> {
    by_source_of(loops.len(), |i| (loops[i].src(), loops[i].step[4]))
}

/// The same for loops of which `step` says how far they step in the source, and in bytes of the destination.
pub(super) fn by_source_of(count: usize, step: impl Fn(usize) -> (Addr, i64)) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|&i| {
        let (source, destination) = step(i);
        std::cmp::Reverse((source.map(i64::unsigned_abs), destination))
    });
    order
}

/// Whether a loop is for a kernel: one from unit to unit is not, for units are looked up.
pub(super) fn stays_in_unit(l: &Loop) -> bool {
    l.step[0] == 0 && l.step[3] == 0
}

/// Puts the loops of a segment of at most `target` bytes into the block, from the innermost outward as long as their
/// steps chain in the destination and they fit, and returns its bytes.
pub(super) fn chain(
    loops: &[Loop],
    block_bytes: i64,
    schedule: &mut Schedule,
    target: i64,
    fits: impl Fn(usize) -> bool,
) -> i64 {
    let mut extent = block_bytes;
    while let Some(i) = schedule.segment.checked_sub(1) {
        let l = loops[i];
        let capacity = (target / extent).max(1) as u64;
        if !fits(i) || l.step[4] != extent || capacity == 1 && extent > block_bytes {
            break;
        }
        schedule.segment = i;
        schedule.blocks[i] = l.n.min(capacity);
        extent *= schedule.blocks[i] as i64;
        if schedule.blocks[i] < l.n {
            break;
        }
    }
    extent
}

/// Loops outside of the segment that fill what the segment leaves out between its runs of the source, nearest first;
/// `stride` is how far a loop steps there, 0 for one that no block can have.
pub(super) fn between(loops: &[Loop], schedule: &Schedule, stride: impl Fn(&Loop) -> i64) -> Vec<usize> {
    let widest = loops[schedule.segment..].iter().map(&stride).max().unwrap_or(0);
    let mut between: Vec<usize> =
        (0..schedule.segment).filter(|&i| (1..widest).contains(&stride(&loops[i]))).collect();
    between.sort_by_key(|&i| stride(&loops[i]));
    between
}
