//! The algebra against plain loops.

use proptest::prelude::*;

use super::zip::zip_within;
use super::*;
use crate::error::Error;

fn values<const K: usize>(at: Step<K>, s: &Piecewise<K>) -> Vec<Step<K>> {
    (0..s.len()).map(|u| add(at, s.eval(u))).collect()
}

/// A map split by nested, not necessarily dividing, widths.
fn split(len: u64, widths: &[u64]) -> (Piecewise<1>, Vec<i64>) {
    let oracle: Vec<i64> = (0..len)
        .map(|u| {
            let (mut rest, mut at) = (u, 0);
            for (k, w) in widths.iter().enumerate() {
                at += (rest / w) as i64 * 1000_i64.pow((widths.len() - k) as u32);
                rest %= w;
            }
            at + rest as i64
        })
        .collect();
    (Piecewise::through(oracle.iter().map(|&a| [a])).unwrap().1, oracle)
}

#[test]
fn through_keeps_every_address() {
    for len in [1, 2, 5, 17, 64, 100, 288] {
        for widths in [&[32, 16][..], &[18], &[7, 3], &[64, 10, 4]] {
            let (map, oracle) = split(len, widths);
            let seen: Vec<i64> = values([0], &map).iter().map(|v| v[0]).collect();
            assert_eq!(seen, oracle, "{len} {widths:?} {map:?}");
            for lo in 0..len {
                for hi in lo + 1..=len {
                    let (at, part) = map.slice(lo, hi);
                    let seen: Vec<i64> = values(at, &part).iter().map(|v| v[0]).collect();
                    assert_eq!(seen, oracle[lo as usize..hi as usize]);
                }
            }
        }
    }
}

#[test]
fn zip_is_both_sides() {
    for len in [1, 6, 31, 64, 100, 288, 290] {
        for a in [&[32, 16][..], &[18], &[7, 3], &[]] {
            for b in [&[64][..], &[12, 4], &[5], &[]] {
                let ((x, left), (y, right)) = (split(len, a), split(len, b));
                let (at, both) = zip::<1, 1, 2>(&x, &y).unwrap();
                let expect: Vec<[i64; 2]> = left.iter().zip(&right).map(|(&l, &r)| [l, r]).collect();
                assert_eq!(values(at, &both), expect, "{len} {a:?} {b:?}");
            }
        }
    }
}

#[test]
fn compose_is_one_after_the_other() {
    let (outer, oracle) = split(400, &[96, 32, 16]);
    let inners = [
        vec![(100, [1])],
        vec![(3, [40]), (33, [1])],
        vec![(3, [128]), (2, [64]), (50, [1])],
        vec![(7, [5]), (5, [1])],
        vec![(13, [32])],
        vec![(11, [-32])],
        vec![(10, [-1])],
        vec![(9, [40]), (8, [1])],
        vec![(4, [2]), (2, [9]), (2, [1])],
    ];
    for loops in inners {
        let inner = Piecewise::nest(&loops);
        for at in [0, 1, 350] {
            let (lo, hi) = span(&inner, at);
            if lo < 0 || hi >= 400 {
                continue;
            }
            let (start, map) = compose(&inner, at, &outer).unwrap();
            let expect: Vec<[i64; 1]> =
                values([at], &inner).iter().map(|v| [oracle[v[0] as usize]]).collect();
            assert_eq!(values(start, &map), expect, "{loops:?} at {at}");
        }
    }
}

#[test]
fn steps_are_counted_up_to_the_cap() {
    let mut budget = Budget { spent: MAX_REGIONS - 1 };
    assert!(budget.spend().is_ok());
    assert!(matches!(budget.spend(), Err(Error::TooComplex { cap: MAX_REGIONS, .. })));
}

