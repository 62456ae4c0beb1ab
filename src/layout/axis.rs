//! One axis of a layout: a group of logical dimensions whose address is a staircase of one coordinate.

use super::piecewise::{MAX_PARTS, Piecewise, Region, Step, compose};
use crate::error::{Error, Result};

/// An address inside a layout: the unit, bytes from the unit's start, and the slot inside a block.
///
/// A *unit* is what a distribution moves as a whole (a page of an interleaved tensor, the shard of a core);
/// layouts without one have a single unit. The *slot* counts the elements of a tile row by row, whatever
/// the order in which its bytes store them; it is 0 for plain formats.
pub(crate) type Addr = Step<3>;

/// One digit of an axis: `n` values, each `step` further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) n: u64,
    pub(crate) step: Addr,
}

impl Level {
    /// `n` values, `bytes` apart in one unit.
    pub(crate) fn bytes(n: u64, bytes: i64) -> Level {
        Level { n, step: [0, bytes, 0] }
    }
}

/// Turns of looking for the padding of an axis.
const MAX_WORK: usize = 16 * MAX_PARTS;

/// A group of logical dimensions, the cells they fall on, and the cells they leave empty.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    /// The logical dimensions, ascending; the coordinate counts them row-major.
    pub(crate) dims: Vec<usize>,
    /// From coordinate to cell, starting at cell `first`.
    pub(crate) places: Piecewise<1>,
    /// The cell of the first element.
    pub(crate) first: i64,
    /// The digits of a cell, outermost first; cells without an element are padding.
    pub(crate) cells: Vec<Level>,
    /// From coordinate to address, starting at `start`.
    pub(crate) stair: Piecewise<3>,
    /// The address of the first element.
    pub(crate) start: Addr,
}

impl Axis {
    /// An axis of at least one coordinate. Every coordinate must reach a cell.
    pub(crate) fn new(dims: Vec<usize>, first: i64, places: Piecewise<1>, cells: Vec<Level>) -> Result<Axis> {
        let (start, stair) = compose(&places, first, &cells_map(&cells))?;
        Ok(Axis { dims, places, first, cells, stair, start })
    }

    /// The axis of one dimension of `len` on as many cells, `step` apart.
    pub(crate) fn line(dim: usize, len: u64, step: Addr) -> Result<Axis> {
        Axis::new(vec![dim], 0, Piecewise::run(len, [1]), vec![Level { n: len, step }])
    }

    /// How many cells there are.
    pub(crate) fn extent(&self) -> u64 {
        self.cells.iter().map(|c| c.n).product()
    }

    /// The cells without an element, as maximal runs; an error if two coordinates share a cell.
    pub(crate) fn gaps(&self) -> Result<Vec<Region<1>>> {
        gaps(self.places.pieces([self.first])?, self.extent() as i64)
    }

    /// The coordinate of a cell, if an element lies there.
    pub(crate) fn coordinate(&self, cell: i64) -> Option<u64> {
        find(&self.places, cell - self.first)
    }
}

/// The addresses of a set of cells, of which `all` is the staircase.
pub(crate) fn addresses(cells: &[Region<1>], all: &Piecewise<3>) -> Result<Vec<Region<3>>> {
    let mut out = Vec::new();
    for piece in cells {
        let (at, stair) = compose(&Piecewise::nest(&piece.loops), piece.at[0], all)?;
        out.extend(stair.pieces(at)?);
    }
    Ok(out)
}

/// The staircase over all cells.
fn cells_map(cells: &[Level]) -> Piecewise<3> {
    let loops: Vec<_> = cells.iter().map(|c| (c.n, c.step)).collect();
    Piecewise::nest(&loops)
}

/// The least and greatest address that loops reach from `at`.
pub(crate) fn reach(at: i64, loops: &[(u64, Step<1>)]) -> (i64, i64) {
    loops.iter().fold((at, at), |(lo, hi), &(n, [step])| {
        let way = (n as i64 - 1) * step;
        (lo + way.min(0), hi + way.max(0))
    })
}

