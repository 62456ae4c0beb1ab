//! How a nest is walked: which loops a kernel gets, which are taken in blocks, and in which order.
//!
//! Memory decides the speed of a copy. An ordinary store to a line that is in no cache reads the line first; a store
//! past the caches does not, and is twice as fast, if whole lines are written one soon after the other. And memory
//! likes its bytes in long runs. So the destination is made in *segments*, runs of bytes that follow one another, and
//! where the source runs across segments, blocks of segments are made together, so that the source too is read in
//! whole lines and long runs.
//!
//! - Elements that are whole aligned pieces (a row of a face, a stick) go from source to destination at once.
//! - All others (transposes, conversions, ragged rows) are assembled in L1, a block at a time, and written from there;
//!   what later blocks read is on its way meanwhile.

use super::nest::{Gather, InPlace, Leaf, Loop, Nest};
use super::{Endpoint, Op};

/// Bytes of a segment whose lines are gathered from the whole of its source: a page. Half of it costs a tenth of the speed
/// of untilizing.
const SEGMENT: i64 = 4096;

/// Bytes of the source of a block of such segments: what stays in L2.
const MAX_SOURCE: u64 = 128 << 10;

/// Bytes of a run, on both sides, where the source is read as it lies: with 16 KiB tiles are a fifth slower.
const RUN: i64 = 64 << 10;

/// Bytes of the destination that are written together there: two lines. With one, tiles are a fifth slower.
const PAIR: i64 = 128;

/// Bytes from what is read to what is fetched meanwhile, where many rows of the source are read by turns.
const AHEAD: i64 = 256;

/// Bytes that stores past the caches write as one.
const PIECE: i64 = 32;

/// Bytes of a segment that is assembled first. Reading one block and writing another overlap in the processor as far as
/// it looks ahead, which is about this much: twice of it costs a quarter of the speed.
const ASSEMBLED: i64 = 2048;

/// Bytes of the source that are on their way while it is assembled.
const ASSEMBLED_AHEAD: i64 = 16 << 10;

/// Bytes of tiles that are packed by one call. With a page of them bf16 is an eighth slower.
const PACKED: i64 = 8 << 10;

/// Bytes of a segment where the source runs across segments.
const ACROSS: i64 = 512;

/// Bytes of a cache line.
const LINE: i64 = 64;

/// The greatest block, in bytes, that is assembled at once; [`crate::run`] has this much scratch for each thread.
pub(crate) const MAX_BLOCK: usize = 16 << 10;

/// How a nest is walked when it runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Walk {
    /// Whether blocks of elements are assembled before they are written.
    pub(crate) assembled: bool,
    /// The loop that is the rows of a kernel's window, if any.
    pub(crate) rows: Option<usize>,
    /// The loop that is the columns of a kernel's window, if any.
    pub(crate) cols: Option<usize>,
    /// The loop from tile to tile of a block format that one kernel call takes, if any.
    pub(crate) tiles: Option<usize>,
    /// The order in which blocks are walked, outermost loop first.
    pub(crate) order: Vec<usize>,
    /// The order inside of a block.
    pub(crate) within: Vec<usize>,
    /// How many turns of each loop a block has.
    pub(crate) blocks: Vec<u64>,
    /// How far apart these turns are while they are assembled, in bytes.
    pub(crate) packed: Vec<i64>,
    /// The first loop of those that step inside of a segment.
    pub(crate) segment: usize,
    /// How many turns of the segment's loop a block reaches beyond its own, so that a segment can end where a line of the
    /// destination does; part of the source is then read twice, but no line written twice. A line's worth, or 0.
    pub(crate) reach: u64,
    /// Bytes from what is read to what is fetched meanwhile; 0 for nothing, or for [`crate::run`] to say where elements go
    /// at once.
    pub(crate) ahead: i64,
}

impl Walk {
    /// One turn after the other, in the order of the destination.
    fn new(loops: &[Loop]) -> Walk {
        let natural: Vec<usize> = (0..loops.len()).collect();
        Walk {
            blocks: vec![1; loops.len()],
            packed: loops.iter().map(|l| l.step[4]).collect(),
            segment: loops.len(),
            order: natural.clone(),
            within: natural,
            ..Walk::default()
        }
    }
}

