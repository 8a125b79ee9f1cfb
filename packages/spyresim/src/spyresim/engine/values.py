"""Scalars and vectors of a gang of processes: one row a core."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from dfsched.image import ElementType
from ktir.types import FloatType, IntegerType, Type

Array: TypeAlias = npt.NDArray[Any]
Ticks: TypeAlias = npt.NDArray[np.int64]
"""Times and durations in ticks of 1/1024 cycle, one entry a row."""

TICKS_PER_CYCLE = 1024

Scalar: TypeAlias = int | npt.NDArray[np.int64]
"""A value that is the same in all rows, or one a row.  64-bit two's complement."""

_MASK = (1 << 64) - 1
_SIGN = 1 << 63


def wrap64(value: int) -> int:
    """A Python integer in the range of int64, modulo 2**64."""
    return ((value + _SIGN) & _MASK) - _SIGN


def plus(a: Scalar, b: Scalar) -> Scalar:
    """The sum, modulo 2**64."""
    if isinstance(a, int):
        a, b = b, a
    if isinstance(a, int):
        assert isinstance(b, int)
        return wrap64(a + b)
    return a + (np.int64(wrap64(b)) if isinstance(b, int) else b)


def times(a: Scalar, factor: int) -> Scalar:
    """The product with a number, modulo 2**64."""
    return wrap64(a * factor) if isinstance(a, int) else a * np.int64(wrap64(factor))


def simplify(values: npt.NDArray[np.int64]) -> Scalar:
    """One integer if all rows agree."""
    if len(values) and (values == values[0]).all():
        return int(values[0])
    return values


def spread(value: Scalar, rows: int) -> npt.NDArray[np.int64]:
    """The value of every row as an array; addresses that leave 64 bits wrap."""
    if isinstance(value, int):
        return np.full(rows, wrap64(value), np.int64)
    return value


def take(value: Scalar, rows: npt.NDArray[np.intp]) -> Scalar:
    """The value for some of the rows."""
    return value if isinstance(value, int) else simplify(value[rows])


@attrs.frozen(eq=False)
class Vector:
    """Typed lanes: `data` has shape (rows, lanes) in the dtype that `spyresim.meaning` holds the type in."""

    element: ElementType
    data: Array

    @property
    def lanes(self) -> int:
        return int(self.data.shape[1])

    def take(self, rows: npt.NDArray[np.intp]) -> Vector:
        return Vector(self.element, self.data[rows])


_TYPES: dict[ElementType, Type] = {
    ElementType.I1: IntegerType(1),
    ElementType.I4: IntegerType(4),
    ElementType.I8: IntegerType(8),
    ElementType.I16: IntegerType(16),
    ElementType.I32: IntegerType(32),
    ElementType.I64: IntegerType(64),
    ElementType.F16: FloatType("f16"),
    ElementType.BF16: FloatType("bf16"),
    ElementType.F32: FloatType("f32"),
    ElementType.F64: FloatType("f64"),
    ElementType.DF16: FloatType("df16"),
    ElementType.F8E4M3FN: FloatType("f8E4M3FN"),
    ElementType.F8E5M2: FloatType("f8E5M2"),
}


def ktir_type(element: ElementType) -> Type | None:
    """The scalar type of an element code; None for the MX formats, which nothing here computes with."""
    return _TYPES.get(element)