/// The coordinate at which a staircase has the value `at`.
fn find(stair: &Piecewise<1>, at: i64) -> Option<u64> {
    match stair {
        Piecewise::Run { len: 1, .. } => (at == 0).then_some(0),
        Piecewise::Run { len, step: [step] } => {
            let i = if *step == 0 { (at == 0).then_some(0)? } else { at / step };
            (i * step == at && (0..*len as i64).contains(&i)).then_some(i as u64)
        }
        Piecewise::Loop { n, step: [step], body } => {
            let (lo, hi) = body_bounds(body);
            // The turns whose bounds holds the value; a handful, since turns seldom interleave.
            let (first, last) = match *step {
                0 => (0, 0),
                s if s > 0 => ((at - hi).div_euclid(s).max(0), (at - lo).div_euclid(s).min(*n as i64 - 1)),
                s => ((at - lo).div_euclid(s).max(0), (at - hi).div_euclid(s).min(*n as i64 - 1)),
            };
            (first..=last)
                .take(MAX_PARTS)
                .find_map(|i| find(body, at - i * step).map(|u| i as u64 * body.len() + u))
        }
        Piecewise::Seq(parts) => {
            let mut begin = 0;
            for (start, part) in parts {
                if let Some(u) = find(part, at - start[0]) {
                    return Some(begin + u);
                }
                begin += part.len();
            }
            None
        }
    }
}

fn body_bounds(stair: &Piecewise<1>) -> (i64, i64) {
    match stair {
        Piecewise::Run { len, step } => reach(0, &[(*len, *step)]),
        Piecewise::Loop { n, step, body } => {
            let (lo, hi) = body_bounds(body);
            let (from, to) = reach(0, &[(*n, *step)]);
            (lo + from, hi + to)
        }
        Piecewise::Seq(parts) => parts
            .iter()
            .map(|(start, part)| {
                let (lo, hi) = body_bounds(part);
                (lo + start[0], hi + start[0])
            })
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
            .unwrap_or((0, 0)),
    }
}

/// The most loops of all pieces that are unrolled to find gaps.
const MAX_LOOPS: u64 = 4 * MAX_PARTS as u64;

/// What a set of pieces leaves free of `0..extent`, as maximal runs; an error if two pieces meet.
pub(crate) fn gaps(pieces: Vec<Region<1>>, extent: i64) -> Result<Vec<Region<1>>> {
    let mut out = Vec::new();
    let mut work = 0;
    let pieces = pieces.into_iter().map(upward).collect();
    let (mut free, end) = between(pieces, 0, &[], &mut out, &mut work)?;
    if end < extent {
        free.push((end, (extent - end) as u64));
    }
    out.extend(free.iter().map(|&(at, len)| Region { at: [at], loops: vec![(len, [1])] }));
    out.sort_by_key(|p| p.at[0]);
    Ok(out)
}

/// The same set with upward steps, the greatest outermost.
fn upward(mut piece: Region<1>) -> Region<1> {
    for (n, step) in &mut piece.loops {
        if step[0] < 0 {
            piece.at[0] += (*n as i64 - 1) * step[0];
            step[0] = -step[0];
        }
    }
    piece.loops.retain(|l| l.0 != 1);
    piece.loops.sort_by_key(|&(_, [step])| std::cmp::Reverse(step));
    piece
}

/// The free runs in front of and between `pieces`, from `from` on, and the end of the last one. Runs inside
/// of a piece go to `out`, repeated by the loops `outer`.
#[allow(clippy::type_complexity)]
fn between(
    mut pieces: Vec<Region<1>>,
    from: i64,
    outer: &[(u64, Step<1>)],
    out: &mut Vec<Region<1>>,
    work: &mut usize,
) -> Result<(Vec<(i64, u64)>, i64)> {
    let complex = || Error::TooComplex { what: "the padding of an axis".into(), cap: MAX_PARTS };
    let collide = || Error::Collision { what: "an axis".into(), first: vec![], second: vec![] };
    // Unroll what interleaves until each piece has a range of its own.
    loop {
        *work += pieces.len();
        if *work > MAX_WORK {
            return Err(complex());
        }
        pieces.sort_by_key(|p| p.at[0]);
        let widest = |p: &Region<1>| p.loops.first().map_or(0, |l| l.1[0]);
        let mut clashes = vec![false; pieces.len()];
        for i in 1..pieces.len() {
            let (a, b) = (&pieces[i - 1], &pieces[i]);
            if reach(a.at[0], &a.loops).1 >= b.at[0] {
                clashes[if widest(a) >= widest(b) { i - 1 } else { i }] = true;
            }
        }
        if !clashes.contains(&true) {
            break;
        }
        let mut turns = Vec::with_capacity(pieces.len());
        for (piece, clash) in pieces.into_iter().zip(clashes) {
            match piece.loops.first() {
                _ if !clash => turns.push(piece),
                None | Some((_, [0])) => return Err(collide()),
                // Each turn has its own loops, up to 64 of them.
                Some(&(n, _))
                    if (turns.len() as u64 + n).saturating_mul(piece.loops.len().max(4) as u64)
                        > MAX_LOOPS =>
                {
                    return Err(complex());
                }
                Some(&(n, [step])) => turns.extend(
                    (0..n as i64)
                        .map(|k| Region { at: [piece.at[0] + k * step], loops: piece.loops[1..].to_vec() }),
                ),
            }
        }
        pieces = turns;
    }
    let (mut free, mut end) = (Vec::new(), from);
    for piece in pieces {
        if piece.at[0] > end {
            free.push((end, (piece.at[0] - end) as u64));
        }
        end = reach(piece.at[0], &piece.loops).1 + 1;
        inside(piece, outer, out, work)?;
    }
    Ok((free, end))
}

