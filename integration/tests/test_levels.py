"""All levels give the same bytes (NaNs compare as NaN): the demo's kernels and random element-wise kernels."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from levels import DeviceProcess, assert_same, check_levels, device_process, random_arguments

import dfsched
import ktir
import rangeify
import rangeify.ktir
from rangeify import Tensor
from spyresim import run_ktir
from spyresim.testing.random_kernels import FEATURES, RandomKernel, random_kernels

PIPELINES = Path(__file__).parents[1] / "pipelines"
DEVICES = ("spyre", "sample")
PARTS = 10  # the random kernels are spread over so many tests, which can run side by side


@pytest.fixture(scope="module")
def process() -> Iterator[DeviceProcess]:
    with device_process() as started:
        yield started


# -- the demo


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("kernel", "scalars"),
    [("shifted_add", {"shift": 9}), ("fused_chain", {}), ("fused_chain_sticks", {})],
)
def test_kernels_of_the_demo(
    kernel: str, scalars: dict[str, int], device: str, process: DeviceProcess, tmp_path: Path
) -> None:
    module = ktir.load(PIPELINES / f"{kernel}.mlir")
    check_levels(module, device, random_arguments(module, 1, **scalars), process, tmp_path)


def test_every_file_of_the_demo_is_among_them() -> None:
    assert {path.stem for path in PIPELINES.glob("*.mlir")} == {
        "shifted_add",
        "fused_chain",
        "fused_chain_sticks",
    }


def test_row_major_and_stick_tiled_give_the_same() -> None:
    """The fused chain exists twice; the same host arrays give the same result (on the device: above)."""
    modules = [ktir.load(PIPELINES / f"{kernel}.mlir") for kernel in ("fused_chain", "fused_chain_sticks")]
    layouts = [[arg.layout for arg in ktir.signature(module)] for module in modules]
    assert layouts[0] != layouts[1]
    arguments = random_arguments(modules[0], 1)
    rows, sticks = (run_ktir(module, args=arguments).outputs for module in modules)
    assert_same(rows, sticks, "layouts")


@pytest.mark.parametrize("device", DEVICES)
def test_kernel_from_tensors(device: str, process: DeviceProcess, tmp_path: Path) -> None:
    a, b, c = (Tensor(np.zeros(shape, np.float16)) for shape in ((96, 640), (640,), (96, 1)))
    schedule = rangeify.schedule((a * b + c).relu() * 0.5)
    program = rangeify.ktir.lower(schedule, dfsched.load_architecture(device).machine())
    (module,) = program.modules.values()
    check_levels(module, device, random_arguments(module, 4), process, tmp_path)


# -- random kernels


@cache
def kernels(count: int) -> tuple[RandomKernel, ...]:
    """Different random kernels, chosen so that every feature has its share.

    Half have a last dimension that is no whole number of sticks, a third a loop or a scalar argument, a
    quarter several sticks a row, a quarter f32, a tenth each a broadcast along first, middle and last
    dimension.
    """
    made: dict[RandomKernel, None] = {}

    @settings(max_examples=12 * count, suppress_health_check=[HealthCheck.too_slow])
    @given(kernel=random_kernels())
    def fill(kernel: RandomKernel) -> None:
        made[kernel] = None

    fill()
    pool = list(made)
    random.Random(count).shuffle(pool)
    chosen: list[RandomKernel] = []
    for number in range(count):
        wanted = {"ragged"} if number % 2 == 0 else set()
        wanted |= {"several sticks"} if number % 4 in (1, 2) else set()
        wanted |= {"f32"} if number % 4 == 3 or number % 10 == 4 else set()
        wanted |= {"scalar"} if number % 6 == 0 else {"loop"} if number % 6 == 3 else set()
        place = {0: "first", 3: "middle", 6: "last"}.get(number % 10)
        wanted |= {f"broadcast {place}"} if place else set()
        found = next((kernel for kernel in pool if wanted <= kernel.features), None)
        found = pool[0] if found is None else found
        pool.remove(found)
        chosen.append(found)
    return tuple(chosen)


@pytest.mark.sweep(default=20, full=200)
def test_random_kernels_have_their_shares(cases: int) -> None:
    chosen = kernels(cases)
    assert len(set(chosen)) == cases
    seen = Counter(feature for kernel in chosen for feature in kernel.features)
    assert seen["ragged"] >= cases / 2
    assert seen["several sticks"] >= cases / 4
    assert seen["f32"] >= cases / 4
    assert all(seen[f"broadcast {place}"] >= cases / 20 for place in ("first", "middle", "last")), seen
    assert sum(bool({"loop", "scalar"} & kernel.features) for kernel in chosen) >= cases / 3
    assert set(seen) == set(FEATURES)


@pytest.mark.sweep(default=20, full=200)
@pytest.mark.parametrize("part", range(PARTS))
def test_random_kernels(part: int, cases: int, process: DeviceProcess, tmp_path: Path) -> None:
    """Every level against every other and against NumPy; devices in turn."""
    for number, kernel in enumerate(kernels(cases)):
        if number % PARTS != part:
            continue
        module = ktir.parse(kernel.text)
        arguments = kernel.arguments(number)
        folder = tmp_path / str(number)
        folder.mkdir()
        device = DEVICES[number // PARTS % 2]
        try:
            outputs = check_levels(module, device, arguments, process, folder)
            assert_same(outputs, {"out": kernel.expected(arguments)}, "NumPy")
        except Exception as error:
            error.add_note(f"kernel {number} on {device}: {kernel}\n{kernel.text}")
            raise
