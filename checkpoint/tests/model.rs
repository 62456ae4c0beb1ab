//! Models of each format, made here byte by byte, and what rules make of them.

mod common;

use std::fs;

use serde_json::json;
use tilewright::DType;
use tilewright_checkpoint::array;
use tilewright_checkpoint::model::{Encoding, Model};
use tilewright_checkpoint::rules::Rules;

use common::{gguf, ramp, safetensors};

fn all(array: &dyn array::Array) -> Vec<u8> {
    let tensor = array.tensor();
    let mut out = vec![0; tensor.shape.iter().product::<u64>() as usize * tensor.dtype.size()];
    array.read(0, &mut out).unwrap();
    // Any range alone is the same.
    let size = tensor.dtype.size();
    for (from, to) in [(0, 1), (1, 3), (out.len() / size / 3, out.len() / size)] {
        if to * size <= out.len() && from < to {
            let mut part = vec![0xEE; (to - from) * size];
            array.read((from * size) as u64, &mut part).unwrap();
            assert_eq!(part, out[from * size..to * size]);
        }
    }
    out
}

#[test]
fn sharded_safetensors_by_their_index() {
    let folder = tempfile::tempdir().unwrap();
    safetensors(
        &folder.path().join("a.safetensors"),
        &[("x", "F32", &[2, 3], ramp(24)), ("z", "BF16", &[4], ramp(8))],
    );
    safetensors(&folder.path().join("b.safetensors"), &[("y", "U8", &[5], ramp(5))]);
    let index = folder.path().join("model.safetensors.index.json");
    let map = json!({"weight_map": {"x": "a.safetensors", "y": "b.safetensors", "z": "a.safetensors"}});
    fs::write(&index, map.to_string()).unwrap();
    for path in [folder.path(), &index] {
        let model = Model::open(path).unwrap();
        let names: Vec<&str> = model.entries().iter().map(|e| e.name.as_str()).collect();
        assert_eq!(names, ["x", "z", "y"]);
        assert!(matches!(model.entries()[1].encoding, Encoding::Plain(DType::Bf16)));
        assert_eq!(all(&*array::open(&model.entries()[0]).unwrap()), ramp(24));
    }
    let wrong = json!({"weight_map": {"x": "a.safetensors", "w": "b.safetensors"}});
    fs::write(&index, wrong.to_string()).unwrap();
    let error = Model::open(&index).unwrap_err().to_string();
    assert!(error.contains("`w`"), "{error}");
    fs::write(&index, json!({"weight_map": {"x": "../a.safetensors"}}).to_string()).unwrap();
    assert!(Model::open(&index).is_err());
}

#[test]
fn damaged_safetensors_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    safetensors(&path, &[("x", "F32", &[2, 3], ramp(24)), ("y", "F32", &[2], ramp(8))]);
    let whole = fs::read(&path).unwrap();
    for len in 0..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        assert!(Model::open(&path).is_err(), "{len} bytes");
    }
    for at in 0..whole.len() {
        for bit in [0, 3, 7] {
            let mut changed = whole.clone();
            changed[at] ^= 1 << bit;
            fs::write(&path, &changed).unwrap();
            // Whatever it says, it is an error or tensors inside of the file.
            if let Ok(model) = Model::open(&path) {
                let inside = |e: &tilewright_checkpoint::model::Entry| {
                    e.data.start + e.data.bytes <= whole.len() as u64
                };
                assert!(model.entries().iter().all(inside));
            }
        }
    }
}

#[test]
fn gguf_tensors_decode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    // Each block of Q8_0: a scale of 1.0 and 32 codes.
    let block: Vec<u8> = [0, 0x3C].into_iter().chain(0..32).collect();
    let file = gguf(&[("a", 0, &[2, 2], ramp(16)), ("q", 8, &[3, 64], block.repeat(6))]);
    fs::write(&path, &file).unwrap();
    let model = Model::open(&path).unwrap();
    assert_eq!(model.entries()[1].shape, [3, 64]);
    assert_eq!(all(&*array::open(&model.entries()[0]).unwrap()), ramp(16));
    let decoded = all(&*array::open(&model.entries()[1]).unwrap());
    let expected: Vec<u8> = (0..192).flat_map(|i| ((i % 32) as f32).to_le_bytes()).collect();
    assert_eq!(decoded, expected);
    for len in 0..file.len() - 64 {
        fs::write(&path, &file[..len]).unwrap();
        assert!(Model::open(&path).is_err(), "{len} bytes");
    }
    for at in 0..file.len() - 400 {
        for bit in [0, 6] {
            let mut changed = file.clone();
            changed[at] ^= 1 << bit;
            fs::write(&path, &changed).unwrap();
            let _ = Model::open(&path);
        }
    }
}

