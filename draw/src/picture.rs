//! The one data model that every printer shows.

use tilewright::{Error, Format, Layout, Result};

use super::blocks::{Blocks, Choice, across};
use super::hardware::{Hardware, Term};
use super::inside::{Cells, Inside};
use super::memory::{Memory, Slot};
use super::owners::{LINE, Owners, element_bits};
use super::panel::{Lines, Panel, index};

/// No place: a cell of padding.
const NOWHERE: u64 = u64::MAX;

/// The most copies of an element that are drawn.
const MAX_COPIES: u64 = 64;

/// The most slots of the memory; of a layout with wide gaps nearly all are empty.
const MAX_SLOTS: u64 = 1 << 20;

/// The most buffers that are named one by one.
const MAX_NAMED: u64 = 1 << 12;

/// How much a picture may hold before it falls back to larger cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most elements that are drawn one by one, padding included.
    pub elements: u64,
    /// The most cells where elements are not.
    pub cells: u64,
}

impl Default for Limits {
    /// What a browser draws without a wait: 2^16 elements or larger cells.
    fn default() -> Limits {
        Limits { elements: 1 << 16, cells: 1 << 16 }
    }
}

/// Where a cell lies, counted through all buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The first bit.
    pub bit: u64,
    /// The byte of the exponent or scale, where cells are elements of a block format.
    pub shared: Option<u64>,
}

/// A layout as a picture: what stands in each cell of the logical panel, where it lies, and who owns that place.
#[derive(Debug, Clone)]
pub struct Picture {
    /// The text of the layout.
    pub title: String,
    /// The logical shape.
    pub shape: Vec<u64>,
    /// The shape that one device of a mesh gets; the logical shape without a mesh.
    pub part: Vec<u64>,
    /// What the bytes hold.
    pub format: String,
    /// What a cell is: "element", "tile", "stick", "block" or "shard".
    pub unit: &'static str,
    /// The logical panel.
    pub panel: Panel,
    /// Bits of a cell where it lies: of an element, or of all that lies together.
    pub cell_bits: u64,
    /// The physical panel.
    pub memory: Memory,
    /// Who owns which bits.
    pub owners: Owners,
    /// What the first buffers are; see [`Hardware::buffer`].
    pub buffers: Vec<Vec<Term>>,
    /// Spyre: the device size in elements.
    pub device_size: Option<Vec<u64>>,
    /// The value of padding.
    pub fill: f64,
    /// Places without an element, in elements, and in percent of all places.
    pub padding: (u64, f64),
    /// Where elements lie inside of a cell that is larger than one.
    pub inside: Option<Inside>,
    /// How many copies of the tensor there are; the first 64 are drawn.
    pub copies: u64,
    /// For each copy, the place of each cell.
    bits: Vec<Vec<u64>>,
    /// For each copy of a block format drawn by elements, the byte that each cell shares.
    shared: Vec<Vec<u64>>,
}

impl Picture {
    /// The picture of a layout.
    ///
    /// # Errors
    /// Where elements share places, as they may in a source; [`tilewright::Error::Value`] where the tensor has more than 2^20 rows
    /// or columns; [`Error::TooComplex`] where no cells are large enough, or
    /// their memory has more than 2^20 slots.
    pub fn new(hardware: &Hardware<'_>, limits: Limits) -> Result<Picture> {
        let layout = hardware.layout();
        layout.check_destination()?;
        let lines = Lines::of(layout)?;
        let owners = Owners::new(hardware);
        let all = lines[0].count.saturating_mul(lines[1].count).saturating_mul(layout.copies());
        let per_element = owners.codec.map_or(element_bits(layout.format()) / 8, |_| 1);
        let slots = layout.total_bytes() / per_element.max(1);
        let fits = all <= limits.elements && slots <= 4 * limits.elements;
        let choice = match fits {
            true => Choice { unit: "element", cell: [1, 1], inner: None },
            false => {
                let block_format = owners.codec.is_some();
                Blocks { layout, lines: &lines, block_format, cells: limits.cells }.choose()?
            }
        };
        let panel = Panel::new(&lines[0], &lines[1], choice.cell);
        let (padding, elements) =
            (layout.padding_elements(), layout.elements() as f64 * layout.copies() as f64);
        let mut picture = Picture {
            title: hardware.descriptor().to_string(),
            shape: layout.shape().to_vec(),
            part: hardware.part().to_vec(),
            format: layout.format().to_string(),
            unit: choice.unit,
            cell_bits: 0,
            memory: Memory { buffers: 0, buffer_bytes: 0, slot_bytes: 1, line_bytes: 1, slots: vec![] },
            owners,
            buffers: (0..layout.buffers().min(MAX_NAMED)).map(|b| hardware.buffer(b)).collect(),
            device_size: layout.geometry().device_size.clone(),
            fill: layout.fill(),
            padding: (padding, 100.0 * padding as f64 / (elements + padding as f64).max(1.0)),
            inside: None,
            copies: layout.copies(),
            panel,
            bits: vec![],
            shared: vec![],
        };
        picture.place(layout, &lines, choice.inner)?;
        let begins: Vec<Option<u64>> = picture.bits(0).collect();
        let Picture { unit, panel, owners, .. } = &picture;
        picture.inside = Inside::of(layout, &lines, &Cells { unit, panel, owners, begins: &begins })?;
        picture.fill_memory(layout)?;
        Ok(picture)
    }

