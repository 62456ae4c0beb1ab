//! Texts of loops: the three-tuple of the Tiled Tensor RFC, and DCI.

#[cfg(feature = "json")]
pub(super) mod dci;
pub(super) mod tuple;
