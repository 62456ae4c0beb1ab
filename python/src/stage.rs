//! Staging: tensors through slots of memory that Python objects have lent, to a function of Python's.

use std::sync::Arc;

use pyo3::prelude::*;
use tilewright::stage::{Blocking, Settings, Slot, SlotMemory, Source, Stager, Transfer};

use crate::error::{exception, value};
use crate::memory::Memory;
use crate::plan::Plan;
use crate::threads::Threads;

/// Bytes and slots, then wall time, converting and being in the function, in seconds.
type Report = (u64, u64, f64, f64, f64);

/// Converts each array by its plan, in order, and calls `sink` with transfer, first byte of the destination, slot, first
/// byte of the slot, and length of each piece. The slots are the function's own while it runs.
#[pyfunction]
pub(crate) fn stage(
    py: Python<'_>,
    slots: Vec<Bound<'_, PyAny>>,
    transfers: Vec<(Py<Plan>, Bound<'_, PyAny>)>,
    sink: Py<PyAny>,
    threads: Option<usize>,
) -> PyResult<Report> {
    // Declared before the ring, whose memory they are: they are dropped after it.
    let mut rooms = slots.iter().map(Memory::of).collect::<PyResult<Vec<_>>>()?;
    let sources = transfers.iter().map(|(_, x)| Memory::of(x)).collect::<PyResult<Vec<_>>>()?;
    let plans = transfers.iter().zip(&sources).map(|((plan, _), x)| plan.get().plan_for(py, x));
    let plans: Vec<Arc<tilewright::Plan>> = plans.collect::<PyResult<_>>()?;
    let bytes: usize = plans.iter().map(|plan| plan.destination_bytes()).sum();
    let threads = Threads::new(py, threads, bytes)?;
    let slot_bytes = rooms.iter().map(Memory::len).min().unwrap_or(0);
    let (mut lent, mut begins): (Vec<Box<dyn SlotMemory>>, Vec<usize>) = (Vec::new(), Vec::new());
    for (i, room) in rooms.iter_mut().enumerate() {
        for source in &sources {
            room.destination(source.source())?;
        }
        let memory = room.lend()?;
        let begin = memory.as_ptr().addr();
        if begins.iter().any(|&other: &usize| begin.abs_diff(other) < slot_bytes) {
            return Err(value("slots", format!("slot {i} overlaps another one"), "memory of its own"));
        }
        begins.push(begin);
        lent.push(Box::new(memory));
    }
    let pairs = plans.iter().zip(&sources);
    let transfers: Vec<Transfer<'_>> =
        pairs.map(|(plan, x)| Transfer { plan: plan.as_ref(), source: Source::Memory(x.source()) }).collect();
    let mut failure = None;
    let consume = |slot: &Slot| {
        Python::attach(|py| {
            let at = slot.bytes().as_ptr().addr();
            let which = begins.iter().position(|&begin| begin == at).unwrap_or(0);
            for piece in slot.pieces() {
                let range = &piece.destination;
                let arguments = (piece.transfer, range.start, which, piece.offset, range.len());
                sink.call1(py, arguments)?;
            }
            py.check_signals()
        })
        .map_err(|e| {
            failure = Some(e);
            tilewright::Error::value("sink", "an exception", "none")
        })
    };
    let outcome = py.detach(|| {
        let mut ring = Stager::new(lent.len(), slot_bytes, &mut lent)?;
        let settings = Settings { executor: threads.executor(), ..Settings::default() };
        ring.run(&transfers, &mut Blocking::new(consume), &settings)
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    let report = outcome.map_err(exception)?;
    let [wall, converting, submitting] =
        [report.wall, report.converting, report.submitting].map(|time| time.as_secs_f64());
    Ok((report.bytes, report.slots, wall, converting, submitting))
}
