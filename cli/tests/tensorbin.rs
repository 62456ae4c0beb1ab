//! The command line on tensor files of TTNN.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MESH: &str = "ShardTensor2dMesh(mesh_shape=(2, 4), dims=(2, 3))";
const TILES: &str = "ttnn(dtype=bfloat8_b, layout=TILE)";

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/tensorbin").join(name)
}

fn tilewright(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tilewright")).args(arguments).output().unwrap()
}

/// What is printed on success.
fn done(arguments: &[&str]) -> String {
    let output = tilewright(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What is printed when the input is wrong.
fn refused(arguments: &[&str], status: i32) -> String {
    let output = tilewright(arguments);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_tensor_goes_in_and_comes_out() {
    let room = tempfile::tempdir().unwrap();
    let (file, back) = (room.path().join("w.tensorbin"), room.path().join("back.npy"));
    let (input, file, back) = (data("mesh/s1_neg.npy"), text(&file), text(&back));
    let mapper = "ShardTensorToMesh(mesh_shape=(2, 4), dim=-1)";
    let rows = "ttnn(dtype=float32, layout=ROW_MAJOR)";
    done(&["convert", text(&input), "--to", rows, "--mesh", mapper, "--out", file, "--check"]);
    done(&["convert", file, "--to", "memref<16x33x64xf32>", "--out", back, "--check"]);
    assert!(fs::read(back).unwrap() == fs::read(&input).unwrap());
    // One device, and into another layout.
    done(&["convert", file, "--coordinate", "1,3", "--to", "memref<16x33x8xf32>", "--out", back]);
    done(&["convert", file, "--to", TILES, "--mesh", mapper, "--out", file]);
}

#[test]
fn parts_of_a_mesh() {
    let room = tempfile::tempdir().unwrap();
    let (file, out) = (room.path().join("w.tensorbin"), room.path().join("out.npy"));
    let (input, file, out) = (data("mesh/s23.npy"), text(&file), text(&out));
    let all = ["convert", text(&input), "--to", TILES, "--mesh", MESH, "--out", file];
    done(&[&all[..], &["--devices", "2..4"]].concat());
    let object: serde_json::Value = serde_json::from_str(&done(&["explain", file, "--json"])).unwrap();
    assert_eq!(object["logical_shape"], serde_json::Value::Null);
    assert_eq!(object["shards"][1]["coordinate"], serde_json::json!([0, 3]));
    assert_eq!(object["shards"][1]["offset"], 3 * 4096);
    let whole = refused(&["convert", file, "--to", "memref<1x1x128x256xf32>", "--out", out], 2);
    assert!(whole.contains("2 of 8 parts"), "{whole}");
    let other = ["convert", file, "--coordinate", "1,0", "--to", "memref<1x1x64x64xf32>", "--out", out];
    assert!(refused(&other, 2).contains("[0, 2], [0, 3]"));
    for wrong in ["8..9", "4..4", "3..2", "x"] {
        assert!(refused(&[&all[..], &["--devices", wrong]].concat(), 2).contains("devices"), "{wrong}");
    }
}

#[test]
fn a_file_is_explained() {
    let printed = done(&["explain", text(&data("mesh/rep.tensorbin"))]);
    for line in [
        "layout          ttnn(dtype=bfloat8_b, layout=TILE, tile=(32, 32))",
        "logical shape   [33, 65] f32",
        "distribution    MeshMapperConfig([Replicate()], mesh_shape=(8,))",
        "memory          INTERLEAVED in DRAM",
        "shards          8, stored 1 times 6528 bytes",
        "  [1, 3]  960 to 7488",
    ] {
        assert!(printed.lines().any(|l| l == line), "{line}: {printed}");
    }
    let printed = done(&["explain", text(&data("blockc_bf16.tensorbin"))]);
    let memory = "BLOCK_SHARDED in L1, shard [64, 64], cores (0, 0) to (1, 2), COL_MAJOR, GRID_2D";
    assert!(printed.contains(memory), "{printed}");
}

#[test]
fn what_does_not_suit_a_file() {
    let room = tempfile::tempdir().unwrap();
    let file = room.path().join("w.tensorbin");
    let (input, file, golden) = (data("t4_f32_rm.npy"), text(&file), data("t4_f32_rm.tensorbin"));
    let no_ttnn = ["convert", text(&input), "--to", "memref<5x31xf32>", "--out", file];
    assert!(refused(&no_ttnn, 2).contains("ttnn(..)"));
    let from = ["convert", text(&golden), "--from", "memref<5x31xf32>", "--to", TILES, "--out", file];
    assert!(refused(&from, 2).contains("--from"));
    let devices = ["convert", text(&input), "--to", TILES, "--devices", "0..1", "--out", "x.bin"];
    assert!(refused(&devices, 2).contains("--devices"));
    let coordinate = ["convert", text(&input), "--coordinate", "0,0", "--to", TILES, "--out", file];
    assert!(refused(&coordinate, 2).contains("--coordinate"));
    fs::write(file, &fs::read(&golden).unwrap()[..200]).unwrap();
    assert!(refused(&["explain", file], 1).contains("cut short"));
    assert!(refused(&["explain"], 2).contains("--shape"));
}
