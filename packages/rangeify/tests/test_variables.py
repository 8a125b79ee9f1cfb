"""Variables: integers that are known when a schedule runs (scheduler spec 13, 17 and 20)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rangeify
from rangeify import BindError, Config, Tensor, UnsupportedError, Variable
from rangeify import functions as f
from rangeify.lowering import clear_schedule_cache, statistics
from uopgraph import UOp, dtypes

Array = np.ndarray[Any, Any]
POSITION = UOp.variable("position", 0, 15)


def array(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.float32)


@pytest.mark.parametrize("at", [0, 7, 15])
def test_cache_with_a_bound_position(at: int) -> None:
    """checklist 61, 84: a row is written in place, then the rows up to it are summed; two kernels."""
    a, row = array(16, 4), array(1, 4, seed=1)
    cache, bound = Tensor(a), POSITION.bind(at)
    cache[bound : bound + 1] = Tensor(row)
    total = cache[: bound + 1].sum(0)
    schedule = rangeify.schedule(total)
    assert len(schedule.kernels) == 2
    assert schedule.variables == (Variable("position", 0, 15, 1, at),)
    want = a.copy()
    want[at] = row
    for order in (None, 1, 2):
        np.testing.assert_array_equal(rangeify.run(schedule, order=order)[0], want[: at + 1].sum(0))
    np.testing.assert_array_equal(total.numpy(), want[: at + 1].sum(0))
    np.testing.assert_array_equal(cache.numpy(), want)


def test_one_schedule_runs_for_every_binding() -> None:
    """rangeify checklist 21: 20 bindings, both bounds included; the text form keeps the Variable."""
    a, b = array(58, 6), array(58, seed=1)
    position = UOp.variable("position", 0, 57)
    x, w = Tensor(a), Tensor(b)
    value = x[position] * 2 + (w[: position + 1].max() + x[:, 0].sum())
    schedule = rangeify.schedule(value)
    loaded = rangeify.Schedule.from_json(schedule.to_json())
    assert loaded.variables == schedule.variables == (Variable("position", 0, 57),)
    for at in range(0, 58, 3):
        want = a[at] * 2 + (b[: at + 1].max() + a[:, 0].sum())
        np.testing.assert_array_equal(rangeify.run(schedule, bindings={"position": at})[0], want)
        got = rangeify.run(loaded, [a, b], order=at, bindings={"position": at})[0]
        np.testing.assert_array_equal(got, want)


def test_a_value_that_is_bound_is_not_in_the_key() -> None:
    """checklist 6: another value hits the schedule cache; another bound does not."""
    x = Tensor(array(16, 4))
    clear_schedule_cache()
    before = statistics.misses
    for at in (1, 2, 3):
        rangeify.schedule(x[POSITION.bind(at)] + 1)
    assert statistics.misses == before + 1
    rangeify.schedule(x[UOp.variable("position", 0, 9)] + 1)
    assert statistics.misses == before + 2


def test_only_variables_in_use_are_listed() -> None:
    """checklist 61."""
    x = Tensor(array(16, 4))
    other = UOp.variable("other", 0, 3).bind(2)
    y = x[POSITION.bind(3)] + 1
    assert [v.name for v in rangeify.schedule(y, x[other]).variables] == ["other", "position"]
    assert rangeify.schedule(x + 1).variables == ()


def test_two_values_of_one_name_do_not_meet() -> None:
    """checklist 61: the stated error."""
    x = Tensor(array(16, 4))
    with pytest.raises(BindError, match="bind mismatch on position, 3 != 4"):
        rangeify.schedule(x[POSITION.bind(3)] + x[POSITION.bind(4)])


@pytest.mark.parametrize(
    ("bindings", "message"),
    [
        (None, "no value for the Variable position"),
        ({"position": 16}, r"position = 16 is not in \[0, 15\]"),
        ({"position": -1}, "not in"),
        ({"place": 3, "position": 3}, "no Variable is called place"),
    ],
)
def test_bad_bindings_are_named(bindings: dict[str, int] | None, message: str) -> None:
    schedule = rangeify.schedule(Tensor(array(16, 4))[POSITION] + 1)
    with pytest.raises(BindError, match=message):
        rangeify.run(schedule, bindings=bindings)


def test_multiples_are_checked() -> None:
    even = UOp.variable("even", 0, 14, multiple_of=2)
    schedule = rangeify.schedule(Tensor(array(16, 4))[even] + 1)
    with pytest.raises(BindError, match="even = 3 is no multiple of 2"):
        rangeify.run(schedule, bindings={"even": 3})
    assert rangeify.run(schedule, bindings={"even": 4})[0].shape == (4,)


def test_views_with_a_variable_need_no_kernel() -> None:
    a = array(16, 4)
    schedule = rangeify.schedule(Tensor(a)[POSITION])
    assert schedule.kernels == ()
    np.testing.assert_array_equal(rangeify.run(schedule, bindings={"position": 5})[0], a[5])


SIZE = UOp.variable("size", 1, 8)
WIDTH = UOp.variable("width", 1, 4)
DEVICES = ("cpu:0", "cpu:1")


def _written(y: Any) -> Any:
    y[0] = 5
    return y


#: Programs over an (8, 4) value and a size, and what they mean for NumPy.
SIZED: dict[str, tuple[Callable[[Tensor, Any], Tensor], Callable[[Array, int], Array]]] = {
    "view": (lambda x, n: x[:n], lambda a, n: a[:n]),
    "value": (lambda x, n: x[:n] * 2, lambda a, n: a[:n] * 2),
    "turned": (lambda x, n: (x[:n] + 1).T, lambda a, n: (a[:n] + 1).T),
    "backwards": (lambda x, n: (x[:n] + 1).flip(0), lambda a, n: (a[:n] + 1)[::-1]),
    "padded": (
        lambda x, n: (x[:n] + 1).pad(((1, 0), (0, 2))),
        lambda a, n: np.pad(a[:n] + 1, ((1, 0), (0, 2))),
    ),
    "flat": (lambda x, n: (x[:n] * 2).reshape(n * 4), lambda a, n: (a[:n] * 2).reshape(-1)),
    "joined": (
        lambda x, n: f.concatenate((x[:n], x[:n] * 2)),
        lambda a, n: np.concatenate([a[:n], a[:n] * 2]),
    ),
    "rows": (lambda x, n: x[:n].sum(1), lambda a, n: a[:n].sum(1)),
    "product": (lambda x, n: x[:n] @ x[:n].T, lambda a, n: a[:n] @ a[:n].T),
    "stored": (lambda x, n: (x[:n] * 2).contiguous().sum(0) + 1, lambda a, n: (a[:n] * 2).sum(0) + 1),
    "centred": (
        lambda x, n: (x[:n] * 4 - x[:n].max(0)).contiguous() * 2,
        lambda a, n: (a[:n] * 4 - a[:n].max(0)) * 2,
    ),
    "mean": (lambda x, n: x[:n].mean(0), lambda a, n: a[:n].mean(0, dtype=np.float32)),
    "two sizes": (
        lambda x, n: (x[:n, : WIDTH.bind(2)] * 2).contiguous().sum(1) + 1,
        lambda a, n: (a[:n, :2] * 2).sum(1) + 1,
    ),
    "offset": (lambda x, n: x[n - 1 : n] * 2, lambda a, n: a[n - 1 : n] * 2),
    "written": (lambda x, n: _written(x[:n] * 2), lambda a, n: _written(a[:n] * 2)),
    "in place": (lambda x, n: _set(x, n), lambda a, n: np.concatenate([a[:n] * 2 + 1, a[n:]])),
    "elsewhere": (lambda x, n: (x[:n] * 2).to("cpu:1") + 1, lambda a, n: a[:n] * 2 + 1),
    "sum elsewhere": (lambda x, n: (x[:n] * 2).to("cpu:1").sum(0), lambda a, n: (a[:n] * 2).sum(0)),
    "view elsewhere": (lambda x, n: x[:n].to("cpu:1"), lambda a, n: a[:n]),
    "shards": (lambda x, n: x[:n].shard(DEVICES, 1) * 2, lambda a, n: a[:n] * 2),
    "all-reduce": (lambda x, n: x[:n].shard(DEVICES, 1).sum(1), lambda a, n: a[:n].sum(1)),
    "call": (lambda x, n: _called(x, n) + 1, lambda a, n: a[:n] * 2 + 1),
}


def _set(x: Tensor, n: Any) -> Tensor:
    x[:n] = x[:n] * 2
    x[:n] += 1
    return x


def _called(x: Tensor, n: Any) -> Tensor:
    p = UOp.param(0, dtypes.float32, (8, 4), "cpu")
    body = p.shrink(((0, n.unbound().param_like(1)), (0, 4))) * 2.0
    return Tensor(body.call(x.uop, n, precompile=True).gettuple(0))


@pytest.mark.parametrize("name", SIZED)
@pytest.mark.sweep(default=1, full=2)
def test_values_of_variable_size(name: str, cases: int) -> None:
    """rangeify checklist 21, 61: stored, computed from and written to, for all sizes of one schedule, and realised."""
    make, want = SIZED[name]
    a = array(8, 4)
    first = list(SIZED).index(name) % 2
    for fusion in ("rows", "reference", "rows")[first : first + cases]:
        schedule = rangeify.schedule(make(Tensor(a), SIZE.bind(3)), config=Config(fusion=fusion))
        loaded = rangeify.Schedule.from_json(schedule.to_json())
        assert all(isinstance(d, int) for b in schedule.buffers for d in b.shape)
        for n in (1, 3, 8):
            expected = want(a.copy(), n)
            for order in (None, n):
                got = rangeify.run(schedule, bindings={"size": n}, order=order)[0]
                np.testing.assert_array_equal(got, expected, str(n))
        np.testing.assert_array_equal(rangeify.run(loaded, [a], bindings={"size": 8})[0], expected)
    value = make(Tensor(a), SIZE.bind(3))
    before, expected = value + 1, want(a.copy(), 3)
    np.testing.assert_array_equal(value.numpy(), expected)
    value += 2
    value[0] = 9
    changed = expected + 2
    changed[0] = 9
    np.testing.assert_array_equal(value.numpy(), changed)
    np.testing.assert_array_equal(before.numpy(), expected + 1)


def test_what_needs_a_known_size_says_so() -> None:
    x = Tensor(array(8, 4))[: SIZE.bind(3)]
    for call in (len, lambda x: x.size, list, lambda x: x[np.array([0, 1])], lambda x: x.flatten()):
        with pytest.raises(UnsupportedError, match="symbolic"):
            call(x)
