//! Kernel calls for a block of elements.

use kernels::{
    Ahead, BlockCodec, Cast, Destination, Hints, MAX_OUTER_LOOPS, Number, OuterLoop, TileShape, UnpackArgs,
    Window,
};

use smallvec::SmallVec;

use super::clip::{advance, place};
use super::compact::{Call, Compact, Compaction, from_to};
use super::scratch::{Scratch, TileRow, Unpacked, unpacked_as};
use super::share::Places;
use super::slots::{self, SlotLoop};
use crate::plan::ir::{AddressPair, LINE, ScheduledNest, WholeCall};
use crate::plan::{Op, OutOfRange, Plan};

/// Bytes of runs that L1 keeps when they are fetched to it, for few of them are read by turns: on Zen 4 tiles that go elsewhere as they
/// are have eight tenths of the speed by L2.
const LONG_RUN: i64 = 512;

/// The kernel calls for blocks of one size, of a nest of at most `N` loops: which of them a call takes, and which are walked
/// around it.
pub(super) struct Calls<'p, const N: usize> {
    plan: &'p Plan,
    nest: &'p ScheduledNest,
    /// How many iterations of each loop a block has.
    size: [u64; N],
    rows: (u64, AddressPair, i64),
    cols: (u64, AddressPair, i64),
    tiles: (u64, AddressPair, i64),
    outer: [OuterLoop; MAX_OUTER_LOOPS],
    taken: usize,
    /// The loops that `outer` has, innermost first.
    taken_loops: [usize; MAX_OUTER_LOOPS],
    outside: [usize; N],
    left: usize,
    hints: Hints,
    /// How blocks are brought together first, if they are.
    compaction: Option<Compaction<N>>,
    /// Where what the calls write lies in a destination.
    places: Places,
}

