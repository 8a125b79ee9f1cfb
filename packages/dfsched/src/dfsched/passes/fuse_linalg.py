"""`fuse-linalg`: one element-wise generic per stored value (scheduler spec 3.4 step 2).

Takes functions whose compute is `linalg.generic` (what `generalize-linalg` leaves), constants and
splats. For every stored tensor the computation is rebuilt backwards from the store: element-wise
generics are inlined through their indexing maps, a value that is used twice is computed once per
distinct subscripts, splat constants become scalar constants in the body. Leaves one generic per store
whose inputs are loads (or results of operations that are not element-wise), each distinct (value, map)
once, and a fresh `tensor.empty` as its out. Nothing is shared between two stores, so producers
disappear.

Before::

    %p = linalg.generic ... ins(%x, %y) { arith.mulf }
    %q = linalg.generic ... ins(%p, %p) { arith.addf }
    ktdp.store %q, %t

After::

    %q = linalg.generic ... ins(%x, %y) { %0 = arith.mulf  %1 = arith.addf %0, %0 }
    ktdp.store %q, %t
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import define, field

from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.errors import ScheduleError, UnsupportedKernel
from dfsched.passes.generics import is_element_wise, make_generic, splat_value
from dfsched.passes.ir_tools import Definitions, clone_all, post_order, rewrite_blocks
from ktir.affine import AffineExpr, AffineMap, Dim
from ktir.attribute import Attribute
from ktir.attributes import DenseElementsAttr
from ktir.dialects import arith, ktdp, linalg, tensor
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, Value
from ktir.location import Location
from ktir.transforms import dce
from ktir.types import TensorType

__all__ = ["PASS", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Fuse in every function that stores."""
    definitions = Definitions(module)

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        result: list[Operation] = []
        for op in operations:
            if isinstance(op, ktdp.Store):
                new, value = _fused(op, definitions)
                result += new
                op = op.replace(operands=[value, *op.operands[1:]])
            result.append(op)
        return result

    new = dce(rewrite_blocks(module, rewrite))
    assert isinstance(new, Module)
    return new


PASS = Pass("fuse-linalg", Group.FRONTEND, run, "one element-wise generic per stored value")


def _fused(store: ktdp.Store, definitions: Definitions) -> tuple[list[Operation], Value]:
    type = store.data_tile.type
    assert isinstance(type, TensorType)
    if not type.is_static:
        raise UnsupportedKernel.at(store.location, "tensors of dynamic shape are not supported")
    producer = definitions.definer(store.data_tile)
    location = store.location if producer is None else producer.location
    fusion = _Fusion(definitions, location)
    result = fusion.scalar(store.data_tile, AffineMap.identity(type.rank))
    empty = tensor.Empty.create((), [type], location=location)
    leaves = list(fusion.leaves.items())
    generic = make_generic(
        [value for (value, _), _ in leaves],
        empty.result,
        [*(map for (_, map), _ in leaves), AffineMap.identity(type.rank)],
        [*(argument for _, argument in leaves), BlockArgument(type.element, "out")],
        fusion.body,
        result,
        location,
    )
    return [empty, generic], generic.results[0]


