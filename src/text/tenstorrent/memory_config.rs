//! `MemoryConfig(..)` as Python prints it.

use super::cores::core_range_set;
use super::memory_parts::{MemoryConfig, Parts, Shards};
use super::python::{enumerator, fields, nothing, shape};
use crate::error::Result;
use crate::family::tenstorrent::cores::Orientation;
use crate::family::tenstorrent::memory::BufferType;
use crate::family::tenstorrent::ttnn::{Scheme, Strategy};
use crate::text::lexer::Cursor;

/// Reads `MemoryConfig(memory_layout=TensorMemoryLayout::BLOCK_SHARDED,buffer_type=BufferType::L1,..)`.
pub(super) fn memory_config(cursor: &mut Cursor<'_>) -> Result<MemoryConfig> {
    let start = cursor.start();
    if cursor.peek() == Some('{') {
        return json(cursor, start);
    }
    enumerator(cursor, "a memory configuration", &[("MemoryConfig", ())])?;
    cursor.expect("(", "after `MemoryConfig`")?;
    let mut parts = Parts::default();
    cursor.arguments(")", |c, key, span| {
        match key {
            "memory_layout" => parts.layout = Some(memory_layout(c)?),
            "buffer_type" => parts.buffer_type = Some(enumerator(c, "a buffer type", &BufferType::NAMES)?),
            "shard_spec" => parts.shards = spec(c, "ShardSpec")?,
            "nd_shard_spec" => parts.nd_shards = spec(c, "NdShardSpec")?,
            "created_with_nd_shard_spec" | "per_core_allocation" | "range_lockstep_allocation" => {
                c.skip_value();
            }
            _ => c.skip_unknown(key, &span),
        }
        Ok(())
    })?;
    parts.finish().map_err(|message| cursor.error_since(start, message))
}

/// Reads `INTERLEAVED` or the name of a scheme.
pub(super) fn memory_layout(cursor: &mut Cursor<'_>) -> Result<Option<Scheme>> {
    let interleaved = [("INTERLEAVED", None)];
    let schemes = Scheme::NAMES.map(|(name, scheme)| (name, Some(scheme)));
    enumerator(cursor, "a memory layout", &[&interleaved[..], &schemes].concat())
}

#[cfg(feature = "json")]
fn json(cursor: &mut Cursor<'_>, start: usize) -> Result<MemoryConfig> {
    let text = cursor.skip_value();
    super::memory_json::memory_config(text).map_err(|message| cursor.error_since(start, message))
}

#[cfg(not(feature = "json"))]
fn json(cursor: &mut Cursor<'_>, _: usize) -> Result<MemoryConfig> {
    Err(cursor.expected("`MemoryConfig(`: JSON is read where the crate's feature `json` is on"))
}

/// Reads the shards: nothing, `ShardSpec{grid=.., shape=[..], orientation=..}`, or an object with keys in quotes.
fn spec(cursor: &mut Cursor<'_>, name: &str) -> Result<Option<Shards>> {
    if nothing(cursor) {
        return Ok(None);
    }
    if !cursor.peek_word().is_empty() {
        enumerator(cursor, "a shard specification", &[(name, ())])?;
    }
    let close = if cursor.eat("{") {
        "}"
    } else {
        cursor.expect("(", format_args!("or `{{` before the parts of {name}"))?;
        ")"
    };
    let mut shards = Shards::default();
    fields(cursor, close, |c, key, span| {
        let at = c.start();
        match key {
            "grid" => shards.grid = Some(core_range_set(c)?),
            "shape" | "shard_shape" => {
                shards.shape = Some(shape(c, "the shape of a shard")?);
                c.mark("shard", at);
            }
            "orientation" | "shard_orientation" => {
                shards.orientation = Some(enumerator(c, "an orientation", &Orientation::NAMES)?);
            }
            "shard_distribution_strategy" => {
                shards.strategy = Some(enumerator(c, "a strategy", &Strategy::NAMES)?);
                c.mark("strategy", at);
            }
            _ => {
                let known = ["grid", "shape", "shard_shape", "orientation", "shard_distribution_strategy"];
                return Err(c.unknown(&format!("a part of {name}"), key, span, &known));
            }
        }
        Ok(())
    })?;
    Ok(Some(shards))
}
