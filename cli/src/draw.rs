//! `tilewright draw`: pictures of layouts; and the pictures of `explain --picture` and `scan --draw`.

use std::io::IsTerminal;
use std::path::Path;

use kernels::Isa;
use tilewright::family::{Placement, Tensor};
use tilewright::{Descriptor, Error, Layout};
use tilewright_draw::{Entry, Hardware, Limits, Picture, Strip, compare, gallery, html, svg, terminal};
use tilewright_files::{Order, Output};

use super::arguments::{DrawArgs, NumberArgs};
use super::engine::{Choices, Job, Texts};
use super::failure::{Failure, Result};
use super::hardware::hardware;
use super::streams::{print, warn};
use super::tensorbin;

/// What a terminal shows at once.
const ON_A_TERMINAL: Limits = Limits { elements: 1 << 13, cells: 96 * 48 };

pub(crate) fn run(args: &DrawArgs, isa: Isa) -> Result<()> {
    let kind = args.out.extension().and_then(|e| e.to_str()).unwrap_or("");
    if !["html", "svg"].contains(&kind) {
        return Err(Failure::usage("--out", args.out.display(), "a name that ends in .html or .svg"));
    }
    if let Some(file) = &args.file {
        let (tensor, layout, stored) = tensorbin::drawn(file)?;
        let hardware = Hardware::new(&layout, &stored, &Placement::default(), &tensor)?;
        let picture = Picture::new(&hardware, Limits::default())?;
        let image = if kind == "svg" { svg(&picture) } else { html(&[picture], None, None) };
        return write(&args.out, &image);
    }
    let tensor = args.tensor.read(Some(&args.layouts), args.from.as_deref())?;
    let texts = Texts::read(&tensor, &args.layouts, args.from.as_deref())?;
    warn(&texts.warnings);
    let choices = Choices { order: Order::RowMajor, pad_value: None, numbers: NumberArgs::default(), isa };
    let job = Job::prepare(texts, &choices)?;
    let to = Picture::new(&hardware(&job.texts, &job.layout)?, Limits::default())?;
    let image = match kind {
        "svg" => svg(&to),
        _ => page(&job, to)?,
    };
    write(&args.out, &image)
}

/// The page of a conversion: the layout, and the one that it comes from where that was given.
fn page(job: &Job, to: Picture) -> Result<String> {
    let strip = Strip::new(&job.plan);
    let Some(from) = job.texts.from() else { return Ok(html(&[to], Some(&strip), None)) };
    let placement = Placement { device: job.texts.source_device(), ..Placement::default() };
    let source = Hardware::new(&job.source, from, &placement, &job.texts.tensor)?;
    let moves = compare(&job.source, &job.layout)?;
    let pictures = [Picture::new(&source, Limits::default())?, to];
    Ok(html(&pictures, Some(&strip), Some(&moves)))
}

/// The picture that `explain --picture` adds, in colour where stdout is a terminal that has not been asked for none.
pub(crate) fn on_terminal(job: &Job) -> Result<()> {
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let picture = Picture::new(&hardware(&job.texts, &job.layout)?, ON_A_TERMINAL)?;
    print(&format!("\n{}", terminal(&picture, colour)))
}

fn write(path: &Path, text: &str) -> Result<()> {
    let mut output = Output::create(path, text.len() as u64)?;
    output.write(text.as_bytes())?;
    Ok(output.commit()?)
}

/// One layout of `scan --draw`.
pub(crate) struct Shown<'a> {
    pub(crate) text: &'a str,
    pub(crate) tensor: &'a Tensor,
    pub(crate) layout: &'a Layout,
    /// What else is said of it.
    pub(crate) notes: Vec<String>,
}

/// Writes a page and an image of each layout to a directory, the one with the most padding first, and an `index.html`.
/// Layouts of which there is no picture are listed with the reason.
pub(crate) fn all(directory: &Path, mut shown: Vec<Shown<'_>>) -> Result<()> {
    let padding = |s: &Shown<'_>| s.layout.total_bytes() as f64 * waste(s.layout);
    shown.sort_by(|a, b| padding(b).total_cmp(&padding(a)));
    std::fs::create_dir_all(directory).map_err(|e| Error::io(directory.display(), "cannot make it", e))?;
    let more = shown.len().saturating_sub(MAX_DRAWN);
    shown.truncate(MAX_DRAWN);
    let mut entries = Vec::new();
    for (n, mut shown) in shown.into_iter().enumerate() {
        let mut entry = Entry { title: shown.text.to_owned(), notes: vec![], page: None, image: None };
        shown.notes.push(format!("padding {:.1} %", 100.0 * waste(shown.layout)));
        match one(&shown) {
            Ok(picture) => {
                let (page, image) = (format!("{n:04}.html"), format!("{n:04}.svg"));
                shown.notes.extend([format!("{} buffers", picture.memory.buffers)]);
                write(&directory.join(&image), &svg(&picture))?;
                write(&directory.join(&page), &html(&[picture], None, None))?;
                (entry.page, entry.image) = (Some(page), Some(image));
            }
            Err(reason) => shown.notes.push(format!("no picture: {reason}")),
        }
        entry.notes = shown.notes;
        entries.push(entry);
    }
    let mut summary =
        format!("{} layouts, those with the most bytes of padding first.", entries.len() + more);
    if more > 0 {
        summary += &format!(" The first {MAX_DRAWN} are drawn.");
    }
    write(&directory.join("index.html"), &gallery("Layouts of a model", &summary, &entries))
}

/// The most layouts that are drawn.
const MAX_DRAWN: usize = 1000;

fn one(shown: &Shown<'_>) -> tilewright::Result<Picture> {
    let descriptor: Descriptor = shown.text.parse()?;
    let hardware = Hardware::new(shown.layout, &descriptor, &Placement::default(), shown.tensor)?;
    Picture::new(&hardware, Limits::default())
}

/// The share of all places that hold no element.
fn waste(layout: &Layout) -> f64 {
    let (padding, elements) = (layout.padding_elements() as f64, layout.elements() as f64);
    padding / (elements * layout.copies() as f64 + padding).max(1.0)
}
