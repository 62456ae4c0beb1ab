"""Torch tensors, where torch is installed."""

import numpy as np
import pytest

import tilewright

torch = pytest.importorskip("torch")

VIEWS = {
    "dense": lambda x: x,
    "permuted": lambda x: x.permute(2, 0, 1),
    "sliced": lambda x: x[1:, ::2, 3:9],
    "expanded": lambda x: x[:, :1].expand(4, 5, 10),
    "element": lambda x: x[1, 2, 3],
    "empty": lambda x: x[:, 2:2],
}
TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int32, torch.bool]


class Exported:
    """Only DLPack, by `__dlpack__`."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **kwargs):
        return self.tensor.__dlpack__(**kwargs)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_view_of_every_type(dtype, view):
    x = VIEWS[view]((torch.arange(240) % 120).reshape(4, 6, 10).to(dtype))
    for given in (x, Exported(x)):
        result = tilewright.convert(given, None)
        assert result.shape == tuple(x.shape) and result.itemsize == x.itemsize
        np.testing.assert_array_equal(result.astype("f8"), x.to(torch.float64).numpy())


def test_tilize_into_a_tensor():
    x = torch.randn(70, 50)
    out = torch.empty(3 * 2 * 1088, dtype=torch.uint8)
    assert tilewright.tilize(x.T.contiguous().T, x.dtype).nbytes == 3 * 2 * 4096
    assert tilewright.tilize(torch.nn.Parameter(x), "bfloat8_b", out=out) is out
    assert out.numpy().tobytes() == tilewright.tilize(x.numpy(), "bfloat8_b").tobytes()
    with pytest.raises(tilewright.Error, match="overlaps"):
        tilewright.convert(x, None, out=x)


def test_refused_tensors():
    negated = torch.view_as_complex(torch.randn(3, 2)).conj().imag
    assert negated.is_neg()
    with pytest.raises(tilewright.Error, match="resolve_neg"):
        tilewright.convert(negated, None)
    with pytest.raises(tilewright.Error, match="element type"):
        tilewright.convert(torch.ones(3, dtype=torch.complex64), None)
    # What torch itself refuses.
    for tensor in (torch.ones(3, device="meta"), torch.eye(3).to_sparse()):
        with pytest.raises((RuntimeError, BufferError)):
            tilewright.convert(tensor, None)


def test_the_hook_takes_tensors():
    rules = '[[rule]]\nname = "*"\nlayout = "ttnn(dtype=bfloat8_b, layout=TILE)"\n[[rule]]\nname = "t"\ntranspose = true\n'
    rules += 'layout = "SpyreTensorLayout(({dims}), torch.float16)"\n'
    hook = tilewright.transfer_hook(rules, lambda tensor, name, device: (tensor, name, device))
    x = torch.arange(2400, dtype=torch.float32).reshape(40, 60)
    for name, given, layout in [
        ("w", x.bfloat16(), "ttnn(dtype=bfloat8_b, layout=TILE)"),
        ("t", x.half(), "SpyreTensorLayout((60, 40), torch.float16)"),
    ]:
        tensor, *rest = hook(given, name, torch.device("cpu"))
        wanted = tilewright.convert(given.T if name == "t" else given, layout)
        np.testing.assert_array_equal(tensor.data, wanted)
        assert rest == [name, torch.device("cpu")]
        assert tensor.shape == ((60, 40) if name == "t" else (40, 60))
