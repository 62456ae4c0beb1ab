//! The verifier, by mutation: a scheduled plan of which one field is changed is refused, or gives the same bytes.

use std::cell::Cell;
use std::sync::OnceLock;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::ir::{Gather, InPlace, Leaf, Loop, Schedule, ScheduledNest};
use super::{Plan, Store, lower, schedule, verify};
use crate::families::{Choices, Draw, FAMILIES, dense, memref, skewed};
use crate::family::Tensor;
use crate::run::interpret;
use crate::{DType, Descriptor, Layout, Options, Placement};

/// Gives a number below the one that it is asked with.
type Choose<'a> = &'a mut dyn FnMut(usize) -> usize;

/// Chooses everything that can be chosen, one time after the other: the choices of one time are the digits of a number, which
/// counts up.
#[derive(Default)]
struct Every {
    /// What is chosen, and of how many.
    digits: Vec<(usize, usize)>,
    /// How many of them have been chosen this time.
    chosen: usize,
}

impl Every {
    fn below(&mut self, n: usize) -> usize {
        if self.chosen == self.digits.len() {
            self.digits.push((0, n));
        }
        self.chosen += 1;
        self.digits[self.chosen - 1].0
    }

    /// Whether there is another time.
    fn next(&mut self) -> bool {
        while self.digits.pop_if(|(digit, n)| *digit + 1 >= *n).is_some() {}
        self.chosen = 0;
        let Some((digit, _)) = self.digits.last_mut() else { return false };
        *digit += 1;
        true
    }
}

/// By how much numbers change: by one, by a few, by a block or a cache line, and to the ends of what there is.
fn changed(c: Choose<'_>, value: i64, block: i64) -> i64 {
    let steps = [1, -1, 2, -2, 7, block, -block, 64, -64, 4 * block];
    let ends = [0, 1, -1, i64::MAX, i64::MIN, value.wrapping_neg()];
    let k = c(steps.len() + ends.len());
    steps.get(k).map_or_else(|| ends[k - steps.len()], |&step| value.wrapping_add(step))
}

fn change_count(c: Choose<'_>, n: &mut u64) {
    *n = changed(c, *n as i64, 16) as u64;
}

fn change_address<const K: usize>(c: Choose<'_>, at: &mut [i64; K], blocks: [i64; 2]) {
    let k = c(K);
    at[k] = changed(c, at[k], blocks[usize::from(k >= 3)]);
}

/// The place of one of some things, if there are any.
fn one_of<T>(c: Choose<'_>, all: &[T]) -> Option<usize> {
    (!all.is_empty()).then(|| c(all.len()))
}

fn change_loops(c: Choose<'_>, loops: &mut Vec<Loop>, blocks: [i64; 2]) {
    let Some(i) = one_of(c, loops) else { return };
    match c(5) {
        0 => drop(loops.remove(i)),
        1 => loops.insert(i, loops[i]),
        2 => loops.swap(i, 0),
        3 => change_count(c, &mut loops[i].n),
        _ => change_address(c, &mut loops[i].step, blocks),
    }
}

fn change_part(c: Choose<'_>, parts: &mut Vec<Gather>, blocks: [i64; 2]) {
    let Some(i) = one_of(c, parts) else { return };
    match c(7) {
        0 => drop(parts.remove(i)),
        1 => parts.push(parts[i].clone()),
        2 => parts[i].slot = changed(c, parts[i].slot, 16),
        3 => change_address(c, &mut parts[i].src, blocks),
        4 => {
            if let Some(k) = one_of(c, &parts[i].moves) {
                change_address(c, &mut parts[i].moves[k], blocks);
            }
        }
        5 => drop(parts[i].moves.pop()),
        _ => change_loops(c, &mut parts[i].loops, blocks),
    }
}

fn change_leaf(c: Choose<'_>, leaf: &mut Leaf, blocks: [i64; 2]) {
    match (c(4), leaf) {
        (0, leaf) => *leaf = Leaf::Fill,
        (1, leaf) => *leaf = Leaf::Element,
        (2, leaf) => *leaf = Leaf::Pack(vec![]),
        (_, Leaf::Pack(parts)) => change_part(c, parts, blocks),
        _ => {}
    }
}

