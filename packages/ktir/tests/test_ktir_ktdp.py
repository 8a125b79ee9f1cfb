"""The ktdp dialect: text round trips and verbatim diagnostics (KTIR spec 1, checklist)."""

from __future__ import annotations

import re

import pytest

import ktir
from ktir.affine import affine_map, affine_set
from ktir.dialects.ktdp import (
    CT_LOCAL,
    GLOBAL,
    AccessTileType,
    ConstructAccessTile,
    ConstructIndirectAccessTile,
    ConstructMemoryView,
    MemorySpace,
    RuntimeArgType,
    Space,
    TileFutureType,
)
from ktir.dialects.ktdp.discardable import KEEPOUT, keepout_ranges
from ktir.errors import KtirError, ParseError, VerifyError
from ktir.ir import Operation
from ktir.layout import StickLayout
from ktir.transforms import alpha_equivalent
from ktir.types import F16, INDEX, TensorType

HEADER = """
#id1 = affine_map<(i) -> (i)>
#id2 = affine_map<(i, j) -> (i, j)>
#swap = affine_map<(i, j) -> (j, i)>
#b8x16 = affine_set<(i, j) : (i >= 0, -i + 7 >= 0, j >= 0, -j + 15 >= 0)>
#b96 = affine_set<(i) : (i >= 0, i <= 95)>
#b32 = affine_set<(i) : (i >= 0, i <= 31)>
#g1 = affine_set<(g) : (g == 0)>
#g2 = affine_set<(g) : (g >= 0, -g + 1 >= 0)>
#four = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>
"""

KERNEL = """
func.func @k(%p: index, %n: index, %m: !ktdp.runtime_arg<index, granularity=8>, %u: !ktdp.runtime_arg<index, upperbound=64>, %v1: memref<96xf16>,
             %v2: memref<50x160xf32>, %t1: !ktdp.access_tile<32xindex>, %d1: tensor<32xf16>,
             %tbl: memref<5x3xi32>, %pool: memref<12x8x16xf16>, %part: tensor<8xf16>, %i: index, %j: index) {
  BODY
  return
}
"""


def module(body: str) -> str:
    return HEADER + KERNEL.replace("BODY", body)


def round_trip(body: str) -> tuple[ktir.Module, str]:
    """Parse, verify, and check that custom and generic print read back to the same text."""
    parsed = ktir.parse(module(body))
    ktir.verify(parsed)
    text = ktir.print_module(parsed)
    again = ktir.parse(text)
    ktir.verify(again)
    assert ktir.print_module(again) == text
    assert alpha_equivalent(again, parsed)
    generic = ktir.print_module(parsed, generic=True)
    assert ktir.print_module(ktir.parse(generic), generic=True) == generic
    assert ktir.print_module(ktir.parse(generic)) == text
    return parsed, text


def only(parsed: ktir.Module, cls: type[Operation]) -> Operation:
    (op,) = (op for op in parsed.walk() if isinstance(op, cls))
    return op


def verify_messages(text: str) -> str:
    with pytest.raises(VerifyError) as caught:
        ktir.verify(ktir.parse(text))
    assert all(d.location is not None for d in caught.value.diagnostics)
    assert all(d.notes for d in caught.value.diagnostics)
    return str(caught.value)


# -- types and attributes


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("!ktdp.access_tile<24x16xindex>", None),
        ("!ktdp.access_tile<4x?xindex>", None),
        ("!ktdp.access_tile<0x7xindex>", None),
        ("!ktdp.access_tile<index>", None),
        ("!ktdp.runtime_arg<index>", None),
        ("!ktdp.runtime_arg<index, upperbound=64, granularity=8>",
         "!ktdp.runtime_arg<index, granularity=8, upperbound=64>"),
        ("!ktdp.runtime_arg<i32, upperbound=300, granularity=3>", "!ktdp.runtime_arg<i32, granularity=3, upperbound=300>"),
        ("!ktdp.runtime_arg<f16, granularity = 32>", "!ktdp.runtime_arg<f16, granularity=32>"),
        ("!ktdp.tile_future<(tensor<8xf16>, tensor<8xi32>), groups = affine_set<(d0) : (d0 == 0)>>", None),
        ("!ktdp.tile_future<tensor<8xf16>, groups = affine_set<(g) : (g == 0)>>",
         "!ktdp.tile_future<(tensor<8xf16>), groups = affine_set<(d0) : (d0 == 0)>>"),
    ],
)  # fmt: skip
def test_types_round_trip(text: str, printed: str | None) -> None:
    """ktir checklist 1, 3, 8, 9. Spec 1.1, both spellings of futures."""
    op = ktir.parse(f'"a.b"() : () -> {text}').operations[0]
    assert str(op.results[0].type) == (printed or text)
    again = ktir.parse(f'"a.b"() : () -> {op.results[0].type}').operations[0]
    assert again.results[0].type == op.results[0].type


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("!ktdp.access_tile<4xf16>", "tile element type must be 'index', but got: f16"),
        ("!ktdp.access_tile<4x4xf32>", "tile element type must be 'index', but got: f32"),
        ("!ktdp.runtime_arg<tensor<4xf16>>", "runtime_arg underlying type must be a builtin type (index, integer, "
                                              "or float), but got: tensor<4xf16>"),
        ("!ktdp.runtime_arg<index, granularity=0>", "runtime_arg granularity must be positive, but got: 0"),
        ("!ktdp.runtime_arg<i32, granularity=-4>", "runtime_arg granularity must be positive, but got: -4"),
        ("!ktdp.runtime_arg<index, upperbound=0>", "runtime_arg upperbound must be positive, but got: 0"),
        ("!ktdp.runtime_arg<index, upperbound=-4>", "runtime_arg upperbound must be positive, but got: -4"),
        ("!ktdp.runtime_arg<index, granularity=1, granularity=2>", "duplicate 'granularity' keyword"),
        ("!ktdp.runtime_arg<index, upperbound=1, upperbound=2>", "duplicate 'upperbound' keyword"),
        ("!ktdp.runtime_arg<index, step=2>", "expected 'granularity' or 'upperbound' keyword"),
        ("!ktdp.tile_future<(), groups = affine_set<(g) : (g == 0)>>", "tile_future must carry at least one partial"),
        ("!ktdp.tile_future<(tensor<8xf16>), groups = affine_set<(g, h) : (g == 0)>>",
         "tile_future `groups` must have exactly one dimension (g)"),
        ("!ktdp.tile_future<(tensor<8xf16>), groups = affine_set<(g)[s] : (g == 0)>>",
         "tile_future `groups` must have no symbols"),
        ("!ktdp.foo", "unknown type `foo` in dialect `ktdp`"),
    ],
)  # fmt: skip
def test_bad_types(text: str, message: str) -> None:
    """ktir checklist 2, 4-7, 10, 11. V-AT1, V-RA1-3, P-RA4-5, V-TF1-3."""
    with pytest.raises(ParseError) as caught:
        ktir.parse(f'"a.b"() : () -> {text}')
    assert message in caught.value.message


