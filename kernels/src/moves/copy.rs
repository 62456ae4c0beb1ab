//! Strided copies.

use std::mem::MaybeUninit;

use super::transpose;
use crate::level::Level;
use crate::memory::{CACHE_LINE, NonTemporal, Stores, StridedCopy, Window, load_rows, prefetch, store_rows};

/// Transposes where there are some, and what is left element by element.
///
/// Sizes of whole registers move at once. Those between take two moves that overlap, which beats a call of
/// `memcpy` until about 256 bytes.
#[inline(always)]
pub(crate) fn body<L: Level>(_level: L, copy: StridedCopy<'_>) {
    let left = match const { L::PAIRS } {
        true => transpose::attempt::<true>(copy),
        false => transpose::attempt::<false>(copy),
    };
    let Some(copy) = left.and_then(reversed).and_then(every_second) else { return };
    match copy.elem() {
        1 => copy.each::<1>(),
        2 => copy.each::<2>(),
        4 => copy.each::<4>(),
        8 => copy.each::<8>(),
        16 => copy.each::<16>(),
        32 => copy.each::<32>(),
        64 => copy.each::<64>(),
        128 => copy.each::<128>(),
        3 => copy.each_in_two::<2>(),
        5..8 => copy.each_in_two::<4>(),
        9..16 => copy.each_in_two::<8>(),
        17..32 => copy.each_in_two::<16>(),
        33..64 => copy.each_in_two::<32>(),
        65..128 => copy.each_in_two::<64>(),
        129..=256 => copy.each_in_two::<128>(),
        _ => copy.each_long(),
    }
}

