//! Layout families: each descriptor's rules, and how it becomes a [`crate::layout::Layout`].

use crate::dtype::DType;

/// The logical tensor that a descriptor is applied to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tensor {
    /// Logical shape, outermost dimension first; empty for a scalar.
    pub shape: Vec<u64>,
    /// Logical element type.
    pub dtype: DType,
}
