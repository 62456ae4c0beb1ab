//! Where tensors come from: memory, or whatever can be read by ranges.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Result};

/// Bytes that can be read by ranges, from several threads at once: a file, an object store, the memory of a device.
pub trait ReadAt: Sync {
    /// Bytes there are.
    fn size(&self) -> u64;

    /// To multiples of how many bytes reads must begin and end, and their memory must be aligned; at most 4096.
    fn alignment(&self) -> usize {
        1
    }

    /// Says that a range will be read soon, so that the system can fetch it while others are read. By default nothing
    /// is done with it.
    fn will_read(&self, _range: Range<u64>) {}

    /// Fills `into` with the bytes from `at` on. Where [`ReadAt::alignment`] is more than 1 the last read may ask for
    /// bytes behind the end, which are left as they are.
    ///
    /// # Errors
    /// [`Error::Io`] where the bytes cannot be read, or are no longer there.
    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()>;
}

/// Where the source of one tensor is.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// In memory, or in a map of a file: all bytes of the plan's source.
    Memory(&'a [u8]),
    /// To be read: the plan's source begins at byte `begin`.
    Ranges {
        /// What is read.
        reader: &'a dyn ReadAt,
        /// Where the source begins in it.
        begin: u64,
    },
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Memory(bytes) => write!(f, "Memory({} bytes)", bytes.len()),
            Source::Ranges { reader, begin } => write!(f, "Ranges({begin}.. of {} bytes)", reader.size()),
        }
    }
}

/// A file, read by position (`pread`).
///
/// ```
/// use tilewright::stage::{FileReader, ReadAt};
///
/// let file = FileReader::open("Cargo.toml".as_ref())?;
/// let mut word = [0; 3];
/// file.read_at(1, &mut word)?;
/// assert_eq!(&word, b"wor");
/// # Ok::<(), tilewright::Error>(())
/// ```
#[derive(Debug)]
pub struct FileReader {
    file: File,
    name: String,
    size: u64,
    alignment: usize,
}

impl FileReader {
    /// Opens a regular file; reads go through the page cache.
    ///
    /// # Errors
    /// [`Error::Io`] where it cannot be opened or is no regular file.
    pub fn open(path: &Path) -> Result<FileReader> {
        FileReader::of(path.display().to_string(), File::open(path), 1)
    }

    /// Reads a regular file that is open already, through the page cache; `name` is what errors call it.
    ///
    /// # Errors
    /// [`Error::Io`] where it is no regular file, or the system does not say how long it is.
    pub fn from_file(name: String, file: File) -> Result<FileReader> {
        FileReader::of(name, Ok(file), 1)
    }

    /// Opens a regular file that is read past the page cache: for files that are read once, from disks that are faster
    /// than that cache. Not every file system has it.
    ///
    /// # Errors
    /// As [`FileReader::open`], and where the file system refuses.
    #[cfg(all(feature = "direct-io", target_os = "linux"))]
    pub fn open_direct(path: &Path) -> Result<FileReader> {
        use std::os::unix::fs::OpenOptionsExt;
        let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(path);
        FileReader::of(path.display().to_string(), file, super::slot::PAGE)
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    fn of(name: String, file: std::io::Result<File>, alignment: usize) -> Result<FileReader> {
        let failed = |e: std::io::Error| Error::io(&name, "cannot open it", e);
        let file = file.map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if !about.is_file() {
            return Err(Error::file(name, std::io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(FileReader { file, name, size: about.len(), alignment })
    }
}

impl ReadAt for FileReader {
    fn size(&self) -> u64 {
        self.size
    }

    fn alignment(&self) -> usize {
        self.alignment
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()> {
        // Behind the end there is nothing; a direct read asks for whole pages all the same.
        let there = self.size.saturating_sub(at).min(into.len() as u64) as usize;
        let mut done = 0;
        while done < there {
            let bytes = at + done as u64..at + there as u64;
            match read_some(&self.file, at + done as u64, &mut into[done..]) {
                Ok(0) => {
                    let what = format!(
                        "cannot read bytes {bytes:?}: the file has become shorter than {} bytes",
                        self.size
                    );
                    return Err(Error::file(&self.name, std::io::ErrorKind::UnexpectedEof, what));
                }
                Ok(n) => done += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io(&self.name, &format!("cannot read bytes {bytes:?}"), e)),
            }
        }
        Ok(())
    }
}

#[cfg(unix)]
fn read_some(file: &File, at: u64, into: &mut [u8]) -> std::io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, into, at)
}

#[cfg(windows)]
fn read_some(file: &File, at: u64, into: &mut [u8]) -> std::io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, into, at)
}

/// Here no file can be opened, so that none can be read.
#[cfg(not(any(unix, windows)))]
fn read_some(_: &File, _: u64, _: &mut [u8]) -> std::io::Result<usize> {
    Err(std::io::ErrorKind::Unsupported.into())
}
