//! The verifier: what must hold before a plan exists. It shares no code with the lowering.
//!
//! - **V1** The nests' destinations are disjoint and cover every byte of every unit, and the distribution
//!   sends the units one to one to their places.
//! - **V2** Every source address lies inside of the source.
//! - **V3** Every chunk boundary is a boundary between leaves.
//! - **V4** Every leaf keeps to its block: tiles start on tiles, slots stay inside of them, and the parts of
//!   a tile do not meet.

use kernels::TileShape;

use super::nest::{Leaf, Nest, dst};
use crate::error::{Error, Result};
use crate::layout::{Layout, RoundRobin, Space};

/// Turns of the proof; a plan of the greatest allowed size needs fewer.
const MAX_WORK: usize = 1 << 20;

/// Runs of `bytes` at `at` plus every combination of the loops, steps descending.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Set {
    at: i128,
    loops: Vec<(i128, i128)>,
    bytes: i128,
}

impl Set {
    /// Sorts the loops, and folds those into the run that continue it.
    fn tidy(mut self) -> Set {
        self.loops.retain(|l| l.0 > 1);
        self.loops.sort_by_key(|&(n, step)| (std::cmp::Reverse(step), n));
        while let Some(&(n, step)) = self.loops.last() {
            if step != self.bytes {
                break;
            }
            self.bytes *= n;
            self.loops.pop();
        }
        self
    }

    /// Bytes from the first to the end of the last.
    fn extent(&self) -> i128 {
        self.loops.iter().map(|&(n, step)| (n - 1) * step).sum::<i128>() + self.bytes
    }

    fn end(&self) -> i128 {
        self.at + self.extent()
    }

    /// The part of one turn of the outermost loop.
    fn turn(&self) -> Set {
        Set { at: self.at, loops: self.loops[1..].to_vec(), bytes: self.bytes }
    }
}

fn refuse(fact: &'static str, what: impl Into<String>) -> Error {
    Error::Unverified { fact, what: what.into() }
}

/// Proves V1, V2 and V4 of a list of nests.
pub(crate) fn verify(nests: &[Nest], source: &Layout, destination: &Layout) -> Result<()> {
    covers(nests, destination)?;
    for space in [&source.space, &destination.space] {
        distributes(space)?;
    }
    for nest in nests {
        reads(nest, source)?;
        keeps_blocks(nest, destination)?;
    }
    Ok(())
}

/// V1: every byte of every unit exactly once.
fn covers(nests: &[Nest], layout: &Layout) -> Result<()> {
    let unit = i128::from(layout.space.unit_bytes);
    let linear = |a: [i64; 3]| i128::from(a[0]) * unit + i128::from(a[1]);
    let mut sets = Vec::with_capacity(nests.len());
    let mut volume = 0_i128;
    for nest in nests {
        let mut bytes = i128::from(layout.block_bytes());
        let mut loops = Vec::with_capacity(nest.loops.len());
        let (mut unit_end, mut byte_end) = (i128::from(dst(nest.at)[0]), i128::from(dst(nest.at)[1]));
        for l in &nest.loops {
            let step = l.dst();
            if step.iter().any(|&s| s < 0) {
                return Err(refuse("V1", "a destination step is negative"));
            }
            unit_end += (i128::from(l.n) - 1) * i128::from(step[0]);
            byte_end += (i128::from(l.n) - 1) * i128::from(step[1]);
            loops.push((i128::from(l.n), linear(step)));
            bytes *= i128::from(l.n);
        }
        let below = dst(nest.at)[..2].iter().any(|&a| a < 0);
        if below || unit_end >= i128::from(layout.space.units) || byte_end >= unit {
            return Err(refuse("V1", format!("a nest reaches unit {unit_end}, byte {byte_end}")));
        }
        volume += bytes;
        sets.push(Set { at: linear(dst(nest.at)), loops, bytes: i128::from(layout.block_bytes()) }.tidy());
    }
    let total = i128::from(layout.space.units) * unit;
    if volume != total {
        return Err(refuse("V1", format!("the nests write {volume} bytes of {total}")));
    }
    let mut work = 0;
    cover(sets, 0, total, &mut work)
}

