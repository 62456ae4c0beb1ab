//! Slots: reusable memory that is filled, handed to a sink, and given back; and where that memory comes from.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};

use crate::error::{Error, Result};

/// The most slots of a ring. Two or three hide all waiting; more only take memory.
pub const MAX_SLOTS: usize = 64;

/// To what the memory of [`Heap`] is aligned: what files want that are read or written past the page cache.
pub(super) const PAGE: usize = 4096;

/// Memory of a slot or a window: any owned bytes that may go from thread to thread.
///
/// The bytes must keep their address and their number while they are owned.
pub trait SlotMemory: DerefMut<Target = [u8]> + Send + Sync {}

impl<T: DerefMut<Target = [u8]> + Send + Sync> SlotMemory for T {}

/// Where the memory of slots comes from. Also any closure from a number of bytes to memory, and, for memory of the
/// caller, a `Vec<Box<dyn SlotMemory>>`, from whose end it is taken.
pub trait SlotAllocator {
    /// Memory of `bytes` bytes or more.
    ///
    /// # Errors
    /// Where there is none.
    fn allocate(&mut self, bytes: usize) -> Result<Box<dyn SlotMemory>>;
}

impl<F: FnMut(usize) -> Result<Box<dyn SlotMemory>>> SlotAllocator for F {
    fn allocate(&mut self, bytes: usize) -> Result<Box<dyn SlotMemory>> {
        self(bytes)
    }
}

impl SlotAllocator for Vec<Box<dyn SlotMemory>> {
    fn allocate(&mut self, bytes: usize) -> Result<Box<dyn SlotMemory>> {
        let memory = self.pop();
        let given = memory.as_ref().map_or(0, |m| m.len());
        let missing =
            Error::Length { what: "memory given for a slot", given: given as u64, needed: bytes as u64 };
        memory.filter(|m| m.len() >= bytes).ok_or(missing)
    }
}

/// Ordinary memory, aligned to 4096 bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heap;

impl SlotAllocator for Heap {
    fn allocate(&mut self, bytes: usize) -> Result<Box<dyn SlotMemory>> {
        Ok(Box::new(Aligned::new(bytes)?))
    }
}

/// Bytes of the heap that begin on a page.
struct Aligned {
    bytes: Vec<u8>,
    begin: usize,
    len: usize,
}

impl Aligned {
    fn new(len: usize) -> Result<Aligned> {
        let mut bytes = Vec::new();
        let all = len.saturating_add(PAGE);
        bytes
            .try_reserve_exact(all)
            .map_err(|e| Error::value("slot", format!("{len} bytes ({e})"), "less"))?;
        bytes.resize(all, 0);
        let begin = bytes.as_ptr().align_offset(PAGE).min(PAGE);
        Ok(Aligned { bytes, begin, len })
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.begin..self.begin + self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.begin..self.begin + self.len]
    }
}

/// Memory on huge pages where the system has them: [`crate::run::AlignedBuffer`].
#[cfg(feature = "huge-pages")]
#[derive(Debug, Clone, Copy, Default)]
pub struct HugePages;

#[cfg(feature = "huge-pages")]
impl SlotAllocator for HugePages {
    fn allocate(&mut self, bytes: usize) -> Result<Box<dyn SlotMemory>> {
        Ok(Box::new(crate::run::AlignedBuffer::new(bytes)?))
    }
}

/// Memory that the system keeps resident: for devices that read it, and against swapping. Limits of the user apply
/// (`ulimit -l`).
#[cfg(feature = "locked")]
#[derive(Debug, Clone, Copy, Default)]
pub struct Locked;

#[cfg(feature = "locked")]
impl SlotAllocator for Locked {
    fn allocate(&mut self, bytes: usize) -> Result<Box<dyn SlotMemory>> {
        let none = |e: std::io::Error| Error::value("locked memory", format!("{bytes} bytes ({e})"), "less");
        let map = memmap2::MmapMut::map_anon(bytes.max(1)).map_err(none)?;
        #[cfg(unix)]
        map.lock().map_err(none)?;
        Ok(Box::new(map))
    }
}

/// A part of a slot: a chunk of one tensor's destination. It never reaches from one buffer of the destination to the
/// next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Which of the run's transfers it belongs to.
    pub transfer: usize,
    /// Its bytes of the destination, all buffers one after another.
    pub destination: Range<usize>,
    /// The buffer of the destination in which it lies: the device, core or bank.
    pub buffer: usize,
    /// Its first byte in that buffer.
    pub buffer_offset: usize,
    /// Its first byte in the slot. Pieces of 64 KiB and more lie on pages of 4096 bytes as in their buffer, so that whole
    /// pages of them can be written past a page cache.
    pub offset: usize,
}

impl Piece {
    /// Its bytes of the slot.
    pub fn in_slot(&self) -> Range<usize> {
        self.offset..self.offset + self.destination.len()
    }
}

/// Memory with pieces of tensors in it, on its way.
pub struct Slot {
    pub(super) memory: Box<dyn SlotMemory>,
    /// The ring it belongs to.
    pub(super) ring: u64,
    pub(super) ticket: u64,
    pub(super) used: usize,
    pub(super) pieces: Vec<Piece>,
}

impl Slot {
    /// The number of this journey: each submission of a ring has its own, in rising order.
    pub fn ticket(&self) -> u64 {
        self.ticket
    }

    /// The pieces it holds, in the order in which they lie.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The bytes that are to be moved; what lies between pieces is zero.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[..self.used]
    }

    /// The bytes of one of its pieces.
    pub fn piece(&self, piece: &Piece) -> &[u8] {
        &self.memory[piece.in_slot()]
    }

    /// All of its memory, which a sink may change once it no longer needs what is there.
    pub fn memory_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("ticket", &self.ticket)
            .field("used", &self.used)
            .field("pieces", &self.pieces)
            .finish_non_exhaustive()
    }
}
