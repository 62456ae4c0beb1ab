//! The fast executor: clips the nests to a destination range, and runs each rectangular rest with kernels.

use std::mem::MaybeUninit;
use std::ops::Range;

use kernels::{Number, PackArgs, TileShape, UnpackArgs, Window};

use super::clip::{View, advance};
use super::memory::{Split, writable, written};
use super::threads::Executor;
use crate::error::{Error, Result};
use crate::plan::nest::{Both, Gather, Leaf, Nest};
use crate::plan::{MAX_LOOPS, Op, Plan};

/// Less than this is done on the caller's thread: handing a task over costs as much as moving some 100 KiB.
const SMALL: usize = 256 << 10;

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
    /// written then.
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
            self.run(source, 0, destination);
            return Ok(written(destination));
        }
        let range = self.task_bytes(len / (executor.threads() * TASKS_PER_THREAD));
        let split = Split::new(destination, range);
        executor.run(split.tasks(), &|task| {
            if let Some((begin, out)) = split.take(task) {
                self.run(source, begin, out);
            }
        });
        if !split.all_taken() {
            let needed = format!("a call for each of {} tasks", split.tasks());
            return Err(Error::value("executor", "a return before every task had run", needed));
        }
        Ok(written(destination))
    }

    /// Produces one range of the destination alone: `out` holds just these bytes.
    ///
    /// The range begins and ends on multiples of [`Plan::granule`].
    ///
    /// # Errors
    /// Where it does not, or lies outside of the destination, or a slice has the wrong length.
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
        self.run(source, range.start, out);
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

    /// Writes the bytes of the destination from `begin` on that `out` has room for.
    fn run(&self, source: &[u8], begin: usize, out: &mut [MaybeUninit<u8>]) {
        let mut job = Job { plan: self, source, out, scratch: Scratch::new() };
        for part in self.parts(begin, begin + job.out.len()) {
            let at = part.at - begin;
            job.nests(part.lo, part.hi, part.lo - at as i64);
            if part.gap > 0 {
                let to = at + (part.hi - part.lo) as usize;
                self.kernels.fill(&[0], job.out, to, 1, 0, part.gap);
            }
        }
        self.kernels.fence();
    }
}

/// One range of the destination being written.
struct Job<'a> {
    plan: &'a Plan,
    source: &'a [u8],
    out: &'a mut [MaybeUninit<u8>],
    scratch: Scratch,
}

/// What a thread needs besides source and destination: tiles of a block format on their way.
struct Scratch {
    /// A tile to be packed, row by row.
    tile: [f32; TileShape::MAX_ELEMENTS],
    /// The last tile of the source that was unpacked, row by row.
    unpacked: [f32; TileShape::MAX_ELEMENTS],
    /// Where that tile begins.
    unpacked_at: Option<usize>,
}

impl Scratch {
    fn new() -> Scratch {
        Scratch {
            tile: [0.0; TileShape::MAX_ELEMENTS],
            unpacked: [0.0; TileShape::MAX_ELEMENTS],
            unpacked_at: None,
        }
    }
}

