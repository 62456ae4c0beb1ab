//! The fuzz target of tensor and model files for a moment, without a fuzzer: see `tests/fuzzing.rs` of the repository.

#[path = "../../fuzz/bodies/files.rs"]
mod body;
#[path = "../../tests/common/changes.rs"]
mod changes;

#[test]
fn tensor_and_model_files() {
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/files");
    changes::fuzz(&seeds, 3000, body::run);
}
