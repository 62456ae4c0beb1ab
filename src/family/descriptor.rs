//! Any descriptor.

use super::contract::{Family, Placement};
use super::tensor::Tensor;
use super::tenstorrent::mesh::Uneven;
use super::{host, loops, spyre, tenstorrent};
use crate::error::{Error, Result};
use crate::layout::Layout;

/// A descriptor of any family.
///
/// It is parsed from a text, or made from a descriptor of its own family, and prints as a text that parses to an equal
/// descriptor.
///
/// ```
/// use tilewright::family::host::strided::Memref;
/// use tilewright::{DType, Descriptor, Placement, Tensor};
///
/// let columns: Descriptor = Memref::new([53, 63], DType::F32).with_strides([1, 53]).into();
/// assert_eq!(columns.to_string(), "memref<53x63xf32, strided<[1, 53], offset: 0>>");
/// let layout = columns.layout(&Tensor::new([53, 63], DType::F32), &Placement::default())?;
/// assert_eq!(layout.total_bytes(), 53 * 63 * 4);
/// # Ok::<(), tilewright::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Descriptor {
    /// `memref<2x3xf32>`.
    Memref(host::strided::Memref),
    /// `memref<64x96xmxfp8_e4m3>`.
    Mx(host::mx::MxArray),
    /// `#ttcore.metal_layout<(d0, d1) -> (d0, d1), ...>`.
    Metal(tenstorrent::metal::MetalLayout),
    /// `#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<..>, <interleaved>>`.
    TtnnLayout(tenstorrent::ttnn_layout::TtnnLayout),
    /// `#ttnn.ttnn_nd_layout<<2x2>, memref<..>, <block_sharded>, <row_major>, <round_robin_1d>>`.
    TtnnNdLayout(tenstorrent::ttnn_layout::TtnnNdLayout),
    /// `#ttnn.memory_config<#ttnn.buffer_type<dram>, <interleaved>>`.
    TtnnMemoryConfig(tenstorrent::ttnn_memory::TtnnMemoryConfig),
    /// `memref<1x1x2x2x!ttcore.tile<32x32, f32>, #ttcore.shard<8192x4096, 1>, ..>`.
    Buffer(tenstorrent::buffer::Buffer),
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

impl Descriptor {
    /// The descriptor of its own family.
    pub fn family(&self) -> &dyn Family {
        match self {
            Descriptor::Memref(d) => d,
            Descriptor::Mx(d) => d,
            Descriptor::Metal(d) => d,
            Descriptor::TtnnLayout(d) => d,
            Descriptor::TtnnNdLayout(d) => d,
            Descriptor::TtnnMemoryConfig(d) => d,
            Descriptor::Buffer(d) => d,
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

    /// The tensor that the text itself says; see [`Family::tensor`].
    pub fn tensor(&self) -> Option<Tensor> {
        self.family().tensor()
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

/// A descriptor from that of one family.
macro_rules! from_family {
    ($($variant:ident($family:ty)),* $(,)?) => {
        $(
            impl From<$family> for Descriptor {
                fn from(descriptor: $family) -> Descriptor {
                    Descriptor::$variant(descriptor)
                }
            }
        )*
    };
}

from_family! {
    Memref(host::strided::Memref),
    Mx(host::mx::MxArray),
    Metal(tenstorrent::metal::MetalLayout),
    MetalConstructor(tenstorrent::metal::MetalConstructor),
    MetalCurrent(tenstorrent::metal::MetalCurrent),
    TtnnLayout(tenstorrent::ttnn_layout::TtnnLayout),
    TtnnNdLayout(tenstorrent::ttnn_layout::TtnnNdLayout),
    TtnnMemoryConfig(tenstorrent::ttnn_memory::TtnnMemoryConfig),
    Buffer(tenstorrent::buffer::Buffer),
    Ttnn(tenstorrent::ttnn::Ttnn),
    Spyre(spyre::SpyreLayout),
    Tuple(loops::ThreeTuple),
    Dci(loops::Dci),
}
