//! Number formats of single elements, and the scalar rule that converts one to another.
//!
//! Every format's finite values are `f64` values, so a conversion is an exact [`Number::decode`] followed by one
//! rounding in [`Number::encode`]; nothing is ever rounded twice. The vector kernels must agree with
//! [`Number::convert`] bit for bit.

use std::mem::MaybeUninit;

/// A floating-point element format. Codes are little-endian in memory and lie in the low bits of a `u64` here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Number {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    Bf16,
    /// OCP FP8 E4M3: no infinity, the codes `0x7F` and `0xFF` are NaN.
    E4M3,
    /// OCP FP8 E5M2: an IEEE-like format with infinities.
    E5M2,
    /// Tenstorrent's plain `FP8_E4M3`: exponent 15 is NaN, subnormals are zero, overflow saturates to `0x77` (240).
    TtE4M3,
    /// Spyre's SEN169_FP16 (DLFloat16): 6 exponent bits with bias 31, 9 fraction bits, no subnormals,
    /// `0x7FFF` is the one code for NaN and infinity. Rounds to nearest, ties away from zero.
    Sen169,
    /// SEN169_FP16 with the edge rules of the vendor's own converter between binary16 and SEN169.
    Sen169Deeptools,
}

use Number::*;

impl Number {
    /// Every format, widest first.
    pub const ALL: [Number; 9] = [F64, F32, F16, Bf16, E4M3, E5M2, TtE4M3, Sen169, Sen169Deeptools];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            F64 => 8,
            F32 => 4,
            F16 | Bf16 | Sen169 | Sen169Deeptools => 2,
            E4M3 | E5M2 | TtE4M3 => 1,
        }
    }

    /// The name used in messages and tables.
    pub const fn name(self) -> &'static str {
        match self {
            F64 => "f64",
            F32 => "f32",
            F16 => "f16",
            Bf16 => "bf16",
            E4M3 => "f8e4m3fn",
            E5M2 => "f8e5m2",
            TtE4M3 => "fp8_e4m3",
            Sen169 => "sen169_fp16",
            Sen169Deeptools => "sen169_fp16 (deeptools)",
        }
    }

    /// The exact value of a code; bits above the element are ignored.
    ///
    /// A NaN of an IEEE format keeps its sign and its payload, in the high bits of the fraction; other formats
    /// give the quiet NaN. `Sen169`'s `0x7FFF` is NaN, its code 0 with either sign is a zero of that sign.
    /// `Sen169Deeptools` decodes as its binary32 path does: `(exponent + 96) << 23 | fraction << 14`, and both
    /// zeros become +0, for the vendor's own converter loses that sign.
    pub fn decode(self, bits: u64) -> f64 {
        match self {
            F64 => f64::from_bits(bits),
            F32 => IEEE32.decode(bits),
            F16 => IEEE16.decode(bits),
            Bf16 => BF16.decode(bits),
            E5M2 => FP8_E5M2.decode(bits),
            E4M3 | TtE4M3 => {
                let nan_from = if self == E4M3 { 0x7F } else { 0x78 };
                let code = bits & 0x7F;
                let magnitude = match code {
                    _ if code >= nan_from => return f64::NAN,
                    1..8 if self == TtE4M3 => 0.0,
                    _ => finite_value(code, 3, 7),
                };
                with_sign(magnitude, bits >> 7 & 1)
            }
            Sen169 | Sen169Deeptools => {
                let code = bits & 0x7FFF;
                match (code, self) {
                    (0x7FFF, Sen169) => f64::NAN,
                    (0, Sen169Deeptools) => 0.0,
                    (0, _) => with_sign(0.0, bits >> 15 & 1),
                    _ => with_sign(sen169_value(code), bits >> 15 & 1),
                }
            }
        }
    }

    /// The code nearest to `value`; one rounding.
    ///
    /// | format | ties | too large | NaN |
    /// |---|---|---|---|
    /// | `F64` | - | - | kept |
    /// | `F32` | to even | infinity | sign and the payload's high bits kept |
    /// | `F16`, `Bf16`, `E5M2` | to even | infinity | `0x7E00`, `0x7FC0`, `0x7E` |
    /// | `E4M3` | to even | NaN of that sign (the cast of the OCP text without saturation) | `0x7F` |
    /// | `TtE4M3` | to even | `0x77` of that sign; magnitudes below 2^-6 give zero before any rounding | `0x7F` |
    /// | `Sen169` | away from zero | `0x7FFF` of that sign, as infinity | `0x7FFF` |
    /// | `Sen169Deeptools` | away from zero | `0x7DFF` of that sign; infinity gives `0x7E00` | `0x7EFF` of that sign |
    ///
    /// In both SEN169 formats the smallest magnitude is 2^-31 * 513/512; half of it and more rounds up to it.
    pub fn encode(self, value: f64) -> u64 {
        let sign = value.to_bits() >> 63;
        let magnitude = value.abs();
        match self {
            F64 => value.to_bits(),
            F32 if value.is_nan() => {
                let payload = value.to_bits() >> 29 & 0x7F_FFFF;
                sign << 31 | 0x7F80_0000 | if payload == 0 { 0x40_0000 } else { payload }
            }
            F32 => IEEE32.encode(value),
            F16 => IEEE16.encode(value),
            Bf16 => BF16.encode(value),
            E5M2 => FP8_E5M2.encode(value),
            E4M3 | TtE4M3 => {
                let code = match magnitude {
                    _ if value.is_nan() => return 0x7F,
                    _ if self == TtE4M3 && magnitude < exp2(-6) => 0,
                    _ if magnitude.is_infinite() => 0x7F,
                    _ => nearest(magnitude, 3, 7, Ties::Even),
                };
                sign << 7 | if self == TtE4M3 { code.min(0x77) } else { code.min(0x7F) }
            }
            Sen169 if value.is_nan() => 0x7FFF,
            Sen169 => sign << 15 | sen169_nearest(magnitude).min(0x7FFF),
            Sen169Deeptools if value.is_nan() => sign << 15 | 0x7EFF,
            Sen169Deeptools if magnitude.is_infinite() => sign << 15 | 0x7E00,
            Sen169Deeptools => sign << 15 | sen169_nearest(magnitude).min(0x7DFF),
        }
    }

    /// The code in `to` of the value that `bits` has in `self`: the rule that every conversion kernel follows.
    ///
    /// Equal formats keep the code. `F16` to `Sen169Deeptools` and back have rules of their own: fractions round half
    /// up and the largest halves stay below 2^16; on the way back subnormals come out halved. Anything else is
    /// `to.encode(self.decode(bits))`.
    pub fn convert(self, to: Number, bits: u64) -> u64 {
        match (self, to) {
            _ if self == to => bits & (!0 >> (64 - 8 * self.size())),
            (F16, Sen169Deeptools) => deeptools_from_f16(bits),
            (Sen169Deeptools, F16) => deeptools_to_f16(bits),
            _ => to.encode(self.decode(bits)),
        }
    }

    /// The code of the element at byte `at`.
    pub(crate) fn load(self, src: &[u8], at: usize) -> u64 {
        let mut code = [0; 8];
        code[..self.size()].copy_from_slice(&src[at..][..self.size()]);
        u64::from_le_bytes(code)
    }

    /// Writes the code of an element at byte `at`.
    pub(crate) fn store(self, dst: &mut [MaybeUninit<u8>], at: usize, bits: u64) {
        for (to, byte) in dst[at..][..self.size()].iter_mut().zip(bits.to_le_bytes()) {
            to.write(byte);
        }
    }
}

