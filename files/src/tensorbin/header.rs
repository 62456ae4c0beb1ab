//! The header of a tensor file, as the tables of its FlatBuffer.

use tilewright::family::MAX_RANK;
use tilewright::family::tenstorrent::cores::{CoreRange, CoreRangeSet, Orientation};
use tilewright::family::tenstorrent::mesh::{MAX_DEVICES, MeshPlacement as Placement};
use tilewright::family::tenstorrent::tile::TileShape;
use tilewright::family::tenstorrent::ttnn::PageLayout;

use super::contents::{Shard, TensorBin, Topology};
use super::flatbuffer::{Builder, Field, Ref, Result, Table};
use super::spec::{
    BUFFERS, FORMATS, MemoryConfig, MemoryLayout, NdShardSpec, STRATEGIES, ShardSpec, TensorSpec,
};

/// The union tags of a page configuration.
const ROW_MAJOR: u8 = 1;
const TILE: u8 = 2;
/// The union tag of a shard that lies in the file.
const INLINE: u8 = 1;
/// The type of a placement that cuts a dimension.
const CUT: u8 = 1;

/// The most rectangles of cores.
const MAX_RANGES: usize = 4096;

/// Reads a header; `payload` is the byte of the file at which its offsets begin, `len` that of its end.
///
/// What it returns has ranges inside of the file, and coordinates inside of the mesh, each once.
pub(super) fn decode(bytes: &[u8], payload: u64, len: u64) -> Result<TensorBin> {
    let root = Table::root(bytes)?;
    let spec = spec(root.required(0, "tensor specification")?)?;
    let mesh_shape = root.required(1, "mesh shape")?.numbers(0, "the mesh shape", MAX_RANK)?;
    let devices = mesh_shape.iter().try_fold(1_u64, |n, &m| n.checked_mul(m));
    let devices = devices.filter(|n| (1..=MAX_DEVICES).contains(n) && !mesh_shape.is_empty());
    let devices = devices
        .ok_or_else(|| format!("a mesh of shape {mesh_shape:?}, needed 1 to {MAX_DEVICES} devices"))?;
    let one = |table| shard(table, &mesh_shape, payload, len);
    let shards = root.tables(2, "the list of shards", devices as usize, one)?;
    if shards.is_empty() {
        return Err("there is no shard".to_owned());
    }
    let mut seen: Vec<&[u64]> = shards.iter().map(|s| s.coordinate.as_slice()).collect();
    seen.sort_unstable();
    if let Some(twice) = seen.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("two shards are for the device {:?}", twice[0]));
    }
    let topology = match root.table(3)? {
        Some(table) => topology(table, &mesh_shape)?,
        // As the runtime reads files from before there were topologies.
        None => Topology {
            distribution: vec![shards.len() as u64],
            placements: vec![Placement::Replicate],
            coordinates: shards.iter().map(|s| s.coordinate.clone()).collect(),
        },
    };
    Ok(TensorBin { spec, mesh_shape, shards, topology, payload })
}

fn spec(table: Table<'_>) -> Result<TensorSpec> {
    let layout = table.required(1, "tensor layout")?;
    let number = layout.u8(0)?;
    let format = FORMATS.iter().find(|f| f.0 == number).map(|f| f.1);
    let format = format.ok_or_else(|| format!("data type {number}, needed one of 0 to 8"))?;
    let pages = match layout.u8(1)? {
        ROW_MAJOR => PageLayout::RowMajor,
        TILE => tile(layout.required(2, "page configuration")?.required(0, "tile")?)?,
        other => {
            return Err(format!(
                "page configuration {other}, needed {ROW_MAJOR} for rows or {TILE} for tiles"
            ));
        }
    };
    Ok(TensorSpec {
        shape: table.numbers(0, "the shape", MAX_RANK)?,
        format,
        pages,
        memory: memory(layout.required(3, "memory configuration")?)?,
        alignment: layout.numbers(4, "the alignment", MAX_RANK)?,
    })
}

fn tile(table: Table<'_>) -> Result<PageLayout> {
    let (height, width, transpose) = (table.u32(0)?, table.u32(1)?, table.u8(2)? != 0);
    let shape = TileShape::new(height.into(), width.into());
    let shape = shape.ok_or_else(|| {
        format!("a tile of {height}x{width}, needed 32, 16, 8, 4, 2 or 1 rows and 32 or 16 columns")
    })?;
    Ok(PageLayout::Tile { shape, transpose })
}

/// The value of a number in a table of them.
fn known<N: Copy + PartialEq + std::fmt::Display, T: Copy>(
    what: &str,
    all: &[(N, T, &str)],
    number: N,
) -> Result<T> {
    all.iter().find(|entry| entry.0 == number).map(|entry| entry.1).ok_or_else(|| {
        let names: Vec<String> = all.iter().map(|entry| format!("{} ({})", entry.0, entry.2)).collect();
        format!("{what} {number}, needed one of {}", names.join(", "))
    })
}

