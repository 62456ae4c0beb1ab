"""Tiles of torch and numpy tensors, as this package makes them, against those of the real ttnn 0.81.1; byte by byte.

By hand, in an environment with ttnn, torch, "numpy<2", ml_dtypes and this package: python tests/compare_ttnn.py
"""

import os
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np

import tilewright

ROOT = Path(__file__).resolve().parents[2]
FORMATS = ("bfloat16", "bfloat8_b")


def packed_by_ttnn(ttnn, tensor, name, folder):
    path = Path(folder) / "t.tensorbin"
    ttnn.dump_tensor(str(path), ttnn.from_torch(tensor, dtype=getattr(ttnn, name), layout=ttnn.TILE_LAYOUT))
    data = path.read_bytes()
    # A 64-bit header length, the header, then the payload.
    return data[8 + int.from_bytes(data[:8], "little") :]


def views(torch):
    """Torch tensors of each shape and kind of view."""
    torch.manual_seed(11)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x = torch.randn(3, 70, 96).to(dtype)
        yield f"{dtype} dense", x
        yield f"{dtype} transposed", x.transpose(1, 2)
        yield f"{dtype} permuted", x.permute(2, 0, 1)
        yield f"{dtype} sliced", x[1:, 3:60:2, 5:]
        yield f"{dtype} expanded", x[:, :1].expand(3, 40, 96)
        yield f"{dtype} a row", x[1, 2]
        yield f"{dtype} 0-d", x[0, 0, 0]
        yield f"{dtype} empty", x[:, 5:5]
        yield f"{dtype} parameter", torch.nn.Parameter(x[0])


def arrays(torch, tensor):
    """The same elements with the same strides, as torch and as numpy have them."""
    yield "torch", tensor
    plain = tensor.detach()
    if plain.dtype == torch.bfloat16:
        yield "numpy", plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    else:
        yield "numpy", plain.numpy()


def attempt(call):
    try:
        return call()
    except Exception as refusal:
        return f"{type(refusal).__name__}: {str(refusal).strip().splitlines()[0][:90]}"


def main():
    os.environ.setdefault("TT_METAL_MOCK_CLUSTER_DESC_PATH", str(ROOT / "tests" / "real_model" / "n150.yaml"))
    os.environ.setdefault("TT_LOGGER_LEVEL", "error")
    os.environ.setdefault("LOGURU_LEVEL", "WARNING")
    assert "torch" not in sys.modules
    import torch
    import ttnn

    compared = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for view, tensor in views(torch):
            for name in FORMATS:
                given = tensor.detach()
                if given.dtype == torch.float16 and name == "bfloat8_b":
                    # ttnn would round to bfloat16 first, and lose bits.
                    given = given.float()
                theirs = attempt(lambda: packed_by_ttnn(ttnn, given, name, folder))
                for kind, array in arrays(torch, tensor):
                    ours = attempt(lambda: tilewright.tilize(array, getattr(ttnn, name)).tobytes())
                    compared += 1
                    if isinstance(theirs, str) or isinstance(ours, str):
                        same = False if type(ours) is not type(theirs) else None
                        print(f"{view}, {kind} to {name}\n  ttnn {theirs[:90]!r}\n  ours {ours[:90]!r}")
                    else:
                        same = ours == theirs
                    if same is False:
                        wrong += 1
                        print(f"DIFFERENT: {view}, {kind} to {name}")
    print(f"{compared} compared, {wrong} different")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
