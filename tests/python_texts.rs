//! What ttnn 0.81.1 prints of its tensors in Python, and what is wrong with texts like it.

use tilewright::Error;
use tilewright::family::Descriptor;
use tilewright::family::tenstorrent::cores::{CoreRange, CoreRangeSet, Orientation};
use tilewright::family::tenstorrent::memory::BufferType;
use tilewright::family::tenstorrent::mesh::{Mapper, MeshPlacement};
use tilewright::family::tenstorrent::ttnn::{Memory, Scheme, Sharded, Strategy, Ttnn};
use tilewright::text::parse;

/// The descriptor of a text, which prints as a text that reads the same.
fn ttnn(text: &str) -> Ttnn {
    let read = |text: &str| match text.parse::<Descriptor>() {
        Ok(Descriptor::Ttnn(ttnn)) => ttnn,
        Ok(other) => panic!("{other:?}"),
        Err(error) => panic!("{}", error.diagnostic()),
    };
    let first = read(text);
    assert_eq!(read(&first.to_string()), first, "{text}");
    first
}

fn with(memory_config: &str) -> Ttnn {
    ttnn(&format!("ttnn(dtype=DataType.BFLOAT16, layout=Layout.TILE, memory_config={memory_config})"))
}

fn mapper(text: &str) -> Mapper {
    let first: Mapper = text.parse().unwrap_or_else(|e: Error| panic!("{}", e.diagnostic()));
    assert_eq!(first.to_string().parse::<Mapper>().unwrap(), first, "{text}");
    first
}

/// As version 0.81.1 prints it, without the brace that ends the rectangle.
const BLOCK: &str = r#"MemoryConfig(memory_layout=TensorMemoryLayout::BLOCK_SHARDED,buffer_type=BufferType::L1,shard_spec=ShardSpec{grid=[{"start":{"x":0,"y":0},"end":{"x":7,"y":7}], shape=[64, 64], orientation=ShardOrientation::ROW_MAJOR},nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)"#;
const ND: &str = r#"MemoryConfig(memory_layout=TensorMemoryLayout::ND_SHARDED,buffer_type=BufferType::DRAM,shard_spec=std::nullopt,nd_shard_spec={"shard_shape":[2, 32, 64],"grid":[{"start":{"x":0,"y":0},"end":{"x":7,"y":7}}],"orientation":"ShardOrientation::COL_MAJOR","shard_distribution_strategy":"ShardDistributionStrategy::ROUND_ROBIN_1D"},created_with_nd_shard_spec=1,per_core_allocation=0,range_lockstep_allocation=0)"#;
const DRAM: &str = "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)";

fn sharded(scheme: Scheme, grid: CoreRangeSet, shard: &[u64]) -> Sharded {
    Sharded::new(scheme, grid, shard.to_vec())
}

