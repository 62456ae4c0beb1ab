//! Loop nests of the Tiled Tensor RFC: the three tuples, and the runtime's list of such nests.

mod dci;
mod emit;
mod nests;
#[cfg(test)]
mod tests;
mod tuple;

pub use dci::{Dci, Dcsi};
pub use tuple::ThreeTuple;

use crate::error::Error;

/// The most nests that are made or read.
const MAX_NESTS: usize = 4096;

fn too_many_nests() -> Error {
    Error::TooComplex { what: "the list of nests".into(), cap: MAX_NESTS }
}
