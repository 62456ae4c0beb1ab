//! `metal_layout`: the affine form, the constructor form and the form of today.

use std::fmt;

use crate::dtype::{BlockFormat, DType, Format};
use crate::error::{Error, Result};
use crate::family::Descriptor;
use crate::family::tenstorrent::metal::{
    Fill, MemoryLayout, MemorySpace, MetalConstructor, MetalCurrent, MetalLayout,
};
use crate::family::tenstorrent::tile::{Element, TileShape};
use crate::family::{Tensor, join};
use crate::text::affine;
use crate::text::host::scalar;
use crate::text::lexer::Cursor;
use crate::text::loops::tuple::Tuple;

/// Reads `tensor<shape x element, layout>` behind the word `tensor`.
pub(in crate::text) fn tensor(cursor: &mut Cursor<'_>) -> Result<Descriptor> {
    cursor.expect("<", "after `tensor`")?;
    let start = cursor.start();
    let shape = cursor.leading_sizes("tensor")?;
    let element = element(cursor)?;
    for part in ["tensor", "grid", "shard"] {
        cursor.mark(part, start);
    }
    cursor.expect(",", "and a layout after the element type of the tensor")?;
    let layout = layout(cursor, Some((shape, element)))?;
    cursor.expect(">", "at the end of the tensor")?;
    Ok(layout)
}

/// Reads `#ttcore.metal_layout<...>`, with the shape and element of the tensor around it, if any.
pub(in crate::text) fn layout(
    cursor: &mut Cursor<'_>,
    tensor: Option<(Vec<u64>, Element)>,
) -> Result<Descriptor> {
    let start = cursor.start();
    dialect(cursor, "#", "metal_layout")?;
    cursor.expect("<", "after `metal_layout`")?;
    if cursor.peek() == Some('(') {
        let tensor = match tensor {
            None => None,
            Some((shape, Element::Scalar(dtype))) => Some(Tensor { shape, dtype }),
            Some((_, Element::Tile { .. })) => {
                return Err(cursor.expected("`logical_shape`, since the tensor has tiles"));
            }
        };
        return affine_form(cursor, tensor).map(Descriptor::Metal);
    }
    if cursor.peek_word().is_empty() {
        return Err(cursor.expected("an affine map or `logical_shape`"));
    }
    let Some((shape, element)) = tensor else {
        let message = "expected a tensor<grid x shard x element, ...> around a layout with `logical_shape`";
        return Err(cursor.error_since(start, message.into()));
    };
    current_form(cursor, shape, element).map(Descriptor::MetalCurrent)
}

/// Reads `<sigil>ttcore.<name>` or `<sigil>tt.<name>`.
pub(in crate::text) fn dialect(cursor: &mut Cursor<'_>, sigil: &str, name: &str) -> Result<()> {
    if !(cursor.eat(sigil)
        && (cursor.eat_word("ttcore") || cursor.eat_word("tt"))
        && cursor.eat(".")
        && cursor.eat_word(name))
    {
        return Err(cursor.expected(&format!("`{sigil}ttcore.{name}`")));
    }
    Ok(())
}

fn affine_form(cursor: &mut Cursor<'_>, tensor: Option<Tensor>) -> Result<MetalLayout> {
    let map = affine::map(cursor)?;
    cursor.expect(",", "after the map")?;
    let fill = cursor.choose("a fill", &Fill::NAMES)?;
    cursor.expect(",", "after the fill")?;
    cursor.expect("<", "before the grid")?;
    let start = cursor.start();
    let grid = cursor.sizes("grid")?;
    cursor.mark("grid", start);
    cursor.expect(">", "or `x` in the grid")?;
    cursor.expect(",", "and a memref after the grid")?;
    if !cursor.eat_word("memref") {
        return Err(cursor.expected("`memref` after the grid"));
    }
    cursor.expect("<", "after `memref`")?;
    let start = cursor.start();
    let shard = cursor.leading_sizes("memref")?;
    let element = element(cursor)?;
    cursor.mark("memref", start);
    cursor.expect(",", "and a memory space after the element type of the memref")?;
    let memory = memory_space(cursor)?;
    cursor.expect(">", "after the memory space")?;
    cursor.expect(">", "at the end of the layout")?;
    Ok(MetalLayout { tensor, map, fill, grid, shard, element, memory })
}

