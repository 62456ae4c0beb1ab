//! The OCP microscaling (MX) formats: 32 elements share a power-of-two scale.
//!
//! The scale byte is E8M0 (2^(byte - 127)); an element's value is its own value times the scale.

use super::number::{Ties, exp2, finite_value, floor_log2, nearest, round_to_multiple, with_sign};

/// Elements that share one scale: two rows of a face, as they are stored.
pub(crate) const MX_BLOCK: usize = 32;

/// Scale byte of a block that holds nothing but NaN; reads as NaN (float elements) or 0 (integers).
pub(crate) const SCALE_NAN: u8 = 0xFF;
/// Scale byte of a block with an infinity and no finite number other than 0.
const SCALE_INFINITE: u8 = 0xFE;

/// The format of a block's elements.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Element {
    /// A small float with `fraction` bits, gradual underflow and the largest exponent `emax`. Codes from `infinity`
    /// (if it is above `largest`) are not finite. `nan` is what a NaN becomes, 0 where the format has none.
    Float { exponent: u32, fraction: u32, bias: i32, emax: i32, largest: u8, infinity: u8, nan: u8 },
    /// A two's complement integer of `bits` bits over 2^(bits - 2).
    Int { bits: u32 },
}

impl Element {
    pub(crate) const E5M2: Element = Element::Float {
        exponent: 5,
        fraction: 2,
        bias: 15,
        emax: 15,
        largest: 0x7B,
        infinity: 0x7C,
        nan: 0x7D,
    };
    pub(crate) const E4M3: Element = Element::Float {
        exponent: 4,
        fraction: 3,
        bias: 7,
        emax: 8,
        largest: 0x7E,
        infinity: 0x7E,
        nan: 0x7F,
    };
    pub(crate) const E3M2: Element =
        Element::Float { exponent: 3, fraction: 2, bias: 3, emax: 4, largest: 0x1F, infinity: 0x1F, nan: 0 };
    pub(crate) const E2M3: Element =
        Element::Float { exponent: 2, fraction: 3, bias: 1, emax: 2, largest: 0x1F, infinity: 0x1F, nan: 0 };
    pub(crate) const E2M1: Element =
        Element::Float { exponent: 2, fraction: 1, bias: 1, emax: 2, largest: 0x07, infinity: 0x07, nan: 0 };

    /// Whether elements are floats.
    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Element::Float { .. })
    }

    /// Whether elements under every scale are numbers of bfloat16, which end at 2^-133: the smallest scale is 2^-127, and none has more
    /// than eight bits. The smallest E4M3 is 2^-9, E5M2 2^-16, an integer 2^-6.
    pub(crate) const fn fits_bf16(self) -> bool {
        match self {
            Element::Float { fraction, bias, .. } => fraction as i32 + bias <= 7,
            Element::Int { bits } => bits <= 8,
        }
    }

    /// Packs a block: the scale byte, and the codes in `codes`.
    pub(crate) fn pack(self, x: &[f32], codes: &mut [u8]) -> u8 {
        let scale = self.scale(x);
        for (code, &v) in codes.iter_mut().zip(x) {
            *code = self.code(f64::from(v) / exp2(i32::from(scale) - 127));
        }
        scale
    }

    fn scale(self, x: &[f32]) -> u8 {
        let largest = x.iter().filter(|v| v.is_finite()).fold(0.0, |m: f64, v| m.max(f64::from(v.abs())));
        if x.iter().all(|v| v.is_nan()) {
            SCALE_NAN
        } else if largest == 0.0 && x.iter().any(|v| v.is_infinite()) {
            SCALE_INFINITE
        } else {
            let emax = match self {
                Element::Float { emax, .. } => emax,
                Element::Int { .. } => 0,
            };
            let exponent = if largest == 0.0 { 0 } else { floor_log2(largest) };
            (exponent - emax + 127).max(0) as u8
        }
    }

    /// The code of a scaled value: nearest, ties to even, saturating.
    fn code(self, value: f64) -> u8 {
        let sign = value.is_sign_negative();
        let magnitude = value.abs();
        match self {
            Element::Float { nan, .. } if value.is_nan() => nan,
            Element::Float { exponent, fraction, bias, largest, infinity, .. } => {
                let code = match magnitude {
                    f64::INFINITY => infinity,
                    _ => nearest(magnitude, fraction, bias, Ties::Even).min(largest.into()) as u8,
                };
                u8::from(sign) << (exponent + fraction) | code
            }
            Element::Int { .. } if value.is_nan() => 0,
            Element::Int { bits } => {
                let limit = (1u64 << (bits - 1)) - 1;
                // Twice the largest integer saturates as anything above it does, and keeps the multiple in range.
                let count =
                    round_to_multiple(magnitude.min(4.0), 2 - bits as i32, Ties::Even).min(limit) as u8;
                let code = if sign { count.wrapping_neg() } else { count };
                code & (u8::MAX >> (8 - bits))
            }
        }
    }

    /// The exact value of a code as binary32, infinity where it is too large; every NaN is `0x7FC00000`.
    pub(crate) fn unpack(self, code: u8, scale: u8) -> f32 {
        let factor = exp2(i32::from(scale) - 127);
        match self {
            Element::Float { .. } if scale == SCALE_NAN => f32::NAN,
            Element::Float { exponent, fraction, bias, largest, infinity, .. } => {
                let sign = u64::from(code >> (exponent + fraction) & 1);
                let code = code & ((1u8 << (exponent + fraction)) - 1);
                let magnitude = match code {
                    _ if code <= largest => finite_value(code.into(), fraction, bias) * factor,
                    _ if code == infinity => f64::INFINITY,
                    _ => return f32::NAN,
                };
                with_sign(magnitude, sign) as f32
            }
            Element::Int { .. } if scale == SCALE_NAN => 0.0,
            Element::Int { bits } => {
                let extended = ((code << (8 - bits)) as i8) >> (8 - bits);
                (f64::from(extended) * exp2(2 - bits as i32) * factor) as f32
            }
        }
    }
}
