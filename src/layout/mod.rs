//! A [`Layout`] maps each logical index to a place in memory, and knows which bytes are padding.
//!
//! The map is separable: each axis turns the coordinates of some logical dimensions into an address by a piecewise
//! affine map, and the addresses of all axes add up. The one step that is not separable comes last: a distribution
//! sends each *unit* (a page, the shard of a core) to its place among the buffers.
//!
//! - `piecewise`: the algebra of these maps: zip, compose, slice, product.
//! - `axis`: cells and addresses of a group of dimensions; `gaps`: the cells without an element; `inverse`: from
//!   cell to coordinate.
//! - `distribution`: where units lie.
//! - `affine`: affine expressions, as descriptors state them.
//! - `padding`, `locate`, `content` and `cells`: what a [`Layout`] answers besides.

pub mod affine;
pub(crate) mod axis;
mod cells;
mod content;
#[cfg(test)]
pub(crate) mod coverage;
mod distribution;
mod gaps;
pub(crate) mod index;
pub(crate) mod inverse;
mod locate;
mod padding;
pub(crate) mod piecewise;

use kernels::{BlockCodec, BlockFormat, BlockOptions, TileShape};
use smallvec::SmallVec;

use crate::dtype::Format;
use crate::error::{Error, Result};
use axis::{Addr, Axis, Level};
use index::{ravel, unravel};
use piecewise::{Region, add};

pub use cells::{Cells, Pages};
pub use content::Content;
pub(crate) use distribution::{RoundRobin, Space};
pub use locate::{Owner, Place};

/// The greatest total size in bytes, so that sums of a few addresses never overflow 63 bits.
pub(crate) const MAX_BYTES: u64 = 1 << 60;

/// The tile of a block format, or of a layout that has tiles: rows and columns in elements, and how they are stored.
///
/// Families make it of the shapes that they have. The kernels know these shapes alone, as [`kernels::TileShape`]; how a
/// tile is stored they get as options of a codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Rows in elements: 1, 2, 4, 8, 16 or 32.
    pub rows: u64,
    /// Columns in elements: 16 or 32.
    pub cols: u64,
    /// Whether the tile is stored transposed.
    pub transposed: bool,
    /// Whether it is a block of an MX format without padding; see [`kernels::BlockOptions::compact`].
    pub compact: bool,
}

impl Tile {
    /// Elements of one tile.
    pub fn elements(self) -> u64 {
        self.rows * self.cols
    }

    /// The codec of a block format in such tiles; how they are stored is the tile's part of the options.
    pub(crate) fn codec(self, block: BlockFormat, options: BlockOptions) -> Result<BlockCodec> {
        let Tile { rows, cols, transposed, compact } = self;
        let shape = TileShape::new(rows as usize, cols as usize);
        let shape = shape.ok_or_else(|| Error::value("tile", format!("{rows}x{cols}"), "a tile shape"))?;
        let options = BlockOptions { transposed, compact, ..options };
        BlockCodec::new(block, shape, options)
            .map_err(|e| Error::value(format!("options of {block}"), e, "options that the format has"))
    }
}

/// What a person wants to know of a layout besides the map; filled in by its family.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Geometry {
    /// Shape of all shards together, in elements, padding to tiles included.
    pub physical_shape: Vec<u64>,
    /// Shards along each physical dimension; empty where there is no grid.
    pub grid: Vec<u64>,
    /// Shape of one shard in elements, padding to tiles included.
    pub shard_shape: Vec<u64>,
    /// The tile, where there is one.
    pub tile: Option<Tile>,
    /// Spyre: the device size in elements.
    pub device_size: Option<Vec<u64>>,
    /// Spyre: the host stride of each device dimension, -1 for none.
    pub stride_map: Option<Vec<i64>>,
}

/// A validated map from logical index to place.
///
/// Every logical index has one place, or one in each replica; what no index reaches is padding with a
/// defined fill. Layouts come from descriptors: see [`crate::family::Descriptor`] and [`crate::family`].
#[derive(Debug, Clone)]
pub struct Layout {
    shape: Vec<u64>,
    format: Format,
    tile: Option<Tile>,
    /// Bytes of what one address step counts: an element, or a tile of a block format.
    block_bytes: u64,
    pub(crate) axes: Vec<Axis>,
    pub(crate) replicas: Vec<Level>,
    /// Bytes in front of the first cell.
    pub(crate) offset: i64,
    pub(crate) space: Space,
    fill: f64,
    geometry: Geometry,
}

