//! Staging: tensors on their way to a device, or back, through a few reusable pieces of memory.
//!
//! A [`Stager`] owns a ring of **slots** (3 of 32 MiB unless told otherwise). It fills a free slot with chunks of plans,
//! on all threads of an [`Executor`](crate::run::Executor), while a [`Sink`] moves the earlier ones to where they belong.
//! So the host memory that loading takes is the size of the ring, whatever the size of the model, and the wall time is
//! that of the slower side.
//!
//! - [`Transfer`]: one tensor: its plan and its [`Source`], which is memory or whatever can be [read](ReadAt) by ranges.
//!   One run takes many, in the order of the file; small ones share a slot.
//! - [`Sink`]: who takes full slots. A slot belongs to the sink from `submit` until the sink gives it back, in any order:
//!   nobody else can touch it meanwhile, since ownership moves with it. [`Blocking`] and [`Background`] make a sink of
//!   any [`Consumer`], such as [`Memory`], [`FileWriter`] or a closure; [`outbox`] hands addresses to a transport.
//! - [`SlotAllocator`]: where slots come from: [`Heap`], huge pages, locked memory, memory of the caller.
//! - [`Fetcher`]: the way back, from a device to host memory.
//! - [`Link`]: a sink of a given bandwidth and latency that can fail, reorder or hang: for tests and for planning.
//!
//! A source that is read by ranges is read ahead on a thread of its own, in large aligned pieces, in the order of the
//! file and each byte once (see [`Settings::read_bytes`]); kernels never wait for a page of a file. A map of a file is
//! [`Source::Memory`], for those who want one.
//!
//! ```
//! use tilewright::family::{Descriptor, Placement, Tensor};
//! use tilewright::stage::{Blocking, Heap, Memory, Settings, Source, Stager, Transfer};
//! use tilewright::{DType, Options, Plan};
//!
//! let tensor = Tensor { shape: vec![64, 96], dtype: DType::F32 };
//! let layout = |text: &str| text.parse::<Descriptor>()?.layout(&tensor, &Placement::default());
//! let plan = Plan::compile(
//!     &layout("memref<64x96xf32>")?,
//!     &layout("ttnn(dtype=bfloat16, layout=TILE)")?,
//!     &Options::default(),
//! )?;
//! let source = vec![0; plan.source_bytes()];
//! let mut stager = Stager::new(2, 4096, &mut Heap)?;
//! let mut sink = Blocking::new(Memory::new([plan.destination_bytes()])?);
//! let transfers = [Transfer { plan: &plan, source: Source::Memory(&source) }];
//! let report = stager.run(&transfers, &mut sink, &Settings::default())?;
//! assert_eq!(report.bytes, 64 * 96 * 2);
//! let mut whole = vec![1; plan.destination_bytes()];
//! plan.execute(&source, &mut whole)?;
//! assert_eq!(sink.consumer().tensors()[0], whole);
//! # Ok::<(), tilewright::Error>(())
//! ```

mod clock;
mod convert;
#[cfg(feature = "cuda")]
mod cuda;
mod fetch;
mod file;
mod link;
mod memory;
mod outbox;
mod read_ahead;
mod report;
mod schedule;
mod settings;
mod sink;
mod slot;
mod source;
mod stager;
mod tasks;

pub use clock::{Clock, SystemClock, VirtualClock};
#[cfg(feature = "cuda")]
pub use cuda::{Cuda, CudaBuffer, CudaPinned, CudaSink};
pub use fetch::Fetcher;
pub use file::{FilePlace, FileWriter};
pub use link::{Link, Order};
pub use memory::Memory;
pub use outbox::{Addressed, Outbox, OutboxSink, outbox};
pub use report::{Report, Side};
pub use schedule::Transfer;
pub use settings::{Cancel, Settings};
pub use sink::{Background, Blocking, Completion, Consumer, Refused, Sink};
#[cfg(feature = "huge-pages")]
pub use slot::HugePages;
#[cfg(feature = "locked")]
pub use slot::Locked;
pub use slot::{Heap, MAX_SLOTS, Piece, Slot, SlotAllocator, SlotMemory};
pub use source::{FileReader, ReadAt, Source};
pub use stager::Stager;
