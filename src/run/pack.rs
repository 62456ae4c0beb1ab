//! Tiles of block formats: packed where they lie, or gathered first.

use kernels::{
    BlockCodec, Destination, Hints, MAX_OUTER_LOOPS, Number, OuterLoop, PackArgs, Segment, TileShape,
    UnpackArgs, Window,
};
use smallvec::SmallVec;

use super::assembly::Block;
use super::clip::{advance, linear, place};
use super::destination::writable;
use super::scratch::{Scratch, TileRow};
use super::slots::{self, SlotLoop};
use super::task::Task;
use crate::layout::axis::Addr;
use crate::plan::ir::{AddressPair, Gather, InPlace, LINE, Loop, MAX_BLOCK, ScheduledNest};
use crate::plan::{Op, Plan};

/// Bytes that are fetched of the tiles that are looked at next, for as many bytes that are copied: on Zen 4 1 KiB is a tenth slower, and
/// 8 KiB a sixth.
const COPIED: usize = 64 * LINE;

/// How many tiles are packed before it is asked again whether the next ones can be copied.
const TILES_PACKED: usize = 8;

/// The least bytes of a run of packed tiles that is stored past the caches: of shorter ones no line is whole.
const LEAST_STREAMED: usize = 2 * LINE;

/// The most runs of packed tiles that are put in their places by one call.
const SEGMENTS: usize = 32;

