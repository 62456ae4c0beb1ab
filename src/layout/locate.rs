//! Where an element lies, and what lies at a byte.

use kernels::{BlockCodec, BlockOptions};

use super::Layout;
use super::axis::{Addr, Axis};
use super::index::unravel;
use super::inverse::Inverse;
use crate::dtype::Format;
use crate::error::{Error, Result};

/// Where one element lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// The buffer.
    pub buffer: u64,
    /// The byte inside of the buffer at which the element, or its code, begins.
    pub byte: u64,
    /// The lowest bit of the code in that byte; 0 unless a byte holds several codes.
    pub bit: u32,
    /// The byte inside of the buffer that holds the exponent or scale it shares.
    pub shared: Option<u64>,
}

/// What lies at a byte.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The elements, by logical index, that have bits in this byte.
    Elements(Vec<Vec<u64>>),
    /// The exponent or scale of these elements.
    Shared(Vec<Vec<u64>>),
    /// The fill.
    Padding,
    /// Zero: bytes of a block's header that no group uses, or between units.
    Gap,
}

/// One digit of an address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Digit {
    /// The axis that it belongs to; none for replicas.
    pub(crate) axis: Option<usize>,
    /// How many values it has.
    pub(crate) n: u64,
    /// How far each value lies from the one before.
    pub(crate) step: Addr,
    /// How many cells of the axis each value is.
    pub(crate) weight: u64,
}

impl Layout {
    /// The places of a logical index, one in each replica.
    ///
    /// # Errors
    /// Where the index has another rank than the layout, or lies outside of its shape.
    pub fn locate(&self, index: &[u64]) -> Result<Vec<Place>> {
        self.locate_each(index).map(Iterator::collect)
    }

    /// [`Layout::locate`], one replica after the other, of which a mesh may have many.
    pub fn locate_each(&self, index: &[u64]) -> Result<impl Iterator<Item = Place>> {
        if index.len() != self.shape.len() || index.iter().zip(&self.shape).any(|(i, n)| i >= n) {
            let needed = format!("an index inside of shape {:?}", self.shape);
            return Err(Error::value("index", format!("{index:?}"), needed));
        }
        let first = self.address(index);
        Ok(self.replica_steps().map(move |by| self.place(std::array::from_fn(|k| first[k] + by[k]))))
    }

    fn place(&self, at: Addr) -> Place {
        let byte = self.byte(at);
        let (buffer, byte) = (byte / self.buffer_bytes(), byte % self.buffer_bytes());
        let Some(codec) = self.block_codec() else { return Place { buffer, byte, bit: 0, shared: None } };
        let cols = codec.tile().cols();
        let slot = codec.slot(at[2] as usize / cols, at[2] as usize % cols);
        let bit = slot * codec.code_bits();
        Place {
            buffer,
            byte: byte + (codec.header_bytes() + bit / 8) as u64,
            bit: (bit % 8) as u32,
            shared: Some(byte + (slot / codec.format().group()) as u64),
        }
    }

    /// What lies at a byte of a buffer.
    ///
    /// # Errors
    /// Where there is no such byte, or elements of the layout share places, as they may in a source.
    pub fn owner(&self, buffer: u64, byte: u64) -> Result<Owner> {
        if buffer >= self.buffers() || byte >= self.buffer_bytes() {
            let needed = format!("one of {} buffers of {} bytes", self.buffers(), self.buffer_bytes());
            return Err(Error::value("place", format!("buffer {buffer}, byte {byte}"), needed));
        }
        self.check_destination()?;
        let at = buffer * self.buffer_bytes() + byte;
        let (place, inside) = (at / self.space.pitch_bytes, at % self.space.pitch_bytes);
        if inside >= self.space.unit_bytes {
            return Ok(Owner::Gap);
        }
        let unit = self.space.unit_of(place);
        let linear = (unit * self.space.unit_bytes + inside) as i64 - self.offset;
        if self.elements() == 0 || linear < 0 {
            return Ok(Owner::Padding);
        }
        let (cells, rest) = self.cells_at(linear);
        if rest >= self.block_bytes() as i64 {
            return Ok(Owner::Padding);
        }
        let inverses: Vec<Inverse> = self.axes.iter().map(Axis::inverse).collect();
        let index = |cells: &[i64]| self.index(cells, &inverses);
        let Some(codec) = self.block_codec() else {
            return Ok(index(&cells).map_or(Owner::Padding, |index| Owner::Elements(vec![index])));
        };
        let Some((slots, shared)) = slots(&codec, rest as usize) else { return Ok(Owner::Gap) };
        let owners: Vec<Vec<u64>> =
            slots.into_iter().filter_map(|slot| index(&self.inside(&cells, slot as i64))).collect();
        Ok(match (owners.is_empty(), shared) {
            (true, _) => Owner::Padding,
            (false, true) => Owner::Shared(owners),
            (false, false) => Owner::Elements(owners),
        })
    }

