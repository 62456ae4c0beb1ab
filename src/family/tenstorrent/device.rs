//! The device of tt-mlir: a virtual grid of cores over the chips of a mesh.

use crate::error::{Error, Result};
use crate::family::{check_count, check_positive, entries, join};
use crate::layout::affine::AffineMap;
use crate::layout::index::{index_of, number_of};

/// The most cores of a device.
const MAX_CORES: u64 = 1 << 16;

/// The most steps of evaluating the map for all cores.
const MAX_STEPS: u64 = 1 << 26;

/// A place in the hardware: the chip as a position in `chip_ids`, then row and column of the core.
pub type Core = [u64; 3];

/// `#tt.device<workerGrid = #tt.grid<8x8, (d0, d1) -> (0, d0, d1)>, meshShape = 1, chipIds = [0]>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Device {
    /// Cores in each dimension of the virtual grid.
    pub grid: Vec<u64>,
    /// From virtual core to (chip, y, x); the chip is a position in `chip_ids`.
    pub map: AffineMap,
    /// Banks of DRAM, in as many dimensions as the text has; where the text says them, as since 2026-04.
    pub dram_grid: Option<Vec<u64>>,
    /// How the chips are placed with respect to each other; without a dimension where there is one chip.
    pub mesh_shape: Vec<u64>,
    /// The chips, in mesh order.
    pub chip_ids: Vec<u64>,
    /// How the chips are connected along each dimension of the mesh, where the text says it.
    pub mesh_topology: Vec<Topology>,
}

/// How chips are connected along one dimension of a mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Topology {
    Ring,
    Linear,
    Mesh,
    Torus,
    Disabled,
}

impl Topology {
    pub(crate) const NAMES: [(&'static str, Topology); 5] = [
        ("ring", Topology::Ring),
        ("linear", Topology::Linear),
        ("mesh", Topology::Mesh),
        ("torus", Topology::Torus),
        ("disabled", Topology::Disabled),
    ];
}

impl Device {
    /// A device of these cores and chips, without a grid of DRAM banks.
    ///
    /// ```
    /// use tilewright::family::tenstorrent::device::Device;
    /// use tilewright::layout::affine::{AffineExpr, AffineMap};
    ///
    /// let core = vec![AffineExpr::constant(0), AffineExpr::dim(0), AffineExpr::dim(1)];
    /// let map = AffineMap::new(2, core).ok_or(tilewright::Error::overflow("the map"))?;
    /// let device = Device::new(vec![8, 8], map, vec![1], vec![0]);
    /// assert_eq!(device.cores()?.chip_grid(), [8, 8]);
    /// # Ok::<(), tilewright::Error>(())
    /// ```
    pub fn new(grid: Vec<u64>, map: AffineMap, mesh_shape: Vec<u64>, chip_ids: Vec<u64>) -> Device {
        Device { grid, map, dram_grid: None, mesh_shape, chip_ids, mesh_topology: vec![] }
    }

