"""The state of a running program: gangs, queues, signals, copies in flight.

A gang is one process of one unit program on several cores at once (one row a core); a cohort is a set of
cores whose processes all run in step.  When control flow differs between the cores of a cohort it is split:
`select` gives the state for some of its rows.
"""

from __future__ import annotations

from collections import deque

import attrs
import numpy as np
import numpy.typing as npt

from dfsched.image import Dma, Memory, UnitProgram, View
from spyresim.engine.activity import Activity
from spyresim.engine.memories import Registers
from spyresim.engine.races import Clock, Races
from spyresim.engine.values import Scalar, Ticks, Vector, take
from spyresim.errors import Site

Rows = npt.NDArray[np.intp]


class Diverged(Exception):
    """Control flow differs between the rows of a gang: `groups` are the sets of rows that agree."""

    def __init__(self, groups: list[npt.NDArray[np.intp]]) -> None:
        self.groups = groups
        super().__init__(f"{len(groups)} groups")


def uniform(value: Scalar) -> int:
    """The one value of all rows; `Diverged` if they differ."""
    if isinstance(value, int):
        return value
    raise Diverged([np.flatnonzero(value == known) for known in np.unique(value)])


@attrs.frozen(eq=False)
class Place:
    """The memory of a view: the first row's description and index, one number for the memories of its kind
    and corelet, and the core of every row (as a slice where they follow one another)."""

    memory: Memory
    index: int
    pad: int
    cores: npt.NDArray[np.int64]
    core_slice: slice | None


@attrs.define(eq=False)
class ViewValue:
    """A view register: memory (index into `Image.memories`, one a row), start in bytes, descriptor.

    `place` is looked up at the first access.
    """

    memory: Scalar
    start: Scalar
    view: View
    place: Place | None = None

    def select(self, rows: Rows) -> ViewValue:
        return ViewValue(take(self.memory, rows), take(self.start, rows), self.view)


@attrs.define(eq=False)
class Loop:
    """An open loop: index of its head, next and last value of the induction variable."""

    head: int
    value: int
    upper: int
    step: int


@attrs.define(eq=False)
class Item:
    """One vector in a queue, with the time from which the receiver sees it and the sender's clock."""

    value: Vector
    visible: Ticks
    clock: Clock

    def select(self, rows: Rows) -> Item:
        return Item(self.value.take(rows), self.visible[rows], self.clock)


@attrs.define(eq=False)
class Mark:
    """A point in time that others wait for, with the clock of who reached it (None: the beginning)."""

    time: Ticks
    clock: Clock | None = None

    def select(self, rows: Rows) -> Mark:
        return Mark(self.time[rows], self.clock)


@attrs.define(eq=False)
class Queue:
    """The FIFO between two gangs.

    `unused` slots were never taken; `room` tells when the others that are free became so.  Of a queue whose
    bytes are limited, `freed` tells when how many bytes had been received in all.
    """

    name: str
    depth: int
    size_bytes: int
    items: deque[Item] = attrs.Factory(deque)
    room: deque[Mark] = attrs.Factory(deque)
    held_bytes: int = 0
    high_water: int = 0
    unused: int = 0
    sent_bytes: int = 0
    freed: deque[tuple[int, Mark]] = attrs.Factory(deque)

    def has_room(self, size: int) -> bool:
        """Whether one more item of `size` bytes may be sent."""
        slots = self.unused + len(self.room)
        return slots > 0 and (self.size_bytes == 0 or self.held_bytes + size <= self.size_bytes)

    def put(self, size: int) -> list[Mark]:
        """Take a slot and bytes; what had to happen before they were free."""
        waited: list[Mark] = []
        if self.unused:
            self.unused -= 1
        else:
            waited.append(self.room.popleft())
        self.held_bytes += size
        self.sent_bytes += size
        if self.size_bytes:
            needed = self.sent_bytes - self.size_bytes
            while self.freed and self.freed[0][0] < needed:
                self.freed.popleft()
            if needed > 0:
                waited.append(self.freed[0][1])
        return waited

    def take(self, size: int, mark: Mark) -> None:
        """Give a slot and bytes back."""
        self.held_bytes -= size
        self.room.append(mark)
        if self.size_bytes:
            self.freed.append((self.sent_bytes - self.held_bytes, mark))

    def select(self, rows: Rows) -> Queue:
        return Queue(
            self.name,
            self.depth,
            self.size_bytes,
            deque(item.select(rows) for item in self.items),
            deque(mark.select(rows) for mark in self.room),
            self.held_bytes,
            self.high_water,
            self.unused,
            self.sent_bytes,
            deque((received, mark.select(rows)) for received, mark in self.freed),
        )


@attrs.define(eq=False)
class Signals:
    """Signals sent from one gang to another and not yet consumed: when they are seen."""

    name: str
    pending: deque[Mark] = attrs.Factory(deque)

    def select(self, rows: Rows) -> Signals:
        return Signals(self.name, deque(mark.select(rows) for mark in self.pending))


