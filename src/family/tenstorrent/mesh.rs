//! How a tensor is handed out to the devices of a mesh.

use super::ttnn::Orientation;
use crate::error::{Error, Result};
use crate::family::{Tensor, check_count, check_positive, check_sizes, join, volume};
use crate::layout::axis::{Axis, Level};
use crate::layout::piecewise::{Piecewise, compose};
use crate::layout::{Layout, Parts, Space};

/// The most devices of a mesh.
pub const MAX_DEVICES: u64 = 1 << 16;

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
            Error::value("mesh_shape", join(shape), format!("at most {MAX_DEVICES} devices in all"))
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

    /// What one device gets: the same type, and the shape of a chunk.
    ///
    /// # Errors
    /// Those of the cut, as of [`Mapper::apply`].
    pub fn part(&self, tensor: &Tensor, uneven: Uneven) -> Result<Tensor> {
        Ok(Tensor { shape: self.cut(tensor, uneven)?.local, dtype: tensor.dtype })
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
        check_sizes("shape", &tensor.shape)?;
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
            if !size.is_multiple_of(*n) {
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
        let (mut place, mut stride, mut part) = (Piecewise::ONE, 1, axis.places.len() as i64);
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

/// The buffers of one device, for each device. What is dealt on one device is dealt so on each.
fn spread(one: &Space, devices: u64) -> Result<Space> {
    let units = volume("the units of the mesh", [one.units, devices])?;
    let buffers = volume("the buffers of the mesh", [one.buffers, devices])?;
    Ok(Space { units, buffers, ..one.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::{DType, Format};
    use crate::family::host::strided::Memref;
    use crate::family::spyre::SpyreLayout;
    use crate::family::{Family, Placement as Around};
    use crate::layout::coverage::{Held, held};
    use crate::layout::{Geometry, MAX_BYTES, RoundRobin};

    fn tensor(shape: &[u64]) -> Tensor {
        Tensor { shape: shape.to_vec(), dtype: DType::F16 }
    }

    fn config(placements: &[Placement], mesh: &[u64]) -> Mapper {
        Mapper::MeshMapperConfig { placements: placements.to_vec(), mesh_shape: mesh.to_vec() }
    }

    fn dense(tensor: &Tensor) -> Result<Layout> {
        let memref = Memref::of(tensor);
        memref.to_layout(tensor, &Around::default())
    }

    /// Column-major, with two unused places behind each column.
    fn columns(tensor: &Tensor) -> Result<Layout> {
        let mut strides = vec![1];
        for &n in &tensor.shape[..tensor.shape.len() - 1] {
            strides.push(strides[strides.len() - 1] * n as i64 + 2);
        }
        let strides = Some(strides);
        Memref { shape: tensor.shape.clone(), dtype: tensor.dtype, strides, offset: 0 }
            .to_layout(tensor, &Around::default())
    }

    fn sticks(tensor: &Tensor) -> Result<Layout> {
        let (size, dtype) = (tensor.shape.clone(), tensor.dtype);
        SpyreLayout::Constructor { size, dtype, dim_order: None }.to_layout(tensor, &Around::default())
    }

    /// All dimensions in one axis, over pages of 3 elements dealt to 2 buffers, 8 bytes a page.
    fn pages(tensor: &Tensor) -> Result<Layout> {
        let elements: u64 = tensor.shape.iter().product();
        let deep = elements.div_ceil(3).div_ceil(2);
        let units = 2 * deep;
        let cells = vec![Level { n: units, step: [1, 0, 0] }, Level::bytes(3, 2)];
        Layout::new(Parts {
            shape: tensor.shape.clone(),
            format: Format::Plain(tensor.dtype),
            tile: None,
            axes: vec![Axis::new(
                (0..tensor.shape.len()).collect(),
                0,
                Piecewise::run(elements, [1]),
                cells,
            )?],
            replicas: vec![],
            offset: 0,
            space: Space {
                units,
                unit_bytes: 6,
                pitch_bytes: 8,
                deal: RoundRobin::new(2, deep, None),
                buffers: 2,
            },
            fill: 0.0,
            geometry: Geometry::default(),
        })
    }

    /// What the mapper puts on each place: the layout of a chunk, device after device.
    fn handed_out(
        shape: &[u64],
        mesh: &[u64],
        placements: &[Placement],
        local: impl Fn(&Tensor) -> Result<Layout>,
    ) -> Vec<Held> {
        let mut mesh = mesh.to_vec();
        let mut chunk = shape.to_vec();
        for (n, placement) in mesh.iter_mut().zip(placements) {
            if let Placement::Shard(d) = *placement {
                chunk[d as usize] = shape[d as usize].div_ceil(*n);
                *n = shape[d as usize].div_ceil(chunk[d as usize]);
            }
        }
        let one = held(&local(&tensor(&chunk)).unwrap());
        let mut out = Vec::new();
        for device in 0..mesh.iter().product() {
            let mut first = vec![0; shape.len()];
            let mut rest: u64 = device;
            for (&n, placement) in mesh.iter().zip(placements).rev() {
                if let Placement::Shard(d) = *placement {
                    first[d as usize] = rest % n * chunk[d as usize];
                }
                rest /= n;
            }
            out.extend(one.iter().map(|held| {
                let Held::Element(mut number) = *held else { return *held };
                let (mut global, mut weight) = (0, 1);
                for d in (0..shape.len()).rev() {
                    let at = first[d] + number % chunk[d];
                    number /= chunk[d];
                    if at >= shape[d] {
                        return Held::Fill;
                    }
                    global += at * weight;
                    weight *= shape[d];
                }
                Held::Element(global)
            }));
        }
        out
    }

    #[test]
    fn every_device_has_the_layout_of_its_chunk() {
        use Placement::{Replicate, Shard};
        type Case<'a> = (&'a [u64], &'a [u64], &'a [Placement]);
        let cases: &[Case] = &[
            (&[8, 6, 4], &[4], &[Shard(0)]),
            (&[8, 6, 4], &[3], &[Shard(1)]),
            (&[8, 6, 4], &[2], &[Shard(2)]),
            (&[8, 6, 4], &[2, 4], &[Replicate, Shard(0)]),
            (&[8, 6, 4], &[2, 4], &[Shard(1), Shard(0)]),
            (&[8, 6, 4], &[2, 2], &[Shard(2), Replicate]),
            (&[8, 6, 4], &[2, 2], &[Replicate, Replicate]),
            (&[4, 2, 4, 7], &[2, 2, 2], &[Replicate, Shard(2), Shard(1)]),
            (&[4, 2, 4, 6], &[2, 2, 2], &[Shard(3), Shard(0), Shard(2)]),
            // Uneven: a smaller last chunk, and fewer chunks than devices.
            (&[10, 3], &[3], &[Shard(0)]),
            (&[13, 2], &[6], &[Shard(0)]),
            (&[3, 13], &[6], &[Shard(1)]),
            (&[5, 7, 3], &[2, 3], &[Shard(1), Shard(0)]),
            (&[5, 7, 5], &[2, 3], &[Shard(2), Shard(1)]),
            (&[2, 1], &[8], &[Shard(0)]),
        ];
        for &(shape, mesh, placements) in cases {
            let mapper = config(placements, mesh);
            let check = |name: &str, local: fn(&Tensor) -> Result<Layout>| {
                let built = mapper.apply(&tensor(shape), Uneven::Pad, local).unwrap();
                let expected = handed_out(shape, mesh, placements, local);
                assert_eq!(held(&built), expected, "{name}: {shape:?} {placements:?} over {mesh:?}");
            };
            check("dense", dense);
            check("columns", columns);
            check("sticks", sticks);
            check("pages", pages);
        }
    }

    #[test]
    fn buffers_and_copies_are_counted() {
        let mapper = config(&[Placement::Replicate, Placement::Shard(0)], &[3, 2]);
        let built = mapper.apply(&tensor(&[8, 9]), Uneven::Refuse, pages).unwrap();
        assert_eq!((built.buffers(), built.copies()), (12, 3));
        assert_eq!(built.buffer_bytes(), 6 * 8);
        // A long row dimension cut in two stays a handful of nodes.
        let rows = Mapper::ShardTensorToMesh { mesh_shape: vec![1, 8], dim: -1 };
        let built = rows.apply(&tensor(&[131_072, 8192]), Uneven::Refuse, dense).unwrap();
        assert!(built.axes.iter().all(|a| a.addresses.regions(a.start).unwrap().len() == 1));
    }

    #[test]
    fn what_cannot_be_handed_out_is_an_error_with_numbers() {
        use Placement::{Replicate, Shard};
        let cases: &[(Mapper, &[u64], Uneven, &[&str])] = &[
            (config(&[Shard(0)], &[8]), &[10, 3], Uneven::Refuse, &["10", "8"]),
            (config(&[Shard(2)], &[8]), &[8, 3], Uneven::Pad, &["2", "8x3"]),
            (config(&[Shard(-3)], &[8]), &[8, 3], Uneven::Pad, &["-3", "8x3"]),
            (config(&[Shard(i64::MIN)], &[8]), &[8, 3], Uneven::Pad, &["8x3"]),
            (config(&[Shard(0), Shard(-2)], &[2, 2]), &[8, 3], Uneven::Pad, &["0 twice"]),
            (config(&[Shard(0), Replicate], &[6, 2]), &[13, 2], Uneven::Pad, &["13", "6", "5"]),
            (config(&[Shard(0)], &[0]), &[8], Uneven::Pad, &["mesh_shape"]),
            (config(&[Replicate], &[1 << 16]), &[1 << 50], Uneven::Pad, &["more than"]),
            (config(&[Shard(0)], &[3]), &[u64::MAX, 2], Uneven::Pad, &["more than"]),
        ];
        for (mapper, shape, uneven, mentioned) in cases {
            let error = mapper.apply(&tensor(shape), *uneven, dense).unwrap_err().to_string();
            assert!(mentioned.iter().all(|m| error.contains(m)), "{mapper:?}: {error}");
        }
        let offset = |t: &Tensor| {
            Memref { shape: t.shape.clone(), dtype: t.dtype, strides: None, offset: 1 }
                .to_layout(t, &Around::default())
        };
        assert!(config(&[Replicate], &[2]).apply(&tensor(&[4]), Uneven::Pad, offset).is_err());
        assert!(
            config(&[Replicate], &[2]).apply(&tensor(&[4]), Uneven::Pad, |_| dense(&tensor(&[5]))).is_err()
        );
        let empty = config(&[Shard(0), Replicate], &[2, 2]).apply(&tensor(&[0, 4]), Uneven::Refuse, sticks);
        assert_eq!(empty.unwrap().elements(), 0);
        assert!(config(&[Replicate], &[1]).apply(&tensor(&[MAX_BYTES]), Uneven::Pad, dense).is_err());
    }

    fn shard_2d(dims: [Option<i64>; 2]) -> Mapper {
        Mapper::ShardTensor2dMesh { mesh_shape: [2, 4], dims }
    }

    #[test]
    fn the_published_examples_lower_as_published() {
        use Orientation::{ColMajor, RowMajor};
        type Case<'a> = (Mapper, &'a [u64], DType, [u64; 2], [u64; 2], Orientation);
        let line = |mesh: [u64; 2], dim| Mapper::ShardTensorToMesh { mesh_shape: mesh.to_vec(), dim };
        let cases: &[Case] = &[
            (shard_2d([None, Some(0)]), &[4, 3, 32, 32], DType::Bf16, [384, 32], [96, 0], RowMajor),
            (shard_2d([Some(3), None]), &[32, 3, 128, 256], DType::Bf16, [12_288, 256], [0, 128], ColMajor),
            (shard_2d([Some(2), Some(3)]), &[1, 1, 128, 256], DType::F32, [128, 256], [64, 64], RowMajor),
            (shard_2d([None, Some(3)]), &[2, 3, 4, 16], DType::F32, [24, 16], [0, 4], RowMajor),
            (shard_2d([Some(0), None]), &[4, 3, 4, 16], DType::F32, [48, 16], [24, 0], ColMajor),
            (shard_2d([None, Some(1)]), &[1, 4, 5, 6], DType::F32, [20, 6], [5, 0], RowMajor),
            (shard_2d([Some(2), None]), &[1, 1, 6, 5], DType::F32, [6, 5], [3, 0], ColMajor),
            (shard_2d([None, None]), &[2, 3, 4, 5], DType::F32, [24, 5], [0, 0], RowMajor),
            (shard_2d([Some(3), Some(2)]), &[1, 1, 8, 6], DType::F32, [8, 6], [2, 3], ColMajor),
            (shard_2d([Some(0), Some(3)]), &[2, 3, 4, 8], DType::F32, [24, 8], [12, 2], RowMajor),
            (line([2, 4], 3), &[2, 1, 3, 16], DType::F32, [6, 16], [6, 2], RowMajor),
            (line([1, 8], 0), &[8, 2, 3, 4], DType::F32, [48, 4], [6, 0], RowMajor),
        ];
        for (mapper, shape, dtype, global, shard, orientation) in cases {
            let lowered = mapper.lower(&Tensor { shape: shape.to_vec(), dtype: *dtype }).unwrap();
            let expected = ShardedBufferConfig {
                global_size: shape.iter().product::<u64>() * dtype.size() as u64,
                global_buffer_shape: *global,
                shard_shape: *shard,
                shard_orientation: *orientation,
            };
            assert_eq!(lowered, expected, "{mapper:?}");
        }
        let refused: &[(Mapper, &[u64], &str)] = &[
            (shard_2d([None, Some(2)]), &[2, 1, 8, 4], "dimension 2"),
            (shard_2d([Some(2), None]), &[1, 3, 8, 4], "dimension 2"),
            (shard_2d([None, Some(1)]), &[3, 4, 5, 6], "dimension 1"),
            (line([1, 8], 1), &[2, 8, 3, 4], "dimension 1"),
            (shard_2d([Some(1), Some(3)]), &[2, 4, 3, 8], "dimension 1"),
            (shard_2d([Some(0), None]), &[3, 4], "2 devices"),
            (shard_2d([Some(0), None]), &[0, 4], "0x4"),
        ];
        for (mapper, shape, mentioned) in refused {
            let error = mapper.lower(&tensor(shape)).unwrap_err().to_string();
            assert!(error.contains(mentioned), "{error}");
        }
        assert!(config(&[Placement::Replicate; 3], &[2, 2, 2]).lower(&tensor(&[4])).is_err());
    }

    /// Writes the elements 0, 1, .. of a two-dimensional buffer to a mesh, shard after shard; `None` where
    /// the configuration is not allowed or leaves a device without a shard.
    fn write(config: &ShardedBufferConfig, [rows, columns]: [u64; 2]) -> Option<Vec<Vec<u64>>> {
        let [height, width] = config.global_buffer_shape;
        let [down, across] = config.shard_shape;
        let (tall, wide) = (if down == 0 { height } else { down }, if across == 0 { width } else { across });
        if height % tall != 0 || width % wide != 0 {
            return None;
        }
        let mut devices: Vec<Vec<u64>> = vec![vec![]; (rows * columns) as usize];
        let along_row = config.shard_orientation == Orientation::RowMajor;
        let mut turn = 0;
        for top in (0..height).step_by(tall as usize) {
            for left in (0..width).step_by(wide as usize) {
                let shard: Vec<u64> =
                    (0..tall * wide).map(|i| (top + i / wide) * width + left + i % wide).collect();
                let targets: Vec<(u64, u64)> = match (down, across, along_row) {
                    (0, 0, _) => (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))).collect(),
                    (0, _, true) | (_, 0, true) => (0..rows).map(|r| (r, turn)).collect(),
                    (0, _, false) | (_, 0, false) => (0..columns).map(|c| (turn, c)).collect(),
                    (_, _, true) => vec![(turn / columns, turn % columns)],
                    (_, _, false) => vec![(turn % rows, turn / rows)],
                };
                for (row, column) in targets {
                    if row >= rows || column >= columns {
                        return None;
                    }
                    devices[(row * columns + column) as usize] = shard.clone();
                }
                turn += 1;
            }
        }
        devices.iter().all(|d| !d.is_empty()).then_some(devices)
    }

    #[test]
    fn lowering_hands_out_alike_or_is_refused_where_nothing_would() {
        let shapes: &[&[u64]] = &[
            &[],
            &[8],
            &[4, 8],
            &[8, 6],
            &[1, 8, 8],
            &[2, 4, 8],
            &[4, 2, 3],
            &[2, 1, 8, 4],
            &[1, 1, 4, 4],
            &[2, 4, 2, 3],
            &[8, 1, 1, 2],
            &[1, 2, 4, 6],
        ];
        let (mut lowered, mut refused) = (0, 0);
        for &shape in shapes {
            let rank = shape.len() as i64;
            let choices: Vec<Placement> =
                (0..rank).map(Placement::Shard).chain([Placement::Replicate]).collect();
            let mut mappers: Vec<([u64; 2], Mapper)> = Vec::new();
            for mesh in [[1, 1], [1, 4], [4, 1], [2, 2], [2, 4], [4, 2], [1, 8]] {
                for a in &choices {
                    mappers.extend(choices.iter().map(|b| (mesh, config(&[*a, *b], &mesh))));
                    if let Placement::Shard(dim) = *a {
                        mappers.push((mesh, Mapper::ShardTensorToMesh { mesh_shape: mesh.to_vec(), dim }));
                    }
                }
            }
            for (mesh, mapper) in mappers {
                let tensor = tensor(shape);
                let Ok(layout) = mapper.apply(&tensor, Uneven::Refuse, dense) else {
                    assert!(mapper.lower(&tensor).is_err());
                    continue;
                };
                let buffers = held(&layout);
                let number = |held: &Held| if let Held::Element(n) = held { *n } else { panic!("{held:?}") };
                let expected: Vec<Vec<u64>> = buffers
                    .chunks(buffers.len() / layout.buffers() as usize)
                    .map(|device| device.iter().map(number).collect())
                    .collect();
                let leading = shape.len().saturating_sub(1);
                let [height, width] = [shape[..leading].iter().product(), shape[leading..].iter().product()];
                match mapper.lower(&tensor) {
                    Ok(config) => {
                        lowered += 1;
                        assert_eq!(config.global_buffer_shape, [height, width]);
                        assert_eq!(
                            write(&config, mesh).unwrap(),
                            expected,
                            "{mapper:?} {shape:?} {config:?}"
                        );
                    }
                    Err(error) => {
                        refused += 1;
                        for (down, across) in (0..=height).flat_map(|d| (0..=width).map(move |a| (d, a))) {
                            for shard_orientation in [Orientation::RowMajor, Orientation::ColMajor] {
                                let config = ShardedBufferConfig {
                                    global_size: 0,
                                    global_buffer_shape: [height, width],
                                    shard_shape: [down, across],
                                    shard_orientation,
                                };
                                let other = write(&config, mesh);
                                assert_ne!(
                                    other.as_ref(),
                                    Some(&expected),
                                    "{mapper:?} {shape:?} {error} {config:?}"
                                );
                            }
                        }
                    }
                }
            }
        }
        assert!(lowered > 100 && refused > 100, "{lowered} {refused}");
    }
}
