//! Copies and transposes.

use super::{Kernels, as_written, one_of, sampled, ways};
use crate::{Ahead, Destination, Hints, OuterLoop, Window};

/// Bytes left around the window on all sides; none may change.
const MARGIN: usize = 24;

/// All shapes up to twice the largest transposed block and one more, in every arrangement that takes a path of
/// its own, at every element size that does.
pub(crate) fn sweep(tested: &Kernels, rule: &Kernels) {
    for elem in one_of(3, 1, [1_usize, 2, 3, 4, 5, 8, 16, 31]) {
        let side = if elem < 16 { 2 * 16 / elem.next_power_of_two() + 1 } else { 3 };
        for rows in sampled(0, side) {
            for cols in sampled(0, side) {
                for window in one_of(29, elem, arrangements(elem, rows, cols)) {
                    same(tested, rule, elem, &window);
                }
            }
        }
    }
    // Transposes go by squares of a cache line; these shapes have several, whole and ragged.
    for elem in one_of(3, 2, (0..4).map(|log| 1 << log)) {
        let sides = [64 / elem, 64 / elem + 1, 128 / elem + 3];
        let shapes = sides.into_iter().flat_map(|rows| sides.map(|cols| (rows, cols)));
        for (rows, cols) in one_of(9, elem, shapes) {
            for window in one_of(29, 1, arrangements(elem, rows, cols)) {
                same(tested, rule, elem, &window);
            }
        }
    }
    sweep_squares(tested, rule);
    sweep_views(tested, rule);
    for elem in sampled(1, 300) {
        for (rows, cols) in one_of(2, 1, [(1, 1), (3, 1), (1, 3), (2, 3)]) {
            for window in one_of(13, cols, arrangements(elem, rows, cols)) {
                same(tested, rule, elem, &window);
            }
        }
    }
}

/// Rows of every second element, and backward ones, of fewer and more elements than a vector has; what is prefetched may lie
/// outside of the source.
fn sweep_views(tested: &Kernels, rule: &Kernels) {
    for (turn, elem) in one_of(4, 1, [1_usize, 2, 4, 8]).enumerate() {
        let e = elem as isize;
        for cols in sampled(1, 70).chain(one_of(3, turn, [255, 257, 600])) {
            for src_col in one_of(2, turn, [2 * e, -e]) {
                let row = cols as isize * e;
                let w = Window { rows: 3, cols, src_row: 2 * row + 3, src_col, dst_row: row + 5, dst_col: e };
                // The last element of a row ends where the source does, or the first one begins there.
                let (src_at, src_len) = extent(elem, (3, w.src_row), (cols, src_col));
                let (_, dst_len) = extent(elem, (3, w.dst_row), (cols, e));
                let src: Vec<u8> =
                    (0..src_len as u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect();
                for prefetch_distance in [0, 64, -(1 << 20)] {
                    let run = |kernels: &Kernels| {
                        let (mut dst, hints) =
                            (vec![0xFF; dst_len + 1], Hints { prefetch_distance, ..Hints::default() });
                        let to = &mut Destination::cached(as_written(&mut dst));
                        kernels.copy_loops(elem, &src, src_at, to, 0, &w, &[], hints);
                        dst
                    };
                    let name = tested.isa().name();
                    assert!(run(tested) == run(rule), "{name} copy of {elem}-byte elements over {w:?}");
                }
            }
        }
    }
}

/// Transposes of two squares and more, whose lines of the source share sets of L1 or do not, to vectors of the destination that
/// are aligned or not.
fn sweep_squares(tested: &Kernels, rule: &Kernels) {
    for (turn, elem) in one_of(4, 3, [1_usize, 2, 4, 8]).enumerate() {
        let (rows, cols) = (64 / elem, 128 / elem + 3);
        let (e, pitch) = (elem as isize, (cols * elem).next_multiple_of(64) as isize);
        for step in one_of(4, turn, [2048, 320, -4096, 2048 + e]) {
            for (offset, dst_row) in one_of(4, turn, [(0, pitch), (e, pitch), (0, pitch + e), (0, -pitch)]) {
                let w = Window { rows, cols, src_row: e, src_col: step, dst_row, dst_col: e };
                let (src_at, src_len) = extent(elem, (rows, e), (cols, step));
                let (dst_at, dst_len) = extent(elem, (rows, dst_row), (cols, e));
                let src: Vec<u8> =
                    (0..src_len as u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect();
                let run = |kernels: &Kernels| {
                    let mut dst = vec![0xFF; dst_len + 128];
                    let at = dst.as_ptr().align_offset(64) + offset as usize;
                    kernels.copy(elem, &src, src_at, as_written(&mut dst), dst_at + at, &w);
                    dst[at..][..dst_len].to_vec()
                };
                assert!(
                    run(tested) == run(rule),
                    "{} transpose of {elem} over {w:?}, {offset} behind a line",
                    tested.isa().name()
                );
            }
        }
    }
}

/// Transposes with rows of the destination that begin anywhere in a line, of fewer and more lines than a strip has.
fn sweep_strips(tested: &'static Kernels, rule: &'static Kernels) {
    let sizes = [(3, 40), (4, 33), (16, 32), (17, 48), (37, 64), (2, 100), (40, 131), (150, 330)];
    for (turn, (rows, cols)) in one_of(8, 0, sizes).enumerate() {
        for elem in one_of(4, turn, [4, 8, 2, 1_usize]) {
            let (e, r, c) = (elem as isize, rows as isize, cols as isize);
            // So that its rows share sets of L1.
            let far = ((rows + 3) * elem).next_multiple_of(2048);
            let src: Vec<u8> = (0..((cols - 1) * far + (rows + 3) * elem) as u32)
                .map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8)
                .collect();
            let sources = [
                (0, e, r * e),
                ((3 * elem).min(12), e, (r + 3) * e),
                ((rows - 1) * elem, -e, (r + 3) * e),
                (0, e, far as isize),
            ];
            let pitches = [c * e, (c * e + 63) / 64 * 64, c * e + 4, -(c * e + 64)];
            for (src_at, src_row, src_col) in one_of(4, turn, sources) {
                let strips = [(64, 0), (0, 0), (128, 0), (1 << 20, 0)];
                let panels = [(256, 1024), (512, 64), (64, 128), (1 << 20, 1 << 20), (64, 16 << 10)];
                let by_pitch = pitches.into_iter().cycle().zip(strips.into_iter().chain(panels));
                for (pitch, (strip, panel)) in one_of(4, turn, by_pitch) {
                    let w = Window { rows, cols, src_row, src_col, dst_row: pitch, dst_col: e };
                    let (at, len) = extent(elem, (rows, pitch), (cols, e));
                    let run = |kernels: &'static Kernels| {
                        let (src, hints) = (
                            &src,
                            Hints {
                                prefetch_distance: 256,
                                strip,
                                strip_fetched: 256,
                                to_l2: false,
                                run_fetched: 0,
                                panel,
                                panels_fetched: panel / 512,
                                near_panel: 2 * panel,
                                near: false,
                            },
                        );
                        ways(kernels, len + 7, at + 3, move |dst| {
                            kernels.copy_loops(elem, src, src_at, dst, at + 3, &w, &[], hints);
                        })
                    };
                    let want = run(rule).next().unwrap();
                    assert!(
                        run(tested).all(|got| got == want),
                        "{} transpose of {elem} over {w:?} in strips of {strip}, by panels of {panel}",
                        tested.isa().name()
                    );
                }
            }
        }
    }
}

