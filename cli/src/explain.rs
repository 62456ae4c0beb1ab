//! `tilewright explain`: what a layout looks like, and how it would be filled.

use kernels::Isa;
use serde_json::json;
use tilewright::family::Descriptor;
use tilewright::family::loops::Dci;
use tilewright::tuning::in_force;
use tilewright_benches::Roof;
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
        (_, true) => json(&job, isa)?,
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

fn json(job: &Job, isa: Isa) -> Result<String> {
    let (layout, geometry, texts) = (&job.layout, job.layout.geometry(), &job.texts);
    let read = job.plan.source_window(0..job.plan.destination_bytes())?.len();
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
        "bytes_read": read,
        "bytes_written": layout.total_bytes(),
        "isa": isa.name(),
        "profile": in_force()?.origin().to_string(),
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
    Ok(format!("{object}\n"))
}

/// A fact: its name, its value, and where it comes from.
type Row = (&'static str, String, String);

fn table(rows: &[Row]) -> String {
    let line = |(name, value, because): &Row| {
        let line = format!("{name:<16}{value:<20}{}{because}", if because.is_empty() { "" } else { "  " });
        line.trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

fn text(job: &Job, isa: Isa) -> Result<String> {
    let nests = job.nests();
    let mut text = table(&[("layout", job.texts.to.to_string(), String::new())]);
    text += "\nshapes, step by step\n";
    text += &table(&steps(job)?);
    text += "\nwhat comes out\n";
    text += &table(&result(job, isa, &nests)?);
    text += "\n";
    text += &buffers(job)?;
    text += "\nplan: nests of loops, outermost first, with the steps of bytes written <- read, and how each runs\n";
    for nest in nests.iter().take(SHOWN) {
        text += &format!("  {nest}\n");
    }
    Ok(text + &more(nests.len() as u64))
}

/// What the shape becomes on its way: handed out, collapsed, cut by the grid, padded to tiles.
fn steps(job: &Job) -> Result<Vec<Row>> {
    let (layout, geometry, texts) = (&job.layout, job.layout.geometry(), &job.texts);
    let bytes = tilewright_files::byte_len(&texts.tensor.shape, texts.tensor.dtype)?;
    let logical = format!("{:?} {}", texts.tensor.shape, texts.tensor.dtype);
    let mut rows: Vec<Row> =
        vec![("logical shape", logical, format!("{} elements, {bytes} bytes", layout.elements()))];
    let mut row = |name, value: Option<String>, because: &str| {
        rows.extend(value.map(|value| (name, value, because.to_owned())));
    };
    let list = |shape: &[u64]| (!shape.is_empty()).then(|| format!("{shape:?}"));
    if let Some(mesh) = &texts.mesh {
        row("mesh", Some(mesh.to_string()), "");
        row("on one device", list(&texts.part.shape), "what each device gets");
    }
    row("device", texts.device.as_ref().map(|device| device.to_string()), "");
    let collapsed = collapsed(texts)?.map(|shape| format!("{shape:?}"));
    row("collapsed", collapsed, "the value of the map at the last index, plus 1");
    let cores: u64 = geometry.grid.iter().product();
    row("grid", list(&geometry.grid), &format!("{cores} shards"));
    if let Some(tile) = geometry.tile {
        let elements: u64 = geometry.shard_shape.iter().product();
        let tiles = elements / tile.elements().max(1);
        let because = if tiles > 0 { format!("{tiles} tiles in a shard") } else { String::new() };
        row("tile", Some(format!("{} x {}", tile.rows, tile.cols)), &because);
    }
    let padded = if geometry.tile.is_some() { "padded to whole tiles" } else { "" };
    row("shard shape", list(&geometry.shard_shape), padded);
    let padded = match (geometry.grid.is_empty(), layout.padding_elements()) {
        (false, _) => "all shards together, padding included",
        (true, 1..) => "padding included",
        (true, 0) => "",
    };
    row("physical shape", list(&geometry.physical_shape), padded);
    row("device size", geometry.device_size.as_ref().map(|v| format!("{v:?}")), "elements, sticks innermost");
    row(
        "stride map",
        geometry.stride_map.as_ref().map(|v| format!("{v:?}")),
        "host strides of these dimensions",
    );
    Ok(rows)
}

/// The extents behind the map of a layout that has one.
fn collapsed(texts: &Texts) -> Result<Option<Vec<i64>>> {
    let map = match &texts.to {
        Descriptor::Metal(d) => d.map.clone(),
        Descriptor::MetalConstructor(d) => d.physical()?.0,
        Descriptor::MetalCurrent(d) => d.physical()?.0,
        _ => return Ok(None),
    };
    let last: Vec<i64> = texts.part.shape.iter().map(|&n| n as i64 - 1).collect();
    let end = map.eval(&last).filter(|_| last.iter().all(|&i| i >= 0));
    Ok(end.map(|end| end.into_iter().map(|n| n + 1).collect()))
}

/// Buffers, padding, and what making them takes.
fn result(job: &Job, isa: Isa, nests: &[String]) -> Result<Vec<Row>> {
    let layout = &job.layout;
    let (of, no) = (layout.buffer_bytes(), String::new);
    let mut kernels: Vec<&str> = nests.iter().filter_map(|nest| Some(nest.split_once(" at ")?.0)).collect();
    kernels.sort_unstable();
    kernels.dedup();
    let read = job.plan.source_window(0..job.plan.destination_bytes())?.len();
    let stores =
        job.plan.to_string().lines().next().is_some_and(|line| line.ends_with("non-temporal stores"));
    let stores = match stores {
        true => "past the caches",
        false => "through the caches, which read a line before it is written unless they hold it",
    };
    let padding = format!("{} elements, {:.1} % of all places", layout.padding_elements(), waste(job));
    Ok(vec![
        ("buffers", format!("{} of {of} bytes", layout.buffers()), no()),
        ("total", format!("{} bytes", layout.total_bytes()), no()),
        ("padding", padding, no()),
        ("reads", format!("{read} bytes"), format!("of {} of the source", job.plan.source_bytes())),
        ("writes", format!("{} bytes", layout.total_bytes()), stores.to_owned()),
        ("kernels", format!("level {}", isa.name()), kernels.join(", ")),
        ("scheduled by", in_force()?.origin().to_string(), no()),
        time(read, job.plan.destination_bytes())?,
    ])
}

/// The least and the most bytes that are moved to learn how fast this machine moves them.
const MEASURED: [f64; 2] = [2e6, 64e6];

/// How long this machine takes at the least, on one thread: as long as the fastest plain movement of as many bytes.
fn time(read: usize, written: usize) -> Result<Row> {
    let moved = (read + written) as f64;
    let part = moved.clamp(MEASURED[0], MEASURED[1]) / moved.max(1.0);
    let [from, to] = [read, written].map(|bytes| (bytes as f64 * part) as usize);
    let (source, mut destination) = (vec![1_u8; from.max(1 << 12)], vec![0_u8; to.max(1 << 12)]);
    let measured = Roof::new(from, to)?.time(&source, &mut destination, 3)?;
    // Of a tensor without elements nothing is moved.
    let rate = ((from + to) as f64 / measured.as_secs_f64().max(1e-9)).max(1.0);
    let because = format!(
        "on one thread: as long as this machine now takes to read and write as many bytes, at {:.1} GB/s",
        rate / 1e9
    );
    Ok(("time", format!("at least {}", duration(moved / rate)), because))
}

/// Seconds with two digits that matter, in the unit that suits.
fn duration(seconds: f64) -> String {
    let (number, unit) = match seconds {
        ..1e-3 => (seconds * 1e6, "us"),
        ..1.0 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    if number < 9.95 { format!("{number:.1} {unit}") } else { format!("{number:.0} {unit}") }
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

#[cfg(test)]
mod tests {
    #[test]
    fn durations_have_two_digits_that_matter() {
        let said = [0.0, 1.24e-7, 9.96e-6, 3.21e-4, 0.0123, 4.56, 100.0].map(super::duration);
        assert_eq!(said, ["0.0 us", "0.1 us", "10 us", "321 us", "12 ms", "4.6 s", "100 s"]);
    }
}
