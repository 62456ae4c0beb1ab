//! The quantised blocks of GGUF files, decoded to f32.
//!
//! Each rule is that of `dequantize` in the Python package `gguf` 0.19, operation by operation in f32, so that values
//! are equal bit for bit. Blocks of 32 elements have their own scale; blocks of 256 (the K types) have scales of
//! sub-blocks that are quantised themselves.

use half::f16;
use kernels::Body;

use super::vectorised;

/// One type of block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockType {
    /// 4 bits and a scale.
    Q4_0,
    /// 4 bits, a scale and a minimum.
    Q4_1,
    /// 5 bits and a scale.
    Q5_0,
    /// 5 bits, a scale and a minimum.
    Q5_1,
    /// 8 bits and a scale.
    Q8_0,
    /// 2 bits, 16 sub-blocks with scale and minimum.
    Q2K,
    /// 3 bits, 16 sub-blocks with a scale.
    Q3K,
    /// 4 bits, 8 sub-blocks with scale and minimum.
    Q4K,
    /// 5 bits, 8 sub-blocks with scale and minimum.
    Q5K,
    /// 6 bits, 16 sub-blocks with a scale.
    Q6K,
    /// 4 bits that index a table of 16 values.
    Iq4Nl,
    /// The same table, 8 sub-blocks with a scale.
    Iq4Xs,
    /// E2M1 elements with a power of two as scale.
    Mxfp4,
}

/// The values of the table that IQ4 codes index.
const IQ4_VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

impl BlockType {
    /// All of them, with their numbers in the file, names, elements and bytes of a block.
    const TABLE: [(BlockType, u32, &'static str, usize, usize); 13] = [
        (BlockType::Q4_0, 2, "Q4_0", 32, 18),
        (BlockType::Q4_1, 3, "Q4_1", 32, 20),
        (BlockType::Q5_0, 6, "Q5_0", 32, 22),
        (BlockType::Q5_1, 7, "Q5_1", 32, 24),
        (BlockType::Q8_0, 8, "Q8_0", 32, 34),
        (BlockType::Q2K, 10, "Q2_K", 256, 84),
        (BlockType::Q3K, 11, "Q3_K", 256, 110),
        (BlockType::Q4K, 12, "Q4_K", 256, 144),
        (BlockType::Q5K, 13, "Q5_K", 256, 176),
        (BlockType::Q6K, 14, "Q6_K", 256, 210),
        (BlockType::Iq4Nl, 20, "IQ4_NL", 32, 18),
        (BlockType::Iq4Xs, 23, "IQ4_XS", 256, 136),
        (BlockType::Mxfp4, 39, "MXFP4", 32, 17),
    ];

    /// The type of a number in a file, if it is one of these.
    pub fn from_number(number: u32) -> Option<BlockType> {
        Self::TABLE.iter().find(|row| row.1 == number).map(|row| row.0)
    }

    /// Its name in GGUF.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// Elements of a block.
    pub const fn elements(self) -> usize {
        self.row().3
    }

    /// Bytes of a block.
    pub const fn bytes(self) -> usize {
        self.row().4
    }

    const fn row(self) -> &'static (BlockType, u32, &'static str, usize, usize) {
        // Every variant has its row, in order.
        &Self::TABLE[self as usize]
    }

    /// Decodes whole blocks to f32.
    ///
    /// # Panics
    /// Where the slices are not the same number of whole blocks, with four bytes of `values` for each element.
    pub fn decode(self, blocks: &[u8], values: &mut [u8]) {
        assert_eq!(blocks.len() % self.bytes(), 0, "bytes of {} blocks", self.name());
        let elements = blocks.len() / self.bytes() * self.elements();
        assert_eq!(elements * 4, values.len(), "bytes of elements of {} blocks", self.name());
        vectorised(Blocks { of: self, blocks, values });
    }
}

