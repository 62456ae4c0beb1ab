//! Data-movement and number-format kernels of tilewright, one table per instruction set.
pub mod block;
pub mod number;

pub use block::BlockFormat;
pub use number::Number;
