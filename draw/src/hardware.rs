//! Buffers and bytes in the terms of the hardware: devices of a mesh, cores, chips, banks, device dimensions.

use serde_json::{Value, json};
use tilewright::family::tenstorrent::device::Core;
use tilewright::family::tenstorrent::mesh::Uneven;
use tilewright::family::tenstorrent::ttnn::Memory;
use tilewright::family::tenstorrent::ttnn_layout::{TensorMemoryLayout, TtnnLayout};
use tilewright::family::{Descriptor, Placement, Tensor};
use tilewright::{Layout, Result};

/// A name and a number or coordinates.
pub type Term = (&'static str, Value);

/// What the buffers of a layout are.
pub struct Hardware<'a> {
    layout: &'a Layout,
    to: &'a Descriptor,
    placement: Placement<'a>,
    /// The shape that one device of the mesh gets.
    part: Vec<u64>,
    /// Buffers of one device of the mesh.
    buffers: u64,
    /// Where on the mesh each device is that gets a part; empty without a mesh.
    devices: Vec<Vec<u64>>,
    /// With a `#tt.device`: the core of each buffer of one mesh device, physical and virtual.
    cores: Vec<(Core, Vec<u64>)>,
}

impl<'a> Hardware<'a> {
    /// What the buffers of `layout` are, which is the layout of `tensor` by `to` and `placement`.
    ///
    /// # Errors
    /// Those of the mesh, where it cannot hand the tensor out, and of the device, where its map is no placement.
    pub fn new(
        layout: &'a Layout,
        to: &'a Descriptor,
        placement: &Placement<'a>,
        tensor: &Tensor,
    ) -> Result<Hardware<'a>> {
        let devices = placement.mesh.map(|mesh| mesh.distribution(tensor)).transpose()?;
        let devices = devices.map_or_else(Vec::new, |handed_out| handed_out.coordinates);
        let part = match placement.mesh {
            Some(mesh) => mesh.part(tensor, Uneven::Refuse)?.shape,
            None => tensor.shape.clone(),
        };
        let parts = devices.len().max(1) as u64;
        let grid = &layout.geometry().grid;
        let mut cores = Vec::new();
        if let Some(device) = placement.device.filter(|_| is_metal(to)) {
            let places = device.cores()?;
            // The layout exists, so the grid lies inside of the device's.
            let all = (0..grid.iter().product()).map(|n| unravel(n, grid));
            cores = all.filter_map(|core| Some((places.physical(&core)?, core))).collect();
            cores.sort_unstable();
        }
        let placement = *placement;
        Ok(Hardware { layout, to, placement, part, buffers: layout.buffers() / parts, devices, cores })
    }

    /// The layout.
    pub fn layout(&self) -> &'a Layout {
        self.layout
    }

    /// The descriptor of what one device gets.
    pub fn descriptor(&self) -> &'a Descriptor {
        self.to
    }

    /// How the descriptor is applied.
    pub fn placement(&self) -> &Placement<'a> {
        &self.placement
    }

    /// The shape that one device of the mesh gets; without a mesh, that of the tensor.
    pub fn part(&self) -> &[u64] {
        &self.part
    }

    /// How many devices of a mesh get a part; 1 without a mesh.
    pub fn devices(&self) -> u64 {
        self.devices.len().max(1) as u64
    }

    /// Columns of the mesh.
    pub(crate) fn mesh_columns(&self) -> u64 {
        self.devices.iter().filter_map(|d| d.last()).max().map_or(1, |last| last + 1)
    }

    /// What a buffer is: its device, its core, chip, y and x, or its bank, as far as the layout says so.
    pub fn buffer(&self, buffer: u64) -> Vec<Term> {
        let (part, local) = (buffer / self.buffers.max(1), buffer % self.buffers.max(1));
        let mut terms: Vec<Term> =
            self.devices.get(part as usize).map(|device| ("device", json!(device))).into_iter().collect();
        let grid = &self.layout.geometry().grid;
        match (self.to, self.placement.device) {
            (to, Some(device)) if is_metal(to) => {
                let Some(([chip, y, x], core)) = self.cores.get(local as usize) else { return terms };
                terms.push(("core", json!(core)));
                terms.push(("chip", json!(device.chip_ids.get(*chip as usize))));
                terms.extend([("y", json!(y)), ("x", json!(x))]);
            }
            (to, None) if is_metal(to) => terms.push(("core", json!(unravel(local, grid)))),
            (Descriptor::Ttnn(ttnn), _) => match &ttnn.memory {
                Memory::Interleaved(banks) => {
                    let bank = |order: &Vec<u32>| order.iter().position(|&b| u64::from(b) == local);
                    let bank = banks.bank_order.as_ref().and_then(bank).map_or(local, |bank| bank as u64);
                    terms.push(("bank", json!(bank)));
                }
                Memory::Sharded(sharded) => terms.push(("core", json!(sharded.core(grid, local)))),
                _ => {}
            },
            // The grid as the compiler has it, of which as many cores hold a shard as there are buffers.
            (Descriptor::TtnnLayout(ttnn), _) if is_sharded(ttnn) => {
                terms.push(("core", json!(unravel(local, &ttnn.grid))));
            }
            _ => {}
        }
        terms
    }

    /// What a byte of a buffer is, besides being in that buffer.
    pub fn byte(&self, byte: u64) -> Vec<Term> {
        let Some(size) = &self.layout.geometry().device_size else { return Vec::new() };
        let elements: u64 = size.iter().product();
        let bytes = (self.layout.buffer_bytes() / elements.max(1)).max(1);
        vec![("device index", json!(unravel(byte / bytes, size)))]
    }

    /// What an index is on its way to its place: that on its device, and what a map collapses it to.
    ///
    /// # Errors
    /// Where the descriptor has no such map.
    pub fn index(&self, index: &[u64]) -> Result<Vec<Term>> {
        let mut terms = Vec::new();
        // What a device gets begins at multiples of its size.
        let local: Vec<u64> = index.iter().zip(&self.part).map(|(i, n)| i % n).collect();
        if self.placement.mesh.is_some() {
            terms.push(("index on the device", json!(local)));
        }
        let map = match self.to {
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

fn is_sharded(to: &TtnnLayout) -> bool {
    to.memory_layout.is_some_and(|dealt| dealt != TensorMemoryLayout::Interleaved)
}

fn is_metal(to: &Descriptor) -> bool {
    matches!(to, Descriptor::Metal(_) | Descriptor::MetalConstructor(_) | Descriptor::MetalCurrent(_))
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
pub fn shown(value: &Value) -> String {
    value.to_string().replace('[', "(").replace(']', ")").replace(',', ", ")
}
