//! V3 and V4: leaves keep to their blocks, and a leaf is one that the conversion has.

use kernels::TileShape;
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::plan::conversion::{Conversion, Op};
use crate::plan::ir::{Gather, InPlace, Leaf, Loop, ScheduledNest, dst};

/// Destinations start on whole blocks; the parts of a tile are inside of it and do not meet. V1 has seen that the nest
/// stays inside of its units, and so V3 follows from the first of these.
pub(super) fn keep(nest: &ScheduledNest, conversion: Conversion<'_>, layout: &Layout) -> Result<()> {
    let block_bytes = layout.block_bytes() as i64;
    let whole = |at: [i64; 3]| at[1] % block_bytes == 0;
    if !whole(dst(nest.at)) || !nest.loops.iter().all(|l| whole(l.dst())) {
        return Err(Error::unverified("V4", format!("a leaf starts inside of {block_bytes} bytes")));
    }
    match &nest.leaf {
        Leaf::Fill => Ok(()),
        Leaf::Element if conversion.dst.codec.is_some() => {
            Err(Error::unverified("V4", "an element is written to a tile without packing"))
        }
        Leaf::Element => Ok(()),
        Leaf::Pack(parts) => {
            let (Some(codec), Op::Convert(..)) = (conversion.dst.codec, conversion.op) else {
                return Err(Error::unverified("V4", "a tile is packed where there is none"));
            };
            apart(parts, codec.tile())?;
            match nest.schedule.in_place {
                Some(tile) if !reads_as(tile, parts, codec.tile(), conversion) => Err(Error::unverified(
                    "V4",
                    format!("{tile:?} is not what a tile is packed from: {parts:?}"),
                )),
                _ => Ok(()),
            }
        }
    }
}

/// The slots of a tile, a bit each.
type Taken = [u64; TileShape::MAX_ELEMENTS.div_ceil(64)];

/// Takes a run of slots, or tells that one of them is taken already.
fn take(taken: &mut Taken, mut slot: usize, run: usize) -> bool {
    let end = slot + run;
    while slot < end {
        let (word, bit) = (slot / 64, slot % 64);
        let bits = (end - slot).min(64 - bit);
        let mask = u64::MAX >> (64 - bits) << bit;
        if taken[word] & mask != 0 {
            return false;
        }
        taken[word] |= mask;
        slot += bits;
    }
    true
}

/// The slots from the first to the last that loops reach, if each loop steps over all that is inside of it.
fn nested(loops: &[Loop]) -> Option<i64> {
    loops.iter().rev().try_fold(1_i64, |slots, l| {
        let more = (l.n as i64 - 1).saturating_mul(l.step[5]);
        (l.step[5] >= slots).then(|| slots.saturating_add(more))
    })
}

/// The parts of a tile lie inside of it and do not meet.
fn apart(parts: &[Gather], tile: TileShape) -> Result<()> {
    let slots = tile.elements() as i64;
    let outside =
        |slot: i64| Error::unverified("V4", format!("slot {slot} of a tile is outside or taken twice"));
    let mut taken = Taken::default();
    for part in parts {
        if part.elements() > slots as u64 || part.loops.iter().any(|l| l.n == 0) {
            return Err(Error::unverified("V4", format!("{} elements for {slots} slots", part.elements())));
        }
        if part.loops.iter().any(|l| l.step[3] != 0 || l.step[4] != 0) {
            return Err(Error::unverified("V4", "a part of a tile leaves it"));
        }
        if parts.len() == 1 && part.slot >= 0 && nested(&part.loops).is_some_and(|n| n <= slots - part.slot) {
            continue;
        }
        // Slots that follow one another are taken at once: a tile has rows of them, or is one run.
        let (run, rows) = match part.loops.split_last() {
            Some((last, rows)) if last.step[5] == 1 => (last.n, rows),
            _ => (1, part.loops.as_slice()),
        };
        for mut iteration in 0..part.elements() / run {
            let mut slot = part.slot;
            for l in rows.iter().rev() {
                slot = slot.saturating_add(l.step[5].saturating_mul((iteration % l.n) as i64));
                iteration /= l.n;
            }
            if !(0..=slots - run as i64).contains(&slot) || !take(&mut taken, slot as usize, run as usize) {
                return Err(outside(slot));
            }
        }
    }
    Ok(())
}

/// Whether a tile read in place has the same elements in the same slots as its one part.
fn reads_as(tile: InPlace, parts: &[Gather], shape: TileShape, conversion: Conversion<'_>) -> bool {
    let [part] = parts else { return false };
    let InPlace { rows, cols, src_row, src_col } = tile;
    if conversion.src.codec.is_some() || part.slot != 0 || part.loops.iter().any(|l| l.step[0] != 0) {
        return false;
    }
    let inside = (1..=shape.rows()).contains(&rows) && (1..=shape.cols()).contains(&cols);
    let corner = [(rows, shape.cols() as i64, src_row as i64), (cols, 1, src_col as i64)];
    let corner = corner.map(|(n, slots, bytes)| (n as u64, slots, bytes));
    let loops = part.loops.iter().map(|l| (l.n, l.step[5], l.step[1]));
    inside && joined(corner.into_iter()) == joined(loops)
}

/// Loops over slots and bytes, the greatest step over slots first, joined where one goes on where another ends: the same
/// for all loops that visit the same slots and bytes.
fn joined(loops: impl Iterator<Item = (u64, i64, i64)>) -> SmallVec<[(u64, i64, i64); 4]> {
    let mut sorted: SmallVec<[(u64, i64, i64); 4]> = loops.filter(|l| l.0 != 1).collect();
    sorted.sort_by_key(|&(_, slots, _)| std::cmp::Reverse(slots));
    let mut out: SmallVec<[(u64, i64, i64); 4]> = SmallVec::new();
    for (n, slots, bytes) in sorted {
        let whole = |step: i64| step.checked_mul(n as i64);
        match out.last_mut() {
            Some(outer) if Some(outer.1) == whole(slots) && Some(outer.2) == whole(bytes) => {
                *outer = (outer.0.saturating_mul(n), slots, bytes);
            }
            _ => out.push((n, slots, bytes)),
        }
    }
    out
}
