//! From one format straight to another: by way of binary32, or in lanes of 16 bits where both formats have no more, so that a
//! vector holds twice as many.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::lanes::{Bf16, F16, Lane, Sen169, truncated};

/// How a code of `M` bytes becomes one of `N` bytes.
pub(crate) trait Step<const M: usize, const N: usize> {
    /// Whether [`Step::some`] is faster than as many times [`Step::step`].
    const HAS_SOME: bool = false;

    /// The code in the other format.
    fn step(code: [u8; M]) -> [u8; N];

    /// A shorter way that holds for most codes: the code in the other format, and whether it holds for this one.
    #[inline(always)]
    fn short_cut(code: [u8; M]) -> ([u8; N], bool) {
        (Self::step(code), true)
    }

    /// Converts a few codes: the shorter way, unless it fails for one of them.
    #[inline(always)]
    fn some<const K: usize>(codes: &[[u8; M]; K]) -> [[u8; N]; K] {
        let mut out = [[0; N]; K];
        Self::some_into(codes, &mut out);
        out
    }

    /// [`Step::some`] into as much room, of any number of codes.
    #[inline(always)]
    fn some_into(codes: &[[u8; M]], out: &mut [[u8; N]]) {
        // By index: of two zipped iterators LLVM computed the lengths again, and SEN169 sticks had four tenths of the speed.
        let mut holds = true;
        for i in 0..codes.len().min(out.len()) {
            let held;
            (out[i], held) = Self::short_cut(codes[i]);
            holds &= held;
        }
        if !holds {
            for i in 0..codes.len().min(out.len()) {
                out[i] = Self::step(codes[i]);
            }
        }
    }
}

/// By way of binary32.
pub(crate) struct By<A, B>(PhantomData<(A, B)>);

impl<A: Lane<M>, B: Lane<N>, const M: usize, const N: usize> Step<M, N> for By<A, B> {
    const HAS_SOME: bool = N < M;

    #[inline(always)]
    fn step(code: [u8; M]) -> [u8; N] {
        B::narrow(A::widen(code))
    }

    /// In two loops: what is nothing but a cut to fewer bytes takes half of the instructions, as vectors of 256 bits have some that join two.
    #[allow(clippy::needless_range_loop, reason = "of two zipped iterators LLVM computes the lengths again")]
    #[inline(always)]
    fn some_into(codes: &[[u8; M]], out: &mut [[u8; N]]) {
        /// Four such vectors: of twice as many, some would wait in memory.
        const AT_ONCE: usize = 32;
        let (codes, rest) = codes.as_chunks::<AT_ONCE>();
        let (out, rest_out) = out.as_chunks_mut::<AT_ONCE>();
        for (out, codes) in out.iter_mut().zip(codes) {
            let mut narrow = [0; AT_ONCE];
            for i in 0..AT_ONCE {
                narrow[i] = B::code(A::widen(codes[i]));
            }
            for i in 0..AT_ONCE {
                out[i] = truncated(narrow[i]);
            }
        }
        for (out, code) in rest_out.iter_mut().zip(rest) {
            *out = Self::step(*code);
        }
    }
}

pub(crate) struct F16ToBf16;
pub(crate) struct F16ToSen169;
pub(crate) struct Sen169ToF16;
pub(crate) struct Bf16ToSen169;
pub(crate) struct Sen169ToBf16;

const SIGN: u16 = 1 << 15;
/// The one NaN of SEN169, which has no sign.
const SEN169_NAN: u16 = 0x7FFF;

impl Step<2, 2> for F16ToBf16 {
    const HAS_SOME: bool = true;

    #[inline(always)]
    fn step(code: [u8; 2]) -> [u8; 2] {
        By::<F16, Bf16>::step(code)
    }

    /// Normal numbers lose three places, ties to even, and zeros are zeros.
    #[inline(always)]
    fn short_cut(code: [u8; 2]) -> ([u8; 2], bool) {
        let code = u16::from_le_bytes(code);
        let (sign, magnitude) = (code & SIGN, code & !SIGN);
        let normal = magnitude.wrapping_sub(1 << 10) < 30 << 10;
        let places = ((magnitude + 3 + (magnitude >> 3 & 1)) >> 3) + (112 << 7);
        let out = if magnitude == 0 { 0 } else { places } | sign;
        (out.to_le_bytes(), normal | (magnitude == 0))
    }
}

