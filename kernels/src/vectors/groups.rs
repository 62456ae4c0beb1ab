//! Groups of 16 elements in vectors: their largest magnitude, and their multiples of a place.

use wide::{i16x8, u8x16, u32x4, u64x2};

use super::interleave::Interleave;
use super::lanes::{Bf16, E4M3, F16, F32, Sen169, SignMagnitude, Values};
use crate::formats::GROUP;

/// A lane from which block formats are packed, a group of 16 elements at a time.
pub(crate) trait GroupLane<const N: usize>: Values<N> {
    /// Whether codes are made eight groups behind their amax. The other way is one tile behind, and faster where a vector has one group of
    /// codes: f32 so has 5.1 instead of 5.7 G elements/s in L2 on Zen 4.
    const CODES_AT_ONCE: bool = false;

    /// The amax of a group, its largest magnitude: the upper 16 bits of it.
    fn amax(group: &[[u8; N]; GROUP]) -> u16;

    /// The largest magnitudes of 16 groups that lie side by side, in vectors.
    type Largest: Copy + Default;

    /// Raises them by an element of each group.
    fn raise(largest: &mut Self::Largest, elements: &[[u8; N]; GROUP]);

    /// The amax of each.
    fn amax_of_each(largest: Self::Largest) -> [u16; GROUP];

    /// The upper 16 bits, as binary32, of a magnitude with these upper 16 bits.
    fn upper(amax: u16) -> u32;

    /// Its exponent field as binary32.
    #[inline(always)]
    fn exponent(amax: u16) -> u32 {
        Self::upper(amax) >> 7
    }

    /// The amax of each of eight groups.
    #[inline(always)]
    fn amax_of_eight(groups: [&[[[u8; N]; GROUP]; EIGHT / 2]; 2]) -> [u16; EIGHT] {
        let mut each = [0; EIGHT];
        for (amax, group) in each.iter_mut().zip(groups.into_iter().flatten()) {
            *amax = Self::amax(group);
        }
        each
    }

    /// The bits of a finite element's binary32; any others for an element that is not.
    #[inline(always)]
    fn finite(code: [u8; N]) -> u32 {
        Self::widen(code)
    }

    /// The codes of two groups, the lower 16 bits of what is made of the bits of an element's binary32 and its group's factor.
    #[inline(always)]
    fn codes_of_two(
        groups: &[[[u8; N]; GROUP]; 2],
        factors: [f32; 2],
        code: impl Fn(u32, f32) -> u32,
    ) -> [[u16; GROUP]; 2] {
        let mut codes = [[0; GROUP]; 2];
        for ((to, group), factor) in codes.iter_mut().zip(groups).zip(factors) {
            for (to, x) in to.iter_mut().zip(group) {
                *to = code(Self::finite(*x), factor) as u16;
            }
        }
        codes
    }
}

/// Groups whose amax is found together.
pub(crate) const EIGHT: usize = 8;

/// The largest lane of numbers that are not negative. Compilers know these steps, and have one instruction for them
/// where the processor has.
#[inline(always)]
fn largest(mut numbers: i16x8) -> u16 {
    for half in [4, 2, 1] {
        let lanes = numbers.to_array();
        let mut upper = lanes;
        for (lane, upper) in upper.iter_mut().enumerate() {
            *upper = lanes[(lane + half) % 8];
        }
        numbers = numbers.max(upper.into());
    }
    numbers.to_array()[0] as u16
}

/// The upper 16 bits of a magnitude.
const UPPER: u32 = 0x7FFF_0000;

/// The larger of two magnitudes of each lane, of which there are only the upper 16 bits: every processor has an instruction for 16.
#[inline(always)]
fn larger(a: u32x4, b: u32x4) -> u32x4 {
    bytemuck::cast(bytemuck::cast::<_, i16x8>(a).max(bytemuck::cast(b)))
}

impl GroupLane<4> for F32 {
    #[inline(always)]
    fn amax(group: &[[u8; 4]; GROUP]) -> u16 {
        let mut words = [0; GROUP];
        for (word, x) in words.iter_mut().zip(group) {
            *word = Self::widen(*x);
        }
        let upper = u32x4::splat(UPPER);
        let [a, b, c, d] = bytemuck::cast::<_, [u32x4; 4]>(words).map(|words| words & upper);
        largest(bytemuck::cast(larger(a, b) | larger(c, d) >> 16))
    }

    type Largest = [u32x4; 4];

