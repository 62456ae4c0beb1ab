//! What the elements of a tile are multiplied by before they are packed: nothing, or what codes of another block format share.
//!
//! Codes without it are small numbers, of which all are exact in the arithmetic. A power of two that a group shares adds to the exponent of its
//! largest magnitude and to that of its factor, and changes nothing else.

use std::marker::PhantomData;

use super::encode::MAX_GROUPS;
use super::lanes::Values;
use crate::formats::{BlockCodec, Rule, SCALE_NAN};

/// Powers of two, one for each group of a tile.
pub(crate) trait Scales<const N: usize> {
    /// Makes the exponent fields of groups' largest magnitudes those of their values: 0 of zeros, and 255 of what is no normal number.
    fn scale_exponents(&self, exponents: &mut [u8; MAX_GROUPS]);

    /// Makes factors of values those of elements as they lie.
    fn scale_factors(&self, factors: &mut [f32; MAX_GROUPS]);

    /// The value of an element of group `g`.
    fn value(&self, g: usize, element: [u8; N]) -> f32;
}

/// Elements that are numbers.
pub(crate) struct Plain<L>(PhantomData<L>);

impl<L> Plain<L> {
    pub(crate) const NEW: Plain<L> = Plain(PhantomData);
}

impl<L: Values<N>, const N: usize> Scales<N> for Plain<L> {
    #[inline(always)]
    fn scale_exponents(&self, _exponents: &mut [u8; MAX_GROUPS]) {}

    #[inline(always)]
    fn scale_factors(&self, _factors: &mut [f32; MAX_GROUPS]) {}

    #[inline(always)]
    fn value(&self, _g: usize, element: [u8; N]) -> f32 {
        f32::from_bits(L::widen(element))
    }
}

/// Elements that are codes of a byte, and what each group shares.
pub(crate) struct GroupScales<'a> {
    pub(crate) codec: &'a BlockCodec,
    pub(crate) shared: [u8; MAX_GROUPS],
}

impl GroupScales<'_> {
    /// The shared byte under which codes as their lane widens them are values.
    #[inline(always)]
    fn one(&self) -> i16 {
        match self.codec.rule() {
            // Magnitudes of 7 bits as integers.
            Rule::Bfp(_) => 127 + 6,
            Rule::Mx(_) => 127,
        }
    }

    /// The shared byte whose groups are NaN, if there is one.
    #[inline(always)]
    fn nan(&self) -> Option<u8> {
        matches!(self.codec.rule(), Rule::Mx(_)).then_some(SCALE_NAN)
    }
}

impl Scales<1> for GroupScales<'_> {
    #[inline(always)]
    fn scale_exponents(&self, exponents: &mut [u8; MAX_GROUPS]) {
        let (one, nan) = (self.one(), self.nan().map_or(-1, i16::from));
        for (exponent, &shared) in exponents.iter_mut().zip(&self.shared) {
            let (of_elements, shared) = (i16::from(*exponent), i16::from(shared));
            let raised = of_elements + shared - one;
            let normal = (raised > 0) & (raised < 255) & (of_elements < 255);
            let raised = if normal { raised } else { 255 };
            let raised = if of_elements == 0 { 0 } else { raised };
            *exponent = (if shared == nan { 255 } else { raised }) as u8;
        }
    }

    /// A group whose factor would be less than 2^-126 gets 0: under the scale that it shares with a larger one all of its codes are zeros.
    #[inline(always)]
    fn scale_factors(&self, factors: &mut [f32; MAX_GROUPS]) {
        let one = i32::from(self.one());
        for (factor, &shared) in factors.iter_mut().zip(&self.shared) {
            let field = (factor.to_bits() >> 23) as i32 + i32::from(shared) - one;
            *factor = f32::from_bits((field.clamp(0, 254) as u32) << 23);
        }
    }

    fn value(&self, g: usize, [code]: [u8; 1]) -> f32 {
        self.codec.value(code, self.shared[g])
    }
}
