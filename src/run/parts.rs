//! Work in parts, which threads take one by one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::threads::Executor;
use crate::error::Error;

/// The most parts of one piece of work.
pub(super) const MAX_PARTS: usize = 1024;

/// A part until it is taken, and whether it has been worked on to its end.
struct Part<T> {
    held: Mutex<Option<T>>,
    finished: AtomicBool,
}

/// Calls `work` with each part, on the threads of an executor, and with none twice, whatever the executor does.
///
/// # Errors
/// Where the executor returns before all parts have been worked on to their ends; with the number of the first that has not.
pub(super) fn each<T: Send>(
    executor: &dyn Executor,
    parts: Vec<T>,
    work: impl Fn(T) + Sync,
) -> Result<(), (usize, Error)> {
    let part = |part| Part { held: Mutex::new(Some(part)), finished: AtomicBool::new(false) };
    let parts: Vec<Part<T>> = parts.into_iter().map(part).collect();
    executor.run(parts.len(), &|task| {
        let Some(Part { held, finished }) = parts.get(task) else { return };
        let Some(part) = held.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        work(part);
        // Not where the work has panicked, which an executor may hide from us.
        finished.store(true, Ordering::Release);
    });
    let Some(first) = parts.iter().position(|part| !part.finished.load(Ordering::Acquire)) else {
        return Ok(());
    };
    let needed = format!("{} tasks that have run to their ends", parts.len());
    Err((first, Error::value("executor", "a return before every task had run", needed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs these tasks, one after the other.
    struct Tasks(&'static [usize]);

    impl Executor for Tasks {
        fn threads(&self) -> usize {
            2
        }

        fn run(&self, _: usize, task: &(dyn Fn(usize) + Sync)) {
            self.0
                .iter()
                .for_each(|&k| _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| task(k))));
        }
    }

    #[test]
    fn each_part_is_worked_on_once() {
        let run = |tasks: &'static [usize], panics: Option<usize>| {
            let seen = Mutex::new(Vec::new());
            let result = each(&Tasks(tasks), vec![10, 11, 12], |part| {
                assert_ne!(Some(part), panics);
                seen.lock().unwrap().push(part);
            });
            (result.map_err(|(part, _)| part), seen.into_inner().unwrap())
        };
        assert_eq!(run(&[2, 0, 1], None), (Ok(()), vec![12, 10, 11]));
        assert_eq!(run(&[2, 0, 2, 7, 1, 0], None), (Ok(()), vec![12, 10, 11]));
        assert_eq!(run(&[2, 0], None), (Err(1), vec![12, 10]));
        assert_eq!(run(&[0, 1, 2], Some(11)), (Err(1), vec![10, 12]));
    }
}
