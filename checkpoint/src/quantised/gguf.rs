//! The quantised blocks of GGUF files, decoded to f32.
//!
//! Each rule is that of `dequantize` in the Python package `gguf` 0.19, operation by operation in f32, so that values
//! are equal bit for bit. Blocks of 32 elements have their own scale; blocks of 256 (the K types) have scales of
//! sub-blocks that are quantised themselves.

use half::f16;

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

/// Twice the values of E2M1 codes, so that they are whole numbers.
const E2M1_DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

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
    pub fn elements(self) -> usize {
        self.row().3
    }

    /// Bytes of a block.
    pub fn bytes(self) -> usize {
        self.row().4
    }

    fn row(self) -> &'static (BlockType, u32, &'static str, usize, usize) {
        // Every variant has its row, in order.
        &Self::TABLE[self as usize]
    }

    /// Decodes whole blocks: as many as `values` has room for, from as many bytes.
    ///
    /// # Panics
    /// Where the slices are not the same number of whole blocks.
    pub fn decode(self, blocks: &[u8], values: &mut [f32]) {
        assert_eq!(blocks.len() % self.bytes(), 0, "bytes of {} blocks", self.name());
        assert_eq!(
            blocks.len() / self.bytes() * self.elements(),
            values.len(),
            "elements of {} blocks",
            self.name()
        );
        let decode = match self {
            BlockType::Q4_0 => q4_0,
            BlockType::Q4_1 => q4_1,
            BlockType::Q5_0 => q5_0,
            BlockType::Q5_1 => q5_1,
            BlockType::Q8_0 => q8_0,
            BlockType::Q2K => q2_k,
            BlockType::Q3K => q3_k,
            BlockType::Q4K => q4_k,
            BlockType::Q5K => q5_k,
            BlockType::Q6K => q6_k,
            BlockType::Iq4Nl => iq4_nl,
            BlockType::Iq4Xs => iq4_xs,
            BlockType::Mxfp4 => mxfp4,
        };
        for (block, values) in blocks.chunks_exact(self.bytes()).zip(values.chunks_exact_mut(self.elements()))
        {
            decode(block, values);
        }
    }
}

/// The 16-bit float at byte `at`, as f32.
fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Low nibbles are the first half of 32 elements, high nibbles the second.
fn nibbles(codes: &[u8], values: &mut [f32], value: impl Fn(u8) -> f32) {
    let (low, high) = values.split_at_mut(codes.len());
    for ((&code, low), high) in codes.iter().zip(low).zip(high) {
        *low = value(code & 15);
        *high = value(code >> 4);
    }
}

fn q4_0(block: &[u8], values: &mut [f32]) {
    let scale = half_at(block, 0);
    nibbles(&block[2..], values, |q| scale * (f32::from(q) - 8.0));
}

fn q4_1(block: &[u8], values: &mut [f32]) {
    let (scale, least) = (half_at(block, 0), half_at(block, 2));
    nibbles(&block[4..], values, |q| scale * f32::from(q) + least);
}

/// The codes of 5 bits: the fifth bits of all 32 are in front.
fn five_bits(high: &[u8], codes: &[u8]) -> [u8; 32] {
    std::array::from_fn(|i| {
        let low = if i < 16 { codes[i] & 15 } else { codes[i - 16] >> 4 };
        low | (high[i / 8] >> (i % 8) & 1) << 4
    })
}

fn q5_0(block: &[u8], values: &mut [f32]) {
    let scale = half_at(block, 0);
    for (value, q) in values.iter_mut().zip(five_bits(&block[2..6], &block[6..])) {
        *value = scale * (f32::from(q) - 16.0);
    }
}

fn q5_1(block: &[u8], values: &mut [f32]) {
    let (scale, least) = (half_at(block, 0), half_at(block, 2));
    for (value, q) in values.iter_mut().zip(five_bits(&block[4..8], &block[8..])) {
        *value = scale * f32::from(q) + least;
    }
}

fn q8_0(block: &[u8], values: &mut [f32]) {
    let scale = half_at(block, 0);
    for (value, &q) in values.iter_mut().zip(&block[2..]) {
        *value = f32::from(q as i8) * scale;
    }
}

/// Codes of 2 bits: byte `j` of each half holds the elements `j`, `j + 32`, `j + 64` and `j + 96` of 128.
fn two_bits(codes: &[u8], element: usize) -> u8 {
    let (half, shift, j) = (element / 128, element / 32 % 4, element % 32);
    codes[half * 32 + j] >> (2 * shift) & 3
}

fn q2_k(block: &[u8], values: &mut [f32]) {
    let (scales, codes) = (&block[..16], &block[16..80]);
    let (scale, least) = (half_at(block, 80), half_at(block, 82));
    for (sub, values) in values.chunks_exact_mut(16).enumerate() {
        let by = scale * f32::from(scales[sub] & 15);
        let less = least * f32::from(scales[sub] >> 4);
        for (i, value) in values.iter_mut().enumerate() {
            *value = by * f32::from(two_bits(codes, sub * 16 + i)) - less;
        }
    }
}

