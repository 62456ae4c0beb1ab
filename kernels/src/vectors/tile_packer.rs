//! Packing of one tile: its exponents, its codes, and what is stored of both.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::encode::{Encode, FinishLoop, GroupLoop, MAX_GROUPS, Order, codes_at_once};
use super::groups::{EIGHT, GroupLane};
use super::scales::Scales;
use crate::formats::{GROUP, TileShape};
use crate::memory::{Arrays, LineAligned, as_uninit, as_written};

/// Packs tiles of one shape whose groups are known by their offsets, one after another, and keeps what is already known of
/// the next one.
pub(crate) struct TilePacker<E, const N: usize> {
    encode: E,
    groups: usize,
    order: Order,
    amax: [u16; MAX_GROUPS],
    /// The amax of the first eight groups of the tile that is packed next, if codes are made at once.
    first: [u16; EIGHT],
    /// The elements of the tile that is packed next. They are loaded while the one before is packed: L1 takes lines that share a set one
    /// by one, and does not keep more than some of them until they are read again.
    kept: LineAligned<[[[u8; N]; GROUP]; MAX_GROUPS]>,
    codes: LineAligned<[[u16; GROUP]; MAX_GROUPS]>,
}

impl<E: Encode, const N: usize> TilePacker<E, N> {
    #[inline(always)]
    pub(crate) fn new(encode: E, tile: TileShape, order: Order) -> TilePacker<E, N> {
        TilePacker { order, ..TilePacker::of_groups(encode, tile.elements() / GROUP) }
    }

    /// For as many groups, at most those of the largest tile.
    #[inline(always)]
    pub(crate) fn of_groups(encode: E, groups: usize) -> TilePacker<E, N> {
        TilePacker {
            encode,
            groups,
            order: Order::Stored,
            amax: [0; MAX_GROUPS],
            first: [0; EIGHT],
            kept: LineAligned([[[0; N]; GROUP]; MAX_GROUPS]),
            codes: LineAligned([[0; GROUP]; MAX_GROUPS]),
        }
    }

    /// Takes the first tile, and finds the amax of each of its groups unless codes are made at once.
    #[inline(always)]
    pub(crate) fn start<L: GroupLane<N>>(&mut self, tile: Arrays<'_, N, GROUP>) {
        let groups = self.amax.iter_mut().zip(&mut self.kept.0).zip(tile.groups(0..self.groups));
        for ((amax, kept), group) in groups {
            if !codes_at_once::<E, L, N>() {
                *amax = L::amax(group);
            }
            *kept = *group;
        }
        if codes_at_once::<E, L, N>() {
            let [a, b] = self.order.quads(0);
            let kept = self.kept.0.as_chunks().0;
            self.first = L::amax_of_eight([&kept[a], &kept[b]]);
        }
    }

