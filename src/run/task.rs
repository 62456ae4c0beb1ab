//! A task: a share of the destination that is written alone, nest by nest and block by block.

use kernels::Destination;

use super::assembly::{Assembly, Block};
use super::blocks::{Blocks, Later};
use super::clip::{Chunk, View, advance, clip, linear, place};
use super::compact::Compact;
use super::elements::{Calls, blocks_fetched};
use super::scratch::Scratch;
use super::share::{Band, Dealt, Places};
use crate::plan::ir::{
    Gather, LINE, Leaf, Loop, MAX_LOOPS, Schedule, ScheduledNest, WholeCall, runs_begin_anywhere,
};
use crate::plan::{Op, OutOfRange, Plan};

/// Loops of everyday nests. What is kept for each loop has so many places where they suffice: to clear [`MAX_LOOPS`] of each
/// takes as long as to move a small tensor.
const FEW_LOOPS: usize = 8;

/// What of a nest is written.
#[derive(Clone, Copy)]
enum Part {
    /// All of it.
    All,
    /// What it has of a range of bytes, counted through all units.
    Range(i64, i64),
    /// What it has of a band.
    Band(Band),
}

/// A share of the destination that is written alone.
pub(super) struct Task<'a, 'd> {
    pub(super) plan: &'a Plan,
    pub(super) source: &'a [u8],
    /// The byte of the source at which `source` begins.
    pub(super) source_begin: i64,
    pub(super) out: &'a mut Destination<'d>,
    /// Where the bytes of the destination lie in `out`.
    pub(super) places: Places,
    /// What is assembled before it is written.
    pub(super) block: Option<Block>,
    pub(super) scratch: Scratch,
    /// What is brought together before kernels take it.
    compact: Option<Compact>,
}

impl<'a, 'd> Task<'a, 'd> {
    pub(super) fn new(
        plan: &'a Plan,
        source: &'a [u8],
        source_begin: usize,
        out: &'a mut Destination<'d>,
        places: Places,
    ) -> Task<'a, 'd> {
        let source_begin = source_begin as i64;
        Task {
            plan,
            source,
            source_begin,
            out,
            places,
            block: None,
            scratch: Scratch::default(),
            compact: None,
        }
    }

    /// The one call that does all of a plan: that of a single nest which is a single block and has all bytes of a single unit.
    pub(super) fn whole_call(plan: &Plan) -> Option<WholeCall> {
        let [nest] = &*plan.nests else { return None };
        let space = &plan.dst.space;
        let alone = (space.units, space.pitch_bytes) == (1, space.unit_bytes) && !plan.streams;
        let one = alone && nest.leaf == Leaf::Element && !nest.schedule.assembled && !nest.schedule.compacted;
        if !one || nest.loops.len() > FEW_LOOPS {
            return None;
        }
        let view = View::<FEW_LOOPS>::of(nest);
        let blocks = Blocks::new(nest, &view, 0);
        let mut calls = Calls::new(plan, nest, Places::From(0));
        calls.prepare(&blocks.size, None);
        let all = nest.loops.iter().zip(blocks.size).all(|(l, n)| l.n == n);
        calls.whole(blocks.at).filter(|_| all)
    }

    /// Writes all of `out`, which is the chunk; the first value that its destination cannot hold.
    pub(super) fn chunk(mut self, chunk: Chunk) -> Option<OutOfRange> {
        let plan = self.plan;
        // What is written whole is written unit by unit as the source lies, not as the units do.
        let whole = chunk.len() == plan.destination_bytes();
        if whole {
            plan.nests.iter().for_each(|nest| self.nest(nest, Part::All));
        }
        for stretch in chunk.stretches(&plan.dst.space) {
            if !whole {
                self.units(stretch.lo, stretch.hi);
            }
            if stretch.gap > 0 {
                let to = stretch.at - chunk.begin() + (stretch.hi - stretch.lo) as usize;
                plan.kernels.fill(&[0], self.out.bytes(), to, 1, 0, stretch.gap);
            }
        }
        self.scratch.out_of_range
    }

