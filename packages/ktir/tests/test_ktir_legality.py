"""Level L: dialects and communication over a whole module (KTIR spec 1.13.6, 1.14)."""

from __future__ import annotations

import pytest

import ktir
from ktir.legality import LEGAL_UPSTREAM, check_legality, legality

HEADER = """
#g1 = affine_set<(g) : (g == 0)>
#four = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>
#first = affine_set<(i)[g] : (i - 4 * g == 0)>
#two = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 1 >= 0)>
#open = affine_set<(i)[g] : (i - g >= 0)>
"""


def kernel(body: str) -> ktir.Module:
    module = ktir.parse(f"{HEADER} func.func @k(%part: tensor<8xf16>) {{ {body} return }}")
    ktir.verify(module)
    return module


def produce(members: str = "#four", name: str = "f") -> str:
    return f"""%{name} = ktdp.inter_tile_produce producer_tiles_per_group = {members} -> <(tensor<8xf16>), groups = #g1> {{
    ^bb0(%g: index):
      ktdp.yield_partial %part : tensor<8xf16>
    }}
    """


def reduce(consumers: str, dependency: str = "", name: str = "r") -> str:
    extra = f"producer_dependency_per_consumer = {dependency}, " if dependency else ""
    return f"""%{name} = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = {consumers}, {extra}identity(%part : tensor<8xf16>)
      : <(tensor<8xf16>), groups = #g1> -> tensor<8xf16> {{
    ^bb0(%a: tensor<8xf16>, %b: tensor<8xf16>):
      %s = arith.addf %a, %b : tensor<8xf16>
      ktdp.yield_reduced %s : tensor<8xf16>
    }}
    """


def consume(consumers: str = "#four", dependency: str = "") -> str:
    extra = f", producer_dependency_per_consumer = {dependency}" if dependency else ""
    return f"""%r = ktdp.inter_tile_consume(%f) consumer_tiles_per_group = {consumers}{extra}
      : <(tensor<8xf16>), groups = #g1> -> tensor<8xf16>
    """


NEXT = "affine_set<(p)[c] : ((p - c - 1) mod 4 == 0, p >= 0, -p + 3 >= 0)>"


@pytest.mark.parametrize(
    "body",
    [
        produce() + reduce("#four"),
        produce() + reduce("#first"),
        produce() + reduce("#four", "affine_set<(p)[c] : (p >= 0, -p + 3 >= 0)>"),
        produce() + consume(dependency=NEXT),
        produce("#first") + consume(),
        produce("#open") + reduce("#four"),  # no finite bound: not checked
        "",
    ],
)
def test_legal(body: str) -> None:
    assert legality(kernel(body)) == ()
    check_legality(kernel(body))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (produce(), "'ktdp.inter_tile_produce' op future result must have exactly one use"),
        (produce() + reduce("#four") + reduce("#four", name="q"), "future result must have exactly one use"),
        (produce("#two") + reduce("#four"),
         "consumer_tiles_per_group for group 0 is not a subset of producer_tiles_per_group (a consumer tile that did "
         "not produce is unsupported; see open question Q1)"),
        (produce() + reduce("#two"),
         "consumer_tiles_per_group for group 0 is a strict subset of producer_tiles_per_group with more than one tile "
         "(reduce-to-subset is unsupported; only all-reduce and reduce-to-one are supported)"),
        (produce() + consume(),
         "group 0 has 4 producers, so producer_dependency_per_consumer is required to name each consumer tile's "
         "single source"),
        (produce() + consume(dependency="affine_set<(p)[c] : (p - c >= 0, -p + c + 1 >= 0, -p + 3 >= 0)>"),
         "consumer 0 of group 0 depends on 2 producers; inter_tile_consume delivers one contribution per consumer "
         "tile, so exactly one is required"),
        (produce() + consume(dependency="affine_set<(p)[c] : (p - c - 1 == 0)>"),
         "producer_dependency_per_consumer for consumer 3 group 0 references producer tile 4 which is not in "
         "producer_tiles_per_group"),
        (produce() + reduce("#four", "affine_set<(p)[c, g] : (p - g >= 0, -p + 2 >= 0)>"),
         "producer_dependency_per_consumer for group 0 does not cover producer tile 3 (no consumer has it as a "
         "dependency)"),
    ],
)  # fmt: skip
def test_illegal_communication(body: str, message: str) -> None:
    """ktir checklist 82-84, 86."""
    with pytest.raises(ktir.VerifyError) as caught:
        check_legality(kernel(body))
    assert message in str(caught.value)
    assert all(d.location is not None for d in caught.value.diagnostics)


def test_dialects() -> None:
    """ktir checklist 104. Our list has spyreop and affine.apply, upstream's has not."""
    module = kernel(
        "%c = spyreop.constant 1.0 : f16\n%i = arith.constant 0 : index\n"
        "%j = affine.apply affine_map<(d0) -> (d0 + 1)>(%i)\n"
    )
    assert legality(module) == ()
    assert [d.message for d in legality(module, LEGAL_UPSTREAM)] == [
        "'spyreop.constant' op is not legal in a KTIR program",
        "'affine.apply' op is not legal in a KTIR program",
    ]
    foreign = kernel(
        '"vector.print"() : () -> ()\n%i = arith.constant 0 : index\n%j = affine.min affine_map<(d0) -> (d0)>(%i)\n'
    )
    assert [d.message for d in legality(foreign)] == [
        "'vector.print' op is not legal in a KTIR program",
        "'affine.min' op is not legal in a KTIR program",
    ]
