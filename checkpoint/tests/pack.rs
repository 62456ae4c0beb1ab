//! Packed files hold what plans make of whole arrays, however little memory there is, and however often it is begun.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use tilewright::plan::Rounding;
use tilewright::stage::Cancel;
use tilewright::{Error, Options};
use tilewright_checkpoint::job::{Request, Share, jobs};
use tilewright_checkpoint::manifest::{FORMAT, Manifest};
use tilewright_checkpoint::model::{Extent, Model};
use tilewright_checkpoint::pack::{Event, Packing, Run, Summary};
use tilewright_checkpoint::rules::Rules;
use tilewright_checkpoint::stream::Stream;
use tilewright_checkpoint::{array, verify};
use tilewright_files::Source;
use tilewright_files::tensorbin::TensorBin;

use common::{gguf, safetensors};

const MIB: u64 = 1 << 20;

/// Bytes that look like nothing, the same for one seed.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| byte()).collect()
}

/// Values of about one, as bf16.
fn bf16(n: usize, seed: u64) -> Vec<u8> {
    noise(2 * n, seed).chunks_exact(2).flat_map(|b| [b[0], 0x3E | b[1] & 0x81]).collect()
}

fn f32s(n: usize, seed: u64) -> Vec<u8> {
    noise(4 * n, seed).chunks_exact(4).flat_map(|b| [b[0], b[1], b[2], 0x3E | b[3] & 0x81]).collect()
}

/// A model with every kind of source but GGUF.
fn model_file(path: &Path) {
    let e4m3 =
        |n, seed| noise(n, seed).into_iter().map(|b| if b & 0x7F == 0x7F { 0x38 } else { b }).collect();
    safetensors(
        path,
        &[
            ("embed_tokens.weight", "BF16", &[100, 96], bf16(9600, 1)),
            ("l.0.experts.1.w", "BF16", &[33, 64], bf16(2112, 2)),
            ("l.0.experts.0.w", "BF16", &[33, 64], bf16(2112, 3)),
            ("l.0.q.weight", "F32", &[64, 70], f32s(4480, 4)),
            ("l.0.k.weight", "F32", &[32, 70], f32s(2240, 5)),
            ("l.0.gate_up.weight", "BF16", &[130, 40], bf16(5200, 6)),
            ("l.0.down_blocks", "U8", &[2, 48, 3, 16], noise(4608, 7)),
            ("l.0.down_scales", "U8", &[2, 48, 3], noise(288, 8).iter().map(|b| 120 + b % 16).collect()),
            ("l.0.o.weight", "F8_E4M3", &[200, 150], e4m3(30000, 9)),
            ("l.0.o.weight_scale_inv", "F32", &[2, 2], f32s(4, 10)),
            ("l.0.norm.weight", "F32", &[96], f32s(96, 11)),
            ("big", "F32", &[800, 900], f32s(720_000, 12)),
            ("wide", "BF16", &[64, 9000], bf16(576_000, 13)),
        ],
    );
}

const RULES: &str = r#"
[[rule]]
name = "*"
layout = "ttnn(dtype=bfloat8_b, layout=TILE)"
[[rule]]
name = "*norm*"
layout = "ttnn(dtype=bfloat16, layout=TILE)"
[[rule]]
name = "embed*"
layout = "SpyreTensorLayout(({dims}), torch.float16)"
[[rule]]
name = "l.*.experts.*.w"
dtype = "bfloat4_b"
stack = "experts.*"
transpose = true
[[rule]]
name = "l.*.{q,k}.weight"
dtype = "bfloat8_b"
fuse = { into = "qk", parts = ["q", "k"] }
[[rule]]
name = "*.gate_up.weight"
dtype = "bfloat8_b"
split = [["gate", "0::2"], ["up", "1::2"]]
[[rule]]
name = "wide"
layout = "ttnn(dtype=bfloat8_b, layout=TILE)"
mesh = "ShardTensorToMesh(mesh_shape=(1, 4), dim=1)"
"#;

fn run(threads: usize, resume: bool) -> Run {
    Run { threads, resume, listener: Arc::new(|_| ()), cancel: Arc::default() }
}

fn pack(model: &Path, rules: &str, to: &Path, memory: u64, run: &Run) -> tilewright::Result<Summary> {
    pack_as(model, rules, to, memory, run, Request::default())
}

fn pack_as(
    model: &Path,
    rules: &str,
    to: &Path,
    memory: u64,
    run: &Run,
    request: Request,
) -> tilewright::Result<Summary> {
    let (model, rules) = (Model::open(model)?, Rules::parse(rules)?);
    Packing::prepare(&model, "model", &rules, request, memory)?.run(to, run)
}

