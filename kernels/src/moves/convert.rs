//! Elementwise conversions over a window.

use std::mem::MaybeUninit;

use super::strided::{self, Blocks, FACE, STICK, Scratch, Side};
use super::transpose::{self, SQUARE};
use crate::formats::Number;
use crate::level::{Level, part};
use crate::memory::{
    Ahead, CACHE_LINE, Destination, Elements, Hints, LineAligned, OuterLoop, Output, Window, as_uninit,
    for_each_iteration, load_rows, prefetch_rows_l2, store_rows,
};
use crate::vectors::binary32;
use crate::vectors::lanes::{Bf16, F16, F32, Sen169};
use crate::vectors::steps::{
    self, Bf16ToSen169, By, E4M3To, E5M2To, F16ToBf16, F16ToSen169, Sen169ToBf16, Sen169ToF16, Step,
};

/// A conversion whose window [`Conversion::new`] has found to lie inside both slices in every iteration of the outer loops.
pub(crate) struct Conversion<'a> {
    from: Number,
    to: Number,
    src: &'a [u8],
    src_at: usize,
    dst: Output<'a>,
    dst_at: usize,
    window: Window,
    outer: &'a [OuterLoop],
    prefetch_distance: isize,
    /// What is fetched in the order in which it lies, if something is; then nothing else is.
    ahead: Option<Ahead<'a>>,
}

