"""`materialize-registers` and what becomes of it: buffers in register files, numbered registers (device spec 4.6)."""

from __future__ import annotations

from pathlib import Path

import pytest

import dfsched
import ktir
from dfsched.dialects.dataflow import Opaque
from dfsched.passes import ktdf_to_ktdflowering, ktdflowering_to_dfir, materialize_registers
from dfsched.passes.base import PassContext
from ktir.attributes import DictAttr

DEVICES = Path(__file__).parent / "devices"
PLAIN = Path(dfsched.__file__).parent / "devices" / "sample_h.mlir"

EXP = """
  patterns ["pre_scheduling"] {
    pdl.pattern : benefit(1) {
      %h = type : f16
      %x = operand : %h
      %op = operation "math.exp" (%x : !pdl.value) -> (%h : !pdl.type)
      rewrite {
        %rf = attribute = "SFU_REG"
        %two = attribute = 2.0 : f16
        %k_op = operation "arith.constant" {"value" = %two, "ktdf_arch.maps_to" = %rf} -> (%h : !pdl.type)
        %k = result 0 of %k_op
        %cell = type : memref<f16, "SFU_REG">
        %nodyn = attribute = array<i32: 0, 0>
        %a_op = operation "memref.alloca" {"operandSegmentSizes" = %nodyn} -> (%cell : !pdl.type)
        %a = result 0 of %a_op
        %st = operation "memref.store" (%x, %a : !pdl.value, !pdl.value)
        %b_op = operation "memref.alloca" {"operandSegmentSizes" = %nodyn} -> (%cell : !pdl.type)
        %b = result 0 of %b_op
        %c_op = operation "memref.alloca" {"operandSegmentSizes" = %nodyn} -> (%cell : !pdl.type)
        %c = result 0 of %c_op
        %name = attribute = "math.exp"
        %regs = attribute = [NAMES]
        %seg = attribute = array<i32: 2, 2>
        %call = operation "ktdf.opaque" (%k, %a, %b, %c : !pdl.value, !pdl.value, !pdl.value, !pdl.value)
          {"template_name" = %name, "func_name" = %name,
           "dataflow_scheduler.register_names" = %regs, "operandSegmentSizes" = %seg}
        %ld = operation "memref.load" (%b : !pdl.value) -> (%h : !pdl.type)
        %y = result 0 of %ld
        replace %op with (%y : !pdl.value)
      }
    }
  }
"""
NAMES = '"c0", "in0", "out0", "t0_0"'


def device(tmp_path: Path, names: str = NAMES) -> str:
    """The plain sample device with a template for `math.exp`: a constant, one input, one output, a temporary."""
    text = PLAIN.read_text().rstrip()
    assert text.endswith("}")
    path = tmp_path / "device.mlir"
    path.write_text(text[:-1] + EXP.replace("NAMES", names) + "}\n")
    return str(path)


def kernel(columns: int) -> str:
    shape = f"2x{columns}"
    box = f"affine_set<(d0, d1) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + {columns - 1} >= 0)>"
    lines = [f"#b = {box}", "#i = affine_map<(d0, d1) -> (d0, d1)>"]
    lines.append(
        "func.func @k(%x: index, %y: index) attributes {grid = [1]} {\n%c0 = arith.constant 0 : index"
    )
    for n in "xy":
        lines.append(
            f"%v{n} = ktdp.construct_memory_view %{n}, sizes: [2, {columns}], strides: [{columns}, 1] "
            f"{{coordinate_set = #b, memory_space = #ktdp.memory_space<global>}} : memref<{shape}xf16>"
        )
        lines.append(
            f"%t{n} = ktdp.construct_access_tile %v{n}[%c0, %c0] {{access_tile_set = #b, access_tile_order = #i}} "
            f": memref<{shape}xf16> -> !ktdp.access_tile<{shape}xindex>"
        )
    lines.append(f"%a = ktdp.load %tx : <{shape}xindex> -> tensor<{shape}xf16>")
    lines.append(f"%e = math.exp %a : tensor<{shape}xf16>")
    lines.append(f"ktdp.store %e, %ty : tensor<{shape}xf16>, <{shape}xindex>\nreturn\n}}")
    return "\n".join(lines)


BODY = """
  %k = arith.constant {ktdf_arch.maps_to = "SFU_REG"} 2.0 : f16
  %i = memref.alloca() : memref<f16, "SFU_REG">
  memref.store %p, %i[] : memref<f16, "SFU_REG">
  %o = memref.alloca() : memref<f16, "SFU_REG">
  ktdf.opaque "recip" {dataflow_scheduler.register_names = ["k0", "in0", "out0"]} ins(%k, %i : f16, memref<f16, "SFU_REG">) outs(%o : memref<f16, "SFU_REG">)
  %r = memref.load %o[] : memref<f16, "SFU_REG">
"""


def materialized(columns: int = 64, body: str = BODY, devices: str = "sample") -> str:
    text = f"""
func.func @f(%x: tensor<{columns}xf16>, %e: tensor<{columns}xf16>, %s: f16) {{
  %y = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}}
       ins(%x : tensor<{columns}xf16>) outs(%e : tensor<{columns}xf16>) {{
  ^bb0(%p: f16, %q: f16):
    {body}
    linalg.yield %r : f16
  }} -> tensor<{columns}xf16>
  return
}}
"""
    module = ktir.parse(text)
    ktir.verify(module)
    context = PassContext(dfsched.load_architecture(devices))
    new = materialize_registers.run(module, context)
    ktir.verify(new)
    assert materialize_registers.run(new, context) is new
    return ktir.print_module(new)


