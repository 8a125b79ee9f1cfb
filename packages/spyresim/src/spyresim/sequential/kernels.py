"""Views, access tiles, loads and stores of ``ktdp`` (ktir spec 1.4 to 1.11, 4, 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import numpy as np

from ktir.affine import AffineMap, AffineSet
from ktir.dialects import ktdp
from ktir.dtypes import element_bytes
from ktir.ir import Operation, Value
from ktir.machine import AddressUnit
from ktir.types import Type, element_or_self
from spyresim.errors import ExecutionFault, Site, unsupported
from spyresim.meaning.formats import Array
from spyresim.sequential.access import IntArray, Pattern, Scattered, nest
from spyresim.sequential.checks import OutOfRange
from spyresim.sequential.distributed import load_box, store_box
from spyresim.sequential.interpreter import Frame, Handlers, Interpreter, Results
from spyresim.sequential.transfers import (
    check_box,
    element_anchor,
    load_points,
    load_view,
    store_points,
    store_view,
)
from spyresim.sequential.values import AccessTile, Box, BoxTile, DistributedView, PointTile, View

__all__ = ["KERNELS", "pattern_of"]

KERNELS = Handlers()


@KERNELS.executes(ktdp.GetComputeTileId)
def compute_tile_id(run: Interpreter, frame: Frame, op: ktdp.GetComputeTileId) -> Results:
    key = (frame.grid, frame.tiles.tobytes())
    found = run.cache.get(key)
    if found is None:
        rows = [run.machine.tile_coordinates(int(tile), frame.grid) for tile in frame.tiles]
        found = run.cache[key] = np.array(rows, np.int64).reshape(frame.batch, len(frame.grid))
    if len(op.results) != len(frame.grid) and not (
        len(op.results) < len(frame.grid) and all(n == 1 for n in frame.grid[len(op.results) :])
    ):
        raise ExecutionFault(
            f"get_compute_tile_id result count ({len(op.results)}) does not match grid rank "
            f"({len(frame.grid)})",
            site=Site(op.name, op.location),
        )
    return [found[:, i] for i in range(len(op.results))]


@KERNELS.executes(ktdp.RuntimeArgExtract)
def runtime_argument(run: Interpreter, frame: Frame, op: ktdp.RuntimeArgExtract) -> Results:
    type = op.runtime_arg.type
    assert isinstance(type, ktdp.RuntimeArgType)
    match op.what:
        case ktdp.ExtractKind.VALUE:
            return [frame[op.runtime_arg]]
        case ktdp.ExtractKind.GRANULARITY:
            bound = type.granularity
        case ktdp.ExtractKind.UPPERBOUND:
            bound = type.upperbound
    return [np.array([bound], np.int64)]


# -- views


def mixed_numbers(frame: Frame, values: Sequence[int | Value]) -> tuple[int, ...]:
    """Static and dynamic sizes as integers; tiles that disagree go on separately."""
    return tuple(v if isinstance(v, int) else frame.number(v) for v in values)


@KERNELS.executes(ktdp.ConstructMemoryView)
def memory_view(run: Interpreter, frame: Frame, op: ktdp.ConstructMemoryView) -> Results:
    sizes = mixed_numbers(frame, op.mixed_sizes)
    strides = mixed_numbers(frame, op.mixed_strides)
    element = op.type.element
    unit = 1 if run.machine.address_unit is AddressUnit.BYTE else element_bytes(element)
    base = frame.array(op.offset) * unit
    match op.memory_space:
        case ktdp.MemorySpace(space=ktdp.Space.GLOBAL):
            return [View(run.homes.get(op, run.device), 0, base, element, sizes, strides)]
        case ktdp.MemorySpace(ct_id=ct_id):
            return [View(run.scratchpad, ct_id, base, element, sizes, strides)]
        case space:
            raise unsupported(op, f"memory space {space}")


@KERNELS.executes(ktdp.ConstructDistributedMemoryView)
def distributed_view(run: Interpreter, frame: Frame, op: ktdp.ConstructDistributedMemoryView) -> Results:
    parts, sets, corners = [], [], []
    for value in op.memrefs:
        view = frame[value]
        definer = run.definer(value)
        if not isinstance(view, View) or not isinstance(definer, ktdp.ConstructMemoryView):
            raise unsupported(op, "a distributed view of something other than memory views")
        symbols = tuple(frame.number(size) for size in definer.sizes)
        coordinates = definer.coordinate_set.set
        box = coordinates.bounding_box(symbols[: coordinates.num_symbols])
        if box is None:
            continue
        parts.append(view)
        sets.append((coordinates, symbols[: coordinates.num_symbols]))
        corners.append(tuple(low for low, _ in box))
    if not parts:
        raise ExecutionFault("a distributed view needs at least one part", site=Site(op.name, op.location))
    return [DistributedView(tuple(parts), tuple(sets), tuple(corners), _disjoint_boxes(sets))]


def _disjoint_boxes(sets: Sequence[tuple[AffineSet, tuple[int, ...]]]) -> tuple[Box, ...] | None:
    boxes: list[Box] = []
    for coordinates, symbols in sets:
        box = as_box(coordinates, symbols)
        if box is None:
            return None
        if any(all(a <= d and c <= b for (a, b), (c, d) in zip(box, other, strict=True)) for other in boxes):
            return None
        boxes.append(box)
    return tuple(boxes)


def as_box(points: AffineSet, symbols: Sequence[int]) -> Box | None:
    """The bounds of a set that is a box with all its points; None for others, and for the empty set."""
    factors = points.factors(symbols)
    if factors is None or not all(isinstance(f, range) and f.step == 1 and len(f) for f in factors):
        return None
    return tuple((f[0], f[-1]) for f in factors)


# -- access tiles


def _tile_extents(
    op: Operation, type: ktdp.AccessTileType, natural: tuple[int, ...], count: int
) -> tuple[int, ...]:
    """The shape of the data: that of the type, dynamic extents from the point set."""
    if None in type.shape:
        if len(natural) != type.rank:
            raise unsupported(op, "dynamic extents of a tile that is no box")
        return tuple(n if extent is None else extent for extent, n in zip(type.shape, natural, strict=True))
    extents = type.static_shape()
    if math.prod(extents) != count:
        raise ExecutionFault(
            f"the access tile set has {count} points, but the tile type {type} holds {math.prod(extents)}",
            site=Site(op.name, op.location),
        )
    return extents


def ordered_points(
    op: Operation, points: AffineSet, order: AffineMap, symbols: Sequence[int], type: ktdp.AccessTileType
) -> tuple[IntArray, tuple[int, ...]]:
    """The points sorted by ``order(p)``, and the shape that they fill in row-major order (spec 1.7)."""
    rows = points.points(symbols)
    natural: tuple[int, ...] = ()
    factors = points.factors(symbols)
    permutation = order.as_permutation()
    if permutation is None:
        raise ExecutionFault("access_tile_order must be a permutation", site=Site(op.name, op.location))
    if factors is not None:
        natural = tuple(len(factors[d]) for d in permutation)
    keys = [rows[:, d] for d in permutation]
    sorted_rows = rows[np.lexsort(keys[::-1])] if keys else rows
    return sorted_rows, _tile_extents(op, type, natural, len(rows))


def pattern_of(
    op: Operation,
    points: AffineSet,
    order: AffineMap,
    symbols: Sequence[int],
    type: ktdp.AccessTileType,
    strides: Sequence[int],
) -> tuple[Pattern, tuple[tuple[int, int], ...] | None]:
    """Element offsets of the points relative to the anchor, and the points' bounding box."""
    factors = points.factors(symbols)
    permutation = order.as_permutation()
    if factors is not None and permutation is not None and all(isinstance(f, range) for f in factors):
        ranges = [f for f in factors if isinstance(f, range)]
        natural = tuple(len(ranges[d]) for d in permutation)
        extents = _tile_extents(op, type, natural, math.prod(natural))
        if 0 in natural:
            return nest(extents, (0,) * len(extents)), None
        box = tuple((min(r[0], r[-1]), max(r[0], r[-1])) for r in ranges)
        start = sum(r[0] * s for r, s in zip(ranges, strides, strict=True))
        regular = nest(natural, tuple(ranges[d].step * strides[d] for d in permutation), start)
        if extents == natural:
            return regular, box
        return Scattered(extents, regular.offsets().reshape(extents)), box
    rows, extents = ordered_points(op, points, order, symbols, type)
    where = (rows * np.array(strides, np.int64)).sum(axis=1).reshape(extents)
    if not len(rows):
        return Scattered(extents, where), None
    return Scattered(extents, where), tuple(
        (int(low), int(high)) for low, high in zip(rows.min(axis=0), rows.max(axis=0), strict=True)
    )


