//! A physical tensor cut into shards: what `metal_layout` and the memory of TTNN have in common.

use super::tile::levels;
use crate::dtype::Format;
use crate::error::{Error, Result};
use crate::family::{join, volume};
use crate::layout::axis::{Axis, Level};
use crate::layout::piecewise::{Piecewise, compose};
use crate::layout::{Geometry, Layout, Parts, RoundRobin, Space, Tile, element_bytes, tile_bytes};

/// The most cores that may lie out of order, because each takes an entry of a table.
const MAX_DEALT: u64 = 1 << 16;

/// A grid of equal shards that covers a physical tensor.
///
/// A shard is row-major over its elements, or over its tiles; tiles lie in the last two dimensions. Each
/// dimension has its *cells*: the elements of all its shards, whole tiles included.
#[derive(Debug)]
pub(crate) struct Sharding {
    format: Format,
    tile: Option<Tile>,
    /// Shards along each dimension.
    grid: Vec<u64>,
    /// Elements of a shard along each dimension.
    shard: Vec<u64>,
    /// The same, rounded up to tiles.
    padded: Vec<u64>,
    /// The digits of a cell inside of its shard, for each dimension.
    inner: Vec<Vec<Level>>,
    /// Bytes of a shard.
    bytes: u64,
    /// Bytes of a unit, which is dealt as a whole: a shard, or a page of one.
    unit_bytes: u64,
    /// Bytes in front of the first element.
    offset: i64,
    space: Space,
    /// Whether units are dealt, since they do not lie one after another.
    dealt: bool,
}

impl Sharding {
    /// Shards one after another, row-major, a buffer for each. Tiles need two dimensions.
    ///
    /// # Errors
    /// Where sizes overflow.
    pub(crate) fn new(grid: Vec<u64>, shard: Vec<u64>, format: Format, tile: Option<Tile>) -> Result<Self> {
        let mut tile_shape = vec![1; shard.len()];
        if let (Some(tile), [.., rows, cols]) = (tile, tile_shape.as_mut_slice()) {
            (*rows, *cols) = (tile.rows, tile.cols);
        }
        let whole = |(&n, &tile): (&u64, &u64)| n.checked_next_multiple_of(tile);
        let padded: Option<Vec<u64>> = shard.iter().zip(&tile_shape).map(whole).collect();
        let padded = padded.ok_or_else(|| Error::overflow("the shape of a shard"))?;
        let counts: Vec<u64> = padded.iter().zip(&tile_shape).map(|(n, tile)| n / tile).collect();
        let cell_bytes = cell_bytes(format, tile);
        let bytes = volume("the size of a shard", counts.iter().copied().chain([cell_bytes]))?;
        let shards = volume("the number of shards", grid.iter().copied())?;
        let total = volume("the size of all shards", [shards, bytes])?;
        let mut step = cell_bytes;
        let mut inner: Vec<Vec<Level>> = Vec::new();
        for &n in counts.iter().rev() {
            inner.push(vec![Level::bytes(n, step as i64)]);
            // Steps of an empty shard are of no use.
            step = step.saturating_mul(n);
        }
        inner.reverse();
        if let (Some(tile), [.., rows, cols]) = (tile, inner.as_mut_slice()) {
            let [row, col] = levels(tile, format);
            rows.extend(row);
            cols.extend(col);
        }
        let space = Space::in_order(shards, total);
        Ok(Sharding {
            format,
            tile,
            grid,
            shard,
            padded,
            inner,
            bytes,
            unit_bytes: bytes,
            offset: 0,
            space,
            dealt: false,
        })
    }

    /// The same with other strides inside of a shard: `strides` has the bytes from one element, or one tile, to the
    /// next along each dimension, the first one lies at byte `offset`, and a shard has `bytes` bytes, into which all of
    /// them must fit.
    ///
    /// # Errors
    /// [`Error::Value`] where the last element lies behind the shard; overflows.
    pub(crate) fn strided(mut self, strides: &[u64], bytes: u64, offset: u64) -> Result<Self> {
        let mut end = cell_bytes(self.format, self.tile).saturating_add(offset);
        for (levels, &stride) in self.inner.iter_mut().zip(strides) {
            let last = volume("the strides of a shard", [levels[0].n.saturating_sub(1), stride])?;
            end = end.saturating_add(last);
            levels[0].step = [0, if levels[0].n == 1 { 0 } else { stride as i64 }, 0];
        }
        if end > bytes && !self.shard.contains(&0) {
            let given = format!("{}, with which a shard ends at byte {end}", join(strides));
            return Err(Error::value("strides", given, format!("a shard of at most {bytes} bytes")));
        }
        let total = volume("the size of all shards", [self.shards(), bytes])?;
        self.space = Space::in_order(self.shards(), total);
        (self.bytes, self.unit_bytes, self.offset) = (bytes, bytes, offset as i64);
        Ok(self)
    }

