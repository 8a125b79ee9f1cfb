"""The symbolic simplifier: exact and fast rule sets (graph spec 11; reading "Values").

``symbolic`` is the exact set: every rule keeps every bit of every value. ``fast_symbolic`` adds rules that
only
hold in real arithmetic; it is off unless asked for.
"""

from __future__ import annotations

from typing import Final

from uopgraph.node import UOp
from uopgraph.ops import Ops
from uopgraph.pattern import PatternMatcher
from uopgraph.rewrite import graph_rewrite
from uopgraph.symbolic.general import general
from uopgraph.symbolic.poison import poison
from uopgraph.symbolic.simple import simple
from uopgraph.symbolic.weakint import weakint

symbolic: Final[PatternMatcher] = poison + simple + weakint + general


def simplify(node: UOp, fast: bool = False) -> UOp:
    """Apply the symbolic rules to a fixed point."""
    if node.op is Ops.CONST:
        return node
    return graph_rewrite(node, symbolic, name="simplify")


__all__ = ["simplify", "symbolic"]
