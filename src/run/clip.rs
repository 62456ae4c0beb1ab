//! The rectangular parts of a plan's nests that a range of the destination consists of.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::layout::Space;
use crate::plan::Plan;
use crate::plan::ir::{AddressPair, ScheduledNest};

/// A range of the destination whose ends are ends of leaves (fact V3): multiples of [`Plan::chunk_alignment`], or the end
/// of the destination. What runs is always such a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    begin: usize,
    end: usize,
}

impl Chunk {
    /// # Errors
    /// Where the range does not lie in the destination, or ends where a leaf does not.
    pub(super) fn new(plan: &Plan, range: &Range<usize>) -> Result<Chunk> {
        let (alignment, total) = (plan.chunk_alignment().max(1), plan.destination_bytes());
        let whole = |at: usize| at.is_multiple_of(alignment) || at == total;
        if range.start > range.end || range.end > total || !whole(range.start) || !whole(range.end) {
            let needed = format!("multiples of {alignment} inside of 0..{total}");
            return Err(Error::value("chunk", format!("{range:?}"), needed));
        }
        Ok(Chunk { begin: range.start, end: range.end })
    }

    /// All of the destination. Nothing is divided: that costs some processors as much as a small tensor.
    pub(super) fn all(plan: &Plan) -> Chunk {
        Chunk { begin: 0, end: plan.destination_bytes() }
    }

    pub(super) fn begin(self) -> usize {
        self.begin
    }

    pub(super) fn len(self) -> usize {
        self.end - self.begin
    }

    /// The ranges of bytes of this chunk in which units lie in order.
    pub(super) fn stretches(self, space: &Space) -> impl Iterator<Item = Stretch> {
        let (pitch, unit) = (space.pitch_bytes as usize, space.unit_bytes as usize);
        let in_order = space.deal.is_none() && pitch == unit;
        let Chunk { begin: mut at, end } = self;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            if in_order {
                let stretch = Stretch { at, lo: at as i64, hi: end as i64, gap: 0 };
                at = end;
                return Some(stretch);
            }
            let (place, from) = (at / pitch, at % pitch);
            let to = pitch.min(from + end - at);
            let which = space.unit_of(place as u64) as usize;
            let (lo, hi) = (which * unit + from.min(unit), which * unit + to.min(unit));
            let stretch = Stretch { at, lo: lo as i64, hi: hi as i64, gap: to - from - (hi - lo) };
            at += to - from;
            Some(stretch)
        })
    }
}

/// A range of the destination whose units lie in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Where it begins, in bytes of the destination.
    pub(super) at: usize,
    /// The same bytes, counted through all units.
    pub(super) lo: i64,
    pub(super) hi: i64,
    /// Zero bytes behind it, which belong to no unit.
    pub(super) gap: usize,
}

/// A rectangular part of a nest of at most `N` loops.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<const N: usize> {
    pub(super) at: AddressPair,
    /// The first iteration of each loop of the nest.
    pub(super) first: [u64; N],
    /// How many iterations of it there are.
    pub(super) n: [u64; N],
}

impl<const N: usize> View<N> {
    /// All of a nest.
    pub(super) fn of(nest: &ScheduledNest) -> View<N> {
        let mut view = View { at: nest.at, first: [0; N], n: [1; N] };
        view.n.iter_mut().zip(&nest.loops).for_each(|(n, l)| *n = l.n);
        view
    }
}

/// Visits what a nest writes of `range`, counted through all units.
///
/// V1: steps nest, so at most two iterations of a loop are cut; V3: no end of the range lies inside of a leaf, so no leaf
/// is cut. Where a loop of a view is cut, the loops further out have one iteration.
pub(super) fn clip<const N: usize>(
    plan: &Plan,
    nest: &ScheduledNest,
    range: (i64, i64),
    visit: &mut impl FnMut(&ScheduledNest, &View<N>),
) {
    let block_bytes = plan.dst.block_bytes as i64;
    let extent = nest.loops.iter().fold(block_bytes, |e, l| e + (l.n as i64 - 1) * linear(plan, l.step));
    clip_loops(plan, nest, View::of(nest), 0, extent, range, visit);
}

