//! Block floats whose groups of 16 elements share an exponent: bfp8, bfp4 and bfp2, with
//! 8-bit exponents (`_b`) or 5-bit ones (`_a`).
//!
//! A code is a sign above `m` magnitude bits; its value is `(-1)^sign * magnitude * 2^(shared - bias - (m - 1))`.

use super::number::{exp2, with_sign};
use super::options::{BlockOptions, Rounding};

/// Elements that share one exponent: a row of a face.
pub(crate) const GROUP: usize = 16;

const SIGN: u32 = 1 << 31;
const INFINITY: u32 = 255 << 23;

/// The binary32 that the packer sees in place of an element, both given by their bits.
fn packer_input(bits: u32, options: &BlockOptions) -> u32 {
    match options.rounding {
        Rounding::DeviceOp => round_early(bits),
        Rounding::Device if options.bf16_registers && bits & !SIGN > INFINITY => bits & SIGN | INFINITY,
        _ => bits,
    }
}

/// The first rounding of [`Rounding::DeviceOp`]: cut to bfloat16, then to nearest with 6 fraction bits, ties away from zero. A
/// carry may run into the exponent, up to infinity. NaN becomes infinity, a subnormal 0.
#[inline(always)]
pub(crate) fn round_early(bits: u32) -> u32 {
    let magnitude = bits & !SIGN;
    let rounded = (magnitude + (1 << 16)) & !((1 << 17) - 1);
    let rounded = if magnitude < 1 << 23 { 0 } else { rounded };
    bits & SIGN | if magnitude > INFINITY { INFINITY } else { rounded }
}

/// One of the six formats.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bfp {
    /// Magnitude bits of a code: 7, 3 or 1.
    pub(crate) magnitude: u32,
    /// Whether the exponent is the 5-bit one with bias 15.
    pub(crate) narrow: bool,
}

impl Bfp {
    /// The largest magnitude.
    pub(crate) const fn largest(self) -> u32 {
        (1 << self.magnitude) - 1
    }

    /// The exponent field and the 24-bit significand that the group sees of a binary32; `None` for zeros and
    /// subnormals, whose code is 0. NaN and infinity are not special.
    fn split(self, bits: u32) -> Option<(u32, u32)> {
        let (exponent, fraction) = (bits >> 23 & 255, bits & 0x7F_FFFF);
        let (exponent, fraction) = match exponent {
            0 => return None,
            _ if !self.narrow => (exponent, fraction),
            144.. => (31, 0x7F_FFFF),
            112.. => (exponent - 112, fraction),
            _ => (0, 0),
        };
        Some((exponent, fraction | 0x80_0000))
    }

    /// Packs a group: the shared exponent, and the codes in `codes`.
    ///
    /// `x` has [`GROUP`] elements.
    pub(crate) fn pack(self, x: &[f32], codes: &mut [u8], options: &BlockOptions) -> u8 {
        let mut seen = [0.0; GROUP];
        for (seen, v) in seen.iter_mut().zip(x) {
            *seen = f32::from_bits(packer_input(v.to_bits(), options));
        }
        let (x, rounding) = (&seen[..x.len()], options.rounding);
        let highest = x.iter().filter_map(|v| self.split(v.to_bits())).map(|(e, _)| e).max().unwrap_or(0);
        let shared =
            if options.search && self.prefers_lower(x, highest, rounding) { highest - 1 } else { highest };
        for (code, v) in codes.iter_mut().zip(x) {
            *code = self.code(v.to_bits(), shared, rounding);
        }
        shared as u8
    }

    /// The code of a binary32 under a shared exponent; what exceeds it saturates.
    fn code(self, bits: u32, shared: u32, rounding: Rounding) -> u8 {
        let Some((exponent, significand)) = self.split(bits) else { return 0 };
        let magnitude = if exponent > shared {
            self.largest()
        } else {
            // Bits shifted out here are lost before the rounding: the format's packer keeps no sticky bit.
            let aligned = significand.checked_shr(shared - exponent).unwrap_or(0);
            let drop = 24 - self.magnitude;
            let rounded = match rounding {
                Rounding::Host => (aligned + (1 << (drop - 1)) - 1 + (aligned >> drop & 1)) >> drop,
                // What else [`Rounding::DeviceOp`] does is in [`packer_input`].
                Rounding::Device | Rounding::DeviceOp => {
                    ((aligned + (1 << 16)) >> 17).min(127) >> (7 - self.magnitude)
                }
                Rounding::Truncate => aligned >> drop,
            };
            rounded.min(self.largest())
        };
        if magnitude == 0 { 0 } else { ((bits >> 31) << self.magnitude | magnitude) as u8 }
    }

    /// Whether the exponent below `highest` has the strictly smaller sum of squared errors.
    fn prefers_lower(self, x: &[f32], highest: u32, rounding: Rounding) -> bool {
        if highest <= self.magnitude || highest == 255 {
            return false;
        }
        let error = |shared: u32| {
            x.iter().fold(0.0, |sum, &v| {
                let gap = f64::from(v) - self.value(self.code(v.to_bits(), shared, rounding), shared as u8);
                sum + gap * gap
            })
        };
        error(highest - 1) < error(highest)
    }

    /// The exact value of a code. A magnitude of 0 keeps its sign.
    fn value(self, code: u8, shared: u8) -> f64 {
        let bias = if self.narrow { 15 } else { 127 };
        let magnitude = u32::from(code) & self.largest();
        let scale = exp2(i32::from(shared) - bias - (self.magnitude as i32 - 1));
        with_sign(f64::from(magnitude) * scale, u64::from(code >> self.magnitude & 1))
    }

    /// The value of a code as binary32: exact, subnormals included; infinity where it is too large.
    pub(crate) fn unpack(self, code: u8, shared: u8) -> f32 {
        self.value(code, shared) as f32
    }

    /// What the device library's host code makes of a code. It departs from [`Bfp::unpack`] where normalising shifts
    /// by the exponent (a wrong subnormal) or by more (+0), and where the exponent passes 254 (infinity and NaN patterns).
    pub(crate) fn unpack_host(self, code: u8, shared: u8) -> f32 {
        let sign = u32::from(code >> self.magnitude & 1) << 31;
        let magnitude = u32::from(code) & self.largest();
        if magnitude == 0 {
            return f32::from_bits(sign);
        }
        let shift = self.magnitude - 1 - magnitude.ilog2();
        let Some(exponent) = u32::from(shared).checked_sub(shift) else { return 0.0 };
        let rebias = if self.narrow { 112 } else { 0 };
        let fraction = (magnitude << (shift + 1) & self.largest()) << (23 - self.magnitude);
        f32::from_bits(sign | (exponent + rebias) << 23 | fraction)
    }

    /// What the device's unpacker makes of a code: see [`Decoding::Device`](super::Decoding::Device).
    pub(crate) fn unpack_device(self, code: u8, shared: u8) -> f32 {
        let sign = u32::from(code >> self.magnitude & 1) << 31;
        let magnitude = u32::from(code) & self.largest();
        if magnitude == 0 {
            return if sign == 0 { 0.0 } else { f32::NEG_INFINITY };
        }
        let shift = self.magnitude - 1 - magnitude.ilog2();
        let rebias = if self.narrow { 112 } else { 0 };
        let exponent = (u32::from(shared) + rebias).wrapping_sub(shift) & 255;
        let fraction = (magnitude << (shift + 1) & self.largest()) << (23 - self.magnitude);
        f32::from_bits(sign | exponent << 23 | fraction)
    }
}
