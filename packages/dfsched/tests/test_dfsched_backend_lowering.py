"""KTDFLow to DataflowIR: text in, text out, and the diagnostics of the passes."""

from __future__ import annotations

import re
from random import Random

import pytest
from backend_programs import (
    LOAD,
    ROW,
    SAMPLE,
    SEND,
    SIMPLE,
    SLOT_OUT,
    STEP,
    constants,
    dfir,
    find,
    loop,
    names_in,
    parse,
    pipeline,
    program,
    refused,
    unit,
)
from hypothesis import given
from hypothesis import strategies as st

import ktir
from dfsched.dialects import agen, dataflow, symbol, uniform
from dfsched.lowering.dfir import lower_to_dfir
from dfsched.lowering.errors import LoweringError, UnsupportedLowering
from dfsched.lowering.ktdflow import lower_to_ktdflow
from dfsched.lowering.transfers import box_set, plan_copy
from dfsched.lowering.wrap import wrap_programs
from dfsched.split import read_split, split, write_split
from ktir.dialects import arith, scf
from ktir.dialects.builtin import Module
from ktir.dialects.func import Func
from ktir.location import UNKNOWN

# -- ktdflowering-to-dfir ----------------------------------------------------------------------------


def test_program_units_hold_what_their_kind_does() -> None:
    """checklist D1, D2, D17, D25, D36."""
    module = dfir(SIMPLE)
    units = find(module, dataflow.ProgramUnit)
    handles = {op.results[0]: op for op in module.walk() if isinstance(op, dataflow.GetUnit)}
    assert [handles[u.operands[0]].kind.value for u in units] == ["mnilu", "l1lu", "sfu", "l1su", "mnisu"]
    feeder = [n for n in names_in(unit(module, "l1lu")) if n not in ("program_unit", "return")]
    inside = feeder[feeder.index("for") + 1 :]
    assert inside == [
        "def_immutable_mapping", "query_map", "sync_send", "sync_recv",
        "vector_load", "def_immutable_mapping", "query_map", "send",
        "def_immutable_mapping", "query_map", "sync_send", "sync_recv", "yield",
    ]  # fmt: skip
    drain = names_in(unit(module, "l1su"))
    assert drain.index("query_map", drain.index("for")) < drain.index("receive") < drain.index("vector_store")
    assert "sync_send" not in names_in(unit(module, "sfu"))
    sends = find(unit(module, "mnilu"), dataflow.SyncSend)
    assert all(isinstance(op, dataflow.SyncSend) and op.waits for op in sends)


def test_tile_arithmetic_becomes_a_table() -> None:
    """checklist D3, D4, D6: nothing of the tile id is left, whatever was computed from it."""
    head = """
      %k = arith.constant 24 : index
      %a = arith.muli %tid, %k : index
      %seven = arith.constant 7 : index
      %s = arith.addi %a, %seven : index
      %d = arith.divui %s, %c8 : index
      %base = arith.remui %d, %c4 : index"""
    module = dfir(program(loop(STEP + pipeline()), head=head))
    loader = unit(module, "mnilu")
    (table,) = [
        op for op in loader.walk()
        if isinstance(op, uniform.DefImmutableMapping) and constants(module, op.values) is not None
    ]  # fmt: skip
    assert constants(module, table.values) == [0, 3]
    assert not any(isinstance(op, arith.MulI | arith.DivUI | arith.RemUI) for op in loader.walk())
    by_zero = head.replace("%c4 : index", "%c0 : index")
    zero = dfir(program(loop(STEP + pipeline()), head=by_zero))
    assert "arith.remui" not in ktir.print_module(zero)


