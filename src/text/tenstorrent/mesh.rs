//! Mesh mappers and the buffer configuration they lower to.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::family::tenstorrent::mesh::{Mapper, Placement, ShardedBufferConfig};
use crate::family::tenstorrent::ttnn::Orientation;
use crate::text::lexer::Cursor;
use crate::text::loops::tuple::Tuple;

const MAPPERS: [&str; 4] =
    ["ShardTensorToMesh", "ShardTensor2dMesh", "ReplicateTensorToMesh", "MeshMapperConfig"];

impl FromStr for Mapper {
    type Err = Error;

    /// Parses and validates; a text error gives the place.
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
    let (name, span) = cursor.word("a mesh mapper")?;
    // TTNN itself has both spellings.
    let name = if name == "ShardTensor2DMesh" { "ShardTensor2dMesh" } else { name };
    if !MAPPERS.contains(&name) {
        return Err(cursor.unknown("a mesh mapper", name, span, &MAPPERS));
    }
    cursor.expect("(", &format!("after `{name}`"))?;
    let (mut mesh_shape, mut dim, mut dims, mut placements) = (None, None, None, None);
    if name == "MeshMapperConfig" && cursor.peek() == Some('[') {
        let start = cursor.start();
        placements = Some(cursor.list("the placements", placement)?);
        cursor.mark("placements", start);
        cursor.expect(",", "and `mesh_shape=` after the placements")?;
    }
    cursor.arguments(")", |c, key, span| {
        match (name, key) {
            (_, "mesh_shape") => mesh_shape = Some(c.numbers(key)?),
            ("ShardTensorToMesh", "dim") => dim = Some(c.integer("a dimension")?),
            ("ShardTensor2dMesh", "dims") => dims = Some(two(c, "dims", dimension)?),
            ("MeshMapperConfig", "placements") if placements.is_none() => {
                placements = Some(c.list(key, placement)?)
            }
            _ => {
                let keys: &[&str] = match name {
                    "ShardTensorToMesh" => &["mesh_shape", "dim"],
                    "ShardTensor2dMesh" => &["mesh_shape", "dims"],
                    "MeshMapperConfig" => &["mesh_shape", "placements"],
                    _ => &["mesh_shape"],
                };
                return Err(c.unknown(&format!("a key that {name} takes here"), key, span, keys));
            }
        }
        Ok(())
    })?;
    let mesh_shape = cursor.required(mesh_shape, "mesh_shape", start)?;
    Ok(match name {
        "ShardTensorToMesh" => {
            Mapper::ShardTensorToMesh { mesh_shape, dim: cursor.required(dim, "dim", start)? }
        }
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
            Mapper::ShardTensor2dMesh { mesh_shape, dims }
        }
        "ReplicateTensorToMesh" => Mapper::ReplicateTensorToMesh { mesh_shape },
        _ => {
            let placements = cursor.required(placements, "placements", start)?;
            Mapper::MeshMapperConfig { placements, mesh_shape }
        }
    })
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

fn placement(cursor: &mut Cursor<'_>) -> Result<Placement> {
    let shard = cursor.choose("a placement", &[("Shard", true), ("Replicate", false)])?;
    cursor.expect("(", "after the placement's name")?;
    let placement =
        if shard { Placement::Shard(cursor.integer("a dimension")?) } else { Placement::Replicate };
    cursor.expect(")", "after the placement")?;
    Ok(placement)
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Shard(dim) => write!(f, "Shard({dim})"),
            Placement::Replicate => f.write_str("Replicate()"),
        }
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
            Mapper::MeshMapperConfig { placements, .. } => {
                let placements: Vec<_> = placements.iter().map(Placement::to_string).collect();
                write!(f, "MeshMapperConfig([{}], mesh_shape={shape})", placements.join(", "))
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
