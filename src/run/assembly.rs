//! Blocks of elements that are assembled in L1 and written from there, past the caches.

use kernels::{Destination, Segment};

use super::elements::{Calls, Carry};
use super::memory::writable;
use crate::plan::nest::{AddressPair, Nest};
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
    calls: Calls<'p>,
    /// How many turns of each loop a block has, and how many of the segment's are left behind it.
    size: [u64; MAX_LOOPS],
    left: u64,
    segments: [Segment; Assembly::MOST],
    count: usize,
    /// Bytes behind a segment to which it may reach.
    reach: usize,
    /// Whether a segment lies in the source as it is.
    in_source: bool,
}

impl<'p> Assembly<'p> {
    /// Segments are whole lines at the least.
    const MOST: usize = MAX_BLOCK / LINE;

    /// `left`: turns of the segment's loop behind the block.
    pub(super) fn new(plan: &'p Plan, nest: &'p Nest, size: [u64; MAX_LOOPS], left: u64) -> Assembly<'p> {
        let (walk, loops) = (&nest.walk, &nest.loops);
        // Where clipping has cut a loop of the segment, those further out have one turn.
        let inside = loops.iter().zip(size).skip(walk.segment);
        let mut len =
            inside.fold(plan.dst.block_bytes, |len, (l, n)| len + (n as usize - 1) * l.step[4] as usize);
        let in_source = matches!(plan.op, Op::Copy(_))
            && loops.len() == walk.segment + 1
            && loops[walk.segment].step[1] == plan.src.block_bytes as i64;
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
                    let Segment { from, to, .. } = segments[k];
                    segments[turn * count + k].from = from + packed * turn;
                    segments[turn * count + k].to = to + step * turn as isize;
                }
            }
            count *= size[i] as usize;
        }
        segments[..count].iter_mut().for_each(|s| s.len = len);
        let reach = walk.reach.min(left);
        let mut taken = size;
        if reach > 0 {
            taken[walk.segment] += reach;
        }
        let (calls, reach) = (Calls::new(plan, nest, taken), reach as usize * plan.dst.block_bytes);
        Assembly { plan, calls, size, left, segments, count, reach, in_source }
    }

    /// Whether it is for blocks of this size, with so many turns behind them.
    pub(super) fn suits(&self, size: &[u64; MAX_LOOPS], left: u64) -> bool {
        (&self.size, self.left) == (size, left)
    }

    /// Puts the block that begins at `at` to byte `to` of a destination; `first`: no other block reaches to it.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn run(
        &self,
        source: &[u8],
        carry: &mut Carry,
        Block(block): &mut Block,
        at: AddressPair,
        first: bool,
        out: &mut Destination<'_>,
        to: usize,
    ) {
        let plan = self.plan;
        let from = (plan.src.space.unit_at(at[0]) + at[1]) as usize;
        if self.in_source {
            return plan.kernels.stream(&source[from..from + self.segments[0].len], out, to);
        }
        self.calls.run(source, carry, at, &mut Destination::cached(writable(block)), 0);
        let segments = &self.segments[..self.count];
        if self.reach == 0 && first {
            return plan.kernels.stream_segments(block, segments, out, to);
        }
        // The bytes up to a segment's first line are left to the block before, those up to the next line behind it taken.
        let begin = out.addr().wrapping_add(to);
        let aligned = |Segment { from, to, len }: Segment| {
            let to_line = |at: usize| begin.wrapping_add_signed(to).wrapping_add(at).wrapping_neg() % LINE;
            let before = if first { 0 } else { to_line(0).min(len + self.reach) };
            let behind = to_line(len).min(self.reach);
            Segment { from: from + before, to: to + before as isize, len: len + behind - before }
        };
        for some in segments.chunks(32) {
            let mut moved = [Segment::default(); 32];
            moved.iter_mut().zip(some).for_each(|(moved, segment)| *moved = aligned(*segment));
            plan.kernels.stream_segments(block, &moved[..some.len()], out, to);
        }
    }
}
