"""Tensors of ttnn as models of layouts, by stand-ins that print what ttnn 0.81.1 prints."""

import numpy as np
import pytest

import tilewright

BLOCK = (
    "MemoryConfig(memory_layout=TensorMemoryLayout::BLOCK_SHARDED,buffer_type=BufferType::L1,shard_spec=ShardSpec{"
    'grid=[{"start":{"x":0,"y":0},"end":{"x":7,"y":7}], shape=[64, 64], orientation=ShardOrientation::ROW_MAJOR},'
    "nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)"
)
DRAM = (
    "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM,shard_spec=std::nullopt,"
    "nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)"
)
TOPOLOGY = (
    "TensorTopology(distribution_shape=MeshShape([2]), placements=SmallVector([PlacementShard(0)]), "
    "mesh_coords=MeshCoordinate([0, 0]), MeshCoordinate([0, 1]))"
)


class Printed:
    """Prints as it is told."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


class Spec:
    """A specification: parts are properties."""

    def __init__(self, dtype="DataType.BFLOAT8_B", layout="Layout.TILE", memory=DRAM):
        self.dtype = Printed(dtype)
        self.layout = Printed(layout)
        self.tile = Printed("Tile with shape: [32, 32]")
        self.memory_config = Printed(memory)
        self.shape = Printed("Shape([128, 160])")


class Tensor(Spec):
    """A tensor: its memory configuration and its topology are methods."""

    def __init__(self, *parts, topology=None, **named):
        super().__init__(*parts, **named)
        self._memory = self.memory_config
        del self.memory_config
        self._topology = topology

    def memory_config(self):
        return self._memory

    def tensor_topology(self):
        return None if self._topology is None else Printed(self._topology)


@pytest.fixture
def x():
    return np.random.default_rng(5).standard_normal((128, 160)).astype("f4")


@pytest.mark.parametrize("kind", [Spec, Tensor])
@pytest.mark.parametrize(
    ("memory", "keys"), [(DRAM, ""), (BLOCK, ", memory=BLOCK_SHARDED, grid=(8, 8), shard=(64, 64)")]
)
def test_a_layout_is_that_of_the_tensor(x, kind, memory, keys):
    plan = tilewright.compile(x, like=kind(memory=memory))
    expected = tilewright.convert(x, f"ttnn(dtype=bfloat8_b, layout=TILE{keys})")
    np.testing.assert_array_equal(plan(x), expected)


def test_rows_need_no_tile(x):
    plan = tilewright.compile(x, like=Tensor("DataType.BFLOAT16", "Layout.ROW_MAJOR"))
    np.testing.assert_array_equal(plan(x), tilewright.convert(x, "ttnn(dtype=bfloat16, layout=ROW_MAJOR)"))


def test_a_topology_is_a_mesh(x):
    plan = tilewright.compile(x, like=Tensor(topology=TOPOLOGY))
    mesh = "ShardTensorToMesh(mesh_shape=(1, 2), dim=0)"
    expected = tilewright.compile(x, "ttnn(dtype=bfloat8_b, layout=TILE)", mesh=mesh)(x)
    np.testing.assert_array_equal(plan(x), expected)


def test_two_destinations_are_refused(x):
    with pytest.raises(tilewright.Error, match="beside `like`"):
        tilewright.compile(x, "ttnn(dtype=bfloat8_b, layout=TILE)", like=Spec())


def test_what_is_no_tensor_is_refused(x):
    with pytest.raises(tilewright.Error, match="None"):
        tilewright.compile(x, like=object())


def test_dci_is_that_of_the_copy():
    x = np.zeros((4, 100), "f2")
    text = tilewright.compile(x, "SpyreTensorLayout([4, 100], [100, 1], torch.float16)").dci()
    assert '"size_": [36, 4, 1]' in text
    np.testing.assert_array_equal(
        tilewright.convert(x, text), tilewright.convert(x, "SpyreTensorLayout((4, 100), torch.float16)")
    )
