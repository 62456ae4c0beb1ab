//! Strided copies.

use std::mem::MaybeUninit;

use crate::mem::Moves;
use crate::stream::{Stores, Streams};
use crate::{Around, Caching, Kernels, Window, transpose};

impl Kernels {
    /// Copies the `w.rows * w.cols` elements of `elem` bytes that the window names, from offsets counted from byte
    /// `src_at` of `src` to offsets counted from byte `dst_at` of `dst`. No other byte of `dst` is touched.
    ///
    /// Any `elem` works; a window without elements, or with elements of 0 bytes, does nothing. Fast are elements
    /// that lie one after another on both sides (runs), transposes of elements of 1, 2, 4 and 8 bytes (the source
    /// contiguous along one index, the destination along the other), and elements of up to 256 bytes at any stride.
    ///
    /// # Panics
    /// When a byte of the window lies outside `src` or `dst`, or `dst` is too small to hold the elements side by
    /// side; found in constant time, before anything is written.
    #[inline]
    pub fn copy(
        &self,
        elem: usize,
        src: &[u8],
        src_at: usize,
        dst: &mut [MaybeUninit<u8>],
        dst_at: usize,
        w: &Window,
    ) {
        self.copy_around(elem, src, src_at, dst, dst_at, w, &[], Caching::default());
    }

    /// [`Kernels::copy`] in every turn of up to [`MAX_AROUND`](crate::MAX_AROUND) loops, outermost first: one call for many windows, each
    /// of which may be smaller than a call is worth. Elements of one row that lie one after another on both sides count as
    /// one for `caching`.
    ///
    /// # Panics
    /// As [`Kernels::copy`], in whichever turn.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub fn copy_around(
        &self,
        elem: usize,
        src: &[u8],
        src_at: usize,
        dst: &mut [MaybeUninit<u8>],
        dst_at: usize,
        w: &Window,
        around: &[Around],
        caching: Caching,
    ) {
        if let Some(on) = Moves::new(elem, src, src_at, dst, dst_at, w, around) {
            let on = on.merged().fetching(caching.ahead);
            match self.streams() {
                Some(by) if caching.past && on.whole_pieces() => self.table.stream(on, by),
                _ => self.table.copy(on),
            }
        }
    }
}

/// Transposes where there are some, and what is left element by element.
///
/// Sizes of whole registers move at once. Those between take two moves that overlap, which beats a call of
/// `memcpy` until about 256 bytes.
#[inline(always)]
pub(crate) fn body(on: Moves<'_>) {
    let Some(on) = transpose::attempt(on) else { return };
    match on.elem() {
        1 => on.each::<1>(),
        2 => on.each::<2>(),
        4 => on.each::<4>(),
        8 => on.each::<8>(),
        16 => on.each::<16>(),
        32 => on.each::<32>(),
        64 => on.each::<64>(),
        128 => on.each::<128>(),
        3 => on.each_in_two::<2>(),
        5..8 => on.each_in_two::<4>(),
        9..16 => on.each_in_two::<8>(),
        17..32 => on.each_in_two::<16>(),
        33..64 => on.each_in_two::<32>(),
        65..128 => on.each_in_two::<64>(),
        129..=256 => on.each_in_two::<128>(),
        _ => on.each_long(),
    }
}

/// [`body`] with stores past the caches, of elements that are whole pieces.
#[inline(always)]
pub(crate) fn streamed(on: Moves<'_>, by: Streams) {
    match by {
        Streams::Narrow(by) => pieces(on, by),
        Streams::Wide(by) => pieces(on, by),
    }
}

#[inline(always)]
fn pieces<const WIDE: bool>(on: Moves<'_>, by: Stores<WIDE>) {
    match on.elem() {
        32 => on.each_streamed::<32, WIDE>(by),
        64 => on.each_streamed::<64, WIDE>(by),
        128 => on.each_streamed::<128, WIDE>(by),
        _ => on.each_streamed::<0, WIDE>(by),
    }
}

#[cfg(test)]
pub(crate) mod sweep {
    use super::*;

    /// Bytes left around the window on all sides; none may change.
    const MARGIN: usize = 24;

