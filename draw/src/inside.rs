//! What lies where inside of a cell that is larger than an element.

use tilewright::{Layout, Result};

use super::owners::Owners;
use super::panel::{Lines, Panel, index};

/// The most elements of a cell that are shown one by one.
const MAX_ELEMENTS: u64 = 1 << 12;

/// How many cells are compared with what the layout says.
const COMPARED: usize = 64;

/// Where the elements of a cell lie behind its beginning. A row and a column add up; all cells are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    /// For each row of a cell, how many [`Inside::code_bits`] further than its first row it lies.
    pub rows: Vec<u64>,
    /// The same for each column.
    pub cols: Vec<u64>,
    /// Bits of exponents or scales in front of the codes.
    pub header_bits: u64,
    /// Bits of one code of a block format; 1 of plain elements, whose distances are in bits.
    pub code_bits: u64,
    /// How many codes, one after another, share the next byte of the header; 0 of plain elements.
    pub group: u64,
}

/// The cells of a picture.
pub(crate) struct Cells<'a> {
    /// What a cell is.
    pub(crate) unit: &'static str,
    pub(crate) panel: &'a Panel,
    pub(crate) owners: &'a Owners,
    /// The first bit of each in its first copy; none of padding.
    pub(crate) begins: &'a [Option<u64>],
}

impl Inside {
    /// The inside of the cells of a picture; none where its cells are elements or have too many, where they begin at
    /// different rows or columns of padding, and where some are not like others.
    ///
    /// # Errors
    /// As [`Layout::locate`].
    pub(crate) fn of(layout: &Layout, lines: &[Lines; 2], cells: &Cells<'_>) -> Result<Option<Inside>> {
        let [rows, cols] = cells.panel.cell;
        let parts = ["tile", "stick", "block"].contains(&cells.unit) && rows * cols <= MAX_ELEMENTS;
        if !parts || !lines[0].fill_groups(rows) || !lines[1].fill_groups(cols) {
            return Ok(None);
        }
        let codec = &cells.owners.codec;
        let mut inside = Inside {
            rows: vec![],
            cols: vec![],
            header_bits: codec.map_or(0, |codec| 8 * codec.header_bytes() as u64),
            code_bits: codec.map_or(1, |codec| codec.code_bits() as u64),
            group: codec.map_or(0, |codec| codec.format().group() as u64),
        };
        // A cell with the most rows and columns.
        let longest = |lines: &[Option<std::ops::Range<u64>>]| {
            let held = (0..lines.len()).rev().filter(|&n| lines[n].is_some());
            held.max_by_key(|&n| lines[n].as_ref().map_or(0, |l| l.end - l.start))
        };
        let (Some(row), Some(col)) = (longest(&cells.panel.rows), longest(&cells.panel.cols)) else {
            return Ok(None);
        };
        let (Some(down), Some(right)) = (&cells.panel.rows[row], &cells.panel.cols[col]) else {
            return Ok(None);
        };
        let begin = cells.begins[row * cells.panel.cols.len() + col];
        let Some(begin) = begin.map(|bit| bit + inside.header_bits) else { return Ok(None) };
        let far = |row, col| -> Result<u64> {
            let (bit, _) = element(layout, row, col)?;
            Ok(bit.wrapping_sub(begin) / inside.code_bits)
        };
        let rows = down.clone().map(|row| far(row, right.start)).collect::<Result<Vec<u64>>>()?;
        let cols = right.clone().map(|col| far(down.start, col)).collect::<Result<Vec<u64>>>()?;
        (inside.rows, inside.cols) = (rows, cols);
        Ok(if inside.is_that_of_all(layout, cells)? { Some(inside) } else { None })
    }

    /// The first bit of an element, and the byte that it shares, in the cell that begins at a bit.
    pub fn place(&self, begin: u64, row: usize, col: usize) -> (u64, Option<u64>) {
        let slot = self.rows[row].wrapping_add(self.cols[col]);
        let bit = begin.wrapping_add(self.header_bits).wrapping_add(slot.wrapping_mul(self.code_bits));
        (bit, (self.group > 0).then(|| (begin / 8).wrapping_add(slot / self.group.max(1))))
    }

    /// Whether corners and middles of cells all over the tensor lie where the layout has them.
    fn is_that_of_all(&self, layout: &Layout, cells: &Cells<'_>) -> Result<bool> {
        let width = cells.panel.cols.len();
        let count = cells.panel.rows.len() * width;
        for cell in (0..count).step_by((count / COMPARED).max(1)) {
            let (Some(rows), Some(cols)) = (&cells.panel.rows[cell / width], &cells.panel.cols[cell % width])
            else {
                continue;
            };
            let Some(begin) = cells.begins[cell] else { return Ok(false) };
            let (tall, wide) = ((rows.end - rows.start) as usize, (cols.end - cols.start) as usize);
            for (r, c) in [(0, 0), (0, wide - 1), (tall - 1, 0), (tall / 2, wide / 2), (tall - 1, wide - 1)] {
                let there = element(layout, rows.start + r as u64, cols.start + c as u64)?;
                if self.place(begin, r, c) != there {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// The first bit of an element in its first copy, and the byte that it shares, counted through all buffers.
fn element(layout: &Layout, row: u64, col: u64) -> Result<(u64, Option<u64>)> {
    let place = layout.locate_each(&index(row, col, layout.shape()))?.next();
    Ok(place.map_or((0, None), |place| {
        let buffer = place.buffer * layout.buffer_bytes();
        (8 * (buffer + place.byte) + u64::from(place.bit), place.shared.map(|byte| buffer + byte))
    }))
}
