"""Streams, events, order, errors, virtual time (runtime spec 3.6-3.10, 3.16, 6.3)."""

from __future__ import annotations

import gc
import itertools
import json
import random
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from spyrert import MicroDevice, Overlap, Progress, Runtime, RuntimeConfig, Stream, errors
from spyrert.device import (
    DeviceProperties,
    ExecResult,
    FaultKind,
    FaultSpec,
    Match,
    Program,
    SegmentMemory,
)
from spyrert.execution import EventGeneration, HostCall, Operation, OpState, Signal, Wait
from spyrert.spyrecode import (
    Addr,
    ArgSpec,
    HcmSymbol,
    LaunchSpec,
    LinearLayout,
    PayloadKind,
    Role,
    SpyreCode,
    assemble,
)

MakeAdd = Callable[..., SpyreCode]


@pytest.fixture
def manual() -> Any:
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as runtime:
        yield runtime


def call(
    rt: Runtime, stream: Stream, function: Callable[[], Any], name: str = "call", ns: int = 0
) -> Operation:
    """Enqueue a host function."""
    operation = HostCall(name, function=function, duration_ns=ns)
    stream.scheduler.submit([(stream.state, operation)])
    return operation


def test_identity_and_pools(manual: Runtime) -> None:
    """runtime checklist R51: ids 1..32 round robin, then 1 again; high streams 33..64."""
    normal = [manual.Stream() for _ in range(33)]
    assert [s.id for s in normal] == [*range(1, 33), 1]
    assert normal[0] == normal[32]
    assert hash(normal[0]) == hash(normal[32])
    assert {s.priority for s in normal} == {0}
    high = [manual.Stream(priority=-1) for _ in range(33)]
    assert [s.id for s in high] == [*range(33, 65), 33]
    assert {s.priority for s in high} == {-1}
    assert manual.Stream(priority=1).id == 2
    assert manual.default_stream().id == 0
    assert repr(manual.default_stream()) == "<spyrert.Stream device=0 id=0>"


def test_current_stream(manual: Runtime) -> None:
    """runtime checklist R52: per thread, nested, restored."""
    first, second = manual.Stream(), manual.Stream()
    with first:
        assert manual.current_stream() == first
        with second, first:
            assert manual.current_stream() == first
        assert manual.current_stream() == first
        seen: list[int] = []
        thread = threading.Thread(target=lambda: seen.append(manual.current_stream().id))
        thread.start()
        thread.join()
        assert seen == [0]
    assert manual.current_stream() == manual.default_stream()
    assert manual.set_current_stream(second) == manual.default_stream()
    assert manual.set_current_stream(manual.default_stream()) == second


def test_configuration() -> None:
    """runtime checklist R53, R113; fault M11"""
    assert RuntimeConfig.from_environment({}).host_compute_streams == 4
    read = RuntimeConfig.from_environment
    assert read({"TORCH_SPYRE_NUM_HOST_COMPUTE_STREAMS": "9"}).host_compute_streams == 8
    assert not read({"SPYRE_ALLOW_TILED_LAUNCH": "off"}).allow_tiled_launch
    assert read({"SPYRE_ALLOW_TILED_LAUNCH": "off"}, allow_tiled_launch=True).allow_tiled_launch
    for bad in ("0", "x", "-1", ""):
        with pytest.raises(errors.ConfigError):
            read({"TORCH_SPYRE_NUM_HOST_COMPUTE_STREAMS": bad})
    with pytest.raises(errors.ConfigError):
        read({"SPYRE_HAZARD_TRACKER": "perhaps"})
    with pytest.raises(errors.ConfigError):
        RuntimeConfig(plan_replicas=0)


def test_fifo_and_independence(rt: Runtime) -> None:
    """runtime checklist R50, R54: order inside of a stream; a blocked stream delays nobody."""
    first, second = rt.Stream(), rt.Stream()
    gate = EventGeneration(first.scheduler)
    seen: list[str] = []
    first.scheduler.submit([(first.state, Wait("gate", event=gate))])
    call(rt, first, lambda: seen.append("blocked"))
    for number in range(5):
        call(rt, second, lambda number=number: seen.append(f"free {number}"))  # type: ignore[misc]
    second.synchronize()
    assert seen == [f"free {n}" for n in range(5)]
    second.scheduler.submit([(second.state, Signal("gate", event=gate))])
    first.synchronize()
    assert seen[-1] == "blocked"


