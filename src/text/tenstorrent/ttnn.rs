//! TTNN tensors: `ttnn(dtype=bfloat8_b, layout=TILE, tile=(32, 32), memory=INTERLEAVED, banks=12, alignment=32)`.

use std::fmt;

use super::attribute::{name_of, tile_shape};
use super::cores::core_range_set;
use super::memory_config::{memory_config, memory_layout};
use super::memory_parts::MemoryConfig;
use super::python::{enumerator, shape, truth};
use crate::dtype::{BlockFormat, Format};
use crate::error::Result;
use crate::family::tenstorrent::cores::{CoreRangeSet, Orientation};
use crate::family::tenstorrent::memory::BufferType;
use crate::family::tenstorrent::tile::TileShape;
use crate::family::tenstorrent::ttnn::{
    Interleaved, Memory, PLAIN_NAMES, PadValue, PageLayout, Scheme, Sharded, Strategy, Ttnn,
};
use crate::text::lexer::{Cursor, quote};
use crate::text::loops::tuple::Tuple;

/// Every key, in the order of the grammar page.
const KEYS: [&str; 15] = [
    "dtype",
    "layout",
    "tile",
    "transpose_tile",
    "pad_value",
    "memory",
    "grid",
    "shard",
    "orientation",
    "strategy",
    "banks",
    "alignment",
    "bank_order",
    "memory_config",
    "buffer_type",
];

/// The values of the keys, each none where it is not given.
#[derive(Default)]
struct Given {
    dtype: Option<Format>,
    tiled: Option<bool>,
    tile: Option<TileShape>,
    transpose: Option<bool>,
    pad_value: Option<PadValue>,
    /// The inner none is interleaved memory.
    memory: Option<Option<Scheme>>,
    grid: Option<CoreRangeSet>,
    shard: Option<Vec<u64>>,
    orientation: Option<Orientation>,
    strategy: Option<Strategy>,
    banks: Option<u64>,
    alignment: Option<u64>,
    bank_order: Option<Vec<u32>>,
    memory_config: Option<MemoryConfig>,
    buffer_type: Option<BufferType>,
}

/// Reads `ttnn(...)` behind the word `ttnn`.
pub(in crate::text) fn ttnn(cursor: &mut Cursor<'_>) -> Result<Ttnn> {
    cursor.expect("(", "after `ttnn`")?;
    let start = cursor.start();
    let mut given = Given::default();
    cursor.arguments(")", |c, key, span| {
        if !KEYS.contains(&key) {
            return Err(c.unknown("a key of ttnn(...)", key, span, &KEYS));
        }
        given.read(c, key)
    })?;
    given.check(cursor)?;
    let layout = if cursor.required(given.tiled, "layout", start)? {
        let shape = given.tile.unwrap_or(TileShape::T32X32);
        PageLayout::Tile { shape, transpose: given.transpose == Some(true) }
    } else {
        PageLayout::RowMajor
    };
    let dtype = cursor.required(given.dtype, "dtype", start)?;
    let (pad_value, buffer_type) = (given.pad_value, given.buffer_type);
    let buffer_type = buffer_type.or(given.memory_config.as_ref().and_then(|m| m.buffer_type));
    let mut ttnn = Ttnn::new(dtype, layout).with_memory(given.memory(cursor, start)?);
    (ttnn.pad_value, ttnn.buffer_type) = (pad_value, buffer_type);
    Ok(ttnn)
}

