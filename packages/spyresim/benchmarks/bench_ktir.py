"""The KTIR level: row softmax, with NumPy by hand beside it (``./nox -s bench``)."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ktir
import spyresim
from ktir.builder import Kernel

ROWS, COLUMNS, TILES = 4096, 1024, 32


def softmax() -> ktir.Module:
    """Softmax of [4096, 1024] f16 over 32 tiles; every tile walks its rows one at a time."""
    k = Kernel("softmax", grid=(TILES,))
    x, y = (k.view(k.pointer(name), (ROWS, COLUMNS), "f16") for name in "xy")
    (tile,) = k.tile_id()
    shape = (1, COLUMNS)
    with k.loop(0, ROWS // TILES) as loop:
        row = tile * (ROWS // TILES) + loop.index
        data = x[row : row + 1].load()
        power = (data - data.max((1,)).broadcast(shape, (1,))).exp()
        y[row : row + 1].store(power / power.sum((1,)).broadcast(shape, (1,)))
    return k.build()


def by_hand(x: Any) -> Any:
    """The NumPy calls of the kernel: 32 rows a step, sums from left to right."""
    out = np.empty_like(x)
    rows, results = (a.reshape(TILES, ROWS // TILES, COLUMNS) for a in (x, out))
    for step in range(ROWS // TILES):
        data = rows[:, step]
        power = np.exp(data - np.maximum.reduce(data, axis=1, keepdims=True))
        total = np.add.accumulate(power, axis=1)[:, -1:]
        results[:, step] = power / total
    return out


def seconds(function: Callable[[], Any]) -> float:
    gc.collect()
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


@pytest.fixture(scope="module")
def data() -> Any:
    return np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).astype(np.float16)


def test_row_softmax(benchmark: Any, data: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Default checks on: under 0.5 s, at most 2.5 times NumPy by hand; one tile after another beside it."""
    module = softmax()

    def run(**options: Any) -> Any:
        return spyresim.run_ktir(module, args={"x": data}, **options).outputs["y"]

    assert np.allclose(run().astype(np.float32), by_hand(data).astype(np.float32), rtol=4e-3, atol=1e-6)
    pairs = [(seconds(run), seconds(lambda: by_hand(data))) for _ in range(7)]
    ours, hand = (min(values) for values in zip(*pairs, strict=True))
    alone = run(schedule="sequential")
    assert np.array_equal(alone, run())
    sequential = seconds(lambda: run(schedule="sequential"))
    benchmark.pedantic(run, rounds=3)
    benchmark.extra_info.update(by_hand=hand, ratio=ours / hand, sequential=sequential)
    with capsys.disabled():
        print(
            f"\nsoftmax [{ROWS}, {COLUMNS}] f16, {TILES} tiles: {ours:.3f} s, NumPy by hand {hand:.3f} s "
            f"(ratio {ours / hand:.2f}), schedule sequential {sequential:.3f} s"
        )
    assert ours < 0.5
    assert ours <= 2.5 * hand


def test_memory(data: Any, benchmark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The peak is at most three times inputs plus outputs."""
    module = softmax()
    spyresim.run_ktir(module, args={"x": data})
    tracemalloc.start()
    result = benchmark.pedantic(spyresim.run_ktir, (module,), {"args": {"x": data}}, rounds=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    arrays = data.nbytes + result.outputs["y"].nbytes
    with capsys.disabled():
        print(f"\nsoftmax: peak {peak / 2**20:.1f} MiB, {peak / arrays:.2f} times inputs plus outputs")
    assert peak <= 3 * arrays
