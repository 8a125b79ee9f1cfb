"""The example kernels of ktir on the whole road: each is right at every level, or refused by name and place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dfsched
import ktir
import spyresim
from repository import ROOT

EXAMPLES = sorted((ROOT / "packages" / "ktir" / "examples").glob("*.mlir"))
BUILT = {
    "bias_relu",
    "masked_row_max",
    "restickify",
    "rms_norm",
    "softmax",
    "upcast",
}  # at least these compile
KERNELS = [(path, kernel) for path in EXAMPLES for kernel in dfsched.kernels(ktir.load(path))]


def test_they_are_found() -> None:
    assert len(EXAMPLES) == 15
    assert {kernel for _, kernel in KERNELS} > BUILT


@pytest.mark.parametrize(("path", "kernel"), KERNELS, ids=[kernel for _, kernel in KERNELS])
def test_right_or_refused(path: Path, kernel: str) -> None:
    module = ktir.load(path)
    refusals: tuple[ktir.Diagnostic, ...] = ()
    try:
        dfsched.compile(module, "spyre", dfsched.Options(kernel=kernel, emit="schedule"))
    except dfsched.UnsupportedKernel as error:
        refusals = error.diagnostics
    if not refusals:
        (verification,) = spyresim.verify(module, "spyre", kernel=kernel)
        assert verification.first is None, str(verification.first)
        return
    assert kernel not in BUILT
    for diagnostic in refusals:
        assert diagnostic.location is not None
        where = diagnostic.location.file_line_column()
        assert where is not None
        assert where[0] == str(path)
        assert where[1] > 1
        assert len(diagnostic.message) > 20


def test_residency_over_three_kernels() -> None:
    """Rows owned become sticks owned, in scratchpads that outlive the kernels (planning spec A.7)."""
    module = ktir.load(ROOT / "packages" / "ktir" / "examples" / "residency.mlir")
    x = np.random.default_rng(3).normal(size=(4, 16, 64)).astype(np.float16)
    session = spyresim.Session()
    session.run(module, "produce", {"x": x, "s1": 0})
    session.run(module, "relayout", {"s1": 0, "s2": 4096})
    result = session.run(module, "consume", {"s2": 4096})
    np.testing.assert_array_equal(result.outputs["y"], x + x)
    for core in range(4):
        owned = session.read_scratchpad(core, 8192, 16 * 64 * 2).view(np.float16).reshape(16, 64)
        np.testing.assert_array_equal(owned, (x + x)[core])
