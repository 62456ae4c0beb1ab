//! Texts of tt-mlir that are wrong, and what is said of each: what is wrong, what was expected, and where.
//!
//! Messages are compared as a whole, since each is all that a person gets who pasted what was on the screen.

use tilewright::family::tenstorrent::device::Device;
use tilewright::text::parse;
use tilewright::{Error, Placement, Result};

/// Each text, the sentence that refuses it, and the part of the text that it is about; none where the whole is.
#[rustfmt::skip]
const WRONG: [(&str, &str, &str); 72] = [
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x3x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>>>",
        "memref shape: the text says 2x3, but 2x4 follows from the collapsed tensor 64x128, interleaved on the grid 1x1, tiles 32x32",
        "",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<4x2x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>>>",
        "memref shape: the text says 4x2, but 2x4 follows from the collapsed tensor 64x128, interleaved on the grid 1x1, tiles 32x32",
        "",
    ),
    (
        "tensor<6x15x10xf32, #ttnn.ttnn_layout<(d0, d1, d2) -> (d0 * 32 + d1, d2), <1x1>, memref<3x1x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>>>",
        "memref shape: the text says 3x1, but 6x1 follows from the collapsed tensor 192x32, interleaved on the grid 1x1, tiles 32x32",
        "",
    ),
    (
        "tensor<512x2048xbf16, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <8x8>, memref<4x8x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<l1>>, <block_sharded>>>",
        "memref shape: the text says 4x8, but 2x8 follows from the collapsed tensor 512x2048, block_sharded on the grid 8x8, tiles 32x32",
        "",
    ),
    (
        "tensor<32x384xbf16, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <6x2>, memref<1x2x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<l1>>, <width_sharded>>>",
        "memref shape: the text says 1x2, but 1x1 follows from the collapsed tensor 32x384, width_sharded on the grid 6x2, tiles 32x32",
        "",
    ),
    (
        "tensor<384x32xbf16, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <6x2>, memref<2x1x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<l1>>, <height_sharded>>>",
        "memref shape: the text says 2x1, but 1x1 follows from the collapsed tensor 384x32, height_sharded on the grid 6x2, tiles 32x32",
        "",
    ),
    (
        "tensor<512x512xbf16, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <8x8>, memref<1x3x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<l1>>, <interleaved>>>",
        "memref shape: the text says 1x3, but 1x4 follows from the collapsed tensor 512x512, interleaved on the grid 8x8, tiles 32x32",
        "",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<64x64xf32, #ttnn.buffer_type<system_memory>>>>",
        "memref shape: the text says 64x64, but 64x128 follows from the collapsed tensor 64x128, in one piece on the grid 1x1",
        "",
    ),
    (
        "tensor<2x64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>>>",
        "dimensions of the map: the text says 2, but 3 follows from the tensor 2x64x128",
        "",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1, d2) -> (d0 * 64 + d1, d2), <1x1>, memref<2x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>>>",
        "dimensions of the map: the text says 3, but 2 follows from the tensor 64x128",
        "",
    ),
    (
        "tensor<2x64x128xf32, #ttnn.ttnn_layout<(d0, d1, d2) -> (d0, d1, d2), <2x2>, memref<2x2x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<l1>>, <block_sharded>>>",
        "dimensions of the grid: the text says 2, but 3 follows from the results of the map",
        "",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0 - 64, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>>>",
        "result 0 of the map, d0 - 64: given -1 at the last index [63, 127], needed 0 or more",
        "",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<drm>>, <interleaved>>>",
        "`drm` is not a buffer type: did you mean `dram`?",
        "drm",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleave>>>",
        "`interleave` is not a memory layout: did you mean `interleaved`?",
        "interleave",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>, <interleaved>>>",
        "a part of this kind is already given: expected each once",
        "<interleaved>",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>, core_range = <[]>>>",
        "`core_range` is not a part of the layout: did you mean `core_ranges`?",
        "core_range",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <2x1>, memref<1x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<l1>>, <block_sharded>, core_ranges = <[#ttnn.core_range<(0, 1), (0, 0)>]>>>",
        "core_ranges: given (0, 1) to (0, 0), needed an end that is not in front of the start",
        "<[#ttnn.core_range<(0, 1), (0, 0)>]>",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <2x1>, memref<1x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<l1>>, <block_sharded>, core_ranges = <[(0, 0), (0, 1)]>>>",
        "expected `<` before a core range, found `(`",
        "(",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <2x1>, memref<1x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<l1>>, <block_sharded>, exactGrid = yes>>",
        "`yes` is not exactGrid: expected true or false",
        "yes",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <0x1>, memref<1x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<l1>>, <block_sharded>>>",
        "grid: given 0x1, needed sizes of 1 or more",
        "0x1",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, tensor<2x4x!ttcore.tile<32x32, f32>>, <interleaved>>>",
        "expected `memref` after the grid, found `tensor`",
        "tensor",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, f32>>, <interleaved>>>",
        "expected `,` and a buffer type after the element type of the memref, found `>`",
        ">",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), 1x1, memref<2x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>>>",
        "expected `<` before the grid, found `1x1`",
        "1x1",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x31, f32>, #ttnn.buffer_type<dram>>, <interleaved>>>",
        "there is no tile of 32x31: expected 32, 16, 8, 4, 2 or 1 rows by 32 or 16 columns",
        "32x31",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, bfp_b8>, #ttnn.buffer_type<dram>>, <interleaved>>>",
        "`bfp_b8` is not an element format: did you mean `bfp_bf8`?",
        "bfp_b8",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!tile, #ttnn.buffer_type<dram>>, <interleaved>>>",
        "`!tile` is an alias, and only the file that defines it says of what: give it as `@FILE.mlir!NAME`",
        "!tile",
    ),
    (
        "tensor<64x128xf32, #layout3>",
        "`#layout3` is an alias, and only the file that defines it says of what: give it as `@FILE.mlir#NAME`",
        "#layout3",
    ),
    (
        "tensor<64x128xf32, #ttn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4xf32, #ttnn.buffer_type<dram>>, <interleaved>>>",
        "`ttn` is not a dialect that has layouts: did you mean `ttnn`?",
        "ttn",
    ),
    (
        "tensor<64x128xf32, #ttnn.layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4xf32, #ttnn.buffer_type<dram>>, <interleaved>>>",
        "`layout` is not a layout of the dialect `ttnn`: expected ttnn_layout or ttnn_nd_layout",
        "layout",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<>",
        "expected `(` before the dimensions of the map, found `>`",
        ">",
    ),
    (
        "tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, f32>, #l2>, <interleaved>>>",
        "`#l2` is an alias, and only the file that defines it says of what: give it as `@FILE.mlir#NAME`",
        "#l2",
    ),
    (
        "tensor<?x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, f32>, #l1>, <interleaved>>>",
        "expected a size of the tensor that is known, found `?`",
        "?",
    ),
    (
        "tensor<64x128xf31, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, f32>, #l1>, <interleaved>>>",
        "`f31` is not an element type: did you mean `f32`?",
        "f31",
    ),
    (
        "tensor<1x32x32xbf16, #ttnn.ttnn_nd_layout<<1x1>, memref<1x1x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<l1>>, <block_sharded>>>",
        "memref: given 2 entries, needed 3, one for each dimension of the tensor",
        "1x1x!ttcore.tile<32x32, bf16>",
    ),
    (
        "tensor<4x32x32xbf16, #ttnn.ttnn_nd_layout<<2x2>, memref<1x1x1x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<l1>>, <block_sharded>, <row_major>, <grid_2d>>>",
        "grid: given 4x1x1 shards, needed shards in two dimensions that fit the grid 2x2",
        "",
    ),
    (
        "tensor<1x96x32xbf16, #ttnn.ttnn_nd_layout<<2x2>, memref<1x1x1x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<l1>>, <block_sharded>, <row_major>, <grid_2d>>>",
        "grid: given 1x3x1 shards, needed shards in two dimensions that fit the grid 2x2",
        "",
    ),
    (
        "tensor<1x32x32xbf16, #ttnn.ttnn_nd_layout<<1x1>, memref<1x1x1x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<l1>>, <block_sharded>, <column_major>>>",
        "`column_major` is not an orientation: did you mean `col_major`?",
        "column_major",
    ),
    (
        "tensor<1x32x32xbf16, #ttnn.ttnn_nd_layout<<1x1x1>, memref<1x1x1x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<l1>>, <block_sharded>>>",
        "grid: given 3 entries, needed 2, its rows and columns",
        "1x1x1",
    ),
    (
        "tensor<1x4x1x1x!ttcore.tile<32x32, bf16>, #ttcore.metal_layout<logical_shape = 33x128, dim_alignments = 32x32, collapsed_intervals = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>, l1, sharded>>",
        "grid times shard: the text says 32x128, but 64x128 follows from logical_shape 33x128 with dim_alignments 32x32",
        "",
    ),
    (
        "tensor<2x4x1x1x!ttcore.tile<32x32, bf16>, #ttcore.metal_layout<logical_shape = 33x128, dim_alignments = 32, collapsed_intervals = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>, l1, sharded>>",
        "dim_alignments: given 1 entry, needed 2, one for each dimension of logical_shape",
        "32",
    ),
    (
        "tensor<2x4x1x1x!ttcore.tile<32x32, bf16>, #ttcore.metal_layout<logical_shape = 33x128, dim_alignments = 32x32, collapsed_intervals = dense<[[0, 3]]> : tensor<1x2xi64>, l1, sharded>>",
        "collapsed_intervals: given an interval whose end is 3, needed -2 to 2, the rank",
        "dense<[[0, 3]]> : tensor<1x2xi64>",
    ),
    (
        "tensor<2x4x1x1x!ttcore.tile<32x32, bf16>, #ttcore.metal_layout<logical_shape = 33x128, dim_alignments = 32x32, collapsed_intervals = dense<[[0, 2], [1, 2]]> : tensor<2x2xi64>, l1, sharded>>",
        "collapsed_intervals: given an interval that starts at 1, needed a start of 2 or more, behind the interval before it",
        "dense<[[0, 2], [1, 2]]> : tensor<2x2xi64>",
    ),
    (
        "tensor<2x4x1x!ttcore.tile<32x32, bf16>, #ttcore.metal_layout<logical_shape = 33x128, dim_alignments = 32x32, collapsed_intervals = dense<> : tensor<0x2xi64>, l1, sharded>>",
        "tensor: given 3 dimensions, needed an even number, the grid and then the shard",
        "2x4x1x!ttcore.tile<32x32, bf16>",
    ),
    (
        "tensor<2x4x1x1x!ttcore.tile<32x32, bf16>, #ttcore.metal_layout<logical_shape = 33x128, dim_alignments = 32x32, collapsed_intervals = dense<> : tensor<1x2xi64>, l1, sharded>>",
        "the type says 1x2, but there are 0x2 numbers",
        "tensor<1x2xi64>",
    ),
    (
        "tensor<2x4x1x1x!ttcore.tile<32x32, bf16>, #ttcore.metal_layout<logical_shape = 33x128, dim_alignments = 32x32, collapsed_intervals = dense<> : tensor<0x2xi64>, sharded>>",
        "the memory space is missing",
        "logical_shape = 33x128, dim_alignments = 32x32, collapsed_intervals = dense<> : tensor<0x2xi64>, sharded>",
    ),
    (
        "tensor<2x4x1x1x!ttcore.tile<32x32, bf16>, #ttcore.metal_layout<logical_shape = 33x128, dim_alignments = 32x32, collapsed_intervals = dense<> : tensor<0x2xi64>, l1, shared>>",
        "`shared` is not a part of the layout: did you mean `sharded`?",
        "shared",
    ),
    (
        "tensor<2x4x1x1x!ttcore.tile<32x32, bf16>, #ttcore.metal_layout<logical_shape = 33x128, dim_alignments = 32x32, collapsed_intervals = dense<> : tensor<0x2xi64>, l1, dram>>",
        "a part of this kind is already given: expected each once",
        "dram",
    ),
    (
        "tensor<2x4x1x1x!ttcore.tile<32x32, bf16>, #ttcore.metal_layout<logical_shape = 33x128, dim_alignments = 32x32, collapsed_intervals = dense<> : tensor<0x2xi64>, l1, sharded, index_map = (d0, d1) -> (d1, d0)>>",
        "index_map: given a map of 2 dimensions to 2, needed 4 dimensions, grid and shard, to more than 2",
        "",
    ),
    (
        "tensor<2x4x1x1x!ttcore.tile<32x32, bf16>, #ttcore.metal_layout<logical_shape = 33x128, dim_alignments = 32x32, collapsed_intervals = dense<> : tensor<0x2xi64>, l1, sharded, index_map = (d0, d1, d2, d3) -> (d0 - 2, d1, d2, d3)>>",
        "index_map: given -1 at the last index [1, 3, 0, 0], needed 0 or more",
        "",
    ),
    (
        "tensor<53x63xf32, #tt.metal_layout<(d0, d1) -> (d0, d1), undef, <3x2>, memref<18x31xf32, #tt.memory_space<l1>>>>",
        "memref shape: the text says 18x31, but 18x32 follows from the extent 53x63 over the grid 3x2",
        "",
    ),
    (
        "#ttcore.metal_layout<logical_shape = 33x128, dim_alignments = 32x32, collapsed_intervals = dense<> : tensor<0x2xi64>, l1, sharded>",
        "expected a tensor<grid x shard x element, ...> around a layout with `logical_shape`",
        "#ttcore.metal_layout<",
    ),
    (
        "memref<1x1x2x!ttcore.tile<32x32, f32>, #ttcore.shard<8192x4096, 1>, #ttcore.memory_space<l1>>",
        "memref: given 3 entries, needed an even number, the grid and then the shard",
        "1x1x2x!ttcore.tile<32x32, f32>",
    ),
    (
        "memref<1x1x2x2x!ttcore.tile<32x32, f32>, #ttcore.shard<4096, 1>, #ttcore.memory_space<l1>>",
        "strides: given 1 entry, needed 2, one for each dimension of a shard",
        "4096",
    ),
    (
        "memref<1x1x2x2x!ttcore.tile<32x32, f32>, #ttcore.shard<8192x4096, 0>, #ttcore.memory_space<l1>>",
        "buffers: given 0, needed sizes of 1 or more",
        "0",
    ),
    (
        "memref<0x1x2x2x!ttcore.tile<32x32, f32>, #ttcore.shard<8192x4096, 1>, #ttcore.memory_space<l1>>",
        "grid: given 0x1, needed sizes of 1 or more",
        "0x1x2x2x!ttcore.tile<32x32, f32>",
    ),
    (
        "memref<1x1x2x2x!ttcore.tile<32x32, f32>, #ttcore.shrad<8192x4096, 1>, #ttcore.memory_space<l1>>",
        "`shrad` is not a layout or a memory of a memref: did you mean `shard`?",
        "shrad",
    ),
    (
        "memref<1x1x2x2x!ttcore.tile<32x32, f32>, #ttcore.memory_space<l1>, #ttcore.shard<8192x4096, 1>>",
        "expected `>` after the memory of the memref, found `#`",
        "#",
    ),
    (
        "memref<1x1x2x2x!ttcore.tile<32x32, f32>, #ttcore.shard<8192x4096, 1>, #ttcore.interleaved<8192x4096>, #ttcore.memory_space<l1>>",
        "a memref has one layout, and a view behind it",
        "#ttcore.interleaved<",
    ),
    (
        "memref<1x1x2x2x!ttcore.tile<32x32, f32>, #ttcore.view<(d0, d1) -> (d0, d1)>, #ttcore.memory_space<l1>>",
        "view: given 2 entries, needed 4, one for each dimension of the memref",
        "(d0, d1) -> (d0, d1)",
    ),
    (
        "memref<2x2x!ttcore.tile<32x32, f32>, #ttcore.cb_layout<8192x4096>, #ttcore.memory_space<l1>>",
        "expected `,` and the number of buffers after the strides, found `>`",
        ">",
    ),
    (
        "memref<2x2x!ttcore.tile<32x32, f32>, #ttcore.memory_space<l3>>",
        "`l3` is not a memory space: expected system, mmio, dram, l1 or dst",
        "l3",
    ),
    (
        "memref<2x2x!ttcore.tile<32x32, f32>, strided<[-2, 1], offset: ?>, #ttcore.memory_space<l1>>",
        "the strides of a buffer in a device's memory are 0 or more",
        "[-2, 1]",
    ),
    (
        "memref<2x2xf32, strided<[2, 1], offset: ?>>",
        "expected an offset that is known, found `?`",
        "?",
    ),
    (
        "memref<30x30xf32, #ttcore.host_layout<logical_shape = 30x31, host_strides = 32x1, host_volume = 1024>>",
        "memref shape: the text says 30x30, but 30x31 follows from logical_shape",
        "",
    ),
    (
        "memref<30x30xf32, #ttcore.host_layout<logical_shape = 30x30, host_strides = 32x1, host_volume = 900>>",
        "strides: given 128x4, with which a shard ends at byte 3832, needed a shard of at most 3600 bytes",
        "",
    ),
    (
        "memref<30x30xf32, #ttcore.host_layout<logical_shape = 30x30, host_strides = 32x1>>",
        "`host_volume=` is missing",
        "logical_shape = 30x30, host_strides = 32x1>",
    ),
    (
        "#ttcore.device<workerGrid = #ttcore.grid<8x8>, dramGrid = #ttcore.grid<0x12>, meshShape = , chipIds = [0]>",
        "dramGrid: given 0x12, needed sizes of 1 or more",
        "#ttcore.grid<0x12>",
    ),
    (
        "#ttcore.device<workerGrid = #ttcore.grid<2x8x8>, meshShape = , chipIds = [0]>",
        "expected a map to (chip, y, x): only a grid of two dimensions is that of one chip without it",
        "#ttcore.grid<2x8x8>",
    ),
    (
        "#ttcore.device<workerGrid = #ttcore.grid<8x8>, meshShape = , chipIds = [0, 1]>",
        "chipIds: given 2 entries, needed 1, since meshShape is empty",
        "[0, 1]",
    ),
    (
        "#ttcore.device<workerGrid = #ttcore.grid<8x8>, l1Map = (d0, d1)[s0] (d0), meshShape = , chipIds = [0]>",
        "expected `->` after the dimensions of the map, found `(`",
        "(",
    ),
    (
        "#ttcore.device<workerGrid = #ttcore.grid<8x8>, meshShape = , chipIds = [0], meshTopology = [rng]>",
        "`rng` is not a topology: did you mean `ring`?",
        "rng",
    ),
    (
        "ttcore.device default = <workerGrid = #ttcore.grid<8x8>, meshShape = , chipIds = [0]>",
        "expected `@` and a name after `device`, found `default`",
        "default",
    ),
];

