//! The commands of README.md and of the pages in `docs/` run as they are printed.
//!
//! Blocks of ```` ```sh ```` are run by `sh`, one after another in one folder for each page, where the files of
//! `examples/samples.rs` lie. Of ```` ```text ```` blocks that show commands behind a `$`, what they print is compared too.
//! A block whose first line is a comment that begins with `# By hand` says why it is not run here.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[path = "../../examples/samples.rs"]
#[allow(dead_code)]
mod samples;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// README.md and the pages in `docs/`.
fn pages() -> Vec<PathBuf> {
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = docs.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    pages.sort();
    pages.insert(0, root().join("README.md"));
    pages
}

/// The fenced blocks of a page: line, language and content.
fn blocks(page: &str) -> Vec<(usize, String, String)> {
    let (mut blocks, mut open) = (Vec::new(), None::<(usize, String, String)>);
    for (n, line) in page.lines().enumerate() {
        open = match (open, line.strip_prefix("```")) {
            (None, Some(language)) => Some((n + 1, language.trim().to_owned(), String::new())),
            (Some(block), Some(_)) => {
                blocks.push(block);
                None
            }
            (Some((at, language, text)), None) => Some((at, language, text + line + "\n")),
            (None, None) => None,
        };
    }
    assert!(open.is_none(), "a block that does not end");
    blocks
}

/// Runs a script and gives its exit status and all that it printed.
fn shell(folder: &Path, script: &str) -> (bool, String) {
    let bin = Path::new(env!("CARGO_BIN_EXE_tilewright")).parent().unwrap().display();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-euc", &format!("exec 2>&1\n{script}")])
        .env("PATH", path)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

/// The commands of a transcript, and what each prints.
fn transcript(text: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push((command.to_owned(), String::new())),
            (None, Some((command, _))) if open => *command += &format!("\n{line}"),
            (None, Some((_, printed))) => *printed += &format!("{line}\n"),
            (None, None) => panic!("no command in front of {line}"),
        }
        // A command goes on as long as a quote is open, and behind a backslash.
        let open_at = |command: &str| command.matches('\'').count() % 2 == 1 || command.ends_with('\\');
        open = all.last().is_some_and(|(command, printed)| printed.is_empty() && open_at(command));
    }
    all
}

/// Runs the blocks of a page in a folder; how many commands ran. Those for which `by_hand` is false are left out.
fn run(page: &Path, folder: &Path, by_hand: bool) -> usize {
    let (name, mut ran) = (page.strip_prefix(root()).unwrap().display().to_string(), 0);
    for (line, language, text) in blocks(&fs::read_to_string(page).unwrap()) {
        let left_out = text.starts_with("# By hand") && !by_hand;
        match language.as_str() {
            "sh" if !left_out => {
                let (done, printed) = shell(folder, &text);
                assert!(done, "{name}:{line}: {text}{printed}");
                ran += 1;
            }
            "text" if text.starts_with("$ ") => {
                for (command, expected) in transcript(&text) {
                    let (done, printed) = shell(folder, &command);
                    assert_eq!(printed.trim_end(), expected.trim_end(), "{name}:{line}: {command}");
                    assert_eq!(done, !printed.starts_with("error"), "{name}:{line}: {command}");
                    ran += 1;
                }
            }
            // Others are run by tests of their own: see `every_block_is_run_by_a_test`.
            _ => {}
        }
    }
    ran
}

/// A folder with the files that pages name: the samples, and a model and rules as in docs/packing.md.
fn files() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    samples::write(folder.path()).unwrap();
    fs::create_dir(folder.path().join("model")).unwrap();
    samples::write(&folder.path().join("model")).unwrap();
    let rules = "[[rule]]\nname = \"*\"\nlayout = \"ttnn(dtype=bfloat8_b, layout=TILE)\"\n";
    fs::write(folder.path().join("rules.toml"), rules).unwrap();
    let (done, printed) = shell(folder.path(), "tilewright pack model/ --rules rules.toml -o other");
    assert!(done, "{printed}");
    folder
}

