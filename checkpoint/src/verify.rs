//! Whether a directory of packed tensors still holds what its manifest says, and what its model and rules make.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use tilewright::{Error, Result, run};

use crate::job::{Job, Request, jobs};
use crate::manifest::{Manifest, Record, SourceTensor};
use crate::model::{Entry, Model};
use crate::rules::Rules;

/// Bytes that are hashed at a time.
const STEP: usize = 1 << 20;

/// A file that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Its name.
    pub file: String,
    /// What is wrong with it.
    pub what: String,
}

/// The manifest of a directory.
///
/// # Errors
/// [`Error::Io`] where there is none: the directory was not packed, or not to the end.
pub fn manifest(directory: &Path) -> Result<Manifest> {
    Manifest::read(directory, None)?.ok_or_else(|| {
        let what =
            "it has no manifest.json: nothing was packed into it, or not to the end (see `pack --resume`)";
        Error::file(directory.display(), std::io::ErrorKind::NotFound, what)
    })
}

/// Reads every file of a manifest and compares its hash; `step` is told of bytes that have been read.
///
/// # Errors
/// None for files that are missing or damaged: those are faults. [`Error::Io`] where the system cannot read.
pub fn hashes(directory: &Path, manifest: &Manifest, mut step: impl FnMut(u64)) -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    for record in &manifest.outputs {
        // A damaged manifest must not lead out of the directory.
        if Path::new(&record.file).file_name() != Some(record.file.as_ref()) {
            let what = "is no name of a file in this directory".to_owned();
            faults.push(Fault { file: record.file.clone(), what });
            continue;
        }
        let what = match file_blake3(&directory.join(&record.file), &mut step)? {
            None => "is missing".to_owned(),
            Some((bytes, _)) if bytes != record.bytes => {
                format!("has {bytes} bytes, the manifest says {}", record.bytes)
            }
            Some((_, hash)) if hash != record.blake3 => "holds other bytes than were written".to_owned(),
            Some(_) => continue,
        };
        faults.push(Fault { file: record.file.clone(), what });
    }
    Ok(faults)
}

/// The length and the blake3 of a file, or `None` where there is none.
fn file_blake3(path: &Path, step: &mut impl FnMut(u64)) -> Result<Option<(u64, String)>> {
    let failed = |e| Error::io(path.display(), "cannot read it", e);
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let (mut hasher, mut bytes, mut piece) = (blake3::Hasher::new(), 0, vec![0; STEP]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(Some((bytes, hasher.finalize().to_hex().to_string()))),
            Ok(n) => {
                hasher.update(&piece[..n]);
                bytes += n as u64;
                step(n as u64);
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(failed(e)),
        }
    }
}

/// Makes every file again with the scalar reference, which shares no code with the plans, and compares all bytes.
///
/// Holds a tensor at a time in memory, decoded and packed. `request` has the options with which the files were made.
///
/// # Errors
/// Those of [`jobs`] and of reading.
pub fn contents(
    directory: &Path,
    manifest: &Manifest,
    model: &Model,
    request: &Request,
    mut step: impl FnMut(u64),
) -> Result<Vec<Fault>> {
    let rules = Rules::parse(&manifest.rules)?;
    let jobs = jobs(model, &rules, request)?;
    let mut by_file: HashMap<&str, &Record> = manifest.outputs.iter().map(|r| (r.file.as_str(), r)).collect();
    let entries: HashMap<&str, &Entry> = model.entries().iter().map(|e| (e.name.as_str(), e)).collect();
    let mut faults = Vec::new();
    for job in &jobs {
        let what = match by_file.remove(job.file.as_str()) {
            None => Some("is not in the manifest".to_owned()),
            Some(record) => differs(directory, (&entries, job), record, request)?,
        };
        faults.extend(what.map(|what| Fault { file: job.file.clone(), what }));
        step(job.conversion.container.bytes);
    }
    let mut extra: Vec<&str> = by_file.into_keys().collect();
    extra.sort_unstable();
    faults.extend(extra.into_iter().map(|file| {
        let what = "is not what the rules make of this model".to_owned();
        Fault { file: file.to_owned(), what }
    }));
    Ok(faults)
}

