//! Blocks of a source that are brought together in L1: kernels take what lies there as any other source.
//!
//! What lies in many units (pages in banks) is brought together as it is, and then assembled. What is converted or transposed faster as
//! it lies is brought together as elements of the destination, and copied; tiles of a block format are unpacked so, each as a whole.

use kernels::{
    Ahead, BlockCodec, Destination, Hints, MAX_OUTER_LOOPS, Number, OuterLoop, UnpackArgs, Window,
};
use smallvec::SmallVec;

use super::clip::advance;
use super::destination::writable;
use crate::plan::ir::{AddressPair, Loop, MAX_BLOCK, MAX_LOOPS_OF_CALL, ScheduledNest};
use crate::plan::{Op, Plan};

/// What was brought together: whole cache lines.
#[repr(align(64))]
pub(super) struct Compact([u8; MAX_BLOCK]);

/// Bytes of a call from which on it is worth to look up what lies behind its own unit: on Zen 4 pages that are transposed, of which a call takes
/// a line or a few, had eight tenths of the speed so.
const LONG_CALL: usize = 1024;

/// How blocks of one size are brought together: which loops one call takes, and which are walked around it.
pub(super) struct Compaction<const N: usize> {
    /// How far each loop of a block steps in what was brought together; 0 where it stays in the source.
    pub(super) near: [i64; N],
    /// Bytes of an element there.
    elem: usize,
    way: Way,
    /// How far behind a row of the source lies the one that is fetched meanwhile; 0 for none.
    distance: isize,
    /// The same as units and bytes, where that is in another unit and worth to be looked up for each: behind the next unit it may lie elsewhere.
    in_units: Option<[i64; 2]>,
    /// Whether a call takes [`LONG_CALL`].
    is_long: bool,
    /// Loops that one call does not take, with their iterations, innermost first.
    outside: SmallVec<[(usize, u64); 16]>,
}

