//! How large slots and windows may be, and which jobs go through them together.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use tilewright::stage::{Heap, HugePages, SlotAllocator, Source, Stager, Transfer};
use tilewright::{Error, Options, Result};

use super::elements::Elements;
use crate::job::{Conversion, InPanels, Job};

/// Slots of the ring: one is filled while another is written, and the third evens out what takes longer now and then.
const SLOTS: usize = 3;

/// The largest slots and windows, in bytes: larger ones are no faster.
const LARGE: usize = 32 << 20;

/// The smallest slots, in bytes. Below some tiles of output, each chunk costs more than what is in it.
const SMALL: usize = 64 << 10;

/// Slots of so many bytes lie on huge pages, of 2 MiB: a disk then takes them in a quarter of the requests.
const ON_HUGE_PAGES: usize = 8 << 20;

/// Bytes of memory beside slots and windows: the codes of a piece, and buffers of files.
const SCRATCH: u64 = 2 << 20;

/// Sizes within a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ring {
    pub(crate) slot_bytes: usize,
    pub(crate) read_bytes: usize,
    /// The most bytes that both windows may take.
    pub(crate) window_limit: u64,
}

/// The fewest columns of a panel: those of a tile, and of a group that shares a scale.
const NARROW: u64 = 32;

/// Wider panels are multiples of this many columns, which GGUF's blocks are.
const WIDE: u64 = 256;

/// Why jobs do not fit into a memory.
pub(crate) struct Short {
    /// Bytes with which all of them fit.
    needed: u64,
    /// The tensor that needs most of them, if it is one.
    name: String,
}

impl Short {
    /// The refusal of `given` bytes, of which things other than the ring take `others`.
    pub(crate) fn refused(&self, given: u64, others: u64) -> Error {
        let what =
            if self.name.is_empty() { "memory".to_owned() } else { format!("memory for `{}`", self.name) };
        let needed = self.needed.saturating_add(others);
        Error::value(what, format!("{given} bytes"), format!("{needed} bytes"))
    }
}

/// A ring, or why there is none in a memory.
type Fit = std::result::Result<Ring, Short>;

/// How many larger memories are tried before one is named that is enough.
const TRIES: usize = 64;

impl Ring {
    /// The largest slots with which every job fits into `memory` bytes. Jobs that do not fit as they are, because a
    /// slot is made of all rows of a large matrix, are replaced by those that read it in panels of columns.
    pub(crate) fn cut_to_fit(jobs: &mut [Job], memory: u64, options: &Options) -> Result<Fit> {
        let mut short = match Ring::attempt(jobs, memory, options)? {
            Ok(ring) => return Ok(Ok(ring)),
            Err(short) => short,
        };
        // Slots and panels are of other sizes in a larger memory: it is tried before it is named.
        for _ in 0..TRIES {
            match Ring::attempt(&mut jobs.to_vec(), short.needed, options)? {
                Ok(_) => break,
                Err(again) => short.needed = again.needed.max(short.needed + short.needed / 16),
            }
        }
        Ok(Err(short))
    }

    fn attempt(jobs: &mut [Job], memory: u64, options: &Options) -> Result<Fit> {
        if let Ok(ring) = Ring::fitting(jobs, memory)? {
            return Ok(Ok(ring));
        }
        // Room for slots of a useful size beside windows of half of the memory, or of what slots and scratch leave.
        let slot_bytes = usize::try_from(memory / 16).unwrap_or(usize::MAX).min(LARGE) & !4095;
        let slots = SLOTS as u64 * (slot_bytes as u64 + 4096) + SCRATCH;
        let limit = (memory / 2).min(memory.saturating_sub(slots));
        let read_bytes = usize::try_from(limit / 4).unwrap_or(usize::MAX).clamp(4096, LARGE) & !4095;
        let ring = Ring { slot_bytes, read_bytes, window_limit: limit };
        let (mut known, mut widths) = (HashMap::new(), HashMap::new());
        let mut cut = jobs.to_vec();
        for job in &mut cut {
            let key = Arc::as_ptr(&job.conversion);
            let width = match widths.get(&key) {
                Some(&width) => width,
                None => *widths.entry(key).or_insert(ring.panel_width(job, options, &mut known)?),
            };
            if let Some(width) = width {
                *job = job.in_panels(width, options, &mut known)?;
            }
        }
        let fitting = Ring::fitting(&cut, memory)?;
        if fitting.is_ok() {
            jobs.clone_from_slice(&cut);
        }
        Ok(fitting)
    }

