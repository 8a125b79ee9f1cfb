"""A recorded run as Chrome trace-event JSON, as Perfetto loads it.

One process a core with one track a unit (and one for its copy engine), levels of FIFOs and the occupancy of
scratchpads as counters, an arrow from each item's sender to its receiver. Times are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dfsched.image import Unit
from spyresim.engine.memories import STICK_BYTES
from spyresim.engine.trace import Access, Trace
from spyresim.engine.values import TICKS_PER_CYCLE

__all__ = ["MAX_BYTES", "chrome_trace", "occupancy"]

MAX_BYTES = 20_000_000
"""The size of a file that is still pleasant to load; whole cores are left out beyond it, or late events."""

SEPARATOR = ",\n"

JsonObject = dict[str, Any]


def chrome_trace(
    trace: Trace, units: Sequence[Unit], clock_hz: int = 1_000_000_000, max_bytes: int = MAX_BYTES
) -> str:
    """The text of a trace file of at most about `max_bytes` bytes.

    Cores are written in order until the next would not fit; of the first one, if need be, what happens first.
    A metadata event says what was left out.
    """
    writer = _Writer(trace, units, 1e6 / clock_hz / TICKS_PER_CYCLE)
    parts: list[str] = []
    size, left_out = 0, []
    for core in writer.cores:
        texts = [_text(event) for event in writer.events_of(core)]
        length = sum(len(text) + len(SEPARATOR) for text in texts)
        if size + length <= max_bytes:
            parts += texts
            size += length
        elif not parts:
            ends = np.cumsum([len(text) + len(SEPARATOR) for text in texts])
            kept = int(np.searchsorted(ends, max_bytes))
            parts += texts[:kept]
            size += int(ends[kept - 1]) if kept else 0
            left_out.append(f"core {core} after its first {kept} of {len(texts)} events")
        else:
            left_out.append(f"core {core}")
    note = {"left out, for the size of the file": ", ".join(left_out)} if left_out else {}
    head = json.dumps({"displayTimeUnit": "ns", "otherData": note}, separators=(",", ":"))
    return head[:-1] + ',"traceEvents":[' + SEPARATOR.join(parts) + "]}\n"


def _text(event: JsonObject) -> str:
    return json.dumps(event, separators=(",", ":"))


class _Writer:
    """The events of each core, ordered by time."""

    def __init__(self, trace: Trace, units: Sequence[Unit], scale: float) -> None:
        self._trace = trace
        self._units = units
        self._scale = scale
        used = {unit for event in trace.events for unit in event.units}
        self.cores = sorted({units[unit].core for unit in used})

    def _time(self, ticks: int) -> float:
        return round(int(ticks) * self._scale, 6)

    def events_of(self, core: int) -> Iterator[JsonObject]:
        """Names first, then everything in order of time."""
        slices = list(self._slices(core))
        tracks = {event["tid"]: event.pop("track") for event in slices}
        yield self._name("process_name", core, 0, f"core {core}" if core >= 0 else "device")
        for number, label in sorted(tracks.items()):
            yield self._name("thread_name", core, number, label)
            yield {**self._name("thread_sort_index", core, number, ""), "args": {"sort_index": number}}
        timed = [*slices, *self._flows(core), *self._levels(core), *self._occupancy(core)]
        yield from sorted(timed, key=lambda event: event["ts"])

    @staticmethod
    def _name(what: str, core: int, track: int, name: str) -> JsonObject:
        return {"name": what, "ph": "M", "pid": core, "tid": track, "args": {"name": name}}

    def _slices(self, core: int) -> Iterator[JsonObject]:
        for event in self._trace.events:
            for row, unit in enumerate(event.units):
                start, end = int(event.start[row]), int(event.end[row])
                if self._units[unit].core != core or end <= start:
                    continue
                label = self._units[unit].name + (f" {event.track}" if event.track else "")
                details: JsonObject = {"cycles": round((end - start) / TICKS_PER_CYCLE, 3)}
                if event.bytes:
                    details["bytes"] = event.bytes
                yield {
                    "name": event.name,
                    "ph": "X",
                    "pid": core,
                    "tid": _track(unit, event.track),
                    "ts": self._time(start),
                    "dur": self._time(end - start),
                    "args": details,
                    "track": label,
                }

    def _flows(self, core: int) -> Iterator[JsonObject]:
        """Arrows start and end inside the slices: half a cycle before their ends."""
        half = TICKS_PER_CYCLE // 2
        for number, flow in enumerate(self._trace.flows):
            for row, (source, target) in enumerate(zip(flow.sources, flow.targets, strict=True)):
                if self._units[source].core != core:
                    continue
                base = {"name": "item", "cat": "fifo", "id": f"{core}.{number}.{row}", "pid": core}
                sent, received = int(flow.sent[row]) - half, int(flow.received[row]) - half
                yield {**base, "ph": "s", "tid": _track(source, ""), "ts": self._time(sent)}
                end = {"ph": "f", "bp": "e", "tid": _track(target, ""), "ts": self._time(received)}
                yield {**base, **end}

    def _levels(self, core: int) -> Iterator[JsonObject]:
        changes: dict[str, list[tuple[int, int]]] = {}
        for level in self._trace.levels:
            for row, (source, target) in enumerate(zip(level.sources, level.targets, strict=True)):
                if self._units[source].core == core:
                    name = f"FIFO {self._units[source].name} to {self._units[target].name}"
                    changes.setdefault(name, []).append((int(level.time[row]), level.change))
        for name, steps in sorted(changes.items()):
            for time, value in _running(steps):
                yield self._counter(core, name, time, "items", value)

    def _occupancy(self, core: int) -> Iterator[JsonObject]:
        for name in sorted({access.memory for access in self._trace.accesses}):
            for time, value in occupancy(self._trace.accesses, name, core):
                yield self._counter(core, f"{name} in use", time, "bytes", value)

    def _counter(self, core: int, name: str, time: int, what: str, value: int) -> JsonObject:
        return {"name": name, "ph": "C", "pid": core, "ts": self._time(time), "args": {what: value}}


def _track(unit: int, track: str) -> int:
    return 2 * unit + 1 + bool(track)


def _running(steps: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The running sum of changes in order of time; one value a time."""
    total = 0
    ordered = sorted(steps)
    for position, (time, change) in enumerate(ordered):
        total += change
        if position + 1 == len(ordered) or ordered[position + 1][0] != time:
            yield time, total


def occupancy(accesses: Sequence[Access], memory: str, core: int) -> Iterator[tuple[int, int]]:
    """How many bytes of a core's scratchpad hold something that is still needed, as (tick, bytes) steps.

    A stick is in use from a write to the last read before it is written again; what nobody reads counts only
    while it is written.
    """
    spans: dict[int, list[tuple[int, int]]] = {}
    rows = [
        (int(a.start[row]), int(a.end[row]), a.writing, int(a.low[row]), int(a.high[row]))
        for a in accesses
        if a.memory == memory
        for row in np.flatnonzero(a.cores == core).tolist()
    ]
    for start, end, writing, low, high in sorted(rows):
        for stick in range(low // STICK_BYTES, -(-high // STICK_BYTES)):
            if writing:
                spans.setdefault(stick, []).append((start, end))
            elif held := spans.get(stick):
                held[-1] = (held[-1][0], max(held[-1][1], end))
    steps: list[tuple[int, int]] = []
    for held in spans.values():
        for (start, end), following in zip(held, [*held[1:], None], strict=True):
            last = end if following is None else min(end, following[0])
            if last > start:
                steps += [(start, STICK_BYTES), (last, -STICK_BYTES)]
    return _running(steps)
