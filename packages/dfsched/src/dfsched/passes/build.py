"""Constructors of the operations that passes emit most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define, field

from dfsched.dialects.ktdf import LoopKind, LoopTypeAttr
from ktir.affine import Add, AffineError, AffineExpr, CeilDiv, Const, Dim, FloorDiv, Mod, Mul
from ktir.attribute import Attribute
from ktir.attributes import DenseArrayAttr, DictAttr, StringAttr, SymbolRefAttr, TypeAttr, index_attr
from ktir.dialects import arith, func, memref, scf
from ktir.ir import BlockArgument, Operation, OpResult, Region, Value
from ktir.location import Location
from ktir.opdef import OPERAND_SEGMENTS
from ktir.types import I32, INDEX, FunctionType, Type

__all__ = [
    "Emitter",
    "alloc",
    "call",
    "declaration",
    "for_loop",
    "function",
    "index_constant",
]


def index_constant(value: int) -> arith.Constant:
    """``arith.constant value : index``."""
    return arith.Constant.of(index_attr(value))


def alloc(buffer: OpResult) -> memref.Alloc:
    """The allocation that defines an already made value of static memref type."""
    return memref.Alloc((), (buffer,), DictAttr({OPERAND_SEGMENTS: DenseArrayAttr(I32, (0, 0))}))


def function(
    name: str,
    arguments: Sequence[BlockArgument],
    operations: Sequence[Operation],
    attributes: Mapping[str, Attribute],
    location: Location,
) -> func.Func:
    """A public function without results; the return is added."""
    type = FunctionType(tuple(argument.type for argument in arguments), ())
    return func.Func.create(
        attributes={**attributes, "sym_name": StringAttr(name), "function_type": TypeAttr(type)},
        regions=[Region.of([*operations, func.Return.create(location=location)], arguments)],
        location=location,
    )


def declaration(name: str, types: Sequence[Type], location: Location) -> func.Func:
    """A private declaration."""
    return func.Func.create(
        attributes={
            "sym_name": StringAttr(name),
            "sym_visibility": StringAttr("private"),
            "function_type": TypeAttr(FunctionType(tuple(types), ())),
        },
        regions=[Region()],
        location=location,
    )


def call(name: str, arguments: Sequence[Value], location: Location) -> func.Call:
    """A call without results."""
    return func.Call.create(arguments, (), {"callee": SymbolRefAttr(name)}, location=location)


def for_loop(
    bounds: tuple[Value, Value, Value],
    variable: BlockArgument,
    operations: Sequence[Operation],
    kind: LoopKind | None,
    location: Location,
) -> scf.For:
    """``scf.for variable = lower to upper step step`` around some operations."""
    attributes: dict[str, Attribute] = {} if kind is None else {"loop_type": LoopTypeAttr(kind)}
    return scf.For.build(*bounds, operations, variable, attributes, location)


@define(eq=False)
class Emitter:
    """Collects operations; constants are made once per emitter."""

    location: Location
    operations: list[Operation] = field(factory=list)
    _constants: dict[int, Value] = field(factory=dict)

    def add(self, op: Operation) -> Value:
        """Append an operation; its first result."""
        self.operations.append(op)
        return op.results[0]

    def constant(self, value: int) -> Value:
        """An index constant."""
        if value not in self._constants:
            self._constants[value] = self.add(index_constant(value))
        return self._constants[value]

    def binary(self, op: type[Operation], lhs: Value, rhs: Value) -> Value:
        """An index operation on two values."""
        return self.add(op.create([lhs, rhs], [INDEX], location=self.location))

    def affine(self, expr: AffineExpr, values: Sequence[Value]) -> Value:
        """An affine expression over values that are not negative, as index arithmetic."""
        match expr:
            case Dim(position):
                return values[position]
            case Const(value):
                return self.constant(value)
            case Add(lhs, Mul(factor, Const(-1))):
                return self.binary(arith.SubI, self.affine(lhs, values), self.affine(factor, values))
            case Add(lhs, rhs):
                return self.binary(arith.AddI, self.affine(lhs, values), self.affine(rhs, values))
            case Mul(lhs, rhs):
                return self.binary(arith.MulI, self.affine(lhs, values), self.affine(rhs, values))
            case FloorDiv(lhs, rhs):
                return self.binary(arith.DivUI, self.affine(lhs, values), self.affine(rhs, values))
            case CeilDiv(lhs, rhs):
                return self.binary(arith.CeilDivUI, self.affine(lhs, values), self.affine(rhs, values))
            case Mod(lhs, rhs):
                return self.binary(arith.RemUI, self.affine(lhs, values), self.affine(rhs, values))
            case _:
                raise AffineError(f"no index arithmetic for {expr}")
