//! Spyre layouts: every generation of `SpyreTensorLayout(...)`.

use std::fmt;

use super::lexer::Cursor;
use super::loops::tuple::Tuple;
use super::tenstorrent::python::shape;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::family::spyre::{Arrangement, Constructor, DataFormat, Explicit, SpyreLayout};

/// PyTorch's names of element types; the first name of a type is the one that is printed.
const TORCH: [(&str, DType); 17] = [
    ("float64", DType::F64),
    ("float32", DType::F32),
    ("float", DType::F32),
    ("float16", DType::F16),
    ("half", DType::F16),
    ("bfloat16", DType::Bf16),
    ("float8_e4m3fn", DType::F8E4M3),
    ("float8_e5m2", DType::F8E5M2),
    ("int64", DType::I64),
    ("int32", DType::I32),
    ("int16", DType::I16),
    ("int8", DType::I8),
    ("uint64", DType::U64),
    ("uint32", DType::U32),
    ("uint16", DType::U16),
    ("uint8", DType::U8),
    ("bool", DType::Bool),
];

/// Reads what follows the word `SpyreTensorLayout`.
pub(super) fn spyre(cursor: &mut Cursor<'_>) -> Result<SpyreLayout> {
    cursor.expect("(", "after `SpyreTensorLayout`")?;
    match cursor.peek() {
        Some('(' | '[') => constructor(cursor),
        _ if cursor.peek_word() == "torch" => constructor(cursor),
        _ => explicit(cursor),
    }
}

/// Reads `(5, 100, 150), torch.float16, [1, 0, 2])`, or today's `[512, 256], [256, 1], torch.float16, [1, 0],
/// ElementArrangement.STANDARD)`.
fn constructor(cursor: &mut Cursor<'_>) -> Result<SpyreLayout> {
    let start = cursor.start();
    let size = shape(cursor, "the size")?;
    cursor.mark("size", start);
    cursor.expect(",", "and a dtype, or strides, after the size")?;
    let mut strides = None;
    if matches!(cursor.peek(), Some('(' | '[')) {
        let start = cursor.start();
        strides = Some(cursor.integers("the strides")?);
        cursor.mark("strides", start);
        cursor.expect(",", "and a dtype after the strides")?;
    }
    let start = cursor.start();
    if !(cursor.eat_word("torch") && cursor.eat(".")) {
        return Err(cursor.expected("`torch.` and the name of an element type"));
    }
    let dtype = cursor.choose("an element type of torch", &TORCH)?;
    cursor.mark("dtype", start);
    let mut made = Constructor { strides, ..Constructor::new(size, dtype) };
    while cursor.eat(",") && cursor.peek() != Some(')') {
        let start = cursor.start();
        let list = matches!(cursor.peek(), Some('(' | '['));
        if made.dim_order.is_none() && (list || cursor.eat_word("dim_order")) {
            if !list {
                cursor.expect("=", "after `dim_order`")?;
            }
            made.dim_order = Some(cursor.list("dim_order", dimension)?);
            cursor.mark("dim_order", start);
            continue;
        }
        if cursor.eat_word("element_arrangement") {
            cursor.expect("=", "after `element_arrangement`")?;
        }
        made.arrangement = arrangement(cursor)?;
    }
    cursor.expect(")", "at the end of the layout")?;
    Ok(made.into())
}

fn explicit(cursor: &mut Cursor<'_>) -> Result<SpyreLayout> {
    let start = cursor.start();
    let (mut device_size, mut dim_map, mut stride_map, mut dtype) = (None, None, None, None);
    let (mut device_strides, mut format, mut order) = (None, None, Arrangement::Standard);
    cursor.arguments(")", |c, key, span| {
        match key {
            "device_size" => device_size = Some(c.numbers(key)?),
            "dim_map" => dim_map = Some(c.list(key, dimension)?),
            "stride_map" => stride_map = Some(c.integers(key)?),
            "device_dtype" => dtype = Some(data_format(c)?),
            "device_strides" => device_strides = Some(c.integers(key)?),
            "num_stick_dims" => {
                let at = c.start();
                if c.number("a number of stick dimensions")? != 1 {
                    return Err(c.error_since(at, "a layout has one stick dimension: expected 1".into()));
                }
            }
            "format" => format = Some(stick_format(c)?),
            "element_arrangement" => order = arrangement(c)?,
            _ => c.skip_unknown(key, &span),
        }
        Ok(())
    })?;
    let device_size = cursor.required(device_size, "device_size", start)?;
    if let Some(given) = device_strides {
        check_device_strides(&device_size, &given).map_err(|e| cursor.locate(e))?;
    }
    if let (Some(sparse), Some(map)) = (format, &dim_map)
        && sparse != map.contains(&None)
    {
        let (given, needed) = if sparse { ("Sparse", "a -1") } else { ("Dense", "no -1") };
        return Err(cursor.locate(Error::value("format", given, format!("{needed} in dim_map with it"))));
    }
    let explicit = Explicit::new(device_size).with_arrangement(order);
    Ok(Explicit { dim_map, stride_map, dtype, ..explicit }.into())
}

