//! The one place where kernels load and store: drivers that walk a validated window.
//!
//! A kernel body is a function from fixed arrays to fixed arrays; the drivers here bring the bytes.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::stream::{PIECE, Stores};
use crate::window::{MAX_AROUND, lies_inside, turns, turns_lie_inside};
use crate::{Around, Window};

/// A [`Window`] together with the slices it lies in.
///
/// Fact M1, cited by the unsafe blocks below: for every r < `window.rows` and c < `window.cols`, the `elem` bytes
/// from `src_at + r * src_row + c * src_col` lie in `src`, and those from `dst_at + r * dst_row + c * dst_col` in
/// `dst`; there is at least one byte to move, and `rows * cols * elem` is at most the length of `dst`. [`Move::new`]
/// establishes it, and the methods that return another `Move` keep the set of bytes.
pub(crate) struct Move<'a> {
    elem: usize,
    src: &'a [u8],
    src_at: usize,
    dst: &'a mut [MaybeUninit<u8>],
    dst_at: usize,
    window: Window,
}

impl<'a> Move<'a> {
    /// Checks the window against the slices, in constant time. `None` when there is nothing to move.
    ///
    /// # Panics
    /// When a byte of the window lies outside its slice, or the destination has no room for that many elements.
    pub(crate) fn new(
        elem: usize,
        src: &'a [u8],
        src_at: usize,
        dst: &'a mut [MaybeUninit<u8>],
        dst_at: usize,
        window: &Window,
    ) -> Option<Move<'a>> {
        let w = window;
        if w.is_empty(elem) {
            return None;
        }