def test_priorities(manual: Runtime) -> None:
    """runtime checklist R55: high first, but a normal stream at least once per nine picks."""
    normal, high = manual.Stream(), manual.Stream(priority=-1)
    seen: list[str] = []
    for _ in range(12):
        call(manual, normal, lambda: seen.append("n"))
    for _ in range(30):
        call(manual, high, lambda: seen.append("h"))
    manual.synchronize()
    text = "".join(seen)
    assert text.startswith("hhhhhhhhnhhhhhhhhn")
    assert "h" * 9 not in text[: text.rindex("h")].replace("n", "|") or "h" * 9 not in text


def test_events(manual: Runtime) -> None:
    """runtime checklist R56, R57, R63: signals after all prior work, waits bind to a generation, virtual times."""
    first, second = manual.Stream(), manual.Stream()
    seen: list[str] = []
    start, event = manual.Event(enable_timing=True), manual.Event(enable_timing=True)
    assert event.query()
    event.wait(second)
    event.synchronize()
    start.record(first)
    call(manual, first, lambda: seen.append("a"), ns=5_000_000)
    first.record_event(event)
    second.wait_event(event)
    call(manual, second, lambda: seen.append("b"))
    call(manual, first, lambda: seen.append("c"))
    event.record(first)
    assert not event.query()
    second.synchronize()
    assert seen[0] == "a"
    event.synchronize()
    assert start.elapsed_time(event) == 5.0
    third = manual.Stream()
    third.wait_stream(first)
    third.synchronize()


def test_event_errors(manual: Runtime) -> None:
    """fault M10"""
    plain, timed = manual.Event(), manual.Event(enable_timing=True)
    with pytest.raises(errors.EventError, match="enable_timing"):
        plain.elapsed_time(timed)
    with pytest.raises(errors.EventError, match="reached"):
        timed.elapsed_time(timed)


def test_deadlock_is_reported(rt: Runtime) -> None:
    """runtime checklist R58; fault R8: two streams that wait for each other fail, both."""
    first, second = rt.Stream(), rt.Stream()
    scheduler = first.scheduler
    one, two = EventGeneration(scheduler), EventGeneration(scheduler)
    scheduler.submit(
        [
            (first.state, Wait("w", event=one)),
            (first.state, Signal("s", event=two)),
            (second.state, Wait("w", event=two)),
            (second.state, Signal("s", event=one)),
        ]
    )
    for stream in (first, second):
        with pytest.raises(errors.DeadlockError) as caught:
            stream.synchronize()
        assert caught.value.details["streams"] == (first.id, second.id)
    rt.default_stream().synchronize()


@pytest.mark.sweep(default=30, full=1000)
def test_user_events_never_deadlock(cases: int) -> None:
    """runtime checklist R58: random programs of user-level events always end."""
    for seed in range(cases):
        rng = random.Random(seed)
        with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt:
            streams = [rt.Stream() for _ in range(4)]
            events = [rt.Event() for _ in range(4)]
            for _ in range(40):
                stream, event = rng.choice(streams), rng.choice(events)
                rng.choice((event.record, event.wait, lambda s: call(rt, s, lambda: None)))(stream)
            rt.synchronize()


def test_poisoned_events(rt: Runtime) -> None:
    """runtime checklist R59; fault R7: an error on the producer reaches the consumer with its cause."""
    producer, consumer, bystander = rt.Stream(), rt.Stream(), rt.Stream()

    def fail() -> None:
        raise ZeroDivisionError("on purpose")

    event = rt.Event()
    gate = EventGeneration(producer.scheduler)
    producer.scheduler.submit([(producer.state, Wait("gate", event=gate))])
    call(rt, producer, fail, "bad")
    event.record(producer)
    event.wait(consumer)
    after = call(rt, consumer, lambda: None)
    bystander.scheduler.submit([(bystander.state, Signal("gate", event=gate))])
    with pytest.raises(errors.EventPoisoned) as caught:
        consumer.synchronize()
    cause = caught.value.__cause__
    assert isinstance(cause, errors.HostComputeError)
    assert "host function 'bad' raised ZeroDivisionError: on purpose" in str(cause)
    assert isinstance(cause.__cause__, ZeroDivisionError)
    assert after.state is OpState.CANCELLED
    with pytest.raises(errors.EventPoisoned):
        event.synchronize()
    with pytest.raises(errors.EventPoisoned):
        event.query()
    bystander.synchronize()


