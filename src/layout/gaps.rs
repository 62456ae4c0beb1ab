//! What a set of cells leaves free.

use super::piecewise::{MAX_REGIONS, Region, add, bounds, gcd, scale};
use crate::error::{Error, Result};

/// What regions leave free of the cells `0..extent`, as regions of runs. Each region gives the cell of an element, and
/// the coordinate that falls on it.
///
/// Regions that lie apart, and loops that nest, cost one step each. What interleaves is taken apart, iteration by
/// iteration.
///
/// # Errors
/// [`Error::Collision`] of two coordinates if they fall on one cell; [`Error::TooComplex`] where more than
/// [`MAX_REGIONS`] iterations are taken apart.
pub(crate) fn gaps(regions: Vec<Region<2>>, extent: i64) -> Result<Vec<Region<1>>> {
    for region in &regions {
        apart(region)?;
    }
    let regions: Vec<_> = regions.into_iter().map(upward).collect();
    let mut free = Free { regions: Vec::new(), work: 0 };
    let (mut runs, end) = free.between(regions, 0, &[])?;
    if end < extent {
        runs.push((end, (extent - end) as u64));
    }
    let mut out = free.regions;
    out.extend(runs.iter().map(|&(at, len)| Region { at: [at], loops: vec![(len, [1])] }));
    out.sort_by_key(|r| r.at[0]);
    Ok(out)
}

/// The complement of free runs in `0..extent`.
pub(crate) fn complement(free: &[Region<1>], extent: i64) -> Result<Vec<Region<1>>> {
    let with_coordinate = |r: &Region<1>| Region {
        at: [r.at[0], 0],
        loops: r.loops.iter().map(|&(n, [step])| (n, [step, 0])).collect(),
    };
    gaps(free.iter().map(with_coordinate).collect(), extent)
}

fn collision(first: i64, second: i64) -> Error {
    let index = |u: i64| vec![u as u64];
    Error::Collision {
        what: "an axis".into(),
        first: index(first.min(second)),
        second: index(first.max(second)),
    }
}

fn too_complex() -> Error {
    Error::TooComplex { what: "the padding of an axis".into(), cap: MAX_REGIONS }
}

/// An error if two loops of a region meet: if some iterations of one lead as far as some of the other.
fn apart(region: &Region<2>) -> Result<()> {
    for (i, (n, [s, u])) in region.loops.iter().enumerate() {
        if *s == 0 {
            return Err(collision(region.at[1], region.at[1] + u));
        }
        for (m, [t, v]) in &region.loops[..i] {
            let g = gcd(s.unsigned_abs(), t.unsigned_abs());
            // `a` iterations of one lead as far as `b` of the other, or as far back.
            let (a, b) = (t.unsigned_abs() / g, s.unsigned_abs() / g);
            if a < *n && b < *m {
                let (a, b) = (a as i64 * u, b as i64 * v);
                let at = region.at[1];
                return Err(match s.signum() == t.signum() {
                    true => collision(at + a, at + b),
                    false => collision(at, at + a + b),
                });
            }
        }
    }
    Ok(())
}

/// The same set with upward steps, the greatest outermost.
fn upward(mut region: Region<2>) -> Region<2> {
    for (n, step) in &mut region.loops {
        if step[0].is_negative() {
            region.at = add(region.at, scale(*step, *n as i64 - 1));
            *step = scale(*step, -1);
        }
    }
    region.loops.retain(|l| l.0 != 1);
    region.loops.sort_by_key(|&(_, [step, _])| std::cmp::Reverse(step));
    region
}

/// The greatest cell of regions with upward steps.
fn last(at: i64, loops: &[(u64, [i64; 2])]) -> i64 {
    bounds(at, loops.iter().map(|&(n, [step, _])| (n, step))).1
}

/// The free regions found so far.
struct Free {
    regions: Vec<Region<1>>,
    work: usize,
}

