//! Whatever a text and a shape say, a layout and its plans are made or refused soon, without a panic.

#[path = "common/thread_time.rs"]
mod thread_time;

use std::time::Duration;

use proptest::prelude::*;
use tilewright::family::Descriptor;
use tilewright::family::host::strided::Memref;
use tilewright::family::tenstorrent::mesh;
use tilewright::family::{Family, Placement, Tensor};
use tilewright::{DType, Error, Layout, Options, Plan};

use thread_time::thread_time;

/// After so much processor time a layout and its plans count as hanging. A hundredth of it is usual; it is no measure of
/// speed, and an unoptimised build has been seen to need a tenth.
const LIMIT: Duration = Duration::from_secs(30);

/// Sizes, strides and divisors at the edges of everything.
const NUMBERS: [u64; 26] = [
    1,
    0,
    2,
    3,
    7,
    16,
    31,
    32,
    33,
    64,
    100,
    1000,
    4096,
    65_521,
    65_536,
    1_000_003,
    0x7FFF_FFFF,
    1 << 31,
    1 << 32,
    1 << 40,
    999_999_999_989,
    1 << 53,
    (1 << 60) - 1,
    1 << 60,
    1 << 62,
    i64::MAX as u64,
];

/// Texts and shapes with letters for numbers.
const TEMPLATES: [(&str, &str); 38] = [
    (
        "#ttnn.memory_config<#l1, <height_sharded>, #ttnn.shard_spec<<[#ttnn.core_range<(A, B), (C, D)>]>, <ExF>, <col_major>>>",
        "G H",
    ),
    (
        "#ttnn.memory_config<#l1, <block_sharded>, ndShardSpec = <<[#ttnn.core_range<(0, 0), (A, B)>]>, <CxDxE>, <row_major>, <round_robin_1d>>>",
        "F G H",
    ),
    (
        "#ttnn.ttnn_layout<(d0, d1) -> (d0 * A + d1, d1), <BxC>, memref<DxEx!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<l1>>, <block_sharded>>",
        "F G",
    ),
    (
        "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <AxB>, memref<1xCxf32, #ttnn.buffer_type<l1>>, <interleaved>, core_ranges = <[#ttnn.core_range<(D, E), (F, G)>]>>",
        "H I",
    ),
    (
        "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <AxB, (d0, d1) -> (d1 * C, d0)>, memref<DxEx!ttcore.tile<32x32, bfp_bf8>, #l1>, <height_sharded>>",
        "F G",
    ),
    (
        "#ttnn.ttnn_nd_layout<<AxB>, memref<CxDxExf32, #l1>, <block_sharded>, <col_major>, <round_robin_1d>>",
        "F G H",
    ),
    ("memref<AxBxCxDx!ttcore.tile<32x32, f32>, #ttcore.shard<ExF, G>, #ttcore.memory_space<l1>>", "H I"),
    ("memref<AxBxCxDxf32, #ttcore.view<(d0, d1, d2, d3) -> (d1 * E, d0 + F, d3 mod G, d2)>, #l1>", "H I"),
    ("memref<AxBxf32, #ttcore.host_layout<logical_shape = AxB, host_strides = CxD, host_volume = E>>", "A B"),
    ("memref<AxBxf32, strided<[C, D], offset: E>, #l1>", "A B"),
    (
        "tensor<AxBxCxDxf32, #ttcore.metal_layout<logical_shape = ExF, dim_alignments = GxH, collapsed_intervals = dense<> : tensor<0x2xi64>, dram, interleaved, index_map = (d0, d1, d2, d3) -> (d1, d0, d2 floordiv I, d3)>>",
        "E F",
    ),
    ("memref<AxBxf32>", "A B"),
    ("memref<AxBxCxf32, strided<[D, E, F], offset: G>>", "A B C"),
    ("memref<AxBxf32, strided<[-C, D], offset: E>>", "A B"),
    ("metal(shape=(A, B, C), collapse=[(0, -1)], grid=(D, E), dtype=f32, oob=undef, memory=l1)", "A B C"),
    ("metal(shape=(A, B), collapse=[], grid=(C, D), tile=(32, 32), dtype=f32, oob=one, memory=l1)", "A B"),
    (
        "metal(shape=(A, B, C), collapse=[(0, -1)], grid=(D, E), tile=(1, 16), dtype=bfp_bf8, oob=inf, memory=l1)",
        "A B C",
    ),
    (
        "#ttcore.metal_layout<(d0, d1) -> (d0 * C + d1 * D + E), undef, <F>, memref<GxHxf32, #ttcore.memory_space<l1>>>",
        "A B",
    ),
    (
        "#ttcore.metal_layout<(d0, d1) -> (d0 * C + d1 * D), undef, <F>, memref<Gxf32, #ttcore.memory_space<l1>>>",
        "A B",
    ),
    (
        "#ttcore.metal_layout<(d0, d1) -> (d0 floordiv C, d0 mod C, d1), undef, <DxExF>, memref<GxHxIxf32, #ttcore.memory_space<l1>>>",
        "A B",
    ),
    (
        "#ttcore.metal_layout<(d0, d1) -> (d1 mod C + d0 * D, d1 ceildiv E), undef, <FxG>, memref<HxIx!ttcore.tile<32x32, bfp_bf4>, #ttcore.memory_space<l1>>>",
        "A B",
    ),
    (
        "tensor<AxBxCxDx!ttcore.tile<32x32, bf16>, #ttcore.metal_layout<logical_shape = ExF, dim_alignments = GxH, collapsed_intervals = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>, l1, sharded>>",
        "E F",
    ),
    ("ttnn(dtype=float32, layout=ROW_MAJOR)", "A B C"),
    ("ttnn(dtype=bfloat8_b, layout=TILE)", "A B C"),
    ("ttnn(dtype=float32, layout=TILE, tile=(1, 16))", "A B C D E"),
    ("ttnn(dtype=float32, layout=TILE, memory=INTERLEAVED, banks=A, alignment=B)", "C D"),
    ("ttnn(dtype=bfloat4_b, layout=TILE, tile=(16, 32), memory=INTERLEAVED, banks=A, alignment=B)", "C D E"),
    ("ttnn(dtype=float32, layout=ROW_MAJOR, memory=INTERLEAVED, banks=A, alignment=B)", "C D"),
    ("ttnn(dtype=float32, layout=ROW_MAJOR, memory=HEIGHT_SHARDED, grid=(A, B), shard=(C, D))", "E D"),
    (
        "ttnn(dtype=float32, layout=TILE, memory=WIDTH_SHARDED, grid=(A, B), shard=(C, D), orientation=COL_MAJOR)",
        "C E",
    ),
    ("ttnn(dtype=bfloat8_b, layout=TILE, memory=BLOCK_SHARDED, grid=(A, B), shard=(C, D))", "E F"),
    (
        "ttnn(dtype=float32, layout=ROW_MAJOR, memory=ND_SHARDED, grid=(A, B), shard=(C, D, E), orientation=COL_MAJOR)",
        "F G H",
    ),
    ("SpyreTensorLayout((A, B, C), torch.float32)", "A B C"),
    ("SpyreTensorLayout((A, B, C), torch.float32, [2, 0, 1, -1])", "A B C"),
    (
        "SpyreTensorLayout(device_size=[A, B, C, 32], stride_map=[D, E, F, 1], device_dtype=DataFormats.IEEE_FP32)",
        "G H",
    ),
    (
        "SpyreTensorLayout(device_size=[A, B, C, 32], stride_map=[0, -1, D, 1], device_dtype=DataFormats.IEEE_FP32)",
        "E",
    ),
    (
        "SpyreTensorLayout(device_size=[A, B, C, 32], dim_map=[1, 0, 1, 1], device_dtype=DataFormats.IEEE_FP32)",
        "D E",
    ),
    ("((A, B, C), (D, E, F), (G, H, 1))", "A B C"),
];

