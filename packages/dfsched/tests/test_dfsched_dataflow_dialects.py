"""The dialects of DataflowIR: text in, text out, and what their verifiers say."""

from __future__ import annotations

import re

import pytest

import ktir
from dfsched.dialects import agen, dataflow, symbol, uniform, vectorchain
from dfsched.dialects.enums import RoutingDirection
from dfsched.image import BinaryOperator, CompareOperator
from ktir.transforms import dce

PRELUDE = """
%c0 = arith.constant 0 : index
%c9 = arith.constant 9 : index
%u0 = dataflow.get_unit {core = 0 : i32, corelet = 0 : i32, name = "C0-sfu", type = "sfu"} : index
%u1 = dataflow.get_unit {core = 1 : i32, corelet = 0 : i32, name = "C1-sfu", type = "sfu"} : index
%u2 = dataflow.get_unit {name = "ddr", type = "ddr"} : index
%w = dataflow.get_logical_memory_view %u2, %c0 {layout_map = affine_map<(d0, d1) -> (d0 * 96 + d1)>} : index, index, memref<5x96xf16>
%v = vectorchain.constant_bitstream {value = [0x1, 0x2]} : vector<2xf16>
%k = vectorchain.create_affine_mask {mask_set = affine_set<(d0) : (d0 - 3 >= 0)>} : vector<2xi1>
"""


def module(text: str, prelude: str = PRELUDE) -> str:
    lines = "\n".join("  " + line for line in (prelude + text).strip().splitlines())
    return f"func.func @f(%i: index, %j: index) {{\n{lines}\n  return\n}}"


def round_trip(text: str, prelude: str = PRELUDE) -> str:
    """Parse, verify, print custom and generic, read both back; the canonical text."""
    parsed = ktir.parse(module(text, prelude))
    ktir.verify(parsed)
    printed = ktir.print_module(parsed)
    assert ktir.print_module(ktir.parse(printed)) == printed
    assert ktir.print_module(ktir.parse(ktir.print_module(parsed, generic=True))) == printed
    return printed


def problems(text: str) -> str:
    with pytest.raises(ktir.VerifyError) as caught:
        ktir.verify(ktir.parse(module(text)))
    return str(caught.value)


