"""Bytes and operations of a kernel, counted alike for both item lists.

It looks at nothing but the names of operations, their sources and the extents of loops, which both graphs
share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import attrs

_INDEX_DTYPES = ("weakint", "index")
_FREE = frozenset(
    {"CONST", "RANGE", "INDEX", "PARAM", "CAST", "BITCAST", "STORE", "END", "SINK", "STACK", "LOAD"}
)


@attrs.frozen
class Work:
    """Items, bytes that kernels read and write, operations that they do."""

    items: int = 0
    nbytes: int = 0
    operations: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.items + other.items, self.nbytes + other.nbytes, self.operations + other.operations)


def _order(root: Any) -> list[Any]:
    order: dict[int, Any] = {}
    stack = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order[id(node)] = node
        elif id(node) not in order:
            stack.append((node, True))
            stack.extend((s, False) for s in node.src if id(s) not in order)
    return list(order.values())


def _extent(r: Any) -> int:
    return int(r.src[0].arg)


def _size(node: Any) -> int:
    """The number of elements behind a PARAM, however it is reshaped."""
    return int(math.prod(int(d) for d in node.shape)) if node.shape else 1


def _index_only(order: list[Any], value: Any) -> set[int]:
    """Nodes that are reached only through the indices of loads."""
    seen: set[int] = set()
    stack = [value]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.op.name != "INDEX":
            stack.extend(node.src)
    return {id(n) for n in order} - seen


def count(body: Any) -> Work:
    """The work of one kernel body: SINK(END(STORE(place, value), loops))."""
    store = body.src[0]
    while store.op.name != "STORE":
        store = store.src[0]
    order = _order(body)
    address = _index_only(order, store.src[1])
    loops: dict[int, dict[int, Any]] = {}
    nbytes: dict[int, int] = {}
    operations = 0
    for node in order:
        own: dict[int, Any] = {}
        for s in node.src:
            own.update(loops[id(s)])
        name = node.op.name
        if name == "RANGE":
            own = {id(node): node}
        elif name == "REDUCE":
            closed = own | {id(r): r for r in node.src[1:]}
            if id(node) not in address:
                operations += math.prod(_extent(r) for r in closed.values())
            own = {k: r for k, r in own.items() if k not in {id(r) for r in node.src[1:]}}
        elif name == "INDEX":
            base = node.src[0]
            while base.op.name not in ("PARAM", "BUFFER", "ALLOC"):
                base = base.src[0]
            touched = min(math.prod(_extent(r) for r in own.values()), _size(node.src[0]))
            nbytes[id(base)] = max(nbytes.get(id(base), 0), touched * node.dtype.itemsize)
        elif name not in _FREE and id(node) not in address and node.dtype.name not in _INDEX_DTYPES:
            operations += math.prod(_extent(r) for r in own.values())
        loops[id(node)] = own
    return Work(1, sum(nbytes.values()), operations)


def total(bodies: Iterable[Any]) -> Work:
    """The work of all kernels."""
    result = Work()
    for body in bodies:
        result = result + (count(body) if body.op.name == "SINK" else Work(1))
    return result
