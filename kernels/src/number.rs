//! Number formats of single elements.
/// A floating-point element format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Number {
    F64,
    F32,
    F16,
    Bf16,
    E4M3,
    E5M2,
    Sen169,
}
