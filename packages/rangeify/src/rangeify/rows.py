"""Row fusion: several reductions over one row in one kernel (design 10).

A stage that only one kernel reads, at the kernel's own row indices, becomes a let of that kernel: a value
that is computed once per row and kept while the row is worked on. In the graph a let is its expression, put
in place of the reads: an expression is computed once for its own ranges, not for those of its readers.
"""

from __future__ import annotations

import math

import attrs

from rangeify.unstage import inline_stage
from uopgraph import GroupOp, Ops, UOp

_ROOTS = (Ops.STAGE, Ops.STORE)


@attrs.define
class _Kernel:
    """A kernel to be: a stage or store with the lets merged into it. ``rows``: the output ranges that every
    let has among its indices; None while there is no let."""

    root: UOp
    loops: dict[UOp, None]
    members: list[UOp]
    rows: dict[UOp, None] | None = None


@attrs.frozen
class _Reading:
    """One INDEX of a stage inside the region of `root`."""

    root: UOp
    index: UOp


def _region(root: UOp) -> list[UOp]:
    """The nodes that are computed in the loops of `root`: not behind other stages and states of storage."""
    seen: dict[UOp, None] = {}
    stack = list(root.src)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen[node] = None
        if node.op is Ops.INDEX:
            stack.extend(node.src[1:])
        elif node.op not in (*_ROOTS, Ops.AFTER, Ops.END) and node.op not in GroupOp.Defines:
            stack.extend(node.src)
    return list(seen)


class _Merging:
    """Decides, from the last consumer to the first, which stages become lets of which kernel."""

    def __init__(self, sink: UOp, row_bytes: int) -> None:
        self.order = list(sink.toposort(enter_calls=False))
        self.row_bytes = row_bytes
        self.regions = {n: _region(n) for n in self.order if n.op in _ROOTS}
        self.readings: dict[UOp, list[_Reading]] = {}
        for root, region in self.regions.items():
            for node in region:
                if node.op is Ops.INDEX and node.src[0].op is Ops.STAGE:
                    self.readings.setdefault(node.src[0], []).append(_Reading(root, node))
        self.kernels: dict[UOp, _Kernel] = {}
        for node in self.order:
            if node.op is Ops.STAGE:
                self.kernels[node] = _Kernel(
                    node, {r: None for r in node.src[1:] if r.op is Ops.RANGE}, [node]
                )
            elif node.op is Ops.END and node.src[0].op is Ops.STORE:
                self.kernels[node.src[0]] = _Kernel(node.src[0], dict.fromkeys(node.src[1:]), [node.src[0]])
            elif node.op is Ops.STORE:
                self.kernels[node] = _Kernel(node, {}, [node])
        #: row index of a merged stage -> range of the kernel that it was merged into
        self.row_of: dict[UOp, UOp] = {}
        self.merged: set[UOp] = set()

    def run(self) -> None:
        for node in reversed(self.order):
            if node.op is Ops.STAGE and node.arg.removable and node.src[0].op is not Ops.CONTIGUOUS:
                self._try(node)

    def _try(self, stage: UOp) -> None:
        readings = self.readings.get(stage, [])
        targets = {id(self.kernels[r.root]): self.kernels[r.root] for r in readings}
        if len(targets) != 1:
            return
        (kernel,) = targets.values()
        places = [[self.row_of.get(v, v) for v in r.index.src[1:]] for r in readings]
        if not all(v.op in (Ops.RANGE, Ops.CONST) for place in places for v in place):
            return
        own: dict[UOp, UOp] = {}
        for k, *seen in zip(stage.src[1:], *places, strict=True):
            if k.op is Ops.RANGE and seen[0] in kernel.loops and all(v is seen[0] for v in seen):
                own[k] = seen[0]
        rows = {v: None for v in own.values() if kernel.rows is None or v in kernel.rows}
        members = [*kernel.members, *self.kernels[stage].members]
        row_of = {**self.row_of, **own}
        if not rows or _row_bytes(members, self.regions, rows, row_of) > self.row_bytes:
            return
        self.row_of = row_of
        kernel.members, kernel.rows = members, rows
        self.kernels[stage] = kernel
        self.merged.add(stage)


def _extent(r: UOp) -> int:
    return int(r.src[0].vmax)


def _row_bytes(
    members: list[UOp], regions: dict[UOp, list[UOp]], rows: dict[UOp, None], row_of: dict[UOp, UOp]
) -> int:
    """Bytes that are live for one row: the lets, and what is loaded for it."""
    lets = set(members[1:])
    total = 0
    for let in lets:
        inside = [k for k in let.src[1:] if k.op is Ops.RANGE and row_of.get(k, k) not in rows]
        total += math.prod(_extent(k) for k in inside) * let.dtype.itemsize
    loads: dict[UOp, int] = {}
    for member in members:
        for node in regions[member]:
            if node.op is not Ops.INDEX or node.src[0] in lets:
                continue
            ranges = {row_of.get(r, r): None for i in node.src[1:] for r in i.ranges}
            size = math.prod(_extent(r) for r in ranges if r not in rows) * node.dtype.itemsize
            loads[node.src[0]] = max(size, loads.get(node.src[0], 0))
    return total + sum(loads.values())


def merge_rows(sink: UOp, row_bytes: int) -> UOp:
    """The graph with every stage that fits as a let put in place of its reads.

    A stage is merged into a kernel when nothing else reads it, all reads are at plain loop indices, and what
    is live for one row - lets and loads - fits `row_bytes`.
    """
    merging = _Merging(sink, row_bytes)
    merging.run()
    new: dict[UOp, UOp] = {}
    for node in merging.order:
        now = node.rebuild(tuple(new.get(s, s) for s in node.src))
        if node.op is Ops.INDEX and node.src[0] in merging.merged:
            now = inline_stage(now.src[0], now.src[1:])
        new[node] = now
    return new[sink]
