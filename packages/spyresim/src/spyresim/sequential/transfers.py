"""Loads and stores of a batch of tiles, through views and distributed views (ktir spec 1.9, 1.10, 4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ktir.ir import Operation
from spyresim.errors import OutOfRangeFault, Site
from spyresim.meaning.formats import Array, held_dtype
from spyresim.sequential.access import IntArray, Pattern, nest
from spyresim.sequential.checks import OutOfRange
from spyresim.sequential.interpreter import Frame, Interpreter
from spyresim.sequential.memory import Access
from spyresim.sequential.values import DistributedView, PointTile, View, spread

__all__ = [
    "check_box",
    "element_anchor",
    "is_local",
    "load_points",
    "load_view",
    "store_points",
    "store_view",
]


def load_view(
    run: Interpreter, frame: Frame, op: Operation, view: View, anchor: IntArray | int, pattern: Pattern
) -> Array:
    """Data of shape (batch, *extents) at ``anchor`` elements of a view; no bounds check.

    The anchor has shape (batch,), or is a number for all tiles.
    """
    access = _access(run, frame, op, view, anchor, pattern)
    run.counters.bytes_read[view.memory.label] += frame.batch * pattern.size * access.item
    return view.memory.load(access)


def store_view(
    run: Interpreter,
    frame: Frame,
    op: Operation,
    view: View,
    anchor: IntArray | int,
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
    anchor: IntArray | int,
    pattern: Pattern,
    data_batch: int = 1,
) -> Access:
    dtype = held_dtype(view.element, run.machine.f16_format)
    starts = view.base + anchor * dtype.itemsize
    if view.row is None or data_batch != 1:
        starts = spread(starts, frame.batch)
    batch = len(starts)
    tiles = frame.tiles if batch == frame.batch else frame.tiles[:1]
    rows = tiles if view.row is None else _instance(view.row, batch)
    everyone = frame.tiles if batch == 1 and frame.batch > 1 else None
    return Access(tiles, rows, starts, pattern, dtype, run.site(op), view.owner, everyone)


@lru_cache(maxsize=1 << 10)
def _instance(row: int, batch: int) -> IntArray:
    """The number of one memory instance for every tile; not to be written."""
    rows = np.full(batch, row, np.int64)
    rows.flags.writeable = False
    return rows


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


def _element_accesses(
    run: Interpreter, frame: Frame, op: Operation, tile: PointTile, batch: int, writing: bool
) -> list[tuple[View, IntArray, Access]]:
    """One scalar access per point: (view, positions in the flattened points, access)."""
    points = spread(tile.points, batch)
    count = points.shape[1]
    flat = points.reshape(batch * count, -1)
    tile_of = np.repeat(np.arange(batch), count)
    scalar = nest((), ())
    found: list[tuple[View, IntArray, Access]] = []
    zero = run.checks.out_of_range is OutOfRange.ZERO
    if isinstance(tile.view, View):
        positions = np.arange(len(flat))
        if zero:
            positions = np.flatnonzero((flat < np.array(tile.view.sizes, np.int64)).all(axis=1))
        tiles = frame.tiles[tile_of[positions]] if batch == frame.batch else frame.tiles[:1]
        box = [(0, 0)] * flat.shape[1]
        if len(positions):
            check_box(tiles, op, tile.view.sizes, flat[positions], box, tile.view.memory.label)
        pieces = [(tile.view, positions, flat[positions])]
    else:
        pieces = _route(frame, op, tile.view, flat, tile_of, zero, writing)
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
    frame: Frame,
    op: Operation,
    view: DistributedView,
    flat: IntArray,
    tile_of: IntArray,
    zero: bool,
    writing: bool,
) -> list[tuple[View, IntArray, IntArray]]:
    """Which part holds each coordinate, with local coordinates: the first one that does, for stores all.

    With `zero`, coordinates that no part holds are left out, unless they are negative.
    """
    open_ = np.ones(len(flat), np.bool_)
    pieces: list[tuple[View, IntArray, IntArray]] = []
    columns = [flat[:, d] for d in range(flat.shape[1])]
    for part, (coordinates, symbols), corner in zip(view.parts, view.sets, view.corners, strict=True):
        inside = coordinates.mask(columns, symbols) if columns else np.ones(len(flat), np.bool_)
        positions = np.flatnonzero(inside if writing else inside & open_)
        open_ &= ~inside
        if len(positions):
            pieces.append((part, positions, flat[positions] - np.array(corner, np.int64)))
    if zero:
        open_ &= (flat < 0).any(axis=1)
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


def is_local(view: View | DistributedView) -> bool:
    views = (view,) if isinstance(view, View) else view.parts
    return any(v.row is None or v.base.shape[0] != 1 for v in views)


def load_points(run: Interpreter, frame: Frame, op: Operation, tile: PointTile) -> Array:
    """Data of shape (batch, *extents) at the points of a tile."""
    batch = frame.batch if tile.points.shape[0] != 1 or is_local(tile.view) else 1
    count = tile.points.shape[1]
    out = np.zeros(batch * count, held_dtype(tile.view.element, run.machine.f16_format))
    for view, positions, access in _element_accesses(run, frame, op, tile, batch, writing=False):
        out[positions] = view.memory.load(access)
        run.counters.bytes_read[view.memory.label] += len(positions) * access.item * frame.batch // batch
    return out.reshape(batch, *tile.extents)


def store_points(run: Interpreter, frame: Frame, op: Operation, tile: PointTile, data: Array) -> None:
    """Store data of shape (batch, *extents); of several points at one place the last one stays."""
    batch = frame.batch
    flat = spread(data, batch).reshape(batch * tile.points.shape[1])
    for view, positions, access in _element_accesses(run, frame, op, tile, batch, writing=True):
        view.memory.store(access, flat[positions])
        run.counters.bytes_written[view.memory.label] += len(positions) * access.item
