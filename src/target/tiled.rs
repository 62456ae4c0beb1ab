//! Loop nests of the Tiled Tensor RFC: the three tuples, and the runtime's list of such nests.

use super::spyre::DataFormat;
use super::{check_count, check_rank};
use crate::error::Result;

/// `((4, 1024, 64), (65536, 64, 1), (64, 256, 1))`: one loop nest, outermost loop first, in elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ThreeTuple {
    /// Trip count of each loop.
    pub ranges: Vec<u64>,
    /// Step of each loop in device memory.
    pub device_strides: Vec<i64>,
    /// Step of each loop in host memory.
    pub host_strides: Vec<i64>,
}

impl ThreeTuple {
    /// Checks that the three have one entry for each loop.
    ///
    /// # Errors
    /// [`crate::Error::Value`] that names the tuple.
    pub fn validate(&self) -> Result<()> {
        check_rank("ranges", self.ranges.len())?;
        check_count(
            "device strides",
            self.device_strides.len(),
            self.ranges.len(),
            "as many as there are ranges",
        )?;
        check_count("host strides", self.host_strides.len(), self.ranges.len(), "as many as there are ranges")
    }
}

/// The runtime's description of a host-device conversion (`DataConversionInfo`), written as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
    /// Checks that the vectors of each nest have one entry for each loop.
    ///
    /// # Errors
    /// [`crate::Error::Value`] that names the nest and the vector.
    pub fn validate(&self) -> Result<()> {
        check_rank("input_shape_", self.input_shape.len())?;
        check_rank("output_shape_", self.output_shape.len())?;
        for (i, nest) in self.nests.iter().enumerate() {
            let rank = nest.size.len();
            check_rank(&format!("dcsi_[{i}].size_"), rank)?;
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
}
