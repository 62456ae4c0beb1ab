//! Output files that appear whole or not at all.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::failed;
use tilewright::error::{Error, Result};

/// A file in the making: a temporary name beside `path`, renamed by [`Output::commit`] and removed when dropped before.
#[derive(Debug)]
pub struct Output {
    file: NamedTempFile,
    path: PathBuf,
    /// Bytes promised and not yet written.
    missing: u64,
}

impl Output {
    /// Begins a file of exactly `len` bytes that will replace what is at `path`. Its length is set at once, so that
    /// a file system that cannot hold such a file says so before anything is computed.
    ///
    /// # Errors
    /// [`Error::Io`] when the directory cannot be written to, or when `path` is something that is not a regular file:
    /// renaming onto a device or a directory would destroy it.
    pub fn create(path: &Path, len: u64) -> Result<Output> {
        // Through a symbolic link the file behind it is replaced, not the link.
        let path = match fs::canonicalize(path) {
            Ok(real) if real.is_file() => real,
            Ok(_) => {
                let what = "the output must be a new or a regular file".to_owned();
                return Err(Error::Io { path: path.display().to_string(), what });
            }
            Err(_) => path.to_owned(),
        };
        let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".tilewright-").suffix(".part");
        // The process's umask still applies, as for any new file.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(directory).map_err(|e| failed(&path, "cannot create it", &e))?;
        file.as_file()
            .set_len(len)
            .map_err(|e| failed(&path, &format!("cannot make room for {len} bytes"), &e))?;
        Ok(Output { file, path, missing: len })
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    /// [`Error::Io`] when the system refuses; [`Error::Length`] when they are more than were promised.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let len = bytes.len() as u64;
        self.missing = self.missing.checked_sub(len).ok_or(Error::Length {
            what: "output file",
            given: len,
            needed: self.missing,
        })?;
        self.file.write_all(bytes).map_err(|e| failed(&self.path, "cannot write it", &e))
    }

    /// Gives the finished file its name.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be renamed; [`Error::Length`] when bytes are missing. Nothing is left behind then.
    pub fn commit(self) -> Result<()> {
        if self.missing != 0 {
            return Err(Error::Length { what: "output file", given: 0, needed: self.missing });
        }
        self.file.persist(&self.path).map_err(|e| failed(&self.path, "cannot rename it", &e.error))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn appears_when_committed_and_replaces() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.bin");
        fs::write(&path, "old").unwrap();
        let mut output = Output::create(&path, 4).unwrap();
        output.write(b"ab").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        output.write(b"cd").unwrap();
        output.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"abcd");
        assert_eq!(names(directory.path()), ["out.bin"]);
    }

    #[test]
    fn leaves_nothing_behind_on_failure() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.bin");
        let mut output = Output::create(&path, 2).unwrap();
        assert!(matches!(output.write(b"abc"), Err(Error::Length { given: 3, needed: 2, .. })));
        drop(output);
        assert!(matches!(Output::create(&path, 2).unwrap().commit(), Err(Error::Length { needed: 2, .. })));
        assert!(names(directory.path()).is_empty());
    }

    #[test]
    fn refuses_what_is_not_a_file() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(Output::create(directory.path(), 1), Err(Error::Io { .. })));
        assert!(matches!(Output::create(&directory.path().join("no/out"), 1), Err(Error::Io { .. })));
        #[cfg(target_os = "linux")]
        assert!(matches!(Output::create(Path::new("/dev/null"), 1), Err(Error::Io { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn replaces_the_file_behind_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (real, link) = (directory.path().join("real"), directory.path().join("link"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let mut output = Output::create(&link, 3).unwrap();
        output.write(b"new").unwrap();
        output.commit().unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(link.is_symlink());
    }
}