    /// The logical index of the first element of a cell; none in padding.
    pub fn index(&self, cell: usize) -> Option<Vec<u64>> {
        let cols = self.panel.cols.len().max(1);
        let row = self.panel.rows.get(cell / cols)?.as_ref()?.start;
        let col = self.panel.cols[cell % cols].as_ref()?.start;
        Some(index(row, col, &self.shape))
    }

    /// The places of a cell, one in each copy that is drawn; none where it is padding.
    pub fn places(&self, cell: usize) -> Vec<Place> {
        let at = |copy: usize| {
            // A tensor without elements has no cells.
            let bit = *self.bits[copy].get(cell)?;
            let shared = self.shared.get(copy).map(|s| s[cell]).filter(|&s| s != NOWHERE);
            (bit != NOWHERE).then_some(Place { bit, shared })
        };
        (0..self.bits.len()).filter_map(at).collect()
    }

    /// The first bit of each cell of one copy, where it has a place.
    pub(crate) fn bits(&self, copy: usize) -> impl Iterator<Item = Option<u64>> {
        self.bits[copy].iter().map(|&bit| (bit != NOWHERE).then_some(bit))
    }

    /// The byte that each cell of one copy shares with others, where it does.
    pub(crate) fn shared(&self, copy: usize) -> impl Iterator<Item = Option<u64>> {
        let shared = self.shared.get(copy).into_iter().flatten();
        shared.map(|&byte| (byte != NOWHERE).then_some(byte))
    }

    /// How many copies are drawn.
    pub fn drawn_copies(&self) -> usize {
        self.bits.len()
    }

    /// Whether cells are single elements.
    pub fn is_exact(&self) -> bool {
        self.panel.cell == [1, 1]
    }

    /// Fills in the place of each cell.
    fn place(&mut self, layout: &Layout, lines: &[Lines; 2], inner: Option<usize>) -> Result<()> {
        let cells = self.panel.rows.len() * self.panel.cols.len();
        let copies = layout.copies().min(MAX_COPIES) as usize;
        let block = matches!(layout.format(), Format::Block(_)) && self.is_exact();
        self.bits = vec![vec![NOWHERE; cells]; copies];
        self.shared = if block { vec![vec![NOWHERE; cells]; copies] } else { vec![] };
        let [rows, cols] = self.panel.cell;
        let size = element_bits(layout.format());
        self.cell_bits = match (&self.owners.codec, self.is_exact()) {
            (Some(codec), true) => codec.code_bits() as u64,
            (Some(codec), false) => {
                let tile = codec.tile().elements() as u64;
                8 * codec.tile_bytes() as u64 * (rows * cols).div_ceil(tile)
            }
            (None, _) => rows * cols * size,
        };
        for cell in 0..cells {
            let Some(index) = self.index(cell) else { continue };
            for (copy, place) in layout.locate_each(&index)?.take(copies).enumerate() {
                let buffer = place.buffer * layout.buffer_bytes();
                let bit = (buffer + place.byte) * 8 + u64::from(place.bit);
                self.bits[copy][cell] = match (self.is_exact(), inner) {
                    (true, _) => bit,
                    (false, None) => self.begin(layout, bit),
                    (false, Some(inner)) => bit.saturating_sub(self.inside(cell, lines, inner == 1) * size),
                };
                if let (Some(shared), true) = (place.shared, block) {
                    self.shared[copy][cell] = buffer + shared;
                }
            }
        }
        Ok(())
    }

