//! What a conversion does to an element, apart from where it lies: formats, codecs, casts and the fill.

use kernels::{BlockCodec, BlockOptions, Cast, Kernels, Number, PackArgs};

use super::ir::{Gather, InPlace, LINE, Loop, MAX_BLOCK};
use super::request::{Options, Sen169};
use crate::dtype::{DType, Format};
use crate::error::{Error, Result};
use crate::layout::{Layout, Space};
use crate::tuning::{Strip, Tuning};

/// One end of a conversion, as execution needs it.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) format: Format,
    /// Bytes of an element, or of a tile.
    pub(crate) block_bytes: usize,
    /// The codec of a block format.
    pub(crate) codec: Option<BlockCodec>,
    /// The number format of plain floats; what a block format decodes to.
    pub(crate) number: Option<Number>,
    pub(crate) space: Space,
}

impl Endpoint {
    /// # Errors
    /// Where the buffers are larger than this machine can address, or the format has no such options.
    pub(crate) fn new(layout: &Layout, options: &Options) -> Result<Endpoint> {
        let format = layout.format();
        let bytes = layout.total_bytes();
        if isize::try_from(bytes).is_err() {
            let needed = format!("at most {} bytes, which is what this machine addresses", isize::MAX);
            return Err(Error::value("size of the buffers", format!("{bytes} bytes"), needed));
        }
        Ok(Endpoint {
            format,
            block_bytes: layout.block_bytes() as usize,
            codec: codec(layout, options)?,
            number: match format {
                Format::Plain(dtype) => dtype.number(),
                Format::Sen169 if options.sen169 == Sen169::Deeptools => Some(Number::Sen169Deeptools),
                Format::Sen169 => Some(Number::Sen169),
                Format::TtE4M3 => Some(Number::TtE4M3),
                Format::Block(_) => Some(Number::F32),
            },
            space: layout.space.clone(),
        })
    }

    /// The same destination for numbers of this source: what lies in bfloat16 is packed as from such registers.
    pub(crate) fn packed_from(mut self, source: &Endpoint) -> Endpoint {
        if source.number == Some(Number::Bf16) {
            self.codec = self.codec.map(BlockCodec::with_bf16_registers);
        }
        self
    }

    /// Bytes of all buffers; [`Endpoint::new`] has seen that the machine can address them.
    pub(crate) fn bytes(&self) -> usize {
        self.space.total_bytes() as usize
    }
}

/// The codec of a block format with the options that concern it.
fn codec(layout: &Layout, options: &Options) -> Result<Option<BlockCodec>> {
    let (Format::Block(block), Some(tile)) = (layout.format(), layout.tile()) else { return Ok(None) };
    let Options { rounding, search, compat_unpack, .. } = *options;
    let options = BlockOptions { rounding, search, decoding: compat_unpack, ..BlockOptions::default() };
    tile.codec(block, options).map(Some)
}

/// What happens to an element on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// Its bytes are copied.
    Copy(usize),
    /// It is converted from one number format to another.
    Convert(Number, Number),
    /// It is a whole number in both formats; `strict` where one that does not fit is an error.
    Cast { cast: Cast, strict: bool },
}

impl Op {
    /// How elements get from one format to the other.
    pub(crate) fn new(src: &Endpoint, dst: &Endpoint, options: &Options) -> Result<Op> {
        let none = |why| Error::Conversion { from: src.format.to_string(), to: dst.format.to_string(), why };
        if src.format == dst.format && src.codec.is_none() && src.number == dst.number {
            return Ok(Op::Copy(src.block_bytes));
        }
        if let (Some(from), Some(to)) = (src.number, dst.number) {
            return Ok(Op::Convert(from, to));
        }
        let integer = |format| if let Format::Plain(dtype) = format { dtype.integer() } else { None };
        let cast = match (src.format, dst.format, dst.number) {
            // A mask as 0 and 1, and whole numbers by their value, as frameworks hand them over.
            (Format::Plain(DType::Bool), Format::Sen169 | Format::TtE4M3 | Format::Plain(_), Some(to)) => {
                Cast::Truth(to)
            }
            (_, Format::Block(_), _) => {
                return Err(none("integers and bool become block floats by way of bf16 or f32"));
            }
            (from, to, number) => match (integer(from), integer(to), number) {
                (Some(from), Some(to), _) => Cast::Integer(from, to),
                (Some(from), None, Some(to)) => Cast::Value(from, to),
                _ => return Err(none("floats become no integers, and bool becomes floats only")),
            },
        };
        Ok(Op::Cast { cast, strict: !options.saturate })
    }

    /// Bytes of what is read for one element: of a tile, of one element of it decoded.
    pub(crate) fn source_size(self) -> usize {
        match self {
            Op::Copy(size) => size,
            Op::Convert(from, _) => from.size(),
            Op::Cast { cast, .. } => cast.source_size(),
        }
    }
}

/// What all nests of one plan have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conversion<'a> {
    pub(crate) src: &'a Endpoint,
    pub(crate) dst: &'a Endpoint,
    pub(crate) op: Op,
    /// Whether the destination is written with non-temporal stores.
    pub(crate) streams: bool,
    /// Whether transposes of what lies in L1 go from registers to memory by such stores.
    pub(crate) near_lines: bool,
    /// Whether such stores are there for whole lines.
    pub(crate) stores_lines: bool,
    /// The numbers by which nests are scheduled; nothing that is proved depends on them.
    pub(crate) tuning: &'a Tuning,
}

