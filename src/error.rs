//! The one error type: each variant carries what was given and what was needed.
//!
//! An error stays small whatever it is about: it repeats at most [`MAX_GIVEN`] characters of a value, at most
//! [`MAX_SENTENCE`] of anything else, and of a text only a window around the place. So it can be kept, sent and printed
//! without a look at its size.

use std::fmt;
use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// The most characters that an error repeats of a value that was given.
pub const MAX_GIVEN: usize = 256;

/// The most characters of a message, of what was needed, or of what a system or a format reader said.
pub const MAX_SENTENCE: usize = 1024;

/// The result of every fallible call in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, with the numbers that say how to mend it.
///
/// ```
/// use tilewright::{Descriptor, Error};
///
/// let error = "ttnn(dtype=bfloat9_b, layout=TILE)".parse::<Descriptor>().unwrap_err();
/// assert_eq!(error.to_string(), "`bfloat9_b` is not a dtype: did you mean `bfloat8_b`?");
/// let Error::Text { excerpt, .. } = error else { unreachable!() };
/// assert_eq!((excerpt.line, excerpt.column), (1, 12));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A layout text that does not parse, or a part of it that says something impossible.
    #[error("{message}")]
    Text {
        /// One sentence: what was found and what was expected there.
        message: String,
        /// The bytes of the whole text that the message is about.
        span: Range<usize>,
        /// The text around them, as people read it.
        excerpt: Excerpt,
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
        /// The fact that does not hold: `V1` to `V5`.
        fact: &'static str,
        /// What was found.
        what: String,
    },
    /// A file that could not be read or written.
    #[error("{path}: {what}")]
    Io {
        /// The file.
        path: String,
        /// What was being done and what the system said, or what is wrong with the content.
        what: String,
        /// Of which kind it is; [`io::ErrorKind::InvalidData`] for wrong content.
        kind: io::ErrorKind,
        /// The error of the system, where there was one.
        source: Option<SystemError>,
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

    /// [`Error::Unverified`]: a fact of the verifier that does not hold, and what was found.
    pub(crate) fn unverified(fact: &'static str, what: impl Into<String>) -> Error {
        Error::Unverified { fact, what: what.into() }
    }

    /// [`Error::Value`] from anything printable; a long `given` or `needed` is cut.
    pub fn value(what: impl Into<String>, given: impl ToString, needed: impl ToString) -> Error {
        Error::Value {
            what: brief(what.into(), MAX_GIVEN),
            given: brief(given.to_string(), MAX_GIVEN),
            needed: brief(needed.to_string(), MAX_SENTENCE),
        }
    }

    /// [`Error::Overflow`] of `what`.
    pub fn overflow(what: impl Into<String>) -> Error {
        Error::Overflow { what: brief(what.into(), MAX_SENTENCE) }
    }

    /// [`Error::Text`] about the bytes `span` of `text`.
    pub fn text(message: impl Into<String>, text: &str, span: Range<usize>) -> Error {
        let excerpt = Excerpt::new(text, &span);
        Error::Text { message: brief(message.into(), MAX_SENTENCE), span, excerpt }
    }

    /// [`Error::Io`] of what the system refused: `doing` says to what end, as in "cannot open it".
    pub fn io(path: impl ToString, doing: &str, source: io::Error) -> Error {
        let (kind, what) = (source.kind(), format!("{doing}: {source}"));
        Error::Io {
            path: brief(path.to_string(), MAX_SENTENCE),
            what: brief(what, MAX_SENTENCE),
            kind,
            source: Some(SystemError(Arc::new(source))),
        }
    }

    /// [`Error::Io`] of a kind that no call of the system told: of a damaged file, or one that is not looked into.
    pub fn file(path: impl ToString, kind: io::ErrorKind, what: impl Into<String>) -> Error {
        let (path, what) = (brief(path.to_string(), MAX_SENTENCE), brief(what.into(), MAX_SENTENCE));
        Error::Io { path, what, kind, source: None }
    }

    /// The message; for a text error also the line it is about, with carets under the place.
    pub fn diagnostic(&self) -> String {
        match self {
            Error::Text { message, excerpt, .. } => format!("{message}\n{excerpt}"),
            other => other.to_string(),
        }
    }
}

