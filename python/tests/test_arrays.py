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
    (lambda: numbers(4, dtype=">f4"), "given `>f4`.*little-endian.*newbyteorder"),
    (lambda: Interface(numbers(4, dtype=">f4")), "given `>f4`.*newbyteorder"),
    (lambda: numbers(4, dtype=">c8"), "newbyteorder"),
    (lambda: numbers(4, dtype="c8"), "little-endian"),
    (lambda: numbers(4).astype("O"), "element type"),
    (lambda: np.array(["a", "b"]), "element type"),
    (lambda: numbers(4).astype(ml_dtypes.float8_e4m3b11fnuz), "float8_e4m3b11fnuz"),
    (lambda: numbers(4).astype(ml_dtypes.int4), "int4"),
    (lambda: np.zeros(4, [("a", "u1"), ("b", "f4")])["b"], "fractions of an element"),
    (lambda: Interface(numbers(4), shape=(-1,)), "0 or more"),
    (lambda: Interface(numbers(4), shape=(2**62, 2**62)), "in memory"),
    (lambda: Interface(numbers(4), shape=(2**63 - 1,) * 64, strides=(2**63 - 1,) * 64), "in memory"),
    (lambda: Interface(numbers(4), shape=(2**63 - 1,) * 64, strides=(-(2**63),) * 64), "in memory"),
    (lambda: Interface(numbers(4), shape=(2**62, 2**62), strides=(0, 0)), "2\\^63"),
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
    released = memoryview(b"abcd")
    released.release()
    with pytest.raises(ValueError, match="released"):
        tilewright.convert(released, None)


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    """A tensor before version 1."""

    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    """A tensor since version 1."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, DESTRUCTOR]


class Producer:
    """A tensor of 2x3 floats made by hand; it counts the capsules that were given back."""

    def __init__(self, version=None, name=None, flags=0, **changes):
        self.data = numbers(7)
        self.shape = (ctypes.c_int64 * 2)(2, 3)
        self.name = name or (b"dltensor" if version is None else b"dltensor_versioned")
        self.managed = Managed() if version is None else Versioned(*version, flags=flags)
        usual = {"device_type": 1, "ndim": 2, "code": 2, "bits": 32, "lanes": 1, "byte_offset": 4}
        for field, value in {"data": self.data.ctypes.data, **usual, **changes}.items():
            setattr(self.managed.tensor, field, value)
        self.managed.tensor.shape = self.shape
        self.given = self.back = 0

        def give_back(capsule):
            self.back += 1

        self.destructor = DESTRUCTOR(give_back)

    def __dlpack__(self, max_version=None):
        self.given += 1
        return new_capsule(ctypes.addressof(self.managed), self.name, self.destructor)


@pytest.mark.parametrize("version", [None, (1, 0), (1, 3)])
def test_dlpack(version):
    producer = Producer(version)
    expected = producer.data[1:].reshape(2, 3)
    np.testing.assert_array_equal(tilewright.convert(producer, None), expected)
    for device in (3, 11):
        np.testing.assert_array_equal(tilewright.convert(Producer(version, device_type=device), None), expected)
    tilewright.convert(-expected, None, out=producer)
    np.testing.assert_array_equal(producer.data[1:], -numbers(7)[1:])
    refused = {
        "host memory": {"device_type": 2},
        "code 2 of 16 bits": {"lanes": 2, "bits": 16},
        "code 2 of 12 bits": {"bits": 12},
        "code 5 of 64 bits": {"code": 5, "bits": 64},
        "in memory": {"data": 0, "byte_offset": 0},
    }
    for words, changes in refused.items():
        wrong = Producer(version, **changes)
        with pytest.raises(tilewright.Error, match=words):
            tilewright.convert(wrong, None)
        assert wrong.given == wrong.back == 1
    assert producer.given == producer.back > 1


def test_dlpack_of_other_kinds():
    for wrong in (Producer((2, 0)), Producer(name=b"used_dltensor"), Producer((1, 0), name=b"another")):
        with pytest.raises(ValueError):
            tilewright.convert(wrong, None)
        assert wrong.given == wrong.back == 1
    frozen = Producer((1, 0), flags=1)
    with pytest.raises(tilewright.Error, match="read-only"):
        tilewright.convert(numbers(2, 3), None, out=frozen)
    assert frozen.given == frozen.back == 1


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
