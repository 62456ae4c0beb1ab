//! A sink of a given bandwidth and latency, for tests and for planning.

use std::fmt;
use std::time::Duration;

use super::clock::Clock;
use super::memory::Memory;
use super::sink::{Completion, Consumer, Refused, Sink};
use super::slot::{MAX_SLOTS, Slot};
use crate::error::{Error, Result};

/// In which order a [`Link`] gives slots back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As they were submitted.
    Submitted,
    /// The one that was submitted last comes first.
    Reversed,
    /// Any, drawn from this seed.
    Shuffled(u64),
}

/// Moves slots at so many bytes per second, one after another; each is back a latency later. It reads a slot's bytes only
/// at that moment, as a device might. On request it fails, hangs, reorders and spoils the slots that it gives back.
///
/// ```
/// use std::time::Duration;
/// use tilewright::stage::{Link, Order, VirtualClock};
///
/// let clock = VirtualClock::default();
/// let link = Link::new(&clock, 25e9, Duration::from_micros(10)).with_order(Order::Reversed).fail_at_submit(7);
/// # drop(link);
/// ```
pub struct Link<'c> {
    clock: &'c dyn Clock,
    bytes_per_second: f64,
    latency: Duration,
    order: Order,
    fail_at_submit: Option<u64>,
    fail_at_completion: Option<u64>,
    hang_at: Option<u64>,
    poison: Option<u8>,
    memory: Option<Memory>,
    /// Slots with the numbers of their submissions and the times at which they arrive.
    flight: Vec<(Slot, u64, Duration)>,
    submitted: u64,
    /// When the link is free again.
    free_at: Duration,
}

impl<'c> Link<'c> {
    /// A link that forgets what it moves.
    pub fn new(clock: &'c dyn Clock, bytes_per_second: f64, latency: Duration) -> Link<'c> {
        Link {
            clock,
            bytes_per_second,
            latency,
            order: Order::Submitted,
            fail_at_submit: None,
            fail_at_completion: None,
            hang_at: None,
            poison: None,
            memory: None,
            flight: Vec::with_capacity(MAX_SLOTS),
            submitted: 0,
            free_at: Duration::ZERO,
        }
    }

    /// Gives slots back in this order.
    pub fn with_order(self, order: Order) -> Link<'c> {
        Link { order, ..self }
    }

    /// Refuses submission `k`, counted from 0.
    pub fn fail_at_submit(self, k: u64) -> Link<'c> {
        Link { fail_at_submit: Some(k), ..self }
    }

    /// Gives the slot of submission `k` back with an error.
    pub fn fail_at_completion(self, k: u64) -> Link<'c> {
        Link { fail_at_completion: Some(k), ..self }
    }

    /// Never gives back the slots of submission `k` and of later ones.
    pub fn hang_at(self, k: u64) -> Link<'c> {
        Link { hang_at: Some(k), ..self }
    }

    /// Overwrites every slot with this byte when it has arrived.
    pub fn with_poison(self, byte: u8) -> Link<'c> {
        Link { poison: Some(byte), ..self }
    }

    /// Keeps what it moves.
    pub fn with_memory(self, memory: Memory) -> Link<'c> {
        Link { memory: Some(memory), ..self }
    }

    /// What has arrived, if it is kept.
    pub fn memory(&self) -> Option<&Memory> {
        self.memory.as_ref()
    }

    /// Slots that are with the link.
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// Which of the slots comes next, of those that arrive by some time.
    fn next(&mut self, by: Duration) -> Option<usize> {
        let hang_at = self.hang_at.unwrap_or(u64::MAX);
        let mut arriving = (0..self.flight.len()).filter(|&i| {
            let (_, number, arrives) = &self.flight[i];
            *number < hang_at && *arrives <= by
        });
        match &mut self.order {
            Order::Submitted => arriving.next(),
            Order::Reversed => arriving.next_back(),
            Order::Shuffled(seed) => {
                *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let count = arriving.clone().count();
                arriving.nth((*seed >> 33) as usize % count.max(1))
            }
        }
    }

    fn arrive(&mut self, which: usize) -> Completion {
        let (mut slot, number, _) = self.flight.remove(which);
        let mut outcome = match &mut self.memory {
            Some(memory) => memory.consume(&slot),
            None => Ok(()),
        };
        if self.fail_at_completion == Some(number) {
            outcome = Err(failure(format!("a link that fails at completion {number}")));
        }
        if let Some(byte) = self.poison {
            slot.memory_mut().fill(byte);
        }
        Completion { slot, outcome }
    }
}

fn failure(given: String) -> Error {
    Error::value("sink", given, "one that works")
}

impl Sink for Link<'_> {
    fn submit(&mut self, slot: Slot) -> Result<(), Refused> {
        let number = self.submitted;
        self.submitted += 1;
        if self.fail_at_submit == Some(number) {
            let error = Box::new(failure(format!("a link that fails at submission {number}")));
            return Err(Refused { slot, error });
        }
        let seconds = slot.bytes().len() as f64 / self.bytes_per_second;
        let moving = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        self.free_at = self.free_at.max(self.clock.now()).saturating_add(moving);
        self.flight.push((slot, number, self.free_at.saturating_add(self.latency)));
        Ok(())
    }

    fn poll(&mut self) -> Option<Completion> {
        let which = self.next(self.clock.now())?;
        Some(self.arrive(which))
    }

    fn wait(&mut self, limit: Duration) -> Option<Completion> {
        if self.flight.is_empty() {
            return None;
        }
        let now = self.clock.now();
        let by = now.saturating_add(limit);
        let Some(which) = self.next(by) else {
            self.clock.sleep(limit);
            return None;
        };
        let (_, _, arrives) = self.flight[which];
        if arrives > now {
            self.clock.sleep(arrives - now);
        }
        Some(self.arrive(which))
    }
}

impl fmt::Debug for Link<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("bytes_per_second", &self.bytes_per_second)
            .field("latency", &self.latency)
            .field("order", &self.order)
            .field("in_flight", &self.flight.len())
            .finish_non_exhaustive()
    }
}
