"""Tensor files of tilewright in the real ttnn, and back. By hand; no device is needed.

    TT_METAL_MOCK_CLUSTER_DESC_PATH=n150.yaml python load_in_ttnn.py target/release/tilewright

in an environment with ttnn 0.81.1, torch and numpy; the path is that of a cluster descriptor of a single n150, as tt-metal
has it among its tests. Each case is written by `tilewright convert`, loaded by `ttnn.load_tensor`, and compared with what
ttnn itself makes of the same array: values on each device, memory configuration, mesh. Then ttnn saves what it loaded, and
`tilewright convert` must give the values again.
"""

import itertools
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import ttnn

RNG = np.random.default_rng(11)
TILE, ROWS = "TILE", "ROW_MAJOR"
KINDS = ("bfloat16", "float32", "uint32", "bfloat8_b", "bfloat4_b", "uint8", "uint16", "int32")
BLOCK = ("bfloat8_b", "bfloat4_b")
MEMREF = {"bfloat16": "f32", "float32": "f32", "bfloat8_b": "f32", "bfloat4_b": "f32"}
MEMREF |= {"uint8": "ui8", "uint16": "ui16", "uint32": "ui32", "int32": "i32"}


def array(shape, dtype):
    if dtype == "uint8":
        return RNG.integers(0, 255, shape, dtype=np.uint8)
    if "int" in dtype:
        return RNG.integers(0, 60000, shape, dtype=np.int32)
    return RNG.standard_normal(shape).astype(np.float32)


def made(x, dtype, layout, tile=None, memory=None):
    """The tensor that ttnn makes of an array."""
    more = {"tile": ttnn.Tile(tile)} if tile else {}
    more |= {"memory_config": memory} if memory else {}
    tensor = torch.from_numpy(np.ascontiguousarray(x))
    # Shards of block floats would be rounded twice: through bfloat16.
    return ttnn.from_torch(tensor, dtype=getattr(ttnn, dtype), layout=getattr(ttnn, layout + "_LAYOUT"), **more)


def values(tensor):
    tensor = ttnn.to_torch(tensor)
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy()


def run(*arguments):
    done = subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments}: {done.stderr}"


def parts(x, mesh, cuts):
    """What each device gets, row-major; `cuts` has a dimension or None for each of `mesh`."""
    for at in itertools.product(*map(range, mesh)):
        part = x
        for i, n, d in zip(at, mesh, cuts):
            part = part if d is None else np.split(part, n, axis=d)[i]
        yield part


def joined(held, mesh, cuts):
    """The array whose parts the devices hold. Block floats of a part are not those of the whole."""
    for n, d in reversed(list(zip(mesh, cuts))):
        rows = [held[i : i + n] for i in range(0, len(held), n)]
        held = [row[0] if d is None else np.concatenate(row, axis=d) for row in rows]
    return held[0]


def mesh_cases():
    """Mappers as texts, with the mesh and the cuts that they stand for."""
    yield "ShardTensorToMesh(mesh_shape=(1, 8), dim=0)", (8,), (0,), (1, 8)
    yield "ShardTensorToMesh(mesh_shape=(2, 4), dim=-1)", (8,), (-1,), (2, 4)
    yield "ReplicateTensorToMesh(mesh_shape=(2, 4))", (8,), (None,), (2, 4)
    yield "ShardTensor2dMesh(mesh_shape=(2, 4), dims=(0, 1))", (2, 4), (0, 1), (2, 4)
    yield "ShardTensor2dMesh(mesh_shape=(2, 4), dims=(None, 1))", (2, 4), (None, 1), (2, 4)
    yield "ShardTensor2dMesh(mesh_shape=(2, 4), dims=(1, None))", (2, 4), (1, None), (2, 4)
    yield "MeshMapperConfig([Shard(2), Replicate()], mesh_shape=(4, 2))", (4, 2), (2, None), (4, 2)


