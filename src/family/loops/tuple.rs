//! Three tuples: one loop nest.

use super::nests::Nests;
use crate::dtype::Format;
use crate::error::Result;
use crate::family::{Family, Placement, Tensor, check_count, check_sizes};
use crate::layout::Layout;
use crate::layout::piecewise::Region;

/// `((4, 1024, 64), (65536, 64, 1), (64, 256, 1))`: one loop nest, outermost loop first, in elements.
///
/// ```
/// use tilewright::family::loops::ThreeTuple;
///
/// let tuple = ThreeTuple::new(vec![4, 1024, 64], vec![65536, 64, 1], vec![64, 256, 1]);
/// assert_eq!(tuple.to_string(), "((4, 1024, 64), (65536, 64, 1), (64, 256, 1))");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ThreeTuple {
    /// Trip count of each loop.
    pub ranges: Vec<u64>,
    /// Step of each loop in device memory.
    pub device_strides: Vec<i64>,
    /// Step of each loop in host memory.
    pub host_strides: Vec<i64>,
}

impl ThreeTuple {
    /// Loops of these trip counts, with these steps on the device and on the host.
    pub fn new(ranges: Vec<u64>, device_strides: Vec<i64>, host_strides: Vec<i64>) -> ThreeTuple {
        ThreeTuple { ranges, device_strides, host_strides }
    }
}

impl Family for ThreeTuple {
    /// Checks that the three have one entry for each loop.
    ///
    /// # Errors
    /// [`crate::Error::Value`] that names the tuple.
    fn validate(&self) -> Result<()> {
        check_sizes("ranges", &self.ranges)?;
        check_count(
            "device strides",
            self.device_strides.len(),
            self.ranges.len(),
            "as many as there are ranges",
        )?;
        check_count("host strides", self.host_strides.len(), self.ranges.len(), "as many as there are ranges")
    }

    /// The layout of a tensor whose row-major elements the host strides count.
    ///
    /// The device buffer ends with the highest place that an element has; places between are padding, 0
    /// unless the placement says otherwise.
    ///
    /// # Errors
    /// Where the loops do not reach every element of the tensor exactly once, where two elements would lie on
    /// one place or one in front of the buffer, and for more than 2^60 bytes.
    fn to_layout(&self, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout> {
        self.validate()?;
        let steps = self.host_strides.iter().zip(&self.device_strides);
        let loops = self.ranges.iter().zip(steps).map(|(&n, (&h, &d))| (n, [h, d])).collect();
        let nests = Nests { pieces: vec![Region { at: [0, 0], loops }], repeats: vec![] };
        nests.into_layout(tensor, Format::Plain(tensor.dtype), None, placement)
    }
}