    #[inline(always)]
    fn raise(largest: &mut Self::Largest, elements: &[[u8; 4]; GROUP]) {
        let mut words = [0; GROUP];
        for (word, x) in words.iter_mut().zip(elements) {
            *word = Self::widen(*x);
        }
        for (largest, x) in largest.iter_mut().zip(bytemuck::cast::<_, [u32x4; 4]>(words)) {
            *largest = larger(*largest, x & u32x4::splat(UPPER));
        }
    }

    #[inline(always)]
    fn amax_of_each(largest: Self::Largest) -> [u16; GROUP] {
        bytemuck::cast::<_, [u32; GROUP]>(largest).map(|bits| (bits >> 16) as u16)
    }

    #[inline(always)]
    fn upper(amax: u16) -> u32 {
        amax.into()
    }
}

/// What all groups of 16-bit elements have, whose magnitudes are in the order of their bits.
macro_rules! groups_of_words {
    () => {
        #[inline(always)]
        fn amax(group: &[[u8; 2]; GROUP]) -> u16 {
            largest(magnitudes(group))
        }

        type Largest = [i16x8; 2];

        #[inline(always)]
        fn raise(largest: &mut Self::Largest, elements: &[[u8; 2]; GROUP]) {
            let [a, b] = of_words(elements);
            *largest = [largest[0].max(a), largest[1].max(b)];
        }

        #[inline(always)]
        fn amax_of_each(largest: Self::Largest) -> [u16; GROUP] {
            bytemuck::cast(largest)
        }
    };
}

impl GroupLane<2> for Bf16 {
    const CODES_AT_ONCE: bool = true;

    groups_of_words!();

    #[inline(always)]
    fn upper(amax: u16) -> u32 {
        amax.into()
    }

    /// Lane by lane, with groups side by side in the end: it takes fewer steps than a search in each.
    #[inline(always)]
    fn amax_of_eight(groups: [&[[[u8; 2]; GROUP]; EIGHT / 2]; 2]) -> [u16; EIGHT] {
        let mut amax = [[0; 4]; 2];
        for (amax, [a, b, c, d]) in amax.iter_mut().zip(groups) {
            let (a, b, c, d) = (magnitudes(a), magnitudes(b), magnitudes(c), magnitudes(d));
            // Pairs of 16-bit lanes of four groups.
            let pairs = raised::<u64x2>(raised::<u32x4>(a, b), raised::<u32x4>(c, d));
            let upper: i16x8 = bytemuck::cast(bytemuck::cast::<_, u32x4>(pairs) >> 16);
            *amax = bytemuck::cast::<_, u32x4>(pairs.max(upper)).to_array();
        }
        let mut each = [0; EIGHT];
        for (each, amax) in each.iter_mut().zip(amax.as_flattened()) {
            *each = *amax as u16;
        }
        each
    }

    /// In one vector, where the processor has such.
    #[inline(always)]
    fn codes_of_two(
        groups: &[[[u8; 2]; GROUP]; 2],
        factors: [f32; 2],
        code: impl Fn(u32, f32) -> u32,
    ) -> [[u16; GROUP]; 2] {
        let (mut words, mut each) = ([[0; 8]; 2], [[0.0; 8]; 2]);
        for (((words, group), each), factor) in words.iter_mut().zip(groups).zip(&mut each).zip(factors) {
            for (word, bytes) in words.iter_mut().zip(group.as_flattened().as_chunks().0) {
                *word = u32::from_le_bytes(*bytes);
            }
            *each = [factor; 8];
        }
        let mut made = [[0; 8]; 2];
        let lanes = made.as_flattened_mut().iter_mut().zip(words.as_flattened()).zip(each.as_flattened());
        for ((made, word), factor) in lanes {
            *made = both(
                *word,
                #[inline(always)]
                |bits| code(bits, *factor),
            );
        }
        bytemuck::cast(made)
    }
}

/// The codes of two elements of bfloat16, which stay in one 32-bit lane: no vector has to be widened or narrowed.
#[inline(always)]
fn both(pair: u32, code: impl Fn(u32) -> u32) -> u32 {
    const UPPER: u32 = 0xFFFF_0000;
    let both = code(pair << 16) & !UPPER | code(pair & UPPER) << 16;
    if cfg!(target_endian = "little") { both } else { both.rotate_left(16) }
}

/// The larger of two magnitudes of a group of 16-bit elements, for each of eight pairs.
#[inline(always)]
fn magnitudes(group: &[[u8; 2]; GROUP]) -> i16x8 {
    let [a, b] = of_words(group);
    a.max(b)
}