/// What brings elements together.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one in each run, on the stack: to box it would allocate"
)]
enum Way {
    /// Calls that copy or convert.
    Elements {
        call: Call,
        /// What happens to elements meanwhile.
        op: Op,
        /// The bytes of a row of that call, where they are copied as one run.
        run: Option<usize>,
        /// Whether what a later block reads is fetched while the block is copied.
        fetches_later: bool,
    },
    /// Calls that unpack some tiles, so many, one `step` bytes behind the other in the source, and `near` bytes here.
    Tiles {
        codec: BlockCodec,
        to: Number,
        tiles: usize,
        step: usize,
        near: usize,
        /// Bytes of tiles that follow one another in the source, how many such runs a block reads, and from one to the next.
        runs: (usize, usize, isize),
    },
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
        match (plan.src.codec, plan.op) {
            (Some(codec), Op::Convert(_, to)) => Compaction::of_tiles(&codec, to, nest, size),
            _ => Compaction::of_elements(plan, nest, size),
        }
    }

    fn of_elements(plan: &Plan, nest: &ScheduledNest, size: &[u64; N]) -> Compaction<N> {
        let (loops, read) = (&nest.loops, plan.op.source_size());
        let converts = nest.converts_first();
        let (op, elem) = if converts { (plan.op, plan.dst.block_bytes) } else { (Op::Copy(read), read) };
        // The verifier bounds the elements of a block, so that few loops have more than one iteration.
        let order = inwards(nest, size, |_| true);
        let mut near = [0; N];
        lay(&mut near, &order, size, elem as i64);
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
        let outer = call.outer().iter().fold(1, |n, l| n * l.n);
        let is_long = window.rows * window.cols * outer * read >= LONG_CALL;
        let way = Way::Elements { call, op, run, fetches_later };
        Compaction { near, elem, way, distance, in_units: None, is_long, outside }
    }

    /// Whole tiles, one behind the other, each row by row, of which a block may have a part.
    fn of_tiles(codec: &BlockCodec, to: Number, nest: &ScheduledNest, size: &[u64; N]) -> Compaction<N> {
        let (elem, loops) = (to.size(), &nest.loops);
        let bytes = codec.tile().elements() * elem;
        let mut near: [i64; N] = std::array::from_fn(|i| loops.get(i).map_or(0, |l| l.step[2] * elem as i64));
        // From tile to tile, the longest loop innermost: a call takes all of it.
        let mut order = inwards(nest, size, |i| loops[i].step[2] == 0);
        lay(&mut near, &order, size, bytes as i64);
        let (mut run, mut rows) = (codec.tile_bytes(), (1, 0));
        for &i in &order {
            let Loop { step: [unit, byte, ..], .. } = loops[i];
            if unit != 0 || byte != run as i64 {
                rows = (size[i] as usize, if unit == 0 { byte as isize } else { 0 });
                break;
            }
            run *= size[i] as usize;
        }
        // Of loops that go on from one another the longest are one call.
        let chained = |first: usize| {
            let step = |k: usize| loops[order[k]].step;
            let mut n = size[order[first]];
            let mut next = first + 1;
            let follows =
                |next: usize, n: u64| step(next)[..2] == [0, step(first)[1].saturating_mul(n as i64)];
            while next < order.len() && follows(next, n) {
                n *= size[order[next]];
                next += 1;
            }
            (n, first..next)
        };
        let suits = |&k: &usize| loops[order[k]].step[0] == 0 && loops[order[k]].step[1] > 0;
        let longest = (0..order.len()).filter(suits).map(chained).max_by_key(|(n, _)| *n);
        let (tiles, step, far) = longest.map_or((1, 0, bytes), |(n, chain)| {
            let i = order[chain.start];
            order.drain(chain);
            (n as usize, loops[i].step[1] as usize, near[i] as usize)
        });
        let way = Way::Tiles { codec: *codec, to, tiles, step, near: far, runs: (run, rows.0, rows.1) };
        let outside = order.iter().map(|&i| (i, size[i])).collect();
        Compaction { near, elem, way, distance: 0, in_units: None, is_long: false, outside }
    }

    /// Where the element lies here that begins a block at `at`.
    pub(super) fn begin(&self, at: AddressPair) -> i64 {
        match self.way {
            Way::Elements { .. } => 0,
            Way::Tiles { .. } => at[2] * self.elem as i64,
        }
    }

    /// The call that copies a block from here to its place, where one takes all of its loops: `step` says how far a loop steps there.
    pub(super) fn copy(&self, size: &[u64; N], step: impl Fn(usize) -> Option<i64>) -> Option<Call> {
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
        let rows = inside.iter().skip(1).position(|l| l.src == self.elem as isize);
        if let Some(rows) = rows {
            inside[1..=rows + 1].rotate_right(1);
        }
        Some(Call::new(inside.into_iter()))
    }

    /// Fetches the block that begins at `later`, if there is one, while that from `at` on is brought together.
    pub(super) fn fetch(&mut self, plan: &Plan, at: &AddressPair, later: Option<&AddressPair>) {
        let by = later.map(|later| [later[0] - at[0], later[1] - at[1]]);
        self.in_units = by.filter(|by| by[0] != 0 && self.is_long);
        self.distance = later.map_or(0, |later| from_to(plan, at, later));
    }

    /// Brings the block that begins at `at` together.
    pub(super) fn run<'s>(
        &self,
        plan: &Plan,
        nest: &ScheduledNest,
        source: &[u8],
        at: AddressPair,
        compact: &'s mut Option<Compact>,
    ) -> &'s [u8] {
        let Compact(bytes) = compact.get_or_insert_with(|| Compact([0; MAX_BLOCK]));
        if let Way::Tiles { runs: (run, count, step), .. } = self.way
            && self.distance != 0
        {
            let from = (plan.src.space.unit_at(at[0]) + at[1]) as usize;
            let later = from.wrapping_add_signed(self.distance);
            for k in 0..count as isize {
                kernels::prefetch(source, later.wrapping_add_signed(k.wrapping_mul(step)), run);
            }
        }
        match self.in_units {
            None => self.calls(plan, nest, source, at, bytes, |_| self.distance),
            Some([units, behind]) => self.calls(plan, nest, source, at, bytes, |unit| {
                let (space, later) = (&plan.src.space, unit + units);
                let is_there = (0..space.units as i64).contains(&later);
                let distance = || space.unit_at(later) - space.unit_at(unit) + behind;
                if is_there { distance() as isize } else { 0 }
            }),
        }
        bytes
    }

    /// The calls for a block that begins at `at`; `distance` says how far behind what is read in a unit that is which is fetched.
    #[inline(always)]
    fn calls(
        &self,
        plan: &Plan,
        nest: &ScheduledNest,
        source: &[u8],
        mut at: AddressPair,
        bytes: &mut [u8],
        distance: impl Fn(i64) -> isize,
    ) {
        let (mut to, mut done) = (0_i64, [0_u64; N]);
        loop {
            let from = (plan.src.space.unit_at(at[0]) + at[1]) as usize;
            self.one(plan, source, (from, distance(at[0])), bytes, to as usize);
            let more = self.outside.iter().any(|&(i, n)| {
                done[i] += 1;
                let by = if done[i] < n { 1 } else { 1 - done[i] as i64 };
                at = advance(at, nest.loops[i].step, by);
                to += self.near[i] * by;
                done[i] %= n;
                by == 1
            });
            if !more {
                return;
            }
        }
    }

    /// What is fetched while the block that begins at `at` is copied.
    pub(super) fn ahead<'s>(&self, plan: &Plan, source: &'s [u8], at: AddressPair) -> Option<Ahead<'s>> {
        let Way::Elements { call, run: Some(run), fetches_later: true, .. } = &self.way else { return None };
        let Window { rows, src_row, .. } = call.window;
        let from = (plan.src.space.unit_at(at[0]) + at[1]) as usize;
        let later = from.wrapping_add_signed(self.distance);
        Ahead::of_rows(source, later, *run, rows, src_row).filter(|_| self.distance != 0)
    }

    /// One call: what it reads begins at byte `from` of the source, and what is fetched meanwhile `distance` behind that.
    #[inline(always)]
    fn one(
        &self,
        plan: &Plan,
        source: &[u8],
        (mut from, distance): (usize, isize),
        bytes: &mut [u8],
        mut to: usize,
    ) {
        let (call, op) = match &self.way {
            Way::Elements { call, run: Some(run), fetches_later, .. } => {
                // The call of a kernel takes longer than copying a line or two, and it fetches no rows.
                let Window { rows, src_row, dst_row, .. } = call.window;
                for _ in 0..rows {
                    if distance != 0 && !fetches_later {
                        kernels::prefetch(source, from.wrapping_add_signed(distance), *run);
                    }
                    bytes[to..][..*run].copy_from_slice(&source[from..][..*run]);
                    (from, to) = (from.wrapping_add_signed(src_row), to.wrapping_add_signed(dst_row));
                }
                return;
            }
            Way::Elements { call, op, .. } => (call, *op),
            Way::Tiles { codec, to: number, tiles, step, near, .. } => {
                let (tile, elem) = (codec.tile(), self.elem as isize);
                let args = UnpackArgs {
                    tiles: *tiles,
                    src_at: from,
                    src_tile: *step,
                    row0: 0,
                    col0: 0,
                    rows: tile.rows(),
                    cols: tile.cols(),
                    dst_at: to,
                    dst_tile: *near as isize,
                    dst_row: tile.cols() as isize * elem,
                    dst_col: elem,
                    faces: None,
                    prefetch_tiles: 0,
                };
                let out = &mut Destination::cached(writable(bytes));
                return plan.kernels.unpack(codec, *number, source, &args, out);
            }
        };
        let (window, outer) = (&call.window, call.outer());
        let hints = Hints { prefetch_distance: distance, ..Hints::default() };
        let out = &mut Destination::cached(writable(bytes));
        match op {
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

/// How far it is in the source from one address to another.
pub(super) fn from_to(plan: &Plan, at: &AddressPair, to: &AddressPair) -> isize {
    let place = |at: &AddressPair| plan.src.space.unit_at(at[0]) + at[1];
    (place(to) - place(at)) as isize
}

/// The loops of a block that read other bytes in each iteration and suit, the one that steps least in the source first.
fn inwards<const N: usize>(
    nest: &ScheduledNest,
    size: &[u64; N],
    suits: impl Fn(usize) -> bool,
) -> SmallVec<[usize; 16]> {
    let loops = &nest.loops;
    let read = |&i: &usize| size[i] > 1 && loops[i].src() != [0; 3] && suits(i);
    let mut order: SmallVec<[usize; 16]> = (0..loops.len()).filter(read).collect();
    order.sort_by_key(|&i| loops[i].src().map(i64::unsigned_abs));
    order
}

/// Lays what some loops read one behind the other: each iteration of the first so many bytes, and so on outwards.
fn lay<const N: usize>(near: &mut [i64; N], order: &[usize], size: &[u64; N], mut bytes: i64) {
    for &i in order {
        near[i] = bytes;
        bytes *= size[i] as i64;
    }
}
