//! What packing asks of a family of block formats, and the loop over the groups of a tile that calls it.

use std::marker::PhantomData;

use super::groups::{EIGHT, GroupLane};
use crate::formats::{GROUP, TileShape};
use crate::memory::{Arrays, prefetch_l2};

/// What a family of formats does with groups of 16 elements.
///
/// Its rule for a group depends on the group's largest magnitude: that sets the shared byte and a factor which brings the
/// elements to where one addition rounds them. Groups for which this arithmetic fails are rare, and take the scalar rule.
pub(crate) trait Encode: Copy {
    /// Groups that share an exponent or a scale: 1 or 2.
    const GROUPS_PER_SCALE: usize;

    /// Whether [`Encode::search`] finds better exponents.
    const SEARCHES: bool = false;

    /// Bits of a code: 8, 4 or 2.
    fn code_bits(&self) -> usize;

    /// Whether elements are replaced before anything else.
    fn replaces_elements(&self) -> bool {
        false
    }

    /// The binary32 that an element is replaced by, both given by their bits.
    #[inline(always)]
    fn replacement(&self, bits: u32) -> u32 {
        bits
    }

    /// The shared byte for elements of which the largest has this binary32 exponent field, and whether the arithmetic
    /// holds there.
    fn shared(&self, exponent: u8) -> (u8, bool);

    /// The factor for such elements; any number where the arithmetic does not hold.
    fn factor(&self, exponent: u32) -> f32;

    /// Replaces the exponents of groups, those of their largest magnitudes (`amax`), by better ones.
    #[inline(always)]
    fn search<L: GroupLane<N>, const N: usize>(
        &self,
        _groups: &Arrays<'_, N, GROUP>,
        _amax: &[u16],
        _exponents: &mut [u8],
    ) {
    }

    /// Runs the loop with what makes an element's code, as [`Encode::finish`] takes it, of its binary32 and its group's factor.
    fn make_codes<C: CodeLoop>(&self, elements: C);

    /// Runs the loop with what makes of a code the one that is stored, with nothing above it. A step of its own, because it is
    /// done in vectors of bytes.
    fn finish<F: FinishLoop>(&self, codes: F);

    /// The scalar rule for all elements that share a byte: the byte, and their codes as they are stored.
    fn scalar(&self, values: &[f32], codes: &mut [u8]) -> u8;
}

/// The most groups that a tile can have.
pub(crate) const MAX_GROUPS: usize = TileShape::MAX_ELEMENTS / GROUP;

/// A loop over the elements of a tile, which makes their codes.
pub(crate) trait CodeLoop {
    /// Whether no element has more than 11 bits.
    const SHORT: bool;

    /// Runs it with a rule that takes the bits of an element's binary32, and its group's factor.
    fn each<E: Encode>(self, encode: &E, code: impl Fn(u32, f32) -> u16);

    /// Runs it where codes are multiples of the last place of an anchor, as [`GroupLane::multiples`] has them; `sum` gets an
    /// element and its group's factor.
    fn nearest<E: Encode>(self, encode: &E, sum: impl Fn(f32, f32) -> f32);
}

/// A loop over the codes of a tile, which finishes them.
pub(crate) trait FinishLoop {
    /// Runs it.
    fn each(self, finish: impl Fn(u16) -> u8);
}

/// The loop over the groups of a tile: it makes their codes, keeps the groups of the next tile instead, each of which lies in the source
/// as a run, and finds the amax of each of those.
pub(crate) struct GroupLoop<'a, L, const N: usize> {
    pub(crate) next: Arrays<'a, N, GROUP>,
    /// As many groups that come later, to be prefetched.
    pub(crate) later: Arrays<'a, N, GROUP>,
    pub(crate) groups: usize,
    /// Of this tile, unless the amax of its groups is found here.
    pub(crate) factors: &'a [f32; MAX_GROUPS],
    pub(crate) codes: &'a mut [[u16; GROUP]; MAX_GROUPS],
    /// Of the next tile, or of this one if codes are made at once.
    pub(crate) amax: &'a mut [u16; MAX_GROUPS],
    /// The elements of this tile, and of the next one when it is done.
    pub(crate) kept: &'a mut [[[u8; N]; GROUP]; MAX_GROUPS],
    pub(crate) lane: PhantomData<L>,
}

