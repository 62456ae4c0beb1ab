//! Elementwise conversions over a window.

use std::mem::MaybeUninit;

use crate::lane::{self, Lane};
use crate::mem::{prefetch_rows, put_rows, rows};
use crate::window::{turns, turns_lie_inside};
use crate::{Around, Caching, Kernels, MAX_AROUND, Number, Window};

impl Kernels {
    /// Converts the `w.rows * w.cols` elements that the window names, each by [`Number::convert`], from offsets
    /// counted from byte `src_at` of `src` to offsets counted from byte `dst_at` of `dst`. Elements have the sizes of
    /// their formats; strides are in bytes. No other byte of `dst` is touched.
    ///
    /// Any pair works. Fast are f32, f16, bf16 and SEN169 among each other where rows (or columns) are
    /// contiguous on both sides.
    ///
    /// # Panics
    /// When a byte of the window lies outside `src` or `dst`, or `dst` is too small to hold the elements side by
    /// side; found in constant time, before anything is written.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    pub fn convert(
        &self,
        from: Number,
        to: Number,
        src: &[u8],
        src_at: usize,
        dst: &mut [MaybeUninit<u8>],
        dst_at: usize,
        w: &Window,
    ) {
        self.convert_around(from, to, src, src_at, dst, dst_at, w, &[], 0);
    }

    /// [`Kernels::convert`] in every turn of up to [`MAX_AROUND`] loops, outermost first. While rows of 16 elements are read, L2
    /// is asked for what lies `ahead` bytes further in the source, where that is not 0.
    ///
    /// # Panics
    /// As [`Kernels::convert`], in whichever turn; and when there are more loops.
    #[allow(clippy::too_many_arguments)]
    pub fn convert_around(
        &self,
        from: Number,
        to: Number,
        src: &[u8],
        src_at: usize,
        dst: &mut [MaybeUninit<u8>],
        dst_at: usize,
        w: &Window,
        around: &[Around],
        ahead: isize,
    ) {
        if from == to {
            let caching = Caching { past: false, ahead };
            return self.copy_around(from.size(), src, src_at, dst, dst_at, w, around, caching);
        }
        assert!(around.len() <= MAX_AROUND, "{} loops around a window", around.len());
        if w.rows == 0 || w.cols == 0 || around.iter().any(|a| a.n == 0) {
            return;
        }
        let inside =
            |len: usize, at: usize, size: usize, row: isize, col: isize, step: fn(&Around) -> isize| {
                let turns = around.iter().map(|a| (a.n, step(a)));
                turns_lie_inside(len, at, size, (w.rows, row), (w.cols, col), turns)
            };
        assert!(
            inside(src.len(), src_at, from.size(), w.src_row, w.src_col, |a| a.src),
            "{} elements of {w:?} from byte {src_at}, with {around:?} around, leave a source of {} bytes",
            from.name(),
            src.len()
        );
        assert!(
            inside(dst.len(), dst_at, to.size(), w.dst_row, w.dst_col, |a| a.dst),
            "{} elements of {w:?} from byte {dst_at}, with {around:?} around, leave a destination of {} bytes",
            to.name(),
            dst.len()
        );
        let mut counts = around.iter().map(|a| a.n).chain([w.rows, w.cols]);
        let bytes = counts.try_fold(to.size(), |bytes, n| bytes.checked_mul(n));
        assert!(
            bytes.is_some_and(|bytes| bytes <= dst.len()),
            "{} elements of {w:?}, with {around:?} around, do not fit side by side in a destination of {} bytes",
            to.name(),
            dst.len()
        );
        self.table.convert(Conversion { from, to, src, src_at, dst, dst_at, window: *w, around, ahead });
    }
}

/// A conversion whose window [`Kernels::convert_around`] has found to lie inside both slices in every turn.
pub(crate) struct Conversion<'a> {
    from: Number,
    to: Number,
    src: &'a [u8],
    src_at: usize,
    dst: &'a mut [MaybeUninit<u8>],
    dst_at: usize,
    window: Window,
    around: &'a [Around],
    ahead: isize,
}

