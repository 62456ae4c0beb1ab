//! V5: every element comes from where the two layouts say.
//!
//! Along the loops of a nest both addresses are *affine*: a first value and a step for each loop. [`sides`] finds the
//! logical index of an address of the destination, and follows affine indices forward through a layout. Where the index,
//! found at the first iteration and one step along each loop, leads forward to the addresses that the nest states, on
//! both sides, the nest is right in all of its iterations: what was found backward need not be trusted.

mod affine;
mod sides;

use affine::{Break, PerLoop};
use sides::{Destination, Joint, Source};

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::layout::axis::Addr;
use crate::plan::ir::{AddressPair, Leaf, ScheduledNest, dst, src};

/// Parts into which one nest may break before it is sampled.
pub(super) const MAX_BOXES: usize = 1 << 12;

/// Iterations inside of a nest that are looked at where it is sampled, besides the ends of its loops.
const SAMPLES: u64 = 64;

/// Parts and samples of all nests of a plan that are looked at before the proof gives up: some seconds.
const MAX_PARTS: usize = 1 << 22;

/// V5; how many nests were sampled.
pub(super) fn belong(nests: &[ScheduledNest], source: &Layout, destination: &Layout) -> Result<usize> {
    belong_within(MAX_PARTS, nests, source, destination)
}

/// V5, looking at no more than `limit` parts.
fn belong_within(
    limit: usize,
    nests: &[ScheduledNest],
    source: &Layout,
    destination: &Layout,
) -> Result<usize> {
    let needed = u128::from(destination.elements()) * u128::from(destination.copies());
    let mut moved = 0_u128;
    let mut sampled = 0;
    let mut proof = Proof::new(source, destination, limit);
    let cols = destination.tile().map_or(u64::MAX, |tile| tile.cols);
    for nest in nests {
        for moves in Moves::of(nest, cols) {
            moved = moved.saturating_add(moves.iterations());
            sampled += usize::from(!proof.holds(&moves)?);
        }
    }
    if moved != needed {
        return Err(Error::unverified("V5", format!("{moved} elements are moved of {needed}")));
    }
    Ok(sampled)
}

/// Elements that move: those of a nest, or of one part of the tiles of a nest.
#[derive(Debug, Clone)]
struct Moves {
    at: AddressPair,
    /// Iterations and step of each loop.
    loops: Vec<(u64, AddressPair)>,
}

impl Moves {
    /// Runs of slots that go through several rows of a tile of `cols` columns are two loops from the beginning: a run
    /// leads far out of the tensor's columns, and longer loops were halved for it, into hundreds of parts for a nest.
    fn of(nest: &ScheduledNest, cols: u64) -> Vec<Moves> {
        let pair = |from: Addr, to: Addr| [from[0], from[1], from[2], to[0], to[1], to[2]];
        match &nest.leaf {
            Leaf::Fill => Vec::new(),
            Leaf::Element => {
                vec![Moves { at: nest.at, loops: nest.loops.iter().map(|l| (l.n, l.step)).collect() }]
            }
            Leaf::Pack(parts) => {
                let [unit, byte, _] = dst(nest.at);
                let moves = |part: &crate::plan::ir::Gather| {
                    let outer =
                        nest.loops.iter().zip(&part.moves).map(|(l, &from)| (l.n, pair(from, l.dst())));
                    let inner = part.loops.iter().flat_map(|l| {
                        let in_rows = l.step[5] == 1 && l.n > cols && l.n % cols == 0;
                        let rows = in_rows.then(|| (l.n / cols, l.step.map(|s| s * cols as i64)));
                        rows.into_iter().chain([(if in_rows { cols } else { l.n }, l.step)])
                    });
                    Moves { at: pair(part.src, [unit, byte, part.slot]), loops: outer.chain(inner).collect() }
                };
                parts.iter().map(moves).collect()
            }
        }
    }

    fn iterations(&self) -> u128 {
        self.loops.iter().fold(1, |n: u128, l| n.saturating_mul(l.0.into()))
    }

    /// The same moves as parts of which none passes iteration `k` of loop `i`. Breaks that come again are loops of their
    /// own: a loop of 12 iterations that breaks at the fourth becomes three times four.
    fn split(mut self, Break { which: i, at: k }: Break) -> Vec<Moves> {
        let (n, step) = self.loops[i];
        let again = if k > 1 { n / k } else { 1 };
        let mut rest = self.clone();
        rest.loops[i].0 = n - again * k;
        rest.at = self.reached(|j| if i == j { again * k } else { 0 });
        self.loops[i].0 = k;
        if again > 1 {
            self.loops.push((again, step.map(|s| s * k as i64)));
        }
        if rest.loops[i].0 > 0 { vec![self, rest] } else { vec![self] }
    }

    /// The addresses of one iteration.
    fn reached(&self, iteration: impl Fn(usize) -> u64) -> AddressPair {
        let mut at = self.at;
        for (i, (_, step)) in self.loops.iter().enumerate() {
            let k = iteration(i) as i64;
            at.iter_mut().zip(step).for_each(|(at, step)| *at += step * k);
        }
        at
    }

    /// The ends of all loops, alone and together, and some iterations inside.
    fn samples(&self) -> impl Iterator<Item = Moves> {
        let count = self.loops.len();
        let last = |i: usize| self.loops[i].0 - 1;
        let ends = (0..=count).map(move |end| self.reached(|i| if i == end { last(i) } else { 0 }));
        let far = std::iter::once(self.reached(last));
        let inside = (1..=SAMPLES).map(move |k| {
            let mixed = |i: usize| k.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(7 * i as u32);
            self.reached(|i| mixed(i) % self.loops[i].0)
        });
        ends.chain(far).chain(inside).map(|at| Moves { at, loops: Vec::new() })
    }
}

