"""TTNN's tensor files."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from ._convert import compiled, described, exact
from ._names import short_name
from ._tilewright import Error, Layout
from ._tilewright import TensorBin as _TensorBin


@overload
def load_tensorbin(
    path: str | PathLike[str],
    *,
    device: Sequence[int] | None = None,
    per_device: Literal[False] = False,
    dtype: Any = None,
    threads: int | None = None,
) -> npt.NDArray[Any]: ...
@overload
def load_tensorbin(
    path: str | PathLike[str], *, per_device: Literal[True], dtype: Any = None, threads: int | None = None
) -> dict[tuple[int, ...], npt.NDArray[Any]]: ...
def load_tensorbin(
    path: str | PathLike[str],
    *,
    device: Sequence[int] | None = None,
    per_device: bool = False,
    dtype: Any = None,
    threads: int | None = None,
) -> Any:
    """The tensor of a `.tensorbin` file of TTNN, as a numpy array.

    A tensor on a mesh is put together as the file says it was handed out; the file must have all of it then, and replicas
    must be equal. `device` is the place of one device in the mesh, whose tensor alone is read; with `per_device` the result
    is a dict of the arrays of all devices that the file has, by their places. `dtype` is the result's element type; default:
    that of the file, or float32 where that is a block float.
    """
    file = _TensorBin.open(path)
    if per_device:
        if device is not None:
            raise Error(f"device: given {device} with per_device, needed one of the two")
        return {tuple(at): _loaded(file, at, dtype, threads) for at in file.devices}
    return _loaded(file, device, dtype, threads)


def _loaded(
    file: _TensorBin, device: Sequence[int] | None, dtype: Any, threads: int | None
) -> npt.NDArray[Any]:
    shape, own, stored, mapper = file.stored(device)
    room = np.empty(file.size(device), np.uint8)
    file.read(device, room)
    name = own if dtype is None else short_name(dtype)
    return compiled(tuple(shape), name, stored, None, mapper)(room, None, threads)


def save_tensorbin(
    path: str | PathLike[str],
    x: Any,
    layout: Layout | str,
    mesh: str | None = None,
    *,
    devices: range | None = None,
    source_dtype: Any = None,
    pad_value: float | None = None,
    rounding: str = "host",
    search: bool = False,
    saturate: bool = False,
    threads: int | None = None,
) -> None:
    """Writes an array as a `.tensorbin` file, which `ttnn.load_tensor` reads.

    `layout` is a `ttnn(..)` text. A memory configuration in it is recorded, and does not change the bytes. With a `mesh`
    mapper it is the layout of what one device gets, and `devices` are those of the mesh, counted row-major, whose shards the
    file holds (default: all). The other arguments are those of `convert`.

    The file appears under its name when it is complete.
    """
    size, name = described(x, source_dtype)
    if devices is not None and devices.step != 1:
        raise Error(f"devices: given {devices}, needed a range with step 1")
    some = None if devices is None else (devices.start, devices.stop)
    file = _TensorBin.describe(size, name, str(layout), mesh, some)
    _, _, stored, mapper = file.stored(None)
    plan = compiled(
        size, name, None, stored, mapper, None, exact(pad_value), rounding, search, saturate=saturate
    )
    file.write(path, plan(x, None, threads))
