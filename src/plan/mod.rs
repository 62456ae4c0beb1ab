//! A [`Plan`] is a conversion compiled once: loop nests with constant trip counts, proved before they run.
//!
//! Two layouts are *lowered* to nests, each nest is *scheduled* (which blocks, in which order, by which kernel calls), and
//! what is scheduled is *verified*. A plan holds verified nests only, so what has been proved is what runs.

mod conversion;
mod explain;
mod gather;
pub(crate) mod ir;
mod loops;
mod lower;
mod noop;
mod request;
mod schedule;
mod verify;

#[cfg(test)]
mod mutations;

use std::sync::OnceLock;

use kernels::Kernels;

pub(crate) use conversion::{Conversion, Endpoint, Op, OutOfRange, fill};
pub use request::{Decoding, Isa, Options, Rounding, Sen169, Store};
pub(crate) use verify::Verified;

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::tuning::{Tuning, in_force};
use ir::{Leaf, WholeCall};

/// A compiled and proved conversion from one layout to another; immutable, and usable from any thread.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) nests: Verified,
    pub(crate) src: Endpoint,
    pub(crate) dst: Endpoint,
    pub(crate) op: Op,
    /// The fill, as one element or one tile of the destination; empty where no tile is filled.
    pub(crate) fill: Box<[u8]>,
    /// The fill as the value that pads inside of tiles.
    pub(crate) pad: f32,
    pub(crate) kernels: &'static Kernels,
    /// Whether the destination is written with non-temporal stores.
    pub(crate) streams: bool,
    options: Options,
    pub(crate) tuning: Tuning,
    /// The call that does all of it, if one does; found by the first execution.
    pub(crate) whole_call: OnceLock<Option<WholeCall>>,
}

impl Plan {
    /// Compiles the conversion of a tensor from one layout to another, and proves that it writes every byte of the
    /// destination exactly once, reads only inside of the source, and reads for each byte the element that belongs
    /// there. It is scheduled for this machine: by the profile that is [`in_force`].
    ///
    /// # Errors
    /// Where the shapes differ, the element formats have no conversion, the destination puts two elements on
    /// one place, this machine cannot address the buffers, or the layouts break into too many regions. Where there is
    /// a profile that cannot be read, as [`in_force`].
    pub fn compile(src: &Layout, dst: &Layout, options: &Options) -> Result<Plan> {
        // The numbers of a profile were checked when it was made.
        Plan::compile_by(src, dst, options, &in_force()?.tuning())
    }

    /// [`Plan::compile`] with other numbers to schedule by. They make a plan faster or slower and change no byte.
    ///
    /// # Errors
    /// As [`Plan::compile`], and as [`Tuning::check`].
    pub fn compile_with(src: &Layout, dst: &Layout, options: &Options, tuning: &Tuning) -> Result<Plan> {
        tuning.check()?;
        Plan::compile_by(src, dst, options, tuning)
    }