/// Sets how each nest is walked; `streams`: the destination is written past the caches.
pub(crate) fn choose(nests: &mut [Nest], src: &Endpoint, dst: &Endpoint, op: Op, streams: bool) {
    for nest in nests {
        let walk = Walk::new(&nest.loops);
        nest.walk = match &nest.leaf {
            Leaf::Fill => fill(&nest.loops, dst, walk),
            Leaf::Pack(parts) => {
                let cols = dst.codec.map_or(1, |c| c.tile().cols());
                nest.in_place = if src.codec.is_none() { in_place(parts, cols) } else { None };
                pack(&nest.loops, parts, nest.in_place.is_some(), dst, streams, walk)
            }
            Leaf::Element if streams && direct(&nest.loops, src, op) => pieces(&mut nest.loops, dst),
            Leaf::Element => {
                let (walk, segment) = assembled(&nest.loops, src, dst, op, walk);
                // What has not a line in one place is not worth it.
                if streams && segment >= LINE { walk } else { cached(&nest.loops, src, walk) }
            }
        };
    }
}

/// By the way in the source, the longest outermost: so the source is read in the order in which it lies.
fn by_source(loops: &[Loop]) -> Vec<usize> {
    let far = |i: &usize| {
        let s = loops[*i].step;
        (s[0].unsigned_abs(), s[1].unsigned_abs(), s[2].unsigned_abs(), s[4])
    };
    let mut order: Vec<usize> = (0..loops.len()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(far(i)));
    order
}

/// Whether a loop is for a kernel: one from unit to unit is not, for units are looked up.
fn fits(l: &Loop) -> bool {
    l.step[0] == 0 && l.step[3] == 0
}

/// A fill is runs of bytes: the innermost loop is the run, the next one the rows of a call.
fn fill(loops: &[Loop], dst: &Endpoint, mut walk: Walk) -> Walk {
    let Some(last) = loops.len().checked_sub(1) else { return walk };
    if loops[last].step[4] == dst.block_bytes as i64 {
        walk.cols = Some(last);
        walk.rows = last.checked_sub(1).filter(|&r| loops[r].step[3] == 0);
    }
    for i in [walk.rows, walk.cols].into_iter().flatten() {
        walk.blocks[i] = loops[i].n;
    }
    walk
}

/// Tiles that are packed from where they lie are taken in rows.
fn pack(
    loops: &[Loop],
    parts: &[Gather],
    in_place: bool,
    dst: &Endpoint,
    streams: bool,
    mut walk: Walk,
) -> Walk {
    let lookup = |i: usize| loops[i].step[3] != 0 || parts[0].moves[i][0] != 0;
    let row = loops.len().checked_sub(1).filter(|&i| in_place && !lookup(i));
    if let Some(row) = row {
        walk.tiles = Some(row);
        walk.blocks[row] = loops[row].n;
        // Whole lines, if the tiles of a row are a run of bytes.
        let block_bytes = dst.block_bytes as i64;
        if streams && loops[row].step[4] == block_bytes {
            let whole = (1..=4).find(|n| n * block_bytes % LINE == 0).unwrap_or(1);
            walk.segment = row;
            walk.blocks[row] = loops[row].n.min(((PACKED / (whole * block_bytes)).max(1) * whole) as u64);
        }
    }
    walk
}

/// Whether elements come in runs of whole pieces at places that are multiples of pieces.
fn direct(loops: &[Loop], src: &Endpoint, op: Op) -> bool {
    let (Op::Copy(size), None, Some((run, outer))) = (op, src.codec, loops.split_last()) else {
        return false;
    };
    let whole = |bytes: i64| bytes % PIECE == 0;
    let size = size as i64;
    run.step[1] == size
        && run.step[4] == size
        && whole(run.n as i64 * size)
        && outer.iter().all(|l| l.step[3] != 0 || whole(l.step[4]))
}

