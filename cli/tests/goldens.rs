//! Runs every golden case (`tests/data/goldens`, whose README is the contract) along two roads, and judges what comes
//! out with code that shares nothing with the library.
//!
//! A road turns a case into an [`Outcome`]; [`judge`] is the same for all of them. To repeat one case, run the command
//! line that its failure prints.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kernels::Rounding;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tilewright::family::Descriptor;
use tilewright::family::host::strided::Memref;
use tilewright::family::tenstorrent::device::Device;
use tilewright::family::tenstorrent::mesh::Mapper;
use tilewright::family::{Family, Placement, Tensor};
use tilewright::{DType, Error, Format, Layout, Options, Plan, run};
use tilewright_files::{HostArray, Order, Source, npy, safetensors};

/// Every family and how many cases it has.
const FAMILIES: [(&str, usize); 15] = [
    ("bfp", 52),
    ("bfp_unpack", 21),
    ("device", 21),
    ("errors", 59),
    ("host_memref", 28),
    ("mesh", 34),
    ("metal_layout", 80),
    ("metal_layout_current", 28),
    ("mx", 55),
    ("relayout", 17),
    ("safetensors", 7),
    ("spyre", 68),
    ("tiled_triple", 18),
    ("ttnn_memory", 26),
    ("ttnn_tile", 77),
];

/// A case may take this long before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many failures of a family are printed in full.
const FULL_REPORTS: usize = 8;

/// The roads that every case takes.
const ROADS: [(&str, Road); 2] = [("binary", binary), ("library", library)];

/// `None` for a case that this road does not lead to.
type Road = fn(&Case, &Path) -> Option<Outcome>;

macro_rules! families {
    ($($family:ident)*) => { $(
        #[test]
        fn $family() {
            run_family(stringify!($family));
        }
    )* };
}

families! {
    bfp bfp_unpack device errors host_memref mesh metal_layout metal_layout_current mx relayout safetensors spyre
    tiled_triple ttnn_memory ttnn_tile
}

fn run_family(family: &str) {
    let cases = load(family);
    let mut failures = Vec::new();
    for case in &cases {
        for (name, road) in ROADS {
            let scratch = tempfile::tempdir().unwrap();
            let Some(outcome) = road(case, scratch.path()) else { continue };
            if let Err(what) = judge(case, &outcome) {
                let repeat = command_line(&case.arguments("OUT".as_ref()));
                failures.push(format!(
                    "{} ({name})\n    {}\n    {repeat}",
                    case.id(),
                    what.replace('\n', "\n    ")
                ));
            }
        }
    }
    let expected = FAMILIES.iter().find(|f| f.0 == family).unwrap().1;
    assert_eq!(cases.len(), expected, "{family}: cases run, cases known");
    if !failures.is_empty() {
        let mut report = format!("{family}: {} failures in {} cases\n", failures.len(), cases.len());
        for failure in failures.iter().take(FULL_REPORTS) {
            let _ = writeln!(report, "- {failure}");
        }
        for failure in failures.iter().skip(FULL_REPORTS) {
            let _ = writeln!(report, "- {}", failure.lines().next().unwrap());
        }
        panic!("{report}");
    }
}

// ---------------------------------------------------------------------------------------------------------- cases

/// One object of a `cases.json`.
struct Case {
    folder: PathBuf,
    json: Map<String, Value>,
}

/// The folder above this package.
fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn root() -> PathBuf {
    repository().join("tests/data/goldens")
}

fn load(family: &str) -> Vec<Case> {
    let folder = root().join(family);
    let text = fs::read_to_string(folder.join("cases.json")).unwrap();
    let cases: Vec<Map<String, Value>> = serde_json::from_str(&text).unwrap();
    cases.into_iter().map(|json| Case { folder: folder.clone(), json }).collect()
}

impl Case {
    fn get(&self, key: &str) -> Option<&Value> {
        self.json.get(key).filter(|v| !v.is_null())
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.get(key).map(|v| v.as_str().unwrap_or_else(|| panic!("{key} of {} is no text", self.id())))
    }

