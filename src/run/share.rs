//! Shares: what of a destination a task writes.

use std::mem::MaybeUninit;
use std::ops::Range;

use kernels::Destination;

use super::clip::Chunk;
use crate::layout::Space;
use crate::plan::Plan;
use crate::plan::ir::{LINE, Leaf, Loop};

/// The most ranges that all shares of a destination have together.
const MAX_RANGES: usize = 1 << 16;

/// What of a destination one task writes, and the memory of it.
pub(super) enum Share<'d> {
    /// One range of bytes.
    Range(Chunk, &'d mut [MaybeUninit<u8>]),
    /// Units that follow one another, in a range of each buffer to which they are dealt.
    Dealt(Dealt, Vec<&'d mut [MaybeUninit<u8>]>),
    /// A band, in a range of each plane.
    Band(Band, Vec<&'d mut [MaybeUninit<u8>]>),
}

/// The same range of bytes of each plane of a destination, which are as long and follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Band {
    begin: usize,
    end: usize,
    plane: usize,
}

impl Band {
    /// What the band has of the first plane.
    pub(super) fn of_first_plane(self) -> (i64, i64) {
        (self.begin as i64, self.end as i64)
    }

    /// Where its bytes lie in its ranges.
    pub(super) fn places(self) -> Places {
        Places::InEach { part: self.plane as i64, first: self.begin as i64 }
    }
}

/// How a destination is divided into bands. The source of such a destination has the planes side by side, a short run of one after a short
/// run of another: a range of a plane alone would be made of runs that lie apart, a band is made of a range of the source.
pub(super) struct Bands {
    /// Bytes of a plane, and those that each band has of it.
    plane: usize,
    bytes: usize,
}

impl Bands {
    /// For about so many tasks. None where the plan's elements do not lie so, or do not go from source to destination at once.
    pub(super) fn new(plan: &Plan, tasks: usize) -> Option<Bands> {
        let [nest] = &*plan.nests else { return None };
        let [outer, inner, ..] = &*nest.loops else { return None };
        let schedule = &nest.schedule;
        let direct = nest.leaf == Leaf::Element && schedule.in_bands && !schedule.assembled;
        let beside = |l: &Loop| l.step[0] == 0 && l.step[3] == 0 && l.step[1] > 0 && l.step[4] > 0;
        // Planes are walked around the calls of kernels, which take loops inside of them, in whichever order.
        let walked = schedule.tiles.is_none() && schedule.cols.is_some_and(|i| i > 1);
        if !direct || !walked || plan.dst.space.units != 1 || !beside(outer) || !beside(inner) || outer.n < 2
        {
            return None;
        }
        let (plane, planes) = (usize::try_from(outer.step[4]).ok()?, usize::try_from(outer.n).ok()?);
        let covers = plane.checked_mul(planes) == Some(plan.destination_bytes());
        let near = outer.step[1].saturating_mul(planes as i64) <= inner.step[1];
        // Bands end where iterations, lines and leaves do.
        let step = usize::try_from(inner.step[4]).ok()?;
        let ends =
            |unit: usize| [step, plan.chunk_alignment(), LINE].iter().all(|&of| unit.is_multiple_of(of));
        let block = step.checked_mul(schedule.blocks[1] as usize)?;
        let unit =
            [block, step, plan.chunk_alignment(), LINE].into_iter().find(|&unit| unit > 0 && ends(unit))?;
        let wanted = (plan.destination_bytes() / tasks.max(1)).max(plan.tuning.task) / planes;
        let bytes = wanted.max(1).checked_next_multiple_of(unit)?;
        let parts = plane.div_ceil(bytes);
        (covers && near && parts > 1 && parts.saturating_mul(planes) <= MAX_RANGES)
            .then_some(Bands { plane, bytes })
    }

    /// The shares of all bytes of the destination.
    pub(super) fn shares<'d>(&self, destination: &'d mut [MaybeUninit<u8>]) -> Vec<Share<'d>> {
        let Bands { plane, bytes, .. } = *self;
        let share = |(task, ranges)| {
            let begin = task * bytes;
            Share::Band(Band { begin, end: (begin + bytes).min(plane), plane }, ranges)
        };
        in_each(destination, plane, bytes).into_iter().enumerate().map(share).collect()
    }
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
        Places::InEach { part: (capacity * pitch) as i64, first: (first * pitch) as i64 }
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
        let Deal { capacity, count, pitch, .. } = *self;
        let share = |(task, ranges)| {
            let first = task * count;
            Share::Dealt(Dealt { first, count: count.min(capacity - first), capacity, pitch }, ranges)
        };
        in_each(bytes, capacity * pitch, count * pitch).into_iter().enumerate().map(share).collect()
    }
}

