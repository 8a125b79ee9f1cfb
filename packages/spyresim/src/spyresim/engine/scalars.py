"""Scalar instructions: 64-bit two's complement, one value for all rows or one a row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dfsched.image import Predicate, ScalarOp
from spyresim.engine.values import Scalar, simplify, wrap64
from spyresim.errors import ArithmeticFault, Site

_MASK = (1 << 64) - 1


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_BINARY: dict[ScalarOp, Callable[[int, int], int]] = {
    ScalarOp.ADD: lambda a, b: a + b,
    ScalarOp.SUB: lambda a, b: a - b,
    ScalarOp.MUL: lambda a, b: a * b,
    ScalarOp.DIVS: _truncated,
    ScalarOp.DIVU: lambda a, b: (a & _MASK) // (b & _MASK),
    ScalarOp.REMS: lambda a, b: a - _truncated(a, b) * b,
    ScalarOp.REMU: lambda a, b: (a & _MASK) % (b & _MASK),
    ScalarOp.MINS: min,
    ScalarOp.MAXS: max,
    ScalarOp.MINU: lambda a, b: min(a & _MASK, b & _MASK),
    ScalarOp.MAXU: lambda a, b: max(a & _MASK, b & _MASK),
    ScalarOp.CEILDIVS: lambda a, b: -(-a // b),
    ScalarOp.FLOORDIVS: lambda a, b: a // b,
    ScalarOp.CEILDIVU: lambda a, b: -(-(a & _MASK) // (b & _MASK)),
    ScalarOp.AND: lambda a, b: a & b,
    ScalarOp.OR: lambda a, b: a | b,
    ScalarOp.XOR: lambda a, b: a ^ b,
}
_DIVISIONS = frozenset(
    [
        ScalarOp.DIVS,
        ScalarOp.DIVU,
        ScalarOp.REMS,
        ScalarOp.REMU,
        ScalarOp.CEILDIVS,
        ScalarOp.FLOORDIVS,
        ScalarOp.CEILDIVU,
    ]
)
_ARRAY: dict[ScalarOp, Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], npt.NDArray[np.int64]]] = {
    ScalarOp.ADD: np.add,
    ScalarOp.SUB: np.subtract,
    ScalarOp.MUL: np.multiply,
    ScalarOp.MINS: np.minimum,
    ScalarOp.MAXS: np.maximum,
    ScalarOp.AND: np.bitwise_and,
    ScalarOp.OR: np.bitwise_or,
    ScalarOp.XOR: np.bitwise_xor,
}


def binary(op: ScalarOp, a: Scalar, b: Scalar, site: Site) -> Scalar:
    """``a op b``; a division by zero is an `ArithmeticFault`."""
    if isinstance(a, int) and isinstance(b, int):
        return _one(op, a, b, site)
    if op in _ARRAY:
        left, right = np.asarray(a, np.int64), np.asarray(b, np.int64)
        with np.errstate(over="ignore"):
            return simplify(np.atleast_1d(_ARRAY[op](left, right)))
    left, right = np.broadcast_arrays(np.asarray(a, np.int64), np.asarray(b, np.int64))
    values = [_one(op, x, y, site) for x, y in zip(left.tolist(), right.tolist(), strict=True)]
    return simplify(np.array(values, np.int64))


def _one(op: ScalarOp, a: int, b: int, site: Site) -> int:
    if b == 0 and op in _DIVISIONS:
        raise ArithmeticFault("division by zero", site=site, operands=(a, b))
    return wrap64(_BINARY[op](a, b))


_COMPARE: dict[Predicate, Callable[[int, int], bool]] = {
    Predicate.EQ: lambda a, b: a == b,
    Predicate.NE: lambda a, b: a != b,
    Predicate.SLT: lambda a, b: a < b,
    Predicate.SLE: lambda a, b: a <= b,
    Predicate.SGT: lambda a, b: a > b,
    Predicate.SGE: lambda a, b: a >= b,
    Predicate.ULT: lambda a, b: (a & _MASK) < (b & _MASK),
    Predicate.ULE: lambda a, b: (a & _MASK) <= (b & _MASK),
    Predicate.UGT: lambda a, b: (a & _MASK) > (b & _MASK),
    Predicate.UGE: lambda a, b: (a & _MASK) >= (b & _MASK),
}


def compare(predicate: Predicate, a: Scalar, b: Scalar) -> Scalar:
    """1 or 0."""
    function = _COMPARE[predicate]
    if isinstance(a, int) and isinstance(b, int):
        return int(function(a, b))
    left, right = np.broadcast_arrays(np.asarray(a, np.int64), np.asarray(b, np.int64))
    values = [int(function(x, y)) for x, y in zip(left.tolist(), right.tolist(), strict=True)]
    return simplify(np.array(values, np.int64))


def select(condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """`a` where the condition is not zero, else `b`."""
    if isinstance(condition, int):
        return a if condition else b
    return simplify(np.where(condition != 0, np.asarray(a, np.int64), np.asarray(b, np.int64)))
