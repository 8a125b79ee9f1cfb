"""Accesses of different tiles that nothing orders (readings 12, ktir spec 5.3).

Only deliveries order the tiles of a kernel. The interpreter runs tiles in lockstep (or one after another), so
a load sees every store that happened to come before; a program that counts on that is suspicious. Who wrote
last and who read since is kept per stick until two tiles meet in one, and from then on (for that memory) per
pair of bytes, or per byte if there are elements of one byte: neighbours in a stick are no conflict. A store
that changes nothing conflicts with nothing.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import numpy.typing as npt

from spyresim.errors import Site
from spyresim.sequential.clocks import NOW, Clocks, TileSets

if TYPE_CHECKING:
    from spyresim.meaning.formats import Array
    from spyresim.sequential.memory import Access, Bank

__all__ = ["FINE", "Hazard", "OrderShadow"]

FINE = 2
"""Bytes per entry once tiles have met in a stick; one where a memory has elements of one byte."""

MAX_LOG = 1 << 16
"""Accesses that are remembered for a replay; one more, and the memory is looked at finely."""

Shadow = npt.NDArray[np.int32]
Blocks = npt.NDArray[np.int64]


@attrs.frozen
class Hazard:
    """`second` touches what `first` has touched before, at least one of them writing, by different tiles.

    A tile is None where several are meant; `address` in bytes.
    """

    memory: str
    address: int
    first: Site
    second: Site
    wrote_first: bool
    writes_second: bool
    schedule: str = "lockstep"

    @property
    def message(self) -> str:
        verbs = (
            "has written" if self.wrote_first else "has read",
            "writes" if self.writes_second else "reads",
        )
        return (
            f"{_who(self.second)} {verbs[1]} what {_who(self.first)} {verbs[0]} at {self.address:#x} of "
            f"{self.memory} in '{self.first.operation}'; only {self.schedule} orders that"
        )


def _who(site: Site) -> str:
    return "another tile" if site.tile is None else f"tile {site.tile}"


@attrs.define(eq=False)
class _Last:
    """Per block of bytes: which tiles (number of a set) touched it last, and at which event."""

    tiles: Shadow
    event: Shadow

    @classmethod
    def empty(cls, instances: int, blocks: int) -> _Last:
        return cls(np.zeros((instances, blocks), np.int32), np.zeros((instances, blocks), np.int32))

    def grown(self, blocks: int) -> _Last:
        found = _Last.empty(len(self.tiles), blocks)
        found.tiles[:, : self.tiles.shape[1]] = self.tiles
        found.event[:, : self.event.shape[1]] = self.event
        return found

    def halved(self) -> _Last:
        """Entries for half as many bytes each."""
        return _Last(np.repeat(self.tiles, 2, axis=1), np.repeat(self.event, 2, axis=1))

    def at(self, blocks: Blocks) -> tuple[Shadow, Shadow]:
        return self.tiles.reshape(-1)[blocks], self.event.reshape(-1)[blocks]

    def set(self, blocks: Blocks, tiles: Shadow | int, event: int) -> None:
        self.tiles.reshape(-1)[blocks] = tiles
        self.event.reshape(-1)[blocks] = event


@attrs.frozen(eq=False)
class _Event:
    """One access: when, by which operation (number in the shadow), by whom (set numbers, shape (rows, 1))."""

    access: Access
    writing: bool
    time: int
    op: int
    who: Shadow
    quiet: Blocks | None = None
    """Fine blocks (of the grain of then) that a store leaves as they are."""


class OrderShadow:
    """The history of one memory; `report` is told of every pair of operations that meets, once."""

    def __init__(
        self, bank: Bank, clocks: Clocks, report: Callable[[Hazard], None], schedule: str = "lockstep"
    ) -> None:
        self._bank = bank
        self._clocks = clocks
        self._report = report
        self._schedule = schedule
        self._sets = TileSets(clocks.tiles)
        self._sites: list[Callable[[int | None], Site]] = []
        self._numbers: dict[Any, int] = {}
        self._known: set[tuple[int, int, bool, bool]] = set()
        self._start()

    def _start(self) -> None:
        """Forget everything: what follows is ordered behind it, for all tiles."""
        self._op_of: list[int] = [0]
        self._time_of: list[int] = [0]
        self._grain = self._bank.stick
        self._writes = _Last.empty(self._bank.instances, 0)
        self._reads = _Last.empty(self._bank.instances, 0)
        self._log: list[_Event] | None = []

    def note(self, access: Access, sticks: Blocks, writing: bool, data: Array | None = None) -> None:
        """Look for hazards of an access that touches `sticks` (see `Bank.blocks`), then remember it.

        `data` is what a store is about to write.
        """
        if 0 < self._time_of[-1] <= self._clocks.floor:
            self._start()
        event = _Event(access, writing, self._clocks.tick(), self._number(access), self._actors(access))
        self._op_of.append(event.op)
        self._time_of.append(event.time)
        number = len(self._time_of) - 1
        if access.item < FINE == self._grain:  # so far all elements began at even bytes
            self._grain = access.item
            self._writes, self._reads = self._writes.halved(), self._reads.halved()
        blocks = self._blocks(access, sticks)
        if self._log is not None and (len(self._log) >= MAX_LOG or self._meets(event, blocks)):
            self._refine(min(FINE, access.item, *(e.access.item for e in self._log)))
            blocks = self._blocks(access, sticks)
        if self._log is not None:
            self._log.append(event)
            self._remember_first(event, blocks, number)
            return
        self._remember(self._check(event, blocks, data), blocks, number)

    # -- blocks

    def _blocks(self, access: Access, sticks: Blocks) -> Blocks:
        wanted = self._bank.held // self._grain
        if self._writes.tiles.shape[1] < wanted:
            self._writes, self._reads = self._writes.grown(wanted), self._reads.grown(wanted)
        return sticks if self._grain == self._bank.stick else self._bank.blocks(access, self._grain)

    def _refine(self, grain: int) -> None:
        """From sticks to blocks of `grain` bytes: what happened so far is replayed."""
        assert self._log is not None
        log, self._log = self._log, None
        self._grain = grain
        self._writes = _Last.empty(self._bank.instances, self._bank.held // grain)
        self._reads = _Last.empty(self._bank.instances, self._bank.held // grain)
        first = len(self._time_of) - 1 - len(log)
        for number, event in enumerate(log, first):
            self._remember(event, self._bank.blocks(event.access, grain), number)

    # -- who

    def _actors(self, access: Access) -> Shadow:
        if access.everyone is not None:
            number = self._sets.number(frozenset((tile, NOW) for tile in access.everyone.tolist()))
            return np.full((len(access.tiles), 1), number, np.int32)
        return (access.tiles[:, None] + 1).astype(np.int32)

    def _number(self, access: Access) -> int:
        site = access.site(None)
        key = (site.operation, site.location)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._sites)
            self._sites.append(access.site)
        return found

    # -- hazards

    def _meets(self, event: _Event, blocks: Blocks) -> bool:
        """Whether another tile has touched one of the blocks, or two tiles do it now."""
        lasts = (self._writes, self._reads) if event.writing else (self._writes,)
        if any(self._touched(last, event, blocks).any() for last in lasts):
            return True
        if not event.writing or len(event.who) < 2:
            return False
        if (blocks[1:].min(axis=1) > blocks[:-1].max(axis=1)).all():
            return False
        scratch = np.zeros(int(blocks.max()) + 1 - int(blocks.min()), np.int32)
        places = blocks - blocks.min()
        scratch[places] = event.who
        return bool((scratch[places] != event.who).any())

    def _touched(self, last: _Last, event: _Event, blocks: Blocks) -> npt.NDArray[np.bool_]:
        """Which blocks somebody else has touched before."""
        tiles = last.tiles.reshape(-1)[blocks]
        other = tiles != event.who
        if event.writing and len(event.who) == 1:
            other |= event.who > self._clocks.tiles  # tiles that do the same are others to each other
        return np.asarray((tiles != 0) & other)

    def _check(self, event: _Event, blocks: Blocks, data: Array | None) -> _Event:
        """Tell of hazards; the event with what it leaves as it is."""
        bad = self._unordered(self._writes, event, blocks)
        if event.writing and data is not None and bad.any():
            quiet = np.setdiff1d(blocks[bad], self._bank.changed_blocks(event.access, data, self._grain))
            event = attrs.evolve(event, quiet=quiet)
            bad &= ~np.isin(blocks, quiet)
        if bad.any():
            self._tell(event, blocks, self._writes, bad)
        if event.writing:
            bad = self._unordered(self._reads, event, blocks)
            if event.quiet is not None:
                bad &= ~np.isin(blocks, event.quiet)
            if bad.any():
                self._tell(event, blocks, self._reads, bad)
        return event

    def _unordered(self, last: _Last, event: _Event, blocks: Blocks) -> npt.NDArray[np.bool_]:
        """Which blocks were touched by somebody that the tiles of the event do not know of.

        For a store every tile that touched a block counts; for a load it is enough to know one of them, or to
        be one: they have all written the same.
        """
        bad = self._touched(last, event, blocks)
        open_ = bisect.bisect_right(self._time_of, self._clocks.floor)
        tiles, events = last.at(blocks)
        bad &= events >= open_
        if not bad.any():
            return bad
        who = np.broadcast_to(event.who, blocks.shape)
        keys = np.stack([tiles[bad], events[bad], who[bad]], axis=1)
        heads = np.append(True, (keys[1:] != keys[:-1]).any(axis=1))  # neighbours are mostly alike
        pairs, kinds = np.unique(keys[heads], axis=0, return_inverse=True)
        inverse = kinds.reshape(-1)[np.cumsum(heads) - 1]
        verdicts = np.array(
            [
                self._race(first, self._time_of[at], second, event.writing)
                for first, at, second in pairs.tolist()
            ]
        )
        bad[bad] = verdicts[inverse]
        return bad

    def _race(self, before: int, time: int, now: int, writing: bool) -> bool:
        first, second = self._sets.members(before, time), self._sets.members(now)
        for tile, _ in second:
            known = (other == tile or self._clocks.knows(tile, other, event) for other, event in first)
            if not (all(known) if writing else any(known)):
                return True
        return False

    # -- memory

    def _remember_first(self, event: _Event, blocks: Blocks, number: int) -> None:
        """Like `_remember` for blocks that nobody else has touched."""
        if event.writing:
            self._reads.tiles.reshape(-1)[blocks] = 0
        (self._writes if event.writing else self._reads).set(blocks, event.who, number)

    def _remember(self, event: _Event, blocks: Blocks, number: int) -> None:
        who = np.broadcast_to(event.who, blocks.shape)
        if event.writing:
            quiet = np.zeros(blocks.shape, np.bool_) if event.quiet is None else np.isin(blocks, event.quiet)
            before = self._writes.at(blocks[quiet])
            self._reads.set(blocks[~quiet], 0, 0)
            self._writes.set(blocks, who, number)
            self._merge(self._writes, blocks, who)
            self._join(self._writes, blocks[quiet], *before)
            return
        tiles, events = self._reads.at(blocks)
        self._reads.set(blocks, who, number)
        self._merge(self._reads, blocks, who)
        open_ = bisect.bisect_right(self._time_of, self._clocks.floor)
        kept = (tiles != 0) & (tiles != who) & (events >= open_)
        self._join(self._reads, blocks[kept], tiles[kept], events[kept])

    def _merge(self, last: _Last, blocks: Blocks, who: Shadow) -> None:
        """Blocks that several tiles of one access touch belong to all of them."""
        clash = last.tiles.reshape(-1)[blocks] != who
        if clash.any():
            self._join(last, blocks[clash], who[clash], None)

    def _join(self, last: _Last, blocks: Blocks, tiles: Shadow, events: Shadow | None) -> None:
        """Add sets of tiles (of earlier events, or of the one that is remembered) to those of blocks."""
        if not len(blocks):
            return
        flat = last.tiles.reshape(-1)
        columns: list[npt.NDArray[Any]] = [blocks, tiles, np.zeros_like(tiles) if events is None else events]
        unions: dict[tuple[int, int, int], int] = {}
        for block, number, event in np.unique(np.stack(columns, axis=1), axis=0).tolist():
            key = (int(flat[block]), number, event)
            found = unions.get(key)
            if found is None:
                now = NOW if events is None else self._time_of[event]
                found = unions[key] = self._sets.number(
                    self._sets.members(key[0]) | self._sets.members(number, now)
                )
            flat[block] = found

    # -- telling

    def _tell(self, event: _Event, blocks: Blocks, last: _Last, bad: npt.NDArray[np.bool_]) -> None:
        position, column = (int(v) for v in np.argwhere(bad)[0])
        row, block = divmod(int(blocks[position, column]), last.tiles.shape[1])
        wrote = last is self._writes
        key = (self._op_of[int(last.event[row, block])], event.op, wrote, event.writing)
        if key in self._known:
            return
        self._known.add(key)
        access = event.access
        tile = None if access.everyone is not None else int(access.tiles[position])
        others = {other for other, _ in self._sets.members(int(last.tiles[row, block]))} - {tile}
        first = next(iter(others)) if len(others) == 1 else None
        self._report(
            Hazard(
                self._bank.name(row),
                block * self._grain,
                self._sites[key[0]](first),
                access.site(tile),
                wrote,
                event.writing,
                self._schedule,
            )
        )