LINES = [
    "vectorchain.constant_bitstream {value = [0x3c00, 0x0]} : vector<2xf16>",
    "vectorchain.create_affine_mask {mask_set = affine_set<(d0) : (d0 - 3 >= 0)>} : vector<8xi1>",
    'dataflow.get_unit {name = "ddr", type = "ddr"} : index',
    'dataflow.get_local_unit %u0 {name = "prologue"} : index',
    "dataflow.create_group(%u0, %u1 : index, index) : index",
    "dataflow.create_group() : index",
    "dataflow.create_multicast_group(%u0 -> (%u1, %u2)) {count = 0 : i32, group_id = 7 : i32, "
    "num_consumers = 2 : i32} : index",
    "dataflow.sync_send %u0 {wait_immediately_for_async_transfers = true} : index",
    "dataflow.sync_recv %u0 : index",
    "dataflow.implicit_sync_on_streaming_buffer %w, %u0, %c9 : memref<5x96xf16>, index, index",
    "dataflow.send %u0, %v {dir = #dataflow<direction Clockwise>} : vector<2xf16>",
    "dataflow.receive %u0 : vector<64xf16>",
    "dataflow.receive %u0 : !dataflow.custom_vector<64x!dataflow.custom<mxfp4>>",
    'dataflow.opaque {func_name = "recip", parameter_dictionary = {steps = "3"}, '
    'read_only_register_dictionary = {c = "R9"}, read_write_register_dictionary = {x = "R4"}}',
    "vectorchain.select %v {selection_map = affine_map<(d0) -> (d0 mod 4)>} : vector<2xf16>, vector<2xf16>",
    "vectorchain.multiply %v, %v [%k : vector<2xi1>] {reduction_map = affine_map<(d0) -> (d0 floordiv 8)>} : "
    "vector<2xf16>, vector<2xf16>, vector<1xf16>",
    "vectorchain.binary %v, %v {binary_op = #vectorchain<binary_operator max>, "
    "op_specific_map = affine_map<(d0) -> (d0)>} : vector<2xf16>, vector<2xf16>, vector<2xf16>",
    "vectorchain.element_wise_compare %v, %v {compare_op = "
    "#vectorchain<element_wise_compare_operator compare_lt>} : vector<2xf16>, vector<2xf16>, vector<2xi1>",
    "vectorchain.merge %v, %v {access_function_A = affine_map<(d0) -> (d0)>, access_function_B = "
    "affine_map<(d0) -> (d0)>, access_function_CA = affine_map<(d0) -> (d0 * 2)>, access_function_CB = "
    "affine_map<(d0) -> (d0 * 2 + 1)>, iteration_space_CA = affine_set<(d0) : (d0 >= 0, -d0 + 1 >= 0)>, "
    "iteration_space_CB = affine_set<(d0) : (d0 >= 0, -d0 + 1 >= 0)>} : vector<2xf16>, vector<2xf16>, "
    "vector<4xf16>",
    "vectorchain.pack %v, %v {indices = [0 : i32, 1 : i32], repetition = 8 : index, sign_extend = true} : "
    "vector<2xf16>, vector<2xf16>, vector<16xf16>",
    "vectorchain.cast %v : vector<2xf16>, vector<2xf32>",
    "vectorchain.rsqrt_estimate %v : vector<2xf16>, vector<2xf16>",
    "vectorchain.neg %v [%k : vector<2xi1>] : vector<2xf16>, vector<2xf16>",
    "vectorchain.exp_estimate %v {version = #vectorchain<exp_estimate a>} : vector<2xf16>, vector<2xf16>",
    "vectorchain.tanh_estimate %v {version = #vectorchain<estimate_versions slope>} : vector<2xf16>, vector<2xf16>",
    "vectorchain.multiply_and_accumulate %v, %v, %v {reduction_map = affine_map<(d0) -> (d0)>} : vector<2xf16>, "
    "vector<2xf16>, vector<2xf16>, vector<2xf16>",
    "vectorchain.element_wise_selection %k ? %v : %v : vector<2xi1>, vector<2xf16>, vector<2xf16>, vector<2xf16>",
    "vectorchain.scan_with_gap %v {eval_order = #vectorchain<eval_order left_to_right>, gap = 4 : index, "
    "reduction_op = #vectorchain<binary_operator add>} : vector<2xf16>, vector<2xf16>",
    "vectorchain.rotate %v, %c9 {right_shift = false} : vector<2xf16>, index, vector<2xf16>",
    "vectorchain.shuffle input(%v), variable(%i), pad(%c0, %c9), mask(%k) {indices = [1 : i32, -1 : i32, -3 : i32], "
    "repetition = 2 : i32} : vector<2xf16>, index, index, index, vector<2xi1>, vector<6xf16>",
    "uniform.query_map(map:%c0, key:%i) : index",
    "symbol.create_symbol {SymbolId = -5 : i64} : index",
    "symbol.create_id %i {symbol_id = -5 : si64} : index",
]


@pytest.mark.parametrize("line", LINES, ids=[line.split("{")[0].split("%")[0].strip() for line in LINES])
def test_lines_print_as_they_read(line: str) -> None:
    """checklist T1."""
    quiet = ("sync", "send", "opaque {", "implicit", "create_id")
    has_result = not any(word in line.split("%")[0] for word in quiet)
    text = round_trip(("%r = " if has_result else "") + line)
    flat = text
    for name, definition in [piece.split(" = ", 1) for piece in text.splitlines() if piece.startswith("#")]:
        flat = flat.replace(f"= {name},", f"= {definition},").replace(f"= {name}}}", f"= {definition}}}")
    body = [piece for piece in flat.splitlines() if not piece.startswith("#")]
    mnemonic = line.split(" ")[0].split("(")[0]
    assert any(mnemonic in piece for piece in body)
    attributes = line.partition("{")[2].rpartition("}")[0]
    assert any(attributes in piece for piece in body)


def test_group_with_blank() -> None:
    """checklist T2."""
    text = round_trip("%r = dataflow.create_group (%u0, %u1 : index, index) : index")
    assert "dataflow.create_group(%" in text


def test_program_units() -> None:
    """checklist T3, T4."""
    text = round_trip(
        """
        dataflow.program_unit iter_arg : %me -> (%u0, %u1) {precision = "fp16"} : {
          dataflow.sync_recv %me : index
          "dataflow.return"() : () -> ()
        }
        dataflow.program_unit %u2 : { }
        """
    )
    assert 'dataflow.program_unit iter_arg : %arg0 -> (%0, %1) {precision = "fp16"} : {' in text
    assert "dataflow.return" not in text
    parsed = ktir.parse(text)
    first, second = [op for op in parsed.walk() if isinstance(op, dataflow.ProgramUnit)]
    assert first.iter_arg is not None
    assert second.iter_arg is None
    assert second.body.block.arguments == ()
    assert isinstance(second.body.block.terminator, dataflow.Return)


