//! See `fuzz/bodies/mlir.rs`.
#![no_main]

#[path = "../bodies/mlir.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