def test_sticky_first_error(rt: Runtime, make_add: MakeAdd) -> None:
    """runtime checklist R89, R90, R92 (one launch); faults R1, R4: first error wins and stays; others go on."""
    device = rt.device()
    assert isinstance(device, MicroDevice)
    plan = rt.prepare_kernel(make_add())
    tensors = [rt.to_device(np.ones((4, 70), np.float16)) for _ in range(2)] + [rt.empty((4, 70), "float16")]
    bad, good = rt.Stream(), rt.Stream()
    device.faults.add(FaultSpec(FaultKind.COMPUTE_FAULT, Match(nth=2, stream=bad.id)))
    gate = EventGeneration(good.scheduler)
    bad.scheduler.submit([(bad.state, Wait("gate", event=gate))])
    tickets = [rt.launch(plan, tensors, bindings={"n": 1}, stream=bad) for _ in range(4)]
    ended: list[OpState] = []
    for ticket in tickets:
        for operation in ticket.operations:
            operation.callbacks.append(lambda o: ended.append(o.state))
    good.scheduler.submit([(good.state, Signal("gate", event=gate))])
    for _ in range(2):
        with pytest.raises(errors.ComputeFault, match="injected") as caught:
            bad.synchronize()
    states = [[o.state.value for o in t.operations] for t in tickets]
    assert states == [["done"] * 3, ["done", "done", "failed"], ["cancelled"] * 3, ["cancelled"] * 3]
    assert len(ended) == 12
    assert caught.value.stream_id == bad.id
    assert caught.value.launch_seq == tickets[1].launch_seq
    assert (tickets[0].error, tickets[1].failed_tile) == (None, 0)
    with pytest.raises(errors.ComputeFault):
        tickets[3].wait()
    with pytest.raises(errors.ComputeFault):
        bad.query()
    with pytest.raises(errors.StreamInErrorState) as refused:
        rt.launch(plan, tensors, bindings={"n": 1}, stream=bad)
    assert refused.value.__cause__ is bad.error
    assert (bad.get_error(), good.get_error(), bad.status.value) == (1, 0, "error")
    assert rt.device_state() == "STREAM_ERROR"
    rt.launch(plan, tensors, bindings={"n": 3}, stream=good).wait()
    assert (rt.to_host(tensors[2], good) == 6).all()
    record = rt.error_log()[0]
    assert (record["kernel"], record["stream"]) == ("add", bad.id)


def test_first_error_wins(manual: Runtime) -> None:
    """runtime checklist R90: a later error of the same stream becomes a note of the first."""
    device = manual.device()
    assert isinstance(device, MicroDevice)
    tensor = manual.to_device(np.ones(4, np.float32))
    device.faults.add(FaultSpec(FaultKind.DEVICE_LOST))
    ticket = manual.to_host_async(tensor)
    with pytest.raises(errors.DeviceLost):
        ticket.wait()
    stream = manual.default_stream()
    first = stream.error
    assert first is not None
    assert any("later: DeviceLost" in note for note in first.__notes__)
    with pytest.raises(errors.DeviceLost) as caught:
        stream.synchronize()
    assert caught.value is first


def test_stream_ids_survive(rt: Runtime) -> None:
    """runtime checklist R93, R94: after destruction the id works again, old handles do not."""
    stream = rt.Stream()
    call(rt, stream, lambda: 1 / 0)
    with pytest.raises(errors.HostComputeError):
        stream.synchronize()
    stream.destroy()
    stream.destroy()
    with pytest.raises(errors.StreamDestroyed):
        stream.synchronize()
    with pytest.raises(errors.StreamDestroyed):
        rt.Event().record(stream)
    again = next(s for s in iter(rt.Stream, None) if s.id == stream.id)
    assert again != stream
    again.synchronize()
    tensor = rt.to_device(np.arange(5, dtype=np.float32))
    call(rt, rt.default_stream(), lambda: 1 / 0)
    with pytest.raises(errors.HostComputeError):
        rt.synchronize()
    rt.reset_stream()
    np.testing.assert_array_equal(rt.to_host(tensor), np.arange(5))


