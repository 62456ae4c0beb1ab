//! The tensors of a checkpoint: where each lies in which file, and how it is encoded.
//!
//! Only headers are read here. Tensors come in the order of their files, which is the order in which reading them is
//! fastest. Tensors that belong together (codes and their scales) are one [`Entry`].

mod entry;
mod file;
mod gguf;
mod npy;
mod pairs;
mod safetensors;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use tilewright::{Error, Result};

pub use entry::{Encoding, Entry, Extent};
pub use file::ModelFile;

use entry::MAX_HEADER;
use file::damaged;

/// A checkpoint: one file, the shards that an index names, or a folder.
#[derive(Debug)]
pub struct Model {
    entries: Vec<Entry>,
    files: Vec<Arc<ModelFile>>,
}

/// What the index of a sharded checkpoint says that matters here.
#[derive(Deserialize)]
struct Index {
    weight_map: HashMap<String, String>,
}

impl Model {
    /// Opens a checkpoint: a `.safetensors`, `.gguf` or `.npy` file, a `.safetensors.index.json`, or a folder that holds
    /// an index, or such files of one kind.
    ///
    /// # Errors
    /// [`Error::Io`] where a file is missing or damaged; [`Error::Value`] where the path is none of these.
    pub fn open(path: &Path) -> Result<Model> {
        let (paths, index) = locate(path)?;
        let mut files = Vec::with_capacity(paths.len());
        let mut entries = Vec::new();
        for path in &paths {
            let file = Arc::new(ModelFile::open(path)?);
            files.push(Arc::clone(&file));
            let found = match kind(path) {
                Some(Kind::Safetensors) => safetensors::entries(&file)?,
                Some(Kind::Gguf) => gguf::entries(&file)?,
                Some(Kind::Npy) => vec![npy::entry(&file)?],
                None => return Err(unknown(path)),
            };
            entries.extend(found);
        }
        if let Some((index, map)) = index {
            keep_mapped(&index, &map, &mut entries)?;
        }
        refuse_doubles(&entries)?;
        Ok(Model { entries: pairs::join(entries)?, files })
    }

    /// The tensors, in the order of the files.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The files, in order.
    pub fn files(&self) -> &[Arc<ModelFile>] {
        &self.files
    }

    /// An error if any file is no longer what was opened.
    ///
    /// # Errors
    /// As [`ModelFile::check_unchanged`].
    pub fn check_unchanged(&self) -> Result<()> {
        self.files.iter().try_for_each(|file| file.check_unchanged())
    }
}

/// The formats of files, by their suffixes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Safetensors,
    Gguf,
    Npy,
}

fn kind(path: &Path) -> Option<Kind> {
    match path.extension()?.to_str()? {
        "safetensors" => Some(Kind::Safetensors),
        "gguf" => Some(Kind::Gguf),
        "npy" => Some(Kind::Npy),
        _ => None,
    }
}

fn unknown(path: &Path) -> Error {
    let needed = "a .safetensors, .gguf or .npy file, a .safetensors.index.json, or a folder of such files";
    Error::value("model", path.display(), needed)
}

type Mapped = (PathBuf, HashMap<String, String>);

/// The files of a model, in order, and the map from names to files where an index gives one.
fn locate(path: &Path) -> Result<(Vec<PathBuf>, Option<Mapped>)> {
    if path.is_dir() {
        return locate_in_folder(path);
    }
    if path.to_str().is_some_and(|name| name.ends_with(".index.json")) {
        return locate_by_index(path);
    }
    if kind(path).is_none() {
        return Err(unknown(path));
    }
    Ok((vec![path.to_owned()], None))
}

fn locate_in_folder(folder: &Path) -> Result<(Vec<PathBuf>, Option<Mapped>)> {
    let refused = |e: std::io::Error| Error::io(folder.display(), "cannot list it", e);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(refused)? {
        paths.push(entry.map_err(refused)?.path());
    }
    paths.sort();
    if let Some(index) =
        paths.iter().find(|p| p.to_str().is_some_and(|n| n.ends_with(".safetensors.index.json")))
    {
        return locate_by_index(index);
    }
    for wanted in [Kind::Safetensors, Kind::Gguf, Kind::Npy] {
        let of_kind: Vec<PathBuf> = paths.iter().filter(|p| kind(p) == Some(wanted)).cloned().collect();
        if !of_kind.is_empty() {
            return Ok((of_kind, None));
        }
    }
    Err(unknown(folder))
}

fn locate_by_index(path: &Path) -> Result<(Vec<PathBuf>, Option<Mapped>)> {
    let file = ModelFile::open(path)?;
    let text = whole(&file, "an index")?;
    let index: Index = serde_json::from_slice(&text).map_err(|e| damaged(path, format!("index: {e}")))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut names: Vec<&String> = index.weight_map.values().collect();
    names.sort();
    names.dedup();
    let mut paths = Vec::with_capacity(names.len());
    for name in names {
        // A shard lies beside its index; anything else would read files that the user did not name.
        if Path::new(name).file_name() != Some(name.as_ref()) {
            return Err(damaged(path, format!("the shard {name:?} is not a name in the same folder")));
        }
        paths.push(folder.join(name));
    }
    Ok((paths, Some((path.to_owned(), index.weight_map))))
}

/// The bytes of a file that is read at once, which may not be longer than a header.
fn whole(file: &ModelFile, what: &str) -> Result<Vec<u8>> {
    if file.len() > MAX_HEADER {
        return Err(damaged(file.path(), format!("{what} of {} bytes (at most {MAX_HEADER})", file.len())));
    }
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Keeps what the index names, each from the file that it names.
fn keep_mapped(index: &Path, map: &HashMap<String, String>, entries: &mut Vec<Entry>) -> Result<()> {
    entries.retain(|e| {
        let file = e.data.file.path().file_name().and_then(|n| n.to_str());
        map.get(&e.name).is_some_and(|named| Some(named.as_str()) == file)
    });
    if entries.len() == map.len() {
        return Ok(());
    }
    let there: std::collections::HashSet<&str> = entries.iter().map(|e| e.name.as_str()).collect();
    let mut missing: Vec<&String> = map.keys().filter(|name| !there.contains(name.as_str())).collect();
    missing.sort();
    let what = match missing.first() {
        Some(name) => {
            format!("{} tensors are not in the shards that it names, `{name}` first", missing.len())
        }
        None => "a shard holds two tensors of one name".to_owned(),
    };
    Err(damaged(index, what))
}

fn refuse_doubles(entries: &[Entry]) -> Result<()> {
    let mut seen: HashMap<&str, &Entry> = HashMap::with_capacity(entries.len());
    for entry in entries {
        if let Some(first) = seen.insert(&entry.name, entry) {
            let first = first.data.file.path().display();
            let what = format!("the tensor `{}` is in {first} too", entry.name);
            return Err(damaged(entry.data.file.path(), what));
        }
    }
    Ok(())
}
