//! Data-movement and number-format kernels of tilewright, one table per instruction set.
pub mod block;
mod copy;
mod dispatch;
mod fill;
mod isa;
mod mem;
pub mod number;
mod scalar;
mod stream;
mod transpose;
mod window;

pub use block::BlockFormat;
pub use dispatch::Kernels;
pub use isa::Isa;
pub use number::Number;
pub use window::Window;
