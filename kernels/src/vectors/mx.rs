//! Packing and unpacking the MX formats by arithmetic instead of shifts.
//!
//! To this arithmetic all eight are one format: a number of exponent E (at least a least one) is k * 2^(E - fraction)
//! with an integer k. Adding 2^(E + 23 - fraction) leaves the processor no place below 2^(E - fraction), so it rounds as
//! the rule says, gradual underflow included, and the low bits of the sum are k; subtracting it again decodes. The integer formats
//! are those whose least exponent is also the largest. Dividing by the scale is exact but for results far below half the
//! smallest element. Blocks with NaN or infinity take the scalar rule when they are packed.

use super::decode::Decode;
use super::encode::{CodeLoop, Encode};
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
}

impl MxVector {
    /// The arithmetic for a format and its elements.
    #[inline(always)]
    pub(crate) fn new(element: Element, format: BlockFormat) -> MxVector {
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
        MxVector { element, code_bits, position, width, fraction, bias, emax, largest, infinity, nan }
    }

    /// Whether some codes are infinite or NaN.
    #[inline(always)]
    pub(crate) fn has_special(&self) -> bool {
        self.infinity < 1 << (self.width - 1)
    }
}

impl Encode for MxVector {
    const GROUPS_PER_SCALE: usize = MX_BLOCK / GROUP;

    #[inline(always)]
    fn code_bits(&self) -> usize {
        self.code_bits as usize
    }

    #[inline(always)]
    fn shared(&self, exponent: u32) -> (u8, bool) {
        // Exponent field 0 may be a block of zeros, whose scale is not that of subnormals.
        (exponent.saturating_sub(self.emax) as u8, exponent.wrapping_sub(1) < 254)
    }

    /// 2^(127 - scale), subnormal for 254.
    #[inline(always)]
    fn factor(&self, exponent: u32) -> f32 {
        let scale = exponent.saturating_sub(self.emax);
        f32::from_bits((254_u32.wrapping_sub(scale) << 23).max(1 << 22))
    }

    /// Codes of floats before they are shifted to their `position`, those of integers as i16.
    #[inline(always)]
    fn make_codes<C: CodeLoop>(&self, elements: C) {
        if self.element.is_float() {
            return elements.each(
                self,
                #[inline(always)]
                |bits, factor| self.float(bits, factor),
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
    fn finish(&self, code: u16) -> u8 {
        if self.element.is_float() {
            return (code as u8) << self.position;
        }
        let largest = self.largest as i8;
        let signed = (code as i16).clamp(-128, 127) as i8;
        signed.max(-largest).min(largest) as u8 & u8::MAX >> (8 - self.width)
    }

    #[cold]
    #[inline(never)]
    fn scalar(&self, values: &[f32], codes: &mut [u16]) -> u8 {
        let mut bytes = [0; MX_BLOCK];
        let scale = self.element.pack(values, &mut bytes);
        for (code, byte) in codes.iter_mut().zip(bytes) {
            // With the sign of integers in the bits above the code, too.
            let above = if self.element.is_float() { 0 } else { 16 - self.width };
            *code = ((u16::from(byte) << above) as i16 >> above) as u16;
        }
        scale
    }
}

impl MxVector {
    #[inline(always)]
    fn float(&self, bits: u32, factor: f32) -> u16 {
        let f = self.fraction;
        let (least, offset) = ((128 - self.bias) << 23, (128 - self.bias) << f);
        let scaled = f32::from_bits(bits & !(1 << 31)) * factor;
        let exponent = scaled.to_bits().max(least) & 255 << 23;
        let anchor = exponent.wrapping_add((23 - f) << 23);
        let multiple = (scaled + f32::from_bits(anchor)).to_bits().wrapping_sub(anchor);
        // A normal multiple includes its hidden bit, which adds 1 to the exponent.
        let magnitude = (exponent >> (23 - f)).wrapping_add(multiple).wrapping_sub(offset);
        let sign = bits >> (32 - self.width) & 1 << (self.width - 1);
        (magnitude.min(self.largest) | sign) as u16
    }
}

/// The vector code of formats whose elements are floats; `SPECIAL`: some of them are infinite or NaN.
#[derive(Clone, Copy)]
pub(crate) struct FloatDecode<const SPECIAL: bool>(pub(crate) MxVector);

/// The vector code of formats whose elements are integers.
#[derive(Clone, Copy)]
pub(crate) struct IntDecode(pub(crate) MxVector);

/// 2^(scale - 127), with a subnormal for 0.
#[inline(always)]
fn power(scale: u8) -> f32 {
    f32::from_bits((u32::from(scale) << 23).max(1 << 22))
}

impl<const SPECIAL: bool> Decode for FloatDecode<SPECIAL> {
    const GROUPS_PER_SCALE: usize = MX_BLOCK / GROUP;
    // Not under the smallest scales: elements go down to 2^-16, bfloat16 to 2^-133.
    const EXACT: bool = false;

    #[inline(always)]
    fn scale(&self, shared: u8) -> (f32, bool) {
        (power(shared), shared != SCALE_NAN)
    }

    #[inline(always)]
    fn values(&self, codes: &[u8; GROUP], scale: f32) -> [u32; GROUP] {
        let MxVector { fraction: f, position, width, bias, infinity, nan, .. } = self.0;
        let (mask, hidden) = ((1 << (width - 1)) - 1, 1 << f);
        let (normal, least) = ((127 - bias) << 23, (128 - bias) << 23);
        let mut values = [0; GROUP];
        for (value, code) in values.iter_mut().zip(codes) {
            let code = u32::from(*code) >> position;
            let magnitude = code & mask;
            let digits = magnitude << (23 - f);
            // A subnormal is a fraction under the least exponent once that power is taken away again.
            let subnormal = f32::from_bits(digits + least) - f32::from_bits(least);
            let exact = if magnitude < hidden { subnormal } else { f32::from_bits(digits + normal) };
            let bits = (exact * scale).to_bits();
            let bits = if SPECIAL && magnitude >= infinity { 255 << 23 } else { bits };
            let bits = bits | code << (32 - width) & 1 << 31;
            *value = if SPECIAL && magnitude >= nan { f32::NAN.to_bits() } else { bits };
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
    fn scale(&self, shared: u8) -> (f32, bool) {
        (if shared == SCALE_NAN { 0.0 } else { power(shared) }, true)
    }

    #[inline(always)]
    fn values(&self, codes: &[u8; GROUP], scale: f32) -> [u32; GROUP] {
        let (unit, above) = (f32::from_bits((127 - self.0.fraction) << 23), 32 - self.0.width);
        // Under scale 0 negative codes are no -0.
        let kept = if scale == 0.0 { 0 } else { -1 };
        let mut values = [0; GROUP];
        for (value, code) in values.iter_mut().zip(codes) {
            let count = (u32::from(*code) << above) as i32 >> above & kept;
            *value = (count as f32 * unit * scale).to_bits();
        }
        values
    }

    #[inline(always)]
    fn scalar(&self, code: u8, shared: u8) -> f32 {
        self.0.decode_scalar(code, shared)
    }
}

impl MxVector {
    /// The value of a code as it is stored, by the scalar rule.
    fn decode_scalar(&self, code: u8, shared: u8) -> f32 {
        let code = code >> self.position & (u8::MAX >> (8 - self.width));
        self.element.unpack(code, shared)
    }
}
