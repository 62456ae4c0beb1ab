//! The parts that the types of tt-mlir have in common: dialects, memories, elements, grids, cores.

use std::fmt;
use std::ops::Range;

use crate::dtype::{BlockFormat, DType, Format};
use crate::error::{Error, Result};
use crate::family::tenstorrent::buffer::BufferMemory;
use crate::family::tenstorrent::cores::CoreRange;
use crate::family::tenstorrent::memory::{BufferType, MemorySpace};
use crate::family::tenstorrent::tile::{Element, TileShape};
use crate::layout::affine::AffineMap;
use crate::text::affine;
use crate::text::lexer::{Cursor, quote};
use crate::text::scalar::scalar;

/// The dialects whose attributes are layouts or their parts; `ttcore` was `tt` until 2025-06.
const DIALECTS: [&str; 3] = ["ttcore", "ttnn", "tt"];

/// The attributes that are layouts.
const LAYOUTS: [&str; 5] = ["metal_layout", "layout", "ttnn_layout", "ttnn_nd_layout", "mesh_sharding"];

/// Reads `#ttcore.metal_layout` and the like, and gives the name and its place. An alias is refused: only the file that
/// defines it says what it is.
pub(super) fn layout_name<'a>(cursor: &mut Cursor<'a>) -> Result<(&'a str, Range<usize>)> {
    let start = cursor.start();
    cursor.expect("#", "before the name of a layout")?;
    let (dialect, span) = cursor.word("the dialect of a layout")?;
    if !cursor.eat(".") {
        return Err(alias(cursor, start, "#", dialect));
    }
    if !DIALECTS.contains(&dialect) {
        return Err(cursor.unknown("a dialect that has layouts", dialect, span, &DIALECTS));
    }
    let (name, span) = cursor.word("the name of a layout")?;
    let known: Vec<&str> =
        LAYOUTS.into_iter().filter(|n| (dialect == "ttnn") == n.starts_with("ttnn")).collect();
    if known.contains(&name) || (dialect == "ttnn" && name == "memory_config") {
        return Ok((name, span));
    }
    Err(cursor.unknown(&format!("a layout of the dialect `{dialect}`"), name, span, &known))
}

/// An error over a name that a file defines.
fn alias(cursor: &Cursor<'_>, start: usize, sigil: &str, name: &str) -> Error {
    let alias = format!("{sigil}{name}");
    let name = quote(&alias);
    cursor.error_since(
        start,
        format!("{name} is an alias, and only the file that defines it says of what: give it as `@FILE.mlir{sigil}NAME`"),
    )
}

/// Reads `<sigil>ttcore.<name>` or `<sigil>tt.<name>`.
pub(in crate::text) fn dialect(cursor: &mut Cursor<'_>, sigil: &str, name: &str) -> Result<()> {
    let start = cursor.start();
    if cursor.eat(sigil) {
        let word = cursor.peek_word();
        if (cursor.eat_word("ttcore") || cursor.eat_word("tt")) && cursor.eat(".") && cursor.eat_word(name) {
            return Ok(());
        }
        if !word.is_empty() && cursor.eat_word(word) && cursor.peek() != Some('.') {
            return Err(alias(cursor, start, sigil, word));
        }
    }
    cursor.rewind(start);
    Err(cursor.expected(format_args!("`{sigil}ttcore.{name}`")))
}

/// Reads `#<dialect>.<name><value>` or the value alone, of which `names` is the choice. Compilers give such attributes
/// aliases that say what they are, like `#l1` and `#dram`; those are read too.
fn tagged<T: Copy>(cursor: &mut Cursor<'_>, tag: &str, what: &str, names: &[(&str, T)]) -> Result<T> {
    if cursor.peek() != Some('#') {
        return cursor.choose(what, names);
    }
    let start = cursor.start();
    cursor.eat("#");
    let (word, span) = cursor.word(what)?;
    if !cursor.eat(".") {
        let known = names.iter().find(|n| n.0 == word.trim_end_matches('_'));
        return known.map(|n| n.1).ok_or_else(|| alias(cursor, start, "#", word));
    }
    let (name, name_span) = cursor.word(what)?;
    if !DIALECTS.contains(&word) || name != tag {
        let all = span.start..name_span.end;
        let message = format!("expected `{tag}<..>`, found {}", quote(&format!("#{word}.{name}")));
        return Err(cursor.error(all, message));
    }
    cursor.expect("<", format_args!("after `{tag}`"))?;
    let value = cursor.choose(what, names)?;
    cursor.expect(">", format_args!("after {what}"))?;
    Ok(value)
}

