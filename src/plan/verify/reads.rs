//! V2: reads stay inside of the source.

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::layout::axis::Addr;
use crate::plan::ir::{Gather, Leaf, ScheduledNest, src};

/// The least and greatest source address of a nest, unit, byte and slot, lie inside.
pub(super) fn stay_inside(nest: &ScheduledNest, layout: &Layout) -> Result<()> {
    let ok = match &nest.leaf {
        Leaf::Fill => unused(nest),
        Leaf::Element => inside(src(nest.at), nest.loops.iter().map(|l| (l.n, l.src())), layout),
        Leaf::Pack(parts) => {
            let inside = |part: &Gather| {
                let outer = nest.loops.iter().zip(&part.moves).map(|(l, &step)| (l.n, step));
                let inner = part.loops.iter().map(|l| (l.n, l.src()));
                part.moves.len() == nest.loops.len() && inside(part.src, outer.chain(inner), layout)
            };
            unused(nest) && parts.iter().all(inside)
        }
    };
    if ok {
        Ok(())
    } else {
        Err(Error::unverified("V2", format!("a nest reads outside of the source: {nest:?}")))
    }
}

/// Whether a nest that does not read by its own source addresses has none.
fn unused(nest: &ScheduledNest) -> bool {
    src(nest.at) == [0; 3] && nest.loops.iter().all(|l| l.src() == [0; 3])
}

/// Whether all that loops reach from `at` lies in the units, bytes and slots of a layout.
fn inside(at: Addr, loops: impl Iterator<Item = (u64, Addr)>, layout: &Layout) -> bool {
    let mut bounds = at.map(|a| (i128::from(a), i128::from(a)));
    for (n, step) in loops {
        for (bound, s) in bounds.iter_mut().zip(step) {
            let span = (i128::from(n) - 1) * i128::from(s);
            *bound = (bound.0.saturating_add(span.min(0)), bound.1.saturating_add(span.max(0)));
        }
    }
    let slots = layout.tile().map_or(1, |t| t.elements());
    let ends = [layout.space.units, layout.space.unit_bytes, slots].map(i128::from);
    let size = [1, i128::from(layout.block_bytes()), 1];
    (0..3).all(|k| bounds[k].0 >= 0 && bounds[k].1 <= ends[k] - size[k])
}
