//! The `.npy` format of numpy, versions 1 to 3 (numpy's `lib.format` documentation).

use super::{HostArray, Order, Source, byte_len, damaged};
use tilewright::dtype::DType;
use tilewright::error::{Error, Result};
use tilewright::family::Tensor;

/// How a file begins.
pub const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Where the elements must begin at the latest, in bytes. Headers that numpy writes for plain arrays stay below 1 KiB.
pub const HEADER_CAP: usize = 64 << 10;

/// Reads a whole `.npy` file; big-endian elements are swapped.
///
/// `dtype` names the type of elements that numpy has no name for: the file then holds unsigned integers or voids of
/// the same size (`--dtype bf16` on a uint16 or `V2` file). Bytes behind the last element are left alone, as numpy does.
///
/// # Errors
/// [`Error::Io`] when the file is damaged, cut short; [`Error::Value`] when its elements are no numbers,
/// `dtype` does not suit it, or when it holds voids and `dtype` is absent.
pub fn read<'a>(source: &'a Source<'_>, dtype: Option<DType>) -> Result<HostArray<'a>> {
    let Described { tensor, order, data, big_endian } = find(source, dtype)?;
    let mut bytes = source.bytes(data..data + byte_len(&tensor.shape, tensor.dtype)?)?;
    if big_endian {
        bytes.to_mut().chunks_exact_mut(tensor.dtype.size()).for_each(<[u8]>::reverse);
    }
    Ok(HostArray { tensor, order, bytes })
}

/// What the header of a `.npy` file says, and that the file has as many bytes; no element is read.
///
/// # Errors
/// As [`read`].
pub fn find(source: &Source<'_>, dtype: Option<DType>) -> Result<Described> {
    let head = source.bytes(0..source.len().min(HEADER_CAP as u64))?;
    let described = describe(source.name(), &head, dtype)?;
    let Tensor { shape, dtype } = &described.tensor;
    let (needed, there) = (byte_len(shape, *dtype)?, source.len() - described.data);
    if there < needed {
        let what = format!(
            "the file is cut short: a {shape:?} array of {dtype} needs {needed} bytes, {there} are there"
        );
        return Err(damaged(source.name(), what));
    }
    Ok(described)
}

/// What the header of a `.npy` file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Shape and element type.
    pub tensor: Tensor,
    /// The order of the elements.
    pub order: Order,
    /// The byte of the file at which the elements begin.
    pub data: u64,
    /// Whether elements are stored with their most significant byte first.
    pub big_endian: bool,
}

/// Reads the header of the file called `name`, of which `head` is the beginning; `dtype` is that of [`read`].
///
/// # Errors
/// As [`read`], but for the length of the file, which is not known here.
pub fn describe(name: &str, head: &[u8], dtype: Option<DType>) -> Result<Described> {
    let wrong = |what: String| damaged(name, what);
    let (header, data) = split(&head[..head.len().min(HEADER_CAP)]).map_err(wrong)?;
    let header = Header::parse(header).map_err(|what| wrong(format!("npy header: {what}")))?;
    let stored = Stored::parse(header.descr)
        .ok_or_else(|| Error::value("npy element type", header.descr, "integers, floats or bool"))?;
    let tensor = Tensor { dtype: stored.read_as(dtype, header.descr)?, shape: header.shape };
    let order = if header.fortran_order { Order::ColumnMajor } else { Order::RowMajor };
    Ok(Described { tensor, order, data, big_endian: stored.big_endian })
}

