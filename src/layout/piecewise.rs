//! Staircase functions: where the elements along one axis lie.
//!
//! A [`Piecewise`] maps a coordinate `u` in `0..len` to a vector of `K` addresses that advance together. It is
//! a tree of runs, loops and sequences, never a list of elements, so that 128k rows on 64 cores are a
//! handful of nodes. Every operation works on the tree and is bounded by [`MAX_PARTS`].

use crate::error::{Error, Result};

/// The most parts a staircase may break into. The layouts of real systems need fewer than fifty; what
/// passes the cap is a shape whose splits share no period, and would cost more to plan than to move.
pub(crate) const MAX_PARTS: usize = 1 << 16;

/// `K` addresses that advance together.
pub(crate) type Step<const K: usize> = [i64; K];

/// A staircase over `0..len()`, relative to the address of its first element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piecewise<const K: usize> {
    /// `len` elements, `step` apart.
    Run { len: u64, step: Step<K> },
    /// `n` copies of `body`, `step` apart.
    Loop { n: u64, step: Step<K>, body: Box<Piecewise<K>> },
    /// One part after another; each starts at its own address.
    Seq(Vec<(Step<K>, Piecewise<K>)>),
}

/// A rectangular part of a staircase: perfectly nested loops, outermost first, from one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Region<const K: usize> {
    pub(crate) at: Step<K>,
    pub(crate) loops: Vec<(u64, Step<K>)>,
}

pub(crate) fn add<const K: usize>(a: Step<K>, b: Step<K>) -> Step<K> {
    std::array::from_fn(|k| a[k] + b[k])
}

