//! Tensor files against those that the real ttnn wrote: see `tests/data/tensorbin/README.md`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tilewright::dtype::{DType, Format};
use tilewright::family::host::strided::Memref;
use tilewright::family::tenstorrent::mesh::{Mapper, MeshPlacement as Cut};
use tilewright::family::tenstorrent::ttnn::Ttnn;
use tilewright::family::{Descriptor, Placement, Tensor};
use tilewright::{Error, Layout, Options, Plan};
use tilewright_files::tensorbin::{Payload, TensorBin, Writer};
use tilewright_files::{HostArray, Order, Source, npy};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/tensorbin")
}

fn cases(folder: &str) -> Vec<Value> {
    let text = fs::read_to_string(data().join(folder).join("cases.json")).unwrap();
    serde_json::from_str::<Vec<Value>>(&text).unwrap()
}

fn name(case: &Value) -> &str {
    case["name"].as_str().unwrap()
}

fn ttnn(text: &str) -> Ttnn {
    match text.parse().unwrap() {
        Descriptor::Ttnn(ttnn) => ttnn,
        other => panic!("{other} is no ttnn layout"),
    }
}

fn dense(shape: &[u64], dtype: DType) -> Layout {
    let memref = Memref::new(shape, dtype);
    let tensor = Tensor { shape: shape.to_vec(), dtype };
    Descriptor::Memref(memref).layout(&tensor, &Placement::default()).unwrap()
}

fn convert(from: &Layout, to: &Layout, bytes: &[u8]) -> Vec<u8> {
    let plan = Plan::compile(from, to, &Options::default()).unwrap();
    let mut out = vec![0; plan.destination_bytes()];
    plan.execute(bytes, &mut out).unwrap();
    out
}

fn array<'a>(source: &'a Source<'_>) -> HostArray<'a> {
    npy::read(source, None).unwrap()
}

fn open(folder: &str, file: String) -> Source<'static> {
    Source::open(&data().join(folder).join(file)).unwrap()
}

/// The elements of a payload as a dense array of a type.
fn elements(payload: &Payload, source: &Source<'_>, dtype: DType) -> Vec<u8> {
    convert(&payload.layout, &dense(&payload.tensor.shape, dtype), &payload.bytes(source).unwrap())
}

/// A file with the stored copies of a tensor, and its payload.
fn written(file: &TensorBin, array: &HostArray<'_>) -> (Vec<u8>, Vec<u8>) {
    let whole = file.whole(None).unwrap();
    let stored = convert(&dense(&array.tensor.shape, array.tensor.dtype), &whole.layout, &array.bytes);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w.tensorbin");
    let mut writer = Writer::create(&path, file).unwrap();
    // In pieces that end anywhere.
    stored.chunks(4099).for_each(|piece| writer.write(piece).unwrap());
    writer.commit().unwrap();
    (fs::read(path).unwrap(), stored)
}

/// That a written file is read as it was meant, begins shards at pages and has zeros between them.
fn check_written(name: &str, bytes: &[u8], meant: &TensorBin, stored: &[u8]) {
    let source = Source::from_slice(name, bytes);
    let read = TensorBin::read(&source).unwrap();
    assert_eq!((&read.spec, &read.mesh_shape), (&meant.spec, &meant.mesh_shape), "{name}");
    assert_eq!(read.topology, meant.topology, "{name}");
    assert_eq!(read.payload % 4096, 0, "{name}");
    let ranges = read.stored();
    assert!(ranges.iter().all(|range| range.start % 4096 == 0), "{name}: {ranges:?}");
    assert_eq!(ranges.last().unwrap().end, bytes.len() as u64, "{name}");
    let mut held: Vec<u8> = Vec::new();
    let mut end = read.payload as usize;
    for range in ranges {
        let (begin, len) = (range.start as usize, (range.end - range.start) as usize);
        assert!(bytes[end..begin].iter().all(|&b| b == 0), "{name}: bytes between shards");
        held.extend(&bytes[begin..begin + len]);
        end = begin + len;
    }
    assert!(held == stored, "{name}: another payload");
}

