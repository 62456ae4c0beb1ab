//! Spellings of Python and C++ that several texts share: enumerators, shapes, and nothing at all.

use std::collections::HashSet;
use std::ops::Range;

use crate::error::Result;
use crate::text::lexer::{Cursor, quote};

/// Reads one of the names, with or without what Python and C++ write around it: `DataType.BFLOAT16`,
/// `ttnn.TILE_LAYOUT`, `"ShardOrientation::ROW_MAJOR"`. A word in capitals stands for the name in small letters too.
pub(super) fn enumerator<T: Copy>(cursor: &mut Cursor<'_>, what: &str, names: &[(&str, T)]) -> Result<T> {
    let quote = ["\"", "'"].into_iter().find(|q| cursor.eat(q));
    if cursor.peek_word().is_empty() {
        return cursor.choose(what, names);
    }
    let (mut word, mut span) = cursor.word(what)?;
    while cursor.eat("::") || cursor.eat(".") {
        (word, span) = cursor.word(what)?;
    }
    let capitals = !word.contains(|c: char| c.is_ascii_lowercase());
    let found = names.iter().find(|n| n.0 == word || capitals && n.0.eq_ignore_ascii_case(word));
    let Some(&(_, value)) = found else {
        let all: Vec<&str> = names.iter().map(|n| n.0).collect();
        return Err(cursor.unknown(what, word, span, &all));
    };
    if let Some(quote) = quote {
        cursor.expect(quote, format_args!("after {what}"))?;
    }
    Ok(value)
}

/// Reads `True` or `False`, as Python or C++ write them.
pub(super) fn truth(cursor: &mut Cursor<'_>) -> Result<bool> {
    cursor.choose("a truth value", &[("True", true), ("False", false), ("true", true), ("false", false)])
}

/// Whether `None` or `std::nullopt` comes next; then it is read.
pub(super) fn nothing(cursor: &mut Cursor<'_>) -> bool {
    cursor.eat("std::nullopt") || cursor.eat_word("nullopt") || cursor.eat_word("None")
}

/// Reads a list of sizes: `(2, 4)`, `[2, 4]`, `Shape([2, 4])`, `torch.Size([2, 4])`, `MeshShape(2, 4)`.
pub(in crate::text) fn shape(cursor: &mut Cursor<'_>, what: &str) -> Result<Vec<u64>> {
    if cursor.peek_word().is_empty() {
        return cursor.numbers(what);
    }
    enumerator(cursor, "a shape", &[("Shape", ()), ("Size", ()), ("MeshShape", ()), ("SmallVector", ())])?;
    wrapped(cursor, what, |c| c.number("a number"))
}

/// Reads the list behind a name, in one pair of parentheses or, as in `Shape([2, 4])`, in two.
pub(super) fn wrapped<T>(
    cursor: &mut Cursor<'_>,
    what: &str,
    mut item: impl FnMut(&mut Cursor<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    cursor.expect("(", format_args!("before {what}"))?;
    if matches!(cursor.peek(), Some('[' | '(')) {
        let items = cursor.list(what, item)?;
        cursor.expect(")", format_args!("after {what}"))?;
        return Ok(items);
    }
    let mut items = Vec::new();
    while !cursor.eat(")") {
        items.push(item(cursor)?);
        if !cursor.eat(",") {
            cursor.expect(")", format_args!("or `,` after an entry of {what}"))?;
            break;
        }
    }
    Ok(items)
}

/// Reads `key=value, "key": value` up to and with `close`; each key once. `read` reads the value of a key.
pub(super) fn fields<'a>(
    cursor: &mut Cursor<'a>,
    close: &str,
    mut read: impl FnMut(&mut Cursor<'a>, &'a str, Range<usize>) -> Result<()>,
) -> Result<()> {
    let mut seen = HashSet::new();
    while !cursor.eat(close) {
        let quoted = cursor.eat("\"");
        let (key, span) = cursor.word(format_args!("a key or `{close}`"))?;
        if !seen.insert(key) {
            return Err(cursor.error(span, format!("{} is given twice", quote(key))));
        }
        if quoted {
            cursor.expect("\"", "after a key")?;
        }
        if !cursor.eat(":") {
            cursor.expect("=", format_args!("or `:` after {}", quote(key)))?;
        }
        let start = cursor.start();
        read(cursor, key, span)?;
        cursor.mark(key, start);
        if !cursor.eat(",") {
            cursor.expect(close, format_args!("or `,` after the value of {}", quote(key)))?;
            break;
        }
    }
    Ok(())
}
