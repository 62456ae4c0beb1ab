//! Blocks of a source whose units lie anywhere (pages in banks), brought together in L1 as they are: kernels take loops
//! from unit to unit there as any others.

use kernels::{Destination, Hints, MAX_OUTER_LOOPS, OuterLoop, Window};
use smallvec::SmallVec;

use super::clip::advance;
use super::destination::writable;
use crate::plan::Plan;
use crate::plan::ir::{AddressPair, MAX_BLOCK, ScheduledNest};

/// What was brought together: whole cache lines.
#[repr(align(64))]
pub(super) struct Compact([u8; MAX_BLOCK]);

/// How blocks of one size are brought together: which loops one copy takes, and which are walked around it.
pub(super) struct Compaction<const N: usize> {
    elem: usize,
    /// How far each loop of a block steps in what was brought together.
    pub(super) near: [i64; N],
    window: Window,
    outer: [OuterLoop; MAX_OUTER_LOOPS],
    taken: usize,
    /// The bytes of that copy, where they are one run.
    run: Option<usize>,
    /// Bytes of a run of the source, and how far behind it lies the one that is fetched meanwhile; 0 for none.
    fetched: (usize, isize),
    /// Loops from unit to unit, with their iterations, innermost first.
    outside: SmallVec<[(usize, u64); 16]>,
}

impl<const N: usize> Compaction<N> {
    /// `size`: how many iterations of each loop a block has.
    pub(super) fn new(plan: &Plan, nest: &ScheduledNest, size: &[u64; N]) -> Compaction<N> {
        let (loops, elem) = (&nest.loops, plan.op.source_size());
        // The verifier bounds the elements of a block, so that few loops have more than one iteration.
        let mut order: SmallVec<[usize; 16]> = (0..loops.len()).filter(|&i| size[i] > 1).collect();
        order.sort_unstable_by_key(|&i| loops[i].src().map(i64::unsigned_abs));
        let (mut near, mut bytes) = ([0; N], elem as i64);
        for &i in &order {
            near[i] = bytes;
            bytes *= size[i] as i64;
        }
        // Neighbours that follow one another in the source too are one loop.
        let mut inside: SmallVec<[OuterLoop; 16]> = SmallVec::new();
        let units = order.iter().position(|&i| loops[i].step[0] != 0).unwrap_or(order.len());
        let mut taken = 0;
        for &i in &order[..units] {
            let one =
                OuterLoop { n: size[i] as usize, src: loops[i].step[1] as isize, dst: near[i] as isize };
            let full = inside.len() == MAX_OUTER_LOOPS + 2;
            match inside.last_mut() {
                Some(last) if last.src * last.n as isize == one.src => last.n *= one.n,
                _ if full => break,
                _ => inside.push(one),
            }
            taken += 1;
        }
        let outside = order[taken..].iter().map(|&i| (i, size[i])).collect();
        let none = OuterLoop { n: 1, src: 0, dst: 0 };
        let mut inside = inside.into_iter();
        let (cols, rows) = (inside.next().unwrap_or(none), inside.next().unwrap_or(none));
        let mut outer = [none; MAX_OUTER_LOOPS];
        let count = inside.len();
        outer[..count].iter_mut().rev().zip(inside).for_each(|(outer, l)| *outer = l);
        let window = Window {
            rows: rows.n,
            cols: cols.n,
            src_row: rows.src,
            src_col: cols.src,
            dst_row: rows.dst,
            dst_col: cols.dst,
        };
        // What later blocks read lies in many units, of which the processor fetches none by itself.
        let distance = nest.schedule.prefetch_distance as isize;
        let fetched = (if cols.src == elem as isize { cols.n * elem } else { 1 }, distance);
        let is_run = count == 0 && rows.n == 1 && cols.src == elem as isize;
        let run = is_run.then_some(cols.n * elem);
        Compaction { elem, near, window, outer, taken: count, run, fetched, outside }
    }

    /// Brings the block that begins at `at` together.
    pub(super) fn run<'s>(
        &self,
        plan: &Plan,
        nest: &ScheduledNest,
        source: &[u8],
        mut at: AddressPair,
        compact: &'s mut Option<Compact>,
    ) -> &'s [u8] {
        let Compact(bytes) = compact.get_or_insert_with(|| Compact([0; MAX_BLOCK]));
        let outer = &self.outer[..self.taken];
        let (mut to, mut done) = (0_i64, [0_u64; N]);
        loop {
            let from = (plan.src.space.unit_at(at[0]) + at[1]) as usize;
            let (len, distance) = self.fetched;
            if distance != 0 {
                kernels::prefetch(source, from.wrapping_add_signed(distance), len);
            }
            let near = to as usize;
            if let Some(run) = self.run {
                // The call of a kernel takes longer than copying a line or two.
                bytes[near..][..run].copy_from_slice(&source[from..][..run]);
            } else {
                let out = &mut Destination::cached(writable(bytes));
                let (window, hints) = (&self.window, Hints::default());
                plan.kernels.copy_loops(self.elem, source, from, out, near, window, outer, hints);
            }
            let more = self.outside.iter().any(|&(i, n)| {
                done[i] += 1;
                let by = if done[i] < n { 1 } else { 1 - done[i] as i64 };
                at = advance(at, nest.loops[i].step, by);
                to += self.near[i] * by;
                done[i] %= n;
                by == 1
            });
            if !more {
                return bytes;
            }
        }
    }
}