struct Blocks<'a> {
    of: BlockType,
    blocks: &'a [u8],
    values: &'a mut [u8],
}

impl Body for Blocks<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // A function that is passed on would be compiled for every processor, and called for each block.
        macro_rules! each {
            ($of:ident, $decode:ident) => {
                self.each::<{ BlockType::$of.bytes() }, { BlockType::$of.elements() }>(
                    #[inline(always)]
                    |block, values| $decode(block, values),
                )
            };
        }
        match self.of {
            BlockType::Q4_0 => each!(Q4_0, q4_0),
            BlockType::Q4_1 => each!(Q4_1, q4_1),
            BlockType::Q5_0 => each!(Q5_0, q5_0),
            BlockType::Q5_1 => each!(Q5_1, q5_1),
            BlockType::Q8_0 => each!(Q8_0, q8_0),
            BlockType::Q2K => each!(Q2K, q2_k),
            BlockType::Q3K => each!(Q3K, q3_k),
            BlockType::Q4K => each!(Q4K, q4_k),
            BlockType::Q5K => each!(Q5K, q5_k),
            BlockType::Q6K => each!(Q6K, q6_k),
            BlockType::Iq4Nl => each!(Iq4Nl, iq4_nl),
            BlockType::Iq4Xs => each!(Iq4Xs, iq4_xs),
            BlockType::Mxfp4 => each!(Mxfp4, mxfp4),
        }
    }
}

impl Blocks<'_> {
    /// Decodes each block, of `B` bytes and `N` elements: compilers make vectors of loops whose lengths they know.
    #[inline(always)]
    fn each<const B: usize, const N: usize>(self, decode: impl Fn(&[u8], &mut [f32])) {
        let blocks = self.blocks.as_chunks::<B>().0.iter();
        for (block, values) in blocks.zip(self.values.as_chunks_mut::<4>().0.as_chunks_mut::<N>().0) {
            let mut decoded = [0.0; N];
            decode(block, &mut decoded);
            for (value, decoded) in values.iter_mut().zip(&decoded) {
                *value = decoded.to_le_bytes();
            }
        }
    }
}

/// The 16-bit float at byte `at`, as f32. It is a call, which is as well: without one compilers take several blocks at a time and
/// the elements of each one by one (on Zen 4 Q4_0 at an eighth of the speed).
#[inline(always)]
fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Low nibbles are the first half of the elements, high nibbles the second.
#[inline(always)]
fn nibbles<T>(codes: &[u8], values: &mut [T], value: impl Fn(u8) -> T) {
    let (low, high) = values.split_at_mut(codes.len());
    for ((&code, low), high) in codes.iter().zip(low).zip(high) {
        *low = value(code & 15);
        *high = value(code >> 4);
    }
}

#[inline(always)]
fn q4_0(block: &[u8], values: &mut [f32]) {
    let scale = half_at(block, 0);
    nibbles(&block[2..], values, |q| scale * (f32::from(q) - 8.0));
}

#[inline(always)]
fn q4_1(block: &[u8], values: &mut [f32]) {
    let (scale, least) = (half_at(block, 0), half_at(block, 2));
    nibbles(&block[4..], values, |q| scale * f32::from(q) + least);
}

/// The codes of 5 bits of 32 elements: the fifth bits of all of them are in front.
#[inline(always)]
fn five_bits(high: &[u8], codes: &[u8], values: &mut [f32], value: impl Fn(u8) -> f32) {
    let fifth = u32::from_le_bytes([high[0], high[1], high[2], high[3]]);
    let bit = |i: usize| ((fifth >> i & 1) as u8) << 4;
    let (first, second) = values.split_at_mut(16);
    for (i, ((&code, first), second)) in codes[..16].iter().zip(first).zip(second).enumerate() {
        *first = value(code & 15 | bit(i));
        *second = value(code >> 4 | bit(i + 16));
    }
}