def test_unit_without_handle() -> None:
    """checklist T5."""
    assert "at least one result" in problems('"dataflow.get_unit"() {name = "a", type = "b"} : () -> ()')
    turned = round_trip('%r = dataflow.get_unit {type = "a", name = "b", core = 7 : i32} : index')
    assert '= dataflow.get_unit {core = 7 : i32, name = "b", type = "a"} : index' in turned
    unit = dataflow.GetUnit.of("C1-sfu", "sfu", 1)
    assert (unit.core, unit.corelet) == (1, -1)


def test_mappings() -> None:
    """checklist T6, T7, T8."""
    text = round_trip(
        "%m = uniform.def_immutable_mapping([%u0 -> %c0], [%u1 -> %c9]):index\n"
        "%n = uniform.def_immutable_mapping([%u0 -> %v]) : index, vector<2xf16>"
    )
    assert "]):index\n" in text
    assert "]):index, vector<2xf16>\n" in text
    symbols = "%s = symbol.create_symbol {SymbolId = -1 : i64} : index\n"
    define = "%m = uniform.def_immutable_mapping"
    assert "All Keys are not of same type" in problems(f"{define}([%u0 -> %c0], [%c0 -> %c9]):index")
    assert "All map values are expected to be scalar values." in problems(
        f"{symbols}{define}([%u0 -> %s], [%u1 -> %c9]):index"
    )
    assert "All map values should be of same type." in problems(
        f"{symbols}{define}([%u0 -> %c9], [%u1 -> %s]):index"
    )


def test_empty_sets() -> None:
    """checklist T9: a set without conditions has one that always holds."""
    text = round_trip("%r = vectorchain.create_affine_mask {mask_set = affine_set<() : ()>} : vector<8xi1>")
    assert "affine_set<() : (0 == 0)>" in text


def test_symbols_that_nobody_uses() -> None:
    """checklist T16: a definition stays and keeps what it is computed from; a placeholder goes."""
    lines = """
      %s = symbol.create_symbol {SymbolId = -5 : i64} : index
      %sum = arith.addi %i, %j : index
      symbol.create_id %sum {symbol_id = -6 : si64} : index
      %unused = arith.addi %j, %j : index
    """
    text = ktir.print_module(dce(ktir.parse(module(lines, ""))))
    assert "create_symbol" not in text
    assert "symbol.create_id" in text
    assert text.count("arith.addi") == 1


def test_no_parentheses_around_units() -> None:
    """checklist T20."""
    text = round_trip(
        """
        ktdf_lowering.execute_on %u0, %u1 {
          ktdf_lowering.signal %u0, %u1
          ktdf_lowering.execute_on %u0 { }
        }
        """
    )
    assert re.search(r"ktdf_lowering.execute_on %\d+, %\d+ \{\n\s*ktdf_lowering.signal %\d+, %\d+\n", text)
    for line in ("ktdf_lowering.signal(%u0)", "ktdf_lowering.execute_on(%u0) { }"):
        with pytest.raises(ktir.ParseError):
            ktir.parse(module(line))


def test_access_maps() -> None:
    """checklist T10."""
    text = round_trip(
        "%r = agen.vector_load %w[%i * 3 + %j, %i] {load_order = affine_map<(d0, d1) -> (d0, d1)>, load_set = "
        "affine_set<(d0, d1) : (d0 == 0, d1 >= 0, -d1 + 31 >= 0)>} : memref<5x96xf16>, vector<32xf16>\n"
        "agen.vector_store %r, %w[4, %j + 64] {store_order = affine_map<(d0, d1) -> (d0, d1)>, store_set = "
        "affine_set<(d0, d1) : (d0 == 0, d1 >= 0, -d1 + 31 >= 0)>} : memref<5x96xf16>, vector<32xf16>"
    )
    (load,) = [op for op in ktir.parse(text).walk() if isinstance(op, agen.VectorLoad)]
    assert str(load.access_map.map) == "(d0, d1) -> (d0 * 3 + d1, d0)"
    assert len(load.indices) == 2
    assert "[%i * 3 + %j, %i]" in text


