//! Host arrays with strides, as MLIR's `memref` describes them.

use super::{check_count, check_rank};
use crate::dtype::DType;
use crate::error::{Error, Result};

/// A host array: `memref<2x3x4xf32, strided<[12, 4, 1], offset: 0>>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Memref {
    /// Shape, outermost dimension first; empty for a scalar.
    pub shape: Vec<u64>,
    /// Element type.
    pub dtype: DType,
    /// Strides in elements, one for each dimension; `None` for dense row-major.
    pub strides: Option<Vec<i64>>,
    /// Element at index 0, counted in elements from the start of the buffer; 0 or more.
    pub offset: i64,
}

impl Memref {
    /// Checks what can be said without the tensor: rank, number of strides, sign of the offset.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    pub fn validate(&self) -> Result<()> {
        check_rank("shape", self.shape.len())?;
        if let Some(strides) = &self.strides {
            check_count("strides", strides.len(), self.shape.len(), "one for each dimension")?;
        }
        if self.offset < 0 {
            return Err(Error::value("offset", self.offset, "0 or more"));
        }
        Ok(())
    }
}
