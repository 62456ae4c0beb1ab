//! V1 of a schedule: every iteration runs once, and what a kernel call takes is what the nest says.
//!
//! [`crate::run`] goes through blocks in [`Schedule::order`] and hands each to kernels: a window of rows and columns,
//! tiles, and the other loops of the block around it. A loop of a block must be one that the call can take.

use crate::error::{Error, Result};
use crate::plan::conversion::{Conversion, Op};
use crate::plan::ir::{LINE, Leaf, Loop, MAX_BLOCK, MAX_SEGMENTS, Schedule, ScheduledNest};

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
            Leaf::Pack(parts) => packs(nest, parts.iter().all(|p| p.moves.len() == count), conversion),
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

/// Whether each loop is named once.
fn is_permutation(order: &[usize]) -> bool {
    let seen = order.iter().fold(0_u64, |seen, &i| seen | 1_u64.checked_shl(i as u32).unwrap_or(0));
    seen.count_ones() as usize == order.len() && order.iter().all(|&i| i < order.len())
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

/// A call packs tiles of one row. Where it reads them in place they lie in one unit of the source, and in the slots of none
/// of its tiles; what is gathered is found tile by tile, whichever loops go there.
fn packs(nest: &ScheduledNest, moves: bool, conversion: Conversion<'_>) -> bool {
    let Leaf::Pack(parts) = &nest.leaf else { return false };
    let Schedule { tiles, blocks, segment, in_place, .. } = &nest.schedule;
    let taken = (0..nest.loops.len()).all(|i| blocks[i] == 1 || *tiles == Some(i));
    let row = moves
        && tiles.is_none_or(|i| {
            let Some([unit, _, slot]) = parts.first().map(|part| part.moves[i]) else { return false };
            let run = nest.loops[i].step[4] == conversion.dst.block_bytes as i64;
            // Tiles that are put together first must be a run.
            let together = conversion.streams && *segment <= i;
            blocks[i] == 1 || in_place.is_none() || (unit == 0 && slot == 0 && (run || !together))
        });
    taken && row
}

/// The loops of a window stay inside of one unit of the source, and of a block source inside of one tile; those from tile
/// to tile do just that. What no window takes is followed one by one.
fn windows(nest: &ScheduledNest, conversion: Conversion<'_>) -> bool {
    let Schedule { rows, cols, tiles, blocks, compacted, .. } = &nest.schedule;
    let block = conversion.src.codec.is_some();
    let blocked = |i: &Option<usize>| i.filter(|&i| blocks[i] > 1).map(|i| &nest.loops[i]);
    let window = |l: &Loop| (l.step[0] == 0 || *compacted) && (!block || l.step[1] == 0);
    let tile = |l: &Loop| block && l.step[0] == 0 && l.step[1] > 0 && l.step[2] == 0;
    [rows, cols].into_iter().filter_map(blocked).all(window) && blocked(tiles).is_none_or(tile)
}

/// Kernels write bytes of one unit, but for blocks that are assembled: these are written unit by unit. The places of a cast's
/// elements are looked up in one unit.
fn scatters(nest: &ScheduledNest, conversion: Conversion<'_>) -> bool {
    let Schedule { assembled, overlap, .. } = nest.schedule;
    assembled && overlap == 0 && nest.leaf == Leaf::Element && !matches!(conversion.op, Op::Cast { .. })
}

/// What is compacted has room, with what a block overlaps; each element is an element of the source, copied or converted.
fn compacts(nest: &ScheduledNest, conversion: Conversion<'_>) -> bool {
    let Schedule { blocks, segment, overlap, .. } = &nest.schedule;
    let elements = blocks.iter().enumerate().try_fold(1_u64, |elements, (i, &n)| {
        let overlap = if i == *segment { *overlap } else { 0 };
        elements.checked_mul(n.checked_add(overlap)?)
    });
    let bytes = elements.and_then(|elements| elements.checked_mul(conversion.op.source_size() as u64));
    conversion.src.codec.is_none()
        && matches!(conversion.op, Op::Copy(_) | Op::Convert(..))
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
