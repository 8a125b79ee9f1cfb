"""DataflowIR to images: instructions, tables, descriptors, symbols, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dfsched
import ktir
from dfsched import image as im
from dfsched.codegen import CodegenError, build_image, labels
from dfsched.codegen.build import BuiltImage
from dfsched.codegen.inspect import expression_text
from dfsched.codegen.registers import VirtualCode, parallel_copy
from dfsched.image.listing import instruction_text, listing
from ktir.dialects.builtin import Module
from spyrert.spyrecode import (
    Addr,
    ArgSpec,
    ArgumentInputs,
    HostInputs,
    LaunchSpec,
    LinearLayout,
    Role,
    SymbolSpec,
    symbol_values,
)
from spyrert.spyrecode.hcm import Hcm

SAMPLE = dfsched.load_architecture("sample")
LINEAR = LinearLayout("float16")
LAUNCH = LaunchSpec(
    "k",
    args=(ArgSpec(Role.INPUT, (16, 64), "float16", LINEAR, "a", 0),),
    symbols=(SymbolSpec("n", "index", kernel_position=1),),
)
GLOBAL = """
func.func @k(%a: index, %n: index) attributes {grid = [2 : index]} {
  symbol.create_id %a {symbol_id = -1 : si64} : index
  symbol.create_id %n {symbol_id = -2 : si64} : index
  call @p(%a, %n) : (index, index) -> ()
  return
}
func.func @p(%a: index, %n: index) {
  %c64 = arith.constant 64 : index
  %c1024 = arith.constant 1024 : index
  symbol.create_id %a {symbol_id = -1 : si64} : index
  symbol.create_id %n {symbol_id = -2 : si64} : index
  %0 = arith.divsi %a, %c64 : index
  symbol.create_id %0 {symbol_id = -3 : si64} : index
  %1 = arith.addi %a, %c1024 : index
  %2 = arith.divsi %1, %c64 : index
  symbol.create_id %2 {symbol_id = -4 : si64} : index
  call @p_body() : () -> ()
  return
}
func.func private @p_body()
"""
UNITS = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c128 = arith.constant 128 : index
  %ld0 = dataflow.get_unit {core = 0 : i32, corelet = 0 : i32, name = "C0-mnilu", type = "mnilu"} : index
  %ld1 = dataflow.get_unit {core = 1 : i32, corelet = 0 : i32, name = "C1-mnilu", type = "mnilu"} : index
  %lu0 = dataflow.get_unit {core = 0 : i32, corelet = 0 : i32, name = "C0-l1lu", type = "l1lu"} : index
  %lu1 = dataflow.get_unit {core = 1 : i32, corelet = 0 : i32, name = "C1-l1lu", type = "l1lu"} : index
  %fu0 = dataflow.get_unit {core = 0 : i32, corelet = 0 : i32, name = "C0-sfu", type = "sfu"} : index
  %fu1 = dataflow.get_unit {core = 1 : i32, corelet = 0 : i32, name = "C1-sfu", type = "sfu"} : index
  %su0 = dataflow.get_unit {core = 0 : i32, corelet = 0 : i32, name = "C0-l1su", type = "l1su"} : index
  %su1 = dataflow.get_unit {core = 1 : i32, corelet = 0 : i32, name = "C1-l1su", type = "l1su"} : index
  %ddr = dataflow.get_unit {name = "ddr", type = "ddr"} : index
  %reg = dataflow.get_unit {name = "sfu_reg", type = "sfu_reg"} : index
  %s0 = dataflow.get_unit {core = 0 : i32, name = "C0-l1", type = "l1"} : index
  %s1 = dataflow.get_unit {core = 1 : i32, name = "C1-l1", type = "l1"} : index
"""
LOADER = """
  %sm = uniform.def_immutable_mapping([%ld0 -> %s0], [%ld1 -> %s1]):index
  %sp = uniform.query_map(map:%sm, key:%me) : index
  %y3 = symbol.create_symbol {SymbolId = -3 : i64} : index
  %y4 = symbol.create_symbol {SymbolId = -4 : i64} : index
  %ym = uniform.def_immutable_mapping([%ld0 -> %y3], [%ld1 -> %y4]):index
  %ya = uniform.query_map(map:%ym, key:%me) : index
  %src = dataflow.get_logical_memory_view %ddr, %ya {layout_map = affine_map<(d0, d1) -> (d0 * 64 + d1)>} : index, index, memref<16x64xf16>
  %buf = dataflow.get_logical_memory_view %sp, %c128 {layout_map = affine_map<(d0, d1) -> (d0 * 64 + d1)>} : index, index, memref<2x64xf16>
"""
COPY = """agen.composite_load_and_store src:%src[%i * 2, 0] dst:%buf[0, 0]
   time_symbols(), load_iv(%v0:vector<64xf16>)
   {load_order = affine_map<(d0, d1) -> (d0, d1)>, load_set = affine_set<(d0, d1) : (d0 == 0, d1 >= 0, -d1 + 63 >= 0)>, load_time_addr_map = affine_map<(d0) -> (d0, 0)>, store_order = affine_map<(d0, d1) -> (d0, d1)>, store_set = affine_set<(d0, d1) : (d0 == 0, d1 >= 0, -d1 + 63 >= 0)>, store_time_addr_map = affine_map<(d0) -> (d0, 0)>, time_order = affine_map<(d0) -> (d0)>, time_set = affine_set<(d0) : (d0 >= 0, -d0 + 1 >= 0)>}
  {
    agen.yield
  } : memref<16x64xf16>, memref<2x64xf16>"""


