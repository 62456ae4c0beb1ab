//! How a tensor is handed out to the devices of a mesh.

use std::sync::Arc;

use super::ttnn::Orientation;
use super::{Tensor, check_count, check_positive, check_rank, join, volume};
use crate::error::{Error, Result};
use crate::layout::axis::{Axis, Level};
use crate::layout::stair::{Stair, compose};
use crate::layout::{Layout, Parts, Space};

/// The most devices of a mesh.
pub const MAX_DEVICES: u64 = 1 << 16;

/// The most units of all devices together whose order is written out.
const MAX_ORDER: u64 = 1 << 26;

/// What to do with a dimension that the devices do not divide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Uneven {
    /// An error: every device gets as much as the others.
    Refuse,
    /// The last chunk is smaller, as `torch.chunk` makes it; what it lacks is padding on its device.
    Pad,
}

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

/// A mapper that has met its tensor.
struct Cut {
    /// Devices that get something, in each mesh dimension.
    mesh: Vec<u64>,
    /// The dimension of the tensor that each mesh dimension cuts.
    dims: Vec<Option<usize>>,
    /// The shape of the largest chunk, which every device has room for.
    local: Vec<u64>,
}

impl Mapper {
    /// The layout of the tensor on all devices, one after another in row-major order of the mesh.
    ///
    /// A dimension of `size` elements cut over `n` devices falls into chunks of `ceil(size / n)`. `local` gives
    /// the layout of one chunk; every device has its buffers. A mesh of one dimension shrinks to the devices
    /// that get a chunk.
    ///
    /// # Errors
    /// Where the tensor lacks a dimension that is cut, or a dimension is cut twice or unevenly; where a device
    /// of a mesh of several dimensions would get nothing; those of `local`, and for more than 2^60 bytes.
    pub fn apply(
        &self,
        tensor: &Tensor,
        uneven: Uneven,
        local: impl Fn(&Tensor) -> Result<Layout>,
    ) -> Result<Layout> {
        let elements = volume("the tensor", tensor.shape.iter().copied())?;
        let cut = self.cut(tensor, uneven)?;
        let layout = local(&Tensor { shape: cut.local.clone(), dtype: tensor.dtype })?;
        if layout.shape() != cut.local {
            let needed = format!("{}, what one device gets", join(&cut.local));
            return Err(Error::value("layout of one device", join(layout.shape()), needed));
        }
        let devices: u64 = cut.mesh.iter().product();
        if layout.offset != 0 && devices > 1 {
            let given = format!("{} bytes", layout.offset);
            return Err(Error::value("offset of the layout of one device", given, "0"));
        }
        let space = spread(&layout.space, devices)?;
        let mut step = vec![layout.space.units as i64; cut.mesh.len()];
        for m in (1..cut.mesh.len()).rev() {
            step[m - 1] = step[m] * cut.mesh[m] as i64;
        }
        let device = |m: usize| Level { n: cut.mesh[m], step: [step[m], 0, 0] };
        let mut axes = vec![];
        let mut replicas = layout.replicas.clone();
        if elements > 0 {
            axes = layout.axes.iter().map(|a| cut.axis(a, &tensor.shape, device)).collect::<Result<_>>()?;
            replicas.extend((0..cut.mesh.len()).filter(|&m| cut.dims[m].is_none()).map(device));
        }
        Layout::new(Parts {
            shape: tensor.shape.clone(),
            format: layout.format(),
            tile: layout.tile(),
            axes,
            replicas,
            offset: layout.offset,
            space,
            fill: layout.fill(),
            geometry: layout.geometry().clone(),
        })
    }