/// Every file of a directory but for locks.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let named = files.map(|f| (f.file_name().into_string().unwrap(), fs::read(f.path()).unwrap()));
    named.filter(|(name, _)| !name.starts_with(".tilewright-lock")).collect()
}

/// What the file of each job holds: its head, then what the plan makes of the whole array, at the places of the buffers.
fn expected(model: &Path, rules: &str, request: &Request) -> BTreeMap<String, Vec<u8>> {
    let (model, rules) = (Model::open(model).unwrap(), Rules::parse(rules).unwrap());
    let mut files = BTreeMap::new();
    for job in jobs(&model, &rules, request).unwrap() {
        let plan = &job.conversion.plan;
        let mut elements = vec![0; plan.source_bytes()];
        job.array.read(0, &mut elements).unwrap();
        let mut packed = vec![0; plan.destination_bytes()];
        plan.execute(&elements, &mut packed).unwrap();
        let container = &job.conversion.container;
        let mut file = vec![0; container.bytes as usize];
        file[..container.head.len()].copy_from_slice(&container.head);
        let size = job.conversion.destination.buffer_bytes() as usize;
        for (i, place) in container.places.iter().enumerate() {
            if let Some(place) = place {
                file[place.start as usize..place.end as usize]
                    .copy_from_slice(&packed[i * size..(i + 1) * size]);
            }
        }
        files.insert(job.file, file);
    }
    files
}

#[test]
fn files_are_the_same_at_any_ceiling_and_thread_count() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("m.safetensors");
    model_file(&model);
    let expected = expected(&model, RULES, &Request::default());
    assert_eq!(expected.len(), 10);
    let mut first: Option<BTreeMap<String, Vec<u8>>> = None;
    for (i, (memory, threads)) in [(6, 1), (7, 3), (64, 2), (4096, 5)].into_iter().enumerate() {
        let out = folder.path().join(format!("out-{i}"));
        let summary = pack(&model, RULES, &out, memory * MIB, &run(threads, false)).unwrap();
        assert_eq!(summary.made, 10);
        let mut made = contents(&out);
        match &first {
            None => first = Some(made.clone()),
            Some(first) => assert_eq!(first, &made, "{memory} MiB, {threads} threads"),
        }
        assert!(made.remove("manifest.json").is_some());
        assert_eq!(made.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (name, bytes) in &expected {
            assert!(&made[name] == bytes, "{name} at {memory} MiB");
        }
        let manifest = verify::manifest(&out).unwrap();
        assert_eq!(verify::hashes(&out, &manifest, |_| ()).unwrap(), []);
        // The reader of tensor files, which knows nothing of packing, finds what the rules say.
        let file = out.join("l.0.o.weight_dtype_BFLOAT8_B_layout_TILE.tensorbin");
        let file = TensorBin::read(&Source::open(&file).unwrap()).unwrap();
        assert_eq!(file.spec.shape, [200, 150]);
    }
    let manifest = verify::manifest(&folder.path().join("out-0")).unwrap();
    let opened = Model::open(&model).unwrap();
    let full =
        verify::contents(&folder.path().join("out-0"), &manifest, &opened, &Request::default(), |_| ());
    assert_eq!(full.unwrap(), []);
}

#[test]
fn what_cannot_fit_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("m.safetensors");
    // A slot is made of a panel of columns, and there is not even memory for that.
    safetensors(&model, &[("t", "F32", &[2048, 1024], f32s(2048 * 1024, 1))]);
    let rules = "[[rule]]\nname = \"*\"\nlayout = \"SpyreTensorLayout(({dims}), torch.float16)\"\n";
    let out = folder.path().join("out");
    let error = pack(&model, rules, &out, MIB, &run(1, false)).unwrap_err();
    let Error::Value { needed, .. } = &error else { panic!("{error}") };
    assert!(!out.exists());
    let needed: u64 = needed.trim_end_matches(" bytes").parse().unwrap();
    assert!((2 * MIB..14 * MIB).contains(&needed), "{needed}");
    pack(&model, rules, &out, 16 * MIB, &run(2, false)).unwrap();
    assert!(pack(&model, rules, &out, 1000, &run(1, false)).is_err());
}

