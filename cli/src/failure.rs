//! Why a command ended without a result, and its exit status.

use std::fmt;
use std::io::ErrorKind;

use tilewright::Error;

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// An error of the library, a result that differs from the reference, or files that differ from their manifest.
#[derive(Debug)]
pub(crate) enum Failure {
    Error(Error),
    Check {
        differ: u64,
        first: u64,
    },
    /// What was compared is not the same.
    Differ(String),
}

impl Failure {
    /// An argument that is wrong or missing.
    pub(crate) fn usage(what: &str, given: impl ToString, needed: impl ToString) -> Failure {
        Failure::Error(Error::value(what, given, needed))
    }

    /// Whether the reader of stdout has gone away, as `head` does when it has seen enough: no reason to say anything.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Failure::Error(Error::Io { path, kind: ErrorKind::BrokenPipe, .. }) if path == "stdout")
    }

    /// 1 where the machine or this program failed, 2 where the input is wrong.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Failure::Check { .. }
            | Failure::Differ(_)
            | Failure::Error(Error::Io { .. } | Error::Unverified { .. } | Error::Staging { .. }) => 1,
            Failure::Error(_) => 2,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Error(error) => f.write_str(&error.diagnostic()),
            Failure::Differ(what) => f.write_str(what),
            Failure::Check { differ, first } => {
                write!(
                    f,
                    "defect: {differ} bytes differ from the scalar reference, the first at byte {first}"
                )
            }
        }
    }
}
