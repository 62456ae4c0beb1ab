//! Running plans: fast and in parallel, element by element with every access checked, or without a plan.

mod assembly;
#[cfg(feature = "huge-pages")]
mod buffer;
mod clip;
mod elements;
mod execute;
mod interpret;
mod job;
mod memory;
mod pack;
mod reference;
mod threads;
mod window;

#[cfg(feature = "huge-pages")]
pub use buffer::AlignedBuffer;
pub use interpret::{Interpreted, interpret};
pub use reference::reference;
pub use threads::{Executor, Inline};
#[cfg(feature = "rayon")]
pub use threads::{Pool, Rayon};