/// Transposes of what lies in L1: rows that are lines or several of them, halves or quarters of lines that follow one another (faces),
/// and others; while rows of another source are fetched, some of them outside of it.
fn sweep_near(tested: &'static Kernels, rule: &'static Kernels) {
    for (turn, elem) in one_of(4, 1, [1_usize, 2, 4, 8]).enumerate() {
        let line = 64 / elem;
        let shapes = [
            (16, 16),
            (32, 32),
            (16, line / 2),
            (16, line),
            (17, line),
            (35, 3 * line),
            (16, 2 * line),
            (15, line + 1),
        ];
        for (rows, cols) in one_of(8, turn, shapes) {
            let (e, row) = (elem as isize, (cols * elem) as isize);
            for (dst_row, gap) in one_of(4, turn, [(row, 0), (row + 64, 64), (-row, 0), (row + 4, 0)]) {
                // Columns far apart, near, and all the same one.
                for pitch in one_of(3, turn, [2048 + 64, (rows * elem) as isize, 0]) {
                    let w = Window { rows, cols, src_row: e, src_col: pitch, dst_row, dst_col: e };
                    let (at, len) = extent(elem, (rows, dst_row), (cols, e));
                    let apart = len.next_multiple_of(64) as isize + gap;
                    let (_, src_len) = extent(elem, (rows, e), (cols, pitch));
                    let src: Vec<u8> =
                        (0..src_len as u32 + 3).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect();
                    let run = |kernels: &'static Kernels| {
                        let (src, other) = (&src, [7; 300]);
                        let outer = [OuterLoop { n: 2, src: 3, dst: apart }];
                        let hints = Hints { near: true, strip: 128, ..Hints::default() };
                        ways(kernels, len + apart as usize, at, move |dst| {
                            let ahead = Ahead::of_rows(&other, 200, 70, 9, -50);
                            kernels.copy_fetching(elem, src, 0, dst, at, &w, &outer, hints, ahead);
                        })
                    };
                    let want = run(rule).next().unwrap();
                    assert!(
                        run(tested).all(|got| got == want),
                        "{} transpose of {elem} in L1 over {w:?}",
                        tested.isa().name()
                    );
                }
            }
        }
    }
}

