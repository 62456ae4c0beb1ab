//! Any number to any float, by way of binary32: one vector step to it, in L1, and one from it.
//!
//! Widening is exact, so that narrowing rounds once. Of binary64 it is not: what a narrower format gets is rounded to odd
//! first (cut, and the last bit set where that lost something). An odd number of 24 bits is on no border between two codes
//! of a format with at most 22, and on the same side of each border as the exact one, so rounding it gives the same code.

use std::mem::MaybeUninit;

use super::lanes::{Bf16, E4M3, E5M2, F16, F32, Lane, Sen169, SenDeeptools, TtE4M3, Values, truncated};
use super::steps::{E4M3To, Step};
use crate::formats::{Integer, Number};
use crate::level::{Level, part};
use crate::memory::{load_rows, store_rows};

/// Elements on their way at once, those of a stick. As the compiler knows how many, it clears no room for them and leaves no rest
/// of a vector: with loops over up to 256 elements a stick took three times as long.
const AT_ONCE: usize = 64;

/// The loops of one source format, a part of their own.
macro_rules! from {
    ($level:expr, $format:ty, $to:expr, $src:expr, $dst:expr) => {
        part!($level, to_any::<$format, _>($to, $src, $dst))
    };
}

/// A loop of one pair of formats.
macro_rules! each_by {
    ($level:expr, $f:expr, $src:expr, $dst:expr) => {
        part!($level, blocks($src, $dst, each($f)))
    };
}

/// Converts floats that lie one after another on both sides; not from binary16 to the vendor's SEN169 or back, which have
/// rules of their own.
#[inline(always)]
pub(crate) fn convert(level: impl Level, from: Number, to: Number, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
    #[inline(never)]
    fn sticks(level: impl Level, from: Number, to: Number, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
        match (from, to) {
            // What binary32 would lose.
            (Number::F64, Number::F32) => part!(level, blocks(src, dst, mostly(quick::nearest, nearest))),
            // What is exact in the upper half of a binary32 is cut there, and not rounded.
            (Number::TtE4M3, Number::Bf16) => each_by!(level, upper_half(TtE4M3::widen), src, dst),
            (Number::F64, _) => from!(level, F64, to, src, dst),
            (Number::F32, _) => from!(level, F32, to, src, dst),
            (Number::F16, _) => from!(level, F16, to, src, dst),
            (Number::Bf16, _) => from!(level, Bf16, to, src, dst),
            (Number::E4M3, _) => from!(level, E4M3, to, src, dst),
            (Number::E5M2, _) => from!(level, E5M2, to, src, dst),
            (Number::TtE4M3, _) => from!(level, TtE4M3, to, src, dst),
            (Number::Sen169, _) => from!(level, Sen169, to, src, dst),
            (Number::Sen169Deeptools, _) => from!(level, SenDeeptools, to, src, dst),
        }
    }
    let sticks = |src: &[u8], dst: &mut [MaybeUninit<u8>]| sticks(level, from, to, src, dst);
    at_once((src, from.size()), (dst, to.size()), sticks);
}

/// [`convert`] of whole numbers, each of which becomes the nearest binary32 first.
#[inline(always)]
pub(crate) fn convert_integers(
    level: impl Level,
    from: Integer,
    to: Number,
    src: &[u8],
    dst: &mut [MaybeUninit<u8>],
) {
    #[inline(never)]
    fn sticks(level: impl Level, from: Integer, to: Number, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
        match (from, to) {
            // What binary32 would lose.
            (Integer::I64, Number::F64) => each_by!(level, double_of_i64, src, dst),
            (Integer::U64, Number::F64) => each_by!(level, double_of_u64, src, dst),
            (Integer::I32, Number::F64) => each_by!(level, double_of_i32, src, dst),
            (Integer::U32, Number::F64) => each_by!(level, double_of_u32, src, dst),
            (Integer::I64, _) => from!(level, i64, to, src, dst),
            (Integer::I32, _) => from!(level, i32, to, src, dst),
            (Integer::I16, _) => from!(level, i16, to, src, dst),
            (Integer::I8, _) => from!(level, i8, to, src, dst),
            (Integer::U64, _) => from!(level, u64, to, src, dst),
            (Integer::U32, _) => from!(level, u32, to, src, dst),
            (Integer::U16, _) => from!(level, u16, to, src, dst),
            (Integer::U8, _) => from!(level, u8, to, src, dst),
        }
    }
    let sticks = |src: &[u8], dst: &mut [MaybeUninit<u8>]| sticks(level, from, to, src, dst);
    at_once((src, from.size()), (dst, to.size()), sticks);
}

