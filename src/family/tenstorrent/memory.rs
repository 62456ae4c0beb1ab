//! The memories of a device, as the texts of the compiler and of the runtime name them, and what fills padding there.

/// What fills the places of a shard that hold no element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fill {
    /// Not defined by the compiler; zero bytes here.
    Undef,
    /// The number 0.
    Zero,
    /// The number 1.
    One,
    /// Plus infinity.
    Inf,
    /// Minus infinity.
    NegInf,
}

impl Fill {
    pub(crate) const NAMES: [(&'static str, Fill); 5] = [
        ("undef", Fill::Undef),
        ("zero", Fill::Zero),
        ("one", Fill::One),
        ("inf", Fill::Inf),
        ("neginf", Fill::NegInf),
    ];

    /// The number that it is.
    pub(crate) fn value(self) -> f64 {
        match self {
            Fill::Undef | Fill::Zero => 0.0,
            Fill::One => 1.0,
            Fill::Inf => f64::INFINITY,
            Fill::NegInf => f64::NEG_INFINITY,
        }
    }
}

/// Where the shards live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemorySpace {
    /// Host memory that the device does not see.
    System,
    /// Host memory that the device sees.
    Mmio,
    /// DRAM of the device.
    Dram,
    /// SRAM of each core.
    L1,
    /// Destination registers of a core.
    Dst,
}

impl MemorySpace {
    pub(crate) const NAMES: [(&'static str, MemorySpace); 5] = [
        ("system", MemorySpace::System),
        ("mmio", MemorySpace::Mmio),
        ("dram", MemorySpace::Dram),
        ("l1", MemorySpace::L1),
        ("dst", MemorySpace::Dst),
    ];
}

/// Whether shards stay with their core or pages are dealt to banks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryLayout {
    /// Each core holds its shard.
    Sharded,
    /// Pages are dealt to the banks in turn.
    Interleaved,
}

impl MemoryLayout {
    pub(crate) const NAMES: [(&'static str, MemoryLayout); 2] =
        [("sharded", MemoryLayout::Sharded), ("interleaved", MemoryLayout::Interleaved)];
}

/// The kind of memory that holds the buffers: TTNN's `BufferType`. It moves no byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BufferType {
    /// DRAM.
    Dram,
    /// The memory of the cores.
    L1,
    /// Memory of the host.
    SystemMemory,
    /// The small part of the cores' memory that is kept apart.
    L1Small,
    /// DRAM that holds traces.
    Trace,
}

impl BufferType {
    /// Names, in the order of TTNN's numbers from 0 on.
    pub(crate) const NAMES: [(&'static str, BufferType); 5] = [
        ("DRAM", BufferType::Dram),
        ("L1", BufferType::L1),
        ("SYSTEM_MEMORY", BufferType::SystemMemory),
        ("L1_SMALL", BufferType::L1Small),
        ("TRACE", BufferType::Trace),
    ];

    /// Names as tt-mlir writes them.
    pub(crate) const MLIR_NAMES: [(&'static str, BufferType); 5] = [
        ("dram", BufferType::Dram),
        ("l1", BufferType::L1),
        ("system_memory", BufferType::SystemMemory),
        ("l1_small", BufferType::L1Small),
        ("trace", BufferType::Trace),
    ];

    /// The same memory as `metal_layout` names it.
    pub(super) fn space(self) -> MemorySpace {
        match self {
            BufferType::Dram | BufferType::Trace => MemorySpace::Dram,
            BufferType::L1 | BufferType::L1Small => MemorySpace::L1,
            BufferType::SystemMemory => MemorySpace::System,
        }
    }
}
