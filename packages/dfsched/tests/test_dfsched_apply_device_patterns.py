"""The pass `apply-device-patterns` in the pipeline, on four devices."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktir
from dfsched import load_architecture
from dfsched.compilation import compile
from dfsched.options import Emit, Options
from dfsched.passes.apply_device_patterns import NAME, PRE_SCHEDULING
from dfsched.passes.base import PassContext
from dfsched.pipeline import find_passes
from ktir.attributes import DictAttr

QUAD = Path(__file__).parent / "devices" / "quad.mlir"

KERNEL = """
#all = affine_set<(r, c) : (r >= 0, -r + 7 >= 0, c >= 0, -c + 63 >= 0)>
#id = affine_map<(r, c) -> (r, c)>
func.func @k(%x: index, %o: index) {
  %c0 = arith.constant 0 : index
  %vx = ktdp.construct_memory_view %x, sizes: [8, 64], strides: [64, 1]
      {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<8x64xf16>
  %vo = ktdp.construct_memory_view %o, sizes: [8, 64], strides: [64, 1]
      {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<8x64xf16>
  %tx = ktdp.construct_access_tile %vx[%c0, %c0] {access_tile_set = #all, access_tile_order = #id}
      : memref<8x64xf16> -> !ktdp.access_tile<8x64xindex>
  %to = ktdp.construct_access_tile %vo[%c0, %c0] {access_tile_set = #all, access_tile_order = #id}
      : memref<8x64xf16> -> !ktdp.access_tile<8x64xindex>
  %a = ktdp.load %tx : !ktdp.access_tile<8x64xindex> -> tensor<8x64xf16>
  %e = math.exp %a : tensor<8x64xf16>
  %s = arith.addf %e, %a : tensor<8x64xf16>
  ktdp.store %s, %to : tensor<8x64xf16>, !ktdp.access_tile<8x64xindex>
  return
}
"""


@pytest.mark.parametrize(
    ("device", "registers"),
    [("sample", "SFU_REG"), ("spyre", "SFP_REG"), (str(QUAD), "VREG"), ("sample_h", None)],
)
def test_intrinsics_are_mapped(device: str, registers: str | None) -> None:
    """At `pre_scheduling` the device's instructions are marked, and stay so to the end (checklist V53)."""
    compiled = compile(ktir.parse(KERNEL), device, Options(emit=Emit.SCHEDULE))
    names = [result.name for result in compiled.passes]
    assert names.count(NAME) == 3
    before, after = (compiled.passes[names.index("path-expansion") - step].module for step in (2, 1))
    if registers is None:
        assert after is before
        return
    assert "maps_to" not in ktir.print_module(before)
    for module in (after, compiled.schedule_ir):
        mapped = {op.name: op.attributes.get("ktdf_arch.maps_to") for op in module.walk()}
        assert str(mapped["math.exp"]) == f'"{registers}"'
        assert mapped["arith.addf"] is None


@pytest.mark.parametrize(("device", "registers"), [("spyre", "sfp_reg"), (str(QUAD), "vreg")])
def test_mapped_operations_become_instructions(device: str, registers: str) -> None:
    """The lowering makes one instruction over the mapped registers of each (reading 13)."""
    compiled = compile(ktir.parse(KERNEL), device, Options(emit=Emit.DFIR))
    assert [result.name for result in compiled.passes].count(NAME) == 4
    (call,) = (op for op in compiled.passes[-1].module.walk() if op.name == "dataflow.opaque")
    parameters = call.attributes["parameter_dictionary"]
    assert isinstance(parameters, DictAttr)
    assert sorted(parameters) == ["in0", "memory", "out0"]
    assert str(parameters["memory"]) == f'"{registers}"'
    assert str(call.attributes["func_name"]) == '"math.exp"'


def test_alias_and_disabling() -> None:
    """The published name is an alias; a disabled pass does not run (reading 23)."""
    assert find_passes("ktdfarch-apply-patterns") == find_passes(NAME)
    options = Options(emit=Emit.SCHEDULE, disabled=frozenset([NAME]))
    compiled = compile(ktir.parse(KERNEL), "spyre", options)
    assert "maps_to" not in ktir.print_module(compiled.schedule_ir)


def test_nothing_to_do() -> None:
    """A module in which nothing matches comes back as the same object."""
    module = ktir.parse("func.func @f() { return }")
    assert PRE_SCHEDULING.run(module, PassContext(load_architecture("spyre"))) is module
