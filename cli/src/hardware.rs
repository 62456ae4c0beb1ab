//! Buffers and bytes in the terms of the hardware: devices of a mesh, cores, chips, banks, device dimensions.

use serde_json::{Value, json};
use tilewright::Layout;
use tilewright::family::Descriptor;
use tilewright::family::tenstorrent::device::Core;
use tilewright::family::tenstorrent::ttnn::{Memory, Orientation, Scheme};

use super::engine::Texts;
use super::failure::Result;

/// A name and a number or coordinates.
pub(crate) type Term = (&'static str, Value);

/// What the buffers of a layout are.
pub(crate) struct Hardware<'a> {
    texts: &'a Texts,
    layout: &'a Layout,
    /// Buffers of one device of the mesh.
    buffers: u64,
    /// With a `#tt.device`: the core of each buffer of one mesh device, physical and virtual.
    cores: Vec<(Core, Vec<u64>)>,
}

impl<'a> Hardware<'a> {
    pub(crate) fn new(texts: &'a Texts, layout: &'a Layout) -> Result<Hardware<'a>> {
        let devices = texts.mesh.as_ref().map_or(Ok(1), |mesh| mesh.devices())?;
        let grid = &layout.geometry().grid;
        let mut cores = Vec::new();
        if let Some(device) = texts.device.as_ref().filter(|_| is_metal(&texts.to)) {
            let places = device.cores()?;
            // The layout exists, so the grid lies inside of the device's.
            let all = (0..grid.iter().product()).map(|n| unravel(n, grid));
            cores = all.filter_map(|core| Some((places.physical(&core)?, core))).collect();
            cores.sort_unstable();
        }
        Ok(Hardware { texts, layout, buffers: layout.buffers() / devices.max(1), cores })
    }

    /// What a buffer is.
    pub(crate) fn buffer(&self, buffer: u64) -> Vec<Term> {
        let (part, local) = (buffer / self.buffers.max(1), buffer % self.buffers.max(1));
        let mesh = self.texts.mesh.as_ref();
        let mut terms: Vec<Term> =
            mesh.map(|mesh| ("device", json!(unravel(part, mesh.mesh_shape())))).into_iter().collect();
        let grid = &self.layout.geometry().grid;
        match (&self.texts.to, &self.texts.device) {
            (to, Some(device)) if is_metal(to) => {
                let Some(([chip, y, x], core)) = self.cores.get(local as usize) else { return terms };
                terms.push(("core", json!(core)));
                terms.push(("chip", json!(device.chip_ids.get(*chip as usize))));
                terms.extend([("y", json!(y)), ("x", json!(x))]);
            }
            (to, None) if is_metal(to) => terms.push(("core", json!(unravel(local, grid)))),
            (Descriptor::Ttnn(ttnn), _) => match &ttnn.memory {
                Memory::Single => {}
                Memory::Interleaved { .. } => terms.push(("bank", json!(local))),
                Memory::Sharded { scheme, grid: cores, orientation, .. } => {
                    terms.push(("core", json!(core(*scheme, *orientation, *cores, grid, local))));
                }
            },
            _ => {}
        }
        terms
    }

    /// What a byte of a buffer is, besides being in that buffer.
    pub(crate) fn byte(&self, byte: u64) -> Vec<Term> {
        let Some(size) = &self.layout.geometry().device_size else { return Vec::new() };
        let elements: u64 = size.iter().product();
        let bytes = (self.layout.buffer_bytes() / elements.max(1)).max(1);
        vec![("device index", json!(unravel(byte / bytes, size)))]
    }

    /// What an index is on its way to its place.
    pub(crate) fn index(&self, index: &[u64]) -> Result<Vec<Term>> {
        let mut terms = Vec::new();
        // What a device gets begins at multiples of its size.
        let local: Vec<u64> = index.iter().zip(&self.texts.part.shape).map(|(i, n)| i % n).collect();
        if self.texts.mesh.is_some() {
            terms.push(("index on the device", json!(local)));
        }
        let map = match &self.texts.to {
            Descriptor::Metal(d) => d.map.clone(),
            Descriptor::MetalConstructor(d) => d.physical()?.0,
            Descriptor::MetalCurrent(d) => d.physical()?.0,
            _ => return Ok(terms),
        };
        let local: Vec<i64> = local.iter().map(|&i| i as i64).collect();
        terms.extend(map.eval(&local).map(|collapsed| ("collapsed", json!(collapsed))));
        Ok(terms)
    }
}