def test_destroy_drains_or_cancels(rt: Runtime) -> None:
    """runtime checklist R61; faults R17, R18: callbacks run exactly once in every case."""
    drained, cancelled = rt.Stream(), rt.Stream()
    operation = call(rt, drained, lambda: None)
    drained.destroy()
    assert operation.state is OpState.DONE
    gate = EventGeneration(cancelled.scheduler)
    event = rt.Event()
    cancelled.scheduler.submit([(cancelled.state, Wait("gate", event=gate))])
    ended: list[Any] = []
    waiting = HostCall("never", function=lambda: None, callbacks=[lambda o: ended.append(o.state)])
    cancelled.scheduler.submit([(cancelled.state, waiting)])
    event.record(cancelled)
    cancelled.destroy(cancel=True)
    assert ended == [OpState.CANCELLED]
    with pytest.raises(errors.EventPoisoned):
        event.query()


def test_bad_callbacks_hurt_nobody(rt: Runtime) -> None:
    """fault R19"""
    stream = rt.Stream()
    operation = HostCall("good", function=lambda: None, callbacks=[lambda o: 1 / 0])
    stream.scheduler.submit([(stream.state, operation)])
    stream.synchronize()
    assert any(record["name"] == "callback" for record in rt.error_log())


def test_timeouts_leave_the_stream_alone() -> None:
    """``SynchronizeTimeout``; fault R22"""
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.THREAD)) as rt:
        stream = rt.Stream()
        release = threading.Event()
        call(rt, stream, release.wait)
        with pytest.raises(errors.SynchronizeTimeout):
            stream.synchronize(timeout=0.05)
        release.set()
        stream.synchronize(timeout=10)


def test_host_functions_may_not_wait(rt: Runtime) -> None:
    """fault R2: re-entrance is an error of the stream, not a hang."""
    stream = rt.Stream()
    call(rt, stream, lambda: rt.default_stream().synchronize() or stream.synchronize())
    with pytest.raises(errors.HostComputeError, match="re-entrant"):
        stream.synchronize()


@pytest.mark.sweep(default=500, full=10_000)
def test_idle_threads_sleep(cases: int) -> None:
    """runtime checklist R60: no periodic wake-ups of an idle scheduler; many races of submission and completion lose
    none."""
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.THREAD)) as rt:
        stream = rt.Stream()
        for _ in range(cases):
            call(rt, stream, lambda: None)
            stream.synchronize(timeout=20)
        scheduler = stream.scheduler
        steps = itertools.count()
        original = scheduler._step
        scheduler._step = lambda: (next(steps), original())[1]  # type: ignore[method-assign]
        time.sleep(0.2)
        assert next(steps) == 0


def test_lost_and_duplicate_completions(rt: Runtime) -> None:
    """runtime checklist R97; runtime spec 3.8: duplicates are counted, a lost one becomes a timeout."""
    device = rt.device()
    assert isinstance(device, MicroDevice)
    device.faults.add(FaultSpec(FaultKind.COMPLETION_DUPLICATE))
    tensor = rt.to_device(np.ones(4, np.float32))
    np.testing.assert_array_equal(rt.to_host(tensor), np.ones(4))
    assert rt.default_stream().scheduler.spurious_completions == 1
    device.faults.clear()
    device.faults.add(FaultSpec(FaultKind.COMPLETION_LOST))
    with pytest.raises(errors.DeviceTimeout):
        rt.to_device(np.ones(4, np.float32))


def test_device_timeout(make_add: MakeAdd) -> None:
    """runtime checklist R96; fault R6"""
    config = RuntimeConfig(progress=Progress.MANUAL, timeout_ns=1_000_000)
    with Runtime(MicroDevice, config) as rt:
        device = rt.device()
        assert isinstance(device, MicroDevice)
        plan = rt.prepare_kernel(make_add())
        tensors = [rt.to_device(np.ones((4, 70), np.float16)) for _ in range(3)]
        device.faults.add(FaultSpec(FaultKind.COMPUTE_HANG))
        ticket = rt.launch(plan, tensors, bindings={"n": 1})
        with pytest.raises(errors.DeviceTimeout):
            ticket.wait()
        compute = ticket.operations[-1]
        assert compute.end - compute.start == 1_000_000


