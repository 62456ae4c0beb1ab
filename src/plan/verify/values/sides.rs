//! The two layouts of V5: back from an address to the index, and forward from affine indices to affine addresses.

use smallvec::{SmallVec, smallvec};

use super::affine::{Address, Affine, Break, PerAxis, follow};
use crate::layout::Layout;
use crate::layout::axis::Level;
use crate::layout::index::wide;
use crate::layout::inverse::Inverse;
use crate::layout::piecewise::Piecewise;

/// One digit of an address: `n` values, and how far one more value goes.
#[derive(Debug, Clone, Copy)]
struct Digit {
    n: i64,
    bytes: i64,
    slot: i64,
}

impl Address {
    fn add(&mut self, value: &Affine, digit: &Digit) {
        self.bytes.add(value, digit.bytes);
        self.slot.add(value, digit.slot);
    }
}

/// An axis as its family states it.
struct Axis<'a> {
    places: &'a Piecewise<1>,
    first: i64,
    /// The digits of a cell, outermost first; joined where one goes on where another ends.
    digits: SmallVec<[Digit; 6]>,
}

impl Axis<'_> {
    fn all(layout: &Layout) -> Vec<Axis<'_>> {
        let mut all = Vec::with_capacity(layout.axes.len());
        for axis in &layout.axes {
            let mut digits: SmallVec<[Digit; 6]> = SmallVec::new();
            for level in axis.cells.iter().filter(|l| l.n != 1) {
                let digit =
                    Digit { n: level.n as i64, bytes: layout.linear(level.step), slot: level.step[2] };
                let goes_on = |outer: &Digit| {
                    (outer.bytes, outer.slot) == (digit.bytes * digit.n, digit.slot * digit.n)
                };
                match digits.last_mut() {
                    Some(outer) if goes_on(outer) => *outer = Digit { n: outer.n * digit.n, ..digit },
                    _ => digits.push(digit),
                }
            }
            all.push(Axis { places: &axis.places, first: axis.first, digits });
        }
        all
    }

    /// Adds the address of an affine coordinate.
    fn follow(&self, coordinate: &Affine, counts: &[u64], to: &mut Address) -> Result<(), Break> {
        let mut cell = follow(self.places, coordinate.copied(), counts)?;
        cell.at += self.first;
        let mut weight: i64 = self.digits.iter().map(|d| d.n).product();
        let Some((last, digits)) = self.digits.split_last() else { return Ok(()) };
        for digit in digits {
            weight /= digit.n;
            let (value, rest) = cell.divide(weight, counts)?;
            to.add(&value, digit);
            cell = rest;
        }
        to.add(&cell, last);
        Ok(())
    }
}

/// The sum of the addresses of all axes.
fn address(
    layout: &Layout,
    axes: &[Axis<'_>],
    coordinates: &[Affine],
    counts: &[u64],
) -> Result<Address, Break> {
    let mut to = Address { bytes: Affine::zero(counts.len()), slot: Affine::zero(counts.len()) };
    to.bytes.at = layout.offset;
    for (axis, coordinate) in axes.iter().zip(coordinates) {
        axis.follow(coordinate, counts, &mut to)?;
    }
    Ok(to)
}

/// Where elements are read.
pub(super) struct Source<'a> {
    pub(super) layout: &'a Layout,
    axes: Vec<Axis<'a>>,
}

impl<'a> Source<'a> {
    pub(super) fn new(layout: &'a Layout) -> Source<'a> {
        Source { layout, axes: Axis::all(layout) }
    }

    /// The addresses of affine coordinates, one for each axis.
    pub(super) fn follow(&self, coordinates: &[Affine], counts: &[u64]) -> Result<Address, Break> {
        address(self.layout, &self.axes, coordinates, counts)
    }
}

/// What a digit of a destination's address counts.
#[derive(Debug, Clone, Copy)]
enum Counts {
    /// So many cells of an axis.
    Cells(usize, i64),
    /// One replica after the other.
    Replica(usize),
}

/// Where elements are written.
pub(super) struct Destination<'a> {
    pub(super) layout: &'a Layout,
    axes: Vec<Axis<'a>>,
    inverses: Vec<Inverse>,
    /// The digits that move bytes, and those that move slots, each from the greatest step to the least.
    bytes: Vec<(Digit, Counts)>,
    slots: Vec<(Digit, Counts)>,
}

/// What an address of the destination belongs to: affine coordinates, one for each axis, and replicas.
pub(super) struct Index {
    axes: usize,
    values: PerAxis,
}

impl Index {
    fn coordinates(&self) -> &[Affine] {
        &self.values[..self.axes]
    }

    fn replicas(&self) -> &[Affine] {
        &self.values[self.axes..]
    }
}

/// The cells of all axes, and the replicas.
type Cells = SmallVec<[i64; 8]>;