/// The parts of a layout before they are validated.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) shape: Vec<u64>,
    pub(crate) format: Format,
    /// Needed for block formats.
    pub(crate) tile: Option<Tile>,
    /// Every dimension in exactly one axis; no axes at all where the tensor is empty.
    pub(crate) axes: Vec<Axis>,
    pub(crate) replicas: Vec<Level>,
    /// Bytes in front of the first cell.
    pub(crate) offset: i64,
    pub(crate) space: Space,
    pub(crate) fill: f64,
    pub(crate) geometry: Geometry,
}

impl Layout {
    /// Validates: every dimension belongs to one axis, and every cell lies inside of the space.
    pub(crate) fn new(parts: Parts) -> Result<Layout> {
        let Parts { shape, format, tile, axes, replicas, offset, space, fill, geometry } = parts;
        let total = space.units.checked_mul(space.pitch_bytes).filter(|&t| t <= MAX_BYTES);
        total.ok_or_else(|| Error::overflow("the size of the layout"))?;
        let block_bytes = match format {
            Format::Block(block) => tile.map_or(0, |tile| tile_bytes(block, tile)),
            _ => element_bytes(format),
        };
        if let (Format::Block(block), 0) = (format, block_bytes) {
            let given = tile.map_or("no tile".into(), |t| format!("{}x{}", t.rows, t.cols));
            return Err(Error::value(
                format!("tile of {block}", block = block.name()),
                given,
                "a tile of at least one group of elements",
            ));
        }
        let layout =
            Layout { shape, format, tile, block_bytes, axes, replicas, offset, space, fill, geometry };
        if layout.elements() > 0 {
            layout.check_axes();
            layout.check_bounds()?;
        }
        Ok(layout)
    }

    /// Every dimension belongs to one axis; a family that breaks this has a defect.
    fn check_axes(&self) {
        let mut seen = vec![0; self.shape.len()];
        for axis in &self.axes {
            let len: u64 = axis.dims.iter().map(|&d| self.shape[d]).product();
            debug_assert_eq!(len, axis.places.len());
            axis.dims.iter().for_each(|&d| seen[d] += 1);
        }
        debug_assert!(seen.iter().all(|&s| s == 1), "{seen:?}");
    }

    /// An error unless every cell lies inside of the space.
    fn check_bounds(&self) -> Result<()> {
        let bounds = self.levels().fold([(0, 0); 3], |mut bounds, level| {
            for ((lo, hi), step) in bounds.iter_mut().zip(level.step) {
                let span = (level.n as i128 - 1) * i128::from(step);
                (*lo, *hi) = (*lo + span.min(0), *hi + span.max(0));
            }
            bounds
        });
        let start = [0, self.offset, 0];
        let within = |k: usize, size: u64| {
            let at = i128::from(start[k]);
            at + bounds[k].0 >= 0 && at + bounds[k].1 < i128::from(size)
        };
        let slots = self.tile.map_or(1, |t| t.elements());
        let inside = within(0, self.space.units)
            && within(1, self.space.unit_bytes)
            && (!matches!(self.format, Format::Block(_)) || within(2, slots));
        if inside {
            return Ok(());
        }
        Err(Error::value(
            "the layout's cells",
            format!("units, bytes and slots up to {bounds:?} from {start:?}"),
            format!("inside {} units of {} bytes", self.space.units, self.space.unit_bytes),
        ))
    }

    /// The logical shape, outermost dimension first.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// What the bytes hold.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The tile of a block format.
    pub(crate) fn tile(&self) -> Option<Tile> {
        self.tile
    }

    /// How many elements the logical tensor has.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// How many buffers there are; all have the same size and lie one after another.
    pub fn buffers(&self) -> u64 {
        self.space.buffers
    }

    /// Bytes of one buffer.
    pub fn buffer_bytes(&self) -> u64 {
        self.total_bytes().checked_div(self.space.buffers).unwrap_or(0)
    }

    /// Bytes of all buffers.
    pub fn total_bytes(&self) -> u64 {
        self.space.total_bytes()
    }

    /// The value of every place that holds no element, encoded like data.
    pub fn fill(&self) -> f64 {
        self.fill
    }

    /// How many copies of the tensor the buffers hold.
    pub fn copies(&self) -> u64 {
        self.replicas.iter().map(|r| r.n).product()
    }