def test_types_from_python() -> None:
    """V-AT2 and the rest without text."""
    with pytest.raises(KtirError, match="tile dimension size must be dynamic or >= 0"):
        AccessTileType((4, -1))
    with pytest.raises(KtirError, match="granularity must be positive"):
        RuntimeArgType(INDEX, 0)
    with pytest.raises(KtirError, match="exactly one dimension"):
        TileFutureType((TensorType((8,), F16),), affine_set("() : ()"))
    with pytest.raises(KtirError, match="ct_id is only valid"):
        MemorySpace(Space.GLOBAL, 1)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("#ktdp.memory_space<global>", None),
        ("#ktdp.memory_space<ct_local, ct_id = 3>", None),
        ("#ktdp.spyre_memory_space<HBM>", "#ktdp.memory_space<global>"),
        ("#ktdp.spyre_memory_space<LX>", "#ktdp.memory_space<ct_local>"),
        ("#ktdp.spyre_memory_space<LX, core = 5>", "#ktdp.memory_space<ct_local, ct_id = 5>"),
        ("#ktdp.spyre_memory_space<L0, core = 1>", None),
        ("#ktdp.spyre_memory_space<unspecified>", None),
    ],
)
def test_memory_spaces_read_old_and_print_new(text: str, printed: str | None) -> None:
    """ktir checklist 12, 13. Spec 1.2.1 and disagreement 1; also as memory space of a type."""
    op = ktir.parse(f'"a.b"() {{s = {text}}} : () -> memref<4xf16, {text}>').operations[0]
    assert str(op.attributes["s"]) == (printed or text)
    assert str(op.results[0].type) == f"memref<4xf16, {printed or text}>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#ktdp.memory_space<DDR>", "to be one of: global, ct_local"),
        ("#ktdp.memory_space<sram>", "to be one of: global, ct_local"),
        ("#ktdp.memory_space<global, ct_id = 1>", "ct_id is only valid for the ct_local memory space"),
        ("#ktdp.memory_space<ct_local, ct_id = -1>", "ct_id must be non-negative, but got: -1"),
        ("#ktdp.spyre_memory_space<LX, core = -3>", "core affinity must be non-negative, but got: -3"),
        ("#ktdp.spyre_memory_space<HBM, core = 2>", "core affinity is only valid for LX or L0 memory spaces, but got "
                                                    "memory space 'HBM' with core = 2"),
        ("#ktdp.foo", "unknown attribute `foo` in dialect `ktdp`"),
    ],
)  # fmt: skip
def test_bad_memory_spaces(text: str, message: str) -> None:
    """ktir checklist 14-17. V-MS1-3, as an attribute and inside a memref type."""
    for use in (f'"a.b"() {{s = {text}}} : () -> ()', f'"a.b"() : () -> memref<4xf16, {text}>'):
        with pytest.raises(ParseError) as caught:
            ktir.parse(use)
        assert message in caught.value.message


# -- tile ids and runtime arguments


def test_compute_tile_ids() -> None:
    """ktir checklist 18-20. One or several results, bundles; none or another type is an error."""
    _, text = round_trip(
        "%t = ktdp.get_compute_tile_id : index\n %x, %y = ktdp.get_compute_tile_id : index, index\n"
        '%q:3 = ktdp.get_compute_tile_id : index, index, index\n "a.b"(%q#2, %y) : (index, index) -> ()'
    )
    assert "%0 = ktdp.get_compute_tile_id : index\n" in text
    assert "%1:2 = ktdp.get_compute_tile_id : index, index\n" in text
    with pytest.raises(ParseError, match="operation defines 2 results but was provided 1 to bind"):
        ktir.parse(module("%t = ktdp.get_compute_tile_id : index, index"))
    assert "must return at least one index (num tile-grid dims >= 1)" in verify_messages(
        module('"ktdp.get_compute_tile_id"() : () -> ()')
    )
    assert "result #0 must be variadic of index, but got 'i32'" in verify_messages(
        module("%t = ktdp.get_compute_tile_id : i32")
    )


def test_runtime_arg_extract() -> None:
    """ktir checklist 72. Spec 1.11."""
    _, text = round_trip(
        "%a = ktdp.runtime_arg_extract value from %m : !ktdp.runtime_arg<index, granularity=8> -> index\n"
        "%b = ktdp.runtime_arg_extract granularity from %m : <index, granularity=8> -> index"
    )
    assert "ktdp.runtime_arg_extract value from %m : <index, granularity=8> -> index" in text
    for body, message in [
        ("value from %m : <index, granularity=8> -> i32", "result type (i32) must match runtime_arg underlying type "
                                                          "(index) when extracting value"),
        ("upperbound from %m : <index, granularity=8> -> i32",
         "cannot extract upperbound from runtime_arg that doesn't have one"),
        ("granularity from %m : <index, granularity=8> -> i32",
         "result type must be index when extracting granularity, but got 'i32'"),
        ("granularity from %u : <index, upperbound=64> -> index",
         "cannot extract granularity from runtime_arg that doesn't have one"),
        ("upperbound from %u : <index, upperbound=64> -> i32",
         "result type must be index when extracting upperbound, but got 'i32'"),
    ]:  # fmt: skip
        assert f"'ktdp.runtime_arg_extract' op {message}" in verify_messages(
            module(f"%a = ktdp.runtime_arg_extract {body}")
        )
    with pytest.raises(
        ParseError, match=r"enum values for attribute 'kind' \[value, granularity, upperbound\]"
    ):
        ktir.parse(module("%a = ktdp.runtime_arg_extract bound from %m : <index, granularity=8> -> index"))


