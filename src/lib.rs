//! tilewright moves tensors between host memory and accelerator memory layouts.
#![deny(unsafe_code)]

pub mod dtype;
pub mod error;
#[cfg(feature = "cli")]
pub mod io;
pub mod layout;
pub mod plan;
pub mod run;
pub mod target;
pub mod text;

pub use dtype::{DType, Format};
pub use error::{Error, Result};
pub use layout::Layout;
pub use plan::{Options, Plan};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
