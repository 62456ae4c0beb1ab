//! See `fuzz/bodies/text.rs`.
#![no_main]

#[path = "../bodies/text.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
