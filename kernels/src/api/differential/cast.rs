//! Casts of whole numbers.

use super::{Kernels, as_written, one_of, ways};
use crate::{Cast, Destination, Hints, Integer, Number, OuterLoop, Window};

/// Every pair of formats over the edges of all ranges, through the windows that take a path of their own.
pub(crate) fn sweep(tested: &'static Kernels, rule: &'static Kernels) {
    let edges = Integer::ALL.map(Integer::range).into_iter().flat_map(|(least, greatest)| [least, greatest]);
    let values: Vec<i128> = edges.flat_map(|edge| [edge - 1, edge, edge + 1]).chain(-2..70).collect();
    let pairs = Integer::ALL.into_iter().flat_map(|from| Integer::ALL.map(|to| Cast::Integer(from, to)));
    let numbers = Number::ALL;
    let floats = Integer::ALL.into_iter().flat_map(|from| numbers.map(|to| Cast::Value(from, to)));
    let casts = pairs.chain(floats).chain(numbers.map(Cast::Truth));
    for (turn, cast) in one_of(29, 0, casts).enumerate() {
        let (from, to) = (cast.source_size(), cast.size());
        let src: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes().into_iter().take(from)).collect();
        let (f, t) = (from as isize, to as isize);
        let windows = [
            (1, values.len(), 0, f, 0, t),
            (4, 9, 9 * f, f, 9 * t + 1, t),
            (9, 4, f, 9 * f, t, 9 * t),
            (4, 5, -7 * f, 2 * f, 5 * t, t),
        ];
        for (rows, cols, src_row, src_col, dst_row, dst_col) in one_of(4, turn, windows) {
            let w = Window { rows, cols, src_row, src_col, dst_row, dst_col };
            let src_at = if src_row < 0 { 30 * from } else { 0 };
            let run = |kernels: &Kernels| {
                let mut dst = vec![0xEE; values.len() * to + 8];
                let fits = kernels.cast(cast, &src, src_at, as_written(&mut dst), 3, &w);
                (fits, dst)
            };
            assert_eq!(run(tested), run(rule), "{} {cast:?} over {w:?}", tested.isa().name());
        }
        // The same in loops around a window.
        let w = Window { rows: 2, cols: 3, src_row: 5 * f, src_col: f, dst_row: 3 * t, dst_col: t };
        let outer = [OuterLoop { n: 2, src: 20 * f, dst: 18 * t }, OuterLoop { n: 3, src: -f, dst: 6 * t }];
        let run = |kernels: &Kernels| {
            let mut dst = vec![0xEE; 36 * to + 8];
            let fits = kernels.cast_loops(
                cast,
                &src,
                2 * from,
                &mut Destination::cached(as_written(&mut dst)),
                3,
                &w,
                &outer,
                Hints { prefetch_distance: 64, ..Hints::default() },
            );
            (fits, dst)
        };
        assert_eq!(run(tested), run(rule), "{} {cast:?} in loops", tested.isa().name());
        // Rows of whole lines, and rows of faces that follow one another, which may be stored past the caches.
        let src: Vec<u8> = src.iter().copied().cycle().take(256 * from).collect();
        for (rows, cols) in [(2, 128), (16, 16)] {
            let (src_row, dst_row) = (cols as isize * f, cols as isize * t);
            let w = Window { rows, cols, src_row, src_col: f, dst_row, dst_col: t };
            let run = |kernels: &'static Kernels| {
                let src = &src;
                ways(kernels, 256 * to, 0, move |dst| {
                    kernels.cast_loops(cast, src, 0, dst, 0, &w, &[], Hints::default());
                })
            };
            let want = run(rule).next().unwrap();
            assert!(run(tested).all(|got| got == want), "{} {cast:?} over {w:?}", tested.isa().name());
        }
    }
}