/// What happens to a value half-way between two codes.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Ties {
    Even,
    Away,
}

/// 2^`exponent`, for `exponent` in -1022..=1023.
pub(crate) fn exp2(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// floor(log2) of a positive finite value; f64 subnormals, which no other format reaches, count as 2^-1023.
pub(crate) fn floor_log2(magnitude: f64) -> i32 {
    (magnitude.to_bits() >> 52) as i32 - 1023
}

/// `magnitude` (finite, not negative) as a multiple of 2^`ulp`, rounded to nearest.
pub(crate) fn round_to_multiple(magnitude: f64, ulp: i32, ties: Ties) -> u64 {
    let exponent = floor_log2(magnitude);
    if magnitude == 0.0 || exponent < ulp - 1 {
        return 0;
    }
    // magnitude = significand * 2^(exponent - 52). What is left shifts by 53 at most, since exponent >= ulp - 1.
    let significand = magnitude.to_bits() & ((1 << 52) - 1) | 1 << 52;
    let drop = 52 + ulp - exponent;
    if drop <= 0 {
        return significand << -drop;
    }
    let (whole, rest, half) = (significand >> drop, significand & ((1 << drop) - 1), 1u64 << (drop - 1));
    whole + u64::from(rest > half || rest == half && (ties == Ties::Away || whole & 1 == 1))
}

/// The code of the finite `magnitude` in a format with `fraction` bits, gradual underflow and as many exponents
/// as it takes: compare with the format's largest code to see an overflow.
pub(crate) fn nearest(magnitude: f64, fraction: u32, bias: i32, ties: Ties) -> u64 {
    let exponent = floor_log2(magnitude).max(1 - bias);
    let multiple = round_to_multiple(magnitude, exponent - fraction as i32, ties);
    // A normal multiple includes its hidden bit, which adds 1 to the exponent field.
    (((exponent + bias - 1) as u64) << fraction) + multiple
}

/// The value of a non-negative finite code with `fraction` bits and gradual underflow.
pub(crate) fn finite_value(code: u64, fraction: u32, bias: i32) -> f64 {
    let exponent = (code >> fraction) as i32;
    let low = code & ((1 << fraction) - 1);
    let significand = if exponent == 0 { low } else { low | 1 << fraction };
    significand as f64 * exp2(exponent.max(1) - bias - fraction as i32)
}

pub(crate) fn with_sign(magnitude: f64, sign: u64) -> f64 {
    if sign == 0 { magnitude } else { -magnitude }
}

/// A format with IEEE's exponent rules: 0 is subnormal, all ones is infinity or NaN.
struct Ieee {
    exponent: u32,
    fraction: u32,
}

const IEEE32: Ieee = Ieee { exponent: 8, fraction: 23 };
const IEEE16: Ieee = Ieee { exponent: 5, fraction: 10 };
const BF16: Ieee = Ieee { exponent: 8, fraction: 7 };
const FP8_E5M2: Ieee = Ieee { exponent: 5, fraction: 2 };

impl Ieee {
    const fn bias(&self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    const fn infinity(&self) -> u64 {
        ((1 << self.exponent) - 1) << self.fraction
    }

    fn decode(&self, bits: u64) -> f64 {
        let sign = bits >> (self.exponent + self.fraction) & 1;
        let code = bits & ((1 << (self.exponent + self.fraction)) - 1);
        if code < self.infinity() {
            return with_sign(finite_value(code, self.fraction, self.bias()), sign);
        }
        let payload = (code - self.infinity()) << (52 - self.fraction);
        f64::from_bits(sign << 63 | f64::INFINITY.to_bits() | payload)
    }

    fn encode(&self, value: f64) -> u64 {
        if value.is_nan() {
            return self.infinity() | 1 << (self.fraction - 1);
        }
        let sign = value.to_bits() >> 63;
        let code = match value.abs() {
            f64::INFINITY => self.infinity(),
            magnitude => nearest(magnitude, self.fraction, self.bias(), Ties::Even).min(self.infinity()),
        };
        sign << (self.exponent + self.fraction) | code
    }
}

/// A SEN169 code other than 0: every exponent is that of a normal number.
fn sen169_value(code: u64) -> f64 {
    (512 + (code & 0x1FF)) as f64 * exp2((code >> 9) as i32 - 31 - 9)
}

/// The SEN169 code of a magnitude, with as many exponents as it takes.
fn sen169_nearest(magnitude: f64) -> u64 {
    let smallest = sen169_value(1);
    match magnitude {
        f64::INFINITY => u64::MAX,
        _ if magnitude < smallest / 2.0 => 0,
        _ if magnitude < smallest => 1,
        _ => {
            let exponent = floor_log2(magnitude);
            (((exponent + 31) as u64) << 9) + round_to_multiple(magnitude, exponent - 9, Ties::Away) - 512
        }
    }
}

/// Fraction rounded half up in magnitude; the largest numbers stay below 2^16; infinity and NaN have exponent 63, the
/// NaN's payload loses its low bit. Subnormals are exact.
fn deeptools_from_f16(bits: u64) -> u64 {
    let (exponent, fraction) = (bits >> 10 & 31, bits & 0x3FF);
    let code = match exponent {
        0 => sen169_nearest(F16.decode(fraction)),
        31 => 0x7E00 | fraction >> 1,
        _ => (((exponent + 16) << 9) + (fraction >> 1) + (fraction & 1)).min(46 << 9 | 0x1FF),
    };
    bits & 0x8000 | code
}

/// Exponent 63 is infinity for the fractions 0 and 0x1FF, NaN for others (payload kept); exponents above binary16's give infinity;
/// values of its subnormal range come back halved and truncated, as the vendor's converter lacks a shift.
fn deeptools_to_f16(bits: u64) -> u64 {
    let (exponent, fraction) = (bits >> 9 & 63, bits & 0x1FF);
    let code = match exponent {
        63 if fraction == 0 || fraction == 0x1FF => 0x7C00,
        63 => 0x7C00 | fraction << 1,
        47.. => 0x7C00,
        17.. => (exponent - 16) << 10 | fraction << 1,
        _ => (512 | fraction) >> (17 - exponent),
    };
    bits & 0x8000 | code
}
