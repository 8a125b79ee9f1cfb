"""Recording and replay, shape buckets, choosing among plans (runtime spec 3.13.6, 3.22)."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from spyrert import (
    Graph,
    Launch,
    MicroDevice,
    Overlap,
    PlanSet,
    Progress,
    Runtime,
    RuntimeConfig,
    ShapeBucketer,
    errors,
)
from spyrert.device import FaultKind, FaultSpec
from spyrert.planset import Choice
from spyrert.spyrecode import (
    Addr,
    ArgSpec,
    Bounds,
    DimSpec,
    HcmSymbol,
    LaunchSpec,
    PayloadKind,
    Role,
    SpyreCode,
    StickLayout,
    Sym,
    SymbolSpec,
    assemble,
)

MakeAdd = Callable[..., SpyreCode]
SHAPE = (4, 70)


@pytest.fixture
def manual() -> Any:
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as runtime:
        yield runtime


def ones(rt: Runtime, value: float = 1) -> Any:
    return rt.to_device(np.full(SHAPE, value, np.float16))


def out(rt: Runtime) -> Any:
    return rt.empty(SHAPE, "float16")


def rows(log: list[Any]) -> list[Any]:
    """The operation log without what a replay adds, times from its start."""
    shown = [o for o in log if o.name != "replay"]
    begin = min(o.start for o in shown)
    return [(o.kind, o.name, o.stream.id, o.start - begin, o.end - begin, o.bytes) for o in shown]


# -- replay is the eager sequence ------------------------------------------------------------------


def random_program(rt: Runtime, plan: Any, tensors: list[Any], streams: list[Any], seed: int) -> None:
    """Launches, copies, forks and joins over three streams; the same calls eagerly and recorded."""
    rng = random.Random(seed)
    origin = streams[0]
    for _ in range(3):
        for other in streams[1:]:
            other.wait_stream(origin)
        order = rng.sample(tensors, len(tensors))  # between fork and join each stream has tensors of its own
        for number, stream in enumerate(streams):
            for _ in range(rng.randrange(4)):
                a, b, c = rng.sample(order[3 * number : 3 * number + 3], 3)
                match rng.randrange(4):
                    case 0:
                        array = np.full(SHAPE, rng.randrange(5), np.float16)
                        rt.copy(array, a, stream)
                        array[...] = 99  # recorded values are those of the call
                    case 1:
                        rt.copy(a, b, stream, non_blocking=True)
                    case 2:
                        rt.copy(a[1:2, :64], b[2:3, :64], stream, non_blocking=True)
                    case _:
                        rt.launch(plan, [a, b, c], bindings={"n": rng.randrange(3)}, stream=stream)
        for other in streams[1:]:
            origin.wait_stream(other)


@pytest.mark.sweep(default=12, full=200)
@pytest.mark.parametrize("overlap", [Overlap.OFF, Overlap.THREE_STAGE], ids=lambda o: o.value)
def test_replay_equals_eager(make_add: MakeAdd, overlap: Overlap, cases: int) -> None:
    """runtime checklist R107: a replay with rebound tensors is the eager sequence, operation by operation, in memory
    and in virtual time."""
    for seed in range(cases):
        rng = np.random.default_rng(seed)
        values = [rng.integers(-3, 4, SHAPE).astype(np.float16) for _ in range(9)]

        def eager(values: list[Any] = values, seed: int = seed) -> Any:
            config = RuntimeConfig(progress=Progress.MANUAL, overlap=overlap)
            with Runtime(MicroDevice, config) as rt:
                plan = rt.prepare_kernel(make_add())
                tensors = [rt.to_device(v) for v in values]
                with rt.op_log() as log:
                    random_program(rt, plan, tensors, [rt.Stream() for _ in range(3)], seed)
                    rt.synchronize()
                return [rt.to_host(t).tobytes() for t in tensors], [(o.kind, o.name) for o in log]

        config = RuntimeConfig(progress=Progress.MANUAL, overlap=overlap)
        with Runtime(MicroDevice, config) as rt:
            plan = rt.prepare_kernel(make_add())
            recorded = [ones(rt) for _ in range(9)]
            streams = [rt.Stream() for _ in range(3)]
            with rt.op_log() as log, rt.record(streams[0]) as graph:
                random_program(rt, plan, recorded, streams, seed)
            assert log == []
            instance = graph.instantiate()
            tensors = [rt.to_device(v) for v in values]
            for old, new in zip(recorded, tensors, strict=True):
                if any(slot.storage is old.storage for slot in graph.slots):
                    instance.update(old, new)
            with rt.op_log() as log:
                instance.replay(stream=streams[0]).wait()
            memory = [rt.to_host(t).tobytes() for t in tensors]
            expected, names = eager()
            assert memory == expected
            assert sorted((o.kind, o.name) for o in log if o.name != "replay") == sorted(names)
            assert all((rt.to_host(t) == 1).all() for t in recorded)


def test_times_of_a_replay(make_add: MakeAdd) -> None:
    """runtime checklist R107: order, streams and durations of the operations are those of the eager calls."""

    def calls(rt: Runtime, plan: Any, tensors: list[Any]) -> None:
        a, b, c = tensors
        other = rt._handle(rt._context(0), 7)
        other.wait_stream(rt.current_stream())
        rt.launch(plan, [a, b, c], bindings={"n": 2})
        rt.copy(a, b, stream=other, non_blocking=True)
        rt.current_stream().wait_stream(other)
        rt.launch(plan, [b, c, a], bindings={"n": 1})

    logs = []
    for recorded in (False, True):
        with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt:
            plan = rt.prepare_kernel(make_add())
            tensors = [ones(rt, k) for k in range(3)]
            if not recorded:
                with rt.op_log() as log:
                    calls(rt, plan, tensors)
                    rt.synchronize()
            else:
                with rt.record() as graph:
                    calls(rt, plan, tensors)
                with rt.op_log() as log:
                    graph.instantiate().replay().wait()
            logs.append(rows(log))
    assert logs[0] == logs[1]
    assert len(logs[0]) == 3 + 1 + 3 + 4


def test_bindings_and_slots(rt: Runtime, make_add: MakeAdd) -> None:
    """runtime checklist R107: scalars within their bounds and tensors of the recorded shape may change, nothing else."""
    plan = rt.prepare_kernel(make_add())
    a, b, c = ones(rt), ones(rt, 2), out(rt)
    with rt.record() as graph:
        ticket = rt.launch(plan, [a, b, c], bindings={"n": 3})
        copied = rt.copy(c, b)
    assert repr(graph) == "<Graph 1 launch, 1 copy; 3 slots, 1 streams>"
    assert [slot.shape for slot in graph.slots] == [SHAPE] * 3
    for recorded in (ticket, copied):
        with pytest.raises(errors.GraphError, match="was recorded, not enqueued"):
            recorded.wait()
    assert not ticket.done()
    instance = graph.instantiate()
    instance.replay().wait()
    assert (rt.to_host(c) == 9).all()
    assert (rt.to_host(b) == 9).all()
    instance.replay({"n": 1}).wait()
    assert (rt.to_host(c) == 10).all()
    fresh = out(rt)
    instance.update(graph.slot(c), fresh)
    instance.replay().wait()
    assert (rt.to_host(fresh) == 33).all()
    assert (rt.to_host(c) == 10).all()
    for change, text in (
        (lambda: instance.replay({"n": 2000}), "'n'"),
        (lambda: instance.replay({"m": 1}), "no kernel of the graph has a symbol 'm'"),
        (lambda: instance.replay({"n": "x"}), "'n' is of type index"),
        (lambda: instance.update(0, rt.empty((5, 70), "float16")), "shapes are frozen"),
        (lambda: instance.update(0, rt.empty(SHAPE, "float32")), "has dtype"),
        (lambda: instance.update(0, fresh[:2]), "takes a whole tensor"),
        (lambda: instance.update(3, fresh), r"slots 0\.\.2"),
        (lambda: graph.slot(fresh), "is not used by the graph"),
    ):
        with pytest.raises(errors.GraphError, match=text):
            change()
    with pytest.raises(errors.ArgumentTypeError):
        instance.update("a", fresh)  # type: ignore[arg-type]
    instance.update(a, fresh)
    with pytest.raises(errors.GraphError, match="overlap in device memory"):
        instance.replay()
    instance.update(a, c)
    instance.replay().wait()


def test_groups_are_replayed_as_groups(rt: Runtime, make_add: MakeAdd) -> None:
    plan = rt.prepare_kernel(make_add())
    a, b, c = ones(rt), ones(rt), out(rt)
    with rt.record() as graph:
        rt.launch_group([Launch(plan, [a, b, c], {"n": 2}), Launch(plan, [b, c, a], {"n": 1})])
    ticket = graph.instantiate().replay()
    ticket.wait()
    assert [one.name for one in ticket.launches] == ["add", "add"]
    assert (rt.to_host(a) == 5).all()


def test_tensors_made_while_recording(rt: Runtime, make_add: MakeAdd) -> None:
    """Intermediates and host arrays of the recording belong to the graph; host arrays are copied at once."""
    plan = rt.prepare_kernel(make_add())
    result = out(rt)
    array = np.full(SHAPE, 3, np.float16)
    with rt.record() as graph:
        a = rt.to_device(array)
        array[...] = 0
        middle = out(rt)
        rt.launch(plan, [a, a, middle], bindings={"n": 1})
        rt.launch(plan, [middle, middle, result], bindings={"n": 1})
    del a, middle
    gc.collect()
    instance = graph.instantiate()
    for _ in range(3):
        instance.replay().wait()
        assert (rt.to_host(result) == 12).all()
    before = rt.memory_allocated()
    del instance, graph
    gc.collect()
    assert rt.memory_allocated() < before


def test_forbidden_calls_abort_the_recording(rt: Runtime, make_add: MakeAdd, code: SpyreCode) -> None:
    """fault L20: waiting, asking, reading and preparing are refused with ``GraphError``; the recording is aborted,
    the stream works as before."""
    plan = rt.prepare_kernel(make_add())
    a, b, c = ones(rt), ones(rt), out(rt)
    event = rt.Event()
    event.record()
    forbidden: dict[str, Callable[[Any], Any]] = {
        "synchronize": lambda s: rt.synchronize(),
        "stream.synchronize": lambda s: s.synchronize(),
        "query": lambda s: s.query(),
        "to_host": lambda s: rt.to_host(a),
        "to_host_async": lambda s: rt.to_host_async(a),
        "prepare": lambda s: rt.prepare_kernel(make_add((2, 64))),
        "event": lambda s: s.wait_event(event),
        "other stream": lambda s: rt.copy(a, b, stream=rt.Stream()),
        "nested": lambda s: rt.record().__enter__(),
        "reset": lambda s: rt.reset_stream(),
        "destroy": lambda s: s.destroy(),
        "reset device": lambda s: rt.reset_device(),
        "asking an event": lambda s: s.record_event().query(),
    }
    for name, call in forbidden.items():
        stream = rt.Stream()
        kept: list[Graph] = []

        def program(stream: Any = stream, call: Any = call, kept: list[Graph] = kept) -> None:
            with rt.record(stream) as graph:
                kept.append(graph)
                rt.launch(plan, [a, b, c], bindings={"n": 1})
                call(stream)

        with pytest.raises(errors.GraphError) as caught:
            program()
        assert "not allowed while a graph is recorded" in str(caught.value), name
        with pytest.raises(errors.GraphError, match="not complete"):
            kept[0].instantiate()
        rt.launch(plan, [a, b, c], bindings={"n": 1}, stream=stream).wait()
        assert (rt.to_host(c) == 2).all()
    assert rt.to_host(b)[0, 0] == 1


def test_a_swallowed_refusal_still_aborts(rt: Runtime) -> None:
    def program(stream: Any) -> None:
        with rt.record(stream):
            with contextlib.suppress(errors.GraphError):
                stream.query()
            rt.to_device(np.ones(3), stream=stream)

    with pytest.raises(errors.GraphError, match="query"):
        program(rt.Stream())


def test_exceptions_and_refused_launches(rt: Runtime, make_add: MakeAdd) -> None:
    """A launch that is refused is not recorded, and the recording goes on; any other exception ends it."""
    plan = rt.prepare_kernel(make_add())
    a, b, c = ones(rt), ones(rt), out(rt)
    with rt.record() as graph:
        with pytest.raises(errors.ArgumentCountError):
            rt.launch(plan, [a, b], bindings={"n": 1})
        rt.launch(plan, [a, b, c], bindings={"n": 1})
    assert repr(graph).startswith("<Graph 1 launch;")
    kept: list[Graph] = []

    def broken() -> None:
        with rt.record() as graph:
            kept.append(graph)
            raise KeyError("x")

    with pytest.raises(KeyError):
        broken()
    with pytest.raises(errors.GraphError, match="an exception ended the recording"):
        kept[0].instantiate()
    rt.to_device(np.ones(3))


def test_forks_must_join(rt: Runtime, make_add: MakeAdd) -> None:
    """A stream that joined by an event must be waited for, also if that is done by way of a third."""
    plan = rt.prepare_kernel(make_add())
    a, b, c = ones(rt), ones(rt), out(rt)
    origin, second, third = rt.Stream(), rt.Stream(), rt.Stream()

    def loose() -> None:
        with rt.record(origin):
            second.wait_stream(origin)
            rt.launch(plan, [a, b, c], bindings={"n": 1}, stream=second)

    def joined_too_early() -> None:
        with rt.record(origin):
            second.wait_stream(origin)
            event = second.record_event()
            rt.launch(plan, [a, b, c], bindings={"n": 1}, stream=second)
            origin.wait_event(event)

    for program in (loose, joined_too_early):
        with pytest.raises(errors.GraphError, match=f"stream {second.id} was not joined"):
            program()
    with rt.record(origin) as graph:
        event = origin.record_event()
        second.wait_event(event)
        rt.launch(plan, [a, b, c], bindings={"n": 1}, stream=second)
        third.wait_stream(second)
        rt.launch(plan, [b, c, a], bindings={"n": 1}, stream=third)
        origin.wait_stream(third)
        rt.launch(plan, [c, a, b], bindings={"n": 1}, stream=origin)
    for use in (event.query, event.synchronize, lambda: rt.Stream().wait_event(event)):
        with pytest.raises(errors.GraphError, match="belongs to a recorded graph"):
            use()
    instance = graph.instantiate()
    third.destroy()
    instance.replay(stream=origin).wait()
    assert [rt.to_host(t)[0, 0] for t in (a, b, c)] == [3, 5, 2]


def test_replays_of_one_instance_run_one_after_the_other(make_add: MakeAdd) -> None:
    """Two replays on two streams share the instance's memory: the second begins when the first is over."""
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt:
        plan = rt.prepare_kernel(make_add())
        a, b, c = ones(rt), ones(rt), out(rt)
        with rt.record() as graph:
            rt.launch(plan, [a, b, c], bindings={"n": 1})
            rt.launch(plan, [c, b, a], bindings={"n": 1})
        instance = graph.instantiate()
        with rt.op_log() as log:
            tickets = [instance.replay(stream=rt.Stream()) for _ in range(3)]
            for ticket in tickets:
                ticket.wait()
        spans: dict[int, list[int]] = {}
        for o in log:
            if o.stream is not None and o.kind == "Compute":
                spans.setdefault(o.stream.id, []).extend((o.start, o.end))
        ordered = sorted(spans.values())
        assert len(ordered) == 3
        assert all(max(x) <= min(y) for x, y in itertools.pairwise(ordered))
        assert (rt.to_host(a) == 7).all()


