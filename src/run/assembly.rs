//! Blocks of elements that are assembled in L1 and written from there, by non-temporal stores.

use kernels::{Destination, Segment};
use smallvec::SmallVec;

use super::clip::{advance, place};
use super::compact::Compact;
use super::destination::writable;
use super::elements::Calls;
use super::scratch::Scratch;
use super::share::Places;
use crate::plan::ir::{AddressPair, LINE, MAX_BLOCK, MAX_SEGMENTS, ScheduledNest};
use crate::plan::{Op, Plan};

/// Whole cache lines.
#[repr(align(64))]
pub(super) struct Block(pub(super) [u8; MAX_BLOCK]);

impl Block {
    pub(super) fn zero() -> Block {
        Block([0; MAX_BLOCK])
    }
}

/// How blocks of one size, of a nest of at most `N` loops, are assembled and written.
pub(super) struct Assembly<'p, const N: usize> {
    plan: &'p Plan,
    nest: &'p ScheduledNest,
    calls: Calls<'p, N>,
    /// How many iterations of each loop a block has.
    size: [u64; N],
    /// The segments of one unit of the destination.
    segments: [Segment; MAX_SEGMENTS],
    count: usize,
    /// The loops of a block from unit to unit of the destination, innermost first.
    units: SmallVec<[usize; 16]>,
    /// Bytes behind a segment to which it may overlap.
    overlap: usize,
    /// Whether a segment lies in the source as it is.
    in_source: bool,
}

