//! Tiles of block floats of one width as those of another, without a float between.
//!
//! Where packing makes a tile again of what it decodes to, the largest magnitude of each group has its upper bit, so that the group keeps its
//! exponent whatever the width. What is left is to round each code, ties to even, or to append zeros.

use super::canonical;
use super::tile_packer::join;
use super::unpack::spread;
use crate::formats::{BlockCodec, BlockOptions, GROUP, Rule, TileShape};
use crate::memory::{LineAligned, as_written};

/// Whether [`leading`] knows these two formats.
pub(crate) fn knows(from: &BlockCodec, to: &BlockCodec) -> bool {
    let plain = BlockOptions { transposed: from.options().transposed, ..BlockOptions::default() };
    let wide = |codec: &BlockCodec| matches!(codec.rule(), Rule::Bfp(bfp) if !bfp.narrow);
    let alike = from.tile() == to.tile() && from.options() == plain && to.options() == plain;
    alike && wide(from) && wide(to) && from.code_bits() != to.code_bits()
}

/// Puts tiles of `src`, `step` bytes apart, as those of another format side by side in `dst`, up to the first that is not canonical as
/// [`canonical::leading`] says; how many.
#[inline(always)]
pub(crate) fn leading(
    from: &BlockCodec,
    to: &BlockCodec,
    src: &[u8],
    step: usize,
    tiles: usize,
    dst: &mut [u8],
) -> usize {
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
