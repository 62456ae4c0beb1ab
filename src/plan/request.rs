//! What a caller may choose about a conversion.

pub use kernels::{Decoding, Isa, Rounding};

/// Choices that change bytes, and two that do not: the instruction set, and how bytes are stored.
///
/// Other crates begin with the defaults and set what differs:
///
/// ```
/// use tilewright::plan::{Options, Rounding, Store};
///
/// let options = Options::default().with_rounding(Rounding::Device).with_store(Store::Cached);
/// assert!(!options.search);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
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
    /// Whether the destination is written with non-temporal stores.
    pub store: Store,
    /// The instruction set level; none: what `TILEWRIGHT_ISA` said when the process first compiled a plan, or the best of the
    /// machine.
    pub isa: Option<Isa>,
}

impl Options {
    /// The same options with another [`Options::rounding`].
    pub fn with_rounding(self, rounding: Rounding) -> Options {
        Options { rounding, ..self }
    }

    /// The same options with another [`Options::search`].
    pub fn with_search(self, search: bool) -> Options {
        Options { search, ..self }
    }

    /// The same options with another [`Options::compat_unpack`].
    pub fn with_compat_unpack(self, compat_unpack: Decoding) -> Options {
        Options { compat_unpack, ..self }
    }

    /// The same options with another [`Options::sen169`].
    pub fn with_sen169(self, sen169: Sen169) -> Options {
        Options { sen169, ..self }
    }

    /// The same options with another [`Options::saturate`].
    pub fn with_saturate(self, saturate: bool) -> Options {
        Options { saturate, ..self }
    }

    /// The same options with another [`Options::store`].
    pub fn with_store(self, store: Store) -> Options {
        Options { store, ..self }
    }

    /// The same options with another [`Options::isa`]; `None` leaves the choice to the environment and the machine.
    pub fn with_isa(self, isa: impl Into<Option<Isa>>) -> Options {
        Options { isa: isa.into(), ..self }
    }

    /// These options for the source of a conversion: how to round and to search is a matter of writing.
    pub(crate) fn of_source(self) -> Options {
        Options { rounding: Rounding::default(), search: false, ..self }
    }
}

/// How the destination is written. The bytes are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Store {
    /// Non-temporal where the destination is too large to stay in the caches, the processor has such stores, and few lines would be
    /// written in parts.
    #[default]
    Auto,
    /// Through the caches: the destination is read again soon.
    Cached,
    /// Non-temporal, whole lines at a time: as write-combined memory wants it.
    Streamed,
}

/// The two published rules for the edges of Spyre's 16-bit float.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Sen169 {
    /// Nearest, ties away from zero, exact subnormals.
    #[default]
    Nearest,
    /// As the deeptools port does it.
    Deeptools,
}
