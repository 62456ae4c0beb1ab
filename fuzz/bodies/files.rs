//! Files: whatever their bytes, they are read or refused. What is read of a tensor file is whole, and its head is written
//! again and read as the same.
//!
//! The first byte of an input says what kind of file the rest is.

use std::fs;

use tilewright::family::host::strided::Memref;
use tilewright::{Descriptor, Options, Placement, Plan};
use tilewright_checkpoint::manifest::Manifest;
use tilewright_checkpoint::model::Model;
use tilewright_checkpoint::rules::Rules;
use tilewright_checkpoint::verify;
use tilewright_files::tensorbin::TensorBin;
use tilewright_files::{Source, npy, safetensors};

/// Tensors of more bytes than this are not converted.
const RUN: u64 = 1 << 20;

fn tensorbin(bytes: &[u8]) {
    let source = Source::from_slice("input", bytes);
    let Ok(file) = TensorBin::read(&source) else { return };
    for shard in &file.shards {
        let _ = file.shard(&shard.coordinate);
    }
    let _ = (file.topology.cuts(), file.stored(), file.check_replicas(&source));
    let Ok(payload) = file.whole(None) else { return };
    let _ = payload.complete();
    let Ok(bytes) = payload.bytes(&source) else { return };
    if payload.layout.total_bytes() > RUN || payload.layout.elements() > RUN {
        return;
    }
    let host = Descriptor::from(Memref::of(&payload.tensor));
    let Ok(host) = host.layout(&payload.tensor, &Placement::default()) else { return };
    let Ok(plan) = Plan::compile(&payload.layout, &host, &Options::default().with_saturate(true)) else {
        return;
    };
    let mut out = vec![0; plan.destination_bytes()];
    plan.execute(&bytes, &mut out).unwrap();
}

/// What models are packed by.
const RULES: &str = "[[rule]]\nname = \"*\"\ndtype = \"bfloat8_b\"\n";

/// A checkpoint of one file, whose kind its name says.
fn model(name: &str, bytes: &[u8]) {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join(name);
    fs::write(&path, bytes).unwrap();
    let Ok(model) = Model::open(&path) else { return };
    for entry in model.entries() {
        let _ = (entry.elements(), entry.source_bytes(), entry.files().count());
    }
    let _ = Rules::parse(RULES).unwrap().apply(&model);
}

fn manifest(bytes: &[u8]) {
    let room = tempfile::tempdir().unwrap();
    fs::write(room.path().join(Manifest::file_name(None)), bytes).unwrap();
    if let Ok(Some(manifest)) = Manifest::read(room.path(), None) {
        let again = verify::diff(&manifest, &manifest);
        assert!(again.is_empty(), "a manifest differs from itself: {again:?}");
        let _ = verify::hashes(room.path(), &manifest, |_| ());
    }
}

/// Runs one input; panics where it finds something.
pub(crate) fn run(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    match kind % 8 {
        0 => tensorbin(bytes),
        1 => drop(npy::read(&Source::from_slice("input", bytes), None)),
        2 => drop(safetensors::read(&Source::from_slice("input", bytes), None)),
        3 => model("model.safetensors", bytes),
        4 => model("model.gguf", bytes),
        5 => model("model.npy", bytes),
        6 => manifest(bytes),
        _ => drop(Rules::parse(&String::from_utf8_lossy(bytes))),
    }
}
