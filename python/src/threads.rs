//! Which threads run a plan.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use tilewright::run::{Executor, Inline, Pool};

use crate::error::{exception, value};

/// A result of at most this many bytes is made on the caller's thread, as tilewright itself does: no thread is started
/// for it.
const SMALL: usize = 256 << 10;

/// The most threads that can be asked for.
const MAX_THREADS: usize = 1024;

/// The pool used last, by the process that started it and the number asked for.
///
/// Its lock is taken by attached threads only, which never let go of the interpreter meanwhile: a fork finds it free.
static POOL: Mutex<Option<(u32, usize, Arc<Pool>)>> = Mutex::new(None);

/// Who runs the tasks of one call.
pub(crate) enum Threads {
    Caller,
    Pool(Arc<Pool>),
}

impl Threads {
    /// For a result of so many bytes; without a number, one thread for each processor.
    pub(crate) fn new(_py: Python<'_>, threads: Option<usize>, bytes: usize) -> PyResult<Threads> {
        if threads.is_some_and(|n| !(1..=MAX_THREADS).contains(&n)) {
            return Err(value("threads", threads.unwrap_or(0), format!("1 to {MAX_THREADS}")));
        }
        if bytes <= SMALL || threads == Some(1) {
            return Ok(Threads::Caller);
        }
        let (process, asked) = (std::process::id(), threads.unwrap_or(0));
        let mut last = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((owner, n, pool)) = &*last
            && (*owner, *n) == (process, asked)
        {
            return Ok(Threads::Pool(pool.clone()));
        }
        let pool = Arc::new(Pool::new(asked).map_err(exception)?);
        if let Some((owner, _, old)) = last.replace((process, asked, pool.clone()))
            && owner != process
        {
            // A fork has its parent's pool but not the threads: their locks may be held for ever.
            std::mem::forget(old);
        }
        Ok(Threads::Pool(pool))
    }

    pub(crate) fn executor(&self) -> &dyn Executor {
        match self {
            Threads::Caller => &Inline,
            Threads::Pool(pool) => pool.as_ref(),
        }
    }
}