#[test]
fn rules_stack_fuse_and_split() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let part = |k: u8| vec![k; 8];
    safetensors(
        &path,
        &[
            ("l.0.experts.1.w", "BF16", &[2, 2], part(1)),
            ("l.0.experts.0.w", "BF16", &[2, 2], part(0)),
            ("l.0.k.weight", "BF16", &[1, 4], part(11)),
            ("l.0.q.weight", "BF16", &[1, 4], part(10)),
            ("l.0.gate_up.weight", "BF16", &[4, 1], (0..8).collect()),
            ("codes_blocks", "U8", &[1, 2, 16], ramp(32)),
            ("codes_scales", "U8", &[1, 2], vec![127, 128]),
            ("fp8", "F8_E4M3", &[4, 4], vec![0x38; 16]),
            (
                "fp8_scale_inv",
                "F32",
                &[2, 2],
                [1_f32, 2.0, 3.0, 4.0].iter().flat_map(|v| v.to_le_bytes()).collect(),
            ),
        ],
    );
    let model = Model::open(&path).unwrap();
    assert_eq!(model.entries().len(), 7);
    let rules = Rules::parse(
        r#"
        [[rule]]
        name = "*"
        dtype = "bfloat8_b"
        [[rule]]
        name = "l.*.experts.*.w"
        dtype = "bfloat8_b"
        stack = "experts.*"
        [[rule]]
        name = "l.*.{q,k}.weight"
        dtype = "bfloat8_b"
        fuse = { into = "qk", parts = ["q", "k"] }
        [[rule]]
        name = "*.gate_up.weight"
        dtype = "bfloat8_b"
        split = [["gate", "0::2"], ["up", "1::2"]]
        "#,
    )
    .unwrap();
    let outputs = rules.apply(&model).unwrap();
    let made: Vec<(&str, Vec<u64>, Vec<u8>)> =
        outputs.iter().map(|o| (o.name.as_str(), o.array.tensor().shape.clone(), all(&*o.array))).collect();
    let find = |name: &str| made.iter().find(|m| m.0 == name).unwrap_or_else(|| panic!("{name} in {made:?}"));
    assert_eq!(find("l.0.experts.w").1, [2, 2, 2]);
    assert_eq!(find("l.0.experts.w").2, [part(0), part(1)].concat());
    assert_eq!(find("l.0.qk.weight").2, [part(10), part(11)].concat());
    assert_eq!(find("l.0.gate.weight").2, [0, 1, 4, 5]);
    assert_eq!(find("l.0.up.weight").2, [2, 3, 6, 7]);
    assert_eq!(find("codes").1, [1, 64]);
    // Blocks of 2 rows and 2 columns.
    let ones: Vec<f32> = find("fp8")
        .2
        .chunks(2)
        .map(|b| f32::from_bits(u32::from(b[1]) << 24 | u32::from(b[0]) << 16))
        .collect();
    let (top, bottom) = ([1.0, 1.0, 2.0, 2.0], [3.0, 3.0, 4.0, 4.0]);
    assert_eq!(ones, [top, top, bottom, bottom].concat());
    let missing = Rules::parse("[[rule]]\nname = \"fp8\"\ndtype = \"bfloat8_b\"\n").unwrap();
    assert!(missing.apply(&model).is_err());
    let unused =
        Rules::parse("[[rule]]\nname = \"*\"\nskip = true\n[[rule]]\nname = \"nothing\"\nskip = true\n")
            .unwrap();
    let error = unused.apply(&model).err().unwrap().to_string();
    assert!(error.contains("`nothing`"), "{error}");
}
