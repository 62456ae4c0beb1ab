//! Plans of real tensors stay small: few nests, whatever the size of the tensor.

mod counting;
#[path = "common/thread_time.rs"]
mod thread_time;

use counting::allocations;
use tilewright::family::Descriptor;
use tilewright::family::host::strided::Memref;
use tilewright::family::tenstorrent::mesh::Mapper;
use tilewright::family::{Family, Placement, Tensor};
use tilewright::{DType, Error, Options, Plan};

use thread_time::thread_time;

#[test]
fn large_weights_are_few_nests() {
    let mapper = Mapper::shard_2d([4, 8], [Some(0), Some(1)]);
    let shapes: [&[u64]; 4] = [&[131_072, 8192], &[128_256, 8192], &[50_257, 1600], &[3, 1027, 4099]];
    for shape in shapes {
        for mapper in [None, Some(&mapper)] {
            let cut = |n: u64, by: u64| if mapper.is_some() { n.div_ceil(by) } else { n };
            let local: Vec<u64> = shape.iter().zip([4, 8, 1]).map(|(&n, by)| cut(n, by)).collect();
            if mapper.is_some() && shape.iter().zip([4, 8]).any(|(n, by)| n % by != 0) {
                continue;
            }
            let dims = local.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            let texts = [
                format!("metal(shape=({dims}), collapse=[(0, -1)], grid=(8, 8), tile=(32, 32), dtype=bf16, oob=undef, memory=l1)"),
                format!("metal(shape=({dims}), collapse=[(0, -1)], grid=(8, 7), tile=(32, 32), dtype=bfp_bf8, oob=undef, memory=l1)"),
                "ttnn(dtype=bfloat16, layout=TILE)".into(),
                "ttnn(dtype=bfloat8_b, layout=TILE)".into(),
                "ttnn(dtype=bfloat4_b, layout=TILE, memory=INTERLEAVED, banks=12, alignment=64)".into(),
                "ttnn(dtype=bfloat16, layout=TILE, tile=(16, 32), transpose_tile=True)".into(),
                "ttnn(dtype=bfloat16, layout=ROW_MAJOR, memory=INTERLEAVED, banks=12, alignment=64)".into(),
                "ttnn(dtype=bfloat8_b, layout=TILE, memory=ND_SHARDED, grid=(8, 8), shard=(1024, 1024), orientation=COL_MAJOR)".into(),
                format!("SpyreTensorLayout(({dims}), torch.bfloat16)"),
            ];
            let tensor = Tensor { shape: shape.to_vec(), dtype: DType::Bf16 };
            let memref = Memref::new(shape, DType::Bf16);
            let host = memref.to_layout(&tensor, &Placement::default()).unwrap();
            for text in texts {
                let placement = Placement { mesh: mapper, ..Placement::default() };
                let layout = text.parse::<Descriptor>().unwrap().layout(&tensor, &placement).unwrap();
                for (from, to) in [(&host, &layout), (&layout, &host)] {
                    let plan = Plan::compile(from, to, &Options::default()).unwrap();
                    assert!(plan.nests() <= 300, "{} nests for {text} of {shape:?}", plan.nests());
                }
            }
        }
    }
}

/// Plans whose nests interleave over very many cores, or without a common period: each is compiled, and soon.
#[test]
fn many_cores_and_ragged_shards_are_proved_in_linear_time() {
    let tensor = Tensor { shape: vec![1, 1], dtype: DType::Bf16 };
    let memref = Memref::of(&tensor);
    let host = memref.to_layout(&tensor, &Placement::default()).unwrap();
    let metal = |cores: u64| {
        format!(
            "#ttcore.metal_layout<(d0, d1) -> (d0, d1), undef, <2x{cores}>, \
             memref<1x1x!ttcore.tile<32 x 32, bf16>, #ttcore.memory_space<l1>>>"
        )
    };
    let ttnn = "ttnn(dtype=bfloat16, layout=TILE, memory=BLOCK_SHARDED, grid=(1, 1), shard=(32, 33554432))";
    for text in [metal(32_768), metal(65_536), metal(1 << 30), ttnn.into()] {
        let layout = text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
        let begin = thread_time();
        for (from, to) in [(&host, &layout), (&layout, &host)] {
            let plan = Plan::compile(from, to, &Options::default()).unwrap();
            assert!(plan.nests() < 100, "{plan}");
        }
        // It takes well under a millisecond; a quadratic proof took 38 seconds for 2x65536.
        let took = thread_time() - begin;
        assert!(took.as_secs() < 5, "{took:?} for {text}");
    }
}

