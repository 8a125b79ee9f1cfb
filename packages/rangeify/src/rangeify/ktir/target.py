"""Rewrites of kernel values into what the target's dialects have, none of which changes a bit."""

from __future__ import annotations

from typing import Final

from uopgraph import Ops, PatternMatcher, UOp, UPat, graph_rewrite


def _difference(x: UOp, y: UOp, c: UOp) -> UOp | None:
    """x + y * -1 -> x - y for floats: negation is exact."""
    if not x.dtype.is_float or c.arg != -1:
        return None
    return UOp(Ops.SUB, None, (x, y))


def _quotient(x: UOp) -> UOp:
    """1 / x."""
    return UOp(Ops.FDIV, None, (UOp.const(1.0, x.dtype), x.src[0]))


def _multiply_add(a: UOp, b: UOp, c: UOp) -> UOp:
    """a * b + c with two roundings, which is what MULACC means."""
    return a * b + c


pm_target: Final = PatternMatcher(
    [
        (UPat(Ops.ADD, src=[UPat.var("x"), UPat(Ops.MUL, src=(UPat.var("y"), UPat.cvar("c")))]), _difference),
        (UPat(Ops.RECIPROCAL, name="x"), _quotient),
        (UPat(Ops.MULACC, src=(UPat.var("a"), UPat.var("b"), UPat.var("c"))), _multiply_add),
    ]
)


def for_target(value: UOp) -> UOp:
    """The value of a kernel in operations that the lowering has a scalar form for."""
    return graph_rewrite(value, pm_target, name="target")
