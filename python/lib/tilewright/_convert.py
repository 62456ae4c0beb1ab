"""Plans, and conversions that keep theirs."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ._html import MOST, shown
from ._like import layout_of
from ._names import is_element, long_name, name_of, numpy_dtype, short_name
from ._tilewright import Error, Layout, describe
from ._tilewright import execute_batch as _execute_batch
from ._tilewright import Plan as _Plan

# Memory of the caller's, which is filled and handed back; without any, a new numpy array.
if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    Out = DefaultTypeVar("Out", default=npt.NDArray[Any])
else:
    Out = TypeVar("Out")


class Place(NamedTuple):
    """Where one element lies: `bit` is the lowest of its code, `shared` the byte of the exponent or scale it shares."""

    buffer: int
    byte: int
    bit: int
    shared: int | None


class Owner(NamedTuple):
    """What lies at a byte: `elements` or `shared` with the indices concerned, `padding`, or `gap`."""

    kind: str
    elements: list[list[int]]


class PlanInfo(TypedDict):
    """Facts about a plan and the layout that it fills, by the names of the command line's JSON."""

    to: str
    logical_shape: list[int]
    dtype: str
    physical_shape: list[int]
    grid: list[int]
    shard_shape: list[int]
    tile: list[int] | None
    device_size: list[int] | None
    stride_map: list[int] | None
    buffers: int
    buffer_bytes: int
    total_bytes: int
    padding_elements: int
    nests: list[str]
    isa: str


