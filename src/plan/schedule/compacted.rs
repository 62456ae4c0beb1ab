//! Elements that are brought together in L1 as the source lies, as elements of the destination, and copied to their places from there.
//!
//! Runs of the source are converted faster than rows of a face or single elements of a row, and what lies in L1 is transposed
//! faster than what lies a power of two apart. So each step is one that kernels do at full speed.

use kernels::{Cast, Number, UnpackArgs};

use super::blocks::{LONG_UNIT, by_source, stays_in_unit};
use crate::plan::conversion::{Conversion, Op};
use crate::plan::ir::{LINE, Loop, MAX_LOOPS_OF_CALL, Schedule};

/// Elements from which on a run of the destination needs none of it: kernels convert and copy such from where they lie. And the least
/// elements of a row of the source that is worth it.
const LONG: u64 = 64;

/// Elements of a row of the destination from which on blocks of an MX format are unpacked to it.
const LONG_ROW: u64 = 512;

/// The least elements of a run of the destination that is worth it.
const LEAST: u64 = 8;

/// Whether kernels convert rows of a face from where they lie: pairs of formats that have a loop of their own.
fn is_at_once(op: Op) -> bool {
    let short = |number| matches!(number, Number::Bf16 | Number::F16 | Number::Sen169);
    match op {
        Op::Copy(_) => true,
        Op::Convert(from, to) => {
            let known = |number| number == Number::F32 || short(number);
            known(from) && known(to)
        }
        Op::Cast { .. } => false,
    }
}

/// Whether blocks of an MX format, of which each is a row of few elements, are unpacked together: in memory those that do not become rows.
fn are_blocks(loops: &[Loop], conversion: Conversion<'_>) -> bool {
    let Conversion { src, dst, op, streams, tuning, .. } = conversion;
    let (Some(codec), Op::Convert(_, number)) = (src.codec, op) else { return false };
    let is_slot = |l: &&Loop| l.step[2] != 0;
    let inside = |l: &Loop| l.step[..2] == [0; 2] && l.step[3] == 0;
    let far = dst.block_bytes as i64;
    // Elements of the destination and bytes of the source that follow one another on both sides.
    let (mut elements, mut bytes) = (1, codec.tile_bytes() as i64);
    let row = loops.iter().rev().take_while(|l| {
        let lies = if is_slot(l) { l.step[2] == elements } else { l.step[..2] == [0, bytes] };
        let follows = lies && l.step[3..5] == [0, elements.saturating_mul(far)];
        elements = elements.saturating_mul(l.n as i64);
        bytes = if is_slot(l) { bytes } else { bytes.saturating_mul(l.n as i64) };
        follows
    });
    let is_long = row.fold(1_u64, |row, l| row.saturating_mul(l.n)) >= LONG_ROW;
    tuning.compacted > 0
        && !loops.is_empty()
        && codec.tile().rows() == 1
        && UnpackArgs::has_vector_code(number)
        && loops.iter().filter(is_slot).all(inside)
        && !is_long
        && streams
        && conversion.near_lines
        && loops.iter().all(|l| begins_with_lines(l, far))
}

/// Whether a loop goes along rows of the destination, or from one that begins with a line, or is one of a face, to the next.
fn begins_with_lines(l: &Loop, far: i64) -> bool {
    l.step[3] != 0 || l.step[4] == far || l.step[4] % (far * 16) == 0
}

/// Whether elements are brought together.
pub(super) fn applies(loops: &[Loop], conversion: Conversion<'_>) -> bool {
    let Conversion { src, dst, op, streams, tuning, .. } = conversion;
    if are_blocks(loops, conversion) {
        return true;
    }
    let Some((run, outer)) = loops.split_last() else { return false };
    // The places of whole numbers that do not fit are looked up where kernels cast from the source itself.
    let fits = !matches!(op, Op::Cast { cast: Cast::Integer(..), .. });
    if tuning.compacted == 0 || src.codec.is_some() || !fits || !stays_in_unit(run) || run.n < LEAST {
        return false;
    }
    // What is copied to its place tile by tile takes a call for each; what is converted is assembled in several units together.
    let short_units = streams && dst.space.unit_bytes < LONG_UNIT && !outer.iter().all(stays_in_unit);
    let in_units = short_units && of_unit(loops, conversion).is_some();
    if short_units && !in_units && !matches!(op, Op::Copy(_)) && run.src() != [0; 3] {
        return false;
    }
    let (near, far) = (op.source_size() as i64, dst.block_bytes as i64);
    let lies = |step: i64| outer.iter().any(|l| stays_in_unit(l) && l.step[1] == step) && row(loops) >= LONG;
    let rows = Rows {
        run,
        near,
        far,
        is_short: run.n < LONG,
        copies: op == Op::Copy(near as usize),
        across: lies(near),
        every_second: lies(2 * near),
    };
    if run.step[1] == near {
        // Elements of 8 bytes are lines by themselves.
        rows.is_short && far < 8 && !is_at_once(op)
    } else if streams {
        conversion.near_lines && rows.gain_in_memory() && loops.iter().all(|l| begins_with_lines(l, far))
    } else {
        rows.gain_in_caches(op)
    }
}

