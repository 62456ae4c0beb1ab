//! The files that are made: written one after another on one thread, stored and named on another.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use tilewright::stage::{Consumer, Slot, Source, Transfer};
use tilewright::{Error, Result};
use tilewright_files::Output;

use super::elements::Elements;
use super::event::{Event, Listener};
use crate::job::Conversion;
use crate::manifest::{Journal, Record, SourceTensor};
use crate::model::Entry;

/// Files that wait for their turn to be stored. Flushing a small one takes as long as writing some megabytes, so that
/// a model's norms come faster than they are stored.
const WAITING: usize = 16;

/// The most bytes between two buffers of a file, which lie on pages.
const GAP: [u8; 4096] = [0; 4096];

/// One file to be made now.
pub(super) struct Work {
    pub(super) path: PathBuf,
    pub(super) conversion: Arc<Conversion>,
    pub(super) elements: Elements,
    /// The tensors of the model that hold the elements.
    pub(super) sources: Vec<Entry>,
    pub(super) record: Record,
}

impl Work {
    pub(super) fn transfer(&self) -> Transfer<'_> {
        Transfer { plan: &self.conversion.plan, source: Source::Ranges { reader: &self.elements, begin: 0 } }
    }
}

/// Writes the files, one after another.
pub(super) struct Files {
    work: Arc<Vec<Work>>,
    /// Which of the work the first transfer of the run is.
    pub(super) first: usize,
    current: Option<Current>,
    /// Files that have been written.
    written: usize,
    store: Store,
    listener: Listener,
}

/// Bytes that are hashed and written together; a second cache of 1 MiB keeps them from the one to the other.
const PART: usize = 256 << 10;

/// So many bytes are hashed by a thread of their own while they are written: the disk takes them from where they are, and
/// has something to do all the time.
const APART: usize = 1 << 20;

/// The file that is being written.
struct Current {
    output: Output,
    hasher: blake3::Hasher,
    at: u64,
}

impl Current {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.at += bytes.len() as u64;
        if bytes.len() < APART {
            // A part that has just been hashed is still in a cache when the system copies it.
            return bytes.chunks(PART).try_for_each(|part| {
                self.hasher.update(part);
                self.output.write(part)
            });
        }
        thread::scope(|scope| {
            let hash = || {
                self.hasher.update(bytes);
            };
            let other = thread::Builder::new().name("tilewright hash".into()).spawn_scoped(scope, hash);
            other.map_err(no_thread)?;
            self.output.write(bytes)
        })
    }
}

impl Files {
    pub(super) fn new(work: Arc<Vec<Work>>, journal: Journal, listener: Listener) -> Result<Files> {
        let store = Store::begin(Arc::clone(&work), journal, Arc::clone(&listener))?;
        Ok(Files { work, first: 0, current: None, written: 0, store, listener })
    }

    /// The file of the next work, begun if it is not.
    fn current(&mut self) -> Result<&mut Current> {
        if self.current.is_none() {
            let work = &self.work[self.written];
            let container = &work.conversion.container;
            let output = Output::create(&work.path, container.bytes)?;
            let mut current = Current { output, hasher: blake3::Hasher::new(), at: 0 };
            current.write(&container.head)?;
            self.current = Some(current);
        }
        self.current.as_mut().ok_or_else(|| Error::value("file", "none", "one"))
    }

    /// Hands the current file, all of which is there, on to be stored.
    fn complete(&mut self) -> Result<()> {
        self.current()?;
        let Some(current) = self.current.take() else { return Ok(()) };
        let work = &self.work[self.written];
        let mut record = work.record.clone();
        record.sources = work.sources.iter().map(SourceTensor::hashed).collect::<Result<_>>()?;
        record.blake3 = current.hasher.finalize().to_hex().to_string();
        self.written += 1;
        self.store.add(Written { output: current.output, record })
    }

    /// Completes every file before the work `end`: those without bytes have no piece that would.
    pub(super) fn complete_until(&mut self, end: usize) -> Result<()> {
        while self.written < end {
            self.complete()?;
        }
        Ok(())
    }

