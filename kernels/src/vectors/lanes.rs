//! Formats that widen to binary32 exactly, by arithmetic that compilers turn into vector code.
//!
//! Each rule is that of [`Number::convert`](crate::Number::convert), stated without branches or loops. As widening is exact,
//! narrowing what was widened rounds once, so these formats convert among each other through binary32.

/// Elements of `N` bytes, little-endian, whose values are some of binary32.
pub(crate) trait Values<const N: usize> {
    /// Whether significands have at most 11 bits.
    const SHORT: bool = N <= 2;
    /// The binary32 bits of the same value; NaN keeps sign and payload where the format has them.
    fn widen(code: [u8; N]) -> u32;
}

/// A format of such elements, to which binary32 is rounded.
pub(crate) trait Lane<const N: usize>: Values<N> {
    /// The code nearest to a binary32, given by its bits, in the lower bits.
    fn code(bits: u32) -> u32;
    /// The same as bytes.
    #[inline(always)]
    fn narrow(bits: u32) -> [u8; N] {
        truncated(Self::code(bits))
    }
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

/// The first bytes of a code.
#[inline(always)]
pub(crate) fn truncated<const N: usize>(code: u32) -> [u8; N] {
    *code.to_le_bytes().first_chunk().expect("no lane has more bytes")
}

pub(crate) struct F32;
pub(crate) struct Bf16;
pub(crate) struct F16;
pub(crate) struct Sen169;
pub(crate) struct SenDeeptools;
pub(crate) struct E4M3;
pub(crate) struct TtE4M3;
pub(crate) struct E5M2;
/// A sign above an integer of 7 bits, as codes of block floats are in the upper bits of a byte.
pub(crate) struct SignMagnitude;

const SIGN: u32 = 1 << 31;
const INFINITY: u32 = 255 << 23;

impl Values<4> for F32 {
    #[inline(always)]
    fn widen(code: [u8; 4]) -> u32 {
        u32::from_le_bytes(code)
    }
}

impl Lane<4> for F32 {
    #[inline(always)]
    fn code(bits: u32) -> u32 {
        bits
    }
}

impl Values<2> for Bf16 {
    #[inline(always)]
    fn widen(code: [u8; 2]) -> u32 {
        u32::from(u16::from_le_bytes(code)) << 16
    }
}

impl Lane<2> for Bf16 {
    #[inline(always)]
    fn code(bits: u32) -> u32 {
        if f32::from_bits(bits).is_nan() { 0x7FC0 } else { bf16_rounded(bits) }
    }

    #[inline(always)]
    fn narrow_quiet(bits: u32) -> [u8; 2] {
        truncated(bf16_rounded(bits))
    }

