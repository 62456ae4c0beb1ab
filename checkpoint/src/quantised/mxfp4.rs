//! gpt-oss's MXFP4: two codes a byte, the low nibble first, and a power of two for 32 elements.
//!
//! The rule is that of `_convert_moe_packed_tensors` in transformers: a value of the table times 2^(scale - 127), where
//! 2^128 is infinite. Every finite value is exact in bf16.

use std::ops::RangeInclusive;

use half::bf16;
use kernels::Body;

use super::vectorised;

/// Values of E2M1 codes.
const VALUES: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// Scales under which every product but zero is a normal number of bf16, with an exponent field of 1 to 254: that of codes
/// is 126 to 129.
const NORMAL: RangeInclusive<u8> = 2..=252;

/// Decodes groups of 32 elements, 16 bytes of codes and one scale each, to bf16.
///
/// # Panics
/// Where the slices are not of the same number of groups: a group is 64 bytes of `values`.
pub fn decode(codes: &[u8], scales: &[u8], values: &mut [u8]) {
    assert_eq!(codes.len(), scales.len() * 16, "bytes of codes");
    assert_eq!(values.len(), scales.len() * 64, "bytes of elements");
    vectorised(Groups { codes, scales, values });
}

struct Groups<'a> {
    codes: &'a [u8],
    scales: &'a [u8],
    values: &'a mut [u8],
}

impl Body for Groups<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let groups = self.codes.as_chunks::<16>().0.iter().zip(self.values.as_chunks_mut::<64>().0);
        for ((codes, values), &scale) in groups.zip(self.scales) {
            match NORMAL.contains(&scale) {
                true => normal(codes, scale, values),
                false => any(codes, scale, values),
            }
        }
    }
}

/// A group by the rule itself.
fn any(codes: &[u8; 16], scale: u8, values: &mut [u8; 64]) {
    let table = VALUES.map(|value| bf16::from_f32(value * power(scale)).to_le_bytes());
    for (&code, pair) in codes.iter().zip(values.as_chunks_mut::<4>().0) {
        pair[..2].copy_from_slice(&table[usize::from(code & 15)]);
        pair[2..].copy_from_slice(&table[usize::from(code >> 4)]);
    }
}

/// A group whose products are normal numbers, by arithmetic on the bits of both elements of a byte at once: a compiler
/// makes vector instructions of it, as it does of no table.
#[inline(always)]
fn normal(codes: &[u8; 16], scale: u8, values: &mut [u8; 64]) {
    // 0.5 times the scale, twice. The codes 2 to 7 are 1, 1.5, 2, 3, 4, 6: each adds half an exponent to that.
    let half = u32::from(scale - 1) * 0x0080_0080;
    for (&code, pair) in codes.iter().zip(values.as_chunks_mut::<4>().0) {
        let code = u32::from(code);
        let both = code & 15 | (code & 0xF0) << 12;
        let magnitude = both & 0x0007_0007;
        // The lowest bit of an element says whether its magnitude is 2 or more, and whether it is any at all.
        let large = (magnitude >> 1 | magnitude >> 2) & 0x0001_0001;
        let any = large | magnitude & 0x0001_0001;
        let bits = half + ((magnitude & (0x0006_0006 | large)) << 6);
        *pair = (bits & (any * 0xFFFF) | (both & 0x0008_0008) << 12).to_le_bytes();
    }
}

/// 2^(scale - 127).
pub(crate) fn power(scale: u8) -> f32 {
    match scale {
        // The one that is subnormal.
        0 => f32::from_bits(0x0040_0000),
        _ => f32::from_bits(u32::from(scale) << 23),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_powers() {
        for scale in 0..=255_u8 {
            assert_eq!(power(scale), 2_f64.powi(i32::from(scale) - 127) as f32, "{scale}");
        }
    }

    /// Every pair of codes under every scale.
    #[test]
    fn bits_equal_products() {
        for scale in 0..=255_u8 {
            for first in (0..=255_u8).step_by(16) {
                let codes: [u8; 16] = std::array::from_fn(|i| first + i as u8);
                let mut values = [0; 64];
                decode(&codes, &[scale], &mut values);
                for (i, &value) in values.as_chunks::<2>().0.iter().enumerate() {
                    let value = bf16::from_le_bytes(value);
                    let code = codes[i / 2] >> (4 * (i % 2)) & 15;
                    let needed = bf16::from_f32(VALUES[usize::from(code)] * power(scale));
                    // Zero times infinity is no number.
                    let same = value.to_bits() == needed.to_bits() || value.is_nan() && needed.is_nan();
                    assert!(same, "scale {scale}, code {code}: {value:?}, {needed:?}");
                }
            }
        }
    }

    #[test]
    fn low_nibbles_come_first() {
        let mut codes = [0; 16];
        codes[0] = 0x2F;
        let mut values = [0; 64];
        decode(&codes, &[128], &mut values);
        let values = values.as_chunks::<2>().0[..3].iter().map(|&v| bf16::from_le_bytes(v).to_f32());
        assert_eq!(values.collect::<Vec<_>>(), [-12.0, 2.0, 0.0]);
    }
}