    fn list(&self, key: &str) -> Vec<&Value> {
        self.get(key).map_or(Vec::new(), |v| v.as_array().unwrap().iter().collect())
    }

    fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|v| v.as_bool().unwrap())
    }

    fn id(&self) -> &str {
        self.json["id"].as_str().unwrap()
    }

    fn command(&self) -> &str {
        self.text("cmd").unwrap_or("convert")
    }

    fn dtype(&self) -> &str {
        self.text("input_dtype").unwrap()
    }

    fn shape(&self) -> Vec<u64> {
        self.list("shape").iter().map(|v| v.as_u64().unwrap()).collect()
    }

    fn shape_argument(&self) -> String {
        self.shape().iter().map(u64::to_string).collect::<Vec<_>>().join(",")
    }

    fn input(&self) -> Option<PathBuf> {
        self.text("input").map(|name| self.folder.join(name))
    }

    fn out_name(&self) -> &'static str {
        if self.text("out") == Some("npy") { "out.npy" } else { "out.bin" }
    }

    fn argv(&self) -> Vec<String> {
        self.list("argv").iter().map(|v| v.as_str().unwrap().to_owned()).collect()
    }

    /// The arguments that the README of the goldens prescribes.
    fn arguments(&self, out: &Path) -> Vec<String> {
        let mut arguments = vec![self.command().to_owned()];
        let mut push = |key: &str, value: String| arguments.extend([key.to_owned(), value]);
        let input = self.input();
        let raw = input.as_ref().is_none_or(|path| path.extension().is_some_and(|e| e == "bin"));
        let npy = input.as_ref().is_some_and(|path| path.extension().is_some_and(|e| e == "npy"));
        if let Some(to) = self.text("to") {
            push("--to", to.to_owned());
        }
        if let Some(from) = self.text("from") {
            push("--from", from.to_owned());
        }
        if raw || npy && self.dtype() == "bf16" {
            push("--dtype", self.dtype().to_owned());
        }
        if raw {
            push("--shape", self.shape_argument());
        }
        if let Some(pad) = self.get("pad_value") {
            push("--pad-value", pad.to_string());
        }
        if self.command() == "convert" {
            push("--out", out.join(self.out_name()).display().to_string());
            arguments.insert(1, input.unwrap().display().to_string());
        } else {
            arguments.push("--json".to_owned());
        }
        arguments.extend(self.argv());
        arguments
    }

    /// The arguments of the way back.
    fn arguments_back(&self, out: &Path) -> Vec<String> {
        let mlir = match self.dtype() {
            unsigned if unsigned.starts_with('u') => format!("ui{}", &unsigned[1..]),
            other => other.to_owned(),
        };
        let extents: String = self.shape().iter().map(|n| format!("{n}x")).collect();
        let mut arguments = vec![
            "convert".to_owned(),
            out.join(self.out_name()).display().to_string(),
            "--from".to_owned(),
            self.text("to").unwrap().to_owned(),
            "--to".to_owned(),
            format!("memref<{extents}{mlir}>"),
            "--dtype".to_owned(),
            self.dtype().to_owned(),
            "--shape".to_owned(),
            self.shape_argument(),
            "--out".to_owned(),
            out.join("back.bin").display().to_string(),
        ];
        let argv = self.argv();
        if let Some(at) = argv.iter().position(|a| a == "--device") {
            arguments.extend(argv[at..at + 2].iter().cloned());
        }
        arguments
    }

    /// The raw elements of the input file.
    fn elements(&self) -> Vec<u8> {
        let path = self.input().unwrap();
        let bytes = fs::read(&path).unwrap();
        if path.extension().is_some_and(|e| e == "npy") {
            npy_parts(&bytes).unwrap().1.to_vec()
        } else {
            bytes
        }
    }
}

/// Header text and elements of an `.npy` file.
fn npy_parts(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let rest = bytes.strip_prefix(b"\x93NUMPY\x01\x00")?;
    let (len, rest) = rest.split_first_chunk::<2>()?;
    let (header, elements) = rest.split_at_checked(u16::from_le_bytes(*len).into())?;
    Some((std::str::from_utf8(header).ok()?, elements))
}

