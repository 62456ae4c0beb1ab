//! The logical panel: a tensor as rows and columns, with the padding that its layout puts between them.

use std::ops::Range;

use tilewright::{Layout, Result};

/// The most rows or columns that are followed one by one.
const MAX_LINES: u64 = 1 << 20;

/// The rows and columns of the logical panel, in cells that are single elements or boxes of them.
///
/// The last dimension runs along the columns and all others, row-major, along the rows. Where the axes of a layout
/// allow it, rows and columns of padding stand where the layout has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panel {
    /// For each row of cells the logical rows in it; none in a row of padding.
    pub rows: Vec<Option<Range<u64>>>,
    /// For each column of cells the logical columns in it; none in a column of padding.
    pub cols: Vec<Option<Range<u64>>>,
    /// Rows and columns of a cell, padding included; 1 and 1 where cells are elements.
    pub cell: [u64; 2],
}

/// The lines of one direction: how many there are with padding, and on which each logical one falls.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) count: u64,
    pub(crate) at: Vec<u64>,
}

impl Panel {
    /// Rows and columns of cells.
    pub fn size(&self) -> [usize; 2] {
        [self.rows.len(), self.cols.len()]
    }

    /// The panel of cells of `cell` lines each way; these divide the counts.
    pub(crate) fn new(rows: &Lines, cols: &Lines, cell: [u64; 2]) -> Panel {
        Panel { rows: rows.grouped(cell[0]), cols: cols.grouped(cell[1]), cell }
    }
}

impl Lines {
    /// Rows and columns of a layout.
    pub(crate) fn of(layout: &Layout) -> Result<[Lines; 2]> {
        let rank = layout.shape().len();
        let split = rank.saturating_sub(1);
        let (rows, cols) = (lines(layout, 0..split)?, lines(layout, split..rank)?);
        // Padding is shown where it stays in proportion: of a vector in a tile 31 of 32 rows are empty.
        let shown = |l: &Lines| l.count <= 8 * l.at.len() as u64 + 64;
        Ok([rows, cols].map(|l| if shown(&l) { l } else { Lines::plain(l.at.len() as u64) }))
    }

    /// Lines without padding.
    fn plain(count: u64) -> Lines {
        Lines { count, at: (0..count).collect() }
    }

    /// Whether each group of `size` lines holds its first ones, as many as it has, and padding only behind them.
    pub(crate) fn fill_groups(&self, size: u64) -> bool {
        let next = |n: usize| match n.checked_sub(1).map(|before| self.at[before]) {
            Some(before) if before / size == self.at[n] / size => before + 1,
            _ => self.at[n] / size * size,
        };
        (0..self.at.len()).all(|n| self.at[n] == next(n))
    }

    /// What each group of `size` lines holds.
    fn grouped(&self, size: u64) -> Vec<Option<Range<u64>>> {
        let mut groups: Vec<Option<Range<u64>>> = vec![None; (self.count / size) as usize];
        for (n, &at) in (0..).zip(&self.at) {
            let group = &mut groups[(at / size) as usize];
            *group = Some(group.as_ref().map_or(n, |g| g.start)..n + 1);
        }
        groups
    }
}

/// The lines along some dimensions; without padding where the axes of the layout join them with others, or put them in
/// another order.
fn lines(layout: &Layout, dims: Range<usize>) -> Result<Lines> {
    let shape = layout.shape();
    let count: u64 = shape[dims.clone()].iter().product();
    if count > MAX_LINES {
        let given = format!("{count} rows or columns");
        return Err(tilewright::Error::value("picture", given, format!("at most {MAX_LINES}")));
    }
    // Where there are no elements there is no index to follow.
    if shape.contains(&0) {
        return Ok(Lines::plain(count));
    }
    let axes = layout.cells();
    let mut own: Vec<usize> =
        (0..axes.len()).filter(|&a| axes[a].dims.iter().any(|d| dims.contains(d))).collect();
    own.sort_by_key(|&a| axes[a].dims.first().copied());
    let in_order = own.iter().flat_map(|&a| axes[a].dims.iter().copied()).eq(dims.clone());
    let extent = own.iter().try_fold(1_u64, |n, &a| n.checked_mul(axes[a].count)).filter(|&n| n <= MAX_LINES);
    let (true, Some(extent)) = (in_order, extent) else { return Ok(Lines::plain(count)) };
    let mut index = vec![0; shape.len()];
    let mut at = Vec::with_capacity(count as usize);
    for n in 0..count {
        let mut rest = n;
        for d in dims.clone().rev() {
            (index[d], rest) = (rest % shape[d], rest / shape[d]);
        }
        let cells = layout.cells_of(&index)?;
        at.push(own.iter().fold(0, |line, &a| line * axes[a].count + cells[a]));
    }
    let ascends = at.windows(2).all(|pair| pair[0] < pair[1]);
    Ok(if ascends { Lines { count: extent, at } } else { Lines::plain(count) })
}

/// The index at a row and a column of the logical panel.
pub(crate) fn index(row: u64, col: u64, shape: &[u64]) -> Vec<u64> {
    let mut index = vec![0; shape.len()];
    let Some((last, outer)) = index.split_last_mut() else { return index };
    *last = col;
    let mut rest = row;
    for (i, size) in outer.iter_mut().zip(shape).rev() {
        (*i, rest) = (rest % size, rest / size);
    }
    index
}
