//! Packing and unpacking the MX formats by arithmetic instead of shifts.
//!
//! To this arithmetic all eight are one format: a number of exponent E (at least a least one) is k * 2^(E - fraction)
//! with an integer k. Adding 2^(E + 23 - fraction) leaves the processor no place below 2^(E - fraction), so it rounds as
//! the rule says, gradual underflow included, and the low bits of the sum are k. The integer formats are those whose least
//! exponent is also the largest. Dividing by the scale is exact but for results far below half the smallest element. Blocks
//! with NaN or infinity take the scalar rule when they are packed.

use super::decode::Decode;
use super::encode::{CodeLoop, Encode, FinishLoop};
use crate::formats::{BlockFormat, Element, GROUP, MX_BLOCK, SCALE_NAN};

/// An element format as the vector code sees it.
#[derive(Clone, Copy)]
pub(crate) struct MxVector {
    element: Element,
    /// Bits that a code takes in memory, and how far it is shifted inside them.
    code_bits: u32,
    position: u32,
    /// Bits of the code: sign and magnitude, or two's complement.
    width: u32,
    fraction: u32,
    bias: u32,
    emax: u32,
    /// The largest finite magnitude's code.
    largest: u32,
    /// From which codes on magnitudes are infinite or NaN, if there are such.
    infinity: u32,
    nan: u32,
    /// Whether the level has an instruction for [`f32::mul_add`].
    fuses: bool,
}

impl MxVector {
    /// The arithmetic for a format and its elements; `fuses`: whether the level has an instruction for [`f32::mul_add`].
    #[inline(always)]
    pub(crate) fn new(element: Element, format: BlockFormat, fuses: bool) -> MxVector {
        let (width, fraction, bias, emax, largest) = match element {
            Element::Float { exponent, fraction, bias, emax, largest, .. } => {
                (1 + exponent + fraction, fraction, bias as u32, emax as u32, largest.into())
            }
            Element::Int { bits } => (bits, bits - 2, 1, 0, (1 << (bits - 1)) - 1),
        };
        let (code_bits, position) = (format.code_bits() as u32, format.code_shift());
        let (infinity, nan) = match element {
            Element::Float { infinity, largest, .. } => (u32::from(largest) + 1, u32::from(infinity) + 1),
            Element::Int { .. } => (u32::MAX, u32::MAX),
        };
        MxVector { element, code_bits, position, width, fraction, bias, emax, largest, infinity, nan, fuses }
    }
}

impl Encode for MxVector {
    const GROUPS_PER_SCALE: usize = MX_BLOCK / GROUP;

    #[inline(always)]
    fn code_bits(&self) -> usize {
        self.code_bits as usize
    }

    #[inline(always)]
    fn shared(&self, exponent: u8) -> (u8, bool) {
        // Exponent field 0 may be a block of zeros, whose scale is not that of subnormals.
        (exponent.saturating_sub(self.emax as u8), exponent.wrapping_sub(1) < 254)
    }

    #[inline(always)]
    fn of_zeros(&self) -> Option<u8> {
        Some((127 - self.emax) as u8)
    }

    /// 2^(127 - scale), subnormal for 254.
    #[inline(always)]
    fn factor(&self, exponent: u32) -> f32 {
        let scale = exponent.saturating_sub(self.emax);
        f32::from_bits((254_u32.wrapping_sub(scale) << 23).max(1 << 22))
    }

    /// Codes of floats as [`MxVector::float`] has them, those of integers as i16.
    #[inline(always)]
    fn make_codes<C: CodeLoop>(&self, elements: C) {
        if self.element.is_float() && self.fuses {
            return elements.each(
                self,
                #[inline(always)]
                |bits, factor| self.float(bits, factor, f32::mul_add),
            );
        }
        if self.element.is_float() {
            return elements.each(
                self,
                #[inline(always)]
                |bits, factor| self.float(bits, factor, |power, places, scaled| power * places + scaled),
            );
        }
        let anchor = f32::from_bits((127 + 23 - self.fraction) << 23 | 1 << 22);
        elements.nearest(
            self,
            #[inline(always)]
            |x, factor| x * factor + anchor,
        );
    }

