//! Host arrays: `memref<2x3x4xf32, strided<[12, 4, 1], offset: 0>>`, and the element types of MLIR.

use std::fmt;
use std::ops::Range;

use super::Descriptor;
use super::lexer::Cursor;
use crate::dtype::{BlockFormat, DType};
use crate::error::Result;
use crate::family::host::mx::MxArray;
use crate::family::host::strided::Memref;

/// Reads what follows the word `memref`.
pub(super) fn memref(cursor: &mut Cursor<'_>) -> Result<Descriptor> {
    cursor.expect("<", "after `memref`")?;
    let start = cursor.start();
    let shape = cursor.leading_sizes("memref")?;
    let (name, span) = cursor.word("an element type")?;
    cursor.mark("shape", start);
    if let Some(format) = MxArray::format(name) {
        cursor.expect(">", "after the element type: arrays of blocks are row-major and have no strides")?;
        return Ok(Descriptor::Mx(MxArray { shape, format }));
    }
    let blocks = BlockFormat::ALL.map(BlockFormat::name).into_iter().filter(|n| MxArray::format(n).is_some());
    let dtype = named(cursor, name, span, blocks)?;
    let (mut strides, mut offset) = (None, 0);
    if cursor.eat(",") {
        if !cursor.eat_word("strided") {
            return Err(cursor.expected("`strided` after the element type"));
        }
        cursor.expect("<", "after `strided`")?;
        let start = cursor.start();
        if cursor.peek() != Some('[') {
            return Err(cursor.expected("`[` before the strides"));
        }
        strides = Some(cursor.integers("the strides")?);
        cursor.mark("strides", start);
        if cursor.eat(",") {
            if !cursor.eat_word("offset") {
                return Err(cursor.expected("`offset` after the strides"));
            }
            cursor.expect(":", "after `offset`")?;
            let start = cursor.start();
            offset = cursor.integer("an offset that is known")?;
            cursor.mark("offset", start);
        }
        cursor.expect(">", "or `,` after the strides")?;
    }
    cursor.expect(">", "or `,` at the end of the memref")?;
    Ok(Descriptor::Memref(Memref { shape, dtype, strides, offset }))
}

/// Reads an element type by its MLIR name.
pub(super) fn scalar(cursor: &mut Cursor<'_>) -> Result<DType> {
    let (name, span) = cursor.word("an element type")?;
    named(cursor, name, span, [].into_iter())
}

/// The element type of a name; `others` are allowed in its place.
fn named(
    cursor: &Cursor<'_>,
    name: &str,
    span: Range<usize>,
    others: impl Iterator<Item = &'static str>,
) -> Result<DType> {
    if let Some(dtype) = DType::from_mlir_name(name) {
        return Ok(dtype);
    }
    if BlockFormat::from_mlir_name(name).is_some() {
        let message =
            format!("`{name}` shares exponents inside a tile: expected `!ttcore.tile<32x32, {name}>`");
        return Err(cursor.error(span, message));
    }
    let names: Vec<&str> = DType::all().map(DType::mlir_name).chain(others).collect();
    Err(cursor.unknown("an element type", name, span, &names))
}

impl fmt::Display for MxArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("memref<")?;
        for size in &self.shape {
            write!(f, "{size}x")?;
        }
        write!(f, "{}>", self.format)
    }
}

impl fmt::Display for Memref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("memref<")?;
        for size in &self.shape {
            write!(f, "{size}x")?;
        }
        f.write_str(self.dtype.mlir_name())?;
        if let Some(strides) = &self.strides {
            write!(f, ", strided<{strides:?}, offset: {}>", self.offset)?;
        }
        f.write_str(">")
    }
}
