//! `tilewright convert`: one tensor into one layout.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, Instant};

use kernels::Isa;
use serde_json::json;
use tilewright::family::Tensor;
use tilewright::run::AlignedBuffer;
use tilewright::{Error, Layout};
use tilewright_files::tensorbin::Writer;
use tilewright_files::{HostArray, Order, Output, Source, npy};

use super::arguments::{ConvertArgs, LayoutArgs};
use super::engine::{Choices, Job, Texts};
use super::failure::{Failure, Result};
use super::input;
use super::progress::Stage;
use super::streams::{print, warn};
use super::tensorbin;

/// Where the built-in tensor goes when nobody says.
const BUILT_IN_LAYOUT: &str = "ttnn(dtype=bfloat8_b, layout=TILE)";

/// Bytes written between two looks at the progress.
const WRITE_STEP: usize = 32 << 20;

pub(crate) fn run(args: &ConvertArgs, isa: Isa) -> Result<()> {
    let Some(path) = &args.input else {
        let array = input::built_in(args)?;
        let to = args.layouts.to.clone().unwrap_or_else(|| BUILT_IN_LAYOUT.to_owned());
        let layouts = LayoutArgs { to: Some(to), ..args.layouts.clone() };
        return convert("a built-in ramp", &array, None, &layouts, true, args, isa);
    };
    if args.out.is_none() {
        return Err(Failure::usage("--out", "none", "the file to write"));
    }
    let source = Source::open(path)?;
    let (array, stored) = input::read(path, &source, args)?;
    convert(&path.display().to_string(), &array, stored, &args.layouts, args.check, args, isa)
}

fn convert(
    name: &str,
    array: &HostArray<'_>,
    stored: Option<Layout>,
    layouts: &LayoutArgs,
    check: bool,
    args: &ConvertArgs,
    isa: Isa,
) -> Result<()> {
    let mut texts = Texts::read(&array.tensor, layouts, args.from.as_deref())?;
    texts.stored = stored;
    match args.out.as_deref().filter(|out| tensorbin::is_named(out)) {
        Some(out) => texts.file = Some(tensorbin::describe(out, &texts, args.devices.as_deref())?),
        None if args.devices.is_some() => {
            return Err(Failure::usage("--devices", "another result", "a .tensorbin name as --out"));
        }
        None => {}
    }
    warn(&texts.warnings);
    let choices = Choices { order: array.order, pad_value: args.pad_value, numbers: args.numbers, isa };
    let job = Job::prepare(texts, &choices)?;
    job.check_source(&array.bytes)?;
    let total = job.layout.total_bytes();
    let header = args.out.as_deref().map(|out| file_header(out, &job, &array.tensor)).transpose()?;
    let threads = match args.threads {
        Some(n) => NonZeroUsize::new(n.into()).unwrap_or(NonZeroUsize::MIN),
        None => std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
    };

    let mut bytes = memory(total)?;
    let output = match (&args.out, &header) {
        (Some(out), Some(header)) if job.texts.file.is_none() => {
            Some(Output::create(out, header.len() as u64 + total)?)
        }
        _ => None,
    };
    let writer = match (&args.out, &job.texts.file) {
        (Some(out), Some(file)) => Some(Writer::create(out, file)?),
        _ => None,
    };
    let stage = Stage::begin("converting", total);
    let begin = Instant::now();
    job.execute(&array.bytes, &mut bytes, threads)?;
    let time = begin.elapsed();
    drop(stage);
    if check {
        let _stage = Stage::begin("checking", total);
        compare(&bytes, &job.reference(&array.bytes)?)?;
    }
    if let (Some(writer), Some(file)) = (writer, &job.texts.file) {
        tensorbin::write(writer, file, &bytes)?;
    } else if let (Some(mut output), Some(header)) = (output, header) {
        let stage = Stage::begin("writing", total);
        output.write(&header)?;
        for part in bytes.chunks(WRITE_STEP) {
            output.write(part)?;
            stage.advance(part.len() as u64);
        }
        output.commit()?;
    }
    let out = args.out.as_deref();
    let report = Report { name, array, job: &job, out, isa, threads, time, checked: check };
    print(&if args.json { report.json() } else { report.text() })
}

