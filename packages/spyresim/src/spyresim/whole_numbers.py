"""Whether a kernel that is run on small whole numbers computes numbers that its types hold exactly.

Such runs tell a reordered reduction from a wrong one (readings, item 16). Sums of small whole numbers are
small whole numbers in any order. Factors that are no short binary fractions, products of sums, and sums over
what is computed from sums are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import numpy as np

from ktir.attributes import DenseElementsAttr, FloatAttr
from ktir.dialects import arith, linalg
from ktir.ir import Operation, Value
from spyresim.errors import UnsupportedError
from spyresim.meaning.constants import constant_array

__all__ = ["stays_whole"]

PRODUCTS = frozenset({"arith.mulf", "linalg.mul", "linalg.square", "math.powf", "math.fma"})
SUMS = frozenset({"arith.addf", "arith.subf"})
FRACTION = 256.0
"""Constants are multiples of one part in so many, and at most so large."""


class _Kind(IntEnum):
    """What a value is: data, a sum of data, or computed from sums and other values."""

    DATA = 0
    SUM = 1
    MIXED = 2


class _Leaves(Exception):
    """A value may leave the numbers that are exact."""


def stays_whole(kernel: Operation) -> bool:
    """Whether what a KTIR kernel computes from -1, 0 and 1 is exact in any order of its reductions.

    A question of form: no for what cannot be told.
    """
    if not all(_is_short(op) for op in kernel.walk() if isinstance(op, arith.Constant)):
        return False
    kinds: dict[Value, _Kind] = {}
    constants: set[Value] = set()
    try:
        for region in kernel.regions:
            for block in region.blocks:
                _follow(block.operations, kinds, constants)
    except _Leaves:
        return False
    return True


def _is_short(op: arith.Constant) -> bool:
    """Whether the floats of a constant are whole numbers or short binary fractions, or infinite."""
    if not isinstance(op.value, FloatAttr | DenseElementsAttr):
        return True
    try:
        numbers = np.atleast_1d(constant_array(op.value)).astype(np.float64)
    except UnsupportedError:
        return False
    numbers = numbers[np.isfinite(numbers)]
    return bool(np.all((np.abs(numbers) <= FRACTION) & (numbers * FRACTION == np.rint(numbers * FRACTION))))


def _follow(operations: Iterable[Operation], kinds: dict[Value, _Kind], constants: set[Value]) -> _Kind:
    """Classify the results of operations; the greatest kind that the last one takes."""
    taken = _Kind.DATA
    for op in operations:
        taken = max((kinds.get(value, _Kind.DATA) for value in op.operands), default=_Kind.DATA)
        kind = taken
        if isinstance(op, linalg.LinalgOp):
            kind = _structured(op, kinds, constants)
        elif op.regions:
            bodies = [
                _follow(block.operations, kinds, constants)
                for region in op.regions
                for block in region.blocks
            ]
            kind = max([taken, *bodies])
        else:
            kind = _combined(op, list(op.operands), kinds, constants)
        kinds.update(dict.fromkeys(op.results, kind))
        fixed = bool(op.operands) and all(value in constants for value in op.operands)
        if fixed or isinstance(op, arith.Constant):
            constants.update(op.results)
    return taken


def _combined(
    op: Operation, operands: list[Value], kinds: dict[Value, _Kind], constants: set[Value]
) -> _Kind:
    """The kind of what one operation makes of its operands."""
    found = [kinds.get(value, _Kind.DATA) for value in operands]
    sums = sum(kind > _Kind.DATA for kind in found)
    if op.name in PRODUCTS and (sums > 1 or (sums and len(operands) == 1)):
        raise _Leaves
    several = sum(value not in constants for value in operands) > 1
    kind = max(found, default=_Kind.DATA)
    return _Kind.MIXED if kind > _Kind.DATA and several else kind


def _structured(op: linalg.LinalgOp, kinds: dict[Value, _Kind], constants: set[Value]) -> _Kind:
    """The kind of the results of a structured operation; its body is followed."""
    inputs = [kinds.get(value, _Kind.DATA) for value in op.input_values]
    kind = _combined(op, list(op.input_values), kinds, constants)
    names = {op.name}
    for region in op.regions:
        for block in region.blocks:
            kinds.update(zip(block.arguments, inputs, strict=False))
            constants.update(block.arguments[len(inputs) :])  # what a fold carries is no further number
            kind = _follow(block.operations, kinds, constants)
            names |= {inner.name for inner in block.operations}
    if "reduction" not in op.iterators or not names & SUMS:
        return kind
    if kind is _Kind.MIXED:
        raise _Leaves
    return _Kind.SUM
