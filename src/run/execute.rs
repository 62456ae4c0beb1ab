//! The fast executor: clips the nests to a destination range, and runs each rectangular rest with kernels.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use kernels::{Around, Cast, MAX_AROUND, Number, PackArgs, TileShape, UnpackArgs, Window};

use super::clip::{View, advance};
use super::memory::{Split, writable, written};
use super::threads::Executor;
use crate::error::{Error, Result};
use crate::plan::nest::{Both, Gather, Leaf, Loop, Nest};
use crate::plan::{MAX_BLOCK, MAX_LOOPS, Misfit, Op, Plan, Store};

/// Less than this is done on the caller's thread: handing a task over costs as much as moving some 100 KiB.
const SMALL: usize = 256 << 10;

/// A destination of this many bytes is written past the caches: it would not stay in them, and an ordinary store
/// reads each line before it writes it.
const STREAMED: usize = 24 << 20;

/// Tasks for each thread, so that one that is held up delays little.
const TASKS_PER_THREAD: usize = 4;

impl Plan {
    /// Converts: `source` holds all buffers of the source, one after another; so does `destination` after.
    ///
    /// Runs on the current rayon pool where the feature `rayon` is on, else on the caller's thread; small
    /// tensors always on the caller's thread.
    ///
    /// # Errors
    /// Where a slice has another length than [`Plan::source_bytes`] or [`Plan::destination_bytes`]; nothing is
    /// written then. [`Error::OutOfRange`] where integers do not fit their destination, unless
    /// [`crate::Options::saturate`] is set: it names the one that comes first in the destination, whatever the number of
    /// threads. The destination has been written then, with the nearest value in each place.
    pub fn execute(&self, source: &[u8], destination: &mut [u8]) -> Result<()> {
        self.execute_uninit(source, writable(destination)).map(|_| ())
    }