/// Whatever is refused, what the refusal names is enough.
#[test]
fn the_memory_that_a_refusal_names_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("m.safetensors");
    let scales = noise(3 * 2880 * 45, 6).iter().map(|b| 120 + b % 16).collect();
    safetensors(
        &model,
        &[
            ("codes_blocks", "U8", &[3, 2880, 45, 16], noise(3 * 2880 * 45 * 16, 5)),
            ("codes_scales", "U8", &[3, 2880, 45], scales),
            ("plain", "BF16", &[3000, 1500], bf16(4_500_000, 1)),
            ("wide", "BF16", &[33, 70_000], bf16(33 * 70_000, 2)),
        ],
    );
    let spyre = "layout = \"SpyreTensorLayout(({dims}), torch.float16)\"";
    let mut refused = 0;
    for rule in ["dtype = \"bfloat8_b\"", "dtype = \"bfloat8_b\"\ntranspose = true", spyre] {
        let rules = Rules::parse(&format!("[[rule]]\nname = \"*\"\n{rule}")).unwrap();
        let opened = || Model::open(&model).unwrap();
        for memory in std::iter::successors(Some(1000_u64), |memory| Some(2 * memory + 777)) {
            let prepare =
                |memory| Packing::prepare(&opened(), "m", &rules, Request::default(), memory).map(|_| ());
            let Err(error) = prepare(memory) else { break };
            refused += 1;
            let needed = named(&error);
            assert!(needed > memory, "{error}");
            prepare(needed).unwrap_or_else(|again| panic!("{error}, and with that: {again}"));
            let stream = |memory| Stream::begin(opened(), &rules, &Request::default(), memory, 1).map(|_| ());
            let error = stream(memory).unwrap_err();
            stream(named(&error)).unwrap_or_else(|again| panic!("stream: {error}, and with that: {again}"));
        }
    }
    assert!(refused > 20, "{refused}");
}

/// The bytes that a refusal says are needed.
fn named(error: &Error) -> u64 {
    let Error::Value { needed, .. } = error else { panic!("{error}") };
    needed.trim_end_matches(" bytes").parse().unwrap()
}

/// Matrices many times as large as the memory, of which every tile of the result needs all rows: transposed, stacked and
/// fused and split before that, quantised, and cut by columns for a mesh.
#[test]
fn large_matrices_go_through_little_memory_in_panels() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("m.safetensors");
    let scales = |n, seed| noise(n, seed).iter().map(|b| 120 + b % 16).collect();
    safetensors(
        &model,
        &[
            ("plain", "F32", &[1024, 1024], f32s(1024 * 1024, 1)),
            ("ragged", "BF16", &[1501, 1237], bf16(1501 * 1237, 2)),
            ("e.0.w", "BF16", &[1000, 1100], bf16(1_100_000, 3)),
            ("e.1.w", "BF16", &[1000, 1100], bf16(1_100_000, 4)),
            ("codes_blocks", "U8", &[2, 1440, 45, 16], noise(2 * 1440 * 45 * 16, 5)),
            ("codes_scales", "U8", &[2, 1440, 45], scales(2 * 1440 * 45, 6)),
            ("gate_up", "BF16", &[2000, 1000], bf16(2_000_000, 7)),
            ("mesh", "BF16", &[1024, 2222], bf16(1024 * 2222, 8)),
            ("small", "BF16", &[64, 64], bf16(4096, 9)),
        ],
    );
    let rules = r#"
[[rule]]
name = "*"
dtype = "bfloat8_b"
transpose = true
[[rule]]
name = "e.*.w"
dtype = "bfloat4_b"
stack = "e.*"
transpose = true
[[rule]]
name = "gate_up"
layout = "SpyreTensorLayout(({dims}), torch.float16)"
split = [["gate", "0::2"], ["up", "1::2"]]
transpose = true
[[rule]]
name = "mesh"
layout = "ttnn(dtype=bfloat16, layout=TILE)"
mesh = "ShardTensorToMesh(mesh_shape=(1, 2), dim=1)"
"#;
    let expected = expected(&model, rules, &Request::default());
    assert_eq!(expected.len(), 8);
    for (memory, threads) in [(8, 1), (10, 3), (512, 2)] {
        let out = folder.path().join(format!("out-{memory}"));
        pack(&model, rules, &out, memory * MIB, &run(threads, false)).unwrap();
        let made = contents(&out);
        for (name, bytes) in &expected {
            assert!(&made[name] == bytes, "{name} at {memory} MiB");
        }
        let manifest = verify::manifest(&out).unwrap();
        let opened = Model::open(&model).unwrap();
        assert_eq!(verify::hashes(&out, &manifest, |_| ()).unwrap(), []);
        check_sources(&manifest, &opened);
        // The bytes, and what is known of them, do not depend on the memory.
        let again = pack(&model, rules, &out, 64 * MIB, &run(1, true)).unwrap();
        assert_eq!((again.made, again.kept), (0, 8), "{memory} MiB");
    }
}

