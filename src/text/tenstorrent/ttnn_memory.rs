//! `#ttnn.memory_config<#ttnn.buffer_type<l1>, <block_sharded>, #ttnn.shard_spec<..>>`, of all dates.

use std::fmt;

use super::attribute::{self, buffer_type_name, core_range_text, name_of};
use super::ttnn_layout::ORIENTATIONS;
use crate::error::Result;
use crate::family::join;
use crate::family::tenstorrent::memory::BufferType;
use crate::family::tenstorrent::ttnn_layout::{ShardDistribution, TensorMemoryLayout};
use crate::family::tenstorrent::ttnn_memory::{ShardSpec, TtnnMemoryConfig};
use crate::text::lexer::Cursor;

/// Reads what follows `#ttnn.memory_config`.
pub(super) fn config(cursor: &mut Cursor<'_>) -> Result<TtnnMemoryConfig> {
    cursor.expect("<", "after `memory_config`")?;
    let start = cursor.start();
    let first = cursor.eat("<") && TensorMemoryLayout::NAMES.iter().any(|n| n.0 == cursor.peek_word());
    cursor.rewind(start);
    let mut config = TtnnMemoryConfig::new(BufferType::Dram, None);
    if first {
        // Until 2025 the memory layout came first, and a shape without cores last.
        config.memory_layout = Some(memory_layout(cursor)?);
        cursor.expect(",", "and a buffer type after the memory layout")?;
    }
    config.buffer_type = attribute::buffer_type(cursor)?;
    if !first && cursor.eat(",") {
        config.memory_layout = Some(memory_layout(cursor)?);
    }
    if cursor.eat(",") {
        if first {
            cursor.skip_value();
            cursor.warnings.push(|| "the shape of a shard is ignored, since it names no cores".into());
        } else {
            config.shards = Some(shards(cursor)?);
        }
    }
    cursor.expect(">", "at the end of the memory config")?;
    Ok(config)
}

fn memory_layout(cursor: &mut Cursor<'_>) -> Result<TensorMemoryLayout> {
    attribute::angled(cursor, |c| c.choose("a memory layout", &TensorMemoryLayout::NAMES))
}

/// Reads `#ttnn.shard_spec<cores, <32x128>, <row_major>>`, or `ndShardSpec = <cores, <1x32x32>, <row_major>, <grid_2d>>`.
fn shards(cursor: &mut Cursor<'_>) -> Result<ShardSpec> {
    const MODES: [(&str, ()); 2] = [("physical", ()), ("logical", ())];
    let any_rank = cursor.eat_word("ndShardSpec");
    if any_rank {
        cursor.expect("=", "after `ndShardSpec`")?;
    }
    attribute::ttnn(cursor, if any_rank { "nd_shard_spec" } else { "shard_spec" })?;
    cursor.expect("<", "before the cores of the shards")?;
    let start = cursor.start();
    let cores = attribute::core_ranges(cursor, "core_range_set")?;
    cursor.mark("core_range_set", start);
    cursor.expect(",", "and the shape of a shard after the cores")?;
    let start = cursor.start();
    let shape = attribute::angled(cursor, |c| c.sizes("shard"))?;
    cursor.mark("shard", start);
    cursor.expect(",", "and an orientation after the shape of a shard")?;
    let orientation = attribute::angled(cursor, |c| c.choose("an orientation", &ORIENTATIONS))?;
    let mut distribution = any_rank.then_some(ShardDistribution::RoundRobin1d);
    if cursor.eat(",") {
        let names = &ShardDistribution::NAMES;
        if any_rank {
            distribution = Some(attribute::angled(cursor, |c| c.choose("a distribution of shards", names))?);
        } else {
            attribute::angled(cursor, |c| c.choose("a mode of shards", &MODES))?;
        }
    }
    cursor.expect(">", "at the end of the shards")?;
    Ok(ShardSpec { cores, shape, orientation, distribution })
}

impl fmt::Display for TtnnMemoryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#ttnn.memory_config<#ttnn.buffer_type<{}>", buffer_type_name(self.buffer_type))?;
        if let Some(layout) = self.memory_layout {
            write!(f, ", <{}>", name_of(&TensorMemoryLayout::NAMES, layout))?;
        }
        if let Some(spec) = &self.shards {
            let cores: Vec<String> = spec.cores.iter().map(core_range_text).collect();
            let tag = if spec.distribution.is_some() { "ndShardSpec = " } else { "#ttnn.shard_spec" };
            write!(f, ", {tag}<#ttnn.core_range_set<[{}]>, <{}>", cores.join(", "), join(&spec.shape))?;
            write!(f, ", <{}>", name_of(&ORIENTATIONS, spec.orientation))?;
            if let Some(distribution) = spec.distribution {
                write!(f, ", <{}>", name_of(&ShardDistribution::NAMES, distribution))?;
            }
            f.write_str(">")?;
        }
        f.write_str(">")
    }
}