impl Task<'_, '_> {
    /// Packs a block of tiles, which begins at an iteration and at its address: a row of them where they lie, if a kernel can read them
    /// there, others as they are brought together. `later` is the iteration at which a block begins that is fetched meanwhile.
    pub(super) fn pack<const N: usize>(
        &mut self,
        nest: &ScheduledNest,
        parts: &[Gather],
        (first, address): (&[u64; N], &AddressPair),
        size: &[u64; N],
        later: Option<[u64; N]>,
    ) {
        let plan = self.plan;
        let (Some(codec), Op::Convert(number, _)) = (plan.dst.codec, plan.op) else { return };
        let row = nest.schedule.tiles;
        let to = self.places.turn(self.out, place(plan, *address));
        match (nest.schedule.in_place, parts) {
            (Some(tile), [part]) => {
                let codes = plan.conversion().rows_of_codes();
                let at = self.moved(part, first);
                let src_at = (plan.src.space.unit_at(at[0]) + at[1]) as usize;
                let moves = row.map_or([0; 3], |i| part.moves[i]);
                let args = PackArgs {
                    tiles: row.map_or(1, |i| size[i] as usize),
                    src_at,
                    src_tile: moves[1] as isize,
                    pad: plan.pad,
                    prefetch_distance: nest.schedule.prefetch_distance as isize,
                    dst_tile: row.map_or(plan.dst.block_bytes, |i| linear(plan, nest.loops[i].step) as usize),
                    ..tile.args()
                };
                let Task { out, block, scratch, source, source_begin, places, .. } = self;
                let mut pack = |args: &PackArgs, out: &mut Destination<'_>, to: usize| {
                    if let Some(from) = &codes {
                        let row = at[2] as usize / from.tile().cols();
                        return plan.kernels.pack_codes(&codec, (from, row), source, args, out, to);
                    }
                    if moves[0] == 0 || args.tiles == 1 {
                        return plan.kernels.pack(&codec, number, source, args, out, to);
                    }
                    // Tiles that are units of their own (V1).
                    let bytes = plan.src.space.unit_bytes as usize;
                    let first = ([at[0], -*source_begin], moves[0]);
                    let size = (args.tiles, bytes);
                    scratch.gathered.units(&plan.src.space, source, first, size, |brought, tiles| {
                        let src_at = (at[1] + *source_begin) as usize;
                        let (src_tile, to) = (bytes as isize, to + tiles.start * args.dst_tile);
                        let args = PackArgs { tiles: tiles.len(), src_at, src_tile, ..*args };
                        plan.kernels.pack(&codec, number, brought, &args, out, to);
                    });
                };
                match row.map(|i| nest.loops[i].step).filter(|step| step[3] != 0 && args.tiles > 1) {
                    None => pack(&args, out, to),
                    Some(step) => {
                        // Each tile goes to a unit of its own.
                        let bytes = plan.dst.block_bytes;
                        let Block(packed) = block.get_or_insert_with(Block::zero);
                        let packed = &mut packed[..args.tiles * bytes];
                        let args = PackArgs { dst_tile: bytes, ..args };
                        pack(&args, &mut Destination::cached(writable(packed)), 0);
                        for (t, tile) in packed.chunks_exact(bytes).enumerate() {
                            let at = advance(*address, step, t as i64);
                            let to = places.turn(out, place(plan, at));
                            plan.kernels.stream(tile, out, to);
                        }
                    }
                }
            }
            (None, [part]) if plan.conversion().maps_tiles(parts) => {
                self.copy_or_pack(nest, part, (first, address), size, to);
            }
            _ => self.pack_together(nest, parts, (first, address), size, to, later),
        }
    }

    /// Puts tiles of which the source has each: those that packing would give back are copied as they are, or made of the source's codes where
    /// these have another width.
    fn copy_or_pack<const N: usize>(
        &mut self,
        nest: &ScheduledNest,
        part: &Gather,
        (first, address): (&[u64; N], &AddressPair),
        size: &[u64; N],
        to: usize,
    ) {
        let plan = self.plan;
        let (Some(of_source), Some(codec)) = (plan.src.codec, plan.dst.codec) else { return };
        let (row, source, bytes) = (nest.schedule.tiles, self.source, codec.tile_bytes());
        let (tiles, moves, dst_tile) = row.map_or((1, [0; 3], bytes), |i| {
            (size[i] as usize, part.moves[i], linear(plan, nest.loops[i].step) as usize)
        });
        let parts = std::slice::from_ref(part);
        let room = plan.conversion().brought_together(parts).1;
        // Tiles that are looked at and copied at a time; one, where the next one may lie in any unit or in front.
        let follows = moves[0] == 0 && moves[1] >= 0;
        let most = if follows { tiles_together(bytes.max(of_source.tile_bytes())) } else { 1 };
        let (mut first, mut size, mut done) = (*first, *size, 0);
        let begin = row.map_or(0, |i| first[i]);
        while done < tiles {
            let [unit, byte, _] = self.moved(part, &first);
            let (from, to) = ((plan.src.space.unit_at(unit) + byte) as usize, to + done * dst_tile);
            let (step, ahead) = (moves[1].max(0) as usize, most.min(tiles - done));
            let next = from.wrapping_add(ahead.wrapping_mul(step));
            let Task { out, block, .. } = &mut *self;
            let (copied, made, at, apart) = if of_source == codec {
                (plan.kernels.canonical_tiles(&codec, source, from, step, ahead), source, from, step)
            } else {
                let Block(made) = block.get_or_insert_with(Block::zero);
                let count = plan.kernels.requantize(&of_source, &codec, source, from, step, ahead, made);
                (count, &made[..], 0, bytes)
            };
            // Tiles that follow one another on both sides are one run; where lines are stored past the caches, what is looked at next is
            // fetched meanwhile, a part of it for each part that is stored.
            let (runs, [read, written], run) = match (apart, dst_tile) == (bytes, bytes) {
                true => (1, [0; 2], copied * bytes),
                false => (copied, [apart, dst_tile], bytes),
            };
            let part = if plan.streams { COPIED } else { run.max(1) };
            // As many bytes of the source as so many of what is stored are made of.
            let looked_at = |stored: usize| stored.saturating_mul(step) / apart.max(1);
            for i in 0..runs {
                let to = to + i * written;
                for (k, stored) in made[at + i * read..][..run].chunks(part).enumerate() {
                    if plan.streams {
                        let behind = looked_at(i * read + k * part);
                        kernels::prefetch(source, next.saturating_add(behind), looked_at(stored.len()));
                    }
                    plan.kernels.stream(stored, out, to + k * part);
                }
            }
            done += copied;
            // Where one tile is not as packing makes it, the next ones may not be either.
            let others = if copied < ahead { TILES_PACKED.min(room).min(tiles - done) } else { 0 };
            if let Some(i) = row {
                (first[i], size[i]) = (begin + done as u64, others as u64);
            }
            if others > 0 {
                self.pack_together(nest, parts, (&first, address), &size, to + copied * dst_tile, None);
            }
            done += others;
            if let Some(i) = row {
                first[i] = begin + done as u64;
            }
        }
    }

    /// Where a part of a tile lies in some iteration of the nest, counted from where the source begins.
    fn moved<const N: usize>(&self, part: &Gather, iteration: &[u64; N]) -> Addr {
        let [unit, byte, slot] = part.src;
        part.moves.iter().zip(iteration).fold([unit, byte - self.source_begin, slot], |at, (step, &i)| {
            std::array::from_fn(|k| at[k] + step[k] * i as i64)
        })
    }

    /// Brings the tiles of a block together in L1, packs them there, and puts them in their places, which may be units of their own; tiles of
    /// which the source is the same are packed once. There is room for them (V1).
    fn pack_together<const N: usize>(
        &mut self,
        nest: &ScheduledNest,
        parts: &[Gather],
        (first, address): (&[u64; N], &AddressPair),
        size: &[u64; N],
        to: usize,
        later: Option<[u64; N]>,
    ) {
        let plan = self.plan;
        let (between, _) = plan.conversion().brought_together(parts);
        let Some(codec) = plan.dst.codec else { return };
        let (shape, bytes) = (codec.tile(), plan.dst.block_bytes);
        let tiles = Tiles::of(nest, parts, size, bytes);
        let count = tiles.count(size);
        let args = |lie: Lie| PackArgs {
            tiles: count,
            src_tile: lie.tile as isize * between.size() as isize,
            pad: plan.pad,
            dst_tile: bytes,
            ..lie.of_whole_tile(shape, between).args()
        };
        let lie = match parts {
            [part] if plan.src.codec.is_none() => {
                Lie::of(part, &tiles.read, shape, plan.op.source_size(), count)
                    .filter(|&lie| lie.row != 1 || args(lie).packs_columns(&codec, between))
            }
            _ => None,
        };
        let lie = lie.unwrap_or(Lie::tiles(shape));
        let elements = shape.elements();
        if parts.iter().map(Gather::elements).sum::<u64>() < elements as u64 {
            // Kernels read and write little-endian floats on every machine.
            let bytes: &mut [[u8; 4]] = bytemuck::cast_slice_mut(self.scratch.tiles());
            bytes[..count * elements].fill(plan.pad.to_le_bytes());
        }
        for part in parts {
            let at = self.moved(part, first);
            let place = |at: Addr| plan.src.space.unit_at(at[0]) + at[1];
            let distance = later.map_or(0, |later| place(self.moved(part, &later)) - place(at));
            let loops = tiles.loops(part, size, lie);
            self.gather(part, at, &loops, (between, lie), distance as isize);
        }
        let step = |i: usize| linear(plan, nest.loops[i].step) as isize;
        let (outer, run) = tiles.runs(size, bytes, step);
        let in_units = tiles.read.iter().any(|&(i, _)| nest.loops[i].step[3] != 0);
        let Task { scratch, out, block, places, .. } = self;
        let together = bytemuck::cast_slice(scratch.tiles());
        // Tiles of one run or of one loop are put in their places by the kernel.
        let dst_tile = match *outer {
            _ if in_units => None,
            [] => Some(bytes),
            [i] if run == bytes => Some(step(i) as usize),
            _ => None,
        };
        if let Some(dst_tile) = dst_tile.filter(|_| tiles.repeated.is_empty()) {
            let args = PackArgs { dst_tile, ..args(lie) };
            return plan.kernels.pack(&codec, between, together, &args, out, to);
        }
        // Packed tiles have fewer bytes than the numbers that they are made of.
        let Block(packed) = block.get_or_insert_with(Block::zero);
        let packed = &mut packed[..count * bytes];
        let near = &mut Destination::cached(writable(packed));
        plan.kernels.pack(&codec, between, together, &args(lie), near, 0);
        if !in_units {
            return tiles.put(plan, size, (packed, bytes), step, out, to);
        }
        let (mut at, mut done) = (*address, [0; N]);
        for tile in packed.chunks_exact(bytes) {
            let to = places.turn(out, place(plan, at));
            plan.kernels.stream(tile, out, to);
            tiles.read.iter().rev().any(|&(i, _)| {
                done[i] += 1;
                let by = if done[i] < size[i] { 1 } else { 1 - done[i] as i64 };
                at = advance(at, nest.loops[i].step, by);
                done[i] %= size[i];
                by == 1
            });
        }
    }

    /// Puts the elements of one part of some tiles, which begin at `at`, in their slots: `tiles` go from tile to tile. What lies `distance`
    /// further in the source is fetched meanwhile.
    fn gather(
        &mut self,
        part: &Gather,
        at: Addr,
        tiles: &[Loop],
        (between, lie): (Number, Lie),
        distance: isize,
    ) {
        let plan = self.plan;
        let Op::Convert(number, _) = plan.op else { return };
        let placed = |l: &Loop| Loop { step: lie.placed(l.step), ..*l };
        let loops = part.loops.iter().map(placed).chain(tiles.iter().copied()).filter(|l| l.n > 1);
        let loops = Loops::new(loops, plan.src.codec.as_ref(), between.size() as i64);
        let outer = &loops.outer[..loops.taken];
        let hints = Hints { prefetch_distance: distance, ..Hints::default() };
        let iterations: u64 = loops.outside.iter().map(|l| l.n).product();
        for mut rest in 0..iterations {
            let mut from = lie.placed([at[0], at[1], at[2], 0, 0, part.slot]);
            for l in loops.outside.iter().rev() {
                from = advance(from, l.step, (rest % l.n) as i64);
                rest /= l.n;
            }
            let (byte, to) =
                ((plan.src.space.unit_at(from[0]) + from[1]) as usize, from[5] as usize * between.size());
            if let Some(codec) = plan.src.codec
                && let Some(args) = slots::unpacking(codec.tile(), from[2] as usize, &loops.slots)
                && (args.dst_col == between.size() as isize || codec.options().transposed)
            {
                let TileRow { tiles, step: src_tile, .. } = loops.row;
                let dst_tile = loops.row_step as isize;
                let args = UnpackArgs { tiles, src_at: byte, src_tile, dst_at: to, dst_tile, ..args };
                let tile = &mut Destination::cached(writable(bytemuck::cast_slice_mut(self.scratch.tiles())));
                plan.kernels.unpack(&codec, between, self.source, &args, tile);
                continue;
            }
            let (tile, source, begin) = if plan.src.codec.is_some() {
                let row = TileRow { at: byte, ..loops.row };
                let (tile, unpacked) = self.scratch.tiles_and_unpacked(plan, self.source, row);
                (tile, unpacked, from[2] as usize * 4)
            } else {
                (self.scratch.tiles(), self.source, byte)
            };
            if !loops.outside.is_empty() && plan.streams {
                // Of rows in units of their own no kernel fetches what lies ahead.
                let read = loops.window.cols * loops.window.rows * plan.op.source_size();
                kernels::prefetch(source, begin.wrapping_add_signed(distance), read);
            }
            let tile = &mut Destination::cached(writable(bytemuck::cast_slice_mut(tile)));
            plan.kernels.convert_loops(number, between, source, begin, tile, to, &loops.window, outer, hints);
        }
    }
}

