//! Arrays in host memory: strided ones, and rows of microscaling blocks.

pub mod mx;
pub mod strided;