        assert!(
            lies_inside(src.len(), src_at, elem, (w.rows, w.src_row), (w.cols, w.src_col)),
            "elements of {elem} bytes of {w:?} from byte {src_at} leave a source of {} bytes",
            src.len()
        );
        assert!(
            lies_inside(dst.len(), dst_at, elem, (w.rows, w.dst_row), (w.cols, w.dst_col)),
            "elements of {elem} bytes of {w:?} from byte {dst_at} leave a destination of {} bytes",
            dst.len()
        );
        // Elements that do not overlap fit; this also bounds the work by the destination when strides are 0.
        assert!(
            w.rows
                .checked_mul(w.cols)
                .and_then(|n| n.checked_mul(elem))
                .is_some_and(|bytes| bytes <= dst.len()),
            "elements of {elem} bytes of {w:?} do not fit side by side in a destination of {} bytes",
            dst.len()
        );
        Some(Move { elem, src, src_at, dst, dst_at, window: *w })
    }

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
    pub(crate) fn into_slices(self) -> (&'a [u8], usize, &'a mut [MaybeUninit<u8>], usize) {
        (self.src, self.src_at, self.dst, self.dst_at)
    }

    /// The same move with the roles of rows and columns exchanged.
    #[inline(always)]
    pub(crate) fn swapped(self) -> Move<'a> {
        Move { window: self.window.swapped(), ..self }
    }

    /// The same move with fewer and longer elements, where elements lie one after another on both sides. If a single
    /// loop is left, it is that over the columns, the inner one.
    #[inline(always)]
    pub(crate) fn merged(self) -> Move<'a> {
        // Merging rows may bring columns together, hence the third step.
        let merged =
            self.with_columns_merged().swapped().with_columns_merged().swapped().with_columns_merged();
        if merged.window.cols == 1 { merged.swapped() } else { merged }
    }

    #[inline(always)]
    fn with_columns_merged(self) -> Move<'a> {
        let Move { elem, window: w, .. } = self;
        if w.src_col == elem as isize && w.dst_col == elem as isize {
            // No overflow: the elements fit `dst` side by side.
            Move { elem: elem * w.cols, window: Window { cols: 1, ..w }, ..self }
        } else {
            self
        }
    }

    /// Calls `f` with the places of each element, columns within rows.
    #[inline(always)]
    fn for_each(self, f: impl Fn(*const u8, *mut u8)) {
        let (src, dst) = (self.src.as_ptr(), self.dst.as_mut_ptr().cast::<u8>());
        self.for_each_at(
            #[inline(always)]
            |from, to| {
                // SAFETY: M1: both places are inside their slices.
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

    /// Copies elements of `N` bytes (of any number of pieces, where `N` is 0) past the caches, and fetches what lies
    /// `ahead` of them.
    #[inline(always)]
    fn each_streamed<const N: usize, const WIDE: bool>(self, by: Stores<WIDE>, ahead: isize) {
        let elem = if N == 0 { self.elem } else { N };
        assert!(elem == self.elem && elem.is_multiple_of(PIECE));
        let (src, dst) = (self.src.as_ptr(), self.dst.as_mut_ptr().cast::<u8>());
        self.for_each_at(
            #[inline(always)]
            |from, to| {
                for piece in (0..elem).step_by(PIECE) {
                    if ahead != 0 && piece % 64 == 0 {
                        prefetch(self.src, (from as usize + piece).wrapping_add_signed(ahead));
                    }
                    // SAFETY: M1, and pieces lie inside of elements. `Moves::each_streamed` has found all places aligned.
                    unsafe { by.put(src.offset(from).add(piece), dst.offset(to).add(piece)) };
                }
            },
        );
    }

    /// Moves blocks of `B` x `B` elements through `transpose`: it gets the columns of a block, each contiguous in
    /// the source, and returns its rows, each contiguous in the destination; both are `LINE` bytes long.
    ///
    /// Needs `src_row` and `dst_col` equal to the element size, which is `LINE / B`, and at least `B` rows and
    /// columns. A last block that would leave the window moves back inside and repeats elements of the one before.
    #[inline(always)]
    fn blocks<const B: usize>(
        self,
        ahead: isize,
        transpose: impl Fn([[u8; LINE]; B]) -> [[u8; LINE]; B] + Copy,
    ) {
        let w = self.window;
        assert!(self.elem * B == LINE && w.rows >= B && w.cols >= B);
        assert!(w.src_row == self.elem as isize && w.dst_col == self.elem as isize);
        let (src, dst) = (self.src.as_ptr(), self.dst.as_mut_ptr().cast::<u8>());
        let blocks = |count: usize| count.div_ceil(B);
        let start = |block: usize, count: usize| (block * B).min(count - B) as isize;
        // Squares of whole cache lines: every line that is loaded or stored is finished while it is in L1.
        for (rows, cols) in squares(blocks(w.rows), blocks(w.cols)) {
            for c in cols {
                let c = start(c, w.cols);
                if ahead != 0 {
                    // The last byte of a line's worth: the first may lie in a line that is being read.
                    let first = self.src_at as isize + start(rows.start, w.rows) * w.src_row + c * w.src_col;
                    let last = first.wrapping_add(CACHE_LINE as isize - 1);
                    prefetch_rows::<B>(self.src, last.wrapping_add(ahead) as usize, w.src_col);
                }
                for r in rows.clone() {
                    let r = start(r, w.rows);
                    // SAFETY: M1: a block's column is `B` elements of one column of the window, `LINE` bytes on
                    // end as `src_row` is the element size; a block's row likewise, as `dst_col` is. Blocks start
                    // at most at `rows - B` and `cols - B`.
                    unsafe {
                        let src = src.offset(self.src_at as isize + r * w.src_row + c * w.src_col);
                        let dst = dst.offset(self.dst_at as isize + r * w.dst_row + c * w.dst_col);
                        let mut lines = [[0; LINE]; B];
                        for (i, line) in lines.iter_mut().enumerate() {
                            *line = get(src.offset(i as isize * w.src_col));
                        }
                        for (i, line) in transpose(lines).into_iter().enumerate() {
                            put(dst.offset(i as isize * w.dst_row), line);
                        }
                    }
                }
            }
        }
    }
}

/// A [`Move`] and the loops around it.
///
/// Fact M2: [`Move`]'s M1 holds in every turn of the loops. [`Moves::new`] establishes it.
pub(crate) struct Moves<'a> {
    on: Move<'a>,
    around: &'a [Around],
    /// Bytes from what is being read to what is fetched meanwhile; 0 for nothing.
    ahead: isize,
}

impl<'a> Moves<'a> {
    /// Checks the window against the slices in all turns of the loops, outermost first; the time is that of their
    /// number. `None` when there is nothing to move.
    ///
    /// # Panics
    /// When there are more loops than [`MAX_AROUND`], a byte lies outside of its slice in some turn, or the
    /// destination has no room for that many elements.
    pub(crate) fn new(
        elem: usize,
        src: &'a [u8],
        src_at: usize,
        dst: &'a mut [MaybeUninit<u8>],
        dst_at: usize,
        window: &Window,
        around: &'a [Around],
    ) -> Option<Moves<'a>> {
        assert!(around.len() <= MAX_AROUND, "{} loops around a window", around.len());
        if around.iter().any(|a| a.n == 0) {
            return None;
        }
        let (src_len, dst_len) = (src.len(), dst.len());
        let on = Move::new(elem, src, src_at, dst, dst_at, window)?;
        let w = *window;
        let inside = |len: usize, at: usize, row: isize, col: isize, step: fn(&Around) -> isize| {
            let turns = around.iter().map(|a| (a.n, step(a)));
            turns_lie_inside(len, at, elem, (w.rows, row), (w.cols, col), turns)
        };
        let volume = around.iter().try_fold(w.rows * w.cols * elem, |v, a| v.checked_mul(a.n));
        assert!(
            around.is_empty()
                || inside(src_len, src_at, w.src_row, w.src_col, |a| a.src)
                    && inside(dst_len, dst_at, w.dst_row, w.dst_col, |a| a.dst)
                    && volume.is_some_and(|v| v <= dst_len),
            "{w:?} of elements of {elem} bytes, with {around:?} around it, leaves a source of {src_len} or a \
             destination of {dst_len} bytes"
        );
        Some(Moves { on, around, ahead: 0 })
    }

    /// The same moves, with what lies `ahead` bytes from what is being read fetched meanwhile.
    #[inline(always)]
    pub(crate) fn fetching(self, ahead: isize) -> Moves<'a> {
        Moves { ahead, ..self }
    }

    /// Bytes of an element.
    #[inline(always)]
    pub(crate) fn elem(&self) -> usize {
        self.on.elem
    }

    /// The window.
    #[inline(always)]
    pub(crate) fn window(&self) -> Window {
        self.on.window
    }

    /// The same moves with the roles of rows and columns exchanged.
    #[inline(always)]
    pub(crate) fn swapped(self) -> Moves<'a> {
        Moves { on: self.on.swapped(), ..self }
    }

    /// The same moves with fewer and longer elements: [`Move::merged`].
    #[inline(always)]
    pub(crate) fn merged(self) -> Moves<'a> {
        Moves { on: self.on.merged(), ..self }
    }

    /// Whether every element is whole aligned pieces.
    pub(crate) fn whole_pieces(&self) -> bool {
        let Move { elem, ref dst, dst_at, window: w, .. } = self.on;
        let first = dst.as_ptr().addr().wrapping_add(dst_at);
        let whole = |(n, step): (usize, isize)| n == 1 || step.unsigned_abs().is_multiple_of(PIECE);
        let around = self.around.iter().map(|a| (a.n, a.dst));
        let mut steps = around.chain([(w.rows, w.dst_row), (w.cols, w.dst_col)]);
        elem.is_multiple_of(PIECE) && first.is_multiple_of(PIECE) && steps.all(whole)
    }

    /// Calls `f` with the move of each turn, the last loop running fastest.
    #[inline(always)]
    pub(crate) fn for_each(self, f: impl Fn(Move<'_>)) {
        let Moves { on, around, .. } = self;
        // M2 keeps both places inside of their slices in any turn.
        turns(
            around,
            #[inline(always)]
            |src, dst| {
                let (src_at, dst_at) =
                    (on.src_at.wrapping_add_signed(src), on.dst_at.wrapping_add_signed(dst));
                f(Move { src_at, dst: &mut *on.dst, dst_at, ..on });
            },
        );
    }

    /// Copies elements of `N` bytes.
    #[inline(always)]
    pub(crate) fn each<const N: usize>(self) {
        self.for_each(
            #[inline(always)]
            |on| on.each::<N>(),
        );
    }

    /// Copies elements of `N` to `2 * N` bytes.
    #[inline(always)]
    pub(crate) fn each_in_two<const N: usize>(self) {
        self.for_each(
            #[inline(always)]
            |on| on.each_in_two::<N>(),
        );
    }

    /// Copies elements of any size.
    #[inline(always)]
    pub(crate) fn each_long(self) {
        self.for_each(
            #[inline(always)]
            |on| on.each_long(),
        );
    }

    /// Copies elements of `N` bytes (of any size, where `N` is 0), which are whole pieces, past the caches.
    #[inline(always)]
    pub(crate) fn each_streamed<const N: usize, const WIDE: bool>(self, by: Stores<WIDE>) {
        assert!(self.whole_pieces(), "not whole pieces of {PIECE} bytes");
        let ahead = self.ahead;
        self.for_each(
            #[inline(always)]
            |on| on.each_streamed::<N, WIDE>(by, ahead),
        );
        by.end();
    }

    /// Moves blocks of `B` x `B` elements: [`Move::blocks`].
    #[inline(always)]
    pub(crate) fn blocks<const B: usize>(
        self,
        transpose: impl Fn([[u8; LINE]; B]) -> [[u8; LINE]; B] + Copy,
    ) {
        let ahead = self.ahead;
        self.for_each(
            #[inline(always)]
            move |on| on.blocks(ahead, transpose),
        );
    }
}

