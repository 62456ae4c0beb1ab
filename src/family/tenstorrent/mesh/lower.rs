//! The two-dimensional view in which TT-Mesh cuts a buffer over a mesh, and mappers in its terms.

use super::cut::Cut;
use super::{Mapper, Uneven};
use crate::error::{Error, Result};
use crate::family::tenstorrent::cores::Orientation;
use crate::family::{Tensor, join, volume};

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

impl Mapper {
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
        let (devices, used) = (self.devices()?, cut.mesh.iter().product::<u64>());
        if used < devices {
            let given = format!("{used} of {devices} devices");
            return Err(Error::value("devices that get a part", given, "all: TT-Mesh fills the mesh"));
        }
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
}

impl Cut {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::family::host::strided::Memref;
    use crate::family::tenstorrent::mesh::MeshPlacement;
    use crate::family::{Family, Placement};
    use crate::layout::Layout;
    use crate::layout::coverage::{Held, held};

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
        assert!(config(&[MeshPlacement::Replicate; 3], &[2, 2, 2]).lower(&tensor(&[4])).is_err());
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
            let choices: Vec<MeshPlacement> =
                (0..rank).map(MeshPlacement::Shard).chain([MeshPlacement::Replicate]).collect();
            let mut mappers: Vec<([u64; 2], Mapper)> = Vec::new();
            for mesh in [[1, 1], [1, 4], [4, 1], [2, 2], [2, 4], [4, 2], [1, 8]] {
                for a in &choices {
                    mappers.extend(choices.iter().map(|b| (mesh, config(&[*a, *b], &mesh))));
                    if let MeshPlacement::Shard(dim) = *a {
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
