//! Texts of Tenstorrent's compiler and runtime.

pub(super) mod attribute;
pub(super) mod buffer;
mod cores;
mod device;
mod mapper_config;
mod memory_config;
#[cfg(feature = "json")]
mod memory_json;
mod memory_parts;
pub(super) mod mesh;
pub(super) mod metal;
pub(super) mod python;
pub(super) mod ttnn;
mod ttnn_layout;
mod ttnn_memory;

use attribute::Enclosing;

use super::Descriptor;
use super::lexer::Cursor;
use crate::error::Result;
use crate::family::host::strided::Memref;
use crate::family::tenstorrent::tile::Element;

/// Reads `tensor<shape x element, layout>` behind the word `tensor`.
pub(super) fn tensor(cursor: &mut Cursor<'_>) -> Result<Descriptor> {
    cursor.expect("<", "after `tensor`")?;
    let start = cursor.start();
    let shape = cursor.leading_sizes("tensor")?;
    let element = attribute::element(cursor)?;
    for part in ["tensor", "grid", "shard"] {
        cursor.mark(part, start);
    }
    cursor.expect(",", "and a layout after the element type of the tensor")?;
    let layout = layout(cursor, Some((shape, element)))?;
    cursor.expect(">", "at the end of the tensor")?;
    Ok(layout)
}

/// Reads what follows `#tt.mesh_sharding`, which says of a host array, as of 2025-06, how it came from those of other
/// devices. The array itself is dense.
fn mesh_sharding(cursor: &mut Cursor<'_>, tensor: Option<Enclosing>) -> Result<Descriptor> {
    let start = cursor.start();
    cursor.expect("<", "after `mesh_sharding`")?;
    cursor.quoted("the name of a mesh")?;
    if cursor.eat(",") {
        cursor.skip_value();
    }
    cursor.expect(">", "after the value of `mesh_sharding`")?;
    let Some((shape, Element::Scalar(dtype))) = tensor else {
        let message = "expected a tensor<shape x element, ...> of plain elements around `mesh_sharding`";
        return Err(cursor.error_since(start, message.into()));
    };
    Ok(Descriptor::Memref(Memref { shape, dtype, strides: None, offset: 0 }))
}

/// Reads a layout that begins with `#`, with the tensor around it, if any.
pub(super) fn layout(cursor: &mut Cursor<'_>, tensor: Option<Enclosing>) -> Result<Descriptor> {
    let start = cursor.start();
    let (name, _) = attribute::layout_name(cursor)?;
    match name {
        "mesh_sharding" => mesh_sharding(cursor, tensor),
        "memory_config" if tensor.is_none() => ttnn_memory::config(cursor).map(Descriptor::TtnnMemoryConfig),
        "memory_config" => {
            let message = "a memory config says nothing of what a tensor holds: expected it alone";
            Err(cursor.error_since(start, message.into()))
        }
        "ttnn_nd_layout" => ttnn_layout::nd_layout(cursor, tensor).map(Descriptor::TtnnNdLayout),
        "ttnn_layout" => ttnn_layout::layout(cursor, tensor).map(Descriptor::TtnnLayout),
        _ => metal::layout(cursor, start, name, tensor),
    }
}
