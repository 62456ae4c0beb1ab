//! The grammar page: every example of it is read, and no key is missing.

use std::collections::BTreeSet;

use tilewright::Error;
use tilewright::family::tenstorrent::mesh::Mapper;
use tilewright::text::parse;

const PAGE: &str = include_str!("../docs/grammar.md");

/// Reads a layout or a mesh mapper; the keys that were ignored.
fn read(text: &str) -> Result<Vec<String>, Error> {
    if text.contains("Mesh") && !text.starts_with("ttnn") {
        return text.parse::<Mapper>().map(|_| Vec::new());
    }
    parse(text).map(|parsed| parsed.warnings)
}

/// The name of each section, and the keys and examples of its table.
fn sections() -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
    let mut sections = Vec::new();
    for section in PAGE.split("\n## `").skip(1) {
        let name = section.split_once("(..)`").unwrap().0;
        let cells = |line: &'static str| {
            let mut cells = line.split(" | ").map(|cell| cell.trim_matches(['|', '`', ' ']));
            Some((cells.next()?, cells.next()?))
        };
        let rows: Vec<_> = section.lines().filter(|line| line.starts_with("| `")).filter_map(cells).collect();
        assert!(!rows.is_empty(), "{name}");
        sections.push((name, rows));
    }
    sections
}

#[test]
fn every_example_is_read() {
    let mut count = 0;
    for (name, rows) in sections() {
        for (key, example) in rows {
            let warnings = read(example).unwrap_or_else(|e| panic!("{}", e.diagnostic()));
            assert!(warnings.is_empty(), "{example}: {warnings:?}");
            assert!(example.starts_with(&format!("{name}(")), "{example}");
            let without_key = ["placements"];
            assert!(example.contains(&format!("{key}=")) || without_key.contains(&key), "{key}: {example}");
            count += 1;
        }
    }
    assert!(count >= 35, "{count}");
}

#[test]
fn every_key_is_explained() {
    let mut named = 0;
    for (name, rows) in sections() {
        // What takes any key names none of them.
        let Err(error) = read(&format!("{name}(zzzzzzzz=1)")) else { continue };
        let message = error.to_string();
        let Some((_, known)) = message.split_once(": expected ") else { continue };
        let known: BTreeSet<&str> = known.split([',', ' ']).filter(|w| !w.is_empty() && *w != "or").collect();
        let explained: BTreeSet<&str> = rows.iter().map(|row| row.0).collect();
        assert_eq!(explained, known, "{name}: {message}");
        named += 1;
    }
    assert_eq!(named, 6);
}