def loader(body: str) -> str:
    return f"dataflow.program_unit iter_arg : %me -> (%ld0, %ld1) : {{ {LOADER} {body} }}"


def compute(body: str) -> str:
    """A program unit of the compute units; %x is a received vector, %to the feeding units."""
    return f"""dataflow.program_unit iter_arg : %me -> (%fu0, %fu1) : {{
      %fm = uniform.def_immutable_mapping([%fu0 -> %lu0], [%fu1 -> %lu1]):index
      %from = uniform.query_map(map:%fm, key:%me) : index
      %x = dataflow.receive %from : vector<64xf16>
      {body}
    }}"""


def files(body: str, shared: str = GLOBAL) -> dict[str, Module]:
    program = f"func.func @p_body() attributes {{grid = [2 : index]}} {{ {UNITS} {body} return }}"
    modules = {"global.mlir": ktir.parse(shared), "p.mlir": ktir.parse(program)}
    for module in modules.values():
        ktir.verify(module)
    return modules


def build(body: str, shared: str = GLOBAL, launch: LaunchSpec = LAUNCH) -> BuiltImage:
    built = build_image(files(body, shared), launch, SAMPLE)
    data = im.encode(built.image)
    assert im.decode(data) == built.image
    assert data == im.encode(build_image(files(body, shared), launch, SAMPLE).image)
    return built


def code(body: str) -> list[str]:
    (program,) = build(body).image.programs
    (unit,) = program.unit_programs
    return [instruction_text(instruction, position) for position, instruction in enumerate(unit.code)]


def refused(body: str, message: str) -> None:
    with pytest.raises(CodegenError, match=re.escape(message)) as caught:
        build(body)
    assert str(caught.value).count("code generation: ") == 1
    assert caught.value.diagnostics[0].location is not None


# -- programs ----------------------------------------------------------------------------------------


