//! `pack` and its relatives as a user meets them: killed at any moment, refused, verified.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The program in a directory; arguments are separated by `|`.
fn program(directory: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tilewright"));
    command.args(arguments.split('|')).current_dir(directory).env_remove("TILEWRIGHT_ISA");
    command
}

fn run(directory: &Path, arguments: &str) -> Output {
    program(directory, arguments).output().unwrap()
}

fn done(directory: &Path, arguments: &str) -> String {
    let output = run(directory, arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// The exit status and the message of what must fail.
fn refused(directory: &Path, arguments: &str) -> (i32, String) {
    let output = run(directory, arguments);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Numbers that look random, the same every time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 16
    }
}

/// A checkpoint of matrices and norms in bf16.
fn model(path: &Path, layers: usize, rows: usize, cols: usize) {
    let mut header = serde_json::Map::new();
    let (mut data, mut numbers) = (Vec::new(), Numbers(7));
    let mut add = |name: String, shape: &[usize]| {
        let begin = data.len();
        for _ in 0..shape.iter().product() {
            let n = numbers.next();
            data.extend([n as u8, 0x3E | (n >> 8) as u8 & 0x81]);
        }
        let value = json!({ "dtype": "BF16", "shape": shape, "data_offsets": [begin, data.len()] });
        header.insert(name, value);
    };
    for i in 0..layers {
        add(format!("layers.{i}.norm.weight"), &[cols]);
        add(format!("layers.{i}.mlp.weight"), &[rows, cols]);
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend(data);
    fs::write(path, file).unwrap();
}

/// Every file of a directory but for locks.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let named = files.map(|f| (f.file_name().into_string().unwrap(), fs::read(f.path()).unwrap()));
    named.filter(|(name, _)| !name.starts_with(".tilewright-lock")).collect()
}

/// Whatever is there under a final name is what an undisturbed run has made.
fn nothing_half_written(directory: &Path, undisturbed: &BTreeMap<String, Vec<u8>>) {
    if !directory.exists() {
        return;
    }
    for (name, bytes) in contents(directory) {
        if !name.starts_with(".tilewright-") {
            assert!(undisturbed.get(&name) == Some(&bytes), "{name} is half written");
        }
    }
}

#[test]
fn killed_at_any_moment_and_resumed() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    model(&place.join("m.safetensors"), 24, 200, 1000);
    let pack = "pack|m.safetensors|--rules|ttnn-bfp8|--max-memory|8M|--threads|2|-o";
    let begun = Instant::now();
    done(place, &format!("{pack}|whole"));
    let mut time = begun.elapsed().as_micros() as u64;
    let undisturbed = contents(&place.join("whole"));
    assert_eq!(undisturbed.len(), 49);
    let (mut numbers, mut killed) = (Numbers(11), 0);
    // 50 runs at every push; for so many seconds, and no fewer, by TILEWRIGHT_SOAK.
    let soak = std::env::var("TILEWRIGHT_SOAK")
        .ok()
        .and_then(|s| s.parse().ok())
        .map_or(Duration::ZERO, Duration::from_secs);
    let begun = Instant::now();
    for chain in 0.. {
        assert!(
            chain < 200 || begun.elapsed() < soak,
            "only {killed} runs were still going on when they were killed"
        );
        let out = format!("out-{chain}");
        for _ in 0..2 {
            let mut child = program(place, &format!("{pack}|{out}|--resume")).spawn().unwrap();
            std::thread::sleep(Duration::from_micros(time * (numbers.next() % 1000) / 1000));
            match child.try_wait().unwrap() {
                None => killed += 1,
                // This machine has become faster.
                Some(_) => time = time * 9 / 10,
            }
            child.kill().unwrap();
            child.wait().unwrap();
            nothing_half_written(&place.join(&out), &undisturbed);
        }
        done(place, &format!("{pack}|{out}|--resume|--verify"));
        let made = contents(&place.join(&out));
        let other = |a: &BTreeMap<String, Vec<u8>>, b: &BTreeMap<String, Vec<u8>>| -> Vec<String> {
            a.iter()
                .filter(|(name, bytes)| b.get(*name) != Some(*bytes))
                .map(|(name, _)| name.clone())
                .collect()
        };
        let differing = (other(&made, &undisturbed), other(&undisturbed, &made));
        assert!(made == undisturbed, "chain {chain}: other files, missing files: {differing:?}");
        fs::remove_dir_all(place.join(&out)).unwrap();
        if killed >= 50 && begun.elapsed() >= soak {
            println!("{killed} runs were killed and resumed");
            return;
        }
    }
}

