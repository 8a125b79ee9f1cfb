"""Every kind of computation that the scheduler takes, right at every level and after every pass, on all devices."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import dfsched
import ktir
import ktir.dialects.memref
from dfsched.dialects.dataflow import Opaque
from repository import ROOT
from spyresim import verify
from spyresim.testing.compute_kernels import KERNELS as COMPUTE_KERNELS
from spyresim.testing.compute_kernels import reduction
from spyresim.testing.memory_kernels import MEMORY_KERNELS

KERNELS = {**COMPUTE_KERNELS, **MEMORY_KERNELS}
SWEEPS = os.environ.get("SWEEPS", "") not in ("", "0")
QUAD = str(ROOT / "packages" / "dfsched" / "tests" / "devices" / "quad.mlir")
DEVICES = {"spyre": "spyre", "sample": "sample", "sample_h": "sample_h", "quad": QUAD}


CANNOT = ("does not compute on", "has no lanes of", "no pattern of the device maps")
"""What a device may say of a kernel that is for another one."""


def agrees(text: str, device: str) -> None:
    """All levels of the only kernel of a text agree; what the device does not compute on is said so."""
    module = ktir.parse(text)
    try:
        (found,) = verify(module, device)
    except dfsched.DfschedError as error:
        if not any(words in str(error) for words in CANNOT):
            raise
        pytest.skip(str(error))
    assert found.ok, found.first


def pairs() -> list[tuple[str, str]]:
    """Every kernel on one of the devices in turn; on all of them with SWEEPS=1."""
    if SWEEPS:
        return [(name, device) for name in KERNELS for device in DEVICES]
    devices = list(DEVICES)
    return [(name, devices[number % len(devices)]) for number, name in enumerate(KERNELS)]


@pytest.mark.parametrize(("name", "device"), pairs())
def test_every_level_agrees(name: str, device: str) -> None:
    """Different unit names, memory levels, lane counts, and a device without patterns."""
    agrees(KERNELS[name], DEVICES[device])


@pytest.mark.parametrize("device", ["spyre", "quad"])
@pytest.mark.parametrize(
    "name",
    [
        "stored, loaded and stored again",
        "compared with an argument, slt",
        "a scale per column",
        "row softmax",
    ],
)
def test_every_level_agrees_on_other_floats(name: str, device: str) -> None:
    """16-bit floats are DLFloat16: copies to the device convert, constants (1.5, -infinity) are rounded."""
    text = 'module attributes {ktdp.f16_format = "dlfloat"} {\n' + KERNELS[name] + "\n}"
    agrees(text, DEVICES[device])


REGISTERS = {"spyre": "SFP_REG", "sample": "SFU_REG", "sample_h": "SFU_REG", "quad": "VREG"}
REDUCING = ["row sums", "column sums", "the middle and the last", "everything", "row softmax", "layer norm"]


@pytest.mark.parametrize("number", range(len(REDUCING) if not SWEEPS else len(REDUCING) * 4))
def test_accumulators_in_registers(number: int) -> None:
    """The plan puts them there: `map-reduction-partials` keeps every level right."""
    name = REDUCING[number % len(REDUCING)]
    device = list(DEVICES)[number % 3 if number < len(REDUCING) else 3 - number // len(REDUCING)]
    module = ktir.parse(KERNELS[name])
    options = dfsched.Options(pins={"accumulator": REGISTERS[device]})
    try:
        (found,) = verify(module, DEVICES[device], options=options)
    except dfsched.DfschedError as error:
        assert any(words in str(error) for words in CANNOT)  # noqa: PT017
        return
    assert found.ok, found.first
    compiled = dfsched.compile(module, DEVICES[device], options)
    assert any(
        isinstance(op, ktir.dialects.memref.Alloc) and f'"{REGISTERS[device]}"' in str(op.results[0].type)
        for result in compiled.passes
        if result.name == "map-reduction-partials"
        for op in result.module.walk()
    )


@pytest.mark.parametrize("name", ["row softmax", "integer arithmetic", "cast i32 to f16, unsigned"])
def test_instruction_templates_over_registers(name: str, tmp_path: Path) -> None:
    """A device whose patterns call templates over registers instead of mapping operations."""
    text = Path(QUAD).read_text()
    mapped = 'apply_native_rewrite "ktdf_arch.map_to" (%op, %registers : !pdl.operation, !pdl.attribute)'
    called = mapped.replace("ktdf_arch.map_to", "ktdf_ext.over_registers")
    head, mark, tail = text.partition('patterns ["post_scheduling"]')
    assert mapped in head
    path = tmp_path / "templates.mlir"
    replaced = f"%called = {called} : !pdl.value\n        replace %op with (%called : !pdl.value)"
    path.write_text(head.replace(mapped, replaced) + mark + tail)
    module = ktir.parse(KERNELS[name])
    (found,) = verify(module, path)
    assert found.ok, found.first
    compiled = dfsched.compile(module, path)
    assert any(
        isinstance(op, Opaque) and "in0" in op.read_only_register_dictionary
        for program in compiled.dataflow_ir.values()
        for op in program.walk()
    )


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        (reduction((4, 256), [1]), "4"),
        (reduction((6, 4, 72), [1, 2]), "4,2"),
        (reduction((8, 70), [0], tiles=1, init="2.0"), "8"),
        (reduction((2, 8192), [1]), ""),  # a row is as large as a scratchpad: cut without being asked
    ],
    ids=["vectors", "two dimensions", "columns", "unasked"],
)
def test_reductions_in_pieces(text: str, chunks: str) -> None:
    """`reduction-dim-chunking`: the meaning stays the same to the bit, at every level."""
    settings = {"reduction-dim-chunking.num-chunks": chunks}
    module, options = ktir.parse(text), dfsched.Options(settings=settings)
    (found,) = verify(module, QUAD, options=options)
    assert found.ok, found.first
    stopped = dfsched.Options(settings=settings, stop_after="reduction-dim-chunking")
    cut = dfsched.compile(module, QUAD, stopped).passes[-1].module
    assert any(op.name == "scf.for" for op in cut.walk())
