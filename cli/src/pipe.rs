//! stdin as a source: read once, from the front.

use std::fmt;
use std::io::{ErrorKind, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tilewright::stage::ReadAt;
use tilewright::{Error, Result};

/// Bytes that are skipped at a time.
const SKIPPED: usize = 64 << 10;

/// A stream that is asked for ranges in their order, as a stager does; what lies between them is skipped.
pub(crate) struct Pipe(Mutex<State>);

struct State {
    from: Box<dyn Read + Send>,
    /// The first bytes, which have been looked at.
    head: Vec<u8>,
    /// Bytes that have been handed out or skipped.
    at: u64,
}

impl Pipe {
    pub(crate) fn stdin() -> Pipe {
        Pipe::of(std::io::stdin())
    }

    fn of(from: impl Read + Send + 'static) -> Pipe {
        Pipe(Mutex::new(State { from: Box::new(from), head: Vec::new(), at: 0 }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first bytes, `most` of them or all there are; they are handed out again when ranges are read.
    pub(crate) fn head(&self, most: usize) -> Result<Vec<u8>> {
        let mut state = self.state();
        let State { from, head, .. } = &mut *state;
        from.by_ref().take(most as u64).read_to_end(head).map_err(failed)?;
        Ok(head.clone())
    }

    /// All of it, for what cannot be done in one pass.
    pub(crate) fn all(self) -> Result<Vec<u8>> {
        let State { mut from, head: mut bytes, .. } =
            self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        from.read_to_end(&mut bytes).map_err(failed)?;
        Ok(bytes)
    }

    /// An error unless it ends after just so many bytes.
    pub(crate) fn check_end(&self, needed: u64) -> Result<()> {
        let mut state = self.state();
        let left = needed.saturating_sub(state.at);
        state.skip(left)?;
        match state.some(&mut [0])? {
            0 => Ok(()),
            _ => Err(Error::Length { what: "stdin", given: needed + 1, needed }),
        }
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::io("stdin", "cannot read it", error)
}

impl State {
    /// Up to as many bytes as fit; 0 at the end.
    fn some(&mut self, into: &mut [u8]) -> Result<usize> {
        if let Some(head) = self.head.get(self.at as usize..).filter(|head| !head.is_empty()) {
            let n = head.len().min(into.len());
            into[..n].copy_from_slice(&head[..n]);
            self.at += n as u64;
            return Ok(n);
        }
        loop {
            match self.from.read(into) {
                Ok(n) => {
                    self.at += n as u64;
                    return Ok(n);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e)),
            }
        }
    }

    fn fill(&mut self, into: &mut [u8]) -> Result<()> {
        let needed = self.at + into.len() as u64;
        let mut done = 0;
        while done < into.len() {
            match self.some(&mut into[done..])? {
                0 => return Err(Error::Length { what: "stdin", given: self.at, needed }),
                n => done += n,
            }
        }
        Ok(())
    }

    fn skip(&mut self, mut bytes: u64) -> Result<()> {
        let mut dropped = vec![0; bytes.min(SKIPPED as u64) as usize];
        while bytes > 0 {
            let n = bytes.min(dropped.len() as u64);
            self.fill(&mut dropped[..n as usize])?;
            bytes -= n;
        }
        Ok(())
    }
}

impl ReadAt for Pipe {
    /// Nobody knows; whoever asks for more than there is gets an error then.
    fn size(&self) -> u64 {
        i64::MAX as u64
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let mut state = self.state();
        let Some(skipped) = at.checked_sub(state.at) else {
            let given = format!("byte {at} after byte {}", state.at);
            return Err(Error::value("stdin", given, "reads in the order of the bytes"));
        };
        state.skip(skipped)?;
        state.fill(into)
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe").field("at", &self.state().at).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_come_in_order_and_once() {
        let bytes: Vec<u8> = (0..200).collect();
        let pipe = Pipe::of(std::io::Cursor::new(bytes.clone()));
        assert_eq!(pipe.head(50).unwrap(), bytes[..50]);
        for range in [10..20, 20..60, 100..199] {
            let mut into = vec![0; range.len()];
            pipe.read_at(range.start as u64, &mut into).unwrap();
            assert_eq!(into, bytes[range]);
        }
        assert!(pipe.read_at(5, &mut [0]).unwrap_err().to_string().contains("byte 5 after byte 199"));
        pipe.check_end(200).unwrap();
        let short = Pipe::of(std::io::Cursor::new(bytes));
        assert!(matches!(short.check_end(201), Err(Error::Length { given: 200, needed: 201, .. })));
    }

    #[test]
    fn more_than_is_needed_is_noticed() {
        let pipe = Pipe::of(std::io::Cursor::new(vec![0; 100]));
        pipe.read_at(0, &mut [0; 10]).unwrap();
        assert!(matches!(pipe.check_end(99), Err(Error::Length { needed: 99, .. })));
        assert_eq!(Pipe::of(std::io::Cursor::new(vec![7; 3])).all().unwrap(), [7; 3]);
    }
}
