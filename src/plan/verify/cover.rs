//! V1: destinations are disjoint and cover every byte of every unit.
//!
//! Each nest is a rising sequence of runs of bytes. Nests that lie apart are compared by their ends. Those that interleave
//! are cut at the multiples of the greatest step among them, and each range of periods in which the same runs are written
//! is looked at once, as a smaller problem of the same kind. Where nothing repeats this comes down to comparing run by
//! run, so the work never exceeds the number of runs times the depth of the nests.

use crate::error::{Error, Result};
use crate::layout::{Layout, MAX_BYTES, RoundRobin, Space};
use crate::plan::ir::{ScheduledNest, dst};

/// Runs and ranges of periods that the proof looks at before it gives up: about a second.
const MAX_WORK: usize = 1 << 25;

/// V1: every byte of every unit exactly once.
pub(super) fn covers(nests: &[ScheduledNest], layout: &Layout) -> Result<()> {
    let mut cover = Cover { loops: Vec::new(), work: 0, limit: MAX_WORK };
    let mut runs = Vec::with_capacity(nests.len());
    for nest in nests {
        runs.push(cover.nest(nest, layout)?);
    }
    cover.prove(runs, (layout.space.units * layout.space.unit_bytes) as i64)
}

/// One loop of a nest.
#[derive(Debug, Clone, Copy)]
struct Level {
    n: i64,
    step: i64,
    /// Bytes from the first to the end of the last run of one iteration.
    body: i64,
}

/// The runs of a nest, or of a part of it: runs of `bytes` from `at` on, repeated by loops.
#[derive(Debug, Clone, Copy)]
struct Runs {
    at: i64,
    bytes: i64,
    /// Iterations of the outermost loop; 1 where there is none.
    n: i64,
    /// The loops, outermost first: a range of [`Cover::loops`].
    first: usize,
    end: usize,
}

/// The same runs in several periods one after the other, at places counted from the beginning of each.
#[derive(Debug, Clone, Copy)]
struct Repeated {
    first: i64,
    end: i64,
    runs: Runs,
}

/// A range of bytes that is looked at period by period.
struct Periods {
    period: i64,
    bytes: i64,
    /// What is repeated, the latest to begin first.
    waiting: Vec<Repeated>,
    active: Vec<Repeated>,
    at: i64,
}

struct Cover {
    loops: Vec<Level>,
    work: usize,
    limit: usize,
}

impl Cover {
    /// The runs of a nest, whose steps must nest and whose blocks must lie inside of units.
    fn nest(&mut self, nest: &ScheduledNest, layout: &Layout) -> Result<Runs> {
        let unit = i128::from(layout.space.unit_bytes);
        let linear = |a: [i64; 3]| i128::from(a[0]) * unit + i128::from(a[1]);
        let block = i128::from(layout.block_bytes());
        let [mut unit_end, mut byte_end, slot] = dst(nest.at).map(i128::from);
        if unit_end < 0 || byte_end < 0 || slot != 0 {
            return Err(Error::unverified(
                "V1",
                format!("a nest begins at unit {unit_end}, byte {byte_end}"),
            ));
        }
        for l in &nest.loops {
            if l.n == 0 || l.dst()[2] != 0 || l.dst()[..2].iter().any(|&s| s < 0) {
                return Err(Error::unverified(
                    "V1",
                    format!("a loop of {} iterations, {:?} apart", l.n, l.dst()),
                ));
            }
            let span = |s: i64| (i128::from(l.n) - 1).saturating_mul(s.into());
            unit_end = unit_end.saturating_add(span(l.dst()[0]));
            byte_end = byte_end.saturating_add(span(l.dst()[1]));
        }
        if unit_end >= i128::from(layout.space.units) || byte_end > unit - block {
            return Err(Error::unverified("V1", format!("a nest reaches unit {unit_end}, byte {byte_end}")));
        }
        let first = self.loops.len();
        let (mut bytes, mut body) = (block as i64, block as i64);
        for l in nest.loops.iter().rev() {
            let step = linear(l.dst());
            if step <= 0 || step > i128::from(MAX_BYTES) || (l.n > 1 && step < body.into()) {
                return Err(Error::unverified(
                    "V1",
                    format!("{} iterations of {body} bytes, {step} bytes apart", l.n),
                ));
            }
            // All iterations lie inside of the destination.
            let (n, step) = (l.n as i64, step as i64);
            if step == bytes && bytes == body {
                bytes *= n;
            } else if n > 1 {
                self.loops.push(Level { n, step, body });
            }
            body += (n - 1) * step;
        }
        self.loops[first..].reverse();
        Ok(self.runs(linear(dst(nest.at)) as i64, bytes, first, self.loops.len()))
    }

