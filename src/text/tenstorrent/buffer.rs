//! Buffers: `memref<1x1x2x2x!ttcore.tile<32x32, f32>, #ttcore.shard<8192x4096, 1>, #ttcore.memory_space<l1>>`.

use std::fmt;

use super::attribute::{self, write_sizes};
use crate::error::Result;
use crate::family::join;
use crate::family::tenstorrent::buffer::{Arrangement, Buffer};
use crate::family::tenstorrent::tile::Element;
use crate::text::affine;
use crate::text::lexer::Cursor;

/// The layouts of memrefs.
const LAYOUTS: [&str; 5] = ["shard", "view", "cb_layout", "interleaved", "host_layout"];

/// Reads what follows the element of a memref that is a buffer, with its strides and offset, if it has any.
pub(in crate::text) fn buffer(
    cursor: &mut Cursor<'_>,
    shape: Vec<u64>,
    element: Element,
    arrangement: Arrangement,
) -> Result<Buffer> {
    let mut buffer = Buffer::new(shape, element);
    buffer.arrangement = arrangement;
    while cursor.eat(",") {
        let at = cursor.start();
        if buffer.memory.is_some() {
            return Err(cursor.expected("`>` after the memory of the memref"));
        }
        if let Some(name) = layout_name(cursor)? {
            layout(cursor, name, at, &mut buffer)?;
        } else {
            buffer.memory = Some(attribute::memory(cursor)?);
        }
    }
    cursor.expect(">", "or `,` at the end of the memref")?;
    Ok(buffer)
}

/// Reads `#ttcore.shard` and the like, if one comes next.
fn layout_name<'a>(cursor: &mut Cursor<'a>) -> Result<Option<&'a str>> {
    let start = cursor.start();
    if cursor.eat("#") && (cursor.eat_word("ttcore") || cursor.eat_word("tt")) && cursor.eat(".") {
        let (name, span) = cursor.word("the layout or the memory of a memref")?;
        if LAYOUTS.contains(&name) {
            return Ok(Some(name));
        }
        if name != "memory_space" {
            let known = [&LAYOUTS[..], &["memory_space"]].concat();
            return Err(cursor.unknown("a layout or a memory of a memref", name, span, &known));
        }
    }
    cursor.rewind(start);
    Ok(None)
}

/// Reads the value of a layout.
fn layout(cursor: &mut Cursor<'_>, name: &str, at: usize, buffer: &mut Buffer) -> Result<()> {
    cursor.expect("<", format_args!("after `{name}`"))?;
    let is_first = buffer.arrangement == Arrangement::RowMajor && buffer.view.is_none();
    let value = cursor.start();
    match name {
        "view" => {
            let is_shard = matches!(buffer.arrangement, Arrangement::Shard { .. });
            if !is_first && !is_shard {
                return Err(cursor.error_since(at, "a view can only stand alone or behind `shard`".into()));
            }
            buffer.view = affine::map_or_rank(cursor)?;
            cursor.mark("view", value);
            if !is_shard {
                buffer.arrangement = Arrangement::Viewed;
            }
        }
        _ if !is_first => {
            return Err(cursor.error_since(at, "a memref has one layout, and a view behind it".into()));
        }
        "shard" => {
            let strides = marked_strides(cursor)?;
            let buffers = if cursor.eat(",") { Some(buffers(cursor)?) } else { None };
            buffer.arrangement = Arrangement::Shard { strides, buffers };
        }
        "cb_layout" => {
            let strides = marked_strides(cursor)?;
            cursor.expect(",", "and the number of buffers after the strides")?;
            let buffers = buffers(cursor)?;
            buffer.arrangement = Arrangement::Circular { strides, buffers };
        }
        "interleaved" => buffer.arrangement = Arrangement::Interleaved { strides: marked_strides(cursor)? },
        _ => return host(cursor, buffer),
    }
    cursor.expect(">", format_args!("after the value of `{name}`"))
}

