"""Time from the first Tensor operation to the Schedule (``./nox -s bench``), and tinygrad's beside it."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rangeify
from rangeify import Config, Tensor
from rangeify import functions as f
from rangeify.lowering import clear_schedule_cache

WIDTH, HEADS, BATCH, TOKENS = 256, 8, 2, 64


def network(layers: int, make: Callable[..., Any], ops: Any) -> Any:
    """A transformer; `ops` gives softmax, layer norm, gelu and the transpose of the last two axes."""
    x = make(BATCH, TOKENS, WIDTH)
    for _ in range(layers):
        h = ops.norm(x, make(WIDTH), make(WIDTH))
        q, k, v = (
            (h @ make(WIDTH, WIDTH)).reshape(BATCH, TOKENS, HEADS, WIDTH // HEADS).permute(0, 2, 1, 3)
            for _ in range(3)
        )
        scores = ops.softmax(q @ ops.transpose(k) * (WIDTH // HEADS) ** -0.5)
        x = x + (scores @ v).permute(0, 2, 1, 3).reshape(BATCH, TOKENS, WIDTH) @ make(WIDTH, WIDTH)
        h = ops.norm(x, make(WIDTH), make(WIDTH))
        x = x + ops.gelu(h @ make(WIDTH, 4 * WIDTH)) @ make(4 * WIDTH, WIDTH)
    return x


class Ours:
    softmax = staticmethod(f.softmax)
    gelu = staticmethod(f.gelu)
    norm = staticmethod(f.layer_norm)

    @staticmethod
    def transpose(x: Tensor) -> Tensor:
        return x.transpose()


def ours(layers: int, config: Config) -> rangeify.Schedule:
    def make(*shape: int) -> Tensor:
        return Tensor(np.zeros(shape, np.float32))

    return rangeify.schedule(network(layers, make, Ours), config=config)


def theirs(layers: int) -> int:
    """The same network with tinygrad on a device that does nothing; the number of scheduled items."""
    os.environ.setdefault("DEV", "NULL")  # read when tinygrad is imported
    tinygrad = pytest.importorskip("tinygrad")

    class Theirs:
        @staticmethod
        def softmax(x: Any) -> Any:
            return x.softmax(-1)

        @staticmethod
        def gelu(x: Any) -> Any:
            return x.gelu()

        @staticmethod
        def norm(x: Any, weight: Any, bias: Any) -> Any:
            return x.layernorm() * weight + bias

        @staticmethod
        def transpose(x: Any) -> Any:
            return x.transpose(-1, -2)

    def make(*shape: int) -> Any:
        return tinygrad.Tensor.empty(*shape, device="NULL")

    out = network(layers, make, Theirs)
    linear = out.schedule_linear() if hasattr(out, "schedule_linear") else out.schedule()
    return len(linear) if hasattr(linear, "__len__") else len(linear.src)


def cold() -> None:
    clear_schedule_cache()
    gc.collect()


@pytest.mark.parametrize("fusion", ["rows", "reference"])
@pytest.mark.parametrize("layers", [12, 24])
def test_transformer(benchmark: Any, layers: int, fusion: str) -> None:
    """Cold: nothing in the schedule cache. The peer runs once, after ours, and cold too."""
    config = Config(fusion=fusion)
    schedule = benchmark.pedantic(ours, args=(layers, config), setup=cold, rounds=5)
    assert len(schedule.kernels) <= {"rows": 11, "reference": 16}[fusion] * layers
    start = time.perf_counter()
    items = theirs(layers)
    benchmark.extra_info["kernels"] = len(schedule.kernels)
    benchmark.extra_info["tinygrad items"] = items
    benchmark.extra_info["tinygrad seconds"] = round(time.perf_counter() - start, 3)
    if fusion == "reference":
        assert len(schedule.kernels) <= items


def test_transformer_from_the_cache(benchmark: Any) -> None:
    """Warm: an equal graph on other buffers was scheduled before."""
    cold()
    ours(12, Config())
    benchmark.pedantic(ours, args=(12, Config()), rounds=5)


def test_elementwise_chain(benchmark: Any) -> None:
    """10,000 element-wise nodes become one kernel."""

    def chain() -> rangeify.Schedule:
        x, y = Tensor(np.ones(4, np.float32)), Tensor(np.ones(4, np.float32))
        value = x
        for _ in range(5000):
            value = (value * y).maximum(x)
        return rangeify.schedule(value)

    assert len(benchmark.pedantic(chain, setup=cold, rounds=2).kernels) == 1
