//! Buffers of tt-mlir: `memref`s in a memory of the device, or of the host as a device sees it.
//!
//! A memref whose layout is distributed has the grid in the first half of its dimensions and the shard of one core in
//! the second. Its logical tensor is grid times shard, element by element.

use super::cut::{Cut, Home, Strides, banks, grid_times, home, in_elements};
use super::memory::{BufferType, Fill, MemoryLayout, MemorySpace};
use super::tile::Element;
use crate::error::{Error, Result};
use crate::family::{
    Family, Placement, Tensor, check_count, check_positive, check_shape, check_sizes, entries, join, volume,
};
use crate::layout::Layout;
use crate::layout::affine::AffineMap;

/// Where a buffer lives, as its dialect says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BufferMemory {
    /// `#ttcore.memory_space<l1>`.
    Space(MemorySpace),
    /// `#ttnn.buffer_type<l1>`.
    Type(BufferType),
}

/// How the elements (or tiles) of a buffer lie in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Arrangement {
    /// Row-major in one piece.
    RowMajor,
    /// `strided<[4, 1], offset: ?>`: with these strides in elements or tiles. An offset that is not known counts as 0.
    Strided {
        /// One for each dimension.
        strides: Vec<u64>,
        /// Where the first one lies; none where the text has `?`.
        offset: Option<u64>,
    },
    /// `#ttcore.shard<8192x4096, 1>`: a shard for each core of a grid.
    Shard {
        /// Strides inside of a shard in bytes.
        strides: Vec<u64>,
        /// How many times a core has room for its shard, the first of which holds it; 1 where the text says nothing.
        buffers: Option<u64>,
    },
    /// `#ttcore.cb_layout<8192x4096, 2>`: the circular buffer of one core.
    Circular {
        /// Strides in bytes.
        strides: Vec<u64>,
        /// How many times the core has room for it, the first of which holds it.
        buffers: u64,
    },
    /// `#ttcore.interleaved<8192x4096>`: pages that go to banks in turn.
    Interleaved {
        /// Strides inside of a shard in bytes.
        strides: Vec<u64>,
    },
    /// `#ttcore.host_layout<logical_shape = 30x30, host_strides = 32x1, host_volume = 1024>`: a host array with room
    /// for the padding of the device.
    Host {
        /// Shape without padding.
        logical_shape: Vec<u64>,
        /// Strides in elements.
        strides: Vec<u64>,
        /// Elements of the buffer, padding included.
        volume: u64,
        /// The name of the mesh that it lives on.
        mesh: Option<String>,
    },
    /// `#ttcore.view<4>` alone: a grid of row-major shards.
    Viewed,
}

/// `memref<1x1x2x2x!ttcore.tile<32x32, f32>, #ttcore.shard<8192x4096, 1>, #ttcore.memory_space<l1>>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Buffer {
    /// Shape of the memref in units of `element`.
    pub shape: Vec<u64>,
    /// What it consists of.
    pub element: Element,
    /// How that lies in the buffer.
    pub arrangement: Arrangement,
    /// From the index in grid and shard to the one in memory, where the buffer is a view of another.
    pub view: Option<AffineMap>,
    /// Where it lives, if the text says it.
    pub memory: Option<BufferMemory>,
}