    #[inline(always)]
    fn finish<F: FinishLoop>(&self, codes: F) {
        let MxVector { width, fraction, position, largest, .. } = *self;
        if !self.element.is_float() {
            let largest = largest as i8;
            return codes.each(
                #[inline(always)]
                |code| {
                    let signed = (code as i16).clamp(-128, 127) as i8;
                    signed.max(-largest).min(largest) as u8 & u8::MAX >> (8 - width)
                },
            );
        }
        let (base, largest) = (self.base() as u8, largest as u8);
        let (shift, sign) = (9 + fraction - width, 1_u8 << (width - 1));
        match position {
            0 => codes.each(
                #[inline(always)]
                |code| finished_float(code, base, largest, shift, sign),
            ),
            // There is no shift of bytes.
            _ => codes.each(
                #[inline(always)]
                |code| (u16::from(finished_float(code, base, largest, shift, sign)) << position) as u8,
            ),
        }
    }

    #[cold]
    #[inline(never)]
    fn scalar(&self, values: &[f32], codes: &mut [u8]) -> u8 {
        let scale = self.element.pack(values, codes);
        for code in codes {
            *code <<= self.position;
        }
        scale
    }
}

/// What becomes of the code that [`MxVector::float`] has made.
#[inline(always)]
fn finished_float(code: u16, base: u8, largest: u8, shift: u32, sign: u8) -> u8 {
    (code as u8).wrapping_sub(base).min(largest) | (code >> shift) as u8 & sign
}

impl MxVector {
    /// What exceeds a code before it is finished.
    #[inline(always)]
    fn base(&self) -> u32 {
        (151 - self.fraction - self.bias) << self.fraction
    }

    /// The code of an element in the lower 16 bits, and [`MxVector::base`] more, as saturation and the place of the sign are left to
    /// [`MxVector::finish`].
    ///
    /// Sign and exponent of the sum are those of the anchor, and its low bits are the multiple. Moved right by so many
    /// places that the exponent counts what the multiple does, it is added to itself. A normal multiple includes its hidden bit,
    /// which adds 1 to the exponent. The anchor is a product of powers of two, so that nothing but the sum is rounded, fused or not.
    #[inline(always)]
    fn float(&self, bits: u32, factor: f32, fused: impl Fn(f32, f32, f32) -> f32) -> u32 {
        let (places, least) = (23 - self.fraction, (128 - self.bias) << 23);
        let scaled = f32::from_bits(bits) * factor;
        let power = (scaled.to_bits() & 255 << 23).max(least) | scaled.to_bits() & 1 << 31;
        let sum = fused(f32::from_bits(power), f32::from_bits((127 + places) << 23), scaled).to_bits();
        sum.wrapping_add(sum >> places)
    }
}

/// The vector code of formats whose elements are floats.
#[derive(Clone, Copy)]
pub(crate) struct FloatDecode(pub(crate) MxVector);

/// The vector code of formats whose elements are integers.
#[derive(Clone, Copy)]
pub(crate) struct IntDecode(pub(crate) MxVector);

/// 2^(scale - 127 - less), also where that is a subnormal.
#[inline(always)]
fn power(scale: u8, less: u32) -> f32 {
    let field = i32::from(scale) - less as i32;
    f32::from_bits(if field > 0 { (field as u32) << 23 } else { 1 << (22 + field) })
}

/// The exponent field of 2, which has no bit in common with the exponents of elements.
const TWO: u32 = 128 << 23;