/// A dimension, or -1 for none.
fn dimension(cursor: &mut Cursor<'_>) -> Result<Option<usize>> {
    let start = cursor.start();
    match cursor.integer("a dimension or -1")? {
        -1 => Ok(None),
        d => usize::try_from(d).map(Some).map_err(|_| {
            cursor.error_since(start, format!("expected a dimension of 0 or more, or -1, found {d}"))
        }),
    }
}

/// Reads `DataFormats.SEN169_FP16`, or the name alone.
fn data_format(cursor: &mut Cursor<'_>) -> Result<DataFormat> {
    if cursor.eat_word("DataFormats") {
        cursor.expect(".", "after `DataFormats`")?;
    }
    let names: Vec<_> = DataFormat::all().map(|f| (f.name(), f)).collect();
    cursor.choose("a data format", &names)
}

/// Reads `"Dense"` or `"Sparse"`, with or without a prefix and quotes; true for sparse.
fn stick_format(cursor: &mut Cursor<'_>) -> Result<bool> {
    let quoted = ["\"", "'"].into_iter().find(|q| cursor.eat(q));
    if cursor.eat_word("StickFormat") {
        cursor.expect(".", "after `StickFormat`")?;
    }
    let sparse =
        cursor.choose("a stick format with a known byte order", &[("Dense", false), ("Sparse", true)])?;
    if let Some(quote) = quoted {
        cursor.expect(quote, "after the stick format")?;
    }
    Ok(sparse)
}

/// Reads `ElementArrangement.QFP8WT`, or the name alone.
///
/// Others move elements inside of sticks in ways that no host array has: the runtime calls the order of DL16_TO_FP32
/// illustrative, and never stores such tensors.
fn arrangement(cursor: &mut Cursor<'_>) -> Result<Arrangement> {
    if cursor.eat_word("ElementArrangement") {
        cursor.expect(".", "after `ElementArrangement`")?;
    }
    let start = cursor.start();
    let word = cursor.peek_word();
    if ["DL16_TO_FP32", "FP32_TO_DL16", "QFP8CH", "EXX2"].contains(&word) {
        cursor.eat_word(word);
        let message = format!(
            "{word} is not an element arrangement with a known byte order: only the device makes such tensors, and its \
             runtime promises no order of their elements; expected STANDARD or QFP8WT"
        );
        return Err(cursor.error_since(start, message));
    }
    cursor.choose("an element arrangement with a known byte order", &Arrangement::NAMES)
}

/// The oldest generation prints device strides; they follow from the sizes.
fn check_device_strides(size: &[u64], given: &[i64]) -> Result<()> {
    let mut derived: Vec<u64> = size
        .iter()
        .rev()
        .scan(1u64, |next, size| {
            let stride = *next;
            *next = next.saturating_mul(*size);
            Some(stride)
        })
        .collect();
    derived.reverse();
    if given.iter().map(|s| u64::try_from(*s).ok()).eq(derived.iter().map(|s| Some(*s))) {
        return Ok(());
    }
    Err(Error::value(
        "device_strides",
        format!("{given:?}"),
        format!("{derived:?}, the row-major strides of device_size"),
    ))
}

/// Dimensions as the runtime prints them, -1 for none.
struct Dimensions<'a>(&'a [Option<usize>]);

impl fmt::Display for Dimensions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims = self.0.iter().map(|d| d.map_or("-1".into(), |d| d.to_string()));
        write!(f, "[{}]", dims.collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Display for SpyreLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpyreTensorLayout(")?;
        match self {
            SpyreLayout::Explicit(Explicit { device_size, dim_map, stride_map, dtype, .. }) => {
                write!(f, "device_size={device_size:?}")?;
                if let Some(map) = dim_map {
                    write!(f, ", dim_map={}", Dimensions(map))?;
                }
                if let Some(map) = stride_map {
                    write!(f, ", stride_map={map:?}")?;
                }
                if let Some(format) = dtype {
                    write!(f, ", device_dtype=DataFormats.{}", format.name())?;
                }
            }
            SpyreLayout::Constructor(Constructor { size, strides, dtype, dim_order, .. }) => {
                let name = TORCH.iter().find(|t| t.1 == *dtype).map_or("?", |t| t.0);
                write!(f, "{}, ", Tuple(size))?;
                if let Some(strides) = strides {
                    write!(f, "{strides:?}, ")?;
                }
                write!(f, "torch.{name}")?;
                if let Some(order) = dim_order {
                    write!(f, ", {}", Dimensions(order))?;
                }
            }
        }
        if self.arrangement() != Arrangement::Standard {
            write!(f, ", element_arrangement=ElementArrangement.{}", self.arrangement())?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for Arrangement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Arrangement::NAMES.iter().find(|n| n.1 == *self).map_or("?", |n| n.0))
    }
}