/// How many packed tiles of so many bytes are looked at together: as many as have room in a block, in whole lines if possible.
fn tiles_together(bytes: usize) -> usize {
    let (room, lines) = (MAX_BLOCK / bytes, LINE >> bytes.trailing_zeros().min(LINE.trailing_zeros()));
    if room < lines { room.max(1) } else { room - room % lines }
}

/// The loops over tiles of a block, the last one innermost: small tiles in the order of the destination, others in that of the source.
struct Tiles {
    /// Those of which each iteration reads other bytes: by how far, for the first part of a tile.
    read: SmallVec<[(usize, Addr); 8]>,
    /// Those of which all iterations read the same.
    repeated: SmallVec<[usize; 8]>,
}

impl Tiles {
    fn of<const N: usize>(nest: &ScheduledNest, parts: &[Gather], size: &[u64; N], bytes: usize) -> Tiles {
        let mut tiles = Tiles { read: SmallVec::new(), repeated: SmallVec::new() };
        for (k, &i) in nest.schedule.order.iter().enumerate() {
            let i = if bytes < LINE { k } else { i };
            match parts {
                _ if size[i] == 1 => {}
                [first, ..] if parts.iter().any(|part| part.moves[i] != [0; 3]) => {
                    tiles.read.push((i, first.moves[i]));
                }
                _ => tiles.repeated.push(i),
            }
        }
        tiles
    }