# -- memory views

VIEW = ("{coordinate_set = affine_set<(i, j)[s] : (i >= 0, -i + s - 1 >= 0, j >= 0, -j + 63 >= 0)>, "
        "memory_space = #ktdp.memory_space<global>}")  # fmt: skip


def test_memory_view() -> None:
    """ktir checklist 33. Spec 1.5: dynamic sizes, printing, rank 0."""
    parsed, text = round_trip(
        f"%v = ktdp.construct_memory_view %p, sizes : [%n, 64], strides : [64, 1] {VIEW} : memref<?x64xf16>"
    )
    assert "ktdp.construct_memory_view %p, sizes: [%n, 64], strides: [64, 1] {coordinate_set = #set, " in text
    view = only(parsed, ConstructMemoryView)
    assert isinstance(view, ConstructMemoryView)
    assert view.mixed_sizes == (view.operands[1], 64)
    assert view.mixed_strides == (64, 1)
    assert view.memory_space == GLOBAL
    round_trip(
        "%v = ktdp.construct_memory_view %p, sizes: [], strides: [] {memory_space = #ktdp.memory_space<ct_local>, "
        "coordinate_set = affine_set<() : (0 == 0)>} : memref<f16>"
    )
    assert MemorySpace(Space.CT_LOCAL) == CT_LOCAL


def test_static_memory_view_prints_canonically() -> None:
    """ktir checklist 25. The spacing of spec 1.5, coordinate_set in front of memory_space."""
    _, text = round_trip(
        "%v = ktdp.construct_memory_view %p , sizes : [ 96,64 ] , strides:[64 , 1] { memory_space = "
        "#ktdp.memory_space<global>, coordinate_set = #b8x16 } :memref<96x64xf16>"
    )
    assert (
        "    %0 = ktdp.construct_memory_view %p, sizes: [96, 64], strides: [64, 1] {coordinate_set = #set, "
        "memory_space = #ktdp.memory_space<global>} : memref<96x64xf16>\n"
    ) in text


def test_dynamic_sizes_and_strides() -> None:
    """ktir checklist 26. Operand segments 1, 2, 2; one operand per position, also for the same value twice."""
    parsed, text = round_trip(
        "%v = ktdp.construct_memory_view %p, sizes: [%n, 8, %j], strides: [%i, %j, 1] {coordinate_set = "
        "affine_set<(a, b, c)[n, m] : (a >= 0, -a + n - 1 >= 0, b >= 0, -b + 7 >= 0, c >= 0, -c + m - 1 >= 0)>, "
        "memory_space = #ktdp.memory_space<global>} : memref<?x8x?xf16>"
    )
    view = only(parsed, ConstructMemoryView)
    assert isinstance(view, ConstructMemoryView)
    assert str(view.attributes["operandSegmentSizes"]) == "array<i32: 1, 2, 2>"
    assert [v.name for v in view.operands] == ["p", "n", "j", "i", "j"]
    assert "sizes: [%n, 8, %j], strides: [%i, %j, 1]" in text


def test_a_lenient_parser_gives_views_their_box() -> None:
    """ktir checklist 30. Without the switch a view without coordinate_set is an error."""
    text = module(
        "%v = ktdp.construct_memory_view %p, sizes: [%n, 64, %i], strides: [64, 1, 1] {memory_space = "
        "#ktdp.memory_space<global>} : memref<?x64x?xf16>"
    )
    assert "requires attribute 'coordinate_set'" in verify_messages(text)
    parsed = ktir.parse(text, ktir.Context(lenient=True))
    ktir.verify(parsed)
    view = only(parsed, ConstructMemoryView)
    assert isinstance(view, ConstructMemoryView)
    assert view.coordinate_set.set.bounding_box((3, 5)) == ((0, 2), (0, 63), (0, 4))


GENERIC_VIEW = (
    '%v = "ktdp.construct_memory_view"(%p, %n) <{{{attributes}operandSegmentSizes = array<i32: 1, {a}, {b}>, '
    "static_sizes = array<i64: {sizes}>, static_strides = array<i64: {strides}>}}> : (index, index) -> {type}"
)
BOTH = "coordinate_set = #b96, memory_space = #ktdp.memory_space<global>, "
D = -9223372036854775808


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sizes": f"{D}, 4", "strides": "1"}, "static_sizes and static_strides must have equal length"),
        ({"sizes": "4", "strides": "1"},
         "number of dynamic size operands does not match kDynamic entries in static_sizes"),
        ({"a": 0, "b": 1, "sizes": "4", "strides": "1"},
         "number of dynamic stride operands does not match kDynamic entries in static_strides"),
        ({"a": 0, "b": 1, "strides": str(D)},
         "number of dynamic size operands does not match kDynamic entries in static_sizes"),
        ({"strides": str(D)}, "number of dynamic stride operands does not match kDynamic entries in static_strides"),
        ({"type": "index"}, "result must be a memref type"),
        ({"type": "memref<?x4xf16>"}, "result memref rank does not match sizes/strides length"),
        ({"sizes": f"{D}, 4", "strides": "4, 1", "type": "memref<?x4x2xf16>"},
         "result memref rank does not match sizes/strides length"),
        ({"attributes": "memory_space = #ktdp.memory_space<global>, "}, "requires attribute 'coordinate_set'"),
        ({"attributes": "coordinate_set = #b96, "}, "requires attribute 'memory_space'"),
        ({"attributes": 'coordinate_set = #b96, memory_space = "DDR", '},
         "attribute 'memory_space' failed to satisfy constraint: KtdpMemorySpaceAttr"),
    ],
)  # fmt: skip
def test_bad_memory_views(fields: dict[str, object], message: str) -> None:
    """ktir checklist 27-30. V-CMV1-6."""
    good: dict[str, object] = {"a": 1, "b": 0, "sizes": str(D), "strides": "1", "type": "memref<?xf16>"}
    round_trip(GENERIC_VIEW.format(attributes=BOTH, **good))
    text = GENERIC_VIEW.format(**{**good, "attributes": BOTH, **fields})
    assert f"'ktdp.construct_memory_view' op {message}" in verify_messages(module(text))


