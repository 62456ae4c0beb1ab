//! tilewright moves tensors between host memory and accelerator memory layouts.
#![deny(unsafe_code)]

mod cache;
pub mod dtype;
pub mod error;
pub mod family;
pub mod layout;
pub mod plan;
pub mod run;
pub mod stage;
pub mod text;

pub use cache::{Endpoint, PlanCache, Request};
pub use dtype::{DType, Format};
pub use error::{Error, Result};
pub use family::{Descriptor, Family, Placement, Tensor};
pub use layout::Layout;
pub use plan::{Options, Plan};

/// Random layouts, which unit tests share with the tests in `tests/`; those name the crate.
#[cfg(test)]
#[path = "../tests/families/mod.rs"]
mod families;
#[cfg(test)]
extern crate self as tilewright;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