impl Free {
    fn spend(&mut self, work: u64) -> Result<()> {
        self.work = self.work.saturating_add(usize::try_from(work).unwrap_or(usize::MAX));
        if self.work > 16 * MAX_REGIONS { Err(too_complex()) } else { Ok(()) }
    }

    /// The free runs in front of and between `regions`, from `from` on, and the end of the last one. Runs inside of a
    /// region are kept, repeated by the loops `around`.
    fn between(
        &mut self,
        regions: Vec<Region<2>>,
        from: i64,
        around: &[(u64, [i64; 1])],
    ) -> Result<(Vec<(i64, u64)>, i64)> {
        let (mut free, mut end) = (Vec::new(), from);
        for region in self.disjoint(regions)? {
            if region.at[0] > end {
                free.push((end, (region.at[0] - end) as u64));
            }
            end = last(region.at[0], &region.loops) + 1;
            self.inside(region, around)?;
        }
        Ok((free, end))
    }

    /// The same cells in regions of which each has a range of its own, in order: what interleaves is unrolled.
    fn disjoint(&mut self, mut regions: Vec<Region<2>>) -> Result<Vec<Region<2>>> {
        loop {
            self.spend(regions.len() as u64)?;
            regions.sort_by_key(|r| r.at[0]);
            let widest = |r: &Region<2>| r.loops.first().map_or(0, |l| l.1[0]);
            let mut clashes = vec![false; regions.len()];
            for i in 1..regions.len() {
                let (a, b) = (&regions[i - 1], &regions[i]);
                if last(a.at[0], &a.loops) < b.at[0] {
                    continue;
                }
                if a.loops.is_empty() && b.loops.is_empty() {
                    return Err(collision(a.at[1], b.at[1]));
                }
                clashes[if widest(a) >= widest(b) { i - 1 } else { i }] = true;
            }
            if !clashes.contains(&true) {
                return Ok(regions);
            }
            let mut apart = Vec::with_capacity(regions.len());
            for (region, clash) in regions.into_iter().zip(clashes) {
                if !clash {
                    apart.push(region);
                    continue;
                }
                let n = region.loops[0].0;
                if n.saturating_add(apart.len() as u64) > MAX_REGIONS as u64 {
                    return Err(too_complex());
                }
                apart.extend((0..n).map(|k| region.iteration(0, k)));
            }
            regions = apart;
        }
    }

    /// The free runs inside of one region.
    fn inside(&mut self, mut region: Region<2>, around: &[(u64, [i64; 1])]) -> Result<()> {
        let mut around = around.to_vec();
        while let Some(&(n, [step, _])) = region.loops.first() {
            let rest = &region.loops[1..];
            if step == 1 && rest.is_empty() {
                return Ok(());
            }
            let end = last(region.at[0], rest) + 1;
            let gap = region.at[0] + step - end;
            if gap < 0 {
                return self.interleaved(&region, &around);
            }
            if gap > 0 {
                let loops = around.iter().copied().chain([(n - 1, [step]), (gap as u64, [1])]);
                self.regions.push(Region { at: [end], loops: loops.collect() });
            }
            around.push((n, [step]));
            region.loops.remove(0);
        }
        Ok(())
    }