impl<'p, const N: usize> Calls<'p, N> {
    /// For blocks of no size yet.
    pub(super) fn new(plan: &'p Plan, nest: &'p ScheduledNest, places: Places) -> Calls<'p, N> {
        let one = (1, [0; 6], 0);
        Calls {
            plan,
            nest,
            size: [0; N],
            rows: one,
            cols: one,
            tiles: one,
            outer: [OuterLoop::default(); MAX_OUTER_LOOPS],
            taken: 0,
            taken_loops: [0; MAX_OUTER_LOOPS],
            outside: [0; N],
            left: 0,
            hints: Hints::default(),
            compaction: None,
            places,
        }
    }

    /// Whether blocks of a size go to several planes, of each of which the destination has a range: a call writes to one range, so that
    /// none can take what follows in the source.
    pub(super) fn is_band(&self, size: &[u64; N]) -> bool {
        let loops = self.nest.loops.iter().zip(size);
        self.nest.schedule.in_bands
            && loops.into_iter().any(|(l, &n)| n > 1 && !self.places.has_in_a_range(l))
    }

    /// Finds the calls for blocks of a size. `as_written`: in the order of the destination, not in that of the schedule, and so many runs
    /// ahead the source is fetched.
    ///
    /// In place, for they take more than a kilobyte: to move them costs as much as to copy a small tensor.
    pub(super) fn prepare(&mut self, size: &[u64; N], as_written: Option<usize>) {
        let Calls { plan, nest, .. } = *self;
        let (schedule, count) = (&nest.schedule, nest.loops.len());
        let natural: [usize; N] = std::array::from_fn(|i| i);
        let is_band = self.is_band(size);
        let (within, rows) = if as_written.is_some() || is_band {
            let kernel = [schedule.cols, schedule.tiles];
            let innermost = (0..count).rev().find(|&i| !kernel.contains(&Some(i)));
            let in_unit = |&i: &usize| nest.loops[i].step[0] == 0 && nest.loops[i].step[3] == 0;
            (&natural[..count], innermost.filter(in_unit))
        } else {
            (&*schedule.within, schedule.rows)
        };
        (self.size, self.taken, self.left) = (*size, 0, 0);
        if schedule.compacted {
            let compaction = Compaction::new(plan, nest, size);
            if nest.converts_first() {
                let step = |i: usize| {
                    let in_range = schedule.assembled || self.places.has_in_a_range(&nest.loops[i]);
                    in_range.then_some(step(nest, i))
                };
                if let Some(Call { window: w, outer, taken }) = compaction.copy(size, step) {
                    self.rows = (w.rows as u64, [0, w.src_row as i64, 0, 0, 0, 0], w.dst_row as i64);
                    self.cols = (w.cols as u64, [0, w.src_col as i64, 0, 0, 0, 0], w.dst_col as i64);
                    (self.tiles, self.outer, self.taken) = ((1, [0; 6], 0), outer, taken);
                    self.compaction = Some(compaction);
                    // What cannot go from registers to memory goes there in strips.
                    self.hints = Hints { strip: 2 * LINE, near: true, ..Hints::default() };
                    return;
                }
            }
            self.compaction = Some(compaction);
        }
        // Loops over slots of tiles that are unpacked; of what is not packed, all that stay in a unit.
        let block = self.codec().is_some();
        for &i in within.iter().rev() {
            let l = &nest.loops[i];
            if size[i] == 1 || [rows, schedule.cols, schedule.tiles].contains(&Some(i)) {
                continue;
            }
            let in_range = self.places.has_in_a_range(l);
            let inside = (l.step[0] == 0 || schedule.compacted) && (!block || l.step[1] == 0) && in_range;
            if self.taken < MAX_OUTER_LOOPS && inside && self.left == 0 {
                let src = if block { l.step[2] } else { self.near(i)[1] };
                self.taken_loops[self.taken] = i;
                self.taken += 1;
                self.outer[MAX_OUTER_LOOPS - self.taken] =
                    OuterLoop { n: size[i] as usize, src: src as isize, dst: step(nest, i) as isize };
            } else {
                self.outside[self.left] = i;
                self.left += 1;
            }
        }
        let pick = |i: usize| (size[i], self.near(i), step(nest, i));
        let pick = |i: Option<usize>| i.map_or((1, [0; 6], 0), pick);
        (self.rows, self.cols, self.tiles) = (pick(rows), pick(schedule.cols), pick(schedule.tiles));
        // What is read as it lies is fetched by the processor itself; where runs that go at once lie apart, one further
        // on is fetched.
        let run = nest.loops.last().map_or(0, |run| run.n as i64 * run.step[1]);
        let next = within.iter().rev().skip(1).find(|&&i| size[i] > 1).map_or(0, |&i| nest.loops[i].step[1]);
        let runs_fetched = as_written.unwrap_or(plan.tuning.runs_fetched);
        let distance = match schedule.prefetch_distance {
            _ if schedule.compacted => 0,
            // The next block of a band begins behind the loop that steps farthest.
            _ if is_band => (0..count).map(|i| size[i] as i64 * nest.loops[i].step[1]).max().unwrap_or(0),
            0 if next != run && !schedule.assembled => next.saturating_mul(runs_fetched as i64),
            distance => distance,
        };
        let strip = plan.conversion().strip(&nest.loops);
        self.hints = Hints {
            prefetch_distance: distance as isize,
            to_l2: plan.tuning.direct_cache == 2 && self.has_short_runs(),
            run_fetched: if schedule.in_order || is_band { self.run_fetched() } else { 0 },
            strip: strip.map_or(0, |strip| strip.bytes),
            strip_fetched: plan.tuning.transposed_fetched,
            panel: strip.map_or(0, |strip| strip.panel),
            panels_fetched: plan.tuning.panels_fetched,
            near_panel: plan.tuning.near_panel,
            near: false,
        };
    }

    /// Fetches the block that begins at `later`, if there is one, while that from `at` on is read.
    pub(super) fn fetch(&mut self, at: &AddressPair, later: Option<&AddressPair>) {
        match &mut self.compaction {
            Some(compaction) => compaction.fetch(self.plan, at, later),
            None => {
                self.hints.prefetch_distance = later.map_or(0, |later| from_to(self.plan, at, later));
            }
        }
    }

    /// The call for a block that begins at `at`, where it is one call that copies or converts from one unit to another.
    pub(super) fn whole(&self, at: AddressPair) -> Option<WholeCall> {
        let one = self.left == 0 && self.compaction.is_none() && self.plan.src.codec.is_none();
        (one && matches!(self.plan.op, Op::Copy(_) | Op::Convert(..))).then(|| WholeCall {
            from: (self.plan.src.space.unit_at(at[0]) + at[1]) as usize,
            to: place(self.plan, at) as usize,
            window: self.window(1),
            outer: self.outer,
            taken: self.taken,
            hints: self.hints,
        })
    }

    /// Whether what follows one another on both sides is less than [`LONG_RUN`].
    fn has_short_runs(&self) -> bool {
        let mut run = self.plan.dst.block_bytes as i64;
        for (l, &n) in self.nest.loops.iter().zip(&self.size).rev().filter(|(_, n)| **n > 1) {
            if [l.step[1], l.step[4]] != [run; 2] {
                break;
            }
            run = run.saturating_mul(n as i64);
        }
        run < LONG_RUN
    }

    /// Of the block that is fetched next, what each of a block's calls fetches.
    fn run_fetched(&self) -> usize {
        let elements = |loops: &mut dyn Iterator<Item = usize>| {
            loops.fold(1_u64, |elements, i| elements.saturating_mul(self.size[i]))
        };
        let all = elements(&mut (0..self.nest.loops.len()));
        let calls = elements(&mut self.outside[..self.left].iter().copied());
        ((all / calls) as usize).saturating_mul(self.plan.op.source_size())
    }

    /// The window of a call, whose elements lie by step `k` of the loops in the source.
    fn window(&self, k: usize) -> Window {
        let ((rows, row, dst_row), (cols, col, dst_col)) = (self.rows, self.cols);
        Window {
            rows: rows as usize,
            cols: cols as usize,
            src_row: row[k] as isize,
            src_col: col[k] as isize,
            dst_row: dst_row as isize,
            dst_col: dst_col as isize,
        }
    }

    /// The codec of what calls read: tiles that are brought together are unpacked.
    fn codec(&self) -> Option<BlockCodec> {
        self.plan.src.codec.filter(|_| self.compaction.is_none())
    }

    /// How far a loop steps in what calls read: the source, or what was brought together of it.
    fn near(&self, i: usize) -> AddressPair {
        match &self.compaction {
            Some(compaction) => [0, compaction.near[i], 0, 0, 0, 0],
            None => self.nest.loops[i].step,
        }
    }

    /// Puts the block that begins at `at` to byte `to` of a destination. Not by value: a copy would wait for stores, as
    /// [`Blocks::is_alike`](super::blocks::Blocks) says of sizes.
    pub(super) fn run(
        &self,
        source: &[u8],
        (scratch, compact): (&mut Scratch, &mut Option<Compact>),
        at: &AddressPair,
        out: &mut Destination<'_>,
        to: usize,
    ) {
        if self.left == 0 && self.compaction.is_none() {
            let from = (self.plan.src.space.unit_at(at[0]) + at[1]) as usize;
            return self.call(source, (from, to), scratch, at, out, (self.hints, None));
        }
        let mut at = *at;
        let compaction = self.compaction.as_ref();
        let mut ahead = compaction.and_then(|compaction| compaction.ahead(self.plan, source, at));
        let source =
            compaction.map_or(source, |compaction| compaction.run(self.plan, self.nest, source, at, compact));
        let (mut from, mut to) = (compaction.map_or(0, |compaction| compaction.begin(at)), to as i64);
        let mut done = [0_u64; N];
        let (mut hints, mut fetched) = (self.hints, None);
        loop {
            if compaction.is_none() {
                from = self.plan.src.space.unit_at(at[0]) + at[1];
            }
            if hints.run_fetched > 0 {
                // Each call fetches what follows what the one before fetched.
                let next: i64 =
                    *fetched.get_or_insert(from.wrapping_add(self.hints.prefetch_distance as i64));
                hints.prefetch_distance = next.wrapping_sub(from) as isize;
                fetched = Some(next.wrapping_add(hints.run_fetched as i64));
            }
            if let Places::InEach { .. } = self.places {
                to = self.places.turn(out, place(self.plan, at)) as i64;
            }
            self.call(source, (from as usize, to as usize), scratch, &at, out, (hints, ahead.take()));
            let more = self.outside[..self.left].iter().any(|&i| {
                done[i] += 1;
                let by = if done[i] < self.size[i] { 1 } else { 1 - done[i] as i64 };
                at = advance(at, self.nest.loops[i].step, by);
                from += compaction.map_or(0, |compaction| compaction.near[i] * by);
                to += step(self.nest, i) * by;
                done[i] %= self.size[i];
                by == 1
            });
            if !more {
                return;
            }
        }
    }

    /// What the kernel that unpacks is asked for a window over slots of a tile and the loops around it, if it takes them.
    fn unpacking(&self, tile: TileShape, slot: usize, w: &Window, outer: &[OuterLoop]) -> Option<UnpackArgs> {
        let mut loops = [(1, 0, 0); MAX_OUTER_LOOPS + 2];
        let all = outer.iter().map(|l| (l.n, l.src, l.dst));
        let all = all.chain([(w.rows, w.src_row, w.dst_row), (w.cols, w.src_col, w.dst_col)]);
        let count = loops.iter_mut().zip(all).map(|(l, of): (&mut SlotLoop, _)| *l = of).count();
        slots::unpacking(tile, slot, &loops[..count])
    }

    /// Unpacks the row of tiles of a call. Tiles of units of their own are brought together first: with a call for each, bfp8 in banks has six to
    /// seven tenths of the speed on Zen 4.
    #[allow(clippy::too_many_arguments)]
    fn unpack(
        &self,
        codec: &BlockCodec,
        numbers: (Number, Number),
        source: &[u8],
        (from, to): (usize, usize),
        scratch: &mut Scratch,
        at: &AddressPair,
        out: &mut Destination<'_>,
    ) {
        let (tiles, [unit, step, ..], dst_tile) = self.tiles;
        let (tiles, bytes, slot) = (tiles as usize, codec.tile_bytes(), at[2] as usize);
        let Scratch { gathered, unpacked, .. } = scratch;
        if unit == 0 {
            let row = TileRow { at: from, tiles, step: step as usize };
            return self.unpack_row(codec, numbers, source, row, unpacked, slot, out, to);
        }
        let first = ([at[0], at[1]], unit);
        gathered.units(&self.plan.src.space, source, first, (tiles, bytes), |brought, tiles| {
            let row = TileRow { at: 0, tiles: tiles.len(), step: bytes };
            let to = to.wrapping_add_signed((dst_tile as isize).wrapping_mul(tiles.start as isize));
            unpacked.forget();
            self.unpack_row(codec, numbers, brought, row, unpacked, slot, out, to);
        });
        unpacked.forget();
    }

    /// Unpacks a row of tiles from slot `slot` of each on.
    #[allow(clippy::too_many_arguments)]
    fn unpack_row(
        &self,
        codec: &BlockCodec,
        (number, into): (Number, Number),
        source: &[u8],
        row: TileRow,
        unpacked: &mut Unpacked,
        slot: usize,
        out: &mut Destination<'_>,
        to: usize,
    ) {
        let plan = self.plan;
        let TileRow { at: from, tiles, step: src_tile } = row;
        let (dst_tile, w) = (self.tiles.2 as isize, self.window(2));
        let outer = &self.outer[MAX_OUTER_LOOPS - self.taken..];
        let runs = |args: &UnpackArgs| {
            args.cols == 1 || args.dst_col == into.size() as isize || codec.options().transposed
        };
        if UnpackArgs::has_vector_code(into)
            && let Some(args) = self.unpacking(codec.tile(), slot, &w, outer).filter(runs)
        {
            let prefetch_tiles = plan.tuning.unpacked_fetched;
            let args =
                UnpackArgs { tiles, src_at: from, src_tile, dst_at: to, dst_tile, prefetch_tiles, ..args };
            return plan.kernels.unpack(codec, into, source, &args, out);
        }
        let elements = codec.tile().elements();
        let together = Scratch::ROOM / elements;
        let near = unpacked_as(plan).size() as isize;
        let w = Window { src_row: w.src_row * near, src_col: w.src_col * near, ..w };
        let mut loops = self.outer;
        loops.iter_mut().for_each(|l| l.src *= near);
        let first = MAX_OUTER_LOOPS - self.taken;
        for t in (0..tiles).step_by(together) {
            let row = TileRow { at: from + t * src_tile, tiles: together.min(tiles - t), step: src_tile };
            let unpacked = unpacked.row(plan, source, row);
            let windows = Windows::of_tiles(w, row.tiles, elements as isize * near, dst_tile);
            let Windows { window, each: OuterLoop { n, src, dst } } = windows;
            // One call for all of them, if it can take one more loop.
            let (calls, outer) = match first.checked_sub(1) {
                Some(first) if n > 1 => {
                    loops[first] = windows.each;
                    (1, &loops[first..])
                }
                _ => (n as isize, &loops[first..]),
            };
            for k in 0..calls {
                let from = (slot * near as usize).wrapping_add_signed(k * src);
                let to = to.wrapping_add_signed(t as isize * dst_tile + k * dst);
                let hints = Hints { near: true, ..Hints::default() };
                let (size, w) = (into.size(), &window);
                if unpacked_as(plan) == into && (w.src_row, w.dst_col) == (near, size as isize) {
                    plan.kernels.copy_loops(size, unpacked, from, out, to, w, outer, hints);
                } else if unpacked_as(plan) == into {
                    // Ordinary stores: these may be parts of lines.
                    let out = &mut Destination::cached(out.bytes());
                    plan.kernels.copy_loops(size, unpacked, from, out, to, &window, outer, hints);
                } else {
                    plan.kernels.convert_loops(number, into, unpacked, from, out, to, &window, outer, hints);
                }
            }
        }
    }

    /// One kernel call; what it reads begins at byte `from` of the source, or of what was brought together of it.
    fn call<'s>(
        &'s self,
        source: &'s [u8],
        (from, to): (usize, usize),
        scratch: &mut Scratch,
        at: &AddressPair,
        out: &mut Destination<'_>,
        (hints, ahead): (Hints, Option<Ahead<'s>>),
    ) {
        let plan = self.plan;
        let window = |k: usize| self.window(k);
        let outer = &self.outer[MAX_OUTER_LOOPS - self.taken..];
        // What was brought together was converted there.
        let op = if self.compaction.is_some() && self.nest.converts_first() {
            Op::Copy(plan.dst.block_bytes)
        } else {
            plan.op
        };
        match (self.codec(), op) {
            (Some(codec), Op::Convert(number, into)) => {
                self.unpack(&codec, (number, into), source, (from, to), scratch, at, out);
            }
            (_, Op::Convert(number, into)) => {
                plan.kernels.convert_loops(number, into, source, from, out, to, &window(1), outer, hints);
            }
            (_, Op::Cast { cast, strict }) => {
                let w = window(1);
                let fits = plan.kernels.cast_loops(cast, source, from, out, to, &w, outer, hints);
                if strict && !fits {
                    self.all_out_of_range(source, scratch, cast, at);
                }
            }
            (_, Op::Copy(size)) => {
                plan.kernels.copy_fetching(size, source, from, out, to, &window(1), outer, hints, ahead);
            }
        }
    }
}

