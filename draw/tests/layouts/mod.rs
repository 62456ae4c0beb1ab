//! The layouts of the gallery: a name, the shape and type of the tensor, and the texts.

use tilewright::family::tenstorrent::device::Device;
use tilewright::family::tenstorrent::mesh::Mapper;
use tilewright::{DType, Descriptor, Layout, Placement, Tensor};
use tilewright_draw::{Hardware, Limits, Picture};

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) shape: &'static [u64],
    pub(crate) dtype: DType,
    pub(crate) to: &'static str,
    pub(crate) device: &'static str,
    pub(crate) mesh: &'static str,
}

const fn case(name: &'static str, shape: &'static [u64], dtype: DType, to: &'static str) -> Case {
    Case { name, shape, dtype, to, device: "", mesh: "" }
}

const TILES: &str = "ttnn(dtype=bfloat16, layout=TILE)";
const GRID: &str = "tensor<64x64xf32, #ttcore.metal_layout<(d0, d1) -> (d0, d1), undef, <8x8>, memref<8x8xf32, #ttcore.memory_space<l1>>>>";

pub(crate) const GALLERY: &[Case] = &[
    case(
        "one-core",
        &[2, 3, 64, 128],
        DType::F32,
        "tensor<2x3x64x128xf32, #ttcore.metal_layout<(d0, d1, d2, d3) -> (d0 * 192 + d1 * 64 + d2, d3), undef, <1x1>, memref<384x128xf32, #ttcore.memory_space<l1>>>>",
    ),
    case(
        "eight-cores",
        &[2, 3, 64, 128],
        DType::F32,
        "tensor<2x3x64x128xf32, #ttcore.metal_layout<(d0, d1, d2, d3) -> (d0 * 192 + d1 * 64 + d2, d3), undef, <2x4>, memref<192x32xf32, #ttcore.memory_space<l1>>>>",
    ),
    case(
        "grid-of-three",
        &[2, 3, 64, 128],
        DType::F32,
        "tensor<2x3x64x128xf32, #ttcore.metal_layout<(d0, d1, d2, d3) -> (d0, d1 * 64 + d2, d3), undef, <2x2x4>, memref<1x96x32xf32, #ttcore.memory_space<l1>>>>",
    ),
    case(
        "padded-tiles",
        &[53, 63],
        DType::F32,
        "tensor<53x63xf32, #ttcore.metal_layout<(d0, d1) -> (d0, d1), undef, <3x2>, memref<1x1x!ttcore.tile<32 x 32, bfp_bf8>, #ttcore.memory_space<l1>>>>",
    ),
    case("sticks", &[1024, 256], DType::F16, "SpyreTensorLayout((1024, 256), torch.float16)"),
    case("padded-sticks", &[1000, 200], DType::F16, "SpyreTensorLayout((1000, 200), torch.float16)"),
    case("three-dimensions", &[5, 100, 150], DType::F16, "SpyreTensorLayout((5, 100, 150), torch.float16)"),
    case(
        "three-dimensions-ordered",
        &[5, 100, 150],
        DType::F16,
        "SpyreTensorLayout((5, 100, 150), torch.float16, [1, 0, 2])",
    ),
    Case {
        mesh: "ShardTensor2dMesh(mesh_shape=(2, 4), dims=(None, 0))",
        ..case("mesh-height", &[4, 3, 32, 32], DType::Bf16, TILES)
    },
    Case {
        mesh: "ShardTensor2dMesh(mesh_shape=(2, 4), dims=(3, None))",
        ..case("mesh-width", &[32, 3, 128, 256], DType::Bf16, TILES)
    },
    Case {
        mesh: "ShardTensor2dMesh(mesh_shape=(2, 4), dims=(2, 3))",
        ..case("mesh-block", &[1, 1, 128, 256], DType::Bf16, TILES)
    },
    Case {
        device: "#tt.device<workerGrid = #tt.grid<8x8, (d0, d1) -> (0, d0, (d0 + d1) mod 8)>, meshShape = 1, chipIds = [0]>",
        ..case("staircase", &[64, 64], DType::F32, GRID)
    },
    Case {
        device: "#tt.device<workerGrid = #tt.grid<8x8, (d0, d1) -> (0, d1, d0)>, meshShape = 1, chipIds = [0]>",
        ..case("transposed", &[64, 64], DType::F32, GRID)
    },
];

/// Pictures of other pages.
pub(crate) const PAGES: &[Case] = &[case(
    "walk",
    &[1, 256],
    DType::F32,
    "tensor<1x256xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x8>, memref<1x1x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<l1>>, <block_sharded>>>",
)];

/// The pictures of the tour, `docs/tour.md`: one tensor in five layouts.
pub(crate) const TOUR: &[Case] = &[
    case("tour-host", &[48, 80], DType::F32, "memref<48x80xf32>"),
    case("tour-tiles", &[48, 80], DType::F32, TILES),
    case(
        "tour-cores",
        &[48, 80],
        DType::F32,
        "ttnn(dtype=bfloat8_b, layout=TILE, memory=BLOCK_SHARDED, grid=(2, 3), shard=(32, 32))",
    ),
    case("tour-sticks", &[48, 80], DType::F32, "SpyreTensorLayout((48, 80), torch.float16)"),
    Case {
        mesh: "ShardTensor2dMesh(mesh_shape=(2, 2), dims=(0, 1))",
        ..case("tour-mesh", &[48, 80], DType::F32, TILES)
    },
];

impl Case {
    /// Calls `look` with the layout and its picture.
    pub(crate) fn with<T>(&self, limits: Limits, look: impl FnOnce(&Layout, &Picture) -> T) -> T {
        let tensor = Tensor::new(self.shape, self.dtype);
        let to: Descriptor = self.to.parse().unwrap_or_else(|e| panic!("{}: {e}", self.name));
        let device = (!self.device.is_empty()).then(|| self.device.parse::<Device>().unwrap());
        let mesh = (!self.mesh.is_empty()).then(|| self.mesh.parse::<Mapper>().unwrap());
        let placement = Placement { device: device.as_ref(), mesh: mesh.as_ref(), ..Placement::default() };
        let layout = to.layout(&tensor, &placement).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        let hardware = Hardware::new(&layout, &to, &placement, &tensor).unwrap();
        let picture = Picture::new(&hardware, limits).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        look(&layout, &picture)
    }
}