fn marked_strides(cursor: &mut Cursor<'_>) -> Result<Vec<u64>> {
    let start = cursor.start();
    let strides = cursor.sizes("strides")?;
    cursor.mark("strides", start);
    Ok(strides)
}

fn buffers(cursor: &mut Cursor<'_>) -> Result<u64> {
    let start = cursor.start();
    let buffers = cursor.number("the number of buffers")?;
    cursor.mark("buffers", start);
    Ok(buffers)
}

/// Reads the value of `host_layout`, with its `>`.
fn host(cursor: &mut Cursor<'_>, buffer: &mut Buffer) -> Result<()> {
    const KEYS: [&str; 3] = ["logical_shape", "host_strides", "host_volume"];
    let (mut shape, mut host_strides, mut host_volume, mut mesh) = (None, None, None, None);
    let start = cursor.start();
    loop {
        if matches!(cursor.peek(), Some('<' | '#')) {
            mesh = Some(attribute::mesh_name(cursor)?);
        } else {
            let (key, span) = cursor.word("a key of `host_layout`")?;
            cursor.expect("=", format_args!("after `{key}`"))?;
            let value = cursor.start();
            match key {
                "logical_shape" => shape = Some(optional_sizes(cursor, key)?),
                "host_strides" => host_strides = Some(optional_sizes(cursor, key)?),
                "host_volume" => host_volume = Some(cursor.number("the number of elements")?),
                _ => return Err(cursor.unknown("a key of `host_layout`", key, span, &KEYS)),
            }
            cursor.mark(if key == "host_strides" { "strides" } else { key }, value);
        }
        if !cursor.eat(",") {
            cursor.expect(">", "or `,` in `host_layout`")?;
            break;
        }
    }
    buffer.arrangement = Arrangement::Host {
        logical_shape: cursor.required(shape, "logical_shape", start)?,
        strides: cursor.required(host_strides, "host_strides", start)?,
        volume: cursor.required(host_volume, "host_volume", start)?,
        mesh,
    };
    Ok(())
}

/// Reads sizes, or nothing for a rank of 0.
fn optional_sizes(cursor: &mut Cursor<'_>, what: &str) -> Result<Vec<u64>> {
    if cursor.peek() == Some(',') { Ok(Vec::new()) } else { cursor.sizes(what) }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("memref<")?;
        write_sizes(f, &self.shape)?;
        write!(f, "{}", self.element)?;
        match &self.arrangement {
            Arrangement::RowMajor | Arrangement::Viewed => {}
            Arrangement::Strided { strides, offset: Some(offset) } => {
                write!(f, ", strided<{strides:?}, offset: {offset}>")?;
            }
            Arrangement::Strided { strides, offset: None } => write!(f, ", strided<{strides:?}, offset: ?>")?,
            Arrangement::Shard { strides, buffers: Some(n) } => {
                write!(f, ", #ttcore.shard<{}, {n}>", join(strides))?;
            }
            Arrangement::Shard { strides, buffers: None } => write!(f, ", #ttcore.shard<{}>", join(strides))?,
            Arrangement::Circular { strides, buffers } => {
                write!(f, ", #ttcore.cb_layout<{}, {buffers}>", join(strides))?;
            }
            Arrangement::Interleaved { strides } => write!(f, ", #ttcore.interleaved<{}>", join(strides))?,
            Arrangement::Host { logical_shape, strides, volume, mesh } => {
                let (shape, strides) = (join(logical_shape), join(strides));
                write!(f, ", #ttcore.host_layout<logical_shape = {shape}, host_strides = {strides}")?;
                write!(f, ", host_volume = {volume}")?;
                if let Some(mesh) = mesh {
                    write!(f, ", <\"{mesh}\">")?;
                }
                f.write_str(">")?;
            }
        }
        match &self.view {
            Some(map) => write!(f, ", #ttcore.view<{map}>")?,
            None if self.arrangement == Arrangement::Viewed => {
                write!(f, ", #ttcore.view<{}>", self.shape.len())?;
            }
            None => {}
        }
        if let Some(memory) = self.memory {
            write!(f, ", {memory}")?;
        }
        f.write_str(">")
    }
}
