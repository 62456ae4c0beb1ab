//! Two maps over the same coordinate as one.

use super::{Budget, Builder, Piecewise, Step, View, add, gcd, scale};
use crate::error::Result;

/// Both maps at once, over the same coordinate; `KL = K + L` addresses.
///
/// # Errors
/// Where that has more than [`super::MAX_REGIONS`] regions.
pub(crate) fn zip<const K: usize, const L: usize, const KL: usize>(
    a: &Piecewise<K>,
    b: &Piecewise<L>,
) -> Result<(Step<KL>, Piecewise<KL>)> {
    zip_within(a, b, &mut Budget::default())
}

/// [`zip`], with the steps that it takes counted.
pub(super) fn zip_within<const K: usize, const L: usize, const KL: usize>(
    a: &Piecewise<K>,
    b: &Piecewise<L>,
    budget: &mut Budget,
) -> Result<(Step<KL>, Piecewise<KL>)> {
    debug_assert_eq!(K + L, KL);
    debug_assert_eq!(a.len(), b.len());
    // Beside a run, as the rows of an array are, the other map keeps its tree.
    match (a, b) {
        (Piecewise::Run { step, .. }, _) => return Ok(([0; KL], b.with(&|t, u| pair(scale(*step, u), t)))),
        (_, Piecewise::Run { step, .. }) => return Ok(([0; KL], a.with(&|s, u| pair(s, scale(*step, u))))),
        _ => {}
    }
    let mut out = Builder::default();
    zip_into(View::new(a, [0; K]), View::new(b, [0; L]), a.len(), &mut out, budget)?;
    Ok(out.finish())
}

fn pair<const K: usize, const L: usize, const KL: usize>(a: Step<K>, b: Step<L>) -> Step<KL> {
    std::array::from_fn(|k| if k < K { a[k] } else { b[k - K] })
}

/// Zips the first `len` coordinates of two views.
///
/// Each call below narrows one of the two to a node further down, so calls are at most as deep as both trees together.
fn zip_into<const K: usize, const L: usize, const KL: usize>(
    a: View<K>,
    b: View<L>,
    mut len: u64,
    out: &mut Builder<KL>,
    budget: &mut Budget,
) -> Result<()> {
    let (mut a, mut b) = (a.narrow(len), b.narrow(len));
    while len > 0 {
        budget.spend()?;
        if let (Piecewise::Run { step: s, .. }, Piecewise::Run { step: t, .. }) = (a.map, b.map) {
            out.push(pair(a.start(), b.start()), Piecewise::run(len, pair(*s, *t)));
            return Ok(());
        }
        let mut chunk = coarse(&a, &b).min(len);
        if let Some(common) = Common::of(&a, &b) {
            // Up to where the coarser side begins an iteration, so that iterations of the result are not cut twice.
            let head = chunk % common.coarse;
            let n = (len - head) / common.period;
            if n > 1 && head == 0 {
                let mut body = Builder::default();
                let (x, y) = (View { at: [0; K], ..a }, View { at: [0; L], ..b });
                zip_into(x, y, common.period, &mut body, budget)?;
                let (start, body) = body.finish();
                out.push(add(pair(a.at, b.at), start), body.repeat(n, pair(common.steps.0, common.steps.1)));
                let done = n * common.period;
                (a, b, len) = (a.skip(done), b.skip(done), len - done);
                continue;
            }
            if n > 1 {
                chunk = head;
            }
        }
        zip_into(a, b, chunk, out, budget)?;
        (a, b, len) = (a.skip(chunk), b.skip(chunk), len - chunk);
    }
    Ok(())
}

/// How many coordinates there are up to the next part of a sequence, or to the next iteration of the longer loop.
fn coarse<const K: usize, const L: usize>(a: &View<K>, b: &View<L>) -> u64 {
    match (a.period(), b.period()) {
        (None, None) => a.ahead().min(b.ahead()),
        (None, Some(_)) => a.ahead(),
        (Some(_), None) => b.ahead(),
        (Some((p, _)), Some((q, _))) => {
            if p >= q {
                a.ahead()
            } else {
                b.ahead()
            }
        }
    }
}

/// What two loops have in common.
struct Common<const K: usize, const L: usize> {
    /// After how many coordinates both repeat.
    period: u64,
    /// The longer of the two periods.
    coarse: u64,
    /// How far each moves meanwhile.
    steps: (Step<K>, Step<L>),
}

impl<const K: usize, const L: usize> Common<K, L> {
    /// None where one of them is a sequence, or no map is as long as their common period.
    fn of(a: &View<K>, b: &View<L>) -> Option<Self> {
        let ((p, s), (q, t)) = (a.period()?, b.period()?);
        let period = (p / gcd(p, q)).checked_mul(q)?;
        let steps = (scale(s, (period / p) as i64), scale(t, (period / q) as i64));
        Some(Common { period, coarse: p.max(q), steps })
    }
}
