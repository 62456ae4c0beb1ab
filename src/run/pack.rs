//! Tiles of block formats: packed where they lie, or gathered first.

use kernels::{BlockCodec, Number, PackArgs, TileShape, Window};

use super::assembly::Block;
use super::clip::{advance, linear};
use super::destination::writable;
use super::elements::TileRow;
use super::task::Task;
use crate::plan::Op;
use crate::plan::ir::{AddressPair, Gather, MAX_BLOCK, MAX_LOOPS, ScheduledNest};

impl Task<'_, '_> {
    /// Packs a tile, or a row of tiles that a kernel reads where they lie.
    pub(super) fn pack(
        &mut self,
        nest: &ScheduledNest,
        parts: &[Gather],
        first: &[u64; MAX_LOOPS],
        size: &[u64; MAX_LOOPS],
        to: usize,
    ) {
        let plan = self.plan;
        let (Some(codec), Op::Convert(number, _)) = (plan.dst.codec, plan.op) else { return };
        let source_begin = self.source_begin;
        let moved = |part: &Gather| {
            let [unit, byte, slot] = part.src;
            part.moves.iter().zip(first).fold([unit, byte - source_begin, slot], |at, (step, &first)| {
                std::array::from_fn(|k| at[k] + step[k] * first as i64)
            })
        };
        let row = nest.schedule.tiles;
        if let (Some(tile), [part]) = (nest.schedule.in_place, parts) {
            let at = moved(part);
            let args = PackArgs {
                tiles: row.map_or(1, |i| size[i] as usize),
                src_at: (plan.src.space.unit_at(at[0]) + at[1]) as usize,
                src_tile: row.map_or(0, |i| part.moves[i][1] as isize),
                src_row: tile.src_row,
                src_col: tile.src_col,
                rows: tile.rows,
                cols: tile.cols,
                pad: plan.pad,
                prefetch_tiles: plan.tuning.tiles_fetched,
                dst_tile: row.map_or(plan.dst.block_bytes, |i| linear(plan, nest.loops[i].step) as usize),
            };
            if !reads_in_place(number, &args) {
                return self.pack_by_scratch(&codec, number, &args, to);
            }
            let bytes = args.tiles * plan.dst.block_bytes;
            if !plan.streams || row.is_none_or(|i| nest.schedule.segment > i) || bytes > MAX_BLOCK {
                return plan.kernels.pack(&codec, number, self.source, &args, self.out.bytes(), to);
            }
            let Block(block) = self.block.get_or_insert_with(Block::zero);
            plan.kernels.pack(&codec, number, self.source, &args, writable(block), 0);
            return plan.kernels.stream(&block[..bytes], self.out, to);
        }
        let elements = codec.tile().elements();
        let covered: u64 = parts.iter().map(Gather::elements).sum();
        if covered < elements as u64 {
            // Kernels read and write little-endian floats on every machine.
            let bytes: &mut [[u8; 4]] = bytemuck::cast_slice_mut(&mut self.scratch.tile()[..elements]);
            bytes.fill(plan.pad.to_le_bytes());
        }
        for part in parts {
            self.gather(part, moved(part));
        }
        let args = PackArgs {
            tiles: 1,
            src_at: 0,
            src_tile: 0,
            src_row: codec.tile().cols() as isize * 4,
            src_col: 4,
            rows: codec.tile().rows(),
            cols: codec.tile().cols(),
            pad: plan.pad,
            prefetch_tiles: plan.tuning.tiles_fetched,
            dst_tile: plan.dst.block_bytes,
        };
        let tile = bytemuck::cast_slice(&self.scratch.tile()[..elements]);
        if !plan.streams {
            return plan.kernels.pack(&codec, Number::F32, tile, &args, self.out.bytes(), to);
        }
        let Block(block) = self.block.get_or_insert_with(Block::zero);
        plan.kernels.pack(&codec, Number::F32, tile, &args, writable(block), 0);
        plan.kernels.stream(&block[..plan.dst.block_bytes], self.out, to);
    }