impl<'a> Destination<'a> {
    pub(super) fn new(layout: &'a Layout) -> Destination<'a> {
        let (mut bytes, mut slots) = (Vec::with_capacity(16), Vec::new());
        let mut put = |level: &Level, counts: Counts| {
            let digit = Digit { n: level.n as i64, bytes: layout.linear(level.step), slot: level.step[2] };
            let digits = if digit.slot == 0 { &mut bytes } else { &mut slots };
            if digit.n > 1 {
                digits.push((digit, counts));
            }
        };
        for (i, axis) in layout.axes.iter().enumerate() {
            let mut weight = 1;
            for level in axis.cells.iter().rev() {
                put(level, Counts::Cells(i, weight));
                weight *= level.n as i64;
            }
        }
        for (i, replica) in layout.replicas.iter().enumerate() {
            put(replica, Counts::Replica(i));
        }
        bytes.sort_by_key(|(d, _)| std::cmp::Reverse(d.bytes));
        slots.sort_by_key(|(d, _)| std::cmp::Reverse(d.slot));
        let inverses = layout.axes.iter().map(|axis| axis.inverse()).collect();
        Destination { layout, axes: Axis::all(layout), inverses, bytes, slots }
    }

    /// The index at an address, bytes and slot, and one step along each loop; none where no element lies there. Between
    /// these points it is a guess, which [`Destination::follow`] confirms.
    pub(super) fn index(&self, at: (i64, i64), counts: &[u64], steps: &[(i64, i64)]) -> Option<Index> {
        let (axes, replicas) = (self.axes.len(), self.layout.replicas.len());
        let mut here: Cells = smallvec![0; axes + replicas];
        self.cells(at, &mut here)?;
        let coordinate = |axis: usize, cell: i64| -> Option<i64> {
            i64::try_from(self.inverses[axis].coordinate(cell - self.axes[axis].first)?).ok()
        };
        let mut found: PerAxis = (0..axes + replicas).map(|_| Affine::zero(counts.len())).collect();
        for (i, affine) in found.iter_mut().enumerate() {
            affine.at = if i < axes { coordinate(i, here[i])? } else { here[i] };
        }
        let mut there: Cells = smallvec![0; axes + replicas];
        for (k, (&step, _)) in steps.iter().zip(counts).enumerate().filter(|(_, (_, n))| **n > 1) {
            there.fill(0);
            self.cells((at.0.checked_add(step.0)?, at.1.checked_add(step.1)?), &mut there)?;
            for (i, affine) in found.iter_mut().enumerate().filter(|&(i, _)| there[i] != here[i]) {
                affine.steps[k] = if i < axes { coordinate(i, there[i])? } else { there[i] } - affine.at;
            }
        }
        Some(Index { axes, values: found })
    }

    /// The cells of all axes, and the replicas, at an address.
    fn cells(&self, (bytes, slot): (i64, i64), out: &mut [i64]) -> Option<()> {
        let mut put = |counts: Counts, value: i64| match counts {
            Counts::Cells(axis, weight) => out[axis] += value * weight,
            Counts::Replica(i) => out[self.axes.len() + i] = value,
        };
        let (mut rest, mut slot) = (bytes.checked_sub(self.layout.offset)?, slot);
        if rest < 0 || slot < 0 {
            return None;
        }
        // Most digits of a step are 0, and a division takes longer than to see that.
        for &(digit, counts) in &self.bytes {
            if rest >= digit.bytes {
                let value = (rest / digit.bytes).min(digit.n - 1);
                rest -= value * digit.bytes;
                put(counts, value);
            }
        }
        for &(digit, counts) in &self.slots {
            if slot >= digit.slot {
                let value = (slot / digit.slot).min(digit.n - 1);
                slot -= value * digit.slot;
                put(counts, value);
            }
        }
        (rest == 0 && slot == 0).then_some(())
    }

    /// The addresses of an index.
    pub(super) fn follow(&self, index: &Index, counts: &[u64]) -> Result<Address, Break> {
        let mut to = address(self.layout, &self.axes, index.coordinates(), counts)?;
        for (value, replica) in index.replicas().iter().zip(&self.layout.replicas) {
            if let Some(broken) = value.leaves(counts, 0, replica.n as i64) {
                return Err(broken);
            }
            to.bytes.add(value, self.layout.linear(replica.step));
        }
        Ok(to)
    }
}

/// A run of dimensions that follow one another in an axis of either layout.
struct Dims {
    /// How many indices it has.
    size: i64,
    /// The axis of the source, and how many coordinates of it one index is.
    axis: usize,
    weight: i64,
}

/// The dimensions that the axes of both layouts share: from coordinates of the destination to those of the source.
pub(super) struct Joint {
    /// For each axis of the destination, outermost first.
    dims: Vec<SmallVec<[Dims; 2]>>,
    /// How many axes the source has.
    axes: usize,
}

impl Joint {
    pub(super) fn new(source: &Layout, destination: &Layout) -> Joint {
        let shape = source.shape();
        // Of each dimension: axis of the source, what it weighs there, and the dimension behind it.
        let mut places: SmallVec<[_; 8]> = smallvec![(0, 0, None); shape.len()];
        for (axis, own) in source.axes.iter().enumerate() {
            let (mut weight, mut behind) = (1, None);
            for d in wide(&own.dims, shape).rev() {
                places[d] = (axis, weight, behind);
                (weight, behind) = (weight * shape[d] as i64, Some(d));
            }
        }
        let dims = destination.axes.iter().map(|axis| {
            let mut out: SmallVec<[Dims; 2]> = SmallVec::new();
            let mut last: Option<usize> = None;
            for d in wide(&axis.dims, shape) {
                let (axis, weight, _) = places[d];
                let size = shape[d] as i64;
                match (out.last_mut(), last) {
                    (Some(outer), Some(last)) if places[last].2 == Some(d) => {
                        *outer = Dims { size: outer.size * size, axis, weight };
                    }
                    _ => out.push(Dims { size, axis, weight }),
                }
                last = Some(d);
            }
            out
        });
        Joint { dims: dims.collect(), axes: source.axes.len() }
    }

