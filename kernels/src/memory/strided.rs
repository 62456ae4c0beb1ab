//! Strided copies between two slices: a window, the loops around it, and the drivers that walk them.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::ahead::Ahead;
use super::cache::{CACHE_LINE, prefetch_l1, prefetch_rows_l2, prefetch_runs_l2};
use super::non_temporal::{PART_BYTES, STORE_BYTES, Stores};
use super::panels::{self, Panels};
use super::squares::{REGISTER, SHARED_SETS, SIDE, Transpose, block, square, square_together, squares};
use super::strips::{self, Rows, Source, Strips, Together};
use super::tails;
use super::whole_lines::{self, Lines};
use super::window::{Elements, OuterLoop, Window, for_each_iteration};
use crate::level::{Level, part};

/// One iteration of a [`StridedCopy`]: a [`Window`] together with the slices it lies in.
///
/// Fact M1, cited by the unsafe blocks below: for every r < `window.rows` and c < `window.cols`, the `elem` bytes
/// from `src_at + r * src_row + c * src_col` lie in `src`, and those from `dst_at + r * dst_row + c * dst_col` in
/// `dst`; there is at least one byte to copy, and `rows * cols * elem` is at most the length of `dst`.
/// [`StridedCopy::new`] establishes it, and the methods that return another copy keep the set of bytes.
pub(crate) struct WindowCopy<'a> {
    elem: usize,
    src: &'a [u8],
    src_at: usize,
    dst: &'a mut [MaybeUninit<u8>],
    dst_at: usize,
    window: Window,
}

impl<'a> WindowCopy<'a> {
    /// Bytes of an element.
    #[inline(always)]
    pub(crate) fn elem(&self) -> usize {
        self.elem
    }

    /// The window.
    #[inline(always)]
    pub(crate) fn window(&self) -> Window {
        self.window
    }

    /// The source and the offset of element (0, 0) in it; the same for the destination.
    #[inline(always)]
    pub(crate) fn into_slices(self) -> (&'a [u8], usize, &'a mut [MaybeUninit<u8>], usize) {
        (self.src, self.src_at, self.dst, self.dst_at)
    }