@attrs.define(eq=False)
class Copy:
    """A copy that was issued: its operands as they were then."""

    instruction: Dma
    source: ViewValue
    target: ViewValue
    bases: tuple[tuple[Scalar, ...], tuple[Scalar, ...]]
    issued: Ticks
    index: int
    clock: Clock
    iteration: tuple[int, ...] = ()
    start: int | None = None
    """`Gang.next_copy_start`, once it was asked."""

    def select(self, rows: Rows) -> Copy:
        a, b = self.bases
        return Copy(
            self.instruction,
            self.source.select(rows),
            self.target.select(rows),
            (tuple(take(v, rows) for v in a), tuple(take(v, rows) for v in b)),
            self.issued[rows],
            self.index,
            self.clock,
            self.iteration,
        )


@attrs.define(eq=False)
class Ports:
    """Ports of memories by kind and corelet: from which tick each is free, and how many ticks it was taken.

    That of device memory is one (an array of one entry), a scratchpad has one a core.
    """

    free: dict[tuple[str, int], Ticks] = attrs.Factory(dict)
    busy: dict[tuple[str, int], Ticks] = attrs.Factory(dict)


@attrs.define(eq=False)
class Blocked:
    """Why a gang cannot go on."""

    reason: str
    """``queue empty``, ``queue full``, ``signal``, ``copies``, ``copy queue full`` or ``port``."""
    on: str
    other: int | None = None
    """The gang that could help, if there is one."""


@attrs.define(eq=False)
class Gang:
    """One process on several cores.  `units` are the unit ids, `rows` the rows of the unit program's table,
    `cores` the cores; all of the same length."""

    index: int
    program: UnitProgram
    units: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    cores: npt.NDArray[np.int64]
    kind: str
    corelet: int
    scalars: list[Scalar | None]
    vectors: list[Vector | None]
    views: list[ViewValue | None]
    registers: dict[int, Registers]
    time: Ticks
    clock: Clock
    copy_clock: Clock
    copies: deque[Copy] = attrs.Factory(deque)
    copy_room: deque[Mark] = attrs.Factory(deque)
    copy_end: Ticks = attrs.field(factory=lambda: np.zeros(0, np.int64))
    busy: int = 0
    """Ticks of executing instructions, the same for all rows."""
    stall: dict[str, Ticks] = attrs.Factory(dict)
    """Ticks of waiting, by reason."""
    moving: Ticks = attrs.field(factory=lambda: np.zeros(0, np.int64))
    """Ticks in which copies moved."""
    activity: Activity | None = None
    """What overlaps, if the unit copies."""
    link: int = 0
    """Ticks that its links were taken, the same for all rows."""
    turn: bool = False
    """Whether it is the first to come to a port."""
    copies_issued: int = 0
    copies_done: int = 0
    executed: int = 0
    """Instructions."""
    loops: list[Loop] = attrs.Factory(list)
    pc: int = 0
    halted: bool = False
    blocked: Blocked | None = None
    cells: dict[int, Scalar] = attrs.Factory(dict)
    """Columns of the table that were read: they do not change while a program runs."""
    targets: dict[int, int] = attrs.Factory(dict)
    """Columns of units that were read, as indices of gangs."""
    sites: dict[int, Site] = attrs.Factory(dict)
    """Places that were named already, by code position."""
    names: tuple[str, ...] = ()
    """The units of all rows with the label of their program, once they were asked for."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def iteration(self) -> tuple[int, ...]:
        """The values of the open loops, outermost first."""
        return tuple(loop.value for loop in self.loops)

    def next_copy_start(self) -> int:
        """The first tick at which the oldest outstanding copy can start on some row."""
        copy = self.copies[0]
        if copy.start is None:
            copy.start = int(np.minimum.reduce(np.maximum(copy.issued, self.copy_end)))
        return copy.start

    def select(self, rows: Rows) -> Gang:
        """This gang on some of its cores."""
        return Gang(
            self.index,
            self.program,
            self.units[rows],
            self.rows[rows],
            self.cores[rows],
            self.kind,
            self.corelet,
            [None if s is None else take(s, rows) for s in self.scalars],
            [None if v is None else v.take(rows) for v in self.vectors],
            [None if w is None else w.select(rows) for w in self.views],
            {memory: registers.take(rows) for memory, registers in self.registers.items()},
            self.time[rows],
            self.clock.copy(),
            self.copy_clock.copy(),
            deque(copy.select(rows) for copy in self.copies),
            deque(mark.select(rows) for mark in self.copy_room),
            self.copy_end[rows],
            self.busy,
            {reason: time[rows] for reason, time in self.stall.items()},
            self.moving[rows],
            None if self.activity is None else self.activity.select(rows),
            self.link,
            self.turn,
            self.copies_issued,
            self.copies_done,
            self.executed,
            [attrs.evolve(loop) for loop in self.loops],
            self.pc,
            self.halted,
            self.blocked,
        )


@attrs.define(eq=False)
class Cohort:
    """A set of cores that run in step: the gangs and what is between them (keys are gang indices)."""

    gangs: list[Gang]
    races: Races | None
    queues: dict[tuple[int, int], Queue] = attrs.Factory(dict)
    signals: dict[tuple[int, int], Signals] = attrs.Factory(dict)

    def select(self, rows: Rows) -> Cohort:
        """The state of some cores."""
        return Cohort(
            [gang.select(rows) for gang in self.gangs],
            None if self.races is None else self.races.select(rows),
            {key: queue.select(rows) for key, queue in self.queues.items()},
            {key: signals.select(rows) for key, signals in self.signals.items()},
        )
