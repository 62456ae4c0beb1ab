//! Packing: every job through one ring of slots, into files that appear whole.
//!
//! Four things go on at once, in the order of the model's files: some threads read and decode the elements of the next
//! window, others convert those of the one before, one thread writes what has been converted, and one stores the files
//! that are written. None of it holds more than [`Packing::prepare`] was allowed, whatever the size of the model.

mod elements;
mod event;
mod files;
mod rate;
mod ring;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tilewright::run::Pool;
use tilewright::stage::{Background, Cancel, Settings, Transfer};
use tilewright::{Error, Result};

use self::files::{Files, Work};
use crate::job::{Job, Request, jobs};
use crate::manifest::{Journal, Lock, Manifest, Record, SourceTensor, expected, remove};
use crate::model::{Entry, Extent, Model};
use crate::rules::Rules;

pub(crate) use self::elements::Elements;
pub use self::event::{Event, Listener};
pub(crate) use self::ring::Ring;

/// How long to wait for a disk to take what one slot holds, or to store a file for good.
const PATIENCE: Duration = Duration::from_secs(3600);

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
    /// Where in the model each tensor is, by its name.
    places: HashMap<&'a str, usize>,
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
        let mut jobs = jobs(model, rules, &request)?;
        let records = expected(&jobs, model, rules, &request)?;
        let ring = Ring::cut_to_fit(&mut jobs, memory, &request.options)?;
        let ring = ring.map_err(|short| short.refused(memory, 0))?;
        let places = model.entries().iter().enumerate().map(|(i, e)| (e.name.as_str(), i)).collect();
        Ok(Packing { model, name: name.to_owned(), rules, request, jobs, records, ring, places })
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
        // A run that is killed between the manifest and the end of its journal leaves both.
        if how.resume
            && !Journal::is_there(directory, share)
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
    /// were touched since, the tensors are read and their hashes compared.
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
            if old.files != expected.files {
                let now: Vec<_> = self.sources(job).map(SourceTensor::hashed).collect::<Result<_>>()?;
                if now != old.sources {
                    return Ok(None);
                }
            }
            let (blake3, sources) = (old.blake3.clone(), old.sources.clone());
            Ok(Some(Record { blake3, sources, ..expected.clone() }))
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
        // Threads of their own for reading: they wait for disks, while those that convert have work.
        let (pool, readers) = (Pool::new(how.threads)?, Arc::new(Pool::new(how.threads)?));
        let work = |&i: &usize| self.work(i, directory, &readers);
        let work: Arc<Vec<Work>> = Arc::new(missing.iter().map(work).collect::<Result<_>>()?);
        summary.made = work.len() as u64;
        summary.bytes = work.iter().map(|w| w.record.bytes).sum();
        (how.listener)(Event::Begin { files: summary.made, bytes: summary.bytes, kept: summary.kept });
        let mut files = Files::new(Arc::clone(&work), journal, Arc::clone(&how.listener))?;
        let transfers: Vec<Transfer<'_>> = work.iter().map(Work::transfer).collect();
        for batch in self.ring.batches(&transfers)? {
            // A ring of its own, so that windows of one batch are gone when another's are made.
            let mut stager = self.ring.stager()?;
            files.first = batch.start;
            let mut sink = Background::new(files)?;
            let settings = Settings {
                executor: &pool,
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
        for (&i, record) in missing.iter().zip(files.finish()?) {
            records[i] = Some(record);
        }
        Ok(())
    }

    fn work(&self, i: usize, directory: &Path, readers: &Arc<Pool>) -> Result<Work> {
        let job = &self.jobs[i];
        let sources: Vec<Entry> = self.sources(job).cloned().collect();
        sources.iter().flat_map(Entry::extents).for_each(Extent::want_blake3);
        Ok(Work {
            path: directory.join(&job.file),
            conversion: Arc::clone(&job.conversion),
            elements: Elements::new(Arc::clone(&job.array), Some(Arc::clone(readers)))?,
            sources,
            record: self.records[i].clone(),
        })
    }

    /// The tensors of the model that a job is made from.
    fn sources(&self, job: &Job) -> impl Iterator<Item = &'a Entry> {
        let entries = self.model.entries();
        job.sources.iter().filter_map(|name| self.places.get(name.as_str()).map(|&i| &entries[i]))
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
