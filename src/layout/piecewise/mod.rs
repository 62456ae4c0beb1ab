//! Piecewise affine maps: where the elements along one axis lie.
//!
//! A [`Piecewise`] maps a coordinate `u` in `0..len` to a vector of `K` addresses that advance together. It is
//! a tree of runs, loops and sequences, so that 128k rows on 64 cores are a handful of nodes. Where nothing
//! repeats, a sequence of runs is the table of all runs: about 140 bytes each for source and destination together.
//!
//! Every operation works on the tree. Its time is linear in the nodes of what it returns, times the depth of the
//! trees; recursion is as deep as the trees are, and a tree over `len` coordinates has at most `2 * log2(len)`
//! levels, because a sequence never holds a sequence and a loop has at least two iterations.

mod build;
mod compose;
mod zip;

pub(crate) use build::Builder;
pub(crate) use compose::{compose, span};
pub(crate) use zip::zip;

use crate::error::{Error, Result};

/// The most regions that a map may have, and the most steps that an operation on maps may take. The layouts of real
/// systems need fewer than fifty; what passes the cap is a shape whose splits share no period. A map of this
/// many regions takes about 40 MB.
pub(crate) const MAX_REGIONS: usize = 1 << 18;

/// `K` addresses that advance together.
pub(crate) type Step<const K: usize> = [i64; K];

/// A map over `0..len()`, relative to the address of its first element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piecewise<const K: usize> {
    /// `len` elements, `step` apart.
    Run { len: u64, step: Step<K> },
    /// `n` copies of `body`, `step` apart, each over `period` coordinates.
    Loop { n: u64, step: Step<K>, period: u64, body: Box<Piecewise<K>> },
    /// One part after another; each starts at its own address. At least two parts, none of them a sequence.
    Seq(Vec<Part<K>>),
}

/// A part of a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part<const K: usize> {
    /// The coordinate at which it begins, counted from the beginning of the sequence.
    pub(crate) begin: u64,
    /// The address of its first element.
    pub(crate) at: Step<K>,
    /// Where the other elements lie, relative to the first.
    pub(crate) map: Piecewise<K>,
}

/// A rectangular part of a map: perfectly nested loops, outermost first, from one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Region<const K: usize> {
    pub(crate) at: Step<K>,
    pub(crate) loops: Vec<(u64, Step<K>)>,
}

pub(crate) fn add<const K: usize>(a: Step<K>, b: Step<K>) -> Step<K> {
    std::array::from_fn(|k| a[k] + b[k])
}

pub(crate) fn sub<const K: usize>(a: Step<K>, b: Step<K>) -> Step<K> {
    std::array::from_fn(|k| a[k] - b[k])
}

/// `n` steps at once. Wraps: a step that is taken never leaves 63 bits, and one that is not is only compared.
pub(crate) fn scale<const K: usize>(a: Step<K>, n: i64) -> Step<K> {
    a.map(|x| x.wrapping_mul(n))
}

pub(crate) fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The least and greatest address that loops reach from `at`.
pub(crate) fn bounds(at: i64, loops: impl IntoIterator<Item = (u64, i64)>) -> (i64, i64) {
    loops.into_iter().fold((at, at), |(lo, hi), (n, step)| {
        let span = (n as i64 - 1) * step;
        (lo + span.min(0), hi + span.max(0))
    })
}

/// Counts the steps of an operation, and stops one that takes too many.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    spent: usize,
}

impl Budget {
    pub(crate) fn spend(&mut self) -> Result<()> {
        self.spent += 1;
        if self.spent > MAX_REGIONS { Err(too_complex()) } else { Ok(()) }
    }
}

fn too_complex() -> Error {
    Error::TooComplex { what: "an axis".into(), cap: MAX_REGIONS }
}

impl<const K: usize> Region<K> {
    /// Iteration `k` of loop `i`, with the other loops.
    pub(crate) fn iteration(&self, i: usize, k: u64) -> Region<K> {
        let mut loops = self.loops.clone();
        let (_, step) = loops.remove(i);
        Region { at: add(self.at, scale(step, k as i64)), loops }
    }
}

