//! The fast executor: whole conversions, chunks of them, and tasks for threads. What a chunk takes is in [`super::task`].

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use kernels::{Destination, MAX_OUTER_LOOPS};

use super::clip::{Chunk, linear};
use super::destination::{writable, written};
use super::parts::{self, MAX_PARTS};
use super::reads::reads;
use super::share::{Bands, Deal, Places, Share};
use super::task::Task;
use super::threads::Executor;
use crate::error::{Error, Result};
use crate::plan::ir::{Loop, ScheduledNest, WholeCall};
use crate::plan::{Op, OutOfRange, Plan};

/// Running: whole conversions, on one thread or several, and chunks.
impl Plan {
    /// Converts: `source` holds all buffers of the source, one after another; so does `destination` after.
    ///
    /// Runs on the current rayon pool where the feature `rayon` is on, else on the caller's thread; small
    /// tensors always on the caller's thread.
    ///
    /// # Errors
    /// Where a slice has another length than [`Plan::source_bytes`] or [`Plan::destination_bytes`]; nothing is
    /// written then. [`Error::OutOfRange`] where integers do not fit their destination, unless
    /// [`crate::Options::saturate`] is set: it names the one that comes first in the destination, whatever the number of
    /// threads. The destination has been written then, with the nearest value in each place.
    pub fn execute(&self, source: &[u8], destination: &mut [u8]) -> Result<()> {
        self.execute_uninit(source, writable(destination)).map(|_| ())
    }

