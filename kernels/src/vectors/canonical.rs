//! Tiles that packing gives back: what they decode to is packed to the same bytes again, with whatever options.
//!
//! A group has many forms with the same values: under a larger exponent each code has fewer places. Packing makes the one with
//! the least exponent, and that is the one in which some code has the largest exponent there is, or the upper bit of a
//! magnitude. So a conversion from a block format to itself may copy such tiles.

use crate::formats::{BlockCodec, Element, Rule};

/// Shared bytes under which every value is a normal binary32, and that no option treats in a way of its own. Packing makes others
/// of very large and very small numbers only.
const SHARED: std::ops::RangeInclusive<u8> = 32..=220;
/// The same of 5-bit exponents.
const NARROW: std::ops::RangeInclusive<u8> = 8..=30;

/// What is asked of the codes of a format, for each of the codes in a word.
#[derive(Clone, Copy)]
struct Codes {
    /// The upper bit of each code, and the lowest.
    upper: u32,
    lowest: u32,
    /// One code of a group has one of these values, each under a mask.
    top: [(u32, u32); 3],
    /// No code has this value under a mask: it means what another code means, or is not finite.
    barred: (u32, u32),
    /// Bits that are 0 in all codes.
    unused: u32,
    /// Bits that are 0 in codes of zero.
    magnitude: u32,
    /// The shared byte of a group of zeros.
    zero: u8,
    /// The least shared byte, and by how much the largest exceeds it.
    least: u8,
    range: u8,
}

impl Codes {
    #[inline(always)]
    fn new(codec: &BlockCodec) -> Codes {
        let (bits, shift) = (codec.code_bits() as u32, codec.format().code_shift());
        let lowest = u32::MAX / (u32::MAX >> (32 - bits));
        let all = |code: u32| (code << shift) * lowest;
        let code = |(mask, value)| (all(mask), all(value));
        let (top, barred, magnitude, zero, shared) = match codec.rule() {
            Rule::Bfp(bfp) => {
                let upper = (1 << (bfp.magnitude - 1), 1 << (bfp.magnitude - 1));
                let negative_zero = (1 << bfp.magnitude | bfp.largest(), 1 << bfp.magnitude);
                ([upper; 3], Some(negative_zero), bfp.largest(), 0, if bfp.narrow { NARROW } else { SHARED })
            }
            Rule::Mx(Element::Float { exponent, fraction, emax, largest, infinity, nan, .. }) => {
                let (magnitude, field) =
                    ((1 << (exponent + fraction)) - 1, ((1 << exponent) - 1) << fraction);
                let top = (field, u32::from(largest) & field);
                let not_finite =
                    if infinity > largest { Some(field) } else { Some(nan.into()).filter(|&n| n > 0) };
                ([top; 3], not_finite.map(|n| (n, n)), magnitude, (127 - emax) as u8, SHARED)
            }
            Rule::Mx(Element::Int { bits }) => {
                let (all, field, least) = ((1 << bits) - 1, 3 << (bits - 2), 1 << (bits - 1));
                // From half of the range on; from the negative half down, which is the one code alone or has other upper bits.
                let top = [(field, 1 << (bits - 2)), (field, least), (all, field)];
                (top, Some((all, least)), all, 127, SHARED)
            }
        };
        Codes {
            upper: lowest << (bits - 1),
            lowest,
            top: top.map(code),
            // No code has a bit outside of a mask.
            barred: barred.map_or((0, lowest), code),
            unused: all(1).wrapping_sub(lowest),
            magnitude: all(magnitude),
            zero,
            least: *shared.start(),
            range: shared.end() - shared.start(),
        }
    }

    /// Not 0 where a code of the word has a value under a mask.
    #[inline(always)]
    fn some(&self, word: u32, (mask, value): (u32, u32)) -> u32 {
        let other = word & mask ^ value;
        other.wrapping_sub(self.lowest) & !other & self.upper
    }
}

/// How many tiles, `step` bytes apart from the first byte of `src` on, are packed to the same bytes again, up to the first that
/// may not be. What is not seen quickly counts as that.
#[inline(always)]
pub(crate) fn leading(codec: &BlockCodec, src: &[u8], step: usize, tiles: usize) -> usize {
    // Codes of six bits lie in two bytes.
    if codec.code_bits() == 6 {
        return 0;
    }
    match codec.format().group() * codec.code_bits() / 32 {
        1 => leading_of::<1>(codec, src, step, tiles),
        2 => leading_of::<2>(codec, src, step, tiles),
        4 => leading_of::<4>(codec, src, step, tiles),
        _ => leading_of::<8>(codec, src, step, tiles),
    }
}

/// The same where a group is `N` words.
#[inline(always)]
fn leading_of<const N: usize>(codec: &BlockCodec, src: &[u8], step: usize, tiles: usize) -> usize {
    let codes = Codes::new(codec);
    let groups = codec.tile().elements() / codec.format().group();
    for t in 0..tiles {
        let (header, words) = src[t * step..][..codec.tile_bytes()].split_at(codec.header_bytes());
        let (shared, padding) = header.split_at(groups);
        if padding.iter().any(|&byte| byte != 0) || !is_canonical::<N>(&codes, shared, words.as_chunks().0) {
            return t;
        }
    }
    tiles
}

/// Whether a tile is.
#[inline(always)]
fn is_canonical<const N: usize>(codes: &Codes, shared: &[u8], words: &[[u8; 4]]) -> bool {
    let mut holds = true;
    for (&shared, words) in shared.iter().zip(words.as_chunks::<N>().0) {
        let (mut top, mut magnitude, mut wrong) = (0, 0, 0);
        for word in words {
            let word = u32::from_le_bytes(*word);
            let [one, other, third] = codes.top;
            top |= codes.some(word, one) | codes.some(word, other) | codes.some(word, third);
            magnitude |= word & codes.magnitude;
            wrong |= codes.some(word, codes.barred) | word & codes.unused;
        }
        let largest = (top != 0) & (shared.wrapping_sub(codes.least) <= codes.range);
        holds &= (wrong == 0) & (largest | (magnitude == 0) & (shared == codes.zero));
    }
    holds
}
