//! Packing block floats by arithmetic instead of shifts.
//!
//! With a shared exponent e in 24..=254 and S = 2^(150 - e), `trunc(x * S)` is the signed 24-bit significand of x shifted to
//! the shared exponent, lost bits dropped; the product is exact. Adding 1.5 * 2^40 (for 7 magnitude bits) leaves the
//! processor no place below 2^17, so it rounds as the host's rule says, ties to even, and the low bits of the sum are the
//! signed code. Under exponent 0 (nothing but zeros and subnormals) S = 0 gives the zeros that the rule wants; other
//! exponents are rare and take the scalar rule.

use super::encode::{CodeLoop, Encode, FinishLoop};
use super::exponent_search::lower_exponents;
use super::groups::GroupLane;
use crate::formats::{Bfp, BlockOptions, GROUP, Rounding, round_early};
use crate::memory::Arrays;

/// The vector arithmetic that packs block floats.
#[derive(Clone, Copy)]
pub(crate) struct BfpEncode<const SEARCH: bool> {
    bfp: Bfp,
    /// With the rounding that is left once elements are replaced.
    options: BlockOptions,
    rounding: Rounding,
    /// Whether elements are rounded early, as [`Rounding::DeviceOp`] has it.
    rounds_early: bool,
    fuses: bool,
}

impl<const SEARCH: bool> BfpEncode<SEARCH> {
    /// `fuses`: whether the level has instructions for [`f32::trunc`] and [`f32::mul_add`].
    #[inline(always)]
    pub(crate) fn new(bfp: Bfp, options: BlockOptions, fuses: bool) -> BfpEncode<SEARCH> {
        let rounds_early = options.rounding == Rounding::DeviceOp;
        let rounding = if rounds_early { Rounding::Device } else { options.rounding };
        let options = BlockOptions { rounding, search: SEARCH, ..options };
        BfpEncode { bfp, options, rounding, rounds_early, fuses }
    }
}

impl<const SEARCH: bool> Encode for BfpEncode<SEARCH> {
    const GROUPS_PER_SCALE: usize = 1;
    const SEARCHES: bool = SEARCH;

    #[inline(always)]
    fn code_bits(&self) -> usize {
        self.bfp.magnitude as usize + 1
    }

    #[inline(always)]
    fn replaces_elements(&self) -> bool {
        self.bfp.narrow || self.rounds_early
    }

    /// The element rounded early, and then what the 5-bit exponent makes of it: exponents move into 112..=143 from either
    /// side.
    #[inline(always)]
    fn replacement(&self, bits: u32) -> u32 {
        let bits = if self.rounds_early { round_early(bits) } else { bits };
        if !self.bfp.narrow {
            return bits;
        }
        let magnitude = bits & !(1 << 31);
        let clamped = magnitude.clamp(112 << 23, (144 << 23) - 1);
        if magnitude < 1 << 23 { 0 } else { clamped | bits & 1 << 31 }
    }

    #[inline(always)]
    fn shared(&self, exponent: u8) -> (u8, bool) {
        let shared = exponent.saturating_sub(if self.bfp.narrow { 112 } else { 0 });
        // A search also needs the exponent below.
        let least = 24 + u8::from(SEARCH);
        (shared, (exponent.wrapping_sub(least) <= 254 - least) | (exponent == 0))
    }

    /// For exponent 0 it is about -2^-106, and any subnormal times that rounds to 0.
    #[inline(always)]
    fn factor(&self, exponent: u32) -> f32 {
        f32::from_bits(277_u32.wrapping_sub(exponent) << 23)
    }

