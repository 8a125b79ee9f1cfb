"""Scalar operations of a `linalg.generic` body as vector operations (dataflowir spec 3.6; readings, 13)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dfsched.dialects import vectorchain as vc
from dfsched.image import BinaryOperator, CompareOperator
from ktir.affine import AffineMap
from ktir.attribute import Attribute
from ktir.attributes import AffineMapAttr, IntegerAttr
from ktir.dialects import arith, math
from ktir.ir import Operation, Value
from ktir.types import I1, FloatType, IntegerType, VectorType

__all__ = ["vector_operations"]

Emit = Callable[[Operation], Value]

_BINARY: dict[type[Operation], BinaryOperator] = {
    arith.AddF: BinaryOperator.ADD,
    arith.SubF: BinaryOperator.SUB,
    arith.MulF: BinaryOperator.MUL,
    arith.MaximumF: BinaryOperator.MAX,
    arith.MinimumF: BinaryOperator.MIN,
    arith.AddI: BinaryOperator.ADD,
    arith.SubI: BinaryOperator.SUB,
    arith.MulI: BinaryOperator.MUL,
    arith.MaxSI: BinaryOperator.MAX,
    arith.MinSI: BinaryOperator.MIN,
    arith.AndI: BinaryOperator.AND,
    arith.OrI: BinaryOperator.OR,
}
_SIGNED = (arith.MulI, arith.MaxSI, arith.MinSI, arith.AddI, arith.SubI)
"""Not for i1, whose only number besides 0 is -1 here and 1 there."""

_ORDERED: dict[arith.CmpFPredicate, CompareOperator] = {
    arith.CmpFPredicate.OEQ: CompareOperator.EQ,
    arith.CmpFPredicate.OGT: CompareOperator.GT,
    arith.CmpFPredicate.OGE: CompareOperator.GE,
    arith.CmpFPredicate.OLT: CompareOperator.LT,
    arith.CmpFPredicate.OLE: CompareOperator.LE,
    arith.CmpFPredicate.UNE: CompareOperator.NEQ,
}
_SIGNED_COMPARE: dict[arith.CmpIPredicate, CompareOperator] = {
    arith.CmpIPredicate.EQ: CompareOperator.EQ,
    arith.CmpIPredicate.NE: CompareOperator.NEQ,
    arith.CmpIPredicate.SLT: CompareOperator.LT,
    arith.CmpIPredicate.SLE: CompareOperator.LE,
    arith.CmpIPredicate.SGT: CompareOperator.GT,
    arith.CmpIPredicate.SGE: CompareOperator.GE,
}
_CASTS = (arith.ExtF, arith.TruncF, arith.SIToFP, arith.FPToSI, arith.ExtSI, arith.TruncI)


def _identity() -> AffineMapAttr:
    return AffineMapAttr(AffineMap.identity(1))


def vector_operations(op: Operation, operands: Sequence[Value], emit: Emit) -> Value | None:
    """The exact vector instruction for a scalar operation on vectors; None if there is none.

    `operands` are vectors of equal length, `emit` appends an operation and gives its result.
    """
    if not all(isinstance(value.type, VectorType) for value in operands) or len(op.results) != 1:
        return None
    length = _lanes(operands[0])
    result = VectorType((length,), op.results[0].type)
    narrow = any(_element(value) == I1 for value in operands)
    if type(op) in _BINARY and not (narrow and isinstance(op, _SIGNED)):
        return emit(_binary(_BINARY[type(op)], operands, result))
    match op:
        case arith.NegF():
            return emit(vc.Neg.create(operands, (result,)))
        case math.Floor():
            return emit(vc.Floor.create(operands, (result,)))
        case arith.Select() if _element(operands[0]) == I1:
            return emit(vc.ElementWiseSelection.create(operands, (result,)))
        case arith.CmpF():
            compare = _ORDERED.get(arith.CmpFPredicate(_predicate(op)))
            return None if compare is None else emit(_compare(compare, operands, result))
        case arith.CmpI() if not narrow:
            signed = _SIGNED_COMPARE.get(arith.CmpIPredicate(_predicate(op)))
            return None if signed is None else emit(_compare(signed, operands, result))
        case _ if isinstance(op, _CASTS) and not narrow and result.element != I1 and _plain(result):
            return emit(vc.Cast.create(operands, (result,)))
        case _:
            return None


def _plain(type: VectorType) -> bool:
    return isinstance(type.element, FloatType | IntegerType)


def _element(value: Value) -> object:
    assert isinstance(value.type, VectorType)
    return value.type.element


def _lanes(value: Value) -> int:
    assert isinstance(value.type, VectorType)
    return value.type.num_elements()


def _predicate(op: Operation) -> int:
    found = op.attributes["predicate"]
    assert isinstance(found, IntegerAttr)
    return found.value


def _binary(operator: BinaryOperator, operands: Sequence[Value], result: VectorType) -> Operation:
    entries: dict[str, Attribute] = {
        "binary_op": vc.BinaryOperatorAttr(operator),
        "op_specific_map": _identity(),
    }
    return vc.Binary.create(operands, (result,), entries)


def _compare(operator: CompareOperator, operands: Sequence[Value], result: VectorType) -> Operation:
    return vc.ElementWiseCompare.create(operands, (result,), {"compare_op": vc.CompareOperatorAttr(operator)})
