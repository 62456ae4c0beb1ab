//! The header of a GGUF file of version 2 or 3.

use std::sync::Arc;

use tilewright::{DType, Result};

use super::entry::{Encoding, Entry, Extent};
use super::file::{ModelFile, damaged};
use crate::quantised::BlockType;

/// Bytes that are read at once.
const WINDOW: usize = 1 << 16;

/// The most dimensions of a tensor; GGML has 4.
const MAX_DIMENSIONS: u32 = 8;

/// The deepest nesting of arrays of arrays among the metadata.
const MAX_DEPTH: u32 = 4;

/// Reads numbers and strings one after another, and never past the end of the file.
struct Reader<'a> {
    file: &'a ModelFile,
    /// The byte of the file that comes next.
    at: u64,
    window: Vec<u8>,
    /// Where the window begins in the file.
    from: u64,
}

impl Reader<'_> {
    fn cut(&self, bytes: u64) -> tilewright::Error {
        let what = format!("the file is cut short: {bytes} bytes at {} of {}", self.at, self.file.len());
        damaged(self.file.path(), what)
    }

    fn skip(&mut self, bytes: u64) -> Result<()> {
        if bytes > self.file.len() - self.at {
            return Err(self.cut(bytes));
        }
        self.at += bytes;
        Ok(())
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let inside = self.at >= self.from && self.at + N as u64 <= self.from + self.window.len() as u64;
        if !inside {
            if N as u64 > self.file.len() - self.at {
                return Err(self.cut(N as u64));
            }
            self.window.resize((self.file.len() - self.at).min(WINDOW as u64) as usize, 0);
            self.from = self.at;
            self.file.read_at(self.at, &mut self.window)?;
        }
        let start = (self.at - self.from) as usize;
        let mut out = [0; N];
        out.copy_from_slice(&self.window[start..start + N]);
        self.at += N as u64;
        Ok(out)
    }

    fn u32(&mut self) -> Result<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn string(&mut self, most: u64) -> Result<String> {
        let len = self.u64()?;
        if len > most || len > self.file.len() - self.at {
            return Err(damaged(self.file.path(), format!("a name of {len} bytes (at most {most})")));
        }
        let mut text = vec![0; len as usize];
        self.file.read_at(self.at, &mut text)?;
        self.at += len;
        String::from_utf8(text).map_err(|_| damaged(self.file.path(), "a name that is not UTF-8"))
    }

    /// Skips a value of metadata.
    fn skip_value(&mut self, kind: u32, depth: u32) -> Result<()> {
        let size = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            10..=12 => 8,
            8 => {
                let len = self.u64()?;
                return self.skip(len);
            }
            9 if depth < MAX_DEPTH => {
                let (kind, len) = (self.u32()?, self.u64()?);
                return match fixed_size(kind) {
                    Some(size) => {
                        let bytes = len.checked_mul(size).ok_or_else(|| self.cut(u64::MAX))?;
                        self.skip(bytes)
                    }
                    None => (0..len).try_for_each(|_| self.skip_value(kind, depth + 1)),
                };
            }
            _ => return Err(damaged(self.file.path(), format!("metadata of type {kind}"))),
        };
        self.skip(size)
    }
}

