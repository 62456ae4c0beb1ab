//! Any number to any float, by way of binary32: one vector step to it, in L1, and one from it.
//!
//! Widening is exact, so that narrowing rounds once. Of binary64 it is not: what a narrower format gets is rounded to odd
//! first (cut, and the last bit set where that lost something). An odd number of 24 bits is on no border between two codes
//! of a format with at most 22, and on the same side of each border as the exact one, so rounding it gives the same code.

use std::mem::MaybeUninit;

use super::lanes::{Bf16, E4M3, E5M2, F16, F32, Lane, Sen169, SenDeeptools, TtE4M3};
use crate::formats::{Integer, Number};
use crate::memory::{as_written, load_rows, store_rows};

/// Elements on their way at once, those of a stick. As the compiler knows how many, it clears no room for them and leaves no rest
/// of a vector: with loops over up to 256 elements a stick took three times as long.
const AT_ONCE: usize = 64;

/// What elements are before they are converted to floats.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// Floats.
    Number(Number),
    /// Whole numbers, each of which becomes the nearest binary32 first.
    Integer(Integer),
    /// Bytes of which 0 becomes 0 and any other 1.
    Truth,
}

impl Source {
    #[inline(always)]
    fn size(self) -> usize {
        match self {
            Source::Number(number) => number.size(),
            Source::Integer(integer) => integer.size(),
            Source::Truth => 1,
        }
    }
}

/// Converts elements that lie one after another on both sides; not from binary16 to the vendor's SEN169 or back, which have
/// rules of their own.
#[inline(always)]
pub(crate) fn convert(from: Source, to: Number, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
    let (size, room) = (from.size(), to.size());
    let count = src.len() / size;
    if count < AT_ONCE {
        let (mut codes, mut out) = ([0; 8 * AT_ONCE], [MaybeUninit::uninit(); 8 * AT_ONCE]);
        codes[..count * size].copy_from_slice(&src[..count * size]);
        stick(from, to, &codes, &mut out);
        dst[..count * room].copy_from_slice(&out[..count * room]);
        return;
    }
    let mut at = 0;
    while at < count {
        // The last ones repeat elements of those before.
        at = at.min(count - AT_ONCE);
        stick(from, to, &src[at * size..], &mut dst[at * room..]);
        at += AT_ONCE;
    }
}

/// Converts the first [`AT_ONCE`] elements.
#[inline(always)]
fn stick(from: Source, to: Number, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
    match (from, to) {
        // What binary32 would lose.
        (Source::Number(Number::F64), Number::F32) => mostly(src, dst, quick::nearest, nearest),
        (Source::Integer(Integer::I64), Number::F64) => each(src, dst, double_of_i64),
        (Source::Integer(Integer::U64), Number::F64) => each(src, dst, double_of_u64),
        (Source::Integer(Integer::I32), Number::F64) => each(src, dst, double_of_i32),
        (Source::Integer(Integer::U32), Number::F64) => each(src, dst, double_of_u32),
        // What is exact in half of a binary32: from f8e4m3 this has twice the speed of a step there and one back.
        // Of integers it has too, but with more cases for them i32 to f32 has four fifths of its speed.
        (Source::Number(Number::E4M3), Number::Bf16) => each(src, dst, upper_half(E4M3::widen)),
        (Source::Number(Number::TtE4M3), Number::Bf16) => each(src, dst, upper_half(TtE4M3::widen)),
        _ => {
            let mut floats = [0; 4 * AT_ONCE];
            let to_floats = to == Number::F32;
            let of_floats = matches!(from, Source::Number(Number::F32)) && !to_floats;
            if !of_floats {
                widen(from, src, if to_floats { &mut *dst } else { as_written(&mut floats) });
            }
            if !to_floats {
                narrow(to, if of_floats { src } else { &floats }, dst);
            }
        }
    }
}

/// Each of the first [`AT_ONCE`] elements by `f`, by way of registers.
#[inline(always)]
fn each<const M: usize, const N: usize>(
    src: &[u8],
    dst: &mut [MaybeUninit<u8>],
    f: impl Fn([u8; M]) -> [u8; N],
) {
    let [codes]: [[_; AT_ONCE]; 1] = load_rows(src, 0, 0);
    let mut out = [[0; N]; AT_ONCE];
    for (out, code) in out.iter_mut().zip(&codes) {
        *out = f(*code);
    }
    store_rows(&[out], dst, 0, 0);
}

/// The same by a quicker way, unless that fails for one of them.
#[inline(always)]
fn mostly<const M: usize, const N: usize>(
    src: &[u8],
    dst: &mut [MaybeUninit<u8>],
    quick: impl Fn([u8; M]) -> ([u8; N], bool),
    f: impl Fn([u8; M]) -> [u8; N],
) {
    let [codes]: [[_; AT_ONCE]; 1] = load_rows(src, 0, 0);
    let (mut out, mut holds) = ([[0; N]; AT_ONCE], true);
    for (out, code) in out.iter_mut().zip(&codes) {
        let held;
        (*out, held) = quick(*code);
        holds &= held;
    }
    if !holds {
        for (out, code) in out.iter_mut().zip(&codes) {
            *out = f(*code);
        }
    }
    store_rows(&[out], dst, 0, 0);
}

/// The bfloat16 of what widens to one exactly.
#[inline(always)]
fn upper_half(widen: impl Fn([u8; 1]) -> u32) -> impl Fn([u8; 1]) -> [u8; 2] {
    #[inline(always)]
    move |code| Bf16::narrow_exact(widen(code))
}