    /// Units of a shard.
    fn pages(&self) -> u64 {
        (self.bytes / self.unit_bytes.max(1)).max(1)
    }

    /// Deals pages to `banks` buffers in turn, instead of whole shards: a page is a tile, or a row of a shard. Page
    /// `p`, counted through one shard after the other, is the `p / banks`-th of bank `p % banks`; pages begin at
    /// multiples of `alignment` bytes.
    ///
    /// # Errors
    /// Where sizes overflow.
    pub(crate) fn interleave(&mut self, banks: u64, alignment: u64) -> Result<()> {
        let page = match (self.tile, self.padded.last()) {
            (None, Some(&row)) => volume("the size of a page", [row, cell_bytes(self.format, self.tile)])?,
            _ => cell_bytes(self.format, self.tile),
        };
        if self.bytes == 0 {
            return Ok(());
        }
        self.unit_bytes = page;
        let pitch = page.checked_next_multiple_of(alignment);
        self.deal(Buffers::InTurn(banks), pitch.ok_or_else(|| Error::overflow("the aligned size of a page"))?)
    }

    /// Shards along all dimensions together.
    pub(crate) fn shards(&self) -> u64 {
        self.grid.iter().product()
    }

    /// Bytes of one shard.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Deals the shards (or their pages), counted row-major, to buffers in turn: shard `s` is the `s / n`-th of buffer
    /// `buffers[s % n]`, where `buffers` is a permutation of `0..n`. All buffers have room for as many shards
    /// as the fullest, `pitch` bytes apart.
    ///
    /// # Errors
    /// Where sizes overflow.
    pub(crate) fn deal(&mut self, buffers: Buffers, pitch: u64) -> Result<()> {
        let n = buffers.len();
        let room = volume("the number of units", [self.shards(), self.pages()])?.div_ceil(n);
        let units = volume("the number of shards", [n, room])?;
        volume("the size of all buffers", [units, pitch])?;
        let numbers = match buffers {
            Buffers::InTurn(_) => None,
            Buffers::At(at) => Some(at),
        };
        let deal = RoundRobin::new(n, room, numbers);
        // In order and without gaps, addresses are linear through all buffers.
        self.dealt = deal.is_some() || pitch != self.unit_bytes;
        self.space = if self.dealt {
            Space { units, unit_bytes: self.unit_bytes, pitch_bytes: pitch, deal, buffers: n }
        } else {
            Space::in_order(n, units * pitch)
        };
        Ok(())
    }

    /// Gives each buffer `each` shards that follow one another: shard `s`, counted row-major, is the `s % each`-th of
    /// buffer `buffers[s / each]`. Together they have room for exactly all shards.
    ///
    /// # Errors
    /// Where sizes overflow, and where too many shards lie out of order.
    pub(crate) fn deal_contiguous(&mut self, buffers: Buffers, each: u64) -> Result<()> {
        let n = buffers.len();
        let units = volume("the number of shards", [n, each])?;
        let total = volume("the size of all buffers", [units, self.bytes])?;
        self.space = Space::in_order(n, total);
        if let Buffers::At(at) = buffers {
            check_dealt(units)?;
            let numbers =
                at.iter().flat_map(|&b| (0..each).map(move |k| b * each as u32 + k as u32)).collect();
            let deal = RoundRobin::new(units, 1, Some(numbers));
            self.dealt = deal.is_some();
            if self.dealt {
                self.space =
                    Space { units, unit_bytes: self.bytes, pitch_bytes: self.bytes, deal, buffers: n };
            }
        }
        Ok(())
    }

