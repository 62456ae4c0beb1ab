//! Element formats of the device.

use crate::dtype::{DType, Format};

/// Bytes of a stick.
pub const STICK_BYTES: u64 = 128;

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

    /// How its elements are stored; `None` for formats of part bytes and for those whose encoding is not public.
    pub fn storage(self) -> Option<Format> {
        Some(Format::Plain(match self {
            DataFormat::Sen169Fp16 => return Some(Format::Sen169),
            DataFormat::IeeeFp32 => DType::F32,
            DataFormat::IeeeFp16 => DType::F16,
            DataFormat::Bfloat16 => DType::Bf16,
            DataFormat::IeeeInt64 => DType::I64,
            DataFormat::IeeeInt32 => DType::I32,
            DataFormat::SenUint32 => DType::U32,
            DataFormat::SenInt16 => DType::I16,
            DataFormat::SenInt8 => DType::I8,
            // The host's e4m3fn is moved as it is; the other 8-bit float is not the e5m2 of hosts.
            DataFormat::Sen143Fp8 => DType::F8E4M3,
            DataFormat::Bool => DType::Bool,
            _ => return None,
        }))
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
