"""A wrong order, a wrong plan or a hazard inside a kernel gives wrong values in the executor, each shown
by doing it.
"""

from __future__ import annotations

import tracemalloc
from itertools import permutations
from typing import Any

import attrs
import numpy as np
import pytest

import rangeify
from rangeify import Config, Tensor, build, callify, kernels, prepare
from rangeify.executor import blocks
from rangeify.executor.execute import execute
from rangeify.executor.kernel import run_kernel
from rangeify.kernels import storage_of
from rangeify.lowering import kernel_graph, lower_sink
from rangeify.memory import lifetimes, place
from rangeify.order import Dependencies, Hazard, dependencies, in_order
from uopgraph import PatternMatcher, UOp, dtypes

Array = np.ndarray[Any, Any]


def array(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(1, 9, shape).astype(np.float32)


def test_every_order_that_breaks_an_edge_gives_wrong_values() -> None:
    """checklist 51, 52: of all orders of five kernels exactly those that keep every edge give the right
    values.
    """
    x, y, z, w = (UOp.param(i, dtypes.float32, (4,), "cpu") for i in range(4))
    x1 = x.after(x.store(x * 2.0))
    x2 = x1.after(x1.store(x1 * 5.0 + 1.0))
    effects = [
        y.after(y.store(x + 10.0)),
        z.after(z.store(x1 + 3.0)),
        w.after(w.store(x1 + 7.0)),
        x2,
    ]
    calls = lower_sink(UOp.make_sink(*effects), Config()).linear.src
    assert len(calls) == 5

    def execute(order: tuple[int, ...]) -> list[list[float]]:
        memory = [array(4, seed=i) for i in range(4)]
        for i in order:
            run_kernel(calls[i].src[0], [memory[a.arg.slot] for a in calls[i].src[1:]])
        return [m.tolist() for m in memory]

    right = execute(tuple(range(5)))
    writes = [c.src[1].arg.slot for c in calls]
    reads = [
        {a.arg.slot for a in c.src[2:]} | ({0} if writes[i] == 0 else set()) for i, c in enumerate(calls)
    ]
    # the brute-force rule: two kernels keep their order when one writes what the other touches
    edges = [
        (i, j)
        for i in range(5)
        for j in range(i + 1, 5)
        if writes[i] in reads[j] | {writes[j]} or writes[j] in reads[i]
    ]
    valid = 0
    for order in permutations(range(5)):
        keeps = all(order.index(i) < order.index(j) for i, j in edges)
        valid += keeps
        assert (execute(order) == right) == keeps, order
    assert 1 < valid < 20


X, Y, Z, W = (UOp.param(i, dtypes.float32, (6, 6), "cpu") for i in range(4))


def _turned_reader() -> list[UOp]:
    return [Y.after(Y.store(X.permute(1, 0) + 10.0)), X.after(X.store(X * 2.0))]


def _two_readers_of_a_chain() -> list[UOp]:
    x1 = X.after(X.store(X * 2.0))
    x2 = x1.after(x1.store(x1 * 5.0 + 1.0))
    return [Y.after(Y.store(X + 10.0)), Z.after(Z.store(x1 + 3.0)), W.after(W.store(x1.flip(0))), x2]


def _reader_of_a_slice() -> list[UOp]:
    part = ((1, 4), (0, 6))
    return [Y.after(Y.store(X + 1.0)), X.after(X.shrink(part).store(X.shrink(part) * 3.0))]


def _reduction_before_a_write() -> list[UOp]:
    total = X.sum((0,)).reshape(1, 6).expand(6, 6)
    return [
        Y.after(Y.store(total)),
        Z.after(Z.store(X.max((1,)).reshape(6, 1).expand(6, 6))),
        X.after(X.store(W)),
    ]


def _crossing_over() -> list[UOp]:
    x1 = X.after(X.store(X + Y))
    return [x1, Y.after(Y.store(Y + x1)), Z.after(Z.store(x1 * 2.0))]


def _stored_between() -> list[UOp]:
    kept = (X.permute(1, 0) * 2.0).contiguous()
    return [Y.after(Y.store(kept.permute(1, 0) + kept)), X.after(X.store(X * 2.0)), W.after(W.store(Z))]


PROGRAMS = [
    _turned_reader,
    _two_readers_of_a_chain,
    _reader_of_a_slice,
    _reduction_before_a_write,
    _crossing_over,
    _stored_between,
]


def before_if_possible(graph: Dependencies, first: UOp) -> list[UOp]:
    """An order of the kernels that keeps every edge and has `first` as early as it can be."""
    left = dict(graph.successors)
    needed = {first}
    while True:
        more = {k for k, later in left.items() if k not in needed and needed & set(later)}
        if not more:
            break
        needed |= more
    out: list[UOp] = []
    while left:
        ready = [k for k in left if not any(k in later for later in left.values())]
        chosen = next((k for k in ready if k in needed), ready[0])
        out.append(chosen)
        del left[chosen]
    return out


def run_in_order(kernels: list[UOp]) -> list[Array]:
    memory: dict[int, Array] = {i: array(6, 6, seed=i) for i in range(4)}
    for k in kernels:
        arguments = [storage_of(a) for a in k.src[1:]]
        for a in arguments:
            memory.setdefault(a.arg.slot, np.full(a.shape, np.nan, np.float32))
        run_kernel(k.src[0], [memory[a.arg.slot] for a in arguments])
    return [memory[i] for i in range(4)]


def test_each_write_after_read_edge_is_needed() -> None:
    """rangeify checklist 52: without one of the edges there is an order that keeps all others and reads new bytes
    (unless the others imply it)."""
    removed = 0
    for program in PROGRAMS:
        graph, _ = kernel_graph(UOp.make_sink(*program()), Config())
        whole = dependencies(graph)
        right = run_in_order(in_order(whole))
        for before, later in whole.successors.items():
            for after, hazard in later.items():
                if hazard is not Hazard.WAR:
                    continue
                kept = {
                    k: {a: h for a, h in n.items() if (k, a) != (before, after)}
                    for k, n in whole.successors.items()
                }
                order = before_if_possible(Dependencies(kept), after)
                if order.index(before) < order.index(after):
                    continue
                removed += 1
                wrong = run_in_order(order)
                assert not all(map(np.array_equal, wrong, right)), (program.__name__, before, after)
    assert removed >= 7


def without_rule(matcher: PatternMatcher, function: Any) -> PatternMatcher:
    kept = [r for r in matcher.rules if r.function is not function]
    assert len(kept) == len(matcher.rules) - 1
    return PatternMatcher(kept)


@pytest.mark.parametrize("shift", [1, -1])
def test_the_store_hazard_rule_is_needed(shift: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without staging, a kernel that shifts a buffer in place reads what other iterations wrote."""
    a = array(50)

    def schedule() -> rangeify.Schedule:
        x = Tensor(a)
        x[max(shift, 0) : 50 + min(shift, 0)] = x[max(-shift, 0) : 50 + min(-shift, 0)]
        return rangeify.schedule(x, config=Config(schedule_cache=0))

    want = a.copy()
    want[max(shift, 0) : 50 + min(shift, 0)] = a[max(-shift, 0) : 50 + min(-shift, 0)]
    assert all(np.array_equal(rangeify.run(schedule(), order=s)[0], want) for s in range(4))
    monkeypatch.setattr(prepare, "pm_prepare", without_rule(prepare.pm_prepare, prepare._store_hazard))
    with pytest.raises(rangeify.ScheduleError, match="another index"):
        schedule()
    monkeypatch.setattr(kernels, "_check_self_reads", lambda effect: None)
    hazardous = schedule()
    assert len(hazardous.kernels) == 1
    assert not all(np.array_equal(rangeify.run(hazardous, order=s)[0], want) for s in range(4))


def test_one_kernel_reads_one_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check a kernel that needs two states of a buffer reads the new one twice."""
    x1 = X.after(X.store(X + 1.0))
    body = UOp.make_sink(Y.after(Y.store(X * x1)))
    with pytest.raises(rangeify.CycleError, match="two states"):
        lower_sink(body, Config())
    monkeypatch.setattr(kernels, "_check_one_state", lambda first, second: None)
    x = array(6, 6)
    got = run_in_order(list(lower_sink(body, Config()).linear.src))[1]
    assert not np.array_equal(got, x * (x + 1))


@pytest.mark.parametrize("rule", ["old bytes", "alias"])
def test_writes_to_fresh_storage_are_needed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write in place where a live Tensor needs the old bytes gives it the new ones."""

    def readers() -> list[Array]:
        x = Tensor(array(6, 4)) if rule == "old bytes" else abs(Tensor(array(6, 4)))
        reader, flipped = x + 1, x.flip(1)
        x[1:5] = -2
        flipped.realize()
        return [x.numpy(), reader.numpy(), flipped.numpy()]

    want = readers()
    if rule == "old bytes":
        for module in (callify, build):
            monkeypatch.setattr(module, "needed_writes", lambda *arguments: frozenset())
    else:
        monkeypatch.setattr(callify, "_is_alias", lambda old, state: False)
    assert not all(map(np.array_equal, readers(), want))


def stored_chain() -> rangeify.Schedule:
    x = Tensor(array(12, 12))
    a = (x.T + 1).contiguous()
    b = (a.flip(0) * 3).contiguous()
    c = (b.T - a).contiguous()
    d = (c.flip(1) + 2).contiguous()
    return rangeify.schedule(d.T + c)


def test_a_plan_that_forgets_a_use_is_noticed() -> None:
    """The uses of each temporary in turn, but for the first, are kept from the planner. Where its place is then given
    away too early, the values are wrong; else they are right."""
    schedule = stored_chain()
    right = rangeify.run(schedule)[0]
    sizes = {i: schedule.buffers[i].nbytes for i in schedule.arena.offsets}
    true = lifetimes([k.touched for k in schedule.items], sizes)
    noticed = 0
    for victim in sizes:
        lives = [attrs.evolve(v, last=v.first) if v.key == victim else v for v in true]
        plan = place(lives, 256)
        arena = attrs.evolve(schedule.arena, offsets=plan.offsets, nbytes=plan.nbytes)
        clash = any(
            a.key != b.key
            and a.overlaps(b)
            and plan.offsets[a.key] < plan.offsets[b.key] + b.nbytes
            and plan.offsets[b.key] < plan.offsets[a.key] + a.nbytes
            for a in true
            for b in true
        )
        value = rangeify.run(attrs.evolve(schedule, arena=arena))[0]
        assert np.array_equal(value, right) != clash
        noticed += clash
    assert noticed >= 2


def test_each_lifetime_is_needed() -> None:
    """A buffer of the arena that is given the place of another live one breaks the result, for every such
    pair.
    """
    x = Tensor(array(12, 12))
    first, second = (x.T + 1).contiguous(), (x.T * 3).contiguous()
    third = (first.T + second).contiguous()
    schedule = rangeify.schedule(third.T * first + second.T)
    right = rangeify.run(schedule)[0]
    offsets = dict(schedule.arena.offsets)
    assert len(offsets) == 3
    for a in offsets:
        for b in offsets:
            if a < b:
                moved = attrs.evolve(schedule.arena, offsets={**offsets, b: offsets[a]})
                wrong = attrs.evolve(schedule, arena=moved)
                assert not np.array_equal(rangeify.run(wrong)[0], right), (a, b)


def test_a_write_outside_the_arena_is_noticed() -> None:
    x = Tensor(array(12, 12))
    schedule = rangeify.schedule((x.T + 1).contiguous().T * 2)
    arena = attrs.evolve(schedule.arena, offsets=dict.fromkeys(schedule.arena.offsets, -128))
    with pytest.raises(rangeify.ScheduleError, match="outside the arena"):
        rangeify.run(attrs.evolve(schedule, arena=arena))


def test_a_write_behind_a_temporary_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporaries stand at multiples of the alignment; the bytes up to the next one belong to nobody."""
    schedule = stored_chain()
    step, offsets = schedule.arena.alignment, schedule.arena.offsets
    sizes = {i: schedule.buffers[i].nbytes for i in offsets}
    behind = {i for i in offsets if sizes[i] % step and offsets[i] + sizes[i] not in offsets.values()}
    assert behind
    for victim in behind:

        def careless(body: UOp, memory: list[Array], rng: Any, victim: int = victim) -> None:
            run_kernel(body, memory, rng)
            for array in memory:
                whole = array
                while isinstance(whole.base, np.ndarray):
                    whole = whole.base
                if whole is not array and whole.size > schedule.arena.nbytes:
                    whole[256 + offsets[victim] + sizes[victim]] = 1

        monkeypatch.setattr("rangeify.executor.execute.run_kernel", careless)
        place = offsets[victim] + sizes[victim]
        with pytest.raises(
            rangeify.ScheduleError, match=rf"between the temporaries of the arena \(byte {place}\)"
        ):
            rangeify.run(schedule)


def test_never_written_temporaries_are_poison() -> None:
    """Leaving out the kernel that fills a temporary does not read zeros."""
    x = Tensor(array(6, 6))
    schedule = rangeify.schedule((x.T + 1).contiguous().T * 2)
    broken = attrs.evolve(schedule, items=schedule.items[1:])
    assert not np.array_equal(rangeify.run(broken)[0], np.zeros((6, 6)))
    assert not np.array_equal(rangeify.run(broken)[0], rangeify.run(schedule)[0])


def test_a_temporary_begins_as_poison() -> None:
    """What another temporary left at the same place is gone when the life of the next one begins."""
    schedule = stored_chain()
    assert len(set(schedule.arena.offsets.values())) < len(schedule.arena.offsets)
    for gone in range(len(schedule.items) - 1):
        items = (*schedule.items[:gone], *schedule.items[gone + 1 :])
        value = rangeify.run(attrs.evolve(schedule, items=items))[0]
        assert np.any(np.abs(value) > 1e6), gone  # poison is a large number


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_place_outside_a_buffer_is_named(shift: int) -> None:
    """No index wraps around, neither of a load nor of a store."""
    x, y = (UOp.param(i, dtypes.float32, (8,), "cpu") for i in range(2))
    r = UOp.range(8, 0)
    load = UOp.make_sink(y.index(r).store(x.index(r + shift)).end(r))
    store = UOp.make_sink(y.index(r + shift).store(x.index(r)).end(r))
    for effect in (load, store):
        body = kernels.split_kernels(UOp.make_sink(y.after(effect.src[0]))).src[0].src[1].src[0]
        with pytest.raises(rangeify.ScheduleError, match="of axis 0 of size 8 of its buffer"):
            run_kernel(body, [array(8), array(8)])


LARGE = {
    "matmul": lambda a: a[:300, :500] @ a[:500, :200],
    "long reduction": lambda a: a.reshape(1500 * 1501).sum(0),
    "chain": lambda a: ((a * 2 + a.T.T).relu() - a.max(1, keepdims=True)).exp() * a[:, :1],
    "pad": lambda a: a.pad([(1, 2), (3, 4)]),
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("order", [None, 5])
def test_temporaries_have_at_most_64_mebibytes(name: str, order: int | None) -> None:
    """Also where one result needs more than that, and equal to NumPy."""
    a = np.random.default_rng(1).integers(-2, 3, (1500, 1501)).astype(np.float32)
    schedule = rangeify.schedule(LARGE[name](Tensor(a)), config=Config(split_reduce=False))
    held = sum(b.nbytes for b in schedule.buffers if b.role is not rangeify.Role.INPUT)
    tracemalloc.start()
    try:
        memory = execute(schedule, order=order)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most - held < blocks.MAX_TEMPORARIES
    assert len(memory) == len(schedule.buffers)
    if name == "long reduction":
        assert rangeify.run(schedule, order=order)[0] == a.sum(dtype=np.float64)
