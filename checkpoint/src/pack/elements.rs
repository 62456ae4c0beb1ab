//! The elements of an array as the stager reads them: decoded by all threads, and hashed on the way.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use tilewright::Result;
use tilewright::run::{Executor, Pool};
use tilewright::stage::ReadAt;

use crate::array::Array;

/// Elements are decoded in pieces of this many bytes, each thread with the codes of a piece, which are at most half of it.
const PIECE: usize = 256 << 10;

/// An array as the stager reads it: decoded in pieces, and hashed on the way.
pub(crate) struct Elements {
    array: Arc<dyn Array>,
    /// Who reads and decodes; the calling thread without.
    pool: Option<Arc<Pool>>,
    bytes: u64,
    /// None where nobody asks for a hash.
    hashed: Option<Mutex<Hashed>>,
}

/// The hash of the elements before `at`, which have been read one after another.
#[derive(Default)]
struct Hashed {
    hasher: blake3::Hasher,
    at: u64,
}

impl Elements {
    pub(crate) fn new(array: Arc<dyn Array>, pool: Option<Arc<Pool>>) -> Result<Elements> {
        let tensor = array.tensor();
        let bytes = tilewright_files::byte_len(&tensor.shape, tensor.dtype)?;
        Ok(Elements { array, pool, bytes, hashed: Some(Mutex::default()) })
    }

    /// The same, read faster.
    pub(crate) fn unhashed(self) -> Elements {
        Elements { hashed: None, ..self }
    }

    /// The hash of all elements; those that were not read in order are read again.
    pub(crate) fn blake3(&self) -> Result<String> {
        let hashed = self.hashed.as_ref().map(|h| h.lock().unwrap_or_else(PoisonError::into_inner));
        match hashed.filter(|hashed| hashed.at == self.bytes) {
            Some(hashed) => Ok(hashed.hasher.finalize().to_hex().to_string()),
            None => elements_blake3(&*self.array),
        }
    }
}

impl ReadAt for Elements {
    fn size(&self) -> u64 {
        self.bytes
    }

    fn alignment(&self) -> usize {
        self.array.tensor().dtype.size()
    }

    fn will_read(&self, range: Range<u64>) {
        self.array.will_read(range);
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()> {
        type Piece<'a> = Mutex<(&'a mut [u8], Result<()>)>;
        let pieces: Vec<Piece<'_>> =
            into.chunks_mut(PIECE).map(|piece| Mutex::new((piece, Ok(())))).collect();
        let decode = |i: usize| {
            let mut piece = pieces[i].lock().unwrap_or_else(PoisonError::into_inner);
            piece.1 = self.array.read(at + (i * PIECE) as u64, piece.0);
        };
        match &self.pool {
            Some(pool) => pool.run(pieces.len(), &decode),
            None => (0..pieces.len()).for_each(decode),
        }
        for piece in pieces {
            piece.into_inner().unwrap_or_else(PoisonError::into_inner).1?;
        }
        let Some(hashed) = &self.hashed else { return Ok(()) };
        let mut hashed = hashed.lock().unwrap_or_else(PoisonError::into_inner);
        if hashed.at == at {
            hashed.hasher.update(into);
            hashed.at += into.len() as u64;
        }
        Ok(())
    }
}

/// The blake3 of an array's elements, row-major.
pub(crate) fn elements_blake3(array: &dyn Array) -> Result<String> {
    let tensor = array.tensor();
    let bytes = tilewright_files::byte_len(&tensor.shape, tensor.dtype)?;
    let (mut hasher, mut at) = (blake3::Hasher::new(), 0);
    let mut piece = vec![0; PIECE.min(usize::try_from(bytes).unwrap_or(PIECE))];
    while at < bytes {
        let piece = &mut piece[..PIECE.min(usize::try_from(bytes - at).unwrap_or(PIECE))];
        array.read(at, piece)?;
        hasher.update(piece);
        at += piece.len() as u64;
    }
    Ok(hasher.finalize().to_hex().to_string())
}
