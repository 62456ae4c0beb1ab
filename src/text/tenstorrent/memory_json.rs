//! `MemoryConfig.to_json()`: enumerators are numbers there, those of TTNN's file schema.

use serde_json::Value;

use super::memory_parts::{MemoryConfig, Parts, Shards};
use crate::family::tenstorrent::cores::{CoreRange, CoreRangeSet, Orientation};
use crate::family::tenstorrent::memory::BufferType;
use crate::family::tenstorrent::ttnn::{Scheme, Strategy};
use crate::text::lexer::quote;

/// Reads the whole object; an error is a message that names the part by its path.
pub(super) fn memory_config(text: &str) -> Result<MemoryConfig, String> {
    let value: Value = serde_json::from_str(text).map_err(|e| format!("JSON: {e}"))?;
    let schemes = [
        (0, None),
        (2, Some(Scheme::Height)),
        (3, Some(Scheme::Width)),
        (4, Some(Scheme::Block)),
        (5, Some(Scheme::Nd)),
    ];
    let types = BufferType::NAMES.into_iter().zip(0..).map(|((_, t), n)| (n, t)).collect::<Vec<_>>();
    let parts = Parts {
        layout: numbered(&value, "memory_layout", &schemes)?,
        buffer_type: numbered(&value, "buffer_type", &types)?,
        shards: spec(&value, "shard_spec", "shape")?,
        nd_shards: spec(&value, "nd_shard_spec", "shard_shape")?,
    };
    parts.finish()
}

/// A field that may be missing or null.
fn field<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|v| !v.is_null())
}

/// What a number stands for.
fn numbered<T: Copy>(value: &Value, key: &str, known: &[(u64, T)]) -> Result<Option<T>, String> {
    let Some(given) = field(value, key) else { return Ok(None) };
    let found = known.iter().find(|k| given.as_u64() == Some(k.0));
    let numbers = || known.iter().map(|k| k.0.to_string()).collect::<Vec<_>>().join(", ");
    found
        .map(|k| Some(k.1))
        .ok_or_else(|| format!("{key}: given {}, needed one of {}", short(given), numbers()))
}

fn spec(value: &Value, key: &str, shape: &str) -> Result<Option<Shards>, String> {
    let Some(spec) = field(value, key) else { return Ok(None) };
    let orientations = [(0, Orientation::RowMajor), (1, Orientation::ColMajor)];
    let strategies = [(0, Strategy::RoundRobin1d), (1, Strategy::Grid2d), (2, Strategy::Contiguous1d)];
    Ok(Some(Shards {
        grid: field(spec, "grid").map(grid).transpose()?,
        shape: field(spec, shape).map(|v| numbers(v, shape)).transpose()?,
        orientation: numbered(spec, "orientation", &orientations)?,
        strategy: numbered(spec, "shard_distribution_strategy", &strategies)?,
    }))
}

fn numbers(value: &Value, what: &str) -> Result<Vec<u64>, String> {
    let items = value.as_array().map(|a| a.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>());
    items.flatten().ok_or_else(|| format!("{what}: given {}, needed a list of numbers", short(value)))
}

fn grid(value: &Value) -> Result<CoreRangeSet, String> {
    let core = |v: &Value| Some([v.get("x")?.as_u64()?, v.get("y")?.as_u64()?]);
    let range = |v: &Value| CoreRange::between(core(v.get("start")?)?, core(v.get("end")?)?);
    let ranges = value.as_array().map(|a| a.iter().map(range).collect::<Option<Vec<_>>>());
    let needed = "needed a list of rectangles with `start` and `end`, each with `x` and `y`";
    ranges.flatten().map(CoreRangeSet::new).ok_or_else(|| format!("grid: given {}, {needed}", short(value)))
}

/// A value as a message shows it.
fn short(value: &Value) -> String {
    quote(&value.to_string()).to_string()
}