    fn runs(&self, at: i64, bytes: i64, first: usize, end: usize) -> Runs {
        Runs { at, bytes, n: if first < end { self.loops[first].n } else { 1 }, first, end }
    }

    fn outer(&self, runs: &Runs) -> Option<Level> {
        self.loops[runs.first..runs.end].first().copied()
    }

    /// Where the last run ends.
    fn end(&self, runs: &Runs) -> i64 {
        runs.at + self.outer(runs).map_or(runs.bytes, |l| (runs.n - 1) * l.step + l.body)
    }

    /// Some iterations of the outermost loop.
    fn part(&self, runs: &Runs, from: i64, n: i64) -> Runs {
        let step = self.outer(runs).map_or(0, |l| l.step);
        let at = runs.at + from * step;
        if n == 1 {
            self.runs(at, runs.bytes, (runs.first + 1).min(runs.end), runs.end)
        } else {
            Runs { at, n, ..*runs }
        }
    }

    fn spend(&mut self, work: usize) -> Result<()> {
        self.work += work;
        if self.work > self.limit {
            let what = "the proof that the plan covers its destination".into();
            return Err(Error::TooComplex { what, cap: self.limit });
        }
        Ok(())
    }

    /// Proves that runs are disjoint and fill `0..bytes`.
    fn prove(&mut self, runs: Vec<Runs>, bytes: i64) -> Result<()> {
        let mut open = Vec::new();
        self.region(runs, bytes, &mut open)?;
        while let Some(mut periods) = open.pop() {
            if let Some((runs, bytes)) = self.next_region(&mut periods)? {
                open.push(periods);
                self.region(runs, bytes, &mut open)?;
            }
        }
        Ok(())
    }

    /// Proves that runs fill `0..bytes` as far as they do not interleave; what does is left to `open`.
    fn region(&mut self, mut runs: Vec<Runs>, bytes: i64, open: &mut Vec<Periods>) -> Result<()> {
        self.spend(runs.len() + 1)?;
        runs.sort_unstable_by_key(|r| r.at);
        let mut at = 0;
        let mut rest = runs.as_slice();
        while let Some(first) = rest.first() {
            if first.at != at {
                return Err(Error::unverified(
                    "V1",
                    format!("byte {at} of a region is followed by byte {}", first.at),
                ));
            }
            let mut end = self.end(first);
            let mut meeting = 1;
            while let Some(next) = rest.get(meeting).filter(|next| next.at < end) {
                end = end.max(self.end(next));
                meeting += 1;
            }
            let (group, others) = rest.split_at(meeting);
            if meeting > 1 {
                open.push(self.periods(group, at, end - at)?);
            } else if self.outer(first).is_some() {
                return Err(Error::unverified(
                    "V1",
                    format!("nothing is written between the runs of {at}..{end}"),
                ));
            }
            (at, rest) = (end, others);
        }
        if at != bytes {
            return Err(Error::unverified(
                "V1",
                format!("byte {at} of a region is followed by byte {bytes}"),
            ));
        }
        Ok(())
    }

    /// Runs that interleave, by periods of their greatest step.
    fn periods(&mut self, group: &[Runs], from: i64, bytes: i64) -> Result<Periods> {
        let Some(period) = group.iter().filter_map(|r| self.outer(r).map(|l| l.step)).max() else {
            return Err(Error::unverified("V1", format!("two runs meet in the {bytes} bytes from {from}")));
        };
        let mut queue: Vec<Runs> = group.iter().map(|r| Runs { at: r.at - from, ..*r }).collect();
        let mut repeated = Vec::with_capacity(queue.len());
        while let Some(runs) = queue.pop() {
            self.spend(1)?;
            self.repeat(runs, period, &mut repeated, &mut queue);
        }
        repeated.sort_unstable_by_key(|r| std::cmp::Reverse(r.first));
        Ok(Periods { period, bytes, waiting: repeated, active: Vec::new(), at: 0 })
    }

