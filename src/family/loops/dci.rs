//! The runtime's conversion record: a list of loop nests.

use super::nests::Nests;
use super::{MAX_NESTS, too_many_nests};
use crate::dtype::Format;
use crate::error::{Error, Result};
use crate::family::spyre::DataFormat;
use crate::family::{Family, Placement, Tensor, check_count, check_sizes, join, volume};
use crate::layout::Layout;
use crate::layout::piecewise::Region;

/// The runtime's description of a host-device conversion (`DataConversionInfo`), written as JSON.
///
/// ```
/// use tilewright::family::loops::{Dci, Dcsi};
///
/// let rows = Dcsi::new(vec![64, 4, 2], vec![1, 100, 64], vec![1, 64, 256]);
/// let rest = Dcsi::new(vec![36, 4], vec![1, 100], vec![1, 64]).with_offsets(128, 512);
/// assert_eq!(Dci::new(vec![rows, rest]).nests.len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Dci {
    /// `isHostToSen_`: from host to device; the other way where false.
    pub host_to_device: bool,
    /// `dataformat_src_`.
    pub source_format: Option<DataFormat>,
    /// `dataformat_dst_`.
    pub destination_format: Option<DataFormat>,
    /// `dcsi_`: the nests; together they cover each element once.
    pub nests: Vec<Dcsi>,
    /// `input_shape_` in elements, innermost first; empty where absent.
    pub input_shape: Vec<u64>,
    /// `output_shape_` in elements, innermost first; empty where absent.
    pub output_shape: Vec<u64>,
}

/// One nest of a [`Dci`], innermost loop first, in elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Dcsi {
    /// `size_`: trip count of each loop.
    pub size: Vec<u64>,
    /// `stride_src_`: step of each loop in the source.
    pub source_strides: Vec<i64>,
    /// `stride_dst_`: step of each loop in the destination.
    pub destination_strides: Vec<i64>,
    /// `offset_src_`: where the nest starts in the source.
    pub source_offset: u64,
    /// `offset_dst_`: where the nest starts in the destination.
    pub destination_offset: u64,
}

impl Dci {
    /// Nests that move from host to device, in the formats of the tensor.
    pub fn new(nests: Vec<Dcsi>) -> Dci {
        Dci {
            host_to_device: true,
            source_format: None,
            destination_format: None,
            nests,
            input_shape: vec![],
            output_shape: vec![],
        }
    }

    /// The same with the formats of source and destination.
    pub fn with_formats(mut self, source: DataFormat, destination: DataFormat) -> Dci {
        (self.source_format, self.destination_format) = (Some(source), Some(destination));
        self
    }

    /// The same with the shapes of source and destination in elements, innermost first.
    pub fn with_shapes(mut self, input: Vec<u64>, output: Vec<u64>) -> Dci {
        (self.input_shape, self.output_shape) = (input, output);
        self
    }

    /// The host's and the device's part of (source, destination).
    fn sides<T>(&self, source: T, destination: T) -> (T, T) {
        if self.host_to_device { (source, destination) } else { (destination, source) }
    }
}

impl Dcsi {
    /// Loops of these trip counts, innermost first, from the first element of the source to that of the destination.
    pub fn new(size: Vec<u64>, source_strides: Vec<i64>, destination_strides: Vec<i64>) -> Dcsi {
        Dcsi { size, source_strides, destination_strides, source_offset: 0, destination_offset: 0 }
    }

    /// The same from and to other elements.
    pub fn with_offsets(mut self, source: u64, destination: u64) -> Dcsi {
        (self.source_offset, self.destination_offset) = (source, destination);
        self
    }
}

impl Family for Dci {
    /// Checks that the vectors of each nest have one entry for each loop.
    ///
    /// # Errors
    /// [`crate::Error::Value`] that names the nest and the vector.
    fn validate(&self) -> Result<()> {
        check_sizes("input_shape_", &self.input_shape)?;
        check_sizes("output_shape_", &self.output_shape)?;
        for (i, nest) in self.nests.iter().enumerate() {
            let rank = nest.size.len();
            check_sizes(&format!("dcsi_[{i}].size_"), &nest.size)?;
            check_sizes(&format!("dcsi_[{i}] offsets"), &[nest.source_offset, nest.destination_offset])?;
            for (name, strides) in [("src", &nest.source_strides), ("dst", &nest.destination_strides)] {
                check_count(
                    &format!("dcsi_[{i}].stride_{name}_"),
                    strides.len(),
                    rank,
                    "as many as size_ has",
                )?;
            }
        }
        Ok(())
    }

    /// The layout of a tensor whose row-major elements the host side counts.
    ///
    /// Loops that stand still on the host repeat their elements. The device buffer has the device side's
    /// shape; without one it ends with the highest place that an element has.
    ///
    /// # Errors
    /// Where the nests together do not reach every element of the tensor exactly once, where two elements
    /// would lie on one place, one outside of the buffer, for a format without a codec, and for more than
    /// 2^60 bytes.
    fn to_layout(&self, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout> {
        self.validate()?;
        if self.nests.len() > MAX_NESTS {
            return Err(too_many_nests());
        }
        let (_, device_format) = self.sides(self.source_format, self.destination_format);
        let format = match device_format {
            None => Format::Plain(tensor.dtype),
            Some(format) => format.storage().ok_or_else(|| {
                Error::value("dataformat of the device", format.name(), "a format whose encoding is known")
            })?,
        };
        let (host_shape, device_shape) = self.sides(&self.input_shape, &self.output_shape);
        let host_size = volume("the host shape", host_shape.iter().copied())?;
        let elements = volume("the tensor", tensor.shape.iter().copied())?;
        if !host_shape.is_empty() && host_size != elements {
            let needed = format!("the {elements} elements of a tensor of shape {}", join(&tensor.shape));
            return Err(Error::value("shape of the host side", format!("{host_size} elements"), needed));
        }
        let device_size = volume("the device shape", device_shape.iter().copied())?;
        let mut nests = Nests { pieces: vec![], repeats: vec![] };
        for (i, nest) in self.nests.iter().enumerate() {
            let (host, device) = self.sides(&nest.source_strides, &nest.destination_strides);
            let (host_at, device_at) = self.sides(nest.source_offset, nest.destination_offset);
            let at =
                |x: u64| i64::try_from(x).map_err(|_| Error::overflow(format!("an offset of dcsi_[{i}]")));
            let loops = nest.size.iter().zip(host.iter().zip(device)).map(|(&n, (&h, &d))| (n, [h, d]));
            let still = |l: &(u64, [i64; 2])| l.0 > 1 && l.1[0] == 0;
            let (repeats, loops): (Vec<_>, Vec<_>) = loops.partition(still);
            if i > 0 && repeats != nests.repeats {
                let needed = format!("those of the first nest, {:?}", nests.repeats);
                return Err(Error::value(format!("repeats of dcsi_[{i}]"), format!("{repeats:?}"), needed));
            }
            nests.repeats = repeats;
            nests.pieces.push(Region { at: [at(host_at)?, at(device_at)?], loops });
        }
        nests.into_layout(tensor, format, (!device_shape.is_empty()).then_some(device_size), placement)
    }
}
