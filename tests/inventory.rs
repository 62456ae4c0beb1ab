//! Lists that SECURITY.md keeps by hand, held against the code: where `unsafe` stands and how often, and why each dependency
//! is there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The rows of the table under a heading of SECURITY.md, as their cells.
fn table(heading: &str) -> Vec<Vec<String>> {
    let document = read(&root().join("SECURITY.md"));
    let section = document.split("\n## ").find(|section| section.lines().next() == Some(heading));
    let rows =
        section.unwrap_or_else(|| panic!("a section {heading}")).lines().filter(|l| l.starts_with("| `"));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|c| c.trim().to_owned()).collect()).collect()
}

/// The text between the backquotes of a cell.
fn name(cell: &str) -> String {
    cell.trim_matches('`').to_owned()
}

/// The folders of all packages.
fn packages() -> Vec<PathBuf> {
    let folders = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = folders.filter(|path| path.join("Cargo.toml").is_file()).collect();
    found.push(root().to_owned());
    found.sort();
    found
}

/// The Rust files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|e| e == "rs") {
            found.push(entry);
        }
    }
}

/// How often `unsafe` stands before a block, and how often before anything else (functions, implementations, attributes,
/// types); in macros too.
fn count(tokens: TokenStream, found: &mut [usize; 2]) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => count(group.stream(), found),
            TokenTree::Ident(word) if word == "unsafe" => {
                let brace = |t: &TokenTree| matches!(t, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
                found[usize::from(!tokens.peek().is_some_and(brace))] += 1;
            }
            _ => {}
        }
    }
}

#[test]
fn every_unsafe_block_is_in_the_inventory() {
    let mut files = Vec::new();
    for package in packages() {
        for folder in ["src", "tests", "benches", "examples", "bodies", "fuzz_targets"] {
            sources(&package.join(folder), &mut files);
        }
        if package.ends_with("benches") {
            sources(&package, &mut files);
        }
    }
    files.sort();
    files.dedup();
    let mut code: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    for file in files {
        let tokens: TokenStream = read(&file).parse().unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let mut found = [0, 0];
        count(tokens, &mut found);
        if found != [0, 0] {
            code.insert(file.strip_prefix(root()).unwrap().display().to_string(), found);
        }
    }
    let number = |cell: &String| cell.parse().unwrap_or_else(|e| panic!("{cell}: {e}"));
    let listed = table("Unsafe code");
    let listed: BTreeMap<String, [usize; 2]> =
        listed.iter().map(|row| (name(&row[0]), [number(&row[1]), number(&row[2])])).collect();
    let wrong: Vec<String> = code
        .keys()
        .chain(listed.keys().filter(|file| !code.contains_key(*file)))
        .filter(|file| code.get(*file) != listed.get(*file))
        .map(|file| format!("{file}: the code has {:?}, SECURITY.md {:?}", code.get(file), listed.get(file)))
        .collect();
    assert!(code.len() > 20, "{code:?}");
    assert!(wrong.is_empty(), "blocks and other uses of `unsafe`:\n{}\n", wrong.join("\n"));
}

#[test]
fn every_dependency_is_in_the_list() {
    let mut used: BTreeMap<String, String> = BTreeMap::new();
    for package in packages().iter().filter(|package| !package.ends_with("target")) {
        let manifest = read(&package.join("Cargo.toml"));
        let mut inside = false;
        for line in manifest.lines() {
            if let Some(heading) = line.strip_prefix('[') {
                inside = heading.trim_end_matches(']').ends_with("dependencies");
                continue;
            }
            let Some((key, value)) = line.split_once('=').filter(|_| inside && !line.starts_with('#')) else {
                continue;
            };
            let key = key.trim().trim_end_matches(".workspace").to_owned();
            // The packages of this repository.
            if !value.contains("path =") && !key.starts_with("tilewright") && key != "kernels" {
                used.insert(key, package.display().to_string());
            }
        }
    }
    let listed = table("Dependencies");
    let listed: Vec<String> = listed.iter().map(|row| name(&row[0])).collect();
    let missing: Vec<_> = used.iter().filter(|(key, _)| !listed.contains(key)).collect();
    let gone: Vec<_> = listed.iter().filter(|key| !used.contains_key(*key)).collect();
    assert!(used.len() > 20, "{used:?}");
    assert!(missing.is_empty() && gone.is_empty(), "not listed: {missing:?}; listed, and not used: {gone:?}");
}