/// The proof of V5 for one pair of layouts.
struct Proof<'a> {
    source: Source<'a>,
    destination: Destination<'a>,
    joint: Joint,
    /// Parts that may still be looked at, of `limit`.
    left: usize,
    limit: usize,
}

impl<'a> Proof<'a> {
    fn new(source: &'a Layout, destination: &'a Layout, limit: usize) -> Proof<'a> {
        let joint = Joint::new(source, destination);
        let (source, destination) = (Source::new(source), Destination::new(destination));
        Proof { source, destination, joint, left: limit, limit }
    }

    /// Whether moves were proved exactly; if not, they were sampled. An error where one of them is wrong.
    fn holds(&mut self, moves: &Moves) -> Result<bool> {
        let Some(broken) = self.check(moves)? else { return Ok(true) };
        let mut open = moves.clone().split(broken);
        let mut seen = 1;
        while let Some(part) = open.pop() {
            seen += 1;
            if seen > MAX_BOXES {
                for point in moves.samples() {
                    self.check(&point)?;
                }
                return Ok(false);
            }
            if let Some(broken) = self.check(&part)? {
                open.extend(part.split(broken));
            }
        }
        Ok(true)
    }

    /// Checks moves in all of their iterations at once, or says where they break into parts that can be.
    fn check(&mut self, moves: &Moves) -> Result<Option<Break>> {
        let Some(left) = self.left.checked_sub(1) else {
            let what = "the proof of where the elements of the plan come from".into();
            return Err(Error::TooComplex { what, cap: self.limit });
        };
        self.left = left;
        let wrong = |what: &str| Error::unverified("V5", format!("{what}: {moves:?}"));
        let counts: PerLoop<u64> = moves.loops.iter().map(|l| l.0).collect();
        let stated = |layout: &Layout, half: fn(AddressPair) -> Addr| {
            let pick = |at: AddressPair| (layout.linear(half(at)), half(at)[2]);
            (pick(moves.at), moves.loops.iter().map(|&(_, step)| pick(step)).collect::<PerLoop<_>>())
        };
        let (at, steps) = stated(self.destination.layout, dst);
        let Some(index) = self.destination.index(at, &counts, &steps) else {
            return Err(wrong("an element is written where none belongs"));
        };
        // A break in front of the first iteration is no break: there is no such element.
        let breaks = |broken: Break| match broken.at {
            0 => Err(wrong("an index lies outside of the tensor")),
            _ => Ok(Some(broken)),
        };
        let there = match self.destination.follow(&index, &counts) {
            Ok(there) => there,
            Err(broken) => return breaks(broken),
        };
        if !there.is(at, &steps, &counts, self.destination.has_slots()) {
            return Err(wrong("an element is written where none belongs"));
        }
        let (at, steps) = stated(self.source.layout, src);
        let here =
            match self.joint.source_index(&index, &counts).and_then(|i| self.source.follow(&i, &counts)) {
                Ok(here) => here,
                Err(broken) => return breaks(broken),
            };
        if !here.is(at, &steps, &counts, self.source.has_slots()) {
            return Err(wrong("another element is read"));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Tensor;
    use crate::plan::conversion::Conversion;
    use crate::plan::{lower, schedule};
    use crate::{DType, Descriptor, Options, Placement, Plan};

    fn layout(text: &str, tensor: &Tensor) -> Layout {
        text.parse::<Descriptor>().unwrap().layout(tensor, &Placement::default()).unwrap()
    }

    /// Tiles of shards into tiles of batches that begin inside of them: nests of several parts.
    fn ragged() -> (Layout, Layout) {
        let tensor = Tensor::new([6, 137, 141], DType::Bf16);
        let shards = "ttnn(dtype=bfloat8_b, layout=TILE, memory=ND_SHARDED, grid=(3, 1), shard=(2, 64, 96), orientation=COL_MAJOR)";
        let batches = "metal(shape=(6, 137, 141), collapse=[(0, -1)], grid=(3, 1), tile=(32, 32), dtype=bfp_bf8, oob=one, memory=l1)";
        (layout(shards, &tensor), layout(batches, &tensor))
    }

    #[test]
    fn the_work_over_a_plan_is_bounded() {
        let (from, to) = ragged();
        let plan = Plan::compile(&from, &to, &Options::default()).unwrap();
        let Plan { src, dst, op, streams, tuning, .. } = &plan;
        let conversion = Conversion { src, dst, op: *op, streams: *streams, tuning };
        let nests = schedule::schedule(lower::lower(&from, &to, to.padding().unwrap()).unwrap(), conversion);
        let within = |limit| belong_within(limit, &nests, &from, &to);
        let needed = (0..10_000).find(|&limit| within(limit).is_ok()).unwrap();
        assert!(needed > nests.len(), "{needed} parts of {} nests", nests.len());
        assert_eq!(within(needed).unwrap(), 0);
        for limit in [0, 1, needed - 1] {
            let Err(Error::TooComplex { what, cap }) = within(limit) else {
                panic!("{limit} parts were enough")
            };
            assert_eq!(cap, limit);
            assert!(what.contains("the proof of where"), "{what}");
        }
    }
}
