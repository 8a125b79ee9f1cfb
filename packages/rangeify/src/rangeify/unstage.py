"""Simplification of the ranged graph and removal of stages that do not pay (scheduler spec 8).

This is where fusion is decided: range assignment stages generously, and a stage is substituted away here
unless one of the exits of the cost model keeps it.
"""

from __future__ import annotations

import math
from typing import Final

import attrs

from rangeify.reasons import Cause, Reason, Rule
from rangeify.reduce_rules import pm_fast_reduce, pm_reduce
from uopgraph import (
    AddrSpace,
    AxisType,
    BottomUpGate,
    GroupOp,
    Ops,
    PatternMatcher,
    UOp,
    UPat,
    fast_symbolic,
    graph_rewrite,
    symbolic,
)

#: More distinct buffers than this below a stage keep it (scheduler spec 8.2).
MAX_RECOMPUTED_BUFFERS: Final = 3
_COUNTED: Final = GroupOp.Defines | {Ops.STAGE, Ops.MSTACK}
_AFTER, _STORE, _REDUCE = Ops.AFTER, Ops.STORE, Ops.REDUCE  # reading a member of an Enum is slow


def _accessed(value: UOp) -> tuple[dict[UOp, None], list[UOp]]:
    """The distinct buffers that computing `value` reads, and its reductions. Stages and states are not
    entered.
    """
    buffers: dict[UOp, None] = {}
    reduces: list[UOp] = []
    seen = {value}
    stack = [value]
    while stack:
        node = stack.pop()
        op = node.op
        if op is _AFTER:
            buffers[node.buf_uop] = None
        elif op in _COUNTED and not node.is_variable:
            buffers[node] = None
        elif op is not _STORE:
            if op is _REDUCE:
                reduces.append(node)
            for s in node.src:
                if s not in seen:
                    seen.add(s)
                    stack.append(s)
    return buffers, reduces


def why_kept(stage: UOp) -> Reason | None:
    """The reason for which a stage stays, or None when it is to be removed (scheduler spec 8.2)."""
    value, cause = stage.src[0], stage.tag if isinstance(stage.tag, Cause) else None
    if value.op in (Ops.CONTIGUOUS, Ops.NOOP) or not stage.arg.removable:
        return stage.tag if isinstance(stage.tag, Reason) else Reason(Rule.MARK)
    buffers, reduces = _accessed(value)
    if len(buffers) > MAX_RECOMPUTED_BUFFERS:
        return Reason(Rule.BUFFERS, str(len(buffers)), cause)
    for reduce in reduces:
        if _accessed(reduce.src[0])[0]:
            return Reason(Rule.REDUCTION, "", cause)
    return None


def _gate(ctx: dict[UOp, UOp], x: UOp) -> None:
    ranges = x.ranges
    if not any(r in ranges for r in ctx):
        raise BottomUpGate


_PRUNE: Final = PatternMatcher([(UPat(GroupOp.All, name="x"), _gate)])


def inline_stage(stage: UOp, places: tuple[UOp, ...]) -> UOp:
    """The staged value at `places`: its closed ranges replaced by them."""
    pairs = zip(stage.src[1:], places, strict=True)
    mapping = {k: v for k, v in pairs if k.op is Ops.RANGE and k is not v}
    return stage.src[0].substitute(mapping, name="inline stage", extra_pm=_PRUNE, walk=True)


def _repeats_row_results(stage: UOp, x: UOp) -> bool:
    """Whether `x` reads, in a reduction loop, a value made of results of other reductions over the same
    rows.
    """
    if not any(r.arg[-1] is AxisType.REDUCE for i in x.src[1:] for r in i.ranges):
        return False
    value = stage.src[0]
    stack, seen = [value], {value}
    while stack:
        node = stack.pop()
        if node.op is Ops.INDEX:
            read = node.src[0]
            fewer = len({r for i in node.src[1:] for r in i.ranges}) < len(value.ranges)
            if read.op is Ops.STAGE and fewer and _accessed(read.src[0])[1]:
                return True
        elif node.op not in _COUNTED and node.op not in (Ops.AFTER, Ops.STORE):
            for s in node.src:
                if s not in seen:
                    seen.add(s)
                    stack.append(s)
    return False


@attrs.frozen
class Mode:
    """``rows``: values that a later merge of rows would compute once are not put into loops that repeat them.
    ``by_size``: reductions over buffers are recomputed, too, where the stage is much larger than they."""

    rows: bool = False
    by_size: bool = False


#: A stage of this many times the elements of what it reads is recomputed under ``Mode.by_size``.
_MUCH_LARGER: Final = 10