/// Bytes of a value of metadata, where they are always as many.
fn fixed_size(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

/// The tensors of a file, in the order of their bytes.
pub(super) fn entries(file: &Arc<ModelFile>) -> Result<Vec<Entry>> {
    let path = file.path();
    let mut reader = Reader { file, at: 0, window: Vec::new(), from: 0 };
    if &reader.bytes::<4>()? != b"GGUF" {
        return Err(damaged(path, "not a GGUF file: it does not begin with `GGUF`"));
    }
    let version = reader.u32()?;
    if !(2..=3).contains(&version) {
        return Err(damaged(
            path,
            format!("GGUF version {version}; versions 2 and 3 of little-endian files are read"),
        ));
    }
    let (tensors, pairs) = (reader.u64()?, reader.u64()?);
    let mut alignment = 32;
    for _ in 0..pairs {
        let (key, kind) = (reader.string(65_535)?, reader.u32()?);
        if key == "general.alignment" && kind == 4 {
            alignment = u64::from(reader.u32()?);
        } else {
            reader.skip_value(kind, 0)?;
        }
    }
    if !alignment.is_power_of_two() {
        return Err(damaged(path, format!("an alignment of {alignment} bytes, which is no power of two")));
    }
    // A tensor's own entry takes 24 bytes at least, so that a file cannot promise more of them than it holds.
    let mut found = Vec::with_capacity(tensors.min((file.len() - reader.at) / 24) as usize);
    for _ in 0..tensors {
        found.push(info(&mut reader)?);
    }
    let data = reader.at.next_multiple_of(alignment);
    found.sort_by_key(|t: &Found| t.offset);
    found.into_iter().map(|t| t.entry(file, data, alignment)).collect()
}

/// A tensor as the header tells of it.
struct Found {
    name: String,
    shape: Vec<u64>,
    kind: u32,
    offset: u64,
}

fn info(reader: &mut Reader<'_>) -> Result<Found> {
    let name = reader.string(65_535)?;
    let dimensions = reader.u32()?;
    if dimensions > MAX_DIMENSIONS {
        let what = format!("`{name}` has {dimensions} dimensions (at most {MAX_DIMENSIONS})");
        return Err(damaged(reader.file.path(), what));
    }
    // The file has the fastest dimension first.
    let mut shape = (0..dimensions).map(|_| reader.u64()).collect::<Result<Vec<u64>>>()?;
    shape.reverse();
    Ok(Found { name, shape, kind: reader.u32()?, offset: reader.u64()? })
}

impl Found {
    fn entry(self, file: &Arc<ModelFile>, data: u64, alignment: u64) -> Result<Entry> {
        let Found { name, shape, kind, offset } = self;
        let refuse = |what: String| damaged(file.path(), format!("`{name}`: {what}"));
        let elements = shape.iter().try_fold(1_u64, |n, &d| n.checked_mul(d));
        let elements =
            elements.ok_or_else(|| refuse(format!("the shape {shape:?} has too many elements")))?;
        let plain = match kind {
            0 => Some(DType::F32),
            1 => Some(DType::F16),
            24 => Some(DType::I8),
            25 => Some(DType::I16),
            26 => Some(DType::I32),
            27 => Some(DType::I64),
            28 => Some(DType::F64),
            30 => Some(DType::Bf16),
            _ => None,
        };
        let (encoding, block) = match (plain, BlockType::from_number(kind)) {
            (Some(dtype), _) => (Encoding::Plain(dtype), Some((1, dtype.size() as u64))),
            (None, Some(block)) => {
                (Encoding::Blocks(block), Some((block.elements() as u64, block.bytes() as u64)))
            }
            (None, None) => (Encoding::Other(format!("GGML type {kind}")), None),
        };
        let bytes = match block {
            Some((per_block, bytes)) => {
                if !shape.last().unwrap_or(&1).is_multiple_of(per_block) {
                    return Err(refuse(format!("rows of {shape:?} are not whole blocks of {per_block}")));
                }
                (elements / per_block).checked_mul(bytes)
            }
            None => Some(0),
        };
        let end = bytes.and_then(|bytes| data.checked_add(offset)?.checked_add(bytes));
        match (bytes, end) {
            (Some(bytes), Some(end)) if end <= file.len() && offset.is_multiple_of(alignment) => {
                let data = Extent::new(Arc::clone(file), data + offset, bytes);
                Ok(Entry { name, shape, encoding, data })
            }
            _ => {
                let what = format!(
                    "{shape:?} at offset {offset} does not lie in the {} bytes of the file",
                    file.len()
                );
                Err(refuse(what))
            }
        }
    }
}
