//! What a plan costs: its layouts, its compilation, and finding it in a cache.

#[path = "common/settings.rs"]
mod settings;

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use tilewright::family::Descriptor;
use tilewright::family::{Placement, Tensor};
use tilewright::{DType, Options, Plan, PlanCache, Request};

/// Name, shape, source and destination.
fn cases() -> Vec<(&'static str, Vec<u64>, String, String)> {
    let dense = |shape: &[u64], t: &str| {
        let dims: String = shape.iter().map(|n| format!("{n}x")).collect();
        format!("memref<{dims}{t}>")
    };
    let case = |name, shape: &[u64], t, to: &str| (name, shape.to_vec(), dense(shape, t), to.to_string());
    vec![
        case("tile bf16 4096x4096", &[4096, 4096], "bf16", "ttnn(dtype=bfloat16, layout=TILE)"),
        case("tile bfp8 4096x4096", &[4096, 4096], "f32", "ttnn(dtype=bfloat8_b, layout=TILE)"),
        case("tile bf16 ragged 4000x4001", &[4000, 4001], "bf16", "ttnn(dtype=bfloat16, layout=TILE)"),
        case(
            "stick f16 8x2048x4096",
            &[8, 2048, 4096],
            "f16",
            "SpyreTensorLayout((8, 2048, 4096), torch.float16)",
        ),
        case(
            "metal 53x63 on 3x2, bfp8",
            &[53, 63],
            "f32",
            "#ttcore.metal_layout<(d0, d1) -> (d0, d1), undef, <3x2>, memref<1x1x!ttcore.tile<32 x 32, bfp_bf8>, #ttcore.memory_space<l1>>>",
        ),
        case(
            "weight 128k x 8k on 8x8 cores",
            &[131_072, 8192],
            "bf16",
            "metal(shape=(131072, 8192), collapse=[], grid=(8, 8), tile=(32, 32), dtype=bf16, oob=undef, memory=l1)",
        ),
        case(
            "interleaved 65536 pages",
            &[8192, 8192],
            "bf16",
            "ttnn(dtype=bfloat16, layout=TILE, memory=INTERLEAVED, banks=12, alignment=32)",
        ),
    ]
}

fn dtype(text: &str) -> DType {
    let all = [("xbf16", DType::Bf16), ("xf16", DType::F16)];
    all.into_iter().find(|(name, _)| text.contains(name)).map_or(DType::F32, |(_, dtype)| dtype)
}

fn compile(c: &mut Criterion) {
    let mut group = c.benchmark_group("plan");
    for (name, shape, from, to) in cases() {
        let tensor = Tensor { shape, dtype: dtype(&from) };
        let layout =
            |text: &str| text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
        group.bench_function(format!("layout of {name}"), |b| b.iter(|| layout(black_box(&to))));
        let (src, dst) = (layout(&from), layout(&to));
        let options = Options::default();
        group.bench_function(format!("compile {name}"), |b| {
            b.iter(|| Plan::compile(black_box(&src), black_box(&dst), &options).unwrap());
        });
    }
    group.finish();
}

/// A request seen before, in a cache that is full.
fn hit(c: &mut Criterion) {
    let mut group = c.benchmark_group("plan cache");
    let cases = cases();
    let requests: Vec<Request> = cases
        .iter()
        .map(|(_, shape, from, to)| Request::new(shape, dtype(from), from.as_str(), to.as_str()))
        .collect();
    let plans = PlanCache::new(requests.len());
    for request in &requests {
        plans.get(request).unwrap();
    }
    for ((name, ..), request) in cases.iter().zip(&requests) {
        group.bench_function(format!("hit {name}"), |b| b.iter(|| plans.get(black_box(request)).unwrap()));
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = settings::short();
    targets = compile, hit
}
criterion_main!(benches);
