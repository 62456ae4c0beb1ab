//! Loading: tensors as rules make them, one after another in memory, while those behind them are read and converted.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tilewright::run::Pool;
use tilewright::stage::{Background, Cancel, Consumer, Settings, Slot, Source, Transfer};
use tilewright::{Error, Options, Result};

use crate::job::{Job, Request, jobs};
use crate::model::Model;
use crate::pack::{Elements, Ring};
use crate::rules::Rules;

/// Memory in which slots and windows are as large as is of use; more of it holds tensors that wait to be taken.
const RING: u64 = 256 << 20;

/// Nobody is in a hurry to take tensors.
const PATIENCE: Duration = Duration::from_secs(u32::MAX as u64);

/// The tensors that rules make of a model, in the order of its files.
///
/// A tensor is all buffers of its layout one after another, without those of other devices. Dropping a stream ends the
/// work behind it and waits for that.
///
/// ```no_run
/// use tilewright_checkpoint::{job::Request, model::Model, rules::Rules, stream::Stream};
///
/// let model = Model::open("model.safetensors".as_ref())?;
/// let rules = Rules::parse(Rules::ready_made("ttnn-bfp8").unwrap_or_default())?;
/// let stream = Stream::begin(model, &rules, &Request::default(), 2 << 30, 0)?;
/// let jobs = stream.jobs().clone();
/// for (job, tensor) in jobs.iter().zip(stream) {
///     println!("{} {} bytes", job.name, tensor?.len());
/// }
/// # Ok::<(), tilewright::Error>(())
/// ```
pub struct Stream {
    jobs: Arc<Vec<Job>>,
    gate: Arc<Gate>,
    thread: Option<JoinHandle<()>>,
}

impl Stream {
    /// Begins to read and convert on `threads` threads; 0: one for each processor.
    ///
    /// `memory` bytes are the most that slots, windows, scratch and tensors take together. A tensor that was given out
    /// counts until the next one is; what is kept for longer is the caller's own.
    ///
    /// # Errors
    /// Those of [`jobs`]; [`Error::Value`] that names a tensor and the bytes that it needs, where they are more than
    /// `memory`.
    pub fn begin(
        model: Model,
        rules: &Rules,
        request: &Request,
        memory: u64,
        threads: usize,
    ) -> Result<Stream> {
        let mut jobs = jobs(&model, rules, request)?;
        let (ring, room) = split(&mut jobs, memory, &request.options)?;
        let jobs = Arc::new(jobs);
        let gate = Arc::new(Gate::new(room));
        // Threads of their own for reading: they wait for disks, while those that convert have work.
        let (pool, readers) = (Pool::new(threads)?, Arc::new(Pool::new(threads)?));
        let work = {
            let (jobs, gate) = (Arc::clone(&jobs), Arc::clone(&gate));
            move || {
                let ended = Ended(&gate);
                let outcome = run(&model, &jobs, ring, (&pool, &readers), &gate);
                gate.state().outcome = Some(outcome);
                drop(ended);
            }
        };
        let thread = std::thread::Builder::new().name("tilewright stream".into()).spawn(work);
        let thread = thread.map_err(|e| Error::value("threads", format!("one more ({e})"), "fewer"))?;
        Ok(Stream { jobs, gate, thread: Some(thread) })
    }

    /// What is made, in the order in which it comes.
    pub fn jobs(&self) -> &Arc<Vec<Job>> {
        &self.jobs
    }

    /// The next tensor, for which it waits for at most `limit`; `None` after the last one, and after an error.
    ///
    /// # Errors
    /// [`Error::Io`] where something cannot be read or a file of the model changes meanwhile; those of the plans.
    pub fn next_within(&mut self, limit: Duration) -> Poll<Option<Result<Vec<u8>>>> {
        let begin = Instant::now();
        let mut state = self.gate.state();
        loop {
            if let Some(tensor) = state.ready.pop_front() {
                state.room += std::mem::replace(&mut state.taken, tensor.len() as u64);
                self.gate.changed.notify_all();
                return Poll::Ready(Some(Ok(tensor)));
            }
            match state.outcome.take() {
                Some(Err(error)) => {
                    state.outcome = Some(Ok(()));
                    return Poll::Ready(Some(Err(error)));
                }
                Some(Ok(())) => {
                    state.outcome = Some(Ok(()));
                    return Poll::Ready(None);
                }
                None => {}
            }
            let left = limit.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Poll::Pending;
            }
            let waited = self.gate.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("jobs", &self.jobs.len()).finish_non_exhaustive()
    }
}

impl Iterator for Stream {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        loop {
            if let Poll::Ready(next) = self.next_within(PATIENCE) {
                return next;
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.gate.cancel.cancel();
        // With the lock, so that nobody looks at the flag before and waits after.
        drop(self.gate.state());
        self.gate.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // Whether it panicked matters to nobody any more.
            let _ = thread.join();
        }
    }
}

/// Bytes of all buffers of a tensor that are wanted.
fn wanted_bytes(job: &Job) -> u64 {
    let there = job.conversion.container.places.iter().flatten().count() as u64;
    there * job.conversion.destination.buffer_bytes()
}

