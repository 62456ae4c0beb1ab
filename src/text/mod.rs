//! Layout texts: what users type, and how it prints back.
//!
//! Each module reads and prints one family; [`parse`] tells them apart by their first word. What is read is also
//! validated as far as that needs no tensor, so that an error can point at its place in the text.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::family::Descriptor;

mod affine;
mod host;
mod lexer;
mod loops;
pub mod mlir;
mod scalar;
mod spyre;
mod suggest;
mod tenstorrent;

pub use affine::MAX_DEPTH;
pub use lexer::MAX_TEXT;

/// A descriptor, and what of its text was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// What the text says.
    pub descriptor: Descriptor,
    /// One sentence for each key that was ignored; of more than 16, the first 16 and `and N more`.
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
    Ok(Parsed { descriptor, warnings: cursor.warnings.finish() })
}

fn descriptor(cursor: &mut lexer::Cursor<'_>) -> Result<Descriptor> {
    let descriptor = match cursor.peek() {
        #[cfg(feature = "json")]
        Some('{') => return loops::dci::dci(cursor).map(Descriptor::Dci),
        #[cfg(not(feature = "json"))]
        Some('{') => {
            return Err(cursor.expected("a layout that is not JSON (the crate feature `json` reads those)"));
        }
        Some('(') => Descriptor::Tuple(loops::tuple::three_tuple(cursor)?),
        Some('#') => tenstorrent::layout(cursor, None)?,
        _ => {
            let (word, span) = cursor.word("a layout")?;
            match word {
                "memref" => host::memref(cursor)?,
                "tensor" => tenstorrent::tensor(cursor)?,
                "metal" => Descriptor::MetalConstructor(tenstorrent::metal::constructor(cursor)?),
                "ttnn" => Descriptor::Ttnn(tenstorrent::ttnn::ttnn(cursor)?),
                "SpyreTensorLayout" => Descriptor::Spyre(spyre::spyre(cursor)?),
                "MemoryConfig" => {
                    let message = "`MemoryConfig` says where pages go, not what they hold: expected \
                                   ttnn(dtype=.., layout=.., memory_config=MemoryConfig(..))";
                    return Err(cursor.error(span, message.into()));
                }
                _ if tenstorrent::mesh::MAPPERS.contains(&word) => {
                    let message = "a mesh mapper is no layout: it is given beside one, as --mesh or mesh=";
                    return Err(cursor.error(span, message.into()));
                }
                _ => return Err(cursor.unknown("a layout", word, span, &HEADS)),
            }
        }
    };
    cursor.finish()?;
    Ok(descriptor)
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
        self.family().fmt(f)
    }
}
