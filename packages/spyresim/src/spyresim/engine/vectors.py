"""Vector instructions by the table of meanings (dataflowir spec 5.6, 5.7)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dfsched.image import (
    BinaryOperator,
    CompareOperator,
    ElementType,
    ShuffleDescriptor,
    UnaryOperator,
)
from ktir.attributes import DictAttr, IntegerAttr
from ktir.dialects.arith import CmpFPredicate, CmpIPredicate
from ktir.machine import F16Format
from ktir.types import I1, I64, FloatType, Type
from spyresim.engine.values import Array, Scalar, Vector, ktir_type, spread
from spyresim.errors import Site, UnsupportedError
from spyresim.meaning import evaluate_named, held_dtype

_FLOAT_BINARY = {
    BinaryOperator.ADD: "arith.addf",
    BinaryOperator.SUB: "arith.subf",
    BinaryOperator.MUL: "arith.mulf",
    BinaryOperator.MIN: "arith.minimumf",
    BinaryOperator.MAX: "arith.maximumf",
}
_INTEGER_BINARY = {
    BinaryOperator.ADD: "arith.addi",
    BinaryOperator.SUB: "arith.subi",
    BinaryOperator.MUL: "arith.muli",
    BinaryOperator.MIN: "arith.minsi",
    BinaryOperator.MAX: "arith.maxsi",
    BinaryOperator.AND: "arith.andi",
    BinaryOperator.OR: "arith.ori",
}
_UNARY = {
    UnaryOperator.FAST_EXP: "math.exp",
    UnaryOperator.FLOOR: "math.floor",
    UnaryOperator.NEG: "arith.negf",
    UnaryOperator.LN_ESTIMATE: "math.log",
    UnaryOperator.RSQRT_ESTIMATE: "math.rsqrt",
}
SLOW_UNARY = frozenset(UnaryOperator) - {UnaryOperator.FLOOR, UnaryOperator.NEG}
_CMPF = {
    CompareOperator.EQ: CmpFPredicate.OEQ,
    CompareOperator.NEQ: CmpFPredicate.UNE,
    CompareOperator.LT: CmpFPredicate.OLT,
    CompareOperator.LE: CmpFPredicate.OLE,
    CompareOperator.GT: CmpFPredicate.OGT,
    CompareOperator.GE: CmpFPredicate.OGE,
}
_CMPI = {
    CompareOperator.EQ: CmpIPredicate.EQ,
    CompareOperator.NEQ: CmpIPredicate.NE,
    CompareOperator.LT: CmpIPredicate.SLT,
    CompareOperator.LE: CmpIPredicate.SLE,
    CompareOperator.GT: CmpIPredicate.SGT,
    CompareOperator.GE: CmpIPredicate.SGE,
}


class Lanes:
    """Lane-wise computation in one f16 format."""

    def __init__(self, f16_format: F16Format) -> None:
        self.f16_format = f16_format

    def type(self, element: ElementType, site: Site) -> Type:
        found = ktir_type(element)
        if found is None:
            raise UnsupportedError(f"lanes of type {element.mlir}", site)
        return found

    def dtype(self, element: ElementType, site: Site) -> np.dtype[np.generic]:
        """The dtype that holds lanes of a type."""
        return held_dtype(self.type(element, site), self.f16_format)

    def from_bytes(self, element: ElementType, data: Array, site: Site) -> Vector:
        """Lanes from memory: uint8 (rows, n * bytes of an element)."""
        held = self.dtype(element, site)
        raw = np.ascontiguousarray(data)
        if element is ElementType.I1:
            return Vector(element, (raw & 1).astype(np.bool_))
        return Vector(element, raw.view(held))

    def to_bytes(self, vector: Vector) -> Array:
        """Lanes as memory holds them: uint8 (rows, n * bytes of an element)."""
        return np.ascontiguousarray(vector.data).view(np.uint8)

    def constant(self, element: ElementType, patterns: list[int], rows: int, site: Site) -> Vector:
        """The same lanes in every row, from bit patterns."""
        held = self.dtype(element, site)
        if element is ElementType.I1:
            row = np.array([bool(p & 1) for p in patterns], np.bool_)
        else:
            raw = b"".join(p.to_bytes(held.itemsize, "little") for p in patterns)
            row = np.frombuffer(raw, held)
        return Vector(element, np.broadcast_to(row, (rows, len(row))).copy())

    def named(
        self, name: str, inputs: list[Vector], out: ElementType, attributes: DictAttr, site: Site
    ) -> Vector:
        """An operation of the table."""
        types = [self.type(vector.element, site) for vector in inputs]
        (result,) = evaluate_named(
            name,
            [vector.data for vector in inputs],
            types,
            [self.type(out, site)],
            attributes,
            self.f16_format,
            site,
        )
        return Vector(out, result)

    def binary(self, op: BinaryOperator, a: Vector, b: Vector, mask: Vector | None, site: Site) -> Vector:
        require_same(a, b, site)
        if op in (BinaryOperator.ABS_MAX, BinaryOperator.ABS_MIN):
            inner = BinaryOperator.MAX if op is BinaryOperator.ABS_MAX else BinaryOperator.MIN
            return self.binary(inner, self._absolute(a, site), self._absolute(b, site), mask, site)
        if op in (BinaryOperator.XNOR, BinaryOperator.AND_NOT) and not a.element.is_float:
            data = ~(a.data ^ b.data) if op is BinaryOperator.XNOR else a.data & ~b.data
            return _masked(Vector(a.element, data), a, mask, site)
        table = _FLOAT_BINARY if a.element.is_float else _INTEGER_BINARY
        if op not in table:
            raise UnsupportedError(f"vector operator {op.name} on {a.element.mlir}", site)
        return _masked(self.named(table[op], [a, b], a.element, DictAttr(), site), a, mask, site)

    def _absolute(self, a: Vector, site: Site) -> Vector:
        name = "math.absf" if a.element.is_float else "math.absi"
        return self.named(name, [a], a.element, DictAttr(), site)

    def unary(self, op: UnaryOperator, a: Vector, mask: Vector | None, site: Site) -> Vector:
        if op in _UNARY:
            name = _UNARY[op]
            if op is UnaryOperator.NEG and not a.element.is_float:
                zero = Vector(a.element, np.zeros_like(a.data))
                return _masked(self.binary(BinaryOperator.SUB, zero, a, None, site), a, mask, site)
            return _masked(self.named(name, [a], a.element, DictAttr(), site), a, mask, site)
        function = _ESTIMATES.get(op)
        if function is None or not a.element.is_float:
            raise UnsupportedError(f"vector operator {op.name} on {a.element.mlir}", site)
        from spyresim.meaning import float_format

        format = float_format(self.type(a.element, site), self.f16_format)
        with np.errstate(all="ignore"):
            data = format.narrow(function(format.widen_double(a.data)))
        return _masked(Vector(a.element, data), a, mask, site)

    def compare(self, op: CompareOperator, a: Vector, b: Vector, mask: Vector | None, site: Site) -> Vector:
        require_same(a, b, site)
        float_like = a.element.is_float
        predicate = int(_CMPF[op]) if float_like else int(_CMPI[op])
        attributes = DictAttr({"predicate": IntegerAttr(predicate, I64)})
        name = "arith.cmpf" if float_like else "arith.cmpi"
        out = self.named(name, [a, b], ElementType.I1, attributes, site)
        if mask is None:
            return out
        check_mask(mask, out, site)
        return Vector(ElementType.I1, out.data & mask.data.astype(np.bool_))

    def cast(self, a: Vector, element: ElementType, site: Site) -> Vector:
        """Round to nearest even; float to integer truncates and saturates."""
        if a.element is element:
            return a
        source, target = self.type(a.element, site), self.type(element, site)
        if isinstance(source, FloatType) and isinstance(target, FloatType):
            name = "arith.extf" if a.element.bits < element.bits else "arith.truncf"
        elif isinstance(source, FloatType):
            name = "arith.fptosi"
        elif isinstance(target, FloatType):
            name = "arith.uitofp" if source == I1 else "arith.sitofp"
        else:
            wider = element.bits > a.element.bits
            name = ("arith.extui" if source == I1 else "arith.extsi") if wider else "arith.trunci"
        return self.named(name, [a], element, DictAttr(), site)

    def shuffle(
        self, a: Vector, descriptor: ShuffleDescriptor, scalars: list[Scalar], mask: Vector | None, site: Site
    ) -> Vector:
        """Lanes picked from the input or from scalar registers (low bits are the bit pattern)."""
        if a.element is not descriptor.element:
            raise UnsupportedError(f"shuffle of {a.element.mlir} to {descriptor.element.mlir}", site)
        rows = a.data.shape[0]
        picked: list[Array] = []
        for index in descriptor.indices:
            if index >= 0:
                if index >= a.lanes:
                    raise UnsupportedError(f"shuffle of lane {index} of {a.lanes}", site)
                picked.append(a.data[:, index])
            else:
                picked.append(self._pattern_lane(descriptor.element, scalars[-1 - index], rows, site))
        data = np.tile(np.stack(picked, axis=1), (1, descriptor.repetition))
        out = Vector(descriptor.element, data)
        if mask is None:
            return out
        keep = np.zeros_like(data)
        check_mask(mask, out, site)
        keep[:, : min(a.lanes, out.lanes)] = a.data[:, : min(a.lanes, out.lanes)]
        return Vector(descriptor.element, np.where(mask.data.astype(np.bool_), data, keep))

    def _pattern_lane(self, element: ElementType, value: Scalar, rows: int, site: Site) -> Array:
        held = self.dtype(element, site)
        raw = spread(value, rows)
        if element is ElementType.I1:
            return (raw & 1).astype(np.bool_)
        return (
            np.ascontiguousarray(raw)
            .view(np.uint8)
            .reshape(rows, 8)[:, : held.itemsize]
            .copy()
            .view(held)[:, 0]
        )


def require_same(a: Vector, b: Vector, site: Site) -> None:
    if a.element is not b.element or a.lanes != b.lanes:
        raise UnsupportedError(
            f"operands of {a.lanes} x {a.element.mlir} and {b.lanes} x {b.element.mlir}", site
        )


def check_mask(mask: Vector, result: Vector, site: Site) -> None:
    """A mask has one lane for every lane of the result; `UnsupportedError` otherwise."""
    if mask.lanes != result.lanes:
        raise UnsupportedError(f"a mask of {mask.lanes} lanes for a result of {result.lanes}", site)


def _masked(result: Vector, first: Vector, mask: Vector | None, site: Site) -> Vector:
    if mask is None:
        return result
    check_mask(mask, result, site)
    return Vector(result.element, np.where(mask.data.astype(np.bool_), result.data, first.data))


def _sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


_ESTIMATES: dict[UnaryOperator, Callable[[Array], Array]] = {
    UnaryOperator.RECIPROCAL_ESTIMATE: lambda x: 1.0 / x,
    UnaryOperator.EXP_ESTIMATE_A: lambda x: np.exp2(np.floor(x * np.log2(np.e))),
    UnaryOperator.EXP_ESTIMATE_B: lambda x: np.exp(x) / np.exp2(np.floor(x * np.log2(np.e))),
    UnaryOperator.SIGMOID_SLOPE: lambda x: _sigmoid(x) * (1.0 - _sigmoid(x)),
    UnaryOperator.SIGMOID_OFFSET: lambda x: _sigmoid(x) - x * _sigmoid(x) * (1.0 - _sigmoid(x)),
    UnaryOperator.TANH_SLOPE: lambda x: 1.0 - np.tanh(x) ** 2,
    UnaryOperator.TANH_OFFSET: lambda x: np.tanh(x) - x * (1.0 - np.tanh(x) ** 2),
}