// ---------------------------------------------------------------------------------------------------------- roads

/// What a road did with a case.
#[derive(Default)]
struct Outcome {
    /// The exit status; `None` when it was ended by a signal, or by us because it did not end.
    status: Option<i32>,
    stdout: String,
    stderr: String,
    /// Every file that was left, by name.
    files: Vec<(String, Vec<u8>)>,
}

impl Outcome {
    fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.iter().find(|f| f.0 == name).map(|f| f.1.as_slice())
    }
}

/// The command line program, in a process of its own.
fn binary(case: &Case, scratch: &Path) -> Option<Outcome> {
    let out = scratch.join("out");
    fs::create_dir(&out).unwrap();
    let mut outcome = spawn(&case.arguments(&out), scratch);
    if outcome.status == Some(0) && case.flag("round_trip") {
        let back = spawn(&case.arguments_back(&out), scratch);
        outcome.status = back.status;
        outcome.stderr += &back.stderr;
    }
    for entry in fs::read_dir(&out).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        outcome.files.push((name, fs::read(entry.path()).unwrap()));
    }
    Some(outcome)
}

/// The library in this process: conversions between two layouts that texts describe. Each plan is executed,
/// interpreted with every access checked and every write counted, and compared with the reference that never sees it.
fn library(case: &Case, _scratch: &Path) -> Option<Outcome> {
    if case.command() != "convert" || case.text("to").is_none() {
        return None;
    }
    Some(match in_process(case) {
        Ok(files) => Outcome { status: Some(0), files, ..Outcome::default() },
        Err(error) => {
            let status = if matches!(error, Error::Io { .. } | Error::Unverified { .. }) { 1 } else { 2 };
            Outcome { status: Some(status), stderr: error.diagnostic(), ..Outcome::default() }
        }
    })
}

fn in_process(case: &Case) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let argv = case.argv();
    let option = |name: &str| argv.iter().position(|a| a == name).map(|at| argv[at + 1].as_str());
    let path = case.input().unwrap();
    let source = Source::open(&path)?;
    let dtype = DType::from_name(case.dtype()).unwrap();
    let array = match path.extension().unwrap().to_str().unwrap() {
        "npy" => npy::read(&source, (dtype == DType::Bf16).then_some(dtype))?,
        "safetensors" => safetensors::read(&source, option("--tensor"))?,
        _ => {
            let bytes = source.bytes(0..source.len())?;
            HostArray { tensor: Tensor { shape: case.shape(), dtype }, order: Order::RowMajor, bytes }
        }
    };
    let tensor = &array.tensor;
    let dense = Memref::of(tensor);
    let dense = dense.to_layout(tensor, &Placement::default())?;
    let device: Option<Device> = option("--device").map(str::parse).transpose()?;
    let mesh: Option<Mapper> = option("--mesh").map(str::parse).transpose()?;
    let pad_value = case.get("pad_value").map(|v| v.as_f64().unwrap());
    let placement = Placement { device: device.as_ref(), mesh: mesh.as_ref(), pad_value };
    let to = layout(case.text("to").unwrap(), tensor, &placement)?;
    let from = match case.text("from") {
        Some(from) => layout(from, tensor, &Placement::default())?,
        None => dense.clone(),
    };
    let rounding = if option("--rounding") == Some("device") { Rounding::Device } else { Rounding::Host };
    let options = Options::default().with_rounding(rounding);
    let mut out = convert(&from, &to, &options, &array.bytes)?;
    if case.flag("round_trip") {
        let back = convert(&to, &dense, &options, &out)?;
        return Ok(vec![(case.out_name().to_owned(), out), ("back.bin".to_owned(), back)]);
    }
    if let (Some(_), Format::Plain(dtype)) = (case.text("npy_dtype"), to.format()) {
        let mut file = npy::header(&Tensor { dtype, ..tensor.clone() }, Order::RowMajor);
        file.append(&mut out);
        out = file;
    }
    Ok(vec![(case.out_name().to_owned(), out)])
}

