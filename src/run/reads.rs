//! Which bytes of the source a chunk reads.

use std::ops::Range;

use super::clip::{Chunk, View, clip};
use crate::layout::axis::Addr;
use crate::plan::Plan;
use crate::plan::ir::{Leaf, MAX_LOOPS, ScheduledNest, src};

/// The bytes of the source, from the first to behind the last, that a chunk of the destination is made of; empty where it
/// is all padding.
pub(super) fn reads(plan: &Plan, chunk: Chunk) -> Range<usize> {
    let mut reads = Reads { plan, bytes: None };
    for stretch in chunk.stretches(&plan.dst.space) {
        for nest in plan.nests.iter() {
            clip(plan, nest, (stretch.lo, stretch.hi), &mut |nest, view| reads.view(nest, view));
        }
    }
    reads.bytes.map_or(0..0, |(lo, hi)| lo as usize..hi as usize)
}

/// The bytes seen so far.
struct Reads<'a> {
    plan: &'a Plan,
    bytes: Option<(i64, i64)>,
}

impl Reads<'_> {
    fn view(&mut self, nest: &ScheduledNest, view: &View<MAX_LOOPS>) {
        let iterations = view.n.iter().copied().take(nest.loops.len());
        match &nest.leaf {
            Leaf::Fill => {}
            Leaf::Element => self.cover(src(view.at), iterations.zip(nest.loops.iter().map(|l| l.src()))),
            Leaf::Pack(parts) => {
                for part in parts {
                    let begin = part.moves.iter().zip(&view.first).fold(part.src, |at, (step, &first)| {
                        std::array::from_fn(|k| at[k] + step[k] * first as i64)
                    });
                    let outer = iterations.clone().zip(part.moves.iter().copied());
                    self.cover(begin, outer.chain(part.loops.iter().map(|l| (l.n, l.src()))));
                }
            }
        }
    }

    /// Adds every byte that loops of so many iterations and such steps reach from `begin`.
    fn cover(&mut self, begin: Addr, loops: impl Iterator<Item = (u64, Addr)>) {
        let space = &self.plan.src.space;
        let (mut units, mut bytes) = ((begin[0], begin[0]), (begin[1], begin[1]));
        let stretch = |range: &mut (i64, i64), span: i64| {
            range.0 += span.min(0);
            range.1 += span.max(0);
        };
        for (n, step) in loops {
            let last = n as i64 - 1;
            if space.deal.is_none() {
                // Unit and bytes move one number, and may undo one another.
                stretch(&mut bytes, last * (step[0] * space.pitch_bytes as i64 + step[1]));
            } else {
                stretch(&mut units, last * step[0]);
                stretch(&mut bytes, last * step[1]);
            }
        }
        let (first, last) = space.begins(units.0, units.1);
        let (lo, hi) = (first + bytes.0, last + bytes.1 + self.plan.src.block_bytes as i64);
        let (seen_lo, seen_hi) = self.bytes.unwrap_or((lo, hi));
        self.bytes = Some((lo.min(seen_lo), hi.max(seen_hi)));
    }
}

#[cfg(test)]
mod tests {
    use crate::family::Descriptor;
    use crate::family::{Placement, Tensor};
    use crate::{DType, Options, Plan};

    fn plan(shape: &[u64], dtype: DType, from: &str, to: &str) -> Plan {
        let tensor = Tensor { shape: shape.to_vec(), dtype };
        let layout = |text: &str| {
            let descriptor: Descriptor = text.parse().unwrap();
            descriptor.layout(&tensor, &Placement::default()).unwrap()
        };
        Plan::compile(&layout(from), &layout(to), &Options::default()).unwrap()
    }

    /// Bytes of which each one that is read changes the chunk: first and last of the window are read, and
    /// nothing outside of it.
    fn check(plan: &Plan, exact: bool) {
        let chunk_alignment = plan.chunk_alignment();
        let total = plan.destination_bytes();
        let source: Vec<u8> = (0..plan.source_bytes()).map(|i| (i % 3 + 1) as u8).collect();
        for at in (0..total).step_by(chunk_alignment) {
            let range = at..(at + chunk_alignment).min(total);
            let chunk = |source: &[u8]| {
                let mut out = vec![0; range.len()];
                plan.execute_chunk(source, range.clone(), &mut out).unwrap();
                out
            };
            let window = plan.source_window(range.clone()).unwrap();
            let whole = chunk(&source);
            let mut inside = vec![0; source.len()];
            inside[window.clone()].copy_from_slice(&source[window.clone()]);
            assert_eq!(chunk(&inside), whole, "{range:?} reads outside of {window:?}");
            let mut alone = vec![0; range.len()];
            let (bytes, begin) = (&source[window.clone()], window.start);
            plan.execute_chunk_from_window(bytes, begin, range.clone(), &mut alone).unwrap();
            assert_eq!(alone, whole, "{range:?} from {window:?} alone");
            if !bytes.is_empty() {
                assert!(
                    plan.execute_chunk_from_window(&bytes[1..], begin + 1, range.clone(), &mut alone)
                        .is_err()
                );
                let short = &bytes[..bytes.len() - 1];
                assert!(plan.execute_chunk_from_window(short, begin, range.clone(), &mut alone).is_err());
            }
            if exact && !window.is_empty() {
                for end in [window.start, window.end - 1] {
                    let mut other = source.clone();
                    other[end] ^= 1;
                    assert_ne!(chunk(&other), whole, "{range:?} does not read {end}");
                }
            }
        }
    }

    #[test]
    fn windows_of_copies_are_exact() {
        let transposed = "memref<5x7x3xui8, strided<[1, 15, 5], offset: 0>>";
        check(&plan(&[5, 7, 3], DType::U8, transposed, "memref<5x7x3xui8>"), true);
        let reversed = "memref<4x6xui8, strided<[-6, -1], offset: 23>>";
        check(&plan(&[4, 6], DType::U8, reversed, "memref<4x6xui8>"), true);
        let tiles = "ttnn(dtype=uint8, layout=TILE)";
        check(&plan(&[40, 50], DType::U8, "memref<40x50xui8>", tiles), true);
        check(&plan(&[40, 50], DType::U8, tiles, "memref<40x50xui8>"), true);
    }

    #[test]
    fn windows_hold_what_is_read() {
        let host = "memref<70x90xf32>";
        let tiles = "ttnn(dtype=bfloat8_b, layout=TILE)";
        check(&plan(&[70, 90], DType::F32, host, tiles), false);
        check(&plan(&[70, 90], DType::F32, tiles, host), false);
        let banks = "ttnn(dtype=bfloat16, layout=ROW_MAJOR, memory=INTERLEAVED, banks=3, alignment=64)";
        check(&plan(&[70, 9], DType::Bf16, banks, "memref<70x9xbf16>"), false);
        check(&plan(&[70, 9], DType::Bf16, "memref<70x9xbf16>", banks), false);
        assert!(plan(&[70, 90], DType::F32, host, tiles).source_window(1..2).is_err());
    }

    #[test]
    fn a_chunk_of_padding_reads_nothing() {
        let to = "ttnn(dtype=bfloat16, layout=TILE, memory=HEIGHT_SHARDED, grid=(1, 2), shard=(64, 32))";
        let plan = plan(&[32, 32], DType::Bf16, "memref<32x32xbf16>", to);
        let total = plan.destination_bytes();
        assert_eq!(plan.source_window(total - plan.chunk_alignment()..total).unwrap(), 0..0);
        assert_eq!(plan.source_window(0..total).unwrap(), 0..2048);
    }
}
