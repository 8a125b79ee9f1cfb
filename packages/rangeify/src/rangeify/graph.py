"""Traversal of tensor graphs by their data."""

from __future__ import annotations

from uopgraph import GroupOp, Ops, UOp


def data_srcs(x: UOp) -> tuple[UOp, ...]:
    """The sources of `x` that are data: no shapes, offsets, ranges or dependencies (scheduler spec 2)."""
    if x.op in GroupOp.Defines or x.op in (Ops.RANGE, Ops.CONST):
        return ()
    if x.op in GroupOp.Movement or x.op in (
        Ops.INDEX,
        Ops.STAGE,
        Ops.REDUCE,
        Ops.AFTER,
        Ops.END,
        Ops.UNSHARD,
    ):
        return x.src[:1]
    return x.src[1:] if x.op is Ops.CALL else x.src


def data_toposort(root: UOp) -> list[UOp]:
    """The nodes that `root` depends on through data, itself last, sources before users."""
    order: dict[UOp, None] = {}
    stack = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order[node] = None
        elif node not in order:
            stack.append((node, True))
            stack.extend((s, False) for s in reversed(data_srcs(node)) if s not in order)
    return list(order)
