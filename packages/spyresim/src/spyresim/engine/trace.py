"""What happened when: recorded by the engine, written by `spyresim.trace_file`, drawn by `spyresim.page`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from dfsched.image import Unit
from spyresim.engine.values import Ticks

__all__ = ["Access", "Event", "Flow", "Level", "Trace"]


@attrs.frozen(eq=False)
class Event:
    """Something that took time on several units at once: `start` and `end` in ticks, one a unit."""

    name: str
    track: str
    """``""`` for the unit itself, ``copies`` for its copy engine."""
    units: tuple[int, ...]
    start: Ticks
    end: Ticks
    bytes: int = 0


@attrs.frozen(eq=False)
class Flow:
    """An item that went through a FIFO: between which units, when it was sent and when it was received."""

    sources: tuple[int, ...]
    targets: tuple[int, ...]
    sent: Ticks
    received: Ticks


@attrs.frozen(eq=False)
class Level:
    """A change of the number of items in a FIFO: one more (+1) or one less (-1), in ticks for every core."""

    sources: tuple[int, ...]
    targets: tuple[int, ...]
    time: Ticks
    change: int


@attrs.frozen(eq=False)
class Access:
    """Bytes of a scratchpad that were read or written between two times, one row a core.

    `low` and `high` bound what was touched, in bytes; `high` is exclusive.
    """

    memory: str
    cores: npt.NDArray[np.int64]
    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    start: Ticks
    end: Ticks
    writing: bool


@attrs.define(eq=False)
class Trace:
    """Everything recorded, each list in the order in which it was simulated (not in order of time)."""

    events: list[Event] = attrs.Factory(list)
    flows: list[Flow] = attrs.Factory(list)
    levels: list[Level] = attrs.Factory(list)
    accesses: list[Access] = attrs.Factory(list)
    time_only: bool = False
    """Nothing was computed, so that there are no accesses."""

    def to_chrome(self, units: Sequence[Unit], clock_hz: int = 1_000_000_000) -> dict[str, Any]:
        """The trace file as a JSON object; `units` are what the events number."""
        from spyresim.trace_file import chrome_trace

        found: dict[str, Any] = json.loads(chrome_trace(self, units, clock_hz))
        return found

    def write(self, path: str | Path, units: Sequence[Unit], clock_hz: int = 1_000_000_000) -> None:
        """Write the trace file, as Perfetto loads it; at most about 20 MB."""
        from spyresim.trace_file import chrome_trace

        Path(path).write_text(chrome_trace(self, units, clock_hz), encoding="utf-8")