/// The hashes of source tensors are those of their bytes in the files.
fn check_sources(manifest: &Manifest, model: &Model) {
    let blake3_of = |extent: &Extent| {
        let file = fs::read(extent.file.path()).unwrap();
        let bytes = &file[extent.start as usize..(extent.start + extent.bytes) as usize];
        Some(blake3::hash(bytes).to_hex().to_string())
    };
    for source in manifest.outputs.iter().flat_map(|record| &record.sources) {
        let entry = model.entries().iter().find(|entry| entry.name == source.name).unwrap();
        assert_eq!(source.blake3, blake3_of(&entry.data), "{}", source.name);
        assert_eq!(source.scales_blake3, entry.scales().and_then(blake3_of), "{}", source.name);
    }
}

#[test]
fn manifests_of_the_format_before_are_read_and_stale() {
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (folder.path().join("m.safetensors"), folder.path().join("out"));
    model_file(&model);
    pack(&model, RULES, &out, 64 * MIB, &run(2, false)).unwrap();
    let path = out.join("manifest.json");
    let text: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let with = |format: u32| {
        let mut text = text.clone();
        text["format"] = format.into();
        for record in text["outputs"].as_array_mut().unwrap() {
            record["elements_blake3"] = "0".into();
            record["key"] = "that of another format".into();
            for source in record["sources"].as_array_mut().unwrap() {
                source.as_object_mut().unwrap().retain(|key, _| !key.ends_with("blake3"));
            }
        }
        fs::write(&path, text.to_string()).unwrap();
    };
    with(1);
    let manifest = verify::manifest(&out).unwrap();
    assert_eq!(verify::hashes(&out, &manifest, |_| ()).unwrap(), []);
    let opened = Model::open(&model).unwrap();
    assert_eq!(verify::contents(&out, &manifest, &opened, &Request::default(), |_| ()).unwrap(), []);
    assert_eq!(pack(&model, RULES, &out, 64 * MIB, &run(2, true)).unwrap().made, 10);
    assert_eq!(verify::manifest(&out).unwrap().format, FORMAT);
    check_sources(&verify::manifest(&out).unwrap(), &opened);
    with(9);
    let error = verify::manifest(&out).unwrap_err().to_string();
    assert!(error.contains("format 9") && error.contains("1 to 2"), "{error}");
}

#[test]
fn quantised_sources_pack_like_their_decoded_values() {
    let folder = tempfile::tempdir().unwrap();
    let (quantised, plain) = (folder.path().join("q.gguf"), folder.path().join("p.safetensors"));
    // Q8_0, Q4_0 and Q4_K; scales of about one.
    let blocks = |n: usize, bytes: usize, scales: &[usize], seed| {
        let mut all = noise(n * bytes, seed);
        for block in all.chunks_exact_mut(bytes) {
            scales.iter().for_each(|&at| block[at + 1] = 0x2C);
        }
        all
    };
    let file = gguf(&[
        ("q8", 8, &[64, 128], blocks(256, 34, &[0], 1)),
        ("q4", 2, &[40, 96], blocks(120, 18, &[0], 2)),
        ("q4k", 12, &[8, 512], blocks(16, 144, &[0, 2], 3)),
    ]);
    fs::write(&quantised, file).unwrap();
    let other = folder.path().join("m.safetensors");
    model_file(&other);
    for source in [&quantised, &other] {
        let model = Model::open(source).unwrap();
        let decoded: Vec<_> = model
            .entries()
            .iter()
            .map(|entry| {
                let array = array::open(entry).unwrap();
                let tensor = array.tensor().clone();
                let n: u64 = tensor.shape.iter().product();
                let mut bytes = vec![0; n as usize * tensor.dtype.size()];
                array.read(0, &mut bytes).unwrap();
                let name = if tensor.dtype.size() == 2 { "BF16" } else { "F32" };
                (entry.name.clone(), name, tensor.shape, bytes)
            })
            .collect();
        let given: Vec<_> =
            decoded.iter().map(|d| (d.0.as_str(), d.1, d.2.as_slice(), d.3.clone())).collect();
        safetensors(&plain, &given);
        let rules = "[[rule]]\nname = \"*\"\ndtype = \"bfloat8_b\"\n";
        let outs = ["a", "b"].map(|name| folder.path().join(name));
        pack(source, rules, &outs[0], 8 * MIB, &run(2, false)).unwrap();
        pack(&plain, rules, &outs[1], 64 * MIB, &run(1, false)).unwrap();
        let [mut a, mut b] = outs.map(|out| contents(&out));
        a.remove("manifest.json");
        b.remove("manifest.json");
        assert!(a == b && a.len() == model.entries().len());
    }
}

