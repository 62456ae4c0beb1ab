//! Elements that are assembled in L1 and written from there, and the same blocks without assembly.

use super::blocks::{LONG_UNIT, Segment, between, by_source, longer_row, stays_in_unit};
use crate::plan::conversion::{Conversion, Op};
use crate::plan::ir::{LINE, Loop, MAX_SEGMENTS, Schedule, runs_begin_anywhere};
use crate::tuning::Tuning;

/// Where nothing is assembled, blocks of fewer bytes go unit by unit, so that each has all loops inside of its unit: a call costs as
/// much as to copy some 3 KiB.
const SMALL_BLOCK: u64 = 16 << 10;

/// Where units of the source are brought together and transposed, the lines that a block has of each, and the most bytes of a segment, whose
/// elements are each of another unit. On Zen 4 pages are transposed 1.2 to 1.7 times as fast so as by one line and 512 bytes.
const LINES_OF_UNITS: usize = 4;
const SEGMENT_OF_UNITS: usize = 256;

/// Elements of a row that a call does not take alone, if there are fewer.
const FEW: u64 = 16;

/// One nest, and what decides about its blocks.
struct Nest<'a> {
    loops: &'a [Loop],
    /// Bytes of one element of the source; of a block source, of an element that is decoded.
    near: i64,
    /// Bytes of one element of the destination.
    block_bytes: i64,
    /// Rows of a tile of a block source.
    tile_rows: Option<i64>,
    /// The loop along which the source runs, where that is not the innermost: a transpose.
    across: Option<usize>,
    /// Whether the innermost loop, or that of short rows, goes from unit to unit of the source, so that blocks are brought
    /// together first.
    compacted: bool,
    /// Whether the source runs from unit to unit of the destination, or its tiles do, so that blocks are of several units.
    scattered: bool,
    /// The loop from unit to unit of the destination that blocks take: [`dealt`].
    dealt: Option<usize>,
    /// Bytes from unit to unit of the source.
    pitch: i64,
    /// Whether rows of the destination begin anywhere in a line.
    ragged: bool,
    /// Whether the source is copied in runs of whole segments, which need no assembling.
    in_runs: bool,
    /// Whether the source runs along segments, for two lines of the destination or more.
    in_lines: bool,
    tuning: &'a Tuning,
}