def test_a_loader() -> None:
    """Slots, relocations, tables, views, address generators."""
    loop = f"scf.for %i = %c0 to %c2 step %c1 {{ {COPY} }}"
    built = build(loader(loop))
    image = built.image
    (unit,) = image.unit_programs
    assert unit.label == "p/mnilu"
    assert [image.units[u].name for u in unit.units] == ["C0-mnilu", "C1-mnilu"]
    assert [symbol.id for symbol in image.symbols] == [-3, -4]
    assert [(r.cell, image.symbols[r.slot].id) for r in image.relocations] == [(0, -3), (3, -4)]
    assert image.cells == (-3, 128, 1, -4, 128, 2)
    assert [m.name for m in image.memories] == ["ddr", "C0-l1", "C1-l1"]
    assert image.memories[1].used_bytes == 128 + 256
    assert [(v.start_unit, v.symbolic) for v in image.views] == [(64, True), (1, False)]
    (generator,) = image.generators
    assert generator.time_extents == (2,)
    assert generator.sides[0].coefficients == ((2,), (0,))
    assert generator.sides[1].time_coefficients == ((1,), (0,))
    assert code(loader(loop)) == [
        "s0 = li 0",
        "s1 = li 2",
        "w0 = view mem0, [0], view0",
        "w1 = view [2], [1], view1",
        "s0 = for s0, s1, step=1, @6",
        "dma w0, w1, agen0",
        "end @4",
        "halt",
    ]
    assert image.coordinator.code == (im.Launch(0, 0), im.Halt())