/// Proves that the sets are disjoint and fill `lo..hi`: what does not interleave is compared run by run;
/// what does, turn by turn of the greatest step, once for each range of turns that look alike.
fn cover(mut sets: Vec<Set>, lo: i128, hi: i128, work: &mut usize) -> Result<()> {
    *work += sets.len() + 1;
    if *work > MAX_WORK {
        return Err(Error::TooComplex {
            what: "the proof that the plan covers its destination".into(),
            cap: MAX_WORK,
        });
    }
    sets.sort_by_key(|s| s.at);
    let mut at = lo;
    let mut i = 0;
    while i < sets.len() {
        // The sets whose ranges overlap.
        let (begin, mut end) = (sets[i].at, sets[i].end());
        if begin != at {
            return Err(refuse("V1", format!("byte {at} is followed by byte {begin}")));
        }
        let mut j = i + 1;
        while j < sets.len() && sets[j].at < end {
            end = end.max(sets[j].end());
            j += 1;
        }
        if j > i + 1 {
            interleaved(sets[i..j].to_vec(), begin, end, work)?;
        } else if !sets[i].loops.is_empty() {
            return Err(refuse("V1", format!("nothing is written inside of {begin}..{end}")));
        }
        at = end;
        i = j;
    }
    if at != hi { Err(refuse("V1", format!("byte {at} is followed by byte {hi}"))) } else { Ok(()) }
}

/// [`cover`] of sets that interleave: their greatest step is a period.
fn interleaved(sets: Vec<Set>, lo: i128, hi: i128, work: &mut usize) -> Result<()> {
    let period = sets.iter().filter_map(|s| s.loops.first().map(|l| l.1)).max().unwrap_or(0);
    if period == 0 {
        return Err(refuse("V1", format!("two runs meet in {lo}..{hi}")));
    }
    // A turn that straddles two periods repeats by chance, not because the layout does: take it apart.
    let straddles = |s: &Set| {
        s.loops.first().is_some_and(|l| l.1 == period)
            && (s.at - lo).rem_euclid(period) + s.turn().extent() > period
    };
    if sets.iter().any(straddles) {
        let mut apart = Vec::new();
        for set in sets {
            if !straddles(&set) {
                apart.push(set);
                continue;
            }
            let n = set.loops[0].0;
            *work += usize::try_from(n).unwrap_or(MAX_WORK).min(MAX_WORK);
            if *work >= MAX_WORK {
                return Err(refuse("V1", format!("turns of {period} bytes meet in {lo}..{hi}")));
            }
            apart.extend((0..n).map(|k| {
                let mut turn = set.turn();
                turn.at += k * period;
                turn
            }));
        }
        return cover(apart, lo, hi, work);
    }
    // Each set as turns of the period: first and end turn, and what is written in one.
    let mut turns: Vec<(i128, i128, Set)> = Vec::new();
    let mut queue = sets;
    while let Some(set) = queue.pop() {
        *work += 1;
        if *work > MAX_WORK {
            return Err(refuse("V1", "the nests interleave without a period"));
        }
        let first = (set.at - lo).div_euclid(period);
        let local = |mut s: Set| {
            s.at -= lo + first * period;
            s
        };
        match set.loops.first().copied() {
            Some((n, step)) if step == period => {
                turns.push((first, first + n, local(set.turn())));
            }
            _ if (set.end() - 1 - lo).div_euclid(period) == first => {
                turns.push((first, first + 1, local(set)))
            }
            Some((n, step)) => {
                // Smaller turns that straddle the period: the full ones become a loop of it, if they divide.
                let in_first = ((lo + (first + 1) * period - set.at) + step - 1) / step;
                let in_first = in_first.min(n);
                let per = period / step;
                // The first turn lies in the first step of a period, and so does every later first one in its own.
                let aligned = (set.at - lo).rem_euclid(period) + set.turn().extent() <= step;
                let part = |from: i128, n: i128| {
                    let mut loops = set.loops.clone();
                    loops[0].0 = n;
                    Set { at: set.at + from * step, loops, bytes: set.bytes }
                };
                if period % step == 0 && aligned && n > per {
                    let mut whole = part(0, per);
                    whole.loops.insert(0, (n / per, period));
                    queue.push(whole.tidy());
                    if n % per > 0 {
                        queue.push(part(n / per * per, n % per).tidy());
                    }
                } else if in_first < n {
                    queue.push(part(0, in_first).tidy());
                    queue.push(part(in_first, n - in_first).tidy());
                } else if n > 1 {
                    // Only the last turn straddles.
                    queue.push(part(0, n - 1).tidy());
                    queue.push(part(n - 1, 1).tidy());
                } else {
                    return Err(refuse("V1", "a loop of one turn"));
                }
            }
            None => {
                // A run through several turns: its ends, and the whole turns between.
                let head = (period - (set.at - lo).rem_euclid(period)) % period;
                let whole = (set.bytes - head) / period;
                let run = |at: i128, bytes: i128| Set { at, loops: vec![], bytes };
                if head > 0 {
                    queue.push(run(set.at, head));
                }
                let middle = set.at + head;
                if whole > 0 {
                    let from = (middle - lo).div_euclid(period);
                    turns.push((from, from + whole, run(0, period)));
                }
                let tail = set.bytes - head - whole * period;
                if tail > 0 {
                    queue.push(run(middle + whole * period, tail));
                }
            }
        }
    }
    let mut cuts: Vec<i128> = turns.iter().flat_map(|t| [t.0, t.1]).collect();
    // The last turn may be cut short.
    cuts.push((hi - lo).div_euclid(period));
    cuts.push((hi - lo + period - 1).div_euclid(period));
    cuts.sort_unstable();
    cuts.dedup();
    for cut in cuts.windows(2) {
        let active = turns.iter().filter(|t| t.0 <= cut[0] && cut[1] <= t.1).map(|t| t.2.clone()).collect();
        let end = (hi - lo - cut[0] * period).min(period);
        cover(active, 0, end, work)?;
    }
    Ok(())
}

