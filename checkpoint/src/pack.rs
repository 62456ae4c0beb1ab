//! Packing: every job through one ring of slots, into files that appear whole.
//!
//! All threads decode the elements of the next window and convert those of the one before, and one thread writes what
//! has been converted, in the order of the model's files. None of it holds more than [`Packing::prepare`] was allowed,
//! whatever the size of the model.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tilewright::run::{Executor, Pool};
use tilewright::stage::{
    Background, Cancel, Consumer, Heap, ReadAt, Settings, Slot, Source, Stager, Transfer,
};
use tilewright::{Error, Result};
use tilewright_files::Output;

use crate::array::Array;
use crate::job::{Conversion, Job, Request, jobs};
use crate::manifest::{Journal, Lock, Manifest, Record, expected, remove};
use crate::model::{Entry, Model, ModelFile};
use crate::rules::Rules;

/// Slots of the ring: one is filled while another is written, and the third evens out what takes longer now and then.
pub(crate) const SLOTS: usize = 3;

/// The largest slots and windows, in bytes: larger ones are no faster.
const LARGE: usize = 32 << 20;

/// The smallest slots, in bytes. Below some tiles of output, each chunk costs more than what is in it.
const SMALL: usize = 64 << 10;

/// Elements are decoded in pieces of this many bytes, by as many threads as convert: each holds the codes of a piece,
/// which are at most half of it.
const PIECE: usize = 256 << 10;

/// Bytes of memory beside slots and windows: the codes of a piece, and buffers of files.
const SCRATCH: u64 = 2 << 20;

/// How long to wait for a disk to take what one slot holds, or to store a file for good.
const PATIENCE: Duration = Duration::from_secs(3600);

/// What happens while files are made.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Packing begins: so many files of so many bytes are to be made, and so many are there already.
    Begin {
        /// Files to be made.
        files: u64,
        /// Bytes of them.
        bytes: u64,
        /// Files that are there and are what would be made.
        kept: u64,
    },
    /// So many bytes more have been written.
    Wrote(u64),
    /// A file is complete.
    Made(&'a Record),
}

/// Who is told.
pub type Listener = Arc<dyn Fn(Event<'_>) + Send + Sync>;

/// How packing is done. None of it changes bytes.
#[derive(Clone)]
pub struct Run {
    /// Threads that convert.
    pub threads: usize,
    /// Whether files of an earlier run that are complete, and are what would be made now, stay.
    pub resume: bool,
    /// Who is told what happens, on another thread.
    pub listener: Listener,
    /// Ends the run early, as a kill would: what is complete stays for [`Run::resume`].
    pub cancel: Arc<Cancel>,
}

/// What packing did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Files that were made.
    pub made: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were there already.
    pub kept: u64,
    /// Bytes of elements that were read for it, decoded.
    pub read: u64,
}

/// Everything that will be done, checked.
pub struct Packing<'a> {
    model: &'a Model,
    name: String,
    rules: &'a Rules,
    request: Request,
    jobs: Vec<Job>,
    /// What will be recorded, without hashes.
    records: Vec<Record>,
    ring: Ring,
}

/// Sizes within a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ring {
    pub(crate) slot_bytes: usize,
    pub(crate) read_bytes: usize,
    /// The most bytes that both windows may take.
    pub(crate) window_limit: u64,
}

