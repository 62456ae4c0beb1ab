//! What the compiler's texts describe lies where other texts of the same tensor say.

use tilewright::family::tenstorrent::device::Device;
use tilewright::{DType, Descriptor, Layout, Placement, Tensor};

const DEVICE: &str = "#ttcore.device<workerGrid = #ttcore.grid<8x8>, dramGrid = #ttcore.grid<1x12>, meshShape = , chipIds = [0]>";

/// The layout of a text that says its tensor.
fn layout(text: &str, device: Option<&Device>, lenient: bool) -> Layout {
    let descriptor: Descriptor =
        text.parse().unwrap_or_else(|e: tilewright::Error| panic!("{}", e.diagnostic()));
    let tensor = descriptor.tensor().expect("a text that says its tensor");
    let placement = Placement { device, lenient, ..Placement::default() };
    descriptor.layout(&tensor, &placement).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

/// Every index of a shape.
fn indices(shape: &[u64]) -> impl Iterator<Item = Vec<u64>> + '_ {
    (0..shape.iter().product::<u64>()).map(|mut n| {
        let mut index: Vec<u64> = shape.iter().rev().map(|&size| (n % size, n /= size).0).collect();
        index.reverse();
        index
    })
}

fn assert_same(a: &Layout, b: &Layout, what: &str) {
    assert_eq!((a.buffers(), a.buffer_bytes()), (b.buffers(), b.buffer_bytes()), "{what}");
    for index in indices(a.shape()) {
        assert_eq!(a.locate(&index).unwrap(), b.locate(&index).unwrap(), "{what}: {index:?}");
    }
}

/// A `ttnn_layout` of two dimensions.
fn ttnn(shape: &str, grid: &str, memref: &str, memory: &str, how: &str) -> String {
    format!(
        "tensor<{shape}xbf16, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <{grid}>, memref<{memref}, #ttnn.buffer_type<{memory}>>{how}>>"
    )
}

#[test]
fn ttnn_layouts_lie_as_the_tensors_of_the_runtime() {
    let tile = "x!ttcore.tile<32x32, bf16>";
    let device: Device = DEVICE.parse().unwrap();
    let cases = [
        ("1x1", "2x3", "system_memory", "", false, "layout=TILE"),
        ("1x1", "2x3", "dram", ", <interleaved>", false, "layout=TILE"),
        (
            "1x1",
            "2x3",
            "dram",
            ", <interleaved>",
            true,
            "layout=TILE, memory=INTERLEAVED, banks=12, alignment=32",
        ),
        (
            "2x2",
            "1x2",
            "l1",
            ", <interleaved>",
            false,
            "layout=TILE, memory=INTERLEAVED, banks=4, alignment=32",
        ),
        (
            "2x3",
            "1x1",
            "l1",
            ", <block_sharded>",
            false,
            "layout=TILE, memory=BLOCK_SHARDED, grid=(2, 3), shard=(32, 32)",
        ),
        (
            "1x2",
            "1x3",
            "l1",
            ", <height_sharded>",
            false,
            "layout=TILE, memory=HEIGHT_SHARDED, grid=(1, 2), shard=(32, 96)",
        ),
        (
            "3x1",
            "2x1",
            "l1",
            ", <width_sharded>",
            false,
            "layout=TILE, memory=WIDTH_SHARDED, grid=(1, 3), shard=(64, 32)",
        ),
    ];
    for (grid, memref, memory, how, banks, runtime) in cases {
        let text = ttnn("33x70", grid, &format!("{memref}{tile}"), memory, how);
        let given = layout(&text, banks.then_some(&device), false);
        let runtime: Descriptor = format!("ttnn(dtype=bfloat16, {runtime})").parse().unwrap();
        let tensor = Tensor::new([33, 70], DType::Bf16);
        let needed = runtime.layout(&tensor, &Placement::default()).unwrap();
        assert_same(&given, &needed, &text);
    }
}

#[test]
fn core_ranges_say_in_which_order_buffers_are_listed() {
    let how = |ranges: &str| format!(", <height_sharded>, core_ranges = <[{ranges}]>");
    let text = |how: &str| ttnn("96x32", "3x1", "1x1x!ttcore.tile<32x32, bf16>", "l1", how);
    let buffer = |layout: &Layout, row: u64| layout.locate(&[row, 0]).unwrap()[0].buffer;
    let rows = layout(&text(&how("#ttnn.core_range<(0, 0), (2, 0)>")), None, false);
    assert_eq!([0, 32, 64].map(|row| buffer(&rows, row)), [0, 1, 2]);
    // The first two shards are on the second row of cores.
    let two = "#ttnn.core_range<(0, 1), (1, 1)>, #ttnn.core_range<(5, 0), (5, 0)>";
    let later = layout(&text(&how(two)), None, false);
    assert_eq!([0, 32, 64].map(|row| buffer(&later, row)), [1, 2, 0]);
    // Fewer cores than shards say nothing.
    let few = layout(&text(&how("#ttnn.core_range<(0, 1), (1, 1)>")), None, false);
    assert_eq!([0, 32, 64].map(|row| buffer(&few, row)), [0, 1, 2]);
}

#[test]
fn a_written_memref_is_what_is_meant_where_that_is_asked_for() {
    let text = ttnn("33x70", "1x1", "4x4x!ttcore.tile<32x32, bf16>", "dram", ", <interleaved>");
    let four = layout(&text, None, true);
    assert_eq!(
        (four.geometry().physical_shape.as_slice(), four.total_bytes()),
        (&[128, 128][..], 128 * 128 * 2)
    );
    // Row 32 begins the second row of four tiles.
    assert_eq!(four.locate(&[32, 0]).unwrap()[0].byte, 4 * 2048);
}