    /// How many tiles are brought together.
    fn count<const N: usize>(&self, size: &[u64; N]) -> usize {
        self.read.iter().map(|&(i, _)| size[i] as usize).product()
    }

    /// How a part goes from tile to tile, in the source and where tiles are brought together.
    fn loops<const N: usize>(&self, part: &Gather, size: &[u64; N], lie: Lie) -> SmallVec<[Loop; 8]> {
        let mut near = lie.tile;
        let one = |&(i, _): &(usize, Addr)| {
            let [unit, byte, slot] = part.moves[i];
            let l = Loop { n: size[i], step: [unit, byte, slot, 0, 0, near] };
            near = near.saturating_mul(size[i] as i64);
            l
        };
        self.read.iter().rev().map(one).collect()
    }

    /// The loops from run to run of tiles that follow one another in the destination, and the bytes of a run.
    fn runs<const N: usize>(
        &self,
        size: &[u64; N],
        bytes: usize,
        step: impl Fn(usize) -> isize,
    ) -> (SmallVec<[usize; 8]>, usize) {
        let (mut outer, mut run): (SmallVec<[usize; 8]>, _) =
            (self.read.iter().map(|&(i, _)| i).collect(), bytes);
        while let Some(&i) = outer.last().filter(|&&i| step(i) == run as isize) {
            run *= size[i] as usize;
            outer.pop();
        }
        (outer, run)
    }