/// The header of a `.npy` file of version 1.0, padded so that the elements start at a multiple of 64 bytes.
/// Types that numpy has no name for are written as unsigned integers of their size.
pub fn header(tensor: &Tensor, order: Order) -> Vec<u8> {
    let stored = stands_for(tensor.dtype).unwrap_or(tensor.dtype);
    let descr = NAMES.iter().find(|n| n.0 == stored).map_or("u1", |n| n.1);
    let endian = if tensor.dtype.size() == 1 { '|' } else { '<' };
    let fortran = if order == Order::ColumnMajor { "True" } else { "False" };
    let mut shape = String::new();
    for extent in &tensor.shape {
        shape += &format!("{extent}, ");
    }
    // A tuple of one keeps its comma, longer ones lose it.
    let shape = if tensor.shape.len() == 1 { shape.trim_end() } else { shape.trim_end_matches(", ") };
    let mut text =
        format!("{{'descr': '{endian}{descr}', 'fortran_order': {fortran}, 'shape': ({shape}), }}");
    let start = MAGIC.len() + 4;
    let padded = (start + text.len() + 1).next_multiple_of(64) - start;
    text += &" ".repeat(padded - text.len() - 1);
    text.push('\n');
    let mut bytes = MAGIC.to_vec();
    // Version 1.0 counts the header in 16 bits: ranks up to 2,900 fit, far above what any layout text may say.
    bytes.extend([1, 0]);
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

/// What a `.npy` file holds instead of elements that numpy has no name for: unsigned integers of their size. None for
/// those that it has a name for.
pub fn stands_for(dtype: DType) -> Option<DType> {
    let named = NAMES.iter().any(|name| name.0 == dtype);
    (!named).then_some(if dtype.size() == 2 { DType::U16 } else { DType::U8 })
}

/// numpy's names, without the byte order, of the types it has.
const NAMES: [(DType, &str); 12] = [
    (DType::F64, "f8"),
    (DType::F32, "f4"),
    (DType::F16, "f2"),
    (DType::I64, "i8"),
    (DType::I32, "i4"),
    (DType::I16, "i2"),
    (DType::I8, "i1"),
    (DType::U64, "u8"),
    (DType::U32, "u4"),
    (DType::U16, "u2"),
    (DType::U8, "u1"),
    (DType::Bool, "b1"),
];

/// The element type that a file names.
struct Stored {
    /// `None` for a void (`V2`), which is what numpy writes for types of other packages.
    dtype: Option<DType>,
    size: usize,
    big_endian: bool,
}

impl Stored {
    fn parse(descr: &str) -> Option<Stored> {
        let (endian, kind) = descr.split_at_checked(1)?;
        let big_endian = match endian {
            "<" | "|" | "=" => false,
            ">" => true,
            _ => return None,
        };
        if let Some((dtype, _)) = NAMES.iter().find(|n| n.1 == kind) {
            return Some(Stored { dtype: Some(*dtype), size: dtype.size(), big_endian });
        }
        let size = match kind {
            "V1" => 1,
            "V2" => 2,
            _ => return None,
        };
        Some(Stored { dtype: None, size, big_endian })
    }

    fn read_as(&self, asked: Option<DType>, descr: &str) -> Result<DType> {
        let foreign = |d: DType| !NAMES.iter().any(|n| n.0 == d) && d.size() == self.size;
        match (self.dtype, asked) {
            (Some(stored), None) => Ok(stored),
            (Some(stored), Some(asked)) if stored == asked => Ok(asked),
            (Some(DType::U16 | DType::U8) | None, Some(asked)) if foreign(asked) => Ok(asked),
            (Some(stored), Some(asked)) => Err(Error::value(
                "dtype of a .npy file",
                asked,
                format!(
                    "{stored}, which is what the file holds; only a uint{} file can be read as {asked}",
                    8 * asked.size()
                ),
            )),
            (None, asked) => Err(Error::value(
                "dtype of a .npy file",
                asked.map_or("none".to_owned(), |d| d.to_string()),
                format!(
                    "one that says what '{descr}' holds, e.g. {}",
                    if self.size == 2 { "bf16" } else { "f8e4m3" }
                ),
            )),
        }
    }
}

/// Header text, and the offset of the first element, of a file that begins with `head`.
fn split(head: &[u8]) -> Result<(&[u8], u64), String> {
    let cut = || "the file is cut short inside the npy header".to_owned();
    let rest = head.strip_prefix(MAGIC).ok_or("not a .npy file: it does not begin with \\x93NUMPY")?;
    let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
    let (len, rest) = match version[0] {
        1 => rest.split_first_chunk().map(|(n, rest)| (usize::from(u16::from_le_bytes(*n)), rest)),
        2 | 3 => rest.split_first_chunk().map(|(n, rest)| (u32::from_le_bytes(*n) as usize, rest)),
        other => return Err(format!("npy version {other}: versions 1, 2 and 3 are known")),
    }
    .ok_or_else(cut)?;
    let start = head.len() - rest.len() + len;
    if start > HEADER_CAP {
        return Err(format!("an npy header of {len} bytes: at most {HEADER_CAP} are read"));
    }
    Ok((rest.get(..len).ok_or_else(cut)?, start as u64))
}

/// The three entries of the dictionary that the header is.
struct Header<'a> {
    descr: &'a str,
    fortran_order: bool,
    shape: Vec<u64>,
}