/// The walk of elements that go at once.
fn pieces(loops: &mut Vec<Loop>, dst: &Endpoint) -> Walk {
    let mut walk = Walk::new(loops);
    let extent = chain(loops, dst, &mut walk, SEGMENT, |i| fits(&loops[i]));
    // What lies a page apart is a run of its own.
    let mut between = between(loops, &walk, |l| if fits(l) { l.step[1].abs() } else { 0 });
    between.retain(|&i| loops[i].step[1].abs() < SEGMENT);
    let piece = loops.last().map_or(0, |run| run.n as i64 * run.step[4]);
    if !between.is_empty() && piece < LINE {
        // Lines of several pieces that come from all over the block (rows of faces): the destination's order, and the
        // next block on its way meanwhile.
        let mut bytes = extent as u64;
        for i in between {
            walk.blocks[i] = loops[i].n.min((MAX_SOURCE / bytes).max(1));
            bytes *= walk.blocks[i];
        }
        walk.order = by_source(loops);
        let next = walk.order.iter().rev().find(|&&i| loops[i].n > walk.blocks[i]);
        if let Some(&next) = next.filter(|&&i| fits(&loops[i])) {
            walk.ahead = loops[next].step[1].saturating_mul(walk.blocks[next] as i64);
        }
    } else {
        // The source's order, but for what fills a line and its neighbour. Blocks have long runs on both sides.
        let line = match between.is_empty() {
            true => split(loops, dst.block_bytes as i64, PAIR),
            false => loops.len() - 1,
        };
        walk = Walk::new(loops);
        for side in [1, 4] {
            let mut chained: Vec<usize> = (0..loops.len()).filter(|&i| fits(&loops[i])).collect();
            chained.sort_by_key(|&i| loops[i].step[side]);
            let mut extent = dst.block_bytes as i64;
            for i in chained {
                if loops[i].step[side] != extent || extent >= RUN {
                    break;
                }
                walk.blocks[i] = walk.blocks[i].max(loops[i].n.min((RUN / extent).max(1) as u64));
                extent = extent.saturating_mul(loops[i].n as i64);
            }
        }
        walk.order = by_source(loops);
        walk.within = by_source(&loops[..line]);
        walk.within.extend(line..loops.len());
        // A single stream is fetched by the processor itself.
        walk.ahead = if between.is_empty() { AHEAD } else { 0 };
    }
    let count = loops.len();
    walk.cols = Some(count - 1);
    walk.rows = count.checked_sub(2).map(|i| walk.within[i]).filter(|&i| fits(&loops[i]));
    walk
}

/// Splits the loops so that the innermost of them make a run of `bytes` of the destination, if they can, and returns the
/// first of these.
fn split(loops: &mut Vec<Loop>, block_bytes: i64, bytes: i64) -> usize {
    let mut extent = block_bytes;
    for i in (0..loops.len()).rev() {
        let Loop { n, step } = loops[i];
        if step[4] != extent || extent >= bytes {
            return i + 1;
        }
        let turns = (bytes / extent) as u64;
        if bytes % extent == 0 && n > turns && n % turns == 0 {
            if extent == block_bytes {
                return i;
            }
            loops[i] = Loop { n: n / turns, step: step.map(|s| s * turns as i64) };
            loops.insert(i + 1, Loop { n: turns, step });
            return i + 1;
        }
        extent *= n as i64;
    }
    0
}

/// Puts the loops of a segment of at most `target` bytes into the block, from the innermost outward as long as their
/// steps chain in the destination, and returns its bytes.
fn chain(loops: &[Loop], dst: &Endpoint, walk: &mut Walk, target: i64, fits: impl Fn(usize) -> bool) -> i64 {
    let block_bytes = dst.block_bytes as i64;
    let mut extent = block_bytes;
    while let Some(i) = walk.segment.checked_sub(1) {
        let l = loops[i];
        let room = (target / extent).max(1) as u64;
        if !fits(i) || l.step[4] != extent || room == 1 && extent > block_bytes {
            break;
        }
        walk.segment = i;
        walk.blocks[i] = l.n.min(room);
        extent *= walk.blocks[i] as i64;
        if walk.blocks[i] < l.n {
            break;
        }
    }
    extent
}

/// Loops outside of the segment that fill what the segment leaves out between its runs of the source, nearest first;
/// `way` is how far a loop steps there, 0 for one that no block can have.
fn between(loops: &[Loop], walk: &Walk, way: impl Fn(&Loop) -> i64) -> Vec<usize> {
    let widest = loops[walk.segment..].iter().map(&way).max().unwrap_or(0);
    let mut between: Vec<usize> =
        (0..walk.segment).filter(|&i| (1..widest).contains(&way(&loops[i]))).collect();
    between.sort_by_key(|&i| way(&loops[i]));
    between
}

