//! Shares: what of a destination a task writes.

use std::mem::MaybeUninit;
use std::ops::Range;

use kernels::Destination;

use super::clip::Chunk;
use crate::layout::Space;

/// The most ranges that all shares of a destination have together.
const MAX_RANGES: usize = 1 << 16;

/// What of a destination one task writes, and the memory of it.
pub(super) enum Share<'d> {
    /// One range of bytes.
    Range(Chunk, &'d mut [MaybeUninit<u8>]),
    /// Units that follow one another, in a range of each buffer to which they are dealt.
    Dealt(Dealt, Vec<&'d mut [MaybeUninit<u8>]>),
}

/// The units that are the `first` to `first + count`-th of each buffer of each round: as they are dealt in turn, they follow
/// one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dealt {
    first: usize,
    count: usize,
    /// How many units each buffer has.
    capacity: usize,
    /// Bytes from one unit of a buffer to the next.
    pitch: usize,
}

impl Dealt {
    /// These units, a range for each round of dealing.
    pub(super) fn units(self, space: &Space) -> impl Iterator<Item = Range<u64>> {
        let (first, count) = (self.first as u64, self.count as u64);
        let rounds = space.deal.as_ref().map(|deal| (deal.round(), deal.buffers));
        let round = move |(round, buffers): (u64, u64)| {
            let units = move |begin: u64| begin + first * buffers..begin + (first + count) * buffers;
            (0..space.units / round).map(move |k| units(k * round))
        };
        rounds.into_iter().flat_map(round)
    }

    /// Where the bytes of these units lie in their ranges.
    pub(super) fn places(self) -> Places {
        let Dealt { first, capacity, pitch, .. } = self;
        Places::Dealt { buffer: (capacity * pitch) as i64, first: (first * pitch) as i64 }
    }
}

/// How the units of a destination that are dealt to buffers are divided among tasks.
pub(super) struct Deal {
    /// How many units each buffer has, and how many of them each task gets.
    capacity: usize,
    count: usize,
    pitch: usize,
    buffers: usize,
}

impl Deal {
    /// For about so many tasks. None where units are not dealt or each buffer has one unit, and where buffers are too many to
    /// give each task a range of each.
    pub(super) fn new(space: &Space, tasks: usize) -> Option<Deal> {
        let (capacity, pitch) = (space.deal.as_ref()?.capacity as usize, space.pitch_bytes as usize);
        let count = capacity.div_ceil(tasks.clamp(1, capacity));
        let deal = Deal { capacity, count, pitch, buffers: space.units as usize / capacity };
        let ranges = deal.tasks().saturating_mul(deal.buffers);
        (deal.tasks() > 1 && ranges <= MAX_RANGES).then_some(deal)
    }

    fn tasks(&self) -> usize {
        self.capacity.div_ceil(self.count)
    }

    /// The shares of all bytes of the destination.
    pub(super) fn shares<'d>(&self, bytes: &'d mut [MaybeUninit<u8>]) -> Vec<Share<'d>> {
        let Deal { capacity, count, pitch, buffers } = *self;
        let mut ranges: Vec<Vec<_>> = (0..self.tasks()).map(|_| Vec::with_capacity(buffers)).collect();
        for buffer in bytes.chunks_mut(capacity * pitch) {
            ranges.iter_mut().zip(buffer.chunks_mut(count * pitch)).for_each(|(of, range)| of.push(range));
        }
        let share = |(task, ranges)| {
            let first = task * count;
            Share::Dealt(Dealt { first, count: count.min(capacity - first), capacity, pitch }, ranges)
        };
        ranges.into_iter().enumerate().map(share).collect()
    }
}

/// Where the bytes of a destination lie in what a task writes to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Places {
    /// In one range, which begins with this byte.
    From(i64),
    /// In a range of each buffer of so many bytes, which begins with byte `first` of it.
    Dealt {
        /// Bytes of a buffer.
        buffer: i64,
        /// The byte of each buffer with which its range begins.
        first: i64,
    },
}

impl Places {
    /// Where a byte of the destination lies in the range that has it, to which `out` turns.
    pub(super) fn turn(self, out: &mut Destination<'_>, place: i64) -> usize {
        match self {
            Places::From(begin) => (place - begin) as usize,
            Places::Dealt { buffer, first } => {
                out.turn_to((place / buffer) as usize);
                (place % buffer - first) as usize
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::destination::writable;
    use super::*;
    use crate::layout::RoundRobin;

    /// Every unit is in one share, and lies in it where the share says.
    #[test]
    fn shares_have_the_bytes_of_their_units() {
        let deals = [(3, 5, None), (3, 5, Some(vec![2, 0, 1])), (2, 2, None), (2, 7, Some(vec![1, 0]))];
        for ((buffers, capacity, numbers), rounds) in deals.into_iter().zip([1, 2, 3, 1]) {
            let deal = RoundRobin::new(buffers, capacity, numbers);
            let units = rounds * buffers * capacity;
            let space = Space { units, unit_bytes: 3, pitch_bytes: 4, deal, buffers };
            for tasks in 2..9 {
                let mut bytes = vec![0; space.total_bytes() as usize];
                let mut seen = vec![false; units as usize];
                let shares = deal_to(tasks, &space, writable(&mut bytes));
                for (dealt, mut ranges) in shares {
                    let mut out = Destination::cached_ranges(&mut ranges);
                    for unit in dealt.units(&space).flatten() {
                        assert!(!std::mem::replace(&mut seen[unit as usize], true), "{unit}");
                        let at = dealt.places().turn(&mut out, space.unit_at(unit as i64));
                        out.bytes()[at..at + 3].fill(MaybeUninit::new(unit as u8 + 1));
                    }
                }
                assert!(!seen.contains(&false));
                for (place, bytes) in (0..).zip(bytes.chunks(4)) {
                    let unit = space.unit_of(place) as u8 + 1;
                    assert_eq!(bytes, [unit, unit, unit, 0], "{place} of {space:?}");
                }
            }
        }
    }

    fn deal_to<'d>(
        tasks: usize,
        space: &Space,
        bytes: &'d mut [MaybeUninit<u8>],
    ) -> Vec<(Dealt, Vec<&'d mut [MaybeUninit<u8>]>)> {
        let shares = Deal::new(space, tasks).unwrap().shares(bytes);
        assert!((2..=tasks).contains(&shares.len()), "{} of {tasks}", shares.len());
        let dealt = |share| match share {
            Share::Dealt(dealt, ranges) => (dealt, ranges),
            Share::Range(..) => panic!("one range"),
        };
        shares.into_iter().map(dealt).collect()
    }

    #[test]
    fn what_is_not_dealt_or_not_in_pieces_has_no_shares() {
        let deals = [
            (None, 3),
            (RoundRobin::new(3, 1, Some(vec![1, 0, 2])), 3),
            (RoundRobin::new(1 << 16, 2, None), 1 << 17),
        ];
        for (deal, units) in deals {
            let space = Space { units, unit_bytes: 1, pitch_bytes: 1, deal, buffers: 1 };
            assert!(Deal::new(&space, 2).is_none(), "{space:?}");
        }
    }
}
