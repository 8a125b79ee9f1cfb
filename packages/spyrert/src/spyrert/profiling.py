"""Profiling: one span per operation in virtual time, exported as a Chrome trace (runtime spec 3.23).

Profiling changes neither results nor order nor placement; a span is a copy of numbers, it keeps no operation
alive.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from spyrert.execution import Operation, OpState

CATEGORIES: Final = {
    "Compute": "kernel",
    "H2D": "gpu_memcpy",
    "D2H": "gpu_memcpy",
    "D2D": "gpu_memcpy",
    "Memset": "gpu_memset",
    "HostCompute": "host_compute",
    "HostCallback": "host_callback",
}
"""Category of each kind of operation in the trace; events are not shown."""

HOST_TRACK: Final = 1_000_000
"""Thread id of the track that shows when launches were enqueued."""


@attrs.frozen
class Span:
    """One operation that ended. Times are nanoseconds of virtual time; ``bytes`` is what a transfer moved."""

    device: int
    op_id: int
    name: str
    kind: str
    stream: int
    engine: str
    state: str
    queued: int
    submitted: int
    start: int
    end: int
    bytes: int
    launch_seq: int | None
    tile: int | None
    tags: Mapping[str, object] = attrs.field(factory=dict)

    @classmethod
    def of(cls, operation: Operation, device: int) -> Span:
        return cls(
            device,
            operation.op_id,
            operation.name or operation.kind,
            operation.kind,
            operation.stream.id if operation.stream is not None else 0,
            "host" if operation.engine is None else operation.engine.value,
            operation.state.value,
            operation.queued,
            operation.submitted,
            operation.start,
            operation.end,
            operation.bytes,
            operation.launch_seq,
            operation.tile,
            dict(operation.tags),
        )


@attrs.frozen
class MemorySample:
    """Bytes allocated on a device from a virtual time (ns) on."""

    device: int
    time: int
    allocated_bytes: int


class Profile:
    """The spans of operations that ended while profiling was on, in order of their end, and a sample of
    allocated memory at each allocation and release."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.memory: list[MemorySample] = []

    def add(self, operation: Operation, device: int) -> None:
        if operation.state is not OpState.CANCELLED:
            self.spans.append(Span.of(operation, device))

    def trace(self) -> dict[str, Any]:
        """The document of a Chrome trace (Perfetto loads it): a process per device, a thread per stream, a
        track with the launches, each with a flow to its first operation on the device, and counters: busy
        engines, allocated bytes."""
        shown = [span for span in self.spans if span.kind in CATEGORIES]
        events: list[dict[str, Any]] = []
        for device in sorted({span.device for span in shown}):
            events.append(_meta("process_name", device, None, f"device {device}"))
            events.append(_meta("thread_name", device, HOST_TRACK, "launches"))
            streams = sorted({span.stream for span in shown if span.device == device})
            events += [_meta("thread_name", device, stream, f"stream {stream}") for stream in streams]
        events += [
            event for device in sorted({s.device for s in shown}) for event in _counters(shown, device)
        ]
        events += [_memory(sample) for sample in self.memory]
        first: set[tuple[int, int]] = set()
        for span in sorted(shown, key=lambda s: (s.device, s.start, s.op_id)):
            events.append(_complete(span))
            key = (span.device, span.launch_seq or 0)
            if span.launch_seq is not None and key not in first:
                first.add(key)
                events += _launch(span)
        return {"displayTimeUnit": "ns", "baseTimeNanoseconds": 0, "traceEvents": events}

    def write(self, path: str | Path) -> Path:
        """Write the trace as JSON."""
        path = Path(path)
        path.write_text(json.dumps(self.trace(), separators=(",", ":")) + "\n")
        return path

    def busy(self, kinds: Sequence[str] = ("Compute",)) -> int:
        """Nanoseconds of virtual time in which an operation of one of these kinds ran."""
        total, reached = 0, -1
        for span in sorted((s for s in self.spans if s.kind in kinds), key=lambda s: s.start):
            total += max(0, span.end - max(span.start, reached))
            reached = max(reached, span.end)
        return total


def _meta(name: str, device: int, thread: int | None, text: str) -> dict[str, Any]:
    event: dict[str, Any] = {"ph": "M", "name": name, "pid": device, "args": {"name": text}}
    return event if thread is None else event | {"tid": thread}


def _complete(span: Span) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": span.name,
        "cat": CATEGORIES[span.kind],
        "pid": span.device,
        "tid": span.stream,
        "ts": span.start / 1000,
        "dur": max(1, span.end - span.start) / 1000,
        "args": {
            "kind": span.kind,
            "engine": span.engine,
            "state": span.state,
            "op_id": span.op_id,
            "bytes": span.bytes,
            "launch_seq": span.launch_seq,
            "tile": span.tile,
            "queued_ns": span.queued,
            **span.tags,
        },
    }


def _counters(spans: Sequence[Span], device: int) -> list[dict[str, Any]]:
    """How many operations each engine works on, at each change."""
    changes: dict[int, dict[str, int]] = {}
    engines = sorted({span.engine for span in spans if span.device == device})
    for span in spans:
        if span.device == device and span.end > span.start:
            for time, step in ((span.start, 1), (span.end, -1)):
                at = changes.setdefault(time, {})
                at[span.engine] = at.get(span.engine, 0) + step
    busy = dict.fromkeys(engines, 0)
    events = []
    for time in sorted(changes):
        for engine, step in changes[time].items():
            busy[engine] += step
        events.append(
            {"ph": "C", "name": "busy engines", "pid": device, "ts": time / 1000, "args": dict(busy)}
        )
    return events


def _memory(sample: MemorySample) -> dict[str, Any]:
    return {
        "ph": "C",
        "name": "allocated bytes",
        "pid": sample.device,
        "ts": sample.time / 1000,
        "args": {"bytes": sample.allocated_bytes},
    }


def _launch(span: Span) -> list[dict[str, Any]]:
    """When the launch of a span was enqueued, and the arrow from there to the span."""
    here = {"pid": span.device, "cat": "launch", "id": span.launch_seq, "name": "launch"}
    return [
        {
            "ph": "X",
            "name": f"launch_kernel:{span.name}",
            "cat": "launch",
            "pid": span.device,
            "tid": HOST_TRACK,
            "ts": span.queued / 1000,
            "dur": 0.001,
            "args": {"launch_seq": span.launch_seq},
        },
        {"ph": "s", "tid": HOST_TRACK, "ts": span.queued / 1000, **here},
        {"ph": "f", "bp": "e", "tid": span.stream, "ts": span.start / 1000, **here},
    ]
