//! Tiles of a block format that are packed: in rows of tiles where a kernel reads them in place, else brought together in L1.

use kernels::TileShape;

use super::blocks::{by_source_of, longer_row, steps_within};
use crate::layout::axis::Addr;
use crate::plan::conversion::{Conversion, Op};
use crate::plan::ir::{Gather, InPlace, LINE, Loop, MAX_BLOCK, Schedule};
use crate::tuning::Tuning;

/// The least bytes of the destination that a block of small tiles has as one run: two lines.
const RUN: u64 = 2 * LINE as u64;

/// The same where the source lies along rows of tiles, so that blocks need not have several rows to read long runs of it.
const LONG_RUN: u64 = 1024;

/// Blocks of an MX format that are packed at once where their columns are runs of the source.
const BLOCKS: u64 = 32;

/// The most of them that one call packs: each has parts of two lines, which have to stay in L2 until the call for the next ones.
const BLOCKS_BELOW: u64 = 512;

/// The least tiles that are packed once and copied, where the source is the same for all of them.
const LEAST_COPIES: u64 = 4;

/// Tiles are taken in rows where a kernel packs them from where they lie, or copies them; others are brought together first.
pub(super) fn schedule(loops: &[Loop], parts: &[Gather], conversion: Conversion<'_>) -> Schedule {
    let Conversion { src, dst, op, streams, tuning, .. } = conversion;
    let below = below(loops, parts, conversion);
    let in_place = match (dst.codec, op) {
        (Some(codec), Op::Convert(number, _)) if src.codec.is_none() => {
            // Faces are packed from where they lie if a kernel takes their rows as they are.
            let rows_of_faces = |tile: &InPlace| tile.src_col == number.size() as isize;
            let step = below.map_or(0, |i| parts[0].moves[i][1]);
            in_place(parts, codec.tile())
                .filter(|tile| tile.is_fast(&codec, number, step as isize))
                .filter(|tile| tile.faces.is_none() || rows_of_faces(tile))
        }
        (Some(codec), Op::Convert(..)) => {
            conversion.rows_of_codes().and_then(|from| rows_of_codes(parts, from.tile(), codec.tile()))
        }
        _ => None,
    };
    let repeats = |i: usize| loops[i].n >= LEAST_COPIES && stays_in_range(&loops[i]) && !is_read(parts, i);
    // Small tiles that do not follow one another in memory would be put into parts of lines, and few of them cost less than the call. In the
    // caches that is so where they are halves of faces.
    let (bytes, elements) = (dst.block_bytes, dst.codec.map_or(1, |codec| codec.tile().elements()));
    let follows = |l: &Loop| stays_in_range(l) && l.step[4] == bytes as i64;
    let row = loops.last().filter(|l| follows(l)).map_or(1, |l| l.n).saturating_mul(elements as u64);
    let apart = streams || in_place.is_some_and(|tile| tile.faces.is_some());
    let is_apart = apart && bytes < LINE && row < tuning.call_elements as u64;
    let reads_in_place = in_place.is_some() && !is_apart && !(0..loops.len()).any(repeats);
    if conversion.maps_tiles(parts) || reads_in_place {
        in_rows(loops, parts, (in_place, below), conversion)
    } else {
        brought_together(loops, parts, below, conversion)
    }
}

/// Of blocks of an MX format whose columns are runs of the source the loop to the one below, if that has as many as a kernel packs at once.
fn below(loops: &[Loop], parts: &[Gather], conversion: Conversion<'_>) -> Option<usize> {
    let Conversion { src, dst, op, .. } = conversion;
    let [Gather { loops: columns, moves, .. }] = parts else { return None };
    let near = [0, op.source_size() as i64, 0];
    let across = matches!(columns[..], [ref column] if column.step[0] == 0 && column.step[1] != 0 && column.src() != near);
    let suits = |&i: &usize| stays_in_range(&loops[i]) && loops[i].n >= BLOCKS && moves[i] == near;
    let compact = dst.codec.is_some_and(|codec| codec.options().compact);
    (0..loops.len()).find(suits).filter(|_| compact && across && src.codec.is_none())
}

