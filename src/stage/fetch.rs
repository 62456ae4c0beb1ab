//! The way back: from a device, or a file in a device's layout, to host memory.

use std::thread;

use super::convert::produce;
use super::read_ahead::{Progress, ReadAhead, Window, reserve};
use super::report::Report;
use super::schedule::{Schedule, Transfer};
use super::settings::Settings;
use super::slot::{Heap, SlotAllocator};
use crate::error::{Error, Result};

/// Reads tensors in a device's layout window by window, and unpacks each window into host memory while the next is read.
///
/// A window is what a run of destination chunks is made of, so memory is bounded where these lie together in the device's
/// layout, as the rows of tiles do. Where every chunk is made of bytes from all over the tensor (the sticks of Spyre,
/// pages interleaved over banks) the window is the whole tensor; [`Report::window_bytes`] says how much it was, and
/// [`Settings::window_limit`] makes too much an error.
///
/// ```
/// use tilewright::stage::{Fetcher, FileReader, Settings, Source, Transfer};
/// # use tilewright::family::{Descriptor, Placement, Tensor};
/// # use tilewright::{DType, Options, Plan};
/// # let tensor = Tensor { shape: vec![64, 2], dtype: DType::U8 };
/// # let layout = |text: &str| text.parse::<Descriptor>()?.layout(&tensor, &Placement::default());
/// # let plan = Plan::compile(&layout("memref<64x2xui8>")?, &layout("memref<64x2xui8>")?, &Options::default())?;
/// let device = FileReader::open("Cargo.toml".as_ref())?;
/// let mut tensor = vec![0; plan.destination_bytes()];
/// let transfers = [Transfer { plan: &plan, source: Source::Ranges { reader: &device, begin: 0 } }];
/// Fetcher::default().run(&transfers, &mut [&mut tensor], &Settings::default())?;
/// assert!(tensor.starts_with(b"[workspace]"));
/// # Ok::<(), tilewright::Error>(())
/// ```
pub struct Fetcher {
    allocator: Box<dyn SlotAllocator + Send>,
    windows: Vec<Window>,
}

impl Default for Fetcher {
    /// One whose windows are ordinary memory.
    fn default() -> Self {
        Fetcher::new(Heap)
    }
}

impl Fetcher {
    /// One whose windows come from this allocator: memory that the device can write to.
    pub fn new(allocator: impl SlotAllocator + Send + 'static) -> Fetcher {
        Fetcher { allocator: Box::new(allocator), windows: Vec::new() }
    }

    /// Converts each transfer into its destination. Windows are [`Settings::read_bytes`] long, but for those that hold
    /// what a single chunk of as many bytes is made of.
    ///
    /// # Errors
    /// Where a destination has another length than its plan's, before anything is read; else as [`super::Stager::run`].
    pub fn run(
        &mut self,
        transfers: &[Transfer<'_>],
        destinations: &mut [&mut [u8]],
        settings: &Settings<'_>,
    ) -> Result<Report> {
        let started = settings.clock.now();
        let (given, needed) = (destinations.len() as u64, transfers.len() as u64);
        if given != needed {
            return Err(Error::Length { what: "list of destinations", given, needed });
        }
        for (transfer, destination) in transfers.iter().zip(&*destinations) {
            let (given, needed) = (destination.len() as u64, transfer.plan.destination_bytes() as u64);
            if given != needed {
                return Err(Error::Length { what: "destination", given, needed });
            }
        }
        let schedule = Schedule::new(transfers, settings.read_bytes, settings.read_bytes, settings.reread)?;
        let window_bytes = reserve(&mut self.windows, &schedule, settings, self.allocator.as_mut())?;
        let mut report = Report { window_bytes, ..Report::default() };
        let progress = Progress::default();
        let windows = &mut self.windows;
        let outcome = thread::scope(|scope| {
            let mut ahead = ReadAhead::start(scope, &schedule, transfers, settings, windows, &progress)?;
            let outcome = unpack(&schedule, transfers, destinations, settings, &mut ahead, &mut report);
            ahead.stop(windows);
            outcome
        });
        report.reading = progress.time();
        report.bytes_read = progress.bytes();
        report.wall = settings.clock.now().saturating_sub(started);
        outcome.map(|()| report)
    }
}

impl std::fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetcher").field("windows", &self.windows.len()).finish_non_exhaustive()
    }
}

/// Makes every piece in its destination, when its window is there.
fn unpack(
    schedule: &Schedule,
    transfers: &[Transfer<'_>],
    destinations: &mut [&mut [u8]],
    settings: &Settings<'_>,
    ahead: &mut ReadAhead<'_>,
    report: &mut Report,
) -> Result<()> {
    let clock = settings.clock;
    for scheduled in &schedule.pieces {
        settings.check_cancelled()?;
        let started = clock.now();
        let window = scheduled.read.map(|read| ahead.window(read)).transpose()?;
        let read = clock.now();
        let bytes = scheduled.piece.destination.len();
        let memory = &mut destinations[scheduled.piece.transfer][scheduled.piece.destination.clone()];
        produce(std::iter::once((scheduled, memory)), bytes, transfers, window, settings.executor)?;
        report.waiting_for_source += read.saturating_sub(started);
        report.converting += clock.now().saturating_sub(read);
        report.bytes += bytes as u64;
    }
    Ok(())
}
