"""Spans and traces (runtime spec 3.23), and where the number of devices comes from (3.20)."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spyrert import MicroDevice, Overlap, Progress, Runtime, RuntimeConfig, errors
from spyrert.profiling import CATEGORIES
from spyrert.runtime.devices import count_devices
from spyrert.spyrecode import SpyreCode

MakeAdd = Callable[..., SpyreCode]


def workload(rt: Runtime, code: SpyreCode) -> bytes:
    plan = rt.prepare_kernel(code)
    one = rt.to_device(np.ones((4, 70), np.float16))
    outs = [rt.empty((4, 70), "float16") for _ in range(3)]
    for number, out in enumerate(outs):
        rt.launch(plan, [one, one, out], bindings={"n": number}, stream=rt.Stream())
    rt.synchronize()
    return b"".join(rt.to_host(out).tobytes() for out in outs)


@pytest.mark.parametrize("overlap", list(Overlap), ids=lambda o: o.value)
def test_trace(make_add: MakeAdd, tmp_path: Path, overlap: Overlap) -> None:
    """runtime checklist R108: valid JSON, positive durations, times of the operations, no overlap on one stream."""
    config = RuntimeConfig(progress=Progress.MANUAL, overlap=overlap, host_ns=700)
    with Runtime(MicroDevice, config) as rt, rt.profile() as profile, rt.op_log() as log:
        workload(rt, make_add())
    document = json.loads(profile.write(tmp_path / "trace.json").read_text())
    complete = [e for e in document["traceEvents"] if e["ph"] == "X" and e["cat"] != "launch"]
    assert {e["cat"] for e in complete} <= set(CATEGORIES.values())
    times = {op.op_id: (op.start, op.end) for op in log}
    for event in complete:
        start, end = times[event["args"]["op_id"]]
        assert event["ts"] == start / 1000
        assert event["dur"] == max(1, end - start) / 1000 > 0
    tracks: dict[int, list[dict[str, Any]]] = {}
    for event in complete:
        tracks.setdefault(event["tid"], []).append(event)
    for track in tracks.values():
        assert all(a["args"]["kind"] for a in track)
        ordered = sorted(times[e["args"]["op_id"]] for e in track)
        assert all(first[1] <= second[0] for first, second in pairwise(ordered))
    flows = [e for e in document["traceEvents"] if e["ph"] in "sf"]
    assert sorted(e["id"] for e in flows) == [1, 1, 2, 2, 3, 3]
    assert profile.busy() == sum(op.end - op.start for op in log if op.kind == "Compute")


def test_profiling_changes_nothing(make_add: MakeAdd) -> None:
    """runtime checklist R109"""
    logs, memory = [], []
    for profiled in (False, True):
        with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt, rt.op_log() as log:
            if profiled:
                with rt.profile():
                    memory.append(workload(rt, make_add()))
            else:
                memory.append(workload(rt, make_add()))
            logs.append([(o.kind, o.name, o.op_id, o.start, o.end, o.bytes) for o in log])
    assert logs[0] == logs[1]
    assert memory[0] == memory[1]


def test_device_count() -> None:
    """runtime checklist R103"""
    assert count_devices(None, {}) == 1
    assert count_devices(None, {"AIU_WORLD_SIZE": "2"}) == 2
    assert count_devices(None, {"AIU_WORLD_SIZE": "2", "SPYRE_DEVICES": "0,1,1"}) == 2
    assert count_devices(None, {"AIU_WORLD_SIZE": "2", "SPYRE_DEVICES": "0, 7"}) == 1
    assert count_devices(3, {"AIU_WORLD_SIZE": "2"}) == 3
    for bad in (
        {"AIU_WORLD_SIZE": "0"},
        {"AIU_WORLD_SIZE": "x"},
        {"FLEX_DEVICE": "CPU"},
        {"SPYRE_DEVICES": "5"},
        {"SPYRE_DEVICES": "a"},
    ):
        with pytest.raises(errors.ConfigError):
            count_devices(None, bad)


def test_counters_in_a_trace(make_add: MakeAdd) -> None:
    """runtime checklist R108: busy engines never exceed what the device has, return to zero, and allocated bytes are
    those of the allocator at that time."""
    config = RuntimeConfig(progress=Progress.MANUAL, overlap=Overlap.THREE_STAGE, plan_replicas=2)
    with Runtime(MicroDevice, config) as rt:
        plan = rt.prepare_kernel(make_add())
        with rt.profile() as profile:
            tensors = [rt.to_device(np.ones((4, 70), np.float16)) for _ in range(3)]
            for n in range(4):
                rt.launch(plan, tensors, bindings={"n": n})
            rt.synchronize()
        events = [e for e in profile.trace()["traceEvents"] if e["ph"] == "C"]
        busy = [e for e in events if e["name"] == "busy engines"]
        assert all(0 <= value <= 1 for e in busy for value in e["args"].values())
        assert set(busy[-1]["args"].values()) == {0}
        assert any(sum(e["args"].values()) > 1 for e in busy)
        assert [e["ts"] for e in busy] == sorted(e["ts"] for e in busy)
        memory = [e["args"]["bytes"] for e in events if e["name"] == "allocated bytes"]
        assert memory[-1] == rt.memory_allocated()
        assert memory == sorted(memory)


def test_every_launch_has_a_flow(make_add: MakeAdd) -> None:
    """runtime checklist R108: an arrow from each launch to its first operation on the device, none is left open."""
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt:
        plan = rt.prepare_kernel(make_add())
        tensors = [rt.to_device(np.ones((4, 70), np.float16)) for _ in range(3)]
        with rt.profile() as profile:
            tickets = [rt.launch(plan, tensors, bindings={"n": n}) for n in range(5)]
            rt.synchronize()
        events = profile.trace()["traceEvents"]
        starts = {e["id"]: e for e in events if e["ph"] == "s"}
        ends = {e["id"]: e for e in events if e["ph"] == "f"}
        assert set(starts) == set(ends) == {ticket.launch_seq for ticket in tickets}
        for ticket in tickets:
            end = ends[ticket.launch_seq]
            assert starts[ticket.launch_seq]["ts"] <= end["ts"] == ticket.times[0] / 1000
            spans = [e for e in events if e["ph"] == "X" and e["tid"] == end["tid"] and e["ts"] == end["ts"]]
            assert spans, "a flow ends at the start of a span"