/// Reads `#ttcore.memory_space<l1>` or `l1`.
fn memory_space(cursor: &mut Cursor<'_>) -> Result<MemorySpace> {
    if cursor.peek() != Some('#') {
        return cursor.choose("a memory space", &MemorySpace::NAMES);
    }
    dialect(cursor, "#", "memory_space")?;
    cursor.expect("<", "after `memory_space`")?;
    let memory = cursor.choose("a memory space", &MemorySpace::NAMES)?;
    cursor.expect(">", "after the memory space")?;
    Ok(memory)
}

/// Reads an MLIR element type or `!ttcore.tile<32x32, bfp_bf8>`.
fn element(cursor: &mut Cursor<'_>) -> Result<Element> {
    if cursor.peek() != Some('!') {
        return scalar(cursor).map(Element::Scalar);
    }
    dialect(cursor, "!", "tile")?;
    cursor.expect("<", "after `tile`")?;
    let start = cursor.start();
    let height = cursor.number("the rows of a tile")?;
    cursor.expect("x", "after the rows of a tile")?;
    let width = cursor.number("the columns of a tile")?;
    let shape = tile_shape(cursor, start, height, width)?;
    cursor.expect(",", "and an element format after the tile's shape")?;
    let format = tile_format(cursor)?;
    cursor.expect(">", "at the end of the tile")?;
    Ok(Element::Tile { shape, format })
}

/// The tile shape of two numbers that were read since `start`.
pub(in crate::text) fn tile_shape(
    cursor: &Cursor<'_>,
    start: usize,
    height: u64,
    width: u64,
) -> Result<TileShape> {
    TileShape::new(height, width).ok_or_else(|| {
        let message = format!(
            "there is no tile of {height}x{width}: expected 32, 16, 8, 4, 2 or 1 rows by 32 or 16 columns"
        );
        cursor.error_since(start, message)
    })
}

/// Reads what a tile holds: `bfp_bf8`, `f32`, `u16`, `si32`.
fn tile_format(cursor: &mut Cursor<'_>) -> Result<Format> {
    let (name, span) = cursor.word("an element format")?;
    if let Some(block) = BlockFormat::from_mlir_name(name) {
        return Ok(Format::Block(block));
    }
    if let Some(dtype) = DType::from_mlir_name(name).or_else(|| DType::from_name(name)) {
        return Ok(Format::Plain(dtype));
    }
    let blocks = BlockFormat::ALL.into_iter().map(BlockFormat::mlir_name);
    let names: Vec<&str> = DType::all().map(DType::name).chain(blocks).collect();
    Err(cursor.unknown("an element format", name, span, &names))
}

/// The name of a format inside a tile.
fn tile_format_name(format: Format) -> &'static str {
    match format {
        Format::Plain(DType::I32) => "si32",
        Format::Plain(dtype) => dtype.name(),
        Format::Sen169 => "sen169",
        Format::TtE4M3 => "fp8_e4m3",
        Format::Block(block) => block.mlir_name(),
    }
}