#[test]
fn every_wrong_text_is_refused_with_a_sentence_that_says_why() {
    for (text, sentence, part) in WRONG {
        let error = said(text).expect_err(text);
        assert_eq!(error.to_string(), sentence, "{text}");
        let about = if let Error::Text { span, .. } = &error { &text[span.clone()] } else { "" };
        assert_eq!(about, part, "{text}");
    }
}

/// What is said of a text, or of the layout of the tensor that it says.
fn said(text: &str) -> Result<()> {
    if text.contains("device") && !text.starts_with("memref") {
        return text.parse::<Device>().and_then(|device| device.cores()).map(drop);
    }
    let descriptor = parse(text)?.descriptor;
    let tensor = descriptor.tensor().ok_or_else(|| Error::value("tensor", "none", "a tensor"))?;
    descriptor.layout(&tensor, &Placement::default()).map(drop)
}

/// A text of megabytes is read, or refused, in time that grows with its length, and without deep recursion.
#[test]
fn long_texts_are_read_in_linear_time() {
    let long = |n: usize| {
        let sum = vec!["d0"; n].join(" + ");
        let nested = "(".repeat(n);
        [
            format!(
                "tensor<64xf32, #ttnn.ttnn_layout<(d0) -> ({sum}), <1x1>, memref<1x1xf32, #l1>, <interleaved>>>"
            ),
            format!("tensor<64xf32, #ttnn.ttnn_layout<(d0) -> ({nested}), <1x1>, memref<1x1xf32, #l1>>>"),
            format!("memref<{}f32, #ttcore.shard<1x1, 1>>", "1x".repeat(n)),
            format!("#ttcore.device<workerGrid = #ttcore.grid<8x8>, l1Map = (d0)[s0] -> {nested}"),
            format!(
                "tensor<1x1xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<1x1xf32, #l1>, <block_sharded>, core_ranges = <[{}]>>>",
                "#ttnn.core_range<(0, 0), (0, 0)>, ".repeat(n)
            ),
        ]
    };
    let time = |n: usize| {
        let start = std::time::Instant::now();
        for text in long(n) {
            let _ = said(&text);
        }
        start.elapsed().as_secs_f64()
    };
    let (short, tenfold) = (time(10_000).max(1e-3), time(100_000));
    // Ten times the text may take ten times as long; on a busy machine, a few times more than that.
    assert!(tenfold < 60.0 * short, "{short} s, then {tenfold} s");
}
