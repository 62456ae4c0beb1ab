//! `#ttnn.mesh_mapper_config<placements = [<shard, 0 : i64>, <replicate>], mesh_shape_override = [2 : i64, 4 : i64]>`.

use super::attribute;
use crate::error::Result;
use crate::family::tenstorrent::mesh::{Mapper, MeshPlacement};
use crate::text::lexer::Cursor;

/// Reads a mapper of the compiler. It must say the shape of the mesh, since without `mesh_shape_override` the device
/// says it.
pub(super) fn mapper(cursor: &mut Cursor<'_>) -> Result<Mapper> {
    let start = cursor.start();
    attribute::ttnn(cursor, "mesh_mapper_config")?;
    cursor.expect("<", "after `mesh_mapper_config`")?;
    let (mut placements, mut mesh_shape) = (None, None);
    cursor.arguments(">", |c, key, span| {
        match key {
            "placements" => placements = Some(c.list(key, placement)?),
            "mesh_shape_override" => {
                mesh_shape = Some(c.list(key, |c| integer(c).map(i64::unsigned_abs))?);
            }
            _ => {
                let known = ["placements", "mesh_shape_override"];
                return Err(c.unknown("a key of `mesh_mapper_config`", key, span, &known));
            }
        }
        Ok(())
    })?;
    let placements = cursor.required(placements, "placements", start)?;
    let mesh_shape = cursor.required(mesh_shape, "mesh_shape_override", start)?;
    Ok(Mapper::config(placements, mesh_shape))
}

/// Reads `<shard, 0 : i64>` or `<replicate>`.
fn placement(cursor: &mut Cursor<'_>) -> Result<MeshPlacement> {
    const NAMES: [(&str, bool); 2] = [("shard", true), ("replicate", false)];
    cursor.expect("<", "before a placement")?;
    let placement = if cursor.choose("a placement", &NAMES)? {
        cursor.expect(",", "and a dimension after `shard`")?;
        MeshPlacement::Shard(integer(cursor)?)
    } else {
        MeshPlacement::Replicate
    };
    cursor.expect(">", "after a placement")?;
    Ok(placement)
}

/// Reads a number with or without its type, `2 : i64`.
fn integer(cursor: &mut Cursor<'_>) -> Result<i64> {
    let number = cursor.integer("a number")?;
    if cursor.eat(":") {
        cursor.word("the type of a number")?;
    }
    Ok(number)
}