def test_failure_of_a_replay(make_add: MakeAdd) -> None:
    """The stream fails as usual; the instance works on a new stream, also if a recorded stream has failed."""
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt:
        device = rt.device()
        assert isinstance(device, MicroDevice)
        plan = rt.prepare_kernel(make_add())
        a, b, c, d = ones(rt), ones(rt), out(rt), out(rt)
        origin, fork = rt.Stream(), rt.Stream()
        with rt.record(origin) as graph:
            fork.wait_stream(origin)
            rt.launch(plan, [a, b, c], bindings={"n": 1}, stream=fork)
            origin.wait_stream(fork)
            rt.launch(plan, [c, b, d], bindings={"n": 1})
        instance = graph.instantiate()
        device.faults.add(FaultSpec(FaultKind.COMPUTE_FAULT))
        ticket = instance.replay(stream=origin)
        with pytest.raises(errors.SpyreError):
            ticket.wait()
        assert isinstance(fork.error, errors.ComputeFault)
        assert isinstance(origin.error, errors.EventPoisoned)
        with pytest.raises(errors.StreamInErrorState):
            instance.replay(stream=origin)
        instance.replay(stream=rt.Stream()).wait()
        assert (rt.to_host(d) == 3).all()
        rt.reset_device()
        with pytest.raises(errors.GraphError, match="reset"):
            instance.replay()