impl<L: GroupLane<N>, const N: usize> GroupLoop<'_, L, N> {
    /// Makes the codes of all groups. Meanwhile it finds the amax of each group of the next tile, so that no group waits for
    /// its own; or each group's own ([`GroupLane::CODES_AT_ONCE`]).
    ///
    /// The body is one group, because across groups the compiler would gather elements. It unrolls no loop whose length it
    /// does not know, and vectorises none that already has vectors in it.
    #[inline(always)]
    fn groups<E: Encode>(self, encode: &E, codes: impl Fn(&[[u8; N]; GROUP], f32) -> [u16; GROUP]) {
        let GroupLoop { next, later, groups, factors, codes: out, amax, kept, .. } = self;
        let sources = next.groups(0..groups).zip(later.groups(0..groups)).zip(&factors[..groups]);
        let made = out[..groups].iter_mut().zip(&mut amax[..groups]).zip(&mut kept[..groups]);
        for (((out, amax), kept), ((next, later), factor)) in made.zip(sources) {
            prefetch_l2(later);
            if codes_at_once::<E, L, N>() {
                *amax = L::amax(kept);
                *out = codes(kept, encode.factor(L::exponent(*amax)));
            } else {
                *amax = L::amax(next);
                *out = codes(kept, *factor);
            }
            *kept = *next;
        }
    }
}

impl<L: GroupLane<N>, const N: usize> GroupLoop<'_, L, N> {
    /// [`GroupLoop::groups`] of eight at a time, whose own amax is found, for multiples.
    #[inline(always)]
    fn eights<E: Encode>(self, encode: &E, sum: impl Fn(f32, f32) -> f32) {
        let GroupLoop { next, later, groups, codes, amax, kept, .. } = self;
        let eights = codes.as_chunks_mut::<EIGHT>().0.iter_mut().zip(amax.as_chunks_mut::<EIGHT>().0);
        let eights = eights.zip(kept.as_chunks_mut::<EIGHT>().0);
        for (eight, ((codes, amax), kept)) in eights.enumerate().take(groups / EIGHT) {
            let groups = kept.each_ref();
            *amax = L::amax_of_eight(groups);
            let mut factors = [0.0; EIGHT];
            for (factor, amax) in factors.iter_mut().zip(*amax) {
                *factor = encode.factor(L::exponent(amax));
            }
            for (pair, codes) in codes.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                let [a, b] = [2 * pair, 2 * pair + 1];
                prefetch_l2(later.get(EIGHT * eight + a));
                prefetch_l2(later.get(EIGHT * eight + b));
                *codes = L::multiples_of_two([groups[a], groups[b]], [factors[a], factors[b]], &sum);
            }
            for (g, kept) in kept.iter_mut().enumerate() {
                *kept = *next.get(EIGHT * eight + g);
            }
        }
    }
}

impl<L: GroupLane<N>, const N: usize> CodeLoop for GroupLoop<'_, L, N> {
    const SHORT: bool = L::SHORT;

    #[inline(always)]
    fn each<E: Encode>(self, encode: &E, code: impl Fn(u32, f32) -> u16) {
        self.groups(
            encode,
            #[inline(always)]
            |group, factor| {
                let mut codes = [0; GROUP];
                for (to, x) in codes.iter_mut().zip(group) {
                    *to = code(L::widen(*x), factor);
                }
                codes
            },
        );
    }

    #[inline(always)]
    fn nearest<E: Encode>(self, encode: &E, sum: impl Fn(f32, f32) -> f32) {
        if codes_at_once::<E, L, N>() && self.groups.is_multiple_of(EIGHT) {
            return self.eights(encode, sum);
        }
        self.groups(
            encode,
            #[inline(always)]
            |group, factor| {
                L::multiples(
                    group,
                    #[inline(always)]
                    |x| sum(x, factor),
                )
            },
        );
    }
}

/// Whether [`GroupLoop`] itself finds the amax of the groups whose codes it makes.
pub(crate) const fn codes_at_once<E: Encode, L: GroupLane<N>, const N: usize>() -> bool {
    L::CODES_AT_ONCE && E::GROUPS_PER_SCALE == 1 && !E::SEARCHES
}