/// The free runs inside of one piece.
fn inside(
    piece: Region<1>,
    outer: &[(u64, Step<1>)],
    out: &mut Vec<Region<1>>,
    work: &mut usize,
) -> Result<()> {
    let Some((&(n, step), rest)) = piece.loops.split_first() else { return Ok(()) };
    if step == [1] && rest.is_empty() {
        return Ok(());
    }
    let turn_end = reach(piece.at[0], rest).1 + 1;
    let room = piece.at[0] + step[0] - turn_end;
    if room < 0 || step[0] == 0 {
        // Turns interleave: take them one by one.
        if step[0] == 0 {
            return Err(Error::Collision { what: "an axis".into(), first: vec![], second: vec![] });
        }
        if n > MAX_PARTS as u64 {
            return Err(Error::TooComplex { what: "the padding of an axis".into(), cap: MAX_PARTS });
        }
        let turns =
            (0..n).map(|k| Region { at: [piece.at[0] + k as i64 * step[0]], loops: rest.to_vec() }).collect();
        let (free, _) = between(turns, piece.at[0], outer, out, work)?;
        for (at, len) in free {
            let loops = outer.iter().copied().chain([(len, [1])]).collect();
            out.push(Region { at: [at], loops });
        }
        return Ok(());
    }
    if room > 0 {
        let loops = outer.iter().copied().chain([(n - 1, step), (room as u64, [1])]).collect();
        out.push(Region { at: [turn_end], loops });
    }
    let outer: Vec<_> = outer.iter().copied().chain([(n, step)]).collect();
    inside(Region { at: piece.at, loops: rest.to_vec() }, &outer, out, work)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(pieces: &[Region<1>]) -> Vec<i64> {
        let mut out = Vec::new();
        for p in pieces {
            let stair = Piecewise::nest(&p.loops);
            out.extend((0..stair.len()).map(|u| p.at[0] + stair.eval(u)[0]));
        }
        out.sort_unstable();
        out
    }

    #[test]
    fn gaps_are_the_complement() {
        type Run<'a> = (i64, &'a [(u64, i64)]);
        let sets: &[(&[Run], i64)] = &[
            (&[(0, &[(5, 1)])], 9),
            (&[(2, &[(5, 1)])], 9),
            (&[(0, &[(3, 16), (10, 1)])], 48),
            (&[(0, &[(3, 32), (18, 1)]), (96, &[(17, 1)])], 128),
            (&[(3, &[(4, -1)])], 4),
            (&[(0, &[(3, 2), (2, 3)])], 12),
            (&[(0, &[(4, 8)]), (1, &[(4, 8), (2, 3)])], 40),
            (&[(0, &[(10, 3)]), (1, &[(10, 3)]), (2, &[(9, 3)])], 31),
            (&[(5, &[])], 7),
            (&[(0, &[(4, 257), (8, 8)])], 1100),
        ];
        for (set, extent) in sets {
            let pieces: Vec<_> = set
                .iter()
                .map(|(at, loops)| Region {
                    at: [*at],
                    loops: loops.iter().map(|&(n, s)| (n, [s])).collect(),
                })
                .collect();
            let mut all = points(&pieces);
            let free = gaps(pieces, *extent).unwrap();
            all.extend(points(&free));
            all.sort_unstable();
            assert_eq!(all, (0..*extent).collect::<Vec<_>>(), "{set:?}: {free:?}");
        }
    }

    #[test]
    fn two_on_one_cell_is_an_error() {
        let sets = [
            vec![(3, [4]), (8, [1])],
            vec![(2, [0])],
            vec![(3, [2]), (2, [4])],
            vec![(8, [1]), (4, [0])],
            vec![(8, [1]), (4, [1])],
        ];
        for loops in sets {
            let pieces = vec![Region { at: [0], loops }];
            assert!(matches!(gaps(pieces, 100), Err(Error::Collision { .. })));
        }
    }
}
