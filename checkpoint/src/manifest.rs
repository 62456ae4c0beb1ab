//! What a directory of packed tensors says of itself: from what each file was made, how, and what it holds.
//!
//! `manifest.json` is written last, when every file is complete, so a directory that has one can be trusted without being
//! written to. While files are being made there is a journal instead, `.tilewright-journal`, to which a line is added when
//! a file has got its name; a run that is killed leaves the journal, from which another one goes on.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use tilewright::plan::{Decoding, Rounding, Sen169, Store};
use tilewright::{Error, Options, Result};
use tilewright_files::Output;

use crate::job::{Job, Request, Share};
use crate::model::{Entry, Extent, Model, ModelFile};
use crate::rules::Rules;

/// The number of what is described here. Format 1, which had a hash of the decoded elements instead of those of the source
/// tensors, is read; what it names is stale. Other formats are not read.
pub const FORMAT: u32 = 2;

/// The version of the program that makes files.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The longest manifest or journal that is read, in bytes: that of some hundred thousand files.
const MAX_MANIFEST: u64 = 1 << 30;

/// Everything about a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`], or 1.
    pub format: u32,
    /// The version of the program that made the files.
    pub version: String,
    /// The model, as it was given.
    pub model: String,
    /// The text of the rules.
    pub rules: String,
    /// Its blake3.
    pub rules_blake3: String,
    /// How block floats are rounded, and all other choices that change bytes.
    pub options: String,
    /// The devices whose shards the files hold, `[first, behind the last]`; all without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<[u64; 2]>,
    /// The files of the model that something was made from.
    pub files: Vec<Stamp>,
    /// The files that were made, in the order of the model's files.
    pub outputs: Vec<Record>,
}

/// What can be seen of a file without reading it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// Its name, without the folder.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// When it was last written to, in nanoseconds since 1970.
    pub modified: Option<u64>,
}

/// One file that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The name of the tensor.
    pub name: String,
    /// The name of the file.
    pub file: String,
    /// The glob of the rule that made it.
    pub rule: String,
    /// The text of the layout.
    pub layout: String,
    /// How the tensor is handed out to a mesh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mesh: Option<String>,
    /// The shape of the tensor.
    pub shape: Vec<u64>,
    /// The element type of the array that it was made from.
    pub dtype: String,
    /// The length of the file.
    pub bytes: u64,
    /// The blake3 of the file.
    pub blake3: String,
    /// The tensors of the model that it was made from.
    pub sources: Vec<SourceTensor>,
    /// The files of the model that hold them.
    pub files: Vec<Stamp>,
    /// A hash of all that the file follows from but for the elements: layout, shapes, rule, options, version.
    pub key: String,
}

/// A tensor of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceTensor {
    /// Its name.
    pub name: String,
    /// How it is stored.
    pub encoding: String,
    /// Its bytes in the file, scales included.
    pub bytes: u64,
    /// The blake3 of all its bytes as they lie in the file, scales not included: of a quantised tensor that of its codes.
    /// None in manifests of format 1, and while it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blake3: Option<String>,
    /// The blake3 of its scales, where they are a tensor of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scales_blake3: Option<String>,
}

impl SourceTensor {
    /// A tensor of the model, without hashes.
    fn of(entry: &Entry) -> SourceTensor {
        let (encoding, bytes) = (entry.encoding.to_string(), entry.source_bytes());
        SourceTensor { name: entry.name.clone(), encoding, bytes, blake3: None, scales_blake3: None }
    }

    /// The same with its hashes; what has not been read since they were wanted is read.
    ///
    /// # Errors
    /// [`Error::Io`] where it cannot be read.
    pub(crate) fn hashed(entry: &Entry) -> Result<SourceTensor> {
        let blake3 = Some(entry.data.blake3()?);
        let scales_blake3 = entry.scales().map(Extent::blake3).transpose()?;
        Ok(SourceTensor { blake3, scales_blake3, ..SourceTensor::of(entry) })
    }
}

