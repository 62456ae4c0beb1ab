//! Kernel calls for a block of elements.

use kernels::{Cast, Destination, MAX_OUTER_LOOPS, Number, OuterLoop, TileShape, UnpackArgs, Window};

use super::clip::advance;
use super::memory::writable;
use crate::plan::nest::{AddressPair, Nest};
use crate::plan::{MAX_LOOPS, Misfit, Op, Plan};

/// The kernel calls for blocks of one size: which loops a call takes, and which are walked around it.
pub(super) struct Calls<'p> {
    plan: &'p Plan,
    nest: &'p Nest,
    /// How many turns of each loop a block has.
    size: [u64; MAX_LOOPS],
    rows: (u64, AddressPair, i64),
    cols: (u64, AddressPair, i64),
    tiles: (u64, AddressPair, i64),
    outer: [OuterLoop; MAX_OUTER_LOOPS],
    taken: usize,
    outside: [usize; MAX_LOOPS],
    left: usize,
    prefetch_distance: isize,
}

impl<'p> Calls<'p> {
    pub(super) fn new(plan: &'p Plan, nest: &'p Nest, size: [u64; MAX_LOOPS]) -> Calls<'p> {
        let walk = &nest.walk;
        let steps = |i: usize| step(nest, i);
        let pick = |i: Option<usize>| i.map_or((1, [0; 6], 0), |i| (size[i], nest.loops[i].step, steps(i)));
        let mut outer = [OuterLoop::default(); MAX_OUTER_LOOPS];
        let mut taken = 0;
        let mut outside = [0; MAX_LOOPS];
        let mut left = 0;
        let takes = matches!(plan.op, Op::Copy(_) | Op::Convert(..)) && plan.src.codec.is_none();
        for &i in walk.within.iter().rev() {
            let l = &nest.loops[i];
            if size[i] == 1 || [walk.rows, walk.cols, walk.tiles].contains(&Some(i)) {
                continue;
            }
            if takes && taken < MAX_OUTER_LOOPS && l.step[0] == 0 && left == 0 {
                taken += 1;
                outer[MAX_OUTER_LOOPS - taken] =
                    OuterLoop { n: size[i] as usize, src: l.step[1] as isize, dst: steps(i) as isize };
            } else {
                outside[left] = i;
                left += 1;
            }
        }
        let (rows, cols, tiles) = (pick(walk.rows), pick(walk.cols), pick(walk.tiles));
        // What is read as it lies is fetched by the processor itself; where runs that go at once lie apart, the fourth from
        // here is fetched.
        let run = nest.loops.last().map_or(0, |run| run.n as i64 * run.step[1]);
        let next =
            walk.within.iter().rev().skip(1).find(|&&i| size[i] > 1).map_or(0, |&i| nest.loops[i].step[1]);
        let prefetch_distance = match walk.ahead {
            0 if next != run && !walk.assembled => next.saturating_mul(4),
            ahead => ahead,
        } as isize;
        Calls { plan, nest, size, prefetch_distance, rows, cols, tiles, outer, taken, outside, left }
    }

    pub(super) fn size(&self) -> &[u64; MAX_LOOPS] {
        &self.size
    }

    /// Puts the block that begins at `at` to byte `to` of a destination.
    pub(super) fn run(
        &self,
        source: &[u8],
        carry: &mut Carry,
        mut at: AddressPair,
        out: &mut Destination<'_>,
        to: usize,
    ) {
        let mut to = to as i64;
        let mut turn = [0_u64; MAX_LOOPS];
        loop {
            self.call(source, carry, at, out, to as usize);
            let more = self.outside[..self.left].iter().any(|&i| {
                turn[i] += 1;
                let by = if turn[i] < self.size[i] { 1 } else { 1 - turn[i] as i64 };
                at = advance(at, self.nest.loops[i].step, by);
                to += step(self.nest, i) * by;
                turn[i] %= self.size[i];
                by == 1
            });
            if !more {
                return;
            }
        }
    }

    /// One kernel call.
    fn call(&self, source: &[u8], carry: &mut Carry, at: AddressPair, out: &mut Destination<'_>, to: usize) {
        let plan = self.plan;
        let ((rows, row, dst_row), (cols, col, dst_col)) = (self.rows, self.cols);
        let window = |k: usize| Window {
            rows: rows as usize,
            cols: cols as usize,
            src_row: row[k] as isize,
            src_col: col[k] as isize,
            dst_row: dst_row as isize,
            dst_col: dst_col as isize,
        };
        let outer = &self.outer[MAX_OUTER_LOOPS - self.taken..];
        let from = (plan.src.space.unit_at(at[0]) + at[1]) as usize;
        match (plan.src.codec, plan.op) {
            (Some(codec), Op::Convert(number, into)) => {
                let (tiles, step, dst_tile) = self.tiles;
                let w = window(2);
                if let Some(args) = rectangle(from, at[2], to, &w, codec.tile().cols()) {
                    let (tiles, src_tile, dst_tile) = (tiles as usize, step[1] as usize, dst_tile as isize);
                    let args = UnpackArgs { tiles, src_tile, dst_tile, ..args };
                    return plan.kernels.unpack(&codec, into, source, &args, out.bytes());
                }
                let w = Window { src_row: w.src_row * 4, src_col: w.src_col * 4, ..w };
                for t in 0..tiles as i64 {
                    let (from, to) =
                        (from + (t * step[1]) as usize, to.wrapping_add_signed((t * dst_tile) as isize));
                    let tile = carry.unpacked(plan, source, from);
                    plan.kernels.convert(number, into, tile, at[2] as usize * 4, out.bytes(), to, &w);
                }
            }
            (_, Op::Convert(number, into)) => {
                plan.kernels.convert_loops(
                    number,
                    into,
                    source,
                    from,
                    out.bytes(),
                    to,
                    &window(1),
                    outer,
                    self.prefetch_distance,
                );
            }
            (_, Op::Cast { cast, strict }) => {
                let fits = plan.kernels.cast(cast, source, from, out.bytes(), to, &window(1));
                if strict && !fits {
                    let all = misfits(plan, source, cast, at, (rows, row), (cols, col));
                    carry.misfit = all.fold(carry.misfit, Misfit::earlier);
                }
            }
            (_, Op::Copy(size)) => {
                let distance = self.prefetch_distance;
                plan.kernels.copy_loops(size, source, from, out, to, &window(1), outer, distance);
            }
        }
    }
}