/// The nearest floats of whole numbers, as functions that are compiled for the level of their caller.
macro_rules! nearest_of {
    ($($integer:ident: $binary32:ident $(, $binary64:ident)?;)*) => {
        $(
            #[inline(always)]
            #[allow(clippy::cast_lossless, reason = "of some types, not of others")]
            fn $binary32(x: [u8; size_of::<$integer>()]) -> u32 {
                ($integer::from_le_bytes(x) as f32).to_bits()
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
    i64: float_of_i64, double_of_i64;
    i32: float_of_i32, double_of_i32;
    i16: float_of_i16;
    i8: float_of_i8;
    u64: float_of_u64, double_of_u64;
    u32: float_of_u32, double_of_u32;
    u16: float_of_u16;
    u8: float_of_u8;
}

#[inline(always)]
fn float_of_truth([x]: [u8; 1]) -> u32 {
    if x == 0 { 0 } else { 1.0_f32.to_bits() }
}

#[inline(always)]
fn widen(from: Source, src: &[u8], floats: &mut [MaybeUninit<u8>]) {
    #[inline(always)]
    fn lanes<const N: usize>(src: &[u8], floats: &mut [MaybeUninit<u8>], widen: impl Fn([u8; N]) -> u32) {
        each(
            src,
            floats,
            #[inline(always)]
            |code| widen(code).to_le_bytes(),
        );
    }
    match from {
        Source::Number(number) => match number {
            Number::F64 => mostly(src, floats, quick::odd, |x| odd(x).to_le_bytes()),
            Number::F32 => lanes(src, floats, F32::widen),
            Number::F16 => lanes(src, floats, F16::widen),
            Number::Bf16 => lanes(src, floats, Bf16::widen),
            Number::E4M3 => lanes(src, floats, E4M3::widen),
            Number::E5M2 => lanes(src, floats, E5M2::widen),
            Number::TtE4M3 => lanes(src, floats, TtE4M3::widen),
            Number::Sen169 => lanes(src, floats, Sen169::widen),
            Number::Sen169Deeptools => lanes(src, floats, SenDeeptools::widen),
        },
        Source::Integer(integer) => match integer {
            Integer::I64 => lanes(src, floats, float_of_i64),
            Integer::I32 => lanes(src, floats, float_of_i32),
            Integer::I16 => lanes(src, floats, float_of_i16),
            Integer::I8 => lanes(src, floats, float_of_i8),
            Integer::U64 => lanes(src, floats, float_of_u64),
            Integer::U32 => lanes(src, floats, float_of_u32),
            Integer::U16 => lanes(src, floats, float_of_u16),
            Integer::U8 => lanes(src, floats, float_of_u8),
        },
        Source::Truth => lanes(src, floats, float_of_truth),
    }
}

#[inline(always)]
fn narrow(to: Number, floats: &[u8], dst: &mut [MaybeUninit<u8>]) {
    #[inline(always)]
    fn lanes<const N: usize>(floats: &[u8], dst: &mut [MaybeUninit<u8>], narrow: impl Fn(u32) -> [u8; N]) {
        each(
            floats,
            dst,
            #[inline(always)]
            |float| narrow(u32::from_le_bytes(float)),
        );
    }
    match to {
        Number::F64 => mostly(floats, dst, quick::exact, exact),
        Number::F32 => lanes(floats, dst, F32::narrow),
        Number::F16 => lanes(floats, dst, F16::narrow),
        Number::Bf16 => lanes(floats, dst, Bf16::narrow),
        Number::E4M3 => lanes(floats, dst, E4M3::narrow),
        Number::E5M2 => lanes(floats, dst, E5M2::narrow),
        Number::TtE4M3 => lanes(floats, dst, TtE4M3::narrow),
        Number::Sen169 => lanes(floats, dst, Sen169::narrow),
        Number::Sen169Deeptools => lanes(floats, dst, SenDeeptools::narrow),
    }
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
fn exact(bits: [u8; 4]) -> [u8; 8] {
    let bits = u32::from_le_bytes(bits);
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
    pub(super) fn exact(bits: [u8; 4]) -> ([u8; 8], bool) {
        let bits = u32::from_le_bytes(bits);
        (f64::from(f32::from_bits(bits)).to_le_bytes(), bits & !SIGN <= INFINITY)
    }

    /// For what is more than the least normal number of binary32, and for what is so small that it becomes zero, as it does in
    /// narrower formats.
    #[inline(always)]
    pub(super) fn odd(x: [u8; 8]) -> ([u8; 4], bool) {
        // What is cut: the carry of any bit of it is the last bit that stays.
        const CUT: u64 = (1 << 29) - 1;
        let bits = u64::from_le_bytes(x);
        let odd = (bits | ((bits & CUT) + CUT)) & !CUT;
        let out = (f64::from_bits(odd) as f32).to_bits();
        let magnitude = out & !SIGN;
        // What is not more than the least normal number may have been rounded to it.
        let normal = magnitude.wrapping_sub((1 << 23) + 1) < (254 << 23) - 1;
        (out.to_le_bytes(), normal | (magnitude == 0))
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
                    let (odd_of, held) = quick::odd(x);
                    let (near, far) = (u32::from_le_bytes(odd_of), odd(x));
                    // What becomes zero is less than half of any other format's smallest number, and so is the odd one.
                    let vanishes = near << 1 == 0 && far & !(1 << 31) <= 1 && near >> 31 == far >> 31;
                    assert!(!held || near == far || vanishes, "{bits:#x}: {near:#x} for {far:#x}");
                    assert!(held || !(898..1151).contains(&exponent), "{bits:#x}");
                    let (rounded, held) = quick::nearest(x);
                    assert!(!held || rounded == nearest(x), "{bits:#x}");
                    let binary32 = (bits >> 32) as u32;
                    let (wide, held) = quick::exact(binary32.to_le_bytes());
                    assert!(!held || wide == exact(binary32.to_le_bytes()), "{binary32:#x}");
                }
            }
        }
    }
}