    /// Runs as parts that are repeated in whole periods; what is left of them goes to `rest`.
    fn repeat(&self, runs: Runs, period: i64, out: &mut Vec<Repeated>, rest: &mut Vec<Runs>) {
        let first = runs.at / period;
        let one = Runs { at: runs.at % period, ..runs };
        match self.outer(&runs) {
            _ if self.end(&one) <= period => out.push(Repeated { first, end: first + 1, runs: one }),
            Some(Level { step, .. }) if period % step == 0 && runs.n >= period / step => {
                let per = period / step;
                self.in_each(self.part(&one, 0, per), first, runs.n / per, period, out);
                if runs.n % per > 0 {
                    rest.push(self.part(&runs, runs.n / per * per, runs.n % per));
                }
            }
            Some(_) => {
                // No number of iterations makes a period: those of this period, and the others.
                let mut below = Vec::new();
                self.split(runs, (first + 1) * period, &mut below, rest);
                let local = |r: Runs| Runs { at: r.at - first * period, ..r };
                out.extend(below.into_iter().map(|r| Repeated { first, end: first + 1, runs: local(r) }));
            }
            None => {
                // One run through several periods: its ends, and the whole periods between.
                let run = |at: i64, bytes: i64| Runs { at, bytes, ..runs };
                let end = runs.at + runs.bytes;
                let (head, tail) = (first + i64::from(one.at > 0), end / period);
                if one.at > 0 {
                    out.push(Repeated { first, end: head, runs: run(one.at, period - one.at) });
                }
                if tail > head {
                    out.push(Repeated { first: head, end: tail, runs: run(0, period) });
                }
                if end % period > 0 {
                    out.push(Repeated { first: tail, end: tail + 1, runs: run(0, end % period) });
                }
            }
        }
    }

    /// The same runs in each of `n` periods; what passes the end of one lies in the next.
    fn in_each(&self, runs: Runs, first: i64, n: i64, period: i64, out: &mut Vec<Repeated>) {
        let (mut here, mut next) = (Vec::new(), Vec::new());
        self.split(runs, period, &mut here, &mut next);
        out.extend(here.into_iter().map(|runs| Repeated { first, end: first + n, runs }));
        let back = |r: Runs| Runs { at: r.at - period, ..r };
        out.extend(next.into_iter().map(|r| Repeated {
            first: first + 1,
            end: first + 1 + n,
            runs: back(r),
        }));
    }

    /// The parts of runs in front of byte `cut`, and those from there on.
    fn split(&self, mut runs: Runs, cut: i64, below: &mut Vec<Runs>, above: &mut Vec<Runs>) {
        loop {
            if self.end(&runs) <= cut {
                return below.push(runs);
            }
            if runs.at >= cut {
                return above.push(runs);
            }
            let Some(Level { step, body, .. }) = self.outer(&runs) else {
                below.push(Runs { bytes: cut - runs.at, ..runs });
                return above.push(Runs { at: cut, bytes: runs.at + runs.bytes - cut, ..runs });
            };
            // Iterations that end in front of the cut, and the first one that begins behind it: at most one is cut.
            let whole = ((cut - runs.at - body).div_euclid(step) + 1).clamp(0, runs.n);
            let behind = (cut - runs.at + step - 1).div_euclid(step).clamp(0, runs.n);
            if whole > 0 {
                below.push(self.part(&runs, 0, whole));
            }
            if behind < runs.n {
                above.push(self.part(&runs, behind, runs.n - behind));
            }
            if whole == behind {
                return;
            }
            runs = self.part(&runs, whole, 1);
        }
    }