impl Given {
    /// Reads the value of a key.
    fn read(&mut self, c: &mut Cursor<'_>, key: &str) -> Result<()> {
        match key {
            "dtype" => self.dtype = Some(format(c)?),
            "layout" => self.tiled = Some(page_layout(c)?),
            "tile" => self.tile = Some(tile(c)?),
            "transpose_tile" => self.transpose = Some(truth(c)?),
            "pad_value" => self.pad_value = Some(number(c)?),
            "memory" => self.memory = Some(memory_layout(c)?),
            "grid" => self.grid = Some(core_range_set(c)?),
            "shard" => self.shard = Some(shape(c, key)?),
            "orientation" => self.orientation = Some(enumerator(c, "an orientation", &Orientation::NAMES)?),
            "strategy" => self.strategy = Some(enumerator(c, "a strategy", &Strategy::NAMES)?),
            "banks" => self.banks = Some(c.number("a number of banks")?),
            "alignment" => self.alignment = Some(c.number("a number of bytes")?),
            "bank_order" => self.bank_order = Some(c.list(key, bank)?),
            "memory_config" => self.memory_config = Some(memory_config(c)?),
            _ => self.buffer_type = Some(enumerator(c, "a buffer type", &BufferType::NAMES)?),
        }
        Ok(())
    }

    /// Refuses keys that say nothing without another one.
    fn check(&self, cursor: &Cursor<'_>) -> Result<()> {
        let stray = |key: &str, given: bool, needs: &str| {
            if given { Err(cursor.error_in(key, format!("`{key}=` needs {needs}"))) } else { Ok(()) }
        };
        if self.memory.is_some() && self.memory_config.is_some() {
            let message = "`memory_config=` and `memory=` both say where pages go: expected one of them";
            return Err(cursor.error_in("memory_config", message.into()));
        }
        let sharding = matches!(self.memory, Some(Some(_)));
        stray("grid", self.grid.is_some() && !sharding, "a sharded `memory=`")?;
        stray("shard", self.shard.is_some() && !sharding, "a sharded `memory=`")?;
        stray("orientation", self.orientation.is_some() && !sharding, "a sharded `memory=`")?;
        stray("strategy", self.strategy.is_some() && !sharding, "a sharded `memory=`")?;
        let config = self.memory_config.as_ref().is_some_and(|m| m.sharded.is_none());
        let interleaved = config || self.memory == Some(None);
        stray("banks", self.banks.is_some() && !interleaved, "`memory=INTERLEAVED`")?;
        stray("alignment", self.alignment.is_some() && !interleaved, "`memory=INTERLEAVED`")?;
        stray("bank_order", self.bank_order.is_some() && !interleaved, "`memory=INTERLEAVED`")?;
        stray("tile", self.tile.is_some() && self.tiled == Some(false), "`layout=TILE`")?;
        stray("transpose_tile", self.transpose == Some(true) && self.tiled == Some(false), "`layout=TILE`")
    }

    /// Where the pages go.
    fn memory(self, cursor: &mut Cursor<'_>, start: usize) -> Result<Memory> {
        let scheme = match (self.memory, self.memory_config) {
            (Some(scheme), _) => scheme,
            (None, None) => return Ok(Memory::Single),
            (None, Some(MemoryConfig { sharded: Some(sharded), .. })) => return Ok(Memory::Sharded(sharded)),
            (None, Some(_)) if (self.banks, self.alignment, &self.bank_order) == (None, None, &None) => {
                let text = "memory_config: INTERLEAVED pages lie in one buffer, as on the host, for it tells neither \
                            banks nor alignment of a device; `banks=` and `alignment=` do";
                cursor.warnings.push(|| text.into());
                return Ok(Memory::Single);
            }
            (None, Some(_)) => None,
        };
        Ok(match scheme {
            None => {
                let banks = cursor.required(self.banks, "banks", start)?;
                let mut banks = Interleaved::new(banks, cursor.required(self.alignment, "alignment", start)?);
                banks.bank_order = self.bank_order;
                Memory::Interleaved(banks)
            }
            Some(scheme) => {
                let grid = cursor.required(self.grid, "grid", start)?;
                let shards = Sharded::new(scheme, grid, cursor.required(self.shard, "shard", start)?)
                    .with_orientation(self.orientation.unwrap_or(Orientation::RowMajor))
                    .with_strategy(self.strategy.unwrap_or(scheme.strategy()));
                Memory::Sharded(shards)
            }
        })
    }
}