    /// Puts tiles of so many bytes that were packed one behind the other in all of their places; the first goes to byte `to`.
    fn put<const N: usize>(
        &self,
        plan: &Plan,
        size: &[u64; N],
        (packed, bytes): (&[u8], usize),
        step: impl Fn(usize) -> isize + Copy,
        out: &mut Destination<'_>,
        to: usize,
    ) {
        if let Some((&i, others)) = self.repeated.split_last()
            && bytes < LINE
            && step(i) == bytes as isize
        {
            // Small tiles that follow one another are a pattern.
            let read: SmallVec<[usize; 8]> = self.read.iter().map(|&(i, _)| i).collect();
            return each(size, others, step, |offset| {
                let mut tiles = packed.chunks_exact(bytes);
                each(size, &read, step, |tile| {
                    let at = to.wrapping_add_signed(offset + tile);
                    let tile = tiles.next().unwrap_or_default();
                    plan.kernels.fill(tile, out.bytes(), at, 1, 0, bytes * size[i] as usize);
                });
            });
        }
        let (outer, run) = self.runs(size, bytes, step);
        let put = |out: &mut Destination<'_>| {
            each(size, &self.repeated, step, |offset| {
                let (mut segments, mut from) = (SmallVec::<[Segment; SEGMENTS]>::new(), 0);
                let at = to.wrapping_add_signed(offset);
                each(size, &outer, step, |to| {
                    if segments.len() == SEGMENTS {
                        plan.kernels.stream_segments(packed, &segments, out, at);
                        segments.clear();
                    }
                    segments.push(Segment { from, to, len: run });
                    from += run;
                });
                plan.kernels.stream_segments(packed, &segments, out, at);
            });
        };
        if run < LEAST_STREAMED { put(&mut Destination::cached(out.bytes())) } else { put(out) }
    }
}

/// Calls `visit` for each iteration of some loops of a block, the last one innermost, with how far the steps to it lead.
#[inline]
fn each<const N: usize>(
    size: &[u64; N],
    loops: &[usize],
    step: impl Fn(usize) -> isize,
    mut visit: impl FnMut(isize),
) {
    let (mut done, mut to) = ([0; N], 0_isize);
    loop {
        visit(to);
        let more = loops.iter().rev().any(|&i| {
            done[i] += 1;
            let by = if done[i] < size[i] { 1 } else { 1 - done[i] as isize };
            to += step(i) * by;
            done[i] %= size[i];
            by == 1
        });
        if !more {
            return;
        }
    }
}

/// How elements of tiles lie before they are packed: from row to row, from column to column, and from tile to tile, in elements.
#[derive(Clone, Copy)]
struct Lie {
    row: i64,
    col: i64,
    tile: i64,
    /// Columns of a tile.
    cols: i64,
}

impl Lie {
    /// One tile behind the other, row by row.
    fn tiles(shape: TileShape) -> Lie {
        let cols = shape.cols() as i64;
        Lie { row: cols, col: 1, tile: shape.elements() as i64, cols }
    }

    /// As a part of `count` tiles lies in the source, whose elements have `size` bytes: side by side where a loop goes to the tile behind
    /// each, so that rows are long; or column by column, each column of all blocks that have one row. `None` where loops go from row to row in
    /// a way of their own.
    fn of(
        part: &Gather,
        tiles: &[(usize, Addr)],
        shape: TileShape,
        size: usize,
        count: usize,
    ) -> Option<Lie> {
        let (rows, cols, apart) = (shape.rows() as i64, shape.cols() as i64, Lie::tiles(shape));
        if let ([column], [(_, below)]) = (&part.loops[..], tiles)
            && rows == 1
        {
            // Blocks one below the other whose columns are runs.
            let lies = column.n as i64 == cols && *below == [0, size as i64, 0];
            return lies.then_some(Lie { row: 1, col: count as i64, tile: 1, ..apart });
        }
        // Of loops inside of a row the last column; whole rows are loops of their own.
        let inside = part.loops.iter().filter(|l| l.step[5] % cols != 0);
        let reach = |last: i64, l: &Loop| last.saturating_add((l.n as i64 - 1).saturating_mul(l.step[5]));
        let fits = rows > 1 && inside.fold(part.slot % cols, reach) < cols;
        let step = |slots: i64| part.loops.iter().find(|l| l.step[5] == slots).map(Loop::src);
        let [along, across] = [step(1), step(cols)];
        let run = |of: Option<Addr>| of == Some([0, size as i64, 0]);
        let follows = |elements: i64| {
            let moves = [0, elements.saturating_mul(size as i64), 0];
            tiles.iter().any(|tile| tile.1 == moves)
        };
        match (run(along), run(across)) {
            _ if !fits => None,
            (true, _) if follows(cols) => Some(Lie { row: count as i64 * cols, tile: cols, ..apart }),
            (_, true) if follows(rows) => Some(Lie { row: 1, col: count as i64 * rows, tile: rows, ..apart }),
            (_, true) => Some(Lie { row: 1, col: rows, ..apart }),
            _ => None,
        }
    }