/// The layout of a text, which must also print as a text that means the same.
fn layout(text: &str, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout, Error> {
    let descriptor: Descriptor = text.parse()?;
    assert_eq!(descriptor.to_string().parse(), Ok(descriptor.clone()), "{text}");
    descriptor.layout(tensor, placement)
}

/// Converts along three ways that must agree.
fn convert(from: &Layout, to: &Layout, options: &Options, source: &[u8]) -> Result<Vec<u8>, Error> {
    let plan = Plan::compile(from, to, options)?;
    assert!(plan.nests() <= 300, "{} nests", plan.nests());
    let interpreted = run::interpret(&plan, source)?;
    let once = interpreted.writes.iter().all(|&count| count == 1);
    let mut executed = vec![0xa5; plan.destination_bytes()];
    plan.execute(source, &mut executed)?;
    let reference = run::reference(from, to, options, source)?;
    let what = if !once {
        "a byte was not written exactly once"
    } else if interpreted.bytes != reference {
        "interpreter and reference differ"
    } else if executed != reference {
        "executor and reference differ"
    } else {
        return Ok(executed);
    };
    Err(Error::Unverified { fact: "test", what: what.to_owned() })
}

/// The program; by an emulator, where `TILEWRIGHT_RUNNER` names one because the tests were built for another processor.
fn program() -> Command {
    let program = env!("CARGO_BIN_EXE_tilewright");
    match std::env::var_os("TILEWRIGHT_RUNNER") {
        None => Command::new(program),
        Some(runner) => {
            let mut command = Command::new(runner);
            command.arg(program);
            command
        }
    }
}

fn spawn(arguments: &[String], scratch: &Path) -> Outcome {
    let (out, err) = (scratch.join("stdout"), scratch.join("stderr"));
    let mut child = program()
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(File::create(&out).unwrap())
        .stderr(File::create(&err).unwrap())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_micros(500));
    };
    let read = |path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    Outcome { status, stdout: read(&out), stderr: read(&err), files: Vec::new() }
}

/// A command line for a shell in the repository's root.
fn command_line(arguments: &[String]) -> String {
    let mut line = "cargo run -q --".to_owned();
    for argument in arguments {
        let root = format!("{}/", repository().display());
        let argument = argument.strip_prefix(root.as_str()).unwrap_or(argument);
        let _ = write!(line, " '{}'", argument.replace('\'', r"'\''"));
    }
    line
}

// -------------------------------------------------------------------------------------------------------- judging

fn judge(case: &Case, outcome: &Outcome) -> Result<(), String> {
    if case.flag("expect_error") {
        return judge_refusal(case, outcome);
    }
    if outcome.status != Some(0) {
        return Err(format!("exit status {}, stderr: {}", shown(outcome.status), outcome.stderr.trim_end()));
    }
    if case.command() != "convert" {
        return judge_json(case, &outcome.stdout);
    }
    judge_bytes(case, outcome)?;
    let mut names: Vec<&str> = outcome.files.iter().map(|f| f.0.as_str()).collect();
    names.sort_unstable();
    let expected =
        if case.flag("round_trip") { vec!["back.bin", case.out_name()] } else { vec![case.out_name()] };
    if names != expected {
        return Err(format!("files left: {names:?}, expected {expected:?}"));
    }
    if case.flag("round_trip") {
        let back = outcome.file("back.bin").unwrap();
        same(back, &case.elements()).map_err(|what| format!("round trip: {what}"))?;
    }
    Ok(())
}

fn shown(status: Option<i32>) -> String {
    status.map_or("none (a signal, or it did not end in time)".to_owned(), |s| s.to_string())
}

fn judge_refusal(case: &Case, outcome: &Outcome) -> Result<(), String> {
    let allowed: Vec<i64> = match case.get("exit") {
        Some(_) => case.list("exit").iter().map(|v| v.as_i64().unwrap()).collect(),
        None => vec![2],
    };
    if !outcome.status.is_some_and(|s| allowed.contains(&s.into())) {
        let status = shown(outcome.status);
        return Err(format!(
            "exit status {status}, expected {allowed:?}; stderr: {}",
            outcome.stderr.trim_end()
        ));
    }
    if outcome.stderr.trim().is_empty() {
        return Err("no message on stderr".to_owned());
    }
    for wanted in case.list("must_mention") {
        let wanted = wanted.as_str().unwrap();
        if !mentions(&outcome.stderr, wanted) {
            return Err(format!("the message does not mention {wanted}: {}", outcome.stderr.trim_end()));
        }
    }
    match outcome.files.first() {
        Some((name, _)) => Err(format!("{name} was left behind")),
        None => Ok(()),
    }
}