    /// [`Plan::execute`] into memory that need not be initialised; gives it back initialised.
    pub fn execute_uninit<'d>(
        &self,
        source: &[u8],
        destination: &'d mut [MaybeUninit<u8>],
    ) -> Result<&'d mut [u8]> {
        #[cfg(feature = "rayon")]
        let executor = super::threads::Rayon;
        #[cfg(not(feature = "rayon"))]
        let executor = super::threads::Inline;
        self.execute_on(&executor, source, destination)
    }

    /// [`Plan::execute_uninit`] with the caller's threads.
    ///
    /// # Errors
    /// Also where the executor returns without having run every task.
    pub fn execute_on<'d>(
        &self,
        executor: &dyn Executor,
        source: &[u8],
        destination: &'d mut [MaybeUninit<u8>],
    ) -> Result<&'d mut [u8]> {
        self.check_source(source)?;
        let len = destination.len();
        if len != self.destination_bytes() {
            let (given, needed) = (len as u64, self.destination_bytes() as u64);
            return Err(Error::Length { what: "destination", given, needed });
        }
        if len <= SMALL || executor.threads() <= 1 {
            self.outcome(self.run(source, 0, destination))?;
            return Ok(written(destination));
        }
        let range = self.task_bytes(len / (executor.threads() * TASKS_PER_THREAD));
        let split = Split::new(destination, range);
        let first = Mutex::new(None);
        executor.run(split.tasks(), &|task| {
            if let Some((begin, out)) = split.take(task)
                && let Some(misfit) = self.run(source, begin, out)
            {
                let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                *first = Misfit::earlier(*first, misfit);
            }
        });
        if !split.all_taken() {
            let needed = format!("a call for each of {} tasks", split.tasks());
            return Err(Error::value("executor", "a return before every task had run", needed));
        }
        self.outcome(first.into_inner().unwrap_or_else(PoisonError::into_inner))?;
        Ok(written(destination))
    }

    /// [`Plan::execute`] with the caller's threads.
    ///
    /// # Errors
    /// As [`Plan::execute_on`].
    pub fn run_on(&self, executor: &dyn Executor, source: &[u8], destination: &mut [u8]) -> Result<()> {
        self.execute_on(executor, source, writable(destination)).map(|_| ())
    }

    /// Produces one range of the destination alone: `out` holds just these bytes.
    ///
    /// The range begins and ends on multiples of [`Plan::granule`].
    ///
    /// # Errors
    /// Where it does not, or lies outside of the destination, or a slice has the wrong length; and as
    /// [`Plan::execute`] where integers of this range do not fit.
    pub fn execute_chunk(&self, source: &[u8], range: Range<usize>, out: &mut [u8]) -> Result<()> {
        self.execute_chunk_uninit(source, range, writable(out)).map(|_| ())
    }

    /// [`Plan::execute_chunk`] into memory that need not be initialised; gives it back initialised.
    pub fn execute_chunk_uninit<'d>(
        &self,
        source: &[u8],
        range: Range<usize>,
        out: &'d mut [MaybeUninit<u8>],
    ) -> Result<&'d mut [u8]> {
        self.check_source(source)?;
        self.check_chunk(&range)?;
        if out.len() != range.len() {
            let (given, needed) = (out.len() as u64, range.len() as u64);
            return Err(Error::Length { what: "chunk", given, needed });
        }
        self.outcome(self.run(source, range.start, out))?;
        Ok(written(out))
    }

    /// An error unless the range is one that can be produced alone.
    pub(super) fn check_chunk(&self, range: &Range<usize>) -> Result<()> {
        let (granule, total) = (self.granule().max(1), self.destination_bytes());
        let whole = |at: usize| at.is_multiple_of(granule) || at == total;
        if range.start > range.end || range.end > total || !whole(range.start) || !whole(range.end) {
            let needed = format!("multiples of {granule} inside of 0..{total}");
            return Err(Error::value("chunk", format!("{range:?}"), needed));
        }
        Ok(())
    }

    fn check_source(&self, source: &[u8]) -> Result<()> {
        if source.len() != self.source_bytes() {
            let (given, needed) = (source.len() as u64, self.source_bytes() as u64);
            return Err(Error::Length { what: "source", given, needed });
        }
        Ok(())
    }

    /// The bytes of a task near a size: whole turns of some loop of the destination, so that few leaves are
    /// cut, and whole granules.
    fn task_bytes(&self, near: usize) -> usize {
        let near = near.max(SMALL / 4).max(self.destination_bytes().div_ceil(super::memory::MAX_TASKS));
        let granule = self.granule().max(1);
        let steps = self.nests.iter().flat_map(|n| &n.loops).map(|l| self.linear(l.step) as usize);
        let turn = steps.filter(|&s| s <= near && s % granule == 0).max().unwrap_or(granule).max(granule);
        near.div_ceil(turn) * turn
    }

    fn outcome(&self, misfit: Option<Misfit>) -> Result<()> {
        misfit.map_or(Ok(()), |misfit| Err(misfit.error(self.op)))
    }

    /// Writes the bytes of the destination from `begin` on that `out` has room for; the first value of them that
    /// does not fit.
    fn run(&self, source: &[u8], begin: usize, out: &mut [MaybeUninit<u8>]) -> Option<Misfit> {
        let streams = match self.options().store {
            Store::Auto => self.destination_bytes() >= STREAMED,
            store => store == Store::Streamed,
        };
        let carry = Carry { tiles: None, unpacked_at: None, misfit: None };
        let mut job = Job { plan: self, source, out, streams, block: None, carry };
        job.parts(begin);
        self.kernels.fence();
        job.carry.misfit
    }
}

/// One range of the destination being written. What it needs besides is made on the stack when it is first needed, for
/// to clear it costs as much as to move a small tensor.
struct Job<'a> {
    plan: &'a Plan,
    source: &'a [u8],
    out: &'a mut [MaybeUninit<u8>],
    /// Whether segments go to the destination past the caches.
    streams: bool,
    /// Segments before they are streamed.
    block: Option<Block>,
    carry: Carry,
}

/// Whole cache lines.
#[repr(align(64))]
struct Block([u8; MAX_BLOCK]);

/// What kernel calls leave to later ones.
struct Carry {
    tiles: Option<Tiles>,
    /// Where the tile that was unpacked last begins.
    unpacked_at: Option<usize>,
    /// The first value that did not fit its destination.
    misfit: Option<Misfit>,
}

/// Tiles of a block format on their way, row by row.
struct Tiles {
    /// One to be packed.
    tile: [f32; TileShape::MAX_ELEMENTS],
    /// The last one of the source that was unpacked.
    unpacked: [f32; TileShape::MAX_ELEMENTS],
}

impl Tiles {
    fn zero() -> Tiles {
        Tiles { tile: [0.0; TileShape::MAX_ELEMENTS], unpacked: [0.0; TileShape::MAX_ELEMENTS] }
    }
}

