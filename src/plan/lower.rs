//! From two layouts to loop nests: join the axes, zip the maps of both sides, cross the regions.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::gather;
use super::ir::{AddressPair, Leaf, Loop, Nest, dst};
use super::loops::{interleaved, limit, simplify, upward};
use crate::dtype::Format;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::layout::axis::{Addr, Axis};
use crate::layout::index::{connected, ravel, unravel, wide};
use crate::layout::piecewise::{Piecewise, Region, add, zip};

/// The most elements of a group of dimensions that must be followed one by one, because the layouts
/// interleave them in a way that no product of maps describes.
const MAX_FOLLOWED: u64 = 1 << 20;

/// The nests that move every element, and those that fill what is left of the destination, its padding.
pub(crate) fn lower(src: &Layout, dst: &Layout, padding: Vec<Region<3>>) -> Result<Vec<Nest>> {
    let mut nests = Vec::new();
    if src.elements() > 0 {
        let moves = moves(src, dst)?;
        if matches!(dst.format(), Format::Block(_)) {
            nests = gather::tiles(moves, dst)?;
        } else {
            nests = nested(moves, dst)?.into_iter().map(|p| nest(p, Leaf::Element, dst)).collect();
        }
    }
    let written = |s: Addr| [0, 0, 0, s[0], s[1], s[2]];
    let fills = padding.into_iter().map(|region| Region {
        at: written(region.at),
        loops: region.loops.iter().map(|&(n, s)| (n, written(s))).collect(),
    });
    nests.extend(nested(fills.collect(), dst)?.into_iter().map(|p| nest(p, Leaf::Fill, dst)));
    limit(nests.len())?;
    nests.sort_by_key(|n| dst.linear(self::dst(n.at)));
    Ok(nests)
}

/// Where every element lies on both sides, as regions.
fn moves(src: &Layout, dst: &Layout) -> Result<Vec<Region<6>>> {
    let mut base: AddressPair = [0, src.offset, 0, 0, dst.offset, 0];
    let groups = groups(src, dst);
    for (layout, k) in [(src, 0), (dst, 3)] {
        // An axis of no more than one element moves nothing.
        for axis in layout.axes.iter().filter(|a| a.dims.iter().all(|&d| layout.shape()[d] == 1)) {
            (0..3).for_each(|i| base[k + i] += axis.start[i]);
        }
    }
    let copies = dst.replicas.iter().map(|r| (r.n, [0, 0, 0, r.step[0], r.step[1], r.step[2]])).collect();
    let mut all = vec![Region { at: base, loops: copies }];
    for group in &groups {
        let (from, a) = side(src, group)?;
        let (to, b) = side(dst, group)?;
        let (at, both) = zip::<3, 3, 6>(&a, &b)?;
        let start = std::array::from_fn(|k| if k < 3 { from[k] } else { to[k - 3] });
        let mut regions = both.regions(add(start, at))?;
        if matches!(dst.format(), Format::Block(_)) {
            regions = gather::align(regions, dst)?;
        }
        limit(all.len().saturating_mul(regions.len()))?;
        let mut crossed = Vec::with_capacity(all.len() * regions.len());
        for a in &all {
            let cross = |b: &Region<6>| Region { at: add(a.at, b.at), loops: [&*a.loops, &b.loops].concat() };
            crossed.extend(regions.iter().map(cross));
        }
        all = crossed;
    }
    Ok(all)
}

/// The dimensions of more than one element, in groups that neither layout takes apart.
fn groups(src: &Layout, dst: &Layout) -> Vec<Vec<usize>> {
    let shape = src.shape();
    connected(shape.len(), src.axes.iter().chain(&dst.axes).map(|axis| wide(&axis.dims, shape)))
}

/// One layout's map over a group of dimensions, row-major.
fn side<'a>(layout: &'a Layout, group: &[usize]) -> Result<(Addr, Cow<'a, Piecewise<3>>)> {
    let shape = layout.shape();
    let own = |axis: &Axis| wide(&axis.dims, shape).any(|d| group.contains(&d));
    let mut axes: SmallVec<[&Axis; 4]> = layout.axes.iter().filter(|a| own(a)).collect();
    axes.sort_by_key(|axis| wide(&axis.dims, shape).next());
    let start = axes.iter().fold([0; 3], |at, axis| add(at, axis.start));
    let in_order = axes.iter().flat_map(|axis| wide(&axis.dims, shape));
    if in_order.eq(group.iter().copied()) {
        let Some((inner, others)) = axes.split_last() else { return Ok((start, Cow::Owned(Piecewise::ONE))) };
        let times = |inner: Cow<'a, _>, axis: &&Axis| axis.addresses.product(&inner).map(Cow::Owned);
        return Ok((start, others.iter().rev().try_fold(Cow::Borrowed(&inner.addresses), times)?));
    }
    // The axes interleave: follow the elements.
    let len: u64 = group.iter().map(|&d| shape[d]).product();
    if len > MAX_FOLLOWED {
        let what = format!("the group of dimensions {group:?}, whose axes interleave,");
        return Err(Error::TooComplex { what, cap: MAX_FOLLOWED as usize });
    }
    let mut index = vec![0; shape.len()];
    let addresses = (0..len).map(|u| {
        unravel(u, group, shape, &mut index);
        axes.iter().fold([0; 3], |at, axis| add(at, axis.addresses.eval(ravel(&index, &axis.dims, shape))))
    });
    let (first, map) = Piecewise::through(addresses)?;
    Ok((add(start, first), Cow::Owned(map)))
}

