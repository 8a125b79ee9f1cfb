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
from spyresim.errors import ExecutionFault, OutOfRangeFault, Site, unsupported
from spyresim.meaning.formats import Array, held_dtype
from spyresim.sequential.access import IntArray, Nest, Pattern, Scattered
from spyresim.sequential.interpreter import Frame, Handlers, Interpreter, Results
from spyresim.sequential.memory import Access
from spyresim.sequential.values import AccessTile, Batched, View, spread

__all__ = ["KERNELS", "load_view", "pattern_of", "store_view"]

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
            return [View(run.device, 0, base, element, sizes, strides)]
        case ktdp.MemorySpace(ct_id=ct_id):
            return [View(run.scratchpad, ct_id, base, element, sizes, strides)]
        case space:
            raise unsupported(op, f"memory space {space}")


@attrs.frozen(eq=False)
class DistributedView(Batched):
    """Views of parts, each with the set of global coordinates that it holds (and that set's corner)."""

    parts: tuple[View, ...]
    sets: tuple[tuple[AffineSet, tuple[int, ...]], ...]
    corners: tuple[tuple[int, ...], ...]

    @property
    def element(self) -> Type:
        return self.parts[0].element

    def take(self, positions: IntArray) -> DistributedView:
        return attrs.evolve(self, parts=tuple(part.take(positions) for part in self.parts))


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
    return [DistributedView(tuple(parts), tuple(sets), tuple(corners))]


# -- access tiles


@attrs.frozen(eq=False)
class PointTile(Batched):
    """Any coordinates: `points` has shape (batch, count, rank), the data has shape `extents`."""

    view: View | DistributedView
    points: IntArray
    extents: tuple[int, ...]

    def take(self, positions: IntArray) -> PointTile:
        points = self.points if self.points.shape[0] == 1 else self.points[positions]
        return attrs.evolve(self, view=self.view.take(positions), points=points)


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
            return Nest(extents, (0,) * len(extents)), None
        box = tuple((min(r[0], r[-1]), max(r[0], r[-1])) for r in ranges)
        start = sum(r[0] * s for r, s in zip(ranges, strides, strict=True))
        nest = Nest(natural, tuple(ranges[d].step * strides[d] for d in permutation), start)
        return (nest if extents == natural else Scattered(extents, nest.offsets().reshape(extents))), box
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
            return [AccessTile(view, anchor, pattern, box)]
        case DistributedView():
            points, order = op.access_tile_set.set, op.access_tile_order.map
            rows, extents = ordered_points(op, points, order, symbols, op.type)
            return [PointTile(view, anchor[:, None, :] + rows[None, :, :], extents)]
        case _:
            raise unsupported(op, "an access tile of a tensor")


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
        columns.append(_load_points(run, frame, op, PointTile(table, where, (len(rows),))).astype(np.int64))
    points = (
        np.stack(np.broadcast_arrays(*columns), axis=-1) if columns else np.zeros((1, len(rows), 0), np.int64)
    )
    return [PointTile(view, points, extents)]


# -- loads and stores


def load_view(
    run: Interpreter, frame: Frame, op: Operation, view: View, anchor: IntArray, pattern: Pattern
) -> Array:
    """Data of shape (batch, *extents) at ``anchor`` elements (shape (batch,)) of a view; no bounds check."""
    access = _access(run, frame, op, view, anchor, pattern)
    run.counters.bytes_read[view.memory.label] += frame.batch * pattern.size * access.item
    return view.memory.load(access)


def store_view(
    run: Interpreter,
    frame: Frame,
    op: Operation,
    view: View,
    anchor: IntArray,
    pattern: Pattern,
    data: Array,
) -> None:
    """Store data of shape (batch, *extents)."""
    access = _access(run, frame, op, view, anchor, pattern, data.shape[0])
    run.counters.bytes_written[view.memory.label] += frame.batch * pattern.size * access.item
    view.memory.store(access, data)