def test_lost_device(rt: Runtime, make_add: MakeAdd) -> None:
    """runtime checklist R95 (part); fault R12: every stream of the device fails, new work is refused."""
    device = rt.device()
    assert isinstance(device, MicroDevice)
    stream = rt.Stream()
    tensor = rt.to_device(np.ones(4, np.float32))
    device.faults.add(FaultSpec(FaultKind.DEVICE_LOST))
    with pytest.raises(errors.DeviceLost):
        rt.to_host(tensor)
    assert rt.device_state() == "LOST"
    with pytest.raises(errors.StreamInErrorState):
        rt.Event().record(stream)
    with pytest.raises(errors.DeviceLost):
        rt.synchronize()


def test_stale_correction_is_detected(manual: Runtime, make_add: MakeAdd) -> None:
    """runtime checklist R82 (negative side); fault R5: a correction of another launch is not used."""
    plan = manual.prepare_kernel(make_add())
    tensors = [manual.to_device(np.ones((4, 70), np.float16)) for _ in range(3)]
    ticket = manual.launch(plan, [*tensors[:2], manual.empty((4, 70), "float16")], bindings={"n": 1})
    ticket.operations[-1].launch_seq = 10_000
    with pytest.raises(errors.StaleCorrection, match="this is launch 10000"):
        ticket.wait()
    assert manual.device().counters()["stale_corrections"] == 1


def test_hazard_tracker_orders_streams() -> None:
    """runtime checklist R64: with the tracker any program over four streams equals serial execution; without it some differ."""
    code = spin_kernel()
    different = 0
    for seed in range(12):
        results = []
        for streams, tracker in ((1, False), (4, True), (4, False)):
            rng = random.Random(seed)
            config = RuntimeConfig(progress=Progress.MANUAL, hazard_tracker=tracker)
            with Runtime(MicroDevice, config) as rt:
                device = rt.device()
                assert isinstance(device, MicroDevice)
                plan = rt.prepare_kernel(code)
                tensors = [
                    rt.to_device(np.full(64, k, np.float16), LinearLayout("float16")) for k in range(4)
                ]
                rt.synchronize()
                queues = [rt.Stream() for _ in range(4)]
                for step in range(12):
                    number = rng.randrange(4)
                    target, value, other = rng.choice(tensors), rng.randrange(50), rng.choice(tensors)
                    stream = queues[number % streams]
                    if step % 3 and target is not other:
                        rt.launch(plan, [other, target], stream=stream)
                    else:
                        rt.copy(np.full(64, value, np.float16), target, stream, non_blocking=True)
                rt.synchronize()
                results.append([rt.to_host(t).tobytes() for t in tensors])
        assert results[0] == results[1]
        different += results[0] != results[2]
    assert different


def spin_kernel(cycles: int = 20_000, name: str = "spin") -> SpyreCode:
    """``out = out + x`` that takes its time."""
    linear = LinearLayout("float16")
    spec = LaunchSpec(
        name,
        (
            ArgSpec(Role.INPUT, (64,), "float16", linear, "x", 0),
            ArgSpec(Role.INPUT_OUTPUT, (64,), "float16", linear, "out", 1),
        ),
    )

    def at(slot: int) -> dict[str, Any]:
        return {"addr": {"slot": slot}, "shape": [64], "dtype": "float16"}

    program = [{"op": "add", "lhs": at(0), "rhs": at(1), "out": at(1)}, {"op": "spin", "cycles": cycles}]
    symbols = [HcmSymbol(-1, Addr(0)), HcmSymbol(-2, Addr(1))]
    return assemble(json.dumps(program).encode(), PayloadKind.OP_LIST, spec, symbols)


