//! Who runs the tasks of a plan.

/// Runs the tasks of one execution: the caller's own thread, a rayon pool, or whatever a runtime has.
pub trait Executor: Sync {
    /// How many tasks can run at once; the work is split accordingly.
    fn threads(&self) -> usize;

    /// Calls `task(0)` to `task(tasks - 1)`, each once, in any order and from any threads, and returns when all
    /// have returned.
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync));
}

/// Runs everything on the caller's thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inline;

impl Executor for Inline {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(task);
    }
}

/// The current rayon pool: the global one, unless called from inside of another.
#[cfg(feature = "rayon")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rayon;

#[cfg(feature = "rayon")]
impl Executor for Rayon {
    fn threads(&self) -> usize {
        rayon::current_num_threads()
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        use rayon::prelude::*;
        (0..tasks).into_par_iter().with_max_len(1).for_each(task);
    }
}

/// A rayon pool of a given number of threads.
#[cfg(feature = "rayon")]
#[derive(Debug)]
pub struct Pool(rayon::ThreadPool);

#[cfg(feature = "rayon")]
impl Pool {
    /// A pool of `threads` threads; 0: as many as the machine has.
    ///
    /// # Errors
    /// Where the system refuses to start them.
    pub fn new(threads: usize) -> crate::Result<Pool> {
        let built = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        built.map(Pool).map_err(|e| crate::Error::value("threads", format!("{threads} ({e})"), "fewer"))
    }
}

#[cfg(feature = "rayon")]
impl Executor for Pool {
    fn threads(&self) -> usize {
        self.0.current_num_threads()
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.0.install(|| Rayon.run(tasks, task));
    }
}
