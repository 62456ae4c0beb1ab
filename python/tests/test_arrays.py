"""Arrays of every kind are read in place, and those that cannot be are refused."""

import ctypes
import mmap

import ml_dtypes
import numpy as np
import pytest

import tilewright

NUMPY_TYPES = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]
ML_TYPES = [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]


def numbers(*shape, dtype="f4"):
    return (np.arange(np.prod(shape, dtype=int)) % 120).reshape(shape).astype(dtype)


def windows(x):
    return np.lib.stride_tricks.sliding_window_view(x, 4, axis=2)


VIEWS = {
    "dense": lambda x: x,
    "transposed": lambda x: x.transpose(2, 0, 1),
    "sliced": lambda x: x[1:, ::2, 3:9],
    "reversed": lambda x: x[::-1, :, ::-3],
    "one": lambda x: x[2, 3:4],
    "element": lambda x: x[1, 2, 3, ...],
    "repeated": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "windows": lambda x: windows(x.view(f"u{x.itemsize}")).view(x.dtype),
    "new": lambda x: x[:, None, :, None],
    "empty": lambda x: x[:, 2:2],
    "fortran": np.asfortranarray,
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", [*NUMPY_TYPES, *ML_TYPES])
def test_every_view_of_every_type(dtype, view):
    x = VIEWS[view](numbers(4, 6, 10, dtype=dtype))
    result = tilewright.convert(x, None)
    assert result.dtype == x.dtype and result.shape == x.shape and result.flags.c_contiguous
    assert result.tobytes() == x.tobytes()


def test_a_plan_takes_any_strides():
    plan = tilewright.compile("memref<4x6xf32>", "memref<4x6xf32, strided<[1, 5], offset: 2>>")
    x = numbers(6, 4)
    for view in (x.T, x.T.copy(), x[::-1].T, x.reshape(4, 6)[:, ::-1]):
        result = plan(view)
        assert result.strides == (4, 20)
        np.testing.assert_array_equal(result, view)
    # The raw bytes of the source are as good as the tensor.
    np.testing.assert_array_equal(plan(x.tobytes()), x.reshape(4, 6))


def test_strides_are_remembered_only_so_far():
    plan = tilewright.compile("memref<3x2xf32>", None)
    room = numbers(100, 100)
    for step in list(range(1, 40)) * 2:
        view = room[: 3 * step : step, :2]
        np.testing.assert_array_equal(plan(view), view)


class Interface:
    """Only the array interface."""

    def __init__(self, array, **changes):
        self._keep = array
        self.__array_interface__ = {**array.__array_interface__, **changes}


class Capsule:
    """Only DLPack, by `__dlpack__`, of one version or the other."""

    def __init__(self, array, versions):
        self._array, self._versions = array, versions

    def __dlpack__(self, **kwargs):
        if not self._versions and kwargs:
            raise TypeError("no arguments")
        return self._array.__dlpack__(**kwargs)


def test_every_protocol():
    x = numbers(5, 7)
    same = [x, memoryview(x), Interface(x), Interface(x, strides=None), Capsule(x, True), Capsule(x, False)]
    for view in same:
        np.testing.assert_array_equal(tilewright.convert(view, None), x)
    np.testing.assert_array_equal(tilewright.convert(Capsule(x.T[::2], True), None), x.T[::2])
    np.testing.assert_array_equal(tilewright.convert(Interface(x.T[::-1]), None), x.T[::-1])
    for raw in (b"abc", bytearray(b"abc"), (ctypes.c_uint8 * 3)(97, 98, 99)):
        assert tilewright.convert(raw, None).tobytes() == b"abc"
    with mmap.mmap(-1, 4096) as memory:
        assert tilewright.convert(memory, None).shape == (4096,)


def test_bits_of_types_that_numpy_lacks():
    x = numbers(3, 5, dtype=ml_dtypes.bfloat16)
    for bits in (x.view("u2"), x.view("V2"), x.view("i2"), memoryview(x.view("u2"))):
        result = tilewright.convert(bits, "memref<3x5xf32>", source_dtype="bfloat16")
        np.testing.assert_array_equal(result, x.astype("f4"))
    with pytest.raises(tilewright.Error, match="source_dtype"):
        tilewright.convert(x.view("V2"), None)
    for name in ("bf16", "bfloat16", ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16)):
        assert tilewright.compile("memref<2xf32>", None, dtype=name).dtype == "bf16"


REFUSED = [
    (lambda: numbers(4, dtype=">f4"), "little-endian"),
    (lambda: numbers(4, dtype="c8"), "little-endian"),
    (lambda: numbers(4).astype("O"), "element type"),
    (lambda: np.array(["a", "b"]), "element type"),
    (lambda: numbers(4).astype(ml_dtypes.float8_e4m3b11fnuz), "float8_e4m3b11fnuz"),
    (lambda: numbers(4).astype(ml_dtypes.int4), "int4"),
    (lambda: np.zeros(4, [("a", "u1"), ("b", "f4")])["b"], "fractions of an element"),
    (lambda: Interface(numbers(4), shape=(-1,)), "0 or more"),
    (lambda: Interface(numbers(4), shape=(2**62, 2**62)), "in memory"),
    (lambda: Interface(numbers(4), strides=(4, 4)), "one for each dimension"),
    (lambda: Interface(numbers(4), shape=(1,) * 65, strides=None), "at most 64"),
    (lambda: Interface(numbers(4), data=None), "no `data`"),
    (lambda: Interface(numbers(4), data=(0, False)), "in memory"),
]


@pytest.mark.parametrize("make, words", REFUSED, ids=[words for _, words in REFUSED])
def test_refused_arrays(make, words):
    with pytest.raises(tilewright.Error, match=words):
        tilewright.convert(make(), None)


def test_no_arrays():
    for other in (3, [1, 2], None, "memref<2xf32>", {}):
        with pytest.raises(TypeError, match="neither the buffer protocol"):
            tilewright.convert(other, None)


def test_out():
    x = numbers(8, 8)
    plan = tilewright.compile(x, None)
    for out in (np.empty((8, 8), "f4"), np.empty(256, "u1"), bytearray(256), Capsule(np.empty(64, "f4"), True)):
        assert plan(x, out=out) is out
    np.testing.assert_array_equal(tilewright.convert(x.T, None, out=np.empty((8, 8), "f4")), x.T)
    frozen = np.empty((8, 8), "f4")
    frozen.flags.writeable = False
    wrong = {
        "read-only": [frozen, bytes(256), Interface(frozen)],
        "gaps or permuted": [np.empty((8, 8), "f4").T, np.empty((8, 16), "f4")[:, ::2]],
        "overlaps": [x, x.reshape(-1)[::-1][::-1]],
        "256 are needed": [bytearray(255), np.empty((8, 9), "f4")],
    }
    before = x.copy()
    for words, outs in wrong.items():
        for out in outs:
            with pytest.raises(tilewright.Error, match=words):
                plan(x, out=out)
    np.testing.assert_array_equal(x, before)
