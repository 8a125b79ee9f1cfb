"""Reductions: how their bodies combine, and what leaves a value as it is."""

from __future__ import annotations

from attrs import frozen

from ktir.attribute import Attribute
from ktir.attributes import FloatAttr, IntegerAttr, wrap_integer
from ktir.dialects import arith, linalg
from ktir.ir import Operation, Value
from ktir.types import FloatType, IntegerType, Type

__all__ = ["Combine", "combine_of", "neutral_element"]

ORDERED = (arith.AddF, arith.MulF)
"""Combining operations whose result depends on the order (each combination rounds)."""

_COMMUTATIVE = (
    arith.AddF,
    arith.MulF,
    arith.MaximumF,
    arith.MinimumF,
    arith.MaxNumF,
    arith.MinNumF,
    arith.AddI,
    arith.MulI,
    arith.MaxSI,
    arith.MinSI,
    arith.MaxUI,
    arith.MinUI,
    arith.AndI,
    arith.OrI,
    arith.XOrI,
)


@frozen
class Combine:
    """``accumulator op value``: the operation that a reduction's body ends in, and the value it takes in."""

    op: Operation
    value: Value

    @property
    def depends_on_order(self) -> bool:
        """Whether another order of the same combinations may round differently."""
        return isinstance(self.op, ORDERED)


def combine_of(generic: linalg.Generic) -> Combine | None:
    """The associative operation that a reduction with one result repeats; None for any other body."""
    block = generic.body.block
    accumulator = block.arguments[-1]
    users = [op for op in block.operations if accumulator in op.operands]
    if len(users) != 1 or not isinstance(users[0], _COMMUTATIVE):
        return None
    (op,) = users
    others = [value for value in op.operands if value is not accumulator]
    if len(others) != 1 or block.terminator.operands != op.results:
        return None
    return Combine(op, others[0])


def neutral_element(op: Operation) -> Attribute:
    """The constant e with ``e op x = x`` for every x (bit for bit, NaNs apart)."""
    type = op.results[0].type
    if isinstance(type, FloatType):
        return _neutral_float(op, type)
    assert isinstance(type, IntegerType)
    return IntegerAttr(wrap_integer(_neutral_integer(op, type.width), type), type)


def _neutral_float(op: Operation, type: Type) -> FloatAttr:
    assert isinstance(type, FloatType)
    match op:
        case arith.AddF():
            return FloatAttr.of(-0.0, type)
        case arith.MulF():
            return FloatAttr.of(1.0, type)
        case arith.MaximumF():
            return FloatAttr.of(float("-inf"), type)
        case arith.MinimumF():
            return FloatAttr.of(float("inf"), type)
        case arith.MaxNumF() | arith.MinNumF():
            return FloatAttr.of(float("nan"), type)
        case _:
            raise AssertionError(op)


def _neutral_integer(op: Operation, width: int) -> int:
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    match op:
        case arith.AddI() | arith.OrI() | arith.XOrI() | arith.MaxUI():
            return 0
        case arith.MulI():
            return 1
        case arith.AndI() | arith.MinUI():
            return -1
        case arith.MaxSI():
            return low
        case arith.MinSI():
            return high
        case _:
            raise AssertionError(op)
