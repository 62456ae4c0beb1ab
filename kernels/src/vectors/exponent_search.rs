//! The search for better shared exponents of block floats.
//!
//! Everything is measured in units of the 24-bit significand under the group's exponent, where it is exact in binary64:
//! a power of two, multiplied with all values, changes no rounding of squares and sums. So the sums compare as those of the
//! scalar rule do.

use super::encode::MAX_GROUPS;
use super::groups::GroupLane;
use crate::formats::{Bfp, GROUP};
use crate::memory::Arrays;

/// Takes 1 from the exponents of groups for which the scalar rule prefers the lower one.
///
/// Few groups need to be tried. With s the place of a code (2^(1 - m) of the exponent's power), the largest
/// number under the exponent below is 1 - s / 2. A group of amax p has an error of p - 1 + s / 2 there, and here 16 errors
/// that are no larger than s, or than s / 2 if rounded to nearest, but for elements that saturate, which are far worse below.
/// So the lower exponent loses from p = 1 + 7/2 s, or 1 + 3/2 s.
///
/// `multiple` rounds a scaled element to a multiple of the place of a code; `nearest`: whether to the nearest one.
#[inline(always)]
pub(crate) fn lower_exponents<L: GroupLane<N>, const N: usize>(
    bfp: Bfp,
    nearest: bool,
    groups: &Arrays<'_, N, GROUP>,
    amax: &[u16],
    exponents: &mut [u8],
    multiple: impl Fn(f32) -> f32,
) {
    // In units of the last of the 7 bits of amax, the rest of which is cut off. One more makes up for the bits that
    // elements lose before they are rounded.
    let halves = if nearest { 3 } else { 7 };
    let hopeless = (halves << 6 >> (bfp.magnitude - 1)) + 1;
    let mut candidates = [0; MAX_GROUPS];
    for ((candidate, &amax), exponent) in candidates.iter_mut().zip(amax).zip(&*exponents) {
        let few = (L::upper(amax) & 127) < hopeless;
        *candidate = u8::from(few & (exponent.wrapping_sub(25) <= 254 - 25));
    }
    // Bits of one number, so that there is one branch that no processor can foresee.
    let mut left = 0;
    for (i, eight) in candidates.as_chunks().0.iter().enumerate() {
        // Byte b has bit b of the product's upper byte, and no sum of others reaches that byte.
        let bits = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        left |= bits << (8 * i);
    }
    while left > 0 {
        let g = left.trailing_zeros() as usize;
        left &= left - 1;
        let factor = f32::from_bits((277 - u32::from(exponents[g])) << 23);
        exponents[g] -= u8::from(better_below::<L, N>(groups.get(g), factor, &multiple));
    }
}

/// Whether the exponent below the one whose factor is given has the strictly smaller sum of squared errors. Sums are in
/// the order of elements.
#[inline(always)]
fn better_below<L: GroupLane<N>, const N: usize>(
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
