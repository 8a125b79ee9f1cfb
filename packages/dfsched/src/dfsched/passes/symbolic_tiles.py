"""Compute groups over access tiles of symbolic extent, cut into loops over tiles of constant extents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from attrs import define, field, frozen

from dfsched.architecture import Architecture
from dfsched.passes import build
from dfsched.passes.build import Emitter
from dfsched.passes.compute_groups import check_order, compute_groups, is_control
from dfsched.passes.errors import Findings, UnsupportedKernel
from dfsched.passes.group_parts import GroupParts, own_stores
from dfsched.passes.index_arithmetic import expand_subscripts
from dfsched.passes.ir_tools import Definitions, captured
from dfsched.passes.promises import Promises
from dfsched.passes.regrouping import (
    RATIO,
    GroupCopy,
    check_same_order,
    is_element_wise,
    level_sizes,
    levels,
    replace_groups,
    with_blocks,
)
from dfsched.passes.subscripts import Subscripts
from dfsched.passes.symbolic_axes import Axes, Extent, Key, is_symbolic, is_upper, next_axis, order_breaks
from ktir.affine import AffineExpr, AffineMap, AffineSet, Constraint, Dim, linear
from ktir.attributes import AffineMapAttr, AffineSetAttr, DenseArrayAttr
from ktir.dialects import arith, ktdp, linalg
from ktir.ir import Operation, Value
from ktir.opdef import OPERAND_SEGMENTS
from ktir.types import I32, TensorType, bit_width

__all__ = ["cut_symbolic_tiles"]

SHARE = 32
"""A tensor of a tile takes at most this part of the scratchpad: a tile is loaded while others are in use."""


def cut_symbolic_tiles(
    operations: Sequence[Operation], promises: Promises, architecture: Architecture
) -> list[Operation]:
    """The operations of a block (nested ones included) with one symbolic extent less in every group.

    `ScheduleError` with everything that stands against it.
    """
    cutter = _Cutter(promises, architecture)
    cut = cutter.block(operations)
    cutter.findings.check()
    return cut


@frozen(eq=False)
class _Cut:
    """A group, the axis that is cut, and what stands along it: tiles, and loops of structured operations."""

    axes: Axes
    axis: Key
    extents: Mapping[ktdp.ConstructAccessTile, Extent]
    loops: Mapping[linalg.LinalgOp, int | None]
    parts: GroupParts

    @property
    def group(self) -> Sequence[Operation]:
        return self.axes.group


@define(eq=False)
class _Cutter:
    promises: Promises
    architecture: Architecture
    findings: Findings = field(factory=Findings)

    @property
    def definitions(self) -> Definitions:
        return self.promises.definitions

    def block(self, operations: Sequence[Operation]) -> list[Operation]:
        """The operations of one block."""
        inner = [self._nested(op) for op in operations]
        if not any(is_symbolic(value) for op in operations for value in op.results):
            return inner
        symbolic: list[list[Operation]] = []
        with self.findings.noting():
            for group in compute_groups(operations, self.definitions):
                if any(is_symbolic(v) for op in group for v in (*op.operands, *op.results)):
                    symbolic.append(group)
            check_order(operations, symbolic, -1, self.definitions)
        cut: list[list[Operation]] = []
        for group in symbolic:
            with self.findings.noting():
                cut.append(self._cut(group))
        return inner if self.findings.errors else replace_groups(operations, inner, symbolic, cut)

    def _nested(self, op: Operation) -> Operation:
        return with_blocks(op, self.block) if is_control(op) else op

    # -- one group

    def _cut(self, group: Sequence[Operation]) -> list[Operation]:
        axes = Axes(group, self.definitions)
        findings = Findings()
        for op in group:
            with findings.noting():
                _check(op)
        findings.check()
        axis = next_axis(axes)
        if axis is None:
            raise UnsupportedKernel.at(
                group[-1].location, "no access tile says how far a tensor of symbolic extent reaches"
            )
        extents = axes.along(axis)
        sizes = {expand_subscripts(extent.size, self.definitions): tile for tile, extent in extents.items()}
        if len(sizes) > 1:
            raise UnsupportedKernel.at(
                list(sizes.values())[1].location,
                "the access tiles of one compute group have different symbolic extents",
            )
        loops: dict[linalg.LinalgOp, int | None] = {}
        for op in group:
            if isinstance(op, linalg.LinalgOp):
                with findings.noting():
                    loops[op] = _loop_of(op, axes, axis)
        with findings.noting():
            check_same_order(group, self.definitions)
        findings.check()
        folds = {op: own_stores(op, self.definitions) for op in axes.reducing(axis)}
        parts = GroupParts(
            group,
            self.definitions,
            lambda op: any(
                axes.dimension(op, value, axis) is not None for value in (*op.operands, *op.results)
            ),
            {op: stores for op, stores in folds.items() if stores is not None},
        )
        return self._loops(_Cut(axes, axis, extents, loops, parts), next(iter(extents.values())).size)

    def _loops(self, cut: _Cut, size: Subscripts) -> list[Operation]:
        group = cut.group
        emitter = Emitter(group[-1].location)
        (expr,) = size.exprs
        total = emitter.affine(expr, size.values)
        natural = all(self.promises.is_natural(v) for v in size.values) and _only_adds(expr)
        bound = self._bound(size)
        counts = any(isinstance(inner, linalg.Index) for op in group for inner in op.walk())
        if counts and bound is not None:  # says to computations with indices how large these can be
            total = emitter.binary(arith.MinSI, total, emitter.constant(bound))
        if not natural or counts:
            total = emitter.binary(arith.MaxSI, total, emitter.constant(0))
        cut.parts.before(emitter)
        for bounds, block, variable, body in levels(total, self._block_sizes(cut, size), emitter):
            self._part(cut, block, variable, body)
            emitter.operations.append(
                build.for_loop(bounds, variable, body.operations, None, group[-1].location)
            )
        cut.parts.behind(emitter)
        return emitter.operations

    def _part(self, cut: _Cut, block: int, variable: Value, emitter: Emitter) -> None:
        """The group for `block` indices from the loop's variable on."""

        def shape(op: Operation, value: Value) -> TensorType:
            type = value.type
            assert isinstance(type, TensorType)
            along = cut.axes.dimension(op, value, cut.axis)
            if along is None:
                return type
            extents = tuple(block if dim == along else extent for dim, extent in enumerate(type.shape))
            return TensorType(extents, type.element, type.encoding)

        def tile(op: ktdp.ConstructAccessTile) -> Value:
            extent = cut.extents.get(op)
            return op.result if extent is None else emitter.add(_part_of(op, extent, block, variable))

        def shifts(op: linalg.LinalgOp) -> dict[int, Value]:
            loop = cut.loops.get(op)
            return {} if loop is None else {loop: variable}

        copy = GroupCopy(emitter, self.definitions, shape, tile, shifts)
        for op in cut.parts.repeated():
            if isinstance(op, linalg.LinalgOp) and op in cut.parts.folds:
                copy.add([op], cut.parts.partial(op, emitter))
            else:
                copy.add([op])

    def _block_sizes(self, cut: _Cut, size: Subscripts) -> list[int]:
        """Extents of the tiles, large ones first; each divides the one before, the last one the extent."""
        group = cut.group
        if any(order_breaks(op, cut.loops[op] or 0) for op in cut.parts.folds):
            return [1]
        granule = _divisor(size, self.promises)
        bound = self._bound(size)
        bytes_per_index = 1
        for op in group:
            for value in captured(op):
                type = value.type
                if isinstance(type, TensorType) and not type.is_static:
                    elements = 1
                    for extent in type.shape:
                        elements *= 1 if extent is None else extent
                    bytes_per_index = max(bytes_per_index, elements * max(8, bit_width(type.element)) // 8)
        limit = max(granule, self.architecture.machine().scratchpad_bytes // SHARE // bytes_per_index)
        if bound is not None:
            limit = min(limit, bound)
        if len(cut.axes.all()) > 1:  # what is cut next lies closer together in memory
            limit = min(limit, RATIO)
        return level_sizes(granule, limit)

    def _bound(self, size: Subscripts) -> int | None:
        flat = linear(size.exprs[0])
        if flat is None:
            return None
        total = flat.constant
        for term, coefficient in flat.terms:
            if not isinstance(term, Dim) or coefficient < 0:
                return None
            known = self.promises.upper(size.values[term.position])
            if known is None:
                return None
            total += coefficient * known
        return total


def _only_adds(expr: AffineExpr) -> bool:
    flat = linear(expr)
    return flat is not None and flat.constant >= 0 and all(c > 0 for _, c in flat.terms)


def _divisor(size: Subscripts, promises: Promises) -> int:
    """A number that surely divides an extent, at least 1."""
    flat = linear(size.exprs[0])
    if flat is None:
        return 1
    found = abs(flat.constant)
    for term, coefficient in flat.terms:
        known = promises.divisor(size.values[term.position]) if isinstance(term, Dim) else 1
        found = math.gcd(found, coefficient * known)
    return found or 1


# -- parts of tiles


def _part_of(
    tile: ktdp.ConstructAccessTile, extent: Extent, block: int, variable: Value
) -> ktdp.ConstructAccessTile:
    """The part of a tile of symbolic extent that starts at the loop's variable."""
    points: AffineSet = tile.access_tile_set.set
    kept = [c for c in points.constraints if not is_upper(c, extent.dimension)]
    high = Constraint(-Dim(extent.dimension) + (extent.low + block - 1), False)
    symbols = tile.symbol_operands if any(c.expr.symbols() for c in kept) else ()
    new_set = AffineSet(points.num_dims, len(symbols), (*kept, high))
    base: AffineMap = tile.base_map.map
    outer = base.num_dims + base.num_symbols
    old_operands: list[AffineExpr] = [Dim(i) for i in range(outer)]
    results = [
        expr.replace(old_operands[: base.num_dims], old_operands[base.num_dims :]) for expr in base.results
    ]
    results[extent.dimension] = results[extent.dimension] + Dim(outer)
    type = tile.result.type
    assert isinstance(type, ktdp.AccessTileType)
    shape = tuple(block if place == extent.place else e for place, e in enumerate(type.shape))
    return ktdp.ConstructAccessTile.create(
        [tile.base, *tile.indices, variable, *symbols],
        [ktdp.AccessTileType(shape)],
        {
            **tile.attributes,
            "access_tile_set": AffineSetAttr(new_set),
            "base_map": AffineMapAttr(AffineMap(outer + 1, 0, tuple(results))),
            OPERAND_SEGMENTS: DenseArrayAttr(I32, (1, outer + 1, len(symbols))),
        },
        location=tile.location,
    )


# -- what can be cut


def _check(op: Operation) -> None:
    """Every operation must work on each index of a symbolic extent by itself."""
    tensors = [v.type for v in (*op.operands, *op.results) if isinstance(v.type, TensorType)]
    if all(type.is_static for type in tensors) or isinstance(op, ktdp.Load | ktdp.Store | linalg.LinalgOp):
        return
    if not is_element_wise(op):
        raise UnsupportedKernel.at(op.location, f"'{op.name}' on tensors of symbolic extent is not supported")


def _loop_of(op: linalg.LinalgOp, axes: Axes, axis: Key) -> int | None:
    """The loop along an axis; None if there is none."""
    values = (*op.input_values, *op.output_values)
    for value, map in zip(values, op.maps, strict=False):
        type = value.type
        if isinstance(type, TensorType):
            for extent, expr in zip(type.shape, map.results, strict=True):
                if extent is None and not isinstance(expr, Dim):
                    raise UnsupportedKernel.at(
                        op.location, f"'{op.name}' reads a symbolic extent by the subscript {expr}"
                    )
    loop = axes.loop(op, axis)
    if loop is None:
        return None
    for value, map in zip(values, op.maps, strict=False):
        type = value.type
        if isinstance(type, TensorType) and axes.is_symbolic(axis):
            along = [extent for extent, e in zip(type.shape, map.results, strict=True) if loop in e.dims()]
            if any(extent is not None for extent in along):
                raise UnsupportedKernel.at(
                    op.location, f"'{op.name}' reads a tensor of constant extent along a symbolic one"
                )
    return loop
