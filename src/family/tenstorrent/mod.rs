//! Tenstorrent: tiles of faces, shards on grids of cores, devices and meshes of them.

pub mod buffer;
mod collapse;
pub mod cores;
mod cut;
pub mod device;
pub mod memory;
pub mod mesh;
pub mod metal;
mod shard;
pub mod tile;
pub mod ttnn;
pub mod ttnn_layout;
pub mod ttnn_memory;

use crate::error::{Error, Result};
use crate::family::{Tensor, check_shape};

/// The tensor that a text is about, if it says one, must be the one at hand.
fn check_tensor(own: Option<&Tensor>, tensor: &Tensor) -> Result<()> {
    let Some(own) = own else { return Ok(()) };
    check_shape("tensor shape", &own.shape, tensor)?;
    if own.dtype != tensor.dtype {
        let needed = format!("{}, the type of the tensor", tensor.dtype);
        return Err(Error::value("tensor element type", own.dtype, needed));
    }
    Ok(())
}
