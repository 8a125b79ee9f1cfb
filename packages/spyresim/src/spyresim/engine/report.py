"""What a run tells people: cycles, who was busy, bytes moved, the bandwidth bound."""

from __future__ import annotations

import json
from fractions import Fraction

import attrs

from spyresim.engine.values import TICKS_PER_CYCLE


@attrs.frozen
class UnitReport:
    """One unit of one core; times in cycles (rounded up).  `stall` is by reason."""

    unit: str
    kind: str
    core: int
    corelet: int
    busy: int
    stall: tuple[tuple[str, int], ...]


@attrs.frozen
class Report:
    """One run of a kernel.

    `cycles` from start to the end of the last program; `bytes_read` and `bytes_written` of device memory;
    `bound_cycles` is what the device-memory bandwidth alone would take (None: the description gives none).
    """

    kernel: str
    cycles: int
    programs: int
    units: tuple[UnitReport, ...]
    bytes_read: int
    bytes_written: int
    bound_cycles: int | None
    instructions: int

    @property
    def bytes_moved(self) -> int:
        """Bytes read from and written to device memory."""
        return self.bytes_read + self.bytes_written

    def to_json(self) -> str:
        """JSON with sorted keys."""
        return json.dumps(attrs.asdict(self), indent=2, sort_keys=True)


def cycles_of(ticks: int) -> int:
    """Ticks in whole cycles, rounded up."""
    return -(-ticks // TICKS_PER_CYCLE)


def bound(moved: int, bandwidth: Fraction | None) -> int | None:
    """Cycles that moving some bytes takes at least."""
    return None if bandwidth is None else -(-Fraction(moved) // bandwidth)