COPY = """agen.composite_load_and_store src:%w[%i * 3, 0] dst:%w[0, 0]
 time_symbols(), load_iv(%x:vector<32xf16>)
 {load_order = LO, load_set = LS, load_time_addr_map = affine_map<(d0) -> (d0, 0)>, store_order = SO, store_set = SS, store_time_addr_map = affine_map<(d0) -> (d0, 0)>, time_order = affine_map<(d0) -> (d0)>, time_set = affine_set<(d0) : (d0 >= 0, -d0 + 2 >= 0)>}
{
  agen.yield
} : memref<5x96xf16>, memref<5x96xf16>"""
ORDER = "affine_map<(d0, d1) -> (d0, d1)>"
ROW = "affine_set<(d0, d1) : (d0 == 0, d1 >= 0, -d1 + 31 >= 0)>"
LINE_ORDER = "affine_map<(d0) -> (d0)>"
LINE = "affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>"


def copy(load_order: str = ORDER, load_set: str = ROW, store_order: str = ORDER, store_set: str = ROW) -> str:
    text = COPY
    for name, value in (("LO", load_order), ("LS", load_set), ("SO", store_order), ("SS", store_set)):
        text = text.replace(f"= {name},", f"= {value},")
    return text


def test_composite_copy() -> None:
    text = round_trip(copy())
    assert "agen.composite_load_and_store src:%" in text
    assert "[%i * 3, 0] dst:%" in text
    assert "\n     time_symbols(), load_iv(%arg0:vector<32xf16>)\n" in text
    (op,) = [op for op in ktir.parse(text).walk() if isinstance(op, agen.CompositeLoadAndStore)]
    assert op.is_plain_copy
    source, target = op.sides
    assert str(source.map) == "(d0) -> (d0 * 3, 0)"
    assert target.indices == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (copy(load_set=LINE, load_order=LINE_ORDER), "load set and src array dimensions should match"),
        (copy(load_order=LINE_ORDER), "load set and order dimensions should match"),
        (copy(store_set=LINE, store_order=LINE_ORDER), "store set and dst array dimensions should match"),
        (copy(store_order=LINE_ORDER), "store set and order dimensions should match"),
    ],
)
def test_composite_copy_dimensions(text: str, message: str) -> None:
    """checklist T11."""
    assert message in problems(text)


def test_bit_streams() -> None:
    """checklist T13."""
    text = round_trip("%r = vectorchain.constant_bitstream {value = [15360]} : vector<1xf16>")
    assert "{value = [0x3c00]} : vector<1xf16>" in text
    wide = "%r = vectorchain.constant_bitstream {{{}value = [65536]}} : vector<1xf16>"
    assert "exceeds bitwidth" in problems(wide.format(""))
    assert "is_symbol = true" in round_trip(wide.format("is_symbol = true, "))
    assert "result does not match value array" in problems(
        "%r = vectorchain.constant_bitstream {value = [1]} : vector<2xf16>"
    )


def test_shuffles() -> None:
    """checklist T14."""
    shuffle = "%r = vectorchain.shuffle input(%v) {{indices = [{}], repetition = {} : i32}} : vector<2xf16>, vector<{}>"
    assert "out of bounds indices element" in problems(shuffle.format("-1 : i32", 8, "8xf16"))
    assert "result does not scale with indices and repetitions" in problems(
        shuffle.format("0 : i32, 1 : i32, 0 : i32", 2, "8xf16")
    )
    assert "input element type does not match output" in problems(shuffle.format("0 : i32", 8, "8xf32"))
    with pytest.raises(ktir.ParseError, match="expected 'variable', 'pad', or 'mask' keyword"):
        ktir.parse(module("%r = vectorchain.shuffle input(%v), fill(%c0) {} : vector<2xf16>, vector<2xf16>"))


def test_lane_counts() -> None:
    """checklist T15."""
    assert "result size does not match input size" in problems(
        "%r = vectorchain.cast %v : vector<2xf16>, vector<1xf16>"
    )
    assert "operand and result lane counts must match" in problems(
        "%r = vectorchain.neg %v : vector<2xf16>, vector<1xf16>"
    )


