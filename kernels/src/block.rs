//! Block formats: which they are, how a tile of them is stored, and the scalar codec of one tile.

use crate::bfp::{self, Bfp};
use crate::mx::{self, Element};
use crate::tile::TileShape;
use std::fmt;

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

/// The rule of one group, by family.
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
            Rule::Bfp(_) => bfp::GROUP,
            Rule::Mx(_) => mx::BLOCK,
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

    const fn rule(self) -> Rule {
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

/// How a significand that has been shifted to the shared exponent becomes a magnitude.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Rounding {
    /// As ttnn does on the host: to nearest, ties to even.
    #[default]
    Host,
    /// As the device's packer does: to 7 bits, ties away from zero, then cut to the format's width.
    Device,
    /// Cut to the format's width.
    Truncate,
}

/// What can be chosen about a block codec beside format and tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BlockOptions {
    /// Store the transposed tile (tiles of 16 or 32 rows).
    pub transposed: bool,
    /// The rounding of block floats; MX formats have `Host` only (nearest, ties to even).
    pub rounding: Rounding,
    /// For `bfloat8_b` and `bfloat4_b`: take the exponent below the group's highest where that has the strictly smaller
    /// sum of squared errors (what is too large for it saturates).
    pub search: bool,
    /// Unpack as the device library's host code does, which errs for shared exponents below 7 and of 255.
    pub compat_unpack: bool,
}

/// Why a block codec cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CodecError {
    /// The tile is smaller than one group of the format.
    SmallTile(BlockFormat, TileShape),
    /// A tile that has no transposed form; it needs 16 or 32 rows.
    Transposed(TileShape),
    /// A rounding that the format does not have; it needs `Rounding::Host`.
    Rounding(BlockFormat, Rounding),
    /// Exponent search for a format other than `bfloat8_b` and `bfloat4_b`.
    Search(BlockFormat),
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            CodecError::SmallTile(format, tile) => write!(
                f,
                "{format} groups {} elements, a {tile} tile has {}",
                format.group(),
                tile.elements()
            ),
            CodecError::Transposed(tile) => {
                write!(f, "a transposed tile needs 16 or 32 rows, {tile} has {}", tile.rows())
            }
            CodecError::Rounding(format, rounding) => {
                write!(f, "{format} rounds to nearest, ties to even (host); {rounding:?} was asked for")
            }
            CodecError::Search(format) => {
                write!(f, "exponent search needs bfloat8_b or bfloat4_b, not {format}")
            }
        }
    }
}

impl std::error::Error for CodecError {}

/// A block format on a tile shape with its options: all that it takes to pack and unpack a tile.
///
/// A packed tile is its header (exponents or scales, one byte a group in storage order, zeros up to a multiple
/// of 16 bytes) and then the codes in storage order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockCodec {
    format: BlockFormat,
    tile: TileShape,
    options: BlockOptions,
}

impl BlockCodec {
    /// A codec, or why there is none.
    pub fn new(
        format: BlockFormat,
        tile: TileShape,
        options: BlockOptions,
    ) -> Result<BlockCodec, CodecError> {
        if tile.elements() < format.group() {
            Err(CodecError::SmallTile(format, tile))
        } else if options.transposed && tile.transposed().is_none() {
            Err(CodecError::Transposed(tile))
        } else if options.rounding != Rounding::Host && format.group() == mx::BLOCK {
            Err(CodecError::Rounding(format, options.rounding))
        } else if options.search && !matches!(format, Bfp8B | Bfp4B) {
            Err(CodecError::Search(format))
        } else {
            Ok(BlockCodec { format, tile, options })
        }
    }

    /// The format.
    pub const fn format(&self) -> BlockFormat {
        self.format
    }

    /// The tile shape, as its user sees it.
    pub const fn tile(&self) -> TileShape {
        self.tile
    }

    /// The options.
    pub const fn options(&self) -> BlockOptions {
        self.options
    }

