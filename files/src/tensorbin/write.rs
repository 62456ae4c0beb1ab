//! Writing tensor files.

use std::path::Path;

use tilewright::error::{Error, Result};

use super::contents::TensorBin;
use crate::Output;

/// A tensor file in the making; it appears under its name when it is committed.
#[derive(Debug)]
pub struct Writer {
    output: Output,
    /// The ends of the stored copies that are not complete yet, and where each begins, last one first.
    left: Vec<std::ops::Range<u64>>,
    /// Bytes written.
    at: u64,
}

impl Writer {
    /// Begins the file; its length is known from the header. Shards get new ranges, in the order of those they have.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be created; [`Error::Value`] for what the header cannot say.
    pub fn create(path: &Path, file: &TensorBin) -> Result<Writer> {
        file.check()?;
        let mut file = file.clone();
        file.lay_out();
        let mut left = file.stored();
        let len = left.last().map_or(file.payload, |last| last.end);
        left.reverse();
        let mut output = Output::create(path, len)?;
        output.write(&file.head())?;
        Ok(Writer { output, left, at: file.payload })
    }

    /// Appends bytes of the stored copies, which follow one another in the order of [`TensorBin::stored`]. Gaps
    /// between them are written as zeros.
    ///
    /// # Errors
    /// [`Error::Io`] when the system refuses; [`Error::Length`] for more bytes than the shards have.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let Some(range) = self.left.last() else {
                return Err(Error::Length { what: "the payload", given: bytes.len() as u64, needed: 0 });
            };
            if self.at < range.start {
                // Less than a page.
                self.output.write(&vec![0; (range.start - self.at) as usize])?;
                self.at = range.start;
            }
            let len = bytes.len().min(usize::try_from(range.end - self.at).unwrap_or(usize::MAX));
            let (now, rest) = bytes.split_at(len);
            self.output.write(now)?;
            self.at += len as u64;
            if self.at == range.end {
                self.left.pop();
            }
            bytes = rest;
        }
        Ok(())
    }

    /// Gives the finished file its name.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be renamed; [`Error::Length`] when bytes are missing.
    pub fn commit(self) -> Result<()> {
        self.output.commit()
    }
}
