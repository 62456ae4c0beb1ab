//! Tensor files: `.npy`, `.safetensors`, `.tensorbin` and raw bytes in, files that appear whole or not at all out.
//!
//! Readers ask a [`Source`] for the ranges they need, never copy what they can borrow, and trust no number that they
//! have not compared with the length of the file. A damaged file is [`Error::Io`]; a request that does not suit a
//! sound file (another dtype, a missing tensor) is [`Error::Value`].

pub mod npy;
mod output;
pub mod safetensors;
mod source;
pub mod tensorbin;

use std::borrow::Cow;

pub use output::Output;
pub use source::Source;

use tilewright::dtype::DType;
use tilewright::error::{Error, Result};
use tilewright::family::Tensor;

/// In which order the elements of a dense array follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The last index varies fastest ("C").
    RowMajor,
    /// The first index varies fastest ("Fortran").
    ColumnMajor,
}

impl Order {
    /// Strides in elements of a dense array of `shape` in this order.
    ///
    /// # Errors
    /// [`Error::Overflow`] where a stride leaves the 63 bits of an offset.
    pub fn strides(self, shape: &[u64]) -> Result<Vec<u64>> {
        let mut strides = vec![1; shape.len()];
        let mut step: u64 = 1;
        let mut place = |d: usize| {
            strides[d] = step;
            step = step
                .checked_mul(shape[d].max(1))
                .filter(|&s| s <= i64::MAX as u64)
                .ok_or_else(|| Error::overflow("the element count of the array"))?;
            Ok(())
        };
        match self {
            Order::RowMajor => (0..shape.len()).rev().try_for_each(&mut place)?,
            Order::ColumnMajor => (0..shape.len()).try_for_each(&mut place)?,
        }
        Ok(strides)
    }
}

/// A dense host array: what it is, and its little-endian elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostArray<'a> {
    /// Shape and element type.
    pub tensor: Tensor,
    /// The order of the elements.
    pub order: Order,
    /// Exactly as many bytes as the tensor has; borrowed from the source where they lie there ready.
    pub bytes: Cow<'a, [u8]>,
}

/// The bytes of a dense array of `shape` and `dtype`.
///
/// # Errors
/// [`Error::Overflow`] where they are more than 2^63 - 1.
pub fn byte_len(shape: &[u64], dtype: DType) -> Result<u64> {
    // Zero extents first: a zero anywhere makes the product zero, whatever the others would overflow to.
    if shape.contains(&0) {
        return Ok(0);
    }
    shape
        .iter()
        .try_fold(dtype.size() as u64, |n, &extent| n.checked_mul(extent))
        .filter(|&n| n <= i64::MAX as u64)
        .ok_or_else(|| Error::overflow(format!("the size of a {shape:?} array of {dtype}")))
}

/// [`Error::Io`] of the file called `name`.
fn damaged(name: &str, what: impl Into<String>) -> Error {
    Error::Io { path: name.to_owned(), what: what.into() }
}

/// An [`std::io::Error`] as [`Error::Io`].
pub fn failed(path: &std::path::Path, doing: &str, error: &std::io::Error) -> Error {
    Error::Io { path: path.display().to_string(), what: format!("{doing}: {error}") }
}