@attrs.frozen(eq=False)
class _TilePlan:
    """The parts of an access tile's construction; `patterns` by symbols and strides of the view."""

    base: Value
    dims: tuple[Value, ...]
    symbols: tuple[Value, ...]
    set_symbols: tuple[Value, ...]
    map: AffineMap
    patterns: dict[object, tuple[Pattern, tuple[tuple[int, int], ...] | None]] = attrs.field(factory=dict)

    @classmethod
    def of(cls, op: ktdp.ConstructAccessTile) -> _TilePlan:
        map, indices = op.base_map.map, op.indices
        return cls(op.base, indices[: map.num_dims], indices[map.num_dims :], op.symbol_operands, map)


@KERNELS.executes(ktdp.ConstructAccessTile)
def access_tile(run: Interpreter, frame: Frame, op: ktdp.ConstructAccessTile) -> Results:
    plan = run.plan(op, _TilePlan.of)
    view = frame[plan.base]
    symbols = tuple(frame.number(value) for value in plan.set_symbols)
    coordinates = plan.map.evaluate(
        [frame.array(value) for value in plan.dims], [frame.array(value) for value in plan.symbols]
    )
    anchor = _anchor(coordinates)
    match view:
        case View():
            _check_rank(op, len(coordinates), len(view.sizes))
            key = (symbols, view.strides)
            found = plan.patterns.get(key)
            if found is None:
                points, order = op.access_tile_set.set, op.access_tile_order.map
                found = plan.patterns[key] = pattern_of(op, points, order, symbols, op.type, view.strides)
            pattern, box = found
            return [AccessTile(view, anchor, pattern, box, (op, symbols))]
        case DistributedView():
            _check_rank(op, len(coordinates), len(view.corners[0]))
            return [_distributed_tile(view, anchor, op, symbols)]
        case _:
            raise unsupported(op, "an access tile of a tensor")