impl Nest<'_> {
    fn new<'a>(loops: &'a [Loop], conversion: Conversion<'a>) -> Nest<'a> {
        let Conversion { src, dst, op, tuning, .. } = conversion;
        let unit = |l: &Loop| l.step[0] != 0 && l.step[3] == 0;
        let mut nest = Nest {
            loops,
            near: op.source_size() as i64,
            block_bytes: dst.block_bytes as i64,
            tile_rows: src.codec.map(|c| c.tile().rows() as i64),
            across: None,
            compacted: src.codec.is_none()
                && !matches!(op, Op::Cast { .. })
                && (loops.last().is_some_and(unit) || reads_short_units(loops, LINE, conversion)),
            scattered: false,
            dealt: None,
            pitch: src.space.pitch_bytes as i64,
            ragged: false,
            in_runs: false,
            in_lines: false,
            tuning,
        };
        let run = |l: &Loop| match nest.tile_rows {
            Some(_) => l.step[2] == 1,
            None => l.step[0] == 0 && l.step[1] == nest.near,
        };
        let length = loops.last().filter(|l| run(l)).map_or(0, |l| (l.n as i64).saturating_mul(nest.near));
        let runs = length >= 16;
        let other =
            |l: &Loop| l.step[3] != 0 && if nest.tile_rows.is_some() { l.step[2] != 0 } else { run(l) };
        let apart = nest.tile_rows.is_some() || !runs;
        // A run that is copied to its unit is a segment as it is.
        let as_it_is = |i: usize| matches!(op, Op::Copy(_)) && i + 2 == loops.len();
        nest.dealt = dealt(loops, conversion).filter(|&i| !as_it_is(i));
        nest.scattered =
            !matches!(op, Op::Cast { .. }) && (apart && loops.iter().any(other) || nest.dealt.is_some());
        // One element that is repeated leaves no line of the source half read.
        let repeats = loops.last().is_none_or(|l| l.src() == [0; 3]);
        let across = (0..loops.len()).rev().find(|&i| !runs && nest.fits(&loops[i]) && run(&loops[i]));
        let across = across.or_else(|| nest.nearest().filter(|_| !runs)).filter(|_| !repeats);
        nest.ragged = nest.is_ragged();
        let written = |l: &Loop| (l.n as i64).saturating_mul(nest.block_bytes) >= 2 * LINE as i64;
        // Those of a run that lies backward too, where they are assembled.
        let backward = |l: &Loop| conversion.streams && src.codec.is_none() && l.src() == [0, -nest.near, 0];
        let lies = |l: &Loop| run(l) || backward(l);
        nest.in_lines = loops.last().is_some_and(|l| lies(l) && written(l));
        nest.in_runs = matches!(op, Op::Copy(_)) && runs && length >= tuning.segment as i64;
        nest.across = across;
        nest
    }

    /// Whether a kernel's window can have a loop; windows of a block source stay inside of one tile.
    fn fits(&self, l: &Loop) -> bool {
        (l.step[0] == 0 || self.compacted)
            && (l.step[3] == 0 || self.scattered)
            && !(self.tile_rows.is_some() && l.step[1] != 0)
    }

    /// The loop that takes the elements of a line of the source which is not read whole (every second one) or backward, where
    /// the innermost loop does not.
    fn nearest(&self) -> Option<usize> {
        let within = |i: &usize| (1..LINE as i64).contains(&self.stride(&self.loops[*i]));
        let nearest = (0..self.loops.len()).filter(within).min_by_key(|&i| self.stride(&self.loops[i]))?;
        (self.tile_rows.is_none() && nearest + 1 < self.loops.len()).then_some(nearest)
    }

    /// The loop from tile to tile of a block source, in one unit or from one to the next.
    fn tiles(&self) -> Option<usize> {
        let goes_on = |l: &Loop| match l.src() {
            [0, bytes, 0] => bytes > 0,
            [unit, 0, 0] => unit != 0,
            _ => false,
        };
        let tile = |l: &Loop| self.tile_rows.is_some() && l.step[3] == 0 && goes_on(l);
        (0..self.loops.len()).rev().find(|&i| tile(&self.loops[i]))
    }

    /// How far a loop steps in what a window reads; 0 for one that no window can have.
    fn stride(&self, l: &Loop) -> i64 {
        match (self.fits(l), self.tile_rows) {
            (false, _) => 0,
            (true, Some(_)) => l.step[2].abs(),
            (true, None) => l.step[0].saturating_mul(self.pitch).saturating_add(l.step[1]).saturating_abs(),
        }
    }

    /// The most bytes of a block: what is compacted has the same room as what is assembled.
    fn most(&self) -> i64 {
        let Nest { block_bytes, near, .. } = *self;
        let block = self.tuning.block as i64;
        if self.compacted { block * block_bytes / near.max(block_bytes) } else { block }
    }

    /// The most bytes of a segment.
    fn target(&self) -> i64 {
        let target = match (self.in_runs, self.across, self.tile_rows) {
            // A long run of the source is a segment as it is, alone.
            (true, ..) => i64::MAX,
            (_, Some(_), _) => self.across_bytes().max(self.block_bytes),
            // As many tiles as have room with all of their rows.
            (_, None, Some(rows)) => self.tuning.block as i64 / rows,
            (_, None, None) => {
                let Tuning { segment, run_segment, block, .. } = *self.tuning;
                if self.in_lines { run_segment } else { segment }.min(block) as i64
            }
        };
        if self.compacted { target.min(self.most()) } else { target }
    }

    /// Whether the innermost loop is more than a segment of the destination, and its runs begin anywhere in a line.
    fn is_ragged(&self) -> bool {
        let Some((run, outer)) = self.loops.split_last() else { return false };
        let bytes = (run.n as i64).saturating_mul(self.block_bytes);
        run.step[4] == self.block_bytes
            && bytes > self.tuning.transposed_segment[self.size()] as i64
            && outer.iter().any(|l| l.step[3] == 0 && l.step[4] % LINE as i64 != 0)
    }

    /// Which number of a constant that has one for each size of an element is that of the destination's.
    fn size(&self) -> usize {
        self.block_bytes.ilog2().min(3) as usize
    }

    /// Bytes of a segment where the source runs across segments.
    fn across_bytes(&self) -> i64 {
        let Tuning { transposed_segment, ragged_segment, block, .. } = self.tuning;
        let segments = if self.ragged { ragged_segment } else { transposed_segment };
        let most = if self.compacted { SEGMENT_OF_UNITS.min(*block) } else { *block };
        segments[self.size()].min(most) as i64
    }
}

