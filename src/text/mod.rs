//! Layout texts: what users type, and how it prints back.

use crate::target::{metal, spyre, strided, tiled, ttnn};

/// Any layout text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Descriptor {
    /// `memref<2x3xf32>`.
    Memref(strided::Memref),
    /// `#ttcore.metal_layout<(d0, d1) -> (d0, d1), ...>`.
    Metal(metal::MetalLayout),
    /// `metal(shape=.., collapse=[..], ..)`.
    MetalConstructor(metal::MetalConstructor),
    /// `tensor<.., #ttcore.metal_layout<logical_shape = .., ..>>`.
    MetalCurrent(metal::MetalCurrent),
    /// `ttnn(dtype=.., layout=..)`.
    Ttnn(ttnn::Ttnn),
    /// `SpyreTensorLayout(..)`.
    Spyre(spyre::SpyreLayout),
    /// `((..), (..), (..))`.
    Tuple(tiled::ThreeTuple),
    /// `{"dcsi_": [..]}`.
    Dci(tiled::Dci),
}
