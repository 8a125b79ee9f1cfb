"""Data races: vector clocks for every gang and its copies (dataflowir spec 5.10).

Two accesses to overlapping bytes, at least one of them a write, must be ordered by program order, a queue
(the i-th send before the i-th receive, that receive before the send that reuses its slot), a signal, or a
copy (issue, copy, next copy, a waiting signal).  Everything else is a race, even if the simulated order
happens to give the right bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np
import numpy.typing as npt

from spyresim.engine.footprint import Footprint
from spyresim.engine.values import Scalar, spread
from spyresim.errors import ConflictFault, Site

if TYPE_CHECKING:
    from spyresim.engine.state import Place

Clock = npt.NDArray[np.int64]
"""One counter for every actor: gang i is actor 2i, its copies are actor 2i + 1."""


def join(clock: Clock, other: Clock | None) -> None:
    """What happened before `other` happened before `clock`, too."""
    if other is not None:
        np.maximum(clock, other, out=clock)


PAGE_BYTES = 1024
"""Bytes of a scratchpad that are looked after together."""


@attrs.define(eq=False)
class _Page:
    """Who touched every byte of a page last: writer and its count, and for every actor that has read from
    the page the count of its last read."""

    writer: npt.NDArray[np.int32] = attrs.Factory(lambda: np.zeros(PAGE_BYTES, np.int32))
    written: npt.NDArray[np.int64] = attrs.Factory(lambda: np.zeros(PAGE_BYTES, np.int64))
    read: dict[int, npt.NDArray[np.int64]] = attrs.Factory(dict)

    def copy(self) -> _Page:
        read = {actor: counts.copy() for actor, counts in self.read.items()}
        return _Page(self.writer.copy(), self.written.copy(), read)

    def access(self, actor: int, clock: Clock, low: int, high: int, writing: bool) -> tuple[int, int] | None:
        """Note an access to ``[low, high)`` of the page; the other actor and a byte if it is not ordered
        before this one."""
        part = slice(low, high)
        unordered = self.written[part] > clock[self.writer[part]]
        if unordered.any():
            at = low + int(np.flatnonzero(unordered)[0])
            return int(self.writer[at]), at
        if not writing:
            self.read.setdefault(actor, np.zeros(PAGE_BYTES, np.int64))[part] = clock[actor]
            return None
        for other, counts in self.read.items():
            late = counts[part] > clock[other]
            if late.any():
                return other, low + int(np.flatnonzero(late)[0])
        self.writer[part] = actor
        self.written[part] = clock[actor]
        return None


@attrs.define(eq=False)
class _Shadow:
    """The pages of the scratchpads of one kind.

    As long as all cores of a cohort touch the same bytes of a page, `common` holds it once; the first
    access that differs from core to core gives every core its own (in `own`, by core and page).
    """

    common: dict[int, _Page] = attrs.Factory(dict)
    own: dict[int, dict[int, _Page]] = attrs.Factory(dict)
    """By page, then by core."""

    def select(self, cores: frozenset[int]) -> _Shadow:
        """A copy for some of the cores."""
        return _Shadow(
            {number: page.copy() for number, page in self.common.items()},
            {
                number: {core: page.copy() for core, page in pages.items() if core in cores}
                for number, pages in self.own.items()
            },
        )

    def pages(self, number: int, core: int | None, cores: Sequence[int]) -> list[_Page]:
        """The pages to look at for an access of one core, or (None) the same one of all `cores`."""
        pages = self.own.get(number)
        if pages is None and core is None:
            return [self.common.setdefault(number, _Page())]
        if pages is None:
            common = self.common.pop(number, None)
            pages = self.own[number] = {} if common is None else {other: common.copy() for other in cores}
        wanted = cores if core is None else (core,)
        return [pages.setdefault(other, _Page()) for other in wanted]

    def access(
        self,
        actor: int,
        clock: Clock,
        low: int,
        high: int,
        writing: bool,
        core: int | None,
        cores: Sequence[int],
    ) -> tuple[int, int] | None:
        """Note an access of one core (or of all) to ``[low, high)``; the other actor and a byte of a race."""
        for number in range(low // PAGE_BYTES, -(-high // PAGE_BYTES)):
            start = number * PAGE_BYTES
            first, last = max(low - start, 0), min(high - start, PAGE_BYTES)
            for page in self.pages(number, core, cores):
                found = page.access(actor, clock, first, last, writing)
                if found is not None:
                    return found[0], start + found[1]
        return None


@attrs.frozen(eq=False)
class _GlobalAccess:
    """An access of one gang (or its copies) to device memory on all its rows; `data` is what it writes."""

    actor: int
    clock: Clock
    site: Site
    data: npt.NDArray[np.uint8] | None = None

    @property
    def writing(self) -> bool:
        return self.data is not None


@attrs.define(eq=False)
class Races:
    """The detector of one cohort.  Scratchpad accesses are checked at once, those of device memory when the
    program ends (`check_device_memory`).

    `cores` are those that run in step, one a row of every gang; None if every gang has one core, and they
    may be ordered with one another.
    """

    cores: tuple[int, ...] | None
    shadows: dict[int, _Shadow] = attrs.Factory(dict)
    accesses: list[_GlobalAccess] = attrs.Factory(list)
    intervals: list[tuple[npt.NDArray[np.int64], int]] = attrs.Factory(list)
    """For every access: array of (row's core, start, end, row, position in its data), and its number in
    `accesses`."""

    def select(self, rows: npt.NDArray[np.intp]) -> Races:
        """For a part of a cohort that is split: what the cores of that part did."""
        if self.cores is None:
            return self
        cores = tuple(self.cores[row] for row in rows.tolist())
        wanted = frozenset(cores)
        shadows = {key: shadow.select(wanted) for key, shadow in self.shadows.items()}
        intervals = [(part[np.isin(part[:, 0], cores)], number) for part, number in self.intervals]
        return Races(cores, shadows, list(self.accesses), intervals)

    def scratchpad(
        self,
        place: Place,
        actor: int,
        clock: Clock,
        base: Scalar,
        footprint: Footprint,
        writing: bool,
        site: Site,
    ) -> None:
        """Note an access; `ConflictFault` if it races with an earlier one."""
        places = tuple(place.cores.tolist())
        rows: list[tuple[int | None, int]]
        if self.cores == places and isinstance(base, int):
            rows = [(None, base)]
        else:
            starts = spread(base, len(places)).tolist()
            same = self.cores == places and len(set(starts)) == 1
            rows = [(None, starts[0])] if same else list(zip(places, starts, strict=True))
        shadow = self.shadows.setdefault(place.pad, _Shadow())
        for core, start in rows:
            for run in footprint.runs:
                low = start + run.offset
                found = shadow.access(actor, clock, low, low + run.size, writing, core, self.cores or ())
                if found is not None:
                    self._report(place.memory.kind, found, (low, low + run.size), actor, writing, site)

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
        base: Scalar,
        footprint: Footprint,
        site: Site,
        data: npt.NDArray[np.uint8] | None,
    ) -> None:
        """Note an access for `check_device_memory`; `data` (rows, bytes) is what it writes."""
        self.accesses.append(_GlobalAccess(actor, clock.copy(), site, data))
        starts, row = spread(base, len(cores)), np.arange(len(cores))
        for run in footprint.runs:
            low = starts + run.offset
            rows = np.stack([cores, low, low + run.size, row, np.full_like(row, run.position)], axis=1)
            self.intervals.append((rows, len(self.accesses) - 1))


def _actor(number: int) -> str:
    return f"{number // 2}{' copies' if number % 2 else ''}"


def check_device_memory(races: Sequence[Races]) -> None:
    """Check all accesses of one program to device memory, of all its cohorts; `ConflictFault` for a race.

    Stores of the same bytes by different cores are none (as at level ktir).
    """
    parts: list[npt.NDArray[np.int64]] = []
    accesses: list[tuple[int, _GlobalAccess]] = []
    in_step = [detector.cores is not None for detector in races]
    for number, detector in enumerate(races):
        first = len(accesses)
        accesses += [(number, access) for access in detector.accesses]
        for rows, index in detector.intervals:
            which = np.full((len(rows), 1), first + index, np.int64)
            parts.append(np.concatenate([rows, which], axis=1))
    if not parts:
        return
    everything = np.concatenate(parts)
    writing = np.array([access.writing for _, access in accesses])[everything[:, 5]]
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
                _require_order(writes[earlier], writes[later], accesses, in_step)
    last = np.searchsorted(writes[:, 1], reads[:, 2], side="left") - 1
    touched = (last >= 0) & (reach[np.maximum(last, 0)] > reads[:, 1])
    for position in np.flatnonzero(touched):
        read = reads[position]
        for candidate in range(int(last[position]), -1, -1):
            if reach[candidate] <= read[1]:
                break
            if writes[candidate, 2] > read[1]:
                _require_order(writes[candidate], read, accesses, in_step)


def _who(interval: npt.NDArray[np.int64], access: _GlobalAccess) -> str:
    verb = "write" if access.writing else "read"
    return f"a {verb} of core {int(interval[0])} at [{access.site.instance}]"


def _written(
    interval: npt.NDArray[np.int64], data: npt.NDArray[np.uint8], low: int, high: int
) -> npt.NDArray[np.uint8]:
    start, row, position = (int(interval[i]) for i in (1, 3, 4))
    return data[row, position + low - start : position + high - start]


def _require_order(
    a: npt.NDArray[np.int64],
    b: npt.NDArray[np.int64],
    accesses: Sequence[tuple[int, _GlobalAccess]],
    in_step: Sequence[bool],
) -> None:
    cohort_a, first = accesses[int(a[5])]
    cohort_b, second = accesses[int(b[5])]
    if cohort_a == cohort_b and (a[0] == b[0] or not in_step[cohort_a]):
        if second.clock[first.actor] >= first.clock[first.actor]:
            return
        if first.clock[second.actor] >= second.clock[second.actor]:
            return
    low, high = max(int(a[1]), int(b[1])), min(int(a[2]), int(b[2]))
    if first.data is not None and second.data is not None:
        same = np.array_equal(_written(a, first.data, low, high), _written(b, second.data, low, high))
        if same and a[0] != b[0]:
            return
    raise ConflictFault(
        f"data race on device memory [{low:#x}, {high:#x}) between {_who(a, first)} and {_who(b, second)}",
        site=second.site,
        memory="device memory",
        address=low,
        size=high - low,
        first=first.site,
        second=second.site,
    )
