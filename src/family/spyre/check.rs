//! What is checked of maps, orders and sticks.

use super::format::DataFormat;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::family::check_count;

/// A `dim_map` names as many host dimensions as there are; a scalar may count as one of size 1.
pub(super) fn check_host_rank(map: &[Option<usize>], rank: usize) -> Result<()> {
    let named = map.iter().flatten().map(|d| d + 1).max().unwrap_or(0);
    if named != rank && (rank, named) != (0, 1) {
        let given = format!("{named} host dimensions");
        return Err(Error::value("dim_map", given, format!("{rank}, as the tensor has")));
    }
    Ok(())
}

pub(super) fn check_stick(device_size: &[u64], sticks: u64, format: DataFormat) -> Result<()> {
    let stick = device_size.last().copied().unwrap_or(0);
    if stick > sticks {
        let needed = format!("at most {sticks}, the elements of a {} stick", format.name());
        return Err(Error::value("device_size", format!("a last size of {stick}"), needed));
    }
    Ok(())
}

pub(super) fn format_of(dtype: DType) -> Result<DataFormat> {
    let needed = "an element type that Spyre has a format for";
    DataFormat::of(dtype).ok_or_else(|| Error::value("dtype", dtype, needed))
}

pub(super) fn elements_per_stick(what: &str, format: DataFormat) -> Result<u64> {
    format.elements_per_stick().ok_or_else(|| {
        Error::value(what, format.name(), "a format with a known number of elements in a stick")
    })
}

/// Host dimensions 0, 1, .. up to the largest occur at least once; one synthetic dimension at most is larger than 1.
pub(super) fn check_dim_map(map: &[Option<usize>], device_size: &[u64]) -> Result<()> {
    let rank = map.iter().flatten().map(|d| d.saturating_add(1)).max().unwrap_or(0);
    if rank > map.len() {
        return Err(Error::value(
            "dim_map",
            format!("host dimension {}", rank - 1),
            format!("-1 to {}, for there are {} device dimensions", map.len() - 1, map.len()),
        ));
    }
    if let Some(missing) = (0..rank).find(|d| !map.contains(&Some(*d))) {
        return Err(Error::value(
            "dim_map",
            format!("no host dimension {missing}"),
            "every host dimension at least once",
        ));
    }
    let synthetic = map.iter().zip(device_size).filter(|(d, size)| d.is_none() && **size != 1).count();
    if synthetic > 1 {
        return Err(Error::value(
            "dim_map",
            format!("{synthetic} synthetic dimensions (-1)"),
            "at most one larger than 1",
        ));
    }
    Ok(())
}

/// A permutation of the host dimensions, with or without a -1 behind it.
pub(super) fn check_dim_order(order: &[Option<usize>], rank: usize) -> Result<()> {
    let dense = match order.split_last() {
        Some((None, rest)) => rest,
        _ => order,
    };
    check_count("dim_order", dense.len(), rank, "one for each dimension, and perhaps -1 behind them")?;
    for (at, dim) in dense.iter().enumerate() {
        let given = match dim {
            None => "-1 before the end".into(),
            Some(d) if *d >= rank => format!("dimension {d}"),
            Some(d) if dense[..at].contains(dim) => format!("dimension {d} twice"),
            _ => continue,
        };
        return Err(Error::value("dim_order", given, format!("each of the {rank} dimensions once")));
    }
    Ok(())
}