    /// What is written in the next periods that are all alike, and the bytes of one of them; none at the end.
    fn next_region(&mut self, periods: &mut Periods) -> Result<Option<(Vec<Runs>, i64)>> {
        let Periods { period, bytes, waiting, active, at } = periods;
        let left = *bytes - *at * *period;
        if left <= 0 {
            return Ok(None);
        }
        while let Some(next) = waiting.pop_if(|r| r.first <= *at) {
            active.push(next);
        }
        self.spend(active.len())?;
        let until = active.iter().map(|r| r.end).chain(waiting.last().map(|r| r.first)).min();
        let (whole, last) = (*bytes / *period, *bytes % *period);
        let until = until.unwrap_or(whole).min(if *at < whole { whole } else { *at + 1 });
        let runs = active.iter().map(|r| r.runs).collect();
        let size = if *at < whole { *period } else { last };
        active.retain(|r| r.end > until);
        *at = until;
        Ok(Some((runs, size)))
    }
}

/// V1: no two units on one place. Dealing in turn is one to one if whole rounds are dealt, and if the numbers of the
/// buffers are a permutation with its inverse.
pub(super) fn distributes(space: &Space) -> Result<()> {
    let refuse = |what: String| Err(Error::unverified("V1", what));
    if space.pitch_bytes < space.unit_bytes {
        return refuse(format!("units of {} bytes, {} apart", space.unit_bytes, space.pitch_bytes));
    }
    let Some(RoundRobin { buffers, capacity, permutation, .. }) = &space.deal else { return Ok(()) };
    if buffers.checked_mul(*capacity).is_none_or(|round| round == 0 || !space.units.is_multiple_of(round)) {
        return refuse(format!("{} units dealt to {buffers} buffers of {capacity}", space.units));
    }
    let Some(numbers) = permutation else { return Ok(()) };
    let back = |(i, n): (u32, &u32)| numbers.from.get(*n as usize) == Some(&i);
    let all = [&numbers.to, &numbers.from].iter().all(|n| n.len() as u64 == *buffers);
    if !all || !(0..).zip(&numbers.to).all(back) {
        return refuse(format!("two of {buffers} buffers have one number"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Tensor;
    use crate::plan::ir::{Leaf, Loop, Nest, Schedule};
    use crate::{DType, Descriptor, Placement};
    use proptest::prelude::*;
    use std::sync::Arc;

    /// A nest of fills: unit, byte and slot of the first, and how often and how far apart.
    fn nest(at: [i64; 3], loops: &[(u64, [i64; 3])]) -> ScheduledNest {
        let step = |[unit, byte, slot]: [i64; 3]| [0, 0, 0, unit, byte, slot];
        let loops: Vec<Loop> = loops.iter().map(|&(n, by)| Loop { n, step: step(by) }).collect();
        let schedule = Schedule::new(&loops);
        Nest { at: step(at), loops, leaf: Leaf::Fill, schedule }
    }

    #[test]
    fn nests_keep_to_units_and_bytes() {
        let pages = "ttnn(dtype=bfloat16, layout=ROW_MAJOR, memory=INTERLEAVED, banks=2, alignment=32)";
        let tensor = Tensor::new([4, 16], DType::Bf16);
        let layout = pages.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
        assert_eq!((layout.space.units, layout.space.unit_bytes, layout.block_bytes()), (4, 32, 2));
        let said = |at, loops: &[_]| match covers(&[nest(at, loops)], &layout) {
            Ok(()) => "all".into(),
            Err(Error::Unverified { what, .. }) => what,
            Err(other) => panic!("{other}"),
        };
        let (units, bytes) = ((4, [1, 0, 0]), (16, [0, 2, 0]));
        let origin = [0; 3];
        assert_eq!(said(origin, &[units, bytes]), "all");
        // A loop of one iteration may have any step.
        assert_eq!(said(origin, &[units, bytes, (1, [0, 1, 0])]), "all");
        let greatest = i64::try_from(MAX_BYTES).unwrap();
        assert_eq!(said(origin, &[(1, [0, greatest, 0]), units, bytes]), "all");
        let further = format!("1 iterations of 128 bytes, {} bytes apart", greatest + 1);
        assert_eq!(said(origin, &[(1, [0, greatest + 1, 0]), units, bytes]), further);
        assert_eq!(said([-1, 0, 0], &[]), "a nest begins at unit -1, byte 0");
        assert_eq!(said([0, -2, 0], &[]), "a nest begins at unit 0, byte -2");
        assert_eq!(said([0, 0, 1], &[]), "a nest begins at unit 0, byte 0");
        assert_eq!(said([4, 0, 0], &[]), "a nest reaches unit 4, byte 0");
        assert_eq!(said([0, 31, 0], &[]), "a nest reaches unit 0, byte 31");
        assert_eq!(said(origin, &[(5, [1, 0, 0]), bytes]), "a nest reaches unit 4, byte 30");
        assert_eq!(said(origin, &[units, (17, [0, 2, 0])]), "a nest reaches unit 3, byte 32");
        for wrong in [(0, [1, 0, 0]), (2, [1, 0, 1]), (2, [-1, 0, 0]), (2, [0, -2, 0])] {
            let (n, step) = wrong;
            assert_eq!(said([1, 2, 0], &[wrong]), format!("a loop of {n} iterations, {step:?} apart"));
        }
        for (n, step) in [(2, 0), (2, 1), (1, 0), (1, i64::MAX)] {
            let expected = format!("{n} iterations of 2 bytes, {step} bytes apart");
            assert_eq!(said(origin, &[(n, [0, step, 0])]), expected);
        }
        let gaps = said(origin, &[units, (8, [0, 4, 0])]);
        assert!(gaps.starts_with("nothing is written between"), "{gaps}");
    }

    #[test]
    fn units_are_dealt_one_to_one() {
        let space = |units, pitch_bytes, deal| Space { units, unit_bytes: 8, pitch_bytes, deal, buffers: 1 };
        let deal = |buffers, capacity| RoundRobin::dealt(buffers, capacity, None);
        let is_right = |space: Space| distributes(&space).is_ok();
        assert!(is_right(space(3, 8, None)) && is_right(space(3, 9, None)));
        assert!(!is_right(space(3, 7, None)));
        assert!(is_right(space(12, 8, Some(deal(3, 2)))) && is_right(space(6, 8, Some(deal(3, 2)))));
        for (units, buffers, capacity) in [(12, 5, 1), (12, 0, 2), (12, 2, 0), (12, 1 << 40, 1 << 40)] {
            assert!(!is_right(space(units, 8, Some(deal(buffers, capacity)))), "{buffers} x {capacity}");
        }
        let numbered = |to: &[u32], from: &[u32]| {
            let mut deal = RoundRobin::new(3, 1, Some(vec![1, 2, 0])).unwrap();
            let numbers = Arc::get_mut(deal.permutation.as_mut().unwrap()).unwrap();
            (numbers.to, numbers.from) = (to.into(), from.into());
            is_right(space(6, 8, Some(deal)))
        };
        assert!(numbered(&[0, 1, 2], &[0, 1, 2]) && numbered(&[1, 2, 0], &[2, 0, 1]));
        assert!(!numbered(&[1, 2, 0], &[1, 2, 0]), "not its inverse");
        assert!(!numbered(&[0, 0, 2], &[0, 1, 2]), "two on one place");
        assert!(!numbered(&[0, 1], &[0, 1]) && !numbered(&[0, 1, 2], &[0, 1, 2, 3]), "not all buffers");
        assert!(!numbered(&[0, 1, 3], &[0, 1, 2]), "no such buffer");
    }

    /// Runs of `bytes` from `at`, repeated by loops, outermost first.
    type Case<'a> = (i64, i64, &'a [(i64, i64)]);
    type Owned = (i64, i64, Vec<(i64, i64)>);

    fn put(cover: &mut Cover, (at, bytes, loops): Case<'_>) -> Runs {
        let first = cover.loops.len();
        let mut body = bytes;
        for &(n, step) in loops.iter().rev() {
            cover.loops.push(Level { n, step, body });
            body += (n - 1) * step;
        }
        cover.loops[first..].reverse();
        cover.runs(at, bytes, first, cover.loops.len())
    }

    fn prove(cases: &[Case<'_>], total: i64, limit: usize) -> Result<usize> {
        let mut cover = Cover { loops: Vec::new(), work: 0, limit };
        let runs = cases.iter().map(|&case| put(&mut cover, case)).collect();
        cover.prove(runs, total).map(|()| cover.work)
    }

    /// The bytes of runs, `by` further on; fails where there are none.
    fn bytes(cover: &Cover, runs: &Runs, by: i64) -> Vec<i64> {
        let mut starts = vec![runs.at + by];
        for (i, &Level { n, step, .. }) in cover.loops[runs.first..runs.end].iter().enumerate() {
            let n = if i == 0 { runs.n } else { n };
            starts = starts.iter().flat_map(|&start| (0..n).map(move |k| start + k * step)).collect();
        }
        let all: Vec<i64> = starts.iter().flat_map(|&start| start..start + runs.bytes).collect();
        assert!(!all.is_empty(), "{runs:?} are no bytes");
        all
    }

    /// Loops around a run, each of so many iterations with so many bytes between them, innermost first.
    fn spaced(bytes: i64, gaps: &[(i64, i64)]) -> Vec<(i64, i64)> {
        let (mut body, mut nested) = (bytes, Vec::new());
        for &(n, gap) in gaps {
            nested.insert(0, (n, body + gap));
            body += (n - 1) * (body + gap);
        }
        nested
    }

    #[test]
    fn runs_that_interleave_cover_everything_once() {
        let good: &[(&[Case<'_>], i64)] = &[
            (&[], 0),
            (&[(0, 7, &[])], 7),
            (&[(0, 2, &[(4, 5)]), (2, 3, &[(4, 5)])], 20),
            // A step that is no multiple of the other.
            (&[(0, 1, &[(4, 3)]), (1, 2, &[(3, 3)]), (10, 5, &[])], 15),
            // Iterations that straddle the periods of the greatest step.
            (&[(3, 4, &[(3, 10)]), (0, 3, &[]), (7, 6, &[(2, 10)]), (27, 1, &[])], 28),
            // Loops within loops.
            (&[(0, 1, &[(2, 8), (2, 4)]), (1, 3, &[(2, 8), (2, 4)])], 16),
        ];
        for (cases, total) in good {
            let work = prove(cases, *total, MAX_WORK).unwrap();
            prove(cases, *total, work).unwrap();
            let refused = prove(cases, *total, work - 1);
            assert!(matches!(refused, Err(Error::TooComplex { cap, .. }) if cap == work - 1), "{refused:?}");
            assert!(prove(cases, *total + 1, MAX_WORK).is_err(), "{cases:?} is too short");
            for skipped in 0..cases.len() {
                let others: Vec<_> = (0..cases.len()).filter(|&i| i != skipped).map(|i| cases[i]).collect();
                assert!(prove(&others, *total, MAX_WORK).is_err(), "{others:?} has a hole");
                let twice: Vec<_> = cases.iter().chain([&cases[skipped]]).copied().collect();
                assert!(prove(&twice, *total, MAX_WORK).is_err(), "{twice:?} writes twice");
            }
        }
    }

    #[test]
    fn the_work_is_that_of_what_differs_and_bounded() {
        let n = 1 << 40;
        let cases: &[Case<'_>] = &[(0, 2, &[(n, 8)]), (2, 5, &[(n, 8)]), (7, 1, &[(n, 8)])];
        assert!(prove(cases, 8 * n, MAX_WORK).unwrap() < 100);
        // Steps that the greatest one is a multiple of, with some iterations more than whole periods.
        let cases: &[Case<'_>] = &[
            (0, 2, &[(4 * n + 1, 8)]),
            (2, 6, &[(n, 32)]),
            (10, 6, &[(n, 32)]),
            (18, 6, &[(n, 32)]),
            (26, 6, &[(n, 32)]),
        ];
        assert!(prove(cases, 32 * n + 2, 1 << 12).unwrap() < 100);
        let ragged: &[Case<'_>] = &[(0, 1, &[(n, 8)]), (1, 6, &[(n, 7)])];
        assert!(matches!(
            prove(ragged, 8 * n, 1 << 12),
            Err(Error::TooComplex { cap: 4096, .. }) | Err(Error::Unverified { .. })
        ));
    }

    proptest! {
        #[test]
        fn a_cut_parts_runs_into_few(
            at in 0..30_i64,
            bytes in 1..6_i64,
            gaps in prop::collection::vec((2..6_i64, 0..8_i64), 0..4),
            cut in 0..400_i64,
        ) {
            let mut cover = Cover { loops: Vec::new(), work: 0, limit: 0 };
            let runs = put(&mut cover, (at, bytes, &spaced(bytes, &gaps)));
            let (mut below, mut above) = (Vec::new(), Vec::new());
            cover.split(runs, cut, &mut below, &mut above);
            prop_assert!(below.len().max(above.len()) <= gaps.len() + 1, "{:?} {:?}", below, above);
            let of = |parts: &[Runs]| parts.iter().flat_map(|part| self::bytes(&cover, part, 0)).collect::<Vec<_>>();
            let (below, above) = (of(&below), of(&above));
            prop_assert!(below.iter().all(|&b| b < cut) && above.iter().all(|&b| b >= cut));
            let mut together = [below, above].concat();
            together.sort_unstable();
            prop_assert_eq!(together, self::bytes(&cover, &runs, 0));
        }

        #[test]
        fn runs_are_the_same_bytes_in_periods(
            at in 0..200_i64,
            bytes in 1..40_i64,
            gaps in prop::collection::vec((2..9_i64, 0..8_i64), 0..3),
            (times, more) in (1..5_i64, prop_oneof![Just(0), 0..12_i64]),
        ) {
            let mut cover = Cover { loops: Vec::new(), work: 0, limit: 0 };
            let loops = spaced(bytes, &gaps);
            let runs = put(&mut cover, (at, bytes, &loops));
            let period = loops.first().map_or(7, |&(_, step)| step) * times + more;
            let (mut out, mut rest) = (Vec::new(), Vec::new());
            cover.repeat(runs, period, &mut out, &mut rest);
            let all = self::bytes(&cover, &runs, 0);
            let left: Vec<i64> = rest.iter().flat_map(|part| self::bytes(&cover, part, 0)).collect();
            prop_assert!(left.len() < all.len(), "nothing was taken");
            // Of iterations that are whole periods together, only those beyond the last period are left.
            if let Some(&(n, step)) = loops.first() && period % step == 0 && n * step >= period {
                let ends = at % period + all[all.len() - 1] + 1 - all[0];
                let beyond = if ends <= period { 0 } else { n % (period / step) };
                prop_assert_eq!(left.len() as i64, beyond * all.len() as i64 / n);
            }
            let mut together = left;
            for Repeated { first, end, runs } in out {
                prop_assert!(first < end, "{:?} in no period", runs);
                let inside = self::bytes(&cover, &runs, 0);
                prop_assert!(inside.iter().all(|b| (0..period).contains(b)), "{:?} of {}", runs, period);
                together.extend((first..end).flat_map(|k| self::bytes(&cover, &runs, k * period)));
            }
            together.sort_unstable();
            prop_assert_eq!(together, all);
        }

        /// The runs of a few loops, and what they leave free as runs of its own: accepted; with one byte moved: refused.
        #[test]
        fn as_a_table_of_bytes_says(
            nests in prop::collection::vec((0..30_i64, 1..4_i64, prop::collection::vec((2..5_i64, 1..12_i64), 0..3)), 1..5),
            nudge in 0..40_usize,
        ) {
            let total = 200;
            let mut written = vec![0_u8; total];
            let mut kept: Vec<Owned> = Vec::new();
            for (at, bytes, loops) in nests {
                let nested = spaced(bytes, &loops);
                let starts = nested.iter().fold(vec![at], |starts, &(n, step)| {
                    starts.iter().flat_map(|&s| (0..n).map(move |k| s + k * step)).collect()
                });
                let all = || starts.iter().flat_map(|&s| s..s + bytes);
                if all().any(|b| b >= total as i64 || written[b as usize] > 0) {
                    continue;
                }
                all().for_each(|b| written[b as usize] = 1);
                kept.push((at, bytes, nested));
            }
            for byte in (0..total).filter(|&b| written[b] == 0) {
                kept.push((byte as i64, 1, vec![]));
            }
            let proved = |kept: &[Owned]| {
                let cases: Vec<Case<'_>> = kept.iter().map(|(at, bytes, loops)| (*at, *bytes, loops.as_slice())).collect();
                prove(&cases, total as i64, MAX_WORK).is_ok()
            };
            prop_assert!(proved(&kept));
            let mut moved = kept.clone();
            let which = nudge % moved.len();
            moved[which].0 += 1;
            prop_assert!(!proved(&moved));
        }
    }
}
