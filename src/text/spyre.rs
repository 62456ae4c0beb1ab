//! Spyre layouts: every generation of `SpyreTensorLayout(...)`.

use std::fmt;

use super::lexer::{Cursor, quote};
use super::loops::tuple::Tuple;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::family::spyre::{DataFormat, SpyreLayout};

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
        _ => explicit(cursor),
    }
}

fn constructor(cursor: &mut Cursor<'_>) -> Result<SpyreLayout> {
    let start = cursor.start();
    let size = cursor.numbers("the size")?;
    cursor.mark("size", start);
    cursor.expect(",", "and a dtype after the size")?;
    let start = cursor.start();
    if !(cursor.eat_word("torch") && cursor.eat(".")) {
        return Err(cursor.expected("`torch.` and the name of an element type"));
    }
    let dtype = cursor.choose("an element type of torch", &TORCH)?;
    cursor.mark("dtype", start);
    let mut dim_order = None;
    if cursor.eat(",") && cursor.peek() != Some(')') {
        if cursor.eat_word("dim_order") {
            cursor.expect("=", "after `dim_order`")?;
        }
        let start = cursor.start();
        dim_order = Some(cursor.list("dim_order", dimension)?);
        cursor.mark("dim_order", start);
        cursor.eat(",");
    }
    cursor.expect(")", "at the end of the layout")?;
    Ok(SpyreLayout::Constructor { size, dtype, dim_order })
}

fn explicit(cursor: &mut Cursor<'_>) -> Result<SpyreLayout> {
    let start = cursor.start();
    let (mut device_size, mut dim_map, mut stride_map, mut dtype) = (None, None, None, None);
    let (mut device_strides, mut format) = (None, None);
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
            "element_arrangement" => arrangement(c)?,
            _ => {
                c.skip_value();
                c.warnings.push(format!(
                    "byte {}: {} is not a known key and was ignored",
                    span.start,
                    quote(key)
                ));
            }
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
    Ok(SpyreLayout::Explicit { device_size, dim_map, stride_map, dtype })
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

/// Other arrangements move elements inside sticks, so that ignoring them would give wrong bytes.
fn arrangement(cursor: &mut Cursor<'_>) -> Result<()> {
    if cursor.eat_word("ElementArrangement") {
        cursor.expect(".", "after `ElementArrangement`")?;
    }
    cursor.choose("an element arrangement with a known byte order", &[("STANDARD", ())])
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
            SpyreLayout::Explicit { device_size, dim_map, stride_map, dtype } => {
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
            SpyreLayout::Constructor { size, dtype, dim_order } => {
                let name = TORCH.iter().find(|t| t.1 == *dtype).map_or("?", |t| t.0);
                write!(f, "{}, torch.{name}", Tuple(size))?;
                if let Some(order) = dim_order {
                    write!(f, ", {}", Dimensions(order))?;
                }
            }
        }
        f.write_str(")")
    }
}
