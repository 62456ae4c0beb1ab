//! Slots for a transport that moves memory by address: RDMA, a device's own queue, a runtime in another language.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::sink::{Completion, Refused, Sink};
use super::slot::{MAX_SLOTS, Slot};
use crate::error::{Error, Result};

/// One piece in memory, as a transport wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addressed {
    /// The address of its first byte.
    pub address: usize,
    /// Its bytes.
    pub length: usize,
    /// Which of the run's transfers it belongs to.
    pub transfer: usize,
    /// Its first byte in the destination, all buffers one after another.
    pub destination: usize,
    /// The buffer of the destination in which it lies.
    pub buffer: usize,
    /// Its first byte in that buffer.
    pub buffer_offset: usize,
}

/// A sink, and where its slots come out, in the order in which they were filled.
///
/// ```
/// use std::time::Duration;
/// # use tilewright::family::{Descriptor, Placement, Tensor};
/// # use tilewright::{DType, Options, Plan};
/// use tilewright::stage::{Heap, Settings, Source, Stager, Transfer, outbox};
/// # let tensor = Tensor { shape: vec![64, 2], dtype: DType::U8 };
/// # let layout = |text: &str| text.parse::<Descriptor>()?.layout(&tensor, &Placement::default());
/// # let plan = Plan::compile(&layout("memref<64x2xui8>")?, &layout("memref<64x2xui8>")?, &Options::default())?;
///
/// let (mut sink, outbox) = outbox();
/// let transport = std::thread::spawn(move || {
///     let (mut pieces, mut bytes) = (Vec::new(), 0);
///     while let Some(ticket) = outbox.take(Duration::from_secs(60), &mut pieces) {
///         // Here the pieces go on their way, and the ticket is completed when they have arrived.
///         bytes += pieces.iter().map(|piece| piece.length).sum::<usize>();
///         outbox.complete(ticket, Ok(())).unwrap();
///     }
///     bytes
/// });
/// let transfers = [Transfer { plan: &plan, source: Source::Memory(&[7; 128]) }];
/// Stager::new(2, 4096, &mut Heap)?.run(&transfers, &mut sink, &Settings::default())?;
/// drop(sink);
/// assert_eq!(transport.join().unwrap(), 128);
/// # Ok::<(), tilewright::Error>(())
/// ```
pub fn outbox() -> (OutboxSink, Outbox) {
    let state = State {
        full: VecDeque::with_capacity(MAX_SLOTS),
        taken: Vec::with_capacity(MAX_SLOTS),
        done: VecDeque::with_capacity(MAX_SLOTS),
        sink_gone: false,
        outbox_gone: false,
    };
    let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
    (OutboxSink { shared: shared.clone() }, Outbox { shared })
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    full: VecDeque<Slot>,
    taken: Vec<Slot>,
    done: VecDeque<Completion>,
    sink_gone: bool,
    outbox_gone: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `get` gives something or `never` says that it will not, at most so long.
    fn wait<T>(
        &self,
        limit: Duration,
        mut get: impl FnMut(&mut State) -> Option<T>,
        never: impl Fn(&State) -> bool,
    ) -> Option<T> {
        let end = Instant::now().checked_add(limit);
        let mut state = self.lock();
        loop {
            if let Some(value) = get(&mut state) {
                return Some(value);
            }
            let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            if never(&state) || left.is_zero() {
                return None;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The stager's end of an [`outbox`].
pub struct OutboxSink {
    shared: Arc<Shared>,
}

impl Sink for OutboxSink {
    fn submit(&mut self, slot: Slot) -> Result<(), Refused> {
        let mut state = self.shared.lock();
        if state.outbox_gone {
            let error = Error::value("sink", "an outbox that nobody holds any more", "one that is in use");
            return Err(Refused { slot, error: Box::new(error) });
        }
        state.full.push_back(slot);
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    fn poll(&mut self) -> Option<Completion> {
        self.shared.lock().done.pop_front()
    }

    fn wait(&mut self, limit: Duration) -> Option<Completion> {
        // What was taken when the outbox was dropped may be on its way for ever: it stays where it is.
        let never = |s: &State| s.full.is_empty() && (s.taken.is_empty() || s.outbox_gone);
        self.shared.wait(limit, |state| state.done.pop_front(), never)
    }
}

impl Drop for OutboxSink {
    fn drop(&mut self) {
        self.shared.lock().sink_gone = true;
        self.shared.changed.notify_all();
    }
}

/// The transport's end of an [`outbox`], which any threads may use.
///
/// The memory of a ticket's pieces stays where it is and as it is until the ticket is completed, even where the stager
/// and its sink are gone by then.
pub struct Outbox {
    shared: Arc<Shared>,
}

impl Outbox {
    /// The next ticket; its pieces replace what is in `pieces`. None: no slot came within `limit`, or none will come any
    /// more, because the sink is gone.
    pub fn take(&self, limit: Duration, pieces: &mut Vec<Addressed>) -> Option<u64> {
        // In one step, so that a slot is at every moment either to be taken or out.
        let take = |state: &mut State| {
            let slot = state.full.pop_front()?;
            pieces.clear();
            pieces.extend(slot.pieces().iter().map(|piece| Addressed {
                address: slot.piece(piece).as_ptr().addr(),
                length: piece.destination.len(),
                transfer: piece.transfer,
                destination: piece.destination.start,
                buffer: piece.buffer,
                buffer_offset: piece.buffer_offset,
            }));
            let ticket = slot.ticket();
            state.taken.push(slot);
            Some(ticket)
        };
        self.shared.wait(limit, take, |state| state.sink_gone)
    }

    /// Gives the slot of a ticket back, whose pieces have arrived or will never be read again.
    ///
    /// # Errors
    /// Where no ticket of this number is out.
    pub fn complete(&self, ticket: u64, outcome: Result<()>) -> Result<()> {
        let mut state = self.shared.lock();
        let which = state.taken.iter().position(|slot| slot.ticket() == ticket);
        let which =
            which.ok_or_else(|| Error::value("ticket", ticket, "one that was taken and is not complete"))?;
        let slot = state.taken.remove(which);
        state.done.push_back(Completion { slot, outcome });
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.outbox_gone = true;
        let gone = || Error::value("sink", "an outbox that nobody holds any more", "one that is in use");
        let State { full, done, taken, .. } = &mut *state;
        done.extend(full.drain(..).map(|slot| Completion { slot, outcome: Err(gone()) }));
        // Nobody can say when their memory is free again.
        taken.drain(..).for_each(std::mem::forget);
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl fmt::Debug for OutboxSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxSink").finish_non_exhaustive()
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}
