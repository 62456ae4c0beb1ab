//! Mesh mappers and the buffer configuration they lower to.

use std::fmt;
use std::str::FromStr;

use super::python::{enumerator, fields, nothing, shape, wrapped};
use crate::error::{Error, Result};
use crate::family::tenstorrent::cores::Orientation;
use crate::family::tenstorrent::mesh::{Distribution, Mapper, MeshPlacement, ShardedBufferConfig};
use crate::text::lexer::Cursor;
use crate::text::loops::tuple::Tuple;

pub(in crate::text) const MAPPERS: [&str; 5] =
    ["ShardTensorToMesh", "ShardTensor2dMesh", "ReplicateTensorToMesh", "MeshMapperConfig", "TensorTopology"];

impl FromStr for Mapper {
    type Err = Error;

    /// Parses and validates; a text error gives the place. `TensorTopology(..)`, as a tensor prints it, stands for a
    /// mapper that hands out like it.
    fn from_str(text: &str) -> Result<Mapper> {
        let mut cursor = Cursor::new(text)?;
        let mapper = mapper(&mut cursor)?;
        cursor.finish()?;
        mapper.validate().map_err(|e| cursor.locate(e))?;
        Ok(mapper)
    }
}

fn mapper(cursor: &mut Cursor<'_>) -> Result<Mapper> {
    if cursor.peek() == Some('#') {
        return super::mapper_config::mapper(cursor);
    }
    let start = cursor.start();
    let _ = cursor.eat_word("ttnn") && cursor.eat(".");
    let (name, span) = cursor.word("a mesh mapper")?;
    // TTNN itself has both spellings.
    let name = if name == "ShardTensor2DMesh" { "ShardTensor2dMesh" } else { name };
    if !MAPPERS.contains(&name) {
        return Err(cursor.unknown("a mesh mapper", name, span, &MAPPERS));
    }
    cursor.expect("(", format_args!("after `{name}`"))?;
    match name {
        "MeshMapperConfig" => return config(cursor, start),
        "TensorTopology" => return topology(cursor, start),
        _ => {}
    }
    let (mut mesh_shape, mut dim, mut dims) = (None, None, None);
    cursor.arguments(")", |c, key, span| {
        match (name, key) {
            (_, "mesh_shape") => mesh_shape = Some(shape(c, key)?),
            ("ShardTensorToMesh", "dim") => dim = Some(c.integer("a dimension")?),
            ("ShardTensor2dMesh", "dims") => dims = Some(two(c, "dims", dimension)?),
            _ => {
                let keys: &[&str] = match name {
                    "ShardTensorToMesh" => &["mesh_shape", "dim"],
                    "ShardTensor2dMesh" => &["mesh_shape", "dims"],
                    _ => &["mesh_shape"],
                };
                return Err(c.unknown(&format!("a key that {name} takes here"), key, span, keys));
            }
        }
        Ok(())
    })?;
    let mesh_shape = cursor.required(mesh_shape, "mesh_shape", start)?;
    Ok(match name {
        "ShardTensorToMesh" => Mapper::shard(mesh_shape, cursor.required(dim, "dim", start)?),
        "ShardTensor2dMesh" => {
            let dims = cursor.required(dims, "dims", start)?;
            let mesh_shape = <[u64; 2]>::try_from(mesh_shape.as_slice()).map_err(|_| {
                let error = Error::value(
                    "mesh_shape",
                    Tuple(&mesh_shape),
                    "two numbers, the rows and columns of devices",
                );
                cursor.locate(error)
            })?;
            Mapper::shard_2d(mesh_shape, dims)
        }
        _ => Mapper::replicate(mesh_shape),
    })
}

