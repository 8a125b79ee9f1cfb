"""Random kernels of every kind of computation: right at every level and after every pass, on four devices."""

from __future__ import annotations

import os
import re
from collections import Counter
from zlib import crc32

import pytest
from hypothesis import example, given

import dfsched
import ktir
from repository import ROOT
from spyresim import verify
from spyresim.testing.random_computations import (
    FEATURES,
    LONGEST_CHAIN,
    RandomComputation,
    random_computations,
)
from spyresim.testing.random_plans import random_policy

SWEEPS = os.environ.get("SWEEPS", "") not in ("", "0")
QUAD = str(ROOT / "packages" / "dfsched" / "tests" / "devices" / "quad.mlir")
DEVICES = {"spyre": "spyre", "sample": "sample", "sample_h": "sample_h", "quad": QUAD}

FITS_NOT = re.compile(
    r"does not compute on \w+\n.*note: it computes on|has no lanes of i16 or i32 for them$|"
    r"no pattern of the device maps '[\w.]+' to"
)
"""What a device may say of a kernel that is for another one: it lacks lanes of a type, or a function."""

SEEN: Counter[str] = Counter()
RUNS: dict[str, Counter[str]] = {device: Counter() for device in DEVICES}


def devices(kernel: RandomComputation) -> list[str]:
    """One device by default, for plain kernels more often one with f16 lanes only; all of them with SWEEPS=1."""
    names = list(DEVICES)
    if SWEEPS:
        return names
    others = [name for name in names if name != "sample_h"]
    return ["sample_h"] if kernel.is_plain else [others[crc32(kernel.text.encode()) % len(others)]]


@pytest.mark.sweep(default=40, full=1000)
@example(kernel=RandomComputation(2**64, 3))  # 3x2x64 out of a wider array in one copy
@given(kernel=random_computations())
def test_every_level_agrees(kernel: RandomComputation) -> None:
    """Bit for bit; a device refuses a kernel only for want of lanes of an element type, or of a function."""
    SEEN.update(["all", *kernel.features])
    SEEN["most operations"] = max(SEEN["most operations"], kernel.operation_count)
    SEEN["loop, scalar or reduction"] += bool({"loop", "scalar", "reduction"} & kernel.features)
    module = ktir.parse(kernel.text)
    ktir.verify(module)
    for device in devices(kernel):
        RUNS[device]["all"] += 1
        wrong = disagreement(kernel, module, device)
        assert wrong is None, f"{device}: {wrong}"


def options(kernel: RandomComputation) -> dfsched.Options:
    """For two kernels of three a plan that is drawn, otherwise the usual one."""
    return dfsched.Options(policy=random_policy(kernel.seed)) if kernel.seed % 3 else dfsched.Options()


def disagreement(kernel: RandomComputation, module: ktir.Module, device: str) -> str | None:
    """What is wrong with a kernel on a device; None if nothing is, or if the device lacks lanes or functions."""
    try:
        (found,) = verify(module, DEVICES[device], args=kernel.arguments(1), options=options(kernel))
    except dfsched.DfschedError as error:
        RUNS[device]["refused"] += 1
        return None if FITS_NOT.search(str(error)) else str(error)
    if {outcome.level for outcome in found.outcomes} != {"ktir", "schedule", "dataflow", "device"}:
        return "a level is missing"
    return (
        None if found.first is None else f"{found.first.where}: {found.first.difference or found.first.error}"
    )


def test_the_kernels_have_what_they_should() -> None:
    """Counted over the kernels of the test above: a third has a loop, a scalar argument or a reduction, and more."""
    if not SEEN:
        test_every_level_agrees()
    assert SEEN["loop, scalar or reduction"] * 3 >= SEEN["all"]
    assert all(SEEN[feature] for feature in FEATURES), SEEN
    assert SEEN["most operations"] >= LONGEST_CHAIN
    for device in ("spyre", "sample", "quad"):
        assert RUNS[device]["all"]
        assert not RUNS[device]["refused"], RUNS
    assert RUNS["sample_h"]["refused"] < RUNS["sample_h"]["all"], RUNS
