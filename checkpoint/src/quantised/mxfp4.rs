//! gpt-oss's MXFP4: two codes a byte, the low nibble first, and a power of two for 32 elements.
//!
//! The rule is that of `_convert_moe_packed_tensors` in transformers: a value of the table times 2^(scale - 127), where
//! 2^128 is infinite. Every finite value is exact in bf16.

use std::ops::RangeInclusive;

use half::bf16;

/// Values of E2M1 codes.
const VALUES: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// Scales under which every product but zero is a normal number of bf16, with an exponent field of 1 to 254: that of codes
/// is 126 to 129.
const NORMAL: RangeInclusive<u8> = 2..=252;

/// Decodes groups of 32 elements: 16 bytes of codes and one scale each.
///
/// # Panics
/// Where the slices are not of the same number of groups.
pub fn decode(codes: &[u8], scales: &[u8], values: &mut [bf16]) {
    assert_eq!(codes.len(), scales.len() * 16, "bytes of codes");
    assert_eq!(values.len(), scales.len() * 32, "elements");
    let groups = codes.as_chunks::<16>().0.iter().zip(values.as_chunks_mut::<32>().0).zip(scales);
    for ((codes, values), &scale) in groups {
        match NORMAL.contains(&scale) {
            true => normal(codes, scale, values),
            false => any(codes, scale, values),
        }
    }
}

/// A group by the rule itself.
fn any(codes: &[u8; 16], scale: u8, values: &mut [bf16; 32]) {
    let table = VALUES.map(|value| bf16::from_f32(value * power(scale)));
    for (&code, pair) in codes.iter().zip(values.chunks_exact_mut(2)) {
        pair[0] = table[usize::from(code & 15)];
        pair[1] = table[usize::from(code >> 4)];
    }
}

/// A group whose products are normal numbers, by arithmetic on bits: a compiler makes vector instructions of it, as it
/// does of no table.
fn normal(codes: &[u8; 16], scale: u8, values: &mut [bf16; 32]) {
    // 0.5 times the scale. The codes 2 to 7 are 1, 1.5, 2, 3, 4, 6: each adds half an exponent to that.
    let half = (u16::from(scale) - 1) << 7;
    // Choices of values, not of branches.
    let value = |code: u16| {
        let magnitude = code & 7;
        let bits = half + (magnitude << 6);
        let bits = if magnitude == 1 { half } else { bits };
        let bits = if magnitude == 0 { 0 } else { bits };
        bf16::from_bits(bits | (code & 8) << 12)
    };
    let low: [bf16; 16] = std::array::from_fn(|i| value(u16::from(codes[i] & 15)));
    let high: [bf16; 16] = std::array::from_fn(|i| value(u16::from(codes[i] >> 4)));
    for i in 0..16 {
        values[2 * i] = low[i];
        values[2 * i + 1] = high[i];
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
                let mut values = [bf16::ZERO; 32];
                decode(&codes, &[scale], &mut values);
                for (i, value) in values.iter().enumerate() {
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
        let mut values = [bf16::ZERO; 32];
        decode(&codes, &[128], &mut values);
        assert_eq!(values[..3].iter().map(|v| v.to_f32()).collect::<Vec<_>>(), [-12.0, 2.0, 0.0]);
    }
}
