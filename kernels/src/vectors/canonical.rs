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
    upper: u64,
    lowest: u64,
    /// One code of a group has this value under a mask, or, of a format of integers, two upper bits that differ.
    top: (u64, u64),
    /// No code has this value under a mask: it means what another code means, or is not finite.
    barred: (u64, u64),
    /// Bits that are 0 in all codes.
    unused: u64,
    /// Bits that are 0 in codes of zero.
    magnitude: u64,
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
        let lowest = u64::MAX / (u64::MAX >> (64 - bits));
        let all = |code: u32| u64::from(code << shift) * lowest;
        let code = |(mask, value)| (all(mask), all(value));
        let (top, barred, magnitude, zero, shared) = match codec.rule() {
            Rule::Bfp(bfp) => {
                let upper = 1 << (bfp.magnitude - 1);
                let negative_zero = (1 << bfp.magnitude | bfp.largest(), 1 << bfp.magnitude);
                let shared = if bfp.narrow { NARROW } else { SHARED };
                ((upper, upper), Some(negative_zero), bfp.largest(), 0, shared)
            }
            Rule::Mx(Element::Float { exponent, fraction, emax, largest, infinity, nan, .. }) => {
                let (magnitude, field) =
                    ((1 << (exponent + fraction)) - 1, ((1 << exponent) - 1) << fraction);
                let top = (field, u32::from(largest) & field);
                let not_finite =
                    if infinity > largest { Some(field) } else { Some(nan.into()).filter(|&n| n > 0) };
                (top, not_finite.map(|n| (n, n)), magnitude, (127 - emax) as u8, SHARED)
            }
            Rule::Mx(Element::Int { bits }) => {
                // From half of the range on; from the negative half down, which is the one code alone or has other upper bits.
                let (all, half, least) = ((1 << bits) - 1, 3 << (bits - 2), 1 << (bits - 1));
                ((all, half), Some((all, least)), all, 127, SHARED)
            }
        };
        Codes {
            upper: lowest << (bits - 1),
            lowest,
            top: code(top),
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
    fn some(&self, word: u64, (mask, value): (u64, u64)) -> u64 {
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
    match codec.format().group() * codec.code_bits() / 8 {
        4 => leading_of::<4>(codec, src, step, tiles),
        8 => leading_of::<8>(codec, src, step, tiles),
        16 => leading_of::<16>(codec, src, step, tiles),
        _ => leading_of::<32>(codec, src, step, tiles),
    }
}

/// The same where the codes of a group have `N` bytes.
#[inline(always)]
fn leading_of<const N: usize>(codec: &BlockCodec, src: &[u8], step: usize, tiles: usize) -> usize {
    let (codes, tiles) = (Codes::new(codec), Tiles::<N> { codec, src, step, tiles });
    match codec.rule() {
        Rule::Bfp(_) => tiles.leading(
            &codes,
            #[inline(always)]
            |word| word & codes.top.0,
        ),
        Rule::Mx(element) if element.is_float() => tiles.leading(
            &codes,
            #[inline(always)]
            |word| codes.some(word, codes.top),
        ),
        Rule::Mx(_) => tiles.leading(
            &codes,
            #[inline(always)]
            |word| codes.some(word, codes.top) | (word ^ word << 1) & codes.upper,
        ),
    }
}

/// Packed tiles, `step` bytes apart; the codes of a group have `N` bytes.
struct Tiles<'a, const N: usize> {
    codec: &'a BlockCodec,
    src: &'a [u8],
    step: usize,
    tiles: usize,
}

impl<const N: usize> Tiles<'_, N> {
    /// How many of the first are canonical; `top` is not 0 where a code of a word is one of those of which each group has some.
    #[inline(always)]
    fn leading(self, codes: &Codes, top: impl Fn(u64) -> u64) -> usize {
        let Tiles { codec, src, step, tiles } = self;
        let (tile_bytes, header_bytes) = (codec.tile_bytes(), codec.header_bytes());
        let groups = codec.tile().elements() / codec.format().group();
        let mut first = 0;
        // Blocks that are tiles of their own are brought together, so that a vector has codes of several.
        while header_bytes == 1 && tiles - first >= TOGETHER {
            let (mut shared, mut packed) = ([0; TOGETHER], [[0; N]; TOGETHER]);
            for (i, (shared, packed)) in shared.iter_mut().zip(&mut packed).enumerate() {
                let block = &src[(first + i) * step..][..1 + N];
                *shared = block[0];
                packed.copy_from_slice(&block[1..]);
            }
            if !codes.are_canonical::<N>(&shared, &packed, &top) {
                break;
            }
            first += TOGETHER;
        }
        for t in first..tiles {
            let (header, packed) = src[t * step..][..tile_bytes].split_at(header_bytes);
            let (shared, padding) = header.split_at(groups);
            let canonical = codes.are_canonical::<N>(shared, packed.as_chunks().0, &top);
            if !canonical || padding.iter().any(|&byte| byte != 0) {
                return t;
            }
        }
        tiles
    }
}

/// Blocks that are looked at together.
const TOGETHER: usize = 32;

impl Codes {
    /// Whether packing makes such groups.
    #[inline(always)]
    fn are_canonical<const N: usize>(
        &self,
        shared: &[u8],
        groups: &[[u8; N]],
        top: impl Fn(u64) -> u64,
    ) -> bool {
        let mut holds = true;
        for (&shared, group) in shared.iter().zip(groups) {
            let (mut tops, mut magnitude, mut wrong) = (0, 0, 0);
            let mut take = |word: u64| {
                tops |= top(word);
                magnitude |= word & self.magnitude;
                wrong |= self.some(word, self.barred) | word & self.unused;
            };
            let (words, half) = group.as_chunks::<8>();
            for word in words {
                take(u64::from_le_bytes(*word));
            }
            if let Some(half) = half.first_chunk() {
                take(u32::from_le_bytes(*half).into());
            }
            let largest = (tops != 0) & (shared.wrapping_sub(self.least) <= self.range);
            holds &= (wrong == 0) & (largest | (magnitude == 0) & (shared == self.zero));
        }
        holds
    }
}
