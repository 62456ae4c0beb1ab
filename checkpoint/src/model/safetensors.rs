//! The header of a `.safetensors` file, read in one pass without a tree of its JSON.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use tilewright::{DType, Result};

use super::entry::{Encoding, Entry, Extent, MAX_HEADER};
use super::file::{ModelFile, damaged};

/// What the header says of one tensor.
#[derive(Deserialize)]
struct Info {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// All tensors of a header, in its order.
struct Header(Vec<(String, Info)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Header, D::Error> {
        struct Tensors;
        impl<'de> Visitor<'de> for Tensors {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut tensors = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        tensors.push((name, map.next_value()?));
                    }
                }
                Ok(Header(tensors))
            }
        }
        deserializer.deserialize_map(Tensors)
    }
}

/// The tensors of a file, in the order of their bytes.
pub(super) fn entries(file: &Arc<ModelFile>) -> Result<Vec<Entry>> {
    let path = file.path();
    let mut len = [0; 8];
    if file.len() < 8 {
        return Err(damaged(path, format!("the file is cut short: {} bytes, a header needs 8", file.len())));
    }
    file.read_at(0, &mut len)?;
    let len = u64::from_le_bytes(len);
    if len > MAX_HEADER || len > file.len() - 8 {
        let most = MAX_HEADER.min(file.len() - 8);
        return Err(damaged(
            path,
            format!("not a safetensors file: a header of {len} bytes, at most {most} fit"),
        ));
    }
    let mut text = vec![0; len as usize];
    file.read_at(8, &mut text)?;
    let Header(mut tensors) =
        serde_json::from_slice(&text).map_err(|e| damaged(path, format!("safetensors header: {e}")))?;
    drop(text);
    tensors.sort_by_key(|(_, info)| info.data_offsets);
    let (data, mut end) = (8 + len, 0);
    let mut entries = Vec::with_capacity(tensors.len());
    for (name, info) in tensors {
        let [start, stop] = info.data_offsets;
        if start != end || stop < start {
            return Err(damaged(path, format!("`{name}` lies at {start} to {stop}, after the byte {end}")));
        }
        end = stop;
        let encoding = match dtype(&info.dtype) {
            Some(dtype) => {
                let needed = tilewright_files::byte_len(&info.shape, dtype)?;
                if stop - start != needed {
                    let what = format!("`{name}` has {} bytes, its shape needs {needed}", stop - start);
                    return Err(damaged(path, what));
                }
                Encoding::Plain(dtype)
            }
            None => Encoding::Other(info.dtype),
        };
        let data = Extent::new(Arc::clone(file), data + start, stop - start);
        entries.push(Entry { name, shape: info.shape, encoding, data });
    }
    if file.len() - data != end {
        return Err(damaged(
            path,
            format!("{} bytes follow the header, its tensors are {end}", file.len() - data),
        ));
    }
    Ok(entries)
}

fn dtype(name: &str) -> Option<DType> {
    Some(match name {
        "F64" => DType::F64,
        "F32" => DType::F32,
        "F16" => DType::F16,
        "BF16" => DType::Bf16,
        "F8_E4M3" => DType::F8E4M3,
        "F8_E5M2" => DType::F8E5M2,
        "I64" => DType::I64,
        "I32" => DType::I32,
        "I16" => DType::I16,
        "I8" => DType::I8,
        "U64" => DType::U64,
        "U32" => DType::U32,
        "U16" => DType::U16,
        // A scale by its exponent; what belongs to it says so.
        "U8" | "F8_E8M0" => DType::U8,
        "BOOL" => DType::Bool,
        _ => return None,
    })
}
