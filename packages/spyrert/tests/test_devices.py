"""Several devices in one process: copies between them and collectives, in stream order (runtime spec 3.20)."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from spyrert import Communicator, MicroDevice, Progress, Runtime, RuntimeConfig, errors
from spyrert.device import DeviceProperties, FaultKind, FaultSpec, Match
from spyrert.execution import HostCall
from spyrert.spyrecode import LinearLayout, SpyreCode, StickLayout

MakeAdd = Callable[..., SpyreCode]
REGION = 1 << 20


def machine(count: int, progress: Progress = Progress.MANUAL, **fields: Any) -> Runtime:
    config = RuntimeConfig(
        progress=progress,
        tensor_region_bytes=REGION,
        program_region_bytes=REGION,
        dynamic_region_bytes=REGION,
        **fields,
    )
    return Runtime(MicroDevice.factory, config, devices=count)


def micro(rt: Runtime, index: int) -> MicroDevice:
    device = rt.device(index)
    assert isinstance(device, MicroDevice)
    return device


@pytest.fixture(params=list(Progress), ids=lambda p: p.value)
def progress(request: pytest.FixtureRequest) -> Progress:
    assert isinstance(request.param, Progress)
    return request.param


@pytest.fixture
def pair(progress: Progress) -> Iterator[Runtime]:
    with machine(2, progress) as rt:
        yield rt


# -- copies ----------------------------------------------------------------------------------------


def test_copy_between_devices(pair: Runtime) -> None:
    """Whole tensors of one layout, other layouts, other dtypes, views: all arrive."""
    rng = np.random.default_rng(1)
    array = rng.integers(-9, 9, (5, 130)).astype(np.float16)
    source = pair.to_device(array, device=0)
    for layout in (None, LinearLayout("float16"), StickLayout.default((5, 130), "float16", (1, 0))):
        target = pair.empty((5, 130), "float16", layout, device=1)
        pair.copy(source, target)
        np.testing.assert_array_equal(pair.to_host(target), array)
    wide = pair.empty((5, 130), "float32", device=1)
    pair.copy(source, wide)
    np.testing.assert_array_equal(pair.to_host(wide), array)
    part = pair.to_device(np.zeros((8, 130), np.float16), device=1)
    pair.copy(source[1:3, 3:70], part[4:6, 10:77])
    expected = np.zeros((8, 130), np.float16)
    expected[4:6, 10:77] = array[1:3, 3:70]
    np.testing.assert_array_equal(pair.to_host(part), expected)
    pair.copy(pair.empty((0, 3), "float16", device=0), pair.empty((0, 3), "float16", device=1))
    with pytest.raises(errors.DmaSizeError):
        pair.copy(source, pair.empty((130, 5), "float16", device=1))


def test_copies_are_in_stream_order(pair: Runtime) -> None:
    """A non-blocking copy reads what was enqueued before it on the source's stream, and what comes behind it
    there does not disturb it; later work of the target's stream sees it."""
    source, target = pair.empty((4,), "float32", device=0), pair.empty((4,), "float32", device=1)
    reading, writing = pair.Stream(device=0), pair.Stream(device=1)
    with reading, writing:
        tickets = []
        for value in range(20):
            pair.copy(np.full(4, value, np.float32), source, non_blocking=True)
            pair.copy(source, target, non_blocking=True)
            pair.copy(np.full(4, -1, np.float32), source, non_blocking=True)
            tickets.append(pair.to_host_async(target))
        for value, ticket in enumerate(tickets):
            result = ticket.wait()
            assert result is not None
            assert (result == value).all()
    pair.synchronize()


@pytest.mark.parametrize("side", [0, 1])
def test_either_stream_may_be_named(pair: Runtime, side: int) -> None:
    source = pair.to_device(np.ones(4, np.float32), device=0)
    target = pair.empty((4,), "float32", device=1)
    stream = pair.Stream(device=side)
    with pair.op_log(side) as log:
        pair.copy(source, target, stream=stream)
    assert {operation.stream.id for operation in log if operation.stream} == {stream.id}
    with pytest.raises(errors.DeviceMismatch):
        pair.to_host(target, pair.Stream(device=0))