class Plan:
    """A conversion compiled once, for tensors of one shape and type; `compile` makes it. Any thread may call it.

    Plans can be pickled and copied: what is kept are the arguments, from which the other side compiles again.
    """

    __slots__ = ("_array", "_key", "_plan", "_room")

    def __init__(self, plan: _Plan, key: tuple[Any, ...]) -> None:
        self._plan = plan
        self._key = key
        self._room = (plan.buffers, plan.buffer_bytes)
        self._array = plan.host_array and View(*plan.host_array)

    def __call__(self, x: Any, out: Out | None = None, threads: int | None = None) -> Out:
        """Converts `x` on `threads` threads (default: one for each processor; small tensors need none).

        `x` is the tensor with whatever strides, or the source's buffers as dense bytes. The interpreter is free for other
        threads meanwhile.
        """
        if out is not None:
            self._plan.run(x, out, threads)
            return out
        room = np.empty(self._room, np.uint8)
        self._plan.run(x, room, threads)
        return cast(Out, self._result(room))

    def chunks(self, size: int = 32 << 20) -> Iterator[range]:
        """Ranges of the destination's bytes, of about `size` each, that `chunk` can produce alone."""
        step = max(size // self.chunk_alignment, 1) * self.chunk_alignment
        total = self.destination_bytes
        for begin in range(0, total, step):
            yield range(begin, min(begin + step, total))

    def chunk(self, x: Any, part: range, out: Out | None = None) -> Out:
        """Produces one of the `chunks` alone, on the caller's thread."""
        total = self.destination_bytes
        if part.step != 1 or not 0 <= part.start <= part.stop <= total:
            raise Error(f"chunk: given {part}, needed a range with step 1 inside of {range(total)}")
        room = np.empty(len(part), np.uint8) if out is None else out
        self._plan.run_chunk(x, room, part.start, part.stop)
        return cast(Out, room)

    def explain(self) -> str:
        """What the destination looks like, and how it is filled."""
        info: dict[str, Any] = {**self.info}
        nests = info.pop("nests")
        rows = {name: value for name, value in info.items() if value not in (None, [])}
        lines = [f"{name.replace('_', ' '):<18}{value}" for name, value in rows.items()]
        lines.append("plan: nests of loops, outermost first, with the steps of bytes written <- read")
        return "\n".join([*lines, *(f"  {nest}" for nest in nests)])

    def locate(self, index: Sequence[int]) -> list[Place]:
        """Where the element at a logical index lies: a place in each replica."""
        return [Place(*place) for place in self._plan.locate(index)]

    def owner(self, buffer: int, byte: int) -> Owner:
        """What lies at a byte of a buffer."""
        return Owner(*self._plan.owner(buffer, byte))

    def dci(self) -> str:
        """The copy from a dense host array into a Spyre layout as torch-spyre's DataConversionInfo, in JSON."""
        return self._plan.dci()

    @property
    def info(self) -> PlanInfo:
        """The facts that `explain` shows, by name."""
        return self._plan.info

    @property
    def shape(self) -> tuple[int, ...]:
        """The logical shape."""
        return tuple(self._plan.shape)

    @property
    def dtype(self) -> str:
        """The logical element type."""
        return self._plan.dtype

    @property
    def source_bytes(self) -> int:
        """Bytes of the source's buffers, as they were described."""
        return self._plan.source_bytes

    @property
    def destination_bytes(self) -> int:
        """Bytes of all buffers of the destination."""
        return self.buffers * self.buffer_bytes

    @property
    def buffers(self) -> int:
        """Buffers of the destination: cores, banks, devices, or one host array."""
        return self._plan.buffers

    @property
    def buffer_bytes(self) -> int:
        """Bytes of each."""
        return self._plan.buffer_bytes

    @property
    def chunk_alignment(self) -> int:
        """Bytes of the smallest range that can be produced alone."""
        return max(self._plan.chunk_alignment, 1)

    def _result(self, room: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return self._array.of(room) if self._array else room

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"<Plan: {shape} {self.dtype} to {self._plan.info['to']}>"

    def _repr_html_(self) -> str:
        return shown(repr(self), self._plan.picture(False, MOST))

    def __reduce__(self) -> tuple[Any, ...]:
        return compiled, self._key


class View:
    """How bytes are seen as a host array."""

    __slots__ = ("_dtype", "_offset", "_shape", "_strides")

    def __init__(self, shape: list[int], dtype: str, strides: list[int] | None, offset: int) -> None:
        self._dtype = numpy_dtype(dtype)
        self._shape = tuple(shape)
        size = self._dtype.itemsize
        self._strides = None if strides is None or 0 in shape else tuple(size * stride for stride in strides)
        self._offset = size * offset

    def of(self, room: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if 0 in self._shape:
            return np.empty(self._shape, self._dtype)
        return np.ndarray(self._shape, self._dtype, room, self._offset, self._strides)


# A plan takes some kilobytes; those of a model's layers are a few dozen.
@lru_cache(maxsize=256)
def compiled(
    shape: tuple[int, ...] | None,
    dtype: str | None,
    source: str | None,
    to: str | None,
    mesh: str | None = None,
    device: str | None = None,
    pad_value: str | None = None,
    rounding: str = "host",
    search: bool = False,
    codec: str = "nearest",
    compat_unpack: bool | str = False,
    saturate: bool = False,
) -> Plan:
    pad = None if pad_value is None else float.fromhex(pad_value)
    decoding = compat_unpack if isinstance(compat_unpack, str) else "host" if compat_unpack else "exact"
    choices = (rounding, search, codec, decoding, saturate)
    key = (shape, dtype, source, to, mesh, device, pad_value, rounding, search, codec, compat_unpack, saturate)
    return Plan(_Plan(shape, dtype, source, to, mesh, device, pad, *choices), key)


def exact(pad_value: float | None) -> str | None:
    """A number as a key of plans: 0.0 and -0.0 are equal, but not of the same bits."""
    return None if pad_value is None else float(pad_value).hex()


def described(x: Any, dtype: Any = None) -> tuple[tuple[int, ...], str]:
    """Shape and element type of an array; `dtype` says the type of bits that numpy has no type for."""
    shape, own = describe(x)
    if dtype is not None:
        return tuple(shape), short_name(dtype)
    if own is None:
        raise Error("source_dtype: given none, needed the type that the array's bytes are of")
    return tuple(shape), own


def text(layout: Layout | str | None) -> str | None:
    return layout if layout is None else str(layout)


def compile(
    src: Any,
    dst: Layout | str | None = None,
    *,
    like: Any = None,
    shape: Sequence[int] | None = None,
    dtype: Any = None,
    mesh: str | None = None,
    device: str | None = None,
    pad_value: float | None = None,
    rounding: str = "host",
    search: bool = False,
    codec: str = "nearest",
    compat_unpack: bool | str = False,
    saturate: bool = False,
) -> Plan:
    """Compiles the conversion of a tensor from `src` to `dst`.

    `src` is a layout, or an array like those to be converted. `dst` is a layout; None is a dense host array, or what `like`
    is laid out as: a tensor of ttnn, or its specification, whose topology is the `mesh` where none is given. `shape` and
    `dtype` are the tensor's, where neither text says them, as a memref or a layout of tt-mlir does (that of `dst` without a
    mesh only); of an array, `dtype` says what its bits are. With a
    `mesh` mapper the layout is what one device gets; a `device` places the cores of a metal layout. `pad_value` fills what
    no element reaches.

    The rest chooses between published rules. Of block floats: `rounding` ("host", "device", "device-op", "truncate"),
    `search` for the better shared exponent, `compat_unpack` for the decoding of the device's library (True or "host") or of
    the device ("device"). Of SEN169_FP16: `codec` ("nearest", "deeptools"). Integers that do not fit are an error, or the nearest that do with `saturate`.
    """
    source: str | None
    if like is not None:
        if dst is not None:
            raise Error(f"dst: given {dst} beside `like`, needed one of them")
        dst, topology = layout_of(like)
        mesh = mesh or topology
    if src is None or isinstance(src, (str, Layout)):
        source = text(src)
        size = None if shape is None else tuple(shape)
        name = None if dtype is None else short_name(dtype)
    elif shape is None:
        source, (size, name) = None, described(src, dtype)
    else:
        raise Error(f"shape: given {shape} beside an array, needed none: the array has one")
    choices = (rounding, search, codec, compat_unpack, saturate)
    return compiled(size, name, source, text(dst), mesh, device, exact(pad_value), *choices)


def convert(
    x: Any,
    to: Layout | str | None,
    *,
    source_dtype: Any = None,
    mesh: str | None = None,
    device: str | None = None,
    pad_value: float | None = None,
    rounding: str = "host",
    search: bool = False,
    codec: str = "nearest",
    compat_unpack: bool | str = False,
    saturate: bool = False,
    out: Out | None = None,
    threads: int | None = None,
) -> Out:
    """Converts an array to a layout; plans are kept and used again. Arguments are as those of `compile`.

    `source_dtype` is the element type of arrays that only carry its bits, such as uint16 for bf16.
    """
    size, name = described(x, source_dtype)
    choices = (rounding, search, codec, compat_unpack, saturate)
    return compiled(size, name, None, text(to), mesh, device, exact(pad_value), *choices)(x, out, threads)


def execute_batch(
    conversions: Iterable[tuple[Plan, Any]],
    *,
    outs: Sequence[Any] | None = None,
    threads: int | None = None,
) -> list[Any]:
    """Converts many arrays in one call, each by its plan; a list of what `plan(x)` gives of each, or `outs`.

    Small arrays share the threads: thousands of them cost little more than their conversion. An exception has a note that
    says of which conversion it is.
    """
    pairs = list(conversions)
    if outs is not None and len(outs) != len(pairs):
        raise Error(f"outs: given {len(outs)}, needed one for each of {len(pairs)} conversions")
    rooms = [np.empty(plan._room, np.uint8) for plan, _ in pairs] if outs is None else list(outs)
    _execute_batch([(plan._plan, x, room) for (plan, x), room in zip(pairs, rooms, strict=True)], threads)
    if outs is not None:
        return rooms
    return [plan._result(room) for (plan, _), room in zip(pairs, rooms, strict=True)]


def explain(
    to: Layout | str | None,
    shape: Sequence[int],
    dtype: Any,
    *,
    mesh: str | None = None,
    device: str | None = None,
) -> str:
    """What the layout of a tensor looks like, and how it is filled from a dense host array."""
    return compiled(tuple(shape), short_name(dtype), None, text(to), mesh, device).explain()


def locate(
    to: Layout | str | None,
    shape: Sequence[int],
    dtype: Any,
    index: Sequence[int],
    *,
    mesh: str | None = None,
    device: str | None = None,
) -> list[Place]:
    """Where an element of a tensor lies: a place in each replica."""
    return compiled(tuple(shape), short_name(dtype), None, text(to), mesh, device).locate(index)


@lru_cache(maxsize=256)
def _tiles(dtype: str, tile: tuple[int, ...], transpose_tile: bool) -> str:
    transposed = ", transpose_tile=True" if transpose_tile else ""
    size = ", ".join(map(str, tile))
    return f"ttnn(dtype={long_name(short_name(dtype))}, layout=TILE, tile=({size}){transposed})"


def tilize(
    x: Any,
    dtype: Any = None,
    *,
    tile: Sequence[int] = (32, 32),
    transpose_tile: bool = False,
    pad_value: float | None = None,
    rounding: str = "host",
    search: bool = False,
    source_dtype: Any = None,
    out: Out | None = None,
    threads: int | None = None,
) -> Out:
    """TTNN's tiles of an array, as bytes of one buffer: bit for bit those of `ttnn.from_torch(x, dtype, TILE_LAYOUT)`.

    One thing differs: ttnn rounds float16 to bfloat16 before it packs block floats, and this does not. For its bytes, hand
    over `x.bfloat16()`.

    `dtype` is TTNN's name ("bfloat16", "bfloat8_b", "bfloat4_b", ..) or an object of that name; default: that of `x`.
    """
    size, name = described(x, source_dtype)
    to = _tiles(name if dtype is None else name_of(dtype), tuple(tile), transpose_tile)
    return compiled(size, name, None, to, None, None, exact(pad_value), rounding, search)(x, out, threads)


def untilize(
    x: Any,
    shape: Sequence[int],
    dtype: Any,
    *,
    to: Any = None,
    tile: Sequence[int] = (32, 32),
    transpose_tile: bool = False,
    out: Out | None = None,
    threads: int | None = None,
) -> Out:
    """The tensor of `shape` whose TTNN tiles of type `dtype` are the bytes `x`.

    `to` is the result's element type; default: `dtype`, or float32 where that is a block float.
    """
    name = name_of(dtype)
    result = short_name(name if to is None else to)
    if to is None and not is_element(result):
        result = "f32"
    return compiled(tuple(shape), result, _tiles(name, tuple(tile), transpose_tile), None)(x, out, threads)


@lru_cache(maxsize=256)
def _sticks(shape: tuple[int, ...], dtype: str, dim_order: tuple[int, ...] | None) -> str:
    size = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    order = "" if dim_order is None else f", {list(dim_order)}"
    return f"SpyreTensorLayout(({size}), torch.{long_name(dtype)}{order})"


def stickify(
    x: Any,
    dim_order: Sequence[int] | None = None,
    *,
    codec: str = "nearest",
    source_dtype: Any = None,
    out: Out | None = None,
    threads: int | None = None,
) -> Out:
    """An array in sticks of 128 bytes, as torch-spyre's default layout has it, as bytes of one buffer.

    float16 becomes SEN169_FP16. `dim_order` is as in `SpyreTensorLayout(size, dtype, dim_order)`: the last dimension lies
    in the sticks, and -1 makes it sparse.
    """
    size, name = described(x, source_dtype)
    to = _sticks(size, name, None if dim_order is None else tuple(dim_order))
    return compiled(size, name, None, to, codec=codec)(x, out, threads)


def unstickify(
    x: Any,
    shape: Sequence[int],
    dtype: Any = "float16",
    dim_order: Sequence[int] | None = None,
    *,
    codec: str = "nearest",
    out: Out | None = None,
    threads: int | None = None,
) -> Out:
    """The tensor of `shape` and type `dtype` whose sticks are the bytes `x`."""
    size, name = tuple(shape), short_name(dtype)
    source = _sticks(size, name, None if dim_order is None else tuple(dim_order))
    return compiled(size, name, source, None, codec=codec)(x, out, threads)


def shard(
    x: Any,
    mapper: str,
    to: Layout | str | None = None,
    *,
    device: str | None = None,
    pad_value: float | None = None,
    rounding: str = "host",
    source_dtype: Any = None,
    out: Out | None = None,
    threads: int | None = None,
) -> Out:
    """What each device of a mesh gets of an array, in the order of the mesh.

    `mapper` is a text such as `ShardTensor2dMesh(mesh_shape=(2, 4), dims=(None, 0))`, `to` the layout on a device. Without
    `to` the result is an array with one more dimension, the devices, in front.
    """
    size, name = described(x, source_dtype)
    return compiled(size, name, None, text(to), mapper, device, exact(pad_value), rounding)(x, out, threads)


def unshard(
    x: Any,
    mapper: str,
    shape: Sequence[int],
    dtype: Any,
    source: Layout | str,
    *,
    out: Out | None = None,
    threads: int | None = None,
) -> Out:
    """The tensor of `shape` and type `dtype` of which devices hold the bytes `x`, each in the layout `source`."""
    return compiled(tuple(shape), short_name(dtype), text(source), None, mapper)(x, out, threads)