impl<const N: usize> Calls<'_, N> {
    /// Keeps the first value of a call, which begins at `at`, that its destination cannot hold.
    fn all_out_of_range(&self, source: &[u8], scratch: &mut Scratch, cast: Cast, at: &AddressPair) {
        let (plan, size) = (self.plan, cast.source_size());
        let taken = &self.taken_loops[..self.taken];
        let loops = taken.iter().map(|&i| (self.size[i], self.nest.loops[i].step));
        let window = [(self.cols.0, self.cols.1), (self.rows.0, self.rows.1)];
        let loops: SmallVec<[(u64, AddressPair); MAX_OUTER_LOOPS + 2]> =
            window.into_iter().chain(loops).collect();
        // No loop of a call goes from unit to unit.
        let (from, to) = (plan.src.space.unit_at(at[0]) + at[1], plan.dst.space.unit_at(at[3]) + at[4]);
        for iteration in 0..loops.iter().map(|l| l.0).product() {
            let (mut rest, mut from, mut to) = (iteration, from, to);
            for (n, step) in &loops {
                let i = (rest % n) as i64;
                (rest, from, to) = (rest / n, from + step[1] * i, to + step[4] * i);
            }
            let mut code = [0; 8];
            code[..size].copy_from_slice(&source[from as usize..from as usize + size]);
            let bits = u64::from_le_bytes(code);
            if !cast.apply(bits).1 {
                let this = OutOfRange { at: to as u64, bits };
                scratch.out_of_range = OutOfRange::earlier(scratch.out_of_range, this);
            }
        }
    }
}