def test_a_failed_source_fails_the_target(pair: Runtime) -> None:
    """fault R7: the stream that waits for another device gets its error; both recover by new streams."""
    source = pair.to_device(np.ones(4, np.float32), device=0)
    target = pair.to_device(np.zeros(4, np.float32), device=1)
    micro(pair, 0).faults.add(FaultSpec(FaultKind.DMA_ERROR))
    with pytest.raises(errors.SpyreError) as caught:
        pair.copy(source, target)
    chain = caught.value if isinstance(caught.value, errors.DmaFault) else caught.value.__cause__
    assert isinstance(chain, errors.DmaFault)
    with pytest.raises(errors.EventPoisoned):
        pair.synchronize(1)
    for index in (0, 1):
        pair.reset_stream(index)
    pair.copy(source, target)
    assert (pair.to_host(target) == 1).all()


def test_time_is_shared() -> None:
    """A device that waits for another goes on no earlier, in virtual time, than the other signals."""
    with machine(2) as rt:
        slow = rt.Stream(device=0)
        slow.scheduler.submit([(slow.state, HostCall("long", function=lambda: None, duration_ns=50_000))])
        event = slow.record_event()
        fast, free = rt.Stream(device=1), rt.Stream(device=1)
        fast.wait_event(event)
        with rt.op_log(1) as log:
            behind = rt.to_device(np.ones(4, np.float32), stream=fast, non_blocking=True)
            beside = rt.to_device(np.ones(4, np.float32), stream=free, non_blocking=True)
            rt.synchronize()
        starts = {o.stream.id: o.start for o in log if o.stream is not None and o.kind == "H2D"}
        assert starts[fast.id] == 50_000
        assert starts[free.id] == 0
        assert (rt.to_host(behind) == rt.to_host(beside)).all()


def test_devices_signal_each_other_without_deadlock() -> None:
    """Two worker threads that wake each other hold no lock meanwhile: thousands of events both ways end."""
    with machine(2, Progress.THREAD) as rt:
        left, right = rt.Stream(device=0), rt.Stream(device=1)
        seen: list[int] = []
        for number in range(600):
            here, there = (left, right) if number % 2 else (right, left)
            here.wait_event(there.record_event())
            call = HostCall("seen", function=lambda n=number: seen.append(n))  # type: ignore[misc]
            here.scheduler.submit([(here.state, call)])
            other = HostCall("other", function=lambda: None)
            there.scheduler.submit([(there.state, other)])
            there.record_event()
        left.synchronize(timeout=60)
        right.synchronize(timeout=60)
        assert seen == list(range(600))


# -- collectives -----------------------------------------------------------------------------------


def fold(arrays: list[Any]) -> Any:
    total = arrays[0].copy()
    for array in arrays[1:]:
        total = total + array
    return total


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_all_reduce(progress: Progress, size: int, dtype: str) -> None:
    """runtime checklist R104: the sum on every rank is the left fold in rank order, to the bit; others are refused."""
    rng = np.random.default_rng(size)
    with machine(size, progress) as rt:
        comm = Communicator(rt)
        arrays = [(rng.standard_normal((3, 70)) * 100).astype(dtype) for _ in range(size)]
        tensors = [rt.to_device(a, device=k) for k, a in enumerate(arrays)]
        comm.all_reduce(tensors)
        for tensor in tensors:
            np.testing.assert_array_equal(rt.to_host(tensor), fold(arrays))
        tickets = comm.all_reduce(tensors, async_op=True)
        for ticket in tickets:
            ticket.wait()
            assert ticket.done()
        second = fold([fold(arrays)] * size)
        np.testing.assert_array_equal(rt.to_host(tensors[-1]), second)
        with pytest.raises(errors.NotSupportedCollective, match="'max' is not supported"):
            comm.all_reduce(tensors, op="max")
        np.testing.assert_array_equal(rt.to_host(tensors[0]), second)