/// Where 64 arrays of `M` elements of `N` bytes begin, counted from a byte that is named later.
///
/// Fact M3, cited below: every place lies in `lowest..=highest`.
pub(crate) struct Places<const N: usize, const M: usize> {
    places: [isize; 64],
    lowest: isize,
    highest: isize,
}

impl<const N: usize, const M: usize> Places<N, M> {
    pub(crate) fn new(places: [isize; 64]) -> Places<N, M> {
        let (mut lowest, mut highest) = (isize::MAX, isize::MIN);
        for place in places {
            (lowest, highest) = (lowest.min(place), highest.max(place));
        }
        Places { places, lowest, highest }
    }

    /// The arrays, counted from byte `at`.
    ///
    /// # Panics
    /// When one leaves the slice.
    #[inline(always)]
    pub(crate) fn from<'a>(&'a self, bytes: &'a [u8], at: usize) -> Arrays<'a, N, M> {
        let end = at.checked_add_signed(self.highest).and_then(|last| last.checked_add(N * M));
        assert!(
            at.checked_add_signed(self.lowest).is_some() && end.is_some_and(|end| end <= bytes.len()),
            "arrays at {}..={} from byte {at} leave a slice of {} bytes",
            self.lowest,
            self.highest,
            bytes.len()
        );
        Arrays { places: self, bytes, at }
    }
}