/// Reads `#ttcore.memory_space<l1>`, `l1` or the alias `#l1`.
pub(super) fn memory_space(cursor: &mut Cursor<'_>) -> Result<MemorySpace> {
    tagged(cursor, "memory_space", "a memory space", &MemorySpace::NAMES)
}

/// Reads `#ttnn.buffer_type<l1>`, `l1`, `<l1>` or the alias `#l1`.
pub(super) fn buffer_type(cursor: &mut Cursor<'_>) -> Result<BufferType> {
    angled(cursor, |c| tagged(c, "buffer_type", "a buffer type", &BufferType::MLIR_NAMES))
}

/// Reads a value between `<` and `>`, or without them.
pub(super) fn angled<'a, T>(
    cursor: &mut Cursor<'a>,
    mut read: impl FnMut(&mut Cursor<'a>) -> Result<T>,
) -> Result<T> {
    let angled = cursor.eat("<");
    let value = read(cursor)?;
    if angled {
        cursor.expect(">", "after the value that begins with `<`")?;
    }
    Ok(value)
}

/// Reads either kind of memory, behind a comma of a memref.
pub(super) fn memory(cursor: &mut Cursor<'_>) -> Result<BufferMemory> {
    let start = cursor.start();
    let is_ttnn = cursor.eat("#") && cursor.eat_word("ttnn");
    cursor.rewind(start);
    if is_ttnn {
        buffer_type(cursor).map(BufferMemory::Type)
    } else {
        memory_space(cursor).map(BufferMemory::Space)
    }
}

