"""Compute groups over access tiles of symbolic extent, cut into loops over tiles of constant extents."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field, frozen

from dfsched.architecture import Architecture
from dfsched.passes import build
from dfsched.passes.build import Emitter
from dfsched.passes.compute_groups import check_order, compute_groups, is_control
from dfsched.passes.errors import Findings, ScheduleError, UnsupportedKernel
from dfsched.passes.index_arithmetic import expand_subscripts
from dfsched.passes.ir_tools import Definitions, captured, post_order
from dfsched.passes.memory_accesses import tile_of
from dfsched.passes.promises import Promises
from dfsched.passes.regrouping import (
    GroupCopy,
    check_same_order,
    is_element_wise,
    level_sizes,
    levels,
    replace_groups,
    with_blocks,
)
from dfsched.passes.subscripts import Subscripts
from ktir.affine import AffineExpr, AffineMap, AffineSet, Const, Constraint, Dim, linear
from ktir.attributes import AffineMapAttr, AffineSetAttr, DenseArrayAttr
from ktir.dialects import arith, ktdp, linalg
from ktir.ir import Operation, Value
from ktir.location import Location
from ktir.opdef import OPERAND_SEGMENTS
from ktir.types import I32, TensorType, bit_width

__all__ = ["cut_symbolic_tiles"]

SHARE = 32
"""A tensor of a tile takes at most this part of the scratchpad: a tile is loaded while others are in use."""


def cut_symbolic_tiles(
    operations: Sequence[Operation], promises: Promises, architecture: Architecture
) -> list[Operation]:
    """The operations of a block (nested ones included) without access tiles of symbolic extent.

    `ScheduleError` with everything that stands against it.
    """
    cutter = _Cutter(promises, architecture)
    cut = cutter.block(operations)
    cutter.findings.check()
    return cut


@frozen
class _Extent:
    """A symbolic extent: of dimension `dimension` of the set, from `low` on, `size` elements.

    `size` has one expression; `place` is the dimension of the tile.
    """

    dimension: int
    place: int
    low: int
    size: Subscripts


@frozen(eq=False)
class _Cut:
    """A group, the symbolic extents of its tiles, and the loop over them of each operation.

    `folds`: operations that reduce the symbolic extent, with the stores of their results.
    """

    group: Sequence[Operation]
    extents: Mapping[ktdp.ConstructAccessTile, _Extent]
    loops: Mapping[linalg.LinalgOp, int | None]
    folds: Mapping[linalg.LinalgOp, ktdp.Store]


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
        if not any(_is_symbolic(value) for op in operations for value in op.results):
            return inner
        symbolic: list[list[Operation]] = []
        with self.findings.noting():
            for group in compute_groups(operations, self.definitions):
                if any(_is_symbolic(v) for op in group for v in (*op.operands, *op.results)):
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
        extents: dict[ktdp.ConstructAccessTile, _Extent] = {}
        for op in group:
            if isinstance(op, ktdp.Load | ktdp.Store):
                tile = tile_of(op, self.definitions)
                extent = _symbolic_extent(tile)
                if extent is not None:
                    extents[tile] = extent
        sizes = {expand_subscripts(extent.size, self.definitions): tile for tile, extent in extents.items()}
        if len(sizes) > 1:
            raise UnsupportedKernel.at(
                list(sizes.values())[1].location,
                "the access tiles of one compute group have different symbolic extents",
            )
        findings = Findings()
        loops: dict[linalg.LinalgOp, int | None] = {}
        folds: dict[linalg.LinalgOp, ktdp.Store] = {}
        for op in group:
            with findings.noting():
                self._check(op)
                if isinstance(op, linalg.LinalgOp):
                    loops[op] = _loop_of(op)
                    if _reduces(op, loops[op]):
                        folds[op] = self._target(op, group)
        with findings.noting():
            check_same_order(group, self.definitions)
        findings.check()
        size = next(iter(extents.values())).size
        return self._loops(_Cut(group, extents, loops, folds), size)

    def _check(self, op: Operation) -> None:
        """Every operation must work on each index of the symbolic extent by itself."""
        tensors = [v.type for v in (*op.operands, *op.results) if isinstance(v.type, TensorType)]
        for type in tensors:
            if type.shape.count(None) > 1:
                raise UnsupportedKernel.at(op.location, f"more than one symbolic extent in {type}")
        if all(type.is_static for type in tensors) or isinstance(
            op, ktdp.Load | ktdp.Store | linalg.LinalgOp
        ):
            return
        if not is_element_wise(op):
            raise UnsupportedKernel.at(
                op.location, f"'{op.name}' on tensors of symbolic extent is not supported"
            )

    def _target(self, op: linalg.LinalgOp, group: Sequence[Operation]) -> ktdp.Store:
        """The store of what an operation reduces over the symbolic extent: partial results live there."""
        users = [user for result in op.results for user in self.definitions.users(result)]
        if len(op.results) == 1 and len(users) == 1 and isinstance(users[0], ktdp.Store):
            return users[0]
        raise UnsupportedKernel.at(
            op.location,
            f"'{op.name}' reduces a dimension of symbolic extent, which is supported only where the result "
            "is stored and not used otherwise",
        )

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
        for fold, store in cut.folds.items():
            self._initial(fold, store, group, emitter)
        for bounds, block, variable, body in levels(total, self._block_sizes(group, size), emitter):
            self._part(cut, block, variable, body)
            emitter.operations.append(
                build.for_loop(bounds, variable, body.operations, None, group[-1].location)
            )
        return emitter.operations

    def _initial(
        self, fold: linalg.LinalgOp, store: ktdp.Store, group: Sequence[Operation], emitter: Emitter
    ) -> None:
        """Store the initial value of a reduction where its partial results will lie."""
        (initial,) = fold.output_values
        inside = set(group)
        value = initial
        definer = self.definitions.definer(initial)
        if isinstance(definer, ktdp.Load) and definer.access_tile is store.access_tile:
            return  # it lies there already
        if definer is not None and definer in inside:
            needed = set(post_order(definer, lambda op: self._producers(captured(op), inside)))
            copy = GroupCopy(emitter, self.definitions, lambda t: t, lambda t: t.result, lambda o: {})
            copy.add([op for op in group if op in needed])
            value = copy.values[initial]
        emitter.operations.append(ktdp.Store.create([value, store.access_tile], location=store.location))

    def _producers(self, values: Iterable[Value], group: set[Operation]) -> list[Operation]:
        """The operations of a group that define some values."""
        definers = (self.definitions.definer(value) for value in values)
        return [definer for definer in definers if definer is not None and definer in group]

    def _repeated(self, cut: _Cut) -> list[Operation]:
        """What every part needs: not what only makes initial values of reductions."""
        inside = set(cut.group)

        def inputs(op: Operation) -> list[Operation]:
            used = op.operands[:-1] if op in cut.folds else tuple(captured(op))
            return self._producers(used, inside)

        stores: list[Operation] = [op for op in cut.group if isinstance(op, ktdp.Store)]
        needed = {op for store in stores for op in post_order(store, inputs)}
        return [op for op in cut.group if op in needed]

    def _part(self, cut: _Cut, block: int, variable: Value, emitter: Emitter) -> None:
        """The group for `block` indices from the loop's variable on."""

        def shape(type: TensorType) -> TensorType:
            extents = tuple(block if e is None else e for e in type.shape)
            return TensorType(extents, type.element, type.encoding)

        def tile(op: ktdp.ConstructAccessTile) -> Value:
            extent = cut.extents.get(op)
            return op.result if extent is None else emitter.add(_part_of(op, extent, block, variable))

        def shifts(op: linalg.LinalgOp) -> dict[int, Value]:
            loop = cut.loops.get(op)
            return {} if loop is None else {loop: variable}

        copy = GroupCopy(emitter, self.definitions, shape, tile, shifts)
        for op in self._repeated(cut):
            store = cut.folds.get(op) if isinstance(op, linalg.LinalgOp) else None
            if store is not None:
                type = op.results[0].type
                load = ktdp.Load.create([store.access_tile], [type], location=store.location)
                op = op.replace(operands=[*op.operands[:-1], emitter.add(load)])
            copy.add([op])

    def _block_sizes(self, group: Sequence[Operation], size: Subscripts) -> list[int]:
        """Extents of the tiles, large ones first; each divides the one before, the last one the extent."""
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