def single(room):
    shapes = ((33, 70), (2, 3, 40, 50), (1,), (5, 31), (64, 128))
    for dtype, layout, shape in itertools.product(KINDS, (TILE, ROWS), shapes):
        if dtype in BLOCK and layout == ROWS:
            continue
        yield array(shape, dtype), f"ttnn(dtype={dtype}, layout={layout})", (dtype, layout)
    for tile in ((16, 32), (32, 16), (1, 32), (8, 16)):
        for dtype in ("bfloat16", "bfloat8_b"):
            text = f"ttnn(dtype={dtype}, layout=TILE, tile=({tile[0]}, {tile[1]}))"
            yield array((40, 96), dtype), text, (dtype, TILE, tile)
    scheme, order = ttnn.TensorMemoryLayout, ttnn.ShardOrientation
    for name, grid, shard, layout, turn in (
        ("HEIGHT_SHARDED", (1, 2), (64, 96), TILE, "ROW_MAJOR"),
        ("WIDTH_SHARDED", (1, 3), (128, 32), TILE, "ROW_MAJOR"),
        ("BLOCK_SHARDED", (2, 3), (64, 32), TILE, "ROW_MAJOR"),
        ("BLOCK_SHARDED", (3, 2), (64, 32), TILE, "COL_MAJOR"),
        ("HEIGHT_SHARDED", (2, 2), (25, 70), ROWS, "ROW_MAJOR"),
        ("WIDTH_SHARDED", (1, 3), (100, 32), ROWS, "COL_MAJOR"),
        ("BLOCK_SHARDED", (2, 3), (50, 32), ROWS, "ROW_MAJOR"),
    ):
        cores = ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(grid[1] - 1, grid[0] - 1))
        spec = ttnn.ShardSpec(ttnn.CoreRangeSet({cores}), list(shard), getattr(order, turn))
        memory = ttnn.MemoryConfig(getattr(scheme, name), ttnn.BufferType.L1, spec)
        text = f"ttnn(dtype=bfloat16, layout={layout}, memory={name}, grid={grid}, shard={shard}, orientation={turn})"
        yield array((100, 70), "bfloat16"), text, ("bfloat16", layout, None, memory)
    cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(1, 1))})
    for shard, layout in (((1, 32, 64), TILE), ((2, 10, 32), ROWS)):
        memory = ttnn.MemoryConfig(ttnn.BufferType.L1, ttnn.NdShardSpec(list(shard), cores))
        text = f"ttnn(dtype=float32, layout={layout}, memory=ND_SHARDED, grid=(2, 2), shard={shard})"
        yield array((3, 40, 70), "float32"), text, ("float32", layout, None, memory)


def check_single(room):
    count = 0
    for x, text, kind in single(room):
        np.save(room / "x.npy", x)
        run("convert", room / "x.npy", "--to", text, "--out", room / "w.tensorbin")
        loaded, wanted = ttnn.load_tensor(str(room / "w.tensorbin")), made(x, *kind)
        assert np.array_equal(values(loaded), values(wanted), equal_nan=True), text
        assert loaded.memory_config() == wanted.memory_config(), text
        assert (loaded.dtype, loaded.layout, loaded.shape) == (wanted.dtype, wanted.layout, wanted.shape), text
        ttnn.dump_tensor(str(room / "v.tensorbin"), loaded)
        memref = "x".join(map(str, (*x.shape, MEMREF[kind[0]])))
        run("convert", room / "v.tensorbin", "--to", f"memref<{memref}>", "--out", room / "back.npy")
        assert np.array_equal(np.load(room / "back.npy"), values(wanted)), text
        count += 1
    return count


def check_meshes(room):
    whole = partial = 0
    for (mapper, mesh, cuts, shape), kind in itertools.product(
        mesh_cases(), (("bfloat16", TILE), ("bfloat8_b", TILE), ("float32", ROWS), ("uint16", ROWS))
    ):
        x = array((16, 32, 64), kind[0])
        np.save(room / "x.npy", x)
        text = f"ttnn(dtype={kind[0]}, layout={kind[1]})"
        wanted = [values(made(part, *kind)) for part in parts(x, mesh, cuts)]
        for devices in (range(8), range(4, 8), range(1, 3), range(7, 8)):
            some = () if len(devices) == 8 else ("--devices", f"{devices.start}..{devices.stop}")
            run("convert", room / "x.npy", "--to", text, "--mesh", mapper, "--out", room / "w.tensorbin", *some)
            loaded = ttnn.load_tensor(str(room / "w.tensorbin"))
            held = [values(tensor) for tensor in ttnn.get_device_tensors(loaded)]
            assert len(held) == len(devices), (mapper, devices, len(held))
            for device, tensor in zip(devices, held):
                assert np.array_equal(tensor, wanted[device]), (mapper, device)
            ttnn.dump_tensor(str(room / "v.tensorbin"), loaded)
            at = np.unravel_index(devices.start, shape)
            memref = "x".join(map(str, (*wanted[0].shape, MEMREF[kind[0]])))
            place = ",".join(map(str, at))
            run(
                *("convert", room / "v.tensorbin", "--coordinate", place),
                *("--to", f"memref<{memref}>", "--out", room / "back.npy"),
            )
            assert np.array_equal(np.load(room / "back.npy"), wanted[devices.start]), (mapper, devices)
            if some:
                partial += 1
                continue
            memref = "x".join(map(str, (*x.shape, MEMREF[kind[0]])))
            run("convert", room / "v.tensorbin", "--to", f"memref<{memref}>", "--out", room / "back.npy")
            assert np.array_equal(np.load(room / "back.npy"), joined(wanted, mesh, cuts)), mapper
            whole += 1
    return whole, partial


with tempfile.TemporaryDirectory() as folder:
    print("single devices:", check_single(Path(folder)))
    print("whole meshes and parts of one:", *check_meshes(Path(folder)))
