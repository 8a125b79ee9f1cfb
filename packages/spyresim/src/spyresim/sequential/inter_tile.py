"""Communication between compute tiles: produce, reduce, consume (ktir spec 1.13, 5.4).

In lockstep a delivery finds what was produced in the same dynamic instance; a tile that runs by itself waits.
A tile that waits for one that did not get there (control flow was not the same for all) is a deadlock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs
import numpy as np

from ktir.affine import AffineSet
from ktir.dialects import ktdp
from ktir.ir import Operation, Region, Value
from spyresim.errors import DeadlockFault, ExecutionFault, Site
from spyresim.meaning.formats import Array
from spyresim.sequential.clocks import Clock
from spyresim.sequential.interpreter import Frame, Handlers, Interpreter, Results
from spyresim.sequential.tensors import poison
from spyresim.sequential.values import Batched, spread

__all__ = ["INTER_TILE", "Future"]

INTER_TILE = Handlers()

Source: TypeAlias = tuple[int, ...]


@attrs.frozen(eq=False)
class Contribution:
    """What one tile has published (one array a role, shape (1, ...)), and what it knew then."""

    partials: tuple[Array, ...]
    clock: Clock


@attrs.frozen(eq=False)
class Future(Batched):
    """What tiles have published in one dynamic instance; tiles that run by themselves add to it later."""

    contributions: dict[int, Contribution]
    producers: AffineSet
    groups: tuple[int, ...]

    def members(self, group: int, tiles: int) -> Source:
        """The tiles that contribute to a group, ascending."""
        return members(self.producers, (group,), tiles)

    def partial(self, role: int, tile: int) -> Array:
        """The contribution of a tile, shape (1, ...)."""
        return self.contributions[tile].partials[role]


def members(tiles: AffineSet, symbols: Sequence[int], count: int) -> Source:
    """Tiles of the grid in a set, ascending."""
    mask = tiles.mask([np.arange(count, dtype=np.int64)], symbols)
    return tuple(int(t) for t in np.flatnonzero(mask))


def tile_count(frame: Frame) -> int:
    """Tiles of the grid."""
    return int(np.prod(frame.grid, dtype=np.int64))


@INTER_TILE.executes(ktdp.InterTileProduce)
def produce(run: Interpreter, frame: Frame, op: ktdp.InterTileProduce) -> Results:
    """Tiles of a group evaluate the region with the number of their group; others publish nothing."""
    run.count(op, frame)
    type = op.future_type
    groups = tuple(int(g) for g in type.groups.points()[:, 0])
    producers = op.producer_tiles_per_group.set
    group_of = {tile: g for g in groups for tile in members(producers, (g,), tile_count(frame))}
    positions = np.array([p for p, tile in enumerate(frame.tiles.tolist()) if tile in group_of], np.int64)
    inner = frame.restrict(positions)
    numbers = np.array([group_of[int(tile)] for tile in inner.tiles], np.int64)
    inner.bind(op.body.block.arguments, [numbers])
    partials = tuple(_array(v) for v in run.run_block(op.body.block, inner)) if len(positions) else ()
    turns = run.turns
    published: dict[int, Contribution] = {}
    if turns is not None:
        (tile,) = frame.tiles.tolist()
        published = turns.instance(op, tile)
    for row, tile in enumerate(inner.tiles.tolist()):
        given = tuple(array if len(array) == 1 else array[row : row + 1] for array in partials)
        published[tile] = Contribution(given, run.clocks.release(tile))
    return [Future(published, producers, groups)]


def _array(value: object) -> Array:
    assert isinstance(value, np.ndarray)
    return value


def sources_of(run: Interpreter, frame: Frame, op: ktdp.Delivery, future: Future) -> dict[Source, list[int]]:
    """Who gets the contributions of whom: producers (ascending) to positions of consumers in the batch."""
    consumers, dependency = op.consumer_tiles_per_group.set, op.producer_dependency_per_consumer
    count = tile_count(frame)
    found: dict[Source, list[int]] = {}
    needed: list[tuple[int, Source]] = []
    for group in future.groups:
        wanted = set(members(consumers, (group,), count))
        producers = future.members(group, count)
        for position, tile in enumerate(frame.tiles.tolist()):
            if tile not in wanted:
                continue
            sources = producers
            if dependency is not None:
                symbols = (tile, group)[: dependency.set.num_symbols]
                chosen = set(members(dependency.set, symbols, count))
                sources = tuple(p for p in producers if p in chosen)
            needed.append((tile, sources))
            found.setdefault(sources, []).append(position)
    published = future.contributions

    def waiting() -> tuple[str, ...]:
        pairs = [(tile, p) for tile, sources in needed for p in sources if p not in published]
        return tuple(f"tile {tile} waits for tile {p}" for tile, p in pairs)

    site = Site(op.name, op.location)
    if run.turns is not None:
        run.turns.wait(lambda: not waiting(), waiting, site)
    missing = waiting()
    if missing:
        raise DeadlockFault(
            f"deadlock: {missing[0]}, which has not produced here", site=site, waiting=missing
        )
    sizes = {tile: sum(array.nbytes for array in given.partials) for tile, given in published.items()}
    for tile, sources in needed:
        received = sum(sizes[p] for p in sources if p != tile)
        run.work.receive(received, np.array([tile], np.int64))
        run.clocks.acquire(tile, [published[p].clock for p in sources])
    return found


def future_of(frame: Frame, op: ktdp.Delivery) -> Future:
    """What a delivery takes."""
    found = frame[op.future]
    assert isinstance(found, Future)
    return found


def deliver(
    run: Interpreter, frame: Frame, op: Operation, values: Sequence[tuple[list[int], Sequence[Array]]]
) -> Results:
    """The results in the consumers; what other tiles hold is undefined."""
    results: list[Array] = []
    for role, result in enumerate(op.results):
        arrays = [(positions, given[role]) for positions, given in values]
        shape = arrays[0][1].shape[1:] if arrays else ()
        out = spread(poison(result.type, shape, run), frame.batch).copy()
        for positions, array in arrays:
            out[positions] = array
        results.append(out)
    return results


@INTER_TILE.executes(ktdp.InterTileReduce)
def reduce(run: Interpreter, frame: Frame, op: ktdp.InterTileReduce) -> Results:
    """A left fold over the producers by ascending tile; the identity only where there is no producer."""
    run.count(op, frame)
    future = future_of(frame, op)
    sources = sources_of(run, frame, op, future)
    delivered: list[tuple[list[int], Sequence[Array]]] = []
    for producers, positions in sources.items():
        inner = frame.restrict(np.array(positions, np.int64))
        delivered.append((positions, folded(run, inner, op.identities, op.body, future, producers)))
    return deliver(run, frame, op, delivered)


def folded(
    run: Interpreter,
    inner: Frame,
    identities: Sequence[Value],
    combiner: Region,
    future: Future,
    producers: Source,
) -> list[Array]:
    """A left fold of contributions with a combiner, one array a role; the identities without any producer."""
    if not producers:
        return [inner.array(value) for value in identities]
    roles = range(len(identities))
    total = [future.partial(role, producers[0]) for role in roles]
    for tile in producers[1:]:
        inner.bind(combiner.block.arguments, [*total, *(future.partial(role, tile) for role in roles)])
        total = [_array(v) for v in run.run_block(combiner.block, inner)]
    return total


@INTER_TILE.executes(ktdp.InterTileConsume)
def consume(run: Interpreter, frame: Frame, op: ktdp.InterTileConsume) -> Results:
    """Every consumer gets the contribution of its one producer, unchanged."""
    run.count(op, frame)
    future = future_of(frame, op)
    sources = sources_of(run, frame, op, future)
    delivered: list[tuple[list[int], Sequence[Array]]] = []
    for producers, positions in sources.items():
        if len(producers) != 1:
            tile = int(frame.tiles[positions[0]])
            raise ExecutionFault(
                f"tile {tile} depends on {len(producers)} producers; inter_tile_consume delivers one "
                "contribution per consumer tile, so exactly one is required",
                site=Site(op.name, op.location, tile),
            )
        given = [future.partial(role, producers[0]) for role in range(len(op.results))]
        delivered.append((positions, given))
    return deliver(run, frame, op, delivered)
