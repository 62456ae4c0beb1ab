//! The way back along an axis: which coordinate, if any, falls on a cell.

use super::piecewise::{Piecewise, bounds, gcd, span};

/// The inverse of a map: the same tree, in which loops and parts are sorted by where they lie.
///
/// Where loops nest and parts lie apart, as in every layout that a system makes, a look-up takes a division for each
/// loop and a binary search for each sequence. Two loops that interleave are solved as one linear equation. Of more
/// than two, the iterations that may hold the cell are tried; [`super::gaps`], which each destination passes, has
/// taken them one by one too, and bounded how many that are.
#[derive(Debug)]
pub(crate) struct Inverse(Node);

/// Loops around a point, or around a sequence.
#[derive(Debug)]
struct Node {
    /// The loops, the greatest step first.
    loops: Vec<Level>,
    /// The cells that the sequence spans, from its first element on.
    span: (i64, i64),
    /// The parts of the sequence, sorted by their least cell; none for a point.
    parts: Vec<Part>,
}

#[derive(Debug, Clone, Copy)]
struct Level {
    n: u64,
    step: i64,
    /// How many coordinates one iteration has.
    weight: u64,
}

#[derive(Debug)]
struct Part {
    least: i64,
    greatest: i64,
    /// The greatest cell of this part and of all before.
    reached: i64,
    begin: u64,
    at: i64,
    node: Node,
}

impl Inverse {
    pub(crate) fn new(map: &Piecewise<1>) -> Inverse {
        Inverse(Node::new(map, &[]))
    }

    /// A coordinate at which the map has the value `at`.
    pub(crate) fn coordinate(&self, at: i64) -> Option<u64> {
        self.0.find(at)
    }
}

impl Node {
    /// The node of a map inside of the loops `around`.
    fn new(map: &Piecewise<1>, around: &[Level]) -> Node {
        let mut loops = around.to_vec();
        let mut inner = map;
        let parts: &[_] = loop {
            match inner {
                Piecewise::Run { len, step } => {
                    loops.push(Level { n: *len, step: step[0], weight: 1 });
                    break &[];
                }
                Piecewise::Loop { n, step, period, body } => {
                    loops.push(Level { n: *n, step: step[0], weight: *period });
                    inner = body;
                }
                Piecewise::Seq(parts) => break parts,
            }
        };
        // A loop that does not move has the same cells in each iteration.
        loops.retain(|l| l.n > 1 && l.step != 0);
        loops.sort_by_key(|l| std::cmp::Reverse(l.step.unsigned_abs()));
        let span = if parts.is_empty() { (0, 0) } else { span(inner, 0) };
        let least = loops.last().map_or(i64::MAX, |l| l.step.abs());
        if span.1 - span.0 < least {
            return Node { loops, span, parts: sorted(parts.iter().map(|p| Part::new(p, &[])).collect()) };
        }
        // Iterations of the sequence interleave, while those of one part may not: each part gets the loops.
        let parts = sorted(parts.iter().map(|p| Part::new(p, &loops)).collect());
        Node { loops: vec![], span, parts }
    }

    fn find(&self, at: i64) -> Option<u64> {
        self.find_among(&self.loops, at)
    }

    /// [`Node::find`] with the given loops, outermost first.
    fn find_among(&self, loops: &[Level], at: i64) -> Option<u64> {
        let Some((&outer, rest)) = loops.split_first() else { return self.find_within(at) };
        if let (&[inner], true) = (rest, self.parts.is_empty()) {
            let (i, j) = solve([outer, inner], at)?;
            return Some(i * outer.weight + j * inner.weight);
        }
        // The iterations that may hold the cell: no more than one where loops nest.
        let inside = bounds(0, rest.iter().map(|l| (l.n, l.step)));
        let (lo, hi) = (at - inside.1 - self.span.1, at - inside.0 - self.span.0);
        let (first, last) = iterations(outer, (lo, hi));
        (first..=last).find_map(|i| {
            let inner = self.find_among(rest, at - i * outer.step)?;
            Some(i as u64 * outer.weight + inner)
        })
    }

    /// [`Node::find`] within one iteration of all loops.
    fn find_within(&self, at: i64) -> Option<u64> {
        if self.parts.is_empty() {
            return (at == 0).then_some(0);
        }
        let after = self.parts.partition_point(|p| p.least <= at);
        let meeting = self.parts[..after].iter().rev().take_while(|p| p.reached >= at);
        meeting.filter(|p| p.greatest >= at).find_map(|p| Some(p.begin + p.node.find(at - p.at)?))
    }
}

impl Part {
    fn new(part: &super::piecewise::Part<1>, around: &[Level]) -> Part {
        let (lo, hi) = span(&part.map, part.at[0]);
        let (down, up) = bounds(0, around.iter().map(|l| (l.n, l.step)));
        let node = Node::new(&part.map, around);
        Part {
            least: lo + down,
            greatest: hi + up,
            reached: i64::MIN,
            begin: part.begin,
            at: part.at[0],
            node,
        }
    }
}

