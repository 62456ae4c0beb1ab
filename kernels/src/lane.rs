//! Formats that widen to binary32 exactly, by arithmetic that compilers turn into vector code.
//!
//! Each rule is [`Number::convert`](crate::Number::convert)'s, stated without branches or loops. As widening is exact, narrowing what was
//! widened rounds once, so these four formats convert among each other through binary32.

use std::mem::MaybeUninit;

use wide::{i16x8, u32x4, u64x2};

/// A format of `N` bytes an element, little-endian.
pub(crate) trait Lane<const N: usize> {
    /// Whether significands have at most 11 bits.
    const SHORT: bool = N <= 2;
    /// The binary32 bits of the same value; NaN keeps sign and payload where the format has them.
    fn widen(code: [u8; N]) -> u32;
    /// The code nearest to a binary32, given by its bits.
    fn narrow(bits: u32) -> [u8; N];
    /// The same, where the only NaN is `0x7FC00000`.
    #[inline(always)]
    fn narrow_quiet(bits: u32) -> [u8; N] {
        Self::narrow(bits)
    }
    /// The same for a number that is exact as bfloat16, or infinite.
    #[inline(always)]
    fn narrow_exact(bits: u32) -> [u8; N] {
        Self::narrow(bits)
    }
}

/// A lane of which block formats are packed, 16 elements at a time.
pub(crate) trait Peak<const N: usize>: Lane<N> {
    /// Four pairs of numbers, none negative: the largest of the firsts is the upper 16 bits of the largest magnitude in
    /// `a`, the largest of the seconds that in `b`.
    fn peaks(a: &[[u8; N]; 16], b: &[[u8; N]; 16]) -> i16x8;

    /// The upper 16 bits, as binary32, of a magnitude with these upper 16 bits.
    fn upper(peak: u16) -> u32;

    /// Its exponent field as binary32.
    #[inline(always)]
    fn exponent(peak: u16) -> u32 {
        Self::upper(peak) >> 7
    }

    /// Each element rounded to a multiple of the last place of `anchor` by `sum`, which adds the element, scaled, to the anchor:
    /// how many, as i8, saturating. `anchor` is 1.5 times a power of two; beyond half of that, the result means nothing.
    #[inline(always)]
    fn multiples(group: &[[u8; N]; 16], anchor: f32, sum: impl Fn(f32) -> f32) -> [u8; 16] {
        let mut multiples = [0; 16];
        for (multiple, x) in multiples.iter_mut().zip(group) {
            let sum = sum(f32::from_bits(Self::widen(*x)));
            let count = sum.to_bits() as i32 - anchor.to_bits() as i32;
            *multiple = count.clamp(-128, 127) as u8;
        }
        multiples
    }
}

/// The largest of each of eight groups, from those of pairs.
#[inline(always)]
pub(crate) fn largest(pairs: [i16x8; 4]) -> [u16; 8] {
    // Unpacking two vectors puts their lanes side by side; the larger ones are half as many.
    let two = |a: i16x8, b: i16x8| -> i16x8 {
        let (a, b): (u32x4, u32x4) = (bytemuck::cast(a), bytemuck::cast(b));
        let (low, high) = (a.unpack_lo(b), a.unpack_hi(b));
        bytemuck::cast::<_, i16x8>(low).max(bytemuck::cast(high))
    };
    let four = |a: i16x8, b: i16x8| -> i16x8 {
        let (a, b): (u64x2, u64x2) = (bytemuck::cast(a), bytemuck::cast(b));
        let (low, high) = (a.unpack_lo(b), a.unpack_hi(b));
        bytemuck::cast::<_, i16x8>(low).max(bytemuck::cast(high))
    };
    bytemuck::cast(four(two(pairs[0], pairs[1]), two(pairs[2], pairs[3])))
}

pub(crate) struct F32;
pub(crate) struct Bf16;
pub(crate) struct F16;
pub(crate) struct Sen169;

const SIGN: u32 = 1 << 31;
const INFINITY: u32 = 255 << 23;

impl Lane<4> for F32 {
    #[inline(always)]
    fn widen(code: [u8; 4]) -> u32 {
        u32::from_le_bytes(code)
    }

    #[inline(always)]
    fn narrow(bits: u32) -> [u8; 4] {
        bits.to_le_bytes()
    }
}

impl Lane<2> for Bf16 {
    #[inline(always)]
    fn widen(code: [u8; 2]) -> u32 {
        u32::from(u16::from_le_bytes(code)) << 16
    }

    #[inline(always)]
    fn narrow(bits: u32) -> [u8; 2] {
        let rounded = u16::from_le_bytes(Self::narrow_quiet(bits));
        let code = if bits & !SIGN > INFINITY { 0x7FC0 } else { rounded };
        code.to_le_bytes()
    }

    #[inline(always)]
    fn narrow_quiet(bits: u32) -> [u8; 2] {
        let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
        (rounded as u16).to_le_bytes()
    }

    #[inline(always)]
    fn narrow_exact(bits: u32) -> [u8; 2] {
        ((bits >> 16) as u16).to_le_bytes()
    }
}

impl Lane<2> for F16 {
    #[inline(always)]
    fn widen(code: [u8; 2]) -> u32 {
        let code = u32::from(u16::from_le_bytes(code));
        let magnitude = (code & 0x7FFF) << 13;
        let normal = magnitude + (112 << 23);
        let special = magnitude + (224 << 23);
        // A subnormal is a fraction under the exponent of 2^-14 once that power is taken away again.
        let subnormal = f32::from_bits(magnitude + (113 << 23)) - f32::from_bits(113 << 23);
        let bits = if magnitude < 1 << 23 { subnormal.to_bits() } else { normal };
        let bits = if magnitude >= 31 << 23 { special } else { bits };
        bits | (code & 0x8000) << 16
    }

