//! A collapsed tensor and how it is cut into shards: what all texts of tt-mlir come down to.

use super::collapse;
use super::device::Device;
use super::memory::{Fill, MemoryLayout, MemorySpace};
use super::shard::{Buffers, Sharding};
use super::tile::Element;
use crate::error::{Error, Result};
use crate::family::{Placement, Tensor, join, volume};
use crate::layout::Layout;
use crate::layout::affine::{AffineExpr, AffineMap};
use crate::layout::index::index_of;

/// Pages in DRAM begin at multiples of so many bytes, as on Wormhole. No text says it.
const DRAM_ALIGNMENT: u64 = 32;

/// The most steps of a map behind a view.
const MAX_STEPS: usize = 1 << 16;

/// The most places at which a view is compared with the identity.
const MAX_COMPARED: u64 = 1 << 12;

/// Where the shards of a tensor go.
#[derive(Debug)]
pub(super) enum Home {
    /// To a buffer each, in their own order.
    Shards,
    /// To these buffers in turn, as in [`Sharding::deal`].
    At(Vec<u32>),
    /// To so many buffers in turn.
    Turn(u64),
    /// In pages to so many banks in turn.
    Banks(u64),
}

/// Strides inside of a shard, in bytes.
#[derive(Debug)]
pub(super) struct Strides {
    /// From one element, or one tile, to the next along each dimension.
    pub(super) steps: Vec<u64>,
    /// Size of a shard.
    pub(super) bytes: u64,
    /// Where its first element lies.
    pub(super) offset: u64,
}

/// A collapsed tensor and how it is cut.
#[derive(Debug)]
pub(super) struct Cut {
    /// From the logical index to the collapsed index.
    pub(super) map: AffineMap,
    /// The shape that collapsed indices lie in.
    pub(super) extents: Vec<u64>,
    pub(super) grid: Vec<u64>,
    /// Shape of a shard in elements, before it is rounded up to tiles.
    pub(super) shard: Vec<u64>,
    pub(super) element: Element,
    /// Strides inside of a shard; row-major without.
    pub(super) strides: Option<Strides>,
    pub(super) home: Home,
}

impl Cut {
    /// A cut into row-major shards that go to a buffer each.
    pub(super) fn new(
        map: AffineMap,
        extents: Vec<u64>,
        grid: &[u64],
        shard: Vec<u64>,
        element: Element,
    ) -> Cut {
        Cut { map, extents, grid: grid.to_vec(), shard, element, strides: None, home: Home::Shards }
    }

    /// The layout. It may be one that only a source can have.
    pub(super) fn layout(self, tensor: &Tensor, placement: &Placement<'_>, fill: Fill) -> Result<Layout> {
        let (format, tile) = (self.element.format(), self.element.tile());
        let mut sharding = Sharding::new(self.grid, self.shard, format, tile)?;
        if let Some(Strides { steps, bytes, offset }) = self.strides {
            sharding = sharding.strided(&steps, bytes, offset)?;
        }
        match self.home {
            Home::Shards => {}
            Home::Turn(buffers) => sharding.deal(Buffers::InTurn(buffers), sharding.bytes())?,
            Home::At(order) => sharding.deal(Buffers::At(order), sharding.bytes())?,
            Home::Banks(banks) => sharding.interleave(banks, DRAM_ALIGNMENT)?,
        }
        let axes = collapse::axes(&self.map, &tensor.shape, &self.extents, &sharding)?;
        let geometry = sharding.geometry(sharding.shape()?);
        let fill = placement.pad_value.unwrap_or(fill.value());
        sharding.layout(&tensor.shape, axes, fill, geometry)
    }