def test_addresses_are_symbols() -> None:
    """checklist D8, D11, Y2 to Y5, Y7, Y11: one symbol per distinct start, definitions at function level."""
    slab = """
      %rows = arith.constant 512 : index
      %off = arith.muli %tid, %rows : index
      %part = memref.reinterpret_cast %src to offset: [%off], sizes: [8, 64], strides: [64, 1] : memref<16x64xf16, "DDR"> to memref<8x64xf16, strided<[64, 1], offset: ?>, "DDR">"""
    load = LOAD.replace("%src[%r, 0]", "%part[%i, 0]").replace(
        'memref<16x64xf16, "DDR">', 'memref<8x64xf16, strided<[64, 1], offset: ?>, "DDR">'
    )
    module = dfir(program(loop(STEP + pipeline(load=load)), head=ROW + slab))
    text = ktir.print_module(module)
    assert "symbol.create_id %p {symbol_id = -1 : si64} : index" in text
    # word size 64: every start is a new symbol; tile 1 starts 512 elements = 1024 bytes further
    assert re.search(r"%(\d+) = arith.addi %p, %c1024 : index\n\s*%(\d+) = arith.divsi %\1, %c64", text)
    loader = unit(module, "mnilu")
    assert sorted(op.id or 0 for op in loader.walk() if isinstance(op, symbol.CreateSymbol)) == [-4, -3]
    assert [op.id for op in unit(module, "mnisu").walk() if isinstance(op, symbol.CreateSymbol)] == [-5]
    assert not any(isinstance(op, symbol.CreateId) for op in loader.walk())
    definers = {r: op for op in module.walk() for r in op.results}
    views = [op for op in loader.walk() if isinstance(op, dataflow.GetLogicalMemoryView)]
    device = [v for v in views if v.view_type.shape == (16, 64)]
    assert len(device) == 1
    start = definers[device[0].start]
    assert isinstance(start, uniform.QueryMap)
    assert str(device[0].layout_map.map) == "(d0, d1) -> (d0 * 64 + d1)"


def test_byte_addresses() -> None:
    """checklist Y6: an f32 tensor displaced by 24 elements is displaced by 96 bytes, in either unit."""
    base = program("%r = arith.muli %tid, %c8 : index\n" + pipeline())
    shifted = base.replace(
        "%pv = ktdp.construct_memory_view %p,",
        "%k24 = arith.constant 24 : index\n%p24 = arith.addi %p, %k24 : index\n%pv = ktdp.construct_memory_view %p24,",
    )
    assert "arith.constant 48 : index" in ktir.print_module(dfir(shifted))
    byte = shifted.replace(
        "    module {\n      module {",
        '    module attributes {ktdp.address_unit = "byte"} {\n      module {',
        1,
    )
    assert "arith.constant 24 : index" in ktir.print_module(dfir(byte))


def test_constant_addresses() -> None:
    """checklist D8: device memory counts elements; byte addresses are divided exactly."""
    base = program("%r = arith.muli %tid, %c8 : index\n" + pipeline(), arguments="%q: index").replace(
        "%pv = ktdp", "%p = arith.constant 1024 : index\n%pv = ktdp"
    )
    assert "dataflow.get_logical_memory_view %10, %c1024" in ktir.print_module(dfir(base))
    byte = base.replace(
        "    module {\n      module {",
        '    module attributes {ktdp.address_unit = "byte"} {\n      module {',
        1,
    )
    assert "dataflow.get_logical_memory_view %10, %c512" in ktir.print_module(dfir(byte))
    refused(
        byte.replace("1024 : index", "1023 : index"),
        "device address 1023 is not a multiple of the element size",
    )


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (
            "%addr = arith.muli %p, %c4 : index",
            "by an operation whose definition cannot be written as a symbol expression",
        ),
        (
            "%addr = arith.addi %p, %q : index",
            "computed from more than one run input, so no single symbol stands for it",
        ),
    ],
)
def test_addresses_that_are_no_symbols(base: str, message: str) -> None:
    """checklist Y9."""
    text = program("%r = arith.muli %tid, %c8 : index\n" + pipeline())
    refused(
        text.replace(
            "%pv = ktdp.construct_memory_view %p,", f"{base}\n%pv = ktdp.construct_memory_view %addr,"
        ),
        message,
    )