    /// The free runs inside of a region whose iterations interleave: they are taken one by one.
    fn interleaved(&mut self, region: &Region<2>, around: &[(u64, [i64; 1])]) -> Result<()> {
        let n = region.loops[0].0;
        if n > MAX_REGIONS as u64 {
            return Err(too_complex());
        }
        let iterations = (0..n).map(|k| region.iteration(0, k)).collect();
        let (free, _) = self.between(iterations, region.at[0], around)?;
        for (at, len) in free {
            let loops = around.iter().copied().chain([(len, [1])]).collect();
            self.regions.push(Region { at: [at], loops });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::piecewise::Piecewise;

    fn points(regions: &[Region<1>]) -> Vec<i64> {
        let mut out = Vec::new();
        for r in regions {
            let map = Piecewise::nest(&r.loops);
            out.extend((0..map.len()).map(|u| r.at[0] + map.eval(u)[0]));
        }
        out.sort_unstable();
        out
    }

    /// The cells from `at` on, with coordinates from `u` on.
    fn region((at, loops): (i64, &[(u64, i64)]), u: i64) -> Region<2> {
        let map = Piecewise::nest(&loops.iter().map(|&(n, s)| (n, [s])).collect::<Vec<_>>());
        map.graph().regions([at, u]).unwrap().remove(0)
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
            let regions: Vec<_> = set.iter().map(|&r| region(r, 0)).collect();
            let used: Vec<Region<1>> = regions
                .iter()
                .map(|r| Region {
                    at: [r.at[0]],
                    loops: r.loops.iter().map(|&(n, [s, _])| (n, [s])).collect(),
                })
                .collect();
            let mut all = points(&used);
            let free = gaps(regions, *extent).unwrap();
            assert!(free.iter().flat_map(|r| &r.loops).all(|&(n, _)| n > 0), "{free:?}");
            assert_eq!(points(&complement(&free, *extent).unwrap()), all);
            all.extend(points(&free));
            all.sort_unstable();
            assert_eq!(all, (0..*extent).collect::<Vec<_>>(), "{set:?}: {free:?}");
        }
    }

    #[test]
    fn work_is_bounded_where_it_should_be() {
        let mut free = Free { regions: Vec::new(), work: 16 * MAX_REGIONS - 2 };
        assert!(free.spend(2).is_ok() && free.spend(1).is_err());
        // Cells with another one between the first two are taken apart.
        let cells = |n| gaps(vec![region((0, &[(n, 4)]), 0), region((2, &[]), 0)], 1 << 40);
        let most = MAX_REGIONS as u64;
        assert!(cells(most).is_ok() && matches!(cells(most + 1), Err(Error::TooComplex { .. })));
        // Iterations that interleave are not even begun.
        let interleaved = gaps(vec![region((0, &[(1 << 40, 5), (3, 4)]), 0)], 1 << 50);
        assert!(matches!(interleaved, Err(Error::TooComplex { .. })), "{interleaved:?}");
        // Loops that leave nothing free are none of these.
        let loops = vec![(1 << 40, [8, 8]), (4, [2, 2]), (2, [1, 1])];
        assert_eq!(gaps(vec![Region { at: [0, 0], loops }], 1 << 43).unwrap(), []);
    }

    #[test]
    fn two_on_one_cell_are_named() {
        let sets: [&[(u64, i64)]; 8] = [
            &[(3, 4), (8, 1)],
            &[(2, 0)],
            &[(3, 2), (2, 4)],
            &[(8, 1), (4, 0)],
            &[(8, 1), (4, -1)],
            &[(1 << 40, 1), (2, 70_000)],
            &[(1 << 30, 6), (1 << 30, 10)],
            &[(6, 6), (5, 10), (2, 15)],
        ];
        for loops in sets {
            let region = region((1000, loops), 0);
            let map = Piecewise::nest(&region.loops);
            match gaps(vec![region], 1 << 50) {
                Err(Error::Collision { first, second, .. }) => {
                    let cell = |u: &[u64]| map.eval(u[0])[0];
                    assert!(
                        first != second && cell(&first) == cell(&second),
                        "{first:?} {second:?} of {loops:?}"
                    );
                }
                other => panic!("{other:?} of {loops:?}"),
            }
        }
    }

    #[test]
    fn two_regions_on_one_cell_are_named() {
        let regions = vec![region((0, &[(4, 10), (3, 1)]), 0), region((5, &[(3, 9)]), 100)];
        // 5, 14, 23 against 0..3, 10..13, 20..23 and 30..33: apart; 22 is not.
        assert!(gaps(regions.clone(), 40).is_ok());
        let regions = vec![regions[0].clone(), region((4, &[(3, 9)]), 100)];
        let Err(Error::Collision { first, second, .. }) = gaps(regions, 40) else { panic!() };
        assert_eq!((first, second), (vec![8], vec![102]));
    }
}