def test_released_plans_and_dead_tensors(manual: Runtime, make_add: MakeAdd) -> None:
    """A graph keeps its tensors and plans alive; a plan that is released explicitly refuses replays."""
    rt = manual
    plan = rt.prepare_kernel(make_add())
    a, b, c = ones(rt), ones(rt), out(rt)
    with rt.record() as graph:
        rt.launch(plan, [a, b, c], bindings={"n": 1})
    instance = graph.instantiate()
    del a, b
    gc.collect()
    instance.replay().wait()
    assert (rt.to_host(c) == 2).all()
    plan.release()
    with pytest.raises(errors.PlanReleased):
        instance.replay()


def test_dynamic_memory_is_reserved_once(manual: Runtime) -> None:
    """Replays allocate no dynamic memory: one block per stream and size, freed with the instance."""
    rt = manual
    code = assemble(b"[]", PayloadKind.OP_LIST, LaunchSpec("scratch"), dynamic_size=1 << 10)
    plan = rt.prepare_kernel(code)
    with rt.record() as graph:
        for _ in range(3):
            rt.launch(plan, [])
    before = rt.memory_allocated()
    instance = graph.instantiate()
    assert rt.memory_allocated() == before + 1024
    tickets = [instance.replay() for _ in range(2)]
    assert rt.memory_allocated() == before + 1024
    for ticket in tickets:
        ticket.wait()
    del instance
    gc.collect()
    assert rt.memory_allocated() == before