#[test]
fn memory_configurations_are_read_as_they_are_printed() {
    let block = sharded(Scheme::Block, CoreRangeSet::grid(8, 8), &[64, 64]);
    for text in [BLOCK.to_string(), BLOCK.replace(r#""y":7}]"#, r#""y":7}}]"#)] {
        let read = with(&text);
        assert_eq!(read.memory, Memory::Sharded(block.clone()));
        assert_eq!(read.buffer_type, Some(BufferType::L1));
        assert!(
            parse(&format!("ttnn(dtype=float32, layout=TILE, memory_config={text})"))
                .unwrap()
                .warnings
                .is_empty()
        );
    }
    let nd =
        sharded(Scheme::Nd, CoreRangeSet::grid(8, 8), &[2, 32, 64]).with_orientation(Orientation::ColMajor);
    assert_eq!(with(ND).memory, Memory::Sharded(nd.clone()));
    let contiguous = with(&ND.replace("ROUND_ROBIN_1D", "CONTIGUOUS_1D"));
    assert_eq!(contiguous.memory, Memory::Sharded(nd.with_strategy(Strategy::Contiguous1d)));

    // Interleaved memory names no banks; a device's are given beside it.
    let parsed = parse(&format!("ttnn(dtype=float32, layout=TILE, memory_config={DRAM})")).unwrap();
    assert!(matches!(&parsed.descriptor, Descriptor::Ttnn(t) if t.memory == Memory::Single));
    assert!(parsed.warnings[0].contains("banks"), "{:?}", parsed.warnings);
    let banks =
        ttnn(&format!("ttnn(dtype=float32, layout=TILE, memory_config={DRAM}, banks=12, alignment=32)"));
    let plain = ttnn(
        "ttnn(dtype=float32, layout=TILE, memory=INTERLEAVED, banks=12, alignment=32, buffer_type=DRAM)",
    );
    assert_eq!(banks, plain);
}

#[cfg(feature = "json")]
#[test]
fn memory_configurations_are_read_as_json() {
    let block = r#"{"buffer_type":1,"created_with_nd_shard_spec":false,"memory_layout":4,"per_core_allocation":false,"shard_spec":{"grid":[{"end":{"x":7,"y":7},"start":{"x":0,"y":0}}],"orientation":0,"shape":[64,64]}}"#;
    assert_eq!(with(block), with(BLOCK));
    let nd = r#"{"buffer_type":0,"memory_layout":5,"nd_shard_spec":{"grid":[{"end":{"x":7,"y":7},"start":{"x":0,"y":0}}],"orientation":1,"shard_shape":[2,32,64],"shard_distribution_strategy":0}}"#;
    assert_eq!(with(nd), with(ND));
    for (from, to, mentioned) in [
        (
            r#""memory_layout":4"#,
            r#""memory_layout":9"#,
            "memory_layout: given `9`, needed one of 0, 2, 3, 4, 5",
        ),
        (r#""memory_layout":4"#, r#""memory_layout":0"#, "INTERLEAVED memory has no shards"),
        (r#","shape":[64,64]"#, "", "shard_spec has no `shape`"),
        (r#"[64,64]"#, r#"[64,"a"]"#, "needed a list of numbers"),
        (r#""x":7"#, r#""x":-7"#, "rectangles"),
        (r#"]}}"#, r#"]}"#, "JSON"),
    ] {
        let text = format!("ttnn(dtype=float32, layout=TILE, memory_config={})", block.replacen(from, to, 1));
        let message = parse(&text).unwrap_err().to_string();
        assert!(message.contains(mentioned), "{message}");
    }
}

#[test]
fn enumerators_and_shapes_are_read_in_the_spellings_of_python() {
    let plain = ttnn("ttnn(dtype=bfloat8_b, layout=TILE)");
    for text in [
        "ttnn(dtype=DataType.BFLOAT8_B, layout=Layout.TILE)",
        "ttnn(dtype=DataType::BFLOAT8_B, layout=Layout::TILE)",
        "ttnn(dtype=ttnn.bfloat8_b, layout=ttnn.TILE_LAYOUT)",
        "ttnn(dtype=BFLOAT8_B, layout=TILE, tile=Tile with shape: [32, 32])",
        "ttnn(dtype=BFLOAT8_B, layout=TILE, tile=ttnn.Tile((32, 32)))",
    ] {
        assert_eq!(ttnn(text), plain, "{text}");
    }
    let sharded = "ttnn(dtype=float32, layout=TILE, memory=HEIGHT_SHARDED, grid=(4, 8), shard=(32, 64))";
    for grid in [
        "ttnn.CoreGrid(x=8, y=4)",
        "ttnn.CoreGrid(y=4, x=8)",
        "{[0-0 - 7-3]}",
        "{[(x=0,y=0) - (x=7,y=3)]}",
        "CoreRangeSet({[0-0 - 7-3]})",
        r#"[{"start":{"x":0,"y":0},"end":{"x":7,"y":3}}]"#,
    ] {
        assert_eq!(ttnn(&sharded.replace("(4, 8)", grid)), ttnn(sharded), "{grid}");
    }
    for shard in ["[32, 64]", "Shape([32, 64])", "ttnn.Shape((32, 64))", "torch.Size([32, 64])"] {
        assert_eq!(ttnn(&sharded.replace("(32, 64)", shard)), ttnn(sharded), "{shard}");
    }
    let apart = CoreRangeSet::new([CoreRange::new(0, 0, 8, 3), CoreRange::new(0, 3, 4, 1)]);
    let read = ttnn(&sharded.replace("(4, 8)", "{[0-0 - 7-2], [0-3 - 3-3]}"));
    assert!(matches!(&read.memory, Memory::Sharded(s) if s.grid == apart), "{read:?}");
}

#[test]
fn mappers_are_read_as_python_prints_them() {
    use MeshPlacement::{Replicate, Shard};
    let config = Mapper::config(vec![Shard(0), Replicate], vec![2, 4]);
    for text in [
        "MeshMapperConfig(placements: [PlacementShard(0), PlacementReplicate()], mesh_shape_override=MeshShape([2, 4]))",
        "MeshMapperConfig([Shard(0), Replicate()], mesh_shape=(2, 4))",
        "ttnn.MeshMapperConfig([ttnn.PlacementShard(0), ttnn.PlacementReplicate()], ttnn.MeshShape(2, 4))",
        "MeshMapperConfig(placements: [PlacementShard(0), PlacementReplicate()], mesh_shape_override=std::nullopt, mesh_shape=MeshShape([2, 4]))",
        "TensorTopology(distribution_shape=MeshShape([2, 4]), placements=SmallVector([PlacementShard(0), PlacementReplicate()]))",
    ] {
        assert_eq!(mapper(text), config, "{text}");
    }
    let over = Mapper::config_over(vec![Shard(-1)], vec![2, 4], vec![8]);
    assert_eq!(mapper("MeshMapperConfig([Shard(-1)], mesh_shape=(2, 4), mesh_shape_override=(8,))"), over);
    // A part of a mesh that keeps its coordinates, and one that is taken row by row.
    let inside = Mapper::config_over(vec![Shard(0), Shard(1)], vec![2, 4], vec![2, 2]);
    assert_eq!(inside.coordinates().unwrap(), [[0, 0], [0, 1], [1, 0], [1, 1]]);
    let rows = Mapper::config_over(vec![Shard(0), Shard(1)], vec![2, 4], vec![4, 1]);
    assert_eq!(rows.coordinates().unwrap(), [[0, 0], [0, 1], [0, 2], [0, 3]]);
}

/// A text and what its message says.
const WRONG: &[(&str, &[&str])] = &[
    ("ttnn(dtype=DataType.BFLOAT9_B, layout=TILE)", &["BFLOAT9_B", "a dtype", "bfloat8_b"]),
    ("ttnn(dtype=DataType., layout=TILE)", &["a dtype", "`,`"]),
    ("ttnn(dtype=float32, layout=Layout.TILES)", &["TILES", "did you mean `TILE`"]),
    ("ttnn(dtype=float32, layout=TILE, tile=Tile with shape [32, 32])", &["`:`", "`[`"]),
    ("ttnn(dtype=float32, layout=TILE, tile=Tile([33, 32]))", &["33x32"]),
    ("ttnn(dtype=float32, layout=TILE, strategy=GRID_2D)", &["`strategy=` needs a sharded `memory=`"]),
    ("ttnn(dtype=float32, layout=TILE, bank_order=[0])", &["`bank_order=` needs `memory=INTERLEAVED`"]),
    (
        "ttnn(dtype=float32, layout=TILE, memory=INTERLEAVED, banks=3, alignment=16, bank_order=[0, 1])",
        &["bank_order", "2 entries", "3"],
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory=INTERLEAVED, banks=3, alignment=16, bank_order=[0, 1, 1])",
        &["1 twice", "0 to 2"],
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory=INTERLEAVED, banks=3, alignment=16, bank_order=[0, 1, 3])",
        &["given 3", "0 to 2"],
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory=INTERLEAVED, banks=2, alignment=16, bank_order=[0, 4294967296])",
        &["4294967296", "32 bits"],
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory=HEIGHT_SHARDED, grid=(2, 2), shard=(32, 32), strategy=GRID_2D)",
        &["GRID_2D", "ROUND_ROBIN_1D", "HEIGHT_SHARDED"],
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory=BLOCK_SHARDED, grid=(2, 2), shard=(32, 32), strategy=CONTIGUOUS_1D)",
        &["CONTIGUOUS_1D", "GRID_2D", "BLOCK_SHARDED"],
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory=ND_SHARDED, grid=(2, 2), shard=(2, 32, 32), strategy=GRID_2D)",
        &["3 dimensions", "2x32x32", "two-dimensional"],
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory=BLOCK_SHARDED, grid={[0-0 - 1-1], [0-2 - 0-2]}, shard=(32, 32))",
        &["2 rectangles", "one"],
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory=HEIGHT_SHARDED, grid={[0-0 - 1-1], [1-1 - 2-2]}, shard=(32, 32))",
        &["[0-0 - 1-1]", "[1-1 - 2-2]", "overlap"],
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory=HEIGHT_SHARDED, grid={[1-1 - 0-0]}, shard=(32, 32))",
        &["ends at [0, 0]", "[1, 1]"],
    ),
    ("ttnn(dtype=float32, layout=TILE, memory=HEIGHT_SHARDED, grid={}, shard=(32, 32))", &["no cores"]),
    (
        "ttnn(dtype=float32, layout=TILE, memory=HEIGHT_SHARDED, grid=(0, 4), shard=(32, 32))",
        &["0 rows by 4 columns"],
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory=HEIGHT_SHARDED, grid=(1, 2, 3), shard=(32, 32))",
        &["two numbers", "3"],
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory=HEIGHT_SHARDED, grid=CoreGrid(x=8), shard=(32, 32))",
        &["`y=` is missing"],
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory=HEIGHT_SHARDED, grid=CoreGrid(x=8, z=1), shard=(32, 32))",
        &["`z`", "CoreGrid"],
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory=HEIGHT_SHARDED, grid=(2, 2), memory_config=MemoryConfig(memory_layout=INTERLEAVED), shard=(32, 32))",
        &["both say where pages go"],
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory_config=MemoryConfig(buffer_type=L1))",
        &["`memory_layout=` is missing"],
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory_config=MemoryConfig(memory_layout=TensorMemoryLayout::HEIGHT_SHARDED,shard_spec=std::nullopt))",
        &["HEIGHT_SHARDED memory needs shards", "shard_spec"],
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory_config=MemoryConfig(memory_layout=HEIGHT_SHARDED,shard_spec=ShardSpec{shape=[32, 32]}))",
        &["shard_spec has no `grid`"],
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory_config=MemoryConfig(memory_layout=HEIGHT_SHARDED,shard_spec=ShardSpec{shapes=[32, 32]}))",
        &["`shapes`", "did you mean `shape`"],
    ),
    (
        "ttnn(dtype=float32, layout=TILE, memory_config=MemoryConfigs(memory_layout=INTERLEAVED))",
        &["did you mean `MemoryConfig`"],
    ),
    ("ttnn(dtype=float32, layout=TILE, buffer_type=L2)", &["`L2`", "a buffer type"]),
    ("MemoryConfig(memory_layout=INTERLEAVED)", &["`MemoryConfig`", "memory_config="]),
    ("MeshMapperConfig([Shard(0)], mesh_shape=(8,))", &["mesh mapper", "--mesh"]),
    ("SpyreTensorLayout([512, 256], [256], torch.float16, [0, 1])", &["strides", "1 entry", "2"]),
    ("SpyreTensorLayout([512, 256], [256, -1], torch.float16, [0, 1])", &["strides", "-1", "0 or more"]),
    (
        "SpyreTensorLayout([512, 256], [256, 1], torch.float16, [0, 1], ElementArrangement.DL16_TO_FP32)",
        &["DL16_TO_FP32", "known byte order", "QFP8WT"],
    ),
    ("SpyreTensorLayout([512, 256], [256, 1], float16)", &["`torch.`", "float16"]),
    ("SpyreTensorLayout([512, 256], [256, 1], torch.float16, [0, 2])", &["dimension 2", "2 dimensions"]),
];

