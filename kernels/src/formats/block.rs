//! The block formats and what sets them apart.

use std::fmt;

use super::bfp::{Bfp, GROUP};
use super::mx::{Element, MX_BLOCK};

/// A format in which a group of elements shares an exponent or a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockFormat {
    /// 8-bit codes, 16 of them sharing an 8-bit exponent.
    Bfp8B,
    /// 4-bit codes, 16 of them sharing an 8-bit exponent.
    Bfp4B,
    /// 2-bit codes, 16 of them sharing an 8-bit exponent.
    Bfp2B,
    /// 8-bit codes, 16 of them sharing a 5-bit exponent.
    Bfp8A,
    /// 4-bit codes, 16 of them sharing a 5-bit exponent.
    Bfp4A,
    /// 2-bit codes, 16 of them sharing a 5-bit exponent.
    Bfp2A,
    /// MX with OCP E4M3 elements.
    MxFp8E4M3,
    /// MX with OCP E5M2 elements.
    MxFp8E5M2,
    /// MX with E3M2 elements, each in the upper six bits of a byte.
    MxFp6E3M2,
    /// MX with E2M3 elements, each in the upper six bits of a byte.
    MxFp6E2M3,
    /// MX with E2M1 elements.
    MxFp4,
    /// MX with 8-bit integers over 64.
    MxInt8,
    /// MX with 4-bit integers over 4.
    MxInt4,
    /// MX with 2-bit integers.
    MxInt2,
}

use BlockFormat::*;

/// The scalar rule of one group, by family.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    Bfp(Bfp),
    Mx(Element),
}

impl BlockFormat {
    /// Every format.
    pub const ALL: [BlockFormat; 14] = [
        Bfp8B, Bfp4B, Bfp2B, Bfp8A, Bfp4A, Bfp2A, MxFp8E4M3, MxFp8E5M2, MxFp6E3M2, MxFp6E2M3, MxFp4, MxInt8,
        MxInt4, MxInt2,
    ];

    /// The name in ttnn layout texts.
    pub const fn name(self) -> &'static str {
        match self {
            Bfp8B => "bfloat8_b",
            Bfp4B => "bfloat4_b",
            Bfp2B => "bfloat2_b",
            Bfp8A => "bfp8_a",
            Bfp4A => "bfp4_a",
            Bfp2A => "bfp2_a",
            MxFp8E4M3 => "mxfp8_e4m3",
            MxFp8E5M2 => "mxfp8_e5m2",
            MxFp6E3M2 => "mxfp6_e3m2",
            MxFp6E2M3 => "mxfp6_e2m3",
            MxFp4 => "mxfp4",
            MxInt8 => "mxint8",
            MxInt4 => "mxint4",
            MxInt2 => "mxint2",
        }
    }

    /// The name in MLIR tile types; the MX formats have none of their own there and keep this one.
    pub const fn mlir_name(self) -> &'static str {
        match self {
            Bfp8B => "bfp_bf8",
            Bfp4B => "bfp_bf4",
            Bfp2B => "bfp_bf2",
            Bfp8A => "bfp_f8",
            Bfp4A => "bfp_f4",
            Bfp2A => "bfp_f2",
            _ => self.name(),
        }
    }

    /// The format of a ttnn name.
    pub fn from_name(name: &str) -> Option<BlockFormat> {
        Self::ALL.into_iter().find(|f| f.name() == name)
    }

    /// The format of an MLIR name.
    pub fn from_mlir_name(name: &str) -> Option<BlockFormat> {
        Self::ALL.into_iter().find(|f| f.mlir_name() == name)
    }

    /// Elements that share an exponent or a scale: 16 or 32, consecutive in storage order.
    pub const fn group(self) -> usize {
        match self.rule() {
            Rule::Bfp(_) => GROUP,
            Rule::Mx(_) => MX_BLOCK,
        }
    }

    /// Bits that one code takes in memory: 8, 4 or 2. The first element of a byte has the lowest bits.
    pub const fn code_bits(self) -> usize {
        match self {
            Bfp8B | Bfp8A | MxFp8E4M3 | MxFp8E5M2 | MxFp6E3M2 | MxFp6E2M3 | MxInt8 => 8,
            Bfp4B | Bfp4A | MxFp4 | MxInt4 => 4,
            Bfp2B | Bfp2A | MxInt2 => 2,
        }
    }

    /// How far a code is shifted inside its bits: the 6-bit floats fill theirs from the top.
    pub(crate) const fn code_shift(self) -> u32 {
        if matches!(self, MxFp6E3M2 | MxFp6E2M3) { 2 } else { 0 }
    }

    /// The scalar rule of its groups.
    pub(crate) const fn rule(self) -> Rule {
        match self {
            Bfp8B => Rule::Bfp(Bfp { magnitude: 7, narrow: false }),
            Bfp4B => Rule::Bfp(Bfp { magnitude: 3, narrow: false }),
            Bfp2B => Rule::Bfp(Bfp { magnitude: 1, narrow: false }),
            Bfp8A => Rule::Bfp(Bfp { magnitude: 7, narrow: true }),
            Bfp4A => Rule::Bfp(Bfp { magnitude: 3, narrow: true }),
            Bfp2A => Rule::Bfp(Bfp { magnitude: 1, narrow: true }),
            MxFp8E4M3 => Rule::Mx(Element::E4M3),
            MxFp8E5M2 => Rule::Mx(Element::E5M2),
            MxFp6E3M2 => Rule::Mx(Element::E3M2),
            MxFp6E2M3 => Rule::Mx(Element::E2M3),
            MxFp4 => Rule::Mx(Element::E2M1),
            MxInt8 => Rule::Mx(Element::Int { bits: 8 }),
            MxInt4 => Rule::Mx(Element::Int { bits: 4 }),
            MxInt2 => Rule::Mx(Element::Int { bits: 2 }),
        }
    }
}

impl fmt::Display for BlockFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
