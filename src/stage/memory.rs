//! A consumer that puts tensors together in memory.

use super::sink::Consumer;
use super::slot::Slot;
use crate::error::{Error, Result};

/// Puts every piece where it belongs in memory: one run of bytes for each transfer, all buffers one after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    tensors: Vec<Vec<u8>>,
    received: u64,
}

impl Memory {
    /// Zero bytes for each transfer, as many as its plan's [`crate::Plan::destination_bytes`].
    ///
    /// # Errors
    /// Where there is no memory for them.
    pub fn new(sizes: impl IntoIterator<Item = usize>) -> Result<Memory> {
        let zeroes = |bytes: usize| {
            let mut tensor = Vec::new();
            let none = |e| Error::value("memory", format!("{bytes} bytes ({e})"), "less");
            tensor.try_reserve_exact(bytes).map_err(none)?;
            tensor.resize(bytes, 0);
            Ok(tensor)
        };
        Ok(Memory { tensors: sizes.into_iter().map(zeroes).collect::<Result<_>>()?, received: 0 })
    }

    /// The tensors, in the order of the transfers.
    pub fn tensors(&self) -> &[Vec<u8>] {
        &self.tensors
    }

    /// Bytes that have arrived.
    pub fn received(&self) -> u64 {
        self.received
    }
}

impl Consumer for Memory {
    fn consume(&mut self, slot: &Slot) -> Result<()> {
        for piece in slot.pieces() {
            let tensor = self.tensors.get_mut(piece.transfer);
            let given = tensor.as_ref().map_or(0, |t| t.len() as u64);
            let needed = piece.destination.end as u64;
            let missing = Error::Length { what: "memory of the sink", given, needed };
            let place = tensor.and_then(|t| t.get_mut(piece.destination.clone())).ok_or(missing)?;
            place.copy_from_slice(slot.piece(piece));
            self.received += place.len() as u64;
        }
        Ok(())
    }
}
