//! The bytes of an input file, by range.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::Path;

use memmap2::Mmap;

use super::damaged;
use tilewright::error::{Error, Result};
use tilewright::stage::{FileReader, ReadAt};

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
    Memory(Cow<'a, [u8]>),
    Map(Mmap),
    File(FileReader),
}

impl<'a> Source<'a> {
    /// Opens a regular file.
    ///
    /// # Errors
    /// [`Error::Io`] when it is not there, cannot be read, or is a directory, a pipe or a device.
    pub fn open(path: &Path) -> Result<Source<'static>> {
        let (name, file) = (path.display().to_string(), open_regular(path)?);
        let backing = match Mmap::map_if_safe(&file) {
            Ok(map) => Backing::Map(map),
            Err(_) => Backing::File(FileReader::from_file(name.clone(), file)?),
        };
        Ok(Source { name, backing })
    }

    /// Bytes that are in memory already; `name` is what errors call them.
    pub fn from_slice(name: &str, bytes: &'a [u8]) -> Source<'a> {
        Source { name: name.to_owned(), backing: Backing::Memory(Cow::Borrowed(bytes)) }
    }

    /// The same of bytes that it takes over.
    pub fn from_vec(name: &str, bytes: Vec<u8>) -> Source<'static> {
        Source { name: name.to_owned(), backing: Backing::Memory(Cow::Owned(bytes)) }
    }

    /// What errors call the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        match &self.backing {
            Backing::Memory(bytes) => bytes.len() as u64,
            Backing::Map(map) => map.len() as u64,
            Backing::File(file) => file.size(),
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
            Backing::Memory(bytes) => Ok(Cow::Borrowed(&bytes[inside])),
            Backing::Map(map) => Ok(Cow::Borrowed(&map[inside])),
            Backing::File(file) => self.read(file, range).map(Cow::Owned),
        }
    }

    fn read(&self, file: &FileReader, range: Range<u64>) -> Result<Vec<u8>> {
        let len = range.end - range.start;
        let mut bytes = Vec::new();
        usize::try_from(len).ok().and_then(|n| bytes.try_reserve_exact(n).ok()).ok_or_else(|| {
            Error::file(&self.name, ErrorKind::OutOfMemory, format!("no memory for {len} bytes"))
        })?;
        bytes.resize(len as usize, 0);
        file.read_at(range.start, &mut bytes)?;
        Ok(bytes)
    }
}

impl ReadAt for Source<'_> {
    fn size(&self) -> u64 {
        self.len()
    }

    fn will_read(&self, range: Range<u64>) {
        if let Backing::File(file) = &self.backing {
            will_read(file.file(), range);
        }
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()> {
        match &self.backing {
            Backing::File(file) => file.read_at(at, into),
            Backing::Memory(_) | Backing::Map(_) => {
                into.copy_from_slice(&self.bytes(at..at.saturating_add(into.len() as u64))?);
                Ok(())
            }
        }
    }
}

/// Linux reads 128 KiB ahead unless told otherwise, and fetches no more for one hint, whatever its length.
#[cfg(target_os = "linux")]
const AHEAD: u64 = 128 << 10;

/// Says that a range of a file will be read soon: the system begins to fetch it, if it can, while something else goes on.
pub fn will_read(file: &File, range: Range<u64>) {
    #[cfg(target_os = "linux")]
    for at in range.clone().step_by(AHEAD as usize) {
        use rustix::fs::{Advice, fadvise};
        // It is only advice.
        let len = std::num::NonZeroU64::new(AHEAD.min(range.end - at));
        let _ = fadvise(file, at, len, Advice::WillNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, range);
}

/// Opens a regular file.
fn open_regular(path: &Path) -> Result<File> {
    let refused = |e| Error::io(path.display(), "cannot open it", e);
    let irregular = || Error::file(path.display(), ErrorKind::InvalidInput, "not a regular file");
    // Asked before it is opened: opening a pipe waits for its other end.
    if !fs::metadata(path).map_err(refused)?.is_file() {
        return Err(irregular());
    }
    let file = File::open(path).map_err(refused)?;
    // And of what was opened: another file may have come in its place.
    let opened = file.metadata().map_err(refused)?;
    if opened.is_file() { Ok(file) } else { Err(irregular()) }
}

/// The text of a regular file of at most `most` bytes.
///
/// # Errors
/// [`Error::Io`] when it is not there, cannot be read, is a directory, a pipe or a device, is longer, or is not UTF-8.
pub fn read_text(path: &Path, most: usize) -> Result<String> {
    let file = open_regular(path)?;
    let mut bytes = Vec::new();
    // Some files of the system have more bytes than they say, so one more than allowed is asked for.
    let taken = file.take(most as u64 + 1).read_to_end(&mut bytes);
    taken.map_err(|e| Error::io(path.display(), "cannot read it", e))?;
    let wrong = |what| damaged(&path.display().to_string(), what);
    if bytes.len() > most {
        return Err(wrong(format!("a text of more than {most} bytes, which is the most that is read")));
    }
    String::from_utf8(bytes).map_err(|e| wrong(format!("not a UTF-8 text: {}", e.utf8_error())))
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
        let owned = Source::from_vec("owned", bytes.clone());
        for source in [Source::open(&path).unwrap(), Source::from_slice("slice", &bytes), owned] {
            assert_eq!(source.len(), 200);
            for range in [0..200, 0..0, 200..200, 17..33] {
                let wanted = &bytes[range.start as usize..range.end as usize];
                assert_eq!(source.bytes(range.clone()).unwrap().as_ref(), wanted);
                let mut read = vec![0; wanted.len()];
                source.read_at(range.start, &mut read).unwrap();
                assert_eq!(read, wanted);
            }
            let beyond = Error::Length { what: "input file", given: 200, needed: 201 };
            assert_eq!(source.bytes(10..201).unwrap_err(), beyond);
        }
    }

    #[test]
    fn what_is_not_a_regular_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let kind = |path: &Path| {
            let both = [Source::open(path).unwrap_err(), read_text(path, 100).unwrap_err()];
            let [Error::Io { kind, .. }, Error::Io { kind: again, .. }] = both else { panic!("{both:?}") };
            assert_eq!(kind, again, "{}", path.display());
            kind
        };
        assert_eq!(kind(directory.path()), ErrorKind::InvalidInput);
        assert_eq!(kind(&directory.path().join("none")), ErrorKind::NotFound);
        #[cfg(target_os = "linux")]
        assert_eq!(kind(Path::new("/dev/zero")), ErrorKind::InvalidInput);
    }

    #[test]
    fn a_text_is_read_up_to_its_bound() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("text");
        fs::write(&path, "é".repeat(50)).unwrap();
        assert_eq!(read_text(&path, 100), Ok("é".repeat(50)));
        assert!(read_text(&path, 99).unwrap_err().to_string().contains("more than 99 bytes"));
        fs::write(&path, [0xFF]).unwrap();
        let error = read_text(&path, 100).unwrap_err();
        assert!(matches!(error, Error::Io { kind: ErrorKind::InvalidData, .. }), "{error:?}");
    }

    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("in.bin");
        fs::write(&path, [0; 100]).unwrap();
        let source = Source::open(&path).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(50).unwrap();
        assert!(matches!(source.bytes(0..100), Err(Error::Io { .. })));
        assert!(matches!(source.read_at(40, &mut [0; 20]), Err(Error::Io { .. })));
    }
}
