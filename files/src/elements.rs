//! The elements of one tensor, as a stager reads them: little-endian, from the first on, wherever they lie.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use tilewright::error::{Error, Result};
use tilewright::stage::ReadAt;

/// Some ranges of a file as one run of bytes, whose elements are turned round where they are big-endian.
///
/// ```
/// use std::sync::Arc;
/// use tilewright::stage::ReadAt;
/// use tilewright_files::{Elements, Source};
///
/// let file = Arc::new(Source::from_vec("file", (0..12).collect()));
/// let elements = Elements::new(file, vec![8..12, 2..4]).big_endian(2);
/// let mut bytes = [0; 6];
/// elements.read_at(0, &mut bytes)?;
/// assert_eq!(bytes, [9, 8, 11, 10, 3, 2]);
/// # Ok::<(), tilewright::Error>(())
/// ```
#[derive(Clone)]
pub struct Elements {
    of: Arc<dyn ReadAt + Send>,
    parts: Vec<Range<u64>>,
    /// Where each part begins in the run, and the end of the last.
    starts: Vec<u64>,
    /// Bytes of an element that is turned round; else 1.
    turned: usize,
}

impl Elements {
    /// The bytes of some ranges of what can be read, one after another.
    pub fn new(of: Arc<dyn ReadAt + Send>, parts: Vec<Range<u64>>) -> Elements {
        let mut starts = vec![0];
        for (i, part) in parts.iter().enumerate() {
            starts.push(starts[i] + part.end.saturating_sub(part.start));
        }
        Elements { of, parts, starts, turned: 1 }
    }

    /// The same of elements of `size` bytes, a power of two, that are stored with their most significant byte first.
    /// Reads begin and end on whole elements then.
    pub fn big_endian(self, size: usize) -> Elements {
        Elements { turned: size, ..self }
    }
}

impl ReadAt for Elements {
    fn size(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    fn alignment(&self) -> usize {
        self.turned
    }

    fn will_read(&self, range: Range<u64>) {
        for (part, starts) in self.parts.iter().zip(self.starts.windows(2)) {
            let (start, end) = (range.start.max(starts[0]), range.end.min(starts[1]));
            if start < end {
                self.of.will_read(part.start + (start - starts[0])..part.start + (end - starts[0]));
            }
        }
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let needed = at.saturating_add(into.len() as u64);
        if needed > self.size() {
            return Err(Error::Length { what: "the input", given: self.size(), needed });
        }
        let (mut at, mut rest) = (at, &mut *into);
        let mut part = self.starts.partition_point(|&start| start <= at).saturating_sub(1);
        while !rest.is_empty() {
            let len = (self.starts[part + 1] - at).min(rest.len() as u64) as usize;
            let now = rest.split_off_mut(..len).unwrap_or_default();
            self.of.read_at(self.parts[part].start + (at - self.starts[part]), now)?;
            (at, part) = (at + len as u64, part + 1);
        }
        if self.turned > 1 {
            into.chunks_exact_mut(self.turned).for_each(<[u8]>::reverse);
        }
        Ok(())
    }
}

impl fmt::Debug for Elements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elements")
            .field("parts", &self.parts)
            .field("turned", &self.turned)
            .finish_non_exhaustive()
    }
}