@define(eq=False)
class _Fusion:
    """The body of the generic under construction."""

    definitions: Definitions
    location: Location
    body: list[Operation] = field(factory=list)
    leaves: dict[tuple[Value, AffineMap], BlockArgument] = field(factory=dict)
    _scalars: dict[tuple[Value, AffineMap], Value] = field(factory=dict)
    _constants: dict[Attribute, Value] = field(factory=dict)

    def scalar(self, value: Value, map: AffineMap) -> Value:
        """The element of a tensor at the subscripts `map` of the iteration space."""
        for key in post_order((value, map), self._operands, self._scalars):
            self._scalars[key] = self._made(*key)
        return self._scalars[value, map]

    def _operands(self, key: tuple[Value, AffineMap]) -> list[tuple[Value, AffineMap]]:
        """What an inlined generic reads for one element."""
        value, map = key
        op = self.definitions.definer(value)
        if not isinstance(op, linalg.Generic) or not is_element_wise(op):
            return []
        return [
            (operand, subscripts)
            for operand, subscripts, _ in _reads(op, value, map)
            if isinstance(operand.type, TensorType)
        ]

    def _made(self, value: Value, map: AffineMap) -> Value:
        op = self.definitions.definer(value)
        match op:
            case linalg.Generic() if is_element_wise(op):
                return self._inlined(op, value, map)
            case arith.Constant(value=DenseElementsAttr(splat=True) as dense):
                return self._constant(splat_value(dense))
            case arith.Constant():
                raise UnsupportedKernel.at(
                    op.location, "constant tensors other than splats are not supported"
                )
            case tensor.Splat():
                return self._outer(op.input, op)
            case tensor.Empty():
                raise ScheduleError.at(
                    self.location, "the computation reads the contents of a 'tensor.empty'"
                )
            case _:
                type = value.type
                assert isinstance(type, TensorType)
                argument = BlockArgument(type.element, "in")
                self.leaves[value, map] = argument
                return argument

    def _constant(self, attribute: Attribute) -> Value:
        if attribute not in self._constants:
            constant = arith.Constant.of(attribute)
            self.body.append(constant)
            self._constants[attribute] = constant.result
        return self._constants[attribute]

    def _outer(self, value: Value, user: Operation) -> Value:
        match self.definitions.definer(value):
            case arith.Constant(value=attribute):
                return self._constant(attribute)
            case _:
                raise UnsupportedKernel.at(
                    user.location, "a scalar that is only known at run time takes part in a computation"
                )

    def _inlined(self, generic: linalg.Generic, value: Value, map: AffineMap) -> Value:
        block = generic.body.block
        mapping: dict[Value, Value] = {}
        for operand, subscripts, argument in _reads(generic, value, map):
            if isinstance(operand.type, TensorType):
                mapping[argument] = self._scalars[operand, subscripts]
            else:
                mapping[argument] = self._outer(operand, generic)
        terminator = block.operations[-1]
        local = {result for op in block.operations for result in op.results}
        for op in block.operations:
            for operand in op.operands:
                if operand not in mapping and operand not in local:
                    mapping[operand] = self._outer(operand, op)
        for op in block.operations[:-1]:
            if isinstance(op, linalg.Index):
                raise UnsupportedKernel.at(op.location, "'linalg.index' is not supported")
            if isinstance(op, arith.Constant):
                mapping[op.result] = self._constant(op.value)
                continue
            self.body += clone_all([op], mapping)
        yielded = terminator.operands[_number(generic, value)]
        return mapping.get(yielded, yielded)


def _number(generic: linalg.Generic, value: Value) -> int:
    """Which result of the generic a value is."""
    return next(i for i, result in enumerate(generic.results) if result is value)


def _reads(generic: linalg.Generic, value: Value, map: AffineMap) -> Iterator[tuple[Value, AffineMap, Value]]:
    """Operands that the body uses, where element `map` of a result reads them, with block arguments."""
    maps = generic.maps
    out = maps[len(generic.inputs) + _number(generic, value)]
    loops: list[AffineExpr] = [Dim(0)] * out.num_dims
    for expr, subscript in zip(out.results, map.results, strict=True):
        assert isinstance(expr, Dim)
        loops[expr.position] = subscript
    block = generic.body.block
    used = {operand for op in block.operations for operand in op.operands}
    operands = (*generic.inputs, *generic.outputs)
    for operand, inner, argument in zip(operands, maps, block.arguments, strict=True):
        if argument in used:
            exprs = tuple(expr.replace(loops, ()) for expr in inner.results)
            yield operand, AffineMap(map.num_dims, 0, exprs).simplified(), argument