/// Reads `[Shard(0), Replicate()], mesh_shape=(2, 4))`, or what Python prints, behind `MeshMapperConfig(`.
///
/// Python's text tells no mesh: without one it is the shape that stands for it.
fn config(cursor: &mut Cursor<'_>, start: usize) -> Result<Mapper> {
    const KEYS: [&str; 3] = ["placements", "mesh_shape", "mesh_shape_override"];
    let (mut mesh_shape, mut mesh_shape_override, mut placements) = (None, None, None);
    if cursor.peek() == Some('[') {
        let start = cursor.start();
        placements = Some(cursor.list("the placements", placement)?);
        cursor.mark("placements", start);
        if !cursor.eat(",") && cursor.peek() != Some(')') {
            return Err(cursor.expected("`,` and `mesh_shape=` after the placements"));
        }
        // The second argument of the constructor, without its key.
        if matches!(cursor.peek_word(), "ttnn" | "MeshShape") {
            mesh_shape_override = Some(shape(cursor, "mesh_shape_override")?);
            cursor.eat(",");
        }
    }
    fields(cursor, ")", |c, key, span| {
        match key {
            "mesh_shape" => mesh_shape = Some(shape(c, key)?),
            "mesh_shape_override" if mesh_shape_override.is_none() => {
                mesh_shape_override = if nothing(c) { None } else { Some(shape(c, key)?) };
            }
            "placements" if placements.is_none() => placements = Some(placement_list(c)?),
            _ => return Err(c.unknown("a key that MeshMapperConfig takes here", key, span, &KEYS)),
        }
        Ok(())
    })?;
    let placements = cursor.required(placements, "placements", start)?;
    Ok(match (mesh_shape, mesh_shape_override) {
        (Some(mesh), Some(shape)) => Mapper::config_over(placements, mesh, shape),
        (mesh, shape) => Mapper::config(placements, cursor.required(mesh.or(shape), "mesh_shape", start)?),
    })
}

/// Reads what a tensor prints behind `TensorTopology(`. The mesh is the least one that has all of its devices.
fn topology(cursor: &mut Cursor<'_>, start: usize) -> Result<Mapper> {
    let (mut distribution, mut placements, mut coordinates) = (None, None, Vec::new());
    loop {
        if cursor.eat(")") {
            break;
        }
        let (word, span) = cursor.word("a part of the topology, or `)`")?;
        match word {
            "MeshCoordinate" => coordinates.push(wrapped(cursor, "a coordinate", |c| c.number("a number"))?),
            _ => cursor.expect("=", "after the name of a part")?,
        }
        match word {
            "distribution_shape" => distribution = Some(shape(cursor, word)?),
            "placements" => placements = Some(placement_list(cursor)?),
            // The coordinates themselves follow, each like a part of its own.
            "mesh_coords" => continue,
            "MeshCoordinate" => {}
            _ => {
                let known = ["distribution_shape", "placements", "mesh_coords"];
                return Err(cursor.unknown("a part of the topology", word, span, &known));
            }
        }
        if !cursor.eat(",") {
            cursor.expect(")", "or `,` after a part of the topology")?;
            break;
        }
    }
    let distribution = cursor.required(distribution, "distribution_shape", start)?;
    let placements = cursor.required(placements, "placements", start)?;
    let rank = coordinates.first().map_or(0, Vec::len);
    if let Some(other) = coordinates.iter().find(|c| c.len() != rank) {
        let message =
            format!("expected coordinates of {rank} numbers, as the first one has, found {}", Tuple(other));
        return Err(cursor.error_since(start, message));
    }
    let end = |d: usize| coordinates.iter().map(|c| c[d].saturating_add(1)).max().unwrap_or(1);
    let mesh: Vec<u64> = (0..rank).map(end).collect();
    if coordinates.is_empty() {
        return Ok(Mapper::config(placements, distribution));
    }
    let mapper = if mesh == distribution {
        Mapper::config(placements, mesh)
    } else {
        Mapper::config_over(placements, mesh, distribution)
    };
    let derived = mapper.coordinates().map_err(|e| cursor.error_since(start, e.to_string()))?;
    if derived != coordinates {
        let message = "the devices are not those that a mesh mapper hands out to, in their order: expected all of \
                       the distribution's, row by row";
        return Err(cursor.error_since(start, message.into()));
    }
    Ok(mapper)
}

/// Reads placements in brackets, with or without `SmallVector(` around them.
fn placement_list(cursor: &mut Cursor<'_>) -> Result<Vec<MeshPlacement>> {
    if cursor.eat_word("SmallVector") {
        return wrapped(cursor, "the placements", placement);
    }
    cursor.list("the placements", placement)
}

/// Reads a list of two.
fn two<T>(cursor: &mut Cursor<'_>, what: &str, item: fn(&mut Cursor<'_>) -> Result<T>) -> Result<[T; 2]> {
    let start = cursor.start();
    let items = cursor.list(what, item)?;
    let count = items.len();
    <[T; 2]>::try_from(items)
        .map_err(|_| cursor.error_since(start, format!("expected two entries for {what}, found {count}")))
}

fn dimension(cursor: &mut Cursor<'_>) -> Result<Option<i64>> {
    if cursor.eat_word("None") { Ok(None) } else { cursor.integer("a dimension or `None`").map(Some) }
}

