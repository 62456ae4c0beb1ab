//! What a tensor file holds: a tensor, the devices it was handed out to, and where their shards lie.

use std::borrow::Cow;
use std::ops::Range;

use tilewright::error::{Error, Result};
use tilewright::family::tenstorrent::mesh::{Mapper, MeshPlacement as Cut};
use tilewright::family::{Placement, Tensor};
use tilewright::layout::Layout;

use super::spec::TensorSpec;
use crate::{Source, damaged};

/// Bytes of replicas that are compared at a time.
const STEP: u64 = 1 << 20;

/// What a tensor file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorBin {
    /// What each device holds; its shape is that of one device's tensor.
    pub spec: TensorSpec,
    /// Devices in each dimension of the mesh; `[1, 1]` without one.
    pub mesh_shape: Vec<u64>,
    /// The shards that the file holds, at most one for each device. It may lack some: several hosts write a part each.
    pub shards: Vec<Shard>,
    /// How a tensor was handed out to the devices.
    pub topology: Topology,
    /// The byte of the file at which the payload begins.
    pub payload: u64,
}

/// One device's tensor in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// The place of the device in the mesh.
    pub coordinate: Vec<u64>,
    /// Bytes of the file.
    pub range: Range<u64>,
}

/// How a tensor was handed out to the devices of a mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// The mesh as the placements see it.
    pub distribution: Vec<u64>,
    /// What each of its dimensions does with the tensor.
    pub placements: Vec<Cut>,
    /// The devices of the mesh that the distribution is laid on, row-major.
    pub coordinates: Vec<Vec<u64>>,
}

/// A tensor as the payload has it.
#[derive(Debug, Clone)]
pub struct Payload {
    /// The whole tensor.
    pub tensor: Tensor,
    /// Its layout over the stored copies: a buffer for each, in the order of `parts`.
    pub layout: Layout,
    /// The bytes of the file that hold each buffer; `None` where the file lacks it.
    pub parts: Vec<Option<Range<u64>>>,
}

impl Topology {
    /// A tensor on a single device.
    pub(super) fn single() -> Topology {
        Topology { distribution: vec![1], placements: vec![Cut::Replicate], coordinates: vec![vec![0, 0]] }
    }

    /// An error unless each dimension has a placement and each place a device, once.
    pub(super) fn check(&self) -> Result<()> {
        let Topology { distribution, placements, coordinates } = self;
        let devices = distribution.iter().try_fold(1_u64, |n, &m| n.checked_mul(m)).filter(|&n| n > 0);
        let mut each = coordinates.clone();
        each.sort_unstable();
        each.dedup();
        if placements.len() == distribution.len()
            && devices == Some(coordinates.len() as u64)
            && each.len() == coordinates.len()
        {
            return Ok(());
        }
        let (placed, listed) = (placements.len(), each.len());
        let given = format!("{placed} placements on {distribution:?} over {listed} devices");
        let needed = "a placement for each dimension of the distribution, and as many devices as it has";
        Err(Error::value("topology", given, needed))
    }

    /// The mapper that makes each copy once: the dimensions of the distribution that cut the tensor. `None` where none
    /// does, and every device has the whole.
    pub fn cuts(&self) -> Option<Mapper> {
        let cuts = self.placements.iter().zip(&self.distribution).filter(|c| *c.0 != Cut::Replicate);
        let (placements, mesh_shape): (Vec<Cut>, Vec<u64>) = cuts.unzip();
        (!placements.is_empty()).then(|| Mapper::config(placements, mesh_shape))
    }

    /// Which copy the device with this number in the distribution has, copies counted row-major.
    pub(super) fn copy(&self, mut device: u64) -> usize {
        let (mut copy, mut step) = (0, 1);
        for (&n, placement) in self.distribution.iter().zip(&self.placements).rev() {
            if *placement != Cut::Replicate {
                copy += device % n * step;
                step *= n;
            }
            device /= n;
        }
        copy as usize
    }
}

impl TensorBin {
    /// Each shard has as many bytes as a tensor needs, and two share all of them or none.
    pub(super) fn check_ranges(&self, needed: u64) -> Result<(), String> {
        if let Some(shard) = self.shards.iter().find(|s| s.range.end - s.range.start != needed) {
            let (Shard { coordinate, range }, shape) = (shard, &self.spec.shape);
            let given = range.end - range.start;
            return Err(format!(
                "the shard of device {coordinate:?} has {given} bytes, but {shape:?} {} takes {needed}",
                self.spec.format
            ));
        }
        match self.stored().windows(2).find(|pair| pair[0].end > pair[1].start) {
            Some(pair) => Err(format!("the shards at bytes {:?} and {:?} overlap", pair[0], pair[1])),
            None => Ok(()),
        }
    }

    /// The ranges of the file that hold shards, each once, by where they begin.
    pub fn stored(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = self.shards.iter().map(|s| s.range.clone()).collect();
        ranges.sort_unstable_by_key(|r| (r.start, r.end));
        ranges.dedup();
        ranges
    }