impl Conversion<'_> {
    /// The same with contiguous elements along the columns, if there are any along rows or columns, and whether there are.
    #[inline(always)]
    fn with_contiguous_columns(self) -> (Self, bool) {
        let (from, to) = (self.from.size() as isize, self.to.size() as isize);
        let w = self.window;
        if w.src_col == from && w.dst_col == to {
            // Rows that follow one another on both sides are one row; the products are distances inside the slices.
            let chained = w.src_row == from * w.cols as isize && w.dst_row == to * w.cols as isize;
            let window = if chained { Window { rows: 1, cols: w.rows * w.cols, ..w } } else { w };
            (Self { window, ..self }, true)
        } else if w.src_row == from && w.dst_row == to {
            (Self { window: w.swapped(), ..self }, true)
        } else {
            (self, false)
        }
    }

    /// Calls `row` with where each row of the window begins in source and destination, in every turn.
    #[inline(always)]
    fn rows(window: &Window, around: &[Around], mut row: impl FnMut(isize, isize)) {
        turns(
            around,
            #[inline(always)]
            |src, dst| {
                for r in 0..window.rows as isize {
                    let from = src.wrapping_add(r.wrapping_mul(window.src_row));
                    row(from, dst.wrapping_add(r.wrapping_mul(window.dst_row)));
                }
            },
        );
    }

    #[inline(always)]
    fn runs<A: Lane<M>, B: Lane<N>, const M: usize, const N: usize>(self) {
        let w = self.window;
        if w.cols == FACE && w.rows > 1 {
            return self.face_rows::<A, B, M, N>();
        }
        Self::rows(
            &w,
            self.around,
            #[inline(always)]
            |src, dst| {
                let (src, dst) = (self.src_at.wrapping_add_signed(src), self.dst_at.wrapping_add_signed(dst));
                lane::run::<A, B, M, N>(&self.src[src..][..w.cols * M], &mut self.dst[dst..][..w.cols * N]);
            },
        );
    }

    /// Rows of 16, eight of them at a time: so it costs little to see that they lie inside both slices.
    #[inline(always)]
    fn face_rows<A: Lane<M>, B: Lane<N>, const M: usize, const N: usize>(mut self) {
        let w = self.window;
        turns(
            self.around,
            #[inline(always)]
            |src, dst| {
                let (mut src, mut dst) =
                    (self.src_at.wrapping_add_signed(src), self.dst_at.wrapping_add_signed(dst));
                for _ in 0..w.rows / 8 {
                    self.some_rows::<A, B, M, N, 8>(src, dst);
                    src = src.wrapping_add_signed(w.src_row.wrapping_mul(8));
                    dst = dst.wrapping_add_signed(w.dst_row.wrapping_mul(8));
                }
                for _ in 0..w.rows % 8 {
                    self.some_rows::<A, B, M, N, 1>(src, dst);
                    src = src.wrapping_add_signed(w.src_row);
                    dst = dst.wrapping_add_signed(w.dst_row);
                }
            },
        );
    }

    /// `R` rows of 16.
    #[inline(always)]
    fn some_rows<A: Lane<M>, B: Lane<N>, const M: usize, const N: usize, const R: usize>(
        &mut self,
        src: usize,
        dst: usize,
    ) {
        if self.ahead != 0 {
            prefetch_rows::<R>(self.src, src.wrapping_add_signed(self.ahead), self.window.src_row);
        }
        let from: [[[u8; M]; FACE]; R] = rows(self.src, src, self.window.src_row);
        let mut to = [[[0; N]; FACE]; R];
        for (to, from) in to.as_flattened_mut().iter_mut().zip(from.as_flattened()) {
            *to = B::narrow(A::widen(*from));
        }
        put_rows(&to, self.dst, dst, self.window.dst_row);
    }
}

/// Elements of a row of a face.
const FACE: usize = 16;

/// Vector code for the pairs that have it, the rule for others.
#[inline(always)]
pub(crate) fn body(on: Conversion<'_>) {
    use lane::{Bf16, F16, F32, Sen169};
    let (on, contiguous) = on.with_contiguous_columns();
    if !contiguous {
        return scalar(on);
    }
    match (on.from, on.to) {
        (Number::F32, Number::Bf16) => on.runs::<F32, Bf16, 4, 2>(),
        (Number::F32, Number::F16) => on.runs::<F32, F16, 4, 2>(),
        (Number::F32, Number::Sen169) => on.runs::<F32, Sen169, 4, 2>(),
        (Number::Bf16, Number::F32) => on.runs::<Bf16, F32, 2, 4>(),
        (Number::Bf16, Number::F16) => on.runs::<Bf16, F16, 2, 2>(),
        (Number::Bf16, Number::Sen169) => on.runs::<Bf16, Sen169, 2, 2>(),
        (Number::F16, Number::F32) => on.runs::<F16, F32, 2, 4>(),
        (Number::F16, Number::Bf16) => on.runs::<F16, Bf16, 2, 2>(),
        (Number::F16, Number::Sen169) => on.runs::<F16, Sen169, 2, 2>(),
        (Number::Sen169, Number::F32) => on.runs::<Sen169, F32, 2, 4>(),
        (Number::Sen169, Number::Bf16) => on.runs::<Sen169, Bf16, 2, 2>(),
        (Number::Sen169, Number::F16) => on.runs::<Sen169, F16, 2, 2>(),
        _ => scalar(on),
    }
}

/// Element (r, c) of the destination is [`Number::convert`] of element (r, c) of the source.
pub(crate) fn scalar(on: Conversion<'_>) {
    let w = on.window;
    Conversion::rows(&w, on.around, |src, dst| {
        for c in 0..w.cols as isize {
            let place = |at: usize, row: isize, col: isize| {
                at.wrapping_add_signed(row).wrapping_add_signed(c.wrapping_mul(col))
            };
            let bits = read(on.from, on.src, place(on.src_at, src, w.src_col));
            write(on.to, on.dst, place(on.dst_at, dst, w.dst_col), on.from.convert(on.to, bits));
        }
    });
}

