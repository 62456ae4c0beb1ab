//! A [`Layout`] maps each logical index to a place in memory, and knows which bytes are padding.
//!
//! The map is separable: each axis turns the coordinates of some logical dimensions into an
//! address by a staircase, and the addresses of all axes add up. The one step that is not separable comes
//! last: a distribution sends each *unit* (a page, the shard of a core) to its place among the buffers.

pub mod affine;
pub(crate) mod axis;
mod content;
#[cfg(test)]
pub(crate) mod coverage;
pub(crate) mod piecewise;
mod place;
mod space;

use kernels::{BlockCodec, BlockFormat, BlockOptions, TileShape};

use crate::dtype::Format;
use crate::error::{Error, Result};
use axis::{Addr, Axis, Level, addresses, gaps};
use piecewise::{MAX_PARTS, Piecewise, Region, add};

pub use content::Content;
pub use place::{Owner, Place};
pub(crate) use space::{RoundRobin, Space};

/// The greatest total size in bytes, so that sums of a few addresses never overflow 63 bits.
pub(crate) const MAX_BYTES: u64 = 1 << 60;

/// The most rectangular boxes of padding.
const MAX_BOXES: usize = 4096;

/// The tile of a block format, or of a layout that has tiles: rows and columns in elements.
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
        if let Format::Block(block) = format {
            let given = tile.map_or("no tile".into(), |t| format!("{}x{}", t.rows, t.cols));
            if tile.is_none_or(|t| tile_bytes(block, t) == 0) {
                return Err(Error::value(
                    format!("tile of {block}", block = block.name()),
                    given,
                    "a tile of at least one group of elements",
                ));
            }
        }
        let layout = Layout { shape, format, tile, axes, replicas, offset, space, fill, geometry };
        if layout.elements() == 0 {
            return Ok(layout);
        }
        let mut seen = vec![0; layout.shape.len()];
        for axis in &layout.axes {
            let len: u64 = axis.dims.iter().map(|&d| layout.shape[d]).product();
            debug_assert_eq!(len, axis.places.len());
            axis.dims.iter().for_each(|&d| seen[d] += 1);
        }
        debug_assert!(seen.iter().all(|&s| s == 1), "{seen:?}");
        let ends = layout.levels().fold([(0, 0); 3], |mut ends, level| {
            for (end, step) in ends.iter_mut().zip(level.step) {
                let way = (level.n as i128 - 1) * i128::from(step);
                *end = (end.0 + way.min(0), end.1 + way.max(0));
            }
            ends
        });
        let start = [0, layout.offset, 0];
        let within = |k: usize, size: u64| {
            let at = i128::from(start[k]);
            let (lo, hi) = if layout.injective_cells() { (0, ends[k].1) } else { ends[k] };
            at + lo >= 0 && at + hi < i128::from(size)
        };
        let slots = layout.tile.map_or(1, |t| t.elements());
        let inside = within(0, layout.space.units)
            && within(1, layout.space.unit_bytes)
            && (!matches!(layout.format, Format::Block(_)) || within(2, slots));
        if !inside {
            return Err(Error::value(
                "the layout's cells",
                format!("units, bytes and slots up to {ends:?} from {start:?}"),
                format!("inside {} units of {} bytes", layout.space.units, layout.space.unit_bytes),
            ));
        }
        Ok(layout)
    }

    /// Whether cells only ever step upward; a source may also step down or not at all.
    fn injective_cells(&self) -> bool {
        self.levels().all(|l| l.step.iter().all(|&s| s >= 0))
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
        match (self.format, self.tile) {
            (Format::Block(block), Some(tile)) => tile_bytes(block, tile),
            (format, _) => element_bytes(format),
        }
    }

    /// How many elements all buffers have room for.
    fn capacity(&self) -> u64 {
        let per_grain = match self.format {
            Format::Block(_) => self.tile.map_or(1, Tile::elements),
            _ => 1,
        };
        self.space.units * (self.space.unit_bytes / self.block_bytes()) * per_grain
    }

    /// How many places of all buffers hold no element; not meant for a source whose elements share places.
    pub fn padding_elements(&self) -> u64 {
        self.capacity().saturating_sub(self.elements().saturating_mul(self.copies()))
    }

    /// The address of a logical index in the first replica. The index must lie inside of the shape.
    pub(crate) fn address(&self, index: &[u64]) -> Addr {
        self.axes.iter().fold([0, self.offset, 0], |at, axis| {
            let u = axis.dims.iter().fold(0, |u, &d| u * self.shape[d] + index[d]);
            add(at, add(axis.start, axis.stair.eval(u)))
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
    pub(crate) fn check_destination(&self) -> Result<()> {
        if self.elements() == 0 {
            return Ok(());
        }
        for axis in &self.axes {
            axis.gaps().map_err(|e| self.name_collision(axis, e))?;
        }
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
        Ok(())
    }

    /// The digits that move bytes, as steps through all units.
    fn linear_levels(&self) -> Vec<(u64, i64)> {
        self.levels().filter(|l| l.step[2] == 0).map(|l| (l.n, self.linear(l.step))).collect()
    }

    /// An address as bytes through all units in order.
    pub(crate) fn linear(&self, at: Addr) -> i64 {
        at[0] * self.space.unit_bytes as i64 + at[1]
    }

    /// Puts two logical indices that meet into a collision error.
    fn name_collision(&self, axis: &Axis, error: Error) -> Error {
        let Error::Collision { .. } = error else { return error };
        let dims: Vec<String> = axis.dims.iter().map(|d| format!("d{d}")).collect();
        let what = format!("dimensions {}", dims.join(", "));
        let len = axis.places.len().min(MAX_PARTS as u64);
        let mut cells = std::collections::HashMap::new();
        for u in 0..len {
            if let Some(first) = cells.insert(axis.places.eval(u), u) {
                let index = |u| self.axis_index(axis, u);
                return Error::Collision { what, first: index(first), second: index(u) };
            }
        }
        Error::Collision { what, first: vec![], second: vec![] }
    }

    /// The logical index with coordinate `u` along one axis and 0 along the others.
    fn axis_index(&self, axis: &Axis, mut u: u64) -> Vec<u64> {
        let mut index = vec![0; self.shape.len()];
        for &d in axis.dims.iter().rev() {
            index[d] = u % self.shape[d];
            u /= self.shape[d];
        }
        index
    }

    /// The places that hold no element, as rectangular pieces: loops over elements of plain formats, over
    /// whole tiles of block formats (inside of a tile the codec pads).
    pub(crate) fn padding(&self) -> Result<Vec<Region<3>>> {
        let block_bytes = self.block_bytes() as i64;
        if self.elements() == 0 {
            let n = self.space.unit_bytes / self.block_bytes();
            let loops = vec![(self.space.units, [1, 0, 0]), (n, [0, block_bytes, 0])];
            return Ok(if n == 0 { vec![] } else { vec![Region { at: [0; 3], loops }] });
        }
        let mut out = self.holes();
        let parts: Vec<AxisParts> = self.axes.iter().map(|a| self.axis_parts(a)).collect::<Result<_>>()?;
        let copies = Region { at: [0; 3], loops: self.replicas.iter().map(|r| (r.n, r.step)).collect() };
        for k in (0..parts.len()).filter(|&k| !parts[k].free.is_empty()) {
            let factors = parts.iter().enumerate().map(|(i, part)| match i.cmp(&k) {
                std::cmp::Ordering::Less => part.used.as_slice(),
                std::cmp::Ordering::Equal => part.free.as_slice(),
                std::cmp::Ordering::Greater => std::slice::from_ref(&part.all),
            });
            let mut boxes = vec![Region { at: [0, self.offset, 0], loops: copies.loops.clone() }];
            for factor in factors {
                boxes = boxes.iter().flat_map(|b| factor.iter().map(|f| cross(b, f))).collect();
                if boxes.len() + out.len() > MAX_BOXES {
                    return Err(Error::TooComplex { what: "the padding".into(), cap: MAX_BOXES });
                }
            }
            out.extend(boxes);
        }
        Ok(out)
    }

    /// The used, free and all places along one axis, in elements or in whole tiles.
    fn axis_parts(&self, axis: &Axis) -> Result<AxisParts> {
        let (inner, free) = match self.format {
            Format::Block(_) => {
                let inner = axis.cells.iter().filter(|c| c.step[2] != 0).map(|c| c.n).product();
                (inner, whole_tiles(axis.gaps()?, inner)?)
            }
            _ => (1, axis.gaps()?),
        };
        let outer = axis.cells.iter().filter(|c| c.step[2] == 0);
        let all = Region { at: [0; 3], loops: outer.map(|c| (c.n, c.step)).collect() };
        if free.is_empty() {
            return Ok(AxisParts { used: vec![all.clone()], free: vec![], all });
        }
        let used = gaps(free.clone(), (axis.extent() / inner) as i64)?;
        let cells = Piecewise::nest(&all.loops);
        Ok(AxisParts { used: addresses(&used, &cells)?, free: addresses(&free, &cells)?, all })
    }

    /// What lies between the cells of a strided layout: runs that no cell reaches.
    fn holes(&self) -> Vec<Region<3>> {
        let block_bytes = self.block_bytes();
        let mut out = Vec::new();
        let offset = self.offset as u64;
        let size = self.space.unit_bytes;
        let mut push_within = |at: u64, loops: &[(u64, Addr)], bytes: u64| {
            let steps = loops.iter().copied().chain([(bytes / block_bytes, [0, block_bytes as i64, 0])]);
            out.push(Region { at: [(at / size) as i64, (at % size) as i64, 0], loops: steps.collect() });
        };
        // A run that passes the end of a unit is its rest, whole units, and the beginning of another.
        let mut push = |at: u64, loops: &[(u64, i64)], bytes: u64| {
            let mut steps: Vec<(u64, Addr)> = loops.iter().map(|&(n, step)| (n, self.split(step))).collect();
            let end = at + bytes;
            let (head, tail) = (at.next_multiple_of(size).min(end), (end / size * size).max(at));
            if head > at {
                push_within(at, &steps, head - at);
            }
            if end > tail && tail >= head {
                push_within(tail, &steps, end - tail);
            }
            if tail > head {
                steps.push(((tail - head) / size, [1, 0, 0]));
                push_within(head, &steps, size);
            }
        };
        if offset > 0 {
            push(0, &[], offset);
        }
        let mut levels = self.linear_levels();
        levels.sort_by_key(|l| std::cmp::Reverse(l.1));
        let total = self.space.units * self.space.unit_bytes;
        // Work through (levels, place of the first cell, room, loops around), outermost first.
        let mut stack = vec![(levels.as_slice(), offset, total - offset, Vec::new())];
        while let Some((levels, at, room, loops)) = stack.pop() {
            let Some((&(n, step), rest)) = levels.split_first() else {
                if room > block_bytes {
                    push(at + block_bytes, &loops, room - block_bytes);
                }
                continue;
            };
            let last_room = room - (n - 1) * step as u64;
            let around = |n: u64| {
                let mut around = loops.clone();
                around.push((n, step));
                around
            };
            if last_room == step as u64 {
                stack.push((rest, at, last_room, around(n)));
            } else {
                stack.push((rest, at, step as u64, around(n - 1)));
                stack.push((rest, at + (n - 1) * step as u64, last_room, loops));
            }
        }
        out
    }

    /// A step through all units as units and bytes.
    fn split(&self, step: i64) -> Addr {
        let unit = self.space.unit_bytes as i64;
        if step % unit == 0 { [step / unit, 0, 0] } else { [0, step, 0] }
    }
}

/// The places along one axis.
struct AxisParts {
    used: Vec<Region<3>>,
    free: Vec<Region<3>>,
    all: Region<3>,
}

/// Every pair of two sets of places.
fn cross(a: &Region<3>, b: &Region<3>) -> Region<3> {
    Region { at: add(a.at, b.at), loops: a.loops.iter().chain(&b.loops).copied().collect() }
}

/// The whole tiles, of `inner` cells each, that lie in runs of free cells.
fn whole_tiles(free: Vec<Region<1>>, inner: u64) -> Result<Vec<Region<1>>> {
    let inner = inner as i64;
    let mut out = Vec::new();
    let mut stack = free;
    while let Some(mut piece) = stack.pop() {
        if out.len() + stack.len() > MAX_PARTS {
            return Err(Error::TooComplex { what: "the padding of an axis".into(), cap: MAX_PARTS });
        }
        let Some((len, _)) = piece.loops.pop() else { continue };
        if (len as i64) < inner {
            continue;
        }
        if let Some(i) = piece.loops.iter().position(|l| l.1[0] % inner != 0) {
            // The phase inside of a tile differs from turn to turn.
            let (n, [step]) = piece.loops.remove(i);
            for k in 0..n.min(MAX_PARTS as u64) as i64 {
                let loops = piece.loops.iter().copied().chain([(len, [1])]).collect();
                stack.push(Region { at: [piece.at[0] + k * step], loops });
            }
            continue;
        }
        let first = (piece.at[0] + inner - 1).div_euclid(inner);
        let end = (piece.at[0] + len as i64).div_euclid(inner);
        if end > first {
            let loops = piece.loops.iter().map(|&(n, [step])| (n, [step / inner]));
            let run = ((end - first) as u64, [1]);
            out.push(Region { at: [first], loops: loops.chain([run]).collect() });
        }
    }
    Ok(out)
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
