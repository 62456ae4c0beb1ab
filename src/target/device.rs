//! The device of tt-mlir: a virtual grid of cores over the chips of a mesh.

use super::{check_count, check_positive};
use crate::error::{Error, Result};
use crate::layout::affine::AffineMap;

/// `#tt.device<workerGrid = #tt.grid<8x8, (d0, d1) -> (0, d0, d1)>, meshShape = 1, chipIds = [0]>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Device {
    /// Cores in each dimension of the virtual grid.
    pub grid: Vec<u64>,
    /// From virtual core to (chip, y, x); the chip is a position in `chip_ids`.
    pub map: AffineMap,
    /// How the chips are placed with respect to each other.
    pub mesh_shape: Vec<u64>,
    /// The chips, in mesh order.
    pub chip_ids: Vec<u64>,
}

impl Device {
    /// Checks ranks and counts: a map from the grid to three results, and a distinct chip for each place of the mesh.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    pub fn validate(&self) -> Result<()> {
        check_positive("workerGrid", &self.grid)?;
        check_count("map", self.map.dims(), self.grid.len(), "one for each grid dimension")?;
        check_count("map results", self.map.results().len(), 3, "the chip, y and x")?;
        check_positive("meshShape", &self.mesh_shape)?;
        let chips = self.mesh_shape.iter().try_fold(1u64, |n, s| n.checked_mul(*s));
        if chips != Some(self.chip_ids.len() as u64) {
            let needed = chips.map_or("more than 2^64".into(), |n| n.to_string());
            return Err(Error::value(
                "chipIds",
                super::entries(self.chip_ids.len()),
                format!("{needed}, one for each chip of meshShape {}", super::join(&self.mesh_shape)),
            ));
        }
        let mut ids = self.chip_ids.clone();
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|p| p[0] == p[1]) {
            return Err(Error::value("chipIds", format!("{} twice", pair[0]), "each chip once"));
        }
        Ok(())
    }
}
