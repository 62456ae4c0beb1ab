//! Output files that appear whole or not at all.

use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use tilewright::error::{Error, Result};

/// A file in the making, which takes the place of what is at its path when it is complete.
///
/// On Linux the bytes go to a file without a name, which [`Output::commit`] names: however the process ends before, by
/// a signal too, nothing is left behind. Where the system or the file system has no such files, the bytes go to a
/// temporary name beside the path, `.tilewright-*.part`, which a process that is killed leaves behind.
#[derive(Debug)]
pub struct Output {
    draft: Draft,
    /// Where the file goes: no symbolic link.
    path: PathBuf,
    /// Bytes promised and not yet written.
    missing: u64,
    /// Bytes that the system has been asked to store, of those written.
    stored: u64,
    written: u64,
}

/// So many bytes are handed to the disk at once while a file is written: left to itself, a system keeps gigabytes, and the
/// disk, idle until then, is waited for at the end.
const FLUSH: u64 = 8 << 20;

/// Whole pages of so many bytes go past the page cache, if they lie on pages in memory as they will in the file: through it,
/// each gigabyte costs half a second of a processor, and past it a tenth. Fewer are sooner copied than waited for.
const DIRECT: usize = 1 << 20;

/// Bytes of a page, or more: what memory and places of files are multiples of, past the page cache.
const PAGE: usize = 4096;

/// Where the bytes are until the file is complete.
#[derive(Debug)]
enum Draft {
    #[cfg(target_os = "linux")]
    Unnamed(File),
    Named(NamedTempFile),
}

/// The most symbolic links that are followed one after another, as by Linux.
const MAX_LINKS: usize = 40;

impl Output {
    /// Begins a file of exactly `len` bytes that will replace what is at `path`.
    ///
    /// Its length is set at once, so that a file system that cannot hold such a file, or a limit of the process, says so
    /// before anything is computed. Symbolic links are followed, also one to a file that is not there yet. The file
    /// keeps the permissions of the one that it replaces (the lowest nine bits of its mode).
    ///
    /// # Errors
    /// [`Error::Io`] when the directory cannot be written to, when the file would be longer than the process may write,
    /// or when `path` is something that is not a regular file: renaming onto a device or a directory would destroy it.
    pub fn create(path: &Path, len: u64) -> Result<Output> {
        let there = match fs::metadata(path) {
            Ok(there) if there.is_file() => Some(there),
            Ok(_) => {
                let what = "the output must be a new or a regular file";
                return Err(Error::file(path.display(), ErrorKind::InvalidInput, what));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io(path.display(), "cannot look at it", error)),
        };
        let path = behind_links(path)?;
        check_limit(&path, len)?;
        let draft = Draft::create(&path, there.as_ref())
            .map_err(|e| Error::io(path.display(), "cannot create it", e))?;
        let output = Output { draft, path, missing: len, stored: 0, written: 0 };
        let doing = || format!("cannot make room for {len} bytes");
        output.draft.file().set_len(len).map_err(|e| Error::io(output.path.display(), &doing(), e))?;
        Ok(output)
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
        let pages = whole_pages(self.written, bytes);
        let direct = if pages.len() < DIRECT { pages.start..pages.start } else { pages };
        self.write_cached(&bytes[..direct.start])?;
        let n = write_direct(self.draft.file(), &bytes[direct.clone()]);
        self.written += n as u64;
        self.write_cached(&bytes[direct.start + n..])
    }

    /// Writes bytes through the page cache, in parts, so that the disk begins before all of a large one is copied.
    fn write_cached(&mut self, bytes: &[u8]) -> Result<()> {
        for part in bytes.chunks(FLUSH as usize) {
            let mut file = self.draft.file();
            file.write_all(part).map_err(|e| Error::io(self.path.display(), "cannot write it", e))?;
            self.written += part.len() as u64;
            if self.written - self.stored >= FLUSH {
                begin_to_store(file, self.stored, self.written - self.stored);
                self.stored = self.written;
            }
        }
        Ok(())
    }

    /// Gives the finished file its name, once the system has stored its bytes: a machine that loses power has the old
    /// file or the new one.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be stored or named; [`Error::Length`] when bytes are missing. Nothing is left
    /// behind then.
    pub fn commit(self) -> Result<()> {
        if self.missing != 0 {
            return Err(Error::Length { what: "output file", given: 0, needed: self.missing });
        }
        self.draft.file().sync_all().map_err(|e| Error::io(self.path.display(), "cannot store it", e))?;
        self.draft.name(&self.path).map_err(|e| Error::io(self.path.display(), "cannot rename it", e))
    }
}

