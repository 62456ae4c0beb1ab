//! Where each element of a logical tensor lies.

pub mod affine;
