"""Proposed deliveries: text, verification, and the rules over groups (KTIR spec 1.13.5, 1.13.6)."""

from __future__ import annotations

import pytest

import ktir
from ktir.legality import legality
from ktir.transforms import alpha_equivalent

CONTEXT = ktir.Context(installed=False, proposed=True)
PARTIAL = "tensor<32x64xf16>"
HEADER = """
#g1 = affine_set<(g) : (g == 0)>
#g2 = affine_set<(g) : (g >= 0, -g + 1 >= 0)>
#quad = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>
#pair = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 1 >= 0)>
#first = affine_set<(i)[g] : (i - 4 * g == 0)>
#uneven = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 5 * g + 1 >= 0)>
"""


def module(body: str, producers: str = "#quad", groups: str = "#g1") -> str:
    return f"""{HEADER}
    func.func @k(%mine: {PARTIAL}, %zero: {PARTIAL}) {{
      %f = ktdp.inter_tile_produce producer_tiles_per_group = {producers} -> <({PARTIAL}), groups = {groups}> {{
      ^bb0(%g: index):
        ktdp.yield_partial %mine : {PARTIAL}
      }}
      {body}
      return
    }}"""


def deliver(
    name: str, axes: str, result: str, consumers: str = "#quad", more: str = "", groups: str = "#g1"
) -> str:
    return (
        f"%r = ktdp.inter_tile_{name}(%f) consumer_tiles_per_group = {consumers}, {axes}{more} "
        f": <({PARTIAL}), groups = {groups}> -> {result}"
    )


def reduce_scatter(axes: str, result: str, consumers: str = "#quad", dependency: str = "") -> str:
    return (
        deliver("reduce_scatter", axes, result, consumers, f", {dependency}identity(%zero : {PARTIAL})")
        + f""" {{
      ^bb0(%a: {PARTIAL}, %b: {PARTIAL}):
        %s = arith.addf %a, %b : {PARTIAL}
        ktdp.yield_reduced %s : {PARTIAL}
      }}"""
    )


def parse(text: str) -> ktir.Module:
    return ktir.parse(text, CONTEXT, "p.mlir")