#[test]
fn only_what_is_stale_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (folder.path().join("m.safetensors"), folder.path().join("out"));
    model_file(&model);
    let summary = |rules: &str| pack(&model, rules, &out, 64 * MIB, &run(2, true)).unwrap();
    assert_eq!((summary(RULES).made, summary(RULES).made), (10, 0));
    let undisturbed = contents(&out);
    // Touched, and with the same elements.
    model_file(&model);
    let touched = summary(RULES);
    assert_eq!((touched.made, touched.kept), (0, 10));
    // One rule changed: the file of another name is removed.
    let changed = RULES.replace("dtype = \"bfloat4_b\"", "dtype = \"bfloat8_b\"");
    let summary_changed = summary(&changed);
    assert_eq!((summary_changed.made, summary_changed.kept), (1, 9));
    assert!(!out.join("l.0.experts.w_dtype_BFLOAT4_B_layout_TILE.tensorbin").exists());
    assert_eq!(summary(RULES).made, 1);
    // One tensor changed.
    let mut bytes = fs::read(&model).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&model, &bytes).unwrap();
    let one = summary(RULES);
    assert_eq!((one.made, one.kept), (1, 9));
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&model, &bytes).unwrap();
    // A file damaged in its length is made again; one damaged in its bytes is found by its hash.
    let names: Vec<&String> = undisturbed.keys().filter(|n| n.ends_with("bin")).collect();
    fs::write(out.join(names[0]), b"cut").unwrap();
    assert_eq!(summary(RULES).made, 2);
    let mut damaged = fs::read(out.join(names[1])).unwrap();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(out.join(names[1]), damaged).unwrap();
    let manifest = verify::manifest(&out).unwrap();
    let faults = verify::hashes(&out, &manifest, |_| ()).unwrap();
    assert_eq!(faults.iter().map(|f| &f.file).collect::<Vec<_>>(), [names[1]]);
    fs::remove_file(out.join("manifest.json")).unwrap();
    assert!(verify::manifest(&out).is_err());
    assert_eq!(pack(&model, RULES, &out, 64 * MIB, &run(2, false)).unwrap().made, 10);
    // All but the manifest, which has the time at which the model was written.
    let [now, before] = [contents(&out), undisturbed].map(|mut files| {
        files.remove("manifest.json");
        files
    });
    assert!(now == before);
}