#[test]
fn values_and_payloads_of_single_devices() {
    let cases = cases("");
    assert_eq!(cases.len(), 35);
    for case in &cases {
        let (name, to) = (name(case), case["to"].as_str().unwrap());
        let source = open("", format!("{name}.tensorbin"));
        let file = TensorBin::read(&source).unwrap();
        let whole = file.whole(None).unwrap();
        let payload = whole.bytes(&source).unwrap();

        let back = match data().join(format!("{name}.back.npy")) {
            path if path.exists() => Source::open(&path).unwrap(),
            _ => open("", format!("{name}.npy")),
        };
        let back = array(&back);
        assert_eq!(whole.tensor.shape, back.tensor.shape, "{name}");
        assert!(elements(&whole, &source, back.tensor.dtype) == *back.bytes, "{name}: other values");
        assert_eq!(file.shard(&[0, 0]).unwrap().bytes(&source).unwrap(), payload, "{name}");

        let input = open("", format!("{name}.npy"));
        let mut input = array(&input);
        if let Some(through) = case["through"].as_str().and_then(DType::from_name) {
            let [from, to] = [input.tensor.dtype, through].map(|dtype| dense(&input.tensor.shape, dtype));
            input.bytes = convert(&from, &to, &input.bytes).into();
            input.tensor.dtype = through;
        }
        let mut ours = TensorBin::new(&input.tensor, &ttnn(to), None).unwrap();
        if to.contains("memory=") && !name.starts_with("x_dram") {
            assert_eq!(ours.spec.memory, file.spec.memory, "{name}");
        }
        // The texts of the others do not say all of it.
        ours.spec.memory = file.spec.memory.clone();
        assert_eq!(ours.spec, file.spec, "{name}");
        assert_eq!((&ours.mesh_shape, &ours.topology), (&file.mesh_shape, &file.topology), "{name}");
        let (bytes, stored) = written(&ours, &input);
        assert!(stored == *payload, "{name}: another payload");
        check_written(name, &bytes, &ours, &stored);
    }
}

/// The part of a dense array that a device has, by the definition of the placements.
fn part(array: &HostArray<'_>, file: &TensorBin, device: usize) -> Vec<u8> {
    let (shape, local) = (&array.tensor.shape, &file.spec.shape);
    let mut first = vec![0; shape.len()];
    let mut rest = device as u64;
    let topology = &file.topology;
    for (&n, placement) in topology.distribution.iter().zip(&topology.placements).rev() {
        if let Cut::Shard(dim) = *placement {
            let d = dim.rem_euclid(shape.len() as i64) as usize;
            first[d] = rest % n * local[d];
        }
        rest /= n;
    }
    let size = array.tensor.dtype.size();
    let mut bytes = Vec::new();
    for number in 0..local.iter().product::<u64>() {
        let (mut rest, mut at, mut step) = (number, 0, 1);
        for d in (0..shape.len()).rev() {
            at += (first[d] + rest % local[d]) * step;
            rest /= local[d];
            step *= shape[d];
        }
        bytes.extend(&array.bytes[at as usize * size..][..size]);
    }
    bytes
}

#[test]
fn values_and_payloads_of_meshes() {
    let mut rewritten = 0;
    for case in cases("mesh").iter().filter(|case| case["error"].is_null()) {
        let name = name(case);
        let source = open("mesh", format!("{name}.tensorbin"));
        let file = TensorBin::read(&source).unwrap();
        file.check_replicas(&source).unwrap();
        let input = open("mesh", format!("{name}.npy"));
        let input = array(&input);
        let whole = file.whole(None).unwrap();
        assert_eq!(whole.tensor.shape, input.tensor.shape, "{name}");
        let local: Vec<Vec<u64>> = serde_json::from_value(case["local"].clone()).unwrap();
        assert_eq!(local.len(), file.topology.coordinates.len(), "{name}");
        if matches!(file.spec.format, Format::Plain(DType::F32)) {
            assert!(elements(&whole, &source, DType::F32) == *input.bytes, "{name}: other values");
        }
        for (device, (coordinate, local)) in file.topology.coordinates.iter().zip(&local).enumerate() {
            let shard = file.shard(coordinate).unwrap();
            assert_eq!(&shard.tensor.shape, local, "{name}");
            let stored = convert(&dense(local, DType::F32), &shard.layout, &part(&input, &file, device));
            assert!(stored == *shard.bytes(&source).unwrap(), "{name}: another shard on {coordinate:?}");
        }
        let Ok(mapper) = case["mesh"].as_str().unwrap().parse::<Mapper>() else { continue };
        let layout = ttnn(case["to"].as_str().unwrap());
        let Ok(ours) = TensorBin::new(&input.tensor, &layout, Some(&mapper)) else { continue };
        assert_eq!((&ours.spec, &ours.mesh_shape), (&file.spec, &file.mesh_shape), "{name}");
        assert_eq!(ours.topology, file.topology, "{name}");
        let (bytes, stored) = written(&ours, &input);
        assert!(stored == *whole.bytes(&source).unwrap(), "{name}: another payload");
        check_written(name, &bytes, &ours, &stored);
        rewritten += 1;
    }
    assert_eq!(rewritten, 6);
}

