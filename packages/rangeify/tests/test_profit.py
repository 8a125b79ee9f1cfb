"""``Config.fusion = "profit"``: what is expensive to repeat is stored (reading 33)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from peer.backends import Ours
from peer.random_programs import random_program

import rangeify
from rangeify import Config, Tensor
from rangeify import functions as f
from rangeify.profit import LAUNCH, Price

REFERENCE = Config(fusion="reference")
PROFIT = Config(fusion="profit")


def array(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)


def both(x: Tensor) -> tuple[rangeify.Schedule, rangeify.Schedule]:
    """The schedules by the reference rules and by profit; they compute the same bytes."""
    schedules = rangeify.schedule(x, config=REFERENCE), rangeify.schedule(x, config=PROFIT)
    for order in (None, 1):
        a, b = (rangeify.run(s, order=order)[0] for s in schedules)
        np.testing.assert_array_equal(a, b)
    return schedules


def test_a_function_below_a_product_is_computed_once() -> None:
    """checklist E11: exp2 of a matrix in a product with 64 columns; a cheap or small one is still
    recomputed.
    """
    x, w = Tensor(array(64, 64)), Tensor(array(64, 64))
    reference, profit = both(x.exp2() @ w)
    assert [len(s.kernels) for s in (reference, profit)] == [1, 2]
    (stored,) = [b for b in profit.buffers if b.name == "t0"]
    assert stored.shape == (64, 64)
    assert "its readers would compute it 64 times" in str(stored.reason)
    assert "its readers would compute it 64 times" in profit.explain()
    assert [len(s.kernels) for s in both(x[:4, :4].exp2() @ w[:4, :4])] == [1, 1]
    assert [len(s.kernels) for s in both((x * 2) @ w[:, :1])] == [1, 1]


def test_a_function_below_windows_is_computed_once() -> None:
    x, w = Tensor(array(1, 8, 16, 16)), Tensor(array(8, 8, 3, 3))
    assert [len(s.kernels) for s in both(f.conv2d(x.exp2(), w))] == [1, 2]


def test_what_the_reference_rules_store_stays_stored() -> None:
    a = Tensor(array(16, 32))
    reference, profit = both((f.gelu(a @ Tensor(array(32, 64)))) @ Tensor(array(64, 16)))
    assert len(reference.kernels) == len(profit.kernels) == 2


def test_the_comparison() -> None:
    """By hand: k (c + s) against c + s + (1 + k) b + launch; a single reader never pays."""
    price = Price(nbytes=1000, work=10_000, source=2000, times=3)
    assert price.recomputed == 36_000
    assert price.stored == 12_000 + 4000 + LAUNCH
    assert price.pays
    assert not Price(nbytes=1000, work=10_000, source=2000, times=1).pays
    assert not Price(nbytes=1000, work=10, source=1000, times=3).pays


@pytest.mark.sweep(default=25, full=500)
def test_random_programs(cases: int) -> None:
    """The same values, and never fewer stored ones than by the reference rules."""
    ours = Ours()
    for seed in range(cases):
        outputs = random_program(seed, ours)
        schedules = [rangeify.schedule(*outputs, config=c) for c in (REFERENCE, PROFIT)]
        inputs = [array(*schedules[0].buffers[i].shape) for i in schedules[0].inputs]
        for order in (None, 1):
            for a, b in zip(*(rangeify.run(s, inputs, order=order) for s in schedules), strict=True):
                np.testing.assert_array_equal(a, b)
        assert len(schedules[0].kernels) <= len(schedules[1].kernels)
