//! The tensor to convert: from a file, or the built-in one.

use std::borrow::Cow;
use std::path::Path;

use tilewright::family::Tensor;
use tilewright::{DType, Layout};
use tilewright_files::{HostArray, Order, Source, npy, safetensors};

use super::arguments::{self, ConvertArgs};
use super::failure::{Failure, Result};
use super::tensorbin;

/// Shape of the built-in tensor: two tiles by three.
const BUILT_IN: [usize; 2] = [64, 96];

/// Reads what the arguments ask for, with its layout where that is not dense. Bytes of a raw file are not measured here: the layout says how many there must be.
pub(crate) fn read<'a>(
    path: &Path,
    source: &'a Source<'_>,
    args: &ConvertArgs,
) -> Result<(HostArray<'a>, Option<Layout>)> {
    let shape = args.shape.as_deref().map(|text| arguments::numbers("--shape", text)).transpose()?;
    let dtype = args.dtype.as_deref().map(arguments::dtype).transpose()?;
    let kind = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    if args.tensor.is_some() && kind != "safetensors" {
        return Err(Failure::usage("--tensor", path.display(), "a .safetensors file"));
    }
    if args.coordinate.is_some() && kind != "tensorbin" {
        return Err(Failure::usage("--coordinate", path.display(), "a .tensorbin file"));
    }
    let (array, layout) = match kind {
        "npy" => (npy::read(source, dtype)?, None),
        "safetensors" => (safetensors::read(source, args.tensor.as_deref())?, None),
        "tensorbin" => {
            let (array, layout) = tensorbin::read(source, args.coordinate.as_deref())?;
            (array, Some(layout))
        }
        _ => {
            let tensor = arguments::tensor(shape, dtype, Some(&args.layouts), args.from.as_deref())?;
            let tensor = tensor.ok_or_else(|| {
                let needed = "--shape and --dtype, as it is no .npy, .safetensors or .tensorbin";
                Failure::usage("input", path.display(), needed)
            })?;
            let bytes = source.bytes(0..source.len())?;
            return Ok((HostArray { tensor, order: Order::RowMajor, bytes }, None));
        }
    };
    let Tensor { shape: stored_shape, dtype: stored_dtype } = &array.tensor;
    if let Some(shape) = shape.filter(|shape| shape != stored_shape) {
        return Err(mismatch("--shape", &format!("{shape:?}"), &format!("{stored_shape:?}")));
    }
    if let Some(dtype) = dtype.filter(|dtype| dtype != stored_dtype) {
        return Err(mismatch("--dtype", dtype.name(), stored_dtype.name()));
    }
    if args.from.is_some() {
        return Err(Failure::usage(
            "--from",
            path.display(),
            "a raw file: this one says itself how it is laid out",
        ));
    }
    Ok((array, layout))
}

fn mismatch(option: &str, given: &str, stored: &str) -> Failure {
    Failure::usage(option, given, format!("{stored}, which is what the file holds"))
}

/// A ramp with a few values that conversions treat in a special way.
pub(crate) fn built_in(args: &ConvertArgs) -> Result<HostArray<'static>> {
    let options = [
        ("--shape", &args.shape),
        ("--dtype", &args.dtype),
        ("--tensor", &args.tensor),
        ("--from", &args.from),
        ("--coordinate", &args.coordinate),
    ];
    if let Some((option, _)) = options.iter().find(|option| option.1.is_some()) {
        return Err(Failure::usage(option, "no input", "a file that it describes"));
    }
    let [rows, cols] = BUILT_IN;
    let mut values: Vec<f32> = (0..rows * cols).map(|i| (i as f32 - 3072.0) / 256.0).collect();
    // Negative zero, a subnormal, the smallest and a large normal number, one in each of four rows.
    for (row, special) in [-0.0, 1e-40, f32::MIN_POSITIVE, 1e30].into_iter().enumerate() {
        values[row * cols + row] = special;
    }
    let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let tensor = Tensor { shape: vec![rows as u64, cols as u64], dtype: DType::F32 };
    Ok(HostArray { tensor, order: Order::RowMajor, bytes: Cow::Owned(bytes) })
}
