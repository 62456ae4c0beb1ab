//! What all ways of choosing blocks share.

use kernels::BlockCodec;

use crate::layout::axis::Addr;
use crate::plan::ir::{Loop, Schedule};
use crate::tuning::Tuning;

/// Bytes from which on what lies in a unit of its own is worth a call of a kernel. A call costs as much as to copy some 3 KiB, so that of shorter
/// units a block has several.
pub(super) const LONG_UNIT: u64 = 8192;

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

/// How far as many steps go as there are in so many bytes, one at least.
pub(super) fn steps_within(step: i64, bytes: usize) -> i64 {
    let steps = (bytes as u64).checked_div(step.unsigned_abs()).unwrap_or(0);
    step.saturating_mul((steps as i64).max(1))
}

/// Whether a loop is for a kernel: one from unit to unit is not, for units are looked up.
pub(super) fn stays_in_unit(l: &Loop) -> bool {
    l.step[0] == 0 && l.step[3] == 0
}

/// The loop of tiles that a kernel call takes instead of `row`, if that has few small tiles (blocks of an MX format), which cost
/// less than the call: the longest one that suits.
pub(super) fn longer_row(
    loops: &[Loop],
    row: usize,
    codec: Option<BlockCodec>,
    tuning: &Tuning,
    suits: impl Fn(&usize) -> bool,
) -> usize {
    let elements = codec.map_or(1, |c| c.tile().elements() as u64);
    if loops[row].n.saturating_mul(elements) >= tuning.call_elements as u64 {
        return row;
    }
    let longest = (0..loops.len()).filter(suits).max_by_key(|&i| loops[i].n);
    longest.filter(|&i| loops[i].n / 4 >= loops[row].n).unwrap_or(row)
}

/// The loops of a segment: a run of bytes of the destination.
pub(super) struct Segment {
    /// The outermost of them; all that are further in are whole.
    pub(super) first: usize,
    /// Iterations of the outermost.
    iterations: u64,
    pub(super) bytes: i64,
}

impl Segment {
    /// The loops of a segment of at most `target` bytes, from the innermost outward as long as their steps chain in one unit of
    /// the destination and they fit.
    pub(super) fn chain(
        loops: &[Loop],
        block_bytes: i64,
        target: i64,
        fits: impl Fn(usize) -> bool,
    ) -> Segment {
        let mut segment = Segment { first: loops.len(), iterations: 1, bytes: block_bytes };
        while let Some(i) = segment.first.checked_sub(1) {
            let l = loops[i];
            let capacity = (target / segment.bytes).max(1) as u64;
            let full = capacity == 1 && segment.bytes > block_bytes;
            if !fits(i) || l.step[3] != 0 || l.step[4] != segment.bytes || full {
                break;
            }
            let iterations = l.n.min(capacity);
            segment = Segment { first: i, iterations, bytes: segment.bytes * iterations as i64 };
            if iterations < l.n {
                break;
            }
        }
        segment
    }

    /// The outermost loop, where it has half of that or more, but not all.
    pub(super) fn halved(&self, loops: &[Loop]) -> Option<Loop> {
        let outermost = loops.get(self.first).copied();
        outermost.filter(|l| self.iterations < l.n && l.n <= 2 * self.iterations)
    }

    /// Puts the loops of the segment into the block.
    pub(super) fn put(&self, loops: &[Loop], schedule: &mut Schedule) {
        schedule.segment = self.first;
        for (block, l) in schedule.blocks.iter_mut().zip(loops).skip(self.first) {
            *block = l.n;
        }
        if let Some(block) = schedule.blocks.get_mut(self.first) {
            *block = self.iterations;
        }
    }
}

/// Loops outside of the segment, which begins with loop `segment`, that fill what it leaves out between its runs of the
/// source, nearest first; `stride` is how far a loop steps there, 0 for one that no block can have.
pub(super) fn between(loops: &[Loop], segment: usize, stride: impl Fn(&Loop) -> i64) -> Vec<usize> {
    let widest = loops[segment..].iter().map(&stride).max().unwrap_or(0);
    let mut between: Vec<usize> =
        (0..segment).filter(|&i| (1..widest).contains(&stride(&loops[i]))).collect();
    between.sort_by_key(|&i| stride(&loops[i]));
    between
}