pub(crate) fn scale<const K: usize>(a: Step<K>, n: i64) -> Step<K> {
    a.map(|x| x * n)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Counts the parts made so far, and stops what makes too many.
struct Budget(usize);

impl Budget {
    fn spend(&mut self) -> Result<()> {
        self.0 += 1;
        if self.0 > MAX_PARTS { Err(too_complex()) } else { Ok(()) }
    }
}

fn too_complex() -> Error {
    Error::TooComplex { what: "an axis".into(), cap: MAX_PARTS }
}

impl<const K: usize> Piecewise<K> {
    /// The staircase of one element.
    pub(crate) const ONE: Piecewise<K> = Piecewise::Run { len: 1, step: [0; K] };

    /// `len` elements, `step` apart.
    pub(crate) fn run(len: u64, step: Step<K>) -> Piecewise<K> {
        Piecewise::Run { len, step: if len == 1 { [0; K] } else { step } }
    }

    /// `n` copies of `self`, `step` apart; loops whose steps chain become one.
    pub(crate) fn repeat(self, n: u64, step: Step<K>) -> Piecewise<K> {
        if n == 1 {
            return self;
        }
        match self {
            Piecewise::Run { len: 1, .. } => Piecewise::Run { len: n, step },
            Piecewise::Run { len, step: inner } if step == scale(inner, len as i64) => {
                Piecewise::Run { len: n * len, step: inner }
            }
            Piecewise::Loop { n: m, step: inner, body } if step == scale(inner, m as i64) => {
                Piecewise::Loop { n: n * m, step: inner, body }
            }
            body => Piecewise::Loop { n, step, body: Box::new(body) },
        }
    }

    /// The staircase of nested loops, outermost first.
    pub(crate) fn nest(loops: &[(u64, Step<K>)]) -> Piecewise<K> {
        loops.iter().rev().fold(Piecewise::ONE, |body, &(n, step)| body.repeat(n, step))
    }

    /// How many coordinates it covers.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Piecewise::Run { len, .. } => *len,
            Piecewise::Loop { n, body, .. } => n * body.len(),
            Piecewise::Seq(parts) => parts.iter().map(|(_, s)| s.len()).sum(),
        }
    }

    /// The address of coordinate `u`, which must be less than `len()`.
    pub(crate) fn eval(&self, mut u: u64) -> Step<K> {
        let mut at = [0; K];
        let mut node = self;
        loop {
            match node {
                Piecewise::Run { step, .. } => return add(at, scale(*step, u as i64)),
                Piecewise::Loop { step, body, .. } => {
                    let len = body.len();
                    at = add(at, scale(*step, (u / len) as i64));
                    u %= len;
                    node = body;
                }
                Piecewise::Seq(parts) => {
                    for (start, part) in parts {
                        let len = part.len();
                        if u < len {
                            at = add(at, *start);
                            node = part;
                            break;
                        }
                        u -= len;
                    }
                }
            }
        }
    }

    /// The part over `lo..hi`, and the address of its first element.
    pub(crate) fn slice(&self, lo: u64, hi: u64) -> (Step<K>, Piecewise<K>) {
        let mut out = Parts::default();
        self.slice_into(lo, hi, [0; K], &mut out);
        out.finish()
    }

    fn slice_into(&self, lo: u64, hi: u64, at: Step<K>, out: &mut Parts<K>) {
        if lo >= hi {
            return;
        }
        match self {
            _ if lo == 0 && hi == self.len() => out.push(at, self.clone()),
            Piecewise::Run { step, .. } => {
                out.push(add(at, scale(*step, lo as i64)), Piecewise::run(hi - lo, *step))
            }
            Piecewise::Loop { step, body, .. } => {
                let len = body.len();
                let (mut first, last) = (lo / len, hi / len);
                let start = |i: u64| add(at, scale(*step, i as i64));
                if first == last {
                    return body.slice_into(lo % len, hi % len, start(first), out);
                }
                if !lo.is_multiple_of(len) {
                    body.slice_into(lo % len, len, start(first), out);
                    first += 1;
                }
                if first < last {
                    out.push(start(first), body.as_ref().clone().repeat(last - first, *step));
                }
                body.slice_into(0, hi % len, start(last), out);
            }
            Piecewise::Seq(parts) => {
                let mut begin = 0;
                for (start, part) in parts {
                    let end = begin + part.len();
                    if begin < hi && lo < end {
                        let (from, to) = (lo.max(begin) - begin, hi.min(end) - begin);
                        part.slice_into(from, to, add(at, *start), out);
                    }
                    begin = end;
                }
            }
        }
    }

    /// Every element replaced by a copy of `inner`: the staircase of row-major pairs.
    pub(crate) fn product(&self, inner: &Piecewise<K>) -> Piecewise<K> {
        match self {
            Piecewise::Run { len, step } => inner.clone().repeat(*len, *step),
            Piecewise::Loop { n, step, body } => body.product(inner).repeat(*n, *step),
            Piecewise::Seq(parts) => {
                let mut out = Parts::default();
                for (at, part) in parts {
                    out.push(*at, part.product(inner));
                }
                out.finish().1
            }
        }
    }

    /// The rectangular parts, in order of the coordinate.
    pub(crate) fn pieces(&self, at: Step<K>) -> Result<Vec<Region<K>>> {
        let mut out = Vec::new();
        let mut budget = Budget(0);
        self.pieces_into(at, &mut Vec::new(), &mut out, &mut budget)?;
        Ok(out)
    }

    fn pieces_into(
        &self,
        at: Step<K>,
        loops: &mut Vec<(u64, Step<K>)>,
        out: &mut Vec<Region<K>>,
        budget: &mut Budget,
    ) -> Result<()> {
        match self {
            Piecewise::Run { len, step } => {
                budget.spend()?;
                let mut loops = loops.clone();
                if *len != 1 {
                    loops.push((*len, *step));
                }
                out.push(Region { at, loops });
            }
            Piecewise::Loop { n, step, body } => {
                loops.push((*n, *step));
                body.pieces_into(at, loops, out, budget)?;
                loops.pop();
            }
            Piecewise::Seq(parts) => {
                for (start, part) in parts {
                    part.pieces_into(add(at, *start), loops, out, budget)?;
                }
            }
        }
        Ok(())
    }

    /// The staircase through the given addresses, one for each coordinate; an error where too few of them repeat.
    pub(crate) fn through(addresses: impl IntoIterator<Item = Step<K>>) -> Result<(Step<K>, Piecewise<K>)> {
        let mut out = Parts::default();
        for at in addresses {
            out.push(at, Piecewise::ONE);
            if out.0.len() > MAX_PARTS {
                out.fold();
                if out.0.len() > MAX_PARTS / 2 {
                    return Err(too_complex());
                }
            }
        }
        Ok(out.finish())
    }
}