/// The code of the element of format `number` at byte `at`.
pub(crate) fn read(number: Number, src: &[u8], at: usize) -> u64 {
    let mut code = [0; 8];
    code[..number.size()].copy_from_slice(&src[at..][..number.size()]);
    u64::from_le_bytes(code)
}

/// Writes the code of an element of format `number` at byte `at`.
pub(crate) fn write(number: Number, dst: &mut [MaybeUninit<u8>], at: usize, bits: u64) {
    for (to, byte) in dst[at..][..number.size()].iter_mut().zip(bits.to_le_bytes()) {
        to.write(byte);
    }
}

#[cfg(test)]
pub(crate) mod sweep {
    use super::*;
    use crate::mem::assume_written;

    /// Every pair; the windows that take a path of their own; every code of two bytes, and wider ones around all edges.
    pub(crate) fn sweep(tested: &Kernels, rule: &Kernels) {
        for from in Number::ALL {
            let src: Vec<u8> = codes(from)
                .step_by(if cfg!(miri) && from.size() > 1 { 211 } else { 1 })
                .flat_map(|code| code.to_le_bytes().into_iter().take(from.size()))
                .collect();
            let count = src.len() / from.size();
            for to in Number::ALL {
                let (f, t) = (from.size() as isize, to.size() as isize);
                let window = |rows, cols, src_row, src_col, dst_row, dst_col| Window {
                    rows,
                    cols,
                    src_row,
                    src_col,
                    dst_row,
                    dst_col,
                };
                same(tested, rule, from, to, &src, &window(1, count, 0, f, 0, t));
                // Rows of faces go eight at a time, and what is left one by one.
                for (rows, cols) in (0..=9).chain([31, 33]).map(|cols| (5, cols)).chain([(11, FACE)]) {
                    let (r, c) = (rows as isize, cols as isize);
                    same(tested, rule, from, to, &src, &window(rows, cols, c * f, f, c * t, t));
                    same(tested, rule, from, to, &src, &window(rows, cols, c * f + 3, f, c * t + 5, t));
                    same(tested, rule, from, to, &src, &window(rows, cols, f, r * f, t, r * t));
                    same(tested, rule, from, to, &src, &window(rows, cols, f, r * f, c * t, t));
                    same(tested, rule, from, to, &src, &window(rows, cols, 0, f, c * t, t));
                }
                let w = window(3, 5, 40 * f, f, 5 * t, t);
                let around =
                    [Around { n: 2, src: 20 * f, dst: 60 * t }, Around { n: 4, src: 5 * f, dst: 15 * t }];
                same_around(tested, rule, from, to, &src, &w, &around);
            }
        }
    }

    /// Every code of a narrow format; of a wide one random codes and those around each exponent.
    fn codes(number: Number) -> Box<dyn Iterator<Item = u64>> {
        match number.size() {
            size @ (1 | 2) => Box::new(0..1 << (8 * size)),
            size => {
                let bits = 8 * size as u32;
                let fraction = if size == 4 { 23 } else { 52 };
                let random = (0..20_000_u64)
                    .map(move |i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) >> (64 - bits));
                // Halves, quarters and neighbours of every place at which a narrower format rounds.
                let edges = (0..1u64 << (bits - 1 - fraction)).flat_map(move |exponent| {
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
                Box::new(
                    random.chain(edges.step_by(step).flat_map(move |code| [code, code | 1 << (bits - 1)])),
                )
            }
        }
    }

    fn same(tested: &Kernels, rule: &Kernels, from: Number, to: Number, src: &[u8], w: &Window) {
        same_around(tested, rule, from, to, src, w, &[]);
    }

    fn same_around(
        tested: &Kernels,
        rule: &Kernels,
        from: Number,
        to: Number,
        src: &[u8],
        w: &Window,
        around: &[Around],
    ) {
        let loops = around.iter().map(|a| (a.n, a.dst)).chain([(w.rows, w.dst_row), (w.cols, w.dst_col)]);
        let len = loops.map(|(n, step)| n.saturating_sub(1) * step as usize).sum::<usize>() + to.size();
        let run = |kernels: &Kernels| {
            let mut dst = vec![MaybeUninit::new(0xEE); len + 6];
            kernels.convert_around(from, to, src, 0, &mut dst, 3, w, around, 7);
            assume_written(dst)
        };
        let (got, want) = (run(tested), run(rule));
        if got != want {
            let at = (0..got.len()).find(|&i| got[i] != want[i]).unwrap();
            let isa = tested.isa().name();
            panic!(
                "{isa} {} to {} over {w:?}, {around:?}, byte {at}: {:02x} instead of {:02x}",
                from.name(),
                to.name(),
                got[at],
                want[at]
            );
        }
    }
}
