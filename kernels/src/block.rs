//! Block formats: which they are, how a tile of them is stored, and the scalar codec of one tile.
//!
//! # Every format in one table
//!
//! Bytes are those of a 32x32 tile (of 1024 elements, where there are no tiles). The range is that of finite values: the
//! largest, and the least above 0; with a scale, the least is given as a multiple of it. "Even" and "away" are ties to even
//! and ties away from zero, both to nearest. Sources: (T) the host code of `ttnn` 0.81.1, compared byte for byte; (D) the
//! rule published for the device's packer (tt-metal issue 57410); (O) OCP Microscaling Formats 1.0 and OCP FP8, as (T)
//! reads them where they leave a choice; (I) IEEE 754; (Z) the DLFloat16 paper and zDNN; (V) a public port of the vendor's
//! converter.
//!
//! | format | shares | bytes | range | rounding | NaN | infinity | zero | denormals | source |
//! |---|---|---|---|---|---|---|---|---|---|
//! | f64, f32 | | 8192, 4096 | | even | kept | kept | sign kept | exact | I |
//! | bf16 | | 2048 | 255/128 x 2^127, 2^-133 | even | 0x7FC0 | kept | sign kept | exact | T, I |
//! | f16 | | 2048 | 65504, 2^-24 | even | 0x7E00 | kept | sign kept | exact | I |
//! | f8E4M3FN | | 1024 | 448, 2^-9 | even | 0x7F | NaN | sign kept | exact | O |
//! | f8E5M2 | | 1024 | 57344, 2^-16 | even | 0x7E | kept | sign kept | exact | O |
//! | ttnn's `FP8_E4M3` | | 1024 | 240, 2^-6 | even | 0x7F | 240 | sign kept | 0 | T |
//! | SEN169 | | 2048 | 1022/512 x 2^32, 513/512 x 2^-31 | away | 0x7FFF | 0x7FFF with the sign | sign kept | it has none; those of f16 are exact | Z |
//! | SEN169, deeptools | | 2048 | 1023/512 x 2^31 | away; from f16 half up | 0x7EFF, payload kept from f16 | 0x7E00 | sign kept, lost on the way to f32 | as above, halved on the way back to f16 | V |
//! | bfloat8_b | 16: exponent | 1088 | 127/64 x 2^127, 2^-132 | even, after a cut to 24 bits at the shared exponent | as 1.5 x 2^128, wins its group | as 2^128, wins its group | +0 | 0 when packed, exact when unpacked | T |
//! | bfloat4_b | 16: exponent | 576 | 7/4 x 2^127, 2^-128 | as bfloat8_b | " | " | " | " | T |
//! | bfloat2_b | 16: exponent | 320 | 2^127, 2^-126 | as bfloat8_b | " | " | " | " | T |
//! | bfp8_a | 16: 5-bit exponent | 1088 | 127/64 x 2^16, 2^-21 | as bfloat8_b | largest | largest | +0 | 0; other values below 2^-15 count as 2^-15 | T |
//! | bfp4_a | 16: 5-bit exponent | 576 | 7/4 x 2^16, 2^-17 | " | " | " | " | " | T |
//! | bfp2_a | 16: 5-bit exponent | 320 | 2^16, 2^-15 | " | " | " | " | " | T |
//! | mxfp8_e4m3 | 32: scale | 1056 | 7/4 x 2^127, 2^-9 | even, saturating | 0x7F | largest | sign kept | exact | O, T |
//! | mxfp8_e5m2 | 32: scale | 1056 | 7/4 x 2^127, 2^-16 | " | 0x7D | kept | " | " | O, T |
//! | mxfp6_e3m2 | 32: scale | 1056 (compact 800) | 7/4 x 2^127, 2^-4 | " | +0 | largest | " | " | O, T |
//! | mxfp6_e2m3 | 32: scale | 1056 (compact 800) | 15/8 x 2^127, 2^-3 | " | +0 | largest | " | " | O, T |
//! | mxfp4 | 32: scale | 544 | 3/2 x 2^127, 2^-1 | " | +0 | largest | " | " | O, T |
//! | mxint8 | 32: scale | 1056 | 127/64 x 2^127, 2^-6 | " | 0 | largest | 0 | " | O, T |
//! | mxint4 | 32: scale | 544 | 7/4 x 2^127, 2^-2 | " | 0 | largest | 0 | " | T |
//! | mxint2 | 32: scale | 288 | 2^127, 1 | " | 0 | largest | 0 | " | T |
//!
//! Block floats also pack with [`Rounding::Device`] (D) and [`Rounding::Truncate`] (T). An MX block of nothing but NaN has
//! the scale 0xFF and reads as NaN (as 0 in the integer formats); one of infinities, NaN and zeros has the scale 0xFE.
//! Unpacking gives the exact value, infinity where binary32 ends; see [`BlockOptions::compat_unpack`] for the library's.

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
    /// MX formats in 1x32 tiles: store each as a block of the OCP text, row-major and without padding: the scale byte,
    /// then the codes at their own width (6 bits for the 6-bit floats), the first one in the lowest bits.
    pub compact: bool,
}

/// Why a block codec cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CodecError {
    /// The tile is smaller than one group of the format.
    SmallTile(BlockFormat, TileShape),
    /// The compact form of a block float, or of a tile that is not 1x32.
    Compact(BlockFormat, TileShape),
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
            CodecError::Compact(format, tile) => {
                write!(
                    f,
                    "the compact form is one of MX formats in 1x32 blocks, not of {format} in {tile} tiles"
                )
            }
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
/// of 16 bytes) and then the codes in storage order. A compact block has a scale and codes, and no padding.
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
        } else if options.compact && (format.group(), tile.rows(), tile.cols()) != (mx::BLOCK, 1, mx::BLOCK) {
            Err(CodecError::Compact(format, tile))
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
        let groups = self.tile.elements() / self.format.group();
        if self.options.compact { groups } else { groups.next_multiple_of(16) }
    }

    /// Bits that one code takes in a packed tile: 8, 6, 4 or 2.
    pub const fn code_bits(&self) -> usize {
        self.format.code_bits() - self.unused_bits() as usize
    }

    /// Low bits of a code that are not stored.
    const fn unused_bits(&self) -> u32 {
        if self.options.compact { self.format.code_shift() } else { 0 }
    }

    /// Bytes of a packed tile.
    pub const fn tile_bytes(&self) -> usize {
        self.header_bytes() + self.tile.elements() * self.code_bits() / 8
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
                let bit = (g * group + i) * self.code_bits();
                let shift = self.format.code_shift() - self.unused_bits();
                let [low, high] = (u16::from(*code) << shift << (bit % 8)).to_le_bytes();
                body[bit / 8] |= low;
                if high != 0 {
                    body[bit / 8 + 1] |= high;
                }
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
        let (shared, bits) = (tile[slot / self.format.group()], self.code_bits());
        let body = &tile[self.header_bytes()..self.tile_bytes()];
        let (byte, bit) = (slot * bits / 8, slot * bits % 8);
        // Codes of six bits may lie in two bytes.
        let both = u16::from_le_bytes([body[byte], body.get(byte + 1).copied().unwrap_or(0)]);
        let code = (both >> bit) as u8 & (u8::MAX >> (8 - bits));
        let code = code >> (self.format.code_shift() - self.unused_bits());
        match self.rule() {
            Rule::Bfp(bfp) if self.options.compat_unpack => bfp.unpack_compat(code, shared),
            Rule::Bfp(bfp) => bfp.unpack(code, shared),
            Rule::Mx(element) => element.unpack(code, shared),
        }
    }
}
