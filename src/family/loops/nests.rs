//! From loop nests to a layout: the device places of consecutive host elements.

use crate::dtype::Format;
use crate::error::{Error, Result};
use crate::family::{Placement, Tensor, check_sizes, join, volume};
use crate::layout::axis::{Axis, Level};
use crate::layout::piecewise::{Piecewise, Region};
use crate::layout::{Geometry, Layout, MAX_BYTES, Parts, Space, element_bytes};

/// Nests over [host, device] elements that together describe a layout.
pub(super) struct Nests {
    pub(super) pieces: Vec<Region<2>>,
    /// Loops that repeat every element.
    pub(super) repeats: Vec<(u64, [i64; 2])>,
}

/// Where the places of nests lie, in elements; repeats included, except in `last`.
struct Places {
    lowest: i128,
    highest: i128,
    /// The last place of the elements that are not repeats.
    last: i128,
}

impl Nests {
    /// The layout of a tensor's elements at the places that the nests say.
    ///
    /// # Errors
    /// [`Error::Value`] where the loops do not reach each host element once and in order, or reach a place outside of the
    /// device's size; of buffers larger than [`MAX_BYTES`].
    pub(super) fn into_layout(
        mut self,
        tensor: &Tensor,
        format: Format,
        device_size: Option<u64>,
        placement: &Placement,
    ) -> Result<Layout> {
        let elements = self.count(tensor)?;
        let places = self.normalise(elements)?;
        let extent = places.extent(device_size)?;
        let size = element_bytes(format);
        let bytes = u64::try_from(extent * i128::from(size)).ok().filter(|&b| b <= MAX_BYTES);
        let bytes = bytes.ok_or_else(|| Error::overflow("the device buffer"))?;
        let (mut axes, mut replicas) = (vec![], vec![]);
        if elements > 0 {
            let ([host, device], map) = follow(self.pieces)?;
            if host != 0 {
                return Err(Error::value("host elements", format!("element {host} first"), "element 0"));
            }
            let cells = vec![Level::bytes(places.last as u64 + 1, size as i64)];
            axes.push(Axis::new((0..tensor.shape.len()).collect(), device, map, cells)?);
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

    /// The elements of the tensor, which must be as many as the loops reach.
    fn count(&self, tensor: &Tensor) -> Result<u64> {
        check_sizes("shape", &tensor.shape)?;
        let elements = volume("the tensor", tensor.shape.iter().copied())?;
        volume("what the repeats reach", self.repeats.iter().map(|l| l.0))?;
        let mut sum = 0;
        for piece in &self.pieces {
            sum += u128::from(volume("what the loops reach", piece.loops.iter().map(|l| l.0))?);
        }
        if sum != u128::from(elements) {
            let needed = format!("{elements}, those of shape {}", join(&tensor.shape));
            return Err(Error::value("elements that the loops reach", sum, needed));
        }
        Ok(elements)
    }

    /// Drops nests and loops that do nothing, and sorts loops by host stride, the greatest first.
    fn normalise(&mut self, elements: u64) -> Result<Places> {
        self.pieces.retain(|p| p.loops.iter().all(|l| l.0 > 0));
        let mut places = Places { lowest: 0, highest: -1, last: -1 };
        for piece in &mut self.pieces {
            if piece.at[0] as u64 >= elements {
                let needed = format!("elements below {elements}");
                return Err(Error::value("host elements", format!("element {}", piece.at[0]), needed));
            }
            piece.loops.retain(|l| l.0 > 1);
            if let Some((n, [stride, _])) = piece.loops.iter().find(|l| l.1[0] < 1) {
                let given = format!("{stride} for a loop of {n}");
                let needed = "1 or more, so that each element is read once";
                return Err(Error::value("host strides", given, needed));
            }
            piece.loops.sort_by_key(|l| std::cmp::Reverse(l.1[0]));
            let steps = piece.loops.iter().map(|l| (l.0, l.1[1]));
            places.last = places.last.max(bounds(piece.at[1], steps.clone()).1);
            let (low, high) = bounds(piece.at[1], steps.chain(self.repeats.iter().map(|l| (l.0, l.1[1]))));
            (places.lowest, places.highest) = (low.min(places.lowest), high.max(places.highest));
        }
        Ok(places)
    }
}

impl Places {
    /// Elements of the device's buffer: as many as the device says, or as the places need.
    fn extent(&self, device_size: Option<u64>) -> Result<i128> {
        let Places { lowest, highest, .. } = self;
        if *lowest < 0 {
            let given = format!("a place at {lowest}");
            return Err(Error::value("device strides", given, "places of 0 or more"));
        }
        let extent = device_size.map_or(highest + 1, i128::from);
        if *highest >= extent {
            let given = format!("a place at {highest}");
            let needed = format!("places below {extent}, the device's size");
            return Err(Error::value("device strides", given, needed));
        }
        Ok(extent)
    }
}

/// The least and greatest value that loops reach from `at`.
fn bounds(at: i64, loops: impl Iterator<Item = (u64, i64)>) -> (i128, i128) {
    loops.fold((i128::from(at), i128::from(at)), |(low, high), (n, step)| {
        // All loops together make at most 2^60 iterations, so the sum stays below 2^124.
        let way = (i128::from(n) - 1) * i128::from(step);
        (low + way.min(0), high + way.max(0))
    })
}

/// The device places of consecutive host elements, in their order, and where both begin. Loops are sorted,
/// the greatest host stride first, so each iteration of one must cover exactly what lies before the next.
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