def test_other_threads_are_not_recorded(rt: Runtime) -> None:
    """A recording is of one thread; what others enqueue meanwhile runs."""
    import threading

    tensor = rt.to_device(np.zeros(4, np.float32))
    stream = rt.Stream()
    with rt.record(stream) as graph:
        thread = threading.Thread(target=lambda: rt.copy(np.ones(4, np.float32), tensor, stream))
        thread.start()
        thread.join()
    assert repr(graph) == "<Graph empty; 0 slots, 1 streams>"
    assert (rt.to_host(tensor) == 1).all()


# -- buckets ---------------------------------------------------------------------------------------


def test_buckets() -> None:
    """runtime checklist R106"""
    assert ShapeBucketer.default_ladder(6) == (1, 2, 4, 6, 512)
    assert ShapeBucketer.default_ladder(8, prefill=16) == (1, 2, 4, 8, 16)
    buckets = ShapeBucketer(ShapeBucketer.default_ladder(6), strict=True)
    assert [buckets.bucket(n) for n in (0, 1, 3, 5, 7, 129, 512)] == [1, 1, 4, 6, 512, 512, 512]
    assert buckets.bucket(513) is None
    assert buckets.warmup_order() == (512, 6, 4, 2, 1)
    assert buckets.clipped(6) == (1, 2, 4, 6)
    buckets.mark_warm()
    with pytest.raises(errors.GraphError, match="size 513 exceeds the largest bucket, 512"):
        buckets.bucket(513)
    lenient = ShapeBucketer([4])
    lenient.mark_warm()
    assert lenient.bucket(5) is None
    for bad in ([], [0], ["a"], [2.5]):
        with pytest.raises(errors.ArgumentError):
            ShapeBucketer(bad)  # type: ignore[arg-type]