#[test]
fn maps_have_as_many_regions_as_the_cap() {
    let squares = |n: usize| (0..n as i64).map(|i| [i * i]);
    let part = |(i, at)| Part { begin: i as u64, at, map: Piecewise::ONE };
    let table = |n| Piecewise::<1>::Seq(squares(n).enumerate().map(part).collect());
    let pair = Piecewise::<1>::run(2, [1 << 40]);
    let (most, more) = (table(MAX_REGIONS), table(MAX_REGIONS + 1));
    assert_eq!(most.regions([0]).unwrap().len(), MAX_REGIONS);
    assert_eq!(pair.product(&most).unwrap().len(), 2 * MAX_REGIONS as u64);
    for error in [more.regions([0]).err(), pair.product(&more).err()] {
        assert!(matches!(error, Some(Error::TooComplex { cap: MAX_REGIONS, .. })), "{error:?}");
    }
    // Two addresses of any distance are a run.
    let through = |addresses: &mut dyn Iterator<Item = [i64; 1]>| Piecewise::through_within(16, addresses);
    assert!(through(&mut squares(32)).is_ok() && through(&mut squares(33)).is_err());
    // Where the cap is passed, some runs and then pairs of runs: five pairs are one part, and what is begun another two.
    let pairs = |runs: usize| {
        let pairs = (0..100).flat_map(|k| [0, 1, 5, 8].map(|at| [1_000_000 + 100 * k + at]));
        squares(2 * runs).chain(pairs)
    };
    assert!(through(&mut pairs(5)).is_ok() && through(&mut pairs(7)).is_err());
    let (at, map) = through(&mut pairs(5)).unwrap();
    assert_eq!(values(at, &map), pairs(5).collect::<Vec<_>>());
}

/// Runs of so many elements, two apart, each so far from the one before: how many are left.
fn folded(parts: &[(i64, u64)]) -> usize {
    let (mut builder, mut at, mut all) = (Builder::default(), 0, Vec::new());
    for &(by, len) in parts {
        at += by;
        builder.push([at], Piecewise::run(len, [2]));
        all.extend((0..len as i64).map(|k| [at + 2 * k]));
    }
    let (start, map) = builder.finish();
    assert_eq!(values(start, &map), all);
    map.runs()
}

#[test]
fn parts_that_go_on_are_one() {
    let put = |parts: [(i64, &Piecewise<1>); 2]| {
        Piecewise::sequence(parts.map(|(at, part)| ([at], part.clone()))).1
    };
    let (one, run) = (&Piecewise::ONE, Piecewise::<1>::run);
    let apart = |first: &Piecewise<1>, by: i64, second: &Piecewise<1>| {
        let part = |begin, at, map: &Piecewise<1>| Part { begin, at: [at], map: map.clone() };
        Piecewise::Seq(vec![part(0, 0, first), part(first.len(), by, second)])
    };
    assert_eq!(put([(3, one), (10, one)]), run(2, [7]));
    assert_eq!(put([(0, one), (7, &run(3, [7]))]), run(4, [7]));
    assert_eq!(put([(0, one), (7, &run(3, [5]))]), apart(one, 7, &run(3, [5])));
    let three = run(3, [2]);
    assert_eq!(put([(0, &three), (6, &run(4, [2]))]), run(7, [2]));
    assert_eq!(put([(0, &three), (6, one)]), run(4, [2]));
    assert_eq!(put([(0, &three), (6, &run(2, [5]))]), apart(&three, 6, &run(2, [5])));
    assert_eq!(put([(0, &three), (7, one)]), apart(&three, 7, one));
    assert_eq!(put([(0, &three), (7, &three)]), three.clone().repeat(2, [7]));
    // Loops, of which one goes on with the other, with one iteration more, or after one.
    let times = |n| three.clone().repeat(n, [50]);
    assert_eq!(put([(0, &times(2)), (100, &times(3))]), times(5));
    assert_eq!(put([(0, &times(2)), (100, &three)]), times(3));
    assert_eq!(put([(0, &three), (50, &times(2))]), times(3));
    let others = [run(4, [2]).repeat(3, [50]), three.clone().repeat(3, [40])];
    for (by, next) in [(101, &times(3)), (100, &others[0]), (100, &others[1]), (101, &three), (100, one)] {
        assert_eq!(put([(0, &times(2)), (by, next)]), apart(&times(2), by, next));
    }
    assert_eq!(put([(0, &three), (51, &times(2))]), apart(&three, 51, &times(2)));
    assert_eq!(put([(0, one), (50, &times(2))]), apart(one, 50, &times(2)));
}

#[test]
fn what_comes_again_is_a_loop() {
    for n in 2..6 {
        assert_eq!(folded(&[(60, 3), (40, 2)].repeat(n)), 2, "{n} times");
    }
    // The pattern begins at the second run, though the first one lies as if it began there.
    let behind = [vec![(0, 5)], [(60, 3), (40, 2)].repeat(4)].concat();
    assert_eq!(folded(&behind), 3);
    // What comes again twice in a pattern is none where the pattern is.
    let twice = [(90, 2), (20, 3), (30, 4), (40, 5)].repeat(2);
    assert_eq!(folded(&[twice, vec![(90, 9)]].concat().repeat(5)), 5);
    assert_eq!(folded(&[(60, 3), (40, 2), (60, 3)]), 3);
}

