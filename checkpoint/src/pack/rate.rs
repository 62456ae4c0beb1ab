//! How fast packing will be, from a sample.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tilewright::Result;
use tilewright::run::{Executor, Pool};
use tilewright::stage::ReadAt;

use super::Packing;
use super::elements::Elements;
use crate::job::Job;

/// Parts of the sample for each thread.
const PARTS: usize = 4;

impl Packing<'_> {
    /// Bytes of elements that reading and converting, which go on at once, reach in a second on so many threads: the
    /// slower of both for what one slot holds of the largest tensor. Nothing is written, so a disk that takes results
    /// more slowly is not seen. None where there is nothing to pack.
    ///
    /// # Errors
    /// [`Error::Io`](tilewright::Error::Io) where the sample cannot be read, and what the plan refuses.
    pub fn sample_rate(&self, threads: usize) -> Result<Option<f64>> {
        let Some(job) = self.jobs.iter().max_by_key(|job| job.source_bytes()) else { return Ok(None) };
        let plan = &job.conversion.plan;
        let align = plan.chunk_alignment().max(1);
        let end = plan.destination_bytes().min(self.ring.slot_bytes / align * align);
        let window = plan.source_window(0..end)?;
        if window.is_empty() {
            return Ok(None);
        }
        let pool = Arc::new(Pool::new(threads)?);
        let elements = Elements::new(Arc::clone(&job.array), Some(Arc::clone(&pool)))?;
        let mut source = vec![0; window.len()];
        let started = Instant::now();
        elements.read_at(window.start as u64, &mut source)?;
        let reading = started.elapsed();
        let converting = convert(job, &source, window.start, 0..end, &pool)?;
        let seconds = reading.max(converting).as_secs_f64().max(1e-9);
        // As many bytes as the sample makes of the result, whatever its window holds besides.
        let bytes = job.source_bytes() as f64 * end as f64 / plan.destination_bytes() as f64;
        Ok(Some(bytes / seconds))
    }
}

/// How long a range of the destination takes from a window of the source, on all threads.
fn convert(job: &Job, window: &[u8], begin: usize, range: Range<usize>, pool: &Pool) -> Result<Duration> {
    let plan = &job.conversion.plan;
    let align = plan.chunk_alignment().max(1);
    let part = (range.len() / (pool.threads() * PARTS)).next_multiple_of(align).max(align);
    let mut out = vec![0; range.len()];
    let parts: Vec<_> = out.chunks_mut(part).map(|out| Mutex::new((out, Ok(())))).collect();
    let started = Instant::now();
    pool.run(parts.len(), &|i| {
        let mut one = parts[i].lock().unwrap_or_else(PoisonError::into_inner);
        let at = range.start + i * part;
        let (out, outcome) = &mut *one;
        *outcome = plan.execute_chunk_from_window(window, begin, at..at + out.len(), out);
    });
    let took = started.elapsed();
    for one in parts {
        one.into_inner().unwrap_or_else(PoisonError::into_inner).1?;
    }
    Ok(took)
}
