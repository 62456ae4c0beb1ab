//! A few conversions at all sizes and on growing numbers of threads, and what the smallest tensors cost.

mod common;

use common::{beside_memcpy, settings};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tilewright::run::{Executor, Inline, Item, Pool, execute_batch};
use tilewright::{DType, PlanCache, Request};
use tilewright_benches::{Case, Memory, numbers};

/// Names of the cases, and the columns of 32 rows that are 4 KiB.
const CASES: [(&str, u64); 3] = [("tilize bf16", 64), ("transpose 2-byte", 64), ("f32 to bfp8 tiles", 32)];

/// 4 KiB to 256 MiB of source; with `TILEWRIGHT_BENCH_LARGE` set, 1 GiB too, which takes 3 GiB of memory.
fn sizes(c: &mut Criterion) {
    let most = if std::env::var_os("TILEWRIGHT_BENCH_LARGE").is_some() { 9 } else { 8 };
    let mut memory = Memory::new(0).unwrap();
    for (name, cols) in CASES {
        let case = Case::named(name).unwrap();
        let mut group = c.benchmark_group(format!("{name} by size"));
        for doublings in 0..=most {
            let job = case.at(&[32 << doublings, cols << doublings], None).unwrap();
            let kib = job.bytes >> 10;
            let size = if kib < 1024 { format!("{kib} KiB") } else { format!("{} MiB", kib >> 10) };
            beside_memcpy(&mut group, &size, &job, &mut memory, &Inline, kib <= 1024);
        }
        group.finish();
    }
}

fn threads(c: &mut Criterion) {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let mut memory = Memory::new(0).unwrap();
    for (name, _) in CASES {
        let case = Case::named(name).unwrap();
        let job = case.at(&case.dram, None).unwrap();
        let mut group = c.benchmark_group(format!("{name} by threads"));
        for threads in (0..).map(|k| 1 << k).take_while(|&n| n < all).chain([all]) {
            let pool = Pool::new(threads).unwrap();
            beside_memcpy(&mut group, &threads.to_string(), &job, &mut memory, &pool, false);
        }
        group.finish();
    }
}

/// One tile by the call that users make, with the plan at hand and with a plan from a cache.
fn small(c: &mut Criterion) {
    let mut group = c.benchmark_group("32x32 bf16 to a tile");
    let tile = "ttnn(dtype=bfloat16, layout=TILE)";
    let request = Request::new(&[32, 32], DType::Bf16, "memref<32x32xbf16>", tile);
    let plans = PlanCache::new(64);
    let plan = plans.get(&request).unwrap();
    let mut source = vec![0; plan.source_bytes()];
    numbers(&mut source);
    let mut tile = vec![0; plan.destination_bytes()];
    group.throughput(Throughput::Bytes(source.len() as u64));
    group.bench_function("tilewright", |b| b.iter(|| plan.execute(&source, &mut tile).unwrap()));
    group.bench_function("tilewright, plan from a cache", |b| {
        b.iter(|| plans.get(&request).unwrap().execute(&source, &mut tile).unwrap());
    });
    group.bench_function("memcpy", |b| b.iter(|| tile.copy_from_slice(&source)));
    group.finish();
}

/// Thousands of tiles in one call, on one thread and on all; the time is that of all of them.
fn batch(c: &mut Criterion) {
    const TILES: usize = 4096;
    let mut group = c.benchmark_group("4096 of 32x32 bf16 to a tile each");
    let tile = "ttnn(dtype=bfloat16, layout=TILE)";
    let plan = Request::new(&[32, 32], DType::Bf16, "memref<32x32xbf16>", tile).compile().unwrap();
    let bytes = plan.source_bytes();
    let mut source = vec![0; bytes * TILES];
    numbers(&mut source);
    let mut tiles = vec![0; plan.destination_bytes() * TILES];
    group.throughput(Throughput::Elements(TILES as u64));
    let pool = Pool::new(0).unwrap();
    for executor in [&Inline as &dyn Executor, &pool] {
        let sources = source.chunks_exact(bytes);
        let mut items: Vec<Item<'_>> = sources
            .zip(tiles.chunks_exact_mut(plan.destination_bytes()))
            .map(|(source, destination)| Item::new(&plan, source, destination))
            .collect();
        let name = format!("{} threads", executor.threads());
        group.bench_function(name, |b| b.iter(|| execute_batch(executor, &mut items).unwrap()));
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = settings::short();
    targets = sizes, threads, small, batch
}
criterion_main!(benches);