const WRONG_MAPPERS: &[(&str, &[&str])] = &[
    (
        "MeshMapperConfig(placements: [PlacementShard(0)], mesh_shape_override=std::nullopt)",
        &["`mesh_shape=` is missing"],
    ),
    ("MeshMapperConfig([Shard(0)], mesh_shape=(2, 4))", &["1 entry", "2, one for each mesh dimension"]),
    (
        "MeshMapperConfig([Shard(0), Shard(1)], mesh_shape=(2, 4), mesh_shape_override=(8,))",
        &["2 entries", "mesh_shape_override"],
    ),
    (
        "MeshMapperConfig([Shard(0), Shard(1)], mesh_shape=(2, 4), mesh_shape_override=(1, 9))",
        &["9 devices", "1x9", "8 of the mesh"],
    ),
    ("MeshMapperConfig([Shards(0)], mesh_shape=(8,))", &["`Shards`", "did you mean `Shard`"]),
    (
        "MeshMapperConfig([Shard(0)], mesh_shape=(8,), mesh_shapes=(8,))",
        &["`mesh_shapes`", "did you mean `mesh_shape`"],
    ),
    ("ShardTensorToMesh(mesh_shape=MeshShapes([8]), dim=0)", &["`MeshShapes`", "did you mean `MeshShape`"]),
    ("TensorTopology(placements=SmallVector([PlacementShard(0)]))", &["`distribution_shape=` is missing"]),
    (
        "TensorTopology(distribution_shape=MeshShape([2]), placements=SmallVector([PlacementShard(0)]), mesh_coords=MeshCoordinate([0]), MeshCoordinate([0, 1]))",
        &["1 numbers", "(0, 1)"],
    ),
    (
        "TensorTopology(distribution_shape=MeshShape([2]), placements=SmallVector([PlacementShard(0)]), mesh_coords=MeshCoordinate([1]), MeshCoordinate([0]))",
        &["row by row"],
    ),
    (
        "TensorTopology(distribution_shape=MeshShape([9]), placements=SmallVector([PlacementShard(0)]), mesh_coords=MeshCoordinate([0, 0]))",
        &["9 devices"],
    ),
    ("TensorTopology(distribution=MeshShape([2]))", &["`distribution`", "distribution_shape"]),
];

#[test]
fn wrong_texts_are_errors_that_say_what_to_change() {
    let check = |text: &str, mentioned: &[&str], error: Error| {
        let message = error.to_string();
        assert!(
            mentioned.iter().all(|part| message.contains(part)),
            "{text}\n{message}\nwithout one of {mentioned:?}"
        );
        assert!(!error.diagnostic().is_empty());
    };
    for &(text, mentioned) in WRONG {
        check(text, mentioned, parse(text).expect_err(text));
    }
    for &(text, mentioned) in WRONG_MAPPERS {
        check(text, mentioned, text.parse::<Mapper>().expect_err(text));
    }
}
