//! Host arrays: `memref<2x3x4xf32, strided<[12, 4, 1], offset: 0>>`, and the element types of MLIR.

use std::fmt;

use super::lexer::Cursor;
use crate::dtype::{BlockFormat, DType};
use crate::error::Result;
use crate::target::strided::Memref;

/// Reads what follows the word `memref`.
pub(super) fn memref(cursor: &mut Cursor<'_>) -> Result<Memref> {
    cursor.expect("<", "after `memref`")?;
    let start = cursor.start();
    let shape = cursor.leading_sizes("memref")?;
    let dtype = scalar(cursor)?;
    cursor.mark("shape", start);
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
    Ok(Memref { shape, dtype, strides, offset })
}

/// Reads an element type by its MLIR name.
pub(super) fn scalar(cursor: &mut Cursor<'_>) -> Result<DType> {
    let (name, span) = cursor.word("an element type")?;
    if let Some(dtype) = DType::from_mlir_name(name) {
        return Ok(dtype);
    }
    if BlockFormat::from_mlir_name(name).is_some() {
        let message =
            format!("`{name}` shares exponents inside a tile: expected `!ttcore.tile<32x32, {name}>`");
        return Err(cursor.error(span, message));
    }
    let names: Vec<&str> = DType::all().map(DType::mlir_name).collect();
    Err(cursor.unknown("an element type", name, span, &names))
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
