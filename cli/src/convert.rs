//! `tilewright convert`: one tensor into one layout.

use std::path::Path;
use std::time::{Duration, Instant};

use kernels::Isa;
use serde_json::json;
use tilewright::family::Tensor;
use tilewright::stage::ReadAt;
use tilewright_files::{Order, npy};

use super::arguments::{ConvertArgs, LayoutArgs, threads};
use super::destination::{Destination, Kind};
use super::engine::{Choices, Job, Texts};
use super::failure::{Failure, Result};
use super::input::{self, Input};
use super::streams::{note, print, warn};
use super::tensorbin;
use super::transfer::{self, Times};

/// Where the built-in tensor goes when nobody says.
const BUILT_IN_LAYOUT: &str = "ttnn(dtype=bfloat8_b, layout=TILE)";

pub(crate) fn run(args: &ConvertArgs, isa: Isa) -> Result<()> {
    let begun = Instant::now();
    let out = args.out.as_deref().map(|out| Kind::of(out).map(|kind| (out, kind))).transpose()?;
    let Some(path) = &args.input else {
        let input = input::built_in(args)?;
        let to = args.layouts.to.clone().unwrap_or_else(|| BUILT_IN_LAYOUT.to_owned());
        let layouts = LayoutArgs { to: Some(to), ..args.layouts.clone() };
        return convert(&input, out, &layouts, true, args, isa, begun);
    };
    if out.is_none() {
        return Err(Failure::usage("--out", "none", "the file to write"));
    }
    let input = input::open(path, args, args.check)?;
    convert(&input, out, &args.layouts, args.check, args, isa, begun)
}

fn convert(
    input: &Input,
    out: Option<(&Path, Kind)>,
    layouts: &LayoutArgs,
    check: bool,
    args: &ConvertArgs,
    isa: Isa,
    begun: Instant,
) -> Result<()> {
    let mut texts = Texts::read(&input.tensor, layouts, args.from.as_deref())?;
    texts.stored = input.stored.clone();
    match out {
        Some((out, Kind::TensorBin)) => {
            texts.file = Some(tensorbin::describe(out, &texts, args.devices.as_deref())?);
        }
        _ if args.devices.is_some() => {
            return Err(Failure::usage("--devices", "another result", "a .tensorbin name as --out"));
        }
        _ => {}
    }
    warn(&texts.warnings);
    let choices = Choices { order: input.order, pad_value: args.pad_value, numbers: args.numbers, isa };
    let job = Job::prepare(texts, &choices)?;
    if input.pipe.is_none() {
        job.check_source(input.elements.size())?;
    }
    let replaced = out.is_some_and(|(out, kind)| kind != Kind::Stdout && out.exists());
    if replaced && args.no_clobber {
        let name = args.out.as_deref().unwrap_or(Path::new("")).display();
        return Err(Failure::usage(
            "--out",
            format!("{name}, which exists"),
            "a new name, with --no-clobber",
        ));
    }
    let threads = threads(args.threads);
    let destination = Destination::begin(out, &job, &input.tensor)?;
    let (destination, mut times) =
        transfer::run(&job, (&input.elements, input.again), destination, threads, check)?;
    if let Some(pipe) = &input.pipe {
        pipe.check_end(job.plan.source_bytes() as u64)?;
    }
    let committing = Instant::now();
    destination.commit()?;
    times.writing += committing.elapsed();
    let whole = begun.elapsed();
    let report = Report { input, job: &job, out, isa, threads, times, whole, replaced };
    report.hint();
    let text = if args.json { report.json() } else { report.text() };
    // What is not the result goes to stderr.
    if out.is_some_and(|(_, kind)| kind == Kind::Stdout) {
        note(&text)
    } else {
        print(&text)?
    }
    Ok(())
}

/// What was done.
struct Report<'a> {
    input: &'a Input,
    job: &'a Job,
    out: Option<(&'a Path, Kind)>,
    isa: Isa,
    threads: usize,
    times: Times,
    whole: Duration,
    /// Whether a file of that name was there.
    replaced: bool,
}