GOOD = {
    "reduce_scatter": reduce_scatter("scatter_dimensions = [0]", "tensor<8x64xf16>"),
    "reduce_scatter over two axes": reduce_scatter("scatter_dimensions = [0, 1]", "tensor<8x64xf16>"),
    "reduce_scatter with dependency": reduce_scatter(
        "scatter_dimensions = [1]", "tensor<32x16xf16>", "#quad",
        "producer_dependency_per_consumer = affine_set<(p)[c] : (p >= 0, -p + 3 >= 0)>, "),
    "gather": deliver("gather", "gather_dimensions = [0]", "tensor<128x64xf16>"),
    "gather of one each": deliver("gather", "gather_dimensions = [1]", "tensor<32x64xf16>", "#quad",
                                  ", producer_dependency_per_consumer = affine_set<(p)[c] : (p - c == 0)>"),
    "all_to_all": deliver("all_to_all", "split_dimensions = [0], concat_dimensions = [1]", "tensor<8x256xf16>"),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_round_trip(name: str) -> None:
    """Both forms of the text, and nothing to complain about at any level."""
    parsed = parse(module(GOOD[name]))
    assert ktir.check(parsed, "VLS") == ()
    text, generic = ktir.print_module(parsed), ktir.print_module(parsed, generic=True)
    for spelled in (text, generic):
        again = parse(spelled)
        assert alpha_equivalent(parsed, again)
        assert ktir.print_module(again) == text
    assert '"ktdp.inter_tile' not in text
    assert "_dimensions = array<i64: " in generic


def test_scatter_round_trip() -> None:
    body = deliver("scatter", "scatter_dimensions = [0]", "tensor<8x64xf16>")
    parsed = parse(module(body, producers="#first"))
    assert ktir.check(parsed, "VL") == ()
    assert "scatter_dimensions = [0] : <(tensor<32x64xf16>)" in ktir.print_module(parsed)


def test_an_older_spelling_holds_one_axis() -> None:
    """Spec 1.13.5: `scatter_dimension = 0 : i64`."""
    new = parse(module(GOOD["reduce_scatter"]))
    old = module(GOOD["reduce_scatter"]).replace("scatter_dimensions = [0]", "scatter_dimension = 0 : i64")
    assert alpha_equivalent(new, parse(old))


@pytest.mark.parametrize("name", ["reduce_scatter", "gather", "all_to_all", "scatter"])
def test_they_stand_behind_a_switch(name: str) -> None:
    """Without it they are unknown in both forms, and the note says how to allow them."""
    plain = ktir.Context(installed=False)
    for text in (f"ktdp.inter_tile_{name}", f'"ktdp.inter_tile_{name}"() : () -> ()'):
        with pytest.raises(ktir.ParseError) as caught:
            ktir.parse(text, plain)
        assert "unknown" in caught.value.message or "unregistered" in caught.value.message
        assert [n.message for n in caught.value.notes] == [
            "this operation is a proposal: allow it with Context(proposed=True), --proposed"
        ]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (deliver("gather", "gather_dimensions = []", "tensor<128x64xf16>"), "gather_dimensions must not be empty"),
        (deliver("gather", "gather_dimensions = [1, 0]", "tensor<128x64xf16>"),
         "gather_dimensions must be strictly ascending, but got [1, 0]"),
        (deliver("gather", "gather_dimensions = [0, 0]", "tensor<128x64xf16>"), "must be strictly ascending"),
        (deliver("gather", "gather_dimensions = [2]", "tensor<128x64xf16>"),
         "gather_dimensions names axis 2, but tensor<32x64xf16> has rank 2"),
        (deliver("gather", "gather_dimensions = [0]", "tensor<128x32xf16>"),
         "result #0 type tensor<128x32xf16> does not fit future partial type tensor<32x64xf16>"),
        (deliver("gather", "gather_dimensions = [0]", "tensor<128x64xf32>"), "does not fit future partial type"),
        (deliver("gather", "gather_dimensions = [0]", "tensor<8192xf16>"), "does not fit future partial type"),
        (deliver("gather", "gather_dimensions = [0]", "tensor<128x64xf16>, tensor<128x64xf16>").replace("%r", "%r:2"),
         "has 2 results but the future carries 1 partial type(s)"),
        (deliver("gather", "gather_dimensions = [0]", "tensor<128x64xf16>", "#g1"),
         "`consumer_tiles_per_group` must have exactly one symbol (the group index g)"),
        (deliver("gather", "gather_dimensions = [0]", "tensor<32x64xf16>", more=", producer_dependency_per_consumer = "
                 "affine_set<(p, q)[c] : (p - c == 0)>"),
         "`producer_dependency_per_consumer` must have exactly one dimension (the producer tile id p)"),
        (reduce_scatter("scatter_dimensions = [0]", "tensor<8x64xf16>").replace("(%a: tensor<32x64xf16>, %b: tensor<32x64xf16>)",
                                                                               "(%a: tensor<32x64xf16>)").replace("%a, %b", "%a, %a"),
         "reducer region must take 2*N arguments, got 1"),
        (reduce_scatter("scatter_dimensions = [0]", "tensor<8x64xf16>").replace("identity(%zero : tensor<32x64xf16>)", "identity()"),
         "failed to verify that identity types must match future partial types"),
        (deliver("scatter", "scatter_dimensions = [0]", "tensor<8x64xf16>", more=", producer_dependency_per_consumer = "
                 "affine_set<(p)[c] : (p - c == 0)>"), "takes no producer_dependency_per_consumer"),
    ],
)  # fmt: skip
def test_verifier(body: str, message: str) -> None:
    with pytest.raises(ktir.VerifyError) as caught:
        ktir.verify(parse(module(body)))
    assert message in str(caught.value)
    assert all(d.notes for d in caught.value.diagnostics)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (reduce_scatter("scatter_dimensions = [0]", "tensor<16x64xf16>"),
         "result #0 has 16 elements along the listed axes, but 8 are delivered in group 0"),
        (deliver("gather", "gather_dimensions = [0]", "tensor<64x64xf16>"),
         "result #0 has 64 elements along the listed axes, but 128 are delivered in group 0"),
        (deliver("all_to_all", "split_dimensions = [0], concat_dimensions = [1]", "tensor<8x128xf16>"),
         "result #0 has 1024 elements along the listed axes, but 2048 are delivered in group 0"),
        (deliver("all_to_all", "split_dimensions = [0], concat_dimensions = [0]", "tensor<32x64xf16>"), None),
        (deliver("scatter", "scatter_dimensions = [0]", "tensor<8x64xf16>"),
         "group 0 has 4 producers; inter_tile_scatter divides the contribution of exactly one"),
        (deliver("gather", "gather_dimensions = [0]", "tensor<64x64xf16>", more=", producer_dependency_per_consumer = "
                 "affine_set<(p)[c] : (p - c >= 0, -p + c + 1 >= 0, -p + 3 >= 0)>"),
         "consumers of group 0 depend on different numbers of producers: 1, 2"),
        (deliver("gather", "gather_dimensions = [0]", "tensor<128x64xf16>", more=", producer_dependency_per_consumer = "
                 "affine_set<(p)[c] : (p >= 0, -p + 3 >= 0)>"),
         "dependencies of different consumers in group 0 overlap"),
        (deliver("gather", "gather_dimensions = [0]", "tensor<32x64xf16>", more=", producer_dependency_per_consumer = "
                 "affine_set<(p)[c] : (p - c - 1 == 0)>"),
         "references producer tile 4 which is not in producer_tiles_per_group"),
    ],
)  # fmt: skip
def test_rules_over_groups(body: str, message: str | None) -> None:
    """R3 to R9 and the extents of results, at level L."""
    parsed = parse(module(body))
    ktir.verify(parsed)
    found = legality(parsed)
    assert all(d.notes and d.location is not None for d in found)
    if message is None:
        assert found == ()
    else:
        assert message in "\n".join(d.message for d in found)


def test_extents_must_divide() -> None:
    """R9."""
    three = "affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 2 >= 0)>"
    parsed = parse(module(reduce_scatter("scatter_dimensions = [0]", "tensor<10x64xf16>", three)))
    (found,) = legality(parsed)
    assert "extent 32 of scatter_dimensions is not divisible by the 3 consumers of group 0" in found.message


def test_groups_are_equally_large() -> None:
    """R7."""
    body = deliver("gather", "gather_dimensions = [0]", "tensor<64x64xf16>", "#uneven", groups="#g2")
    parsed = parse(module(body, producers="#uneven", groups="#g2"))
    assert "groups have different numbers of producers: 2, 3" in [d.message for d in legality(parsed)][-1]