    /// [`Plan::execute`] into memory that need not be initialised; gives it back initialised.
    ///
    /// # Errors
    /// As [`Plan::execute`].
    pub fn execute_uninit<'d>(
        &self,
        source: &[u8],
        destination: &'d mut [MaybeUninit<u8>],
    ) -> Result<&'d mut [u8]> {
        #[cfg(feature = "rayon")]
        let executor = super::threads::Rayon;
        #[cfg(not(feature = "rayon"))]
        let executor = super::threads::Inline;
        self.execute_uninit_on(&executor, source, destination)
    }

    /// [`Plan::execute`] with the caller's threads.
    ///
    /// # Errors
    /// As [`Plan::execute`], and where the executor returns before every task has run to its end.
    pub fn execute_on(&self, executor: &dyn Executor, source: &[u8], destination: &mut [u8]) -> Result<()> {
        self.execute_uninit_on(executor, source, writable(destination)).map(|_| ())
    }

    /// [`Plan::execute_uninit`] with the caller's threads.
    ///
    /// # Errors
    /// As [`Plan::execute_on`].
    pub fn execute_uninit_on<'d>(
        &self,
        executor: &dyn Executor,
        source: &[u8],
        destination: &'d mut [MaybeUninit<u8>],
    ) -> Result<&'d mut [u8]> {
        self.check_source(source)?;
        let len = destination.len();
        if len != self.destination_bytes() {
            let (given, needed) = (len as u64, self.destination_bytes() as u64);
            return Err(Error::Length { what: "destination", given, needed });
        }
        let threads = if len <= self.tuning.threads_from { 1 } else { executor.threads() };
        if threads <= 1 {
            self.outcome(self.run(source, 0, Share::Range(Chunk::all(self), destination)))?;
            return Ok(written(destination));
        }
        let first = Mutex::new(None);
        parts::each(executor, self.shares(destination, threads)?, |share| {
            if let Some(out_of_range) = self.run(source, 0, share) {
                let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                *first = OutOfRange::earlier(*first, out_of_range);
            }
        })
        .map_err(|(_, error)| error)?;
        self.outcome(first.into_inner().unwrap_or_else(PoisonError::into_inner))?;
        Ok(written(destination))
    }

    /// Produces one range of the destination alone: `out` holds just these bytes.
    ///
    /// The range begins and ends on multiples of [`Plan::chunk_alignment`], or at the end of the destination.
    ///
    /// # Errors
    /// Where it does not, or lies outside of the destination, or a slice has the wrong length; nothing is written then.
    /// As [`Plan::execute`] where integers of this range do not fit.
    pub fn execute_chunk(&self, source: &[u8], range: Range<usize>, out: &mut [u8]) -> Result<()> {
        self.execute_chunk_uninit(source, range, writable(out)).map(|_| ())
    }

    /// [`Plan::execute_chunk`] into memory that need not be initialised; gives it back initialised.
    ///
    /// # Errors
    /// As [`Plan::execute_chunk`].
    pub fn execute_chunk_uninit<'d>(
        &self,
        source: &[u8],
        range: Range<usize>,
        out: &'d mut [MaybeUninit<u8>],
    ) -> Result<&'d mut [u8]> {
        self.check_source(source)?;
        let chunk = Chunk::new(self, &range)?;
        if out.len() != chunk.len() {
            let (given, needed) = (out.len() as u64, chunk.len() as u64);
            return Err(Error::Length { what: "chunk", given, needed });
        }
        self.outcome(self.run(source, 0, Share::Range(chunk, out)))?;
        Ok(written(out))
    }

    /// [`Plan::execute_chunk`] from a part of the source: `window` is its bytes from byte `window_begin` on, and holds
    /// at least those that [`Plan::source_window`] names for the range. So a source need not be in memory whole.
    ///
    /// # Errors
    /// [`Error::Value`] where the window does not hold these bytes; and as [`Plan::execute_chunk`].
    pub fn execute_chunk_from_window(
        &self,
        window: &[u8],
        window_begin: usize,
        range: Range<usize>,
        out: &mut [u8],
    ) -> Result<()> {
        let chunk = Chunk::new(self, &range)?;
        let needed = reads(self, chunk);
        if out.len() != chunk.len() {
            let (given, needed) = (out.len() as u64, chunk.len() as u64);
            return Err(Error::Length { what: "chunk", given, needed });
        }
        let given = window_begin..window_begin.saturating_add(window.len());
        if !needed.is_empty() && (needed.start < given.start || needed.end > given.end) {
            let needed = format!("bytes {needed:?}");
            return Err(Error::value("source window", format!("bytes {given:?}"), needed));
        }
        self.outcome(self.run(window, window_begin, Share::Range(chunk, writable(out))))
    }

    /// The bytes of the source, from the first to behind the last, that a chunk of the destination is made of;
    /// empty where it is all padding.
    ///
    /// It is exact, except where the source deals its units out of order (the pages of banks, the shards of a
    /// reinterpreted grid): then units that the chunk does not read may lie at its ends.
    ///
    /// # Errors
    /// Where the range is none that [`Plan::execute_chunk`] takes.
    pub fn source_window(&self, range: Range<usize>) -> Result<Range<usize>> {
        Ok(reads(self, Chunk::new(self, &range)?))
    }

    fn check_source(&self, source: &[u8]) -> Result<()> {
        if source.len() != self.source_bytes() {
            let (given, needed) = (source.len() as u64, self.source_bytes() as u64);
            return Err(Error::Length { what: "source", given, needed });
        }
        Ok(())
    }

    /// What each task writes: a range of the destination or, where blocks go to several units that are dealt to buffers, units
    /// that follow one another, with a range of each buffer. A range alone has units from all over the source, an element of
    /// each of its lines.
    fn shares<'d>(&self, destination: &'d mut [MaybeUninit<u8>], threads: usize) -> Result<Vec<Share<'d>>> {
        let (len, tasks) = (destination.len(), self.tasks(threads));
        let to_units = |nest: &ScheduledNest| {
            nest.loops.iter().zip(&nest.schedule.blocks).any(|(l, &n)| l.step[3] != 0 && n > 1)
        };
        if self.nests.iter().any(to_units)
            && let Some(deal) = Deal::new(&self.dst.space, tasks.min(len / self.tuning.task))
        {
            return Ok(deal.shares(destination));
        }
        if let Some(bands) = Bands::new(self, tasks) {
            return Ok(bands.shares(destination));
        }
        let bytes = self.task_bytes(len / tasks);
        let share = |(task, range): (usize, &'d mut [MaybeUninit<u8>])| {
            let begin = task * bytes;
            Ok(Share::Range(Chunk::new(self, &(begin..begin + range.len()))?, range))
        };
        destination.chunks_mut(bytes).enumerate().map(share).collect()
    }

    /// How many tasks threads get: several for each, so that one that is held up delays little; but one for each where the
    /// source runs across them, and a task would read less than a segment of every run.
    fn tasks(&self, threads: usize) -> usize {
        let many = threads.saturating_mul(self.tuning.tasks_per_thread);
        let outermost = self.nests.iter().filter_map(|nest| nest.loops.first());
        let mut across = outermost.filter(|l| l.step[0] == 0 && l.step[1] != 0);
        let run = |l: &Loop| (l.n / many as u64).max(1).saturating_mul(l.step[1].unsigned_abs());
        if across.any(|l| run(l) < self.tuning.segment as u64) { threads } else { many }
    }

    /// The bytes of a task near a size: whole iterations of some loop of the destination, so that few leaves are
    /// cut, and a multiple of the chunk alignment.
    fn task_bytes(&self, near: usize) -> usize {
        let near = near.max(self.tuning.task).max(self.destination_bytes().div_ceil(MAX_PARTS));
        let chunk_alignment = self.chunk_alignment().max(1);
        let steps = self.nests.iter().flat_map(|n| &n.loops).map(|l| linear(self, l.step) as usize);
        let whole = steps.filter(|&s| s <= near && s % chunk_alignment == 0);
        let iteration = whole.max().unwrap_or(chunk_alignment).max(chunk_alignment);
        near.div_ceil(iteration) * iteration
    }

    /// Makes the whole destination by one kernel call, if there is one that does: to find it anew takes longer than to move a
    /// small tensor.
    fn is_done_by_one_call(&self, chunk: &Chunk, source: &[u8], bytes: &mut [MaybeUninit<u8>]) -> bool {
        if chunk.len() != self.destination_bytes() {
            return false;
        }
        let Some(call) = self.whole_call.get_or_init(|| Task::whole_call(self)) else { return false };
        let WholeCall { from, to, window, outer, taken, hints } = call;
        let (outer, dst) = (&outer[MAX_OUTER_LOOPS - taken..], &mut Destination::cached(bytes));
        match self.op {
            Op::Copy(size) => self.kernels.copy_loops(size, source, *from, dst, *to, window, outer, *hints),
            Op::Convert(number, into) => {
                self.kernels.convert_loops(number, into, source, *from, dst, *to, window, outer, *hints);
            }
            Op::Cast { .. } => return false,
        }
        true
    }

    fn outcome(&self, out_of_range: Option<OutOfRange>) -> Result<()> {
        out_of_range.map_or(Ok(()), |value| Err(value.error(self.op)))
    }

    /// Writes a share of the destination, reading the source from `source_begin` on; the first value of it that its destination
    /// cannot hold.
    fn run(&self, source: &[u8], source_begin: usize, mut share: Share<'_>) -> Option<OutOfRange> {
        if let Share::Range(chunk, bytes) = &mut share
            && source_begin == 0
            && self.is_done_by_one_call(chunk, source, bytes)
        {
            return None;
        }
        self.run_task(source, source_begin, share)
    }

    /// [`Plan::run`] of what takes more than a call.
    // Not inlined: a task has many KiB on the stack, each page of which is touched where its function is entered. A fifth of the samples of a
    // 32x32 tensor stood there (`perf record`, Zen 4).
    #[inline(never)]
    fn run_task(&self, source: &[u8], source_begin: usize, share: Share<'_>) -> Option<OutOfRange> {
        match share {
            Share::Range(chunk, bytes) => {
                let places = Places::From(chunk.begin() as i64);
                let write = |out: &mut Destination<'_>| {
                    Task::new(self, source, source_begin, out, places).chunk(chunk)
                };
                if self.streams {
                    self.kernels.non_temporal(bytes, write)
                } else {
                    write(&mut Destination::cached(bytes))
                }
            }
            Share::Band(band, mut ranges) => {
                let write = |out: &mut Destination<'_>| {
                    Task::new(self, source, source_begin, out, band.places()).band(band)
                };
                self.write_ranges(&mut ranges, write)
            }
            Share::Dealt(dealt, mut ranges) => {
                let write = |out: &mut Destination<'_>| {
                    Task::new(self, source, source_begin, out, dealt.places()).dealt(dealt)
                };
                self.write_ranges(&mut ranges, write)
            }
        }
    }

    /// Lets `write` write a destination of several ranges.
    fn write_ranges<'d, T>(
        &self,
        ranges: &'d mut [&'d mut [MaybeUninit<u8>]],
        write: impl FnOnce(&mut Destination<'_>) -> T,
    ) -> T {
        if self.streams {
            self.kernels.non_temporal_ranges(ranges, write)
        } else {
            write(&mut Destination::cached_ranges(ranges))
        }
    }
}
