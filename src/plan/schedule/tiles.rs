//! Tiles of a block format that are packed: in rows of tiles, where a kernel reads them in place.

use kernels::{Number, TileShape};

use super::blocks::{by_source_of, longer_row};
use crate::layout::axis::Addr;
use crate::plan::conversion::{Conversion, Op};
use crate::plan::ir::{Gather, InPlace, Loop, Schedule};

/// Tiles are taken in rows, whether they are packed from where they lie or brought together first.
pub(super) fn schedule(loops: &[Loop], parts: &[Gather], conversion: Conversion<'_>) -> Schedule {
    let Conversion { src, dst, op, tuning, .. } = conversion;
    let mut schedule = Schedule::new(loops);
    let near = src.block_bytes as isize;
    // Faces are packed from where they lie if a kernel takes their rows as they are, else brought together, as are rows of blocks.
    let rows_of_faces = |tile: &InPlace| {
        tile.faces.is_none()
            || tile.src_col == near
                && !dst.codec.is_some_and(|codec| codec.options().compact)
                && matches!(op, Op::Convert(Number::F32 | Number::Bf16 | Number::F16, _))
    };
    schedule.in_place = match dst.codec {
        Some(codec) if src.codec.is_none() => in_place(parts, codec.tile()).filter(rows_of_faces),
        _ => None,
    };
    let changes_unit = |i: usize| loops[i].step[3] != 0 || parts[0].moves[i][0] != 0;
    let reads = |i: usize| parts[0].moves[i];
    // What lies in rows is read as the tiles are written; other tiles, and rows so short that a run of the source is those of
    // several rows of tiles (sticks, panels), as the source lies, so that its lines are read once.
    let rows = schedule.in_place.is_some_and(|tile| tile.cols == 1 || tile.src_col == near);
    let bytes = |run: &Loop| (run.n as i64).saturating_mul(parts[0].moves[loops.len() - 1][1].abs());
    let short = loops.last().is_some_and(|run| bytes(run) < tuning.segment as i64);
    if !rows || short {
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
    }
    // Of longer rows the tiles of the call itself are fetched ahead.
    if short && row.is_some_and(|row| loops[row].n <= tuning.tiles_fetched as u64) {
        schedule.prefetch_distance = distance_to_later_rows(&schedule, loops, reads, tuning.fetched as i64);
    }
    schedule
}

/// How far the tiles that a later call packs lie in the source, where those of a call are a run of it: about as far as `fetched`
/// bytes; 0 where they are none.
fn distance_to_later_rows(
    schedule: &Schedule,
    loops: &[Loop],
    reads: impl Fn(usize) -> Addr,
    fetched: i64,
) -> i64 {
    let (Some(tile), Some(row)) = (schedule.in_place, schedule.tiles) else { return 0 };
    let bytes = (tile.rows as i64).saturating_mul(tile.src_row as i64);
    let is_run = tile.src_row as i64 == reads(row)[1].saturating_mul(loops[row].n as i64);
    let next = schedule.order.iter().rev().find(|&&i| i != row && loops[i].n > 1).map(|&i| reads(i));
    match next {
        Some([0, step, 0]) if is_run && bytes > 0 => step.saturating_mul((fetched / bytes).max(1)),
        _ => 0,
    }
}

/// The strides of a tile's elements in the source, if its valid elements are a corner of even rows and columns, or all of it in
/// even faces.
fn in_place(parts: &[Gather], shape: TileShape) -> Option<InPlace> {
    let [Gather { slot: 0, loops, .. }] = parts else { return None };
    let tile_cols = shape.cols();
    let mut tile = InPlace { rows: 1, cols: 1, src_row: 0, src_col: 0, faces: None };
    let [mut below, mut beside] = [None; 2];
    if loops.iter().any(|l| l.step[0] != 0 || l.step[2] != 0) {
        return None;
    }
    for l in loops {
        let (n, src, slots) = (l.n as usize, l.step[1] as isize, l.step[5]);
        if slots == tile_cols as i64 && tile.rows == 1 {
            (tile.rows, tile.src_row) = (n, src);
        } else if slots == 1 && n <= tile_cols && tile.cols == 1 {
            (tile.cols, tile.src_col) = (n, src);
        } else if slots == (shape.face_rows() * tile_cols) as i64 && below.is_none() {
            below = Some((n, src));
        } else if slots == shape.face_cols() as i64 && beside.is_none() {
            beside = Some((n, src));
        } else if slots == 1 && n % tile_cols == 0 && loops.len() == 1 {
            // Rows that follow one another in the source are one loop.
            tile.rows = n / tile_cols;
            tile.cols = tile_cols;
            (tile.src_row, tile.src_col) = (src * tile_cols as isize, src);
        } else {
            return None;
        }
    }
    if below.is_some() || beside.is_some() {
        let (down, src_down) = below.unwrap_or((1, shape.face_rows() as isize * tile.src_row));
        let (across, src_across) = beside.unwrap_or((1, shape.face_cols() as isize * tile.src_col));
        (tile.rows, tile.cols) = (tile.rows * down, tile.cols * across);
        tile.faces = Some([src_down, src_across]);
        if (tile.rows, tile.cols) != (shape.rows(), shape.cols()) {
            return None;
        }
    }
    Some(tile)
}
