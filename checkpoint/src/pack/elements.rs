//! The elements of an array as the stager reads them: decoded by all threads.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use tilewright::Result;
use tilewright::run::{Executor, Pool};
use tilewright::stage::ReadAt;

use crate::array::Array;

/// Elements are decoded in pieces of this many bytes, each thread with the codes of a piece, which are at most half of it:
/// both stay in its second cache until they are hashed and decoded.
const PIECE: u64 = 256 << 10;

/// An array as the stager reads it: decoded in pieces.
pub(crate) struct Elements {
    array: Arc<dyn Array>,
    /// Who reads and decodes; the calling thread without.
    pool: Option<Arc<Pool>>,
    bytes: u64,
}

impl Elements {
    pub(crate) fn new(array: Arc<dyn Array>, pool: Option<Arc<Pool>>) -> Result<Elements> {
        let tensor = array.tensor();
        let bytes = tilewright_files::byte_len(&tensor.shape, tensor.dtype)?;
        Ok(Elements { array, pool, bytes })
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
        type Piece<'a> = Mutex<(u64, &'a mut [u8], Result<()>)>;
        // Pieces begin where pieces of the whole array do, so that most blocks of a hash are in one of them.
        let (mut at, mut rest) = (at, into);
        let mut pieces: Vec<Piece<'_>> = Vec::with_capacity(rest.len() / PIECE as usize + 2);
        while !rest.is_empty() {
            let len = (PIECE - at % PIECE).min(rest.len() as u64);
            let (piece, then) = rest.split_at_mut(len as usize);
            pieces.push(Mutex::new((at, piece, Ok(()))));
            (at, rest) = (at + len, then);
        }
        let decode = |i: usize| {
            let mut piece = pieces[i].lock().unwrap_or_else(PoisonError::into_inner);
            let (at, piece, outcome) = &mut *piece;
            *outcome = self.array.read(*at, piece);
        };
        match &self.pool {
            Some(pool) => pool.run(pieces.len(), &decode),
            None => (0..pieces.len()).for_each(decode),
        }
        pieces.into_iter().try_for_each(|piece| piece.into_inner().unwrap_or_else(PoisonError::into_inner).2)
    }
}
