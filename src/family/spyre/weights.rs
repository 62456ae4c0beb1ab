//! QFP8WT: weights of 8-bit floats as the matrix unit reads them.

use super::descriptor::{Constructor, SpyreLayout};
use super::device::Device;
use super::format::DataFormat;
use crate::dtype::{DType, Format};
use crate::error::{Error, Result};
use crate::family::{Placement, Tensor, join};
use crate::layout::axis::{Axis, Level};
use crate::layout::piecewise::Piecewise;
use crate::layout::{Geometry, Layout, Parts, Space};

/// Columns of a stick, and rows of a stick.
const STICK: [u64; 2] = [64, 2];

/// The layout of a weight [K, N]: N / 64 blocks of columns, K / 2 pairs of rows in each, 64 columns, and the two rows of
/// the pair side by side. Element (k, n) lies at byte `n / 64 * 64 K + k / 2 * 128 + n % 64 * 2 + k % 2`.
pub(super) fn layout(
    spyre: &SpyreLayout,
    tensor: &Tensor,
    device: &Device,
    placement: &Placement<'_>,
) -> Result<Layout> {
    let [columns, rows] = STICK;
    let what = "weight in the arrangement QFP8WT";
    if device.format != DataFormat::Sen143Fp8 || tensor.dtype != DType::F8E4M3 {
        let given = format!("{} of {}", device.format.name(), tensor.dtype);
        return Err(Error::value(what, given, "SEN143_FP8 of f8e4m3"));
    }
    if let SpyreLayout::Constructor(Constructor { dim_order: Some(order), .. }) = spyre
        && *order != [Some(0), Some(1)]
    {
        return Err(Error::value(
            "dim_order",
            format!("{order:?}"),
            "[0, 1] for QFP8WT: rows are summed over",
        ));
    }
    let [k, n] = tensor.shape[..] else {
        let given = format!("{} dimensions, {}", tensor.shape.len(), join(&tensor.shape));
        return Err(Error::value(what, given, "two, [K, N]"));
    };
    if !k.is_multiple_of(rows) || !n.is_multiple_of(columns) {
        let needed = "an even number of rows, and a multiple of 64 columns";
        return Err(Error::value(what, format!("{k} rows by {n} columns"), needed));
    }
    // Inside of the size of the tensor, which was checked.
    let bytes = |n: u64, step: u64| Level::bytes(n, step as i64);
    let row = vec![bytes(k / rows, rows * columns), bytes(rows, 1)];
    let column = vec![bytes(n / columns, columns * k), bytes(columns, rows)];
    let axes = if k * n == 0 {
        vec![]
    } else {
        vec![
            Axis::new(vec![0], 0, Piecewise::run(k, [1]), row)?,
            Axis::new(vec![1], 0, Piecewise::run(n, [1]), column)?,
        ]
    };
    let size = vec![n / columns, k / rows, columns, rows];
    let stride = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    Layout::new(Parts {
        shape: tensor.shape.clone(),
        format: Format::Plain(DType::F8E4M3),
        tile: None,
        axes,
        replicas: vec![],
        offset: 0,
        space: Space::in_order(1, k * n),
        fill: placement.pad_value.unwrap_or(0.0),
        geometry: Geometry {
            physical_shape: size.clone(),
            device_size: Some(size),
            stride_map: Some(vec![stride(columns), stride(rows * n), 1, stride(n)]),
            ..Geometry::default()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Family;
    use crate::family::spyre::{Arrangement, Explicit};
    use crate::layout::coverage::{Held, held};

    fn weight(k: u64, n: u64) -> Constructor {
        Constructor::new(vec![k, n], DType::F8E4M3).with_arrangement(Arrangement::Qfp8Wt)
    }

    #[test]
    fn elements_lie_where_the_formula_says() {
        for [k, n] in [[2, 64], [6, 128], [64, 192], [10, 64]] {
            let tensor = Tensor { shape: vec![k, n], dtype: DType::F8E4M3 };
            let built = SpyreLayout::from(weight(k, n)).to_layout(&tensor, &Placement::default()).unwrap();
            let mut expected = vec![Held::Fill; (k * n) as usize];
            for (row, column) in (0..k).flat_map(|row| (0..n).map(move |column| (row, column))) {
                let at = column / 64 * 64 * k + row / 2 * 128 + column % 64 * 2 + row % 2;
                expected[at as usize] = Held::Element(row * n + column);
            }
            assert_eq!(held(&built), expected, "{k}x{n}");
            // The same from what the device tells of itself.
            let explicit = Explicit::new(vec![n.div_ceil(128), k, 128])
                .with_stride_map(vec![128, n as i64, 1])
                .with_dtype(DataFormat::Sen143Fp8)
                .with_arrangement(Arrangement::Qfp8Wt);
            let explicit = SpyreLayout::from(explicit).to_layout(&tensor, &Placement::default()).unwrap();
            assert_eq!(held(&explicit), expected, "{k}x{n}");
        }
    }

    #[test]
    fn what_is_no_such_weight_is_refused() {
        let refused = |spyre: Constructor, shape: &[u64], dtype, mentioned: &str| {
            let tensor = Tensor { shape: shape.to_vec(), dtype };
            let error =
                SpyreLayout::from(spyre).to_layout(&tensor, &Placement::default()).unwrap_err().to_string();
            assert!(error.contains(mentioned), "{error}");
        };
        let fp8 = DType::F8E4M3;
        refused(weight(3, 64), &[3, 64], fp8, "3 rows");
        refused(weight(2, 65), &[2, 65], fp8, "65 columns");
        refused(weight(2, 64).with_dim_order(vec![Some(1), Some(0)]), &[2, 64], fp8, "dim_order");
        let cube = Constructor::new(vec![2, 2, 64], fp8).with_arrangement(Arrangement::Qfp8Wt);
        refused(cube, &[2, 2, 64], fp8, "3 dimensions");
        let half = Constructor::new(vec![2, 64], DType::F16).with_arrangement(Arrangement::Qfp8Wt);
        refused(half, &[2, 64], DType::F16, "SEN169_FP16");
    }
}
