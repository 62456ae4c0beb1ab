//! Host arrays with strides, as MLIR's `memref` describes them.

use crate::dtype::{DType, Format};
use crate::error::{Error, Result};
use crate::family::{Family, Placement, Tensor, check_count, check_shape, check_sizes, volume};
use crate::layout::axis::{Axis, Level};
use crate::layout::piecewise::{MAX_REGIONS, Piecewise};
use crate::layout::{Geometry, Layout, MAX_BYTES, Parts, Space};

/// A host array: `memref<2x3x4xf32, strided<[12, 4, 1], offset: 0>>`.
///
/// ```
/// use tilewright::family::host::strided::Memref;
/// use tilewright::{DType, Descriptor};
///
/// // Rows of 6 numbers, of which the last two are padding.
/// let array = Memref::new([3, 4], DType::F32).with_strides([6, 1]).with_offset(2);
/// let text: Descriptor = "memref<3x4xf32, strided<[6, 1], offset: 2>>".parse()?;
/// assert_eq!(Descriptor::from(array), text);
/// # Ok::<(), tilewright::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
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
    /// A dense row-major array.
    pub fn new(shape: impl Into<Vec<u64>>, dtype: DType) -> Memref {
        Memref { shape: shape.into(), dtype, strides: None, offset: 0 }
    }

    /// The dense row-major array of a tensor.
    pub fn of(tensor: &Tensor) -> Memref {
        Memref::new(tensor.shape.as_slice(), tensor.dtype)
    }

    /// The same elements, as many elements apart in each dimension.
    pub fn with_strides(self, strides: impl Into<Vec<i64>>) -> Memref {
        Memref { strides: Some(strides.into()), ..self }
    }

    /// The same elements behind `offset` others.
    pub fn with_offset(self, offset: i64) -> Memref {
        Memref { offset, ..self }
    }
}

/// Strides in elements of a dense row-major array, the last dimension's 1.
///
/// Strides that would pass 2^63 - 1 are that number: such an array is empty, or its volume overflows too.
pub fn row_major(shape: &[u64]) -> Vec<i64> {
    let mut strides = vec![0; shape.len()];
    let mut stride = 1_i64;
    for (s, &n) in strides.iter_mut().zip(shape).rev() {
        *s = stride;
        stride = stride.saturating_mul(i64::try_from(n.max(1)).unwrap_or(i64::MAX));
    }
    strides
}

/// An axis for each dimension; one for all of them where the steps of one dimension fall between those of
/// another, as with shape 3x2 and strides [2, 3].
fn axes(shape: &[u64], strides: &[i64], size: i64) -> Result<Vec<Axis>> {
    let mut steps: Vec<(i64, u64)> =
        strides.iter().copied().zip(shape.iter().copied()).filter(|s| s.1 > 1).collect();
    steps.sort_unstable();
    let mut extent = 1;
    let mut interleaved = false;
    for &(stride, n) in &steps {
        interleaved |= stride > 0 && i128::from(stride) < extent;
        extent += (i128::from(n) - 1) * i128::from(stride);
    }
    let upward = steps.iter().all(|s| s.0 > 0);
    let followed = shape.iter().product::<u64>() <= MAX_REGIONS as u64 && extent <= 1 << 32;
    if interleaved && upward && followed {
        let loops: Vec<_> = shape.iter().copied().zip(strides.iter().map(|&s| [s])).collect();
        let cells = vec![Level::bytes(extent as u64, size)];
        return Ok(vec![Axis::new((0..shape.len()).collect(), 0, Piecewise::nest(&loops), cells)?]);
    }
    // The stride of a dimension of one element means nothing, and may be anything.
    let line = |(d, (&n, &stride)): (usize, (&u64, &i64))| {
        Axis::line(d, n, [0, if n == 1 { 0 } else { stride * size }, 0])
    };
    shape.iter().zip(strides).enumerate().map(line).collect()
}

impl Family for Memref {
    /// Checks what can be said without the tensor: rank, number of strides, sign of the offset.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    fn validate(&self) -> Result<()> {
        check_sizes("shape", &self.shape)?;
        if let Some(strides) = &self.strides {
            check_count("strides", strides.len(), self.shape.len(), "one for each dimension")?;
        }
        if self.strides.is_none() && self.offset != 0 {
            return Err(Error::value(
                "offset",
                format!("{} without strides", self.offset),
                "0, or strides with it",
            ));
        }
        if self.offset < 0 {
            return Err(Error::value("offset", self.offset, "0 or more"));
        }
        Ok(())
    }

    /// The layout of a tensor of this shape.
    ///
    /// The buffer ends with the element of the highest address; as a source, elements may share a place.
    ///
    /// # Errors
    /// Where the tensor has another shape, an address is negative, or the extent passes 2^60 bytes.
    fn to_layout(&self, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout> {
        self.validate()?;
        check_shape("memref shape", &self.shape, tensor)?;
        volume("the memref", self.shape.iter().copied())?;
        let size = self.dtype.size() as i64;
        let strides = match &self.strides {
            Some(strides) => strides.clone(),
            None => row_major(&self.shape),
        };
        let empty = self.shape.contains(&0);
        let (mut lowest, mut highest) = (i128::from(self.offset), i128::from(self.offset));
        for (&n, &stride) in self.shape.iter().zip(&strides) {
            let way = (i128::from(n) - 1) * i128::from(stride);
            lowest += way.min(0);
            highest += way.max(0);
        }
        if !empty && lowest < 0 {
            let needed = format!("{} or more, so that no address is negative", self.offset as i128 - lowest);
            return Err(Error::value("offset", self.offset, needed));
        }
        let bytes = if empty { 0 } else { (highest + 1).saturating_mul(i128::from(size)) };
        let bytes = u64::try_from(bytes)
            .ok()
            .filter(|&b| b <= MAX_BYTES)
            .ok_or_else(|| Error::overflow("the memref"))?;
        let axes = if empty { vec![] } else { axes(&self.shape, &strides, size)? };
        Layout::new(Parts {
            shape: self.shape.clone(),
            format: Format::Plain(self.dtype),
            tile: None,
            axes,
            replicas: vec![],
            offset: if empty { 0 } else { self.offset * size },
            space: Space::in_order(1, bytes),
            fill: placement.pad_value.unwrap_or(0.0),
            geometry: Geometry { physical_shape: self.shape.clone(), ..Geometry::default() },
        })
    }
}
