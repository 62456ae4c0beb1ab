//! The verifier, by mutation: a scheduled plan of which one field is changed is refused, or gives the same bytes.

use proptest::prelude::*;

use super::conversion::Conversion;
use super::ir::{Gather, Leaf, Loop, Schedule, ScheduledNest};
use super::{Plan, Store, lower, schedule, verify};
use crate::families::{Choices, FAMILIES, dense, memref};
use crate::family::Tensor;
use crate::run::interpret;
use crate::{DType, Layout, Options};

/// By how much numbers change: by one, by a few, by a block or a cache line, and to the ends of what there is.
fn changed(c: &mut Choices, value: i64, block: i64) -> i64 {
    match c.below(12) {
        10 => c.of(&[0, 1, -1, i64::MAX, i64::MIN]),
        11 => -value,
        _ => value.wrapping_add(c.of(&[1, -1, 2, -2, 7, block, -block, 64, -64, 4 * block])),
    }
}

fn change_count(c: &mut Choices, n: &mut u64) {
    *n = changed(c, *n as i64, 16) as u64;
}

fn change_address<const K: usize>(c: &mut Choices, at: &mut [i64; K], blocks: [i64; 2]) {
    let k = c.below(K);
    at[k] = changed(c, at[k], blocks[usize::from(k >= 3)]);
}

fn change_loops(c: &mut Choices, loops: &mut Vec<Loop>, blocks: [i64; 2]) {
    let Some(i) = c.below(64).checked_rem(loops.len()) else { return };
    match c.below(8) {
        0 => drop(loops.remove(i)),
        1 => loops.insert(i, loops[i]),
        2 => loops.swap(i, 0),
        3 | 4 => change_count(c, &mut loops[i].n),
        _ => change_address(c, &mut loops[i].step, blocks),
    }
}

fn change_part(c: &mut Choices, parts: &mut Vec<Gather>, blocks: [i64; 2]) {
    let Some(i) = c.below(64).checked_rem(parts.len()) else { return };
    match c.below(8) {
        0 => drop(parts.remove(i)),
        1 => parts.push(parts[i].clone()),
        2 => parts[i].slot = changed(c, parts[i].slot, 16),
        3 => change_address(c, &mut parts[i].src, blocks),
        4 => {
            if let Some(k) = c.below(64).checked_rem(parts[i].moves.len()) {
                change_address(c, &mut parts[i].moves[k], blocks);
            }
        }
        5 => drop(parts[i].moves.pop()),
        _ => change_loops(c, &mut parts[i].loops, blocks),
    }
}

fn change_leaf(c: &mut Choices, leaf: &mut Leaf, blocks: [i64; 2]) {
    match (c.below(6), leaf) {
        (0, leaf) => *leaf = Leaf::Fill,
        (1, leaf) => *leaf = Leaf::Element,
        (2, leaf) => *leaf = Leaf::Pack(vec![]),
        (_, Leaf::Pack(parts)) => change_part(c, parts, blocks),
        (_, leaf) => *leaf = if *leaf == Leaf::Fill { Leaf::Element } else { Leaf::Fill },
    }
}

fn change_schedule(c: &mut Choices, schedule: &mut Schedule, loops: usize) {
    let which = |c: &mut Choices| c.of(&[None, Some(0), Some(1), Some(2), Some(loops)]);
    let i = c.below(64);
    match c.below(16) {
        0 => schedule.assembled = !schedule.assembled,
        1 => schedule.rows = which(c),
        2 => schedule.cols = which(c),
        3 => schedule.tiles = which(c),
        4 | 5 => {
            let order = if c.yes() { &mut schedule.order } else { &mut schedule.within };
            if let Some(i) = i.checked_rem(order.len()) {
                match c.below(4) {
                    0 => drop(order.remove(i)),
                    1 => order.push(order[i]),
                    2 => order.swap(i, 0),
                    _ => order[i] = c.below(loops + 1),
                }
            }
        }
        6..=8 => {
            if let Some(i) = i.checked_rem(schedule.blocks.len()) {
                change_count(c, &mut schedule.blocks[i]);
            }
        }
        9 => drop(schedule.blocks.pop()),
        10 => {
            if let Some(i) = i.checked_rem(schedule.packed.len()) {
                schedule.packed[i] = changed(c, schedule.packed[i], 64);
            }
        }
        11 => schedule.segment = c.below(loops + 2),
        12 => change_count(c, &mut schedule.overlap),
        14 => schedule.compacted = !schedule.compacted,
        13 => schedule.prefetch_distance = changed(c, schedule.prefetch_distance, 4096),
        _ => {
            if let Some(tile) = &mut schedule.in_place {
                let by = c.of(&[1_isize, -1, 2, 16, -16, 64]);
                match c.below(5) {
                    0 => tile.rows = tile.rows.wrapping_add_signed(by),
                    1 => tile.cols = tile.cols.wrapping_add_signed(by),
                    2 => tile.src_row += by,
                    3 => tile.src_col += by,
                    _ => schedule.in_place = None,
                }
            }
        }
    }
}

