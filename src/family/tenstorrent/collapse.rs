//! Logical dimensions to physical ones through an affine map.

use super::shard::Sharding;
use crate::error::{Error, Result};
use crate::family::volume;
use crate::layout::affine::{AffineExpr, AffineMap};
use crate::layout::axis::{Axis, Level};
use crate::layout::index::{connected, unravel};
use crate::layout::piecewise::Piecewise;

/// The most elements of a group of dimensions that a map joins in a way no product of staircases describes.
const MAX_FOLLOWED: u64 = 1 << 20;

/// The most steps of evaluating a map element by element.
const MAX_STEPS: u64 = 1 << 26;

/// The extent of each result: its value at the last index + 1.
///
/// # Errors
/// Where a value is negative or overflows, or the tensor has more than 2^60 elements.
pub(crate) fn extents(map: &AffineMap, shape: &[u64]) -> Result<Vec<u64>> {
    let elements = volume("the number of elements", shape.iter().copied())?;
    let last: Option<Vec<i64>> = shape.iter().map(|&n| Some(i64::try_from(n).ok()? - 1)).collect();
    let last = last.ok_or_else(|| Error::overflow("the shape"))?;
    let extent = |(r, result): (usize, &AffineExpr)| {
        let end = result.eval(&last).and_then(|v| v.checked_add(1));
        let end = end.ok_or_else(|| Error::overflow(format!("result {r} of the map, {result},")))?;
        if end < 1 && elements > 0 {
            let given = format!("{} at the last index {last:?}", end - 1);
            return Err(Error::value(format!("result {r} of the map, {result}"), given, "0 or more"));
        }
        Ok(end.max(0) as u64)
    };
    map.results().iter().enumerate().map(extent).collect()
}

/// The axes of a tensor whose physical index is `map` of the logical one.
///
/// Dimensions that no result takes apart form one axis; a result without any is an axis of its own.
///
/// # Errors
/// Where a value lies outside of `0..extents`, two elements have one place for want of a dimension, or the map
/// must be followed over more than 2^20 elements.
pub(crate) fn axes(
    map: &AffineMap,
    shape: &[u64],
    extents: &[u64],
    sharding: &Sharding,
) -> Result<Vec<Axis>> {
    if shape.contains(&0) {
        return Ok(vec![]);
    }
    let results: Vec<Physical> =
        map.results().iter().zip(extents).map(|(e, &n)| Physical::new(e, n, shape)).collect::<Result<_>>()?;
    let mut axes = Vec::new();
    for (r, result) in results.iter().enumerate().filter(|(_, p)| p.dims.is_empty()) {
        let x = result.eval(&vec![0; shape.len()])?;
        axes.push(sharding.axis(vec![], x as i64, Piecewise::ONE, r)?);
    }
    for d in (0..shape.len()).filter(|&d| shape[d] == 1) {
        axes.push(Axis::new(vec![d], 0, Piecewise::ONE, vec![])?);
    }
    for dims in groups(&results, shape) {
        let depends = |r: &usize| results[*r].dims.iter().any(|d| dims.contains(d));
        let members: Vec<usize> = (0..results.len()).filter(depends).collect();
        if members.is_empty() {
            let mut second = vec![0; shape.len()];
            second[dims[0]] = 1;
            let what = format!("the map, which leaves out d{}", dims[0]);
            return Err(Error::Collision { what, first: vec![0; shape.len()], second });
        }
        axes.push(axis(dims, &members, &results, shape, sharding)?);
    }
    Ok(axes)
}

/// The step of each dimension and the value at index 0.
type Linear = (Vec<i64>, i64);

/// One result of a map over a tensor.
struct Physical<'a> {
    result: &'a AffineExpr,
    extent: u64,
    /// The dimensions of more than one element on which it depends.
    dims: Vec<usize>,
    /// Its steps, if it is linear.
    linear: Option<Linear>,
}

impl<'a> Physical<'a> {
    fn new(result: &'a AffineExpr, extent: u64, shape: &[u64]) -> Result<Self> {
        let linear = result.linear(shape.len());
        let depends = |d: usize| match &linear {
            Some((steps, _)) => steps[d] != 0,
            None => result.uses(d),
        };
        let dims = (0..shape.len()).filter(|&d| shape[d] > 1 && depends(d)).collect();
        if let Some((steps, at)) = &linear {
            let (mut lo, mut hi) = (i128::from(*at), i128::from(*at));
            for (&n, &step) in shape.iter().zip(steps) {
                let way = (i128::from(n) - 1) * i128::from(step);
                (lo, hi) = (lo + way.min(0), hi + way.max(0));
            }
            if lo < 0 || hi >= i128::from(extent) {
                return Err(outside(result, format!("values from {lo} to {hi}"), extent));
            }
        }
        Ok(Physical { result, extent, dims, linear })
    }

    /// The coordinate of an index.
    fn eval(&self, index: &[i64]) -> Result<u64> {
        let x = self.result.eval(index);
        let x = x.ok_or_else(|| Error::overflow(format!("result {} of the map", self.result)))?;
        let inside = u64::try_from(x).ok().filter(|&x| x < self.extent);
        inside.ok_or_else(|| outside(self.result, format!("{x} at index {index:?}"), self.extent))
    }
}