    /// Bytes of exponents or scales at the front of a packed tile, padding included.
    pub const fn header_bytes(&self) -> usize {
        (self.tile.elements() / self.format.group()).next_multiple_of(16)
    }

    /// Bytes of a packed tile.
    pub const fn tile_bytes(&self) -> usize {
        self.header_bytes() + self.tile.elements() * self.format.code_bits() / 8
    }

    /// Where element (`row`, `col`) is stored, in elements; see [`TileShape::slot`].
    pub const fn slot(&self, row: usize, col: usize) -> usize {
        match self.tile.transposed() {
            Some(stored) if self.options.transposed => stored.slot(col, row),
            _ => self.tile.slot(row, col),
        }
    }

    /// The rule of one group.
    pub(crate) const fn rule(&self) -> Rule {
        self.format.rule()
    }

    /// Packs a tile given row-major. The rule that every vector kernel follows.
    ///
    /// # Panics
    /// Unless `tile` has `tile().elements()` elements and `out` has `tile_bytes()` bytes.
    pub fn pack_scalar(&self, tile: &[f32], out: &mut [u8]) {
        assert_eq!(tile.len(), self.tile.elements());
        assert_eq!(out.len(), self.tile_bytes());
        let mut stored = [0.0; TileShape::MAX_ELEMENTS];
        for (row, values) in tile.chunks_exact(self.tile.cols()).enumerate() {
            for (col, &value) in values.iter().enumerate() {
                stored[self.slot(row, col)] = value;
            }
        }
        let group = self.format.group();
        out.fill(0);
        let (header, body) = out.split_at_mut(self.header_bytes());
        for (g, values) in stored[..tile.len()].chunks_exact(group).enumerate() {
            let mut codes = [0; mx::BLOCK];
            header[g] = match self.rule() {
                Rule::Bfp(bfp) => bfp.pack(values, &mut codes, self.options.rounding, self.options.search),
                Rule::Mx(element) => element.pack(values, &mut codes),
            };
            for (i, code) in codes[..group].iter().enumerate() {
                let bit = (g * group + i) * self.format.code_bits();
                body[bit / 8] |= code << self.format.code_shift() << (bit % 8);
            }
        }
    }

    /// Unpacks a tile to row-major order. The rule that every vector kernel follows; exact unless
    /// `compat_unpack` was chosen.
    ///
    /// # Panics
    /// Unless `tile` has `tile_bytes()` bytes and `out` has `tile().elements()` elements.
    pub fn unpack_scalar(&self, tile: &[u8], out: &mut [f32]) {
        assert_eq!(tile.len(), self.tile_bytes());
        assert_eq!(out.len(), self.tile.elements());
        for (row, values) in out.chunks_exact_mut(self.tile.cols()).enumerate() {
            for (col, value) in values.iter_mut().enumerate() {
                *value = self.decode_at(tile, row, col);
            }
        }
    }

    /// The value of element (`row`, `col`) of a packed tile.
    ///
    /// # Panics
    /// If `tile` has fewer than `tile_bytes()` bytes, or the element is outside of the tile.
    pub fn decode_at(&self, tile: &[u8], row: usize, col: usize) -> f32 {
        assert!(row < self.tile.rows() && col < self.tile.cols());
        let slot = self.slot(row, col);
        let (shared, bit) = (tile[slot / self.format.group()], slot * self.format.code_bits());
        let byte = tile[self.header_bytes() + bit / 8];
        let code = byte >> (bit % 8) & (u8::MAX >> (8 - self.format.code_bits()));
        let code = code >> self.format.code_shift();
        match self.rule() {
            Rule::Bfp(bfp) if self.options.compat_unpack => bfp.unpack_compat(code, shared),
            Rule::Bfp(bfp) => bfp.unpack(code, shared),
            Rule::Mx(element) => element.unpack(code, shared),
        }
    }
}
