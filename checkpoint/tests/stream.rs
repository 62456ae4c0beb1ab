//! Streams give what plans make of whole arrays, in the order of the files, however little memory there is.

mod common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tilewright::Error;
use tilewright_checkpoint::job::{Request, jobs};
use tilewright_checkpoint::model::Model;
use tilewright_checkpoint::rules::Rules;
use tilewright_checkpoint::stream::Stream;

use common::{ramp, safetensors};

const MIB: u64 = 1 << 20;

const RULES: &str = r#"
[[rule]]
name = "*"
layout = "ttnn(dtype=bfloat8_b, layout=TILE)"
[[rule]]
name = "rows*"
layout = "memref<{shape}xui8>"
[[rule]]
name = "turned"
layout = "SpyreTensorLayout(({dims}), torch.float16)"
transpose = true
[[rule]]
name = "wide"
layout = "ttnn(dtype=bfloat8_b, layout=TILE)"
mesh = "ShardTensorToMesh(mesh_shape=(1, 4), dim=1)"
"#;

fn halves(n: usize) -> Vec<u8> {
    (0..n).flat_map(|i| (0x3C00 + (i * 37 % 1021) as u16).to_le_bytes()).collect()
}

fn model_file(path: &Path) {
    safetensors(
        path,
        &[
            ("a", "F16", &[100, 96], halves(9600)),
            ("rows.empty", "U8", &[0, 7], vec![]),
            ("turned", "F16", &[300, 700], halves(210_000)),
            ("wide", "F16", &[64, 9000], halves(576_000)),
            ("rows.last", "U8", &[3, 5], ramp(15)),
        ],
    );
}

/// Names and bytes, as whole arrays give them.
fn expected(model: &Path, request: &Request) -> Vec<(String, Vec<u8>)> {
    let (model, rules) = (Model::open(model).unwrap(), Rules::parse(RULES).unwrap());
    let all = jobs(&model, &rules, request).unwrap();
    let whole = all.iter().map(|job| {
        let conversion = &job.conversion;
        let mut elements = vec![0; conversion.plan.source_bytes()];
        job.array.read(0, &mut elements).unwrap();
        let mut packed = vec![0; conversion.plan.destination_bytes()];
        conversion.plan.execute(&elements, &mut packed).unwrap();
        let size = (conversion.destination.buffer_bytes() as usize).max(1);
        let buffers = packed.chunks(size).zip(&conversion.container.places);
        let kept = buffers.filter(|(_, place)| place.is_some()).flat_map(|(bytes, _)| bytes.to_vec());
        (job.name.clone(), kept.collect())
    });
    whole.collect()
}

fn begin(model: &Path, request: &Request, memory: u64) -> tilewright::Result<Stream> {
    Stream::begin(Model::open(model)?, &Rules::parse(RULES)?, request, memory, 2)
}

#[test]
fn tensors_are_what_plans_make() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("m.safetensors");
    model_file(&model);
    for devices in [None, Some(1..3)] {
        let request = Request { devices, ..Request::default() };
        let expected = expected(&model, &request);
        for memory in [5 * MIB, 64 * MIB, 2048 * MIB] {
            let stream = begin(&model, &request, memory).unwrap();
            let jobs = stream.jobs().clone();
            let names = jobs.iter().map(|job| job.name.clone());
            let given: Vec<_> = names.zip(stream.map(Result::unwrap)).collect();
            assert!(given == expected, "{memory}");
        }
    }
}

#[test]
fn what_cannot_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("m.safetensors");
    model_file(&model);
    let error = begin(&model, &Request::default(), 3 * MIB).unwrap_err();
    // All of its memory: that of the ring, and that of the two tensors that it holds.
    assert_eq!(error.to_string(), "memory for `wide`: given 3145728 bytes, needed 4834561 bytes");
    assert!(begin(&model, &Request::default(), 4_834_561).is_ok());
}

#[test]
fn a_stream_waits_for_whoever_takes_and_ends_when_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("m.safetensors");
    let names: Vec<String> = (0..40).map(|i| format!("t{i:02}")).collect();
    let bytes = halves(512 * 1024);
    let tensors: Vec<_> =
        names.iter().map(|n| (n.as_str(), "F16", &[512, 1024][..], bytes.clone())).collect();
    safetensors(&model, &tensors);
    let rules = Rules::parse("[[rule]]\nname = \"*\"\nlayout = \"memref<512x1024xf16>\"\n").unwrap();
    let begin =
        || Stream::begin(Model::open(&model).unwrap(), &rules, &Request::default(), 8 * MIB, 1).unwrap();
    // 8 MiB hold four to eight tensors of 1 MiB; the others wait until one is taken.
    let mut stream = begin();
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    assert!(stream.next().unwrap().unwrap() == bytes);
    drop(stream);
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(begin().map(|t| t.map(|t| t.len())).collect::<Result<Vec<_>, _>>().unwrap(), [1 << 20; 40]);
    drop(begin());
}

#[test]
fn a_model_that_ends_early_is_an_error_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    model_file(&path);
    let model = Model::open(&path).unwrap();
    let length = fs::metadata(&path).unwrap().len();
    fs::File::options().write(true).open(&path).unwrap().set_len(length - 100_000).unwrap();
    let mut stream =
        Stream::begin(model, &Rules::parse(RULES).unwrap(), &Request::default(), 64 * MIB, 1).unwrap();
    let failed = stream.by_ref().find_map(Result::err);
    assert!(matches!(failed, Some(Error::Io { .. })), "{failed:?}");
    assert!(stream.next().is_none());
}
