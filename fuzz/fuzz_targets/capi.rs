//! See `fuzz/bodies/capi.rs`.
#![no_main]

#[path = "../bodies/capi.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
