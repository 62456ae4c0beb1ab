//! Blocks of a source that are brought together in L1: kernels take what lies there as any other source.
//!
//! What lies in many units (pages in banks) is brought together as it is, and then assembled. What is converted or transposed faster as
//! it lies is brought together as elements of the destination, and copied.

use kernels::{Ahead, Destination, Hints, MAX_OUTER_LOOPS, OuterLoop, Window};
use smallvec::SmallVec;

use super::clip::advance;
use super::destination::writable;
use crate::plan::ir::{AddressPair, MAX_BLOCK, MAX_LOOPS_OF_CALL, ScheduledNest};
use crate::plan::{Op, Plan};

/// What was brought together: whole cache lines.
#[repr(align(64))]
pub(super) struct Compact([u8; MAX_BLOCK]);

/// How blocks of one size are brought together: which loops one call takes, and which are walked around it.
pub(super) struct Compaction<const N: usize> {
    /// How far each loop of a block steps in what was brought together; 0 where it stays in the source.
    pub(super) near: [i64; N],
    call: Call,
    /// What happens to elements meanwhile.
    op: Op,
    /// The bytes of a row of that call, where they are copied as one run.
    run: Option<usize>,
    /// How far behind a row of the source lies the one that is fetched meanwhile; 0 for none.
    pub(super) distance: isize,
    /// Whether that is fetched while the block is copied.
    fetches_later: bool,
    /// Loops from unit to unit, with their iterations, innermost first.
    outside: SmallVec<[(usize, u64); 16]>,
}

/// What one call of a kernel takes of loops: a window, and the last `taken` loops around it.
pub(super) struct Call {
    pub(super) window: Window,
    pub(super) outer: [OuterLoop; MAX_OUTER_LOOPS],
    pub(super) taken: usize,
}

/// Takes loops as long as there is room for them, each joined with the one before where they follow one another on both sides; how many
/// it takes.
fn join(loops: impl Iterator<Item = OuterLoop>) -> (SmallVec<[OuterLoop; MAX_LOOPS_OF_CALL]>, usize) {
    let (mut joined, mut taken) = (SmallVec::<[OuterLoop; MAX_LOOPS_OF_CALL]>::new(), 0);
    for one in loops {
        let full = joined.len() == MAX_LOOPS_OF_CALL;
        match joined.last_mut() {
            Some(last) if [last.src, last.dst].map(|step| step * last.n as isize) == [one.src, one.dst] => {
                last.n *= one.n;
            }
            _ if full => break,
            _ => joined.push(one),
        }
        taken += 1;
    }
    (joined, taken)
}

impl Call {
    /// The call of some loops, the columns first, then the rows.
    fn new(loops: impl ExactSizeIterator<Item = OuterLoop>) -> Call {
        let none = OuterLoop { n: 1, src: 0, dst: 0 };
        let mut loops = loops;
        let (cols, rows) = (loops.next().unwrap_or(none), loops.next().unwrap_or(none));
        let window = Window {
            rows: rows.n,
            cols: cols.n,
            src_row: rows.src,
            src_col: cols.src,
            dst_row: rows.dst,
            dst_col: cols.dst,
        };
        let (mut outer, taken) = ([none; MAX_OUTER_LOOPS], loops.len());
        outer.iter_mut().rev().zip(loops).for_each(|(outer, l)| *outer = l);
        Call { window, outer, taken }
    }

    /// The loops around the window, outermost first.
    pub(super) fn outer(&self) -> &[OuterLoop] {
        &self.outer[MAX_OUTER_LOOPS - self.taken..]
    }
}