def test_addresses_of_iterations_are_no_symbols() -> None:
    """checklist Y9: a loop variable in the base; over constants any operation is fine."""
    inside = """
      %addr = arith.addi %p, %i : index
      %iv = ktdp.construct_memory_view %addr, sizes: [16, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<16x64xf16>
      %is = memref.memory_space_cast %iv : memref<16x64xf16> to memref<16x64xf16, "DDR">
    """
    load = LOAD.replace("%src[", "%is[")
    refused(
        program(loop(STEP + inside + pipeline(load=load)), head=ROW),
        "computed from a run input and from a value that only exists while the program runs",
    )
    constants_only = inside.replace("arith.addi %p, %i", "arith.xori %c8, %c4")
    module = dfir(program(loop(STEP + constants_only + pipeline(load=load)), head=ROW))
    assert re.search(r"get_logical_memory_view %\d+, %c12 ", ktir.print_module(module))


def test_displacement_known_only_while_running() -> None:
    """checklist Y10."""
    cast = """
      %off = arith.muli %i, %c8 : index
      %part = memref.reinterpret_cast %src to offset: [%off], sizes: [8, 64], strides: [64, 1] : memref<16x64xf16, "DDR"> to memref<8x64xf16, strided<[64, 1], offset: ?>, "DDR">"""
    load = LOAD.replace("%src[%r, 0]", "%part[0, 0]").replace(
        'memref<16x64xf16, "DDR">', 'memref<8x64xf16, strided<[64, 1], offset: ?>, "DDR">'
    )
    refused(
        program(loop(STEP + cast + pipeline(load=load)), head=ROW),
        "displaced by a value only known while the program runs, so no symbol stands for it",
    )


def test_dynamic_views() -> None:
    """checklist D9."""
    dynamic = SIMPLE.replace(
        "%pv = ktdp.construct_memory_view %p, sizes: [16, 64]",
        "%pv = ktdp.construct_memory_view %p, sizes: [%c8, 64]",
    )
    refused(
        dynamic.replace("} : memref<16x64xf16>\n", "} : memref<?x64xf16>\n", 1).replace(
            "%pv : memref<16x64xf16> to", "%pv : memref<?x64xf16> to"
        ),
        "construct_memory_view: dynamic sizes not supported",
    )
    strided = SIMPLE.replace(
        "%pv = ktdp.construct_memory_view %p, sizes: [16, 64], strides: [64, 1]",
        "%pv = ktdp.construct_memory_view %p, sizes: [16, 64], strides: [%c64, 1]",
    ).replace("%tid = ktdp", "%c64 = arith.constant 64 : index\n%tid = ktdp")
    refused(strided, "construct_memory_view: dynamic strides not supported")
    bare = SIMPLE.replace("%src[%r, 0]", "%pv[%r, 0]").replace(
        'memref<16x64xf16, "DDR">, memref<1x64xf16, "L1">', 'memref<16x64xf16>, memref<1x64xf16, "L1">', 1
    )
    bare = bare.replace(
        '%src = memref.memory_space_cast %pv : memref<16x64xf16> to memref<16x64xf16, "DDR">', ""
    )
    refused(bare, "construct_memory_view: no ViewLikeOpInterface users found")


def test_scalar_arguments_are_symbols_in_subscripts_and_bounds() -> None:
    text = program(
        loop("%s = arith.addi %base, %i : index\n%r = arith.addi %s, %n : index\n" + pipeline(), upper="%n"),
        head=ROW,
        arguments="%p: index, %q: index, %n: index",
    )
    loader = unit(dfir(text), "mnilu")
    assert -3 in {op.id for op in loader.walk() if isinstance(op, symbol.CreateSymbol)}
    (bound,) = [op for op in loader.walk() if isinstance(op, scf.For)]
    definers = {r: op for op in loader.walk() for r in op.results}
    assert isinstance(definers[bound.upper], symbol.CreateSymbol)