/// How far a loop steps in the destination of calls: in the block, where one is assembled.
fn step(nest: &Nest, i: usize) -> i64 {
    if nest.walk.assembled { nest.walk.packed[i] } else { nest.loops[i].step[4] }
}

/// What kernel calls leave to later ones. It is made on the stack when it is first needed, for to clear it costs as much as
/// to move a small tensor.
#[derive(Default)]
pub(super) struct Carry {
    tiles: Option<Tiles>,
    /// Where the tile that was unpacked last begins.
    unpacked_at: Option<usize>,
    /// The first value that did not fit its destination.
    pub(super) misfit: Option<Misfit>,
}

/// Tiles of a block format on their way, row by row.
struct Tiles {
    /// One to be packed.
    tile: [f32; TileShape::MAX_ELEMENTS],
    /// The last one of the source that was unpacked.
    unpacked: [f32; TileShape::MAX_ELEMENTS],
}

impl Tiles {
    fn zero() -> Tiles {
        Tiles { tile: [0.0; TileShape::MAX_ELEMENTS], unpacked: [0.0; TileShape::MAX_ELEMENTS] }
    }
}

impl Carry {
    /// The elements of a tile to be packed.
    pub(super) fn tile(&mut self) -> &mut [f32] {
        &mut self.tiles.get_or_insert_with(Tiles::zero).tile
    }

    /// The same, and the tile of the source at a byte, unpacked.
    pub(super) fn tile_and_unpacked(&mut self, plan: &Plan, source: &[u8], at: usize) -> (&mut [f32], &[u8]) {
        let Tiles { tile, unpacked } = self.tiles.get_or_insert_with(Tiles::zero);
        (tile, unpack(plan, source, unpacked, &mut self.unpacked_at, at))
    }