    /// Packs the first of two tiles, which was taken before, its groups in storage order; takes the second, which is the next one; and
    /// prefetches as many groups that come later. `scales` are those of the first.
    ///
    /// The codes of the whole tile are finished at the end: a vector of them is wider than what was stored of a group, and
    /// loading it has to wait for the stores.
    #[inline(always)]
    pub(crate) fn pack<L: GroupLane<N>>(
        &mut self,
        tiles: [Arrays<'_, N, GROUP>; 2],
        later: Arrays<'_, N, GROUP>,
        scales: impl Scales<N>,
        out: &mut [MaybeUninit<u8>],
    ) {
        let TilePacker {
            encode,
            groups,
            order,
            amax,
            first,
            kept: LineAligned(kept),
            codes: LineAligned(codes),
        } = self;
        let (encode, groups, order) = (*encode, *groups, *order);
        let [here, next] = tiles;
        let lane = PhantomData::<L>;
        if codes_at_once::<E, L, N>() {
            encode.make_codes(GroupLoop {
                next,
                later,
                groups,
                order,
                factors: &[0.0; MAX_GROUPS],
                codes,
                amax,
                first,
                kept,
                lane,
            });
        }
        let mut known = None;
        if !codes_at_once::<E, L, N>() {
            let mut exponents = exponents::<L, N>(amax, &scales, E::GROUPS_PER_SCALE == 2);
            if E::SEARCHES {
                encode.search::<L, N>(&here, &amax[..groups], &mut exponents);
            }
            let mut factors = factors(encode, &exponents);
            scales.scale_factors(&mut factors);
            encode.make_codes(GroupLoop {
                next,
                later,
                groups,
                order,
                factors: &factors,
                codes,
                amax,
                first,
                kept,
                lane,
            });
            known = Some((exponents, shared(encode, &exponents)));
        }
        let (header, out) = split_header::<E>(groups, out);
        let codes = &codes.as_flattened()[..groups * GROUP];
        let shared = match encode.code_bits() {
            8 => {
                encode.finish(Finish { codes, bytes: out });
                mended::<E, L, N>(encode, groups, (here, &scales), amax, known, out)
            }
            bits => {
                let LineAligned(bytes) = &mut LineAligned([0; TileShape::MAX_ELEMENTS]);
                encode.finish(Finish { codes, bytes: as_written(bytes) });
                let shared =
                    mended::<E, L, N>(encode, groups, (here, &scales), amax, known, as_written(bytes));
                join(bits, bytes, out);
                shared
            }
        };
        put_shared(&shared[..groups], E::GROUPS_PER_SCALE, header);
    }
}

/// The exponents of groups, what they share, and whether the arithmetic holds for all.
type Shared = ([u8; MAX_GROUPS], ([u8; MAX_GROUPS], bool));

/// What the groups of a tile share. Where the arithmetic does not hold, codes are replaced by those of the scalar rule.
///
/// Exponents that are not known are found here, behind the codes: an amax that was just stored is slow to load in a longer vector.
#[inline(always)]
fn mended<E: Encode, L: GroupLane<N>, const N: usize>(
    encode: E,
    groups: usize,
    (tile, scales): (Arrays<'_, N, GROUP>, &impl Scales<N>),
    amax: &[u16; MAX_GROUPS],
    known: Option<Shared>,
    codes: &mut [MaybeUninit<u8>],
) -> [u8; MAX_GROUPS] {
    let (exponents, (mut shared, all_hold)) = match known {
        Some(known) => known,
        None => {
            let exponents = exponents::<L, N>(amax, scales, E::GROUPS_PER_SCALE == 2);
            (exponents, shared(encode, &exponents))
        }
    };
    if !all_hold {
        for g in fails(encode, &exponents, groups, E::GROUPS_PER_SCALE) {
            let mut values = [[0.0; GROUP]; 2];
            let mut bits = 0;
            for (i, group) in tile.groups(g..g + E::GROUPS_PER_SCALE).enumerate() {
                for (value, element) in values[i].iter_mut().zip(group) {
                    *value = scales.value(g + i, *element);
                    bits |= value.to_bits() << 1;
                }
            }
            if let (0, Some(of_zeros)) = (bits, encode.of_zeros()) {
                shared[g] = of_zeros;
                continue;
            }
            shared[g] = put_scalar(encode, &values, &mut codes[g * GROUP..]);
        }
    }
    shared
}

/// The exponents of groups; of two that follow one another the larger one, if these share a scale.
#[inline(always)]
pub(super) fn exponents<L: GroupLane<N>, const N: usize>(
    amax: &[u16; MAX_GROUPS],
    scales: &impl Scales<N>,
    pairs: bool,
) -> [u8; MAX_GROUPS] {
    let mut exponents = [0; MAX_GROUPS];
    for (exponent, &amax) in exponents.iter_mut().zip(amax) {
        *exponent = L::exponent(amax) as u8;
    }
    scales.scale_exponents(&mut exponents);
    if pairs {
        let mut others = exponents;
        for pair in others.as_chunks_mut::<2>().0 {
            pair.swap(0, 1);
        }
        for (exponent, other) in exponents.iter_mut().zip(others) {
            *exponent = other.max(*exponent);
        }
    }
    exponents
}

#[inline(always)]
pub(super) fn factors<E: Encode>(encode: E, exponents: &[u8; MAX_GROUPS]) -> [f32; MAX_GROUPS] {
    let mut factors = [0.0; MAX_GROUPS];
    for (factor, &exponent) in factors.iter_mut().zip(exponents) {
        *factor = encode.factor(exponent.into());
    }
    factors
}

/// Of each group the byte that it shares, and whether the arithmetic holds for all.
#[inline(always)]
pub(super) fn shared<E: Encode>(encode: E, exponents: &[u8; MAX_GROUPS]) -> ([u8; MAX_GROUPS], bool) {
    let mut shared = [0; MAX_GROUPS];
    let mut all_hold = true;
    for (shared, &exponent) in shared.iter_mut().zip(exponents) {
        let holds;
        (*shared, holds) = encode.shared(exponent);
        all_hold &= holds;
    }
    (shared, all_hold)
}

/// The first groups of the scales for which the arithmetic fails, each that of so many groups.
#[inline(always)]
pub(super) fn fails<E: Encode>(
    encode: E,
    exponents: &[u8; MAX_GROUPS],
    groups: usize,
    per_scale: usize,
) -> impl Iterator<Item = usize> {
    (0..groups).step_by(per_scale).filter(move |&g| !encode.shared(exponents[g]).1)
}

/// Puts the codes of all groups that share a scale by the scalar rule, as they are stored; what they share.
#[inline(always)]
pub(super) fn put_scalar<E: Encode>(encode: E, values: &[[f32; GROUP]; 2], to: &mut [MaybeUninit<u8>]) -> u8 {
    let mut codes = [[0; GROUP]; 2];
    let elements = E::GROUPS_PER_SCALE * GROUP;
    let codes = &mut codes.as_flattened_mut()[..elements];
    let shared = encode.scalar(&values.as_flattened()[..elements], codes);
    to[..elements].copy_from_slice(as_uninit(codes));
    shared
}

/// The front of a packed tile, where it has what so many groups share, and the rest of it.
#[inline(always)]
pub(super) fn split_header<E: Encode>(
    groups: usize,
    out: &mut [MaybeUninit<u8>],
) -> (&mut [MaybeUninit<u8>], &mut [MaybeUninit<u8>]) {
    out.split_at_mut((groups / E::GROUPS_PER_SCALE).next_multiple_of(16))
}

/// Writes what the groups of a tile share, as many as `per_scale` each byte.
#[inline(always)]
pub(super) fn put_shared(shared: &[u8], per_scale: usize, header: &mut [MaybeUninit<u8>]) {
    let (used, rest) = header.split_at_mut(shared.len() / per_scale);
    for (byte, shared) in used.iter_mut().zip(shared.chunks_exact(per_scale)) {
        byte.write(shared[0]);
    }
    rest.fill(MaybeUninit::new(0));
}

/// The loop over codes that lie side by side.
pub(super) struct Finish<'a> {
    pub(super) codes: &'a [u16],
    pub(super) bytes: &'a mut [MaybeUninit<u8>],
}

impl FinishLoop for Finish<'_> {
    #[inline(always)]
    fn each(self, finish: impl Fn(u16) -> u8) {
        for (byte, code) in self.bytes.iter_mut().zip(self.codes) {
            byte.write(finish(*code));
        }
    }
}

/// Puts finished codes of 4 or 2 bits side by side.
#[inline(always)]
pub(super) fn join(bits: usize, codes: &[u8], out: &mut [MaybeUninit<u8>]) {
    if bits == 4 {
        for (out, pair) in out.iter_mut().zip(codes.as_chunks::<2>().0) {
            let w = u16::from_le_bytes(*pair);
            out.write((w | w >> 4) as u8);
        }
    } else {
        for (out, quad) in out.iter_mut().zip(codes.as_chunks::<4>().0) {
            let w = u32::from_le_bytes(*quad);
            out.write((w | w >> 6 | w >> 12 | w >> 18) as u8);
        }
    }
}
