//! The one error type: each variant carries what was given and what was needed.

use std::ops::Range;

/// The result of every fallible call in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, with the numbers that say how to mend it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A layout text that does not parse, or a part of it that says something impossible.
    #[error("{message}")]
    Text {
        /// One sentence: what was found and what was expected there.
        message: String,
        /// The whole text.
        text: String,
        /// The bytes of `text` that the message is about.
        span: Range<usize>,
    },
    /// A value that is not allowed where it stands.
    #[error("{what}: given {given}, needed {needed}")]
    Value {
        /// What the value is of, e.g. `grid`.
        what: String,
        /// The value as it was given.
        given: String,
        /// What would have been right.
        needed: String,
    },
    /// A declared shape that is not the one that follows from the rest of the descriptor.
    #[error("{what}: the text says {given}, but {derived} follows from {rule}")]
    Derived {
        /// What the shape is of, e.g. `memref shape`.
        what: &'static str,
        /// The shape as it was given.
        given: String,
        /// The shape that follows.
        derived: String,
        /// From what it follows.
        rule: String,
    },
    /// A size or an address that does not fit the 63 bits of a byte offset.
    #[error("{what} is more than 2^63 bytes or elements")]
    Overflow {
        /// What was being computed.
        what: String,
    },
    /// Two elements of a destination would lie on one place.
    #[error("{what}: elements {first:?} and {second:?} lie on the same place")]
    Collision {
        /// The layout or axis in which they collide.
        what: String,
        /// The logical index of one element.
        first: Vec<u64>,
        /// The logical index of the other.
        second: Vec<u64>,
    },
    /// A layout that would need more pieces than the cap allows.
    #[error("{what} breaks into more than {cap} pieces")]
    TooComplex {
        /// The axis, nest list or group that grew too large.
        what: String,
        /// The cap.
        cap: usize,
    },
    /// A pair of element formats with no conversion.
    #[error("no conversion from {from} to {to}: {why}")]
    Conversion {
        /// The source format.
        from: String,
        /// The destination format.
        to: String,
        /// The rule that forbids it.
        why: &'static str,
    },
    /// A value that does not fit the destination's integer type.
    #[error("the value {given} for byte {at} of the destination is outside of {needed}")]
    OutOfRange {
        /// Where it would lie: the byte of the destination, all its buffers one after another.
        at: u64,
        /// The value.
        given: String,
        /// The range of the destination type.
        needed: String,
    },
    /// A buffer of the wrong length.
    #[error("{what} holds {given} bytes, but {needed} are needed")]
    Length {
        /// Which buffer.
        what: &'static str,
        /// Bytes given.
        given: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// An instruction set level that this machine does not have.
    #[error("instruction set level {given} is not available here (available: {available})")]
    Isa {
        /// The level asked for.
        given: String,
        /// The levels this machine has.
        available: String,
    },
    /// A plan that its verifier refused: a defect of tilewright, never of the input.
    #[error("defect: the plan was refused by its verifier ({fact}): {what}")]
    Unverified {
        /// The fact that does not hold: `V1` to `V4`.
        fact: &'static str,
        /// What was found.
        what: String,
    },
    /// A file that could not be read or written.
    #[error("{path}: {what}")]
    Io {
        /// The file.
        path: String,
        /// What the system or the format reader said.
        what: String,
    },
    /// Staging that was cancelled, ran out of time, or was let down by its sink or its threads.
    #[error(
        "staging stopped: {what} ({submitted} slots submitted, {completed} completed, {in_flight} still in flight)"
    )]
    Staging {
        /// Why it stopped.
        what: String,
        /// Slots handed to the sink.
        submitted: u64,
        /// Slots that came back.
        completed: u64,
        /// Slots that did not come back in time; the sink still owns them.
        in_flight: u64,
    },
}

impl Error {
    /// A number for each variant that never changes its meaning.
    pub fn code(&self) -> i32 {
        match self {
            Error::Text { .. } => 1,
            Error::Value { .. } => 2,
            Error::Derived { .. } => 3,
            Error::Overflow { .. } => 4,
            Error::Collision { .. } => 5,
            Error::TooComplex { .. } => 6,
            Error::Conversion { .. } => 7,
            Error::OutOfRange { .. } => 8,
            Error::Length { .. } => 9,
            Error::Isa { .. } => 10,
            Error::Unverified { .. } => 11,
            Error::Io { .. } => 12,
            Error::Staging { .. } => 13,
        }
    }

    /// [`Error::Value`] from anything printable.
    pub fn value(what: impl Into<String>, given: impl ToString, needed: impl ToString) -> Error {
        Error::Value { what: what.into(), given: given.to_string(), needed: needed.to_string() }
    }

    /// [`Error::Overflow`] of `what`.
    pub fn overflow(what: impl Into<String>) -> Error {
        Error::Overflow { what: what.into() }
    }
}
