//! How nests run: which loops a kernel gets, which are taken in blocks, and in which order.
//!
//! Memory decides the speed of a copy. An ordinary store to a line that is in no cache reads the line first; a
//! non-temporal store does not, and is twice as fast, if whole lines are written one soon after the other. And memory
//! likes its bytes in long runs. So the destination is made in *segments*, runs of bytes that follow one another, and
//! where the source runs across segments, blocks of segments are made together, so that the source too is read in
//! whole lines and long runs.
//!
//! - [`direct`]: elements that come in whole aligned stores (a row of a face, a stick) go from source to destination at
//!   once.
//! - [`lines`]: rows that a kernel transposes and stores line by line.
//! - [`compacted`]: conversions and transposes that are faster where the source lies in L1, as elements of the destination.
//! - [`assembled`]: all others (other transposes, conversions, ragged rows) are assembled in L1, a block at a time, and
//!   written from there; what later blocks read is fetched meanwhile.
//! - [`tiles`]: tiles are packed a row of tiles at a time.
//! - [`cached`](assembled::cached): what stays in the caches is not assembled.
//!
//! No choice made here can change a byte: the verifier proves that of the schedule of each plan.

mod assembled;
mod blocks;
mod compacted;
mod direct;
mod lines;
mod tiles;

use super::conversion::{Conversion, Op};
use super::ir::{LINE, Leaf, Loop, Nest, Schedule, ScheduledNest};
use blocks::stays_in_unit;

/// The least bytes of a block that is assembled.
const LEAST_BLOCK: u64 = 512;

/// Whether a plan transposes elements.
pub(super) fn transposes(nests: &[Nest], conversion: Conversion<'_>) -> bool {
    nests.iter().any(|nest| nest.leaf == Leaf::Element && assembled::transposes(&nest.loops, conversion))
}

/// Whether elements of a plan go from source to destination at once, where stores are non-temporal, inside of one unit: others
/// are a call for each piece.
pub(super) fn goes_directly(nests: &[Nest], conversion: Conversion<'_>) -> bool {
    let Conversion { src, op, .. } = conversion;
    let copies = matches!(op, Op::Copy(_));
    let direct =
        |loops: &[Loop]| copies && loops.iter().all(stays_in_unit) && direct::applies(loops, src, op);
    nests.iter().any(|nest| nest.leaf == Leaf::Element && direct(&nest.loops))
}

/// Whether a plan writes far apart what it reads as it lies.
pub(super) fn scatters(nests: &[Nest], conversion: Conversion<'_>) -> bool {
    nests.iter().any(|nest| nest.leaf == Leaf::Element && assembled::scatters(&nest.loops, conversion))
}

/// Whether a plan brings runs together that are no longer than a line, or unpacks tiles, and leaves parts of lines of the destination.
pub(super) fn leaves_parts(nests: &[Nest], conversion: Conversion<'_>) -> bool {
    let Conversion { src, op, .. } = conversion;
    let leaves = |loops: &[Loop]| {
        !direct::applies(loops, src, op)
            && !lines::applies(loops, conversion)
            && assembled::leaves_parts(loops, conversion)
    };
    nests.iter().any(|nest| nest.leaf == Leaf::Element && leaves(&nest.loops))
}

/// Chooses how each nest runs.
pub(super) fn schedule(nests: Vec<Nest>, conversion: Conversion<'_>) -> Vec<ScheduledNest> {
    let Conversion { src, dst, op, streams, .. } = conversion;
    let scheduled = |nest: Nest| {
        let Nest { at, mut loops, leaf, schedule: () } = nest;
        let schedule = match &leaf {
            Leaf::Fill => fill(&loops, dst.block_bytes),
            Leaf::Pack(parts) => tiles::schedule(&loops, parts, conversion),
            Leaf::Element if compacted::applies(&loops, conversion) => {
                compacted::schedule(&loops, conversion)
            }
            Leaf::Element
                if streams
                    && direct::applies(&loops, src, op)
                    && assembled::dealt(&loops, conversion).is_none()
                    && !assembled::reads_short_units(&loops, LINE - 1, conversion) =>
            {
                direct::schedule(&mut loops, conversion)
            }
            Leaf::Element if streams && lines::applies(&loops, conversion) => {
                lines::schedule(&loops, conversion)
            }
            Leaf::Element => {
                let (schedule, segment) = assembled::schedule(&loops, conversion);
                let scatters = || loops.iter().zip(&schedule.blocks).any(|(l, &n)| l.step[3] != 0 && n > 1);
                // Segments under one cache line gain nothing from assembly, and blocks of few lines cost more than their calls.
                let elements = schedule.blocks.iter().fold(1_u64, |count, &n| count.saturating_mul(n));
                let block = elements.saturating_mul(dst.block_bytes as u64);
                let gains = segment >= LINE as i64 && block >= LEAST_BLOCK;
                if schedule.compacted || scatters() || streams && gains {
                    schedule
                } else {
                    assembled::cached(&loops, conversion, schedule)
                }
            }
        };
        Nest { at, loops, leaf, schedule }
    };
    nests.into_iter().map(scheduled).collect()
}

