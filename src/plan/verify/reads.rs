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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Tensor;
    use crate::plan::ir::{Loop, Nest, Schedule};
    use crate::{DType, Descriptor, Placement};

    fn layout(text: &str, shape: [u64; 2]) -> Layout {
        let tensor = Tensor::new(shape, DType::Bf16);
        text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap()
    }

    /// Whether a nest may read from an address, repeated by loops.
    fn may_read(layout: &Layout, leaf: Leaf, [u, b, s]: Addr, loops: &[(u64, Addr)]) -> bool {
        let loops: Vec<Loop> =
            loops.iter().map(|&(n, [u, b, s])| Loop { n, step: [u, b, s, 0, 0, 0] }).collect();
        let schedule = Schedule::new(&loops);
        stay_inside(&Nest { at: [u, b, s, 0, 0, 0], loops, leaf, schedule }, layout).is_ok()
    }

    #[test]
    fn elements_lie_inside_of_units_and_bytes() {
        let pages = "ttnn(dtype=bfloat16, layout=ROW_MAJOR, memory=INTERLEAVED, banks=2, alignment=32)";
        let layout = layout(pages, [4, 16]);
        let reads = |at, loops: &[_]| may_read(&layout, Leaf::Element, at, loops);
        assert!(reads([0, 0, 0], &[]) && reads([3, 30, 0], &[]));
        assert!(!reads([4, 0, 0], &[]) && !reads([-1, 0, 0], &[]));
        assert!(!reads([0, 31, 0], &[]) && !reads([0, -1, 0], &[]) && !reads([0, 0, 1], &[]));
        assert!(reads([0, 0, 0], &[(4, [1, 0, 0]), (16, [0, 2, 0])]));
        assert!(!reads([0, 0, 0], &[(5, [1, 0, 0])]) && !reads([0, 0, 0], &[(17, [0, 2, 0])]));
        assert!(reads([3, 30, 0], &[(4, [-1, 0, 0]), (16, [0, -2, 0])]));
        assert!(!reads([3, 30, 0], &[(5, [-1, 0, 0])]) && !reads([3, 30, 0], &[(17, [0, -2, 0])]));
        // Steps back and forth are each looked at where they lead farthest.
        assert!(!reads([0, 0, 0], &[(16, [0, 2, 0]), (2, [0, -2, 0])]));
        assert!(!reads([0, 0, 0], &[(u64::MAX, [0, i64::MAX, 0])]));
    }

    #[test]
    fn slots_lie_inside_of_tiles() {
        let layout = layout("ttnn(dtype=bfloat8_b, layout=TILE)", [32, 64]);
        let reads = |at| may_read(&layout, Leaf::Element, at, &[]);
        assert!(reads([0, 1088, 1023]) && reads([0, 0, 0]));
        assert!(!reads([0, 1088, 1024]) && !reads([0, 0, -1]) && !reads([0, 1089, 0]));
    }

    #[test]
    fn what_does_not_read_by_its_own_addresses_has_none() {
        let layout = layout("ttnn(dtype=bfloat16, layout=ROW_MAJOR)", [4, 16]);
        for leaf in [Leaf::Fill, Leaf::Pack(vec![])] {
            assert!(may_read(&layout, leaf.clone(), [0; 3], &[(2, [0; 3])]));
            assert!(!may_read(&layout, leaf.clone(), [0, 2, 0], &[(2, [0; 3])]));
            assert!(!may_read(&layout, leaf, [0; 3], &[(2, [0, 2, 0])]));
        }
        let part = |src, moves| Gather { src, moves, slot: 0, loops: vec![] };
        let pack = |part| may_read(&layout, Leaf::Pack(vec![part]), [0; 3], &[(2, [0; 3])]);
        assert!(pack(part([0, 124, 0], vec![[0, 2, 0]])));
        assert!(!pack(part([0, 126, 0], vec![[0, 2, 0]])), "behind the last byte");
        assert!(
            !pack(part([0, 0, 0], vec![])) && !pack(part([0, 0, 0], vec![[0; 3]; 2])),
            "moves of other loops"
        );
    }
}
