//! Blocks of elements that are assembled in L1 and written from there, past the caches.

use std::mem::MaybeUninit;

use kernels::{Segment, prefetch};

use super::elements::{Calls, Carry};
use super::memory::writable;
use crate::plan::nest::{Both, Nest};
use crate::plan::{MAX_BLOCK, MAX_LOOPS, Op, Plan};

/// Bytes of a cache line.
const LINE: usize = 64;

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
    /// Where each segment begins in the block and in the destination.
    segments: [Segment; Assembly::MOST],
    count: usize,
    /// Bytes of a segment.
    len: usize,
    /// Whether a segment lies in the source as it is.
    in_source: bool,
}

impl<'p> Assembly<'p> {
    /// Segments are whole lines at the least.
    const MOST: usize = MAX_BLOCK / LINE;

    pub(super) fn new(plan: &'p Plan, nest: &'p Nest, size: [u64; MAX_LOOPS]) -> Assembly<'p> {
        let (walk, loops) = (&nest.walk, &nest.loops);
        // Where clipping has cut a loop of the segment, those further out have one turn.
        let inside = loops.iter().zip(size).skip(walk.segment);
        let mut len = inside.fold(plan.dst.grain, |len, (l, n)| len + (n as usize - 1) * l.step[4] as usize);
        let in_source = matches!(plan.op, Op::Copy(_))
            && loops.len() == walk.segment + 1
            && loops[walk.segment].step[1] == plan.src.grain as i64;
        let mut segments = [Segment::default(); Assembly::MOST];
        let mut count = 1;
        for i in (0..walk.segment).rev().filter(|&i| size[i] > 1) {
            let (packed, step) = (walk.packed[i] as usize, loops[i].step[4] as isize);
            if count == 1 && (packed, step) == (len, len as isize) {
                len *= size[i] as usize;
                continue;
            }
            for turn in 1..size[i] as usize {
                for k in 0..count {
                    let Segment { from, to } = segments[k];
                    segments[turn * count + k] =
                        Segment { from: from + packed * turn, to: to + step * turn as isize };
                }
            }
            count *= size[i] as usize;
        }
        Assembly { plan, calls: Calls::new(plan, nest, size), segments, count, len, in_source }
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
        // A line of which a segment is a part must be there when the segment is written, or all stores wait for it.
        for segment in &self.segments[..self.count] {
            let begin = to.wrapping_add_signed(segment.to);
            for at in [begin, begin + self.len] {
                if !(out.as_ptr().addr() + at).is_multiple_of(LINE) {
                    prefetch(out, at);
                }
            }
        }
        self.calls.run(source, carry, at, writable(block), 0);
        plan.kernels.stream_segments(block, self.len, &self.segments[..self.count], out, to);
    }
}
