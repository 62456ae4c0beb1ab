//! Writing past the page cache.
//!
//! Through the cache a gigabyte costs half a second of a processor, and memory that somebody else could use. Past it, a
//! disk takes memory and places in a file that are multiples of a page. A file is written from front to back by one
//! request at a time: of several at once file systems make a queue, in which a virtual disk that read at 1.5 GB/s meanwhile
//! took 0.2 to 0.4 GB/s in place of 0.6. What comes next is copied while one piece is written.

use std::fmt;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::sync::mpsc::channel;
use std::thread;

/// The memory and the places in a file of what goes past the page cache are multiples of this many bytes.
const PAGE: usize = 4096;

/// Parts begin at multiples of this many bytes of the file, as blocks of hashes do.
const UNIT: usize = 64 << 10;

/// Bytes that are handed to the disk at once: a virtual disk that takes 1.5 GB/s took no more of larger pieces.
pub(super) const PIECE: usize = 1 << 20;

/// Pieces that are there at once: one is filled while the other is written.
const LANES: usize = 2;

/// So many bytes are worth a thread of their own.
const BESIDE: usize = 4 * PIECE;

/// Who is shown parts of what is written, with their places in the file.
pub(super) type See<'a> = &'a dyn Fn(u64, &[u8]);

/// Memory from which a disk can take bytes without a copy.
struct Lane {
    memory: Vec<u8>,
    /// Where in it the first page begins.
    begin: usize,
}

impl Lane {
    fn new() -> Lane {
        let memory = vec![0; PIECE + PAGE];
        let begin = memory.as_ptr().addr().wrapping_neg() % PAGE;
        Lane { memory, begin }
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let at = self.begin + at;
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn bytes(&self, len: usize) -> &[u8] {
        &self.memory[self.begin..self.begin + len]
    }
}

/// The end of a file that is written past the page cache.
pub(super) struct Direct {
    /// The first one holds what fills no piece yet.
    lanes: Vec<Lane>,
    used: usize,
    on: bool,
}

impl Direct {
    /// For a file, if it can be written like this.
    pub(super) fn begin(file: &File) -> Option<Direct> {
        set_direct(file, true).ok()?;
        Some(Direct { lanes: vec![Lane::new()], used: 0, on: true })
    }

    /// Whether bytes go past the cache, and none are held back otherwise. They do not where the end of a file fills no
    /// page, and where a file system takes the wish and then not the bytes.
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// Takes bytes behind those that it has, which belong at `at`; how many of all these it has written. `last` says that
    /// nothing follows.
    pub(super) fn write(
        &mut self,
        file: &File,
        at: u64,
        bytes: &[u8],
        last: bool,
        see: See<'_>,
    ) -> Result<u64> {
        let (mut at, mut rest) = (at, bytes);
        let begin = at;
        while !rest.is_empty() {
            if self.used == 0 && rest.len() >= BESIDE {
                let (now, then) = rest.split_at(rest.len() / UNIT * UNIT);
                self.beside(file, at, now, see)?;
                (at, rest) = (at + now.len() as u64, then);
                continue;
            }
            let to_unit = (UNIT - self.used % UNIT) % UNIT;
            let many = rest.len() >= to_unit + BESIDE;
            let room = if many { to_unit } else { PIECE - self.used };
            let (now, then) = rest.split_at(room.min(rest.len()));
            see(at + self.used as u64, now);
            self.lanes[0].put(self.used, now);
            (self.used, rest) = (self.used + now.len(), then);
            if many || self.used == PIECE {
                at += self.flush(file, at)?;
            }
        }
        if last || !self.on {
            at += self.flush(file, at)?;
        }
        Ok(at - begin)
    }

    /// Writes what is there, and is empty then.
    fn flush(&mut self, file: &File, at: u64) -> Result<u64> {
        if !self.used.is_multiple_of(PAGE) {
            self.turn_off(file)?;
        }
        match write_all_at(file, at, self.lanes[0].bytes(self.used)) {
            Err(e) if self.on && e.kind() == ErrorKind::InvalidInput => {
                self.turn_off(file)?;
                write_all_at(file, at, self.lanes[0].bytes(self.used))?;
            }
            other => other?,
        }
        Ok(std::mem::take(&mut self.used) as u64)
    }

    fn turn_off(&mut self, file: &File) -> Result<()> {
        if self.on {
            set_direct(file, false)?;
        }
        self.on = false;
        Ok(())
    }

