//! Values that are affine over the loops of a nest, and the maps that keep them so.

use crate::layout::piecewise::Piecewise;

/// A value at the first iteration of all loops, and its step with each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Affine {
    pub(super) at: i64,
    pub(super) steps: Vec<i64>,
}

/// Where a map stops being affine: before iteration `at` of loop `which`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Break {
    pub(super) which: usize,
    pub(super) at: u64,
}

impl Affine {
    pub(super) fn zero(loops: usize) -> Affine {
        Affine { at: 0, steps: vec![0; loops] }
    }

    /// Adds `factor` times another value.
    pub(super) fn add(&mut self, other: &Affine, factor: i64) {
        self.at = self.at.wrapping_add(other.at.wrapping_mul(factor));
        for (own, other) in self.steps.iter_mut().zip(&other.steps) {
            *own = own.wrapping_add(other.wrapping_mul(factor));
        }
    }

    /// The break that keeps a value from staying in `lo..hi`, if any.
    pub(super) fn leaves(&self, counts: &[u64], lo: i64, hi: i64) -> Option<Break> {
        let (mut least, mut greatest) = (i128::from(self.at), i128::from(self.at));
        let mut widest = (0, 0);
        for (i, (&n, &step)) in counts.iter().zip(&self.steps).enumerate() {
            let span = (i128::from(n) - 1).saturating_mul(step.into());
            least = least.saturating_add(span.min(0));
            greatest = greatest.saturating_add(span.max(0));
            if span.unsigned_abs() > widest.1 {
                widest = (i, span.unsigned_abs());
            }
        }
        if least >= lo.into() && greatest < hi.into() {
            return None;
        }
        // Along the loop that goes farthest: where it alone leaves, or else in its middle.
        let (which, step) = (widest.0, self.steps.get(widest.0).copied().unwrap_or(0));
        let n = counts.get(which).copied().unwrap_or(1);
        let inside = match step {
            0 => 0,
            s if s > 0 => (i128::from(hi) - 1 - i128::from(self.at)).div_euclid(s.into()) + 1,
            s => (i128::from(self.at) - i128::from(lo)).div_euclid(-i128::from(s)) + 1,
        };
        let alone = u64::try_from(inside).unwrap_or(0);
        let at = if (1..n).contains(&alone) { alone } else { n / 2 };
        Some(Break { which, at })
    }

    /// The value divided by `by`: quotient and remainder, which must not wrap within the loops.
    pub(super) fn divide(self, by: i64, counts: &[u64]) -> Result<(Affine, Affine), Break> {
        if by == 1 {
            let zero = Affine::zero(self.steps.len());
            return Ok((self, zero));
        }
        let whole = self.at.div_euclid(by);
        let mut rest = self;
        rest.at -= whole * by;
        // What one step along a loop does tells which part of it is whole.
        let quotients = rest.steps.iter_mut().map(|step| {
            let one = rest.at.wrapping_add(*step).div_euclid(by);
            *step = step.wrapping_sub(one.wrapping_mul(by));
            one
        });
        let quotient = Affine { at: whole, steps: quotients.collect() };
        match rest.leaves(counts, 0, by) {
            None => Ok((quotient, rest)),
            Some(broken) => Err(broken),
        }
    }
}

/// A piecewise affine map, with what finding a coordinate needs.
#[derive(Debug)]
pub(super) struct Map {
    nodes: Vec<Node>,
    len: i64,
}

#[derive(Debug)]
enum Node {
    Run {
        step: i64,
    },
    Loop {
        step: i64,
        body: usize,
        len: i64,
    },
    /// Where each part begins, in coordinates and in values.
    Seq(Vec<(i64, i64, usize)>),
}

