//! How a tensor is handed out to the devices of a mesh.

mod cut;
mod lower;

use crate::error::{Error, Result};
use crate::family::{Tensor, check_count, check_positive, join};
use crate::layout::index::index_of;

pub use lower::ShardedBufferConfig;

/// The most devices of a mesh.
pub const MAX_DEVICES: u64 = 1 << 16;

/// What to do with a dimension that falls into unequal chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Uneven {
    /// An error, as in TTNN: every device that gets a chunk gets as much as the others.
    Refuse,
    /// The last chunk is smaller, as `torch.chunk` makes it; what it lacks is padding on its device.
    Pad,
}

/// What one mesh dimension does with the tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MeshPlacement {
    /// Cuts this dimension of the tensor; a negative one counts from the rank.
    Shard(i64),
    /// Gives every device the same.
    Replicate,
}

/// A TTNN mesh mapper.
///
/// ```
/// use tilewright::family::Tensor;
/// use tilewright::family::tenstorrent::mesh::Mapper;
/// use tilewright::DType;
///
/// // Chunks of two rows go to five of the eight devices.
/// let mapper = Mapper::shard(vec![2, 4], 0);
/// let tensor = Tensor { shape: vec![10, 32], dtype: DType::F32 };
/// let handed_out = mapper.distribution(&tensor)?;
/// assert_eq!((handed_out.shape, handed_out.local), (vec![5], vec![2, 32]));
/// assert_eq!(handed_out.coordinates[4], [1, 0]);
/// # Ok::<(), tilewright::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mapper {
    /// `ShardTensorToMesh(mesh_shape=(1, 8), dim=3)`: one dimension cut over all devices, in row-major order.
    #[non_exhaustive]
    ShardTensorToMesh {
        /// Devices in each mesh dimension.
        mesh_shape: Vec<u64>,
        /// The dimension of the tensor; a negative one counts from the rank.
        dim: i64,
    },
    /// `ShardTensor2dMesh(mesh_shape=(2, 4), dims=(None, 0))`: a dimension, or none, for the rows and the columns of the mesh.
    #[non_exhaustive]
    ShardTensor2dMesh {
        /// Rows and columns of devices.
        mesh_shape: [u64; 2],
        /// What the rows and what the columns cut; `None` replicates.
        dims: [Option<i64>; 2],
    },
    /// `ReplicateTensorToMesh(mesh_shape=(2, 4))`: the whole tensor on every device.
    #[non_exhaustive]
    ReplicateTensorToMesh {
        /// Devices in each mesh dimension.
        mesh_shape: Vec<u64>,
    },
    /// `MeshMapperConfig([Shard(0), Replicate()], mesh_shape=(2, 4))`.
    #[non_exhaustive]
    MeshMapperConfig {
        /// One for each dimension of the mesh, or of the shape that stands for it.
        placements: Vec<MeshPlacement>,
        /// Devices in each mesh dimension.
        mesh_shape: Vec<u64>,
        /// Another shape, of any rank, that the tensor is handed out to in place of the mesh's own.
        mesh_shape_override: Option<Vec<u64>>,
    },
}

/// How a mapper hands out a tensor: what TTNN calls the topology of the tensor, and prints alike.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Distribution {
    /// Devices that get something, along each dimension of the distribution.
    pub shape: Vec<u64>,
    /// What each of these dimensions does, as the mapper says it.
    pub placements: Vec<MeshPlacement>,
    /// Where on the mesh the devices are, in the order in which their buffers lie.
    pub coordinates: Vec<Vec<u64>>,
    /// The shape of each device's part.
    pub local: Vec<u64>,
}

impl Mapper {
    /// Cuts one dimension over all devices.
    pub fn shard(mesh_shape: Vec<u64>, dim: i64) -> Mapper {
        Mapper::ShardTensorToMesh { mesh_shape, dim }
    }

    /// Cuts a dimension over the rows of the mesh and another over its columns; `None` replicates.
    pub fn shard_2d(mesh_shape: [u64; 2], dims: [Option<i64>; 2]) -> Mapper {
        Mapper::ShardTensor2dMesh { mesh_shape, dims }
    }

    /// Gives all of the tensor to every device.
    pub fn replicate(mesh_shape: Vec<u64>) -> Mapper {
        Mapper::ReplicateTensorToMesh { mesh_shape }
    }

    /// Does something of its own along each mesh dimension.
    pub fn config(placements: Vec<MeshPlacement>, mesh_shape: Vec<u64>) -> Mapper {
        Mapper::MeshMapperConfig { placements, mesh_shape, mesh_shape_override: None }
    }

    /// Does something of its own along each dimension of a shape that stands for the mesh.
    pub fn config_over(placements: Vec<MeshPlacement>, mesh_shape: Vec<u64>, shape: Vec<u64>) -> Mapper {
        Mapper::MeshMapperConfig { placements, mesh_shape, mesh_shape_override: Some(shape) }
    }

