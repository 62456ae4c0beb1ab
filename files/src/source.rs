//! The bytes of an input file, by range.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use memmap2::Mmap;

use super::{damaged, failed};
use tilewright::error::{Error, Result};

/// Where the readers of this module get their bytes.
///
/// A file is mapped where the system vouches that nobody can change it (fs-verity, sealed memory files). Elsewhere
/// exactly the ranges that are asked for are read: a file that is cut short while it is mapped would end the process,
/// and safe code has no answer to that.
#[derive(Debug)]
pub struct Source<'a> {
    name: String,
    backing: Backing<'a>,
}

#[derive(Debug)]
enum Backing<'a> {
    Slice(&'a [u8]),
    Map(Mmap),
    File(File, u64),
}

impl<'a> Source<'a> {
    /// Opens a regular file.
    ///
    /// # Errors
    /// [`Error::Io`] when it is not there, cannot be read, or is a directory, a pipe or a device.
    pub fn open(path: &Path) -> Result<Source<'static>> {
        let refused = |e| failed(path, "cannot open it", &e);
        // Asked before it is opened: opening a pipe waits for its other end.
        if !fs::metadata(path).map_err(refused)?.is_file() {
            return Err(damaged(&path.display().to_string(), "not a regular file"));
        }
        let file = File::open(path).map_err(refused)?;
        let len = file.metadata().map_err(refused)?.len();
        let backing = match Mmap::map_if_safe(&file) {
            Ok(map) => Backing::Map(map),
            Err(_) => Backing::File(file, len),
        };
        Ok(Source { name: path.display().to_string(), backing })
    }

    /// Bytes that are in memory already; `name` is what errors call them.
    pub fn from_slice(name: &str, bytes: &'a [u8]) -> Source<'a> {
        Source { name: name.to_owned(), backing: Backing::Slice(bytes) }
    }

    /// What errors call the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        match &self.backing {
            Backing::Slice(bytes) => bytes.len() as u64,
            Backing::Map(map) => map.len() as u64,
            Backing::File(_, len) => *len,
        }
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of a range, which must lie inside of the file; borrowed where they are in memory.
    ///
    /// # Errors
    /// [`Error::Length`] for a range outside, [`Error::Io`] when the system cannot read it or has no memory for it.
    pub fn bytes(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        if range.start > range.end || range.end > self.len() {
            return Err(Error::Length { what: "input file", given: self.len(), needed: range.end });
        }
        // In memory, offsets fit; in a file they are not used as sizes of memory.
        let inside = range.start as usize..range.end as usize;
        match &self.backing {
            Backing::Slice(bytes) => Ok(Cow::Borrowed(&bytes[inside])),
            Backing::Map(map) => Ok(Cow::Borrowed(&map[inside])),
            Backing::File(file, _) => self.read(file, range).map(Cow::Owned),
        }
    }

    fn read(&self, mut file: &File, range: Range<u64>) -> Result<Vec<u8>> {
        let refused = |e: std::io::Error| damaged(&self.name, format!("cannot read bytes {range:?}: {e}"));
        let len = range.end - range.start;
        let mut bytes = Vec::new();
        usize::try_from(len)
            .ok()
            .and_then(|n| bytes.try_reserve_exact(n).ok())
            .ok_or_else(|| damaged(&self.name, format!("no memory for {len} bytes")))?;
        file.seek(SeekFrom::Start(range.start)).map_err(refused)?;
        file.take(len).read_to_end(&mut bytes).map_err(refused)?;
        if bytes.len() as u64 != len {
            return Err(damaged(
                &self.name,
                format!("the file was cut short while it was read, in bytes {range:?}"),
            ));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_files_and_slices() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("in.bin");
        let bytes: Vec<u8> = (0..200).collect();
        fs::write(&path, &bytes).unwrap();
        for source in [Source::open(&path).unwrap(), Source::from_slice("slice", &bytes)] {
            assert_eq!(source.len(), 200);
            for range in [0..200, 0..0, 200..200, 17..33] {
                let wanted = &bytes[range.start as usize..range.end as usize];
                assert_eq!(source.bytes(range).unwrap().as_ref(), wanted);
            }
            let beyond = Error::Length { what: "input file", given: 200, needed: 201 };
            assert_eq!(source.bytes(10..201).unwrap_err(), beyond);
        }
    }

    #[test]
    fn what_is_not_a_regular_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(Source::open(directory.path()), Err(Error::Io { .. })));
        assert!(matches!(Source::open(&directory.path().join("none")), Err(Error::Io { .. })));
    }

    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("in.bin");
        fs::write(&path, [0; 100]).unwrap();
        let source = Source::open(&path).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(50).unwrap();
        assert!(matches!(source.bytes(0..100), Err(Error::Io { .. })));
    }
}