#[test]
fn loops_whose_steps_chain_are_one() {
    assert_eq!(
        Piecewise::<1>::nest(&[(4, [12]), (3, [4]), (2, [1])]),
        Piecewise::nest(&[(12, [4]), (2, [1])])
    );
    assert_eq!(Piecewise::<1>::nest(&[(4, [8]), (8, [1])]), Piecewise::run(32, [1]));
}

#[test]
fn a_long_composition_takes_few_steps() {
    // Outer loops and runs, then inner ones from a coordinate on: more iterations than an operation may take steps.
    type Loops<'a> = &'a [(u64, [i64; 1])];
    let cases: [(Loops<'_>, Loops<'_>, i64); 4] = [
        // Two iterations in each period, and one.
        (&[(1 << 40, [1000]), (32, [1])], &[(1 << 41, [16]), (2, [1])], 0),
        (&[(1 << 20, [5000]), (1 << 10, [1])], &[(1 << 20, [1 << 10]), (3, [1])], 0),
        // No common period: half of the iterations lie in one period of the outer loop.
        (&[(4, [1 << 30]), ((1 << 21) + 1, [1])], &[(1 << 21, [2])], 0),
        (&[(4, [1 << 30]), ((1 << 21) + 1, [1])], &[(1 << 21, [-2])], 1 << 22),
    ];
    for (outer, inner, at) in cases {
        let (outer, inner) = (Piecewise::<1>::nest(outer), Piecewise::nest(inner));
        let (start, map) = compose(&inner, at, &outer).unwrap();
        assert!(map.runs() < 10, "{map:?}");
        for u in (0..inner.len()).step_by(inner.len() as usize / 999) {
            assert_eq!(add(start, map.eval(u)), outer.eval((at + inner.eval(u)[0]) as u64), "{u}");
        }
    }
}

#[test]
fn a_long_axis_is_a_few_nodes() {
    // 128k rows on 8 cores, in tiles of two faces.
    let cells = Piecewise::<1>::nest(&[(8, [1 << 30]), (512, [1 << 20]), (2, [512]), (16, [16])]);
    let rows = Piecewise::run(131_072, [8192]);
    let (_, both) = zip::<1, 1, 2>(&rows, &cells).unwrap();
    assert_eq!(both.regions([0, 0]).unwrap().len(), 1);
    // The same, ragged: one piece more for each level that is cut.
    let (at, ragged) = cells.slice(0, 131_072 - 21);
    assert_eq!(at, [0]);
    assert!(ragged.regions([0]).unwrap().len() <= 4);
}

#[test]
fn beside_a_run_a_map_keeps_its_tree() {
    let (tree, run) = (split(290, &[64, 10, 4]).0, Piecewise::run(290, [7]));
    // It takes no step, so none needs to be left.
    let spent = || Budget { spent: MAX_REGIONS };
    let (at, left) = zip_within::<1, 1, 2>(&run, &tree, &mut spent()).unwrap();
    let (to, right) = zip_within::<1, 1, 2>(&tree, &run, &mut spent()).unwrap();
    assert_eq!((at, to), ([0; 2], [0; 2]));
    for u in 0..290 {
        let (here, there) = (7 * u as i64, tree.eval(u)[0]);
        assert_eq!((left.eval(u), right.eval(u)), ([here, there], [there, here]), "{u}");
    }
    assert!(zip_within::<1, 1, 2>(&tree, &tree, &mut spent()).is_err());
}

#[test]
fn what_shares_no_period_is_a_table() {
    // 10007 iterations of 65521 against 65519 of 10009: the periods share no divisor.
    let a = Piecewise::<1>::nest(&[(10_007, [1 << 20]), (65_521, [1])]).slice(0, 655_000_000).1;
    let b = Piecewise::<1>::nest(&[(65_519, [1 << 21]), (10_009, [1])]).slice(0, 655_000_000).1;
    let (at, both) = zip::<1, 1, 2>(&a, &b).unwrap();
    // A run ends where either side breaks; whole runs of one side inside of one of the other are a loop.
    let breaks = 654_999_999 / 65_521 + 654_999_999 / 10_009;
    let regions = both.regions(at).unwrap().len();
    assert!((9_997..=breaks + 1).contains(&regions), "{regions} of {breaks}");
    for u in (0..655_000_000).step_by(77_777) {
        assert_eq!(add(at, both.eval(u)), [a.eval(u)[0], b.eval(u)[0]], "{u}");
    }
}