    /// Packs tiles that no kernel reads as they lie: as many as there is room for are brought together in L1, whole tiles of
    /// 16-bit numbers as they are (half of the bytes, and no numbers to widen), all others as f32.
    fn pack_by_scratch(&mut self, codec: &BlockCodec, number: Number, args: &PackArgs, to: usize) {
        let (plan, shape) = (self.plan, codec.tile());
        let (elements, bytes) = (shape.elements(), plan.dst.block_bytes);
        let whole = args.rows * args.cols == elements;
        let as_it_is = whole && shape.rows() > 1 && packs_as_it_is(number, codec);
        let between = if as_it_is { number } else { Number::F32 };
        let size = between.size() as isize;
        let line = shape.cols() as isize * size;
        let rows = Window {
            rows: args.rows,
            cols: args.cols,
            src_row: args.src_row,
            src_col: args.src_col,
            dst_row: line,
            dst_col: size,
        };
        let together = if shape.rows() == 1 { TileShape::MAX_ELEMENTS / elements } else { 1 };
        if !whole {
            // Kernels read and write little-endian floats on every machine.
            let bytes: &mut [[u8; 4]] = bytemuck::cast_slice_mut(self.scratch.tile());
            bytes.fill(plan.pad.to_le_bytes());
        }
        let ahead = args.src_tile.saturating_mul((plan.tuning.tiles_fetched * together) as isize);
        for first in (0..args.tiles).step_by(together) {
            let tiles = together.min(args.tiles - first);
            // Tiles of one row are rows of one window.
            let w =
                if shape.rows() == 1 { Window { rows: tiles, src_row: args.src_tile, ..rows } } else { rows };
            let from = args.src_at.wrapping_add_signed(first as isize * args.src_tile);
            let scratch = writable(bytemuck::cast_slice_mut(self.scratch.tile()));
            plan.kernels.convert_loops(number, between, self.source, from, scratch, 0, &w, &[], ahead);
            let packed = PackArgs {
                tiles,
                src_at: 0,
                src_tile: elements as isize * size,
                src_row: line,
                src_col: size,
                rows: shape.rows(),
                cols: shape.cols(),
                ..*args
            };
            let scratch = bytemuck::cast_slice(self.scratch.tile());
            let to = to + first * args.dst_tile;
            if !plan.streams || tiles > 1 {
                plan.kernels.pack(codec, between, scratch, &packed, self.out.bytes(), to);
                continue;
            }
            let Block(block) = self.block.get_or_insert_with(Block::zero);
            plan.kernels.pack(codec, between, scratch, &packed, writable(block), 0);
            plan.kernels.stream(&block[..bytes], self.out, to);
        }
    }

    /// Puts the elements of one part of a tile, which begin at `at`, in their slots.
    fn gather(&mut self, part: &Gather, at: [i64; 3]) {
        let plan = self.plan;
        let Op::Convert(number, _) = plan.op else { return };
        let (outer, inner) = part.loops.split_at(part.loops.len().saturating_sub(2));
        let pick = |i: usize| inner.get(i).map_or((1, [0; 6]), |l| (l.n as usize, l.step));
        let ((rows, row), (cols, col)) = (pick(0), pick(1));
        let block = plan.src.codec.is_some();
        // Rows or columns that go from tile to tile of a block source are taken one by one.
        let steps_tiles = |s: AddressPair| s[0] != 0 || (block && s[1] != 0);
        let outer_iterations: u64 = outer.iter().map(|l| l.n).product();
        let (row_steps, col_steps) =
            (if steps_tiles(row) { rows } else { 1 }, if steps_tiles(col) { cols } else { 1 });
        for iteration in 0..outer_iterations {
            let mut rest = iteration;
            let mut base = [at[0], at[1], at[2], 0, 0, part.slot];
            for l in outer.iter().rev() {
                base = advance(base, l.step, (rest % l.n) as i64);
                rest /= l.n;
            }
            for r in 0..row_steps {
                for c in 0..col_steps {
                    let from = advance(advance(base, row, r as i64), col, c as i64);
                    let byte = (plan.src.space.unit_at(from[0]) + from[1]) as usize;
                    let (tile, source, first, by) = if block {
                        let one = TileRow { at: byte, tiles: 1, step: 0 };
                        let (tile, unpacked) = self.scratch.tile_and_unpacked(plan, self.source, one);
                        (tile, unpacked, from[2] as usize * 4, (2, 4))
                    } else {
                        (self.scratch.tile(), self.source, byte, (1, 1))
                    };
                    let tile = writable(bytemuck::cast_slice_mut(tile));
                    let w = Window {
                        rows: rows / row_steps,
                        cols: cols / col_steps,
                        src_row: (row[by.0] * by.1) as isize,
                        src_col: (col[by.0] * by.1) as isize,
                        dst_row: row[5] as isize * 4,
                        dst_col: col[5] as isize * 4,
                    };
                    plan.kernels.convert(number, Number::F32, source, first, tile, from[5] as usize * 4, &w);
                }
            }
        }
    }
}

/// Whether the kernel that packs takes 16-bit numbers without widening them first: a search reads each more than once.
fn packs_as_it_is(number: Number, codec: &BlockCodec) -> bool {
    matches!(number, Number::Bf16 | Number::F16) && !codec.options().search
}

/// Whether the kernel that packs reads these tiles at full speed: numbers that it widens itself, in rows.
fn reads_in_place(number: Number, args: &PackArgs) -> bool {
    let run = args.cols == 1 || args.src_col == number.size() as isize;
    run && matches!(number, Number::F32 | Number::Bf16 | Number::F16)
}
