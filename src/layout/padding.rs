//! The places that no element reaches.

use super::Layout;
use super::axis::{Addr, Axis, addresses};
use super::gaps::complement;
use super::piecewise::{MAX_REGIONS, Piecewise, Region, add, gcd, scale};
use crate::dtype::Format;
use crate::error::{Error, Result};

/// The most rectangular boxes of padding.
const MAX_BOXES: usize = 1 << 18;

impl Layout {
    /// The places that hold no element, as regions: loops over elements of plain formats, over
    /// whole tiles of block formats (inside of a tile the codec pads).
    ///
    /// # Errors
    /// Those of [`Layout::check_destination`]; [`Error::TooComplex`] for more than [`MAX_BOXES`] regions.
    pub(crate) fn padding(&self) -> Result<Vec<Region<3>>> {
        let block_bytes = self.block_bytes() as i64;
        if self.elements() == 0 {
            let n = self.space.unit_bytes / self.block_bytes();
            let loops = vec![(self.space.units, [1, 0, 0]), (n, [0, block_bytes, 0])];
            return Ok(if n == 0 { vec![] } else { vec![Region { at: [0; 3], loops }] });
        }
        let free = self.axes.iter().zip(self.gaps()?).map(|(axis, gaps)| self.free(axis, gaps));
        let free: Vec<_> = free.collect::<Result<_>>()?;
        let mut out = self.holes();
        if free.iter().all(Vec::is_empty) {
            return Ok(out);
        }
        let parts: Vec<AxisParts> = self
            .axes
            .iter()
            .zip(free)
            .map(|(axis, free)| self.axis_parts(axis, free))
            .collect::<Result<_>>()?;
        let copies = Region { at: [0; 3], loops: self.replicas.iter().map(|r| (r.n, r.step)).collect() };
        for k in (0..parts.len()).filter(|&k| !parts[k].free.is_empty()) {
            let factors = parts.iter().enumerate().map(|(i, part)| match i.cmp(&k) {
                std::cmp::Ordering::Less => part.used.as_slice(),
                std::cmp::Ordering::Equal => part.free.as_slice(),
                std::cmp::Ordering::Greater => std::slice::from_ref(&part.all),
            });
            let mut boxes = vec![Region { at: [0, self.offset, 0], loops: copies.loops.clone() }];
            for factor in factors {
                boxes = boxes.iter().flat_map(|b| factor.iter().map(|f| cross(b, f))).collect();
                if boxes.len() + out.len() > MAX_BOXES {
                    return Err(Error::TooComplex { what: "the padding".into(), cap: MAX_BOXES });
                }
            }
            out.extend(boxes);
        }
        Ok(out)
    }

    /// Cells of an axis that lie in one tile of a block format; 1 for plain formats.
    fn in_tile(&self, axis: &Axis) -> u64 {
        match self.format {
            Format::Block(_) => axis.cells.iter().filter(|c| c.step[2] != 0).map(|c| c.n).product(),
            _ => 1,
        }
    }

    /// The cells of an axis without an element, as elements or as whole tiles.
    fn free(&self, axis: &Axis, gaps: Vec<Region<1>>) -> Result<Vec<Region<1>>> {
        if gaps.is_empty() || !matches!(self.format, Format::Block(_)) {
            return Ok(gaps);
        }
        whole_tiles(gaps, self.in_tile(axis))
    }

    /// The used, free and all places along one axis, in elements or in whole tiles.
    fn axis_parts(&self, axis: &Axis, free: Vec<Region<1>>) -> Result<AxisParts> {
        let outer = axis.cells.iter().filter(|c| c.step[2] == 0);
        let all = Region { at: [0; 3], loops: outer.map(|c| (c.n, c.step)).collect() };
        if free.is_empty() {
            return Ok(AxisParts { used: vec![all.clone()], free: vec![], all });
        }
        let used = complement(&free, (axis.extent() / self.in_tile(axis)) as i64)?;
        let cells = Piecewise::nest(&all.loops);
        Ok(AxisParts { used: addresses(&used, &cells)?, free: addresses(&free, &cells)?, all })
    }

    /// What lies between the cells of a strided layout: runs that no cell reaches.
    fn holes(&self) -> Vec<Region<3>> {
        let block_bytes = self.block_bytes();
        let total = self.space.units * self.space.unit_bytes;
        // Cells do not meet; where they have as many bytes as there are, nothing lies between them.
        let cells = self.levels().filter(|l| l.step[2] == 0).try_fold(block_bytes, |n, l| n.checked_mul(l.n));
        let mut out = Vec::new();
        if cells == Some(total) {
            return out;
        }
        let offset = self.offset as u64;
        if offset > 0 {
            self.push_run(0, &[], offset, &mut out);
        }
        let mut levels = self.linear_levels();
        levels.sort_by_key(|l| std::cmp::Reverse(l.1));
        // Work through (levels, place of the first cell, bytes up to the next one, loops around), outermost first.
        let mut stack = vec![(levels.as_slice(), offset, total - offset, Vec::new())];
        while let Some((levels, at, bytes, mut loops)) = stack.pop() {
            let Some((&(n, step), rest)) = levels.split_first() else {
                if bytes > block_bytes {
                    self.push_run(at + block_bytes, &loops, bytes - block_bytes, &mut out);
                }
                continue;
            };
            let last = bytes - (n - 1) * step as u64;
            if last == step as u64 {
                loops.push((n, step));
                stack.push((rest, at, last, loops));
            } else {
                let around = loops.iter().copied().chain([(n - 1, step)]).collect();
                stack.push((rest, at, step as u64, around));
                stack.push((rest, at + (n - 1) * step as u64, last, loops));
            }
        }
        out
    }

