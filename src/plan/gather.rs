//! Moves into a block format, gathered by destination tile.
//!
//! A tile is packed as a whole, so whatever reaches it must be in one nest. [`align`] takes the moves of a
//! group of dimensions apart until any two of them reach the same tiles by the same loops, or no tile in
//! common; [`tiles`] puts together those that reach the same.

use super::lower::{MAX_NESTS, limit, simplify};
use super::nest::{AddressPair, Gather, Leaf, Loop, Nest, dst, src};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::layout::piecewise::{Region, add, scale};

/// The most moves that [`align`] may look at, most of them at several depths, for the few that remain.
const MAX_LOOKED_AT: usize = 16 * MAX_NESTS;

/// A piece with its loops from tile to tile apart from those inside of one.
#[derive(Debug, Clone)]
struct Move {
    at: AddressPair,
    /// From the greatest destination step to the least.
    outer: Vec<Loop>,
    inner: Vec<Loop>,
}

/// The same moves, such that any two reach the same tiles by the same loops, or no tile in common.
pub(super) fn align(pieces: Vec<Region<6>>, layout: &Layout) -> Result<Vec<Region<6>>> {
    let moves = split(pieces, layout)?;
    let mut aligner = Aligner { layout, work: 0, out: Vec::new() };
    aligner.align(moves, 0)?;
    let piece =
        |m: Move| Region { at: m.at, loops: m.outer.iter().chain(&m.inner).map(|l| (l.n, l.step)).collect() };
    Ok(aligner.out.into_iter().map(piece).collect())
}

/// One nest for all moves that reach the same tiles; the moves are aligned.
pub(super) fn tiles(pieces: Vec<Region<6>>, layout: &Layout) -> Result<Vec<Nest>> {
    let mut nests: Vec<Nest> = Vec::new();
    for Move { at, outer, inner } in split(pieces, layout)? {
        let gather = Gather {
            src: src(at),
            moves: outer.iter().map(Loop::src).collect(),
            slot: at[5],
            loops: simplify(inner, |_| 0),
        };
        let at = [0, 0, 0, at[3], at[4], 0];
        let tile = |l: &Loop| Loop { n: l.n, step: [0, 0, 0, l.step[3], l.step[4], 0] };
        let loops: Vec<Loop> = outer.iter().map(tile).collect();
        match nests.iter_mut().find(|n| n.at == at && n.loops == loops) {
            Some(Nest { leaf: Leaf::Pack(parts), .. }) => parts.push(gather),
            _ => nests.push(Nest::new(at, loops, Leaf::Pack(vec![gather]))),
        }
    }
    Ok(nests)
}

/// Loops inside of a tile, and loops upward from tile to tile. A loop that does both is taken apart, as is one that goes
/// up in units and down in bytes.
fn split(pieces: Vec<Region<6>>, layout: &Layout) -> Result<Vec<Move>> {
    let mut out = Vec::with_capacity(pieces.len());
    let mut work = pieces;
    while let Some(mut piece) = work.pop() {
        limit(out.len() + work.len())?;
        for (n, step) in &mut piece.loops {
            if layout.linear(dst(*step)) < 0 {
                piece.at = add(piece.at, scale(*step, *n as i64 - 1));
                *step = scale(*step, -1);
            }
        }
        let mixed = |&(n, s): &(u64, AddressPair)| {
            n > 1 && ((s[5] != 0 && (s[3], s[4]) != (0, 0)) || s[3] < 0 || s[4] < 0)
        };
        if let Some(i) = piece.loops.iter().position(mixed) {
            let (n, step) = piece.loops.remove(i);
            limit(n.min(1 << 32) as usize)?;
            let turn = |k| Region { at: add(piece.at, scale(step, k as i64)), loops: piece.loops.clone() };
            work.extend((0..n).map(turn));
            continue;
        }
        let loops = piece.loops.into_iter().filter(|l| l.0 > 1).map(|(n, step)| Loop { n, step });
        let (inner, mut outer): (Vec<Loop>, Vec<Loop>) = loops.partition(|l| l.step[5] != 0);
        outer.sort_by_key(|l| std::cmp::Reverse(layout.linear(l.dst())));
        out.push(Move { at: piece.at, outer, inner });
    }
    Ok(out)
}

struct Aligner<'a> {
    layout: &'a Layout,
    work: usize,
    out: Vec<Move>,
}

