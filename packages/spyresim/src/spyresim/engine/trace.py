"""What happened when, for people: Chrome trace-event JSON, as Perfetto loads it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import attrs

from dfsched.image import Unit
from spyresim.engine.values import TICKS_PER_CYCLE, Ticks


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


@attrs.define(eq=False)
class Trace:
    """Events in the order in which they were simulated."""

    events: list[Event] = attrs.Factory(list)

    def add(self, event: Event) -> None:
        self.events.append(event)

    def to_chrome(self, units: Sequence[Unit], clock_hz: int = 1_000_000_000) -> dict[str, Any]:
        """A JSON object of trace events: one process a core, one track a unit; times in microseconds."""
        scale = 1e6 / clock_hz / TICKS_PER_CYCLE
        tracks: dict[tuple[int, str], int] = {}
        out: list[dict[str, Any]] = []
        for event in self.events:
            for row, unit in enumerate(event.units):
                start, end = int(event.start[row]), int(event.end[row])
                if end <= start:
                    continue
                track = (unit, event.track)
                number = tracks.setdefault(track, unit * 2 + bool(event.track))
                slice_: dict[str, Any] = {
                    "name": event.name,
                    "ph": "X",
                    "pid": units[unit].core,
                    "tid": number,
                    "ts": round(start * scale, 6),
                    "dur": round((end - start) * scale, 6),
                    "args": {"cycles": round((end - start) / TICKS_PER_CYCLE, 3)},
                }
                if event.bytes:
                    slice_["args"]["bytes"] = event.bytes
                out.append(slice_)
        return {"traceEvents": [*_names(units, tracks), *out], "displayTimeUnit": "ns"}

    def write(self, path: str, units: Sequence[Unit], clock_hz: int = 1_000_000_000) -> None:
        """Write the JSON file."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.to_chrome(units, clock_hz), file, separators=(",", ":"))


def _names(units: Sequence[Unit], tracks: dict[tuple[int, str], int]) -> list[dict[str, Any]]:
    named: list[dict[str, Any]] = []
    for core in sorted({units[unit].core for unit, _ in tracks}):
        named.append(
            {"name": "process_name", "ph": "M", "pid": core, "tid": 0, "args": {"name": f"core {core}"}}
        )
    for (unit, track), number in sorted(tracks.items()):
        label = units[unit].name + (f" {track}" if track else "")
        named.append(
            {
                "name": "thread_name",
                "ph": "M",
                "pid": units[unit].core,
                "tid": number,
                "args": {"name": label},
            }
        )
    return named
