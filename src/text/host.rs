//! Host arrays: `memref<2x3x4xf32, strided<[12, 4, 1], offset: 0>>`.

use std::fmt;

use super::Descriptor;
use super::lexer::Cursor;
use super::scalar::named;
use super::tenstorrent::{attribute, buffer};
use crate::dtype::BlockFormat;
use crate::error::Result;
use crate::family::host::mx::MxArray;
use crate::family::host::strided::Memref;
use crate::family::tenstorrent::buffer::Arrangement;
use crate::family::tenstorrent::tile::Element;

/// Reads what follows the word `memref`.
pub(super) fn memref(cursor: &mut Cursor<'_>) -> Result<Descriptor> {
    cursor.expect("<", "after `memref`")?;
    let start = cursor.start();
    let shape = cursor.leading_sizes("memref")?;
    if cursor.peek() == Some('!') {
        let element = attribute::element(cursor)?;
        for part in ["memref", "grid"] {
            cursor.mark(part, start);
        }
        let strides = if is_strided(cursor) { Some(strided(cursor)?) } else { None };
        return buffer(cursor, shape, element, strides);
    }
    let (name, span) = cursor.word("an element type")?;
    for part in ["shape", "memref", "grid"] {
        cursor.mark(part, start);
    }
    if let Some(format) = MxArray::format(name) {
        cursor.expect(">", "after the element type: arrays of blocks are row-major and have no strides")?;
        return Ok(Descriptor::Mx(MxArray { shape, format }));
    }
    let blocks = BlockFormat::ALL.map(BlockFormat::name).into_iter().filter(|n| MxArray::format(n).is_some());
    let dtype = named(cursor, name, span, blocks)?;
    let before = cursor.start();
    if cursor.eat(",") && cursor.peek() == Some('#') {
        cursor.rewind(before);
        return buffer(cursor, shape, Element::Scalar(dtype), None);
    }
    cursor.rewind(before);
    let mut strides = None;
    if cursor.eat(",") {
        if cursor.peek_word() != "strided" {
            return Err(cursor.expected("`strided` after the element type"));
        }
        cursor.rewind(before);
        let read = strided(cursor)?;
        if cursor.peek() == Some(',') {
            return buffer(cursor, shape, Element::Scalar(dtype), Some(read));
        }
        strides = Some(read);
    }
    cursor.expect(">", "or `,` at the end of the memref")?;
    let (strides, offset) = strides.map_or((None, Some(0)), |s| (Some(s.steps), s.offset));
    let offset = offset
        .ok_or_else(|| cursor.error_in("offset", "expected an offset that is known, found `?`".into()))?;
    Ok(Descriptor::Memref(Memref { shape, dtype, strides, offset }))
}

/// The strides and the offset of a memref; `?` where an offset is not known.
struct Strided {
    steps: Vec<i64>,
    offset: Option<i64>,
}

/// Whether `, strided` comes next.
fn is_strided(cursor: &mut Cursor<'_>) -> bool {
    let before = cursor.start();
    let found = cursor.eat(",") && cursor.peek_word() == "strided";
    cursor.rewind(before);
    found
}

/// Reads `, strided<[12, 4, 1], offset: 0>`.
fn strided(cursor: &mut Cursor<'_>) -> Result<Strided> {
    cursor.expect(",", "before `strided`")?;
    cursor.eat_word("strided");
    cursor.expect("<", "after `strided`")?;
    let start = cursor.start();
    if cursor.peek() != Some('[') {
        return Err(cursor.expected("`[` before the strides"));
    }
    let steps = cursor.integers("the strides")?;
    cursor.mark("strides", start);
    let mut offset = Some(0);
    if cursor.eat(",") {
        if !cursor.eat_word("offset") {
            return Err(cursor.expected("`offset` after the strides"));
        }
        cursor.expect(":", "after `offset`")?;
        let start = cursor.start();
        offset = if cursor.eat("?") { None } else { Some(cursor.integer("an offset")?) };
        cursor.mark("offset", start);
    }
    cursor.expect(">", "or `,` after the strides")?;
    Ok(Strided { steps, offset })
}

/// Reads the rest of a memref that is a buffer of a device.
fn buffer(
    cursor: &mut Cursor<'_>,
    shape: Vec<u64>,
    element: Element,
    strides: Option<Strided>,
) -> Result<Descriptor> {
    let Some(Strided { steps, offset }) = strides else {
        return buffer::buffer(cursor, shape, element, Arrangement::RowMajor).map(Descriptor::Buffer);
    };
    let forward = |n: &i64| u64::try_from(*n);
    let strides: Option<Vec<u64>> = steps.iter().map(|n| forward(n).ok()).collect();
    let strides = strides.ok_or_else(|| {
        let message = "the strides of a buffer in a device's memory are 0 or more".into();
        cursor.error_in("strides", message)
    })?;
    let offset = offset.as_ref().map(forward).transpose();
    let offset = offset.map_err(|_| cursor.error_in("offset", "an offset is 0 or more".into()))?;
    buffer::buffer(cursor, shape, element, Arrangement::Strided { strides, offset }).map(Descriptor::Buffer)
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
