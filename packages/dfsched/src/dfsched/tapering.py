"""Tiles that get smaller towards the end of a nest.

Behind the last load of a nest its computation and its store are still to be done, and nothing overlaps them.
With equal tiles, fewer of them make that tail longer, and more of them wait more often for the latency of
copies. Tiles that shrink by what a load takes longer than the computation beside it keep both busy, and the
tail is that of the smallest. `tapered` finds them; a nest is cut into parts of two tiles each, the
larger one first, so that no part needs more than two copies of a buffer or waits for one.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from attrs import define, field, frozen

__all__ = ["LEAST_GAIN", "MOST_TILES", "CopyTimes", "Part", "TileTimes", "makespan", "tapered"]

MOST_TILES = 8
"""Most tiles in which a nest is cut: every two of them are a pipeline of their own."""

LEAST_GAIN = Fraction(3, 100)
"""Share of the cycles that smaller tiles have to save; below that they are not worth their code."""

MOST_STEPS = 8
"""Steps from the best tiles that shrink evenly to better ones."""

DROPS = tuple(Fraction(n, 4) for n in range(7))
"""By how much tiles shrink, in units of the iterations that are computed in the latency of a load."""


@frozen
class Part:
    """So many iterations of the outermost loop of a nest, in tiles of a size."""

    iterations: int
    size: int

    @property
    def tiles(self) -> tuple[int, ...]:
        """Iterations of each tile."""
        whole, rest = divmod(self.iterations, self.size)
        return (self.size,) * whole + ((rest,) if rest else ())


@frozen
class CopyTimes:
    """Times of one copy: how long it takes on its link, how long on the port of device memory that all copies
    share, and how long after that it ends."""

    latency: int
    link: int
    port: int

    def end(self, start: int, port_free: int) -> tuple[int, int]:
        """When it ends, and when the port is free again."""
        through = max(start, port_free) + self.port
        return max(start + self.link, through) + self.latency, through


@frozen
class TileTimes:
    """Times of the copies in, the computation and the copies out of a tile, all in one unit."""

    loads: tuple[CopyTimes, ...]
    compute: int
    stores: tuple[CopyTimes, ...]


Times = Callable[[int], TileTimes]
"""By the number of iterations of the outermost loop in a tile."""


@define
class _Line:
    """Tiles on their way: a load unit, the computation, a store unit, and a port that copies share."""

    tiles: Sequence[TileTimes]
    copies: int
    loaded: int = 0
    stored: int = 0
    port: int = 0
    computed: list[int] = field(factory=list)
    ends: list[int] = field(factory=list)

    def run(self) -> int:
        for number, tile in enumerate(self.tiles):
            if number >= self.copies:
                self.store_until(number - self.copies)
                self.loaded = max(self.loaded, self.computed[number - self.copies])
            for copy in tile.loads:
                self.store_before(self.loaded)
                self.loaded, self.port = copy.end(self.loaded, self.port)
            free = self.ends[number - self.copies] if number >= self.copies else 0
            before = self.computed[-1] if self.computed else 0
            self.computed.append(max(before, self.loaded, free) + tile.compute)
        self.store_until(len(self.tiles) - 1)
        return self.ends[-1]

    def store_before(self, time: int) -> None:
        """The stores that come to the port before a load at some time."""
        while len(self.ends) < len(self.computed) and max(self.stored, self.computed[len(self.ends)]) <= time:
            self.store()

    def store_until(self, number: int) -> None:
        while len(self.ends) <= number:
            self.store()

    def store(self) -> None:
        number = len(self.ends)
        self.stored = max(self.stored, self.computed[number])
        for copy in self.tiles[number].stores:
            self.stored, self.port = copy.end(self.stored, self.port)
        self.ends.append(self.stored)


def makespan(tiles: Sequence[int], times: Times, copies: int) -> int:
    """Time until the last tile is stored, with so many copies of every buffer."""
    return _Line([times(size) for size in tiles], copies).run()


def tapered(
    tiles: Sequence[int],
    times: Times,
    copies: int,
    multiple: int,
    fits: Callable[[Sequence[Part]], bool],
) -> tuple[Part, ...]:
    """The parts in which the iterations of `tiles` take fewer cycles than in these.

    Tile sizes are multiples of a number, but for the first one. Empty where that gains too little, or nothing
    `fits`.
    """
    latency = sum(copy.latency for copy in times(multiple).loads)
    slope = times(multiple).compute
    if slope <= 0 or latency == 0:
        return ()

    @functools.cache
    def taken(sizes: tuple[int, ...]) -> int:
        return makespan(sizes, times, len(sizes))

    limit = makespan(tiles, times, copies)
    drop = Fraction(latency * multiple, slope)
    found = [sizes for sizes in _candidates(sum(tiles), drop, multiple) if fits(parts_of(sizes))]
    best = min(found, key=taken, default=None)
    if best is None:
        return ()
    for _ in range(MOST_STEPS):
        near = (sizes for sizes in _neighbours(best, multiple) if fits(parts_of(sizes)))
        better = min(near, key=taken, default=best)
        if taken(better) >= taken(best):
            break
        best = better
    return parts_of(best) if taken(best) <= (1 - LEAST_GAIN) * limit else ()


def parts_of(tiles: Sequence[int]) -> tuple[Part, ...]:
    """Two tiles a part, the second one not larger than the first."""
    pairs = (tiles[first : first + 2] for first in range(0, len(tiles), 2))
    return tuple(Part(sum(pair), pair[0]) for pair in pairs)


def _neighbours(tiles: Sequence[int], step: int) -> Iterator[tuple[int, ...]]:
    """Tiles of which one is larger and another one smaller by a step; sizes never grow."""
    for larger, smaller in itertools.permutations(range(len(tiles)), 2):
        sizes = list(tiles)
        sizes[larger] += step
        sizes[smaller] -= step
        if sizes[-1] > 0 and all(a >= b for a, b in itertools.pairwise(sizes)):
            yield tuple(sizes)


def _candidates(trips: int, drop: Fraction, multiple: int) -> Iterator[tuple[int, ...]]:
    """Tiles that shrink evenly."""
    for count in range(3, MOST_TILES + 1):
        for factor in DROPS:
            step = drop * factor
            sizes = [Fraction(trips, count) + step * (Fraction(count - 1, 2) - n) for n in range(count)]
            tiles = [max(1, round(size / multiple)) * multiple for size in sizes[1:]]
            first = trips - sum(tiles)
            if first >= tiles[0] and all(a >= b for a, b in itertools.pairwise(tiles)):
                yield (first, *tiles)