/// An example of a mesh: 8 rows of f32 on 2 by 4 devices, two rows for each device column.
fn rows() -> (TensorBin, Vec<u8>) {
    let tensor = Tensor { shape: vec![8, 4], dtype: DType::F32 };
    let mapper = "ShardTensor2dMesh(mesh_shape=(2, 4), dims=(None, 0))".parse().unwrap();
    let layout = ttnn("ttnn(dtype=float32, layout=ROW_MAJOR)");
    let bytes = (0..32).flat_map(|i| (i as f32).to_le_bytes()).collect();
    (TensorBin::new(&tensor, &layout, Some(&mapper)).unwrap(), bytes)
}

/// A file with this payload.
fn with_payload(file: &TensorBin, payload: &[u8]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w.tensorbin");
    let mut writer = Writer::create(&path, file).unwrap();
    writer.write(payload).unwrap();
    assert!(matches!(writer.write(&[0]), Err(Error::Length { .. })));
    writer.commit().unwrap();
    fs::read(path).unwrap()
}

#[test]
fn parts_of_a_mesh() {
    let (mut file, bytes) = rows();
    file.keep(5..7).unwrap();
    assert_eq!(file.stored().len(), 2);
    let whole = file.whole(None).unwrap();
    let there: Vec<bool> = whole.parts.iter().map(Option::is_some).collect();
    assert_eq!(there, [false, true, true, false]);
    assert!(matches!(whole.complete(), Err(Error::Value { .. })));

    let part = with_payload(&file, &bytes[32..96]);
    let source = Source::from_slice("part", &part);
    let read = TensorBin::read(&source).unwrap();
    assert_eq!(read, file);
    assert_eq!(*read.shard(&[1, 2]).unwrap().bytes(&source).unwrap(), bytes[64..96]);
    let missing = read.shard(&[0, 0]).unwrap_err().to_string();
    assert!(missing.contains("[0, 0]") && missing.contains("[1, 1], [1, 2]"), "{missing}");
    assert!(matches!(file.keep(100..200), Err(Error::Value { .. })));
}

#[test]
fn replicas_that_differ() {
    // The file of a writer that gives every device bytes of its own.
    let (mut apart, bytes) = rows();
    for (shard, k) in apart.shards.iter_mut().zip(0..) {
        shard.range = k * 32..(k + 1) * 32;
    }
    let twice = [bytes.as_slice(), bytes.as_slice()].concat();
    let mut wrong = twice.clone();
    wrong[200] ^= 1;
    for (payload, equal) in [(twice, true), (wrong, false)] {
        let file = with_payload(&apart, &payload);
        let source = Source::from_slice("apart", &file);
        let read = TensorBin::read(&source).unwrap();
        assert_eq!(read.stored().len(), 8);
        assert_eq!(read.check_replicas(&source).is_ok(), equal);
        let array = HostArray {
            tensor: Tensor { shape: vec![8, 4], dtype: DType::F32 },
            order: Order::RowMajor,
            bytes: bytes.as_slice().into(),
        };
        let whole = read.whole(None).unwrap();
        assert!(elements(&whole, &source, DType::F32) == *array.bytes);
    }
}