/// Whether `text` contains `wanted`, a shape in any of its usual spellings, as a whole number or shape.
fn mentions(text: &str, wanted: &str) -> bool {
    let parts: Vec<&str> = wanted.split('x').collect();
    let is_shape =
        parts.len() > 1 && parts.iter().all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
    if !is_shape {
        return text.contains(wanted);
    }
    let spellings = [
        wanted.to_owned(),
        parts.join(" x "),
        format!("[{}]", parts.join(", ")),
        format!("({})", parts.join(", ")),
        format!("[{}]", parts.join(",")),
        format!("({})", parts.join(",")),
    ];
    spellings.iter().any(|spelling| {
        text.match_indices(spelling.as_str()).any(|(at, found)| {
            // `18x32` is not mentioned by `118x32`, `2x18x32` or `18x32x1`.
            let (before, after) = (&text[..at], &text[at + found.len()..]);
            let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
            let (mut left, mut right) = (before.chars().rev(), after.chars());
            let joined_left =
                before.ends_with('x') && digit(left.nth(1)) || digit(before.chars().next_back());
            let joined_right = after.starts_with('x') && digit(right.nth(1)) || digit(after.chars().next());
            !joined_left && !joined_right
        })
    })
}

fn judge_json(case: &Case, stdout: &str) -> Result<(), String> {
    let printed: Value = serde_json::from_str(stdout)
        .map_err(|e| format!("stdout is no JSON ({e}): {}", stdout.trim_end()))?;
    if let Some(expected) = case.get("expect_json") {
        contains(&printed, expected)?;
    }
    let choices = case.list("expect_json_any");
    let refusals: Vec<String> =
        choices.iter().filter_map(|choice| contains(&printed, choice).err()).collect();
    if refusals.len() == choices.len() && !choices.is_empty() {
        return Err(format!("none of the accepted objects was printed: {}", refusals.join("; ")));
    }
    Ok(())
}

/// Whether each key of `expected` is in `printed` with its value.
fn contains(printed: &Value, expected: &Value) -> Result<(), String> {
    for (key, value) in expected.as_object().unwrap() {
        match printed.get(key) {
            None => return Err(format!("`{key}` is missing, expected {value}")),
            Some(found) if !matches(found, value) => {
                return Err(format!("`{key}` is {found}, expected {value}"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Equality in which a null inside a list stands for any number.
fn matches(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len()
                && found.iter().zip(expected).all(|(f, e)| e.is_null() && f.is_number() || matches(f, e))
        }
        _ => found == expected,
    }
}

fn judge_bytes(case: &Case, outcome: &Outcome) -> Result<(), String> {
    let written =
        outcome.file(case.out_name()).ok_or_else(|| format!("{} was not written", case.out_name()))?;
    let bytes = match case.text("npy_dtype") {
        Some(dtype) => npy_elements(written, dtype, &case.shape())?,
        None => written,
    };
    let hash = sha256(bytes);
    let also = case.list("also_sha256");
    if case.text("expect_sha256") == Some(&hash) || also.iter().any(|h| h.as_str() == Some(&hash)) {
        return Ok(());
    }
    let file = |key: &str| case.text(key).map(|name| fs::read(case.folder.join(name)).unwrap());
    if file("also_file").is_some_and(|also| also == bytes) {
        return Ok(());
    }
    if let Some(expected) = file("expect_file") {
        same(bytes, &expected)?;
    }
    let (expected, len) = (case.text("expect_sha256").unwrap(), case.get("expect_len").unwrap());
    Err(format!("{} bytes with SHA-256 {hash}, expected {len} with {expected}", bytes.len()))
}

/// The elements of an `.npy` file, after its header has been compared with what numpy would write.
fn npy_elements<'a>(file: &'a [u8], dtype: &str, shape: &[u64]) -> Result<&'a [u8], String> {
    let (header, elements) = npy_parts(file).ok_or("the output is no .npy file of version 1.0")?;
    let descr = match dtype {
        "f32" => "<f4",
        "bf16" => "<u2",
        other => panic!("the harness does not know the npy name of {other}"),
    };
    let extents: Vec<String> = shape.iter().map(u64::to_string).collect();
    let expected =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}), }}", extents.join(", "));
    if header.trim_end() != expected {
        return Err(format!("npy header {}, expected {expected}", header.trim_end()));
    }
    Ok(elements)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

