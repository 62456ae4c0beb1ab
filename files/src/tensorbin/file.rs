//! Tensor files made and read.

use std::ops::Range;

use tilewright::error::{Error, Result};
use tilewright::family::Tensor;
use tilewright::family::tenstorrent::mesh::{Distribution, Mapper};
use tilewright::family::tenstorrent::ttnn::Ttnn;

use super::contents::{Shard, TensorBin, Topology};
use super::header;
use super::spec::{FORMATS, TensorSpec};
use crate::{Source, damaged};

/// The longest header that is read, in bytes. That of 65,536 devices takes some 8 MiB.
const HEADER_CAP: u64 = 64 << 20;

/// Payload and shards begin at multiples of this many bytes: a page, so that what a device reads from a mapping of the
/// file begins where one does.
const PAGE: u64 = 4096;

/// The next multiple of [`PAGE`]. Files are far below 2^63 bytes: layouts have at most 2^60.
fn aligned(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE)
}

impl TensorBin {
    /// The file of a tensor in a layout, which with `mesh` is that of what one device gets. Shards lie at multiples
    /// of 4096 bytes, each copy once.
    ///
    /// # Errors
    /// [`Error::Value`] where the file has no number for the format, a size is 2^32 or more, or the tensor has no
    /// elements (the runtime cannot save such either); those of the layout and of the mapper.
    pub fn new(tensor: &Tensor, layout: &Ttnn, mesh: Option<&Mapper>) -> Result<TensorBin> {
        let (part, mesh_shape, topology) = match mesh {
            None => (tensor.clone(), vec![1, 1], Topology::single()),
            Some(mapper) => {
                let Distribution { shape, placements, coordinates, local, .. } =
                    mapper.distribution(tensor)?;
                let topology = Topology { distribution: shape, placements, coordinates };
                let part = Tensor { shape: local, dtype: tensor.dtype };
                (part, mapper.mesh_shape().to_vec(), topology)
            }
        };
        let spec = TensorSpec::new(&part.shape, layout)?;
        let bytes = spec.layout()?.total_bytes();
        let at = |copy: usize| copy as u64 * bytes..(copy as u64 + 1) * bytes;
        let shards = (0..).zip(&topology.coordinates).map(|(device, coordinate)| Shard {
            coordinate: coordinate.clone(),
            range: at(topology.copy(device)),
        });
        let mut file = TensorBin { spec, mesh_shape, shards: shards.collect(), topology, payload: 0 };
        file.check()?;
        file.lay_out();
        Ok(file)
    }

    /// Leaves only the shards of some devices, numbered row-major over the mesh: the part of one of several hosts.
    ///
    /// # Errors
    /// [`Error::Value`] where none is left.
    pub fn keep(&mut self, devices: Range<u64>) -> Result<()> {
        let number = |shard: &Shard| {
            shard.coordinate.iter().zip(&self.mesh_shape).fold(0, |number, (i, n)| number * n + i)
        };
        let shards: Vec<Shard> =
            self.shards.iter().filter(|shard| devices.contains(&number(shard))).cloned().collect();
        if shards.is_empty() {
            let needed = format!("some of the {} that get a shard, counted from 0", self.shards.len());
            return Err(Error::value("devices", format!("{devices:?}"), needed));
        }
        self.shards = shards;
        self.lay_out();
        Ok(())
    }

    /// Reads the header of a file, and compares it with the length of the file.
    ///
    /// Where shards begin is free; two of them hold the same bytes or none in common. The devices of the topology are
    /// not compared with it: see [`TensorBin::whole`].
    ///
    /// # Errors
    /// [`Error::Io`] when the file is damaged or cut short.
    pub fn read(source: &Source<'_>) -> Result<TensorBin> {
        let wrong = |what: String| damaged(source.name(), what);
        let mut size = [0; 8];
        if source.len() < 8 {
            return Err(wrong(format!("not a tensor file: it holds {} bytes", source.len())));
        }
        size.copy_from_slice(&source.bytes(0..8)?);
        let size = u64::from_le_bytes(size);
        if size > HEADER_CAP {
            let what = format!("not a tensor file: a header of {size} bytes (at most {HEADER_CAP} are read)");
            return Err(wrong(what));
        }
        let payload = 8 + size;
        if source.len() < payload {
            let there = source.len();
            let what =
                format!("the file is cut short inside its header: it holds {there} bytes of {payload}");
            return Err(wrong(what));
        }
        let file = header::decode(&source.bytes(8..payload)?, payload, source.len())
            .map_err(|what| wrong(format!("tensor header: {what}")))?;
        let needed = file.spec.layout().map_err(|e| wrong(format!("tensor header: {e}")))?.total_bytes();
        file.check_ranges(needed).map_err(|what| wrong(format!("tensor header: {what}")))?;
        Ok(file)
    }

    /// An error for what the header cannot say, or says wrong of the shards.
    pub(super) fn check(&self) -> Result<()> {
        let TensorSpec { shape, alignment, memory, .. } = &self.spec;
        let Topology { distribution, coordinates, .. } = &self.topology;
        let shards =
            memory.nd_shard.iter().flat_map(|s| &s.shape).chain(memory.shard.iter().flat_map(|s| &s.shape));
        let devices = self.shards.iter().map(|s| &s.coordinate).chain(coordinates).flatten();
        let meshes = self.mesh_shape.iter().chain(distribution).chain(devices);
        let mut sizes = shape.iter().chain(alignment).chain(shards).chain(meshes);
        if let Some(n) = sizes.find(|n| u32::try_from(**n).is_err()) {
            return Err(Error::value("size in a .tensorbin file", n, "less than 2^32"));
        }
        if FORMATS.iter().all(|f| f.1 != self.spec.format) {
            let names: Vec<String> = FORMATS.iter().map(|f| f.1.to_string()).collect();
            return Err(Error::value("dtype of a .tensorbin file", self.spec.format, names.join(", ")));
        }
        let needed = self.spec.layout()?.total_bytes();
        if needed == 0 {
            return Err(Error::value("shape", format!("{shape:?}"), "at least one element"));
        }
        self.check_ranges(needed).map_err(|what| Error::value("shards", what, "other ranges"))
    }

    /// All bytes of the file before the payload: the size of the header, the header, and zeros up to a multiple of a page.
    ///
    /// For a file that was made by [`TensorBin::new`] and [`TensorBin::keep`]; the shards follow at their ranges, with
    /// zeros between them.
    pub fn head(&self) -> Vec<u8> {
        let mut head = self.payload.saturating_sub(8).to_le_bytes().to_vec();
        head.extend(header::encode(self));
        // The payload begins at a multiple of a page, behind a header of some kilobytes.
        head.resize(self.payload as usize, 0);
        head
    }

    /// Gives the stored copies new ranges, one after another in the order that they have.
    pub(super) fn lay_out(&mut self) {
        let stored = self.stored();
        // Offsets do not change the length of the header.
        let payload = aligned(8 + header::encode(self).len() as u64);
        let pitch = stored.first().map_or(0, |r| aligned(r.end - r.start));
        for shard in &mut self.shards {
            let place = stored.binary_search_by_key(&shard.range.start, |r| r.start).unwrap_or(0);
            let start = payload + place as u64 * pitch;
            shard.range = start..start + (shard.range.end - shard.range.start);
        }
        self.payload = payload;
    }
}