/// Both maps at once, over the same coordinate; `KL = K + L` addresses.
pub(crate) fn zip<const K: usize, const L: usize, const KL: usize>(
    a: &Piecewise<K>,
    b: &Piecewise<L>,
) -> Result<(Step<KL>, Piecewise<KL>)> {
    debug_assert_eq!(K + L, KL);
    debug_assert_eq!(a.len(), b.len());
    let mut out = Parts::default();
    zip_into(a, [0; K], b, [0; L], &mut out, &mut Budget(0))?;
    Ok(out.finish())
}

fn pair<const K: usize, const L: usize, const KL: usize>(a: Step<K>, b: Step<L>) -> Step<KL> {
    std::array::from_fn(|k| if k < K { a[k] } else { b[k - K] })
}

fn zip_into<const K: usize, const L: usize, const KL: usize>(
    a: &Piecewise<K>,
    at_a: Step<K>,
    b: &Piecewise<L>,
    at_b: Step<L>,
    out: &mut Parts<KL>,
    budget: &mut Budget,
) -> Result<()> {
    budget.spend()?;
    // A loop over both sides: one turn of it is zipped once.
    let mut turns = |n: u64,
                     step: (Step<K>, Step<L>),
                     body_a: &Piecewise<K>,
                     body_b: &Piecewise<L>,
                     skip: (Step<K>, Step<L>),
                     out: &mut Parts<KL>| {
        let mut body = Parts::default();
        zip_into(body_a, [0; K], body_b, [0; L], &mut body, budget)?;
        let (start, body) = body.finish();
        out.push(
            add(pair(add(at_a, skip.0), add(at_b, skip.1)), start),
            body.repeat(n, pair(step.0, step.1)),
        );
        Ok(())
    };
    let zero = ([0; K], [0; L]);
    match (a, b) {
        (Piecewise::Run { len, step: s }, Piecewise::Run { step: t, .. }) => {
            out.push(pair(at_a, at_b), Piecewise::run(*len, pair(*s, *t)));
            Ok(())
        }
        (Piecewise::Seq(parts), _) => {
            let mut begin = 0;
            for (start, part) in parts {
                let end = begin + part.len();
                let (skip, other) = b.slice(begin, end);
                zip_into(part, add(at_a, *start), &other, add(at_b, skip), out, budget)?;
                begin = end;
            }
            Ok(())
        }
        (_, Piecewise::Seq(parts)) => {
            let mut begin = 0;
            for (start, part) in parts {
                let end = begin + part.len();
                let (skip, other) = a.slice(begin, end);
                zip_into(&other, add(at_a, skip), part, add(at_b, *start), out, budget)?;
                begin = end;
            }
            Ok(())
        }
        (Piecewise::Loop { n, step, body }, Piecewise::Run { step: t, .. }) => {
            let len = body.len();
            turns(*n, (*step, scale(*t, len as i64)), body, &Piecewise::run(len, *t), zero, out)
        }
        (Piecewise::Run { step: s, .. }, Piecewise::Loop { n, step, body }) => {
            let len = body.len();
            turns(*n, (scale(*s, len as i64), *step), &Piecewise::run(len, *s), body, zero, out)
        }
        (Piecewise::Loop { n, step: s, body: x }, Piecewise::Loop { n: m, step: t, body: y }) => {
            let (p, q) = (x.len(), y.len());
            let period = u128::from(p / gcd(p, q)) * u128::from(q);
            let (per_a, per_b) = (period / u128::from(p), period / u128::from(q));
            let full = u128::from(*n) / per_a;
            if full < 2 {
                // No period repeats: unroll the side with the longer turns.
                if p >= q {
                    for i in 0..*n {
                        let (skip, other) = b.slice(i * p, (i + 1) * p);
                        zip_into(x, add(at_a, scale(*s, i as i64)), &other, add(at_b, skip), out, budget)?;
                    }
                } else {
                    for i in 0..*m {
                        let (skip, other) = a.slice(i * q, (i + 1) * q);
                        zip_into(&other, add(at_a, skip), y, add(at_b, scale(*t, i as i64)), out, budget)?;
                    }
                }
                return Ok(());
            }
            // Less than the length of the axis, so back to 64 bits.
            let (full, per_a, per_b) = (full as u64, per_a as u64, per_b as u64);
            turns(
                full,
                (scale(*s, per_a as i64), scale(*t, per_b as i64)),
                &x.as_ref().clone().repeat(per_a, *s),
                &y.as_ref().clone().repeat(per_b, *t),
                zero,
                out,
            )?;
            let (done, len) = (full * per_a * p, n * p);
            if done < len {
                let (skip_a, rest_a) = a.slice(done, len);
                let (skip_b, rest_b) = b.slice(done, len);
                zip_into(&rest_a, add(at_a, skip_a), &rest_b, add(at_b, skip_b), out, budget)?;
            }
            Ok(())
        }
    }
}

