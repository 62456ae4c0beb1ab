//! Devices: `#tt.device<workerGrid = #tt.grid<8x8, (d0, d1) -> (0, d0, d1)>, meshShape = 1, chipIds = [0]>`.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use super::attribute::{self, Grid, name_of};
use crate::error::{Error, Result};
use crate::family::join;
use crate::family::tenstorrent::device::{Device, Topology};
use crate::layout::affine::{AffineExpr, AffineMap};
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

/// Reads `#ttcore.device<..>`, or the operation `ttcore.device @name = <..>`.
fn device(cursor: &mut Cursor<'_>) -> Result<Device> {
    let start = cursor.start();
    if cursor.peek() == Some('#') {
        attribute::dialect(cursor, "#", "device")?;
    } else if matches!(cursor.peek_word(), "ttcore" | "tt") {
        attribute::dialect(cursor, "", "device")?;
        cursor.expect("@", "and a name after `device`")?;
        cursor.word("the name of the device")?;
        cursor.expect("=", "after the name of the device")?;
    } else {
        return Err(cursor.expected("`#ttcore.device`"));
    }
    cursor.expect("<", "after `device`")?;
    if matches!(cursor.peek(), Some('#' | '<')) {
        return first_form(cursor);
    }
    let mut parts = Parts::default();
    cursor.arguments(">", |c, key, span| parts.read(c, key, span))?;
    let Grid { sizes: grid, map } = cursor.required(parts.worker_grid, "workerGrid", start)?;
    let map = map.or_else(|| one_chip(&grid));
    let map = map.ok_or_else(|| cursor.error_in("workerGrid", NO_MAP.into()))?;
    let mesh_shape = cursor.required(parts.mesh_shape, "meshShape", start)?;
    let chip_ids = cursor.required(parts.chip_ids, "chipIds", start)?;
    let mut device = Device::new(grid, map, mesh_shape, chip_ids);
    device.dram_grid = parts.dram_grid.map(|g| g.sizes);
    device.mesh_topology = parts.topology;
    Ok(device)
}

const NO_MAP: &str =
    "expected a map to (chip, y, x): only a grid of two dimensions is that of one chip without it";

/// The cores of one chip, in the order of a grid of two dimensions.
fn one_chip(grid: &[u64]) -> Option<AffineMap> {
    let core = vec![AffineExpr::constant(0), AffineExpr::dim(0), AffineExpr::dim(1)];
    if grid.len() == 2 { AffineMap::new(2, core) } else { None }
}

/// Reads what follows `#tt.device<` in 2024: a grid and the chips.
fn first_form(cursor: &mut Cursor<'_>) -> Result<Device> {
    let Grid { sizes: grid, map } = attribute::grid(cursor, "workerGrid")?;
    let map = map.or_else(|| one_chip(&grid));
    let map = map.ok_or_else(|| cursor.error_in("workerGrid", NO_MAP.into()))?;
    cursor.expect(",", "and the chips after the grid")?;
    let start = cursor.start();
    let chip_ids = cursor.numbers("the chips")?;
    cursor.mark("chipIds", start);
    cursor.expect(">", "after the chips")?;
    Ok(Device::new(grid, map, vec![chip_ids.len() as u64], chip_ids))
}

/// The parts of a device, as they are read.
#[derive(Default)]
struct Parts {
    worker_grid: Option<Grid>,
    dram_grid: Option<Grid>,
    mesh_shape: Option<Vec<u64>>,
    chip_ids: Option<Vec<u64>>,
    topology: Vec<Topology>,
}

impl Parts {
    const KEYS: [&str; 7] =
        ["workerGrid", "dramGrid", "l1Map", "dramMap", "meshShape", "chipIds", "meshTopology"];

    fn read(&mut self, c: &mut Cursor<'_>, key: &str, span: Range<usize>) -> Result<()> {
        match key {
            "workerGrid" => self.worker_grid = Some(attribute::grid(c, "workerGrid")?),
            "dramGrid" => self.dram_grid = Some(attribute::grid(c, "dramGrid")?),
            // Where addresses go inside of a core or a bank is the affair of the layouts.
            "l1Map" | "dramMap" => affine::skip(c)?,
            "meshShape" if c.peek() == Some(',') => self.mesh_shape = Some(vec![]),
            "meshShape" => self.mesh_shape = Some(c.sizes(key)?),
            "chipIds" => self.chip_ids = Some(c.numbers(key)?),
            "meshTopology" => {
                self.topology = c.list(key, |c| c.choose("a topology", &Topology::NAMES))?;
            }
            _ => return Err(c.unknown("a key of a device", key, span, &Self::KEYS)),
        }
        Ok(())
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#ttcore.device<workerGrid = #ttcore.grid<{}, {}>, ", join(&self.grid), self.map)?;
        if let Some(grid) = &self.dram_grid {
            write!(f, "dramGrid = #ttcore.grid<{}>, ", join(grid))?;
        }
        write!(f, "meshShape = {}, chipIds = {:?}", join(&self.mesh_shape), self.chip_ids)?;
        if !self.mesh_topology.is_empty() {
            let names = self.mesh_topology.iter().map(|t| name_of(&Topology::NAMES, *t));
            write!(f, ", meshTopology = [{}]", names.collect::<Vec<_>>().join(", "))?;
        }
        f.write_str(">")
    }
}
