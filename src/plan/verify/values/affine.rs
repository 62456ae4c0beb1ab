//! Values that are affine over the loops of a nest, and the maps that keep them so.

use crate::layout::piecewise::Piecewise;

/// A value at the first iteration of all loops, and its step with each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Affine {
    pub(super) at: i64,
    pub(super) steps: Vec<i64>,
}

/// Where a map stops being affine: before iteration `at` of loop `which`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Break {
    pub(super) which: usize,
    pub(super) at: u64,
}

impl Affine {
    pub(super) fn zero(loops: usize) -> Affine {
        Affine { at: 0, steps: vec![0; loops] }
    }

    /// Adds `factor` times another value.
    pub(super) fn add(&mut self, other: &Affine, factor: i64) {
        self.at = self.at.wrapping_add(other.at.wrapping_mul(factor));
        for (own, other) in self.steps.iter_mut().zip(&other.steps) {
            *own = own.wrapping_add(other.wrapping_mul(factor));
        }
    }

    /// The break that keeps a value from staying in `lo..hi`, if any.
    pub(super) fn leaves(&self, counts: &[u64], lo: i64, hi: i64) -> Option<Break> {
        let (mut least, mut greatest) = (i128::from(self.at), i128::from(self.at));
        let mut widest = (0, 0);
        for (i, (&n, &step)) in counts.iter().zip(&self.steps).enumerate() {
            let span = (i128::from(n) - 1).saturating_mul(step.into());
            least = least.saturating_add(span.min(0));
            greatest = greatest.saturating_add(span.max(0));
            if span.unsigned_abs() > widest.1 {
                widest = (i, span.unsigned_abs());
            }
        }
        if least >= lo.into() && greatest < hi.into() {
            return None;
        }
        // Along the loop that goes farthest: where it alone leaves, or else in its middle.
        let (which, step) = (widest.0, self.steps.get(widest.0).copied().unwrap_or(0));
        let n = counts.get(which).copied().unwrap_or(1);
        let inside = match step {
            0 => 0,
            s if s > 0 => (i128::from(hi) - 1 - i128::from(self.at)).div_euclid(s.into()) + 1,
            s => (i128::from(self.at) - i128::from(lo)).div_euclid(-i128::from(s)) + 1,
        };
        let alone = u64::try_from(inside).unwrap_or(0);
        let at = if (1..n).contains(&alone) { alone } else { n / 2 };
        Some(Break { which, at })
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
        let quotients = rest.steps.iter_mut().map(|step| {
            let one = rest.at.wrapping_add(*step).div_euclid(by);
            *step = step.wrapping_sub(one.wrapping_mul(by));
            one
        });
        let quotient = Affine { at: whole, steps: quotients.collect() };
        match rest.leaves(counts, 0, by) {
            None => Ok((quotient, rest)),
            Some(broken) => Err(broken),
        }
    }
}

/// The value of a map at an affine coordinate.
pub(super) fn follow(map: &Piecewise<1>, mut coordinate: Affine, counts: &[u64]) -> Result<Affine, Break> {
    let (mut map, mut len) = (map, map.len() as i64);
    if let Some(broken) = coordinate.leaves(counts, 0, len) {
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
                len = *period as i64;
                let (iteration, inside) = coordinate.divide(len, counts)?;
                value.add(&iteration, *step);
                (map, coordinate) = (body, inside);
            }
            Piecewise::Seq(parts) => {
                let which = parts.partition_point(|p| p.begin as i64 <= coordinate.at) - 1;
                let begin = parts[which].begin as i64;
                let end = parts.get(which + 1).map_or(len, |p| p.begin as i64);
                if let Some(broken) = coordinate.leaves(counts, begin, end) {
                    return Err(broken);
                }
                coordinate.at -= begin;
                value.at += parts[which].at[0];
                (map, len) = (&parts[which].map, end - begin);
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
    pub(super) fn is(&self, at: (i64, i64), steps: &[(i64, i64)], counts: &[u64], slots: bool) -> bool {
        let alike = |affine: &Affine, pick: fn((i64, i64)) -> i64| {
            let mut loops = affine.steps.iter().zip(steps).zip(counts);
            affine.at == pick(at) && loops.all(|((&own, &other), &n)| n == 1 || own == pick(other))
        };
        alike(&self.bytes, |a| a.0) && (!slots || alike(&self.slot, |a| a.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::piecewise::Part;

    fn affine(at: i64, steps: &[i64]) -> Affine {
        Affine { at, steps: steps.to_vec() }
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
