//! `tilewright explain`: what a layout looks like, and how it would be filled.

use kernels::Isa;
use serde_json::{Value, json};
use tilewright::io::Order;
use tilewright::target::Tensor;

use crate::arguments::{self, Codec, ExplainArgs, Rounding};
use crate::engine::{Facts, Job, Request};
use crate::failure::Result;
use crate::{print, warn};

pub(crate) fn run(args: &ExplainArgs, isa: Isa) -> Result<()> {
    let tensor = Tensor { shape: arguments::shape(&args.shape)?, dtype: arguments::dtype(&args.dtype)? };
    let job = Job::prepare(&Request {
        tensor: &tensor,
        order: Order::RowMajor,
        layouts: &args.layouts,
        pad_value: None,
        rounding: Rounding::default(),
        codec: Codec::default(),
        isa,
    })?;
    warn(&job.warnings);
    let facts = job.facts();
    print(&if args.json { json(&tensor, &job, &facts, isa) } else { text(&tensor, &job, &facts, isa) })
}

fn json(tensor: &Tensor, job: &Job, facts: &Facts, isa: Isa) -> String {
    let mut object = json!({
        "to": job.to,
        "logical_shape": tensor.shape,
        "dtype": tensor.dtype.name(),
        "physical_shape": facts.physical_shape,
        "grid": facts.grid,
        "shard_shape": facts.shard_shape,
        "tile": facts.tile,
        "buffers": facts.buffers,
        "buffer_bytes": facts.buffer_bytes,
        "total_bytes": facts.total_bytes,
        "padding_elements": facts.padding_elements,
        "nests": facts.nests,
        "isa": isa.name(),
    });
    if let Some(device_size) = &facts.device_size {
        object["device_size"] = json!(device_size);
    }
    if let Some(stride_map) = &facts.stride_map {
        object["stride_map"] = json!(stride_map);
    }
    // One object on one line, for tools that read lines.
    format!("{}\n", Value::to_string(&object))
}

fn text(tensor: &Tensor, job: &Job, facts: &Facts, isa: Isa) -> String {
    let mut rows = vec![
        ("layout", job.to.clone()),
        ("logical shape", format!("{:?} {}", tensor.shape, tensor.dtype)),
        ("physical shape", format!("{:?}", facts.physical_shape)),
    ];
    let mut row = |name, value: Option<String>| rows.extend(value.map(|value| (name, value)));
    row("device size", facts.device_size.as_ref().map(|v| format!("{v:?}")));
    row("stride map", facts.stride_map.as_ref().map(|v| format!("{v:?}")));
    row("grid", (!facts.grid.is_empty()).then(|| format!("{:?}", facts.grid)));
    row("shard shape", (!facts.shard_shape.is_empty()).then(|| format!("{:?}", facts.shard_shape)));
    row("tile", facts.tile.map(|[rows, cols]| format!("{rows} x {cols}")));
    row("buffers", Some(format!("{} of {} bytes", facts.buffers, facts.buffer_bytes)));
    row("total", Some(format!("{} bytes", facts.total_bytes)));
    // Floating point: the product of extents with a zero among them need not fit an integer on the way.
    let elements: f64 = tensor.shape.iter().map(|&extent| extent as f64).product();
    let padding = facts.padding_elements as f64;
    let waste = 100.0 * padding / (elements + padding).max(1.0);
    row("padding", Some(format!("{} elements ({waste:.1} % of all places)", facts.padding_elements)));
    row("kernels", Some(format!("level {}", isa.name())));
    let mut text: String = rows.iter().map(|(name, value)| format!("{name:<16}{value}\n")).collect();
    text += "plan\n";
    for nest in &facts.nests {
        text += &format!("  {nest}\n");
    }
    text
}
