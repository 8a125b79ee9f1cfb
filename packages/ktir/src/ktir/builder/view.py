"""Memory views and access tiles with NumPy-like slicing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import TypeAlias

import attrs

from ktir.affine import AffineExpr, AffineMap, AffineSet, Const, Constraint, Dim, Sym
from ktir.attributes import AffineMapAttr, AffineSetAttr, ArrayAttr, IntegerAttr
from ktir.builder.element import Tensor
from ktir.builder.emitter import BuilderError, Emitter
from ktir.builder.index import Index, join, used
from ktir.dialects.ktdp import (
    AccessTileType,
    ConstructAccessTile,
    ConstructIndirectAccessTile,
    Load,
    RegionTerminator,
    Store,
)
from ktir.dialects.ktdp.views import segments
from ktir.ir import BlockArgument, Region, Value
from ktir.opdef import OPERAND_SEGMENTS
from ktir.types import I1, INDEX, TensorType, Type

Extent: TypeAlias = "int | Index"
Key: TypeAlias = "int | Index | slice | EllipsisType"


class Tile:
    """The coordinates that a slice of a view selects: load them, store to them."""

    __slots__ = ("element", "emitter", "value")

    def __init__(self, emitter: Emitter, value: Value, element: Type) -> None:
        self.emitter = emitter
        self.value = value
        self.element = element

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The extents; None where only known at run time."""
        assert isinstance(self.value.type, AccessTileType)
        return self.value.type.shape

    def load(self) -> Tensor:
        """The elements as a tensor of the tile's shape."""
        type = TensorType(self.shape, self.element)
        return Tensor(self.emitter, self.emitter.value(Load.create((self.value,), (type,))))

    def store(self, tensor: Tensor) -> None:
        """Write a tensor of the tile's shape and element type."""
        expected = TensorType(self.shape, self.element)
        if tensor.type != expected:
            raise BuilderError(f"cannot store a {tensor.type} to a tile that holds {expected}")
        self.emitter.emit(Store.create((tensor.value, self.value)))


@attrs.frozen(eq=False)
class Indirect:
    """A coordinate that is read from an index view (see `View.at`)."""

    view: View
    subscripts: tuple[Index, ...]