fn memory(table: Table<'_>) -> Result<MemoryConfig> {
    let shard = table.table(2)?.map(|t| {
        Ok::<_, String>(ShardSpec {
            grid: cores(t.required(0, "grid of the shards")?)?,
            shape: [t.u32(1)?.into(), t.u32(2)?.into()],
            orientation: orientation(t.u8(3)?)?,
        })
    });
    let nd_shard = table.table(3)?.map(|t| {
        Ok::<_, String>(NdShardSpec {
            shape: t.numbers(0, "the shape of a shard", MAX_RANK)?,
            grid: cores(t.required(1, "grid of the shards")?)?,
            orientation: orientation(t.u8(2)?)?,
            strategy: known("strategy", &STRATEGIES, t.u8(3)?)?,
        })
    });
    Ok(MemoryConfig {
        layout: known("memory layout", &MemoryLayout::ALL, table.u16(0)?)?,
        buffer: known("buffer type", &BUFFERS, table.u16(1)?)?,
        shard: shard.transpose()?,
        nd_shard: nd_shard.transpose()?,
        created_with_nd_shard_spec: table.u8(4)? != 0,
        per_core_allocation: table.u8(5)? != 0,
    })
}

fn cores(table: Table<'_>) -> Result<CoreRangeSet> {
    let core = |table: Table<'_>| Ok::<_, String>([table.i32(0)?, table.i32(1)?]);
    let ranges = table.tables(0, "the cores of the shards", MAX_RANGES, |range| {
        let (start, end) = (core(range.required(0, "first core")?)?, core(range.required(1, "last core")?)?);
        let inside = |core: [i32; 2]| Some([u64::try_from(core[0]).ok()?, u64::try_from(core[1]).ok()?]);
        let both = inside(start).zip(inside(end)).and_then(|(start, end)| CoreRange::between(start, end));
        both.ok_or_else(|| {
            format!("the cores {start:?} to {end:?}, needed the first and the last of a rectangle")
        })
    })?;
    Ok(CoreRangeSet::new(ranges))
}

fn orientation(number: u8) -> Result<Orientation> {
    match number {
        0 => Ok(Orientation::RowMajor),
        1 => Ok(Orientation::ColMajor),
        other => Err(format!("orientation {other}, needed 0 for ROW_MAJOR or 1 for COL_MAJOR")),
    }
}

fn shard(table: Table<'_>, mesh: &[u64], payload: u64, len: u64) -> Result<Shard> {
    let tag = table.u8(0)?;
    if tag != INLINE {
        return Err(format!("a shard of storage {tag}, needed {INLINE}, bytes of the file"));
    }
    let [offset, size] = table.pair(1)?.ok_or("a shard has no bytes")?;
    let start = payload.checked_add(offset);
    let end = start.and_then(|start| start.checked_add(size)).filter(|&end| end <= len);
    let (Some(start), Some(end)) = (start, end) else {
        return Err(format!(
            "the file is cut short: a shard of {size} bytes at {payload} + {offset}, but the file holds {len}"
        ));
    };
    Ok(Shard {
        coordinate: coordinate(table.required(2, "coordinate of a shard")?, mesh)?,
        range: start..end,
    })
}

fn coordinate(table: Table<'_>, mesh: &[u64]) -> Result<Vec<u64>> {
    let at = table.numbers(0, "a coordinate", MAX_RANK)?;
    if at.len() != mesh.len() || at.iter().zip(mesh).any(|(i, n)| i >= n) {
        return Err(format!("the device {at:?} is none of a mesh of shape {mesh:?}"));
    }
    Ok(at)
}

fn topology(table: Table<'_>, mesh: &[u64]) -> Result<Topology> {
    let distribution = table.required(0, "distribution shape")?.numbers(0, "the distribution", MAX_RANK)?;
    let placements = table.tables(1, "the list of placements", MAX_RANK, |t| match t.u8(0)? {
        0 => Ok(Placement::Replicate),
        CUT => Ok(Placement::Shard(t.i32(1)?.into())),
        other => Err(format!("placement {other}, needed 0 to replicate or {CUT} to cut")),
    })?;
    let one = |t| coordinate(t, mesh);
    let coordinates = table.tables(2, "the list of devices", MAX_DEVICES as usize, one)?;
    Ok(Topology { distribution, placements, coordinates })
}

/// The FlatBuffer of a header.
///
/// [`TensorBin::check`] has found that every number fits its field.
pub(super) fn encode(file: &TensorBin) -> Vec<u8> {
    let mut b = Builder::default();
    let spec = put_spec(&mut b, &file.spec);
    let shards: Vec<Ref> = file.shards.iter().map(|s| put_shard(&mut b, s, file.payload)).collect();
    let shards = b.tables(&shards);
    let mesh_shape = put_numbers(&mut b, &file.mesh_shape);
    let topology = put_topology(&mut b, &file.topology);
    let root = b.table(&[spec.into(), mesh_shape.into(), shards.into(), topology.into()]);
    b.finish(root)
}

/// A table of one vector: a shape or a coordinate.
fn put_numbers(b: &mut Builder, numbers: &[u64]) -> Ref {
    let numbers = b.numbers(numbers);
    b.table(&[numbers.into()])
}