    /// What a kernel reads of a whole tile of such numbers.
    fn of_whole_tile(self, shape: TileShape, number: Number) -> InPlace {
        let near = number.size() as isize;
        let (rows, cols) = (shape.rows(), shape.cols());
        InPlace {
            rows,
            cols,
            src_row: self.row as isize * near,
            src_col: self.col as isize * near,
            faces: None,
        }
    }

    /// An address with its slot as it lies here.
    fn placed(&self, at: AddressPair) -> AddressPair {
        let slot = at[5] / self.cols * self.row + at[5] % self.cols * self.col;
        [at[0], at[1], at[2], at[3], at[4], slot]
    }
}

/// The loops of a part of some tiles: what one kernel call takes, and what is walked around it.
struct Loops {
    window: Window,
    outer: [OuterLoop; MAX_OUTER_LOOPS],
    taken: usize,
    /// Loops from unit to unit, and those from tile to tile of a block source but for one.
    outside: SmallVec<[Loop; 12]>,
    /// The tiles of a block source that are unpacked for one call, and how far apart their elements go.
    row: TileRow,
    row_step: i64,
    /// The loops over slots of a tile of a block source.
    slots: SmallVec<[SlotLoop; 12]>,
}

impl Loops {
    /// For loops of more than one iteration over a source in tiles of `codec`, and slots of `size` bytes.
    fn new(loops: impl Iterator<Item = Loop>, codec: Option<&BlockCodec>, size: i64) -> Loops {
        let (mut row, mut row_step) = (TileRow { at: 0, tiles: 1, step: 0 }, 0);
        let mut slots = SmallVec::new();
        let mut outside: SmallVec<[Loop; 12]> = SmallVec::new();
        // Iterations, bytes of the source (or of what was unpacked of it), bytes of the slots.
        let mut inside: SmallVec<[(u64, i64, i64); 12]> = SmallVec::new();
        for mut l in loops {
            let far = l.step[5].saturating_mul(size);
            let near = match codec {
                _ if l.step[0] != 0 => None,
                None => Some(l.step[1]),
                Some(_) if l.step[1] == 0 => Some(l.step[2].saturating_mul(4)),
                Some(codec) => {
                    let elements = codec.tile().elements();
                    let suits = row.tiles == 1 && l.step[1] > 0 && l.step[2] == 0;
                    suits.then(|| {
                        let (first, rest) = part_of(l, Scratch::ROOM / elements);
                        row = TileRow { at: 0, tiles: first.n as usize, step: first.step[1] as usize };
                        row_step = far;
                        outside.extend(rest);
                        l = first;
                        elements as i64 * 4
                    })
                }
            };
            match near {
                Some(near) if inside.len() < MAX_OUTER_LOOPS + 2 => {
                    inside.push((l.n, near, far));
                    if codec.is_some() && l.step[1] == 0 {
                        slots.push((l.n as usize, l.step[2] as isize, far as isize));
                    }
                }
                _ => outside.push(l),
            }
        }
        let (window, rest) = split(&mut inside, size);
        let mut outer = [OuterLoop::default(); MAX_OUTER_LOOPS];
        for (outer, &(n, src, dst)) in outer.iter_mut().zip(rest) {
            *outer = OuterLoop { n: n as usize, src: src as isize, dst: dst as isize };
        }
        Loops { window, outer, taken: rest.len(), outside, row, row_step, slots }
    }
}

/// The first iterations of a loop, as many as divide it into equal parts of at most so many, and the loop from part to part, if there are
/// others.
fn part_of(l: Loop, most: usize) -> (Loop, Option<Loop>) {
    let n = (1..=l.n.min(most as u64)).rev().find(|n| l.n.is_multiple_of(*n)).unwrap_or(1);
    let parts = Loop { n: l.n / n, step: l.step.map(|step| step.saturating_mul(n as i64)) };
    (Loop { n, ..l }, Some(parts).filter(|parts| parts.n > 1))
}

