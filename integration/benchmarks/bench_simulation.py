"""What simulating a kernel at DataflowIR level costs: with values, time alone, and with fast-forward.

Softmax over [rows, 1024] f16 on 32 cores of `spyre`.  Times are of the processor; the peak is of the arrays
and objects that the run allocates.
"""

from __future__ import annotations

import runpy
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import dfsched
import ktir
from ktir.interface import Role
from spyresim import run_dataflow
from spyresim.engine import Options
from spyresim.report import Result

FAST = Options(time_only=True)
SLOW = attrs.evolve(FAST, fast_forward=False)


SCHEDULES = runpy.run_path(str(Path(__file__).with_name("bench_schedules.py")))


def softmax(rows: int) -> dfsched.Compiled:
    inputs, body = SCHEDULES["KERNELS"]["softmax"]
    return dfsched.compile(ktir.parse(SCHEDULES["kernel"](rows, 1024, 32, inputs, body)), "spyre")


def seconds(function: Callable[[], Result], rounds: int = 1) -> tuple[float, Result]:
    """Processor time of the fastest round, and what it gave."""
    best, result = float("inf"), None
    for _ in range(rounds):
        begin = time.process_time()
        result = function()
        best = min(best, time.process_time() - begin)
    assert result is not None
    return best, result


def test_softmax(benchmark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Under 5 s and 2 GiB with values; time alone costs at 4096 rows what it costs at 512."""
    made = softmax(4096)
    (name,) = (a.name for a in ktir.signature(made.source, made.kernel) if a.role is not Role.OUTPUT)
    values = {name: np.random.default_rng(3).normal(size=(4096, 1024)).astype(np.float16)}
    full, result = seconds(lambda: run_dataflow(made, values))
    tracemalloc.start()
    run_dataflow(made, values)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    slow, timed = seconds(lambda: run_dataflow(made, {}, options=SLOW))
    fast, skipped = seconds(lambda: run_dataflow(made, {}, options=FAST), 5)
    small = softmax(512)
    few, _ = seconds(lambda: run_dataflow(small, {}, options=FAST), 5)
    benchmark.pedantic(lambda: run_dataflow(made, {}, options=FAST), rounds=3)
    with capsys.disabled():
        print(
            f"\nsoftmax 4096x1024: {full:.2f} s and {peak / 2**20:.0f} MiB with values, "
            f"{slow:.2f} s time alone, {fast:.3f} s with fast-forward; "
            f"of 512 rows {few:.3f} s ({fast / few:.2f} x)"
        )
    assert result.report.cycles == timed.report.cycles == skipped.report.cycles
    assert full < 5
    assert peak < 2**31
    assert fast < 2 * few
