//! Block floats whose groups of 16 elements share an exponent: bfp8, bfp4 and bfp2, with
//! 8-bit exponents (`_b`) or 5-bit ones (`_a`).
//!
//! A code is a sign above `m` magnitude bits; its value is `(-1)^sign * magnitude * 2^(shared - bias - (m - 1))`.
//!
//! The vector code rests on arithmetic instead of shifts. With a shared exponent e in 24..=254 and S = 2^(150 - e),
//! `trunc(x * S)` is the signed 24-bit significand of x shifted to the shared exponent, lost bits dropped; the product is
//! exact. Adding 1.5 * 2^40 (for 7 magnitude bits) leaves the processor no place below 2^17, so it rounds as the host's
//! rule says, ties to even, and the low bits of the sum are the signed code. Under exponent 0 (nothing but zeros and
//! subnormals) S = 0 gives the zeros that the rule wants; other exponents, rare, take the scalar rule.

use crate::block::Rounding;
use crate::lane::Peak;
use crate::mem::Arrays;
use crate::number::{exp2, with_sign};
use crate::pack::{Encode, Walk};
use crate::unpack::Decode;

/// Elements that share one exponent: a row of a face.
pub(crate) const GROUP: usize = 16;

/// One of the six formats.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bfp {
    /// Magnitude bits of a code: 7, 3 or 1.
    pub(crate) magnitude: u32,
    /// Whether the exponent is the 5-bit one with bias 15.
    pub(crate) narrow: bool,
}

