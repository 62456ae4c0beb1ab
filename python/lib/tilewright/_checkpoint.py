"""Whole checkpoints: packed into files, streamed tensor by tensor, or converted as another library loads them."""

import os
import re
from collections.abc import Callable
from os import PathLike
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from ._convert import View, convert, described
from ._tilewright import Error
from ._tilewright import Rules as _Rules
from ._tilewright import Stream as _Stream
from ._tilewright import pack as _pack

_SIZE = re.compile(r"(\d+)\s*(?:([KMGT])(?:iB)?|B)?")


class PackedFile(NamedTuple):
    """A file of `pack`: the tensor it holds, which rule made it, and how. `shape` and `dtype` are those of the elements."""

    name: str
    file: str
    rule: str
    layout: str
    mesh: str | None
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    elements_bytes: int


class PackReport(NamedTuple):
    """What `pack` did: files made and their bytes, files that were there already, bytes of elements that were read
    (decoded), wall time, and every file of the directory in the order of the model."""

    made: int
    bytes: int
    kept: int
    elements_bytes: int
    seconds: float
    files: tuple[PackedFile, ...]


class Converted(NamedTuple):
    """A tensor in its layout. `data` is what `convert` gives: an array of bytes, a row for each buffer, or a host array.

    Of a tensor on a `mesh` there is one buffer for each different part, in the order of the mesh; `layout` is that of one
    device. `shape` and `dtype` are those of the whole tensor before.
    """

    data: np.ndarray[Any, Any]
    layout: str
    mesh: str | None
    shape: tuple[int, ...]
    dtype: str


def pack(
    model: str | PathLike[str],
    rules: str | PathLike[str],
    out: str | PathLike[str] | None = None,
    *,
    max_memory: int | str = "8GiB",
    resume: bool = False,
    rank: int | None = None,
    world: int | None = None,
    only_devices: range | None = None,
    rounding: str = "host",
    search: bool = False,
    codec: str = "nearest",
    saturate: bool = False,
    threads: int | None = None,
    progress: Callable[[int, int, str | None], object] | None = None,
) -> PackReport:
    """Packs every tensor of a checkpoint into a file of the directory `out`, as `tilewright pack` does. Without `out`
    nothing is written: the report says what would be made.

    `model` is a .safetensors, .gguf or .npy file, a .safetensors.index.json, or a folder of them. `rules` is the name of a
    ready-made set ("ttnn-bfp8", "spyre"), the path of a file in TOML, or, with a line end in it, the text itself. At most
    `max_memory` bytes are taken for buffers. `resume` keeps files of an earlier run that are complete and not stale. Of
    tensors on a mesh `only_devices` keeps the shards of some devices, counted row-major. `rank` of `world` makes one of so
    many shares of the files; all may go to one directory. `rounding`, `search`, `codec` and `saturate` are as for `compile`.

    `progress(written, total, file)` is called on this thread, with the bytes of files; `file` is one that has just become
    complete, or None. An exception that it raises, or an interruption, ends the work, and what is complete stays for
    `resume`. The interpreter is free meanwhile.
    """
    if (rank is None) != (world is None):
        raise Error(f"rank and world: given {rank} and {world}, needed both or neither")
    share = None if rank is None or world is None else (rank, world)
    to = None if out is None else os.fspath(out)
    made, size, kept, elements_bytes, seconds, files = _pack(
        os.fspath(model),
        _rules(rules),
        to,
        _bytes("max_memory", max_memory),
        resume,
        share,
        _devices(only_devices),
        (rounding, search, codec, saturate),
        _threads(threads),
        progress,
    )
    listed = (PackedFile(*file[:5], tuple(file[5]), *file[6:]) for file in files)
    return PackReport(made, size, kept, elements_bytes, seconds, tuple(listed))


