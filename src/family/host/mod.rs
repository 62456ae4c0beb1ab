//! Arrays in host memory: strided ones, matrices in panels, and rows of microscaling blocks.

pub mod mx;
pub mod panels;
pub mod strided;
