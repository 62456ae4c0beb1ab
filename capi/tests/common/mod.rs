//! Running compilers and the programs they make.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// This crate's directory.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where programs go.
pub(crate) fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// What a program printed, if it is installed.
pub(crate) fn output(command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) => Some(output),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        Err(e) => panic!("{command:?}: {e}"),
    }
}

/// What a program printed; panics unless it is installed and succeeded.
pub(crate) fn run(command: &mut Command) -> String {
    let shown = format!("{command:?}");
    let output = output(command).unwrap_or_else(|| panic!("{shown}: not installed"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{shown}: {}\n{out}{err}", output.status);
    out.into_owned()
}

/// Whether a tool is installed; says so where it is not.
pub(crate) fn installed(tool: &str, argument: &str) -> bool {
    let found = output(Command::new(tool).arg(argument)).is_some_and(|o| o.status.success());
    if !found {
        // Past the harness, which keeps what a test that passes prints to itself.
        let skipped = format!("skipped: {tool} is not installed\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), skipped.as_bytes());
    }
    found
}
