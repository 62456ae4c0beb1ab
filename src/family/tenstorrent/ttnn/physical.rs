//! From the logical shape of a TTNN tensor to its padded one, and how that is cut into pages or shards.

use super::memory::{Memory, Strategy};
use crate::dtype::Format;
use crate::error::{Error, Result};
use crate::family::tenstorrent::shard::Sharding;
use crate::family::{join, volume};
use crate::layout::axis::Axis;
use crate::layout::piecewise::Piecewise;
use crate::layout::{Geometry, Tile};

/// A padded tensor.
pub(super) struct Physical {
    /// The shape that shards are cut from: as many dimensions as shards have.
    shape: Vec<u64>,
    /// The padded shape of the tensor, at least two dimensions.
    padded: Vec<u64>,
    /// How many dimensions of it are multiplied into the first of `shape`.
    folded: usize,
    /// How many dimensions of it the logical shape does not have.
    missing: usize,
}

impl Physical {
    /// The padded form of a tensor of this shape, which has elements; leading dimensions are multiplied into the first.
    pub(super) fn new(memory: &Memory, tile: Option<Tile>, shape: &[u64]) -> Result<Physical> {
        let missing = 2_usize.saturating_sub(shape.len());
        let mut padded = [vec![1; missing], shape.to_vec()].concat();
        let (rows, cols) = match (tile, memory) {
            (Some(tile), _) => (tile.rows, tile.cols),
            (None, Memory::Sharded(sharded)) => (1, sharded.shard.last().copied().unwrap_or(1)),
            (None, _) => (1, 1),
        };
        if let [.., height, width] = padded.as_mut_slice() {
            for (n, to) in [(height, rows), (width, cols)] {
                *n = n.checked_next_multiple_of(to).ok_or_else(|| Error::overflow("the padded shape"))?;
            }
        }
        let rank = match memory {
            Memory::Sharded(sharded) if sharded.shard.len() > padded.len() => {
                let needed = format!("at most {} dimensions, as the tensor has", padded.len());
                return Err(Error::value("shard", join(&sharded.shard), needed));
            }
            Memory::Sharded(sharded) => sharded.shard.len(),
            _ => 2,
        };
        let folded = padded.len() - rank + 1;
        let first = volume("the padded shape", padded[..folded].iter().copied())?;
        let shape = [&[first], &padded[folded..]].concat();
        Ok(Physical { shape, padded, folded, missing })
    }

    /// How it is cut and dealt, and what to tell a person.
    pub(super) fn place(
        &self,
        memory: &Memory,
        tile: Option<Tile>,
        dtype: Format,
    ) -> Result<(Sharding, Geometry)> {
        let cut = |shard: &[u64]| -> Result<Sharding> {
            let grid = self.shape.iter().zip(shard).map(|(n, s)| n.div_ceil(*s)).collect();
            Sharding::new(grid, shard.to_vec(), dtype, tile)
        };
        let physical_shape = self.shape.clone();
        match memory {
            Memory::Single => {
                let sharding = cut(&self.shape)?;
                let geometry = Geometry { grid: vec![], ..sharding.geometry(physical_shape) };
                Ok((sharding, geometry))
            }
            Memory::Interleaved(interleaved) => {
                let page = tile.map_or([1, self.shape[1]], |t| [t.rows, t.cols]);
                let mut sharding = cut(&page)?;
                let pitch = sharding.bytes().checked_next_multiple_of(interleaved.alignment);
                let pitch = pitch.ok_or_else(|| Error::overflow("the aligned size of a page"))?;
                sharding.deal(interleaved.buffers(), pitch)?;
                let geometry = Geometry { grid: vec![], ..sharding.geometry(physical_shape) };
                Ok((sharding, geometry))
            }
            Memory::Sharded(sharded) => {
                let mut sharding = cut(&sharded.shard)?;
                let geometry = sharding.geometry(physical_shape);
                sharded.check_fit(&self.shape, &geometry.grid)?;
                let buffers = sharded.buffers(&geometry.grid)?;
                if sharded.strategy == Strategy::Contiguous1d {
                    let each = sharding.shards() / sharded.grid.cores();
                    sharding.deal_contiguous(buffers, each)?;
                } else {
                    let pitch = sharding.bytes();
                    sharding.deal(buffers, pitch)?;
                }
                Ok((sharding, geometry))
            }
        }
    }

    /// One axis for each physical dimension.
    pub(super) fn axes(&self, shape: &[u64], sharding: &Sharding) -> Result<Vec<Axis>> {
        let axis = |r: usize| {
            let of = if r == 0 { 0..self.folded } else { self.folded + r - 1..self.folded + r };
            let mut loops = Vec::new();
            let mut dims = Vec::new();
            let mut stride = 1;
            for d in of.rev() {
                if let Some(logical) = d.checked_sub(self.missing) {
                    loops.insert(0, (shape[logical], [stride]));
                    dims.insert(0, logical);
                }
                // Inside of the physical size, which was checked.
                stride *= self.padded[d] as i64;
            }
            sharding.axis(dims, 0, Piecewise::nest(&loops), r)
        };
        (0..self.shape.len()).map(axis).collect()
    }
}
