"""The cost of the example kernels of ktir under profile ``sim`` (planning spec 7.2)."""

from __future__ import annotations

import numpy as np
import pytest

import ktir
from repository import ROOT
from spyresim import run_ktir

EXAMPLES = ROOT / "packages" / "ktir" / "examples"


@pytest.mark.parametrize(
    ("name", "memory", "compute", "args"),
    [
        ("bias_relu", 2240, 60, {"x": (10, 96, 64), "b": (10, 64)}),
        ("softmax", 1920, 240, {"x": (10, 96, 64)}),
        ("matmul", 2048, 384, {"a": (3, 32, 64), "b": (4, 192, 64)}),
        ("restickify", 768, 0, {"x": (3, 128, 64)}),
    ],
)
def test_golden_values(name: str, memory: int, compute: int, args: dict[str, tuple[int, ...]]) -> None:
    """planning checklist 69: the four examples of 7.2, in cycles of 1 ns."""
    module = ktir.load(EXAMPLES / f"{name}.mlir")
    pointers = [a.name for a in ktir.signature(module, None) if str(a.role) != "output"]
    given = dict(zip(pointers, (np.zeros(shape, np.float16) for shape in args.values()), strict=True))
    report = run_ktir(module, args=given).report
    assert report.cost is not None
    assert report.cost.slowest.memory == memory
    assert report.cost.slowest.compute == compute
    assert report.cycles == memory + compute
    assert report.bottleneck == "memory"