def test_symbol_maps() -> None:
    """checklist T17."""
    symbols = "%s = symbol.create_symbol {SymbolId = -1 : i64} : index\n"
    mapping = "%m = symbol.symbol_immutable_mapping ([%c0 -> %s]) : index\n"
    assert mapping.split("=")[1].split("(")[0] in round_trip(symbols + mapping)
    assert "key's parentOp must be a ForOp." in problems(
        symbols + mapping + "%q = symbol.query_map(map:%m, key:%i) : index"
    )
    assert "map's defOp must be symbol_immutable_mapping op." in problems(
        symbols + "%q = symbol.query_map(map:%c0, key:%c9) : index"
    )
    assert "All keys expected to be constant operations" in problems(
        symbols + "%m = symbol.symbol_immutable_mapping ([%i -> %s]) : index"
    )


def test_types() -> None:
    """checklist T18."""
    kept = "%r = dataflow.receive %u0 : !dataflow.custom_vector<8x!dataflow.{}>"
    assert "!dataflow.custom<mxfp4>" in round_trip(kept.format("mxfp<4>"))
    assert "!dataflow.custom<mxint4>" in round_trip(kept.format("mxint<4>"))
    assert "!dataflow.mxfp<6>" in round_trip(kept.format("mxfp<6>"))
    with pytest.raises(ktir.ParseError, match="expected 'mxfp4', 'mxfp8' or 'mxint4' but got 'mxfp6'"):
        ktir.parse(module(kept.format("custom<mxfp6>")))


def test_enumerations() -> None:
    """checklist T19: spelling and integer of every value."""
    names = [
        "and0",
        "or0",
        "xnor",
        "and_not",
        "min",
        "max",
        "abs_min",
        "abs_max",
        "add",
        "mul",
        "sub",
        "mul_div2",
    ]
    assert [vectorchain.BinaryOperatorAttr.spelling[BinaryOperator(i)] for i in range(12)] == names
    compares = ["eq", "neq", "lt", "le", "gt", "ge"]
    assert [vectorchain.CompareOperatorAttr.spelling[CompareOperator(i)] for i in range(6)] == [
        f"compare_{name}" for name in compares
    ]
    assert [dataflow.Direction.spelling[RoutingDirection(i)] for i in range(4)] == [
        "PseudoRandom",
        "CounterClockwise",
        "Clockwise",
        "BothWays",
    ]
    for name in names:
        line = (
            f"%r = vectorchain.binary %v, %v {{binary_op = #vectorchain<binary_operator {name}>, op_specific_map = "
            "affine_map<(d0) -> (d0)>} : vector<2xf16>, vector<2xf16>, vector<2xf16>"
        )
        assert f"#vectorchain<binary_operator {name}>" in round_trip(line)
    with pytest.raises(ktir.ParseError, match="expected one of and0, or0"):
        ktir.parse(module(line.replace("mul_div2", "nand")))


def test_paged_views() -> None:
    """checklist T21."""
    paged = (
        "%r = dataflow.get_paged_logical_memory_view %u2, %c0 {{layout_map = affine_map<(d0, d1) -> (d0 * 16 + d1)>}}\n"
        "  {{segments =\n    page0: (idx_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, {} >= 0)>, "
        "start_addr = {})}} : index, index, memref<8x16xf16>"
    )
    assert "{segments = \n" in round_trip(paged.format("-d1 + 15", "%c9"))
    assert "page start addresses should be arith::ConstantOp" in problems(paged.format("-d1 + 15", "%i"))
    assert "idx_set should be hyper rectangular" in problems(paged.format("-d1 + d0", "%c9"))


def test_regions_of_units() -> None:
    text = round_trip(
        """
        %r = uniform.uniformize_regions -> index {
          (%x -> %u0, %u1){
            uniform.yield %c9 : index
          }
          (%y -> %u2){
            uniform.yield %c0 : index
          }
        }
        uniform.equalize_pattern {
          (%x -> %u0){
            dataflow.sync_send %u2 : index
            uniform.yield
          }
          (%y -> %u1){
            dataflow.sync_send %u0 : index
            uniform.yield
          }
        }
        """
    )
    assert "uniform.uniformize_regions -> index {" in text
    one = "uniform.equalize_pattern {{\n (%x -> %u0){{ dataflow.sync_send %u2 : index }}\n (%y -> {}){{ {} }} }}"
    assert "Operation sequences different." in problems(one.format("%u1", "dataflow.sync_recv %u2 : index"))
    assert "regions have different operation size." in problems(one.format("%u1", ""))
    assert "duplicated unit SSAs found!" in problems(one.format("%u0", "dataflow.sync_send %u2 : index"))


