//! Any number to any float, by way of binary32: one vector step to it, in L1, and one from it.
//!
//! Widening is exact, so that narrowing rounds once. Of binary64 it is not: what a narrower format gets is rounded to odd
//! first (cut, and the last bit set where that lost something). An odd number of 24 bits is on no border between two codes
//! of a format with at most 22, and on the same side of each border as the exact one, so rounding it gives the same code.

use std::mem::MaybeUninit;

use super::lanes::{Bf16, E4M3, E5M2, F16, F32, Lane, Sen169, SenDeeptools, TtE4M3};
use crate::formats::{Integer, Number};

/// Elements on their way at once: 1 KiB of binary32.
const AT_ONCE: usize = 256;

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
    // What binary32 would lose.
    match (from, to) {
        (Source::Number(Number::F64), Number::F32) => return map(src, dst, nearest),
        (Source::Integer(Integer::I64), Number::F64) => return map(src, dst, double_of_i64),
        (Source::Integer(Integer::U64), Number::F64) => return map(src, dst, double_of_u64),
        (Source::Integer(Integer::I32), Number::F64) => return map(src, dst, double_of_i32),
        (Source::Integer(Integer::U32), Number::F64) => return map(src, dst, double_of_u32),
        _ => {}
    }
    let mut floats = [0; AT_ONCE];
    for (src, dst) in src.chunks(AT_ONCE * from.size()).zip(dst.chunks_mut(AT_ONCE * to.size())) {
        let floats = &mut floats[..src.len() / from.size()];
        widen(from, src, floats);
        narrow(to, floats, dst);
    }
}

/// Each element by `f`.
#[inline(always)]
fn map<const M: usize, const N: usize>(
    src: &[u8],
    dst: &mut [MaybeUninit<u8>],
    f: impl Fn([u8; M]) -> [u8; N],
) {
    for (to, from) in dst.as_chunks_mut().0.iter_mut().zip(src.as_chunks().0) {
        *to = f(*from).map(MaybeUninit::new);
    }
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
fn widen(from: Source, src: &[u8], floats: &mut [u32]) {
    #[inline(always)]
    fn each<const N: usize>(src: &[u8], floats: &mut [u32], f: impl Fn([u8; N]) -> u32) {
        for (float, x) in floats.iter_mut().zip(src.as_chunks().0) {
            *float = f(*x);
        }
    }
    match from {
        Source::Number(number) => match number {
            Number::F64 => each(src, floats, odd),
            Number::F32 => each(src, floats, F32::widen),
            Number::F16 => each(src, floats, F16::widen),
            Number::Bf16 => each(src, floats, Bf16::widen),
            Number::E4M3 => each(src, floats, E4M3::widen),
            Number::E5M2 => each(src, floats, E5M2::widen),
            Number::TtE4M3 => each(src, floats, TtE4M3::widen),
            Number::Sen169 => each(src, floats, Sen169::widen),
            Number::Sen169Deeptools => each(src, floats, SenDeeptools::widen),
        },
        Source::Integer(integer) => match integer {
            Integer::I64 => each(src, floats, float_of_i64),
            Integer::I32 => each(src, floats, float_of_i32),
            Integer::I16 => each(src, floats, float_of_i16),
            Integer::I8 => each(src, floats, float_of_i8),
            Integer::U64 => each(src, floats, float_of_u64),
            Integer::U32 => each(src, floats, float_of_u32),
            Integer::U16 => each(src, floats, float_of_u16),
            Integer::U8 => each(src, floats, float_of_u8),
        },
        Source::Truth => each(src, floats, float_of_truth),
    }
}

#[inline(always)]
fn narrow(to: Number, floats: &[u32], dst: &mut [MaybeUninit<u8>]) {
    #[inline(always)]
    fn each<const N: usize>(floats: &[u32], dst: &mut [MaybeUninit<u8>], f: impl Fn(u32) -> [u8; N]) {
        for (to, float) in dst.as_chunks_mut().0.iter_mut().zip(floats) {
            *to = f(*float).map(MaybeUninit::new);
        }
    }
    match to {
        Number::F64 => each(floats, dst, exact),
        Number::F32 => each(floats, dst, F32::narrow),
        Number::F16 => each(floats, dst, F16::narrow),
        Number::Bf16 => each(floats, dst, Bf16::narrow),
        Number::E4M3 => each(floats, dst, E4M3::narrow),
        Number::E5M2 => each(floats, dst, E5M2::narrow),
        Number::TtE4M3 => each(floats, dst, TtE4M3::narrow),
        Number::Sen169 => each(floats, dst, Sen169::narrow),
        Number::Sen169Deeptools => each(floats, dst, SenDeeptools::narrow),
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
fn exact(bits: u32) -> [u8; 8] {
    let value = f64::from(f32::from_bits(bits)).to_bits();
    let nan = u64::from(bits >> 31) << 63 | INFINITY | u64::from(bits & 0x7F_FFFF) << 29;
    let value = if bits & !(1 << 31) > 255 << 23 { nan } else { value };
    value.to_le_bytes()
}
