"""Variables: integers that are known when a schedule runs (scheduler spec 13, 17 and 20)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rangeify
from rangeify import BindError, Tensor, UnsupportedError, Variable
from rangeify.lowering import clear_schedule_cache, statistics
from uopgraph import UOp

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


def test_stored_values_of_variable_size_are_named() -> None:
    with pytest.raises(UnsupportedError, match="symbolic dimension"):
        rangeify.schedule(Tensor(array(16, 4))[: POSITION + 1] + 1)