    /// Writes all ranges of `out`, which are those of the units; the first value that its destination cannot hold.
    pub(super) fn dealt(mut self, dealt: Dealt) -> Option<OutOfRange> {
        let (plan, space) = (self.plan, &self.plan.dst.space);
        let unit = space.unit_bytes as i64;
        for units in dealt.units(space) {
            self.units(units.start as i64 * unit, units.end as i64 * unit);
        }
        let gap = (space.pitch_bytes - space.unit_bytes) as usize;
        for units in dealt.units(space).filter(|_| gap > 0) {
            for unit in units {
                let to = self.places.turn(self.out, space.unit_at(unit as i64)) + space.unit_bytes as usize;
                plan.kernels.fill(&[0], self.out.bytes(), to, 1, 0, gap);
            }
        }
        self.scratch.out_of_range
    }

    /// Writes all ranges of `out`, which are those of the band; the first value that its destination cannot hold.
    pub(super) fn band(mut self, band: Band) -> Option<OutOfRange> {
        self.plan.nests.iter().for_each(|nest| self.nest(nest, Part::Band(band)));
        self.scratch.out_of_range
    }

    /// Writes a range of bytes, counted through all units.
    fn units(&mut self, lo: i64, hi: i64) {
        let plan = self.plan;
        plan.nests.iter().for_each(|nest| self.nest(nest, Part::Range(lo, hi)));
    }

    /// Writes a part of a nest.
    fn nest(&mut self, nest: &ScheduledNest, part: Part) {
        if nest.loops.len() <= FEW_LOOPS {
            self.nest_of::<FEW_LOOPS>(nest, part);
        } else {
            self.nest_of::<MAX_LOOPS>(nest, part);
        }
    }

    /// [`Task::nest`] of at most `N` loops.
    fn nest_of<const N: usize>(&mut self, nest: &ScheduledNest, part: Part) {
        let plan = self.plan;
        match part {
            Part::All => self.by_lines(nest, &View::<N>::of(nest)),
            Part::Range(lo, hi) => {
                clip(plan, nest, (lo, hi), &mut |nest, view: &View<N>| self.by_lines(nest, view));
            }
            Part::Band(band) => clip(plan, nest, band.of_first_plane(), &mut |nest, view: &View<N>| {
                let mut of_all = *view;
                of_all.n[0] = nest.loops[0].n;
                self.by_lines(nest, &of_all);
            }),
        }
    }

    /// Runs all iterations of a view. Where a destination begins between two lines, and with it all segments of elements that are
    /// assembled or compacted (a transpose's), those up to the first line are a view of their own: the other segments begin and end
    /// where lines do.
    fn by_lines<const N: usize>(&mut self, nest: &ScheduledNest, view: &View<N>) {
        let (schedule, i) = (&nest.schedule, nest.schedule.segment);
        let in_segments = schedule.assembled || schedule.compacted;
        let streams = self.plan.streams && in_segments && schedule.overlap == 0;
        if let Some(&Loop { step, .. }) = nest.loops.get(i).filter(|_| streams && i + 1 == nest.loops.len())
            && (step[3], step[4]) == (0, self.plan.dst.block_bytes as i64)
            && view.n[i] > schedule.blocks[i]
        {
            let to = self.places.turn(self.out, place(self.plan, view.at));
            let ahead = self.out.addr().wrapping_add(to).wrapping_neg() % LINE;
            let count = (ahead / self.plan.dst.block_bytes) as u64;
            if count > 0 && count < view.n[i] {
                let (mut ahead, mut rest) = (*view, *view);
                ahead.n[i] = count;
                rest.n[i] -= count;
                rest.first[i] += count;
                rest.at = advance(rest.at, step, count as i64);
                self.rectangle(nest, &ahead);
                return self.rectangle(nest, &rest);
            }
        }
        self.rectangle(nest, view);
    }

