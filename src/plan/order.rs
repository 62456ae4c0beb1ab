//! How a nest is walked: which loops a kernel gets, which are taken in blocks, and in which order.
//!
//! Stores decide the speed of a copy. An ordinary store to a line that is in no cache reads the line first; a
//! streamed store of whole lines does not, and is twice as fast. So the destination is made in *segments*, runs of
//! bytes that follow one another, each assembled in L1 and then written at once; and the segments are taken in the
//! order in which the source lies in memory. Where the source runs across segments (a transpose), a block of
//! segments is assembled together, so that whole lines are read as well.

use super::nest::{Gather, InPlace, Leaf, Loop, Nest};
use super::{Op, Side};

/// Bytes of a segment: long enough that memory sees whole pages worth of lines, short enough for L1.
const SEGMENT: i64 = 4096;

/// Bytes of a segment, and of the source lines across segments, where the source runs across them.
const LINES: i64 = 128;

/// Runs of the source at most this far apart, in bytes, are read together by the processor's own prefetch.
const STRETCH: i64 = 512;

/// The greatest block, in bytes, that is assembled at once; [`crate::run`] has this much scratch for each thread.
pub(crate) const MAX_BLOCK: usize = 16 << 10;

/// Sets how each nest is walked.
pub(crate) fn choose(nests: &mut [Nest], src: &Side, dst: &Side, op: Op) {
    for nest in nests {
        nest.blocks = vec![1; nest.loops.len()];
        nest.packed = nest.loops.iter().map(|l| l.step[4]).collect();
        nest.segment = nest.loops.len();
        nest.order = (0..nest.loops.len()).collect();
        match nest.leaf {
            Leaf::Fill => fill(nest, dst),
            Leaf::Pack(_) => pack(nest, src, dst),
            Leaf::Element => element(nest, src, dst, op),
        }
        // By source, then destination: the loop with the longest way in the source is outermost.
        let far = |i: &usize| {
            let s = nest.loops[*i].step;
            (s[0].unsigned_abs(), s[1].unsigned_abs(), s[2].unsigned_abs(), s[4])
        };
        let mut order = std::mem::take(&mut nest.order);
        if nest.leaf == Leaf::Element {
            order.sort_by_key(|i| std::cmp::Reverse(far(i)));
        }
        nest.order = order;
    }
}

/// A fill is runs of bytes: the innermost loop is the run, the next one the rows of a call.
fn fill(nest: &mut Nest, dst: &Side) {
    let Some(last) = nest.loops.len().checked_sub(1) else { return };
    if nest.loops[last].step[4] != dst.grain as i64 {
        return;
    }
    nest.cols = Some(last);
    nest.rows = last.checked_sub(1).filter(|&r| nest.loops[r].step[3] == 0);
}

/// Tiles that are packed from where they lie are taken in rows.
fn pack(nest: &mut Nest, src: &Side, dst: &Side) {
    let Leaf::Pack(parts) = &nest.leaf else { return };
    let cols = dst.codec.map_or(1, |c| c.tile().cols());
    nest.in_place = if src.codec.is_none() { in_place(parts, cols) } else { None };
    let lookup = |i: usize| nest.loops[i].step[3] != 0 || parts[0].moves[i][0] != 0;
    let row = nest.loops.len().checked_sub(1).filter(|&i| nest.in_place.is_some() && !lookup(i));
    if let Some(row) = row {
        nest.cols = Some(row);
        // A streamed row of tiles must be a run of bytes.
        if nest.loops[row].step[4] == dst.grain as i64 {
            nest.blocks[row] = nest.loops[row].n.min((SEGMENT / dst.grain as i64).max(1) as u64);
        }
    }
}

fn element(nest: &mut Nest, src: &Side, dst: &Side, op: Op) {
    let near = op.source_size() as i64;
    let block = src.codec.is_some();
    // A loop from unit to unit is not for a kernel, for units are looked up; nor is one from tile to tile.
    let fits = |l: &Loop| l.step[0] == 0 && l.step[3] == 0 && !(block && l.step[1] != 0);
    let contiguous = |l: &Loop| if block { l.step[2] == 1 } else { l.step[1] == near };
    let grain = dst.grain as i64;

    let runs = nest.loops.last().is_some_and(|l| contiguous(l) && l.n as i64 * near >= 16);
    let across =
        (0..nest.loops.len()).rev().find(|&i| !runs && fits(&nest.loops[i]) && contiguous(&nest.loops[i]));
    let target = if across.is_some() { LINES.max(grain) } else { SEGMENT };
    // The segment: loops from the innermost outward whose steps chain in the destination.
    let mut extent = grain;
    while let Some(i) = nest.segment.checked_sub(1) {
        let l = nest.loops[i];
        let room = (target / extent).max(1) as u64;
        if !fits(&l) || l.step[4] != extent || Some(i) == across || room == 1 && extent > grain {
            break;
        }
        nest.segment = i;
        nest.blocks[i] = l.n.min(room);
        extent *= nest.blocks[i] as i64;
        if nest.blocks[i] < l.n {
            break;
        }
    }
    // Loops of a block outside of the segment: those that fill what the segment leaves out between its runs of the
    // source, so that whole stretches of the source are read at once.
    let way = |i: usize| if block { nest.loops[i].step[2].abs() } else { nest.loops[i].step[1].abs() };
    let widest = (nest.segment..nest.loops.len()).map(way).max().unwrap_or(0);
    let mut between: Vec<usize> = (0..nest.segment)
        .filter(|&i| fits(&nest.loops[i]) && way(i) > 0 && (way(i) < widest || block))
        .collect();
    between.sort_by_key(|&i| way(i));
    let filled: u64 =
        between.iter().map(|&i| nest.loops[i].n).try_fold(1, u64::checked_mul).unwrap_or(u64::MAX);
    if across.is_none() && filled > 1 && widest > STRETCH && !between.is_empty() {
        // Shorter segments, so that a block holds more of them.
        let shortest = nest.blocks[nest.segment + 1..].iter().product::<u64>() * grain as u64;
        let wanted = (MAX_BLOCK as u64 / filled.min(32)).max(512) / shortest;
        nest.blocks[nest.segment] = nest.blocks[nest.segment].min(wanted.max(1));
        extent = (shortest * nest.blocks[nest.segment]) as i64;
    }
    let mut bytes = extent as u64;
    for i in between {
        let room = if across.is_some() { (LINES / near).max(1) as u64 } else { u64::MAX };
        let turns = nest.loops[i].n.min(MAX_BLOCK as u64 / bytes).min(room);
        if turns > 1 {
            nest.blocks[i] = turns;
            nest.packed[i] = bytes as i64;
            bytes *= turns;
        }
    }
    // Kernels take the innermost loop of a block and its longest; of a transpose, the two that run along.
    let inner = |i: &usize| nest.blocks[*i] > 1;
    nest.cols = (0..nest.loops.len()).rev().find(inner);
    let others = (0..nest.loops.len()).filter(|i| inner(i) && Some(*i) != nest.cols);
    nest.rows =
        across.filter(|i| inner(i) && Some(*i) != nest.cols).or(others.max_by_key(|&i| nest.blocks[i]));
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
