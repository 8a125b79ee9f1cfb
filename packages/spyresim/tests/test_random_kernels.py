"""Random element-wise kernels: the KTIR level and ScheduleIR after every pass against NumPy."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import dfsched
import ktir
from spyresim import run_ktir, run_schedule
from spyresim.testing.random_kernels import FEATURES, RandomKernel, random_kernels


def same(a: Any, b: Any) -> bool:
    word = np.dtype(f"u{a.dtype.itemsize}")
    return bool(np.all((a.view(word) == b.view(word)) | ((a != a) & (b != b))))


SEEN: Counter[str] = Counter()


@pytest.mark.sweep(default=60, full=500)
@given(kernel=random_kernels())
def test_ktir_level(kernel: RandomKernel) -> None:
    SEEN.update(["all", *kernel.features])
    module = ktir.parse(kernel.text)
    ktir.verify(module)
    arguments = kernel.arguments(1)
    assert same(run_ktir(module, "kernel", arguments).outputs["out"], kernel.expected(arguments))


def test_the_kernels_have_what_they_should() -> None:
    """Half ragged, a quarter over several sticks, a quarter f32, every broadcast, a third with a loop or scalar
    (issue 2, point 4); counted over the kernels of the test above.
    """
    if not SEEN:
        test_ktir_level()
    total = SEEN["all"]
    assert SEEN["ragged"] * 2 >= total
    assert SEEN["several sticks"] * 4 >= total
    assert SEEN["f32"] * 4 >= total
    assert (SEEN["loop"] + SEEN["scalar"]) * 3 >= total
    assert all(SEEN[feature] for feature in FEATURES), SEEN


@pytest.mark.sweep(default=12, full=200)
@pytest.mark.parametrize("device", ["sample", "spyre"])
@given(kernel=random_kernels())
def test_every_pass_keeps_the_meaning(device: str, kernel: RandomKernel) -> None:
    """ScheduleIR after each pass (issue 2, point 4)."""
    compiled = dfsched.compile(ktir.parse(kernel.text), device, dfsched.Options(emit="schedule"))
    arguments = kernel.arguments(2)
    expected = kernel.expected(arguments)
    for result in compiled.passes:
        got = run_schedule(compiled, arguments, module=result.module).outputs["out"]
        assert same(got, expected), result.name
