//! Which loops of a nest become the two-dimensional leaf that a kernel runs.

use super::nest::{Leaf, Loop, Nest};
use super::{Op, Side};

/// Sets the leaf loops of each nest.
///
/// Columns are the innermost loop, for it moves the least in the destination. Rows are the loop along which
/// the source is contiguous, which makes the leaf a transpose, or else the next loop outward. A loop that
/// goes from unit to unit, or from tile to tile of a block source, cannot be in the leaf: its address is
/// looked up.
pub(crate) fn choose(nests: &mut [Nest], src: &Side, dst: &Side, op: Op) {
    for nest in nests {
        let fits = |l: &Loop| {
            let plain = l.step[0] == 0 && l.step[3] == 0;
            plain && if src.codec.is_some() && nest.leaf == Leaf::Element { l.step[1] == 0 } else { true }
        };
        let count = nest.loops.len();
        let candidates = || (0..count).rev().filter(|&i| fits(&nest.loops[i]));
        nest.cols = match nest.leaf {
            Leaf::Pack(_) => None,
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