def _is_symbolic(value: Value) -> bool:
    match value.type:
        case TensorType() as type:
            return not type.is_static
        case ktdp.AccessTileType() as tile:
            return None in tile.shape
        case _:
            return False


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


# -- extents of tiles


def _symbolic_extent(tile: ktdp.ConstructAccessTile) -> _Extent | None:
    """The symbolic extent of a tile's set; None if it has none, `UnsupportedKernel` if it is no box."""
    points: AffineSet = tile.access_tile_set.set
    if not points.num_symbols:
        return None
    order = tile.access_tile_order.map.as_permutation()
    found: dict[int, tuple[AffineExpr, Location]] = {}
    lows: dict[int, int] = {}
    for constraint in points.constraints:
        flat = linear(constraint.expr)
        dims = sorted(constraint.expr.dims())
        ok = flat is not None and flat.is_linear and len(dims) == 1 and not constraint.is_equality
        coefficient = flat.coefficient(Dim(dims[0])) if flat is not None and len(dims) == 1 else 0
        if not constraint.expr.symbols():
            if ok and coefficient == 1 and flat is not None:
                lows[dims[0]] = max(lows.get(dims[0], -flat.constant), -flat.constant)
            continue
        if not ok or coefficient != -1 or dims[0] in found:
            raise _no_box(tile)
        found[dims[0]] = (constraint.expr + Dim(dims[0]), tile.location)
    if order is None or len(found) != 1:
        raise _no_box(tile)
    ((dimension, (high, _)),) = found.items()
    if dimension not in lows:
        raise _no_box(tile)
    symbols: list[AffineExpr] = [Dim(i) for i in range(len(tile.symbol_operands))]
    size = high.replace([Const(0)] * points.num_dims, symbols) + (1 - lows[dimension])
    extent = Subscripts((size,), tuple(tile.symbol_operands)).canonical()
    return _Extent(dimension, order.index(dimension), lows[dimension], extent)


