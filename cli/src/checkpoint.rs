//! `tilewright list`, `verify`, `inspect` and `diff`: looking at checkpoints and at what was packed from them.

use std::path::Path;

use serde_json::json;
use tilewright_checkpoint::job::Request;
use tilewright_checkpoint::manifest::Manifest;
use tilewright_checkpoint::model::Model;
use tilewright_checkpoint::verify::{self, Fault};

use super::arguments::{DiffArgs, ListArgs, VerifyArgs};
use super::failure::{Failure, Result};
use super::progress::Stage;
use super::streams::print;
use super::tensorbin;

/// `tilewright list MODEL`.
pub(crate) fn list(args: &ListArgs) -> Result<()> {
    let model = Model::open(&args.path)?;
    if args.json {
        let tensors: Vec<_> = model
            .entries()
            .iter()
            .map(|e| {
                let file = e.data.file.path().file_name().unwrap_or_default().to_string_lossy();
                json!({
                    "name": e.name, "dtype": e.encoding.to_string(), "shape": e.shape, "bytes": e.source_bytes(),
                    "file": file,
                })
            })
            .collect();
        return print(&format!("{}\n", json!({ "tensors": tensors })));
    }
    let width = model.entries().iter().map(|e| e.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for entry in model.entries() {
        let encoding = entry.encoding.to_string();
        let bytes = entry.source_bytes();
        text += &format!("{:<width$}  {encoding:<8}  {bytes:>14}  {:?}\n", entry.name, entry.shape);
    }
    let total: u64 = model.entries().iter().map(|e| e.source_bytes()).sum();
    let (tensors, files) = (model.entries().len(), model.files().len());
    print(&format!("{text}{tensors} tensors, {total} bytes in {files} files\n"))
}

/// `tilewright verify DIR`.
pub(crate) fn verify(args: &VerifyArgs) -> Result<()> {
    let full = args.full.as_ref().map(|model| model.as_deref());
    check(&args.directory, full, args.json)
}

/// Compares a directory with its manifest; with `full` also with what the scalar reference makes of a checkpoint, that of
/// the manifest where none is given.
pub(crate) fn check(directory: &Path, full: Option<Option<&Path>>, as_json: bool) -> Result<()> {
    let manifest = verify::manifest(directory)?;
    let bytes = manifest.outputs.iter().map(|output| output.bytes).sum();
    let stage = Stage::begin("verifying", bytes);
    let mut faults = verify::hashes(directory, &manifest, |n| stage.advance(n))?;
    drop(stage);
    if let Some(model) = full {
        let model = Model::open(model.unwrap_or(Path::new(&manifest.model)))?;
        let devices = manifest.devices.map(|[first, end]| first..end);
        let request = Request { devices, options: manifest.number_options()?, ..Request::default() };
        let stage = Stage::begin("packing with the scalar reference", bytes);
        let found = verify::contents(directory, &manifest, &model, &request, |n| stage.advance(n))?;
        faults.extend(
            found.into_iter().filter(|new| faults.iter().all(|old| old.file != new.file)).collect::<Vec<_>>(),
        );
    }
    print(&if as_json { faults_json(&manifest, &faults) } else { faults_text(&manifest, &faults) })?;
    match faults.len() {
        0 => Ok(()),
        files => Err(Failure::Differ(format!("{files} files are not what they should be"))),
    }
}

fn faults_json(manifest: &Manifest, faults: &[Fault]) -> String {
    let list: Vec<_> = faults.iter().map(|f| json!({ "file": f.file, "what": f.what })).collect();
    format!("{}\n", json!({ "event": "verified", "files": manifest.outputs.len(), "faults": list }))
}

fn faults_text(manifest: &Manifest, faults: &[Fault]) -> String {
    let lines: String = faults.iter().map(|f| format!("{} {}\n", f.file, f.what)).collect();
    let files = manifest.outputs.len();
    format!("{lines}{} of {files} files are as they were made\n", files.saturating_sub(faults.len()))
}

/// `tilewright inspect PATH`.
pub(crate) fn inspect(args: &ListArgs) -> Result<()> {
    if tensorbin::is_named(&args.path) {
        return tensorbin::explain(&args.path, args.json);
    }
    let packed = match args.path.is_dir() {
        true => Manifest::read(&args.path, None)?,
        false => None,
    };
    let Some(manifest) = packed else { return list(args) };
    if args.json {
        return print(&format!("{}\n", json!(manifest)));
    }
    let width = manifest.outputs.iter().map(|o| o.file.chars().count()).max().unwrap_or(0);
    let mut text = format!("packed from {} by version {}\n\n", manifest.model, manifest.version);
    for output in &manifest.outputs {
        let mesh = output.mesh.as_ref().map_or(String::new(), |mesh| format!("  {mesh}"));
        text += &format!(
            "{:<width$}  {:>14}  {}  {:?} {}{mesh}\n",
            output.file, output.bytes, output.layout, output.shape, output.dtype
        );
    }
    let bytes: u64 = manifest.outputs.iter().map(|output| output.bytes).sum();
    print(&format!("{text}{} files, {bytes} bytes\n", manifest.outputs.len()))
}

/// `tilewright diff A B`.
pub(crate) fn diff(args: &DiffArgs) -> Result<()> {
    let (a, b) = (verify::manifest(&args.a)?, verify::manifest(&args.b)?);
    let lines = verify::diff(&a, &b);
    if args.json {
        print(&format!("{}\n", json!({ "differences": lines })))?;
    } else {
        let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
        print(&lines)?;
    }
    match lines.len() {
        0 => Ok(()),
        tensors => Err(Failure::Differ(format!("{tensors} tensors differ"))),
    }
}
