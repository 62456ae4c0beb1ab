//! See `fuzz/bodies/pairs.rs`.
#![no_main]

#[path = "../bodies/pairs.rs"]
mod body;
#[allow(dead_code)]
#[path = "../../tests/families/mod.rs"]
mod families;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
