//! Layout texts: what must parse, what must not and why, and that printing is the inverse of parsing.

#[path = "common/thread_time.rs"]
mod thread_time;

use std::fmt::{Debug, Display};
use std::str::FromStr;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tilewright::Error;
use tilewright::dtype::{BlockFormat, DType, Format};
use tilewright::family::Descriptor;
use tilewright::family::Tensor;
use tilewright::family::host::mx::MxArray;
use tilewright::family::host::strided::Memref;
use tilewright::family::loops::{Dci, Dcsi, ThreeTuple};
use tilewright::family::spyre::{self, Constructor, DataFormat, Explicit, SpyreLayout};
use tilewright::family::tenstorrent::buffer::{Arrangement, Buffer, BufferMemory};
use tilewright::family::tenstorrent::cores::{CoreRange, CoreRangeSet, Orientation};
use tilewright::family::tenstorrent::device::{Device, Topology};
use tilewright::family::tenstorrent::memory::{BufferType, Fill, MemoryLayout, MemorySpace};
use tilewright::family::tenstorrent::mesh::{Mapper, MeshPlacement, ShardedBufferConfig};
use tilewright::family::tenstorrent::metal::{MetalConstructor, MetalCurrent, MetalLayout};
use tilewright::family::tenstorrent::tile::{Element, TileShape};
use tilewright::family::tenstorrent::ttnn::{
    Interleaved, Memory, PadValue, PageLayout, Scheme, Sharded, Strategy as Handed, Ttnn,
};
use tilewright::family::tenstorrent::ttnn_layout::{
    ShardDistribution, TensorMemoryLayout, TtnnLayout, TtnnNdLayout,
};
use tilewright::layout::affine::{AffineExpr, AffineMap};
use tilewright::text::{MAX_DEPTH, MAX_TEXT, parse};

use thread_time::thread_time;

/// Texts of the golden cases and of the design documents, by kind.
fn corpus(kind: &str) -> Vec<String> {
    let file = include_str!("data/texts.json");
    let all: serde_json::Value = serde_json::from_str(file).expect("texts.json is JSON");
    let texts = all[kind].as_array().expect("a list of texts");
    texts.iter().map(|t| t.as_str().expect("a text").to_string()).collect()
}

/// Parses, prints, parses again: both descriptors must be equal. Gives the first.
fn there_and_back<T: FromStr<Err = Error> + Display + PartialEq + Debug>(text: &str) -> T {
    let first: T = text.parse().unwrap_or_else(|e: Error| panic!("{text}\n{}", e.diagnostic()));
    let printed = first.to_string();
    let second: T =
        printed.parse().unwrap_or_else(|e: Error| panic!("printed from {text}\n{}", e.diagnostic()));
    assert_eq!(first, second, "{text}\n{printed}");
    first
}

fn layout(text: &str) -> Descriptor {
    there_and_back(text)
}

/// The message of a text that must not parse.
fn message<T: FromStr<Err = Error> + Debug>(text: &str) -> String {
    let error = text.parse::<T>().expect_err(text);
    error.diagnostic();
    error.to_string()
}

/// The message, and the part of the text that it is about.
fn refusal(text: &str) -> (String, &str) {
    match parse(text).expect_err(text) {
        Error::Text { message, span, .. } => (message, &text[span]),
        other => (other.to_string(), ""),
    }
}

#[test]
fn every_text_of_the_corpus_parses_and_prints_back() {
    for text in corpus("layouts") {
        layout(&text);
    }
    for text in corpus("devices") {
        there_and_back::<Device>(&text);
    }
    for text in corpus("meshes") {
        there_and_back::<Mapper>(&text);
    }
}

#[test]
fn only_a_key_that_is_not_known_gives_a_warning() {
    for text in corpus("layouts") {
        let warnings = parse(&text).expect(&text).warnings;
        assert_eq!(warnings.is_empty(), !text.contains("colour"), "{text}: {warnings:?}");
    }
    let parsed = parse(
        r#"SpyreTensorLayout(device_size=[2, 64], note={"a, b": [1, (2)]}, dim_map=[0, 0], x=f(1, 2))"#,
    );
    let warnings = parsed.expect("unknown keys are ignored").warnings;
    assert_eq!(warnings.len(), 2);
    assert!(warnings[0].contains("`note`") && warnings[1].contains("`x`"), "{warnings:?}");
}

#[test]
fn metal_layout_reads_each_part() {
    let text = "tensor<53x63xf32,\n\t#tt.metal_layout< (d0,d1)->(d0, d1 ) , neginf,\n <3x2>,memref<1 x 1x!tt.tile<32 x 32,bfp_f4>, #tt.memory_space<dram>> >>";
    let element = Element::Tile { shape: TileShape::T32X32, format: Format::Block(BlockFormat::Bfp4A) };
    let mut expected = MetalLayout::new(AffineMap::identity(2), vec![3, 2], vec![1, 1], element);
    expected.tensor = Some(Tensor { shape: vec![53, 63], dtype: DType::F32 });
    (expected.fill, expected.memory) = (Fill::NegInf, MemorySpace::Dram);
    assert_eq!(layout(text), Descriptor::Metal(expected));
}

#[test]
fn affine_maps_compute_what_they_say() {
    let text = "#tt.device<workerGrid = #tt.grid<8x16, (y, x) -> ((y floordiv 8) * 2 + x floordiv 8, -(y - 20) ceildiv 3, 7 - 2 * (x + y * 3) mod 8)>, meshShape = 1x2, chipIds = [4, 0]>";
    let device: Device = there_and_back(text);
    assert_eq!(device.chip_ids, [4, 0]);
    for y in 0..16i64 {
        for x in 0..16i64 {
            // Quotients by the definition, in floating point, which is exact for such small numbers.
            let chip = (y as f64 / 8.0).floor() as i64 * 2 + (x as f64 / 8.0).floor() as i64;
            let row = ((20 - y) as f64 / 3.0).ceil() as i64;
            let product = 2 * (x + y * 3);
            let column = 7 - (product - 8 * (product as f64 / 8.0).floor() as i64);
            assert_eq!(device.map.eval(&[y, x]), Some(vec![chip, row, column]), "{y}, {x}");
        }
    }
    assert_eq!(device.map.results()[0].linear(2), None);
}

#[test]
fn linear_parts_are_found() {
    let text = "#tt.metal_layout<(d0, d1, d2) -> (d0 * 192 + 64 * d1 - (d2 - 3) * 2, 0), undef, <1x1>, memref<1x1xf32, #tt.memory_space<l1>>>";
    let Descriptor::Metal(metal) = layout(text) else { panic!("a metal_layout") };
    assert_eq!(metal.map.results()[0].linear(3), Some((vec![192, 64, -2], 6)));
    assert_eq!(metal.map.results()[1].linear(3), Some((vec![0, 0, 0], 0)));
}

