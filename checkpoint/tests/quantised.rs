//! Decoded blocks against what the projects that own the formats decode (`goldens.py` beside this file made them).

use serde_json::Value;
use tilewright_checkpoint::quantised::BlockType;

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
            let mut values = vec![0.0; block.elements()];
            block.decode(&bytes(&pair[0]), &mut values);
            let seen: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            assert_eq!(seen, bytes(&pair[1]), "{name}");
        }
    }
}
