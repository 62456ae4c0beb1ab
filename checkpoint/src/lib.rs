//! Whole checkpoints, read by ranges and packed into accelerator layouts ahead of time.
//!
//! Data flows one way: a [`model::Model`] lists the tensors of files; [`rules`] say what each becomes; [`mod@array`] gives
//! the elements of what a rule asks for, decoded and put together while they are read; a [`job::Job`] is one file to be made
//! of them; [`pack::Packing`] makes all of them, and a [`manifest::Manifest`] says what was made, which [`verify`] compares.
#![forbid(unsafe_code)]

pub mod array;
mod hash;
pub mod job;
pub mod manifest;
pub mod model;
pub mod pack;
pub mod quantised;
pub mod rules;
pub mod stream;
pub mod verify;
