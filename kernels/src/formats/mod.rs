//! Number formats: what their codes mean, and the scalar rule of each conversion, which every vector kernel follows.
//!
//! # Every format in one table
//!
//! Bytes are those of a 32x32 tile (of 1024 elements, where there are no tiles). The range is that of finite values: the
//! largest, and the least above 0; with a scale, the least is given as a multiple of it. "Even" and "away" are ties to even
//! and ties away from zero, both to nearest. Sources: (T) the host code of `ttnn` 0.81.1, compared byte for byte; (D) the
//! rule published for the device's packer and unpacker, compared with the maker's functional simulator byte for byte; (O) OCP Microscaling Formats 1.0 and OCP FP8, as (T)
//! reads them where they leave a choice; (I) IEEE 754; (Z) the DLFloat16 paper and zDNN; (V) a public port of the vendor's
//! converter.
//!
//! | format | shares | bytes | range | rounding | NaN | infinity | zero | denormals | source |
//! |---|---|---|---|---|---|---|---|---|---|
//! | f64, f32 | | 8192, 4096 | | even | kept | kept | sign kept | exact | I |
//! | bf16 | | 2048 | 255/128 x 2^127, 2^-133 | even | 0x7FC0 | kept | sign kept | exact | T, I |
//! | f16 | | 2048 | 65504, 2^-24 | even | 0x7E00 | kept | sign kept | exact | I |
//! | f8E4M3FN | | 1024 | 448, 2^-9 | even | 0x7F | NaN | sign kept | exact | O |
//! | f8E5M2 | | 1024 | 57344, 2^-16 | even | 0x7E | kept | sign kept | exact | O |
//! | ttnn's `FP8_E4M3` | | 1024 | 240, 2^-6 | even | 0x7F | 240 | sign kept | 0 | T |
//! | SEN169 | | 2048 | 1022/512 x 2^32, 513/512 x 2^-31 | away | 0x7FFF | 0x7FFF with the sign | sign kept | it has none; those of f16 are exact | Z |
//! | SEN169, deeptools | | 2048 | 1023/512 x 2^31 | away; from f16 half up | 0x7EFF, payload kept from f16 | 0x7E00 | sign kept, lost on the way to f32 | as above, halved on the way back to f16 | V |
//! | bfloat8_b | 16: exponent | 1088 | 127/64 x 2^127, 2^-132 | even, after a cut to 24 bits at the shared exponent | as 1.5 x 2^128, wins its group | as 2^128, wins its group | +0 | 0 when packed, exact when unpacked | T |
//! | bfloat4_b | 16: exponent | 576 | 7/4 x 2^127, 2^-128 | as bfloat8_b | " | " | " | " | T |
//! | bfloat2_b | 16: exponent | 320 | 2^127, 2^-126 | as bfloat8_b | " | " | " | " | T |
//! | bfp8_a | 16: 5-bit exponent | 1088 | 127/64 x 2^16, 2^-21 | as bfloat8_b | largest | largest | +0 | 0; other values below 2^-15 count as 2^-15 | T |
//! | bfp4_a | 16: 5-bit exponent | 576 | 7/4 x 2^16, 2^-17 | " | " | " | " | " | T |
//! | bfp2_a | 16: 5-bit exponent | 320 | 2^16, 2^-15 | " | " | " | " | " | T |
//! | mxfp8_e4m3 | 32: scale | 1056 | 7/4 x 2^127, 2^-9 | even, saturating | 0x7F | largest | sign kept | exact | O, T |
//! | mxfp8_e5m2 | 32: scale | 1056 | 7/4 x 2^127, 2^-16 | " | 0x7D | kept | " | " | O, T |
//! | mxfp6_e3m2 | 32: scale | 1056 (compact 800) | 7/4 x 2^127, 2^-4 | " | +0 | largest | " | " | O, T |
//! | mxfp6_e2m3 | 32: scale | 1056 (compact 800) | 15/8 x 2^127, 2^-3 | " | +0 | largest | " | " | O, T |
//! | mxfp4 | 32: scale | 544 | 3/2 x 2^127, 2^-1 | " | +0 | largest | " | " | O, T |
//! | mxint8 | 32: scale | 1056 | 127/64 x 2^127, 2^-6 | " | 0 | largest | 0 | " | O, T |
//! | mxint4 | 32: scale | 544 | 7/4 x 2^127, 2^-2 | " | 0 | largest | 0 | " | T |
//! | mxint2 | 32: scale | 288 | 2^127, 1 | " | 0 | largest | 0 | " | T |
//!
//! Block floats also pack with [`Rounding::Device`] and [`Rounding::DeviceOp`] (D) and with
//! [`Rounding::Truncate`] (T). An MX block of nothing but NaN has
//! the scale 0xFF and reads as NaN (as 0 in the integer formats); one of infinities, NaN and zeros has the scale 0xFE.
//! Unpacking gives the exact value, infinity where binary32 ends; see [`Decoding`] for what the library (T)
//! and the device (D) make of codes instead.

mod bfp;
mod block;
mod codec;
mod integer;
mod mx;
mod number;
mod options;
mod tile;

pub(crate) use bfp::{Bfp, GROUP, round_early};
pub use block::BlockFormat;
pub(crate) use block::Rule;
pub use codec::{BlockCodec, CodecError};
pub use integer::{Cast, Integer};
pub(crate) use mx::{Element, MX_BLOCK, SCALE_NAN};
pub use number::Number;
pub use options::{BlockOptions, Decoding, Rounding};
pub use tile::TileShape;
