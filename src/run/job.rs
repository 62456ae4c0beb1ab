//! One range of the destination being written, nest by nest and block by block.

use std::mem::MaybeUninit;

use kernels::{Caching, prefetch};

use super::clip::{View, advance};
use super::elements::{Calls, Carry};
use super::memory::writable;
use crate::plan::nest::{Both, Leaf, Nest};
use crate::plan::{MAX_BLOCK, MAX_LOOPS, Misfit, Op, Plan};

/// One range of the destination being written.
pub(super) struct Job<'a> {
    pub(super) plan: &'a Plan,
    pub(super) source: &'a [u8],
    pub(super) out: &'a mut [MaybeUninit<u8>],
    /// What is assembled before it is written.
    pub(super) block: Option<Block>,
    pub(super) carry: Carry,
}

/// Whole cache lines.
#[repr(align(64))]
pub(super) struct Block(pub(super) [u8; MAX_BLOCK]);

impl Block {
    pub(super) fn zero() -> Block {
        Block([0; MAX_BLOCK])
    }
}

impl<'a> Job<'a> {
    pub(super) fn new(plan: &'a Plan, source: &'a [u8], out: &'a mut [MaybeUninit<u8>]) -> Job<'a> {
        Job { plan, source, out, block: None, carry: Carry::default() }
    }

    /// Writes all of `out`, which begins at byte `begin` of the destination; the first value that does not fit.
    pub(super) fn run(mut self, begin: usize) -> Option<Misfit> {
        let plan = self.plan;
        for part in plan.parts(begin, begin + self.out.len()) {
            let at = part.at - begin;
            let base = part.lo - at as i64;
            plan.clip(part.lo, part.hi, &mut |nest, view| self.rectangle(nest, view, base));
            if part.gap > 0 {
                let to = at + (part.hi - part.lo) as usize;
                plan.kernels.fill(&[0], self.out, to, 1, 0, part.gap);
            }
        }
        self.carry.misfit
    }

    /// Runs all turns of a view, block by block; `base` is where `out` begins, counted through all units.
    fn rectangle(&mut self, nest: &Nest, view: &View, base: i64) {
        let (plan, walk, count) = (self.plan, &nest.walk, nest.loops.len());
        let assembles = plan.streams && nest.leaf == Leaf::Element && !walk.direct;
        let blocks = &walk.blocks;
        let mut turn = [0_u64; MAX_LOOPS];
        let mut size = [1_u64; MAX_LOOPS];
        let mut at = view.at;
        let mut calls: Option<Calls<'_>> = None;
        let mut ahead: Option<Ahead> = None;
        loop {
            for i in 0..count {
                size[i] = blocks[i].min(view.n[i] - turn[i]);
            }
            let to = (plan.linear(at) - base) as usize;
            match &nest.leaf {
                Leaf::Element => {
                    let calls = match &mut calls {
                        Some(calls) if *calls.size() == size => calls,
                        other => other.insert(Calls::new(plan, nest, size, assembles)),
                    };
                    if assembles {
                        let ahead = ahead.get_or_insert_with(|| Ahead::new(plan, nest, view));
                        self.streamed(nest, calls, ahead, at, to);
                    } else {
                        let caching = Caching {
                            past: plan.streams,
                            ahead: (walk.ahead as f64
                                * std::env::var("TWA").map_or(1.0, |v| v.parse().unwrap()))
                                as isize,
                        };
                        calls.run(self.source, &mut self.carry, at, self.out, to, caching);
                    }
                }
                Leaf::Fill => self.fill(nest, &size, to),
                Leaf::Pack(parts) => {
                    let turn = std::array::from_fn(|i| view.first[i] + turn[i]);
                    self.pack(nest, parts, &turn, &size, to);
                }
            }
            let more = walk.order.iter().rev().any(|&i| {
                if view.n[i] <= blocks[i] {
                    return false;
                }
                turn[i] += blocks[i];
                if turn[i] < view.n[i] {
                    at = advance(at, nest.loops[i].step, blocks[i] as i64);
                    return true;
                }
                at = advance(at, nest.loops[i].step, blocks[i] as i64 - turn[i] as i64);
                turn[i] = 0;
                false
            });
            if !more {
                return;
            }
        }
    }

    /// One block of elements by way of the scratch: each of its segments is then written at once.
    fn streamed(&mut self, nest: &Nest, calls: &Calls<'_>, ahead: &Ahead, at: Both, to: usize) {
        let (plan, size, segment) = (self.plan, calls.size(), nest.walk.segment);
        // Where clipping has cut a loop of the segment, those further out have one turn.
        let inside = nest.loops.iter().zip(size).skip(segment);
        let len = inside.fold(plan.dst.grain, |len, (l, &n)| len + (n as usize - 1) * l.step[4] as usize);
        let from = (plan.src.space.unit_at(at[0]) + at[1]) as usize;
        let in_source = matches!(plan.op, Op::Copy(_))
            && nest.loops.len() == segment + 1
            && nest.loops[segment].step[1] == plan.src.grain as i64;
        if in_source {
            // The segment lies in the source as it is.
            return plan.kernels.stream(&self.source[from..from + len], self.out, to);
        }
        let Block(block) = self.block.get_or_insert_with(Block::zero);
        calls.run(self.source, &mut self.carry, at, writable(block), 0, Caching::default());
        let across: u64 = size[..segment].iter().product();
        let share = ahead.count.div_ceil(across as usize);
        for turn in 0..across {
            let (mut rest, mut begin, mut to) = (turn, 0, to as i64);
            for i in (0..segment).rev().filter(|&i| size[i] > 1) {
                let digit = (rest % size[i]) as i64;
                rest /= size[i];
                begin += nest.walk.packed[i] * digit;
                to += nest.loops[i].step[4] * digit;
            }
            ahead.fetch(self.source, from, turn as usize * share, share);
            plan.kernels.stream(&block[begin as usize..begin as usize + len], self.out, to as usize);
        }
    }

    fn fill(&mut self, nest: &Nest, size: &[u64; MAX_LOOPS], to: usize) {
        let len = nest.walk.cols.map_or(1, |c| size[c] as usize) * self.plan.dst.grain;
        let rows = nest.walk.rows.map_or(1, |r| size[r] as usize);
        let step = nest.walk.rows.map_or(0, |r| self.plan.linear(nest.loops[r].step) as isize);
        self.plan.kernels.fill(&self.plan.fill, self.out, to, rows, step, len);
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
            ahead.lines[line as usize] = (at + 64 * rest) as isize;
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
