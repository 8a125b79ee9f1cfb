"""A wrong order, a wrong plan or a hazard inside a kernel gives wrong values in the executor, each shown
by doing it.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import attrs
import numpy as np
import pytest

import rangeify
from rangeify import Config, Tensor, kernels, prepare
from rangeify.executor.kernel import run_kernel
from rangeify.lowering import lower_sink
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


def test_never_written_temporaries_are_poison() -> None:
    """Leaving out the kernel that fills a temporary does not read zeros."""
    x = Tensor(array(6, 6))
    schedule = rangeify.schedule((x.T + 1).contiguous().T * 2)
    broken = attrs.evolve(schedule, items=schedule.items[1:])
    assert not np.array_equal(rangeify.run(broken)[0], np.zeros((6, 6)))
    assert not np.array_equal(rangeify.run(broken)[0], rangeify.run(schedule)[0])
