"""Long sums are sorted before they are rewritten.

The canonical form of a sum is built bottom-up, one term at a time. When the terms come in the wrong order
that costs a rebuild per term; one sort of the whole sum first makes every later step a comparison with the
last term.
"""

from __future__ import annotations

from typing import Final

from uopgraph.dtype import dtypes
from uopgraph.node import UOp, derived
from uopgraph.ops import Ops
from uopgraph.symbolic.terms import linear

#: Sums with fewer terms are left to the rules.
LONG: Final = 24


@derived("sum_length")
def _sum_length(node: UOp) -> int:
    """Terms of the weak-integer sum that this node is."""
    if node.op is not Ops.ADD or node.dtype is not dtypes.weakint:
        return 1
    return sum(s._cache["sum_length"] for s in node.src)


@derived("longest_sum")
def _longest_sum(node: UOp) -> int:
    """Terms of the longest sum at or below this node."""
    return max(int(node._derive("sum_length")), *(int(s._cache["longest_sum"]) for s in node.src), 0)


def sort_long_sums(root: UOp) -> UOp:
    """`root` with every maximal long sum of the weak integer in canonical order."""
    if root._derive("longest_sum") < LONG:
        return root
    order = root.toposort()
    inner: set[UOp] = set()
    for n in order:
        if n.op is Ops.ADD:
            inner.update(s for s in n.src if s.op is Ops.ADD)
    new: dict[UOp, UOp] = {}
    for n in order:
        if n in inner:
            continue
        sources = tuple([new.get(s, s) for s in n.src])
        if n.op is Ops.ADD and n._derive("sum_length") >= LONG:
            new[n] = linear(n).node()
        elif sources != n.src:
            new[n] = n.rebuild(sources)
    return new.get(root, root)
