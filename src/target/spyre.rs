//! Tensor layouts of IBM Spyre: sticks of 128 bytes, device dimensions that tile host dimensions.

use super::{check_count, check_rank};
use crate::dtype::DType;
use crate::error::{Error, Result};

/// Bytes of a stick.
pub const STICK_BYTES: u64 = 128;

/// A `SpyreTensorLayout(...)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SpyreLayout {
    /// Every device dimension spelled out: `device_size` with `dim_map`, with `stride_map`, or with both.
    Explicit {
        /// Sizes of the device dimensions, outermost first; the last one is the stick.
        device_size: Vec<u64>,
        /// The host dimension of each device dimension; `None` (written -1) for a synthetic one.
        dim_map: Option<Vec<Option<usize>>>,
        /// The host stride of each device dimension in elements; 0 repeats an element, -1 carries nothing.
        stride_map: Option<Vec<i64>>,
        /// Element format on the device; `None` for the format of the tensor's element type.
        dtype: Option<DataFormat>,
    },
    /// `SpyreTensorLayout((5, 100, 150), torch.float16, [1, 0, 2])`: the default rule applied to a host shape.
    Constructor {
        /// Host shape.
        size: Vec<u64>,
        /// Host element type.
        dtype: DType,
        /// Order of the host dimensions, `None` (written -1) last for a sparse layout; the host's own order where absent.
        dim_order: Option<Vec<Option<usize>>>,
    },
}

impl SpyreLayout {
    /// Checks ranks, that maps name dimensions and that the stick fits its format.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    pub fn validate(&self) -> Result<()> {
        match self {
            SpyreLayout::Explicit { device_size, dim_map, stride_map, dtype } => {
                let rank = device_size.len();
                check_rank("device_size", rank)?;
                let Some(stick) = device_size.last() else {
                    return Err(Error::value("device_size", "no dimension", "at least the stick"));
                };
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
                    let sticks = elements_per_stick("device_dtype", *format)?;
                    if *stick > sticks {
                        return Err(Error::value(
                            "device_size",
                            format!("a last size of {stick}"),
                            format!("at most {sticks}, the elements of a {} stick", format.name()),
                        ));
                    }
                }
                Ok(())
            }
            SpyreLayout::Constructor { size, dtype, dim_order } => {
                check_rank("size", size.len())?;
                let format = DataFormat::of(*dtype).ok_or_else(|| {
                    Error::value("dtype", dtype, "an element type that Spyre has a format for")
                })?;
                elements_per_stick("dtype", format)?;
                dim_order.as_ref().map_or(Ok(()), |order| check_dim_order(order, size.len()))
            }
        }
    }
}

fn elements_per_stick(what: &str, format: DataFormat) -> Result<u64> {
    format.elements_per_stick().ok_or_else(|| {
        Error::value(what, format.name(), "a format with a known number of elements in a stick")
    })
}

/// Host dimensions 0, 1, .. up to the largest occur at least once; one synthetic dimension at most is larger than 1.
fn check_dim_map(map: &[Option<usize>], device_size: &[u64]) -> Result<()> {
    let rank = map.iter().flatten().map(|d| d.saturating_add(1)).max().unwrap_or(0);
    if rank > map.len() {
        return Err(Error::value(
            "dim_map",
            format!("host dimension {}", rank - 1),
            format!("-1 to {}, for there are {} device dimensions", map.len() - 1, map.len()),
        ));
    }
    if let Some(missing) = (0..rank).find(|d| !map.contains(&Some(*d))) {
        return Err(Error::value(
            "dim_map",
            format!("no host dimension {missing}"),
            "every host dimension at least once",
        ));
    }
    let synthetic = map.iter().zip(device_size).filter(|(d, size)| d.is_none() && **size != 1).count();
    if synthetic > 1 {
        return Err(Error::value(
            "dim_map",
            format!("{synthetic} synthetic dimensions (-1)"),
            "at most one larger than 1",
        ));
    }
    Ok(())
}

/// A permutation of the host dimensions, with or without a -1 behind it.
fn check_dim_order(order: &[Option<usize>], rank: usize) -> Result<()> {
    let dense = match order.split_last() {
        Some((None, rest)) => rest,
        _ => order,
    };
    check_count("dim_order", dense.len(), rank, "one for each dimension, and perhaps -1 behind them")?;
    for (at, dim) in dense.iter().enumerate() {
        let given = match dim {
            None => "-1 before the end".into(),
            Some(d) if *d >= rank => format!("dimension {d}"),
            Some(d) if dense[..at].contains(dim) => format!("dimension {d} twice"),
            _ => continue,
        };
        return Err(Error::value("dim_order", given, format!("each of the {rank} dimensions once")));
    }
    Ok(())
}