@pytest.mark.parametrize(("name", "type"), [("%d1", "tensor<32xf16>"), ("%q", "i32")])
@pytest.mark.parametrize("operands", ["{}, sizes: [%n, 64], strides: [64, 1]", "%p, sizes: [{}, 64], strides: [64, 1]",
                                      "%p, sizes: [%n, 64], strides: [{}, 1]"])  # fmt: skip
def test_memory_view_operands_are_index(name: str, type: str, operands: str) -> None:
    """ktir checklist 31. Offsets, sizes and strides."""
    constant = "%q = arith.constant 4 : i32\n"
    with pytest.raises(ParseError) as caught:
        ktir.parse(
            module(
                f"{constant}%v = ktdp.construct_memory_view {operands.format(name)} {VIEW} : memref<?x64xf16>"
            )
        )
    assert caught.value.message == (
        f"use of value '{name}' expects different type than prior uses: 'index' vs '{type}'"
    )
    assert caught.value.notes[0].location is not None


def test_distributed_view() -> None:
    """ktir checklist 35-38."""
    _, text = round_trip(
        "%v = ktdp.construct_distributed_memory_view (%v1, %v1 : memref<96xf16>, memref<96xf16>) : memref<192xf16>\n"
        "%w = ktdp.construct_distributed_memory_view() : memref<4xf16>"
    )
    assert (
        "ktdp.construct_distributed_memory_view(%v1, %v1 : memref<96xf16>, memref<96xf16>) : memref<192xf16>"
        in text
    )
    name = "'ktdp.construct_distributed_memory_view' op "
    for operands, type_, message in [
        (
            "%v1 : memref<96xf16>",
            "memref<96xf32>",
            "all input memrefs must have the same element type as the result",
        ),
        (
            "%v1 : memref<96xf16>",
            "memref<9x6xf16>",
            "all input memrefs must have the same rank as the result",
        ),
        ("%v1 : memref<96xf16>", "memref<*xf16>", "result must be a memref type"),
        ("%d1 : tensor<32xf16>", "memref<32xf16>", "all inputs must be memref types"),
    ]:
        assert name + message in verify_messages(
            module(f"%v = ktdp.construct_distributed_memory_view({operands}) : {type_}")
        )


# -- access tiles


def tile(subscripts: str, attributes: str, types: str, symbols: str = "") -> str:
    return f"%x = ktdp.construct_access_tile {subscripts} {symbols} {{{attributes}}} : {types}"


SQUARE = "access_tile_set = #b8x16, access_tile_order = #id2"
TYPES = "memref<50x160xf32> -> !ktdp.access_tile<8x16xindex>"


def test_access_tile_subscripts() -> None:
    """ktir checklist 42. Spec 0.3.5."""
    parsed, text = round_trip(tile("%v2[%i * 2, %j + 4]", SQUARE, TYPES))
    assert (
        "ktdp.construct_access_tile %v2[%i * 2, %j + 4] {access_tile_order = #map, access_tile_set = #set}"
        in text
    )
    parsed, _ = round_trip(tile("%v2[%i, %i]", SQUARE, TYPES))
    op = only(parsed, ConstructAccessTile)
    assert isinstance(op, ConstructAccessTile)
    assert len(op.indices) == 1
    assert op.base_map.map == affine_map("(d0) -> (d0, d0)")
    round_trip(tile("%v2[0, %i floordiv 4 - 1]", SQUARE, TYPES))
    round_trip(tile("%v2[symbol(%i) + %j, 3]", SQUARE, TYPES))
    _, text = round_trip(
        tile("%v2[%i, %j]",
             "access_tile_set = affine_set<(i, j)[s] : (i >= 0, -i + s - 1 >= 0, j == 0)>, access_tile_order = #swap",
             "memref<50x160xf32> -> !ktdp.access_tile<1x?xindex>", "symbols (%n)")
    )  # fmt: skip
    assert "%v2[%i, %j] symbols(%n) {" in text
    round_trip(
        tile("%v1[%i]", "access_tile_set = #b32, access_tile_order = #id1", "memref<96xf16> -> <32xindex>")
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (tile("%v2[%i, %j]", "access_tile_order = #id2", TYPES), "Access tile set is missing in the operation"),
        (tile("%v2[%i, %j]", "access_tile_set = #b8x16", TYPES), "Access tile order is missing in the operation"),
        (tile("%v2[%i]", SQUARE, TYPES), "Access tile set and Base input dimensions should match"),
        (tile("%v1[%i]", "access_tile_set = affine_set<(i)[s] : (i - s == 0)>, access_tile_order = #id1",
              "memref<96xf16> -> !ktdp.access_tile<1xindex>"), "access_tile_set has 1 symbols but got 0 symbol operands"),
        (tile("%v2[%i, %j]", "access_tile_set = #b8x16, access_tile_order = affine_map<(i, j) -> (i)>", TYPES),
         "Number of input dimensions and output dimensions in the access tile order should match"),
        (tile("%v2[%i, %j]", "access_tile_set = #b8x16, access_tile_order = affine_map<(i, j, k) -> (k, i, j)>", TYPES),
         "Number of dimensions in the access tile order and access tile set must match!"),
    ],
)  # fmt: skip
def test_access_tile_parser_checks(text: str, message: str) -> None:
    """ktir checklist 43-47. P-CAT1-6."""
    with pytest.raises(ParseError) as caught:
        ktir.parse(module(text))
    assert caught.value.message == message
    assert caught.value.notes