/// [`convert`] of bytes of which 0 becomes 0 and any other 1.
#[inline(always)]
pub(crate) fn convert_truths(level: impl Level, to: Number, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
    let sticks = |src: &[u8], dst: &mut [MaybeUninit<u8>]| from!(level, Truth, to, src, dst);
    at_once((src, 1), (dst, to.size()), sticks);
}

/// Calls `sticks` with elements of so many bytes on either side, [`AT_ONCE`] or more.
#[inline(always)]
fn at_once(
    (src, size): (&[u8], usize),
    (dst, room): (&mut [MaybeUninit<u8>], usize),
    sticks: impl Fn(&[u8], &mut [MaybeUninit<u8>]),
) {
    let count = src.len() / size;
    if count >= AT_ONCE {
        return sticks(src, dst);
    }
    let (mut codes, mut out) = ([0; 8 * AT_ONCE], [MaybeUninit::uninit(); 8 * AT_ONCE]);
    codes[..count * size].copy_from_slice(&src[..count * size]);
    sticks(&codes[..AT_ONCE * size], &mut out[..AT_ONCE * room]);
    dst[..count * room].copy_from_slice(&out[..count * room]);
}

/// A stick's elements of a format as binary32.
trait Widen<const N: usize> {
    fn to_floats(codes: &[[u8; N]; AT_ONCE]) -> [u32; AT_ONCE];
}

/// A stick's elements of a format, from binary32.
trait Narrow<const N: usize> {
    fn of_floats(floats: &[u32; AT_ONCE]) -> [[u8; N]; AT_ONCE];
}

macro_rules! widen_each {
    ($($format:ident: $size:literal),*) => {
        $(impl Widen<$size> for $format {
            #[inline(always)]
            fn to_floats(codes: &[[u8; $size]; AT_ONCE]) -> [u32; AT_ONCE] {
                each($format::widen)(codes)
            }
        })*
    };
}
widen_each!(F32: 4, F16: 2, Bf16: 2, E5M2: 1, TtE4M3: 1, Sen169: 2, SenDeeptools: 2);

impl Widen<1> for E4M3 {
    /// By way of bfloat16, which is found byte by byte.
    #[inline(always)]
    fn to_floats(codes: &[[u8; 1]; AT_ONCE]) -> [u32; AT_ONCE] {
        // Numbers of 16 bits before they grow: of two bytes that are put into four the compiler makes single ones.
        let halves: [u16; AT_ONCE] = bytemuck::cast(E4M3To::<Bf16>::some(codes));
        each(
            #[inline(always)]
            |half| u32::from(u16::from_le(half)) << 16,
        )(&halves)
    }
}

impl<L: Lane<N>, const N: usize> Narrow<N> for L {
    #[inline(always)]
    fn of_floats(floats: &[u32; AT_ONCE]) -> [[u8; N]; AT_ONCE] {
        // Two loops, as in [`By`](super::steps::By).
        let codes = each(L::code)(floats);
        each(truncated)(&codes)
    }
}

/// binary64, which is no [`Lane`]: it does not widen to binary32.
struct F64;

impl Widen<8> for F64 {
    #[inline(always)]
    fn to_floats(codes: &[[u8; 8]; AT_ONCE]) -> [u32; AT_ONCE] {
        mostly(quick::odd, odd)(codes)
    }
}

impl Narrow<8> for F64 {
    #[inline(always)]
    fn of_floats(floats: &[u32; AT_ONCE]) -> [[u8; 8]; AT_ONCE] {
        mostly(quick::exact, exact)(floats)
    }
}

/// Bytes of which 0 is false.
struct Truth;

impl Widen<1> for Truth {
    #[inline(always)]
    fn to_floats(codes: &[[u8; 1]; AT_ONCE]) -> [u32; AT_ONCE] {
        each(float_of_truth)(codes)
    }
}

/// From one format to any.
#[inline(always)]
fn to_any<S: Widen<M>, const M: usize>(to: Number, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
    match to {
        Number::F64 => through::<S, F64, M, 8>(src, dst),
        Number::F32 => through::<S, F32, M, 4>(src, dst),
        Number::F16 => through::<S, F16, M, 2>(src, dst),
        Number::Bf16 => through::<S, Bf16, M, 2>(src, dst),
        Number::E4M3 => through::<S, E4M3, M, 1>(src, dst),
        Number::E5M2 => through::<S, E5M2, M, 1>(src, dst),
        Number::TtE4M3 => through::<S, TtE4M3, M, 1>(src, dst),
        Number::Sen169 => through::<S, Sen169, M, 2>(src, dst),
        Number::Sen169Deeptools => through::<S, SenDeeptools, M, 2>(src, dst),
    }
}