    /// All shapes up to twice the largest transposed block and one more, in every arrangement that takes a path of
    /// its own, at every element size that does.
    pub(crate) fn sweep(tested: &Kernels, rule: &Kernels) {
        for elem in [1_usize, 2, 3, 4, 5, 8, 16, 31] {
            let side = if elem < 16 { 2 * 16 / elem.next_power_of_two() + 1 } else { 3 };
            for rows in sampled(0, side) {
                for cols in sampled(0, side) {
                    for window in arrangements(elem, rows, cols) {
                        same(tested, rule, elem, &window);
                    }
                }
            }
        }
        // Transposes go by squares of a cache line; these shapes have several, whole and ragged.
        for elem in if cfg!(miri) { 0..0 } else { 0..4 }.map(|log| 1 << log) {
            let sides = [64 / elem, 64 / elem + 1, 128 / elem + 3];
            for (rows, cols) in sides.into_iter().flat_map(|rows| sides.map(|cols| (rows, cols))) {
                for window in arrangements(elem, rows, cols) {
                    same(tested, rule, elem, &window);
                }
            }
        }
        for elem in sampled(1, 300) {
            for (rows, cols) in [(1, 1), (3, 1), (1, 3), (2, 3)] {
                for window in arrangements(elem, rows, cols) {
                    same(tested, rule, elem, &window);
                }
            }
        }
    }

    /// Elements that are whole pieces and some that are not, at aligned and other places, in turns around; fetching ahead
    /// reaches outside of the source.
    pub(crate) fn sweep_streamed(tested: &Kernels, rule: &Kernels) {
        for elem in [32, 64, 96, 128, 160, 2048, 4096, 48, 100] {
            for (at, gap, ahead) in [(0, 0, 0), (32, 64, 128), (0, 32, -999), (32, 0, 1 << 30), (8, 32, 64)] {
                let pitch = elem + gap;
                let w = Window {
                    rows: 2,
                    cols: 3,
                    src_row: 3 * elem as isize,
                    src_col: elem as isize,
                    dst_row: pitch as isize,
                    dst_col: 2 * pitch as isize,
                };
                let around = [
                    Around { n: 2, src: 6 * elem as isize, dst: 6 * pitch as isize },
                    Around { n: 3, src: 0, dst: 12 * pitch as isize },
                ];
                let src: Vec<u8> =
                    (0..12 * elem as u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect();
                let run = |kernels: &Kernels, before: u8| {
                    let mut dst = vec![MaybeUninit::new(before); 36 * pitch + 128];
                    let aligned = dst.as_ptr().align_offset(64);
                    let caching = Caching { past: true, ahead };
                    kernels.copy_around(elem, &src, 0, &mut dst, aligned + at, &w, &around, caching);
                    kernels.fence();
                    crate::mem::assume_written(dst)[aligned..][..36 * pitch + 64].to_vec()
                };
                for before in [0x00, 0xFF] {
                    assert!(
                        run(tested, before) == run(rule, before),
                        "{} streamed {elem}",
                        tested.isa().name()
                    );
                }
            }
        }
    }

    /// All of `from..=to`; under Miri, which is a thousand times slower, its first and last.
    pub(crate) fn sampled(from: usize, to: usize) -> impl Iterator<Item = usize> {
        (from..=to).step_by(if cfg!(miri) { to - from } else { 1 })
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
            for dst in
                [dense, (e, r * e), (c * e + 9, e), (e, r * e + 1), ((e + 1) * c + 2, e + 1), (-c * e, e)]
            {
                all.push(window(src.0, src.1, dst.0, dst.1));
            }
        }
        all.into_iter().step_by(if cfg!(miri) { 7 } else { 1 }).collect()
    }

    /// The lowest offset the strides reach, negated, and the bytes from there to the end of the highest element.
    fn extent(elem: usize, row: (usize, isize), col: (usize, isize)) -> (usize, usize) {
        let reach = |(count, stride): (usize, isize)| count.saturating_sub(1) as isize * stride;
        let below = -(reach(row).min(0) + reach(col).min(0)) as usize;
        let above = (reach(row).max(0) + reach(col).max(0)) as usize;
        (below, below + above + elem)
    }

    fn same(tested: &Kernels, rule: &Kernels, elem: usize, w: &Window) {
        let (src_at, src_len) = extent(elem, (w.rows, w.src_row), (w.cols, w.src_col));
        let (dst_at, dst_len) = extent(elem, (w.rows, w.dst_row), (w.cols, w.dst_col));
        // A byte ramp would repeat every 256 bytes; this sequence does not within any window here.
        let src: Vec<u8> = (0..src_len as u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect();
        let run = |kernels: &Kernels, before: u8| {
            let mut dst = vec![MaybeUninit::new(before); dst_len + 2 * MARGIN];
            kernels.copy(elem, &src, src_at, &mut dst, dst_at + MARGIN, w);
            crate::mem::assume_written(dst)
        };
        // Two fills before, so that a byte left out cannot hide behind an equal one.
        for before in [0x00, 0xFF] {
            let (got, want) = (run(tested, before), run(rule, before));
            assert!(got == want, "{} copy of {elem}-byte elements over {w:?}", tested.isa().name());
        }
    }
}