impl<'a> Header<'a> {
    fn parse(text: &'a [u8]) -> Result<Header<'a>, String> {
        let text = std::str::from_utf8(text).map_err(|e| e.to_string())?;
        let mut literal = Literal { rest: text };
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        literal.expect('{')?;
        while !literal.eat('}') {
            let key = literal.string()?;
            literal.expect(':')?;
            match key {
                "descr" => descr = Some(literal.string()?),
                "fortran_order" => fortran_order = Some(literal.boolean()?),
                "shape" => shape = Some(literal.tuple()?),
                other => return Err(format!("unknown key '{other}'")),
            }
            if !literal.eat(',') {
                literal.expect('}')?;
                break;
            }
        }
        Ok(Header {
            descr: descr.ok_or("no 'descr'")?,
            fortran_order: fortran_order.ok_or("no 'fortran_order'")?,
            shape: shape.ok_or("no 'shape'")?,
        })
    }
}

/// The few kinds of Python literals that a header of a plain array is made of.
struct Literal<'a> {
    rest: &'a str,
}

impl<'a> Literal<'a> {
    fn eat(&mut self, c: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, c: char) -> Result<(), String> {
        if self.eat(c) { Ok(()) } else { Err(format!("expected `{c}`, found {}", self.found())) }
    }

    fn found(&self) -> String {
        match self.rest.chars().next() {
            Some(c) => format!("`{}`", c.escape_default()),
            None => "its end".to_owned(),
        }
    }

