//! Sets of cores, in every spelling: `(8, 8)`, `ttnn.CoreGrid(x=8, y=8)`, `{[0-0 - 7-7]}`, and the JSON in which
//! Python prints the grid of a shard.

use std::fmt;

use super::python::enumerator;
use crate::error::Result;
use crate::family::tenstorrent::cores::{CoreRange, CoreRangeSet};
use crate::text::lexer::Cursor;

/// Reads a set of cores. Two numbers are rows and columns of cores.
pub(super) fn core_range_set(cursor: &mut Cursor<'_>) -> Result<CoreRangeSet> {
    if cursor.peek() == Some('{') {
        return ranges(cursor);
    }
    if cursor.peek_word().is_empty() {
        return rows_and_columns(cursor);
    }
    let names = [("CoreRangeSet", false), ("CoreGrid", true)];
    let grid = enumerator(cursor, "a grid of cores", &names)?;
    if grid {
        return core_grid(cursor);
    }
    cursor.expect("(", "after `CoreRangeSet`")?;
    let set = if cursor.peek() == Some('{') { ranges(cursor) } else { rows_and_columns(cursor) }?;
    cursor.expect(")", "after the cores")?;
    Ok(set)
}

/// Reads `(x=8, y=8)` behind `CoreGrid`.
fn core_grid(cursor: &mut Cursor<'_>) -> Result<CoreRangeSet> {
    let start = cursor.start();
    cursor.expect("(", "after `CoreGrid`")?;
    let (mut x, mut y) = (None, None);
    cursor.arguments(")", |c, key, span| {
        match key {
            "x" => x = Some(c.number("columns of cores")?),
            "y" => y = Some(c.number("rows of cores")?),
            _ => return Err(c.unknown("a key of CoreGrid(...)", key, span, &["x", "y"])),
        }
        Ok(())
    })?;
    Ok(CoreRangeSet::grid(cursor.required(y, "y", start)?, cursor.required(x, "x", start)?))
}

/// Reads `{[0-0 - 7-7], [0-8 - 3-8]}`.
fn ranges(cursor: &mut Cursor<'_>) -> Result<CoreRangeSet> {
    cursor.expect("{", "before the cores")?;
    let mut ranges = Vec::new();
    while !cursor.eat("}") {
        let start = cursor.start();
        cursor.expect("[", "before a rectangle of cores")?;
        let first = core(cursor)?;
        cursor.expect("-", "after the first core of a rectangle")?;
        let last = core(cursor)?;
        cursor.expect("]", "after a rectangle of cores")?;
        ranges.push(between(cursor, start, first, last)?);
        if !cursor.eat(",") {
            cursor.expect("}", "or `,` after a rectangle of cores")?;
            break;
        }
    }
    Ok(CoreRangeSet::new(ranges))
}

/// Reads `(8, 8)`, or a list of rectangles in JSON.
fn rows_and_columns(cursor: &mut Cursor<'_>) -> Result<CoreRangeSet> {
    let start = cursor.start();
    let (mut sizes, mut ranges) = (Vec::new(), Vec::new());
    cursor.list("the grid", |c| {
        if c.peek() == Some('{') {
            ranges.push(json_range(c)?);
        } else {
            sizes.push(c.number("a number")?);
        }
        Ok(())
    })?;
    match (&sizes[..], &ranges[..]) {
        (&[rows, columns], []) => Ok(CoreRangeSet::grid(rows, columns)),
        ([], [_, ..]) => Ok(CoreRangeSet::new(ranges)),
        _ => {
            let message =
                format!("expected two numbers for the grid, or rectangles of cores, found {}", sizes.len());
            Err(cursor.error_since(start, message))
        }
    }
}

/// Reads `{"start":{"x":0,"y":0},"end":{"x":7,"y":7}}`. Version 0.81.1 of ttnn leaves out the last brace.
fn json_range(cursor: &mut Cursor<'_>) -> Result<CoreRange> {
    let start = cursor.start();
    cursor.expect("{", "before a rectangle of cores")?;
    let corner = |c: &mut Cursor<'_>, name: &str| {
        c.expect(&format!("\"{name}\""), "in a rectangle of cores")?;
        c.expect(":", format_args!("after `{name}`"))?;
        core(c)
    };
    let first = corner(cursor, "start")?;
    cursor.expect(",", "after the first core of a rectangle")?;
    let last = corner(cursor, "end")?;
    cursor.eat("}");
    between(cursor, start, first, last)
}

/// Reads a core as (column, row): `7-0`, `(x=7,y=0)`, `{"x":7,"y":0}`.
fn core(cursor: &mut Cursor<'_>) -> Result<[u64; 2]> {
    let [close, x, y] = if cursor.eat("{") {
        ["}", "\"x\":", "\"y\":"]
    } else if cursor.eat("(") {
        [")", "x=", "y="]
    } else {
        let x = cursor.number("the column of a core")?;
        cursor.expect("-", "between column and row of a core")?;
        return Ok([x, cursor.number("the row of a core")?]);
    };
    cursor.expect(x, "before the column of a core")?;
    let column = cursor.number("the column of a core")?;
    cursor.expect(",", "after the column of a core")?;
    cursor.expect(y, "before the row of a core")?;
    let row = cursor.number("the row of a core")?;
    cursor.expect(close, "after a core")?;
    Ok([column, row])
}

fn between(cursor: &Cursor<'_>, start: usize, first: [u64; 2], last: [u64; 2]) -> Result<CoreRange> {
    CoreRange::between(first, last).ok_or_else(|| {
        let message = format!("a rectangle of cores ends at {last:?}, in front of its first core {first:?}");
        cursor.error_since(start, message)
    })
}

impl fmt::Display for CoreRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y] = self.end();
        write!(f, "[{}-{} - {x}-{y}]", self.x, self.y)
    }
}

impl fmt::Display for CoreRangeSet {
    /// `(rows, columns)` for a rectangle that begins at core (0, 0), else the rectangles as Python prints them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(CoreRange { x: 0, y: 0, columns, rows, .. }) = self.rectangle() {
            return write!(f, "({rows}, {columns})");
        }
        let ranges: Vec<String> = self.ranges().iter().map(CoreRange::to_string).collect();
        write!(f, "{{{}}}", ranges.join(", "))
    }
}