    /// The cut of what lies behind a view: `view` maps the index of an element (or tile) in grid and shard to the
    /// index in the grid and shard that are in memory. Its last results, as many as a shard has dimensions, are the
    /// shard's. `what` is how the text calls the view.
    ///
    /// # Errors
    /// Where the view has another rank, or a map that is too large.
    pub(super) fn behind(mut self, what: &str, view: &AffineMap) -> Result<Cut> {
        let rank = self.grid.len();
        let results = view.results().len();
        if view.dims() != 2 * rank || results <= rank {
            let given = format!("a map of {} dimensions to {results}", view.dims());
            let needed = format!("{} dimensions, grid and shard, to more than {rank}", 2 * rank);
            return Err(Error::value(what, given, needed));
        }
        let tile = tile_sizes(self.element, rank);
        let units: Vec<u64> = self.shard.iter().zip(&tile).map(|(n, t)| n / t).collect();
        let last: Option<Vec<i64>> =
            self.grid.iter().chain(&units).map(|&n| Some(i64::try_from(n).ok()? - 1)).collect();
        let last = last.ok_or_else(|| Error::overflow("the shape of a view"))?;
        if is_identity(view, &[self.grid.as_slice(), &units].concat()) {
            return Ok(self);
        }
        let end = view.eval(&last).ok_or_else(|| Error::overflow("the map of a view"))?;
        if let Some(end) = end.iter().find(|&&e| e < 0) {
            return Err(Error::value(what, format!("{end} at the last index {last:?}"), "0 or more"));
        }
        let ends: Vec<u64> = end.iter().map(|&e| e as u64 + 1).collect();
        self.map = self.map_behind(view, &tile, &ends)?;
        let (grid, shard) = ends.split_at(ends.len() - rank);
        let missing = rank.max(grid.len()) - grid.len();
        self.grid = [vec![1; missing], grid.to_vec()].concat();
        let missing = self.grid.len() - rank;
        let shard = shard.iter().zip(&tile).map(|(&n, &t)| volume("the shape behind a view", [n, t]));
        self.shard = [vec![1; missing], shard.collect::<Result<_>>()?].concat();
        let sizes = self.grid.iter().zip(&self.shard);
        self.extents =
            sizes.map(|(&g, &n)| volume("the shape behind a view", [g, n])).collect::<Result<_>>()?;
        Ok(self)
    }

    /// From the logical index to the one behind a view, whose grid and shard end at `ends`.
    fn map_behind(&self, view: &AffineMap, tile: &[u64], ends: &[u64]) -> Result<AffineMap> {
        let rank = self.grid.len();
        let compose = || -> Option<AffineMap> {
            let (mut core, mut unit, mut within) = (Vec::new(), Vec::new(), Vec::new());
            for ((c, &n), &t) in self.map.results().iter().zip(&self.shard).zip(tile) {
                let (n, t) = (i64::try_from(n).ok()?, t as i64);
                core.push(c.clone().floordiv(n)?);
                let inside = c.clone().modulo(n)?;
                unit.push(if t == 1 { inside.clone() } else { inside.clone().floordiv(t)? });
                within.push(if t == 1 { AffineExpr::constant(0) } else { inside.modulo(t)? });
            }
            let index = [core, unit].concat();
            let at: Option<Vec<AffineExpr>> =
                view.results().iter().map(|r| r.compose(&index, MAX_STEPS)).collect();
            let at = at?;
            let (core, unit) = at.split_at(at.len() - rank);
            let dims = core.len().max(rank);
            let results: Option<Vec<AffineExpr>> = (0..dims)
                .map(|r| {
                    // Grid and shard are aligned at their last dimension.
                    let core = (r + core.len()).checked_sub(dims).map(|k| core[k].clone());
                    let k = (r + rank).checked_sub(dims);
                    let Some(k) = k else { return core };
                    let size = ends[at.len() - rank + k].checked_mul(tile[k])?;
                    let core = match core {
                        Some(core) => core.times(i64::try_from(size).ok()?)?,
                        None => AffineExpr::constant(0),
                    };
                    core.plus(unit[k].clone().times(tile[k] as i64)?)?.plus(within[k].clone())
                })
                .collect();
            AffineMap::new(self.map.dims(), results?)
        };
        compose().ok_or_else(|| Error::TooComplex { what: "the map of a view".into(), cap: MAX_STEPS })
    }
}

