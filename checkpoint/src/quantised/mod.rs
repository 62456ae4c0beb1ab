//! Decoding quantised elements to floats: each rule is that of the project whose files it reads.

mod fp8;
mod gguf;
mod mxfp4;

pub use fp8::decode_row as decode_fp8_row;
pub use gguf::BlockType;
pub use mxfp4::decode as decode_mxfp4;
pub(crate) use mxfp4::power as power_of_two;
