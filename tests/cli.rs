//! The command line as a user meets it: files, exit statuses, streams.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

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
        "convert|x.bin|--to|memref<2xf32>|--out|y.bin",
        "convert|x.bin|--to|memref<2xf32>|--out|y.bin|--shape|2",
        "convert|x.bin|--to|memref<2xf32>|--out|y.bin|--shape|2|--dtype|float",
        "convert|x.bin|--to|memref<2xf32>|--out|y.bin|--shape|-2|--dtype|f32",
        "convert|x.bin|--to|memref<3xf32>|--out|y.bin|--shape|3|--dtype|f32",
        "explain|--to|memref<2xf32>|--dtype|f32",
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