    /// The coordinates of the source, one for each axis.
    pub(super) fn source_index(&self, index: &Index, counts: &[u64]) -> Result<PerAxis, Break> {
        let mut out: PerAxis = (0..self.axes).map(|_| Affine::zero(counts.len())).collect();
        for (dims, coordinate) in self.dims.iter().zip(index.coordinates()) {
            let Some((last, outer)) = dims.split_last() else { continue };
            let mut rest = coordinate.copied();
            for (k, part) in outer.iter().enumerate() {
                let inside: i64 = dims[k + 1..].iter().map(|d| d.size).product();
                let (value, inner) = rest.divide(inside, counts)?;
                out[part.axis].add(&value, part.weight);
                rest = inner;
            }
            out[last.axis].add(&rest, last.weight);
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Tensor;
    use crate::{DType, Descriptor, Placement};

    fn layout(text: &str, shape: [u64; 2]) -> Layout {
        let tensor = Tensor::new(shape, DType::F32);
        text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap()
    }

    /// Row `i` lies on row `i + 2` of 7.
    #[test]
    fn an_address_leads_to_the_index_and_back() {
        let l1 = "memref<7x16xf32, #tt.memory_space<l1>>";
        let layout =
            layout(&format!("#tt.metal_layout<(d0, d1) -> (d0 + 2, d1), undef, <1x1>, {l1}>"), [5, 16]);
        let destination = Destination::new(&layout);
        for (row, col) in (0..7).flat_map(|row| (0..16).map(move |col| (row, col))) {
            let byte = (row * 16 + col) * 4;
            let Some(index) = destination.index((byte, 0), &[], &[]) else {
                assert!(row < 2, "{row} {col}");
                continue;
            };
            let coordinates: Vec<i64> = index.coordinates().iter().map(|affine| affine.at).collect();
            assert_eq!(coordinates, [row - 2, col]);
            let there = destination.follow(&index, &[]).unwrap();
            assert_eq!((there.bytes.at, there.slot.at), (byte, 0));
        }
        // Two rows of three columns, from the right to the left.
        let index = destination.index((200, 0), &[2, 3], &[(64, 0), (-4, 0)]).unwrap();
        let steps: Vec<_> = index.coordinates().iter().map(|affine| affine.steps.to_vec()).collect();
        assert_eq!(steps, [[1, 0], [0, -1]]);
        for nowhere in [(-4, 0), (202, 0), (200, 1), (200, -1), (7 * 64, 0), (i64::MIN, 0), (i64::MAX, 0)] {
            assert!(destination.index(nowhere, &[], &[]).is_none(), "{nowhere:?}");
        }
    }

    /// Digits of which one goes on where another ends are one: values break less often.
    #[test]
    fn digits_that_go_on_are_joined() {
        let of = |text: &str, shape| {
            let layout = layout(text, shape);
            let counts = |axis: &Axis<'_>| axis.digits.iter().map(|digit| digit.n).collect::<Vec<_>>();
            Axis::all(&layout).iter().map(counts).collect::<Vec<_>>()
        };
        // Rows of shards that follow one another; columns of tiles of two faces that do not.
        let shards =
            "ttnn(dtype=float32, layout=ROW_MAJOR, memory=HEIGHT_SHARDED, grid=(4, 1), shard=(8, 32))";
        assert_eq!(of(shards, [32, 32]), [[32], [32]]);
        assert_eq!(of("ttnn(dtype=float32, layout=TILE)", [64, 64]), [vec![2, 2, 16], vec![2, 2, 16]]);
        assert_eq!(of("ttnn(dtype=float32, layout=TILE)", [64, 32]), [vec![4, 16], vec![2, 16]]);
    }
}
