//! One map after another.

use super::{Budget, Builder, Piecewise, Step, View, bounds, gcd, part_of, scale};
use crate::error::Result;

/// `outer` after `inner`: the address, in `outer`, of the coordinate that `inner` gives, starting at `at`.
///
/// Every coordinate that `inner` reaches must lie in `0..outer.len()`.
///
/// # Errors
/// Where the result has more than [`super::MAX_REGIONS`] regions.
pub(crate) fn compose<const K: usize>(
    inner: &Piecewise<1>,
    at: i64,
    outer: &Piecewise<K>,
) -> Result<(Step<K>, Piecewise<K>)> {
    let mut out = Builder::default();
    compose_into(inner, at, View::new(outer, [0; K]), &mut out, &mut Budget::default())?;
    Ok(out.finish())
}

/// The least and greatest coordinate that a map from `at` reaches.
pub(crate) fn span(map: &Piecewise<1>, at: i64) -> (i64, i64) {
    match map {
        Piecewise::Run { len, step } => bounds(at, [(*len, step[0])]),
        Piecewise::Loop { n, step, body, .. } => {
            let (lo, hi) = span(body, at);
            let (down, up) = bounds(0, [(*n, step[0])]);
            (lo + down, hi + up)
        }
        Piecewise::Seq(parts) => parts
            .iter()
            .map(|part| span(&part.map, at + part.at[0]))
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
            .unwrap_or((at, at)),
    }
}

/// Composes `inner` from coordinate `at` of the view's map on.
fn compose_into<const K: usize>(
    inner: &Piecewise<1>,
    at: i64,
    outer: View<K>,
    out: &mut Builder<K>,
    budget: &mut Budget,
) -> Result<()> {
    budget.spend()?;
    match inner {
        Piecewise::Run { len: len @ 1, .. } | Piecewise::Run { len, step: [1] } => {
            outer.map.slice_into(at as u64, at as u64 + len, outer.at, out);
            Ok(())
        }
        Piecewise::Run { len, step: [step] } => {
            let every = Iterations { n: *len, step: *step, body: &Piecewise::ONE };
            loop_into(every, at, outer, out, budget)
        }
        Piecewise::Loop { n, step: [step], body, .. } => {
            loop_into(Iterations { n: *n, step: *step, body }, at, outer, out, budget)
        }
        Piecewise::Seq(parts) => {
            for part in parts {
                compose_into(&part.map, at + part.at[0], outer, out, budget)?;
            }
            Ok(())
        }
    }
}

/// `n` iterations of a map, `step` apart.
#[derive(Clone, Copy)]
struct Iterations<'a> {
    n: u64,
    step: i64,
    body: &'a Piecewise<1>,
}

impl Iterations<'_> {
    /// The first `n` of them as one map.
    fn first(&self, n: u64) -> Piecewise<1> {
        self.body.clone().repeat(n, [self.step])
    }
}

/// Composes iterations: those that repeat evenly in the outer map once, the others as few times as may be.
fn loop_into<const K: usize>(
    mut inner: Iterations,
    at: i64,
    outer: View<K>,
    out: &mut Builder<K>,
    budget: &mut Budget,
) -> Result<()> {
    // Bounds of one iteration, and of all of them, from `at` on.
    let once = span(inner.body, 0);
    let all = bounds(0, [(inner.n, inner.step)]);
    let (outer, mut at) = within(outer, at, (at + once.0 + all.0, at + once.1 + all.1));
    while inner.n > 0 {
        budget.spend()?;
        let first = (at + once.0, at + once.1);
        match advance(&inner, first, outer.map) {
            Advance::Even { per, step } => {
                let mut body = Builder::default();
                compose_into(&inner.first(per), at, outer, &mut body, budget)?;
                let (start, body) = body.finish();
                let n = inner.n / per;
                out.push(start, body.repeat(n, step));
                at += inner.step * (n * per) as i64;
                inner.n -= n * per;
            }
            Advance::Until(n) => {
                compose_into(&inner.first(n), at, outer, out, budget)?;
                at += inner.step * n as i64;
                inner.n -= n;
            }
        }
    }
    Ok(())
}

/// The smallest node of a view's map that has the coordinates from `lo` to `hi`, and `at` in it.
fn within<'a, const K: usize>(outer: View<'a, K>, at: i64, (lo, hi): (i64, i64)) -> (View<'a, K>, i64) {
    let narrow = View { from: lo as u64, ..outer }.narrow((hi - lo + 1) as u64);
    (View { from: 0, ..narrow }, at - (lo - narrow.from as i64))
}

/// How the address moves from iteration to iteration.
enum Advance<const K: usize> {
    /// By `step` with each `per` iterations, of which there are at least twice as many, or one.
    Even { per: u64, step: Step<K> },
    /// This many iterations are taken alone: they lie within one part of the outer map, or it is one that straddles.
    Until(u64),
}

/// How the address moves over iterations of which the first covers the coordinates `first` of `outer`.
fn advance<const K: usize>(inner: &Iterations, first: (i64, i64), outer: &Piecewise<K>) -> Advance<K> {
    if inner.step == 0 {
        return Advance::Even { per: 1, step: [0; K] };
    }
    // The part of the outer map on which the first iteration begins.
    let (begin, end) = match outer {
        Piecewise::Run { step, .. } => return Advance::Even { per: 1, step: scale(*step, inner.step) },
        Piecewise::Loop { step, period, .. } => {
            let per = period / gcd(*period, inner.step.unsigned_abs());
            if per == 1 || per <= inner.n / 2 {
                let periods = i128::from(inner.step) * i128::from(per) / i128::from(*period);
                return Advance::Even { per, step: scale(*step, periods as i64) };
            }
            let begin = first.0 / *period as i64 * *period as i64;
            (begin, begin + *period as i64)
        }
        Piecewise::Seq(parts) => {
            let part = &parts[part_of(parts, first.0 as u64)];
            (part.begin as i64, (part.begin + part.map.len()) as i64)
        }
    };
    if first.1 >= end {
        return Advance::Until(1);
    }
    let left = if inner.step.is_positive() { end - 1 - first.1 } else { first.0 - begin };
    Advance::Until((left / inner.step.abs() + 1).min(inner.n as i64) as u64)
}