def test_every_collective_against_numpy(progress: Progress) -> None:
    """Random sequences of all collectives on three devices, one thread a rank, against a model in NumPy."""
    size, steps = 3, 12
    kinds = [
        "all_reduce",
        "all_gather",
        "broadcast",
        "reduce",
        "gather",
        "scatter",
        "reduce_scatter",
        "all_to_all",
        "barrier",
    ]
    rng = random.Random(7)
    program = [(rng.choice(kinds), rng.randrange(size), rng.randrange(size)) for _ in range(steps)]
    program += [(kind, 1, 0) for kind in kinds]
    # state[rank][slot]: three tensors a rank
    model = [[np.full((2, 65), 10 * r + s, np.float32) for s in range(size)] for r in range(size)]
    with machine(size, progress) as rt:
        comm = Communicator(rt, timeout=60)
        state = [[rt.to_device(a, device=r) for a in row] for r, row in enumerate(model)]
        for kind, root, slot in program:
            old = [[a.copy() for a in row] for row in model]
            for r in range(size):
                rank, mine = comm.rank(r), state[r]
                match kind:
                    case "all_reduce":
                        rank.all_reduce(mine[slot], async_op=True)
                        model[r][slot] = fold([row[slot] for row in old])
                    case "all_gather":
                        rank.all_gather(mine, mine[slot], async_op=True)
                        model[r] = [row[slot].copy() for row in old]
                    case "broadcast":
                        rank.broadcast(mine[slot], root, async_op=True)
                        model[r][slot] = old[root][slot]
                    case "reduce":
                        rank.reduce(mine[slot], root, async_op=True)
                        if r == root:
                            model[r][slot] = fold([row[slot] for row in old])
                    case "gather":
                        rank.gather(mine if r == root else None, mine[slot], root, async_op=True)
                        if r == root:
                            model[r] = [row[slot].copy() for row in old]
                    case "scatter":
                        rank.scatter(mine[slot], mine if r == root else None, root, async_op=True)
                        model[r][slot] = old[root][r]
                    case "reduce_scatter":
                        rank.reduce_scatter(mine[slot], mine, async_op=True)
                        model[r][slot] = fold([row[r] for row in old])
                    case "all_to_all":
                        rank.all_to_all(mine, mine, async_op=True)
                        model[r] = [row[r].copy() for row in old]
                    case "barrier":
                        rank.barrier(async_op=True)
        rt.synchronize()
        for r in range(size):
            for s in range(size):
                np.testing.assert_array_equal(rt.to_host(state[r][s]), model[r][s], err_msg=f"{r} {s}")


