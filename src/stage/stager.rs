//! The stager: a ring of slots, and the loop that fills them while a sink moves the earlier ones.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::convert::produce;
use super::read_ahead::{Progress, ReadAhead, Window, reserve};
use super::report::Report;
use super::schedule::{Schedule, Transfer};
use super::settings::{Settings, stopped};
use super::sink::{Completion, Sink};
use super::slot::{Heap, MAX_SLOTS, Slot, SlotAllocator};
use crate::error::{Error, Result};

/// How often somebody who waits looks whether the run was cancelled.
const CANCEL_STEP: Duration = Duration::from_millis(20);

/// A ring of slots, kept from run to run: to make memory that devices read costs more than to use it.
///
/// See [the module](super) for an example.
pub struct Stager {
    /// The slots that are not with a sink.
    home: Vec<Slot>,
    slot_bytes: usize,
    ring: u64,
    next_ticket: u64,
    windows: Vec<Window>,
    report: Report,
}

impl Stager {
    /// Bytes of a slot where nobody has said otherwise: large enough that a submission's cost does not matter.
    pub const SLOT_BYTES: usize = 32 << 20;

    /// A ring of 1 to 64 slots of at least 4096 bytes each. With 2 slots one is filled while the other is moved; a third
    /// one evens out what takes longer now and then.
    ///
    /// # Errors
    /// Where the numbers are others, or the allocator has no such memory.
    pub fn new(slots: usize, slot_bytes: usize, allocator: &mut dyn SlotAllocator) -> Result<Stager> {
        static RINGS: AtomicU64 = AtomicU64::new(0);
        if !(1..=MAX_SLOTS).contains(&slots) {
            return Err(Error::value("slots", slots, format!("1 to {MAX_SLOTS}")));
        }
        if slot_bytes < super::slot::PAGE {
            return Err(Error::value("bytes of a slot", slot_bytes, "4096 or more"));
        }
        let ring = RINGS.fetch_add(1, Ordering::Relaxed);
        let slot = |_| {
            let memory = allocator.allocate(slot_bytes)?;
            if memory.len() < slot_bytes {
                let (given, needed) = (memory.len() as u64, slot_bytes as u64);
                return Err(Error::Length { what: "memory of a slot", given, needed });
            }
            Ok(Slot { memory, ring, ticket: 0, used: 0, pieces: Vec::new() })
        };
        let home = (0..slots).map(slot).collect::<Result<_>>()?;
        Ok(Stager { home, slot_bytes, ring, next_ticket: 0, windows: Vec::new(), report: Report::default() })
    }

    /// Three slots of 32 MiB of ordinary memory.
    ///
    /// # Errors
    /// Where there is no such memory.
    pub fn with_defaults() -> Result<Stager> {
        Stager::new(3, Stager::SLOT_BYTES, &mut Heap)
    }