#[test]
fn buffers_and_tensors_of_metal_lie_alike() {
    let tensor = |rest: &str| {
        format!(
            "tensor<2x2x1x2x!ttcore.tile<32x32, f32>, #ttcore.metal_layout<logical_shape = 64x128, dim_alignments = 32x32, collapsed_intervals = dense<> : tensor<0x2xi64>, {rest}>>"
        )
    };
    let buffer = |of: &str| format!("memref<2x2x1x2x!ttcore.tile<32x32, f32>, {of}>");
    let device: Device = DEVICE.parse().unwrap();
    for device in [None, Some(&device)] {
        let sharded = layout(&tensor("l1, sharded"), device, false);
        let shard = buffer("#ttcore.shard<8192x4096, 1>, #ttcore.memory_space<l1>");
        assert_same(&sharded, &layout(&shard, device, false), &shard);
        let pages = layout(&tensor("dram, interleaved"), device, false);
        let interleaved = buffer("#ttcore.interleaved<8192x4096>, #ttcore.memory_space<dram>");
        assert_same(&pages, &layout(&interleaved, device, false), &interleaved);
        assert_eq!(pages.buffers(), if device.is_some() { 12 } else { 1 });
        // Eight tiles: those of one shard after those of another, each in the next bank.
        let at = |row, column| pages.locate(&[row, column]).unwrap()[0];
        if device.is_some() {
            let banks = [at(0, 0), at(0, 32), at(0, 64), at(32, 0), at(32, 96)].map(|place| place.buffer);
            assert_eq!(banks, [0, 1, 2, 4, 7]);
        }
    }
    // Two buffers on each core, of which the first holds the shard.
    let twice = layout(&buffer("#ttcore.shard<8192x4096, 2>, #ttcore.memory_space<l1>"), None, false);
    assert_eq!((twice.buffers(), twice.buffer_bytes()), (4, 2 * 8192));
}

#[test]
fn a_view_says_where_the_elements_behind_it_lie() {
    let text = |map: &str| format!("memref<1x2x3x2xf32, #ttcore.view<{map}>, #ttcore.memory_space<l1>>");
    let plain = layout(&text("4"), None, false);
    let same = layout(&text("(d0, d1, d2, d3) -> (d0 + d2 floordiv 3, d1, d2 mod 3, d3)"), None, false);
    assert_same(&plain, &same, "an identity in other words");
    // Grid and shard exchanged: 2x1 cores with shards of 2x3.
    let exchanged = layout(&text("(d0, d1, d2, d3) -> (d1, d0, d3, d2)"), None, false);
    for index in indices(&[3, 4]) {
        let (row, column) = (index[0], index[1]);
        let place = exchanged.locate(&index).unwrap()[0];
        let shard = column / 2;
        assert_eq!((place.buffer, place.byte), (shard, 4 * ((column % 2) * 3 + row)), "{index:?}");
    }
    let tiles =
        "memref<1x1x1x2x!ttcore.tile<32x32, f32>, #ttcore.view<(d0, d1, d2, d3) -> (d0, d1, d3, d2)>, #l1>";
    let tiles = layout(tiles, None, false);
    // Tiles change places, and what is inside of them does not.
    assert_eq!(tiles.locate(&[1, 33]).unwrap()[0].byte, 4096 + 4 * (16 + 1));
}

#[test]
fn memory_configs_of_all_dates() {
    let tensor = Tensor::new([2, 33, 70], DType::Bf16);
    let cores = "#ttnn.core_range_set<[#ttnn.core_range<(0, 0), (2, 1)>]>";
    let cases = [
        ("#ttnn.memory_config<#dram, <interleaved>>".to_owned(), "layout=TILE"),
        ("#ttnn.memory_config<#ttnn.buffer_type<dram>, <interleaved>>".into(), "layout=TILE"),
        ("#ttnn.memory_config<<interleaved>, <dram>, <<1x1>>>".into(), "layout=TILE"),
        (
            format!(
                "#ttnn.memory_config<#l1, <block_sharded>, #ttnn.shard_spec<{cores}, <64x32>, <row_major>, <physical>>>"
            ),
            "layout=TILE, memory=BLOCK_SHARDED, grid=(2, 3), shard=(64, 32)",
        ),
        (
            format!(
                "#ttnn.memory_config<#l1, <height_sharded>, #ttnn.shard_spec<{cores}, <32x96>, <col_major>>>"
            ),
            "layout=TILE, memory=HEIGHT_SHARDED, grid=(2, 3), shard=(32, 96), orientation=COL_MAJOR",
        ),
        (
            format!(
                "#ttnn.memory_config<#l1, <block_sharded>, ndShardSpec = <{cores}, <1x32x32>, <row_major>, <round_robin_1d>>>"
            ),
            "layout=TILE, memory=ND_SHARDED, grid=(2, 3), shard=(1, 32, 32)",
        ),
    ];
    for (text, runtime) in cases {
        let config: Descriptor =
            text.parse().unwrap_or_else(|e: tilewright::Error| panic!("{}", e.diagnostic()));
        assert_eq!(config.to_string().parse(), Ok(config.clone()), "{text}");
        let given = config.layout(&tensor, &Placement::default()).unwrap_or_else(|e| panic!("{text}: {e}"));
        let runtime: Descriptor = format!("ttnn(dtype=bfloat16, {runtime})").parse().unwrap();
        assert_same(&given, &runtime.layout(&tensor, &Placement::default()).unwrap(), &text);
    }
    let open: Descriptor = "#ttnn.memory_config<#l1, <block_sharded>>".parse().unwrap();
    let said = open.layout(&tensor, &Placement::default()).unwrap_err().to_string();
    assert_eq!(said, "shard_spec: given none, needed one: without it the runtime chooses the shards");
}
