//! Sources that are read by ranges: one thread reads window after window, one ahead of what is being converted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Duration;

use super::clock::Clock;
use super::schedule::{Read, Schedule, Transfer};
use super::settings::Settings;
use super::slot::{SlotAllocator, SlotMemory};
use super::source::{ReadAt, Source};
use super::tasks::Tasks;
use crate::error::{Error, Result};
use crate::run::Executor;

/// A read is handed to several threads in parts of at least this many bytes.
const PART: usize = 1 << 20;

/// Bytes of a source, kept from run to run as memory.
pub(super) struct Window {
    memory: Box<dyn SlotMemory>,
    read: usize,
    /// Where it begins in what is read.
    begin: u64,
    len: usize,
}

impl Window {
    pub(super) fn begin(&self) -> u64 {
        self.begin
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

/// Makes windows large enough for a schedule within the limit, keeping memory that is; bytes of both.
pub(super) fn reserve(
    windows: &mut Vec<Window>,
    schedule: &Schedule,
    settings: &Settings<'_>,
    allocator: &mut dyn SlotAllocator,
) -> Result<u64> {
    let needed = schedule.window_bytes();
    let total: usize = needed.iter().fold(0, |sum, &n| sum.saturating_add(n));
    if total > settings.window_limit {
        let needed = format!("{total}, for what the chunks of some tensor are made of");
        return Err(Error::value("bytes for windows of sources", settings.window_limit, needed));
    }
    for (i, bytes) in needed.into_iter().enumerate() {
        if bytes > windows.get(i).map_or(0, |w| w.memory.len()) {
            let window = Window { memory: allocator.allocate(bytes)?, read: 0, begin: 0, len: 0 };
            match windows.get_mut(i) {
                Some(old) => *old = window,
                None => windows.push(window),
            }
        }
    }
    Ok(total as u64)
}

/// What the reading thread has done.
#[derive(Debug, Default)]
pub(super) struct Progress {
    nanoseconds: AtomicU64,
    bytes: AtomicU64,
}

impl Progress {
    pub(super) fn time(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The thread that reads, as the one that converts sees it.
pub(super) struct ReadAhead<'scope> {
    filled: Receiver<Result<Arc<Window>>>,
    empty: SyncSender<Arc<Window>>,
    current: Option<Arc<Window>>,
    /// Gives the windows that it has not used back.
    thread: Option<ScopedJoinHandle<'scope, Receiver<Arc<Window>>>>,
}

impl<'scope> ReadAhead<'scope> {
    /// Starts reading, if there is anything to read. `windows` are large enough, and left empty until it ends.
    pub(super) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        schedule: &'env Schedule,
        transfers: &'env [Transfer<'env>],
        settings: &'env Settings<'env>,
        windows: &mut Vec<Window>,
        progress: &'env Progress,
    ) -> Result<ReadAhead<'scope>> {
        let (empty, to_fill) = sync_channel(2);
        let (full, filled) = sync_channel(2);
        let mut ahead = ReadAhead { filled, empty, current: None, thread: None };
        if schedule.reads.is_empty() {
            return Ok(ahead);
        }
        for window in windows.drain(..) {
            // There is room for two, and there are no more.
            let _ = ahead.empty.try_send(Arc::new(window));
        }
        let work = move || {
            let (executor, clock) = (settings.readers, settings.clock);
            read_all(&schedule.reads, transfers, executor, clock, &to_fill, &full, progress);
            to_fill
        };
        let thread = Builder::new().name("tilewright reader".into()).spawn_scoped(scope, work);
        let thread = thread.map_err(|e| Error::value("threads", format!("one more ({e})"), "fewer"))?;
        ahead.thread = Some(thread);
        Ok(ahead)
    }

    /// The window of a read, when it has been read. Reads are asked for in their order.
    pub(super) fn window(&mut self, read: usize) -> Result<&Window> {
        while self.current.as_ref().is_none_or(|window| window.read != read) {
            if let Some(used) = self.current.take() {
                // The thread has ended if it read the last window, and needs no more.
                let _ = self.empty.send(used);
            }
            let lost = |_| Error::value("reader of the source", "a panic", "bytes or an error");
            self.current = Some(self.filled.recv().map_err(lost)??);
        }
        self.current.as_deref().ok_or_else(|| Error::value("window", "none", "one"))
    }

    /// Ends the thread after the read that it is in, and gives the windows back.
    pub(super) fn stop(self, windows: &mut Vec<Window>) {
        let ReadAhead { filled, empty, current, thread } = self;
        let mut back: Vec<Arc<Window>> = current.into_iter().collect();
        back.extend(filled.try_iter().flatten());
        // Both ends closed: whatever the thread waits for, it ends.
        drop((empty, filled));
        if let Some(Ok(unused)) = thread.map(ScopedJoinHandle::join) {
            back.extend(unused.try_iter());
        }
        windows.extend(back.into_iter().filter_map(Arc::into_inner));
    }
}

/// Reads all windows, one after another.
fn read_all(
    reads: &[Read],
    transfers: &[Transfer<'_>],
    executor: &dyn Executor,
    clock: &dyn Clock,
    empty: &Receiver<Arc<Window>>,
    full: &SyncSender<Result<Arc<Window>>>,
    progress: &Progress,
) {
    let mut previous: Option<Arc<Window>> = None;
    for (i, read) in reads.iter().enumerate() {
        let Ok(mut shared) = empty.recv() else { return };
        let Source::Ranges { reader, .. } = transfers[read.transfer].source else { return };
        let started = clock.now();
        if let Some(next) = reads.get(i + 1)
            && let Source::Ranges { reader, .. } = transfers[next.transfer].source
        {
            reader.will_read(next.range.start + next.copied..next.range.end);
        }
        let outcome = match Arc::get_mut(&mut shared) {
            Some(window) => {
                (window.read, window.begin, window.len) = (i, read.range.start, read.len());
                fill(window, previous.as_deref(), read, reader, executor)
            }
            None => Err(Error::value("window", "one that is in use", "a free one")),
        };
        progress.nanoseconds.fetch_add((clock.now() - started).as_nanos() as u64, Ordering::Relaxed);
        progress.bytes.fetch_add(read.len() as u64 - read.copied, Ordering::Relaxed);
        previous = Some(shared.clone());
        let failed = outcome.is_err();
        if full.send(outcome.map(|()| shared)).is_err() || failed {
            return;
        }
    }
}

/// Reads one window, but for what the one before it holds.
fn fill(
    window: &mut Window,
    previous: Option<&Window>,
    read: &Read,
    reader: &dyn ReadAt,
    executor: &dyn Executor,
) -> Result<()> {
    let (old, new) = window.memory[..read.len()].split_at_mut(read.copied as usize);
    if let Some(previous) = previous.filter(|_| !old.is_empty()) {
        let from = (read.range.start - previous.begin) as usize;
        old.copy_from_slice(&previous.memory[from..from + old.len()]);
    }
    let begin = read.range.start + read.copied;
    let part = (new.len() / executor.threads().clamp(1, 64)).max(PART).next_multiple_of(PART);
    let mut tasks = Tasks::new();
    for (k, bytes) in new.chunks_mut(part).enumerate() {
        tasks.push((begin + (k * part) as u64, bytes));
    }
    tasks.run(executor, |(at, bytes): (u64, &mut [u8])| reader.read_at(at, bytes))
}
