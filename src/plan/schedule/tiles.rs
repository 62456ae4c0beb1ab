//! Tiles of a block format that are packed: in rows of tiles, where a kernel reads them in place.

use super::blocks::{by_source_of, longer_row};
use crate::plan::conversion::Conversion;
use crate::plan::ir::{Gather, InPlace, LINE, Loop, Schedule};

/// Tiles are taken in rows, whether they are packed from where they lie or brought together first.
pub(super) fn schedule(loops: &[Loop], parts: &[Gather], conversion: Conversion<'_>) -> Schedule {
    let Conversion { src, dst, streams, tuning, .. } = conversion;
    let mut schedule = Schedule::new(loops);
    let cols = dst.codec.map_or(1, |c| c.tile().cols());
    schedule.in_place = if src.codec.is_none() { in_place(parts, cols) } else { None };
    let changes_unit = |i: usize| loops[i].step[3] != 0 || parts[0].moves[i][0] != 0;
    let reads = |i: usize| parts[0].moves[i];
    let near = src.block_bytes as isize;
    // What lies in rows is read as the tiles are written; other tiles as the source lies, so that its lines are read once.
    let rows = schedule.in_place.is_some_and(|tile| tile.cols == 1 || tile.src_col == near);
    if !rows {
        schedule.order = by_source_of(loops.len(), |i| (reads(i), loops[i].step[4]));
    }
    let gathered = schedule.in_place.is_none();
    // What is gathered may lie in any unit of the source.
    let suits = |&i: &usize| if gathered { loops[i].step[3] == 0 } else { !changes_unit(i) };
    let row = schedule.order.last().copied().filter(suits);
    let row = row.map(|row| longer_row(loops, row, dst.codec, tuning, suits));
    if let Some(at) = row.and_then(|row| schedule.order.iter().position(|&i| i == row)) {
        // Tiles of one row follow one another.
        let row = schedule.order.remove(at);
        schedule.order.push(row);
    }
    if let Some(row) = row {
        schedule.tiles = Some(row);
        schedule.blocks[row] = loops[row].n;
        // Whole lines, if the tiles of a row are a run of bytes.
        let block_bytes = dst.block_bytes as i64;
        if streams && rows && loops[row].step[4] == block_bytes {
            let whole = (1..=4).find(|n| n * block_bytes % LINE as i64 == 0).unwrap_or(1);
            schedule.segment = row;
            schedule.blocks[row] =
                loops[row].n.min(((tuning.packed as i64 / (whole * block_bytes)).max(1) * whole) as u64);
        }
    }
    schedule
}

/// The strides of a tile's elements in the source, if its valid elements are a corner of even rows and columns.
fn in_place(parts: &[Gather], tile_cols: usize) -> Option<InPlace> {
    let [Gather { slot: 0, loops, .. }] = parts else { return None };
    let mut tile = InPlace { rows: 1, cols: 1, src_row: 0, src_col: 0 };
    if loops.iter().any(|l| l.step[0] != 0 || l.step[2] != 0) {
        return None;
    }
    for l in loops {
        let (n, src, slots) = (l.n as usize, l.step[1] as isize, l.step[5]);
        if slots == tile_cols as i64 && tile.rows == 1 {
            (tile.rows, tile.src_row) = (n, src);
        } else if slots == 1 && n <= tile_cols && tile.cols == 1 {
            (tile.cols, tile.src_col) = (n, src);
        } else if slots == 1 && n % tile_cols == 0 && loops.len() == 1 {
            // Rows that follow one another in the source are one loop.
            tile = InPlace {
                rows: n / tile_cols,
                cols: tile_cols,
                src_row: src * tile_cols as isize,
                src_col: src,
            };
        } else {
            return None;
        }
    }
    Some(tile)
}
