//! Devices: `#tt.device<workerGrid = #tt.grid<8x8, (d0, d1) -> (0, d0, d1)>, meshShape = 1, chipIds = [0]>`.

use std::fmt;
use std::str::FromStr;

use super::metal;
use crate::error::{Error, Result};
use crate::family::join;
use crate::family::tenstorrent::device::Device;
use crate::text::affine;
use crate::text::lexer::Cursor;

impl FromStr for Device {
    type Err = Error;

    /// Parses and validates; a text error gives the place.
    fn from_str(text: &str) -> Result<Device> {
        let mut cursor = Cursor::new(text)?;
        let device = device(&mut cursor)?;
        cursor.finish()?;
        device.validate().map_err(|e| cursor.locate(e))?;
        Ok(device)
    }
}

fn device(cursor: &mut Cursor<'_>) -> Result<Device> {
    let start = cursor.start();
    metal::dialect(cursor, "#", "device")?;
    cursor.expect("<", "after `device`")?;
    let (mut worker_grid, mut mesh_shape, mut chip_ids) = (None, None, None);
    cursor.arguments(">", |c, key, span| {
        match key {
            "workerGrid" => worker_grid = Some(grid(c)?),
            "meshShape" => mesh_shape = Some(c.sizes(key)?),
            "chipIds" => chip_ids = Some(c.numbers(key)?),
            _ => {
                return Err(c.unknown(
                    "a key of a device",
                    key,
                    span,
                    &["workerGrid", "meshShape", "chipIds"],
                ));
            }
        }
        Ok(())
    })?;
    let (grid, map) = cursor.required(worker_grid, "workerGrid", start)?;
    let mesh_shape = cursor.required(mesh_shape, "meshShape", start)?;
    let chip_ids = cursor.required(chip_ids, "chipIds", start)?;
    Ok(Device { grid, map, mesh_shape, chip_ids })
}

fn grid(cursor: &mut Cursor<'_>) -> Result<(Vec<u64>, crate::layout::affine::AffineMap)> {
    metal::dialect(cursor, "#", "grid")?;
    cursor.expect("<", "after `grid`")?;
    let start = cursor.start();
    let grid = cursor.sizes("grid")?;
    cursor.mark("workerGrid", start);
    cursor.expect(",", "and a map after the grid")?;
    let map = affine::map(cursor)?;
    cursor.expect(">", "after the map")?;
    Ok((grid, map))
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#ttcore.device<workerGrid = #ttcore.grid<{}, {}>, ", join(&self.grid), self.map)?;
        write!(f, "meshShape = {}, chipIds = {:?}>", join(&self.mesh_shape), self.chip_ids)
    }
}