/// The first of the loops that make all of a short unit of the destination as one run, if those outside of them go from unit to unit: blocks of
/// several units are made in L1, and put from there.
fn of_unit(loops: &[Loop], conversion: Conversion<'_>) -> Option<usize> {
    let Conversion { src, dst, streams, .. } = conversion;
    let mut written = dst.block_bytes as i64;
    let inside = loops.iter().rev().take_while(|l| {
        // What is repeated takes no room here, but does where it is assembled.
        let follows = l.step[3..5] == [0, written] && l.src() != [0; 3];
        written = written.saturating_mul(l.n as i64);
        follows
    });
    let first = loops.len() - inside.count();
    let short = written >= LINE as i64 && dst.space.unit_bytes < LONG_UNIT;
    let suits = streams && short && src.codec.is_none();
    (suits && first > 0 && loops[..first].iter().all(|l| l.step[3] != 0)).then_some(first)
}

/// Rows of the destination, and how the source lies along them.
struct Rows<'a> {
    /// The loop along a row.
    run: &'a Loop,
    /// Bytes of an element of the source, and of the destination.
    near: i64,
    far: i64,
    is_short: bool,
    /// Whether nothing is converted.
    copies: bool,
    /// Whether long rows of the source, or of every second of their elements, run across these.
    across: bool,
    every_second: bool,
}

impl Rows<'_> {
    /// Whether they are made faster so, with stores that bypass the caches.
    fn gain_in_memory(&self) -> bool {
        let Rows { run, near, is_short, copies, across, every_second, .. } = *self;
        let apart = (1..=2 * near).contains(&run.step[1].abs());
        // One element fills a row; of each page another one.
        let repeats = run.src() == [0; 3] && !copies;
        // Other long rows whose elements are not converted are made by other kernels, which read and write at the same time.
        every_second || repeats || (across || apart) && (is_short || !copies)
    }

    /// Whether they are in the caches, where only what does not grow gains by it.
    fn gain_in_caches(&self, op: Op) -> bool {
        let Rows { run, near, far, is_short, copies, across, .. } = *self;
        let transposed = across && !(copies || is_short && is_at_once(op));
        let every_second = run.step[1] == 2 * near && is_short;
        far <= near && (transposed || every_second)
    }
}

/// How many elements follow one another in the source along one dimension, rows of faces and tiles joined.
fn row(loops: &[Loop]) -> u64 {
    let order = by_source(loops);
    let mut inner = order.iter().rev().map(|&i| &loops[i]).filter(|l| l.src() != [0; 3]);
    let Some(first) = inner.next() else { return 0 };
    let (mut last, mut elements) = (first, first.n);
    for l in inner {
        let follows = l.step[0] == 0 && l.step[1] == last.step[1].saturating_mul(last.n as i64);
        if !follows || l.dst() <= last.dst() {
            break;
        }
        (last, elements) = (l, elements.saturating_mul(l.n));
    }
    elements
}

/// The schedule of such elements: blocks of whole lines of the destination, and of runs of the source as long as there is room for.
pub(super) fn schedule(loops: &[Loop], conversion: Conversion<'_>) -> Schedule {
    let Conversion { src, dst, op, tuning, .. } = conversion;
    let (near, far) = (op.source_size() as u64, dst.block_bytes as u64);
    let order = by_source(loops);
    // All of a tile is there, whatever of it a block has.
    let tile = src.codec.map_or(1, |codec| codec.tile().elements() as u64);
    let near = if src.codec.is_some() { far } else { near };
    let mut schedule = Schedule::ordered(loops, order, (0..loops.len()).collect());
    schedule.compacted = true;
    // Rows of the destination are segments, which a task lets begin with lines.
    schedule.segment = loops.len() - 1;
    let mut room = Room {
        elements: (tuning.block as u64 / far).min(tuning.compacted as u64 / near).max(1) / tile,
        loops: MAX_LOOPS_OF_CALL,
        of_tiles: src.codec.is_some(),
    };
    lines(loops, far, &mut schedule, &mut room);
    match of_unit(loops, conversion) {
        Some(first) if schedule.blocks[first..].iter().zip(&loops[first..]).all(|(&n, l)| n == l.n) => {
            units(loops, first, &mut schedule, &mut room);
        }
        _ => runs(loops, &mut schedule, &mut room),
    }
    schedule
}

/// What a block may have yet.
struct Room {
    /// Elements, or tiles of a block format.
    elements: u64,
    loops: usize,
    of_tiles: bool,
}

