//! `.tensorbin`, the tensor file of TTNN (`ttnn.dump_tensor`, `ttnn.load_tensor`).
//!
//! ```text
//! u64 little-endian   size of the header
//! header              a FlatBuffer that describes tensor, mesh and shards; zero bytes behind it
//! payload             the shards of the devices of a mesh; offsets in the header count from here
//! ```
//!
//! A shard is one device's whole tensor in host order: tiles or rows one after another, whatever the memory
//! configuration in the header says of cores and banks. Devices that hold the same share a range of the payload.
//! The tables and numbers are those of the files that ttnn 0.81.1 writes and reads; it pads payload and shards to
//! multiples of 64 bytes, older ones of 8. This writer pads to 4096, a page, so that a mapping of the file can be read
//! by devices directly.

mod contents;
mod file;
mod flatbuffer;
mod header;
mod spec;
mod write;

pub use contents::{Payload, Shard, TensorBin, Topology};
pub use spec::{MemoryConfig, MemoryLayout, NdShardSpec, ShardSpec, TensorSpec};
pub use write::Writer;