def test_registration() -> None:
    context = ktir.Context()
    assert {d.name for d in context.dialects} >= {"dataflow", "agen", "vectorchain", "uniform", "symbol"}
    assert context.operation("symbol.create_id") is symbol.CreateId
    assert context.operation("uniform.query_map") is uniform.QueryMap


TIMES = "time_addr_map = affine_map<(d0) -> (d0, 0)>, time_order = affine_map<(d0) -> (d0)>, time_set = affine_set<(d0) : (d0 >= 0, -d0 + 2 >= 0)>"
LOAD_SETS = f"load_order = {ORDER}, load_set = {ROW}"
STORE_SETS = f"store_order = {ORDER}, store_set = {ROW}"
FLAT = "%flat = dataflow.get_logical_memory_view %u2, %c0 {layout_map = affine_map<(d0) -> (d0)>} : index, index, memref<480xf16>\n"
TABLE = "%tab = dataflow.get_logical_memory_view %u2, %c9 {layout_map = affine_map<(d0) -> (d0)>} : index, index, memref<16xi32>\n"


def test_one_sided_composites() -> None:
    """checklist T12: a region or an input vector, not both."""
    text = round_trip(
        f"""agen.composite_load %w[%i, 0]
         time_symbols()(%lv:vector<32xf16>)
         {{{LOAD_SETS}, {TIMES}}}
        {{
          dataflow.send %u0, %lv : vector<32xf16>
          agen.yield
        }} : memref<5x96xf16>
        agen.composite_store %w[%i, 0]
         time_symbols(%j)
         {{{STORE_SETS}, {TIMES}}}
        {{
          %in = dataflow.receive %u0 : vector<32xf16>
          agen.yield %in : vector<32xf16>
        }} : memref<5x96xf16>
        %big = dataflow.receive %u0 : vector<96xf16>
        agen.composite_store %w[%i, 0]
         input_vector=%big time_symbols()
         {{{TIMES}}} : memref<5x96xf16>, vector<96xf16>"""
    )
    assert "time_symbols()(%arg0:vector<32xf16>)" in text
    assert re.search(r"input_vector=%\d+ time_symbols\(\)\n", text)
    both = "%big = dataflow.receive %u0 : vector<96xf16>\nagen.composite_store %w[%i, 0] input_vector=%big time_symbols() {{{}{}}} {} : memref<5x96xf16>, vector<96xf16>"
    assert "input_vector and region can't co-exist" in problems(
        both.format("", TIMES, "{ agen.yield %big : vector<96xf16> }")
    )
    neither = f"agen.composite_store %w[%i, 0] time_symbols() {{{TIMES}}} : memref<5x96xf16>"
    assert "either store_set/order or input vector has to be present" in problems(neither)


def test_indirect_accesses() -> None:
    text = round_trip(
        TABLE
        + f"""%r = agen.indirect_vector_load indirect:%tab[%i] direct:%w[0, 0]
         {{{LOAD_SETS}}}
         : memref<16xi32>, memref<5x96xf16>, vector<32xf16>
        agen.indirect_vector_store %r indirect:%tab[%i + 1] direct:%w[0, 0]
         {{{STORE_SETS}}}
         : vector<32xf16>, memref<16xi32>, memref<5x96xf16>"""
    )
    assert "indirect:%" in text
    with pytest.raises(ktir.ParseError, match="load set is missing in the operation"):
        ktir.parse(
            module(
                TABLE
                + "%r = agen.indirect_vector_load indirect:%tab[%i] direct:%w[0, 0] {} : memref<16xi32>, memref<5x96xf16>, vector<32xf16>"
            )
        )


def test_symbolic_accesses() -> None:
    load = "%sv = agen.symbolic_vector_load {}[indices:({}), strides:({})] {{load_order = affine_map<(d0) -> (d0)>, load_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>}} : {}, vector<32x{}>\n"
    store = "agen.symbolic_vector_store %sv, %flat[indices:(%i), strides:(%c9)] {store_order = affine_map<(d0) -> (d0)>, store_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>} : memref<480xf16>, vector<32xf16>"
    text = round_trip(FLAT + load.format("%flat", "%i, %j", "%c9, %c0", "memref<480xf16>", "f16") + store)
    assert "[indices:(%i, %j), strides:(%c9, %c0)]" in text
    for arguments, message in [
        (("%w", "%i", "%c9", "memref<5x96xf16>", "f16"), "memref is not one dimensional"),
        (("%flat", "%i", "%c9", "memref<480xf16>", "f32"), "result type does not match memref element type"),
        (("%flat", "%i", "", "memref<480xf16>", "f16"), "strides should be the same size as indices"),
        (("%flat", "", "", "memref<480xf16>", "f16"), "indices should not be empty"),
    ]:
        assert message in problems(FLAT + load.format(*arguments))