fn change_order(c: Choose<'_>, order: &mut Vec<usize>, loops: usize) {
    let Some(i) = one_of(c, order) else { return };
    match c(4) {
        0 => drop(order.remove(i)),
        1 => order.push(order[i]),
        2 => order.swap(i, 0),
        _ => order[i] = c(loops + 1),
    }
}

fn change_in_place(c: Choose<'_>, in_place: &mut Option<InPlace>) {
    let Some(tile) = in_place else { return };
    let by = |c: Choose<'_>| [1_isize, -1, 2, 16, -16, 64][c(6)];
    match c(7) {
        0 => tile.rows = tile.rows.wrapping_add_signed(by(c)),
        1 => tile.cols = tile.cols.wrapping_add_signed(by(c)),
        2 => tile.src_row += by(c),
        3 => tile.src_col += by(c),
        4 => tile.faces = if tile.faces.is_some() { None } else { Some([by(c), by(c)]) },
        5 => {
            if let Some(faces) = &mut tile.faces {
                faces[c(2)] += by(c);
            }
        }
        _ => *in_place = None,
    }
}

fn change_schedule(c: Choose<'_>, schedule: &mut Schedule, loops: usize) {
    let which = |c: Choose<'_>| c(loops + 2).checked_sub(1);
    match c(15) {
        0 => schedule.assembled = !schedule.assembled,
        1 => schedule.rows = which(c),
        2 => schedule.cols = which(c),
        3 => schedule.tiles = which(c),
        4 => change_order(c, &mut schedule.order, loops),
        5 => change_order(c, &mut schedule.within, loops),
        6 => {
            if let Some(i) = one_of(c, &schedule.blocks) {
                change_count(c, &mut schedule.blocks[i]);
            }
        }
        7 => drop(schedule.blocks.pop()),
        8 => {
            if let Some(i) = one_of(c, &schedule.packed) {
                schedule.packed[i] = changed(c, schedule.packed[i], 64);
            }
        }
        9 => schedule.segment = c(loops + 2),
        10 => change_count(c, &mut schedule.overlap),
        11 => schedule.compacted = !schedule.compacted,
        12 => schedule.prefetch_distance = changed(c, schedule.prefetch_distance, 4096),
        13 => schedule.in_order = !schedule.in_order,
        14 => schedule.in_bands = !schedule.in_bands,
        _ => change_in_place(c, &mut schedule.in_place),
    }
}

/// Changes one field of one nest, or one nest.
fn change(c: Choose<'_>, nests: &mut Vec<ScheduledNest>, blocks: [i64; 2]) {
    let Some(which) = one_of(c, nests) else { return };
    let nest = &mut nests[which];
    match c(6) {
        0 => drop(nests.remove(which)),
        1 => nests.push(nests[which].clone()),
        2 => change_address(c, &mut nest.at, blocks),
        3 => change_loops(c, &mut nest.loops, blocks),
        4 => change_leaf(c, &mut nest.leaf, blocks),
        _ => change_schedule(c, &mut nest.schedule, nest.loops.len()),
    }
}

/// Every way of running a plan: element by element, as a whole and in chunks.
fn run_all(plan: &Plan, source: &[u8], expect: &[u8]) -> Result<(), TestCaseError> {
    let seen = interpret(plan, source).unwrap();
    prop_assert!(seen.writes.iter().all(|&w| w == 1), "some byte is not written once\n{plan}");
    prop_assert!(seen.bytes == expect, "the interpreter gives other bytes\n{plan}");
    let mut out = vec![0xA5; expect.len()];
    plan.execute(source, &mut out).unwrap();
    prop_assert!(out == expect, "the executor gives other bytes\n{plan}");
    let size = (expect.len() / 3).max(1).next_multiple_of(plan.chunk_alignment().max(1));
    out.fill(0x5A);
    for (k, chunk) in out.chunks_mut(size).enumerate() {
        plan.execute_chunk(source, k * size..k * size + chunk.len(), chunk).unwrap();
    }
    prop_assert!(out == expect, "chunks give other bytes\n{plan}");
    Ok(())
}

