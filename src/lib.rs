//! tilewright moves tensors between host memory and accelerator memory layouts.
//!
//! A [`Descriptor`] says how a project lays tensors out, in the words of that project. Applied to a [`Tensor`] it gives a
//! [`Layout`], two layouts give a [`Plan`], and a plan runs as often as there are tensors. Descriptors are parsed from
//! texts, or made from values as here, where no text is parsed:
//!
//! ```
//! use tilewright::dtype::BlockFormat;
//! use tilewright::family::host::mx::MxArray;
//! use tilewright::family::host::strided::Memref;
//! use tilewright::{DType, Descriptor, Options, Placement, Plan, Tensor};
//!
//! let tensor = Tensor::new([64, 96], DType::F32);
//! let columns: Descriptor = Memref::of(&tensor).with_strides([1, 64]).into();
//! let blocks: Descriptor = MxArray::new([64, 96], BlockFormat::MxFp8E4M3).into();
//!
//! let place = Placement::default();
//! let (from, to) = (columns.layout(&tensor, &place)?, blocks.layout(&tensor, &place)?);
//! let plan = Plan::compile(&from, &to, &Options::default())?;
//!
//! let weights: Vec<u8> = [1.0_f32; 64 * 96].iter().flat_map(|x| x.to_le_bytes()).collect();
//! let mut packed = vec![0; plan.destination_bytes()];
//! plan.execute(&weights, &mut packed)?;
//! // Rows of three blocks: a scale of 2^-8 (127 is that of 1), then 32 times 256 as an FP8 E4M3 number.
//! assert_eq!(packed.len(), 64 * 3 * 33);
//! assert_eq!(packed[..2], [119, 0x78]);
//! # Ok::<(), tilewright::Error>(())
//! ```
//!
//! What is where: [`family`] has the descriptors of each project, [`text`] their parsers and printers, [`layout`] what they
//! become, [`plan`] and [`run`] conversions, [`stage`] what feeds a device while it converts, and [`PlanCache`] keeps plans by
//! the texts that asked for them.
//!
// The first definition of a link holds: here those of the tour's images, which are files elsewhere, and of its terms.
#![doc = include_str!("../docs/pictures/tour.links.md")]
//! [`Descriptor`]: Descriptor
//! [`Tensor`]: Tensor
//! [`Placement`]: Placement
//! [`Layout`]: Layout
//! [`Plan`]: Plan
//!
#![doc = include_str!("../docs/tour.md")]
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
pub mod tune;
pub mod tuning;

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

/// The pages with examples in Rust, which are tested with those of the crate.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/cookbook.md")]
    struct Cookbook;
}