/// A window of two of the loops (iterations, bytes of the source, bytes of the slots), and the others: its columns are the
/// run of slots, its rows the run of the source, if that is another loop, else the longest.
fn split(loops: &mut SmallVec<[(u64, i64, i64); 12]>, size: i64) -> (Window, &[(u64, i64, i64)]) {
    loops.sort_by_key(|&(.., dst)| std::cmp::Reverse(dst));
    loops.dedup_by(|inner, outer| {
        let n = inner.0 as i64;
        let chain = (outer.1, outer.2) == (inner.1.saturating_mul(n), inner.2.saturating_mul(n));
        if chain {
            *outer = (outer.0 * inner.0, inner.1, inner.2);
        }
        chain
    });
    let cols = loops.pop().unwrap_or((1, size, size));
    let run = loops.iter().position(|&(_, src, _)| cols.1 != size && src == size);
    let rows = run.or_else(|| (0..loops.len()).max_by_key(|&i| loops[i].0));
    let rows = rows.map_or((1, 0, 0), |i| loops.remove(i));
    let window = Window {
        rows: rows.0 as usize,
        cols: cols.0 as usize,
        src_row: rows.1 as isize,
        src_col: cols.1 as isize,
        dst_row: rows.2 as isize,
        dst_col: cols.2 as isize,
    };
    (window, loops)
}

#[cfg(test)]
mod tests {
    use kernels::{BlockFormat, BlockOptions};

    use super::*;
    use crate::family::{Descriptor, Placement, Tensor};
    use crate::run::{Inline, reference};
    use crate::{DType, Options, Plan};

    /// Every code in every place of a group of sixteen, among others of all kinds.
    #[test]
    fn e4m3_is_packed_as_by_the_rule() {
        let tensor = Tensor { shape: vec![128, 128], dtype: DType::F32 };
        let layout = |text: &str| {
            let descriptor: Descriptor = text.parse().unwrap();
            descriptor.layout(&tensor, &Placement::default()).unwrap()
        };
        let source: Vec<u8> = (0..128 * 128_u32).map(|i| (i * 37 + i / 256 * 11 + i / 4096) as u8).collect();
        for name in ["bfloat8_b", "bfloat4_b", "mxfp8_e4m3", "mxint8"] {
            for from in ["memref<128x128xf8E4M3FN>", "memref<128x128xf8E4M3FN, strided<[1, 128]>>"] {
                let (from, to) = (layout(from), layout(&format!("ttnn(dtype={name}, layout=TILE)")));
                let options = Options::default();
                let plan = Plan::compile(&from, &to, &options).unwrap();
                let mut packed = vec![0; plan.destination_bytes()];
                plan.execute_on(&Inline, &source, &mut packed).unwrap();
                assert!(packed == reference(&from, &to, &options, &source).unwrap(), "{name}: {plan}");
            }
        }
    }

    /// Blocks that become whole tiles, and those of which parts do, or less than 32 columns; blocks of another format; rows of tiles that become
    /// blocks, in order and not. All at once, and by chunks.
    #[test]
    fn rows_of_codes_are_packed_as_by_the_rule() {
        let blocks = |cols: u64, format: &str| format!("memref<64x{cols}x{format}>");
        let tiles = |of: &str| format!("ttnn({of}, layout=TILE)");
        let mut read = 0;
        for cols in [128, 96, 100, 2048] {
            let to_tiles = [
                "dtype=bfloat8_b",
                "dtype=bfloat4_b, tile=(16, 32)",
                "dtype=mxfp8_e4m3",
                "dtype=mxint4, tile=(8, 32)",
                "dtype=bfloat8_b, tile=(32, 16)",
                "dtype=bfp8_a",
                "dtype=bfloat8_b, transpose_tile=True",
                "dtype=bfloat8_b, memory=INTERLEAVED, banks=3, alignment=64",
            ];
            let to_blocks = [
                "dtype=bfloat8_b",
                "dtype=mxfp8_e4m3",
                "dtype=mxfp8_e4m3, tile=(16, 32)",
                "dtype=bfloat8_b, tile=(1, 32)",
                "dtype=bfloat8_b, tile=(32, 16)",
                "dtype=bfloat8_b, transpose_tile=True",
                "dtype=mxfp8_e4m3, memory=INTERLEAVED, banks=3, alignment=64",
                "dtype=bfloat4_b",
            ];
            let pairs = to_tiles.iter().map(|to| (blocks(cols, "mxfp8_e4m3"), tiles(to)));
            let pairs = pairs.chain(to_blocks.iter().map(|from| (tiles(from), blocks(cols, "mxfp8_e4m3"))));
            let pairs = pairs.chain([(blocks(cols, "mxfp8_e4m3"), blocks(cols, "mxint8"))]);
            for (from, to) in pairs {
                read += usize::from(packs_rows_of_codes(cols, &from, &to));
            }
        }
        assert!(read >= 25, "{read}");
    }