    /// The whole tensor, put together as the topology says. A `pad_value` is what padding holds when it is written.
    ///
    /// A file without topology holds replicas, as the runtime reads it.
    ///
    /// # Errors
    /// [`Error::Value`] where the topology does not fit mesh or tensor; those of the layout.
    pub fn whole(&self, pad_value: Option<f64>) -> Result<Payload> {
        self.topology.check()?;
        let mut tensor = self.spec.tensor();
        let rank = tensor.shape.len() as i64;
        for (&n, placement) in self.topology.distribution.iter().zip(&self.topology.placements) {
            let Cut::Shard(dim) = *placement else { continue };
            let extent = usize::try_from(if dim < 0 { dim + rank } else { dim }).ok();
            let extent = extent.and_then(|d| tensor.shape.get_mut(d)).ok_or_else(|| {
                Error::value("sharded dimension", dim, format!("one of the {rank} of the tensor"))
            })?;
            *extent =
                extent.checked_mul(n).ok_or_else(|| Error::overflow("the shape of the whole tensor"))?;
        }
        let mapper = self.topology.cuts();
        let placement = Placement { mesh: mapper.as_ref(), pad_value, ..Placement::default() };
        let layout = self.spec.stored()?.layout(&tensor, &placement)?;
        Ok(Payload { tensor, layout, parts: self.parts() })
    }

    /// The shards that are there, each with the number of the copy that its device has; the topology is a sound one.
    fn copies(&self) -> Vec<(usize, &Shard)> {
        let mut shards: Vec<&Shard> = self.shards.iter().collect();
        shards.sort_unstable_by(|a, b| a.coordinate.cmp(&b.coordinate));
        let shard = |at: &Vec<u64>| shards.binary_search_by(|s| s.coordinate.cmp(at)).ok().map(|i| shards[i]);
        let devices = (0..).zip(&self.topology.coordinates);
        devices.filter_map(|(device, at)| Some((self.topology.copy(device), shard(at)?))).collect()
    }

    /// Where each copy lies.
    fn parts(&self) -> Vec<Option<Range<u64>>> {
        let Topology { distribution, placements, .. } = &self.topology;
        let cuts = distribution.iter().zip(placements).filter(|d| *d.1 != Cut::Replicate);
        let mut parts = vec![None; cuts.map(|d| *d.0).product::<u64>() as usize];
        for (copy, shard) in self.copies() {
            parts[copy].get_or_insert_with(|| shard.range.clone());
        }
        parts
    }

    /// One device's tensor.
    ///
    /// # Errors
    /// [`Error::Value`] where the file has no shard of the device; those of the layout.
    pub fn shard(&self, coordinate: &[u64]) -> Result<Payload> {
        let shard = self.shards.iter().find(|s| s.coordinate == coordinate).ok_or_else(|| {
            let first: Vec<_> = self.shards.iter().take(8).map(|s| format!("{:?}", s.coordinate)).collect();
            let more = if self.shards.len() > first.len() { ", ..." } else { "" };
            let needed = format!("one of the {} in the file: {}{more}", self.shards.len(), first.join(", "));
            Error::value("device", format!("{coordinate:?}"), needed)
        })?;
        let (tensor, layout) = (self.spec.tensor(), self.spec.layout()?);
        Ok(Payload { tensor, layout, parts: vec![Some(shard.range.clone())] })
    }

    /// That devices which the topology says hold the same do so, where they do not share a range.
    ///
    /// # Errors
    /// [`Error::Value`] that names a device that differs, or for a topology that does not fit; those of reading.
    pub fn check_replicas(&self, source: &Source<'_>) -> Result<()> {
        self.topology.check()?;
        let parts = self.parts();
        for (copy, Shard { coordinate, range }) in self.copies() {
            let Some(first) = parts[copy].as_ref().filter(|first| *first != range) else { continue };
            let len = range.end - range.start;
            for begin in (0..len).step_by(STEP as usize) {
                let end = len.min(begin + STEP);
                let bytes = |r: &Range<u64>| source.bytes(r.start + begin..r.start + end);
                if bytes(first)? != bytes(range)? {
                    let given = format!(
                        "device {coordinate:?} holds other bytes than another that has the same part"
                    );
                    return Err(Error::value("replicas", given, "equal bytes, or one device's tensor alone"));
                }
            }
        }
        Ok(())
    }
}

impl Payload {
    /// All parts, or an error that says how many are missing.
    ///
    /// # Errors
    /// [`Error::Value`] where the file holds only a part of the tensor.
    pub fn complete(&self) -> Result<Vec<Range<u64>>> {
        let there: Vec<Range<u64>> = self.parts.iter().flatten().cloned().collect();
        if there.len() == self.parts.len() {
            return Ok(there);
        }
        let given = format!("{} of {} parts of the tensor", there.len(), self.parts.len());
        Err(Error::value("shards in the file", given, "all of them, or one device's tensor alone"))
    }

    /// The buffers of the layout, one after another; borrowed where they lie so in memory.
    ///
    /// # Errors
    /// Those of [`Payload::complete`] and of reading.
    pub fn bytes<'a>(&self, source: &'a Source<'_>) -> Result<Cow<'a, [u8]>> {
        let parts = self.complete()?;
        let adjacent = parts.windows(2).all(|pair| pair[0].end == pair[1].start);
        if let (true, Some(first), Some(last)) = (adjacent, parts.first(), parts.last()) {
            return source.bytes(first.start..last.end);
        }
        let len: u64 = parts.iter().map(|part| part.end - part.start).sum();
        let mut bytes = Vec::new();
        let room = usize::try_from(len).ok().and_then(|n| bytes.try_reserve_exact(n).ok());
        room.ok_or_else(|| damaged(source.name(), format!("no memory for {len} bytes")))?;
        for part in parts {
            bytes.extend_from_slice(&source.bytes(part)?);
        }
        Ok(Cow::Owned(bytes))
    }
}
