//! What every family can do, and what it is asked with.

use std::fmt;

use super::tensor::Tensor;
use super::tenstorrent::device::Device;
use super::tenstorrent::mesh::Mapper;
use crate::error::Result;
use crate::layout::Layout;

/// What a descriptor is applied with, besides the tensor; nothing by default.
///
/// ```
/// use tilewright::family::tenstorrent::mesh::Mapper;
/// use tilewright::{DType, Descriptor, Placement, Tensor};
///
/// let mesh: Mapper = "ShardTensorToMesh(mesh_shape=(1, 2), dim=0)".parse()?;
/// let part: Descriptor = "memref<32x64xf32>".parse()?;
/// let placement = Placement { mesh: Some(&mesh), ..Placement::default() };
/// let layout = part.layout(&Tensor::new([64, 64], DType::F32), &placement)?;
/// assert_eq!((layout.buffers(), layout.buffer_bytes()), (2, 32 * 64 * 4));
/// # Ok::<(), tilewright::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Placement<'a> {
    /// The device whose cores the grid of a metal layout is placed on.
    pub device: Option<&'a Device>,
    /// How the tensor is handed out to a mesh; the descriptor then describes what one device gets.
    pub mesh: Option<&'a Mapper>,
    /// The value of padding, instead of the descriptor's own.
    pub pad_value: Option<f64>,
    /// Whether a text of tt-mlir that contradicts itself means the memref that is written, where that has room for
    /// the tensor. Otherwise it is refused, since the memref is not the one that follows from its rule.
    pub lenient: bool,
}

/// What a descriptor of any family can do.
///
/// It prints as a text that parses to an equal descriptor.
pub trait Family: fmt::Display {
    /// Checks what can be said without the tensor.
    ///
    /// # Errors
    /// [`crate::Error::Value`] that names the part.
    fn validate(&self) -> Result<()>;

    /// The layout of a tensor on one device, by this descriptor.
    ///
    /// The mesh of the placement is not looked at: [`Descriptor::layout`](super::Descriptor::layout) is for that.
    ///
    /// # Errors
    /// Where the descriptor is for another tensor, does not follow from its own rules, or has no layout.
    fn to_layout(&self, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout>;

    /// The tensor that the text itself says: its logical shape, and its logical element type, or the type that is
    /// stored where there is no other. None where it leaves either open.
    fn tensor(&self) -> Option<Tensor> {
        None
    }

    /// Whether the layout has a grid that [`Placement::device`] places on cores.
    fn has_grid(&self) -> bool {
        false
    }
}