impl Step<2, 2> for F16ToSen169 {
    const HAS_SOME: bool = true;

    #[inline(always)]
    fn step(code: [u8; 2]) -> [u8; 2] {
        By::<F16, Sen169>::step(code)
    }

    /// Normal numbers lose the last place, and zeros are zeros.
    #[inline(always)]
    fn short_cut(code: [u8; 2]) -> ([u8; 2], bool) {
        let code = u16::from_le_bytes(code);
        let (sign, magnitude) = (code & SIGN, code & !SIGN);
        let normal = magnitude.wrapping_sub(1 << 10) < 30 << 10;
        let places = ((magnitude + 1) >> 1) + (16 << 9);
        let out = if magnitude == 0 { 0 } else { places } | sign;
        (out.to_le_bytes(), normal | (magnitude == 0))
    }
}

impl Step<2, 2> for Sen169ToF16 {
    const HAS_SOME: bool = true;

    #[inline(always)]
    fn step(code: [u8; 2]) -> [u8; 2] {
        By::<Sen169, F16>::step(code)
    }

    /// What is a normal number there is exact, and zeros are zeros.
    #[inline(always)]
    fn short_cut(code: [u8; 2]) -> ([u8; 2], bool) {
        let code = u16::from_le_bytes(code);
        let (sign, magnitude) = (code & SIGN, code & !SIGN);
        let normal = magnitude.wrapping_sub(17 << 9) < 30 << 9;
        let places = (magnitude << 1).wrapping_sub(16 << 10);
        let out = if magnitude == 0 { 0 } else { places } | sign;
        (out.to_le_bytes(), normal | (magnitude == 0))
    }
}

impl Step<2, 2> for Bf16ToSen169 {
    #[inline(always)]
    fn step(code: [u8; 2]) -> [u8; 2] {
        let code = u16::from_le_bytes(code);
        let (sign, magnitude) = (code & SIGN, code & !SIGN);
        let places = (magnitude.saturating_sub(96 << 7).min(1 << 13) << 2).clamp(1, SEN169_NAN);
        // Up to half of the smallest magnitude, which is 2^-32 * 513/512.
        let out = if magnitude <= 95 << 7 { 0 } else { places } | sign;
        let out = if magnitude > 255 << 7 { SEN169_NAN } else { out };
        out.to_le_bytes()
    }
}

impl Step<2, 2> for Sen169ToBf16 {
    #[inline(always)]
    fn step(code: [u8; 2]) -> [u8; 2] {
        let code = u16::from_le_bytes(code);
        let (sign, magnitude) = (code & SIGN, code & !SIGN);
        // Two places are lost, ties to even.
        let places = ((magnitude + 1 + (magnitude >> 2 & 1)) >> 2) + (96 << 7);
        let out = if magnitude == 0 { 0 } else { places } | sign;
        let out = if magnitude == SEN169_NAN { 0x7FC0 } else { out };
        out.to_le_bytes()
    }
}

/// A format of 16 bits: its bits behind the exponent, its bias, its infinity, and its NaN. It has all numbers of E4M3 and E5M2, and all whole
/// ones of 8 bits.
pub(crate) trait Bits16 {
    const FRACTION: u32;
    const BIAS: u16;
    const INFINITY: u16;
    const NAN: u16;
}

impl Bits16 for Bf16 {
    const FRACTION: u32 = 7;
    const BIAS: u16 = 127;
    const INFINITY: u16 = 0x7F80;
    const NAN: u16 = 0x7FC0;
}

impl Bits16 for F16 {
    const FRACTION: u32 = 10;
    const BIAS: u16 = 15;
    const INFINITY: u16 = 0x7C00;
    const NAN: u16 = 0x7E00;
}

impl Bits16 for Sen169 {
    const FRACTION: u32 = 9;
    const BIAS: u16 = 31;
    const INFINITY: u16 = SEN169_NAN;
    const NAN: u16 = SEN169_NAN;
}

/// From a code of one byte to one of two, each of which is found by itself: a vector has twice as many bytes as numbers of 16 bits.
trait ByBytes {
    /// The lower byte and the upper one.
    fn bytes(code: u8) -> (u8, u8);
}

impl<S: ByBytes> Step<1, 2> for S {
    const HAS_SOME: bool = true;

