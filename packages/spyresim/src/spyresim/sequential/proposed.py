"""Deliveries that are proposed, not settled: split, concatenate, permute (ktir spec 1.13.5).

Tiles of a group count in ascending order. Along listed axes, seen as one axis in row-major order, the
consumer at place l of C gets the l-th of C equal parts, and contributions stand one behind the other. Each
consumer is charged for the whole contributions that it waits for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ktir.dialects import ktdp
from ktir.ir import Operation
from ktir.types import TensorType
from spyresim.errors import ExecutionFault, Site, unsupported
from spyresim.meaning.formats import Array
from spyresim.sequential.inter_tile import Source, deliver, folded, future_of, members, sources_of, tile_count
from spyresim.sequential.interpreter import Frame, Handlers, Interpreter, Results

__all__ = ["PROPOSED"]

PROPOSED = Handlers()


@PROPOSED.executes(*ktdp.PROPOSED)
def proposed(run: Interpreter, frame: Frame, op: Operation) -> Results:
    """Every consumer gets its part of what its producers contribute."""
    assert isinstance(op, ktdp.ProposedDelivery)
    run.count(op, frame)
    future = future_of(frame, op)
    sources = sources_of(run, frame, op, future)
    places = _places(op, future.groups, tile_count(frame))
    delivered: list[tuple[list[int], Sequence[Array]]] = []
    for producers, positions in sources.items():
        if isinstance(op, ktdp.InterTileReduceScatter):
            inner = frame.restrict(np.array(positions[:1], np.int64))
            given = [[array[:1]] for array in folded(run, inner, op.identities, op.body, future, producers)]
        else:
            given = [[future.partial(r, tile) for tile in producers] for r in range(len(op.outputs))]
        for position in positions:
            tile = int(frame.tiles[position])
            _check_producers(op, producers, tile)
            place, count = places[tile]
            parts = [
                _part(op, contributions, type_of(op, role), place, count, tile)
                for role, contributions in enumerate(given)
            ]
            delivered.append(([position], parts))
    return deliver(run, frame, op, delivered)


def _places(op: ktdp.ProposedDelivery, groups: Sequence[int], tiles: int) -> dict[int, tuple[int, int]]:
    """Place and number of consumers of every consumer's group."""
    found: dict[int, tuple[int, int]] = {}
    for group in groups:
        consumers = members(op.consumer_tiles_per_group.set, (group,), tiles)
        found |= {tile: (place, len(consumers)) for place, tile in enumerate(consumers)}
    return found


def _check_producers(op: ktdp.ProposedDelivery, producers: Source, tile: int) -> None:
    if isinstance(op, ktdp.InterTileScatter) and len(producers) != 1:
        raise ExecutionFault(
            f"tile {tile} depends on {len(producers)} producers; inter_tile_scatter divides the contribution "
            "of exactly one",
            site=Site(op.name, op.location, tile),
        )


def type_of(op: ktdp.ProposedDelivery, role: int) -> TensorType:
    """The static type of a result."""
    type = op.outputs[role].type
    if not isinstance(type, TensorType) or not type.is_static:
        raise unsupported(op, f"a result of type {type}")
    return type


def _part(
    op: ktdp.ProposedDelivery,
    contributions: Sequence[Array],
    type: TensorType,
    place: int,
    count: int,
    tile: int,
) -> Array:
    """One consumer's result, shape (1, ...)."""
    split, joined = op.split_axes, op.joined_axes
    if split and joined and split != joined and set(split) & set(joined):
        raise unsupported(op, "axes that are split and joined in part")
    pieces = [array[0] for array in contributions]
    site = Site(op.name, op.location, tile)
    shape = type.static_shape()
    if split:
        pieces = [_split(piece, split, place, count, site) for piece in pieces]
        if split == joined:
            return _unflattened(np.concatenate(pieces), split, shape, site)[None]
        middle = [shape[a] if a in split else n for a, n in enumerate(contributions[0].shape[1:])]
        pieces = [_unflattened(piece, split, middle, site) for piece in pieces]
    if joined:
        whole = np.concatenate([_flattened(piece, joined) for piece in pieces])
        return _unflattened(whole, joined, shape, site)[None]
    part: Array = pieces[0][None]
    return part


def _flattened(array: Array, axes: Sequence[int]) -> Array:
    """The listed axes as one axis in front."""
    moved = np.moveaxis(array, axes, range(len(axes)))
    return moved.reshape(math.prod(moved.shape[: len(axes)]), *moved.shape[len(axes) :])


def _unflattened(array: Array, axes: Sequence[int], shape: Sequence[int], site: Site) -> Array:
    """The inverse of `_flattened`, with the listed axes' extents from `shape`."""
    extents = [shape[axis] for axis in axes]
    if math.prod(extents) != len(array):
        raise ExecutionFault(
            f"{len(array)} elements along axes {list(axes)} do not fill the result, which has {extents}",
            site=site,
        )
    return np.moveaxis(array.reshape(*extents, *array.shape[1:]), range(len(axes)), axes)


def _split(array: Array, axes: Sequence[int], place: int, count: int, site: Site) -> Array:
    """The part at `place` of `count` along the listed axes, which are one axis in front."""
    flat = _flattened(array, axes)
    if len(flat) % count:
        raise ExecutionFault(
            f"extent {len(flat)} along axes {list(axes)} is not divisible by {count} consumers", site=site
        )
    size = len(flat) // count
    return flat[place * size : (place + 1) * size]
