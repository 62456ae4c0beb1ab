//! Data-movement and number-format kernels of tilewright, one table per instruction set.
//!
//! The crate is built in layers, and each uses only those below it:
//!
//! | folder | what it is |
//! |---|---|
//! | `api` | the tables, how a level gets its own, and the calls that check their arguments |
//! | `moves` | kernels over strided windows: copy, transpose, fill, convert, cast |
//! | `vectors` | arithmetic on fixed arrays, and the packing and unpacking of tiles made of it |
//! | [`formats`] | what codes mean: the scalar rules, group sizes and roundings |
//! | `memory` | bounds, loads, stores and prefetches; stores that bypass the caches |
//! | `level` | what a body knows of its instruction set |
//!
//! A kernel never allocates, and touches no byte that its arguments do not name.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod api;
pub mod formats;
mod level;
#[allow(unsafe_code)]
mod memory;
mod moves;
mod vectors;

pub use api::{Body, Isa, Kernels};
pub use formats::{
    BlockCodec, BlockFormat, BlockOptions, Cast, CodecError, Decoding, Integer, Number, Rounding, TileShape,
};
pub use memory::{Ahead, Destination, Hints, MAX_OUTER_LOOPS, OuterLoop, Window, prefetch};
pub use moves::segments::Segment;
pub use vectors::pack::PackArgs;
pub use vectors::unpack::UnpackArgs;
