//! Moves into a block format, gathered by destination tile.
//!
//! A tile is packed as a whole, so whatever reaches it must be in one nest. [`align`] takes the regions of a
//! group of dimensions apart until any two of them reach the same tiles by the same loops, or no tile in
//! common; [`tiles`] puts together those that reach the same.

use hashbrown::HashMap;

use super::ir::{AddressPair, Gather, Leaf, Loop, Nest, dst, src};
use super::loops::{MAX_NESTS, interleaved, limit, simplify, upward};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::layout::piecewise::{Region, add, scale};

/// The most regions that [`align`] may look at, most of them at several depths, for the few that remain.
const MAX_LOOKED_AT: usize = 16 * MAX_NESTS;

/// A region with its loops from tile to tile apart from those inside of one.
#[derive(Debug, Clone, PartialEq)]
struct Tiled {
    at: AddressPair,
    /// From the greatest destination step to the least.
    outer: Vec<Loop>,
    inner: Vec<Loop>,
}

impl Tiled {
    /// One iteration of a loop from tile to tile.
    fn iteration(&self, i: usize, k: u64) -> Tiled {
        let mut outer = self.outer.clone();
        let l = outer.remove(i);
        Tiled { at: add(self.at, scale(l.step, k as i64)), outer, inner: self.inner.clone() }
    }
}

/// The same elements in regions of which any two reach the same tiles by the same loops, or no tile in common.
///
/// # Errors
/// [`Error::TooComplex`] where that takes too many regions.
pub(super) fn align(regions: Vec<Region<6>>, layout: &Layout) -> Result<Vec<Region<6>>> {
    let mixed = regions.iter().any(|r| r.loops.iter().any(is_mixed));
    if !mixed && lie_apart(&regions, layout) {
        return Ok(regions);
    }
    let regions = tiled(regions, layout)?;
    let mut aligner = Aligner { layout, looked_at: 0, waiting: regions.len(), out: Vec::new() };
    // Groups that reach tiles in common, with the number of outer loops that are alike.
    let mut work = vec![(regions, 0)];
    while let Some((regions, depth)) = work.pop() {
        aligner.waiting -= regions.len();
        for meeting in aligner.meetings(regions, depth) {
            aligner.align(meeting, depth, &mut work)?;
        }
    }
    let loops = |t: &Tiled| t.outer.iter().chain(&t.inner).map(|l| (l.n, l.step)).collect();
    Ok(aligner.out.into_iter().map(|t| Region { at: t.at, loops: loops(&t) }).collect())
}

/// Whether regions of upward loops reach ranges of tiles that follow one another, as those of most layouts do.
fn lie_apart(regions: &[Region<6>], layout: &Layout) -> bool {
    let span = |&(n, step): &(u64, AddressPair)| (n as i64 - 1) * layout.linear(dst(step));
    let last = |r: &Region<6>| layout.linear(dst(r.at)) + r.loops.iter().map(span).sum::<i64>();
    regions.windows(2).all(|pair| last(&pair[0]) < layout.linear(dst(pair[1].at)))
}

/// One nest for all regions that reach the same tiles; the regions are aligned.
pub(super) fn tiles(regions: Vec<Region<6>>, layout: &Layout) -> Result<Vec<Nest>> {
    let mut nests: Vec<Nest> = Vec::new();
    let mut by_tiles = HashMap::new();
    let mut work = tiled(regions, layout)?;
    work.reverse();
    while let Some(region) = work.pop() {
        // Loops of groups of dimensions that were aligned apart may interleave. What reaches the same tiles has the same ones.
        if let Some(i) = interleaved(region.outer.iter().rev().map(|l| (l.n, l.step)), layout) {
            let i = region.outer.len() - 1 - i;
            let n = region.outer[i].n;
            limit((nests.len() + work.len()).saturating_add(usize::try_from(n).unwrap_or(usize::MAX)))?;
            work.extend((0..n).rev().map(|k| region.iteration(i, k)));
            continue;
        }
        let Tiled { at, outer, inner } = region;
        let gather = Gather {
            src: src(at),
            moves: outer.iter().map(Loop::src).collect(),
            slot: at[5],
            loops: simplify(inner, |_| 0),
        };
        let at = [0, 0, 0, at[3], at[4], 0];
        let tile = |l: &Loop| Loop { n: l.n, step: [0, 0, 0, l.step[3], l.step[4], 0] };
        let loops: Vec<Loop> = outer.iter().map(tile).collect();
        let key = (at, loops.iter().map(|l| (l.n, l.step)).collect::<Vec<_>>());
        let nest = *by_tiles.entry(key).or_insert(nests.len());
        match nests.get_mut(nest) {
            Some(Nest { leaf: Leaf::Pack(parts), .. }) => parts.push(gather),
            _ => nests.push(Nest::new(at, loops, Leaf::Pack(vec![gather]))),
        }
    }
    nests.iter_mut().for_each(join);
    Ok(nests)
}

