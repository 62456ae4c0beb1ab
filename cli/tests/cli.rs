//! The command line as a user meets it: files, exit statuses, streams.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use tilewright::family::Descriptor;
use tilewright::family::tenstorrent::device::Device;
use tilewright::family::tenstorrent::mesh::{Mapper, ShardedBufferConfig};

/// A directory of its own for one test, with shorthands.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.0.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Runs the program here; arguments are separated by `|`.
    fn run(&self, arguments: &str) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tilewright"));
        command.args(arguments.split('|')).current_dir(self.0.path()).env_remove("TILEWRIGHT_ISA");
        command
    }

    /// Runs the program and returns what it printed.
    fn ok(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the program, which must refuse with `status`, print nothing and leave nothing; returns its message.
    fn refused(&self, status: i32, arguments: &str) -> String {
        let before = self.names();
        let output = self.run(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments}: {message}");
        assert!(output.stdout.is_empty(), "{arguments}");
        assert!(!message.trim().is_empty(), "{arguments}");
        assert_eq!(self.names(), before, "{arguments}");
        message
    }
}

/// An `.npy` file of version 1.0.
fn npy(descr: &str, fortran: bool, shape: &str, elements: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({shape}), }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(elements);
    file
}

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

#[test]
fn the_first_command_needs_no_file() {
    let place = Place::new();
    let summary = place.ok("convert");
    for part in ["[64, 96] f32", "bfloat8_b", "6528 bytes", "every byte equals the scalar reference"] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
    assert!(place.names().is_empty());
    place.ok("convert|--out|ramp.bin");
    assert_eq!(read(&place.path("ramp.bin")).len(), 6 * 1088);
    assert!(place.refused(2, "convert|--shape|2,3").contains("--shape"));
}

#[test]
fn version_tells_the_level() {
    let place = Place::new();
    let text = place.ok("--version");
    assert!(text.starts_with(concat!("tilewright ", env!("CARGO_PKG_VERSION"))), "{text}");
    for level in ["scalar", "base"] {
        let output = place.command("--version").env("TILEWRIGHT_ISA", level).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&format!("level: {level}")), "{text}");
    }
    let output = place.command("--version").env("TILEWRIGHT_ISA", "avx9").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("avx9") && message.contains("base"), "{message}");
}

#[test]
fn usage_errors_are_status_2() {
    let place = Place::new();
    place.put("x.npy", npy("<f4", false, "2,", &[0; 8]));
    place.put("x.bin", [0; 8]);
    for arguments in [
        "",
        "convert|--frobnicate",
        "nothing",
        "convert|x.npy",
        "convert|x.npy|--to|memref<2xf32>",
        "convert|x.npy|--out|y.bin",
        "convert|x.npy|--to|memref<2xf32>|--out|y.bin|--threads|0",
        "convert|x.npy|--to|memref<2xf32>|--out|y.bin|--shape|3",
        "convert|x.npy|--to|memref<2xf32>|--out|y.bin|--dtype|i32",
        "convert|x.npy|--to|memref<2xf32>|--out|y.bin|--tensor|a",
        "convert|x.npy|--to|memref<2xf32>|--from|memref<2xf32>|--out|y.bin",
        "convert|x.bin|--to|ttnn(dtype=float32, layout=TILE)|--out|y.bin",
        "convert|x.bin|--to|ttnn(dtype=float32, layout=TILE)|--out|y.bin|--shape|2",
        "convert|x.bin|--to|ttnn(dtype=float32, layout=TILE)|--out|y.bin|--shape|2|--dtype|float",
        "convert|x.bin|--to|ttnn(dtype=float32, layout=TILE)|--out|y.bin|--shape|-2|--dtype|f32",
        "convert|x.bin|--to|memref<3xf32>|--out|y.bin|--shape|3|--dtype|f32",
        "explain|--to|ttnn(dtype=float32, layout=TILE)|--dtype|f32",
        "explain|--to|memref<2xf32>|--dtype|f32|--shape|x",
    ] {
        place.refused(2, arguments);
    }
}

