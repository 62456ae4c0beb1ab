//! Host matrices that are stored in panels: some columns of all rows, and then the next columns.

use crate::dtype::Format;
use crate::error::{Error, Result};
use crate::family::{Tensor, check_sizes, volume};
use crate::layout::axis::{Axis, Level};
use crate::layout::piecewise::Piecewise;
use crate::layout::{Geometry, Layout, MAX_BYTES, Parts, Space};

/// A stack of matrices, each cut along one of the last two dimensions into panels of `width`, which lie one after another:
/// the array `[.., panels, other dimension, width]`, row-major. The last panel is as large as the others; what the
/// tensor does not fill is padding.
///
/// A matrix whose rows become columns on their way to a device needs all of its rows at once for the first columns of
/// the result. Read in panels, as a file of a row-major array can be, it needs a panel of each.
///
/// ```
/// use tilewright::family::host::panels::Panels;
/// use tilewright::{DType, Tensor};
///
/// // Columns 0 and 1 of both rows, and then column 2.
/// let layout = Panels { dim: 1, width: 2 }.layout(&Tensor::new([2, 3], DType::U8))?;
/// assert_eq!(layout.total_bytes(), 8);
/// assert_eq!(layout.locate(&[1, 0])?[0].byte, 2);
/// assert_eq!(layout.locate(&[1, 2])?[0].byte, 6);
/// # Ok::<(), tilewright::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Panels {
    /// The dimension that is cut, the last or the last but one.
    pub dim: usize,
    /// Elements of it in a panel, 1 or more.
    pub width: u64,
}

impl Panels {
    /// How many panels a dimension of `len` becomes.
    pub fn count(&self, len: u64) -> u64 {
        len.div_ceil(self.width.max(1))
    }

    /// The layout of a tensor.
    ///
    /// # Errors
    /// [`Error::Value`] for a tensor without rows and columns, another dimension, or a width of 0; where the array would
    /// be larger than 2^60 bytes.
    pub fn layout(&self, tensor: &Tensor) -> Result<Layout> {
        let Panels { dim, width } = *self;
        let Tensor { shape, dtype } = tensor;
        let n = shape.len();
        if n < 2 || !(n - 2..n).contains(&dim) {
            let needed = "the last dimension or the last but one, of two or more";
            return Err(Error::value("dimension of panels", format!("{dim} of {n}"), needed));
        }
        if width == 0 {
            return Err(Error::value("width of panels", width, "1 or more"));
        }
        check_sizes("shape", shape)?;
        let other = 2 * n - 3 - dim;
        let stored = shape[..n - 2].iter().copied().chain([self.count(shape[dim]), shape[other], width]);
        let elements = volume("the panels", stored)?;
        let size = dtype.size() as i64;
        let bytes = elements.checked_mul(size as u64).filter(|&b| b <= MAX_BYTES);
        let bytes = bytes.ok_or_else(|| Error::overflow("the panels"))?;
        let mut axes = Vec::new();
        if elements > 0 {
            let (row, panel) = (width as i64 * size, (shape[other] * width) as i64 * size);
            let cells = vec![Level::bytes(self.count(shape[dim]), panel), Level::bytes(width, size)];
            axes.push(Axis::new(vec![dim], 0, Piecewise::run(shape[dim], [1]), cells)?);
            axes.push(Axis::line(other, shape[other], [0, row, 0])?);
            let mut step = panel * self.count(shape[dim]) as i64;
            for d in (0..n - 2).rev() {
                axes.push(Axis::line(d, shape[d], [0, step, 0])?);
                step *= shape[d] as i64;
            }
            axes.sort_by_key(|axis| axis.dims[0]);
        }
        Layout::new(Parts {
            shape: shape.clone(),
            format: Format::Plain(*dtype),
            tile: None,
            axes,
            replicas: vec![],
            offset: 0,
            space: Space::in_order(1, bytes),
            fill: 0.0,
            geometry: Geometry { physical_shape: shape.clone(), ..Geometry::default() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    /// Every element is where the words of [`Panels`] put it.
    #[test]
    fn places_are_those_of_the_array() {
        for (shape, dim) in [([3, 5, 7], 2), ([3, 5, 7], 1), ([1, 4, 4], 1), ([2, 1, 9], 2), ([2, 9, 1], 1)] {
            for width in 1..=10 {
                let panels = Panels { dim, width };
                let layout = panels.layout(&Tensor::new(shape, DType::U16)).unwrap();
                let (other, count) = (3 - dim, shape[dim].div_ceil(width));
                assert_eq!(layout.total_bytes(), 2 * shape[0] * count * shape[other] * width);
                for index in (0..shape.iter().product())
                    .map(|i: u64| [i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]])
                {
                    let (panel, within) = (index[dim] / width, index[dim] % width);
                    let place = ((index[0] * count + panel) * shape[other] + index[other]) * width + within;
                    assert_eq!(
                        layout.locate(&index).unwrap()[0].byte,
                        2 * place,
                        "{shape:?} {index:?} by {width}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_cut_is_refused() {
        let tensor = Tensor::new([4, 4], DType::U8);
        for panels in [Panels { dim: 2, width: 1 }, Panels { dim: 0, width: 0 }] {
            assert!(panels.layout(&tensor).is_err(), "{panels:?}");
        }
        assert!(Panels { dim: 0, width: 1 }.layout(&Tensor::new([4], DType::U8)).is_err());
        assert!(Panels { dim: 0, width: u64::MAX }.layout(&tensor).is_err());
        assert_eq!(
            Panels { dim: 0, width: 3 }.layout(&Tensor::new([0, 4], DType::U8)).unwrap().total_bytes(),
            0
        );
    }
}
