//! Pictures of layouts: which element lies where, and what is padding.
//!
//! A [`Picture`] is made once, from what the library says of a layout: [`Layout::locate`](tilewright::Layout::locate) for
//! each element. Three printers show it: [`html`] (one file that needs no network), [`svg`] and [`terminal`]. Small
//! tensors are drawn element by element, larger ones by what lies together: tiles, sticks, rows or shards.
//!
//! ```
//! use tilewright::{DType, Descriptor, Placement, Tensor};
//! use tilewright_draw::{Hardware, Limits, Picture};
//!
//! let tensor = Tensor::new([53, 63], DType::F32);
//! let placement = Placement::default();
//! let tiles: Descriptor = "ttnn(dtype=bfloat16, layout=TILE)".parse()?;
//! let layout = tiles.layout(&tensor, &placement)?;
//! let hardware = Hardware::new(&layout, &tiles, &placement, &tensor)?;
//! let picture = Picture::new(&hardware, Limits::default())?;
//! assert!(tilewright_draw::svg(&picture).starts_with("<svg"));
//! # Ok::<(), tilewright::Error>(())
//! ```
#![forbid(unsafe_code)]

mod blocks;
mod compare;
mod data;
mod gallery;
mod hardware;
mod html;
mod inside;
mod memory;
mod owners;
mod panel;
mod picture;
mod regions;
mod strip;
mod svg;
mod terminal;

pub use compare::{Moves, compare};
pub use gallery::{Entry, gallery};
pub use hardware::{Hardware, Term, shown};
pub use html::html;
pub use inside::Inside;
pub use memory::{Memory, Slot};
pub use owners::{Division, Owners};
pub use panel::Panel;
pub use picture::{Limits, Picture, Place};
pub use strip::Strip;
pub use svg::svg;
pub use terminal::terminal;