def test_symbols_on_the_host() -> None:
    """checklist B14, Y2, Y3: the expression of a symbol, in words of the unit that uses it."""
    built = build(loader(f"scf.for %i = %c0 to %c2 step %c1 {{ {COPY} }}"))
    inputs = HostInputs((ArgumentInputs((1 << 34,)),), {"n": 5})
    assert symbol_values(Hcm(built.symbols), inputs) == ((1 << 34) // 64, ((1 << 34) + 1024) // 64)
    assert [expression_text(s.expr, LAUNCH) for s in built.symbols] == ["a", "a + 1024"]
    assert expression_text(Addr(0)) == "arg0"
    text = listing(built.image, ["a / 64", "(a + 1024) / 64"])
    assert "-4 = (a + 1024) / 64 (slot 1, a, 1 cells)" in text
    assert "agen0 dma [2*s0 + t0, 0] box 1x64 f16 -> [t0, 0] box 1x64 f16, times [2]" in text


def test_scalar_arguments() -> None:
    """A scalar is a cell; in the coordinator as well as in units."""
    body = f"%n = symbol.create_symbol {{SymbolId = -2 : i64}} : index\nscf.for %i = %c0 to %n step %c1 {{ {COPY} }}"
    built = build(loader(body))
    assert [s.id for s in built.image.symbols] == [-2, -3, -4]
    assert "s1 = lu [3]" in code(loader(body))
    looped = GLOBAL.replace(
        "  call @p(%a, %n) : (index, index) -> ()",
        "  %c0 = arith.constant 0 : index\n  %c1 = arith.constant 1 : index\n"
        "  scf.for %k = %c0 to %n step %c1 { func.call @p(%a, %n) : (index, index) -> () }",
    )
    image = build(loader(f"scf.for %i = %c0 to %c2 step %c1 {{ {COPY} }}"), looped).image
    main = image.coordinator
    assert [instruction_text(i, p) for p, i in enumerate(main.code)] == [
        "s0 = li 0", "s1 = lu [0]", "s0 = for s0, s1, step=1, @4", "launch program0, s0", "end @2", "halt",
    ]  # fmt: skip
    assert image.cells[main.first_cell] == -2


def test_subscripts_that_are_not_linear() -> None:
    """Quotients and remainders are computed in front of the access."""
    copy = COPY.replace("[%i * 2, 0]", "[%i floordiv 3 + 1, (%i mod 5) * 2]")
    loop = f"scf.for %i = %c0 to %c2 step %c1 {{ {copy} }}"
    assert [line for line in code(loader(loop)) if "floordivs" in line] == [
        "s1 = floordivs s0, 3", "s2 = floordivs s0, 5",
    ]  # fmt: skip
    side = build(loader(loop)).image.generators[0].sides[0]
    assert (side.registers, side.base) == ((1, 0, 2), (1, 0))
    assert side.coefficients == ((1, 0, 0), (0, 2, -10))


def test_loop_carried_values() -> None:
    """Values that swap in every iteration are copied at once."""
    body = """
      %r:2 = scf.for %i = %c0 to %c2 step %c1 iter_args(%p = %c1, %q = %c2) -> (index, index) {
        scf.yield %q, %p : index, index
      }
      %w = dataflow.get_logical_memory_view %sp, %r#0 {layout_map = affine_map<(d0) -> (d0)>} : index, index, memref<64xf16>"""
    lines = code(loader(body))
    assert lines[5:12] == [
        "s2 = mov s2", "s3 = mov s1", "s0 = for s0, s1, step=1, @11",
        "s1 = mov s2", "s2 = mov s3", "s3 = mov s1", "end @7",
    ]  # fmt: skip
    assert lines[12] == "w0 = view [2], s2, view2"


def test_conditions_with_values() -> None:
    body = """
      %n = symbol.create_symbol {SymbolId = -2 : i64} : index
      %t = arith.cmpi sgt, %n, %c1 : index
      %r = scf.if %t -> (index) { scf.yield %c2 : index } else { %z = arith.addi %n, %c128 : index  scf.yield %z : index }
      %w = dataflow.get_logical_memory_view %sp, %r {layout_map = affine_map<(d0) -> (d0)>} : index, index, memref<64xf16>"""
    lines = code(loader(body))
    assert lines[5:11] == [
        "s1 = cmp sgt, s0, s1", "brz s1, @9", "s1 = mov s2", "br @11", "s0 = add s0, 128", "s1 = mov s0",
    ]  # fmt: skip


def test_vectors() -> None:
    """checklist: every vector instruction that a program may use."""
    body = """
      %k = arith.constant dense<1.5> : vector<64xf16>
      %m = vectorchain.create_affine_mask {mask_set = affine_set<(d0) : (d0 - 3 >= 0)>} : vector<64xi1>
      %a = vectorchain.binary %x, %k [%m : vector<64xi1>] {binary_op = #vectorchain<binary_operator add>, op_specific_map = affine_map<(d0) -> (d0)>} : vector<64xf16>, vector<64xf16>, vector<64xf16>
      %b = vectorchain.multiply_and_accumulate %a, %k, %x {reduction_map = affine_map<(d0) -> (d0)>} : vector<64xf16>, vector<64xf16>, vector<64xf16>, vector<64xf16>
      %c = vectorchain.element_wise_compare %b, %k {compare_op = #vectorchain<element_wise_compare_operator compare_ge>} : vector<64xf16>, vector<64xf16>, vector<64xi1>
      %d = vectorchain.element_wise_selection %c ? %b : %x : vector<64xi1>, vector<64xf16>, vector<64xf16>, vector<64xf16>
      %e = vectorchain.rotate %d, %c2 {right_shift = false} : vector<64xf16>, index, vector<64xf16>
      %f = vectorchain.scan_with_gap %e {eval_order = #vectorchain<eval_order right_to_left>, gap = 4 : index, reduction_op = #vectorchain<binary_operator max>} : vector<64xf16>, vector<64xf16>
      %g = vectorchain.neg %f : vector<64xf16>, vector<64xf16>
      %h = vectorchain.tanh_estimate %g {version = #vectorchain<estimate_versions offset>} : vector<64xf16>, vector<64xf16>
      %n = symbol.create_symbol {SymbolId = -2 : i64} : index
      %i = vectorchain.shuffle input(%h), variable(%n) {indices = [0 : i32, -1 : i32], repetition = 32 : i32} : vector<64xf16>, index, vector<64xf16>
      %j = vectorchain.constant_bitstream {value = [0x3c00]} : vector<1xf16>
      %s = vectorchain.shuffle input(%j) {indices = [0 : i32], repetition = 64 : i32} : vector<1xf16>, vector<64xf16>
      %t = vectorchain.multiply %i, %s {reduction_map = affine_map<(d0) -> (d0)>} : vector<64xf16>, vector<64xf16>, vector<64xf16>
      %u = vectorchain.cast %t : vector<64xf16>, vector<64xf32>
      %z = scf.for %q = %c0 to %c2 step %c1 iter_args(%acc = %u) -> (vector<64xf32>) { scf.yield %acc : vector<64xf32> }
      %tm = uniform.def_immutable_mapping([%fu0 -> %su0], [%fu1 -> %su1]):index
      %to = uniform.query_map(map:%tm, key:%me) : index
      dataflow.send %to, %z {dir = #dataflow<direction BothWays>} : vector<64xf32>"""
    built = build(compute(body))
    mnemonics = [line.split(" = ")[-1].split(" ")[0] for line in code(compute(body))]
    assert [m for m in mnemonics if m.startswith("v")] == [
        "vcon", "vcon", "vcon", "vbin", "vmac", "vcmp", "vsel", "vrot", "vscan", "vun", "vun", "vshf", "vshf",
        "vbin", "vcst", "vmov",
    ]  # fmt: skip
    (program,) = built.image.unit_programs
    masked = [i for i in program.code if isinstance(i, im.VectorBinary) and i.mask is not None]
    assert len(masked) == 1
    assert im.Constant.of(im.ElementType.I1, [0, 0, 0] + [1] * 61) in built.image.constants
    names = [unit.name for unit in built.image.units]
    assert [(names[f.source], names[f.target], f.depth) for f in built.image.fifos] == [
        ("C0-sfu", "C0-l1su", 16), ("C1-sfu", "C1-l1su", 16),
    ]  # fmt: skip
    (send,) = [i for i in program.code if isinstance(i, im.Send)]
    assert send.direction == 4


def test_opaque_operations() -> None:
    body = """
      %in = dataflow.get_logical_memory_view %reg, %c0 {layout_map = affine_map<(d0) -> (d0)>} : index, index, memref<64xf16>
      agen.vector_store %x, %in[0] {store_order = affine_map<(d0) -> (d0)>, store_set = affine_set<(d0) : (d0 >= 0, -d0 + 63 >= 0)>} : memref<64xf16>, vector<64xf16>
      dataflow.opaque {func_name = "math.exp", parameter_dictionary = {in0 = vector<64xf16>, memory = "sfu_reg", mode = 3 : i64, out0 = vector<64xf16>}, read_only_register_dictionary = {in0 = 0 : i64}, read_write_register_dictionary = {out0 = 128 : i64}}"""
    image = build(compute(body)).image
    operand = im.OpaqueOperand("in0", 0, im.ElementType.F16, 64)
    result = im.OpaqueOperand("out0", 128, im.ElementType.F16, 64)
    memory = next(n for n, m in enumerate(image.memories) if m.name == "sfu_reg")
    assert image.opaques == (im.Opaque("math.exp", memory, (operand,), (result,), (("mode", "3 : i64"),)),)
    assert image.memories[memory].memory_class is im.MemoryClass.REGISTER
    assert image.memories[memory].used_bytes == 256
    refused(
        compute(body.replace("128 : i64", "2000 : i64")),
        "register memory 'sfu_reg' needs 2128 bytes but has 2048",
    )
    refused(
        compute(body.replace('memory = "sfu_reg", ', "")),
        "no parameter 'memory' that names a register memory",
    )
    refused(compute(body.replace('"sfu_reg", mode', '"ddr", mode')), "'ddr' is no register memory")
    refused(
        compute(body.replace("out0 = vector<64xf16>}", "out1 = vector<64xf16>}")),
        "no vector type 'out0' among the parameters",
    )


def test_permuted_and_explicit_lanes() -> None:
    """checklist X9: lane order from the order map, sets that are no box point by point."""
    load = """
      %v = agen.vector_load %buf[0, 0] {load_order = affine_map<(d0, d1) -> ORDER>, load_set = affine_set<(d0, d1) : (SET)>} : memref<2x64xf16>, vector<LANESxf16>"""

    def lanes(order: str, points: str, count: int) -> object:
        text = load.replace("ORDER", order).replace("SET", points).replace("LANES", str(count))
        return build(loader(text)).image.generators[0].sides[0].lanes

    box = "d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 2 >= 0"
    assert lanes("(d1, d0)", box, 6) == im.BoxLanes((2, 3), (1, 0))
    assert lanes("(d0, -d1)", box, 6) == im.ExplicitLanes(((0, 2), (0, 1), (0, 0), (1, 2), (1, 1), (1, 0)))
    assert lanes("(d0, d1)", "d0 == 0, d1 - 4 >= 0, -d1 + 5 >= 0", 2) == im.ExplicitLanes(((0, 4), (0, 5)))
    text = load.replace("ORDER", "(d0, d1)").replace("SET", box).replace("LANES", "5")
    refused(loader(text), "set has 6 points but vector has 5 lanes")


# -- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (compute("%g = dataflow.create_group(%fu0 : index) : index"), "unsupported op 'dataflow.create_group' in program unit p/sfu"),
        (compute("%s = vectorchain.select %x {selection_map = affine_map<(d0) -> (d0)>} : vector<64xf16>, vector<64xf16>"), "unsupported op 'vectorchain.select' in program unit p/sfu"),
        (compute("%s = vectorchain.binary %x, %x {binary_op = #vectorchain<binary_operator add>, op_specific_map = affine_map<(d0) -> (d0 * 2)>} : vector<64xf16>, vector<64xf16>, vector<64xf16>"), "unsupported op_specific_map"),
        (loader("%w = dataflow.get_logical_memory_view %sp, %c0 {layout_map = affine_map<(d0) -> (d0 floordiv 2)>} : index, index, memref<64xf16>"), "layout map is not linear"),
        (loader("%w = dataflow.get_logical_memory_view %sp, %c0 {layout_map = affine_map<(d0) -> (d0 * 9000)>} : index, index, memref<64xf16>"), "scratchpad 'C0-l1' needs 1134002 bytes but has 1048576"),
        (loader("%z = arith.addi %ya, %c128 : index\n%w = dataflow.get_logical_memory_view %ddr, %z {layout_map = affine_map<(d0) -> (d0)>} : index, index, memref<64xf16>"), "symbolic start address is not a bare symbol"),
        (loader("%y9 = symbol.create_symbol {SymbolId = -9 : i64} : index\n%w = dataflow.get_logical_memory_view %ddr, %y9 {layout_map = affine_map<(d0) -> (d0)>} : index, index, memref<64xf16>"), "symbol -9 is not defined by any symbol.create_id"),
        (loader("%y2 = symbol.create_symbol {SymbolId = -2 : i64} : index\n%w = dataflow.get_logical_memory_view %ddr, %y2 {layout_map = affine_map<(d0) -> (d0)>} : index, index, memref<64xf16>"), "symbol -2 counts words of 1 bytes, but MNILU addresses words of 64"),
        (loader(f"scf.for %i = %c0 to %c2 step %c1 {{ {COPY.replace('time_set = affine_set<(d0) : (d0 >= 0', 'time_set = affine_set<(d0) : (d0 - 1 >= 0')} }}"), "unsupported time domain"),
        (loader(f"scf.for %i = %c0 to %c2 step %c1 {{ {COPY.replace('load_time_addr_map = affine_map<(d0) -> (d0, 0)>', 'load_time_addr_map = affine_map<(d0) -> (d0 floordiv 2, 0)>')} }}"), "unsupported time domain"),
        (loader("%n = symbol.create_symbol {SymbolId = -2 : i64} : index\nscf.for %i = %c0 to %c2 step %n { dataflow.sync_send %lu0 : index }"), "a step that is no positive constant"),
        (loader("dataflow.sync_send %ddr : index"), "an operand that is no unit known before the program runs"),
        (loader("%lm = uniform.def_immutable_mapping([%ld0 -> %lu0]):index\n%lq = uniform.query_map(map:%lm, key:%me) : index\ndataflow.sync_send %lq : index"), "no entry for key in query_map: C1-mnilu in p/mnilu"),
        (loader("") + loader(""), "unit C0-mnilu is programmed twice"),
        ("dataflow.program_unit iter_arg : %me -> (%c0) : { }", "program_unit operand must be defined by dataflow.get_unit"),
        ('%bad = dataflow.get_unit {core = 0 : i32, name = "C0-dma", type = "dma"} : index\ndataflow.program_unit iter_arg : %me -> (%bad) : { }', "device 'sample_device' has no unit of kind 'DMA'"),
        (compute("dataflow.send %ld0, %x : vector<64xf16>"), "has no unique link from 'SFU' to 'MNILU'"),
    ],
)  # fmt: skip
def test_refusals(body: str, message: str) -> None:
    """checklist B7, B8, B13 and the index of diagnostics."""
    refused(body, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("%0 = arith.divsi %a, %c64", "%0 = arith.xori %a, %c64"), "symbol -3 is defined by unsupported op 'arith.xori'"),
        (lambda text: text.replace("symbol_id = -4", "symbol_id = -3"), "symbol -3 is declared with two meanings"),
        (lambda text: text.replace("call @p_body", "call @q_body").replace("@p_body()", "@q_body()"), "program 'p' has no body with dataflow.program_unit"),
        (lambda text: text.replace("  call @p(%a, %n) : (index, index) -> ()", "  call @p(%a, %n) : (index, index) -> ()\n" * 2), "program 'p' is called more than once"),
        (lambda text: text + "func.func @other() { return }", "expected one kernel in global.mlir, found 2"),
    ],
)  # fmt: skip
def test_refused_folders(change: Callable[[str], str], message: str) -> None:
    with pytest.raises(CodegenError, match=re.escape(message)):
        build(loader(f"scf.for %i = %c0 to %c2 step %c1 {{ {COPY} }}"), change(GLOBAL))


