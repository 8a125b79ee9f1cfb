"""Public functions that are given wrong Python types, or objects of another runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spyrert import Launch, MicroDevice, Progress, Runtime, RuntimeConfig, SymbolicArg, SymbolicKind, errors
from spyrert.spyrecode import SpyreCode

MakeAdd = Callable[..., SpyreCode]
CALLS: dict[str, Callable[[Runtime, Any, Any], Any]] = {
    "empty-shape": lambda rt, plan, t: rt.empty(3, "float16"),  # type: ignore[arg-type]
    "empty-text": lambda rt, plan, t: rt.empty("34", "float16"),  # type: ignore[arg-type]
    "empty-float": lambda rt, plan, t: rt.empty((3, 2.5), "float16"),  # type: ignore[arg-type]
    "empty-bool": lambda rt, plan, t: rt.empty((3, True), "float16"),
    "empty-negative": lambda rt, plan, t: rt.empty((3, -1), "float16"),
    "empty-dtype": lambda rt, plan, t: rt.empty((3,), object()),
    "empty-dtype-name": lambda rt, plan, t: rt.empty((3,), "float17"),
    "empty-layout": lambda rt, plan, t: rt.empty((3,), "float16", "linear"),  # type: ignore[arg-type]
    "empty-device": lambda rt, plan, t: rt.empty((3,), "float16", device="spyre:0"),  # type: ignore[arg-type]
    "empty-directive": lambda rt, plan, t: rt.empty((3,), "float16", directive="bind"),  # type: ignore[arg-type]
    "empty-max-shape": lambda rt, plan, t: rt.empty((3,), "float16", max_shape=4),  # type: ignore[arg-type]
    "tensor-at": lambda rt, plan, t: rt.tensor_at("0x100", (3,), "float16"),  # type: ignore[arg-type]
    "to-device-objects": lambda rt, plan, t: rt.to_device([object()]),
    "to-device-ragged": lambda rt, plan, t: rt.to_device([[1, 2], [3]]),
    "to-device-stream": lambda rt, plan, t: rt.to_device(np.ones(3), stream=0),  # type: ignore[arg-type]
    "to-device-layout": lambda rt, plan, t: rt.to_device(np.ones(3), layout=7),  # type: ignore[arg-type]
    "to-host": lambda rt, plan, t: rt.to_host(np.ones(3)),  # type: ignore[arg-type]
    "to-host-stream": lambda rt, plan, t: rt.to_host(t, stream="default"),  # type: ignore[arg-type]
    "to-host-async": lambda rt, plan, t: rt.to_host_async(None),  # type: ignore[arg-type]
    "copy-target": lambda rt, plan, t: rt.copy(t, np.ones((4, 70), np.float16)),  # type: ignore[arg-type]
    "copy-source": lambda rt, plan, t: rt.copy({"a": 1}, t),
    "copy-text": lambda rt, plan, t: rt.copy("abc", t),
    "copy-stream": lambda rt, plan, t: rt.copy(t, t, stream=1),  # type: ignore[arg-type]
    "record-stream": lambda rt, plan, t: rt.record_stream(t, None),  # type: ignore[arg-type]
    "set-device": lambda rt, plan, t: rt.set_device("0"),  # type: ignore[arg-type]
    "synchronize": lambda rt, plan, t: rt.synchronize("0"),  # type: ignore[arg-type]
    "device-state": lambda rt, plan, t: rt.device_state(1.0),  # type: ignore[arg-type]
    "stream-priority": lambda rt, plan, t: rt.Stream(priority="high"),  # type: ignore[arg-type]
    "set-stream": lambda rt, plan, t: rt.set_current_stream(3),  # type: ignore[arg-type]
    "wait-event": lambda rt, plan, t: rt.Stream().wait_event(None),  # type: ignore[arg-type]
    "wait-stream": lambda rt, plan, t: rt.Stream().wait_stream(rt),  # type: ignore[arg-type]
    "record-event": lambda rt, plan, t: rt.Stream().record_event(0),  # type: ignore[arg-type]
    "event-record": lambda rt, plan, t: rt.Event().record(7),  # type: ignore[arg-type]
    "elapsed": lambda rt, plan, t: rt.Event(True).elapsed_time(7),  # type: ignore[arg-type]
    "prepare": lambda rt, plan, t: rt.prepare_kernel(5),  # type: ignore[arg-type]
    "prepare-replicas": lambda rt, plan, t: rt.prepare_kernel(Path("x"), replicas="two"),  # type: ignore[arg-type]
    "prepare-none": lambda rt, plan, t: rt.prepare_kernel(Path("x"), replicas=0),
    "prepare-stream": lambda rt, plan, t: rt.prepare_kernel(Path("x"), stream=0),  # type: ignore[arg-type]
    "host-function": lambda rt, plan, t: rt.register_host_function("f", 3),  # type: ignore[arg-type]
    "launch-plan": lambda rt, plan, t: rt.launch("add", [t, t, t]),  # type: ignore[arg-type]
    "launch-tensors": lambda rt, plan, t: rt.launch(plan, t, bindings={"n": 1}),
    "launch-none": lambda rt, plan, t: rt.launch(plan, None, bindings={"n": 1}),  # type: ignore[arg-type]
    "launch-bindings": lambda rt, plan, t: rt.launch(plan, [t] * 3, bindings=[("n", 1)]),  # type: ignore[arg-type]
    "launch-names": lambda rt, plan, t: rt.launch(plan, [t] * 3, bindings={0: 1}),  # type: ignore[dict-item]
    "launch-value": lambda rt, plan, t: rt.launch(plan, [t] * 3, bindings={"n": "1"}),
    "launch-stream": lambda rt, plan, t: rt.launch(plan, [t] * 3, bindings={"n": 1}, stream=0),  # type: ignore[arg-type]
    "launch-symbolic": lambda rt, plan, t: rt.launch(
        plan,
        [t, t, rt.empty((4, 70), "float16")],
        bindings={"n": 1},
        symbolic_args=[(0, 1)],  # type: ignore[list-item]
    ),
    "launch-group": lambda rt, plan, t: rt.launch_group([plan]),  # type: ignore[list-item]
    "launch-group-one": lambda rt, plan, t: rt.launch_group(Launch(plan, [t] * 3)),  # type: ignore[arg-type]
    "index-float": lambda rt, plan, t: t[1.0],
    "index-list": lambda rt, plan, t: t[[0, 1]],
    "transpose": lambda rt, plan, t: t.transpose("a", "b"),
    "transpose-axes": lambda rt, plan, t: t.transpose(0, 0),
    "expand": lambda rt, plan, t: t.expand(3),
    "expand-size": lambda rt, plan, t: t.expand((5, 70)),
    "pump": lambda rt, plan, t: rt.pump(device=9),
}


@pytest.mark.parametrize("call", list(CALLS.values()), ids=list(CALLS))
def test_wrong_types_are_typed_errors(make_add: MakeAdd, call: Callable[..., Any]) -> None:
    """Whatever a public function is given, its error is one of the package, and nothing has changed."""
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt:
        plan = rt.prepare_kernel(make_add())
        tensor = rt.to_device(np.ones((4, 70), np.float16))
        before = rt.memory_stats()["allocated_bytes.all.current"], rt.device().counters()
        with pytest.raises(errors.SpyreError):
            call(rt, plan, tensor)
        assert (rt.memory_allocated(), rt.device().counters()) == before
        assert (rt.to_host(tensor) == 1).all()


def test_messages_name_the_argument(rt: Runtime) -> None:
    with pytest.raises(TypeError, match=r"shape must be a sequence of integers, not 3"):
        rt.empty(3, "float16")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"shape \(2, -1\) has a negative size"):
        rt.empty((2, -1), "float16")
    with pytest.raises(errors.ArgumentTypeError, match="stream must be a Stream, not 7"):
        rt.to_host(rt.to_device(np.ones(3)), stream=7)  # type: ignore[arg-type]


def test_objects_of_another_runtime(make_add: MakeAdd) -> None:
    """Tensors, plans and streams of another runtime are refused by a message that says so, also if both are of
    device 0."""
    config = RuntimeConfig(progress=Progress.MANUAL)
    with Runtime(MicroDevice, config) as rt, Runtime(MicroDevice, config) as other:
        plan = rt.prepare_kernel(make_add())
        ours, theirs = (r.to_device(np.ones((4, 70), np.float16)) for r in (rt, other))
        out = rt.empty((4, 70), "float16")
        with pytest.raises(errors.DeviceMismatch, match=r"argument 1 \('b'\) belongs to another runtime"):
            rt.launch(plan, [ours, theirs, out], bindings={"n": 1})
        with pytest.raises(errors.DeviceMismatch, match="plan 'add' belongs to another runtime"):
            other.launch(plan, [ours, ours, out], bindings={"n": 1})
        with pytest.raises(errors.DeviceMismatch, match="belongs to another runtime"):
            rt.launch(plan, [ours, ours, out], bindings={"n": 1}, stream=other.Stream())
        with pytest.raises(errors.DeviceMismatch, match="belongs to another runtime"):
            rt.to_host(theirs)


def test_events_use_the_current_stream(rt: Runtime) -> None:
    """``record()`` and ``wait()`` without a stream."""
    event = rt.Event()
    with rt.Stream() as stream:
        rt.to_device(np.ones(3), non_blocking=True)
        event.record()
    event.wait()
    rt.to_device(np.ones(3))
    stream.synchronize()
    assert event.query()


def test_symbolic_arguments_are_checked(rt: Runtime, make_add: MakeAdd) -> None:
    """fault L13: the tensor that an explicit symbol names must be passed."""
    plan = rt.prepare_kernel(make_add())
    tensors = [rt.to_device(np.ones((4, 70), np.float16)) for _ in range(2)] + [rt.empty((4, 70), "float16")]
    for bad in (SymbolicArg(SymbolicKind.ADDRESS, 3), SymbolicArg(SymbolicKind.DIMENSION, 0, 2)):
        with pytest.raises(errors.SymbolBindingError):
            rt.launch(plan, tensors, bindings={"n": 1}, symbolic_args=[bad] * 4)


def test_memory_summary(rt: Runtime) -> None:
    """Totals, regions, and the largest tensors with what padding costs them."""
    tensors = [rt.to_device(np.ones((64, 1), np.float16))]
    tensors += [rt.to_device(np.ones((2, k + 1))) for k in range(9)]
    text = rt.memory_summary()
    lines = text.splitlines()
    assert lines[0].startswith("device 0: 10.2 KiB in 10 allocations (peak 10.2 KiB) of 5.5 MiB"), text
    assert ["float16[64,", "1]", "128", "B", "8.0", "KiB", "64.0"] in [line.split() for line in lines]
    assert lines[-1] == "... and 2 smaller tensors"
    assert sum("program_static" in line for line in lines) == 1
    assert len(tensors) == 10
