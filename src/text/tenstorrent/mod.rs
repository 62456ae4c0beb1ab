//! Texts of Tenstorrent's compiler and runtime.

mod device;
mod mesh;
pub(super) mod metal;
pub(super) mod ttnn;
