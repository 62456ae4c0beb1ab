//! Memory of a destination: bytes that become initialised.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// The same bytes, as a destination for kernels, which write initialised bytes only.
pub(super) fn writable(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    let (at, len) = (bytes.as_mut_ptr().cast(), bytes.len());
    // SAFETY: the same memory under the same borrow; `MaybeUninit<u8>` has the layout of `u8`. No code of
    // this crate or of the kernels stores an uninitialised byte.
    unsafe { std::slice::from_raw_parts_mut(at, len) }
}

/// The bytes of a destination, or of a chunk of it, that a plan has written.
pub(super) fn written(bytes: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    let (at, len) = (bytes.as_mut_ptr().cast(), bytes.len());
    // SAFETY: the same memory under the same borrow. V1: the plan's nests cover every byte of every unit, and
    // execution has run all of them over the whole range to its end and zeroed the bytes between units, so each byte is
    // initialised.
    unsafe { std::slice::from_raw_parts_mut(at, len) }
}