fn is_metal(to: &Descriptor) -> bool {
    matches!(to, Descriptor::Metal(_) | Descriptor::MetalConstructor(_) | Descriptor::MetalCurrent(_))
}

/// The core of a TTNN buffer: buffers are listed row-major over the cores that hold a shard.
fn core(scheme: Scheme, orientation: Orientation, grid: [u64; 2], shards: &[u64], buffer: u64) -> [u64; 2] {
    match (scheme, orientation) {
        (Scheme::Block, _) => {
            let columns = shards[usize::from(orientation == Orientation::RowMajor)];
            [buffer / columns, buffer % columns]
        }
        (_, Orientation::RowMajor) => [buffer / grid[1], buffer % grid[1]],
        (_, Orientation::ColMajor) => {
            // Shards go down the columns: the first rows have one more core in use than the others.
            let used = shards.iter().product::<u64>().min(grid[0].saturating_mul(grid[1]));
            let (columns, longer) = (used / grid[0], used % grid[0]);
            let in_longer = longer * (columns + 1);
            match buffer.checked_sub(in_longer) {
                None => [buffer / (columns + 1), buffer % (columns + 1)],
                Some(rest) => [longer + rest / columns.max(1), rest % columns.max(1)],
            }
        }
    }
}

/// The index whose row-major number is `n`.
fn unravel(mut n: u64, shape: &[u64]) -> Vec<u64> {
    let mut index = vec![0; shape.len()];
    for (i, &size) in index.iter_mut().zip(shape).rev() {
        *i = n % size.max(1);
        n /= size.max(1);
    }
    index
}

/// A value for people: `(1, 2)` or `3`.
pub(crate) fn shown(value: &Value) -> String {
    value.to_string().replace('[', "(").replace(']', ")").replace(',', ", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_of_ttnn_buffers_are_those_that_hold_a_shard() {
        // Dealt one by one, then listed row-major.
        let dealt = |orientation, grid: [u64; 2], shards: u64| {
            let mut cores: Vec<[u64; 2]> = (0..shards.min(grid[0] * grid[1]))
                .map(|s| match orientation {
                    Orientation::RowMajor => [s / grid[1], s % grid[1]],
                    Orientation::ColMajor => [s % grid[0], s / grid[0]],
                })
                .collect();
            cores.sort_unstable();
            cores
        };
        for orientation in [Orientation::RowMajor, Orientation::ColMajor] {
            for (rows, columns) in [(1, 1), (1, 5), (5, 1), (2, 3), (3, 2), (4, 4)] {
                for shards in 1..20 {
                    let grid = [rows, columns];
                    for (buffer, expected) in dealt(orientation, grid, shards).iter().enumerate() {
                        let seen = core(Scheme::Height, orientation, grid, &[shards, 1], buffer as u64);
                        assert_eq!(
                            seen, *expected,
                            "{orientation:?} {grid:?} {shards} shards, buffer {buffer}"
                        );
                    }
                }
            }
        }
        // Shard (i, j) of 2 x 3 is on core (i, j), or on core (j, i).
        assert_eq!(core(Scheme::Block, Orientation::RowMajor, [8, 8], &[2, 3], 4), [1, 1]);
        assert_eq!(core(Scheme::Block, Orientation::ColMajor, [8, 8], &[2, 3], 4), [2, 0]);
    }
}