impl Room {
    /// Whether iterations of a loop take room: what is repeated, or lies in a tile that is there, takes none.
    fn is_taken_by(&self, l: &Loop) -> bool {
        l.src() != [0; 3] && !(self.of_tiles && l.step[2] != 0)
    }

    /// Takes up to `most` iterations of a loop that has some in a block already.
    fn take(&mut self, l: &Loop, block: &mut u64, most: u64) {
        let takes = self.is_taken_by(l);
        let most = if takes { most.min(self.elements) } else { most };
        let more = (l.n / *block).min(most).max(1);
        self.loops -= usize::from(*block == 1 && more > 1);
        *block *= more;
        if takes {
            self.elements /= more;
        }
    }
}

/// The most bytes of the destination that a block has as one run whatever it takes of the source: a tile of f32, which goes
/// to memory whole.
const TILE: u64 = 4096;

/// The most rows or columns that are those of faces or tiles.
const FACES: u64 = 32;

/// Bytes of the destination that a block has of longer runs: two lines.
const LINES: u64 = 2 * LINE as u64;

/// Gives a block two whole lines of the destination, or all of a tile; what is repeated along them is made in one run.
fn lines(loops: &[Loop], far: u64, schedule: &mut Schedule, room: &mut Room) {
    let (mut bytes, mut is_long) = (far, false);
    for (l, block) in loops.iter().zip(&mut schedule.blocks).rev() {
        let all = bytes.saturating_mul(l.n);
        let (repeats, is_stick) = (l.src() == [0; 3], is_long);
        is_long = l.n > FACES;
        // Sticks of other matrices follow one another, and lie far apart in the source.
        let is_full = bytes >= LINES && (all > TILE || is_long || is_stick) && !repeats;
        if room.loops == 0 || l.step[3] != 0 || l.step[4] != bytes as i64 || is_full {
            break;
        }
        room.take(l, block, if is_long && !repeats { (LINES / bytes).max(1) } else { l.n });
        bytes = all;
        if *block < l.n {
            break;
        }
    }
}

/// Gives a block what follows in the source.
fn runs(loops: &[Loop], schedule: &mut Schedule, room: &mut Room) {
    for &i in schedule.order.iter().rev().filter(|&&i| loops[i].src() != [0; 3]) {
        let is_full = room.elements < 2 && room.is_taken_by(&loops[i]);
        if room.loops == 0 || !stays_in_unit(&loops[i]) || is_full {
            break;
        }
        room.take(&loops[i], &mut schedule.blocks[i], u64::MAX);
    }
}

/// Gives a block, which has one unit with the loops from `first` on, the units that are made of what follows in the source.
fn units(loops: &[Loop], first: usize, schedule: &mut Schedule, room: &mut Room) {
    let unit = loops[first].step[4].saturating_mul(loops[first].n as i64);
    let mut units = 1;
    for &i in schedule.order.iter().rev() {
        let l = &loops[i];
        if i >= first {
            continue;
        }
        if room.loops == 0 || room.elements < 2 || l.step[0] != 0 || l.src() == [0; 3] {
            break;
        }
        room.take(l, &mut schedule.blocks[i], u64::MAX);
        schedule.packed[i] = unit.saturating_mul(units);
        units = units.saturating_mul(schedule.blocks[i] as i64);
    }
    (schedule.assembled, schedule.segment) = (units > 1, first);
}

#[cfg(test)]
mod tests {
    use crate::family::{Descriptor, Placement, Tensor};
    use crate::plan::{Options, Plan, Store};
    use crate::tuning::builtin;
    use crate::{DType, Layout};

    /// The blocks of a matrix of 512 x 512, if it is brought together without being assembled: iterations of the loops from the
    /// outermost in.
    fn blocks(dtype: DType, from: &str, to: &str, store: Store) -> Option<Vec<u64>> {
        let tensor = Tensor { shape: vec![512, 512], dtype };
        let layout = |text: &str| -> Layout {
            text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap()
        };
        let options = Options::default().with_store(store);
        let plan = Plan::compile_with(&layout(from), &layout(to), &options, &builtin::ZEN4).unwrap();
        let schedule = &plan.nests[0].schedule;
        // What runs along rows of the source is stored as it comes; what does not, by whole lines.
        let along = plan.nests[0].loops.last().is_some_and(|l| l.step[1] == dtype.size() as i64);
        let by_lines = store == Store::Streamed && !along && !plan.conversion().near_lines;
        assert!(!by_lines || schedule.assembled || !schedule.compacted, "{plan}");
        let compacted = schedule.compacted && !schedule.assembled;
        compacted.then(|| schedule.blocks.clone())
    }

    const TILES: &str = "ttnn(dtype=bfloat16, layout=TILE)";

