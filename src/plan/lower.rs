//! From two layouts to loop nests: join the axes, refine both staircases, cross the pieces.

use super::gather;
use super::nest::{AddressPair, Leaf, Loop, Nest, dst};
use crate::dtype::Format;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::layout::axis::Addr;
use crate::layout::piecewise::{Piecewise, Region, add, zip};

/// The most nests of one plan. The layouts of real systems need fewer than a hundred.
pub(crate) const MAX_NESTS: usize = 4096;

/// The most elements of a group of dimensions that must be followed one by one, because the layouts
/// interleave them in a way that no product of staircases describes.
const MAX_FOLLOWED: u64 = 1 << 20;

/// The nests that move every element, and those that fill what is left of the destination.
pub(crate) fn lower(src: &Layout, dst: &Layout) -> Result<Vec<Nest>> {
    let mut nests = Vec::new();
    if src.elements() > 0 {
        let moves = moves(src, dst)?;
        if matches!(dst.format(), Format::Block(_)) {
            nests = gather::tiles(moves, dst)?;
        } else {
            nests = nested(moves, dst)?.into_iter().map(|p| nest(p, Leaf::Element, dst)).collect();
        }
    }
    let wide = |s: Addr| [0, 0, 0, s[0], s[1], s[2]];
    let fills = dst.padding()?.into_iter().map(|piece| Region {
        at: wide(piece.at),
        loops: piece.loops.iter().map(|&(n, s)| (n, wide(s))).collect(),
    });
    nests.extend(nested(fills.collect(), dst)?.into_iter().map(|p| nest(p, Leaf::Fill, dst)));
    limit(nests.len())?;
    nests.sort_by_key(|n| dst.linear(self::dst(n.at)));
    Ok(nests)
}

pub(super) fn limit(nests: usize) -> Result<()> {
    if nests > MAX_NESTS {
        Err(Error::TooComplex { what: "the plan".into(), cap: MAX_NESTS })
    } else {
        Ok(())
    }
}

/// Every element's move, as rectangular pieces.
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
        let mut pieces = both.pieces(add(start, at))?;
        if matches!(dst.format(), Format::Block(_)) {
            pieces = gather::align(pieces, dst)?;
        }
        limit(all.len().saturating_mul(pieces.len()))?;
        let cross = |a: &Region<6>| {
            let a = a.clone();
            pieces.iter().map(move |p| Region {
                at: add(a.at, p.at),
                loops: a.loops.iter().chain(&p.loops).copied().collect(),
            })
        };
        all = all.iter().flat_map(cross).collect();
    }
    Ok(all)
}

/// The dimensions of more than one element, in groups that neither layout takes apart.
fn groups(src: &Layout, dst: &Layout) -> Vec<Vec<usize>> {
    let shape = src.shape();
    let mut group: Vec<usize> = (0..shape.len()).collect();
    for axis in src.axes.iter().chain(&dst.axes) {
        let mut dims = axis.dims.iter().filter(|&&d| shape[d] > 1);
        let Some(&first) = dims.next() else { continue };
        for &d in dims {
            let (from, to) = (group[d], group[first]);
            group.iter_mut().filter(|g| **g == from).for_each(|g| *g = to);
        }
    }
    (0..shape.len())
        .map(|g| (0..shape.len()).filter(|&d| group[d] == g && shape[d] > 1).collect())
        .filter(|dims: &Vec<usize>| !dims.is_empty())
        .collect()
}