def test_no_global_file() -> None:
    modules = files(loader(""))
    del modules["global.mlir"]
    with pytest.raises(CodegenError, match=r"there is no global\.mlir"):
        build_image(modules, LAUNCH, SAMPLE)


def test_labels() -> None:
    assert labels("p", ["sfu", "l1lu", "sfu"]) == ["p/sfu", "p/l1lu", "p/sfu#2"]


# -- registers ---------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), unique_by=lambda move: move[0], max_size=7))
def test_parallel_copies(moves: list[tuple[int, int]]) -> None:
    before = {register: f"value {register}" for register in range(8)}
    after = dict(before)
    for target, source in parallel_copy(moves, 7):
        after[target] = after[source]
    assert {t: after[t] for t in range(7)} == {
        **{t: before[t] for t in range(7)},
        **{t: before[s] for t, s in moves},
    }


@st.composite
def virtual_code(
    draw: st.DrawFn, known: Sequence[int] = (), depth: int = 3, fresh: list[int] | None = None
) -> tuple[list[im.Instruction], list[int]]:
    """Code over virtual scalars in which every read register is defined before; some are written again."""
    counter = fresh if fresh is not None else [len(known)]
    defined = list(known)
    body: list[im.Instruction] = []

    def new() -> int:
        counter[0] += 1
        return counter[0] - 1

    def target() -> int:
        return draw(st.sampled_from(defined)) if defined and draw(st.integers(0, 3)) == 0 else new()

    for _ in range(draw(st.integers(0, 5))):
        kind = draw(
            st.sampled_from(["li", "alu", "alu", "for", "if"] if depth and defined else ["li", "alu"])
        )
        if kind == "li" or not defined:
            register = target()
            body.append(im.LoadImmediate(register, draw(st.integers(-9, 9))))
            defined.append(register)
        elif kind == "alu":
            a, b = draw(st.sampled_from(defined)), draw(st.sampled_from(defined))
            register = target()
            op = draw(st.sampled_from([im.ScalarOp.ADD, im.ScalarOp.SUB, im.ScalarOp.MUL]))
            body.append(im.ScalarBinary(op, register, a, im.Register(b)))
            defined.append(register)
        elif kind == "for":
            bounds = [new(), new()]
            body += [im.LoadImmediate(bounds[0], 0), im.LoadImmediate(bounds[1], draw(st.integers(0, 3)))]
            iv = new()
            inner, _ = draw(virtual_code([*defined, iv], depth - 1, counter))
            inner = [i for i in inner if getattr(i, "dst", None) != iv]
            span = len(inner) + 1
            if _branches_are_whole(inner):
                body += [im.For(iv, bounds[0], bounds[1], 1, span), *inner, im.EndFor(-span)]
        else:
            condition = draw(st.sampled_from(defined))
            inner, _ = draw(virtual_code(defined, depth - 1, counter))
            body += [im.BranchIfZero(condition, len(inner) + 1), *inner]
    return body, defined


