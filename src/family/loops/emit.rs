//! From a layout to the nests that copy a host array into it.

use super::{Dci, Dcsi, MAX_NESTS, too_many_nests};
use crate::dtype::{DType, Format};
use crate::error::{Error, Result};
use crate::family::host::strided::{Memref, row_major};
use crate::family::spyre::{DataFormat, STICK_BYTES};
use crate::family::{Family, Placement, Tensor};
use crate::layout::Layout;
use crate::layout::piecewise::{Piecewise, Region, add, zip};

impl Dci {
    /// The fewest nests that copy a host array into a layout: one for what a ragged split leaves whole, one
    /// for its remainder, and so on for each such split. They do not write padding.
    ///
    /// Where the layout has device dimensions, as Spyre's have, each nest has one loop for each of them, if
    /// need be of size 1.
    ///
    /// # Errors
    /// Where the shapes differ, and for layouts of block formats, of more than one buffer, or of more than
    /// 4096 nests.
    pub fn from_layout(layout: &Layout, host: &Memref) -> Result<Dci> {
        let tensor = Tensor { shape: layout.shape().to_vec(), dtype: host.dtype };
        host.to_layout(&tensor, &Placement::default())?;
        let block_bytes = layout.block_bytes() as i64;
        let plain = !matches!(layout.format(), Format::Block(_));
        if layout.space.units != 1 || layout.buffers() != 1 || !plain {
            let given = format!("{} of {} buffers", layout.format(), layout.buffers());
            return Err(Error::value("layout of a conversion", given, "plain elements in one buffer"));
        }
        let geometry = layout.geometry();
        let mut size = geometry.device_size.clone();
        let places = layout.space.unit_bytes / block_bytes as u64;
        if let Some(size) = size.as_mut().filter(|s| s.iter().product::<u64>() != places)
            && let Some(stick) = size.last_mut()
        {
            // Sticks are whole, whatever the last size.
            *stick = STICK_BYTES / block_bytes as u64;
        }
        let mut nests = Vec::new();
        if layout.elements() > 0 {
            let pieces = moves(layout, host)?;
            nests = match (&size, &geometry.stride_map) {
                (Some(size), Some(strides)) => by_dimension(&pieces, size, strides).unwrap_or(pieces),
                _ => pieces,
            };
            nests.sort_by_key(|p| p.at[1]);
        }
        let innermost_first = |shape: &[u64]| shape.iter().rev().copied().collect::<Vec<_>>();
        let whole = [places];
        Ok(Dci {
            host_to_device: true,
            source_format: plain_format(host.dtype),
            destination_format: match layout.format() {
                Format::Sen169 => Some(DataFormat::Sen169Fp16),
                Format::Plain(dtype) => plain_format(dtype),
                Format::Block(_) | Format::TtE4M3 => None,
            },
            nests: nests.into_iter().map(dcsi).collect(),
            input_shape: innermost_first(if host.shape.is_empty() { &[1] } else { &host.shape }),
            output_shape: innermost_first(size.as_deref().unwrap_or(&whole)),
        })
    }
}

/// The format that holds the bytes of a host type.
fn plain_format(dtype: DType) -> Option<DataFormat> {
    DataFormat::all().find(|f| f.storage() == Some(Format::Plain(dtype)))
}

fn dcsi(piece: Region<2>) -> Dcsi {
    let loops = || piece.loops.iter().rev();
    Dcsi {
        size: loops().map(|l| l.0).collect(),
        source_strides: loops().map(|l| l.1[0]).collect(),
        destination_strides: loops().map(|l| l.1[1]).collect(),
        source_offset: piece.at[0].unsigned_abs(),
        destination_offset: piece.at[1].unsigned_abs(),
    }
}

/// Every element's move from the host array into a layout of one buffer, as nests of [host, device] elements
/// with the greatest device step outermost.
fn moves(layout: &Layout, host: &Memref) -> Result<Vec<Region<2>>> {
    let block_bytes = layout.block_bytes() as i64;
    let strides = host.strides.clone().unwrap_or_else(|| row_major(&host.shape));
    let repeats = layout.replicas.iter().map(|r| (r.n, [0, r.step[1] / block_bytes])).collect();
    let mut all = vec![Region { at: [host.offset, layout.offset / block_bytes], loops: repeats }];
    for axis in &layout.axes {
        let loops: Vec<_> = axis.dims.iter().map(|&d| (host.shape[d], [strides[d]])).collect();
        let (at, both) = zip::<1, 3, 4>(&Piecewise::nest(&loops), &axis.addresses)?;
        let pair = |step: [i64; 4]| [step[0], step[2] / block_bytes];
        let pieces = both.regions(add(at, [0, axis.start[0], axis.start[1], axis.start[2]]))?;
        if all.len().saturating_mul(pieces.len()) > MAX_NESTS {
            return Err(too_many_nests());
        }
        let joined = |a: &Region<2>, p: &Region<4>| Region {
            at: add(a.at, pair(p.at)),
            loops: a.loops.iter().copied().chain(p.loops.iter().map(|&(n, s)| (n, pair(s)))).collect(),
        };
        all = all.iter().flat_map(|a| pieces.iter().map(move |p| joined(a, p))).collect();
    }
    for piece in &mut all {
        piece.loops.retain(|l| l.0 > 1);
        piece.loops.sort_by_key(|l| std::cmp::Reverse(l.1[1]));
        if piece.loops.is_empty() {
            piece.loops.push((1, [1, 1]));
        }
    }
    Ok(all)
}

/// The same moves with exactly one loop for each device dimension; `None` if a loop does not run along one,
/// or if two do.
fn by_dimension(pieces: &[Region<2>], size: &[u64], strides: &[i64]) -> Option<Vec<Region<2>>> {
    let steps = row_major(size);
    let mut out = Vec::new();
    let mut work: Vec<Region<2>> = pieces.iter().rev().cloned().collect();
    while let Some(mut piece) = work.pop() {
        if out.len() + work.len() > MAX_NESTS {
            return None;
        }
        let along = |&(n, [_, d]): &(u64, [i64; 2])| {
            let k = (0..size.len()).find(|&k| size[k] > 1 && steps[k] <= d && n > 1)?;
            (d % steps[k] == 0).then_some((k, (piece.at[1] / steps[k]) as u64 % size[k], d / steps[k]))
        };
        let mut loops: Vec<_> =
            (0..size.len()).map(|k| (1, [if strides[k] > 0 { strides[k] } else { 1 }, steps[k]])).collect();
        let mut split = None;
        for (i, l) in piece.loops.iter().enumerate().filter(|(_, l)| l.0 > 1) {
            let (k, first, by) = along(l)?;
            if first + (l.0 - 1) * by as u64 >= size[k] {
                // It runs on into the next dimension.
                (first == 0 && by == 1).then(|| split = Some((i, size[k])))?;
                break;
            }
            (loops[k].0 == 1).then(|| loops[k] = *l)?;
        }
        let Some((i, width)) = split else {
            out.push(Region { at: piece.at, loops });
            continue;
        };
        let (n, step) = piece.loops.remove(i);
        let wide = step.map(|s| s * width as i64);
        let with = |more: &[(u64, [i64; 2])], iterations: u64| Region {
            at: add(piece.at, wide.map(|s| s * iterations as i64)),
            loops: piece.loops.iter().chain(more).copied().collect(),
        };
        if n % width > 0 {
            work.push(with(&[(n % width, step)], n / width));
        }
        work.push(with(&[(n / width, wide), (width, step)], 0));
    }
    Some(out)
}