def _no_box(tile: ktdp.ConstructAccessTile) -> ScheduleError:
    return UnsupportedKernel.at(
        tile.location,
        "an access tile with symbols must be a box with one symbolic extent, such as "
        "(d0, d1)[n] : (d0 >= 0, -d0 + n - 1 >= 0, d1 >= 0, -d1 + 63 >= 0)",
    )


def _part_of(
    tile: ktdp.ConstructAccessTile, extent: _Extent, block: int, variable: Value
) -> ktdp.ConstructAccessTile:
    """The part of a tile of symbolic extent that starts at the loop's variable."""
    points: AffineSet = tile.access_tile_set.set
    kept = [c for c in points.constraints if not c.expr.symbols()]
    high = Constraint(-Dim(extent.dimension) + (extent.low + block - 1), False)
    new_set = AffineSet(points.num_dims, 0, (*kept, high))
    base: AffineMap = tile.base_map.map
    outer = base.num_dims + base.num_symbols
    old_operands: list[AffineExpr] = [Dim(i) for i in range(outer)]
    results = [
        expr.replace(old_operands[: base.num_dims], old_operands[base.num_dims :]) for expr in base.results
    ]
    results[extent.dimension] = results[extent.dimension] + Dim(outer)
    type = tile.result.type
    assert isinstance(type, ktdp.AccessTileType)
    shape = tuple(block if e is None else e for e in type.shape)
    return ktdp.ConstructAccessTile.create(
        [tile.base, *tile.indices, variable],
        [ktdp.AccessTileType(shape)],
        {
            **tile.attributes,
            "access_tile_set": AffineSetAttr(new_set),
            "base_map": AffineMapAttr(AffineMap(outer + 1, 0, tuple(results))),
            OPERAND_SEGMENTS: DenseArrayAttr(I32, (1, outer + 1, 0)),
        },
        location=tile.location,
    )


def _reduces(op: linalg.LinalgOp, loop: int | None) -> bool:
    return loop is not None and op.iterators[loop] != "parallel"


# -- which loop of an operation is the symbolic extent


def _loop_of(op: linalg.LinalgOp) -> int | None:
    """The loop over the symbolic extent; None if there is none."""
    values = (*op.input_values, *op.output_values)
    loops: set[int] = set()
    for value, map in zip(values, op.maps, strict=False):
        type = value.type
        if not isinstance(type, TensorType):
            continue
        for extent, expr in zip(type.shape, map.results, strict=True):
            if extent is not None:
                continue
            if not isinstance(expr, Dim):
                raise UnsupportedKernel.at(
                    op.location, f"'{op.name}' reads a symbolic extent by the subscript {expr}"
                )
            loops.add(expr.position)
    if not loops:
        return None
    if len(loops) > 1:
        raise UnsupportedKernel.at(op.location, f"'{op.name}' has more than one loop of symbolic extent")
    (loop,) = loops
    for value, map in zip(values, op.maps, strict=False):
        type = value.type
        if isinstance(type, TensorType) and type.is_static and any(loop in e.dims() for e in map.results):
            raise UnsupportedKernel.at(
                op.location, f"'{op.name}' reads a tensor of constant extent along a symbolic one"
            )
    return loop
