"""`split-access-tiles`: groups over tiles that are no lattices (triangles, bands) become loops over rows.

Takes KTIR. A tile whose elements do not lie in equal steps is a list of coordinates in the order of its
tensor. The list is cut into *rows*: runs in which every tile of the group walks in equal steps along one
dimension. Consecutive rows whose lengths and starts grow evenly become a loop, and a row runs as a few sizes
of one-dimensional tiles, so that each element of the set is touched once and nothing else is. The operations
of such a group must work element by element. Leaves KTIR in which every tile is a lattice.

Before (the lower triangle of a block)::

    %t = ktdp.construct_access_tile %x[%d, %d] {access_tile_set = (r >= 0, r <= 99, c >= 0, c <= r), ...}
        -> !ktdp.access_tile<5050x1xindex>
    ... load, compute on tensor<5050x1xf16>, store ...

After::

    scf.for %r = %c0 to %c100 step %c1 {
      %n = %r + 1
      scf.for %i = %c0 to %n64 step %c64 { ... load, compute, store tensor<64xf16> at [%d + %r, %d + %i] ... }
      scf.for %i = %n64 to %n8 step %c8 { ... tensor<8xf16> ... }
      scf.for %i = %n8 to %n step %c1 { ... tensor<1xf16> ... }
    }
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from attrs import define, field, frozen

from dfsched.options import Profile
from dfsched.passes import build
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.build import Emitter
from dfsched.passes.compute_groups import check_order, compute_groups, is_control
from dfsched.passes.errors import Findings, UnsupportedKernel
from dfsched.passes.ir_tools import Definitions, rewrite_kernels, without_unused
from dfsched.passes.memory_accesses import tile_of
from dfsched.passes.regrouping import (
    GroupCopy,
    check_same_order,
    is_element_wise,
    level_sizes,
    levels,
    replace_groups,
    with_blocks,
)
from dfsched.passes.tile_lattices import lattice_of, ordered_points
from ktir.affine import AffineExpr, AffineMap, AffineSet, Const, Constraint, Dim, Mod
from ktir.attributes import AffineMapAttr, AffineSetAttr, ArrayAttr, DenseArrayAttr, IntegerAttr
from ktir.dialects import arith, func, ktdp, linalg, tensor
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.opdef import OPERAND_SEGMENTS
from ktir.types import I32, I64, INDEX, TensorType

__all__ = ["PASS", "run"]

MOST_LOOPS = 32
"""Loops over rows that one group may become."""

IntArray = npt.NDArray[np.int64]


def run(module: Module, context: PassContext) -> Module:
    """Split the groups of every kernel; `ScheduleError` with everything that stands against it."""
    if context.options.profile is Profile.V1:
        return module
    return rewrite_kernels(module, _kernel)


PASS = Pass(
    "split-access-tiles", Group.FRONTEND, run, "access tiles that are no lattices become loops over rows"
)


def _kernel(kernel: func.Func) -> func.Func:
    if not any(isinstance(op, ktdp.ConstructAccessTile) and _is_ragged(op) for op in kernel.walk()):
        return kernel
    block = kernel.body.block
    findings = Findings()
    operations = _Splitter(Definitions(kernel), findings).block(block.operations)
    findings.check()
    changed = kernel.replace(regions=[Region((block.replace(operations=operations),))])
    new = without_unused(changed, lambda op: isinstance(op, ktdp.ConstructAccessTile))
    assert isinstance(new, func.Func)
    return new


def _is_ragged(tile: ktdp.ConstructAccessTile) -> bool:
    points: AffineSet = tile.access_tile_set.set
    type = tile.result.type
    assert isinstance(type, ktdp.AccessTileType)
    if tile.symbol_operands or points.num_symbols or None in type.shape:
        return False
    if tile.access_tile_order.map.as_permutation() is None:
        return False
    return lattice_of(tile) is None


@frozen(eq=False)
class _Walk:
    """The coordinates of one tile in order, and its step from one element of a row to the next."""

    points: IntArray
    axis: int
    stride: int

    @property
    def step(self) -> IntArray:
        found = np.zeros(self.points.shape[1], np.int64)
        found[self.axis] = self.stride
        return found

    @property
    def is_one_row(self) -> bool:
        return len(self.points) < 2 or bool((np.diff(self.points, axis=0) == self.step).all())


@frozen
class _Rows:
    """`count` rows from element `first` on: row i has ``length + i * growth`` elements."""

    first: int
    count: int
    length: int
    growth: int

    def longest(self) -> int:
        return max(self.length, self.length + (self.count - 1) * self.growth)


@define(eq=False)
class _Splitter:
    definitions: Definitions
    findings: Findings

    def block(self, operations: Sequence[Operation]) -> list[Operation]:
        """The operations of one block, nested ones included."""
        inner = [self._nested(op) for op in operations]
        groups: list[list[Operation]] = []
        with self.findings.noting():
            groups = [
                group for group in compute_groups(operations, self.definitions) if self._is_ragged(group)
            ]
            check_order(operations, groups, -1, self.definitions)
        split: list[list[Operation]] = []
        for group in groups:
            with self.findings.noting():
                split.append(_GroupSplit(group, self.definitions).operations())
        return inner if self.findings.errors else replace_groups(operations, inner, groups, split)

    def _nested(self, op: Operation) -> Operation:
        return with_blocks(op, self.block) if is_control(op) else op

    def _is_ragged(self, group: Sequence[Operation]) -> bool:
        accesses = [op for op in group if isinstance(op, ktdp.Load | ktdp.Store)]
        return any(_is_ragged(tile_of(op, self.definitions)) for op in accesses)


@define(eq=False)
class _GroupSplit:
    """One group and the walks of its tiles."""

    group: Sequence[Operation]
    definitions: Definitions
    walks: dict[ktdp.ConstructAccessTile, _Walk] = field(factory=dict)

    def operations(self) -> list[Operation]:
        """The loops that stand for the group."""
        findings = Findings()
        for op in self.group:
            with findings.noting():
                _check(op)
                if isinstance(op, ktdp.Load | ktdp.Store):
                    tile = tile_of(op, self.definitions)
                    self.walks.setdefault(tile, _walk(tile))
        findings.check()
        sizes = {len(walk.points) for walk in self.walks.values()}
        if len(sizes) != 1:
            raise UnsupportedKernel.at(
                self.group[-1].location,
                "the access tiles of one compute group have different numbers of elements",
            )
        check_same_order(self.group, self.definitions)
        found = self._rows()
        if len(found) > MOST_LOOPS:
            raise UnsupportedKernel.at(
                self.group[-1].location,
                f"the access tiles of the compute group fall into {len(found)} loops over rows; at most "
                f"{MOST_LOOPS} are supported",
            )
        emitter = Emitter(self.group[-1].location)
        for rows in found:
            self._loop(rows, emitter)
        return emitter.operations

    # -- rows

    def _rows(self) -> list[_Rows]:
        """Runs of equal steps in all tiles, gathered where lengths and starts grow evenly."""
        count = len(next(iter(self.walks.values())).points)
        breaks = np.zeros(max(0, count - 1), bool)
        for walk in self.walks.values():
            breaks |= (np.diff(walk.points, axis=0) != walk.step).any(axis=1)
        starts = np.concatenate([[0], np.flatnonzero(breaks) + 1]).astype(np.int64)
        lengths = np.diff(np.concatenate([starts, [count]]))
        features = [lengths[:, None]]
        features += [walk.points[starts] for walk in self.walks.values() if not walk.is_one_row]
        table = np.concatenate(features, axis=1)
        found: list[_Rows] = []
        row = 0
        while row < len(starts):
            end = row + 1
            while end < len(starts) and (table[end] - table[end - 1] == table[row + 1] - table[row]).all():
                end += 1
            growth = int(lengths[row + 1] - lengths[row]) if end - row > 1 else 0
            found.append(_Rows(int(starts[row]), end - row, int(lengths[row]), growth))
            row = end
        return found

    def _loop(self, rows: _Rows, emitter: Emitter) -> None:
        if rows.count == 1:
            self._row(rows, None, emitter)
            return
        variable = BlockArgument(INDEX)
        inside = Emitter(emitter.location)
        self._row(rows, variable, inside)
        bounds = (emitter.constant(0), emitter.constant(rows.count), emitter.constant(1))
        emitter.operations.append(
            build.for_loop(bounds, variable, inside.operations, None, self.group[-1].location)
        )

    def _row(self, rows: _Rows, variable: Value | None, emitter: Emitter) -> None:
        """One row; `variable` counts the rows."""
        if variable is None:
            length = emitter.constant(rows.length)
        else:
            length = emitter.affine(Dim(0) * rows.growth + rows.length, [variable])
        passed = self._passed(rows, variable, emitter)
        granule = math.gcd(rows.length, rows.growth if variable is not None else 0)
        sizes = level_sizes(granule, rows.longest())
        for bounds, block, position, body in levels(length, sizes, emitter):
            _RowCopy(self, rows, variable, passed, position, block).add(body)
            emitter.operations.append(
                build.for_loop(bounds, position, body.operations, None, self.group[-1].location)
            )

    def _passed(self, rows: _Rows, variable: Value | None, emitter: Emitter) -> Value | None:
        """Elements of the rows in front of this one: what a dense tile starts behind."""
        if variable is None or not any(walk.is_one_row for walk in self.walks.values()):
            return None
        evenly = emitter.affine(Dim(0) * rows.length, [variable])
        if not rows.growth:
            return evenly
        before = emitter.binary(arith.SubI, variable, emitter.constant(1))
        product = emitter.binary(arith.MulI, variable, before)
        pairs = emitter.binary(arith.DivSI, product, emitter.constant(2))
        return emitter.binary(
            arith.AddI, evenly, emitter.binary(arith.MulI, pairs, emitter.constant(rows.growth))
        )


@define(eq=False)
class _RowCopy:
    """`block` elements of a row, from `position` on."""

    split: _GroupSplit
    rows: _Rows
    variable: Value | None
    passed: Value | None
    position: Value
    block: int

    def add(self, emitter: Emitter) -> None:
        """The operations of the group on one-dimensional tensors."""

        def shape(type: TensorType) -> TensorType:
            return TensorType((self.block,), type.element, type.encoding)

        copy = GroupCopy(emitter, self.split.definitions, shape, lambda tile: tile.result, lambda op: {})
        for op in self.split.group:
            match op:
                case ktdp.Load():
                    copy.values[op.results[0]] = self._load(op, emitter)
                case ktdp.Store():
                    self._store(op, copy.values[op.data_tile], emitter)
                case tensor.ExpandShape() | tensor.CollapseShape():
                    copy.values[op.results[0]] = copy.values[op.operands[0]]
                case linalg.Generic():
                    copy.add([op])
                    emitter.operations[-1] = _one_dimensional(emitter.operations[-1])
                case _:
                    copy.add([op])

    def _load(self, op: ktdp.Load, emitter: Emitter) -> Value:
        tile = self._tile(tile_of(op, self.split.definitions))
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
        tile = self._tile(tile_of(op, self.split.definitions))
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
        walk = self.split.walks[old]
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


def _row_set(rank: int, walk: _Walk, block: int) -> AffineSet:
    """`block` points along the axis of a walk."""
    constraints: list[Constraint] = []
    for d in range(rank):
        if d != walk.axis or block == 1:
            constraints.append(Constraint(Dim(d), True))
            continue
        constraints += [Constraint(Dim(d), False), Constraint(-Dim(d) + walk.stride * (block - 1), False)]
        if walk.stride > 1:
            constraints.append(Constraint(Mod(Dim(d), Const(walk.stride)), True))
    return AffineSet(rank, 0, tuple(constraints))


def _all_in_one(rank: int) -> ArrayAttr:
    return ArrayAttr((ArrayAttr(tuple(IntegerAttr(d, I64) for d in range(rank))),))


def _walk(tile: ktdp.ConstructAccessTile) -> _Walk:
    """The points of a tile, and the step that most of them are apart."""
    points = ordered_points(tile)
    steps = np.diff(points, axis=0)
    if not len(steps):
        return _Walk(points, points.shape[1] - 1, 1)
    found, first, counts = np.unique(steps, axis=0, return_index=True, return_counts=True)
    step = found[min(range(len(found)), key=lambda i: (-counts[i], first[i]))]
    axes = np.flatnonzero(step)
    if len(axes) != 1 or step[axes[0]] < 0:
        raise UnsupportedKernel.at(
            tile.location,
            f"the rows of the access tile run in steps of {step.tolist()}, not along one dimension",
        )
    return _Walk(points, int(axes[0]), int(step[axes[0]]))


def _check(op: Operation) -> None:
    """Only what works element by element can be done row by row."""
    match op:
        case ktdp.Load() | ktdp.Store() | tensor.ExpandShape() | tensor.CollapseShape():
            return
        case linalg.LinalgOp():
            ok = all(kind == "parallel" for kind in op.iterators) and not any(
                isinstance(inner, linalg.Index) for inner in op.walk()
            )
            for value, map in zip((*op.input_values, *op.output_values), op.maps, strict=False):
                ok = ok and (map.is_identity or not isinstance(value.type, TensorType))
        case _:
            ok = is_element_wise(op)
    if not ok:
        raise UnsupportedKernel.at(
            op.location,
            f"'{op.name}' on a tile whose elements do not lie in equal steps: only element-wise operations "
            "are supported",
        )


def _one_dimensional(op: Operation) -> Operation:
    """A generic with one loop instead of several."""
    assert isinstance(op, linalg.Generic)
    maps: Mapping[bool, AffineMap] = {True: AffineMap.identity(1), False: AffineMap(1, 0, ())}
    values = (*op.input_values, *op.output_values)
    return op.replace(
        attributes={
            "indexing_maps": ArrayAttr(
                tuple(AffineMapAttr(maps[isinstance(value.type, TensorType)]) for value in values)
            ),
            "iterator_types": ArrayAttr(op.iterator_types.elements[:1]),
        }
    )
