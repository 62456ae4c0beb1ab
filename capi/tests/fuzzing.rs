//! The fuzz target of the C interface for a moment, without a fuzzer: see `tests/fuzzing.rs` of the repository.

#[path = "../../fuzz/bodies/capi.rs"]
mod body;
#[path = "../../tests/common/changes.rs"]
mod changes;

#[test]
fn sequences_of_calls() {
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/capi");
    changes::fuzz(&seeds, 300, body::run);
}
