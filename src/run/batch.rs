//! Many tensors in one call: small ones share the threads, and nobody waits for one of them alone.

use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

use super::destination::writable;
use super::parts::{self, MAX_PARTS};
use super::threads::{Executor, Inline};
use crate::error::{Error, Result};
use crate::plan::Plan;

/// One conversion of a batch. Items may share a plan or have their own.
#[derive(Debug)]
pub struct Item<'a> {
    plan: &'a Plan,
    source: &'a [u8],
    destination: &'a mut [MaybeUninit<u8>],
}

impl<'a> Item<'a> {
    /// A conversion of all buffers of the source, [`Plan::source_bytes`], to all of the destination,
    /// [`Plan::destination_bytes`].
    pub fn new(plan: &'a Plan, source: &'a [u8], destination: &'a mut [u8]) -> Item<'a> {
        Item { plan, source, destination: writable(destination) }
    }

    /// The same into memory that need not be initialised. It is, once [`execute_batch`] has returned without an error.
    pub fn uninit(plan: &'a Plan, source: &'a [u8], destination: &'a mut [MaybeUninit<u8>]) -> Item<'a> {
        Item { plan, source, destination }
    }
}

/// An error of a batch, and the item that it is about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("item {item}: {error}")]
#[non_exhaustive]
pub struct ItemError {
    /// Its place among the items, counted from 0.
    pub item: usize,
    /// What is wrong with it.
    pub error: Error,
}

/// Runs many conversions on the threads of an executor: each as [`Plan::execute_on`] would, the same bytes for any number of
/// threads.
///
/// Tensors that a thread moves faster than work is handed to another stay whole, and each task takes as many of them as are
/// worth it; larger ones are split among all threads, one after the other. On one thread nothing is allocated; on more, lists
/// of at most 1024 tasks.
///
/// ```
/// use tilewright::run::{Inline, Item, execute_batch};
/// use tilewright::{DType, Request};
///
/// let plan = Request::new(&[32, 32], DType::Bf16, "memref<32x32xbf16>", "ttnn(dtype=bfloat16, layout=TILE)").compile()?;
/// let sources = vec![vec![1; plan.source_bytes()]; 1000];
/// let mut tiles = vec![vec![0; plan.destination_bytes()]; 1000];
/// let mut items: Vec<Item<'_>> = sources
///     .iter()
///     .zip(&mut tiles)
///     .map(|(source, destination)| Item::new(&plan, source, destination))
///     .collect();
/// execute_batch(&Inline, &mut items)?;
/// assert!(tiles.iter().flatten().all(|&byte| byte == 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Where a slice has another length than its plan says, the first such item; nothing is written then. [`Error::OutOfRange`]
/// of the first item that has a value which its destination cannot hold; all items have been written then. As
/// [`Plan::execute_on`] where the executor returns too early: of the first item that may not be complete.
pub fn execute_batch(executor: &dyn Executor, items: &mut [Item<'_>]) -> Result<(), ItemError> {
    for (i, item) in items.iter().enumerate() {
        item.check().map_err(|error| ItemError { item: i, error })?;
    }
    let threads = executor.threads();
    let bytes: usize = items.iter().map(|item| item.destination.len()).fold(0, usize::saturating_add);
    let threads_from = items.first().map_or(0, |item| item.plan.tuning().threads_from);
    if threads <= 1 || bytes <= threads_from {
        return first_error(items.iter_mut().enumerate().map(|(i, item)| (i, item.run())));
    }
    let mut first = None;
    for (i, item) in items.iter_mut().enumerate().filter(|(_, item)| item.is_large()) {
        keep(&mut first, i, item.run_on(executor));
    }
    let runs = runs(items, threads);
    let begins: Vec<usize> = runs.iter().map(|run| run.begin).collect();
    let found = Mutex::new(first);
    parts::each(executor, runs, |Run { items, begin }| {
        for (i, item) in items.iter_mut().enumerate().filter(|(_, item)| !item.is_large()) {
            let result = item.run();
            if result.is_err() {
                keep(&mut lock(&found), begin + i, result);
            }
        }
    })
    .map_err(|(run, error)| ItemError { item: begins[run], error })?;
    found.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// A run of items that one task converts.
struct Run<'i, 'a> {
    items: &'i mut [Item<'a>],
    /// The number of the first of them.
    begin: usize,
}

/// Divides the items into runs of about as many bytes each.
fn runs<'i, 'a>(mut items: &'i mut [Item<'a>], threads: usize) -> Vec<Run<'i, 'a>> {
    let small = |item: &Item<'_>| if item.is_large() { 0 } else { item.destination.len() };
    let Some(tuning) = items.first().map(|item| *item.plan.tuning()) else { return Vec::new() };
    let bytes: usize = items.iter().map(small).fold(0, usize::saturating_add);
    let wanted = threads.saturating_mul(tuning.tasks_per_thread).clamp(1, MAX_PARTS / 2);
    let near = (bytes / wanted).max(tuning.task);
    let (mut runs, mut begin) = (Vec::new(), 0);
    while !items.is_empty() {
        let mut taken = 0;
        let enough = items.iter().position(|item| {
            taken += small(item);
            taken >= near
        });
        let count = enough.map_or(items.len(), |last| last + 1);
        let (these, rest) = items.split_at_mut(count);
        runs.push(Run { items: these, begin });
        (items, begin) = (rest, begin + count);
    }
    runs
}

impl Item<'_> {
    fn check(&self) -> Result<()> {
        let (source, destination) = (self.source.len(), self.destination.len());
        for (what, given, needed) in [
            ("source", source, self.plan.source_bytes()),
            ("destination", destination, self.plan.destination_bytes()),
        ] {
            if given != needed {
                return Err(Error::Length { what, given: given as u64, needed: needed as u64 });
            }
        }
        Ok(())
    }

    /// Whether all threads share it.
    fn is_large(&self) -> bool {
        self.destination.len() > self.plan.tuning().threads_from
    }

    fn run(&mut self) -> Result<()> {
        self.run_on(&Inline)
    }

    fn run_on(&mut self, executor: &dyn Executor) -> Result<()> {
        self.plan.execute_uninit_on(executor, self.source, self.destination).map(|_| ())
    }
}

/// Runs all of them; the error of the first that has one.
fn first_error(results: impl Iterator<Item = (usize, Result<()>)>) -> Result<(), ItemError> {
    let mut first = None;
    results.for_each(|(item, result)| keep(&mut first, item, result));
    first.map_or(Ok(()), Err)
}

/// Keeps the error of the first item.
fn keep(first: &mut Option<ItemError>, item: usize, result: Result<()>) {
    if let Err(error) = result
        && first.as_ref().is_none_or(|first| item < first.item)
    {
        *first = Some(ItemError { item, error });
    }
}

/// No step under these locks can panic.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Options, Request};