    /// The same copy with the roles of rows and columns exchanged.
    #[inline(always)]
    fn swapped(self) -> WindowCopy<'a> {
        WindowCopy { window: self.window.swapped(), ..self }
    }

    /// The same copy with rows in the opposite order.
    #[inline(always)]
    fn with_rows_reversed(self) -> WindowCopy<'a> {
        let WindowCopy { src_at, dst_at, window: w, .. } = self;
        let last = w.rows as isize - 1;
        WindowCopy {
            src_at: src_at.wrapping_add_signed(last.wrapping_mul(w.src_row)),
            dst_at: dst_at.wrapping_add_signed(last.wrapping_mul(w.dst_row)),
            window: Window { src_row: w.src_row.wrapping_neg(), dst_row: w.dst_row.wrapping_neg(), ..w },
            ..self
        }
    }

    /// The same copy with fewer and longer elements, where elements lie one after another on both sides. If a single
    /// loop is left, it is that over the columns, the inner one.
    #[inline(always)]
    fn merged(self) -> WindowCopy<'a> {
        // Merging rows may bring columns together, hence the third step.
        let merged =
            self.with_columns_merged().swapped().with_columns_merged().swapped().with_columns_merged();
        if merged.window.cols == 1 { merged.swapped() } else { merged }
    }

    #[inline(always)]
    fn with_columns_merged(self) -> WindowCopy<'a> {
        let WindowCopy { elem, window: w, .. } = self;
        if w.src_col == elem as isize && w.dst_col == elem as isize {
            // No overflow: the elements fit `dst` side by side.
            WindowCopy { elem: elem * w.cols, window: Window { cols: 1, ..w }, ..self }
        } else {
            self
        }
    }

    /// Calls `f` with the addresses of each element, columns within rows.
    #[inline(always)]
    fn for_each(self, f: impl Fn(*const u8, *mut u8)) {
        let (src, dst) = (self.src.as_ptr(), self.dst.as_mut_ptr().cast::<u8>());
        self.for_each_at(
            #[inline(always)]
            |from, to| {
                // SAFETY: M1: both addresses are inside of their slices.
                unsafe { f(src.offset(from), dst.offset(to)) }
            },
        );
    }

    /// Calls `f` with where each element lies in its slice, columns within rows.
    #[inline(always)]
    fn for_each_at(&self, f: impl Fn(isize, isize)) {
        let w = self.window;
        let (mut src_row, mut dst_row) = (self.src_at as isize, self.dst_at as isize);
        for _ in 0..w.rows {
            let (mut from, mut to) = (src_row, dst_row);
            for _ in 0..w.cols {
                f(from, to);
                (from, to) = (from.wrapping_add(w.src_col), to.wrapping_add(w.dst_col));
            }
            (src_row, dst_row) = (src_row.wrapping_add(w.src_row), dst_row.wrapping_add(w.dst_row));
        }
    }

    /// Copies elements of `N` bytes, each in one load and one store.
    #[inline(always)]
    fn each<const N: usize>(self) {
        assert_eq!(self.elem, N);
        // SAFETY: M1, and `elem` is `N`.
        self.for_each(
            #[inline(always)]
            |src, dst| unsafe { put(dst, get::<N>(src)) },
        );
    }

    /// Copies elements of `N` to `2 * N` bytes as their first `N` and their last `N` bytes, which may overlap.
    #[inline(always)]
    fn each_in_two<const N: usize>(self) {
        let rest = self.elem.checked_sub(N).filter(|&rest| rest <= N);
        let rest = rest.expect("elements of N to 2 * N bytes");
        // SAFETY: M1, and `elem` is `N + rest`.
        self.for_each(
            #[inline(always)]
            |src, dst| unsafe {
                put(dst, get::<N>(src));
                put(dst.add(rest), get::<N>(src.add(rest)));
            },
        );
    }

    /// Copies elements of any size, each by a call of `memcpy`.
    #[inline(always)]
    fn each_long(self) {
        let elem = self.elem;
        // SAFETY: M1; source and destination are a shared and a unique borrow, so they do not overlap.
        self.for_each(
            #[inline(always)]
            |src, dst| unsafe { dst.copy_from_nonoverlapping(src, elem) },
        );
    }

    /// Copies elements of any multiple of [`STORE_BYTES`] by non-temporal stores. Four units of these bytes go together where
    /// they can, of one element, of elements of a row, or of two rows; then what lies `distance` bytes from them is fetched to the
    /// cache `FETCHES`, unless that is 0, and lines of what is `ahead`.
    #[inline(always)]
    fn each_non_temporal<const FETCHES: usize, const AVX: bool>(
        self,
        stores: Stores<AVX>,
        distance: isize,
        mut ahead: Option<&mut Ahead<'_>>,
    ) {
        assert!(self.elem.is_multiple_of(STORE_BYTES));
        let w = self.window;
        let unit = STORE_BYTES as isize;
        let units = OuterLoop { n: self.elem / STORE_BYTES, src: unit, dst: unit };
        let cols = OuterLoop { n: w.cols, src: w.src_col, dst: w.dst_col };
        let rows = OuterLoop { n: w.rows, src: w.src_row, dst: w.dst_row };
        let [outer, middle, inner] = if units.n == 1 { [units, rows, cols] } else { [rows, cols, units] };
        let pairs = inner.n == 2;
        // Of four units the second lies one step of the inner loop behind the first, and the other two lie behind both.
        let [two_src, two_dst] = if pairs {
            [middle.src, middle.dst]
        } else {
            [inner.src, inner.dst].map(|step| step.wrapping_mul(2))
        };
        let (across, along) = if pairs { (2, 2) } else { (1, 4) };
        let (src, dst) = (self.src.as_ptr(), self.dst.as_mut_ptr().cast::<u8>());
        let (mut src_outer, mut dst_outer) = (src.wrapping_add(self.src_at), dst.wrapping_add(self.dst_at));
        for _ in 0..outer.n {
            let (mut src_row, mut dst_row, mut left) = (src_outer, dst_outer, middle.n);
            while left > 0 {
                let together = if left < across { 1 } else { across };
                let fours = if together == across { inner.n / along } else { 0 };
                let (mut src, mut dst) = (src_row, dst_row);
                for _ in 0..fours {
                    if let Some(ahead) = &mut ahead {
                        ahead.fetch();
                    }
                    // SAFETY: M1: units of elements. `StridedCopy::each_non_temporal` has found all of them aligned.
                    unsafe {
                        stores.copy_four::<FETCHES>(
                            src,
                            [inner.src, two_src, distance],
                            dst,
                            [inner.dst, two_dst],
                        );
                    }
                    src = src.wrapping_offset(inner.src.wrapping_mul(along as isize));
                    dst = dst.wrapping_offset(inner.dst.wrapping_mul(along as isize));
                }
                for _ in fours * along..inner.n {
                    for row in 0..together as isize {
                        // SAFETY: as above.
                        unsafe {
                            stores.copy_unit(
                                src.wrapping_offset(middle.src.wrapping_mul(row)),
                                dst.wrapping_offset(middle.dst.wrapping_mul(row)),
                            );
                        }
                    }
                    (src, dst) = (src.wrapping_offset(inner.src), dst.wrapping_offset(inner.dst));
                }
                src_row = src_row.wrapping_offset(middle.src.wrapping_mul(together as isize));
                dst_row = dst_row.wrapping_offset(middle.dst.wrapping_mul(together as isize));
                left -= together;
            }
            src_outer = src_outer.wrapping_offset(outer.src);
            dst_outer = dst_outer.wrapping_offset(outer.dst);
        }
    }

    /// Copies elements of any multiple of [`STORE_BYTES`] that begin on multiples of [`PART_BYTES`], part by part. L2 is asked for what
    /// lies `distance` bytes from each, unless that is 0.
    #[inline(always)]
    fn each_in_parts<const AVX: bool>(self, stores: Stores<AVX>, distance: isize) {
        let (elem, source) = (self.elem, self.src);
        assert!(elem.is_multiple_of(STORE_BYTES));
        let (src, dst) = (self.src.as_ptr(), self.dst.as_mut_ptr().cast::<u8>());
        self.for_each_at(
            #[inline(always)]
            |from, to| {
                for unit in (0..elem).step_by(STORE_BYTES) {
                    if distance != 0 {
                        let later = (from as usize + unit).wrapping_add_signed(distance);
                        prefetch_rows_l2::<1>(source, later, 0);
                    }
                    for part in [unit, unit + PART_BYTES] {
                        // SAFETY: M1, and these bytes are a part of an element; `StridedCopy::each_non_temporal` has found all
                        // elements on multiples of parts.
                        unsafe { stores.copy_part(src.offset(from).add(part), dst.offset(to).add(part)) };
                    }
                }
            },
        );
    }

    /// Copies blocks of `B` x `B` elements through `transpose`: it gets the columns of a block, each contiguous in
    /// the source, and returns its rows, each contiguous in the destination; both are [`REGISTER`] bytes long.
    ///
    /// Needs `src_row` and `dst_col` equal to the element size, which is `REGISTER / B`, and at least `B` rows and
    /// columns. A last block that would leave the window moves back inside and repeats elements of the one before.
    #[inline(always)]
    fn blocks<const B: usize>(self, distance: isize, transpose: impl Transpose<B>) {
        let w = self.window;
        assert!(self.elem * B == REGISTER && w.rows >= B && w.cols >= B);
        assert!(w.src_row == self.elem as isize && w.dst_col == self.elem as isize);
        let (src, dst) = (self.src.as_ptr(), self.dst.as_mut_ptr().cast::<u8>());
        let blocks = |count: usize| count.div_ceil(B);
        let start = |block: usize, count: usize| (block * B).min(count - B) as isize;
        // Squares of whole cache lines: every line that is loaded or stored is finished while it is in L1.
        for (rows, cols) in squares(blocks(w.rows), blocks(w.cols)) {
            let (first_row, first_col) = (start(rows.start, w.rows), start(cols.start, w.cols));
            let src_at = self.src_at as isize + first_row * w.src_row + first_col * w.src_col;
            if distance != 0 {
                // The last byte of a line's worth: the first may lie in a line that is being read.
                let last = src_at.wrapping_add(CACHE_LINE as isize - 1).wrapping_add(distance);
                for c in cols.clone() {
                    let at = last.wrapping_add((start(c, w.cols) - first_col) * w.src_col);
                    prefetch_rows_l2::<B>(self.src, at as usize, w.src_col);
                }
            }
            let whole = rows.end * B <= w.rows && cols.end * B <= w.cols;
            if whole && (rows.len(), cols.len()) == (SIDE, SIDE) {
                // SAFETY: M1: `SIDE` whole blocks along rows and columns, from the first row and column on.
                unsafe {
                    let to = self.dst_at as isize + first_row * w.dst_row + first_col * w.dst_col;
                    square_together(src.offset(src_at), w.src_col, dst.offset(to), w.dst_row, transpose);
                }
                continue;
            }
            for c in cols {
                let c = start(c, w.cols);
                for r in rows.clone() {
                    let r = start(r, w.rows);
                    // SAFETY: blocks start at most at `rows - B` and `cols - B`.
                    unsafe {
                        block(
                            src.offset(self.src_at as isize + r * w.src_row + c * w.src_col),
                            w.src_col,
                            dst.offset(self.dst_at as isize + r * w.dst_row + c * w.dst_col),
                            w.dst_row,
                            transpose,
                        );
                    }
                }
            }
        }
    }

    /// [`WindowCopy::blocks`] with non-temporal stores, in strips of about `hints.strip` bytes of each row of the destination, so
    /// that whole lines leave L1 soon after they were made. Lines of the source are read whole. `next`: how far the window lies of which
    /// what is read first is fetched at the end of this one; 0 for none.
    #[inline(always)]
    fn strips<L: Level, const B: usize, const AVX: bool, T: Transpose<B>>(
        self,
        level: L,
        stores: Stores<AVX>,
        (hints, next): (Hints, isize),
        transpose: T,
    ) {
        let WindowCopy { elem, src, src_at, dst, dst_at, window } = self;
        let dst_begin = dst.as_ptr().addr().wrapping_add(dst_at);
        let to_line = src.as_ptr().addr().wrapping_add(src_at).wrapping_neg() % CACHE_LINE;
        let together = Together { first: to_line / elem, each: CACHE_LINE / elem, least: B };
        let rows = Rows { dst, at: dst_at, step: window.dst_row, rows: window.rows, cols: window.cols, elem };
        assert_eq!(elem * B, REGISTER);
        let source = Transposed::<B, _> { src, src_at, window, next, transpose };
        // Rows that all begin at one place between two lines are made faster from where the source lies.
        let is_between =
            dst_begin % CACHE_LINE != 0 && window.dst_row.unsigned_abs().is_multiple_of(CACHE_LINE);
        let panel = if is_between { 0 } else { hints.panel };
        let Hints { strip: run, panels_fetched: fetched, near_panel: near, .. } = hints;
        let panels = Panels { run, panel, fetched, near };
        if const { L::LINES } && panel > 0 && whole_lines::suit(&rows) {
            // SAFETY: the level has vectors of 512 bits.
            return unsafe { whole_lines::write(level, rows, panels, &source, transpose) };
        }
        // Of other elements, and without vectors of 256 bits, they are not worth the time it takes to compile them.
        if const { AVX && matches!(REGISTER / B, 2 | 4) } && panel > 0 {
            return match rows.begin_with_lines() {
                true => panels::write(stores, rows, panels, &source),
                false => tails::write(stores, rows, panels, &source),
            };
        }
        let strips =
            Strips { bytes: hints.strip.min(2 * CACHE_LINE), together, fetched: hints.strip_fetched / elem };
        strips::write(stores, rows, strips, &source);
    }
}