/// The loop along which rows of the source go on from one short unit of the destination to the next, past the caches, where units are made of
/// parts of lines or converted: rows of tiles that are dealt to banks, or short rows in pages.
pub(super) fn dealt(loops: &[Loop], conversion: Conversion<'_>) -> Option<usize> {
    let Conversion { src, dst, op, streams, .. } = conversion;
    if src.codec.is_some() || !streams || matches!(op, Op::Cast { .. }) {
        return None;
    }
    let (near, far) = (op.source_size() as i64, dst.block_bytes as i64);
    let run = loops.last().map_or(0, |l| far.saturating_mul(l.n as i64));
    let (mut read, mut written) = (near, far);
    for (i, l) in loops.iter().enumerate().rev() {
        if l.step[3] != 0 {
            let goes_on = l.step[..2] == [0, read] && near < read && written < LONG_UNIT as i64;
            // Lines of several runs each are copied faster from where they lie.
            let copies_lines = matches!(op, Op::Copy(_)) && (LINE as i64..written).contains(&run);
            return (goes_on && !copies_lines).then_some(i);
        }
        if l.step[0] != 0 || l.step[4] != written {
            return None;
        }
        written = written.saturating_mul(l.n as i64);
        if l.step[1] == read {
            read = read.saturating_mul(l.n as i64);
        }
    }
    None
}

/// Whether rows of the destination go on from unit to unit of the source in runs of `most` bytes (in the caches those of one loop), or, past the
/// caches, in longer ones of units so short that a block reads all of each.
pub(super) fn reads_short_units(loops: &[Loop], most: usize, conversion: Conversion<'_>) -> bool {
    let Conversion { src, dst, op, streams, .. } = conversion;
    if src.codec.is_some() || matches!(op, Op::Cast { .. }) {
        return false;
    }
    let whole_units = streams && src.space.unit_bytes < LONG_UNIT;
    let mut written = dst.block_bytes as i64;
    for (i, l) in loops.iter().enumerate().rev() {
        match l.step {
            [unit, _, _, 0, byte, _] if byte == written && unit != 0 => {
                let short = written <= most as i64 && (streams || i + 2 == loops.len());
                return short || whole_units && written < LONG_UNIT as i64 / 2;
            }
            [_, _, _, 0, byte, _] if byte == written => written = written.saturating_mul(l.n as i64),
            _ => {}
        }
    }
    false
}

/// Whether the source runs across rows of the destination that lie far apart.
pub(super) fn transposes(loops: &[Loop], conversion: Conversion<'_>) -> bool {
    let across = Nest::new(loops, conversion).across.map(|i| loops[i]);
    across.is_some_and(|l| l.step[3] != 0 || l.step[4] >= conversion.tuning.transposed_apart as i64)
}

