//! Data-movement and number-format kernels of tilewright, one table per instruction set.
mod bfp;
pub mod block;
mod mx;
pub mod number;
pub mod tile;

pub use block::{BlockCodec, BlockFormat, BlockOptions, CodecError, Rounding};
pub use number::Number;
pub use tile::TileShape;