impl FloatDecode {
    /// The value of a code that is finite.
    #[inline(always)]
    fn finite(&self, code: u8, scale: f32) -> u32 {
        let MxVector { width, fraction, .. } = self.0;
        let exponent = width - 1 - fraction;
        // The sign is in the upper bit already.
        let code = i32::from(code as i8) as u32;
        let digits = code << (16 + exponent) & ((1 << (23 + exponent)) - (1 << (23 - fraction))) | TWO;
        let normal = f32::from_bits(digits);
        // A number without a hidden bit is twice what its digits say with one, less the least power. For others that is too large.
        let subnormal = f32::from_bits(digits + (1 << 23)) - 4.0;
        let exact = if subnormal < normal { subnormal } else { normal };
        (exact * scale).to_bits() | code & 1 << 31
    }
}

impl Decode for FloatDecode {
    const GROUPS_PER_SCALE: usize = MX_BLOCK / GROUP;
    // Not under the smallest scales: elements go down to 2^-16, bfloat16 to 2^-133.
    const EXACT: bool = false;

    /// For magnitudes in which 4 stands for the least power, 2^(1 - bias).
    #[inline(always)]
    fn scale(&self, shared: u8) -> f32 {
        power(shared, self.0.bias + 1)
    }

    #[inline(always)]
    fn holds(&self, shared: u8) -> bool {
        shared != SCALE_NAN
    }

    /// The smallest element under it is 2^-133 at the least, as that of bfloat16.
    #[inline(always)]
    fn holds_exactly(&self, shared: u8) -> bool {
        let least = (self.0.bias + self.0.fraction).saturating_sub(7);
        self.holds(shared) && u32::from(shared) >= least
    }

    #[inline(always)]
    fn special(&self) -> Option<u8> {
        let MxVector { infinity, width, .. } = self.0;
        let special = infinity << (8 - width);
        (special <= 0x7F).then_some(special as u8)
    }

    #[inline(always)]
    fn plain_values(&self, codes: &[u8; GROUP], scale: f32) -> [u32; GROUP] {
        let mut values = [0; GROUP];
        for (value, code) in values.iter_mut().zip(codes) {
            *value = self.finite(*code, scale);
        }
        values
    }

    #[inline(always)]
    fn values(&self, codes: &[u8; GROUP], scale: f32) -> [u32; GROUP] {
        let MxVector { infinity, nan, width, .. } = self.0;
        let mut values = [0; GROUP];
        for (value, code) in values.iter_mut().zip(codes) {
            let finite = self.finite(*code, scale);
            let magnitude = u32::from(*code & 0x7F) >> (8 - width);
            let bits = if magnitude >= infinity { finite & 1 << 31 | 255 << 23 } else { finite };
            *value = if magnitude >= nan { f32::NAN.to_bits() } else { bits };
        }
        values
    }

    #[inline(always)]
    fn scalar(&self, code: u8, shared: u8) -> f32 {
        self.0.decode_scalar(code, shared)
    }
}

impl Decode for IntDecode {
    const GROUPS_PER_SCALE: usize = MX_BLOCK / GROUP;
    const EXACT: bool = true;

    #[inline(always)]
    fn scale(&self, shared: u8) -> f32 {
        power(shared, 6)
    }

    #[inline(always)]
    fn holds(&self, shared: u8) -> bool {
        shared != SCALE_NAN
    }

    /// In the upper bits of a byte they are integers of 8 bits, over 64.
    #[inline(always)]
    fn values(&self, codes: &[u8; GROUP], scale: f32) -> [u32; GROUP] {
        let mut values = [0; GROUP];
        for (value, code) in values.iter_mut().zip(codes) {
            *value = (f32::from(*code as i8) * scale).to_bits();
        }
        values
    }

    #[inline(always)]
    fn scalar(&self, code: u8, shared: u8) -> f32 {
        self.0.decode_scalar(code, shared)
    }
}

impl MxVector {
    /// The value of a code in the upper bits of a byte, by the scalar rule.
    fn decode_scalar(&self, code: u8, shared: u8) -> f32 {
        self.element.unpack(code >> (8 - self.width), shared)
    }
}
