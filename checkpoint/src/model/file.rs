//! One file of a model, read at any place by any thread.

use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tilewright::stage::{FileReader, ReadAt};
use tilewright::{Error, Result};

/// An open file, and what it was like when it was opened.
#[derive(Debug)]
pub struct ModelFile {
    path: PathBuf,
    reader: FileReader,
    modified: Option<SystemTime>,
}

impl ModelFile {
    /// Opens a regular file.
    ///
    /// # Errors
    /// [`Error::Io`] where it is not there, cannot be read, or is not a regular file.
    pub fn open(path: &Path) -> Result<ModelFile> {
        let refused = |e| Error::io(path.display(), "cannot open it", e);
        // Asked before it is opened: opening a pipe waits for its other end.
        if !fs::metadata(path).map_err(refused)?.is_file() {
            return Err(damaged(path, "not a regular file"));
        }
        let file = File::open(path).map_err(refused)?;
        let modified = file.metadata().map_err(refused)?.modified().ok();
        let reader = FileReader::from_file(path.display().to_string(), file)?;
        Ok(ModelFile { path: path.to_owned(), reader, modified })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length in bytes when it was opened.
    pub fn len(&self) -> u64 {
        self.reader.size()
    }

    /// Whether it held nothing when it was opened.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When it was last written to, as far as the system knows.
    pub fn modified(&self) -> Option<SystemTime> {
        self.modified
    }

    /// Fills `out` with the bytes from `at` on.
    ///
    /// # Errors
    /// [`Error::Io`] where the file ends before, or the system cannot read it.
    pub fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let (given, needed) = (self.len(), at.saturating_add(out.len() as u64));
        if needed > given {
            return Err(damaged(&self.path, format!("it ends at byte {given}, {needed} are needed")));
        }
        self.reader.read_at(at, out)
    }

    /// Says that a range will be read soon: the system begins to fetch it, if it can, while something else goes on.
    pub fn will_read(&self, range: Range<u64>) {
        tilewright_files::will_read(self.reader.file(), range);
    }

    /// An error if the file is no longer what was opened: another length or another time of writing.
    ///
    /// # Errors
    /// [`Error::Io`] that says what changed.
    pub fn check_unchanged(&self) -> Result<()> {
        let now = self
            .reader
            .file()
            .metadata()
            .map_err(|e| Error::io(self.path.display(), "cannot look at it", e))?;
        if now.len() != self.len() {
            let what = format!("it changed while it was read: {} bytes became {}", self.len(), now.len());
            return Err(damaged(&self.path, what));
        }
        if now.modified().ok() != self.modified {
            return Err(damaged(&self.path, "it was written to while it was read"));
        }
        Ok(())
    }
}

/// The error of a file that is not what it should be.
pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Error {
    tilewright_files::damaged(&path.display().to_string(), what)
}