/// Whether runs no longer than a line, or tiles that are unpacked, are brought together to rows that begin anywhere in a line.
pub(super) fn leaves_parts(loops: &[Loop], conversion: Conversion<'_>) -> bool {
    let Conversion { src, dst, op, .. } = conversion;
    let nest = Nest::new(loops, conversion);
    let run = loops.last().map_or(0, |l| (l.n as i64).saturating_mul(nest.block_bytes));
    let brings = src.codec.is_some() || matches!(op, Op::Copy(_)) && run <= LINE as i64 && loops.len() > 2;
    brings
        && nest.across.is_none()
        && !(nest.compacted || nest.scattered)
        && runs_begin_anywhere(loops, dst.block_bytes)
}

/// Whether the source, read as it lies, is written far apart: after less than a segment it steps far in the destination, and
/// comes back, as where a row goes to as many sticks.
pub(super) fn scatters(loops: &[Loop], conversion: Conversion<'_>) -> bool {
    let Conversion { src, dst, tuning, .. } = conversion;
    // What is repeated is read once.
    let is_read = |l: &Loop| l.n > 1 && l.src() != [0; 3];
    let order: Vec<Loop> = by_source(loops).into_iter().map(|i| loops[i]).filter(is_read).collect();
    let far = |i: usize| {
        let step = order[i].step[4];
        let elements = order[i + 1..].iter().fold(1_u64, |count, l| count.saturating_mul(l.n));
        step >= tuning.scattered_apart as i64
            && elements.saturating_mul(dst.block_bytes as u64) < tuning.segment as u64
            && order[..i].iter().any(|outer| outer.step[4] < step)
    };
    src.codec.is_none() && order.iter().all(stays_in_unit) && (0..order.len()).any(far)
}

/// The schedule of elements that are assembled, and the bytes of a run of the destination that a block makes.
pub(super) fn schedule(loops: &[Loop], conversion: Conversion<'_>) -> (Schedule, i64) {
    let nest = Nest::new(loops, conversion);
    let mut schedule = Schedule::new(loops);
    schedule.order = by_source(loops);
    schedule.within.clone_from(&schedule.order);
    schedule.tiles = nest.tiles();
    let tiles = schedule.tiles;
    let segment = Segment::chain(loops, nest.block_bytes, nest.target(), |i| {
        let further = nest.in_runs && i + 1 < loops.len();
        !further && Some(i) != nest.across && (nest.fits(&loops[i]) || Some(i) == tiles)
    });
    segment.put(loops, &mut schedule);
    let extent = widen(&nest, &mut schedule, segment.bytes);
    overlap(&nest, &mut schedule, extent);
    windows(&nest, &mut schedule);
    (schedule.assembled, schedule.compacted) = (true, nest.compacted);
    let run = run(&nest, &schedule, extent);
    (schedule, run)
}

/// The bytes of a run that segments of `extent` bytes make where they follow one another in the destination, as the rows
/// of a face do.
fn run(nest: &Nest<'_>, schedule: &Schedule, extent: i64) -> i64 {
    (0..schedule.segment).rev().filter(|&i| schedule.blocks[i] > 1).fold(extent, |run, i| {
        let follows = schedule.packed[i] == run && nest.loops[i].step[4] == run;
        if follows { run * schedule.blocks[i] as i64 } else { run }
    })
}

