"""Boxes of coordinates of distributed views: part by part, for all tiles at once (ktir spec 1.6)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs
import numpy as np

from ktir.ir import Operation
from spyresim.meaning.formats import Array, held_dtype
from spyresim.sequential.access import IntArray, Nest, nest
from spyresim.sequential.interpreter import Frame, Interpreter
from spyresim.sequential.transfers import check_box, element_anchor, is_local, load_view, store_view
from spyresim.sequential.values import BoxTile, View, spread

__all__ = ["load_box", "store_box"]


@attrs.frozen(eq=False)
class _Piece:
    """What some tiles (positions in the batch) touch of one part: a box of the same size for all of them, at
    the same place of their data, and from coordinates `local` (one row a tile) of the part on."""

    part: int
    positions: IntArray
    first: tuple[int, ...]
    extents: tuple[int, ...]
    local: IntArray


def _pieces(tile: BoxTile, batch: int) -> list[_Piece] | None:
    """The pieces of all tiles; None if some coordinate is in no part."""
    anchor = spread(tile.anchor, batch)
    low = anchor + np.array([bound[0] for bound in tile.box], np.int64)
    high = anchor + np.array([bound[1] for bound in tile.box], np.int64)
    rank, found, covered = len(tile.box), list[_Piece](), np.zeros(batch, np.int64)
    assert tile.view.boxes is not None
    for part, box in enumerate(tile.view.boxes):
        first = np.maximum(low, np.array([bound[0] for bound in box], np.int64))
        last = np.minimum(high, np.array([bound[1] for bound in box], np.int64))
        inside = np.flatnonzero((first <= last).all(axis=1))
        if not len(inside):
            continue
        sizes = (last - first + 1)[inside]
        covered[inside] += sizes.prod(axis=1)
        keys = np.concatenate([(first - low)[inside], sizes], axis=1)
        kinds, which = np.unique(keys, axis=0, return_inverse=True)
        corner = np.array(tile.view.corners[part], np.int64)
        for number, kind in enumerate(kinds.tolist()):
            chosen = inside[which.reshape(-1) == number]
            found.append(_Piece(part, chosen, tuple(kind[:rank]), tuple(kind[rank:]), first[chosen] - corner))
    return found if (covered == math.prod(b - a + 1 for a, b in tile.box)).all() else None


def _accesses(
    frame: Frame, op: Operation, tile: BoxTile, batch: int, pieces: list[_Piece]
) -> Iterator[tuple[Frame, View, IntArray, Nest, tuple[IntArray | slice, ...]]]:
    """Per piece: the frame of its tiles, the view, the anchor in it, the pattern, and where its data is."""
    for piece in pieces:
        whole = len(piece.positions) == batch
        view = tile.view.parts[piece.part]
        inner = frame if whole else frame.restrict(piece.positions)
        view = view if whole else view.take(piece.positions)
        box = [(0, extent - 1) for extent in piece.extents]
        check_box(inner.tiles, op, view.sizes, piece.local, box, view.memory.label)
        pattern = nest(
            tuple(piece.extents[d] for d in tile.order), tuple(view.strides[d] for d in tile.order)
        )
        slices = tuple(slice(piece.first[d], piece.first[d] + piece.extents[d]) for d in tile.order)
        rows: IntArray | slice = slice(None) if whole else piece.positions
        yield inner, view, element_anchor(view, piece.local), pattern, (rows, *slices)


def load_box(run: Interpreter, frame: Frame, op: Operation, tile: BoxTile) -> Array | None:
    """Data of shape (batch, *extents); None where the box is not all in parts."""
    batch = frame.batch if tile.anchor.shape[0] != 1 or is_local(tile.view) else 1
    pieces = _pieces(tile, batch)
    if pieces is None:
        return None
    natural = tuple(tile.box[d][1] - tile.box[d][0] + 1 for d in tile.order)
    out = np.empty((batch, *natural), held_dtype(tile.view.element, run.machine.f16_format))
    for inner, view, anchor, pattern, where in _accesses(frame, op, tile, batch, pieces):
        out[where] = load_view(run, inner, op, view, anchor, pattern)
    return out.reshape(batch, *tile.extents)


def store_box(run: Interpreter, frame: Frame, op: Operation, tile: BoxTile, data: Array) -> bool:
    """Store data of shape (batch, *extents); False where that has to be done point by point.

    Pieces of one part are stores of their own: only with one for each part are conflicts between tiles seen.
    """
    one = tile.anchor.shape[0] == data.shape[0] == 1 and not is_local(tile.view)
    batch = 1 if one else frame.batch
    pieces = _pieces(tile, batch)
    if pieces is None or len({piece.part for piece in pieces}) < len(pieces):
        return False
    natural = tuple(tile.box[d][1] - tile.box[d][0] + 1 for d in tile.order)
    shaped = spread(data, batch).reshape(batch, *natural)
    for inner, view, anchor, pattern, where in _accesses(frame, op, tile, batch, pieces):
        store_view(run, inner, op, view, anchor, pattern, shaped[where])
    return True