    #[inline(always)]
    fn step([code]: [u8; 1]) -> [u8; 2] {
        S::bytes(code).into()
    }

    /// In two loops: in one the compiler takes as many codes as a vector has numbers of 16 bits.
    #[allow(clippy::needless_range_loop, reason = "of two zipped iterators LLVM computes the lengths again")]
    #[inline(always)]
    fn some_into(codes: &[[u8; 1]], out: &mut [[u8; 2]]) {
        let (codes, rest) = codes.as_chunks::<TOGETHER>();
        let (out, rest_out) = out.as_chunks_mut::<TOGETHER>();
        for (out, codes) in out.iter_mut().zip(codes) {
            let (mut lower, mut upper) = ([0; TOGETHER], [0; TOGETHER]);
            for i in 0..TOGETHER {
                (lower[i], upper[i]) = S::bytes(codes[i][0]);
            }
            for i in 0..TOGETHER {
                out[i] = [lower[i], upper[i]];
            }
        }
        for (out, code) in rest_out.iter_mut().zip(rest) {
            *out = Self::step(*code);
        }
    }
}

/// From E4M3 to a format of 16 bits, exactly.
pub(crate) struct E4M3To<B>(PhantomData<B>);

impl<B: Bits16> ByBytes for E4M3To<B> {
    #[inline(always)]
    fn bytes(code: u8) -> (u8, u8) {
        const FRACTION: u32 = 3;
        let magnitude = code & 0x7F;
        // Subnormals are multiples of 2^-9: 1, 2 and 3, 4 to 7. Moved up until their first bit is the hidden one, with one less in the
        // exponent for each place, they are less than they were; normal numbers would be more. All have 2 more in the exponent, so
        // that none is below zero.
        let two = code << 1;
        let four = two.saturating_add(two);
        let eight = four.saturating_add(four);
        let normal = (magnitude + 16).min(two.saturating_add(8)).min(four).min(eight.saturating_sub(8));
        let lower = normal << (B::FRACTION - FRACTION);
        let upper = (normal >> (8 + FRACTION - B::FRACTION)) + exponent::<B>(7 + 2);
        let (lower, upper) = either(magnitude == 0, 0, (lower, upper));
        either(magnitude == 0x7F, B::NAN, (lower, upper | code & 0x80))
    }
}

/// From E5M2, the upper half of a binary16, to a format of 16 bits, exactly.
pub(crate) struct E5M2To<B>(PhantomData<B>);

impl<B: Bits16> ByBytes for E5M2To<B> {
    #[inline(always)]
    fn bytes(code: u8) -> (u8, u8) {
        const FRACTION: u32 = 2;
        const BIAS: u16 = <F16 as Bits16>::BIAS;
        let magnitude = code & 0x7F;
        let (lower, upper) = if B::BIAS == BIAS {
            (0, magnitude)
        } else {
            // Subnormals are multiples of 2^-16: 1, 2 and 3. They become normal as those of E4M3 do.
            let two = code << 1;
            let normal = (magnitude + 8).min(two.saturating_add(4)).min(two.saturating_add(two));
            let lower = normal << (B::FRACTION - FRACTION);
            let upper = (normal >> (8 + FRACTION - B::FRACTION)) + exponent::<B>(BIAS + 2);
            either(magnitude == 0, 0, (lower, upper))
        };
        let (lower, upper) = either(magnitude == 0x7C, B::INFINITY, (lower, upper));
        either(magnitude > 0x7C, B::NAN, (lower, upper | code & 0x80))
    }
}

/// The upper byte of what is added to an exponent that has another bias. The lower one is 0: of these formats bfloat16 alone has a bit of the
/// exponent there, and its bias is odd as the others are, so that they differ by an even number.
#[inline(always)]
fn exponent<B: Bits16>(bias: u16) -> u8 {
    ((B::BIAS.wrapping_sub(bias) << B::FRACTION) >> 8) as u8
}

/// The bytes of a code, or others.
#[inline(always)]
fn either(is_code: bool, code: u16, (lower, upper): (u8, u8)) -> (u8, u8) {
    if is_code { (code as u8, (code >> 8) as u8) } else { (lower, upper) }
}

/// From a whole number of 8 bits to a format of 16, exactly: it has no more places than these, and is 0 or normal.
pub(crate) struct U8To<B>(PhantomData<B>);

