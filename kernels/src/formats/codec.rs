//! A block format on a tile: how the tile is stored, and the scalar rule that packs and unpacks it.

use std::fmt;

use super::bfp::GROUP;
use super::block::{BlockFormat, Rule};
use super::mx::MX_BLOCK;
use super::options::{BlockOptions, Decoding, Rounding};
use super::tile::TileShape;

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
        } else if options.compact && (format.group(), tile.rows(), tile.cols()) != (MX_BLOCK, 1, MX_BLOCK) {
            Err(CodecError::Compact(format, tile))
        } else if options.transposed && tile.transposed().is_none() {
            Err(CodecError::Transposed(tile))
        } else if options.rounding != Rounding::Host && format.group() == MX_BLOCK {
            Err(CodecError::Rounding(format, options.rounding))
        } else if options.search && !matches!(format, BlockFormat::Bfp8B | BlockFormat::Bfp4B) {
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

    /// The same codec for numbers in bfloat16 registers: [`BlockOptions::bf16_registers`].
    pub const fn with_bf16_registers(mut self) -> BlockCodec {
        self.options.bf16_registers = true;
        self
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
            let mut codes = [0; MX_BLOCK];
            header[g] = match self.rule() {
                Rule::Bfp(bfp) => bfp.pack(values, &mut codes, &self.options),
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
    /// another [`Decoding`] was chosen.
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

    /// Whether every value of every packed tile is one of bfloat16, an infinity, or the NaN that a conversion makes: then tiles may be
    /// unpacked to bfloat16 instead of binary32, and nothing is rounded. Not said of decodings with patterns of their own.
    pub const fn fits_bf16(&self) -> bool {
        match self.rule() {
            // Eight bits, the last of them at 2^-133 under the smallest exponent.
            Rule::Bfp(_) => matches!(self.options.decoding, Decoding::Exact),
            Rule::Mx(element) => element.fits_bf16(),
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
        self.value(code >> (self.format.code_shift() - self.unused_bits()), shared)
    }

    /// The value of a code under what its group shares.
    pub(crate) fn value(&self, code: u8, shared: u8) -> f32 {
        match self.rule() {
            Rule::Bfp(bfp) => match self.options.decoding {
                Decoding::Exact => bfp.unpack(code, shared),
                Decoding::Host => bfp.unpack_host(code, shared),
                Decoding::Device => bfp.unpack_device(code, shared),
            },
            Rule::Mx(element) => element.unpack(code, shared),
        }
    }

    /// Where in a packed tile of 32 columns the codes of a row begin, if each is a byte, and what its halves share, in bytes from there.
    pub(crate) const fn row(&self, row: usize) -> (usize, [isize; 2]) {
        let (left, right) = (self.slot(row, 0), self.slot(row, GROUP));
        let (first, group) = (self.header_bytes() + left, self.format.group());
        (first, [(left / group) as isize - first as isize, (right / group) as isize - first as isize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All codes under each exponent or scale.
    #[test]
    fn what_fits_bfloat16_is_exact_there() {
        let shape = TileShape::new(16, 16).unwrap();
        let mut fitting = Vec::new();
        for format in BlockFormat::ALL {
            let codec = BlockCodec::new(format, shape, BlockOptions::default()).unwrap();
            let mut tile: Vec<u8> = (0..codec.tile_bytes()).map(|i| i as u8).collect();
            let mut values = vec![0.0; shape.elements()];
            let is_short = |value: &f32| value.to_bits() & 0xFFFF == 0;
            let fits = (0..=255).all(|shared| {
                tile[..codec.header_bytes()].fill(shared);
                codec.unpack_scalar(&tile, &mut values);
                values.iter().all(is_short)
            });
            assert_eq!(codec.fits_bf16(), fits, "{format}");
            fitting.extend(fits.then_some(format));
        }
        assert!(fitting.contains(&BlockFormat::Bfp8B) && fitting.len() >= 6, "{fitting:?}");
        let host = BlockOptions { decoding: Decoding::Host, ..BlockOptions::default() };
        assert!(!BlockCodec::new(BlockFormat::Bfp8B, shape, host).unwrap().fits_bf16());
    }
}
