"""Names of element types: as numpy, torch, jax, ml_dtypes, TTNN and MLIR write them."""

import importlib
from typing import Any

import numpy as np

# Here, elsewhere, MLIR.
_NAMES = (
    ("f64", "float64", "f64"),
    ("f32", "float32", "f32"),
    ("f16", "float16", "f16"),
    ("bf16", "bfloat16", "bf16"),
    ("f8e4m3", "float8_e4m3fn", "f8E4M3FN"),
    ("f8e5m2", "float8_e5m2", "f8E5M2"),
    ("i64", "int64", "i64"),
    ("i32", "int32", "i32"),
    ("i16", "int16", "i16"),
    ("i8", "int8", "i8"),
    ("u64", "uint64", "ui64"),
    ("u32", "uint32", "ui32"),
    ("u16", "uint16", "ui16"),
    ("u8", "uint8", "ui8"),
    ("bool", "bool", "i1"),
)
_SHORT = {name: short for short, *names in _NAMES for name in (short, *names)}
_LONG = {short: name for short, name, _ in _NAMES}


def name_of(dtype: Any) -> str:
    """The bare name of an element type: a text, or a dtype object of numpy, torch, jax, ml_dtypes or ttnn."""
    if isinstance(dtype, str):
        return dtype
    name = getattr(dtype, "__name__", None) or getattr(dtype, "name", None)
    return (name if isinstance(name, str) else str(dtype).rpartition(".")[2]).lower()


def short_name(dtype: Any) -> str:
    """The name that tilewright uses: `bf16` for `"bfloat16"`, `torch.bfloat16` or `ml_dtypes.bfloat16`."""
    name = name_of(dtype)
    return _SHORT.get(name, name)


def long_name(short: str) -> str:
    """The name that numpy, torch and TTNN use, of a name of tilewright's."""
    return _LONG.get(short, short)


def is_element(short: str) -> bool:
    """Whether the name is one of tilewright's for plain elements; else it is of a block float, or of nothing."""
    return short in _LONG


def numpy_dtype(short: str) -> np.dtype[Any]:
    """The numpy type of a name: of ml_dtypes where numpy lacks it, or else an unsigned integer of the same size."""
    name = _LONG[short]
    if short not in ("bf16", "f8e4m3", "f8e5m2"):
        return np.dtype(name)
    try:
        dtype: np.dtype[Any] = np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    except ImportError:
        dtype = np.dtype(np.uint16 if short == "bf16" else np.uint8)
    return dtype
