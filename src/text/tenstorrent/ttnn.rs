//! TTNN tensors: `ttnn(dtype=bfloat8_b, layout=TILE, tile=(32, 32), memory=INTERLEAVED, banks=12, alignment=32)`.

use std::fmt;

use super::attribute::{name_of, tile_shape};
use crate::dtype::{BlockFormat, Format};
use crate::error::Result;
use crate::family::tenstorrent::tile::TileShape;
use crate::family::tenstorrent::ttnn::{
    Memory, Orientation, PLAIN_NAMES, PadValue, PageLayout, Scheme, Ttnn,
};
use crate::text::lexer::Cursor;
use crate::text::loops::tuple::Tuple;

const KEYS: [&str; 11] = [
    "dtype",
    "layout",
    "tile",
    "transpose_tile",
    "pad_value",
    "memory",
    "grid",
    "shard",
    "orientation",
    "banks",
    "alignment",
];

/// Reads `ttnn(...)` behind the word `ttnn`.
pub(in crate::text) fn ttnn(cursor: &mut Cursor<'_>) -> Result<Ttnn> {
    cursor.expect("(", "after `ttnn`")?;
    let start = cursor.start();
    let (mut dtype, mut tiled, mut tile, mut transpose, mut pad_value) = (None, None, None, None, None);
    let (mut memory, mut grid, mut shard, mut orientation) = (None, None, None, None);
    let (mut banks, mut alignment) = (None, None);
    cursor.arguments(")", |c, key, span| {
        match key {
            "dtype" => dtype = Some(format(c)?),
            "layout" => tiled = Some(c.choose("a layout", &[("TILE", true), ("ROW_MAJOR", false)])?),
            "tile" => {
                let start = c.start();
                let [height, width] = c.pair(key)?;
                tile = Some(tile_shape(c, start, height, width)?);
            }
            "transpose_tile" => {
                transpose = Some(c.choose("a truth value", &[("True", true), ("False", false)])?)
            }
            "pad_value" => pad_value = Some(number(c)?),
            "memory" => {
                let interleaved = [("INTERLEAVED", None)];
                let schemes = Scheme::NAMES.map(|(name, scheme)| (name, Some(scheme)));
                memory = Some(c.choose("a memory layout", &[&interleaved[..], &schemes].concat())?);
            }
            "grid" => grid = Some(c.pair(key)?),
            "shard" => shard = Some(c.numbers(key)?),
            "orientation" => orientation = Some(c.choose("an orientation", &Orientation::NAMES)?),
            "banks" => banks = Some(c.number("a number of banks")?),
            "alignment" => alignment = Some(c.number("a number of bytes")?),
            _ => return Err(c.unknown("a key of ttnn(...)", key, span, &KEYS)),
        }
        Ok(())
    })?;
    let stray = |key: &str, given: bool, needs: &str| {
        if given { Err(cursor.error_in(key, format!("`{key}=` needs {needs}"))) } else { Ok(()) }
    };
    let sharding = matches!(memory, Some(Some(_)));
    stray("grid", grid.is_some() && !sharding, "a sharded `memory=`")?;
    stray("shard", shard.is_some() && !sharding, "a sharded `memory=`")?;
    stray("orientation", orientation.is_some() && !sharding, "a sharded `memory=`")?;
    stray("banks", banks.is_some() && memory != Some(None), "`memory=INTERLEAVED`")?;
    stray("alignment", alignment.is_some() && memory != Some(None), "`memory=INTERLEAVED`")?;
    let tiled = cursor.required(tiled, "layout", start)?;
    stray("tile", tile.is_some() && !tiled, "`layout=TILE`")?;
    stray("transpose_tile", transpose == Some(true) && !tiled, "`layout=TILE`")?;

    let layout = if tiled {
        PageLayout::Tile { shape: tile.unwrap_or(TileShape::T32X32), transpose: transpose == Some(true) }
    } else {
        PageLayout::RowMajor
    };
    let memory = match memory {
        None => Memory::Single,
        Some(None) => Memory::Interleaved {
            banks: cursor.required(banks, "banks", start)?,
            alignment: cursor.required(alignment, "alignment", start)?,
        },
        Some(Some(scheme)) => Memory::Sharded {
            scheme,
            grid: cursor.required(grid, "grid", start)?,
            shard: cursor.required(shard, "shard", start)?,
            orientation: orientation.unwrap_or(Orientation::RowMajor),
        },
    };
    Ok(Ttnn { dtype: cursor.required(dtype, "dtype", start)?, layout, pad_value, memory })
}

fn format(cursor: &mut Cursor<'_>) -> Result<Format> {
    let plain = PLAIN_NAMES.map(|(name, dtype)| (name, Format::Plain(dtype)));
    let blocks = BlockFormat::ALL.into_iter().map(|b| (b.name(), Format::Block(b)));
    cursor.choose("a dtype", &plain.into_iter().chain(blocks).collect::<Vec<_>>())
}

/// Reads a number with a point, an exponent, or `inf`.
fn number(cursor: &mut Cursor<'_>) -> Result<PadValue> {
    let start = cursor.start();
    let text = cursor.skip_value();
    text.parse().map(PadValue::new).map_err(|_| {
        let message =
            format!("expected a number, `inf` or `-inf`, found {}", crate::text::lexer::quote(text));
        cursor.error_since(start, message)
    })
}

impl fmt::Display for Orientation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&Orientation::NAMES, *self))
    }
}

impl fmt::Display for Ttnn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype {
            Format::Plain(dtype) => {
                let name = PLAIN_NAMES.iter().find(|n| n.1 == dtype).map_or(dtype.name(), |n| n.0);
                write!(f, "ttnn(dtype={name}")?;
            }
            format => write!(f, "ttnn(dtype={format}")?,
        }
        match self.layout {
            PageLayout::RowMajor => f.write_str(", layout=ROW_MAJOR")?,
            PageLayout::Tile { shape, transpose } => {
                write!(f, ", layout=TILE, tile=({}, {})", shape.height(), shape.width())?;
                if transpose {
                    f.write_str(", transpose_tile=True")?;
                }
            }
        }
        if let Some(value) = self.pad_value {
            write!(f, ", pad_value={}", value.get())?;
        }
        match &self.memory {
            Memory::Single => {}
            Memory::Interleaved { banks, alignment } => {
                write!(f, ", memory=INTERLEAVED, banks={banks}, alignment={alignment}")?;
            }
            Memory::Sharded { scheme, grid, shard, orientation } => {
                let (scheme, grid, shard) = (name_of(&Scheme::NAMES, *scheme), Tuple(grid), Tuple(shard));
                write!(f, ", memory={scheme}, grid={grid}, shard={shard}, orientation={orientation}")?;
            }
        }
        f.write_str(")")
    }
}
