//! Values that are affine over the loops of a nest, and the maps that keep them so.

use smallvec::{SmallVec, smallvec};

use crate::layout::piecewise::Piecewise;

/// One item for each loop of a nest. Everyday nests have no more loops than lie in place: with a vector for each value,
/// allocating took half of the time of the proof.
pub(super) type PerLoop<T> = SmallVec<[T; INLINE]>;

/// Loops whose values lie in place.
const INLINE: usize = 8;

fn zeros(loops: usize) -> PerLoop<i64> {
    if loops <= INLINE { SmallVec::from_buf_and_len([0; INLINE], loops) } else { smallvec![0; loops] }
}

/// A value at the first iteration of all loops, and its step with each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Affine {
    pub(super) at: i64,
    pub(super) steps: PerLoop<i64>,
}

/// One value for each axis.
pub(super) type PerAxis = SmallVec<[Affine; 4]>;

/// Where a map stops being affine: before iteration `at` of loop `which`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Break {
    pub(super) which: usize,
    pub(super) at: u64,
}

impl Affine {
    pub(super) fn zero(loops: usize) -> Affine {
        Affine { at: 0, steps: zeros(loops) }
    }

    /// A copy, at the price of one of bytes.
    pub(super) fn copied(&self) -> Affine {
        Affine { at: self.at, steps: SmallVec::from_slice(&self.steps) }
    }

    /// Adds `factor` times another value.
    pub(super) fn add(&mut self, other: &Affine, factor: i64) {
        if factor == 0 {
            return;
        }
        self.at = self.at.wrapping_add(other.at.wrapping_mul(factor));
        for (own, other) in self.steps.iter_mut().zip(&other.steps) {
            *own = own.wrapping_add(other.wrapping_mul(factor));
        }
    }

    /// The break that keeps a value from staying in `lo..hi`, if any; `lo` is at least 0.
    pub(super) fn leaves(&self, counts: &[u64], lo: i64, hi: i64) -> Option<Break> {
        // A sum that saturates lies outside: the least value is below `lo` unless the first one is not.
        let (mut least, mut greatest) = (self.at, self.at);
        for (span, _) in self.spans(counts) {
            least = least.saturating_add(span.min(0));
            greatest = greatest.saturating_add(span.max(0));
        }
        let inside = least >= lo && greatest < hi;
        if inside { None } else { Some(self.break_at(counts, lo, hi)) }
    }

    /// How far each loop goes in all of its iterations, and which loop it is; of those that move.
    fn spans(&self, counts: &[u64]) -> impl Iterator<Item = (i64, usize)> {
        let loops = self.steps.iter().zip(counts).enumerate().filter(|(_, (step, _))| **step != 0);
        let last = |n: u64| i64::try_from(n).map_or(i64::MAX, |n| n - 1);
        loops.map(move |(i, (&step, &n))| (step.saturating_mul(last(n)), i))
    }

    /// Where a value that leaves `lo..hi` is to be broken: along the loop that goes farthest, where it alone leaves, or
    /// else in its middle.
    #[cold]
    fn break_at(&self, counts: &[u64], lo: i64, hi: i64) -> Break {
        let widest = |best: (i64, usize), next: (i64, usize)| {
            if next.0.unsigned_abs() > best.0.unsigned_abs() { next } else { best }
        };
        let (_, which) = self.spans(counts).fold((0, 0), widest);
        let step = self.steps.get(which).copied().unwrap_or(0);
        let n = counts.get(which).copied().unwrap_or(1);
        let [at, lo, hi] = [self.at, lo, hi].map(i128::from);
        let room = if step < 0 { at - lo } else { hi - 1 - at };
        let inside = room.checked_div_euclid(step.unsigned_abs().into()).map_or(0, |steps| steps + 1);
        let alone = u64::try_from(inside).unwrap_or(0);
        let at = if (1..n).contains(&alone) { alone } else { n / 2 };
        Break { which, at }
    }

    /// The value divided by `by`: quotient and remainder, which must not wrap within the loops.
    pub(super) fn divide(self, by: i64, counts: &[u64]) -> Result<(Affine, Affine), Break> {
        if by == 1 {
            let zero = Affine::zero(self.steps.len());
            return Ok((self, zero));
        }
        let whole = self.at.div_euclid(by);
        let mut rest = self;
        rest.at -= whole * by;
        // What one step along a loop does tells which part of it is whole.
        let mut quotient = Affine { at: whole, steps: zeros(rest.steps.len()) };
        for (one, step) in quotient.steps.iter_mut().zip(&mut rest.steps).filter(|(_, step)| **step != 0) {
            *one = rest.at.wrapping_add(*step).div_euclid(by);
            *step = step.wrapping_sub(one.wrapping_mul(by));
        }
        match rest.leaves(counts, 0, by) {
            None => Ok((quotient, rest)),
            Some(broken) => Err(broken),
        }
    }
}