/// An element format of the device, with its number in the runtime's `DataFormats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum DataFormat {
    Sen169Fp16 = 0,
    IeeeFp32 = 1,
    Invalid = 2,
    Sen143Fp8 = 3,
    Sen152Fp8 = 4,
    Sen153Fp9 = 5,
    SenInt2 = 6,
    SenInt4 = 7,
    SenInt8 = 8,
    SenInt16 = 9,
    SenInt24 = 10,
    IeeeInt64 = 11,
    IeeeInt32 = 12,
    SenUint32 = 13,
    SenUint2 = 14,
    IeeeFp16 = 15,
    Bool = 16,
    Bfloat16 = 17,
    Sen18FFp24 = 18,
}

/// Every format with its name, its bits and the elements of a stick (0: not known).
const FORMATS: [(DataFormat, &str, u32, u64); 19] = [
    (DataFormat::Sen169Fp16, "SEN169_FP16", 16, 64),
    (DataFormat::IeeeFp32, "IEEE_FP32", 32, 32),
    (DataFormat::Invalid, "INVALID", 0, 0),
    (DataFormat::Sen143Fp8, "SEN143_FP8", 8, 128),
    (DataFormat::Sen152Fp8, "SEN152_FP8", 8, 128),
    (DataFormat::Sen153Fp9, "SEN153_FP9", 9, 0),
    (DataFormat::SenInt2, "SENINT2", 2, 512),
    (DataFormat::SenInt4, "SENINT4", 4, 256),
    (DataFormat::SenInt8, "SENINT8", 8, 128),
    (DataFormat::SenInt16, "SENINT16", 16, 64),
    (DataFormat::SenInt24, "SENINT24", 24, 0),
    (DataFormat::IeeeInt64, "IEEE_INT64", 64, 16),
    (DataFormat::IeeeInt32, "IEEE_INT32", 32, 32),
    (DataFormat::SenUint32, "SENUINT32", 32, 32),
    (DataFormat::SenUint2, "SENUINT2", 2, 512),
    (DataFormat::IeeeFp16, "IEEE_FP16", 16, 64),
    (DataFormat::Bool, "BOOL", 8, 128),
    (DataFormat::Bfloat16, "BFLOAT16", 16, 64),
    (DataFormat::Sen18FFp24, "SEN18F_FP24", 24, 0),
];

impl DataFormat {
    /// Every format, by number.
    pub fn all() -> impl Iterator<Item = DataFormat> {
        FORMATS.iter().map(|f| f.0)
    }

    /// Its name in `DataFormats`: `SEN169_FP16`.
    pub fn name(self) -> &'static str {
        FORMATS[self as usize].1
    }

    /// Its number in `DataFormats`.
    pub fn number(self) -> u64 {
        self as u64
    }

    /// Bits of one element; 0 for `INVALID`.
    pub fn bits(self) -> u32 {
        FORMATS[self as usize].2
    }

    /// Elements of a stick of 128 bytes; `None` where the format has no such number.
    pub fn elements_per_stick(self) -> Option<u64> {
        Some(FORMATS[self as usize].3).filter(|n| *n > 0)
    }

    /// The format of a name.
    pub fn from_name(name: &str) -> Option<DataFormat> {
        FORMATS.iter().find(|f| f.1 == name).map(|f| f.0)
    }

    /// The format of a number.
    pub fn from_number(number: u64) -> Option<DataFormat> {
        FORMATS.get(usize::try_from(number).ok()?).map(|f| f.0)
    }

    /// The format that a host element type gets by default.
    pub fn of(dtype: DType) -> Option<DataFormat> {
        Some(match dtype {
            DType::F16 | DType::Bf16 | DType::Bool => DataFormat::Sen169Fp16,
            DType::F32 => DataFormat::IeeeFp32,
            DType::F8E4M3 => DataFormat::Sen143Fp8,
            DType::F8E5M2 => DataFormat::Sen152Fp8,
            DType::I64 | DType::I32 => DataFormat::IeeeInt32,
            DType::I16 => DataFormat::SenInt16,
            DType::I8 => DataFormat::SenInt8,
            DType::U8 => DataFormat::SenUint32,
            _ => return None,
        })
    }
}
