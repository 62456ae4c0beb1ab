//! Conversions beside memcpy of the same bytes.

pub(crate) mod settings;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, SamplingMode, Throughput};
use tilewright::run::Executor;
use tilewright_benches::{Job, Memory};

/// Times a job and memcpy, both by the threads of the executor; memory is made ready once either is wanted.
///
/// With `check` every byte has first been compared with the reference.
pub(crate) fn beside_memcpy(
    group: &mut BenchmarkGroup<'_, WallTime>,
    parameter: &str,
    job: &Job,
    memory: &mut Memory,
    executor: &dyn Executor,
    check: bool,
) {
    group.sampling_mode(SamplingMode::Flat).throughput(Throughput::Bytes(job.bytes as u64));
    let mut ready = false;
    let mut make_ready = |memory: &mut Memory| {
        if !std::mem::replace(&mut ready, true) {
            memory.prepare(job).unwrap();
            if check {
                memory.check(job, executor).unwrap();
            }
        }
    };
    group.bench_function(BenchmarkId::new("tilewright", parameter), |b| {
        make_ready(memory);
        b.iter(|| memory.convert(job, executor).unwrap());
    });
    group.bench_function(BenchmarkId::new("memcpy", parameter), |b| {
        make_ready(memory);
        b.iter(|| memory.memcpy(executor));
    });
}
