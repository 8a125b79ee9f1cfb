"""How much of a kernel is computed at once: widths of loops for which all temporaries fit, and evaluation
orders that let go of a value after its last use."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import attrs

from rangeify.errors import UnsupportedError
from uopgraph import GroupOp, Ops, UOp, dtypes

#: Most bytes of temporaries of a kernel.
MAX_TEMPORARIES: Final = 64 << 20
#: What a block is planned for: single operations make copies of their own on top of it.
_PLANNED: Final = MAX_TEMPORARIES // 3


def extent(r: UOp) -> int:
    """The number of iterations of a loop."""
    bound = r.src[0].simplify()
    if bound.op is not Ops.CONST:
        raise UnsupportedError("execution of loops with symbolic bounds")
    return int(bound.arg)


@attrs.frozen(eq=False)
class Steps:
    """Nodes in order of evaluation, and after each the nodes that nothing needs any more."""

    nodes: tuple[UOp, ...]
    dead: tuple[tuple[UOp, ...], ...]


def _is_leaf(node: UOp) -> bool:
    return node.op is Ops.RANGE or node.op in GroupOp.Defines


def is_gated(index: UOp) -> bool:
    """WHERE(gate, index, Invalid): nothing is there where the gate is false."""
    return index.op is Ops.WHERE and index.src[2].is_invalid


def _uses(node: UOp) -> tuple[UOp, ...]:
    """What is needed to compute a node: its sources, and for a load also the gates of its indices."""
    if node.op is not Ops.INDEX:
        return node.src
    return (*node.src, *(i.src[0] for i in node.src[1:] if is_gated(i)))


def steps(roots: Iterable[UOp], closed: Collection[UOp] = ()) -> Steps:
    """The order in which `roots` are computed. Sources of a node of `closed` are left out: it computes them
    itself, piece by piece."""
    keep = list(roots)
    order: dict[UOp, None] = {}
    stack = [(r, False) for r in reversed(keep)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order[node] = None
        elif node not in order and not _is_leaf(node):
            stack.append((node, True))
            if node not in closed:
                stack.extend((s, False) for s in reversed(_uses(node)) if s not in order)
    last = {s: i for i, node in enumerate(order) if node not in closed for s in _uses(node) if s in order}
    dead: list[list[UOp]] = [[] for _ in order]
    for node, i in last.items():
        if node not in keep:
            dead[i].append(node)
    return Steps(tuple(order), tuple(map(tuple, dead)))


def _bytes(node: UOp) -> int:
    """Bytes of one element of a temporary. A load has, for a moment, its indices and its gate beside it."""
    own = 8 if node.dtype is dtypes.weakint else node.dtype.itemsize
    return own + 8 if node.op is Ops.INDEX else own


def peak(order: Steps, elements: Callable[[UOp], int]) -> int:
    """The largest sum of bytes that are alive at once, when a node has ``elements(node)`` elements."""
    size: dict[UOp, int] = {}
    now = most = 0
    for node, dead in zip(order.nodes, order.dead, strict=True):
        size[node] = elements(node) * _bytes(node)
        now += size[node]
        most = max(most, now)
        now -= sum(size[d] for d in dead)
    return most


def widths(order: Steps, outer: Sequence[UOp], pieces: int = 1, per_result: int = 0) -> dict[UOp, int]:
    """How many iterations of each loop a block has: of an output loop at most a number that makes `pieces`
    blocks along it. Where that does not fit, output loops are cut further, from the outermost, then those of
    reductions. `per_result`: bytes that storing one result takes."""
    ranges = {r for node in order.nodes for r in node.ranges}
    ranges.update(r for node in order.nodes if node.op is Ops.REDUCE for r in node.src[1:])
    out = {r: -(-extent(r) // pieces) for r in outer}
    inner = {r: extent(r) for r in sorted(ranges - set(outer), key=lambda r: r.arg[0])}
    out.update(inner)
    used = {node: tuple(node.ranges) for node in order.nodes}

    def too_large() -> bool:
        most = peak(order, lambda node: math.prod(out[r] for r in used[node]))
        return most + per_result * math.prod(out[r] for r in outer) > _PLANNED

    for r in (*outer, *sorted(inner, key=lambda r: (-inner[r], r.arg[0]))):
        while out[r] > 1 and too_large():
            out[r] = -(-out[r] // 2)
    return out