    /// Checks ranks and counts: a map from the grid to three results, and a distinct chip for each place of the mesh.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    pub fn validate(&self) -> Result<()> {
        check_positive("workerGrid", &self.grid)?;
        check_count("map", self.map.dims(), self.grid.len(), "one for each grid dimension")?;
        check_count("map results", self.map.results().len(), 3, "the chip, y and x")?;
        if !self.mesh_shape.is_empty() {
            check_positive("meshShape", &self.mesh_shape)?;
        }
        if let Some(grid) = &self.dram_grid {
            check_positive("dramGrid", grid)?;
        }
        let chips = self.mesh_shape.iter().try_fold(1u64, |n, s| n.checked_mul(*s));
        if chips != Some(self.chip_ids.len() as u64) {
            let needed = chips.map_or("more than 2^64".into(), |n| n.to_string());
            return Err(Error::value(
                "chipIds",
                entries(self.chip_ids.len()),
                match self.mesh_shape.is_empty() {
                    true => format!("{needed}, since meshShape is empty"),
                    false => format!("{needed}, one for each chip of meshShape {}", join(&self.mesh_shape)),
                },
            ));
        }
        let mut ids = self.chip_ids.clone();
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|p| p[0] == p[1]) {
            return Err(Error::value("chipIds", format!("{} twice", pair[0]), "each chip once"));
        }
        Ok(())
    }

    /// The physical core of every virtual core, and back.
    ///
    /// The chips are alike: the rows and columns that the map reaches on the first chip it uses are those of all.
    ///
    /// # Errors
    /// [`Error::Value`] that names two cores on one place, or a core outside of the chips;
    /// [`Error::TooComplex`] for more than 2^16 cores.
    pub fn cores(&self) -> Result<Cores> {
        self.validate()?;
        let cores = self.grid.iter().try_fold(1, |n: u64, &g| n.checked_mul(g)).filter(|&n| n <= MAX_CORES);
        let cores = cores.ok_or_else(|| {
            let what = format!("workerGrid {}", join(&self.grid));
            Error::TooComplex { what, cap: MAX_CORES as usize }
        })?;
        let ops: usize = self.map.results().iter().map(|r| r.ops().len()).sum();
        if cores.saturating_mul(ops as u64) > MAX_STEPS {
            return Err(Error::TooComplex { what: "the map of workerGrid".into(), cap: MAX_STEPS as usize });
        }
        let places: Vec<Core> = (0..cores).map(|n| self.place(n)).collect::<Result<_>>()?;
        // There is at least one core.
        let first_chip = places.iter().map(|p| p[0]).min().unwrap_or(0);
        let reach =
            |k: usize| places.iter().filter(|p| p[0] == first_chip).map(|p| p[k] + 1).max().unwrap_or(0);
        let chip_grid = [reach(1), reach(2)];
        for (n, place) in places.iter().enumerate() {
            if place[1] >= chip_grid[0] || place[2] >= chip_grid[1] {
                let needed = format!("inside of the {} cores of a chip", join(&chip_grid));
                return Err(Error::value("workerGrid", self.describe(n as u64, *place), needed));
            }
        }
        let mut by_place: Vec<(Core, u64)> = places.iter().copied().zip(0..).collect();
        by_place.sort_unstable();
        if let Some(pair) = by_place.windows(2).find(|p| p[0].0 == p[1].0) {
            let second = index_of(pair[1].1, &self.grid);
            let given = format!("{}, and so does core {second:?}", self.describe(pair[0].1, pair[0].0));
            return Err(Error::value("workerGrid", given, "one core on each place"));
        }
        Ok(Cores { grid: self.grid.clone(), chip_grid, places, by_place })
    }

    /// Where the map sends core `n`, counted row-major.
    fn place(&self, n: u64) -> Result<Core> {
        let core = index_of(n, &self.grid);
        let at: Vec<i64> = core.iter().map(|&i| i as i64).collect();
        let outside = |given: String, needed: String| Error::value("workerGrid", given, needed);
        let image = self.map.eval(&at).unwrap_or_default();
        let [chip, y, x] = image[..] else {
            return Err(outside(format!("a map that overflows at core {core:?}"), "64 bits".into()));
        };
        let given = || format!("core {core:?}, which lies at chip {chip}, row {y}, column {x}");
        let chips = self.chip_ids.len() as u64;
        let chip = u64::try_from(chip).ok().filter(|&c| c < chips);
        let chip = chip.ok_or_else(|| outside(given(), format!("a chip from 0 to {}", chips - 1)))?;
        match (u64::try_from(y), u64::try_from(x)) {
            (Ok(y), Ok(x)) => Ok([chip, y, x]),
            _ => Err(outside(given(), "a row and a column of 0 or more".into())),
        }
    }

    fn describe(&self, n: u64, [chip, y, x]: Core) -> String {
        let core = index_of(n, &self.grid);
        format!("core {core:?}, which lies at chip {chip}, row {y}, column {x}")
    }

    /// For each core of a tensor's grid, row-major, the place of its buffer: those of one chip together, then by
    /// row and column.
    pub(crate) fn order(&self, grid: &[u64]) -> Result<Vec<u32>> {
        let fits = grid.len() == self.grid.len() && grid.iter().zip(&self.grid).all(|(n, m)| n <= m);
        if !fits {
            let needed =
                format!("at most {}, the workerGrid of the device, in every dimension", join(&self.grid));
            return Err(Error::value("grid", join(grid), needed));
        }
        let cores = self.cores()?;
        let count = grid.iter().product();
        let places = (0..count).map(|n| cores.places[number_of(&index_of(n, grid), &self.grid) as usize]);
        let mut by_place: Vec<(Core, u32)> = places.zip(0..).collect();
        by_place.sort_unstable();
        let mut order = vec![0; by_place.len()];
        for (place, (_, core)) in (0..).zip(by_place) {
            order[core as usize] = place;
        }
        Ok(order)
    }

    /// Checks that no two devices have a chip in common, as the stages of a pipeline must not.
    ///
    /// # Errors
    /// [`Error::Value`] that names the chip and the devices, counted from 0.
    pub fn check_disjoint(devices: &[Device]) -> Result<()> {
        let chips = devices.iter().enumerate().flat_map(|(i, d)| d.chip_ids.iter().map(move |&c| (c, i)));
        let mut chips: Vec<(u64, usize)> = chips.collect();
        chips.sort_unstable();
        match chips.windows(2).find(|p| p[0].0 == p[1].0) {
            None => Ok(()),
            Some(pair) => {
                let given = format!("chip {} in devices {} and {}", pair[0].0, pair[0].1, pair[1].1);
                Err(Error::value("chipIds", given, "each chip in one device"))
            }
        }
    }
}

/// The cores of a device, by virtual and by physical place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cores {
    grid: Vec<u64>,
    chip_grid: [u64; 2],
    places: Vec<Core>,
    /// Physical place and number of each core, sorted.
    by_place: Vec<(Core, u64)>,
}

impl Cores {
    /// Rows and columns of cores of one chip.
    pub fn chip_grid(&self) -> [u64; 2] {
        self.chip_grid
    }

    /// The physical place of a virtual core; `None` outside of the grid.
    pub fn physical(&self, core: &[u64]) -> Option<Core> {
        let inside = core.len() == self.grid.len() && core.iter().zip(&self.grid).all(|(i, n)| i < n);
        inside.then(|| self.places[number_of(core, &self.grid) as usize])
    }

    /// The virtual core at a physical place; `None` where the device has none.
    pub fn core_at(&self, place: Core) -> Option<Vec<u64>> {
        let at = self.by_place.binary_search_by_key(&place, |p| p.0).ok()?;
        Some(index_of(self.by_place[at].1, &self.grid))
    }
}