/// [`clip`] of a view whose loops before `depth` have one iteration; `extent` is how far it goes from its first byte.
fn clip_loops<const N: usize>(
    plan: &Plan,
    nest: &ScheduledNest,
    view: View<N>,
    depth: usize,
    extent: i64,
    range: (i64, i64),
    visit: &mut impl FnMut(&ScheduledNest, &View<N>),
) {
    let (lo, hi) = range;
    let begin = linear(plan, view.at);
    if begin >= lo && begin + extent <= hi {
        return visit(nest, &view);
    }
    if begin >= hi || begin + extent <= lo {
        return;
    }
    let Some(&l) = nest.loops.get(depth) else {
        debug_assert!(false, "V3: {range:?} cuts a leaf at {begin}");
        return;
    };
    let step = linear(plan, l.step);
    let n = view.n[depth] as i64;
    let inner = extent - (n - 1) * step;
    let part = |from: i64, n: i64| {
        let mut part = view;
        part.at = advance(view.at, l.step, from);
        part.first[depth] += from as u64;
        part.n[depth] = n as u64;
        part
    };
    // Iterations that meet the range, and those of them that lie inside of it.
    let first = ((lo - begin - inner).div_euclid(step) + 1).max(0);
    let last = (hi - 1 - begin).div_euclid(step).min(n - 1);
    let whole = (lo - begin + step - 1).div_euclid(step).max(first);
    let whole_last = (hi - inner - begin).div_euclid(step).min(last);
    let (cut, whole_end) = if whole > whole_last { (last + 1, last + 1) } else { (whole, whole_last + 1) };
    for i in first..cut {
        clip_loops(plan, nest, part(i, 1), depth + 1, inner, range, visit);
    }
    if cut < whole_end {
        visit(nest, &part(cut, whole_end - cut));
    }
    for i in whole_end..=last {
        clip_loops(plan, nest, part(i, 1), depth + 1, inner, range, visit);
    }
}

/// The destination half of an address, as bytes through all units in order.
pub(super) fn linear(plan: &Plan, at: AddressPair) -> i64 {
    at[3] * plan.dst.space.unit_bytes as i64 + at[4]
}

/// The destination half of an address, as a byte of the destination.
pub(super) fn place(plan: &Plan, at: AddressPair) -> i64 {
    plan.dst.space.unit_at(at[3]) + at[4]
}

/// The address some iterations of a loop further on.
pub(super) fn advance(at: AddressPair, step: AddressPair, iterations: i64) -> AddressPair {
    std::array::from_fn(|k| at[k] + step[k] * iterations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{Descriptor, Placement, Tensor};
    use crate::{DType, Options};

    /// A transpose: 4 rows of 6 bytes, each row from a column of the source.
    fn plan() -> Plan {
        let tensor = Tensor { shape: vec![4, 6], dtype: DType::U8 };
        let layout = |text: &str| {
            let descriptor: Descriptor = text.parse().unwrap();
            descriptor.layout(&tensor, &Placement::default()).unwrap()
        };
        let (from, to) = (layout("memref<4x6xui8, strided<[1, 4]>>"), layout("memref<4x6xui8>"));
        Plan::compile(&from, &to, &Options::default()).unwrap()
    }

    /// Source byte, destination byte, rows and columns of each view of a range.
    fn views(range: (i64, i64)) -> Vec<(i64, i64, u64, u64)> {
        let (plan, mut views) = (plan(), Vec::new());
        clip(&plan, &plan.nests[0], range, &mut |_, v: &View<2>| {
            views.push((v.at[1], v.at[4], v.n[0], v.n[1]))
        });
        views
    }

    #[test]
    fn a_range_is_a_few_rectangles() {
        assert_eq!(views((0, 24)), [(0, 0, 4, 6)]);
        assert_eq!(views((6, 18)), [(1, 6, 2, 6)]);
        assert_eq!(views((8, 22)), [(9, 8, 1, 4), (2, 12, 1, 6), (3, 18, 1, 4)]);
        assert_eq!(views((7, 8)), [(5, 7, 1, 1)]);
        assert_eq!(views((9, 9)), []);
    }

    #[test]
    fn chunks_end_where_leaves_do() {
        let tensor = Tensor { shape: vec![9], dtype: DType::I32 };
        let dense = "memref<9xi32>".parse::<Descriptor>().unwrap();
        let dense = dense.layout(&tensor, &Placement::default()).unwrap();
        let plan = Plan::compile(&dense, &dense, &Options::default()).unwrap();
        assert!(Chunk::new(&plan, &(4..12)).is_ok());
        for (start, end) in [(3, 12), (4, 13), (12, 4), (0, 40)] {
            let range = start..end;
            assert!(Chunk::new(&plan, &range).is_err(), "{range:?}");
        }
    }

    #[test]
    fn stretches_lie_in_units_and_end_in_gaps() {
        // Two buffers of two units each, 6 bytes every 8.
        let deal = crate::layout::RoundRobin::new(2, 2, None);
        let space = Space { units: 4, unit_bytes: 6, pitch_bytes: 8, deal, buffers: 2 };
        let stretches: Vec<_> = Chunk { begin: 8, end: 24 }.stretches(&space).collect();
        let second = Stretch { at: 8, lo: 12, hi: 18, gap: 2 };
        let third = Stretch { at: 16, lo: 6, hi: 12, gap: 2 };
        assert_eq!(stretches, [second, third]);
    }
}
