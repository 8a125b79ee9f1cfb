"""Benchmarks of the graph core: deep graphs, long sums, nested remainders, reshape round trips."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from uopgraph import UOp, dtypes
from uopgraph.movement import reshape_indices


def chain(n: int, name: str) -> UOp:
    x, y, p = UOp.variable(name, 0, 5), UOp.variable("y", 0, 9), UOp.variable("p", 0, 1, dtypes.bool)
    for i in range(n):
        x = x + y if i % 3 == 0 else x.maximum(y) if i % 3 == 1 else p.where(x, y)
    return x


def nested(seed: int) -> UOp:
    x = UOp.variable(f"x{seed}", 0, 10**6)
    for i in range(14):
        x = (x * 3 + i) // 2 % 1000
    return x


def shuffled_sum(seed: int) -> UOp:
    terms = [UOp.variable(f"v{i}_{seed}", 0, 9) for i in range(5000)]
    random.Random(seed).shuffle(terms)
    return terms[0].usum(*terms[1:])


def fresh(benchmark: Any, make: Callable[[int], UOp], work: Callable[[UOp], Any]) -> None:
    """Every round works on a graph of its own: nothing is cached."""
    seeds = iter(range(1000))
    benchmark.pedantic(work, setup=lambda: ((make(next(seeds)),), {}), rounds=5)


@pytest.mark.parametrize("what", ["build", "key", "bounds", "simplify", "substitute"])
def test_chain(benchmark: Any, what: str) -> None:
    work: dict[str, Callable[[UOp], Any]] = {
        "key": lambda x: x.key,
        "bounds": lambda x: x.vmax,
        "simplify": lambda x: x.simplify(),
        "substitute": lambda x: x.substitute({UOp.variable("y", 0, 9): UOp.variable("z", 0, 9)}),
    }
    if what == "build":
        seeds = iter(range(1000))
        benchmark.pedantic(lambda: chain(10_000, f"b{next(seeds)}"), rounds=5)
    else:
        fresh(benchmark, lambda seed: chain(10_000, f"x{seed}"), work[what])


def test_nested_remainders(benchmark: Any) -> None:
    fresh(benchmark, nested, lambda x: x.simplify())


def test_long_sum(benchmark: Any) -> None:
    fresh(benchmark, shuffled_sum, lambda x: x.simplify())


def test_reshape_round_trip(benchmark: Any) -> None:
    shape, through = (12, 4, 7, 10), (16, 3, 70)

    def work() -> None:
        ranges = [UOp.range(s, i) for i, s in enumerate(shape)]
        back = reshape_indices(shape, through, reshape_indices(through, shape, ranges))
        assert list(back) == ranges

    benchmark(work)
