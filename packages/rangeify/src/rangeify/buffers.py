"""Stages that stayed become storage: ALLOC, a loop that fills it, and readers that wait (scheduler spec
10).
"""

from __future__ import annotations

from typing import Final

import attrs

from rangeify.errors import UnsupportedError
from rangeify.reasons import Reason, Rule
from rangeify.unstage import why_kept
from uopgraph import AddrSpace, Ops, PatternMatcher, UOp, UPat, graph_rewrite, strong_dtype


@attrs.define
class Allocation:
    """The context: how many ALLOCs the call has, where each stage went, and why each ALLOC slot is there."""

    count: int = 0
    reasons: dict[int, Reason] = attrs.field(factory=dict)
    place: dict[UOp, UOp] = attrs.field(factory=dict)


def _extent(index: UOp) -> int:
    """The size of an axis of storage; of a symbolic one the greatest."""
    return 1 if index.op is Ops.CONST else int(index.src[0].vmax)


def _stage_to_storage(ctx: Allocation, stage: UOp, x: UOp) -> UOp:
    """INDEX(STAGE(v, k...), i...) -> INDEX(AFTER(ALLOC, END(STORE(INDEX(ALLOC, k...), v), k...)), i...)."""
    if stage.arg.addrspace is not AddrSpace.GLOBAL:
        raise UnsupportedError("storage local to a kernel (a partly staged value)")
    filled = ctx.place.get(stage)
    if filled is None:
        value, at = stage.src[0], stage.src[1:]
        dtype = strong_dtype(value.dtype)
        ctx.count += 1
        ctx.reasons[-ctx.count] = why_kept(stage) or Reason(Rule.ROWS, "", stage.tag)
        target = UOp.alloc([_extent(k) for k in at], dtype, stage.arg.device, slot=-ctx.count)
        stored = target.index(*at).store(value.cast(dtype))
        filled = ctx.place[stage] = target.after(stored.end(*(k for k in at if k.op is Ops.RANGE)))
    return filled.index(*x.src[1:]).cast(stage.dtype)


def _drop_nothing(x: UOp) -> UOp | None:
    """Effects that vanished leave AFTER and SINK; an AFTER that waits for nothing is its source."""
    first = 0 if x.op is Ops.SINK else 1
    kept = tuple(s for s in x.src[first:] if s.op is not Ops.NOOP)
    return x.src[0] if first and not kept else x.rebuild(x.src[:first] + kept)


def _plain(x: UOp) -> UOp | None:
    """The user's mark has done its work; one with requests goes into the kernel that fills its buffer."""
    return x.src[0] if x.arg is None else None


pm_buffers: Final = PatternMatcher(
    [
        (
            UPat(Ops.INDEX, src=(UPat(Ops.STAGE, name="stage"),), allow_any_len=True, name="x"),
            _stage_to_storage,
        ),
        (UPat({Ops.AFTER, Ops.SINK}, name="x"), _drop_nothing),
        (UPat(Ops.CONTIGUOUS, name="x"), _plain),
    ]
)


def stage_to_storage(sink: UOp) -> tuple[UOp, Allocation]:
    """The graph without global stages."""
    ctx = Allocation(max((-n.arg.slot for n in sink.toposort() if n.op is Ops.ALLOC), default=0))
    return graph_rewrite(sink, pm_buffers, ctx, name="stage to storage"), ctx