/// The page that needs files of others.
const WALK: &str = "docs/walk.md";

#[test]
fn commands_run_as_they_are_printed() {
    let mut ran = 0;
    for page in pages().iter().filter(|page| !page.ends_with(WALK)) {
        let folder = files();
        ran += run(page, folder.path(), false);
    }
    assert!(ran >= 20, "{ran} commands ran");
}

/// With `TILEWRIGHT_WALK`: a folder with the files that the page names.
#[test]
fn the_walk_is_as_it_is_printed() {
    let Some(files) = std::env::var_os("TILEWRIGHT_WALK") else {
        let skipped = "skipped: TILEWRIGHT_WALK names no folder with the files of docs/walk.md\n";
        let _ = std::io::Write::write_all(&mut std::io::stderr(), skipped.as_bytes());
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for name in ["mnist_sharded.mlir", "model.safetensors"] {
        fs::copy(Path::new(&files).join(name), folder.path().join(name)).unwrap();
    }
    // Loading the files is not tried again.
    let text = fs::read_to_string(root().join(WALK)).unwrap();
    let begin = text.find("## The IR").unwrap();
    let page = root().join("target").join("walk.md");
    fs::write(&page, &text[begin..]).unwrap();
    assert!(run(&page, folder.path(), true) >= 8);
}

/// Every block is in a language of which some test runs what is printed, or is a text that is not run.
#[test]
fn every_block_is_run_by_a_test() {
    for page in pages() {
        for (line, language, text) in blocks(&fs::read_to_string(&page).unwrap()) {
            let known = ["sh", "text", "rust", "python", "c", "cpp", "toml"];
            let at = format!("{}:{line}", page.display());
            assert!(known.contains(&language.as_str()), "{at}: a block of `{language}`");
            let library = fs::read_to_string(root().join("src/lib.rs")).unwrap();
            let file = page.file_name().unwrap().to_str().unwrap();
            assert!(language != "rust" || library.contains(file), "{at}: {file} is not in src/lib.rs");
            // C and C++ are parts of the examples, which `capi/tests/c.rs` compiles and runs.
            if ["c", "cpp"].contains(&language.as_str()) {
                let examples = ["capi/examples/pack_weight.c", "capi/examples/ring.cpp"];
                let examples = examples.map(|example| fs::read_to_string(root().join(example)).unwrap());
                let lines =
                    |text: &str| text.lines().map(|l| l.trim().to_owned()).collect::<Vec<_>>().join("\n");
                let part = lines(&text);
                assert!(
                    examples.iter().any(|e| lines(e).contains(part.trim())),
                    "{at}: no part of an example"
                );
            }
        }
    }
}

/// The table of layouts at the top of README.md: each row is what `tilewright explain` takes.
#[test]
fn every_row_of_the_table_of_layouts_can_be_pasted() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let rows = readme.lines().skip_while(|line| !line.starts_with("| family |")).skip(2);
    let rows: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() >= 12);
    for row in rows {
        let options = row.split('`').nth(1).unwrap_or_else(|| panic!("{row}"));
        let (done, printed) = shell(root(), &format!("tilewright explain {options}"));
        assert!(done, "{options}: {printed}");
    }
}

/// What links lead to is there.
#[test]
fn links_lead_to_files() {
    let others =
        ["ARCHITECTURE.md", "CONTRIBUTING.md", "benches/README.md", "python/README.md", "TESTING.md"];
    let logs = fs::read_dir(root().join("benches/log")).unwrap().map(|log| log.unwrap().path());
    for page in pages().into_iter().chain(others.map(|other| root().join(other))).chain(logs) {
        let text = fs::read_to_string(&page).unwrap();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://") && !target.starts_with('#')) {
            let file = target.split('#').next().unwrap();
            let path = page.parent().unwrap().join(file);
            // Brackets and parentheses of code are no links.
            if file.contains([' ', ',', '`', '<']) || file.is_empty() {
                continue;
            }
            assert!(path.exists(), "{}: {target}", page.display());
        }
    }
}