/// Changes one field of one nest, or one nest.
fn change(c: &mut Choices, nests: &mut Vec<ScheduledNest>, blocks: [i64; 2]) {
    let Some(which) = c.below(1 << 20).checked_rem(nests.len()) else { return };
    let nest = &mut nests[which];
    match c.below(16) {
        0 => drop(nests.remove(which)),
        1 => nests.push(nests[which].clone()),
        2..=4 => change_address(c, &mut nest.at, blocks),
        5..=7 => change_loops(c, &mut nest.loops, blocks),
        8..=10 => change_leaf(c, &mut nest.leaf, blocks),
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

/// Changes a plan `count` times; how many changes were refused.
fn mutate(
    c: &mut Choices,
    from: &Layout,
    to: &Layout,
    store: Store,
    count: usize,
) -> Result<usize, TestCaseError> {
    let plan = Plan::compile(from, to, &Options::default().with_store(store).with_saturate(true)).unwrap();
    let Plan { src, dst, op, streams, tuning, .. } = &plan;
    let conversion = Conversion { src, dst, op: *op, streams: *streams, tuning };
    let scheduled = schedule::schedule(lower::lower(from, to, to.padding().unwrap()).unwrap(), conversion);
    let source = bytes(plan.source_bytes());
    let expect = interpret(&plan, &source).unwrap().bytes;
    let blocks = [src.block_bytes as i64, dst.block_bytes as i64];
    let mut refused = 0;
    for _ in 0..count {
        let mut nests = scheduled.clone();
        change(c, &mut nests, blocks);
        let same = nests == scheduled;
        match verify::verify(nests, conversion, from, to) {
            Ok(nests) => run_all(&Plan { nests, ..plan.clone() }, &source, &expect)?,
            Err(_) => {
                prop_assert!(!same, "the plan as it is was refused");
                refused += 1;
            }
        }
    }
    Ok(refused)
}

/// `n` random plans; `TILEWRIGHT_CASES` multiplies them.
fn cases(n: u32) -> ProptestConfig {
    let factor = std::env::var("TILEWRIGHT_CASES").ok().and_then(|v| v.parse::<u32>().ok()).unwrap_or(1);
    let cases = n.saturating_mul(factor);
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn a_changed_plan_is_refused_or_gives_the_same_bytes(
        numbers in prop::collection::vec(any::<u32>(), 48),
        other in prop::collection::vec(any::<u32>(), 48),
        mutations in prop::collection::vec(any::<u32>(), 400),
        families in (0..FAMILIES.len(), 0..FAMILIES.len()),
        streamed in any::<bool>(),
    ) {
        let (mut c, mut d) = (Choices::new(&numbers), Choices::new(&other));
        let tensor = Tensor { dtype: c.of(&[DType::F32, DType::Bf16, DType::U8, DType::I32]), shape: c.shape(1500) };
        let lay = |c: &mut Choices, family: usize| {
            let layout = (FAMILIES[family].1)(c, &tensor).and_then(|case| case.layout(&tensor).ok());
            layout.filter(|l| l.total_bytes() <= 60_000)
        };
        let from = match d.below(3) {
            0 => Some(dense(&tensor)),
            1 => memref(&mut d, &tensor).unwrap().layout(&tensor).ok(),
            _ => lay(&mut d, families.1),
        };
        let (Some(from), Some(to)) = (from, lay(&mut c, families.0)) else { return Ok(()) };
        let store = if streamed { Store::Streamed } else { Store::Cached };
        mutate(&mut Choices::new(&mutations), &from, &to, store, 24)?;
    }
}