impl Buffer {
    /// A row-major buffer.
    ///
    /// ```
    /// use tilewright::family::{Family, Placement};
    /// use tilewright::family::tenstorrent::buffer::{Arrangement, Buffer};
    /// use tilewright::family::tenstorrent::tile::{Element, TileShape};
    /// use tilewright::{DType, Error, Format};
    ///
    /// let tiles = Element::Tile { shape: TileShape::T32X32, format: Format::Plain(DType::F32) };
    /// let mut buffer = Buffer::new(vec![2, 4, 1, 2], tiles);
    /// buffer.arrangement = Arrangement::Shard { strides: vec![8192, 4096], buffers: Some(1) };
    /// let tensor = buffer.tensor().ok_or(Error::overflow("the shape"))?;
    /// assert_eq!(tensor.shape, [64, 256]);
    /// assert_eq!(buffer.to_layout(&tensor, &Placement::default())?.buffers(), 8);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new(shape: Vec<u64>, element: Element) -> Buffer {
        Buffer { shape, element, arrangement: Arrangement::RowMajor, view: None, memory: None }
    }

    /// Grid and shard, as many dimensions each.
    fn halves(&self) -> (Vec<u64>, Vec<u64>) {
        match &self.arrangement {
            Arrangement::Shard { .. } | Arrangement::Interleaved { .. } | Arrangement::Viewed => {
                let (grid, shard) = self.shape.split_at(self.shape.len() / 2);
                (grid.to_vec(), shard.to_vec())
            }
            _ => {
                // Tiles have two dimensions; a row of them is a matrix of one row.
                let least = if self.element.tile().is_some() { 2 } else { 0 };
                let missing = least.max(self.shape.len()) - self.shape.len();
                let shard = [vec![1; missing], self.shape.clone()].concat();
                (vec![1; shard.len()], shard)
            }
        }
    }

    /// The logical shape.
    fn logical_shape(&self) -> Result<Vec<u64>> {
        let (grid, shard) = self.halves();
        grid_times(&grid, &in_elements(&shard, self.element)?)
    }

    /// Strides and size of a shard in bytes, where the text says them; a host layout counts in elements.
    fn strides(&self, shard: &[u64]) -> Result<Option<Strides>> {
        let unit = self.element.stored_bytes();
        let scaled = |strides: &[u64], by: u64| -> Result<Vec<u64>> {
            let missing = shard.len().max(strides.len()) - strides.len();
            let scaled =
                strides.iter().map(|&s| volume("the strides", [s, by])).collect::<Result<Vec<_>>>()?;
            Ok([vec![0; missing], scaled].concat())
        };
        let end = |strides: &[u64]| -> Result<u64> {
            let last = |(&n, &s): (&u64, &u64)| volume("the strides", [n.saturating_sub(1), s]);
            let reach: Vec<u64> = shard.iter().zip(strides).map(last).collect::<Result<_>>()?;
            let end = reach.iter().fold(unit, |end: u64, &n| end.saturating_add(n));
            volume("the size of a shard", [if shard.contains(&0) { 0 } else { end }])
        };
        let room = |strides: &[u64], buffers: u64| -> Result<u64> {
            let dense = volume("the size of a shard", shard.iter().copied().chain([unit]))?;
            volume("the buffers of a core", [end(strides)?.max(dense), buffers])
        };
        let (strides, bytes, offset) = match &self.arrangement {
            Arrangement::RowMajor | Arrangement::Viewed | Arrangement::Interleaved { .. } => return Ok(None),
            Arrangement::Strided { strides, offset } => {
                let strides = scaled(strides, unit)?;
                let offset = volume("the offset", [offset.unwrap_or(0), unit])?;
                let bytes = end(&strides)?.saturating_add(offset);
                (strides, bytes, offset)
            }
            Arrangement::Shard { strides, buffers } => {
                let strides = scaled(strides, 1)?;
                let bytes = room(&strides, buffers.unwrap_or(1))?;
                (strides, bytes, 0)
            }
            Arrangement::Circular { strides, buffers } => {
                let strides = scaled(strides, 1)?;
                let bytes = room(&strides, *buffers)?;
                (strides, bytes, 0)
            }
            Arrangement::Host { strides, volume: elements, .. } => {
                (scaled(strides, unit)?, volume("the host volume", [*elements, unit])?, 0)
            }
        };
        Ok(Some(Strides { steps: strides, bytes, offset }))
    }

    /// Whether grid and shard are the halves of the shape.
    fn is_distributed(&self) -> bool {
        matches!(
            self.arrangement,
            Arrangement::Shard { .. } | Arrangement::Interleaved { .. } | Arrangement::Viewed
        )
    }

    fn space(&self) -> MemorySpace {
        match self.memory {
            Some(BufferMemory::Space(space)) => space,
            Some(BufferMemory::Type(of)) => of.space(),
            None => MemorySpace::L1,
        }
    }

    /// One stride for each dimension that is inside of a buffer.
    fn check_strides(&self, strides: &[u64]) -> Result<()> {
        let (rank, rule) = match self.is_distributed() {
            true => (self.shape.len() / 2, "one for each dimension of a shard"),
            false => (self.shape.len(), "one for each dimension"),
        };
        check_count("strides", strides.len(), rank, rule)?;
        check_sizes("strides", strides)
    }
}