#[test]
fn every_generation_of_spyre_text() {
    let explicit =
        |device_size: &[u64], dim_map: Option<&[Option<usize>]>, stride_map: Option<&[i64]>, dtype| {
            let (device_size, dim_map, stride_map) =
                (device_size.to_vec(), dim_map.map(<[_]>::to_vec), stride_map.map(<[_]>::to_vec));
            let mut explicit = Explicit::new(device_size);
            (explicit.dim_map, explicit.stride_map, explicit.dtype) = (dim_map, stride_map, dtype);
            Descriptor::Spyre(explicit.into())
        };
    let sen = Some(DataFormat::Sen169Fp16);
    let first = r#"SpyreTensorLayout(device_size=[4, 512, 64], device_strides=[32768, 64, 1], dim_map =[1, 0, 1], num_stick_dims=1, format="Dense")"#;
    assert_eq!(layout(first), explicit(&[4, 512, 64], Some(&[Some(1), Some(0), Some(1)]), None, None));
    let both = "SpyreTensorLayout(device_size=[3, 2, 1, 64], dim_map =[1, 2, 0, 2], stride_map =[128, 64, -1, 1], device_dtype=DataFormats.SEN169_FP16)";
    let map = [Some(1), Some(2), Some(0), Some(2)];
    assert_eq!(layout(both), explicit(&[3, 2, 1, 64], Some(&map), Some(&[128, 64, -1, 1]), sen));
    let newest = "SpyreTensorLayout(device_size=[64, 4096, 64], stride_map =[64, 4096, 1], device_dtype=DataFormats.SEN169_FP16)";
    assert_eq!(layout(newest), explicit(&[64, 4096, 64], None, Some(&[64, 4096, 1]), sen));
    let made = Constructor::new(vec![5, 100], DType::F16).with_dim_order(vec![Some(0), Some(1), None]);
    let sparse = Descriptor::Spyre(made.clone().into());
    assert_eq!(layout("SpyreTensorLayout([5, 100], torch.half, dim_order=(0, 1, -1,))"), sparse);
    assert_eq!(layout("SpyreTensorLayout(torch.Size([5, 100]), torch.half, [0, 1, -1])"), sparse);
    let today = Descriptor::Spyre(made.with_strides(vec![100, 1]).into());
    assert_eq!(layout("SpyreTensorLayout([5, 100], [100, 1], torch.float16, [0, 1, -1])"), today);
    let weight = Constructor::new(vec![64, 128], DType::F8E4M3).with_strides(vec![128, 1]);
    let weight = weight.with_dim_order(vec![Some(0), Some(1)]).with_arrangement(spyre::Arrangement::Qfp8Wt);
    let text =
        "SpyreTensorLayout([64, 128], [128, 1], torch.float8_e4m3fn, [0, 1], ElementArrangement.QFP8WT)";
    assert_eq!(layout(text), Descriptor::Spyre(weight.into()));
    for format in DataFormat::all() {
        let text = format!(
            "SpyreTensorLayout(device_size=[2, 1], dim_map=[0, 0], device_dtype=DataFormats.{})",
            format.name()
        );
        assert_eq!(parse(&text).is_ok(), format.elements_per_stick().is_some(), "{text}");
        if let Some(n) = format.elements_per_stick() {
            assert_eq!(n * u64::from(format.bits()), 1024);
        }
    }
}

#[test]
fn conversion_records_keep_their_numbers() {
    let text = r#"{ "dci_dsName_": "x", "isHostToSen_": true, "dataformat_src_": 15, "dataformat_dst_": "SEN169_FP16", "useSpi_": false,
        "dcsi_": [{"size_": [64, 1, 4], "stride_src_": [1, 64, 100], "stride_dst_": [1, 256, 64], "offset_src_": 0, "offset_dst_": 0},
                  {"size_": [36, 1, 4], "stride_src_": [1, -64, 100], "stride_dst_": [1, 256, 64], "offset_src_": 64, "offset_dst_": 256}],
        "input_shape_": [100, 4], "output_shape_": [64, 4, 2]}"#;
    let Descriptor::Dci(dci) = layout(text) else { panic!("a conversion record") };
    assert_eq!(
        (dci.source_format, dci.destination_format),
        (Some(DataFormat::IeeeFp16), Some(DataFormat::Sen169Fp16))
    );
    assert_eq!(dci.nests[1].source_strides, [1, -64, 100]);
    assert_eq!((dci.nests[1].source_offset, dci.nests[1].destination_offset), (64, 256));
    assert_eq!((dci.input_shape, dci.output_shape), (vec![100, 4], vec![64, 4, 2]));
    assert_eq!(parse(text).expect("as above").warnings.len(), 1);
}

#[test]
fn mappers_give_one_placement_for_each_dimension_of_their_mesh() {
    let placements = |text| there_and_back::<Mapper>(text).placements().expect(text);
    let (shard, replicate) = (MeshPlacement::Shard, MeshPlacement::Replicate);
    assert_eq!(placements("ShardTensorToMesh(mesh_shape=(2, 4), dim=-1)"), (vec![8], vec![shard(-1)]));
    assert_eq!(
        placements("ShardTensor2DMesh(mesh_shape=(2, 4), dims=[None, 0])"),
        (vec![2, 4], vec![replicate, shard(0)])
    );
    assert_eq!(placements("ReplicateTensorToMesh(mesh_shape=(2, 4))"), (vec![8], vec![replicate]));
    assert_eq!(
        placements("MeshMapperConfig(placements=[Shard(1), Replicate( )], mesh_shape=(2, 4))"),
        (vec![2, 4], vec![shard(1), replicate])
    );
    let text = "ShardedBufferConfig{global_size=24576, global_buffer_shape=(384, 32), shard_shape=(96, 0), shard_orientation=ROW_MAJOR}";
    assert_eq!(there_and_back::<ShardedBufferConfig>(text).to_string(), text);
}