fn placement(cursor: &mut Cursor<'_>) -> Result<MeshPlacement> {
    let names =
        [("Shard", true), ("Replicate", false), ("PlacementShard", true), ("PlacementReplicate", false)];
    let shard = enumerator(cursor, "a placement", &names)?;
    cursor.expect("(", "after the placement's name")?;
    let placement =
        if shard { MeshPlacement::Shard(cursor.integer("a dimension")?) } else { MeshPlacement::Replicate };
    cursor.expect(")", "after the placement")?;
    Ok(placement)
}

impl fmt::Display for MeshPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MeshPlacement::Shard(dim) => write!(f, "Shard({dim})"),
            MeshPlacement::Replicate => f.write_str("Replicate()"),
        }
    }
}

impl fmt::Display for Distribution {
    /// As ttnn prints the topology of a tensor.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let placements: Vec<_> = self.placements.iter().map(|p| format!("Placement{p}")).collect();
        let coordinates: Vec<_> = self.coordinates.iter().map(|c| format!("MeshCoordinate({c:?})")).collect();
        write!(f, "TensorTopology(distribution_shape=MeshShape({:?})", self.shape)?;
        write!(f, ", placements=SmallVector([{}])", placements.join(", "))?;
        write!(f, ", mesh_coords={})", coordinates.join(", "))
    }
}

impl fmt::Display for Mapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = Tuple(self.mesh_shape());
        match self {
            Mapper::ShardTensorToMesh { dim, .. } => {
                write!(f, "ShardTensorToMesh(mesh_shape={shape}, dim={dim})")
            }
            Mapper::ShardTensor2dMesh { dims, .. } => {
                let [rows, columns] = dims.map(|d| d.map_or("None".into(), |d| d.to_string()));
                write!(f, "ShardTensor2dMesh(mesh_shape={shape}, dims=({rows}, {columns}))")
            }
            Mapper::ReplicateTensorToMesh { .. } => write!(f, "ReplicateTensorToMesh(mesh_shape={shape})"),
            Mapper::MeshMapperConfig { placements, mesh_shape_override, .. } => {
                let placements: Vec<_> = placements.iter().map(MeshPlacement::to_string).collect();
                write!(f, "MeshMapperConfig([{}], mesh_shape={shape}", placements.join(", "))?;
                if let Some(shape) = mesh_shape_override {
                    write!(f, ", mesh_shape_override={}", Tuple(shape))?;
                }
                f.write_str(")")
            }
        }
    }
}

impl FromStr for ShardedBufferConfig {
    type Err = Error;

    /// Parses what [`fmt::Display`] prints.
    fn from_str(text: &str) -> Result<ShardedBufferConfig> {
        const KEYS: [&str; 4] = ["global_size", "global_buffer_shape", "shard_shape", "shard_orientation"];
        let mut cursor = Cursor::new(text)?;
        let start = cursor.start();
        if !cursor.eat_word("ShardedBufferConfig") {
            return Err(cursor.expected("`ShardedBufferConfig`"));
        }
        cursor.expect("{", "after `ShardedBufferConfig`")?;
        let (mut size, mut global, mut shard, mut orientation) = (None, None, None, None);
        cursor.arguments("}", |c, key, span| {
            match key {
                "global_size" => size = Some(c.number("a number of bytes")?),
                "global_buffer_shape" => global = Some(c.pair(key)?),
                "shard_shape" => shard = Some(c.pair(key)?),
                "shard_orientation" => orientation = Some(c.choose("an orientation", &Orientation::NAMES)?),
                _ => return Err(c.unknown("a key of ShardedBufferConfig", key, span, &KEYS)),
            }
            Ok(())
        })?;
        cursor.finish()?;
        Ok(ShardedBufferConfig {
            global_size: cursor.required(size, "global_size", start)?,
            global_buffer_shape: cursor.required(global, "global_buffer_shape", start)?,
            shard_shape: cursor.required(shard, "shard_shape", start)?,
            shard_orientation: cursor.required(orientation, "shard_orientation", start)?,
        })
    }
}

impl fmt::Display for ShardedBufferConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (global, shard) = (Tuple(&self.global_buffer_shape), Tuple(&self.shard_shape));
        write!(f, "ShardedBufferConfig{{global_size={}, global_buffer_shape={global}", self.global_size)?;
        write!(f, ", shard_shape={shard}, shard_orientation={}}}", self.shard_orientation)
    }
}