/// How memory is shared between the ring and tensors: the ring, and the bytes of tensors.
fn split(jobs: &mut [Job], memory: u64, options: &Options) -> Result<(Ring, u64)> {
    // While the caller uses one tensor, the next is made.
    let sizes: Vec<u64> = jobs.iter().map(wanted_bytes).collect();
    let pair = sizes.windows(2).map(|pair| pair[0] + pair[1]).chain(sizes.iter().copied()).max().unwrap_or(0);
    let rest = memory.saturating_sub(pair);
    // Slots of an eighth of the ring: no larger than all tensors together, where that is enough for the windows.
    let usual = RING.min(rest / 2);
    let whole = sizes.iter().fold(0_u64, |sum, &bytes| sum.saturating_add(bytes));
    let sizes = [usual.min(whole.saturating_mul(8)), usual, rest];
    let mut short = None;
    for bytes in sizes {
        match Ring::cut_to_fit(jobs, bytes, options)? {
            Ok(ring) => return Ok((ring, memory - bytes)),
            Err(of_these) => short = Some(of_these),
        }
    }
    Err(short.map_or_else(|| Error::value("memory", memory, "more"), |short| short.refused(memory, pair)))
}

/// Converts everything, tensor by tensor, through one ring.
fn run(
    model: &Model,
    jobs: &Arc<Vec<Job>>,
    ring: Ring,
    (pool, readers): (&Pool, &Arc<Pool>),
    gate: &Arc<Gate>,
) -> Result<()> {
    let reader = |job: &Job| Elements::new(Arc::clone(&job.array), Some(Arc::clone(readers)));
    let elements: Vec<Elements> = jobs.iter().map(reader).collect::<Result<_>>()?;
    let transfer = |(job, reader)| {
        let (job, reader): (&Job, &Elements) = (job, reader);
        Transfer { plan: &job.conversion.plan, source: Source::Ranges { reader, begin: 0 } }
    };
    let transfers: Vec<Transfer<'_>> = jobs.iter().zip(&elements).map(transfer).collect();
    let (jobs, gate) = (Arc::clone(jobs), Arc::clone(gate));
    let cancelled = Arc::clone(&gate);
    let mut tensors = Tensors { jobs, gate, first: 0, current: None, made: 0 };
    for batch in ring.batches(&transfers)? {
        // A ring of its own, so that windows of one batch are gone when another's are made.
        let mut stager = ring.stager()?;
        tensors.first = batch.start;
        let mut sink = Background::new(tensors)?;
        let settings = Settings {
            executor: pool,
            read_bytes: ring.read_bytes,
            window_limit: usize::try_from(ring.window_limit).unwrap_or(usize::MAX),
            wait_limit: PATIENCE,
            cancel: Some(&cancelled.cancel),
            ..Settings::default()
        };
        stager.run(&transfers[batch.clone()], &mut sink, &settings)?;
        tensors = sink.finish()?;
        tensors.complete_until(batch.end)?;
    }
    model.check_unchanged()
}

/// What the thread that makes tensors and whoever takes them share.
#[derive(Debug)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    cancel: Cancel,
}

#[derive(Debug)]
struct State {
    /// Bytes of tensors that may still be begun.
    room: u64,
    /// Bytes of the tensor that was given out last.
    taken: u64,
    ready: VecDeque<Vec<u8>>,
    /// How the work ended, if it has.
    outcome: Option<Result<()>>,
}

impl Gate {
    fn new(room: u64) -> Gate {
        let state = State { room, taken: 0, ready: VecDeque::new(), outcome: None };
        Gate { state: Mutex::new(state), changed: Condvar::new(), cancel: Cancel::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for a tensor.
    fn enter(&self, bytes: u64) -> Result<()> {
        let mut state = self.state();
        while state.room < bytes {
            if self.cancel.is_cancelled() {
                return Err(Error::value("stream", "one that nobody takes from", "somebody who does"));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.room -= bytes;
        Ok(())
    }

    fn leave(&self, tensor: Vec<u8>) {
        self.state().ready.push_back(tensor);
        self.changed.notify_all();
    }
}

/// Tells whoever waits that the thread has ended, also where it panicked.
struct Ended<'a>(&'a Gate);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let panicked = || Err(Error::value("stream", "a panic", "none: this is a defect"));
        self.0.state().outcome.get_or_insert_with(panicked);
        self.0.changed.notify_all();
    }
}

/// Puts tensors together, one after another.
struct Tensors {
    jobs: Arc<Vec<Job>>,
    gate: Arc<Gate>,
    /// Which job the first transfer of the run is.
    first: usize,
    current: Option<Vec<u8>>,
    made: usize,
}

impl Tensors {
    /// The tensor of the next job, begun if it is not.
    fn current(&mut self) -> Result<&mut Vec<u8>> {
        if self.current.is_none() {
            let bytes = wanted_bytes(&self.jobs[self.made]);
            self.gate.enter(bytes)?;
            let mut tensor = Vec::new();
            let room = tensor.try_reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX));
            room.map_err(|e| Error::value("tensor", format!("{bytes} bytes ({e})"), "less"))?;
            self.current = Some(tensor);
        }
        self.current.as_mut().ok_or_else(|| Error::value("tensor", "none", "one"))
    }

    /// Completes every tensor before the job `end`: those without bytes have no piece that would.
    fn complete_until(&mut self, end: usize) -> Result<()> {
        while self.made < end {
            self.current()?;
            self.gate.leave(self.current.take().unwrap_or_default());
            self.made += 1;
        }
        Ok(())
    }
}

impl Consumer for Tensors {
    fn consume(&mut self, slot: &Slot) -> Result<()> {
        for piece in slot.pieces() {
            let i = self.first + piece.transfer;
            self.complete_until(i)?;
            let conversion = Arc::clone(&self.jobs[i].conversion);
            let tensor = self.current()?;
            if conversion.container.places[piece.buffer].is_some() {
                tensor.extend_from_slice(slot.piece(piece));
            }
            if piece.destination.end == conversion.plan.destination_bytes() {
                self.complete_until(i + 1)?;
            }
        }
        Ok(())
    }
}
