//! Threads of the caller: a [`tw_executor`] as an [`Executor`].

use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tilewright::run::{Executor, Inline};

use crate::border::{Failure, Result, versioned};
use crate::types::*;

/// More threads than this get no more tasks.
const MAX_THREADS: u32 = 1024;

/// Runs `work` with the executor of the caller, or on the calling thread where there is none.
///
/// # Safety
/// Where not NULL, `executor` is as the header says.
pub(crate) unsafe fn with(
    executor: *const tw_executor,
    work: impl FnOnce(&dyn Executor) -> tilewright::Result<()>,
) -> Result<()> {
    if executor.is_null() {
        return Ok(work(&Inline)?);
    }
    // SAFETY: passed on.
    let executor = unsafe { versioned(executor, "executor") }?;
    let Some(run) = executor.run else { return Err(Failure::new(TW_NULL, "executor->run is NULL")) };
    let foreign = Foreign {
        ctx: executor.ctx,
        threads: executor.threads.min(MAX_THREADS),
        run,
        failure: Cell::new(None),
    };
    let outcome = work(&foreign);
    // What else goes wrong follows from what went wrong with the executor.
    foreign.failure.take().map_or_else(|| Ok(outcome?), Err)
}

/// The executor of the caller, and what went wrong with it.
struct Foreign {
    ctx: *mut c_void,
    threads: u32,
    run: unsafe extern "C" fn(*mut c_void, u32, tw_task, *mut c_void) -> i32,
    failure: Cell<Option<Failure>>,
}

// SAFETY: only the thread that executes the plan uses it; the tasks, which other threads run, do not see it.
unsafe impl Sync for Foreign {}

/// The most tasks that a plan is split into.
const MAX_TASKS: usize = 1024;

/// What `arg` of a task points to.
struct Tasks<'a> {
    task: &'a (dyn Fn(usize) + Sync),
    count: usize,
    done: AtomicUsize,
    /// A mark for each task that has run to its end, as far as there are marks.
    each: [AtomicU64; MAX_TASKS / 64],
    panicked: AtomicBool,
}

impl Executor for Foreign {
    fn threads(&self) -> usize {
        self.threads as usize
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let (done, panicked) = (AtomicUsize::new(0), AtomicBool::new(false));
        let shared = Tasks { task, count: tasks, done, each: Default::default(), panicked };
        let arg = (&raw const shared).cast_mut().cast();
        // SAFETY: the caller's function, called as the header says. By the header no task runs after it returns, so
        // `shared` outlives its use.
        let status = unsafe { (self.run)(self.ctx, tasks as u32, Some(run_task), arg) };
        let done = shared.done.load(Ordering::Acquire);
        let earlier = self.failure.take();
        self.failure.set(earlier.or(if shared.panicked.load(Ordering::Relaxed) {
            Some(Failure::new(TW_INTERNAL, "a defect of tilewright: a task panicked"))
        } else if status != 0 {
            Some(Failure::new(
                TW_EXECUTOR,
                format!("executor->run returned {status} after {done} of {tasks} tasks"),
            ))
        } else if done != tasks {
            Some(Failure::new(TW_EXECUTOR, format!("executor->run made {done} calls for {tasks} tasks")))
        } else {
            let never = (0..tasks.min(MAX_TASKS)).find(|&i| !shared.has_run(i));
            never.map(|never| {
                Failure::new(TW_EXECUTOR, format!("executor->run called a task twice, and not {never}"))
            })
        }));
    }
}

impl Tasks<'_> {
    fn has_run(&self, task: usize) -> bool {
        self.each[task / 64].load(Ordering::Acquire) & (1 << (task % 64)) != 0
    }
}

/// Runs one task; the library ignores those that there are not, or that ran before.
unsafe extern "C" fn run_task(arg: *mut c_void, index: u32) {
    if arg.is_null() {
        return;
    }
    // SAFETY: by the header `arg` is the one that was given to `run`, which has not returned yet.
    let tasks = unsafe { &*arg.cast::<Tasks<'_>>() };
    if catch_unwind(AssertUnwindSafe(|| (tasks.task)(index as usize))).is_err() {
        tasks.panicked.store(true, Ordering::Relaxed);
    }
    let index = index as usize;
    if index < tasks.count.min(MAX_TASKS) {
        tasks.each[index / 64].fetch_or(1 << (index % 64), Ordering::Release);
    }
    tasks.done.fetch_add(1, Ordering::Release);
}
