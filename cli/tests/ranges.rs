//! `convert` by ranges: what it writes to, pipes, memory, and what it says of its time.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const TILES: &str = "ttnn(dtype=bfloat8_b, layout=TILE)";

/// The program in a directory; arguments are separated by `|`.
fn program(directory: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tilewright"));
    command.args(arguments.split('|')).current_dir(directory).env_remove("TILEWRIGHT_ISA");
    command
}

fn ok(directory: &Path, arguments: &str) -> Output {
    let output = program(directory, arguments).output().unwrap();
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn refused(directory: &Path, arguments: &str, status: i32) -> String {
    let output = program(directory, arguments).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{arguments}: {message}");
    message
}

/// Runs the program with bytes behind its stdin.
fn piped(directory: &Path, arguments: &str, bytes: &[u8]) -> Output {
    let mut command = program(directory, arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    // It may end before it has read everything.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&bytes)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// A directory with `x.bin`, 96x64 f32, and the same as `x.npy`.
fn place() -> (TempDir, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let raw: Vec<u8> = (0..96 * 64).flat_map(|i| (i as f32 / 7.0 - 300.0).to_le_bytes()).collect();
    fs::write(directory.path().join("x.bin"), &raw).unwrap();
    ok(directory.path(), "convert|x.bin|--shape|96,64|--dtype|f32|--to|memref<96x64xf32>|--out|x.npy");
    (directory, raw)
}

#[test]
fn a_suffix_that_is_not_written_is_refused() {
    let (directory, _) = place();
    for name in ["y.safetensors", "y.pt", "y.NPY", "y.npz", "y.bin.gz", "y.gguf"] {
        let message = refused(directory.path(), &format!("convert|x.npy|--to|{TILES}|--out|{name}"), 2);
        for part in [name, ".bin", ".npy", ".tensorbin"] {
            assert!(message.contains(part), "{name}: {message}");
        }
        assert!(!directory.path().join(name).exists());
    }
    ok(directory.path(), &format!("convert|x.npy|--to|{TILES}|--out|no_suffix"));
}

#[test]
fn a_file_that_is_there_is_replaced_with_a_word_or_not() {
    let (directory, _) = place();
    let command = format!("convert|x.npy|--to|{TILES}|--out|y.bin");
    assert!(!String::from_utf8(ok(directory.path(), &command).stdout).unwrap().contains("replaced"));
    assert!(String::from_utf8(ok(directory.path(), &command).stdout).unwrap().contains("is replaced"));
    fs::write(directory.path().join("y.bin"), "precious").unwrap();
    let message = refused(directory.path(), &format!("{command}|--no-clobber"), 2);
    assert!(message.contains("y.bin") && message.contains("exists"), "{message}");
    assert_eq!(fs::read(directory.path().join("y.bin")).unwrap(), b"precious");
}

#[test]
fn pipes_take_and_give_what_files_do() {
    let (directory, raw) = place();
    let path = directory.path();
    let npy = fs::read(path.join("x.npy")).unwrap();
    ok(path, &format!("convert|x.npy|--to|{TILES}|--out|y.bin"));
    let tiles = fs::read(path.join("y.bin")).unwrap();
    for (input, more) in [(&npy, ""), (&raw, "|--shape|96,64|--dtype|f32"), (&npy, "|--check")] {
        let output = piped(path, &format!("convert|-|--to|{TILES}|--out|-{more}"), input);
        let summary = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{more}: {summary}");
        assert_eq!(output.stdout, tiles, "{more}");
        assert!(summary.contains("written to stdout"), "{summary}");
    }
    // Back, transposed, from the middle of a pipeline; --json leaves stdout alone too.
    let back = "|--from|ttnn(dtype=bfloat8_b, layout=TILE)|--shape|96,64|--dtype|f32";
    let output = piped(
        path,
        &format!("convert|-|--to|memref<96x64xbf16, strided<[1, 96]>>|--out|-|--json{back}"),
        &tiles,
    );
    let object: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!((object["out"].as_str(), output.stdout.len()), (Some("-"), 2 * 96 * 64));
    // A tensor of a safetensors file.
    let header = r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[3],"data_offsets":[2,5]}}"#;
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[1, 2, 3, 4, 5]].concat();
    let output = piped(path, "convert|-|--tensor|b|--to|memref<3xui8>|--out|-", &file);
    assert_eq!(output.stdout, [3, 4, 5], "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_pipe_of_another_length_is_an_error_and_leaves_nothing() {
    let (directory, raw) = place();
    let command = format!("convert|-|--shape|96,64|--dtype|f32|--to|{TILES}|--out|z.bin");
    let longer = [raw.as_slice(), &[0]].concat();
    for (bytes, part) in [(&raw[..raw.len() - 1], "24575"), (&longer, "24577"), (&[], "0 bytes")] {
        let output = piped(directory.path(), &command, bytes);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("stdin") && message.contains(part), "{message}");
        assert!(!directory.path().join("z.bin").exists());
    }
    let npy = fs::read(directory.path().join("x.npy")).unwrap();
    let output =
        piped(directory.path(), &format!("convert|-|--to|{TILES}|--out|z.bin"), &npy[..npy.len() - 4]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!directory.path().join("z.bin").exists());
}

