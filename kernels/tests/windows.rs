//! Every table against an oracle that works out each byte's place by itself, and against windows that lie.

use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use tilewright_kernels::{Destination, Hints, Isa, Kernels, OuterLoop, Window};

fn tables() -> impl Iterator<Item = &'static Kernels> {
    Isa::available().filter_map(Kernels::for_isa)
}

/// `len` bytes of a sequence without short periods.
fn bytes(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect()
}

fn uninit(bytes: &[u8]) -> Vec<MaybeUninit<u8>> {
    bytes.iter().map(|&byte| MaybeUninit::new(byte)).collect()
}

fn init(bytes: Vec<MaybeUninit<u8>>) -> Vec<u8> {
    // SAFETY: every destination here starts as `uninit` of something.
    bytes.into_iter().map(|byte| unsafe { byte.assume_init() }).collect()
}

/// The byte moves of a window as (from, to), or `None` where one is outside.
fn moves(elem: usize, w: &Window, src: (usize, usize), dst: (usize, usize)) -> Option<Vec<(usize, usize)>> {
    let mut all = Vec::new();
    for r in 0..w.rows as i128 {
        for c in 0..w.cols as i128 {
            for byte in 0..elem as i128 {
                let from = src.1 as i128 + r * w.src_row as i128 + c * w.src_col as i128 + byte;
                let to = dst.1 as i128 + r * w.dst_row as i128 + c * w.dst_col as i128 + byte;
                if !(0..src.0 as i128).contains(&from) || !(0..dst.0 as i128).contains(&to) {
                    return None;
                }
                all.push((from as usize, to as usize));
            }
        }
    }
    Some(all)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 4000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A window either moves exactly the bytes the oracle names, or is refused before a byte is written.
    #[test]
    fn copy_is_what_the_window_says(
        elem in 0_usize..10, rows in 0_usize..20, cols in 0_usize..20,
        src in (0_usize..4000, 0_usize..400), dst in (0_usize..4000, 0_usize..400),
        src_row in -40_isize..90, src_col in -20_isize..40,
        // A dense destination, straight or transposed, with gaps now and then.
        across in any::<bool>(), gaps in (0_isize..3, 0_isize..3),
    ) {
        let (e, r, c) = (elem as isize, rows as isize, cols as isize);
        let (dst_row, dst_col) = if across {
            (e + gaps.0, r * (e + gaps.0) + gaps.1)
        } else {
            (c * (e + gaps.0) + gaps.1, e + gaps.0)
        };
        let w = Window { rows, cols, src_row, src_col, dst_row, dst_col };
        let from = bytes(src.0);
        let expected = moves(elem, &w, src, dst).map(|moves| {
            let mut expected = vec![0xEE; dst.0];
            moves.into_iter().for_each(|(f, t)| expected[t] = from[f]);
            expected
        });
        for kernels in tables() {
            let mut to = uninit(&vec![0xEE; dst.0]);
            let ran = catch_unwind(AssertUnwindSafe(|| kernels.copy(elem, &from, src.1, &mut to, dst.1, &w)));
            prop_assert_eq!(ran.is_ok(), expected.is_some());
            prop_assert_eq!(init(to), expected.clone().unwrap_or(vec![0xEE; dst.0]), "{}", kernels.isa().name());
        }
    }

    #[test]
    fn fill_repeats_from_the_start_of_each_run(
        pattern in prop::collection::vec(any::<u8>(), 1..40), rows in 0_usize..6, len in 0_usize..300,
        gap in 0_usize..50, at in 0_usize..50, short in 0_usize..3,
    ) {
        let apart = len + gap;
        let end = if rows == 0 || len == 0 { 0 } else { at + (rows - 1) * apart + len };
        let size = end.saturating_sub(short);
        let fits = size == end;
        let mut expected = vec![0xEE; size];
        if fits && end > 0 {
            for r in 0..rows {
                for i in 0..len {
                    expected[at + r * apart + i] = pattern[i % pattern.len()];
                }
            }
        }
        for kernels in tables() {
            let mut to = uninit(&vec![0xEE; size]);
            let ran =
                catch_unwind(AssertUnwindSafe(|| kernels.fill(&pattern, &mut to, at, rows, apart as isize, len)));
            prop_assert_eq!(ran.is_ok(), fits);
            prop_assert_eq!(init(to), expected.clone(), "{}", kernels.isa().name());
        }
    }
}