/// Arrays of a slice, all of which were found inside it.
///
/// Fact M4, cited below: the `N * M` bytes from `at` plus any of the places lie in `bytes`. [`Places::from`] establishes it from M3.
#[derive(Clone, Copy)]
pub(crate) struct Arrays<'a, const N: usize, const M: usize> {
    places: &'a Places<N, M>,
    bytes: &'a [u8],
    at: usize,
}

impl<'a, const N: usize, const M: usize> Arrays<'a, N, M> {
    /// One of the arrays.
    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> &'a [[u8; N]; M] {
        // SAFETY: M4; an array of bytes has no alignment, and the borrow is that of the slice.
        unsafe { &*self.bytes.as_ptr().wrapping_add(self.at).offset(self.places.places[index]).cast() }
    }

    /// Some of the arrays of three slices, or of one slice at three bytes, side by side.
    ///
    /// # Panics
    /// When they are not of the same places.
    #[inline(always)]
    pub(crate) fn side_by_side(
        [a, b, c]: [Self; 3],
        of: Range<usize>,
    ) -> impl Iterator<Item = [&'a [[u8; N]; M]; 3]> {
        let places = a.places;
        assert!(std::ptr::eq(places, b.places) && std::ptr::eq(places, c.places), "arrays of other places");
        let start = |arrays: Self| arrays.bytes.as_ptr().wrapping_add(arrays.at);
        let (a, b, c) = (start(a), start(b), start(c));
        places.places[of].iter().map(
            #[inline(always)]
            // SAFETY: M4 of all three, whose places are the same; arrays of bytes have no alignment, and the borrows are those
            // of the slices.
            move |&place| unsafe {
                [&*a.offset(place).cast(), &*b.offset(place).cast(), &*c.offset(place).cast()]
            },
        )
    }

    /// Some of the arrays, in their order.
    #[inline(always)]
    pub(crate) fn groups(&self, of: Range<usize>) -> impl Iterator<Item = &'a [[u8; N]; M]> {
        let start = self.bytes.as_ptr().wrapping_add(self.at);
        self.places.places[of].iter().map(
            #[inline(always)]
            // SAFETY: M4; an array of bytes has no alignment, and the borrow is that of the slice.
            move |&place| unsafe { &*start.offset(place).cast() },
        )
    }
}

/// Asks L2 for the cache line in which a value begins. L1 could not keep lines that are a power of two apart.
#[inline(always)]
pub(crate) fn prefetch_later<T>(value: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    safe_arch::prefetch_t1(value);
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = value;
}

