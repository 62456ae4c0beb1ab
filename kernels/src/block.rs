//! Block floats: elements of a tile that share an exponent or a scale.

/// A block float format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum BlockFormat {
    Bfp8B,
    Bfp4B,
    Bfp2B,
    Bfp8A,
    Bfp4A,
    Bfp2A,
    MxFp8E4M3,
    MxFp8E5M2,
    MxFp6E3M2,
    MxFp6E2M3,
    MxFp4,
    MxInt8,
    MxInt4,
    MxInt2,
}

/// Every format with its name in TTNN and its name in MLIR.
const NAMES: [(BlockFormat, &str, &str); 14] = [
    (BlockFormat::Bfp8B, "bfloat8_b", "bfp_bf8"),
    (BlockFormat::Bfp4B, "bfloat4_b", "bfp_bf4"),
    (BlockFormat::Bfp2B, "bfloat2_b", "bfp_bf2"),
    (BlockFormat::Bfp8A, "bfp8_a", "bfp_f8"),
    (BlockFormat::Bfp4A, "bfp4_a", "bfp_f4"),
    (BlockFormat::Bfp2A, "bfp2_a", "bfp_f2"),
    (BlockFormat::MxFp8E4M3, "mxfp8_e4m3", "mxfp8_e4m3"),
    (BlockFormat::MxFp8E5M2, "mxfp8_e5m2", "mxfp8_e5m2"),
    (BlockFormat::MxFp6E3M2, "mxfp6_e3m2", "mxfp6_e3m2"),
    (BlockFormat::MxFp6E2M3, "mxfp6_e2m3", "mxfp6_e2m3"),
    (BlockFormat::MxFp4, "mxfp4", "mxfp4"),
    (BlockFormat::MxInt8, "mxint8", "mxint8"),
    (BlockFormat::MxInt4, "mxint4", "mxint4"),
    (BlockFormat::MxInt2, "mxint2", "mxint2"),
];

impl BlockFormat {
    /// Every format.
    pub fn all() -> impl Iterator<Item = BlockFormat> {
        NAMES.iter().map(|n| n.0)
    }

    /// The TTNN name: `bfloat8_b`, `mxfp4`.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|n| n.0 == self).map_or("?", |n| n.1)
    }

    /// The MLIR name: `bfp_bf8`; MX formats have none of their own there and keep the TTNN name.
    pub fn mlir_name(self) -> &'static str {
        NAMES.iter().find(|n| n.0 == self).map_or("?", |n| n.2)
    }

    /// The format of a TTNN name.
    pub fn from_name(name: &str) -> Option<BlockFormat> {
        NAMES.iter().find(|n| n.1 == name).map(|n| n.0)
    }

    /// The format of an MLIR name.
    pub fn from_mlir_name(name: &str) -> Option<BlockFormat> {
        NAMES.iter().find(|n| n.2 == name).map(|n| n.0)
    }
}
