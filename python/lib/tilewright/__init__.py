"""Moves tensors between host memory and accelerator memory layouts, at the speed of memory.

Arrays may be anything with the buffer protocol, DLPack or the array interface in host memory: numpy, torch, jax, bytes.
They are read in place, whatever their strides. Nothing may write an array, or use `out`, while a call runs.

Results are numpy arrays: of the element type of a host array, or of bytes, one row for each buffer (core, bank or device)
of an accelerator's layout. `out` is any dense memory of as many bytes, and is given back.

What cannot be done raises `Error`, a `ValueError` that says what was given and what was needed; objects that are no arrays,
and numbers beyond 64 bits, raise `TypeError` and `OverflowError`. What an array's own library refuses raises its exception.
"""

from ._checkpoint import Converted, PackedFile, PackReport, Stream, pack, stream, transfer_hook
from ._convert import (
    Owner,
    Place,
    Plan,
    PlanInfo,
    compile,
    convert,
    execute_batch,
    explain,
    locate,
    shard,
    stickify,
    tilize,
    unshard,
    unstickify,
    untilize,
)
from ._picture import draw
from ._stage import Stager, StageReport
from ._tensorbin import load_tensorbin, save_tensorbin
from ._tilewright import Error, Layout, __version__

__all__ = [
    "Converted",
    "Error",
    "Layout",
    "Owner",
    "PackReport",
    "PackedFile",
    "Place",
    "Plan",
    "PlanInfo",
    "StageReport",
    "Stager",
    "Stream",
    "__version__",
    "compile",
    "convert",
    "draw",
    "execute_batch",
    "explain",
    "load_tensorbin",
    "locate",
    "pack",
    "save_tensorbin",
    "shard",
    "stickify",
    "stream",
    "tilize",
    "transfer_hook",
    "unshard",
    "unstickify",
    "untilize",
]