    /// Runs all iterations of a view, block by block.
    fn rectangle<const N: usize>(&mut self, nest: &ScheduledNest, view: &View<N>) {
        match &nest.leaf {
            Leaf::Element if nest.schedule.assembled => self.assembled(nest, view),
            Leaf::Element => self.elements(nest, view),
            Leaf::Fill => self.fills(nest, view),
            Leaf::Pack(parts) => self.packs(nest, parts, view),
        }
    }

    // Each kind of leaf has a function of its own that is never inlined. One function for all of them had a stack frame of 34 KiB,
    // and to enter it took as long as to move a small tensor.

    #[inline(never)]
    fn elements<const N: usize>(&mut self, nest: &ScheduledNest, view: &View<N>) {
        let plan = self.plan;
        let tuning = &plan.tuning;
        let as_written = self.is_as_written(nest, view).then(|| match plan.op {
            _ if !self.is_between_lines(nest) => (tuning.between_run, tuning.runs_fetched),
            Op::Copy(_) => (tuning.between_copied, tuning.between_fetched),
            _ => (tuning.between_run, tuning.between_fetched),
        });
        let mut blocks = Blocks::new(nest, view, self.source_begin);
        if let Some((most, _)) = as_written {
            let most = most as u64;
            let run = |step: i64| (most / step.unsigned_abs().max(1)).max(1);
            blocks.shorten(|l| run(l.step[1]).max(run(l.step[4])));
        }
        let mut calls = Calls::new(plan, nest, self.places);
        if calls.is_band(&blocks.size) {
            blocks.shorten(|l| (plan.tuning.direct_source as u64 / l.step[1].unsigned_abs().max(1)).max(1));
        }
        let mut later = Later::new(blocks_fetched(plan, nest), nest, view, self.source_begin);
        loop {
            if !blocks.is_alike {
                calls.prepare(&blocks.size, as_written.map(|(_, fetched)| fetched));
            }
            if let Some(later) = &mut later {
                calls.fetch(&blocks.at, later.at());
                later.advance();
            }
            let to = self.places.turn(self.out, place(plan, blocks.at));
            calls.run(self.source, (&mut self.scratch, &mut self.compact), &blocks.at, self.out, to);
            if !blocks.advance() {
                return;
            }
        }
    }

    #[inline(never)]
    fn assembled<const N: usize>(&mut self, nest: &ScheduledNest, view: &View<N>) {
        let plan = self.plan;
        let mut blocks = Blocks::new(nest, view, self.source_begin);
        let mut later = Later::new(blocks_fetched(plan, nest), nest, view, self.source_begin);
        let mut more = true;
        while more {
            let left = blocks.left();
            let mut assembly = Assembly::new(plan, nest, blocks.size, left);
            let mut is_alike = true;
            while more && is_alike {
                if let Some(later) = &mut later {
                    assembly.fetch(&blocks.at, later.at());
                    later.advance();
                }
                let to = self.places.turn(self.out, place(plan, blocks.at));
                let block = self.block.get_or_insert_with(Block::zero);
                assembly.run(
                    self.source,
                    (&mut self.scratch, &mut self.compact),
                    block,
                    &blocks.at,
                    blocks.is_first(),
                    (self.out, self.places),
                    to,
                );
                more = blocks.advance();
                is_alike = blocks.is_alike && blocks.left() == left;
            }
        }
    }

    #[inline(never)]
    fn fills<const N: usize>(&mut self, nest: &ScheduledNest, view: &View<N>) {
        let plan = self.plan;
        let mut blocks = Blocks::new(nest, view, self.source_begin);
        let step = nest.schedule.rows.map_or(0, |r| linear(plan, nest.loops[r].step) as isize);
        loop {
            let size = &blocks.size;
            let len = nest.schedule.cols.map_or(1, |c| size[c] as usize) * plan.dst.block_bytes;
            let rows = nest.schedule.rows.map_or(1, |r| size[r] as usize);
            let to = self.places.turn(self.out, place(plan, blocks.at));
            plan.kernels.fill(&plan.fill, self.out.bytes(), to, rows, step, len);
            if !blocks.advance() {
                return;
            }
        }
    }

