//! Conversions that move nothing: another view of the same bytes.

use super::conversion::{Conversion, Op};
use super::ir::{Leaf, Loop, ScheduledNest, dst, src};

/// The most iterations from unit to unit that are compared; a plan with more counts as one that moves.
const MAX_ITERATIONS: u64 = 1 << 20;

/// Whether every element lies in the source at the very byte where the destination wants it.
pub(super) fn is_noop(nests: &[ScheduledNest], conversion: Conversion<'_>) -> bool {
    let (from_space, to_space) = (&conversion.src.space, &conversion.dst.space);
    if !matches!(conversion.op, Op::Copy(_)) || from_space.total_bytes() != to_space.total_bytes() {
        return false;
    }
    nests.iter().filter(|n| n.leaf == Leaf::Element).all(|nest| {
        // Loops inside of a unit advance both sides alike; those from unit to unit are followed.
        let (inside, across): (Vec<&Loop>, Vec<&Loop>) =
            nest.loops.iter().partition(|l| l.step[0] == 0 && l.step[3] == 0);
        let iterations = across.iter().try_fold(1_u64, |n, l| n.checked_mul(l.n)).unwrap_or(u64::MAX);
        let same = |iteration: u64| {
            let mut rest = iteration;
            let mut at = nest.at;
            for l in across.iter().rev() {
                let digit = (rest % l.n) as i64;
                rest /= l.n;
                at = std::array::from_fn(|k| at[k] + l.step[k] * digit);
            }
            let (from, to) = (src(at), dst(at));
            from_space.unit_at(from[0]) + from[1] == to_space.unit_at(to[0]) + to[1]
        };
        iterations <= MAX_ITERATIONS && inside.iter().all(|l| l.src() == l.dst()) && (0..iterations).all(same)
    })
}

#[cfg(test)]
mod tests {
    use crate::family::Descriptor;
    use crate::family::tenstorrent::device::Device;
    use crate::family::{Placement, Tensor};
    use crate::{DType, Options, Plan};

    fn plan(from: (&str, &str), to: (&str, &str)) -> Plan {
        let tensor = Tensor { shape: vec![8, 8, 4], dtype: DType::F32 };
        let layout = |(text, device): (&str, &str)| {
            let device: Device = device.parse().unwrap();
            let placement = Placement { device: Some(&device), ..Placement::default() };
            text.parse::<Descriptor>().unwrap().layout(&tensor, &placement).unwrap()
        };
        Plan::compile(&layout(from), &layout(to), &Options::default()).unwrap()
    }

    #[test]
    fn another_view_of_a_grid_moves_nothing() {
        let square = "#tt.metal_layout<(d0, d1, d2) -> (d0, d1 * 4 + d2), undef, <8x8>, memref<1x4xf32, #tt.memory_space<l1>>>";
        let tall = "#tt.metal_layout<(d0, d1, d2) -> (d0 * 8 + d1, d2), undef, <64x1>, memref<1x4xf32, #tt.memory_space<l1>>>";
        let device = |grid: &str, map: &str| {
            format!(
                "#tt.device<workerGrid = #tt.grid<{grid}, (d0, d1) -> ({map})>, meshShape = 1, chipIds = [0]>"
            )
        };
        let plain = device("8x8", "0, d0, d1");
        let turned = device("8x8", "0, d1, d0");
        let high = device("64x1", "0, d1 * 8 + d0 floordiv 8, d0 mod 8");
        assert!(plan((square, &plain), (square, &plain)).is_noop());
        assert!(plan((square, &plain), (tall, &high)).is_noop());
        assert!(!plan((square, &plain), (square, &turned)).is_noop());
    }
}
