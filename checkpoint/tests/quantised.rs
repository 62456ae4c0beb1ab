//! Decoded blocks against what the projects that own the formats decode (`goldens.py` beside this file made them).

use serde_json::{Value, json};
use tilewright_checkpoint::array;
use tilewright_checkpoint::model::Model;
use tilewright_checkpoint::quantised::{BlockType, decode_mxfp4};

fn bytes(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().unwrap();
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

#[test]
fn blocks_equal_those_of_gguf() {
    let cases: Value = serde_json::from_str(include_str!("data/gguf_blocks.json")).unwrap();
    let cases = cases.as_object().unwrap();
    assert_eq!(cases.len(), 13);
    for (name, case) in cases {
        let block = BlockType::from_number(case["number"].as_u64().unwrap() as u32).unwrap();
        assert_eq!((block.name(), Some(block.elements() as u64)), (name.as_str(), case["elements"].as_u64()));
        for pair in case["blocks"].as_array().unwrap() {
            let mut values = vec![0; block.elements() * 4];
            block.decode(&bytes(&pair[0]), &mut values);
            assert_eq!(values, bytes(&pair[1]), "{name}");
        }
    }
}

#[test]
fn mxfp4_equals_that_of_transformers() {
    let case: Value = serde_json::from_str(include_str!("data/mxfp4.json")).unwrap();
    let (codes, scales) = (bytes(&case["codes"]), bytes(&case["scales"]));
    let mut values = vec![0; scales.len() * 64];
    decode_mxfp4(&codes, &scales, &mut values);
    assert_eq!(values, bytes(&case["values"]));
}

/// Through a file, for its scales are of blocks of 2 rows and 128 columns.
#[test]
fn fp8_equals_that_of_transformers() {
    let cases: Value = serde_json::from_str(include_str!("data/fp8.json")).unwrap();
    for (case, dtype) in cases.as_array().unwrap().iter().zip(["F32", "F8_E8M0"]) {
        let (codes, scales) = (bytes(&case["codes"]), bytes(&case["scales"]));
        let header = json!({
            "w": {"dtype": "F8_E4M3", "shape": [4, 256], "data_offsets": [0, codes.len()]},
            "w_scale_inv": {"dtype": dtype, "shape": [2, 2], "data_offsets": [codes.len(), codes.len() + scales.len()]},
        });
        let header = header.to_string();
        let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &codes, &scales].concat();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.safetensors");
        std::fs::write(&path, file).unwrap();
        let model = Model::open(&path).unwrap();
        let array = array::open(&model.entries()[0]).unwrap();
        let mut seen = vec![0; 4 * 256 * 2];
        array.read(0, &mut seen).unwrap();
        assert_eq!(seen, bytes(&case["values"]), "{dtype}");
    }
}
