//! What a `SpyreTensorLayout` says, and what can be wrong with it whatever the tensor.

use super::check::{check_dim_map, check_dim_order, check_stick, elements_per_stick, format_of};
use super::format::DataFormat;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::family::{check_count, check_sizes};

/// A `SpyreTensorLayout(...)`.
///
/// ```
/// use tilewright::DType;
/// use tilewright::family::spyre::{Constructor, Explicit, SpyreLayout};
/// use tilewright::family::Tensor;
///
/// let made: SpyreLayout = Constructor::new(vec![1024, 256], DType::F16).into();
/// let spelled: SpyreLayout = Explicit::new(vec![4, 1024, 64]).with_stride_map(vec![64, 256, 1]).into();
/// let tensor = Tensor { shape: vec![1024, 256], dtype: DType::F16 };
/// assert!(made.equivalent(&spelled, &tensor)?);
/// # Ok::<(), tilewright::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SpyreLayout {
    /// Every device dimension spelled out.
    Explicit(Explicit),
    /// The default rule applied to a host shape.
    Constructor(Constructor),
}

/// `device_size` with `dim_map`, with `stride_map`, or with both.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Explicit {
    /// Sizes of the device dimensions, outermost first; the last one is the stick.
    pub device_size: Vec<u64>,
    /// The host dimension of each device dimension; `None` (written -1) for a synthetic one.
    pub dim_map: Option<Vec<Option<usize>>>,
    /// The host stride of each device dimension in elements; 0 repeats an element, -1 carries nothing.
    pub stride_map: Option<Vec<i64>>,
    /// Element format on the device; `None` for the format of the tensor's element type.
    pub dtype: Option<DataFormat>,
    /// The order of elements inside of sticks.
    pub arrangement: Arrangement,
}

impl Explicit {
    /// Device dimensions of these sizes; a map is to come.
    pub fn new(device_size: Vec<u64>) -> Explicit {
        let arrangement = Arrangement::Standard;
        Explicit { device_size, dim_map: None, stride_map: None, dtype: None, arrangement }
    }

    /// The same with the host dimension of each device dimension.
    pub fn with_dim_map(mut self, map: Vec<Option<usize>>) -> Explicit {
        self.dim_map = Some(map);
        self
    }

    /// The same with the host stride of each device dimension.
    pub fn with_stride_map(mut self, map: Vec<i64>) -> Explicit {
        self.stride_map = Some(map);
        self
    }

    /// The same with an element format.
    pub fn with_dtype(mut self, dtype: DataFormat) -> Explicit {
        self.dtype = Some(dtype);
        self
    }

    /// The same with another order inside of sticks.
    pub fn with_arrangement(mut self, arrangement: Arrangement) -> Explicit {
        self.arrangement = arrangement;
        self
    }
}

impl From<Explicit> for SpyreLayout {
    fn from(explicit: Explicit) -> SpyreLayout {
        SpyreLayout::Explicit(explicit)
    }
}

/// `SpyreTensorLayout([512, 256], [256, 1], torch.float16, [1, 0])`; older texts have no strides.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Constructor {
    /// Host shape.
    pub size: Vec<u64>,
    /// Host strides in elements; row-major where absent. They change the `stride_map` that is reported, and no place on
    /// the device.
    pub strides: Option<Vec<i64>>,
    /// Host element type.
    pub dtype: DType,
    /// Order of the host dimensions, `None` (written -1) last for a sparse layout; the host's own order where absent.
    pub dim_order: Option<Vec<Option<usize>>>,
    /// The order of elements inside of sticks.
    pub arrangement: Arrangement,
}

impl Constructor {
    /// A dense row-major host array in its own order of dimensions.
    pub fn new(size: Vec<u64>, dtype: DType) -> Constructor {
        Constructor { size, strides: None, dtype, dim_order: None, arrangement: Arrangement::Standard }
    }

    /// The same with strides of the host array.
    pub fn with_strides(mut self, strides: Vec<i64>) -> Constructor {
        self.strides = Some(strides);
        self
    }

    /// The same with another order of the host dimensions.
    pub fn with_dim_order(mut self, order: Vec<Option<usize>>) -> Constructor {
        self.dim_order = Some(order);
        self
    }

    /// The same with another order inside of sticks.
    pub fn with_arrangement(mut self, arrangement: Arrangement) -> Constructor {
        self.arrangement = arrangement;
        self
    }
}

impl From<Constructor> for SpyreLayout {
    fn from(constructor: Constructor) -> SpyreLayout {
        SpyreLayout::Constructor(constructor)
    }
}

/// The runtime's `ElementArrangement`, as far as host arrays have it: the order of elements inside of sticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Arrangement {
    /// As they come.
    Standard,
    /// Weights of 8-bit floats: sticks of two rows by 64 columns, the rows side by side.
    Qfp8Wt,
}

impl Arrangement {
    pub(crate) const NAMES: [(&'static str, Arrangement); 2] =
        [("STANDARD", Arrangement::Standard), ("QFP8WT", Arrangement::Qfp8Wt)];
}

impl SpyreLayout {
    /// The order of elements inside of sticks.
    pub fn arrangement(&self) -> Arrangement {
        match self {
            SpyreLayout::Explicit(explicit) => explicit.arrangement,
            SpyreLayout::Constructor(constructor) => constructor.arrangement,
        }
    }

    /// Checks ranks, that maps name dimensions and that the stick fits its format.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            SpyreLayout::Explicit(Explicit { device_size, dim_map, stride_map, dtype, .. }) => {
                let rank = device_size.len();
                check_sizes("device_size", device_size)?;
                if device_size.is_empty() {
                    return Err(Error::value("device_size", "no dimension", "at least the stick"));
                }
                if dim_map.is_none() && stride_map.is_none() {
                    return Err(Error::value(
                        "device_size",
                        "no dim_map or stride_map with it",
                        "one of them, or both",
                    ));
                }
                if let Some(map) = dim_map {
                    check_count("dim_map", map.len(), rank, "one for each device dimension")?;
                    check_dim_map(map, device_size)?;
                }
                if let Some(map) = stride_map {
                    check_count("stride_map", map.len(), rank, "one for each device dimension")?;
                    if let Some(stride) = map.iter().find(|s| **s < -1) {
                        return Err(Error::value("stride_map", stride, "host strides of 0 or more, or -1"));
                    }
                }
                if let Some(format) = dtype {
                    check_stick(device_size, elements_per_stick("device_dtype", *format)?, *format)?;
                }
                Ok(())
            }
            SpyreLayout::Constructor(Constructor { size, strides, dtype, dim_order, .. }) => {
                check_sizes("size", size)?;
                elements_per_stick("dtype", format_of(*dtype)?)?;
                if let Some(strides) = strides {
                    check_count("strides", strides.len(), size.len(), "one for each dimension")?;
                    if let Some(stride) = strides.iter().find(|s| **s < 0) {
                        return Err(Error::value("strides", stride, "host strides of 0 or more"));
                    }
                }
                dim_order.as_ref().map_or(Ok(()), |order| check_dim_order(order, size.len()))
            }
        }
    }
}
