//! What the program says of itself: help, completions, manual pages, and that its examples run.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

fn run(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tilewright")).args(arguments).current_dir(directory).output().unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = run(Path::new("."), arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The names of all commands, as the help lists them.
fn commands() -> Vec<String> {
    let help = printed(&["--help"]);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed.take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).filter(|name| name != "help").collect()
}

/// The line behind `Example:` in the help of a command.
fn example(command: &str) -> String {
    let help = printed(&[command, "--help"]);
    let line = help.lines().skip_while(|line| *line != "Example:").nth(1);
    line.unwrap_or_else(|| panic!("no example: {help}")).trim().to_owned()
}

/// A directory with the files that examples name.
fn files() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let header = r#"{"a.weight":{"dtype":"F32","shape":[32,64],"data_offsets":[0,8192]}}"#;
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 8192]].concat();
    fs::write(path("model.safetensors"), file).unwrap();
    fs::write(path("model.mlir"), "f(memref<2xf32, #ttcore.memory_space<l1>>)\n").unwrap();
    let made = ["convert", "model.safetensors", "--to", "memref<32x64xf32>", "--out", "w.npy"];
    assert!(run(directory.path(), &made).status.success());
    directory
}

#[test]
fn every_example_runs_as_it_is_printed() {
    let directory = files();
    let bin = Path::new(env!("CARGO_BIN_EXE_tilewright")).parent().unwrap().display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    let mut commands = commands();
    // `packed` has to be there for those that look at it; `bench` takes what a bench takes.
    commands.sort_by_key(|name| name != "pack");
    for command in commands.iter().filter(|name| *name != "bench") {
        let line = example(command);
        let mut shell = Command::new("sh");
        let output =
            shell.args(["-c", &line]).env("PATH", &path).current_dir(directory.path()).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {message}");
    }
}

#[test]
fn help_says_the_exit_statuses_and_has_no_colours_in_a_pipe() {
    for command in commands() {
        for arguments in [vec![command.as_str(), "--help"], vec!["help", command.as_str()]] {
            let help = printed(&arguments);
            assert!(help.contains("Exit status: 0") && help.contains("Example:"), "{arguments:?}: {help}");
            assert!(!help.contains('\u{1b}'), "{arguments:?}");
        }
    }
    let wrong = run(Path::new("."), &["convert", "--frobnicate"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(!wrong.stderr.contains(&0x1b));
}

#[test]
fn completions_know_commands_and_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = printed(&["completions", shell]);
        for word in ["convert", "no-clobber", "max-memory"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("tilewright.bash");
    fs::write(&script, printed(&["completions", "bash"])).unwrap();
    if let Ok(status) = Command::new("bash").arg("-n").arg(&script).status() {
        assert!(status.success());
    }
    assert_eq!(run(Path::new("."), &["completions", "tcsh"]).status.code(), Some(2));
}

#[test]
fn every_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    assert!(run(directory.path(), &["man", "pages"]).status.success());
    let page = |name: &str| fs::read_to_string(directory.path().join("pages").join(name)).unwrap();
    assert!(page("tilewright.1").contains("tilewright\\-convert(1)"));
    for command in commands() {
        let page = page(&format!("tilewright-{command}.1"));
        assert!(page.starts_with(".ie") || page.contains(".TH"), "{page}");
        assert!(page.contains("Exit status"), "{command}: {page}");
    }
    fs::write(directory.path().join("file"), "").unwrap();
    assert_eq!(run(directory.path(), &["man", "file"]).status.code(), Some(1));
}

#[test]
fn a_reader_that_has_gone_away_is_told_nothing() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let explain =
        ["explain", "--shape", "9,9", "--dtype", "f32", "--to", "ttnn(dtype=bfloat16, layout=TILE)"];
    let mut program = Command::new(env!("CARGO_BIN_EXE_tilewright"));
    let output = program.args(explain).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