def _access(
    run: Interpreter,
    frame: Frame,
    op: Operation,
    view: View,
    anchor: IntArray,
    pattern: Pattern,
    data_batch: int = 1,
) -> Access:
    dtype = held_dtype(view.element, run.machine.f16_format)
    starts = np.atleast_1d(view.base + anchor * dtype.itemsize)
    if view.row is None or data_batch != 1:
        starts = spread(starts, frame.batch)
    batch = len(starts)
    tiles = frame.tiles if batch == frame.batch else frame.tiles[:1]
    rows = tiles if view.row is None else np.full(batch, view.row, np.int64)
    everyone = frame.tiles if batch == 1 and frame.batch > 1 else None
    return Access(tiles, rows, starts, pattern, dtype, run.site(op), view.owner, everyone)


def element_anchor(view: View, anchor: IntArray) -> IntArray:
    """Coordinates (batch, rank) as element offsets (batch,)."""
    return np.asarray((anchor * np.array(view.strides, np.int64)).sum(axis=1))


def check_box(
    tiles: IntArray,
    op: Operation,
    sizes: Sequence[int],
    anchor: IntArray,
    box: Sequence[tuple[int, int]],
    memory: str,
) -> None:
    """Every accessed coordinate must lie in ``[0, size)`` (ktir spec 4.5)."""
    low = anchor + np.array([low for low, _ in box], np.int64)
    high = anchor + np.array([high for _, high in box], np.int64)
    bad = (low < 0) | (high >= np.array(sizes, np.int64))
    if bad.any():
        position, axis = (int(v) for v in np.argwhere(bad)[0])
        corner = low if low[position, axis] < 0 else high
        coordinate = tuple(int(v) for v in corner[position])
        tile = int(tiles[position]) if len(anchor) == len(tiles) else int(tiles[0])
        raise OutOfRangeFault(
            f"coordinate {coordinate} is outside the view of shape {tuple(sizes)}",
            site=Site(op.name, op.location, tile),
            memory=memory,
            coordinate=coordinate,
        )


def _checked_anchor(frame: Frame, op: Operation, tile: AccessTile) -> IntArray:
    if tile.box is not None:
        check_box(frame.tiles, op, tile.view.sizes, tile.anchor, tile.box, tile.view.memory.label)
    return element_anchor(tile.view, tile.anchor)


@KERNELS.executes(ktdp.Load)
def load(run: Interpreter, frame: Frame, op: ktdp.Load) -> Results:
    run.count(op, frame)
    tile = frame[op.operands[0]]
    _check_element(op, tile, op.results[0].type)
    match tile:
        case AccessTile():
            anchor = _checked_anchor(frame, op, tile)
            return [load_view(run, frame, op, tile.view, anchor, tile.pattern)]
        case PointTile():
            return [_load_points(run, frame, op, tile)]
        case _:
            raise unsupported(op, "a load from something other than an access tile")


@KERNELS.executes(ktdp.Store)
def store(run: Interpreter, frame: Frame, op: ktdp.Store) -> Results:
    run.count(op, frame)
    data, tile = frame.array(op.operands[0]), frame[op.operands[1]]
    _check_element(op, tile, op.operands[0].type)
    match tile:
        case AccessTile():
            anchor = _checked_anchor(frame, op, tile)
            _check_shape(op, data, tile.pattern.extents)
            store_view(run, frame, op, tile.view, anchor, tile.pattern, data)
        case PointTile():
            _check_shape(op, data, tile.extents)
            _store_points(run, frame, op, tile, data)
        case _:
            raise unsupported(op, "a store to something other than an access tile")
    return ()


def _check_element(op: Operation, tile: object, type: Type) -> None:
    view = tile.view if isinstance(tile, AccessTile | PointTile) else None
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


