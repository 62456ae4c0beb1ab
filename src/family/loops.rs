//! Loop nests of the Tiled Tensor RFC: the three tuples, and the runtime's list of such nests.

use super::host::strided::{Memref, row_major};
use super::spyre::{DataFormat, STICK_BYTES};
use super::{Family, Placement, Tensor, check_count, check_sizes, join, volume};
use crate::dtype::{DType, Format};
use crate::error::{Error, Result};
use crate::layout::axis::{Axis, Level};
use crate::layout::piecewise::{Piecewise, Region, add, zip};
use crate::layout::{Geometry, Layout, MAX_BYTES, Parts, Space, element_bytes};

/// The most nests that are made or read.
const MAX_NESTS: usize = 4096;

/// `((4, 1024, 64), (65536, 64, 1), (64, 256, 1))`: one loop nest, outermost loop first, in elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ThreeTuple {
    /// Trip count of each loop.
    pub ranges: Vec<u64>,
    /// Step of each loop in device memory.
    pub device_strides: Vec<i64>,
    /// Step of each loop in host memory.
    pub host_strides: Vec<i64>,
}

/// The runtime's description of a host-device conversion (`DataConversionInfo`), written as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Dci {
    /// `isHostToSen_`: from host to device; the other way where false.
    pub host_to_device: bool,
    /// `dataformat_src_`.
    pub source_format: Option<DataFormat>,
    /// `dataformat_dst_`.
    pub destination_format: Option<DataFormat>,
    /// `dcsi_`: the nests; together they cover each element once.
    pub nests: Vec<Dcsi>,
    /// `input_shape_` in elements, innermost first; empty where absent.
    pub input_shape: Vec<u64>,
    /// `output_shape_` in elements, innermost first; empty where absent.
    pub output_shape: Vec<u64>,
}

/// One nest of a [`Dci`], innermost loop first, in elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Dcsi {
    /// `size_`: trip count of each loop.
    pub size: Vec<u64>,
    /// `stride_src_`: step of each loop in the source.
    pub source_strides: Vec<i64>,
    /// `stride_dst_`: step of each loop in the destination.
    pub destination_strides: Vec<i64>,
    /// `offset_src_`: where the nest starts in the source.
    pub source_offset: u64,
    /// `offset_dst_`: where the nest starts in the destination.
    pub destination_offset: u64,
}