/// How many blocks later that lies which is fetched while a block is read; 0 where nothing is, or kernels find it.
pub(super) fn blocks_fetched(plan: &Plan, nest: &ScheduledNest) -> usize {
    let (schedule, tuning) = (&nest.schedule, &plan.tuning);
    match (schedule.assembled, schedule.compacted && nest.converts_first()) {
        // Two blocks of tiles are as much as is fetched of others.
        (false, true) if plan.dst.codec.is_some() => 2 * usize::from(plan.src.codec.is_none()),
        (_, true) => tuning.panels_fetched,
        // Tiles of a block format are fetched by their kernels.
        (true, _) if plan.src.codec.is_none() && tuning.fetched > 0 => {
            let element = plan.op.source_size() as u64;
            let bytes = schedule.blocks.iter().fold(element, |bytes, n| bytes.saturating_mul(*n));
            (tuning.fetched as u64 / bytes).max(1) as usize
        }
        _ => 0,
    }
}

/// Equal windows over tiles that were unpacked, and the loop over them.
struct Windows {
    window: Window,
    each: OuterLoop,
}

impl Windows {
    /// A window of each of some tiles; one of all of them where a tile is a row or a column of it.
    fn of_tiles(w: Window, tiles: usize, src: isize, dst: isize) -> Windows {
        let window = match (w.rows, w.cols) {
            // Columns that follow one another from tile to tile.
            (2.., cols) if [src, dst] == [w.src_col, w.dst_col].map(|step| step * cols as isize) => {
                Window { cols: cols * tiles, ..w }
            }
            (1, _) => Window { rows: tiles, src_row: src, dst_row: dst, ..w },
            (_, 1) => Window { cols: tiles, src_col: src, dst_col: dst, ..w },
            _ => return Windows { window: w, each: OuterLoop { n: tiles, src, dst } },
        };
        Windows { window, each: OuterLoop { n: 1, src: 0, dst: 0 } }
    }
}

/// How far a loop steps in the destination of calls: in the block, where one is assembled.
fn step(nest: &ScheduledNest, i: usize) -> i64 {
    if nest.schedule.assembled { nest.schedule.packed[i] } else { nest.loops[i].step[4] }
}
