//! Loops brought into order, and how many nests of them a plan may have: what lowering and gathering share.

use super::ir::{AddressPair, Loop, dst};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::layout::piecewise::{Region, add, scale};

/// The most nests of one plan. The layouts of real systems need fewer than a hundred; what needs more is a shape whose
/// splits on the two sides share no period. Planning takes about a microsecond and half a kilobyte for each.
pub(crate) const MAX_NESTS: usize = 1 << 18;

/// An error for more than [`MAX_NESTS`] nests, or as many regions on the way to them.
pub(super) fn limit(nests: usize) -> Result<()> {
    if nests > MAX_NESTS {
        Err(Error::TooComplex { what: "the plan".into(), cap: MAX_NESTS })
    } else {
        Ok(())
    }
}

/// The same elements, in loops of more than one iteration that step upward in the destination.
pub(super) fn upward(mut region: Region<6>, layout: &Layout) -> Region<6> {
    region.loops.retain(|l| l.0 > 1);
    for (n, step) in &mut region.loops {
        if layout.linear(dst(*step)) < 0 {
            region.at = add(region.at, scale(*step, *n as i64 - 1));
            *step = scale(*step, -1);
        }
    }
    region
}

/// A loop that keeps others from nesting in the destination, to be taken apart: of a loop whose iterations meet and those
/// inside of it, the one of fewest iterations that makes them apart. Loops step upward, and come with the least step first.
pub(super) fn interleaved(
    loops: impl Iterator<Item = (u64, AddressPair)> + Clone,
    layout: &Layout,
) -> Option<usize> {
    let step = |s: AddressPair| layout.linear(dst(s));
    let span = |n: u64, s: AddressPair| (n as i64 - 1) * step(s);
    let mut extent = layout.block_bytes() as i64;
    for (i, (n, s)) in loops.clone().enumerate() {
        if s[3] < 0 || s[4] < 0 {
            return Some(i);
        }
        if step(s) < extent {
            let inside = loops.take(i).enumerate();
            let inner = inside.filter(|&(_, (m, t))| extent - span(m, t) <= step(s) && m < n);
            return Some(inner.min_by_key(|(_, (m, _))| *m).map_or(i, |(j, _)| j));
        }
        extent += span(n, s);
    }
    None
}

/// Sorts loops by destination step, greatest first, and joins neighbours that chain on both sides.
pub(super) fn simplify(mut loops: Vec<Loop>, by: impl Fn(&Loop) -> i64) -> Vec<Loop> {
    loops.sort_by_key(|l| std::cmp::Reverse((by(l), l.dst()[2])));
    loops.dedup_by(|inner, outer| {
        let chain = outer.step == inner.step.map(|s| s * inner.n as i64);
        if chain {
            *outer = Loop { n: outer.n * inner.n, step: inner.step };
        }
        chain
    });
    loops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simplified_loops_join_where_both_sides_chain() {
        let l = |n, dst, src| Loop { n, step: [0, src, 0, 0, dst, 0] };
        let by = |l: &Loop| l.step[4];
        assert_eq!(simplify(vec![l(4, 4, 4), l(3, 16, 16)], by), [l(12, 4, 4)]);
        assert_eq!(simplify(vec![l(4, 4, 4), l(3, 16, 20)], by), [l(3, 16, 20), l(4, 4, 4)]);
    }
}
