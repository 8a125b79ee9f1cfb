"""The example kernels of ktir on the whole road: each is right at every level, or refused by name and place."""

from __future__ import annotations

from pathlib import Path

import pytest

import dfsched
import ktir
import spyresim
from repository import ROOT

EXAMPLES = sorted((ROOT / "packages" / "ktir" / "examples").glob("*.mlir"))
BUILT = {"bias_relu", "restickify"}  # at least these compile today
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