    /// The TT-Mesh configuration that hands out the tensor as this mapper does.
    ///
    /// The tensor is seen in two dimensions: its last one is the width, all others together are the height.
    /// TT-Mesh reads shards row by row and fills the mesh with them, along its rows (`ROW_MAJOR`) or its
    /// columns (`COL_MAJOR`); a shard size of 0 gives all of that dimension to every device across.
    ///
    /// # Errors
    /// Those of an uneven cut; where a device's part is no rectangle of the two-dimensional view, which names
    /// the dimension at fault, or where neither order gives each device its part; for an empty tensor, and for
    /// a mesh of more than two dimensions.
    pub fn lower(&self, tensor: &Tensor) -> Result<ShardedBufferConfig> {
        let size = volume("the tensor", tensor.shape.iter().copied().chain([tensor.dtype.size() as u64]))?;
        let cut = self.cut(tensor, Uneven::Refuse)?;
        let [rows, columns] = match *self.mesh_shape() {
            [n] => [1, n],
            [rows, columns] => [rows, columns],
            ref mesh => return Err(Error::value("mesh_shape", join(mesh), "one or two dimensions")),
        };
        if size == 0 {
            return Err(Error::value("shape", join(&tensor.shape), "at least one element"));
        }
        let shape = &tensor.shape;
        let leading = shape.len().saturating_sub(1);
        let whole = |sizes: &[u64]| [sizes[..leading].iter().product(), sizes[leading..].iter().product()];
        let (global, shard): ([u64; 2], [u64; 2]) = (whole(shape), whole(&cut.local));
        let innermost = (0..leading).rev().find(|&d| cut.local[d] < shape[d]);
        if let Some(d) = innermost
            && let Some(outer) = (0..d).find(|&o| cut.local[o] > 1)
        {
            let given = format!("dimension {d} of {}", join(shape));
            let needed = format!(
                "dimension {outer}, outside of it, to have size 1 on each device, not {}: a part is then \
                 contiguous in the flattened two-dimensional view, else it takes sharding in N dimensions",
                cut.local[outer]
            );
            return Err(Error::value("cut dimension", given, needed));
        }
        let shards = [global[0] / shard[0], global[1] / shard[1]];
        let given: Vec<u64> = (0..rows * columns).map(|device| cut.shard(device, shape, shard)).collect();
        let replicated = [[0, 0], [shard[0], 0], [0, shard[1]], shard];
        for shard_shape in replicated {
            let fits = |k: usize| shard_shape[k] != 0 || shards[k] == 1;
            for orientation in [Orientation::RowMajor, Orientation::ColMajor] {
                let filled = |device: u64| fill(shard_shape, orientation, [rows, columns], device);
                if fits(0) && fits(1) && (0..).zip(&given).all(|(device, &shard)| filled(device) == shard) {
                    return Ok(ShardedBufferConfig {
                        global_size: size,
                        global_buffer_shape: global,
                        shard_shape,
                        shard_orientation: orientation,
                    });
                }
            }
        }
        let given = format!("{} by {} shards over {rows} by {columns} devices", shards[0], shards[1]);
        let needed =
            "shards that fill the mesh row by row or column by column, one along each or one for each device";
        Err(Error::value("order of the devices", given, needed))
    }

    /// Which dimensions of a tensor are cut, and what one device gets.
    fn cut(&self, tensor: &Tensor, uneven: Uneven) -> Result<Cut> {
        let (mut mesh, placements) = self.placements()?;
        let rank = tensor.shape.len();
        check_rank("shape", rank)?;
        let linear = mesh.len() == 1;
        let mut local = tensor.shape.clone();
        let mut dims = Vec::new();
        for (n, placement) in mesh.iter_mut().zip(placements) {
            let Placement::Shard(dim) = placement else {
                dims.push(None);
                continue;
            };
            let counted = if dim < 0 { dim.saturating_add(rank as i64) } else { dim };
            let d = usize::try_from(counted).ok().filter(|&d| d < rank);
            let d = d.ok_or_else(|| {
                Error::value(
                    "sharded dimension",
                    dim,
                    format!("one of the {rank} of shape {}", join(&tensor.shape)),
                )
            })?;
            if dims.contains(&Some(d)) {
                return Err(Error::value(
                    "sharded dimension",
                    format!("{d} twice"),
                    "each dimension once at most",
                ));
            }
            let size = tensor.shape[d];
            let chunk = size.div_ceil(*n);
            if size % *n != 0 {
                let given = format!("dimension {d} of size {size} over {n} devices");
                if uneven == Uneven::Refuse {
                    return Err(Error::value(
                        "chunks",
                        given,
                        format!("equal ones: a size that {n} divides"),
                    ));
                }
                let chunks = size.div_ceil(chunk);
                if chunks < *n && !linear {
                    let needed =
                        format!("{n} chunks, for the mesh has several dimensions; {size} makes {chunks}");
                    return Err(Error::value("chunks", given, needed));
                }
                *n = chunks;
            }
            local[d] = chunk;
            dims.push(Some(d));
        }
        Ok(Cut { mesh, dims, local })
    }
}

