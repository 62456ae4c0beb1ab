//! `metal_layout`: the affine form, the constructor form and the form of today.

use std::fmt;

use super::attribute::{
    self, Enclosing, Grid, name_of, tile_format, tile_format_name, tile_shape, write_sizes,
};
use crate::dtype::Format;
use crate::error::{Error, Result};
use crate::family::Descriptor;
use crate::family::tenstorrent::memory::{Fill, MemoryLayout, MemorySpace};
use crate::family::tenstorrent::metal::{MetalConstructor, MetalCurrent, MetalLayout};
use crate::family::tenstorrent::tile::Element;
use crate::family::{Tensor, join};
use crate::layout::affine::AffineMap;
use crate::text::affine;
use crate::text::lexer::Cursor;
use crate::text::loops::tuple::Tuple;
use crate::text::scalar::scalar;

/// Reads what follows `#ttcore.metal_layout`, or `#tt.layout` as it was called until 2024-10, with the shape and
/// element of the tensor around it, if any; the layout begins at `start`.
pub(super) fn layout(
    cursor: &mut Cursor<'_>,
    start: usize,
    name: &str,
    tensor: Option<Enclosing>,
) -> Result<Descriptor> {
    cursor.expect("<", format_args!("after `{name}`"))?;
    if cursor.peek() == Some('(') || cursor.peek_word() == "affine_map" {
        let tensor = match tensor {
            None => None,
            Some((shape, element)) => Some(tensor_of(cursor, &shape, element)?),
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

/// The logical tensor of `tensor<4x4x!tt.tile<32x32, f32>, ..>` of 2025, which counts tiles.
fn tensor_of(cursor: &Cursor<'_>, shape: &[u64], element: Element) -> Result<Tensor> {
    let dtype =
        element.dtype().ok_or_else(|| cursor.error_in("tensor", "tiles of no element type".into()))?;
    let mut shape = shape.to_vec();
    if let (Element::Tile { shape: tile, .. }, [.., rows, cols]) = (element, shape.as_mut_slice()) {
        (*rows, *cols) = (rows.saturating_mul(tile.height()), cols.saturating_mul(tile.width()));
    }
    Ok(Tensor { shape, dtype })
}

fn affine_form(cursor: &mut Cursor<'_>, tensor: Option<Tensor>) -> Result<MetalLayout> {
    let map = affine::map(cursor)?;
    cursor.expect(",", "after the map")?;
    let fill = cursor.choose("a fill", &Fill::NAMES)?;
    cursor.expect(",", "after the fill")?;
    let Grid { sizes: grid, .. } = attribute::grid(cursor, "grid")?;
    cursor.expect(",", "and a memref after the grid")?;
    let (shard, element, memory) = attribute::shard(cursor, "a memory space", attribute::memory_space)?;
    let mut metal = MetalLayout::new(map, grid, shard, element);
    (metal.tensor, metal.fill, metal.memory) = (tensor, fill, memory);
    if cursor.eat(",") {
        metal.memory_layout = cursor.choose("a memory layout", &MemoryLayout::NAMES)?;
    }
    cursor.expect(">", "at the end of the layout")?;
    Ok(metal)
}

/// The parts of the form of today, as they are read.
#[derive(Default)]
struct Parts {
    logical_shape: Option<Vec<u64>>,
    alignments: Option<Vec<u64>>,
    intervals: Option<Vec<(i64, i64)>>,
    memory: Option<MemorySpace>,
    memory_layout: Option<MemoryLayout>,
    fill: Option<Fill>,
    index_map: Option<Option<AffineMap>>,
}

impl Parts {
    const KNOWN: [&str; 12] = [
        "logical_shape",
        "dim_alignments",
        "collapsed_intervals",
        "index_map",
        "l1",
        "dram",
        "sharded",
        "interleaved",
        "undef",
        "zero",
        "system",
        "dst",
    ];

    /// Reads one part; the answer is whether it was there already.
    fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<bool> {
        if cursor.peek() == Some('#') {
            return Ok(self.memory.replace(attribute::memory_space(cursor)?).is_some());
        }
        let (word, span) = cursor.word("a part of the layout")?;
        if let Some(space) = MemorySpace::NAMES.iter().find(|n| n.0 == word) {
            return Ok(self.memory.replace(space.1).is_some());
        }
        if let Some(sharding) = MemoryLayout::NAMES.iter().find(|n| n.0 == word) {
            return Ok(self.memory_layout.replace(sharding.1).is_some());
        }
        if let Some(fill) = Fill::NAMES.iter().find(|n| n.0 == word) {
            return Ok(self.fill.replace(fill.1).is_some());
        }
        if !Self::KNOWN[..4].contains(&word) {
            return Err(cursor.unknown("a part of the layout", word, span, &Self::KNOWN));
        }
        cursor.expect("=", format_args!("after `{word}`"))?;
        let value = cursor.start();
        let twice = match word {
            "logical_shape" => self.logical_shape.replace(optional_sizes(cursor, word)?).is_some(),
            "dim_alignments" => self.alignments.replace(optional_sizes(cursor, word)?).is_some(),
            "index_map" => self.index_map.replace(affine::map_or_rank(cursor)?).is_some(),
            _ => self.intervals.replace(dense(cursor)?).is_some(),
        };
        cursor.mark(word, value);
        Ok(twice)
    }
}

fn current_form(cursor: &mut Cursor<'_>, shape: Vec<u64>, element: Element) -> Result<MetalCurrent> {
    let start = cursor.start();
    let mut parts = Parts::default();
    loop {
        let at = cursor.start();
        if parts.read(cursor)? {
            return Err(
                cursor.error_since(at, "a part of this kind is already given: expected each once".into())
            );
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
    let memory =
        parts.memory.ok_or_else(|| cursor.error_since(start, "the memory space is missing".into()))?;
    Ok(MetalCurrent {
        grid,
        shard,
        element,
        logical_shape: cursor.required(parts.logical_shape, "logical_shape", start)?,
        dim_alignments: cursor.required(parts.alignments, "dim_alignments", start)?,
        collapsed_intervals: cursor.required(parts.intervals, "collapsed_intervals", start)?,
        memory,
        memory_layout: parts.memory_layout.unwrap_or(MemoryLayout::Sharded),
        fill: parts.fill.unwrap_or(Fill::Undef),
        index_map: parts.index_map.flatten(),
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
    let shape = cursor.required(shape, "shape", start)?;
    let mut metal = MetalConstructor::new(shape, cursor.required(grid, "grid", start)?, element);
    metal.collapse = collapse.unwrap_or(metal.collapse);
    metal.fill = fill.unwrap_or(metal.fill);
    metal.memory = memory.unwrap_or(metal.memory);
    Ok(metal)
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

impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&Fill::NAMES, *self))
    }
}

impl fmt::Display for MetalLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tensor) = &self.tensor {
            f.write_str("tensor<")?;
            write_sizes(f, &tensor.shape)?;
            write!(f, "{}, ", tensor.dtype.mlir_name())?;
        }
        write!(f, "#ttcore.metal_layout<{}, {}, <{}>, memref<", self.map, self.fill, join(&self.grid))?;
        write_sizes(f, &self.shard)?;
        write!(f, "{}, #ttcore.memory_space<{}>>", self.element, self.memory)?;
        if self.memory_layout != MemoryLayout::Sharded {
            write!(f, ", {}", name_of(&MemoryLayout::NAMES, self.memory_layout))?;
        }
        f.write_str(if self.tensor.is_some() { ">>" } else { ">" })
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
        write_sizes(f, &self.grid)?;
        write_sizes(f, &self.shard)?;
        write!(f, "{}, #ttcore.metal_layout<logical_shape = {}", self.element, join(&self.logical_shape))?;
        write!(f, ", dim_alignments = {}, collapsed_intervals = dense<", join(&self.dim_alignments))?;
        if !self.collapsed_intervals.is_empty() {
            f.write_str("[")?;
            for (i, (start, end)) in self.collapsed_intervals.iter().enumerate() {
                write!(f, "{}[{start}, {end}]", if i == 0 { "" } else { ", " })?;
            }
            f.write_str("]")?;
        }
        write!(f, "> : tensor<{}x2xi64>", self.collapsed_intervals.len())?;
        if self.fill != Fill::Undef {
            write!(f, ", {}", self.fill)?;
        }
        write!(f, ", {}, {}", self.memory, name_of(&MemoryLayout::NAMES, self.memory_layout))?;
        if let Some(map) = &self.index_map {
            write!(f, ", index_map = {map}")?;
        }
        f.write_str(">>")
    }
}