/// Each text with the place its error must point at, and words of its message.
#[test]
fn errors_say_what_was_expected_where() {
    let metal = |map: &str, fill: &str, grid: &str, memref: &str| {
        format!("#tt.metal_layout<{map}, {fill}, <{grid}>, memref<{memref}>>")
    };
    let (id, l1) = ("(d0, d1) -> (d0, d1)", "18x32xf32, #tt.memory_space<l1>");
    let current = |tensor: &str, shape: &str, alignments: &str, intervals: &str| {
        let count = intervals.matches("], [").count() + 1;
        format!(
            "tensor<{tensor}x!ttcore.tile<32x32, bf16>, #ttcore.metal_layout<logical_shape = {shape}, dim_alignments = {alignments}, collapsed_intervals = dense<[{intervals}]> : tensor<{count}x2xi64>, l1, sharded>>"
        )
    };
    let spyre = |s: &str| format!("SpyreTensorLayout({s})");
    let ttnn = |s: &str| format!("ttnn({s})");
    let cases: Vec<(String, &str, &[&str])> = vec![
        ("".into(), "", &["expected a layout", "end of the text"]),
        ("hello".into(), "hello", &["memref", "ttnn"]),
        ("memrefs<2xf32>".into(), "memrefs", &["did you mean `memref`?"]),
        ("memref<2x3xf33>".into(), "f33", &["did you mean `f32`?"]),
        ("memref<2x?xf32>".into(), "?", &["known"]),
        ("memref<2x3xf32> memref".into(), "memref", &["the end of the text"]),
        ("memref<2x9223372036854775808xf32>".into(), "9223372036854775808", &["63 bits"]),
        ("memref<53x63xf32, strided<[1]>>".into(), "[1]", &["1 entry", "2"]),
        ("memref<5xf32, strided<[1], offset: -1>>".into(), "-1", &["offset", "0 or more"]),
        ("memref<mxfp4>".into(), "mxfp4", &["no dimension", "blocks of 32"]),
        ("memref<5xmxfp4, strided<[1]>>".into(), ",", &["`>`", "row-major"]),
        ("memref<5xmxfp9>".into(), "mxfp9", &["did you mean `mxfp4`?"]),
        ("memref<5xbfp_bf8>".into(), "bfp_bf8", &["tile<32x32, bfp_bf8>"]),
        ("tensor<5xf32>".into(), ">", &["`,`", "layout"]),
        (metal(id, "seven", "3x2", l1), "seven", &["neginf"]),
        (metal("(d0, d1) -> (d0 +, d1)", "undef", "3x2", l1), ",", &["a dimension, a number or `(`"]),
        (metal("(d0, d1) -> (d0, d2)", "undef", "3x2", l1), "d2", &["expected d0 or d1"]),
        (metal("(d0, d0) -> (d0, d0)", "undef", "3x2", l1), "d0", &["twice"]),
        (metal("(d0, d1) -> (d0 * d1, d1)", "undef", "3x2", l1), "d0 * d1", &["number on one side"]),
        (metal("(d0, d1) -> (d0 floordiv 0, d1)", "undef", "3x2", l1), "0", &["1 or more", "floordiv"]),
        (metal("(d0, d1) -> (d0 mod d1, d1)", "undef", "3x2", l1), "d1", &["1 or more", "mod"]),
        (metal("(d0, d1) -> (d0 + 9223372036854775807 * 2, d1)", "undef", "3x2", l1), "9223372036854775807 * 2", &["64 bits"]),
        (metal(id, "undef", "3x2x1", l1), "(d0, d1)", &["map results", "2 entries", "3"]),
        (metal(id, "undef", "0x2", l1), "0x2", &["1 or more"]),
        (metal(id, "undef", "3x2", "18x32x1xf32, #tt.memory_space<l1>"), "18x32x1xf32", &["3 entries", "2"]),
        (metal(id, "undef", "3x2", "18x32xbfp_bf8, #tt.memory_space<l1>"), "bfp_bf8", &["inside a tile"]),
        (metal(id, "undef", "3x2", "1x1x!tt.tile<31 x 32, f32>, #tt.memory_space<l1>"), "31 x 32", &["31x32", "16"]),
        (metal(id, "undef", "3x2", "1x1x!tt.tile<32x32, bfp_bf9>, #tt.memory_space<l1>"), "bfp_bf9", &["did you mean"]),
        (metal(id, "undef", "3x2", "18x32xf32"), ">", &["`,`", "memory space"]),
        (metal(id, "undef", "3x2", "18x32xf32, #tt.memory_space<l2>"), "l2", &["l1"]),
        (metal("(d0) -> (d0)", "undef", "3", "1x!tt.tile<32x32, f32>, #tt.memory_space<l1>"), "1x!tt.tile<32x32, f32>", &["at least 2"]),
        ("#ttcore.metal_layout<(d0, d1) -> (d0, d1), undef, <3x2>>".into(), ">", &["memref"]),
        (
            "tensor<64x256x1024xf32, #tt.metal_layout<(d0, d1) -> (d0, d1), undef, <2x4>, memref<1x1xf32, #tt.memory_space<l1>>>>".into(),
            "(d0, d1) -> (d0, d1)",
            &["2 entries", "3", "tensor"],
        ),
        (current("2x4x1x1", "33x128", "1x32x32", "[0, 1], [1, 2]"), "1x32x32", &["dim_alignments", "3 entries", "2"]),
        (current("2x4x1x1", "33x128", "0x32", "[0, 1], [1, 2]"), "0x32", &["1 or more"]),
        (current("2x4x1x1", "33x128", "32x32", "[0, 1], [1, 10]"), "dense<[[0, 1], [1, 10]]> : tensor<2x2xi64>", &["end is 10", "2"]),
        (current("2x4x1x1", "33x128", "32x32", "[0, 1], [5, 2]"), "dense<[[0, 1], [5, 2]]> : tensor<2x2xi64>", &["start is 5"]),
        (current("2x4x1x1", "33x128", "32x32", "[-10, 1], [1, 2]"), "dense<[[-10, 1], [1, 2]]> : tensor<2x2xi64>", &["start is -10"]),
        (current("2x4x1x1", "33x128", "32x32", "[1, 0], [1, 2]"), "dense<[[1, 0], [1, 2]]> : tensor<2x2xi64>", &["(1)", "(0)", "not exceed"]),
        // A dimension that no interval covers is a dimension of its own.
        (current("2x1", "33x128", "32x32", "[0, 1]"), "2x1x!ttcore.tile<32x32, bf16>", &["1 entry", "2"]),
        (current("2x4x1x1", "33x128", "32x32", "[0, 1, 2]"), "[0, 1, 2]", &["pair", "3"]),
        (current("2x4x1x1", "33x128", "32x32", "0, 1"), "0", &["2D array"]),
        (current("2x4x1", "33x128", "32x32", "[0, 1], [1, 2]"), "2x4x1x!ttcore.tile<32x32, bf16>", &["3 dimensions", "even"]),
        (current("2x4x5x1x1x1", "33x128", "32x32", "[0, 1], [1, 2]"), "2x4x5x1x1x1x!ttcore.tile<32x32, bf16>", &["grid", "3 entries", "2"]),
        ("#ttcore.metal_layout<logical_shape = 33x128, l1>".into(), "#ttcore.metal_layout<", &["tensor<"]),
        ("metal(shape=(2, 3, 64), collapse=[(0, 2), (1, 3)], grid=(2,))".into(), "", &["`dtype=` is missing"]),
        ("metal(shape=(2, 3, 64), collapse=[(0, 2), (1, 3)], grid=(2,), dtype=f32)".into(), "[(0, 2), (1, 3)]", &["start", "1", "2"]),
        ("metal(shape=(2, 3, 64), grid=(2,), dtype=f32)".into(), "(2,)", &["1 entry", "2"]),
        ("metal(shape=(2, 3, 64), grid=(2, 2), dtype=bfp_bf8)".into(), "bfp_bf8", &["tile=(32, 32)"]),
        (ttnn("dtype=bfloat9_b, layout=TILE"), "bfloat9_b", &["did you mean `bfloat8_b`?"]),
        (ttnn("dtype=bfloat8_b, layout=ROW_MAJOR"), "ROW_MAJOR", &["Layout must be TILE for bfloat8_b"]),
        (ttnn("dtype=bfloat16, layout=TILE, tile=(33, 32)"), "(33, 32)", &["33x32"]),
        (ttnn("dtype=bfloat16, layout=TILE, tile=(8, 32), transpose_tile=True"), "True", &["8 rows", "16 or 32"]),
        (ttnn("dtype=bfloat16, layout=TILE, dtype=float32"), "dtype", &["twice"]),
        (ttnn("dtype=bfloat16, layout=TILE, tiel=(32, 32)"), "tiel", &["did you mean `tile`?"]),
        (ttnn("dtype=bfloat16, layout=TILE, pad_value=x1"), "x1", &["a number"]),
        (ttnn("dtype=bfloat16, layout=ROW_MAJOR, tile=(32, 32)"), "(32, 32)", &["`tile=` needs `layout=TILE`"]),
        (ttnn("dtype=bfloat16, layout=ROW_MAJOR, banks=2"), "2", &["`banks=` needs `memory=INTERLEAVED`"]),
        (ttnn("dtype=bfloat16, layout=ROW_MAJOR, memory=INTERLEAVED, banks=0, alignment=32"), "0", &["banks", "1 or more"]),
        (ttnn("dtype=bfloat16, layout=ROW_MAJOR, memory=INTERLEAVED, banks=1"), "", &["`alignment=` is missing"]),
        (
            ttnn("dtype=bfloat16, layout=TILE, memory=HEIGHT_SHARDED, grid=(2, 2), shard=(30, 64)"),
            "(30, 64)",
            &["30x64", "multiples of the tile, 32x32"],
        ),
        (ttnn("dtype=bfloat16, layout=TILE, memory=BLOCK_SHARDED, grid=(2, 2, 2), shard=(32, 64)"), "(2, 2, 2)", &["two numbers", "3"]),
        (ttnn("dtype=bfloat16, layout=TILE, memory=WIDTH_SHARDED, grid=(2, 2), shard=(1, 32, 64)"), "(1, 32, 64)", &["3 entries", "2"]),
        (spyre("device_size=[100, 3, 5, 64], dim_map =[1, 2, 1, 2]"), "[1, 2, 1, 2]", &["no host dimension 0"]),
        (spyre("device_size=[2, 6, 64], dim_map =[3, 0, 1]"), "[3, 0, 1]", &["host dimension 3"]),
        (spyre("device_size=[2, 6, 64], dim_map =[1, 0]"), "[1, 0]", &["2 entries", "3"]),
        (spyre("device_size=[2, 6, 64], dim_map =[-1, 0, -1]"), "[-1, 0, -1]", &["at most one"]),
        (spyre("device_size=[2, 6, 64], dim_map =[1, 0, -2]"), "-2", &["-1"]),
        (spyre("device_size=[2, 6, 64], stride_map=[1, 0, -2]"), "[1, 0, -2]", &["-2", "-1"]),
        (spyre("device_size=[2, 6, 64]"), "[2, 6, 64]", &["dim_map", "stride_map"]),
        (spyre("device_size=[2, 6, 65], dim_map=[1, 0, 1], device_dtype=DataFormats.SEN169_FP16"), "[2, 6, 65]", &["65", "64"]),
        (spyre("device_size=[2, 6, 64], dim_map=[1, 0, 1], device_dtype=DataFormats.SEN999"), "SEN999", &["SEN169_FP16"]),
        (spyre("device_size=[2, 6, 64], device_strides=[384, 64, 2], dim_map=[1, 0, 1]"), "[384, 64, 2]", &["[384, 64, 1]"]),
        (spyre("device_size=[2, 6, 64], dim_map=[1, 0, 1], num_stick_dims=2"), "2", &["one stick dimension"]),
        (spyre("device_size=[2, 6, 64], dim_map=[1, 0, 1], format=\"Sparse\""), "\"Sparse\"", &["-1 in dim_map"]),
        (spyre("device_size=[2, 6, 64], dim_map=[1, 0, 1], element_arrangement=ElementArrangement.QFP8CH"), "QFP8CH", &["STANDARD"]),
        (spyre("(6, 100), torch.float16, [1, 1]"), "[1, 1]", &["dimension 1 twice"]),
        (spyre("(6, 100), torch.float16, [-1, 1]"), "[-1, 1]", &["-1 before the end"]),
        (spyre("(6, 100), torch.float16, [1]"), "[1]", &["1 entry", "2"]),
        (spyre("(6, 100), torch.float64"), "torch.float64", &["f64"]),
        (spyre("(6, 100), torch.flaot16"), "flaot16", &["did you mean `float16`?"]),
        ("((4, 8), (8, 1), (8, 1, 1))".into(), "(8, 1, 1)", &["3 entries", "2"]),
        ("((4, 8), (8, 1))".into(), ")", &["host strides"]),
        ("((4, -8), (8, 1), (8, 1))".into(), "-", &["a number"]),
        (r#"{"dcsi_": [}"#.into(), "}", &["JSON"]),
    ];
    for (text, place, words) in &cases {
        let (message, found) = refusal(text);
        for word in *words {
            assert!(message.contains(word), "{text}\n{message}\nlacks {word}");
        }
        if !place.is_empty() {
            assert_eq!(found, *place, "{text}\n{message}");
        }
    }
}

#[test]
fn conversion_records_name_the_wrong_value_by_its_path() {
    for (text, words) in [
        (r#"{}"#, ["dcsi_", "nothing"]),
        (r#"{"dcsi_": 3}"#, ["dcsi_", "a list"]),
        (r#"{"dcsi_": [3]}"#, ["dcsi_[0]", "an object"]),
        (
            r#"{"dcsi_": [{"size_": [1], "stride_src_": [1, 2], "stride_dst_": [1]}]}"#,
            ["dcsi_[0].stride_src_", "2 entries"],
        ),
        (r#"{"dcsi_": [{"size_": [-1], "stride_src_": [1], "stride_dst_": [1]}]}"#, ["dcsi_[0].size_", "-1"]),
        (
            r#"{"dcsi_": [{"size_": [1.5], "stride_src_": [1], "stride_dst_": [1]}]}"#,
            ["dcsi_[0].size_", "1.5"],
        ),
        (
            r#"{"dcsi_": [{"size_": [18446744073709551615], "stride_src_": [1], "stride_dst_": [1]}]}"#,
            ["dcsi_[0].size_", "63 bits"],
        ),
        (
            r#"{"dcsi_": [{"size_": [1], "stride_src_": [1], "stride_dst_": [1], "offset_src_": -4}]}"#,
            ["offset_src_", "-4"],
        ),
        (r#"{"dcsi_": [], "dataformat_src_": 99}"#, ["dataformat_src_", "99"]),
        (r#"{"dcsi_": [], "post_slice_dcsi_": [1]}"#, ["post_slice_dcsi_", "none"]),
    ] {
        let message = message::<Descriptor>(text);
        assert!(words.iter().all(|w| message.contains(w)), "{text}\n{message}");
    }
}

#[test]
fn devices_and_mappers_are_checked() {
    let device = |grid: &str, mesh: &str, ids: &str| {
        message::<Device>(&format!(
            "#tt.device<workerGrid = #tt.grid<{grid}>, meshShape = {mesh}, chipIds = [{ids}]>"
        ))
    };
    assert!(device("8x8, (d0, d1) -> (0, d0, d1)", "2x2", "0, 1").contains("2 entries, needed 4"));
    assert!(device("8x8, (d0, d1) -> (0, d0, d1)", "1x2", "7, 7").contains("7 twice"));
    assert!(device("8x8, (d0, d1) -> (d0, d1)", "1", "0").contains("needed 3, the chip, y and x"));
    assert!(device("8x8, (d0) -> (0, d0, d0)", "1", "0").contains("needed 2"));
    assert!(device("8x0, (d0, d1) -> (0, d0, d1)", "1", "0").contains("1 or more"));
    assert!(device("8x8, (d0, d1) -> (0, d0, d1)", "4294967296x4294967296", "0").contains("2^64"));
    assert!(
        message::<Device>("#tt.device<meshShape = 1, chipIds = [0]>").contains("`workerGrid=` is missing")
    );
    assert!(message::<Descriptor>("#tt.device<meshShape = 1>").contains("metal_layout"));

    let mapper = message::<Mapper>;
    assert!(mapper("ShardTensorToMesh(mesh_shape=(1, 8))").contains("`dim=` is missing"));
    assert!(mapper("ShardTensorToMesh(mesh_shape=(1, 8), dims=3)").contains("did you mean `dim`?"));
    assert!(mapper("ShardTensor2dMesh(mesh_shape=(8,), dims=(0, 1))").contains("two numbers"));
    assert!(mapper("ShardTensor2dMesh(mesh_shape=(2, 4), dims=(0,))").contains("two entries"));
    assert!(mapper("MeshMapperConfig([Shard(0)], mesh_shape=(2, 4))").contains("1 entry, needed 2"));
    assert!(mapper("ReplicateTensorToMesh(mesh_shape=(1048576, 4))").contains("65536"));
    assert!(mapper("ReplicateTensorToMesh(mesh_shape=())").contains("at least one"));
    assert!(
        mapper("ShardTensorToMeh(mesh_shape=(1, 8), dim=1)").contains("did you mean `ShardTensorToMesh`?")
    );
    assert!(message::<ShardedBufferConfig>("ShardedBufferConfig{global_size=1}").contains("is missing"));
}

#[test]
fn carets_stand_under_the_place() {
    let shown = |text: &str| parse(text).expect_err(text).diagnostic();
    let lines: Vec<String> =
        shown("ttnn(\n\tdtype=bfloat9_b,\n\tlayout=TILE)").lines().map(String::from).collect();
    assert_eq!(lines[1], " --> line 2, column 8");
    assert_eq!(lines[2], "  |  dtype=bfloat9_b,");
    assert_eq!(lines[3], "  |        ^^^^^^^^^");

    let shown_end: Vec<String> = shown("memref<2xf32").lines().map(String::from).collect();
    assert_eq!(shown_end[3], "  |             ^");

    let wide = shown("memref<2xf32>  ééé\u{7}日本");
    assert!(wide.ends_with("  | memref<2xf32>  ééé·日本\n  |                ^"), "{wide}");

    let long = format!("{}hello{}", " ".repeat(500_000), "x".repeat(500_000));
    let lines: Vec<usize> = shown(&long).lines().map(|l| l.chars().count()).collect();
    assert!(lines.len() == 4 && lines.iter().all(|n| *n < 120), "{lines:?}");
}

#[test]
fn names_of_dimensions_and_depth_are_bounded() {
    let metal =
        |map: String| format!("#tt.metal_layout<{map}, undef, <1>, memref<1xf32, #tt.memory_space<l1>>>");
    let nested = |n: usize| metal(format!("(d0) -> ({}d0{})", "(".repeat(n), ")".repeat(n)));
    layout(&nested(MAX_DEPTH));
    assert!(refusal(&nested(MAX_DEPTH + 1)).0.contains("nested"));
    assert!(refusal(&nested(10_000)).0.contains("nested"));
    let minus = metal(format!("(d0) -> ({}d0)", "-".repeat(9_999)));
    assert_eq!(layout(&minus), layout(&metal("(d0) -> (-d0)".into())));

    for (open, close) in
        [("(", ")"), ("[", "]"), ("{\"a\":", "}"), ("tensor<", ">"), ("SpyreTensorLayout(x=[", "])")]
    {
        let text = open.repeat(10_000) + &close.repeat(10_000);
        assert!(parse(&text).is_err());
    }
    let skipped = format!(
        "SpyreTensorLayout(device_size=[2, 64], dim_map=[0, 0], x={}{})",
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    assert_eq!(parse(&skipped).expect("a value of any depth is skipped").warnings.len(), 1);

    let rank = |n: usize| format!("memref<{}f32>", "2x".repeat(n));
    layout(&rank(64));
    assert!(refusal(&rank(65)).0.contains("at most 64"));
    assert!(
        refusal(&metal(format!(
            "({}) -> (0)",
            (0..65).map(|d| format!("d{d}")).collect::<Vec<_>>().join(",")
        )))
        .0
        .contains("at most 64")
    );
}

#[test]
fn long_texts_are_read_in_time() {
    let n = 1 << 20;
    let metal =
        |map: &str| format!("#tt.metal_layout<{map}, undef, <1>, memref<1xf32, #tt.memory_space<l1>>>");
    let texts = [
        metal(&format!("(d0) -> (d0{})", " + d0".repeat(n / 5))),
        metal(&format!("(d0) -> (d0{})", " * 1".repeat(n / 4))),
        metal(&format!("(d0) -> (d0{})", " - (d0 + 1) mod 7".repeat(n / 17))),
        metal(&format!("(d0) -> ({}d0)", "0, ".repeat(n / 3))),
        format!(
            "SpyreTensorLayout(device_size=[2, 64], dim_map=[0, 0]{})",
            (0..n / 10).map(|i| format!(", k{i}=[]")).collect::<String>()
        ),
        format!("memref<{}f32>", "1x".repeat(n / 2)),
        format!("(({}), (1), (1))", "1,".repeat(n / 2)),
        format!("{{\"dcsi_\": [{}0]}}", "0,".repeat(n / 2)),
        "(".repeat(n),
        " ".repeat(n),
        "a".repeat(n),
        "é".repeat(n / 2),
        "\n".repeat(n),
        "1".repeat(n),
        format!("ttnn(pad_value={})", "1".repeat(n)),
    ];
    for text in texts {
        let start = thread_time();
        match parse(&text) {
            Ok(parsed) => drop(parsed.descriptor.to_string()),
            Err(error) => drop(error.diagnostic()),
        }
        let shown: String = text.chars().take(60).collect();
        let took = thread_time() - start;
        assert!(took < Duration::from_secs(5), "{shown}: {took:?}");
    }
    assert!(message::<Descriptor>(&" ".repeat(MAX_TEXT + 1)).contains("16777216"));
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![1u64..200, 1..=i64::MAX as u64]
}

fn sizes(rank: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Vec<u64>> {
    vec(size(), rank)
}

fn dtype() -> impl Strategy<Value = DType> {
    select(DType::all().collect::<Vec<_>>())
}

fn tile_shape() -> impl Strategy<Value = TileShape> {
    select(TileShape::all().collect::<Vec<_>>())
}

fn format() -> impl Strategy<Value = Format> {
    prop_oneof![dtype().prop_map(Format::Plain), select(BlockFormat::ALL.to_vec()).prop_map(Format::Block)]
}

fn element() -> impl Strategy<Value = Element> {
    prop_oneof![
        dtype().prop_map(Element::Scalar),
        (tile_shape(), format()).prop_map(|(shape, format)| Element::Tile { shape, format })
    ]
}

/// Expressions of every operation, shallow enough for [`MAX_DEPTH`].
fn expression(dims: usize) -> impl Strategy<Value = AffineExpr> {
    let leaf = prop_oneof![(0..dims).prop_map(AffineExpr::dim), any::<i64>().prop_map(AffineExpr::constant)];
    leaf.prop_recursive(6, 40, 2, |inner| {
        let constant = prop_oneof![-3i64..9, any::<i64>()];
        (inner.clone(), inner, constant, 0..5).prop_map(|(a, b, c, operation)| {
            let kept = a.clone();
            let made = match operation {
                0 => a.plus(b),
                1 => a.times(c),
                2 => a.floordiv(c),
                3 => a.ceildiv(c),
                _ => a.modulo(c),
            };
            made.unwrap_or(kept)
        })
    })
}

fn map(dims: usize, results: usize) -> impl Strategy<Value = AffineMap> {
    vec(expression(dims), results).prop_map(move |r| AffineMap::new(dims, r).expect("dimensions in range"))
}

fn fill() -> impl Strategy<Value = Fill> {
    select(vec![Fill::Undef, Fill::Zero, Fill::One, Fill::Inf, Fill::NegInf])
}

fn memory() -> impl Strategy<Value = MemorySpace> {
    use MemorySpace::{Dram, Dst, L1, Mmio, System};
    select(vec![System, Mmio, Dram, L1, Dst])
}

fn orientation() -> impl Strategy<Value = Orientation> {
    select(vec![Orientation::RowMajor, Orientation::ColMajor])
}

fn memref() -> impl Strategy<Value = Memref> {
    (0usize..6).prop_flat_map(|rank| {
        let strides = proptest::option::of((vec(any::<i64>(), rank), 0..=i64::MAX));
        (vec(0..=i64::MAX as u64, rank), dtype(), strides).prop_map(|(shape, dtype, strides)| {
            let dense = Memref::new(shape, dtype);
            match strides {
                Some((strides, offset)) => dense.with_strides(strides).with_offset(offset),
                None => dense,
            }
        })
    })
}

fn mx() -> impl Strategy<Value = MxArray> {
    let names = BlockFormat::ALL.map(BlockFormat::name);
    let formats = names.iter().filter_map(|name| MxArray::format(name)).collect::<Vec<_>>();
    (vec(0..=i64::MAX as u64, 1..6), select(formats)).prop_map(|(shape, format)| MxArray::new(shape, format))
}

fn metal() -> impl Strategy<Value = MetalLayout> {
    (1usize..5, 2usize..5).prop_flat_map(|(dims, rank)| {
        let tensor =
            proptest::option::of((sizes(dims), dtype()).prop_map(|(shape, dtype)| Tensor { shape, dtype }));
        let parts = (tensor, map(dims, rank), fill(), sizes(rank), sizes(rank), element(), memory());
        parts.prop_map(|(tensor, map, fill, grid, shard, element, memory)| {
            let mut metal = MetalLayout::new(map, grid, shard, element);
            (metal.tensor, metal.fill, metal.memory) = (tensor, fill, memory);
            if memory == MemorySpace::Dram {
                metal.memory_layout = MemoryLayout::Interleaved;
            }
            metal
        })
    })
}

fn constructor() -> impl Strategy<Value = MetalConstructor> {
    (3usize..7, any::<bool>()).prop_flat_map(|(rank, negative)| {
        let end = if negative { -1 } else { rank as i64 - 1 };
        let parts = (sizes(rank), sizes(3), element(), fill(), memory());
        parts.prop_map(move |(shape, grid, element, fill, memory)| {
            let mut metal = MetalConstructor::new(shape, grid, element);
            (metal.collapse, metal.fill, metal.memory) = (vec![(1, end)], fill, memory);
            metal
        })
    })
}

fn current() -> impl Strategy<Value = MetalCurrent> {
    (2usize..6).prop_flat_map(|rank| {
        let layout = select(vec![MemoryLayout::Sharded, MemoryLayout::Interleaved]);
        let view = proptest::option::of(map(4, 4));
        let of = (element(), memory(), layout, fill(), any::<bool>());
        let parts = ([sizes(2), sizes(2), sizes(rank), sizes(rank)], view, of);
        parts.prop_map(|([grid, shard, shape, alignments], view, of)| {
            let rank = shape.len() as i64;
            let (element, memory, layout, fill, partial) = of;
            let mut metal = MetalCurrent::new(shape, grid, shard, element);
            (metal.memory, metal.memory_layout, metal.fill, metal.index_map) = (memory, layout, fill, view);
            metal.dim_alignments = alignments;
            // A dimension that no interval covers is alone.
            metal.collapsed_intervals = if partial { vec![(0, -1)] } else { vec![(0, -1), (rank - 1, rank)] };
            metal
        })
    })
}

fn buffer_type() -> impl Strategy<Value = BufferType> {
    use BufferType::{Dram, L1, L1Small, SystemMemory, Trace};
    select(vec![Dram, L1, SystemMemory, L1Small, Trace])
}

fn ttnn_layout() -> impl Strategy<Value = TtnnLayout> {
    use TensorMemoryLayout::{BlockSharded, HeightSharded, Interleaved, WidthSharded};
    let tensor = (sizes(3), dtype()).prop_map(|(shape, dtype)| Tensor { shape, dtype });
    let layout =
        select(vec![None, Some(Interleaved), Some(HeightSharded), Some(WidthSharded), Some(BlockSharded)]);
    let range =
        [0u64..9, 0u64..9, 0u64..9, 0u64..9].prop_map(|[x, y, w, h]| CoreRange::new(x, y, w + 1, h + 1));
    use proptest::option::of;
    let flags = (of(any::<bool>()), any::<bool>(), of("[a-z]{1,8}"), of(map(2, 3)));
    let parts = (
        of(tensor),
        [sizes(2), sizes(2)],
        map(3, 2),
        element(),
        buffer_type(),
        layout,
        of(vec(range, 0..3)),
        flags,
    );
    parts.prop_map(|(tensor, [grid, shard], map, element, buffer_type, layout, ranges, flags)| {
        let like = Tensor { shape: vec![1; 3], dtype: DType::F32 };
        let mut ttnn =
            TtnnLayout::new(like, AffineMap::identity(3), Element::Scalar(DType::F32)).expect("a layout");
        (ttnn.tensor, ttnn.grid, ttnn.shard, ttnn.map, ttnn.element) = (tensor, grid, shard, map, element);
        (ttnn.buffer_type, ttnn.memory_layout, ttnn.core_ranges) = (buffer_type, layout, ranges);
        (ttnn.exact_grid, ttnn.ignore_physical_layout, ttnn.mesh, ttnn.grid_map) = flags;
        ttnn
    })
}

fn nd_layout() -> impl Strategy<Value = TtnnNdLayout> {
    let tensor = (sizes(3), dtype()).prop_map(|(shape, dtype)| Tensor { shape, dtype });
    let how = select(vec![None, Some(ShardDistribution::RoundRobin1d), Some(ShardDistribution::Grid2d)]);
    let parts =
        (proptest::option::of(tensor), sizes(2), sizes(3), element(), buffer_type(), orientation(), how);
    parts.prop_map(|(tensor, grid, shard, element, buffer_type, orientation, how)| {
        let mut nd = TtnnNdLayout::new(grid, shard, element);
        (nd.tensor, nd.buffer_type, nd.orientation, nd.distribution) =
            (tensor, buffer_type, Some(orientation), how);
        nd
    })
}

fn buffer() -> impl Strategy<Value = Buffer> {
    let offset = proptest::option::of(0..1u64 << 62);
    let arrangement = prop_oneof![
        Just(Arrangement::RowMajor),
        Just(Arrangement::Viewed),
        (sizes(4), offset).prop_map(|(strides, offset)| Arrangement::Strided { strides, offset }),
        (sizes(2), proptest::option::of(1u64..4))
            .prop_map(|(strides, buffers)| Arrangement::Shard { strides, buffers }),
        (sizes(4), 1u64..4).prop_map(|(strides, buffers)| Arrangement::Circular { strides, buffers }),
        sizes(2).prop_map(|strides| Arrangement::Interleaved { strides }),
    ];
    let memory = proptest::option::of(prop_oneof![
        memory().prop_map(BufferMemory::Space),
        buffer_type().prop_map(BufferMemory::Type)
    ]);
    let parts = (sizes(4), element(), arrangement, memory, proptest::option::of(map(4, 4)));
    parts.prop_map(|(shape, element, arrangement, memory, view)| {
        let mut buffer = Buffer::new(shape, element);
        // A host array has no memory and elements, and is another descriptor.
        let is_host = matches!(arrangement, Arrangement::RowMajor | Arrangement::Strided { .. });
        buffer.memory = if is_host { memory.or(Some(BufferMemory::Space(MemorySpace::L1))) } else { memory };
        if matches!(arrangement, Arrangement::Shard { .. } | Arrangement::Viewed) {
            buffer.view = view;
        }
        buffer.arrangement = arrangement;
        buffer
    })
}

fn ttnn() -> impl Strategy<Value = Ttnn> {
    let plain =
        select(vec![DType::Bf16, DType::F32, DType::U8, DType::U16, DType::U32, DType::I32, DType::I8]);
    let dtype = prop_oneof![
        plain.prop_map(Format::Plain),
        Just(Format::TtE4M3),
        select(BlockFormat::ALL.to_vec()).prop_map(Format::Block)
    ];
    let layout = prop_oneof![
        Just(PageLayout::RowMajor),
        (tile_shape(), any::<bool>())
            .prop_map(|(shape, t)| PageLayout::Tile { shape, transpose: t && shape.can_transpose() })
    ];
    let scheme = select(vec![Scheme::Height, Scheme::Width, Scheme::Block, Scheme::Nd]);
    let strategy = select(vec![Handed::RoundRobin1d, Handed::Grid2d, Handed::Contiguous1d]);
    let shard = vec(1u64..1 << 40, 2).prop_map(|s| s.iter().map(|n| n * 32).collect::<Vec<_>>());
    let memory = prop_oneof![
        Just(Memory::Single),
        (size(), size())
            .prop_map(|(banks, alignment)| Memory::Interleaved(Interleaved::new(banks, alignment))),
        (Just((0..9).collect::<Vec<u32>>()).prop_shuffle(), size()).prop_map(|(order, alignment)| {
            Memory::Interleaved(Interleaved::new(9, alignment).with_bank_order(order))
        }),
        (scheme, cores(), shard, orientation(), strategy).prop_map(
            |(scheme, grid, shard, orientation, strategy)| {
                let one = grid.rectangle().is_some();
                // Rows and columns of shards are those of one rectangle of cores.
                let scheme = if scheme == Scheme::Block && !one { Scheme::Nd } else { scheme };
                let shards = Sharded::new(scheme, grid, shard).with_orientation(orientation);
                let any = scheme == Scheme::Nd && one;
                Memory::Sharded(if any { shards.with_strategy(strategy) } else { shards })
            }
        )
    ];
    let pad = proptest::option::of(any::<u64>().prop_map(|bits| PadValue::new(f64::from_bits(bits))));
    let buffer_type =
        proptest::option::of(select(vec![BufferType::Dram, BufferType::L1, BufferType::L1Small]));
    (dtype, layout, pad, memory, buffer_type)
        .prop_filter("block floats are tiled", |(dtype, layout, ..)| {
            !matches!((dtype, layout), (Format::Block(_), PageLayout::RowMajor))
        })
        .prop_map(|(dtype, layout, pad_value, memory, buffer_type)| {
            let mut ttnn = Ttnn::new(dtype, layout).with_memory(memory);
            (ttnn.pad_value, ttnn.buffer_type) = (pad_value, buffer_type);
            ttnn
        })
}

/// One rectangle of cores anywhere, or several that lie apart.
fn cores() -> impl Strategy<Value = CoreRangeSet> {
    let size = || 1u64..1 << 40;
    let apart = vec((0u64..4, size(), 1u64..7), 1..5).prop_map(|ranges| {
        let range = |(k, (x, columns, rows))| CoreRange::new(x, 8 * k, columns, rows);
        CoreRangeSet::new((0u64..).zip(ranges).map(range))
    });
    prop_oneof![(size(), size()).prop_map(|(rows, columns)| CoreRangeSet::grid(rows, columns)), apart]
}

fn spyre() -> impl Strategy<Value = SpyreLayout> {
    let explicit = (1usize..5).prop_flat_map(|rank| {
        let dims = Just((0..rank).map(Some).collect::<Vec<_>>()).prop_shuffle();
        let format =
            select(DataFormat::all().filter(|f| f.elements_per_stick().is_some()).collect::<Vec<_>>());
        let parts = (sizes(rank), dims, vec(-1..=i64::MAX, rank + 1), proptest::option::of(format), 0..3);
        parts.prop_map(|(mut device_size, mut dims, strides, dtype, which)| {
            device_size.push(dtype.and_then(DataFormat::elements_per_stick).unwrap_or(64));
            dims.push(if which == 0 { None } else { dims[0] });
            let dim_map = (which < 2).then_some(dims);
            let stride_map = (which > 0).then_some(strides);
            let mut explicit = Explicit::new(device_size);
            (explicit.dim_map, explicit.stride_map, explicit.dtype) = (dim_map, stride_map, dtype);
            SpyreLayout::from(explicit)
        })
    });
    let constructor = (0usize..5).prop_flat_map(|rank| {
        let dtypes = DType::all().filter(|d| DataFormat::of(*d).is_some()).collect::<Vec<_>>();
        let order = Just((0..rank).map(Some).collect::<Vec<_>>()).prop_shuffle();
        (sizes(rank), select(dtypes), proptest::option::of((order, any::<bool>()))).prop_map(
            |(size, dtype, order)| {
                let dim_order = order.map(|(mut order, sparse)| {
                    order.extend(sparse.then_some(None));
                    order
                });
                let mut made = Constructor::new(size.clone(), dtype);
                made.dim_order = dim_order;
                // Today's form has strides.
                let strided =
                    if made.dim_order.is_none() { made.with_strides(vec![7; size.len()]) } else { made };
                SpyreLayout::from(strided)
            },
        )
    });
    prop_oneof![explicit, constructor]
}

fn three_tuple() -> impl Strategy<Value = ThreeTuple> {
    (0usize..9).prop_flat_map(|rank| {
        (sizes(rank), vec(any::<i64>(), rank), vec(any::<i64>(), rank)).prop_map(
            |(ranges, device_strides, host_strides)| ThreeTuple::new(ranges, device_strides, host_strides),
        )
    })
}

fn dci() -> impl Strategy<Value = Dci> {
    let nest = (0usize..5).prop_flat_map(|rank| {
        let parts = (sizes(rank), vec(any::<i64>(), rank), vec(any::<i64>(), rank), size(), size());
        parts.prop_map(|(size, source_strides, destination_strides, source_offset, destination_offset)| {
            Dcsi::new(size, source_strides, destination_strides)
                .with_offsets(source_offset, destination_offset)
        })
    });
    let format = || proptest::option::of(select(DataFormat::all().collect::<Vec<_>>()));
    (any::<bool>(), format(), format(), vec(nest, 0..4), sizes(0..4), sizes(0..4)).prop_map(
        |(host_to_device, source_format, destination_format, nests, input_shape, output_shape)| {
            let mut dci = Dci::new(nests).with_shapes(input_shape, output_shape);
            dci.host_to_device = host_to_device;
            (dci.source_format, dci.destination_format) = (source_format, destination_format);
            dci
        },
    )
}

fn descriptor() -> impl Strategy<Value = Descriptor> {
    prop_oneof![
        memref().prop_map(Descriptor::Memref),
        mx().prop_map(Descriptor::Mx),
        metal().prop_map(Descriptor::Metal),
        constructor().prop_map(Descriptor::MetalConstructor),
        current().prop_map(Descriptor::MetalCurrent),
        ttnn_layout().prop_map(Descriptor::TtnnLayout),
        nd_layout().prop_map(Descriptor::TtnnNdLayout),
        buffer().prop_map(Descriptor::Buffer),
        ttnn().prop_map(Descriptor::Ttnn),
        spyre().prop_map(Descriptor::Spyre),
        three_tuple().prop_map(Descriptor::Tuple),
        dci().prop_map(Descriptor::Dci),
    ]
}

fn mapper() -> impl Strategy<Value = Mapper> {
    let placement = prop_oneof![any::<i64>().prop_map(MeshPlacement::Shard), Just(MeshPlacement::Replicate)];
    let dim = || proptest::option::of(any::<i64>());
    prop_oneof![
        (vec(1u64..9, 1..4), any::<i64>()).prop_map(|(mesh_shape, dim)| Mapper::shard(mesh_shape, dim)),
        ([1u64..200, 1u64..200], [dim(), dim()])
            .prop_map(|(mesh_shape, dims)| Mapper::shard_2d(mesh_shape, dims)),
        vec(1u64..9, 1..4).prop_map(Mapper::replicate),
        vec((placement, 1u64..9), 1..5).prop_map(|dims| {
            let (placements, mesh_shape) = dims.into_iter().unzip();
            Mapper::config(placements, mesh_shape)
        }),
        vec((any::<i64>().prop_map(MeshPlacement::Shard), 1u64..9), 1..5).prop_map(|dims| {
            let (placements, shape) = dims.into_iter().unzip();
            Mapper::config_over(placements, vec![16, 512], shape)
        }),
    ]
}

/// Replaces, deletes, repeats or inserts pieces of a text.
fn mutate(text: &str, edits: &[(usize, usize, u8, char)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (at, len, kind, c) in edits {
        let at = at % (chars.len() + 1);
        let end = (at + len % 9).min(chars.len());
        match kind % 4 {
            0 => drop(chars.drain(at..end)),
            1 => chars.insert(at, *c),
            2 => {
                let piece = chars[at..end].to_vec();
                chars.splice(at..at, piece);
            }
            _ => chars.iter_mut().skip(at).take(1).for_each(|old| *old = *c),
        }
    }
    chars.into_iter().collect()
}

/// A text that parses prints back; one that does not has an error that shows its place.
fn sound<T: FromStr<Err = Error> + Display + PartialEq + Debug>(text: &str) {
    match text.parse::<T>() {
        Ok(value) => assert_eq!(value.to_string().parse().as_ref(), Ok(&value), "{text}"),
        Err(error) => {
            if let Error::Text { span, .. } = &error {
                assert!(text.get(span.clone()).is_some(), "{span:?} in {text}");
            }
            assert!(!error.diagnostic().is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_descriptor_prints_as_itself(descriptor in descriptor()) {
        prop_assert_eq!(descriptor.validate(), Ok(()));
        let text = descriptor.to_string();
        let back = text.parse::<Descriptor>().map_err(|e| TestCaseError::fail(e.diagnostic()))?;
        prop_assert_eq!(back, descriptor, "{}", text);
    }

    #[test]
    fn every_mapper_prints_as_itself(mapper in mapper()) {
        prop_assert_eq!(mapper.to_string().parse(), Ok(mapper));
    }

    #[test]
    fn every_device_prints_as_itself(map in map(2, 3), grid in sizes(2), ids in proptest::collection::hash_set(0u64..1000, 1..20), dram in proptest::option::of(sizes(2)), topology in vec(select(vec![Topology::Ring, Topology::Linear, Topology::Disabled]), 0..3)) {
        let chip_ids: Vec<u64> = ids.into_iter().collect();
        let mesh_shape = if chip_ids.len() == 1 { vec![] } else { vec![1, chip_ids.len() as u64] };
        let mut device = Device::new(grid, map, mesh_shape, chip_ids);
        device.dram_grid = dram;
        device.mesh_topology = topology;
        prop_assert_eq!(device.to_string().parse(), Ok(device));
    }

    #[test]
    fn every_buffer_config_prints_as_itself(global in [size(), size()], shard in [size(), size()], global_size in size(), o in orientation()) {
        let config = ShardedBufferConfig { global_size, global_buffer_shape: global, shard_shape: shard, shard_orientation: o };
        prop_assert_eq!(config.to_string().parse(), Ok(config));
    }

    #[test]
    fn mutated_texts_never_panic(
        text in select(["layouts", "devices", "meshes"].map(corpus).concat()),
        edits in vec((any::<usize>(), any::<usize>(), any::<u8>(), prop_oneof![select("()<>[]{},=-+*x#!.\"'9 0\n".chars().collect::<Vec<_>>()), any::<char>()]), 1..6),
    ) {
        let mutated = mutate(&text, &edits);
        sound::<Descriptor>(&mutated);
        sound::<Device>(&mutated);
        sound::<Mapper>(&mutated);
        sound::<ShardedBufferConfig>(&mutated);
    }

    #[test]
    fn any_string_is_read_or_refused(text in any::<String>()) {
        sound::<Descriptor>(&text);
    }
}

#[test]
fn mappers_of_the_compiler_are_those_of_the_runtime() {
    let config =
        |rest: &str| format!("#ttnn.mesh_mapper_config<placements = [<shard, 1 : i64>, <replicate>]{rest}>");
    let mapper: Mapper = there_and_back(&config(", mesh_shape_override = [2 : i64, 4]"));
    assert_eq!(mapper, "MeshMapperConfig([Shard(1), Replicate()], mesh_shape=(2, 4))".parse().unwrap());
    assert_eq!(message::<Mapper>(&config("")), "`mesh_shape_override=` is missing");
    let wrong = config(", mesh_shape_override = [2]").replace("shard", "shrad");
    assert_eq!(message::<Mapper>(&wrong), "`shrad` is not a placement: did you mean `shard`?");
}

#[test]
fn devices_of_all_dates() {
    let maps =
        "virt_to_physical_map = (d0, d1) -> (0, d0, d1), physical_to_virt_map = (d0, d1, d2) -> (d1, d2)";
    let address = "l1Map = (d0, d1, d2)[s0] -> (0, d0, d1, d2 + s0), dramMap = (d0, d1, d2)[s0, s1] -> (0, 0, (d0 * s1 + d2) mod 12, d0 * (s0 * s1))";
    let today = format!(
        "workerGrid = #ttcore.grid<8x8, {maps}>, dramGrid = #ttcore.grid<1x12>, {address}, meshShape = , chipIds = [0], meshTopology = [ring, linear]"
    );
    let attribute: Device = there_and_back(&format!("#ttcore.device<{today}>"));
    assert_eq!((attribute.dram_grid.as_deref(), attribute.mesh_shape.len()), (Some(&[1, 12][..]), 0));
    assert_eq!(attribute.mesh_topology, [Topology::Ring, Topology::Linear]);
    assert_eq!(format!("ttcore.device @default_device = <{today}>").parse(), Ok(attribute));
    let first: Device = there_and_back("#tt.device<#tt.grid<8x8, (d0, d1) -> (0, d0, d1)>, [0]>");
    let plain: Device =
        there_and_back("#tt.device<workerGrid = #tt.grid<8x8>, meshShape = 1, chipIds = [0]>");
    assert_eq!(first, plain);
}

#[test]
fn warnings_are_as_many_as_a_reader_reads() {
    let text = |keys: usize| {
        let others: String = (0..keys).map(|k| format!(", key_{k}=1")).collect();
        format!(
            "SpyreTensorLayout(device_size=[4, 64, 64], stride_map=[64, 256, 1], device_dtype=DataFormats.SEN169_FP16{others})"
        )
    };
    for (keys, warnings, last) in [(16, 16, "key_15"), (17, 17, "and 1 more"), (1000, 17, "and 984 more")] {
        let parsed = parse(&text(keys)).unwrap();
        assert_eq!(parsed.warnings.len(), warnings);
        assert!(parsed.warnings.last().unwrap().contains(last), "{:?}", parsed.warnings);
    }
}
