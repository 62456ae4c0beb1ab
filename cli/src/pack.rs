//! `tilewright pack`: a whole checkpoint, through memory that does not depend on its size.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use indicatif::HumanBytes;
use kernels::Isa;
use serde_json::{Value, json};
use tilewright::text::MAX_TEXT;
use tilewright_checkpoint::job::{Job, Request, Share};
use tilewright_checkpoint::model::Model;
use tilewright_checkpoint::pack::{Event, Packing, Run, Summary};
use tilewright_checkpoint::rules::Rules;

use super::arguments::{NumberArgs, PackArgs};
use super::checkpoint;
use super::failure::Result;
use super::progress::Stage;
use super::streams::{print, warn};

pub(crate) fn run(args: &PackArgs, isa: Isa) -> Result<()> {
    let rules = match Rules::ready_made(&args.rules) {
        Some(text) => Rules::parse(text)?,
        None => Rules::parse(&tilewright_files::read_text(Path::new(&args.rules), MAX_TEXT)?)?,
    };
    let model = Model::open(&args.model)?;
    let PackArgs { rounding, search, codec, saturate, .. } = *args;
    let numbers = NumberArgs { rounding, search, codec, saturate, compat_unpack: None };
    let request = Request {
        options: numbers.options().with_isa(isa),
        devices: args.only_devices.map(|(first, last)| first..last + 1),
        share: args.rank.zip(args.world).map(|(rank, world)| Share { rank, world }),
    };
    let name = args.model.display().to_string();
    let packing = Packing::prepare(&model, &name, &rules, request, args.max_memory)?;
    warn(&warnings(packing.jobs()));
    let threads = match args.threads {
        Some(n) => n.into(),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let Some(out) = args.out.as_deref().filter(|_| !args.dry_run) else {
        let rate = packing.sample_rate(threads)?.unwrap_or(f64::INFINITY);
        let planned = if args.json { plan_json } else { table };
        return print(&planned(packing.jobs(), &rules, rate));
    };
    let begin = Instant::now();
    let run = Run { threads, resume: args.resume, listener: listener(args.json), cancel: Arc::default() };
    let summary = packing.run(out, &run)?;
    drop(run);
    let seconds = begin.elapsed().as_secs_f64();
    print(&if args.json { end_json(&summary, seconds) } else { end_text(&summary, out, seconds) })?;
    if args.verify {
        checkpoint::check(out, None, args.json)?;
    }
    Ok(())
}

/// What texts have and nobody understands, once each.
fn warnings(jobs: &[Job]) -> Vec<String> {
    let mut warnings: Vec<String> = jobs.iter().flat_map(|job| job.conversion.warnings.clone()).collect();
    warnings.sort();
    warnings.dedup();
    warnings
}

/// Shows what happens: a bar on a terminal, objects on stdout for programs.
fn listener(as_json: bool) -> tilewright_checkpoint::pack::Listener {
    let stage = Mutex::new(None);
    Arc::new(move |event| {
        if as_json {
            // A reader that has gone away is noticed when the last object is printed.
            let _ = event_json(event).map(|object| print(&format!("{object}\n")));
            return;
        }
        let mut stage = stage.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Begin { bytes, .. } => *stage = Some(Stage::begin("packing", bytes)),
            Event::Wrote(bytes) => {
                if let Some(stage) = &*stage {
                    stage.advance(bytes);
                }
            }
            _ => {}
        }
    })
}

fn event_json(event: Event<'_>) -> Option<Value> {
    match event {
        Event::Begin { files, bytes, kept } => {
            Some(json!({ "event": "begin", "files": files, "bytes": bytes, "kept": kept }))
        }
        Event::Made(record) => Some(json!({
            "event": "made", "name": record.name, "file": record.file, "bytes": record.bytes, "blake3": record.blake3,
        })),
        _ => None,
    }
}

fn end_json(summary: &Summary, seconds: f64) -> String {
    let Summary { made, bytes, kept, read } = *summary;
    let object = json!({
        "event": "end", "made": made, "bytes": bytes, "kept": kept, "elements_bytes": read, "seconds": seconds,
    });
    format!("{object}\n")
}

fn end_text(summary: &Summary, out: &Path, seconds: f64) -> String {
    let Summary { made, bytes, kept, read } = *summary;
    let rate = read as f64 / seconds.max(1e-9) / 1e9;
    let kept = if kept > 0 { format!(", {kept} were there already") } else { String::new() };
    format!(
        "{made} files of {} made in {}{kept}\n{seconds:.3} s, {rate:.2} GB/s of elements\n",
        HumanBytes(bytes),
        out.display()
    )
}

/// What would be made, a line for each file; `rate` is in bytes of elements per second.
fn table(jobs: &[Job], rules: &Rules, rate: f64) -> String {
    let width = |of: fn(&Job) -> usize, least: usize| jobs.iter().map(of).max().unwrap_or(0).max(least);
    let name = width(|job| job.file.chars().count(), 4);
    let layout = width(|job| job.conversion.text.chars().count(), 6);
    let mut text = format!(
        "{:<name$}  {:<layout$}  {:>14}  {:>6}  {:>10}  {:<20}  source\n",
        "file", "layout", "bytes", "waste", "expected", "rule"
    );
    for job in jobs {
        let sources = match job.sources.as_slice() {
            [one] => one.clone(),
            several => format!("{} and {} more", several[0], several.len() - 1),
        };
        let tensor = format!("{:?} {}", job.tensor.shape, job.tensor.dtype);
        let turned = if job.transposed { ", transposed" } else { "" };
        let mesh = job.mesh.as_ref().map_or(String::new(), |mesh| format!(", {mesh}"));
        text += &format!(
            "{:<name$}  {:<layout$}  {:>14}  {:>5.1}%  {:>8.3} s  {:<20}  {sources} {tensor}{turned}{mesh}\n",
            job.file,
            job.conversion.text,
            job.conversion.container.bytes,
            100.0 * job.waste(),
            job.source_bytes() as f64 / rate,
            rules.rule(job.rule).name,
        );
    }
    let total: u64 = jobs.iter().map(|job| job.conversion.container.bytes).sum();
    let read: u64 = jobs.iter().map(Job::source_bytes).sum();
    text + &format!(
        "{} files, {} from {} of elements; about {:.1} s at {:.2} GB/s of elements, as a sample is read and converted \
         here, unless the disk takes longer\n",
        jobs.len(),
        HumanBytes(total),
        HumanBytes(read),
        read as f64 / rate,
        rate / 1e9
    )
}

/// The same as one object.
fn plan_json(jobs: &[Job], rules: &Rules, rate: f64) -> String {
    let files: Vec<Value> = jobs
        .iter()
        .map(|job| {
            json!({
                "name": job.name,
                "file": job.file,
                "rule": rules.rule(job.rule).name,
                "layout": job.conversion.text,
                "mesh": job.mesh,
                "shape": job.tensor.shape,
                "dtype": job.tensor.dtype.name(),
                "transposed": job.transposed,
                "sources": job.sources,
                "elements_bytes": job.source_bytes(),
                "bytes": job.conversion.container.bytes,
                "waste": job.waste(),
                "expected_seconds": job.source_bytes() as f64 / rate,
            })
        })
        .collect();
    format!("{}\n", json!({ "files": files }))
}