/// Makes blocks of several segments, so that the source too is read in whole lines; returns the bytes of a segment.
fn widen(nest: &Nest<'_>, schedule: &mut Schedule, mut extent: i64) -> i64 {
    let Nest { loops, near, block_bytes, tile_rows, across, in_runs, tuning, .. } = *nest;
    let most = nest.most() as u64;
    let mut between = between(loops, schedule.segment, |l| nest.stride(l));
    if in_runs {
        between.clear();
    }
    if tile_rows.is_some() {
        // What is unpacked is the whole tile.
        between = (0..schedule.segment).filter(|&i| nest.stride(&loops[i]) > 0).collect();
        between.sort_by_key(|&i| nest.stride(&loops[i]));
    }
    let filled: u64 = between.iter().map(|&i| loops[i].n).try_fold(1, u64::checked_mul).unwrap_or(u64::MAX);
    let segment = schedule.segment;
    if across.is_none() && tile_rows.is_none() && filled > 1 && segment < loops.len() {
        // Shorter segments, so that a block holds more of them.
        let shortest = schedule.blocks[segment + 1..].iter().product::<u64>() * block_bytes as u64;
        let wanted = (most / filled.min(32)).max(512) / shortest;
        schedule.blocks[segment] = schedule.blocks[segment].min(wanted.max(1));
        extent = (shortest * schedule.blocks[segment]) as i64;
    }
    if between.is_empty() {
        between.extend(nest.dealt);
    }
    let (mut bytes, mut segments) = (extent as u64, 1);
    for i in between {
        // A few lines of the source, or twice as many where there are no more.
        let lines = tuning.transposed_lines[nest.size()].max(if nest.compacted { LINES_OF_UNITS } else { 1 });
        let taken = (lines * LINE) as i64;
        let step = if across == Some(i) { nest.stride(&loops[i]) } else { near };
        let lines = if (loops[i].n as i64).saturating_mul(step) > 2 * taken {
            (taken / step).max(1) as u64
        } else {
            u64::MAX
        };
        let capacity = if across.is_some() { lines } else { u64::MAX };
        let iterations = loops[i].n.min(most / bytes).min(MAX_SEGMENTS as u64 / segments).min(capacity);
        if iterations > 1 {
            schedule.blocks[i] = iterations;
            schedule.packed[i] = bytes as i64;
            bytes *= iterations;
            segments *= iterations;
        }
    }
    extent
}

/// Where a transpose's rows begin anywhere in a line, blocks overlap by a line, so that segments can end where lines do.
fn overlap(nest: &Nest<'_>, schedule: &mut Schedule, extent: i64) {
    let Nest { loops, block_bytes, across, .. } = *nest;
    if across.is_some()
        && !nest.compacted
        && !nest.scattered
        && extent == nest.across_bytes()
        && schedule.segment + 1 == loops.len()
    {
        let (i, line) = (schedule.segment, LINE as u64 / block_bytes as u64);
        if nest.ragged && loops[i].n > schedule.blocks[i] && (1..schedule.blocks[i]).contains(&line) {
            schedule.overlap = line;
            schedule.blocks[i] -= line;
        }
    }
}

/// Kernels take the innermost loop of a block and its longest; of a transpose, the two that run along.
fn windows(nest: &Nest<'_>, schedule: &mut Schedule) {
    let Schedule { blocks, tiles, .. } = &*schedule;
    let inner = |i: &usize| blocks[*i] > 1 && Some(*i) != *tiles;
    let cols = (0..nest.loops.len()).rev().find(inner);
    let others = (0..nest.loops.len()).filter(|i| inner(i) && Some(*i) != cols);
    let rows = nest.across.filter(|i| inner(i) && Some(*i) != cols).or(others.max_by_key(|&i| blocks[i]));
    // What goes element by element is read as it lies.
    let apart = nest.across.is_some_and(|i| nest.loops[i].step[1] != nest.near);
    (schedule.cols, schedule.rows) = if apart && rows == nest.across { (rows, cols) } else { (cols, rows) };
}

/// While elements are converted where they lie, what is read later is fetched. Of blocks that are assembled a task finds which one comes
/// later. Tiles of a block format are fetched by their kernels.
fn prefetch(nest: &Nest<'_>, schedule: &mut Schedule) {
    let fetched = nest.tuning.fetched as i64;
    if nest.tile_rows.is_some() || fetched == 0 {
        return;
    }
    let bytes = schedule.blocks.iter().fold(nest.near, |bytes, &n| bytes.saturating_mul(n as i64));
    let next = schedule.order.iter().rev().find(|&&i| nest.loops[i].n > schedule.blocks[i]);
    if let Some(&next) = next.filter(|&&i| nest.loops[i].step[0] == 0) {
        let blocks = schedule.blocks[next] as i64 * (fetched / bytes).max(1);
        schedule.prefetch_distance = nest.loops[next].step[1].saturating_mul(blocks);
    }
}