/// The magnitudes of 16-bit elements.
#[inline(always)]
fn of_words(group: &[[u8; 2]; GROUP]) -> [i16x8; 2] {
    let mut words = [0; GROUP];
    for (word, x) in words.iter_mut().zip(group) {
        *word = i16::from_le_bytes(*x);
    }
    bytemuck::cast::<_, [i16x8; 2]>(words).map(|words| words & i16x8::splat(0x7FFF))
}

/// The larger of the lower half and the upper half of two vectors, lane by lane, interleaved in lanes of `L`.
#[inline(always)]
fn raised<L: Interleave>(a: i16x8, b: i16x8) -> i16x8 {
    let (lower, upper) = bytemuck::cast::<_, L>(a).interleave(bytemuck::cast(b));
    bytemuck::cast::<_, i16x8>(lower).max(bytemuck::cast(upper))
}

impl GroupLane<2> for F16 {
    groups_of_words!();

    /// As [`F16::widen`](Values::widen), without a question for infinity and NaN.
    #[inline(always)]
    fn finite(code: [u8; 2]) -> u32 {
        let code = u32::from(u16::from_le_bytes(code));
        let magnitude = (code & 0x7FFF) << 13;
        let subnormal = f32::from_bits(magnitude + (113 << 23)) - f32::from_bits(113 << 23);
        let bits = if magnitude < 1 << 23 { subnormal.to_bits() } else { magnitude + (112 << 23) };
        bits | (code & 0x8000) << 16
    }

    #[inline(always)]
    fn upper(amax: u16) -> u32 {
        F16::widen(amax.to_le_bytes()) >> 16
    }
}

impl GroupLane<2> for Sen169 {
    groups_of_words!();

    /// As [`Sen169::widen`](Values::widen), without a question for NaN.
    #[inline(always)]
    fn finite(code: [u8; 2]) -> u32 {
        let code = u32::from(u16::from_le_bytes(code));
        let magnitude = code & 0x7FFF;
        (if magnitude == 0 { 0 } else { (magnitude << 14) + (96 << 23) }) | (code & 0x8000) << 16
    }

    #[inline(always)]
    fn upper(amax: u16) -> u32 {
        Sen169::widen(amax.to_le_bytes()) >> 16
    }
}

/// Bytes without their sign.
#[inline(always)]
fn of_bytes(group: &[[u8; 1]; GROUP]) -> u8x16 {
    u8x16::from(bytemuck::cast::<_, [u8; GROUP]>(*group)) & u8x16::splat(0x7F)
}

/// What all groups of bytes have, whose magnitudes are in the order of their bits.
macro_rules! groups_of_bytes {
    () => {
        #[inline(always)]
        fn amax(group: &[[u8; 1]; GROUP]) -> u16 {
            let pairs: [u16; GROUP / 2] = bytemuck::cast(of_bytes(group));
            let pairs = i16x8::from(pairs.map(|pair| pair as i16));
            largest((pairs & i16x8::splat(0xFF)).max(pairs >> 8))
        }

        type Largest = u8x16;

        #[inline(always)]
        fn raise(largest: &mut Self::Largest, elements: &[[u8; 1]; GROUP]) {
            *largest = largest.max(of_bytes(elements));
        }

        #[inline(always)]
        fn amax_of_each(largest: Self::Largest) -> [u16; GROUP] {
            largest.to_array().map(u16::from)
        }
    };
}

impl GroupLane<1> for E4M3 {
    groups_of_bytes!();

    /// As [`E4M3::widen`](Values::widen), without a question for NaN. With its sign a byte is one step, and the lesser of what a number without
    /// a hidden bit is, and one with it, is right: under the least power the first is less, above it the second.
    #[inline(always)]
    fn finite([code]: [u8; 1]) -> u32 {
        let code = code as i8 as u32;
        let normal = (code << 20 & 0x7F << 20) + (120 << 23);
        let subnormal = f32::from_bits(normal + (1 << 23)) - f32::from_bits(121 << 23);
        let normal = f32::from_bits(normal);
        let magnitude = if subnormal < normal { subnormal } else { normal };
        magnitude.to_bits() | code & 1 << 31
    }

    #[inline(always)]
    fn upper(amax: u16) -> u32 {
        E4M3::widen([amax as u8]) >> 16
    }
}

impl GroupLane<1> for SignMagnitude {
    groups_of_bytes!();

    #[inline(always)]
    fn upper(amax: u16) -> u32 {
        SignMagnitude::widen([amax as u8]) >> 16
    }
}