fn current_form(cursor: &mut Cursor<'_>, shape: Vec<u64>, element: Element) -> Result<MetalCurrent> {
    let start = cursor.start();
    let (mut logical_shape, mut alignments, mut intervals) = (None, None, None);
    let (mut memory, mut memory_layout) = (None, None);
    loop {
        let at = cursor.start();
        let twice = if cursor.peek() == Some('#') {
            memory.replace(memory_space(cursor)?).is_some()
        } else {
            let (word, span) = cursor.word("a part of the layout")?;
            let space = MemorySpace::NAMES.iter().find(|n| n.0 == word);
            let sharding = MemoryLayout::NAMES.iter().find(|n| n.0 == word);
            match (word, space, sharding) {
                (_, Some(space), _) => memory.replace(space.1).is_some(),
                (_, _, Some(sharding)) => memory_layout.replace(sharding.1).is_some(),
                ("logical_shape" | "dim_alignments" | "collapsed_intervals", ..) => {
                    cursor.expect("=", &format!("after `{word}`"))?;
                    let value = cursor.start();
                    let twice = match word {
                        "logical_shape" => logical_shape.replace(optional_sizes(cursor, word)?).is_some(),
                        "dim_alignments" => alignments.replace(optional_sizes(cursor, word)?).is_some(),
                        _ => intervals.replace(dense(cursor)?).is_some(),
                    };
                    cursor.mark(word, value);
                    twice
                }
                _ => {
                    let known =
                        ["logical_shape", "dim_alignments", "collapsed_intervals", "l1", "dram", "sharded"];
                    return Err(cursor.unknown("a part of the layout", word, span, &known));
                }
            }
        };
        if twice {
            return Err(cursor.error_since(at, "this part of the layout is given twice".into()));
        }
        if !cursor.eat(",") {
            cursor.expect(">", "or `,` in the layout")?;
            break;
        }
    }
    if !shape.len().is_multiple_of(2) {
        let given = format!("{} dimensions", shape.len());
        return Err(cursor.locate(Error::value(
            "tensor",
            given,
            "an even number, the grid and then the shard",
        )));
    }
    let mut grid = shape;
    let shard = grid.split_off(grid.len() / 2);
    Ok(MetalCurrent {
        grid,
        shard,
        element,
        logical_shape: cursor.required(logical_shape, "logical_shape", start)?,
        dim_alignments: cursor.required(alignments, "dim_alignments", start)?,
        collapsed_intervals: cursor.required(intervals, "collapsed_intervals", start)?,
        memory: memory.ok_or_else(|| cursor.error_since(start, "the memory space is missing".into()))?,
        memory_layout: memory_layout
            .ok_or_else(|| cursor.error_since(start, "`sharded` or `interleaved` is missing".into()))?,
    })
}

/// Reads `33x128`, or nothing for a tensor of rank 0.
fn optional_sizes(cursor: &mut Cursor<'_>, what: &str) -> Result<Vec<u64>> {
    if cursor.peek() == Some(',') { Ok(Vec::new()) } else { cursor.sizes(what) }
}

/// Reads `dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>`.
fn dense(cursor: &mut Cursor<'_>) -> Result<Vec<(i64, i64)>> {
    if !cursor.eat_word("dense") {
        return Err(cursor.expected("`dense` before the intervals"));
    }
    cursor.expect("<", "after `dense`")?;
    let mut intervals = Vec::new();
    if cursor.peek() != Some('>') {
        intervals = cursor.list("the intervals", |c| {
            if c.at_digit() || c.peek() == Some('-') {
                return Err(c.expected("`[`, since collapsed_intervals must be a 2D array"));
            }
            interval(c)
        })?;
    }
    cursor.expect(">", "after the intervals")?;
    cursor.expect(":", "and a tensor type after the intervals")?;
    let start = cursor.start();
    if !cursor.eat_word("tensor") {
        return Err(cursor.expected("`tensor` after the intervals"));
    }
    cursor.expect("<", "after `tensor`")?;
    let shape = cursor.leading_sizes("tensor of intervals")?;
    scalar(cursor)?;
    cursor.expect(">", "after the tensor's element type")?;
    if shape != [intervals.len() as u64, 2] {
        let message = format!("the type says {}, but there are {}x2 numbers", join(&shape), intervals.len());
        return Err(cursor.error_since(start, message));
    }
    Ok(intervals)
}