def generic_tile(map_: str, set_: str, order: str, type_: str, operands: str = "%v2, %i, %j", segments: str = "1, 2, 0",
                 types: str = "memref<50x160xf32>, index, index") -> str:  # fmt: skip
    return (f'%x = "ktdp.construct_access_tile"({operands}) <{{access_tile_order = {order}, access_tile_set = {set_}, '
            f"base_map = {map_}, operandSegmentSizes = array<i32: {segments}>}}> : ({types}) -> {type_}")  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (generic_tile("#id1", "#b8x16", "#id2", "!ktdp.access_tile<8x16xindex>"),
         "access_tile_set dimensions (2) must match base_map dims (1)"),
        (generic_tile("#id2", "#b8x16", "#id2", "!ktdp.access_tile<8x16xindex>", "%v2, %i", "1, 1, 0",
                      "memref<50x160xf32>, index"), "base_map expects 2 operands but got 1"),
        (generic_tile("#id2", "#b8x16", "#id2", "!ktdp.access_tile<8xindex>"),
         "result type rank (1) must match access_tile_set dimensions (2)"),
        (generic_tile("#id2", "#b8x16", "affine_map<(i, j) -> (i)>", "!ktdp.access_tile<8x16xindex>"),
         "access_tile_order must have equal number of inputs (2) and outputs (1)"),
        (generic_tile("#id2", "#b8x16", "#id1", "!ktdp.access_tile<8x16xindex>"),
         "access_tile_order dimensions (1) must match access_tile_set dimensions (2)"),
        (generic_tile("#id2", "#b8x16", "#id2", "!ktdp.access_tile<8x16xindex>", "%v2, %i, %j, %n", "1, 2, 1",
                      "memref<50x160xf32>, index, index, index"),
         "access_tile_set has 0 symbols but got 1 symbol operands"),
    ],
)  # fmt: skip
def test_access_tile_verifier(text: str, message: str) -> None:
    """ktir checklist 48. V-CAT1-6."""
    assert f"'ktdp.construct_access_tile' op {message}" in verify_messages(module(text))


def test_extents_against_the_set_are_not_level_v() -> None:
    """ktir checklist 49. An upstream round-trip test has them the wrong way round."""
    round_trip(tile("%v2[%i, %j]", SQUARE, "memref<50x160xf32> -> !ktdp.access_tile<16x8xindex>"))


@pytest.mark.parametrize(
    ("map_", "operands", "custom"),
    [
        ("(a, b) -> (a * 2, b + 4)", "%i, %j", True),
        ("(a, b) -> (a * 2, b + 4)", "%j, %i", True),
        ("(a, b) -> (a * 2, b + 4)", "%j, %j", False),  # the text would have one operand
        ("(a, b) -> (b, a)", "%i, %j", False),  # the text would swap them
        ("(a, b) -> (a, a)", "%i, %j", False),  # the text would drop one
        ("(a)[s] -> (a + s, 3)", "%i, %j", True),
        ("(a)[s] -> (a + s, s)", "%i, %i", True),  # a dimension and a symbol are told apart
        ("()[s, t] -> (t, s)", "%i, %j", False),
    ],
)
def test_no_form_changes_operands(map_: str, operands: str, custom: bool) -> None:
    """Operands that the custom form could not give back are written in generic form."""
    _, text = round_trip(generic_tile(f"affine_map<{map_}>", "#b8x16", "#id2", "!ktdp.access_tile<8x16xindex>",
                                      f"%v2, {operands}"))  # fmt: skip
    assert ('"ktdp.construct_access_tile"' not in text) == custom
    assert alpha_equivalent(ktir.parse(text), ktir.parse(ktir.print_module(ktir.parse(text), generic=True)))


# -- indirect access tiles

PAGED = (
    "%x = ktdp.construct_indirect_access_tile intermediate_variables (%t, %l) "
    "%pool[ind(%tbl[%i, %t floordiv 8]), (%t mod 8), (%l)] "
    "{variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, "
    "variables_space_order = #id2} : memref<12x8x16xf16>, memref<5x3xi32> -> !ktdp.access_tile<24x16xindex>"
)


def test_indirect_tile() -> None:
    """ktir checklist 54, 55. Spec 1.8: captured variables first, then intermediate ones."""
    parsed, text = round_trip(PAGED)
    op = only(parsed, ConstructIndirectAccessTile)
    assert isinstance(op, ConstructIndirectAccessTile)
    assert op.kinds == (True, False, False)
    assert [str(m) for m in op.maps] == [
        "(d0, d1, d2) -> (d0, d1 floordiv 8)",
        "(d0, d1, d2) -> (d1 mod 8)",
        "(d0, d1, d2) -> (d2)",
    ]
    assert [v.name for v in op.captured_variables] == ["i"]
    assert (
        "intermediate_variables(%arg0, %arg1) %pool[ind(%tbl[%i, %arg0 floordiv 8]), (%arg0 mod 8), (%arg1)] {"
        in text
    )


def test_scalar_indirect_tile() -> None:
    """ktir checklist 64. No intermediate variables at all."""
    round_trip(
        "%x = ktdp.construct_indirect_access_tile intermediate_variables() %v1[ind(%tbl[%i, 0])] "
        "{variables_space_order = affine_map<() -> ()>, variables_space_set = affine_set<() : (0 == 0)>} "
        ": memref<96xf16>, memref<5x3xi32> -> !ktdp.access_tile<index>\n"
        "%s = ktdp.load %x : <index> -> tensor<f16>"
    )