/// Equality that says where it ends.
fn same(found: &[u8], expected: &[u8]) -> Result<(), String> {
    let Some(at) = (0..found.len().max(expected.len())).find(|&i| found.get(i) != expected.get(i)) else {
        return Ok(());
    };
    let differ = found.iter().zip(expected).filter(|(f, e)| f != e).count();
    let byte = |bytes: &[u8]| bytes.get(at).map_or("none".to_owned(), |b| format!("0x{b:02x}"));
    Err(format!(
        "first difference at byte {at}: {}, expected {} ({differ} bytes differ, {} bytes given, {} expected)",
        byte(found),
        byte(expected),
        found.len(),
        expected.len()
    ))
}

// ------------------------------------------------------------------------------------------------ the judge judged

mod harness {
    use super::*;

    fn case(json: &str) -> Case {
        let json: Map<String, Value> = serde_json::from_str(json).unwrap();
        Case { folder: root().join("host_memref"), json }
    }

    /// A case of the host arrays and the outcome that satisfies it.
    fn right() -> (Case, Outcome) {
        let case = load("host_memref").into_iter().find(|c| c.id() == "host_memref/perm3_120").unwrap();
        let bytes = fs::read(case.folder.join(case.text("expect_file").unwrap())).unwrap();
        let files = vec![("out.bin".to_owned(), bytes), ("back.bin".to_owned(), case.elements())];
        (case, Outcome { status: Some(0), files, ..Outcome::default() })
    }

    fn complaint(case: &Case, outcome: &Outcome) -> String {
        judge(case, outcome).unwrap_err()
    }

