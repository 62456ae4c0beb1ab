//! The roof: the fastest plain movement of as many bytes as a conversion reads and writes.

use std::time::{Duration, Instant};

use tilewright::family::{Descriptor, Placement, Tensor};
use tilewright::plan::Store;
use tilewright::run::Inline;
use tilewright::{DType, Options, Plan, Result};

/// Bytes of a page, which what is only written repeats.
const PAGE: usize = 4096;

/// What the fastest plain movement of some bytes consists of, on one thread. As many bytes as both sides have are copied:
/// by memcpy, or with non-temporal stores and prefetching. What is left is read and summed, or is written with ordinary or
/// with non-temporal stores.
#[derive(Debug)]
pub struct Roof {
    /// Bytes that are copied, and the plan for non-temporal stores; none for less than a page.
    copied: usize,
    copy: Option<Plan>,
    /// Bytes that are only written, and the plans for either kind of stores.
    written: usize,
    write: Vec<Plan>,
}

impl Roof {
    /// For a conversion that reads and writes so many bytes.
    ///
    /// # Errors
    /// As [`Plan::compile`].
    pub fn new(read: usize, written: usize) -> Result<Roof> {
        let copied = read.min(written) / PAGE * PAGE;
        let written = written.saturating_sub(read) / PAGE * PAGE;
        let plan = |bytes: usize, page_step: usize, store: Store| -> Result<Plan> {
            let pages = (bytes / PAGE) as u64;
            let tensor = Tensor { shape: vec![pages, PAGE as u64], dtype: DType::U8 };
            let layout = |text: String| text.parse::<Descriptor>()?.layout(&tensor, &Placement::default());
            let from = layout(format!("memref<{pages}x{PAGE}xui8, strided<[{page_step}, 1]>>"))?;
            let to = layout(format!("memref<{pages}x{PAGE}xui8>"))?;
            Plan::compile(&from, &to, &Options::default().with_store(store))
        };
        let copy = if copied > 0 { Some(plan(copied, PAGE, Store::Streamed)?) } else { None };
        let stores = [Store::Cached, Store::Streamed].into_iter().filter(|_| written > 0);
        let write = stores.map(|store| plan(written, 0, store)).collect::<Result<_>>()?;
        Ok(Roof { copied, copy, written, write })
    }

    /// The shortest of some repetitions of each way, from and to these bytes, which are at least as many.
    ///
    /// # Errors
    /// As [`Plan::execute`].
    pub fn time(&self, source: &[u8], destination: &mut [u8], repetitions: usize) -> Result<Duration> {
        let mut best = [Duration::MAX; 3];
        let mut timed = |part: usize, work: &mut dyn FnMut() -> Result<()>| -> Result<()> {
            let begun = Instant::now();
            work()?;
            best[part] = best[part].min(begun.elapsed());
            Ok(())
        };
        for _ in 0..repetitions {
            let (from, to) = (&source[..self.copied], &mut destination[..self.copied]);
            timed(0, &mut || {
                to.copy_from_slice(from);
                Ok(())
            })?;
            if let Some(copy) = &self.copy {
                timed(0, &mut || copy.execute_on(&Inline, from, to))?;
            }
            for write in &self.write {
                let to = &mut destination[self.copied..][..self.written];
                timed(1, &mut || write.execute_on(&Inline, &source[..PAGE], to))?;
            }
            let rest = source[self.copied..].as_chunks::<8>().0;
            timed(2, &mut || {
                let sum = rest.iter().fold(0, |sum: u64, word| sum.wrapping_add(u64::from_le_bytes(*word)));
                std::hint::black_box(sum);
                Ok(())
            })?;
        }
        // Parts that there are none of were not timed.
        Ok(best.into_iter().filter(|&time| time < Duration::MAX).sum())
    }
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
