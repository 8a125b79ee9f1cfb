"""Memory planning: places buffers whose lifetimes are known into as small an arena as possible.

A function of (order, lifetimes, sizes, alignment) only (reading 26), so that the same planner serves host
arrays and device memory. Scheduler spec 15.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import attrs

from rangeify.tlsf import TLSF

K = TypeVar("K", bound=Hashable)


@attrs.frozen
class Lifetime(Generic[K]):
    """Buffer `key` of `nbytes` bytes is used by items `first` to `last`, both inclusive."""

    key: K
    nbytes: int
    first: int
    last: int

    def overlaps(self, other: Lifetime[K]) -> bool:
        """Whether some item uses both. A buffer that dies at item i may be reused from item i + 1 on."""
        return self.first <= other.last and other.first <= self.last


@attrs.frozen
class Placement(Generic[K]):
    """Byte offset of each buffer in an arena of `nbytes` bytes."""

    offsets: Mapping[K, int]
    nbytes: int


def lifetimes(uses: Iterable[Sequence[K]], nbytes: Mapping[K, int]) -> tuple[Lifetime[K], ...]:
    """The lifetimes of the keys of `nbytes`, given which buffers each item of the order touches."""
    first: dict[K, int] = {}
    last: dict[K, int] = {}
    for position, keys in enumerate(uses):
        for key in keys:
            if key in last:
                last[key] = position
            elif key in nbytes:
                first[key] = last[key] = position
    return tuple(Lifetime(key, nbytes[key], first[key], last[key]) for key in first)


def held_longer(live: Lifetime[K]) -> Lifetime[K]:
    """The lifetime of a buffer of a copy, which is freed late: the copy may still run when later items
    start.
    """
    return attrs.evolve(live, last=live.last + 1 + live.last - live.first)


def _round_up(n: int, to: int) -> int:
    return -(-n // to) * to


def _overlapping(lives: Sequence[Lifetime[K]]) -> list[list[int]]:
    """For each lifetime the positions of the others that overlap it."""
    found: list[list[int]] = [[] for _ in lives]
    firsts, lasts = [v.first for v in lives], [v.last for v in lives]
    alive: list[int] = []
    for i in sorted(range(len(lives)), key=firsts.__getitem__):
        first = firsts[i]
        alive = [j for j in alive if lasts[j] >= first]
        for j in alive:
            found[j].append(i)
        found[i] += alive
        alive.append(i)
    return found


def place_by_size(lives: Sequence[Lifetime[K]], alignment: int) -> Placement[K]:
    """Offline placement: largest buffer first, each at the lowest offset that is free over its whole life."""
    near = _overlapping(lives)
    offsets = [0] * len(lives)
    placed: list[tuple[int, int] | None] = [None] * len(lives)  # bytes [start, stop)
    ranks = [(-v.nbytes, v.first) for v in lives]
    for i in sorted(range(len(lives)), key=ranks.__getitem__):
        size, offset = _round_up(lives[i].nbytes, alignment), 0
        for start, stop in sorted([at for j in near[i] if (at := placed[j])]):
            if offset + size <= start:
                break
            if stop > offset:
                offset = stop
        offsets[i], placed[i] = offset, (offset, offset + size)
    return _placement(lives, offsets, alignment)


def place_in_time(lives: Sequence[Lifetime[K]], alignment: int) -> Placement[K]:
    """Simulates a run-time allocator over the order: buffers are freed before the next item allocates."""
    total = sum(_round_up(live.nbytes, alignment) for live in lives)
    allocator = TLSF(2 * total, block=alignment, lists=32)
    events = [(live.first, 1, i) for i, live in enumerate(lives)]
    events += [(live.last + 1, 0, i) for i, live in enumerate(lives)]
    at: dict[int, int] = {}
    for _, opens, i in sorted(events):
        if opens:
            at[i] = allocator.alloc(_round_up(lives[i].nbytes, alignment), alignment)
        else:
            allocator.free(at[i])
    return _placement(lives, [at[i] for i in range(len(lives))], alignment)


def most_live(lives: Sequence[Lifetime[K]], alignment: int) -> int:
    """The greatest sum of rounded sizes that are live at one item: no arena can be smaller."""
    changes: dict[int, int] = {}
    for live in lives:
        size = _round_up(live.nbytes, alignment)
        changes[live.first] = changes.get(live.first, 0) + size
        changes[live.last + 1] = changes.get(live.last + 1, 0) - size
    now = most = 0
    for at in sorted(changes):
        now += changes[at]
        most = max(most, now)
    return most


def _placement(lives: Sequence[Lifetime[K]], offsets: Sequence[int], alignment: int) -> Placement[K]:
    peak = max((offset + v.nbytes for v, offset in zip(lives, offsets, strict=True)), default=0)
    return Placement(dict(zip([v.key for v in lives], offsets, strict=True)), _round_up(peak, alignment))


def place(lives: Sequence[Lifetime[K]], alignment: int) -> Placement[K]:
    """The smaller of the offline and the in-time placement. `alignment` in bytes, a power of two.

    No two buffers whose lifetimes overlap share a byte; each offset is a multiple of `alignment`.
    """
    by_size = place_by_size(lives, alignment)
    if by_size.nbytes == most_live(lives, alignment):
        return by_size
    in_time = place_in_time(lives, alignment)
    return in_time if in_time.nbytes < by_size.nbytes else by_size
