//! What is left when the program is stopped, and what it does not wait for.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const TILES: &str = "ttnn(dtype=bfloat16, layout=TILE)";

/// The program in a directory; arguments are separated by `|`.
fn program(directory: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tilewright"));
    command.args(arguments.split('|')).current_dir(directory).env_remove("TILEWRIGHT_ISA");
    command
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What a program ended with; fails where it takes so long that it must be waiting for something.
fn ends(mut child: Child) -> Output {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("the program does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

/// Whether a process has a file of this directory open for its result: one without a name, or with a temporary one.
fn is_writing(child: &Child, directory: &Path) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{}/fd", child.id())) else { return false };
    let targets = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let directory = fs::canonicalize(directory).unwrap();
    targets.into_iter().any(|target| {
        target.starts_with(&directory) && target.file_name().is_some_and(|name| name != "in.bin")
    })
}

/// Fails where the tests are started with SIGINT ignored, as a shell starts what runs in the background: programs inherit that.
#[test]
fn a_signal_leaves_nothing_behind() {
    for signal in ["INT", "TERM", "KILL"] {
        let directory = tempfile::tempdir().unwrap();
        // The check by the scalar reference takes seconds; the output is open before it begins.
        let input = fs::File::create(directory.path().join("in.bin")).unwrap();
        input.set_len(2 * 8192 * 8192).unwrap();
        let arguments =
            format!("convert|in.bin|--shape|8192,8192|--dtype|bf16|--to|{TILES}|--out|out.bin|--check");
        let mut child = program(directory.path(), &arguments).spawn().unwrap();
        while !is_writing(&child, directory.path()) {
            assert_eq!(child.try_wait().unwrap(), None, "it ended before its output could be seen");
            std::thread::sleep(Duration::from_millis(1));
        }
        let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        let status = ends(child).status;
        assert!(status.signal().is_some(), "{signal}: {status}");
        assert_eq!(names(directory.path()), ["in.bin"], "{signal}");
    }
}

#[test]
fn a_limit_on_files_is_an_error_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("in.bin"), vec![0; 2 * 256 * 256]).unwrap();
    let arguments =
        ["convert", "in.bin", "--shape", "256,256", "--dtype", "bf16", "--to", TILES, "--out", "out"];
    let mut shell = Command::new("sh");
    // 16 blocks of 512 bytes.
    shell.args(["-c", "ulimit -f 16; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_tilewright")]).args(arguments);
    let output = shell.current_dir(directory.path()).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{}: {message}", output.status);
    assert!(message.contains("131072 bytes") && message.contains("at most"), "{message}");
    assert_eq!(names(directory.path()), ["in.bin"]);
}

/// A small file system in memory that becomes full, and one that cannot be written to, each in a namespace of its own, where
/// the system lets anyone mount one.
#[test]
fn a_full_disk_is_an_error_and_leaves_what_was_there() {
    for (options, said) in [("size=64k", "No space left"), ("size=64k,ro", "Read-only")] {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        fs::write(place.join("in.bin"), vec![7; 2 * 256 * 256]).unwrap();
        fs::create_dir(place.join("small")).unwrap();
        let script = format!(
            "mount -t tmpfs -o size=64k tmpfs small && echo old >small/out && mount -o remount,{options} small || exit 125
             \"$0\" convert in.bin --shape 256,256 --dtype bf16 --to '{TILES}' --out small/out
             status=$?; cp -a small left; exit $status"
        );
        let mut shell = Command::new("unshare");
        shell.args(["-rm", "sh", "-c", &script, env!("CARGO_BIN_EXE_tilewright")]).current_dir(place);
        let Ok(output) = shell.output() else { return eprintln!("skipped: no unshare") };
        let message = String::from_utf8_lossy(&output.stderr);
        if !place.join("left").exists() {
            return eprintln!("skipped: {message}");
        }
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(said), "{message}");
        assert_eq!(names(&place.join("left")), ["out"]);
        assert_eq!(fs::read_to_string(place.join("left/out")).unwrap(), "old\n");
    }
}

#[test]
fn a_text_is_read_from_regular_files_only() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for name in ["/dev/zero", "pipe", "/dev/stdin", "."] {
        let arguments = format!("explain|--shape|2|--dtype|f32|--to|@{name}");
        let mut command = program(directory.path(), &arguments);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = ends(child.spawn().unwrap());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {message}");
        assert!(message.contains("not a regular file"), "{name}: {message}");
    }
}
