//! The element types of MLIR.

use std::ops::Range;

use super::lexer::Cursor;
use crate::dtype::{BlockFormat, DType};
use crate::error::Result;

/// Reads an element type by its MLIR name.
pub(super) fn scalar(cursor: &mut Cursor<'_>) -> Result<DType> {
    let (name, span) = cursor.word("an element type")?;
    named(cursor, name, span, [].into_iter())
}

/// The element type of a name; `others` are allowed in its place.
pub(super) fn named(
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