    /// How many elements of a cell that lies together are in front of its first one that is no padding.
    fn inside(&self, cell: usize, lines: &[Lines; 2], by_rows: bool) -> u64 {
        let cols = self.panel.cols.len();
        let first = |line: &Option<std::ops::Range<u64>>| line.as_ref().map_or(0, |l| l.start as usize);
        let row = lines[0].at[first(&self.panel.rows[cell / cols])] % self.panel.cell[0];
        let col = lines[1].at[first(&self.panel.cols[cell % cols])] % self.panel.cell[1];
        let [down, right] = across(self.panel.cell, by_rows);
        row * down as u64 + col * right as u64
    }

    /// Where the cell of a larger picture begins that holds a bit: inside of its page, or of its buffer, cells lie one
    /// after another.
    fn begin(&self, layout: &Layout, bit: u64) -> u64 {
        let around = 8 * layout.pages().map_or(layout.buffer_bytes(), |p| p.pitch).max(1);
        bit - bit % around % self.cell_bits.min(around)
    }

    /// Fills in what each slot of the memory holds.
    fn fill_memory(&mut self, layout: &Layout) -> Result<()> {
        let buffer_bytes = layout.buffer_bytes();
        let begins = self
            .bits
            .iter()
            .flatten()
            .filter(|&&bit| bit != NOWHERE)
            .map(|&bit| bit / 8 % buffer_bytes.max(1));
        let bytes = (self.cell_bits / 8).max(1);
        let slot_bytes = match layout.pages() {
            Some(pages) if !self.is_exact() => pages.pitch.min(bytes.max(pages.bytes)),
            _ => begins.fold(bytes, gcd),
        };
        let stick = layout.geometry().device_size.as_ref().and_then(|s| s.last());
        let stick = stick.map_or(LINE, |n| n * element_bits(layout.format()) / 8);
        let slots = buffer_bytes.div_ceil(slot_bytes.max(1));
        let across = [8, 16, 32][usize::from(slots > 128) + usize::from(slots > 1024)].min(slots);
        let line_bytes =
            if self.is_exact() { stick.next_multiple_of(slot_bytes) } else { across * slot_bytes };
        self.memory =
            Memory { buffers: layout.buffers(), buffer_bytes, slot_bytes, line_bytes, slots: vec![] };
        let memory = &self.memory;
        if layout.total_bytes() / slot_bytes.max(1) + layout.buffers() > MAX_SLOTS {
            let what = "a picture of this layout's memory".into();
            return Err(Error::TooComplex { what, cap: MAX_SLOTS as usize });
        }
        let mut slots = vec![Slot::Padding; memory.buffer_slots() * memory.buffers as usize];
        for (i, slot) in slots.iter_mut().enumerate() {
            if self.is_exact() && self.is_gap(layout, memory.byte_of(i)) {
                *slot = Slot::Gap;
            }
        }
        for copy in 0..self.bits.len() {
            for (cell, bit) in self.bits(copy).enumerate() {
                let Some(bit) = bit else { continue };
                let first = memory.slot_at(bit / 8);
                let last = memory.slot_at(bit / 8 + bytes - 1);
                for slot in slots.get_mut(first..=last).into_iter().flatten() {
                    if !matches!(slot, Slot::Cell(_)) {
                        *slot = Slot::Cell(cell as u32);
                    }
                }
            }
            for (cell, byte) in self.shared(copy).enumerate() {
                let slot = byte.map(|byte| memory.slot_at(byte));
                if let Some(slot @ (Slot::Padding | Slot::Gap)) = slot.and_then(|s| slots.get_mut(s)) {
                    *slot = Slot::Shared(cell as u32);
                }
            }
        }
        self.memory.slots = slots;
        Ok(())
    }

    /// Whether a byte is neither an element's nor filled: between pages, or in a header behind its last exponent.
    fn is_gap(&self, layout: &Layout, byte: u64) -> bool {
        let inside = match layout.pages() {
            Some(pages) if byte % pages.pitch >= pages.bytes => return true,
            Some(pages) => byte % pages.pitch,
            None => byte % layout.buffer_bytes().max(1),
        };
        self.owners.codec.is_some_and(|codec| {
            let at = inside as usize % codec.tile_bytes();
            at < codec.header_bytes() && at * codec.format().group() >= codec.tile().elements()
        })
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