impl Bfp {
    const fn largest(self) -> u32 {
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
    pub(crate) fn pack(self, x: &[f32], codes: &mut [u8], rounding: Rounding, search: bool) -> u8 {
        let highest = x.iter().filter_map(|v| self.split(v.to_bits())).map(|(e, _)| e).max().unwrap_or(0);
        let shared = if search && self.prefers_lower(x, highest, rounding) { highest - 1 } else { highest };
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
                Rounding::Device => ((aligned + (1 << 16)) >> 17).min(127) >> (7 - self.magnitude),
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
    pub(crate) fn unpack_compat(self, code: u8, shared: u8) -> f32 {
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
}

impl Bfp {
    /// The vector code. `truncates`: whether the level has an instruction for [`f32::trunc`].
    pub(crate) fn encode<const SEARCH: bool>(self, rounding: Rounding, truncates: bool) -> BfpEncode<SEARCH> {
        BfpEncode { bfp: self, rounding, truncates }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct BfpEncode<const SEARCH: bool> {
    bfp: Bfp,
    rounding: Rounding,
    truncates: bool,
}

impl<const SEARCH: bool> Encode for BfpEncode<SEARCH> {
    const SHARING: usize = 1;
    const SEARCHES: bool = SEARCH;

    #[inline(always)]
    fn code_bits(&self) -> usize {
        self.bfp.magnitude as usize + 1
    }

    #[inline(always)]
    fn confines(&self) -> bool {
        self.bfp.narrow
    }

    /// What the 5-bit exponent makes of a number, as a binary32: it moves into 112..=143 from either side.
    #[inline(always)]
    fn confine(&self, bits: u32) -> u32 {
        let magnitude = bits & !(1 << 31);
        let confined = magnitude.clamp(112 << 23, (144 << 23) - 1);
        if magnitude < 1 << 23 { 0 } else { confined | bits & 1 << 31 }
    }

    #[inline(always)]
    fn shared(&self, exponent: u32) -> (u8, bool) {
        let shared = exponent.saturating_sub(if self.bfp.narrow { 112 } else { 0 });
        // A search also needs the exponent below.
        let least = 24 + u32::from(SEARCH);
        (shared as u8, (exponent.wrapping_sub(least) <= 254 - least) | (exponent == 0))
    }

    /// For exponent 0 it is about -2^-106, and any subnormal times that rounds to 0.
    #[inline(always)]
    fn factor(&self, exponent: u32) -> f32 {
        f32::from_bits(277_u32.wrapping_sub(exponent) << 23)
    }

    #[inline(always)]
    fn search<L: Peak<N>, const N: usize>(
        &self,
        groups: &Arrays<'_, N, GROUP>,
        peaks: &[u16],
        exponents: &mut [u32],
    ) {
        match (self.rounding, self.truncates) {
            (Rounding::Host, true) => {
                self.lower::<L, N>(groups, peaks, exponents, |x| self.even(x, f32::trunc))
            }
            (Rounding::Host, false) => {
                self.lower::<L, N>(groups, peaks, exponents, |x| self.even(x, truncated))
            }
            (_, true) => self.lower::<L, N>(groups, peaks, exponents, |x| self.down(x, f32::trunc)),
            (_, false) => self.lower::<L, N>(groups, peaks, exponents, |x| self.down(x, truncated)),
        }
    }

    /// With their sign, as i16.
    #[inline(always)]
    fn walk<L: Peak<N>, const N: usize>(&self, walk: Walk<'_, N>) {
        let anchor = self.anchor();
        match (self.rounding, self.truncates) {
            // No bit that counts is lost: one beyond the last of 11 bits is far below half a place of the code.
            (Rounding::Host, true) if L::SHORT => walk.nearest::<Self, L>(
                self,
                #[inline(always)]
                |x, factor| x.mul_add(factor, anchor),
            ),
            (Rounding::Host, false) if L::SHORT => walk.nearest::<Self, L>(
                self,
                #[inline(always)]
                |x, factor| x * factor + anchor,
            ),
            (Rounding::Host, true) => walk.nearest::<Self, L>(
                self,
                #[inline(always)]
                |x, factor| (x * factor).trunc() + anchor,
            ),
            (Rounding::Host, false) => walk.nearest::<Self, L>(
                self,
                #[inline(always)]
                |x, factor| truncated(x * factor) + anchor,
            ),
            (_, true) => walk.each::<Self, L>(
                self,
                #[inline(always)]
                |group, factor| self.cut::<L, N>(group, factor, f32::trunc),
            ),
            (_, false) => walk.each::<Self, L>(
                self,
                #[inline(always)]
                |group, factor| self.cut::<L, N>(group, factor, truncated),
            ),
        }
    }

    #[inline(always)]
    fn finish(&self, code: u16) -> u8 {
        let largest = self.bfp.largest() as i8;
        let signed = (code as i16).clamp(-128, 127) as i8;
        let signed = signed.max(-largest).min(largest);
        let sign = 1_u8 << self.bfp.magnitude;
        if signed < 0 { sign.wrapping_sub(signed as u8) } else { signed as u8 }
    }

    #[cold]
    #[inline(never)]
    fn by_the_rule(&self, values: &[f32], codes: &mut [u16]) -> u8 {
        let mut bytes = [0; GROUP];
        let shared = self.bfp.pack(values, &mut bytes, self.rounding, SEARCH);
        for (code, byte) in codes.iter_mut().zip(bytes) {
            let magnitude = u16::from(byte) & self.bfp.largest() as u16;
            *code = if u16::from(byte) == magnitude { magnitude } else { magnitude.wrapping_neg() };
        }
        shared
    }
}

/// [`f32::trunc`] where that is no instruction, but a call.
///
/// Adding 2^23 leaves no place below 1. What is not below 2^23 itself has none.
#[inline(always)]
fn truncated(x: f32) -> f32 {
    const WHOLE: f32 = 8_388_608.0;
    let magnitude = x.abs();
    let anchor = if magnitude < WHOLE { WHOLE } else { 0.0 };
    let nearest = magnitude + anchor - anchor;
    (nearest - if nearest > magnitude { 1.0 } else { 0.0 }).copysign(x)
}

impl<const SEARCH: bool> BfpEncode<SEARCH> {
    /// To 7 bits, the bits below cut off (after half a place was added, on the device), and then to the format's width.
    #[inline(always)]
    fn cut<L: Peak<N>, const N: usize>(
        &self,
        group: &[[u8; N]; GROUP],
        factor: f32,
        trunc: impl Fn(f32) -> f32,
    ) -> [u16; GROUP] {
        let mut codes = [0; GROUP];
        for (code, x) in codes.iter_mut().zip(group) {
            let bits = L::widen(*x);
            let count = self.cut_magnitude(f32::from_bits(bits & !(1 << 31)) * factor, &trunc);
            let magnitude = (count + 8_388_608.0).to_bits();
            let sign = (bits as i32 >> 31) as u32;
            *code = (magnitude ^ sign).wrapping_sub(sign) as u16;
        }
        codes
    }

    /// 1.5 * 2^40 for m = 7, with the last place at 2^(24 - m).
    #[inline(always)]
    fn anchor(&self) -> f32 {
        f32::from_bits((127 + 47 - self.bfp.magnitude) << 23 | 1 << 22)
    }

    /// The magnitude's code as [`BfpEncode::cut`] has it, of a magnitude times its factor.
    #[inline(always)]
    fn cut_magnitude(&self, scaled: f32, trunc: impl Fn(f32) -> f32) -> f32 {
        let half = if self.rounding == Rounding::Device { 65536.0 } else { 0.0 };
        let (place, width) =
            (f32::from_bits((127 - 17) << 23), f32::from_bits((127 + self.bfp.magnitude - 7) << 23));
        let seven = trunc((trunc(scaled) + half) * place);
        let seven = if seven > 127.0 { 127.0 } else { seven };
        trunc(seven * width)
    }
}

/// The search for better exponents.
///
/// Everything is measured in units of the 24-bit significand under the group's exponent, where it is exact in binary64:
/// a power of two, multiplied with all values, changes no rounding of squares and sums. So the sums compare as the rule's do.
impl<const SEARCH: bool> BfpEncode<SEARCH> {
    /// Takes 1 from the exponents of groups that [`Bfp::prefers_lower`].
    ///
    /// Few groups get as far as that. With s the place of a code (2^(1 - m) of the exponent's power), the largest
    /// number under the exponent below is 1 - s / 2. A group of peak p has an error of p - 1 + s / 2 there, and here 16 errors
    /// that are no larger than s, or than s / 2 if rounded to nearest, but for elements that saturate, which are far worse below.
    /// So the lower exponent loses from p = 1 + 7/2 s, or 1 + 3/2 s.
    #[inline(always)]
    fn lower<L: Peak<N>, const N: usize>(
        &self,
        groups: &Arrays<'_, N, GROUP>,
        peaks: &[u16],
        exponents: &mut [u32],
        multiple: impl Fn(f32) -> f32,
    ) {
        // In units of the last of the peak's 7 bits, the rest of which is cut off. One more makes up for the bits that
        // elements lose before they are rounded.
        let halves = if self.rounding == Rounding::Host { 3 } else { 7 };
        let hopeless = (halves << 6 >> (self.bfp.magnitude - 1)) + 1;
        // A list is made without branches, which no processor could foresee.
        let mut candidates = [0; 64];
        let mut count = 0;
        for (g, (&peak, exponent)) in peaks.iter().zip(&*exponents).enumerate() {
            let candidate = ((L::upper(peak) & 127) < hopeless) & (exponent.wrapping_sub(25) <= 254 - 25);
            candidates[count & 63] = g;
            count += usize::from(candidate);
        }
        for &g in &candidates[..count] {
            let g = g & 63;
            let factor = f32::from_bits((277 - exponents[g]) << 23);
            exponents[g] -= u32::from(better_below::<L, N>(groups.get(g), factor, &multiple));
        }
    }

    /// A scaled element, rounded to a multiple of the place of a code, ties to even.
    #[inline(always)]
    fn even(&self, scaled: f32, trunc: impl Fn(f32) -> f32) -> f32 {
        let largest = (self.bfp.largest() << (24 - self.bfp.magnitude)) as f32;
        let multiple = trunc(scaled) + self.anchor() - self.anchor();
        let multiple = if multiple > largest { largest } else { multiple };
        if multiple < -largest { -largest } else { multiple }
    }

    /// The same as [`BfpEncode::cut`] rounds.
    #[inline(always)]
    fn down(&self, scaled: f32, trunc: impl Fn(f32) -> f32) -> f32 {
        let place = (1 << (24 - self.bfp.magnitude)) as f32;
        (self.cut_magnitude(scaled.abs(), trunc) * place).copysign(scaled)
    }
}

/// Whether the exponent below the one whose factor is given has the strictly smaller sum of squared errors. Sums are in
/// the order of elements.
#[inline(always)]
fn better_below<L: Peak<N>, const N: usize>(
    group: &[[u8; N]; GROUP],
    factor: f32,
    multiple: impl Fn(f32) -> f32,
) -> bool {
    let (mut here, mut below) = ([0.0; GROUP], [0.0; GROUP]);
    for ((x, here), below) in group.iter().zip(&mut here).zip(&mut below) {
        let x = f32::from_bits(L::widen(*x));
        let exact = f64::from(x) * f64::from(factor);
        let gap = exact - f64::from(multiple(x * factor));
        *here = gap * gap;
        let gap = exact - f64::from(multiple(x * (2.0 * factor)) * 0.5);
        *below = gap * gap;
    }
    let sums = here.iter().zip(&below).fold((0.0, 0.0), |(h, b), (here, below)| (h + here, b + below));
    sums.1 < sums.0
}

impl Bfp {
    /// The vector code. `compat`: as the device library's host code, see [`Bfp::unpack_compat`].
    pub(crate) fn decode(self, compat: bool) -> BfpDecode {
        BfpDecode { bfp: self, compat }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct BfpDecode {
    bfp: Bfp,
    compat: bool,
}

impl Decode for BfpDecode {
    const SHARING: usize = 1;
    const EXACT: bool = true;

    #[inline(always)]
    fn scale(&self, shared: u8) -> (f32, bool) {
        let bfp = self.bfp;
        // The exponent field of 2^(shared - bias - (m - 1)); -5 at the least, which is a subnormal.
        let field = i32::from(shared) + if bfp.narrow { 112 } else { 0 } - (bfp.magnitude as i32 - 1);
        // Where normalising neither underflows nor reaches exponent 255 the library is exact; elsewhere its quirk counts.
        let quirk = self.compat && !(7..=if bfp.narrow { 142 } else { 254 }).contains(&shared);
        // Finite scales only, so that zero times the scale is zero.
        let bits = if field > 0 { (field as u32) << 23 } else { 1 << (22 + field) };
        (f32::from_bits(bits), !quirk && field <= 254)
    }

    #[inline(always)]
    fn values(&self, codes: &[u8; GROUP], scale: f32) -> [u32; GROUP] {
        let m = self.bfp.magnitude;
        let mut values = [0; GROUP];
        for (value, code) in values.iter_mut().zip(codes) {
            let code = u32::from(*code);
            let magnitude = (code & self.bfp.largest()) as i32 as f32;
            *value = (magnitude * scale).to_bits() | code << (31 - m) & 1 << 31;
        }
        values
    }

    #[inline(always)]
    fn by_the_rule(&self, code: u8, shared: u8) -> f32 {
        if self.compat { self.bfp.unpack_compat(code, shared) } else { self.bfp.unpack(code, shared) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Around every power of two, and a stride through all codes.
    #[test]
    fn truncated_is_trunc() {
        let edges = (0..=255_u32).flat_map(|e| (0..24).map(move |i| e << 23 | ((1 << i) >> 1)));
        let edges = edges.flat_map(|code| [code.wrapping_sub(1), code, code + 1]);
        for code in edges.chain((0..=u32::MAX).step_by(if cfg!(miri) { 1 << 22 } else { 997 })) {
            for x in [f32::from_bits(code), -f32::from_bits(code)] {
                let (got, want) = (truncated(x), x.trunc());
                assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{x:e}: {got:e}");
            }
        }
    }
}
