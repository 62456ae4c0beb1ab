//! The roof: the fastest plain movement of as many bytes as a conversion reads and writes.

use std::time::{Duration, Instant};

use tilewright::family::{Descriptor, Placement, Tensor};
use tilewright::plan::Store;
use tilewright::run::{Executor, Inline};
use tilewright::tuning::{Tuning, in_force};
use tilewright::{DType, Options, Plan, Result};

use crate::copy;

/// Bytes of a page, which what is only written repeats.
const PAGE: usize = 4096;

/// How far ahead, in bytes, copies with non-temporal stores ask for their source.
const FETCHED: [usize; 4] = [0, 256, 4096, 8192];

/// What the fastest plain movement of some bytes consists of. As many bytes as both sides have are copied: by memcpy, or
/// with non-temporal stores that fetch their source more or less far ahead. What is left is read and summed, or is written
/// with ordinary or with non-temporal stores.
#[derive(Debug)]
pub struct Roof {
    /// Bytes that are copied, and the plans for non-temporal stores; none for less than a page.
    copied: usize,
    copies: Vec<Plan>,
    /// Bytes that are only written, and the plans for either kind of stores.
    written: usize,
    writes: Vec<Plan>,
}

/// The shortest time of each part: what is copied, what is only written, what is only read.
#[derive(Debug, Clone, Copy)]
pub struct Shortest([Duration; 3]);

impl Default for Shortest {
    fn default() -> Shortest {
        Shortest([Duration::MAX; 3])
    }
}

impl Shortest {
    /// All parts together; parts that there are none of take no time.
    pub fn total(&self) -> Duration {
        self.0.into_iter().filter(|&time| time < Duration::MAX).sum()
    }

    fn keep(&mut self, part: usize, time: Duration) {
        self.0[part] = self.0[part].min(time);
    }
}

impl Roof {
    /// For a conversion that reads and writes so many bytes.
    ///
    /// # Errors
    /// As [`Plan::compile`].
    pub fn new(read: usize, written: usize) -> Result<Roof> {
        let copied = read.min(written) / PAGE * PAGE;
        let written = written.saturating_sub(read) / PAGE * PAGE;
        let base = in_force()?.tuning();
        let mut copies = Vec::new();
        for direct_fetched in FETCHED.into_iter().filter(|_| copied > 0) {
            let mut tuning = base;
            tuning.direct_fetched = direct_fetched;
            copies.push(pages(copied, PAGE, Store::Streamed, &tuning)?);
        }
        let stores = [Store::Cached, Store::Streamed].into_iter().filter(|_| written > 0);
        let writes = stores.map(|store| pages(written, 0, store, &base)).collect::<Result<_>>()?;
        Ok(Roof { copied, copies, written, writes })
    }

    /// The shortest of some repetitions of each way on one thread, from and to these bytes, which are at least as many.
    ///
    /// # Errors
    /// As [`Plan::execute`].
    pub fn time(&self, source: &[u8], destination: &mut [u8], repetitions: usize) -> Result<Duration> {
        let mut shortest = Shortest::default();
        for _ in 0..repetitions {
            self.turn(&Inline, source, destination, 1, &mut shortest)?;
        }
        Ok(shortest.total())
    }

    /// Goes each way `batch` times by the threads of an executor, and keeps what one run took where it is the shortest; from
    /// and to these bytes, which are at least as many as were said.
    ///
    /// # Errors
    /// As [`Plan::execute`].
    pub fn turn(
        &self,
        executor: &dyn Executor,
        source: &[u8],
        destination: &mut [u8],
        batch: u32,
        shortest: &mut Shortest,
    ) -> Result<()> {
        let mut timed = |part: usize, work: &mut dyn FnMut() -> Result<()>| -> Result<()> {
            let begun = Instant::now();
            for _ in 0..batch {
                work()?;
            }
            shortest.keep(part, begun.elapsed() / batch);
            Ok(())
        };
        if self.copied > 0 {
            let (from, to) = (&source[..self.copied], &mut destination[..self.copied]);
            timed(0, &mut || {
                copy(executor, from, to);
                Ok(())
            })?;
            for copy in &self.copies {
                timed(0, &mut || copy.execute_on(executor, from, to))?;
            }
        }
        let page = source.get(..PAGE).unwrap_or(&[1; PAGE]);
        for write in &self.writes {
            let to = &mut destination[self.copied..][..self.written];
            timed(1, &mut || write.execute_on(executor, page, to))?;
        }
        let rest = source.get(self.copied..).unwrap_or_default();
        if rest.len() >= PAGE && self.written == 0 {
            timed(2, &mut || {
                read(executor, rest);
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// The copy of so many bytes in pages, `step` bytes apart in the source.
fn pages(bytes: usize, step: usize, store: Store, tuning: &Tuning) -> Result<Plan> {
    let pages = (bytes / PAGE) as u64;
    let tensor = Tensor { shape: vec![pages, PAGE as u64], dtype: DType::U8 };
    let layout = |text: String| text.parse::<Descriptor>()?.layout(&tensor, &Placement::default());
    let from = layout(format!("memref<{pages}x{PAGE}xui8, strided<[{step}, 1]>>"))?;
    let to = layout(format!("memref<{pages}x{PAGE}xui8>"))?;
    Plan::compile_with(&from, &to, &Options::default().with_store(store), tuning)
}

/// Reads bytes by all threads of an executor.
fn read(executor: &dyn Executor, bytes: &[u8]) {
    let parts = if executor.threads() == 1 { 1 } else { 4 * executor.threads() };
    let part = bytes.len().div_ceil(parts).next_multiple_of(PAGE);
    executor.run(bytes.len().div_ceil(part), &|i| {
        let words = bytes[i * part..].get(..part).unwrap_or(&bytes[i * part..]).as_chunks::<8>().0;
        let sum = words.iter().fold(0, |sum: u64, word| sum.wrapping_add(u64::from_le_bytes(*word)));
        std::hint::black_box(sum);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_read_or_written_once() {
        for (read, written) in [(8 * PAGE, 8 * PAGE), (4 * PAGE, 8 * PAGE), (8 * PAGE, PAGE), (100, 9)] {
            let roof = Roof::new(read, written).unwrap();
            assert_eq!(roof.copied + roof.written, written / PAGE * PAGE);
            let (source, mut destination) = (vec![3; read.max(PAGE)], vec![0; written]);
            roof.time(&source, &mut destination, 1).unwrap();
            assert!(destination[..roof.copied + roof.written].iter().all(|&byte| byte == 3));
        }
    }
}