    /// The tile of the source at a byte, unpacked unless it is the last one that was.
    fn unpacked(&mut self, plan: &Plan, source: &[u8], at: usize) -> &[u8] {
        self.tile_and_unpacked(plan, source, at).1
    }
}

/// Every value that does not fit of a window of elements, which begins at `at`.
fn misfits<'s>(
    plan: &Plan,
    source: &'s [u8],
    cast: Cast,
    at: AddressPair,
    (rows, row): (u64, AddressPair),
    (cols, col): (u64, AddressPair),
) -> impl Iterator<Item = Misfit> + use<'s> {
    // No loop of a window goes from unit to unit.
    let (from, to) = (plan.src.space.unit_at(at[0]) + at[1], plan.dst.space.unit_at(at[3]) + at[4]);
    let size = cast.source_size();
    let turns = (0..rows as i64).flat_map(move |r| (0..cols as i64).map(move |c| (r, c)));
    turns.filter_map(move |(r, c)| {
        let from = (from + row[1] * r + col[1] * c) as usize;
        let mut code = [0; 8];
        code[..size].copy_from_slice(&source[from..from + size]);
        let bits = u64::from_le_bytes(code);
        let misfit = Misfit { at: (to + row[4] * r + col[4] * c) as u64, bits };
        (!cast.apply(bits).1).then_some(misfit)
    })
}

/// The rectangle of a tile that a window over its slots is, if it is one.
fn rectangle(src_at: usize, slot: i64, dst_at: usize, w: &Window, tile_cols: usize) -> Option<UnpackArgs> {
    let (row0, col0) = (slot as usize / tile_cols, slot as usize % tile_cols);
    let line = tile_cols as isize;
    let args = UnpackArgs {
        tiles: 1,
        src_at,
        src_tile: 0,
        row0,
        col0,
        rows: w.rows,
        cols: w.cols,
        dst_at,
        dst_tile: 0,
        dst_row: w.dst_row,
        dst_col: w.dst_col,
    };
    let along = |n: usize, step: isize, by: isize| n == 1 || step == by;
    if along(w.rows, w.src_row, line) && along(w.cols, w.src_col, 1) && col0 + w.cols <= tile_cols {
        Some(args)
    } else if along(w.rows, w.src_row, 1) && along(w.cols, w.src_col, line) && col0 + w.rows <= tile_cols {
        let (rows, cols, dst_row, dst_col) = (w.cols, w.rows, w.dst_col, w.dst_row);
        Some(UnpackArgs { rows, cols, dst_row, dst_col, ..args })
    } else if w.rows == 1 && w.src_col == 1 && col0 == 0 && w.cols.is_multiple_of(tile_cols) {
        // Rows that follow one another in the destination are one loop.
        let (rows, cols) = (w.cols / tile_cols, tile_cols);
        Some(UnpackArgs { rows, cols, dst_row: w.dst_col * line, ..args })
    } else {
        None
    }
}

/// The tile of the source at a byte, unpacked unless it is the last one that was.
fn unpack<'s>(
    plan: &Plan,
    source: &[u8],
    unpacked: &'s mut [f32],
    unpacked_at: &mut Option<usize>,
    at: usize,
) -> &'s [u8] {
    if let Some(codec) = plan.src.codec
        && *unpacked_at != Some(at)
    {
        let tile = codec.tile();
        let args = UnpackArgs {
            tiles: 1,
            src_at: at,
            src_tile: 0,
            row0: 0,
            col0: 0,
            rows: tile.rows(),
            cols: tile.cols(),
            dst_at: 0,
            dst_tile: 0,
            dst_row: tile.cols() as isize * 4,
            dst_col: 4,
        };
        let out = writable(bytemuck::cast_slice_mut(unpacked));
        plan.kernels.unpack(&codec, Number::F32, source, &args, out);
        *unpacked_at = Some(at);
    }
    bytemuck::cast_slice(unpacked)
}
