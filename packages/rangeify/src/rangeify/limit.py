"""Kernels that touch no more buffers than the target allows (scheduler spec 9)."""

from __future__ import annotations

import attrs

from rangeify.reasons import Reason, Rule
from uopgraph import AddrSpace, AxisType, BufferizeOpts, GroupOp, Ops, UOp

_Buffers = frozenset[UOp]


@attrs.define
class _Fresh:
    """Numbers for new ranges, above every one in the graph."""

    next: int

    def range_like(self, r: UOp) -> UOp:
        self.next += 1
        return r.replace(arg=(self.next - 1, AxisType.LOOP))


def _stored(value: UOp, fresh: _Fresh, most: int) -> UOp:
    """The value by way of a buffer of its own: it is computed in a loop nest of fresh ranges."""
    ranges = [r for r in value.ranges if r.arg[-1] is not AxisType.DEVICE]
    renamed = {r: fresh.range_like(r) for r in ranges}
    options = BufferizeOpts(value.device, AddrSpace.GLOBAL, False)
    inside = value.substitute(renamed, name="rename ranges", walk=True)
    stage = inside.stage(*renamed.values(), opts=options).rtag(Reason(Rule.LIMIT, str(most)))
    return stage.index(*ranges)


def limit_buffers(sink: UOp, most: int) -> UOp:
    """Store element-wise sources of every operation that would read more than ``most - 1`` buffers; one
    buffer is the output's. Runs once over the graph; index arithmetic, which has no device, is left alone."""
    order = list(sink.toposort())
    fresh = _Fresh(1 + max((n.arg[0] for n in order if n.op is Ops.RANGE), default=-1))
    new: dict[UOp, UOp] = {}
    below: dict[UOp, _Buffers] = {}
    for node in order:
        sources = [new[s] for s in node.src]
        read: _Buffers = frozenset().union(*(below[s] for s in sources))
        if node.op in GroupOp.ALU and len(read) > most - 1:
            for i, s in enumerate(sources):
                if s.op in GroupOp.Elementwise and s.device is not None and len(below[s]) > 1:
                    sources[i] = _stored(s, fresh, most)
                    below[sources[i]] = frozenset({sources[i].src[0]})
            read = frozenset().union(*(below[s] for s in sources))
        now = node.rebuild(tuple(sources))
        new[node] = now
        if node.op in (Ops.STAGE, Ops.AFTER) or (node.op in GroupOp.Defines and not node.is_variable):
            below[now] = frozenset({now if node.op is not Ops.AFTER else now.buf_uop})
        elif node.op in (Ops.STORE, Ops.END):
            below[now] = frozenset()
        else:
            below[now] = read
    return new[sink]