    /// As many threads as it says, of which this one does all the work, from the last task to the first.
    struct Backwards(usize);

    impl Executor for Backwards {
        fn threads(&self) -> usize {
            self.0
        }

        fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
            (0..tasks).rev().for_each(task);
        }
    }

    fn plan(shape: &[u64], dtype: DType, from: &str, to: &str) -> Plan {
        Request::new(shape, dtype, from, to).compile().unwrap()
    }

    #[test]
    fn a_batch_gives_the_bytes_of_each_alone() {
        let tiles = "ttnn(dtype=bfloat16, layout=TILE)";
        let plans = [
            plan(&[32, 32], DType::Bf16, "memref<32x32xbf16>", tiles),
            plan(&[5, 7], DType::F32, "memref<5x7xf32>", "ttnn(dtype=bfloat8_b, layout=TILE)"),
            plan(&[512, 700], DType::Bf16, "memref<512x700xbf16>", tiles),
            plan(&[0, 3], DType::F32, "memref<0x3xf32>", "memref<0x3xf32>"),
        ];
        let source =
            |i: usize, len: usize| -> Vec<u8> { (0..len).map(|k| (k * 7 + i) as u8 & 0x3F).collect() };
        let sources: Vec<_> = (0..300).map(|i| source(i, plans[i % 4].source_bytes())).collect();
        let expect: Vec<Vec<u8>> = (0..300)
            .map(|i| {
                let mut out = vec![0; plans[i % 4].destination_bytes()];
                plans[i % 4].execute_on(&Inline, &sources[i], &mut out).unwrap();
                out
            })
            .collect();
        for threads in [1, 2, 9] {
            let mut outs: Vec<_> = (0..300).map(|i| vec![0xA5; plans[i % 4].destination_bytes()]).collect();
            let mut items: Vec<Item<'_>> = outs
                .iter_mut()
                .enumerate()
                .map(|(i, destination)| Item::new(&plans[i % 4], &sources[i], destination))
                .collect();
            execute_batch(&Backwards(threads), &mut items).unwrap();
            assert!(outs == expect, "{threads} threads");
        }
        assert_eq!(execute_batch(&Backwards(2), &mut []), Ok(()));
    }

    #[test]
    fn a_wrong_length_is_refused_before_anything_is_written() {
        let plan = plan(&[4], DType::U8, "memref<4xui8>", "memref<4xui8>");
        let mut outs = [[9; 4], [9; 4]];
        let [one, two] = &mut outs;
        let mut items = [Item::new(&plan, &[1; 4], one), Item::new(&plan, &[1; 3], two)];
        let error = execute_batch(&Inline, &mut items).unwrap_err();
        assert_eq!(error.to_string(), "item 1: source holds 3 bytes, but 4 are needed");
        assert_eq!(outs, [[9; 4], [9; 4]]);
    }

    #[test]
    fn the_first_item_that_does_not_fit_is_named_and_all_are_written() {
        let request = Request::new(&[40_000], DType::I32, "memref<40000xi32>", "memref<40000xi8>");
        let plan = request.with_options(Options::default()).compile().unwrap();
        let mut wrong = vec![0; plan.source_bytes()];
        wrong[4..8].copy_from_slice(&300_i32.to_le_bytes());
        let right = [1, 0, 0, 0].repeat(40_000);
        for threads in [1, 3] {
            let mut outs = vec![vec![7; 40_000]; 40];
            let source = |i: usize| if [17, 31].contains(&i) { &wrong } else { &right };
            let mut items: Vec<Item<'_>> = outs
                .iter_mut()
                .enumerate()
                .map(|(i, destination)| Item::new(&plan, source(i), destination))
                .collect();
            let error = execute_batch(&Backwards(threads), &mut items).unwrap_err();
            assert_eq!(error.item, 17);
            assert!(matches!(error.error, Error::OutOfRange { at: 1, .. }), "{error}");
            assert!(outs.iter().all(|out| out.iter().all(|&byte| byte != 7)));
        }
    }

    #[test]
    fn an_executor_that_skips_tasks_is_found() {
        struct Lazy;
        impl Executor for Lazy {
            fn threads(&self) -> usize {
                2
            }
            fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
                (0..tasks).filter(|&i| i != 1).for_each(task);
            }
        }
        let plan = plan(&[200_000], DType::U8, "memref<200000xui8>", "memref<200000xui8>");
        let source = vec![1; 200_000];
        let mut outs = vec![vec![0; 200_000]; 8];
        let mut items: Vec<Item<'_>> =
            outs.iter_mut().map(|destination| Item::new(&plan, &source, destination)).collect();
        let error = execute_batch(&Lazy, &mut items).unwrap_err();
        assert!(error.to_string().contains("before every task had run"), "{error}");
        // The first that was left out, and none in front of it.
        assert!(outs[..error.item].iter().flatten().all(|&byte| byte == 1));
        assert!(outs[error.item].iter().all(|&byte| byte == 0), "{error}");
    }
}