fn sorted(mut parts: Vec<Part>) -> Vec<Part> {
    parts.sort_by_key(|p| p.least);
    let mut reached = i64::MIN;
    for part in &mut parts {
        reached = reached.max(part.greatest);
        part.reached = reached;
    }
    parts
}

/// The first and last iteration of a loop whose step takes it into `lo..=hi`; none if the last is before the first.
fn iterations(l: Level, (lo, hi): (i64, i64)) -> (i64, i64) {
    let (lo, hi) = if l.step > 0 { (lo, hi) } else { (-hi, -lo) };
    let step = l.step.abs();
    ((lo + step - 1).div_euclid(step).max(0), hi.div_euclid(step).min(l.n as i64 - 1))
}

/// Iterations `i` and `j` of two loops that together lead to `at`: a solution of `i * s + j * t = at` in range.
fn solve([outer, inner]: [Level; 2], at: i64) -> Option<(u64, u64)> {
    // Those from which the inner loop can reach the cell.
    let (down, up) = bounds(0, [(inner.n, inner.step)]);
    let (first, last) = iterations(outer, (at - up, at - down));
    if first == last && (at - first * outer.step) % inner.step == 0 {
        return Some((first as u64, ((at - first * outer.step) / inner.step) as u64));
    }
    if first >= last {
        return None;
    }
    let (s, t, at) = (i128::from(outer.step), i128::from(inner.step), i128::from(at));
    let g = i128::from(gcd(outer.step.unsigned_abs(), inner.step.unsigned_abs()));
    if at % g != 0 {
        return None;
    }
    // The iterations of the outer loop that leave a whole step of the inner one: every `every`-th.
    let every = (t / g).abs();
    let i = (at / g).rem_euclid(every) * inverse((s / g).rem_euclid(every), every) % every;
    let i = i128::from(first) + (i - i128::from(first)).rem_euclid(every);
    (i <= last.into()).then_some((i as u64, ((at - i * s) / t) as u64))
}

/// The inverse of `a` modulo `m`, which share no divisor: the extended algorithm of Euclid.
fn inverse(a: i128, m: i128) -> i128 {
    let (mut r, mut s) = ((m, a), (0, 1));
    while r.1 != 0 {
        let q = r.0 / r.1;
        r = (r.1, r.0 - q * r.1);
        s = (s.1, s.0 - q * s.1);
    }
    s.0.rem_euclid(m)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(map: &Piecewise<1>) {
        let inverse = Inverse::new(map);
        let cells: std::collections::HashMap<i64, u64> =
            (0..map.len()).map(|u| (map.eval(u)[0], u)).collect();
        let (lo, hi) = span(map, 0);
        for at in lo - 3..=hi + 3 {
            let seen = inverse.coordinate(at);
            assert_eq!(seen.is_some(), cells.contains_key(&at), "{at} of {map:?}");
            assert!(seen.is_none_or(|u| map.eval(u) == [at]), "{at} of {map:?}: {seen:?}");
        }
    }

    #[test]
    fn interleaved_iterations_are_found_wherever_they_lie() {
        // The elements of a column-major 200000x2 in row-major order.
        let columns = Inverse::new(&Piecewise::nest(&[(200_000, [1]), (2, [200_000])]));
        for (at, u) in [(0, 0), (65_536, 131_072), (199_999, 399_998), (200_000, 1), (399_999, 399_999)] {
            assert_eq!(columns.coordinate(at), Some(u), "{at}");
        }
        assert_eq!(columns.coordinate(400_000), None);
        // Three and five apart, 2^30 times each: 7 is out of reach, 8 is not.
        let n = 1 << 30;
        let both = Inverse::new(&Piecewise::nest(&[(n, [3]), (n, [5])]));
        assert_eq!(both.coordinate(7), None);
        assert_eq!(both.coordinate(8), Some(n + 1));
        let (i, j) = ((1_i64 << 30) - 2, (1_i64 << 29) + 1);
        let at = i * 3 + j * 5;
        let u = both.coordinate(at).unwrap();
        assert_eq!((u / n) as i64 * 3 + (u % n) as i64 * 5, at);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_undoes_any_map(
            parts in prop::collection::vec((-40_i64..40, prop::collection::vec((1_u64..7, -12_i64..13), 0..4)), 1..5),
            around in prop::collection::vec((1_u64..4, -60_i64..60), 0..2),
        ) {
            let nest = |loops: &[(u64, i64)]| {
                Piecewise::nest(&loops.iter().map(|&(n, s)| (n, [s])).collect::<Vec<_>>())
            };
            let (_, body) = Piecewise::sequence(parts.iter().map(|(at, loops)| ([*at], nest(loops))));
            check(&around.iter().fold(body, |body, &(n, step)| body.repeat(n, [step])));
        }
    }
}