    /// Bytes that each of the two windows would take in a run of these transfers through slots of `slot_bytes`, with
    /// [`Settings::read_bytes`] of `read_bytes` and without [`Settings::reread`]: what a run adds to the memory of its
    /// slots.
    ///
    /// # Errors
    /// As [`Stager::run`] before anything is submitted.
    pub fn window_bytes(
        transfers: &[Transfer<'_>],
        slot_bytes: usize,
        read_bytes: usize,
    ) -> Result<[usize; 2]> {
        Ok(Schedule::new(transfers, slot_bytes, read_bytes, false)?.window_bytes())
    }

    /// [`Stager::window_bytes`] of a run with [`Settings::reread`].
    ///
    /// # Errors
    /// As [`Stager::run`] before anything is submitted.
    pub fn reread_window_bytes(
        transfers: &[Transfer<'_>],
        slot_bytes: usize,
        read_bytes: usize,
    ) -> Result<[usize; 2]> {
        Ok(Schedule::new(transfers, slot_bytes, read_bytes, true)?.window_bytes())
    }

    /// Slots that are not with a sink: all, but for those that a sink has not given back after a run that failed. They
    /// come home when that sink gives them back during another run.
    pub fn slots_at_home(&self) -> usize {
        self.home.len()
    }

    /// What the last run did, also where it failed.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Converts tensors, one after another, and hands them to a sink. Every byte of every destination is in just one
    /// piece of one slot; pieces come in the order of the transfers, and of the bytes of each. A tensor of no bytes has
    /// no piece.
    ///
    /// # Errors
    /// Before anything is submitted: where a source or the slots are too small, or windows would pass
    /// [`Settings::window_limit`]. Later: errors of the plan, the source and the sink as they are, and
    /// [`Error::Staging`] where the run was cancelled or ran out of time. The sink has given back everything by then, or
    /// has had [`Settings::wait_limit`] for each slot.
    pub fn run(
        &mut self,
        transfers: &[Transfer<'_>],
        sink: &mut dyn Sink,
        settings: &Settings<'_>,
    ) -> Result<Report> {
        let started = settings.clock.now();
        self.report = Report::default();
        let schedule = Schedule::new(transfers, self.slot_bytes, settings.read_bytes, settings.reread)?;
        self.report.window_bytes = reserve(&mut self.windows, &schedule, settings, &mut Heap)?;
        let progress = Progress::default();
        let mut windows = std::mem::take(&mut self.windows);
        let first_ticket = self.next_ticket;
        let outcome = thread::scope(|scope| {
            let ahead = ReadAhead::start(scope, &schedule, transfers, settings, &mut windows, &progress)?;
            let mut run = Run {
                ring: self,
                sink,
                settings,
                transfers,
                schedule: &schedule,
                ahead,
                first_ticket,
                in_flight: 0,
                completed: 0,
            };
            let outcome = run.pump();
            let outcome = run.finish(outcome);
            run.ahead.stop(&mut windows);
            outcome
        });
        self.windows = windows;
        self.report.reading = progress.time();
        self.report.bytes_read = progress.bytes();
        self.report.wall = settings.clock.now().saturating_sub(started);
        outcome.map(|()| self.report)
    }
}

impl fmt::Debug for Stager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stager")
            .field("slots_at_home", &self.home.len())
            .field("slot_bytes", &self.slot_bytes)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

/// One run.
struct Run<'r, 'scope> {
    ring: &'r mut Stager,
    sink: &'r mut dyn Sink,
    settings: &'r Settings<'r>,
    transfers: &'r [Transfer<'r>],
    schedule: &'r Schedule,
    ahead: ReadAhead<'scope>,
    /// Slots with lower tickets come from earlier runs.
    first_ticket: u64,
    in_flight: u64,
    completed: u64,
}

impl Run<'_, '_> {
    /// Fills and submits every slot, then waits until all are back.
    fn pump(&mut self) -> Result<()> {
        for pieces in &self.schedule.slots {
            self.settings.check_cancelled()?;
            self.poll()?;
            let mut slot = self.free_slot()?;
            if let Err(error) =
                self.fill(&mut slot, pieces.clone()).and_then(|()| self.settings.check_cancelled())
            {
                self.ring.home.push(slot);
                return Err(error);
            }
            self.submit(slot)?;
        }
        while self.in_flight > 0 {
            self.wait()?;
        }
        Ok(())
    }

    /// Takes back what has arrived.
    fn poll(&mut self) -> Result<()> {
        let clock = self.settings.clock;
        let started = clock.now();
        while let Some(completion) = self.sink.poll() {
            self.take_back(completion)?;
        }
        self.ring.report.waiting_for_sink += clock.now().saturating_sub(started);
        Ok(())
    }

    /// A slot that nobody uses.
    fn free_slot(&mut self) -> Result<Slot> {
        loop {
            if let Some(slot) = self.ring.home.pop() {
                return Ok(slot);
            }
            if self.in_flight == 0 {
                return Err(stopped("no slot is at home: earlier runs left all with their sinks"));
            }
            self.wait()?;
        }
    }

    /// Waits for one slot to come back.
    fn wait(&mut self) -> Result<()> {
        let clock = self.settings.clock;
        let started = clock.now();
        let waited = || clock.now().saturating_sub(started);
        let outcome = loop {
            if let Err(error) = self.settings.check_cancelled() {
                break Err(error);
            }
            let left = self.settings.wait_limit.saturating_sub(waited());
            let step = if self.settings.cancel.is_some() { left.min(CANCEL_STEP) } else { left };
            let asked = clock.now();
            if let Some(completion) = self.sink.wait(step) {
                break self.take_back(completion);
            }
            if clock.now().saturating_sub(asked) < step {
                break Err(stopped("the sink gave up waiting, but has not given back all slots"));
            }
            if waited() >= self.settings.wait_limit {
                break Err(stopped(format!("no slot came back within {:?}", self.settings.wait_limit)));
            }
        };
        self.ring.report.waiting_for_sink += waited();
        outcome
    }

    /// Puts a slot back into the ring; its error, if it is one of this run.
    fn take_back(&mut self, Completion { slot, outcome }: Completion) -> Result<()> {
        if slot.ring != self.ring.ring {
            // Of another stager, which has ended or will ask for it in vain.
            return Ok(());
        }
        let of_this_run = slot.ticket >= self.first_ticket;
        self.ring.home.push(slot);
        if !of_this_run {
            return Ok(());
        }
        self.in_flight -= 1;
        self.completed += 1;
        outcome
    }

    /// Produces the pieces of a slot, group by group of those made from one window.
    fn fill(&mut self, slot: &mut Slot, pieces: Range<usize>) -> Result<()> {
        let pieces = &self.schedule.pieces[pieces];
        slot.pieces.clear();
        slot.pieces.extend(pieces.iter().map(|scheduled| scheduled.piece.clone()));
        slot.used = pieces.last().map_or(0, |scheduled| scheduled.piece.in_slot().end);
        let (clock, report) = (self.settings.clock, &mut self.ring.report);
        let mut rest = &mut slot.memory[..slot.used];
        let mut at = 0;
        for group in pieces.chunk_by(|a, b| a.read == b.read) {
            let started = clock.now();
            let window = group[0].read.map(|read| self.ahead.window(read)).transpose()?;
            let read = clock.now();
            report.waiting_for_source += read.saturating_sub(started);
            let end = group.last().map_or(at, |scheduled| scheduled.piece.in_slot().end);
            let mut memory = rest.split_off_mut(..end - at).unwrap_or_default();
            let bytes = memory.len();
            let parts = group.iter().map_while(|scheduled| {
                let gap = memory.split_off_mut(..scheduled.piece.offset - at)?;
                gap.fill(0);
                at = scheduled.piece.in_slot().end;
                Some((scheduled, memory.split_off_mut(..scheduled.piece.destination.len())?))
            });
            produce(parts, bytes, self.transfers, window, self.settings.executor)?;
            report.converting += clock.now().saturating_sub(read);
        }
        report.bytes += pieces.iter().map(|scheduled| scheduled.piece.destination.len() as u64).sum::<u64>();
        Ok(())
    }

    fn submit(&mut self, mut slot: Slot) -> Result<()> {
        slot.ticket = self.ring.next_ticket;
        self.ring.next_ticket += 1;
        let clock = self.settings.clock;
        let started = clock.now();
        let outcome = self.sink.submit(slot);
        self.ring.report.submitting += clock.now().saturating_sub(started);
        match outcome {
            Ok(()) => {
                self.in_flight += 1;
                self.ring.report.slots += 1;
                Ok(())
            }
            Err(refused) => {
                self.ring.home.push(refused.slot);
                Err(*refused.error)
            }
        }
    }

    /// After an error takes back whatever is in flight, and completes the error's numbers.
    fn finish(&mut self, outcome: Result<()>) -> Result<()> {
        let Err(error) = outcome else { return Ok(()) };
        let mut back = Vec::with_capacity(MAX_SLOTS);
        if self.in_flight > 0 {
            let clock = self.settings.clock;
            let started = clock.now();
            self.sink.drain(self.settings.wait_limit, &mut |completion| back.push(completion));
            self.ring.report.waiting_for_sink += clock.now().saturating_sub(started);
        }
        for completion in back {
            // The first error is the one that is told.
            let _ = self.take_back(completion);
        }
        let (submitted, completed, in_flight) = (self.ring.report.slots, self.completed, self.in_flight);
        Err(match error {
            Error::Staging { what, .. } => Error::Staging { what, submitted, completed, in_flight },
            error if in_flight == 0 => error,
            error => Error::Staging { what: error.to_string(), submitted, completed, in_flight },
        })
    }
}