impl<const K: usize> Piecewise<K> {
    /// The map of one element.
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
            Piecewise::Loop { n: m, step: inner, period, body } if step == scale(inner, m as i64) => {
                Piecewise::Loop { n: n * m, step: inner, period, body }
            }
            body => Piecewise::Loop { n, step, period: body.len(), body: Box::new(body) },
        }
    }

    /// The map of nested loops, outermost first.
    pub(crate) fn nest(loops: &[(u64, Step<K>)]) -> Piecewise<K> {
        loops.iter().rev().fold(Piecewise::ONE, |body, &(n, step)| body.repeat(n, step))
    }

    /// One map after another, each with the address of its first element: the address of the first, and the map
    /// from there.
    pub(crate) fn sequence(
        parts: impl IntoIterator<Item = (Step<K>, Piecewise<K>)>,
    ) -> (Step<K>, Piecewise<K>) {
        let mut out = Builder::default();
        parts.into_iter().for_each(|(at, part)| out.push(at, part));
        out.finish()
    }

    /// How many coordinates it covers.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Piecewise::Run { len, .. } => *len,
            Piecewise::Loop { n, period, .. } => n * period,
            Piecewise::Seq(parts) => parts.last().map_or(0, |p| p.begin + p.map.len()),
        }
    }

    /// How many runs the tree has, those of a loop's body counted once.
    pub(crate) fn runs(&self) -> usize {
        match self {
            Piecewise::Run { .. } => 1,
            Piecewise::Loop { body, .. } => body.runs(),
            Piecewise::Seq(parts) => parts.iter().map(|p| p.map.runs()).sum(),
        }
    }

    /// The address of coordinate `u`, which must be less than `len()`.
    pub(crate) fn eval(&self, mut u: u64) -> Step<K> {
        let mut at = [0; K];
        let mut node = self;
        loop {
            match node {
                Piecewise::Run { step, .. } => return add(at, scale(*step, u as i64)),
                Piecewise::Loop { step, period, body, .. } => {
                    at = add(at, scale(*step, (u / period) as i64));
                    u %= period;
                    node = body;
                }
                Piecewise::Seq(parts) => {
                    let part = &parts[part_of(parts, u)];
                    at = add(at, part.at);
                    u -= part.begin;
                    node = &part.map;
                }
            }
        }
    }

    /// The part over `lo..hi`, and the address of its first element.
    pub(crate) fn slice(&self, lo: u64, hi: u64) -> (Step<K>, Piecewise<K>) {
        let mut out = Builder::default();
        self.slice_into(lo, hi, [0; K], &mut out);
        out.finish()
    }

    fn slice_into(&self, lo: u64, hi: u64, at: Step<K>, out: &mut Builder<K>) {
        if lo >= hi {
            return;
        }
        match self {
            Piecewise::Run { step, .. } => {
                out.push(add(at, scale(*step, lo as i64)), Piecewise::run(hi - lo, *step))
            }
            Piecewise::Loop { step, period, body, .. } => {
                let (mut first, last) = (lo / period, hi / period);
                let start = |i: u64| add(at, scale(*step, i as i64));
                if first == last {
                    return body.slice_into(lo % period, hi % period, start(first), out);
                }
                if !lo.is_multiple_of(*period) {
                    body.slice_into(lo % period, *period, start(first), out);
                    first += 1;
                }
                if first < last {
                    out.push(start(first), body.as_ref().clone().repeat(last - first, *step));
                }
                body.slice_into(0, hi % period, start(last), out);
            }
            Piecewise::Seq(parts) => {
                for part in parts[part_of(parts, lo)..].iter().take_while(|p| p.begin < hi) {
                    let end = part.begin + part.map.len();
                    let (from, to) = (lo.max(part.begin) - part.begin, hi.min(end) - part.begin);
                    part.map.slice_into(from, to, add(at, part.at), out);
                }
            }
        }
    }

    /// Every element replaced by a copy of `inner`: the map of row-major pairs.
    pub(crate) fn product(&self, inner: &Piecewise<K>) -> Result<Piecewise<K>> {
        let runs = self.runs().saturating_mul(inner.runs());
        if runs > MAX_REGIONS { Err(too_complex()) } else { Ok(self.times(inner)) }
    }

    fn times(&self, inner: &Piecewise<K>) -> Piecewise<K> {
        match self {
            Piecewise::Run { len, step } => inner.clone().repeat(*len, *step),
            Piecewise::Loop { n, step, body, .. } => body.times(inner).repeat(*n, *step),
            Piecewise::Seq(parts) => {
                Piecewise::sequence(parts.iter().map(|part| (part.at, part.map.times(inner)))).1
            }
        }
    }

    /// The rectangular parts, in order of their first coordinate.
    pub(crate) fn regions(&self, at: Step<K>) -> Result<Vec<Region<K>>> {
        let runs = self.runs();
        if runs > MAX_REGIONS {
            return Err(too_complex());
        }
        let mut out = Vec::with_capacity(runs);
        self.regions_into(at, &mut Vec::new(), &mut out);
        Ok(out)
    }

    fn regions_into(&self, at: Step<K>, loops: &mut Vec<(u64, Step<K>)>, out: &mut Vec<Region<K>>) {
        match self {
            Piecewise::Run { len, step } => {
                let own = (*len != 1).then_some((*len, *step));
                out.push(Region { at, loops: loops.iter().copied().chain(own).collect() });
            }
            Piecewise::Loop { n, step, body, .. } => {
                loops.push((*n, *step));
                body.regions_into(at, loops, out);
                loops.pop();
            }
            Piecewise::Seq(parts) => {
                parts.iter().for_each(|part| part.map.regions_into(add(at, part.at), loops, out));
            }
        }
    }

    /// The same tree with more addresses, which step with the coordinate: `put` is given a step of this map's and how many
    /// coordinates it goes.
    pub(crate) fn with<const M: usize>(&self, put: &impl Fn(Step<K>, i64) -> Step<M>) -> Piecewise<M> {
        match self {
            Piecewise::Run { len, step } => Piecewise::run(*len, put(*step, 1)),
            Piecewise::Loop { n, step, period, body } => {
                body.with(put).repeat(*n, put(*step, *period as i64))
            }
            Piecewise::Seq(parts) => {
                let part = |p: &Part<K>| Part {
                    begin: p.begin,
                    at: put(p.at, p.begin as i64),
                    map: p.map.with(put),
                };
                Piecewise::Seq(parts.iter().map(part).collect())
            }
        }
    }

    /// The map through the given addresses, one for each coordinate.
    ///
    /// # Errors
    /// Where too few of them repeat: they form more than [`MAX_REGIONS`] runs, and half as many after folding.
    pub(crate) fn through(addresses: impl IntoIterator<Item = Step<K>>) -> Result<(Step<K>, Piecewise<K>)> {
        Piecewise::through_within(MAX_REGIONS, addresses)
    }

    fn through_within(
        cap: usize,
        addresses: impl IntoIterator<Item = Step<K>>,
    ) -> Result<(Step<K>, Piecewise<K>)> {
        let mut out = Builder::default();
        for at in addresses {
            out.push(at, Piecewise::ONE);
            if out.len() > cap && out.fold() > cap / 2 {
                return Err(too_complex());
            }
        }
        Ok(out.finish())
    }
}

