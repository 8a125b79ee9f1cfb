"""Computations rebuilt backwards from a result: what `fuse-linalg` puts into one generic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from attrs import define, field

from dfsched.passes.build import Emitter
from dfsched.passes.constant_tables import element_at, is_table, refusal
from dfsched.passes.errors import ScheduleError, UnsupportedKernel
from dfsched.passes.generics import is_element_wise, splat_value
from dfsched.passes.index_arithmetic import constant_value
from dfsched.passes.ir_tools import Definitions, clone_all, post_order
from ktir.affine import AffineExpr, AffineMap, Const, Dim, Mod, simplify
from ktir.analysis import is_pure
from ktir.attribute import Attribute
from ktir.attributes import ArrayAttr, DenseElementsAttr, IntegerAttr, index_attr
from ktir.dialects import arith, linalg, tensor
from ktir.ir import BlockArgument, Operation, Value
from ktir.location import Location
from ktir.types import INDEX, TensorType

__all__ = ["Fusion", "reads"]


@define(eq=False)
class Fusion:
    """The body of the generic under construction; `extents` are those of its loops.

    `replaced` gives what makes results that are computed elsewhere (reductions, maybe collapsed afterwards).
    `leaves` are the inputs in order of first use: value and subscript map, with the block argument of the
    element.
    """

    definitions: Definitions
    location: Location
    extents: tuple[int, ...]
    replaced: Mapping[Value, Operation]
    body: list[Operation] = field(factory=list)
    leaves: dict[tuple[Value, AffineMap], BlockArgument] = field(factory=dict)
    _scalars: dict[tuple[Value, AffineMap], Value] = field(factory=dict)
    _constants: dict[Attribute, Value] = field(factory=dict)
    _outer: dict[Value, Value] = field(factory=dict)
    _indices: dict[int, Value] = field(factory=dict)

    def scalar(self, value: Value, map: AffineMap) -> Value:
        """The element of a tensor at the subscripts `map` of the iteration space."""
        for key in post_order((value, map), self._operands, self._scalars):
            self._scalars[key] = self._made(*key)
        return self._scalars[value, map]

    def _operands(self, key: tuple[Value, AffineMap]) -> list[tuple[Value, AffineMap]]:
        """What an inlined operation reads for one element."""
        value, map = key
        op = self.definitions.definer(value)
        if isinstance(op, linalg.Generic) and is_element_wise(op):
            found = [
                (operand, subscripts)
                for operand, subscripts, _ in reads(op, value, map)
                if isinstance(operand.type, TensorType)
            ]
            return found + [element for scalar in captures(op) for element in self._elements_behind(scalar)]
        if isinstance(op, tensor.Splat):
            return self._elements_behind(op.input)
        moved = reshaped(op, map)
        return [] if moved is None else [moved]

    def _elements_behind(self, scalar: Value) -> list[tuple[Value, AffineMap]]:
        """Tensor elements that a scalar is computed from."""
        found: list[tuple[Value, AffineMap]] = []

        def inputs(value: Value) -> Sequence[Value]:
            op = self.definitions.definer(value)
            return () if op is None or isinstance(op, tensor.Extract) else op.operands

        for value in post_order(scalar, inputs):
            op = self.definitions.definer(value)
            if isinstance(op, tensor.Extract):
                found.append(self._extracted(op))
        return found

    def _extracted(self, op: tensor.Extract) -> tuple[Value, AffineMap]:
        subscripts: list[AffineExpr] = []
        for index in op.indices:
            number = constant_value(index, self.definitions)
            if number is None:
                raise UnsupportedKernel.at(
                    op.location, "'tensor.extract' is supported at constant indices only"
                )
            subscripts.append(Const(number))
        return op.source, AffineMap(len(self.extents), 0, tuple(subscripts))

    def _made(self, value: Value, map: AffineMap) -> Value:
        op = self.definitions.definer(value)
        match op:
            case linalg.Generic() if is_element_wise(op):
                return self._inlined(op, value, map)
            case arith.Constant(value=DenseElementsAttr(splat=True) as dense):
                return self.constant(splat_value(dense))
            case arith.Constant(value=DenseElementsAttr() as dense):
                subscripts = [expr.value for expr in map.results if isinstance(expr, Const)]
                if not is_table(dense) or len(subscripts) < map.num_results:
                    raise UnsupportedKernel.at(op.location, refusal(dense))
                return self.constant(element_at(dense, subscripts))
            case arith.Constant():
                raise UnsupportedKernel.at(op.location, f"a constant '{op.value}' as a tensor")
            case tensor.Splat():
                return self.outer(op.input, op)
            case tensor.Empty():
                raise ScheduleError.at(
                    self.location, "the computation reads the contents of a 'tensor.empty'"
                )
        moved = reshaped(op, map)
        if moved is not None:
            return self._scalars[moved]
        reduced = self.replaced.get(value)
        if reduced is None:
            return self._leaf(value, map)
        return self._leaf(*(reshaped(reduced, map) or (reduced.results[0], map)))

    def _leaf(self, value: Value, map: AffineMap) -> Value:
        if (value, map) not in self.leaves:
            type = value.type
            assert isinstance(type, TensorType)
            self.leaves[value, map] = BlockArgument(type.element, "in")
        return self.leaves[value, map]

    def constant(self, attribute: Attribute) -> Value:
        """A constant in the body, made once."""
        if attribute not in self._constants:
            constant = arith.Constant.of(attribute)
            self.body.append(constant)
            self._constants[attribute] = constant.result
        return self._constants[attribute]

    def outer(self, value: Value, user: Operation) -> Value:
        """A scalar from outside of tensors: computed in the body, as far as constants and elements go.

        Kernel arguments, loop variables and what is computed from them as index values stay outside.
        """

        def inputs(current: Value) -> Sequence[Value]:
            op = self.definitions.definer(current)
            known = op is None or isinstance(op, arith.Constant | tensor.Extract)
            return () if known or current.type == INDEX else op.operands  # type: ignore[union-attr]

        for current in post_order(value, inputs, self._outer):
            op = self.definitions.definer(current)
            match op:
                case arith.Constant(value=attribute):
                    self._outer[current] = self.constant(attribute)
                case tensor.Extract():
                    self._outer[current] = self._scalars[self._extracted(op)]
                case None:
                    self._outer[current] = current
                case _ if current.type == INDEX:
                    self._outer[current] = current
                case _ if is_pure(op) and not op.regions and len(op.results) == 1:
                    self.body += clone_all([op], self._outer)
                case _:
                    raise UnsupportedKernel.at(
                        user.location, f"a scalar made by '{op.name}' takes part in a computation"
                    )
        return self._outer[value]

    def _inlined(self, generic: linalg.Generic, value: Value, map: AffineMap) -> Value:
        loops = loops_of(generic, value, map)
        mapping: dict[Value, Value] = {}
        for operand, subscripts, argument in reads(generic, value, map):
            if isinstance(operand.type, TensorType):
                mapping[argument] = self._scalars[operand, subscripts]
            else:
                mapping[argument] = self.outer(operand, generic)
        self.inline(generic, mapping, loops)
        yielded = generic.body.block.operations[-1].operands[number_of(generic, value)]
        return mapping.get(yielded, yielded)

    def inline(
        self, generic: linalg.Generic, mapping: dict[Value, Value], loops: Sequence[AffineExpr]
    ) -> None:
        """Append a generic's body; `mapping` gives its block arguments, and what was made is added.

        `loops` are its loops as expressions of the loops here.
        """
        for scalar in captures(generic):
            mapping[scalar] = self.outer(scalar, generic)
        for op in generic.body.block.operations[:-1]:
            match op:
                case linalg.Index():
                    mapping[op.result] = self._index(loops[op.dim.value])
                case arith.Constant():
                    mapping[op.result] = self.constant(op.value)
                case _:
                    self.body += clone_all([op], mapping)

    def _index(self, expr: AffineExpr) -> Value:
        """A loop index of an inlined generic."""
        match simplify(expr):
            case Dim(position):
                if position not in self._indices:
                    op = linalg.Index.create((), (INDEX,), {"dim": IntegerAttr(position)})
                    self.body.append(op)
                    self._indices[position] = op.result
                return self._indices[position]
            case Const(value):
                return self.constant(index_attr(value))
            case other:
                used = other.dims()
                values = [
                    self._index(Dim(d)) if d in used else self._index(Const(0)) for d in range(max(used) + 1)
                ]
                emitter = Emitter(self.location)
                result = emitter.affine(other, values)
                self.body += emitter.operations
                return result


def captures(generic: linalg.Generic) -> list[Value]:
    """Scalars that a body takes from outside, in order of first use."""
    block = generic.body.block
    inside = {*block.arguments, *(result for op in block.operations for result in op.results)}
    used = dict.fromkeys(value for op in block.operations for value in op.operands)
    return [value for value in used if value not in inside]


def number_of(generic: linalg.Generic, value: Value) -> int:
    """Which result of the generic a value is."""
    return next(i for i, result in enumerate(generic.results) if result is value)


def loops_of(generic: linalg.Generic, value: Value, map: AffineMap) -> list[AffineExpr]:
    """The loops of an element-wise generic where element `map` of a result is computed."""
    out = generic.maps[len(generic.inputs) + number_of(generic, value)]
    loops: list[AffineExpr] = [Const(0)] * out.num_dims
    for expr, subscript in zip(out.results, map.results, strict=True):
        assert isinstance(expr, Dim)
        loops[expr.position] = subscript
    return loops


def reads(generic: linalg.Generic, value: Value, map: AffineMap) -> Iterator[tuple[Value, AffineMap, Value]]:
    """Operands that the body uses, where element `map` of a result reads them, with block arguments."""
    loops = loops_of(generic, value, map)
    block = generic.body.block
    used = {operand for op in block.operations for operand in op.operands}
    operands = (*generic.inputs, *generic.outputs)
    for operand, inner, argument in zip(operands, generic.maps, block.arguments, strict=True):
        if argument in used:
            exprs = tuple(expr.replace(loops, ()) for expr in inner.results)
            yield operand, AffineMap(map.num_dims, 0, exprs).simplified(), argument


def reshaped(op: Operation | None, map: AffineMap) -> tuple[Value, AffineMap] | None:
    """Where element `map` of the result of a change of shape is in its source; None for other operations."""
    match op:
        case tensor.ExpandShape() | tensor.CollapseShape():
            source, result = op.operands[0].type, op.results[0].type
            assert isinstance(source, TensorType)
            assert isinstance(result, TensorType)
            groups = [
                [entry.value for entry in group if isinstance(entry, IntegerAttr)]
                for group in op.reassociation
                if isinstance(group, ArrayAttr)
            ]
            if not source.is_static or not result.is_static:
                raise UnsupportedKernel.at(op.location, "changes of dynamic shapes are not supported")
            here = list(map.results)
            exprs: list[AffineExpr] = []
            if isinstance(op, tensor.ExpandShape):
                exprs = [
                    _flattened([here[d] for d in g], [result.static_shape()[d] for d in g]) for g in groups
                ]
            else:
                for expr, group in zip(here, groups, strict=True):
                    exprs += _unflattened(expr, [source.static_shape()[d] for d in group])
            return op.operands[0], AffineMap(map.num_dims, 0, tuple(exprs)).simplified()
        case tensor.ExtractSlice():
            return _sliced(op, map)
        case _:
            return None


def _flattened(subscripts: Sequence[AffineExpr], extents: Sequence[int]) -> AffineExpr:
    total: AffineExpr = Const(0)
    for position, (subscript, extent) in enumerate(zip(subscripts, extents, strict=True)):
        if extent != 1:
            total = total + subscript * math.prod(extents[position + 1 :])
    return simplify(total)


def _unflattened(expr: AffineExpr, extents: Sequence[int]) -> list[AffineExpr]:
    wide = [position for position, extent in enumerate(extents) if extent != 1]
    found: list[AffineExpr] = [Const(0)] * len(extents)
    for position in wide:
        step = math.prod(extents[position + 1 :])
        part = expr if step == 1 else expr // step
        found[position] = part if position == wide[0] else Mod(part, Const(extents[position]))
    return found


def _sliced(op: tensor.ExtractSlice, map: AffineMap) -> tuple[Value, AffineMap]:
    source, result = op.source.type, op.result.type
    assert isinstance(source, TensorType)
    assert isinstance(result, TensorType)
    if op.offsets or op.sizes or op.strides:
        raise UnsupportedKernel.at(op.location, "slices at places only known at run time are not supported")
    sizes = op.static_sizes.values
    kept = _kept_dimensions(sizes, result.static_shape())
    here = dict(zip(kept, map.results, strict=True))
    exprs = tuple(
        here.get(d, Const(0)) * stride + offset
        for d, (offset, stride) in enumerate(zip(op.static_offsets, op.static_strides, strict=True))
    )
    return op.source, AffineMap(map.num_dims, 0, exprs).simplified()


def _kept_dimensions(sizes: Sequence[int], shape: Sequence[int]) -> list[int]:
    """Which dimensions of a slice its (maybe rank-reduced) result has."""
    kept: list[int] = []
    wanted = list(shape)
    for position, size in enumerate(sizes):
        left = len(sizes) - position
        if wanted and (size == wanted[0]) and (size != 1 or left >= len(wanted)):
            kept.append(position)
            wanted.pop(0)
    return kept