    /// Whether this machine has what transposes need to be worth it.
    fn near_lines() -> bool {
        kernels::Kernels::for_isa(kernels::Isa::best()).unwrap().has_near_lines()
    }

    #[test]
    fn conversions_without_a_loop_for_faces_are_brought_together() {
        for store in [Store::Cached, Store::Streamed] {
            // A whole tile, and as many beside it as 32 KiB of the source have.
            let of_f64 = blocks(DType::F64, "memref<512x512xf64>", TILES, store);
            assert_eq!(of_f64, Some(vec![1, 4, 2, 2, 16, 16]));
            assert!(blocks(DType::I32, "memref<512x512xi32>", TILES, store).is_some());
            // Kernels convert rows of a face of these from where they lie.
            assert_eq!(blocks(DType::F32, "memref<512x512xf32>", TILES, store), None);
            // Long rows, and elements that are lines.
            assert_eq!(blocks(DType::F64, "memref<512x512xf64>", "memref<512x512xbf16>", store), None);
            assert_eq!(
                blocks(DType::F32, "ttnn(dtype=float32, layout=TILE)", "memref<512x512xf64>", store),
                None
            );
        }
    }

    #[test]
    fn transposes_that_convert_are_brought_together_where_lines_are_stored_at_once() {
        let (from, to) = ("memref<512x512xf32>", "memref<512x512xbf16, strided<[1, 512]>>");
        let streamed = blocks(DType::F32, from, to, Store::Streamed);
        // 64 elements are two lines of the destination, 128 of each row as much as there is room for.
        assert_eq!(streamed, near_lines().then(|| vec![128, 64]));
        assert_eq!(blocks(DType::F32, from, to, Store::Cached), Some(vec![128, 64]));
        // Transposes that convert nothing have panels, unless rows are those of faces.
        let transposed = "memref<512x512xbf16, strided<[1, 512]>>";
        assert_eq!(blocks(DType::Bf16, "memref<512x512xbf16>", transposed, Store::Streamed), None);
        assert_eq!(blocks(DType::Bf16, transposed, TILES, Store::Streamed).is_some(), near_lines());
        // Rows of a face are too short to be read so.
        assert_eq!(blocks(DType::Bf16, TILES, transposed, Store::Streamed), None);
    }

    #[test]
    fn what_is_repeated_takes_no_room() {
        let column = "memref<512x512xf32, strided<[1, 0]>>";
        let streamed = blocks(DType::F32, column, "memref<512x512xbf16>", Store::Streamed);
        assert_eq!(streamed, near_lines().then(|| vec![512, 512]));
        // A page at a time.
        let pages = "ttnn(dtype=bfloat16, layout=ROW_MAJOR, memory=INTERLEAVED, banks=12, alignment=64)";
        let paged = blocks(DType::F32, column, pages, Store::Streamed);
        assert_eq!(paged, near_lines().then(|| vec![1, 512]));
    }

    #[test]
    fn blocks_of_mx_formats_are_unpacked_together_unless_they_become_rows() {
        let mx = "memref<512x512xmxfp8_e4m3>";
        let of = |to: &str, store| blocks(DType::F32, mx, to, store);
        let sticks = of("SpyreTensorLayout((512, 512), torch.float32)", Store::Streamed);
        assert_eq!(sticks.is_some(), near_lines());
        assert_eq!(of("memref<512x512xbf16, strided<[1, 512]>>", Store::Streamed).is_some(), near_lines());
        // Kernels unpack to rows by whole lines, and what stays in the caches needs none.
        assert_eq!(of("memref<512x512xf32>", Store::Streamed), None);
        assert_eq!(of("SpyreTensorLayout((512, 512), torch.float32)", Store::Cached), None);
        // Kernels unpack to none of f64.
        assert_eq!(of("memref<512x512xf64, strided<[1, 512]>>", Store::Streamed), None);
    }

    /// A block of which a plan reads one element has no loop.
    #[test]
    fn one_element_of_a_block_is_unpacked_where_it_lies() {
        let tensor = Tensor { shape: vec![1], dtype: DType::F32 };
        let layout = |text: &str| -> Layout {
            text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap()
        };
        let options = Options::default().with_store(Store::Streamed);
        let (mx, row) = (layout("memref<1xmxfp8_e4m3>"), layout("memref<1xf32>"));
        let plan = Plan::compile_with(&mx, &row, &options, &builtin::ZEN4).unwrap();
        assert!(!plan.nests[0].schedule.compacted, "{plan}");
    }

    #[test]
    fn whole_numbers_that_may_not_fit_are_cast_where_they_lie() {
        let to = "ttnn(dtype=uint8, layout=TILE)";
        assert_eq!(blocks(DType::I32, "memref<512x512xi32>", to, Store::Streamed), None);
    }
}