/// Bytes of which no two elements nearby are alike, and which are small numbers in every format.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(0x9E37_79B9) >> 13) as u8 & 0x3F).collect()
}

/// A plan, and what it is made of.
struct Subject<'a> {
    plan: &'a Plan,
    layouts: [&'a Layout; 2],
    nests: Vec<ScheduledNest>,
    source: Vec<u8>,
    expect: Vec<u8>,
}

impl Subject<'_> {
    fn new<'a>(plan: &'a Plan, from: &'a Layout, to: &'a Layout) -> Subject<'a> {
        let lowered = lower::lower(from, to, to.padding().unwrap()).unwrap();
        let source = bytes(plan.source_bytes());
        let expect = interpret(plan, &source).unwrap().bytes;
        Subject {
            nests: schedule::schedule(lowered, plan.conversion()),
            plan,
            layouts: [from, to],
            source,
            expect,
        }
    }

    /// Changes it once. Whether it was refused.
    fn change(&self, c: Choose<'_>) -> Result<bool, TestCaseError> {
        let Plan { src, dst, .. } = self.plan;
        let mut nests = self.nests.clone();
        change(c, &mut nests, [src.block_bytes as i64, dst.block_bytes as i64]);
        let same = nests == self.nests;
        match verify::verify(nests, self.plan.conversion(), self.layouts[0], self.layouts[1]) {
            Ok(nests) => {
                if !same {
                    run_all(
                        &Plan { nests, whole_call: OnceLock::new(), ..self.plan.clone() },
                        &self.source,
                        &self.expect,
                    )?;
                }
                Ok(false)
            }
            Err(_) => {
                prop_assert!(!same, "the plan as it is was refused");
                Ok(true)
            }
        }
    }
}

/// `n` random plans; `TILEWRIGHT_CASES` multiplies them.
fn cases(n: u32) -> ProptestConfig {
    let factor = std::env::var("TILEWRIGHT_CASES").ok().and_then(|v| v.parse::<u32>().ok()).unwrap_or(1);
    let cases = n.saturating_mul(factor);
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default() }
}

/// What a pair of layouts, and how they are stored, is drawn from.
type Drawn = (Vec<u32>, Vec<u32>, (usize, usize), bool);

fn drawn() -> impl Strategy<Value = Drawn> {
    let numbers = || prop::collection::vec(any::<u32>(), 48);
    (numbers(), numbers(), (0..=FAMILIES.len(), 0..=FAMILIES.len()), any::<bool>())
}

/// Two layouts of a tensor of `most` elements, of at most `bytes`, and the plan from one to the other; none where the families
/// have none of it.
fn plan(drawn: &Drawn, most: u64, bytes: u64) -> Option<(Layout, Layout, Plan)> {
    let (numbers, other, families, streamed) = drawn;
    let (mut c, mut d) = (Choices::new(numbers), Choices::new(other));
    let dtype = c.of(&[DType::F32, DType::Bf16, DType::U8, DType::I32]);
    let tensor = Tensor { dtype, shape: c.shape(most) };
    let lay = |c: &mut Choices, family: usize| {
        let draw = FAMILIES.get(family).map_or(skewed as Draw, |f| f.1);
        let layout = draw(c, &tensor).and_then(|case| case.layout(&tensor).ok());
        layout.filter(|l| l.total_bytes() <= bytes)
    };
    let from = match d.below(3) {
        0 => Some(dense(&tensor)),
        1 => memref(&mut d, &tensor).unwrap().layout(&tensor).ok(),
        _ => lay(&mut d, families.1),
    };
    let (from, to) = (from?, lay(&mut c, families.0)?);
    let store = if *streamed { Store::Streamed } else { Store::Cached };
    let plan = Plan::compile(&from, &to, &Options::default().with_store(store).with_saturate(true)).unwrap();
    Some((from, to, plan))
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn a_changed_plan_is_refused_or_gives_the_same_bytes(
        drawn in drawn(),
        mutations in prop::collection::vec(any::<u32>(), 400),
    ) {
        let Some((from, to, plan)) = plan(&drawn, 1500, 60_000) else { return Ok(()) };
        let subject = Subject::new(&plan, &from, &to);
        let mut c = Choices::new(&mutations);
        for _ in 0..24 {
            subject.change(&mut |n| c.below(n))?;
        }
    }
}