    fn string(&mut self) -> Result<&'a str, String> {
        let quote = if self.eat('\'') {
            '\''
        } else if self.eat('"') {
            '"'
        } else {
            return Err(format!("expected a quoted name, found {}", self.found()));
        };
        let (text, rest) = self.rest.split_once(quote).ok_or("a quote is not closed")?;
        self.rest = rest;
        Ok(text)
    }

    fn boolean(&mut self) -> Result<bool, String> {
        self.rest = self.rest.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(format!("expected `True` or `False`, found {}", self.found()))
    }

    fn tuple(&mut self) -> Result<Vec<u64>, String> {
        let mut shape = Vec::new();
        self.expect('(')?;
        while !self.eat(')') {
            shape.push(self.extent()?);
            if !self.eat(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(shape)
    }

    fn extent(&mut self) -> Result<u64, String> {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        let extent = digits.parse::<i64>().map_err(|_| match digits {
            "" => format!("expected an extent, found {}", self.found()),
            _ => format!("an extent of {digits} does not fit 63 bits"),
        })?;
        // Python 2 marked its long integers.
        self.rest = rest.strip_prefix('L').unwrap_or(rest);
        Ok(extent as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn from(bytes: &[u8]) -> Source<'_> {
        Source::from_slice("t", bytes)
    }

    fn file(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([version, 0]);
        match version {
            1 => bytes.extend((header.len() as u16).to_le_bytes()),
            _ => bytes.extend((header.len() as u32).to_le_bytes()),
        }
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn every_version_and_byte_order() {
        for version in 1..=3 {
            for (descr, data) in [("<u2", [1, 2, 3, 4]), (">u2", [2, 1, 4, 3])] {
                let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2,), }}   \n");
                let bytes = file(version, &header, &data);
                let source = from(&bytes);
                let array = read(&source, None).unwrap();
                assert_eq!(array.tensor, Tensor { shape: vec![2], dtype: DType::U16 });
                assert_eq!(array.bytes.as_ref(), [1, 2, 3, 4]);
                assert_eq!(matches!(array.bytes, Cow::Borrowed(_)), descr == "<u2");
            }
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let shapes: [&[u64]; 5] = [&[], &[3], &[2, 3], &[1, 1, 6], &[0, 7]];
        for shape in shapes {
            for (dtype, _) in NAMES {
                for order in [Order::RowMajor, Order::ColumnMajor] {
                    let tensor = Tensor { shape: shape.to_vec(), dtype };
                    let mut bytes = header(&tensor, order);
                    assert_eq!(bytes.len() % 64, 0);
                    let len = byte_len(shape, dtype).unwrap() as usize;
                    bytes.extend((0..len).map(|i| i as u8));
                    let source = from(&bytes);
                    let array = read(&source, None).unwrap();
                    assert_eq!((array.tensor, array.order), (tensor, order));
                    assert_eq!(array.bytes.len(), len);
                }
            }
        }
    }

    #[test]
    fn foreign_types_need_their_name() {
        let head = |descr: &str| format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2,), }}\n");
        let read_as = |descr: &str, dtype| {
            read(&from(&file(1, &head(descr), &[0; 16])), dtype).map(|array| array.tensor.dtype)
        };
        assert_eq!(read_as("<u2", Some(DType::Bf16)), Ok(DType::Bf16));
        assert_eq!(read_as("|V2", Some(DType::Bf16)), Ok(DType::Bf16));
        assert_eq!(read_as("|V1", Some(DType::F8E4M3)), Ok(DType::F8E4M3));
        assert_eq!(read_as("<f4", Some(DType::F32)), Ok(DType::F32));
        for (descr, dtype) in [
            ("<f4", Some(DType::Bf16)),
            ("<i2", Some(DType::Bf16)),
            ("<u2", Some(DType::F16)),
            ("<f4", Some(DType::I32)),
            ("|V2", None),
            ("|V2", Some(DType::F32)),
        ] {
            assert!(matches!(read_as(descr, dtype), Err(Error::Value { .. })), "{descr} {dtype:?}");
        }
    }

    #[test]
    fn damaged_headers_are_errors() {
        let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
        assert!(read(&from(&file(1, good, &[0; 24])), None).is_ok());
        for bad in [
            "",
            "{",
            "{}",
            "{'descr'}",
            "{'descr': }",
            "{'descr': '<f4', 'fortran_order': False}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4)}",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}",
        ] {
            let error = read(&from(&file(1, bad, &[0; 24])), None).unwrap_err();
            assert!(matches!(error, Error::Io { .. } | Error::Overflow { .. }), "{bad}: {error}");
        }
        for descr in ["|O", "<M8[s]", "", "\u{e9}"] {
            let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2,)}}\n");
            let error = read(&from(&file(1, &header, &[0; 24])), None).unwrap_err();
            assert!(matches!(error, Error::Value { .. }), "{descr}: {error}");
        }
        let deep = format!("{{'shape': {}", "(".repeat(10_000));
        assert!(read(&from(&file(1, &deep, &[])), None).is_err());
    }

    #[test]
    fn every_prefix_and_every_flipped_byte_is_survived() {
        let whole = file(2, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", &[7; 24]);
        for end in 0..whole.len() {
            assert!(matches!(read(&from(&whole[..end]), None), Err(Error::Io { .. })), "{end} bytes");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                let _ = read(&from(&bytes), None);
            }
        }
    }
}
