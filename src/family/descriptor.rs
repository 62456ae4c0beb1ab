//! Any layout descriptor, and what every family of them can do.

use std::fmt;

use super::tenstorrent::mesh::Uneven;
use super::{Placement, Tensor, host, loops, spyre, tenstorrent};
use crate::error::{Error, Result};
use crate::layout::Layout;

/// What a descriptor of any family can do.
///
/// It prints as a text that parses to an equal descriptor.
pub trait Family: fmt::Display {
    /// Checks what can be said without the tensor.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    fn validate(&self) -> Result<()>;

    /// The layout of a tensor on one device, by this descriptor.
    ///
    /// The mesh of the placement is not looked at: [`Descriptor::layout`] is for that.
    ///
    /// # Errors
    /// Where the descriptor is for another tensor, does not follow from its own rules, or has no layout.
    fn to_layout(&self, tensor: &Tensor, placement: &Placement<'_>) -> Result<Layout>;

    /// Whether the layout has a grid that [`Placement::device`] places on cores.
    fn has_grid(&self) -> bool {
        false
    }
}

/// Any layout text.
///
/// It prints as a text that parses to an equal descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Descriptor {
    /// `memref<2x3xf32>`.
    Memref(host::strided::Memref),
    /// `memref<64x96xmxfp8_e4m3>`.
    Mx(host::mx::MxArray),
    /// `#ttcore.metal_layout<(d0, d1) -> (d0, d1), ...>`.
    Metal(tenstorrent::metal::MetalLayout),
    /// `metal(shape=.., collapse=[..], ..)`.
    MetalConstructor(tenstorrent::metal::MetalConstructor),
    /// `tensor<.., #ttcore.metal_layout<logical_shape = .., ..>>`.
    MetalCurrent(tenstorrent::metal::MetalCurrent),
    /// `ttnn(dtype=.., layout=..)`.
    Ttnn(tenstorrent::ttnn::Ttnn),
    /// `SpyreTensorLayout(..)`.
    Spyre(spyre::SpyreLayout),
    /// `((..), (..), (..))`.
    Tuple(loops::ThreeTuple),
    /// `{"dcsi_": [..]}`.
    Dci(loops::Dci),
}

impl From<tenstorrent::ttnn::Ttnn> for Descriptor {
    fn from(ttnn: tenstorrent::ttnn::Ttnn) -> Descriptor {
        Descriptor::Ttnn(ttnn)
    }
}

impl From<spyre::SpyreLayout> for Descriptor {
    fn from(spyre: spyre::SpyreLayout) -> Descriptor {
        Descriptor::Spyre(spyre)
    }
}

impl From<loops::ThreeTuple> for Descriptor {
    fn from(tuple: loops::ThreeTuple) -> Descriptor {
        Descriptor::Tuple(tuple)
    }
}

impl From<loops::Dci> for Descriptor {
    fn from(dci: loops::Dci) -> Descriptor {
        Descriptor::Dci(dci)
    }
}

impl Descriptor {
    /// The descriptor of its own family.
    pub fn family(&self) -> &dyn Family {
        match self {
            Descriptor::Memref(d) => d,
            Descriptor::Mx(d) => d,
            Descriptor::Metal(d) => d,
            Descriptor::MetalConstructor(d) => d,
            Descriptor::MetalCurrent(d) => d,
            Descriptor::Ttnn(d) => d,
            Descriptor::Spyre(d) => d,
            Descriptor::Tuple(d) => d,
            Descriptor::Dci(d) => d,
        }
    }

    /// Checks what can be said without the tensor.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    pub fn validate(&self) -> Result<()> {
        self.family().validate()
    }

    /// The layout of a tensor by this descriptor.
    ///
    /// With a mesh the descriptor is what one device gets, and the layout is that of all devices. A mesh whose
    /// chunks are unequal is refused.
    ///
    /// # Errors
    /// Where the descriptor is for another tensor, does not follow from its own rules, or has no layout.
    pub fn layout(&self, tensor: &Tensor, placement: &Placement) -> Result<Layout> {
        let Some(mesh) = placement.mesh else { return self.local(tensor, placement) };
        mesh.apply(tensor, Uneven::Refuse, |local| self.local(local, placement))
    }

    /// The layout on one device.
    fn local(&self, tensor: &Tensor, placement: &Placement) -> Result<Layout> {
        let layout = self.family().to_layout(tensor, placement)?;
        if placement.device.is_some() && !self.family().has_grid() {
            return Err(Error::value("device", "a device", "a metal layout, whose grid it places"));
        }
        Ok(layout)
    }
}
