//! Distribution: where units lie, the one step of a layout that is not separable.

use std::sync::Arc;

/// The most units that are looked at one by one.
const MAX_SEARCHED: i64 = 4096;

/// How the units of a layout lie in its buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Space {
    /// Units, those without any element included.
    pub(crate) units: u64,
    /// Bytes of one unit.
    pub(crate) unit_bytes: u64,
    /// Bytes from one unit to the next in memory; what is between them is zero.
    pub(crate) pitch_bytes: u64,
    /// How the units are distributed to the buffers; none: in order.
    pub(crate) deal: Option<RoundRobin>,
    /// Buffers of equal size, one after another.
    pub(crate) buffers: u64,
}

impl Space {
    /// `buffers` buffers in their natural order, `bytes` in all.
    pub(crate) fn in_order(buffers: u64, bytes: u64) -> Space {
        Space { units: 1, unit_bytes: bytes, pitch_bytes: bytes, deal: None, buffers }
    }

    /// All bytes of all buffers.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.units * self.pitch_bytes
    }

    /// The byte at which a unit begins.
    pub(crate) fn unit_at(&self, unit: i64) -> i64 {
        let place = self.deal.as_ref().map_or(unit, |deal| deal.place(unit as u64) as i64);
        place * self.pitch_bytes as i64
    }

    /// A range of bytes in which all of the units `first..=last` begin: the least one, or a little more where they are
    /// distributed to very many buffers.
    pub(crate) fn begins(&self, first: i64, last: i64) -> (i64, i64) {
        let (Some(deal), pitch) = (&self.deal, self.pitch_bytes as i64) else {
            return (self.unit_at(first), self.unit_at(last));
        };
        let buffers = deal.buffers as i64;
        if buffers.min(last - first) > MAX_SEARCHED {
            let round = deal.round() as i64;
            let end = (last / round + 1) * round;
            return (first / round * round * pitch, (end.min(self.units as i64) - 1) * pitch);
        }
        // In each buffer units come in order, so the least is among the first ones of all buffers.
        let least = (first..=last.min(first + buffers - 1)).map(|unit| self.unit_at(unit)).min();
        let greatest = (first.max(last - buffers + 1)..=last).map(|unit| self.unit_at(unit)).max();
        (least.unwrap_or(0), greatest.unwrap_or(0))
    }

    /// The unit that lies at a place, counted in pitches.
    pub(crate) fn unit_of(&self, place: u64) -> u64 {
        self.deal.as_ref().map_or(place, |deal| deal.unit(place))
    }
}

/// Units handed to buffers one by one: of each `buffers * capacity` units, which fill as many places, unit `u` is the
/// `u / buffers`-th of buffer `u % buffers`. Arithmetic, so that a million pages cost nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RoundRobin {
    /// How many buffers there are to a round.
    pub(crate) buffers: u64,
    /// How many units each buffer holds.
    pub(crate) capacity: u64,
    /// The number of each buffer of a round; none: in order.
    pub(crate) permutation: Option<Arc<Permutation>>,
    by_round: Divisor,
    by_buffers: Divisor,
}

/// A number that others are divided by, and its reciprocal: each unit that is read or written is looked up, and on Zen 4 pages are transposed
/// 1.1 times as fast so as by divisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Divisor {
    by: u64,
    /// 2^64 / `by`, rounded up; 0 for 1.
    reciprocal: u64,
}

impl Divisor {
    /// By a number that is not 0; nothing is divided by 0.
    fn new(by: u64) -> Divisor {
        Divisor { by, reciprocal: u64::MAX.checked_div(by).unwrap_or(0).wrapping_add(1) }
    }

    /// Quotient and remainder. Of numbers of 32 bits the upper half of the product with the reciprocal is the quotient: it has less than
    /// `number` / 2^64 too much, which is less than the least fraction that a quotient lacks to the next whole number, 1 / `by`.
    #[inline]
    fn divide(self, number: u64) -> (u64, u64) {
        let Divisor { by, reciprocal } = self;
        if number < by {
            return (0, number);
        }
        let short = number.max(by) <= u64::from(u32::MAX) && reciprocal != 0;
        let quotient = match short {
            true => ((u128::from(number) * u128::from(reciprocal)) >> 64) as u64,
            false => number / by,
        };
        (quotient, number - quotient * by)
    }
}

/// A permutation and its inverse.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Permutation {
    /// The number of each buffer.
    pub(crate) to: Vec<u32>,
    /// The buffer of each number.
    pub(crate) from: Vec<u32>,
}