/// One layout's staircase over a group of dimensions, row-major.
fn side(layout: &Layout, group: &[usize]) -> Result<(Addr, Piecewise<3>)> {
    let shape = layout.shape();
    let wide = |dims: &[usize]| -> Vec<usize> { dims.iter().copied().filter(|&d| shape[d] > 1).collect() };
    let mut axes: Vec<_> = layout
        .axes
        .iter()
        .map(|a| (wide(&a.dims), a))
        .filter(|(d, _)| d.iter().any(|d| group.contains(d)))
        .collect();
    axes.sort_by_key(|(dims, _)| dims[0]);
    let start = axes.iter().fold([0; 3], |at, (_, axis)| add(at, axis.start));
    let in_order: Vec<usize> = axes.iter().flat_map(|(dims, _)| dims.clone()).collect();
    if in_order == group {
        let product = axes.iter().rev().fold(Piecewise::ONE, |inner, (_, axis)| axis.stair.product(&inner));
        return Ok((start, product));
    }
    // The axes interleave: follow the elements.
    let len: u64 = group.iter().map(|&d| shape[d]).product();
    if len > MAX_FOLLOWED {
        let what = format!("the group of dimensions {group:?}, whose axes interleave,");
        return Err(Error::TooComplex { what, cap: MAX_FOLLOWED as usize });
    }
    let mut index = vec![0; shape.len()];
    let addresses = (0..len).map(|mut u| {
        for &d in group.iter().rev() {
            index[d] = u % shape[d];
            u /= shape[d];
        }
        axes.iter().fold([0; 3], |at, (dims, axis)| {
            add(at, axis.stair.eval(dims.iter().fold(0, |u, &d| u * shape[d] + index[d])))
        })
    });
    let (first, stair) = Piecewise::through(addresses)?;
    Ok((add(start, first), stair))
}

/// The same pieces with loops that go upward and nest in the destination: a loop whose turns fall between those
/// of another, or that goes up in units and down in bytes, is taken apart.
fn nested(moves: Vec<Region<6>>, layout: &Layout) -> Result<Vec<Region<6>>> {
    let mut out = Vec::with_capacity(moves.len());
    let mut work = moves;
    while let Some(mut piece) = work.pop() {
        limit(out.len() + work.len())?;
        piece.loops.retain(|l| l.0 > 1);
        for (n, step) in &mut piece.loops {
            if layout.linear(dst(*step)) < 0 {
                let way = step.map(|s| s * (*n as i64 - 1));
                piece.at = add(piece.at, way);
                *step = step.map(|s| -s);
            }
        }
        piece.loops.sort_by_key(|&(_, s)| layout.linear(dst(s)));
        let mut extent = layout.block_bytes() as i64;
        let interleaved = piece.loops.iter().position(|&(n, s)| {
            let step = layout.linear(dst(s));
            let meets = step < extent || s[3] < 0 || s[4] < 0;
            extent += (n as i64 - 1) * step;
            meets
        });
        match interleaved {
            None => out.push(piece),
            Some(i) => {
                let (n, step) = piece.loops.remove(i);
                limit(n.min(1 << 32) as usize)?;
                work.extend(
                    (0..n as i64).map(|k| Region {
                        at: add(piece.at, step.map(|s| s * k)),
                        loops: piece.loops.clone(),
                    }),
                );
            }
        }
    }
    Ok(out)
}

/// A nest with its loops in order of destination, and joined where they chain on both sides.
fn nest(piece: Region<6>, leaf: Leaf, layout: &Layout) -> Nest {
    let loops = piece.loops.into_iter().filter(|l| l.0 > 1).map(|(n, step)| Loop { n, step });
    Nest::new(piece.at, simplify(loops.collect(), |l| layout.linear(l.dst())), leaf)
}

/// Sorts loops by destination step, greatest first, and joins neighbours that chain on both sides.
pub(super) fn simplify(mut loops: Vec<Loop>, by: impl Fn(&Loop) -> i64) -> Vec<Loop> {
    loops.sort_by_key(|l| std::cmp::Reverse((by(l), l.dst()[2])));
    let mut out: Vec<Loop> = Vec::with_capacity(loops.len());
    for inner in loops {
        match out.last_mut() {
            Some(outer) if outer.step == inner.step.map(|s| s * inner.n as i64) => {
                *outer = Loop { n: outer.n * inner.n, step: inner.step };
            }
            _ => out.push(inner),
        }
    }
    out
}
