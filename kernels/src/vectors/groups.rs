//! Groups of 16 elements in vectors: their largest magnitude, and their multiples of a place.

use wide::{i16x8, u32x4, u64x2};

use super::interleave::Interleave;
use super::lanes::{Bf16, F16, F32, Lane};
use crate::formats::GROUP;

/// A lane from which block formats are packed, a group of 16 elements at a time.
pub(crate) trait GroupLane<const N: usize>: Lane<N> {
    /// Whether a group's codes are made as soon as its amax is found. The other way, one tile later, is for arithmetic that
    /// takes longer than loading each group twice.
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

    /// Each element rounded to a multiple of the last place of an anchor by `sum`, which adds the element, scaled, to the
    /// anchor: how many, as i16. The anchor is 1.5 times a power of two, so its low bits are 0; from 2^15 places on the
    /// result means nothing.
    #[inline(always)]
    fn multiples(group: &[[u8; N]; GROUP], sum: impl Fn(f32) -> f32) -> [u16; GROUP] {
        let mut multiples = [0; GROUP];
        for (multiple, x) in multiples.iter_mut().zip(group) {
            *multiple = sum(f32::from_bits(Self::widen(*x))).to_bits() as u16;
        }
        multiples
    }

    /// The amax of each of eight groups.
    #[inline(always)]
    fn amax_of_eight(groups: [&[[u8; N]; GROUP]; EIGHT]) -> [u16; EIGHT] {
        let mut each = [0; EIGHT];
        for (amax, group) in each.iter_mut().zip(groups) {
            *amax = Self::amax(group);
        }
        each
    }

    /// [`GroupLane::multiples`] of two groups; `sum` also gets the factor of the element's group.
    #[inline(always)]
    fn multiples_of_two(
        groups: [&[[u8; N]; GROUP]; 2],
        factors: [f32; 2],
        sum: impl Fn(f32, f32) -> f32,
    ) -> [[u16; GROUP]; 2] {
        let mut multiples = [[0; GROUP]; 2];
        for ((to, group), factor) in multiples.iter_mut().zip(groups).zip(factors) {
            *to = Self::multiples(
                group,
                #[inline(always)]
                |x| sum(x, factor),
            );
        }
        multiples
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

impl GroupLane<2> for Bf16 {
    const CODES_AT_ONCE: bool = true;

    #[inline(always)]
    fn amax(group: &[[u8; 2]; GROUP]) -> u16 {
        amax_of_words(group)
    }

    type Largest = [i16x8; 2];

    #[inline(always)]
    fn raise(largest: &mut Self::Largest, elements: &[[u8; 2]; GROUP]) {
        raise_words(largest, elements);
    }

    #[inline(always)]
    fn amax_of_each(largest: Self::Largest) -> [u16; GROUP] {
        bytemuck::cast(largest)
    }

    #[inline(always)]
    fn upper(amax: u16) -> u32 {
        amax.into()
    }

    #[inline(always)]
    fn multiples(group: &[[u8; 2]; GROUP], sum: impl Fn(f32) -> f32) -> [u16; GROUP] {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(group.as_flattened().as_chunks().0) {
            *word = both(u32::from_le_bytes(*bytes), &sum);
        }
        bytemuck::cast(words)
    }

    /// Lane by lane, with groups side by side in the end: it takes fewer steps than a search in each.
    #[inline(always)]
    fn amax_of_eight(groups: [&[[u8; 2]; GROUP]; EIGHT]) -> [u16; EIGHT] {
        let mut lanes = [i16x8::ZERO; EIGHT];
        for (lanes, group) in lanes.iter_mut().zip(groups) {
            *lanes = magnitudes(group);
        }
        let mut amax = [[0; 4]; 2];
        for (amax, lanes) in amax.iter_mut().zip(lanes.as_chunks::<4>().0) {
            let [a, b, c, d] = *lanes;
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
    fn multiples_of_two(
        groups: [&[[u8; 2]; GROUP]; 2],
        factors: [f32; 2],
        sum: impl Fn(f32, f32) -> f32,
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
                |x| sum(x, *factor),
            );
        }
        bytemuck::cast(made)
    }
}

/// The sums of two elements of bfloat16, which stay in one 32-bit lane: no vector has to be widened or narrowed.
#[inline(always)]
fn both(pair: u32, sum: impl Fn(f32) -> f32) -> u32 {
    const UPPER: u32 = 0xFFFF_0000;
    let sum = |bits: u32| sum(f32::from_bits(bits)).to_bits();
    let both = sum(pair << 16) & !UPPER | sum(pair & UPPER) << 16;
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

/// [`GroupLane::raise`] of 16-bit elements.
#[inline(always)]
fn raise_words(largest: &mut [i16x8; 2], elements: &[[u8; 2]; GROUP]) {
    let [a, b] = of_words(elements);
    *largest = [largest[0].max(a), largest[1].max(b)];
}

/// The larger of the lower half and the upper half of two vectors, lane by lane, interleaved in lanes of `L`.
#[inline(always)]
fn raised<L: Interleave>(a: i16x8, b: i16x8) -> i16x8 {
    let (lower, upper) = bytemuck::cast::<_, L>(a).interleave(bytemuck::cast(b));
    bytemuck::cast::<_, i16x8>(lower).max(bytemuck::cast(upper))
}

impl GroupLane<2> for F16 {
    #[inline(always)]
    fn amax(group: &[[u8; 2]; GROUP]) -> u16 {
        amax_of_words(group)
    }

    type Largest = [i16x8; 2];

    #[inline(always)]
    fn raise(largest: &mut Self::Largest, elements: &[[u8; 2]; GROUP]) {
        raise_words(largest, elements);
    }

    #[inline(always)]
    fn amax_of_each(largest: Self::Largest) -> [u16; GROUP] {
        bytemuck::cast(largest)
    }

    #[inline(always)]
    fn upper(amax: u16) -> u32 {
        F16::widen(amax.to_le_bytes()) >> 16
    }
}

#[inline(always)]
fn amax_of_words(group: &[[u8; 2]; GROUP]) -> u16 {
    largest(magnitudes(group))
}
