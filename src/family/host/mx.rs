//! Row-major host arrays in the microscaling (MX) formats, as the OCP text lays their blocks out.

use crate::dtype::{BlockFormat, Format};
use crate::error::{Error, Result};
use crate::family::{Family, Placement, Tensor, check_shape, check_sizes, volume};
use crate::layout::axis::{Axis, Level};
use crate::layout::piecewise::Piecewise;
use crate::layout::{Geometry, Layout, Parts, Space, Tile, tile_bytes};

/// How a block is stored: 32 elements of a row behind their scale.
const BLOCK: Tile = Tile { rows: 1, cols: 32, transposed: false, compact: true };

/// A host array of MX blocks: `memref<64x96xmxfp8_e4m3>`.
///
/// The last dimension is cut into blocks of 32 consecutive elements, the last one of a row padded. A block is its scale
/// byte, then its codes, each as wide as the format's elements, the first in the lowest bits; blocks follow one
/// another row-major.
///
/// ```
/// use tilewright::dtype::BlockFormat;
/// use tilewright::family::host::mx::MxArray;
/// use tilewright::{DType, Descriptor, Placement, Tensor};
///
/// let array = MxArray::new([2, 40], BlockFormat::MxFp8E4M3);
/// let layout = Descriptor::from(array).layout(&Tensor::new([2, 40], DType::F32), &Placement::default())?;
/// // Two rows of two blocks, each a scale and 32 codes of a byte.
/// assert_eq!(layout.total_bytes(), 2 * 2 * 33);
/// # Ok::<(), tilewright::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct MxArray {
    /// Shape in elements, outermost dimension first; at least one dimension.
    pub shape: Vec<u64>,
    /// One of the formats of 32 elements to a scale.
    pub format: BlockFormat,
}

impl MxArray {
    /// An array of `shape` in elements.
    pub fn new(shape: impl Into<Vec<u64>>, format: BlockFormat) -> MxArray {
        MxArray { shape: shape.into(), format }
    }

    /// The MX format of a name.
    pub fn format(name: &str) -> Option<BlockFormat> {
        BlockFormat::from_name(name).filter(|f| tile_bytes(*f, BLOCK) > 0)
    }
}

impl Family for MxArray {
    /// Checks that there is a dimension to cut into blocks, and that the format has them.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    fn validate(&self) -> Result<()> {
        check_sizes("shape", &self.shape)?;
        if self.shape.is_empty() {
            return Err(Error::value("shape", "no dimension", "a last dimension to cut into blocks of 32"));
        }
        if tile_bytes(self.format, BLOCK) == 0 {
            return Err(Error::value("element type", self.format, "an MX format"));
        }
        Ok(())
    }

    /// The layout of a tensor of this shape: one buffer of whole blocks.
    ///
    /// # Errors
    /// Where the tensor has another shape, or the blocks pass 2^60 bytes.
    fn to_layout(&self, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout> {
        self.validate()?;
        check_shape("memref shape", &self.shape, tensor)?;
        let (&len, outer) = self.shape.split_last().unwrap_or((&0, &[]));
        let block = tile_bytes(self.format, BLOCK);
        let blocks = len.div_ceil(BLOCK.cols);
        let bytes = volume("the memref", outer.iter().copied().chain([blocks, block]))?;
        let mut axes = Vec::new();
        if bytes > 0 {
            let cells = vec![Level::bytes(blocks, block as i64), Level { n: BLOCK.cols, step: [0, 0, 1] }];
            axes.push(Axis::new(vec![outer.len()], 0, Piecewise::run(len, [1]), cells)?);
            let mut step = (blocks * block) as i64;
            for (d, &n) in outer.iter().enumerate().rev() {
                axes.push(Axis::line(d, n, [0, step, 0])?);
                step *= n as i64;
            }
            axes.reverse();
        }
        Layout::new(Parts {
            shape: self.shape.clone(),
            format: Format::Block(self.format),
            tile: Some(BLOCK),
            axes,
            replicas: vec![],
            offset: 0,
            space: Space::in_order(1, bytes),
            fill: placement.pad_value.unwrap_or(0.0),
            geometry: Geometry { physical_shape: self.shape.clone(), ..Geometry::default() },
        })
    }
}
