//! Moves of elements between strided windows: copies, transposes, fills, conversions and casts.
//!
//! Each file has the arguments of its kernel once they are checked, its body for vectors, and its scalar rule.

pub(crate) mod cast;
pub(crate) mod convert;
pub(crate) mod copy;
pub(crate) mod fill;
pub(crate) mod segments;
mod strided;
mod transpose;
