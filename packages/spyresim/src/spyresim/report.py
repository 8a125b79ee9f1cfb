"""What a run reports besides its outputs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import attrs

from spyresim.meaning.formats import Array

__all__ = ["Counters", "Report", "Result"]


@attrs.define
class Counters:
    """Totals over all compute tiles.

    `operations` counts by operation name; `bytes_read` and `bytes_written` by memory.
    """

    operations: Counter[str] = attrs.field(factory=Counter)
    bytes_read: Counter[str] = attrs.field(factory=Counter)
    bytes_written: Counter[str] = attrs.field(factory=Counter)

    def count(self, operation: str, times: int = 1) -> None:
        """Note that an operation was executed by `times` tiles."""
        self.operations[operation] += times

    def to_json(self) -> dict[str, dict[str, int]]:
        return {name: dict(sorted(values.items())) for name, values in attrs.asdict(self).items()}


@attrs.frozen
class Report:
    """`level` is ``"ktir"``, ``"schedule"``, ``"dataflow"`` or ``"device"``; no timing: `cycles` is None."""

    level: str
    function: str
    tiles: int
    counters: Counters
    warnings: tuple[str, ...] = ()
    cycles: float | None = None
    details: Any = None

    def to_json(self) -> dict[str, Any]:
        """A JSON object (without `details`)."""
        return {
            "level": self.level,
            "function": self.function,
            "tiles": self.tiles,
            "cycles": self.cycles,
            "warnings": list(self.warnings),
            **self.counters.to_json(),
        }


@attrs.frozen(eq=False)
class Result:
    """Outputs by argument name (host arrays), and the report."""

    outputs: dict[str, Array]
    report: Report
