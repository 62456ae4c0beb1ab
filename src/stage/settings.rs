//! How a run of a stager or a fetcher is done.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::clock::{Clock, SystemClock};
use crate::error::{Error, Result};
use crate::run::{Executor, Inline};

/// Ends a run early, from any thread.
///
/// ```
/// use tilewright::stage::{Cancel, Settings};
///
/// let cancel = Cancel::default();
/// let settings = Settings { cancel: Some(&cancel), ..Settings::default() };
/// cancel.cancel();
/// assert!(settings.cancel.is_some_and(Cancel::is_cancelled));
/// ```
#[derive(Debug, Default)]
pub struct Cancel(AtomicBool);

impl Cancel {
    /// Cancels: the run drains its sink and returns within a slot's time.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether that has happened.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How a run is done. None of it changes bytes.
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    /// Who produces chunks; by default the current rayon pool, or the calling thread without the feature `rayon`.
    pub executor: &'a dyn Executor,
    /// Who reads the parts of a window; by default the reading thread alone. One thread reads some 5 GB/s out of the
    /// page cache, and has one request at a time in a disk's queue.
    pub readers: &'a dyn Executor,
    /// Bytes of a window of the source, of which there are two; 32 MiB by default. A window is larger where a single
    /// chunk is made of more: it then holds what all chunks up to the farthest one need, at worst the whole tensor.
    pub read_bytes: usize,
    /// Whether bytes may be read more than once, back and forth, so that a window holds what its chunks are made of and no
    /// more. It saves memory where chunks that follow one another are made of bytes that do not, as the shards of a grid
    /// that cuts rows are. Off by default: sources are read once, from front to back.
    pub reread: bool,
    /// The most bytes that both windows may take; no limit by default. More is an error before anything is read.
    pub window_limit: usize,
    /// How long to wait for the sink to give back one slot; 2 minutes by default.
    pub wait_limit: Duration,
    /// Ends the run early.
    pub cancel: Option<&'a Cancel>,
    /// What the report and the time limit go by.
    pub clock: &'a dyn Clock,
}

impl Default for Settings<'_> {
    fn default() -> Self {
        #[cfg(feature = "rayon")]
        let executor = &crate::run::Rayon;
        #[cfg(not(feature = "rayon"))]
        let executor = &Inline;
        Settings {
            executor,
            readers: &Inline,
            read_bytes: 32 << 20,
            reread: false,
            window_limit: usize::MAX,
            wait_limit: Duration::from_secs(120),
            cancel: None,
            clock: &SystemClock,
        }
    }
}

impl Settings<'_> {
    /// An error once the run has been cancelled.
    pub(super) fn check_cancelled(&self) -> Result<()> {
        match self.cancel.is_some_and(Cancel::is_cancelled) {
            true => Err(stopped("cancelled")),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for Settings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("threads", &self.executor.threads())
            .field("readers", &self.readers.threads())
            .field("read_bytes", &self.read_bytes)
            .field("reread", &self.reread)
            .field("window_limit", &self.window_limit)
            .field("wait_limit", &self.wait_limit)
            .field("cancel", &self.cancel)
            .finish_non_exhaustive()
    }
}

/// An [`Error::Staging`] whose numbers are filled in when the run ends.
pub(super) fn stopped(what: impl Into<String>) -> Error {
    Error::Staging { what: what.into(), submitted: 0, completed: 0, in_flight: 0 }
}
