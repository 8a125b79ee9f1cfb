"""Kernels over unusual shapes (`integration/kernels/shapes`): every level agrees with the others and with NumPy."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import numpy as np
import pytest

import dfsched
import ktir
import spyresim
from repository import ROOT
from spyrert.errors import SymbolBindingError, TilingError

SWEEPS = os.environ.get("SWEEPS", "") not in ("", "0")
FOLDER = ROOT / "integration" / "kernels" / "shapes"
QUAD = str(ROOT / "packages" / "dfsched" / "tests" / "devices" / "quad.mlir")
DEVICES = ("spyre", "sample", QUAD)

Arguments = dict[str, object]
Outputs = dict[str, np.ndarray]
Case = tuple[Arguments, Outputs]


def normal(*shape: int, dtype: type = np.float16) -> np.ndarray:
    return np.random.default_rng(shape).normal(0, 2, shape).astype(dtype)


def check(file: str, kernel: str, case: Case, device: str) -> None:
    """All levels and the state after every pass agree, and they compute what NumPy computes."""
    module = ktir.load(FOLDER / f"{file}.mlir")
    arguments, expected = case
    (found,) = spyresim.verify(module, device, kernel=kernel, args=arguments)
    assert found.ok, found.first
    compiled = dfsched.compile(module, device, dfsched.Options(kernel=kernel))
    outputs = spyresim.run_device(compiled, arguments).outputs
    assert outputs.keys() == expected.keys()
    for name, want in expected.items():
        np.testing.assert_array_equal(outputs[name], want, strict=True)


def pairs(cases: Mapping[str, list[Case]]) -> list[object]:
    """Every case on the devices in turn; on all of them with SWEEPS=1."""
    found: list[object] = []
    number = 0
    for name, items in cases.items():
        for place, case in enumerate(items):
            chosen = DEVICES if SWEEPS else [DEVICES[number % len(DEVICES)]]
            number += 1
            for device in chosen:
                label = f"{name}-{place}-{os.path.basename(device)}"
                found.append(pytest.param(name, case, device, id=label))
    return found


# -- extents that only the launch knows


def scale_rows(n: int) -> Case:
    x, w = normal(n, 40), normal(40)
    return {"x": x, "w": w, "n": n}, {"y": x * w}


def row_max(n: int) -> Case:
    x = normal(n, 40, dtype=np.float32)
    return {"x": x, "n": n}, {"y": x.max(axis=1)}


def add_lanes(n: int) -> Case:
    a, b = normal(n, dtype=np.float32), normal(n, dtype=np.float32)[::-1].copy()
    return {"a": a, "b": b, "n": n}, {"o": (a + b) + np.arange(n, dtype=np.float32)}


def double_columns(n: int) -> Case:
    x = normal(5, 48)
    expected = x.copy()
    expected[:, :n] *= 2
    return {"x": x, "n": n}, {"x": expected}


def copy_rows(n: int) -> Case:
    x = normal(n, 40)
    return {"x": x, "n": n}, {"y": x}


def bound(make: Callable[[int], Case], *values: int) -> list[Case]:
    return [make(n) for n in values]


SYMBOLIC = {
    "scale_rows": bound(scale_rows, 4, 12, 24),
    "row_max": bound(row_max, 1, 11, 24),
    "add_lanes": bound(add_lanes, 1, 67, 200),
    "double_columns": bound(double_columns, 6, 30, 48),
    "copy_rows": bound(copy_rows, 1, 7, 30),
}


@pytest.mark.parametrize(("name", "case", "device"), pairs(SYMBOLIC))
def test_symbolic_extents(name: str, case: Case, device: str) -> None:
    """Both bounds, and extents that no tile divides; one compilation serves all of them."""
    check("symbolic_extents", name, case, device)


def test_a_launch_keeps_the_promise() -> None:
    """Values beyond the bound or off the granularity are refused, and so are tensors of another size."""
    module = ktir.load(FOLDER / "symbolic_extents.mlir")
    compiled = dfsched.compile(module, "sample", dfsched.Options(kernel="scale_rows"))
    assert compiled.spyrecode.launch is not None
    assert [arg.shape for arg in compiled.spyrecode.launch.args] == [("n", 40), (40,), ("n", 40)]
    (symbol,) = compiled.spyrecode.launch.symbols
    assert (symbol.bounds.min, symbol.bounds.max, symbol.bounds.granularity) == (4, 24, 4)
    for n, message in ((28, "may not be tiled"), (6, "not a multiple of its granularity 4")):
        arguments, _ = scale_rows(n)
        with pytest.raises(spyresim.ArgumentError, match=message) as caught:
            spyresim.run_device(compiled, arguments)
        assert isinstance(caught.value.__cause__, SymbolBindingError | TilingError)
    arguments, _ = scale_rows(8)
    with pytest.raises(spyresim.ArgumentError):
        spyresim.run_device(compiled, {**arguments, "n": 12})


def test_one_artefact_serves_every_extent() -> None:
    module = ktir.load(FOLDER / "symbolic_extents.mlir")
    compiled = dfsched.compile(module, "sample", dfsched.Options(kernel="add_lanes"))
    for n in (1, 2, 63, 64, 65, 127, 199):
        arguments, expected = add_lanes(n)
        outputs = spyresim.run_device(compiled.spyrecode, arguments, device="sample").outputs
        np.testing.assert_array_equal(outputs["o"], expected["o"])
