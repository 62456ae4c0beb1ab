//! Tenstorrent: tiles of faces, shards on grids of cores, devices and meshes of them.

mod collapse;
pub mod device;
pub mod mesh;
pub mod metal;
mod shard;
pub mod tile;
pub mod ttnn;
