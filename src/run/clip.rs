//! The rectangular parts of a plan's nests that a range of the destination consists of.

use crate::plan::nest::{AddressPair, Nest};
use crate::plan::{MAX_LOOPS, Plan};

/// A rectangular part of a nest.
#[derive(Clone, Copy)]
pub(super) struct View {
    pub(super) at: AddressPair,
    /// The first turn of each loop of the nest.
    pub(super) first: [u64; MAX_LOOPS],
    /// How many turns of it there are.
    pub(super) n: [u64; MAX_LOOPS],
}

/// A part of a destination range whose units lie in order.
pub(super) struct Part {
    /// Where it begins, in bytes of the destination.
    pub(super) at: usize,
    /// The same bytes, counted through all units.
    pub(super) lo: i64,
    pub(super) hi: i64,
    /// Zero bytes behind it, which belong to no unit.
    pub(super) gap: usize,
}

impl Plan {
    /// The parts of the destination's bytes `begin..end`, in order.
    pub(super) fn parts(&self, begin: usize, end: usize) -> impl Iterator<Item = Part> {
        let space = &self.dst.space;
        let (pitch, unit) = (space.pitch_bytes as usize, space.unit_bytes as usize);
        let in_order = space.deal.is_none() && pitch == unit;
        let mut at = begin;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            if in_order {
                let part = Part { at, lo: at as i64, hi: end as i64, gap: 0 };
                at = end;
                return Some(part);
            }
            let (place, from) = (at / pitch, at % pitch);
            let to = pitch.min(from + end - at);
            let which = space.unit_of(place as u64) as usize;
            let (lo, hi) = (which * unit + from.min(unit), which * unit + to.min(unit));
            let part = Part { at, lo: lo as i64, hi: hi as i64, gap: to - from - (hi - lo) };
            at += to - from;
            Some(part)
        })
    }

    /// Visits what the nests write of `lo..hi`, counted through all units.
    pub(super) fn clip(&self, lo: i64, hi: i64, visit: &mut impl FnMut(&Nest, &View)) {
        for nest in &self.nests {
            let mut view = View { at: nest.at, first: [0; MAX_LOOPS], n: [1; MAX_LOOPS] };
            view.n.iter_mut().zip(&nest.loops).for_each(|(n, l)| *n = l.n);
            let block_bytes = self.dst.block_bytes as i64;
            let extent =
                nest.loops.iter().fold(block_bytes, |e, l| e + (l.n as i64 - 1) * self.linear(l.step));
            self.clip_loops(nest, view, 0, extent, (lo, hi), visit);
        }
    }

    /// Visits the part of a view that lies in the range. Loops before `depth` have one turn; `extent` is how far
    /// the view reaches from its first byte. Steps nest (V1), so at most two turns of a loop are cut.
    fn clip_loops(
        &self,
        nest: &Nest,
        view: View,
        depth: usize,
        extent: i64,
        range: (i64, i64),
        visit: &mut impl FnMut(&Nest, &View),
    ) {
        let (lo, hi) = range;
        let begin = self.linear(view.at);
        if begin >= lo && begin + extent <= hi {
            return visit(nest, &view);
        }
        if begin >= hi || begin + extent <= lo || depth == nest.loops.len() {
            return;
        }
        let step = self.linear(nest.loops[depth].step);
        let n = view.n[depth] as i64;
        let inner = extent - (n - 1) * step;
        let turns = |from: i64, n: i64| {
            let mut part = view;
            part.at = advance(view.at, nest.loops[depth].step, from);
            part.first[depth] += from as u64;
            part.n[depth] = n as u64;
            part
        };
        if step == 0 {
            return self.clip_loops(nest, view, depth + 1, extent, range, visit);
        }
        // Turns that meet the range, and those of them that lie inside of it.
        let first = ((lo - begin - inner).div_euclid(step) + 1).max(0);
        let last = (hi - 1 - begin).div_euclid(step).min(n - 1);
        let whole = (lo - begin + step - 1).div_euclid(step).max(first);
        let whole_last = (hi - inner - begin).div_euclid(step).min(last);
        if whole > whole_last {
            for i in first..=last {
                self.clip_loops(nest, turns(i, 1), depth + 1, inner, range, visit);
            }
            return;
        }
        for i in first..whole {
            self.clip_loops(nest, turns(i, 1), depth + 1, inner, range, visit);
        }
        visit(nest, &turns(whole, whole_last - whole + 1));
        for i in whole_last + 1..=last {
            self.clip_loops(nest, turns(i, 1), depth + 1, inner, range, visit);
        }
    }

    /// The destination half of an address, as bytes through all units in order.
    pub(super) fn linear(&self, at: AddressPair) -> i64 {
        at[3] * self.dst.space.unit_bytes as i64 + at[4]
    }
}

/// The address some turns of a loop further on.
pub(super) fn advance(at: AddressPair, step: AddressPair, turns: i64) -> AddressPair {
    std::array::from_fn(|k| at[k] + step[k] * turns)
}
