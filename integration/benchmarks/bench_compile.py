"""How long it takes from KTIR text to a SpyreCode folder (warm import, no `verify_each`).

The peer is the same kernel on a sixteenth of the rows: the time of a compilation must not depend on extents.
Printed with it: the share of reading and verifying the text.
"""

from __future__ import annotations

import runpy
import time
from pathlib import Path
from typing import Any

import pytest

import dfsched
import ktir
from spyresim.testing.compute_kernels import KERNELS as COMPUTE_KERNELS

SCHEDULES = runpy.run_path(str(Path(__file__).with_name("bench_schedules.py")))
CASES, KERNELS, kernel = (SCHEDULES[name] for name in ("CASES", "KERNELS", "kernel"))

LIMIT = 1.0
"""Seconds of the processor that a compilation may take."""


def compiled(text: str, folder: Path) -> float:
    """Seconds of the processor for one compilation."""
    start = time.process_time()
    dfsched.compile(ktir.parse(text), "spyre").write(folder)
    return time.process_time() - start


def best(text: str, folder: Path, rounds: int = 3) -> float:
    return min(compiled(text, folder) for _ in range(rounds))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]}x{case[2]} on {case[3]}")
def test_compilation(
    benchmark: Any, case: tuple[str, int, int, int, float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, rows, columns, grid, _ = case
    inputs, body = KERNELS[name]
    text = kernel(rows, columns, grid, inputs, body)
    benchmark.pedantic(lambda: compiled(text, tmp_path), rounds=3, warmup_rounds=1)
    taken = best(text, tmp_path)
    more = best(kernel(16 * rows, columns, grid, inputs, body), tmp_path)
    start = time.process_time()
    ktir.verify(ktir.parse(text))
    read = time.process_time() - start
    with capsys.disabled():
        print(
            f"\n{name:10} {rows:5}x{columns} on {grid:2}: {taken:.3f} s, "
            f"{more / taken:.2f} x for 16 times the rows, {read / taken:.0%} of it reads and verifies"
        )
    assert taken < LIMIT
    assert more < 1.5 * taken


@pytest.mark.parametrize("name", COMPUTE_KERNELS)
def test_compute_kernels(
    benchmark: Any, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kernels of every kind of computation that is in scope."""
    text = COMPUTE_KERNELS[name]
    benchmark.pedantic(lambda: compiled(text, tmp_path), rounds=1, warmup_rounds=1)
    taken = best(text, tmp_path)
    with capsys.disabled():
        print(f"\n{name:40} {taken:.3f} s")
    assert taken < LIMIT
