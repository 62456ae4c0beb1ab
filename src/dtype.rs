//! Element types of logical tensors, and the formats that layouts store them in.

use std::fmt;

pub use kernels::{BlockFormat, Integer, Number};

/// The element type of a logical tensor.
///
/// ```
/// use tilewright::DType;
///
/// assert_eq!((DType::Bf16.name(), DType::Bf16.size()), ("bf16", 2));
/// assert_eq!(DType::from_mlir_name("ui8"), Some(DType::U8));
/// assert_eq!(DType::F8E4M3.mlir_name(), "f8E4M3FN");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum DType {
    F64,
    F32,
    F16,
    Bf16,
    /// OCP FP8 E4M3, finite only.
    F8E4M3,
    /// OCP FP8 E5M2.
    F8E5M2,
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
    Bool,
}

/// Every type with its name here and its name in MLIR.
const NAMES: [(DType, &str, &str); 15] = [
    (DType::F64, "f64", "f64"),
    (DType::F32, "f32", "f32"),
    (DType::F16, "f16", "f16"),
    (DType::Bf16, "bf16", "bf16"),
    (DType::F8E4M3, "f8e4m3", "f8E4M3FN"),
    (DType::F8E5M2, "f8e5m2", "f8E5M2"),
    (DType::I64, "i64", "i64"),
    (DType::I32, "i32", "i32"),
    (DType::I16, "i16", "i16"),
    (DType::I8, "i8", "i8"),
    (DType::U64, "u64", "ui64"),
    (DType::U32, "u32", "ui32"),
    (DType::U16, "u16", "ui16"),
    (DType::U8, "u8", "ui8"),
    (DType::Bool, "bool", "i1"),
];

impl DType {
    /// Every element type.
    pub fn all() -> impl Iterator<Item = DType> {
        NAMES.iter().map(|n| n.0)
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            DType::F64 | DType::I64 | DType::U64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F16 | DType::Bf16 | DType::I16 | DType::U16 => 2,
            DType::F8E4M3 | DType::F8E5M2 | DType::I8 | DType::U8 | DType::Bool => 1,
        }
    }

    /// The short name: `f32`, `bf16`, `u8`.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|n| n.0 == self).map_or("?", |n| n.1)
    }

    /// The MLIR name: `f32`, `bf16`, `ui8`.
    pub fn mlir_name(self) -> &'static str {
        NAMES.iter().find(|n| n.0 == self).map_or("?", |n| n.2)
    }

    /// The type of a short name.
    pub fn from_name(name: &str) -> Option<DType> {
        NAMES.iter().find(|n| n.1 == name).map(|n| n.0)
    }

    /// The type of an MLIR name; `si32` and its like are read as `i32`.
    pub fn from_mlir_name(name: &str) -> Option<DType> {
        let name = name.strip_prefix('s').filter(|n| n.starts_with('i')).unwrap_or(name);
        NAMES.iter().find(|n| n.2 == name).map(|n| n.0)
    }

    /// The floating-point codec of this type; `None` for integers and bool.
    pub fn number(self) -> Option<Number> {
        Some(match self {
            DType::F64 => Number::F64,
            DType::F32 => Number::F32,
            DType::F16 => Number::F16,
            DType::Bf16 => Number::Bf16,
            DType::F8E4M3 => Number::E4M3,
            DType::F8E5M2 => Number::E5M2,
            _ => return None,
        })
    }

    /// The integer format of this type; `None` for floats and bool.
    pub fn integer(self) -> Option<Integer> {
        Some(match self {
            DType::I64 => Integer::I64,
            DType::I32 => Integer::I32,
            DType::I16 => Integer::I16,
            DType::I8 => Integer::I8,
            DType::U64 => Integer::U64,
            DType::U32 => Integer::U32,
            DType::U16 => Integer::U16,
            DType::U8 => Integer::U8,
            _ => return None,
        })
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the bytes of a layout hold.
///
/// ```
/// use tilewright::dtype::BlockFormat;
/// use tilewright::{DType, Format};
///
/// assert_eq!(Format::Plain(DType::F16).to_string(), "f16");
/// assert_eq!(Format::Block(BlockFormat::Bfp8B).to_string(), "bfloat8_b");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Elements one by one.
    Plain(DType),
    /// IBM's 16-bit float with 6 exponent and 9 mantissa bits, one by one.
    Sen169,
    /// Tenstorrent's `fp8_e4m3`, one by one: not the OCP format, for its greatest exponent is kept for NaN, so that 240 is
    /// the greatest number, and it has no subnormals.
    TtE4M3,
    /// Tiles of a block float: shared exponents or scales first, then codes.
    Block(BlockFormat),
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Format::Plain(dtype) => dtype.fmt(f),
            Format::Sen169 => f.write_str("sen169"),
            Format::TtE4M3 => f.write_str("fp8_e4m3"),
            Format::Block(block) => f.write_str(block.name()),
        }
    }
}