# -- plan sets -------------------------------------------------------------------------------------


def static(rt: Runtime, shape: tuple[int, int], dims: bool = False) -> Any:
    """A kernel for one shape; with ``dims`` its rows may be tiled."""
    layout = StickLayout((shape[0], 1, 64), (64, 64, 1), "float16")
    names = ("M", None) if dims else None
    args = tuple(
        ArgSpec(role, shape, "float16", layout, name, dims=names)
        if names
        else ArgSpec(role, shape, "float16", layout, name)
        for role, name in ((Role.INPUT, "x"), (Role.OUTPUT, "y"))
    )
    spec = LaunchSpec("k", args, (), (DimSpec("M"),) if dims else ())
    return rt.prepare_kernel(assemble(json.dumps([]).encode(), PayloadKind.OP_LIST, spec))


def symbolic(rt: Runtime, least: int, greatest: int, granularity: int = 1) -> Any:
    layout = StickLayout((greatest, 1, 64), (64, 64, 1), "float16")
    args = tuple(
        ArgSpec(role, ("rows", 64), "float16", layout, name)
        for role, name in ((Role.INPUT, "x"), (Role.OUTPUT, "y"))
    )
    spec = LaunchSpec("k", args, (SymbolSpec("rows", "index", Bounds(least, greatest, granularity)),))
    symbols = [HcmSymbol(-1, Sym("rows")), HcmSymbol(-2, Addr(0))]
    return rt.prepare_kernel(assemble(json.dumps([]).encode(), PayloadKind.OP_LIST, spec, symbols))