/// The source of a transpose in strips: that of a [`WindowCopy`].
struct Transposed<'a, const B: usize, T> {
    src: &'a [u8],
    src_at: usize,
    window: Window,
    /// How far the next window lies that is transposed, 0 if there is none.
    next: isize,
    transpose: T,
}

impl<const B: usize, T> Transposed<'_, B, T> {
    /// Where an element lies.
    #[inline(always)]
    fn at(&self, row: usize, col: usize) -> usize {
        let Window { src_row, src_col, .. } = self.window;
        let row = (row as isize).wrapping_mul(src_row);
        self.src_at.wrapping_add_signed(row.wrapping_add((col as isize).wrapping_mul(src_col)))
    }
}

// SAFETY: `square` calls back for each of `SIDE` blocks, of which one in `SIDE / DRAINS` calls `drain`.
unsafe impl<const B: usize, T: Transpose<B>> Source for Transposed<'_, B, T> {
    const ELEM: usize = REGISTER / B;

    #[inline(always)]
    fn make(&self, rows: Range<usize>, cols: Range<usize>, room: &mut [MaybeUninit<u8>]) {
        let Transposed { src, window: w, transpose, .. } = *self;
        assert!(rows.end <= w.rows && cols.end <= w.cols && cols.len() * Self::ELEM <= Self::PITCH);
        assert!(Self::PITCH * (rows.len() - 1) + cols.len() * Self::ELEM <= room.len());
        // M1: of the source, these are some rows and columns of the window; in the room, the elements of a row follow one
        // another, and rows do not reach each other.
        let window = Window { rows: rows.len(), cols: cols.len(), dst_row: Self::PITCH as isize, ..w };
        let src_at = self.at(rows.start, cols.start);
        WindowCopy { elem: Self::ELEM, src, src_at, dst: room, dst_at: 0, window }.blocks(0, transpose);
    }

    #[inline(always)]
    fn make_square(&self, row: usize, col: usize, room: &mut [MaybeUninit<u8>], mut drain: impl FnMut()) {
        let Transposed { src, window: w, transpose, .. } = *self;
        assert!(row + Self::LINE <= w.rows && col + Self::LINE <= w.cols);
        assert!(Self::PITCH * (Self::LINE - 1) + CACHE_LINE <= room.len());
        let (src, dst) = (src.as_ptr().wrapping_add(self.at(row, col)), room.as_mut_ptr().cast::<u8>());
        let between = |done: usize| {
            if done.is_multiple_of(SIDE / Self::DRAINS) {
                drain();
            }
        };
        // SAFETY: M1: these are some rows and columns of the window; there is room for a line of each row, and rows do not
        // reach each other.
        unsafe { square(src, w.src_col, dst, Self::PITCH as isize, transpose, between) };
    }

    #[inline(always)]
    fn fetch(&self, rows: Range<usize>, cols: Range<usize>) {
        for col in cols {
            prefetch_l1(self.src, self.at(rows.start, col), rows.len() * Self::ELEM);
        }
    }
}