/// The first characters of a text, with `…` in place of the rest where there are more than `most`.
fn brief(mut text: String, most: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(most) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// An error of the system, shared by the copies of an [`Error`]; it dereferences to the [`io::Error`].
///
/// Two are equal where their kinds and the system's numbers for them are.
#[derive(Debug, Clone)]
pub struct SystemError(Arc<io::Error>);

impl Deref for SystemError {
    type Target = io::Error;

    fn deref(&self) -> &io::Error {
        &self.0
    }
}

impl PartialEq for SystemError {
    fn eq(&self, other: &SystemError) -> bool {
        (self.kind(), self.raw_os_error()) == (other.kind(), other.raw_os_error())
    }
}

impl Eq for SystemError {}

/// The line of a text around a place, cut to a window of about 100 characters.
///
/// It prints as three lines: the number of the line and the column, the window, and carets under the place. Carets assume
/// that every character is one column wide.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Excerpt {
    /// The line of the text in which the place begins, counted from 1.
    pub line: usize,
    /// The character of that line at which it begins, counted from 1.
    pub column: usize,
    /// The window: tabs and control characters are blanks and `·`, and `…` stands where the line goes on.
    pub window: String,
    /// The characters of `window` that the message is about; at least one, which may lie behind its end.
    pub carets: Range<usize>,
}

/// The most characters of a line that an excerpt shows.
const WIDTH: usize = 100;

/// Characters shown before the place where a line is cut.
const BEFORE: usize = 40;

impl Excerpt {
    fn new(text: &str, span: &Range<usize>) -> Excerpt {
        let start = boundary(text, span.start);
        let end = boundary(text, span.end.max(start));
        let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |i| start + i);
        let before: Vec<char> = text[line_start..start].chars().rev().take(BEFORE + 1).collect();
        let cut = before.len() > BEFORE;
        let mut window = String::from(if cut { "…" } else { "" });
        window.extend(before.iter().take(BEFORE).rev().copied().map(printable));
        let first = before.len().min(BEFORE) + usize::from(cut);
        let room = WIDTH - before.len().min(BEFORE);
        let mut rest = text[start..line_end].chars();
        window.extend(rest.by_ref().take(room).map(printable));
        window.push_str(if rest.next().is_some() { "…" } else { "" });
        let marked = text[start..end.min(line_end)].chars().take(room).count().max(1);
        Excerpt {
            line: 1 + text[..line_start].matches('\n').count(),
            column: 1 + text[line_start..start].chars().count(),
            window,
            carets: first..first + marked,
        }
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Excerpt { line, column, window, carets } = self;
        let (indent, marks) = (" ".repeat(carets.start), "^".repeat(carets.len()));
        write!(f, " --> line {line}, column {column}\n  | {window}\n  | {indent}{marks}")
    }
}

/// The start of the character that byte `at` is in.
fn boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn printable(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => '·',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn an_excerpt_is_a_window_with_carets_under_the_place() {
        let excerpt = |text: &str, span| Excerpt::new(text, &span).to_string();
        assert_eq!(excerpt("ab\ncd\te", 4..6), " --> line 2, column 2\n  | cd e\n  |  ^^");
        assert_eq!(excerpt("ab", 2..2), " --> line 1, column 3\n  | ab\n  |   ^");
        let long = format!("{}!{}", "a".repeat(50), "b".repeat(200));
        let (before, after) = ("a".repeat(40), "b".repeat(59));
        let expected = format!(" --> line 1, column 51\n  | …{before}!{after}…\n  | {}^", " ".repeat(41));
        assert_eq!(excerpt(&long, 50..51), expected);
        // A place inside of a character, or behind the end, is that of the character, or the end.
        assert_eq!(Excerpt::new("é", &(1..2)).column, 1);
        assert_eq!(Excerpt::new("a", &(7..9)).column, 2);
    }

    #[test]
    fn what_an_error_repeats_is_bounded() {
        let long = "é".repeat(1 << 20);
        let errors = [
            Error::value(long.as_str(), &long, &long),
            Error::overflow(long.as_str()),
            Error::text(long.as_str(), &long, 0..long.len()),
            Error::io(&long, &long, io::Error::other(long.as_str())),
            Error::file(&long, io::ErrorKind::InvalidData, long.as_str()),
        ];
        for error in errors {
            let shown = error.diagnostic();
            assert!(shown.chars().count() < 2 * MAX_SENTENCE + 600, "{} bytes: {shown}", shown.len());
            assert!(shown.contains('…'), "{shown}");
        }
    }

    #[test]
    fn the_error_of_the_system_is_kept() {
        let refused = || io::Error::from_raw_os_error(13);
        let error = Error::io("a.npy", "cannot open it", refused());
        let Error::Io { kind, .. } = error.clone() else { panic!("{error}") };
        assert_eq!(kind, io::ErrorKind::PermissionDenied);
        let source = error.source().and_then(|s| s.downcast_ref::<io::Error>());
        assert_eq!(source.and_then(io::Error::raw_os_error), Some(13));
        assert_eq!(error, Error::io("a.npy", "cannot open it", refused()));
        assert!(error.to_string().starts_with("a.npy: cannot open it: "), "{error}");
    }
}
