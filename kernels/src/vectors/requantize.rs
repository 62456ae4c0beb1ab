//! Tiles of one block format as those of another, without unpacked elements in memory between.
//!
//! Codes of a byte are packed as they lie, and what their groups share is added to exponents (`scales`). Of block floats of one width those of
//! another take less. Where packing makes a tile again of what it decodes to, the largest magnitude of each group has its upper bit, so that the group keeps its
//! exponent whatever the width. What is left is to round each code, ties to even, or to append zeros.

use super::bfp_encode::BfpEncode;
use super::canonical;
use super::encode::{Encode, MAX_GROUPS, Order};
use super::groups::GroupLane;
use super::lanes::{E4M3, SignMagnitude};
use super::mx::MxVector;
use super::scales::GroupScales;
use super::tile_packer::{TilePacker, join};
use super::unpack::spread;
use crate::formats::{BlockCodec, BlockFormat, BlockOptions, GROUP, Rule, TileShape};
use crate::memory::{ArrayOffsets, LineAligned, as_written};

/// Whether [`leading`] knows these two formats.
pub(crate) fn knows(from: &BlockCodec, to: &BlockCodec) -> bool {
    let plain = BlockOptions { transposed: from.options().transposed, ..BlockOptions::default() };
    let alike = from.tile() == to.tile() && from.options() == plain && to.options() == plain;
    alike && (changes_width(from, to) || packs_tiles_of_codes(from, to))
}

/// Whether both are block floats with an exponent of 8 bits, of different width.
fn changes_width(from: &BlockCodec, to: &BlockCodec) -> bool {
    is_wide(from) && is_wide(to) && from.code_bits() != to.code_bits()
}

/// Whether tiles of the first have codes of a byte that are packed to the second as they lie.
fn packs_tiles_of_codes(from: &BlockCodec, to: &BlockCodec) -> bool {
    let is_mx = matches!(to.rule(), Rule::Mx(_));
    match from.format() {
        BlockFormat::MxFp8E4M3 => is_wide(to) || is_mx && to.format() != from.format(),
        BlockFormat::Bfp8B => is_mx,
        _ => false,
    }
}

/// Whether it is a block float with an exponent of 8 bits.
fn is_wide(codec: &BlockCodec) -> bool {
    matches!(codec.rule(), Rule::Bfp(bfp) if !bfp.narrow)
}

/// Tiles of a block format, `step` bytes apart from the first byte of `src` on, and room for as many of another side by side.
pub(crate) struct Requantizing<'a> {
    pub(crate) from: &'a BlockCodec,
    pub(crate) to: &'a BlockCodec,
    pub(crate) src: &'a [u8],
    pub(crate) step: usize,
    pub(crate) tiles: usize,
    pub(crate) dst: &'a mut [u8],
    /// Whether the level has instructions for [`f32::trunc`] and [`f32::mul_add`].
    pub(crate) fuses: bool,
}

/// Puts tiles as those of the other format; how many. Where only their width changes, up to the first that is not canonical as
/// [`canonical::leading`] says.
#[inline(always)]
pub(crate) fn leading(on: Requantizing<'_>) -> usize {
    let (from, to, tiles) = (on.from, on.to, on.tiles);
    match (from.rule(), to.rule()) {
        (Rule::Bfp(_), Rule::Bfp(_)) => return other_width(on),
        (Rule::Bfp(_), Rule::Mx(element)) => {
            pack_tiles_of_codes::<_, SignMagnitude>(MxVector::new(element, to.format(), on.fuses), on);
        }
        (Rule::Mx(_), Rule::Bfp(bfp)) => {
            pack_tiles_of_codes::<_, E4M3>(BfpEncode::<false>::new(bfp, to.options(), on.fuses), on);
        }
        (Rule::Mx(_), Rule::Mx(element)) => {
            pack_tiles_of_codes::<_, E4M3>(MxVector::new(element, to.format(), on.fuses), on);
        }
    }
    tiles
}

/// Packs codes of a byte as they lie, group by group as they are stored, which is alike in both formats.
#[inline(always)]
fn pack_tiles_of_codes<E: Encode, L: GroupLane<1>>(encode: E, on: Requantizing<'_>) {
    let Requantizing { from, to, src, step, tiles, dst, .. } = on;
    let (header, groups) = (from.header_bytes(), from.tile().elements() / GROUP);
    let per_scale = from.format().group() / GROUP;
    let mut offsets = [0; MAX_GROUPS];
    for (g, offset) in offsets.iter_mut().enumerate() {
        *offset = (header + g.min(groups - 1) * GROUP) as isize;
    }
    let offsets = ArrayOffsets::<1, GROUP>::new(offsets);
    let arrays = |t: usize| offsets.arrays(src, t.min(tiles - 1) * step);
    let mut packer = TilePacker::<E, 1>::new(encode, from.tile(), Order::Stored);
    if tiles > 0 {
        packer.start::<L>(arrays(0));
    }
    for (t, out) in dst.chunks_exact_mut(to.tile_bytes()).enumerate().take(tiles) {
        let mut shared = [0; MAX_GROUPS];
        for (shared, &of_source) in shared.chunks_exact_mut(per_scale).zip(&src[t * step..][..header]) {
            shared.fill(of_source);
        }
        packer.pack::<L>(
            [arrays(t), arrays(t + 1)],
            arrays(t + 1),
            GroupScales { codec: from, shared },
            as_written(out),
        );
    }
}

/// Block floats of another width, up to the first tile that is not canonical.
#[inline(always)]
fn other_width(on: Requantizing<'_>) -> usize {
    let Requantizing { from, to, src, step, tiles, dst, .. } = on;
    let tiles = canonical::leading(from, src, step, tiles);
    let header = from.header_bytes();
    for (t, out) in dst.chunks_exact_mut(to.tile_bytes()).enumerate().take(tiles) {
        let (shared, packed) = src[t * step..][..from.tile_bytes()].split_at(header);
        let (to_shared, codes) = out.split_at_mut(header);
        to_shared.copy_from_slice(shared);
        let LineAligned(wide) = &mut LineAligned([[0; GROUP]; TileShape::MAX_ELEMENTS / GROUP]);
        let wide = &spread(from.code_bits(), packed, wide).as_flattened()[..from.tile().elements()];
        match to.code_bits() {
            8 => codes.copy_from_slice(wide),
            4 => narrow::<4>(wide, codes),
            _ => narrow::<2>(wide, codes),
        }
    }
    tiles
}

/// Rounds codes in the upper bits of bytes to `BITS`, and puts them side by side.
#[inline(always)]
fn narrow<const BITS: usize>(wide: &[u8], codes: &mut [u8]) {
    let LineAligned(narrow) = &mut LineAligned([0; TileShape::MAX_ELEMENTS]);
    let narrow = &mut narrow[..wide.len()];
    for (to, from) in narrow.iter_mut().zip(wide) {
        let (lost, magnitude) = (8 - BITS, from & 0x7F);
        let half = (1 << (lost - 1)) - 1 + (magnitude >> lost & 1);
        let rounded = ((magnitude + half) >> lost).min((1 << (BITS - 1)) - 1);
        *to = if rounded == 0 { 0 } else { rounded | (from & 0x80) >> lost };
    }
    join(BITS, narrow, as_written(codes));
}
