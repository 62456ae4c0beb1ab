//! Elements of which a kernel makes whole lines of the destination by itself, and stores them: transposes, and tiles that are
//! unpacked to rows.

use kernels::{Number, UnpackArgs};

use super::assembled;
use super::blocks::{by_source, stays_in_unit};
use crate::plan::conversion::{Conversion, Op};
use crate::plan::ir::{LINE, Loop, Schedule};
use crate::tuning::Strip;

/// The least lines of a row of the destination: of fewer, blocks of several rows are assembled.
const LEAST_LINES: i64 = 4;

/// The same by way of panels.
const LEAST_LINES_OF_PANELS: i64 = 2;

/// The same where rows begin anywhere in a line, so that each has two parts of lines: of rows of 4 to 8 lines assembled blocks have two to four
/// times the speed on Zen 4.
const LEAST_LINES_ANYWHERE: i64 = 8;

/// Tiles that are unpacked to columns in one call, each of another row of tiles. The next call takes those behind them, so that these are
/// as many streams; with all of a column of tiles Zen 4 has nine tenths of the speed.
const STREAMS: u64 = 8;

/// The loop along which the source lies, where the innermost one makes rows of the destination and a kernel transposes both.
fn across(loops: &[Loop], conversion: Conversion<'_>) -> Option<usize> {
    let Conversion { src, op: Op::Copy(size), .. } = conversion else { return None };
    let (strip, size, (run, outer)) = (conversion.strip(loops)?, size as i64, loops.split_last()?);
    let bytes = |l: &Loop| (l.n as i64).saturating_mul(size);
    let least = match strip {
        Strip { ragged: true, .. } => LEAST_LINES_ANYWHERE,
        Strip { panel: 0, .. } => LEAST_LINES,
        _ => LEAST_LINES_OF_PANELS,
    };
    let rows = stays_in_unit(run) && run.step[4] == size && bytes(run) >= least * LINE as i64;
    let lies = |l: &Loop| stays_in_unit(l) && l.step[1].abs() == size && bytes(l) >= LINE as i64;
    let across = outer.iter().position(lies)?;
    (strip.bytes > 0 && src.codec.is_none() && rows && run.step[1].abs() != size).then_some(across)
}

/// Whether whole tiles become lines of the destination: their rows do, or those of their faces, which follow one another.
fn unpacks(loops: &[Loop], conversion: Conversion<'_>) -> bool {
    let Conversion { src, dst, op: Op::Convert(_, number), .. } = conversion else { return false };
    let (Some(codec), Some((run, outer))) = (src.codec, loops.split_last()) else { return false };
    let (tile, bytes) = (codec.tile(), dst.block_bytes as i64);
    let (inside, outside): (Vec<&Loop>, Vec<&Loop>) =
        outer.iter().partition(|l| l.step[..2] == [0; 2] && l.step[2] != 0);
    let elements = inside.iter().fold(run.n, |elements, l| elements.saturating_mul(l.n));
    let (row, lines) = ((run.n as i64).saturating_mul(bytes), |bytes: i64| bytes % LINE as i64 == 0);
    let of_face = |l: &Loop| l.n == tile.face_rows() as u64 && l.step[4] == row && lines(row * l.n as i64);
    (UnpackArgs::has_vector_code(number) || number == Number::F64)
        && (run.step[2], run.step[4]) == (1, bytes)
        && elements == tile.elements() as u64
        && (run.n == tile.cols() as u64 && lines(row) || inside.iter().any(|l| of_face(l)))
        && inside.iter().all(|l| l.step[3] == 0 && (lines(l.step[4]) || of_face(l)))
        && outside.iter().all(|l| l.step[3] != 0 || lines(l.step[4]))
}

/// The loop along the rows of whole tiles that become columns of the destination, where these are lines: tiles that are unpacked in L1, and
/// transposed from there.
fn unpacks_across(loops: &[Loop], conversion: Conversion<'_>) -> Option<usize> {
    let Conversion { src, dst, op: Op::Convert(_, number), stores_lines: true, tuning, .. } = conversion
    else {
        return None;
    };
    let (codec, (run, outer)) = (src.codec?, loops.split_last()?);
    let (tile, bytes) = (codec.tile(), dst.block_bytes as i64);
    let stays = |l: &Loop| l.step[..2] == [0; 2] && l.step[3] == 0;
    let row = outer.iter().position(|l| stays(l) && l.step[2] == 1 && l.n == tile.cols() as u64)?;
    let lines = |bytes: i64| bytes % LINE as i64 == 0;
    let column = stays(run) && run.step[2] == tile.cols() as i64 && run.step[4] == bytes;
    let whole = run.n == tile.rows() as u64 && lines((run.n as i64).saturating_mul(bytes));
    let apart = outer.iter().all(|l| l.step[3] != 0 || lines(l.step[4]));
    let suits = tuning.compacted > 0 && UnpackArgs::has_vector_code(number);
    (suits && column && whole && apart).then_some(row)
}

/// Whether a kernel makes whole lines of the elements by itself.
pub(super) fn applies(loops: &[Loop], conversion: Conversion<'_>) -> bool {
    across(loops, conversion).is_some()
        || unpacks(loops, conversion)
        || unpacks_across(loops, conversion).is_some()
}

/// The schedule of such elements: a call takes all of some rows, or a row of tiles.
pub(super) fn schedule(loops: &[Loop], conversion: Conversion<'_>) -> Schedule {
    match conversion.src.codec {
        Some(_) => {
            let mut schedule = assembled::cached(loops, conversion, assembled::schedule(loops, conversion).0);
            if let Some(row) = unpacks_across(loops, conversion) {
                (schedule.rows, schedule.cols) = (Some(row), loops.len().checked_sub(1));
                if let Some(i) = schedule.tiles {
                    schedule.blocks[i] = schedule.blocks[i].min(STREAMS);
                }
            }
            schedule
        }
        None => transposed(loops, conversion),
    }
}

/// All of a strip's columns, and as many rows of the destination as the tuning lets a call have; by way of panels all of them. Matrices
/// that go by way of panels are taken in the order of the source, as many of them in a call as lie there one behind the other: while the last
/// panel of one is transposed, the first of the next is fetched.
fn transposed(loops: &[Loop], conversion: Conversion<'_>) -> Schedule {
    let (rows, cols) = (across(loops, conversion), loops.len().checked_sub(1));
    let by_panels = conversion.strip(loops).is_some_and(|strip| strip.panel > 0);
    let mut schedule = if by_panels {
        let order = by_source(loops);
        let next = |&i: &usize| ![rows, cols].contains(&Some(i)) && stays_in_unit(&loops[i]);
        let next = order.iter().copied().rfind(next);
        let mut schedule = Schedule::ordered(loops, order.clone(), order);
        if let Some(i) = next {
            schedule.blocks[i] = loops[i].n;
        }
        schedule
    } else {
        Schedule::new(loops)
    };
    (schedule.rows, schedule.cols) = (rows, cols);
    if let Some(i) = cols {
        schedule.blocks[i] = loops[i].n;
    }
    if let Some(i) = rows {
        let rows = if by_panels { u64::MAX } else { conversion.tuning.transposed_rows as u64 };
        schedule.blocks[i] = loops[i].n.min(rows);
    }
    schedule
}
