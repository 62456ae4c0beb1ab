//! Memory for callers who want us to allocate it.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

use crate::error::{Error, Result};

/// Bytes of a huge page, to which buffers are aligned.
const HUGE: usize = 2 << 20;

/// A reusable buffer: aligned to 2 MiB, on huge pages where the system has them, its bytes zero at first.
///
/// First touch of fresh memory costs more than most conversions; keep the buffer and use it again.
#[derive(Debug)]
pub struct AlignedBuffer {
    map: MmapMut,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// A buffer of `len` bytes.
    ///
    /// # Errors
    /// Where the system has no such memory.
    pub fn new(len: usize) -> Result<AlignedBuffer> {
        let none = |e: &dyn std::fmt::Display| Error::value("buffer", format!("{len} bytes ({e})"), "less");
        let room = len.max(1).checked_add(HUGE).ok_or_else(|| none(&"too large"))?;
        let map = MmapMut::map_anon(room).map_err(|e| none(&e))?;
        // Only speed depends on it.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        let start = map.as_ptr().align_offset(HUGE).min(HUGE);
        Ok(AlignedBuffer { map, start, len })
    }

    /// Makes it `len` bytes long; memory is kept where it suffices, and then holds what it held.
    ///
    /// # Errors
    /// Where the system has no such memory.
    pub fn resize(&mut self, len: usize) -> Result<()> {
        if len > self.map.len() - HUGE {
            *self = AlignedBuffer::new(len)?;
        }
        self.len = len;
        Ok(())
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let (start, end) = (self.start, self.start + self.len);
        &mut self.map[start..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_and_reused() {
        let mut buffer = AlignedBuffer::new(100).unwrap();
        assert_eq!(buffer.as_ptr() as usize % HUGE, 0);
        buffer.fill(7);
        buffer.resize(50).unwrap();
        assert_eq!(*buffer, [7; 50]);
        buffer.resize(5 << 20).unwrap();
        assert_eq!((buffer.len(), buffer.as_ptr() as usize % HUGE), (5 << 20, 0));
        assert!(AlignedBuffer::new(usize::MAX).is_err());
    }
}
