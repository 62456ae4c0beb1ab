//! A destination may begin anywhere in a cache line: the bytes are the same, and none beside it is written.

use tilewright::family::{Descriptor, Placement, Tensor};
use tilewright::plan::Store;
use tilewright::run::{Inline, reference};
use tilewright::tuning::builtin;
use tilewright::{DType, Options, Plan};

#[test]
fn a_destination_begins_anywhere_in_a_line() {
    let tile = "ttnn(dtype=bfloat16, layout=TILE)";
    let (rows, sticks) = ("memref<160x1056xbf16>", "SpyreTensorLayout((160, 1056), torch.bfloat16)");
    let pages = "ttnn(dtype=bfloat16, layout=TILE, memory=INTERLEAVED, banks=3, alignment=32)";
    let transposed = "memref<160x1056xbf16, strided<[1, 160]>>";
    let pairs = [
        (rows, tile),
        (tile, rows),
        (rows, sticks),
        (sticks, rows),
        (rows, transposed),
        (transposed, rows),
        (transposed, tile),
        (rows, pages),
        (pages, rows),
        (transposed, "ttnn(dtype=bfloat8_b, layout=TILE)"),
        (rows, "ttnn(dtype=float32, layout=TILE)"),
    ];
    // Lines that go at once as the source lies, whole or in pairs.
    let (long, wide) = ("memref<160x1056xf32>", "ttnn(dtype=float32, layout=TILE)");
    let plain =
        "SpyreTensorLayout(device_size=[33, 160, 32], dim_map=[1, 0, 1], device_dtype=DataFormats.IEEE_FP32)";
    // Lines that kernels make and store by themselves.
    let (across, bfp8) = ("memref<160x1056xf32, strided<[1, 160]>>", "ttnn(dtype=bfloat8_b, layout=TILE)");
    let pairs = pairs.map(|pair| (DType::Bf16, pair)).into_iter();
    let pairs_of_f32 = [
        (long, wide),
        (wide, long),
        (long, plain),
        (plain, long),
        (long, tile),
        (long, rows),
        (long, sticks),
        (long, across),
        (across, long),
        (long, bfp8),
        (bfp8, long),
        (bfp8, rows),
    ];
    let pairs_of_f32 = pairs_of_f32.map(|pair| (DType::F32, pair));
    for (dtype, (from, to)) in pairs.chain(pairs_of_f32) {
        let tensor = Tensor::new([160, 1056], dtype);
        let layout =
            |text: &str| text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
        let (src, dst) = (layout(from), layout(to));
        for (name, tuning) in builtin::ALL {
            let options = Options::default().with_store(Store::Streamed);
            let plan = Plan::compile_with(&src, &dst, &options, &tuning).unwrap();
            // Finite numbers, none like its neighbours.
            let source: Vec<u8> = (0..plan.source_bytes() / 2)
                .flat_map(|i| (0x3C00 + ((i * 40_503) >> 3) as u16 % 0x0800).to_le_bytes())
                .collect();
            let want = reference(&src, &dst, &options, &source).unwrap();
            let mut memory = vec![0xEE_u8; want.len() + 192];
            let line = memory.as_ptr().align_offset(64);
            for begin in [0, 1, 2, 8, 16, 30, 32, 48, 62] {
                memory.fill(0xEE);
                let (before, rest) = memory.split_at_mut(line + begin);
                let (out, behind) = rest.split_at_mut(want.len());
                plan.execute_on(&Inline, &source, out).unwrap();
                assert!(*out == want, "{from} to {to}, {name}, from byte {begin} of a line");
                assert!(before.iter().chain(&*behind).all(|&byte| byte == 0xEE), "{from} to {to}, {begin}");
                out.fill(0xEE);
                // And in chunks, each of which begins somewhere else.
                let alignment = plan.chunk_alignment().max(1);
                let step = alignment * (5000 / alignment).max(1);
                for at in (0..want.len()).step_by(step) {
                    let range = at..want.len().min(at + step);
                    plan.execute_chunk(&source, range.clone(), &mut out[range]).unwrap();
                }
                assert!(*out == want, "{from} to {to}, {name}, chunks from byte {begin} of a line");
            }
        }
    }
}