def makespan(h: int, t: int, c: int, count: int, overlap: Overlap, replicas: int, depth: int = 2) -> int:
    """Virtual time from the first host computation to the last compute of ``count`` launches."""
    config = RuntimeConfig(progress=Progress.MANUAL, overlap=overlap, host_ns=h, correction_arena_depth=depth)
    code = spin_kernel()
    device = MicroDevice(DeviceProperties(), latencies={"dma_in": t, "spin": c})
    with Runtime(lambda: device, config) as rt:
        plan = rt.prepare_kernel(code, replicas=replicas)
        linear = LinearLayout("float16")
        x, out = rt.to_device(np.ones(64, np.float16), linear), rt.to_device(np.zeros(64, np.float16), linear)
        rt.synchronize()
        start = device.now()
        tickets = [rt.launch(plan, [x, out]) for _ in range(count)]
        rt.synchronize()
        assert (rt.to_host(out) == count).all()
        return max(ticket.times[1] for ticket in tickets) - start


@pytest.mark.sweep(default=12, full=500)
def test_pipeline_timing_law(cases: int) -> None:
    """runtime checklist R83, R84: the closed forms of runtime spec 3.16.4, exactly."""
    rng = random.Random(6)
    for _ in range(cases):
        h, t, c = (rng.choice([1, 7, 100, 1000, 2500]) for _ in range(3))
        n = rng.randint(1, 9)
        once = h + t + c
        law = {
            (Overlap.OFF, 1): n * once,
            (Overlap.TWO_STREAM, 1): once + (n - 1) * max(h + t, t + c),
            (Overlap.THREE_STAGE, 1): once + (n - 1) * max(h, t + c),
            (Overlap.TWO_STREAM, 2): once + (n - 1) * max(h + t, c),
            (Overlap.THREE_STAGE, 2): once + (n - 1) * max(h, t, c),
        }
        for (overlap, replicas), expected in law.items():
            assert makespan(h, t, c, n, overlap, replicas) == expected, (h, t, c, n, overlap, replicas)
        # with one correction buffer the next host computation waits for the transfer, whatever the streams
        for replicas in (1, 2):
            expected = law[Overlap.TWO_STREAM, replicas]
            assert makespan(h, t, c, n, Overlap.THREE_STAGE, replicas, depth=1) == expected, (h, t, c, n)


@pytest.mark.sweep(default=60, full=1000)
def test_plans_need_no_synchronisation(make_add: MakeAdd, cases: int) -> None:
    """runtime checklist R82: streams launch one plan without any event or tracker, durations at random; every launch
    uses its own correction."""
    rng = random.Random(1)
    device = MicroDevice()
    durations = random.Random(2)
    device.script_duration = lambda block, duration: durations.randrange(1, 5000)  # type: ignore[method-assign]
    with Runtime(lambda: device, RuntimeConfig(progress=Progress.MANUAL)) as rt:
        plan = rt.prepare_kernel(make_add((2, 64)))
        streams = [rt.Stream() for _ in range(3)]
        expected = []
        for step in range(cases):
            number = step % 100
            a = np.full((2, 64), number, np.float16)
            ta, tb = rt.to_device(a), rt.to_device(a)
            tc = rt.empty((2, 64), "float16")
            rt.launch(plan, [ta, tb, tc], bindings={"n": number % 7}, stream=rng.choice(streams))
            expected.append((tc, 2 * number * (number % 7)))
        rt.synchronize()
        for tensor, value in expected:
            assert (rt.to_host(tensor) == value).all()


def test_determinism(make_add: MakeAdd) -> None:
    """runtime checklist R114: the same random workload twice gives equal operation logs."""

    def run() -> list[tuple[Any, ...]]:
        rng = random.Random(3)
        config = RuntimeConfig(progress=Progress.MANUAL, overlap=Overlap.THREE_STAGE, plan_replicas=2)
        with Runtime(MicroDevice, config) as rt, rt.op_log() as log:
            plan = rt.prepare_kernel(make_add())
            tensors = [rt.to_device(np.full((4, 70), k, np.float16)) for k in range(4)]
            streams = [rt.Stream() for _ in range(3)]
            for _ in range(10):
                rt.launch(
                    plan, rng.sample(tensors, 3), bindings={"n": rng.randrange(5)}, stream=rng.choice(streams)
                )
            rt.synchronize()
            return [(o.kind, o.name, o.op_id, o.queued, o.submitted, o.start, o.end, o.bytes) for o in log]

    assert run() == run()