def test_splat_and_narrow_transfers() -> None:
    """checklist D18."""
    splat = SEND.replace("size [1, 64] to", "size [1, 2] to").replace(
        "size [64] :", 'size [64] {transfer_mode = "splat"} :'
    )
    text = ktir.print_module(dfir(program(loop(STEP + pipeline(send=splat)), head=ROW)))
    assert "{indices = [0 : i32, 1 : i32], repetition = 32 : i32} : vector<2xf16>, vector<64xf16>" in text
    refused(
        program(loop(STEP + pipeline(send=splat.replace("[1, 2]", "[1, 3]"))), head=ROW),
        "dst_total_elements must be divisible by src_total_elements for splat transfer",
    )
    pad = splat.replace('"splat"', '"pad"')
    padded = ktir.print_module(dfir(program(loop(STEP + pipeline(send=pad)), head=ROW)))
    assert "vectorchain.shuffle input(%" in padded
    assert ", pad(%cst" in padded
    refused(
        program(loop(STEP + pipeline(send=splat.replace(' {transfer_mode = "splat"}', ""))), head=ROW),
        "source has 2 elements, but the slot takes 64",
    )


def test_compute() -> None:
    """checklist D20, and what has no instruction goes through the register file."""
    text = ktir.print_module(
        dfir(
            program(
                loop(STEP + pipeline(body="%k = arith.constant 2.0 : f16\n%v = arith.subf %k, %in : f16")),
                head=ROW,
            )
        )
    )
    assert "arith.constant dense<2.000000e+00> : vector<64xf16>" in text
    assert re.search(r"vectorchain.binary %cst, %\d+ \{binary_op = #vectorchain<binary_operator sub>", text)
    mapped = '%w = arith.mulf %in, %in : f16\n%v = math.exp %w {ktdf_arch.maps_to = "SFU_REG"} : f16'
    exp = ktir.print_module(dfir(program(loop(STEP + pipeline(body=mapped)), head=ROW)))
    assert (
        'dataflow.opaque {func_name = "math.exp", parameter_dictionary = {in0 = vector<64xf16>, memory = "sfu_reg", '
        "out0 = vector<64xf16>}, read_only_register_dictionary = {in0 = 0 : i64}, "
        "read_write_register_dictionary = {out0 = 128 : i64}}"
    ) in exp
    compare = "%c = arith.cmpf ogt, %in, %in : f16\n%v = arith.select %c, %in, %in : f16"
    both = ktir.print_module(dfir(program(loop(STEP + pipeline(body=compare)), head=ROW)))
    assert "#vectorchain<element_wise_compare_operator compare_gt>" in both
    assert "vectorchain.element_wise_selection" in both
    unordered = dfir(program(loop(STEP + pipeline(body=compare.replace("ogt", "ueq"))), head=ROW))
    (call,) = find(unordered, dataflow.Opaque)
    assert isinstance(call, dataflow.Opaque)
    assert call.func_name.value == "arith.cmpf"
    assert "predicate" in call.parameter_dictionary
    refused(
        program(
            loop(
                STEP
                + pipeline(body="%d = arith.index_cast %c0 : index to i16\n%v = arith.sitofp %d : i16 to f16")
            ),
            head=ROW,
        ),
        "uses a value that is no input and not computed in it",
    )


def test_functions_that_nothing_maps_are_told_at_once() -> None:
    body = "%w = math.sqrt %in : f16\n%u = arith.divf %w, %in : f16\n%v = arith.maximumf %u, %in : f16"
    with pytest.raises(LoweringError) as caught:
        dfir(program(loop(STEP + pipeline(body=body)), head=ROW))
    wanted = "unsupported operation type in linalg.generic body: no pattern of the device maps"
    assert [diagnostic.message for diagnostic in caught.value.diagnostics] == [
        f"{wanted} 'math.sqrt' to an instruction",
        f"{wanted} 'arith.divf' to an instruction",
    ]


def test_only_lanes_of_one_vector_are_reduced() -> None:
    """A reduction that no pass has taken apart is refused at its place."""
    text = SIMPLE.replace(
        'iterator_types = ["parallel", "parallel"]', 'iterator_types = ["parallel", "reduction"]'
    )
    with pytest.raises(UnsupportedLowering, match=r"unsupported reduction body op in linalg\.generic"):
        dfir(text)


