"""Accesses of different tiles that only lockstep orders (readings 12, ktir spec 5.3).

Nothing orders the tiles of a kernel. The interpreter runs them in lockstep, so a load sees every earlier
store of any tile; a program that counts on that is suspicious. Who last wrote and who read since is kept per
stick until two tiles meet in one, and from then on (for that memory) per pair of bytes: neighbours in a stick
are no conflict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import numpy.typing as npt

from spyresim.errors import Site

if TYPE_CHECKING:
    from spyresim.sequential.memory import Access, Bank

__all__ = ["Hazard", "OrderShadow"]

NOBODY = 0
SEVERAL = -2
EVERYONE = -3
FINE = 2
"""Bytes per entry once tiles have met in a stick."""

Shadow = npt.NDArray[np.int32]


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

    @property
    def message(self) -> str:
        verbs = (
            "has written" if self.wrote_first else "has read",
            "writes" if self.writes_second else "reads",
        )
        return (
            f"{_who(self.second)} {verbs[1]} what {_who(self.first)} {verbs[0]} at {self.address:#x} of "
            f"{self.memory} in '{self.first.operation}'; only lockstep orders that"
        )


def _who(site: Site) -> str:
    return "another tile" if site.tile is None else f"tile {site.tile}"


@attrs.define(eq=False)
class _Last:
    """Per block of bytes: which tile (number + 1) touched it last, and in which operation."""

    tile: Shadow
    op: Shadow

    @classmethod
    def empty(cls, instances: int, blocks: int) -> _Last:
        return cls(np.zeros((instances, blocks), np.int32), np.zeros((instances, blocks), np.int32))

    def grown(self, blocks: int) -> _Last:
        found = _Last.empty(len(self.tile), blocks)
        found.tile[:, : self.tile.shape[1]] = self.tile
        found.op[:, : self.op.shape[1]] = self.op
        return found


class OrderShadow:
    """The history of one memory; `report` is told of every pair of operations that meets, once."""

    def __init__(self, bank: Bank, report: Callable[[Hazard], None]) -> None:
        self._bank = bank
        self._report = report
        self._grain = bank.stick
        self._writes = _Last.empty(bank.instances, 0)
        self._reads = _Last.empty(bank.instances, 0)
        self._ops: list[Callable[[int | None], Site]] = []
        self._numbers: dict[Any, int] = {}
        self._log: list[tuple[Access, bool]] | None = []
        self._known: set[tuple[int, int, bool, bool]] = set()

    def forget(self) -> None:
        """Start again: what happened so far is ordered before what follows."""
        self._grain = self._bank.stick
        self._writes = _Last.empty(self._bank.instances, 0)
        self._reads = _Last.empty(self._bank.instances, 0)
        self._log = []

    def note(self, access: Access, sticks: npt.NDArray[np.int64], write: bool) -> None:
        """Look for hazards of an access that touches `sticks` (see `Bank.blocks`), then remember it."""
        blocks = self._blocks(access, sticks)
        if self._log is not None:
            if any(bad.any() for _, bad in self._meetings(access, blocks, write)):
                self._refine()
                blocks = self._blocks(access, sticks)
            else:
                self._log.append((access, write))
        if self._log is None:
            for last, bad in self._meetings(access, blocks, write):
                if bad.any():
                    self._tell(access, blocks, write, last, bad)
        self._remember(access, blocks, write)

    def _blocks(self, access: Access, sticks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        self._fit()
        return sticks if self._grain == self._bank.stick else self._bank.blocks(access, self._grain)

    def _fit(self) -> None:
        wanted = self._bank.held // self._grain
        if self._writes.tile.shape[1] < wanted:
            self._writes, self._reads = self._writes.grown(wanted), self._reads.grown(wanted)

    def _meetings(
        self, access: Access, blocks: npt.NDArray[np.int64], write: bool
    ) -> list[tuple[_Last, npt.NDArray[np.bool_]]]:
        """Blocks that somebody else wrote before (or, for a write, read)."""
        who = _actors(access)
        writer = self._writes.tile.reshape(-1)[blocks]
        bad = (writer != NOBODY) & (writer != who)
        if not write:
            return [(self._writes, bad & (writer != EVERYONE))]
        reader = self._reads.tile.reshape(-1)[blocks]
        return [(self._writes, bad), (self._reads, (reader != NOBODY) & (reader != who))]

    def _remember(self, access: Access, blocks: npt.NDArray[np.int64], write: bool) -> None:
        who = _actors(access)
        op = self._number(access)
        last = self._writes if write else self._reads
        tile = last.tile.reshape(-1)
        if write:
            self._reads.tile.reshape(-1)[blocks] = NOBODY
            tile[blocks] = who
        else:
            before = tile[blocks]
            tile[blocks] = np.where((before == NOBODY) | (before == who), who, SEVERAL)
        if len(access.tiles) > 1:
            after = tile[blocks]
            clash = (after != who) & (after != SEVERAL)
            tile[blocks[clash]] = SEVERAL
        last.op.reshape(-1)[blocks] = op

    def _number(self, access: Access) -> int:
        site = access.site(None)
        key = (site.operation, site.location)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._ops)
            self._ops.append(access.site)
        return found

    def _refine(self) -> None:
        """From sticks to pairs of bytes: what happened so far is replayed."""
        assert self._log is not None
        log, self._log = self._log, None
        self._grain = FINE
        self._writes = _Last.empty(self._bank.instances, 0)
        self._reads = _Last.empty(self._bank.instances, 0)
        self._fit()
        for access, write in log:
            self._remember(access, self._bank.blocks(access, FINE), write)

    def _tell(
        self,
        access: Access,
        blocks: npt.NDArray[np.int64],
        write: bool,
        last: _Last,
        bad: npt.NDArray[np.bool_],
    ) -> None:
        position, column = (int(v) for v in np.argwhere(bad)[0])
        row, block = divmod(int(blocks[position, column]), last.tile.shape[1])
        wrote = last is self._writes
        key = (int(last.op[row, block]), self._number(access), wrote, write)
        if key in self._known:
            return
        self._known.add(key)
        tile = int(last.tile[row, block])
        self._report(
            Hazard(
                self._bank.name(row),
                block * self._grain,
                self._ops[key[0]](tile - 1 if tile > 0 else None),
                access.site(None if access.everyone else int(access.tiles[position])),
                wrote,
                write,
            )
        )


def _actors(access: Access) -> npt.NDArray[np.int32]:
    """Tile numbers plus one, or that it is all tiles alike; shape (tiles, 1)."""
    if access.everyone:
        return np.full((len(access.tiles), 1), EVERYONE, np.int32)
    return (access.tiles[:, None] + 1).astype(np.int32)