impl<const N: usize> Compaction<N> {
    /// `size`: how many iterations of each loop a block has.
    pub(super) fn new(plan: &Plan, nest: &ScheduledNest, size: &[u64; N]) -> Compaction<N> {
        let (loops, read) = (&nest.loops, plan.op.source_size());
        let op = if nest.schedule.assembled { Op::Copy(read) } else { plan.op };
        let elem = if nest.schedule.assembled { read } else { plan.dst.block_bytes };
        // The verifier bounds the elements of a block, so that few loops have more than one iteration.
        let mut order: SmallVec<[usize; 16]> =
            (0..loops.len()).filter(|&i| size[i] > 1 && loops[i].src() != [0; 3]).collect();
        order.sort_by_key(|&i| loops[i].src().map(i64::unsigned_abs));
        let (mut near, mut bytes) = ([0; N], elem as i64);
        for &i in &order {
            near[i] = bytes;
            bytes *= size[i] as i64;
        }
        let units = order.iter().position(|&i| loops[i].step[0] != 0).unwrap_or(order.len());
        let one = |&i: &usize| OuterLoop {
            n: size[i] as usize,
            src: loops[i].step[1] as isize,
            dst: near[i] as isize,
        };
        let (inside, taken) = join(order[..units].iter().map(one));
        let outside: SmallVec<[(usize, u64); 16]> = order[taken..].iter().map(|&i| (i, size[i])).collect();
        let call = Call::new(inside.into_iter());
        let Call { window, taken: around, .. } = &call;
        // What later blocks read lies in many units or rows, of which the processor fetches none by itself.
        let distance = nest.schedule.prefetch_distance as isize;
        let is_run = window.src_col == read as isize && window.dst_col == elem as isize;
        let run = (is_run && *around == 0 && matches!(op, Op::Copy(_))).then_some(window.cols * read);
        // Zen 4 copies 13 GB/s of transposed bf16 to tiles so, and 11 where rows are fetched while others are brought together; what is
        // converted meanwhile is a twentieth slower.
        let fetches_later = run.is_some() && plan.streams && !nest.schedule.assembled && outside.is_empty();
        Compaction { near, call, op, run, distance, fetches_later, outside }
    }

    /// The call that copies a block from here to its place, where one takes all of its loops: `step` says how far a loop steps there.
    pub(super) fn copy(
        &self,
        elem: usize,
        size: &[u64; N],
        step: impl Fn(usize) -> Option<i64>,
    ) -> Option<Call> {
        let blocked = || (0..N).rev().filter(|&i| size[i] > 1);
        let one = |i: usize| {
            step(i).map(|dst| OuterLoop {
                n: size[i] as usize,
                src: self.near[i] as isize,
                dst: dst as isize,
            })
        };
        if blocked().any(|i| step(i).is_none()) {
            return None;
        }
        let (mut inside, taken) = join(blocked().filter_map(one));
        if taken < blocked().count() {
            return None;
        }
        // Of a transpose the rows are what lies one after another here.
        let rows = inside.iter().skip(1).position(|l| l.src == elem as isize);
        if let Some(rows) = rows {
            inside[1..=rows + 1].rotate_right(1);
        }
        Some(Call::new(inside.into_iter()))
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
        let (mut to, mut done) = (0_i64, [0_u64; N]);
        loop {
            let from = (plan.src.space.unit_at(at[0]) + at[1]) as usize;
            self.one(plan, source, from, bytes, to as usize);
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

    /// What is fetched while the block that begins at `at` is copied.
    pub(super) fn ahead<'s>(&self, plan: &Plan, source: &'s [u8], at: AddressPair) -> Option<Ahead<'s>> {
        let Window { rows, src_row, .. } = self.call.window;
        let run = self.run.filter(|_| self.fetches_later && self.distance != 0)?;
        let from = (plan.src.space.unit_at(at[0]) + at[1]) as usize;
        Ahead::of_rows(source, from.wrapping_add_signed(self.distance), run, rows, src_row)
    }

    /// One call: what it reads begins at byte `from` of the source.
    fn one(&self, plan: &Plan, source: &[u8], mut from: usize, bytes: &mut [u8], mut to: usize) {
        let (window, outer, distance) = (&self.call.window, self.call.outer(), self.distance);
        if let Some(run) = self.run {
            // The call of a kernel takes longer than copying a line or two, and it fetches no rows.
            for _ in 0..window.rows {
                if distance != 0 && !self.fetches_later {
                    kernels::prefetch(source, from.wrapping_add_signed(distance), run);
                }
                bytes[to..][..run].copy_from_slice(&source[from..][..run]);
                (from, to) =
                    (from.wrapping_add_signed(window.src_row), to.wrapping_add_signed(window.dst_row));
            }
            return;
        }
        let hints = Hints { prefetch_distance: distance, ..Hints::default() };
        let out = &mut Destination::cached(writable(bytes));
        match self.op {
            Op::Copy(size) => {
                plan.kernels.copy_loops(size, source, from, out, to, window, outer, hints);
            }
            Op::Convert(number, into) => {
                plan.kernels.convert_loops(number, into, source, from, out, to, window, outer, hints);
            }
            // The verifier lets none in that may not fit.
            Op::Cast { cast, .. } => {
                plan.kernels.cast_loops(cast, source, from, out, to, window, outer, hints);
            }
        }
    }
}