    #[inline(always)]
    fn narrow(bits: u32) -> [u8; 2] {
        let magnitude = bits & !SIGN;
        // Carries of the rounding run into the exponent and, past the largest, to infinity.
        let normal =
            (magnitude.wrapping_sub(112 << 23).wrapping_add(0xFFF + (bits >> 13 & 1)) >> 13).min(0x7C00);
        // Added to 0.5, whose last place is 2^-24, the processor rounds to a multiple of the smallest subnormal.
        let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
        let code = if magnitude < 113 << 23 { subnormal } else { normal };
        let code = if magnitude > INFINITY { 0x7E00 } else { code | bits >> 16 & 0x8000 };
        (code as u16).to_le_bytes()
    }
}

impl Lane<2> for Sen169 {
    #[inline(always)]
    fn widen(code: [u8; 2]) -> u32 {
        let code = u32::from(u16::from_le_bytes(code));
        let (sign, code) = ((code & 0x8000) << 16, code & 0x7FFF);
        let bits = if code == 0 { 0 } else { (code << 14) + (96 << 23) } | sign;
        if code == 0x7FFF { f32::NAN.to_bits() } else { bits }
    }

    #[inline(always)]
    fn narrow(bits: u32) -> [u8; 2] {
        let magnitude = bits & !SIGN;
        let sign = bits >> 16 & 0x8000;
        // Half the smallest magnitude, 2^-32 * 513/512.
        const HALF: u32 = (95 << 23) + (1 << 14);
        let code = (((magnitude + (1 << 13)) >> 14) as i32 - (96 << 9)).clamp(1, 0x7FFF) as u32;
        let code = if magnitude < HALF { sign } else { code | sign };
        let code = if magnitude > INFINITY { 0x7FFF } else { code };
        (code as u16).to_le_bytes()
    }
}

/// Words without their signs, those of `a` and `b` side by side.
const MAGNITUDES: u32 = 0x7FFF_7FFF;
const UPPER: u32 = 0xFFFF_0000;

impl Peak<4> for F32 {
    #[inline(always)]
    fn peaks(a: &[[u8; 4]; 16], b: &[[u8; 4]; 16]) -> i16x8 {
        let mut words = [0; 16];
        for ((word, a), b) in words.iter_mut().zip(a).zip(b) {
            *word = (Self::widen(*a) >> 16 | Self::widen(*b) & UPPER) & MAGNITUDES;
        }
        let [a, b, c, d]: [i16x8; 4] = bytemuck::cast(words);
        a.max(b).max(c.max(d))
    }

    #[inline(always)]
    fn upper(peak: u16) -> u32 {
        peak.into()
    }
}

impl Peak<2> for Bf16 {
    #[inline(always)]
    fn peaks(a: &[[u8; 2]; 16], b: &[[u8; 2]; 16]) -> i16x8 {
        peaks_of_words(a, b)
    }

    #[inline(always)]
    fn upper(peak: u16) -> u32 {
        peak.into()
    }

    /// Two elements at a time, which stay in one 32-bit lane: no vector has to be widened or narrowed.
    #[inline(always)]
    fn multiples(group: &[[u8; 2]; 16], _: f32, sum: impl Fn(f32) -> f32) -> [u8; 16] {
        let sum = |bits: u32| sum(f32::from_bits(bits)).to_bits();
        let mut words = pairs(group);
        for word in &mut words {
            // The lowest 16 bits of the anchor are 0.
            *word = sum(*word << 16) & !UPPER | sum(*word & UPPER) << 16;
        }
        let words: [i16; 16] = bytemuck::cast(words);
        let mut multiples = [0; 16];
        for (multiple, count) in multiples.iter_mut().zip(words) {
            *multiple = count.clamp(-128, 127) as u8;
        }
        multiples
    }
}

impl Peak<2> for F16 {
    #[inline(always)]
    fn peaks(a: &[[u8; 2]; 16], b: &[[u8; 2]; 16]) -> i16x8 {
        peaks_of_words(a, b)
    }

    #[inline(always)]
    fn upper(peak: u16) -> u32 {
        F16::widen(peak.to_le_bytes()) >> 16
    }
}

#[inline(always)]
fn peaks_of_words(a: &[[u8; 2]; 16], b: &[[u8; 2]; 16]) -> i16x8 {
    let (mut lower, mut upper) = ([0; 8], [0; 8]);
    for (((lower, upper), a), b) in lower.iter_mut().zip(&mut upper).zip(pairs(a)).zip(pairs(b)) {
        *lower = (a & !UPPER | b << 16) & MAGNITUDES;
        *upper = (a >> 16 | b & UPPER) & MAGNITUDES;
    }
    let ([a, b], [c, d]): ([i16x8; 2], [i16x8; 2]) = (bytemuck::cast(lower), bytemuck::cast(upper));
    a.max(b).max(c.max(d))
}

/// Two elements a number, the first in the lower half.
#[inline(always)]
fn pairs(group: &[[u8; 2]; 16]) -> [u32; 8] {
    let mut pairs = [0; 8];
    for (pair, bytes) in pairs.iter_mut().zip(group.as_flattened().as_chunks().0) {
        *pair = u32::from_le_bytes(*bytes);
    }
    pairs
}

/// Converts elements that lie one after another on both sides.
#[inline(always)]
pub(crate) fn run<A: Lane<M>, B: Lane<N>, const M: usize, const N: usize>(
    src: &[u8],
    dst: &mut [MaybeUninit<u8>],
) {
    for (to, from) in dst.as_chunks_mut().0.iter_mut().zip(src.as_chunks().0) {
        *to = B::narrow(A::widen(*from)).map(MaybeUninit::new);
    }
}