/// Asks L1 for the cache line of byte `at` (x86-64; nothing elsewhere), if the slice has that byte.
#[inline(always)]
fn prefetch(bytes: &[u8], at: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let Some(byte) = bytes.get(at) {
        safe_arch::prefetch_t0(byte);
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (bytes, at);
}

/// Bytes of a row or column of a block: one 128-bit register.
pub(crate) const LINE: usize = 16;

/// Bytes of a cache line.
const CACHE_LINE: usize = 64;

/// Blocks of a cache line.
const SIDE: usize = CACHE_LINE / LINE;

/// Divides a grid of blocks into squares whose sides are cache lines of 64 bytes.
#[inline(always)]
fn squares(rows: usize, cols: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let parts = |count: usize| (0..count).step_by(SIDE).map(move |at| at..count.min(at + SIDE));
    parts(cols).flat_map(move |cols| parts(rows).map(move |rows| (rows, cols.clone())))
}

/// `R` rows of `M` elements of `N` bytes: the first is at byte `at`, each further one `step` bytes on.
///
/// # Panics
/// When one leaves the slice.
#[inline(always)]
pub(crate) fn rows<const N: usize, const M: usize, const R: usize>(
    bytes: &[u8],
    at: usize,
    step: isize,
) -> [[[u8; N]; M]; R] {
    assert!(
        lies_inside(bytes.len(), at, N * M, (R, step), (1, 0)),
        "rows leave a slice of {} bytes",
        bytes.len()
    );
    let mut rows = [[[0; N]; M]; R];
    for (r, row) in rows.iter_mut().enumerate() {
        // SAFETY: the row was found inside the slice; an array of bytes has no alignment.
        *row = unsafe { bytes.as_ptr().add(at).offset(r as isize * step).cast::<[[u8; N]; M]>().read() };
    }
    rows
}

/// Stores rows where [`rows`] would find them.
///
/// # Panics
/// When one leaves the slice.
#[inline(always)]
pub(crate) fn put_rows<const N: usize, const M: usize, const R: usize>(
    rows: &[[[u8; N]; M]; R],
    bytes: &mut [MaybeUninit<u8>],
    at: usize,
    step: isize,
) {
    assert!(
        lies_inside(bytes.len(), at, N * M, (R, step), (1, 0)),
        "rows leave a slice of {} bytes",
        bytes.len()
    );
    for (r, row) in rows.iter().enumerate() {
        // SAFETY: the row was found inside the slice; an array of bytes has no alignment.
        unsafe { bytes.as_mut_ptr().add(at).offset(r as isize * step).cast::<[[u8; N]; M]>().write(*row) };
    }
}

/// Asks L2 for the cache lines in which rows begin, if they all lie in the slice. L1 could not keep them where rows are a
/// power of two apart.
#[inline(always)]
pub(crate) fn prefetch_rows<const R: usize>(bytes: &[u8], at: usize, step: isize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if lies_inside(bytes.len(), at, 1, (R, step), (1, 0)) {
        for r in 0..R as isize {
            // SAFETY: the byte was found inside the slice.
            safe_arch::prefetch_t1(unsafe { &*bytes.as_ptr().add(at).offset(r * step) });
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (bytes, at, step);
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

/// Initialised bytes as bytes that may be uninitialised, to copy them where such are wanted.
#[inline(always)]
pub(crate) fn as_uninit(bytes: &[u8]) -> &[MaybeUninit<u8>] {
    // SAFETY: `MaybeUninit<u8>` has the layout of `u8`, and a shared borrow does not allow to uninitialise it.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}

/// What a test's destination holds after a kernel wrote to it.
#[cfg(test)]
pub(crate) fn assume_written(bytes: Vec<MaybeUninit<u8>>) -> Vec<u8> {
    // SAFETY: the tests fill their destinations before they hand them to a kernel.
    bytes.into_iter().map(|byte| unsafe { byte.assume_init() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begins(at: usize, last: isize) -> [u8; 8] {
        let bytes: Vec<u8> = (0..40).collect();
        let mut places = [0; 64];
        places[56..].copy_from_slice(&[0, 1, -3, 30, 5, 5, 0, last]);
        let places = Places::<2, 3>::new(places);
        let arrays = places.from(&bytes, at);
        let firsts: Vec<u8> = arrays.groups(56..64).map(|array| array[0][0]).collect();
        firsts.try_into().unwrap()
    }

    #[test]
    fn arrays_may_touch_both_ends() {
        assert_eq!(begins(4, -4), [4, 5, 1, 34, 9, 9, 4, 0]);
    }

    #[test]
    #[should_panic = "leave a slice of 40 bytes"]
    fn arrays_stay_below_the_end() {
        begins(4, 31);
    }

    #[test]
    #[should_panic = "leave a slice of 40 bytes"]
    fn arrays_stay_behind_the_start() {
        begins(4, -5);
    }
}