#[inline(always)]
fn q5_0(block: &[u8], values: &mut [f32]) {
    let scale = half_at(block, 0);
    five_bits(&block[2..6], &block[6..], values, |q| scale * (f32::from(q) - 16.0));
}

#[inline(always)]
fn q5_1(block: &[u8], values: &mut [f32]) {
    let (scale, least) = (half_at(block, 0), half_at(block, 2));
    five_bits(&block[4..8], &block[8..], values, |q| scale * f32::from(q) + least);
}

#[inline(always)]
fn q8_0(block: &[u8], values: &mut [f32]) {
    let scale = half_at(block, 0);
    for (value, &q) in values.iter_mut().zip(&block[2..]) {
        *value = f32::from(q as i8) * scale;
    }
}

/// Where the lower 2 bits of 32 elements are, two sub-blocks: 32 bytes, and by how much they are shifted. Byte `j` of each half
/// holds the elements `j`, `j + 32`, `j + 64` and `j + 96` of 128.
#[inline(always)]
fn two_bits(codes: &[u8], pair: usize) -> (&[u8], usize) {
    (&codes[pair / 4 * 32..][..32], 2 * (pair % 4))
}

#[inline(always)]
fn q2_k(block: &[u8], values: &mut [f32]) {
    let (scales, codes) = (&block[..16], &block[16..80]);
    let (scale, least) = (half_at(block, 80), half_at(block, 82));
    // Two sub-blocks at a time: of 16 elements compilers unroll the loop, and make vectors of several sub-blocks.
    for (pair, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (codes, shift) = two_bits(codes, pair);
        let (mut by, mut less) = ([0.0; 32], [0.0; 32]);
        for i in 0..32 {
            let scales = scales[2 * pair + i / 16];
            by[i] = scale * f32::from(scales & 15);
            less[i] = least * f32::from(scales >> 4);
        }
        for i in 0..32 {
            values[i] = by[i] * f32::from(codes[i] >> shift & 3) - less[i];
        }
    }
}

#[inline(always)]
fn q3_k(block: &[u8], values: &mut [f32]) {
    let (mask, codes, scales) = (&block[..32], &block[32..96], &block[96..108]);
    let scale = half_at(block, 108);
    for (sub, values) in values.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let low = if sub < 8 { scales[sub] & 15 } else { scales[sub - 8] >> 4 };
        let high = scales[8 + sub % 4] >> (2 * (sub / 4)) & 3;
        let by = scale * (f32::from(low | high << 4) - 32.0);
        let (codes, shift) = two_bits(codes, sub / 2);
        let codes = &codes[sub % 2 * 16..][..16];
        let mask = &mask[sub % 2 * 16..][..16];
        for ((value, &code), &mask) in values.iter_mut().zip(codes).zip(mask) {
            // The bit says that nothing is subtracted.
            let q = code >> shift & 3 | (mask >> (sub / 2) & 1) << 2;
            *value = by * (f32::from(q) - 4.0);
        }
    }
}

/// Scale and minimum of one of 8 sub-blocks, of 6 bits each in 12 bytes.
#[inline(always)]
fn scale_and_least(scales: &[u8], sub: usize) -> (u8, u8) {
    if sub < 4 {
        (scales[sub] & 63, scales[sub + 4] & 63)
    } else {
        let both = scales[sub + 4];
        (both & 15 | scales[sub - 4] >> 2 & 48, both >> 4 | scales[sub] >> 2 & 48)
    }
}

#[inline(always)]
fn q4_k(block: &[u8], values: &mut [f32]) {
    let (scale, least, scales, codes) =
        (half_at(block, 0), half_at(block, 2), &block[4..16], &block[16..144]);
    for (sub, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (by, less) = scale_and_least(scales, sub);
        let (by, less) = (scale * f32::from(by), least * f32::from(less));
        let codes = &codes[sub / 2 * 32..][..32];
        for (value, &code) in values.iter_mut().zip(codes) {
            *value = by * f32::from(code >> (4 * (sub % 2)) & 15) - less;
        }
    }
}

