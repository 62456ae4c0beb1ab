//! Which loops of a nest become the two-dimensional leaf that a kernel runs.

use super::nest::{Gather, InPlace, Leaf, Loop, Nest};
use super::{Op, Side};

/// Sets the leaf loops of each nest.
///
/// Columns are the innermost loop, for it moves the least in the destination. Rows are the loop along which
/// the source is contiguous, which makes the leaf a transpose, or else the next loop outward. A loop that
/// goes from unit to unit, or from tile to tile of a block source, cannot be in the leaf: its address is
/// looked up. A tile that is packed from where it lies takes a row of such tiles.
pub(crate) fn choose(nests: &mut [Nest], src: &Side, dst: &Side, op: Op) {
    for nest in nests {
        let fits = |l: &Loop| {
            let plain = l.step[0] == 0 && l.step[3] == 0;
            plain && if src.codec.is_some() && nest.leaf == Leaf::Element { l.step[1] == 0 } else { true }
        };
        let count = nest.loops.len();
        let candidates = || (0..count).rev().filter(|&i| fits(&nest.loops[i]));
        nest.cols = match nest.leaf {
            Leaf::Pack(ref parts) => {
                let cols = dst.codec.map_or(1, |c| c.tile().cols());
                nest.in_place = if src.codec.is_none() { in_place(parts, cols) } else { None };
                let lookup = |i: usize| nest.loops[i].step[3] != 0 || parts[0].moves[i][0] != 0;
                count.checked_sub(1).filter(|&i| nest.in_place.is_some() && !lookup(i))
            }
            Leaf::Fill => count.checked_sub(1).filter(|&i| nest.loops[i].step[4] == dst.grain as i64),
            Leaf::Element => candidates().next(),
        };
        nest.rows = match (&nest.leaf, nest.cols) {
            (Leaf::Pack(_), _) | (_, None) => None,
            (Leaf::Fill, Some(c)) => c.checked_sub(1).filter(|&r| nest.loops[r].step[3] == 0),
            (Leaf::Element, Some(c)) => {
                let near = match op {
                    Op::Copy(size) => size as i64,
                    Op::Convert(from, _) => from.size() as i64,
                };
                let contiguous = |i: usize| {
                    let s = nest.loops[i].step;
                    if src.codec.is_some() { s[2] == 1 } else { s[1] == near }
                };
                let others = || candidates().filter(|&i| i != c);
                let transposed = others().find(|&i| !contiguous(c) && contiguous(i));
                transposed.or_else(|| others().next())
            }
        };
    }
}

/// The strides of a tile's elements in the source, if its valid elements are a corner of even rows and columns.
fn in_place(parts: &[Gather], tile_cols: usize) -> Option<InPlace> {
    let [Gather { slot: 0, loops, .. }] = parts else { return None };
    let mut tile = InPlace { rows: 1, cols: 1, src_row: 0, src_col: 0 };
    if loops.iter().any(|l| l.step[0] != 0 || l.step[2] != 0) {
        return None;
    }
    for l in loops {
        let (n, src, slots) = (l.n as usize, l.step[1] as isize, l.step[5]);
        if slots == tile_cols as i64 && tile.rows == 1 {
            (tile.rows, tile.src_row) = (n, src);
        } else if slots == 1 && n <= tile_cols && tile.cols == 1 {
            (tile.cols, tile.src_col) = (n, src);
        } else if slots == 1 && n % tile_cols == 0 && loops.len() == 1 {
            // Rows that follow one another in the source are one loop.
            tile = InPlace {
                rows: n / tile_cols,
                cols: tile_cols,
                src_row: src * tile_cols as isize,
                src_col: src,
            };
        } else {
            return None;
        }
    }
    Some(tile)
}