def test_intermediate_variable_shadows_outer_value() -> None:
    """ktir checklist 67."""
    parsed, _ = round_trip(PAGED.replace("%t", "%j").replace("%jbl", "%tbl"))
    op = only(parsed, ConstructIndirectAccessTile)
    assert isinstance(op, ConstructIndirectAccessTile)
    assert [v.name for v in op.captured_variables] == ["i"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("(%l)]", "%l]"), "unexpected token in subscript list, expected 'ind', '(', or ']'"),
        (("(%t mod 8), (%l)]", "(%t mod 8) (%l)]"), "expecting a comma between subscripts"),
        (("ind(%tbl[%i", "ind(%tbl(%i"), "error parsing the subscript"),
        (("(%l)]", "(symbol(%l))]"), "error canonicalizing subscripts"),
        ((", memref<5x3xi32> ->", " ->"), "expected 2 types (base + 1 indirect memrefs), but got 1"),
        (("(%t, %l) ", "(%t, 4) "), "error parsing intermediate_variables"),
        (("(t, l) :", "(t, l)[s] :"), "variables_space_set has 1 symbols but got 0 symbol operands"),
        ((", variables_space_order = #id2", ""), "requires attribute 'variables_space_order'"),
        ((" {variables_space_set", " symbols(4) {variables_space_set"), "Failed to parse symbol operands"),
        (("variables_space_order = #id2", "variables_space_order = = #id2"), "error parsing attributes"),
        (("!ktdp.access_tile<24x16xindex>", "!ktdp.access_tile<24x16xf16>"), "error parsing result types"),
    ],
)
def test_indirect_tile_parser_checks(change: tuple[str, str], message: str) -> None:
    """ktir checklist 56-58. P-IAT1-8, V-IAT15."""
    assert change[0] in PAGED
    with pytest.raises(ParseError) as caught:
        ktir.parse(module(PAGED.replace(*change)))
    assert message in caught.value.message
    assert caught.value.notes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((", (%l)]", "]"), "number of subscripts (2) must match base rank (3)"),
        (("[%i, %t floordiv 8]", "[%t floordiv 8]"),
         "indirect subscript map for dimension 0 produces 1 results, but indirect memref has rank 2"),
        (("(%t mod 8)", "(%t mod 8, %l)"),
         "direct subscript map for dimension 1 must produce exactly 1 result, but produces 2"),
        (("(%t, %l) ", "(%t, %l, %q) "),
         "number of intermediate variables (3) must match variables_space_set dimensions (2)"),
        (("= #id2", "= affine_map<(i, j) -> (i)>"),
         "variables_space_order must have equal number of inputs (2) and outputs (1)"),
        (("= #id2", "= #id1"), "variables_space_set dimensions (2) must match variables_space_order inputs (1)"),
        (("<24x16xindex>", "<24xindex>"), "result type rank (1) must match variables_space_set dimensions (2)"),
    ],
)  # fmt: skip
def test_indirect_tile_verifier(change: tuple[str, str], message: str) -> None:
    """ktir checklist 59-63. V-IAT1-14."""
    assert change[0] in PAGED
    assert f"'ktdp.construct_indirect_access_tile' op {message}" in verify_messages(
        module(PAGED.replace(*change))
    )


def test_captured_values_that_the_text_would_not_give_back() -> None:
    """Generic form where a captured value is used nowhere, or stands twice."""
    text = ktir.print_module(ktir.parse(module(PAGED)), generic=True)
    twice = re.sub(r"%tbl, %i\)", "%tbl, %i, %i)", text).replace("1, 1, 1, 0>", "1, 1, 2, 0>")
    twice = twice.replace("memref<5x3xi32>, index) ->", "memref<5x3xi32>, index, index) ->")
    twice = twice.replace("affine_map<(d0, d1, d2) ->", "affine_map<(d0, unused, d1, d2) ->")
    parsed = ktir.parse(twice)
    ktir.verify(parsed)
    printed = ktir.print_module(parsed)
    assert '"ktdp.construct_indirect_access_tile"' in printed
    assert alpha_equivalent(ktir.parse(printed), parsed)


def test_indirect_tile_generic_mistakes() -> None:
    """V-IAT5, 8, 9, 10, 11 need the generic form."""
    text = ktir.print_module(ktir.parse(module(PAGED)), generic=True)
    for old, new, message in [
        ("[true, false, false]", "[true, false]", "per_dim_subscript_kinds size (2) must match"),
        ("[true, false, false]", "[1, 0, 0]", "per_dim_subscript_kinds must contain BoolAttr elements"),
        (
            "[true, false, false]",
            "[true, true, false]",
            "number of indirect dimensions (2) must match number of",
        ),
        (
            "per_dim_subscript_maps = [#map",
            "per_dim_subscript_maps = [1, #map",
            "per_dim_subscript_kinds size (3) must",
        ),
    ]:
        assert old in text
        assert message in verify_messages(text.replace(old, new, 1))


# -- load and store


def test_load_and_store_forms() -> None:
    """ktir checklist 68. Both forms of the tile type are read, the short one is printed."""
    _, text = round_trip("%a = ktdp.load %t1 : !ktdp.access_tile<32xindex> -> tensor<32xf16>\n"
                         "%b = ktdp.load %t1 : <32xindex> -> tensor<32xf16>\n"
                         "ktdp.store %d1, %t1 : tensor<32xf16>, !ktdp.access_tile<32xindex>")  # fmt: skip
    assert text.count("ktdp.load %t1 : <32xindex> -> tensor<32xf16>") == 2
    assert "ktdp.store %d1, %t1 : tensor<32xf16>, <32xindex>" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%a = ktdp.load %t1 : <32xindex> -> tensor<16xf16>",
         "'ktdp.load' op access tile shape must match result tensor shape"),
        ("%a = ktdp.load %t1 : <32xindex> -> tensor<?xf16>",
         "'ktdp.load' op access tile shape must match result tensor shape"),
        ("%a = ktdp.load %t1 : <32xindex> -> tensor<*xf16>", "'ktdp.load' op result must be a ranked tensor"),
        ("%a = \"ktdp.load\"(%i) : (index) -> tensor<32xf16>",
         "operand #0 must be Multi-dimensional tile with a fixed number of dimensions and index element type, but got "
         "'index'"),
        ("ktdp.store %part, %t1 : tensor<8xf16>, <32xindex>",
         "'ktdp.store' op data tile shape must match access tile shape"),
        ("ktdp.store %i, %t1 : index, <32xindex>", "'ktdp.store' op data_tile must be a ranked tensor"),
        ('%q = "a.b"() : () -> tensor<*xf16> ktdp.store %q, %t1 : tensor<*xf16>, <32xindex>',
         "'ktdp.store' op data_tile must be a ranked tensor"),
    ],
)  # fmt: skip
def test_bad_loads_and_stores(text: str, message: str) -> None:
    """ktir checklist 69, 70. V-LD1-2, V-ST1-2."""
    assert message in verify_messages(module(text))


# -- inter-tile