fn q3_k(block: &[u8], values: &mut [f32]) {
    let (mask, codes, scales) = (&block[..32], &block[32..96], &block[96..108]);
    let scale = half_at(block, 108);
    for (sub, values) in values.chunks_exact_mut(16).enumerate() {
        let low = if sub < 8 { scales[sub] & 15 } else { scales[sub - 8] >> 4 };
        let high = scales[8 + sub % 4] >> (2 * (sub / 4)) & 3;
        let by = scale * (f32::from(low | high << 4) - 32.0);
        for (i, value) in values.iter_mut().enumerate() {
            let element = sub * 16 + i;
            // The bit says that nothing is subtracted.
            let bit = mask[element % 32] >> (element / 32) & 1;
            *value = by * (f32::from(two_bits(codes, element)) - if bit == 1 { 0.0 } else { 4.0 });
        }
    }
}

/// Scale and minimum of one of 8 sub-blocks, of 6 bits each in 12 bytes.
fn scale_and_least(scales: &[u8], sub: usize) -> (u8, u8) {
    if sub < 4 {
        (scales[sub] & 63, scales[sub + 4] & 63)
    } else {
        let both = scales[sub + 4];
        (both & 15 | scales[sub - 4] >> 2 & 48, both >> 4 | scales[sub] >> 2 & 48)
    }
}

fn q4_k(block: &[u8], values: &mut [f32]) {
    let (scale, least, scales, codes) =
        (half_at(block, 0), half_at(block, 2), &block[4..16], &block[16..144]);
    for (sub, values) in values.chunks_exact_mut(32).enumerate() {
        let (by, less) = scale_and_least(scales, sub);
        let (by, less) = (scale * f32::from(by), least * f32::from(less));
        let codes = &codes[sub / 2 * 32..][..32];
        for (value, &code) in values.iter_mut().zip(codes) {
            *value = by * f32::from(code >> (4 * (sub % 2)) & 15) - less;
        }
    }
}

fn q5_k(block: &[u8], values: &mut [f32]) {
    let (scale, least, scales) = (half_at(block, 0), half_at(block, 2), &block[4..16]);
    let (high, codes) = (&block[16..48], &block[48..176]);
    for (sub, values) in values.chunks_exact_mut(32).enumerate() {
        let (by, less) = scale_and_least(scales, sub);
        let (by, less) = (scale * f32::from(by), least * f32::from(less));
        let codes = &codes[sub / 2 * 32..][..32];
        for ((value, &code), &high) in values.iter_mut().zip(codes).zip(high) {
            let q = code >> (4 * (sub % 2)) & 15 | (high >> sub & 1) << 4;
            *value = by * f32::from(q) - less;
        }
    }
}

fn q6_k(block: &[u8], values: &mut [f32]) {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let scale = half_at(block, 208);
    for (sub, values) in values.chunks_exact_mut(16).enumerate() {
        let by = scale * f32::from(scales[sub] as i8);
        for (i, value) in values.iter_mut().enumerate() {
            let element = sub * 16 + i;
            let (half, within) = (element / 128, element % 128);
            let low = low[half * 64 + within % 64] >> (4 * (within / 64)) & 15;
            let high = high[half * 32 + within % 32] >> (2 * (within / 32)) & 3;
            *value = by * (f32::from(low | high << 4) - 32.0);
        }
    }
}

fn iq4_nl(block: &[u8], values: &mut [f32]) {
    let scale = half_at(block, 0);
    nibbles(&block[2..], values, |q| scale * f32::from(IQ4_VALUES[usize::from(q)]));
}

fn iq4_xs(block: &[u8], values: &mut [f32]) {
    let scale = half_at(block, 0);
    let (high, low, codes) = (u16::from_le_bytes([block[2], block[3]]), &block[4..8], &block[8..136]);
    for (sub, values) in values.chunks_exact_mut(32).enumerate() {
        let (low, high) = (low[sub / 2] >> (4 * (sub % 2)) & 15, (high >> (2 * sub) & 3) as u8);
        let by = scale * (f32::from(low | high << 4) - 32.0);
        nibbles(&codes[sub * 16..][..16], values, |q| by * f32::from(IQ4_VALUES[usize::from(q)]));
    }
}

fn mxfp4(block: &[u8], values: &mut [f32]) {
    let exponent = u32::from(block[0]);
    // Half of 2^(exponent - 127), for values that are twice as large.
    let half = if exponent < 2 { 0x0020_0000 << exponent } else { (exponent - 1) << 23 };
    let scale = f32::from_bits(half);
    nibbles(&block[1..], values, |q| scale * f32::from(E2M1_DOUBLED[usize::from(q)]));
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