    /// The numbers that describe the layout to a person.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Bytes of what one address step counts: an element, or a tile of a block format.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// How many elements all buffers can hold.
    fn capacity(&self) -> u64 {
        let per_block = match self.format {
            Format::Block(_) => self.tile.map_or(1, Tile::elements),
            _ => 1,
        };
        self.space.units * (self.space.unit_bytes / self.block_bytes()) * per_block
    }

    /// How many places of all buffers hold no element; not meant for a source whose elements share places.
    pub fn padding_elements(&self) -> u64 {
        self.capacity().saturating_sub(self.elements().saturating_mul(self.copies()))
    }

    /// The address of a logical index in the first replica. The index must lie inside of the shape.
    pub(crate) fn address(&self, index: &[u64]) -> Addr {
        self.axes.iter().fold([0, self.offset, 0], |at, axis| {
            let u = ravel(index, &axis.dims, &self.shape);
            add(at, add(axis.start, axis.addresses.eval(u)))
        })
    }

    /// How far each replica lies from the first, the first included.
    pub(crate) fn replica_steps(&self) -> impl Iterator<Item = Addr> {
        (0..self.copies()).map(|mut k| {
            self.replicas.iter().rev().fold([0; 3], |at, level| {
                let digit = k % level.n;
                k /= level.n;
                add(at, level.step.map(|s| s * digit as i64))
            })
        })
    }

    /// The byte of an address in the buffers, one after another.
    pub(crate) fn byte(&self, at: Addr) -> u64 {
        (self.space.unit_at(at[0]) + at[1]) as u64
    }

    /// Every digit of every axis, and the replicas.
    fn levels(&self) -> impl Iterator<Item = &Level> {
        self.axes.iter().flat_map(|a| &a.cells).chain(&self.replicas).filter(|l| l.n > 1)
    }

    /// An error unless no two elements share a place, and the unused places are known.
    pub fn check_destination(&self) -> Result<()> {
        if self.elements() == 0 {
            return Ok(());
        }
        self.gaps().map(|_| ())
    }

    /// The cells of each axis without an element; an error unless no two elements share a place. The layout is not
    /// empty.
    fn gaps(&self) -> Result<Vec<Vec<Region<1>>>> {
        let named = |axis: &Axis| axis.gaps().map_err(|e| self.name_collision(axis, e));
        let gaps = self.axes.iter().map(named).collect::<Result<_>>()?;
        let mut levels = self.linear_levels();
        levels.sort_by_key(|l| std::cmp::Reverse(l.1));
        let mut extent = self.block_bytes() as i128;
        for &(n, step) in levels.iter().rev() {
            if i128::from(step) < extent {
                return Err(Error::value(
                    "destination",
                    format!("{n} places {step} bytes apart, around a block of {extent} bytes"),
                    "steps that keep every two elements apart",
                ));
            }
            extent += (i128::from(n) - 1) * i128::from(step);
        }
        Ok(gaps)
    }

    /// The digits that move bytes, as steps through all units.
    fn linear_levels(&self) -> SmallVec<[(u64, i64); 16]> {
        self.levels().filter(|l| l.step[2] == 0).map(|l| (l.n, self.linear(l.step))).collect()
    }

    /// An address as bytes through all units in order.
    pub(crate) fn linear(&self, at: Addr) -> i64 {
        at[0] * self.space.unit_bytes as i64 + at[1]
    }

    /// A collision of two coordinates of an axis as one of two logical indices.
    fn name_collision(&self, axis: &Axis, error: Error) -> Error {
        let Error::Collision { first, second, .. } = error else { return error };
        let dims: Vec<String> = axis.dims.iter().map(|d| format!("d{d}")).collect();
        let index = |coordinate: Vec<u64>| {
            let mut index = vec![0; self.shape.len()];
            coordinate.into_iter().for_each(|u| unravel(u, &axis.dims, &self.shape, &mut index));
            index
        };
        let what = format!("dimensions {}", dims.join(", "));
        Error::Collision { what, first: index(first), second: index(second) }
    }
}

/// Bytes of one element of a plain format.
pub(crate) fn element_bytes(format: Format) -> u64 {
    match format {
        Format::Plain(dtype) => dtype.size() as u64,
        Format::Sen169 => 2,
        Format::TtE4M3 => 1,
        Format::Block(_) => 0,
    }
}

/// Bytes of one tile of a block format.
pub(crate) fn tile_bytes(block: BlockFormat, tile: Tile) -> u64 {
    tile.codec(block, BlockOptions::default()).map_or(0, |c| c.tile_bytes() as u64)
}
