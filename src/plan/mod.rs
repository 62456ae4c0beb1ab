//! Plans.
mod lower;
pub(crate) mod nest;
mod verify;
