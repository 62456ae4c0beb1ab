//! The layout texts of tt-mlir's own tests, at several dates.
//!
//! They belong to that project and lie beside this one: `TILEWRIGHT_TTMLIR_TEXTS=texts.json cargo test --test
//! ttmlir_texts -- --nocapture` reads them, a JSON array of `{"date", "file", "text"}`, and prints counts by date and
//! what is left by reason. Without the variable there is nothing to test, and the test says so.
//!
//! What follows from a `ttnn_layout` is computed here a second time, from the text alone and by other code: the last
//! two dimensions are rounded up to the tile, the map is evaluated at the last index, and the result is divided by the
//! grid. Every text whose memref is that must have a layout with that shard, and every other one must be refused with
//! both shapes.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;
use tilewright::text::parse;
use tilewright::{Descriptor, Error, Placement};

/// The greatest part of the texts of a date, in percent, that may be neither accepted nor a contradiction.
const REST: usize = 5;

/// What the rule says of a text.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// The shard in elements that follows, which is the written one.
    Shard(Vec<u64>),
    /// The memref that is written, and the one that follows.
    Contradiction(String, String),
    /// Nothing: it is no `ttnn_layout`.
    None,
}

#[test]
fn texts_of_all_dates() {
    let Some(path) = std::env::var_os("TILEWRIGHT_TTMLIR_TEXTS") else {
        eprintln!("skipped: TILEWRIGHT_TTMLIR_TEXTS does not name a file of texts");
        return;
    };
    let file = std::fs::read(&path).expect("TILEWRIGHT_TTMLIR_TEXTS names a file");
    let cases: Vec<Value> = serde_json::from_slice(&file).expect("the file is a JSON array");
    let mut dates: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut rest: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for case in &cases {
        let (Some(date), Some(text)) = (case["date"].as_str(), case["text"].as_str()) else {
            panic!("a case without date or text: {case}");
        };
        let counts = dates.entry(date).or_default();
        counts.texts += 1;
        match outcome(text) {
            Outcome::Accepted => counts.accepted += 1,
            Outcome::Refused(reason) => {
                counts.contradictions += 1;
                rest.entry(format!("{date}, contradicts itself: {reason}")).or_default().push(text);
            }
            Outcome::Fragment => counts.fragments += 1,
            Outcome::Left(reason) => {
                counts.left += 1;
                rest.entry(format!("{date}, not accepted: {reason}")).or_default().push(text);
            }
        }
    }
    for (reason, texts) in &rest {
        println!("{reason}\n    {} of them, such as {}", texts.len(), texts[0]);
    }
    println!("date        texts accepted contradictions fragments left");
    for (date, c) in &dates {
        println!(
            "{date} {:>6} {:>8} {:>14} {:>9} {:>4}",
            c.texts, c.accepted, c.contradictions, c.fragments, c.left
        );
    }
    let newest = dates.keys().next_back().copied();
    for (date, c) in &dates {
        let allowed = if Some(*date) == newest { 0 } else { REST * c.texts / 100 };
        assert!(c.left <= allowed, "{date}: {} texts are left", c.left);
    }
}

#[derive(Default)]
struct Counts {
    texts: usize,
    accepted: usize,
    contradictions: usize,
    /// Torn texts, and those with a name that only their file defines.
    fragments: usize,
    left: usize,
}

enum Outcome {
    Accepted,
    Refused(String),
    Fragment,
    Left(String),
}

