"""Axis classes of a kernel: the same axis of a row, walked by several loops, is one class (design 10)."""

from __future__ import annotations

from itertools import combinations

from rangeify.kernels import loops_of, store_of
from uopgraph import Ops, UOp


def axis_classes(body: UOp) -> dict[UOp, UOp]:
    """Each loop of a kernel body -> the loop that stands for its class.

    Two loops are of one class when two loads of one buffer differ in them only: same place, same extent, all
    other indices equal. Two output loops are never of one class.
    """
    outer, reduced = loops_of(body)
    number = {r: i for i, r in enumerate((*outer, *reduced))}
    head = {r: r for r in number}

    def find(r: UOp) -> UOp:
        while head.get(r, r) is not r:
            r = head[r]
        return r

    loads: dict[UOp, list[tuple[UOp, ...]]] = {}
    for node in store_of(body).toposort():
        if node.op is Ops.INDEX and node.src[0].op is Ops.PARAM:
            loads.setdefault(node.src[0], []).append(node.src[1:])
    changed = True
    while changed:
        changed = False
        for places in loads.values():
            for a, b in combinations(places, 2):
                differ = [(p, q) for p, q in zip(a, b, strict=True) if find(p) is not find(q)]
                if len(differ) != 1 or not all(i.op is Ops.RANGE for i in differ[0]):
                    continue
                first, second = sorted((find(i) for i in differ[0]), key=lambda r: number[r])
                if first.src[0] is second.src[0] and second not in outer:
                    head[second] = first
                    changed = True
    return {r: find(r) for r in number}


def by_class(body: UOp) -> UOp:
    """The stored value with every loop renamed to its class: equal expressions of one class are one node."""
    return store_of(body).src[1].substitute(axis_classes(body), name="axis classes", walk=True)
