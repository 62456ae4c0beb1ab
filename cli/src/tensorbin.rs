//! `.tensorbin`, TTNN's tensor file: as a source, as the result, and explained.

use std::ops::Range;
use std::path::Path;

use serde_json::{Value, json};
use tilewright::Layout;
use tilewright::family::tenstorrent::mesh::{Mapper, MeshPlacement};
use tilewright::family::{Descriptor, Tensor};
use tilewright_files::Source;
use tilewright_files::tensorbin::{Payload, TensorBin, Topology};

use super::arguments;
use super::engine::Texts;
use super::failure::{Failure, Result};
use super::streams::print;

/// How many shards are shown one by one.
const SHOWN: usize = 8;

/// Whether a file is named as TTNN wants it.
pub(crate) fn is_named(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "tensorbin")
}

/// The whole tensor of a file, or that of one device, given as "0,1": its layout, and the bytes of the file that hold
/// the buffers.
pub(crate) fn find(source: &Source<'_>, device: Option<&str>) -> Result<(Tensor, Layout, Vec<Range<u64>>)> {
    let file = TensorBin::read(source)?;
    let payload = match device {
        Some(device) => file.shard(&arguments::numbers("--coordinate", device)?)?,
        None => {
            file.check_replicas(source)?;
            file.whole(None)?
        }
    };
    let parts = payload.complete()?;
    Ok((payload.tensor, payload.layout, parts))
}

/// The file that holds the result of a conversion; `devices` are those whose shards it gets.
pub(crate) fn describe(out: &Path, texts: &Texts, devices: Option<&str>) -> Result<TensorBin> {
    let Descriptor::Ttnn(ttnn) = &texts.to else {
        let needed = format!("a ttnn(..) layout, as {} is a file of TTNN", out.display());
        return Err(Failure::usage("--to", &texts.to, needed));
    };
    let mut file = TensorBin::new(&texts.tensor, ttnn, texts.mesh.as_ref())?;
    if let Some(devices) = devices {
        file.keep(range(devices)?)?;
    }
    Ok(file)
}

/// Devices as they are typed: "4..8".
fn range(text: &str) -> Result<Range<u64>> {
    let ends = text.split_once("..").and_then(|(begin, end)| {
        Some(begin.trim().parse().ok()?..end.trim().parse().ok()?).filter(|ends| ends.start < ends.end)
    });
    ends.ok_or_else(|| {
        let given = format!("`{}`", arguments::beginning(text));
        Failure::usage("--devices", given, "the first device and the one behind the last, e.g. 0..4")
    })
}

/// `tilewright explain FILE.tensorbin`.
pub(crate) fn explain(path: &Path, as_json: bool) -> Result<()> {
    let file = TensorBin::read(&Source::open(path)?)?;
    let stored = file.spec.stored()?;
    print(&if as_json { object(&file, &stored) } else { text(&file, &stored) })
}

/// What a picture of a file shows: the whole tensor, its layout with a buffer for each stored copy, and what describes
/// one of these.
pub(crate) fn drawn(path: &Path) -> Result<(Tensor, Layout, Descriptor)> {
    let file = TensorBin::read(&Source::open(path)?)?;
    let Payload { tensor, layout, .. } = file.whole(None)?;
    Ok((tensor, layout, file.spec.stored()?))
}

/// How the tensor was handed out, as the mapper that does so.
fn mapper(topology: &Topology) -> Mapper {
    let Topology { distribution, placements, .. } = topology.clone();
    Mapper::config(placements, distribution)
}

/// The shape of the whole tensor, where the file has all of it.
fn whole(file: &TensorBin) -> Option<Vec<u64>> {
    let whole = file.whole(None).ok()?;
    whole.complete().ok()?;
    Some(whole.tensor.shape)
}

fn object(file: &TensorBin, stored: &Descriptor) -> String {
    let shards: Vec<Value> = file
        .shards
        .iter()
        .map(|s| json!({ "coordinate": s.coordinate, "offset": s.range.start, "bytes": s.range.end - s.range.start }))
        .collect();
    let object = json!({
        "to": stored.to_string(),
        "dtype": file.spec.dtype().name(),
        "logical_shape": whole(file),
        "device_shape": file.spec.shape,
        "memory": file.spec.memory.to_string(),
        "alignment": file.spec.alignment,
        "mesh_shape": file.mesh_shape,
        "distribution": mapper(&file.topology).to_string(),
        "payload_offset": file.payload,
        "stored_copies": file.stored().len(),
        "shards": shards,
    });
    format!("{object}\n")
}

fn text(file: &TensorBin, stored: &Descriptor) -> String {
    let (spec, copies) = (&file.spec, file.stored());
    let cut = file.topology.placements.iter().any(|p| *p != MeshPlacement::Replicate);
    let logical = match whole(file) {
        Some(shape) => format!("{shape:?} {}", spec.dtype()),
        None => "unknown: the file has only a part of the tensor".to_owned(),
    };
    let mut rows = vec![("layout", stored.to_string()), ("logical shape", logical)];
    if file.mesh_shape.iter().any(|&n| n != 1) || cut {
        rows.push(("mesh", format!("{:?}", file.mesh_shape)));
        rows.push(("distribution", mapper(&file.topology).to_string()));
        rows.push(("on one device", format!("{:?}", spec.shape)));
    }
    rows.push(("alignment", format!("{:?}", spec.alignment)));
    rows.push(("memory", spec.memory.to_string()));
    let bytes = copies.first().map_or(0, |r| r.end - r.start);
    rows.push(("shards", format!("{}, stored {} times {bytes} bytes", file.shards.len(), copies.len())));
    rows.push(("payload", format!("from byte {} of the file", file.payload)));
    let mut text: String = rows.iter().map(|(name, value)| format!("{name:<16}{value}\n")).collect();
    text += "\nshards: the bytes of the file that each device gets\n";
    for shard in file.shards.iter().take(SHOWN) {
        text += &format!("  {:?}  {} to {}\n", shard.coordinate, shard.range.start, shard.range.end);
    }
    match file.shards.len().saturating_sub(SHOWN) {
        0 => text,
        more => text + &format!("  ... {more} more\n"),
    }
}