/// Older writers put the payload at multiples of 8; what this one writes has multiples of 4096.
#[test]
fn other_alignments() {
    let golden = fs::read(data().join("mesh/s23.tensorbin")).unwrap();
    let size = u64::from_le_bytes(golden[..8].try_into().unwrap()) as usize;
    let (header, payload) = (&golden[8..8 + size], &golden[8 + size..]);
    let used = header.iter().rposition(|&b| b != 0).unwrap() + 1;
    for alignment in [8, 64, 4096] {
        let size = (8 + used).next_multiple_of(alignment) - 8;
        let mut bytes = (size as u64).to_le_bytes().to_vec();
        bytes.extend(&header[..used]);
        bytes.resize(8 + size, 0);
        bytes.extend(payload);
        let source = Source::from_slice("t", &bytes);
        let whole = TensorBin::read(&source).unwrap().whole(None).unwrap();
        assert!(*whole.bytes(&source).unwrap() == *payload, "{alignment}");
    }
}

#[test]
fn what_the_file_cannot_hold() {
    for (shape, text, mention) in [
        (&[4, 4][..], "ttnn(dtype=bfloat2_b, layout=TILE)", "bfloat2_b"),
        (&[0, 4], "ttnn(dtype=float32, layout=ROW_MAJOR)", "0"),
        (&[1 << 33, 4], "ttnn(dtype=float32, layout=ROW_MAJOR)", "8589934592"),
    ] {
        let tensor = Tensor { shape: shape.to_vec(), dtype: DType::F32 };
        let refused = TensorBin::new(&tensor, &ttnn(text), None).unwrap_err().to_string();
        assert!(refused.contains(mention), "{refused}");
    }
    // 13 rows over 8 devices: ttnn refuses chunks of 2 and 1 too.
    let uneven = "ShardTensorToMesh(mesh_shape=(2, 4), dim=0)".parse().unwrap();
    let tensor = Tensor { shape: vec![13, 32], dtype: DType::F32 };
    let layout = ttnn("ttnn(dtype=float32, layout=ROW_MAJOR)");
    assert!(matches!(TensorBin::new(&tensor, &layout, Some(&uneven)), Err(Error::Value { .. })));
    let (mut file, _) = rows();
    file.shards[1].range.end += 1;
    let directory = tempfile::tempdir().unwrap();
    let refused = Writer::create(&directory.path().join("x.tensorbin"), &file);
    assert!(matches!(refused, Err(Error::Value { .. })));
}

/// Reads damaged bytes, which must be refused, or give what can be used.
fn try_damaged(bytes: &[u8]) {
    let source = Source::from_slice("t", bytes);
    match TensorBin::read(&source) {
        Ok(file) => {
            assert!(file.stored().iter().all(|r| r.start <= r.end && r.end <= bytes.len() as u64));
            let _ = file.check_replicas(&source);
            if let Ok(whole) = file.whole(None)
                && let Ok(all) = whole.bytes(&source)
            {
                assert_eq!(all.len() as u64, whole.layout.total_bytes());
            }
        }
        Err(error) => assert!(matches!(error, Error::Io { .. }), "{error}"),
    }
}

/// Whatever bytes a header has, it is read or refused, soon and without a panic.
#[test]
fn damaged_headers() {
    let mut tried = 0;
    for (folder, case) in cases("").iter().map(|c| ("", c)).chain(cases("mesh").iter().map(|c| ("mesh", c))) {
        let path = data().join(folder).join(format!("{}.tensorbin", name(case)));
        let Ok(golden) = fs::read(path) else { continue };
        let size = 8 + u64::from_le_bytes(golden[..8].try_into().unwrap()) as usize;
        let mut bytes = golden.clone();
        for at in 0..size {
            for value in [0, 1, 0x7F, 0x80, 0xFF, golden[at] ^ 4, golden[at].wrapping_add(1)] {
                bytes[at] = value;
                try_damaged(&bytes);
                tried += 1;
            }
            bytes[at] = golden[at];
        }
        for at in (0..size).step_by(4) {
            for value in [u32::MAX, i32::MAX as u32, 1 << 16, size as u32] {
                bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
                try_damaged(&bytes);
                tried += 1;
            }
            bytes[at..at + 4].copy_from_slice(&golden[at..at + 4]);
        }
        for len in (0..size).chain([golden.len() - 1]) {
            let refused = TensorBin::read(&Source::from_slice("t", &golden[..len])).unwrap_err().to_string();
            assert!(!refused.contains('\n'), "{refused}");
        }
    }
    assert!(tried > 100_000, "{tried}");
}
