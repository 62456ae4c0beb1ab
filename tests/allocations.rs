//! Running a plan on one thread allocates nothing, whatever the families, options and sizes.

mod counting;
mod families;

use std::mem::MaybeUninit;

use counting::{ALLOCATIONS, allocations};
use families::{Choices, FAMILIES, dense};
use kernels::Isa;
use tilewright::family::Descriptor;
use tilewright::family::{Placement, Tensor};
use tilewright::plan::Store;
use tilewright::run::Inline;
use tilewright::stage::{Blocking, Heap, Settings, Slot, Source, Stager, Transfer};
use tilewright::{DType, Layout, Options, Plan};

/// Runs a conversion whole and in chunks; the first call may set up what the process needs once.
fn runs_without_allocating(src: &Layout, dst: &Layout, options: &Options) {
    let plan = Plan::compile(src, dst, options).unwrap();
    let source = vec![0; plan.source_bytes()];
    let mut out = vec![0; plan.destination_bytes()];
    let chunk_alignment = plan.chunk_alignment().max(1);
    let size = (out.len() / 3).div_ceil(chunk_alignment).max(1) * chunk_alignment;
    let mut run = || {
        plan.execute(&source, &mut out).unwrap();
        plan.execute_on(&Inline, &source, &mut out).unwrap();
        for (k, chunk) in out.chunks_mut(size).enumerate() {
            plan.execute_chunk(&source, k * size..k * size + chunk.len(), chunk).unwrap();
        }
    };
    run();
    assert_eq!(allocations(run), 0, "{plan}");
}

fn both_ways(host: &Layout, layout: &Layout) {
    for (isa, store) in Isa::available().flat_map(|isa| [Store::Cached, Store::Streamed].map(|s| (isa, s))) {
        let options = Options::default().with_isa(isa).with_store(store);
        runs_without_allocating(host, layout, &options);
        runs_without_allocating(layout, host, &options);
    }
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![0_u8; 7]))), 1);
    assert_eq!(allocations(|| {}), 0);
}

/// Some layouts of every family. What is small enough runs on this thread by whichever door.
#[test]
fn no_family_allocates() {
    let mut x = 0x2545_F491_u32;
    let mut numbers = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x
    };
    for (name, family) in FAMILIES {
        let mut seen = 0;
        for _ in 0..60 {
            let drawn: Vec<u32> = (0..48).map(|_| numbers()).collect();
            let c = &mut Choices::new(&drawn);
            let tensor = Tensor { dtype: c.of(&[DType::F32, DType::Bf16, DType::I32]), shape: c.shape(2500) };
            let Some(case) = family(c, &tensor) else { continue };
            let Ok(layout) = case.layout(&tensor) else { continue };
            if layout.total_bytes() <= 128 << 10 {
                both_ways(&dense(&tensor), &layout);
                seen += 1;
            }
        }
        assert!(seen >= 10, "only {seen} layouts of {name}");
    }
}

/// Tensors that a plan streams past the caches of itself, on the caller's thread.
#[test]
fn no_large_tensor_allocates() {
    let tensor = Tensor { shape: vec![2560, 2600], dtype: DType::F32 };
    let host = dense(&tensor);
    for text in [
        "ttnn(dtype=float32, layout=TILE)",
        "ttnn(dtype=bfloat8_b, layout=TILE)",
        "SpyreTensorLayout((2560, 2600), torch.float32)",
        "memref<2560x2600xf32, strided<[1, 2560]>>",
    ] {
        let layout = text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
        for (src, dst) in [(&host, &layout), (&layout, &host)] {
            let plan = Plan::compile(src, dst, &Options::default()).unwrap();
            let source = vec![0; plan.source_bytes()];
            let mut out = vec![MaybeUninit::new(0); plan.destination_bytes()];
            let mut run = || {
                plan.execute_uninit_on(&Inline, &source, &mut out).unwrap();
            };
            run();
            assert_eq!(allocations(run), 0, "{text}");
        }
    }
}

/// To compile a plan takes microseconds, of which each allocation has a part.
#[test]
fn an_everyday_plan_is_compiled_with_few_allocations() {
    let cases: [(&[u64], &str, u64); 7] = [
        (&[4096, 4096], "ttnn(dtype=bfloat16, layout=TILE)", 90),
        (&[4096, 4096], "ttnn(dtype=bfloat8_b, layout=TILE)", 90),
        (&[4000, 4001], "ttnn(dtype=bfloat16, layout=TILE)", 180),
        (&[8, 2048, 4096], "SpyreTensorLayout((8, 2048, 4096), torch.bfloat16)", 90),
        (
            &[53, 63],
            "metal(shape=(53, 63), collapse=[], grid=(3, 2), tile=(32, 32), dtype=bfp_bf8, oob=undef, memory=l1)",
            200,
        ),
        (
            &[131_072, 8192],
            "metal(shape=(131072, 8192), collapse=[], grid=(8, 8), tile=(32, 32), dtype=bf16, oob=undef, memory=l1)",
            90,
        ),
        (&[8192, 8192], "ttnn(dtype=bfloat16, layout=TILE, memory=INTERLEAVED, banks=12, alignment=32)", 120),
    ];
    for (shape, text, most) in cases {
        let tensor = Tensor { shape: shape.to_vec(), dtype: DType::Bf16 };
        let layout = text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
        let (host, options) = (dense(&tensor), Options::default());
        let compile = || drop(Plan::compile(&host, &layout, &options).unwrap());
        compile();
        let seen = allocations(compile);
        println!("{seen} allocations for {text} of {shape:?}");
        assert!(seen <= most, "{seen} allocations for {text} of {shape:?}");
    }
}

/// Once each slot has been used, staging more of them allocates nothing more.
#[test]
fn no_slot_allocates() {
    let tensor = Tensor { shape: vec![512, 640], dtype: DType::F32 };
    let text: Descriptor = "ttnn(dtype=bfloat8_b, layout=TILE)".parse().unwrap();
    let tiles = text.layout(&tensor, &Placement::default()).unwrap();
    let plan = Plan::compile(&dense(&tensor), &tiles, &Options::default()).unwrap();
    let source = vec![0; plan.source_bytes()];
    let transfers = [Transfer { plan: &plan, source: Source::Memory(&source) }; 2];
    let mut seen = Vec::with_capacity(64);
    let consume = |_: &Slot| {
        seen.push(ALLOCATIONS.get());
        Ok(())
    };
    let settings = Settings { executor: &Inline, ..Settings::default() };
    let mut sink = Blocking::new(consume);
    Stager::new(2, 32 << 10, &mut Heap).unwrap().run(&transfers, &mut sink, &settings).unwrap();
    drop(sink);
    assert!(seen.len() > 16, "{} slots", seen.len());
    assert!(seen[4..].iter().all(|n| *n == seen[4]), "{seen:?}");
}
