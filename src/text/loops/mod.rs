//! Texts of loops: the three-tuple of the Tiled Tensor RFC, and DCI.

pub(super) mod dci;
pub(super) mod tuple;
