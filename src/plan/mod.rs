//! A [`Plan`] is a conversion compiled once: loop nests with constant trip counts, proved before they run.

mod explain;
mod gather;
mod lower;
pub(crate) mod nest;
mod order;
mod relayout;
mod verify;

use kernels::{BlockCodec, BlockOptions, Cast, Kernels, Number};
pub use kernels::{Decoding, Isa, Rounding};

use crate::dtype::{DType, Format};
use crate::error::{Error, Result};
use crate::layout::{Layout, Space};
use nest::{Leaf, Nest};
pub(crate) use order::MAX_BLOCK;

/// The most loops of one nest: every dimension and split of a tensor of the greatest rank.
pub(crate) const MAX_LOOPS: usize = 64;

/// A destination of this many bytes is written past the caches: it would not stay in them, and an ordinary store
/// reads each line before it writes it.
const STREAMED: u64 = 24 << 20;

/// Choices that change bytes, and two that do not: the instruction set, and how bytes are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Options {
    /// How block floats round.
    pub rounding: Rounding,
    /// Whether block floats try the next lower shared exponent and keep the better one.
    pub search: bool,
    /// How block floats decode: exactly, or as the device's library or the device itself does.
    pub compat_unpack: Decoding,
    /// How Spyre's 16-bit float treats its edges.
    pub sen169: Sen169,
    /// Whether an integer that its destination cannot hold becomes the nearest one that it can, instead of an error.
    pub saturate: bool,
    /// Whether the destination is written past the caches.
    pub store: Store,
    /// The instruction set level; none: what `TILEWRIGHT_ISA` says, or the best of the machine.
    pub isa: Option<Isa>,
}

/// How the destination is written. The bytes are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Store {
    /// Past the caches where the destination is too large to stay in them and the processor has such stores.
    #[default]
    Auto,
    /// Through the caches: the destination is read again soon.
    Cached,
    /// Past the caches, whole lines at a time: as write-combined memory wants it.
    Streamed,
}

/// The two published rules for the edges of Spyre's 16-bit float.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Sen169 {
    /// Nearest, ties away from zero, exact subnormals.
    #[default]
    Nearest,
    /// As the deeptools port does it.
    Deeptools,
}

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
    /// Bytes of what is read for one element: of a tile, of one element of it decoded.
    pub(crate) fn source_size(self) -> usize {
        match self {
            Op::Copy(size) => size,
            Op::Convert(from, _) => from.size(),
            Op::Cast { cast, .. } => cast.source_size(),
        }
    }
}

/// The value of a strict cast that does not fit, and the destination byte where it would lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Misfit {
    pub(crate) at: u64,
    pub(crate) bits: u64,
}

impl Misfit {
    /// Of two of them the one that comes first in the destination.
    pub(crate) fn earlier(first: Option<Misfit>, other: Misfit) -> Option<Misfit> {
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

/// A compiled and proved conversion from one layout to another; immutable, and usable from any thread.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) nests: Vec<Nest>,
    pub(crate) src: Endpoint,
    pub(crate) dst: Endpoint,
    pub(crate) op: Op,
    /// The fill, as one element or one tile of the destination; empty where no tile is filled.
    pub(crate) fill: Box<[u8]>,
    /// The fill as the value that pads inside of tiles.
    pub(crate) pad: f32,
    pub(crate) kernels: &'static Kernels,
    /// Whether the destination is written past the caches.
    pub(crate) streams: bool,
    options: Options,
}

impl Plan {
    /// Compiles the conversion of a tensor from one layout to another, and proves that it writes every byte
    /// of the destination exactly once and reads only inside of the source.
    ///
    /// # Errors
    /// Where the shapes differ, the element formats have no conversion, the destination puts two elements on
    /// one place, or the layouts break into too many pieces.
    pub fn compile(src: &Layout, dst: &Layout, options: &Options) -> Result<Plan> {
        if src.shape() != dst.shape() {
            return Err(Error::value(
                "shape of the destination",
                crate::family::join(dst.shape()),
                format!("{}, the shape of the source", crate::family::join(src.shape())),
            ));
        }
        dst.check_destination()?;
        // Rounding and search are about writing.
        let reading = Options { rounding: Rounding::default(), search: false, ..*options };
        let source = Endpoint::new(src, &reading)?;
        let target = Endpoint::new(dst, options)?.packed_from(&source);
        let op = operation(&source, &target, options)?;
        let mut nests = lower::lower(src, dst)?;
        verify::verify(&nests, src, dst)?;
        // To pack a tile of the fill costs as much as the rest of the plan, and few plans need one.
        let filled = target.codec.is_none() || nests.iter().any(|n| n.leaf == Leaf::Fill);
        let (fill, pad) =
            if filled { fill(&target, dst.fill())? } else { (Box::default(), dst.fill() as f32) };
        let kernels = kernels_for(options.isa)?;
        let streams = match options.store {
            Store::Auto => kernels.has_non_temporal_stores() && target.space.total_bytes() >= STREAMED,
            store => store == Store::Streamed,
        };
        order::choose(&mut nests, &source, &target, op, streams);
        if let Some(nest) = nests.iter().find(|n| n.loops.len() > MAX_LOOPS) {
            let what = format!("a nest of {} loops", nest.loops.len());
            return Err(Error::TooComplex { what, cap: MAX_LOOPS });
        }
        Ok(Plan { nests, src: source, dst: target, op, fill, pad, kernels, streams, options: *options })
    }

