//! Who takes full slots: the trait, and the two ways to make a sink of something that just consumes bytes.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::slot::{MAX_SLOTS, Slot};
use crate::error::{Error, Result};

/// A slot that comes back, and how its journey ended.
#[derive(Debug)]
pub struct Completion {
    /// The slot, which is free again.
    pub slot: Slot,
    /// Whether its bytes arrived.
    pub outcome: Result<()>,
}

/// A slot that a sink did not take.
#[derive(Debug)]
pub struct Refused {
    /// The slot.
    pub slot: Slot,
    /// Why.
    pub error: Box<Error>,
}

/// Moves slots to where their pieces belong.
///
/// A sink owns each slot from [`Sink::submit`] until it returns it from [`Sink::poll`] or [`Sink::wait`], in any order.
/// One that still moves bytes when it is dropped waits for them, or leaks the slots.
pub trait Sink {
    /// Begins to move the bytes of a slot, and returns soon.
    ///
    /// # Errors
    /// Where it cannot; the slot comes back at once.
    fn submit(&mut self, slot: Slot) -> Result<(), Refused>;

    /// A slot that has become free, if there is one.
    fn poll(&mut self) -> Option<Completion>;

    /// A slot that has become free, for which it waits for at most `limit` without spinning. None: the time has passed,
    /// or no slot is with the sink.
    fn wait(&mut self, limit: Duration) -> Option<Completion>;

    /// Hands back every slot, waiting for at most `limit` for each.
    fn drain(&mut self, limit: Duration, back: &mut dyn FnMut(Completion)) {
        while let Some(completion) = self.wait(limit) {
            back(completion);
        }
    }
}

/// Takes the bytes of slots, one after another; by the time it returns it no longer needs them. Also any closure.
pub trait Consumer {
    /// Takes what is in a slot.
    ///
    /// # Errors
    /// Where it cannot; the run ends with this error.
    fn consume(&mut self, slot: &Slot) -> Result<()>;
}

impl<F: FnMut(&Slot) -> Result<()>> Consumer for F {
    fn consume(&mut self, slot: &Slot) -> Result<()> {
        self(slot)
    }
}

/// A sink that consumes each slot while it is submitted, on the thread of the stager.
///
/// ```
/// use tilewright::stage::{Blocking, Slot};
///
/// let mut bytes = 0;
/// let sink = Blocking::new(|slot: &Slot| {
///     bytes += slot.bytes().len();
///     Ok(())
/// });
/// # drop(sink);
/// ```
#[derive(Debug)]
pub struct Blocking<C> {
    consumer: C,
    done: VecDeque<Slot>,
}

impl<C: Consumer> Blocking<C> {
    /// A sink of this consumer.
    pub fn new(consumer: C) -> Blocking<C> {
        Blocking { consumer, done: VecDeque::with_capacity(MAX_SLOTS) }
    }

    /// The consumer.
    pub fn consumer(&self) -> &C {
        &self.consumer
    }

    /// The consumer, for good.
    pub fn into_consumer(self) -> C {
        self.consumer
    }
}

impl<C: Consumer> Sink for Blocking<C> {
    fn submit(&mut self, slot: Slot) -> Result<(), Refused> {
        match self.consumer.consume(&slot) {
            Ok(()) => {
                self.done.push_back(slot);
                Ok(())
            }
            Err(error) => Err(Refused { slot, error: Box::new(error) }),
        }
    }

    fn poll(&mut self) -> Option<Completion> {
        self.done.pop_front().map(|slot| Completion { slot, outcome: Ok(()) })
    }

    fn wait(&mut self, _limit: Duration) -> Option<Completion> {
        self.poll()
    }
}

/// A sink that consumes slots on a thread of its own, so that a consumer that blocks (a file, a socket, a copy) goes on
/// while the next slots are filled.
///
/// ```
/// use tilewright::stage::{Background, Memory};
///
/// let sink = Background::new(Memory::new([1024])?)?;
/// assert_eq!(sink.finish()?.tensors()[0], [0; 1024]);
/// # Ok::<(), tilewright::Error>(())
/// ```
pub struct Background<C> {
    // Closed to end the thread.
    full: Option<SyncSender<Slot>>,
    done: Receiver<Completion>,
    inside: usize,
    thread: Option<JoinHandle<C>>,
}

impl<C: Consumer + Send + 'static> Background<C> {
    /// Starts the thread.
    ///
    /// # Errors
    /// Where the system refuses to.
    pub fn new(mut consumer: C) -> Result<Background<C>> {
        // No ring has more slots, so neither channel ever makes a sender wait.
        let (full, slots) = sync_channel::<Slot>(MAX_SLOTS);
        let (back, done) = sync_channel(MAX_SLOTS);
        let work = move || {
            for slot in slots {
                let outcome = consumer.consume(&slot);
                if back.send(Completion { slot, outcome }).is_err() {
                    break;
                }
            }
            consumer
        };
        let thread = std::thread::Builder::new().name("tilewright sink".into()).spawn(work);
        let thread = thread.map_err(|e| Error::value("threads", format!("one more ({e})"), "fewer"))?;
        Ok(Background { full: Some(full), done, inside: 0, thread: Some(thread) })
    }

    /// Ends the thread, when it has consumed what was submitted, and gives the consumer back.
    ///
    /// # Errors
    /// Where the consumer panicked.
    pub fn finish(mut self) -> Result<C> {
        self.full = None;
        let lost = || Error::value("sink", "a consumer that panicked", "one that returns");
        self.thread.take().and_then(|thread| thread.join().ok()).ok_or_else(lost)
    }
}

impl<C> Background<C> {
    fn back(&mut self, completion: Option<Completion>) -> Option<Completion> {
        self.inside -= usize::from(completion.is_some());
        completion
    }
}

impl<C> Sink for Background<C> {
    fn submit(&mut self, slot: Slot) -> Result<(), Refused> {
        let gone = || Box::new(Error::value("sink", "a consumer that panicked", "one that returns"));
        let Some(full) = &self.full else { return Err(Refused { slot, error: gone() }) };
        full.send(slot).map_err(|lost| Refused { slot: lost.0, error: gone() })?;
        self.inside += 1;
        Ok(())
    }

    fn poll(&mut self) -> Option<Completion> {
        let completion = self.done.try_recv().ok();
        self.back(completion)
    }

    fn wait(&mut self, limit: Duration) -> Option<Completion> {
        if self.inside == 0 {
            return None;
        }
        let completion = self.done.recv_timeout(limit).ok();
        self.back(completion)
    }
}

impl<C> Drop for Background<C> {
    fn drop(&mut self) {
        self.full = None;
        if let Some(thread) = self.thread.take() {
            // Whether it panicked matters to nobody any more.
            let _ = thread.join();
        }
    }
}

impl<C> fmt::Debug for Background<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("inside", &self.inside).finish_non_exhaustive()
    }
}