    /// Waits until all files have their names; their records.
    pub(super) fn finish(self) -> Result<Vec<Record>> {
        self.store.finish()
    }
}

impl Consumer for Files {
    fn consume(&mut self, slot: &Slot) -> Result<()> {
        let work = Arc::clone(&self.work);
        for piece in slot.pieces() {
            let i = self.first + piece.transfer;
            self.complete_until(i)?;
            let conversion = &work[i].conversion;
            let current = self.current()?;
            // Buffers of other devices are in no file here.
            if let Some(place) = &conversion.container.places[piece.buffer] {
                let at = place.start + piece.buffer_offset as u64;
                while current.at < at {
                    let gap = (at - current.at).min(GAP.len() as u64);
                    current.write(&GAP[..gap as usize])?;
                }
                let bytes = slot.piece(piece);
                current.write(bytes)?;
                (self.listener)(Event::Wrote(bytes.len() as u64));
            }
            if piece.destination.end == conversion.plan.destination_bytes() {
                self.complete()?;
            }
        }
        Ok(())
    }
}

fn no_thread(error: std::io::Error) -> Error {
    Error::value("threads", format!("one more ({error})"), "fewer")
}

/// A file with all of its bytes, and what will be said of it.
struct Written {
    output: Output,
    record: Record,
}

/// The thread that stores files and gives them their names, in order, while later ones are written: to flush a file takes
/// as long as its disk does, and meanwhile the next one must go on, or the disk has nothing to do after it.
struct Store {
    // Closed to end the thread.
    written: Option<SyncSender<Written>>,
    failed: Receiver<Error>,
    thread: Option<JoinHandle<Vec<Record>>>,
}

impl Store {
    /// # Errors
    /// Where the system has no thread.
    fn begin(work: Arc<Vec<Work>>, mut journal: Journal, listener: Listener) -> Result<Store> {
        let (written, files) = sync_channel::<Written>(WAITING);
        let (fail, failed) = sync_channel(1);
        let all = move || {
            let mut made = Vec::new();
            for Written { output, record } in files {
                if let Err(error) = store(&work[made.len()], output, &record, &mut journal) {
                    // There is room for one, and nothing follows.
                    let _ = fail.try_send(error);
                    break;
                }
                listener(Event::Made(&record));
                made.push(record);
            }
            made
        };
        let thread = thread::Builder::new().name("tilewright store".into()).spawn(all);
        let thread = thread.map_err(no_thread)?;
        Ok(Store { written: Some(written), failed, thread: Some(thread) })
    }

    /// Adds a file; waits where many wait already.
    ///
    /// # Errors
    /// That of the file that could not be stored.
    fn add(&self, file: Written) -> Result<()> {
        match &self.written {
            Some(written) if written.send(file).is_ok() => Ok(()),
            _ => Err(self.error()),
        }
    }

    /// Why the thread has ended.
    fn error(&self) -> Error {
        let lost = |_| Error::value("thread that stores files", "a panic", "files that are stored");
        self.failed.try_recv().unwrap_or_else(lost)
    }

    /// Waits until all files are stored; their records.
    fn finish(mut self) -> Result<Vec<Record>> {
        self.written = None;
        let made = self.thread.take().and_then(|thread| thread.join().ok());
        match (made, self.failed.try_recv()) {
            (Some(made), Err(_)) => Ok(made),
            (_, Ok(error)) => Err(error),
            (None, Err(_)) => Err(self.error()),
        }
    }
}

impl Drop for Store {
    /// What is written is stored, however the run ends: another one need not make it again.
    fn drop(&mut self) {
        self.written = None;
        if let Some(thread) = self.thread.take() {
            // Whether it panicked matters to nobody any more.
            let _ = thread.join();
        }
    }
}

/// Stores a file and gives it its name, if nothing of its source has changed, and adds it to the journal.
fn store(work: &Work, output: Output, record: &Record, journal: &mut Journal) -> Result<()> {
    work.sources.iter().flat_map(Entry::files).try_for_each(|file| file.check_unchanged())?;
    output.commit()?;
    journal.add(record)
}