/// Parses, prints back, lays out, and compares with the rule; panics where the two disagree.
fn outcome(text: &str) -> Outcome {
    if text.ends_with("layout<>") || has_alias(text) {
        assert!(parse(text).is_err(), "{text}");
        return Outcome::Fragment;
    }
    let descriptor = match parse(text) {
        Ok(parsed) => parsed.descriptor,
        Err(error) => return Outcome::Left(error.to_string()),
    };
    let printed = descriptor.to_string();
    let again: Descriptor = printed.parse().unwrap_or_else(|e: Error| panic!("{text}\n{}", e.diagnostic()));
    assert_eq!(again, descriptor, "{text}\n{printed}");
    let Some(tensor) = descriptor.tensor() else { return Outcome::Left("no tensor".into()) };
    let strict = descriptor.layout(&tensor, &Placement::default());
    let lenient = descriptor.layout(&tensor, &Placement { lenient: true, ..Placement::default() });
    match (verdict(text), strict) {
        (Verdict::Contradiction(written, follows), Err(error)) => {
            let message = error.to_string();
            assert!(
                message.contains(&written) && message.contains(&follows),
                "{text}\n{message}\n{written} {follows}"
            );
            Outcome::Refused(if lenient.is_ok() { "accepted if lenient" } else { "not meant either" }.into())
        }
        (Verdict::Contradiction(..), Ok(_)) => panic!("{text}\ncontradicts itself and is accepted"),
        (Verdict::Shard(shard), Ok(layout)) => {
            assert_eq!(layout.geometry().shard_shape, shard, "{text}");
            assert!(lenient.is_ok(), "{text}");
            Outcome::Accepted
        }
        (Verdict::None, Ok(layout)) => {
            // Elements and padding are all the places there are.
            assert!(layout.total_bytes() > 0, "{text}");
            assert!(lenient.is_ok(), "{text}");
            Outcome::Accepted
        }
        (Verdict::None, Err(error @ Error::Derived { .. })) => {
            Outcome::Refused(error.to_string().split(':').next().unwrap_or("").to_owned())
        }
        (Verdict::Shard(_), Err(error)) => panic!("{text}\nfollows from the rule, but {error}"),
        (Verdict::None, Err(error)) => Outcome::Left(error.to_string()),
    }
}

/// Whether a `#` or `!` begins a name without a dialect.
fn has_alias(text: &str) -> bool {
    text.match_indices(['#', '!']).any(|(at, _)| {
        let name: String = text[at + 1..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        !text[at + 1 + name.len()..].starts_with('.') && !["l1", "dram"].contains(&name.as_str())
    })
}

/// What the rule makes of `tensor<SxE, #ttnn.ttnn_layout<MAP, <GRID>, memref<MxE, #ttnn.buffer_type<B>>, <HOW>, ..>>`.
fn verdict(text: &str) -> Verdict {
    let Some((head, body)) = text.split_once("#ttnn.ttnn_layout<") else { return Verdict::None };
    let shape = sizes(head.trim_start_matches("tensor<"));
    let body = body.trim_end_matches(">>");
    let parts = split(body);
    let (names, results) = parts[0].split_once("->").expect("a map");
    let names: Vec<&str> = split(names.trim().trim_matches(['(', ')']));
    let results = results.trim();
    let results = split(&results[1..results.len() - 1]);
    let grid = sizes(&parts[1][parts[1].find('<').expect("a grid") + 1..]);
    let memref = parts.iter().find(|p| p.starts_with("memref<")).expect("a memref");
    let written = sizes(&memref[7..]);
    let tile = if memref.contains("tile<") { 32 } else { 1 };
    let how = parts
        .iter()
        .map(|p| p.trim_matches(['<', '>']))
        .find(|p| p.contains("sharded") || *p == "interleaved");

    let contradiction =
        |a: &dyn ToString, b: &dyn ToString| Verdict::Contradiction(a.to_string(), b.to_string());
    if shape.len() > names.len() || (shape.len() < names.len() && shape.len() > 1) {
        return contradiction(&names.len(), &shape.len());
    }
    let mut last = vec![1; names.len() - shape.len()];
    last.extend(&shape);
    let n = last.len();
    for (k, size) in last.iter_mut().enumerate() {
        // Dimensions that the tensor does not have are not padded: they are one index.
        if k + 2 >= n && k + shape.len() >= n {
            *size = size.next_multiple_of(tile);
        }
        *size -= 1;
    }
    let env: BTreeMap<&str, i64> = names.iter().copied().zip(last.iter().map(|n| *n as i64)).collect();
    let collapsed: Vec<u64> = results.iter().map(|r| evaluate(r, &env) as u64 + 1).collect();
    let in_tiles = |sizes: &[u64]| -> Vec<u64> {
        let n = sizes.len();
        sizes.iter().enumerate().map(|(k, s)| if k + 2 >= n { s.div_ceil(tile) } else { *s }).collect()
    };
    let cores: u64 = grid.iter().product();
    let rank = collapsed.len();
    let mut over = if cores == 1 { vec![1; rank] } else { grid.clone() };
    match how {
        Some("height_sharded") => (over = vec![1; rank], over[rank - 2] = cores).0,
        Some("width_sharded") => (over = vec![1; rank], over[rank - 1] = cores).0,
        _ => {}
    }
    if over.len() != rank {
        return contradiction(&grid.len(), &rank);
    }
    let block = in_tiles(&collapsed.iter().zip(&over).map(|(n, g)| n.div_ceil(*g)).collect::<Vec<_>>());
    let whole = in_tiles(&collapsed);
    let mut row = vec![1; rank];
    row[rank - 1] = whole.iter().product::<u64>().div_ceil(cores);
    let in_l1 = memref.contains("buffer_type<l1");
    let follows = if how == Some("interleaved") && in_l1 && cores > 1 { &row } else { &block };
    let either = how == Some("interleaved") && in_l1 && (written == row || written == block);
    if *follows != written && !either {
        let join = |sizes: &[u64]| sizes.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
        return contradiction(&join(&written), &join(follows));
    }
    // Interleaved in L1, the whole tensor is one shard whose pages are dealt.
    let shard = if how == Some("interleaved") && in_l1 { whole } else { block };
    let n = shard.len();
    Verdict::Shard(shard.iter().enumerate().map(|(k, s)| if k + 2 >= n { s * tile } else { *s }).collect())
}

/// The numbers of `2x3x4xf32` or `<2x3x4>`.
fn sizes(text: &str) -> Vec<u64> {
    let digits = |c: char| c.is_ascii_digit() || c == 'x' || c == ' ';
    let end = text.find(|c| !digits(c)).unwrap_or(text.len());
    text[..end].split('x').filter_map(|n| n.trim().parse().ok()).collect()
}

/// The parts between commas that are in no brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0, 0);
    let bytes = text.as_bytes();
    for (i, b) in bytes.iter().enumerate() {
        match b {
            b'(' | b'[' | b'<' => depth += 1,
            b'>' if bytes[i - 1] == b'-' => {}
            b')' | b']' | b'>' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(text[from..i].trim());
                from = i + 1;
            }
            _ => {}
        }
    }
    parts.push(text[from..].trim());
    parts
}