#[inline(always)]
fn q5_k(block: &[u8], values: &mut [f32]) {
    let (scale, least, scales) = (half_at(block, 0), half_at(block, 2), &block[4..16]);
    let (high, codes) = (&block[16..48], &block[48..176]);
    for (sub, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (by, less) = scale_and_least(scales, sub);
        let (by, less) = (scale * f32::from(by), least * f32::from(less));
        let codes = &codes[sub / 2 * 32..][..32];
        for ((value, &code), &high) in values.iter_mut().zip(codes).zip(high) {
            let q = code >> (4 * (sub % 2)) & 15 | (high >> sub & 1) << 4;
            *value = by * f32::from(q) - less;
        }
    }
}

#[inline(always)]
fn q6_k(block: &[u8], values: &mut [f32]) {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let scale = half_at(block, 208);
    // As in `q2_k`.
    for (pair, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (half, within) = (pair / 4, pair % 4);
        let low = &low[half * 64 + within % 2 * 32..][..32];
        let high = &high[half * 32..][..32];
        let mut by = [0.0; 32];
        for i in 0..32 {
            by[i] = scale * f32::from(scales[2 * pair + i / 16] as i8);
        }
        for i in 0..32 {
            let q = low[i] >> (within / 2 * 4) & 15 | (high[i] >> (within * 2) & 3) << 4;
            values[i] = by[i] * (f32::from(q) - 32.0);
        }
    }
}

#[inline(always)]
fn iq4_nl(block: &[u8], values: &mut [f32]) {
    let scale = half_at(block, 0);
    nibbles(&block[2..], values, |q| scale * f32::from(IQ4_VALUES[usize::from(q)]));
}

#[inline(always)]
fn iq4_xs(block: &[u8], values: &mut [f32]) {
    let scale = half_at(block, 0);
    let (high, low, codes) = (u16::from_le_bytes([block[2], block[3]]), &block[4..8], &block[8..136]);
    // All of them first, or compilers look up those of several sub-blocks together.
    let mut of_codes = [0; 256];
    nibbles(codes, &mut of_codes, |q| IQ4_VALUES[usize::from(q)]);
    let (firsts, seconds) = of_codes.split_at(128);
    for (sub, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (low, high) = (low[sub / 2] >> (4 * (sub % 2)) & 15, (high >> (2 * sub) & 3) as u8);
        let by = scale * (f32::from(low | high << 4) - 32.0);
        let mut each = [0; 32];
        each[..16].copy_from_slice(&firsts[sub * 16..][..16]);
        each[16..].copy_from_slice(&seconds[sub * 16..][..16]);
        for i in 0..32 {
            values[i] = by * f32::from(each[i]);
        }
    }
}

#[inline(always)]
fn mxfp4(block: &[u8], values: &mut [f32]) {
    let exponent = u32::from(block[0]);
    // Half of 2^(exponent - 127), for values that are twice as large.
    let half = if exponent < 2 { 0x0020_0000 << exponent } else { (exponent - 1) << 23 };
    let scale = f32::from_bits(half);
    nibbles(&block[1..], values, |q| scale * doubled(q));
}

/// Twice the value of an E2M1 code, which is a whole number. The gguf package knows no negative zero here.
#[inline(always)]
fn doubled(code: u8) -> f32 {
    let (exponent, mantissa) = (code >> 1 & 3, i32::from(code & 1));
    let magnitude = if exponent == 0 { mantissa } else { (2 | mantissa) << (exponent - 1) };
    (if code & 8 == 0 { magnitude } else { -magnitude }) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order() {
        for (i, row) in BlockType::TABLE.iter().enumerate() {
            assert_eq!((row.0 as usize, BlockType::from_number(row.1)), (i, Some(row.0)));
        }
    }
}