/// Makes every change that there is, and counts them and those that were refused.
fn change_all(
    plan: &Plan,
    from: &Layout,
    to: &Layout,
    counts: &Cell<[usize; 2]>,
) -> Result<(), TestCaseError> {
    let subject = Subject::new(plan, from, to);
    let mut all = Every::default();
    loop {
        let is_refused = subject.change(&mut |n| all.below(n))?;
        let [changes, refused] = counts.get();
        counts.set([changes + 1, refused + usize::from(is_refused)]);
        if !all.next() {
            return Ok(());
        }
    }
}

/// Small plans, each change of them; how many is printed.
#[test]
fn no_change_of_a_small_plan_is_accepted_that_gives_other_bytes() {
    let (plans, counts) = (Cell::new(0), Cell::new([0, 0]));
    let every = |drawn: Drawn| {
        let Some((from, to, plan)) = plan(&drawn, 200, 8000) else { return Ok(()) };
        plans.set(plans.get() + 1);
        change_all(&plan, &from, &to, &counts)
    };
    if let Err(error) = TestRunner::new(cases(10)).run(&drawn(), every) {
        panic!("{error}");
    }
    let [changes, refused] = counts.get();
    println!("{} plans, {changes} changes, {refused} refused", plans.get());
}

/// Plans with leaves of every kind: tiles that are packed from where they lie, transposed, from pages, from tiles of another
/// shape; padded ones; elements out of tiles.
const KINDS: [(&str, &str); 8] = [
    ("memref<5x20xf32>", "ttnn(dtype=bfloat8_b, layout=TILE, tile=(2, 16))"),
    ("memref<5x20xf32, strided<[1, 5]>>", "ttnn(dtype=bfloat8_b, layout=TILE, tile=(2, 16))"),
    ("memref<2x3x32xf32>", "ttnn(dtype=bfloat8_b, layout=TILE, tile=(4, 16))"),
    (
        "memref<3x4x20xf32>",
        "metal(shape=(3, 4, 20), collapse=[(0, -1)], grid=(1, 2), tile=(2, 16), dtype=bfp_bf8, oob=one, memory=l1)",
    ),
    (
        "memref<4x32xf32>",
        "ttnn(dtype=bfloat8_b, layout=TILE, tile=(2, 16), memory=INTERLEAVED, banks=3, alignment=64)",
    ),
    ("memref<16x4xf32>", "memref<16x4xf32, strided<[1, 16]>>"),
    ("memref<3x33xf32>", "memref<3x33xmxfp8_e4m3>"),
    ("memref<5x7xf32>", "metal(shape=(5, 7), collapse=[], grid=(2, 2), dtype=f32, oob=one, memory=l1)"),
];

#[test]
fn no_change_of_a_plan_of_any_kind_is_accepted_that_gives_other_bytes() {
    let pages = "ttnn(dtype=float32, layout=ROW_MAJOR, memory=INTERLEAVED, banks=2, alignment=32)";
    for (rows, other) in KINDS {
        let tensor = rows.parse::<Descriptor>().unwrap().tensor().unwrap();
        let layout = |text: &str| text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default());
        let tiles = "ttnn(dtype=bfloat4_b, layout=TILE, tile=(1, 16))";
        for (from, to) in [(rows, other), (other, rows), (pages, other), (tiles, other), (other, tiles)] {
            let (from, to) = (layout(from).unwrap(), layout(to).unwrap());
            let options = Options::default().with_saturate(true);
            let plan = Plan::compile(&from, &to, &options).unwrap();
            let counts = Cell::new([0, 0]);
            if let Err(error) = change_all(&plan, &from, &to, &counts) {
                panic!("{error}");
            }
            let [changes, refused] = counts.get();
            assert!(refused > 50 && refused < changes, "{counts:?} of {plan}");
        }
    }
}
