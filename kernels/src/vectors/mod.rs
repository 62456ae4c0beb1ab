//! Arithmetic on fixed arrays that compilers turn into vector code, and the packing and unpacking made of it.
//!
//! From the bottom: `interleave` transposes registers and `pairs` two at once, `lanes` are single elements, `steps` lead from one format to another,
//! `binary32` are runs of any elements, `groups` are 16 of them, `encode` and `decode` are what packing and unpacking ask of a
//! family of formats, `bfp_encode`, `bfp_decode` and `mx` are those families, `tile_packer` and `column_packer` pack one tile, `scales` what their
//! elements are multiplied by, `pack` and `unpack` are the kernels. `canonical` tells which tiles need neither, and `requantize` makes tiles of
//! one block format of those of another.

mod bfp_decode;
mod bfp_encode;
pub(crate) mod binary32;
pub(crate) mod canonical;
mod column_packer;
mod decode;
mod encode;
mod exponent_search;
mod groups;
pub(crate) mod interleave;
pub(crate) mod lanes;
mod mx;
pub(crate) mod pack;
pub(crate) mod pairs;
pub(crate) mod requantize;
mod scales;
pub(crate) mod steps;
mod tile_packer;
pub(crate) mod unpack;