/// The value of a sum of products of names and numbers, as the maps of these texts are.
fn evaluate(expression: &str, env: &BTreeMap<&str, i64>) -> i64 {
    let factor =
        |f: &str| f.parse().unwrap_or_else(|_| *env.get(f).unwrap_or_else(|| panic!("{expression}: {f}")));
    expression.split('+').map(|term| term.split('*').map(|f| factor(f.trim())).product::<i64>()).sum()
}

#[test]
fn the_rule_is_that_of_the_examples() {
    let text = |shape: &str, map: &str, grid: &str, memref: &str, how: &str| {
        format!(
            "tensor<{shape}xbf16, #ttnn.ttnn_layout<{map}, <{grid}>, memref<{memref}x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<l1>>, <{how}>>>"
        )
    };
    let three = "(d0, d1, d2) -> (d0 * 32 + d1, d2)";
    assert_eq!(verdict(&text("6x15x10", three, "1x1", "6x1", "interleaved")), Verdict::Shard(vec![192, 32]));
    assert_eq!(
        verdict(&text("6x15x10", three, "2x3", "6x1", "height_sharded")),
        Verdict::Contradiction("6x1".into(), "1x1".into())
    );
    let two = "(d0, d1) -> (d0, d1)";
    assert_eq!(verdict(&text("32x384", two, "6x2", "1x1", "width_sharded")), Verdict::Shard(vec![32, 32]));
    assert_eq!(
        verdict(&text("64x96x32", two, "1x1", "1x1", "interleaved")),
        Verdict::Contradiction("2".into(), "3".into())
    );
    let all: HashSet<bool> = ["tensor<2xf32, #a>", "memref<2xf32, #ttcore.view<2>>"].map(has_alias).into();
    assert_eq!(all.len(), 2);
}
