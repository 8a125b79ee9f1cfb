"""How elements of a type are held in arrays, and how results are rounded to it.

Arrays hold elements bit for bit: ``f16`` as float16, ``bf16`` as ml-dtypes' bfloat16, DLFloat16 as uint16
codes, ``index`` as int64, ``i1`` as bool.  Float arithmetic widens to a format in which one operation
followed by one more rounding is the same as one rounding (at least twice the precision plus two bits), so
every result is rounded exactly once.  A fused pair of floats is one unsigned integer.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from ktir import dlfloat
from ktir.dialects.spyreop import FusedType
from ktir.dtypes import storage_dtype
from ktir.errors import UnsupportedError as KtirUnsupportedError
from ktir.machine import F16Format
from ktir.types import DF16, F16, F64, FloatType, IndexType, IntegerType, Type, element_or_self
from spyresim.errors import UnsupportedError

__all__ = ["Array", "FloatFormat", "float_format", "held_dtype", "is_dlfloat", "narrow", "odd_f32", "stretch"]

Array: TypeAlias = npt.NDArray[Any]


def stretch(array: Array, shape: tuple[int, ...]) -> Array:
    """The array in a shape that it broadcasts to; itself if it has that shape."""
    return array if array.shape == shape else np.broadcast_to(array, shape)


DOUBLE: np.dtype[Any] = np.dtype(np.float64)
SINGLE: np.dtype[Any] = np.dtype(np.float32)


def is_dlfloat(type: Type, f16_format: F16Format = F16Format.IEEE) -> bool:
    """Whether elements of `type` are DLFloat16 codes."""
    return type == DF16 or (type == F16 and f16_format is F16Format.DLFLOAT)


@cache
def held_dtype(type: Type, f16_format: F16Format = F16Format.IEEE) -> np.dtype[Any]:
    """The dtype of arrays that hold elements of `type` (a scalar type, or a shaped one's element type).

    `UnsupportedError` for types without a storage format.
    """
    scalar = element_or_self(type)
    if is_dlfloat(scalar, f16_format):
        return np.dtype(np.uint16)
    if isinstance(scalar, FusedType):
        return np.dtype(f"u{2 * held_dtype(scalar.part, f16_format).itemsize}")
    try:
        return storage_dtype(scalar)
    except KtirUnsupportedError as error:
        raise UnsupportedError(error.message) from error


@attrs.frozen
class FloatFormat:
    """A float type as arrays hold it (`held`) and as one operation is computed in it (`wide`)."""

    type: FloatType
    held: np.dtype[Any]
    wide: np.dtype[Any]

    @property
    def is_dlfloat(self) -> bool:
        return self.held == np.uint16

    def widen(self, values: Array) -> Array:
        """Exact values in the computing format; what is repeated along an axis is converted once."""
        if self.held == self.wide:
            return values
        if values.size > 1 and 0 in values.strides:
            once = values[tuple(slice(0, 1) if step == 0 else slice(None) for step in values.strides)]
            return np.broadcast_to(self._widen(once), values.shape)
        return self._widen(values)

    def _widen(self, values: Array) -> Array:
        if self.is_dlfloat:
            return dlfloat.decode(values).astype(self.wide)
        return values.astype(self.wide)

    def widen_double(self, values: Array) -> Array:
        """Exact values in binary64, contiguous (so that NumPy picks the same loop for every layout)."""
        wide = dlfloat.decode(values) if self.is_dlfloat else values
        return np.ascontiguousarray(wide, np.float64).reshape(values.shape)

    def narrow(self, values: Array) -> Array:
        """`values` (float32 or float64) rounded once, nearest even (DLFloat16: ties away from zero)."""
        if self.is_dlfloat:
            return np.asarray(dlfloat.encode(values))
        return narrow(values, self.held)


def narrow(values: Array, held: np.dtype[Any]) -> Array:
    """Round float32 or float64 `values` once to the IEEE-like dtype `held`."""
    if values.dtype == held:
        return values
    with np.errstate(all="ignore"):
        if values.dtype == DOUBLE and held.itemsize <= 2 and held != np.float16:
            values = odd_f32(values)  # ml-dtypes goes through float32; odd rounding makes that harmless
        return values.astype(held)


def odd_f32(values: Array) -> Array:
    """binary64 to binary32 by rounding to odd: a further rounding to at most 22 bits is then exact."""
    with np.errstate(all="ignore"):
        near = np.asarray(values, np.float64).astype(np.float32)
        inexact = near.astype(np.float64) != values  # also NaN, which stays as it is
        even = (near.view(np.uint32) & 1) == 0
        step = inexact & even & ~np.isnan(near)
        toward = np.where(near.astype(np.float64) < values, np.float32(np.inf), np.float32(-np.inf))
        return np.where(step, np.nextafter(near, toward.astype(np.float32)), near)


@cache
def float_format(type: Type, f16_format: F16Format = F16Format.IEEE) -> FloatFormat:
    """The format of a float type (or of a shaped type's float elements).

    `UnsupportedError` for types that have no storage format.
    """
    scalar = element_or_self(type)
    if not isinstance(scalar, FloatType):
        raise UnsupportedError(f"float arithmetic on {scalar}")
    held = held_dtype(scalar, f16_format)
    if is_dlfloat(scalar, f16_format) or scalar == F64:
        return FloatFormat(scalar, held, DOUBLE)
    return FloatFormat(scalar, held, SINGLE)


def integer_width(type: Type) -> int:
    """Width in bits of an integer or index type (or element type)."""
    match element_or_self(type):
        case IndexType():
            return 64
        case IntegerType(width=width):
            return width
        case other:
            raise UnsupportedError(f"integer arithmetic on {other}")
