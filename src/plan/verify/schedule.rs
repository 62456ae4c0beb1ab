//! V1 of a schedule: every iteration runs once, and what a kernel call takes is what the nest says.
//!
//! [`crate::run`] goes through blocks in [`Schedule::order`] and hands each to kernels: a window of rows and columns,
//! tiles, and the other loops of the block around it. A loop of a block must be one that the call can take.

use kernels::Cast;

use crate::error::{Error, Result};
use crate::plan::conversion::{Conversion, Op};
use crate::plan::ir::{Gather, LINE, Leaf, Loop, MAX_BLOCK, MAX_SEGMENTS, Schedule, ScheduledNest};

/// Every iteration of a nest runs once, whatever part of it a chunk needs.
pub(super) fn runs_every_iteration(nest: &ScheduledNest, conversion: Conversion<'_>) -> Result<()> {
    let Schedule { order, within, blocks, packed, segment, .. } = &nest.schedule;
    let count = nest.loops.len();
    let lengths = [order.len(), within.len(), blocks.len(), packed.len()];
    let blocked = || nest.loops.iter().zip(blocks).filter(|&(_, &n)| n > 1).map(|(l, _)| l);
    let ok = lengths == [count; 4]
        && is_permutation(order)
        && is_permutation(within)
        && *segment <= count
        && nest.loops.iter().zip(blocks).all(|(l, n)| (1..=l.n).contains(n))
        && calls_are_apart(&nest.schedule, count)
        && (blocked().all(|l| l.step[3] == 0) || scatters(nest, conversion))
        && match &nest.leaf {
            Leaf::Fill => fills(nest, conversion),
            Leaf::Pack(parts) => {
                parts.iter().all(|p| p.moves.len() == count) && packs(nest, parts, conversion)
            }
            Leaf::Element => {
                windows(nest, conversion)
                    && (!nest.schedule.compacted || compacts(nest, conversion))
                    && (!nest.schedule.assembled || assembles(nest, conversion))
            }
        };
    if ok {
        Ok(())
    } else {
        Err(Error::unverified("V1", format!("a schedule that loses iterations: {nest:?}")))
    }
}

/// Whether each loop is named once: there are as many names as loops.
fn is_permutation(order: &[usize]) -> bool {
    (0..order.len()).all(|i| order.contains(&i))
}

/// Whether rows, columns and tiles are different loops of the nest.
fn calls_are_apart(schedule: &Schedule, count: usize) -> bool {
    let Schedule { rows, cols, tiles, .. } = *schedule;
    let apart = |a: Option<usize>, b: Option<usize>| a.is_none() || a != b;
    [rows, cols, tiles].into_iter().flatten().all(|i| i < count)
        && apart(rows, cols)
        && apart(rows, tiles)
        && apart(cols, tiles)
}

/// A fill's call takes a run of bytes, and rows of it.
fn fills(nest: &ScheduledNest, conversion: Conversion<'_>) -> bool {
    let Schedule { rows, cols, blocks, .. } = &nest.schedule;
    let taken = (0..nest.loops.len()).all(|i| blocks[i] == 1 || [*rows, *cols].contains(&Some(i)));
    taken && cols.is_none_or(|i| blocks[i] == 1 || nest.loops[i].step[4] == conversion.dst.block_bytes as i64)
}

/// A call packs tiles of one row, which it reads in place, in one unit of the source and in the slots of none of its tiles, or each in a unit
/// that is all of it, or copies; or tiles of any loops that are brought together, for which there is room.
fn packs(nest: &ScheduledNest, parts: &[Gather], conversion: Conversion<'_>) -> bool {
    let Schedule { tiles, blocks, in_place, compacted, .. } = &nest.schedule;
    if *compacted {
        let is_read = |i: usize| parts.iter().any(|part| part.moves[i] != [0; 3]);
        // What is repeated is there once.
        let together = (0..nest.loops.len())
            .filter(|&i| is_read(i))
            .try_fold(1_u64, |together, i| together.checked_mul(blocks[i]));
        let room = conversion.brought_together(parts).1 as u64;
        return in_place.is_none() && together.is_some_and(|together| together <= room);
    }
    let taken = (0..nest.loops.len()).all(|i| blocks[i] == 1 || *tiles == Some(i));
    let row = tiles.is_none_or(|i| {
        let Some([unit, byte, slot]) = parts.first().map(|part| part.moves[i]) else { return false };
        let Some(tile) = in_place else { return true };
        let goes_on = unit == 0 || byte == 0 && conversion.is_unit(tile);
        blocks[i] == 1 || goes_on && slot == 0
    });
    taken && row && (in_place.is_some() || conversion.maps_tiles(parts))
}

