//! One tensor of a `.safetensors` file. Only the header is parsed; no other tensor is looked at.

use std::ops::Range;

use ::safetensors::Dtype;
use ::safetensors::tensor::Metadata;

use super::{HostArray, Order, Source, damaged};
use tilewright::dtype::DType;
use tilewright::error::{Error, Result};
use tilewright::family::Tensor;

/// The longest header that is read, in bytes; the format's own limit.
const HEADER_CAP: u64 = 100_000_000;

/// How many names an error about a missing tensor lists.
const NAMES_SHOWN: usize = 5;

/// How many names are compared with a missing one, and up to which length in bytes. The work of a comparison is the
/// product of the lengths, and a hostile header may hold millions of names, or one of a hundred million bytes.
const NAMES_COMPARED: usize = 4096;
const NAME_COMPARED: usize = 256;

/// Reads the tensor called `tensor`; where that is `None` the file must hold exactly one.
///
/// # Errors
/// [`Error::Io`] when the file is damaged, or shorter or longer than its header says; [`Error::Value`] when there is
/// no such tensor (the nearest names are listed), or when its type is none of [`DType`].
pub fn read<'a>(source: &'a Source<'_>, tensor: Option<&str>) -> Result<HostArray<'a>> {
    let (tensor, range) = find(source, tensor)?;
    Ok(HostArray { tensor, order: Order::RowMajor, bytes: source.bytes(range)? })
}

/// The tensor called `tensor`, and the bytes of the file that hold its elements, row-major; none of them is read.
///
/// # Errors
/// As [`read`].
pub fn find(source: &Source<'_>, tensor: Option<&str>) -> Result<(Tensor, Range<u64>)> {
    let (metadata, data) = parse(source)?;
    let tensor = match tensor {
        Some(tensor) => tensor.to_owned(),
        None => only_name(&metadata)?,
    };
    let info = metadata.info(&tensor).ok_or_else(|| {
        Error::value(
            "tensor name",
            format!("`{tensor}`"),
            format!("one of the file's: {}", nearest(&tensor, &metadata)),
        )
    })?;
    let dtype = dtype(info.dtype).ok_or_else(|| {
        Error::value(
            "element type",
            format!("{:?} (of `{tensor}`)", info.dtype),
            "a type of whole bytes that this library has",
        )
    })?;
    // `parse` has compared the offsets with the length of the file.
    let (start, end) = info.data_offsets;
    let shape = info.shape.iter().map(|&extent| extent as u64).collect();
    Ok((Tensor { shape, dtype }, data + start as u64..data + end as u64))
}

/// The header, and where the tensors begin. Its offsets have been checked against each other, by the parser, and
/// against the length of the file.
fn parse(source: &Source<'_>) -> Result<(Metadata, u64)> {
    let name = source.name();
    let cut = |what: &str, needed: u64| {
        let what =
            format!("the file is cut short {what}: it holds {} bytes, {needed} are needed", source.len());
        damaged(name, what)
    };
    let mut len = [0; 8];
    if source.len() < 8 {
        return Err(cut("before its header", 8));
    }
    len.copy_from_slice(&source.bytes(0..8)?);
    let len = u64::from_le_bytes(len);
    if len > HEADER_CAP {
        let what =
            format!("not a safetensors file: a header of {len} bytes (at most {HEADER_CAP} are allowed)");
        return Err(damaged(name, what));
    }
    let data = 8 + len;
    if source.len() < data {
        return Err(cut("inside its header", data));
    }
    let metadata: Metadata = serde_json::from_slice(&source.bytes(8..data)?)
        .map_err(|e| damaged(name, format!("safetensors header: {e}")))?;
    let needed = data.saturating_add(metadata.data_len() as u64);
    match source.len() {
        there if there < needed => Err(cut("inside its tensors", needed)),
        there if there > needed => Err(damaged(
            name,
            format!("{} bytes follow the last tensor that the header names", there - needed),
        )),
        _ => Ok((metadata, data)),
    }
}

fn only_name(metadata: &Metadata) -> Result<String> {
    let mut names = metadata.offset_keys();
    match names.len() {
        1 => Ok(names.remove(0)),
        _ => {
            Err(Error::value("tensor name", "none", format!("one of the file's: {}", nearest("", metadata))))
        }
    }
}

