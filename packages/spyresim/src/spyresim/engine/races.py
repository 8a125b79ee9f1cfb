"""Data races: vector clocks for every gang and its copies (dataflowir spec 5.10).

Two accesses to overlapping bytes, at least one of them a write, must be ordered by program order, a queue
(the i-th send before the i-th receive, that receive before the send that reuses its slot), a signal, or a
copy (issue, copy, next copy, a waiting signal).  Everything else is a race, even if the simulated order
happens to give the right bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt

from spyresim.engine.memories import runs_of
from spyresim.errors import ConflictFault, Site

Clock = npt.NDArray[np.int64]
"""One counter for every actor: gang i is actor 2i, its copies are actor 2i + 1."""


def join(clock: Clock, other: Clock | None) -> None:
    """What happened before `other` happened before `clock`, too."""
    if other is not None:
        np.maximum(clock, other, out=clock)


@attrs.define(eq=False)
class _Shadow:
    """Who touched every byte of one scratchpad last: writer and its count, and for every actor the count of
    its last read.  Grows to the highest byte touched."""

    actors: int
    writer: npt.NDArray[np.int32]
    written: npt.NDArray[np.int64]
    read: npt.NDArray[np.int64]

    @classmethod
    def empty(cls, actors: int) -> _Shadow:
        return cls(actors, np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros((actors, 0), np.int64))

    def copy(self) -> _Shadow:
        return _Shadow(self.actors, self.writer.copy(), self.written.copy(), self.read.copy())

    def grow(self, size: int) -> None:
        have = len(self.writer)
        if size <= have:
            return
        more = max(size, 2 * have) - have
        self.writer = np.concatenate([self.writer, np.zeros(more, np.int32)])
        self.written = np.concatenate([self.written, np.zeros(more, np.int64)])
        self.read = np.concatenate([self.read, np.zeros((self.actors, more), np.int64)], axis=1)

    def access(self, actor: int, clock: Clock, low: int, high: int, writing: bool) -> tuple[int, int] | None:
        """Note an access; the other actor and a byte if it is not ordered before this one."""
        self.grow(high)
        part = slice(low, high)
        unordered = self.written[part] > clock[self.writer[part]]
        if unordered.any():
            at = int(np.flatnonzero(unordered)[0])
            return int(self.writer[low + at]), low + at
        if writing:
            late = self.read[:, part] > clock[:, None]
            if late.any():
                other, at = (int(n[0]) for n in np.nonzero(late))
                return other, low + at
            self.writer[part] = actor
            self.written[part] = clock[actor]
        else:
            self.read[actor, part] = clock[actor]
        return None


@attrs.frozen(eq=False)
class _GlobalAccess:
    """An access of one gang (or its copies) to device memory on all its rows."""

    actor: int
    clock: Clock
    writing: bool
    site: Site


@attrs.define(eq=False)
class Races:
    """The detector of one cohort.  Scratchpad accesses are checked at once, those of device memory when the
    program ends (`finish`)."""

    actors: int
    shadows: dict[tuple[int, int], _Shadow] = attrs.Factory(dict)
    accesses: list[_GlobalAccess] = attrs.Factory(list)
    intervals: list[tuple[npt.NDArray[np.int64], int]] = attrs.Factory(list)
    """For every access: array of (row's core, start, end), and its number in `accesses`."""

    def copy(self) -> Races:
        """For a part of a cohort that is split."""
        shadows = {key: shadow.copy() for key, shadow in self.shadows.items()}
        return Races(self.actors, shadows, list(self.accesses), list(self.intervals))

    def scratchpad(
        self,
        memory: int,
        name: str,
        actor: int,
        clock: Clock,
        cores: npt.NDArray[np.int64],
        base: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        step: int,
        writing: bool,
        site: Site,
    ) -> None:
        """Note an access; `ConflictFault` if it races with an earlier one.

        Rows with equal addresses share one shadow: the cores of a cohort do the same.
        """
        runs = runs_of(offsets, step)
        starts = base.tolist()
        uniform = len(set(starts)) == 1
        rows = [(int(cores[0]) if len(starts) == 1 else -1, starts[0])]
        if not uniform:
            rows = list(zip(cores.tolist(), starts, strict=True))
        for key, start in rows:
            shadow = self.shadows.get((memory, key))
            if shadow is None:
                shadow = self.shadows[memory, key] = _Shadow.empty(self.actors)
            for _, offset, size in runs:
                low = start + offset
                found = shadow.access(actor, clock, low, low + size, writing)
                if found is not None:
                    self._report(name, found, (low, low + size), actor, writing, site)

    def _report(
        self, name: str, found: tuple[int, int], span: tuple[int, int], actor: int, writing: bool, site: Site
    ) -> None:
        other, byte = found
        verb = "write" if writing else "read"
        raise ConflictFault(
            f"data race on {name}[{span[0]:#x}, {span[1]:#x}): the {verb} is not ordered after what actor "
            f"{_actor(other)} did at {byte:#x}",
            site=site,
            memory=name,
            address=byte,
            size=span[1] - span[0],
            first=Site(unit=_actor(other)),
            second=Site(unit=_actor(actor)),
        )

    def device_memory(
        self,
        actor: int,
        clock: Clock,
        cores: npt.NDArray[np.int64],
        base: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        step: int,
        writing: bool,
        site: Site,
    ) -> None:
        """Note an access for `finish`."""
        self.accesses.append(_GlobalAccess(actor, clock.copy(), writing, site))
        for _, offset, size in runs_of(offsets, step):
            rows = np.stack([cores, base + offset, base + offset + size], axis=1)
            self.intervals.append((rows, len(self.accesses) - 1))


def _actor(number: int) -> str:
    return f"{number // 2}{' copies' if number % 2 else ''}"


def check_device_memory(races: Sequence[Races]) -> None:
    """Check all accesses of one program to device memory, of all its cohorts; `ConflictFault` for a race."""
    parts: list[npt.NDArray[np.int64]] = []
    accesses: list[tuple[int, _GlobalAccess]] = []
    for number, detector in enumerate(races):
        first = len(accesses)
        accesses += [(number, access) for access in detector.accesses]
        for rows, index in detector.intervals:
            which = np.full((len(rows), 1), first + index, np.int64)
            parts.append(np.concatenate([rows, which], axis=1))
    if not parts:
        return
    everything = np.concatenate(parts)
    writing = np.array([access.writing for _, access in accesses])[everything[:, 3]]
    writes, reads = everything[writing], everything[~writing]
    writes = writes[np.lexsort((writes[:, 2], writes[:, 1]))]
    if not len(writes):
        return
    reach = np.maximum.accumulate(writes[:, 2])
    for later in np.flatnonzero(writes[1:, 1] < reach[:-1]) + 1:
        for earlier in range(int(later) - 1, -1, -1):
            if reach[earlier] <= writes[later, 1]:
                break
            if writes[earlier, 2] > writes[later, 1]:
                _require_order(writes[earlier], writes[later], accesses)
    last = np.searchsorted(writes[:, 1], reads[:, 2], side="left") - 1
    touched = (last >= 0) & (reach[np.maximum(last, 0)] > reads[:, 1])
    for position in np.flatnonzero(touched):
        read = reads[position]
        for candidate in range(int(last[position]), -1, -1):
            if reach[candidate] <= read[1]:
                break
            if writes[candidate, 2] > read[1]:
                _require_order(writes[candidate], read, accesses)


def _who(interval: npt.NDArray[np.int64], access: _GlobalAccess) -> str:
    verb = "write" if access.writing else "read"
    return f"a {verb} of core {int(interval[0])} at [{access.site.instance}]"


def _require_order(
    a: npt.NDArray[np.int64], b: npt.NDArray[np.int64], accesses: Sequence[tuple[int, _GlobalAccess]]
) -> None:
    cohort_a, first = accesses[int(a[3])]
    cohort_b, second = accesses[int(b[3])]
    if cohort_a == cohort_b and a[0] == b[0]:
        if second.clock[first.actor] >= first.clock[first.actor]:
            return
        if first.clock[second.actor] >= second.clock[second.actor]:
            return
    low, high = max(int(a[1]), int(b[1])), min(int(a[2]), int(b[2]))
    raise ConflictFault(
        f"data race on device memory [{low:#x}, {high:#x}) between {_who(a, first)} and {_who(b, second)}",
        site=second.site,
        memory="device memory",
        address=low,
        size=high - low,
        first=first.site,
        second=second.site,
    )