/// The loops of a window stay inside of one unit of the source, and of a block source inside of one tile; those from tile
/// to tile do just that, in one unit or from one to another. What no window takes is followed one by one.
fn windows(nest: &ScheduledNest, conversion: Conversion<'_>) -> bool {
    let Schedule { rows, cols, tiles, blocks, compacted, .. } = &nest.schedule;
    let block = conversion.src.codec.is_some();
    let blocked = |i: &Option<usize>| i.filter(|&i| blocks[i] > 1).map(|i| &nest.loops[i]);
    let window = |l: &Loop| (l.step[0] == 0 || *compacted) && (!block || l.step[1] == 0);
    let goes_on = |l: &Loop| if l.step[0] == 0 { l.step[1] > 0 } else { l.step[1] == 0 };
    let tile = |l: &Loop| block && goes_on(l) && l.step[2] == 0;
    [rows, cols].into_iter().filter_map(blocked).all(window) && blocked(tiles).is_none_or(tile)
}

/// Kernels write bytes of one unit, but for blocks that are assembled, and tiles that are read in place or brought together, and packed where
/// there is room for them: these are written unit by unit. The places of a cast's elements are looked up in one unit; of those that all fit,
/// as what is compacted does, none is.
fn scatters(nest: &ScheduledNest, conversion: Conversion<'_>) -> bool {
    let Schedule { assembled, compacted, overlap, in_place, ref blocks, .. } = nest.schedule;
    match &nest.leaf {
        Leaf::Element => {
            let casts = matches!(conversion.op, Op::Cast { .. });
            assembled && overlap == 0 && (!casts || compacted && nest.converts_first())
        }
        Leaf::Pack(parts) => {
            // None is put in several places.
            let is_read = |i: usize| parts.iter().any(|part| part.moves[i] != [0; 3]);
            let once = (0..blocks.len()).all(|i| blocks[i] == 1 || is_read(i));
            let packed =
                blocks.iter().try_fold(conversion.dst.block_bytes as u64, |bytes, &n| bytes.checked_mul(n));
            (in_place.is_some() || compacted && once) && packed.is_some_and(|bytes| bytes <= MAX_BLOCK as u64)
        }
        Leaf::Fill => false,
    }
}

/// What is compacted has room, with what a block overlaps; each element is an element of the source, copied or converted, and fits. Of
/// tiles of a block format there are all elements.
fn compacts(nest: &ScheduledNest, conversion: Conversion<'_>) -> bool {
    let Schedule { blocks, segment, overlap, assembled, .. } = &nest.schedule;
    let size = if nest.converts_first() { conversion.dst.block_bytes } else { conversion.op.source_size() };
    let size = conversion.src.codec.map_or(size, |codec| size * codec.tile().elements());
    let of_slots = |l: &Loop| l.step[2] != 0 && conversion.src.codec.is_some();
    // What is repeated is there once.
    let is_read = |&(i, _): &(usize, &u64)| nest.loops[i].src() != [0; 3] && !of_slots(&nest.loops[i]);
    let elements = blocks.iter().enumerate().filter(is_read).try_fold(1_u64, |elements, (i, &n)| {
        let overlap = if i == *segment { *overlap } else { 0 };
        elements.checked_mul(n.checked_add(overlap)?)
    });
    let bytes = elements.and_then(|elements| elements.checked_mul(size as u64));
    // A loop goes from tile to tile, or inside of one.
    let is_either = |l: &Loop| !of_slots(l) || l.step[..2] == [0; 2];
    let unpacks = conversion.src.codec.is_none() || !assembled && nest.loops.iter().all(is_either);
    unpacks
        && !matches!(conversion.op, Op::Cast { cast: Cast::Integer(..), .. })
        && bytes.is_some_and(|bytes| bytes <= MAX_BLOCK as u64)
}

