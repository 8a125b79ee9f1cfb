"""Float arithmetic of ``arith``: one rounding an operation, NaN rules of MLIR (ktir spec 3.2, 5.5)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ktir.attributes import IntegerAttr
from ktir.dialects import arith
from ktir.dialects.arith import CmpFPredicate
from ktir.types import IntegerType
from spyresim.errors import UnsupportedError
from spyresim.meaning.formats import Array
from spyresim.meaning.table import Call, Meaning, meaning

__all__ = ["compare", "maximum", "maximum_number", "minimum", "minimum_number"]


def _arithmetic(function: Callable[[Array, Array], Array]) -> Meaning:
    """An operation that is exact up to one rounding in the computing format."""

    def apply(call: Call) -> Array:
        number = call.floats
        left, right = (number.widen(values) for values in call.operands)
        return number.narrow(np.asarray(function(left, right)))

    return apply


meaning(arith.AddF)(_arithmetic(np.add))
meaning(arith.SubF)(_arithmetic(np.subtract))
meaning(arith.MulF)(_arithmetic(np.multiply))
meaning(arith.DivF)(_arithmetic(np.divide))
meaning(arith.RemF)(_arithmetic(np.fmod))


def maximum(left: Array, right: Array) -> Array:
    """The larger number; NaN if either is; -0 < +0."""
    return np.where(left == right, _positive_zero(left, right), np.maximum(left, right))


def minimum(left: Array, right: Array) -> Array:
    """The smaller number; NaN if either is; -0 < +0."""
    return np.where(left == right, _negative_zero(left, right), np.minimum(left, right))


def maximum_number(left: Array, right: Array) -> Array:
    """The larger number; a NaN loses against a number; -0 < +0."""
    return np.where(left == right, _positive_zero(left, right), np.fmax(left, right))


def minimum_number(left: Array, right: Array) -> Array:
    """The smaller number; a NaN loses against a number; -0 < +0."""
    return np.where(left == right, _negative_zero(left, right), np.fmin(left, right))


def _positive_zero(left: Array, right: Array) -> Array:
    """Of two equal numbers, +0 rather than -0."""
    return np.where(np.signbit(left), right, left)


def _negative_zero(left: Array, right: Array) -> Array:
    return np.where(np.signbit(left), left, right)


meaning(arith.MaximumF)(_arithmetic(maximum))
meaning(arith.MinimumF)(_arithmetic(minimum))
meaning(arith.MaxNumF)(_arithmetic(maximum_number))
meaning(arith.MinNumF)(_arithmetic(minimum_number))


@meaning(arith.NegF)
def negate(call: Call) -> Array:
    """The sign bit flipped, also of NaNs."""
    (values,) = call.operands
    if call.floats.is_dlfloat:
        return values ^ np.uint16(0x8000)
    return np.negative(values)


def compare(predicate: CmpFPredicate, left: Array, right: Array) -> Array:
    """A comparison of float32 or float64 arrays: ordered predicates are false on NaN, unordered ones true."""
    unordered = np.isnan(left) | np.isnan(right)
    match predicate:
        case CmpFPredicate.FALSE:
            return np.zeros(unordered.shape, np.bool_)
        case CmpFPredicate.TRUE:
            return np.ones(unordered.shape, np.bool_)
        case CmpFPredicate.ORD:
            return ~unordered
        case CmpFPredicate.UNO:
            return np.asarray(unordered)
        case CmpFPredicate.ONE:
            return np.asarray((left != right) & ~unordered)
        case (
            CmpFPredicate.OEQ | CmpFPredicate.OGT | CmpFPredicate.OGE | CmpFPredicate.OLT | CmpFPredicate.OLE
        ):
            return np.asarray(_RELATIONS[predicate](left, right))
        case _:
            return np.asarray(_RELATIONS[predicate](left, right)) | unordered


_RELATIONS: dict[CmpFPredicate, Callable[[Array, Array], Array]] = {
    CmpFPredicate.OEQ: np.equal,
    CmpFPredicate.OGT: np.greater,
    CmpFPredicate.OGE: np.greater_equal,
    CmpFPredicate.OLT: np.less,
    CmpFPredicate.OLE: np.less_equal,
    CmpFPredicate.UEQ: np.equal,
    CmpFPredicate.UGT: np.greater,
    CmpFPredicate.UGE: np.greater_equal,
    CmpFPredicate.ULT: np.less,
    CmpFPredicate.ULE: np.less_equal,
    CmpFPredicate.UNE: np.not_equal,
}


def predicate_number(call: Call) -> int:
    """The ``predicate`` attribute."""
    match call.attributes.get("predicate"):
        case IntegerAttr(value=value):
            return value
        case other:
            raise UnsupportedError(f"'{call.name}' without an integer predicate (got {other})", call.site)


@meaning(arith.CmpF)
def compare_floats(call: Call) -> Array:
    number = call.floats
    left, right = (number.widen(values) for values in call.operands)
    return np.asarray(compare(CmpFPredicate(predicate_number(call)), left, right), np.bool_)


@meaning(arith.Select)
def select(call: Call) -> Array:
    """The second operand where the first (i1) holds, else the third; bits are moved, never rounded."""
    condition, yes, no = call.operands
    assert call.operand_types[0] == IntegerType(1)
    return np.where(condition, yes, no)
