"""One row of a group over tiles that are no lattices, as operations on one-dimensional tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping

from attrs import define

from dfsched.passes.build import Emitter
from dfsched.passes.generalize_linalg import as_generic
from dfsched.passes.generics import loop_extents
from dfsched.passes.group_parts import GroupParts
from dfsched.passes.ir_tools import substitute
from dfsched.passes.memory_accesses import tile_of
from dfsched.passes.regrouping import GroupCopy
from dfsched.passes.tile_lattices import progressions
from dfsched.passes.tile_rows import Rows, Walk
from ktir.affine import AffineExpr, AffineMap, AffineSet, Const, Dim, Mod, simplify
from ktir.attributes import AffineMapAttr, AffineSetAttr, ArrayAttr, DenseArrayAttr, IntegerAttr
from ktir.dialects import arith, ktdp, linalg, tensor
from ktir.ir import Operation, Region, Value
from ktir.opdef import OPERAND_SEGMENTS
from ktir.types import I32, I64, INDEX, TensorType

__all__ = ["RowCopy", "counts", "elements"]


def elements(value: Value) -> int:
    """Elements of a tensor of known shape, 1 for scalars, 0 if the shape is not known."""
    type = value.type
    if not isinstance(type, TensorType):
        return 1
    return math.prod(type.static_shape()) if type.is_static else 0


def counts(op: Operation) -> bool:
    """Whether an operation computes with the places of elements."""
    return any(isinstance(inner, linalg.Index) for inner in op.walk())


@define(eq=False)
class RowCopy:
    """`block` elements of a row, from `position` on.

    `variable` counts the rows (None: there is only one), `passed` the elements of those in front of this one.
    Tensors of all elements of the tile become `block` elements long; those of one element stay as they are.
    """

    parts: GroupParts
    walks: Mapping[ktdp.ConstructAccessTile, Walk]
    rows: Rows
    variable: Value | None
    passed: Value | None
    position: Value
    block: int

    def add(self, emitter: Emitter) -> None:
        """The operations of the group on one-dimensional tensors."""
        definitions = self.parts.definitions

        def shape(op: Operation, value: Value) -> TensorType:
            type = value.type
            assert isinstance(type, TensorType)
            if not self._is_long(value):
                return type
            return TensorType((self.block,), type.element, type.encoding)

        first = self._first(emitter) if any(map(counts, self.parts.group)) else self.position
        copy = GroupCopy(emitter, definitions, shape, lambda tile: tile.result, lambda op: {})
        for op in self.parts.repeated():
            if not any(self._is_long(value) for value in (*op.operands, *op.results)):
                copy.add([op])
                continue
            match op:
                case ktdp.Load():
                    copy.values[op.results[0]] = self._load(op, emitter)
                case ktdp.Store():
                    self._store(op, copy.leaf(op, op.data_tile), emitter)
                case tensor.ExpandShape() | tensor.CollapseShape():
                    copy.values[op.results[0]] = copy.values[op.operands[0]]
                case linalg.LinalgOp():
                    partial = self.parts.partial(op, emitter) if op in self.parts.folds else ()
                    copy.add([self._along_the_row(op, first)], partial)
                case _:
                    copy.add([op])

    def _is_long(self, value: Value) -> bool:
        """Whether a tensor has all elements of the tile."""
        count = len(next(iter(self.walks.values())).points)
        return isinstance(value.type, TensorType) and elements(value) == count

    def _first(self, emitter: Emitter) -> Value:
        """The number of the first element here among all elements of the tile.

        Its bounds are part of its arithmetic: where programs are cut, nothing else bounds the row.
        """
        values = [self.position] if self.passed is None else [self.position, self.passed]
        expr: AffineExpr = Dim(0) + self.rows.first
        number = emitter.affine(expr if self.passed is None else expr + Dim(1), values)
        last = emitter.constant(len(next(iter(self.walks.values())).points) - 1)
        return emitter.binary(arith.MaxSI, emitter.binary(arith.MinSI, number, last), emitter.constant(0))

    def _along_the_row(self, op: linalg.LinalgOp, first: Value) -> Operation:
        """A structured operation with one loop over the row, behind loops over the one element of a fold.

        `first` is the number of the first element.
        """
        generic = as_generic(op)
        outer = 0
        if op in self.parts.folds:
            outer = max(map.num_results for map in generic.maps[len(generic.inputs) :])
        maps: list[AffineMap] = []
        for number, (value, map) in enumerate(
            zip((*generic.inputs, *generic.outputs), generic.maps, strict=True)
        ):
            exprs: list[AffineExpr] = [Const(0)] * map.num_results
            if self._is_long(value):
                exprs = [Dim(outer)]
            elif number >= len(generic.inputs):
                exprs = [Dim(d) for d in range(map.num_results)]
            maps.append(AffineMap(outer + 1, 0, tuple(exprs)))
        last = "reduction" if op in self.parts.folds else "parallel"
        return generic.replace(
            attributes={
                "indexing_maps": ArrayAttr(tuple(AffineMapAttr(map) for map in maps)),
                "iterator_types": ArrayAttr(
                    tuple(linalg.IteratorType(kind) for kind in (*["parallel"] * outer, last))
                ),
            },
            regions=[self._counted(generic, outer, first)] if counts(generic) else None,
        )

    def _counted(self, generic: linalg.Generic, loop: int, first: Value) -> Region:
        """The body with indices of the whole tile; the element at index 0 of `loop` has number `first`."""
        extents = loop_extents(generic)
        block = generic.body.block
        emitter = Emitter(generic.location)
        index = linalg.Index.create((), (INDEX,), {"dim": IntegerAttr(loop)}, location=generic.location)
        number = emitter.binary(arith.AddI, emitter.add(index), first)
        mapping: dict[Value, Value] = {}
        for op in block.operations:
            if isinstance(op, linalg.Index):
                d = op.dim.value
                behind = math.prod(extents.get(later, 1) for later in range(d + 1, len(generic.iterators)))
                place: AffineExpr = Dim(0) // behind
                if any(extents.get(before, 1) > 1 for before in range(d)):
                    place = Mod(place, Const(extents.get(d, 1)))
                mapping[op.result] = emitter.affine(simplify(place), [number])
            else:
                emitter.operations.append(substitute(op, mapping))
        return Region((block.replace(operations=emitter.operations),))

    def _load(self, op: ktdp.Load, emitter: Emitter) -> Value:
        tile = self._tile(tile_of(op, self.parts.definitions))
        emitter.add(tile)
        type = op.results[0].type
        assert isinstance(type, TensorType)
        loaded = TensorType(self._shape(tile), type.element)
        value = emitter.add(ktdp.Load.create([tile.result], [loaded], location=op.location))
        if loaded.rank == 1:
            return value
        return emitter.add(
            tensor.CollapseShape.create(
                [value],
                [TensorType((self.block,), type.element)],
                {"reassociation": _all_in_one(loaded.rank)},
                location=op.location,
            )
        )

    def _store(self, op: ktdp.Store, value: Value, emitter: Emitter) -> None:
        tile = self._tile(tile_of(op, self.parts.definitions))
        emitter.add(tile)
        shape = self._shape(tile)
        assert isinstance(value.type, TensorType)
        if len(shape) != 1:
            value = emitter.add(
                tensor.ExpandShape.create(
                    [value],
                    [TensorType(shape, value.type.element)],
                    {
                        "reassociation": _all_in_one(len(shape)),
                        "static_output_shape": DenseArrayAttr(I64, shape),
                    },
                    location=op.location,
                )
            )
        emitter.operations.append(ktdp.Store.create([value, tile.result], location=op.location))

    def _shape(self, tile: ktdp.ConstructAccessTile) -> tuple[int, ...]:
        type = tile.result.type
        assert isinstance(type, ktdp.AccessTileType)
        return tuple(e for e in type.shape if e is not None)

    def _tile(self, old: ktdp.ConstructAccessTile) -> ktdp.ConstructAccessTile:
        walk = self.walks[old]
        start = walk.points[self.rows.first]
        values: list[Value] = [*old.indices, self.position]
        base: AffineMap = old.base_map.map
        outer = base.num_dims + base.num_symbols
        inner: list[AffineExpr] = [Dim(i) for i in range(outer)]
        results = [
            expr.replace(inner[: base.num_dims], inner[base.num_dims :]) + int(n)
            for expr, n in zip(base.results, start, strict=True)
        ]
        results[walk.axis] = results[walk.axis] + Dim(outer) * walk.stride
        if self.variable is not None and walk.is_one_row:
            assert self.passed is not None
            results[walk.axis] = results[walk.axis] + Dim(len(values)) * walk.stride
            values.append(self.passed)
        elif self.variable is not None:
            second = walk.points[self.rows.first + self.rows.length]
            results = [
                e + Dim(len(values)) * int(b - a) for e, a, b in zip(results, start, second, strict=True)
            ]
            values.append(self.variable)
        rank = len(results)
        shape = tuple(self.block if d == walk.axis else 1 for d in range(rank))
        return ktdp.ConstructAccessTile.create(
            [old.base, *values],
            [ktdp.AccessTileType(shape)],
            {
                "access_tile_set": AffineSetAttr(_row_set(rank, walk, self.block)),
                "access_tile_order": AffineMapAttr(AffineMap.identity(rank)),
                "base_map": AffineMapAttr(AffineMap(len(values), 0, tuple(results)).simplified()),
                OPERAND_SEGMENTS: DenseArrayAttr(I32, (1, len(values), 0)),
            },
            location=old.location,
        )


def _row_set(rank: int, walk: Walk, block: int) -> AffineSet:
    """`block` points along the axis of a walk."""
    return progressions([(walk.stride, block) if d == walk.axis else (1, 1) for d in range(rank)])


def _all_in_one(rank: int) -> ArrayAttr:
    return ArrayAttr((ArrayAttr(tuple(IntegerAttr(d, I64) for d in range(rank))),))
