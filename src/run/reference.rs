//! The reference: from the two layouts alone, element by element, by the scalar rules.
//!
//! It never looks at a plan. What it writes is what every other executor must write.

use std::collections::HashMap;

use kernels::Number;

use super::zeroed::zeroed;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::plan::{Endpoint, Op, Options, OutOfRange, fill};

/// Converts a tensor, slowly and plainly: `source` holds all buffers of `src`, the result those of `dst`.
///
/// # Errors
/// As [`crate::Plan::compile`], and where `source` has another length than the layout, the destination is larger than
/// 2 GiB or than free memory, or a value does not fit its destination.
pub fn reference(src: &Layout, dst: &Layout, options: &Options, source: &[u8]) -> Result<Vec<u8>> {
    if source.len() as u64 != src.total_bytes() {
        let (given, needed) = (source.len() as u64, src.total_bytes());
        return Err(Error::Length { what: "source", given, needed });
    }
    if src.shape() != dst.shape() {
        return Err(Error::value("shape", format!("{:?}", src.shape()), format!("{:?}", dst.shape())));
    }
    dst.check_destination()?;
    let from = Endpoint::new(src, &options.of_source())?;
    let to = Endpoint::new(dst, options)?.packed_from(&from);
    let op = Op::new(&from, &to, options)?;
    let (fill, pad) = fill(&to, dst.fill())?;

    let mut out = zeroed(to.bytes())?;
    for unit in 0..dst.space.units {
        let begin = dst.byte([unit as i64, 0, 0]) as usize;
        for block_bytes in out[begin..begin + dst.space.unit_bytes as usize].chunks_exact_mut(fill.len()) {
            block_bytes.copy_from_slice(&fill);
        }
    }
    // Tiles of the destination that hold an element, row by row.
    let mut tiles: HashMap<usize, Vec<f32>> = HashMap::new();
    let mut out_of_range: Option<OutOfRange> = None;
    for index in indices(src.shape()) {
        let read = src.address(&index);
        let value = element(&from, source, src.byte(read) as usize, read[2] as usize);
        let write = dst.address(&index);
        for step in dst.replica_steps() {
            let at = dst.byte(std::array::from_fn(|k| write[k] + step[k])) as usize;
            match (&to.codec, op) {
                (Some(codec), Op::Convert(from, _)) => {
                    let tile = tiles.entry(at).or_insert_with(|| vec![pad; codec.tile().elements()]);
                    tile[write[2] as usize] = f32::from_bits(from.convert(Number::F32, value) as u32);
                }
                (_, Op::Convert(from, number)) => {
                    let bits = from.convert(number, value).to_le_bytes();
                    out[at..at + to.block_bytes].copy_from_slice(&bits[..to.block_bytes]);
                }
                (_, Op::Cast { cast, strict }) => {
                    let (code, fits) = cast.apply(value);
                    out[at..at + to.block_bytes].copy_from_slice(&code.to_le_bytes()[..to.block_bytes]);
                    if strict && !fits {
                        let this = OutOfRange { at: at as u64, bits: value };
                        out_of_range = OutOfRange::earlier(out_of_range, this);
                    }
                }
                (_, Op::Copy(size)) => out[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]),
            }
        }
    }
    if let Some(codec) = to.codec {
        for (at, tile) in tiles {
            codec.pack_scalar(&tile, &mut out[at..at + codec.tile_bytes()]);
        }
    }
    out_of_range.map_or(Ok(out), |out_of_range| Err(out_of_range.error(op)))
}

/// The bits of one element of the source.
pub(super) fn element(side: &Endpoint, source: &[u8], at: usize, slot: usize) -> u64 {
    match side.codec {
        Some(codec) => {
            let (row, col) = (slot / codec.tile().cols(), slot % codec.tile().cols());
            codec.decode_at(&source[at..at + codec.tile_bytes()], row, col).to_bits().into()
        }
        None => {
            let mut bits = [0; 8];
            bits[..side.block_bytes].copy_from_slice(&source[at..at + side.block_bytes]);
            u64::from_le_bytes(bits)
        }
    }
}

/// Every index of a shape, row-major.
fn indices(shape: &[u64]) -> impl Iterator<Item = Vec<u64>> {
    let count: u64 = shape.iter().product();
    let mut index = vec![0; shape.len()];
    (0..count).map(move |mut u| {
        for (i, &n) in index.iter_mut().zip(shape).rev() {
            *i = u % n;
            u /= n;
        }
        index.clone()
    })
}