def test_plan_selection(manual: Runtime) -> None:
    """runtime spec 3.13.6: exact before symbolic before bucket before tiles; the refusal says why for every plan."""
    rt = manual
    exact, tile = static(rt, (32, 64)), static(rt, (16, 64), dims=True)
    small, large = symbolic(rt, 4, 64, 4), symbolic(rt, 1, 256)
    plans = PlanSet("k", [large, tile, small, exact])

    def choose(rows: int, **options: Any) -> Any:
        return plans.select([(rows, 64)] * 2, **options)

    assert (choose(32).plan, choose(32).choice) == (exact, Choice.EXACT)
    assert (choose(16).plan, choose(16).choice) == (tile, Choice.EXACT)
    assert (choose(36).plan, choose(36).choice) == (small, Choice.SYMBOLIC)
    assert choose(35).plan is large
    assert choose(100).plan is large

    few = PlanSet("k", [tile, exact])
    padded = few.select([(20, 64)] * 2, bucket=True)
    assert (padded.plan, padded.choice, padded.shapes) == (exact, Choice.BUCKET, ((32, 64), (32, 64)))
    assert few.select([(5, 64)] * 2, bucket=True).plan is tile
    layouts = [StickLayout((64, 1, 64), (64, 64, 1), "float16")] * 2
    tiled = few.select([(64, 64)] * 2, layouts=layouts)
    assert (tiled.plan, tiled.choice, tiled.tiles) == (exact, Choice.TILED, 2)
    with pytest.raises(errors.ShapeMismatch, match="no plan of 'k' takes shapes") as caught:
        few.select([(20, 64)] * 2)
    assert sum(plan.digest[:8] in str(caught.value) for plan in (tile, exact)) == 2
    with pytest.raises(errors.ShapeMismatch, match="has dtype float32, expected float16"):
        few.select([(32, 64)] * 2, dtypes=["float32", "float16"])
    with pytest.raises(errors.ShapeMismatch, match="it takes 2 tensors, got 1"):
        few.select([(32, 64)])
    exact.release()
    assert (
        few.select([(32, 64)] * 2, layouts=[StickLayout((32, 1, 64), (64, 64, 1), "float16")] * 2).plan
        is tile
    )
    with pytest.raises(errors.ArgumentTypeError):
        PlanSet("k", ["plan"])  # type: ignore[list-item]


def test_selection_by_tensors(manual: Runtime) -> None:
    """What is selected for tensors can be launched with them."""
    rt = manual
    plans = PlanSet("k", [static(rt, (32, 64)), static(rt, (16, 64), dims=True), symbolic(rt, 4, 64, 4)])
    for count in (16, 32, 36, 128):
        layout = StickLayout((count, 1, 64), (64, 64, 1), "float16")
        tensors = [rt.empty((count, 64), "float16", layout) for _ in range(2)]
        selection = plans.select_for(tensors)
        ticket = rt.launch(selection.plan, tensors)
        ticket.wait()
        assert ticket.tiles == selection.tiles
