//! What a memory configuration says, in whichever text.

use crate::family::tenstorrent::cores::{CoreRangeSet, Orientation};
use crate::family::tenstorrent::memory::BufferType;
use crate::family::tenstorrent::ttnn::{Scheme, Sharded, Strategy};

/// What a memory configuration says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MemoryConfig {
    /// The shards; none where pages are interleaved.
    pub(super) sharded: Option<Sharded>,
    /// The kind of memory.
    pub(super) buffer_type: Option<BufferType>,
}

/// The parts of a configuration as they are read.
#[derive(Default)]
pub(super) struct Parts {
    /// `TensorMemoryLayout`, where the inner none is interleaved.
    pub(super) layout: Option<Option<Scheme>>,
    pub(super) buffer_type: Option<BufferType>,
    /// `shard_spec`: shards of two dimensions.
    pub(super) shards: Option<Shards>,
    /// `nd_shard_spec`: shards of any rank.
    pub(super) nd_shards: Option<Shards>,
}

/// A `ShardSpec` or an `NdShardSpec`.
#[derive(Default, Clone)]
pub(super) struct Shards {
    pub(super) grid: Option<CoreRangeSet>,
    pub(super) shape: Option<Vec<u64>>,
    pub(super) orientation: Option<Orientation>,
    pub(super) strategy: Option<Strategy>,
}

impl Parts {
    /// The configuration, or what it lacks.
    ///
    /// `created_with_nd_shard_spec` tells only how it was made: where both kinds of shards are given they are the same.
    pub(super) fn finish(self) -> Result<MemoryConfig, String> {
        let buffer_type = self.buffer_type;
        let (scheme, shards, key) = match (self.layout, self.shards, self.nd_shards) {
            (None, ..) => return Err("`memory_layout=` is missing".into()),
            (Some(None), None, None) => return Ok(MemoryConfig { sharded: None, buffer_type }),
            (Some(None), ..) => return Err("INTERLEAVED memory has no shards: expected no shard_spec".into()),
            (Some(Some(Scheme::Nd)), _, Some(shards)) => (Scheme::Nd, shards, "nd_shard_spec"),
            (Some(Some(scheme)), Some(shards), _) if scheme != Scheme::Nd => (scheme, shards, "shard_spec"),
            (Some(Some(_)), _, Some(shards)) => (Scheme::Nd, shards, "nd_shard_spec"),
            (Some(Some(scheme)), ..) => {
                let key = if scheme == Scheme::Nd { "nd_shard_spec" } else { "shard_spec" };
                return Err(format!("{scheme} memory needs shards: expected `{key}=`"));
            }
        };
        let lacks = |part: &str| format!("{key} has no `{part}`");
        let grid = shards.grid.ok_or_else(|| lacks("grid"))?;
        let shape =
            shards.shape.ok_or_else(|| lacks(if scheme == Scheme::Nd { "shard_shape" } else { "shape" }))?;
        let sharded = Sharded::new(scheme, grid, shape)
            .with_orientation(shards.orientation.unwrap_or(Orientation::RowMajor))
            .with_strategy(shards.strategy.unwrap_or(scheme.strategy()));
        Ok(MemoryConfig { sharded: Some(sharded), buffer_type })
    }
}
