"""Dimensions along which a kernel computes every part by itself.

A launch may cut such a dimension of larger tensors into tiles of the compiled size (runtime spec 3.14).
Cutting any other gives wrong values: where a softmax runs along it, where an element's position counts
(`linalg.index`, masks, conditions), or where elements of other positions are read. A dimension that
the stores fill only in part is not cut either: what a kernel means for a longer one is then not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from attrs import field, frozen

from dfsched.codegen.coverage import StoredBoxes, filled_dimensions
from dfsched.passes.index_arithmetic import expand_subscripts
from dfsched.passes.subscripts import Subscripts
from ktir.affine import AffineExpr, Const, Dim
from ktir.analysis.defuse import DefUse
from ktir.attributes import DenseElementsAttr
from ktir.dialects import affine, arith, func, ktdp, linalg, math, scf, spyreop, tensor
from ktir.dialects.linalg.structured import LinalgOp
from ktir.ir import Operation, Value
from ktir.types import IndexType, ShapedType, TensorType

__all__ = ["Axis", "independent_axes"]

Axis = tuple[int, int]
"""An argument's position in the function and one of its dimensions."""

SCALAR_DIALECTS = (arith.DIALECT.name, math.DIALECT.name, spyreop.DIALECT.name)


class _Position(Exception):
    """Something of the kernel depends on positions, or is not understood: no dimension is independent."""


def independent_axes(
    function: Operation, shapes: Mapping[int, Sequence[int | str]], pointers: Mapping[Operation, int]
) -> dict[Axis, Axis]:
    """For each dimension of an argument that may be cut: the first of those that are cut together with it.

    Args:
        function: a kernel of a KTIR module.
        shapes: of the pointer arguments whose elements lie in row-major order, by position in the function.
            Symbolic sizes are never cut.
        pointers: the argument of each view of device memory.
    """
    found = _Axes(function, DefUse(function), dict(shapes), dict(pointers))
    try:
        for op in function.regions[0].block.operations:
            found.visit(op)
    except _Position:
        return {}
    return found.independent()