impl<'a> Conversion<'a> {
    /// The conversion of a window in every iteration of the outer loops. `None` when there is nothing to convert.
    ///
    /// # Panics
    /// When there are too many loops, an element lies outside of its slice in some iteration, or the destination has no room
    /// for that many elements.
    #[allow(clippy::too_many_arguments)]
    #[inline(always)]
    pub(crate) fn new(
        from: Number,
        to: Number,
        src: &'a [u8],
        src_at: usize,
        dst: &'a mut Destination<'_>,
        dst_at: usize,
        window: &Window,
        outer: &'a [OuterLoop],
        hints: Hints,
    ) -> Option<Conversion<'a>> {
        let sides = [
            Elements { len: src.len(), at: src_at, size: from.size() },
            Elements { len: dst.len(), at: dst_at, size: to.size() },
        ];
        if !window.has_elements(outer, &sides) {
            return None;
        }
        let dst = dst.output(makes_lines(from.size(), to.size(), window, outer));
        let ahead = hints.ahead(src, src_at);
        let prefetch_distance = if ahead.is_some() { 0 } else { hints.prefetch_distance };
        Some(Conversion {
            from,
            to,
            src,
            src_at,
            dst,
            dst_at,
            window: *window,
            outer,
            prefetch_distance,
            ahead,
        })
    }

    /// Takes for rows and columns what suits best; how its elements lie then.
    #[inline(always)]
    fn orient(&mut self) -> Lie {
        let (from, to) = (self.from.size() as isize, self.to.size() as isize);
        let (w, swapped) = (self.window, self.window.swapped());
        // Elements that stay as long are converted faster as one run in L1, where vectors are as wide as the processor has.
        let across =
            |w: Window| from != to && w.src_row == from && w.dst_col == to && w.rows.min(w.cols) >= SQUARE;
        if w.src_col == from && w.dst_col == to {
            // Rows that follow one another on both sides are one row; the products are distances inside the slices.
            let chained = w.src_row == from * w.cols as isize && w.dst_row == to * w.cols as isize;
            if chained {
                self.window = Window { rows: 1, cols: w.rows * w.cols, ..w };
            }
            Lie::Runs
        } else if w.src_row == from && w.dst_row == to {
            self.window = swapped;
            Lie::Runs
        } else if across(w) {
            Lie::Across
        } else if across(swapped) {
            self.window = swapped;
            Lie::Across
        } else {
            Lie::Apart
        }
    }

    /// Calls `row` with where each row of the window begins in source and destination, in every iteration.
    #[inline(always)]
    fn rows(window: &Window, outer: &[OuterLoop], mut row: impl FnMut(isize, isize)) {
        for_each_iteration(
            outer,
            #[inline(always)]
            |src, dst| {
                for r in 0..window.rows as isize {
                    let from = src.wrapping_add(r.wrapping_mul(window.src_row));
                    row(from, dst.wrapping_add(r.wrapping_mul(window.dst_row)));
                }
            },
        );
    }

    /// Takes long rows that lie backward in the source from their last elements on: so it is the shorter ones that are made whose order
    /// changes.
    #[inline(always)]
    fn turn(&mut self) {
        let (w, from, to) = (self.window, self.from.size() as isize, self.to.size() as isize);
        let is_long = w.cols >= CACHE_LINE / self.to.size();
        if self.dst.is_streamed() || to >= from || !is_long || (w.src_col, w.dst_col) != (-from, to) {
            return;
        }
        let last = w.cols as isize - 1;
        self.src_at = self.src_at.wrapping_add_signed(w.src_col.wrapping_mul(last));
        self.dst_at = self.dst_at.wrapping_add_signed(w.dst_col.wrapping_mul(last));
        self.window = Window { src_col: from, dst_col: -to, ..w };
    }

    /// Elements that do not lie one after another on both sides, and pairs of formats without a loop of their own.
    #[inline(always)]
    fn strided(&mut self, level: impl Level) {
        let Conversion {
            from,
            to,
            src,
            src_at,
            mut dst,
            dst_at,
            window,
            outer,
            prefetch_distance,
            mut ahead,
        } = self.lend();
        let blocks = Blocks::new(window, from.size(), to.size(), dst.is_streamed());
        let mut scratch = Scratch::default();
        for_each_iteration(
            outer,
            #[inline(always)]
            |from_at, to_at| {
                let src = Side { bytes: src, at: src_at.wrapping_add_signed(from_at), size: from.size() };
                let dst = Side { bytes: &mut dst, at: dst_at.wrapping_add_signed(to_at), size: to.size() };
                strided::convert(
                    level,
                    blocks,
                    src,
                    dst,
                    (prefetch_distance, &mut ahead),
                    &mut scratch,
                    #[inline(always)]
                    |src, dst| run(level, from, to, src, dst),
                );
            },
        );
    }

    #[inline(always)]
    fn steps<S: Step<M, N>, const M: usize, const N: usize>(&mut self, lie: Lie) {
        let mut on = self.lend();
        if M == N || lie == Lie::Runs { on.runs::<S, M, N>() } else { on.across::<S, M, N>() }
    }

    /// The same for a function that keeps it in registers. To move it would wait: what was stored by single fields is loaded by several then.
    #[inline(always)]
    fn lend(&mut self) -> Conversion<'_> {
        let Conversion { from, to, src, src_at, dst_at, window, outer, prefetch_distance, .. } = *self;
        let ahead = self.ahead.take();
        Conversion {
            from,
            to,
            src,
            src_at,
            dst: self.dst.lend(),
            dst_at,
            window,
            outer,
            prefetch_distance,
            ahead,
        }
    }

    /// A transpose, a square at a time: it is converted and transposed in registers, in whichever order moves less.
    #[inline(always)]
    fn across<S: Step<M, N>, const M: usize, const N: usize>(&mut self) {
        let (w, outer) = (self.window, self.outer);
        // Of both sides a line after the other, each finished while it is in L1.
        let squares =
            |count: usize, line: usize| (0..count).step_by(line).map(move |at| at..count.min(at + line));
        for_each_iteration(
            outer,
            #[inline(always)]
            |src, dst| {
                let (src, dst) = (self.src_at.wrapping_add_signed(src), self.dst_at.wrapping_add_signed(dst));
                for cols in squares(w.cols, CACHE_LINE / N) {
                    for rows in squares(w.rows, CACHE_LINE / M) {
                        for c in cols.clone().step_by(SQUARE) {
                            // The last square repeats elements of the one before.
                            let c = c.min(w.cols - SQUARE);
                            let from = src.wrapping_add_signed((c as isize).wrapping_mul(w.src_col));
                            let to = dst + c * N;
                            self.prefetch_square(from + rows.start * M);
                            for r in rows.clone().step_by(SQUARE) {
                                let r = r.min(w.rows - SQUARE);
                                let to = to.wrapping_add_signed((r as isize).wrapping_mul(w.dst_row));
                                self.square::<S, M, N>(from + r * M, to);
                            }
                        }
                    }
                }
            },
        );
    }

    #[inline(always)]
    fn prefetch_square(&self, at: usize) {
        if self.prefetch_distance != 0 {
            // The last byte of a line's worth: the first may lie in a line that is being read.
            let last = at.wrapping_add(CACHE_LINE - 1);
            prefetch_rows_l2::<SQUARE>(
                self.src,
                last.wrapping_add_signed(self.prefetch_distance),
                self.window.src_col,
            );
        }
    }

    #[inline(always)]
    fn square<S: Step<M, N>, const M: usize, const N: usize>(&mut self, from: usize, to: usize) {
        let mut square: [[[u8; M]; SQUARE]; SQUARE] = load_rows(self.src, from, self.window.src_col);
        if M == 2 && N > 2 {
            square = transpose::square(square);
        }
        let mut out = [[[0; N]; SQUARE]; SQUARE];
        for (out, code) in out.as_flattened_mut().iter_mut().zip(square.as_flattened()) {
            *out = S::step(*code);
        }
        if N == 2 {
            out = transpose::square(out);
        }
        store_rows(&out, self.dst.bytes, to, self.window.dst_row);
    }

    #[inline(always)]
    fn runs<S: Step<M, N>, const M: usize, const N: usize>(&mut self) {
        let (w, outer) = (self.window, self.outer);
        for_each_iteration(
            outer,
            #[inline(always)]
            |src, dst| {
                let (src, dst) = (self.src_at.wrapping_add_signed(src), self.dst_at.wrapping_add_signed(dst));
                match w {
                    Window { cols: FACE, .. } => self.short_rows::<S, M, N, FACE, FACE_ROWS>(src, dst),
                    Window { cols: STICK, .. } => self.short_rows::<S, M, N, STICK, 2>(src, dst),
                    _ => self.long_rows::<S, M, N>(src, dst),
                }
            },
        );
    }

    /// Rows of any length, a stick's elements at a time.
    #[inline(always)]
    fn long_rows<S: Step<M, N>, const M: usize, const N: usize>(&mut self, mut src: usize, mut dst: usize) {
        let w = self.window;
        let whole = w.cols / STICK * STICK;
        for _ in 0..w.rows {
            for c in (0..whole).step_by(STICK) {
                self.some_rows::<S, M, N, STICK, 1>(src + c * M, dst + c * N);
            }
            let (from, to, rest) = (src + whole * M, dst + whole * N, w.cols - whole);
            steps::convert::<S, M, N>(&self.src[from..][..rest * M], &mut self.dst.bytes[to..][..rest * N]);
            src = src.wrapping_add_signed(w.src_row);
            dst = dst.wrapping_add_signed(w.dst_row);
        }
    }

    /// Rows of `COLS`, `R` of them at a time: so it costs little to see that they lie inside both slices.
    #[inline(always)]
    fn short_rows<S: Step<M, N>, const M: usize, const N: usize, const COLS: usize, const R: usize>(
        &mut self,
        mut src: usize,
        mut dst: usize,
    ) {
        let w = self.window;
        for _ in 0..w.rows / R {
            self.some_rows::<S, M, N, COLS, R>(src, dst);
            src = src.wrapping_add_signed(w.src_row.wrapping_mul(R as isize));
            dst = dst.wrapping_add_signed(w.dst_row.wrapping_mul(R as isize));
        }
        for _ in 0..w.rows % R {
            self.some_rows::<S, M, N, COLS, 1>(src, dst);
            src = src.wrapping_add_signed(w.src_row);
            dst = dst.wrapping_add_signed(w.dst_row);
        }
    }

    /// `R` rows of `COLS`, by way of registers: of slices the compiler would compare where all rows of a window begin and end,
    /// take rows that lie backward for overlapping ones, and convert these one by one, several times as slowly.
    #[inline(always)]
    fn some_rows<S: Step<M, N>, const M: usize, const N: usize, const COLS: usize, const R: usize>(
        &mut self,
        src: usize,
        dst: usize,
    ) {
        let (src_row, dst_row) = (self.window.src_row, self.window.dst_row);
        if let Some(ahead) = &mut self.ahead {
            for _ in 0..(R * COLS * M).div_ceil(2 * CACHE_LINE) {
                ahead.fetch();
            }
        } else if self.prefetch_distance != 0 {
            let at = src.wrapping_add_signed(self.prefetch_distance);
            for line in (0..COLS * M).step_by(CACHE_LINE) {
                prefetch_rows_l2::<R>(self.src, at.wrapping_add(line), src_row);
            }
        }
        let from: [[[u8; M]; COLS]; R] = load_rows(self.src, src, src_row);
        let mut to = [[[0; N]; COLS]; R];
        if S::HAS_SOME && COLS == STICK {
            for r in 0..R {
                to[r] = S::some(&from[r]);
            }
        } else if S::HAS_SOME && COLS == FACE {
            S::some_into(from.as_flattened(), to.as_flattened_mut());
        } else {
            // One loop: row by row the arrays are kept in memory, and faces take four times as long.
            for (to, from) in to.as_flattened_mut().iter_mut().zip(from.as_flattened()) {
                *to = S::step(*from);
            }
        }
        if self.dst.is_streamed() && (R * COLS * N).is_multiple_of(CACHE_LINE) {
            // A copy: what is lent lies in memory, and so would the rows that are stored from registers.
            let LineAligned(kept) = &LineAligned(to);
            let made = kept.as_flattened().as_flattened();
            // Rows of whole lines, or rows that follow one another.
            let run = if (COLS * N).is_multiple_of(CACHE_LINE) { COLS * N } else { made.len() };
            let mut at = dst;
            for run in made.chunks_exact(run) {
                self.dst.put(as_uninit(run), at);
                at = at.wrapping_add_signed(dst_row);
            }
            return;
        }
        store_rows(&to, self.dst.bytes, dst, dst_row);
    }
}