/// V1: no two units on one place. Dealing in turn is one to one if whole rounds are dealt, and if the numbers of the
/// buffers are a permutation with its inverse.
fn distributes(space: &Space) -> Result<()> {
    let refuse = |what: String| Err(refuse("V1", what));
    if space.pitch_bytes < space.unit_bytes {
        return refuse(format!("units of {} bytes, {} apart", space.unit_bytes, space.pitch_bytes));
    }
    let Some(RoundRobin { buffers, capacity, permutation }) = &space.deal else { return Ok(()) };
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

/// V2: the least and greatest source address of a nest, unit, byte and slot, lie inside.
fn reads(nest: &Nest, layout: &Layout) -> Result<()> {
    let inside = |at: [i64; 3], steps: &mut dyn Iterator<Item = (u64, [i64; 3])>| {
        let mut ends = at.map(|a| (i128::from(a), i128::from(a)));
        for (n, step) in steps {
            for (end, s) in ends.iter_mut().zip(step) {
                let way = (i128::from(n) - 1) * i128::from(s);
                *end = (end.0 + way.min(0), end.1 + way.max(0));
            }
        }
        let slots = layout.tile().map_or(1, |t| t.elements());
        let room = [layout.space.units, layout.space.unit_bytes, slots].map(i128::from);
        let block_bytes = [1, i128::from(layout.block_bytes()), 1];
        (0..3).all(|k| ends[k].0 >= 0 && ends[k].1 + block_bytes[k] <= room[k])
    };
    let ok = match &nest.leaf {
        Leaf::Fill => true,
        Leaf::Element => inside(super::nest::src(nest.at), &mut nest.loops.iter().map(|l| (l.n, l.src()))),
        Leaf::Pack(parts) => parts.iter().all(|part| {
            let outer = nest.loops.iter().zip(&part.moves).map(|(l, &m)| (l.n, m));
            let inner = part.loops.iter().map(|l| (l.n, l.src()));
            part.moves.len() == nest.loops.len() && inside(part.src, &mut outer.chain(inner))
        }),
    };
    if ok { Ok(()) } else { Err(refuse("V2", format!("a nest reads outside of the source: {nest:?}"))) }
}

/// V4: destinations start on whole grains, and the parts of a tile are inside of it and do not meet.
fn keeps_blocks(nest: &Nest, layout: &Layout) -> Result<()> {
    let block_bytes = layout.block_bytes() as i64;
    let whole =
        dst(nest.at)[1] % block_bytes == 0 && nest.loops.iter().all(|l| l.dst()[1] % block_bytes == 0);
    if !whole {
        return Err(refuse("V4", format!("a leaf starts inside of {block_bytes} bytes")));
    }
    let Leaf::Pack(parts) = &nest.leaf else { return Ok(()) };
    let mut taken = [false; TileShape::MAX_ELEMENTS];
    let taken = &mut taken[..layout.tile().map_or(0, |t| t.elements()) as usize];
    for part in parts {
        let steps: Vec<(u64, i64)> = part.loops.iter().map(|l| (l.n, l.step[5])).collect();
        take(taken, part.slot, &steps)?;
    }
    Ok(())
}

/// Takes every slot that loops reach from `slot` on.
fn take(taken: &mut [bool], slot: i64, loops: &[(u64, i64)]) -> Result<()> {
    let run = match loops {
        [] => 1,
        [(n, 1)] => *n,
        [(n, step), (m, 1)] if u64::try_from(*step) == Ok(*m) => n.saturating_mul(*m),
        [(n, step), inner @ ..] => {
            // More turns than slots meet sooner or later.
            let turns = (0..*n as i64).take(taken.len() + 1);
            return turns.map(|k| slot.saturating_add(k * step)).try_for_each(|at| take(taken, at, inner));
        }
    };
    let end = usize::try_from(run).ok().and_then(|run| run.checked_add(usize::try_from(slot).ok()?));
    match end.and_then(|end| taken.get_mut(slot as usize..end)) {
        Some(run) if !run.contains(&true) => {
            run.fill(true);
            Ok(())
        }
        _ => Err(refuse("V4", format!("slots {slot} to {slot} + {run} of a tile are outside or taken"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::{Choices, FAMILIES, dense, memref};
    use crate::family::Tensor;
    use crate::plan::nest::Loop;
    use crate::run::interpret;
    use crate::{DType, Options, Plan};
    use proptest::prelude::*;

    /// Changes one thing about one nest. Whether bytes must be the same if the plan is still accepted: not where
    /// another element of the source is read or another slot taken, for the proof is of places, not of values.
    fn mutate(c: &mut Choices, nests: &mut Vec<Nest>, block_bytes: [i64; 2]) -> bool {
        let which = c.below(nests.len());
        let by = c.of(&[1, -1, 2, -2, 7]);
        let at = c.below(8);
        let kind = c.below(8);
        let nest = &mut nests[which];
        let pick = |loops: &mut Vec<Loop>| -> Option<usize> { at.checked_rem(loops.len()) };
        match kind {
            0 => drop(nests.remove(which)),
            1 => nests.push(nests[which].clone()),
            2 => nest.at[4] += by * block_bytes[1],
            3 => nest.at[3] += by,
            4 => {
                if let Some(i) = pick(&mut nest.loops) {
                    nest.loops[i].n = nest.loops[i].n.saturating_add_signed(by).max(1);
                }
            }
            5 => {
                if let Some(i) = pick(&mut nest.loops) {
                    nest.loops[i].step[c.of(&[4, 3])] += by * block_bytes[1];
                }
            }
            6 => {
                nest.at[1] += by * block_bytes[0];
                if let Some(i) = pick(&mut nest.loops) {
                    nest.loops[i].step[1] += by * block_bytes[0];
                }
                return false;
            }
            _ => {
                if let Leaf::Pack(parts) = &mut nest.leaf {
                    let part = at % parts.len();
                    match (pick(&mut parts[part].loops), c.below(3)) {
                        (Some(i), 1) => parts[part].loops[i].step[5] += by,
                        (Some(i), 2) => parts[part].loops[i].n += by.unsigned_abs(),
                        _ => parts[part].slot += by,
                    }
                }
                return false;
            }
        }
        true
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_changed_plan_is_refused_or_the_same(
            numbers in prop::collection::vec(any::<u32>(), 48),
            other in prop::collection::vec(any::<u32>(), 40),
            family in 0..FAMILIES.len(),
        ) {
            let (mut c, mut d) = (Choices::new(&numbers), Choices::new(&other));
            let tensor = Tensor { dtype: c.of(&[DType::F32, DType::Bf16, DType::U8]), shape: c.shape(400) };
            let layout = (FAMILIES[family].1)(&mut c, &tensor).and_then(|case| case.layout(&tensor).ok());
            let Some(to) = layout.filter(|l| l.total_bytes() <= 100_000) else { return Ok(()) };
            let from = match d.yes() {
                true => memref(&mut d, &tensor).unwrap().layout(&tensor).unwrap(),
                false => dense(&tensor),
            };
            let plan = Plan::compile(&from, &to, &Options::default()).unwrap();
            let source: Vec<u8> = (0..plan.source_bytes()).map(|i| (i % 251) as u8).collect();
            let expect = interpret(&plan, &source).unwrap();
            let block_bytes = [from.block_bytes() as i64, to.block_bytes() as i64];
            for _ in 0..8 {
                let mut changed = plan.clone();
                let same = mutate(&mut d, &mut changed.nests, block_bytes);
                if verify(&changed.nests, &from, &to).is_ok() {
                    let seen = interpret(&changed, &source).unwrap();
                    prop_assert!(seen.writes.iter().all(|&w| w == 1), "{:?}", changed.nests);
                    prop_assert!(!same || seen.bytes == expect.bytes, "{:?}", changed.nests);
                }
            }
        }
    }
}