def _element_accesses(
    run: Interpreter, frame: Frame, op: Operation, tile: PointTile, batch: int
) -> list[tuple[View, IntArray, Access]]:
    """One scalar access per point: (view, positions in the flattened points, access)."""
    points = spread(tile.points, batch)
    count = points.shape[1]
    flat = points.reshape(batch * count, -1)
    tile_of = np.repeat(np.arange(batch), count)
    scalar = Nest((), ())
    found: list[tuple[View, IntArray, Access]] = []
    if isinstance(tile.view, View):
        box = [(0, 0)] * flat.shape[1]
        if len(flat):
            tiles = frame.tiles[tile_of] if batch == frame.batch else frame.tiles[:1]
            check_box(tiles, op, tile.view.sizes, flat, box, tile.view.memory.label)
        pieces = [(tile.view, np.arange(len(flat)), flat)]
    else:
        pieces = _route(frame, op, tile.view, flat, tile_of)
    for view, positions, local in pieces:
        dtype = held_dtype(view.element, run.machine.f16_format)
        owners = tile_of[positions]
        base = spread(view.base, batch)[owners] if batch > 1 else np.broadcast_to(view.base[:1], owners.shape)
        starts = base + element_anchor(view, local) * dtype.itemsize
        tiles = frame.tiles[owners] if batch == frame.batch else np.full(len(owners), frame.tiles[0])
        rows = tiles if view.row is None else np.full(len(owners), view.row, np.int64)
        everyone = frame.tiles if batch == 1 and frame.batch > 1 else None
        access = Access(tiles, rows, starts, scalar, dtype, run.site(op), view.owner, everyone)
        found.append((view, positions, access))
    return found


def _route(
    frame: Frame, op: Operation, view: DistributedView, flat: IntArray, tile_of: IntArray
) -> list[tuple[View, IntArray, IntArray]]:
    """Which part holds each coordinate (the first that does), with local coordinates."""
    open_ = np.ones(len(flat), np.bool_)
    pieces: list[tuple[View, IntArray, IntArray]] = []
    columns = [flat[:, d] for d in range(flat.shape[1])]
    for part, (coordinates, symbols), corner in zip(view.parts, view.sets, view.corners, strict=True):
        mask = coordinates.mask(columns, symbols) & open_ if columns else open_
        positions = np.flatnonzero(mask)
        open_ &= ~mask
        if len(positions):
            pieces.append((part, positions, flat[positions] - np.array(corner, np.int64)))
    if open_.any():
        position = int(np.argmax(open_))
        coordinate = tuple(int(v) for v in flat[position])
        tile = int(frame.tiles[tile_of[position]]) if len(frame.tiles) > tile_of[position] else None
        raise OutOfRangeFault(
            f"coordinate {coordinate} is in no part of the distributed view",
            site=Site(op.name, op.location, tile),
            memory="distributed view",
            coordinate=coordinate,
        )
    return pieces


def _is_local(view: View | DistributedView) -> bool:
    views = (view,) if isinstance(view, View) else view.parts
    return any(v.row is None or v.base.shape[0] != 1 for v in views)


def _load_points(run: Interpreter, frame: Frame, op: Operation, tile: PointTile) -> Array:
    batch = frame.batch if tile.points.shape[0] != 1 or _is_local(tile.view) else 1
    count = tile.points.shape[1]
    out = np.empty(batch * count, held_dtype(tile.view.element, run.machine.f16_format))
    for view, positions, access in _element_accesses(run, frame, op, tile, batch):
        out[positions] = view.memory.load(access)
        run.counters.bytes_read[view.memory.label] += len(positions) * access.item * frame.batch // batch
    return out.reshape(batch, *tile.extents)


def _store_points(run: Interpreter, frame: Frame, op: Operation, tile: PointTile, data: Array) -> None:
    batch = frame.batch
    flat = spread(data, batch).reshape(batch * tile.points.shape[1])
    for view, positions, access in _element_accesses(run, frame, op, tile, batch):
        view.memory.store(access, flat[positions])
        run.counters.bytes_written[view.memory.label] += len(positions) * access.item
