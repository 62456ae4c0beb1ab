//! Work for an executor: tasks that each own their part of the memory, with no allocation.

use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::run::Executor;

/// The most tasks that are handed to an executor at once.
const MAX_TASKS: usize = 64;

/// A few tasks, each handed out once.
pub(super) struct Tasks<T> {
    all: [Mutex<Option<T>>; MAX_TASKS],
    count: usize,
}

impl<T: Send> Tasks<T> {
    pub(super) fn new() -> Tasks<T> {
        Tasks { all: std::array::from_fn(|_| Mutex::new(None)), count: 0 }
    }

    pub(super) fn is_full(&self) -> bool {
        self.count == MAX_TASKS
    }

    /// Adds a task, for which there must be room.
    pub(super) fn push(&mut self, task: T) {
        *self.all[self.count].get_mut().unwrap_or_else(PoisonError::into_inner) = Some(task);
        self.count += 1;
    }

    /// Runs all tasks, and is empty then.
    ///
    /// # Errors
    /// The first task's that fails, in the order in which they were added; or where the executor left one out.
    pub(super) fn run(
        &mut self,
        executor: &dyn Executor,
        work: impl Fn(T) -> Result<()> + Sync,
    ) -> Result<()> {
        let count = std::mem::take(&mut self.count);
        let take = |i: usize| self.all.get(i)?.lock().unwrap_or_else(PoisonError::into_inner).take();
        if count <= 1 || executor.threads() <= 1 {
            // All tasks are taken, so that none is left behind for the next round.
            return (0..count).filter_map(take).map(work).fold(Ok(()), Result::and);
        }
        let first: Mutex<Option<(usize, Error)>> = Mutex::new(None);
        executor.run(count, &|i| {
            if let Some(task) = take(i)
                && let Err(error) = work(task)
            {
                let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                if first.as_ref().is_none_or(|(earlier, _)| i < *earlier) {
                    *first = Some((i, error));
                }
            }
        });
        let left = (0..count).filter_map(take).count();
        if left > 0 {
            let given = format!("a return before {left} of {count} tasks had run");
            return Err(Error::value("executor", given, "a call for each task"));
        }
        first.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), |(_, error)| Err(error))
    }
}
