"""What a run tells people: cycles, who was busy, bytes moved, the bandwidth bound."""

from __future__ import annotations

import json
from fractions import Fraction

import attrs

from spyresim.engine.values import TICKS_PER_CYCLE


@attrs.frozen
class UnitReport:
    """One unit of one core: cycles in which it was busy, waited (by reason), and had nothing to do.

    They add up to the cycles of the run.  A unit that copies is busy while a copy moves; it waits for
    ``bandwidth`` while a copy has to share a port.
    """

    unit: str
    kind: str
    core: int
    corelet: int
    busy: int
    stall: tuple[tuple[str, int], ...]
    idle: int = 0


@attrs.frozen
class Work:
    """What units of one kind computed in one element type.

    `operations` on single lanes (a transcendental function counts as one); `per_cycle` is how many of them
    all units of this kind in the image do in a cycle at best.
    """

    unit: str
    element: str
    operations: int
    per_cycle: int


@attrs.frozen
class FastForward:
    """Time that was skipped because everything repeated: from one cycle to another, so many periods, and the
    cycles of one of them."""

    start: int
    end: int
    periods: int
    period: float


@attrs.frozen
class Report:
    """One run of a kernel.

    `cycles` from start to the end of the last program; `bytes_read` and `bytes_written` of device memory;
    `bound_cycles` is what the device-memory bandwidth alone would take (None: the description gives none);
    `bytes_per_cycle` is that bandwidth.  `link_bound_cycles` is what the links of the busiest unit take for
    what it moves, `scratchpad_bound_cycles` what the port of the busiest scratchpad does (None: no limit).
    `skipped` is what was not simulated but known (`FastForward`).
    """

    kernel: str
    cycles: int
    programs: int
    units: tuple[UnitReport, ...]
    bytes_read: int
    bytes_written: int
    bound_cycles: int | None
    instructions: int
    work: tuple[Work, ...] = ()
    bytes_per_cycle: float | None = None
    skipped: tuple[FastForward, ...] = ()
    link_bound_cycles: int = 0
    scratchpad_bound_cycles: int | None = None

    @property
    def bytes_moved(self) -> int:
        """Bytes read from and written to device memory."""
        return self.bytes_read + self.bytes_written

    @property
    def operations(self) -> int:
        """Operations on single lanes, of all units and element types."""
        return sum(work.operations for work in self.work)

    @property
    def compute_bound_cycles(self) -> int:
        """What the compute units would take at best: that of the busiest kind."""
        kinds = {work.unit for work in self.work}
        return max((sum(_least(w) for w in self.work if w.unit == kind) for kind in kinds), default=0)

    @property
    def ideal_cycles(self) -> int:
        """The lower bound: nothing is faster than its memories, their links, and its compute units."""
        memories = self.bound_cycles or 0, self.scratchpad_bound_cycles or 0
        return max(*memories, self.link_bound_cycles, self.compute_bound_cycles)

    def to_json(self) -> str:
        """JSON with sorted keys."""
        return json.dumps(attrs.asdict(self), indent=2, sort_keys=True)


def _least(work: Work) -> int:
    return -(-work.operations // max(1, work.per_cycle))


def cycles_of(ticks: int) -> int:
    """Ticks in whole cycles, rounded up."""
    return -(-ticks // TICKS_PER_CYCLE)


def bound(moved: int, bandwidth: Fraction | None) -> int | None:
    """Cycles that moving some bytes takes at least."""
    return None if bandwidth is None else -(-Fraction(moved) // bandwidth)
