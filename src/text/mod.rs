//! Layout texts: what users type, and how it prints back.
//!
//! Each module reads and prints one family; [`parse`] tells them apart by their first word. What is read is also
//! validated as far as that needs no tensor, so that an error can point at its place in the text.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::target::mesh::Uneven;
use crate::target::{self, Placement, Tensor};

mod affine;
mod dci;
mod device;
mod diagnostic;
mod lexer;
mod memref;
mod mesh;
mod metal;
mod spyre;
mod suggest;
mod ttnn;
mod tuple;

pub use affine::MAX_DEPTH;
pub use lexer::MAX_TEXT;

/// Any layout text.
///
/// It prints as a text that parses to an equal descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Descriptor {
    /// `memref<2x3xf32>`.
    Memref(target::strided::Memref),
    /// `memref<64x96xmxfp8_e4m3>`.
    Mx(target::mx::MxArray),
    /// `#ttcore.metal_layout<(d0, d1) -> (d0, d1), ...>`.
    Metal(target::metal::MetalLayout),
    /// `metal(shape=.., collapse=[..], ..)`.
    MetalConstructor(target::metal::MetalConstructor),
    /// `tensor<.., #ttcore.metal_layout<logical_shape = .., ..>>`.
    MetalCurrent(target::metal::MetalCurrent),
    /// `ttnn(dtype=.., layout=..)`.
    Ttnn(target::ttnn::Ttnn),
    /// `SpyreTensorLayout(..)`.
    Spyre(target::spyre::SpyreLayout),
    /// `((..), (..), (..))`.
    Tuple(target::tiled::ThreeTuple),
    /// `{"dcsi_": [..]}`.
    Dci(target::tiled::Dci),
}

/// A descriptor, and what of its text was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// What the text says.
    pub descriptor: Descriptor,
    /// One sentence for each key that was ignored.
    pub warnings: Vec<String>,
}

const HEADS: [&str; 5] = ["memref", "tensor", "metal", "ttnn", "SpyreTensorLayout"];

/// Parses a layout text of at most [`MAX_TEXT`] bytes, and validates it.
///
/// # Errors
/// [`Error::Text`] with the place; [`Error::Value`] for the content of JSON, named by its path, or a text that is too long.
pub fn parse(text: &str) -> Result<Parsed> {
    let mut cursor = lexer::Cursor::new(text)?;
    let descriptor = descriptor(&mut cursor)?;
    descriptor.validate().map_err(|e| cursor.locate(e))?;
    Ok(Parsed { descriptor, warnings: cursor.warnings })
}

fn descriptor(cursor: &mut lexer::Cursor<'_>) -> Result<Descriptor> {
    let descriptor = match cursor.peek() {
        Some('{') => return dci::dci(cursor).map(Descriptor::Dci),
        Some('(') => Descriptor::Tuple(tuple::three_tuple(cursor)?),
        Some('#') => metal::layout(cursor, None)?,
        _ => {
            let (word, span) = cursor.word("a layout")?;
            match word {
                "memref" => memref::memref(cursor)?,
                "tensor" => metal::tensor(cursor)?,
                "metal" => Descriptor::MetalConstructor(metal::constructor(cursor)?),
                "ttnn" => Descriptor::Ttnn(ttnn::ttnn(cursor)?),
                "SpyreTensorLayout" => Descriptor::Spyre(spyre::spyre(cursor)?),
                _ => return Err(cursor.unknown("a layout", word, span, &HEADS)),
            }
        }
    };
    cursor.finish()?;
    Ok(descriptor)
}

impl Descriptor {
    /// Checks what can be said without the tensor.
    ///
    /// # Errors
    /// [`Error::Value`] that names the part.
    pub fn validate(&self) -> Result<()> {
        match self {
            Descriptor::Memref(d) => d.validate(),
            Descriptor::Mx(d) => d.validate(),
            Descriptor::Metal(d) => d.validate(),
            Descriptor::MetalConstructor(d) => d.validate(),
            Descriptor::MetalCurrent(d) => d.validate(),
            Descriptor::Ttnn(d) => d.validate(),
            Descriptor::Spyre(d) => d.validate(),
            Descriptor::Tuple(d) => d.validate(),
            Descriptor::Dci(d) => d.validate(),
        }
    }
}

impl Descriptor {
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
        let layout = match self {
            Descriptor::Memref(d) => d.to_layout(tensor, placement),
            Descriptor::Mx(d) => d.to_layout(tensor, placement),
            Descriptor::Metal(d) => return d.to_layout(tensor, placement),
            Descriptor::MetalConstructor(d) => return d.to_layout(tensor, placement),
            Descriptor::MetalCurrent(d) => return d.to_layout(tensor, placement),
            Descriptor::Ttnn(d) => d.to_layout(tensor, placement),
            Descriptor::Spyre(d) => d.to_layout(tensor, placement),
            Descriptor::Tuple(d) => d.to_layout(tensor, placement),
            Descriptor::Dci(d) => d.to_layout(tensor, placement),
        }?;
        match placement.device {
            Some(_) => Err(Error::value("device", "a device", "a metal layout, whose grid it places")),
            None => Ok(layout),
        }
    }
}

impl FromStr for Descriptor {
    type Err = Error;

    /// [`parse`] without the warnings.
    fn from_str(text: &str) -> Result<Descriptor> {
        parse(text).map(|p| p.descriptor)
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Descriptor::Memref(d) => d.fmt(f),
            Descriptor::Mx(d) => d.fmt(f),
            Descriptor::Metal(d) => d.fmt(f),
            Descriptor::MetalConstructor(d) => d.fmt(f),
            Descriptor::MetalCurrent(d) => d.fmt(f),
            Descriptor::Ttnn(d) => d.fmt(f),
            Descriptor::Spyre(d) => d.fmt(f),
            Descriptor::Tuple(d) => d.fmt(f),
            Descriptor::Dci(d) => d.fmt(f),
        }
    }
}
