//! Data-movement and number-format kernels of tilewright, one table per instruction set.
pub mod block;
mod copy;
mod dispatch;
mod isa;
mod mem;
pub mod number;
mod scalar;
mod window;

pub use block::BlockFormat;
pub use dispatch::Kernels;
pub use isa::Isa;
pub use number::Number;
pub use window::Window;