/// `outer` after `inner`: the address, in `outer`, of the coordinate that `inner` gives, starting at `at`.
///
/// Every coordinate that `inner` reaches must lie in `0..outer.len()`.
pub(crate) fn compose<const K: usize>(
    inner: &Piecewise<1>,
    at: i64,
    outer: &Piecewise<K>,
) -> Result<(Step<K>, Piecewise<K>)> {
    let mut out = Parts::default();
    compose_into(inner, at, outer, &mut out, &mut Budget(0))?;
    Ok(out.finish())
}

fn compose_into<const K: usize>(
    inner: &Piecewise<1>,
    at: i64,
    outer: &Piecewise<K>,
    out: &mut Parts<K>,
    budget: &mut Budget,
) -> Result<()> {
    budget.spend()?;
    match inner {
        Piecewise::Run { len: len @ 1, .. } | Piecewise::Run { len, step: [1] } => {
            outer.slice_into(at as u64, at as u64 + len, [0; K], out);
            Ok(())
        }
        Piecewise::Run { len, step: [step] } => {
            turn_into(*len, *step, &Piecewise::ONE, at, outer, out, budget)
        }
        Piecewise::Loop { n, step: [step], body } => turn_into(*n, *step, body, at, outer, out, budget),
        Piecewise::Seq(parts) => {
            for (start, part) in parts {
                compose_into(part, at + start[0], outer, out, budget)?;
            }
            Ok(())
        }
    }
}

/// The least and greatest coordinate that a staircase from `at` reaches.
fn bounds(stair: &Piecewise<1>, at: i64) -> (i64, i64) {
    let reach = |n: u64, step: i64, (lo, hi): (i64, i64)| {
        let d = (n as i64 - 1) * step;
        (lo + d.min(0), hi + d.max(0))
    };
    match stair {
        Piecewise::Run { len, step } => reach(*len, step[0], (at, at)),
        Piecewise::Loop { n, step, body } => reach(*n, step[0], bounds(body, at)),
        Piecewise::Seq(parts) => parts
            .iter()
            .map(|(start, part)| bounds(part, at + start[0]))
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
            .unwrap_or((at, at)),
    }
}