impl Conversion<'_> {
    /// Whether tiles with these parts are each one of the source, which may be copied, or give its codes alone.
    pub(crate) fn maps_tiles(&self, parts: &[Gather]) -> bool {
        match (self.src.codec, self.dst.codec, parts) {
            (Some(from), Some(to), [part]) => {
                (from == to || Kernels::requantizes(&from, &to)) && part.is_whole_tile(&to)
            }
            _ => false,
        }
    }

    /// The codec of the source, if rows of its codes are packed as they lie.
    pub(crate) fn rows_of_codes(&self) -> Option<BlockCodec> {
        self.src.codec.filter(|from| self.dst.codec.is_some_and(|to| Kernels::packs_codes(from, &to)))
    }

    /// Whether a tile that is packed from where it lies is all of a unit of the source: tiles of elements in banks.
    pub(crate) fn is_unit(&self, tile: &InPlace) -> bool {
        let elements = tile.rows * tile.cols;
        let whole = self.dst.codec.is_some_and(|codec| codec.tile().elements() == elements);
        whole && self.src.space.unit_bytes == (elements * self.op.source_size()) as u64
    }

    /// How tiles with these parts lie in L1 before they are packed: whole tiles of 16-bit numbers as they are (half of the bytes, and no
    /// numbers to widen), those that fit bfloat16 so, all others as f32. And how many of them there is room for.
    pub(crate) fn brought_together(&self, parts: &[Gather]) -> (Number, usize) {
        let (Some(codec), Op::Convert(number, _)) = (self.dst.codec, self.op) else {
            return (Number::F32, 1);
        };
        // A search reads each number more than once.
        let short = |number: Number| number.size() == 2 && PackArgs::packs_rows_of(number);
        let as_it_is = |number| short(number) && !codec.options().search;
        let (elements, covered) = (codec.tile().elements(), parts.iter().map(Gather::elements).sum::<u64>());
        let fits = self.src.codec.is_some_and(|codec| codec.fits_bf16());
        let number = match number {
            _ if covered < elements as u64 => Number::F32,
            // All of its numbers are some of bfloat16, and its NaN the one that binary32 has of it.
            Number::E4M3 if as_it_is(Number::Bf16) => Number::Bf16,
            _ if fits && as_it_is(Number::Bf16) => Number::Bf16,
            _ if as_it_is(number) => number,
            _ => Number::F32,
        };
        (number, (MAX_BLOCK / (elements * number.size())).max(1))
    }

    /// The strips of a nest whose innermost loop makes rows of the destination, if elements are copied and there are any for them.
    pub(crate) fn strip(&self, loops: &[Loop]) -> Option<Strip> {
        let (Op::Copy(size), Some((_, around))) = (self.op, loops.split_last()) else { return None };
        self.tuning.strip(size, around.iter().any(|l| l.step[4] % LINE as i64 != 0))
    }
}

/// The value of a strict cast that its destination cannot hold, and the destination byte where it would lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OutOfRange {
    pub(crate) at: u64,
    pub(crate) bits: u64,
}

impl OutOfRange {
    /// Of two of them the one that comes first in the destination.
    pub(crate) fn earlier(first: Option<OutOfRange>, other: OutOfRange) -> Option<OutOfRange> {
        Some(first.map_or(other, |first| first.min(other)))
    }

    /// The first of them, as an error; executors look at every element, so it is the same one in all of them.
    pub(crate) fn error(self, op: Op) -> Error {
        let Op::Cast { cast: Cast::Integer(from, to), .. } = op else { return Error::overflow("a cast") };
        let (least, greatest) = to.range();
        let needed = format!("{}, {least} to {greatest}", to.name());
        Error::OutOfRange { at: self.at, given: from.decode(self.bits).to_string(), needed }
    }
}

/// The fill as bytes of one block, and as the number that pads inside of a tile.
pub(crate) fn fill(dst: &Endpoint, value: f64) -> Result<(Box<[u8]>, f32)> {
    let bytes = match (dst.codec, dst.number) {
        (Some(codec), _) => {
            let mut tile = vec![0; codec.tile_bytes()];
            codec.pack_scalar(&vec![value as f32; codec.tile().elements()], &mut tile);
            tile
        }
        (None, Some(number)) => number.encode(value).to_le_bytes()[..dst.block_bytes].to_vec(),
        (None, None) => integer(dst, value)?.to_le_bytes()[..dst.block_bytes].to_vec(),
    };
    Ok((bytes.into(), value as f32))
}

/// A fill of an integer type, which must hold it.
fn integer(dst: &Endpoint, value: f64) -> Result<i128> {
    let bits = 8 * dst.block_bytes as u32;
    let (lo, hi) = match dst.format {
        Format::Plain(DType::Bool) => (0, 1),
        Format::Plain(DType::I8 | DType::I16 | DType::I32 | DType::I64) => {
            (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
        }
        _ => (0, (1_i128 << bits) - 1),
    };
    let whole = value as i128;
    if whole as f64 != value || !(lo..=hi).contains(&whole) {
        return Err(Error::value("pad value", value, format!("a whole number from {lo} to {hi}")));
    }
    Ok(whole)
}