impl Dci {
    /// The host's and the device's part of (source, destination).
    fn sides<T>(&self, source: T, destination: T) -> (T, T) {
        if self.host_to_device { (source, destination) } else { (destination, source) }
    }

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
        if let Some(stick) = size.as_mut().and_then(|s| s.last_mut()) {
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
        let whole = [layout.space.unit_bytes / block_bytes as u64];
        Ok(Dci {
            host_to_device: true,
            source_format: plain_format(host.dtype),
            destination_format: match layout.format() {
                Format::Sen169 => Some(DataFormat::Sen169Fp16),
                Format::Plain(dtype) => plain_format(dtype),
                Format::Block(_) => None,
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

fn too_many_nests() -> Error {
    Error::TooComplex { what: "the list of nests".into(), cap: MAX_NESTS }
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
        let with = |more: &[(u64, [i64; 2])], turns: u64| Region {
            at: add(piece.at, wide.map(|s| s * turns as i64)),
            loops: piece.loops.iter().chain(more).copied().collect(),
        };
        if n % width > 0 {
            work.push(with(&[(n % width, step)], n / width));
        }
        work.push(with(&[(n / width, wide), (width, step)], 0));
    }
    Some(out)
}

/// Nests over [host, device] elements that together describe a layout.
struct Nests {
    pieces: Vec<Region<2>>,
    /// Loops that repeat every element.
    repeats: Vec<(u64, [i64; 2])>,
}

impl Nests {
    fn into_layout(
        mut self,
        tensor: &Tensor,
        format: Format,
        device_size: Option<u64>,
        placement: &Placement,
    ) -> Result<Layout> {
        check_sizes("shape", &tensor.shape)?;
        let elements = volume("the tensor", tensor.shape.iter().copied())?;
        volume("the repeats", self.repeats.iter().map(|l| l.0))?;
        let moved = |p: &Region<2>| volume("the loops", p.loops.iter().map(|l| l.0));
        let mut sum = 0;
        for piece in &self.pieces {
            sum += u128::from(moved(piece)?);
        }
        if sum != u128::from(elements) {
            let needed = format!("{elements}, those of shape {}", join(&tensor.shape));
            return Err(Error::value("elements that the loops reach", sum, needed));
        }
        self.pieces.retain(|p| p.loops.iter().all(|l| l.0 > 0));
        let (mut lowest, mut highest, mut last) = (0, -1, -1);
        for piece in &mut self.pieces {
            if piece.at[0] as u64 >= elements {
                let needed = format!("elements below {elements}");
                return Err(Error::value("host elements", format!("element {}", piece.at[0]), needed));
            }
            piece.loops.retain(|l| l.0 > 1);
            if let Some((n, [stride, _])) = piece.loops.iter().find(|l| l.1[0] < 1) {
                let given = format!("{stride} for a loop of {n}");
                return Err(Error::value(
                    "host strides",
                    given,
                    "1 or more, so that each element is read once",
                ));
            }
            piece.loops.sort_by_key(|l| std::cmp::Reverse(l.1[0]));
            let steps = piece.loops.iter().map(|l| (l.0, l.1[1]));
            last = last.max(bounds(piece.at[1], steps.clone()).1);
            let (low, high) = bounds(piece.at[1], steps.chain(self.repeats.iter().map(|l| (l.0, l.1[1]))));
            (lowest, highest) = (low.min(lowest), high.max(highest));
        }
        if lowest < 0 {
            return Err(Error::value(
                "device strides",
                format!("a place at {lowest}"),
                "places of 0 or more",
            ));
        }
        let size = element_bytes(format);
        let extent = device_size.map_or(highest + 1, i128::from);
        if highest >= extent {
            let given = format!("a place at {highest}");
            return Err(Error::value(
                "device strides",
                given,
                format!("places below {extent}, the device's size"),
            ));
        }
        let bytes = u64::try_from(extent * i128::from(size)).ok().filter(|&b| b <= MAX_BYTES);
        let bytes = bytes.ok_or_else(|| Error::overflow("the device buffer"))?;
        let (mut axes, mut replicas) = (vec![], vec![]);
        if elements > 0 {
            let ([host, device], places) = follow(self.pieces)?;
            if host != 0 {
                return Err(Error::value("host elements", format!("element {host} first"), "element 0"));
            }
            let cells = vec![Level::bytes(last as u64 + 1, size as i64)];
            axes.push(Axis::new((0..tensor.shape.len()).collect(), device, places, cells)?);
            replicas = self.repeats.iter().map(|&(n, [_, d])| Level::bytes(n, d * size as i64)).collect();
        }
        let layout = Layout::new(Parts {
            shape: tensor.shape.clone(),
            format,
            tile: None,
            axes,
            replicas,
            offset: 0,
            space: Space::in_order(1, bytes),
            fill: placement.pad_value.unwrap_or(0.0),
            geometry: Geometry { physical_shape: vec![extent as u64], ..Geometry::default() },
        })?;
        layout.check_destination()?;
        Ok(layout)
    }
}

/// The least and greatest value that loops reach from `at`.
fn bounds(at: i64, loops: impl Iterator<Item = (u64, i64)>) -> (i128, i128) {
    loops.fold((i128::from(at), i128::from(at)), |(low, high), (n, step)| {
        // All loops together make at most 2^60 turns, so the sum stays below 2^124.
        let way = (i128::from(n) - 1) * i128::from(step);
        (low + way.min(0), high + way.max(0))
    })
}

/// The device places of consecutive host elements, in their order, and where both begin. Loops are sorted,
/// the greatest host stride first, so each turn of one must cover exactly what lies before the next turn.
fn follow(mut nests: Vec<Region<2>>) -> Result<([i64; 2], Piecewise<1>)> {
    nests.sort_by_key(|p| p.at[0]);
    // Nests that interleave on the host are followed together.
    let mut clusters: Vec<(i128, Vec<Region<2>>)> = Vec::new();
    for nest in nests {
        let (_, high) = bounds(nest.at[0], nest.loops.iter().map(|l| (l.0, l.1[0])));
        match clusters.last_mut() {
            Some((end, cluster)) if i128::from(nest.at[0]) <= *end => {
                *end = high.max(*end);
                cluster.push(nest);
            }
            _ => clusters.push((high, vec![nest])),
        }
    }
    let mut parts = Vec::new();
    let mut begin: Option<[i64; 2]> = None;
    let mut next = 0;
    for (_, cluster) in clusters {
        let ([host, device], map) = together(cluster)?;
        let first = *begin.get_or_insert([host, device]);
        if parts.is_empty() {
            next = host;
        }
        if host != next {
            let given = format!("element {host} after element {}", next - 1);
            return Err(Error::value("host elements", given, format!("element {next}")));
        }
        next += map.len() as i64;
        parts.push(([device - first[1]], map));
    }
    let begin = begin.unwrap_or([0, 0]);
    match parts.len() {
        1 => Ok((begin, parts.remove(0).1)),
        _ => Ok((begin, Piecewise::sequence(parts).1)),
    }
}

/// [`follow`] for nests that interleave on the host: they must share their outermost loop.
fn together(mut nests: Vec<Region<2>>) -> Result<([i64; 2], Piecewise<1>)> {
    let outer = nests[0].loops.first().copied();
    if let Some(other) = nests.iter().find(|p| p.loops.first() != outer.as_ref()) {
        let needed = format!("{outer:?}, as the nest that begins at host element {}", nests[0].at[0]);
        let given = format!("{:?} at host element {}", other.loops.first(), other.at[0]);
        return Err(Error::value("outermost loop of interleaved nests", given, needed));
    }
    let Some((n, [stride, step])) = outer else {
        if nests.len() > 1 {
            let given = format!("element {} twice", nests[0].at[0]);
            return Err(Error::value("host elements", given, "each element once"));
        }
        return Ok((nests[0].at, Piecewise::ONE));
    };
    for nest in &mut nests {
        nest.loops.remove(0);
    }
    let (at, body) = follow(nests)?;
    if body.len() != stride as u64 {
        let given = format!("{stride} for a loop of {n}");
        let needed = format!("{}, the elements that the loops inside of it reach", body.len());
        return Err(Error::value("host strides", given, needed));
    }
    Ok((at, body.repeat(n, [step])))
}

impl Family for ThreeTuple {
    /// Checks that the three have one entry for each loop.
    ///
    /// # Errors
    /// [`crate::Error::Value`] that names the tuple.
    fn validate(&self) -> Result<()> {
        check_sizes("ranges", &self.ranges)?;
        check_count(
            "device strides",
            self.device_strides.len(),
            self.ranges.len(),
            "as many as there are ranges",
        )?;
        check_count("host strides", self.host_strides.len(), self.ranges.len(), "as many as there are ranges")
    }

    /// The layout of a tensor whose row-major elements the host strides count.
    ///
    /// The device buffer ends with the highest place that an element has; places between are padding, 0
    /// unless the placement says otherwise.
    ///
    /// # Errors
    /// Where the loops do not reach every element of the tensor exactly once, where two elements would lie on
    /// one place or one in front of the buffer, and for more than 2^60 bytes.
    fn to_layout(&self, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout> {
        self.validate()?;
        let steps = self.host_strides.iter().zip(&self.device_strides);
        let loops = self.ranges.iter().zip(steps).map(|(&n, (&h, &d))| (n, [h, d])).collect();
        let nests = Nests { pieces: vec![Region { at: [0, 0], loops }], repeats: vec![] };
        nests.into_layout(tensor, Format::Plain(tensor.dtype), None, placement)
    }
}

impl Family for Dci {
    /// Checks that the vectors of each nest have one entry for each loop.
    ///
    /// # Errors
    /// [`crate::Error::Value`] that names the nest and the vector.
    fn validate(&self) -> Result<()> {
        check_sizes("input_shape_", &self.input_shape)?;
        check_sizes("output_shape_", &self.output_shape)?;
        for (i, nest) in self.nests.iter().enumerate() {
            let rank = nest.size.len();
            check_sizes(&format!("dcsi_[{i}].size_"), &nest.size)?;
            check_sizes(&format!("dcsi_[{i}] offsets"), &[nest.source_offset, nest.destination_offset])?;
            for (name, strides) in [("src", &nest.source_strides), ("dst", &nest.destination_strides)] {
                check_count(
                    &format!("dcsi_[{i}].stride_{name}_"),
                    strides.len(),
                    rank,
                    "as many as size_ has",
                )?;
            }
        }
        Ok(())
    }

    /// The layout of a tensor whose row-major elements the host side counts.
    ///
    /// Loops that stand still on the host repeat their elements. The device buffer has the device side's
    /// shape; without one it ends with the highest place that an element has.
    ///
    /// # Errors
    /// Where the nests together do not reach every element of the tensor exactly once, where two elements
    /// would lie on one place, one outside of the buffer, for a format without a codec, and for more than
    /// 2^60 bytes.
    fn to_layout(&self, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout> {
        self.validate()?;
        if self.nests.len() > MAX_NESTS {
            return Err(too_many_nests());
        }
        let (_, device_format) = self.sides(self.source_format, self.destination_format);
        let format = match device_format {
            None => Format::Plain(tensor.dtype),
            Some(format) => format.storage().ok_or_else(|| {
                Error::value("dataformat of the device", format.name(), "a format whose encoding is known")
            })?,
        };
        let (host_shape, device_shape) = self.sides(&self.input_shape, &self.output_shape);
        let host_size = volume("the host shape", host_shape.iter().copied())?;
        let elements = volume("the tensor", tensor.shape.iter().copied())?;
        if !host_shape.is_empty() && host_size != elements {
            let needed = format!("the {elements} elements of a tensor of shape {}", join(&tensor.shape));
            return Err(Error::value("shape of the host side", format!("{host_size} elements"), needed));
        }
        let device_size = volume("the device shape", device_shape.iter().copied())?;
        let mut nests = Nests { pieces: vec![], repeats: vec![] };
        for (i, nest) in self.nests.iter().enumerate() {
            let (host, device) = self.sides(&nest.source_strides, &nest.destination_strides);
            let (host_at, device_at) = self.sides(nest.source_offset, nest.destination_offset);
            let at =
                |x: u64| i64::try_from(x).map_err(|_| Error::overflow(format!("an offset of dcsi_[{i}]")));
            let loops = nest.size.iter().zip(host.iter().zip(device)).map(|(&n, (&h, &d))| (n, [h, d]));
            let still = |l: &(u64, [i64; 2])| l.0 > 1 && l.1[0] == 0;
            let (repeats, loops): (Vec<_>, Vec<_>) = loops.partition(still);
            if i > 0 && repeats != nests.repeats {
                let needed = format!("those of the first nest, {:?}", nests.repeats);
                return Err(Error::value(format!("repeats of dcsi_[{i}]"), format!("{repeats:?}"), needed));
            }
            nests.repeats = repeats;
            nests.pieces.push(Region { at: [at(host_at)?, at(device_at)?], loops });
        }
        nests.into_layout(tensor, format, (!device_shape.is_empty()).then_some(device_size), placement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::spyre::SpyreLayout;
    use crate::layout::coverage::{Held, held};

    fn tensor(shape: &[u64], dtype: DType) -> Tensor {
        Tensor { shape: shape.to_vec(), dtype }
    }

    fn tuple(ranges: &[u64], device: &[i64], host: &[i64]) -> ThreeTuple {
        ThreeTuple { ranges: ranges.to_vec(), device_strides: device.to_vec(), host_strides: host.to_vec() }
    }

    fn dense(shape: &[u64], dtype: DType) -> Memref {
        Memref { shape: shape.to_vec(), dtype, strides: None, offset: 0 }
    }

    /// Runs loops, innermost first, from two offsets, and puts each element read on the place written.
    fn run(nest: &Dcsi, out: &mut Vec<Held>) {
        for mut turn in 0..nest.size.iter().product() {
            let (mut host, mut device) = (nest.source_offset, nest.destination_offset);
            for (k, n) in nest.size.iter().enumerate() {
                host = host.wrapping_add_signed((turn % n) as i64 * nest.source_strides[k]);
                device = device.wrapping_add_signed((turn % n) as i64 * nest.destination_strides[k]);
                turn /= n;
            }
            if out.len() as u64 <= device {
                out.resize(device as usize + 1, Held::Fill);
            }
            assert_eq!(out[device as usize], Held::Fill, "place {device} is written twice");
            out[device as usize] = Held::Element(host);
        }
    }

    fn reversed<T: Copy>(items: &[T]) -> Vec<T> {
        items.iter().rev().copied().collect()
    }

    #[test]
    fn a_tuple_is_its_loop_nest() {
        type Case<'a> = (&'a [u64], &'a [u64], &'a [i64], &'a [i64]);
        let cases: &[Case] = &[
            (&[1024, 256], &[4, 1024, 64], &[65536, 64, 1], &[64, 256, 1]),
            (&[24, 128], &[2, 24, 64], &[1536, 64, 1], &[64, 128, 1]),
            (&[6, 5], &[6, 5], &[5, 1], &[5, 1]),
            (&[6, 5], &[5, 6], &[6, 1], &[1, 5]),
            (&[40], &[40], &[1], &[1]),
            (&[3, 8], &[1, 3, 8], &[24, 8, 1], &[24, 8, 1]),
            (
                &[20, 15, 4],
                &[1, 4, 5, 5, 4, 1, 1, 3],
                &[1200, 300, 60, 12, 3, 3, 3, 1],
                &[1, 1, 12, 240, 60, 1, 240, 4],
            ),
            (&[6, 1, 18, 30], &[5, 6, 6, 6, 1, 3], &[648, 108, 18, 3, 3, 1], &[6, 540, 1, 30, 540, 180]),
            (&[16, 5], &[5, 4, 2, 2, 1], &[16, 4, 2, 1, 1], &[1, 20, 5, 10, 1]),
            (&[48], &[4, 3, 4], &[12, 4, 1], &[12, 1, 3]),
            (
                &[6, 30, 18],
                &[6, 1, 3, 3, 1, 6, 5, 2],
                &[540, 540, 180, 60, 60, 10, 2, 1],
                &[1, 6, 6, 540, 18, 18, 108, 1620],
            ),
            // Gaps between the rows, and between the elements.
            (&[4, 8], &[4, 8], &[10, 1], &[8, 1]),
            (&[4, 8], &[4, 8], &[1, 5], &[8, 1]),
            (&[], &[], &[], &[]),
            (&[1, 1], &[1], &[7], &[9]),
        ];
        for &(shape, ranges, device, host) in cases {
            let nest = Dcsi {
                size: reversed(ranges),
                source_strides: reversed(host),
                destination_strides: reversed(device),
                source_offset: 0,
                destination_offset: 0,
            };
            let mut expected = Vec::new();
            run(&nest, &mut expected);
            let tuple = tuple(ranges, device, host);
            let built = tuple.to_layout(&tensor(shape, DType::U16), &Placement::default()).unwrap();
            assert_eq!(held(&built), expected, "{tuple:?}");
        }
    }

    #[test]
    fn a_tuple_that_misses_or_meets_an_element_is_an_error() {
        let cases: &[(ThreeTuple, &[u64], &[&str])] = &[
            (tuple(&[4, 8], &[4, 1], &[8, 1]), &[4, 8], &["same place"]),
            (tuple(&[4, 8], &[0, 1], &[8, 1]), &[4, 8], &["same place"]),
            (tuple(&[4, 8], &[8, 1], &[4, 1]), &[4, 8], &["4 for a loop of 4", "8"]),
            (tuple(&[4, 8], &[8, 1], &[9, 1]), &[4, 8], &["9 for a loop of 4", "8"]),
            (tuple(&[4, 8], &[8, 1], &[0, 1]), &[4, 8], &["0 for a loop of 4"]),
            (tuple(&[4, 8], &[8, 1], &[8, -1]), &[4, 8], &["-1 for a loop of 8"]),
            (tuple(&[4, 8], &[-8, 1], &[8, 1]), &[4, 8], &["-24"]),
            (tuple(&[3, 8], &[8, 1], &[8, 1]), &[4, 8], &["24", "32", "4x8"]),
            (tuple(&[4, 8], &[8, 1], &[8, 1, 1]), &[4, 8], &["3 entries", "2"]),
            (tuple(&[2, 2], &[1 << 62, i64::MAX], &[2, 1]), &[4], &["more than"]),
            (tuple(&[1 << 40, 1 << 40], &[1 << 40, 1], &[1 << 40, 1]), &[1 << 40, 1 << 20], &["more than"]),
            (tuple(&[i64::MAX as u64; 64], &[i64::MIN; 64], &[1; 64]), &[4], &["more than"]),
            (tuple(&[u64::MAX], &[1], &[1]), &[4], &["below 2^63"]),
            (tuple(&[2], &[1], &[1]), &[0], &["2", "0"]),
        ];
        for (tuple, shape, mentioned) in cases {
            let error =
                tuple.to_layout(&tensor(shape, DType::U8), &Placement::default()).unwrap_err().to_string();
            assert!(mentioned.iter().all(|m| error.contains(m)), "{tuple:?}: {error}");
        }
        let none = tuple(&[0, 8], &[8, 1], &[8, 1]);
        let built = none.to_layout(&tensor(&[0, 8], DType::U8), &Placement::default()).unwrap();
        assert_eq!(built.total_bytes(), 0);
    }

    fn strided(device_size: &[u64], stride_map: &[i64]) -> SpyreLayout {
        SpyreLayout::Explicit {
            device_size: device_size.to_vec(),
            dim_map: None,
            stride_map: Some(stride_map.to_vec()),
            dtype: None,
        }
    }

    fn nest(size: &[u64], source: &[i64], destination: &[i64], at: [u64; 2]) -> Dcsi {
        Dcsi {
            size: size.to_vec(),
            source_strides: source.to_vec(),
            destination_strides: destination.to_vec(),
            source_offset: at[0],
            destination_offset: at[1],
        }
    }

    #[test]
    fn a_ragged_split_is_one_full_nest_and_one_remainder() {
        let host = tensor(&[4096, 4096], DType::F16);
        let rows = SpyreLayout::Constructor { size: host.shape.clone(), dtype: host.dtype, dim_order: None };
        let layout = rows.to_layout(&host, &Placement::default()).unwrap();
        let dci = Dci::from_layout(&layout, &dense(&host.shape, host.dtype)).unwrap();
        assert_eq!(dci.nests, [nest(&[64, 4096, 64], &[1, 4096, 64], &[1, 64, 262_144], [0, 0])]);
        assert_eq!(
            (dci.source_format, dci.destination_format),
            (Some(DataFormat::IeeeFp16), Some(DataFormat::Sen169Fp16))
        );
        assert_eq!((dci.input_shape, dci.output_shape), (vec![4096, 4096], vec![64, 4096, 64]));

        let host = tensor(&[1, 3, 128], DType::F16);
        let layout =
            strided(&[3, 2, 1, 64], &[128, 64, -1, 1]).to_layout(&host, &Placement::default()).unwrap();
        let dci = Dci::from_layout(&layout, &dense(&host.shape, host.dtype)).unwrap();
        // A loop of size 1 has no stride to speak of; one is printed as 1.
        assert_eq!(dci.nests, [nest(&[64, 1, 2, 3], &[1, 1, 64, 128], &[1, 64, 64, 128], [0, 0])]);
        assert_eq!((dci.input_shape, dci.output_shape), (vec![128, 3, 1], vec![64, 1, 2, 3]));

        let host = tensor(&[4, 100], DType::F16);
        let layout = strided(&[2, 4, 64], &[64, 100, 1]).to_layout(&host, &Placement::default()).unwrap();
        let dci = Dci::from_layout(&layout, &dense(&host.shape, host.dtype)).unwrap();
        let (full, rest) = (
            nest(&[64, 4, 1], &[1, 100, 64], &[1, 64, 256], [0, 0]),
            nest(&[36, 4, 1], &[1, 100, 64], &[1, 64, 256], [64, 256]),
        );
        assert_eq!(dci.nests, [full, rest]);
    }

    #[test]
    fn nests_read_back_as_the_layout_they_came_from() {
        // Host shape, device size, stride map, and how many nests upstream needs.
        type Case<'a> = (&'a [u64], &'a [u64], &'a [i64], usize);
        let cases: &[Case] = &[
            (&[60], &[1, 64], &[64, 1], 1),
            (&[120], &[2, 64], &[64, 1], 2),
            (&[240], &[4, 64], &[64, 1], 2),
            (&[40, 60], &[1, 60, 64], &[3840, 1, 60], 1),
            (&[40, 120], &[2, 40, 64], &[64, 120, 1], 2),
            (&[40, 240], &[4, 512, 64], &[64, 240, 1], 2),
            (&[60], &[1, 512, 64], &[64, 0, 1], 1),
            (&[40, 60], &[38, 64], &[64, 1], 2),
            (&[60], &[1, 60, 64], &[64, 1, 1], 1),
            (&[60], &[1, 2, 64], &[64, 30, 1], 1),
            (&[60], &[2, 1, 2, 64], &[15, 64, 30, 1], 1),
            (&[4800], &[3, 2, 14, 64], &[120, 64, 360, 1], 4),
            (&[40, 60], &[24, 1, 2, 64], &[60, 64, 1440, 1], 2),
            (&[40, 60], &[2, 12, 1, 2, 64], &[720, 60, 64, 1200, 1], 2),
            (&[40, 60], &[2, 6, 2, 1, 2, 64], &[720, 120, 60, 64, 1200, 1], 2),
            (&[40, 60], &[3, 4, 3, 1, 2, 64], &[600, 180, 60, 64, 1800, 1], 4),
            (&[40, 100], &[24, 2, 2, 64], &[100, 64, 2400, 1], 4),
            (&[], &[1, 64], &[-1, -1], 1),
        ];
        for &(shape, size, strides, most) in cases {
            let host = tensor(shape, DType::F16);
            let layout = strided(size, strides).to_layout(&host, &Placement::default()).unwrap();
            let dci = Dci::from_layout(&layout, &dense(shape, DType::F16)).unwrap();
            assert!(dci.nests.len() <= most, "{size:?} {strides:?}: {:?}", dci.nests);
            let rank = |n: &Dcsi| (n.size.len(), n.source_strides.len(), n.destination_strides.len());
            assert!(
                dci.nests.iter().all(|n| rank(n) == (size.len(), size.len(), size.len())),
                "{:?}",
                dci.nests
            );
            let expected = held(&layout);
            let mut seen = vec![Held::Fill; expected.len()];
            dci.nests.iter().for_each(|n| run(n, &mut seen));
            assert_eq!(seen, expected, "{size:?} {strides:?}: {:?}", dci.nests);
            let back = dci.to_layout(&host, &Placement::default()).unwrap();
            assert_eq!(held(&back), expected, "{size:?} {strides:?}: {:?}", dci.nests);
            assert_eq!(back.format(), layout.format());
        }
    }

    #[test]
    fn host_strides_are_read_where_the_array_has_them() {
        let host = Memref { strides: Some(vec![1, 40]), offset: 3, ..dense(&[40, 60], DType::F16) };
        let layout = strided(&[1, 40, 64], &[64, 60, 1])
            .to_layout(&tensor(&[40, 60], DType::F16), &Placement::default())
            .unwrap();
        let dci = Dci::from_layout(&layout, &host).unwrap();
        assert_eq!(dci.nests, [nest(&[60, 40, 1], &[40, 1, 64], &[1, 64, 2560], [3, 0])]);
    }

    #[test]
    fn nests_that_miss_or_meet_an_element_are_an_error() {
        let dci = |nests: &[Dcsi]| Dci {
            host_to_device: true,
            source_format: None,
            destination_format: None,
            nests: nests.to_vec(),
            input_shape: vec![],
            output_shape: vec![],
        };
        let line = |n: u64, host: u64, device: u64| nest(&[n], &[1], &[1], [host, device]);
        let host = tensor(&[10], DType::U8);
        assert!(dci(&[line(4, 6, 0), line(6, 0, 4)]).to_layout(&host, &Placement::default()).is_ok());
        let wrong = [
            dci(&[]),
            dci(&[line(6, 0, 0)]),
            dci(&[line(10, 1, 0)]),
            dci(&[line(6, 0, 0), line(4, 5, 6)]),
            dci(&[line(6, 0, 0), line(4, 7, 6)]),
            dci(&[line(6, 0, 0), line(4, 6, 5)]),
            dci(&[line(6, 0, 0), nest(&[4, 2], &[1, 0], &[1, 100], [6, 6])]),
            dci(&[line(6, 0, 0), line(4, i64::MAX as u64, 6)]),
            dci(&[line(6, 0, 0), line(4, 6, u64::MAX)]),
            dci(&[line(6, 0, 0), line(4, 6, 1 << 62)]),
            dci(&[nest(&[10, u64::MAX], &[1, 0], &[1, i64::MAX], [0, 0])]),
            dci(&vec![line(1, 0, 0); MAX_NESTS + 1]),
            Dci { output_shape: vec![9], ..dci(&[line(10, 0, 0)]) },
            Dci { input_shape: vec![11], ..dci(&[line(10, 0, 0)]) },
            Dci { destination_format: Some(DataFormat::SenInt4), ..dci(&[line(10, 0, 0)]) },
        ];
        for dci in wrong {
            assert!(
                dci.to_layout(&host, &Placement::default()).is_err(),
                "{:?}",
                &dci.nests[..dci.nests.len().min(3)]
            );
        }
        assert!(dci(&[]).to_layout(&tensor(&[0], DType::U8), &Placement::default()).is_ok());
    }
}