#[inline(always)]
fn through<S: Widen<M>, D: Narrow<N>, const M: usize, const N: usize>(
    src: &[u8],
    dst: &mut [MaybeUninit<u8>],
) {
    blocks(
        src,
        dst,
        #[inline(always)]
        |codes| D::of_floats(&S::to_floats(codes)),
    );
}

/// Converts [`AT_ONCE`] elements at a time. The last ones repeat elements of those before.
#[inline(always)]
fn blocks<const M: usize, const N: usize>(
    src: &[u8],
    dst: &mut [MaybeUninit<u8>],
    f: impl Fn(&[[u8; M]; AT_ONCE]) -> [[u8; N]; AT_ONCE],
) {
    let count = src.len() / M;
    let mut at = 0;
    while at < count {
        at = at.min(count - AT_ONCE);
        let [codes]: [[_; AT_ONCE]; 1] = load_rows(src, at * M, 0);
        store_rows(&[f(&codes)], dst, at * N, 0);
        at += AT_ONCE;
    }
}

/// Each of a stick's elements by `f`.
// Of two zipped iterators LLVM computed the lengths again in some functions, and no longer knew them.
#[allow(clippy::needless_range_loop, reason = "see above")]
#[inline(always)]
fn each<A: Copy, B: Copy>(f: impl Fn(A) -> B) -> impl Fn(&[A; AT_ONCE]) -> [B; AT_ONCE] {
    #[inline(always)]
    move |codes| {
        let mut out = [f(codes[0]); AT_ONCE];
        for i in 0..AT_ONCE {
            out[i] = f(codes[i]);
        }
        out
    }
}

/// The same by a quicker way, unless that fails for one of them.
#[allow(clippy::needless_range_loop, reason = "as above")]
#[inline(always)]
fn mostly<A: Copy, B: Copy>(
    quick: impl Fn(A) -> (B, bool),
    f: impl Fn(A) -> B,
) -> impl Fn(&[A; AT_ONCE]) -> [B; AT_ONCE] {
    #[inline(always)]
    move |codes| {
        let (mut out, mut holds) = ([f(codes[0]); AT_ONCE], true);
        for i in 0..AT_ONCE {
            let held;
            (out[i], held) = quick(codes[i]);
            holds &= held;
        }
        if !holds {
            for i in 0..AT_ONCE {
                out[i] = f(codes[i]);
            }
        }
        out
    }
}

/// The bfloat16 of what widens to one exactly.
#[inline(always)]
fn upper_half(widen: impl Fn([u8; 1]) -> u32) -> impl Fn([u8; 1]) -> [u8; 2] {
    #[inline(always)]
    move |code| Bf16::narrow_exact(widen(code))
}

/// The nearest floats of whole numbers, by functions that are compiled for the level of their caller.
macro_rules! nearest_of {
    ($($integer:ident $(: $binary64:ident)?;)*) => {
        $(
            impl Widen<{ size_of::<$integer>() }> for $integer {
                #[inline(always)]
                #[allow(clippy::cast_lossless, reason = "of some types, not of others")]
                fn to_floats(codes: &[[u8; size_of::<$integer>()]; AT_ONCE]) -> [u32; AT_ONCE] {
                    each(
                        #[inline(always)]
                        |x| ($integer::from_le_bytes(x) as f32).to_bits(),
                    )(codes)
                }
            }

            $(
                #[inline(always)]
                #[allow(clippy::cast_lossless, reason = "of some types, not of others")]
                fn $binary64(x: [u8; size_of::<$integer>()]) -> [u8; 8] {
                    ($integer::from_le_bytes(x) as f64).to_le_bytes()
                }
            )?
        )*
    };
}

nearest_of! {
    i64: double_of_i64;
    i32: double_of_i32;
    i16;
    i8;
    u64: double_of_u64;
    u32: double_of_u32;
    u16;
    u8;
}

#[inline(always)]
fn float_of_truth([x]: [u8; 1]) -> u32 {
    if x == 0 { 0 } else { 1.0_f32.to_bits() }
}

/// The fraction of a binary64, and its exponent where it is infinite.
const FRACTION: u64 = (1 << 52) - 1;
const INFINITY: u64 = 0x7FF << 52;

/// Sign and payload of a NaN of binary64, in binary32.
#[inline(always)]
fn nan(bits: u64) -> u32 {
    let payload = (bits & FRACTION) >> 29;
    let payload = if payload == 0 { 1 << 22 } else { payload };
    (bits >> 32) as u32 & 1 << 31 | 255 << 23 | payload as u32
}

