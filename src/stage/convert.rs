//! Producing pieces: on all threads of an executor, from memory or from a window.

use std::ops::Range;

use super::read_ahead::Window;
use super::schedule::{Scheduled, Transfer};
use super::source::Source;
use super::tasks::Tasks;
use crate::error::Result;
use crate::plan::Plan;
use crate::run::Executor;
use crate::tuning::Tuning;

/// A chunk that one task makes.
struct Chunk<'m> {
    plan: &'m Plan,
    range: Range<usize>,
    out: &'m mut [u8],
    source: &'m [u8],
    /// The byte of the plan's source at which `source` begins; none where it is all of it.
    source_begin: Option<usize>,
}

impl Chunk<'_> {
    fn make(self) -> Result<()> {
        match self.source_begin {
            None => self.plan.execute_chunk(self.source, self.range, self.out),
            Some(begin) => self.plan.execute_chunk_from_window(self.source, begin, self.range, self.out),
        }
    }
}

/// Makes pieces, each into its memory; `bytes` are all of them. All of those that are read are in the window.
pub(super) fn produce<'m>(
    pieces: impl Iterator<Item = (&'m Scheduled, &'m mut [u8])>,
    bytes: usize,
    transfers: &'m [Transfer<'m>],
    window: Option<&'m Window>,
    executor: &dyn Executor,
) -> Result<()> {
    let mut tasks = Tasks::new();
    for (scheduled, memory) in pieces {
        let Transfer { plan, source } = &transfers[scheduled.piece.transfer];
        let (source, source_begin) = match source {
            Source::Memory(bytes) => (*bytes, None),
            Source::Ranges { begin, .. } => part(window, *begin),
        };
        let Tuning { tasks_per_thread, threads_from, .. } = *plan.tuning();
        let parts = executor.threads().max(1).saturating_mul(tasks_per_thread);
        // What is worth other threads at all is worth a task.
        let near = (bytes / parts).max(threads_from).max(1);
        let step = near.next_multiple_of(plan.chunk_alignment().max(1));
        let mut at = scheduled.piece.destination.start;
        for out in memory.chunks_mut(step) {
            if tasks.is_full() {
                tasks.run(executor, Chunk::make)?;
            }
            let range = at..at + out.len();
            at = range.end;
            tasks.push(Chunk { plan, range, out, source, source_begin });
        }
    }
    tasks.run(executor, Chunk::make)
}

/// The bytes of a window from the beginning of a source on, and the byte of the source with which they begin.
fn part(window: Option<&Window>, begin: u64) -> (&[u8], Option<usize>) {
    let Some(window) = window else { return (&[], Some(0)) };
    let skipped = begin.saturating_sub(window.begin()).min(window.bytes().len() as u64);
    (&window.bytes()[skipped as usize..], Some(window.begin().saturating_sub(begin) as usize))
}