impl Piecewise<1> {
    /// The map to both the address and the coordinate itself.
    pub(crate) fn graph(&self) -> Piecewise<2> {
        self.with(&|[s], u| [s, u])
    }
}

/// Which part of a sequence coordinate `u` falls on.
fn part_of<const K: usize>(parts: &[Part<K>], u: u64) -> usize {
    parts.partition_point(|p| p.begin <= u) - 1
}

/// A map seen from one of its coordinates on.
#[derive(Debug, Clone, Copy)]
struct View<'a, const K: usize> {
    map: &'a Piecewise<K>,
    /// The coordinate of the map at which the view begins.
    from: u64,
    /// The address of the map's coordinate 0.
    at: Step<K>,
}

impl<'a, const K: usize> View<'a, K> {
    fn new(map: &'a Piecewise<K>, at: Step<K>) -> Self {
        View { map, from: 0, at }
    }

    /// The address at which the view begins.
    fn start(&self) -> Step<K> {
        add(self.at, self.map.eval(self.from))
    }

    /// The view from `by` coordinates further on.
    fn skip(self, by: u64) -> Self {
        View { from: self.from + by, ..self }
    }

    /// The same elements, of the smallest node that has the first `len` of them.
    fn narrow(mut self, len: u64) -> Self {
        loop {
            match self.map {
                Piecewise::Loop { step, period, body, .. } if self.from % period + len <= *period => {
                    let at = add(self.at, scale(*step, (self.from / period) as i64));
                    self = View { map: body, from: self.from % period, at };
                }
                Piecewise::Seq(parts) => {
                    let part = &parts[part_of(parts, self.from)];
                    if self.from + len > part.begin + part.map.len() {
                        return self;
                    }
                    self = View { map: &part.map, from: self.from - part.begin, at: add(self.at, part.at) };
                }
                Piecewise::Run { .. } | Piecewise::Loop { .. } => return self,
            }
        }
    }

    /// How many coordinates there are up to the next iteration of a loop, element of a run or part of a sequence.
    fn ahead(&self) -> u64 {
        match self.map {
            Piecewise::Run { .. } => 1,
            Piecewise::Loop { period, .. } => period - self.from % period,
            Piecewise::Seq(parts) => {
                let part = &parts[part_of(parts, self.from)];
                part.begin + part.map.len() - self.from
            }
        }
    }

    /// After how many coordinates addresses repeat, by which step; none for a sequence.
    fn period(&self) -> Option<(u64, Step<K>)> {
        match self.map {
            Piecewise::Run { step, .. } => Some((1, *step)),
            Piecewise::Loop { step, period, .. } => Some((*period, *step)),
            Piecewise::Seq(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
