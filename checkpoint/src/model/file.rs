//! One file of a model, read at any place by any thread.

use std::fs::{self, File};
#[cfg(target_os = "linux")]
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tilewright::{Error, Result};

/// Linux reads 128 KiB ahead unless told otherwise.
#[cfg(target_os = "linux")]
const AHEAD: u64 = 128 << 10;

/// An open file, and what it was like when it was opened.
#[derive(Debug)]
pub struct ModelFile {
    path: PathBuf,
    file: File,
    len: u64,
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
        let metadata = file.metadata().map_err(refused)?;
        Ok(ModelFile { path: path.to_owned(), file, len: metadata.len(), modified: metadata.modified().ok() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length in bytes when it was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it held nothing when it was opened.
    pub fn is_empty(&self) -> bool {
        self.len == 0
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
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_exact_at(&self.file, out, at);
        #[cfg(windows)]
        let read = read_exact_at(&self.file, out, at);
        read.map_err(|e| {
            Error::io(self.path.display(), &format!("cannot read {} bytes at {at}", out.len()), e)
        })
    }

    /// Says that a range will be read soon: the system begins to fetch it, if it can, while something else goes on.
    pub fn will_read(&self, range: Range<u64>) {
        // Systems fetch no more at a time than they read ahead, whatever the length that they are told.
        #[cfg(target_os = "linux")]
        for at in range.step_by(AHEAD as usize) {
            // It is only advice.
            let _ = rustix::fs::fadvise(&self.file, at, NonZeroU64::new(AHEAD), rustix::fs::Advice::WillNeed);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = range;
    }

    /// An error if the file is no longer what was opened: another length or another time of writing.
    ///
    /// # Errors
    /// [`Error::Io`] that says what changed.
    pub fn check_unchanged(&self) -> Result<()> {
        let now = self.file.metadata().map_err(|e| Error::io(self.path.display(), "cannot look at it", e))?;
        if now.len() != self.len {
            let what = format!("it changed while it was read: {} bytes became {}", self.len, now.len());
            return Err(damaged(&self.path, what));
        }
        if now.modified().ok() != self.modified {
            return Err(damaged(&self.path, "it was written to while it was read"));
        }
        Ok(())
    }
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut out: &mut [u8], mut at: u64) -> std::io::Result<()> {
    while !out.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, out, at)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            n => {
                out = &mut out[n..];
                at += n as u64;
            }
        }
    }
    Ok(())
}

/// The error of a file that is not what it should be.
pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Error {
    tilewright_files::damaged(&path.display().to_string(), what)
}