/// The value of a map at an affine coordinate.
pub(super) fn follow(map: &Piecewise<1>, mut coordinate: Affine, counts: &[u64]) -> Result<Affine, Break> {
    let mut map = map;
    if let Some(broken) = coordinate.leaves(counts, 0, map.len() as i64) {
        return Err(broken);
    }
    let mut value = Affine::zero(counts.len());
    loop {
        match map {
            Piecewise::Run { step: [step], .. } => {
                value.add(&coordinate, *step);
                return Ok(value);
            }
            Piecewise::Loop { step: [step], period, body, .. } => {
                let (iteration, inside) = coordinate.divide(*period as i64, counts)?;
                value.add(&iteration, *step);
                (map, coordinate) = (body, inside);
            }
            Piecewise::Seq(parts) => {
                let which = parts.partition_point(|p| p.begin as i64 <= coordinate.at) - 1;
                let begin = parts[which].begin as i64;
                let end = parts.get(which + 1).map_or(map.len(), |p| p.begin) as i64;
                if let Some(broken) = coordinate.leaves(counts, begin, end) {
                    return Err(broken);
                }
                coordinate.at -= begin;
                value.at += parts[which].at[0];
                map = &parts[which].map;
            }
        }
    }
}

/// An affine address: bytes through all units in order, and the slot.
pub(super) struct Address {
    pub(super) bytes: Affine,
    pub(super) slot: Affine,
}

impl Address {
    /// Whether it is this one in every iteration.
    pub(super) fn is(&self, at: (i64, i64), steps: &[(i64, i64)], counts: &[u64]) -> bool {
        let alike = |affine: &Affine, pick: fn((i64, i64)) -> i64| {
            let mut loops = affine.steps.iter().zip(steps).zip(counts);
            affine.at == pick(at) && loops.all(|((&own, &other), &n)| n == 1 || own == pick(other))
        };
        alike(&self.bytes, |a| a.0) && alike(&self.slot, |a| a.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::piecewise::Part;

    fn affine(at: i64, steps: &[i64]) -> Affine {
        Affine { at, steps: steps.into() }
    }

    #[test]
    fn values_divide_unless_they_wrap() {
        // 5 + 32 i + 3 j, for i below 4 and j below 9, in rows of 32.
        let counts = [4, 9];
        let (row, col) = affine(5, &[32, 3]).divide(32, &counts).unwrap();
        assert_eq!((row, col), (affine(0, &[1, 0]), affine(5, &[0, 3])));
        // The tenth column would lie in the next row.
        let broken = affine(5, &[32, 3]).divide(32, &[4, 10]).unwrap_err();
        assert_eq!(broken, Break { which: 1, at: 9 });
        // Downward.
        let (row, col) = affine(66, &[-32, -1]).divide(32, &[3, 3]).unwrap();
        assert_eq!((row, col), (affine(2, &[-1, 0]), affine(2, &[0, -1])));
    }

    #[test]
    fn a_value_breaks_where_the_loop_that_goes_farthest_leaves() {
        // Where it begins, its steps and how many of each there are, what it stays in, and where it breaks.
        type Case<'a> = (i64, &'a [i64], &'a [u64], (i64, i64), Option<(usize, u64)>);
        let cases: [Case<'_>; 14] = [
            (0, &[1], &[10], (0, 10), None),
            (0, &[1], &[11], (0, 10), Some((0, 10))),
            (3, &[4], &[5], (0, 16), Some((0, 4))),
            (3, &[4], &[5], (0, 15), Some((0, 3))),
            (9, &[-2], &[5], (0, 10), None),
            (9, &[-2], &[9], (0, 100), Some((0, 5))),
            (9, &[-2], &[9], (2, 100), Some((0, 4))),
            (0, &[1, 100], &[50, 3], (0, 150), Some((1, 2))),
            (10, &[1, -4], &[3, 3], (3, 100), Some((1, 2))),
            // Of two that go as far the first, which does not leave alone: in its middle.
            (0, &[5, 5], &[3, 3], (0, 11), Some((0, 1))),
            (10, &[1, -3], &[3, 4], (0, 12), Some((1, 2))),
            // Outside from the beginning.
            (12, &[1], &[4], (0, 12), Some((0, 2))),
            (12, &[0], &[1], (0, 12), Some((0, 0))),
            (0, &[i64::MAX, 1], &[4, 9], (0, i64::MAX), Some((0, 1))),
        ];
        for (at, steps, counts, (lo, hi), expected) in cases {
            let broken = affine(at, steps).leaves(counts, lo, hi);
            assert_eq!(broken.map(|b| (b.which, b.at)), expected, "{at} {steps:?} {counts:?} in {lo}..{hi}");
        }
    }

    #[test]
    fn maps_are_followed_or_break_where_they_do() {
        // Ten coordinates on cells 0.., ten on 100.. by twos, and so again, 1000 cells on.
        let part = |begin, at, step| Part { begin, at: [at], map: Piecewise::run(10, [step]) };
        let body = Box::new(Piecewise::Seq(vec![part(0, 0, 1), part(10, 100, 2)]));
        let map = Piecewise::Loop { n: 2, step: [1000], period: 20, body };
        assert_eq!(follow(&map, affine(10, &[20, 1]), &[2, 10]).unwrap(), affine(100, &[1000, 2]));
        let broken = follow(&map, affine(4, &[1]), &[9]).unwrap_err();
        assert_eq!(broken, Break { which: 0, at: 6 });
        // No coordinate at all.
        assert_eq!(follow(&map, affine(40, &[]), &[]).unwrap_err().at, 0);
        for u in 0..40 {
            assert_eq!(follow(&map, affine(u, &[]), &[]).unwrap().at, map.eval(u as u64)[0]);
        }
    }
}
