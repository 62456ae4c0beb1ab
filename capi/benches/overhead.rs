//! What a call through C costs over the call of the Rust library: the same plan both ways.

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr::null;

use criterion::{Criterion, criterion_group, criterion_main};
use tilewright::family::Descriptor;
use tilewright::family::{Placement, Tensor};
use tilewright::run::Inline;
use tilewright::{DType, Options, Plan};
use tilewright_capi::*;

fn overhead(c: &mut Criterion) {
    let shape = [4_u64, 4];
    let tensor = Tensor { shape: shape.to_vec(), dtype: DType::F32 };
    let host: Descriptor = "memref<4x4xf32>".parse().unwrap();
    let layout = host.layout(&tensor, &Placement::default()).unwrap();
    let plan = Plan::compile(&layout, &layout, &Options::default()).unwrap();

    // SAFETY: all fields may be zero.
    let mut request: tw_request = unsafe { std::mem::zeroed() };
    request.struct_size = size_of::<tw_request>() as u32;
    request.dtype = TW_F32;
    request.shape = shape.as_ptr();
    request.rank = shape.len();
    let mut handle = std::ptr::null_mut();
    // SAFETY: everything is alive and as long as it says.
    assert_eq!(unsafe { tw_plan_compile(&request, &mut handle, std::ptr::null_mut()) }, TW_OK);

    let source = [1_u8; 64];
    let mut destination = [MaybeUninit::uninit(); 64];
    let mut group = c.benchmark_group("copy 64 bytes");
    group.bench_function("rust", |b| {
        b.iter(|| plan.execute_uninit_on(&Inline, black_box(&source), black_box(&mut destination)).is_ok());
    });
    let message = std::ptr::null_mut();
    group.bench_function("c", |b| {
        b.iter(|| {
            let (from, to) =
                (black_box(&source).as_ptr().cast(), black_box(&mut destination).as_mut_ptr().cast());
            // SAFETY: as above.
            unsafe { tw_plan_execute(handle, from, 64, to, 64, null(), message) }
        });
    });
    group.finish();
    // SAFETY: made above, and not used any more.
    unsafe { tw_plan_free(handle) };
}

criterion_group!(benches, overhead);
criterion_main!(benches);
