//! `tilewright explain`: what a layout looks like, and how it would be filled.

use kernels::Isa;
use serde_json::{Value, json};
use tilewright::io::Order;
use tilewright::target::Tensor;

use crate::arguments::{self, Codec, ExplainArgs, Rounding};
use crate::engine::{Job, Request};
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
    print(&if args.json { json(&tensor, &job, isa) } else { text(&tensor, &job, isa) })
}

fn json(tensor: &Tensor, job: &Job, isa: Isa) -> String {
    let (layout, geometry) = (&job.layout, job.layout.geometry());
    let mut object = json!({
        "to": job.to,
        "logical_shape": tensor.shape,
        "dtype": tensor.dtype.name(),
        "physical_shape": geometry.physical_shape,
        "grid": geometry.grid,
        "shard_shape": geometry.shard_shape,
        "tile": geometry.tile.map(|t| [t.rows, t.cols]),
        "buffers": layout.buffers(),
        "buffer_bytes": layout.buffer_bytes(),
        "total_bytes": layout.total_bytes(),
        "padding_elements": layout.padding_elements(),
        "nests": job.nests(),
        "isa": isa.name(),
    });
    if let Some(device_size) = &geometry.device_size {
        object["device_size"] = json!(device_size);
    }
    if let Some(stride_map) = &geometry.stride_map {
        object["stride_map"] = json!(stride_map);
    }
    // One object on one line, for tools that read lines.
    format!("{}\n", Value::to_string(&object))
}

fn text(tensor: &Tensor, job: &Job, isa: Isa) -> String {
    let (layout, geometry) = (&job.layout, job.layout.geometry());
    let mut rows = vec![
        ("layout", job.to.clone()),
        ("logical shape", format!("{:?} {}", tensor.shape, tensor.dtype)),
        ("physical shape", format!("{:?}", geometry.physical_shape)),
    ];
    let mut row = |name, value: Option<String>| rows.extend(value.map(|value| (name, value)));
    row("device size", geometry.device_size.as_ref().map(|v| format!("{v:?}")));
    row("stride map", geometry.stride_map.as_ref().map(|v| format!("{v:?}")));
    row("grid", (!geometry.grid.is_empty()).then(|| format!("{:?}", geometry.grid)));
    row("shard shape", (!geometry.shard_shape.is_empty()).then(|| format!("{:?}", geometry.shard_shape)));
    row("tile", geometry.tile.map(|t| format!("{} x {}", t.rows, t.cols)));
    row("buffers", Some(format!("{} of {} bytes", layout.buffers(), layout.buffer_bytes())));
    row("total", Some(format!("{} bytes", layout.total_bytes())));
    // Floating point: the product of extents with a zero among them need not fit an integer on the way.
    let elements: f64 = tensor.shape.iter().map(|&extent| extent as f64).product();
    let padding = layout.padding_elements() as f64;
    let waste = 100.0 * padding / (elements + padding).max(1.0);
    row("padding", Some(format!("{} elements ({waste:.1} % of all places)", layout.padding_elements())));
    row("kernels", Some(format!("level {}", isa.name())));
    let mut text: String = rows.iter().map(|(name, value)| format!("{name:<16}{value}\n")).collect();
    text += "plan\n";
    for nest in job.nests() {
        text += &format!("  {nest}\n");
    }
    text
}