/// The same loops for a kernel, in blocks as large as can be: nothing is assembled.
pub(super) fn cached(loops: &[Loop], conversion: Conversion<'_>, mut schedule: Schedule) -> Schedule {
    let Conversion { src, dst, op, tuning, .. } = conversion;
    let tile = |i: &usize| stays_in_unit(&loops[*i]) && loops[*i].step[1] > 0 && loops[*i].step[2] == 0;
    prefetch(&Nest::new(loops, conversion), &mut schedule);
    schedule.tiles = schedule.tiles.map(|row| longer_row(loops, row, src.codec, tuning, tile));
    // Of what is unpacked, a call takes the loops inside of one tile.
    let takes = |i: usize| stays_in_unit(&loops[i]) && (src.codec.is_none() || loops[i].step[1] == 0);
    // Of what goes to several units, tile by tile, a call has a part of each.
    let whole_tiles = loops.iter().enumerate().all(|(i, l)| l.step[2] == 0 || takes(i));
    schedule.tiles = schedule.tiles.filter(|&i| loops[i].step[0] == 0 || whole_tiles);
    // Rows of few elements go several together: a window of one element, or of one such row, costs as much as one of many.
    let other = |taken: [Option<usize>; 2]| {
        (0..loops.len()).rev().find(|&i| !taken.contains(&Some(i)) && loops[i].n > 1 && takes(i))
    };
    schedule.cols = schedule.cols.or_else(|| other([schedule.rows, schedule.tiles]));
    if schedule.cols.is_some_and(|i| loops[i].n < FEW) {
        schedule.rows = schedule.rows.or_else(|| other([schedule.cols, schedule.tiles]));
    }
    let kernel = [schedule.rows, schedule.cols, schedule.tiles];
    (schedule.assembled, schedule.overlap) = (false, 0);
    schedule.blocks.fill(1);
    kernel.into_iter().flatten().for_each(|i| schedule.blocks[i] = loops[i].n);
    let taken =
        |order: &[usize]| -> Vec<usize> { order.iter().rev().copied().take_while(|&i| takes(i)).collect() };
    let bytes = taken(&schedule.order)
        .iter()
        .fold(dst.block_bytes as u64, |bytes, &i| bytes.saturating_mul(loops[i].n));
    if bytes < SMALL_BLOCK {
        schedule.order.sort_by_key(|&i| takes(i));
    }
    taken(&schedule.order).into_iter().for_each(|i| schedule.blocks[i] = loops[i].n);
    if src.codec.is_none() && run_read(loops, &schedule, op.source_size() as i64) >= tuning.fetched as i64 {
        schedule.prefetch_distance = 0;
    }
    schedule
}

/// The bytes of the source that are read one after another, as the loops run with columns and rows innermost. The processor
/// fetches by itself what is read as it lies.
fn run_read(loops: &[Loop], schedule: &Schedule, near: i64) -> i64 {
    let kernel = [schedule.cols, schedule.rows];
    let others = schedule.order.iter().rev().copied().filter(|&i| !kernel.contains(&Some(i)));
    let mut outward = kernel.into_iter().flatten().chain(others).filter(|&i| loops[i].n > 1).peekable();
    // Every second element, and elements that lie backward, are read as the lines do that have them.
    let first =
        outward.peek().map(|&i| loops[i].step[1].abs()).filter(|step| (near..=2 * near).contains(step));
    let follows = |run: i64, i: usize| {
        let l = loops[i];
        (l.step[0] == 0 && l.step[1].abs() == run).then(|| run.saturating_mul(l.n as i64)).ok_or(run)
    };
    outward.try_fold(first.unwrap_or(near), follows).unwrap_or_else(|run| run)
}