impl Draft {
    /// A file in the directory of `path`, with the permissions of the one that is `there`.
    fn create(path: &Path, there: Option<&Metadata>) -> std::io::Result<Draft> {
        let mode = there.map_or(0o666, permission_bits);
        let draft = match unnamed(directory(path), mode) {
            Some(draft) => draft,
            None => Draft::Named(named(directory(path), mode)?),
        };
        // A new file loses the bits of the process's umask, one that replaces another does not.
        if there.is_some() {
            set_permissions(draft.file(), mode)?;
        }
        Ok(draft)
    }

    fn file(&self) -> &File {
        match self {
            #[cfg(target_os = "linux")]
            Draft::Unnamed(file) => file,
            Draft::Named(file) => file.as_file(),
        }
    }

    /// Renames the file to `path`. One without a name gets a temporary name first: only a rename replaces a file.
    fn name(self, path: &Path) -> std::io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Draft::Unnamed(file) => {
                use rustix::fs::{AtFlags, CWD, linkat};
                let open = name_in_proc(&file);
                let link = |name: &Path| Ok(linkat(CWD, &open, CWD, name, AtFlags::SYMLINK_FOLLOW)?);
                names().make_in(directory(path), link)?.persist(path)?;
            }
            Draft::Named(file) => {
                file.persist(path)?;
            }
        }
        Ok(())
    }
}

/// The whole pages of bytes that go to this place of a file; none where they do not lie on pages in memory.
fn whole_pages(at: u64, bytes: &[u8]) -> Range<usize> {
    let to_page = (at.wrapping_neg() % PAGE as u64) as usize;
    let aligned = bytes.as_ptr().addr().wrapping_add(to_page).is_multiple_of(PAGE);
    let pages = bytes.len().saturating_sub(to_page) / PAGE * PAGE;
    if aligned && pages > 0 { to_page..to_page + pages } else { 0..0 }
}

/// Writes whole pages where the file stands, past the page cache: how many bytes of them. The rest is for the cache, which a
/// file system may insist on, and which says why if it cannot be written at all.
#[cfg(target_os = "linux")]
fn write_direct(mut file: &File, pages: &[u8]) -> usize {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let Ok(flags) = fcntl_getfl(file) else { return 0 };
    if pages.is_empty() || fcntl_setfl(file, flags | OFlags::DIRECT).is_err() {
        return 0;
    }
    let mut done = 0;
    while let Some(n) = file.write(&pages[done..]).ok().filter(|&n| n > 0) {
        done += n;
    }
    // What could be set can be reset.
    let _ = fcntl_setfl(file, flags);
    done
}

#[cfg(not(target_os = "linux"))]
fn write_direct(_: &File, _: &[u8]) -> usize {
    0
}

/// Makes the system begin to store a range of a file.
#[cfg(target_os = "linux")]
fn begin_to_store(file: &File, at: u64, len: u64) {
    use rustix::fs::{Advice, fadvise};
    // Linux takes this as: write what is not on the disk yet, without waiting for it, and forget what is. It is only
    // advice.
    let _ = fadvise(file, at, std::num::NonZeroU64::new(len), Advice::DontNeed);
}

#[cfg(not(target_os = "linux"))]
fn begin_to_store(_: &File, _: u64, _: u64) {}

/// The directory that a file is in.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn names() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tilewright-").suffix(".part");
    builder
}

/// A temporary name in a directory.
fn named(directory: &Path, mode: u32) -> std::io::Result<NamedTempFile> {
    let mut names = names();
    #[cfg(unix)]
    names.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    let _ = mode;
    names.tempfile_in(directory)
}

#[cfg(unix)]
fn set_permissions(file: &File, mode: u32) -> std::io::Result<()> {
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))
}

#[cfg(not(unix))]
fn set_permissions(_: &File, _: u32) -> std::io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn permission_bits(there: &Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&there.permissions()) & 0o777
}

#[cfg(not(unix))]
fn permission_bits(_: &Metadata) -> u32 {
    0
}

/// A file without a name in a directory, where there can be one.
#[cfg(target_os = "linux")]
fn unnamed(directory: &Path, mode: u32) -> Option<Draft> {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = File::from(open(directory, flags, Mode::from_raw_mode(mode)).ok()?);
    // It can only be named through /proc, which a container may lack.
    fs::symlink_metadata(name_in_proc(&file)).ok()?;
    Some(Draft::Unnamed(file))
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_: &Path, _: u32) -> Option<Draft> {
    None
}

/// What an open file is called while it is open.
#[cfg(target_os = "linux")]
fn name_in_proc(file: &File) -> String {
    format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file))
}

/// Where a path leads through symbolic links, whether something is there or not.
fn behind_links(path: &Path) -> Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => return Ok(path),
        }
    }
    let what = format!("more than {MAX_LINKS} symbolic links lead to it");
    Err(Error::file(path.display(), ErrorKind::InvalidInput, what))
}