class Stream:
    """The tensors that rules make of a model, as an iterator of names and tensors; `stream` makes it. It is as long as there
    are tensors. Dropping it, `close`, or the end of a `with` ends the work behind it."""

    __slots__ = ("_stream",)

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream

    def __len__(self) -> int:
        return len(self._stream)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[str, Converted]:
        name, layout, mesh, shape, dtype, room, host, memory = next(self._stream)
        data = np.asarray(memoryview(memory)).reshape(room)
        if host is not None:
            data = View(*host).of(data)
        return name, Converted(data, layout, mesh, tuple(shape), dtype)

    def close(self) -> None:
        """Ends the work; there are no more tensors then."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def stream(
    model: str | PathLike[str],
    rules: str | PathLike[str],
    *,
    memory: int | str = "2GiB",
    only_devices: range | None = None,
    rounding: str = "host",
    search: bool = False,
    codec: str = "nearest",
    saturate: bool = False,
    threads: int | None = None,
) -> Stream:
    """The tensors of a checkpoint in their layouts, in the order of its files: `for name, tensor in stream(..)`. While the
    loop uses one, those behind it are read and converted. `model`, `rules`, `only_devices` and the choices of numbers are as
    for `pack`.

    At most `memory` bytes are taken, for buffers and for tensors that wait; that counts the tensor that the loop uses, too.
    The array of a tensor is the caller's own: what is kept beyond the next turn comes on top.
    """
    return Stream(
        _Stream(
            os.fspath(model),
            _rules(rules),
            _bytes("memory", memory),
            _devices(only_devices),
            (rounding, search, codec, saturate),
            _threads(threads),
        )
    )


def transfer_hook(
    rules: str | PathLike[str],
    upload: Callable[[Converted, str, Any], Any],
    *,
    rounding: str = "host",
    search: bool = False,
    codec: str = "nearest",
    saturate: bool = False,
    threads: int | None = None,
) -> Callable[[Any, str, Any], Any]:
    """A function `hook(cpu_tensor, name, device)` for libraries that ask a device's package to place each tensor that they
    load, as safetensors proposes it: it converts the tensor by the rule of its name and returns `upload(converted, name,
    device)`.

    `rules` and the choices of numbers are as for `pack`, but no rule may make one tensor of several or several of one. A
    tensor that they skip is returned as it came.
    """
    known = _rules(rules)
    known.check_single()

    def hook(cpu_tensor: Any, name: str, device: Any) -> Any:
        shape, dtype = described(cpu_tensor)
        rule = known.of(name, shape, dtype)
        if rule is None:
            return cpu_tensor
        layout, mesh, transposed = rule
        if transposed:
            cpu_tensor = cpu_tensor.swapaxes(-2, -1)
            shape = (*shape[:-2], shape[-1], shape[-2])
        data = convert(
            cpu_tensor,
            layout,
            mesh=mesh,
            rounding=rounding,
            search=search,
            codec=codec,
            saturate=saturate,
            threads=threads,
        )
        return upload(Converted(data, layout, mesh, shape, dtype), name, device)

    return hook


def _rules(rules: str | PathLike[str]) -> _Rules:
    return _Rules(os.fspath(rules))


def _bytes(what: str, size: int | str) -> int:
    """A number of bytes, or a text such as 512M or 2GiB; units are powers of 1024."""
    if isinstance(size, int):
        return size
    found = _SIZE.fullmatch(size.strip())
    if found is None:
        raise Error(f"{what}: given {size!r}, needed a number of bytes, or one with K, M, G or T behind it")
    number, unit = found.groups()
    return int(number) << (10 * (" KMGT".index(unit or " ")))


def _devices(devices: range | None) -> tuple[int, int] | None:
    if devices is None:
        return None
    if devices.step != 1:
        raise Error(f"devices: given {devices}, needed a range with step 1")
    return devices.start, devices.stop


def _threads(threads: int | None) -> int:
    """As the compiled half counts them: 0 is one for each processor."""
    if threads is None:
        return 0
    if not 1 <= threads <= 1024:
        raise Error(f"threads: given {threads}, needed 1 to 1024")
    return threads
