//! The OCP microscaling (MX) formats: 32 elements share a power-of-two scale.
//!
//! The scale byte is E8M0 (2^(byte - 127)); an element's value is its own value times the scale.
//!
//! The vector code sees one format in all eight: a number of exponent E (at least a least one) is k * 2^(E - fraction)
//! with an integer k. Adding 2^(E + 23 - fraction) leaves the processor no place below 2^(E - fraction), so it rounds as
//! the rule says, gradual underflow included, and the low bits of the sum are k; subtracting it again decodes. The integer formats
//! are those whose least exponent is also the largest. Dividing by the scale is exact but for results far below half the
//! smallest element. Blocks with NaN or infinity take the scalar rule when they are packed.

use crate::bfp::GROUP;
use crate::block::BlockFormat;
use crate::lane::{Lane, Peak};
use crate::number::{Ties, exp2, finite_value, floor_log2, nearest, round_to_multiple, with_sign};
use crate::pack::{Encode, Walk};
use crate::unpack::Decode;

/// Elements that share one scale: two rows of a face, as they are stored.
pub(crate) const BLOCK: usize = 32;

/// Scale byte of a block that holds nothing but NaN; reads as NaN (float elements) or 0 (integers).
const SCALE_NAN: u8 = 0xFF;
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

/// An element format as the vector code sees it.
#[derive(Clone, Copy)]
pub(crate) struct Vector {
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

impl Element {
    /// The vector code of `format`, whose elements these are.
    pub(crate) fn vector(self, format: BlockFormat) -> Vector {
        let (width, fraction, bias, emax, largest) = match self {
            Element::Float { exponent, fraction, bias, emax, largest, .. } => {
                (1 + exponent + fraction, fraction, bias as u32, emax as u32, largest.into())
            }
            Element::Int { bits } => (bits, bits - 2, 1, 0, (1 << (bits - 1)) - 1),
        };
        let (code_bits, position) = (format.code_bits() as u32, format.code_shift());
        let (infinity, nan) = match self {
            Element::Float { infinity, largest, .. } => (u32::from(largest) + 1, u32::from(infinity) + 1),
            Element::Int { .. } => (u32::MAX, u32::MAX),
        };
        Vector { element: self, code_bits, position, width, fraction, bias, emax, largest, infinity, nan }
    }

    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Element::Float { .. })
    }
}

impl Encode for Vector {
    const SHARING: usize = BLOCK / GROUP;

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

    /// Floats without what `position` says, integers as i16.
    #[inline(always)]
    fn walk<L: Peak<N>, const N: usize>(&self, walk: Walk<'_, N>) {
        if self.element.is_float() {
            return walk.each::<Self, L>(
                self,
                #[inline(always)]
                |group, factor| self.floats::<L, N>(group, factor),
            );
        }
        let anchor = f32::from_bits((127 + 23 - self.fraction) << 23 | 1 << 22);
        walk.nearest::<Self, L>(
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
    fn by_the_rule(&self, values: &[f32], codes: &mut [u16]) -> u8 {
        let mut bytes = [0; BLOCK];
        let scale = self.element.pack(values, &mut bytes);
        for (code, byte) in codes.iter_mut().zip(bytes) {
            // With the sign of integers in the bits above the code, too.
            let above = if self.element.is_float() { 0 } else { 16 - self.width };
            *code = ((u16::from(byte) << above) as i16 >> above) as u16;
        }
        scale
    }
}

impl Vector {
    #[inline(always)]
    fn floats<L: Lane<N>, const N: usize>(&self, group: &[[u8; N]; GROUP], factor: f32) -> [u16; GROUP] {
        let f = self.fraction;
        let (least, offset) = ((128 - self.bias) << 23, (128 - self.bias) << f);
        let mut codes = [0; GROUP];
        for (code, x) in codes.iter_mut().zip(group) {
            let bits = L::widen(*x);
            let scaled = f32::from_bits(bits & !(1 << 31)) * factor;
            let exponent = scaled.to_bits().max(least) & 255 << 23;
            let anchor = exponent.wrapping_add((23 - f) << 23);
            let multiple = (scaled + f32::from_bits(anchor)).to_bits().wrapping_sub(anchor);
            // A normal multiple brings its hidden one along, which adds 1 to the exponent.
            let magnitude = (exponent >> (23 - f)).wrapping_add(multiple).wrapping_sub(offset);
            let sign = bits >> (32 - self.width) & 1 << (self.width - 1);
            *code = (magnitude.min(self.largest) | sign) as u16;
        }
        codes
    }
}

/// The vector code of formats whose elements are floats.
#[derive(Clone, Copy)]
pub(crate) struct FloatDecode(pub(crate) Vector);

/// The vector code of formats whose elements are integers.
#[derive(Clone, Copy)]
pub(crate) struct IntDecode(pub(crate) Vector);

/// 2^(scale - 127), with a subnormal for 0; `nan` for the byte that is no number.
#[inline(always)]
fn power(scale: u8, nan: f32) -> f32 {
    let power = f32::from_bits((u32::from(scale) << 23).max(1 << 22));
    if scale == SCALE_NAN { nan } else { power }
}

impl Decode for FloatDecode {
    const SHARING: usize = BLOCK / GROUP;
    // Not under the smallest scales: elements go down to 2^-16, bfloat16 to 2^-133.
    const EXACT: bool = false;

    #[inline(always)]
    fn scale(&self, shared: u8) -> (f32, bool) {
        (power(shared, f32::NAN), true)
    }

    #[inline(always)]
    fn values(&self, codes: &[u8; GROUP], scale: f32) -> [u32; GROUP] {
        let Vector { fraction: f, position, width, bias, infinity, nan, .. } = self.0;
        let nan = if scale.is_nan() { 0 } else { nan };
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
            let bits = if magnitude >= infinity { 255 << 23 } else { bits };
            let bits = bits | code << (32 - width) & 1 << 31;
            *value = if magnitude >= nan { f32::NAN.to_bits() } else { bits };
        }
        values
    }

    #[inline(always)]
    fn by_the_rule(&self, code: u8, shared: u8) -> f32 {
        self.0.by_the_rule(code, shared)
    }
}

impl Decode for IntDecode {
    const SHARING: usize = BLOCK / GROUP;
    const EXACT: bool = true;

    #[inline(always)]
    fn scale(&self, shared: u8) -> (f32, bool) {
        (power(shared, 0.0), true)
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
    fn by_the_rule(&self, code: u8, shared: u8) -> f32 {
        self.0.by_the_rule(code, shared)
    }
}

impl Vector {
    /// The value of a code as it is stored.
    fn by_the_rule(&self, code: u8, shared: u8) -> f32 {
        let code = code >> self.position & (u8::MAX >> (8 - self.width));
        self.element.unpack(code, shared)
    }
}