#[test]
fn failures_leave_nothing_half_written() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    model(&place.join("m.safetensors"), 3, 200, 1000);
    let pack = "pack|m.safetensors|--rules|ttnn-bfp8|--max-memory|8M|-o";
    done(place, &format!("{pack}|whole"));
    let undisturbed = contents(&place.join("whole"));
    // Something is in the way of the third file.
    let blocked = "layers.1.norm.weight_dtype_BFLOAT16_layout_TILE.tensorbin";
    assert!(undisturbed.contains_key(blocked));
    fs::create_dir_all(place.join("out").join(blocked)).unwrap();
    let (status, message) = refused(place, &format!("{pack}|out"));
    assert_eq!(status, 1, "{message}");
    assert!(message.contains(blocked), "{message}");
    assert!(!place.join("out/manifest.json").exists());
    fs::remove_dir(place.join("out").join(blocked)).unwrap();
    nothing_half_written(&place.join("out"), &undisturbed);
    done(place, &format!("{pack}|out|--resume"));
    assert!(contents(&place.join("out")) == undisturbed);
    // The directory is a file.
    fs::write(place.join("file"), "").unwrap();
    assert_eq!(refused(place, &format!("{pack}|file")).0, 1);
    // The source is cut short.
    let bytes = fs::read(place.join("m.safetensors")).unwrap();
    fs::write(place.join("cut.safetensors"), &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(refused(place, "pack|cut.safetensors|--rules|ttnn-bfp8|-o|cut").0, 1);
    assert!(!place.join("cut").exists());
}

#[cfg(unix)]
#[test]
fn a_limit_on_files_is_no_half_file() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    model(&place.join("m.safetensors"), 2, 2000, 1000);
    // In blocks of 512 or 1024 bytes: norms fit, matrices of 2 MB do not.
    let script = format!(
        "ulimit -f 1000; exec {} pack m.safetensors --rules ttnn-bfp8 -o out",
        env!("CARGO_BIN_EXE_tilewright")
    );
    let output = Command::new("sh").args(["-c", &script]).current_dir(place).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let there: Vec<String> = contents(&place.join("out")).into_keys().collect();
    assert_eq!(there, [".tilewright-journal", "layers.0.norm.weight_dtype_BFLOAT16_layout_TILE.tensorbin"]);
}

/// A disk that is full: a small file system in memory, in a namespace of its own, where the system lets anyone mount one.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_no_half_file() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    model(&place.join("m.safetensors"), 3, 400, 1000);
    done(place, "pack|m.safetensors|--rules|ttnn-bfp8|-o|whole");
    let undisturbed = contents(&place.join("whole"));
    fs::create_dir(place.join("small")).unwrap();
    // Room for one matrix of 444 KiB and two norms.
    let script = "mount -t tmpfs -o size=800k tmpfs small || exit 125
        \"$0\" pack m.safetensors --rules ttnn-bfp8 -o small/out; status=$?; cp -a small/out left; exit $status";
    let mut shell = Command::new("unshare");
    shell.args(["-rm", "sh", "-c", script, env!("CARGO_BIN_EXE_tilewright")]);
    let Ok(output) = shell.current_dir(place).output() else { return eprintln!("skipped: no unshare") };
    let message = String::from_utf8_lossy(&output.stderr);
    if !place.join("left").exists() {
        return eprintln!("skipped: {message}");
    }
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("No space left"), "{message}");
    let left = contents(&place.join("left"));
    assert!(!left.contains_key("manifest.json") && left.len() > 1, "{:?}", left.keys());
    nothing_half_written(&place.join("left"), &undisturbed);
    // What is there is used where there is room again.
    done(place, "pack|m.safetensors|--rules|ttnn-bfp8|-o|left|--resume");
    assert!(contents(&place.join("left")) == undisturbed);
}

