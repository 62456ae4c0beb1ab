//! What a run did, and which side of it waited for which.

use std::fmt;
use std::time::Duration;

/// The three sides of staging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Reading the source.
    Source,
    /// Converting chunks into slots.
    Conversion,
    /// Moving slots to where they belong.
    Sink,
}

/// What a run did. Times are those of the thread that called, but for `reading`, which goes on beside the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Bytes of destinations that were produced.
    pub bytes: u64,
    /// Bytes that were read from sources that are read by ranges; each byte counts as often as it was read.
    pub bytes_read: u64,
    /// Slots that were submitted.
    pub slots: u64,
    /// Bytes of memory for windows of sources, beside the ring.
    pub window_bytes: u64,
    /// From the first moment to the last.
    pub wall: Duration,
    /// The reading thread inside of reads.
    pub reading: Duration,
    /// Producing chunks.
    pub converting: Duration,
    /// Waiting for a window of the source to be read.
    pub waiting_for_source: Duration,
    /// Inside of [`super::Sink::poll`] and [`super::Sink::wait`]: waiting for the sink to give slots back.
    pub waiting_for_sink: Duration,
    /// Inside of [`super::Sink::submit`].
    pub submitting: Duration,
}

impl Report {
    /// The side on which most of the time went: the one to make faster.
    pub fn slowest(&self) -> Side {
        let sides = [
            (self.waiting_for_source, Side::Source),
            (self.converting, Side::Conversion),
            (self.waiting_for_sink + self.submitting, Side::Sink),
        ];
        sides.into_iter().max_by_key(|(time, _)| *time).map_or(Side::Conversion, |(_, side)| side)
    }
}

impl fmt::Display for Report {
    /// One line: bytes and slots, the times, and the slowest side.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes in {} slots in {:.3?}: reading {:.3?} (waited for {:.3?}), converting {:.3?}, submitting {:.3?}, \
             waiting for the sink {:.3?}; the slowest side is the {}",
            self.bytes,
            self.slots,
            self.wall,
            self.reading,
            self.waiting_for_source,
            self.converting,
            self.submitting,
            self.waiting_for_sink,
            match self.slowest() {
                Side::Source => "source",
                Side::Conversion => "conversion",
                Side::Sink => "sink",
            }
        )
    }
}