@pytest.mark.sweep(default=20, full=400)
def test_sixteen_threads(make_add: MakeAdd, cases: int) -> None:
    """Stress: sixteen threads with streams of their own on one device; every result is right, nothing leaks."""
    failures: list[BaseException] = []
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.THREAD, plan_replicas=2)) as rt:
        plan = rt.prepare_kernel(make_add((2, 64)))

        def work(seed: int) -> None:
            try:
                rng = np.random.default_rng(seed)
                with rt.Stream() as stream:
                    for _ in range(cases // 4 or 1):
                        a, b = (rng.integers(-20, 20, (2, 64)).astype(np.float16) for _ in range(2))
                        ta, tb = rt.to_device(a, non_blocking=True), rt.to_device(b, non_blocking=True)
                        tc = rt.empty((2, 64), "float16")
                        rt.launch(plan, [ta, tb, tc], bindings={"n": seed})
                        np.testing.assert_array_equal(rt.to_host(tc), (a + b) * np.float16(seed))
                    stream.synchronize()
            except BaseException as error:  # noqa: BLE001 - reported by the test
                failures.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        rt.synchronize()
        assert rt.memory_allocated() == 2 * plan.job_allocation_size()
        assert rt.memory_stats()["deferred_bytes"] == 0
        counters = rt.device().counters()
        assert counters["cb_fault"] == 0
        submitted = sum(counters[k] for k in ("cb_compute", "cb_dma_in", "cb_dma_out", "cb_d2d", "cb_fill"))
        assert submitted == counters["cb_ok"]


def test_shutdown_reports_leaks(make_add: MakeAdd) -> None:
    """fault R20 (explicit shutdown); R21: a shut-down runtime refuses work."""
    rt = Runtime(MicroDevice, RuntimeConfig(progress=Progress.THREAD))
    tensor = rt.to_device(np.ones(4, np.float32))
    assert rt.shutdown() == ["128 bytes at 0x400000000"]
    assert rt.shutdown() == []
    with pytest.raises(errors.RuntimeUnavailable):
        rt.to_host(tensor)


def test_devices(make_add: MakeAdd) -> None:
    """runtime checklist R95, R103 (part); fault M12: two devices of one runtime are independent."""
    with Runtime(MicroDevice.factory, RuntimeConfig(progress=Progress.MANUAL), devices=2) as rt:
        assert rt.device_count() == 2
        assert rt.device_state(1) == "NOT_INITIALIZED"
        with pytest.raises(errors.DeviceIndexError, match=r"device index 2 is not in 0\.\.1"):
            rt.set_device(2)
        rt.set_device(1)
        a = rt.to_device(np.ones(4, np.float32))
        assert (a.device, rt.device(1).props.index) == (1, 1)
        b = rt.to_device(np.zeros(4, np.float32), device=0)
        rt.copy(a, b)
        np.testing.assert_array_equal(rt.to_host(b), np.ones(4))
        device = rt.device(1)
        assert isinstance(device, MicroDevice)
        device.faults.add(FaultSpec(FaultKind.DEVICE_LOST))
        with pytest.raises(errors.DeviceLost):
            rt.to_host(a)
        np.testing.assert_array_equal(rt.to_host(b), np.ones(4))
        with pytest.raises(errors.ConfigError):
            Runtime(devices=0)


@pytest.mark.parametrize("progress", list(Progress))
def test_events_across_devices(progress: Progress) -> None:
    """runtime spec 3.9.2: waiting for an event of another device of the runtime."""
    with Runtime(MicroDevice.factory, RuntimeConfig(progress=progress), devices=2) as rt:
        first, second = rt.Stream(device=0), rt.Stream(device=1)
        seen: list[str] = []
        call(rt, first, lambda: seen.append("first"))
        event = first.record_event()
        second.wait_event(event)
        call(rt, second, lambda: seen.append("second"))
        if progress is Progress.MANUAL:
            first.synchronize()
        second.synchronize(timeout=20)
        assert seen == ["first", "second"]


def test_interpreter_exit_drains() -> None:
    """fault R20: what is pending at the end of the interpreter still runs."""
    script = (
        "import os, numpy as np, spyrert\n"
        "from spyrert.execution import HostCall\n"
        "for progress in spyrert.Progress:\n"
        "    rt = spyrert.Runtime(spyrert.MicroDevice, spyrert.RuntimeConfig(progress=progress))\n"
        "    keep = globals().setdefault('keep', []); keep.append(rt)\n"
        "    rt.to_device(np.ones(4), non_blocking=True)\n"
        "    stream = rt.default_stream()\n"
        "    operation = HostCall('last', function=lambda p=progress: os.write(1, p.value.encode() + b\"\\n\"))\n"
        "    stream.scheduler.submit([(stream.state, operation)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert sorted(done.stdout.split()) == ["manual", "thread"]
    assert done.stderr == ""


def test_finished_operations_hold_nothing() -> None:
    """Host arrays of copies are let go when they are over, also with the hazard tracker on."""
    config = RuntimeConfig(progress=Progress.MANUAL, hazard_tracker=True)
    with Runtime(MicroDevice, config) as rt:
        array = np.ones(1000, np.float32)
        alive = weakref.ref(array)
        tensor = rt.to_device(array)
        event = rt.current_stream().record_event()
        del array
        gc.collect()
        assert alive() is None
        assert event.query() is False or rt.to_host(tensor)[0] == 1


def test_metrics(make_add: MakeAdd) -> None:
    """A counter shows that images are transferred once."""
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt:
        for _ in range(3):
            plan = rt.prepare_kernel(make_add())
            tensors = [rt.to_device(np.ones((4, 70), np.float16)) for _ in range(2)] + [
                rt.empty((4, 70), "float16")
            ]
            rt.launch(plan, tensors, bindings={"n": 1}).wait()
        with pytest.raises(errors.ArgumentCountError):
            rt.launch(plan, [])
        metrics = rt.metrics()
        assert (metrics["image_transfers"], metrics["launches"], metrics["refused_launches"]) == (1, 3, 1)
        assert metrics["cb_compute"] == 3


def test_enqueueing_does_not_wait_for_the_device() -> None:
    """runtime spec 3.1: while a device works (here: until it is released), launches and queries return at once."""
    release, started = threading.Event(), threading.Event()

    def slow(program: Program, memory: SegmentMemory, core_mask: int) -> ExecResult:
        started.set()
        assert release.wait(30)
        return ExecResult(10)

    device = MicroDevice()
    device.register_executor(0x95, slow)
    code = assemble(b"x", 0x95, LaunchSpec("slow"))
    with Runtime(lambda: device, RuntimeConfig(progress=Progress.THREAD)) as rt:
        plan = rt.prepare_kernel(code)
        first = rt.launch(plan, [])
        assert started.wait(30)
        tickets = [rt.launch(plan, []) for _ in range(5)]
        assert not first.done()
        assert not rt.current_stream().query()
        release.set()
        for ticket in tickets:
            ticket.wait(timeout=30)


def test_operations_wait_for_their_engine(make_add: MakeAdd) -> None:
    """runtime spec 3.8: an operation stays with the scheduler until its engine has a slot, so that one of high priority
    that comes later still goes first; every device operation knows its engine."""
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt:
        rt.prepare_kernel(make_add())
        normal = [rt.Stream() for _ in range(4)]
        with rt.op_log() as log:
            tensors = [rt.to_device(np.full(4, k), stream=s, non_blocking=True) for k, s in enumerate(normal)]
            assert rt.pump(max_steps=1) == 1
            assert rt.device().in_flight() == 1
            urgent = rt.Stream(priority=-1)
            tensors.append(rt.to_device(np.full(4, 9), stream=urgent, non_blocking=True))
            backs = [rt.to_host_async(tensors[0], normal[0])]
            rt.synchronize()
        order = [o.stream.id for o in log if o.stream is not None and o.kind == "H2D"]
        assert order == [normal[0].id, urgent.id, *(s.id for s in normal[1:])]
        assert {o.kind: o.engine.value for o in log if o.engine} == {"H2D": "dma_in", "D2H": "dma_out"}
        assert all(o.submitted <= o.start for o in log)
        result = backs[0].wait()
        assert result is not None
        assert (result == 0).all()