    /// The digits of the cells of dimension `r`: the shard, then the place inside of it.
    pub(crate) fn cells(&self, r: usize) -> Vec<Level> {
        let stride = self.grid[r + 1..].iter().fold(1, |n: u64, g| n.saturating_mul(*g));
        if !self.dealt {
            let step = [0, stride.saturating_mul(self.bytes) as i64, 0];
            return [&[Level { n: self.grid[r], step }], self.inner[r].as_slice()].concat();
        }
        let pages = self.pages();
        let mut cells = vec![Level { n: self.grid[r], step: [stride.saturating_mul(pages) as i64, 0, 0] }];
        cells.extend(&self.inner[r]);
        let unit = self.unit_bytes as i64;
        // Where pages are dealt, what steps from page to page inside of a shard steps through units.
        for level in cells[1..].iter_mut().filter(|l| pages > 1 && l.n > 1 && l.step[1] >= unit) {
            level.step = [level.step[1] / unit, 0, level.step[2]];
        }
        cells
    }

    /// The cell at coordinate `x` of dimension `r`.
    pub(crate) fn cell(&self, r: usize, x: u64) -> u64 {
        x / self.shard[r] * self.padded[r] + x % self.shard[r]
    }

    /// Whether the cells of dimension `r` are its coordinates: shards end where tiles do.
    pub(crate) fn is_whole(&self, r: usize) -> bool {
        self.shard[r] == self.padded[r] || self.grid[r] == 1
    }

    /// The axis of `dims` along dimension `r`, where `x` gives coordinates from `first` on.
    pub(crate) fn axis(&self, dims: Vec<usize>, first: i64, x: Piecewise<1>, r: usize) -> Result<Axis> {
        if self.is_whole(r) {
            return Axis::new(dims, first, x, self.cells(r));
        }
        let cut = Piecewise::nest(&[(self.grid[r], [self.padded[r] as i64]), (self.shard[r], [1])]);
        let ([first], places) = compose(&x, first, &cut)?;
        Axis::new(dims, first, places, self.cells(r))
    }

    /// The shape of all shards together, in elements.
    ///
    /// # Errors
    /// Where it overflows.
    pub(crate) fn shape(&self) -> Result<Vec<u64>> {
        self.grid.iter().zip(&self.padded).map(|(&g, &n)| volume("the physical shape", [g, n])).collect()
    }

    /// What a person wants to know.
    pub(crate) fn geometry(&self, physical_shape: Vec<u64>) -> Geometry {
        Geometry {
            physical_shape,
            grid: self.grid.clone(),
            shard_shape: self.padded.clone(),
            tile: self.tile,
            ..Geometry::default()
        }
    }

    /// The layout of a tensor of this shape.
    pub(crate) fn layout(
        self,
        shape: &[u64],
        axes: Vec<Axis>,
        fill: f64,
        geometry: Geometry,
    ) -> Result<Layout> {
        Layout::new(Parts {
            shape: shape.to_vec(),
            format: self.format,
            tile: self.tile.filter(|_| matches!(self.format, Format::Block(_))),
            axes,
            replicas: vec![],
            offset: self.offset,
            space: self.space,
            fill,
            geometry,
        })
    }
}

/// Bytes of an element, or of a tile.
fn cell_bytes(format: Format, tile: Option<Tile>) -> u64 {
    match (format, tile) {
        (Format::Block(block), Some(tile)) => tile_bytes(block, tile),
        (_, Some(tile)) => tile.elements() * element_bytes(format),
        (_, None) => element_bytes(format),
    }
}

/// An error where a table of so many cores would be too large; those below fit 32 bits.
pub(crate) fn check_dealt(cores: u64) -> Result<()> {
    if cores > MAX_DEALT {
        let what = "the order of the cores".into();
        return Err(Error::TooComplex { what, cap: MAX_DEALT as usize });
    }
    Ok(())
}

/// The buffers that shards are dealt to.
#[derive(Debug)]
pub(crate) enum Buffers {
    /// So many, in their own order.
    InTurn(u64),
    /// In this order.
    At(Vec<u32>),
}

impl Buffers {
    fn len(&self) -> u64 {
        match self {
            Buffers::InTurn(n) => *n,
            Buffers::At(at) => at.len() as u64,
        }
    }
}