def _distributed_tile(
    view: DistributedView, anchor: IntArray, op: ktdp.ConstructAccessTile, symbols: tuple[int, ...]
) -> BoxTile | PointTile:
    points, order = op.access_tile_set.set, op.access_tile_order.map
    box, permutation = as_box(points, symbols), order.as_permutation()
    if view.boxes is not None and box is not None and permutation is not None:
        natural = tuple(box[d][1] - box[d][0] + 1 for d in permutation)
        extents = _tile_extents(op, op.type, natural, math.prod(natural))
        return BoxTile(view, anchor, box, permutation, extents, (op, symbols))
    rows, extents = ordered_points(op, points, order, symbols, op.type)
    return PointTile(view, anchor[:, None, :] + rows[None, :, :], extents)


def _point_by_point(tile: AccessTile | BoxTile) -> PointTile:
    op, symbols = tile.origin
    rows, extents = ordered_points(op, op.access_tile_set.set, op.access_tile_order.map, symbols, op.type)
    return PointTile(tile.view, tile.anchor[:, None, :] + rows[None, :, :], extents)


def _anchor(coordinates: Sequence[Array | int]) -> IntArray:
    """Coordinates (one array or number a dimension) as one array of shape (batch, rank)."""
    batch = max((len(c) for c in coordinates if isinstance(c, np.ndarray)), default=1)
    anchor = np.empty((batch, len(coordinates)), np.int64)
    for axis, values in enumerate(coordinates):
        anchor[:, axis] = values
    return anchor


def _check_rank(op: Operation, given: int, rank: int) -> None:
    if given != rank:
        raise ExecutionFault(f"{given} subscripts for a view of rank {rank}", site=Site(op.name, op.location))


