//! Blocks of elements that are assembled in L1 and written from there, past the caches.

use std::mem::MaybeUninit;

use kernels::prefetch;

use super::clip::View;
use super::elements::{Calls, Carry};
use super::memory::writable;
use crate::plan::nest::{Both, Nest};
use crate::plan::{MAX_BLOCK, MAX_LOOPS, Op, Plan};

/// Whole cache lines.
#[repr(align(64))]
pub(super) struct Block(pub(super) [u8; MAX_BLOCK]);

impl Block {
    pub(super) fn zero() -> Block {
        Block([0; MAX_BLOCK])
    }
}

/// How blocks of one size are assembled and written.
pub(super) struct Assembly<'p> {
    plan: &'p Plan,
    pub(super) calls: Calls<'p>,
    ahead: Ahead,
    /// Where each segment begins: in the block, and in the destination from where the block begins.
    segments: [(u32, i64); Assembly::MOST],
    count: usize,
    /// Bytes of a segment.
    len: usize,
    /// Whether a segment lies in the source as it is.
    in_source: bool,
}

impl<'p> Assembly<'p> {
    /// Segments are whole lines at the least.
    const MOST: usize = MAX_BLOCK / 64;

    pub(super) fn new(plan: &'p Plan, nest: &'p Nest, view: &View, size: [u64; MAX_LOOPS]) -> Assembly<'p> {
        let (walk, loops) = (&nest.walk, &nest.loops);
        // Where clipping has cut a loop of the segment, those further out have one turn.
        let inside = loops.iter().zip(size).skip(walk.segment);
        let len = inside.fold(plan.dst.grain, |len, (l, n)| len + (n as usize - 1) * l.step[4] as usize);
        let in_source = matches!(plan.op, Op::Copy(_))
            && loops.len() == walk.segment + 1
            && loops[walk.segment].step[1] == plan.src.grain as i64;
        let mut segments = [(0, 0); Assembly::MOST];
        let mut count = 1;
        for i in (0..walk.segment).rev().filter(|&i| size[i] > 1) {
            for turn in 1..size[i] as i64 {
                for k in 0..count {
                    let (begin, to) = segments[k];
                    segments[turn as usize * count + k] =
                        (begin + (walk.packed[i] * turn) as u32, to + loops[i].step[4] * turn);
                }
            }
            count *= size[i] as usize;
        }
        let ahead = Ahead::new(plan, nest, view);
        Assembly { plan, calls: Calls::new(plan, nest, size), ahead, segments, count, len, in_source }
    }

    /// Puts the block that begins at `at` to byte `to` of a destination.
    pub(super) fn run(
        &self,
        source: &[u8],
        carry: &mut Carry,
        Block(block): &mut Block,
        at: Both,
        out: &mut [MaybeUninit<u8>],
        to: usize,
    ) {
        let plan = self.plan;
        let from = (plan.src.space.unit_at(at[0]) + at[1]) as usize;
        if self.in_source {
            return plan.kernels.stream(&source[from..from + self.len], out, to);
        }
        self.calls.run(source, carry, at, writable(block), 0);
        let share = self.ahead.count.div_ceil(self.count);
        for (turn, &(begin, step)) in self.segments[..self.count].iter().enumerate() {
            self.ahead.fetch(source, from, turn * share, share);
            let segment = &block[begin as usize..begin as usize + self.len];
            plan.kernels.stream(segment, out, to.wrapping_add_signed(step as isize));
        }
    }
}

/// The lines of the source that a later block reads, fetched bit by bit while this one is written: memory then reads and
/// writes at the same time.
struct Ahead {
    /// Where they begin, in bytes from where this block begins.
    lines: [isize; Ahead::MOST],
    count: usize,
}

impl Ahead {
    /// A block has at most so many lines of 64 bytes, of sources twice as wide as the destination too.
    const MOST: usize = 2 * MAX_BLOCK / 64;

    /// The lines of the block that comes after one of this size, or soon after where blocks are small.
    fn new(plan: &Plan, nest: &Nest, view: &View) -> Ahead {
        let mut ahead = Ahead { lines: [0; Ahead::MOST], count: 0 };
        let (walk, blocks) = (&nest.walk, &nest.walk.blocks);
        let next = walk.order.iter().rev().find(|&&i| view.n[i] > blocks[i]);
        let Some(next) = next.map(|&i| (nest.loops[i].step, blocks[i])) else { return ahead };
        if plan.src.codec.is_some() || next.0[0] != 0 {
            return ahead;
        }
        // The loops of a block, those with the shortest way in the source first: the first few step along a line, and
        // the others from line to line.
        let mut stretch = plan.op.source_size() as i64;
        let mut outer = [(1_i64, 0_i64); MAX_LOOPS];
        let mut left = 0;
        for &i in walk.order.iter().rev() {
            let (n, step) = (blocks[i].min(view.n[i]) as i64, nest.loops[i].step[1]);
            if n == 1 || step == 0 {
                continue;
            }
            if (0..=stretch.max(64)).contains(&step) {
                stretch += (n - 1) * step;
            } else {
                outer[left] = (n, step);
                left += 1;
            }
        }
        let lines = outer[..left].iter().fold((stretch + 63) / 64, |all, l| all.saturating_mul(l.0));
        if lines as usize > Ahead::MOST {
            return ahead;
        }
        let blocks_ahead = 4096_i64.div_euclid(lines * 64).max(1);
        let begin = next.0[1] * next.1 as i64 * blocks_ahead;
        for line in 0..lines {
            let (mut rest, mut at) = (line, begin);
            for &(n, step) in &outer[..left] {
                at += rest % n * step;
                rest /= n;
            }
            // The last byte of each, for at ragged places the first lies in a line that the block before has fetched.
            ahead.lines[line as usize] = (at + (64 * rest + 63).min(stretch - 1)) as isize;
        }
        ahead.count = lines as usize;
        ahead
    }

    /// Fetches some of the lines for the block that begins at byte `from` of the source.
    fn fetch(&self, source: &[u8], from: usize, first: usize, count: usize) {
        for line in self.lines[..self.count].iter().skip(first).take(count) {
            prefetch(source, from.wrapping_add_signed(*line));
        }
    }
}