/// `n` turns of `body`, `step` apart in the coordinate of `outer`.
fn turn_into<const K: usize>(
    mut n: u64,
    step: i64,
    body: &Piecewise<1>,
    mut at: i64,
    outer: &Piecewise<K>,
    out: &mut Parts<K>,
    budget: &mut Budget,
) -> Result<()> {
    while n > 0 {
        budget.spend()?;
        let once = bounds(body, at);
        match advance(n, step, once, outer) {
            Advance::Even(even) => {
                let mut parts = Parts::default();
                compose_into(body, at, outer, &mut parts, budget)?;
                let (start, body) = parts.finish();
                out.push(start, body.repeat(n, even));
                return Ok(());
            }
            // Turns that come back to the same phase of a loop form an even loop of their own.
            Advance::Periodic(per) if per > 1 && per < n => {
                let inner = body.clone().repeat(per, [step]);
                turn_into(n / per, step * per as i64, &inner, at, outer, out, budget)?;
                at += step * (n / per * per) as i64;
                n %= per;
            }
            Advance::Until(turns) if turns > 0 && turns < n => {
                turn_into(turns, step, body, at, outer, out, budget)?;
                at += step * turns as i64;
                n -= turns;
            }
            _ => {
                compose_into(body, at, outer, out, budget)?;
                at += step;
                n -= 1;
            }
        }
    }
    Ok(())
}

/// How the address moves from turn to turn.
enum Advance<const K: usize> {
    /// By the same amount each turn.
    Even(Step<K>),
    /// By the same amount each time this many turns have passed.
    Periodic(u64),
    /// This many turns lie within one part of a sequence, the next does not.
    Until(u64),
}

/// How the address moves over `n` turns of what covers `once` at first.
fn advance<const K: usize>(n: u64, step: i64, once: (i64, i64), outer: &Piecewise<K>) -> Advance<K> {
    let way = (n as i64 - 1) * step;
    let (lo, hi) = (once.0 + way.min(0), once.1 + way.max(0));
    // Descend to the smallest node that holds all turns.
    let (mut node, mut begin) = (outer, 0_i64);
    loop {
        match node {
            Piecewise::Run { step: s, .. } => return Advance::Even(scale(*s, step)),
            Piecewise::Loop { step: s, body, .. } => {
                let len = body.len() as i64;
                if step % len == 0 {
                    return Advance::Even(scale(*s, step / len));
                }
                let turn = (lo - begin) / len;
                if turn != (hi - begin) / len {
                    return Advance::Periodic(len as u64 / gcd(len as u64, step.unsigned_abs()));
                }
                begin += turn * len;
                node = body;
            }
            Piecewise::Seq(parts) => {
                let mut from = begin;
                let mut holds = None;
                for (_, part) in parts {
                    let to = from + part.len() as i64;
                    if from <= once.0 && once.1 < to {
                        if from <= lo && hi < to {
                            holds = Some((part, from));
                            break;
                        }
                        let room = if step > 0 { to - 1 - once.1 } else { once.0 - from };
                        return Advance::Until((room / step.abs()) as u64 + 1);
                    }
                    from = to;
                }
                let Some((part, from)) = holds else { return Advance::Until(0) };
                (node, begin) = (part, from);
            }
        }
    }
}

/// Collects the parts of a staircase in order, folding what repeats.
#[derive(Debug, Default)]
struct Parts<const K: usize>(Vec<(Step<K>, Piecewise<K>)>);

/// The longest sequence of parts that is looked for as a repeating pattern.
const MAX_PATTERN: usize = 64;

impl<const K: usize> Parts<K> {
    fn push(&mut self, at: Step<K>, stair: Piecewise<K>) {
        if let Piecewise::Seq(parts) = stair {
            for (start, part) in parts {
                self.push(add(at, start), part);
            }
            return;
        }
        self.0.push((at, stair));
        while let [.., (a, first), (b, second)] = self.0.as_slice() {
            let by = std::array::from_fn(|k| b[k] - a[k]);
            let Some(joined) = join(first, second, by) else { break };
            let at = *a;
            self.0.truncate(self.0.len() - 2);
            self.0.push((at, joined));
        }
    }