@KERNELS.executes(ktdp.ConstructIndirectAccessTile)
def indirect_tile(run: Interpreter, frame: Frame, op: ktdp.ConstructIndirectAccessTile) -> Results:
    """Index values are read when the tile is constructed."""
    view = frame[op.base]
    if not isinstance(view, View | DistributedView):
        raise unsupported(op, "an indirect access tile of a tensor")
    symbols = tuple(frame.number(value) for value in op.symbol_operands)
    rows, extents = ordered_points(
        op, op.variables_space_set.set, op.variables_space_order.map, symbols, op.type
    )
    captured = [frame.array(value)[:, None] for value in op.captured_variables]
    variables = [rows[None, :, d] for d in range(rows.shape[1])]
    index_views = iter(op.indirect_memrefs)
    columns: list[Array] = []
    for indirect, map in zip(op.kinds, op.maps, strict=True):
        values = [np.asarray(v, np.int64) for v in map.evaluate([*captured, *variables])]
        filled = [np.broadcast_to(v, np.broadcast_shapes(v.shape, (1, len(rows)))) for v in values]
        if not indirect:
            columns.append(filled[0])
            continue
        table = frame[next(index_views)]
        assert isinstance(table, View | DistributedView)
        where = (
            np.stack(np.broadcast_arrays(*filled), axis=-1)
            if filled
            else np.zeros((1, len(rows), 0), np.int64)
        )
        columns.append(load_points(run, frame, op, PointTile(table, where, (len(rows),))).astype(np.int64))
    points = (
        np.stack(np.broadcast_arrays(*columns), axis=-1) if columns else np.zeros((1, len(rows), 0), np.int64)
    )
    return [PointTile(view, points, extents)]


# -- loads and stores


def _checked_anchor(frame: Frame, op: Operation, tile: AccessTile) -> IntArray:
    if tile.box is not None:
        check_box(frame.tiles, op, tile.view.sizes, tile.anchor, tile.box, tile.view.memory.label)
    return element_anchor(tile.view, tile.anchor)


def _cut(run: Interpreter, tile: AccessTile) -> AccessTile | PointTile:
    """The tile point by point if it leaves its view and the points outside are to be left out."""
    if run.checks.out_of_range is OutOfRange.ERROR or tile.box is None:
        return tile
    high = tile.anchor + np.array([high for _, high in tile.box], np.int64)
    if (high < np.array(tile.view.sizes, np.int64)).all():
        return tile
    return _point_by_point(tile)


@KERNELS.executes(ktdp.Load)
def load(run: Interpreter, frame: Frame, op: ktdp.Load) -> Results:
    run.count(op, frame)
    tile = frame[op.operands[0]]
    _check_element(op, tile, op.results[0].type)
    match _cut(run, tile) if isinstance(tile, AccessTile) else tile:
        case AccessTile() as tile:
            anchor = _checked_anchor(frame, op, tile)
            return [load_view(run, frame, op, tile.view, anchor, tile.pattern)]
        case BoxTile() as tile:
            data = load_box(run, frame, op, tile)
            return [load_points(run, frame, op, _point_by_point(tile)) if data is None else data]
        case PointTile() as tile:
            return [load_points(run, frame, op, tile)]
        case _:
            raise unsupported(op, "a load from something other than an access tile")


@KERNELS.executes(ktdp.Store)
def store(run: Interpreter, frame: Frame, op: ktdp.Store) -> Results:
    run.count(op, frame)
    data, tile = frame.array(op.operands[0]), frame[op.operands[1]]
    _check_element(op, tile, op.operands[0].type)
    match _cut(run, tile) if isinstance(tile, AccessTile) else tile:
        case AccessTile() as tile:
            anchor = _checked_anchor(frame, op, tile)
            _check_shape(op, data, tile.pattern.extents)
            store_view(run, frame, op, tile.view, anchor, tile.pattern, data)
        case BoxTile() as tile:
            _check_shape(op, data, tile.extents)
            if not store_box(run, frame, op, tile, data):
                store_points(run, frame, op, _point_by_point(tile), data)
        case PointTile() as tile:
            _check_shape(op, data, tile.extents)
            store_points(run, frame, op, tile, data)
        case _:
            raise unsupported(op, "a store to something other than an access tile")
    return ()


def _check_element(op: Operation, tile: object, type: Type) -> None:
    view = tile.view if isinstance(tile, AccessTile | BoxTile | PointTile) else None
    if view is not None and view.element != element_or_self(type):
        raise ExecutionFault(
            f"elements of type {element_or_self(type)} in memory that is viewed as {view.element}",
            site=Site(op.name, op.location),
        )


def _check_shape(op: Operation, data: Array, extents: tuple[int, ...]) -> None:
    if data.shape[1:] != extents:
        raise ExecutionFault(
            f"data of shape {data.shape[1:]} for an access tile of shape {extents}",
            site=Site(op.name, op.location),
        )
