//! Layout families: each descriptor's rules, and how it becomes a [`crate::layout::Layout`].

mod contract;
mod descriptor;
pub mod host;
pub mod loops;
pub mod spyre;
mod tensor;
pub mod tenstorrent;

pub use contract::{Family, Placement};
pub use descriptor::Descriptor;
pub(crate) use tensor::join;
pub use tensor::{MAX_RANK, Tensor};
use tensor::{check_count, check_positive, check_shape, check_sizes, entries, volume};