    #[test]
    fn every_family_and_every_line_is_counted() {
        let mut folders: Vec<String> = fs::read_dir(root())
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_type().unwrap().is_dir())
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        folders.sort();
        assert_eq!(folders, FAMILIES.map(|f| f.0));
        for (family, count) in FAMILIES {
            let text = fs::read_to_string(root().join(family).join("cases.json")).unwrap();
            assert_eq!(text.lines().filter(|line| line.contains("\"id\": ")).count(), count, "{family}");
            let cases = load(family);
            assert_eq!(cases.len(), count, "{family}");
            for case in &cases {
                assert!(case.id().starts_with(&format!("{family}/")));
                let judged = ["expect_error", "expect_sha256", "expect_json", "expect_json_any"];
                assert!(judged.iter().any(|key| case.get(key).is_some()), "{} expects nothing", case.id());
            }
        }
    }

    #[test]
    fn expected_files_have_their_hashes() {
        for (family, _) in FAMILIES {
            for case in load(family) {
                if let Some(name) = case.text("expect_file") {
                    let bytes = fs::read(case.folder.join(name)).unwrap();
                    assert_eq!(sha256(&bytes), case.text("expect_sha256").unwrap(), "{}", case.id());
                    assert_eq!(bytes.len() as u64, case.get("expect_len").unwrap().as_u64().unwrap());
                }
            }
        }
    }

    #[test]
    fn the_right_outcome_passes() {
        let (case, outcome) = right();
        judge(&case, &outcome).unwrap();
    }

    #[test]
    fn a_wrong_byte_is_reported() {
        let (case, mut outcome) = right();
        outcome.files[0].1[17] ^= 1;
        assert!(complaint(&case, &outcome).starts_with("first difference at byte 17: "));
        let (_, mut outcome) = right();
        outcome.files[0].1.push(0);
        assert!(complaint(&case, &outcome).starts_with("first difference at byte 420: 0x00, expected none"));
        let (_, mut outcome) = right();
        outcome.files[1].1.truncate(5);
        assert!(complaint(&case, &outcome).starts_with("round trip: first difference at byte 5: none"));
    }

    #[test]
    fn a_wrong_hash_is_reported() {
        let (mut case, mut outcome) = right();
        case.json.remove("expect_file");
        judge(&case, &outcome).unwrap();
        outcome.files[0].1[0] ^= 0x80;
        assert!(complaint(&case, &outcome).starts_with("420 bytes with SHA-256"));
    }

    #[test]
    fn other_right_answers_pass() {
        let cases = load("bfp_unpack");
        let case = cases.iter().find(|c| c.get("also_file").is_some()).unwrap();
        for key in ["expect_file", "also_file"] {
            let bytes = fs::read(case.folder.join(case.text(key).unwrap())).unwrap();
            let files = vec![("out.bin".to_owned(), bytes)];
            judge(case, &Outcome { status: Some(0), files, ..Outcome::default() }).unwrap();
        }
    }

    #[test]
    fn missing_and_surplus_files_are_reported() {
        let (case, mut outcome) = right();
        outcome.files.push((".tilewright-x.part".to_owned(), Vec::new()));
        assert!(complaint(&case, &outcome).contains(".part"));
        outcome.files.clear();
        assert_eq!(complaint(&case, &outcome), "out.bin was not written");
    }

    #[test]
    fn a_failure_and_a_hang_are_reported() {
        let (case, mut outcome) = right();
        outcome.status = Some(101);
        assert!(complaint(&case, &outcome).starts_with("exit status 101"));
        outcome.status = None;
        assert!(complaint(&case, &outcome).starts_with("exit status none"));
    }

    #[test]
    fn npy_headers_are_compared() {
        let case = load("host_memref").into_iter().find(|c| c.id() == "host_memref/to_npy_bf16").unwrap();
        let elements = fs::read(case.folder.join(case.text("expect_file").unwrap())).unwrap();
        let with = |header: &str| {
            let mut file = b"\x93NUMPY\x01\x00".to_vec();
            file.extend((header.len() as u16).to_le_bytes());
            file.extend(header.as_bytes());
            file.extend(&elements);
            judge(
                &case,
                &Outcome { status: Some(0), files: vec![("out.npy".to_owned(), file)], ..Outcome::default() },
            )
        };
        with("{'descr': '<u2', 'fortran_order': False, 'shape': (5, 6), }   \n").unwrap();
        with("{'descr': '<f2', 'fortran_order': False, 'shape': (5, 6), }\n").unwrap_err();
        with("{'descr': '<u2', 'fortran_order': False, 'shape': (6, 5), }\n").unwrap_err();
    }

    #[test]
    fn json_values_are_compared() {
        let case = case(
            r#"{"id": "x", "cmd": "explain", "expect_json": {"grid": [1, 2], "stride_map": [null, -1], "tile": null}}"#,
        );
        let judged = |stdout: &str| {
            judge(&case, &Outcome { status: Some(0), stdout: stdout.to_owned(), ..Outcome::default() })
        };
        judged(r#"{"grid": [1, 2], "stride_map": [64, -1], "tile": null, "more": 1}"#).unwrap();
        for (wrong, key) in [
            (r#"{"grid": [1, 3], "stride_map": [64, -1], "tile": null}"#, "grid"),
            (r#"{"grid": [1, 2], "stride_map": [64, 1], "tile": null}"#, "stride_map"),
            (r#"{"grid": [1, 2], "stride_map": ["a", -1], "tile": null}"#, "stride_map"),
            (r#"{"grid": [1, 2], "stride_map": [-1], "tile": null}"#, "stride_map"),
            (r#"{"grid": [1, 2], "stride_map": [64, -1]}"#, "tile"),
            (r#"{"grid": [1, 2], "stride_map": [64, -1], "tile": [32, 32]}"#, "tile"),
            ("grid: 1, 2", "no JSON"),
        ] {
            let complaint = judged(wrong).unwrap_err();
            assert!(complaint.contains(key), "{complaint}");
        }
    }

    #[test]
    fn one_of_several_objects_is_enough() {
        let case = case(r#"{"id": "x", "cmd": "lower", "expect_json_any": [{"a": 1}, {"a": 2, "b": [0]}]}"#);
        let judged = |stdout: &str| {
            judge(&case, &Outcome { status: Some(0), stdout: stdout.to_owned(), ..Outcome::default() })
        };
        judged(r#"{"a": 1}"#).unwrap();
        judged(r#"{"a": 2, "b": [0]}"#).unwrap();
        judged(r#"{"a": 2, "b": [1]}"#).unwrap_err();
        judged("{}").unwrap_err();
    }

    #[test]
    fn refusals_are_judged() {
        let case = case(
            r#"{"id": "x", "input": "a.bin", "expect_error": true, "must_mention": ["9x2", "TILE"], "exit": [1, 2]}"#,
        );
        let outcome = |status, stderr: &str| Outcome {
            status: Some(status),
            stderr: stderr.to_owned(),
            ..Outcome::default()
        };
        judge(&case, &outcome(2, "TILE (9, 2)")).unwrap();
        judge(&case, &outcome(1, "TILE [9, 2]")).unwrap();
        assert!(complaint(&case, &outcome(0, "TILE 9x2")).starts_with("exit status 0"));
        assert!(complaint(&case, &outcome(101, "TILE 9x2")).starts_with("exit status 101"));
        assert!(complaint(&case, &outcome(2, "TILE 9x22")).contains("does not mention 9x2"));
        assert!(complaint(&case, &outcome(2, "9x2")).contains("does not mention TILE"));
        assert_eq!(complaint(&case, &outcome(2, " \n")), "no message on stderr");
        let mut left = outcome(2, "TILE 9x2");
        left.files.push(("out.bin".to_owned(), Vec::new()));
        assert_eq!(complaint(&case, &left), "out.bin was left behind");
    }

    #[test]
    fn shapes_are_found_whole() {
        for text in ["memref<18x32xf32>", "is 18x32.", "[18, 32]", "(18, 32)", "18 x 32", "[18,32]"] {
            assert!(mentions(text, "18x32"), "{text}");
        }
        for text in ["118x32", "18x322", "2x18x32", "18x32x1", "[18, 32, 1]", "18, 32"] {
            assert!(!mentions(text, "18x32"), "{text}");
        }
    }

    #[test]
    fn arguments_follow_the_contract() {
        let find = |family: &str, id: &str| load(family).into_iter().find(|c| c.id() == id).unwrap();
        let line = |case: &Case| command_line(&case.arguments("OUT".as_ref()));
        assert_eq!(
            line(&find("host_memref", "host_memref/to_npy_bf16")),
            "cargo run -q -- 'convert' 'tests/data/goldens/host_memref/in_4a01f875a8f3.bin' '--to' 'memref<5x6xbf16>' \
             '--from' 'ttnn(dtype=bfloat16, layout=TILE, tile=(32, 32))' '--dtype' 'bf16' '--shape' '5,6' \
             '--out' 'OUT/out.npy'"
        );
        assert_eq!(
            line(&find("host_memref", "host_memref/row_gap_pad")),
            "cargo run -q -- 'convert' 'tests/data/goldens/host_memref/in_a27ef54038e9.npy' \
             '--to' 'memref<3x10xf32, strided<[16, 1], offset: 0>>' '--pad-value' '2.5' '--out' 'OUT/out.bin'"
        );
        assert_eq!(
            line(&find("spyre", "spyre/explain_scalar_f16")),
            "cargo run -q -- 'explain' '--to' 'SpyreTensorLayout((), torch.float16)' '--dtype' 'f16' '--shape' '' '--json'"
        );
        let back = find("device", "device/8x8_full").arguments_back("OUT".as_ref());
        assert_eq!(
            back[4..12].join(" "),
            "--to memref<16x24xui16> --dtype u16 --shape 16,24 --out OUT/back.bin"
        );
        assert_eq!(back[12], "--device");
    }
}