impl Stamp {
    fn of(file: &ModelFile) -> Stamp {
        let since = |time: std::time::SystemTime| time.duration_since(UNIX_EPOCH).ok();
        let modified = file.modified().and_then(since).and_then(|t| u64::try_from(t.as_nanos()).ok());
        let name = file.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        Stamp { file: name, bytes: file.len(), modified }
    }
}

/// What will be recorded of a job, with empty hashes.
pub(crate) fn expected(jobs: &[Job], model: &Model, rules: &Rules, request: &Request) -> Result<Vec<Record>> {
    let entries: HashMap<&str, _> = model.entries().iter().map(|e| (e.name.as_str(), e)).collect();
    let choices = format!("{FORMAT} {VERSION} {:?} {:?}", text_of(&request.options), request.devices);
    let record = |job: &Job| {
        let rule = rules.rule(job.rule);
        let (mut sources, mut files) = (Vec::new(), Vec::new());
        let mut shapes = Vec::new();
        for name in &job.sources {
            let missing = || Error::value("source", name, "a tensor of the model");
            let entry = entries.get(name.as_str()).ok_or_else(missing)?;
            shapes.push(&entry.shape);
            sources.push(SourceTensor::of(entry));
            for file in entry.files() {
                let stamp = Stamp::of(file);
                if !files.contains(&stamp) {
                    files.push(stamp);
                }
            }
        }
        let conversion = &job.conversion;
        // What a rule does with rows; its glob and its place among the rules change no byte.
        let made = (&rule.stack, &rule.fuse, &rule.split, rule.transpose, &job.mesh, &conversion.text);
        let tensor = job.array.tensor();
        let all = format!("{choices} {} {made:?} {tensor:?} {sources:?} {shapes:?}", job.name);
        Ok(Record {
            name: job.name.clone(),
            file: job.file.clone(),
            rule: rule.name.clone(),
            layout: conversion.text.clone(),
            mesh: job.mesh.clone(),
            shape: job.tensor.shape.clone(),
            dtype: job.tensor.dtype.name().to_owned(),
            bytes: conversion.container.bytes,
            blake3: String::new(),
            sources,
            files,
            key: blake3::hash(all.as_bytes()).to_hex().to_string(),
        })
    };
    jobs.iter().map(record).collect()
}

/// The choices that change bytes, as text. Instruction sets and kinds of stores do not.
fn text_of(options: &Options) -> String {
    format!("{:?}", options.with_isa(None).with_store(Store::Auto))
}

/// Every choice that there is.
fn all_options() -> impl Iterator<Item = Options> {
    let with = |all: Vec<Options>, choices: &[&dyn Fn(Options) -> Options]| -> Vec<Options> {
        all.iter().flat_map(|&options| choices.iter().map(move |choose| choose(options))).collect()
    };
    let all = with(
        vec![Options::default()],
        &[
            &|o| o.with_rounding(Rounding::Host),
            &|o| o.with_rounding(Rounding::Device),
            &|o| o.with_rounding(Rounding::DeviceOp),
            &|o| o.with_rounding(Rounding::Truncate),
        ],
    );
    let all = with(all, &[&|o| o.with_search(false), &|o| o.with_search(true)]);
    let all = with(all, &[&|o| o.with_saturate(false), &|o| o.with_saturate(true)]);
    let all = with(all, &[&|o| o.with_sen169(Sen169::Nearest), &|o| o.with_sen169(Sen169::Deeptools)]);
    with(
        all,
        &[&|o| o.with_compat_unpack(Decoding::Exact), &|o| o.with_compat_unpack(Decoding::Host), &|o| {
            o.with_compat_unpack(Decoding::Device)
        }],
    )
    .into_iter()
}

impl Manifest {
    /// Of files that are complete.
    pub(crate) fn new(model: &str, rules: &Rules, request: &Request, outputs: Vec<Record>) -> Manifest {
        let mut files: Vec<Stamp> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for stamp in outputs.iter().flat_map(|output| &output.files) {
            if seen.insert(stamp) {
                files.push(stamp.clone());
            }
        }
        Manifest {
            format: FORMAT,
            version: VERSION.to_owned(),
            model: model.to_owned(),
            rules: rules.text().to_owned(),
            rules_blake3: blake3::hash(rules.text().as_bytes()).to_hex().to_string(),
            options: text_of(&request.options),
            devices: request.devices.as_ref().map(|d| [d.start, d.end]),
            files,
            outputs,
        }
    }