/// Does the copies if their rows of elements of 1, 2, 4 or 8 bytes lie backward in the source and are a cache line or longer;
/// otherwise gives them back.
#[inline(always)]
fn reversed(copy: StridedCopy<'_>) -> Option<StridedCopy<'_>> {
    let elem = copy.elem() as isize;
    let backward =
        |w: Window| w.src_col == -elem && w.dst_col == elem && w.cols * elem as usize >= CACHE_LINE;
    let (copy, suits) = oriented(copy, backward);
    if !suits {
        return Some(copy);
    }
    match elem {
        1 => backward_rows::<1, CACHE_LINE>(copy),
        2 => backward_rows::<2, { CACHE_LINE / 2 }>(copy),
        4 => backward_rows::<4, { CACHE_LINE / 4 }>(copy),
        8 => backward_rows::<8, { CACHE_LINE / 8 }>(copy),
        _ => return Some(copy),
    }
    None
}

/// [`body`] for elements of 1, 2, 4 or 8 bytes whose rows lie backward in the source.
#[inline(always)]
pub(crate) fn backward(copy: StridedCopy<'_>) {
    let Some(copy) = reversed(copy) else { return };
    match copy.elem() {
        1 => copy.each::<1>(),
        2 => copy.each::<2>(),
        4 => copy.each::<4>(),
        _ => copy.each::<8>(),
    }
}

/// Copies rows of `K` elements of `N` bytes or more that lie backward in the source, `K` at a time, whose order changes in
/// registers. The last ones repeat elements of those before.
#[inline(always)]
fn backward_rows<const N: usize, const K: usize>(copy: StridedCopy<'_>) {
    let distance = copy.hints().prefetch_distance;
    each_row(
        copy,
        #[inline(always)]
        |src, src_at, dst, dst_at, cols| {
            for c in (0..cols).step_by(K) {
                let c = c.min(cols - K);
                // The last of them is the lowest in the source.
                let at = src_at - (c + K - 1) * N;
                fetch(src, at, K * N, distance);
                let [elements] = load_rows::<N, K, 1>(src, at, 0);
                let mut reversed = elements;
                for (i, element) in reversed.iter_mut().enumerate() {
                    *element = elements[K - 1 - i];
                }
                store_rows(&[reversed], dst, dst_at + c * N, 0);
            }
        },
    );
}

/// Does the copies if the elements of their rows, of 1, 2, 4 or 8 bytes, are every second one of a run of the source, and so many
/// that they fill a vector (eight or more); otherwise gives them back.
#[inline(always)]
fn every_second(copy: StridedCopy<'_>) -> Option<StridedCopy<'_>> {
    let elem = copy.elem() as isize;
    let second = |w: Window| w.src_col == 2 * elem && w.dst_col == elem && w.cols >= 8;
    let (copy, suits) = oriented(copy, second);
    if !suits {
        return Some(copy);
    }
    match (elem, copy.window().cols) {
        (1, 8..16) => seconds::<u16, 1, 2, 8>(copy),
        (2, 8..16) => seconds::<u32, 2, 4, 8>(copy),
        (4, 8..16) => seconds::<u64, 4, 8, 8>(copy),
        (1, ..LONG) => seconds::<u16, 1, 2, 16>(copy),
        (2, ..LONG) => seconds::<u32, 2, 4, 16>(copy),
        (4, ..LONG) => seconds::<u64, 4, 8, 16>(copy),
        (8, ..LONG) => seconds::<u128, 8, 16, 8>(copy),
        (1, _) => long_seconds::<1>(copy),
        (2, _) => long_seconds::<2>(copy),
        (4, _) => long_seconds::<4>(copy),
        (8, _) => long_seconds::<8>(copy),
        _ => return Some(copy),
    }
    None
}

/// Rows of so many elements or more are copied by one loop of any length: on Zen 4 16 G elements/s in L2, where [`seconds`] had 5 when it picked
/// elements from two vectors. Not measured there since it cuts numbers.
const LONG: usize = 64;

/// The most bytes of such a row of which as many are fetched, all before the row is copied: of blocks in L1 every row is shorter.
const FETCHED: usize = 1 << 20;

/// Copies rows of which each element is the first of a pair in the source: the compiler vectorises a step that it knows.
#[inline(always)]
fn long_seconds<const N: usize>(copy: StridedCopy<'_>) {
    let distance = if copy.window().cols * 2 * N <= FETCHED { copy.hints().prefetch_distance } else { 0 };
    each_row(
        copy,
        #[inline(always)]
        |src, src_at, dst, dst_at, cols| {
            fetch(src, src_at, 2 * cols * N, distance);
            // Of the last pair only the first one is known to lie in the slice.
            let (pairs, last) = src[src_at..][..(2 * cols - 1) * N].as_chunks::<N>().0.as_chunks::<2>();
            let to = dst[dst_at..][..cols * N].as_chunks_mut::<N>().0;
            for (to, [from, _]) in to.iter_mut().zip(pairs) {
                *to = from.map(MaybeUninit::new);
            }
            to[cols - 1] = last[0].map(MaybeUninit::new);
        },
    );
}

/// Two elements of `N` bytes that follow one another, as one number of `M`: compilers have vectors that cut numbers, while of elements
/// picked from arrays they make vectors for some instruction sets alone.
trait Pair<const N: usize, const M: usize> {
    /// The first one.
    fn first(pair: [u8; M]) -> [u8; N];
}

macro_rules! pairs {
    ($($one:ident $two:ident),*) => {
        $(impl Pair<{ size_of::<$one>() }, { size_of::<$two>() }> for $two {
            #[inline(always)]
            fn first(pair: [u8; size_of::<$two>()]) -> [u8; size_of::<$one>()] {
                ($two::from_le_bytes(pair) as $one).to_le_bytes()
            }
        })*
    };
}
pairs!(u8 u16, u16 u32, u32 u64, u64 u128);

/// Copies rows of at least `K` elements of `N` bytes, each of which is the first of a pair of `M` in the source, `K` at a time.
#[inline(always)]
fn seconds<P: Pair<N, M>, const N: usize, const M: usize, const K: usize>(copy: StridedCopy<'_>) {
    let distance = copy.hints().prefetch_distance;
    each_row(
        copy,
        #[inline(always)]
        |src, src_at, dst, dst_at, cols| {
            for c in (0..cols).step_by(K) {
                // The last ones repeat elements of those before.
                let c = c.min(cols - K);
                let at = src_at + c * M;
                fetch(src, at, K * M, distance);
                let mut elements = [[0; N]; K];
                if at + K * M <= src.len() {
                    let [pairs] = load_rows::<M, K, 1>(src, at, 0);
                    for (element, pair) in elements.iter_mut().zip(pairs) {
                        *element = P::first(pair);
                    }
                } else {
                    // Of the last pair only the first one is known to lie in the slice.
                    for (i, element) in elements.iter_mut().enumerate() {
                        *element = *src[at + i * M..].first_chunk().expect("an element of a checked window");
                    }
                }
                store_rows(&[elements], dst, dst_at + c * N, 0);
            }
        },
    );
}

/// Asks L2 for what lies `distance` bytes from some that are read now; for nothing if that is 0.
#[inline(always)]
fn fetch(src: &[u8], at: usize, bytes: usize, distance: isize) {
    if distance != 0 {
        prefetch(src, at.wrapping_add_signed(distance), bytes);
    }
}

/// The copy with rows and columns exchanged if only that suits, and whether it suits at all.
#[inline(always)]
fn oriented(copy: StridedCopy<'_>, suits: impl Fn(Window) -> bool) -> (StridedCopy<'_>, bool) {
    let w = copy.window();
    match (suits(w), suits(w.swapped())) {
        (false, true) => (copy.swapped(), true),
        (as_it_is, _) => (copy, as_it_is),
    }
}

/// Calls `row` with source and destination, each followed by the byte where a row begins in it, and the elements of the row.
#[inline(always)]
fn each_row(copy: StridedCopy<'_>, row: impl Fn(&[u8], usize, &mut [MaybeUninit<u8>], usize, usize)) {
    copy.for_each(
        #[inline(always)]
        |copy| {
            let w = copy.window();
            let (src, mut src_at, dst, mut dst_at) = copy.into_slices();
            for _ in 0..w.rows {
                row(src, src_at, dst, dst_at, w.cols);
                (src_at, dst_at) =
                    (src_at.wrapping_add_signed(w.src_row), dst_at.wrapping_add_signed(w.dst_row));
            }
        },
    );
}

/// [`body`] for elements of 1, 2, 4 or 8 bytes.
#[inline(always)]
pub(crate) fn elements(copy: StridedCopy<'_>) {
    let Some(copy) = transpose::attempt::<false>(copy).and_then(reversed).and_then(every_second) else {
        return;
    };
    // The inner loop is the one that stays nearer on both sides: of lines that lie far apart L1 keeps few until they are
    // needed again.
    let w = copy.window();
    let reach = |src: isize, dst: isize| src.unsigned_abs().max(dst.unsigned_abs());
    let rows_are_nearer = w.rows > 1 && reach(w.src_row, w.dst_row) < reach(w.src_col, w.dst_col);
    let copy = if rows_are_nearer { copy.swapped() } else { copy };
    match copy.elem() {
        1 => copy.each::<1>(),
        2 => copy.each::<2>(),
        4 => copy.each::<4>(),
        _ => copy.each::<8>(),
    }
}

/// [`body`] for elements of a row that lie one after another on both sides. What lies one prefetch distance from the rows is
/// prefetched first.
#[inline(always)]
pub(crate) fn rows(copy: StridedCopy<'_>) {
    copy.prefetch();
    let copy = copy.merged();
    match copy.elem() {
        16 => copy.each::<16>(),
        32 => copy.each::<32>(),
        64 => copy.each::<64>(),
        128 => copy.each::<128>(),
        _ => copy.each_long(),
    }
}

/// Whether copies are done with non-temporal stores: transposes of whole lines, and elements that suit them.
#[inline]
pub(crate) fn is_streamed(copy: &StridedCopy<'_>, stores: NonTemporal) -> bool {
    copy.suits_non_temporal()
        || transpose::makes_lines(copy)
        || stores.has_vectors() && transpose::makes_near_lines(copy)
}

/// [`body`] with non-temporal stores, of copies that suit them. Those of other levels are not compiled: they take long.
#[inline(always)]
pub(crate) fn non_temporal<L: Level>(level: L, copy: StridedCopy<'_>, stores: NonTemporal) {
    match stores {
        NonTemporal::Sse(stores) if const { !L::PAIRS } => lines(level, copy, stores),
        NonTemporal::Avx(stores) if const { L::PAIRS } => lines(level, copy, stores),
        _ => unreachable!("{stores:?} are no stores of this level"),
    }
}

#[inline(always)]
fn lines<const AVX: bool>(level: impl Level, copy: StridedCopy<'_>, stores: Stores<AVX>) {
    if let Some(copy) = transpose::attempt_non_temporal(level, copy, stores) {
        copy.each_non_temporal(stores);
    }
}

/// Element (r, c) of the source becomes element (r, c) of the destination, byte by byte.
pub(crate) fn scalar(copy: StridedCopy<'_>) {
    copy.for_each(|copy| {
        let (elem, w) = (copy.elem(), copy.window());
        let (src, src_at, dst, dst_at) = copy.into_slices();
        let place = |at: usize, r: usize, row: isize, c: usize, col: isize| {
            at.wrapping_add_signed((r as isize).wrapping_mul(row))
                .wrapping_add_signed((c as isize).wrapping_mul(col))
        };
        for r in 0..w.rows {
            for c in 0..w.cols {
                let from = place(src_at, r, w.src_row, c, w.src_col);
                let to = place(dst_at, r, w.dst_row, c, w.dst_col);
                for byte in 0..elem {
                    dst[to + byte].write(src[from + byte]);
                }
            }
        }
    });
}

/// [`scalar`]: how bytes are stored changes none of them.
pub(crate) fn non_temporal_scalar(copy: StridedCopy<'_>, _stores: NonTemporal) {
    scalar(copy);
}
