"""The symbolic simplifier: exact and fast rule sets (graph spec 11; reading "Values")."""

from __future__ import annotations

from typing import Final

from uopgraph.node import UOp
from uopgraph.ops import Ops
from uopgraph.pattern import PatternMatcher
from uopgraph.rewrite import graph_rewrite
from uopgraph.symbolic.simple import simple

symbolic: Final = simple


def simplify(node: UOp, fast: bool = False) -> UOp:
    """Apply the symbolic rules to a fixed point."""
    if node.op is Ops.CONST:
        return node
    return graph_rewrite(node, symbolic, name="simplify")


__all__ = ["PatternMatcher", "simplify", "symbolic"]