    /// The choices of numbers under which the files were made.
    ///
    /// # Errors
    /// [`Error::Value`] where this version has no such choices.
    pub fn number_options(&self) -> Result<Options> {
        let unknown = || Error::value("options of the manifest", &self.options, "those of this version");
        all_options().find(|options| text_of(options) == self.options).ok_or_else(unknown)
    }

    /// The name of the manifest of a share, or of everything.
    pub fn file_name(share: Option<Share>) -> String {
        match share {
            None => "manifest.json".to_owned(),
            Some(Share { rank, world }) => format!("manifest.{rank}-of-{world}.json"),
        }
    }

    /// The manifest of a directory, or of a share of it; `None` where it has none, as while it is being made.
    ///
    /// # Errors
    /// [`Error::Io`] where it cannot be read or is damaged, or of another format.
    pub fn read(directory: &Path, share: Option<Share>) -> Result<Option<Manifest>> {
        match Manifest::read_any(directory, share)? {
            Some(Err(format)) => {
                let path = directory.join(Manifest::file_name(share));
                Err(wrong(&path, format!("a manifest of format {format}: this version reads 1 to {FORMAT}")))
            }
            Some(Ok(manifest)) => Ok(Some(manifest)),
            None => Ok(None),
        }
    }

    /// The same, or the number of its format where that is another one: what it names is stale.
    ///
    /// # Errors
    /// [`Error::Io`] where it cannot be read, or is a file of somebody else that has the same name.
    pub(crate) fn read_any(directory: &Path, share: Option<Share>) -> Result<Option<Result<Manifest, u32>>> {
        #[derive(Deserialize)]
        struct Any {
            format: u32,
        }
        let path = directory.join(Manifest::file_name(share));
        let Some(text) = text(&path)? else { return Ok(None) };
        let not_ours = |e: serde_json::Error| wrong(&path, format!("not a manifest of packed tensors: {e}"));
        let Any { format } = serde_json::from_slice(&text).map_err(not_ours)?;
        if !(1..=FORMAT).contains(&format) {
            return Ok(Some(Err(format)));
        }
        serde_json::from_slice(&text).map(|manifest| Some(Ok(manifest))).map_err(not_ours)
    }

    /// Writes the manifest, which says that everything is complete.
    pub(crate) fn write(&self, directory: &Path, share: Option<Share>) -> Result<()> {
        let path = directory.join(Manifest::file_name(share));
        let mut text = serde_json::to_vec_pretty(self).map_err(|e| unwritable(&path, e.into()))?;
        text.push(b'\n');
        whole(&path, &text)
    }

    /// The manifest of all shares together, once every one has its own; `None` before.
    ///
    /// # Errors
    /// As [`Manifest::read`]; [`Error::Value`] where shares were made by other rules or another version.
    pub(crate) fn joined(directory: &Path, world: u64) -> Result<Option<Manifest>> {
        let mut all: Option<Manifest> = None;
        for rank in 0..world {
            let Some(one) = Manifest::read(directory, Some(Share { rank, world }))? else { return Ok(None) };
            match &mut all {
                None => all = Some(one),
                Some(all) => {
                    let made_by =
                        |m: &Manifest| (m.format, m.version.clone(), m.rules.clone(), m.options.clone());
                    if made_by(all) != made_by(&one) {
                        let given = format!("that of rank {rank}, made by other rules or another version");
                        return Err(Error::value("manifests of shares", given, "the same for all ranks"));
                    }
                    all.outputs.extend(one.outputs);
                    for stamp in one.files {
                        if !all.files.contains(&stamp) {
                            all.files.push(stamp);
                        }
                    }
                }
            }
        }
        Ok(all)
    }
}