/// The names closest to `wanted`, and how many more there are.
fn nearest(wanted: &str, metadata: &Metadata) -> String {
    let names = metadata.offset_keys();
    let compared = names.iter().take(NAMES_COMPARED);
    let mut ranked: Vec<(usize, &str)> =
        compared.map(|name| (distance(wanted, name), name.as_str())).collect();
    ranked.sort();
    let shown: Vec<String> = ranked.iter().take(NAMES_SHOWN).map(|(_, name)| format!("`{name}`")).collect();
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 if shown.is_empty() => "(it holds none)".to_owned(),
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The edits between two names; the most there can be where one is too long to compare.
fn distance(a: &str, b: &str) -> usize {
    if a.len().max(b.len()) > NAME_COMPARED { usize::MAX } else { strsim::levenshtein(a, b) }
}

fn dtype(stored: Dtype) -> Option<DType> {
    Some(match stored {
        Dtype::F64 => DType::F64,
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::Bf16,
        Dtype::F8_E4M3 => DType::F8E4M3,
        Dtype::F8_E5M2 => DType::F8E5M2,
        Dtype::I64 => DType::I64,
        Dtype::I32 => DType::I32,
        Dtype::I16 => DType::I16,
        Dtype::I8 => DType::I8,
        Dtype::U64 => DType::U64,
        Dtype::U32 => DType::U32,
        Dtype::U16 => DType::U16,
        Dtype::U8 => DType::U8,
        Dtype::BOOL => DType::Bool,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn from(bytes: &[u8]) -> Source<'_> {
        Source::from_slice("t", bytes)
    }

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn two() -> Vec<u8> {
        let header = r#"{"a.weight":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},
                         "a.bias":{"dtype":"F4","shape":[4],"data_offsets":[12,14]}}"#;
        file(header, &(0..14).collect::<Vec<u8>>())
    }

    #[test]
    fn a_tensor_is_borrowed_by_name() {
        let bytes = two();
        let source = from(&bytes);
        let array = read(&source, Some("a.weight")).unwrap();
        assert_eq!(array.tensor, Tensor { shape: vec![2, 3], dtype: DType::Bf16 });
        assert_eq!(array.bytes.as_ref(), (0..12).collect::<Vec<u8>>());
        assert!(matches!(array.bytes, Cow::Borrowed(_)));
    }

    #[test]
    fn a_name_that_is_not_there_lists_the_nearest() {
        let bytes = two();
        let error = read(&from(&bytes), Some("a.weigth")).unwrap_err();
        assert!(error.to_string().contains("`a.weigth`"), "{error}");
        assert!(error.to_string().contains("`a.weight`, `a.bias`"), "{error}");
        assert!(matches!(read(&from(&bytes), None), Err(Error::Value { .. })));
        assert!(matches!(read(&from(&bytes), Some("a.bias")), Err(Error::Value { .. })));
    }

    #[test]
    fn one_tensor_needs_no_name() {
        let bytes = file(r#"{"x":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}"#, &[9]);
        assert_eq!(read(&from(&bytes), None).unwrap().bytes.as_ref(), [9]);
    }

    #[test]
    fn every_prefix_is_an_error_and_every_flipped_byte_is_survived() {
        let whole = two();
        for end in 0..whole.len() {
            let error = read(&from(&whole[..end]), Some("a.weight")).unwrap_err();
            assert!(matches!(error, Error::Io { .. }), "{end} bytes: {error}");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                let _ = read(&from(&bytes), Some("a.weight"));
            }
        }
    }

    #[test]
    fn offsets_that_would_overflow_are_errors() {
        let most = 1u64 << 60;
        let mut entries = Vec::new();
        for i in 0..16u64 {
            let start = u128::from(i) * u128::from(most);
            let end = (start + u128::from(most)).min(u128::from(u64::MAX));
            let n = end - start;
            entries
                .push(format!(r#""t{i:02}":{{"dtype":"U8","shape":[{n}],"data_offsets":[{start},{end}]}}"#));
        }
        let bytes = file(&format!("{{{}}}", entries.join(",")), &[0; 64]);
        assert!(matches!(read(&from(&bytes), Some("t00")), Err(Error::Io { .. })));
        let deep = file(&"[".repeat(10_000), &[]);
        assert!(matches!(read(&from(&deep), None), Err(Error::Io { .. })));
    }

    #[test]
    fn names_that_differ_far_behind_are_told_apart() {
        let name = |end: &str| format!("{}.{end}", "model.language_model.layers.0".repeat(5));
        let entry = |name: &str| format!(r#""{name}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#);
        // In front of the nearest one by the alphabet.
        let others =
            ["a_proj", "b_proj", "c_proj", "d_proj", "e_proj", "q_proj"].map(|end| entry(&name(end)));
        let bytes = file(&format!("{{{}}}", others.join(",")), &[]);
        let error = read(&from(&bytes), Some(&name("q_pro"))).unwrap_err().to_string();
        assert!(error.contains(&format!("one of the file's: `{}`", name("q_proj"))), "{error}");
    }

    #[test]
    fn long_names_are_neither_compared_nor_repeated_whole() {
        let long = "n".repeat(1 << 20);
        let header = format!(r#"{{"{long}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}}}"#);
        let bytes = file(&header, &[]);
        let error = read(&from(&bytes), Some(&long[1..])).unwrap_err();
        assert!(error.to_string().len() < 4096);
        let wrong = file(&format!(r#"{{"{long}":{{"{long}":0}}}}"#), &[]);
        assert!(read(&from(&wrong), None).unwrap_err().to_string().len() < 4096);
    }
}