#[test]
fn what_shares_no_period_hits_the_cap() {
    let side = |width: u64| {
        Piecewise::<1>::nest(&[(1 << 21, [1 << 32]), (width, [1])]).slice(0, 2_147_483_629 << 20).1
    };
    let both = zip::<1, 1, 2>(&side(2_147_483_629), &side(2_147_483_647));
    assert!(matches!(both, Err(Error::TooComplex { .. })));
}

#[test]
fn loops_out_of_phase_are_one_loop() {
    // A million tiles against the same tiles, begun half a tile later.
    let a = Piecewise::<1>::nest(&[(1_000_000, [100]), (32, [1])]);
    let (at, b) = Piecewise::<1>::nest(&[(1_000_001, [50]), (32, [1])]).slice(16, 32_000_016);
    assert_eq!(at, [16]);
    let (_, both) = zip::<1, 1, 2>(&a, &b).unwrap();
    assert!(both.regions([0, 0]).unwrap().len() <= 6, "{both:?}");
}

/// Loops with ragged ends: each level is repeated and cut off.
fn ragged() -> impl Strategy<Value = Piecewise<1>> {
    prop::collection::vec((1_u64..9, -50_i64..200, 0_u64..7), 1..5).prop_map(|levels| {
        levels.into_iter().fold(Piecewise::ONE, |body, (n, step, cut)| {
            let all = body.repeat(n, [step]);
            let end = all.len() - cut.min(all.len() - 1);
            all.slice(0, end).1
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn zip_of_any_two_is_both(a in ragged(), b in ragged(), skip in 0_u64..20) {
        let from = skip.min(a.len() - 1).min(b.len() - 1);
        let to = a.len().min(b.len());
        let ((x, a), (y, b)) = (a.slice(from, to), b.slice(from, to));
        let (at, both) = zip::<1, 1, 2>(&a, &b).unwrap();
        let expect: Vec<[i64; 2]> = values(x, &a).iter().zip(values(y, &b)).map(|(l, r)| [l[0], r[0]]).collect();
        prop_assert_eq!(values(add(at, [x[0], y[0]]), &both), expect);
    }

    #[test]
    fn compose_of_any_two_is_one_after_the_other(inner in ragged(), outer in ragged(), n in 1_u64..20) {
        let (lo, hi) = span(&inner, 0);
        let outer = outer.clone().repeat((hi - lo) as u64 / outer.len() + n, [31]);
        for at in [-lo, outer.len() as i64 - 1 - hi] {
            let (start, map) = compose(&inner, at, &outer).unwrap();
            let expect: Vec<[i64; 1]> = values([at], &inner).iter().map(|v| outer.eval(v[0] as u64)).collect();
            prop_assert_eq!(values(start, &map), expect);
        }
    }

    #[test]
    fn through_and_regions_keep_any_map(map in ragged(), at in -9_i64..9) {
        let all = values([at], &map);
        let (start, again) = Piecewise::through(all.iter().copied()).unwrap();
        prop_assert_eq!(values(start, &again), all.clone());
        let mut seen: Vec<i64> = vec![];
        for Region { at, loops } in map.regions([at]).unwrap() {
            seen.extend(values(at, &Piecewise::nest(&loops)).iter().map(|v| v[0]));
        }
        let mut all: Vec<i64> = all.iter().map(|v| v[0]).collect();
        seen.sort_unstable();
        all.sort_unstable();
        prop_assert_eq!(seen, all);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Large ragged periods: the steps that a zip takes are linear in the runs of what it gives, and its stack is small.
    #[test]
    fn zip_takes_a_step_for_each_run(
        periods in prop::collection::vec(2_u64..3_000, 4),
        len in 1_u64..300_000,
        skip in 0_u64..1_000_000,
    ) {
        let side = |inner: u64, outer: u64| {
            // Runs of `inner` in rows of `outer`, both ragged.
            let rows = Piecewise::<1>::nest(&[(outer.div_ceil(inner), [5000]), (inner, [1])]).slice(0, outer).1;
            let n = (len + skip).div_ceil(outer) + 1;
            rows.repeat(n, [1 << 40]).slice(skip, skip + len)
        };
        let ((_, a), (_, b)) = (side(periods[0], periods[1]), side(periods[2], periods[3]));
        let thread = std::thread::Builder::new().stack_size(256 << 10);
        let (steps, runs) = thread.spawn(move || {
            let mut budget = Budget::default();
            let (_, both) = zip_within::<1, 1, 2>(&a, &b, &mut budget).unwrap();
            (budget.spent, both.runs())
        }).unwrap().join().unwrap();
        prop_assert!(steps <= 16 * runs + 64, "{} steps for {} runs", steps, runs);
    }
}
