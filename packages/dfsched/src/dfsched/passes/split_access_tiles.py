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

>>> from dfsched.passes.examples import TRIANGLE, after
>>> after("split-access-tiles", TRIANGLE, r"scf.for|ktdp.load|arith.addf")
scf.for %arg0 = %c0 to %c100 step %c1 {
scf.for %arg1 = %c0_1 to %5 step %c64 {
%9 = ktdp.load %8 : <1x64xindex> -> tensor<1x64xf16>
%10 = arith.addf %collapsed, %collapsed : tensor<64xf16>
scf.for %arg1 = %5 to %7 step %c8 {
%9 = ktdp.load %8 : <1x8xindex> -> tensor<1x8xf16>
%10 = arith.addf %collapsed, %collapsed : tensor<8xf16>
scf.for %arg1 = %7 to %3 step %c1_0 {
%9 = ktdp.load %8 : <1x1xindex> -> tensor<1x1xf16>
%10 = arith.addf %collapsed, %collapsed : tensor<1xf16>
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import define, field

from dfsched.options import Profile
from dfsched.passes import build
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.build import Emitter
from dfsched.passes.compute_groups import check_order, compute_groups, is_control
from dfsched.passes.errors import Findings, UnsupportedKernel
from dfsched.passes.fold_places import Places, with_fold_places
from dfsched.passes.generalize_linalg import of_places
from dfsched.passes.group_parts import GroupParts, own_stores
from dfsched.passes.ir_tools import Definitions, rewrite_blocks, rewrite_kernels, without_unused
from dfsched.passes.memory_accesses import tile_of
from dfsched.passes.regrouping import (
    check_same_order,
    is_element_wise,
    level_sizes,
    levels,
    replace_groups,
    with_blocks,
)
from dfsched.passes.row_copies import RowCopy, counts, elements
from dfsched.passes.tile_lattices import lattice_of
from dfsched.passes.tile_rows import Rows, Walk, rows_of, walk_of
from ktir.affine import AffineMap, AffineSet, Dim
from ktir.dialects import arith, func, ktdp, linalg, tensor
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.types import INDEX, TensorType

__all__ = ["PASS", "run"]

MOST_LOOPS = 32
"""Loops over rows that one group may become."""


def run(module: Module, context: PassContext) -> Module:
    """Split the groups of every kernel; `ScheduleError` with everything that stands against it."""
    if context.options.profile is Profile.V1:
        return module
    places = Places(module, context.architecture)
    return rewrite_kernels(module, lambda kernel: _kernel(kernel, places))


PASS = Pass(
    "split-access-tiles", Group.FRONTEND, run, "access tiles that are no lattices become loops over rows"
)


def _kernel(kernel: func.Func, places: Places) -> func.Func:
    if not any(isinstance(op, ktdp.ConstructAccessTile) and _is_ragged(op) for op in kernel.walk()):
        return kernel
    general = rewrite_blocks(kernel, lambda ops: [new for op in ops for new in of_places(op)])
    assert isinstance(general, func.Func)
    kernel = with_fold_places(general, _folds, places)
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
                group
                for group in compute_groups(operations, self.definitions)
                if any(_is_ragged(tile) for tile in _tiles(group, self.definitions))
            ]
            check_order(operations, groups, -1, self.definitions)
        split: list[list[Operation]] = []
        for group in groups:
            with self.findings.noting():
                split.append(_GroupSplit(group, self.definitions).operations())
        return inner if self.findings.errors else replace_groups(operations, inner, groups, split)

    def _nested(self, op: Operation) -> Operation:
        return with_blocks(op, self.block) if is_control(op) else op


def _tiles(group: Sequence[Operation], definitions: Definitions) -> list[ktdp.ConstructAccessTile]:
    return [tile_of(op, definitions) for op in group if isinstance(op, ktdp.Load | ktdp.Store)]


def _folds(group: Sequence[Operation], definitions: Definitions) -> list[linalg.LinalgOp]:
    """The operations of a group that reduce all elements of a tile that is no lattice."""
    ragged = [tile for tile in _tiles(group, definitions) if _is_ragged(tile)]
    if not ragged:
        return []
    count = _count(ragged[0])
    return [op for op in group if isinstance(op, linalg.LinalgOp) and _reduces(op, count)]


def _reduces(op: linalg.LinalgOp, count: int) -> bool:
    """Whether an operation folds all of `count` elements into one."""
    if "reduction" not in op.iterators:
        return False
    return any(elements(value) == count for value in op.input_values) and all(
        elements(value) == 1 for value in op.output_values
    )


def _count(tile: ktdp.ConstructAccessTile) -> int:
    """Elements of a tile of known shape."""
    type = tile.result.type
    assert isinstance(type, ktdp.AccessTileType)
    return math.prod(extent or 0 for extent in type.shape)


@define(eq=False)
class _GroupSplit:
    """One group over tiles that are no lattices."""

    group: Sequence[Operation]
    definitions: Definitions
    walks: dict[ktdp.ConstructAccessTile, Walk] = field(factory=dict)
    parts: GroupParts = field(init=False)

    def operations(self) -> list[Operation]:
        """The loops that stand for the group."""
        tiles = _tiles(self.group, self.definitions)
        count = next(_count(tile) for tile in tiles if _is_ragged(tile))
        folds = {op: own_stores(op, self.definitions) for op in _folds(self.group, self.definitions)}
        self.parts = GroupParts(
            self.group,
            self.definitions,
            lambda op: any(
                isinstance(value.type, TensorType) and elements(value) == count
                for value in (*op.operands, *op.results)
            ),
            {op: stores for op, stores in folds.items() if stores is not None},
        )
        findings = Findings()
        for op in self.group:
            if self.parts.moves(op):
                with findings.noting():
                    _check(op, count, op in self.parts.folds)
        for tile in tiles:
            if _count(tile) == count and tile not in self.walks:
                with findings.noting():
                    self.walks[tile] = walk_of(tile)
        findings.check()
        check_same_order(self.group, self.definitions)
        found = rows_of(list(self.walks.values()))
        if len(found) > MOST_LOOPS:
            raise UnsupportedKernel.at(
                self.group[-1].location,
                f"the access tiles of the compute group fall into {len(found)} loops over rows; at most "
                f"{MOST_LOOPS} are supported",
            )
        emitter = Emitter(self.group[-1].location)
        self.parts.before(emitter)
        for rows in found:
            self._loop(rows, emitter)
        self.parts.behind(emitter)
        return emitter.operations

    def _loop(self, rows: Rows, emitter: Emitter) -> None:
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

    def _row(self, rows: Rows, variable: Value | None, emitter: Emitter) -> None:
        """One row; `variable` counts the rows."""
        if variable is None:
            length = emitter.constant(rows.length)
        else:
            length = emitter.affine(Dim(0) * rows.growth + rows.length, [variable])
        passed = self._passed(rows, variable, emitter)
        granule = math.gcd(rows.length, rows.growth if variable is not None else 0)
        sizes = level_sizes(granule, rows.longest())
        for bounds, block, position, body in levels(length, sizes, emitter):
            RowCopy(self.parts, self.walks, rows, variable, passed, position, block).add(body)
            emitter.operations.append(
                build.for_loop(bounds, position, body.operations, None, self.group[-1].location)
            )

    def _passed(self, rows: Rows, variable: Value | None, emitter: Emitter) -> Value | None:
        """Elements of the rows in front of this one: what a dense tile starts behind."""
        if variable is None or not (
            any(walk.is_one_row for walk in self.walks.values()) or any(map(counts, self.group))
        ):
            return None
        evenly = emitter.affine(Dim(0) * (rows.length - rows.growth), [variable])
        if not rows.growth:
            return evenly
        behind = emitter.binary(arith.AddI, variable, emitter.constant(1))
        product = emitter.binary(arith.MulI, variable, behind)
        pairs = emitter.binary(arith.DivSI, product, emitter.constant(2))
        return emitter.binary(
            arith.AddI, evenly, emitter.binary(arith.MulI, pairs, emitter.constant(rows.growth))
        )


def _check(op: Operation, count: int, is_fold: bool) -> None:
    """Only what works element by element on all `count` elements, or folds them, can be done row by row."""
    match op:
        case ktdp.Load() | ktdp.Store() | tensor.ExpandShape() | tensor.CollapseShape():
            return
        case linalg.LinalgOp():
            ok = is_fold or all(kind == "parallel" for kind in op.iterators)
            for value, map in zip((*op.input_values, *op.output_values), op.maps, strict=False):
                ok = ok and elements(value) in (1, count) and _keeps_order(value, map)
        case _:
            ok = is_element_wise(op)
    if not ok:
        raise UnsupportedKernel.at(
            op.location,
            f"'{op.name}' on a tile whose elements do not lie in equal steps: only element-wise operations "
            "and reductions of all elements are supported",
        )


def _keeps_order(value: Value, map: AffineMap) -> bool:
    """Whether the loops walk a tensor in the order of its elements."""
    type = value.type
    if not isinstance(type, TensorType) or map.is_identity:
        return True
    long = [expr for expr, extent in zip(map.results, type.shape, strict=True) if extent != 1]
    return not long or (len(long) == 1 and isinstance(long[0], Dim))