/// Rows of faces that are converted together.
const FACE_ROWS: usize = 8;

/// Whether elements of `from` bytes that become elements of `to` bytes are runs in the source and whole lines of the destination,
/// if the first one is: rows of lines, or rows of faces that follow one another; along the columns of a window or its rows.
pub(super) fn makes_lines(from: usize, to: usize, window: &Window, outer: &[OuterLoop]) -> bool {
    let lines = |bytes: usize| bytes.is_multiple_of(CACHE_LINE);
    let along = |w: &Window| {
        let rows = lines(w.cols * to) && (w.rows == 1 || lines(w.dst_row.unsigned_abs()));
        let faces = w.cols == FACE && w.rows.is_multiple_of(FACE_ROWS) && w.dst_row == (FACE * to) as isize;
        (w.src_col, w.dst_col) == (from as isize, to as isize) && (rows || faces)
    };
    (along(window) || along(&window.swapped()))
        && outer.iter().all(|l| l.n == 1 || lines(l.dst.unsigned_abs()))
}

/// How the elements of a window lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lie {
    /// One after another along the columns, on both sides.
    Runs,
    /// One after another along the rows in the source, along the columns in the destination, for a square or more.
    Across,
    /// Otherwise.
    Apart,
}

/// Vector code: at once where elements lie one after another on both sides or are transposed, by way of L1 where they are not.
#[inline(always)]
pub(crate) fn body(level: impl Level, on: &mut Conversion<'_>) {
    let lie = on.orient();
    if lie == Lie::Apart {
        on.turn();
        return on.strided(level);
    }
    match (on.from, on.to) {
        (Number::F32, Number::Bf16) => part!(level, on.steps::<By<F32, Bf16>, 4, 2>(lie)),
        (Number::F32, Number::F16) => part!(level, on.steps::<By<F32, F16>, 4, 2>(lie)),
        (Number::F32, Number::Sen169) => part!(level, on.steps::<By<F32, Sen169>, 4, 2>(lie)),
        (Number::Bf16, Number::F32) => part!(level, on.steps::<By<Bf16, F32>, 2, 4>(lie)),
        (Number::Bf16, Number::F16) => part!(level, on.steps::<By<Bf16, F16>, 2, 2>(lie)),
        (Number::Bf16, Number::Sen169) => part!(level, on.steps::<Bf16ToSen169, 2, 2>(lie)),
        (Number::F16, Number::F32) => part!(level, on.steps::<By<F16, F32>, 2, 4>(lie)),
        (Number::F16, Number::Bf16) => part!(level, on.steps::<F16ToBf16, 2, 2>(lie)),
        (Number::F16, Number::Sen169) => part!(level, on.steps::<F16ToSen169, 2, 2>(lie)),
        (Number::Sen169, Number::F32) => part!(level, on.steps::<By<Sen169, F32>, 2, 4>(lie)),
        (Number::Sen169, Number::Bf16) => part!(level, on.steps::<Sen169ToBf16, 2, 2>(lie)),
        (Number::Sen169, Number::F16) => part!(level, on.steps::<Sen169ToF16, 2, 2>(lie)),
        _ => on.strided(level),
    }
}