PRODUCE = """%f = ktdp.inter_tile_produce producer_tiles_per_group = #four -> <(tensor<8xf16>), groups = #g2> {
^bb0(%g: index):
  ktdp.yield_partial %part : tensor<8xf16>
}
"""
REDUCE = """%r = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = #four, identity(%part : tensor<8xf16>)
  : <(tensor<8xf16>), groups = #g2> -> tensor<8xf16> {
^bb0(%a: tensor<8xf16>, %b: tensor<8xf16>):
  %s = arith.addf %a, %b : tensor<8xf16>
  ktdp.yield_reduced %s : tensor<8xf16>
}
"""
CONSUME = """%r = ktdp.inter_tile_consume(%f) consumer_tiles_per_group = #four,
  producer_dependency_per_consumer = affine_set<(p)[c] : ((p - c - 1) mod 4 == 0, p >= 0, -p + 3 >= 0)>
  : <(tensor<8xf16>), groups = #g2> -> tensor<8xf16>
"""


def test_produce_reduce_consume_round_trip() -> None:
    """ktir checklist 74. Both spellings parse to the same module."""
    _, text = round_trip(PRODUCE + REDUCE)
    old = (PRODUCE + REDUCE).replace("#four -> <(tensor<8xf16>), groups",
                                     "#four : tensor<8xf16> -> !ktdp.tile_future<tensor<8xf16>, groups")  # fmt: skip
    assert round_trip(old)[1] == text
    round_trip(PRODUCE + CONSUME)
    round_trip(
        PRODUCE
        + CONSUME.replace(",\n  producer_dependency_per_consumer", " {x = 1} // ").replace("// =", "//")
    )


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (PRODUCE, "(%g: index)", "(%g: i32)", "producer region must take a single `index` group-id argument"),
        (PRODUCE, "= #four", "= #b32", "`producer_tiles_per_group` must have exactly one symbol (the group index g)"),
        (PRODUCE, "= #four", "= affine_set<(i)[g] : (i - g >= 0, -i + 3 >= 0)>",
         "producer_tiles_per_group for groups 0 and 1 are not disjoint"),
        (PRODUCE, "%part : tensor<8xf16>", "%part, %part : tensor<8xf16>, tensor<8xf16>",
         "yield_partial yields 2 values but the future carries 1 partial type(s)"),
        (PRODUCE, "%part : tensor<8xf16>", "%d1 : tensor<32xf16>",
         "yield_partial operand #0 type tensor<32xf16> does not match future partial type tensor<8xf16>"),
        (PRODUCE + REDUCE, "#g2> -> tensor<8xf16> {", "#g2> -> tensor<1x8xf16> {",
         "failed to verify that result types must match future partial types"),
        (PRODUCE + REDUCE, "identity(%part : tensor<8xf16>)", "identity()",
         "failed to verify that identity types must match result types"),
        (PRODUCE + REDUCE, "(%a: tensor<8xf16>, %b: tensor<8xf16>):", "(%a: tensor<8xf16>):",
         "reducer region must take 2*N arguments, got 1"),
        (PRODUCE + REDUCE, "consumer_tiles_per_group = #four", "consumer_tiles_per_group = #b32",
         "`consumer_tiles_per_group` must have exactly one symbol (the group index g)"),
        (PRODUCE + REDUCE, "yield_reduced %s : tensor<8xf16>", "yield_reduced",
         "yield_reduced yields 0 values but expected 1"),
        (PRODUCE + CONSUME, "(p)[c] :", "(p) :",
         "`producer_dependency_per_consumer` must have one symbol (c) or two symbols (c, g)"),
        (PRODUCE + CONSUME, "(p)[c] :", "(p, q)[c] :",
         "`producer_dependency_per_consumer` must have exactly one dimension (the producer tile id p)"),
        (PRODUCE + CONSUME, "#g2> -> tensor<8xf16>\n", "#g2> -> tensor<9xf16>\n",
         "failed to verify that result types must match future partial types"),
    ],
)  # fmt: skip
def test_inter_tile_verifier(text: str, old: str, new: str, message: str) -> None:
    """ktir checklist 76-81. V-IP1-6, V-IR1-6, V-IC1-4."""
    assert old in text
    body = text.replace(old, new)
    if "(p) :" in new:
        body = body.replace("p - c - 1", "p - 1")
    if "(%a: tensor<8xf16>):" in new:
        body = body.replace("%a, %b :", "%a, %a :")
    assert message in verify_messages(module(body))


# -- unknown things


@pytest.mark.parametrize("name", ["coreid", "reduce", "transfer"])
def test_legacy_operations_are_unknown(name: str) -> None:
    """Spec 1.3."""
    with pytest.raises(ParseError, match=f"custom op 'ktdp.{name}' is unknown"):
        ktir.parse(module(f"ktdp.{name}"))
    with pytest.raises(ParseError, match="unregistered operation"):
        ktir.parse(module(f'"ktdp.{name}"() : () -> ()'))


CANONICAL_IN = """
#whole = affine_set<(i) : (i >= 0, i <= 95)>
#piece = affine_set<(i) : (i >= 0, -i + 31 >= 0)>
#keep  = affine_map<(i) -> (i)>
func.func @double(%p: index) attributes {grid = [3 : i64]} {
  %w = arith.constant 32 : index
  %k = arith.constant 2.0 : f16
  %t = ktdp.get_compute_tile_id : index
  %v = ktdp.construct_memory_view %p, sizes : [96], strides : [1] {
      memory_space = #ktdp.spyre_memory_space<HBM>, coordinate_set = #whole } : memref<96xf16>
  %b = arith.muli %t, %w : index
  %x = ktdp.construct_access_tile %v[%b] { access_tile_set = #piece, access_tile_order = #keep }
       : memref<96xf16> -> !ktdp.access_tile<32xindex>
  %d = ktdp.load %x : !ktdp.access_tile<32xindex> -> tensor<32xf16>
  %s = tensor.splat %k : tensor<32xf16>
  %m = arith.mulf %d, %s : tensor<32xf16>
  ktdp.store %m, %x : tensor<32xf16>, !ktdp.access_tile<32xindex>
  return
}
"""

