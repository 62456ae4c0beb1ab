//! Affine maps: `(d0, d1) -> (d0 floordiv 8, d1 * 2 + d0 mod 8)`.

use super::lexer::{Cursor, quote};
use crate::error::Result;
use crate::family::MAX_RANK;
use crate::layout::affine::{AffineExpr, AffineMap};

/// How deep parentheses may be nested.
pub const MAX_DEPTH: usize = 128;

const OPERAND: &str = "a dimension, a number or `(`";

/// Reads a map. Dimensions may have any names.
pub(super) fn map(cursor: &mut Cursor<'_>) -> Result<AffineMap> {
    let start = cursor.start();
    let mut names: Vec<&str> = Vec::new();
    cursor.expect("(", "before the dimensions of the map")?;
    while !cursor.eat(")") {
        let (name, span) = cursor.word("a dimension")?;
        if names.contains(&name) {
            return Err(cursor.error(span, format!("dimension {} is named twice", quote(name))));
        }
        if names.len() == MAX_RANK {
            return Err(cursor.error(span, format!("a map has at most {MAX_RANK} dimensions")));
        }
        names.push(name);
        if !cursor.eat(",") {
            cursor.expect(")", "or `,` after a dimension")?;
            break;
        }
    }
    cursor.expect("->", "after the dimensions of the map")?;
    let results_start = cursor.start();
    if cursor.peek() != Some('(') {
        return Err(cursor.expected("`(` before the results of the map"));
    }
    let results = cursor.list("the results of the map", |c| sum(c, &names, 0))?;
    cursor.mark("map results", results_start);
    cursor.mark("map", start);
    let dims = names.len();
    AffineMap::new(dims, results)
        .ok_or_else(|| cursor.error_since(start, format!("a result names a dimension behind d{dims}")))
}

fn sum(cursor: &mut Cursor<'_>, names: &[&str], depth: usize) -> Result<AffineExpr> {
    let start = cursor.start();
    let mut left = product(cursor, names, depth)?;
    loop {
        let negative = match cursor.peek() {
            Some('+') => false,
            Some('-') => true,
            _ => return Ok(left),
        };
        cursor.eat(if negative { "-" } else { "+" });
        let right = product(cursor, names, depth)?;
        let right = if negative { right.times(-1) } else { Some(right) };
        left = right.and_then(|r| left.plus(r)).ok_or_else(|| overflow(cursor, start))?;
    }
}

fn product(cursor: &mut Cursor<'_>, names: &[&str], depth: usize) -> Result<AffineExpr> {
    let start = cursor.start();
    let mut left = operand(cursor, names, depth)?;
    loop {
        let operator = if cursor.eat("*") {
            "*"
        } else {
            match ["floordiv", "ceildiv", "mod"].into_iter().find(|word| cursor.eat_word(word)) {
                Some(word) => word,
                None => return Ok(left),
            }
        };
        let right_start = cursor.start();
        let right = operand(cursor, names, depth)?;
        left = match (operator, right.as_constant(), left.as_constant()) {
            ("*", Some(factor), _) => left.times(factor),
            ("*", None, Some(factor)) => right.times(factor),
            ("*", None, None) => {
                return Err(cursor.error_since(
                    start,
                    "expected a number on one side of `*`, found dimensions on both".into(),
                ));
            }
            (_, Some(divisor), _) if divisor > 0 => match operator {
                "floordiv" => left.floordiv(divisor),
                "ceildiv" => left.ceildiv(divisor),
                _ => left.modulo(divisor),
            },
            _ => {
                let message = format!("expected a number of 1 or more after `{operator}`");
                return Err(cursor.error_since(right_start, message));
            }
        }
        .ok_or_else(|| overflow(cursor, start))?;
    }
}

fn operand(cursor: &mut Cursor<'_>, names: &[&str], depth: usize) -> Result<AffineExpr> {
    let start = cursor.start();
    let mut negative = false;
    while cursor.eat("-") {
        negative = !negative;
    }
    if cursor.at_digit() {
        return Ok(AffineExpr::constant(cursor.literal(negative, OPERAND)?));
    }
    let inner = if cursor.eat("(") {
        if depth == MAX_DEPTH {
            return Err(
                cursor.error_since(start, format!("parentheses are nested more than {MAX_DEPTH} deep"))
            );
        }
        let inner = sum(cursor, names, depth + 1)?;
        cursor.expect(")", "after an expression in parentheses")?;
        inner
    } else {
        let (name, span) = cursor.word(OPERAND)?;
        match names.iter().position(|n| *n == name) {
            Some(d) => AffineExpr::dim(d),
            None => return Err(cursor.unknown("a dimension of the map", name, span, names)),
        }
    };
    if negative { inner.times(-1).ok_or_else(|| overflow(cursor, start)) } else { Ok(inner) }
}

fn overflow(cursor: &Cursor<'_>, start: usize) -> crate::Error {
    cursor.error_since(start, "a constant of this expression does not fit 64 bits".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lowest constant has no positive one, so it cannot print behind a minus.
    #[test]
    fn the_lowest_constant_prints_back() {
        for sum in ["d0 + -9223372036854775808", "d0 - 9223372036854775807", "d0 * -9223372036854775808"] {
            let text = format!("(d0) -> ({sum})");
            let read = |text: &str| map(&mut Cursor::new(text)?);
            assert_eq!(read(&text).unwrap().to_string(), text);
        }
    }
}