impl<const B: usize, T: Transpose<B>> panels::Source for Transposed<'_, B, T> {
    const LEAST: usize = B;

    #[inline(always)]
    fn bytes(&self, row: usize, col: usize, rows: usize) -> &[u8] {
        &self.src[self.at(row, col)..][..rows * REGISTER / B]
    }

    #[inline(always)]
    fn together(&self, rows: Range<usize>, cols: Range<usize>) -> Option<(&[u8], usize)> {
        let (run, w) = (rows.len() * REGISTER / B, self.window);
        let follow = w.src_col == run as isize && run < SHARED_SETS;
        follow.then(|| (&self.src[self.at(rows.start, cols.start)..][..cols.len() * run], run))
    }

    #[inline(always)]
    fn fetch(&self, windows: usize, rows: Range<usize>, cols: Range<usize>, near: bool) {
        if windows > 0 && self.next == 0 {
            return;
        }
        let later = (windows as isize).wrapping_mul(self.next);
        let at = self.at(rows.start, cols.start).wrapping_add_signed(later);
        let run = rows.len() * REGISTER / B;
        match near {
            true => prefetch_l1(self.src, at, cols.len() * run),
            false => prefetch_runs_l2(self.src, at, run, (cols.len(), self.window.src_col)),
        }
    }

    #[inline(always)]
    fn transpose(
        &self,
        (panel, pitch): (&[u8], usize),
        [rows, cols]: [usize; 2],
        (room, room_pitch): (&mut [MaybeUninit<u8>], usize),
    ) {
        let elem = REGISTER / B;
        let (src_col, dst_row) = (pitch as isize, room_pitch as isize);
        let window = Window { rows, cols, src_row: elem as isize, src_col, dst_row, dst_col: elem as isize };
        // M1, by this check: of both sides these are rows and columns that do not reach each other.
        assert!(
            (cols - 1) * pitch + rows * elem <= panel.len()
                && (rows - 1) * room_pitch + cols * elem <= room.len()
                && rows * elem <= pitch
                && cols * elem <= room_pitch
        );
        WindowCopy { elem, src: panel, src_at: 0, dst: room, dst_at: 0, window }.blocks(0, self.transpose);
    }
}