class View:
    """Memory seen as an array of `shape` with elements of one type.

    Slicing gives a `Tile` of the same rank: ``v[row : row + 3, :]``. A single index is a slice of extent one.
    Starts may be any index expression; an extent that is no constant becomes a symbol of the tile's set.
    """

    __slots__ = ("element", "emitter", "shape", "value")

    def __init__(self, emitter: Emitter, value: Value, shape: tuple[Extent, ...], element: Type) -> None:
        self.emitter = emitter
        self.value = value
        self.shape = shape
        self.element = element

    def _index(self, value: Index | int) -> Index:
        return value if isinstance(value, Index) else Index(self.emitter, Const(int(value)), ())

    def __getitem__(self, key: Key | tuple[Key, ...]) -> Tile:
        return self.tile(key)

    def __setitem__(self, key: Key | tuple[Key, ...], value: Tensor) -> None:
        self.tile(key).store(value)

    def load(self) -> Tensor:
        """All elements."""
        return self.tile(...).load()

    def store(self, tensor: Tensor) -> None:
        """Write all elements."""
        self.tile(...).store(tensor)

    def tile(self, key: Key | tuple[Key, ...], order: Sequence[int] | None = None) -> Tile:
        """The tile of a slice; `order` permutes: axis i of the tile is axis ``order[i]`` of the view.

        ``view.tile((slice(0, 6), slice(0, 20)), order=(1, 0))`` is a transposing tile of shape (20, 6).
        """
        keys = self._keys(key if isinstance(key, tuple) else (key,))
        rank = len(self.shape)
        anchors: list[Index] = []
        constraints: list[Constraint] = []
        symbols: list[Value] = []
        extents: list[int | None] = []
        for d, (item, size) in enumerate(zip(keys, self.shape, strict=True)):
            start, count, step = self._range(d, item, size)
            anchors.append(start)
            last: AffineExpr
            if count.constant is None:
                symbols.append(count.value())
                last = (Sym(len(symbols) - 1) - 1) * step
            else:
                last = Const((count.constant - 1) * step)
            constraints += [Constraint(Dim(d), False), Constraint(-Dim(d) + last, False)]
            if step != 1:
                constraints.append(Constraint(Dim(d) % step, True))
            extents.append(count.constant)
        permutation = tuple(range(rank)) if order is None else tuple(order)
        if sorted(permutation) != list(range(rank)):
            raise BuilderError(f"{permutation} is no permutation of {rank} axes")
        exprs, leaves = join(*anchors)
        results, operands = used(exprs, leaves)
        attributes = {
            "base_map": AffineMapAttr(AffineMap(len(operands), 0, tuple(results))),
            "access_tile_set": AffineSetAttr(AffineSet(rank, len(symbols), tuple(constraints))),
            "access_tile_order": AffineMapAttr(AffineMap.permutation(permutation)),
            OPERAND_SEGMENTS: segments(1, len(operands), len(symbols)),
        }
        type = AccessTileType(tuple(extents[d] for d in permutation))
        made = ConstructAccessTile.create((self.value, *operands, *symbols), (type,), attributes)
        return Tile(self.emitter, self.emitter.value(made), self.element)

    def _keys(self, keys: tuple[Key, ...]) -> list[int | Index | slice]:
        found: list[int | Index | slice] = []
        missing = len(self.shape) - sum(not isinstance(k, EllipsisType) for k in keys)
        for key in keys:
            if isinstance(key, EllipsisType):
                found += [slice(None)] * missing
                missing = 0
            else:
                found.append(key)
        found += [slice(None)] * (len(self.shape) - len(found))
        if len(found) != len(self.shape):
            raise BuilderError(f"{len(keys)} subscripts for a view of rank {len(self.shape)}")
        return found

    def _range(self, d: int, key: int | Index | slice, size: Extent) -> tuple[Index, Index, int]:
        """Start, number of points and step of one subscript."""
        if not isinstance(key, slice):
            start = self._index(key)
            self._check(d, start, start + 1, size)
            return start, self._index(1), 1
        step = 1 if key.step is None else key.step
        if not isinstance(step, int) or step < 1:
            raise BuilderError(f"the step of a slice must be a positive number, not {step!r}")
        start = self._index(0 if key.start is None else key.start)
        stop = self._index(size if key.stop is None else key.stop)
        self._check(d, start, stop, size)
        return start, (stop - start).ceildiv(step), step

    def _check(self, d: int, start: Index, stop: Index, size: Extent) -> None:
        """What is known while building must lie inside the view; there is no wrap-around."""
        length = (stop - start).constant
        low, high = start.constant, stop.constant
        limit = size if isinstance(size, int) else size.constant
        if (
            (low is not None and low < 0)
            or (length is not None and length < 0)
            or (limit is not None and ((high or 0) > limit or (length or 0) > limit))
        ):
            raise BuilderError(f"subscript {d} selects [{start.expr}, {stop.expr}) of an extent of {limit}")

    def at(self, *subscripts: Index | int) -> Indirect:
        """In `gather`: the coordinate stored at these subscripts of this view."""
        if len(subscripts) != len(self.shape):
            raise BuilderError(f"{len(subscripts)} subscripts for an index view of rank {len(self.shape)}")
        return Indirect(self, tuple(self._index(s) for s in subscripts))

    def gather(
        self, extents: Sequence[int], coordinates: Callable[..., Sequence[Index | int | Indirect]]
    ) -> Tile:
        """A tile of shape `extents` whose point ``(i, j, ...)`` is ``coordinates(i, j, ...)`` of this view.

        A coordinate is an index expression, or ``index_view.at(...)`` to read it from memory. Storing to the
        tile scatters.
        """
        variables = tuple(BlockArgument(INDEX) for _ in extents)
        found = tuple(coordinates(*(Index.leaf(self.emitter, v) for v in variables)))
        if len(found) != len(self.shape):
            raise BuilderError(f"{len(found)} coordinates for a view of rank {len(self.shape)}")
        groups = [c.subscripts if isinstance(c, Indirect) else (self._index(c),) for c in found]
        exprs, leaves = join(*(index for group in groups for index in group))
        captured = [v for v in leaves if not any(v is variable for variable in variables)]
        order: list[Value] = [*captured, *variables]
        dims = [Dim(next(i for i, v in enumerate(order) if v is leaf)) for leaf in leaves]
        rest = iter([expr.replace(dims, []) for expr in exprs])
        maps = [AffineMap(len(order), 0, tuple(next(rest) for _ in group)) for group in groups]
        views = [c.view.value for c in found if isinstance(c, Indirect)]
        attributes = {
            "per_dim_subscript_kinds": ArrayAttr(
                tuple(IntegerAttr(int(isinstance(c, Indirect)), I1) for c in found)
            ),
            "per_dim_subscript_maps": ArrayAttr(tuple(AffineMapAttr(m) for m in maps)),
            "variables_space_set": AffineSetAttr(AffineSet.box(*extents)),
            "variables_space_order": AffineMapAttr(AffineMap.identity(len(extents))),
            OPERAND_SEGMENTS: segments(1, len(views), len(captured), 0),
        }
        made = ConstructIndirectAccessTile.create(
            (self.value, *views, *captured),
            (AccessTileType(tuple(extents)),),
            attributes,
            (Region.of((RegionTerminator.create(),), variables),),
        )
        return Tile(self.emitter, self.emitter.value(made), self.element)