/// The same blocks, at most so many one below the other and then those that follow them in the destination: what is written of a line is
/// followed soon by what comes next.
fn columns_of(loops: &[Loop], row: usize, most: u64) -> Schedule {
    let mut schedule = Schedule::new(loops);
    schedule.order.retain(|&i| i != row);
    let follows = schedule.order.pop();
    schedule.order.push(row);
    schedule.order.extend(follows);
    schedule.blocks[row] = loops[row].n.min(most / BLOCKS * BLOCKS);
    schedule
}

/// Whether tiles of a loop are in one unit of the destination.
fn stays_in_range(l: &Loop) -> bool {
    l.step[3] == 0
}

/// Whether iterations of a loop read other bytes.
fn is_read(parts: &[Gather], i: usize) -> bool {
    parts.iter().any(|part| part.moves[i] != [0; 3])
}

/// Blocks of tiles for which there is room in L1: of small tiles some that follow one another in the destination, and what follows in the
/// source. Tiles of which the source is the same are packed once, and need no room.
fn brought_together(
    loops: &[Loop],
    parts: &[Gather],
    below: Option<usize>,
    conversion: Conversion<'_>,
) -> Schedule {
    let mut room = conversion.brought_together(parts).1 as u64;
    if let Some(row) = below {
        return Schedule { compacted: true, ..columns_of(loops, row, room) };
    }
    let order = by_source_of(loops.len(), |i| (parts[0].moves[i], loops[i].step[4]));
    let mut schedule = Schedule::ordered(loops, order, (0..loops.len()).collect());
    schedule.compacted = true;
    let Schedule { order, blocks, .. } = &mut schedule;
    let mut take = |i: usize, blocks: &mut [u64], most: u64| {
        let more = (loops[i].n / blocks[i]).min(most).min(room).max(1);
        blocks[i] *= more;
        room /= more;
    };
    for i in (0..loops.len()).filter(|&i| stays_in_range(&loops[i]) && !is_read(parts, i)) {
        blocks[i] = loops[i].n;
    }
    let lies = |l: &Loop| l.step[5] == 1 && l.step[..3] == [0, conversion.op.source_size() as i64, 0];
    let along = parts.iter().all(|part| part.loops.last().is_some_and(lies));
    let least_run = match along && conversion.src.codec.is_none() {
        true => LONG_RUN,
        false if conversion.streams => RUN,
        // In the caches parts of lines cost nothing.
        false => 0,
    };
    let mut run = conversion.dst.block_bytes as u64;
    for (i, l) in loops.iter().enumerate().rev() {
        if run >= least_run || !stays_in_range(l) || l.step[4] != run as i64 || !is_read(parts, i) {
            break;
        }
        take(i, blocks, least_run.div_ceil(run));
        run = run.saturating_mul(blocks[i]);
        if blocks[i] < l.n {
            break;
        }
    }
    // Tiles that go to units of their own are put there one by one, and none is copied.
    let repeats = blocks.iter().enumerate().any(|(i, &n)| n > 1 && !is_read(parts, i));
    let suits = |i: usize| stays_in_range(&loops[i]) || conversion.dst.block_bytes >= LINE && !repeats;
    for &i in order.iter().rev().filter(|&&i| suits(i) && is_read(parts, i)) {
        take(i, blocks, u64::MAX);
    }
    schedule
}