    /// The columns of the widest panels with which a job fits, if it does not fit as it is.
    fn panel_width(&self, job: &Job, options: &Options, known: &mut InPanels) -> Result<Option<u64>> {
        let needed =
            |job: &Job| self.window_bytes(&Elements::new(Arc::clone(&job.array), None)?, &job.conversion);
        if needed(job)? <= self.window_limit {
            return Ok(None);
        }
        let columns = job.columns();
        let mut best: Option<(u64, u64)> = None;
        let mut panels = 2;
        while columns.div_ceil(panels) >= NARROW {
            let width = columns.div_ceil(panels);
            let width = width.next_multiple_of(if width < WIDE { NARROW } else { WIDE });
            // What cannot be planned from panels is refused for the memory that it needs.
            let Ok(windows) = job.in_panels(width, options, known).and_then(|job| needed(&job)) else {
                break;
            };
            if best.is_none_or(|best| windows < best.0) {
                best = Some((windows, width));
            }
            if windows <= self.window_limit {
                break;
            }
            panels *= 2;
        }
        Ok(best.map(|best| best.1))
    }

    /// The largest slots with which every job fits into `memory` bytes.
    fn fitting(jobs: &[Job], memory: u64) -> Result<Fit> {
        let mut of_each: HashMap<*const Conversion, &Job> = HashMap::new();
        for job in jobs {
            of_each.entry(Arc::as_ptr(&job.conversion)).or_insert(job);
        }
        let mut slot_bytes = usize::try_from(memory / 8).unwrap_or(usize::MAX).min(LARGE) & !4095;
        let mut least: Option<Short> = None;
        while slot_bytes >= SMALL {
            let slots = SLOTS as u64 * (slot_bytes as u64 + 4096) + SCRATCH;
            let window_limit = memory.saturating_sub(slots);
            let read_bytes = usize::try_from(window_limit / 2).unwrap_or(usize::MAX).min(LARGE) & !4095;
            let ring = Ring { slot_bytes, read_bytes: read_bytes.max(4096), window_limit };
            let mut worst = (0, "");
            for job in of_each.values() {
                worst = worst.max((
                    ring.window_bytes(&Elements::new(Arc::clone(&job.array), None)?, &job.conversion)?,
                    &job.name,
                ));
            }
            if worst.0 <= window_limit && window_limit >= 2 * 4096 {
                return Ok(Ok(ring));
            }
            let needed = slots + worst.0.max(2 * 4096);
            if least.as_ref().is_none_or(|least| needed < least.needed) {
                least = Some(Short { needed, name: worst.1.to_owned() });
            }
            slot_bytes = (slot_bytes / 2) & !4095;
        }
        let smallest = SLOTS as u64 * (SMALL as u64 + 4096) + SCRATCH + 2 * 4096;
        let smallest = Short { needed: smallest.max(8 * SMALL as u64), name: String::new() };
        Ok(Err(least.unwrap_or(smallest)))
    }

    /// Bytes of windows that one job alone needs. One whose smallest chunk is more than a slot needs more than there is.
    fn window_bytes(&self, elements: &Elements, conversion: &Conversion) -> Result<u64> {
        let align = conversion.plan.chunk_alignment();
        if align > self.slot_bytes {
            return Ok((SLOTS * align) as u64);
        }
        let source = Source::Ranges { reader: elements, begin: 0 };
        let transfer = Transfer { plan: &conversion.plan, source };
        let [a, b] = Stager::window_bytes(&[transfer], self.slot_bytes, self.read_bytes)?;
        Ok(a as u64 + b as u64)
    }

    /// The slots.
    pub(crate) fn stager(&self) -> Result<Stager> {
        let allocator: &mut dyn SlotAllocator =
            if self.slot_bytes < ON_HUGE_PAGES { &mut Heap } else { &mut HugePages };
        Stager::new(SLOTS, self.slot_bytes, allocator)
    }

    /// Runs of jobs that go through the ring together, in order: as many as windows have room for. What needs large
    /// windows may have to go alone, as windows of jobs that follow one another are there at the same time.
    pub(crate) fn batches(&self, transfers: &[Transfer<'_>]) -> Result<Vec<Range<usize>>> {
        let (mut batches, mut left) = (Vec::new(), Vec::new());
        left.push(0..transfers.len());
        while let Some(batch) = left.pop() {
            let [a, b] = Stager::window_bytes(&transfers[batch.clone()], self.slot_bytes, self.read_bytes)?;
            if batch.len() <= 1 || a as u64 + b as u64 <= self.window_limit {
                batches.push(batch);
                continue;
            }
            let middle = batch.start + batch.len() / 2;
            left.extend([middle..batch.end, batch.start..middle]);
        }
        Ok(batches)
    }
}