fn outside(result: &AffineExpr, given: String, extent: u64) -> Error {
    let needed = format!("0 to {}, its value at the last index", extent as i128 - 1);
    Error::value(format!("result {result} of the map"), given, needed)
}

/// The dimensions of more than one element, in groups that no result takes apart.
fn groups(results: &[Physical], shape: &[u64]) -> Vec<Vec<usize>> {
    let single = (0..shape.len()).filter(|&d| shape[d] > 1).map(|d| vec![d]);
    connected(shape.len(), results.iter().map(|result| result.dims.clone()).chain(single))
}

/// The axis of dimensions that form one or more results.
fn axis(
    dims: Vec<usize>,
    members: &[usize],
    results: &[Physical],
    shape: &[u64],
    sharding: &Sharding,
) -> Result<Axis> {
    let digits = Digits::new(members, sharding);
    let linear: Option<Vec<_>> = members.iter().map(|&r| results[r].linear.as_ref()).collect();
    match linear.as_deref() {
        Some([(steps, at)]) => {
            let x = Piecewise::nest(&dims.iter().map(|&d| (shape[d], [steps[d]])).collect::<Vec<_>>());
            return sharding.axis(dims, *at, x, members[0]);
        }
        Some(linear) if digits.in_order && members.iter().all(|&r| sharding.is_whole(r)) => {
            // A cell number is linear too: all results together are one number in mixed radix.
            let whole = |f: &dyn Fn(&Linear) -> i64| -> i64 {
                linear.iter().zip(&digits.weights).map(|(l, &w)| f(l) * w as i64).sum()
            };
            let nest: Vec<_> = dims.iter().map(|&d| (shape[d], [whole(&|l| l.0[d])])).collect();
            return Axis::new(dims, whole(&|l| l.1), Piecewise::nest(&nest), digits.cells);
        }
        _ => {}
    }
    let len = volume("a group of dimensions", dims.iter().map(|&d| shape[d]))?;
    let steps: usize = members.iter().map(|&r| results[r].result.ops().len()).sum();
    if len > MAX_FOLLOWED || len.saturating_mul(steps as u64) > MAX_STEPS {
        let names: Vec<String> = members.iter().map(|&r| results[r].result.to_string()).collect();
        let what = format!("({}), which is followed element by element,", names.join(", "));
        return Err(Error::TooComplex { what, cap: MAX_FOLLOWED as usize });
    }
    let mut cells = Vec::with_capacity(len as usize);
    let (mut index, mut signed) = (vec![0; shape.len()], vec![0; shape.len()]);
    for u in 0..len {
        unravel(u, &dims, shape, &mut index);
        signed.iter_mut().zip(&index).for_each(|(to, &i)| *to = i as i64);
        let mut cell = 0;
        for (k, &r) in members.iter().enumerate() {
            cell += digits.number(k, sharding.cell(r, results[r].eval(&signed)?));
        }
        cells.push([cell as i64]);
    }
    let ([first], places) = Piecewise::through(cells)?;
    Axis::new(dims, first, places, digits.cells)
}

/// The digits of several results as one number: those of each result in turn, but slots of a tile last,
/// so that a tile is a run of cells.
struct Digits {
    cells: Vec<Level>,
    /// For each result: how many values its digits have, outermost first, and the weight of each.
    parts: Vec<Vec<(u64, u64)>>,
    /// Whether the digits of each result stand together.
    in_order: bool,
    /// The weight of the last digit of each result.
    weights: Vec<u64>,
}

impl Digits {
    fn new(members: &[usize], sharding: &Sharding) -> Digits {
        let levels: Vec<Vec<Level>> = members.iter().map(|&r| sharding.cells(r)).collect();
        let mut places: Vec<(usize, usize)> =
            levels.iter().enumerate().flat_map(|(k, l)| (0..l.len()).map(move |i| (k, i))).collect();
        let tiles = levels.iter().filter(|l| l.iter().any(|l| l.step[2] != 0)).count();
        places.sort_by_key(|&(k, i)| levels[k][i].step[2] != 0);
        let mut parts: Vec<Vec<(u64, u64)>> = levels.iter().map(|l| vec![(1, 1); l.len()]).collect();
        let mut weight = 1;
        for &(k, i) in places.iter().rev() {
            parts[k][i] = (levels[k][i].n, weight);
            weight *= levels[k][i].n;
        }
        let cells = places.iter().map(|&(k, i)| levels[k][i]).collect();
        let weights = parts.iter().map(|p| p.last().map_or(1, |d| d.1)).collect();
        Digits { cells, parts, in_order: tiles < 2, weights }
    }

    /// What cell `cell` of the `k`-th result adds to the number.
    fn number(&self, k: usize, mut cell: u64) -> u64 {
        let mut number = 0;
        for &(n, weight) in self.parts[k].iter().rev() {
            number += cell % n * weight;
            cell /= n;
        }
        number
    }
}