    /// Adds a run of bytes through all units, repeated by loops. One that passes the end of a unit is its rest, whole
    /// units, and the beginning of another.
    fn push_run(&self, at: u64, loops: &[(u64, i64)], bytes: u64, out: &mut Vec<Region<3>>) {
        let size = self.space.unit_bytes;
        let block_bytes = self.block_bytes();
        let mut steps: Vec<(u64, Addr)> = loops.iter().map(|&(n, step)| (n, self.split(step))).collect();
        let mut push = |at: u64, loops: &[(u64, Addr)], bytes: u64| {
            let run = (bytes / block_bytes, [0, block_bytes as i64, 0]);
            let at = [(at / size) as i64, (at % size) as i64, 0];
            out.push(Region { at, loops: loops.iter().copied().chain([run]).collect() });
        };
        let end = at + bytes;
        let (head, tail) = (at.next_multiple_of(size).min(end), (end / size * size).max(at));
        if head > at {
            push(at, &steps, head - at);
        }
        if end > tail && tail >= head {
            push(tail, &steps, end - tail);
        }
        if tail > head {
            steps.push(((tail - head) / size, [1, 0, 0]));
            push(head, &steps, size);
        }
    }

    /// A step through all units as units and bytes.
    fn split(&self, step: i64) -> Addr {
        let unit = self.space.unit_bytes as i64;
        if step % unit == 0 { [step / unit, 0, 0] } else { [0, step, 0] }
    }
}

/// The places along one axis.
struct AxisParts {
    used: Vec<Region<3>>,
    free: Vec<Region<3>>,
    all: Region<3>,
}

/// Every pair of two sets of places.
fn cross(a: &Region<3>, b: &Region<3>) -> Region<3> {
    Region { at: add(a.at, b.at), loops: a.loops.iter().chain(&b.loops).copied().collect() }
}

/// The whole tiles, of `inner` cells each, that lie in runs of free cells.
fn whole_tiles(free: Vec<Region<1>>, inner: u64) -> Result<Vec<Region<1>>> {
    let tile = inner as i64;
    let mut out = Vec::new();
    let mut stack = free;
    while let Some(mut region) = stack.pop() {
        if out.len() + stack.len() > MAX_REGIONS {
            return Err(Error::TooComplex { what: "the padding of an axis".into(), cap: MAX_REGIONS });
        }
        let Some((len, _)) = region.loops.pop() else { continue };
        if len < inner {
            continue;
        }
        if let Some(i) = region.loops.iter().position(|l| l.1[0] % tile != 0) {
            // The phase inside of a tile differs between iterations: those of one phase form a loop of their own.
            let (n, step) = region.loops[i];
            let phases = inner / gcd(inner, step[0].unsigned_abs());
            for k in 0..phases.min(n) {
                let mut one = region.iteration(i, k);
                let alike = (n - k).div_ceil(phases);
                if alike > 1 {
                    one.loops.push((alike, scale(step, phases as i64)));
                }
                one.loops.push((len, [1]));
                stack.push(one);
            }
            continue;
        }
        let first = (region.at[0] + tile - 1).div_euclid(tile);
        let end = (region.at[0] + len as i64).div_euclid(tile);
        if end > first {
            let loops = region.loops.iter().map(|&(n, [step])| (n, [step / tile]));
            let run = ((end - first) as u64, [1]);
            out.push(Region { at: [first], loops: loops.chain([run]).collect() });
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tiles_of_every_phase_are_found_in_long_loops() {
        // Runs of 50 cells, 83 apart: 32 phases inside of a tile of 32, a million runs.
        let free = vec![Region { at: [0], loops: vec![(1_000_000, [83]), (50, [1])] }];
        let tiles = whole_tiles(free, 32).unwrap();
        let count: u64 = tiles.iter().map(|r| r.loops.iter().map(|l| l.0).product::<u64>()).sum();
        // Each of 50 - 31 phases in 32 leaves one whole tile in the run.
        assert_eq!(count, 1_000_000 * 19 / 32);
        assert!(tiles.len() <= 32);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whole_tiles_are_those_without_a_used_cell(
            loops in prop::collection::vec((2_u64..6, 1_u64..90), 0..3),
            len in 1_u64..80,
            at in 0_i64..50,
            tile in prop::sample::select(vec![2_u64, 16, 32]),
        ) {
            // Loops that nest, outermost first.
            let mut extent = len;
            let mut nested = vec![(len, [1])];
            for (n, gap) in loops {
                let step = extent + gap;
                nested.insert(0, (n, [step as i64]));
                extent += (n - 1) * step;
            }
            let region = Region { at: [at], loops: nested };
            let cells = |r: &Region<1>| -> Vec<i64> {
                let map = Piecewise::nest(&r.loops);
                (0..map.len()).map(|u| r.at[0] + map.eval(u)[0]).collect()
            };
            let free: std::collections::HashSet<i64> = cells(&region).into_iter().collect();
            let all = 0..(at as u64 + extent) as i64 / tile as i64 + 1;
            let expected: Vec<i64> =
                all.filter(|t| (0..tile as i64).all(|i| free.contains(&(t * tile as i64 + i)))).collect();
            let mut seen: Vec<i64> = whole_tiles(vec![region], tile).unwrap().iter().flat_map(cells).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, expected);
        }
    }
}
