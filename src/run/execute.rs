//! The fast executor: whole conversions, chunks of them, and tasks for threads. What a range takes is in [`super::job`].

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use kernels::Destination;

use super::job::Job;
use super::memory::{Split, writable, written};
use super::threads::Executor;
use crate::error::{Error, Result};
use crate::plan::{Misfit, Plan};

/// Less than this is done on the caller's thread: handing a task over costs as much as moving some 100 KiB.
const SMALL: usize = 256 << 10;

/// Tasks for each thread, so that one that is held up delays little.
const TASKS_PER_THREAD: usize = 4;

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
    pub fn execute_uninit<'d>(
        &self,
        source: &[u8],
        destination: &'d mut [MaybeUninit<u8>],
    ) -> Result<&'d mut [u8]> {
        #[cfg(feature = "rayon")]
        let executor = super::threads::Rayon;
        #[cfg(not(feature = "rayon"))]
        let executor = super::threads::Inline;
        self.execute_on(&executor, source, destination)
    }

    /// [`Plan::execute_uninit`] with the caller's threads.
    ///
    /// # Errors
    /// Also where the executor returns without having run every task.
    pub fn execute_on<'d>(
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
        if len <= SMALL || executor.threads() <= 1 {
            self.outcome(self.run(source, 0, 0, destination))?;
            return Ok(written(destination));
        }
        let range = self.task_bytes(len / (executor.threads() * TASKS_PER_THREAD));
        let split = Split::new(destination, range);
        let first = Mutex::new(None);
        executor.run(split.tasks(), &|task| {
            if let Some((begin, out)) = split.take(task)
                && let Some(misfit) = self.run(source, 0, begin, out)
            {
                let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                *first = Misfit::earlier(*first, misfit);
            }
        });
        if !split.all_taken() {
            let needed = format!("a call for each of {} tasks", split.tasks());
            return Err(Error::value("executor", "a return before every task had run", needed));
        }
        self.outcome(first.into_inner().unwrap_or_else(PoisonError::into_inner))?;
        Ok(written(destination))
    }

    /// [`Plan::execute`] with the caller's threads.
    ///
    /// # Errors
    /// As [`Plan::execute_on`].
    pub fn run_on(&self, executor: &dyn Executor, source: &[u8], destination: &mut [u8]) -> Result<()> {
        self.execute_on(executor, source, writable(destination)).map(|_| ())
    }

    /// Produces one range of the destination alone: `out` holds just these bytes.
    ///
    /// The range begins and ends on multiples of [`Plan::chunk_alignment`].
    ///
    /// # Errors
    /// Where it does not, or lies outside of the destination, or a slice has the wrong length; and as
    /// [`Plan::execute`] where integers of this range do not fit.
    pub fn execute_chunk(&self, source: &[u8], range: Range<usize>, out: &mut [u8]) -> Result<()> {
        self.execute_chunk_uninit(source, range, writable(out)).map(|_| ())
    }

    /// [`Plan::execute_chunk`] into memory that need not be initialised; gives it back initialised.
    pub fn execute_chunk_uninit<'d>(
        &self,
        source: &[u8],
        range: Range<usize>,
        out: &'d mut [MaybeUninit<u8>],
    ) -> Result<&'d mut [u8]> {
        self.check_source(source)?;
        self.check_chunk(&range)?;
        check_chunk_length(&range, out.len())?;
        self.outcome(self.run(source, 0, range.start, out))?;
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
        let needed = self.source_window(range.clone())?;
        check_chunk_length(&range, out.len())?;
        let given = window_begin..window_begin.saturating_add(window.len());
        if !needed.is_empty() && (needed.start < given.start || needed.end > given.end) {
            let needed = format!("bytes {needed:?}");
            return Err(Error::value("source window", format!("bytes {given:?}"), needed));
        }
        self.outcome(self.run(window, window_begin, range.start, writable(out)))
    }

    /// An error unless the range is one that can be produced alone.
    pub(super) fn check_chunk(&self, range: &Range<usize>) -> Result<()> {
        let (chunk_alignment, total) = (self.chunk_alignment().max(1), self.destination_bytes());
        let whole = |at: usize| at.is_multiple_of(chunk_alignment) || at == total;
        if range.start > range.end || range.end > total || !whole(range.start) || !whole(range.end) {
            let needed = format!("multiples of {chunk_alignment} inside of 0..{total}");
            return Err(Error::value("chunk", format!("{range:?}"), needed));
        }
        Ok(())
    }

    fn check_source(&self, source: &[u8]) -> Result<()> {
        if source.len() != self.source_bytes() {
            let (given, needed) = (source.len() as u64, self.source_bytes() as u64);
            return Err(Error::Length { what: "source", given, needed });
        }
        Ok(())
    }

    /// The bytes of a task near a size: whole turns of some loop of the destination, so that few leaves are
    /// cut, and whole granules.
    fn task_bytes(&self, near: usize) -> usize {
        let near = near.max(SMALL / 4).max(self.destination_bytes().div_ceil(super::memory::MAX_TASKS));
        let chunk_alignment = self.chunk_alignment().max(1);
        let steps = self.nests.iter().flat_map(|n| &n.loops).map(|l| self.linear(l.step) as usize);
        let turn = steps
            .filter(|&s| s <= near && s % chunk_alignment == 0)
            .max()
            .unwrap_or(chunk_alignment)
            .max(chunk_alignment);
        near.div_ceil(turn) * turn
    }

    fn outcome(&self, misfit: Option<Misfit>) -> Result<()> {
        misfit.map_or(Ok(()), |misfit| Err(misfit.error(self.op)))
    }

    /// Writes the bytes of the destination from `begin` on that `out` has room for, reading the source from
    /// `source_begin` on; the first value of them that does not fit.
    fn run(
        &self,
        source: &[u8],
        source_begin: usize,
        begin: usize,
        out: &mut [MaybeUninit<u8>],
    ) -> Option<Misfit> {
        if self.streams {
            self.kernels.non_temporal(out, |out| Job::new(self, source, source_begin, out).run(begin))
        } else {
            Job::new(self, source, source_begin, &mut Destination::cached(out)).run(begin)
        }
    }
}

fn check_chunk_length(range: &Range<usize>, given: usize) -> Result<()> {
    if given != range.len() {
        return Err(Error::Length { what: "chunk", given: given as u64, needed: range.len() as u64 });
    }
    Ok(())
}
