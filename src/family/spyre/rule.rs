//! The runtime's default rule, and which host index each device dimension carries.

use crate::error::{Error, Result};
use crate::family::host::strided::row_major;

/// The host dimension of each device dimension, and the device size, of a tensor made without an explicit
/// layout: `dim_order` rotated left by one, then the stick dimension once more. Where the stick dimension
/// occurs first it counts sticks.
pub(super) fn default_rule(
    shape: &[u64],
    order: Option<&[Option<usize>]>,
    sticks: u64,
) -> (Vec<Option<usize>>, Vec<u64>) {
    let natural: Vec<Option<usize>> = (0..shape.len()).map(Some).collect();
    let mut slots = order.unwrap_or(&natural).to_vec();
    let stick = slots.last().copied().flatten();
    if slots.is_empty() {
        slots.push(None);
    }
    slots.rotate_left(1);
    slots.push(stick);
    let size = |(k, slot): (usize, &Option<usize>)| match *slot {
        _ if k + 1 == slots.len() => sticks,
        Some(d) if Some(d) == stick => shape[d].div_ceil(sticks),
        Some(d) => shape[d],
        None => 1,
    };
    let size = slots.iter().enumerate().map(size).collect();
    (slots, size)
}

/// The host stride of each device dimension, as upstream prints it and as far as it carries an index. The
/// device dimensions of one host dimension are its digits, the last one counting by 1.
pub(super) fn map_strides(
    slots: &[Option<usize>],
    size: &[u64],
    shape: &[u64],
) -> Result<(Vec<i64>, Vec<i64>)> {
    let strides = host_strides(slots, size, shape, &row_major(shape));
    let mut capacity = vec![1_u64; shape.len()];
    let mut carried = vec![-1; slots.len()];
    for (k, d) in digits(slots, shape) {
        if capacity[d] < shape[d] {
            carried[k] = strides[k];
        }
        capacity[d] = capacity[d].saturating_mul(size[k]);
    }
    for (d, (&capacity, &n)) in capacity.iter().zip(shape).enumerate() {
        if capacity < n {
            let given = format!("{capacity} places for host dimension {d}");
            return Err(Error::value(
                "device_size",
                given,
                format!("{n} or more, the size of the dimension"),
            ));
        }
    }
    Ok((strides, carried))
}

/// The stride of each device dimension in a host array with strides; -1 where it runs along none.
pub(super) fn host_strides(slots: &[Option<usize>], size: &[u64], shape: &[u64], host: &[i64]) -> Vec<i64> {
    let mut weights = vec![1_u64; shape.len()];
    let mut strides = vec![-1; slots.len()];
    for (k, d) in digits(slots, shape) {
        strides[k] = host[d].saturating_mul(i64::try_from(weights[d]).unwrap_or(i64::MAX));
        weights[d] = weights[d].saturating_mul(size[k]);
    }
    strides
}

/// The device dimensions that run along a host dimension of more than one index, innermost first. A scalar may be
/// described as one dimension of size 1.
fn digits<'a>(slots: &'a [Option<usize>], shape: &'a [u64]) -> impl Iterator<Item = (usize, usize)> + 'a {
    let runs = |d: usize| shape.get(d).is_some_and(|&n| n != 1);
    slots.iter().enumerate().rev().filter_map(move |(k, slot)| Some((k, slot.filter(|&d| runs(d))?)))
}

/// The strides of a `dim_map` that comes with a `stride_map`; an error unless both say the same.
pub(super) fn agree(
    given: &[i64],
    map: &[Option<usize>],
    size: &[u64],
    strides: Vec<i64>,
    mut carried: Vec<i64>,
) -> Result<(Vec<i64>, Vec<i64>)> {
    for k in (0..map.len()).filter(|&k| size[k] != 1) {
        let same = match map[k] {
            None => given[k] <= 0,
            Some(_) if carried[k] == -1 => given[k] == -1 || given[k] == strides[k] || strides[k] == -1,
            Some(_) => given[k] == carried[k],
        };
        if !same {
            return Err(Error::Derived {
                what: "stride_map",
                given: format!("{given:?}"),
                derived: format!("{strides:?}"),
                rule: "dim_map and the host shape".into(),
            });
        }
        if map[k].is_none() {
            carried[k] = given[k];
        }
    }
    Ok((given.to_vec(), carried))
}

/// Host strides without those that carry nothing: of size 1, as large as the tensor, or the same as the stride of an earlier one.
pub(super) fn carrying(strides: &[i64], size: &[u64], elements: u64) -> Vec<i64> {
    let mut carried: Vec<i64> = Vec::new();
    for (&stride, &n) in strides.iter().zip(size) {
        let none = n == 1 || stride > 0 && (stride as u64 >= elements || carried.contains(&stride));
        carried.push(if none { -1 } else { stride });
    }
    carried
}