#[test]
fn the_summary_says_what_took_how_long() {
    let (directory, _) = place();
    let command = format!("convert|x.npy|--to|{TILES}|--out|y.bin|--check");
    let summary = String::from_utf8(ok(directory.path(), &command).stdout).unwrap();
    let time = summary.lines().find(|line| line.trim_start().starts_with("time")).unwrap();
    for part in ["reading", "converting", "checking", "writing", "GB/s of source"] {
        assert!(time.contains(part), "{part}: {summary}");
    }
    let json = ok(directory.path(), &format!("{command}|--json")).stdout;
    let object: Value = serde_json::from_slice(&json).unwrap();
    let seconds = |key: &str| object[key].as_f64().unwrap_or_else(|| panic!("{key}: {object}"));
    for part in ["reading_seconds", "converting_seconds", "writing_seconds", "checking_seconds"] {
        assert!(seconds(part) > 0.0 && seconds(part) <= seconds("seconds"), "{part}: {object}");
    }
}

#[test]
fn numpy_is_told_of_types_that_it_lacks() {
    let (directory, _) = place();
    let output = ok(directory.path(), "convert|x.npy|--to|memref<96x64xbf16>|--out|y.npy");
    let note = String::from_utf8(output.stderr).unwrap();
    assert!(
        note.contains("numpy has no bf16") && note.contains("u16") && note.contains("--dtype bf16"),
        "{note}"
    );
    ok(directory.path(), "convert|y.npy|--dtype|bf16|--to|memref<96x64xbf16>|--out|z.bin");
    assert!(ok(directory.path(), "convert|x.npy|--to|memref<96x64xf16>|--out|y.npy").stderr.is_empty());
}

/// Converts a sparse file of `rows` x 16384 f32 and back, in a process that may have `limit` KiB of data.
#[cfg(target_os = "linux")]
fn converts_within(rows: u64, limit: u64, more: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let bytes = rows * 16384 * 4;
    assert!(bytes > limit << 10, "the tensor must be larger than what the process may have");
    File::create(path.join("x.bin")).unwrap().set_len(bytes).unwrap();
    let (shape, array) = (format!("{rows},16384"), format!("memref<{rows}x16384xf32>"));
    let limited = |arguments: &[&str]| {
        let mut shell = Command::new("sh");
        let limit = format!("ulimit -d {limit}; exec \"$@\"");
        shell.args(["-c", &limit, "sh", env!("CARGO_BIN_EXE_tilewright"), "convert"]).args(arguments);
        let output = shell.args(["--threads", "2"]).current_dir(path).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), message)
    };
    let there = ["x.bin", "--shape", &shape, "--dtype", "f32", "--to", TILES, "--out", "y.tensorbin"];
    let (done, message) = limited(&[&there[..], more].concat());
    assert!(done, "{message}");
    let (done, message) = limited(&[&["y.tensorbin", "--to", &array, "--out", "z.bin"][..], more].concat());
    assert!(done, "{message}");
    assert_eq!(fs::metadata(path.join("z.bin")).unwrap().len(), bytes);
    // Each device gets an eighth of every row, so that the source is read several times.
    let mesh = "ShardTensorToMesh(mesh_shape=(1, 8), dim=1)";
    let (done, message) = limited(&[&there[..5], &["--mesh", mesh, "--out", "m.bin"]].concat());
    assert!(done, "{message}");
    // The limit is one: with less than its slots the program says so.
    let (done, message) = {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -d 20480; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_tilewright"), "convert"]);
        let output = shell.args(&there[..8]).arg("w.bin").current_dir(path).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(!done && !message.contains("panicked"), "{message}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_tensor_larger_than_memory_converts() {
    converts_within(4096, 192 << 10, &[]);
}

/// `cargo test --release -p tilewright-cli --test ranges -- --ignored`: 2 GiB there and back within 256 MiB, checked.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "takes a minute, and 3 GiB of disk"]
fn two_gigabytes_convert_within_256_mib() {
    converts_within(32768, 256 << 10, &["--check"]);
}
