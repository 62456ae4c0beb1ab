//! Packing of one tile whose groups are known by their offsets.

use std::mem::MaybeUninit;

use super::encode::{Encode, GroupLoop, MAX_GROUPS, codes_at_once};
use super::groups::GroupLane;
use crate::formats::{GROUP, TileShape};
use crate::memory::Arrays;

/// Packs tiles of one shape, one after another, and keeps what is already known of the next one.
pub(crate) struct TilePacker<E, const N: usize> {
    encode: E,
    groups: usize,
    amax: [u16; MAX_GROUPS],
    codes: [[u16; GROUP]; MAX_GROUPS],
}

impl<E: Encode, const N: usize> TilePacker<E, N> {
    #[inline(always)]
    pub(crate) fn new(encode: E, tile: TileShape) -> TilePacker<E, N> {
        TilePacker::of_groups(encode, tile.elements() / GROUP)
    }

    /// For as many groups, at most those of the largest tile.
    #[inline(always)]
    pub(crate) fn of_groups(encode: E, groups: usize) -> TilePacker<E, N> {
        TilePacker { encode, groups, amax: [0; MAX_GROUPS], codes: [[0; GROUP]; MAX_GROUPS] }
    }

    /// Finds the amax of each group of the first tile.
    #[inline(always)]
    pub(crate) fn start<L: GroupLane<N>>(&mut self, tile: Arrays<'_, N, GROUP>) {
        for (amax, group) in self.amax[..self.groups].iter_mut().zip(tile.groups(0..self.groups)) {
            *amax = L::amax(group);
        }
    }

    /// Packs the first of three tiles, its groups in storage order; finds the amax of each group of the second, which is the
    /// next one; and prefetches the third.
    ///
    /// The codes of the whole tile are finished at the end: a vector of them is wider than what was stored of a group, and
    /// loading it has to wait for the stores.
    #[inline(always)]
    pub(crate) fn pack<L: GroupLane<N>>(
        &mut self,
        tiles: [Arrays<'_, N, GROUP>; 3],
        out: &mut [MaybeUninit<u8>],
    ) {
        let TilePacker { encode, groups, ref mut amax, ref mut codes } = *self;
        let [here, ..] = tiles;
        let mut exponents = [0; MAX_GROUPS];
        if codes_at_once::<E, L, N>() {
            encode.make_codes::<L, N>(GroupLoop { tiles, groups, factors: &[0.0; MAX_GROUPS], codes, amax });
        }
        for (exponent, &amax) in exponents.iter_mut().zip(&*amax) {
            *exponent = L::exponent(amax);
        }
        if E::GROUPS_PER_SCALE == 2 {
            for pair in exponents.as_chunks_mut::<2>().0 {
                *pair = [pair[0].max(pair[1]); 2];
            }
        }
        if E::SEARCHES {
            encode.search::<L, N>(&here, &amax[..groups], &mut exponents);
        }
        let mut factors = [0.0; MAX_GROUPS];
        for (factor, &exponent) in factors.iter_mut().zip(&exponents) {
            *factor = encode.factor(exponent);
        }
        if !codes_at_once::<E, L, N>() {
            encode.make_codes::<L, N>(GroupLoop { tiles, groups, factors: &factors, codes, amax });
        }

        // Of each group the byte that it shares.
        let mut shared = [0; MAX_GROUPS];
        let mut all_hold = true;
        for (shared, &exponent) in shared.iter_mut().zip(&exponents) {
            let holds;
            (*shared, holds) = encode.shared(exponent);
            all_hold &= holds;
        }
        if !all_hold {
            for g in (0..groups).step_by(E::GROUPS_PER_SCALE) {
                if encode.shared(exponents[g]).1 {
                    continue;
                }
                let block = g..g + E::GROUPS_PER_SCALE;
                let mut values = [[0.0; GROUP]; 2];
                let elements = here.groups(block.clone()).flatten();
                for (value, code) in values.as_flattened_mut().iter_mut().zip(elements) {
                    *value = f32::from_bits(L::widen(*code));
                }
                let codes = codes[block].as_flattened_mut();
                shared[g] = encode.scalar(&values.as_flattened()[..codes.len()], codes);
            }
        }

        let scales = groups / E::GROUPS_PER_SCALE;
        let (header, out) = out.split_at_mut(scales.next_multiple_of(16));
        store(encode, codes.as_flattened(), out);
        let (used, rest) = header.split_at_mut(scales);
        for (byte, shared) in used.iter_mut().zip(shared.chunks_exact(E::GROUPS_PER_SCALE)) {
            byte.write(shared[0]);
        }
        rest.fill(MaybeUninit::new(0));
    }
}

/// Finishes codes and puts them side by side, the first in the lowest bits, until `out` is full.
#[inline(always)]
fn store<E: Encode>(encode: E, codes: &[u16], out: &mut [MaybeUninit<u8>]) {
    if encode.code_bits() == 8 {
        for (out, code) in out.iter_mut().zip(codes) {
            out.write(encode.finish(*code));
        }
        return;
    }
    let mut bytes = [0; TileShape::MAX_ELEMENTS];
    for (byte, code) in bytes.iter_mut().zip(codes) {
        *byte = encode.finish(*code);
    }
    if encode.code_bits() == 4 {
        for (out, pair) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
            let w = u16::from_le_bytes(*pair);
            out.write((w | w >> 4) as u8);
        }
    } else {
        for (out, quad) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
            let w = u32::from_le_bytes(*quad);
            out.write((w | w >> 6 | w >> 12 | w >> 18) as u8);
        }
    }
}