/// The walk of elements that are assembled, and the bytes of a segment.
fn assembled(loops: &[Loop], src: &Endpoint, dst: &Endpoint, op: Op, mut walk: Walk) -> (Walk, i64) {
    let near = op.source_size() as i64;
    let block = src.codec.is_some();
    let fits = |l: &Loop| self::fits(l) && !(block && l.step[1] != 0);
    let contiguous = |l: &Loop| if block { l.step[2] == 1 } else { l.step[1] == near };
    let block_bytes = dst.block_bytes as i64;
    walk.order = by_source(loops);
    walk.within.clone_from(&walk.order);

    let runs = loops.last().is_some_and(|l| contiguous(l) && l.n as i64 * near >= 16);
    let across = (0..loops.len()).rev().find(|&i| !runs && fits(&loops[i]) && contiguous(&loops[i]));
    // One kernel call unpacks the tiles of a row, as many as have room with all of their rows.
    let tile = |l: &Loop| block && self::fits(l) && l.step[1] > 0 && l.step[2] == 0;
    walk.tiles = (0..loops.len()).rev().find(|&i| tile(&loops[i]));
    let rows = src.codec.map_or(1, |c| c.tile().rows() as i64);
    let through = matches!(op, Op::Copy(_)) && runs && loops[loops.len() - 1].n as i64 * near >= ASSEMBLED;
    let target = match across {
        // A long run of the source is a segment as it is, alone, and needs no assembling.
        _ if through => i64::MAX,
        Some(_) => ACROSS.max(block_bytes),
        None if block => MAX_BLOCK as i64 / rows,
        None => ASSEMBLED,
    };
    let tiles = walk.tiles;
    let mut extent = chain(loops, dst, &mut walk, target, |i| {
        let further = through && i + 1 < loops.len();
        !further && Some(i) != across && (fits(&loops[i]) || Some(i) == tiles)
    });
    let way = |l: &Loop| match fits(l) {
        false => 0,
        true if block => l.step[2].abs(),
        true => l.step[1].abs(),
    };
    let mut between = between(loops, &walk, way);
    if through {
        between.clear();
    }
    if block {
        // What is unpacked is the whole tile.
        between = (0..walk.segment).filter(|&i| way(&loops[i]) > 0).collect();
        between.sort_by_key(|&i| way(&loops[i]));
    }
    let filled: u64 = between.iter().map(|&i| loops[i].n).try_fold(1, u64::checked_mul).unwrap_or(u64::MAX);
    if across.is_none() && !block && filled > 1 && walk.segment < loops.len() {
        // Shorter segments, so that a block holds more of them.
        let shortest = walk.blocks[walk.segment + 1..].iter().product::<u64>() * block_bytes as u64;
        let wanted = (MAX_BLOCK as u64 / filled.min(32)).max(512) / shortest;
        walk.blocks[walk.segment] = walk.blocks[walk.segment].min(wanted.max(1));
        extent = (shortest * walk.blocks[walk.segment]) as i64;
    }
    let mut bytes = extent as u64;
    for i in between {
        // A line of the source, or two where there are no more.
        let line = if loops[i].n as i64 * near > 2 * LINE { (LINE / near).max(1) as u64 } else { u64::MAX };
        let room = if across.is_some() { line } else { u64::MAX };
        let turns = loops[i].n.min(MAX_BLOCK as u64 / bytes).min(room);
        if turns > 1 {
            walk.blocks[i] = turns;
            walk.packed[i] = bytes as i64;
            bytes *= turns;
        }
    }
    if across.is_some() && extent == ACROSS && walk.segment + 1 == loops.len() {
        let (i, line) = (walk.segment, (LINE / block_bytes) as u64);
        let ragged = loops[..i].iter().any(|l| l.step[3] == 0 && l.step[4] % LINE != 0);
        if ragged && loops[i].n > walk.blocks[i] && (1..walk.blocks[i]).contains(&line) {
            walk.reach = line;
            walk.blocks[i] -= line;
        }
    }
    // Kernels take the innermost loop of a block and its longest; of a transpose, the two that run along.
    let inner = |i: &usize| walk.blocks[*i] > 1 && Some(*i) != walk.tiles;
    walk.cols = (0..loops.len()).rev().find(inner);
    let others = (0..loops.len()).filter(|i| inner(i) && Some(*i) != walk.cols);
    walk.rows =
        across.filter(|i| inner(i) && Some(*i) != walk.cols).or(others.max_by_key(|&i| walk.blocks[i]));
    walk.assembled = true;
    if !block {
        let bytes = walk.blocks.iter().fold(near, |bytes, &n| bytes.saturating_mul(n as i64));
        let next = walk.order.iter().rev().find(|&&i| loops[i].n > walk.blocks[i]);
        if let Some(&next) = next.filter(|&&i| self::fits(&loops[i])) {
            let blocks = walk.blocks[next] as i64 * (ASSEMBLED_AHEAD / bytes).max(1);
            walk.ahead = loops[next].step[1].saturating_mul(blocks);
        }
    }
    (walk, extent)
}

/// The same loops for a kernel, in blocks as large as can be: nothing is assembled.
fn cached(loops: &[Loop], src: &Endpoint, mut walk: Walk) -> Walk {
    let kernel = [walk.rows, walk.cols, walk.tiles];
    walk.assembled = false;
    walk.blocks.fill(1);
    kernel.into_iter().flatten().for_each(|i| walk.blocks[i] = loops[i].n);
    // Unpacking takes no other loops.
    let takes = |&&i: &&usize| src.codec.is_none() && fits(&loops[i]);
    walk.order.iter().rev().take_while(takes).for_each(|&i| walk.blocks[i] = loops[i].n);
    walk
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