def test_fifo_endpoints() -> None:
    """checklist D17: queue to queue is refused."""
    hop = SEND.replace("from %b0[0, 0] size [1, 64] to", "from %g size [64] to").replace(
        'memref<1x64xf16, "L1">, ', f"{SLOT_OUT}, "
    )
    refused(
        program(loop(STEP + pipeline(send=hop)), head=ROW),
        "Unsupported data transfer: FIFO to FIFO transfers are not allowed",
    )


def test_empty_control_flow_disappears() -> None:
    """Loops and conditions in which a unit has nothing to do are not in its program."""
    only_loader = 'ktdf.pipeline { ktdf.stage depends_in(none) depends_out(none) { %d = arith.addi %c1, %c1 : index } {applicable_units = ["SFU"]} }'
    module = dfir(program(loop(loop(only_loader, name="%j"))))
    assert names_in(unit(module, "sfu")) == ["program_unit", "return"]


def test_conditions() -> None:
    """A condition on the tile becomes a table entry; one that holds everywhere is gone."""
    cond = (
        "%b = arith.cmpi eq, %tid, %c0 : index\nscf.if %b {\n"
        + "%r = arith.muli %tid, %c8 : index\n"
        + pipeline()
        + "\n}"
    )
    text = ktir.print_module(dfir(program(cond)))
    assert text.count("scf.if") == 5
    always = dfir(program(cond.replace("eq, %tid, %c0", "uge, %tid, %c0")))
    assert not find(always, scf.If)
    never = dfir(program(cond.replace("eq, %tid, %c0", "ult, %tid, %c0")))
    assert names_in(unit(never, "sfu")) == ["program_unit", "return"]


# -- copies ------------------------------------------------------------------------------------------


def test_one_vector() -> None:
    """checklist D12."""
    plan = plan_copy([1, 64], [1, 64], 64, (64, 1), (64, 1), UNKNOWN)
    assert (plan.lanes, str(plan.time_set), str(plan.source_map)) == (
        64,
        "(d0) : (d0 == 0)",
        "(d0) -> (0, 0)",
    )
    two = plan_copy([2, 64], [2, 64], 64, (64, 1), (64, 1), UNKNOWN)
    assert (two.lanes, str(two.time_set), str(two.target_map)) == (
        64,
        "(d0) : (d0 >= 0, -d0 + 1 >= 0)",
        "(d0) -> (d0, 0)",
    )


def test_several_vectors_a_row() -> None:
    """checklist D13, D16."""
    plan = plan_copy([1, 1, 192], [192], 64, (192, 192, 1), (1,), UNKNOWN)
    assert (plan.extents, str(plan.source_map), str(plan.target_map)) == (
        (3,),
        "(d0) -> (0, 0, d0 * 64)",
        "(d0) -> (d0 * 64)",
    )
    deep = plan_copy([2, 4, 8, 64], [2, 4, 8, 64], 64, None, None, UNKNOWN)
    assert deep.extents == (2, 4, 8)


def test_one_distance_differs() -> None:
    """checklist D15."""
    plan = plan_copy([2, 128], [2, 128], 64, (500, 1), (128, 1), UNKNOWN)
    assert plan.loop is not None
    assert (plan.loop[0].extent, plan.extents) == (2, (2,))
    with pytest.raises(
        LoweringError, match="advance by different distances in 2 walked dimensions of a transfer of 512"
    ):
        plan_copy([2, 2, 128], [2, 2, 128], 64, (900, 500, 1), (256, 128, 1), UNKNOWN)


def test_copies_that_do_not_split() -> None:
    """checklist D14."""
    with pytest.raises(LoweringError, match="multiple of the vector width, but they are 96 and 96"):
        plan_copy([1, 96], [1, 96], 64, None, None, UNKNOWN)
    with pytest.raises(
        LoweringError, match="walked dimensions must match to split a transfer of 256 elements"
    ):
        plan_copy([4, 64], [2, 128], 64, None, None, UNKNOWN)
    with pytest.raises(LoweringError, match="source has 64 elements, destination 32"):
        plan_copy([64], [32], 64, None, None, UNKNOWN)