/// What comes before the buffers in the output file.
fn file_header(out: &Path, job: &Job, tensor: &Tensor) -> Result<Vec<u8>> {
    if out.extension().is_none_or(|e| e != "npy") {
        return Ok(Vec::new());
    }
    let (dtype, order) = job.host_array().ok_or_else(|| {
        let what =
            format!("a .bin name, as the result is {} and not one dense host array", buffers(&job.layout));
        Failure::usage("--out", out.display(), what)
    })?;
    Ok(npy::header(&Tensor { shape: tensor.shape.clone(), dtype }, order))
}

/// Memory for the result; not having it is the machine's failure, and no abort.
fn memory(len: u64) -> Result<AlignedBuffer> {
    let buffer = usize::try_from(len).ok().and_then(|len| AlignedBuffer::new(len).ok());
    buffer.ok_or_else(|| {
        let what = format!("there is no room for a result of {len} bytes");
        Error::file("memory", std::io::ErrorKind::OutOfMemory, what).into()
    })
}

fn compare(bytes: &[u8], reference: &[u8]) -> Result<()> {
    if bytes == reference {
        return Ok(());
    }
    let mut wrong = (0..bytes.len().max(reference.len())).filter(|&i| bytes.get(i) != reference.get(i));
    let first = wrong.next().unwrap_or(0) as u64;
    Err(Failure::Check { first, differ: 1 + wrong.count() as u64 })
}

fn buffers(layout: &Layout) -> String {
    match layout.buffers() {
        1 => "1 buffer".to_owned(),
        n => format!("{n} buffers of {} bytes", layout.buffer_bytes()),
    }
}

/// What was done.
struct Report<'a> {
    name: &'a str,
    array: &'a HostArray<'a>,
    job: &'a Job,
    out: Option<&'a Path>,
    isa: Isa,
    threads: NonZeroUsize,
    time: Duration,
    checked: bool,
}

impl Report<'_> {
    /// Source bytes in a nanosecond.
    fn rate(&self) -> f64 {
        self.array.bytes.len() as f64 / (self.time.as_nanos().max(1) as f64)
    }

    fn text(&self) -> String {
        let layout = &self.job.layout;
        let Tensor { shape, dtype } = &self.array.tensor;
        let order = if self.array.order == Order::ColumnMajor { ", column-major" } else { "" };
        let written = self
            .out
            .map_or("not written (no --out)".to_owned(), |out| format!("written to {}", out.display()));
        let checked = if self.checked { "\n  checked    every byte equals the scalar reference" } else { "" };
        format!(
            "{}\n  source     {shape:?} {dtype}{order}, {} bytes\n  layout     {}\n  result     {} bytes in {}, \
             {} padding elements, {written}\n  time       {:.6} s, {:.2} GB/s of source, level {}, {} threads at most{checked}\n",
            self.name,
            self.array.bytes.len(),
            self.job.texts.to,
            layout.total_bytes(),
            buffers(layout),
            layout.padding_elements(),
            self.time.as_secs_f64(),
            self.rate(),
            self.isa.name(),
            self.threads,
        )
    }

    fn json(&self) -> String {
        let layout = &self.job.layout;
        let object = json!({
            "input": self.name,
            "logical_shape": self.array.tensor.shape,
            "dtype": self.array.tensor.dtype.name(),
            "source_bytes": self.array.bytes.len(),
            "to": self.job.texts.to.to_string(),
            "out": self.out.map(|out| out.display().to_string()),
            "total_bytes": layout.total_bytes(),
            "buffers": layout.buffers(),
            "buffer_bytes": layout.buffer_bytes(),
            "padding_elements": layout.padding_elements(),
            "seconds": self.time.as_secs_f64(),
            "gb_per_s": self.rate(),
            "isa": self.isa.name(),
            "threads": self.threads,
            "checked": self.checked,
        });
        format!("{object}\n")
    }
}