/// Whether what a scheduled nest makes is stored past the caches: blocks that are assembled, copies, packed tiles, and elements of which
/// kernels make whole lines.
pub(super) fn is_streamed(nest: &ScheduledNest, conversion: Conversion<'_>) -> bool {
    let Conversion { src, dst, op, streams, .. } = conversion;
    let lines = || direct::applies(&nest.loops, src, op) || lines::applies(&nest.loops, conversion);
    streams
        && match &nest.leaf {
            Leaf::Fill => false,
            Leaf::Element => {
                nest.schedule.assembled || nest.schedule.compacted || matches!(op, Op::Copy(_)) || lines()
            }
            Leaf::Pack(_) => dst.block_bytes >= LINE,
        }
}

/// A fill is runs of bytes: the innermost loop is the run, the next one the rows of a call.
fn fill(loops: &[Loop], block_bytes: usize) -> Schedule {
    let mut schedule = Schedule::new(loops);
    let Some(last) = loops.len().checked_sub(1) else { return schedule };
    if stays_in_unit(&loops[last]) && loops[last].step[4] == block_bytes as i64 {
        schedule.cols = Some(last);
        schedule.rows = last.checked_sub(1).filter(|&r| stays_in_unit(&loops[r]));
    }
    for i in [schedule.rows, schedule.cols].into_iter().flatten() {
        schedule.blocks[i] = loops[i].n;
    }
    schedule
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{Descriptor, Placement, Tensor};
    use crate::plan::{Options, Plan, Store};
    use crate::tuning::{Tuning, builtin};
    use crate::{DType, Layout};

    fn plan(shape: &[u64], dtype: DType, from: &str, to: &str, store: Store) -> Plan {
        plan_with(shape, dtype, from, to, store, &builtin::COMMON)
    }

    fn plan_with(shape: &[u64], dtype: DType, from: &str, to: &str, store: Store, tuning: &Tuning) -> Plan {
        let tensor = Tensor { shape: shape.to_vec(), dtype };
        let layout = |text: &str| -> Layout {
            let descriptor: Descriptor = text.parse().unwrap();
            descriptor.layout(&tensor, &Placement::default()).unwrap()
        };
        let options = Options::default().with_store(store);
        Plan::compile_with(&layout(from), &layout(to), &options, tuning).unwrap()
    }

    #[test]
    fn a_copy_in_the_caches_is_one_call() {
        let plan =
            plan(&[6, 8], DType::F32, "memref<6x8xf32>", "memref<6x8xf32, strided<[8, 1]>>", Store::Cached);
        let nest = &plan.nests[0];
        assert_eq!(nest.loops.len(), 1);
        assert_eq!(nest.schedule.blocks, [48]);
        assert_eq!((nest.schedule.rows, nest.schedule.cols), (None, Some(0)));
        assert!(!nest.schedule.assembled);
    }

    #[test]
    fn rows_of_faces_go_directly_and_in_pairs_of_lines() {
        let tiles = "ttnn(dtype=bfloat16, layout=TILE)";
        let plan = plan(&[64, 4096], DType::Bf16, "memref<64x4096xbf16>", tiles, Store::Streamed);
        let nest = &plan.nests[0];
        // The innermost loop is a row of a face; the one around it makes 128 bytes of the destination.
        let run = nest.loops.last().unwrap();
        assert_eq!((run.n, run.step[1], run.step[4]), (16, 2, 2));
        assert!(!nest.schedule.assembled && nest.schedule.cols == Some(nest.loops.len() - 1));
    }

    #[test]
    fn lines_go_together_where_they_come_from_far_apart() {
        // The loop around a run: how often, and how far it steps in the source.
        let around = |dtype, from: &str, to: &str, tuning| {
            let plan = plan_with(&[64, 4096], dtype, from, to, Store::Streamed, tuning);
            let Nest { loops, schedule, .. } = &plan.nests[0];
            schedule.rows.map(|i| (loops[i].n, loops[i].step[1]))
        };
        let (f32_rows, f32_tiles) = ("memref<64x4096xf32>", "ttnn(dtype=float32, layout=TILE)");
        // Rows of a face are 64 bytes, faces 1 KiB, rows of the matrix 16 KiB.
        assert_eq!(around(DType::F32, f32_tiles, f32_rows, &builtin::COMMON), Some((2, 1024)));
        assert_eq!(around(DType::F32, f32_tiles, f32_rows, &builtin::ZEN5), Some((16, 64)));
        assert_eq!(around(DType::F32, f32_rows, f32_tiles, &builtin::COMMON), Some((2, 16 << 10)));
        assert_eq!(around(DType::F32, f32_rows, f32_tiles, &builtin::ZEN5), Some((4, 16 << 10)));
        // Two faces make a line of bf16.
        let (bf16_rows, bf16_tiles) = ("memref<64x4096xbf16>", "ttnn(dtype=bfloat16, layout=TILE)");
        assert_eq!(around(DType::Bf16, bf16_tiles, bf16_rows, &builtin::ZEN5), Some((2, 512)));
    }

    #[test]
    fn sticks_of_rows_go_together_as_many_as_divide_their_number() {
        let together = |cols: u64| {
            let (sticks, rows) = (
                format!("SpyreTensorLayout((1024, {cols}), torch.float16)"),
                format!("memref<1024x{cols}xf16>"),
            );
            let plan = plan_with(&[1024, cols], DType::F16, &sticks, &rows, Store::Streamed, &builtin::ZEN4);
            let Nest { loops, schedule, .. } = &plan.nests[0];
            // The loops inside of that over rows of the matrix.
            let rows = schedule.within.iter().position(|&i| loops[i].n == 1024).unwrap();
            schedule.within[rows + 1..].iter().map(|&i| loops[i].n).product::<u64>() / 64
        };
        // 8, 66, 172 and 67 sticks; 1024 bytes are 8 of them.
        assert_eq!([512, 4224, 11008, 4288].map(together), [8, 6, 4, 1]);
    }

    #[test]
    fn units_go_several_together() {
        let banks = |dtype: &str| {
            format!("ttnn(dtype={dtype}, layout=TILE, memory=INTERLEAVED, banks=12, alignment=64)")
        };
        let plan = |dtype, from: &str, to: &str| {
            plan_with(&[256, 1024], dtype, from, to, Store::Streamed, &builtin::ZEN4)
        };
        // Units of the source that one call takes: tiles that are unpacked, and tiles that are packed.
        for (from, to) in
            [("bfloat8_b", "memref<256x1024xf32>"), ("float32", "ttnn(dtype=bfloat4_b, layout=TILE)")]
        {
            let plan = plan(DType::F32, &banks(from), to);
            let Nest { loops, schedule, .. } = &plan.nests[0];
            assert!(
                schedule.tiles.is_some_and(|i| schedule.blocks[i] == loops[i].n && loops[i].n >= 32),
                "{plan}"
            );
        }
        // Units of the destination that a block has, 16 KiB of them: of what is transposed and of what is cast.
        let transposed = "memref<256x1024xf32, strided<[1, 256]>>";
        for (dtype, from) in [(DType::F32, transposed), (DType::U8, "memref<256x1024xui8>")] {
            let plan = plan(dtype, from, &banks("bfloat16"));
            let nest = &plan.nests[0];
            let units = nest.loops.iter().zip(&nest.schedule.blocks).filter(|(l, _)| l.step[3] != 0);
            let units: u64 = units.map(|(_, n)| n).product();
            let suits = nest.schedule.compacted && nest.converts_first();
            assert!(suits && units == 8 || !plan.conversion().near_lines, "{plan}");
        }
    }

    #[test]
    fn short_rows_fetch_the_next_ones() {
        let distance = |cols: u64, tuning| {
            let (rows, tiles) = (format!("memref<64x{cols}xbf16>"), "ttnn(dtype=bfloat16, layout=TILE)");
            let plan = plan_with(&[64, cols], DType::Bf16, &rows, tiles, Store::Streamed, tuning);
            plan.nests[0].schedule.prefetch_distance
        };
        // Lines are made of eight rows together, and with COMMON's numbers of four.
        assert_eq!([1024, 4096].map(|cols| distance(cols, &builtin::ZEN4)), [8 * 2048, 8 * 8192]);
        assert_eq!([1024, 4096].map(|cols| distance(cols, &builtin::COMMON)), [2 * 4 * 2048, 256]);
        // Of still shorter ones as many as are 16 KiB.
        assert_eq!(distance(256, &builtin::ZEN4), 4 * 8 * 512);
        // These do not stay in L2 until they are read.
        assert_eq!(distance(32768, &builtin::ZEN4), 4096);
    }

    #[test]
    fn rows_of_tiles_are_read_whole_however_short_they_are() {
        let scheduled = |cols: u64| {
            let (rows, tiles) = (format!("memref<64x{cols}xbf16>"), "ttnn(dtype=bfloat16, layout=TILE)");
            let plan = plan_with(&[64, cols], DType::Bf16, tiles, &rows, Store::Streamed, &builtin::ZEN4);
            let schedule = &plan.nests[0].schedule;
            (schedule.in_order, schedule.blocks.iter().product::<u64>())
        };
        // 128 KiB of wide ones, and of narrow ones a row of tiles, not some rows of elements, which are parts of lines there.
        assert_eq!([4096, 1024, 192].map(scheduled), [(true, 64 << 10), (true, 32 << 10), (true, 32 * 192)]);
    }

    #[test]
    fn strips_of_small_elements_need_rows_that_begin_with_lines() {
        let assembles = |rows: u64| {
            let (from, to) = (
                format!("memref<{rows}x4096xbf16>"),
                format!("memref<{rows}x4096xbf16, strided<[1, {rows}]>>"),
            );
            let plan = plan_with(&[rows, 4096], DType::Bf16, &from, &to, Store::Streamed, &builtin::ZEN5);
            plan.nests[0].schedule.assembled
        };
        // A row of 64 elements is two lines, which gain nothing by strips.
        assert_eq!([512, 509, 64].map(assembles), [false, true, true]);
    }

    #[test]
    fn by_way_of_panels_a_call_takes_all_rows_wherever_they_begin() {
        let blocks = |dtype: DType, rows: u64| {
            let name = dtype.mlir_name();
            let from = format!("memref<{rows}x4096x{name}>");
            let to = format!("memref<{rows}x4096x{name}, strided<[1, {rows}]>>");
            let plan = plan_with(&[rows, 4096], dtype, &from, &to, Store::Streamed, &builtin::ZEN3);
            let schedule = &plan.nests[0].schedule;
            (schedule.assembled, schedule.rows.map(|i| schedule.blocks[i]))
        };
        assert_eq!([512, 509].map(|rows| blocks(DType::Bf16, rows)), [(false, Some(4096)); 2]);
        assert_eq!([512, 509].map(|rows| blocks(DType::F32, rows).1), [Some(1024), Some(4096)]);
        // The table has none for elements of 8 bytes.
        assert_eq!(blocks(DType::F64, 509).1, Some(1024));
    }

    #[test]
    fn short_rows_by_way_of_panels_go_as_the_source_lies() {
        let stick = |order: &str| format!("SpyreTensorLayout((512, 256), torch.float16{order})");
        let restickified = |tuning| {
            let plan =
                plan_with(&[512, 256], DType::F16, &stick(""), &stick(", [1, 0]"), Store::Streamed, tuning);
            let Nest { loops, schedule, .. } = &plan.nests[0];
            let steps = schedule.order.iter().map(|&i| loops[i].step[1]).collect::<Vec<_>>();
            (schedule.assembled, steps, schedule.blocks.clone())
        };
        // Blocks of 64 x 64 lie 8 KiB apart; a call takes the eight of them that lie one behind the other.
        let (assembled, steps, blocks) = restickified(&builtin::ZEN4);
        assert!(!assembled && steps.is_sorted_by(|a, b| a > b), "{steps:?}");
        assert_eq!(blocks, [8, 1, 64, 64]);
        // Strips without panels gain nothing by rows of two lines.
        assert!(restickified(&builtin::ZEN5).0);
    }

    #[test]
    fn small_matrices_by_way_of_panels_go_several_in_a_call() {
        let transposed = |rows: u64, tuning| {
            let from = format!("memref<32x{rows}x64xf32>");
            let to = format!("memref<32x{rows}x64xf32, strided<[{}, 1, {rows}]>>", rows * 64);
            plan_with(&[32, rows, 64], DType::F32, &from, &to, Store::Streamed, tuning).nests[0]
                .schedule
                .clone()
        };
        assert_eq!(transposed(64, &builtin::ZEN4).blocks, [32, 64, 64]);
        // Without panels nothing of a later one is fetched. Short rows that begin anywhere in a line are assembled.
        assert_eq!(transposed(64, &builtin::ZEN5).blocks, [1, 64, 64]);
        assert_eq!(
            [63, 125, 509].map(|rows| transposed(rows, &builtin::ZEN3).assembled),
            [true, true, false]
        );
    }

    #[test]
    fn what_a_kernel_makes_whole_lines_of_is_not_assembled() {
        let rows_to = |dtype, to: &str| {
            let from = format!("memref<64x4096x{}>", DType::mlir_name(dtype));
            plan(&[64, 4096], dtype, &from, to, Store::Streamed).nests[0].schedule.clone()
        };
        // Sixteen rows of a face are a call's rows, of which a kernel takes eight together.
        let faces = rows_to(DType::F32, "ttnn(dtype=bfloat16, layout=TILE)");
        assert!(!faces.assembled && faces.rows.is_some_and(|i| faces.blocks[i] >= 8), "{faces:?}");
        let transposed = rows_to(DType::F32, "memref<64x4096xf32, strided<[1, 64]>>");
        assert!(!transposed.assembled);
        assert_eq!(
            (transposed.rows, transposed.cols, &*transposed.blocks),
            (Some(0), Some(1), &[1024, 64][..])
        );
        // Strips gain nothing for elements of two bytes, and a line by itself is no strip.
        assert!(rows_to(DType::Bf16, "memref<64x4096xbf16, strided<[1, 64]>>").assembled);
        let short = plan(
            &[16, 4096],
            DType::F32,
            "memref<16x4096xf32>",
            "memref<16x4096xf32, strided<[1, 16]>>",
            Store::Streamed,
        );
        assert!(short.nests[0].schedule.assembled);
        let unpacked = |to: &str, dtype| {
            let from = "ttnn(dtype=bfloat8_b, layout=TILE)";
            plan(&[64, 4096], dtype, from, to, Store::Streamed).nests[0].schedule.clone()
        };
        let rows = unpacked("memref<64x4096xf32>", DType::F32);
        assert!(!rows.assembled && rows.tiles.is_some_and(|i| rows.blocks[i] == 128), "{rows:?}");
        // Faces whose rows follow one another are lines too, and so are tiles of rows in sticks.
        for to in ["ttnn(dtype=bfloat16, layout=TILE)", "SpyreTensorLayout((64, 4096), torch.float16)"] {
            let whole = unpacked(to, DType::F16);
            assert!(!whole.assembled && whole.tiles.is_some(), "{whole:?}");
        }
        let across = "memref<64x4096xf32, strided<[1, 64]>>";
        assert!(unpacked(across, DType::F32).assembled);
        // Of tiles that lie in L1 rows are transposed to lines, some of one column together.
        let from = "ttnn(dtype=bfloat8_b, layout=TILE)";
        let plan = plan_with(&[64, 4096], DType::F32, from, across, Store::Streamed, &builtin::ZEN4);
        let schedule = &plan.nests[0].schedule;
        assert_eq!(schedule.assembled, !plan.conversion().stores_lines);
        assert!(schedule.assembled || schedule.tiles.is_some_and(|i| schedule.blocks[i] == 2), "{plan}");
    }

    #[test]
    fn a_transpose_is_assembled_line_by_line_of_its_source() {
        let to = "memref<512x64xbf16, strided<[1, 512]>>";
        let plan = plan(&[512, 64], DType::Bf16, "memref<512x64xbf16>", to, Store::Streamed);
        let schedule = &plan.nests[0].schedule;
        assert!(schedule.assembled);
        assert_eq!((schedule.segment, schedule.overlap), (1, 0));
        // 32 elements are a line of the source; 256 are 512 bytes of the destination.
        assert_eq!(schedule.blocks, [32, 256]);
        assert_eq!(schedule.packed, [512, 2]);
    }

    #[test]
    fn ragged_rows_of_a_transpose_overlap_by_a_line() {
        let to = "memref<601x64xbf16, strided<[1, 601]>>";
        let plan = plan(&[601, 64], DType::Bf16, "memref<601x64xbf16>", to, Store::Streamed);
        let schedule = &plan.nests[0].schedule;
        assert_eq!((schedule.overlap, schedule.blocks[1]), (32, 256 - 32));
    }

    #[test]
    fn pages_that_are_transposed_are_brought_together_first() {
        let to = "memref<512x64xbf16, strided<[1, 512]>>";
        let plan = plan(&[512, 64], DType::Bf16, PAGES, to, Store::Cached);
        let Schedule { compacted, assembled, blocks, rows, cols, .. } = &plan.nests[0].schedule;
        // A kernel gets a window of elements of several pages.
        assert!(*compacted && *assembled && blocks.iter().all(|&n| n > 1), "{plan}");
        assert_eq!((*rows, *cols), (Some(0), Some(1)));
    }

    #[test]
    fn half_lines_of_several_pages_are_brought_together_first() {
        // A row of a face of bf16 is half a line, and the next row lies in another page.
        let tiles = "ttnn(dtype=bfloat16, layout=TILE)";
        let plan = plan(&[64, 512], DType::Bf16, PAGES, tiles, Store::Streamed);
        let Schedule { compacted, assembled, .. } = plan.nests[0].schedule;
        assert!(compacted && assembled, "{plan}");
    }

    #[test]
    fn small_blocks_in_the_caches_go_unit_by_unit() {
        // A tile has 32 bytes of each page; a call makes all of one page, not those bytes of it.
        let tiles = "ttnn(dtype=bfloat16, layout=TILE)";
        let plan = plan(&[64, 512], DType::Bf16, tiles, PAGES, Store::Cached);
        let schedule = &plan.nests[0].schedule;
        assert!(!schedule.assembled, "{plan}");
        assert_eq!(schedule.blocks.iter().product::<u64>(), 512, "{plan}");
    }

    #[test]
    fn short_rows_of_tiles_are_packed_as_the_source_lies() {
        let schedule = |from: &str| {
            let to = "ttnn(dtype=bfloat8_b, layout=TILE)";
            plan(&[4096, 4096], DType::F32, from, to, Store::Streamed).nests[0].schedule.clone()
        };
        // Of panels of 64 columns two tiles lie side by side; the next ones below them follow in the source.
        let panels = schedule("([64, 4096, 64], [262144, 64, 1], [64, 4096, 1])");
        assert_eq!((&*panels.order, panels.tiles), (&[1, 0, 2][..], Some(2)));
        assert_eq!(panels.prefetch_distance, 2 * 8192);
        let rows = schedule("memref<4096x4096xf32>");
        assert_eq!((&*rows.order, rows.prefetch_distance), (&[0, 1][..], 3 * 128));
    }

    #[test]
    fn pages_that_a_transpose_makes_are_written_several_at_a_time() {
        let from = "memref<512x64xf32, strided<[1, 512]>>";
        for store in [Store::Cached, Store::Streamed] {
            let plan = plan(&[512, 64], DType::F32, from, PAGES, store);
            let Nest { loops, schedule, .. } = &plan.nests[0];
            // Each element of a line of the source belongs to another page.
            assert_eq!((loops[0].step[1], loops[0].step[3], loops[1].step[4]), (4, 1, 2), "{plan}");
            assert!(schedule.assembled && schedule.blocks[0] >= 16, "{plan}");
            assert_eq!((schedule.rows, schedule.cols), (Some(0), Some(1)));
        }
    }

    #[test]
    fn every_second_element_of_rows_is_transposed_in_blocks() {
        let (from, to) = ("memref<512x64xf32, strided<[128, 2]>>", "memref<512x64xf32, strided<[1, 512]>>");
        let plan = plan(&[512, 64], DType::F32, from, to, Store::Streamed);
        let Nest { loops, schedule, .. } = &plan.nests[0];
        assert_eq!((loops[0].step[1], loops[1].step[4]), (8, 4), "{plan}");
        // A line of the source has 8 of them, which are read one after another.
        assert!(schedule.assembled && schedule.blocks[0] >= 8 && schedule.cols == Some(0), "{plan}");
    }

    #[test]
    fn calls_have_many_small_tiles() {
        let (sticks, rows) = ("SpyreTensorLayout((64, 128), torch.float16)", "memref<64x128xmxfp8_e4m3>");
        let panels = "([2, 64, 64], [4096, 64, 1], [64, 128, 1])";
        let scheduled = |dtype: DType, from: &str, to: &str| {
            let plan = plan(&[64, 128], dtype, from, to, Store::Cached);
            let Nest { loops, schedule, .. } = &plan.nests[0];
            (loops.iter().map(|l| l.n).collect::<Vec<_>>(), schedule.clone())
        };
        // Two blocks are a row of a panel. There is room for 128 of them as f32.
        let (loops, packed) = scheduled(DType::F64, panels, rows);
        assert_eq!((&*loops, &*packed.blocks, packed.tiles), (&[64, 2, 2][..], &[32, 2, 2][..], None));
        assert!(packed.compacted);
        // A call that packs what it reads as it lies takes a block of each row.
        let (loops, packed) = scheduled(DType::F16, sticks, rows);
        assert_eq!((&*loops, &*packed.blocks, packed.tiles), (&[64, 2, 2][..], &[64, 1, 1][..], Some(0)));
        assert!(packed.in_place.is_some());
        // So does a call that unpacks.
        let (loops, unpacked) = scheduled(DType::F16, rows, sticks);
        assert_eq!(unpacked.tiles.map(|i| loops[i]), Some(64));
    }

    #[test]
    fn tiles_of_a_source_that_is_repeated_are_packed_once() {
        let to = "ttnn(dtype=bfloat8_b, layout=TILE)";
        let blocks = |strides: &str| {
            let from = format!("memref<512x1024xf32, strided<{strides}>>");
            let plan = plan(&[512, 1024], DType::F32, &from, to, Store::Cached);
            let Nest { loops, schedule, .. } = &plan.nests[0];
            assert_eq!(loops.iter().map(|l| l.n).collect::<Vec<_>>(), [16, 32], "{plan}");
            (schedule.in_place.is_some(), schedule.blocks.clone())
        };
        // There is room for four tiles of which the source is not the same.
        assert_eq!(blocks("[0, 1]"), (false, vec![16, 4]));
        assert_eq!(blocks("[1, 0]"), (false, vec![4, 32]));
        assert_eq!(blocks("[1024, 1]"), (true, vec![1, 32]));
    }

    #[test]
    fn transposes_to_rows_far_apart_are_streamed_sooner() {
        let streams = |to: &str| {
            let from = "memref<1024x512xbf16>";
            plan(&[1024, 512], DType::Bf16, from, to, Store::Auto).streams
        };
        let has = plan(&[1], DType::U8, "memref<1xui8>", "memref<1xui8>", Store::Auto).kernels;
        assert_eq!(streams("memref<1024x512xbf16, strided<[1, 1024]>>"), has.has_non_temporal_stores());
        assert!(!streams("memref<1024x512xbf16>") && !streams("ttnn(dtype=bfloat16, layout=TILE)"));
    }

    const PAGES: &str = "ttnn(dtype=bfloat16, layout=ROW_MAJOR, memory=INTERLEAVED, banks=12, alignment=64)";

    #[test]
    fn a_plan_says_of_each_nest_whether_it_is_streamed() {
        let (rows, tiles) = ("memref<1024x512xf32>", "ttnn(dtype=bfloat16, layout=TILE)");
        let across = "memref<1024x512xf32, strided<[1, 1024]>>";
        let packed = "ttnn(dtype=bfloat8_b, layout=TILE)";
        for (from, to) in [(rows, tiles), (rows, across), (tiles, rows), (rows, packed), (packed, rows)] {
            for (store, streams) in [(Store::Streamed, true), (Store::Cached, false)] {
                let plan = plan(&[1024, 512], DType::F32, from, to, store);
                let streams = streams && plan.kernels.has_non_temporal_stores();
                let stores = if streams { "non-temporal stores" } else { "cached stores" };
                assert!(plan.to_string().lines().all(|line| line.contains(stores)), "{plan}");
            }
        }
    }

    /// Whether the plan of a 64x128 matrix of bf16 is streamed with a tuning, and whether there are such stores here.
    fn streams(from: &str, to: &str, tuning: &Tuning) -> (bool, bool) {
        let plan = plan_with(&[64, 128], DType::Bf16, from, to, Store::Auto, tuning);
        (plan.streams, plan.kernels.has_non_temporal_stores())
    }

    #[test]
    fn rows_to_sticks_are_streamed_sooner() {
        let (rows, sticks) = ("memref<64x128xbf16>", "SpyreTensorLayout((64, 128), torch.float16)");
        let sooner = Tuning { scattered_from: 0, ..builtin::COMMON };
        let (streamed, can) = streams(rows, sticks, &sooner);
        assert_eq!(streamed, can);
        assert!(!streams(rows, sticks, &builtin::COMMON).0);
        // Rows of 256 bytes are near each other, tiles are written in order, and pages are other units.
        assert!(!streams(sticks, rows, &sooner).0);
        assert!(!streams("memref<64x128xf32>", "ttnn(dtype=bfloat16, layout=TILE)", &sooner).0);
        assert!(!streams(PAGES, sticks, &sooner).0);
    }

    #[test]
    fn what_leaves_parts_of_lines_is_not_streamed() {
        let streams = |from: &str, dtype: DType, cols: u64, store| {
            let rows = format!("memref<64x{cols}x{}>", dtype.mlir_name());
            let tuning = Tuning { stream_from: 0, ..builtin::ZEN4 };
            plan_with(&[64, cols], dtype, from, &rows, store, &tuning).streams
        };
        let (tiles, packed) = ("ttnn(dtype=bfloat16, layout=TILE)", "ttnn(dtype=bfloat8_b, layout=TILE)");
        for from in [tiles, packed] {
            assert!(!streams(from, DType::Bf16, 99, Store::Auto), "{from}");
            assert!(streams(from, DType::Bf16, 99, Store::Streamed), "{from}");
        }
        let can = plan(&[1], DType::U8, "memref<1xui8>", "memref<1xui8>", Store::Auto)
            .kernels
            .has_non_temporal_stores();
        // Rows that begin with lines, and long runs.
        assert_eq!(streams(tiles, DType::Bf16, 96, Store::Auto), can);
        assert_eq!(streams("memref<64x99xbf16, strided<[128, 1]>>", DType::Bf16, 99, Store::Auto), can);
    }

    #[test]
    fn what_goes_at_once_is_streamed_sooner() {
        let (rows, tiles) = ("memref<64x128xbf16>", "ttnn(dtype=bfloat16, layout=TILE)");
        let sooner = Tuning { direct_from: 0, ..builtin::COMMON };
        let (streamed, can) = streams(rows, tiles, &sooner);
        assert_eq!(streamed, can);
        assert!(!streams(rows, tiles, &builtin::COMMON).0);
        assert!(!streams("memref<64x128xf32>", tiles, &sooner).0);
        // Halves of a line from two pages each.
        assert!(!streams(PAGES, tiles, &sooner).0);
    }

    #[test]
    fn blocks_of_a_stick_are_not_assembled() {
        let assembled = |cols: u64| {
            let sticks = format!("SpyreTensorLayout((64, {cols}), torch.float16)");
            let plan = plan(&[64, cols], DType::Bf16, PAGES, &sticks, Store::Streamed);
            plan.nests.iter().any(|nest| nest.schedule.assembled)
        };
        assert!(!assembled(4096));
        // Of short pages a block reads all of some.
        assert!(assembled(2048));
    }

    /// How many iterations a block has, of all, of the loop that steps so far in the source.
    fn of_loop(plan: &Plan, step: i64) -> [u64; 2] {
        let nest = &plan.nests[0];
        let i = nest.loops.iter().position(|l| l.step[1] == step).unwrap();
        [nest.schedule.blocks[i], nest.loops[i].n]
    }

    #[test]
    fn short_rows_of_several_heads_are_read_whole() {
        // Rows of 32 heads side by side, each of four tiles of 128 bytes a row.
        let heads = "memref<1x32x64x128xf32, strided<[262144, 128, 4096, 1]>>";
        let tiles = "ttnn(dtype=bfloat16, layout=TILE)";
        let plan = plan_with(&[1, 32, 64, 128], DType::F32, heads, tiles, Store::Streamed, &builtin::ZEN4);
        assert_eq!([128, 512].map(|step| of_loop(&plan, step)), [[4; 2], [32; 2]], "{plan}");
    }

    #[test]
    fn blocks_of_transposed_sticks_have_runs_of_the_source() {
        let (transposed, sticks) = (
            "memref<32x8x128x1024xf16, strided<[1048576, 131072, 1, 128]>>",
            "SpyreTensorLayout((32, 8, 128, 1024), torch.float16)",
        );
        let plan =
            plan_with(&[32, 8, 128, 1024], DType::F16, transposed, sticks, Store::Streamed, &builtin::ZEN4);
        // All of a run, and not of another matrix; nothing is brought together where kernels make no lines of it.
        if plan.conversion().near_lines {
            assert_eq!([2, 2 << 20].map(|step| of_loop(&plan, step)), [[128; 2], [1, 32]], "{plan}");
        }
    }

    #[test]
    fn rows_of_few_elements_are_a_window() {
        let (images, tiles) = ("memref<64x32x3xf32>", "ttnn(dtype=bfloat16, layout=TILE)");
        let plan = plan(&[64, 32, 3], DType::F32, images, tiles, Store::Cached);
        let Nest { loops, schedule, .. } = &plan.nests[0];
        let of = |i: Option<usize>| i.map(|i| (loops[i].n, loops[i].step[1]));
        assert_eq!([of(schedule.rows), of(schedule.cols)], [Some((16, 12)), Some((3, 4))], "{plan}");
    }

    #[test]
    fn tiles_in_banks_are_made_some_at_a_time() {
        let banks = |dtype: &str| {
            format!("ttnn(dtype={dtype}, layout=TILE, memory=INTERLEAVED, banks=12, alignment=64)")
        };
        let most = |from: &str, to: &str, store| {
            let plan = plan(&[256, 4096], DType::F32, from, to, store);
            let Nest { loops, schedule, .. } = &plan.nests[0];
            loops
                .iter()
                .zip(&schedule.blocks)
                .filter(|(l, _)| l.step[3] != 0 || l.step[0] != 0)
                .map(|(_, &n)| n)
                .max()
        };
        let rows = "memref<256x4096xf32>";
        // 15 tiles of 1088 bytes have room, and half of 16 tiles of bf16.
        assert_eq!(most(rows, &banks("bfloat8_b"), Store::Streamed), Some(15));
        assert_eq!(most(rows, &banks("bfloat16"), Store::Streamed), Some(16));
        // Of what is brought together as f32 16 KiB are four tiles.
        assert_eq!(most("memref<256x4096xf64>", &banks("bfloat8_b"), Store::Streamed), Some(4));
        assert_eq!(most(rows, &banks("bfloat16"), Store::Cached), Some(1));
        assert_eq!(most(&banks("bfloat16"), rows, Store::Streamed), Some(4));
        assert_eq!(most(&banks("bfloat16"), rows, Store::Cached), Some(1));
    }

    #[test]
    fn short_pages_are_made_some_at_a_time() {
        let most = |cols: u64| {
            let rows = format!("memref<256x{cols}xf32>");
            let plan = plan(&[256, cols], DType::F32, &rows, PAGES, Store::Streamed);
            plan.nests[0].schedule.blocks[0]
        };
        assert_eq!([64, 1024, 4096].map(most), [128, 8, 1]);
    }

    #[test]
    fn faces_are_packed_in_place_where_their_rows_are() {
        let place_of = |shape: &[u64], dtype, from: &str, to: &str| {
            plan(shape, dtype, from, to, Store::Cached).nests[0].schedule.in_place
        };
        let place = |dtype, from: &str, to: &str| place_of(&[64, 128], dtype, from, to);
        let (f32_tiles, bfp8) = ("ttnn(dtype=float32, layout=TILE)", "ttnn(dtype=bfloat8_b, layout=TILE)");
        let tile = place(DType::F32, f32_tiles, bfp8).unwrap();
        assert_eq!((tile.rows, tile.cols, tile.src_row, tile.src_col), (32, 32, 64, 4));
        assert_eq!(tile.faces, Some([2048, 1024]));
        // A block of a row of MX blocks is a row of two faces, where a row has as many as a call should.
        let block = |cols: u64| {
            let to = format!("memref<64x{cols}xmxfp8_e4m3>");
            let of = |dtype, from: &str| place_of(&[64, cols], dtype, from, &to);
            [of(DType::F32, f32_tiles), of(DType::F32, bfp8)]
                .map(|place| place.map(|block| (block.rows, block.cols, block.src_col, block.faces)))
        };
        assert_eq!(block(2048), [Some((1, 32, 4, Some([0, 1024]))), Some((1, 32, 1, Some([0, 256])))]);
        assert_eq!(block(512), [None; 2]);
        // Blocks of one format are copied.
        let blocks = "memref<64x2048xmxfp8_e4m3>";
        assert_eq!(place_of(&[64, 2048], DType::F32, blocks, blocks), None);
        // No kernel packs other numbers as they lie.
        assert_eq!(place(DType::F8E4M3, "ttnn(dtype=fp8_e4m3, layout=TILE)", bfp8), None);
        let transposed = "ttnn(dtype=float32, layout=TILE, transpose_tile=True)";
        assert_eq!(place(DType::F32, transposed, bfp8), None);
    }

    #[test]
    fn whole_tiles_are_packed_in_place_and_in_rows() {
        let to = "ttnn(dtype=bfloat8_b, layout=TILE)";
        let plan = plan(&[64, 128], DType::F32, "memref<64x128xf32>", to, Store::Cached);
        let nest = &plan.nests[0];
        let tile = nest.schedule.in_place.unwrap();
        assert_eq!((tile.rows, tile.cols, tile.src_row, tile.src_col), (32, 32, 512, 4));
        assert_eq!(nest.schedule.tiles, Some(nest.loops.len() - 1));
    }

    #[test]
    fn a_fill_is_rows_of_runs() {
        let loops = [(3, 100), (5, 2)].map(|(n, bytes)| Loop { n, step: [0, 0, 0, 0, bytes, 0] });
        let schedule = fill(&loops, 2);
        assert_eq!((schedule.rows, schedule.cols), (Some(0), Some(1)));
        assert_eq!(schedule.blocks, [3, 5]);
        // Elements that do not follow one another are no run.
        let schedule = fill(&loops[..1], 2);
        assert_eq!((schedule.rows, schedule.cols, schedule.blocks), (None, None, vec![1]));
    }
}