/// Reads `bfloat16`, `DataType.BFLOAT16` or `DataType::BFLOAT16`.
fn format(cursor: &mut Cursor<'_>) -> Result<Format> {
    let blocks = BlockFormat::ALL.into_iter().map(|b| (b.name(), Format::Block(b)));
    enumerator(cursor, "a dtype", &PLAIN_NAMES.into_iter().chain(blocks).collect::<Vec<_>>())
}

/// Reads `TILE`, `Layout.TILE` or `ttnn.TILE_LAYOUT`; true for tiles.
fn page_layout(cursor: &mut Cursor<'_>) -> Result<bool> {
    let names = [("TILE", true), ("ROW_MAJOR", false), ("TILE_LAYOUT", true), ("ROW_MAJOR_LAYOUT", false)];
    enumerator(cursor, "a layout", &names)
}

/// Reads `(32, 32)`, `ttnn.Tile([32, 32])` or `Tile with shape: [32, 32]`.
fn tile(cursor: &mut Cursor<'_>) -> Result<TileShape> {
    let start = cursor.start();
    let mut wrapped = false;
    if !cursor.peek_word().is_empty() {
        enumerator(cursor, "a tile", &[("Tile", ())])?;
        wrapped = !cursor.eat_word("with");
        if wrapped {
            cursor.expect("(", "or `with shape:` after `Tile`")?;
        } else {
            let _ = cursor.eat_word("shape");
            cursor.expect(":", "after `Tile with shape`")?;
        }
    }
    let [height, width] = cursor.pair("tile")?;
    let shape = tile_shape(cursor, start, height, width)?;
    if wrapped {
        cursor.expect(")", "after the shape of the tile")?;
    }
    Ok(shape)
}

/// Reads the number of a buffer.
fn bank(cursor: &mut Cursor<'_>) -> Result<u32> {
    let start = cursor.start();
    let number = cursor.number("the number of a core")?;
    u32::try_from(number).map_err(|_| {
        cursor.error_since(start, format!("the number of a core is {number}: expected one of 32 bits"))
    })
}

/// Reads a number with a point, an exponent, or `inf`.
fn number(cursor: &mut Cursor<'_>) -> Result<PadValue> {
    let start = cursor.start();
    let text = cursor.skip_value();
    if text.is_empty() {
        return Err(cursor.expected("a number, `inf` or `-inf`"));
    }
    text.parse().map(PadValue::new).map_err(|_| {
        let message = format!("expected a number, `inf` or `-inf`, found {}", quote(text));
        cursor.error_since(start, message)
    })
}

impl fmt::Display for Orientation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&Orientation::NAMES, *self))
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&Strategy::NAMES, *self))
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&Scheme::NAMES, *self))
    }
}

impl fmt::Display for BufferType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&BufferType::NAMES, *self))
    }
}

impl fmt::Display for Ttnn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PLAIN_NAMES.iter().find(|n| n.1 == self.dtype) {
            Some((name, _)) => write!(f, "ttnn(dtype={name}")?,
            None => write!(f, "ttnn(dtype={}", self.dtype)?,
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
        write!(f, "{}", self.memory)?;
        if let Some(buffer_type) = self.buffer_type {
            write!(f, ", buffer_type={buffer_type}")?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for Memory {
    /// The keys that say it, each behind a comma.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Memory::Single => Ok(()),
            Memory::Interleaved(Interleaved { banks, alignment, bank_order, .. }) => {
                write!(f, ", memory=INTERLEAVED, banks={banks}, alignment={alignment}")?;
                bank_order.as_ref().map_or(Ok(()), |order| write!(f, ", bank_order={order:?}"))
            }
            Memory::Sharded(Sharded { scheme, grid, shard, orientation, strategy, .. }) => {
                let shard = Tuple(shard);
                write!(f, ", memory={scheme}, grid={grid}, shard={shard}, orientation={orientation}")?;
                let usual = *strategy == scheme.strategy();
                if usual { Ok(()) } else { write!(f, ", strategy={strategy}") }
            }
        }
    }
}
