//! Maps put together part by part, with loops for what repeats.

use super::{Part, Piecewise, Step, add, scale, sub};

/// The longest sequence of parts that is looked for as a repeating pattern.
const MAX_PATTERN: usize = 64;

/// Collects the parts of a map in order, each with the address of its first element.
#[derive(Debug, Default)]
pub(crate) struct Builder<const K: usize>(Vec<(Step<K>, Piecewise<K>)>);

impl<const K: usize> Builder<K> {
    /// Adds a part; it is joined to the last one where both make one rectangular part.
    pub(crate) fn push(&mut self, at: Step<K>, map: Piecewise<K>) {
        if let Piecewise::Seq(parts) = map {
            parts.into_iter().for_each(|part| self.push(add(at, part.at), part.map));
            return;
        }
        self.0.push((at, map));
        while let [.., (a, first), (b, second)] = self.0.as_slice() {
            let Some(joined) = join(first, second, sub(*b, *a)) else { break };
            let at = *a;
            self.0.truncate(self.0.len() - 2);
            self.0.push((at, joined));
        }
    }

    /// The address of the first element, and the map from there.
    pub(crate) fn finish(mut self) -> (Step<K>, Piecewise<K>) {
        if self.0.len() > 3 {
            self.fold();
        }
        let start = self.0.first().map_or([0; K], |p| p.0);
        if self.0.len() == 1 {
            return (start, self.0.remove(0).1);
        }
        let mut begin = 0;
        let place = |(at, map): (Step<K>, Piecewise<K>)| {
            let part = Part { begin, at: sub(at, start), map };
            begin += part.map.len();
            part
        };
        (start, Piecewise::Seq(self.0.into_iter().map(place).collect()))
    }

    /// How many parts there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Replaces each repeated sequence of parts by a loop, and tells how many parts are left.
    pub(super) fn fold(&mut self) -> usize {
        let parts = std::mem::take(&mut self.0);
        // A pattern that comes again does so with the same steps; most candidates fail at the first one.
        let steps: Vec<Step<K>> = parts.windows(2).map(|w| sub(w[1].0, w[0].0)).collect();
        let mut i = 0;
        while i < parts.len() {
            let best = (2..=MAX_PATTERN.min((parts.len() - i) / 2))
                .filter(|p| steps[i] == steps[i + p])
                .map(|p| (p, repeats(&parts[i..], p)))
                .filter(|&(_, r)| r > 1)
                .max_by_key(|&(p, r)| (p * r, r));
            if let Some((p, r)) = best {
                let start = parts[i].0;
                let by = sub(parts[i + p].0, start);
                let body = parts[i..i + p].iter().map(|(at, part)| (sub(*at, start), part.clone()));
                self.push(start, Piecewise::sequence(body).1.repeat(r as u64, by));
                i += p * r;
            } else {
                self.push(parts[i].0, parts[i].1.clone());
                i += 1;
            }
        }
        self.0.len()
    }
}

/// How often the first `p` parts come again, evenly spaced.
fn repeats<const K: usize>(parts: &[(Step<K>, Piecewise<K>)], p: usize) -> usize {
    let by = sub(parts[p].0, parts[0].0);
    let mut end = p;
    while end < parts.len() {
        let (a, b) = (&parts[end - p], &parts[end]);
        if add(a.0, by) != b.0 || a.1 != b.1 {
            break;
        }
        end += 1;
    }
    end / p
}

/// `first` and then, `by` further, `second`, as one rectangular map if they are one.
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
        (Loop { n, step, period, body }, Loop { n: m, step: other, body: same, .. })
            if by == scale(*step, *n as i64) && step == other && body == same =>
        {
            return Some(Loop { n: n + m, step: *step, period: *period, body: body.clone() });
        }
        (Loop { n, step, period, body }, next) if by == scale(*step, *n as i64) && body.as_ref() == next => {
            return Some(Loop { n: n + 1, step: *step, period: *period, body: body.clone() });
        }
        (before, Loop { n, step, period, body }) if by == *step && body.as_ref() == before => {
            return Some(Loop { n: n + 1, step: *step, period: *period, body: body.clone() });
        }
        _ => {}
    }
    (first == second).then(|| first.clone().repeat(2, by))
}