    #[inline(always)]
    fn search<L: GroupLane<N>, const N: usize>(
        &self,
        groups: &Arrays<'_, N, GROUP>,
        amax: &[u16],
        exponents: &mut [u8],
    ) {
        let bfp = self.bfp;
        match (self.rounding, self.fuses) {
            (Rounding::Host, true) => {
                lower_exponents::<L, N>(bfp, true, groups, amax, exponents, |x| self.even(x, f32::trunc));
            }
            (Rounding::Host, false) => {
                lower_exponents::<L, N>(bfp, true, groups, amax, exponents, |x| self.even(x, truncated));
            }
            (_, true) => {
                lower_exponents::<L, N>(bfp, false, groups, amax, exponents, |x| self.down(x, f32::trunc));
            }
            (_, false) => {
                lower_exponents::<L, N>(bfp, false, groups, amax, exponents, |x| self.down(x, truncated));
            }
        }
    }

    /// With their sign, as i16.
    #[inline(always)]
    fn make_codes<C: CodeLoop>(&self, elements: C) {
        let anchor = self.anchor();
        match (self.rounding, self.fuses) {
            // No bit that counts is lost: one beyond the last of 11 bits is far below half a place of the code.
            (Rounding::Host, true) if C::SHORT => elements.nearest(
                self,
                #[inline(always)]
                |x, factor| x.mul_add(factor, anchor),
            ),
            (Rounding::Host, false) if C::SHORT => elements.nearest(
                self,
                #[inline(always)]
                |x, factor| x * factor + anchor,
            ),
            (Rounding::Host, true) => elements.nearest(
                self,
                #[inline(always)]
                |x, factor| (x * factor).trunc() + anchor,
            ),
            (Rounding::Host, false) => elements.nearest(
                self,
                #[inline(always)]
                |x, factor| truncated(x * factor) + anchor,
            ),
            (_, true) => elements.each(
                self,
                #[inline(always)]
                |bits, factor| self.cut(bits, factor, f32::trunc),
            ),
            (_, false) => elements.each(
                self,
                #[inline(always)]
                |bits, factor| self.cut(bits, factor, truncated),
            ),
        }
    }

    #[inline(always)]
    fn finish<F: FinishLoop>(&self, codes: F) {
        let (largest, sign) = (self.bfp.largest() as i8, 1_u8 << self.bfp.magnitude);
        codes.each(
            #[inline(always)]
            |code| {
                let signed = (code as i16).clamp(-128, 127) as i8;
                let signed = signed.max(-largest).min(largest);
                if signed < 0 { sign.wrapping_sub(signed as u8) } else { signed as u8 }
            },
        );
    }

    #[cold]
    #[inline(never)]
    fn scalar(&self, values: &[f32], codes: &mut [u8]) -> u8 {
        self.bfp.pack(values, codes, &self.options)
    }
}

/// [`f32::trunc`] for processors on which that is a call and no instruction.
///
/// Adding 2^23 leaves no place below 1. Numbers from 2^23 on have none anyway.
#[inline(always)]
fn truncated(x: f32) -> f32 {
    const WHOLE: f32 = 8_388_608.0;
    let magnitude = x.abs();
    let anchor = if magnitude < WHOLE { WHOLE } else { 0.0 };
    let nearest = magnitude + anchor - anchor;
    (nearest - if nearest > magnitude { 1.0 } else { 0.0 }).copysign(x)
}

impl<const SEARCH: bool> BfpEncode<SEARCH> {
    /// The code of an element as [`BfpEncode::cut_magnitude`] rounds it, with its sign.
    #[inline(always)]
    fn cut(&self, bits: u32, factor: f32, trunc: impl Fn(f32) -> f32) -> u32 {
        let count = self.cut_magnitude(f32::from_bits(bits & !(1 << 31)) * factor, &trunc);
        let magnitude = (count + 8_388_608.0).to_bits();
        let sign = (bits as i32 >> 31) as u32;
        (magnitude ^ sign).wrapping_sub(sign)
    }

    /// 1.5 * 2^40 for m = 7, with the last place at 2^(24 - m).
    #[inline(always)]
    fn anchor(&self) -> f32 {
        f32::from_bits((127 + 47 - self.bfp.magnitude) << 23 | 1 << 22)
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

    /// The code of a magnitude that was multiplied by its factor: to 7 bits, the bits below cut off (after half a place was
    /// added, as on the device), and then cut to the format's width.
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
