//! DeepSeek's fp8: E4M3 elements, and a scale for each block of a matrix.
//!
//! The rule is that of transformers: the product in f32, rounded to bf16.

use kernels::Body;

use super::{nearest_bf16, vectorised};

/// Decodes elements that follow one another in a row, of which the first is in column `first`, to bf16. The scales are
/// those of the row, one for `block` columns.
///
/// # Panics
/// Where there are fewer scales than the columns need, or not two bytes of `values` for each code.
pub fn decode_row(codes: &[u8], first: u64, block: u64, scales: &[f32], values: &mut [u8]) {
    assert_eq!(codes.len() * 2, values.len(), "bytes of elements");
    vectorised(Row { codes, first, block, scales, values });
}

struct Row<'a> {
    codes: &'a [u8],
    first: u64,
    block: u64,
    scales: &'a [f32],
    values: &'a mut [u8],
}

impl Body for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Row { mut codes, first: mut column, block, scales, values } = self;
        let mut values = values.as_chunks_mut::<2>().0;
        while !codes.is_empty() {
            let here = ((block - column % block) as usize).min(codes.len());
            let scale = scales[(column / block) as usize];
            let (now, rest) = values.split_at_mut(here);
            for (value, &code) in now.iter_mut().zip(codes) {
                *value = nearest_bf16(value_of(code) * scale).to_le_bytes();
            }
            (codes, values, column) = (&codes[here..], rest, column + here as u64);
        }
    }
}

/// The value of an E4M3 code: 4 exponent bits with bias 7, no infinity, NaN where all bits below the sign are set. By
/// arithmetic on bits, for vectors of them.
#[inline(always)]
fn value_of(code: u8) -> f32 {
    let (sign, magnitude) = (u32::from(code & 0x80) << 24, u32::from(code & 0x7F));
    // The exponent of f32 has a bias of 127.
    let normal = (magnitude << 20) + (120 << 23);
    let subnormal = (magnitude as f32 / 512.0).to_bits();
    let bits = if magnitude < 8 { subnormal } else { normal };
    let bits = if magnitude == 0x7F { f32::NAN.to_bits() } else { bits };
    f32::from_bits(sign | bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    /// The rule as the format states it.
    fn stated(code: u8) -> f32 {
        let (exponent, mantissa) = (code >> 3 & 15, f32::from(code & 7));
        let magnitude = match exponent {
            0 => mantissa / 512.0,
            15 if code & 7 == 7 => f32::NAN,
            _ => (1.0 + mantissa / 8.0) * 2_f32.powi(i32::from(exponent) - 7),
        };
        if code & 0x80 != 0 { -magnitude } else { magnitude }
    }

    #[test]
    fn values_are_those_of_the_format() {
        for code in 0..=255 {
            assert_eq!(value_of(code).to_bits(), stated(code).to_bits(), "{code:#x}");
        }
        assert_eq!((value_of(0x7E), value_of(0x81)), (448.0, -(2_f32.powi(-9))));
    }

    #[test]
    fn blocks_change_scales_at_their_columns() {
        let mut values = [0; 12];
        // 0x38 is one.
        decode_row(&[0x38; 6], 2, 4, &[2.0, 3.0], &mut values);
        let values = values.as_chunks::<2>().0.iter().map(|&v| bf16::from_le_bytes(v).to_f32());
        assert_eq!(values.collect::<Vec<_>>(), [2.0, 2.0, 3.0, 3.0, 3.0, 3.0]);
    }
}
