//! `tilewright explain`: what a layout looks like, and how it would be filled.

use kernels::Isa;
use serde_json::json;
use tilewright::family::loops::Dci;
use tilewright_draw::shown;
use tilewright_files::Order;

use super::arguments::{ExplainArgs, NumberArgs};
use super::draw;
use super::engine::{Choices, Job, Texts};
use super::failure::Result;
use super::hardware::hardware;
use super::streams::{print, warn};
use super::tensorbin;

/// How many buffers and nests are shown one by one.
const SHOWN: usize = 8;

pub(crate) fn run(args: &ExplainArgs, isa: Isa) -> Result<()> {
    if let Some(file) = &args.file {
        return tensorbin::explain(file, args.json);
    }
    let tensor = args.tensor.read(Some(&args.layouts), args.from.as_deref())?;
    let texts = Texts::read(&tensor, &args.layouts, args.from.as_deref())?;
    warn(&texts.warnings);
    let choices = Choices { order: Order::RowMajor, pad_value: None, numbers: NumberArgs::default(), isa };
    let job = Job::prepare(texts, &choices)?;
    print(&match (args.dci, args.json) {
        (true, _) => format!("{}\n", Dci::from_layout(&job.layout, &job.texts.host()?)?),
        (_, true) => json(&job, isa),
        _ => text(&job, isa)?,
    })?;
    if args.picture { draw::on_terminal(&job) } else { Ok(()) }
}

/// Places without an element, in percent of all places.
fn waste(job: &Job) -> f64 {
    let padding = job.layout.padding_elements() as f64;
    let elements = job.layout.elements() as f64 * job.layout.copies() as f64;
    100.0 * padding / (elements + padding).max(1.0)
}

fn json(job: &Job, isa: Isa) -> String {
    let (layout, geometry, texts) = (&job.layout, job.layout.geometry(), &job.texts);
    let mut object = json!({
        "to": texts.to.to_string(),
        "logical_shape": texts.tensor.shape,
        "dtype": texts.tensor.dtype.name(),
        "physical_shape": geometry.physical_shape,
        "grid": geometry.grid,
        "shard_shape": geometry.shard_shape,
        "tile": geometry.tile.map(|t| [t.rows, t.cols]),
        "buffers": layout.buffers(),
        "buffer_bytes": layout.buffer_bytes(),
        "total_bytes": layout.total_bytes(),
        "padding_elements": layout.padding_elements(),
        "padding_percent": waste(job),
        "nests": job.nests(),
        "isa": isa.name(),
    });
    if let Some(mesh) = &texts.mesh {
        object["mesh_shape"] = json!(mesh.mesh_shape());
        object["device_shape"] = json!(texts.part.shape);
    }
    if let Some(device_size) = &geometry.device_size {
        object["device_size"] = json!(device_size);
    }
    if let Some(stride_map) = &geometry.stride_map {
        object["stride_map"] = json!(stride_map);
    }
    // One object on one line, for tools that read lines.
    format!("{object}\n")
}

fn text(job: &Job, isa: Isa) -> Result<String> {
    let (layout, geometry, texts) = (&job.layout, job.layout.geometry(), &job.texts);
    let mut rows = vec![
        ("layout", texts.to.to_string()),
        ("logical shape", format!("{:?} {}", texts.tensor.shape, texts.tensor.dtype)),
    ];
    let mut row = |name, value: Option<String>| rows.extend(value.map(|value| (name, value)));
    let list = |shape: &[u64]| (!shape.is_empty()).then(|| format!("{shape:?}"));
    if let Some(mesh) = &texts.mesh {
        row("mesh", Some(mesh.to_string()));
        row("on one device", Some(format!("{:?}", texts.part.shape)));
    }
    row("device", texts.device.as_ref().map(|device| device.to_string()));
    row("physical shape", list(&geometry.physical_shape));
    row("device size", geometry.device_size.as_ref().map(|v| format!("{v:?}")));
    row("stride map", geometry.stride_map.as_ref().map(|v| format!("{v:?}")));
    row("grid", list(&geometry.grid));
    row("shard shape", list(&geometry.shard_shape));
    row("tile", geometry.tile.map(|t| format!("{} x {}", t.rows, t.cols)));
    row("buffers", Some(format!("{} of {} bytes", layout.buffers(), layout.buffer_bytes())));
    row("total", Some(format!("{} bytes", layout.total_bytes())));
    row(
        "padding",
        Some(format!("{} elements, {:.1} % of all places", layout.padding_elements(), waste(job))),
    );
    row("kernels", Some(format!("level {}", isa.name())));
    let mut text: String = rows.iter().map(|(name, value)| format!("{name:<16}{value}\n")).collect();
    text += "\n";
    text += &buffers(job)?;
    let nests = job.nests();
    text += "\nplan: nests of loops, outermost first, with the steps of bytes written <- read\n";
    for nest in nests.iter().take(SHOWN) {
        text += &format!("  {nest}\n");
    }
    Ok(text + &more(nests.len() as u64))
}

/// The first buffers, one line each.
fn buffers(job: &Job) -> Result<String> {
    let layout = &job.layout;
    let hardware = hardware(&job.texts, layout)?;
    let mut text = "buffers: the indices that each holds lie in these ranges\n".to_owned();
    for buffer in 0..layout.buffers().min(SHOWN as u64) {
        text += &format!("  {buffer}");
        for (name, value) in hardware.buffer(buffer) {
            text += &format!("  {name} {}", shown(&value));
        }
        // Some are too large to be looked through.
        if let Ok(content) = layout.content(buffer) {
            let ranges: Vec<String> = content.ranges.iter().map(|r| format!("{r:?}")).collect();
            text += &match content.elements {
                0 if content.padding == 0 => "  empty".to_owned(),
                0 => format!("  only padding, {} elements", content.padding),
                n => format!("  [{}]  {n} elements, {} padding", ranges.join(", "), content.padding),
            };
        }
        text += "\n";
    }
    Ok(text + &more(layout.buffers()))
}

fn more(all: u64) -> String {
    match all.saturating_sub(SHOWN as u64) {
        0 => String::new(),
        n => format!("  ... {n} more\n"),
    }
}