/// The bytes of a file, or `None` where there is none.
fn text(path: &Path) -> Result<Option<Vec<u8>>> {
    let failed = |e| Error::io(path.display(), "cannot read it", e);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let mut text = Vec::new();
    file.take(MAX_MANIFEST + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_MANIFEST {
        return Err(wrong(path, format!("more than {MAX_MANIFEST} bytes")));
    }
    Ok(Some(text))
}

fn wrong(path: &Path, what: String) -> Error {
    tilewright_files::damaged(&path.display().to_string(), what)
}

/// Writes a file that appears whole.
fn whole(path: &Path, text: &[u8]) -> Result<()> {
    let mut output = Output::create(path, text.len() as u64)?;
    output.write(text)?;
    output.commit()
}

fn unwritable(path: &Path, error: std::io::Error) -> Error {
    Error::io(path.display(), "cannot write it", error)
}

/// What is complete while not everything is: one line for each file.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    fn path(directory: &Path, share: Option<Share>) -> PathBuf {
        directory.join(match share {
            None => ".tilewright-journal".to_owned(),
            Some(Share { rank, world }) => format!(".tilewright-journal.{rank}-of-{world}"),
        })
    }

    /// Whether a run has begun one and not ended it, or something else has its name.
    pub(crate) fn is_there(directory: &Path, share: Option<Share>) -> bool {
        fs::symlink_metadata(Journal::path(directory, share)).is_ok()
    }

    /// The records of a run that has not ended. A line that is cut short or damaged is none: its file is made again.
    pub(crate) fn read(directory: &Path, share: Option<Share>) -> Result<Vec<Record>> {
        let text = text(&Journal::path(directory, share))?.unwrap_or_default();
        Ok(text.split(|&b| b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }

    /// Begins a journal that holds what is complete already.
    pub(crate) fn begin(directory: &Path, share: Option<Share>, records: &[Record]) -> Result<Journal> {
        let path = Journal::path(directory, share);
        let mut text = Vec::new();
        for record in records {
            text.extend(line(record, &path)?);
        }
        whole(&path, &text)?;
        let file = File::options().append(true).open(&path).map_err(|e| unwritable(&path, e))?;
        Ok(Journal { path, file })
    }

    /// Adds a file, whose bytes are stored and which has its name. The line itself need not be stored at once: where a
    /// machine loses it with its power, the file is made again.
    pub(crate) fn add(&mut self, record: &Record) -> Result<()> {
        let line = line(record, &self.path)?;
        self.file.write_all(&line).map_err(|e| unwritable(&self.path, e))
    }

    /// Ends it, as there is a manifest now.
    pub(crate) fn end(directory: &Path, share: Option<Share>) -> Result<()> {
        remove(&Journal::path(directory, share))
    }
}

fn line(record: &Record, path: &Path) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(record).map_err(|e| unwritable(path, e.into()))?;
    line.push(b'\n');
    Ok(line)
}

/// Removes a file, if it is there.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io(path.display(), "cannot remove it", e)),
        _ => Ok(()),
    }
}

/// Keeps other processes from the directory until it is dropped, or the process ends however it does.
#[derive(Debug)]
pub(crate) struct Lock {
    _files: Vec<File>,
}

impl Lock {
    /// Takes the directory, or a share of it: shares exclude themselves and whoever takes everything.
    ///
    /// # Errors
    /// [`Error::Io`] of the kind `WouldBlock` where somebody else has it.
    pub(crate) fn take(directory: &Path, share: Option<Share>) -> Result<Lock> {
        let all = directory.join(".tilewright-lock");
        let mut files = vec![lock(&all, share.is_some())?];
        if let Some(Share { rank, world }) = share {
            files.push(lock(&directory.join(format!(".tilewright-lock.{rank}-of-{world}")), false)?);
        }
        Ok(Lock { _files: files })
    }
}

fn lock(path: &Path, shared: bool) -> Result<File> {
    let file = File::options().create(true).truncate(false).write(true).open(path);
    let file = file.map_err(|e| unwritable(path, e))?;
    let taken = if shared { file.try_lock_shared() } else { file.try_lock() };
    match taken {
        Err(fs::TryLockError::WouldBlock) => {
            let what = "another process is packing into this directory";
            Err(Error::file(path.display(), ErrorKind::WouldBlock, what))
        }
        // A file system without locks: what is written appears by renaming, so that nothing is ever half there.
        Ok(()) | Err(fs::TryLockError::Error(_)) => Ok(file),
    }
}
