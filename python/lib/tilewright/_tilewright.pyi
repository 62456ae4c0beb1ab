from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, TypedDict, final, type_check_only

from ._convert import PlanInfo

__all__ = [
    "Error",
    "Layout",
    "Plan",
    "Rules",
    "Stream",
    "TensorBin",
    "__version__",
    "describe",
    "execute_batch",
    "main",
    "pack",
    "stage",
]

__version__: str

class Error(ValueError):
    """Bad input: what was given and what was needed. `code` is the number of the kind of error."""

    code: int

@final
class Layout:
    """A layout text, read and checked; `str` gives a text that reads the same."""

    def __new__(cls, text: str) -> Layout: ...
    def _repr_html_(self) -> str: ...
    def __hash__(self) -> int: ...

@final
class Plan:
    def __new__(
        cls,
        shape: Sequence[int] | None,
        dtype: str | None,
        source: str | None,
        to: str | None,
        mesh: str | None,
        device: str | None,
        pad_value: float | None,
        rounding: str,
        search: bool,
        codec: str,
        compat_unpack: str,
        saturate: bool,
    ) -> Plan: ...
    def run(self, x: Any, out: Any, threads: int | None) -> None: ...
    def run_chunk(self, x: Any, out: Any, begin: int, end: int) -> None: ...
    def picture(self, page: bool, most: int | None) -> str | None: ...
    def dci(self) -> str: ...
    def locate(self, index: Sequence[int]) -> list[tuple[int, int, int, int | None]]: ...
    def owner(self, buffer: int, byte: int) -> tuple[str, list[list[int]]]: ...
    @property
    def info(self) -> PlanInfo: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def source_bytes(self) -> int: ...
    @property
    def buffers(self) -> int: ...
    @property
    def buffer_bytes(self) -> int: ...
    @property
    def chunk_alignment(self) -> int: ...
    @property
    def host_array(self) -> tuple[list[int], str, list[int] | None, int] | None: ...

@type_check_only
class FileInfo(TypedDict):
    to: str
    dtype: str
    device_shape: list[int]
    memory: str
    alignment: list[int]
    mesh_shape: list[int]
    payload_offset: int
    stored_copies: int

@final
class TensorBin:
    @staticmethod
    def open(path: str | PathLike[str]) -> TensorBin: ...
    @staticmethod
    def describe(
        shape: Sequence[int],
        dtype: str,
        layout: str,
        mesh: str | None,
        devices: tuple[int, int] | None,
    ) -> TensorBin: ...
    def stored(self, device: Sequence[int] | None) -> tuple[list[int], str, str, str | None]: ...
    def size(self, device: Sequence[int] | None) -> int: ...
    def read(self, device: Sequence[int] | None, out: Any) -> None: ...
    def write(self, path: str | PathLike[str], x: Any) -> None: ...
    @property
    def devices(self) -> list[list[int]]: ...
    @property
    def info(self) -> FileInfo: ...

@final
class Rules:
    def __new__(cls, text: str) -> Rules: ...
    def check_single(self) -> None: ...
    def of(self, name: str, shape: Sequence[int], dtype: str) -> tuple[str, str | None, bool] | None: ...

@final
@type_check_only
class Bytes:
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Stream:
    def __new__(
        cls,
        model: str | PathLike[str],
        rules: Rules,
        memory: int,
        devices: tuple[int, int] | None,
        numbers: tuple[str, bool, str, bool],
        threads: int,
    ) -> Stream: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Stream: ...
    def __next__(
        self,
    ) -> tuple[
        str,
        str,
        str | None,
        list[int],
        str,
        tuple[int, int],
        tuple[list[int], str, list[int] | None, int] | None,
        Bytes,
    ]: ...
    def close(self) -> None: ...

def pack(
    model: str | PathLike[str],
    rules: Rules,
    out: str | PathLike[str] | None,
    max_memory: int,
    resume: bool,
    share: tuple[int, int] | None,
    devices: tuple[int, int] | None,
    numbers: tuple[str, bool, str, bool],
    threads: int,
    progress: Callable[[int, int, str | None], object] | None,
) -> tuple[
    int,
    int,
    int,
    int,
    float,
    list[tuple[str, str, str, str, str | None, list[int], str, int, int]],
]: ...
def execute_batch(conversions: Sequence[tuple[Plan, Any, Any]], threads: int | None) -> None: ...
def describe(x: Any) -> tuple[list[int], str | None]: ...
def main(arguments: Sequence[str]) -> int: ...

def stage(
    slots: Sequence[Any],
    transfers: Sequence[tuple[Plan, Any]],
    sink: Callable[[int, int, int, int, int], object],
    threads: int | None,
) -> tuple[int, int, float, float, float]: ...
