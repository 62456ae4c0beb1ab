//! Model files, made byte by byte.
#![allow(dead_code, reason = "not every test makes models of every kind")]

use std::fs;
use std::path::Path;

use serde_json::json;

/// A tensor of a file: name, type, shape, bytes.
pub(crate) type Given<'a> = (&'a str, &'a str, &'a [u64], Vec<u8>);

/// A safetensors file of these tensors, in this order.
pub(crate) fn safetensors(path: &Path, tensors: &[Given<'_>]) {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        header.insert((*name).into(), json!({"dtype": dtype, "shape": shape, "data_offsets": offsets}));
        data.extend_from_slice(bytes);
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend(data);
    fs::write(path, file).unwrap();
}

/// So many bytes, all values but 251 to 255.
pub(crate) fn ramp(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// A GGUF file of version 3 with a few kinds of metadata.
pub(crate) fn gguf(tensors: &[(&str, u32, &[u64], Vec<u8>)]) -> Vec<u8> {
    let mut file = b"GGUF".to_vec();
    let string = |file: &mut Vec<u8>, s: &str| {
        file.extend((s.len() as u64).to_le_bytes());
        file.extend(s.bytes());
    };
    file.extend(3_u32.to_le_bytes());
    file.extend((tensors.len() as u64).to_le_bytes());
    file.extend(3_u64.to_le_bytes());
    string(&mut file, "general.architecture");
    file.extend(8_u32.to_le_bytes());
    string(&mut file, "llama");
    string(&mut file, "general.alignment");
    file.extend(4_u32.to_le_bytes());
    file.extend(64_u32.to_le_bytes());
    string(&mut file, "tokens");
    file.extend(9_u32.to_le_bytes());
    file.extend(8_u32.to_le_bytes());
    file.extend(2_u64.to_le_bytes());
    string(&mut file, "a");
    string(&mut file, "bc");
    let mut data = Vec::new();
    for (name, kind, shape, bytes) in tensors {
        string(&mut file, name);
        file.extend((shape.len() as u32).to_le_bytes());
        shape.iter().rev().for_each(|d| file.extend(d.to_le_bytes()));
        file.extend(kind.to_le_bytes());
        file.extend((data.len() as u64).to_le_bytes());
        data.extend_from_slice(bytes);
        data.resize(data.len().next_multiple_of(64), 0);
    }
    file.resize(file.len().next_multiple_of(64), 0);
    file.extend(data);
    file
}
