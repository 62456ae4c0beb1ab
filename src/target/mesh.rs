//! How a tensor is handed out to the devices of a mesh.

use super::ttnn::Orientation;
use super::{check_count, check_positive};
use crate::error::{Error, Result};

/// The most devices of a mesh.
pub const MAX_DEVICES: u64 = 1 << 16;

/// What one mesh dimension does with the tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Cuts this dimension of the tensor; a negative one counts from the rank.
    Shard(i64),
    /// Gives every device the same.
    Replicate,
}

/// A TTNN mesh mapper.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Mapper {
    /// `ShardTensorToMesh(mesh_shape=(1, 8), dim=3)`: one dimension cut over all devices, in row-major order.
    ShardTensorToMesh {
        /// Devices in each mesh dimension.
        mesh_shape: Vec<u64>,
        /// The dimension of the tensor; a negative one counts from the rank.
        dim: i64,
    },
    /// `ShardTensor2dMesh(mesh_shape=(2, 4), dims=(None, 0))`: a dimension, or none, for the rows and the columns of the mesh.
    ShardTensor2dMesh {
        /// Rows and columns of devices.
        mesh_shape: [u64; 2],
        /// What the rows and what the columns cut; `None` replicates.
        dims: [Option<i64>; 2],
    },
    /// `ReplicateTensorToMesh(mesh_shape=(2, 4))`: the whole tensor on every device.
    ReplicateTensorToMesh {
        /// Devices in each mesh dimension.
        mesh_shape: Vec<u64>,
    },
    /// `MeshMapperConfig([Shard(0), Replicate()], mesh_shape=(2, 4))`.
    MeshMapperConfig {
        /// One for each mesh dimension.
        placements: Vec<Placement>,
        /// Devices in each mesh dimension.
        mesh_shape: Vec<u64>,
    },
}

impl Mapper {
    /// The shape of the mesh as the text gives it.
    pub fn mesh_shape(&self) -> &[u64] {
        match self {
            Mapper::ShardTensorToMesh { mesh_shape, .. }
            | Mapper::ReplicateTensorToMesh { mesh_shape }
            | Mapper::MeshMapperConfig { mesh_shape, .. } => mesh_shape,
            Mapper::ShardTensor2dMesh { mesh_shape, .. } => mesh_shape,
        }
    }

    /// Number of devices.
    ///
    /// # Errors
    /// [`Error::Value`] for a mesh with a size of 0 or more than [`MAX_DEVICES`] devices.
    pub fn devices(&self) -> Result<u64> {
        let shape = self.mesh_shape();
        check_positive("mesh_shape", shape)?;
        let devices = shape.iter().try_fold(1u64, |n, s| n.checked_mul(*s)).filter(|n| *n <= MAX_DEVICES);
        devices.ok_or_else(|| {
            Error::value("mesh_shape", super::join(shape), format!("at most {MAX_DEVICES} devices in all"))
        })
    }

    /// Checks the mesh, and that there is a placement for each of its dimensions.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    pub fn validate(&self) -> Result<()> {
        self.devices()?;
        match self {
            Mapper::MeshMapperConfig { placements, mesh_shape } => {
                check_count("placements", placements.len(), mesh_shape.len(), "one for each mesh dimension")
            }
            _ => Ok(()),
        }
    }

    /// The mesh as placements see it, with one placement for each of its dimensions. Devices stay in row-major order.
    ///
    /// # Errors
    /// Those of [`Mapper::validate`].
    pub fn placements(&self) -> Result<(Vec<u64>, Vec<Placement>)> {
        self.validate()?;
        Ok(match self {
            Mapper::ShardTensorToMesh { dim, .. } => (vec![self.devices()?], vec![Placement::Shard(*dim)]),
            Mapper::ReplicateTensorToMesh { .. } => (vec![self.devices()?], vec![Placement::Replicate]),
            Mapper::ShardTensor2dMesh { mesh_shape, dims } => {
                (mesh_shape.to_vec(), dims.map(|d| d.map_or(Placement::Replicate, Placement::Shard)).to_vec())
            }
            Mapper::MeshMapperConfig { placements, mesh_shape } => (mesh_shape.clone(), placements.clone()),
        })
    }
}

/// TT-Mesh's description of a 2-D buffer that is cut over a mesh.
///
/// Printed as `ShardedBufferConfig{global_size=24576, global_buffer_shape=(384, 32), shard_shape=(96, 0), shard_orientation=ROW_MAJOR}`.
/// Pairs are (height, width) in elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShardedBufferConfig {
    /// Size of the whole buffer in bytes.
    pub global_size: u64,
    /// Height and width of the whole buffer.
    pub global_buffer_shape: [u64; 2],
    /// Height and width of a shard; 0 replicates that dimension.
    pub shard_shape: [u64; 2],
    /// Whether shards go along the rows or the columns of the mesh first.
    pub shard_orientation: Orientation,
}
