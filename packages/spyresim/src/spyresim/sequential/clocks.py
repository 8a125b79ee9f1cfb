"""What tiles know of each other: a delivery hands on what its producers did before (ktir spec 1.13.7).

Events of all tiles are numbered by one counter; a tile knows another tile's events up to some number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["NOW", "Clock", "Clocks", "TileSets"]

Clock = npt.NDArray[np.int64]
"""For every tile the number of its last event that is known."""

_ALL = np.iinfo(np.int64).max


class Clocks:
    """The knowledge of all tiles of a grid."""

    def __init__(self, tiles: int) -> None:
        self.now = 0
        self._seen = np.zeros((tiles, tiles), np.int64)
        np.fill_diagonal(self._seen, _ALL)
        self._floor: int | None = 0

    @property
    def tiles(self) -> int:
        return len(self._seen)

    @property
    def floor(self) -> int:
        """Every tile knows all events up to this one."""
        if self._floor is None:
            self._floor = int(self._seen.min())
        return self._floor

    def tick(self) -> int:
        """The number of a new event."""
        self.now += 1
        return self.now

    def release(self, tile: int) -> Clock:
        """What a tile knows now, for others to acquire."""
        clock: Clock = self._seen[tile].copy()
        clock[tile] = self.now
        return clock

    def acquire(self, tile: int, clocks: Iterable[Clock]) -> None:
        """The tile gets to know what others have released."""
        for clock in clocks:
            np.maximum(self._seen[tile], clock, out=self._seen[tile])
        self._floor = None

    def knows(self, tile: int, other: int, event: int) -> bool:
        """Whether an event of another tile is ordered before what the tile does next."""
        return bool(self._seen[tile, other] >= event)


Members: TypeAlias = frozenset[tuple[int, int]]
"""Tiles, each with the number of its event; `NOW` stands for that of the access that the set belongs to."""

NOW = -1


class TileSets:
    """Numbers for sets of tiles: 0 is the empty set, ``t + 1`` is tile t alone, now."""

    def __init__(self, tiles: int) -> None:
        self._sets: list[Members] = [frozenset(), *(frozenset(((tile, NOW),)) for tile in range(tiles))]
        self._numbers = {members: number for number, members in enumerate(self._sets)}

    def number(self, members: Members) -> int:
        found = self._numbers.get(members)
        if found is None:
            found = self._numbers[members] = len(self._sets)
            self._sets.append(members)
        return found

    def members(self, number: int, now: int = NOW) -> Members:
        """The members of a set, `NOW` replaced."""
        return frozenset((tile, now if event == NOW else event) for tile, event in self._sets[number])
