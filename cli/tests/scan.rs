//! `scan`, and layouts that an MLIR file names.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs the program in a folder.
fn run(dir: &Path, arguments: &[&str]) -> Output {
    let program = Command::new(env!("CARGO_BIN_EXE_tilewright")).args(arguments).current_dir(dir).output();
    program.expect("the program runs")
}

/// What it printed as JSON.
fn json(output: Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

const IR: &str = "\
#dram = #ttnn.buffer_type<dram>
#layout = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x3x!ttcore.tile<32x32, f32>, #dram>, <interleaved>>
#small = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<4x4x!ttcore.tile<32x32, f32>, #dram>, <interleaved>>
module {
  func.func @f(%0: tensor<64x96xf32, #layout>, %1: tensor<64x96xf32, #small>) -> tensor<64x96xf32, #layout>
  %2 = memref.alloc() : memref<2x2x1x1x!ttcore.tile<32x32, bf16>, #ttcore.shard<2048x2048, 1>, #ttcore.memory_space<l1>>
}
";

#[test]
fn scan_lists_each_layout_with_its_uses_and_faults() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("below")).unwrap();
    fs::write(dir.path().join("below/a.mlir"), IR).unwrap();
    fs::write(dir.path().join("b.mlir"), IR).unwrap();
    fs::write(dir.path().join("not_mlir.txt"), "tensor<2xf32, #unknown>").unwrap();
    let object = json(run(dir.path(), &["scan", ".", "--json"]));
    assert_eq!((&object["files"], &object["uses"], &object["faults"]), (&2.into(), &8.into(), &1.into()));
    let layouts = object["layouts"].as_array().unwrap();
    assert_eq!(layouts.len(), 3);
    assert_eq!(layouts[0]["count"], 4);
    assert_eq!(layouts[0]["at"], "./b.mlir:5:20");
    assert_eq!(layouts[0]["buffer_bytes"], 64 * 96 * 4);
    let fault = layouts[1]["fault"].as_str().unwrap();
    assert!(fault.contains("4x4") && fault.contains("2x3"), "{fault}");
    assert_eq!((&layouts[2]["buffers"], &layouts[2]["dtype"]), (&4.into(), &"bf16".into()));
    let lenient = json(run(dir.path(), &["scan", "b.mlir", "--lenient", "--json"]));
    assert_eq!(lenient["faults"], 0);
    assert_eq!(lenient["layouts"][1]["physical_shape"], serde_json::json!([128, 128]));
    let table = String::from_utf8(run(dir.path(), &["scan", "b.mlir"]).stdout).unwrap();
    assert!(table.starts_with("files 1, distinct layouts 3, uses 4, with a fault 1\n"), "{table}");
}

#[test]
fn a_name_of_an_mlir_file_is_a_layout() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.mlir"), format!("{IR}!t = tensor<64x96xf32, #layout>\n")).unwrap();
    // An attribute says no tensor, a type does.
    let tensor = ["--shape", "64,96", "--dtype", "f32", "--json"];
    let object = json(run(dir.path(), &[&["explain", "--to", "@a.mlir#layout"], &tensor[..]].concat()));
    assert_eq!(object["buffer_bytes"], 64 * 96 * 4);
    let object = json(run(dir.path(), &["explain", "--to", "@a.mlir!t", "--json"]));
    assert_eq!(object["logical_shape"], serde_json::json!([64, 96]));
    let wrong = run(dir.path(), &["explain", "--to", "@a.mlir!t", "--shape", "64,97", "--json"]);
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(wrong.status.code() == Some(2) && said.contains("64x96") && said.contains("64x97"), "{said}");
    let unknown = run(dir.path(), &[&["explain", "--to", "@a.mlir#layuot"], &tensor[..]].concat());
    let said = String::from_utf8(unknown.stderr).unwrap();
    assert!(unknown.status.code() == Some(2) && said.contains("`#layout`"), "{said}");
    let refused = run(dir.path(), &[&["explain", "--to", "@a.mlir#small"], &tensor[..]].concat());
    assert_eq!(refused.status.code(), Some(2));
    let lenient =
        run(dir.path(), &[&["explain", "--lenient", "--to", "@a.mlir#small"], &tensor[..]].concat());
    assert_eq!(json(lenient)["physical_shape"], serde_json::json!([128, 128]));
}

#[test]
fn a_torn_type_is_skipped_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let torn = "  %5 = f(%4) : tensor<64x96xf32, #layout\n  %6 = g(%5) : tensor<64x96xf32, #layout>\n";
    fs::write(dir.path().join("a.mlir"), format!("{IR}{torn}")).unwrap();
    let scan = |more: &[&str]| {
        let output = run(dir.path(), &[&["scan", "a.mlir"], more].concat());
        assert!(output.status.success());
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (table, warning) = scan(&[]);
    let line = IR.lines().count() + 1;
    assert!(
        warning.contains(&format!("a.mlir:{line}:16")) && warning.contains("tensor<64x96xf32"),
        "{warning}"
    );
    assert!(table.lines().next().unwrap().ends_with("torn and skipped 1"), "{table}");
    let object: Value = serde_json::from_str(&scan(&["--json"]).0).unwrap();
    assert_eq!(object["torn"], 1);
    // The whole one behind it is counted.
    assert_eq!(object["layouts"][0]["count"], 3);
}
