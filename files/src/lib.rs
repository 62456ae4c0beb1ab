//! Tensor files: `.npy`, `.safetensors`, `.tensorbin` and raw bytes in, files that appear whole or not at all out.
//!
//! Readers ask a [`Source`] for the ranges they need, never copy what they can borrow, and trust no number that they
//! have not compared with the length of the file. A damaged file is [`Error::Io`]; a request that does not suit a
//! sound file (another dtype, a missing tensor) is [`Error::Value`].
//!
//! ```
//! use tilewright::{DType, Tensor};
//! use tilewright_files::{Order, Output, Source, npy};
//!
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("ramp.npy");
//! let tensor = Tensor::new([2, 2], DType::U8);
//! let header = npy::header(&tensor, Order::RowMajor);
//! let mut output = Output::create(&path, header.len() as u64 + 4)?;
//! output.write(&header)?;
//! output.write(&[1, 2, 3, 4])?;
//! output.commit()?;
//!
//! let source = Source::open(&path)?;
//! let array = npy::read(&source, None)?;
//! assert_eq!((array.tensor, array.bytes.as_ref()), (tensor, &[1, 2, 3, 4][..]));
//! # Ok::<(), tilewright::Error>(())
//! ```
#![forbid(unsafe_code)]

mod elements;
pub mod npy;
mod output;
pub mod safetensors;
mod source;
pub mod tensorbin;

use std::borrow::Cow;

pub use elements::Elements;
pub use output::Output;
pub use source::{Source, read_text, will_read};

use tilewright::dtype::DType;
use tilewright::error::{Error, Result};
use tilewright::family::Tensor;
use tilewright::family::host::strided::row_major;

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
    pub fn strides(self, shape: &[u64]) -> Vec<i64> {
        if self == Order::RowMajor {
            return row_major(shape);
        }
        let reversed: Vec<u64> = shape.iter().rev().copied().collect();
        let mut strides = row_major(&reversed);
        strides.reverse();
        strides
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

/// [`Error::Io`] of a file called `name` whose content is wrong.
pub fn damaged(name: &str, what: impl Into<String>) -> Error {
    Error::file(name, std::io::ErrorKind::InvalidData, what)
}