/// Elements of whole units of non-temporal stores and others, at aligned and other places, in loops; some prefetch distances
/// lead outside of the source.
pub(crate) fn sweep_non_temporal(tested: &'static Kernels, rule: &'static Kernels) {
    sweep_strips(tested, rule);
    sweep_near(tested, rule);
    for elem in one_of(3, 0, [32, 2048, 4096, 48, 64, 96, 128, 100, 160]) {
        let places = [
            (0, 0, 0),
            (32, 64, 128),
            (0, 32, -999),
            (32, 0, 1 << 30),
            (8, 32, 64),
            (16, 0, 64),
            (48, 16, 0),
        ];
        for ((at, gap, distance), run_fetched) in
            one_of(7, elem / 16, places).zip([0, 1, 2000].into_iter().cycle())
        {
            let pitch = elem + gap;
            let w = Window {
                rows: 2,
                cols: 3,
                src_row: 3 * elem as isize,
                src_col: elem as isize,
                dst_row: pitch as isize,
                dst_col: 2 * pitch as isize,
            };
            let outer = [
                OuterLoop { n: 2, src: 6 * elem as isize, dst: 6 * pitch as isize },
                OuterLoop { n: 3, src: 0, dst: 12 * pitch as isize },
            ];
            let src: Vec<u8> =
                (0..12 * elem as u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect();
            let run = |kernels: &Kernels, before: u8| {
                let mut dst = vec![before; 36 * pitch + 128];
                let aligned = dst.as_ptr().align_offset(64);
                kernels.non_temporal(as_written(&mut dst), |dst| {
                    let to_l2 = before == 0;
                    let hints = Hints { prefetch_distance: distance, to_l2, run_fetched, ..Hints::default() };
                    kernels.copy_loops(elem, &src, 0, dst, aligned + at, &w, &outer, hints);
                });
                dst[aligned..][..36 * pitch + 64].to_vec()
            };
            for before in [0x00, 0xFF] {
                assert!(
                    run(tested, before) == run(rule, before),
                    "{} non-temporal copy of {elem}",
                    tested.isa().name()
                );
            }
        }
    }
}

fn arrangements(elem: usize, rows: usize, cols: usize) -> Vec<Window> {
    let (e, r, c) = (elem as isize, rows as isize, cols as isize);
    let window =
        |src_row, src_col, dst_row, dst_col| Window { rows, cols, src_row, src_col, dst_row, dst_col };
    let dense = (c * e, e);
    let mut all = Vec::new();
    // Dense, transposed, with gaps after rows, with gaps everywhere, reversed, broadcast.
    for src in [
        dense,
        (e, r * e),
        (c * e + 5, e),
        (e, r * e + 7),
        ((e + 3) * c, e + 3),
        (-c * e, e),
        (c * e, -e),
        (-e, -r * e - 1),
        (0, e),
        (e, 0),
    ] {
        for dst in [dense, (e, r * e), (c * e + 9, e), (e, r * e + 1), ((e + 1) * c + 2, e + 1), (-c * e, e)]
        {
            all.push(window(src.0, src.1, dst.0, dst.1));
        }
    }
    all
}

/// The lowest offset the strides reach, negated, and the bytes from there to the end of the highest element.
fn extent(elem: usize, row: (usize, isize), col: (usize, isize)) -> (usize, usize) {
    let distance = |(count, stride): (usize, isize)| count.saturating_sub(1) as isize * stride;
    let below = -(distance(row).min(0) + distance(col).min(0)) as usize;
    let above = (distance(row).max(0) + distance(col).max(0)) as usize;
    (below, below + above + elem)
}

fn same(tested: &Kernels, rule: &Kernels, elem: usize, w: &Window) {
    let (src_at, src_len) = extent(elem, (w.rows, w.src_row), (w.cols, w.src_col));
    let (dst_at, dst_len) = extent(elem, (w.rows, w.dst_row), (w.cols, w.dst_col));
    // A byte ramp would repeat every 256 bytes; this sequence does not within any window here.
    let src: Vec<u8> = (0..src_len as u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect();
    let run = |kernels: &Kernels, before: u8| {
        let mut dst = vec![before; dst_len + 2 * MARGIN];
        kernels.copy(elem, &src, src_at, as_written(&mut dst), dst_at + MARGIN, w);
        dst
    };
    // Two fills before, so that a byte left out cannot hide behind an equal one.
    for before in [0x00, 0xFF] {
        let (got, want) = (run(tested, before), run(rule, before));
        assert!(got == want, "{} copy of {elem}-byte elements over {w:?}", tested.isa().name());
    }
}