def _is_let(stage: UOp) -> bool:
    """A stage of some axes only is a value that a kernel keeps for its other loops: no storage of its own."""
    return stage.arg.addrspace is not AddrSpace.GLOBAL


def _much_larger(stage: UOp, x: UOp) -> bool:
    """Whether a stage has ten times the elements of the buffers below it, and something to put in its place
    (scheduler spec 8.2, 4)."""
    if stage.src[0].op in (Ops.CONTIGUOUS, Ops.NOOP) or not stage.arg.removable:
        return False
    elements = math.prod(int(r.src[0].vmax) for r in stage.src[1:] if r.op is Ops.RANGE)
    below = sum(math.prod(b.max_shape) for b in _accessed(stage.src[0])[0])
    plain = (
        k.op is Ops.RANGE and not any(r.arg[-1] is AxisType.REDUCE for r in v.ranges)
        for k, v in zip(stage.src[1:], x.src[1:], strict=True)
    )
    return elements + 1 >= _MUCH_LARGER * (below + 1) and any(plain)


def _remove_stage(ctx: Mode, stage: UOp, x: UOp) -> UOp | None:
    """INDEX(STAGE(value, k...), v...) -> value with each k replaced by v."""
    kept = why_kept(stage) is not None or (ctx.rows and _repeats_row_results(stage, x))
    if kept and not _is_let(stage) and not (ctx.by_size and _much_larger(stage, x)):
        return None
    return inline_stage(stage, x.src[1:])


def _stored_twice(ctx: Mode, stage: UOp, x: UOp) -> UOp | None:
    """A stage of what another stage holds, at the same places, is that one (scheduler spec 8.3). Where rows
    are merged it takes over the mark."""
    value = stage.src[0].src[0] if stage.src[0].op is Ops.CONTIGUOUS else stage.src[0]
    if value.op is not Ops.INDEX or value.src[0].op is not Ops.STAGE or stage.src[0].arg is not None:
        return None
    inner, places = value.src[0], value.src[1:]
    if [k for k in places if k.op is not Ops.CONST] != [k for k in stage.src[1:] if k.op is not Ops.CONST]:
        return None
    at = dict(zip(stage.src[1:], x.src[1:], strict=True))
    if ctx.rows and stage.src[0].op is Ops.CONTIGUOUS:
        inner = inner.replace(arg=attrs.evolve(inner.arg, removable=False))
    return inner.index(*(at[k] if k.op is not Ops.CONST else k for k in places))


def _dead_axes(stage: UOp, x: UOp) -> UOp | None:
    """Axes along which the staged value is constant need no storage (scheduler spec 8.1)."""
    value = stage.src[0]
    if not stage.arg.removable or value.op in (Ops.CONTIGUOUS, Ops.NOOP, Ops.AFTER):
        return None
    ranges = value.ranges
    kept = [i for i, k in enumerate(stage.src[1:], 1) if k in ranges]
    if len(kept) == len(stage.src) - 1:
        return None
    small = stage.replace(src=(value, *(stage.src[i] for i in kept)))
    return small.index(*(x.src[i] for i in kept))


def _stage_of_const(stage: UOp, x: UOp) -> UOp | None:
    return stage.src[0] if stage.src[0].op is Ops.CONST else None


def _index_of_const(c: UOp, x: UOp) -> UOp:
    return c


def _self_store(x: UOp, target: UOp) -> UOp:
    """Storing what is there already is no effect."""
    return UOp(Ops.NOOP, x.dtype)


def _end_of_nothing(x: UOp, effect: UOp) -> UOp:
    return effect


_staged: Final = UPat(Ops.INDEX, src=(UPat(Ops.STAGE, name="stage"),), allow_any_len=True, name="x")

pm_unstage: Final = PatternMatcher(
    [
        (UPat(Ops.INDEX, src=(UPat(Ops.CONST, name="c"),), allow_any_len=True, name="x"), _index_of_const),
        (_staged, _stage_of_const),
        (_staged, _stored_twice),
        (_staged, _dead_axes),
        (_staged, _remove_stage),
        (UPat(Ops.STORE, src=(UPat(name="target"), UPat(name="target")), name="x"), _self_store),
        (UPat(Ops.END, src=(UPat(Ops.NOOP, name="effect"),), allow_any_len=True, name="x"), _end_of_nothing),
    ]
)


def unstage(sink: UOp, fast: bool = False, mode: Mode | None = None) -> UOp:
    """Simplify, and substitute every removable stage at its readers, to a fixed point.

    With `fast` also by rules that hold in real arithmetic only.
    """
    rules = (fast_symbolic + pm_fast_reduce if fast else symbolic) + pm_reduce + pm_unstage
    return graph_rewrite(sink, rules, Mode() if mode is None else mode, name="unstage")
