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

    /// What zeros share, if the arithmetic makes their codes and [`Encode::shared`] says that it does not hold: their exponent field is that of
    /// subnormals.
    fn of_zeros(&self) -> Option<u8> {
        None
    }

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
pub(crate) trait CodeLoop: Sized {
    /// Whether no element has more than 11 bits.
    const SHORT: bool;

    /// Runs it with a rule that takes the bits of an element's binary32 and its group's factor, and makes the code in the lower 16 bits.
    fn each<E: Encode>(self, encode: &E, code: impl Fn(u32, f32) -> u32);

    /// Runs it where the code is the lower bits of a sum of an element, scaled by its group's factor, and an anchor: how many of the
    /// anchor's last places the element is, to the nearest, if the anchor is 1.5 times a power of two.
    #[inline(always)]
    fn nearest<E: Encode>(self, encode: &E, sum: impl Fn(f32, f32) -> f32) {
        self.each(
            encode,
            #[inline(always)]
            |bits, factor| sum(f32::from_bits(bits), factor).to_bits(),
        );
    }
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
    /// How groups are taken, if codes are made at once.
    pub(crate) order: Order,
    /// Of this tile, unless the amax of its groups is found here.
    pub(crate) factors: &'a [f32; MAX_GROUPS],
    pub(crate) codes: &'a mut [[u16; GROUP]; MAX_GROUPS],
    /// Of the next tile, or of this one if codes are made at once.
    pub(crate) amax: &'a mut [u16; MAX_GROUPS],
    /// The amax of the first eight groups of this tile, and then of the next one, if codes are made at once.
    pub(crate) first: &'a mut [u16; EIGHT],
    /// The elements of this tile, and of the next one when it is done.
    pub(crate) kept: &'a mut [[[u8; N]; GROUP]; MAX_GROUPS],
    pub(crate) lane: PhantomData<L>,
}

impl<L: GroupLane<N>, const N: usize> GroupLoop<'_, L, N> {
    /// Makes the codes of all groups, and finds the amax of each group of the next tile meanwhile, so that no group waits for its own.
    ///
    /// The body is one group, because across groups the compiler would gather elements. It unrolls no loop whose length it
    /// does not know, and vectorises none that already has vectors in it.
    #[inline(always)]
    fn groups(self, code: impl Fn(u32, f32) -> u32) {
        let GroupLoop { next, later, groups, factors, codes: out, amax, kept, .. } = self;
        let sources = next.groups(0..groups).zip(later.groups(0..groups)).zip(&factors[..groups]);
        let made = out[..groups].iter_mut().zip(&mut amax[..groups]).zip(&mut kept[..groups]);
        for (((out, amax), kept), ((next, later), factor)) in made.zip(sources) {
            prefetch_l2(later);
            *amax = L::amax(next);
            let mut codes = [0; GROUP];
            for (to, x) in codes.iter_mut().zip(&*kept) {
                *to = code(L::finite(*x), *factor) as u16;
            }
            *out = codes;
            *kept = *next;
        }
    }

    /// Makes the codes of eight groups at a time, and finds the amax of each of the eight that come next meanwhile: behind the last ones of
    /// this tile those of the next one that were taken first. `ROWS`: whether in the order of [`Order::Rows`].
    #[inline(always)]
    fn eights<E: Encode, const ROWS: bool>(self, encode: &E, code: impl Fn(u32, f32) -> u32) {
        let GroupLoop { next, later, groups, codes, amax, first, kept, .. } = self;
        let order = if ROWS { Order::Rows } else { Order::Stored };
        let (codes, kept) = (codes.as_chunks_mut::<QUAD>().0, kept.as_chunks_mut::<QUAD>().0);
        let mut found = [[0; EIGHT]; MAX_GROUPS / EIGHT + 1];
        found[0] = *first;
        let count = groups.div_ceil(EIGHT);
        for eight in 0..count.min(MAX_GROUPS / EIGHT) {
            let known = found[eight];
            let mut factors = [0.0; EIGHT];
            for (factor, amax) in factors.iter_mut().zip(known) {
                *factor = encode.factor(L::exponent(amax));
            }
            let here = order.quads(eight);
            let [a, b] = order.quads(if eight + 1 == count { 0 } else { eight + 1 });
            // Compilers leave stores in front of fetches. What they may, they find when all codes are made, and the next codes wait for it.
            found[eight + 1] = L::amax_of_eight([&kept[a], &kept[b]]);
            for (i, factors) in factors.as_chunks::<2>().0.iter().enumerate() {
                let (quad, pair) = (here[i / 2], i % 2);
                match order {
                    Order::Rows => prefetch_l2(later.get(QUAD * here[0] + i)),
                    Order::Stored => {
                        prefetch_l2(later.get(QUAD * quad + 2 * pair));
                        prefetch_l2(later.get(QUAD * quad + 2 * pair + 1));
                    }
                }
                codes[quad].as_chunks_mut::<2>().0[pair] =
                    L::codes_of_two(&kept[quad].as_chunks().0[pair], *factors, &code);
            }
            for quad in here {
                for (g, kept) in kept[quad].iter_mut().enumerate() {
                    *kept = *next.get(QUAD * quad + g);
                }
            }
        }
        if count == 1 {
            // They were asked before they were replaced.
            let [a, b] = order.quads(0);
            found[1] = L::amax_of_eight([&kept[a], &kept[b]]);
        }
        *first = found[count];
        for (eight, found) in found.iter().enumerate().take(count) {
            for (quad, found) in order.quads(eight).into_iter().zip(found.as_chunks().0) {
                amax.as_chunks_mut::<QUAD>().0[quad] = *found;
            }
        }
    }
}

/// Groups that lie one below the other.
const QUAD: usize = EIGHT / 2;

/// The order in which groups are taken, eight at a time.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    /// As they are stored.
    Stored,
    /// Four rows at a time, of tiles of two faces of 16 x 16 in a row: both faces have elements in every line of the source.
    Rows,
}

impl Order {
    /// The two quads of some eight groups, counted as they are stored.
    #[inline(always)]
    pub(super) fn quads(self, eight: usize) -> [usize; 2] {
        const QUADS: usize = MAX_GROUPS / QUAD;
        const FACE: usize = GROUP / QUAD;
        let (first, beside) = match self {
            Order::Stored => (2 * eight, 1),
            Order::Rows => (eight / FACE * 2 * FACE + eight % FACE, FACE),
        };
        // There are no more; with the remainder compilers see it.
        [first % QUADS, (first + beside) % QUADS]
    }
}

impl<L: GroupLane<N>, const N: usize> CodeLoop for GroupLoop<'_, L, N> {
    const SHORT: bool = L::SHORT;

    #[inline(always)]
    fn each<E: Encode>(self, encode: &E, code: impl Fn(u32, f32) -> u32) {
        if codes_at_once::<E, L, N>() {
            match self.order {
                Order::Rows => self.eights::<E, true>(encode, code),
                Order::Stored => self.eights::<E, false>(encode, code),
            }
        } else {
            self.groups(code);
        }
    }
}

/// Whether [`GroupLoop`] itself finds the amax of the groups whose codes it makes.
pub(crate) const fn codes_at_once<E: Encode, L: GroupLane<N>, const N: usize>() -> bool {
    L::CODES_AT_ONCE && E::GROUPS_PER_SCALE == 1 && !E::SEARCHES
}
