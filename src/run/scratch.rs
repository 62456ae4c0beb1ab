//! What kernel calls leave to later ones: tiles on their way, and the first value that its destination cannot hold.

use std::ops::Range;

use kernels::{Destination, Number, TileShape, UnpackArgs};

use super::destination::writable;
use crate::layout::Space;
use crate::plan::{Op, OutOfRange, Plan};

/// What kernel calls leave to later ones. Its tiles are made on the stack when they are first needed, for to clear them costs as
/// much as to move a small tensor.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) gathered: Gathered,
    pub(super) unpacked: Unpacked,
    /// The first value that its destination cannot hold.
    pub(super) out_of_range: Option<OutOfRange>,
}

/// Tiles that were unpacked, row by row, and which these are.
#[derive(Default)]
pub(super) struct Unpacked {
    tiles: Option<Tiles>,
    last: Option<TileRow>,
}

/// Tiles to be packed, row by row, or tiles of units of their own, as they lie: no call needs both.
#[derive(Default)]
pub(super) struct Gathered(Option<Tiles>);

/// Elements of tiles of a block format on their way. On lines: where stores of 32 bytes lay on two, bfp8 became columns of f32 at 3.6 instead of
/// 4.9 G elements/s in L2 on Zen 4.
#[repr(align(64))]
struct Tiles([f32; Scratch::ROOM]);

impl Tiles {
    fn zero() -> Tiles {
        Tiles([0.0; _])
    }
}

/// Tiles of a block source: where the first of them begins, how many there are, and how far apart.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct TileRow {
    pub(super) at: usize,
    pub(super) tiles: usize,
    pub(super) step: usize,
}

impl Scratch {
    /// How many elements are packed or unpacked together, 16 KiB of them: four of the largest tiles. Of fewer, each call brings
    /// less: with two, tiles that are gathered from pages take half as long again.
    pub(super) const ROOM: usize = 4 * TileShape::MAX_ELEMENTS;

    /// The elements of tiles to be packed.
    pub(super) fn tiles(&mut self) -> &mut [f32] {
        self.gathered.room()
    }

    /// The same, and tiles of the source, unpacked.
    pub(super) fn tiles_and_unpacked(
        &mut self,
        plan: &Plan,
        source: &[u8],
        row: TileRow,
    ) -> (&mut [f32], &[u8]) {
        (self.gathered.room(), self.unpacked.row(plan, source, row))
    }
}

impl Gathered {
    fn room(&mut self) -> &mut [f32] {
        &mut self.0.get_or_insert_with(Tiles::zero).0
    }

    /// Brings tiles of units together, as many at a time as there is room for, and calls `call` with them and which they are: `count` of them
    /// of `bytes` bytes, the first at `begin`, a unit and a byte, and each `step` units behind the one before. The next ones are fetched
    /// meanwhile.
    pub(super) fn units(
        &mut self,
        space: &Space,
        source: &[u8],
        ([begin, byte], step): ([i64; 2], i64),
        (count, bytes): (usize, usize),
        mut call: impl FnMut(&[u8], Range<usize>),
    ) {
        let room: &mut [u8] = bytemuck::cast_slice_mut(self.room());
        let together = room.len() / bytes;
        let unit = |tile: usize| begin.saturating_add(step.saturating_mul(tile as i64));
        let place = |tile: usize| (space.unit_at(unit(tile)) + byte) as usize;
        for first in (0..count).step_by(together) {
            let tiles = first..count.min(first + together);
            for (tile, to) in tiles.clone().zip(room.chunks_exact_mut(bytes)) {
                // Behind the last one of a row that of the next row may lie.
                let later = tile + together;
                if (0..space.units as i64).contains(&unit(later)) {
                    kernels::prefetch(source, place(later), bytes);
                }
                to.copy_from_slice(&source[place(tile)..][..bytes]);
            }
            call(room, tiles);
        }
    }
}

impl Unpacked {
    /// Lets none be the last ones that were unpacked: others lie now where they lay.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    /// Tiles of the source, no more elements than there is room for, unpacked one behind the other unless they are the last ones that were.
    pub(super) fn row(&mut self, plan: &Plan, source: &[u8], row: TileRow) -> &[u8] {
        let Tiles(unpacked) = self.tiles.get_or_insert_with(Tiles::zero);
        if let Some(codec) = plan.src.codec
            && self.last != Some(row)
        {
            let (tile, to) = (codec.tile(), unpacked_as(plan));
            let size = to.size() as isize;
            let args = UnpackArgs {
                tiles: row.tiles,
                src_at: row.at,
                src_tile: row.step,
                row0: 0,
                col0: 0,
                rows: tile.rows(),
                cols: tile.cols(),
                dst_at: 0,
                dst_tile: tile.elements() as isize * size,
                dst_row: tile.cols() as isize * size,
                dst_col: size,
                faces: None,
                prefetch_tiles: 0,
            };
            let out = writable(bytemuck::cast_slice_mut(unpacked.as_mut_slice()));
            plan.kernels.unpack(&codec, to, source, &args, &mut Destination::cached(out));
            self.last = Some(row);
        }
        bytemuck::cast_slice(unpacked)
    }
}

/// As which numbers tiles of the source are unpacked before they are put in their places.
pub(super) fn unpacked_as(plan: &Plan) -> Number {
    match plan.op {
        Op::Convert(_, into) if plan.dst.codec.is_none() && UnpackArgs::has_vector_code(into) => into,
        _ => Number::F32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_out_of_range_is_the_one_with_the_least_place() {
        let (late, early) = (OutOfRange { at: 9, bits: 1 }, OutOfRange { at: 3, bits: 7 });
        assert_eq!(OutOfRange::earlier(OutOfRange::earlier(None, late), early), Some(early));
    }
}