/// What makes a call faster and changes no byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// Bytes from what is being read to what is fetched meanwhile; 0 for nothing.
    pub prefetch_distance: isize,
    /// Whether copies that are stored past the caches fetch that to L2 alone: L1 could not keep lines of rows that lie a power of two
    /// apart.
    pub to_l2: bool,
    /// If it is not 0, what is fetched is a run of so many bytes, in the order in which it lies. The prefetch distance is where it begins,
    /// from the first element.
    pub run_fetched: usize,
    /// Of rows of the destination that are transposed with non-temporal stores, the bytes that are made together, one or two
    /// cache lines, or up to 1 KiB by way of a panel; if it is 0, no rows are.
    pub strip: usize,
    /// Bytes of each row of the source that are fetched together while such rows are made; 0 for none.
    pub strip_fetched: usize,
    /// Bytes of the source that are brought together before such rows are made of them, up to 1 MiB; 0 for none. Of elements of 1 and
    /// 8 bytes that is done where the level has AVX-512 and rows begin and end with lines, otherwise as without panels.
    pub panel: usize,
    /// How many such panels ahead the source is fetched; 0 for not at all.
    pub panels_fetched: usize,
    /// Panels of up to so many bytes which need not be brought together, for they lie together in the source, are fetched to L1, and
    /// no more than one ahead; others to L2.
    pub near_panel: usize,
    /// Whether the source lies in L1, so that lines of a transpose go from registers to memory, where the level has vectors of 256 bits.
    pub near: bool,
}

