"""The example kernels of ktir on the whole road: each is right at every level, or refused by name and place."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import dfsched
import ktir
import spyresim
from repository import ROOT

SWEEPS = os.environ.get("SWEEPS", "") not in ("", "0")
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


ROWS = ("masked_row_max", "softmax", "rms_norm")
QUAD = str(ROOT / "packages" / "dfsched" / "tests" / "devices" / "quad.mlir")
DEVICES = ("sample", QUAD, "spyre", "sample_h")
CANNOT = ("no lanes of i16 or i32", "does not compute on f32", "no pattern of the device maps")
"""`sample_h` has lanes of f16 only, and no functions."""


def on_eight_tiles(text: str) -> str:
    """The same rows for each tile, on eight tiles instead of 32."""
    changes = (("grid = [32]", "grid = [8]"), ("10, 96, 64", "10, 24, 64"), ("10x96x64", "10x24x64"))
    for old, new in (*changes, ("[6144, 64, 1]", "[1536, 64, 1]"), ("-d1 + 95", "-d1 + 23")):
        text = text.replace(old, new)
    return text


def row_kernels() -> list[object]:
    """Each kernel on one of the devices in turn; on all of them, and on all tiles, with SWEEPS=1."""
    found = []
    for number, name in enumerate(ROWS):
        chosen = DEVICES if SWEEPS else (DEVICES[number],)
        for device in chosen:
            sizes = (True, False) if SWEEPS and device != QUAD else (True,)
            found += [pytest.param(name, device, s, id=f"{name}-{Path(device).stem}-{s}") for s in sizes]
    return found


@pytest.mark.parametrize(("name", "device", "small"), row_kernels())
def test_row_kernels_on_every_device(name: str, device: str, small: bool) -> None:
    """Masked row maxima, softmax along the sticks, RMS norm with f32 statistics (planning spec A.3 to A.5)."""
    text = (ROOT / "packages" / "ktir" / "examples" / f"{name}.mlir").read_text()
    module = ktir.parse(on_eight_tiles(text) if small else text)
    try:
        (found,) = spyresim.verify(module, device, kernel=name)
    except dfsched.DfschedError as error:
        if device != "sample_h" or not any(words in str(error) for words in CANNOT):
            raise
        pytest.skip(str(error))
    assert found.first is None, str(found.first)
