"""Element types: names, NumPy dtypes, device formats, and scalars as bit patterns (runtime spec 3.4.1)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np

from spyrert.errors import SymbolBindingError, UnsupportedDtype
from spyrert.spyrecode.layout import item_bytes

_EXTENDED: Final[Mapping[str, Any]] = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "df16": np.uint16,
}

_DLFLOAT_FORMATS: Final[Mapping[str, str]] = {
    "float16": "df16",
    "bfloat16": "df16",
    "bool": "df16",
    "int64": "int32",
}
"""Device format of a host dtype where it is not the dtype itself, on a device with DLFloat16 (runtime spec
3.4.1)."""


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype of a format; DLFloat16 (``df16``) has none and is held as raw ``uint16``."""
    item_bytes(name)
    dtype: np.dtype[Any] = np.dtype(_EXTENDED.get(name, name))
    return dtype


def dtype_name(dtype: Any) -> str:
    """Name of a host dtype, given as a name, a NumPy dtype or a scalar type.

    Raises ``UnsupportedDtype`` for what a device cannot hold.

    >>> dtype_name(np.float16), dtype_name("bfloat16"), dtype_name(np.dtype("int32"))
    ('float16', 'bfloat16', 'int32')
    """
    if isinstance(dtype, str) and dtype in _EXTENDED:
        return dtype
    try:
        name = str(np.dtype(dtype).name)
    except TypeError:
        raise UnsupportedDtype(f"{dtype!r} is no element type", dtype=str(dtype)) from None
    item_bytes(name)
    return name


def device_format(dtype: str, f16_format: str) -> str:
    """Format on the device of a tensor for which no launch spec names one.

    On an ``ieee`` device every dtype is stored as itself; on a ``dlfloat`` device by upstream's table.
    """
    return _DLFLOAT_FORMATS.get(dtype, dtype) if f16_format == "dlfloat" else dtype


@functools.cache
def _integer_range(dtype: str) -> tuple[int, int]:
    info = np.iinfo(np.int64 if dtype == "index" else dtype)
    return int(info.min), int(info.max)


def scalar_bits(name: str, dtype: str, value: Any) -> int:
    """The 64-bit number by which a scalar argument travels.

    ``index`` and integers as themselves, checked against their range; floats as their bit pattern, rounded to
    nearest even. Raises ``SymbolBindingError`` naming the argument.

    >>> scalar_bits("n", "index", 3), hex(scalar_bits("s", "float16", 1.5)), scalar_bits("k", "int8", -1)
    (3, '0x3e00', -1)
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if dtype in ("float16", "bfloat16", "float32"):
        numbers = (int, float, np.integer, np.floating, ml_dtypes.bfloat16)
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers):
            raise SymbolBindingError(f"'{name}' is a {dtype}, got {value!r}", name=name)
        with np.errstate(over="ignore"):
            array = np.asarray(value, np.float64).astype(numpy_dtype(dtype))
        raw: np.ndarray[Any, Any] = array.reshape(1).view(np.uint16 if array.itemsize == 2 else np.uint32)
        return int(raw[0])
    if dtype == "bool":
        if not isinstance(value, (bool, np.bool_)) and value not in (0, 1):
            raise SymbolBindingError(f"'{name}' is a bool, got {value!r}", name=name)
        return int(value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise SymbolBindingError(f"'{name}' is of type {dtype}, got {value!r}", name=name)
    low, high = _integer_range(dtype)
    if not low <= int(value) <= high:
        raise SymbolBindingError(f"'{name}' = {int(value)} does not fit in {dtype}", name=name)
    return int(value)