/// The same for texts of several cores, banks and weights.
const CORES: [(&str, &str); 10] = [
    ("ttnn(dtype=int8, layout=TILE, memory=INTERLEAVED, banks=3, alignment=A, bank_order=[2, 0, 1])", "C D"),
    (
        "ttnn(dtype=float32, layout=ROW_MAJOR, memory=INTERLEAVED, banks=A, alignment=B, bank_order=[C])",
        "C D",
    ),
    (
        "ttnn(dtype=float32, layout=ROW_MAJOR, memory=ND_SHARDED, grid=(A, B), shard=(C, D), strategy=CONTIGUOUS_1D)",
        "E F G",
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory=ND_SHARDED, grid=(A, B), shard=(C, D), strategy=CONTIGUOUS_1D, orientation=COL_MAJOR)",
        "E F",
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory=ND_SHARDED, grid=(A, B), shard=(C, D), strategy=GRID_2D)",
        "E F",
    ),
    (
        "ttnn(dtype=float32, layout=ROW_MAJOR, memory=HEIGHT_SHARDED, grid={[A-B - C-D], [E-F - G-H]}, shard=(1, 32))",
        "I 32",
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory_config=MemoryConfig(memory_layout=WIDTH_SHARDED, shard_spec=ShardSpec{grid={[A-B - C-D]}, shape=[E, F], orientation=COL_MAJOR}))",
        "G H",
    ),
    ("SpyreTensorLayout([A, B], [C, D], torch.float32, [1, 0])", "A B"),
    ("SpyreTensorLayout([A, B], torch.float8_e4m3fn, element_arrangement=QFP8WT)", "A B"),
    ("SpyreTensorLayout(device_size=[A, B, 128], stride_map=[C, D, 1], element_arrangement=QFP8WT)", "E F"),
];

