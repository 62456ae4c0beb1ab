//! Data-movement and number-format kernels of tilewright, one table per instruction set.
mod bfp;
pub mod block;
mod convert;
mod copy;
mod dispatch;
mod fill;
mod isa;
mod lane;
mod mem;
mod mx;
pub mod number;
mod pack;
mod scalar;
mod stream;
pub mod tile;
mod transpose;
mod unpack;
mod window;

pub use block::{BlockCodec, BlockFormat, BlockOptions, CodecError, Rounding};
pub use copy::MAX_AROUND;
pub use dispatch::Kernels;
pub use isa::Isa;
pub use number::Number;
pub use pack::PackArgs;
pub use tile::TileShape;
pub use unpack::UnpackArgs;
pub use window::{Around, Window};
