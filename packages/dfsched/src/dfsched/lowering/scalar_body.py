"""Scalar operations of a `linalg.generic` body as vector operations (dataflowir spec 3.6; readings, 13)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dfsched.dialects import vectorchain as vc
from dfsched.image import BinaryOperator, CompareOperator
from dfsched.lowering.errors import UnsupportedLowering
from ktir.affine import AffineMap
from ktir.attribute import Attribute
from ktir.attributes import AffineMapAttr, IntegerAttr
from ktir.dialects import arith, linalg, math, memref, spyreop
from ktir.errors import Diagnostic
from ktir.ir import Operation, OpResult, Value
from ktir.types import I1, FloatType, IndexType, IntegerType, VectorType

__all__ = ["check_instructions", "vector_operations"]

MAPS_TO = "ktdf_arch.maps_to"
"""Attribute of an operation that a device pattern maps to an instruction over that register file."""

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
_EVERYWHERE = (
    arith.CmpF
    | arith.CmpI
    | arith.ExtUI
    | arith.UIToFP
    | arith.FPToUI
    | arith.Bitcast
    | arith.ExtF
    | arith.TruncF
    | arith.SIToFP
    | arith.FPToSI
    | arith.ExtSI
    | arith.TruncI
)
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


def check_instructions(function: Operation) -> None:
    """`UnsupportedLowering` lists the functions in bodies that the device has no instruction for.

    That is what no vector instruction does exactly, and no pattern maps. Comparisons, casts and arithmetic of
    truth values are what every compute unit does: those without an exact instruction go through registers.
    """
    found = [
        Diagnostic(
            "unsupported operation type in linalg.generic body: no pattern of the device maps "
            f"'{op.name}' to an instruction",
            op.location,
        )
        for generic in function.walk()
        if isinstance(generic, linalg.Generic)
        for op in generic.body.block.operations
        if _computes(op) and MAPS_TO not in op.attributes and not _has_instruction(op)
    ]
    if found:
        raise UnsupportedLowering(tuple(dict.fromkeys(found)))


def _computes(op: Operation) -> bool:
    """Whether an operation of a body makes a number of others, and not every compute unit does that."""
    if isinstance(op, arith.Constant | spyreop.Constant | linalg.Index | memref.Load | _EVERYWHERE):
        return False
    if all(value.type == I1 for value in (*op.operands, *op.results)):
        return False
    return len(op.results) == 1 and not any(isinstance(value.type, IndexType) for value in op.operands)


def _has_instruction(op: Operation) -> bool:
    """Whether `vector_operations` has one for an operation."""
    operands = [OpResult(VectorType((1,), value.type)) for value in op.operands]
    return bool(operands) and vector_operations(op, operands, lambda made: made.results[0]) is not None


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
