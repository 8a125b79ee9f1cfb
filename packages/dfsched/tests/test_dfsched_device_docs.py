"""The device of the how-to is a device."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ktir
from dfsched import load_architecture
from dfsched.architecture.lint import lint
from dfsched.patterns import apply_device_patterns

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "devices.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not part of the package")
def test_howto() -> None:
    """The page's device verifies, is free of remarks, and its pattern maps the instruction."""
    device, _, register_file, patterns = re.findall(r"```mlir[^\n]*\n(.*?)```", PAGE.read_text(), re.DOTALL)
    module = ktir.parse(device)
    ktir.verify(module)
    architecture = load_architecture(module)
    assert lint(architecture) == ()
    route = architecture.route("DRAM", "ALU")
    assert route is not None
    assert list(route.kinds) == ["DRAM", "IN", "PAD", "FEED", "ALU"]
    device = device.replace("    %in = exec_unit", f"    {register_file}    %in = exec_unit")
    with_registers = load_architecture(ktir.parse(device))
    assert any(getattr(resource, "kind", None) == "REG" for resource in with_registers.resources)
    body = device[: device.rstrip().rindex("}")] + patterns + "}\n"
    kernel = """func.func @f(%a: tensor<8xf16>) -> tensor<8xf16> {
  %e = tensor.empty() : tensor<8xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%a : tensor<8xf16>) outs(%e : tensor<8xf16>) {
  ^bb0(%x: f16, %o: f16):
    %p = math.exp %x : f16
    linalg.yield %p : f16
  } -> tensor<8xf16>
  return %r : tensor<8xf16>
}"""
    program = ktir.parse(body + kernel)
    ktir.verify(program)
    after = apply_device_patterns(program, ("pre_scheduling",))
    (exp,) = (op for op in after.walk() if op.name == "math.exp")
    assert str(exp.attributes["ktdf_arch.maps_to"]) == '"REG"'