/// Nests that interleave without a common period.
#[test]
fn shards_of_odd_sizes_are_proved_run_by_run() {
    let tensor = Tensor { shape: vec![500, 20_079, 31], dtype: DType::F32 };
    let layout =
        |text: &str| text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
    let from = layout(
        "metal(shape=(500, 20079, 31), collapse=[(0, -1)], grid=(4, 2), tile=(32, 32), dtype=bfp_bf8, oob=undef, \
         memory=l1)",
    );
    let to = layout("SpyreTensorLayout((500, 20079, 31), torch.float32)");
    Plan::compile(&from, &to, &Options::default()).unwrap();
}

/// Shards that end inside of tiles: what a plan costs follows its nests, not its elements. Allocations are counted
/// instead of time, for they are the same on every machine; this pair once took 16 seconds.
#[test]
fn shards_that_end_anywhere_are_planned_by_runs() {
    let tensor = Tensor { shape: vec![4096, 4096, 100], dtype: DType::F32 };
    let layout =
        |text: &str| text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
    let tiles = layout("ttnn(dtype=bfloat4_b, layout=TILE, memory=INTERLEAVED, banks=12, alignment=64)");
    for rows in [1_706_032, 1_706_031, 170_603] {
        let text = format!(
            "ttnn(dtype=float32, layout=ROW_MAJOR, memory=ND_SHARDED, grid=(64, 64), shard=({rows}, 32))"
        );
        let shards = layout(&text);
        for (from, to) in [(&tiles, &shards), (&shards, &tiles)] {
            let mut plan = None;
            let steps = allocations(|| plan = Some(Plan::compile(from, to, &Options::default()).unwrap()));
            let plan = plan.unwrap();
            println!(
                "{rows} rows: {} nests, {steps} allocations, {}",
                plan.nests(),
                plan.to_string().lines().next().unwrap()
            );
            assert!(plan.nests() <= 300, "{} nests for {rows} rows", plan.nests());
            // A nest's proof has at most 4096 parts; the tensor has 1.7 billion elements.
            assert!(steps <= 10_000 * plan.nests() as u64, "{steps} allocations for {} nests", plan.nests());
        }
    }
}

/// Batches whose rows begin anywhere in a tile, and whose tiles share no period: each tile is its own nest, which is too
/// many. That is certain after as many regions as a plan may have nests; it once took sixteen times as many.
#[test]
fn what_is_too_complex_is_refused_as_soon_as_that_is_certain() {
    let tensor = Tensor { shape: vec![44, 835_971, 3808], dtype: DType::Bf16 };
    let layout =
        |text: &str| text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
    let from = layout(
        "ttnn(dtype=bfloat8_b, layout=TILE, memory=ND_SHARDED, grid=(1, 90), shard=(2, 64, 96), \
         orientation=COL_MAJOR)",
    );
    let to = layout(
        "metal(shape=(44, 835971, 3808), collapse=[(0, -1)], grid=(1, 90), tile=(32, 32), dtype=bfp_bf8, oob=one, \
         memory=l1)",
    );
    let mut plan = None;
    let steps = allocations(|| plan = Some(Plan::compile(&from, &to, &Options::default())));
    assert!(matches!(plan, Some(Err(Error::TooComplex { .. }))), "{plan:?}");
    println!("refused after {steps} allocations");
    assert!(steps <= 8 << 18, "{steps} allocations");
}

/// Runs of slots through several rows of a tile: the proof of a nest takes them row by row. It once halved other loops
/// instead, and looked at 240 parts of each of these nests.
#[test]
fn parts_of_several_rows_of_a_tile_are_proved_row_by_row() {
    let tensor = Tensor { shape: vec![6, 1237, 1241], dtype: DType::Bf16 };
    let layout =
        |text: &str| text.parse::<Descriptor>().unwrap().layout(&tensor, &Placement::default()).unwrap();
    let from = layout(
        "ttnn(dtype=bfloat8_b, layout=TILE, memory=ND_SHARDED, grid=(3, 1), shard=(2, 64, 96), \
         orientation=COL_MAJOR)",
    );
    let to = layout(
        "metal(shape=(6, 1237, 1241), collapse=[(0, -1)], grid=(3, 1), tile=(32, 32), dtype=bfp_bf8, oob=one, memory=l1)",
    );
    let mut plan = None;
    let steps = allocations(|| plan = Some(Plan::compile(&from, &to, &Options::default()).unwrap()));
    let nests = plan.unwrap().nests();
    println!("{nests} nests, {steps} allocations");
    assert!(steps <= 150 * nests as u64, "{steps} allocations for {nests} nests");
}