impl Cut {
    /// An axis of one device, over all devices: the mesh dimensions that cut its dimensions are its outermost
    /// digits.
    fn axis(&self, axis: &Axis, shape: &[u64], device: impl Fn(usize) -> Level) -> Result<Axis> {
        let mesh_dim = |d: usize| self.dims.iter().position(|cut| *cut == Some(d));
        let digits: Vec<Level> = axis.dims.iter().filter_map(|&d| mesh_dim(d)).map(device).collect();
        if digits.is_empty() {
            return Ok(axis.clone());
        }
        let parts: u64 = digits.iter().map(|l| l.n).product();
        volume("an axis over the mesh", [parts, axis.extent().max(axis.places.len())])?;
        // From the global coordinate to that of the concatenated parts, innermost dimension first.
        let (mut place, mut stride, mut part) = (Stair::ONE, 1, axis.places.len() as i64);
        for &d in axis.dims.iter().rev() {
            let width = place.len();
            place = place.repeat(self.local[d], [stride]);
            stride *= self.local[d] as i64;
            if let Some(m) = mesh_dim(d) {
                place = place.repeat(self.mesh[m], [part]).slice(0, shape[d] * width).1;
                part *= self.mesh[m] as i64;
            }
        }
        let all = axis.places.clone().repeat(parts, [axis.extent() as i64]);
        let (_, places) = compose(&place, 0, &all)?;
        let cells = digits.into_iter().chain(axis.cells.iter().copied()).collect();
        Axis::new(axis.dims.clone(), axis.first, places, cells)
    }

    /// Which shard of the two-dimensional view a device has, counted row by row.
    fn shard(&self, mut device: u64, shape: &[u64], shard: [u64; 2]) -> u64 {
        let mut first = vec![0; shape.len()];
        for (&n, dim) in self.mesh.iter().zip(&self.dims).rev() {
            if let Some(d) = *dim {
                first[d] = device % n * self.local[d];
            }
            device /= n;
        }
        let leading = shape.len().saturating_sub(1);
        let row = first[..leading].iter().zip(shape).fold(0, |row, (i, n)| row * n + i);
        let (column, width) = (first.last().unwrap_or(&0), shape.last().unwrap_or(&1));
        row / shard[0] * (width / shard[1]) + column / shard[1]
    }
}

/// The shard that TT-Mesh writes to a device of a mesh of rows and columns, whose shards are counted row by row.
fn fill(shard_shape: [u64; 2], orientation: Orientation, [rows, columns]: [u64; 2], device: u64) -> u64 {
    let (row, column) = (device / columns, device % columns);
    match (shard_shape, orientation) {
        ([0, 0], _) => 0,
        ([0, _] | [_, 0], Orientation::RowMajor) => column,
        ([0, _] | [_, 0], Orientation::ColMajor) => row,
        (_, Orientation::RowMajor) => device,
        (_, Orientation::ColMajor) => column * rows + row,
    }
}

/// The buffers of one device, for each device.
fn spread(one: &Space, devices: u64) -> Result<Space> {
    let units = volume("the units of the mesh", [one.units, devices])?;
    let order = match &one.order {
        None => None,
        Some(order) if units <= MAX_ORDER => {
            let of = |device: u64| order.iter().map(move |&slot| (device * one.units) as u32 + slot);
            Some((0..devices).flat_map(of).collect::<Arc<[u32]>>())
        }
        Some(_) => {
            return Err(Error::TooComplex {
                what: "the order of the mesh's units".into(),
                cap: MAX_ORDER as usize,
            });
        }
    };
    let buffers = volume("the buffers of the mesh", [one.buffers, devices])?;
    Ok(Space { units, order, buffers, ..*one })
}