def test_a_loop_around_a_copy() -> None:
    wide = LOAD.replace("size [1, 64] to %b0[0, 0] size [1, 64]", "size [2, 64] to %b0[0, 0] size [2, 64]")
    text = (
        program("%r = arith.muli %tid, %c8 : index\n" + pipeline(load=wide))
        .replace("memref<1x64xf16", "memref<2x64xf16")
        .replace("size [1, 64] to %f", "size [1, 64] to %f")
        .replace("strides: [64, 1]", "strides: [100, 1]")
    )
    module = dfir(text)
    loader = unit(module, "mnilu")
    (around,) = [op for op in loader.walk() if isinstance(op, scf.For)]
    (copy,) = [op for op in around.walk() if isinstance(op, agen.CompositeLoadAndStore)]
    assert around.induction_variable in copy.source_indices
    assert around.induction_variable in copy.target_indices


def test_box_sets() -> None:
    assert str(box_set([1, 3])) == "(d0, d1) : (d0 == 0, d1 >= 0, -d1 + 2 >= 0)"


# -- wrap and split ----------------------------------------------------------------------------------


def test_wrapping() -> None:
    """checklist W1, W2, W3, W5."""
    module = wrap_programs(dfir(SIMPLE))
    ktir.verify(module)
    child = next(op for op in module.operations if isinstance(op, Module) and op.sym_name is not None)
    declaration, outer, inner = child.operations
    assert isinstance(declaration, Func)
    assert declaration.is_declaration
    assert isinstance(outer, Func)
    assert [a.name for a in outer.arguments] == ["p", "q"]
    assert "grid" not in outer.attributes
    assert isinstance(inner, Module)
    (body,) = inner.operations
    assert isinstance(body, Func)
    assert body.symbol == "local_schedule_0_body"
    assert not body.arguments
    assert "grid" in body.attributes
    assert not find(body, symbol.CreateId)
    assert "%c64 = arith.constant 64" in ktir.print_module(outer)
    assert ktir.print_module(wrap_programs(module)) == ktir.print_module(module)


def test_wrapping_refuses() -> None:
    """checklist W5."""
    lowered = ktir.print_module(dfir(SIMPLE))
    taken = lowered.replace(
        "  module @local_schedule_0 {",
        "  module @local_schedule_0 {\n    func.func private @local_schedule_0_body()",
    )
    with pytest.raises(LoweringError, match="already holds a 'local_schedule_0_body'"):
        wrap_programs(ktir.parse(taken))
    renamed = lowered.replace("    func.func @local_schedule_0(", "    func.func @other(")
    with pytest.raises(LoweringError, match="program 'local_schedule_0' holds no function of its own name"):
        wrap_programs(ktir.parse(renamed))
    inside = re.sub(
        r"(dataflow.program_unit iter_arg : (%\w+) -> [^\n]*\n)",
        r"\1 symbol.create_id \2 {symbol_id = -9 : si64} : index\n",
        lowered,
        count=1,
    )
    with pytest.raises(LoweringError, match="a symbol is declared outside the program's entry block"):
        wrap_programs(ktir.parse(inside))


def test_a_program_that_computes_with_its_arguments_keeps_one_level() -> None:
    """checklist W4: a coordinator's loop variable is a number of the program."""
    text = program(
        "%r = arith.addi %base, %k : index\n" + pipeline(),
        head=ROW,
        arguments="%p: index, %q: index, %k: index",
    ).replace("func.func @kernel(%p: index, %q: index, %k: index)", "func.func @kernel(%p: index, %q: index)")
    text = text.replace(
        "          call @local_schedule_0(%p, %q, %k) : (index, index, index) -> ()",
        """          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c4 = arith.constant 4 : index
          scf.for %k = %c0 to %c4 step %c1 { func.call @local_schedule_0(%p, %q, %k) : (index, index, index) -> () }""",
    )
    module = wrap_programs(dfir(text))
    files = split(module)
    (body,) = find(files["local_schedule_0.mlir"], Func)
    assert isinstance(body, Func)
    assert [a.name for a in body.arguments] == ["p", "q", "k"]
    assert "func.func private @local_schedule_0(index, index, index)" in ktir.print_module(
        files["global.mlir"]
    )