    #[inline(always)]
    fn narrow_exact(bits: u32) -> [u8; 2] {
        ((bits >> 16) as u16).to_le_bytes()
    }
}

/// A number or an infinity in the upper half of a binary32, ties to even.
#[inline(always)]
fn bf16_rounded(bits: u32) -> u32 {
    bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16
}

impl Values<2> for F16 {
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
}

impl Lane<2> for F16 {
    #[inline(always)]
    fn code(bits: u32) -> u32 {
        let magnitude = bits & !SIGN;
        // Carries of the rounding run into the exponent and, past the largest, to infinity.
        let normal =
            (magnitude.wrapping_sub(112 << 23).wrapping_add(0xFFF + (bits >> 13 & 1)) >> 13).min(0x7C00);
        // Added to 0.5, whose last place is 2^-24, the processor rounds to a multiple of the smallest subnormal.
        let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
        let code = if magnitude < 113 << 23 { subnormal } else { normal };
        if magnitude > INFINITY { 0x7E00 } else { code | bits >> 16 & 0x8000 }
    }
}

impl Values<2> for Sen169 {
    #[inline(always)]
    fn widen(code: [u8; 2]) -> u32 {
        let code = u32::from(u16::from_le_bytes(code));
        let (sign, code) = ((code & 0x8000) << 16, code & 0x7FFF);
        let bits = if code == 0 { 0 } else { (code << 14) + (96 << 23) } | sign;
        if code == 0x7FFF { f32::NAN.to_bits() } else { bits }
    }
}

impl Lane<2> for Sen169 {
    #[inline(always)]
    fn code(bits: u32) -> u32 {
        let magnitude = bits & !SIGN;
        let sign = bits >> 16 & 0x8000;
        // Half the smallest magnitude, 2^-32 * 513/512.
        const HALF: u32 = (95 << 23) + (1 << 14);
        let code = (((magnitude + (1 << 13)) >> 14) as i32 - (96 << 9)).clamp(1, 0x7FFF) as u32;
        let code = if magnitude < HALF { sign } else { code | sign };
        if magnitude > INFINITY { 0x7FFF } else { code }
    }
}

impl Values<2> for SenDeeptools {
    #[inline(always)]
    fn widen(code: [u8; 2]) -> u32 {
        let code = u32::from(u16::from_le_bytes(code));
        let (sign, code) = ((code & 0x8000) << 16, code & 0x7FFF);
        if code == 0 { 0 } else { ((code << 14) + (96 << 23)) | sign }
    }
}

impl Lane<2> for SenDeeptools {
    #[inline(always)]
    fn code(bits: u32) -> u32 {
        let magnitude = bits & !SIGN;
        let finite = Sen169::code(magnitude).min(0x7DFF);
        let code = if magnitude == INFINITY { 0x7E00 } else { finite };
        let code = if magnitude > INFINITY { 0x7EFF } else { code };
        code | bits >> 16 & 0x8000
    }
}

/// Magnitude of a byte of E4M3 without its special codes, as binary32: a subnormal is a fraction under the exponent of 2^-6
/// once that power is taken away again.
#[inline(always)]
fn e4m3_magnitude(code: u8) -> u32 {
    let digits = u32::from(code & 0x7F) << 20;
    let subnormal = f32::from_bits(digits + (121 << 23)) - f32::from_bits(121 << 23);
    if digits < 1 << 23 { subnormal.to_bits() } else { digits + (120 << 23) }
}

/// The code nearest to a magnitude with E4M3's exponents and as many more as it takes.
#[inline(always)]
fn e4m3_nearest(magnitude: u32) -> u32 {
    let normal = magnitude.wrapping_sub(120 << 23).wrapping_add(0x7_FFFF + (magnitude >> 20 & 1)) >> 20;
    // Added to 2^14, whose last place is 2^-9, the processor rounds to a multiple of the smallest subnormal.
    let subnormal = (f32::from_bits(magnitude) + 16384.0).to_bits().wrapping_sub(16384.0_f32.to_bits());
    if magnitude < 121 << 23 { subnormal } else { normal }
}

impl Values<1> for E4M3 {
    #[inline(always)]
    fn widen([code]: [u8; 1]) -> u32 {
        let bits = e4m3_magnitude(code) | u32::from(code & 0x80) << 24;
        if code & 0x7F == 0x7F { f32::NAN.to_bits() } else { bits }
    }
}

impl Lane<1> for E4M3 {
    #[inline(always)]
    fn code(bits: u32) -> u32 {
        let magnitude = bits & !SIGN;
        let code = e4m3_nearest(magnitude).min(0x7F) | bits >> 24 & 0x80;
        if magnitude > INFINITY { 0x7F } else { code }
    }
}

impl Values<1> for TtE4M3 {
    #[inline(always)]
    fn widen([code]: [u8; 1]) -> u32 {
        let magnitude = if code & 0x7F < 8 { 0 } else { e4m3_magnitude(code) };
        let bits = magnitude | u32::from(code & 0x80) << 24;
        if code & 0x7F >= 0x78 { f32::NAN.to_bits() } else { bits }
    }
}

impl Lane<1> for TtE4M3 {
    #[inline(always)]
    fn code(bits: u32) -> u32 {
        let magnitude = bits & !SIGN;
        let code = if magnitude < 121 << 23 { 0 } else { e4m3_nearest(magnitude).min(0x77) };
        let code = code | bits >> 24 & 0x80;
        if magnitude > INFINITY { 0x7F } else { code }
    }
}

impl Values<1> for E5M2 {
    /// The upper half of a binary16.
    #[inline(always)]
    fn widen([code]: [u8; 1]) -> u32 {
        F16::widen([0, code])
    }
}

impl Lane<1> for E5M2 {
    #[inline(always)]
    fn code(bits: u32) -> u32 {
        let magnitude = bits & !SIGN;
        let normal =
            (magnitude.wrapping_sub(112 << 23).wrapping_add(0xF_FFFF + (bits >> 21 & 1)) >> 21).min(0x7C);
        // Added to 128, whose last place is 2^-16, the processor rounds to a multiple of the smallest subnormal.
        let subnormal = (f32::from_bits(magnitude) + 128.0).to_bits().wrapping_sub(128.0_f32.to_bits());
        let code = if magnitude < 113 << 23 { subnormal } else { normal } | bits >> 24 & 0x80;
        if magnitude > INFINITY { 0x7E } else { code }
    }
}

impl Values<1> for SignMagnitude {
    #[inline(always)]
    fn widen([code]: [u8; 1]) -> u32 {
        let code = i32::from(code as i8);
        ((code & 0x7F) as f32).to_bits() | code as u32 & SIGN
    }
}
