//! The verifier: what must hold before a plan exists. It shares no code with the lowering.
//!
//! - **V1** The nests' destinations are disjoint and cover every byte of every unit, and the distribution
//!   sends the units one to one to their places.
//! - **V2** Every source address lies inside of the source.
//! - **V3** Every chunk boundary is a boundary between leaves.
//! - **V4** Every leaf keeps to its block: tiles start on tiles, slots stay inside of them, and the parts of
//!   a tile do not meet.

use super::nest::{Leaf, Nest, dst};
use crate::error::{Error, Result};
use crate::layout::{Layout, Space};

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
        let mut bytes = i128::from(layout.grain());
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
        if unit_end >= i128::from(layout.space.units) || byte_end >= unit {
            return Err(refuse("V1", format!("a nest reaches unit {unit_end}, byte {byte_end}")));
        }
        volume += bytes;
        sets.push(Set { at: linear(dst(nest.at)), loops, bytes: i128::from(layout.grain()) }.tidy());
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
                let aligned = (set.at - lo).rem_euclid(period) < step;
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

/// V1: no two units on one place.
fn distributes(space: &Space) -> Result<()> {
    let Some(order) = &space.order else { return Ok(()) };
    let mut seen = vec![false; order.len()];
    if order.len() as u64 != space.units || space.pitch_bytes < space.unit_bytes {
        return Err(refuse("V1", format!("{} places for {} units", order.len(), space.units)));
    }
    for &slot in order.iter() {
        match seen.get_mut(slot as usize) {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(refuse("V1", format!("two units on place {slot}, or none"))),
        }
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
        let grain = [1, i128::from(layout.grain()), 1];
        (0..3).all(|k| ends[k].0 >= 0 && ends[k].1 + grain[k] <= room[k])
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
    let grain = layout.grain() as i64;
    let whole = dst(nest.at)[1] % grain == 0 && nest.loops.iter().all(|l| l.dst()[1] % grain == 0);
    if !whole {
        return Err(refuse("V4", format!("a leaf starts inside of {grain} bytes")));
    }
    let Leaf::Pack(parts) = &nest.leaf else { return Ok(()) };
    let mut slots = vec![false; layout.tile().map_or(0, |t| t.elements()) as usize];
    for part in parts {
        let turns: u64 = part.loops.iter().map(|l| l.n).product();
        for turn in 0..turns {
            let mut rest = turn;
            let mut slot = part.slot;
            for l in part.loops.iter().rev() {
                slot += l.step[5] * (rest % l.n) as i64;
                rest /= l.n;
            }
            match usize::try_from(slot).ok().and_then(|s| slots.get_mut(s)) {
                Some(taken) if !*taken => *taken = true,
                _ => return Err(refuse("V4", format!("slot {slot} of a tile is outside or taken"))),
            }
        }
    }
    Ok(())
}
