"""The def-use graph for Graphviz: every operation, every use, every branch, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ktir
from ktir.drawing import dot

EXAMPLES = Path(__file__).parents[1] / "examples"
CONTROL_FLOW = """
func.func @f(%c: i1, %a: index) -> index {
  "x.y"(%a) {note = "say \\22hi\\22 \\\\ bye", other = "two\\0Alines"} : (index) -> ()
  cf.cond_br %c, ^one(%a : index), ^two
^one(%x: index):
  cf.br ^two
^two:
  return %a : index
}
"""
NODE = re.compile(r'(n\d+) \[(?:shape=ellipse, )?label="((?:[^"\\]|\\.)*)"\];')
EDGE = re.compile(r'  (n\d+) -> (n\d+) \[(?:label="((?:[^"\\]|\\.)*)"|style=(dashed))\];')


def parts(text: str) -> tuple[dict[str, str], list[tuple[str, str, str, str]]]:
    """Nodes with their labels and edges; every line of `text` must be one, or open or close a box."""
    nodes: dict[str, str] = {}
    edges = []
    depth = 0
    for line in text.splitlines():
        if match := NODE.fullmatch(line.strip()):
            assert match[1] not in nodes
            nodes[match[1]] = match[2]
        elif match := EDGE.fullmatch(line):
            edges.append((match[1], match[2], match[3] or "", match[4] or ""))
        elif line.endswith("{"):
            depth += 1
        elif line.strip() == "}":
            depth -= 1
            assert depth >= 0
        else:
            assert re.fullmatch(r'\s*(label="(?:[^"\\]|\\.)*"|(graph|node|edge) \[[^\]]*\]);', line), line
    assert depth == 0
    return nodes, edges


@pytest.mark.parametrize(
    "text",
    [*(path.read_text() for path in sorted(EXAMPLES.glob("*.mlir"))), CONTROL_FLOW],
    ids=[*(path.stem for path in sorted(EXAMPLES.glob("*.mlir"))), "control flow"],
)
def test_every_operation_and_use_is_drawn_once(text: str) -> None:
    module = ktir.parse(text)
    operations = list(module.walk())
    arguments = [a for op in operations for r in op.regions for b in r.blocks for a in b.arguments]
    nodes, edges = parts(dot(module))
    assert len(nodes) == len(operations) + len(arguments)
    assert sum(kind == "" for *_, kind in edges) == sum(len(op.operands) for op in operations)
    assert sum(kind == "dashed" for *_, kind in edges) == sum(len(op.successors) for op in operations)
    assert {end for edge in edges for end in edge[:2]} <= set(nodes)
    assert dot(ktir.parse(ktir.print_module(module))) == dot(module)


def test_edges_connect_what_defines_with_what_uses() -> None:
    module = ktir.parse(
        'func.func @f(%a: index) { %b = arith.addi %a, %a : index "u"(%b) : (index) -> () return }'
    )
    nodes, edges = parts(dot(module))
    named = {name: label.split("\\l")[0] for name, label in nodes.items()}
    assert [(named[a], named[b], label) for a, b, label, _ in edges] == [
        ("%a: index", "%0 = arith.addi", "%a"),
        ("%a: index", "%0 = arith.addi", "%a"),
        ("%0 = arith.addi", "u", "%0"),
    ]


def test_values_from_outside_the_drawn_operation_have_no_edge() -> None:
    module = ktir.parse(
        'func.func @f(%a: index) { scf.for %i = %a to %a step %a { "u"(%a) : (index) -> () } return }'
    )
    loop = next(op for op in module.walk() if op.name == "scf.for")
    nodes, edges = parts(dot(loop))
    assert len(nodes) == 4
    assert edges == []


def test_labels_are_escaped() -> None:
    nodes, edges = parts(dot(ktir.parse(CONTROL_FLOW)))
    (label,) = [label for label in nodes.values() if label.startswith("x.y")]
    assert label == 'x.y\\lnote = \\"say \\\\22hi\\\\22 \\\\\\\\ bye\\"\\lother = \\"two\\\\0Alines\\"\\l'
    branches = [(nodes[a].split("\\l")[0], nodes[b].split("\\l")[0]) for a, b, _, kind in edges if kind]
    assert branches == [
        ("cf.cond_br", "%0: index"),
        ("cf.cond_br", "func.return"),
        ("cf.br", "func.return"),
    ]