    /// The shape of the mesh as the text gives it.
    pub fn mesh_shape(&self) -> &[u64] {
        match self {
            Mapper::ShardTensorToMesh { mesh_shape, .. }
            | Mapper::ReplicateTensorToMesh { mesh_shape }
            | Mapper::MeshMapperConfig { mesh_shape, .. } => mesh_shape,
            Mapper::ShardTensor2dMesh { mesh_shape, .. } => mesh_shape,
        }
    }

    /// Number of devices of the mesh, those that get nothing included.
    ///
    /// # Errors
    /// [`Error::Value`] for a mesh with a size of 0 or more than [`MAX_DEVICES`] devices.
    pub fn devices(&self) -> Result<u64> {
        count("mesh_shape", self.mesh_shape())
    }

    /// Checks the mesh, that there is a placement for each of its dimensions, and that a shape that stands for it
    /// has no more devices.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    pub fn validate(&self) -> Result<()> {
        let devices = self.devices()?;
        let Mapper::MeshMapperConfig { placements, mesh_shape, mesh_shape_override } = self else {
            return Ok(());
        };
        let Some(shape) = mesh_shape_override else {
            return check_count(
                "placements",
                placements.len(),
                mesh_shape.len(),
                "one for each mesh dimension",
            );
        };
        let needed = count("mesh_shape_override", shape)?;
        if needed > devices {
            let given = format!("{needed} devices, {}", join(shape));
            let mesh = format!("at most the {devices} of the mesh, {}", join(mesh_shape));
            return Err(Error::value("mesh_shape_override", given, mesh));
        }
        check_count(
            "placements",
            placements.len(),
            shape.len(),
            "one for each dimension of mesh_shape_override",
        )
    }

    /// The mesh as placements see it, with one placement for each of its dimensions.
    ///
    /// # Errors
    /// Those of [`Mapper::validate`].
    pub fn placements(&self) -> Result<(Vec<u64>, Vec<MeshPlacement>)> {
        self.validate()?;
        Ok(match self {
            Mapper::ShardTensorToMesh { dim, .. } => {
                (vec![self.devices()?], vec![MeshPlacement::Shard(*dim)])
            }
            Mapper::ReplicateTensorToMesh { .. } => (vec![self.devices()?], vec![MeshPlacement::Replicate]),
            Mapper::ShardTensor2dMesh { mesh_shape, dims } => {
                let placement = |d: Option<i64>| d.map_or(MeshPlacement::Replicate, MeshPlacement::Shard);
                (mesh_shape.to_vec(), dims.map(placement).to_vec())
            }
            Mapper::MeshMapperConfig { placements, mesh_shape, mesh_shape_override } => {
                (mesh_shape_override.as_ref().unwrap_or(mesh_shape).clone(), placements.clone())
            }
        })
    }

    /// Where on the mesh the devices are that a large enough tensor is handed out to, in the order of their buffers.
    ///
    /// A shape that stands for the mesh keeps its coordinates where it has the rank of the mesh and fits inside of it;
    /// else its devices are those of the mesh in row-major order.
    ///
    /// # Errors
    /// Those of [`Mapper::validate`].
    pub fn coordinates(&self) -> Result<Vec<Vec<u64>>> {
        let (whole, _) = self.placements()?;
        let mesh = self.mesh_shape();
        let inside = whole.len() == mesh.len() && whole.iter().zip(mesh).all(|(n, of)| n <= of);
        let seen = if inside { &whole } else { mesh };
        Ok((0..whole.iter().product()).map(|device| index_of(device, seen)).collect())
    }

    /// Which devices get which part of a tensor, in equal chunks.
    ///
    /// # Errors
    /// Those of [`Mapper::apply`] that are not about the layout of a device.
    pub fn distribution(&self, tensor: &Tensor) -> Result<Distribution> {
        let cut = self.cut(tensor, Uneven::Refuse)?;
        let (_, placements) = self.placements()?;
        let mut coordinates = self.coordinates()?;
        // Only a mesh that is seen in one dimension is used in part.
        coordinates.truncate(cut.mesh.iter().product::<u64>() as usize);
        Ok(Distribution { shape: cut.mesh, placements, coordinates, local: cut.local })
    }
}

/// The number of devices of a shape.
fn count(what: &str, shape: &[u64]) -> Result<u64> {
    check_positive(what, shape)?;
    let devices = shape.iter().try_fold(1u64, |n, s| n.checked_mul(*s)).filter(|n| *n <= MAX_DEVICES);
    devices.ok_or_else(|| Error::value(what, join(shape), format!("at most {MAX_DEVICES} devices in all")))
}