    /// The address of the first element, and the staircase from there.
    fn finish(mut self) -> (Step<K>, Piecewise<K>) {
        if self.0.len() > 3 {
            self.fold();
        }
        let start = self.0.first().map_or([0; K], |p| p.0);
        if self.0.len() == 1 {
            return (start, self.0.remove(0).1);
        }
        for part in &mut self.0 {
            part.0 = std::array::from_fn(|k| part.0[k] - start[k]);
        }
        (start, Piecewise::Seq(self.0))
    }

    /// Replaces each repeated sequence of parts by a loop.
    fn fold(&mut self) {
        let parts = std::mem::take(&mut self.0);
        let mut i = 0;
        while i < parts.len() {
            let best = (2..=MAX_PATTERN.min((parts.len() - i) / 2))
                .map(|p| (p, repeats(&parts[i..], p)))
                .filter(|&(_, r)| r > 1)
                .max_by_key(|&(p, r)| (p * r, r));
            if let Some((p, r)) = best {
                let start = parts[i].0;
                let by = std::array::from_fn(|k| parts[i + p].0[k] - start[k]);
                let body = parts[i..i + p]
                    .iter()
                    .map(|(at, part)| (std::array::from_fn(|k| at[k] - start[k]), part.clone()))
                    .collect();
                self.push(start, Piecewise::Seq(body).repeat(r as u64, by));
                i += p * r;
            } else {
                self.push(parts[i].0, parts[i].1.clone());
                i += 1;
            }
        }
    }
}

/// How often the first `p` parts come again, evenly spaced.
fn repeats<const K: usize>(parts: &[(Step<K>, Piecewise<K>)], p: usize) -> usize {
    let by: Step<K> = std::array::from_fn(|k| parts[p].0[k] - parts[0].0[k]);
    let mut end = p;
    while end < parts.len() {
        let (a, b) = (&parts[end - p], &parts[end]);
        if a.1 != b.1 || add(a.0, by) != b.0 {
            break;
        }
        end += 1;
    }
    end / p
}