/// Converts elements that lie one after another on both sides, any format to any other.
#[inline(always)]
fn run(level: impl Level, from: Number, to: Number, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
    match (from, to) {
        (Number::F32, Number::Bf16) => part!(level, steps::convert::<By<F32, Bf16>, 4, 2>(src, dst)),
        (Number::F32, Number::F16) => part!(level, steps::convert::<By<F32, F16>, 4, 2>(src, dst)),
        (Number::F32, Number::Sen169) => part!(level, steps::convert::<By<F32, Sen169>, 4, 2>(src, dst)),
        (Number::E4M3, Number::Bf16) => part!(level, steps::convert::<E4M3To<Bf16>, 1, 2>(src, dst)),
        (Number::E4M3, Number::F16) => part!(level, steps::convert::<E4M3To<F16>, 1, 2>(src, dst)),
        (Number::E4M3, Number::Sen169) => part!(level, steps::convert::<E4M3To<Sen169>, 1, 2>(src, dst)),
        (Number::E5M2, Number::Bf16) => part!(level, steps::convert::<E5M2To<Bf16>, 1, 2>(src, dst)),
        (Number::E5M2, Number::F16) => part!(level, steps::convert::<E5M2To<F16>, 1, 2>(src, dst)),
        (Number::E5M2, Number::Sen169) => part!(level, steps::convert::<E5M2To<Sen169>, 1, 2>(src, dst)),
        (Number::Bf16, Number::F32) => part!(level, steps::convert::<By<Bf16, F32>, 2, 4>(src, dst)),
        (Number::F16, Number::F32) => part!(level, steps::convert::<By<F16, F32>, 2, 4>(src, dst)),
        (Number::F16, Number::Bf16) => part!(level, steps::convert::<F16ToBf16, 2, 2>(src, dst)),
        (Number::F16, Number::Sen169) => part!(level, steps::convert::<F16ToSen169, 2, 2>(src, dst)),
        (Number::Sen169, Number::F16) => part!(level, steps::convert::<Sen169ToF16, 2, 2>(src, dst)),
        (Number::Bf16, Number::Sen169) => part!(level, steps::convert::<Bf16ToSen169, 2, 2>(src, dst)),
        (Number::Sen169, Number::Bf16) => part!(level, steps::convert::<Sen169ToBf16, 2, 2>(src, dst)),
        (Number::F16, Number::Sen169Deeptools) | (Number::Sen169Deeptools, Number::F16) => {
            for (to_code, code) in dst.as_chunks_mut::<2>().0.iter_mut().zip(src.as_chunks::<2>().0) {
                let code = from.convert(to, u16::from_le_bytes(*code).into()) as u16;
                *to_code = code.to_le_bytes().map(MaybeUninit::new);
            }
        }
        _ => binary32::convert(level, from, to, src, dst),
    }
}

/// Element (r, c) of the destination is [`Number::convert`] of element (r, c) of the source.
pub(crate) fn scalar(on: &mut Conversion<'_>) {
    let w = on.window;
    Conversion::rows(&w, on.outer, |src, dst| {
        for c in 0..w.cols as isize {
            let place = |at: usize, row: isize, col: isize| {
                at.wrapping_add_signed(row).wrapping_add_signed(c.wrapping_mul(col))
            };
            let bits = on.from.load(on.src, place(on.src_at, src, w.src_col));
            on.to.store(on.dst.bytes, place(on.dst_at, dst, w.dst_col), on.from.convert(on.to, bits));
        }
    });
}
