"""Tensor programs on the simulated device: schedule, KTIR, SpyreCode, launches; equal to NumPy bit for bit."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dfsched
import rangeify
import rangeify.spyre
import spyrert
from rangeify import Tensor
from rangeify.spyre.devices import GROUP
from spyresim.device import SimDevice

ARCHITECTURE = dfsched.load_architecture("spyre")


@pytest.fixture(scope="module")
def runtime() -> spyrert.Runtime:
    return spyrert.Runtime(device_factory=lambda index: SimDevice(index, ARCHITECTURE))


def t(*shape: int, seed: int = 0, dtype: str = "float16") -> Tensor:
    rng = np.random.default_rng(seed)
    if dtype.startswith("int"):
        return Tensor(rng.integers(-99, 99, shape).astype(dtype))
    return Tensor(rng.standard_normal(shape).astype(dtype))


def two_kernels() -> Tensor:
    return (t(36, 40) + 1).contiguous().T * 2 + t(40, 36, seed=1)


def chain() -> Tensor:
    value = t(5, 70)
    for _ in range(4):
        value = (value + 1).contiguous() * 2
    return value


def written() -> Tensor:
    x = t(6, 70)
    x[2:4] = t(70, seed=1)
    return x


PROGRAMS: dict[str, Callable[[], Any]] = {
    "demo": lambda: (t(96, 640) * t(640, seed=1) + t(96, 1, seed=2)).relu() * 0.5,
    "ragged rows and columns": lambda: t(37, 130) + t(130, seed=1),
    "three dimensions": lambda: t(6, 7, 200) * t(7, 1, seed=1) + t(6, 1, 200, seed=2),
    "transposed operand": lambda: t(130, 37).T + t(37, 130, seed=1),
    "an input and its transpose": lambda: (x := t(70, 70)) + x.T,
    "outer product": lambda: (x := t(70)).reshape(70, 1) * x,
    "scalar operand": lambda: t() * t(5, 70, seed=1),
    "no dimensions": lambda: t() + 1,
    "column": lambda: t(6, 1) * 2,
    "selection": lambda: (t(5, 70) < 0).where(t(5, 70, seed=1), 1.0),
    "f32": lambda: t(5, 70, dtype="float32") * 3 - t(70, dtype="float32", seed=1),
    "computed in f32": lambda: (t(5, 70).cast("float32") * t(5, 70, seed=1).cast("float32")).cast("float16"),
    "bool": lambda: t(5, 70) < 0,
    "division": lambda: t(5, 70) / t(70, seed=1),
    "row slice": lambda: t(9, 70)[2:5] * 2,
    "copy": lambda: t(70, 5).T.contiguous(),
    "i32": lambda: t(5, 70, dtype="int32") * 3 - 1,
    "two kernels": two_kernels,
    "a chain through the arena": chain,
    "write in place": written,
    "several results": lambda: (t(4, 70) + 1, t(70, seed=1) * 2),
}


def check(runtime: spyrert.Runtime, *tensors: Tensor) -> None:
    schedule = rangeify.schedule(*tensors)
    got = rangeify.spyre.compile(schedule, ARCHITECTURE).run(runtime=runtime)
    results = got if isinstance(got, tuple) else (got,)
    for a, b in zip(results, rangeify.run(schedule), strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_on_the_device_equal_numpy(name: str, runtime: spyrert.Runtime) -> None:
    made = PROGRAMS[name]()
    check(runtime, *(made if isinstance(made, tuple) else (made,)))


def test_exp_is_within_its_tolerance(runtime: spyrert.Runtime) -> None:
    """One rounding of the exact value: at most one unit in the last place from NumPy's f16 exp."""
    x = t(5, 70)
    schedule = rangeify.schedule(x.exp())
    got = rangeify.spyre.compile(schedule, ARCHITECTURE).run(runtime=runtime)
    want = rangeify.run(schedule)[0]
    assert np.abs(got.view(np.int16).astype(int) - want.view(np.int16).astype(int)).max() <= 1


extents = st.integers(1, 5) | st.sampled_from([32, 40])
widths = st.integers(1, 5) | st.sampled_from([63, 64, 65, 130, 200])


@given(
    shape=st.tuples(extents, extents, widths),
    steps=st.lists(st.tuples(st.integers(0, 7), st.sampled_from("+*-m")), min_size=1, max_size=4),
    dtype=st.sampled_from(["float16", "float16", "float16", "float32"]),
)
@pytest.mark.sweep(default=8, full=200)
def test_random_elementwise_programs(
    shape: tuple[int, int, int], steps: list[tuple[int, str]], dtype: str, runtime: spyrert.Runtime
) -> None:
    """Operands broadcast along any dimensions, chains of operations, ragged last dimensions."""
    value = t(*shape, dtype=dtype)
    for seed, (mask, op) in enumerate(steps, 1):
        own = tuple(1 if mask >> i & 1 else d for i, d in enumerate(shape))
        operand = t(*own, seed=seed, dtype=dtype)
        match op:
            case "+":
                value = value + operand
            case "*":
                value = value * operand
            case "-":
                value = operand - value
            case _:
                value = value.maximum(operand)
    check(runtime, value)


def test_the_simulator_announces_its_device() -> None:
    """What `Executable.run` takes when it is given no runtime; read from the file, as it is when installed."""
    text = (Path(__file__).parents[2] / "packages" / "spyresim" / "pyproject.toml").read_text()
    group = tomllib.loads(text)["project"]["entry-points"][GROUP]
    (entry,) = (EntryPoint(name, value, GROUP) for name, value in group.items())
    assert entry.load() is SimDevice
