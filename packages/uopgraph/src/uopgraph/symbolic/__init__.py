"""The symbolic simplifier: exact and fast rule sets.

Rules are labelled by family: P poison, S simple folds, O canonical order, A algebra, D division, L
comparisons, V validity.


- ``symbolic``: the exact set on expressions; every rule keeps every bit of every value. :meth:`UOp.simplify`
runs it.
- ``index_rules``: ``symbolic`` with simplification of validity, for index arithmetic.
- ``sym``: the exact set for kernels: also views, effects and reductions.
- ``fast_only``: rules of real arithmetic, added by ``fast=True``; never used unless asked for.
"""

from __future__ import annotations

from typing import Final

from uopgraph.node import UOp
from uopgraph.ops import Ops
from uopgraph.pattern import PatternMatcher
from uopgraph.rewrite import graph_rewrite
from uopgraph.symbolic.exact import symbolic
from uopgraph.symbolic.fast import fast_only
from uopgraph.symbolic.longsum import sort_long_sums
from uopgraph.symbolic.structure import structure
from uopgraph.symbolic.valid import (
    foreign_clauses,
    gated_loads,
    parse_valid,
    simplify_valid,
    uop_given_valid,
    valid_rules,
)

index_rules: Final[PatternMatcher] = symbolic + valid_rules
sym: Final[PatternMatcher] = index_rules + structure + gated_loads
fast_symbolic: Final[PatternMatcher] = symbolic + fast_only


def simplify(node: UOp, fast: bool = False) -> UOp:
    """Apply the exact rules (with ``fast=True`` also those of real arithmetic) to a fixed point."""
    if node.op is Ops.CONST:
        return node
    if fast:
        return graph_rewrite(sort_long_sums(node), fast_symbolic, name="simplify")
    known: UOp | bool | None = node._cache.get("simplified")
    if known is not None:
        return known if isinstance(known, UOp) else node
    result = graph_rewrite(sort_long_sums(node), symbolic, name="simplify")
    # True instead of the node itself: a node must not hold itself
    node._cache["simplified"] = True if result is node else result
    result._cache["simplified"] = True
    return result


def simplify_index(node: UOp) -> UOp:
    """Simplify an index expression together with its validity."""
    if node.op is Ops.CONST:
        return node
    return graph_rewrite(sort_long_sums(node), index_rules, name="simplify index")


__all__ = [
    "fast_only",
    "fast_symbolic",
    "foreign_clauses",
    "gated_loads",
    "index_rules",
    "parse_valid",
    "simplify",
    "simplify_index",
    "simplify_valid",
    "structure",
    "sym",
    "symbolic",
    "uop_given_valid",
    "valid_rules",
]
