"""Every operation, cast, compare and reduction of KTIR kernels, scheduled and executed (issue 4).

By default each kernel of the tables is compiled for `spyre` and executed as DataflowIR, and reductions after
every pass; `SWEEPS=1` executes all of them after every pass and on every device.
"""

from __future__ import annotations

import os

import pytest
from levels import assert_same, random_arguments

import dfsched
import ktir
from ktir.dialects import arith, linalg, math, spyreop
from repository import ROOT
from spyresim import run_dataflow, run_ktir, verify
from spyresim.testing.operation_kernels import OPERATIONS, SCALAR_OPERATIONS

SWEEPS = os.environ.get("SWEEPS", "") not in ("", "0")
QUAD = str(ROOT / "packages" / "dfsched" / "tests" / "devices" / "quad.mlir")
DEVICES = ("spyre", "sample", QUAD) if SWEEPS else ("spyre",)

REFUSED = {
    "linalg.matmul", "linalg.batch_matmul", "linalg.matvec", "linalg.vecmat", "linalg.dot", "spyreop.exx2",
    "spyreop.exx2_fused", "spyreop.exx2_zeromean_fused", "spyreop.layernormscale_fused", "spyreop.slice_reduction",
}  # fmt: skip
"""What `ktir-legality-check` refuses by name."""

WIDE = {"spyreop.addi64toi64"}
"""No device has lanes of 64 bits."""


def test_the_tables_leave_nothing_out() -> None:
    """Every operation of the dialects of computations stands in some kernel, or is refused by name."""
    seen = {op.name for text in OPERATIONS.values() for op in ktir.parse(text).walk()}
    every = {op.definition.name for d in (arith, math, spyreop, linalg) for op in d.DIALECT.operations}
    shapes = {"arith.index_castui"}  # of subscripts
    assert every - seen - shapes == REFUSED | WIDE
    assert not seen & REFUSED


@pytest.mark.parametrize("device", DEVICES, ids=lambda path: path.rsplit("/", 1)[-1])
@pytest.mark.parametrize("name", OPERATIONS)
def test_scheduled_and_right(name: str, device: str) -> None:
    """Casts between f16, bf16, f32, i32 and i8; compares and selects; several uses and results; all bodies."""
    module = ktir.parse(OPERATIONS[name])
    if SWEEPS or "over rows" in name:
        (found,) = verify(module, device)
        assert found.ok, found.first
        return
    compiled = dfsched.compile(module, device, dfsched.Options(emit="dfir"))
    arguments = random_arguments(module, 7)
    machine = compiled.architecture.machine()
    wanted = run_ktir(module, compiled.kernel, arguments, machine).outputs
    assert_same(run_dataflow(compiled, arguments).outputs, wanted, name)


@pytest.mark.parametrize("device", ["spyre", "sample", QUAD], ids=lambda path: path.rsplit("/", 1)[-1])
def test_intrinsics_are_mapped_by_patterns(device: str) -> None:
    """The devices' own patterns name every function and intrinsic; only `math.floor` is a plain instruction."""
    seen: set[str] = set()
    for name, text in SCALAR_OPERATIONS.items():
        if not name.startswith(("f16: ", "i32: ")):
            continue
        options = dfsched.Options(stop_after="path-expansion", verify=False)
        for op in dfsched.compile(ktir.parse(text), device, options).passes[-1].module.walk():
            if op.definition.dialect in ("math", "spyreop") and op.operands and op.name != "math.floor":
                assert "ktdf_arch.maps_to" in op.attributes, op.name
                seen.add(op.name)
    every = {op.definition.name for d in (math, spyreop) for op in d.DIALECT.operations}
    assert every - seen == (REFUSED & every) | WIDE | {"math.floor", "spyreop.constant"}