def test_files(tmp_path: object) -> None:
    """checklist W6, W7, W8."""
    from pathlib import Path

    directory = Path(str(tmp_path)) / "out"
    files = split(wrap_programs(dfir(SIMPLE)))
    assert list(files) == ["global.mlir", "local_schedule_0.mlir"]
    write_split(files, directory)
    first = {p.name: p.read_bytes() for p in directory.iterdir()}
    assert all(text.endswith(b"}\n") for text in first.values())
    (directory / "schedule.mlir").write_text("not looked at")
    again = read_split(directory)
    for module in again.values():
        ktir.verify(module)
    write_split(split(wrap_programs(dfir(SIMPLE))), directory)
    assert {n: (directory / n).read_bytes() for n in first} == first
    assert len(find(again["local_schedule_0.mlir"], Func)) == 1
    (directory / "local_schedule_0.mlir").unlink()
    with pytest.raises(
        LoweringError, match=r"holds no local_schedule_0\.mlir, the body of 'local_schedule_0'"
    ):
        read_split(directory)
    with pytest.raises(LoweringError, match=r"holds no global\.mlir"):
        read_split(directory / "nowhere")


def test_splitting_nothing() -> None:
    with pytest.raises(LoweringError, match=r"no program with dataflow\.program_unit found"):
        split(
            parse(
                "module { module { func.func @k() { call @p() : () -> () return } func.func private @p() } }"
            )
        )


def test_splitting_file_names() -> None:
    lowered = ktir.print_module(wrap_programs(dfir(SIMPLE)))
    twice = lowered.replace("@local_schedule_0_body", '@"a b_body"').replace("@local_schedule_0", '@"a b"')
    assert "a_b.mlir" in split(ktir.parse(twice))


@pytest.mark.sweep(default=40, full=2000)
@given(st.randoms(use_true_random=False))
def test_changed_text_is_lowered_or_refused(random: Random) -> None:
    """Whatever a valid module holds, the passes lower it or say what is wrong; nothing else is raised."""
    lines = ktir.print_module(parse(SIMPLE)).splitlines()
    for _ in range(random.choice([1, 1, 2])):
        number = random.randrange(len(lines))
        words = list(
            re.finditer(r'%\w+|\b\d+\b|"[^"]*"|\b(addf|addi|muli|f16|index|parallel)\b', lines[number])
        )
        if not words:
            continue
        word = random.choice(words)
        if word.group()[0] == "%":
            pool = [v for line in lines[:number] for v in re.findall(r"%\w+", line)]
        elif word.group()[0] == '"':
            pool = [v for line in lines for v in re.findall(r'"[^"]*"', line)]
        else:
            pool = ["0", "1", "2", "3", "64", "-5", "1000000", "mulf", "f32", "i1", "divui", "reduction"]
        lines[number] = (
            lines[number][: word.start()] + random.choice(pool or ["0"]) + lines[number][word.end() :]
        )
    try:
        module = parse("\n".join(lines))
    except ktir.KtirError:
        return
    try:
        lowered = wrap_programs(lower_to_dfir(lower_to_ktdflow(module, SAMPLE), SAMPLE))
    except LoweringError:
        return
    ktir.verify(lowered)


def test_scalar_arguments_in_computations() -> None:
    """readings, item 2: a float argument is a symbol that carries its bit pattern."""
    text = program(
        loop(STEP + pipeline(body="%v = arith.mulf %in, %s : f16")),
        head=ROW,
        arguments="%p: index, %q: index, %s: f16",
    ).replace("(index, index, index)", "(index, index, f16)")
    module = wrap_programs(dfir(text))
    ktir.verify(module)
    printed = ktir.print_module(module)
    assert printed.count("symbol.create_id %s {symbol_id = -3 : si64} : f16") == 2
    assert re.search(
        r"vectorchain.shuffle input\(%cst\), variable\(%\d+\) \{indices = \[-1 : i32\], repetition = 64 : i32\}",
        printed,
    )
    compute = unit(module, "sfu")
    assert [op.id for op in compute.walk() if isinstance(op, symbol.CreateSymbol)] == [-3]