    #[inline(never)]
    fn packs<const N: usize>(&mut self, nest: &ScheduledNest, parts: &[Gather], view: &View<N>) {
        let mut blocks = Blocks::new(nest, view, self.source_begin);
        let mut later = Later::new(blocks_fetched(self.plan, nest), nest, view, self.source_begin);
        loop {
            let iteration = later.as_ref().and_then(Later::iteration);
            self.pack(nest, parts, (&blocks.iteration(), &blocks.at), &blocks.size, iteration);
            if let Some(later) = &mut later {
                later.advance();
            }
            if !blocks.advance() {
                return;
            }
        }
    }

    /// Whether elements that go at once, as the source lies, go in the order of the destination instead.
    ///
    /// Where it begins between two lines, the stores to the two parts of a line follow one another then, and the line is written
    /// once; in any other order its parts are written by themselves, each as slowly as several lines. And where a task has a part of
    /// the destination that reads less than a segment of every run of the source, there are no runs to read as they lie: on Zen 5
    /// two threads unstickify 11 GB/s then, and 20 to 28 in the order of the destination.
    fn is_as_written<const N: usize>(&self, nest: &ScheduledNest, view: &View<N>) -> bool {
        let Schedule { assembled, within, .. } = &nest.schedule;
        let rows = nest.leaf == Leaf::Element && matches!(self.plan.op, Op::Copy(_) | Op::Convert(..));
        let at_once = self.plan.streams && rows && self.plan.src.codec.is_none() && !assembled;
        let has_no_runs = || {
            nest.loops.first().is_some_and(|l| {
                let run = view.n[0].saturating_mul(l.step[1].unsigned_abs());
                view.n[0] < l.n && l.step[0] == 0 && (1..self.plan.tuning.segment as u64).contains(&run)
            })
        };
        at_once && !within.is_sorted() && (self.is_between_lines(nest) || has_no_runs())
    }

    /// Whether runs of the destination begin between two lines: the first one, or others behind it.
    fn is_between_lines(&self, nest: &ScheduledNest) -> bool {
        !self.out.addr().is_multiple_of(LINE) || runs_begin_anywhere(&nest.loops, self.plan.dst.block_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{Descriptor, Placement, Tensor};
    use crate::run::destination::writable;
    use crate::{DType, Options, Plan};

    #[test]
    fn a_task_writes_its_elements_and_the_zeros_behind_them() {
        let tensor = Tensor { shape: vec![3, 5], dtype: DType::U8 };
        let layout = |text: &str| {
            let descriptor: Descriptor = text.parse().unwrap();
            descriptor.layout(&tensor, &Placement::default()).unwrap()
        };
        // Pages of 5 bytes, each on 32 bytes of its own.
        let pages = "ttnn(dtype=uint8, layout=ROW_MAJOR, memory=INTERLEAVED, banks=1, alignment=32)";
        let plan = Plan::compile(&layout("memref<3x5xui8>"), &layout(pages), &Options::default()).unwrap();
        let source: Vec<u8> = (1..=15).collect();
        let mut out = [0xFF; 64];
        let chunk = Chunk::new(&plan, &(32..96)).unwrap();
        assert_eq!(
            Task::new(&plan, &source, 0, &mut Destination::cached(writable(&mut out)), Places::From(32))
                .chunk(chunk),
            None
        );
        assert_eq!(out[..5], [6, 7, 8, 9, 10]);
        assert_eq!(out[32..37], [11, 12, 13, 14, 15]);
        assert!(out[5..32].iter().chain(&out[37..]).all(|&byte| byte == 0));
    }
}
