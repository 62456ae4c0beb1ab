//! Where an element lies.
/// A place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// Which buffer.
    pub buffer: u64,
    /// The byte inside of it.
    pub byte: u64,
}
/// What owns a byte.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Owner {
    /// An element.
    Element(Vec<u64>),
    /// Padding.
    Padding,
}