def _branches_are_whole(code: Sequence[im.Instruction]) -> bool:
    """Whether removing instructions left all distances right."""
    for index, instruction in enumerate(code):
        match instruction:
            case im.For(end=end):
                tail = code[index + end] if index + end < len(code) else None
                if not isinstance(tail, im.EndFor) or tail.head != -end:
                    return False
            case im.BranchIfZero(target=target) if index + target > len(code):
                return False
    return True


def trace(code: Sequence[im.Instruction], registers: dict[int, int]) -> list[int]:
    """Every value that is written, in order of execution."""
    seen: list[int] = []
    loops: list[tuple[int, int, int]] = []  # head, next value, upper bound
    position = 0
    while position < len(code):
        match code[position]:
            case im.LoadImmediate(dst, value):
                registers[dst] = value
                seen.append(value)
            case im.ScalarBinary(op, dst, a, im.Register(b)):
                x, y = registers[a], registers[b]
                registers[dst] = {im.ScalarOp.ADD: x + y, im.ScalarOp.SUB: x - y, im.ScalarOp.MUL: x * y}[
                    op
                ] % 997
                seen.append(registers[dst])
            case im.For(iv, lower, upper, _, end):
                first, last = registers[lower], registers[upper]
                if first >= last:
                    position += end
                else:
                    loops.append((position, first + 1, last))
                    registers[iv] = first
            case im.EndFor():
                head, value, last = loops.pop()
                if value < last:
                    loop = code[head]
                    assert isinstance(loop, im.For)
                    registers[loop.iv] = value
                    loops.append((head, value + 1, last))
                    position = head
            case im.BranchIfZero(condition, target) if registers[condition] == 0:
                position += target - 1
        position += 1
    return seen


@pytest.mark.sweep(default=120, full=10000)
@given(virtual_code(known=(0, 1)), st.randoms(use_true_random=False))
def test_allocated_code_computes_the_same(
    case: tuple[list[im.Instruction], list[int]], random: Random
) -> None:
    """Registers that share a number never hold two live values; two parameters stay where they are."""
    body, defined = case
    # read some of what is certainly defined at the end, so that it has to survive until there
    survivors = [r for r in dict.fromkeys(defined) if random.random() < 0.2]
    ends = [im.ScalarBinary(im.ScalarOp.ADD, 10**6 + n, r, im.Register(r)) for n, r in enumerate(survivors)]
    virtual = VirtualCode(2, [*body, *ends, im.Halt()])
    allocated = virtual.allocate()
    assert trace(allocated.code, {0: 3, 1: 5}) == trace(virtual.code, {0: 3, 1: 5})
    mentioned = {register for i in virtual.code for _, register in virtual.references(i)} | {0, 1}
    assert 2 <= allocated.counts["s"] <= len(mentioned)