impl RoundRobin {
    /// `permutation` gives the number of each buffer, if they do not come in order. None where units keep their places.
    pub(crate) fn new(buffers: u64, capacity: u64, permutation: Option<Vec<u32>>) -> Option<RoundRobin> {
        let permutation = permutation.filter(|n| !n.iter().copied().eq(0..n.len() as u32)).map(|to| {
            let mut from = vec![0; to.len()];
            (0..).zip(&to).for_each(|(i, &n)| from[n as usize] = i);
            Arc::new(Permutation { to, from })
        });
        let moves = permutation.is_some() || (buffers > 1 && capacity > 1);
        moves.then(|| RoundRobin::dealt(buffers, capacity, permutation))
    }

    /// The same whether units keep their places or not; of numbers that the verifier refuses too.
    pub(crate) fn dealt(buffers: u64, capacity: u64, permutation: Option<Arc<Permutation>>) -> RoundRobin {
        let (by_round, by_buffers) = (Divisor::new(buffers.saturating_mul(capacity)), Divisor::new(buffers));
        RoundRobin { buffers, capacity, permutation, by_round, by_buffers }
    }

    /// Units of one round, and places.
    pub(crate) fn round(&self) -> u64 {
        self.buffers * self.capacity
    }

    /// Where a unit lies.
    fn place(&self, unit: u64) -> u64 {
        let (round, unit) = self.by_round.divide(unit);
        let (nth, buffer) = self.by_buffers.divide(unit);
        let number = self.permutation.as_ref().map_or(buffer, |n| n.to[buffer as usize].into());
        round * self.round() + number * self.capacity + nth
    }

    /// The unit at a place.
    fn unit(&self, place: u64) -> u64 {
        let (round, place) = (place / self.round(), place % self.round());
        let (number, nth) = (place / self.capacity, place % self.capacity);
        let buffer = self.permutation.as_ref().map_or(number, |n| n.from[number as usize].into());
        round * self.round() + nth * self.buffers + buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_units_begin_in_the_least_range_of_bytes() {
        for (buffers, capacity, permutation) in [
            (3, 4, None),
            (12, 1, Some((0..12).rev().collect())),
            (4, 3, Some(vec![2, 0, 3, 1])),
            (1, 5, None),
        ] {
            let units = 2 * buffers * capacity;
            let deal = RoundRobin::new(buffers, capacity, permutation);
            let space = Space { units, unit_bytes: 6, pitch_bytes: 8, deal, buffers };
            for first in 0..units as i64 {
                for last in first..units as i64 {
                    let begins = (first..=last).map(|unit| space.unit_at(unit));
                    let expected = (begins.clone().min().unwrap(), begins.max().unwrap());
                    assert_eq!(space.begins(first, last), expected, "{first}..={last} of {space:?}");
                }
            }
        }
    }

    #[test]
    fn very_many_buffers_are_not_searched() {
        let (buffers, capacity) = (1 << 40, 4);
        let space = Space {
            units: buffers * capacity,
            unit_bytes: 1,
            pitch_bytes: 1,
            deal: RoundRobin::new(buffers, capacity, None),
            buffers,
        };
        assert_eq!(space.begins(5, (1 << 40) + 7), (0, (1 << 42) - 1));
        assert_eq!(space.begins(5, 7), (20, 28));
    }

    #[test]
    fn reciprocals_divide_exactly() {
        let edges = [0, 1, 2, 3, 5, 7, 12, 63, 64, 100, 641, 65535, 65536, 65537, 6_700_417];
        let edges = edges.into_iter().chain([u32::MAX.into(), 1 << 32, u64::MAX]);
        let near = |at: u64| [at.wrapping_sub(1), at, at.wrapping_add(1)];
        let numbers: Vec<u64> = edges.flat_map(near).collect();
        for by in numbers.iter().copied().filter(|&by| by > 0) {
            let divisor = Divisor::new(by);
            let multiples = [1, 2, 3, u64::from(u32::MAX) / by].map(|n| by.wrapping_mul(n));
            for number in numbers.iter().copied().chain(multiples.into_iter().flat_map(near)) {
                assert_eq!(divisor.divide(number), (number / by, number % by), "{number} / {by}");
            }
        }
    }

    #[test]
    fn units_and_places_are_each_others_inverse() {
        for (buffers, capacity, permutation) in
            [(3, 4, None), (12, 1, Some((0..12).rev().collect())), (4, 3, Some(vec![2, 0, 3, 1]))]
        {
            let deal = RoundRobin::new(buffers, capacity, permutation.clone()).unwrap();
            let mut seen = vec![false; 2 * deal.round() as usize];
            for unit in 0..2 * deal.round() {
                let place = deal.place(unit);
                assert_eq!(deal.unit(place), unit);
                assert!(!std::mem::replace(&mut seen[place as usize], true));
                let first =
                    permutation.as_ref().map_or(unit % buffers, |n| n[(unit % buffers) as usize].into());
                assert_eq!(place / capacity % buffers, first);
            }
        }
        assert_eq!(RoundRobin::new(1, 9, None), None);
        assert_eq!(RoundRobin::new(3, 1, Some(vec![0, 1, 2])), None);
    }
}
