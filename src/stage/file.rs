//! A consumer that writes tensors to files.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use super::sink::Consumer;
#[cfg(all(feature = "direct-io", target_os = "linux"))]
use super::slot::PAGE;
use super::slot::Slot;
use crate::error::{Error, Result};

/// Where one tensor begins in a file that exists and is open for writing.
#[derive(Debug, Clone)]
pub struct FilePlace {
    file: Arc<File>,
    name: Arc<str>,
    /// The same file, written past the page cache.
    direct: Option<Arc<File>>,
    begin: u64,
}

impl FilePlace {
    /// The beginning of a file, which is made if it does not exist, and else kept as it is.
    ///
    /// # Errors
    /// [`Error::Io`] where it cannot be opened.
    pub fn open(path: &Path) -> Result<FilePlace> {
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = Arc::new(file.map_err(|e| failed(&path.display().to_string(), "cannot open it", e))?);
        Ok(FilePlace { file, name: path.display().to_string().into(), direct: None, begin: 0 })
    }

    /// The same, for writing past the page cache: pieces whose bytes lie on multiples of 4096 in slot and file, or the
    /// part of them that does, go straight to the disk; the rest goes through the cache.
    ///
    /// # Errors
    /// As [`FilePlace::open`], and where the file system refuses.
    #[cfg(all(feature = "direct-io", target_os = "linux"))]
    pub fn open_direct(path: &Path) -> Result<FilePlace> {
        use std::os::unix::fs::OpenOptionsExt;
        let place = FilePlace::open(path)?;
        let direct = File::options().write(true).custom_flags(libc::O_DIRECT).open(path);
        let direct = direct.map_err(|e| failed(&place.name, "cannot open it directly", e))?;
        Ok(FilePlace { direct: Some(Arc::new(direct)), ..place })
    }

    /// The place of another tensor in the same file.
    pub fn at(&self, begin: u64) -> FilePlace {
        FilePlace { begin, ..self.clone() }
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let direct = self.direct_part(at, bytes);
        let parts =
            [(&self.file, 0..direct.start), (self.direct.as_ref().unwrap_or(&self.file), direct.clone())];
        for (file, range) in parts.into_iter().chain([(&self.file, direct.end..bytes.len())]) {
            if range.is_empty() {
                continue;
            }
            let at = at + range.start as u64;
            let mut file: &File = file;
            let written = file.seek(SeekFrom::Start(at)).and_then(|_| file.write_all(&bytes[range.clone()]));
            written
                .map_err(|e| failed(&self.name, &format!("cannot write {} bytes at {at}", range.len()), e))?;
        }
        Ok(())
    }

    /// The bytes of a piece that can go past the page cache.
    #[cfg(all(feature = "direct-io", target_os = "linux"))]
    fn direct_part(&self, at: u64, bytes: &[u8]) -> std::ops::Range<usize> {
        let to_page = (at.wrapping_neg() % PAGE as u64) as usize;
        let aligned = (bytes.as_ptr().addr() + to_page).is_multiple_of(PAGE);
        if self.direct.is_none() || !aligned || to_page >= bytes.len() {
            return 0..0;
        }
        to_page..to_page + (bytes.len() - to_page) / PAGE * PAGE
    }

    #[cfg(not(all(feature = "direct-io", target_os = "linux")))]
    fn direct_part(&self, _at: u64, _bytes: &[u8]) -> std::ops::Range<usize> {
        0..0
    }
}

/// Writes every piece to its place in a file. Nothing is flushed to the disk, and nothing renamed: that is for whoever
/// opened the files to do, once the run has succeeded.
#[derive(Debug, Clone)]
pub struct FileWriter {
    places: Vec<FilePlace>,
}

impl FileWriter {
    /// One place for each transfer.
    pub fn new(places: Vec<FilePlace>) -> FileWriter {
        FileWriter { places }
    }
}

impl Consumer for FileWriter {
    fn consume(&mut self, slot: &Slot) -> Result<()> {
        for piece in slot.pieces() {
            let (given, needed) = (self.places.len() as u64, piece.transfer as u64 + 1);
            let missing = Error::Length { what: "places in files of the sink", given, needed };
            let place = self.places.get(piece.transfer).ok_or(missing)?;
            let at = place.begin.checked_add(piece.destination.start as u64);
            place.write(at.ok_or_else(|| Error::overflow("the place in a file"))?, slot.piece(piece))?;
        }
        Ok(())
    }
}

fn failed(name: &str, what: &str, error: std::io::Error) -> Error {
    Error::io(name, what, error)
}