CANONICAL_OUT = """\
#map = affine_map<(d0) -> (d0)>
#set = affine_set<(d0) : (d0 >= 0, -d0 + 95 >= 0)>
#set1 = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>
module {
  func.func @double(%p: index) attributes {grid = [3]} {
    %c32 = arith.constant 32 : index
    %cst = arith.constant 2.000000e+00 : f16
    %0 = ktdp.get_compute_tile_id : index
    %1 = ktdp.construct_memory_view %p, sizes: [96], strides: [1] {coordinate_set = #set, memory_space = \
#ktdp.memory_space<global>} : memref<96xf16>
    %2 = arith.muli %0, %c32 : index
    %3 = ktdp.construct_access_tile %1[%2] {access_tile_order = #map, access_tile_set = #set1} : \
memref<96xf16> -> !ktdp.access_tile<32xindex>
    %4 = ktdp.load %3 : <32xindex> -> tensor<32xf16>
    %splat = tensor.splat %cst : tensor<32xf16>
    %5 = arith.mulf %4, %splat : tensor<32xf16>
    ktdp.store %5, %3 : tensor<32xf16>, <32xindex>
    return
  }
}
"""


def test_canonical_print() -> None:
    """Spec 0.3.6, except that names of function arguments are kept (they are part of the interface)."""
    assert ktir.print_module(ktir.parse(CANONICAL_IN)) == CANONICAL_OUT


# -- attributes on modules and arguments


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ('ktdp.address_unit = "stick"', "attribute 'ktdp.address_unit' must be \"element\" or \"byte\", but got \"stick\""),
        ("ktdp.grid_order = 1", "attribute 'ktdp.grid_order' must be \"first_fastest\" or \"last_fastest\", but got 1"),
        ("ktdp.f16_format", "attribute 'ktdp.f16_format' must be \"ieee\" or \"dlfloat\", but got unit"),
        ("ktdp.scratchpad_keepout = [[0, 128], [4, 4]]",
         "attribute 'ktdp.scratchpad_keepout' must hold ranges [low, high] of bytes with 0 <= low < high, but got [4, 4]"),
        ("ktdp.scratchpad_keepout = 4", "must hold ranges [low, high] of bytes with 0 <= low < high, but got 4"),
    ],
)  # fmt: skip
def test_module_attributes(attribute: str, message: str) -> None:
    assert message in verify_messages(f"module attributes {{{attribute}}} {{}}")


def test_good_module_attributes() -> None:
    module_ = ktir.parse(
        'module attributes {ktdp.address_unit = "byte", ktdp.f16_format = "dlfloat", ktdp.grid_order = "last_fastest", '
        "ktdp.scratchpad_keepout = [[0, 128], [256, 512]], ktdp.other = 1 : i32} {}"
    )
    ktir.verify(module_)
    assert keepout_ranges(module_.attributes[KEEPOUT]) == ((0, 128), (256, 512))


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        (
            "ktdp.layout = 4 : i32",
            "1:14: error: attribute 'ktdp.layout' must be a #ktdp.layout<...>, but got 4 : i32",
        ),
        (
            "ktdp.name = 4 : i32",
            "1:14: error: attribute 'ktdp.name' must be a non-empty string, but got 4 : i32",
        ),
        ('ktdp.name = ""', "attribute 'ktdp.name' must be a non-empty string"),
    ],
)
def test_argument_attributes(attribute: str, message: str) -> None:
    assert message in verify_messages(f"func.func @k(%x: index {{{attribute}}}) {{ return }}")


# -- an independent reader

XDSL_PROGRAMS = {
    "views": f"%v = ktdp.construct_memory_view %p, sizes : [%n, 64], strides : [64, 1] {VIEW} : memref<?x64xf16>",
    "tiles": tile("%v2[%i * 2, %j + 4]", SQUARE, TYPES),
    "indirect": PAGED,
    "inter-tile": PRODUCE + REDUCE,
    "consume": PRODUCE + CONSUME,
    "arguments": "%a = ktdp.runtime_arg_extract value from %m : <index, granularity=8> -> index",
    "spyreop": "%a = spyreop.constant 1.0 : f16\n%b = spyreop.exx2_fused %a : f16 -> !spyreop.fp16_fused",
    "df16": '%a = "a.b"() : () -> tensor<4x!spyreop.df16>',
}


@pytest.mark.parametrize("name", XDSL_PROGRAMS)
def test_xdsl_reads_the_generic_print(name: str) -> None:
    from xdsl.context import Context as XdslContext
    from xdsl.dialects import get_all_dialects
    from xdsl.parser import Parser

    context = XdslContext(allow_unregistered=True)
    for dialect, factory in get_all_dialects().items():
        context.register_dialect(dialect, factory)
    parsed = ktir.parse(module(XDSL_PROGRAMS[name]))
    ktir.verify(parsed)
    Parser(context, ktir.print_module(parsed, generic=True)).parse_module()


def test_xdsl_reads_layouts() -> None:
    from xdsl.context import Context as XdslContext
    from xdsl.dialects import get_all_dialects
    from xdsl.parser import Parser

    context = XdslContext(allow_unregistered=True)
    for dialect, factory in get_all_dialects().items():
        context.register_dialect(dialect, factory)
    layout = StickLayout.default((37, 130), F16)
    parsed = ktir.parse(f"func.func @k(%x: index {{ktdp.layout = {layout}}}) {{ return }}")
    Parser(context, ktir.print_module(parsed, generic=True)).parse_module()


def test_wrong_neighbours_do_not_break_verifier_and_printer() -> None:
    """Found by mutating programs: each finding is a diagnostic, never an exception of Python."""
    assert "requires attribute 'function_type'" in verify_messages(
        '"func.func"() <{sym_name = "f"}> ({ "func.return"() : () -> () }) : () -> ()'
    )
    text = """func.func @f(%a: tensor<4xf16>, %b: tensor<f16>) {
      %r = "linalg.reduce"(%a, %b) <{dimensions = array<i64: 0>}> ({
      ^bb0(%x: f16, %y: f16):
        %z = "foo.bar"(%x, %y) : (f16, f16) -> f16
        linalg.yield %z : f16
      }) : (tensor<4xf16>, tensor<f16>) -> tensor<f16>
      return
    }"""
    parsed = ktir.parse(text)
    ktir.verify(parsed)
    printed = ktir.print_module(parsed)
    assert '"foo.bar"(%in, %init)' in printed
    assert ktir.print_module(ktir.parse(printed)) == printed