impl Report<'_> {
    fn source_bytes(&self) -> u64 {
        self.job.plan.source_bytes() as u64
    }

    /// Says on stderr what numpy will not say of a file.
    fn hint(&self) {
        let (Some((out, Kind::Npy)), Some((dtype, _))) = (self.out, self.job.host_array()) else { return };
        if let Some(stored) = npy::stands_for(dtype) {
            let out = out.display();
            note(&format!(
                "note: numpy has no {dtype}: {out} holds the same bits as {stored}. `convert {out} --dtype {dtype}` reads \
                 them; in Python, view what numpy.load gives as the type of ml_dtypes or torch\n",
            ));
        }
    }

    fn text(&self) -> String {
        let (layout, Tensor { shape, dtype }) = (&self.job.layout, &self.input.tensor);
        let order = if self.input.order == Order::ColumnMajor { ", column-major" } else { "" };
        let written = match self.out {
            None => "not written (no --out)".to_owned(),
            Some((_, Kind::Stdout)) => "written to stdout".to_owned(),
            Some((out, _)) if self.replaced => {
                format!("written to {}, which was there and is replaced", out.display())
            }
            Some((out, _)) => format!("written to {}", out.display()),
        };
        let checked = match self.times.checking {
            Some(_) => "\n  checked    every byte equals the scalar reference",
            None => "",
        };
        format!(
            "{}\n  source     {shape:?} {dtype}{order}, {} bytes\n  layout     {}\n  result     {} bytes in {}, {} padding \
             elements, {written}\n  time       {}\n  kernels    level {}, {} threads at most{checked}\n",
            self.input.name,
            self.source_bytes(),
            self.job.texts.to,
            layout.total_bytes(),
            self.job.buffers(),
            layout.padding_elements(),
            self.time(),
            self.isa.name(),
            self.threads,
        )
    }

    /// What took how long, with the bytes that it moved.
    fn time(&self) -> String {
        let Times { staged, writing, checking } = &self.times;
        let (source, total) = (self.source_bytes(), self.job.layout.total_bytes());
        let part = |name: &str, time: Duration, bytes: u64| {
            format!("{name} {:.3} s ({:.2} GB/s)", time.as_secs_f64(), rate(bytes, time))
        };
        let mut parts = vec![
            part("reading", staged.reading, staged.bytes_read),
            part("converting", staged.converting, source),
        ];
        parts.extend(checking.map(|time| part("checking", time, total)));
        if self.out.is_some() {
            parts.push(part("writing", *writing, total));
        }
        let (whole, rate) = (self.whole.as_secs_f64(), rate(source, self.whole));
        format!("{whole:.3} s, {rate:.2} GB/s of source; side by side: {}", parts.join(", "))
    }

    fn json(&self) -> String {
        let (layout, Times { staged, writing, checking }) = (&self.job.layout, &self.times);
        let object = json!({
            "input": self.input.name,
            "logical_shape": self.input.tensor.shape,
            "dtype": self.input.tensor.dtype.name(),
            "source_bytes": self.source_bytes(),
            "to": self.job.texts.to.to_string(),
            "out": self.out.map(|(out, _)| out.display().to_string()),
            "replaced": self.replaced,
            "total_bytes": layout.total_bytes(),
            "buffers": layout.buffers(),
            "buffer_bytes": layout.buffer_bytes(),
            "padding_elements": layout.padding_elements(),
            "seconds": self.whole.as_secs_f64(),
            "gb_per_s": rate(self.source_bytes(), self.whole),
            "reading_seconds": staged.reading.as_secs_f64(),
            "converting_seconds": staged.converting.as_secs_f64(),
            "writing_seconds": writing.as_secs_f64(),
            "checking_seconds": checking.map(|time| time.as_secs_f64()),
            "isa": self.isa.name(),
            "threads": self.threads,
            "checked": checking.is_some(),
        });
        format!("{object}\n")
    }
}

/// Bytes in a nanosecond.
fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / time.as_nanos().max(1) as f64
}