fn put_spec(b: &mut Builder, spec: &TensorSpec) -> Ref {
    let (shape, alignment) = (b.numbers(&spec.shape), b.numbers(&spec.alignment));
    let (tag, pages) = match spec.pages {
        PageLayout::RowMajor => (ROW_MAJOR, b.table(&[])),
        PageLayout::Tile { shape, transpose } => {
            let (height, width) = (shape.height() as u32, shape.width() as u32);
            let tile = b.table(&[Field::U32(height), Field::U32(width), Field::U8(transpose.into())]);
            (TILE, b.table(&[tile.into()]))
        }
    };
    let memory = put_memory(b, &spec.memory);
    let number = FORMATS.iter().find(|f| f.1 == spec.format).map_or(0, |f| f.0);
    let layout = b.table(&[Field::U8(number), Field::U8(tag), pages.into(), memory.into(), alignment.into()]);
    b.table(&[shape.into(), layout.into()])
}

/// The number of a value in a table of them.
fn number<N: Copy + Default, T: PartialEq>(all: &[(N, T, &str)], value: &T) -> N {
    all.iter().find(|entry| entry.1 == *value).map_or(N::default(), |entry| entry.0)
}

fn put_memory(b: &mut Builder, memory: &MemoryConfig) -> Ref {
    let order = |orientation| Field::U8(u8::from(orientation == Orientation::ColMajor));
    let shard = memory.shard.as_ref().map(|s| {
        let grid = put_cores(b, &s.grid);
        let [height, width] = s.shape.map(|n| Field::U32(n as u32));
        b.table(&[grid.into(), height, width, order(s.orientation)])
    });
    let nd_shard = memory.nd_shard.as_ref().map(|s| {
        let (shape, grid) = (b.numbers(&s.shape), put_cores(b, &s.grid));
        let strategy = Field::U8(number(&STRATEGIES, &s.strategy));
        b.table(&[shape.into(), grid.into(), order(s.orientation), strategy])
    });
    b.table(&[
        Field::U16(number(&MemoryLayout::ALL, &memory.layout)),
        Field::U16(number(&BUFFERS, &memory.buffer)),
        Field::To(shard),
        Field::To(nd_shard),
        Field::U8(memory.created_with_nd_shard_spec.into()),
        Field::U8(memory.per_core_allocation.into()),
    ])
}

fn put_cores(b: &mut Builder, grid: &CoreRangeSet) -> Ref {
    let ranges: Vec<Ref> = grid
        .ranges()
        .iter()
        .map(|range| {
            let corners = [[range.x, range.y], range.end()];
            let [start, end] = corners.map(|core| b.table(&core.map(|at| Field::I32(at as i32))));
            b.table(&[start.into(), end.into()])
        })
        .collect();
    let ranges = b.tables(&ranges);
    b.table(&[ranges.into()])
}

fn put_shard(b: &mut Builder, shard: &Shard, payload: u64) -> Ref {
    let coordinate = put_numbers(b, &shard.coordinate);
    // Ranges that are about to be laid out anew may begin anywhere.
    let offset = shard.range.start.saturating_sub(payload);
    let bytes = b.pair([offset, shard.range.end - shard.range.start]);
    b.table(&[Field::U8(INLINE), bytes.into(), coordinate.into()])
}

fn put_topology(b: &mut Builder, topology: &Topology) -> Ref {
    let distribution = put_numbers(b, &topology.distribution);
    let placement = |b: &mut Builder, placement| match placement {
        Placement::Replicate => b.table(&[Field::U8(0), Field::I32(-1)]),
        // A rank is at most `MAX_RANK`, and so is what counts from it.
        Placement::Shard(dim) => b.table(&[Field::U8(CUT), Field::I32(dim as i32)]),
    };
    let placements: Vec<Ref> = topology.placements.iter().map(|&p| placement(b, p)).collect();
    let placements = b.tables(&placements);
    let coordinates: Vec<Ref> = topology.coordinates.iter().map(|c| put_numbers(b, c)).collect();
    let coordinates = b.tables(&coordinates);
    b.table(&[distribution.into(), placements.into(), coordinates.into()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// The headers that ttnn wrote, byte for byte.
    #[test]
    fn equal_headers_are_equal_bytes() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/tensorbin");
        let files = [data.clone(), data.join("mesh")].map(|folder| fs::read_dir(folder).unwrap());
        let mut compared = 0;
        for path in files.into_iter().flatten().map(|entry| entry.unwrap().path()) {
            if path.extension().is_none_or(|e| e != "tensorbin") {
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let payload = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap());
            let header = &bytes[8..payload as usize];
            let written = encode(&decode(header, payload, bytes.len() as u64).unwrap());
            let (same, padding) = header.split_at(written.len());
            assert!(same == written, "{}", path.display());
            assert!(padding.iter().all(|&b| b == 0), "{}", path.display());
            compared += 1;
        }
        assert_eq!(compared, 41);
    }
}
