//! A tensor cut into the chunks of a mesh's devices, and the layout of all of them.

use super::{Mapper, MeshPlacement, Uneven};
use crate::error::{Error, Result};
use crate::family::{Tensor, check_sizes, join, volume};
use crate::layout::axis::{Axis, Level};
use crate::layout::piecewise::{Piecewise, compose};
use crate::layout::{Layout, Parts, Space};

/// A mapper that has met its tensor.
pub(super) struct Cut {
    /// Devices that get something, in each mesh dimension.
    pub(super) mesh: Vec<u64>,
    /// The dimension of the tensor that each mesh dimension cuts.
    pub(super) dims: Vec<Option<usize>>,
    /// The shape of the largest chunk, which every device has room for.
    pub(super) local: Vec<u64>,
}

impl Mapper {
    /// The layout of the tensor on all devices, one after another in row-major order of the mesh.
    ///
    /// A dimension of `size` elements cut over `n` devices falls into chunks of `ceil(size / n)`. `local` gives
    /// the layout of one chunk; every device has its buffers. A mesh that is seen in one dimension shrinks to the
    /// devices that get a chunk: 10 elements over 8 devices are 5 chunks of 2.
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

    /// Which dimensions of a tensor are cut, and what one device gets.
    pub(super) fn cut(&self, tensor: &Tensor, uneven: Uneven) -> Result<Cut> {
        let (mut mesh, placements) = self.placements()?;
        let rank = tensor.shape.len();
        check_sizes("shape", &tensor.shape)?;
        let linear = mesh.len() == 1;
        let mut local = tensor.shape.clone();
        let mut dims = Vec::new();
        for (n, placement) in mesh.iter_mut().zip(placements) {
            let MeshPlacement::Shard(dim) = placement else {
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
                let chunks = size.div_ceil(chunk);
                if uneven == Uneven::Refuse && !size.is_multiple_of(chunk) {
                    let rest = size % chunk;
                    let needed = format!("equal ones: these are {} of {chunk} and one of {rest}", chunks - 1);
                    return Err(Error::value("chunks", given, needed));
                }
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
}

/// The buffers of one device, for each device. What is dealt on one device is dealt so on each.
fn spread(one: &Space, devices: u64) -> Result<Space> {
    let units = volume("the number of units of the mesh", [one.units, devices])?;
    let buffers = volume("the number of buffers of the mesh", [one.buffers, devices])?;
    Ok(Space { units, buffers, ..one.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::{DType, Format};
    use crate::family::host::strided::Memref;
    use crate::family::spyre::{Constructor, SpyreLayout};
    use crate::family::{Family, Placement};
    use crate::layout::coverage::{Held, held};
    use crate::layout::{Geometry, MAX_BYTES, RoundRobin};

    fn tensor(shape: &[u64]) -> Tensor {
        Tensor { shape: shape.to_vec(), dtype: DType::F16 }
    }

    fn config(placements: &[MeshPlacement], mesh: &[u64]) -> Mapper {
        Mapper::config(placements.to_vec(), mesh.to_vec())
    }

    fn dense(tensor: &Tensor) -> Result<Layout> {
        let memref = Memref::of(tensor);
        memref.to_layout(tensor, &Placement::default())
    }

    /// Column-major, with two unused places behind each column.
    fn columns(tensor: &Tensor) -> Result<Layout> {
        let mut strides = vec![1];
        for &n in &tensor.shape[..tensor.shape.len() - 1] {
            strides.push(strides[strides.len() - 1] * n as i64 + 2);
        }
        let strides = Some(strides);
        Memref { shape: tensor.shape.clone(), dtype: tensor.dtype, strides, offset: 0 }
            .to_layout(tensor, &Placement::default())
    }

    fn sticks(tensor: &Tensor) -> Result<Layout> {
        let made = Constructor::new(tensor.shape.clone(), tensor.dtype);
        SpyreLayout::from(made).to_layout(tensor, &Placement::default())
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
        placements: &[MeshPlacement],
        local: impl Fn(&Tensor) -> Result<Layout>,
    ) -> Vec<Held> {
        let mut mesh = mesh.to_vec();
        let mut chunk = shape.to_vec();
        for (n, placement) in mesh.iter_mut().zip(placements) {
            if let MeshPlacement::Shard(d) = *placement {
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
                if let MeshPlacement::Shard(d) = *placement {
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
        use MeshPlacement::{Replicate, Shard};
        type Case<'a> = (&'a [u64], &'a [u64], &'a [MeshPlacement]);
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
        let mapper = config(&[MeshPlacement::Replicate, MeshPlacement::Shard(0)], &[3, 2]);
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
        use MeshPlacement::{Replicate, Shard};
        let cases: &[(Mapper, &[u64], Uneven, &[&str])] = &[
            (config(&[Shard(0)], &[8]), &[13, 3], Uneven::Refuse, &["13", "8", "6 of 2 and one of 1"]),
            (config(&[Shard(0), Replicate], &[4, 2]), &[10, 3], Uneven::Refuse, &["10", "4", "one of 1"]),
            (config(&[Shard(0), Replicate], &[4, 2]), &[6, 3], Uneven::Refuse, &["4 chunks", "6 makes 3"]),
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
                .to_layout(t, &Placement::default())
        };
        assert!(config(&[Replicate], &[2]).apply(&tensor(&[4]), Uneven::Pad, offset).is_err());
        assert!(
            config(&[Replicate], &[2]).apply(&tensor(&[4]), Uneven::Pad, |_| dense(&tensor(&[5]))).is_err()
        );
        let empty = config(&[Shard(0), Replicate], &[2, 2]).apply(&tensor(&[0, 4]), Uneven::Refuse, sticks);
        assert_eq!(empty.unwrap().elements(), 0);
        assert!(config(&[Replicate], &[1]).apply(&tensor(&[MAX_BYTES]), Uneven::Pad, dense).is_err());
    }
}
