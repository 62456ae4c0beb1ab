"""Tiles, sticks and shards against numpy, and against bytes that the real systems made."""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tilewright

GOLDENS = Path(__file__).resolve().parents[2] / "tests" / "data" / "goldens"
UNKNOWN_KEY = "SpyreTensorLayout(device_size=[1, 64], dim_map=[0, 0], foo=3)"
RANDOM = np.random.default_rng(7)


def tiles_by_numpy(x, height=32, width=32):
    """Row-major tiles of row-major faces, by reshape and transpose."""
    x = x.reshape(-1, *x.shape[-2:]) if x.ndim > 1 else x.reshape(1, 1, -1)
    pages, rows, cols = x.shape
    padded = np.zeros((pages, -(-rows // height) * height, -(-cols // width) * width), x.dtype)
    padded[:, :rows, :cols] = x
    face_rows, face_cols = min(height, 16), min(width, 16)
    split = padded.reshape(
        pages, -1, height // face_rows, face_rows, padded.shape[2] // width, width // face_cols, face_cols
    )
    return split.transpose(0, 1, 4, 2, 5, 3, 6).tobytes()


@pytest.mark.parametrize("tile", [(32, 32), (16, 32), (32, 16), (16, 16), (4, 32), (1, 16)])
@pytest.mark.parametrize("shape", [(32, 32), (64, 96), (33, 45), (2, 3, 40, 50), (70,), ()])
def test_tilize(shape, tile):
    x = RANDOM.standard_normal(shape).astype("f4")
    tiles = tilewright.tilize(x, tile=tile)
    assert tiles.tobytes() == tiles_by_numpy(x, *tile)
    back = tilewright.untilize(tiles, shape, "float32", tile=tile)
    assert back.dtype == x.dtype and back.tobytes() == x.tobytes()
    half = tilewright.tilize(x, "bfloat16", tile=tile)
    assert half.tobytes() == tiles_by_numpy(x.astype(ml_dtypes.bfloat16), *tile)


def test_tilize_of_views():
    x = RANDOM.standard_normal((3, 50, 70)).astype("f4")
    for view in (x.transpose(0, 2, 1), x[:, ::-1, 5:60:2], x[1], np.broadcast_to(x[:, :1], x.shape)):
        assert tilewright.tilize(view).tobytes() == tiles_by_numpy(view)
        packed = tilewright.tilize(view, "bfloat8_b")
        np.testing.assert_array_equal(packed, tilewright.tilize(view.copy(), "bfloat8_b"))
        error = np.abs(tilewright.untilize(packed, view.shape, "bfloat8_b") - view).max()
        assert error <= np.abs(view).max() / 64


def cases():
    """The conversions of .npy files whose only options are the layout and the value of padding."""
    for folder in ("bfp", "ttnn_tile", "spyre", "mesh"):
        path = GOLDENS / folder
        for case in json.loads((path / "cases.json").read_text()):
            usual = case.get("cmd", "convert") == "convert" and str(case.get("input")).endswith(".npy")
            if usual and "expect_file" in case and not case.get("argv") and case.get("to"):
                yield pytest.param(path, case, id=case["id"])


@pytest.mark.filterwarnings("ignore:.*is not a known key")
@pytest.mark.parametrize("path, case", list(cases()))
def test_goldens(path, case):
    x = np.load(path / case["input"])
    options = {"source_dtype": case["input_dtype"], "pad_value": case.get("pad_value")}
    result = tilewright.convert(x, case["to"], **options)
    assert result.tobytes() == (path / case["expect_file"]).read_bytes()


@pytest.mark.parametrize("shape", [(3, 128), (5, 100), (2, 3, 70), (64,)])
def test_stickify(shape):
    x = RANDOM.standard_normal(shape).astype("f4").astype("f2")
    sticks = tilewright.stickify(x)
    assert sticks.size % 128 == 0
    back = tilewright.unstickify(sticks, shape)
    # SEN169 has 9 bits of mantissa, of the 10 that float16 has.
    assert back.dtype == x.dtype
    np.testing.assert_allclose(back.astype("f4"), x.astype("f4"), rtol=2**-10, atol=1e-8)


def test_stickify_copies_what_it_does_not_convert():
    x = RANDOM.integers(-9, 9, (6, 100)).astype("f4")
    order = tilewright.stickify(x, [1, 0])
    np.testing.assert_array_equal(tilewright.unstickify(order, x.shape, np.float32, [1, 0]), x)


@pytest.mark.parametrize("dtype", ["f4", "i2", ml_dtypes.bfloat16])
def test_shard(dtype):
    x = RANDOM.integers(0, 99, (4, 6, 8)).astype(dtype)
    parts = tilewright.shard(x, "ShardTensorToMesh(mesh_shape=(1, 4), dim=2)")
    np.testing.assert_array_equal(parts, np.stack(np.split(x, 4, axis=2)))
    parts = tilewright.shard(x, "ShardTensor2dMesh(mesh_shape=(2, 3), dims=(0, 1))")
    by_numpy = [part for rows in np.split(x, 2, axis=0) for part in np.split(rows, 3, axis=1)]
    np.testing.assert_array_equal(parts, np.stack(by_numpy))
    parts = tilewright.shard(x[::-1], "ReplicateTensorToMesh(mesh_shape=(1, 2))")
    np.testing.assert_array_equal(parts, np.stack([x[::-1]] * 2))


def test_shard_into_tiles_and_back():
    x = RANDOM.standard_normal((64, 96)).astype("f4")
    mapper, tiles = "ShardTensorToMesh(mesh_shape=(1, 3), dim=1)", "ttnn(dtype=float32, layout=TILE)"
    parts = tilewright.shard(x, mapper, tiles)
    assert [part.tobytes() for part in parts] == [tiles_by_numpy(part) for part in np.split(x, 3, axis=1)]
    np.testing.assert_array_equal(tilewright.unshard(parts, mapper, x.shape, "float32", tiles), x)


def test_layouts_as_objects():
    layout = tilewright.Layout("memref< 2x3xf32 >")
    assert str(layout) == "memref<2x3xf32>"
    assert layout == tilewright.Layout("memref<2x3xf32>") and len({layout, tilewright.Layout(str(layout))}) == 1
    with pytest.warns(UserWarning, match="foo"):
        tilewright.Layout(UNKNOWN_KEY)
    with pytest.warns(UserWarning, match="foo") as caught:
        tilewright.explain(UNKNOWN_KEY, (64,), "float16")
    assert caught[0].filename == __file__


def test_wrong_texts_point_at_the_place():
    with pytest.raises(tilewright.Error, match=r"line 1, column 30") as caught:
        tilewright.convert(np.zeros((4, 4), "f4"), "ttnn(dtype=bfloat8_b, layout=ROW_MAJOR)")
    assert isinstance(caught.value, ValueError) and caught.value.code == 1
    for text in ("", "memref<", "(" * 10000, "ttnn(dtype=bfloat8_c, layout=TILE)", "x" * 2_000_000):
        with pytest.raises(tilewright.Error):
            tilewright.Layout(text)