/// What a change makes stale, and how many files that are.
#[test]
fn each_change_makes_stale_what_it_concerns() {
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (folder.path().join("m.safetensors"), folder.path().join("out"));
    model_file(&model);
    let summary = |rules: &str, request: Request| {
        let summary = pack_as(&model, rules, &out, 64 * MIB, &run(2, true), request).unwrap();
        assert_eq!(summary.made + summary.kept, verify::manifest(&out).unwrap().outputs.len() as u64);
        summary.made
    };
    let unchanged = Request::default;
    assert_eq!((summary(RULES, unchanged()), summary(RULES, unchanged())), (10, 0));
    let changes = [
        ("a remark", format!("# {RULES}").replacen("# ", "# remark\n", 1), unchanged(), 0),
        ("a layout", RULES.replace("bfloat16", "float32"), unchanged(), 1),
        ("rows and columns", RULES.replace("transpose = true", ""), unchanged(), 1),
        ("a mesh", RULES.replace("mesh_shape=(1, 4)", "mesh_shape=(1, 2)"), unchanged(), 1),
        (
            "rows that are split",
            RULES.replace(r#"["gate", "0::2"], ["up", "1::2"]"#, r#"["gate", "1::2"], ["up", "0::2"]"#),
            unchanged(),
            2,
        ),
        ("parts that are joined", RULES.replace(r#"["q", "k"]"#, r#"["k", "q"]"#), unchanged(), 1),
        (
            "rounding",
            RULES.to_owned(),
            Request { options: Options::default().with_rounding(Rounding::Truncate), ..unchanged() },
            10,
        ),
        ("devices", RULES.to_owned(), Request { devices: Some(0..1), ..unchanged() }, 10),
    ];
    for (what, rules, request, made) in changes {
        assert_eq!(summary(&rules, request.clone()), made, "{what}");
        assert_eq!(summary(&rules, request), 0, "{what}, again");
        assert_eq!(summary(RULES, unchanged()), made, "{what}, and back");
    }
    // Elements of one part of a stack, codes, and scales: each is in one file. What changes is a sign, or
    // a code: elements that decode to the same numbers make nothing stale.
    let bytes = fs::read(&model).unwrap();
    for (name, byte) in [
        ("l.0.experts.1.w", 1),
        ("l.0.down_blocks", 0),
        ("l.0.down_scales", 0),
        ("l.0.o.weight_scale_inv", 3),
    ] {
        let mut changed = bytes.clone();
        changed[place_of(&bytes, name) + byte] ^= 0x80;
        fs::write(&model, &changed).unwrap();
        assert_eq!(summary(RULES, unchanged()), 1, "{name}");
        fs::write(&model, &bytes).unwrap();
        assert_eq!(summary(RULES, unchanged()), 1, "{name}, and back");
    }
    // A file that another version has made has another key.
    let manifest = verify::manifest(&out).unwrap();
    let path = out.join("manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(&manifest.outputs[3].key, "of another version")).unwrap();
    assert_eq!(summary(RULES, unchanged()), 1);
    assert_eq!(verify::manifest(&out).unwrap().outputs, manifest.outputs);
}

/// The first byte of a tensor in a safetensors file.
fn place_of(file: &[u8], name: &str) -> usize {
    let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&file[8..8 + header]).unwrap();
    let begin = header[name]["data_offsets"][0].as_u64().unwrap() as usize;
    8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize + begin
}

#[test]
fn the_manifest_says_how_numbers_were_rounded() {
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (folder.path().join("m.safetensors"), folder.path().join("out"));
    model_file(&model);
    let mut seen = Vec::new();
    for rounding in [Rounding::Host, Rounding::Truncate] {
        let options = Options::default().with_rounding(rounding).with_search(rounding == Rounding::Host);
        let request = Request { options, ..Request::default() };
        pack_as(&model, RULES, &out, 64 * MIB, &run(1, false), request).unwrap();
        let manifest = verify::manifest(&out).unwrap();
        assert_eq!(manifest.number_options().unwrap(), options);
        let request = Request { options: manifest.number_options().unwrap(), ..Request::default() };
        let opened = Model::open(&model).unwrap();
        assert_eq!(verify::contents(&out, &manifest, &opened, &request, |_| ()).unwrap(), []);
        // Other choices make other bytes.
        assert!(!verify::contents(&out, &manifest, &opened, &Request::default(), |_| ()).unwrap().is_empty());
        seen.push(manifest);
    }
    seen[0].options = "Options { of: a later version }".to_owned();
    assert!(seen[0].number_options().is_err());
    assert!(verify::diff(&seen[0], &seen[1]).iter().any(|line| line.contains("other bytes")));
}

#[test]
fn a_sample_says_how_fast_packing_is() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("m.safetensors");
    model_file(&model);
    let (model, rules) = (Model::open(&model).unwrap(), Rules::parse(RULES).unwrap());
    for memory in [6, 512] {
        let packing = Packing::prepare(&model, "m", &rules, Request::default(), memory * MIB).unwrap();
        let rate = packing.sample_rate(2).unwrap().unwrap();
        assert!(rate > 1e3 && rate.is_finite(), "{rate}");
    }
}

#[test]
fn manifests_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (folder.path().join("m.safetensors"), folder.path().join("out"));
    safetensors(&model, &[("a", "F32", &[4, 4], f32s(16, 1))]);
    let rules = "[[rule]]\nname = \"*\"\ndtype = \"bfloat8_b\"\n";
    assert_eq!(pack(&model, rules, &out, 8 * MIB, &run(1, true)).unwrap().made, 1);
    // Another format, as of a later version: everything is stale.
    let path = out.join("manifest.json");
    let text = fs::read_to_string(&path).unwrap().replace("\"format\": 2", "\"format\": 3");
    fs::write(&path, text).unwrap();
    assert!(verify::manifest(&out).unwrap_err().to_string().contains("format 3"));
    assert_eq!(pack(&model, rules, &out, 8 * MIB, &run(1, true)).unwrap().made, 1);
    // A manifest that leads out of its folder: what it names there is not read.
    let text = fs::read_to_string(&path).unwrap();
    let (file, outside) = (&verify::manifest(&out).unwrap().outputs[0].file, folder.path().join("outside"));
    fs::copy(out.join(file), &outside).unwrap();
    for elsewhere in ["../outside", outside.to_str().unwrap(), "..", ""] {
        fs::write(
            &path,
            text.replace(&format!("\"file\": \"{file}\""), &format!("\"file\": \"{elsewhere}\"")),
        )
        .unwrap();
        let faults = verify::hashes(&out, &verify::manifest(&out).unwrap(), |_| ()).unwrap();
        let found: Vec<_> = faults.iter().map(|f| (f.file.as_str(), f.what.as_str())).collect();
        assert_eq!(found, [(elsewhere, "is no name of a file in this directory")]);
    }
    fs::write(&path, &text).unwrap();
    // A file of somebody else stays.
    fs::write(&path, "{}").unwrap();
    for resume in [false, true] {
        assert!(pack(&model, rules, &out, 8 * MIB, &run(1, resume)).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
    }
    // A journal that was cut in the middle of a line, or of a character, is read as far as it goes.
    fs::remove_file(&path).unwrap();
    fs::write(out.join(".tilewright-journal"), b"{\"name\": \"a\xC3").unwrap();
    assert_eq!(pack(&model, rules, &out, 8 * MIB, &run(1, true)).unwrap().made, 1);
}

#[test]
fn a_source_that_changes_meanwhile_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (folder.path().join("m.safetensors"), folder.path().join("out"));
    model_file(&model);
    let files = Arc::new(AtomicU64::new(0));
    let (path, count) = (model.clone(), Arc::clone(&files));
    let listener = Arc::new(move |event: Event<'_>| {
        if let Event::Made(_) = event
            && count.fetch_add(1, Ordering::Relaxed) == 2
        {
            let file = fs::File::options().append(true).open(&path).unwrap();
            file.set_len(fs::metadata(&path).unwrap().len() + 1).unwrap();
        }
    });
    let run = Run { threads: 1, resume: false, listener, cancel: Arc::default() };
    let error = pack(&model, RULES, &out, 64 * MIB, &run).unwrap_err();
    assert!(error.to_string().contains("changed"), "{error}");
    assert_eq!(files.load(Ordering::Relaxed), 3);
    assert_eq!(Manifest::read(&out, None).unwrap(), None);
    assert_eq!(contents(&out).keys().filter(|n| n.ends_with("bin")).count(), 3);
}