    /// Whether the plan of one layout to another, by which the right bytes are made, reads tiles where they lie.
    fn packs_rows_of_codes(cols: u64, from: &str, to: &str) -> bool {
        let tensor = Tensor { shape: vec![64, cols], dtype: DType::F32 };
        let layout = |text: &str| {
            let descriptor: Descriptor = text.parse().unwrap();
            descriptor.layout(&tensor, &Placement::default()).unwrap()
        };
        let (from, to, options) = (layout(from), layout(to), Options::default());
        // Scales are among codes here, so that some are any.
        let source: Vec<u8> = (0..from.total_bytes() as u32)
            .map(
                |i| if i % 33 == 0 || i % 1088 < 64 { 120 + i / 33 % 7 } else { i * 37 + i / 256 * 11 } as u8,
            )
            .collect();
        let plan = Plan::compile(&from, &to, &options).unwrap();
        let mut packed = vec![0; plan.destination_bytes()];
        plan.execute_on(&Inline, &source, &mut packed).unwrap();
        let want = reference(&from, &to, &options, &source).unwrap();
        assert!(packed == want, "{plan}");
        let chunk = plan.chunk_alignment().max(1) * 7;
        for begin in (0..want.len()).step_by(chunk) {
            let end = (begin + chunk).min(want.len());
            let mut part = vec![0; end - begin];
            let window = plan.source_window(begin..end).unwrap();
            let first = window.start;
            plan.execute_chunk_from_window(&source[window], first, begin..end, &mut part).unwrap();
            assert!(part == want[begin..end], "{begin}..{end} of {plan}");
        }
        plan.nests.iter().any(|nest| nest.schedule.in_place.is_some())
    }

    fn one(n: u64, byte: i64, slot: i64) -> Loop {
        Loop { n, step: [0, byte, 0, 0, 0, slot] }
    }

    #[test]
    fn faces_of_some_tiles_are_one_call() {
        // Tiles of 2 x 2 faces of 16 x 16 elements of two bytes, into rows of 32 elements.
        let faces = [one(2, 1024, 512), one(16, 32, 32), one(2, 512, 16), one(16, 2, 1), one(4, 2048, 1024)];
        let loops = Loops::new(faces.into_iter(), None, 2);
        assert!(loops.outside.is_empty());
        let Window { rows, cols, src_row, src_col, dst_row, dst_col } = loops.window;
        assert_eq!((rows, cols, src_row, src_col, dst_row, dst_col), (16, 16, 32, 2, 64, 2));
        // Rows of faces follow one another from tile to tile.
        let outer = &loops.outer[..loops.taken];
        let expect = [(8, 1024, 1024), (2, 512, 32)].map(|(n, src, dst)| OuterLoop { n, src, dst });
        assert_eq!(outer, expect);
    }

    #[test]
    fn more_tiles_of_a_block_source_than_there_is_room_for_are_equal_parts() {
        let codec = BlockCodec::new(BlockFormat::Bfp8B, TileShape::DEFAULT, BlockOptions::default()).unwrap();
        for (tiles, calls, each) in [(3, 1, 3), (8, 2, 4), (9, 3, 3), (7, 7, 1)] {
            let slots = Loop { n: 1024, step: [0, 0, 1, 0, 0, 1] };
            let Loops { row, row_step, outside, .. } =
                Loops::new([slots, one(tiles, 1088, 1024)].into_iter(), Some(&codec), 2);
            assert_eq!((row.tiles, row.step, row_step), (each, 1088, 2048));
            let parts = one(calls, 1088 * each as i64, 1024 * each as i64);
            let got = outside.first().map_or((1, parts.step), |l| (l.n, l.step));
            assert_eq!((outside.len(), got), (usize::from(calls > 1), (calls, parts.step)));
        }
    }

    #[test]
    fn transposed_tiles_are_one_window() {
        let tiles = [one(32, 2, 32), one(32, 8192, 1), one(4, 64, 1024)];
        let loops = Loops::new(tiles.into_iter(), None, 2);
        let Window { rows, cols, src_row, src_col, .. } = loops.window;
        assert_eq!((rows, cols, src_row, src_col, loops.taken), (128, 32, 2, 8192, 0));
    }

    #[test]
    fn units_are_walked_around_a_call() {
        let pages = [Loop { n: 32, step: [1, 0, 0, 0, 0, 32] }, one(32, 2, 1), one(2, 64, 1024)];
        let loops = Loops::new(pages.into_iter(), None, 2);
        assert_eq!((loops.outside.len(), loops.window.rows, loops.window.cols), (1, 2, 32));
    }
}
