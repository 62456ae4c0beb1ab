//! Texts of Tenstorrent's compiler and runtime.

mod cores;
mod device;
mod memory_config;
#[cfg(feature = "json")]
mod memory_json;
pub(super) mod mesh;
pub(super) mod metal;
pub(super) mod python;
pub(super) mod ttnn;