#[test]
fn two_processes_do_not_pack_into_one_directory() {
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (folder.path().join("m.safetensors"), folder.path().join("out"));
    model_file(&model);
    let (path, to) = (model.clone(), out.clone());
    let seen = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&seen);
    let listener = Arc::new(move |event: Event<'_>| {
        if let Event::Begin { .. } = event {
            let error = pack(&path, RULES, &to, 64 * MIB, &run(1, true)).unwrap_err();
            assert!(error.to_string().contains("another process"), "{error}");
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    pack(&model, RULES, &out, 64 * MIB, &Run { threads: 1, resume: false, listener, cancel: Arc::default() })
        .unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 1);
}

#[test]
fn packing_that_is_cancelled_goes_on_where_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (folder.path().join("m.safetensors"), folder.path().join("out"));
    model_file(&model);
    pack(&model, RULES, &folder.path().join("whole"), 64 * MIB, &run(2, false)).unwrap();
    let cancel = Arc::new(Cancel::default());
    let listener = {
        let cancel = Arc::clone(&cancel);
        Arc::new(move |event: Event<'_>| {
            if matches!(event, Event::Begin { .. }) {
                cancel.cancel();
            }
        })
    };
    let cancelled = Run { threads: 1, resume: false, listener, cancel };
    let error = pack(&model, RULES, &out, 64 * MIB, &cancelled).unwrap_err();
    assert!(error.to_string().contains("cancelled"), "{error}");
    assert_eq!(Manifest::read(&out, None).unwrap(), None);
    pack(&model, RULES, &out, 64 * MIB, &run(1, true)).unwrap();
    assert!(contents(&out) == contents(&folder.path().join("whole")));
}

#[test]
fn killed_between_the_manifest_and_the_end_of_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (folder.path().join("m.safetensors"), folder.path().join("out"));
    model_file(&model);
    pack(&model, RULES, &out, 64 * MIB, &run(2, false)).unwrap();
    let whole = contents(&out);
    let manifest = Manifest::read(&out, None).unwrap().unwrap();
    let line = |record| serde_json::to_string(record).unwrap() + "\n";
    let journal: String = manifest.outputs.iter().map(line).collect();
    fs::write(out.join(".tilewright-journal"), journal).unwrap();
    let summary = pack(&model, RULES, &out, 64 * MIB, &run(2, true)).unwrap();
    assert_eq!((summary.made, summary.kept), (0, manifest.outputs.len() as u64));
    assert_eq!(contents(&out).keys().collect::<Vec<_>>(), whole.keys().collect::<Vec<_>>());
    assert!(contents(&out) == whole);
}