/// Tiles in rows, which kernels read in place or copy.
fn in_rows(
    loops: &[Loop],
    parts: &[Gather],
    (in_place, below): (Option<InPlace>, Option<usize>),
    conversion: Conversion<'_>,
) -> Schedule {
    let Conversion { src, dst, tuning, .. } = conversion;
    let mut schedule = Schedule { in_place, ..Schedule::new(loops) };
    let near = if conversion.rows_of_codes().is_some() { 1 } else { src.block_bytes as isize };
    if let Some(row) = below {
        let mut schedule = columns_of(loops, row, BLOCKS_BELOW);
        let follows = schedule.order.last().filter(|&&i| i != row);
        schedule.prefetch_distance = follows.map_or(0, |&i| parts[0].moves[i][1]);
        return Schedule { in_place, tiles: Some(row), ..schedule };
    }
    let reads = |i: usize| parts[0].moves[i];
    // What lies in rows is read as the tiles are written; other tiles, and rows so short that a run of the source is those of
    // several rows of tiles (sticks, panels), as the source lies, so that its lines are read once.
    let rows = in_place.is_some_and(|tile| tile.cols == 1 || tile.src_col == near);
    let bytes = |run: &Loop| (run.n as i64).saturating_mul(parts[0].moves[loops.len() - 1][1].abs());
    let short = loops.last().is_some_and(|run| bytes(run) < tuning.segment as i64);
    if !rows || short {
        schedule.order = by_source_of(loops.len(), |i| (reads(i), loops[i].step[4]));
    }
    // What is copied may lie in any unit of the source, and what is packed go to any of the destination.
    let copies = in_place.is_none();
    let is_unit = in_place.as_ref().is_some_and(|tile| conversion.is_unit(tile));
    let goes_on = |i: usize| (reads(i)[0], reads(i)[2]) == (0, 0) || is_unit && reads(i)[1..] == [0; 2];
    let suits = |&i: &usize| if copies { stays_in_range(&loops[i]) } else { goes_on(i) };
    let row = schedule.order.last().copied().filter(suits);
    let row = row.map(|row| longer_row(loops, row, dst.codec, tuning, suits));
    if let Some(at) = row.and_then(|row| schedule.order.iter().position(|&i| i == row)) {
        // Tiles of one row follow one another.
        let row = schedule.order.remove(at);
        schedule.order.push(row);
    }
    if let Some(row) = row {
        // Tiles that go to units of their own are packed in L1, and put from there.
        let most = if stays_in_range(&loops[row]) { u64::MAX } else { (MAX_BLOCK / dst.block_bytes) as u64 };
        schedule.tiles = Some(row);
        schedule.blocks[row] = loops[row].n.min(most.max(1));
    }
    if let (Some(_), Some(row)) = (in_place, row) {
        schedule.prefetch_distance = distance_to_later_tiles(&schedule.order, loops, row, reads, tuning);
    }
    schedule
}

/// How far the tiles lie that are fetched while those of `row` are packed: the next row of tiles where rows are so short that much of that
/// would not be fetched otherwise, or some tiles further on.
fn distance_to_later_tiles(
    order: &[usize],
    loops: &[Loop],
    row: usize,
    reads: impl Fn(usize) -> Addr,
    tuning: &Tuning,
) -> i64 {
    let next = order.iter().rev().find(|&&i| i != row && loops[i].n > 1).map(|&i| reads(i));
    match next {
        Some([0, step, 0]) if step != 0 && step.unsigned_abs() <= tuning.rows_fetched as u64 => {
            steps_within(step, tuning.fetched)
        }
        _ => reads(row)[1].saturating_mul(tuning.tiles_fetched as i64),
    }
}

/// The same of rows of codes, which are a byte each: blocks that are rows of a whole tile, or rows of tiles, each of which is a block.
fn rows_of_codes(parts: &[Gather], from: TileShape, shape: TileShape) -> Option<InPlace> {
    let [Gather { src: [_, _, first], slot: 0, moves, loops }] = parts else { return None };
    let cols = shape.cols();
    let mut tile = InPlace { rows: 1, cols: 1, src_row: 0, src_col: 0, faces: None };
    for l in loops {
        match (l.step, l.n as usize) {
            ([0, 0, 1, _, _, 1], n) if n == cols => (tile.cols, tile.src_col) = (n, 1),
            ([0, bytes, 0, _, _, slots], n) if slots == cols as i64 => {
                (tile.rows, tile.src_row) = (n, bytes as isize);
            }
            _ => return None,
        }
    }
    if from.rows() > 1 {
        tile.faces = Some([0, (from.face_rows() * from.face_cols()) as isize]);
    }
    let whole = (tile.rows, tile.cols) == (shape.rows(), cols);
    let begins = |slot: i64| slot % cols as i64 == 0;
    let of_rows = begins(*first) && moves.iter().all(|moves| moves[0] == 0 && begins(moves[2]));
    (whole && of_rows).then_some(tile)
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