/// What is assembled fills segments: runs of the destination that lie apart in the scratch, and fit.
fn assembles(nest: &ScheduledNest, conversion: Conversion<'_>) -> bool {
    let Schedule { blocks, packed, segment, overlap, .. } = &nest.schedule;
    let (loops, block_bytes) = (&nest.loops, conversion.dst.block_bytes as i64);
    // The loops of a segment follow one another in the destination; all but the outermost are whole.
    let mut extent = block_bytes;
    for i in (*segment..loops.len()).rev() {
        let whole = blocks[i] == loops[i].n || i == *segment;
        if !whole || loops[i].step[3] != 0 || loops[i].step[4] != extent || packed[i] != extent {
            return false;
        }
        let Some(next) = extent.checked_mul(blocks[i] as i64) else { return false };
        extent = next;
    }
    let single = *segment + 1 == loops.len();
    let outside = || (0..*segment).filter(|&i| blocks[i] > 1);
    let held = |l: &Loop| l.step[0] == 0 && l.step[1] == block_bytes;
    if matches!(conversion.op, Op::Copy(_)) && single && held(&loops[*segment]) {
        // A segment that the source holds as it is goes from there, one by one.
        return outside().next().is_none();
    }
    if *overlap > 0 {
        // Segments end at most a line less a byte behind their own end, and what a block leaves the next one takes.
        let bytes = i64::try_from(*overlap).ok().and_then(|overlap| overlap.checked_mul(block_bytes));
        let widened = bytes.filter(|&bytes| bytes >= LINE as i64).and_then(|bytes| bytes.checked_add(extent));
        let Some(widened) = widened.filter(|_| single) else { return false };
        extent = widened;
    }
    lie_apart(outside().map(|i| (blocks[i], packed[i])).collect(), extent)
}