    /// [`Plan::compile_with`] with numbers that were checked before.
    fn compile_by(src: &Layout, dst: &Layout, options: &Options, tuning: &Tuning) -> Result<Plan> {
        if src.shape() != dst.shape() {
            return Err(Error::value(
                "shape of the destination",
                crate::family::join(dst.shape()),
                format!("{}, the shape of the source", crate::family::join(src.shape())),
            ));
        }
        let padding = dst.padding()?;
        let source = Endpoint::new(src, &options.of_source())?;
        let target = Endpoint::new(dst, options)?.packed_from(&source);
        let op = Op::new(&source, &target, options)?;
        let kernels = kernels_for(options.isa)?;
        let bytes = target.space.total_bytes();
        let streams_from = |least: usize| {
            options.store == Store::Auto && kernels.has_non_temporal_stores() && bytes >= least as u64
        };
        let streams = options.store == Store::Streamed || streams_from(tuning.stream_from);
        let (near_lines, stores_lines) = (kernels.has_near_lines(), kernels.has_stores_of_lines());
        let conversion =
            Conversion { src: &source, dst: &target, op, streams, near_lines, stores_lines, tuning };
        let lowered = lower::lower(src, dst, padding)?;
        let streams = streams
            || streams_from(tuning.transposed_from) && schedule::transposes(&lowered, conversion)
            || streams_from(tuning.direct_from) && schedule::goes_directly(&lowered, conversion)
            || streams_from(tuning.scattered_from) && schedule::scatters(&lowered, conversion);
        // What would leave parts of lines is faster stored as it is made, where nobody asks for other stores.
        let streams =
            streams && (options.store == Store::Streamed || !schedule::leaves_parts(&lowered, conversion));
        let conversion = Conversion { streams, ..conversion };
        let scheduled = schedule::schedule(lowered, conversion);
        let nests = verify::verify(scheduled, conversion, src, dst)?;
        // To pack a tile of the fill costs as much as the rest of the plan, and few plans need one.
        let filled = target.codec.is_none() || nests.iter().any(|n| n.leaf == Leaf::Fill);
        let (fill, pad) =
            if filled { fill(&target, dst.fill())? } else { (Box::default(), dst.fill() as f32) };
        let (options, tuning) = (*options, *tuning);
        let whole_call = OnceLock::new();
        Ok(Plan {
            nests,
            src: source,
            dst: target,
            op,
            fill,
            pad,
            kernels,
            streams,
            options,
            tuning,
            whole_call,
        })
    }

    /// Bytes of the source: all its buffers, one after another.
    pub fn source_bytes(&self) -> usize {
        self.src.bytes()
    }

    /// Bytes of the destination: all its buffers, one after another.
    pub fn destination_bytes(&self) -> usize {
        self.dst.bytes()
    }

    /// Buffers of the destination, which are equal in size and lie one after another.
    pub fn destination_buffers(&self) -> usize {
        self.dst.space.buffers as usize
    }

    /// Bytes of the smallest destination range that can be produced alone: chunks begin and end at multiples.
    ///
    /// It is one element or tile, or one unit (a page, the shard of a core) where units do not begin on multiples of
    /// these; see fact V3 of the verifier.
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

    /// The numbers by which it was scheduled.
    pub fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// Whether every element lies in the source at the very byte where the destination wants it, so that a buffer of
    /// the one layout is a buffer of the other as it is, but for padding: a grid that is only numbered differently.
    pub fn is_noop(&self) -> bool {
        noop::is_noop(&self.nests, self.conversion())
    }

    pub(crate) fn conversion(&self) -> Conversion<'_> {
        let Plan { src, dst, op, streams, tuning, kernels, .. } = self;
        let (near_lines, stores_lines) = (kernels.has_near_lines(), kernels.has_stores_of_lines());
        Conversion { src, dst, op: *op, streams: *streams, near_lines, stores_lines, tuning }
    }
}

/// The kernels of the level asked for: by the caller, by `TILEWRIGHT_ISA`, or else the best there is. The variable is read
/// once, as that of the profile is: to look through the environment takes as long as a nest.
fn kernels_for(isa: Option<Isa>) -> Result<&'static Kernels> {
    static NAMED: OnceLock<std::result::Result<Isa, String>> = OnceLock::new();
    let unavailable = |given: String| Error::Isa {
        given,
        available: Isa::available().map(Isa::name).collect::<Vec<_>>().join(", "),
    };
    let named = || match std::env::var("TILEWRIGHT_ISA") {
        Ok(name) => Isa::from_name(&name).ok_or(name),
        Err(_) => Ok(Isa::best()),
    };
    let isa = match isa {
        Some(isa) => isa,
        None => NAMED.get_or_init(named).clone().map_err(unavailable)?,
    };
    Kernels::for_isa(isa).ok_or_else(|| unavailable(isa.name().into()))
}
