//! Conversions of floats.

use super::{Kernels, bytes, one_of, ways};
use crate::{Hints, Number, OuterLoop, Window};

/// Every pair; the windows that take a path of their own; every code of two bytes, and wider ones around all edges.
pub(crate) fn sweep(tested: &'static Kernels, rule: &'static Kernels) {
    let pairs = Number::ALL.into_iter().flat_map(|from| Number::ALL.map(|to| (from, to)));
    for (turn, (from, to)) in one_of(11, 1, pairs).enumerate() {
        let some = if cfg!(miri) { MOST } else { usize::MAX };
        let mut src = bytes(codes(from).take(some), from.size());
        if src.len() < MOST * from.size() {
            src = src.repeat(1 + MOST * from.size() / src.len());
        }
        let calls = calls(from, to, src.len() / from.size());
        let fits = |w: &Window| !cfg!(miri) || w.rows == 1 || 2 * w.rows * w.cols < MOST;
        let calls = calls.into_iter().filter(|(_, w, _)| fits(w));
        for (src_at, w, outer) in one_of(29, turn, calls) {
            same_loops(tested, rule, from, to, (&src, src_at), &w, &outer);
        }
    }
}

/// Elements of a source, at least; under Miri windows of more than half of them are left out, but for those of one row.
const MOST: usize = if cfg!(miri) { 600 } else { 4300 };

/// Where the source begins, a window, and the loops around it.
type Call = (usize, Window, Vec<OuterLoop>);

/// The windows that take a path of their own, over a source of `count` elements.
fn calls(from: Number, to: Number, count: usize) -> Vec<Call> {
    let (f, t) = (from.size() as isize, to.size() as isize);
    let window = |rows, cols, src_row, src_col, dst_row, dst_col| Window {
        rows,
        cols,
        src_row,
        src_col,
        dst_row,
        dst_col,
    };
    let mut windows = vec![window(1, count, 0, f, 0, t)];
    // Rows of faces go eight at a time, and what is left one by one.
    for (rows, cols) in
        (0..=9).chain([31, 33]).map(|cols| (5, cols)).chain([(11, 16), (16, 16), (3, 64), (3, 96)])
    {
        let (r, c) = (rows as isize, cols as isize);
        windows.extend([
            window(rows, cols, c * f, f, c * t, t),
            window(rows, cols, c * f + 3, f, c * t + 5, t),
            window(rows, cols, f, r * f, t, r * t),
            window(rows, cols, f, r * f, c * t, t),
            window(rows, cols, 0, f, c * t, t),
        ]);
    }
    // Short rows with gaps between them are brought together, in blocks and what is left of them; long ones are not.
    for (rows, cols) in [(100, 33), (9, 130)] {
        let c = cols as isize;
        windows.extend([
            window(rows, cols, c * f + 3, f, c * t, t),
            window(rows, cols, c * f, f, c * t + 5, t),
            window(rows, cols, c * f + 3, f, c * t + 5, t),
        ]);
    }
    let mut calls: Vec<Call> = windows.into_iter().map(|w| (0, w, vec![])).collect();
    // What goes by way of L1, in blocks and what is left of them.
    for (rows, cols) in [(40, 53), (53, 40), (3, 700), (700, 3), (17, 16)] {
        let (r, c) = (rows as isize, cols as isize);
        let windows = [
            window(rows, cols, f, r * f, c * t, t),
            window(rows, cols, f, r * f, c * t + 1, t),
            window(rows, cols, c * f, f, t, r * t + 2),
            window(rows, cols, 2 * c * f, 2 * f, c * t, t),
            window(rows, cols, c * f, f, 3 * c * t, 3 * t),
            window(rows, cols, 2 * f, 2 * r * f, 3 * c * t, 3 * t),
            window(rows, cols, f, 0, c * t, t),
        ];
        calls.extend(windows.map(|w| (0, w, vec![])));
        calls.push(((rows * cols - 1) * from.size(), window(rows, cols, -c * f, -f, c * t, t), vec![]));
    }
    let outer =
        vec![OuterLoop { n: 2, src: 20 * f, dst: 60 * t }, OuterLoop { n: 4, src: 5 * f, dst: 15 * t }];
    calls.push((0, window(3, 5, 40 * f, f, 5 * t, t), outer.clone()));
    calls.push((0, window(3, 5, f, 40 * f, 5 * t, t), outer));
    calls
}

/// Every code of a narrow format; of a wide one random codes and those around each exponent.
fn codes(number: Number) -> Box<dyn Iterator<Item = u64>> {
    match number.size() {
        1 => Box::new(0..1 << 8),
        2 => Box::new(one_of(211, 0, 0..1 << 16)),
        size => {
            let bits = 8 * size as u32;
            let fraction = if size == 4 { 23 } else { 52 };
            let random = one_of(97, 0, 0..20_000_u64)
                .map(move |i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) >> (64 - bits));
            // Halves, quarters and neighbours of every place at which a narrower format rounds.
            let exponents = one_of(61, 0, 0..1_u64 << (bits - 1 - fraction));
            let edges = exponents.flat_map(move |exponent| {
                (fraction.saturating_sub(44)..fraction).flat_map(move |place| {
                    [0, 1, 2, 3].into_iter().flat_map(move |top| {
                        [-1i64, 0, 1].map(move |gap| {
                            ((exponent << fraction) + (top << place)).wrapping_add_signed(gap)
                                & (!0 >> (64 - bits))
                        })
                    })
                })
            });
            let step = if size == 4 { 1 } else { 7 };
            Box::new(random.chain(edges.step_by(step).flat_map(move |code| [code, code | 1 << (bits - 1)])))
        }
    }
}

fn same_loops(
    tested: &'static Kernels,
    rule: &'static Kernels,
    from: Number,
    to: Number,
    (src, src_at): (&[u8], usize),
    w: &Window,
    outer: &[OuterLoop],
) {
    let loops = outer.iter().map(|a| (a.n, a.dst)).chain([(w.rows, w.dst_row), (w.cols, w.dst_col)]);
    let len = loops.map(|(n, step)| n.saturating_sub(1) * step as usize).sum::<usize>() + to.size();
    // By turns what lies ahead of each row, and a run.
    let run_fetched = if w.rows.is_multiple_of(2) { 0 } else { 300 };
    let hints = Hints { prefetch_distance: 7, run_fetched, ..Hints::default() };
    let run = |kernels: &'static Kernels| {
        ways(kernels, len + 6, 3, move |dst| {
            kernels.convert_loops(from, to, src, src_at, dst, 3, w, outer, hints);
        })
    };
    let want = run(rule).next().unwrap();
    if let Some(got) = run(tested).find(|got| *got != want) {
        let at = (0..got.len()).find(|&i| got[i] != want[i]).unwrap();
        let isa = tested.isa().name();
        panic!(
            "{isa} {} to {} over {w:?}, {outer:?}, byte {at}: {:02x} instead of {:02x}",
            from.name(),
            to.name(),
            got[at],
            want[at]
        );
    }
}