impl Hints {
    /// The run that is fetched, if one is, while elements are read the first of which is at byte `at`.
    #[inline(always)]
    pub(crate) fn ahead(self, src: &[u8], at: usize) -> Option<Ahead<'_>> {
        Ahead::new(src, at.wrapping_add_signed(self.prefetch_distance), self.run_fetched)
    }
}

/// A copy of a window in every iteration of up to [`MAX_OUTER_LOOPS`](super::MAX_OUTER_LOOPS) loops around it.
///
/// Fact M2: [`WindowCopy`]'s M1 holds in every iteration. [`StridedCopy::new`] establishes it.
pub(crate) struct StridedCopy<'a> {
    first: WindowCopy<'a>,
    outer: &'a [OuterLoop],
    hints: Hints,
    /// What is fetched meanwhile in place of what the hints say, where lines are stored as they are made.
    ahead: Option<Ahead<'a>>,
}

impl<'a> StridedCopy<'a> {
    /// Checks the window against the slices in all iterations of the loops, outermost first, in time proportional to
    /// their number. `None` when there is nothing to copy.
    ///
    /// # Panics
    /// When there are too many loops, a byte lies outside of its slice in some iteration, or the destination has no room
    /// for that many elements.
    #[inline(always)]
    pub(crate) fn new(
        elem: usize,
        src: &'a [u8],
        src_at: usize,
        dst: &'a mut [MaybeUninit<u8>],
        dst_at: usize,
        window: &Window,
        outer: &'a [OuterLoop],
    ) -> Option<StridedCopy<'a>> {
        let sides = [
            Elements { len: src.len(), at: src_at, size: elem },
            Elements { len: dst.len(), at: dst_at, size: elem },
        ];
        if elem == 0 || !window.has_elements(outer, &sides) {
            return None;
        }
        let first = WindowCopy { elem, src, src_at, dst, dst_at, window: *window };
        Some(StridedCopy { first, outer, hints: Hints::default(), ahead: None })
    }

    /// The same copies, faster where the hints are good ones.
    #[inline(always)]
    pub(crate) fn hinted(self, hints: Hints) -> StridedCopy<'a> {
        StridedCopy { hints, ..self }
    }

    /// The same copies, while other rows are fetched.
    #[inline(always)]
    pub(crate) fn fetching(self, ahead: Option<Ahead<'a>>) -> StridedCopy<'a> {
        StridedCopy { ahead, ..self }
    }

    /// The same copies, with what lies `distance` bytes from what is being read prefetched meanwhile.
    #[inline(always)]
    pub(crate) fn prefetching(self, distance: isize) -> StridedCopy<'a> {
        let hints = Hints { prefetch_distance: distance, ..self.hints };
        self.hinted(hints)
    }

    /// Prefetches into L2 what lies one prefetch distance from the beginning of each row of the first iteration.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        let WindowCopy { src, src_at, window, .. } = self.first;
        if self.hints.prefetch_distance != 0 {
            for row in 0..window.rows as isize {
                let at = src_at.wrapping_add_signed(row.wrapping_mul(window.src_row));
                prefetch_rows_l2::<1>(src, at.wrapping_add_signed(self.hints.prefetch_distance), 0);
            }
        }
    }

    /// Bytes of an element.
    #[inline(always)]
    pub(crate) fn elem(&self) -> usize {
        self.first.elem
    }

    /// The window.
    #[inline(always)]
    pub(crate) fn window(&self) -> Window {
        self.first.window
    }

    /// The hints.
    #[inline(always)]
    pub(crate) fn hints(&self) -> Hints {
        self.hints
    }

    /// The same copies with the roles of rows and columns exchanged.
    #[inline(always)]
    pub(crate) fn swapped(self) -> StridedCopy<'a> {
        StridedCopy { first: self.first.swapped(), ..self }
    }

    /// The same copies with rows in the opposite order.
    #[inline(always)]
    pub(crate) fn with_rows_reversed(self) -> StridedCopy<'a> {
        StridedCopy { first: self.first.with_rows_reversed(), ..self }
    }

    /// The same copies with fewer and longer elements: [`WindowCopy::merged`]. Where these are a single row of some that no
    /// transpose takes, the innermost loop around them makes rows of them, for windows are walked faster.
    #[inline(always)]
    pub(crate) fn merged(self) -> StridedCopy<'a> {
        let StridedCopy { mut first, mut outer, hints, ahead } = self;
        first = first.merged();
        if first.window.rows == 1
            && first.elem >= STORE_BYTES
            && let Some((rows, rest)) = outer.split_last()
        {
            // M1: M2 in all iterations of this loop.
            first.window = Window { rows: rows.n, src_row: rows.src, dst_row: rows.dst, ..first.window };
            (first, outer) = (if first.window.cols == 1 { first.swapped() } else { first }, rest);
        }
        StridedCopy { first, outer, hints, ahead }
    }

    /// Whether non-temporal stores can make every element: units of [`STORE_BYTES`] on multiples of [`PART_BYTES`].
    pub(crate) fn suits_non_temporal(&self) -> bool {
        self.first.elem.is_multiple_of(STORE_BYTES) && self.is_aligned(PART_BYTES)
    }

    /// Whether every element begins on a multiple of `bytes`.
    #[inline(always)]
    fn is_aligned(&self, bytes: usize) -> bool {
        let WindowCopy { ref dst, dst_at, window, .. } = self.first;
        let aligned = |(n, stride): (usize, isize)| n == 1 || stride.unsigned_abs().is_multiple_of(bytes);
        dst.as_ptr().addr().wrapping_add(dst_at).is_multiple_of(bytes)
            && window.dst_loops(self.outer).all(aligned)
    }

    /// Calls `f` with the copy of each iteration, the last loop running fastest.
    #[inline(always)]
    pub(crate) fn for_each(self, mut f: impl FnMut(WindowCopy<'_>)) {
        let StridedCopy { first, outer, .. } = self;
        // M2 keeps both offsets inside of their slices in any iteration.
        for_each_iteration(
            outer,
            #[inline(always)]
            |src, dst| {
                let (src_at, dst_at) =
                    (first.src_at.wrapping_add_signed(src), first.dst_at.wrapping_add_signed(dst));
                f(WindowCopy { src_at, dst: &mut *first.dst, dst_at, ..first });
            },
        );
    }

    /// Copies elements of `N` bytes.
    #[inline(always)]
    pub(crate) fn each<const N: usize>(self) {
        self.for_each(
            #[inline(always)]
            |copy| copy.each::<N>(),
        );
    }

    /// Copies elements of `N` to `2 * N` bytes.
    #[inline(always)]
    pub(crate) fn each_in_two<const N: usize>(self) {
        self.for_each(
            #[inline(always)]
            |copy| copy.each_in_two::<N>(),
        );
    }

    /// Copies elements of any size.
    #[inline(always)]
    pub(crate) fn each_long(self) {
        self.for_each(
            #[inline(always)]
            |copy| copy.each_long(),
        );
    }

    /// Copies elements by non-temporal stores.
    ///
    /// # Panics
    /// Unless [`StridedCopy::suits_non_temporal`].
    #[inline(always)]
    pub(crate) fn each_non_temporal<const AVX: bool>(mut self, stores: Stores<AVX>) {
        assert!(self.suits_non_temporal(), "not whole aligned units of {STORE_BYTES} bytes");
        let Hints { prefetch_distance: distance, to_l2, .. } = self.hints;
        if !self.is_aligned(STORE_BYTES) {
            self.for_each(
                #[inline(always)]
                |copy| copy.each_in_parts(stores, distance),
            );
            return stores.end();
        }
        let mut ahead = self.ahead.take().or_else(|| self.hints.ahead(self.first.src, self.first.src_at));
        self.for_each(
            #[inline(always)]
            |copy| match (&mut ahead, distance) {
                (None, 0) => copy.each_non_temporal::<0, AVX>(stores, 0, None),
                (None, _) if to_l2 => copy.each_non_temporal::<2, AVX>(stores, distance, None),
                (None, _) => copy.each_non_temporal::<1, AVX>(stores, distance, None),
                (ahead, _) => copy.each_non_temporal::<0, AVX>(stores, 0, ahead.as_mut()),
            },
        );
        stores.end();
    }

    /// Copies blocks of `B` x `B` elements: [`WindowCopy::blocks`].
    #[inline(always)]
    pub(crate) fn blocks<const B: usize>(self, transpose: impl Transpose<B>) {
        let distance = self.hints.prefetch_distance;
        self.for_each(
            #[inline(always)]
            move |copy| copy.blocks(distance, transpose),
        );
    }

    /// How a transpose, whose source is contiguous along the rows, makes lines that go from registers to memory, if it does.
    #[inline(always)]
    fn near_lines(&self) -> Option<Lines> {
        let WindowCopy { elem, ref dst, dst_at, window: w, .. } = self.first;
        // The lines of each iteration lie as those of the first one do.
        let alike = |l: &OuterLoop| l.n == 1 || l.dst.unsigned_abs().is_multiple_of(CACHE_LINE);
        let begin = dst.as_ptr().addr().wrapping_add(dst_at);
        let lines = || Lines::of(begin, [w.rows, w.cols, elem], w.dst_row);
        (self.hints.near && self.outer.iter().all(alike)).then(lines).flatten()
    }

    /// Whether a transpose, whose source is contiguous along the rows, makes such lines.
    #[inline(always)]
    pub(crate) fn makes_near_lines(&self) -> bool {
        self.near_lines().is_some()
    }

    /// Transposes what lies in L1 to whole lines.
    ///
    /// # Panics
    /// Unless [`StridedCopy::makes_near_lines`], the source is contiguous along the rows, and the level has vectors of 256 bits.
    #[inline(always)]
    pub(crate) fn write_near<L: Level, const B: usize, const AVX: bool>(
        mut self,
        level: L,
        stores: Stores<AVX>,
        transpose: impl Transpose<B>,
    ) {
        let WindowCopy { elem, window: w, .. } = self.first;
        let Some(lines) = self.near_lines() else { unreachable!("rows without lines") };
        assert!(const { L::PAIRS } && elem * B == REGISTER);
        assert!(w.src_row == elem as isize && w.dst_col == elem as isize);
        let mut ahead = self.ahead.take();
        self.for_each(
            #[inline(always)]
            |copy| {
                let WindowCopy { src, src_at, dst, dst_at, .. } = copy;
                // SAFETY: M1; the level has vectors of 256 bits.
                part!(level, unsafe {
                    whole_lines::write_near(
                        level,
                        (src.as_ptr().add(src_at), w.src_col),
                        (dst.as_mut_ptr().cast::<u8>().add(dst_at), w.dst_row),
                        ([w.rows, w.cols], lines),
                        transpose,
                        ahead.as_mut(),
                    );
                });
            },
        );
        stores.end();
    }

    /// The same with non-temporal stores, for all whole lines of the destination: [`WindowCopy::strips`].
    #[inline(always)]
    pub(crate) fn strips<const B: usize, const AVX: bool>(
        self,
        level: impl Level,
        stores: Stores<AVX>,
        transpose: impl Transpose<B>,
    ) {
        let hints = self.hints;
        // What is fetched behind the last window is not read: of eight or more that is little.
        let next = self.outer.last().filter(|windows| windows.n >= 8).map_or(0, |windows| windows.src);
        self.for_each(
            #[inline(always)]
            move |copy| copy.strips(level, stores, (hints, next), transpose),
        );
        stores.end();
    }
}

/// # Safety
/// `N` bytes from `src` are readable.
#[inline(always)]
unsafe fn get<const N: usize>(src: *const u8) -> [u8; N] {
    // SAFETY: the caller's promise; an array of bytes has no alignment.
    unsafe { src.cast::<[u8; N]>().read() }
}

/// # Safety
/// `N` bytes from `dst` are writable.
#[inline(always)]
unsafe fn put<const N: usize>(dst: *mut u8, bytes: [u8; N]) {
    // SAFETY: the caller's promise; an array of bytes has no alignment.
    unsafe { dst.cast::<[u8; N]>().write(bytes) }
}