/// Whether segments of `extent` bytes at these steps neither meet nor pass the end of the scratch.
fn lie_apart(mut steps: Vec<(u64, i64)>, mut extent: i64) -> bool {
    steps.sort_by_key(|&(_, step)| step);
    let mut segments = 1_u64;
    for (n, step) in steps {
        let span = (n as i64 - 1).checked_mul(step);
        let Some(next) = span.filter(|_| step >= extent).and_then(|span| span.checked_add(extent)) else {
            return false;
        };
        extent = next;
        segments = segments.saturating_mul(n);
    }
    extent <= MAX_BLOCK as i64 && segments <= MAX_SEGMENTS as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::plan::ir::InPlace;
    use crate::{Descriptor, Options, Request};

    const TILES: &str = "ttnn(dtype=bfloat8_b, layout=TILE, tile=(2, 16))";
    const ROWS: &str = "memref<2x16xf32>";

    fn plan(from: &str, to: &str) -> Plan {
        let tensor = [from, to].map(|text| text.parse::<Descriptor>().unwrap().tensor());
        let dtype = tensor.into_iter().flatten().next().unwrap().dtype;
        let request = Request::new(&[2, 16], dtype, from, to);
        request.with_options(Options::default().with_saturate(true)).compile().unwrap()
    }

    /// Elements that are copied.
    fn copied() -> Plan {
        plan(ROWS, "memref<2x16xf32, strided<[1, 2]>>")
    }

    /// Loops, each of so many iterations and two steps of unit, bytes and slot, with a schedule that is changed.
    fn nest(
        loops: &[(u64, [i64; 3], [i64; 3])],
        leaf: Leaf,
        change: impl FnOnce(&mut Schedule),
    ) -> ScheduledNest {
        let step = |from: [i64; 3], to: [i64; 3]| [from[0], from[1], from[2], to[0], to[1], to[2]];
        let loops: Vec<Loop> = loops.iter().map(|&(n, from, to)| Loop { n, step: step(from, to) }).collect();
        let mut schedule = Schedule::new(&loops);
        change(&mut schedule);
        ScheduledNest { at: [0; 6], loops, leaf, schedule }
    }

    fn runs(plan: &Plan, nest: &ScheduledNest) -> bool {
        runs_every_iteration(nest, plan.conversion()).is_ok()
    }

    #[test]
    fn loops_are_named_once_and_blocks_fit() {
        let plan = copied();
        let of = |change: &dyn Fn(&mut Schedule)| {
            runs(&plan, &nest(&[(3, [0; 3], [0, 64, 0]), (2, [0; 3], [0, 4, 0])], Leaf::Fill, change))
        };
        assert!(of(&|_| {}));
        assert!(of(&|s| s.order = vec![1, 0]) && of(&|s| s.within = vec![1, 0]));
        for wrong in [vec![0, 0], vec![1, 1], vec![0, 2], vec![0], vec![0, 1, 1]] {
            assert!(!of(&|s| s.order = wrong.clone()) && !of(&|s| s.within = wrong.clone()), "{wrong:?}");
        }
        assert!(of(&|s| s.segment = 2) && !of(&|s| s.segment = 3));
        assert!(!of(&|s| s.packed = vec![4]) && !of(&|s| s.blocks = vec![1]));
        assert!(of(&|s| (s.rows, s.blocks) = (Some(0), vec![3, 1])));
        for wrong in [vec![0, 1], vec![4, 1]] {
            assert!(!of(&|s| (s.rows, s.blocks) = (Some(0), wrong.clone())), "{wrong:?}");
        }
        assert!(of(&|s| (s.rows, s.cols, s.tiles) = (Some(0), Some(1), None)) && !of(&|s| s.rows = Some(2)));
        for (rows, cols, tiles) in [(0, 0, 1), (0, 1, 0), (1, 0, 0)] {
            assert!(!of(&|s| (s.rows, s.cols, s.tiles) = (Some(rows), Some(cols), Some(tiles))));
        }
    }

    #[test]
    fn a_fill_takes_a_run_and_rows_of_it() {
        let plan = copied();
        let of = |rows, cols, blocks: [u64; 2]| {
            runs(
                &plan,
                &nest(&[(3, [0; 3], [0, 64, 0]), (16, [0; 3], [0, 4, 0])], Leaf::Fill, |s| {
                    (s.rows, s.cols, s.blocks) = (rows, cols, blocks.to_vec());
                }),
            )
        };
        assert!(of(Some(0), Some(1), [3, 16]) && of(None, Some(1), [1, 16]) && of(Some(0), None, [3, 1]));
        assert!(!of(None, Some(1), [3, 16]) && !of(Some(0), None, [3, 16]));
        // Columns that are no run.
        assert!(!of(Some(1), Some(0), [3, 16]) && of(Some(1), Some(0), [1, 16]));
    }

    #[test]
    fn tiles_that_are_brought_together_have_room() {
        let plan = plan(ROWS, TILES);
        let part = |moves: [i64; 2]| {
            let moves = moves.map(|byte| [0, byte, 0]).to_vec();
            Gather { src: [0; 3], moves, slot: 0, loops: vec![Loop { n: 32, step: [0, 4, 0, 0, 0, 1] }] }
        };
        let of = |parts: Vec<Gather>, blocks: [u64; 2]| {
            let loops = [(1 << 20, [0; 3], [0, 1 << 20, 0]), (1 << 10, [0; 3], [0, 34, 0])];
            let nest = nest(&loops, Leaf::Pack(parts), |s| {
                (s.compacted, s.blocks) = (true, blocks.to_vec());
            });
            runs(&plan, &nest)
        };
        // 16 KiB are 128 tiles of 32 elements of 4 bytes.
        let moves = [4096, 128];
        assert!(of(vec![part(moves)], [8, 16]) && of(vec![part(moves)], [1, 128]));
        assert!(!of(vec![part(moves)], [8, 17]) && !of(vec![part(moves)], [1 << 20, 1 << 10]));
        // What is repeated takes none, unless another part of the tile moves.
        assert!(of(vec![part([0, 128])], [1 << 20, 128]));
        assert!(!of(vec![part([0, 128]), part(moves)], [1 << 20, 128]));
    }

    #[test]
    fn tiles_of_one_row_are_packed_in_one_call() {
        let plan = plan(ROWS, TILES);
        let block = plan.dst.block_bytes as i64;
        let place = InPlace { rows: 2, cols: 16, src_row: 64, src_col: 4, faces: None };
        // How the part moves from tile to tile, how far tiles lie apart, and what the schedule is.
        let of = |moves: &[[i64; 3]], apart, change: &dyn Fn(&mut Schedule)| {
            let part = Gather { src: [0; 3], moves: moves.to_vec(), slot: 0, loops: vec![] };
            let nest = nest(&[(4, [0; 3], [0, apart, 0])], Leaf::Pack(vec![part]), |s| {
                (s.tiles, s.blocks, s.in_place) = (Some(0), vec![4], Some(place));
                change(s);
            });
            runs_every_iteration(&nest, plan.conversion()).is_ok()
        };
        let (along, unit, slot) = ([[0, 64, 0]], [[1, 0, 0]], [[0, 0, 1]]);
        assert!(of(&along, block, &|_| {}));
        // In place they lie in one unit, or are all of one each, and in no slots; what is gathered may lie anywhere.
        assert!(of(&unit, block, &|_| {}) && !of(&[[1, 64, 0]], block, &|_| {}));
        let half = Some(InPlace { rows: 1, ..place });
        for elsewhere in [unit, slot] {
            assert!(!of(&elsewhere, block, &|s| s.in_place = half), "{elsewhere:?}");
            assert!(of(&elsewhere, block, &|s| (s.compacted, s.in_place) = (true, None)));
            assert!(of(&elsewhere, block, &|s| s.blocks = vec![1]));
        }
        // What neither lies in place nor is copied is brought together.
        assert!(!of(&along, block, &|s| s.in_place = None) && !of(&along, block, &|s| s.compacted = true));
        // Tiles may lie apart.
        assert!(of(&along, 2 * block, &|_| {}));
        // Each part moves with each loop, and no other loop is taken.
        assert!(!of(&[], block, &|_| {}) && !of(&[along[0], along[0]], block, &|_| {}));
        assert!(!of(&along, block, &|s| s.tiles = None));
        assert!(of(&along, block, &|s| (s.tiles, s.blocks) = (None, vec![1])));
        let none = nest(&[(4, [0; 3], [0, block, 0])], Leaf::Pack(vec![]), |s| s.tiles = Some(0));
        assert!(!runs(&plan, &none));
    }

    #[test]
    fn windows_stay_in_one_unit_and_one_tile() {
        let window = |plan: &Plan, from, block, change: &dyn Fn(&mut Schedule)| {
            let nest = nest(&[(4, from, [0, 4, 0])], Leaf::Element, |s| {
                (s.rows, s.blocks) = (Some(0), vec![block]);
                change(s);
            });
            runs(plan, &nest)
        };
        let (plain, tiles) = (copied(), plan(TILES, ROWS));
        let (along, unit, slot) = ([0, 64, 0], [1, 0, 0], [0, 0, 1]);
        let as_columns = |s: &mut Schedule| (s.rows, s.cols) = (None, Some(0));
        let as_rows = |_: &mut Schedule| {};
        for change in [&as_rows as &dyn Fn(&mut Schedule), &as_columns] {
            assert!(window(&plain, along, 4, change) && !window(&plain, unit, 4, change));
            assert!(window(&tiles, slot, 4, change) && !window(&tiles, along, 4, change));
            assert!(window(&plain, unit, 1, change) && window(&tiles, along, 1, change));
        }
        assert!(window(&plain, unit, 4, &|s| s.compacted = true));
        // From tile to tile.
        let from_tile_to_tile = |s: &mut Schedule| (s.rows, s.tiles) = (None, Some(0));
        assert!(
            window(&tiles, along, 4, &from_tile_to_tile) && !window(&plain, along, 4, &from_tile_to_tile)
        );
        for wrong in [[1, 64, 0], [0, 64, 1], [0, 0, 0], [0, -64, 0]] {
            assert!(!window(&tiles, wrong, 4, &from_tile_to_tile), "{wrong:?}");
            assert!(window(&tiles, wrong, 1, &from_tile_to_tile), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_compacted_has_room() {
        let compacted = |blocks: [u64; 2], overlap| {
            let loops = [(1 << 40, [1, 0, 0], [0, 4, 0]), (1 << 40, [0, 64, 0], [0, 8, 0])];
            nest(&loops, Leaf::Element, |s| {
                (s.rows, s.cols, s.blocks) = (Some(0), Some(1), blocks.to_vec());
                (s.compacted, s.segment, s.overlap) = (true, 1, overlap);
            })
        };
        let fits = |plan: &Plan, blocks, overlap| runs(plan, &compacted(blocks, overlap));
        let plan_of = plan;
        let (plan, half) = (copied(), MAX_BLOCK as u64 / 8);
        assert!(fits(&plan, [2, half], 0) && !fits(&plan, [2, half + 1], 0));
        assert!(fits(&plan, [2, half - 16], 16) && !fits(&plan, [2, half - 15], 16));
        assert!(!fits(&plan, [1 << 32, 1 << 32], 0) && !fits(&plan, [2, 1], u64::MAX));
        let converted = plan_of(ROWS, "memref<2x16xbf16>");
        // What is copied from there was converted before, what is assembled was not.
        assert!(fits(&converted, [2, 2 * half], 0) && !fits(&converted, [2, 2 * half + 1], 0));
        let assembled = |blocks| {
            let mut nest = compacted(blocks, 0);
            nest.schedule.assembled = true;
            compacts(&nest, converted.conversion())
        };
        assert!(assembled([2, half]) && !assembled([2, half + 1]));
        assert!(!fits(&plan_of("memref<2x16xi32>", "memref<2x16xi8>"), [2, 2], 0), "a cast");
        assert!(!fits(&plan_of(TILES, ROWS), [2, 2], 0), "tiles");
    }

    #[test]
    fn tiles_that_are_unpacked_together_have_room_for_all_elements() {
        let plan = plan("memref<2x16xmxfp8_e4m3>", ROWS);
        let of = |blocks: [u64; 2], from: [i64; 3]| {
            let loops = [(1 << 40, [0, 33, 0], [0, 128, 0]), (32, from, [0, 4, 0])];
            let nest = nest(&loops, Leaf::Element, |s| {
                (s.rows, s.cols, s.blocks) = (Some(0), Some(1), blocks.to_vec());
                (s.compacted, s.segment) = (true, 1);
            });
            compacts(&nest, plan.conversion())
        };
        let (slots, tiles) = ([0, 0, 1], MAX_BLOCK as u64 / 128);
        // Whatever a block has of a tile.
        for of_each in [1, 8, 32] {
            assert!(of([tiles, of_each], slots) && !of([tiles + 1, of_each], slots), "{of_each}");
        }
        assert!(!of([2, 2], [0, 33, 1]), "from tile to tile and inside of them");
    }

    /// Rows of 32 elements, assembled from another order.
    fn assembled(plan: &Plan, from: [i64; 3], to: [i64; 3], change: impl FnOnce(&mut Schedule)) -> bool {
        let nest = nest(&[(8, [0, 4, 0], to), (32, from, [0, 4, 0])], Leaf::Element, |s| {
            (s.rows, s.cols, s.assembled, s.segment) = (Some(0), Some(1), true, 1);
            (s.blocks, s.packed) = (vec![4, 32], vec![128, 4]);
            change(s);
        });
        runs(plan, &nest)
    }

    #[test]
    fn what_is_assembled_lies_apart_and_fills_segments() {
        let plan = copied();
        let of = |change: &dyn Fn(&mut Schedule)| assembled(&plan, [0, 400, 0], [0, 4096, 0], change);
        assert!(of(&|_| {}) && of(&|s| s.packed[0] = 129) && !of(&|s| s.packed[0] = 127));
        // A segment that the source holds goes from there.
        assert!(!assembled(&plan, [0, 4, 0], [0, 4096, 0], |_| {}));
        assert!(assembled(&plan, [0, 4, 0], [0, 4096, 0], |s| s.blocks[0] = 1));
        // The steps of a segment are those of the destination, and whole but for the outermost.
        assert!(of(&|s| s.blocks[1] = 16) && !of(&|s| s.packed[1] = 8));
        let run = |change: &dyn Fn(&mut Schedule)| assembled(&plan, [0, 400, 0], [0, 128, 0], change);
        assert!(run(&|s| s.segment = 0) && run(&|s| (s.segment, s.blocks[0]) = (0, 2)));
        assert!(
            !run(&|s| (s.segment, s.blocks[1]) = (0, 16)) && !run(&|s| (s.segment, s.packed[0]) = (0, 129))
        );
        assert!(!of(&|s| s.segment = 0), "rows that do not follow one another");
        let halves = |s: &mut Schedule| (s.segment, s.blocks, s.packed) = (0, vec![4, 16], vec![64, 4]);
        assert!(!assembled(&plan, [0, 400, 0], [0, 64, 0], halves), "half of each row");
        let units = nest(&[(32, [0, 400, 0], [1, 4, 0])], Leaf::Element, |s| {
            (s.rows, s.assembled, s.segment, s.blocks) = (Some(0), true, 0, vec![32]);
        });
        assert!(!runs(&plan, &units), "a segment from unit to unit");
        // What overlaps is a line at the least, of one loop, and has room.
        let overlap = |overlap, packed| move |s: &mut Schedule| (s.overlap, s.packed[0]) = (overlap, packed);
        assert!(of(&overlap(16, 192)) && !of(&overlap(16, 191)) && !of(&overlap(15, 4096)));
        assert!(!of(&overlap(u64::MAX, 4096)) && !of(&overlap(1 << 60, 4096)));
        assert!(!run(&|s| (s.segment, s.overlap) = (0, 16)));
    }

    #[test]
    fn only_what_is_assembled_goes_from_unit_to_unit() {
        let (plan_of, plan) = (plan, copied());
        let units = [1, 0, 0];
        assert!(assembled(&plan, [0, 400, 0], units, |_| {}));
        assert!(!assembled(&plan, [0, 400, 0], units, |s| s.assembled = false));
        assert!(assembled(&plan, [0, 400, 0], units, |s| (s.assembled, s.blocks[0]) = (false, 1)));
        assert!(!assembled(&plan, [0, 400, 0], units, |s| (s.overlap, s.packed[0]) = (16, 192)));
        let cast = plan_of("memref<2x16xi32>", "memref<2x16xf32>");
        assert!(assembled(&cast, [0, 400, 0], [0, 4096, 0], |_| {}));
        assert!(!assembled(&cast, [0, 400, 0], units, |_| {}), "a cast");
        let fill = nest(&[(4, [0; 3], units)], Leaf::Fill, |s| (s.rows, s.blocks) = (Some(0), vec![4]));
        assert!(!runs(&plan, &fill), "a fill");
    }

    #[test]
    fn segments_neither_meet_nor_pass_the_end_of_the_scratch() {
        let (most, block) = (MAX_SEGMENTS as u64, MAX_BLOCK as i64);
        assert!(lie_apart(vec![(4, 100), (3, 400)], 100) && lie_apart(vec![(3, 400), (4, 100)], 100));
        assert!(!lie_apart(vec![(4, 99)], 100) && !lie_apart(vec![(4, 100), (3, 399)], 100));
        assert!(lie_apart(vec![], block) && !lie_apart(vec![], block + 1));
        assert!(lie_apart(vec![(2, block - 64)], 64) && !lie_apart(vec![(2, block - 63)], 64));
        assert!(lie_apart(vec![(most, 8)], 8) && !lie_apart(vec![(most + 1, 8)], 8));
        assert!(!lie_apart(vec![(3, i64::MAX)], 8) && !lie_apart(vec![(2, i64::MAX)], 8));
    }
}
