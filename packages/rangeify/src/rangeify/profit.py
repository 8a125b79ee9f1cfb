"""Stages that pay (``Config.fusion = "profit"``): expensive values are kept out of loops that repeat them.

The reference rules recompute any value that reads few buffers. Here such a value is stored after all when
computing it k times costs more than computing it once, writing it, and reading it k times (reading 33):

    k * (c + source bytes)  >  c + source bytes + (1 + k) * b + launch

with c the operations of one pass over the value, in bytes that could be moved meanwhile, and b its bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import attrs

from rangeify.reasons import Cause, Reason, Rule
from uopgraph import GroupOp, Ops, UOp, dtypes

#: What starting one more kernel costs, in bytes.
LAUNCH: Final = 4096
#: Bytes that one operation is worth; functions and divisions are computed in many steps.
_SIMPLE: Final = 1
_COSTLY: Final = 16
_EXPENSIVE: Final = GroupOp.Transcendental | {Ops.FDIV, Ops.FMOD, Ops.POW, Ops.ATAN2} | GroupOp.IntDivision
_ROOTS: Final = frozenset({Ops.STAGE, Ops.STORE})


@attrs.frozen
class Price:
    """What a stage costs: it has ``nbytes``, one pass takes ``work`` operations (in bytes) and reads
    ``source`` bytes, and its readers want each element ``times`` times."""

    nbytes: int
    work: int
    source: int
    times: float

    @property
    def recomputed(self) -> float:
        """The cost without storage."""
        return self.times * (self.work + self.source)

    @property
    def stored(self) -> float:
        """The cost with storage."""
        return self.work + self.source + (1 + self.times) * self.nbytes + LAUNCH

    @property
    def pays(self) -> bool:
        """Whether storing is cheaper."""
        return self.recomputed > self.stored


def _extent(r: UOp) -> int:
    return int(r.src[0].vmax) if r.op is Ops.RANGE else 1


def _elements(ranges: Iterable[UOp]) -> int:
    return math.prod([_extent(r) for r in ranges])


def _region(root: UOp) -> dict[UOp, int]:
    """The nodes that are computed in the loops of `root`, and how often each is for one turn of those loops:
    once for every combination of the reduction loops around it."""
    times = dict.fromkeys(root.src[:1], 1) if root.op is Ops.STAGE else dict.fromkeys(root.src, 1)
    inside: dict[UOp, None] = {}
    stack = list(times)
    while stack:
        node = stack.pop()
        if node in inside:
            continue
        inside[node] = None
        stack.extend(_inner(node))
    for node in reversed([n for n in root.toposort() if n in inside]):
        here = times.get(node, 1)
        if node.op is Ops.REDUCE:
            here *= _elements(node.src[1:])
        for s in _inner(node):
            times[s] = max(times.get(s, 1), here)
    return {n: times.get(n, 1) for n in inside}


def _inner(node: UOp) -> tuple[UOp, ...]:
    """The sources of a node within its region."""
    if node.op in _ROOTS or node.op in GroupOp.Defines or node.op in (Ops.AFTER, Ops.END, Ops.RANGE):
        return ()
    return node.src[1:] if node.op is Ops.INDEX else node.src[:1] if node.op is Ops.REDUCE else node.src


class _Pricing:
    """Prices of all stages, from the last consumer to the first."""

    def __init__(self, sink: UOp) -> None:
        self.order = list(sink.toposort(enter_calls=False))
        self.regions = {n: _region(n) for n in self.order if n.op in _ROOTS}
        self.loops: dict[UOp, int] = {}
        for node in self.order:
            if node.op is Ops.STAGE:
                self.loops[node] = _elements(node.src[1:])
            elif node.op is Ops.STORE:
                self.loops.setdefault(node, 1)
            elif node.op is Ops.END and node.src[0].op is Ops.STORE:
                self.loops[node.src[0]] = _elements(node.src[1:])
        self.readers: dict[UOp, list[tuple[UOp, int]]] = {}
        for root, region in self.regions.items():
            for node, times in region.items():
                if node.op is Ops.INDEX and node.src[0].op is Ops.STAGE:
                    self.readers.setdefault(node.src[0], []).append((root, times))

    def price(self, stage: UOp, turns: dict[UOp, float]) -> Price:
        elements = self.loops[stage]
        wanted = sum(turns[root] * times for root, times in self.readers.get(stage, ()))
        work = source = 0
        for node, times in self.regions[stage].items():
            if node.op is Ops.INDEX:
                touched = min(_elements(node.ranges), math.prod(int(d) for d in node.src[0].max_shape))
                source += touched * node.dtype.itemsize
            elif (node.op in GroupOp.ALU or node.op is Ops.REDUCE) and not _is_index(node):
                each = _COSTLY if node.op in _EXPENSIVE else _SIMPLE
                many = _elements(node.src[1:]) if node.op is Ops.REDUCE else 1
                work += elements * times * many * each
        return Price(elements * stage.dtype.itemsize, work, source, wanted / max(elements, 1))

    def decide(self) -> dict[UOp, Price]:
        """The stages that pay. A stage that is not stored runs as often as its readers want it."""
        turns: dict[UOp, float] = {}
        paying = {}
        for node in reversed(self.order):
            if node.op is Ops.STORE:
                turns[node] = self.loops[node]
            elif node.op is Ops.STAGE:
                price = self.price(node, turns)
                kept = not node.arg.removable or node.src[0].op is Ops.CONTIGUOUS
                if not kept and node.device is not None and price.pays:
                    paying[node] = price
                    kept = True
                kept = kept or _reads_in_a_reduction(self.regions[node])
                turns[node] = self.loops[node] if kept else price.times * self.loops[node]
        return paying


def _is_index(node: UOp) -> bool:
    return node.dtype is dtypes.weakint


def _reads_in_a_reduction(region: dict[UOp, int]) -> bool:
    """Whether the reference rules keep the stage anyway: it reduces over what it reads."""
    return any(n.op is Ops.REDUCE for n in region) and any(
        n.op is Ops.INDEX and times > 1 for n, times in region.items()
    )


def keep_what_pays(sink: UOp) -> UOp:
    """The ranged graph with every stage that pays marked as not removable."""
    paying = _Pricing(sink).decide()
    if not paying:
        return sink
    new: dict[UOp, UOp] = {}
    for node in sink.toposort(enter_calls=False):
        now = node.rebuild(tuple(new.get(s, s) for s in node.src))
        price = paying.get(node)
        if price is not None:
            cause = node.tag if isinstance(node.tag, Cause) else None
            reason = Reason(Rule.PROFIT, f"{price.times:g}", cause)
            now = now.replace(arg=attrs.evolve(now.arg, removable=False), tag=reason)
        new[node] = now
    return new[sink]
