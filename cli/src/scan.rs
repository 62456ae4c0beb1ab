//! `tilewright scan`: every layout in the IR of a compiler, with what it needs and what is wrong with it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tilewright::family::{Placement, Tensor};
use tilewright::text;
use tilewright::{Error, Layout};

use super::arguments::ScanArgs;
use super::draw::{self, Shown};
use super::failure::{Failure, Result};
use super::mlir;
use super::progress::Stage;
use super::streams::{print, warn};

/// How deep folders are looked into.
const MAX_FOLDERS: usize = 64;

/// One distinct layout.
struct Found {
    text: String,
    count: u64,
    /// `file:line:column` of its first use.
    at: String,
    outcome: Result<Fitted, String>,
}

/// A layout that its text gives.
struct Fitted {
    tensor: Tensor,
    layout: Layout,
    /// Why the layout is of no use as a destination, if it is not.
    fault: Option<String>,
}

pub(crate) fn run(args: &ScanArgs) -> Result<()> {
    let files = files(&args.path)?;
    let placement = Placement { lenient: args.lenient, ..Placement::default() };
    let (mut found, mut known, mut torn) = (Vec::<Found>::new(), HashMap::<String, usize>::new(), 0);
    let size = |file: &PathBuf| fs::metadata(file).map_or(0, |about| about.len());
    let stage = Stage::begin("scanning", files.iter().map(size).sum());
    for file in &files {
        let module = mlir::read(file)?;
        stage.advance(size(file));
        let torn_here = module.torn().iter().map(|t| {
            let at = format!("{}:{}:{}", file.display(), t.line, t.column);
            format!("{at}: a type that does not end is skipped: `{}`", t.text)
        });
        warn(&torn_here.collect::<Vec<_>>());
        torn += module.torn().len();
        for used in module.uses() {
            if let Some(&k) = known.get(&used.text) {
                found[k].count += used.count;
                continue;
            }
            known.insert(used.text.clone(), found.len());
            let at = format!("{}:{}:{}", file.display(), used.line, used.column);
            let outcome = fit(&used.text, &placement);
            found.push(Found { text: used.text.clone(), count: used.count, at, outcome });
        }
    }
    drop(stage);
    print(&if args.json { json(files.len(), torn, &found) } else { table(files.len(), torn, &found) })?;
    args.draw
        .as_ref()
        .map_or(Ok(()), |directory| draw::all(directory, found.iter().filter_map(Found::shown).collect()))
}

/// The file, or every `.mlir` file below the folder, in the order of their names.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    let mut folders = vec![(path.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let failed = |e: std::io::Error| Error::io(folder.display(), "cannot list it", e);
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let path = entry.path();
            if kind.is_dir() && depth < MAX_FOLDERS {
                folders.push((path, depth + 1));
            } else if kind.is_file() && path.extension().is_some_and(|e| e == "mlir") {
                files.push(path);
            }
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Failure::usage("scan", path.display(), "a folder with .mlir files in it"));
    }
    Ok(files)
}

/// The layout of a text that says its tensor, or what is wrong with it.
fn fit(text: &str, placement: &Placement<'_>) -> Result<Fitted, String> {
    let message = |e: Error| e.to_string();
    let descriptor = text::parse(text).map_err(message)?.descriptor;
    let tensor = descriptor.tensor().ok_or("its element type is that of no tensor")?;
    let layout = descriptor.layout(&tensor, placement).map_err(message)?;
    let fault = layout.check_destination().err().map(message);
    Ok(Fitted { tensor, layout, fault })
}

impl Fitted {
    /// Places without an element, in percent of all places.
    fn waste(&self) -> f64 {
        let padding = self.layout.padding_elements() as f64;
        let elements = self.layout.elements() as f64 * self.layout.copies() as f64;
        100.0 * padding / (elements + padding).max(1.0)
    }
}

impl Found {
    fn fault(&self) -> Option<&str> {
        match &self.outcome {
            Ok(fitted) => fitted.fault.as_deref(),
            Err(fault) => Some(fault),
        }
    }

    /// The layout as a picture shows it, if it has no fault.
    fn shown(&self) -> Option<Shown<'_>> {
        let fitted = self.outcome.as_ref().ok().filter(|fitted| fitted.fault.is_none())?;
        let Fitted { tensor, layout, .. } = fitted;
        let notes = vec![format!("used {} times, first at {}", self.count, self.at)];
        Some(Shown { text: &self.text, tensor, layout, notes })
    }

    fn json(&self) -> Value {
        let mut object =
            json!({ "text": self.text, "count": self.count, "at": self.at, "fault": self.fault() });
        if let Ok(fitted) = &self.outcome {
            let (layout, geometry) = (&fitted.layout, fitted.layout.geometry());
            object["logical_shape"] = json!(fitted.tensor.shape);
            object["dtype"] = json!(fitted.tensor.dtype.name());
            object["stored"] = json!(layout.format().to_string());
            object["physical_shape"] = json!(geometry.physical_shape);
            object["grid"] = json!(geometry.grid);
            object["shard_shape"] = json!(geometry.shard_shape);
            object["buffers"] = json!(layout.buffers());
            object["buffer_bytes"] = json!(layout.buffer_bytes());
            object["total_bytes"] = json!(layout.total_bytes());
            object["padding_percent"] = json!(fitted.waste());
        }
        object
    }
}

/// Sums of all layouts: uses, and how many have a fault.
fn sums(found: &[Found]) -> (u64, usize) {
    (found.iter().map(|f| f.count).sum(), found.iter().filter(|f| f.fault().is_some()).count())
}

fn json(files: usize, torn: usize, found: &[Found]) -> String {
    let (uses, faults) = sums(found);
    let layouts: Vec<Value> = found.iter().map(Found::json).collect();
    let object = json!({ "files": files, "uses": uses, "faults": faults, "torn": torn, "layouts": layouts });
    // One object on one line, for tools that read lines.
    format!("{object}\n")
}

fn table(files: usize, torn: usize, found: &[Found]) -> String {
    let (uses, faults) = sums(found);
    let torn = if torn > 0 { format!(", torn and skipped {torn}") } else { String::new() };
    let mut out = format!(
        "files {files}, distinct layouts {}, uses {uses}, with a fault {faults}{torn}\n",
        found.len()
    );
    out += &format!(
        "{:>6}  {:<20} {:<6} {:>8} {:>12} {:>7}\n",
        "uses", "shape", "type", "buffers", "bytes each", "waste"
    );
    for found in found {
        match &found.outcome {
            Ok(fitted) => {
                let shape: Vec<String> = fitted.tensor.shape.iter().map(u64::to_string).collect();
                let (buffers, bytes) = (fitted.layout.buffers(), fitted.layout.buffer_bytes());
                out += &format!(
                    "{:>6}  {:<20} {:<6} {buffers:>8} {bytes:>12} {:>6.1}%  {}\n",
                    found.count,
                    shape.join("x"),
                    fitted.tensor.dtype.name(),
                    fitted.waste(),
                    found.at
                );
            }
            Err(_) => out += &format!("{:>6}  {:<58}  {}\n", found.count, "-", found.at),
        }
        out += &format!("        {}\n", found.text);
        if let Some(fault) = found.fault() {
            out += &format!("        fault: {fault}\n");
        }
    }
    out
}