fn fill_in(template: &str, numbers: &[u64]) -> String {
    // A letter that stands for a number stands alone, or around the `x` of a shape.
    let mut out = String::new();
    let chars: Vec<char> = template.chars().collect();
    for (i, &c) in chars.iter().enumerate() {
        let part_of_word =
            |c: Option<&char>| c.is_some_and(|c| c.is_ascii_alphanumeric() && *c != 'x' || *c == '_');
        let alone =
            !part_of_word(i.checked_sub(1).and_then(|i| chars.get(i))) && !part_of_word(chars.get(i + 1));
        match c {
            'A'..='I' if alone => out.push_str(&numbers[c as usize - 'A' as usize].to_string()),
            c => out.push(c),
        }
    }
    out
}

/// Makes the layout, its plans from and to the host, and looks at a few places. Whether there was a layout.
fn survive(text: &str, shape: &[u64], dtype: DType, mapper: Option<&mesh::Mapper>) -> bool {
    let begin = thread_time();
    let found = go(text, shape, dtype, mapper);
    let took = thread_time() - begin;
    if std::env::var_os("TILEWRIGHT_SLOWEST").is_some() && took > Duration::from_millis(10) {
        println!("{took:?} {text} {shape:?}");
    }
    assert!(took < LIMIT, "{took:?} for {text} of {shape:?}");
    found
}

fn go(text: &str, shape: &[u64], dtype: DType, mapper: Option<&mesh::Mapper>) -> bool {
    let tensor = Tensor { shape: shape.to_vec(), dtype };
    let placement = Placement { mesh: mapper, ..Placement::default() };
    let Ok(mut descriptor) = text.parse::<Descriptor>() else { return false };
    let mut layout = descriptor.layout(&tensor, &placement);
    if let (Err(Error::Derived { derived, .. }), Descriptor::Metal(metal)) = (&layout, &mut descriptor) {
        // Go on with the shard that follows.
        metal.shard = derived.split('x').map(|n| n.parse().unwrap()).collect();
        layout = descriptor.layout(&tensor, &placement);
    }
    let Ok(layout) = layout else { return false };
    if let Err(e @ Error::Unverified { .. }) = inspect(&layout) {
        panic!("{e}\n{text} of {shape:?}");
    }
    true
}

