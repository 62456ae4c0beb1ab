//! The runtime's conversion records: JSON with `dcsi_`, vectors innermost first.

#[cfg(feature = "json")]
mod read;

use std::fmt;

use crate::family::loops::Dci;

#[cfg(feature = "json")]
pub(in crate::text) use read::dci;

impl fmt::Display for Dci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{\"isHostToSen_\": {}", self.host_to_device)?;
        for (key, format) in
            [("dataformat_src_", self.source_format), ("dataformat_dst_", self.destination_format)]
        {
            if let Some(format) = format {
                write!(f, ", \"{key}\": {}", format.number())?;
            }
        }
        f.write_str(", \"dcsi_\": [")?;
        for (i, nest) in self.nests.iter().enumerate() {
            write!(f, "{}{{\"size_\": {:?}", if i == 0 { "" } else { ", " }, nest.size)?;
            write!(f, ", \"stride_src_\": {:?}", nest.source_strides)?;
            write!(f, ", \"stride_dst_\": {:?}", nest.destination_strides)?;
            write!(f, ", \"offset_src_\": {}", nest.source_offset)?;
            write!(f, ", \"offset_dst_\": {}}}", nest.destination_offset)?;
        }
        f.write_str("]")?;
        for (key, shape) in [("input_shape_", &self.input_shape), ("output_shape_", &self.output_shape)] {
            if !shape.is_empty() {
                write!(f, ", \"{key}\": {shape:?}")?;
            }
        }
        f.write_str("}")
    }
}
