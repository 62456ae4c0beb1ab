//! `draw`, and the pictures of `explain` and `scan`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const TILES: [&str; 6] = ["--shape", "40,50", "--dtype", "f32", "--to", "ttnn(dtype=bfloat8_b, layout=TILE)"];

/// Runs the program in a folder.
fn run(dir: &Path, command: &[&str], options: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_tilewright"));
    program.args(command).args(options).current_dir(dir).output().expect("the program runs")
}

fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn draw_writes_what_its_name_says() {
    let dir = tempfile::tempdir().unwrap();
    succeeds(&run(dir.path(), &["draw", "--out", "a.html"], &TILES));
    succeeds(&run(dir.path(), &["draw", "-o", "a.svg"], &TILES));
    let page = fs::read_to_string(dir.path().join("a.html")).unwrap();
    assert!(
        page.starts_with("<!doctype html>") && page.contains("pack bfloat8_b"),
        "the plan is on the page"
    );
    assert!(fs::read_to_string(dir.path().join("a.svg")).unwrap().starts_with("<svg"));
    let wrong = run(dir.path(), &["draw", "--out", "a.png"], &TILES);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains(".html or .svg"));
    assert!(!dir.path().join("a.png").exists());
}

#[test]
fn two_layouts_are_drawn_with_what_moves() {
    let dir = tempfile::tempdir().unwrap();
    let from = ["--from", "memref<40x50xf32, strided<[1, 40]>>", "--out", "two.html"];
    succeeds(&run(dir.path(), &["draw"], &[&TILES[..], &from].concat()));
    let page = fs::read_to_string(dir.path().join("two.html")).unwrap();
    // One buffer on both sides, so that nothing changes it.
    assert!(page.contains("\"across\":0,"), "what moves is on the page");
    assert_eq!(page.matches("\"bufferBytes\"").count(), 2);
}

#[test]
fn explain_adds_a_picture_without_colours_where_there_is_no_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let text = succeeds(&run(dir.path(), &["explain", "--picture"], &TILES));
    assert!(text.contains("\nlogical\n") && text.contains("\nmemory: lines of 64 bytes"), "{text}");
    assert!(!text.contains('\x1b') && text.contains("AAAA") && text.contains("===="), "{text}");
    let without = succeeds(&run(dir.path(), &["explain"], &TILES));
    // All of it but the time, which is measured each time.
    let lines = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with("time ")).map(str::to_owned).collect()
    };
    assert!(lines(&text).starts_with(&lines(&without)));
}

#[test]
fn scan_draws_the_most_padding_first() {
    let dir = tempfile::tempdir().unwrap();
    let layout = |rows: u64, tiles: u64| {
        let map = "(d0, d1) -> (d0, d1), <1x1>";
        format!(
            "tensor<{rows}x32xf32, #ttnn.ttnn_layout<{map}, memref<{tiles}x1x!ttcore.tile<32x32, f32>, #d>, <interleaved>>>"
        )
    };
    let (full, padded) = (layout(64, 2), layout(33, 2));
    let ir = format!("#d = #ttnn.buffer_type<dram>\nfunc.func @f(%0: {full}, %1: {padded})\n");
    fs::write(dir.path().join("a.mlir"), ir).unwrap();
    succeeds(&run(dir.path(), &["scan", "a.mlir", "--draw", "pictures"], &[]));
    let index = fs::read_to_string(dir.path().join("pictures/index.html")).unwrap();
    let (first, second) = (index.find("tensor&lt;33x32"), index.find("tensor&lt;64x32"));
    assert!(first.is_some() && first < second, "{index}");
    for file in ["0000.html", "0000.svg", "0001.html", "0001.svg"] {
        assert!(index.contains(file) && dir.path().join("pictures").join(file).exists(), "{file}");
    }
}

#[test]
fn a_tensor_file_is_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/tensorbin");
    let files = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    let mut drawn = 0;
    for file in files.filter(|path| path.extension().is_some_and(|e| e == "tensorbin")).take(8) {
        succeeds(&run(dir.path(), &["draw", file.to_str().unwrap(), "--out", "file.svg"], &[]));
        drawn += 1;
    }
    assert!(drawn > 0);
}
