//! Running plans: fast and in parallel, element by element with every access checked, or without a plan.

mod assembly;
mod batch;
mod blocks;
#[cfg(feature = "huge-pages")]
mod buffer;
mod clip;
mod compact;
mod destination;
mod elements;
mod execute;
mod interpret;
mod pack;
mod partial;
mod parts;
mod reads;
mod reference;
mod scratch;
mod share;
mod slots;
mod task;
mod threads;
mod zeroed;

pub use batch::{Item, ItemError, execute_batch};
#[cfg(feature = "huge-pages")]
pub use buffer::AlignedBuffer;
pub use interpret::{Interpreted, interpret};
pub use partial::Reference;
pub use reference::reference;
pub use threads::{Executor, Inline};
#[cfg(feature = "rayon")]
pub use threads::{Pool, Rayon};