#[test]
fn wrong_rules_are_refused_before_anything_is_written() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    model(&place.join("m.safetensors"), 1, 40, 50);
    let cases = [
        ("[[rule]]\nname = \"*\"\ndtype = \"bfloat9_b\"\n", "bfloat9_b"),
        ("[[rule]]\nname = \"*norm*\"\ndtype = \"bfloat8_b\"\n", "layers.0.mlp.weight"),
        ("[[rule]]\nname = \"*\"\nskip = true\n[[rule]]\nname = \"q\"\nskip = true\n", "`q`"),
        ("[[rule]]\nname = \"*\"\nlayout = \"memref<2x2xf32>\"\n", "layers.0.norm.weight"),
        ("[[rule]]\nname = \"*\"\ndtype = \"bfloat8_b\"\ntranspose = true\n", "layers.0.norm.weight"),
    ];
    for (rules, named) in cases {
        fs::write(place.join("rules.toml"), rules).unwrap();
        let (status, message) = refused(place, "pack|m.safetensors|--rules|rules.toml|-o|out");
        assert_eq!(status, 2, "{rules}: {message}");
        assert!(message.contains(named), "{rules}: {message}");
        assert!(!place.join("out").exists());
    }
    let (status, message) = refused(place, "pack|m.safetensors|--rules|ttnn-bfp8|--max-memory|100K|-o|out");
    assert_eq!(status, 2, "{message}");
    assert!(!place.join("out").exists());
}

#[test]
fn what_is_printed() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    model(&place.join("m.safetensors"), 1, 40, 50);
    let object = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let list = object(&done(place, "list|m.safetensors|--json"));
    assert_eq!(list["tensors"][1]["name"], "layers.0.mlp.weight");
    assert_eq!(
        (&list["tensors"][1]["shape"], &list["tensors"][1]["bytes"]),
        (&json!([40, 50]), &json!(4000))
    );
    assert!(done(place, "list|m.safetensors").ends_with("2 tensors, 4100 bytes in 1 files\n"));
    let plan = object(&done(place, "pack|m.safetensors|--rules|ttnn-bfp8|--dry-run|--json"));
    // 2 by 2 tiles of 1088 bytes behind a page; 2000 of 4096 elements are no padding.
    let mlp = &plan["files"][1];
    assert_eq!(mlp["file"], "layers.0.mlp.weight_dtype_BFLOAT8_B_layout_TILE.tensorbin");
    assert_eq!((&mlp["bytes"], &mlp["elements_bytes"]), (&json!(4096 + 4 * 1088), &json!(4000)));
    assert!((mlp["waste"].as_f64().unwrap() - 2096.0 / 4096.0).abs() < 1e-9);
    let table = done(place, "pack|m.safetensors|--rules|ttnn-bfp8|--dry-run");
    assert!(table.contains("51.2%"), "{table}");
    assert!(plan["files"][1]["expected_seconds"].as_f64().is_some_and(|s| s > 0.0 && s.is_finite()));
    assert!(table.contains("GB/s of elements, as a sample"), "{table}");
    let names = contents(place);
    assert_eq!(names.keys().collect::<Vec<_>>(), ["m.safetensors"]);
    let events = done(place, "pack|m.safetensors|--rules|ttnn-bfp8|-o|a|--json|--verify");
    let kinds: Vec<Value> = events.lines().map(|line| object(line)["event"].clone()).collect();
    assert_eq!(kinds, ["begin", "made", "made", "end", "verified"]);
    assert!(done(place, "verify|a|--full").contains("2 of 2"));
    assert!(done(place, "inspect|a").contains("ttnn(dtype=bfloat8_b"));
    done(place, "pack|m.safetensors|--rules|ttnn-bfp8|-o|b");
    assert_eq!(done(place, "diff|a|b"), "");
    // Cut numbers are others, and are verified by the choices that the manifest names.
    done(place, "pack|m.safetensors|--rules|ttnn-bfp8|-o|c|--rounding|truncate");
    assert!(done(place, "verify|c|--full").contains("2 of 2"));
    assert_eq!(run(place, "diff|a|c").status.code(), Some(1));
    fs::write(place.join("r.toml"), "[[rule]]\nname = \"*\"\ndtype = \"bfloat16\"\n").unwrap();
    done(place, "pack|m.safetensors|--rules|r.toml|-o|b");
    let output = run(place, "diff|a|b");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stdout).unwrap().contains("~ layers.0.mlp.weight"));
    let path = place.join("a/layers.0.mlp.weight_dtype_BFLOAT8_B_layout_TILE.tensorbin");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(refused(place, "verify|a").0, 1);
}
