"""Which symbolic extents of a group are one: dimensions of tiles and tensors that the same loop walks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from attrs import define, field, frozen

from dfsched.passes.errors import ScheduleError, UnsupportedKernel
from dfsched.passes.generalize_linalg import as_generic
from dfsched.passes.ir_tools import Definitions
from dfsched.passes.memory_accesses import tile_of
from dfsched.passes.reductions import combine_of
from dfsched.passes.regrouping import is_element_wise
from dfsched.passes.subscripts import Subscripts
from ktir.affine import AffineExpr, AffineMap, AffineSet, Const, Constraint, Dim, linear
from ktir.dialects import ktdp, linalg
from ktir.ir import Operation, Value
from ktir.types import TensorType

__all__ = ["Axes", "Extent", "Key", "folds_of", "is_symbolic", "is_upper", "next_axis", "order_breaks"]


@frozen
class Extent:
    """A symbolic extent of an access tile: `size` elements of dimension `dimension` of its set from `low` on.

    `size` has one expression; `place` is the dimension of the tile.
    """

    dimension: int
    place: int
    low: int
    size: Subscripts


def box_extents(tile: ktdp.ConstructAccessTile) -> dict[int, Extent]:
    """The extents of a tile's set by dimension of the tile, where it is a box.

    `UnsupportedKernel` if symbols bound it in another way.
    """
    points: AffineSet = tile.access_tile_set.set
    order = tile.access_tile_order.map.as_permutation()
    highs: dict[int, AffineExpr] = {}
    lows: dict[int, int] = {}
    for constraint in points.constraints:
        flat = linear(constraint.expr)
        dims = sorted(constraint.expr.dims())
        simple = flat is not None and flat.is_linear and len(dims) == 1 and not constraint.is_equality
        if flat is not None and simple and is_upper(constraint, dims[0]) and dims[0] not in highs:
            highs[dims[0]] = constraint.expr + Dim(dims[0])
        elif constraint.expr.symbols():
            raise _no_box(tile)
        elif flat is not None and simple and flat.coefficient(Dim(dims[0])) == 1:
            lows[dims[0]] = max(lows.get(dims[0], -flat.constant), -flat.constant)
        else:  # the dimensions that it bounds are no plain ranges
            for dim in dims:
                highs.pop(dim, None)
    if order is None or any(high.symbols() and dim not in lows for dim, high in highs.items()):
        raise _no_box(tile)
    symbols: list[AffineExpr] = [Dim(i) for i in range(len(tile.symbol_operands))]
    found: dict[int, Extent] = {}
    for dimension in highs.keys() & lows.keys():
        size = highs[dimension].replace([Const(0)] * points.num_dims, symbols) + (1 - lows[dimension])
        extent = Subscripts((size,), tuple(tile.symbol_operands)).canonical()
        place = order.index(dimension)
        found[place] = Extent(dimension, place, lows[dimension], extent)
    return dict(sorted(found.items()))


def is_upper(constraint: Constraint, dimension: int) -> bool:
    """Whether a constraint bounds one dimension alone from above."""
    flat = linear(constraint.expr)
    alone = constraint.expr.dims() == {dimension} and not constraint.is_equality
    return flat is not None and alone and flat.coefficient(Dim(dimension)) == -1


def _no_box(tile: ktdp.ConstructAccessTile) -> ScheduleError:
    return UnsupportedKernel.at(
        tile.location,
        "an access tile with symbols must be a box, such as "
        "(d0, d1)[n] : (d0 >= 0, -d0 + n - 1 >= 0, d1 >= 0, -d1 + 63 >= 0)",
    )


Key: TypeAlias = tuple[Value | Operation, int]
"""A dimension of a tile or of a tensor that the group computes, or a loop of a structured operation."""


@define(eq=False)
class Axes:
    """Dimensions and loops of a group as classes; each has a representative."""

    group: Sequence[Operation]
    definitions: Definitions
    extents: dict[ktdp.ConstructAccessTile, dict[int, Extent]] = field(init=False, factory=dict)
    _parents: dict[Key, Key] = field(init=False, factory=dict)
    _made: set[Value] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._made = {value for op in self.group for value in op.results}
        for op in self.group:
            if isinstance(op, ktdp.Load | ktdp.Store):
                tile = tile_of(op, self.definitions)
                if tile.access_tile_set.set.num_symbols:
                    found = box_extents(tile)
                    self.extents[tile] = {p: e for p, e in found.items() if tile.type.shape[p] is None}
        for op in self.group:
            for value in (*op.operands, *op.results):
                for dim, key in self.places(op, value):
                    if value in self._made:
                        self._unite(key, (value, dim))

    def is_symbolic(self, axis: Key) -> bool:
        """Whether it is the launch that says how long an axis is."""
        return axis in self.all()

    def along(self, axis: Key) -> dict[ktdp.ConstructAccessTile, Extent]:
        """The extents of tiles along an axis."""
        found: dict[ktdp.ConstructAccessTile, Extent] = {}
        for op in self.group:
            if not isinstance(op, ktdp.Load | ktdp.Store):
                continue
            tile = tile_of(op, self.definitions)
            for place in range(len(tile.type.shape)):
                if self.root((tile.result, place)) == axis:
                    extent = box_extents(tile).get(place)
                    if extent is None:
                        raise _no_box(tile)
                    found[tile] = extent
        return found

    def all(self) -> list[Key]:
        """The symbolic axes, outermost first."""
        found = [
            self.root((tile.result, place))
            for place in range(max((max(e, default=-1) for e in self.extents.values()), default=-1) + 1)
            for tile, extents in self.extents.items()
            if place in extents
        ]
        return list(dict.fromkeys(found))

    def root(self, key: Key) -> Key:
        """The representative of a class."""
        while (parent := self._parents.get(key, key)) != key:
            key = parent
        return key

    def places(self, op: Operation, value: Value) -> Iterator[tuple[int, Key]]:
        """The dimensions of a tensor that an operation uses or makes, and what walks them there."""
        type = value.type
        if not isinstance(type, TensorType):
            return
        match op:
            case ktdp.Load() | ktdp.Store():
                tile = tile_of(op, self.definitions)
                yield from ((dim, (tile.result, dim)) for dim in range(type.rank))
            case linalg.LinalgOp():
                for other, map in _operands(op):
                    if other is value:
                        for dim, expr in enumerate(map.results):
                            if isinstance(expr, Dim):
                                yield dim, (op, expr.position)
            case _ if is_element_wise(op):
                yield from ((dim, (op, dim)) for dim in range(type.rank))

    def dimension(self, op: Operation, value: Value, axis: Key) -> int | None:
        """The dimension along an axis of a tensor that an operation uses or makes, if it has one.

        `UnsupportedKernel` if it has two.
        """
        found = {dim for dim, key in self.places(op, value) if self.root(key) == axis}
        type = value.type
        if value in self._made and isinstance(type, TensorType):
            found |= {dim for dim in range(type.rank) if self.root((value, dim)) == axis}
        if len(found) > 1:
            raise UnsupportedKernel.at(
                op.location, f"two dimensions of {value.type} have the same symbolic extent of one tile"
            )
        return min(found, default=None)

    def loop(self, op: linalg.LinalgOp, axis: Key) -> int | None:
        """The loop of an operation along an axis; `UnsupportedKernel` if there are several."""
        found = [loop for loop in range(len(op.iterators)) if self.root((op, loop)) == axis]
        if len(found) > 1:
            raise UnsupportedKernel.at(
                op.location, f"'{op.name}' walks one symbolic extent by more than one loop"
            )
        return found[0] if found else None

    def reducing(self, axis: Key) -> list[linalg.LinalgOp]:
        """The operations that reduce along an axis."""
        found: list[linalg.LinalgOp] = []
        for op in self.group:
            if isinstance(op, linalg.LinalgOp):
                loop = self.loop(op, axis)
                if loop is not None and op.iterators[loop] != "parallel":
                    found.append(op)
        return found

    def _unite(self, a: Key, b: Key) -> None:
        a, b = self.root(a), self.root(b)
        if a != b:
            self._parents[b] = a


def next_axis(axes: Axes) -> Key | None:
    """The symbolic axis that is cut first: one that nothing reduces, else one reduced to a known shape."""
    known = axes.all()

    def rank(axis: Key) -> int:
        results = [value.type for op in axes.reducing(axis) for value in op.results]
        open_results = any(isinstance(type, TensorType) and not type.is_static for type in results)
        return 0 if not results else 2 if open_results else 1

    first = min(known, key=rank, default=None)
    if first is None:
        return None
    for op in axes.reducing(first):
        inside = axes.loop(op, first) or 0
        outer = [d for d in range(inside) if op.iterators[d] != "parallel" and op.loop_extents()[d] != 1]
        if outer and order_breaks(op, outer[0]):
            return axes.root((op, outer[0]))
    return first


def order_breaks(op: linalg.LinalgOp, loop: int) -> bool:
    """Whether the order in which an operation folds depends on how a loop that it reduces is cut.

    It does if the operation reduces another loop inside of it that will be cut, too, and rounds.
    """
    extents = op.loop_extents()
    inner = [d for d in range(loop + 1, len(extents)) if op.iterators[d] != "parallel" and extents[d] is None]
    combine = combine_of(as_generic(op))
    return bool(inner) and (combine is None or combine.depends_on_order)


def folds_of(group: Sequence[Operation], definitions: Definitions) -> Sequence[linalg.LinalgOp]:
    """The operations that reduce along the axis of a group that is cut first."""
    if not any(is_symbolic(value) for op in group for value in op.results):
        return ()
    axes = Axes(group, definitions)
    axis = next_axis(axes)
    return () if axis is None else axes.reducing(axis)


def is_symbolic(value: Value) -> bool:
    """Whether a tensor or access tile has an extent that only the launch knows."""
    match value.type:
        case TensorType() as type:
            return not type.is_static
        case ktdp.AccessTileType() as tile:
            return None in tile.shape
        case _:
            return False


def _operands(op: linalg.LinalgOp) -> list[tuple[Value, AffineMap]]:
    """Inputs, outputs and results with their maps."""
    outs = op.maps[len(op.input_values) :]
    return [
        *zip(op.input_values, op.maps, strict=False),
        *zip(op.output_values, outs, strict=True),
        *zip(op.results, outs, strict=False),
    ]
