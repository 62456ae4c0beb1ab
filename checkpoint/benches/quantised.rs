//! How fast quantised elements are decoded by one thread, in elements a second: codes and values of a piece that stays
//! in the second cache, as `pack` decodes them. `cargo bench -p tilewright-checkpoint --bench quantised`.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tilewright_checkpoint::quantised::{BlockType, decode_fp8_row, decode_mxfp4};

/// Elements of a piece.
const ELEMENTS: usize = 64 << 10;

/// The numbers of the types of GGUF.
const GGUF: [u32; 13] = [2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 39];

fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut byte = || {
        state = state.wrapping_mul(0x0019_660D).wrapping_add(0x3C6E_F35F);
        (state >> 24) as u8
    };
    (0..len).map(|_| byte()).collect()
}

fn quantised(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("quantised");
    group.throughput(Throughput::Elements(ELEMENTS as u64));
    let mut values = vec![0; ELEMENTS * 4];

    let (codes, scales) =
        (noise(ELEMENTS / 2), noise(ELEMENTS / 32).iter().map(|b| 119 + b % 4).collect::<Vec<_>>());
    group.bench_function("mxfp4", |bencher| {
        bencher.iter(|| decode_mxfp4(&codes, &scales, black_box(&mut values[..ELEMENTS * 2])));
    });

    let (codes, scales) = (noise(ELEMENTS), [0.25; 32]);
    group.bench_function("fp8", |bencher| {
        bencher.iter(|| {
            for (codes, values) in codes.chunks(4096).zip(values.chunks_mut(2 * 4096)) {
                decode_fp8_row(codes, 0, 128, &scales, black_box(values));
            }
        });
    });

    for block in GGUF.iter().filter_map(|&number| BlockType::from_number(number)) {
        let codes = noise(ELEMENTS / block.elements() * block.bytes());
        group.bench_function(block.name(), |bencher| {
            bencher.iter(|| block.decode(&codes, black_box(&mut values)));
        });
    }
    group.finish();
}

criterion_group!(benches, quantised);
criterion_main!(benches);