impl Job<'_> {
    /// Runs what the nests write of `lo..hi`, counted through all units; `base` is where `out` begins.
    fn nests(&mut self, lo: i64, hi: i64, base: i64) {
        let plan = self.plan;
        plan.clip(lo, hi, &mut |nest, view| self.rectangle(nest, view, base));
    }

    /// Runs all turns of a view.
    fn rectangle(&mut self, nest: &Nest, view: &View, base: i64) {
        let mut counters = [0_u64; MAX_LOOPS];
        let mut at = view.at;
        loop {
            let to = (self.plan.linear(at) - base) as usize;
            match &nest.leaf {
                Leaf::Element => self.elements(nest, view, at, to),
                Leaf::Fill => self.fill(nest, view, to),
                Leaf::Pack(parts) => self.pack(nest, parts, view, &counters, to),
            }
            let mut outer = (0..nest.loops.len())
                .rev()
                .filter(|&i| Some(i) != nest.rows && Some(i) != nest.cols && view.n[i] > 1);
            let more = outer.any(|i| {
                counters[i] += 1;
                if counters[i] < view.n[i] {
                    at = advance(at, nest.loops[i].step, 1);
                    return true;
                }
                at = advance(at, nest.loops[i].step, 1 - counters[i] as i64);
                counters[i] = 0;
                false
            });
            if !more {
                return;
            }
        }
    }

    fn fill(&mut self, nest: &Nest, view: &View, to: usize) {
        let len = nest.cols.map_or(1, |c| view.n[c] as usize) * self.plan.dst.grain;
        let rows = nest.rows.map_or(1, |r| view.n[r] as usize);
        let step = nest.rows.map_or(0, |r| self.plan.linear(nest.loops[r].step) as isize);
        self.plan.kernels.fill(&self.plan.fill, self.out, to, rows, step, len);
    }

    fn elements(&mut self, nest: &Nest, view: &View, at: Both, to: usize) {
        let pick = |i: Option<usize>| i.map_or((1, [0; 6]), |i| (view.n[i], nest.loops[i].step));
        let ((rows, row), (cols, col)) = (pick(nest.rows), pick(nest.cols));
        let window = |src_row: i64, src_col: i64| Window {
            rows: rows as usize,
            cols: cols as usize,
            src_row: src_row as isize,
            src_col: src_col as isize,
            dst_row: row[4] as isize,
            dst_col: col[4] as isize,
        };
        let plan = self.plan;
        let from = (plan.src.space.unit_at(at[0]) + at[1]) as usize;
        if let Some(codec) = plan.src.codec {
            let Op::Convert(number, into) = plan.op else { return };
            let w = window(row[2], col[2]);
            if let Some(args) = rectangle(from, at[2], to, &w, codec.tile().cols()) {
                return plan.kernels.unpack(&codec, into, self.source, &args, self.out);
            }
            let tile =
                unpack(plan, self.source, &mut self.scratch.unpacked, &mut self.scratch.unpacked_at, from);
            let w = Window { src_row: w.src_row * 4, src_col: w.src_col * 4, ..w };
            plan.kernels.convert(number, into, tile, at[2] as usize * 4, self.out, to, &w);
            return;
        }
        let w = window(row[1], col[1]);
        match plan.op {
            Op::Copy(size) => plan.kernels.copy(size, self.source, from, self.out, to, &w),
            Op::Convert(number, into) => {
                plan.kernels.convert(number, into, self.source, from, self.out, to, &w)
            }
        }
    }

    fn pack(&mut self, nest: &Nest, parts: &[Gather], view: &View, counters: &[u64], to: usize) {
        let plan = self.plan;
        let (Some(codec), Op::Convert(number, _)) = (plan.dst.codec, plan.op) else { return };
        let moved = |part: &Gather| {
            part.moves.iter().enumerate().fold(part.src, |at, (i, step)| {
                let turn = (view.first[i] + counters[i]) as i64;
                std::array::from_fn(|k| at[k] + step[k] * turn)
            })
        };
        if let (Some(tile), [part]) = (nest.in_place, parts) {
            let at = moved(part);
            let args = PackArgs {
                tiles: nest.cols.map_or(1, |c| view.n[c] as usize),
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
            self.scratch.tile[..elements].fill(plan.pad);
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
        let tile = bytemuck::cast_slice(&self.scratch.tile[..elements]);
        plan.kernels.pack(&codec, Number::F32, tile, &args, self.out, to);
    }

    /// Puts the elements of one part of a tile, which begin at `at`, in their slots.
    fn gather(&mut self, part: &Gather, at: [i64; 3]) {
        let plan = self.plan;
        let Op::Convert(number, _) = plan.op else { return };
        let Scratch { tile, unpacked, unpacked_at } = &mut self.scratch;
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
    } else if w.rows == 1 && w.src_col == 1 && col0 == 0 && w.cols % tile_cols == 0 {
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
    if let Some(codec) = plan.src.codec {
        if *unpacked_at != Some(at) {
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
    }
    bytemuck::cast_slice(unpacked)
}