impl<'a> Packing<'a> {
    /// Plans all files that rules make of a model, for `memory` bytes of slots, windows and scratch. `name` is what the
    /// manifest calls the model.
    ///
    /// # Errors
    /// Those of [`jobs`]; [`Error::Value`] that names a tensor and the bytes that it needs, where they are more than
    /// `memory`.
    pub fn prepare(
        model: &'a Model,
        name: &str,
        rules: &'a Rules,
        request: Request,
        memory: u64,
    ) -> Result<Packing<'a>> {
        let jobs = jobs(model, rules, &request)?;
        let records = expected(&jobs, model, rules, &request)?;
        let ring = Ring::fitting(&jobs, memory)?;
        Ok(Packing { model, name: name.to_owned(), rules, request, jobs, records, ring })
    }

    /// The files that will be made, in order.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Makes the files in a directory, which is made if it is not there, and writes the manifest.
    ///
    /// However the process ends before, files are there whole or not at all, and the directory has no manifest; the
    /// next run with [`Run::resume`] makes what is missing, or was made from other elements, rules or by another version.
    /// Files of an earlier run that would no longer be made are removed.
    ///
    /// # Errors
    /// [`Error::Io`] where something cannot be read or written, a file of the model changes meanwhile, or another
    /// process is packing into the directory.
    pub fn run(&self, directory: &Path, how: &Run) -> Result<Summary> {
        let share = self.request.share;
        if how.resume
            && let Some(Ok(manifest)) = Manifest::read_any(directory, share)?
            && manifest == self.manifest(manifest.outputs.clone())
            && self.kept(directory, &manifest.outputs)?.iter().all(Option::is_some)
            && manifest.outputs.len() == self.jobs.len()
            && share.is_none()
        {
            let kept = self.jobs.len() as u64;
            (how.listener)(Event::Begin { files: 0, bytes: 0, kept });
            return Ok(Summary { made: 0, bytes: 0, kept, read: 0 });
        }
        fs::create_dir_all(directory)
            .map_err(|e| Error::io(directory.display(), "cannot make the directory", e))?;
        let _lock = Lock::take(directory, share)?;
        let earlier = self.earlier(directory)?;
        let mut records = match how.resume {
            true => self.kept(directory, &earlier)?,
            false => vec![None; self.jobs.len()],
        };
        let kept: Vec<Record> = records.iter().flatten().cloned().collect();
        let journal = Journal::begin(directory, share, &kept)?;
        // From here on the directory is not what a manifest says.
        remove(&directory.join(Manifest::file_name(None)))?;
        remove(&directory.join(Manifest::file_name(share)))?;
        self.remove_stale(directory, &earlier)?;
        let mut summary = Summary { made: 0, bytes: 0, kept: kept.len() as u64, read: 0 };
        self.make(directory, how, journal, &mut records, &mut summary)?;
        self.model.check_unchanged()?;
        self.manifest(records.into_iter().flatten().collect()).write(directory, share)?;
        if let Some(share) = share
            && let Some(all) = Manifest::joined(directory, share.world)?
        {
            all.write(directory, None)?;
        }
        Journal::end(directory, share)?;
        Ok(summary)
    }

    fn manifest(&self, outputs: Vec<Record>) -> Manifest {
        Manifest::new(&self.name, self.rules, &self.request, outputs)
    }

    /// What earlier runs have recorded of the directory.
    fn earlier(&self, directory: &Path) -> Result<Vec<Record>> {
        let share = self.request.share;
        if share.is_none() {
            sweep(directory)?;
        }
        let manifest = Manifest::read_any(directory, share)?.and_then(Result::ok);
        let mut there = manifest.map(|m| m.outputs).unwrap_or_default();
        there.extend(Journal::read(directory, share)?);
        Ok(there)
    }

    /// Removes files of earlier runs that would not be made now, unless they have become something else.
    fn remove_stale(&self, directory: &Path, earlier: &[Record]) -> Result<()> {
        let wanted: HashSet<&str> = self.jobs.iter().map(|job| job.file.as_str()).collect();
        for old in earlier.iter().filter(|old| !wanted.contains(old.file.as_str())) {
            // A damaged manifest must not lead out of the directory.
            let plain = Path::new(&old.file).file_name() == Some(old.file.as_ref());
            let path = directory.join(&old.file);
            if plain && fs::symlink_metadata(&path).is_ok_and(|m| m.is_file() && m.len() == old.bytes) {
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// For each job the record of its file, if that is complete and is what would be made. Of files of the model that
    /// were touched since, the elements are read and compared.
    fn kept(&self, directory: &Path, there: &[Record]) -> Result<Vec<Option<Record>>> {
        let by_file: HashMap<&str, &Record> = there.iter().map(|r| (r.file.as_str(), r)).collect();
        let fresh = |(job, expected): (&Job, &Record)| -> Result<Option<Record>> {
            let Some(&old) = by_file.get(job.file.as_str()).filter(|old| old.key == expected.key) else {
                return Ok(None);
            };
            let length =
                fs::metadata(directory.join(&job.file)).ok().filter(|m| m.is_file()).map(|m| m.len());
            if length != Some(old.bytes) || old.bytes != expected.bytes {
                return Ok(None);
            }
            if old.files != expected.files && elements_blake3(&*job.array)? != old.elements_blake3 {
                return Ok(None);
            }
            let hashes = (old.blake3.clone(), old.elements_blake3.clone());
            Ok(Some(Record { blake3: hashes.0, elements_blake3: hashes.1, ..expected.clone() }))
        };
        self.jobs.iter().zip(&self.records).map(fresh).collect()
    }

    /// Makes what is missing.
    fn make(
        &self,
        directory: &Path,
        how: &Run,
        journal: Journal,
        records: &mut [Option<Record>],
        summary: &mut Summary,
    ) -> Result<()> {
        let missing: Vec<usize> = (0..records.len()).filter(|&i| records[i].is_none()).collect();
        let entries: HashMap<&str, &Entry> =
            self.model.entries().iter().map(|e| (e.name.as_str(), e)).collect();
        let pool = Arc::new(Pool::new(how.threads)?);
        let work = |&i: &usize| self.work(i, directory, &entries, &pool);
        let work: Arc<Vec<Work>> = Arc::new(missing.iter().map(work).collect::<Result<_>>()?);
        summary.made = work.len() as u64;
        summary.bytes = work.iter().map(|w| w.record.bytes).sum();
        (how.listener)(Event::Begin { files: summary.made, bytes: summary.bytes, kept: summary.kept });
        let mut files = Files::new(Arc::clone(&work), journal, Arc::clone(&how.listener));
        let transfers: Vec<Transfer<'_>> = work.iter().map(Work::transfer).collect();
        for batch in self.ring.batches(&transfers)? {
            // A ring of its own, so that windows of one batch are gone when another's are made.
            let mut stager = Stager::new(SLOTS, self.ring.slot_bytes, &mut Heap)?;
            files.first = batch.start;
            let mut sink = Background::new(files)?;
            let settings = Settings {
                executor: &*pool,
                read_bytes: self.ring.read_bytes,
                window_limit: usize::try_from(self.ring.window_limit).unwrap_or(usize::MAX),
                wait_limit: PATIENCE,
                cancel: Some(&how.cancel),
                ..Settings::default()
            };
            summary.read += stager.run(&transfers[batch.clone()], &mut sink, &settings)?.bytes_read;
            files = sink.finish()?;
            files.complete_until(batch.end)?;
        }
        for (&i, record) in missing.iter().zip(files.made) {
            records[i] = Some(record);
        }
        Ok(())
    }

    fn work(
        &self,
        i: usize,
        directory: &Path,
        entries: &HashMap<&str, &Entry>,
        pool: &Arc<Pool>,
    ) -> Result<Work> {
        let job = &self.jobs[i];
        let sources = job.sources.iter().filter_map(|name| entries.get(name.as_str()));
        let mut files: Vec<Arc<ModelFile>> = Vec::new();
        for file in sources.flat_map(|entry| entry.files()) {
            if !files.iter().any(|there| Arc::ptr_eq(there, file)) {
                files.push(Arc::clone(file));
            }
        }
        Ok(Work {
            path: directory.join(&job.file),
            conversion: Arc::clone(&job.conversion),
            elements: Elements::new(Arc::clone(&job.array), Some(Arc::clone(pool)))?,
            files,
            record: self.records[i].clone(),
        })
    }
}

/// Removes what a run that was killed has left under temporary names.
fn sweep(directory: &Path) -> Result<()> {
    let refused = |e: std::io::Error| Error::io(directory.display(), "cannot list it", e);
    for entry in fs::read_dir(directory).map_err(refused)? {
        let name = entry.map_err(refused)?.file_name();
        if name.to_str().is_some_and(|n| n.starts_with(".tilewright-") && n.ends_with(".part")) {
            remove(&directory.join(name))?;
        }
    }
    Ok(())
}

impl Ring {
    /// The largest slots with which every job fits into `memory` bytes.
    pub(crate) fn fitting(jobs: &[Job], memory: u64) -> Result<Ring> {
        let mut of_each: HashMap<*const Conversion, &Job> = HashMap::new();
        for job in jobs {
            of_each.entry(Arc::as_ptr(&job.conversion)).or_insert(job);
        }
        let mut slot_bytes = usize::try_from(memory / 8).unwrap_or(usize::MAX).min(LARGE) & !4095;
        let mut least: Option<(u64, String)> = None;
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
                return Ok(ring);
            }
            let needed = slots + worst.0.max(2 * 4096);
            if least.as_ref().is_none_or(|least| needed < least.0) {
                least = Some((needed, worst.1.to_owned()));
            }
            slot_bytes = (slot_bytes / 2) & !4095;
        }
        let smallest = SLOTS as u64 * (SMALL as u64 + 4096) + SCRATCH + 2 * 4096;
        let (needed, name) = least.unwrap_or((smallest.max(8 * SMALL as u64), String::new()));
        let what = if name.is_empty() { "memory".to_owned() } else { format!("memory for `{name}`") };
        Err(Error::value(what, format!("{memory} bytes"), format!("{needed} bytes")))
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

    /// Runs of jobs that go through the ring together, in order: as many as windows have room for. What needs large
    /// windows may have to go alone, as windows of jobs that follow one another are there at the same time.
    pub(crate) fn batches(&self, transfers: &[Transfer<'_>]) -> Result<Vec<Range<usize>>> {
        let (mut batches, mut left) = (Vec::new(), Vec::new());
        left.push(0..transfers.len());
        while let Some(batch) = left.pop() {
            let together = &transfers[batch.clone()];
            let [a, b] = Stager::window_bytes(together, self.slot_bytes, self.read_bytes)?;
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

/// One file to be made now.
struct Work {
    path: PathBuf,
    conversion: Arc<Conversion>,
    elements: Elements,
    /// The files of the model that hold the elements.
    files: Vec<Arc<ModelFile>>,
    record: Record,
}

impl Work {
    fn transfer(&self) -> Transfer<'_> {
        Transfer { plan: &self.conversion.plan, source: Source::Ranges { reader: &self.elements, begin: 0 } }
    }
}

/// An array as the stager reads it: decoded in pieces, and hashed on the way.
pub(crate) struct Elements {
    array: Arc<dyn Array>,
    /// Who decodes; the thread that reads without.
    pool: Option<Arc<Pool>>,
    bytes: u64,
    /// None where nobody asks for a hash.
    hashed: Option<Mutex<Hashed>>,
}

/// The hash of the elements before `at`, which have been read one after another.
#[derive(Default)]
struct Hashed {
    hasher: blake3::Hasher,
    at: u64,
}

impl Elements {
    pub(crate) fn new(array: Arc<dyn Array>, pool: Option<Arc<Pool>>) -> Result<Elements> {
        let tensor = array.tensor();
        let bytes = tilewright_files::byte_len(&tensor.shape, tensor.dtype)?;
        Ok(Elements { array, pool, bytes, hashed: Some(Mutex::default()) })
    }

    /// The same, read faster.
    pub(crate) fn unhashed(self) -> Elements {
        Elements { hashed: None, ..self }
    }

    /// The hash of all elements; those that were not read in order are read again.
    fn blake3(&self) -> Result<String> {
        let hashed = self.hashed.as_ref().map(|h| h.lock().unwrap_or_else(PoisonError::into_inner));
        match hashed.filter(|hashed| hashed.at == self.bytes) {
            Some(hashed) => Ok(hashed.hasher.finalize().to_hex().to_string()),
            None => elements_blake3(&*self.array),
        }
    }
}

impl ReadAt for Elements {
    fn size(&self) -> u64 {
        self.bytes
    }

    fn alignment(&self) -> usize {
        self.array.tensor().dtype.size()
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()> {
        type Piece<'a> = Mutex<(&'a mut [u8], Result<()>)>;
        let pieces: Vec<Piece<'_>> =
            into.chunks_mut(PIECE).map(|piece| Mutex::new((piece, Ok(())))).collect();
        let decode = |i: usize| {
            let mut piece = pieces[i].lock().unwrap_or_else(PoisonError::into_inner);
            piece.1 = self.array.read(at + (i * PIECE) as u64, piece.0);
        };
        match &self.pool {
            Some(pool) => pool.run(pieces.len(), &decode),
            None => (0..pieces.len()).for_each(decode),
        }
        for piece in pieces {
            piece.into_inner().unwrap_or_else(PoisonError::into_inner).1?;
        }
        let Some(hashed) = &self.hashed else { return Ok(()) };
        let mut hashed = hashed.lock().unwrap_or_else(PoisonError::into_inner);
        if hashed.at == at {
            hashed.hasher.update(into);
            hashed.at += into.len() as u64;
        }
        Ok(())
    }
}

/// The blake3 of an array's elements, row-major.
pub(crate) fn elements_blake3(array: &dyn Array) -> Result<String> {
    let tensor = array.tensor();
    let bytes = tilewright_files::byte_len(&tensor.shape, tensor.dtype)?;
    let (mut hasher, mut at) = (blake3::Hasher::new(), 0);
    let mut piece = vec![0; PIECE.min(usize::try_from(bytes).unwrap_or(PIECE))];
    while at < bytes {
        let piece = &mut piece[..PIECE.min(usize::try_from(bytes - at).unwrap_or(PIECE))];
        array.read(at, piece)?;
        hasher.update(piece);
        at += piece.len() as u64;
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// Writes the files, one after another, on a thread of its own.
struct Files {
    work: Arc<Vec<Work>>,
    /// Which of the work the first transfer of the run is.
    first: usize,
    current: Option<Current>,
    made: Vec<Record>,
    journal: Journal,
    listener: Listener,
}

/// The file that is being written.
struct Current {
    output: Output,
    hasher: blake3::Hasher,
    at: u64,
}

impl Current {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.at += bytes.len() as u64;
        self.output.write(bytes)
    }
}

impl Files {
    fn new(work: Arc<Vec<Work>>, journal: Journal, listener: Listener) -> Files {
        Files { work, first: 0, current: None, made: Vec::new(), journal, listener }
    }

    /// The file of the next work, begun if it is not.
    fn current(&mut self) -> Result<&mut Current> {
        if self.current.is_none() {
            let work = &self.work[self.made.len()];
            let container = &work.conversion.container;
            let output = Output::create(&work.path, container.bytes)?;
            let mut current = Current { output, hasher: blake3::Hasher::new(), at: 0 };
            current.write(&container.head)?;
            self.current = Some(current);
        }
        self.current.as_mut().ok_or_else(|| Error::value("file", "none", "one"))
    }

    /// Gives the current file its name, when all of it is there and nothing of its source has changed.
    fn complete(&mut self) -> Result<()> {
        self.current()?;
        let work = &self.work[self.made.len()];
        let Some(current) = self.current.take() else { return Ok(()) };
        let mut record = work.record.clone();
        record.elements_blake3 = work.elements.blake3()?;
        record.blake3 = current.hasher.finalize().to_hex().to_string();
        work.files.iter().try_for_each(|file| file.check_unchanged())?;
        current.output.commit()?;
        self.journal.add(&record)?;
        (self.listener)(Event::Made(&record));
        self.made.push(record);
        Ok(())
    }

    /// Completes every file before the work `end`: those without bytes have no piece that would.
    fn complete_until(&mut self, end: usize) -> Result<()> {
        while self.made.len() < end {
            self.complete()?;
        }
        Ok(())
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
                // Less than a page between one buffer and the next.
                let gap = at.saturating_sub(current.at) as usize;
                current.write(&vec![0; gap])?;
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