impl Aligner<'_> {
    fn look_at(&mut self, moves: usize) -> Result<()> {
        self.work += moves;
        if self.work > MAX_LOOKED_AT {
            return Err(Error::TooComplex { what: "the alignment of tiles".into(), cap: MAX_LOOKED_AT });
        }
        limit(self.out.len())
    }

    fn start(&self, m: &Move) -> i64 {
        self.layout.linear(dst(m.at))
    }

    /// Bytes from the first to the end of the last tile that loops reach.
    fn extent(&self, loops: &[Loop]) -> i64 {
        let reach = |l: &Loop| (l.n as i64 - 1) * self.layout.linear(l.dst());
        self.layout.block_bytes() as i64 + loops.iter().map(reach).sum::<i64>()
    }

    /// Aligns moves whose first `depth` outer loops are alike.
    fn align(&mut self, mut moves: Vec<Move>, depth: usize) -> Result<()> {
        moves.sort_by_key(|m| self.start(m));
        let mut moves = moves.into_iter().peekable();
        while let Some(first) = moves.next() {
            let mut end = self.start(&first) + self.extent(&first.outer[depth..]);
            let mut meeting = vec![first];
            while let Some(next) = moves.next_if(|m| self.start(m) < end) {
                end = end.max(self.start(&next) + self.extent(&next.outer[depth..]));
                meeting.push(next);
            }
            self.align_meeting(meeting, depth)?;
        }
        Ok(())
    }

    /// Aligns moves whose ranges of tiles meet: turn by turn of their greatest step, once for each range of
    /// turns that look alike.
    fn align_meeting(&mut self, moves: Vec<Move>, depth: usize) -> Result<()> {
        self.look_at(moves.len())?;
        let alike = |a: &Move, b: &Move| {
            let loops = |m: &Move| m.outer[depth..].iter().map(|l| (l.n, l.dst())).collect::<Vec<_>>();
            dst(a.at)[..2] == dst(b.at)[..2] && loops(a) == loops(b)
        };
        let steps = moves.iter().filter_map(|m| m.outer.get(depth));
        let period = steps.map(|l| self.layout.linear(l.dst())).max().unwrap_or(0);
        if period == 0 || moves.iter().all(|m| alike(m, &moves[0])) {
            self.out.extend(moves);
            return Ok(());
        }
        let lo = self.start(&moves[0]);
        let turns = self.turns(moves, depth, lo, period)?;
        let mut cuts: Vec<i64> = turns.iter().flat_map(|t| [t.first, t.first + t.n as i64]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        for cut in cuts.windows(2) {
            let (from, to) = (cut[0], cut[1]);
            let active = || turns.iter().filter(|t| t.first <= from && to <= t.first + t.n as i64);
            // The same distance may be units in one move and bytes in another.
            let even = active().all(|t| active().all(|other| dst(t.step) == dst(other.step)));
            let n = if even { (to - from) as u64 } else { 1 };
            for k in (from..to).step_by(n as usize) {
                let one = |t: &Turns| {
                    let mut m = t.body.clone();
                    m.at = add(m.at, scale(t.step, k - t.first));
                    if n > 1 {
                        m.outer.insert(depth, Loop { n, step: t.step });
                    }
                    m
                };
                self.align(active().map(one).collect(), depth + usize::from(n > 1))?;
            }
        }
        Ok(())
    }

    /// Each move as turns of a period from `lo` on.
    fn turns(&mut self, moves: Vec<Move>, depth: usize, lo: i64, period: i64) -> Result<Vec<Turns>> {
        let mut turns = Vec::new();
        let mut queue = moves;
        while let Some(mut m) = queue.pop() {
            self.look_at(1)?;
            let (first, phase) = ((self.start(&m) - lo) / period, (self.start(&m) - lo) % period);
            if phase + self.extent(&m.outer[depth..]) <= period {
                turns.push(Turns { first, n: 1, step: [0; 6], body: m });
                continue;
            }
            // What is longer than a tile has a loop.
            let l = m.outer.remove(depth);
            let (step, one) = (self.layout.linear(l.dst()), self.extent(&m.outer[depth..]));
            if step == period && phase + one <= period {
                turns.push(Turns { first, n: l.n, step: l.step, body: m });
                continue;
            }
            let mut part = |from: u64, n: u64, outer: Option<Loop>| {
                let mut part = m.clone();
                part.at = add(part.at, scale(l.step, from as i64));
                let own = Loop { n, ..l };
                let loops = outer.into_iter().chain([own]).filter(|l| l.n > 1);
                part.outer.splice(depth..depth, loops);
                if n > 0 {
                    queue.push(part);
                }
            };
            // Smaller turns, of which as many make a period.
            let per = (period / step) as u64;
            if period % step == 0 && phase + one <= step && l.n > per && per > 1 {
                let whole = Loop { n: l.n / per, step: scale(l.step, per as i64) };
                part(0, per, Some(whole));
                part(l.n / per * per, l.n % per, None);
            } else {
                // Those that end within this period, or one that straddles its end.
                let within = ((period - phase - one).div_euclid(step) + 1).clamp(1, l.n as i64) as u64;
                part(0, within, None);
                part(within, l.n - within, None);
            }
        }
        Ok(turns)
    }
}

/// `n` turns of a move, from the `first` on.
struct Turns {
    first: i64,
    n: u64,
    step: AddressPair,
    body: Move,
}