impl Map {
    pub(super) fn new<'p>(places: &'p Piecewise<1>) -> Map {
        let mut nodes = vec![Node::Run { step: 0 }];
        let mut open = vec![(0, places)];
        while let Some((which, node)) = open.pop() {
            let mut child = |part: &'p Piecewise<1>| {
                nodes.push(Node::Run { step: 0 });
                open.push((nodes.len() - 1, part));
                nodes.len() - 1
            };
            let made = match node {
                Piecewise::Run { step: [step], .. } => Node::Run { step: *step },
                Piecewise::Loop { step: [step], body, .. } => {
                    Node::Loop { step: *step, body: child(body), len: body.len() as i64 }
                }
                Piecewise::Seq(parts) => {
                    let mut begin = 0;
                    let part = |(at, part): &'p ([i64; 1], Piecewise<1>)| {
                        begin += part.len() as i64;
                        (begin - part.len() as i64, at[0], child(part))
                    };
                    Node::Seq(parts.iter().map(part).collect())
                }
            };
            nodes[which] = made;
        }
        Map { nodes, len: places.len() as i64 }
    }

    /// The value at an affine coordinate.
    pub(super) fn follow(&self, mut coordinate: Affine, counts: &[u64]) -> Result<Affine, Break> {
        if let Some(broken) = coordinate.leaves(counts, 0, self.len) {
            return Err(broken);
        }
        let mut value = Affine::zero(counts.len());
        let (mut node, mut len) = (0, self.len);
        loop {
            match &self.nodes[node] {
                Node::Run { step } => {
                    value.add(&coordinate, *step);
                    return Ok(value);
                }
                Node::Loop { step, body, len: of_body } => {
                    let (iteration, inside) = coordinate.divide(*of_body, counts)?;
                    value.add(&iteration, *step);
                    (node, coordinate, len) = (*body, inside, *of_body);
                }
                Node::Seq(parts) => {
                    let which = parts.partition_point(|p| p.0 <= coordinate.at) - 1;
                    let (begin, at, part) = parts[which];
                    let end = parts.get(which + 1).map_or(len, |p| p.0);
                    if let Some(broken) = coordinate.leaves(counts, begin, end) {
                        return Err(broken);
                    }
                    coordinate.at -= begin;
                    value.at += at;
                    (node, len) = (part, end - begin);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn affine(at: i64, steps: &[i64]) -> Affine {
        Affine { at, steps: steps.to_vec() }
    }

    #[test]
    fn values_divide_unless_they_wrap() {
        // 5 + 32 i + 3 j, for i below 4 and j below 9, in rows of 32.
        let counts = [4, 9];
        let (row, col) = affine(5, &[32, 3]).divide(32, &counts).unwrap();
        assert_eq!((row, col), (affine(0, &[1, 0]), affine(5, &[0, 3])));
        // The tenth column would lie in the next row.
        let broken = affine(5, &[32, 3]).divide(32, &[4, 10]).unwrap_err();
        assert_eq!(broken, Break { which: 1, at: 9 });
        // Downward.
        let (row, col) = affine(66, &[-32, -1]).divide(32, &[3, 3]).unwrap();
        assert_eq!((row, col), (affine(2, &[-1, 0]), affine(2, &[0, -1])));
    }

    #[test]
    fn maps_are_followed_or_break_where_they_do() {
        // Ten coordinates on cells 0.., ten on 100.. by twos, and so again, 1000 cells on.
        let parts = vec![([0], Piecewise::run(10, [1])), ([100], Piecewise::run(10, [2]))];
        let places = Piecewise::Loop { n: 2, step: [1000], body: Box::new(Piecewise::Seq(parts)) };
        let map = Map::new(&places);
        assert_eq!(map.follow(affine(10, &[20, 1]), &[2, 10]).unwrap(), affine(100, &[1000, 2]));
        let broken = map.follow(affine(4, &[1]), &[9]).unwrap_err();
        assert_eq!(broken, Break { which: 0, at: 6 });
        // No coordinate at all.
        assert_eq!(map.follow(affine(40, &[]), &[]).unwrap_err().at, 0);
        for u in 0..40 {
            assert_eq!(map.follow(affine(u, &[]), &[]).unwrap().at, places.eval(u as u64)[0]);
        }
    }
}
