//! A layout with every default filled in, and how it places elements.

use super::check::{check_host_rank, check_stick, elements_per_stick, format_of};
use super::descriptor::{Constructor, Explicit, SpyreLayout};
use super::format::{DataFormat, STICK_BYTES};
use super::rule::{agree, carrying, default_rule, host_strides, map_strides};
use crate::dtype::Format;
use crate::error::{Error, Result};
use crate::family::host::strided::row_major;
use crate::family::{Tensor, check_shape, check_sizes, join, volume};
use crate::layout::axis::{Axis, Level};
use crate::layout::element_bytes;
use crate::layout::piecewise::Piecewise;

/// A layout with every default filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Device {
    /// Sizes of the device dimensions, the stick last.
    pub(super) size: Vec<u64>,
    /// Host strides as upstream would print them.
    pub(super) strides: Vec<i64>,
    /// Host strides of the dimensions that carry an index; 0 for those that repeat, -1 for the others.
    pub(super) carried: Vec<i64>,
    pub(super) format: DataFormat,
}

impl SpyreLayout {
    /// What the descriptor says of this tensor, with every default filled in.
    pub(super) fn resolve(&self, tensor: &Tensor) -> Result<Device> {
        self.check()?;
        let shape = &tensor.shape;
        check_sizes("shape", shape)?;
        let elements = volume("the tensor", shape.iter().copied())?;
        let (size, strides, carried, format) = match self {
            SpyreLayout::Constructor(Constructor { size, strides: given, dtype, dim_order, .. }) => {
                check_shape("size", size, tensor)?;
                let format = format_of(*dtype)?;
                let (slots, size) =
                    default_rule(size, dim_order.as_deref(), elements_per_stick("dtype", format)?);
                let (mut strides, carried) = map_strides(&slots, &size, shape)?;
                if let Some(given) = given {
                    strides = host_strides(&slots, &size, shape, given);
                }
                (size, strides, carried, format)
            }
            SpyreLayout::Explicit(Explicit { device_size, dim_map, stride_map, dtype, .. }) => {
                let format = dtype.map_or_else(|| format_of(tensor.dtype), Ok)?;
                let sticks = elements_per_stick("device_dtype", format)?;
                check_stick(device_size, sticks, format)?;
                let (strides, carried) = match (dim_map, stride_map) {
                    (Some(map), given) => {
                        check_host_rank(map, shape.len())?;
                        let (strides, carried) = map_strides(map, device_size, shape)?;
                        match given {
                            Some(given) => agree(given, map, device_size, strides, carried)?,
                            None => (strides, carried),
                        }
                    }
                    (None, given) => {
                        let given = given.clone().unwrap_or_default();
                        (given.clone(), given)
                    }
                };
                (device_size.clone(), strides, carried, format)
            }
        };
        if elements > 0
            && let Some(k) = size.iter().position(|&n| n == 0)
        {
            let needed = format!("1 or more, for the tensor has {elements} elements");
            return Err(Error::value("device_size", format!("0 in dimension {k}"), needed));
        }
        let carried = carrying(&carried, &size, elements);
        Ok(Device { size, strides, carried, format })
    }
}

/// One digit of a host index.
#[derive(Debug, Clone, Copy)]
struct Digit {
    /// The device dimension.
    dim: usize,
    /// Host elements that one step of it moves by.
    stride: u64,
}

impl Device {
    /// The host dimension that a device dimension carries; the greatest of those that it folds into one.
    pub(super) fn host_dim(&self, k: usize, shape: &[u64]) -> Option<usize> {
        let host = row_major(shape);
        let below = |d: &usize| shape[*d] > 1 && host[*d] <= self.carried[k];
        (0..shape.len()).filter(below).max_by_key(|&d| host[d])
    }