/// Joins loops from tile to tile that chain in the destination and in all that is read for the tiles.
fn join(nest: &mut Nest) {
    let Leaf::Pack(parts) = &mut nest.leaf else { return };
    for inner in (1..nest.loops.len()).rev() {
        let (outer, n) = (inner - 1, nest.loops[inner].n);
        let chain = |step: &[i64], of: &[i64]| {
            step.iter().zip(of).all(|(step, of)| step.checked_mul(n as i64) == Some(*of))
        };
        let joins = chain(&nest.loops[inner].step, &nest.loops[outer].step)
            && parts.iter().all(|part| chain(&part.moves[inner], &part.moves[outer]));
        if joins {
            nest.loops[inner].n *= nest.loops[outer].n;
            nest.loops.remove(outer);
            for part in parts.iter_mut() {
                part.moves.remove(outer);
            }
        }
    }
}

/// Loops inside of a tile, and loops upward from tile to tile. A loop that does both is taken apart, as is one that
/// goes up in units and down in bytes.
fn tiled(regions: Vec<Region<6>>, layout: &Layout) -> Result<Vec<Tiled>> {
    let mut out = Vec::with_capacity(regions.len());
    let mut work = regions;
    while let Some(region) = work.pop() {
        limit(out.len() + work.len())?;
        let region = upward(region, layout);
        if let Some(i) = region.loops.iter().position(is_mixed) {
            let n = region.loops[i].0;
            limit(usize::try_from(n).unwrap_or(usize::MAX))?;
            work.extend((0..n).map(|k| region.iteration(i, k)));
            continue;
        }
        let loops = region.loops.into_iter().map(|(n, step)| Loop { n, step });
        let (inner, mut outer): (Vec<Loop>, Vec<Loop>) = loops.partition(|l| l.step[5] != 0);
        outer.sort_by_key(|l| std::cmp::Reverse(layout.linear(l.dst())));
        out.push(Tiled { at: region.at, outer, inner });
    }
    Ok(out)
}

/// Whether a loop goes both inside of a tile and from tile to tile, or downward in units or bytes.
fn is_mixed(&(_, step): &(u64, AddressPair)) -> bool {
    (step[5] != 0 && (step[3], step[4]) != (0, 0)) || step[3] < 0 || step[4] < 0
}

struct Aligner<'a> {
    layout: &'a Layout,
    looked_at: usize,
    /// Regions that are to be aligned further.
    waiting: usize,
    out: Vec<Tiled>,
}