/// Reads `metal(...)` behind the word `metal`.
pub(in crate::text) fn constructor(cursor: &mut Cursor<'_>) -> Result<MetalConstructor> {
    const KEYS: [&str; 7] = ["shape", "collapse", "grid", "tile", "dtype", "oob", "memory"];
    cursor.expect("(", "after `metal`")?;
    let start = cursor.start();
    let (mut shape, mut collapse, mut grid, mut tile) = (None, None, None, None);
    let (mut format, mut fill, mut memory) = (None, None, None);
    cursor.arguments(")", |c, key, span| {
        match key {
            "shape" => shape = Some(c.numbers(key)?),
            "collapse" => collapse = Some(c.list(key, interval)?),
            "grid" => grid = Some(c.numbers(key)?),
            "tile" => {
                let start = c.start();
                let [height, width] = c.pair(key)?;
                tile = Some(tile_shape(c, start, height, width)?);
            }
            "dtype" => format = Some(tile_format(c)?),
            "oob" => fill = Some(c.choose("a fill", &Fill::NAMES)?),
            "memory" => memory = Some(c.choose("a memory space", &MemorySpace::NAMES)?),
            _ => return Err(c.unknown("a key of metal(...)", key, span, &KEYS)),
        }
        Ok(())
    })?;
    let format = cursor.required(format, "dtype", start)?;
    let element = match (tile, format) {
        (Some(shape), format) => Element::Tile { shape, format },
        (None, Format::Plain(dtype)) => Element::Scalar(dtype),
        (None, format) => {
            let name = tile_format_name(format);
            let message =
                format!("`{name}` shares exponents inside a tile: expected `tile=(32, 32)` with it");
            return Err(cursor.error_in("dtype", message));
        }
    };
    Ok(MetalConstructor {
        shape: cursor.required(shape, "shape", start)?,
        collapse: collapse.unwrap_or_else(|| vec![(0, -1)]),
        grid: cursor.required(grid, "grid", start)?,
        element,
        fill: fill.unwrap_or(Fill::Undef),
        memory: memory.unwrap_or(MemorySpace::L1),
    })
}

fn interval(cursor: &mut Cursor<'_>) -> Result<(i64, i64)> {
    let start = cursor.start();
    let pair = cursor.integers("an interval")?;
    match pair[..] {
        [start, end] => Ok((start, end)),
        _ => Err(cursor.error_since(
            start,
            format!("an interval is a pair of a start and an end, found {} numbers", pair.len()),
        )),
    }
}

/// The name of a value in a table of names.
pub(in crate::text) fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|n| n.1 == value).map_or("?", |n| n.0)
}

impl fmt::Display for MemorySpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&MemorySpace::NAMES, *self))
    }
}

impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&Fill::NAMES, *self))
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Scalar(dtype) => f.write_str(dtype.mlir_name()),
            Element::Tile { shape, format } => {
                write!(f, "!ttcore.tile<{}x{}, {}>", shape.height(), shape.width(), tile_format_name(*format))
            }
        }
    }
}

impl fmt::Display for MetalLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tensor) = &self.tensor {
            f.write_str("tensor<")?;
            for size in &tensor.shape {
                write!(f, "{size}x")?;
            }
            write!(f, "{}, ", tensor.dtype.mlir_name())?;
        }
        write!(f, "#ttcore.metal_layout<{}, {}, <{}>, memref<", self.map, self.fill, join(&self.grid))?;
        for size in &self.shard {
            write!(f, "{size}x")?;
        }
        write!(f, "{}, #ttcore.memory_space<{}>>>", self.element, self.memory)?;
        if self.tensor.is_some() { f.write_str(">") } else { Ok(()) }
    }
}

impl fmt::Display for MetalConstructor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shape, grid) = (Tuple(&self.shape), Tuple(&self.grid));
        write!(f, "metal(shape={shape}, collapse={:?}, grid={grid}", self.collapse)?;
        match self.element {
            Element::Scalar(dtype) => write!(f, ", dtype={}", dtype.mlir_name())?,
            Element::Tile { shape, format } => {
                let (height, width, format) = (shape.height(), shape.width(), tile_format_name(format));
                write!(f, ", tile=({height}, {width}), dtype={format}")?;
            }
        }
        write!(f, ", oob={}, memory={})", self.fill, self.memory)
    }
}

impl fmt::Display for MetalCurrent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for size in self.grid.iter().chain(&self.shard) {
            write!(f, "{size}x")?;
        }
        write!(f, "{}, #ttcore.metal_layout<logical_shape = {}", self.element, join(&self.logical_shape))?;
        write!(f, ", dim_alignments = {}, collapsed_intervals = dense<[", join(&self.dim_alignments))?;
        for (i, (start, end)) in self.collapsed_intervals.iter().enumerate() {
            write!(f, "{}[{start}, {end}]", if i == 0 { "" } else { ", " })?;
        }
        let layout = name_of(&MemoryLayout::NAMES, self.memory_layout);
        write!(f, "]> : tensor<{}x2xi64>, {}, {layout}>>", self.collapsed_intervals.len(), self.memory)
    }
}