    /// Bytes of the source: all its buffers, one after another.
    pub fn source_bytes(&self) -> usize {
        self.src.space.total_bytes() as usize
    }

    /// Bytes of the destination: all its buffers, one after another.
    pub fn destination_bytes(&self) -> usize {
        self.dst.space.total_bytes() as usize
    }

    /// Buffers of the destination, which are equal in size and lie one after another.
    pub fn destination_buffers(&self) -> usize {
        self.dst.space.buffers as usize
    }

    /// Bytes of the smallest destination range that can be produced alone: chunks begin and end at multiples.
    pub fn chunk_alignment(&self) -> usize {
        let (block_bytes, pitch) = (self.dst.block_bytes, self.dst.space.pitch_bytes as usize);
        if pitch % block_bytes.max(1) == 0 { block_bytes } else { pitch }
    }

    /// How many loop nests there are.
    pub fn nests(&self) -> usize {
        self.nests.len()
    }

    /// The instruction set level that the plan runs with.
    pub fn isa(&self) -> Isa {
        self.kernels.isa()
    }

    /// The options it was compiled with.
    pub fn options(&self) -> &Options {
        &self.options
    }
}

impl Endpoint {
    pub(crate) fn new(layout: &Layout, options: &Options) -> Result<Endpoint> {
        let format = layout.format();
        Ok(Endpoint {
            format,
            block_bytes: layout.block_bytes() as usize,
            codec: codec(layout, options)?,
            number: match format {
                Format::Plain(dtype) => dtype.number(),
                Format::Sen169 if options.sen169 == Sen169::Deeptools => Some(Number::Sen169Deeptools),
                Format::Sen169 => Some(Number::Sen169),
                Format::Block(_) => Some(Number::F32),
            },
            space: layout.space.clone(),
        })
    }
}

impl Endpoint {
    /// The same destination for numbers of this source: what lies in bfloat16 is packed as from such registers.
    pub(crate) fn packed_from(mut self, source: &Endpoint) -> Endpoint {
        if source.number == Some(Number::Bf16) {
            self.codec = self.codec.map(BlockCodec::with_bf16_registers);
        }
        self
    }
}

/// The codec of a block format with the options that concern it.
fn codec(layout: &Layout, options: &Options) -> Result<Option<BlockCodec>> {
    let (Format::Block(block), Some(tile)) = (layout.format(), layout.tile()) else { return Ok(None) };
    let Options { rounding, search, compat_unpack, .. } = *options;
    let options = BlockOptions { rounding, search, decoding: compat_unpack, ..BlockOptions::default() };
    tile.codec(block, options).map(Some)
}

/// How elements get from one format to the other.
pub(crate) fn operation(src: &Endpoint, dst: &Endpoint, options: &Options) -> Result<Op> {
    let none = |why| Error::Conversion { from: src.format.to_string(), to: dst.format.to_string(), why };
    if src.format == dst.format && src.codec.is_none() && src.number == dst.number {
        return Ok(Op::Copy(src.block_bytes));
    }
    if let (Some(from), Some(to)) = (src.number, dst.number) {
        return Ok(Op::Convert(from, to));
    }
    let integer = |format| if let Format::Plain(dtype) = format { dtype.integer() } else { None };
    let cast = match (src.format, dst.format, dst.number) {
        // How the device's runtime hands over truth values.
        (Format::Plain(DType::Bool), Format::Sen169, Some(to)) => Cast::Truth(to),
        (from, to, _) => match (integer(from), integer(to)) {
            (Some(from), Some(to)) => Cast::Integer(from, to),
            _ => return Err(none("integers become other integers only, and bool becomes sen169 only")),
        },
    };
    Ok(Op::Cast { cast, strict: !options.saturate })
}

/// The fill as bytes of one block_bytes, and as the number that pads inside of a tile.
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

/// The kernels of the level asked for: by the caller, by `TILEWRIGHT_ISA`, or else the best there is.
fn kernels_for(isa: Option<Isa>) -> Result<&'static Kernels> {
    let unavailable = |given: String| Error::Isa {
        given,
        available: Isa::available().map(Isa::name).collect::<Vec<_>>().join(", "),
    };
    let isa = match (isa, std::env::var("TILEWRIGHT_ISA")) {
        (Some(isa), _) => isa,
        (None, Ok(name)) => Isa::from_name(&name).ok_or_else(|| unavailable(name))?,
        (None, Err(_)) => Isa::best(),
    };
    Kernels::for_isa(isa).ok_or_else(|| unavailable(isa.name().into()))
}