impl Family for Buffer {
    /// Checks ranks and sizes.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part; [`Error::Derived`] where the shape of a host layout is another than that
    /// of the memref.
    fn validate(&self) -> Result<()> {
        check_sizes("memref", &self.shape)?;
        if self.is_distributed() {
            if !self.shape.len().is_multiple_of(2) || self.shape.is_empty() {
                let needed = "an even number, the grid and then the shard";
                return Err(Error::value("memref", entries(self.shape.len()), needed));
            }
            let (grid, shard) = self.halves();
            check_positive("grid", &grid)?;
            if self.element.tile().is_some() && shard.len() < 2 {
                return Err(Error::value(
                    "memref",
                    join(&self.shape),
                    "two dimensions of a shard, for tiles",
                ));
            }
        }
        let is_host = matches!(self.arrangement, Arrangement::RowMajor | Arrangement::Strided { .. });
        if is_host && self.element.tile().is_none() && self.memory.is_none() {
            let needed = "one, since elements in no memory of a device are a host array";
            return Err(Error::value("memory", "none", needed));
        }
        if let Some(view) = &self.view
            && self.is_distributed()
        {
            check_count("view", view.dims(), self.shape.len(), "one for each dimension of the memref")?;
        }
        match &self.arrangement {
            Arrangement::RowMajor | Arrangement::Viewed => Ok(()),
            Arrangement::Strided { strides, .. } | Arrangement::Interleaved { strides } => {
                self.check_strides(strides)
            }
            Arrangement::Shard { strides, buffers } => {
                check_positive("buffers", &[buffers.unwrap_or(1)])?;
                self.check_strides(strides)
            }
            Arrangement::Circular { strides, buffers } => {
                check_positive("buffers", &[*buffers])?;
                self.check_strides(strides)
            }
            Arrangement::Host { logical_shape, strides, .. } => {
                if self.element.tile().is_some() {
                    return Err(Error::value(
                        "memref",
                        "tiles",
                        "elements, as host_layout has strides of elements",
                    ));
                }
                if *logical_shape != self.shape {
                    return Err(Error::Derived {
                        what: "memref shape",
                        given: join(&self.shape),
                        derived: join(logical_shape),
                        rule: "logical_shape".into(),
                    });
                }
                self.check_strides(strides)
            }
        }
    }

    /// The layout of the logical tensor.
    ///
    /// A grid has a buffer for each core, row-major, or as `placement.device` places them; interleaved pages go to the
    /// banks of the device, if they are in DRAM and the device says how many there are, else to one buffer. An offset
    /// that the text leaves open is 0. Where cores have room for several buffers, the first one holds the shard.
    ///
    /// # Errors
    /// [`Error::Value`] where the tensor has another shape, strides are too large for the buffer, or the device's grid
    /// is too small; overflows.
    fn to_layout(&self, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout> {
        self.validate()?;
        let own = self.logical_shape()?;
        check_shape("the logical shape of the memref", &own, tensor)?;
        let (grid, shard) = self.halves();
        let strides = self.strides(&shard)?;
        let map = AffineMap::identity(own.len());
        let mut cut = Cut::new(map, own, &grid, in_elements(&shard, self.element)?, self.element);
        match &self.view {
            Some(view) if self.is_distributed() => cut = cut.behind("view", view)?,
            _ => {}
        }
        if cut.grid == grid {
            cut.strides = strides;
        }
        cut.home = match &self.arrangement {
            Arrangement::Interleaved { .. } => banks(self.space(), placement.device),
            _ if !self.is_distributed() => Home::Shards,
            _ => home(MemoryLayout::Sharded, self.space(), &cut.grid, placement.device)?,
        };
        cut.layout(tensor, placement, Fill::Undef)
    }

    fn tensor(&self) -> Option<Tensor> {
        Some(Tensor { shape: self.logical_shape().ok()?, dtype: self.element.dtype()? })
    }

    fn has_grid(&self) -> bool {
        self.is_distributed()
    }
}