def test_one_thread_a_rank() -> None:
    """Blocking calls from a thread of each rank meet each other, whatever the order in which they come."""
    with machine(4, Progress.THREAD) as rt:
        comm = Communicator(rt, timeout=60)
        results: dict[int, Any] = {}
        failures: list[BaseException] = []

        def work(number: int) -> None:
            try:
                rank = comm.rank(number)
                tensor = rt.to_device(np.full((2, 64), number + 1, np.float32), device=number)
                for _ in range(20):
                    rank.all_reduce(tensor)
                    rank.broadcast(tensor, 2)
                results[number] = rt.to_host(tensor)
            except BaseException as error:  # noqa: BLE001 - reported by the test
                failures.append(error)

        threads = [threading.Thread(target=work, args=(k,)) for k in (3, 1, 0, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not failures
        expected = np.full((2, 64), 10, np.float32) * np.float32(4) ** 19
        assert all((results[k] == expected).all() for k in range(4))


def test_mismatch_reaches_every_rank(progress: Progress) -> None:
    """runtime checklist R105; fault R13: sizes, dtypes, kinds or roots that differ fail every participant, and nobody
    hangs; new streams work again."""
    with machine(3, progress) as rt:
        comm = Communicator(rt, timeout=20)
        good = [rt.to_device(np.ones((2, 64), np.float32), device=k) for k in range(3)]
        other = {
            "size": rt.to_device(np.ones((3, 64), np.float32), device=1),
            "dtype": rt.to_device(np.ones((2, 64), np.float16), device=1),
        }
        for what in ("size", "dtype", "kind", "root"):
            tickets = []
            for k in range(3):
                rank = comm.rank(k)
                if what == "kind" and k == 1:
                    tickets.append(rank.reduce(good[k], async_op=True))
                elif what == "root":
                    tickets.append(rank.broadcast(good[k], root=k // 2, async_op=True))
                else:
                    tickets.append(
                        rank.all_reduce(other.get(what, good[k]) if k == 1 else good[k], async_op=True)
                    )
            for ticket in tickets:
                with pytest.raises(errors.CommError, match="the ranks do not agree"):
                    ticket.wait()
            for k in range(3):
                with pytest.raises(errors.CommError):
                    rt.synchronize(k)
                rt.reset_stream(k)
        comm.all_reduce(good)
        assert (rt.to_host(good[2]) == 3).all()


def test_a_dead_peer(progress: Progress) -> None:
    """runtime checklist R105; fault R13: a device that is lost, or a rank whose stream has failed, gives ``PeerLost``
    on the others; the lost one sees its own error."""
    with machine(3, progress) as rt:
        comm = Communicator(rt, timeout=20)
        tensors = [rt.to_device(np.ones((2, 64), np.float32), device=k) for k in range(3)]
        micro(rt, 1).faults.add(FaultSpec(FaultKind.DEVICE_LOST))
        tickets = comm.all_reduce(tensors, async_op=True)
        with pytest.raises(errors.DeviceLost):
            tickets[1].wait()
        for k in (0, 2):
            with pytest.raises(errors.PeerLost, match="all_reduce: a peer failed"):
                tickets[k].wait()
        for k in (0, 2):
            rt.reset_stream(k)
        waiting = [comm.rank(k).barrier(async_op=True) for k in (0, 2)]
        with pytest.raises(errors.StreamInErrorState):
            comm.rank(1).barrier()
        for ticket in waiting:
            with pytest.raises(errors.PeerLost, match="rank 1 cannot take part"):
                ticket.wait()


def test_a_rank_that_never_comes(progress: Progress) -> None:
    """runtime checklist R105; fault R13: ``CommTimeout`` names who is missing; the stream is in ERROR, the tensor is
    as it was."""
    with machine(2, progress) as rt:
        comm = Communicator(rt, timeout=0.05)
        tensor = rt.to_device(np.ones((2, 64), np.float32), device=0)
        with pytest.raises(errors.CommTimeout, match=r"ranks that have not come: \[1\]"):
            comm.rank(0).all_reduce(tensor)
        with pytest.raises(errors.StreamInErrorState):
            rt.to_host(tensor)
        assert (rt.to_host(tensor, rt.Stream(device=0)) == 1).all()


def test_bad_arguments_are_refused_before_anything(progress: Progress) -> None:
    """Whole tensors of the rank's own device, lists of the right length, ranks and roots in range; a refusal does not
    use up a turn."""
    with machine(2, progress) as rt:
        comm = Communicator(rt, timeout=20)
        mine = [rt.to_device(np.ones((2, 64), np.float32), device=k) for k in range(2)]
        rank = comm.rank(0)
        bad: list[tuple[Callable[[], Any], type[errors.SpyreError]]] = [
            (lambda: rank.all_reduce(mine[1]), errors.ArgumentError),
            (lambda: rank.all_reduce(mine[0][:1]), errors.ArgumentError),
            (lambda: rank.all_reduce(np.ones(3)), errors.ArgumentError),  # type: ignore[arg-type]
            (
                lambda: rank.all_reduce(rt.to_device(np.ones(4, bool), device=0)),
                errors.NotSupportedCollective,
            ),
            (lambda: rank.all_gather([mine[0]], mine[0]), errors.ArgumentError),
            (lambda: rank.all_gather(mine, mine[0]), errors.ArgumentError),
            (lambda: rank.gather(None, mine[0], 0), errors.ArgumentError),
            (lambda: rank.gather([mine[0]] * 2, mine[0], 1), errors.ArgumentError),
            (lambda: rank.scatter(mine[0], [mine[0]] * 2, 1), errors.ArgumentError),
            (lambda: rank.broadcast(mine[0], 2), errors.ArgumentValueError),
            (lambda: rank.broadcast(mine[0], "0"), errors.ArgumentTypeError),  # type: ignore[arg-type]
            (lambda: rank.all_to_all([], []), errors.ArgumentError),
            (lambda: rank.send(mine[0], 1), errors.NotSupportedCollective),
            (lambda: comm.rank(2), errors.ArgumentValueError),
            (lambda: comm.all_reduce(mine[:1]), errors.ArgumentValueError),
            (lambda: Communicator(rt, [0, 0]), errors.ArgumentValueError),
            (lambda: Communicator(rt, [5]), errors.DeviceIndexError),
        ]
        for call, error in bad:
            with pytest.raises(error):
                call()
        comm.all_reduce(mine)
        assert (rt.to_host(mine[1]) == 2).all()


def test_collectives_in_a_trace(tmp_path: Any) -> None:
    """Operations of a collective carry its kind, rank, step and number into the trace."""
    with machine(2) as rt:
        comm = Communicator(rt)
        tensors = [rt.to_device(np.ones((2, 64), np.float32), device=k) for k in range(2)]
        with rt.profile(1) as profile:
            comm.all_reduce(tensors)
        args = [e["args"] for e in profile.trace()["traceEvents"] if e["name"] == "all_reduce.in"]
        assert len(args) == 1
        assert (args[0]["collective_type"], args[0]["rank"], args[0]["correlation_id"]) == (
            "all_reduce",
            1,
            0,
        )
        assert (args[0]["algorithm"], args[0]["total_bytes"]) == ("direct", 512)


def test_faults_of_collectives_lose_nothing() -> None:
    """A fault at each transfer of an all-reduce: every rank ends with an error or the right sum, memory comes back."""
    for device in range(2):
        for nth in (1, 2):
            with machine(2) as rt:
                comm = Communicator(rt, timeout=20)
                arrays = [np.full((2, 64), k + 1, np.float32) for k in range(2)]
                tensors = [rt.to_device(a, device=k) for k, a in enumerate(arrays)]
                micro(rt, device).faults.add(FaultSpec(FaultKind.DMA_ERROR, Match(nth=nth)))
                failed = 0
                for ticket in comm.all_reduce(tensors, async_op=True):
                    try:
                        ticket.wait()
                    except (errors.CommError, errors.DmaFault):
                        failed += 1
                assert failed == (2 if nth == 1 else 1)
                for k in range(2):
                    rt.reset_stream(k)
                rt.copy(arrays[0], tensors[0])
                rt.copy(arrays[1], tensors[1])
                comm.all_reduce(tensors)
                assert (rt.to_host(tensors[0]) == 3).all()
                del tensors, ticket
                gc.collect()
                assert [rt.memory_allocated(k) for k in range(2)] == [0, 0]


def test_pf_and_vf_agree(make_add: MakeAdd) -> None:
    """runtime checklist R111: region ids that look like addresses change neither results nor times."""

    def run(mode: str) -> Any:
        config = RuntimeConfig(progress=Progress.MANUAL)
        with Runtime(lambda: MicroDevice(DeviceProperties(mode=mode)), config) as rt:
            plan = rt.prepare_kernel(make_add())
            with rt.op_log() as log:
                rng = np.random.default_rng(3)
                a = rt.to_device(rng.integers(0, 9, (4, 70)).astype(np.float16))
                b = rt.empty((4, 70), "float16")
                for n in range(4):
                    rt.launch(plan, [a, a, b], bindings={"n": n})
                result = rt.to_host(b)
            times = [(o.kind, o.name, o.op_id, o.start, o.end, o.bytes) for o in log]
            return result.tobytes(), times, a.addresses()

    assert run("PF") == run("VF") == run("MOCK")