#[test]
fn io_errors_are_status_1() {
    let place = Place::new();
    place.put("x.npy", npy("<f4", false, "2,", &[0; 8]));
    fs::create_dir(place.path("directory.npy")).unwrap();
    for arguments in [
        "convert|none.npy|--to|memref<2xf32>|--out|y.bin",
        "convert|directory.npy|--to|memref<2xf32>|--out|y.bin",
        "convert|x.npy|--to|memref<2xf32>|--out|no/y.bin",
        "convert|x.npy|--to|memref<2xf32>|--out|directory.npy",
        "convert|x.npy|--to|@none|--out|y.bin",
    ] {
        place.refused(1, arguments);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_behind_stdout_is_status_1() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = Place::new().command("--version").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn an_output_that_was_there_survives_a_refusal() {
    let place = Place::new();
    place.put("x.npy", npy("<f4", false, "2,", &[0; 8]));
    place.put("y.bin", "precious");
    place.refused(2, "convert|x.npy|--to|memref<3xf32>|--out|y.bin");
    assert_eq!(read(&place.path("y.bin")), b"precious");
}

#[test]
fn a_file_may_be_converted_onto_itself() {
    let place = Place::new();
    let elements = floats((0..6).map(|i| i as f32));
    place.put("x.bin", &elements);
    place.ok("convert|x.bin|--shape|2,3|--dtype|f32|--to|memref<2x3xf32>|--out|x.bin");
    assert_eq!(read(&place.path("x.bin")), elements);
    assert_eq!(place.names(), ["x.bin"]);
}

#[test]
fn column_major_and_big_endian_files() {
    let place = Place::new();
    // Element (r, c) of a 2 x 3 array is 10 r + c.
    let row_major = [0.0, 1.0, 2.0, 10.0, 11.0, 12.0];
    let column_major = [0.0, 10.0, 1.0, 11.0, 2.0, 12.0];
    let big: Vec<u8> = row_major.iter().flat_map(|v: &f32| v.to_be_bytes()).collect();
    let big_column: Vec<u8> = column_major.iter().flat_map(|v: &f32| v.to_be_bytes()).collect();
    for (name, descr, fortran, elements) in [
        ("little", "<f4", false, floats(row_major)),
        ("big", ">f4", false, big),
        ("little_column", "<f4", true, floats(column_major)),
        ("big_column", ">f4", true, big_column),
    ] {
        place.put("x.npy", npy(descr, fortran, "2, 3", &elements));
        place.ok("convert|x.npy|--to|memref<2x3xf32>|--out|y.bin|--check");
        assert_eq!(read(&place.path("y.bin")), floats(row_major), "{name}");
    }
}

#[test]
fn bf16_hides_in_two_byte_elements() {
    let place = Place::new();
    for descr in ["<u2", "|V2"] {
        place.put("x.npy", npy(descr, false, "2,", &[1, 2, 3, 4]));
        place.ok("convert|x.npy|--dtype|bf16|--to|memref<2xbf16>|--out|y.bin");
        assert_eq!(read(&place.path("y.bin")), [1, 2, 3, 4]);
    }
}

#[test]
fn npy_output_is_for_dense_host_arrays() {
    let place = Place::new();
    place.put("x.npy", npy("<f4", false, "2, 3", &floats((0..6).map(|i| i as f32))));
    place.ok("convert|x.npy|--to|memref<2x3xf32>|--out|y.npy");
    let written = read(&place.path("y.npy"));
    assert_eq!(written.len() % 64, 24);
    let header = String::from_utf8_lossy(&written[10..written.len() - 24]).into_owned();
    assert_eq!(header.trim_end(), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
    place.ok("convert|x.npy|--to|memref<2x3xf32, strided<[1, 2]>>|--out|z.npy");
    let written = read(&place.path("z.npy"));
    assert!(String::from_utf8_lossy(&written[..128]).contains("'fortran_order': True"));
    assert_eq!(written[written.len() - 24..], floats([0.0, 3.0, 1.0, 4.0, 2.0, 5.0]));
    for to in ["ttnn(dtype=float32, layout=TILE)", "memref<2x3xf32, strided<[4, 1]>>"] {
        let message = place.refused(2, &format!("convert|x.npy|--to|{to}|--out|w.npy"));
        assert!(message.contains("w.npy"), "{message}");
    }
}

#[test]
fn a_tensor_of_a_safetensors_file() {
    let place = Place::new();
    let header = r#"{"a.weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(floats([1.5, -2.0]));
    file.extend([7, 8, 9]);
    place.put("m.safetensors", &file);
    place.ok("convert|m.safetensors|--tensor|b|--to|memref<3xui8>|--out|b.bin");
    assert_eq!(read(&place.path("b.bin")), [7, 8, 9]);
    let message = place.refused(2, "convert|m.safetensors|--tensor|a.wieght|--to|memref<2xf32>|--out|c.bin");
    assert!(message.contains("a.wieght") && message.contains("`a.weight`"), "{message}");
    place.put("cut.safetensors", &file[..file.len() - 1]);
    let message = place.refused(1, "convert|cut.safetensors|--tensor|b|--to|memref<3xui8>|--out|c.bin");
    assert!(message.contains("cut short"), "{message}");
}

#[test]
fn numbers_are_rounded_as_asked() {
    let place = Place::new();
    let options = |more: &str| {
        place.ok(&format!("convert|x.bin|--shape|1,16|--dtype|f32|--to|{BFP4}|--out|y.bin|--check{more}"));
        let packed = read(&place.path("y.bin"));
        (packed[0], packed[64] & 15)
    };
    const BFP4: &str = "ttnn(dtype=bfloat4_b, layout=TILE)";
    // In steps of 1/4: 1.375 is half-way between 5 and 6.
    place.put("x.bin", floats([1.375; 16]));
    assert_eq!(options(""), (127, 6));
    assert_eq!(options("|--rounding|device"), (127, 5));
    place.put("x.bin", floats([1.45; 16]));
    assert_eq!(options(""), (127, 6));
    assert_eq!(options("|--rounding|truncate"), (127, 5));
    // Under the exponent of 2 each 0.75 errs by 0.25; under the one below they are exact, and 2 is 1.75.
    place.put("x.bin", floats([2.0].into_iter().chain([0.75; 15])));
    assert_eq!(options(""), (128, 4));
    assert_eq!(options("|--search"), (127, 7));
    place.refused(2, "convert|x.bin|--shape|1,16|--dtype|f32|--to|memref<1x16xmxfp4>|--search|--out|z.bin");

    // The library makes +0 of a code whose exponent normalising would take below 0.
    let mut tile = vec![0; 576];
    (tile[0], tile[64]) = (1, 1);
    place.put("tile.bin", &tile);
    let unpack = |more: &str| {
        let to = "memref<1x16xf32>";
        place.ok(&format!(
            "convert|tile.bin|--from|{BFP4}|--shape|1,16|--dtype|f32|--to|{to}|--out|w.bin|--check{more}"
        ));
        read(&place.path("w.bin"))[..4].to_vec()
    };
    assert_eq!(unpack(""), (2_f64.powi(-128) as f32).to_le_bytes());
    assert_eq!(unpack("|--compat-unpack"), [0; 4]);
}

#[test]
fn integers_that_do_not_fit_are_refused_or_saturate() {
    let place = Place::new();
    let values = [1, -2, i64::MAX, i64::MIN];
    place.put("x.bin", values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>());
    let command = "convert|x.bin|--shape|4|--dtype|i64|--to|memref<4xi32>|--out|y.bin";
    let message = place.refused(2, command);
    assert!(message.contains("9223372036854775807") && message.contains("byte 8"), "{message}");
    place.ok(&format!("{command}|--saturate|--check"));
    let want: Vec<u8> = [1, -2, i32::MAX, i32::MIN].iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(read(&place.path("y.bin")), want);
}

#[test]
fn texts_come_from_files_too() {
    let place = Place::new();
    place.put("x.npy", npy("<f4", false, "2,", &floats([1.0, 2.0])));
    place.put("to.txt", "memref<2xf32>");
    place.ok("convert|x.npy|--to|@to.txt|--out|y.bin");
    assert_eq!(read(&place.path("y.bin")), floats([1.0, 2.0]));
    place.put("to.txt", [0xff, 0xfe]);
    place.refused(1, "convert|x.npy|--to|@to.txt|--out|z.bin");
}

#[test]
fn json_summaries() {
    let place = Place::new();
    place.put("x.npy", npy("<f4", false, "2, 3", &[0; 24]));
    let printed = place.ok("convert|x.npy|--to|memref<2x3xf32>|--out|y.bin|--check|--json");
    let object: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(object["total_bytes"], 24);
    assert_eq!(object["checked"], true);
    assert_eq!(object["out"], "y.bin");
    let printed = place.ok("explain|--to|memref<2x3xf32>|--shape|2,3|--dtype|f32|--json");
    let object: Value = serde_json::from_str(&printed).unwrap();
    for key in [
        "logical_shape",
        "physical_shape",
        "grid",
        "shard_shape",
        "tile",
        "buffers",
        "buffer_bytes",
        "padding_elements",
        "nests",
    ] {
        assert!(object.get(key).is_some(), "{key} is missing from {printed}");
    }
    let text = place.ok("explain|--to|memref<2x3xf32>|--shape|2,3|--dtype|f32");
    for part in ["logical shape", "[2, 3] f32", "buffers", "plan"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn hostile_arguments_are_refused_quickly() {
    let place = Place::new();
    place.put("x.npy", npy("<f4", false, "2,", &[0; 8]));
    place.put("deep", "(".repeat(10_000));
    place.put("deep_map", format!("#ttcore.metal_layout<(d0) -> ({}d0), undef, <1>>", "(".repeat(10_000)));
    place.put("long", "9".repeat(1 << 20));
    let begin = std::time::Instant::now();
    let largest = i64::MAX;
    for to in ["@deep", "@deep_map", "@long", "", "memref<", "memref<2xf32, strided<[9223372036854775807]>>"]
    {
        place.refused(2, &format!("convert|x.npy|--to|{to}|--out|y.bin"));
    }
    for shape in [format!("{largest},{largest}"), format!("{largest}"), "1,".repeat(10_000) + "1"] {
        for to in ["ttnn(dtype=bfloat8_b, layout=TILE)", "memref<2xf32>"] {
            place.refused(2, &format!("explain|--to|{to}|--dtype|f32|--shape|{shape}"));
        }
    }
    place.put("huge.npy", npy("<f4", false, &format!("{largest}, {largest}"), &[0; 8]));
    place.refused(2, "convert|huge.npy|--to|memref<2xf32>|--out|y.bin");
    assert!(begin.elapsed().as_secs() < 30, "{:?}", begin.elapsed());
}

/// The first worked example of tt-mlir's layout text, on 2 x 4 cores.
const COLLAPSED: &str = "#ttcore.metal_layout<(d0, d1, d2, d3) -> (d0 * 192 + d1 * 64 + d2, d3), undef, <2x4>, \
    memref<6x1x!ttcore.tile<32x32, bfp_bf8>, #ttcore.memory_space<l1>>>";

/// A grid of 8 x 16 over two chips side by side.
const TWO_CHIPS: &str = "#tt.device<workerGrid = #tt.grid<8x16, (d0, d1) -> ((d0 floordiv 8) * 2 + d1 floordiv 8, \
    d0, d1 mod 8)>, meshShape = 1x2, chipIds = [4, 9]>";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn an_element_is_located_and_found_again() {
    let place = Place::new();
    let about = format!("locate|--to|{COLLAPSED}|--shape|2,3,64,128|--dtype|f32");
    // Row 262 of 384 is row 70 of the second row of cores, in its third tile of 1088 bytes; column 100 is
    // column 4 of the last column of cores. In the tile it is row 6, column 4 of the first face.
    let printed = place.ok(&format!("{about}|--index|1,1,6,100"));
    assert!(printed.contains("collapsed (262, 100)"), "{printed}");
    assert!(printed.contains("buffer 7  byte 2340  bit 0  shared byte 2182  core (1, 3)"), "{printed}");
    let found = json(&place.ok(&format!("{about}|--index|1,1,6,100|--json")));
    assert_eq!(found["collapsed"], json("[262, 100]"));
    assert_eq!(found["places"][0]["core"], json("[1, 3]"));
    assert_eq!(
        (&found["places"][0]["byte"], &found["places"][0]["shared_byte"]),
        (&2340.into(), &2182.into())
    );

    let back = json(&place.ok(&format!("{about}|--offset|7:2340|--json")));
    assert_eq!((&back["owner"], &back["elements"]), (&"elements".into(), &json("[[1, 1, 6, 100]]")));
    let shared = json(&place.ok(&format!("{about}|--offset|7:2182|--json")));
    let group: Vec<_> = (96..112).map(|x| vec![1, 1, 6, x]).collect();
    assert_eq!((&shared["owner"], &shared["elements"]), (&"shared".into(), &serde_json::json!(group)));

    for (question, message) in [
        ("--index|1,1,6", "[2, 3, 64, 128]"),
        ("--index|1,3,6,100", "[2, 3, 64, 128]"),
        ("--index|1,1,6,x", "--index"),
        ("--offset|8:0", "8 buffers of 6528 bytes"),
        ("--offset|7:6528", "8 buffers of 6528 bytes"),
        ("--offset|7", "7"),
        ("--offset|18446744073709551616:0", "18446744073709551616"),
        ("--index|1,1,6,100|--offset|7:0", "cannot be used with"),
        ("--json", "--index"),
    ] {
        let refusal = place.refused(2, &format!("{about}|{question}"));
        assert!(refusal.contains(message), "{question}: {refusal}");
    }
}

#[test]
fn padding_and_gaps_have_no_element() {
    let place = Place::new();
    let owner = |to: &str, shape: &str, offset: &str| {
        let arguments = format!("locate|--to|{to}|--shape|{shape}|--dtype|bf16|--offset|{offset}|--json");
        json(&place.ok(&arguments))["owner"].as_str().unwrap().to_owned()
    };
    let tiles = "ttnn(dtype=bfloat16, layout=TILE)";
    assert_eq!(owner(tiles, "3,5", "0:9"), "elements");
    assert_eq!(owner(tiles, "3,5", "0:10"), "padding");
    let rows = "ttnn(dtype=bfloat16, layout=ROW_MAJOR, memory=INTERLEAVED, banks=2, alignment=32)";
    assert_eq!(owner(rows, "3,5", "1:9"), "elements");
    assert_eq!(owner(rows, "3,5", "1:10"), "gap");
    assert_eq!(owner(rows, "3,5", "1:32"), "padding");
}

#[test]
fn places_are_told_in_the_terms_of_the_hardware() {
    let place = Place::new();
    let chips = "#ttcore.metal_layout<(d0, d1) -> (d0, d1), undef, <2x16>, memref<32x4xf32, #ttcore.memory_space<l1>>>";
    let cores = "ttnn(dtype=float32, layout=TILE, memory=HEIGHT_SHARDED, grid=(2, 2), shard=(32, 64), orientation=COL_MAJOR)";
    let banks = "ttnn(dtype=float32, layout=TILE, memory=INTERLEAVED, banks=3, alignment=32)";
    let sticks =
        "SpyreTensorLayout(device_size=[64, 2, 32], dim_map=[0, 1, 1], device_dtype=DataFormats.IEEE_FP32)";
    for (arguments, parts) in [
        // Core (1, 15) is row 1, column 7 of the second chip, whose 16 cores follow the 16 of the first.
        (
            format!("{chips}|--device|{TWO_CHIPS}|--index|40,63"),
            vec!["buffer 31 ", "core (1, 15)  chip 9  y 1  x 7"],
        ),
        (
            format!("{chips}|--device|{TWO_CHIPS}|--index|40,3"),
            vec!["buffer 8 ", "core (1, 0)  chip 4  y 1  x 0"],
        ),
        // Shards 0, 1 go down the first column of cores.
        (format!("{cores}|--index|32,0"), vec!["buffer 1 ", "core (1, 0)"]),
        // Tile 3 of 2 x 2.
        (format!("{banks}|--index|63,63"), vec!["buffer 0  byte 8188", "bank 0"]),
        (format!("{sticks}|--index|5,40"), vec!["byte 1440", "device index (5, 1, 8)"]),
    ] {
        let printed = place.ok(&format!("locate|--shape|64,64|--dtype|f32|--to|{arguments}"));
        assert!(parts.iter().all(|part| printed.contains(part)), "{arguments}: {printed}");
    }
    let mesh = "MeshMapperConfig([Replicate(), Shard(0)], mesh_shape=(2, 4))";
    let printed = place.ok(&format!("locate|--shape|8,6|--dtype|f32|--mesh|{mesh}|--index|5,1"));
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "index (5, 1)  index on the device (1, 1)");
    assert!(lines[1].starts_with("buffer 2  byte 28") && lines[1].ends_with("device (0, 2)"), "{printed}");
    assert!(lines[2].starts_with("buffer 6  byte 28") && lines[2].ends_with("device (1, 2)"), "{printed}");
    assert_eq!(lines.len(), 3, "{printed}");
}

#[test]
fn a_mapper_lowers_to_a_text_that_parses() {
    let place = Place::new();
    let lower = |dims: &str| {
        format!(
            "lower|--mesh|ShardTensor2dMesh(mesh_shape=(2, 4), dims={dims})|--shape|4,3,32,32|--dtype|bf16"
        )
    };
    let printed = place.ok(&lower("(None, 0)"));
    let config: ShardedBufferConfig = printed.trim_end().parse().unwrap();
    assert_eq!(printed, format!("{config}\n"));
    let object = json(&place.ok(&format!("{}|--json", lower("(None, 0)"))));
    let expected = r#"{"global_size": 24576, "global_buffer_shape": [384, 32], "shard_shape": [96, 0], "shard_orientation": "ROW_MAJOR"}"#;
    assert_eq!(object, json(expected));
    let message = place.refused(2, &lower("(None, 2)"));
    assert!(message.contains("dimension 2 of 4x3x32x32"), "{message}");
}

#[test]
fn a_mesh_needs_no_layout() {
    let place = Place::new();
    place.put("x.npy", npy("<f4", false, "2, 4", &floats((0..8).map(|i| i as f32))));
    place.ok("convert|x.npy|--mesh|ShardTensorToMesh(mesh_shape=(1, 2), dim=1)|--out|y.bin|--check");
    assert_eq!(read(&place.path("y.bin")), floats([0.0, 1.0, 4.0, 5.0, 2.0, 3.0, 6.0, 7.0]));
    place.ok("convert|x.npy|--mesh|ShardTensorToMesh(mesh_shape=(1, 2), dim=1)|--to|memref<2x2xf32, strided<[1, 2]>>|--out|y.bin|--check");
    assert_eq!(read(&place.path("y.bin")), floats([0.0, 4.0, 1.0, 5.0, 2.0, 6.0, 3.0, 7.0]));
    let message = place
        .refused(2, "convert|x.npy|--mesh|ShardTensor2dMesh(mesh_shape=(1, 3), dims=(None, 1))|--out|z.bin");
    assert!(message.contains("size 4 over 3 devices"), "{message}");
}

#[test]
fn explanations_name_buffers_and_waste() {
    let place = Place::new();
    let printed = place.ok(&format!("explain|--to|{COLLAPSED}|--shape|2,3,64,128|--dtype|f32"));
    for part in [
        "logical shape   [2, 3, 64, 128] f32   49152 elements, 196608 bytes",
        "collapsed       [384, 128]            the value of the map at the last index, plus 1",
        "grid            [2, 4]                8 shards",
        "tile            32 x 32               6 tiles in a shard",
        "shard shape     [192, 32]",
        "physical shape  [384, 128]",
        "reads           196608 bytes          of 196608 of the source",
        "writes          52224 bytes",
        "pack bfloat8_b\n",
        "8 of 6528 bytes",
        "0 elements, 0.0 % of all places",
        // 192 rows are all of the first dimension's first half.
        "  1  core (0, 1)  [0..1, 0..3, 0..64, 32..64]  6144 elements, 0 padding",
        "plan",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    let chips = "#ttcore.metal_layout<(d0, d1) -> (d0, d1), undef, <8x2>, memref<8x32xf32, #ttcore.memory_space<l1>>>";
    let printed = place.ok(&format!("explain|--to|{chips}|--device|{TWO_CHIPS}|--shape|62,63|--dtype|f32"));
    for part in [
        "190 elements, 4.6 % of all places",
        "  0  core (0, 0)  chip 4  y 0  x 0  [0..8, 0..32]  256 elements, 0 padding",
        "... 8 more",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
}

#[test]
fn every_bad_input_has_its_message() {
    let place = Place::new();
    place.put("x.npy", npy("<f4", false, "4, 6", &[0; 96]));
    place.put("half.npy", npy("<f2", false, "4, 64", &[0; 512]));
    place.put("raw.bin", []);
    let header = r#"{"encoder.weight":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.push(1);
    place.put("cut.safetensors", &file);
    file.push(2);
    place.put("m.safetensors", &file);
    place.put("deep", format!("#ttcore.metal_layout<(d0, d1) -> ({}d0, d1), undef", "(".repeat(10_000)));
    place.put("deep_json", format!("{{\"dcsi_\": {}", "[".repeat(10_000)));
    place.put("long", format!("memref<{}f32>", "4x".repeat(1 << 19)));
    place.put("endless", "x".repeat((16 << 20) + 1));
    let metal = |map: &str, grid: &str, memref: &str| {
        format!(
            "#ttcore.metal_layout<{map}, undef, <{grid}>, memref<{memref}xf32, #ttcore.memory_space<l1>>>"
        )
    };
    let identity = "(d0, d1) -> (d0, d1)";
    let spyre =
        "SpyreTensorLayout(device_size=[4, 1, 64], dim_map=[1, 1, 1], device_dtype=DataFormats.IEEE_FP16)";
    let tiles = "ttnn(dtype=bfloat8_b, layout=TILE)";
    let cases: &[(i32, &str, String, &[&str])] = &[
        (2, "x.npy", metal("(d0, d1, d2) -> (d0, d1)", "2x2", "2x3"), &["map", "given 3", "needed 2"]),
        (2, "x.npy", "memref<4xf32>".into(), &["given 4", "4x6"]),
        (2, "x.npy", metal(identity, "2x2", "2x4"), &["the text says 2x4, but 2x3 follows"]),
        (
            2,
            "raw.bin|--shape|1099511627776,1099511627776|--dtype|f32",
            tiles.into(),
            &["[1099511627776, 1099511627776]", "2^63"],
        ),
        (2, "x.npy", metal(identity, "0x2", "2x3"), &["grid", "0x2", "1 or more"]),
        (2, "x.npy", "memref<4x6xf32, strided<[3, 1]>>".into(), &["[0, 3] and [1, 0] lie on the same place"]),
        (
            2,
            "x.npy",
            metal("(d0, d1) -> (d0, d0)", "1x1", "4x4"),
            &["d1", "[0, 0] and [0, 1] lie on the same place"],
        ),
        (2, "half.npy", spyre.into(), &["dim_map", "no host dimension 0"]),
        (
            2,
            "x.npy",
            "ttnn(dtype=bfloat8_b, layout=ROW_MAJOR)".into(),
            &["Layout must be TILE for bfloat8_b"],
        ),
        (1, "none.npy", tiles.into(), &["none.npy"]),
        (1, "cut.safetensors|--tensor|encoder.weight", tiles.into(), &["cut.safetensors", "cut short"]),
        (2, "m.safetensors|--tensor|encoder.wieght", tiles.into(), &["encoder.wieght", "`encoder.weight`"]),
        (2, "x.npy", "@deep".into(), &["nested more than 128 deep", "line 1, column"]),
        (2, "x.npy", "@deep_json".into(), &["recursion limit"]),
        (2, "x.npy", "@long".into(), &["524288 dimensions", "at most 64"]),
        (1, "x.npy", "@endless".into(), &["more than 16777216 bytes"]),
    ];
    let mut messages = Vec::new();
    for (status, input, to, parts) in cases {
        let begin = std::time::Instant::now();
        let message = place.refused(*status, &format!("convert|{input}|--to|{to}|--out|y.bin"));
        assert!(parts.iter().all(|part| message.contains(part)), "{input} {to}: {message}");
        assert!(message.len() < 1000 && begin.elapsed().as_secs() < 5, "{input} {to}: {message}");
        messages.push(message);
    }
    messages.sort();
    assert!(messages.windows(2).all(|pair| pair[0] != pair[1]));
}

#[cfg(unix)]
#[test]
fn an_output_has_the_rights_of_any_new_file() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.put("x.npy", npy("<f4", false, "2,", &[0; 8]));
    place.ok("convert|x.npy|--to|memref<2xf32>|--out|y.bin");
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().permissions().mode();
    assert_eq!(mode("x.npy"), mode("y.bin"));
}

#[test]
fn shapes_and_types_are_read_as_people_write_them() {
    let place = Place::new();
    let plain = place.ok("explain|--to|memref<64x96xf32>|--shape|64,96|--dtype|f32|--json");
    for shape in ["64x96", "(64, 96)", "[64, 96]"] {
        for dtype in ["float32", "torch.float32", "np.float32"] {
            let same =
                place.ok(&format!("explain|--to|memref<64x96xf32>|--shape|{shape}|--dtype|{dtype}|--json"));
            assert_eq!(same, plain, "{shape} {dtype}");
        }
    }
    for (dtype, meant) in [("float", "f32"), ("half", "f16"), ("fp32", "f32")] {
        let refusal = place.refused(2, &format!("explain|--to|memref<2xf32>|--shape|2|--dtype|{dtype}"));
        assert!(refusal.contains(&format!("did you mean {meant}?")), "{refusal}");
    }
}

#[test]
fn a_filter_that_nothing_has_is_an_error_with_the_names() {
    let message = Place::new().refused(2, "bench|tilize f32|--against|zen99");
    assert!(message.contains("--against: given `zen99`, needed a file, or one of zen3, zen4"), "{message}");
    let message = Place::new().refused(2, "bench|tilize f32|--against|segment = 1");
    assert!(message.contains("segment = 1, line 1"), "{message}");
    let message = Place::new().refused(2, "bench|nosuchfilter");
    assert!(message.contains("nosuchfilter") && message.contains("tilize"), "{message}");
}

#[test]
fn a_comma_that_is_found_is_not_what_was_expected() {
    const TEXTS: [&str; 8] = [
        "memref<2x3xf32, strided<[3, 1], offset: 0>>",
        COLLAPSED,
        TWO_CHIPS,
        "tensor<2x4x1x1x!ttcore.tile<32x32, bf16>, #ttcore.metal_layout<logical_shape = 33x128, dim_alignments = 32x32, \
         collapsed_intervals = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>, l1, sharded>>",
        "ttnn(dtype=bfloat8_b, layout=TILE, memory=BLOCK_SHARDED, grid=(8, 8), shard=(64, 64))",
        "SpyreTensorLayout(device_size=[64, 2, 32], dim_map=[0, 1, 1], device_dtype=DataFormats.IEEE_FP32)",
        "((4, 1024, 64), (65536, 64, 1), (64, 256, 1))",
        "MeshMapperConfig([Shard(0), Replicate()], mesh_shape=(2, 4))",
    ];
    let messages = |text: &str| {
        let layout = text.parse::<Descriptor>().err().map(|e| e.to_string());
        let device = text.parse::<Device>().err().map(|e| e.to_string());
        let mapper = text.parse::<Mapper>().err().map(|e| e.to_string());
        [layout, device, mapper].into_iter().flatten().collect::<Vec<_>>()
    };
    let mut seen = 0;
    for text in TEXTS {
        for at in (0..text.len()).filter(|&at| text.is_char_boundary(at)) {
            for message in messages(&format!("{},{}", &text[..at], &text[at..])) {
                seen += usize::from(message.ends_with("found `,`"));
                assert!(!(message.contains("or `,`") && message.ends_with("found `,`")), "{message}");
            }
        }
    }
    assert!(seen > 50, "{seen}");
    let message = "memref<4xf32, strided<[1], offset: 0,>>".parse::<Descriptor>().unwrap_err().to_string();
    assert_eq!(message, "expected `>` after the strides, found `,`");
}
