"""After failures: what is damaged, what survives, that nothing is lost (runtime spec 3.18, 5.6, 6.3)."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

from spyrert import MicroDevice, Overlap, Progress, Runtime, RuntimeConfig, errors
from spyrert.correction import program_correction
from spyrert.device import FaultKind, FaultSpec, Match
from spyrert.device.protocol import Piece
from spyrert.execution.validity import IndeterminateMemory
from spyrert.spyrecode import Hcm, SpyreCode

MakeAdd = Callable[..., SpyreCode]


def micro(rt: Runtime) -> MicroDevice:
    device = rt.device()
    assert isinstance(device, MicroDevice)
    return device


def test_reset_device(make_add: MakeAdd) -> None:
    """runtime checklist R95; fault R12: old tensors are stale, old plans released, new ones work."""
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt:
        plan, tensor, stream = (
            rt.prepare_kernel(make_add()),
            rt.to_device(np.ones(4, np.float32)),
            rt.Stream(),
        )
        pending = rt.to_host_async(tensor)
        micro(rt).faults.add(FaultSpec(FaultKind.DEVICE_LOST))
        with pytest.raises(errors.DeviceLost):
            rt.synchronize()
        with pytest.raises(errors.DeviceLost):
            pending.wait()
        rt.reset_device()
        assert rt.device_state() == "OK"
        assert rt.memory_allocated() == 0
        with pytest.raises(errors.ArgumentError, match="stale allocation"):
            rt.to_host(tensor)
        with pytest.raises(errors.ArgumentError, match="stale allocation"):
            rt.copy(np.ones(4, np.float32), tensor)
        with pytest.raises(errors.PlanReleased):
            rt.launch(plan, [tensor] * 3, bindings={"n": 1})
        with pytest.raises(errors.StreamDestroyed):
            stream.synchronize()
        fresh = rt.prepare_kernel(make_add())
        assert fresh is not plan
        ones = rt.to_device(np.ones((4, 70), np.float16))
        out = rt.empty((4, 70), "float16")
        rt.launch(fresh, [ones, ones, out], bindings={"n": 2})
        assert (rt.to_host(out) == 4).all()
        del tensor, plan
        gc.collect()
        assert (rt.to_host(ones) == 1).all()


def test_reset_cancels_what_is_in_flight() -> None:
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt:
        tensor = rt.to_device(np.ones(4, np.float32), non_blocking=True)
        ticket = rt.to_host_async(tensor)
        rt.reset_device()
        with pytest.raises(errors.DeviceLost, match="reset"):
            ticket.wait()


def test_default_stream_is_not_destroyed(rt: Runtime) -> None:
    with pytest.raises(errors.StreamError, match="reset_stream"):
        rt.default_stream().destroy()
    rt.to_device(np.ones(4))


def test_indeterminate_data(make_add: MakeAdd) -> None:
    """runtime checklist R98: what a failed operation was to write is not read until it is overwritten."""
    config = RuntimeConfig(progress=Progress.MANUAL, track_validity=True)
    with Runtime(MicroDevice, config) as rt:
        plan = rt.prepare_kernel(make_add())
        ones = rt.to_device(np.ones((4, 70), np.float16))
        out, other = rt.empty((4, 70), "float16"), rt.empty((4, 70), "float16")
        micro(rt).faults.add(FaultSpec(FaultKind.COMPUTE_FAULT))
        stream = rt.Stream()
        with pytest.raises(errors.ComputeFault):
            rt.launch(plan, [ones, ones, out], bindings={"n": 1}, stream=stream).wait()
        with pytest.raises(errors.ArgumentError, match="indeterminate data"):
            rt.to_host(out)
        with pytest.raises(errors.ArgumentError, match="indeterminate data"):
            rt.launch(plan, [out, ones, other], bindings={"n": 1})
        assert (rt.to_host(ones) == 1).all()
        rt.launch(plan, [ones, ones, out], bindings={"n": 1})
        assert (rt.to_host(out) == 2).all()


def test_indeterminate_ranges_by_brute_force() -> None:
    rng = random.Random(2)
    memory, model = IndeterminateMemory(), [False] * 60
    for _ in range(2000):
        start, size = rng.randrange(55), rng.randint(1, 5)
        mark = rng.random() < 0.5
        (memory.mark if mark else memory.clear)([Piece(1, start, size)])
        model[start : start + size] = [mark] * size
        start, size = rng.randrange(50), rng.randint(1, 10)
        assert (memory.hit([Piece(1, start, size)]) is not None) is any(model[start : start + size])
        assert memory.hit([Piece(2, start, size)]) is None


def test_launches_in_flight_are_bounded(make_add: MakeAdd) -> None:
    """runtime spec 3.9.4: further launches pump (or block) until there is room."""
    for progress in Progress:
        config = RuntimeConfig(progress=progress, max_inflight_launches=3)
        with Runtime(MicroDevice, config) as rt:
            plan = rt.prepare_kernel(make_add((2, 64)))
            tensors = [rt.to_device(np.ones((2, 64), np.float16)) for _ in range(2)] + [
                rt.empty((2, 64), "float16")
            ]
            tickets = []
            for _ in range(20):
                tickets.append(rt.launch(plan, tensors, bindings={"n": 1}))
                assert sum(not ticket.done() for ticket in tickets) <= 3
            rt.synchronize()
            assert all(ticket.done() for ticket in tickets)


FAULTS: dict[FaultKind, type[Exception]] = {
    FaultKind.DMA_ERROR: errors.DmaFault,
    FaultKind.DMA_SHORT: errors.DmaFault,
    FaultKind.COMPUTE_FAULT: errors.ComputeFault,
    FaultKind.PAGE_FAULT: errors.PageFault,
    FaultKind.STALE_CORRECTION: errors.StaleCorrection,
    FaultKind.ECC_UNCORRECTABLE: errors.EccError,
    FaultKind.CORE_UNAVAILABLE: errors.CoreUnavailable,
    FaultKind.COMPLETION_LOST: errors.DeviceTimeout,
}


def workload(rt: Runtime, plan: Any, rng: random.Random, stream: Any) -> list[Any]:
    tickets = []
    for _ in range(3):
        a = np.full((2, 64), rng.randrange(9), np.float16)
        ta, tb = (
            rt.to_device(a, stream=stream, non_blocking=True),
            rt.to_device(a, stream=stream, non_blocking=True),
        )
        tc = rt.empty((2, 64), "float16")
        tickets.append(rt.launch(plan, [ta, tb, tc], bindings={"n": 2}, stream=stream))
        tickets.append(rt.to_host_async(tc, stream))
    return tickets


@pytest.mark.sweep(default=4, full=13)
@pytest.mark.parametrize("kind", list(FAULTS), ids=lambda kind: kind.value)
@pytest.mark.parametrize("overlap", [Overlap.OFF, Overlap.THREE_STAGE], ids=lambda o: o.value)
def test_fault_at_every_operation(make_add: MakeAdd, kind: FaultKind, overlap: Overlap, cases: int) -> None:
    """runtime checklist R100; faults R1-R6, R9, R11: wherever a fault strikes, everything ends, the error is the right one,
    other streams work, and all memory comes back."""
    fired = 0
    for nth in sorted({1, *random.Random(5).sample(range(1, 14), cases)}):
        config = RuntimeConfig(progress=Progress.MANUAL, overlap=overlap)
        with Runtime(MicroDevice, config) as rt:
            plan = rt.prepare_kernel(make_add((2, 64)))
            before = rt.memory_allocated()
            bad, good = rt.Stream(), rt.Stream()
            micro(rt).faults.add(FaultSpec(kind, Match(nth=nth)))
            tickets = workload(rt, plan, random.Random(nth), bad)
            try:
                bad.synchronize()
            except errors.SpyreError as error:
                chain = error if not isinstance(error, errors.EventPoisoned) else error.__cause__
                assert isinstance(chain, FAULTS[kind]), error  # noqa: PT017
            failed = [s for s in rt._context(0).stream_states() if s.error is not None]
            fired += bool(micro(rt).faults.log)
            assert bool(failed) == bool(micro(rt).faults.log)
            micro(rt).faults.clear()
            for stream in rt._context(0).stream_states():
                rt._context(0).scheduler.wait_for(lambda s=stream: s.idle, 20, "stream")  # type: ignore[misc]
            assert all(ticket.done() for ticket in tickets)
            if overlap is Overlap.OFF:
                array = np.ones((2, 64), np.float16)
                tensor = rt.to_device(array, stream=good)
                out = rt.empty((2, 64), "float16")
                rt.launch(plan, [tensor, tensor, out], bindings={"n": 1}, stream=good)
                assert (rt.to_host(out, good) == 2).all()
                del tensor, out
            tickets.clear()
            gc.collect()
            assert rt.memory_allocated() == before
            assert rt.memory_stats()["deferred_bytes"] == 0
            rt._context(0).allocator.check_invariants()
            counters = micro(rt).counters()
            submitted = sum(
                counters[k] for k in ("cb_compute", "cb_dma_in", "cb_dma_out", "cb_d2d", "cb_fill")
            )
            assert submitted == counters["cb_ok"] + counters["cb_fault"] + counters["cb_cancelled"]
    assert fired


def test_submission_may_be_refused(rt: Runtime) -> None:
    """runtime spec 3.8: a device that refuses a submission fails the operation."""
    micro(rt).faults.add(FaultSpec(FaultKind.SUBMIT_REJECT))
    with pytest.raises(errors.DmaFault, match="refused to_device"):
        rt.to_device(np.ones(4, np.float32))
    rt.reset_stream()
    rt.to_device(np.ones(4, np.float32))


def test_harmless_faults(rt: Runtime) -> None:
    """fault R10: correctable errors are counted, slow operations are slow."""
    device = micro(rt)
    device.faults.add(FaultSpec(FaultKind.ECC_CORRECTABLE))
    device.faults.add(FaultSpec(FaultKind.SLOW, Match(nth=2), params={"factor": 10}))
    with rt.op_log() as log:
        first = rt.to_device(np.ones(4, np.float32))
        second = rt.to_device(np.ones(4, np.float32))
    assert (rt.to_host(first) == rt.to_host(second)).all()
    assert device.counters()["ecc_corrected"] == 1
    assert (log[1].end - log[1].start) == 10 * (log[0].end - log[0].start)


def test_corruption_is_visible(rt: Runtime) -> None:
    """A transfer that silently corrupts data gives wrong data, not an error: nothing hides it."""
    micro(rt).faults.add(FaultSpec(FaultKind.DMA_CORRUPT, params={"bits": [3]}))
    tensor = rt.to_device(np.zeros(4, np.int32))
    np.testing.assert_array_equal(rt.to_host(tensor), [8, 0, 0, 0])


def test_a_damaged_image_is_found(make_add: MakeAdd) -> None:
    """``verify_load`` reads images back; without it the device finds the damage."""
    for verify in (True, False):
        config = RuntimeConfig(progress=Progress.MANUAL, verify_load=verify)
        with Runtime(MicroDevice, config) as rt:
            micro(rt).faults.add(FaultSpec(FaultKind.DMA_CORRUPT, params={"bits": [1030]}))
            if verify:
                with pytest.raises(errors.DmaFault, match="does not read back"):
                    rt.prepare_kernel(make_add())
                assert rt.memory_allocated() == 0
                continue
            plan = rt.prepare_kernel(make_add())
            tensors = [rt.to_device(np.ones((4, 70), np.float16)) for _ in range(2)] + [
                rt.empty((4, 70), "float16")
            ]
            with pytest.raises(errors.ComputeFault, match="payload digest"):
                rt.launch(plan, tensors, bindings={"n": 1}).wait()


def test_host_functions(make_add: MakeAdd) -> None:
    """runtime checklist R91; faults R1, R2, A18: functions of users, their errors, and unknown ones."""
    code = make_add()
    commands = list(code.execution)
    host = commands[0]
    assert hasattr(host, "hcm")
    assert isinstance(host.hcm, Hcm)
    commands[0] = attrs.evolve(host, hcm=attrs.evolve(host.hcm, function="mine"))
    mine = attrs.evolve(
        code,
        execution=tuple(commands),
        kernel_name="mine",
        launch=attrs.evolve(code.launch, kernel_name="mine"),
    )
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt:
        with pytest.raises(errors.SpyreCodeSchemaError, match="unknown host function 'mine'"):
            rt.prepare_kernel(mine)
        assert rt.memory_allocated() == 0
        behaviour: list[Callable[..., None]] = []
        rt.register_host_function("mine", lambda inputs, hcm, out: behaviour[-1](inputs, hcm, out))
        plan = rt.prepare_kernel(mine)
        tensors = [rt.to_device(np.ones((4, 70), np.float16)) for _ in range(2)] + [
            rt.empty((4, 70), "float16")
        ]

        def short(inputs: Any, hcm: Any, out: memoryview) -> None:
            out[:] = b"short"

        def wrong(inputs: Any, hcm: Any, out: memoryview) -> None:
            raise KeyError("text of the cause")

        def good(inputs: Any, hcm: Any, out: memoryview) -> None:
            program_correction(inputs, hcm, out)

        for function, text in ((short, "wrote outside"), (wrong, "text of the cause")):
            behaviour.append(function)
            stream = rt.Stream()
            ticket = rt.launch(plan, tensors, bindings={"n": 1}, stream=stream)
            with pytest.raises(errors.HostComputeError, match=text):
                stream.synchronize()
            assert [o.state.value for o in ticket.operations] == ["failed", "cancelled", "cancelled"]
        behaviour.append(good)
        rt.launch(plan, tensors, bindings={"n": 1}, stream=rt.Stream()).wait()
        assert rt.device().counters()["cb_compute"] == 1