impl<'p, const N: usize> Assembly<'p, N> {
    /// `left`: iterations of the segment's loop behind the block.
    pub(super) fn new(plan: &'p Plan, nest: &'p ScheduledNest, size: [u64; N], left: u64) -> Assembly<'p, N> {
        let (schedule, loops) = (&nest.schedule, &nest.loops);
        // Where clipping has cut a loop of the segment, those further out have one iteration.
        let inside = loops.iter().zip(size).skip(schedule.segment);
        let mut len =
            inside.fold(plan.dst.block_bytes, |len, (l, n)| len + (n as usize - 1) * l.step[4] as usize);
        let in_source = matches!(plan.op, Op::Copy(_))
            && loops.len() == schedule.segment + 1
            && loops[schedule.segment].step[..2] == [0, plan.src.block_bytes as i64];
        let mut segments = [Segment::default(); MAX_SEGMENTS];
        let mut count = 1;
        // The verifier bounds the bytes of a block, so that few loops have more than one iteration.
        let (units, others): (SmallVec<[usize; 16]>, SmallVec<[usize; 16]>) =
            (0..schedule.segment).rev().filter(|&i| size[i] > 1).partition(|&i| loops[i].step[3] != 0);
        for i in others {
            let (packed, step) = (schedule.packed[i] as usize, loops[i].step[4] as isize);
            if count == 1 && (packed, step) == (len, len as isize) {
                len *= size[i] as usize;
                continue;
            }
            for k in 1..size[i] as usize {
                for segment in 0..count {
                    let Segment { from, to, .. } = segments[segment];
                    segments[k * count + segment].from = from + packed * k;
                    segments[k * count + segment].to = to + step * k as isize;
                }
            }
            count *= size[i] as usize;
        }
        segments[..count].iter_mut().for_each(|s| s.len = len);
        let overlap = schedule.overlap.min(left);
        let mut taken = size;
        if overlap > 0 {
            taken[schedule.segment] += overlap;
        }
        let mut calls = Calls::new(plan, nest, Places::From(0));
        calls.prepare(&taken, None);
        let overlap = overlap as usize * plan.dst.block_bytes;
        Assembly { plan, nest, calls, size, segments, count, units, overlap, in_source }
    }

    /// Fetches the block that begins at `later`, if there is one, while that from `at` on is read.
    pub(super) fn fetch(&mut self, at: &AddressPair, later: Option<&AddressPair>) {
        self.calls.fetch(at, later);
    }

    /// Puts the block that begins at `at` to byte `to` of a destination, in which units lie as `places` says; `first`: no other
    /// block reaches to it.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn run(
        &self,
        source: &[u8],
        scratch: (&mut Scratch, &mut Option<Compact>),
        Block(block): &mut Block,
        at: &AddressPair,
        first: bool,
        (out, places): (&mut Destination<'_>, Places),
        to: usize,
    ) {
        let plan = self.plan;
        let from = (plan.src.space.unit_at(at[0]) + at[1]) as usize;
        if self.in_source {
            return plan.kernels.stream(&source[from..from + self.segments[0].len], out, to);
        }
        self.calls.run(source, scratch, at, &mut Destination::cached(writable(block)), 0);
        let segments = &self.segments[..self.count];
        if !self.units.is_empty() {
            return self.stream(block, *at, out, places);
        }
        if self.overlap == 0 && first {
            return plan.kernels.stream_segments(block, segments, out, to);
        }
        // The bytes up to a segment's first line are left to the block before, those up to the next line behind it taken.
        let begin = out.addr().wrapping_add(to);
        let aligned = |Segment { from, to, len }: Segment| {
            let to_line = |at: usize| begin.wrapping_add_signed(to).wrapping_add(at).wrapping_neg() % LINE;
            let before = if first { 0 } else { to_line(0).min(len + self.overlap) };
            let behind = to_line(len).min(self.overlap);
            Segment { from: from + before, to: to + before as isize, len: len + behind - before }
        };
        for some in segments.chunks(32) {
            let mut moved = [Segment::default(); 32];
            moved.iter_mut().zip(some).for_each(|(moved, segment)| *moved = aligned(*segment));
            plan.kernels.stream_segments(block, &moved[..some.len()], out, to);
        }
    }

    /// Writes a block of several units of the destination, unit by unit.
    fn stream(&self, block: &[u8], at: AddressPair, out: &mut Destination<'_>, places: Places) {
        let Assembly { plan, nest, units, .. } = self;
        let segments = &self.segments[..self.count];
        let (mut from, mut unit, mut done) = (0, at, [0_u64; N]);
        loop {
            let to = places.turn(out, place(plan, unit));
            plan.kernels.stream_segments(&block[from as usize..], segments, out, to);
            let more = units.iter().any(|&i| {
                done[i] += 1;
                let by = if done[i] < self.size[i] { 1 } else { 1 - done[i] as i64 };
                unit = advance(unit, nest.loops[i].step, by);
                from += nest.schedule.packed[i] * by;
                done[i] %= self.size[i];
                by == 1
            });
            if !more {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{Descriptor, Placement, Tensor};
    use crate::plan::Store;
    use crate::tuning::builtin;
    use crate::{DType, Options};

    #[test]
    fn a_block_of_a_transpose_is_segments_of_the_destination() {
        let tensor = Tensor { shape: vec![512, 64], dtype: DType::Bf16 };
        let layout = |text: &str| {
            let descriptor: Descriptor = text.parse().unwrap();
            descriptor.layout(&tensor, &Placement::default()).unwrap()
        };
        let (from, to) = (layout("memref<512x64xbf16>"), layout("memref<512x64xbf16, strided<[1, 512]>>"));
        let options = Options::default().with_store(Store::Streamed);
        let plan = Plan::compile_with(&from, &to, &options, &builtin::COMMON).unwrap();
        // 64 rows of the destination, 1024 bytes each: of 32 of them, a cache line of the source, 512 bytes.
        let nest = &plan.nests[0];
        assert_eq!((nest.loops[0].n, nest.loops[1].n), (64, 512), "{plan}");
        assert_eq!(nest.schedule.blocks, [32, 256], "{plan}");
        let size = [nest.schedule.blocks[0], nest.schedule.blocks[1]];
        let assembly = Assembly::new(&plan, nest, size, 256);
        let expect = (0..32).map(|k| Segment { from: 512 * k, to: 1024 * k as isize, len: 512 });
        assert!(assembly.segments[..assembly.count].iter().copied().eq(expect));
    }
}
