//! Tensors, and the checks of sizes that all families share.

use crate::dtype::DType;
use crate::error::{Error, Result};

/// The logical tensor that a descriptor is applied to.
///
/// ```
/// use tilewright::{DType, Tensor};
///
/// let tensor = Tensor::new([2, 3, 4], DType::Bf16);
/// assert_eq!((tensor.shape.len(), tensor.dtype.size()), (3, 2));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tensor {
    /// Logical shape, outermost dimension first; empty for a scalar.
    pub shape: Vec<u64>,
    /// Logical element type.
    pub dtype: DType,
}

impl Tensor {
    /// A tensor of `shape`, outermost dimension first.
    pub fn new(shape: impl Into<Vec<u64>>, dtype: DType) -> Tensor {
        Tensor { shape: shape.into(), dtype }
    }
}

/// The most dimensions that any shape, grid, map or nest may have.
pub const MAX_RANK: usize = 64;

/// Checks that a shape has at most [`MAX_RANK`] dimensions, each of a size below 2^63.
pub(super) fn check_sizes(what: &str, sizes: &[u64]) -> Result<()> {
    if sizes.len() > MAX_RANK {
        return Err(Error::value(what, format!("{} dimensions", sizes.len()), format!("at most {MAX_RANK}")));
    }
    match sizes.iter().find(|s| **s > i64::MAX as u64) {
        Some(size) => Err(Error::value(what, size, "sizes below 2^63")),
        None => Ok(()),
    }
}

/// Checks that a grid, shard or mesh has 1 to [`MAX_RANK`] dimensions, each of size 1 or more.
pub(super) fn check_positive(what: &str, sizes: &[u64]) -> Result<()> {
    check_sizes(what, sizes)?;
    if sizes.is_empty() {
        return Err(Error::value(what, "no dimension", "at least one"));
    }
    if sizes.contains(&0) {
        return Err(Error::value(what, join(sizes), "sizes of 1 or more"));
    }
    Ok(())
}

/// Checks that `what` has `needed` entries; `rule` says why so many.
pub(super) fn check_count(what: &str, given: usize, needed: usize, rule: &str) -> Result<()> {
    if given != needed {
        return Err(Error::value(what, entries(given), format!("{needed}, {rule}")));
    }
    Ok(())
}

pub(super) fn entries(n: usize) -> String {
    if n == 1 { "1 entry".into() } else { format!("{n} entries") }
}

/// A shape as MLIR writes it: `2x3x4`.
pub(crate) fn join(sizes: &[u64]) -> String {
    sizes.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
}

/// The product of sizes in elements or bytes, or an overflow error that says of what.
pub(crate) fn volume(what: &str, sizes: impl IntoIterator<Item = u64>) -> Result<u64> {
    sizes
        .into_iter()
        .try_fold(1_u64, u64::checked_mul)
        .filter(|&v| v <= crate::layout::MAX_BYTES)
        .ok_or_else(|| Error::overflow(what))
}

/// The same shape, or an error that shows both.
pub(crate) fn check_shape(what: &str, given: &[u64], tensor: &Tensor) -> Result<()> {
    if given != tensor.shape {
        let needed = format!("{}, the shape of the tensor", join(&tensor.shape));
        return Err(Error::value(what, join(given), needed));
    }
    Ok(())
}
