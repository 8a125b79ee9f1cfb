"""Data races: vector clocks for every gang and its copies (dataflowir spec 5.10).

Two accesses to overlapping bytes, at least one of them a write, must be ordered by program order, a queue
(the i-th send before the i-th receive, that receive before the send that reuses its slot), a signal, or a
copy (issue, copy, next copy, a waiting signal).  Everything else is a race, even if the simulated order
happens to give the right bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

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


@attrs.frozen(eq=False)
class Deed:
    """An access as a report names it: where in the program, in which iteration of the loops around it, and
    which bytes. It is that of all rows of a gang (`units` names the unit of each) until `on` picks one."""

    site: Site
    units: tuple[str, ...]
    iteration: tuple[int, ...]
    writing: bool
    low: int
    high: int

    def __str__(self) -> str:
        verb = "write" if self.writing else "read"
        loops = f" in iteration {self.iteration}" if self.iteration else ""
        return f"the {verb} of [{self.low:#x}, {self.high:#x}) by {self.site}{loops}"

    def on(self, row: int, core: int, low: int, high: int) -> Deed:
        """The access of one row."""
        unit = self.units[row] if row < len(self.units) else self.site.unit
        return attrs.evolve(self, site=attrs.evolve(self.site, tile=core, unit=unit), low=low, high=high)


REMEMBERED = 1 << 16
"""Accesses of one actor that reports can still name."""


def join(clock: Clock, other: Clock | None) -> None:
    """What happened before `other` happened before `clock`, too."""
    if other is not None:
        np.maximum(clock, other, out=clock)


PAGE_BYTES = 1024
"""Bytes of a scratchpad that are looked after together."""


_Found: TypeAlias = tuple[int, int, int]
"""An access that another one races with: its actor, the actor's count then, and a byte that both touch."""


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

    def access(self, actor: int, clock: Clock, low: int, high: int, writing: bool) -> _Found | None:
        """Note an access to ``[low, high)`` of the page; what is not ordered before it, if there is such."""
        part = slice(low, high)
        unordered = self.written[part] > clock[self.writer[part]]
        if unordered.any():
            at = low + int(np.flatnonzero(unordered)[0])
            return int(self.writer[at]), int(self.written[at]), at
        if not writing:
            self.read.setdefault(actor, np.zeros(PAGE_BYTES, np.int64))[part] = clock[actor]
            return None
        for other, counts in self.read.items():
            late = counts[part] > clock[other]
            if late.any():
                at = low + int(np.flatnonzero(late)[0])
                return other, int(counts[at]), at
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
    ) -> _Found | None:
        """Note an access of one core (or of all) to ``[low, high)``; what it races with."""
        for number in range(low // PAGE_BYTES, -(-high // PAGE_BYTES)):
            start = number * PAGE_BYTES
            first, last = max(low - start, 0), min(high - start, PAGE_BYTES)
            for page in self.pages(number, core, cores):
                found = page.access(actor, clock, first, last, writing)
                if found is not None:
                    other, count, at = found
                    return other, count, start + at
        return None


@attrs.frozen(eq=False)
class _GlobalAccess:
    """An access of one gang (or its copies) to device memory on all its rows; `data` is what it writes, and
    `before` what was there."""

    actor: int
    clock: Clock
    deed: Deed
    data: npt.NDArray[np.uint8] | None = None
    before: npt.NDArray[np.uint8] | None = None

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
    deeds: dict[int, deque[tuple[int, Deed]]] = attrs.Factory(dict)
    """The last accesses of every actor to scratchpads, by its count."""

    def select(self, rows: npt.NDArray[np.intp]) -> Races:
        """For a part of a cohort that is split: what the cores of that part did."""
        if self.cores is None:
            return self
        cores = tuple(self.cores[row] for row in rows.tolist())
        wanted = frozenset(cores)
        shadows = {key: shadow.select(wanted) for key, shadow in self.shadows.items()}
        intervals = [(part[np.isin(part[:, 0], cores)], number) for part, number in self.intervals]
        deeds = {actor: deque(held, REMEMBERED) for actor, held in self.deeds.items()}
        return Races(cores, shadows, list(self.accesses), intervals, deeds)

    def scratchpad(
        self, place: Place, actor: int, clock: Clock, base: Scalar, footprint: Footprint, deed: Deed
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
        held = self.deeds.get(actor)
        if held is None:
            held = self.deeds[actor] = deque(maxlen=REMEMBERED)
        held.append((int(clock[actor]), deed))
        shadow = self.shadows.setdefault(place.pad, _Shadow())
        for row, (core, start) in enumerate(rows):
            for run in footprint.runs:
                low = start + run.offset
                high = low + run.size
                found = shadow.access(actor, clock, low, high, deed.writing, core, self.cores or ())
                if found is not None:
                    where = places[row]
                    second = deed.on(row, where, start + footprint.low, start + footprint.high)
                    first = self._deed(found)
                    first = first.on(row, where, first.low, first.high)
                    raise _conflict(
                        place.memory.kind, first, second, max(first.low, low), min(first.high, high)
                    )

    def _deed(self, found: _Found) -> Deed:
        """What an actor did when its clock stood so."""
        actor, count, byte = found
        for number, deed in self.deeds.get(actor, ()):
            if number == count:
                return deed
        long_ago = Site(unit=f"a unit, more than {REMEMBERED} accesses ago")
        return Deed(long_ago, (), (), True, byte, byte + 1)

    def device_memory(
        self,
        actor: int,
        clock: Clock,
        cores: npt.NDArray[np.int64],
        base: Scalar,
        footprint: Footprint,
        deed: Deed,
        data: npt.NDArray[np.uint8] | None,
        before: npt.NDArray[np.uint8] | None,
    ) -> None:
        """Note an access for `check_device_memory`; `data` (rows, bytes) is what it writes, over `before`."""
        self.accesses.append(_GlobalAccess(actor, clock.copy(), deed, data, before))
        starts, row = spread(base, len(cores)), np.arange(len(cores))
        for run in footprint.runs:
            low = starts + run.offset
            rows = np.stack([cores, low, low + run.size, row, np.full_like(row, run.position)], axis=1)
            self.intervals.append((rows, len(self.accesses) - 1))


def _conflict(memory: str, first: Deed, second: Deed, low: int, high: int) -> ConflictFault:
    return ConflictFault(
        f"data race on {memory}[{low:#x}, {high:#x}) between {first} and {second}: nothing orders them",
        site=second.site,
        memory=memory,
        address=low,
        size=high - low,
        first=first.site,
        second=second.site,
        iterations=(first.iteration, second.iteration),
    )


def check_device_memory(races: Sequence[Races]) -> None:
    """Check all accesses of one program to device memory, of all its cohorts; `ConflictFault` for a race.

    Stores of the same bytes by different cores are none (as at level ktir), nor is a read beside a store of
    the bytes that the reader finds in either order.
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
                pair = _Pair(writes[earlier], writes[later], accesses, in_step)
                if not pair.ordered and not pair.same_bytes:
                    raise pair.conflict()
    last = np.searchsorted(writes[:, 1], reads[:, 2], side="left") - 1
    touched = (last >= 0) & (reach[np.maximum(last, 0)] > reads[:, 1])
    for position in np.flatnonzero(touched):
        read = reads[position]
        for candidate in range(int(last[position]), -1, -1):
            if reach[candidate] <= read[1]:
                break
            if writes[candidate, 2] > read[1]:
                pair = _Pair(writes[candidate], read, accesses, in_step)
                if not pair.ordered and not _found_anyway(pair, writes, int(last[position])):
                    raise pair.conflict()


@attrs.frozen(eq=False)
class _Pair:
    """Two accesses that share bytes: ``[low, high)``; both intervals as `Races.intervals` has them, with the
    number of the access behind."""

    a: npt.NDArray[np.int64]
    b: npt.NDArray[np.int64]
    accesses: Sequence[tuple[int, _GlobalAccess]]
    in_step: Sequence[bool]

    @property
    def first(self) -> _GlobalAccess:
        return self.accesses[int(self.a[5])][1]

    @property
    def second(self) -> _GlobalAccess:
        return self.accesses[int(self.b[5])][1]

    @property
    def low(self) -> int:
        return max(int(self.a[1]), int(self.b[1]))

    @property
    def high(self) -> int:
        return min(int(self.a[2]), int(self.b[2]))

    @property
    def before(self) -> bool:
        """Whether the first access is ordered before the second."""
        return self._comparable and bool(
            self.second.clock[self.first.actor] >= self.first.clock[self.first.actor]
        )

    @property
    def ordered(self) -> bool:
        """Whether one is ordered before the other."""
        if not self._comparable:
            return False
        return self.before or bool(
            self.first.clock[self.second.actor] >= self.second.clock[self.second.actor]
        )

    @property
    def _comparable(self) -> bool:
        cohort, other = self.accesses[int(self.a[5])][0], self.accesses[int(self.b[5])][0]
        return cohort == other and bool(self.a[0] == self.b[0] or not self.in_step[cohort])

    @property
    def same_bytes(self) -> bool:
        """Whether two writes of different cores write the same."""
        data, other = self.first.data, self.second.data
        if data is None or other is None or self.a[0] == self.b[0]:
            return False
        return np.array_equal(
            _bytes_of(self.a, data, self.low, self.high), _bytes_of(self.b, other, self.low, self.high)
        )

    def conflict(self) -> ConflictFault:
        first, second = (
            access.deed.on(*(int(interval[i]) for i in (3, 0, 1, 2)))
            for access, interval in ((self.first, self.a), (self.second, self.b))
        )
        return _conflict("device memory", first, second, self.low, self.high)


def _found_anyway(pair: _Pair, writes: npt.NDArray[np.int64], last: int) -> bool:
    """Whether a read finds the bytes of a write that is not ordered with it, even if that comes later.

    That is so if all writes ordered before the read have put the same bytes there; or if there are none, and
    the bytes were there already before the write.
    """
    data = pair.first.data
    assert data is not None
    if pair.a[0] == pair.b[0]:
        return False
    there = np.zeros(pair.high - pair.low, np.bool_)
    wanted = _bytes_of(pair.a, data, pair.low, pair.high)
    for number in range(last, -1, -1):
        write = writes[number]
        low, high = max(int(write[1]), pair.low), min(int(write[2]), pair.high)
        if low >= high:
            continue
        earlier = _Pair(write, pair.b, pair.accesses, pair.in_step)
        held = earlier.first.data
        if not earlier.before or held is None:
            continue
        part = slice(low - pair.low, high - pair.low)
        if not np.array_equal(_bytes_of(write, held, low, high), wanted[part]):
            return False
        there[part] = True
    was = pair.first.before
    if was is None:
        return bool(there.all())
    return bool((there | (_bytes_of(pair.a, was, pair.low, pair.high) == wanted)).all())


def _bytes_of(
    interval: npt.NDArray[np.int64], data: npt.NDArray[np.uint8], low: int, high: int
) -> npt.NDArray[np.uint8]:
    start, row, position = (int(interval[i]) for i in (1, 3, 4))
    return data[row, position + low - start : position + high - start]
