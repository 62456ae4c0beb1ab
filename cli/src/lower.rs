//! `tilewright lower`: a mesh mapper as TT-Mesh's buffer configuration.

use serde_json::json;
use tilewright::family::tenstorrent::mesh::{Mapper, ShardedBufferConfig};

use super::arguments::{self, LowerArgs};
use super::failure::Result;
use super::streams::print;

pub(crate) fn run(args: &LowerArgs) -> Result<()> {
    let mapper: Mapper = arguments::text(&args.mesh)?.parse()?;
    let config = mapper.lower(&args.tensor.read()?)?;
    print(&if args.json { json(&config) } else { format!("{config}\n") })
}

fn json(config: &ShardedBufferConfig) -> String {
    let object = json!({
        "global_size": config.global_size,
        "global_buffer_shape": config.global_buffer_shape,
        "shard_shape": config.shard_shape,
        "shard_orientation": config.shard_orientation.to_string(),
    });
    format!("{object}\n")
}