/// The nearest binary32, ties to even.
#[inline(always)]
fn nearest(x: [u8; 8]) -> [u8; 4] {
    let bits = u64::from_le_bytes(x);
    let rounded = (f64::from_bits(bits) as f32).to_bits();
    let rounded = if bits & !(1 << 63) > INFINITY { nan(bits) } else { rounded };
    rounded.to_le_bytes()
}

/// The binary32 that is cut from a binary64, with the last bit set where that loses something; a NaN for a NaN.
#[inline(always)]
fn odd(x: [u8; 8]) -> u32 {
    let bits = u64::from_le_bytes(x);
    let magnitude = bits & !(1 << 63);
    let rounded = (f64::from_bits(magnitude) as f32).to_bits();
    let back = f64::from(f32::from_bits(rounded)).to_bits();
    // Positive numbers are in the order of their codes.
    let cut = rounded.wrapping_sub(u32::from(back > magnitude)) | u32::from(back != magnitude);
    let cut = if magnitude > INFINITY { 0x7FC0_0000 } else { cut };
    cut | (bits >> 32) as u32 & 1 << 31
}

/// The same value as binary64; a NaN keeps sign and payload.
#[inline(always)]
fn exact(bits: u32) -> [u8; 8] {
    let value = f64::from(f32::from_bits(bits)).to_bits();
    let nan = u64::from(bits >> 31) << 63 | INFINITY | u64::from(bits & 0x7F_FFFF) << 29;
    let value = if bits & !(1 << 31) > 255 << 23 { nan } else { value };
    value.to_le_bytes()
}

/// What holds for most numbers, in half of the instructions: the result, and whether it is that of the function with the same name.
mod quick {
    const SIGN: u32 = 1 << 31;
    const INFINITY: u32 = 255 << 23;

    /// For all but NaN.
    #[inline(always)]
    pub(super) fn nearest(x: [u8; 8]) -> ([u8; 4], bool) {
        let rounded = (f64::from_le_bytes(x) as f32).to_bits();
        (rounded.to_le_bytes(), rounded & !SIGN <= INFINITY)
    }

    /// For all but NaN.
    #[inline(always)]
    pub(super) fn exact(bits: u32) -> ([u8; 8], bool) {
        (f64::from(f32::from_bits(bits)).to_le_bytes(), bits & !SIGN <= INFINITY)
    }

    /// For what is more than the least normal number of binary32, and for what is so small that it becomes zero, as it does in
    /// narrower formats.
    #[inline(always)]
    pub(super) fn odd(x: [u8; 8]) -> (u32, bool) {
        // What is cut: the carry of any bit of it is the last bit that stays.
        const CUT: u64 = (1 << 29) - 1;
        let bits = u64::from_le_bytes(x);
        let odd = (bits | ((bits & CUT) + CUT)) & !CUT;
        let out = (f64::from_bits(odd) as f32).to_bits();
        let magnitude = out & !SIGN;
        // What is not more than the least normal number may have been rounded to it.
        let normal = magnitude.wrapping_sub((1 << 23) + 1) < (254 << 23) - 1;
        (out, normal | (magnitude == 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quick_holds_where_it_says_so() {
        // Each exponent, and fractions around every place that is cut or rounded.
        let around = |place: u32| [(1_u64 << place) - 1, 1 << place, (1 << place) + 1, 3 << place];
        let fractions: Vec<u64> = (0..=52_u32).flat_map(around).collect();
        for exponent in (0..2048_u64).step_by(if cfg!(miri) { 127 } else { 1 }) {
            for fraction in fractions.iter().map(|fraction| fraction & FRACTION) {
                for sign in [0, 1 << 63] {
                    let bits = sign | exponent << 52 | fraction;
                    let x = bits.to_le_bytes();
                    let (near, held) = quick::odd(x);
                    let far = odd(x);
                    // What becomes zero is less than half of any other format's smallest number, and so is the odd one.
                    let vanishes = near << 1 == 0 && far & !(1 << 31) <= 1 && near >> 31 == far >> 31;
                    assert!(!held || near == far || vanishes, "{bits:#x}: {near:#x} for {far:#x}");
                    assert!(held || !(898..1151).contains(&exponent), "{bits:#x}");
                    let (rounded, held) = quick::nearest(x);
                    assert!(!held || rounded == nearest(x), "{bits:#x}");
                    let binary32 = (bits >> 32) as u32;
                    let (wide, held) = quick::exact(binary32);
                    assert!(!held || wide == exact(binary32), "{binary32:#x}");
                }
            }
        }
    }
}