/// How the file of a job differs from what the reference makes.
fn differs(
    directory: &Path,
    (entries, job): (&HashMap<&str, &Entry>, &Job),
    record: &Record,
    request: &Request,
) -> Result<Option<String>> {
    for was in record.sources.iter().filter(|was| was.blake3.is_some()) {
        let entry = entries.get(was.name.as_str());
        if entry.map(|entry| SourceTensor::hashed(entry)).transpose()?.as_ref() != Some(was) {
            return Ok(Some(format!("was made from another `{}` than the model has now", was.name)));
        }
    }
    let path = directory.join(&job.file);
    let file = match std::fs::read(&path) {
        Ok(file) => file,
        Err(e) => return Ok(Some(format!("cannot be read: {e}"))),
    };
    let conversion = &job.conversion;
    let mut elements = vec![0; conversion.plan.source_bytes()];
    job.array.read(0, &mut elements)?;
    let packed = run::reference(&conversion.source, &conversion.destination, &request.options, &elements)?;
    let size = conversion.destination.buffer_bytes() as usize;
    let mut needed = conversion.container.head.clone();
    for (i, place) in conversion.container.places.iter().enumerate() {
        if let Some(place) = place {
            needed.resize(place.start as usize, 0);
            needed.extend_from_slice(&packed[i * size..(i + 1) * size]);
        }
    }
    let at = needed.iter().zip(&file).position(|(a, b)| a != b);
    Ok(match at {
        Some(at) => Some(format!("differs from the scalar reference at byte {at}")),
        None if needed.len() != file.len() => {
            Some(format!("has {} bytes, the scalar reference makes {}", file.len(), needed.len()))
        }
        None => None,
    })
}

/// How one directory differs from another, by their manifests, a line for each tensor.
pub fn diff(a: &Manifest, b: &Manifest) -> Vec<String> {
    let of_b: HashMap<&str, &Record> = b.outputs.iter().map(|r| (r.name.as_str(), r)).collect();
    let of_a: HashMap<&str, &Record> = a.outputs.iter().map(|r| (r.name.as_str(), r)).collect();
    let mut lines = Vec::new();
    for old in &a.outputs {
        let Some(new) = of_b.get(old.name.as_str()) else {
            lines.push(format!("- {}: {}", old.name, old.layout));
            continue;
        };
        let mut changes = Vec::new();
        if old.shape != new.shape || old.dtype != new.dtype {
            changes.push(format!("{:?} {} -> {:?} {}", old.shape, old.dtype, new.shape, new.dtype));
        }
        if old.layout != new.layout {
            changes.push(format!("{} -> {}", old.layout, new.layout));
        }
        if old.mesh != new.mesh {
            let mesh = |m: &Option<String>| m.clone().unwrap_or_else(|| "one device".to_owned());
            changes.push(format!("{} -> {}", mesh(&old.mesh), mesh(&new.mesh)));
        }
        // What one of them does not know of a tensor is no difference.
        let other =
            |(a, b): (&SourceTensor, &SourceTensor)| a.blake3.is_some() && b.blake3.is_some() && a != b;
        if old.sources.len() != new.sources.len() || old.sources.iter().zip(&new.sources).any(other) {
            changes.push("other sources".to_owned());
        }
        if changes.is_empty() && old.blake3 != new.blake3 {
            changes.push("other bytes from the same sources and layout".to_owned());
        }
        if !changes.is_empty() {
            lines.push(format!("~ {}: {}", old.name, changes.join("; ")));
        }
    }
    for new in b.outputs.iter().filter(|new| !of_a.contains_key(new.name.as_str())) {
        lines.push(format!("+ {}: {}", new.name, new.layout));
    }
    lines
}