/// `first` and then, `by` further, `second`, as one rectangular staircase if they are one.
fn join<const K: usize>(first: &Piecewise<K>, second: &Piecewise<K>, by: Step<K>) -> Option<Piecewise<K>> {
    use Piecewise::{Loop, Run};
    match (first, second) {
        (Run { len: 1, .. }, Run { len, step }) if *len == 1 || *step == by => {
            return Some(Piecewise::run(len + 1, by));
        }
        (Run { len, step }, Run { len: more, step: other })
            if by == scale(*step, *len as i64) && (*more == 1 || step == other) =>
        {
            return Some(Piecewise::run(len + more, *step));
        }
        (Loop { n, step, body }, Loop { n: m, step: other, body: same })
            if by == scale(*step, *n as i64) && step == other && body == same =>
        {
            return Some(Loop { n: n + m, step: *step, body: body.clone() });
        }
        (Loop { n, step, body }, turn) if by == scale(*step, *n as i64) && body.as_ref() == turn => {
            return Some(Loop { n: n + 1, step: *step, body: body.clone() });
        }
        (turn, Loop { n, step, body }) if by == *step && body.as_ref() == turn => {
            return Some(Loop { n: n + 1, step: *step, body: body.clone() });
        }
        _ => {}
    }
    (first == second).then(|| first.clone().repeat(2, by))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values<const K: usize>(at: Step<K>, s: &Piecewise<K>) -> Vec<Step<K>> {
        (0..s.len()).map(|u| add(at, s.eval(u))).collect()
    }

    /// A staircase split by nested, not necessarily dividing, widths.
    fn split(len: u64, widths: &[u64]) -> (Piecewise<1>, Vec<i64>) {
        let oracle: Vec<i64> = (0..len)
            .map(|u| {
                let (mut rest, mut at) = (u, 0);
                for (k, w) in widths.iter().enumerate() {
                    at += (rest / w) as i64 * 1000_i64.pow((widths.len() - k) as u32);
                    rest %= w;
                }
                at + rest as i64
            })
            .collect();
        (Piecewise::through(oracle.iter().map(|&a| [a])).unwrap().1, oracle)
    }

    #[test]
    fn through_keeps_every_address() {
        for len in [1, 2, 5, 17, 64, 100, 288] {
            for widths in [&[32, 16][..], &[18], &[7, 3], &[64, 10, 4]] {
                let (stair, oracle) = split(len, widths);
                let seen: Vec<i64> = values([0], &stair).iter().map(|v| v[0]).collect();
                assert_eq!(seen, oracle, "{len} {widths:?} {stair:?}");
                for lo in 0..len {
                    for hi in lo + 1..=len {
                        let (at, part) = stair.slice(lo, hi);
                        let seen: Vec<i64> = values(at, &part).iter().map(|v| v[0]).collect();
                        assert_eq!(seen, oracle[lo as usize..hi as usize]);
                    }
                }
            }
        }
    }

    #[test]
    fn zip_is_both_sides() {
        for len in [1, 6, 31, 64, 100, 288, 290] {
            for a in [&[32, 16][..], &[18], &[7, 3], &[]] {
                for b in [&[64][..], &[12, 4], &[5], &[]] {
                    let ((x, left), (y, right)) = (split(len, a), split(len, b));
                    let (at, both) = zip::<1, 1, 2>(&x, &y).unwrap();
                    let expect: Vec<[i64; 2]> = left.iter().zip(&right).map(|(&l, &r)| [l, r]).collect();
                    assert_eq!(values(at, &both), expect, "{len} {a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn compose_is_one_after_the_other() {
        let (outer, oracle) = split(400, &[96, 32, 16]);
        let inners = [
            vec![(100, [1])],
            vec![(3, [40]), (33, [1])],
            vec![(3, [128]), (2, [64]), (50, [1])],
            vec![(7, [5]), (5, [1])],
            vec![(13, [32])],
            vec![(11, [-32])],
            vec![(10, [-1])],
            vec![(9, [40]), (8, [1])],
            vec![(4, [2]), (2, [9]), (2, [1])],
        ];
        for loops in inners {
            let inner = Piecewise::nest(&loops);
            for at in [0, 1, 350] {
                let (lo, hi) = bounds(&inner, at);
                if lo < 0 || hi >= 400 {
                    continue;
                }
                let (start, stair) = compose(&inner, at, &outer).unwrap();
                let expect: Vec<[i64; 1]> =
                    values([at], &inner).iter().map(|v| [oracle[v[0] as usize]]).collect();
                assert_eq!(values(start, &stair), expect, "{loops:?} at {at}");
            }
        }
    }

    #[test]
    fn a_long_axis_is_a_few_nodes() {
        // 128k rows on 8 cores, in tiles of two faces.
        let cells = Piecewise::<1>::nest(&[(8, [1 << 30]), (512, [1 << 20]), (2, [512]), (16, [16])]);
        let rows = Piecewise::run(131_072, [8192]);
        let (_, both) = zip::<1, 1, 2>(&rows, &cells).unwrap();
        assert_eq!(both.pieces([0, 0]).unwrap().len(), 1);
        // The same, ragged: one piece more for each level that is cut.
        let (at, ragged) = cells.slice(0, 131_072 - 21);
        assert_eq!(at, [0]);
        assert!(ragged.pieces([0]).unwrap().len() <= 4);
    }

    #[test]
    fn what_shares_no_period_hits_the_cap() {
        let a = Piecewise::<1>::nest(&[(1 << 20, [1 << 20]), (65_521, [1])]);
        let b = Piecewise::<1>::nest(&[(65_521, [1 << 21]), (1 << 20, [1])]);
        assert!(matches!(zip::<1, 1, 2>(&a, &b), Err(Error::TooComplex { .. })));
    }
}