/// Transposes, and views whose columns have strides, of sources that lie forward or backward along either loop.
#[test]
#[cfg_attr(miri, ignore = "tens of thousands of windows")]
fn elements_in_any_direction_are_where_the_oracle_says() {
    let from = bytes(40_000);
    for (elem, rows, cols) in [1, 2, 4, 8]
        .into_iter()
        .flat_map(|e| [1, 2, 15, 16, 17, 33].map(|r| [1, 8, 16, 20, 35].map(|c| (e, r, c))))
        .flatten()
    {
        let e = elem as isize;
        let steps = [e, -e, 2 * e, -2 * e, 0];
        for (near, far) in steps.into_iter().flat_map(|near| [e * 40, -e * 40, 320].map(|far| (near, far))) {
            for (src_row, src_col) in [(near, far), (far, near)] {
                for (dst_row, dst_col) in [(e, e * rows as isize), (e * cols as isize, e)] {
                    let w = Window { rows, cols, src_row, src_col, dst_row, dst_col };
                    let size = rows * cols * elem;
                    let mut expected = vec![0xEE; size];
                    let moves = moves(elem, &w, (from.len(), 20_000), (size, 0)).expect("room on both sides");
                    moves.into_iter().for_each(|(f, t)| expected[t] = from[f]);
                    for kernels in tables() {
                        let mut to = uninit(&vec![0xEE; size]);
                        kernels.copy(elem, &from, 20_000, &mut to, 0, &w);
                        assert!(init(to) == expected, "{}: {elem} bytes, {w:?}", kernels.isa().name());
                    }
                }
            }
        }
    }
}

/// Of the last pair of elements the source may have no second one.
#[test]
fn every_second_element_may_be_the_last_of_the_source() {
    for (elem, cols) in [1, 2, 4, 8].into_iter().flat_map(|e| [8, 9, 16, 33, 100].map(|c| (e, c))) {
        let from = bytes((2 * cols - 1) * elem);
        let expected: Vec<u8> = from.chunks(elem).step_by(2).flatten().copied().collect();
        let e = elem as isize;
        let w = Window { rows: 1, cols, src_row: 0, src_col: 2 * e, dst_row: 0, dst_col: e };
        for kernels in tables() {
            let mut to = uninit(&vec![0xEE; cols * elem]);
            kernels.copy(elem, &from, 0, &mut to, 0, &w);
            assert!(init(to) == expected, "{}: {cols} elements of {elem} bytes", kernels.isa().name());
        }
    }
}

/// Numbers at the ends of their types are refused, not wrapped, and take no time.
#[test]
fn hostile_windows_are_refused() {
    let dense = Window { rows: 4, cols: 4, src_row: 4, src_col: 1, dst_row: 4, dst_col: 1 };
    let counts = [usize::MAX, usize::MAX / 2 + 1, isize::MAX as usize, 1 << 62, 1 << 32];
    let strides = [isize::MIN, isize::MIN + 1, isize::MAX, -1 << 62, 1 << 33];
    let mut hostile = vec![(usize::MAX, dense, 0), (1, dense, usize::MAX), (1, dense, isize::MAX as usize)];
    for count in counts {
        for stride in [0, 1, -1, isize::MIN, isize::MAX] {
            for (src, dst) in [(stride, 1), (1, stride), (stride, stride), (0, 0)] {
                hostile.push((1, Window { rows: count, src_row: src, dst_row: dst, ..dense }, 0));
                hostile.push((1, Window { cols: count, src_col: src, dst_col: dst, ..dense }, 0));
                hostile.push((
                    count,
                    Window { rows: count, cols: count, src_row: src, dst_col: dst, ..dense },
                    0,
                ));
            }
        }
    }
    for stride in strides {
        hostile.push((1, Window { src_row: stride, ..dense }, 0));
        hostile.push((1, Window { dst_col: stride, ..dense }, 0));
        hostile.push((1, Window { src_row: stride, src_col: stride, ..dense }, 0));
    }
    for kernels in tables() {
        for (elem, w, at) in &hostile {
            for (src_at, dst_at) in [(*at, 0), (0, *at), (*at, *at)] {
                if (src_at, dst_at) == (0, 0) && *at != 0 {
                    continue;
                }
                let mut to = uninit(&[0xEE; 64]);
                let ran = catch_unwind(AssertUnwindSafe(|| {
                    kernels.copy(*elem, &bytes(64), src_at, &mut to, dst_at, w);
                }));
                assert!(ran.is_err(), "{elem} {w:?} at {src_at}, {dst_at}");
                assert!(init(to).iter().all(|&byte| byte == 0xEE));
            }
        }
        for (rows, dst_row, len) in
            [(usize::MAX, 0, 1), (1, 0, usize::MAX), (2, isize::MIN, 1), (2, isize::MAX, 1)]
        {
            let mut to = uninit(&[0xEE; 64]);
            let ran = catch_unwind(AssertUnwindSafe(|| kernels.fill(&[1], &mut to, 0, rows, dst_row, len)));
            assert!(ran.is_err(), "{rows} runs of {len}, {dst_row} apart");
        }
    }
}