impl Carry {
    fn tiles(&mut self) -> &mut Tiles {
        self.tiles.get_or_insert_with(Tiles::zero)
    }

    /// The tile of the source at a byte, unpacked unless it is the last one that was.
    fn unpacked(&mut self, plan: &Plan, source: &[u8], at: usize) -> &[u8] {
        let Tiles { unpacked, .. } = self.tiles.get_or_insert_with(Tiles::zero);
        unpack(plan, source, unpacked, &mut self.unpacked_at, at)
    }
}

impl Job<'_> {
    /// Writes all of `out`, which begins at byte `begin` of the destination.
    fn parts(&mut self, begin: usize) {
        let plan = self.plan;
        for part in plan.parts(begin, begin + self.out.len()) {
            let at = part.at - begin;
            self.nests(part.lo, part.hi, part.lo - at as i64);
            if part.gap > 0 {
                let to = at + (part.hi - part.lo) as usize;
                plan.kernels.fill(&[0], self.out, to, 1, 0, part.gap);
            }
        }
    }

    /// Runs what the nests write of `lo..hi`, counted through all units; `base` is where `out` begins.
    fn nests(&mut self, lo: i64, hi: i64, base: i64) {
        let plan = self.plan;
        plan.clip(lo, hi, &mut |nest, view| self.rectangle(nest, view, base));
    }

    /// Runs all turns of a view, block by block.
    fn rectangle(&mut self, nest: &Nest, view: &View, base: i64) {
        let count = nest.loops.len();
        let mut blocks = [1; MAX_LOOPS];
        if self.streams && nest.leaf != Leaf::Fill {
            blocks[..count].copy_from_slice(&nest.blocks);
        } else {
            // Kernels take all of their loops; where the loop order is theirs too, all that they can.
            nest.rows.iter().chain(&nest.cols).for_each(|&i| blocks[i] = view.n[i]);
            if nest.leaf == Leaf::Element {
                let takes = |l: &Loop| l.step[0] == 0 && l.step[3] == 0 && self.plan.src.codec.is_none();
                let inner = nest.order.iter().rev().take_while(|&&i| takes(&nest.loops[i]));
                inner.for_each(|&i| blocks[i] = view.n[i]);
            }
        }
        let mut turn = [0_u64; MAX_LOOPS];
        let mut size = [1_u64; MAX_LOOPS];
        let mut at = view.at;
        loop {
            for i in 0..count {
                size[i] = blocks[i].min(view.n[i] - turn[i]);
            }
            let to = (self.plan.linear(at) - base) as usize;
            match &nest.leaf {
                Leaf::Element if self.streams => self.streamed(nest, at, &size, to),
                Leaf::Element => {
                    let steps = |i: usize| nest.loops[i].step[4];
                    let carry = &mut self.carry;
                    assemble(self.plan, self.source, carry, nest, at, &size, self.out, to, steps);
                }
                Leaf::Fill => self.fill(nest, &size, to),
                Leaf::Pack(parts) => {
                    let turn = std::array::from_fn(|i| view.first[i] + turn[i]);
                    self.pack(nest, parts, &turn, &size, to);
                }
            }
            let more = nest.order.iter().rev().any(|&i| {
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
    fn streamed(&mut self, nest: &Nest, at: Both, size: &[u64; MAX_LOOPS], to: usize) {
        let plan = self.plan;
        // Where clipping has cut a loop of the segment, those further out have one turn.
        let inside = nest.loops.iter().zip(size).skip(nest.segment);
        let len = inside.fold(plan.dst.grain, |len, (l, &n)| len + (n as usize - 1) * l.step[4] as usize);
        let in_source = matches!(plan.op, Op::Copy(_))
            && nest.loops.len() == nest.segment + 1
            && nest.loops[nest.segment].step[1] == plan.src.grain as i64;
        if in_source {
            // The segment lies in the source as it is.
            let from = (plan.src.space.unit_at(at[0]) + at[1]) as usize;
            return plan.kernels.stream(&self.source[from..from + len], self.out, to);
        }
        #[allow(clippy::unnecessary_lazy_evaluations, reason = "a block is large, and cleared only once")]
        let Block(block) = self.block.get_or_insert_with(|| Block([0; MAX_BLOCK]));
        let carry = &mut self.carry;
        let steps = |i: usize| nest.packed[i];
        assemble(plan, self.source, carry, nest, at, size, writable(block), 0, steps);
        let across: u64 = size[..nest.segment].iter().product();
        for turn in 0..across {
            let (mut rest, mut from, mut to) = (turn, 0, to as i64);
            for i in (0..nest.segment).rev().filter(|&i| size[i] > 1) {
                let digit = (rest % size[i]) as i64;
                rest /= size[i];
                from += nest.packed[i] * digit;
                to += nest.loops[i].step[4] * digit;
            }
            plan.kernels.stream(&block[from as usize..from as usize + len], self.out, to as usize);
        }
    }

    fn fill(&mut self, nest: &Nest, size: &[u64; MAX_LOOPS], to: usize) {
        let len = nest.cols.map_or(1, |c| size[c] as usize) * self.plan.dst.grain;
        let rows = nest.rows.map_or(1, |r| size[r] as usize);
        let step = nest.rows.map_or(0, |r| self.plan.linear(nest.loops[r].step) as isize);
        self.plan.kernels.fill(&self.plan.fill, self.out, to, rows, step, len);
    }

    /// Packs a tile, or a row of tiles that a kernel reads where they lie.
    fn pack(
        &mut self,
        nest: &Nest,
        parts: &[Gather],
        turn: &[u64; MAX_LOOPS],
        size: &[u64; MAX_LOOPS],
        to: usize,
    ) {
        let plan = self.plan;
        let (Some(codec), Op::Convert(number, _)) = (plan.dst.codec, plan.op) else { return };
        let moved = |part: &Gather| {
            part.moves
                .iter()
                .zip(turn)
                .fold(part.src, |at, (step, &turn)| std::array::from_fn(|k| at[k] + step[k] * turn as i64))
        };
        if let (Some(tile), [part]) = (nest.in_place, parts) {
            let at = moved(part);
            let args = PackArgs {
                tiles: nest.cols.map_or(1, |c| size[c] as usize),
                src_at: (plan.src.space.unit_at(at[0]) + at[1]) as usize,
                src_tile: nest.cols.map_or(0, |c| part.moves[c][1] as isize),
                src_row: tile.src_row,
                src_col: tile.src_col,
                rows: tile.rows,
                cols: tile.cols,
                pad: plan.pad,
                dst_tile: nest.cols.map_or(plan.dst.grain, |c| plan.linear(nest.loops[c].step) as usize),
            };
            return plan.kernels.pack(&codec, number, self.source, &args, self.out, to);
        }
        let elements = codec.tile().elements();
        let covered: u64 = parts.iter().map(|p| p.loops.iter().map(|l| l.n).product::<u64>()).sum();
        if covered < elements as u64 {
            self.carry.tiles().tile[..elements].fill(plan.pad);
        }
        for part in parts {
            self.gather(part, moved(part));
        }
        let row = codec.tile().cols() as isize * 4;
        let args = PackArgs {
            tiles: 1,
            src_at: 0,
            src_tile: 0,
            src_row: row,
            src_col: 4,
            rows: codec.tile().rows(),
            cols: codec.tile().cols(),
            pad: plan.pad,
            dst_tile: plan.dst.grain,
        };
        let tile = bytemuck::cast_slice(&self.carry.tiles().tile[..elements]);
        plan.kernels.pack(&codec, Number::F32, tile, &args, self.out, to);
    }

    /// Puts the elements of one part of a tile, which begin at `at`, in their slots.
    fn gather(&mut self, part: &Gather, at: [i64; 3]) {
        let plan = self.plan;
        let Op::Convert(number, _) = plan.op else { return };
        let unpacked_at = &mut self.carry.unpacked_at;
        let Tiles { tile, unpacked } = self.carry.tiles.get_or_insert_with(Tiles::zero);
        let tile = writable(bytemuck::cast_slice_mut(tile.as_mut_slice()));
        let (outer, inner) = part.loops.split_at(part.loops.len().saturating_sub(2));
        let pick = |i: usize| inner.get(i).map_or((1, [0; 6]), |l| (l.n as usize, l.step));
        let ((rows, row), (cols, col)) = (pick(0), pick(1));
        let block = plan.src.codec.is_some();
        // Rows or columns that go from tile to tile of a block source are taken one by one.
        let steps_tiles = |s: Both| s[0] != 0 || (block && s[1] != 0);
        let outer_turns: u64 = outer.iter().map(|l| l.n).product();
        let (row_turns, col_turns) =
            (if steps_tiles(row) { rows } else { 1 }, if steps_tiles(col) { cols } else { 1 });
        for turn in 0..outer_turns {
            let mut rest = turn;
            let mut base = [at[0], at[1], at[2], 0, 0, part.slot];
            for l in outer.iter().rev() {
                base = advance(base, l.step, (rest % l.n) as i64);
                rest /= l.n;
            }
            for r in 0..row_turns {
                for c in 0..col_turns {
                    let from = advance(advance(base, row, r as i64), col, c as i64);
                    let byte = (plan.src.space.unit_at(from[0]) + from[1]) as usize;
                    let (source, first, by) = if block {
                        (unpack(plan, self.source, unpacked, unpacked_at, byte), from[2] as usize * 4, (2, 4))
                    } else {
                        (self.source, byte, (1, 1))
                    };
                    let w = Window {
                        rows: rows / row_turns,
                        cols: cols / col_turns,
                        src_row: (row[by.0] * by.1) as isize,
                        src_col: (col[by.0] * by.1) as isize,
                        dst_row: row[5] as isize * 4,
                        dst_col: col[5] as isize * 4,
                    };
                    plan.kernels.convert(number, Number::F32, source, first, tile, from[5] as usize * 4, &w);
                }
            }
        }
    }
}

/// Puts a block of elements, which begins at `at`, to byte `to` of a destination in which loop `i` steps by
/// `steps(i)`.
#[allow(clippy::too_many_arguments)]
fn assemble(
    plan: &Plan,
    source: &[u8],
    carry: &mut Carry,
    nest: &Nest,
    mut at: Both,
    size: &[u64; MAX_LOOPS],
    out: &mut [MaybeUninit<u8>],
    to: usize,
    steps: impl Fn(usize) -> i64,
) {
    let mut to = to as i64;
    let mut turn = [0_u64; MAX_LOOPS];
    // Loops inside of the call, as many as it takes; those outside of it are walked here.
    let mut around = [Around::default(); MAX_AROUND];
    let mut taken = 0;
    let mut outside = [0; MAX_LOOPS];
    let mut left = 0;
    for &i in nest.order.iter().rev() {
        let l = &nest.loops[i];
        if size[i] == 1 || Some(i) == nest.rows || Some(i) == nest.cols {
            continue;
        }
        if matches!(plan.op, Op::Copy(_)) && taken < MAX_AROUND && l.step[0] == 0 && left == 0 {
            taken += 1;
            around[MAX_AROUND - taken] =
                Around { n: size[i] as usize, src: l.step[1] as isize, dst: steps(i) as isize };
        } else {
            outside[left] = i;
            left += 1;
        }
    }
    let around = &around[MAX_AROUND - taken..];
    loop {
        elements(plan, source, carry, nest, at, size, out, to as usize, &steps, around);
        let more = outside[..left].iter().any(|&i| {
            turn[i] += 1;
            let by = if turn[i] < size[i] { 1 } else { 1 - turn[i] as i64 };
            at = advance(at, nest.loops[i].step, by);
            to += steps(i) * by;
            if turn[i] < size[i] {
                return true;
            }
            turn[i] = 0;
            false
        });
        if !more {
            return;
        }
    }
}

/// One kernel call of a block: all turns of the nest's rows and columns.
#[allow(clippy::too_many_arguments)]
fn elements(
    plan: &Plan,
    source: &[u8],
    carry: &mut Carry,
    nest: &Nest,
    at: Both,
    size: &[u64; MAX_LOOPS],
    out: &mut [MaybeUninit<u8>],
    to: usize,
    steps: &impl Fn(usize) -> i64,
    around: &[Around],
) {
    let pick = |i: Option<usize>| i.map_or((1, [0; 6], 0), |i| (size[i], nest.loops[i].step, steps(i)));
    let ((rows, row, dst_row), (cols, col, dst_col)) = (pick(nest.rows), pick(nest.cols));
    let window = |k: usize| Window {
        rows: rows as usize,
        cols: cols as usize,
        src_row: row[k] as isize,
        src_col: col[k] as isize,
        dst_row: dst_row as isize,
        dst_col: dst_col as isize,
    };
    let from = (plan.src.space.unit_at(at[0]) + at[1]) as usize;
    match (plan.src.codec, plan.op) {
        (Some(codec), Op::Convert(number, into)) => {
            let w = window(2);
            if let Some(args) = rectangle(from, at[2], to, &w, codec.tile().cols()) {
                return plan.kernels.unpack(&codec, into, source, &args, out);
            }
            let tile = carry.unpacked(plan, source, from);
            let w = Window { src_row: w.src_row * 4, src_col: w.src_col * 4, ..w };
            plan.kernels.convert(number, into, tile, at[2] as usize * 4, out, to, &w);
        }
        (_, Op::Convert(number, into)) => {
            plan.kernels.convert(number, into, source, from, out, to, &window(1));
        }
        (_, Op::Cast { cast, strict }) => {
            let fits = plan.kernels.cast(cast, source, from, out, to, &window(1));
            if strict && !fits {
                let all = misfits(plan, source, cast, at, (rows, row), (cols, col));
                carry.misfit = all.fold(carry.misfit, Misfit::earlier);
            }
        }
        (_, Op::Copy(size)) => plan.kernels.copy_around(size, source, from, out, to, &window(1), around),
    }
}

/// Every value that does not fit of a window of elements, which begins at `at`.
fn misfits<'s>(
    plan: &Plan,
    source: &'s [u8],
    cast: Cast,
    at: Both,
    (rows, row): (u64, Both),
    (cols, col): (u64, Both),
) -> impl Iterator<Item = Misfit> + use<'s> {
    // No loop of a window goes from unit to unit.
    let (from, to) = (plan.src.space.unit_at(at[0]) + at[1], plan.dst.space.unit_at(at[3]) + at[4]);
    let size = cast.source_size();
    let turns = (0..rows as i64).flat_map(move |r| (0..cols as i64).map(move |c| (r, c)));
    turns.filter_map(move |(r, c)| {
        let from = (from + row[1] * r + col[1] * c) as usize;
        let mut code = [0; 8];
        code[..size].copy_from_slice(&source[from..from + size]);
        let bits = u64::from_le_bytes(code);
        let misfit = Misfit { at: (to + row[4] * r + col[4] * c) as u64, bits };
        (!cast.apply(bits).1).then_some(misfit)
    })
}

/// The rectangle of a tile that a window over its slots is, if it is one.
fn rectangle(src_at: usize, slot: i64, dst_at: usize, w: &Window, tile_cols: usize) -> Option<UnpackArgs> {
    let (row0, col0) = (slot as usize / tile_cols, slot as usize % tile_cols);
    let line = tile_cols as isize;
    let args = UnpackArgs {
        tiles: 1,
        src_at,
        src_tile: 0,
        row0,
        col0,
        rows: w.rows,
        cols: w.cols,
        dst_at,
        dst_tile: 0,
        dst_row: w.dst_row,
        dst_col: w.dst_col,
    };
    let along = |n: usize, step: isize, by: isize| n == 1 || step == by;
    if along(w.rows, w.src_row, line) && along(w.cols, w.src_col, 1) && col0 + w.cols <= tile_cols {
        Some(args)
    } else if along(w.rows, w.src_row, 1) && along(w.cols, w.src_col, line) && col0 + w.rows <= tile_cols {
        let (rows, cols, dst_row, dst_col) = (w.cols, w.rows, w.dst_col, w.dst_row);
        Some(UnpackArgs { rows, cols, dst_row, dst_col, ..args })
    } else if w.rows == 1 && w.src_col == 1 && col0 == 0 && w.cols.is_multiple_of(tile_cols) {
        // Rows that follow one another in the destination are one loop.
        let (rows, cols) = (w.cols / tile_cols, tile_cols);
        Some(UnpackArgs { rows, cols, dst_row: w.dst_col * line, ..args })
    } else {
        None
    }
}

/// The tile of the source at a byte, unpacked unless it is the last one that was.
fn unpack<'s>(
    plan: &Plan,
    source: &[u8],
    unpacked: &'s mut [f32],
    unpacked_at: &mut Option<usize>,
    at: usize,
) -> &'s [u8] {
    if let Some(codec) = plan.src.codec
        && *unpacked_at != Some(at)
    {
        let tile = codec.tile();
        let args = UnpackArgs {
            tiles: 1,
            src_at: at,
            src_tile: 0,
            row0: 0,
            col0: 0,
            rows: tile.rows(),
            cols: tile.cols(),
            dst_at: 0,
            dst_tile: 0,
            dst_row: tile.cols() as isize * 4,
            dst_col: 4,
        };
        let out = writable(bytemuck::cast_slice_mut(unpacked));
        plan.kernels.unpack(&codec, Number::F32, source, &args, out);
        *unpacked_at = Some(at);
    }
    bytemuck::cast_slice(unpacked)
}