impl<B: Bits16> Step<1, 2> for U8To<B> {
    #[inline(always)]
    fn step([number]: [u8; 1]) -> [u8; 2] {
        let bits = f32::from(number).to_bits() >> (23 - B::FRACTION);
        let normal = bits.wrapping_sub(u32::from(127 - B::BIAS) << B::FRACTION);
        (if number == 0 { 0 } else { normal as u16 }).to_le_bytes()
    }
}

/// Codes that are converted together where there is a shorter way.
const TOGETHER: usize = 64;

/// Converts elements that lie one after another on both sides.
#[inline(always)]
pub(crate) fn convert<S: Step<M, N>, const M: usize, const N: usize>(
    src: &[u8],
    dst: &mut [MaybeUninit<u8>],
) {
    let (mut src, mut dst) = (src.as_chunks::<M>().0, dst.as_chunks_mut::<N>().0);
    if S::HAS_SOME {
        let (from, src_rest) = src.as_chunks::<TOGETHER>();
        let (to, dst_rest) = dst.as_chunks_mut::<TOGETHER>();
        for (to, from) in to.iter_mut().zip(from) {
            for (to, code) in to.iter_mut().zip(S::some(from)) {
                *to = code.map(MaybeUninit::new);
            }
        }
        (src, dst) = (src_rest, dst_rest);
    }
    for (to, from) in dst.iter_mut().zip(src) {
        *to = S::step(*from).map(MaybeUninit::new);
    }
}

#[cfg(test)]
mod tests {
    use super::super::lanes::{E4M3, E5M2};
    use super::*;

    /// Every code (under Miri every 61st block of 64), alone and among others, as by way of binary32.
    fn is_as_by<S: Step<2, 2>, A: Lane<2>, B: Lane<2>>() {
        let codes: Vec<[u8; 2]> = (0..=u16::MAX).map(u16::to_le_bytes).collect();
        for codes in codes.as_chunks::<64>().0.iter().step_by(if cfg!(miri) { 61 } else { 1 }) {
            let expected = codes.map(By::<A, B>::step);
            assert_eq!(codes.map(S::step), expected);
            assert_eq!(S::some(codes), expected);
            for (code, expected) in codes.iter().zip(expected) {
                let (short, holds) = S::short_cut(*code);
                assert!(!holds || short == expected, "{code:?}: {short:?} for {expected:?}");
            }
        }
    }

    /// Every code of a byte, alone and among others, as by way of binary32.
    fn of_bytes_is_as_by<S: Step<1, 2>, A: Lane<1>, B: Lane<2>>() {
        let codes: [[u8; 1]; 256] = std::array::from_fn(|code| [code as u8]);
        let expected = codes.map(By::<A, B>::step);
        assert_eq!(codes.map(S::step), expected);
        assert_eq!(S::some(&codes), expected);
    }

    #[test]
    fn steps_from_floats_of_a_byte_are_as_by_way_of_binary32() {
        of_bytes_is_as_by::<E4M3To<Bf16>, E4M3, Bf16>();
        of_bytes_is_as_by::<E4M3To<F16>, E4M3, F16>();
        of_bytes_is_as_by::<E4M3To<Sen169>, E4M3, Sen169>();
        of_bytes_is_as_by::<E5M2To<Bf16>, E5M2, Bf16>();
        of_bytes_is_as_by::<E5M2To<F16>, E5M2, F16>();
        of_bytes_is_as_by::<E5M2To<Sen169>, E5M2, Sen169>();
    }

    #[test]
    fn steps_from_bytes_are_as_by_way_of_binary32() {
        for number in 0..=u8::MAX {
            let bits = f32::from(number).to_bits();
            let steps =
                [U8To::<Bf16>::step([number]), U8To::<F16>::step([number]), U8To::<Sen169>::step([number])];
            assert_eq!(steps, [Bf16::narrow(bits), F16::narrow(bits), Sen169::narrow(bits)], "{number}");
        }
    }

    #[test]
    fn steps_in_16_bits_are_as_by_way_of_binary32() {
        is_as_by::<F16ToBf16, F16, Bf16>();
        is_as_by::<F16ToSen169, F16, Sen169>();
        is_as_by::<Sen169ToF16, Sen169, F16>();
        is_as_by::<Bf16ToSen169, Bf16, Sen169>();
        is_as_by::<Sen169ToBf16, Sen169, Bf16>();
    }
}
