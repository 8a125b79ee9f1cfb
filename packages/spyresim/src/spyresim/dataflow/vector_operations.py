"""Vector operations of a program unit as instructions of the engine (dataflowir spec 1.2, 5.7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dfsched import image as im
from dfsched.dialects import vectorchain as vc
from ktir.attributes import DenseElementsAttr
from ktir.dialects import arith
from ktir.dtypes import literal_bytes
from ktir.ir import Operation, Value
from ktir.types import Type, VectorType
from spyresim.dataflow.tables import Tables
from spyresim.errors import Site, UnsupportedError

if TYPE_CHECKING:
    from spyresim.dataflow.unit_program import UnitReader

__all__ = ["VECTOR_READERS", "constant_index"]

_UNARY: Mapping[type[Operation], im.UnaryOperator] = {
    vc.FastExp: im.UnaryOperator.FAST_EXP,
    vc.Floor: im.UnaryOperator.FLOOR,
    vc.RecEstimate: im.UnaryOperator.RECIPROCAL_ESTIMATE,
    vc.LnEstimate: im.UnaryOperator.LN_ESTIMATE,
    vc.RsqrtEstimate: im.UnaryOperator.RSQRT_ESTIMATE,
    vc.Neg: im.UnaryOperator.NEG,
}
_FIRST_VERSION: Mapping[type[Operation], im.UnaryOperator] = {
    vc.ExpEstimate: im.UnaryOperator.EXP_ESTIMATE_A,
    vc.SigmoidEstimate: im.UnaryOperator.SIGMOID_SLOPE,
    vc.TanhEstimate: im.UnaryOperator.TANH_SLOPE,
}
"""Of the estimates in two parts; the second part has the next number."""


def _shape(type: Type) -> tuple[im.ElementType, int]:
    """Element type and lanes of a vector type."""
    assert isinstance(type, VectorType)
    return im.ElementType.of(type.element), type.num_elements()


def _mask(reader: UnitReader, mask: Value | None, site: Site) -> int | None:
    return None if mask is None else reader.read_vector(mask, site)


# -- constants


def constant_index(tables: Tables, op: Operation, site: Site) -> int:
    """The place of a vector constant in the table."""
    match op:
        case arith.Constant(value=DenseElementsAttr(type=VectorType() as type) as value):
            element, lanes = _shape(value.type)
            held = literal_bytes(value.data, type.element, tables.f16_format)
            data = held * lanes if value.splat else held
            return tables.constants.index_of(im.Constant(element, lanes, data))
        case vc.ConstantBitstream() if not op.is_symbol:
            element, _ = _shape(op.result.type)
            return tables.constants.index_of(im.Constant.of(element, op.patterns()))
        case vc.CreateAffineMask(parameter=None):
            _, lanes = _shape(op.result.type)
            bits = [int(op.mask_set.set.contains((lane,))) for lane in range(lanes)]
            return tables.constants.index_of(im.Constant.of(im.ElementType.I1, bits))
        case _:
            raise UnsupportedError("a constant that is neither a number nor a vector", site)


def _constant(reader: UnitReader, op: Operation, site: Site) -> None:
    constant = constant_index(reader.tables, op, site)
    reader.code.append(im.VectorConstant(reader.new_vector(op.results[0]), constant))


# -- lane by lane


def _unary(reader: UnitReader, op: Operation, site: Site) -> None:
    _emit_unary(reader, op, _UNARY[type(op)], site)


def _estimate(reader: UnitReader, op: Operation, site: Site) -> None:
    assert isinstance(op, vc.ExpEstimate | vc.SigmoidEstimate | vc.TanhEstimate)
    part = im.UnaryOperator(_FIRST_VERSION[type(op)] + int(op.version.value))
    _emit_unary(reader, op, part, site)


def _emit_unary(reader: UnitReader, op: Operation, code: im.UnaryOperator, site: Site) -> None:
    source = reader.read_vector(op.operands[0], site)
    mask = _mask(reader, op.operands[1] if len(op.operands) > 1 else None, site)
    reader.code.append(im.VectorUnary(code, reader.new_vector(op.results[0]), source, mask))


def _binary(reader: UnitReader, op: Operation, site: Site) -> None:
    assert isinstance(op, vc.Binary)
    if not op.op_specific_map.map.is_identity:
        raise UnsupportedError("unsupported op_specific_map", site)
    _emit_binary(reader, op, im.BinaryOperator(int(op.binary_op.value)), op.mask, site)


def _multiply(reader: UnitReader, op: Operation, site: Site) -> None:
    assert isinstance(op, vc.Multiply)
    if not op.reduction_map.map.is_identity:
        raise UnsupportedError("a product that sums lanes", site)
    _emit_binary(reader, op, im.BinaryOperator.MUL, op.mask, site)


def _emit_binary(
    reader: UnitReader, op: Operation, code: im.BinaryOperator, mask: Value | None, site: Site
) -> None:
    a, b = (reader.read_vector(value, site) for value in op.operands[:2])
    held = _mask(reader, mask, site)
    reader.code.append(im.VectorBinary(code, reader.new_vector(op.results[0]), a, b, held))


def _multiply_and_accumulate(reader: UnitReader, op: Operation, site: Site) -> None:
    assert isinstance(op, vc.MultiplyAndAccumulate)
    if not op.reduction_map.map.is_identity:
        raise UnsupportedError("a product that sums lanes", site)
    a, b, c = (reader.read_vector(value, site) for value in op.operands[:3])
    held = _mask(reader, op.mask, site)
    reader.code.append(im.VectorMultiplyAdd(reader.new_vector(op.results[0]), a, b, c, held))


def _compare(reader: UnitReader, op: Operation, site: Site) -> None:
    assert isinstance(op, vc.ElementWiseCompare)
    a, b = reader.read_vector(op.a, site), reader.read_vector(op.b, site)
    code = im.CompareOperator(int(op.compare_op.value))
    held = _mask(reader, op.mask, site)
    reader.code.append(im.VectorCompare(code, reader.new_vector(op.result), a, b, held))


def _selection(reader: UnitReader, op: Operation, site: Site) -> None:
    assert isinstance(op, vc.ElementWiseSelection)
    if op.mask is not None:
        raise UnsupportedError("a masked selection", site)
    condition, a, b = (reader.read_vector(value, site) for value in (op.condition, op.a, op.b))
    reader.code.append(im.VectorSelect(reader.new_vector(op.result), condition, a, b))


def _cast(reader: UnitReader, op: Operation, site: Site) -> None:
    assert isinstance(op, vc.Cast)
    if op.mask is not None:
        raise UnsupportedError("a masked cast", site)
    source = reader.read_vector(op.a, site)
    reader.code.append(im.VectorCast(reader.new_vector(op.result), source, *_shape(op.result.type)))


# -- across lanes


def _shuffle(reader: UnitReader, op: Operation, site: Site) -> None:
    assert isinstance(op, vc.Shuffle)
    element, _ = _shape(op.result.type)
    picked = tuple(reader.scalar(value, site) for value in (*op.variables, *op.pads))
    held = _mask(reader, op.mask, site)
    shuffles = reader.tables.shuffles
    shuffles.append(im.ShuffleDescriptor(element, tuple(op.picks()), op.repetition.value, picked, held))
    source = reader.read_vector(op.input, site)
    reader.code.append(im.Shuffle(reader.new_vector(op.result), source, len(shuffles) - 1))


def _rotate(reader: UnitReader, op: Operation, site: Site) -> None:
    assert isinstance(op, vc.Rotate)
    right = op.right_shift is None or bool(op.right_shift.value)
    source, amount = reader.read_vector(op.operands[0], site), reader.scalar(op.amount, site)
    reader.code.append(im.VectorRotate(reader.new_vector(op.results[0]), source, amount, not right))


def _scan(reader: UnitReader, op: Operation, site: Site) -> None:
    assert isinstance(op, vc.ScanWithGap)
    source = reader.read_vector(op.operands[0], site)
    code, backwards = im.BinaryOperator(int(op.reduction_op.value)), bool(op.eval_order.value)
    reader.code.append(im.VectorScan(code, reader.new_vector(op.results[0]), source, op.gap.value, backwards))


VECTOR_READERS: Mapping[type[Operation], Callable[[UnitReader, Operation, Site], None]] = {
    arith.Constant: _constant,
    vc.ConstantBitstream: _constant,
    vc.CreateAffineMask: _constant,
    **dict.fromkeys(_UNARY, _unary),
    **dict.fromkeys(_FIRST_VERSION, _estimate),
    vc.Binary: _binary,
    vc.Multiply: _multiply,
    vc.MultiplyAndAccumulate: _multiply_and_accumulate,
    vc.ElementWiseCompare: _compare,
    vc.ElementWiseSelection: _selection,
    vc.Cast: _cast,
    vc.Shuffle: _shuffle,
    vc.Rotate: _rotate,
    vc.ScanWithGap: _scan,
}
