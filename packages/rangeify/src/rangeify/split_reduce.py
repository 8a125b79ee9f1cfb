"""Long reductions in two steps, so that their first step has parallel work (scheduler spec 6.1)."""

from __future__ import annotations

import math
from typing import Final

from rangeify.config import Config
from rangeify.reasons import Reason, Rule
from uopgraph import GroupOp, Ops, PatternMatcher, UOp, UPat
from uopgraph.movement import push_index

#: A reduction of fewer elements per result stays whole.
THRESHOLD: Final = 32768
#: Greatest number of partial results of the whole reduction.
MAX_PARTIALS: Final = 2**22
MAX_DIVISOR: Final = 256
MIN_DIVISOR: Final = 8


def _expanded_axes(x: UOp) -> set[int]:
    """The axes of `x` along which movement operations only repeat: their index reaches no source."""
    ranges = [UOp.range(d, i) if d != 1 else UOp.const(0) for i, d in enumerate(x.shape)]
    seen: set[UOp] = set()
    if x.op in GroupOp.Movement:
        _, at, _ = push_index(x, ranges)
        for index in at:
            seen.update(index.ranges)
        return {i for i, r in enumerate(ranges) if r.op is Ops.RANGE and r not in seen}
    return set()


def split_reduce(ctx: Config, x: UOp) -> UOp | None:
    """REDUCE over n leading axes -> REDUCE of one axis of d partial results, each stored first."""
    source, (op, n) = x.src[0], x.arg
    if not ctx.split_reduce or n == 0 or not all(isinstance(d, int) for d in source.shape):
        return None
    shape = tuple(int(d) for d in source.shape)
    total, out = math.prod(shape), math.prod(shape[n:])
    if out == 0 or total // out < THRESHOLD:
        return None
    expanded = _expanded_axes(source)
    for axis in range(n):
        if axis in expanded:
            continue
        for d in range(min(MAX_DIVISOR, MAX_PARTIALS // out), MIN_DIVISOR - 1, -1):
            if shape[axis] % d == 0:
                return _split(source, op, n, axis, d)
    return None


def _split(source: UOp, op: Ops, n: int, axis: int, d: int) -> UOp:
    shape = source.shape
    cut = source.reshape((*shape[:axis], d, shape[axis] // d, *shape[axis + 1 :]))
    order = [i for i in range(cut.ndim) if i != axis]
    first = UOp(Ops.REDUCE, None, (cut.permute((*order, axis)),), (op, n))
    partial = UOp(Ops.CONTIGUOUS, None, (first,), None, Reason(Rule.SPLIT))
    last = partial.ndim - 1
    return UOp(Ops.REDUCE, None, (partial.permute((last, *range(last))),), (op, 1))


pm_split_reduce: Final = PatternMatcher([(UPat(Ops.REDUCE, name="x"), split_reduce)])
