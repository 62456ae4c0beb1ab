//! DeepSeek's fp8: E4M3 elements, and a scale for each block of a matrix.
//!
//! The rule is that of transformers: the product in f32, rounded to bf16.

use std::sync::LazyLock;

use half::bf16;

/// The values of all E4M3 codes.
static VALUES: LazyLock<[f32; 256]> = LazyLock::new(|| std::array::from_fn(|code| value(code as u8)));

/// Decodes elements that follow one another in a row, of which the first is in column `first`. The scales are those of
/// the row, one for `block` columns.
///
/// # Panics
/// Where there are fewer scales than the columns need, or not as many codes as values.
pub fn decode_row(codes: &[u8], first: u64, block: u64, scales: &[f32], values: &mut [bf16]) {
    assert_eq!(codes.len(), values.len(), "elements");
    let (mut codes, mut values, mut column) = (codes, values, first);
    while !codes.is_empty() {
        let here = ((block - column % block) as usize).min(codes.len());
        let scale = scales[(column / block) as usize];
        let (now, rest) = values.split_at_mut(here);
        for (value, &code) in now.iter_mut().zip(codes) {
            *value = bf16::from_f32(VALUES[usize::from(code)] * scale);
        }
        (codes, values, column) = (&codes[here..], rest, column + here as u64);
    }
}

/// The value of an E4M3 code: 4 exponent bits with bias 7, no infinity, NaN where all bits below the sign are set.
fn value(code: u8) -> f32 {
    let (exponent, mantissa) = (code >> 3 & 15, f32::from(code & 7));
    let magnitude = match exponent {
        0 => mantissa / 512.0,
        15 if code & 7 == 7 => f32::NAN,
        _ => (1.0 + mantissa / 8.0) * 2_f32.powi(i32::from(exponent) - 7),
    };
    if code & 0x80 != 0 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_change_scales_at_their_columns() {
        let mut values = [bf16::ZERO; 6];
        // 0x38 is one.
        decode_row(&[0x38; 6], 2, 4, &[2.0, 3.0], &mut values);
        assert_eq!(values.map(|v| v.to_f32()), [2.0, 2.0, 3.0, 3.0, 3.0, 3.0]);
        assert_eq!(value(0x7E), 448.0);
        assert_eq!(value(0x81), -(2_f32.powi(-9)));
    }
}