INDIRECT_TIMES = (
    TIMES.replace("time_addr_map", "load_direct_time_addr_map", 1)
    + ", "
    + TIMES.split(", time_order")[0].replace("time_addr_map", "store_direct_time_addr_map")
)


def test_indirect_composites() -> None:
    """checklist T1: either place may come from a table; layout of the printed text."""
    text = round_trip(
        TABLE
        + f"""agen.composite_indirect_load_and_store indirect_src:%tab[%i] direct_src:%w[0, 0] direct_dst:%w[%j, 0]
         multicast_info = %u0 time_symbols(%j), load_iv(%x:vector<32xf16>)
         {{{LOAD_SETS}, {STORE_SETS}, {INDIRECT_TIMES}}}
        {{
          agen.yield
        }} : memref<16xi32>, memref<5x96xf16>, memref<5x96xf16>
        agen.composite_indirect_load_and_store direct_src:%w[0, 0] indirect_dst:%tab[%i] direct_dst:%w[%j, 0]
         time_symbols(), load_iv(%x:vector<32xf16>)
         {{{LOAD_SETS}, {STORE_SETS}, {INDIRECT_TIMES}}}
        {{
          agen.yield
        }} : memref<5x96xf16>, memref<16xi32>, memref<5x96xf16>
        agen.composite_indirect_load indirect:%tab[%i] direct:%w[0, 0] time_symbols(), load_iv(%x:vector<32xf16>)
         {{{LOAD_SETS}, {TIMES}}}
        {{
          dataflow.send %u0, %x : vector<32xf16>
          agen.yield
        }} : memref<16xi32>, memref<5x96xf16>
        agen.composite_indirect_store indirect:%tab[%i + 1] direct:%w[0, 0]
         time_symbols()
         {{{STORE_SETS}, {TIMES}}}
        {{
          %in = dataflow.receive %u0 : vector<32xf16>
          agen.yield %in : vector<32xf16>
        }} : memref<16xi32>, memref<5x96xf16>"""
    )
    flat = re.sub(r"%\d+", "%N", text)
    assert (
        "composite_indirect_load_and_store indirect_src:%N[%i] direct_src:%N[0, 0] direct_dst:%N[%j, 0]\n"
        in flat
    )
    assert "     multicast_info = %N time_symbols(%j), load_iv(%arg0:vector<32xf16>)\n" in flat
    assert "load_and_store direct_src:%N[0, 0] indirect_dst:%N[%i] direct_dst:%N[%j, 0]\n" in flat
    assert (
        "composite_indirect_load indirect:%N[%i] direct:%N[0, 0] time_symbols(), load_iv(%arg0:vector<32xf16>)\n"
        in flat
    )
    assert "composite_indirect_store indirect:%N[%i + 1] direct:%N[0, 0]\n     time_symbols()\n" in flat


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("composite_indirect_load_and_store indirect_src:%tab[%i] dir:%w[0, 0]", "error parsing direct src"),
        ("composite_indirect_load_and_store direct_src:%w[0, 0] %w", "error parsing direct dst"),
        ("composite_indirect_load direct:%w[0, 0]", "error parsing indirect"),
        ("composite_indirect_store indirect:%tab[%i] %w[0, 0]", "error parsing direct"),
        ("composite_indirect_load indirect:%tab[%i] direct:%w[0, 0] times()", "error parsing time_symbols and ivs"),
        ("composite_indirect_store indirect:%tab[%i] direct:%w[0, 0] times()", "error parsing time_symbols"),
        ("composite_indirect_load indirect:%tab[%i] direct:%w[0, 0] time_symbols(), load_iv(%x:vector<32xf16>) {}",
         "load set is missing in the operation"),
        (f"composite_indirect_store indirect:%tab[%i] direct:%w[0, 0] time_symbols() {{store_set = {ROW}}}",
         "store order is missing in the operation"),
    ],
)  # fmt: skip
def test_indirect_composites_that_do_not_parse(text: str, message: str) -> None:
    with pytest.raises(ktir.ParseError, match=message):
        ktir.parse(module(TABLE + "agen." + text))


