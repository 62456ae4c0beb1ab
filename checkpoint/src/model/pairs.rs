//! Quantised tensors whose codes and scales are two tensors of the file become one entry.

use std::collections::HashMap;

use tilewright::{DType, Result};

use super::entry::{Encoding, Entry};
use super::file::damaged;

/// Elements that share a scale in MXFP4.
const GROUP: u64 = 32;

/// Joins each pair; the entry stands where the codes stand.
pub(super) fn join(mut entries: Vec<Entry>) -> Result<Vec<Entry>> {
    let by_name: HashMap<String, usize> =
        entries.iter().enumerate().map(|(i, e)| (e.name.clone(), i)).collect();
    let mut scales = vec![false; entries.len()];
    for i in 0..entries.len() {
        let Some((pair, joined)) = pair(&entries[i], |name| by_name.get(name).map(|&k| (k, &entries[k])))?
        else {
            continue;
        };
        scales[pair] = true;
        entries[i] = joined;
    }
    let mut scales = scales.into_iter();
    entries.retain(|_| !scales.next().unwrap_or(false));
    Ok(entries)
}

type Found<'a> = Option<(usize, &'a Entry)>;

/// The scales that belong to an entry and the two as one, if it is the codes of a pair.
fn pair<'a>(codes: &Entry, find: impl Fn(&str) -> Found<'a>) -> Result<Option<(usize, Entry)>> {
    let Encoding::Plain(dtype) = codes.encoding else { return Ok(None) };
    if let (DType::U8, Some(base)) = (dtype, codes.name.strip_suffix("_blocks")) {
        let Some((i, scales)) = find(&format!("{base}_scales")) else { return Ok(None) };
        return blocks(codes, scales, base).map(|entry| Some((i, entry)));
    }
    let found = ["_scale_inv", "_scale"].iter().find_map(|suffix| find(&format!("{}{suffix}", codes.name)));
    let Some((i, scales)) = found else { return Ok(None) };
    match dtype {
        DType::F8E4M3 => fp8(codes, scales).map(|entry| Some((i, entry))),
        DType::I8 | DType::U8 => Ok(packed(codes, scales).map(|entry| (i, entry))),
        _ => Ok(None),
    }
}

/// gpt-oss: codes `[.., K / 32, 16]` and scales `[.., K / 32]` of a tensor `[.., K]`.
fn blocks(codes: &Entry, scales: &Entry, base: &str) -> Result<Entry> {
    let refuse = || {
        let what = format!(
            "`{}` of shape {:?} and `{}` of shape {:?} are not codes and scales: needed [.., K/32, 16] and [.., K/32]",
            codes.name, codes.shape, scales.name, scales.shape
        );
        damaged(codes.data.file.path(), what)
    };
    let (outer, last) = codes.shape.split_at(codes.shape.len().saturating_sub(1));
    if last != [16] || outer != scales.shape || !matches!(scales.encoding, Encoding::Plain(DType::U8)) {
        return Err(refuse());
    }
    let mut shape = outer.to_vec();
    let groups = shape.last_mut().ok_or_else(refuse)?;
    *groups = groups.checked_mul(GROUP).ok_or_else(refuse)?;
    let encoding = Encoding::Mxfp4 { scales: scales.data.clone() };
    Ok(Entry { name: base.to_owned(), shape, encoding, data: codes.data.clone() })
}

/// Two codes a byte along the last dimension, and a scale for 32 elements.
fn packed(codes: &Entry, scales: &Entry) -> Option<Entry> {
    let mut shape = codes.shape.clone();
    let last = shape.last_mut()?;
    *last = last.checked_mul(2)?;
    let mut grouped = shape.clone();
    *grouped.last_mut()? /= GROUP;
    let fits = shape.last()?.is_multiple_of(GROUP)
        && grouped == scales.shape
        && matches!(scales.encoding, Encoding::Plain(DType::U8));
    let encoding = Encoding::Mxfp4 { scales: scales.data.clone() };
    fits.then(|| Entry { name: codes.name.clone(), shape, encoding, data: codes.data.clone() })
}

/// Rows and columns of a block of scales where the shapes leave a choice.
const BLOCK: u64 = 128;

/// Matrices of E4M3 and the scales of their blocks; a single scale is a block as large as the matrix.
fn fp8(codes: &Entry, scales: &Entry) -> Result<Entry> {
    let refuse = |needed: &str| {
        let what = format!(
            "`{}` is {} of shape {:?} for `{}` of shape {:?}: {needed}",
            scales.name, scales.encoding, scales.shape, codes.name, codes.shape
        );
        damaged(codes.data.file.path(), what)
    };
    let exponents = match scales.encoding {
        Encoding::Plain(DType::F32) => false,
        Encoding::Plain(DType::U8) => true,
        _ => return Err(refuse("scales are f32, or bytes that hold an exponent")),
    };
    let [outer @ .., rows, cols] = codes.shape.as_slice() else {
        return Err(refuse("scales of blocks belong to matrices"));
    };
    let (grid, whole) = match scales.shape.as_slice() {
        [] | [1] => ([1, 1], outer.is_empty()),
        [leading @ .., r, c] => ([*r, *c], leading == outer),
        [_] => ([1, 1], false),
    };
    let block = [block(*rows, grid[0]), block(*cols, grid[1])];
    let ([Some(rows), Some(cols)], true) = (block, whole) else {
        return Err(refuse(
            "needed one scale for each block of 128, or of as many as divide the matrix evenly",
        ));
    };
    let encoding = Encoding::Fp8Blocks { scales: scales.data.clone(), grid, block: [rows, cols], exponents };
    Ok(Entry { encoding, ..codes.clone() })
}

/// How many rows or columns share a scale: blocks of 128 whose last one is cut short, as the models that have such
/// scales are trained with, or equal parts.
fn block(size: u64, scales: u64) -> Option<u64> {
    if size.div_ceil(BLOCK) == scales {
        Some(BLOCK)
    } else if scales > 0 && size.is_multiple_of(scales) && size > 0 {
        Some(size / scales)
    } else {
        None
    }
}