@frozen(eq=False)
class _Axes:
    """What is known of dimensions: which ones run together, and which may not be cut."""

    function: Operation
    definitions: DefUse
    shapes: dict[int, Sequence[int | str]]
    pointers: dict[Operation, int]
    joined: dict[Axis, Axis] = field(factory=dict)
    starts: dict[Axis, set[object]] = field(factory=dict)
    bound: set[Axis] = field(factory=set)
    stored: dict[int, list[StoredBoxes]] = field(factory=dict)
    sides: dict[Value, tuple[Axis | None, ...]] = field(factory=dict)

    # -- operations ------------------------------------------------------------------------------

    def visit(self, op: Operation) -> None:
        """Takes in one operation; `_Position` for one that may depend on positions in any way."""
        match op:
            case ktdp.ConstructMemoryView() | ktdp.ConstructAccessTile() | ktdp.GetComputeTileId():
                pass
            case ktdp.RuntimeArgExtract() | affine.Apply() | func.Return() | tensor.Empty():
                pass
            case ktdp.Load():
                self.sides[op.result] = self.tile(op.access_tile)
            case ktdp.Store():
                places = self.tile(op.access_tile)
                for side, place in zip(self.of(op.data_tile), places, strict=True):
                    self.join(side, place)
                self.store(op, places)
            case scf.For() if not op.inits:
                if any(not self.is_constant(value) for value in (op.lower, op.upper, op.step)):
                    raise _Position
                for inner in op.body.block.operations:
                    self.visit(inner)
            case scf.Yield() if not op.operands:
                pass
            case arith.Constant():
                splat = isinstance(op.value, DenseElementsAttr) and op.value.splat
                if isinstance(op.result.type, ShapedType) and not splat:
                    raise _Position
            case tensor.Splat():
                self.scalars(op)
            case LinalgOp():
                self.structured(op)
            case _ if op.name.partition(".")[0] in SCALAR_DIALECTS and not op.regions:
                self.elementwise(op)
            case _:
                raise _Position

    def elementwise(self, op: Operation) -> None:
        """Index arithmetic, arithmetic on scalars, or the same on every element of tensors."""
        if all(isinstance(value.type, IndexType) for value in (*op.operands, *op.results)):
            return  # counts only where it becomes a subscript
        self.scalars(op)
        tensors = [value for value in op.operands if isinstance(value.type, ShapedType)]
        if not tensors:
            if any(isinstance(value.type, ShapedType) for value in op.results):
                raise _Position
            return
        if op.name.partition(".")[0] == spyreop.DIALECT.name:
            raise _Position  # some work across lanes
        sides = [self.of(value) for value in tensors]
        for dimension in range(len(sides[0])):
            merged = self.join_all([side[dimension] for side in sides])
            for result in op.results:
                before = self.sides.get(result, ())
                self.sides[result] = (*before, merged)

    def structured(self, op: LinalgOp) -> None:
        """Dimensions of operands run together where one loop walks them."""
        loops: list[list[Axis | None]] = [[] for _ in op.iterators]
        values = (*op.input_values, *op.output_values)
        for value, map in zip(values, op.maps, strict=True):
            for side, expr in zip(self.of(value), map.results, strict=True):
                match expr:
                    case Dim(position=position):
                        loops[position].append(side)
                    case Const():
                        self.bind(side)
                    case _:
                        raise _Position
        merged = [self.join_all(sides) for sides in loops]
        asked = self.asked_for(op)
        for loop, (axis, kind) in enumerate(zip(merged, op.iterators, strict=True)):
            if kind != "parallel" or loop in asked:
                self.bind(axis)
        for result, map in zip(op.results, op.maps[len(op.input_values) :], strict=True):
            self.sides[result] = tuple(
                merged[expr.position] if isinstance(expr, Dim) else None for expr in map.results
            )

    def asked_for(self, op: LinalgOp) -> set[int]:
        """The loops whose position the body asks for; `_Position` if it is more than scalar operations."""
        asked: set[int] = set()
        for region in op.built().regions:
            inside: set[Value] = set()
            for inner in region.block.operations:
                inside.update(inner.results)
                if isinstance(inner, linalg.Index):
                    asked.add(inner.dim.value)
                    continue
                if inner.regions or inner.name.partition(".")[0] not in (
                    *SCALAR_DIALECTS,
                    linalg.DIALECT.name,
                ):
                    raise _Position
                if any(isinstance(v.type, IndexType) and v not in inside for v in inner.operands):
                    raise _Position
        return asked

    def scalars(self, op: Operation) -> None:
        """No position becomes a value."""
        if any(isinstance(value.type, IndexType) for value in (*op.operands, *op.results)):
            raise _Position

    def store(self, op: ktdp.Store, places: Sequence[Axis | None]) -> None:
        """Where a store writes: a box, by what `tile` has made sure of."""
        tile = self.definitions.definer(op.access_tile)
        assert isinstance(tile, ktdp.ConstructAccessTile)
        factors = tile.access_tile_set.set.factors()
        if factors is None:
            raise _Position
        boxes = StoredBoxes(
            Subscripts(tile.base_map.map.results, tuple(tile.indices)),
            tuple(factor[0] if factor else 0 for factor in factors),
            tuple(map(len, factors)),
        )
        for number in {axis[0] for axis in places if axis is not None}:
            self.stored.setdefault(number, []).append(boxes)

    # -- places ------------------------------------------------------------------------------------

    def tile(self, value: Value) -> tuple[Axis | None, ...]:
        """The dimensions of the argument that an access tile is a part of."""
        tile = self.definitions.definer(value)
        if not isinstance(tile, ktdp.ConstructAccessTile) or tile.symbol_operands:
            raise _Position
        view = self.definitions.definer(tile.base)
        if not isinstance(view, ktdp.ConstructMemoryView) or view not in self.pointers:
            raise _Position  # scratchpad, distributed views
        number = self.pointers[view]
        if self.definitions.definer(view.offset) is not None or view.sizes or view.strides:
            raise _Position  # the view is not the whole argument
        sizes = tuple(view.static_sizes.values)
        strides = tuple(prod(sizes[dimension + 1 :]) for dimension in range(len(sizes)))
        if sizes != tuple(self.shapes.get(number, ())) or tuple(view.static_strides.values) != strides:
            raise _Position
        points = tile.access_tile_set.set
        if not tile.access_tile_order.map.is_identity or not points.is_rectangular():
            raise _Position
        map = tile.base_map.map
        if map.num_symbols:
            raise _Position
        axes: list[Axis | None] = []
        for dimension, expr in enumerate(map.results):
            axis = (number, dimension)
            self.starts.setdefault(axis, set()).add(self.start(expr, tile.indices))
            axes.append(axis)
        return tuple(axes)

    def start(self, expr: AffineExpr, indices: Sequence[Value]) -> object:
        """A name of the place at which a tile starts; equal names mean equal places."""
        places = expand_subscripts(Subscripts((expr,), tuple(indices)), self.definitions)
        return (places.exprs, places.values)

    def is_constant(self, value: Value) -> bool:
        return isinstance(self.definitions.definer(value), arith.Constant)

    def of(self, value: Value) -> tuple[Axis | None, ...]:
        """Dimensions of arguments that those of a tensor run along; None where all elements are the same."""
        known = self.sides.get(value)
        if known is not None:
            return known
        if isinstance(value.type, TensorType):
            return (None,) * value.type.rank
        if isinstance(value.type, ShapedType):
            raise _Position
        return ()

    # -- classes -----------------------------------------------------------------------------------

    def first(self, axis: Axis) -> Axis:
        while axis in self.joined:
            axis = self.joined[axis]
        return axis

    def join(self, one: Axis | None, other: Axis | None) -> Axis | None:
        if one is None or other is None:
            return one or other
        low, high = sorted((self.first(one), self.first(other)))
        if low != high:
            self.joined[high] = low
        return low

    def join_all(self, axes: Sequence[Axis | None]) -> Axis | None:
        merged: Axis | None = None
        for axis in axes:
            merged = self.join(merged, axis)
        return merged

    def bind(self, axis: Axis | None) -> None:
        if axis is not None:
            self.bound.add(axis)

    def independent(self) -> dict[Axis, Axis]:
        """Classes of dimensions that nothing binds and that every result has."""
        classes: dict[Axis, list[Axis]] = {}
        for axis in sorted(self.starts):
            classes.setdefault(self.first(axis), []).append(axis)
        for number, stores in self.stored.items():
            shape = self.shapes[number]
            filled = filled_dimensions(self.function, stores, shape, self.definitions)
            self.bound.update(
                (number, dimension) for dimension in range(len(shape)) if dimension not in filled
            )
        bound = {self.first(axis) for axis in self.bound}
        found: dict[Axis, Axis] = {}
        for first, axes in classes.items():
            arguments = [number for number, _ in axes]
            extents = {self.shapes[number][dimension] for number, dimension in axes}
            starts = set[object]().union(*(self.starts[axis] for axis in axes))
            if first in bound or len(starts) > 1 or len(extents) > 1 or len(set(arguments)) < len(arguments):
                continue
            if (
                isinstance(next(iter(extents)), str)
                or not self.stored
                or not self.stored.keys() <= set(arguments)
            ):
                continue
            found.update(dict.fromkeys(axes, first))
        return found