def test_registers_stand_in_front() -> None:
    """Checklist V67: constants fill a register of all lanes, cells become registers of the vector's size."""
    lines = [line.strip() for line in materialized().splitlines()]
    start = next(number for number, line in enumerate(lines) if "arith.constant" in line)
    assert lines[start : start + 14] == [
        "%cst = arith.constant 2.000000e+00 : f16",
        '%alloc = memref.alloc() : memref<64xf16, "SFU_REG">',
        'linalg.fill ins(%cst : f16) outs(%alloc : memref<64xf16, "SFU_REG">)',
        '%alloc_0 = memref.alloca() : memref<64xf16, "SFU_REG">',
        "%c0 = arith.constant 0 : index",
        '%alloc_1 = memref.alloca() : memref<64xf16, "SFU_REG">',
        '%0 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} '
        "ins(%x : tensor<64xf16>) outs(%e : tensor<64xf16>) {",
        "^bb0(%in: f16, %out: f16):",
        'memref.store %in, %alloc_0[%c0] : memref<64xf16, "SFU_REG">',
        'ktdf.opaque "recip" {dataflow_scheduler.register_names = ["k0", "in0", "out0"]} '
        'ins(%alloc, %alloc_0 : memref<64xf16, "SFU_REG">, memref<64xf16, "SFU_REG">) '
        'outs(%alloc_1 : memref<64xf16, "SFU_REG">)',
        '%1 = memref.load %alloc_1[%c0] : memref<64xf16, "SFU_REG">',
        "linalg.yield %1 : f16",
        "} -> tensor<64xf16>",
        "return",
    ]


def test_sizes_of_registers() -> None:
    """Checklist V67: 128 elements are two vectors, 8 are part of one, 96 are neither."""
    assert 'memref.alloca() : memref<128xf16, "SFU_REG">' in materialized(128)
    assert 'memref.alloca() : memref<64xf16, "SFU_REG">' in materialized(8)
    with pytest.raises(dfsched.ScheduleError, match="96 elements, which is no multiple of the 64 lanes"):
        materialized(96)
    quad = BODY.replace("SFU_REG", "VREG")
    assert 'memref.alloc() : memref<16xf16, "VREG">' in materialized(32, quad, str(DEVICES / "quad.mlir"))


def test_values_from_outside_are_filled_in_once() -> None:
    text = materialized(64, BODY.replace("store %p", "store %s"))
    assert 'linalg.fill ins(%s : f16) outs(%alloc_0 : memref<64xf16, "SFU_REG">)' in text
    assert "memref.store" not in text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%r = memref.load %o[]", '"t.use"(%o) : (memref<f16, "SFU_REG">) -> ()\n%r = memref.load %o[]',
         "'t.use' uses a register cell; only stores, loads and ktdf.opaque may"),
        ("SFU_REG", "NOWHERE", "a register cell in no memory of the device"),
        ('2.0 : f16', '2.0 : f64\n%k2 = arith.truncf %k : f64 to f16', "SFU has no lane count for f64"),
    ],
)  # fmt: skip
def test_what_is_no_register(old: str, new: str, message: str) -> None:
    body = BODY.replace(old, new)
    if "f64" in new:
        body = body.replace("ins(%k,", "ins(%k2,")
    with pytest.raises(dfsched.DfschedError, match=message) as caught:
        materialized(64, body)
    assert isinstance(caught.value, dfsched.ScheduleError)
    assert caught.value.diagnostics[0].location is not None


@pytest.mark.parametrize("columns", [64, 200, 7])
def test_templates_have_numbered_registers(tmp_path: Path, columns: int) -> None:
    """Checklist V66: in the order of the names, R0 to R3; inputs read-only, outputs read-write."""
    compiled = dfsched.compile(ktir.parse(kernel(columns)), device(tmp_path))
    calls = [op for module in compiled.dataflow_ir.values() for op in module.walk() if isinstance(op, Opaque)]
    assert calls
    first = calls[0]
    assert first.func_name.value == "math.exp"
    assert str(first.read_only_register_dictionary) == '{c0 = "R0", in0 = "R1"}'
    assert str(first.read_write_register_dictionary) == '{out0 = "R2", t0_0 = "R3"}'
    assert str(first.attributes["dataflow_scheduler.register_names"]) == f"[{NAMES}]"
    for call in calls:
        registers = [
            str(value)
            for held in (call.read_only_register_dictionary, call.read_write_register_dictionary)
            for _, value in DictAttr.items(held)
        ]
        assert len(set(registers)) == 4  # none is shared with another operand


def test_calls_that_do_not_fit(tmp_path: Path) -> None:
    """Checklist V68: a name too few; an address between two registers."""
    text = kernel(64)
    with pytest.raises(
        dfsched.DfschedError, match=r"template 'math\.exp' has 4 operands, but 3 register names"
    ):
        dfsched.compile(ktir.parse(text), device(tmp_path, '"c0", "in0", "out0"'))
    made = dfsched.compile(ktir.parse(text), device(tmp_path), dfsched.Options(emit="schedule"))
    printed = ktir.print_module(made.schedule_ir)
    address = "arith.constant 128 : index"
    assert address in printed
    moved = ktir.parse(printed.replace(address, "arith.constant 130 : index"))
    context = PassContext(made.architecture)
    with pytest.raises(
        dfsched.DfschedError, match="register address 130 of SFU_REG is no multiple of the register size 128"
    ):
        ktdflowering_to_dfir.run(ktdf_to_ktdflowering.run(moved, context), context)


def test_generics_without_registers_stay() -> None:
    """The same object comes back."""
    module = ktir.parse("func.func @f() {\nreturn\n}")
    assert materialize_registers.run(module, PassContext(dfsched.load_architecture("sample"))) is module
