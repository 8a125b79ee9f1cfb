"""Reductions with a closed form (scheduler spec 8.4)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rangeify
from rangeify import Config, Tensor
from uopgraph import Ops


def loops_and_value(value: Tensor) -> tuple[int, Any]:
    """The number of reduction loops of the schedule, and what it computes in every block order."""
    schedule = rangeify.schedule(value, config=Config(schedule_cache=0))
    reduces = sum(n.op is Ops.REDUCE for k in schedule.kernels for n in k.body.toposort())
    results = [rangeify.run(schedule, order=order)[0] for order in (None, 1)]
    np.testing.assert_array_equal(results[0], results[1])
    return reduces, results[0]


def zeros(*shape: int, dtype: str = "float32") -> Tensor:
    return Tensor(np.zeros(shape, dtype))


def test_arange_and_what_is_made_of_it() -> None:
    """checklist 37, E9: arange, arange * 2 summed, ones summed, eye, a causal mask: no reduction loop."""
    n = np.arange(10)
    cases: list[tuple[Tensor, Any]] = [
        (Tensor.arange(10) + zeros(10, dtype="int32"), n),
        (Tensor.arange(10) + Tensor(n.astype(np.float32)), n + n),
        ((Tensor.arange(10) * 2 + 1).sum() + zeros(dtype="int32"), (n * 2 + 1).sum()),
        (Tensor.full((4, 5), 2.0).sum(1) + zeros(4), np.full(4, 10)),
        ((Tensor.arange(6).reshape(6, 1) == Tensor.arange(6)).where(1.0, 0.0) + zeros(6, 6), np.eye(6)),
        ((Tensor.arange(6).reshape(6, 1) >= Tensor.arange(6)).where(1.0, 0.0) + zeros(6, 6), np.tri(6)),
        (
            (Tensor.arange(7).reshape(7, 1) > Tensor.arange(5)).sum(1) + zeros(7, dtype="int32"),
            [0, 1, 2, 3, 4, 5, 5],
        ),
    ]
    for value, want in cases:
        reduces, got = loops_and_value(value)
        assert reduces == 0
        np.testing.assert_array_equal(got, want)


def test_arange_of_few() -> None:
    for n in range(4):
        np.testing.assert_array_equal(Tensor.arange(n).numpy(), np.arange(n))


def test_a_sum_over_an_axis_that_the_value_does_not_use() -> None:
    """checklist 39: it multiplies by the size; a maximum ignores the axis; nan and infinities stay."""
    row = np.array([1.5, -2, np.inf, np.nan], np.float32)
    wide = Tensor(row).reshape(1, 4).expand(6, 4)
    reduces, got = loops_and_value(wide.sum(0))
    assert reduces == 0
    np.testing.assert_array_equal(got, row * 6)
    reduces, got = loops_and_value(wide.max(0))
    assert reduces == 0
    np.testing.assert_array_equal(got, row)


def test_counting_an_infinity_no_time_gives_zero() -> None:
    mask = Tensor.arange(4).reshape(4, 1) > Tensor.arange(4)
    chosen = mask.where(Tensor(np.float32(np.inf)), Tensor(np.float32(0)))
    reduces, got = loops_and_value(chosen.sum(1))
    assert reduces == 0
    np.testing.assert_array_equal(got, [0, np.inf, np.inf, np.inf])


def test_gather_by_comparison_reads_the_right_row() -> None:
    """checklist 40: a one-hot product equals the gather, and is zero for an index that does not exist."""
    table = np.arange(12, dtype=np.float32).reshape(6, 2)
    index = np.array([3, 0, 5, 9], np.int32)
    hot = (Tensor(index).reshape(4, 1, 1) == Tensor.arange(6).reshape(6, 1)).where(Tensor(table), 0.0)
    _, got = loops_and_value(hot.sum(1))
    np.testing.assert_array_equal(got, np.concatenate([table[[3, 0, 5]], np.zeros((1, 2), np.float32)]))


@given(st.integers(1, 12), st.integers(1, 12), st.integers(-5, 5), st.integers(-3, 3), st.integers(0, 3))
@pytest.mark.sweep(default=60, full=2000)
def test_random_counts(rows: int, columns: int, shift: int, value: int, form: int) -> None:
    """Conditions of every form in two indices, summed over one, against NumPy."""
    i, j = np.arange(rows).reshape(rows, 1), np.arange(columns)
    t, u = Tensor.arange(rows).reshape(rows, 1), Tensor.arange(columns)

    def condition(a: Any, b: Any) -> Any:
        forms = (
            lambda: a + shift < b,
            lambda: b <= a + shift,
            lambda: (b < a) & (b > shift),
            lambda: a < shift,
        )
        return forms[form]()

    mask = condition(t, u)
    if isinstance(mask, Tensor) and mask.shape != (rows, columns):
        mask = mask.expand(rows, columns)
    got = mask.where(value, 1).sum(1) + zeros(rows, dtype="int32")
    want = np.where(np.broadcast_to(condition(i, j), (rows, columns)), value, 1).sum(1)
    reduces, result = loops_and_value(got)
    np.testing.assert_array_equal(result, want)
    assert reduces == 0