/// Looks at a few places, and compiles plans from and to the host. The first error that is not a refusal counts.
fn inspect(layout: &Layout) -> Result<(), Error> {
    let tensor = Tensor { shape: layout.shape().to_vec(), dtype: DType::F32 };
    let _ = (layout.padding_elements(), layout.copies());
    if layout.buffer_bytes() > 0 {
        let last = (layout.buffers() - 1, layout.buffer_bytes() - 1);
        for (buffer, byte) in [(0, 0), last, (0, layout.buffer_bytes() / 2)] {
            let _ = layout.owner(buffer, byte);
        }
    }
    if layout.elements() > 0 && layout.copies() <= 1000 {
        let last: Vec<u64> = layout.shape().iter().map(|n| n - 1).collect();
        layout.locate(&last)?;
    }
    let dense = Memref::of(&tensor);
    let host = dense.to_layout(&tensor, &Placement::default())?;
    for (from, to) in [(&host, layout), (layout, &host), (layout, layout)] {
        if let Err(e @ Error::Unverified { .. }) = Plan::compile(from, to, &Options::default()) {
            return Err(e);
        }
    }
    Ok(())
}

#[test]
fn templates_of_plain_numbers_are_layouts() {
    // So that the tests below reach the core at all.
    let numbers = [64, 32, 32, 32, 64, 32, 32, 32, 32];
    let made = TEMPLATES.iter().filter(|(text, shape)| {
        let shape: Vec<u64> = fill_in(shape, &numbers).split(' ').map(|n| n.parse().unwrap()).collect();
        survive(&fill_in(text, &numbers), &shape, DType::F32, None)
    });
    assert!(made.count() >= 12);
}

/// Shapes and texts that each make much of little.
#[test]
fn chosen_cases_end_soon() {
    let ones: Vec<u64> = vec![1; 64];
    let twos: Vec<u64> = [vec![2; 58], vec![1; 6]].concat();
    let all = |n: usize| (0..n).map(|d| format!("d{d}")).collect::<Vec<_>>().join(", ");
    let cases: &[(&str, &[u64])] = &[
        ("ttnn(dtype=bfloat8_b, layout=TILE)", &ones),
        ("ttnn(dtype=bfloat8_b, layout=TILE)", &twos),
        ("ttnn(dtype=float32, layout=TILE, tile=(1, 16))", &twos),
        ("ttnn(dtype=float32, layout=TILE, memory=INTERLEAVED, banks=7, alignment=1)", &twos),
        ("ttnn(dtype=float32, layout=TILE, memory=INTERLEAVED, banks=12, alignment=64)", &[1 << 28, 1 << 28]),
        ("ttnn(dtype=float32, layout=ROW_MAJOR, memory=INTERLEAVED, banks=12, alignment=64)", &[1 << 40, 3]),
        (
            "ttnn(dtype=bfloat4_b, layout=TILE, memory=INTERLEAVED, banks=1000003, alignment=1)",
            &[1 << 31, 77],
        ),
        (
            "ttnn(dtype=float32, layout=ROW_MAJOR, memory=HEIGHT_SHARDED, grid=(1073741824, 1073741824), shard=(1, 3), orientation=COL_MAJOR)",
            &[1 << 40, 3],
        ),
        (
            "metal(shape=(999999999989, 999983), collapse=[], grid=(65521, 65537), tile=(32, 32), dtype=bfp_bf8, oob=undef, memory=l1)",
            &[999_999_999_989, 999_983],
        ),
        (
            "metal(shape=(1000003, 1009, 1013), collapse=[(0, -1)], grid=(1021, 1031), tile=(32, 16), dtype=bf16, oob=undef, memory=l1)",
            &[1_000_003, 1009, 1013],
        ),
        ("SpyreTensorLayout((2147483648, 3, 1000003), torch.float32, [2, 0, 1])", &[1 << 31, 3, 1_000_003]),
        // Steps that share no period.
        (
            "#ttcore.metal_layout<(d0, d1) -> (d0 * 1000003 + d1 * 999983), undef, <65521>, memref<1xf32, #ttcore.memory_space<l1>>>",
            &[999_983, 1_000_003],
        ),
        (
            "#ttcore.metal_layout<(d0, d1, d2) -> (d0 * 1927 + d1 * 17 + d2 * 120), undef, <2>, memref<1xf32, #ttcore.memory_space<l1>>>",
            &[50, 7, 16],
        ),
        ("memref<4096x4096xf32, strided<[4097, 4095], offset: 0>>", &[4096, 4096]),
        ("memref<1000x1000x1000xf32, strided<[3, 3001, 3000001], offset: 0>>", &[1000, 1000, 1000]),
        (
            "SpyreTensorLayout(device_size=[7, 1000, 3, 5, 11, 32], stride_map=[1000000, 1009, 331, 67, 33, 1], device_dtype=DataFormats.IEEE_FP32)",
            &[6_000_000],
        ),
    ];
    for (text, shape) in cases {
        survive(text, shape, DType::F32, None);
    }
    // A map of 64 dimensions, all in one result.
    let sum = (0..64).map(|d| format!("d{d} * {}", d % 7 + 1)).collect::<Vec<_>>().join(" + ");
    let text = format!(
        "#ttcore.metal_layout<({}) -> ({sum}), undef, <3>, memref<1xf32, #ttcore.memory_space<l1>>>",
        all(64)
    );
    for shape in [&ones, &twos] {
        survive(&text, shape, DType::F32, None);
    }
    // A long chain of divisions.
    let chain = (0..5000).fold("d0".to_string(), |e, k| format!("{e} floordiv {}", 1 + k % 2));
    let text = format!(
        "#ttcore.metal_layout<(d0) -> ({chain}), undef, <3>, memref<1xf32, #ttcore.memory_space<l1>>>"
    );
    survive(&text, &[1 << 40], DType::F32, None);
    survive(&text, &[1 << 10], DType::F32, None);
}