/// Reads an MLIR element type or `!ttcore.tile<32x32, bfp_bf8>`.
pub(in crate::text) fn element(cursor: &mut Cursor<'_>) -> Result<Element> {
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

/// Reads the memref of one shard: its sizes, its element, and where it lies, which `what` names and `place` reads.
pub(super) fn shard<T>(
    cursor: &mut Cursor<'_>,
    what: &str,
    place: fn(&mut Cursor<'_>) -> Result<T>,
) -> Result<(Vec<u64>, Element, T)> {
    if !cursor.eat_word("memref") {
        return Err(cursor.expected("`memref` after the grid"));
    }
    cursor.expect("<", "after `memref`")?;
    let start = cursor.start();
    let sizes = cursor.leading_sizes("memref")?;
    let element = element(cursor)?;
    cursor.mark("memref", start);
    cursor.expect(",", format_args!("and {what} after the element type of the memref"))?;
    let place = place(cursor)?;
    cursor.expect(">", format_args!("after {}", what.replacen("a ", "the ", 1)))?;
    Ok((sizes, element, place))
}

/// The shape and the element of the `tensor<..>` around a layout.
pub(super) type Enclosing = (Vec<u64>, Element);

/// A grid: its sizes, and where its cores lie.
pub(super) struct Grid {
    pub(super) sizes: Vec<u64>,
    /// From the grid to (chip, y, x), where the text says it.
    pub(super) map: Option<AffineMap>,
}

/// Reads `#ttcore.grid<8x8, virt_to_physical_map = (..) -> (..), physical_to_virt_map = (..) -> (..)>`, of which all
/// before `<`, and the names of the maps, may be missing.
pub(super) fn grid(cursor: &mut Cursor<'_>, part: &'static str) -> Result<Grid> {
    if cursor.peek() == Some('#') {
        dialect(cursor, "#", "grid")?;
    }
    cursor.expect("<", "before the grid")?;
    let start = cursor.start();
    let sizes = cursor.sizes("grid")?;
    cursor.mark(part, start);
    let mut map = None;
    while cursor.eat(",") {
        if cursor.eat_word("physical_to_virt_map") {
            // The way back follows from the way there; some texts have the way there twice.
            cursor.expect("=", "after `physical_to_virt_map`")?;
            affine::skip(cursor)?;
            continue;
        }
        if cursor.eat_word("virt_to_physical_map") {
            cursor.expect("=", "after `virt_to_physical_map`")?;
        }
        map = Some(affine::map(cursor)?);
    }
    cursor.expect(">", "or `x` in the grid")?;
    Ok(Grid { sizes, map })
}

/// Reads `#ttnn.core_range_set<[#ttnn.core_range<(0, 0), (7, 7)>]>`, of which all before `<` may be missing.
/// An error names them `part`.
pub(super) fn core_ranges(cursor: &mut Cursor<'_>, part: &str) -> Result<Vec<CoreRange>> {
    let begin = cursor.start();
    ttnn(cursor, "core_range_set")?;
    cursor.expect("<", "before the core ranges")?;
    let ranges = match cursor.peek() {
        Some('[') => cursor.list("the core ranges", core_range)?,
        _ => Vec::new(),
    };
    cursor.expect(">", "after the core ranges")?;
    let between = |[start, end]: [[u64; 2]; 2]| {
        CoreRange::between(start, end).ok_or_else(|| {
            let ([x, y], [ex, ey]) = (start, end);
            let given = format!("({x}, {y}) to ({ex}, {ey})");
            let error = Error::value(part, given, "an end that is not in front of the start");
            cursor.error_since(begin, error.to_string())
        })
    };
    ranges.into_iter().map(between).collect()
}

/// Reads the first and the last core of a rectangle.
fn core_range(cursor: &mut Cursor<'_>) -> Result<[[u64; 2]; 2]> {
    ttnn(cursor, "core_range")?;
    cursor.expect("<", "before a core range")?;
    let start = cursor.pair("the first core")?;
    cursor.expect(",", "after the first core")?;
    let end = cursor.pair("the last core")?;
    cursor.expect(">", "after the last core")?;
    Ok([start, end])
}

/// Reads `#ttnn.<name>`, if a `#` comes next.
pub(super) fn ttnn(cursor: &mut Cursor<'_>, name: &str) -> Result<()> {
    let start = cursor.start();
    if !cursor.eat("#") || (cursor.eat_word("ttnn") && cursor.eat(".") && cursor.eat_word(name)) {
        return Ok(());
    }
    let word = cursor.peek_word();
    if !word.is_empty() && cursor.eat_word(word) && cursor.peek() != Some('.') {
        return Err(alias(cursor, start, "#", word));
    }
    cursor.rewind(start);
    Err(cursor.expected(format_args!("`#ttnn.{name}`")))
}

/// Reads `<"mesh">`, `#ttcore.tensor_mesh<"mesh">` or `"mesh"`.
pub(super) fn mesh_name(cursor: &mut Cursor<'_>) -> Result<String> {
    if cursor.peek() == Some('#') {
        dialect(cursor, "#", "tensor_mesh")?;
    }
    angled(cursor, |c| c.quoted("the name of a mesh").map(str::to_owned))
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
pub(super) fn tile_format(cursor: &mut Cursor<'_>) -> Result<Format> {
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
pub(super) fn tile_format_name(format: Format) -> &'static str {
    match format {
        Format::Plain(DType::I32) => "si32",
        Format::Plain(dtype) => dtype.name(),
        Format::Sen169 => "sen169",
        Format::TtE4M3 => "fp8_e4m3",
        Format::Block(block) => block.mlir_name(),
    }
}

/// The name of a value in a table of names.
pub(in crate::text) fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|n| n.1 == value).map_or("?", |n| n.0)
}

/// The name that tt-mlir has for a buffer type.
pub(super) fn buffer_type_name(of: BufferType) -> &'static str {
    name_of(&BufferType::MLIR_NAMES, of)
}

impl fmt::Display for BufferMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BufferMemory::Space(space) => write!(f, "#ttcore.memory_space<{space}>"),
            BufferMemory::Type(of) => write!(f, "#ttnn.buffer_type<{}>", buffer_type_name(*of)),
        }
    }
}

/// A rectangle of cores as tt-mlir writes it.
pub(super) fn core_range_text(range: &CoreRange) -> String {
    let (CoreRange { x, y, .. }, [ex, ey]) = (range, range.end());
    format!("#ttnn.core_range<({x}, {y}), ({ex}, {ey})>")
}

/// Prints the sizes in front of an element type, `2x3x` of `2x3xf32`.
pub(super) fn write_sizes(f: &mut fmt::Formatter<'_>, sizes: &[u64]) -> fmt::Result {
    sizes.iter().try_for_each(|size| write!(f, "{size}x"))
}

impl fmt::Display for MemorySpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&MemorySpace::NAMES, *self))
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