#[test]
fn shares_together_are_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (folder.path().join("m.safetensors"), folder.path().join("out"));
    model_file(&model);
    pack(&model, RULES, &folder.path().join("whole"), 64 * MIB, &run(2, false)).unwrap();
    for rank in [2, 0, 1] {
        assert_eq!(Manifest::read(&out, None).unwrap(), None);
        let request = Request { share: Some(Share { rank, world: 3 }), ..Request::default() };
        pack_as(&model, RULES, &out, 64 * MIB, &run(1, false), request).unwrap();
    }
    let (whole, mut parts) = (contents(&folder.path().join("whole")), contents(&out));
    parts.retain(|name, _| !name.contains("-of-"));
    assert!(whole == parts, "{:?}", parts.keys());
    let wrong = Request { share: Some(Share { rank: 3, world: 3 }), ..Request::default() };
    assert!(pack_as(&model, RULES, &out, 64 * MIB, &run(1, false), wrong).is_err());
}

#[test]
fn parts_of_a_mesh() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("m.safetensors");
    model_file(&model);
    let name = "wide_dtype_BFLOAT8_B_layout_TILE.tensorbin";
    let mut payloads = Vec::new();
    for devices in [None, Some(0..1), Some(1..4)] {
        let request = Request { devices: devices.clone(), ..Request::default() };
        let out = folder.path().join(format!("{devices:?}"));
        pack_as(&model, RULES, &out, 64 * MIB, &run(1, false), request.clone()).unwrap();
        for (name, bytes) in expected(&model, RULES, &request) {
            assert!(fs::read(out.join(&name)).unwrap() == bytes, "{name}");
        }
        let source = fs::read(out.join(name)).unwrap();
        let file = TensorBin::read(&Source::from_slice(name, &source)).unwrap();
        let parts = file.shards.iter().map(|s| source[s.range.start as usize..s.range.end as usize].to_vec());
        payloads.push(parts.collect::<Vec<_>>());
    }
    assert_eq!(payloads.iter().map(Vec::len).collect::<Vec<_>>(), [4, 1, 3]);
    assert!(payloads[0] == [&payloads[1][..], &payloads[2][..]].concat());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_matrix_packs_like_its_plan(
        rows in 1_u64..300, cols in 1_u64..300, kind in 0..3_usize, features in 0..16_u32, memory in 4_u64..9,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("m.safetensors");
        let (dtype, size) = [("F32", 4), ("BF16", 2), ("F8_E4M3", 1)][kind];
        let part = |seed| match size {
            4 => f32s((rows * cols) as usize, seed),
            2 => bf16((rows * cols) as usize, seed),
            _ => noise((rows * cols) as usize, seed).into_iter().map(|b| b & 0xBF).collect(),
        };
        let grid = [rows.div_ceil(128), cols.div_ceil(128)];
        let scales = f32s((grid[0] * grid[1]) as usize, 3);
        let shape = [rows, cols];
        let mut tensors = vec![("e.0.w", dtype, &shape[..], part(1)), ("e.1.w", dtype, &shape[..], part(2))];
        if size == 1 {
            tensors.push(("e.0.w_scale_inv", "F32", &grid[..], scales.clone()));
            tensors.push(("e.1.w_scale_inv", "F32", &grid[..], scales));
        }
        safetensors(&model, &tensors);
        let mut rules = "[[rule]]\nname = \"e.*.w\"\ndtype = \"bfloat8_b\"\n".to_owned();
        match features % 4 {
            1 => rules += "stack = \"e.*\"\n",
            2 => rules += "fuse = { into = \"a\", parts = [\"0\", \"1\"] }\n",
            3 => rules += "split = [[\"x\", \"0::2\"], [\"y\", \"1::2\"]]\n",
            _ => {}
        }
        if features & 4 > 0 {
            rules += "transpose = true\n";
        }
        prop_assume!(features % 4 != 3 || rows > 1);
        let out = folder.path().join("out");
        pack(&model, &rules, &out, memory * MIB, &run(1 + (features / 8) as usize, false)).unwrap();
        for (name, bytes) in expected(&model, &rules, &Request::default()) {
            prop_assert!(fs::read(out.join(&name)).unwrap() == bytes, "{}", name);
        }
        let manifest = verify::manifest(&out).unwrap();
        let opened = Model::open(&model).unwrap();
        prop_assert_eq!(verify::contents(&out, &manifest, &opened, &Request::default(), |_| ()).unwrap(), []);
    }
}
