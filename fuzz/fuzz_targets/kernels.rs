//! See `fuzz/bodies/kernels.rs`.
#![no_main]

#[path = "../bodies/kernels.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