impl Aligner<'_> {
    /// Counts regions that are looked at, and refuses where they are too many or too many are certain to come: a region
    /// becomes one that is aligned or several, so those that wait, and `more` besides, are as many at the least.
    fn look_at(&mut self, regions: usize, more: usize) -> Result<()> {
        self.looked_at += regions;
        if self.looked_at > MAX_LOOKED_AT {
            return Err(Error::TooComplex { what: "the alignment of tiles".into(), cap: MAX_LOOKED_AT });
        }
        limit(self.out.len() + self.waiting + more)
    }

    fn start(&self, region: &Tiled) -> i64 {
        self.layout.linear(dst(region.at))
    }

    /// Bytes from the first to the end of the last tile that loops reach.
    fn extent(&self, loops: &[Loop]) -> i64 {
        let span = |l: &Loop| (l.n as i64 - 1) * self.layout.linear(l.dst());
        self.layout.block_bytes() as i64 + loops.iter().map(span).sum::<i64>()
    }

    /// Regions in groups whose ranges of tiles meet; their first `depth` outer loops are alike.
    fn meetings(&self, mut regions: Vec<Tiled>, depth: usize) -> Vec<Vec<Tiled>> {
        regions.sort_by_key(|r| self.start(r));
        let mut out: Vec<Vec<Tiled>> = Vec::new();
        let mut end = i64::MIN;
        for region in regions {
            let own = self.start(&region) + self.extent(&region.outer[depth..]);
            match out.last_mut() {
                Some(meeting) if self.start(&region) < end => meeting.push(region),
                _ => out.push(vec![region]),
            }
            end = end.max(own);
        }
        out
    }

    /// Aligns regions whose ranges of tiles meet: iteration by iteration of their greatest step, once for each range of
    /// iterations that look alike. What is not aligned after that is left in `work`.
    fn align(
        &mut self,
        regions: Vec<Tiled>,
        depth: usize,
        work: &mut Vec<(Vec<Tiled>, usize)>,
    ) -> Result<()> {
        self.look_at(regions.len(), regions.len())?;
        let steps = regions.iter().filter_map(|r| r.outer.get(depth));
        let period = steps.map(|l| self.layout.linear(l.dst())).max().unwrap_or(0);
        if period == 0 || regions.iter().all(|r| alike(r, &regions[0], depth)) {
            self.out.extend(regions);
            return Ok(());
        }
        let lo = self.start(&regions[0]);
        let mut parts = self.iterations(regions, depth, lo, period)?;
        parts.sort_by_key(|p| p.first);
        let mut cuts: Vec<i64> = parts.iter().flat_map(|p| [p.first, p.end()]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let mut coming = parts.into_iter().peekable();
        let mut active: Vec<Iterations> = Vec::new();
        for cut in cuts.windows(2) {
            let (from, to) = (cut[0], cut[1]);
            active.retain(|p| p.end() > from);
            active.extend(std::iter::from_fn(|| coming.next_if(|p| p.first == from)));
            let Some(one) = active.first() else { continue };
            // The same distance may be units in one region and bytes in another.
            let even = active.iter().all(|p| dst(p.step) == dst(one.step));
            let n = if even { (to - from) as u64 } else { 1 };
            for k in (from..to).step_by(n as usize) {
                self.look_at(active.len(), active.len())?;
                self.waiting += active.len();
                let regions = active.iter().map(|p| p.part(k, n, depth)).collect();
                work.push((regions, depth + usize::from(n > 1)));
            }
        }
        Ok(())
    }

    /// Each region as iterations of a period from `lo` on.
    fn iterations(
        &mut self,
        regions: Vec<Tiled>,
        depth: usize,
        lo: i64,
        period: i64,
    ) -> Result<Vec<Iterations>> {
        let mut out = Vec::new();
        let mut work = regions;
        while let Some(mut body) = work.pop() {
            self.look_at(1, out.len() + work.len() + 1)?;
            let (first, phase) = ((self.start(&body) - lo) / period, (self.start(&body) - lo) % period);
            if phase + self.extent(&body.outer[depth..]) <= period {
                out.push(Iterations { first, n: 1, step: [0; 6], body });
                continue;
            }
            // What is longer than a tile has a loop.
            let l = body.outer.remove(depth);
            let (step, one) = (self.layout.linear(l.dst()), self.extent(&body.outer[depth..]));
            if step == period && phase + one <= period {
                out.push(Iterations { first, n: l.n, step: l.step, body });
                continue;
            }
            let mut part = |from: u64, n: u64, outer: Option<Loop>| {
                let mut part = body.clone();
                part.at = add(part.at, scale(l.step, from as i64));
                let own = Loop { n, ..l };
                let loops = outer.into_iter().chain([own]).filter(|l| l.n > 1);
                part.outer.splice(depth..depth, loops);
                if n > 0 {
                    work.push(part);
                }
            };
            // Smaller iterations, of which as many make a period.
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
        Ok(out)
    }
}

/// Whether two regions reach the same tiles by the same loops from `depth` on.
fn alike(a: &Tiled, b: &Tiled, depth: usize) -> bool {
    let loops = |t: &Tiled| t.outer[depth..].len();
    let pairs = || a.outer[depth..].iter().zip(&b.outer[depth..]);
    dst(a.at)[..2] == dst(b.at)[..2]
        && loops(a) == loops(b)
        && pairs().all(|(k, l)| (k.n, k.dst()) == (l.n, l.dst()))
}

/// `n` iterations of a region, from the `first` on.
struct Iterations {
    first: i64,
    n: u64,
    step: AddressPair,
    body: Tiled,
}

impl Iterations {
    fn end(&self) -> i64 {
        self.first + self.n as i64
    }

    /// Iterations `k..k + n` as a region, with their loop at `depth`.
    fn part(&self, k: i64, n: u64, depth: usize) -> Tiled {
        let mut part = self.body.clone();
        part.at = add(part.at, scale(self.step, k - self.first));
        if n > 1 {
            part.outer.insert(depth, Loop { n, step: self.step });
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{Descriptor, Placement, Tensor};
    use crate::{DType, Format};

    /// Two rows of two tiles of 1088 bytes: 32x32 elements of 8 bits that share 64 exponents.
    fn bfp8() -> Layout {
        let text = "ttnn(dtype=bfloat8_b, layout=TILE)";
        let tensor = Tensor { shape: vec![64, 64], dtype: DType::F32 };
        let layout = text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
        assert!(matches!(layout.format(), Format::Block(_)));
        assert_eq!((layout.block_bytes(), layout.total_bytes()), (1088, 4 * 1088));
        layout
    }

    /// `n` tiles one after another from `byte` on, read 128 bytes apart from `from` on, slot `slot` of each.
    fn column(n: u64, from: i64, byte: i64, slot: i64) -> Region<6> {
        Region { at: [0, from, 0, 0, byte, slot], loops: vec![(n, [0, 128, 0, 0, 1088, 0])] }
    }

    #[test]
    fn regions_that_reach_the_same_tiles_stay_whole() {
        let regions = vec![column(4, 0, 0, 0), column(4, 4, 0, 1)];
        let mut aligned = align(regions.clone(), &bfp8()).unwrap();
        aligned.sort_by_key(|r| r.at);
        assert_eq!(aligned, regions);
    }

    #[test]
    fn regions_that_share_some_tiles_are_cut_where_the_others_begin() {
        // Slot 0 of all four tiles, slot 1 of the last two.
        let mut aligned = align(vec![column(4, 0, 0, 0), column(2, 1000, 2 * 1088, 1)], &bfp8()).unwrap();
        aligned.sort_by_key(|r| (r.at[4], r.at[5]));
        assert_eq!(
            aligned,
            [column(2, 0, 0, 0), column(2, 2 * 128, 2 * 1088, 0), column(2, 1000, 2 * 1088, 1)]
        );
    }

    #[test]
    fn aligned_regions_of_the_same_tiles_are_the_parts_of_one_nest() {
        let regions = vec![column(2, 0, 0, 0), column(2, 256, 2 * 1088, 0), column(2, 1000, 2 * 1088, 1)];
        let mut nests = tiles(regions, &bfp8()).unwrap();
        nests.sort_by_key(|n| n.at[4]);
        let parts = |nest: &Nest| {
            let Leaf::Pack(parts) = &nest.leaf else { panic!("{nest:?}") };
            let mut parts: Vec<_> = parts.iter().map(|p| (p.src[1], p.slot, p.moves.clone())).collect();
            parts.sort();
            parts
        };
        let step = vec![[0, 128, 0]];
        assert_eq!(nests.len(), 2);
        assert_eq!(nests[0].loops, [Loop { n: 2, step: [0, 0, 0, 0, 1088, 0] }]);
        assert_eq!(parts(&nests[0]), [(0, 0, step.clone())]);
        assert_eq!(parts(&nests[1]), [(256, 0, step.clone()), (1000, 1, step)]);
    }

    #[test]
    fn loops_from_tile_to_tile_that_chain_on_both_sides_are_joined() {
        let nests = |outer: i64| {
            let loops = vec![(2, [0, outer, 0, 0, 2 * 1088, 0]), (2, [0, 128, 0, 0, 1088, 0])];
            tiles(vec![Region { at: [0; 6], loops }], &bfp8()).unwrap()
        };
        let (joined, apart) = (nests(256), nests(512));
        assert_eq!(joined[0].loops, [Loop { n: 4, step: [0, 0, 0, 0, 1088, 0] }]);
        let Leaf::Pack(parts) = &joined[0].leaf else { panic!("{joined:?}") };
        assert_eq!(parts[0].moves, [[0, 128, 0]]);
        assert_eq!(apart[0].loops.len(), 2);
    }

    #[test]
    fn a_loop_inside_of_a_tile_and_from_tile_to_tile_is_taken_apart() {
        // The first element of a tile and the second of the next one.
        let diagonal = Region { at: [0; 6], loops: vec![(2, [0, 4, 0, 0, 1088, 1])] };
        let mut parts = tiled(vec![diagonal], &bfp8()).unwrap();
        parts.sort_by_key(|p| p.at);
        let point = |at| Tiled { at, outer: vec![], inner: vec![] };
        assert_eq!(parts, [point([0; 6]), point([0, 4, 0, 0, 1088, 1])]);
    }
}
