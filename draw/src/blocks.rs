//! What a cell is where single elements are too many: a tile, what lies together, or a shard.

use tilewright::{Error, Layout, Result};

use super::owners::element_bits;
use super::panel::{Lines, Panel, index};

/// What a cell is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    pub(crate) unit: &'static str,
    pub(crate) cell: [u64; 2],
    /// For cells that lie together without a tile: the direction in which neighbours lie next to each other.
    pub(crate) inner: Option<usize>,
}

/// The search for cells that lie together.
pub(crate) struct Blocks<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) lines: &'a [Lines; 2],
    /// Whether the layout has a block format, whose tiles are not cut.
    pub(crate) block_format: bool,
    /// The most cells.
    pub(crate) cells: u64,
}

impl Blocks<'_> {
    /// What a cell is, and its rows and columns: a tile, what lies together, or a shard.
    pub(crate) fn choose(&self) -> Result<Choice> {
        let geometry = self.layout.geometry();
        let tile = geometry.tile.map(|t| [t.rows, t.cols]).filter(|&t| self.divides(t));
        let shard = match geometry.shard_shape[..] {
            [rows, cols] if !geometry.grid.is_empty() => Some([rows, cols]).filter(|&s| self.divides(s)),
            _ => None,
        };
        if let Some(cell) = tile.filter(|&t| self.count(t) <= self.cells) {
            return Ok(Choice { unit: "tile", cell, inner: None });
        }
        if let Some(cell) = tile.and_then(|tile| self.tiles(tile)) {
            return Ok(Choice { unit: "block of tiles", cell, inner: None });
        }
        if let (None, Some(choice)) = (tile, self.together()?) {
            return Ok(choice);
        }
        if let Some(cell) = shard.filter(|&s| self.count(s) <= self.cells) {
            return Ok(Choice { unit: "shard", cell, inner: None });
        }
        let cap = self.cells as usize;
        Err(Error::TooComplex {
            what: "a picture of this layout, by its elements, tiles, runs or shards".into(),
            cap,
        })
    }

    /// The smallest blocks of tiles that lie together, few enough to be drawn: a part of a row of tiles, or whole rows.
    fn tiles(&self, [rows, cols]: [u64; 2]) -> Option<[u64; 2]> {
        // Of tiles that are dealt to banks one by one the shard is the tile.
        let &[tall, wide] = self.layout.geometry().shard_shape.as_slice() else { return None };
        let in_a_row = divisors(wide / cols).map(|n| [rows, cols * n]);
        let whole_rows = divisors(tall / rows).map(|n| [rows * n, wide]);
        let blocks =
            in_a_row.chain(whole_rows).filter(|&cell| self.divides(cell) && self.count(cell) <= self.cells);
        blocks.min_by_key(|&cell| cell[0] * cell[1])
    }

    fn divides(&self, cell: [u64; 2]) -> bool {
        (0..2).all(|k| cell[k] > 0 && self.lines[k].count.is_multiple_of(cell[k]))
    }

    fn count(&self, cell: [u64; 2]) -> u64 {
        (self.lines[0].count / cell[0]) * (self.lines[1].count / cell[1])
    }

    /// Boxes of elements that lie together: single sticks where there are sticks, else about [`Blocks::GOOD`] of them.
    ///
    /// Addresses along rows and columns add up, so that the first row and the first column say how a box lies; the
    /// ends of every box are then looked at too.
    fn together(&self) -> Result<Option<Choice>> {
        if self.block_format || self.lines.iter().any(|l| l.at.is_empty()) {
            return Ok(None);
        }
        let size = element_bits(self.layout.format()) as i64 / 8;
        let stick = self.layout.geometry().device_size.as_ref().and_then(|s| s.last().copied());
        let steps = [self.steps(0)?, self.steps(1)?];
        let mut found: Vec<(u64, Choice)> = Vec::new();
        for inner in [1, 0] {
            let outer = 1 - inner;
            for n in divisors(self.lines[inner].count).filter(|&n| n > 1 && steps[inner].within(n, size)) {
                for m in
                    divisors(self.lines[outer].count).take_while(|&m| steps[outer].within(m, n as i64 * size))
                {
                    let mut cell = [n, n];
                    cell[outer] = m;
                    let unit = if stick == Some(n) && m == 1 { "stick" } else { "block" };
                    let cells = self.count(cell);
                    if cells <= self.cells {
                        let far = if unit == "stick" { 0 } else { 1 + cells.abs_diff(Blocks::GOOD) };
                        found.push((far, Choice { unit, cell, inner: Some(inner) }));
                    }
                }
            }
        }
        found.sort_by_key(|f| f.0);
        for (_, choice) in found.into_iter().take(4) {
            if self.is_together(choice.cell, choice.inner == Some(1), size)? {
                return Ok(Some(choice));
            }
        }
        Ok(None)
    }

    /// As many cells as a panel shows well.
    const GOOD: u64 = 4096;

    /// The places along the first column or row.
    fn steps(&self, along: usize) -> Result<Steps> {
        let at = |n: u64| {
            let (row, col) = if along == 0 { (n, 0) } else { (0, n) };
            self.byte(row, col)
        };
        let bytes: Result<Vec<i64>> = (0..self.lines[along].at.len() as u64).map(at).collect();
        Ok(Steps { at: self.lines[along].at.clone(), bytes: bytes? })
    }

    fn byte(&self, row: u64, col: u64) -> Result<i64> {
        let place = self.layout.locate_each(&index(row, col, self.layout.shape()))?.next();
        Ok(place.map_or(0, |p| p.buffer * self.layout.buffer_bytes() + p.byte) as i64)
    }

    /// Whether the first and the last element of each box lie as far apart as they do in one that lies together.
    fn is_together(&self, cell: [u64; 2], by_rows: bool, size: i64) -> Result<bool> {
        let panel = Panel::new(&self.lines[0], &self.lines[1], cell);
        for rows in panel.rows.iter().flatten() {
            for cols in panel.cols.iter().flatten() {
                let (first, last) =
                    (self.byte(rows.start, cols.start)?, self.byte(rows.end - 1, cols.end - 1)?);
                let (down, right) = (
                    (self.lines[0].at[rows.end as usize - 1] - self.lines[0].at[rows.start as usize]) as i64,
                    (self.lines[1].at[cols.end as usize - 1] - self.lines[1].at[cols.start as usize]) as i64,
                );
                let across = across(cell, by_rows);
                if last - first != (down * across[0] + right * across[1]) * size {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// How many elements further the next row and the next column of a box lie.
pub(crate) fn across(cell: [u64; 2], by_rows: bool) -> [i64; 2] {
    if by_rows { [cell[1] as i64, 1] } else { [1, cell[0] as i64] }
}

/// Where the lines of one direction fall, and at which bytes their first elements lie.
struct Steps {
    at: Vec<u64>,
    bytes: Vec<i64>,
}

impl Steps {
    /// Whether lines of one group of `n` lie `step` bytes apart.
    fn within(&self, n: u64, step: i64) -> bool {
        let pairs = self.at.windows(2).zip(self.bytes.windows(2));
        pairs
            .into_iter()
            .all(|(at, bytes)| at[0] / n != at[1] / n || bytes[1] - bytes[0] == step * (at[1] - at[0]) as i64)
    }
}

/// The divisors of a count, ascending.
fn divisors(count: u64) -> impl Iterator<Item = u64> {
    let small: Vec<u64> = (1..=count.isqrt()).filter(|&n| count.is_multiple_of(n)).collect();
    let large: Vec<u64> = small.iter().rev().map(|n| count / n).filter(|n| *n > count.isqrt()).collect();
    small.into_iter().chain(large)
}

#[cfg(test)]
mod tests {
    #[test]
    fn divisors_ascend() {
        for count in 0..200_u64 {
            let expected: Vec<u64> = (1..=count).filter(|&n| count.is_multiple_of(n)).collect();
            assert_eq!(super::divisors(count).collect::<Vec<_>>(), expected, "{count}");
        }
    }
}
