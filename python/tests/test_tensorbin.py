"""TTNN's tensor files, against those that ttnn wrote."""

import json
from pathlib import Path

import numpy as np
import pytest

import tilewright

DATA = Path(__file__).resolve().parents[2] / "tests" / "data" / "tensorbin"
CASES = [pytest.param(case, id=case["name"]) for case in json.loads((DATA / "cases.json").read_text())]
ROWS = "ttnn(dtype=float32, layout=ROW_MAJOR)"


@pytest.mark.parametrize("case", CASES)
def test_files_of_ttnn(case, tmp_path):
    back = DATA / f"{case['name']}.back.npy"
    wanted = np.load(back if back.exists() else DATA / f"{case['name']}.npy")
    path = DATA / f"{case['name']}.tensorbin"
    loaded = tilewright.load_tensorbin(path, dtype=wanted.dtype)
    assert loaded.dtype == wanted.dtype
    np.testing.assert_array_equal(loaded, wanted)
    tilewright.save_tensorbin(tmp_path / "w.tensorbin", wanted, case["to"])
    again = tilewright.load_tensorbin(tmp_path / "w.tensorbin", dtype=wanted.dtype)
    np.testing.assert_array_equal(again, wanted)


@pytest.mark.parametrize("name", ["s1_neg", "uneven10"])
def test_meshes_of_ttnn(name):
    wanted = np.load(DATA / "mesh" / f"{name}.npy")
    np.testing.assert_array_equal(tilewright.load_tensorbin(DATA / "mesh" / f"{name}.tensorbin"), wanted)


def test_devices(tmp_path):
    x = np.arange(64, dtype="f4").reshape(8, 8)
    path, mesh = tmp_path / "w.tensorbin", "ShardTensor2dMesh(mesh_shape=(2, 2), dims=(None, 1))"
    tilewright.save_tensorbin(path, x.T, ROWS, mesh)
    np.testing.assert_array_equal(tilewright.load_tensorbin(path), x.T)
    np.testing.assert_array_equal(tilewright.load_tensorbin(path, device=(1, 1)), x.T[:, 4:])
    each = tilewright.load_tensorbin(path, per_device=True)
    assert list(each) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    np.testing.assert_array_equal(each[1, 0], x.T[:, :4])

    tilewright.save_tensorbin(path, x, ROWS, mesh, devices=range(1, 2))
    assert list(tilewright.load_tensorbin(path, per_device=True)) == [(0, 1)]
    with pytest.raises(tilewright.Error, match="1 of 2 parts"):
        tilewright.load_tensorbin(path)


def test_refusals(tmp_path):
    x = np.zeros((4, 4), "f4")
    with pytest.raises(tilewright.Error, match="ttnn"):
        tilewright.save_tensorbin(tmp_path / "w.tensorbin", x, "memref<4x4xf32>")
    (tmp_path / "w.tensorbin").write_bytes(b"\x10" + b"\0" * 20)
    with pytest.raises(tilewright.Error, match="cut short"):
        tilewright.load_tensorbin(tmp_path / "w.tensorbin")
    with pytest.raises(tilewright.Error):
        tilewright.load_tensorbin(tmp_path / "absent.tensorbin")
