//! gpt-oss's MXFP4: two codes a byte, the low nibble first, and a power of two for 32 elements.
//!
//! The rule is that of `_convert_moe_packed_tensors` in transformers: a value of the table times 2^(scale - 127), where
//! 2^128 is infinite. Every finite value is exact in bf16.

use half::bf16;

/// Values of E2M1 codes.
const VALUES: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// Decodes groups of 32 elements: 16 bytes of codes and one scale each.
///
/// # Panics
/// Where the slices are not of the same number of groups.
pub fn decode(codes: &[u8], scales: &[u8], values: &mut [bf16]) {
    assert_eq!(codes.len(), scales.len() * 16, "bytes of codes");
    assert_eq!(values.len(), scales.len() * 32, "elements");
    for ((codes, &scale), values) in codes.chunks_exact(16).zip(scales).zip(values.chunks_exact_mut(32)) {
        let table = VALUES.map(|value| bf16::from_f32(value * power(scale)));
        for (&code, pair) in codes.iter().zip(values.chunks_exact_mut(2)) {
            pair[0] = table[usize::from(code & 15)];
            pair[1] = table[usize::from(code >> 4)];
        }
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

    #[test]
    fn low_nibbles_come_first() {
        let mut codes = [0; 16];
        codes[0] = 0x2F;
        let mut values = [bf16::ZERO; 32];
        decode(&codes, &[128], &mut values);
        assert_eq!(values[..3].iter().map(|v| v.to_f32()).collect::<Vec<_>>(), [-12.0, 2.0, 0.0]);
    }
}