/// An error where the process may not write a file of so many bytes: trying it would end the process.
#[cfg(unix)]
fn check_limit(path: &Path, len: u64) -> Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    match limit {
        Some(limit) if len > limit => {
            let what = format!("a file of {len} bytes: this process may write files of at most {limit}");
            Err(Error::file(path.display(), ErrorKind::FileTooLarge, what))
        }
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn check_limit(_: &Path, _: u64) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_in(directory: &Path) -> Vec<String> {
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
        assert_eq!(names_in(directory.path()), ["out.bin"]);
    }

    #[test]
    fn leaves_nothing_behind_on_failure() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.bin");
        let mut output = Output::create(&path, 2).unwrap();
        assert!(matches!(output.write(b"abc"), Err(Error::Length { given: 3, needed: 2, .. })));
        drop(output);
        assert!(matches!(Output::create(&path, 2).unwrap().commit(), Err(Error::Length { needed: 2, .. })));
        assert!(names_in(directory.path()).is_empty());
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

    #[cfg(unix)]
    #[test]
    fn a_link_to_nothing_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (real, link) = (directory.path().join("real"), directory.path().join("link"));
        // Two links, both relative to where they are.
        std::os::unix::fs::symlink("real", directory.path().join("second")).unwrap();
        std::os::unix::fs::symlink("second", &link).unwrap();
        let mut output = Output::create(&link, 3).unwrap();
        output.write(b"new").unwrap();
        output.commit().unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(link.is_symlink());
        let circle = directory.path().join("circle");
        std::os::unix::fs::symlink("circle", &circle).unwrap();
        assert!(matches!(Output::create(&circle, 3), Err(Error::Io { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn permissions_are_kept() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let plain = directory.path().join("plain");
        fs::write(&plain, "").unwrap();
        for named in [false, true] {
            for kept in [0o600, 0o640, 0o666, 0o444, 0o777] {
                let path = directory.path().join("out.bin");
                let _ = fs::remove_file(&path);
                fs::write(&path, "old").unwrap();
                fs::set_permissions(&path, PermissionsExt::from_mode(kept)).unwrap();
                write(&path, named);
                assert_eq!(mode(&path), kept, "{kept:o}");
            }
            let new = directory.path().join(format!("new-{named}"));
            write(&new, named);
            assert_eq!(mode(&new), mode(&plain), "as any new file");
        }
    }

    /// Writes a file; the way of systems without files that have no name, where `named`.
    #[cfg(unix)]
    fn write(path: &Path, named: bool) {
        let mut output = Output::create(path, 3).unwrap();
        if named {
            let mode = fs::metadata(path).map_or(0o666, |there| permission_bits(&there));
            let file = super::named(directory(path), mode).unwrap();
            if path.exists() {
                set_permissions(file.as_file(), mode).unwrap();
            }
            output.draft = Draft::Named(file);
        }
        output.write(b"new").unwrap();
        output.commit().unwrap();
        assert_eq!(fs::read(path).unwrap(), b"new");
    }

    /// What goes past the page cache and what goes through it come one after the other, wherever they lie in memory.
    #[test]
    fn whole_pages_and_the_rest_are_in_order() {
        use tilewright::stage::{Heap, SlotAllocator};
        let mut memory = Heap.allocate(4 << 20).unwrap();
        memory.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * 7 + (i >> 12)) as u8);
        let page = PAGE as u64;
        assert_eq!(whole_pages(0, &memory[..10_000]), 0..8192);
        assert_eq!(whole_pages(page - 1, &memory[PAGE - 1..][..10_000]), 1..8193);
        assert_eq!(whole_pages(7, &memory[PAGE..][..10_000]), 0..0);
        assert_eq!(whole_pages(page - 10, &memory[PAGE - 10..][..4105]), 0..0);
        assert_eq!(whole_pages(page - 10, &memory[PAGE - 10..][..4106]), 10..4106);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.bin");
        // Some lie in memory as they will in the file, and others do not.
        let parts =
            [0..100, 100..(2 << 20) + 77, 5..9, 81..(3 << 20), 1..(2 << 20), 0..(1 << 20), 0..(4 << 20)];
        let whole: Vec<u8> = parts.iter().flat_map(|part| &memory[part.clone()]).copied().collect();
        let mut output = Output::create(&path, whole.len() as u64).unwrap();
        parts.iter().for_each(|part| output.write(&memory[part.clone()]).unwrap());
        output.commit().unwrap();
        assert!(fs::read(&path).unwrap() == whole);
    }

    /// A process that ends here, however it does, leaves nothing.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_in_the_making_has_no_name() {
        let directory = tempfile::tempdir().unwrap();
        let mut output = Output::create(&directory.path().join("out.bin"), 1 << 20).unwrap();
        output.write(&[1; 1000]).unwrap();
        if matches!(output.draft, Draft::Named(_)) {
            eprintln!("skipped: files of {} always have names", directory.path().display());
            return;
        }
        assert!(names_in(directory.path()).is_empty());
    }
}
