//! Block floats.
/// A block float.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum BlockFormat {
    Bfp8B,
}
impl BlockFormat {
    /// Its name in texts.
    pub fn name(self) -> &'static str {
        "bfloat8_b"
    }
}
