//! Many conversions in one call.

use std::sync::Arc;

use pyo3::prelude::*;
use tilewright::run::Item;

use crate::error::exception;
use crate::memory::{Memory, check_apart};
use crate::plan::Plan;
use crate::threads::Threads;

/// Converts each array by its plan into the memory beside it.
#[pyfunction]
pub(crate) fn execute_batch(
    py: Python<'_>,
    conversions: Vec<(Py<Plan>, Bound<'_, PyAny>, Bound<'_, PyAny>)>,
    threads: Option<usize>,
) -> PyResult<()> {
    let of = |i: usize| move |error: PyErr| noted(py, error, i);
    let each = || conversions.iter().enumerate();
    let sources = each().map(|(i, (_, x, _))| Memory::of(x).map_err(of(i))).collect::<PyResult<Vec<_>>>()?;
    let mut outs =
        each().map(|(i, (.., out))| Memory::of(out).map_err(of(i))).collect::<PyResult<Vec<_>>>()?;
    check_apart(&sources, &outs)?;
    let plans = each().zip(&sources).map(|((i, (plan, ..)), x)| plan.get().plan_for(py, x).map_err(of(i)));
    let plans: Vec<Arc<tilewright::Plan>> = plans.collect::<PyResult<_>>()?;
    let bytes = outs.iter().map(Memory::len).fold(0, usize::saturating_add);
    let threads = Threads::new(py, threads, bytes)?;
    let parts = plans.iter().zip(&sources).zip(&mut outs).enumerate();
    let items = parts.map(|(i, ((plan, x), out))| {
        let source = x.source();
        Ok(Item::uninit(plan, source, out.destination(source).map_err(of(i))?))
    });
    let mut items = items.collect::<PyResult<Vec<_>>>()?;
    let run = || tilewright::run::execute_batch(threads.executor(), &mut items);
    py.detach(run).map_err(|error| noted(py, exception(error.error), error.item))
}

/// The exception with a note that says of which conversion it is.
fn noted(py: Python<'_>, error: PyErr, i: usize) -> PyErr {
    match error.value(py).call_method1("add_note", (format!("in conversion {i} of the batch"),)) {
        Ok(_) => error,
        Err(failure) => failure,
    }
}