/// Numbers whose products passed 63 bits between two checks.
#[test]
fn steps_that_overflow_are_refused() {
    let numbers = [188, 140, 1000, 0x7FFF_FFFF, 64, 216, 5, 1, 1];
    for &template in TEMPLATES.iter().chain(&CORES) {
        for (devices, meshed) in [(1, false), (3, true), (0x7FFF_FFFF, true)] {
            survive_numbers(template, &numbers, devices, meshed);
        }
    }
}

/// Nine numbers: at the edges of everything, usual, and any.
fn nine() -> impl Strategy<Value = Vec<u64>> {
    let number = prop_oneof![
        prop::sample::select(NUMBERS.to_vec()),
        1_u64..300,
        any::<u64>().prop_map(|x| x >> (x % 64)),
    ];
    prop::collection::vec(number, 9)
}

/// A template with these numbers, on a mesh of so many devices if it is `meshed`.
fn survive_numbers((text, shape): (&str, &str), numbers: &[u64], devices: u64, meshed: bool) {
    let shape: Vec<u64> = fill_in(shape, numbers).split(' ').map(|n| n.parse().unwrap()).collect();
    let mapper = mesh::Mapper::shard(vec![1, devices], 0);
    survive(&fill_in(text, numbers), &shape, DType::F32, meshed.then_some(&mapper));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_numbers_end_soon(
        template in 0..TEMPLATES.len(),
        numbers in nine(),
        devices in prop::sample::select(NUMBERS.to_vec()),
        meshed in 0..6_u8,
    ) {
        survive_numbers(TEMPLATES[template], &numbers, devices, meshed == 0);
    }

    #[test]
    fn any_numbers_of_cores_end_soon(
        template in 0..CORES.len(),
        numbers in nine(),
        devices in prop::sample::select(NUMBERS.to_vec()),
        meshed in 0..6_u8,
    ) {
        survive_numbers(CORES[template], &numbers, devices, meshed == 0);
    }
}