    /// The axes and the replicas of a tensor that is not empty.
    pub(super) fn axes(&self, shape: &[u64], format: Format) -> Result<(Vec<Axis>, Vec<Level>)> {
        let levels = self.levels(format);
        let (mut axes, mut replicas, mut digits) = (Vec::new(), Vec::new(), Vec::new());
        for (dim, &stride) in self.carried.iter().enumerate() {
            match stride {
                0 => replicas.push(Level { n: self.size[dim], ..levels[dim] }),
                1.. => digits.push(Digit { dim, stride: stride as u64 }),
                _ => axes.push(Axis::new(vec![], 0, Piecewise::ONE, vec![levels[dim]])?),
            }
        }
        digits.sort_by_key(|d| std::cmp::Reverse(d.stride));
        let mut rest = digits.as_slice();
        let mut dims = Vec::new();
        for (d, &stride) in row_major(shape).iter().enumerate() {
            dims.push(d);
            let stride = stride as u64;
            let (mine, inner) = rest.split_at(rest.partition_point(|digit| digit.stride >= stride));
            // These digits count whole steps of this dimension, and each of them.
            let least = mine.last().map_or(1, |digit| digit.stride / stride);
            let whole = mine.iter().all(|digit| digit.stride % stride == 0);
            let counted = !mine.is_empty() || dims.iter().all(|&d| shape[d] == 1);
            if (whole && least == 1 && counted) || d + 1 == shape.len() {
                axes.push(self.axis(std::mem::take(&mut dims), shape, stride, mine, &levels)?);
                rest = inner;
            }
        }
        Ok((axes, replicas))
    }

    /// The axis of host dimensions whose innermost one has host stride `unit`.
    fn axis(
        &self,
        dims: Vec<usize>,
        shape: &[u64],
        unit: u64,
        digits: &[Digit],
        levels: &[Level],
    ) -> Result<Axis> {
        let len = dims.iter().map(|&d| shape[d]).product::<u64>();
        let host: Vec<u64> = dims.iter().map(|&d| shape[d]).collect();
        let (mut places, mut cells) = (Piecewise::ONE, 1_i64);
        // From the innermost digit outward; `places` covers one step of the next one.
        for (i, digit) in digits.iter().enumerate().rev() {
            let weight = digit.stride / unit;
            if i + 1 == digits.len() && weight != 1 {
                return Err(uncounted(&dims, unit, digit.stride));
            }
            let whole = if i == 0 { len } else { digits[i - 1].stride / unit };
            let needed = whole.div_ceil(weight);
            if needed > self.size[digit.dim] {
                return Err(Error::value(
                    "device_size",
                    format!(
                        "{} in dimension {}, host stride {}",
                        self.size[digit.dim], digit.dim, digit.stride
                    ),
                    format!("{needed} or more for host size {}", join(&host)),
                ));
            }
            places = places.repeat(needed, [cells]).slice(0, whole).1;
            // Ragged splits inside of ragged splits may double the parts each time.
            places.regions([0])?;
            cells *= levels[digit.dim].n as i64;
        }
        if places.len() != len {
            return Err(uncounted(&dims, unit, 0));
        }
        Axis::new(dims, 0, places, digits.iter().map(|d| levels[d.dim]).collect())
    }

    /// The cells of each device dimension: all of a stick, whatever its size, and bytes between.
    fn levels(&self, format: Format) -> Vec<Level> {
        let element = element_bytes(format);
        let mut step = STICK_BYTES as i64;
        let stick = Level::bytes(STICK_BYTES / element, element as i64);
        let mut levels = vec![stick];
        for &n in self.size.iter().rev().skip(1) {
            levels.push(Level::bytes(n, step));
            step *= n as i64;
        }
        levels.reverse();
        levels
    }
}

fn uncounted(dims: &[usize], unit: u64, least: u64) -> Error {
    let dims: Vec<String> = dims.iter().map(usize::to_string).collect();
    let given = if least == 0 { "no stride".into() } else { format!("a least stride of {least}") };
    let needed = format!("{unit}, so that every index is counted");
    Error::value(format!("stride_map of host dimension {}", dims.join(", ")), given, needed)
}