/// The ranges of `piece` bytes, or what is left, of each part of `part` bytes: the first of all parts, the second, and so on.
fn in_each(bytes: &mut [MaybeUninit<u8>], part: usize, piece: usize) -> Vec<Vec<&mut [MaybeUninit<u8>]>> {
    let parts = bytes.len().div_ceil(part);
    let mut ranges: Vec<Vec<_>> = (0..part.div_ceil(piece)).map(|_| Vec::with_capacity(parts)).collect();
    for part in bytes.chunks_mut(part) {
        ranges.iter_mut().zip(part.chunks_mut(piece)).for_each(|(of, range)| of.push(range));
    }
    ranges
}

/// Where the bytes of a destination lie in what a task writes to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Places {
    /// In one range, which begins with this byte.
    From(i64),
    /// In a range of each part of the destination, a buffer or a plane.
    InEach {
        /// Bytes of a part.
        part: i64,
        /// The byte of each part with which its range begins.
        first: i64,
    },
}

impl Places {
    /// Whether all iterations of a loop lie in one range.
    pub(super) fn has_in_a_range(self, l: &Loop) -> bool {
        match self {
            Places::From(_) => true,
            Places::InEach { part, .. } => l.step[4].abs() < part,
        }
    }

    /// Where a byte of the destination lies in the range that has it, to which `out` turns.
    pub(super) fn turn(self, out: &mut Destination<'_>, place: i64) -> usize {
        match self {
            Places::From(begin) => (place - begin) as usize,
            Places::InEach { part, first } => {
                out.turn_to((place / part) as usize);
                (place % part - first) as usize
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::destination::writable;
    use super::*;
    use crate::family::{Descriptor, Placement, Tensor};
    use crate::layout::RoundRobin;
    use crate::plan::Store;
    use crate::tuning::{Tuning, builtin};
    use crate::{DType, Options};

    /// Sticks of 8 matrices, which lie side by side, become 8 planes.
    fn unstickify(text: &str, rows: u64) -> Plan {
        let tensor = Tensor { shape: vec![8, rows, 128], dtype: DType::F16 };
        let layout = |text: &str| {
            let descriptor: Descriptor = text.parse().unwrap();
            descriptor.layout(&tensor, &Placement::default()).unwrap()
        };
        let from = format!("SpyreTensorLayout(device_size=[{rows}, 2, 8, 64], dim_map=[1, 2, 0, 2], {text})");
        let options = Options::default().with_store(Store::Streamed);
        let tuning = Tuning { bands_fetched: 256, ..builtin::CONSERVATIVE };
        let to = layout(&format!("memref<8x{rows}x128xf16>"));
        Plan::compile_with(&layout(&from), &to, &options, &tuning).unwrap()
    }

    #[test]
    fn bands_have_a_range_of_each_plane() {
        for text in ["device_dtype=DataFormats.IEEE_FP16", "device_dtype=DataFormats.SEN169_FP16"] {
            for (rows, tasks) in [(512, 4), (1024, 8), (4096, 3)] {
                let plan = unstickify(text, rows);
                let bands = Bands::new(&plan, tasks).unwrap_or_else(|| panic!("{plan}"));
                let mut bytes = vec![0; plan.destination_bytes()];
                let (start, plane) = (bytes.as_ptr().addr(), bytes.len() / 8);
                let mut at = 0;
                for share in bands.shares(writable(&mut bytes)) {
                    let Share::Band(band, ranges) = share else { panic!("no band") };
                    let (begin, end) = band.of_first_plane();
                    assert_eq!((begin, ranges.len()), (at, 8));
                    for (k, range) in ranges.iter().enumerate() {
                        let offset = range.as_ptr().addr() - start;
                        assert_eq!((offset, range.len()), (k * plane + at as usize, (end - begin) as usize));
                    }
                    at = end;
                }
                assert_eq!(at as usize, plane);
                assert!(Bands::new(&plan, 0).is_none(), "one band is none");
            }
        }
        let dense = |text: &str| text.parse::<Descriptor>().unwrap();
        let tensor = Tensor { shape: vec![8, 64, 128], dtype: DType::F16 };
        let layout = dense("memref<8x64x128xf16>").layout(&tensor, &Placement::default()).unwrap();
        let plan = Plan::compile(&layout, &layout, &Options::default()).unwrap();
        assert!(Bands::new(&plan, 4).is_none(), "{plan}");
    }

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
            Share::Range(..) | Share::Band(..) => panic!("not dealt"),
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