def test_dimensions_of_indirect_composites() -> None:
    wrong = LOAD_SETS.replace(ROW, LINE).replace(ORDER, LINE_ORDER)
    load = f"""agen.composite_indirect_load indirect:%tab[%i] direct:%w[0, 0] time_symbols(), load_iv(%x:vector<32xf16>)
         {{{wrong}, {TIMES}}}
        {{ agen.yield }} : memref<16xi32>, memref<5x96xf16>"""
    assert "load set and direct src array dimensions should match" in problems(TABLE + load)
    store = f"""agen.composite_indirect_store indirect:%tab[%i] direct:%w[0, 0] time_symbols()
         {{{wrong.replace("load", "store")}, {TIMES}}}
        {{ agen.yield }} : memref<16xi32>, memref<5x96xf16>"""
    assert "store set and direct array dimensions should match" in problems(TABLE + store)


def test_interleaved_transfers() -> None:
    """checklist T1: transfers of one kind and length, in turns."""
    one = f"""agen.composite_load %w[%i, 0] time_symbols()(%lv:vector<32xf16>) {{{LOAD_SETS}, {TIMES}}}
      {{ dataflow.send %u0, %lv : vector<32xf16> }} : memref<5x96xf16>\n"""
    text = round_trip(
        f"agen.composite_memory_interleave {{granularity = 2 : i32}} {{\n{2 * one}}}\nagen.composite_memory_interleave {{}} {{ }}"
    )
    assert "agen.composite_memory_interleave {granularity = 2 : i32} {\n" in text
    assert "agen.composite_memory_interleave {} {\n" in text
    assert text.count("agen.yield") == 2  # those of the transfers
    longer = one.replace("-d0 + 2 >= 0", "-d0 + 3 >= 0")
    assert "the same number of time steps" in problems(
        f"agen.composite_memory_interleave {{}} {{\n{one}{longer}}}"
    )
    copied = copy().replace("%x:", "%cx:")
    assert "should be of one kind" in problems(f"agen.composite_memory_interleave {{}} {{\n{one}{copied}\n}}")
    assert "may only hold composite memory operations" in problems(
        "agen.composite_memory_interleave {} { %a = arith.addi %i, %j : index }"
    )


MASKED = '%r = agen.set_transfer_mask_state mask_value(%c9) {{ num_slices = 4 : i32, slice_mask_map = "{}"{} }} : index, vector<32xf16>'
MASKS = ', maskA = "(unmasked = 3 : i32, masked = 1 : i32)", maskB = "(unmasked = 1 : i32, masked = 1 : i32)"'


def test_masks_of_transfers() -> None:
    """checklist T1: patterns by letter, kept as numbers."""
    line = MASKED.format("(A)(0)(A|B)(1)", MASKS)
    text = round_trip(line)
    assert line.split("mask_value(%c9)")[1] in text
    (op,) = [op for op in ktir.parse(text).walk() if isinstance(op, agen.SetTransferMaskState)]
    assert tuple(op.num_unmasked_elements or ()) == (3, 1)
    assert tuple(op.num_masked_elements or ()) == (1, 1)
    assert not op.is_unmask
    for digit, full in (("(0)", False), ("(1)", True)):
        (op,) = [
            o
            for o in ktir.parse(module(MASKED.format(digit * 8, ""))).walk()
            if isinstance(o, agen.SetTransferMaskState)
        ]
        assert (op.is_unmask, op.is_full_mask) == (not full, full)
    for masks, message in (
        (MASKS.replace("maskB", "maskC"), "mask attribute is not properly labeled"),
        (', maskA = "(1, 2)"', "mask attribute does not describe the mask pattern"),
        (', maskA = "(unmasked, masked)"', "cannot determine where unmasked/masked values are"),
    ):
        with pytest.raises(ktir.ParseError, match=message):
            ktir.parse(module(MASKED.format("(A)(0)(A|B)(1)", masks)))
    generic = '%r = "agen.set_transfer_mask_state"(%c9) {{num_slices = 4 : i32, slice_mask_map = "(A)"{}}} : (index) -> vector<32xf16>'
    kept, replaced = ", num_unmasked_elements = array<i32: 1>", ", num_masked_elements = array<i32: 1, 2>"
    assert "cannot have unmasked values if there are no masked values" in problems(generic.format(kept))
    assert "cannot have masked values if there are no unmasked values" in problems(generic.format(replaced))
    assert "number of unmasked values and number of masked values must match" in problems(
        generic.format(kept + replaced)
    )
