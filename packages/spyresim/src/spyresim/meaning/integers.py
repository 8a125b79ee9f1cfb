"""Integer arithmetic of ``arith``: modulo 2**width; ``index`` has 64 bits (ktir spec 3.2).

Arrays hold signless integers as signed ones and ``i1`` as bool (as a signed number, true is -1).  Shifts by
the width or more, undefined in MLIR, give 0 (arithmetic right shift: the sign).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ktir.dialects import arith, math
from ktir.dialects.arith import CmpIPredicate
from ktir.types import Type
from spyresim.errors import ArithmeticFault
from spyresim.meaning.floats import predicate_number
from spyresim.meaning.formats import Array, integer_width
from spyresim.meaning.table import Call, Meaning, meaning

__all__ = ["compare_integers", "to_signed", "to_unsigned", "wrap"]


def to_signed(values: Array, type: Type) -> Array:
    """The bits of an integer array as signed numbers, in a dtype of the same width (i1: int8)."""
    if values.dtype == np.bool_:
        return np.negative(values.astype(np.int8))
    return values.view(np.dtype(f"i{values.dtype.itemsize}"))


def to_unsigned(values: Array, type: Type) -> Array:
    """The bits of an integer array as unsigned numbers, in a dtype of the same width (i1: uint8)."""
    if values.dtype == np.bool_:
        return values.astype(np.uint8)
    return values.view(np.dtype(f"u{values.dtype.itemsize}"))


def wrap(values: Array, held: np.dtype[Any]) -> Array:
    """Integers of any dtype modulo 2**width in `held` (bool: the lowest bit)."""
    if held == np.bool_:
        return (values & 1).astype(np.bool_)
    return values.astype(held)


def _integers(
    function: Callable[[Array, Array], Array], read: Callable[[Array, Type], Array] = to_signed
) -> Meaning:
    def apply(call: Call) -> Array:
        left, right = (
            read(values, type) for values, type in zip(call.operands, call.operand_types, strict=True)
        )
        return wrap(np.asarray(function(left, right)), call.result_dtype)

    return apply


meaning(arith.AddI)(_integers(np.add))
meaning(arith.SubI)(_integers(np.subtract))
meaning(arith.MulI)(_integers(np.multiply))
meaning(arith.AndI)(_integers(np.bitwise_and))
meaning(arith.OrI)(_integers(np.bitwise_or))
meaning(arith.XOrI)(_integers(np.bitwise_xor))
meaning(arith.MaxSI)(_integers(np.maximum))
meaning(arith.MinSI)(_integers(np.minimum))
meaning(arith.MaxUI)(_integers(np.maximum, to_unsigned))
meaning(arith.MinUI)(_integers(np.minimum, to_unsigned))


def _division(
    function: Callable[[Array, Array], Array], read: Callable[[Array, Type], Array], overflows: bool
) -> Meaning:
    """A division: zero divisors, and the quotient that does not fit (smallest / -1), are faults."""

    def apply(call: Call) -> Array:
        left, right = (
            read(values, type) for values, type in zip(call.operands, call.operand_types, strict=True)
        )
        if np.any(right == 0):
            raise ArithmeticFault(
                "integer division by zero", site=call.site, operands=_first(left, right, right == 0)
            )
        if read is to_signed:
            smallest = -(1 << (integer_width(call.operand_types[0]) - 1))
            bad = (left == smallest) & (right == -1)
            if np.any(bad):
                if overflows:
                    raise ArithmeticFault(
                        f"integer division overflows: {smallest} / -1",
                        site=call.site,
                        operands=(smallest, -1),
                    )
                right = np.where(bad, right.dtype.type(1), right)  # the remainder is 0 either way
        return wrap(np.asarray(function(left, right)), call.result_dtype)

    return apply


def _first(left: Array, right: Array, where: Array) -> tuple[int, ...]:
    both = np.broadcast_arrays(left, right, where)
    index = np.unravel_index(int(np.argmax(both[2])), both[2].shape)
    return (int(both[0][index]), int(both[1][index]))


def _truncated_quotient(left: Array, right: Array) -> Array:
    quotient = np.floor_divide(left, right)
    inexact = quotient * right != left
    return np.asarray(quotient + (inexact & ((left < 0) != (right < 0))))


def _ceiling_quotient(left: Array, right: Array) -> Array:
    quotient = np.floor_divide(left, right)
    return np.asarray(quotient + (quotient * right != left))


meaning(arith.DivUI)(_division(np.floor_divide, to_unsigned, False))
meaning(arith.RemUI)(_division(np.remainder, to_unsigned, False))
meaning(arith.CeilDivUI)(_division(_ceiling_quotient, to_unsigned, False))
meaning(arith.DivSI)(_division(_truncated_quotient, to_signed, True))
meaning(arith.RemSI)(_division(np.fmod, to_signed, True))
meaning(arith.CeilDivSI)(_division(_ceiling_quotient, to_signed, True))
meaning(arith.FloorDivSI)(_division(np.floor_divide, to_signed, True))


def _shift(function: Callable[[Array, Array], Array], read: Callable[[Array, Type], Array]) -> Meaning:
    def apply(call: Call) -> Array:
        values = read(call.operands[0], call.operand_types[0])
        amounts = to_unsigned(call.operands[1], call.operand_types[1])
        width = integer_width(call.operand_types[0])
        safe = np.minimum(amounts, width - 1).astype(values.dtype)
        shifted = np.asarray(function(values, safe))
        beyond = np.where(values < 0, -1, 0).astype(values.dtype) if function is np.right_shift else 0
        return wrap(np.where(amounts < width, shifted, beyond), call.result_dtype)

    return apply


meaning(arith.ShLI)(_shift(np.left_shift, to_signed))
meaning(arith.ShRUI)(_shift(np.right_shift, to_unsigned))
meaning(arith.ShRSI)(_shift(np.right_shift, to_signed))


@meaning(math.AbsI)
def absolute(call: Call) -> Array:
    """The smallest number stays as it is."""
    return wrap(np.abs(to_signed(call.operands[0], call.operand_types[0])), call.result_dtype)


def compare_integers(predicate: CmpIPredicate, left: Array, right: Array, type: Type) -> Array:
    """A comparison of held arrays of an integer type; bool."""
    read = to_unsigned if predicate >= CmpIPredicate.ULT else to_signed
    return np.asarray(_RELATIONS[predicate](read(left, type), read(right, type)), np.bool_)


_RELATIONS: dict[CmpIPredicate, Callable[[Array, Array], Array]] = {
    CmpIPredicate.EQ: np.equal,
    CmpIPredicate.NE: np.not_equal,
    CmpIPredicate.SLT: np.less,
    CmpIPredicate.SLE: np.less_equal,
    CmpIPredicate.SGT: np.greater,
    CmpIPredicate.SGE: np.greater_equal,
    CmpIPredicate.ULT: np.less,
    CmpIPredicate.ULE: np.less_equal,
    CmpIPredicate.UGT: np.greater,
    CmpIPredicate.UGE: np.greater_equal,
}


@meaning(arith.CmpI)
def compare_call(call: Call) -> Array:
    left, right = call.operands
    return compare_integers(CmpIPredicate(predicate_number(call)), left, right, call.operand_types[0])