    /// Writes whole units while the first lane is empty.
    fn beside(&mut self, file: &File, at: u64, bytes: &[u8], see: See<'_>) -> Result<()> {
        match self.by_turns(file, at, bytes, see) {
            Err(e) if self.on && e.kind() == ErrorKind::InvalidInput => {
                self.turn_off(file)?;
                see(at, bytes);
                write_all_at(file, at, bytes)
            }
            other => other,
        }
    }

    /// Fills one lane while another thread writes the other.
    fn by_turns(&mut self, file: &File, at: u64, bytes: &[u8], see: See<'_>) -> Result<()> {
        self.lanes.resize_with(LANES, Lane::new);
        let (fill, empty) = channel();
        let (full, filled) = channel::<(u64, usize, Lane)>();
        // Both ends are here, so that there is somebody to take them.
        self.lanes.drain(..).for_each(|lane| fill.send(lane).unwrap_or_default());
        let outcome = thread::scope(|scope| {
            let write = move || {
                for (at, len, lane) in filled {
                    write_all_at(file, at, lane.bytes(len))?;
                    // Where nobody wants it any more, all is written.
                    let _ = fill.send(lane);
                }
                Ok(())
            };
            let writer = thread::Builder::new().name("tilewright write".into()).spawn_scoped(scope, write)?;
            for (at, piece) in (at..).step_by(PIECE).zip(bytes.chunks(PIECE)) {
                // Once the writer has failed it takes nothing and gives nothing back.
                let Ok(mut lane) = empty.recv() else { break };
                lane.put(0, piece);
                // From here, as the copy is in a cache.
                see(at, lane.bytes(piece.len()));
                if full.send((at, piece.len(), lane)).is_err() {
                    break;
                }
            }
            drop(full);
            writer.join().unwrap_or_else(|_| Err(Error::other("a thread that writes panicked")))
        });
        self.lanes.extend(empty.try_iter());
        self.lanes.resize_with(LANES, Lane::new);
        outcome
    }
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct").field("used", &self.used).finish_non_exhaustive()
    }
}

/// Writes all bytes to their place.
pub(super) fn write_all_at(file: &File, at: u64, bytes: &[u8]) -> Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match write_at(file, at + done as u64, &bytes[done..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => done += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(unix)]
fn write_at(file: &File, at: u64, bytes: &[u8]) -> Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, at)
}

#[cfg(windows)]
fn write_at(file: &File, at: u64, bytes: &[u8]) -> Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, at)
}

/// Here no file can be made, so that none can be written.
#[cfg(not(any(unix, windows)))]
fn write_at(_: &File, _: u64, _: &[u8]) -> Result<usize> {
    Err(ErrorKind::Unsupported.into())
}

/// Whether an open file is written past the page cache.
///
/// # Errors
/// Where the system or the file system has no such way.
#[cfg(target_os = "linux")]
fn set_direct(file: &File, direct: bool) -> Result<()> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let mut flags = fcntl_getfl(file)?;
    flags.set(OFlags::DIRECT, direct);
    Ok(fcntl_setfl(file, flags)?)
}

#[cfg(not(target_os = "linux"))]
fn set_direct(_: &File, _: bool) -> Result<()> {
    Err(ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file system without such a way, or one that takes back its word: all goes through the cache.
    #[test]
    fn what_is_not_taken_directly_goes_through_the_cache() {
        let bytes: Vec<u8> = (0..3 * BESIDE + 777).map(|i| ((i * 7) >> 3) as u8).collect();
        for step in [PIECE / 3, bytes.len()] {
            let file = tempfile::tempfile().unwrap();
            let Some(mut direct) = Direct::begin(&file) else { return };
            let mut at = direct.write(&file, 0, &bytes[..PIECE + 10], false, &|_, _| ()).unwrap();
            // As if a write had been refused; what is held back is written with what comes.
            direct.turn_off(&file).unwrap();
            for part in bytes[PIECE + 10..].chunks(step) {
                at += direct.write(&file, at, part, false, &|_, _| ()).unwrap();
            }
            assert_eq!(at, bytes.len() as u64);
            assert!(!direct.is_on());
            let mut seen = Vec::new();
            let mut file = file;
            std::io::Seek::rewind(&mut file).unwrap();
            std::io::Read::read_to_end(&mut file, &mut seen).unwrap();
            assert!(seen == bytes);
        }
    }
}