/// The same elements, in regions whose loops go upward and nest in the destination: a loop whose iterations fall
/// between those of another, or that goes up in units and down in bytes, is taken apart.
fn nested(regions: Vec<Region<6>>, layout: &Layout) -> Result<Vec<Region<6>>> {
    let mut out = Vec::with_capacity(regions.len());
    let mut work = regions;
    while let Some(region) = work.pop() {
        limit(out.len() + work.len())?;
        let mut region = upward(region, layout);
        region.loops.sort_by_key(|&(_, s)| layout.linear(dst(s)));
        match interleaved(region.loops.iter().copied(), layout) {
            None => out.push(region),
            Some(i) => {
                let n = region.loops[i].0;
                limit(usize::try_from(n).unwrap_or(usize::MAX))?;
                work.extend((0..n).map(|k| region.iteration(i, k)));
            }
        }
    }
    Ok(out)
}

/// A nest with its loops in order of destination, and joined where they chain on both sides.
fn nest(mut region: Region<6>, leaf: Leaf, layout: &Layout) -> Nest {
    // They come with the least step first.
    region.loops.reverse();
    let loops = region.loops.into_iter().filter(|l| l.0 > 1).map(|(n, step)| Loop { n, step });
    Nest::new(region.at, simplify(loops.collect(), |l| layout.linear(l.dst())), leaf)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::families::dense;
    use crate::family::{Descriptor, Placement, Tensor};

    fn layout(text: &str, shape: &[u64]) -> Layout {
        let tensor = Tensor { shape: shape.to_vec(), dtype: DType::F32 };
        text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap()
    }

    fn row_major(shape: &[u64]) -> Layout {
        dense(&Tensor { shape: shape.to_vec(), dtype: DType::F32 })
    }

    fn lowered(src: &Layout, dst: &Layout) -> Vec<Nest> {
        lower(src, dst, dst.padding().unwrap()).unwrap()
    }

    /// Destination byte, source byte, and loops of (iterations, destination step, source step).
    type Bytes = (i64, i64, Vec<(u64, i64, i64)>);

    fn bytes(nests: &[Nest], leaf: &Leaf) -> Vec<Bytes> {
        let loops = |n: &Nest| n.loops.iter().map(|l| (l.n, l.step[4], l.step[1])).collect();
        nests.iter().filter(|n| n.leaf == *leaf).map(|n| (n.at[4], n.at[1], loops(n))).collect()
    }

    #[test]
    fn a_copy_of_equal_layouts_is_one_loop() {
        let nests = lowered(&row_major(&[4, 6]), &row_major(&[4, 6]));
        assert_eq!(bytes(&nests, &Leaf::Element), [(0, 0, vec![(24, 4, 4)])]);
        assert_eq!(nests.len(), 1);
    }

    #[test]
    fn a_transpose_is_two_loops() {
        let columns = layout("memref<4x6xf32, strided<[1, 4]>>", &[4, 6]);
        let nests = lowered(&row_major(&[4, 6]), &columns);
        assert_eq!(bytes(&nests, &Leaf::Element), [(0, 0, vec![(6, 16, 4), (4, 4, 24)])]);
    }

    #[test]
    fn a_padded_array_is_filled_between_its_rows() {
        let padded = layout("memref<3x4xf32, strided<[6, 1]>>", &[3, 4]);
        let nests = lowered(&row_major(&[3, 4]), &padded);
        assert_eq!(bytes(&nests, &Leaf::Element), [(0, 0, vec![(3, 24, 16), (4, 4, 4)])]);
        // Two elements after each row but the last, which ends the array.
        assert_eq!(bytes(&nests, &Leaf::Fill), [(16, 0, vec![(2, 24, 0), (2, 4, 0)])]);
    }

    #[test]
    fn a_ragged_tile_has_a_nest_for_each_face_and_fills_around() {
        let tile = layout("ttnn(dtype=float32, layout=TILE)", &[20, 16]);
        let nests = lowered(&row_major(&[20, 16]), &tile);
        // Faces of 16x16: the first is whole, the third has 4 rows.
        assert_eq!(
            bytes(&nests, &Leaf::Element),
            [(0, 0, vec![(256, 4, 4)]), (2 * 1024, 16 * 64, vec![(64, 4, 4)])]
        );
        let filled: u64 = nests
            .iter()
            .filter(|n| n.leaf == Leaf::Fill)
            .map(|n| n.loops.iter().map(|l| l.n).product::<u64>())
            .sum();
        assert_eq!(filled, 1024 - 320);
    }

    #[test]
    fn dimensions_that_a_layout_joins_are_one_group() {
        let joined = layout(
            "#ttcore.metal_layout<(d0, d1, d2) -> (d0 * 3 + d1, d2), undef, <1x1>, \
            memref<1x1x!ttcore.tile<32x32, f32>, #ttcore.memory_space<l1>>>",
            &[2, 3, 5],
        );
        assert_eq!(groups(&row_major(&[2, 3, 5]), &joined), [vec![0, 1], vec![2]]);
        // A dimension of one element is in no group.
        assert_eq!(groups(&row_major(&[2, 1, 5]), &row_major(&[2, 1, 5])), [[0], [2]]);
    }

    #[test]
    fn of_loops_that_interleave_the_shorter_one_is_taken_apart() {
        // A thousand times two elements, 6 apart, in steps of 8: each pair reaches into the next.
        let target = row_major(&[4096]);
        let loops = vec![(1000, [0, 8, 0, 0, 8, 0]), (2, [0, 4000, 0, 0, 12, 0])];
        let mut regions = nested(vec![Region { at: [0; 6], loops }], &target).unwrap();
        regions.sort_by_key(|r| r.at);
        let half = |at| Region { at, loops: vec![(1000, [0, 8, 0, 0, 8, 0])] };
        assert_eq!(regions, [half([0; 6]), half([0, 4000, 0, 0, 12, 0])]);
    }

    /// The bytes that nests write.
    fn written(nests: &[Nest], layout: &Layout) -> u64 {
        let leaves = |n: &Nest| n.loops.iter().map(|l| l.n).product::<u64>();
        nests.iter().map(leaves).sum::<u64>() * layout.block_bytes()
    }

    /// Pairs whose splits share no short period: nests in a stack of 256 KiB, and as many as there are ragged ends.
    #[test]
    fn ragged_pairs_are_lowered_in_a_small_stack() {
        let cases: [(&str, &str, &[u64], usize); 6] = [
            (
                "metal(shape=(2, 3, 32, 1000032), collapse=[(1, -1)], grid=(2, 1, 2), tile=(32, 32), dtype=f32, oob=undef, memory=l1)",
                "ttnn(dtype=bfloat16, layout=TILE)",
                &[2, 3, 32, 1_000_032],
                10,
            ),
            (
                "metal(shape=(500, 20079, 31), collapse=[(0, -1)], grid=(4, 2), tile=(32, 32), dtype=bfp_bf8, oob=undef, memory=l1)",
                "SpyreTensorLayout((500, 20079, 31), torch.float16)",
                &[500, 20_079, 31],
                10_000,
            ),
            (
                "memref<1x1xf32>",
                "ttnn(dtype=float32, layout=TILE, memory=BLOCK_SHARDED, grid=(1, 1), shard=(32, 33554432))",
                &[1, 1],
                20,
            ),
            (
                "#ttcore.metal_layout<(d0, d1, d2) -> (0, d0 * 20900 + d1 * 190 + d2), zero, <1x4>, \
                 memref<1x21227x!ttcore.tile<8 x 32, f32>, #ttcore.memory_space<l1>>>",
                "ttnn(dtype=float32, layout=TILE, tile=(32, 16), memory=INTERLEAVED, banks=1, alignment=16)",
                &[130, 110, 187],
                5_000,
            ),
            (
                "metal(shape=(3058, 142858, 7), collapse=[(0, -1)], grid=(4, 2), tile=(32, 32), dtype=bf16, oob=undef, memory=l1)",
                "ttnn(dtype=bfloat16, layout=TILE)",
                &[3058, 142_858, 7],
                2_000,
            ),
            (
                "ttnn(dtype=bfloat4_b, layout=TILE, memory=INTERLEAVED, banks=12, alignment=64)",
                "ttnn(dtype=float32, layout=ROW_MAJOR, memory=ND_SHARDED, grid=(8, 8), shard=(1706032, 32))",
                &[4096, 4096, 100],
                10_000,
            ),
        ];
        for (from, to, shape, most) in cases {
            let work = move || {
                let to = layout(to, shape);
                let nests = lowered(&layout(from, shape), &to);
                assert_eq!(written(&nests, &to), to.space.units * to.space.unit_bytes, "{from}");
                nests.len()
            };
            let thread = std::thread::Builder::new().stack_size(256 << 10);
            let nests = thread.spawn(work).unwrap().join().unwrap();
            assert!(nests <= most, "{nests} nests from {from} to {to}");
        }
    }
}
