//! Decoding quantised elements to floats, little-endian: each rule is that of the project whose files it reads.

mod fp8;
mod gguf;
mod mxfp4;

pub use fp8::decode_row as decode_fp8_row;
pub use gguf::BlockType;
use kernels::{Body, Isa, Kernels};
pub use mxfp4::decode as decode_mxfp4;
pub(crate) use mxfp4::power as power_of_two;

/// Runs a loop with the best instructions that the machine has.
fn vectorised<B: Body>(body: B) -> B::Output {
    match Kernels::for_isa(Isa::best()) {
        Some(kernels) => kernels.run(body),
        None => body.run(),
    }
}

/// The bf16 nearest to an f32, ties to even; what is no number stays none, with its upper bits.
#[inline(always)]
fn nearest_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
    let kept = bits >> 16 | 0x40;
    (if value.is_nan() { kept } else { rounded }) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_that_of_half() {
        let near = |bits: u32| [bits, bits | 1, bits | 0x7FFF, bits | 0x8000, bits | 0x8001, bits | 0xFFFF];
        for value in (0..=u16::MAX).flat_map(|high| near(u32::from(high) << 16)).map(f32::from_bits) {
            assert_eq!(nearest_bf16(value), half::bf16::from_f32(value).to_bits(), "{value:e}");
        }
    }
}
