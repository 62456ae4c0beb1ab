//! The physical panel: the bytes of all buffers as slots, in lines of one burst, stick or cache line.

/// The memory of a layout as a picture shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// How many buffers there are.
    pub buffers: u64,
    /// Bytes of one buffer.
    pub buffer_bytes: u64,
    /// Bytes of one slot: an element, a byte of codes, or what lies together.
    pub slot_bytes: u64,
    /// Bytes of one line of slots.
    pub line_bytes: u64,
    /// What is in each slot, of one buffer after another; the last slot of a buffer may be cut short.
    pub slots: Vec<Slot>,
}

/// What is in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// The cell of the logical panel with this row-major number begins here, or goes on; of several in one byte it is
    /// the first.
    Cell(u32),
    /// The exponent or scale of this cell and of its neighbours.
    Shared(u32),
    /// The fill.
    Padding,
    /// Zero: a byte of a tile's header that no group uses, or between pages.
    Gap,
}

impl Memory {
    /// Slots of one buffer.
    pub fn buffer_slots(&self) -> usize {
        self.buffer_bytes.div_ceil(self.slot_bytes.max(1)) as usize
    }

    /// Slots of one line.
    pub fn line_slots(&self) -> usize {
        (self.line_bytes / self.slot_bytes.max(1)).max(1) as usize
    }

    /// The number of the slot that holds a byte of all buffers.
    pub fn slot_at(&self, byte: u64) -> usize {
        let (buffer, byte) = (byte / self.buffer_bytes.max(1), byte % self.buffer_bytes.max(1));
        buffer as usize * self.buffer_slots() + (byte / self.slot_bytes.max(1)) as usize
    }

    /// The first byte of a slot, counted through all buffers.
    pub fn byte_of(&self, slot: usize) -> u64 {
        let (buffer, inside) = (slot / self.buffer_slots(), slot % self.buffer_slots());
        buffer as u64 * self.buffer_bytes + inside as u64 * self.slot_bytes
    }
}
