//! The fuzz targets for a moment, without a fuzzer. `.ci/long fuzz` has the same bodies run by libFuzzer, which looks where
//! an input leads. Those of files and of the C interface are in the tests of `tilewright-checkpoint` and `tilewright-capi`.
//!
//! More of them: `TILEWRIGHT_FUZZ=1000000 cargo test --release -p tilewright --test fuzzing`.

#[path = "common/changes.rs"]
mod changes;
#[allow(dead_code)]
mod families;

#[path = "../fuzz/bodies/kernels.rs"]
mod kernels_body;
#[path = "../fuzz/bodies/mlir.rs"]
mod mlir;
#[path = "../fuzz/bodies/pairs.rs"]
mod pairs;
#[path = "../fuzz/bodies/text.rs"]
mod text;

use std::path::Path;

fn fuzz(name: &str, count: usize, run: fn(&[u8])) {
    changes::fuzz(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(name), count, run);
}

#[test]
fn texts() {
    fuzz("text", 3000, text::run);
}

#[test]
fn pairs_of_layouts() {
    fuzz("pairs", 150, pairs::run);
}

#[test]
fn files_of_a_compiler() {
    fuzz("mlir", 500, mlir::run);
}

#[test]
fn kernels_of_every_level() {
    fuzz("kernels", 150, kernels_body::run);
}
