//! Transposes of two blocks of 128-bit registers at once, side by side in vectors of 256 bits.
//!
//! `wide` has no shuffles of such vectors in a build for every x86-64. Elements picked from arrays become shuffles where the
//! arrays are made of a vector, and no loop over vectors lies between: hence the steps one by one.

use bytemuck::{Pod, cast};

use crate::memory::Pair;

/// Transposes 16 rows of elements of 1 byte, in both halves.
#[inline(always)]
pub(crate) fn transpose_1(rows: [Pair; 16]) -> [Pair; 16] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = rows;
    let ([a, b], [c, d], [e, f], [g, h]) = (bytes(a, b), bytes(c, d), bytes(e, f), bytes(g, h));
    let ([i, j], [k, l], [m, n], [o, p]) = (bytes(i, j), bytes(k, l), bytes(m, n), bytes(o, p));
    let [a, c, e, g, i, k, m, o] = transpose_2([a, c, e, g, i, k, m, o]);
    let [b, d, f, h, j, l, n, p] = transpose_2([b, d, f, h, j, l, n, p]);
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
}

/// Transposes 8 rows of elements of 2 bytes, in both halves.
#[inline(always)]
pub(crate) fn transpose_2([a, b, c, d, e, f, g, h]: [Pair; 8]) -> [Pair; 8] {
    let ([a, b], [c, d], [e, f], [g, h]) = (halves(a, b), halves(c, d), halves(e, f), halves(g, h));
    let ([a, c], [b, d], [e, g], [f, h]) = (words(a, c), words(b, d), words(e, g), words(f, h));
    let ([a, e], [c, g], [b, f], [d, h]) = (doubles(a, e), doubles(c, g), doubles(b, f), doubles(d, h));
    [a, e, c, g, b, f, d, h]
}

/// Transposes 4 rows of elements of 4 bytes, in both halves.
#[inline(always)]
pub(crate) fn transpose_4([a, b, c, d]: [Pair; 4]) -> [Pair; 4] {
    let ([a, b], [c, d]) = (words(a, b), words(c, d));
    let ([a, c], [b, d]) = (doubles(a, c), doubles(b, d));
    [a, c, b, d]
}

/// Transposes 2 rows of elements of 8 bytes, in both halves.
#[inline(always)]
pub(crate) fn transpose_8([a, b]: [Pair; 2]) -> [Pair; 2] {
    doubles(a, b)
}

/// Pairs of elements of 1 byte, each the first of one vector and that of the other: the even elements, and the odd ones. By shifts, for
/// picking so many elements takes the compiler a quarter of an hour.
#[inline(always)]
fn bytes(a: Pair, b: Pair) -> [Pair; 2] {
    let (a, b): ([u16; 16], [u16; 16]) = (cast(a), cast(b));
    let (mut even, mut odd) = (a, b);
    for i in 0..16 {
        even[i] = a[i] & 0x00FF | b[i] << 8;
        odd[i] = a[i] >> 8 | b[i] & 0xFF00;
    }
    [cast(even), cast(odd)]
}

/// Interleaves elements of 2 bytes of each half: its lower ones, and its upper ones.
#[inline(always)]
fn halves(a: Pair, b: Pair) -> [Pair; 2] {
    const LOWER: [usize; 16] = [0, 16, 1, 17, 2, 18, 3, 19, 8, 24, 9, 25, 10, 26, 11, 27];
    const UPPER: [usize; 16] = [4, 20, 5, 21, 6, 22, 7, 23, 12, 28, 13, 29, 14, 30, 15, 31];
    [pick::<u16, 16>(a, b, LOWER), pick::<u16, 16>(a, b, UPPER)]
}

/// [`halves`] of elements of 4 bytes.
#[inline(always)]
fn words(a: Pair, b: Pair) -> [Pair; 2] {
    const LOWER: [usize; 8] = [0, 8, 1, 9, 4, 12, 5, 13];
    const UPPER: [usize; 8] = [2, 10, 3, 11, 6, 14, 7, 15];
    [pick::<u32, 8>(a, b, LOWER), pick::<u32, 8>(a, b, UPPER)]
}

/// [`halves`] of elements of 8 bytes.
#[inline(always)]
fn doubles(a: Pair, b: Pair) -> [Pair; 2] {
    const LOWER: [usize; 4] = [0, 4, 2, 6];
    const UPPER: [usize; 4] = [1, 5, 3, 7];
    [pick::<u64, 4>(a, b, LOWER), pick::<u64, 4>(a, b, UPPER)]
}

/// These elements of two vectors, those of the second counted behind those of the first.
#[inline(always)]
fn pick<T: Pod, const N: usize>(a: Pair, b: Pair, which: [usize; N]) -> Pair
where
    [T; N]: Pod,
{
    let (a, b): ([T; N], [T; N]) = (cast(a), cast(b));
    let mut picked = a;
    for (element, i) in picked.iter_mut().zip(which) {
        *element = if i < N { a[i] } else { b[i - N] };
    }
    cast(picked)
}