/// Nothing to move is nothing to check: such windows may name any place.
#[test]
fn empty_windows_do_nothing() {
    let w = Window { rows: 0, cols: usize::MAX, src_row: isize::MIN, src_col: 7, dst_row: -1, dst_col: 0 };
    for kernels in tables() {
        kernels.copy(3, &[], usize::MAX, &mut [], usize::MAX, &w);
        kernels.copy(3, &[], usize::MAX, &mut [], usize::MAX, &Window { rows: usize::MAX, cols: 0, ..w });
        kernels.copy(0, &[], 9, &mut [], 9, &Window { rows: usize::MAX, ..w });
        kernels.fill(&[1], &mut [], 9, usize::MAX, 1, 0);
        kernels.fill(&[1], &mut [], 9, 0, 1, usize::MAX);
        kernels.stream(&[], &mut Destination::cached(&mut []), 0);
    }
}

/// The refusal names what was asked and what there is.
#[test]
#[should_panic(expected = "leave a source of 15 bytes")]
fn a_refusal_carries_its_numbers() {
    let w = Window { rows: 4, cols: 4, src_row: 4, src_col: 1, dst_row: 4, dst_col: 1 };
    Kernels::for_isa(Isa::Scalar).unwrap().copy(1, &[0; 15], 0, &mut [MaybeUninit::new(0); 16], 0, &w);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 2000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Loops around a window are the same calls one by one; or, where one of those is refused, refused themselves.
    #[test]
    fn loops_around_a_window_are_calls_one_by_one(
        elem in 1_usize..5, rows in 1_usize..4, cols in 1_usize..20,
        loops in prop::collection::vec((0_usize..4, -40_isize..60, 0_isize..3), 0..4),
        src_at in 0_usize..200, dst_at in 0_usize..60, len in 0_usize..9000,
    ) {
        let w = Window {
            rows,
            cols,
            src_row: 70,
            src_col: elem as isize,
            dst_row: (cols * elem) as isize,
            dst_col: elem as isize,
        };
        let mut step = (rows * cols * elem) as isize;
        let mut outer = Vec::new();
        for &(n, src, gap) in loops.iter().rev() {
            outer.insert(0, OuterLoop { n, src, dst: step + gap });
            step = (step + gap) * n as isize;
        }
        let source = bytes(600);
        let count: usize = outer.iter().map(|l| l.n).product();
        for kernels in tables() {
            let mut expect = uninit(&bytes(len));
            let one_by_one = catch_unwind(AssertUnwindSafe(|| {
                for k in 0..count {
                    let (mut k, mut from, mut to) = (k, src_at as isize, dst_at as isize);
                    for l in outer.iter().rev() {
                        from += l.src * (k % l.n) as isize;
                        to += l.dst * (k % l.n) as isize;
                        k /= l.n;
                    }
                    let (from, to) = (usize::try_from(from).unwrap(), usize::try_from(to).unwrap());
                    kernels.copy(elem, &source, from, &mut expect, to, &w);
                }
            }));
            let mut out = uninit(&bytes(len));
            let at_once = catch_unwind(AssertUnwindSafe(|| {
                let out = &mut Destination::cached(&mut out);
                kernels.copy_loops(elem, &source, src_at, out, dst_at, &w, &outer, Hints::default());
            }));
            if count == 0 {
                prop_assert!(at_once.is_ok());
            } else {
                prop_assert_eq!(one_by_one.is_ok(), at_once.is_ok());
            }
            if at_once.is_ok() {
                prop_assert_eq!(init(out), init(expect));
            } else {
                prop_assert_eq!(init(out), bytes(len), "refused, but something was written");
            }
        }
    }
}