    /// The cell of each axis that has a byte, counted from the first cell of all axes on, and how far the byte lies inside
    /// of that element or tile, or behind it.
    fn cells_at(&self, linear: i64) -> (Vec<i64>, i64) {
        // The digits, greatest step first; what is left is inside of an element or tile, or a hole.
        let mut levels: Vec<_> = self.digits().filter(|d| d.step[2] == 0 && d.n > 1).collect();
        levels.sort_by_key(|d| std::cmp::Reverse(self.linear(d.step)));
        let mut cells = vec![0; self.axes.len()];
        let mut rest = linear;
        for digit in levels {
            let step = self.linear(digit.step);
            let value = (rest / step).min(digit.n as i64 - 1);
            rest -= value * step;
            if let Some(axis) = digit.axis {
                cells[axis] += value * digit.weight as i64;
            }
        }
        (cells, rest)
    }

    /// Every digit of every axis, and the replicas.
    pub(crate) fn digits(&self) -> impl Iterator<Item = Digit> {
        let axes = self.axes.iter().enumerate().flat_map(|(i, axis)| {
            let mut weight = axis.extent();
            axis.cells.iter().map(move |level| {
                weight /= level.n;
                Digit { axis: Some(i), n: level.n, step: level.step, weight }
            })
        });
        axes.chain(self.replicas.iter().map(|r| Digit { axis: None, n: r.n, step: r.step, weight: 0 }))
    }

    /// The cells of the element at a slot (row-major) of the tile at `cells`.
    pub(crate) fn inside(&self, cells: &[i64], mut slot: i64) -> Vec<i64> {
        let mut cells = cells.to_vec();
        let mut levels: Vec<_> = self.digits().filter(|d| d.step[2] > 0).collect();
        levels.sort_by_key(|d| std::cmp::Reverse(d.step[2]));
        for Digit { axis, step, weight, .. } in levels {
            if let Some(axis) = axis {
                cells[axis] += slot / step[2] * weight as i64;
            }
            slot %= step[2];
        }
        cells
    }

    /// The logical index on these cells, one for each axis; none where one of them is padding.
    fn index(&self, cells: &[i64], inverses: &[Inverse]) -> Option<Vec<u64>> {
        let mut index = vec![0; self.shape.len()];
        for ((axis, inverse), &cell) in self.axes.iter().zip(inverses).zip(cells) {
            let u = inverse.coordinate(cell - axis.first)?;
            unravel(u, &axis.dims, &self.shape, &mut index);
        }
        Some(index)
    }

    fn block_codec(&self) -> Option<BlockCodec> {
        let (Format::Block(block), Some(tile)) = (self.format, self.tile) else { return None };
        tile.codec(block, BlockOptions::default()).ok()
    }
}

/// The slots, row by row, of the elements that have bits in a byte of a block, and whether the byte is an exponent or
/// scale that they share; none where no element uses it.
fn slots(codec: &BlockCodec, byte: usize) -> Option<(Vec<usize>, bool)> {
    let (bits, group) = (codec.code_bits(), codec.format().group());
    let (stored, shared) = match byte.checked_sub(codec.header_bytes()) {
        Some(code) => (code * 8 / bits..((code + 1) * 8).div_ceil(bits), false),
        None => (byte * group..(byte + 1) * group, true),
    };
    if stored.start >= codec.tile().elements() {
        return None;
    }
    let (rows, cols) = (codec.tile().rows(), codec.tile().cols());
    let slots = (0..rows * cols).filter(|p| stored.contains(&codec.slot(p / cols, p % cols)));
    Some((slots.collect(), shared))
}