/// The size of a tile along each of `rank` dimensions; 1 where there is none.
pub(super) fn tile_sizes(element: Element, rank: usize) -> Vec<u64> {
    let mut sizes = vec![1; rank];
    if let (Some(tile), [.., rows, cols]) = (element.tile(), sizes.as_mut_slice()) {
        (*rows, *cols) = (tile.rows, tile.cols);
    }
    sizes
}

/// A shape counted in elements or tiles, in elements.
///
/// # Errors
/// Where it overflows.
pub(super) fn in_elements(shape: &[u64], element: Element) -> Result<Vec<u64>> {
    let tile = tile_sizes(element, shape.len());
    shape.iter().zip(tile).map(|(&n, t)| volume("the shape of a shard", [n, t])).collect()
}

/// A shape as a memref counts it: whole tiles along the last two dimensions, where there are tiles.
pub(super) fn in_units(shape: &[u64], element: Element) -> Vec<u64> {
    let tile = tile_sizes(element, shape.len());
    shape.iter().zip(tile).map(|(n, t)| n.div_ceil(t)).collect()
}

/// Sizes divided by a grid, rounding up.
pub(super) fn ceil_div(sizes: &[u64], grid: &[u64]) -> Vec<u64> {
    sizes.iter().zip(grid).map(|(n, g)| n.div_ceil(*g)).collect()
}

/// Grid times shard, element by element.
///
/// # Errors
/// Where it overflows.
pub(super) fn grid_times(grid: &[u64], shard: &[u64]) -> Result<Vec<u64>> {
    grid.iter().zip(shard).map(|(&g, &n)| volume("grid times shard", [g, n])).collect()
}

/// An error unless a grid of written shards has room for the collapsed tensor: what is taken as meant where the rule
/// gives another shard.
pub(super) fn check_room(given: &[u64], extents: &[u64]) -> Result<()> {
    if given.len() == extents.len() && given.iter().zip(extents).all(|(given, needed)| given >= needed) {
        return Ok(());
    }
    let needed = format!("at least {}, the collapsed tensor", join(extents));
    Err(Error::value("grid times shard", join(given), needed))
}

/// Where interleaved pages go: to the banks of the device, if they are in DRAM and a device says how many there are;
/// else all of them to one buffer. In L1 the order of the banks belongs to one chip, and no text says it.
pub(super) fn banks(memory: MemorySpace, device: Option<&Device>) -> Home {
    let grid = device.and_then(|d| d.dram_grid.as_deref()).filter(|_| memory == MemorySpace::Dram);
    Home::Banks(grid.map_or(1, |g| g.iter().fold(1, |n: u64, &g| n.saturating_mul(g))))
}

/// Where the shards of a grid go.
///
/// # Errors
/// Where the device's grid is too small.
pub(super) fn home(
    layout: MemoryLayout,
    memory: MemorySpace,
    grid: &[u64],
    device: Option<&Device>,
) -> Result<Home> {
    match (layout, device) {
        (MemoryLayout::Interleaved, device) => Ok(banks(memory, device)),
        (MemoryLayout::Sharded, Some(device)) => Ok(Home::At(device.order(grid)?)),
        (MemoryLayout::Sharded, None) => Ok(Home::Shards),
    }
}

/// Whether a map is the identity in a box: by its form, or at each place of a small box.
fn is_identity(map: &AffineMap, sizes: &[u64]) -> bool {
    if *map == AffineMap::identity(sizes.len()) {
        return true;
    }
    let places = sizes.iter().fold(1, |n: u64, &s| n.saturating_mul(s));
    if map.results().len() != sizes.len() || places > MAX_COMPARED {
        return false;
    }
    (0..places).all(|n| {
        let index: Vec<i64> = index_of(n, sizes).iter().map(|&i| i as i64).collect();
        map.eval(&index).as_deref() == Some(&index)
    })
}
