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
use crate::plan::ir::{AddressPair, Gather, Leaf, ScheduledNest, dst, src};

/// Parts into which one nest may break before it is sampled.
pub(super) const MAX_BOXES: usize = 1 << 12;

/// Iterations inside of a nest that are looked at where it is sampled, besides the ends of its loops.
const SAMPLES: u64 = 64;

/// Parts and samples of all nests of a plan that are looked at before the proof gives up: some seconds.
const MAX_PARTS: usize = 1 << 22;

/// How much the proof looks at.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Parts of one nest, before it is sampled.
    boxes: usize,
    /// Parts and samples of all nests.
    parts: usize,
}

/// V5; how many nests were sampled.
pub(super) fn belong(nests: &[ScheduledNest], source: &Layout, destination: &Layout) -> Result<usize> {
    belong_within(Limits { boxes: MAX_BOXES, parts: MAX_PARTS }, nests, source, destination)
}

/// V5, looking at no more than that.
fn belong_within(
    limits: Limits,
    nests: &[ScheduledNest],
    source: &Layout,
    destination: &Layout,
) -> Result<usize> {
    let needed = u128::from(destination.elements()) * u128::from(destination.copies());
    let mut moved = 0_u128;
    let mut sampled = 0;
    let mut proof = Proof::new(source, destination, limits);
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
    fn of(nest: &ScheduledNest, cols: u64) -> impl Iterator<Item = Moves> {
        let pair = |from: Addr, to: Addr| [from[0], from[1], from[2], to[0], to[1], to[2]];
        let parts: &[Gather] = if let Leaf::Pack(parts) = &nest.leaf { parts } else { &[] };
        let elements = (nest.leaf == Leaf::Element)
            .then(|| Moves { at: nest.at, loops: nest.loops.iter().map(|l| (l.n, l.step)).collect() });
        let [unit, byte, _] = dst(nest.at);
        let moves = move |part: &Gather| {
            let outer = nest.loops.iter().zip(&part.moves).map(|(l, &from)| (l.n, pair(from, l.dst())));
            let inner = part.loops.iter().flat_map(|l| {
                let in_rows = l.step[5] == 1 && l.n > cols && l.n % cols == 0;
                let rows = in_rows.then(|| (l.n / cols, l.step.map(|s| s * cols as i64)));
                rows.into_iter().chain([(if in_rows { cols } else { l.n }, l.step)])
            });
            Moves { at: pair(part.src, [unit, byte, part.slot]), loops: outer.chain(inner).collect() }
        };
        elements.into_iter().chain(parts.iter().map(moves))
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
    /// Parts that may still be looked at.
    left: usize,
    limits: Limits,
}

impl<'a> Proof<'a> {
    fn new(source: &'a Layout, destination: &'a Layout, limits: Limits) -> Proof<'a> {
        let joint = Joint::new(source, destination);
        let (source, destination) = (Source::new(source), Destination::new(destination));
        Proof { source, destination, joint, left: limits.parts, limits }
    }

    /// Whether moves were proved exactly; if not, they were sampled. An error where one of them is wrong.
    fn holds(&mut self, moves: &Moves) -> Result<bool> {
        let Some(broken) = self.check(moves)? else { return Ok(true) };
        let mut open = moves.clone().split(broken);
        let mut seen = 1;
        while let Some(part) = open.pop() {
            seen += 1;
            if seen > self.limits.boxes {
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
            return Err(Error::TooComplex { what, cap: self.limits.parts });
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
        if !there.is(at, &steps, &counts) {
            return Err(wrong("an element is written where none belongs"));
        }
        let (at, steps) = stated(self.source.layout, src);
        let here =
            match self.joint.source_index(&index, &counts).and_then(|i| self.source.follow(&i, &counts)) {
                Ok(here) => here,
                Err(broken) => return breaks(broken),
            };
        if !here.is(at, &steps, &counts) {
            return Err(wrong("another element is read"));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Tensor;
    use crate::plan::ir::{Loop, Nest, Schedule};
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

    /// Bytes from the first on, in loops of so many iterations that are so many bytes apart.
    fn moves(loops: &[(u64, i64)]) -> Moves {
        let loops = loops.iter().map(|&(n, step)| (n, [0, step, 0, 0, step, 0]));
        Moves { at: [0; 6], loops: loops.collect() }
    }

    /// The bytes of the destination that moves reach, in order.
    fn reached(moves: &Moves) -> Vec<i64> {
        let all = moves.loops.iter().fold(vec![moves.at[4]], |all, &(n, step)| {
            all.iter().flat_map(|at| (0..n as i64).map(move |k| at + k * step[4])).collect()
        });
        let mut sorted = all;
        sorted.sort_unstable();
        sorted
    }

    #[test]
    fn moves_are_split_into_all_of_their_iterations() {
        for (n, k) in (2..14).flat_map(|n| (1..n).map(move |k| (n, k))) {
            let whole = moves(&[(3, 1000), (n, 7), (2, 500)]);
            let parts = whole.clone().split(Break { which: 1, at: k });
            let mut together: Vec<i64> = parts.iter().flat_map(reached).collect();
            together.sort_unstable();
            assert_eq!(together, reached(&whole), "{n} at {k}: {parts:?}");
            // Whole breaks are one part, of which each iteration has so many.
            let again = if k == 1 { 1 } else { n / k };
            assert_eq!(parts[0].loops[1].0, k);
            assert_eq!(parts[0].loops.get(3).map(|l| l.0), (again > 1).then_some(again));
            assert_eq!(parts.get(1).map(|rest| rest.loops[1].0), (again * k < n).then(|| n - again * k));
        }
    }

    #[test]
    fn samples_are_the_ends_of_all_loops_and_some_inside() {
        let samples: Vec<Moves> =
            moves(&[(1000, 1), (700, 1000), (1, 9), (3000, 1_000_000)]).samples().collect();
        assert!(samples.iter().all(|sample| sample.loops.is_empty()));
        let seen: Vec<i64> = samples.iter().map(|sample| sample.at[4]).collect();
        let inside =
            |at: &i64| (0..700).contains(&(at / 1000 % 1000)) && (0..3000).contains(&(at / 1_000_000));
        assert!(seen.iter().all(inside), "{seen:?}");
        for end in [0, 999, 699_000, 2_999_000_000, 2_999_699_999] {
            assert!(seen.contains(&end), "{end} of {seen:?}");
        }
        let different: std::collections::BTreeSet<_> = seen.iter().collect();
        assert!(different.len() > 60, "{different:?}");
    }

    #[test]
    fn a_nest_is_sampled_where_it_breaks_into_too_many_parts() {
        let rows = layout("memref<3x16xi8>", &Tensor::new([3, 16], DType::I8));
        let within =
            |boxes, parts, moves: &Moves| Proof::new(&rows, &rows, Limits { boxes, parts }).holds(moves);
        // A row after the other, as one loop: two rows, and the half of one.
        let ragged = moves(&[(40, 1)]);
        assert_eq!(within(1, 1, &moves(&[(3, 16), (16, 1)])), Ok(true));
        assert_eq!(within(3, 3, &ragged), Ok(true));
        assert!(matches!(within(3, 2, &ragged), Err(Error::TooComplex { cap: 2, .. })));
        assert_eq!(within(2, 200, &ragged), Ok(false));
        // What lies behind the last row is found by a sample too.
        for boxes in [1, 100] {
            let refused = within(boxes, 200, &moves(&[(49, 1)]));
            assert!(matches!(refused, Err(Error::Unverified { .. })), "{refused:?}");
        }
    }

    #[test]
    fn sampled_nests_are_counted() {
        let rows = layout("memref<3x16xi8>", &Tensor::new([3, 16], DType::I8));
        // Rows that follow one another, as one loop.
        let nest = |at: i64, n: u64| {
            let loops = vec![Loop { n, step: [0, 1, 0, 0, 1, 0] }];
            let schedule = Schedule::new(&loops);
            Nest { at: [0, at, 0, 0, at, 0], loops, leaf: Leaf::Element, schedule }
        };
        let sampled =
            |boxes, nests: &[_]| belong_within(Limits { boxes, parts: MAX_PARTS }, nests, &rows, &rows);
        let halves = [nest(0, 24), nest(24, 24)];
        assert_eq!((sampled(1, &halves), sampled(MAX_BOXES, &halves)), (Ok(2), Ok(0)));
        let rows = [nest(0, 16), nest(16, 32)];
        assert_eq!((sampled(1, &rows), sampled(MAX_BOXES, &rows)), (Ok(1), Ok(0)));
        assert!(sampled(MAX_BOXES, &halves[..1]).is_err(), "not all elements are moved");
    }

    #[test]
    fn runs_of_whole_rows_are_two_loops_from_the_beginning() {
        let of = |n, slots, cols| {
            let inner = Loop { n, step: [0, 4, 0, 0, 0, slots] };
            let part = Gather { src: [5, 6, 7], moves: vec![[1, 2, 3]], slot: 9, loops: vec![inner] };
            let outer = Loop { n: 2, step: [0, 0, 0, 8, 64, 0] };
            let (loops, leaf) = (vec![outer], Leaf::Pack(vec![part]));
            let schedule = Schedule::new(&loops);
            let nest = Nest { at: [0, 0, 0, 11, 12, 0], loops, leaf, schedule };
            let moves: Vec<Moves> = Moves::of(&nest, cols).collect();
            let [moves] = &moves[..] else { panic!("one part") };
            assert_eq!((moves.at, moves.loops[0]), ([5, 6, 7, 11, 12, 9], (2, [1, 2, 3, 8, 64, 0])));
            moves.loops[1..].iter().map(|&(n, step)| (n, step[1], step[5])).collect::<Vec<_>>()
        };
        assert_eq!(of(96, 1, 32), [(3, 128, 32), (32, 4, 1)]);
        assert_eq!(of(32, 1, 32), [(32, 4, 1)]);
        assert_eq!(of(48, 1, 32), [(48, 4, 1)]);
        assert_eq!(of(16, 1, 32), [(16, 4, 1)]);
        assert_eq!(of(96, 2, 32), [(96, 4, 2)]);
    }

    #[test]
    fn the_work_over_a_plan_is_bounded() {
        let (from, to) = ragged();
        let plan = Plan::compile(&from, &to, &Options::default()).unwrap();
        let lowered = lower::lower(&from, &to, to.padding().unwrap()).unwrap();
        let nests = schedule::schedule(lowered, plan.conversion());
        let within = |parts| belong_within(Limits { boxes: MAX_BOXES, parts }, &nests, &from, &to);
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
