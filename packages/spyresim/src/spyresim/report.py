"""What a run reports besides its outputs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs

from spyresim.errors import UnsupportedError
from spyresim.meaning.formats import Array

if TYPE_CHECKING:
    from rich.table import Table

    from spyresim.cost import Cost
    from spyresim.sequential.work import Work

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
    """`level` is ``"ktir"``, ``"schedule"``, ``"dataflow"`` or ``"device"``.

    `cycles` are those of the timed engine at the levels of the device, and an estimate (`cost`, with the
    roofline) at level ktir, where `work` has the counters of every tile; None elsewhere.
    """

    level: str
    function: str
    tiles: int
    counters: Counters
    warnings: tuple[str, ...] = ()
    cycles: float | None = None
    details: Any = None
    work: Work | None = attrs.field(default=None, eq=False)
    cost: Cost | None = None

    @property
    def bottleneck(self) -> str | None:
        """What limits the kernel, by the estimate of level ktir: memory, compute, ring, or nothing."""
        return None if self.cost is None else str(self.cost.bottleneck)

    def table(self) -> Table:
        """What the kernel costs, for a terminal."""
        if self.cost is None:
            raise UnsupportedError(f"a table of costs at level {self.level}; level ktir has one")
        return self.cost.table()

    def to_json(self) -> dict[str, Any]:
        """A JSON object (without `details`); with ``cost`` and ``per_tile`` at level ktir."""
        document: dict[str, Any] = {
            "level": self.level,
            "function": self.function,
            "tiles": self.tiles,
            "cycles": self.cycles,
            "warnings": list(self.warnings),
            **self.counters.to_json(),
        }
        if self.cost is not None:
            document["cost"] = self.cost.to_json()
        if self.work is not None:
            document["per_tile"] = self.work.to_json()
        return document


@attrs.frozen(eq=False)
class Result:
    """Outputs by argument name (host arrays), and the report."""

    outputs: dict[str, Array]
    report: Report
